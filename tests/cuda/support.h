// SPDX-License-Identifier: MIT
// Common parts of the CUDA tests: device arrays, irregular graphs, and the judgement of results.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gnograd_cuda.h"

inline void must(int status, const char* what) {
  if (status == 0) return;
  std::printf("%s: %s\n", what, gnograd_cuda_error_string(status));
  std::exit(2);
}
#define MUST(call) must(int(call), #call)

// True if some of the cases will do, most of them in float32.
inline bool short_run() { return std::getenv("GNOGRAD_SHORT_TESTS") != nullptr; }
// False if nobody looks at values: under the thread sanitizer, which takes a hundred times as long. A
// short run whose values matter says so.
inline bool values_matter() {
  const char* text = std::getenv("GNOGRAD_SHORT_TESTS");
  return !text || std::string(text) == "values";
}

// An array in device memory, of exactly its size. Numbers that were not written read as NaN.
template <class T>
class Device {
  void* memory = nullptr;
  size_t n;
  size_t shift;  // elements that the array starts after an aligned address

  void fill(const void* host) {
    if (n) MUST(gnograd_cuda_copy(get(), host, n * sizeof(T), nullptr));
  }

 public:
  explicit Device(size_t n, size_t shift = 0) : n(n), shift(shift) {
    MUST(gnograd_cuda_allocate((n + shift) * sizeof(T), &memory, nullptr));
    fill(std::vector<unsigned char>(n * sizeof(T), 0xff).data());
  }
  explicit Device(const std::vector<T>& host, size_t shift = 0) : Device(host.size(), shift) {
    fill(host.data());
  }
  Device(Device&& other) noexcept : memory(other.memory), n(other.n), shift(other.shift) {
    other.memory = nullptr;
  }
  Device(const Device&) = delete;
  ~Device() {
    if (memory) MUST(gnograd_cuda_free(memory, nullptr));
  }

  T* get() { return static_cast<T*>(memory) + shift; }
  std::vector<T> host() {
    std::vector<T> copy(n);
    if (n) MUST(gnograd_cuda_copy(copy.data(), get(), n * sizeof(T), nullptr));
    MUST(gnograd_cuda_synchronize(nullptr));
    return copy;
  }
};

// ---- graphs ----

struct HostGraph {
  std::string name;
  int64_t n_src, n_dst;
  std::vector<int64_t> offsets;
  std::vector<int32_t> indices;
  std::vector<int64_t> edge;  // empty: the position itself

  // Number of edges that there is room for; those behind the last offset are none.
  int64_t n_edges() const { return int64_t(indices.size()); }
  int64_t row(int64_t p) const { return edge.empty() ? p : edge[p]; }
};

// `degree` edges into every destination, from sources that `source` draws.
template <class Degree, class Source>
HostGraph make_graph(std::string name, int64_t n_src, int64_t n_dst, bool edge_ids, Degree degree,
                     Source source) {
  HostGraph g{std::move(name), n_src, n_dst, {0}, {}, {}};
  for (int64_t i = 0; i < n_dst; ++i) {
    for (int64_t d = degree(i); d > 0; --d) g.indices.push_back(int32_t(source(i)));
    g.offsets.push_back(g.n_edges());
  }
  if (edge_ids) {
    g.edge.resize(g.indices.size());
    std::iota(g.edge.begin(), g.edge.end(), int64_t(0));
    std::shuffle(g.edge.begin(), g.edge.end(), std::mt19937(5));
  }
  return g;
}

// Bipartite, with a destination and a source whose edges are divided among several units of work,
// destinations without edges and repeated edges; its edge table is in another order.
inline HostGraph power_law() {
  auto random = std::make_shared<std::mt19937>(3);
  return make_graph(
      "power law", 37, 70, true,
      [](int64_t i) { return i % 7 == 3 ? 0
                             : i == 20  ? 390
                                        : 1 + 60 / (1 + i); },
      [=](int64_t) {
        const double u = double((*random)() % 1000) / 1000;
        return int64_t(37 * u * u * u);
      });
}
// Graph with room for more edges, behind which nothing may be read.
constexpr int32_t nowhere = 0x7ffffff0;
inline HostGraph with_room(HostGraph g, int64_t room) {
  g.name += " with room";
  // rows of the edge table that no edge has are among the others
  if (!g.edge.empty())
    for (int64_t& e : g.edge) e += e > 20 ? room : 0;
  g.indices.insert(g.indices.end(), room, nowhere);
  if (!g.edge.empty()) g.edge.insert(g.edge.end(), room, nowhere);
  return g;
}
// Square, with self-loops.
inline HostGraph small_square() {
  auto random = std::make_shared<std::mt19937>(4);
  return make_graph(
      "square", 11, 11, false, [](int64_t i) { return i % 4; },
      [=](int64_t i) { return (*random)() % 3 ? int64_t((*random)() % 11) : i; });
}
// Graph with so many nodes that sums over all of them take several steps.
inline HostGraph many_nodes() {
  return make_graph(
      "many nodes", 4500, 4300, false, [](int64_t i) { return i % 3 == 0; },
      [](int64_t i) { return 7 * i % 4500; });
}
inline HostGraph without_edges(int64_t n_src, int64_t n_dst) {
  return make_graph(
      std::to_string(n_src) + " to " + std::to_string(n_dst) + " nodes, no edges", n_src, n_dst,
      false, [](int64_t) { return 0; }, [](int64_t) { return 0; });
}

struct DeviceGraph {
  Device<int64_t> offsets, edge, src_offsets, src_edge, src_position;
  Device<int32_t> indices, src_indices;
  gnograd_cuda_graph view;
};

inline DeviceGraph to_device(const HostGraph& g) {
  const int64_t end = g.offsets.back(), room = g.n_edges() - end;
  std::vector<int64_t> order(end), offsets(g.n_src + 1), edge, row_of(order.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return g.indices[a] < g.indices[b]; });
  for (const int64_t p : order) ++offsets[g.indices[p] + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  for (int64_t i = 0; i < g.n_dst; ++i)
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) row_of[p] = i;
  std::vector<int32_t> destinations;
  for (const int64_t p : order) {
    destinations.push_back(int32_t(row_of[p]));
    edge.push_back(g.row(p));
  }
  destinations.insert(destinations.end(), room, nowhere);
  edge.insert(edge.end(), room, nowhere);
  order.insert(order.end(), room, nowhere);
  DeviceGraph d{Device<int64_t>(g.offsets),    Device<int64_t>(g.edge),
                Device<int64_t>(offsets),      Device<int64_t>(edge),
                Device<int64_t>(order),        Device<int32_t>(g.indices),
                Device<int32_t>(destinations), {}};
  const bool ids = !g.edge.empty();
  d.view = {g.n_src,
            g.n_dst,
            g.n_edges(),
            {d.offsets.get(), d.indices.get(), ids ? d.edge.get() : nullptr, nullptr},
            {d.src_offsets.get(), d.src_indices.get(), d.src_edge.get(),
             ids ? d.src_position.get() : nullptr}};
  return d;
}

// ---- numbers ----

template <class T>
double to_double(T x) {
  return double(float(x));
}
inline double to_double(double x) { return x; }

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr const char* name = "float32";
  static constexpr double epsilon = 0x1p-23;
};
template <>
struct Type<double> {
  static constexpr const char* name = "float64";
  static constexpr double epsilon = 0x1p-52;
};
template <>
struct Type<__half> {
  static constexpr const char* name = "float16";
  static constexpr double epsilon = 0x1p-10;
};
template <>
struct Type<__nv_bfloat16> {
  static constexpr const char* name = "bfloat16";
  static constexpr double epsilon = 0x1p-7;
};

// Values that all types have exactly.
template <class T>
std::vector<T> randoms(size_t n, std::mt19937& random, double scale = 1) {
  std::uniform_int_distribution<int> steps(-16, 16);
  std::vector<T> x(n);
  for (T& v : x) v = T(float(scale * steps(random) / 16));
  return x;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& x) {
  std::vector<double> out;
  for (const T v : x) out.push_back(to_double(v));
  return out;
}

// ---- judgement ----

inline int passed = 0, failed = 0;

inline void check(bool good, const std::string& what) {
  (good ? passed : failed) += 1;
  if (!good) std::printf("FAILED: %s\n", what.c_str());
}

// Call an entry point with a workspace of exactly the size it asks for.
template <class Entry, class Bytes, class... Sizes, class... Arrays>
void run_entry(Entry entry, Bytes bytes, std::tuple<Sizes...> sizes, Arrays... arrays) {
  std::apply(
      [&](auto... s) {
        const size_t n = bytes(s...);
        Device<char> workspace(n);
        MUST(entry(s..., arrays..., workspace.get(), n, nullptr));
        MUST(gnograd_cuda_synchronize(nullptr));
        check(n == 0 || entry(s..., arrays..., workspace.get(), n - 1, nullptr) ==
                            GNOGRAD_CUDA_WORKSPACE,
              "a workspace that is too small is refused");
      },
      sizes);
}

// Says so and ends well where there is no device to run on.
inline void require_device() {
  int n = 0;
  const int status = gnograd_cuda_device_count(&n);
  if (n > 0) {
    char name[100];
    MUST(gnograd_cuda_device_name(0, sizeof name, name));
    std::printf("on %s: ", name);
    return;
  }
  std::printf("skipped: no CUDA device (%s)\n", gnograd_cuda_error_string(status));
  std::exit(77);
}

inline int report() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

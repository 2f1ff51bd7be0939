// SPDX-License-Identifier: MIT
// Graphs built on the device, against stable sorts on the host.
#include "support.h"

namespace {

struct Built {
  std::vector<int64_t> offsets, edge_ids, src_offsets, src_edges, src_positions, found;
  std::vector<int32_t> indices, src_indices;
  bool operator==(const Built&) const = default;
};

template <class T>
struct Abi;
#define ABI(T, type)                                                                            \
  template <>                                                                                   \
  struct Abi<T> {                                                                               \
    static constexpr const char* name = #type;                                                  \
    static constexpr auto largest = gnograd_cuda_graph_from_edges_largest_##type;               \
    static constexpr auto largest_bytes =                                                       \
        gnograd_cuda_graph_from_edges_largest_workspace_bytes_##type;                           \
    static constexpr auto edges = gnograd_cuda_graph_from_edges_build_##type;                   \
    static constexpr auto edges_bytes =                                                         \
        gnograd_cuda_graph_from_edges_build_workspace_bytes_##type;                             \
    static constexpr auto rows = gnograd_cuda_graph_from_edges_rows_##type;                     \
    static constexpr auto rows_bytes =                                                          \
        gnograd_cuda_graph_from_edges_rows_workspace_bytes_##type;                              \
    static constexpr auto csc = gnograd_cuda_graph_from_csc_build_##type;                       \
    static constexpr auto csc_bytes = gnograd_cuda_graph_from_csc_build_workspace_bytes_##type; \
  };
ABI(int32_t, i32)
ABI(int64_t, i64)

// First edge of every node, for nodes in order, and the end.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& sorted, int64_t n) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i <= n; ++i)
    offsets.push_back(std::lower_bound(sorted.begin(), sorted.end(), i) - sorted.begin());
  return offsets;
}
std::vector<int64_t> stable_order(const std::vector<int64_t>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  return order;
}

// The order by source of edges by destination; nodes that are none mean that there is no edge.
void transpose(Built& g, const std::vector<int64_t>& src, const std::vector<int64_t>& dst,
               int64_t n_src) {
  g.src_positions = stable_order(src);
  std::vector<int64_t> sorted;
  for (const int64_t p : g.src_positions) {
    sorted.push_back(src[p]);
    g.src_indices.push_back(src[p] < n_src ? int32_t(dst[p]) : 0);
    g.src_edges.push_back(g.edge_ids.empty() ? p : g.edge_ids[p]);
  }
  g.src_offsets = offsets_of(sorted, n_src);
}

// Rows with ends of -1 are no edges.
Built expected(std::vector<int64_t> src, std::vector<int64_t> dst, int64_t n_src, int64_t n_dst,
               int self_loops) {
  Built g;
  bool all = true;
  for (size_t e = 0; e < src.size(); ++e)
    if (src[e] < 0 || (self_loops >= 0 && src[e] == dst[e]))
      src[e] = n_src, dst[e] = n_dst, all = false;
  for (int64_t i = 0; i < std::min(n_src, n_dst) && self_loops > 0; ++i)
    src.push_back(i), dst.push_back(i);
  g.found = {0, all && std::is_sorted(dst.begin(), dst.end())};
  g.edge_ids = stable_order(dst);
  std::vector<int64_t> sources, sorted;
  for (const int64_t e : g.edge_ids) {
    sources.push_back(src[e]);
    sorted.push_back(dst[e]);
    g.indices.push_back(src[e] < n_src ? int32_t(src[e]) : 0);
  }
  g.offsets = offsets_of(sorted, n_dst);
  transpose(g, sources, sorted, n_src);
  return g;
}

template <class T, class X>
std::vector<T> as(const std::vector<X>& x) {
  return {x.begin(), x.end()};
}

template <class T>
Built from_edges(const std::vector<int64_t>& src, const std::vector<int64_t>& dst, int64_t n_src,
                 int64_t n_dst, int self_loops, bool gaps = false) {
  const size_t n = src.size() + (self_loops > 0 ? std::min(n_src, n_dst) : 0);
  Device<T> s(as<T>(src)), d(as<T>(dst));
  Device<int64_t> offsets(n_dst + 1), ids(n), src_offsets(n_src + 1), edges(n), positions(n),
      found(2);
  Device<int32_t> indices(n), src_indices(n);
  run_entry(gaps ? Abi<T>::rows : Abi<T>::edges, gaps ? Abi<T>::rows_bytes : Abi<T>::edges_bytes,
            std::tuple(n_src, n_dst, int64_t(src.size()), self_loops), s.get(), d.get(),
            offsets.get(), indices.get(), ids.get(), src_offsets.get(), src_indices.get(),
            edges.get(), positions.get(), found.get());
  return {offsets.host(),   ids.host(),   src_offsets.host(), edges.host(),
          positions.host(), found.host(), indices.host(),     src_indices.host()};
}

template <class T>
Built from_csc(const std::vector<int64_t>& first, const std::vector<int64_t>& sources,
               const std::vector<int64_t>& ids, int64_t n_src, bool with_ids) {
  const size_t n = sources.size();
  const int64_t n_dst = int64_t(first.size()) - 1;
  Device<int64_t> offsets(first), edge_ids(ids), src_offsets(n_src + 1), edges(n), positions(n),
      found(2);
  Device<T> given(as<T>(sources));
  Device<int32_t> indices(n), src_indices(n);
  run_entry(Abi<T>::csc, Abi<T>::csc_bytes, std::tuple(n_src, n_dst, int64_t(n)), offsets.get(),
            given.get(), static_cast<int64_t*>(with_ids ? edge_ids.get() : nullptr), indices.get(),
            src_offsets.get(), src_indices.get(), edges.get(),
            static_cast<int64_t*>(with_ids ? positions.get() : nullptr), found.get());
  Built g{first, ids,          src_offsets.host(), edges.host(),
          {},    found.host(), indices.host(),     src_indices.host()};
  g.found[1] = 0;
  if (with_ids) g.src_positions = positions.host();
  return g;
}

using Ends = std::pair<std::vector<int32_t>, std::vector<int32_t>>;

// Ends of the rows of a graph, some of which may belong to no edge.
Ends ends_of_rows(const Built& g, bool with_ids) {
  const size_t n = g.indices.size();
  const int64_t n_dst = int64_t(g.offsets.size()) - 1;
  Device<int64_t> offsets(g.offsets), ids(g.edge_ids);
  Device<int32_t> indices(g.indices), src(n), dst(n);
  run_entry(gnograd_cuda_graph_rows_ends_i32, gnograd_cuda_graph_rows_ends_workspace_bytes_i32,
            std::tuple(n_dst, int64_t(n)), offsets.get(), indices.get(),
            static_cast<int64_t*>(with_ids ? ids.get() : nullptr), src.get(), dst.get());
  return {src.host(), dst.host()};
}

Ends first_of_rows(const Ends& rows, int64_t n_src, int64_t n_dst) {
  const size_t n = rows.first.size();
  Device<int32_t> src(rows.first), dst(rows.second), kept_src(n), kept_dst(n);
  Device<int64_t> found(1);
  run_entry(gnograd_cuda_graph_union_first_i32, gnograd_cuda_graph_union_first_workspace_bytes_i32,
            std::tuple(n_src, n_dst, int64_t(n)), src.get(), dst.get(), kept_src.get(),
            kept_dst.get(), found.get());
  Ends kept{kept_src.host(), kept_dst.host()};
  kept.first.resize(found.host()[0]);
  kept.second.resize(found.host()[0]);
  return kept;
}

// Rows of which some are no edges and some are there twice, and all that is made of them.
void test_rows(std::vector<int64_t> src, std::vector<int64_t> dst, int64_t n_src, int64_t n_dst) {
  const std::string name = ", " + std::to_string(src.size()) + " rows";
  for (size_t e = 0; e < src.size(); ++e) {
    if (e % 7 == 2) src[e] = dst[e] = -1;
    if (e % 5 == 4) src[e] = src[e / 2], dst[e] = dst[e / 2];
  }
  for (const int self_loops : {-1, 1})
    check(from_edges<int32_t>(src, dst, n_src, n_dst, self_loops, true) ==
              expected(src, dst, n_src, n_dst, self_loops),
          "graph of rows, loops " + std::to_string(self_loops) + name);
  const Ends rows{as<int32_t>(src), as<int32_t>(dst)};
  check(ends_of_rows(expected(src, dst, n_src, n_dst, -1), true) == rows, "ends" + name);

  Ends first;
  std::vector<std::vector<bool>> seen(n_src, std::vector<bool>(n_dst));
  for (size_t e = 0; e < src.size(); ++e)
    if (src[e] >= 0 && !seen[src[e]][dst[e]]) {
      seen[src[e]][dst[e]] = true;
      first.first.push_back(int32_t(src[e]));
      first.second.push_back(int32_t(dst[e]));
    }
  check(first_of_rows(rows, n_src, n_dst) == first, "edges once" + name);

  const auto kept_src = as<int64_t>(first.first), kept_dst = as<int64_t>(first.second);
  const Built in_order = expected(kept_src, kept_dst, n_src, n_dst, -1);
  Ends by_dst{in_order.indices, {}};
  for (int64_t i = 0; i < n_dst; ++i)
    by_dst.second.resize(in_order.offsets[i + 1], int32_t(i));
  check(ends_of_rows(in_order, false) == by_dst, "ends of edges by destination" + name);
}

// Edges, sources, destinations: of a chunk's length and more; few and many nodes; nodes without
// edges.
constexpr int64_t sizes[][3] = {{0, 3, 4},       {1, 1, 1},        {37, 5, 9},
                                {200, 200, 150}, {1500, 33, 1100}, {5000, 70, 2}};

std::vector<int64_t> draw(std::mt19937& random, int64_t n_edges, int64_t n) {
  std::vector<int64_t> x(n_edges);
  for (int64_t& node : x) node = int64_t(random() % n);
  return x;
}

template <class T>
void test_type() {
  const std::string type = Abi<T>::name;
  std::mt19937 random(7);
  const auto nodes = [&](int64_t n_edges, int64_t n) { return draw(random, n_edges, n); };
  for (const auto& [n_edges, n_src, n_dst] : sizes) {
    const auto src = nodes(n_edges, n_src), dst = nodes(n_edges, n_dst);
    for (const int self_loops : {-1, 0, 1})
      check(from_edges<T>(src, dst, n_src, n_dst, self_loops) ==
                expected(src, dst, n_src, n_dst, self_loops),
            type + " edges, " + std::to_string(n_edges) + ", loops " + std::to_string(self_loops));
    Device<T> s(as<T>(src)), d(as<T>(dst));
    Device<int64_t> largest(2);
    run_entry(Abi<T>::largest, Abi<T>::largest_bytes,
              std::tuple(int64_t(0), int64_t(0), n_edges, -1), s.get(), d.get(), largest.get());
    const auto most = [](const std::vector<int64_t>& x) {
      return x.empty() ? -1 : *std::max_element(x.begin(), x.end());
    };
    check(largest.host() == std::vector{most(src), most(dst)}, type + " largest nodes");

    auto sorted = dst;
    std::sort(sorted.begin(), sorted.end());
    auto ids = stable_order(nodes(n_edges, 1000));
    for (const bool with_ids : {false, true}) {
      Built want;
      want.offsets = offsets_of(sorted, n_dst);
      want.edge_ids = with_ids ? ids : std::vector<int64_t>();
      want.indices = as<int32_t>(src);
      want.found = {0, 0};
      transpose(want, src, sorted, n_src);
      if (!with_ids) want.src_positions.clear();
      check(from_csc<T>(want.offsets, src, want.edge_ids, n_src, with_ids) == want,
            type + " rows, " + std::to_string(n_edges));
    }
  }
  check(from_edges<T>({1, 0, 2}, {0, 1, 1}, 3, 2, -1).found == std::vector<int64_t>{0, 1},
        type + " edges by destination");

  // faults
  const auto edges_fail = [&](std::vector<int64_t> src, std::vector<int64_t> dst) {
    return from_edges<T>(src, dst, 3, 2, -1).found[0] == 1;
  };
  check(edges_fail({0, 3}, {0, 1}) && edges_fail({0, -1}, {0, 1}) && edges_fail({0, 0}, {2, 0}) &&
            edges_fail({0, 0}, {-1, 0}),
        type + " ends that are no nodes");
  const auto rows_fail = [&](std::vector<int64_t> offsets, std::vector<int64_t> src,
                             std::vector<int64_t> ids = {}) {
    return from_csc<T>(offsets, src, ids, 3, !ids.empty()).found[0] == 1;
  };
  check(rows_fail({1, 2}, {0, 0}) && rows_fail({0, 1}, {0, 0}) && rows_fail({0, 3}, {0, 0}) &&
            rows_fail({0, 2, 1, 2}, {0, 0}),
        type + " offsets that do not fit");
  check(rows_fail({0, 2}, {0, 3}) && rows_fail({0, 2}, {-1, 0}), type + " sources that are none");
  check(rows_fail({0, 2}, {0, 1}, {0, 2}) && rows_fail({0, 2}, {0, 1}, {-1, 0}) &&
            rows_fail({0, 2}, {0, 1}, {1, 1}),
        type + " rows of edge arrays");
}

}  // namespace

int main() {
  require_device();
  test_type<int32_t>();
  test_type<int64_t>();
  std::mt19937 random(8);
  for (const auto& [n_edges, n_src, n_dst] : sizes) {
    const auto src = draw(random, n_edges, n_src), dst = draw(random, n_edges, n_dst);
    test_rows(src, dst, n_src, n_dst);
  }
  check(from_edges<int32_t>({0, -2}, {0, -2}, 3, 2, -1, true).found[0] == 1 &&
            from_edges<int32_t>({0, 3}, {0, 0}, 3, 2, -1, true).found[0] == 1,
        "rows with ends that are no nodes");
  check(gnograd_cuda_graph_rows_ends_i32(-1, 1, nullptr, nullptr, nullptr, nullptr, nullptr,
                                         nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "a graph of -1 nodes");
  check(gnograd_cuda_graph_union_first_i32(1, 1, -1, nullptr, nullptr, nullptr, nullptr, nullptr,
                                           nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "-1 rows");
  return report();
}

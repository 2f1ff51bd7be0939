// SPDX-License-Identifier: MIT
// update_edges against plain loops in float64: every face, type and mode, with parts left out.
#include "support.h"

namespace {

enum { concat, add };
constexpr const char* parts_of[] = {"e", "x_src", "x_dst"};

// e [n_edges, .], x_src [n_src, .], x_dst [n_dst, .]; one without features is not there
template <class N>
using Arrays = std::array<std::vector<N>, 3>;
using Sizes = std::array<int64_t, 3>;

// ---- oracle ----

template <class N>
struct Oracle {
  const HostGraph& g;
  Sizes n;
  int mode;

  int64_t row() const {
    return mode == add ? *std::max_element(n.begin(), n.end()) : n[0] + n[1] + n[2];
  }
  // f(part, its item, the item's place in out) for everything that goes there
  void each(const auto& f) const {
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
        const int64_t rows[] = {g.row(p), g.indices[p], i};
        int64_t column = 0;
        for (int a = 0; a < 3; ++a) {
          for (int64_t c = 0; c < n[a]; ++c)
            f(a, rows[a] * n[a] + c, g.row(p) * row() + column + c);
          if (mode == concat) column += n[a];
        }
      }
  }
  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(g.n_edges() * row());
    each([&](int a, int64_t from, int64_t to) { out[to] += in[a][from]; });
    return out;
  }
  Arrays<N> vjp(const std::vector<N>& cotangent, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 3; ++a) grad[a].resize(in[a].size());
    each([&](int a, int64_t from, int64_t to) { grad[a][from] += cotangent[to]; });
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define FACE(face, type)                                                \
  static constexpr auto face = gnograd_cuda_update_edges_##face##_##type; \
  static constexpr auto face##_bytes = gnograd_cuda_update_edges_##face##_workspace_bytes_##type
#define ABI(T, type)     \
  template <>            \
  struct Abi<T> {        \
    FACE(forward, type); \
    FACE(vjp, type);     \
    FACE(jvp, type);     \
    FACE(hvp, type);     \
  };
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

template <class T>
struct Case {
  const HostGraph& graph;
  Sizes n;
  int mode;
  size_t shift;  // offset of all arrays, in elements
  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, Sizes n, int mode, size_t shift = 0)
      : graph(graph), n(n), mode(mode), shift(shift) {
    std::mt19937 random(11);
    const auto draw = [&] {
      return Arrays<T>{randoms<T>(graph.n_edges() * n[0], random),
                       randoms<T>(graph.n_src * n[1], random),
                       randoms<T>(graph.n_dst * n[2], random)};
    };
    in = draw();
    tangents = draw();
    g = randoms<T>(graph.n_edges() * Oracle<double>{graph, n, mode}.row(), random);
  }

  std::string name(const std::string& face) const {
    return std::string("update_edges ") + (mode == add ? "sum " : "concat ") + face + ", " +
           graph.name + ", " + std::to_string(n[0]) + "+" + std::to_string(n[1]) + "+" +
           std::to_string(n[2]);
  }
  T* at(std::vector<Device<T>>& arrays, int a) const { return n[a] ? arrays[a].get() : nullptr; }

  void test() {
    DeviceGraph d = to_device(graph);
    const Oracle<double> truth{graph, n, mode};
    const Oracle<float> plain{graph, n, mode};
    const int64_t row = truth.row();
    const std::tuple sizes(&d.view, mode == add ? row : n[0], mode == add ? row : n[1],
                           mode == add ? row : n[2], mode);
    auto x = upload_all<T>(in, shift), dx = upload_all<T>(tangents, shift);
    Device<T> cotangent(g, shift), out(graph.n_edges() * row, shift),
        dout(graph.n_edges() * row, shift);
    const auto values = [&](auto zero, const Arrays<T>& from) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 3; ++a) v[a] = numbers<decltype(zero)>(from[a]);
      return v;
    };

    run_entry(Abi<T>::forward, Abi<T>::forward_bytes, sizes, at(x, 0), at(x, 1), at(x, 2),
              out.get());
    compare(name("forward"), out.host(), truth.forward(values(double(), in)),
            doubles(plain.forward(values(float(), in))));
    run_entry(Abi<T>::jvp, Abi<T>::jvp_bytes, sizes, at(x, 0), at(x, 1), at(x, 2), at(dx, 0),
              nullptr, at(dx, 2), dout.get());
    auto some = tangents;
    some[1].assign(some[1].size(), T(0.f));
    compare(name("jvp"), dout.host(), truth.forward(values(double(), some)),
            doubles(plain.forward(values(float(), some))));

    const auto want = truth.vjp(numbers<double>(g), values(double(), in));
    const auto plain_vjp = plain.vjp(numbers<float>(g), values(float(), in));
    for (int alone = -1; alone < 3; ++alone) {
      auto grad = room_for<T>(in, shift);
      const auto wanted = [&](int a) { return alone < 0 || alone == a ? at(grad, a) : nullptr; };
      run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1),
                at(x, 2), wanted(0), wanted(1), wanted(2));
      for (int a = 0; a < 3; ++a)
        if (wanted(a))
          compare(name("vjp") + " " + parts_of[a], grad[a].host(), want[a],
                  doubles(plain_vjp[a]));
    }
    auto grad = room_for<T>(in, shift);
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1), at(x, 2),
              at(dx, 0), at(dx, 1), at(dx, 2), at(grad, 0), at(grad, 1), at(grad, 2));
    for (int a = 0; a < 3; ++a) {
      const std::vector<double> zeros(in[a].size());
      if (at(grad, a)) compare(name("hvp") + " " + parts_of[a], grad[a].host(), zeros, zeros);
    }
  }

  std::vector<T> bits() {
    DeviceGraph d = to_device(graph);
    const std::tuple sizes(&d.view, n[0], n[1], n[2], mode);
    auto x = upload_all<T>(in), grad = room_for<T>(in);
    Device<T> cotangent(g);
    run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1), at(x, 2),
              at(grad, 0), at(grad, 1), at(grad, 2));
    std::vector<T> all;
    for (auto& a : grad) {
      const auto h = a.host();
      all.insert(all.end(), h.begin(), h.end());
    }
    return all;
  }
};

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  for (const HostGraph& graph : graphs) {
    Case<T>(graph, {3, 5, 2}, concat).test();
    Case<T>(graph, {8, 16, 8}, concat).test();
    Case<T>(graph, {8, 8, 8}, add).test();
  }
  for (const Sizes& n : {Sizes{0, 4, 4}, Sizes{4, 0, 4}, Sizes{4, 4, 0}, Sizes{264, 264, 264}})
    for (const int mode : {concat, add}) Case<T>(graphs[1], n, mode).test();
  Case<T>(graphs[1], {8, 8, 8}, concat, 1).test();
}

}  // namespace

int main() {
  require_device();
  const std::vector<HostGraph> graphs{power_law(),         small_square(),
                                      without_edges(3, 5), without_edges(0, 2),
                                      without_edges(4, 0), without_edges(0, 0),
                                      with_room(power_law(), 150), with_room(small_square(), 7),
                                      with_room(without_edges(3, 5), 4)};
  test_type<float>(graphs);
  test_type<double>(graphs);
  test_type<__half>(graphs);
  test_type<__nv_bfloat16>(graphs);
  Case<float> c(graphs[0], {6, 6, 6}, add);
  check_same_bits(c);
  return report();
}

// SPDX-License-Identifier: MIT
// All faces of an operator with one output and one size besides the graph, held to its formula in
// plain loops, on irregular graphs.
#pragma once
#include "support.h"

template <class T>
struct Abi;
#define ABI(name, T, type)                                                              \
  template <>                                                                           \
  struct Abi<T> {                                                                       \
    static constexpr auto forward = gnograd_cuda_##name##_forward_##type;               \
    static constexpr auto vjp = gnograd_cuda_##name##_vjp_##type;                       \
    static constexpr auto jvp = gnograd_cuda_##name##_jvp_##type;                       \
    static constexpr auto hvp = gnograd_cuda_##name##_hvp_##type;                       \
    static constexpr auto forward_bytes =                                               \
        gnograd_cuda_##name##_forward_workspace_bytes_##type;                           \
    static constexpr auto vjp_bytes = gnograd_cuda_##name##_vjp_workspace_bytes_##type; \
    static constexpr auto jvp_bytes = gnograd_cuda_##name##_jvp_workspace_bytes_##type; \
    static constexpr auto hvp_bytes = gnograd_cuda_##name##_hvp_workspace_bytes_##type; \
  };

// An Operator has a name, the lengths of its inputs and of its output, how many arrays forward has
// saved for vjp, and an Oracle with forward(in) and vjp(cotangent, in).
template <class Operator, class T>
struct Case {
  static constexpr int k = Operator::n_inputs;
  template <class N>
  using Arrays = std::array<std::vector<N>, k>;
  template <class N>
  using Oracle = typename Operator::template Oracle<N>;
  using C64 = std::complex<double>;
  using C32 = std::complex<float>;

  const HostGraph& graph;
  int64_t n;
  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, int64_t n) : graph(graph), n(n) {
    std::mt19937 random(11);
    const auto lengths = Operator::inputs(graph, n);
    for (auto* arrays : {&in, &tangents})
      for (int a = 0; a < k; ++a) (*arrays)[a] = randoms<T>(lengths[a], random);
    g = randoms<T>(Operator::output(graph, n), random);
  }

  std::string name(const std::string& face) const {
    return std::string(Operator::name) + " " + face + ", " + graph.name + ", " + std::to_string(n);
  }
  template <class N>
  Arrays<N> values(const Arrays<T>* t = nullptr) const {
    Arrays<N> v;
    for (int a = 0; a < k; ++a) v[a] = numbers<N>(in[a], t ? &(*t)[a] : nullptr);
    return v;
  }
  static std::array<T*, k> pointers(std::vector<Device<T>>& arrays, int alone = -1) {
    std::array<T*, k> p;
    for (int a = 0; a < k; ++a) p[a] = alone < 0 || alone == a ? arrays[a].get() : nullptr;
    return p;
  }
  static void run(auto entry, auto bytes, const auto& sizes, const auto&... groups) {
    std::apply([&](auto... array) { run_entry(entry, bytes, sizes, array...); },
               std::tuple_cat(groups...));
  }
  static auto saved() { return std::array<T*, Operator::n_saved>{}; }

  void test() {
    DeviceGraph d = to_device(graph);
    const std::tuple sizes(&d.view, n);
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents);
    Device<T> cotangent(g), out(g.size()), dout(g.size());

    run(Abi<T>::forward, Abi<T>::forward_bytes, sizes, pointers(x), std::tuple(out.get()));
    compare(name("forward"), out.host(), Oracle<double>{graph, n}.forward(values<double>()),
            doubles(Oracle<float>{graph, n}.forward(values<float>())));

    const auto want = Oracle<double>{graph, n}.vjp(numbers<double>(g), values<double>());
    const auto rough = Oracle<float>{graph, n}.vjp(numbers<float>(g), values<float>());
    for (int alone = -1; alone < k; ++alone) {
      auto grad = room_for<T>(in);
      run(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, std::tuple(cotangent.get()), pointers(x), saved(),
          pointers(grad, alone));
      for (int a = 0; a < k; ++a)
        if (alone < 0 || alone == a)
          compare(name("vjp") + " of " + std::to_string(a), grad[a].host(), doubles(want[a]),
                  doubles(rough[a]));
    }

    for (int alone = -1; alone < k; ++alone) {
      Arrays<T> t;
      for (int a = 0; a < k; ++a)
        if (alone < 0 || alone == a) t[a] = tangents[a];
      run(Abi<T>::jvp, Abi<T>::jvp_bytes, sizes, pointers(x), pointers(dx, alone),
          std::tuple(dout.get()));
      const auto tangent = doubles(Oracle<C64>{graph, n}.forward(values<C64>(&t)));
      compare(name("jvp"), dout.host(), tangent,
              doubles(Oracle<C32>{graph, n}.forward(values<C32>(&t))));
      // this also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
      if (alone < 0) check_adjoint(name("oracle"), g, tangent, want, tangents);

      const auto second = Oracle<C64>{graph, n}.vjp(numbers<C64>(g), values<C64>(&t));
      const auto second32 = Oracle<C32>{graph, n}.vjp(numbers<C32>(g), values<C32>(&t));
      auto grad = room_for<T>(in);
      run(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, std::tuple(cotangent.get()), pointers(x),
          pointers(dx, alone), pointers(grad));
      for (int a = 0; a < k; ++a)
        compare(name("hvp") + " of " + std::to_string(a), grad[a].host(), doubles(second[a]),
                doubles(second32[a]));
    }
  }

  // The bits of what vjp and hvp give.
  std::vector<T> bits() {
    DeviceGraph d = to_device(graph);
    const std::tuple sizes(&d.view, n);
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents);
    auto grad = room_for<T>(in), dgrad = room_for<T>(in);
    Device<T> cotangent(g);
    run(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, std::tuple(cotangent.get()), pointers(x), saved(),
        pointers(grad));
    run(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, std::tuple(cotangent.get()), pointers(x),
        pointers(dx), pointers(dgrad));
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto host = a.host();
        all.insert(all.end(), host.begin(), host.end());
      }
    return all;
  }
};

template <class Operator, class T>
void test_type(std::initializer_list<int64_t> sizes) {
  for (const HostGraph& graph :
       {power_law(), small_square(), without_edges(3, 5), without_edges(0, 2), without_edges(4, 0),
        without_edges(0, 0), with_room(power_law(), 150), with_room(small_square(), 7),
        with_room(without_edges(3, 5), 4)})
    for (const int64_t n : sizes) Case<Operator, T>(graph, n).test();
  Case<Operator, T>(many_nodes(), 2).test();
}

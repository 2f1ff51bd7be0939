// SPDX-License-Identifier: MIT
// gno and gno_contract against their formulas with a kernel matrix an edge, in float64: every face,
// activation, reduction and kernel form on irregular graphs.
#include "gno_cases.h"

OPERATOR(Gno, gno, 7, LIST(h, coords, u, b_u, v, b_v, weight),
         (&g, 1, n.d, n.n_hidden, n.f_in, n.f_out, activation, reduction, kernel))
OPERATOR(Contract, gno_contract, 5, LIST(h, hid, v, b_v, weight),
         (&g, 1, n.n_hidden, n.f_in, n.f_out, reduction, kernel))

template <class T>
using GnoCase = Case<Gno, Oracle, T>;
template <class T>
using ContractCase = Case<Contract, Oracle, T>;

// More sources than one addition of what they give the first layer.
HostGraph many_sources() {
  return make_graph(
      "80 sources", 80, 80, true, [](int64_t) { return 1; }, [](int64_t i) { return 7 * i % 80; });
}

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  for (const int kernel : {full, diagonal}) {
    const Sizes small = kernel == full ? Sizes{2, 5, 3, 4} : Sizes{2, 5, 4, 4};
    for (const HostGraph& graph : graphs) {
      GnoCase<T>(graph, small, {gelu, mean, kernel}).test();
      ContractCase<T>(graph, small, {identity, sum, kernel}).test();
    }
    GnoCase<T>(square, small, {gelu, mean, kernel}).test(true);
    ContractCase<T>(square, small, {identity, sum, kernel}).test(true);
  }
  for (int activation = relu; activation <= identity; ++activation)
    GnoCase<T>(square, {2, 5, 4, 4}, {activation, sum, activation % 2, activation > 2}).test();
  GnoCase<T>(square, {1, 33, 3, 66}, {hyperbolic, sum, full}).test();
  GnoCase<T>(square, {3, 150, 66, 2}, {silu, mean, full, false}).test();
  GnoCase<T>(irregular, {3, 33, 5, 5}, {sinus, mean, diagonal, true, false}).test();
  ContractCase<T>(square, {0, 130, 1, 3}, {identity, mean, full, false}).test();
  const HostGraph many = many_sources();
  GnoCase<T>(many, {1, 2, 1, 1}, {gelu, sum, full}).test();
  const HostGraph long_row = hub();
  GnoCase<T>(long_row, {1, 3, 6, 6}, {gelu, mean, diagonal}).test();
}

// A block keeps sums for all coordinates of some edges.
void test_refusal() {
  const DeviceGraph graph = to_device(small_square());
  const void* x = nullptr;
  void* grad = nullptr;
  check(gnograd_cuda_gno_vjp_f64(&graph.view, 1, 4000, 1, 1, 1, gelu, sum, full, x, x, x, x, x, x,
                                 x, x, grad, grad, grad, grad, grad, grad, grad, nullptr, 0,
                                 nullptr) == GNOGRAD_CUDA_VALUE,
        "more coordinates than shared memory holds are refused");
}

template <class T>
void test_determinism(const HostGraph& graph, int kernel) {
  GnoCase<T> c(graph, {2, 5, 4, 4}, {gelu, mean, kernel});
  check_same_bits(c);
}

// The bound on errors in bfloat16 is one that errors come near.
void test_bound() {
  const double share =
      std::max(GnoCase<__nv_bfloat16>::largest_share, ContractCase<__nv_bfloat16>::largest_share);
  check(share > 0.25, "errors in bfloat16 are near their bound");
}

int main() {
  require_device();
  const std::vector<HostGraph> graphs{power_law(),
                                      small_square(),
                                      without_edges(3, 5),
                                      without_edges(0, 2),
                                      without_edges(4, 0),
                                      with_room(power_law(), 150),
                                      with_room(small_square(), 7),
                                      with_room(without_edges(3, 5), 4)};
  test_type<float>(graphs);
  if (!short_run()) {
    test_type<double>(graphs);
    test_type<__nv_bfloat16>(graphs);
    test_bound();
    test_determinism<float>(graphs[0], full);
    test_determinism<float>(hub(), diagonal);
    test_determinism<__nv_bfloat16>(graphs[0], full);
    test_determinism<__nv_bfloat16>(hub(), diagonal);
  }
  test_refusal();
  return report();
}

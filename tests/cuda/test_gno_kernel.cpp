// SPDX-License-Identifier: MIT
// gno_kernel against its formula in float64: every face.
#include "gno_cases.h"

OPERATOR(Kernel, gno_kernel, 5, LIST(coords, u, b_u, v, b_v),
         (g.n_edges, n.d, n.n_hidden, n.f_in, n.f_out, activation))

template <class T>
using KernelCase = Case<Kernel, KernelOracle, T>;

template <class T>
void test_type() {
  for (const HostGraph& graph : {power_law(), small_square(), without_edges(3, 5)})
    KernelCase<T>(graph, {2, 6, 3, 4}, {gelu, sum, full}).test();
  KernelCase<T>(small_square(), {3, 70, 9, 8}, {silu, sum, full}).test(true);
}

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  return report();
}

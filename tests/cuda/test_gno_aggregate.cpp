// SPDX-License-Identifier: MIT
// gno_aggregate against its formula in float64: every face, on irregular graphs.
#include "gno_cases.h"

OPERATOR(Aggregate, gno_aggregate, 2, LIST(h, kappa), (&g, n.f_in, n.f_out, reduction))

template <class T>
using AggregateCase = Case<Aggregate, Oracle, T>;

template <class T>
void test_type() {
  for (const HostGraph& graph :
       {power_law(), small_square(), without_edges(3, 5), without_edges(0, 2), without_edges(4, 0),
        with_room(power_law(), 150), with_room(small_square(), 7)})
    AggregateCase<T>(graph, {0, 1, 3, 37}, {identity, mean, full, false}).test();
  AggregateCase<T>(small_square(), {0, 1, 34, 2}, {identity, sum, full, false}).test(true);
  AggregateCase<T>(small_square(), {0, 1, 5, 130}, {identity, sum, full, false}).test();
  AggregateCase<T>(hub(), {0, 1, 40, 16}, {identity, mean, full, false}).test();
}

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  test_type<__nv_bfloat16>();
  const HostGraph graph = hub();
  AggregateCase<float> c(graph, {0, 1, 40, 16}, {identity, mean, full, false});
  check_same_bits(c);
  return report();
}

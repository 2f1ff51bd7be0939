// SPDX-License-Identifier: MIT
// gno_aggregate in every type, on irregular graphs.
#include "gno_cases.h"

namespace {

Problem aggregate(const HostGraph& g, int64_t f_in, int64_t f_out, int reduction) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, f_in, f_out, reduction);
  return {"gno_aggregate, " + g.name + ", " + std::to_string(f_in) + "x" + std::to_string(f_out),
          {{g.n_src * f_in}, {g.n_edges() * f_in * f_out}},
          {{g.n_dst * f_out}},
          {},
          THREE_TYPES(gno_aggregate, sizes, graph)};
}

}  // namespace

int main() {
  require_device();
  for (const HostGraph& graph : irregular_graphs())
    check_laws(aggregate(graph, 3, 37, mean), without_half);
  check_laws(aggregate(small_square(), 34, 2, sum), without_half, Depth::all);
  check_laws(aggregate(small_square(), 5, 130, sum), without_half);
  check_laws(aggregate(hub(), 40, 16, mean), without_half);
  check_orders(aggregate(hub(), 40, 16, mean));
  return report();
}

// SPDX-License-Identifier: MIT
// offset_moments on irregular graphs.
#include "laws.h"

namespace {

Problem moments(const HostGraph& g, int64_t d) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, d);
  return {"offset_moments, " + g.name + ", " + std::to_string(d),
          {{g.n_src * d}, {g.n_dst * d}},
          {{g.n_dst * (2 + d + d * (d + 1) / 2)}},
          {},
          TWO_TYPES(offset_moments, sizes, graph),
          false};  // points that coincide
}

}  // namespace

int main() {
  require_device();
  for (const HostGraph& graph : irregular_graphs())
    for (const int64_t d : {1, 2, 3, 5})
      check_laws(moments(graph, d), single_double, all_if(d == 3));
  check_laws(moments(many_nodes(), 2), single_double);
  check_orders(moments(power_law(), 3));
  return report();
}

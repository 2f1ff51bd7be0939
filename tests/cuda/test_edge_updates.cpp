// SPDX-License-Identifier: MIT
// update_edges on irregular graphs: every type and mode, with parts left out.
#include "laws.h"

namespace {

enum { concat, add };
using Sizes = std::array<int64_t, 3>;  // features of edges, sources, destinations; 0: not there

Problem updates(const HostGraph& g, Sizes n, int mode) {
  const auto graph = on_device(g);
  const int64_t widest = *std::max_element(n.begin(), n.end());
  const int64_t row = mode == add ? widest : n[0] + n[1] + n[2];
  const auto width = [&](int a) { return mode == add ? widest : n[a]; };
  const std::tuple sizes(&graph->view, width(0), width(1), width(2), mode);
  const auto part = [&](int a, int64_t rows) { return Array{n[a] ? rows * n[a] : -1}; };
  return {"update_edges " + std::string(mode == add ? "sum, " : "concat, ") + g.name + ", " +
              std::to_string(n[0]) + "+" + std::to_string(n[1]) + "+" + std::to_string(n[2]),
          {part(0, g.n_edges()), part(1, g.n_src), part(2, g.n_dst)},
          {{g.n_edges() * row}},
          {},
          FOUR_TYPES(update_edges, sizes, graph)};
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  for (const HostGraph& graph : graphs) {
    check_laws(updates(graph, {3, 5, 2}, concat), all_types, all_if(&graph == &graphs[1]));
    check_laws(updates(graph, {8, 16, 8}, concat), all_types);
    check_laws(updates(graph, {8, 8, 8}, add), all_types, all_if(&graph == &graphs[1]));
  }
  for (const Sizes& n : {Sizes{0, 4, 4}, Sizes{4, 0, 4}, Sizes{4, 4, 0}, Sizes{264, 264, 264}})
    for (const int mode : {concat, add})
      check_laws(updates(graphs[1], n, mode), all_types, all_if(n[0] < 9));
  check_orders(updates(graphs[0], {6, 6, 6}, add));
  return report();
}

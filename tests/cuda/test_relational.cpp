// SPDX-License-Identifier: MIT
// agg_relational on irregular graphs: every type and AggOp, with and without bases and weights.
#include "laws.h"

namespace {

enum { sum, mean };

struct Sizes {
  int64_t features, own, relations, bases;  // bases 0: no coefficients
  int64_t row() const { return (bases ? bases : relations) * features + own; }
};

// The last relation has no edge; where it is told, some edges have none that there is.
Problem relational(const HostGraph& g, Sizes n, int op, bool weighted, bool unknown = false) {
  const auto graph = on_device(g);
  std::mt19937 random(5);
  std::vector<int32_t> types(g.n_edges());
  for (int32_t& r : types) r = int32_t(random() % std::max<int64_t>(1, n.relations - 1));
  for (size_t e = 0; unknown && e < types.size(); e += 5)
    types[e] = e % 2 ? -1 : int32_t(n.relations);
  const auto kinds = std::make_shared<Device<int32_t>>(types);
  const std::tuple sizes(&graph->view, n.features, n.own, n.relations, n.bases, kinds->get(), op);
  return {std::string("relational ") + (op == mean ? "mean " : "sum ") +
              (weighted ? "weighted, " : ", ") + g.name + ", " + std::to_string(n.features) + "+" +
              std::to_string(n.own) + ", " + std::to_string(n.relations) + " relations, " +
              std::to_string(n.bases) + " bases",
          {{g.n_src * n.features},
           {weighted ? g.n_edges() : -1, 0.5, 1},  // no mean divides by zero
           {n.bases ? n.relations * n.bases : -1},
           {n.own ? g.n_dst * n.own : -1}},
          {{g.n_dst * n.row()}},
          {},
          FOUR_TYPES(agg_relational, sizes, graph, kinds),
          true,
          4};
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  for (const int op : {sum, mean}) {
    for (const HostGraph& graph : graphs) {
      const bool square = &graph == &graphs[1];
      check_laws(relational(graph, {6, 2, 4, 3}, op, true), square ? all_types : some_types(),
                 square ? Depth::derivatives : Depth::numbers);
      check_laws(relational(graph, {8, 8, 3, 0}, op, false), some_types());
    }
    check_laws(relational(graphs[1], {8, 0, 4, 2}, op, true), all_types, Depth::all);
    check_laws(relational(graphs[1], {264, 0, 2, 2}, op, true), some_types());
    check_laws(relational(graphs[1], {0, 5, 3, 2}, op, true), some_types());
    check_laws(relational(graphs[0], {3, 1, 40, 33}, op, true), some_types());
    check_laws(relational(graphs[0], {4, 0, 4, 2}, op, true, true), some_types());
    check_laws(relational(graphs[0], {4, 0, 4, 0}, op, true, true), some_types());
    check_orders(relational(graphs[0], {6, 2, 4, 3}, op, true));
  }
  return report();
}

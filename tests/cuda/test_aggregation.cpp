// SPDX-License-Identifier: MIT
// agg_concat, agg_weighted and agg_simple on irregular graphs: every type and AggOp.
#include "laws.h"

namespace {

enum { sum, mean, min, max };
const char* const op_names[] = {"sum", "mean", "min", "max"};

struct Sizes {
  int64_t node, edge, own;
  int64_t row() const { return node + edge + own; }
};
Array weights(const HostGraph& g) { return {g.n_edges(), 0.5, 1}; }  // no mean divides by zero

Problem concat(const HostGraph& g, Sizes n, int op, bool weighted) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, n.node, n.edge, n.own, op);
  const bool extremum = op == min || op == max;
  return {std::string("agg ") + op_names[op] + (weighted ? " weighted, " : ", ") + g.name + ", " +
              std::to_string(n.node) + "+" + std::to_string(n.edge) + "+" + std::to_string(n.own),
          {{g.n_src * n.node},
           weighted ? weights(g) : Array{-1},
           {g.n_edges() * n.edge},
           {g.n_dst * n.own}},
          {{g.n_dst * n.row()}},
          {{extremum ? g.n_dst * (n.node + n.edge) : -1, 1, 0, position},
           {op == mean ? g.n_dst : -1, 1, 0, wide}},
          FOUR_TYPES(agg_concat, sizes, graph),
          !extremum,
          4};
}
Problem weighted(const HostGraph& g, int64_t d, int op) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, d, op);
  return {"agg_weighted, " + g.name, {{g.n_src * d}, weights(g)}, {{g.n_dst * d}}, {{-1}, {-1}},
          FOUR_TYPES(agg_weighted, sizes, graph), true, 4};
}
Problem simple(const HostGraph& g, int64_t d, int64_t de, int op) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, d, de, op);
  return {"agg_simple, " + g.name, {{g.n_src * d}, {g.n_edges() * de}}, {{g.n_dst * (d + de)}},
          {{-1}}, FOUR_TYPES(agg_simple, sizes, graph)};
}

// A gradient of x and own in one array has the sum of both, rounded once: sums of these numbers
// are exact in float32, but for those of means.
void test_own_is_x(const HostGraph& g, Sizes n, int op, Precision type) {
  const Problem p = concat(g, n, op, true);
  const Faces faces = p.faces(type);
  Trial t(p, type);
  t.in[3] = t.in[0], t.tangents[3] = t.tangents[0];
  const auto device = [&](const Lists& lists, const std::vector<Array>& arrays) {
    Buffers made;
    for (size_t k = 0; k < lists.size(); ++k)
      made.push_back(std::make_shared<Buffer>(type, arrays[k], 0, &lists[k]));
    return made;
  };
  const auto x = device(t.in, p.inputs), dx = device(t.tangents, p.inputs);
  const auto c = device(t.cotangents, p.outputs), to = device(t.in, p.inputs);
  for (const int face : {vjp, hvp}) {
    std::vector<void*> a{c[0]->get()};
    for (const auto& b : x) a.push_back(b->get());
    if (face == vjp) a.insert(a.end(), 3, nullptr);
    else
      for (const auto& b : dx) a.push_back(b->get());
    for (const int k : {0, 1, 2, 0}) a.push_back(to[k]->get());
    faces[face].call(a);
    const Lists apart = face == vjp ? t.run_vjp() : t.run_hvp();
    const auto got = to[0]->numbers();
    double size = 1, error = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      size = std::max(size, std::fabs(apart[0][k] + apart[3][k]));
      error = std::max(error, std::fabs(got[k] - apart[0][k] - apart[3][k]));
    }
    const double epsilon[] = {0x1p-22, 1e-14, 0x1p-9, 0x1p-6};
    check(error <= epsilon[type] * size, p.name + ", own is x");
  }
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  for (const int op : {sum, mean, min, max}) {
    for (const HostGraph& graph : graphs) {
      const bool square = &graph == &graphs[1];
      check_laws(concat(graph, {6, 3, 2}, op, true), square ? all_types : some_types(),
                 square ? Depth::derivatives : Depth::numbers);
      check_laws(concat(graph, {8, 16, 8}, op, false), some_types());
    }
    check_laws(concat(graphs[1], {8, 8, 0}, op, true), all_types, Depth::all);
    check_laws(concat(graphs[1], {264, 0, 0}, op, true), some_types());
    check_laws(concat(graphs[1], {0, 5, 0}, op, false), some_types());
    if (op != min) check_orders(concat(graphs[0], {6, 3, 2}, op, true));
  }
  check_laws(weighted(graphs[1], 5, mean), all_types);
  check_laws(simple(graphs[1], 3, 2, sum), all_types);
  // a source and a destination whose edges are divided among several units of work
  const HostGraph hub = make_graph(
      "hub", 40, 40, true, [](int64_t i) { return i % 7 == 3 ? 0 : 1 + 60 / (1 + i); },
      [](int64_t i) { return i % 2 ? 0 : i; });
  for (const int op : {sum, mean, min, max})
    for (const HostGraph& graph : {hub, small_square(), without_edges(5, 5)})
      for (const Precision type : short_run() ? std::vector{f32} : all_types) {
        test_own_is_x(graph, {5, 3, 5}, op, type);
        test_own_is_x(graph, {8, 16, 8}, op, type);
      }
  return report();
}

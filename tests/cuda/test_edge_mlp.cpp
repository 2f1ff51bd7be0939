// SPDX-License-Identifier: MIT
// edge_mlp: every activation, reduction and choice of results, with and without normalisation,
// residual and weights, on irregular graphs.
#include "activations.h"
#include "laws.h"

namespace {

enum { sum, mean };
enum { both, edges_only, nodes_only };

struct Options {
  int64_t f_e = 3, f_s = 2, f_d = 1;
  std::vector<int64_t> widths = {5, 4, 3};
  int activation = silu;
  bool norm = true, residual = true;
  int reduction = sum, results = both;
  bool weighted = false;
};

Problem mlp(const HostGraph& g, Options o) {
  const auto graph = on_device(g);
  const auto widths = std::make_shared<std::vector<int64_t>>(o.widths);
  const int64_t n_in = o.f_e + o.f_s + o.f_d, last = o.widths.back();
  int64_t packed = o.norm ? 2 * last : 0, before = n_in;
  for (const int64_t width : o.widths) packed += (before + 1) * width, before = width;
  const std::tuple sizes(&graph->view, o.f_e, o.f_s, o.f_d, n_in, int64_t(o.widths.size()),
                         widths->data(), o.activation, int(o.norm), int(o.residual), o.reduction,
                         o.results);
  const auto table = [](int64_t n, int64_t columns) { return Array{columns ? n * columns : -1}; };
  return {"edge_mlp, activation " + std::to_string(o.activation) + (o.norm ? " normalised" : "") +
              (o.residual ? " residual" : "") + (o.reduction == mean ? " mean" : " sum") +
              (o.weighted ? " weighted" : "") + " results " + std::to_string(o.results) + ", " +
              g.name + ", " + std::to_string(n_in) + " to " + std::to_string(last),
          {table(g.n_edges(), o.f_e),
           table(g.n_src, o.f_s),
           table(g.n_dst, o.f_d),
           {packed, 0.5},
           {o.weighted ? g.n_edges() : -1, 0.5, 1}},  // no mean divides by zero
          {{o.results == nodes_only ? -1 : g.n_edges() * last},
           {o.results == edges_only ? -1 : g.n_dst * last}},
          {},
          TWO_TYPES(edge_mlp, sizes, graph, widths),
          o.activation != relu && !o.norm,  // a small variance bends too much for differences
          o.norm ? 30. : 4.};
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  const auto test = [](const HostGraph& graph, Options o, Depth depth = Depth::numbers) {
    check_laws(mlp(graph, std::move(o)), single_double, depth);
  };
  for (const HostGraph& graph : graphs) test(graph, {.reduction = mean});
  test(square, {.weighted = true}, Depth::all);
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    test(square, {.f_s = 3, .widths = {4, 3}, .activation = activation, .norm = false});
  for (const int results : {edges_only, nodes_only}) {
    test(irregular, {.f_e = 2, .residual = false, .results = results, .weighted = true});
    test(square, {.widths = {3}, .norm = false, .results = results},
         all_if(results == nodes_only));
  }
  test(square, {.f_e = 0, .widths = {3, 4, 5, 2}, .norm = false, .residual = false});
  test(square, {.f_s = 0, .f_d = 0, .widths = {6, 3}, .norm = false});
  test(square, {.f_e = 0, .f_s = 4, .f_d = 0, .widths = {4}, .norm = false, .residual = false});
  // the sum of the weights moves with each of them
  test(square, {.norm = false, .reduction = mean, .weighted = true}, Depth::derivatives);
  test(square, {.reduction = mean, .weighted = true}, Depth::derivatives);
  // more than a warp's features, more than a tile of products, many chunks of edges
  test(square, {.f_e = 40, .f_s = 3, .f_d = 70, .widths = {66, 5, 40}});
  test(irregular, {.f_e = 6, .widths = {40, 20, 6}, .activation = gelu});
  test(many_nodes(), {.widths = {4, 3}, .activation = hyperbolic});
  check_orders(mlp(irregular, {.reduction = mean, .results = nodes_only}));
  return report();
}

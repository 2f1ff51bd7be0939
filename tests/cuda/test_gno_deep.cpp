// SPDX-License-Identifier: MIT
// gno_deep: every activation and reduction, with and without what nodes, edges and functions bring.
#include "activations.h"
#include "laws.h"

namespace {

enum { sum, mean };

struct Options {
  int64_t functions = 1;  // 0: ones
  int64_t d_y = 2, d_x = 1, d_c = 2;
  std::vector<int64_t> widths = {5, 4, 3};
  int activation = gelu, reduction = sum;
  bool weighted = false;
};

Problem deep(const HostGraph& g, Options o) {
  const auto graph = on_device(g);
  const auto widths = std::make_shared<std::vector<int64_t>>(o.widths);
  const int64_t n_in = o.d_y + o.d_x + o.d_c;
  const int64_t all = std::max<int64_t>(o.functions, 1) * o.widths.back();
  int64_t packed = 0, before = n_in;
  for (const int64_t width : o.widths) packed += (before + 1) * width, before = width;
  const std::tuple sizes(&graph->view, o.functions, o.d_y, o.d_x, o.d_c, n_in,
                         int64_t(o.widths.size()), widths->data(), o.activation, o.reduction);
  const auto table = [](int64_t n, int64_t columns) { return Array{columns ? n * columns : -1}; };
  return {"gno_deep, activation " + std::to_string(o.activation) +
              (o.reduction == mean ? " mean" : " sum") + (o.weighted ? " weighted, " : ", ") + g.name + ", " + std::to_string(o.functions) +
              " functions, " + std::to_string(n_in) + " to " + std::to_string(o.widths.back()),
          {table(g.n_src, o.functions * o.widths.back()),
           table(g.n_src, o.d_y),
           table(g.n_dst, o.d_x),
           table(g.n_edges(), o.d_c),
           {packed, 0.5},
           {o.weighted ? g.n_edges() : -1}},
          {{g.n_dst * all}},
          {},
          TWO_TYPES(gno_deep, sizes, graph, widths),
          o.activation != relu,
          4};
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  const auto test = [](const HostGraph& graph, Options o, Depth depth = Depth::numbers) {
    check_laws(deep(graph, std::move(o)), single_double, depth);
  };
  const Options everything{.functions = 2, .d_x = 2, .reduction = mean, .weighted = true};
  for (const HostGraph& graph : graphs)
    test(graph, everything, all_if(&graph == &square));
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    test(square, {.widths = {4, 3}, .activation = activation});
  test(irregular, {.functions = 0, .d_y = 0, .widths = {3, 1}, .weighted = true});
  test(irregular, {.d_x = 0, .d_c = 0, .widths = {3, 4, 5, 2}, .activation = silu});
  test(square, {.functions = 3, .d_y = 0, .d_x = 0, .widths = {3}, .reduction = mean}, Depth::all);
  test(square, {.d_x = 3, .d_c = 0, .widths = {4}}, Depth::derivatives);
  // more than a tile of products, more nodes than one sum, many chunks of edges
  test(square, {.functions = 1, .d_y = 70, .d_c = 3, .widths = {66, 5, 70}});
  test(square, {.functions = 1, .d_c = 65, .widths = {3, 130, 2}, .activation = silu});
  test(irregular, {.functions = 2, .widths = {40, 20, 6}, .weighted = true});
  test(many_nodes(), {.widths = {3, 2}, .activation = hyperbolic, .reduction = mean});
  check_orders(deep(irregular, everything));
  return report();
}

// SPDX-License-Identifier: MIT
// gno_with_gradient, gno_with_laplacian and gno_with_hessian in both types.
#include "activations.h"
#include "laws.h"

namespace {

enum { gradient, laplacian, hessian };
const char* const order_names[] = {"gradient", "laplacian", "hessian"};
enum { difference, pair };
enum { sum, mean };
enum { full, diagonal };

struct Options {
  int order = laplacian;
  int64_t d = 2;
  std::vector<int64_t> widths = {5, 4};
  int64_t f_in = 3, f_out = 4;
  int geometry = difference, activation = gelu, reduction = sum, kernel = full;
  int weights = 0;  // 1: weights, 2: with derivatives
  bool features = true;
};

Problem jets(const HostGraph& g, Options o) {
  const auto graph = on_device(g);
  const auto widths = std::make_shared<std::vector<int64_t>>(o.widths);
  const int64_t kappa = o.kernel == full ? o.f_in * o.f_out : o.f_out;
  int64_t packed = 0, before = o.geometry == ::pair ? 2 * o.d : o.d;
  for (const int64_t width : o.widths) packed += (before + 1) * width, before = width;
  const int64_t of_weights = o.order == gradient ? 0 : o.order == hessian ? o.d * (o.d + 1) / 2 : 1;
  const std::tuple sizes(&graph->view, int64_t(1), o.d, o.f_in, o.f_out, int64_t(o.widths.size()),
                         widths->data(), o.geometry, o.activation, o.reduction, o.kernel);
  Problem p{std::string(order_names[o.order]) + ", activation " + std::to_string(o.activation) +
                (o.reduction == mean ? " mean" : " sum") +
                (o.kernel == diagonal ? " diagonal" : "") +
                (o.geometry == ::pair ? " pair" : "") + ", weights " +
                std::to_string(o.weights) + ", " + g.name + ", " + std::to_string(o.d) + "D, " +
                std::to_string(o.widths.size()) + " layers, " + std::to_string(o.f_in) + " to " +
                std::to_string(o.f_out),
            {{o.features ? g.n_src * o.f_in : -1},
             {g.n_dst * o.d},
             {g.n_src * o.d},
             {packed},
             {before * kappa, std::exp2(-std::round(std::log2(before) / 2))},
             {kappa},
             {o.weights ? g.n_edges() : -1},
             {o.weights > 1 ? g.n_edges() * (o.d + of_weights) : -1}},
            {{g.n_dst * o.f_out}, {g.n_dst * o.d * o.f_out}},
            {},
            {},
            o.activation != relu,
            4};
  if (o.order != gradient)
    p.outputs.push_back({g.n_dst * (o.order == hessian ? o.d * o.d : 1) * o.f_out});
  if (o.order == gradient) p.faces = TWO_TYPES(gno_with_gradient, sizes, graph, widths);
  else if (o.order == laplacian) p.faces = TWO_TYPES(gno_with_laplacian, sizes, graph, widths);
  else p.faces = TWO_TYPES(gno_with_hessian, sizes, graph, widths);
  return p;
}

// Many edges between two nodes, of which one is a row longer than a segment.
HostGraph hub() {
  return make_graph(
      "hub", 2, 3, true, [](int64_t i) { return i == 1 ? 300 : 2 * i; },
      [](int64_t i) { return i % 2; });
}

// Products with segments of edges in TF32, where it is asked for.
void test_precision(const HostGraph& graph) {
  const Problem p = jets(graph, {.weights = 2});
  const Lists accurate = Trial(p, f32).run_hvp();
  MUST(gnograd_cuda_use_tf32(1));
  const Lists rounded = Trial(p, f32).run_hvp();
  MUST(gnograd_cuda_use_tf32(0));
  double size = 0, difference = 0;
  for (size_t k = 0; k < accurate.size(); ++k)
    for (size_t i = 0; i < accurate[k].size(); ++i) {
      size = std::max(size, std::fabs(accurate[k][i]));
      difference = std::max(difference, std::fabs(accurate[k][i] - rounded[k][i]));
    }
  check(difference < 0x1p-7 * size, "products in TF32");  // some of them one after another
  check(difference > 0x1p-15 * size, "products in TF32, where it is asked for");
  check(Trial(p, f32).run_hvp() == accurate, "products in float32 again");
}

}  // namespace

int main() {
  require_device();
  const HostGraph square = small_square(), irregular = power_law();
  const HostGraph roomy = with_room(irregular, 150), none = with_room(without_edges(3, 5), 4);
  const auto test = [](const HostGraph& graph, Options o, Depth depth = Depth::numbers) {
    check_laws(jets(graph, std::move(o)), single_double, depth);
  };
  for (const int order : {gradient, laplacian, hessian})
    for (const int kernel : {full, diagonal}) {
      Options o{.order = order,
                .f_in = kernel == full ? 3 : 4,
                .reduction = mean,
                .kernel = kernel,
                .weights = 2};
      if (kernel == full || !short_run())
        test(square, o, all_if(order == laplacian));
      o.geometry = ::pair, o.weights = 0, o.reduction = sum, o.activation = silu;
      if (kernel == diagonal || !short_run())
        test(square, o, all_if(order == hessian && kernel == full));
      if (short_run()) continue;
      for (const auto& [n_src, n_dst] : {std::pair{3, 5}, std::pair{0, 2}, std::pair{4, 0}})
        test(without_edges(n_src, n_dst), o);
    }
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    test(square, {.widths = {4, 3}, .activation = activation, .weights = 1});
  test(square, {.order = hessian,
                .d = 3,
                .widths = {3, 5, 2},
                .f_in = 1,
                .f_out = 1,
                .activation = sinus});
  test(square, {.d = 1,
                .widths = {7},
                .f_in = 2,
                .f_out = 2,
                .activation = hyperbolic,
                .reduction = mean,
                .kernel = diagonal,
                .features = false}, Depth::all);
  test(hub(), {.widths = {4}, .f_in = 2, .f_out = 2, .weights = 1});
  for (const int kernel : {full, diagonal}) {
    Options o{.f_in = 3, .f_out = 3, .reduction = mean, .kernel = kernel, .weights = 2};
    test(roomy, o);
    if (short_run()) continue;
    for (const HostGraph* graph : {&irregular, &none}) test(*graph, o);
    o.geometry = ::pair, o.weights = 0, o.reduction = sum, o.activation = silu;
    test(roomy, o);
  }
  // more than a tile of each
  test(square, {.widths = {3, 70}, .f_in = 1, .f_out = 1, .weights = 1});
  test(square, {.widths = {2}, .f_in = 66, .f_out = 1});
  test(square, {.widths = {2}, .f_in = 1, .f_out = 66});
  if (!short_run()) check_orders(jets(square, {.weights = 2}));
  if (!short_run()) test_precision(square);
  return report();
}

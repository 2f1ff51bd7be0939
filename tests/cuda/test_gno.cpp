// SPDX-License-Identifier: MIT
// gno and gno_contract: every type, activation, reduction and kernel form on irregular graphs.
#include "gno_cases.h"

namespace {

struct Options {
  int activation = gelu, reduction = sum, kernel = full;
  bool weighted = true, features = true;
};
// In bfloat16 some intermediate results are rounded, each of which is a sum of products.
constexpr double roundings = 4;

std::string text(const std::string& of, const HostGraph& g, Sizes n, Options o) {
  return of + ", activation " + std::to_string(o.activation) +
         (o.reduction == mean ? " mean" : " sum") + (o.kernel == diagonal ? " diagonal, " : ", ") + g.name + ", " + n.name();
}

Problem gno(const HostGraph& g, Sizes n, Options o) {
  const auto graph = on_device(g);
  const int64_t matrix = o.kernel == full ? n.f_in * n.f_out : n.f_out;
  const std::tuple sizes(&graph->view, int64_t(1), n.d, n.n_hidden, n.f_in, n.f_out, o.activation,
                         o.reduction, o.kernel);
  return {text("gno", g, n, o),
          {{o.features ? g.n_src * n.f_in : -1},
           {g.n_edges() * n.d, 1, 0, wide},
           {n.d * n.n_hidden},
           {n.n_hidden},
           {n.n_hidden * matrix, n.layer()},
           {matrix},
           {o.weighted ? g.n_edges() : -1, 1, 0, wide}},
          {{g.n_dst * n.f_out}},
          {},
          THREE_TYPES(gno, sizes, graph),
          o.activation != relu,
          roundings};
}
Problem contract(const HostGraph& g, Sizes n, Options o) {
  const auto graph = on_device(g);
  const int64_t matrix = o.kernel == full ? n.f_in * n.f_out : n.f_out;
  const std::tuple sizes(&graph->view, int64_t(1), n.n_hidden, n.f_in, n.f_out, o.reduction,
                         o.kernel);
  return {text("gno_contract", g, n, o),
          {{o.features ? g.n_src * n.f_in : -1},
           {g.n_edges() * n.n_hidden},
           {n.n_hidden * matrix, n.layer()},
           {matrix},
           {o.weighted ? g.n_edges() : -1, 1, 0, wide}},
          {{g.n_dst * n.f_out}},
          {},
          THREE_TYPES(gno_contract, sizes, graph),
          true,
          roundings};
}

// A block keeps sums for all coordinates of some edges.
void test_refusal() {
  const DeviceGraph graph = to_device(small_square());
  const void* x = nullptr;
  void* grad = nullptr;
  check(gnograd_cuda_gno_vjp_f64(&graph.view, 1, 4000, 1, 1, 1, gelu, sum, full, x, x, x, x, x, x,
                                 x, x, grad, grad, grad, grad, grad, grad, grad, nullptr, 0,
                                 nullptr) == GNOGRAD_CUDA_VALUE,
        "more coordinates than shared memory holds are refused");
}

}  // namespace

int main() {
  require_device();
  const auto graphs = irregular_graphs();
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  // more sources than one addition of what they give the first layer
  const HostGraph many = make_graph(
      "80 sources", 80, 80, true, [](int64_t) { return 1; }, [](int64_t i) { return 7 * i % 80; });
  const auto test = [](const Problem& p, Depth depth = Depth::numbers) {
    check_laws(p, without_half, depth);
  };
  for (const int kernel : {full, diagonal}) {
    const Sizes small = kernel == full ? Sizes{2, 5, 3, 4} : Sizes{2, 5, 4, 4};
    for (const HostGraph& graph : graphs) {
      const Depth depth = all_if(&graph == &square);
      test(gno(graph, small, {gelu, mean, kernel}), depth);
      test(contract(graph, small, {identity, sum, kernel}), depth);
    }
  }
  for (int activation = relu; activation <= identity; ++activation)
    test(gno(square, {2, 5, 4, 4}, {activation, sum, activation % 2, activation > 2}),
         Depth::derivatives);
  test(gno(square, {1, 33, 3, 66}, {hyperbolic, sum, full}));
  test(gno(square, {3, 150, 66, 2}, {silu, mean, full, false}));
  test(gno(irregular, {3, 33, 5, 5}, {sinus, mean, diagonal, true, false}));
  test(contract(square, {0, 130, 1, 3}, {identity, mean, full, false}));
  test(gno(many, {1, 2, 1, 1}, {gelu, sum, full}));
  test(gno(hub(), {1, 3, 6, 6}, {gelu, mean, diagonal}));
  if (!short_run())
    for (const Precision type : {f32, bf16}) {
      check_orders(gno(irregular, {2, 5, 4, 4}, {gelu, mean, full}), type);
      check_orders(gno(hub(), {2, 5, 4, 4}, {gelu, mean, diagonal}), type);
    }
  test_refusal();
  return report();
}

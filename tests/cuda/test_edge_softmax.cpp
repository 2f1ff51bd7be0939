// SPDX-License-Identifier: MIT
// edge_softmax on irregular graphs.
#include "laws.h"

namespace {

Problem softmax(const HostGraph& g, int64_t heads) {
  const auto graph = on_device(g);
  const std::tuple sizes(&graph->view, heads);
  return {"edge_softmax, " + g.name + ", " + std::to_string(heads),
          {{g.n_edges() * heads}},
          {{g.n_edges() * heads}},
          {},
          FOUR_TYPES(edge_softmax, sizes, graph)};
}

// An edge with a score of -inf has no weight, wherever it stands; with no other there is none.
void test_minus_infinity() {
  HostGraph graph = power_law();
  std::vector<double> s(graph.n_edges(), -INFINITY);
  for (int64_t i = 0; i < graph.n_dst; i += 2)
    for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; p += 3)
      s[graph.row(p)] = 0.01 * double(p);
  DeviceGraph d = to_device(graph);
  Device<double> x(s), out(s.size());
  FACE(edge_softmax, forward, f64, std::tuple(&d.view, int64_t(1))).call({x.get(), out.get()});
  const auto got = out.host();
  bool good = true;
  for (int64_t i = 0; i < graph.n_dst; ++i) {
    double sum = 0;
    for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; ++p) {
      good = good && (got[graph.row(p)] > 0) == (s[graph.row(p)] > -INFINITY);
      sum += got[graph.row(p)];
    }
    const bool any = i % 2 == 0 && graph.offsets[i] < graph.offsets[i + 1];
    good = good && std::fabs(sum - any) < 1e-14;
  }
  check(good, "edge_softmax of -inf");
}

}  // namespace

int main() {
  require_device();
  for (const HostGraph& graph : irregular_graphs()) {
    for (const int64_t heads : {0, 1, 3, 33, 70})
      check_laws(softmax(graph, heads), single_double, all_if(heads == 3));
    for (const int64_t heads : {1, 4}) check_laws(softmax(graph, heads), all_types);
  }
  check_laws(softmax(many_nodes(), 2), single_double);
  test_minus_infinity();
  check_orders(softmax(power_law(), 3));
  return report();
}

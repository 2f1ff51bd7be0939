// SPDX-License-Identifier: MIT
// Sizes and choices for the tests of attention on graphs.
#pragma once
#include "laws.h"

constexpr int n_activations = 7;
constexpr int64_t the_seed = 123456789;

struct Setting {
  int64_t heads, size, edge_size;  // edge features of a head; 0: there are none
  bool concat;
  int activation;
  double slope = 0.2, dropout = 0;

  int64_t row() const { return heads * size; }
  int64_t out() const { return concat ? row() : size; }
  // Edge features, or an absent array.
  Array edges(const HostGraph& g) const {
    return {edge_size ? g.n_edges() * heads * edge_size : -1};
  }
  std::vector<Array> saved(const HostGraph& g) const {
    return {{g.n_dst * heads, 1, 0, wide}, {2 * heads * g.n_edges(), 1, 0, wide}};
  }
  std::string name(const std::string& of, const HostGraph& g) const {
    return of + ", " + g.name + ", " + std::to_string(heads) + "x" + std::to_string(size) +
           " edges " + std::to_string(edge_size) + (concat ? " concat" : " mean") + " act " +
           std::to_string(activation) + (dropout > 0 ? " dropout" : "");
  }
};
inline auto seed_on_device() {
  return std::make_shared<Device<int64_t>>(std::vector<int64_t>{the_seed});
}

// Edge features are as wide as the nodes', unless the operator takes others.
inline int test_attention(Problem (*problem)(const HostGraph&, Setting), int n_activations,
                          bool any_edge_size) {
  require_device();
  const auto graphs = irregular_graphs();
  const auto edge = [&](int64_t other, int64_t same) { return any_edge_size ? other : same; };
  const auto all = [&](const HostGraph& graph, Setting s, Depth depth = Depth::numbers) {
    check_laws(problem(graph, s), depth == Depth::all ? all_types : some_types(), depth);
  };
  for (const HostGraph& graph : graphs) {
    all(graph, {3, 5, edge(2, 5), true, 0}, all_if(&graph == &graphs[1]));
    all(graph, {2, 8, 0, false, 1});
    all(graph, {3, 5, edge(2, 5), true, 1, 0.2, 0.4});
  }
  for (int activation = 0; activation < n_activations; ++activation) {
    all(graphs[1], {2, 3, edge(4, 3), false, activation, 0.7}, Depth::derivatives);
    all(graphs[1], {4, 8, edge(16, 8), true, activation});
  }
  all(graphs[1], {1, 16, edge(8, 16), true, 0}, Depth::all);
  all(graphs[1], {1, 1, edge(40, 1), false, 0});
  all(graphs[1], {2, 3, edge(4, 3), false, 1, 0.2, 0.7});
  all(graphs[1], {2, 264, edge(8, 264), true, 1});
  all(many_nodes(), {1, 2, 2, true, 0});
  check_orders(problem(graphs[0], {3, 5, edge(2, 5), true, 1}));
  return report();
}

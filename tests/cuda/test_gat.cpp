// SPDX-License-Identifier: MIT
// mha_gat on irregular graphs.
#include "attention_cases.h"

Problem gat(const HostGraph& g, Setting s) {
  const auto graph = on_device(g);
  const auto seed = seed_on_device();
  const std::tuple sizes(&graph->view, s.heads, s.size, s.edge_size, int(s.concat), s.activation,
                         s.slope, s.dropout, s.dropout > 0 ? seed->get() : nullptr);
  return {s.name("mha_gat", g),
          {{g.n_src * s.row()},
           {g.n_dst * s.row()},
           {2 * s.row() + s.heads * s.edge_size},
           s.edges(g)},
          {{g.n_dst * s.out()}},
          s.saved(g),
          FOUR_TYPES(mha_gat, sizes, graph, seed),
          false,
          4};
}

int main() { return test_attention(gat, n_activations, true); }

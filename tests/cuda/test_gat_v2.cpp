// SPDX-License-Identifier: MIT
// mha_gat_v2 on irregular graphs.
#include "attention_cases.h"

Problem gat_v2(const HostGraph& g, Setting s) {
  const auto graph = on_device(g);
  const auto seed = seed_on_device();
  const std::tuple sizes(&graph->view, s.heads, s.size, int(s.concat), s.activation, s.slope,
                         s.dropout, s.dropout > 0 ? seed->get() : nullptr);
  auto saved = s.saved(g);
  saved.push_back({g.n_edges() * s.row()});
  return {s.name("mha_gat_v2", g),
          {{g.n_src * s.row()}, {g.n_dst * s.row()}, {s.row()}, s.edges(g)},
          {{g.n_dst * s.out()}},
          saved,
          FOUR_TYPES(mha_gat_v2, sizes, graph, seed),
          false,
          4};
}

int main() { return test_attention(gat_v2, n_activations, false); }

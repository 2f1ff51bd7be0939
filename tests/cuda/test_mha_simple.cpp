// SPDX-License-Identifier: MIT
// mha_simple on irregular graphs.
#include "attention_cases.h"

Problem simple(const HostGraph& g, Setting s) {
  const auto graph = on_device(g);
  const auto seed = seed_on_device();
  const std::tuple sizes(&graph->view, s.heads, s.size, int(s.concat), s.activation, s.dropout,
                         s.dropout > 0 ? seed->get() : nullptr);
  return {s.name("mha_simple", g),
          {{g.n_dst * s.row()}, {g.n_src * s.row()}, {g.n_src * s.row()}, s.edges(g)},
          {{g.n_dst * s.out()}},
          s.saved(g),
          FOUR_TYPES(mha_simple, sizes, graph, seed),
          true,
          4};
}

// The activations are norm_by_dim: not set, set.
int main() { return test_attention(simple, 2, false); }

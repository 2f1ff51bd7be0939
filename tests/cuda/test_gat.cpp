// SPDX-License-Identifier: MIT
// mha_gat against plain loops in float64.
#include "attention_cases.h"

ABI_OF(mha_gat)

namespace {

struct Gat {
  static constexpr const char* name = "mha_gat";
  static constexpr int n_activations = ::n_activations;
  static constexpr bool saves_activations = false, any_edge_size = true;

  // x_src, x_dst, [a_src | a_dst | a_edge], e
  static std::array<int64_t, 4> inputs(const HostGraph& g, const Setting& s) {
    return {g.n_src * s.row(), g.n_dst * s.row(), 2 * s.row() + s.edge_row(),
            g.n_edges() * s.edge_row()};
  }
  static auto sizes(const gnograd_cuda_graph* g, const Setting& s) {
    return std::tuple(g, s.heads, s.size, s.edge_size, int(s.concat), s.activation, s.slope,
                      s.dropout, s.seed);
  }

  // score act(z), value x_src_j
  template <class N>
  struct Oracle : Attention<N, Oracle<N>> {
    N z(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
      const auto& s = this->s;
      const N *x = this->node(in[0], this->g.indices[p], h), *y = this->node(in[1], i, h);
      N sum = 0;
      for (int64_t c = 0; c < s.size; ++c)
        sum += in[2][h * s.size + c] * x[c] + in[2][s.row() + h * s.size + c] * y[c];
      for (int64_t c = 0; c < s.edge_size; ++c)
        sum += in[2][2 * s.row() + h * s.edge_size + c] * this->edge(in, p, h, c);
      return sum;
    }
    N score(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
      return this->act(z(in, i, p, h));
    }
    N value(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
      return this->node(in[0], this->g.indices[p], h)[c];
    }
    void pull(Arrays<N>& grad, const Arrays<N>& in, int64_t i, int64_t p, int64_t h, N alpha, N gs,
              const std::vector<N>& gh) const {
      const auto& s = this->s;
      const int64_t j = this->g.indices[p];
      const N gz = gs * this->act_derivative(z(in, i, p, h));
      for (int64_t c = 0; c < s.size; ++c) {
        const int64_t to_src = h * s.size + c, to_dst = s.row() + to_src;
        this->node(grad[0], j, h)[c] += alpha * gh[c] + gz * in[2][to_src];
        this->node(grad[1], i, h)[c] += gz * in[2][to_dst];
        grad[2][to_src] += gz * this->node(in[0], j, h)[c];
        grad[2][to_dst] += gz * this->node(in[1], i, h)[c];
      }
      for (int64_t c = 0; c < s.edge_size; ++c) {
        const int64_t to_edge = 2 * s.row() + h * s.edge_size + c;
        this->edge(grad, p, h)[c] += gz * in[2][to_edge];
        grad[2][to_edge] += gz * this->edge(in, p, h, c);
      }
    }
  };
};

}  // namespace

int main() { return test_operator<Gat>(); }

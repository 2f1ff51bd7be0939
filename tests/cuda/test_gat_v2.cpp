// SPDX-License-Identifier: MIT
// mha_gat_v2 against plain loops in float64.
#include "attention_cases.h"

ABI_OF(mha_gat_v2)

namespace {

struct GatV2 {
  static constexpr const char* name = "mha_gat_v2";
  static constexpr int n_activations = ::n_activations;
  static constexpr bool saves_activations = true, any_edge_size = false;

  // x_src, x_dst, a, e
  static std::array<int64_t, 4> inputs(const HostGraph& g, const Setting& s) {
    return {g.n_src * s.row(), g.n_dst * s.row(), s.row(), g.n_edges() * s.edge_row()};
  }
  static auto sizes(const gnograd_cuda_graph* g, const Setting& s) {
    return std::tuple(g, s.heads, s.size, int(s.concat), s.activation, s.slope, s.dropout,
                      s.seed);
  }

  // score a . act(u), value x_src_j
  template <class N>
  struct Oracle : Attention<N, Oracle<N>> {
    N u(const Arrays<N>& in, int64_t i, int64_t p, int64_t h, int64_t c) const {
      return this->node(in[0], this->g.indices[p], h)[c] + this->node(in[1], i, h)[c] +
             this->edge(in, p, h, c);
    }
    N score(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
      N sum = 0;
      for (int64_t c = 0; c < this->s.size; ++c)
        sum += in[2][h * this->s.size + c] * this->act(u(in, i, p, h, c));
      return sum;
    }
    N value(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
      return this->node(in[0], this->g.indices[p], h)[c];
    }
    void pull(Arrays<N>& grad, const Arrays<N>& in, int64_t i, int64_t p, int64_t h, N alpha, N gs,
              const std::vector<N>& gh) const {
      const int64_t j = this->g.indices[p];
      for (int64_t c = 0; c < this->s.size; ++c) {
        const int64_t k = h * this->s.size + c;
        const N sum = u(in, i, p, h, c), gu = gs * in[2][k] * this->act_derivative(sum);
        this->node(grad[0], j, h)[c] += alpha * gh[c] + gu;
        this->node(grad[1], i, h)[c] += gu;
        if (this->s.edges()) this->edge(grad, p, h)[c] += gu;
        grad[2][k] += gs * this->act(sum);
      }
    }
    // act(u) by position
    std::vector<N> all_activated(const Arrays<N>& in) const {
      const auto &g = this->g, &s = this->s;
      std::vector<N> t(g.n_edges() * s.row());
      for (int64_t i = 0; i < g.n_dst; ++i)
        for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p)
          for (int64_t c = 0; c < s.row(); ++c)
            t[p * s.row() + c] = this->act(u(in, i, p, c / s.size, c % s.size));
      return t;
    }
  };
};

}  // namespace

int main() { return test_operator<GatV2>(); }

// SPDX-License-Identifier: MIT
// mha_simple against plain loops in float64.
#include "attention_cases.h"

ABI_OF(mha_simple)

namespace {

struct Simple {
  static constexpr const char* name = "mha_simple";
  static constexpr int n_activations = 2;  // norm_by_dim is not set, is set
  static constexpr bool saves_activations = false, any_edge_size = false;

  // q, k, v, e
  static std::array<int64_t, 4> inputs(const HostGraph& g, const Setting& s) {
    return {g.n_dst * s.row(), g.n_src * s.row(), g.n_src * s.row(), g.n_edges() * s.edge_row()};
  }
  static auto sizes(const gnograd_cuda_graph* g, const Setting& s) {
    return std::tuple(g, s.heads, s.size, int(s.concat), s.activation, s.dropout, s.seed);
  }

  // score scale q_i . (k_j + e_p), value v_j + e_p
  template <class N>
  struct Oracle : Attention<N, Oracle<N>> {
    using R = typename RealPart<N>::type;
    R scale() const { return this->s.activation ? R(1) / std::sqrt(R(this->s.size)) : R(1); }
    N key(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
      return this->node(in[1], this->g.indices[p], h)[c] + this->edge(in, p, h, c);
    }
    N score(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
      N sum = 0;
      for (int64_t c = 0; c < this->s.size; ++c)
        sum += this->node(in[0], i, h)[c] * key(in, p, h, c);
      return scale() * sum;
    }
    N value(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
      return this->node(in[2], this->g.indices[p], h)[c] + this->edge(in, p, h, c);
    }
    void pull(Arrays<N>& grad, const Arrays<N>& in, int64_t i, int64_t p, int64_t h, N alpha, N gs,
              const std::vector<N>& gh) const {
      const int64_t j = this->g.indices[p];
      for (int64_t c = 0; c < this->s.size; ++c) {
        const N to_key = scale() * gs * this->node(in[0], i, h)[c];
        this->node(grad[0], i, h)[c] += scale() * gs * key(in, p, h, c);
        this->node(grad[1], j, h)[c] += to_key;
        this->node(grad[2], j, h)[c] += alpha * gh[c];
        if (this->s.edges()) this->edge(grad, p, h)[c] += to_key + alpha * gh[c];
      }
    }
  };
};

}  // namespace

int main() { return test_operator<Simple>(); }

// SPDX-License-Identifier: MIT
// Attention like a transformer's on a graph, mha_simple: for an edge p = (j -> i) and every head
//
//     k_p = k_j (+ e_p),   score f q_i . k_p,   value v_j (+ e_p)
//
// with f = 1 / sqrt(n_channels) or 1. Then
//
//     grad q_i = sum of f gs_p k_p             grad k_j = sum of f gs_p q_i
//     grad e_p = alpha_p g_i + f gs_p q_i      grad v_j = sum of alpha_p g_i
#include "graph_attention.cuh"

namespace gnograd {
namespace {

template <class T_, class S_>
struct Simple {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  HeadFeatures<T, S> q, k, v, e;
  real<T> scale;
  HeadGradient<T> grad_q = {}, grad_k = {}, grad_v = {}, grad_e = {};

  struct Score {
    S s;
  };
  __device__ Row with_edge(const HeadFeatures<T, S>& x, const Edge& p, const Place& at,
                           int c) const {
    Row sum = x.load(p.src, at.head, c);
    if (e) sum.add(e.load(p.row, at.head, c));
    return sum;
  }
  __device__ Score score(const Edge& p, const Place& at) const {
    return {scale * sum_over_head<S>(q.heads, at, [&](int c) {
              return inner<S>(q.load(p.dst, at.head, c), with_edge(k, p, at, c));
            })};
  }
  __device__ Row value(const Edge& p, const Place& at, int c) const {
    return with_edge(v, p, at, c);
  }

  __host__ __device__ const Heads& edge_heads() const { return q.heads; }
  using DestinationSum = Row;
  using UnitSum = Nothing;
  __device__ void to_destination(Row& sum_i, Nothing&, const Edge& p, const Place& at, const Score&,
                                 S alpha, S gs, const HeadCotangent<T>& g) const {
    const int c = at.column();
    if (c >= q.heads.size) return;
    sum_i.add(scale * gs, with_edge(k, p, at, c));
    if (!grad_e) return;
    Row g_e;
    g_e.add(scale * gs, q.load(p.dst, at.head, c));
    g_e.add(alpha, g.load(p.dst, at.head, c));
    grad_e.store(q.heads, p.row, at, g_e);
  }
  __device__ void finish_destination(const Row& sum_i, int64_t i, const Place& at) const {
    grad_q.store(q.heads, i, at, sum_i);
  }

  struct SourceSum {
    Row k, v;
    __device__ void merge(const SourceSum& more) {
      k.add(more.k);
      v.add(more.v);
    }
  };
  __device__ void to_source(SourceSum& sum_j, const Edge& p, const Place& at, const Score&, S alpha,
                            S gs, const HeadCotangent<T>& g) const {
    const int c = at.column();
    if (c >= q.heads.size) return;
    sum_j.k.add(scale * gs, q.load(p.dst, at.head, c));
    sum_j.v.add(alpha, g.load(p.dst, at.head, c));
  }
  __device__ void finish_source(const SourceSum& sum_j, int64_t j, const Place& at) const {
    grad_k.store(q.heads, j, at, sum_j.k);
    grad_v.store(q.heads, j, at, sum_j.v);
  }
};

template <class T, class S>
struct SimpleSetup : AttentionSetup<T, S> {
  using Problem = GraphAttentionProblem<T, S>;
  Simple<T, S> model;

  SimpleSetup(const Problem& problem, bool gradients, int64_t) {
    const Heads heads = problem.heads();
    const auto& [q, k, v, e] = problem.in;
    model = {{q, heads}, {k, heads}, {v, heads}, {e, heads}, real<T>(problem.sizes.parameter)};
    if (!gradients) return;
    model.grad_q = {problem.grad[0]};
    model.grad_k = {problem.grad[1]};
    model.grad_v = {problem.grad[2]};
    model.grad_e = {problem.grad[3]};
  }
  bool by_destination() const { return model.grad_q || model.grad_e; }
  bool by_source() const { return model.grad_k || model.grad_v; }
};

template <class T>
struct MhaSimple {
  const gnograd_cuda_graph* graph;
  int64_t n_heads, n_channels;
  int concat_heads, norm_by_dim;
  double dropout;
  const int64_t* seed;  // [1], or null without dropout

  using General = GraphAttention<SimpleSetup, T>;
  using Outputs = GraphAttentionOutputs<T>;
  using Cotangents = GraphAttentionCotangents<T>;
  using Saved = GraphAttentionSaved<T>;
  struct Inputs {
    const T* q;  // [n_dst, n_heads n_channels]
    const T* k;  // [n_src, n_heads n_channels]
    const T* v;  // [n_src, n_heads n_channels]
    const T* e;  // [n_edges, n_heads n_channels], or null
    operator typename General::Inputs() const { return {q, k, v, e}; }
  };
  struct Gradients {
    T *q, *k, *v, *e;  // as the inputs, or null
    operator typename General::Gradients() const { return {q, k, v, e}; }
  };

  General general() const {
    return {graph,
            {n_heads, n_channels, 0, concat_heads != 0, score_linear,
             norm_by_dim ? 1 / sqrt(double(n_channels)) : 1, dropout, seed}};
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return general().forward(in, out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    return general().vjp(g, in, saved, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return general().jvp(in, tangents, out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return general().hvp(g, in, tangents, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "mha_simple_entries.cuh"

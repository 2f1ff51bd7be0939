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
  EdgeWeights<S>* kept = nullptr;

  static constexpr bool has_dots = true;
  static constexpr int rows_of_edge = 2;
  using Part = Nothing;
  using Destination = Row;  // q_i
  template <bool wide>
  struct Rows {
    PackedInput<T, S, wide> k, v, e;
  };
  template <bool wide, int most, class Edges>
  __device__ void load(Rows<wide> (&rows)[most], const Place& at, const Edges& edges) const {
    const auto first_k = k.first(at), first_v = v.first(at), first_e = e.first(at);
    const int count = q.heads.size - at.column(), row_bytes = q.row_bytes();
    const int64_t own_e = edges.own.row * row_bytes;
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = int64_t(edges.of(edges.own.j, b)) * row_bytes;
      const int64_t of_edge = e ? edges.of(own_e, b) : 0;
      if (!in || count <= 0) return;
      rows[b].k.load(first_k, from, count);
      rows[b].v.load(first_v, from, count);
      if (e) rows[b].e.load(first_e, of_edge, count);
    });
  }
  __device__ Row destination(int64_t i, const Place& at) const { return q.load(i, at); }
  __device__ Nothing own_part(int64_t, int64_t, int) const { return {}; }
  template <bool wide>
  __device__ Row with_edge(const PackedInput<T, S, wide>& x, const Rows<wide>& rows) const {
    Row sum = x.unpack();
    if (e) sum.add(rows.e.unpack());
    return sum;
  }
  template <bool wide>
  __device__ S score_part(const Rows<wide>& rows, const Row& q_i) const {
    return inner<S>(q_i, with_edge(rows.k, rows));
  }
  __device__ S score(S sum, Nothing, int64_t, int) const { return scale * sum; }
  template <bool wide>
  __device__ Row value(const Rows<wide>& rows) const {
    return with_edge(rows.v, rows);
  }

  __host__ __device__ const Heads& edge_heads() const { return q.heads; }
  using UnitSum = Nothing;
  template <bool wide>
  __device__ Row to_destination(Row& sum_i, Nothing&, const Rows<wide>& rows, const Row& q_i,
                                const Vector<real<T>, width<T>>& g_i,
                                const EdgeWeights<S>& weights) const {
    sum_i.add(scale * weights.gs, with_edge(rows.k, rows));
    Row g_e;
    g_e.add(scale * weights.gs, q_i);
    g_e.add(weights.alpha, g_i);
    return g_e;
  }
  __device__ void finish_destination(const Row& sum_i, int64_t i, const Place& at) const {
    grad_q.store(q.heads, i, at, sum_i);
  }

  template <bool wide>
  struct SourceRows {
    PackedInput<T, S, wide> q;
    Packed<T, wide> g;
  };
  template <bool wide, int most, class Edges>
  __device__ void load(SourceRows<wide> (&rows)[most], const Place& at, const Edges& edges,
                       const HeadCotangent<T>& g) const {
    const auto first_q = q.first(at);
    const auto first_g = g.first(at);
    const int count = q.heads.size - at.column();
    const int q_bytes = q.row_bytes(), g_bytes = g.row_bytes();
    edges.template each<most>([&](int b, bool in) {
      const int i = edges.of(edges.own.i, b);
      if (!in || count <= 0) return;
      rows[b].q.load(first_q, int64_t(i) * q_bytes, count);
      rows[b].g.load(bytes_behind(first_g, int64_t(i) * g_bytes), count);
    });
  }
  using Source = Nothing;
  __device__ Nothing source(int64_t, const Place&) const { return {}; }
  struct SourceSum {
    Row k, v;
    __device__ void merge(const SourceSum& more) {
      k.add(more.k);
      v.add(more.v);
    }
  };
  template <bool wide>
  __device__ void to_source(SourceSum& sum_j, const SourceRows<wide>& rows, Nothing,
                            const EdgeWeights<S>& weights) const {
    sum_j.k.add(scale * weights.gs, rows.q.unpack());
    sum_j.v.add(weights.alpha, rows.g.unpack());
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
    auto* kept =
        problem.workspace.template take<EdgeWeights<S>>(problem.graph.n_edges * heads.heads);
    if (by_source()) model.kept = kept;
  }
  bool by_destination() const { return model.grad_q || model.grad_e || by_source(); }
  bool by_source() const { return model.grad_k || model.grad_v; }
};

template <class T>
struct MhaSimple : MhaSimpleRecords {
  template <class S>
  GraphAttentionProblem<T, S> problem(const Inputs<T, S>& in, Call& call) const {
    const GraphAttentionSizes sizes{
        n_heads,           n_channels,   0,
        concat_heads != 0, score_linear, norm_by_dim ? 1 / sqrt(double(n_channels)) : 1,
        dropout,           seed};
    return {*graph, sizes, {in.q, in.k, in.v, in.e}, call.workspace, call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return attention_evaluate<SimpleSetup>(problem(in, call), out);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return attention_reverse<SimpleSetup>(problem(in, call), g, saved, grad);
  }
};

}  // namespace
}  // namespace gnograd

#include "mha_simple_entries.cuh"

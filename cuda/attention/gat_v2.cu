// SPDX-License-Identifier: MIT
// Graph attention with the activation inside (GATv2), mha_gat_v2: for an edge p = (j -> i) and
// every head
//
//     u_p = x_src_j + x_dst_i (+ e_p),   t_p = act(u_p),   score a . t_p,   value x_src_j
//
// With gu_p = gs_p a o act'(u_p),
//
//     grad x_src_j = sum of alpha_p g_i + gu_p     grad x_dst_i = sum of gu_p
//     grad e_p     = gu_p                          grad a       = sum of gs_p t_p
#include "device/sums.cuh"
#include "graph_attention.cuh"

namespace gnograd {
namespace {

template <class T_, class S_>
struct GatV2 {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  HeadFeatures<T, S> x, x_dst, e, a;
  HeadFeatures<T, S>
      saved;  // t by position, [n_edges, heads, size], instead of x_dst and e; or null
  ScoreActivation<real<T>> act;
  HeadGradient<T> grad_src = {}, grad_dst = {}, grad_e = {};
  EdgeWeights<S>* kept = nullptr;
  S* unit_sums = nullptr;  // [n_units, heads, size] sums of gs_p t_p, for a; or null

  static constexpr bool has_dots = true;
  static constexpr int rows_of_edge = 2;
  using Part = Nothing;
  struct Destination {
    Row x, a;
  };
  template <bool wide>
  struct Rows {
    PackedInput<T, S, wide> x, more;  // more: t where it was saved, else e, or nothing
  };
  __device__ const HeadFeatures<T, S>& of_edge() const { return saved ? saved : e; }
  template <bool wide, int most, class Edges>
  __device__ void load(Rows<wide> (&rows)[most], const Place& at, const Edges& edges) const {
    const HeadFeatures<T, S>& more = of_edge();
    const auto first_x = x.first(at), first_more = more.first(at);
    const int count = x.heads.size - at.column(), row_bytes = x.row_bytes();
    const int64_t own_more = (saved ? edges.k + at.group.lane : edges.own.row) * row_bytes;
    edges.template each<most>([&](int b, bool in) {
      const int j = edges.of(edges.own.j, b);
      const int64_t from = more ? edges.of(own_more, b) : 0;
      if (!in || count <= 0) return;
      rows[b].x.load(first_x, int64_t(j) * row_bytes, count);
      if (more) rows[b].more.load(first_more, from, count);
    });
  }
  __device__ Destination destination(int64_t i, const Place& at) const {
    return {saved ? Row{} : x_dst.load(i, at), a.load(0, at)};
  }
  __device__ Nothing own_part(int64_t, int64_t, int) const { return {}; }
  // u of the rows of both ends.
  template <class More>
  __device__ Row sum(Row u, const Row& other, const More& more) const {
    u.add(other);
    if (e) u.add(more.unpack());
    return u;
  }
  __device__ Row activated(Row u) const {
    for (int v = 0; v < width<T>; ++v) u[v] = act(u[v]);
    return u;
  }
  template <bool wide>
  __device__ Row activated(const Rows<wide>& rows, const Destination& i) const {
    if (saved) return rows.more.unpack();
    return activated(sum(rows.x.unpack(), i.x, rows.more));
  }
  template <bool wide>
  __device__ S score_part(const Rows<wide>& rows, const Destination& i) const {
    return inner<S>(i.a, activated(rows, i));
  }
  __device__ S score(S sum, Nothing, int64_t, int) const { return sum; }
  template <bool wide>
  __device__ Row value(const Rows<wide>& rows) const {
    return rows.x.unpack();
  }

  // The gradient of u, from t where that was saved.
  template <class More>
  __device__ Row grad_sum(const Row& one, const Row& other, const More& more, Row g, S gs) const {
    if (saved) {
      const Row t = more.unpack();
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * derivative_from(act, t[v]);
    } else {
      const Row u = sum(one, other, more);
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * act.derivative(u[v]);
    }
    return g;
  }

  __host__ __device__ const Heads& edge_heads() const { return x.heads; }
  using UnitSum = Row;
  template <bool wide>
  __device__ Row to_destination(Row& sum_i, Row& unit, const Rows<wide>& rows,
                                const Destination& i, const Vector<real<T>, width<T>>&,
                                const EdgeWeights<S>& weights) const {
    const Row g = grad_sum(rows.x.unpack(), i.x, rows.more, i.a, weights.gs);
    sum_i.add(g);
    if (unit_sums) unit.add(weights.gs, activated(rows, i));
    return g;
  }
  __device__ void finish_destination(const Row& sum_i, int64_t i, const Place& at) const {
    grad_dst.store(x.heads, i, at, sum_i);
  }

  template <bool wide>
  struct SourceRows {
    PackedInput<T, S, wide> x_dst, more;
    Packed<T, wide> g;
  };
  template <bool wide, int most, class Edges>
  __device__ void load(SourceRows<wide> (&rows)[most], const Place& at, const Edges& edges,
                       const HeadCotangent<T>& g) const {
    const HeadFeatures<T, S>& more = of_edge();
    const auto first_x = x_dst.first(at), first_more = more.first(at);
    const auto first_g = g.first(at);
    const int count = x.heads.size - at.column();
    const int row_bytes = x.row_bytes(), g_bytes = g.row_bytes();
    const int64_t own_more = (saved ? edges.own.position : edges.own.row) * row_bytes;
    edges.template each<most>([&](int b, bool in) {
      const int i = edges.of(edges.own.i, b);
      const int64_t from = more ? edges.of(own_more, b) : 0;
      if (!in || count <= 0) return;
      rows[b].g.load(bytes_behind(first_g, int64_t(i) * g_bytes), count);
      if (!saved) rows[b].x_dst.load(first_x, int64_t(i) * row_bytes, count);
      if (more) rows[b].more.load(first_more, from, count);
    });
  }
  struct Source {
    Row x, a;
  };
  __device__ Source source(int64_t j, const Place& at) const {
    return {saved ? Row{} : x.load(j, at), a.load(0, at)};
  }
  struct SourceSum {
    Row x;
    __device__ void merge(const SourceSum& more) { x.add(more.x); }
  };
  template <bool wide>
  __device__ void to_source(SourceSum& sum_j, const SourceRows<wide>& rows, const Source& j,
                            const EdgeWeights<S>& weights) const {
    sum_j.x.add(weights.alpha, rows.g.unpack());
    sum_j.x.add(grad_sum(rows.x_dst.unpack(), j.x, rows.more, j.a, weights.gs));
  }
  __device__ void finish_source(const SourceSum& sum_j, int64_t j, const Place& at) const {
    grad_src.store(x.heads, j, at, sum_j.x);
  }
};

// Inputs of the scores, for callers that keep them: t by position. An edge moves a row of x_src
// (and e) and writes one; bound by memory.
template <class T, class S>
struct GatV2WriteActivated {
  using M = GatV2<T, S>;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = Nothing;
  using Total = Nothing;
  using Own = EdgeToDestination<M>;
  using RowOperands = typename M::Destination;

  Csc graph;
  Heads heads;
  M model;
  HeadGradient<T> out;  // [n_edges, heads, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const { return {model, graph, at, k}; }
  __device__ RowOperands enter(const Place& at, int64_t i) const {
    return model.destination(i, at);
  }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place& at, int64_t, const RowOperands& destination,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    typename M::template Rows<wide> rows[at_once<wide>];
    model.load(rows, at, edges);
    ahead();
    edges.template each<at_once<wide>>([&](int b, bool in) {
      if (in) out.store(heads, edges.k + b, at, model.activated(rows[b], destination));
    });
  }
};

template <class T, class S>
struct GatV2Setup : AttentionSetup<T, S> {
  using Problem = GraphAttentionProblem<T, S>;
  GatV2<T, S> model;
  FoldSpace<S> sum_rows_fold;
  T* grad_a = nullptr;

  GatV2Setup(const Problem& problem, bool gradients, int64_t n_units) {
    const Heads heads = problem.heads();
    const auto& [source, destination, a, e] = problem.in;
    model = {{source, heads},
             {destination, heads},
             {e, heads},
             {a, heads},
             {{problem.saved, nullptr}, heads},
             problem.activation()};
    if (!gradients) return;
    model.unit_sums = problem.workspace.template take<S>(n_units * heads.row());
    sum_rows_fold = FoldSpace<S>(n_units, heads.row(), problem.workspace);
    model.grad_src = {problem.grad[0]};
    model.grad_dst = {problem.grad[1]};
    grad_a = problem.grad[2];
    model.grad_e = {problem.grad[3]};
    if (!grad_a) model.unit_sums = nullptr;
    auto* kept =
        problem.workspace.template take<EdgeWeights<S>>(problem.graph.n_edges * heads.heads);
    if (by_source()) model.kept = kept;
  }
  bool by_destination() const {
    return model.grad_dst || grad_a || model.grad_e || by_source();
  }
  bool by_source() const { return bool(model.grad_src); }

  void save(const Problem& problem, const Csc& rows, const Cut& cut) const {
    if (problem.activated)
      for_rows(GatV2WriteActivated<T, S>{rows, model.x.heads, model, {problem.activated}}, cut,
               nullptr, problem.stream);
  }
  void sum_weights(const Problem& problem, int64_t n_units) const {
    const int64_t d = model.x.heads.row();
    if (grad_a)
      sum_rows(PlainMatrix<S>{model.unit_sums, d}, n_units, d, sum_rows_fold, grad_a,
               problem.stream);
  }
};

template <class T>
struct MhaGatV2 : MhaGatV2Records {
  template <class S>
  GraphAttentionProblem<T, S> problem(const Inputs<T, S>& in, Call& call) const {
    const GraphAttentionSizes sizes{n_heads,    n_channels,     0,       concat_heads != 0,
                                    activation, negative_slope, dropout, seed};
    return {*graph, sizes, {in.x_src, in.x_dst, in.a, in.e}, call.workspace, call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    auto p = problem(in, call);
    p.activated = out.activation_scores;
    return attention_evaluate<GatV2Setup>(p, out);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    auto p = problem(in, call);
    p.saved = saved.activation_scores;
    return attention_reverse<GatV2Setup>(p, g, saved, grad);
  }
};

}  // namespace
}  // namespace gnograd

#include "gat_v2_entries.cuh"

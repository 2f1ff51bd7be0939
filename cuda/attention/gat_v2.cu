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
  S* unit_sums = nullptr;  // [n_units, heads, size] sums of gs_p t_p, for a; or null

  struct Score {
    S s;
  };
  __device__ Row sum(const Edge& p, const Place& at, int c) const {
    Row u = x.load(p.src, at.head, c);
    u.add(x_dst.load(p.dst, at.head, c));
    if (e) u.add(e.load(p.row, at.head, c));
    return u;
  }
  __device__ Row activated(const Edge& p, const Place& at, int c) const {
    if (saved) return saved.load(p.position, at.head, c);
    Row t = sum(p, at, c);
    for (int v = 0; v < width<T>; ++v) t[v] = act(t[v]);
    return t;
  }
  __device__ Score score(const Edge& p, const Place& at) const {
    return {sum_over_head<S>(
        x.heads, at, [&](int c) { return inner<S>(a.load(0, at.head, c), activated(p, at, c)); })};
  }
  __device__ Row value(const Edge& p, const Place& at, int c) const {
    return x.load(p.src, at.head, c);
  }

  // The gradient of u, for this lane's features.
  __device__ Row grad_sum(const Edge& p, const Place& at, S gs) const {
    const int c = at.column();
    Row g = a.load(0, at.head, c);
    if (saved) {
      const Row t = saved.load(p.position, at.head, c);
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * derivative_from(act, t[v]);
    } else {
      const Row u = sum(p, at, c);
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * act.derivative(u[v]);
    }
    return g;
  }

  __host__ __device__ const Heads& edge_heads() const { return x.heads; }
  using DestinationSum = Row;
  using UnitSum = Row;
  __device__ void to_destination(Row& sum_i, Row& unit, const Edge& p, const Place& at,
                                 const Score&, S, S gs, const HeadCotangent<T>&) const {
    const int c = at.column();
    if (c >= x.heads.size) return;
    const Row g = grad_sum(p, at, gs);
    sum_i.add(g);
    if (unit_sums) unit.add(gs, activated(p, at, c));
    grad_e.store(x.heads, p.row, at, g);
  }
  __device__ void finish_destination(const Row& sum_i, int64_t i, const Place& at) const {
    grad_dst.store(x.heads, i, at, sum_i);
  }

  struct SourceSum {
    Row x;
    __device__ void merge(const SourceSum& more) { x.add(more.x); }
  };
  __device__ void to_source(SourceSum& sum_j, const Edge& p, const Place& at, const Score&, S alpha,
                            S gs, const HeadCotangent<T>& g) const {
    const int c = at.column();
    if (c >= x.heads.size) return;
    sum_j.x.add(alpha, g.load(p.dst, at.head, c));
    sum_j.x.add(grad_sum(p, at, gs));
  }
  __device__ void finish_source(const SourceSum& sum_j, int64_t j, const Place& at) const {
    grad_src.store(x.heads, j, at, sum_j.x);
  }
};

// What goes into the scores, for callers that keep it: t by position. An edge moves a row of x_src
// (and e) and writes one; bound by memory.
template <class T, class S>
struct GatV2WriteActivated {
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  GatV2<T, S> model;
  HeadGradient<T> out;  // [n_edges, heads, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    if (const int c = at.column(); c < heads.size)
      out.store(heads, k, at, model.activated(edge_to(graph, i, k), at, c));
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
  }
  bool by_destination() const { return model.grad_dst || grad_a || model.grad_e; }
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
struct MhaGatV2 {
  const gnograd_cuda_graph* graph;
  int64_t n_heads, n_channels;
  int concat_heads, activation;
  double negative_slope, dropout;
  const int64_t* seed;  // [1], or null without dropout

  using General = GraphAttention<GatV2Setup, T>;
  using Outputs = GraphAttentionOutputs<T>;
  using Cotangents = GraphAttentionCotangents<T>;
  using Saved = GraphAttentionSaved<T>;
  struct Inputs {
    const T* x_src;  // [n_src, n_heads n_channels]
    const T* x_dst;  // [n_dst, n_heads n_channels]
    const T* a;      // [n_heads n_channels]
    const T* e;      // [n_edges, n_heads n_channels], or null
    operator typename General::Inputs() const { return {x_src, x_dst, a, e}; }
  };
  struct Gradients {
    T *x_src, *x_dst, *a, *e;  // as the inputs, or null
    operator typename General::Gradients() const { return {x_src, x_dst, a, e}; }
  };

  General general() const {
    return {graph,
            {n_heads, n_channels, 0, concat_heads != 0, activation, negative_slope, dropout,
             seed}};
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

#include "gat_v2_entries.cuh"

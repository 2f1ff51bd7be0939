// SPDX-License-Identifier: MIT
// Graph attention: mha_gat (GAT), mha_gat_v2 (GATv2) and mha_simple (transformer-like).
//
//     out_i = sum_p alpha_p value_p,   alpha = softmax of score_p over the edges p = (j -> i)
//
// for every head. The three differ in score and value only, so each is a struct of formulas, and
// the passes over the graph are written once for all:
//
//     Attend         out_i, by an online softmax
//     Statistics     maximum, 1 / sum and delta_i = sum_p alpha_p ga_p of every softmax,
//                    with ga_p = g_i . value_p
//     ByDestination  gradients of what belongs to destinations, edges and (GATv2) weights
//     BySource       gradients of what belongs to sources, on the transposed graph
//
// With gs_p = alpha_p (ga_p - delta_i), the gradient of score_p.
#include "device/rows.cuh"
#include "device/sums.cuh"

namespace gnograd {
namespace {

// ---- activations ----

enum ActivationCode { leaky_relu, elu, linear, relu, scalar, sigmoid, tanh_ };

// The activations that bend. Not inlined: they are long, and GATv2 has one for every feature.
template <class A, class S>
__device__ __attribute__((noinline)) S smooth_activation(int code, A alpha, S x) {
  if (code == tanh_) return hyperbolic_tangent(x);
  if (code == elu) return value(x) > 0 ? x : alpha * exponential_minus_1(x);
  const S t = exponential(value(x) > 0 ? -x : x);
  return (value(x) > 0 ? S(1) : t) / (S(1) + t);
}
template <class A, class S>
__device__ __attribute__((noinline)) S smooth_derivative(int code, A alpha, S x) {
  if (code == tanh_) {
    const S t = hyperbolic_tangent(x);
    return S(1) - t * t;
  }
  if (code == elu) return value(x) > 0 ? S(1) : alpha * exponential(x);
  const S t = exponential(value(x) > 0 ? -x : x);
  return t / ((S(1) + t) * (S(1) + t));
}

template <class A>
struct Activation {
  int code;
  A alpha;         // ELU: limit at minus infinity
  A above, below;  // the others, where smooth is false: slopes above and below zero
  bool smooth;

  template <class S>
  __device__ S operator()(S x) const {
    return smooth ? smooth_activation(code, alpha, x) : (value(x) > 0 ? above : below) * x;
  }
  template <class S>
  __device__ S derivative(S x) const {
    return smooth ? smooth_derivative(code, alpha, x) : S(value(x) > 0 ? above : below);
  }
};

// The derivative at x, from act(x); the parameter is not negative.
template <class A, class S>
__device__ S derivative_from(const Activation<A>& act, S y) {
  if (!act.smooth) return value(y) > 0 ? act.above : act.below;
  if (act.code == tanh_) return S(1) - y * y;
  if (act.code == elu) return value(y) > 0 ? S(1) : y + S(act.alpha);
  return y * (S(1) - y);
}

template <class A>
Activation<A> make_activation(int code, A parameter) {
  const bool smooth = code == elu || code == sigmoid || code == tanh_;
  const A above = code == scalar ? parameter : 1;
  const A below = code == relu ? 0 : code == linear ? 1 : parameter;
  return {code, parameter, above, below, smooth};
}

// ---- the three operators ----

// Rows of features of one kind of node or edge, head by head: [n, heads, size].
template <class T, class S>
struct Features {
  Input<T, S> x;
  Heads heads;

  explicit __host__ __device__ operator bool() const { return bool(x); }
  __device__ Vector<S, width<T>> load(int64_t row, int head, int c) const {
    return load_vector(x, (row * heads.heads + head) * heads.size + c, heads.size - c, heads.wide);
  }
};

template <class T>
struct Gradient {
  T* x;  // [n, heads, size], or null

  explicit __host__ __device__ operator bool() const { return x; }
  template <class S>
  __device__ void store(const Heads& heads, int64_t row, const Place& at,
                        const Vector<S, width<T>>& v) const {
    const int c = at.column();
    if (x && c < heads.size)
      store_vector(x + (row * heads.heads + at.head) * heads.size + c, v, heads.size - c,
                   heads.wide);
  }
};

// The cotangent of out, [n_dst, heads, size], or [n_dst, size] shared by all heads.
template <class T>
struct Cotangent {
  const T* g;
  Heads heads;
  bool concat;

  __device__ Vector<real<T>, width<T>> load(int64_t i, int head, int c) const {
    const int64_t row = concat ? i * heads.heads + head : i;
    auto x = load_vector(g + row * heads.size + c, heads.size - c, heads.wide);
    if (!concat) x.scale(real<T>(1) / heads.heads);
    return x;
  }
};

// A softmax's maximum and 1 / sum, so that alpha = exp(score - top) * inverse.
template <class S>
struct SoftmaxRow {
  real_part<S> top;
  S inverse, delta;
};

// z = ss_j + sd_i (+ se_p) with ss_j = a_src . x_j and so on, once per node; score = act(z).
template <class T_, class S_>
struct Gat {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  Features<T, S> x;             // sources
  const S *ss, *sd, *se;        // [n_src, heads], [n_dst, heads], [n_edges, heads] or null
  Features<T, S> a_src, a_dst;  // [1, heads, size]
  Features<T, S> e, a_edge;     // [n_edges, heads, edge size], [1, heads, edge size]
  Activation<real<T>> act;
  Gradient<T> grad_src = {}, grad_dst = {}, grad_e = {};
  T* grad_a = nullptr;
  S* gz_src = nullptr;     // [n_src, heads] sums of the gradients of z
  S* gz_dst = nullptr;     // [n_dst, heads]
  S* unit_sums = nullptr;  // [n_units, heads, edge size] sums of gz_p e_p, for a_edge; or null

  struct Score {
    S s, slope;
  };
  __device__ Score score(const Edge& p, const Place& at) const {
    const int h = at.head, n = x.heads.heads;
    S z = ss[p.src * n + h] + sd[p.dst * n + h];
    if (se) z += se[p.row * n + h];
    return {act(z), act.derivative(z)};
  }
  __device__ Row value(const Edge& p, const Place& at, int c) const {
    return x.load(p.src, at.head, c);
  }

  // Here gz_i = sum_p alpha_p (ga_p - delta_i) act'(z_p) comes from two sums that need no delta.
  struct RowSums {
    S slope = 0, slope_ga = 0;
    __device__ void add(S alpha, S ga, const Score& z) {
      slope += alpha * z.slope;
      slope_ga += alpha * z.slope * ga;
    }
    template <class B>
    __device__ void scale(B b) {
      slope *= b;
      slope_ga *= b;
    }
    __device__ void merge(const RowSums& more) {
      slope += more.slope;
      slope_ga += more.slope_ga;
    }
  };
  __device__ void finish_row(const RowSums& sums, const SoftmaxRow<S>& row, int64_t i,
                             const Place& at) const {
    const S gz = row.inverse * (sums.slope_ga - row.delta * sums.slope);
    if (at.group.lane == 0) gz_dst[i * x.heads.heads + at.head] = gz;
    if (!grad_dst) return;
    Place to = at;
    for (to.tile = 0; to.tile < x.heads.tiles; ++to.tile)
      if (const int c = to.column(); c < x.heads.size) {
        Row g;
        g.add(gz, a_dst.load(0, at.head, c));
        grad_dst.store(x.heads, i, to, g);
      }
  }

  // Destinations are done with; edges are left.
  __host__ __device__ const Heads& edge_heads() const { return e.heads; }
  using DestinationSum = Nothing;
  using UnitSum = Row;
  __device__ void to_destination(Nothing&, Row& unit, const Edge& p, const Place& at,
                                 const Score& z, S, S gs, const Cotangent<T>&) const {
    const int c = at.column();
    if (c >= e.heads.size) return;
    const S gz = gs * z.slope;
    unit.add(gz, e.load(p.row, at.head, c));
    Row g;
    g.add(gz, a_edge.load(0, at.head, c));
    grad_e.store(e.heads, p.row, at, g);
  }
  __device__ void finish_destination(const Nothing&, int64_t, const Place&) const {}

  struct SourceSum {
    Row x;
    S gz = 0;
    __device__ void merge(const SourceSum& more) {
      x.add(more.x);
      gz += more.gz;
    }
  };
  __device__ void to_source(SourceSum& sum, const Edge& p, const Place& at, const Score& z, S alpha,
                            S gs, const Cotangent<T>& g) const {
    if (const int c = at.column(); c < x.heads.size) sum.x.add(alpha, g.load(p.dst, at.head, c));
    sum.gz += gs * z.slope;
  }
  __device__ void finish_source(SourceSum sum, int64_t j, const Place& at) const {
    if (at.first()) gz_src[j * x.heads.heads + at.head] = sum.gz;
    const int c = at.column();
    if (!grad_src || c >= x.heads.size) return;
    sum.x.add(sum.gz, a_src.load(0, at.head, c));
    grad_src.store(x.heads, j, at, sum.x);
  }
};

struct NoRowSums {
  template <class... Any>
  __device__ void add(const Any&...) {}
  template <class B>
  __device__ void scale(B) {}
  __device__ void merge(const NoRowSums&) {}
};

// t = act(u), u = x_src_j + x_dst_i (+ e_p), score = a . t, value x_src_j.
template <class T_, class S_>
struct GatV2 {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  Features<T, S> x, x_dst, e, a;
  Features<T, S> saved;  // t by position, [n_edges, heads, size], instead of x_dst and e; or null
  Activation<real<T>> act;
  Gradient<T> grad_src = {}, grad_dst = {}, grad_e = {};
  T* grad_a = nullptr;
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
    return {sum_over_head<S>(x.heads, at, [&](int c) {
      return inner<S>(a.load(0, at.head, c), activated(p, at, c));
    })};
  }
  __device__ Row value(const Edge& p, const Place& at, int c) const {
    return x.load(p.src, at.head, c);
  }

  using RowSums = NoRowSums;
  __device__ void finish_row(const RowSums&, const SoftmaxRow<S>&, int64_t, const Place&) const {}

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
                                 const Score&, S, S gs, const Cotangent<T>&) const {
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
                            S gs, const Cotangent<T>& g) const {
    const int c = at.column();
    if (c >= x.heads.size) return;
    sum_j.x.add(alpha, g.load(p.dst, at.head, c));
    sum_j.x.add(grad_sum(p, at, gs));
  }
  __device__ void finish_source(const SourceSum& sum_j, int64_t j, const Place& at) const {
    grad_src.store(x.heads, j, at, sum_j.x);
  }
};

// score = scale q_i . (k_j + e_p), value v_j + e_p.
template <class T_, class S_>
struct Simple {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  Features<T, S> q, k, v, e;
  real<T> scale;
  Gradient<T> grad_q = {}, grad_k = {}, grad_v = {}, grad_e = {};

  struct Score {
    S s;
  };
  __device__ Row with_edge(const Features<T, S>& x, const Edge& p, const Place& at, int c) const {
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

  using RowSums = NoRowSums;
  __device__ void finish_row(const RowSums&, const SoftmaxRow<S>&, int64_t, const Place&) const {}

  __host__ __device__ const Heads& edge_heads() const { return q.heads; }
  using DestinationSum = Row;
  using UnitSum = Nothing;
  __device__ void to_destination(Row& sum_i, Nothing&, const Edge& p, const Place& at, const Score&,
                                 S alpha, S gs, const Cotangent<T>& g) const {
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
                            S gs, const Cotangent<T>& g) const {
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

// ---- the passes over the graph ----

// Edges in flight: two where registers are left for them.
template <class S, int step>
constexpr int attention_unroll = ScalarTraits<S>::dual || step > 4 ? 1 : 2;

// Online softmax: `sum` of exp(score - top), and whatever else is summed with these weights.
template <class S, class More>
struct SoftmaxSum {
  real_part<S> top = -INFINITY;
  S sum = 0;
  More more{};

  __device__ void scale(real_part<S> factor) {
    sum *= factor;
    more.scale(factor);
  }
  __device__ void raise(real_part<S> new_top) {
    if (!(new_top > top)) return;
    scale(exponential(top - new_top));
    top = new_top;
  }
  // The weight of a score, which is then part of the sum.
  __device__ S take(S score) {
    raise(value(score));
    const S weight = exponential(score - S(top));
    sum += weight;
    return weight;
  }
  __device__ void merge(SoftmaxSum later) {
    raise(later.top);
    later.scale(exponential(later.top - top));
    sum += later.sum;
    more.add(later.more);
  }
  // 1 / sum; of no edges nothing is left.
  __device__ S inverse() const { return value(sum) == 0 ? S(0) : S(1) / sum; }
};

template <class M>
struct Attend {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = SoftmaxSum<S, Vector<S, step>>;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  T* out;                  // [n_dst, heads, size], or null
  real<T>* head_out;       // the same, if out is to be the mean over heads
  real<T>* lse;            // [n_dst, heads] log of the sum of exp(score), or null
  SoftmaxRow<S>* softmax;  // [n_dst, heads], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const Edge p{i, graph.indices[k], graph.edge_of(k), k};
    const S weight = partial.take(model.score(p, at).s);
    if (const int c = at.column(); c < heads.size) partial.more.add(weight, model.value(p, at, c));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    const int64_t row = i * heads.heads + at.head;
    const S inverse = partial.inverse();
    partial.more.scale(inverse);
    if (const int c = at.column(); c < heads.size) {
      const int64_t first = row * heads.size + c;
      if (head_out) store_vector(head_out + first, partial.more, heads.size - c, false);
      else store_vector(out + first, partial.more, heads.size - c, heads.wide);
    }
    if (!at.first()) return;
    if (lse) lse[row] = partial.top + logarithm(value(partial.sum));
    if (softmax) softmax[row] = {partial.top, inverse, S(0)};
  }
  __device__ void leave(const Total&, const Place&, int64_t) const {}
};

template <class M>
struct Statistics {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  struct Sums {
    S ga = 0;
    typename M::RowSums row;
    __device__ void scale(real<T> factor) {
      ga *= factor;
      row.scale(factor);
    }
    __device__ void add(const Sums& more) {
      ga += more.ga;
      row.merge(more.row);
    }
  };
  using Partial = SoftmaxSum<S, Sums>;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  Cotangent<T> g;
  SoftmaxRow<S>* softmax;  // [n_dst, heads]

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const Edge p{i, graph.indices[k], graph.edge_of(k), k};
    const auto score = model.score(p, at);
    const S ga = sum_over_head<S>(
        heads, at, [&](int c) { return inner<S>(g.load(i, at.head, c), model.value(p, at, c)); });
    const S weight = partial.take(score.s);
    partial.more.ga += weight * ga;
    partial.more.row.add(weight, ga, score);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    const S inverse = partial.inverse();
    const SoftmaxRow<S> row{partial.top, inverse, inverse * partial.more.ga};
    if (at.group.lane == 0) softmax[i * heads.heads + at.head] = row;
    model.finish_row(partial.more.row, row, i, at);
  }
  __device__ void leave(const Total&, const Place&, int64_t) const {}
};

// What every gradient of an edge is made of.
template <class M>
struct Softmax {
  using S = typename M::S;
  Heads heads;
  Cotangent<typename M::T> g;
  const SoftmaxRow<S>* rows;  // [n_dst, heads]

  struct Gradient {
    typename M::Score score;
    S alpha, gs;
  };
  __device__ Gradient gradient(const M& model, const Edge& p, const Place& at) const {
    const auto score = model.score(p, at);
    const S ga = sum_over_head<S>(heads, at, [&](int c) {
      return inner<S>(g.load(p.dst, at.head, c), model.value(p, at, c));
    });
    const SoftmaxRow<S> row = rows[p.dst * heads.heads + at.head];
    const S alpha = exponential(score.s - S(row.top)) * row.inverse;
    return {score, alpha, alpha * (ga - row.delta)};
  }
};

template <class M>
struct ByDestination {
  using S = typename M::S;
  static constexpr int step = width<typename M::T>, unroll = attention_unroll<S, step>;
  using Partial = typename M::DestinationSum;
  using Total = typename M::UnitSum;

  Csc graph;
  Heads heads;
  M model;
  Softmax<M> softmax;

  __host__ __device__ int tiles() const { return model.edge_heads().tiles; }

  __device__ void edge(Partial& partial, Total& total, const Place& at, int64_t i,
                       int64_t k) const {
    const Edge p{i, graph.indices[k], graph.edge_of(k), k};
    const auto z = softmax.gradient(model, p, at);
    model.to_destination(partial, total, p, at, z.score, z.alpha, z.gs, softmax.g);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    model.finish_destination(partial, i, at);
  }
  __device__ void leave(const Total& total, const Place& at, int64_t unit) const {
    if constexpr (!std::is_same_v<Total, Nothing>) {
      const Heads& h = model.edge_heads();
      if (!model.unit_sums) return;
      for (int v = 0, c = at.column(); v < step; ++v, ++c)
        if (c < h.size) model.unit_sums[(unit * h.heads + at.head) * h.size + c] = total[v];
    }
  }
};

template <class M>
struct BySource {
  using S = typename M::S;
  static constexpr int step = width<typename M::T>, unroll = attention_unroll<S, step>;
  using Partial = typename M::SourceSum;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  Softmax<M> softmax;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t j, int64_t k) const {
    const Edge p{graph.indices[k], j, graph.edge_of(k), graph.position_of(k)};
    const auto z = softmax.gradient(model, p, at);
    model.to_source(partial, p, at, z.score, z.alpha, z.gs, softmax.g);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t j) const {
    model.finish_source(partial, j, at);
  }
  __device__ void leave(const Total&, const Place&, int64_t) const {}
};

// The scores and their softmax themselves, for callers that keep them: [2, heads, n_edges].
template <class M>
struct WriteSoftmax {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  const SoftmaxRow<S>* softmax;
  real<T>* out;

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const S s = model.score({i, graph.indices[k], graph.edge_of(k), k}, at).s;
    const SoftmaxRow<S> row = softmax[i * heads.heads + at.head];
    if (at.group.lane) return;
    out[at.head * graph.n_edges + k] = result(s);
    out[(heads.heads + at.head) * graph.n_edges + k] =
        result(exponential(s - S(row.top)) * row.inverse);
  }
  __device__ void finish(const Partial&, const Place&, int64_t) const {}
  __device__ void leave(const Total&, const Place&, int64_t) const {}
};

// What goes into the scores of GATv2, likewise: [n_edges, heads, size].
template <class M>
struct WriteActivated {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  T* out;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    const auto t = model.activated({i, graph.indices[k], graph.edge_of(k), k}, at, c);
    Gradient<T>{out}.store(heads, k, at, t);
  }
  __device__ void finish(const Partial&, const Place&, int64_t) const {}
  __device__ void leave(const Total&, const Place&, int64_t) const {}
};

// ---- beside the graph ----

// out[n, h] = a[h] . x[n, h]; a group per row and head.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    row_scores(Features<T, S> x, Features<T, S> a, int64_t n_rows, S* out) {
  const Heads& heads = x.heads;
  const Group group = this_group(heads.lanes);
  const int64_t item = thread_number() >> (__ffs(group.size) - 1), row = item / heads.heads;
  if (row >= n_rows) return;
  const Place at{group, int(item % heads.heads), 0, width<T>};
  const S sum = sum_over_head<S>(
      heads, at, [&](int c) { return inner<S>(a.load(0, at.head, c), x.load(row, at.head, c)); });
  if (group.lane == 0) out[item] = sum;
}

// out[n, c] = mean over h of x[n, h, c]
template <class T>
__global__ void __launch_bounds__(block_threads)
    mean_over_heads(const real<T>* x, int64_t n_rows, int heads, int size, T* out) {
  const int64_t row = thread_number() / size, c = thread_number() % size;
  if (row >= n_rows) return;
  real<T> sum = 0;
  for (int h = 0; h < heads; ++h) sum += x[(row * heads + h) * size + c];
  out[thread_number()] = T(sum / heads);
}

// ---- launchers ----

struct Shape {
  int64_t heads, size, edge_size;  // edge_size: features of a head of e, mha_gat only
  bool concat;
  int activation;
  double parameter;  // of the activation; of mha_simple the factor of the scores

  bool valid() const {
    return heads > 0 && size >= 0 && edge_size >= 0 && activation >= leaky_relu &&
           activation <= tanh_;
  }
};

// One call: its arrays in the operator's order (x_src, x_dst, a, e or q, k, v, e).
template <class T, class S>
struct Call {
  const gnograd_cuda_graph& graph;
  Shape shape;
  Input<T, S> in[4];
  Workspace& workspace;
  cudaStream_t stream;
  // of forward
  T* out = nullptr;
  real<T>* lse = nullptr;             // [n_dst, heads], or null
  real<T>* softmax_scores = nullptr;  // [2, heads, n_edges], or null
  T* activated = nullptr;             // [n_edges, heads, size], or null; mha_gat_v2
  // of the gradients
  const T* g = nullptr;
  const T* saved = nullptr;  // what forward wrote to `activated`, or null
  T* grad[4] = {};  // each or null

  bool arrays_aligned(int64_t size) const {
    bool all = aligned<T>(size, out, g, activated, saved);
    for (int i = 0; i < 4; ++i) all = all && aligned<T>(size, in[i].v, in[i].d, grad[i]);
    return all;
  }
  Heads heads() const { return make_heads<T>(shape.heads, shape.size, arrays_aligned(shape.size)); }
  // Edge features of another width, dealt to groups of the same size.
  Heads edge_heads() const {
    Heads h = heads();
    h.size = int(shape.edge_size);
    h.tiles = int(ceil_div(shape.edge_size, h.lanes * width<T>));
    h.wide = arrays_aligned(shape.size) && arrays_aligned(shape.edge_size);
    return h;
  }
  Activation<real<T>> activation() const {
    return make_activation(shape.activation, real<T>(shape.parameter));
  }
};

template <class T, class S>
void launch_row_scores(const Features<T, S>& x, const Features<T, S>& a, int64_t n_rows, S* out,
                       cudaStream_t stream) {
  launch_threads(n_rows * x.heads.heads * x.heads.lanes, stream, row_scores<T, S>, x, a, n_rows,
                 out);
}

// What the launchers do differently for each operator: set up its formulas, compute what these
// need per node, sum the gradients of its weights.
template <class T, class S>
struct GatSetup {
  Gat<T, S> model;
  Features<T, S> x_dst;
  S *ss, *sd, *se;
  FoldSpace<S> folds[3];

  GatSetup(Call<T, S>& call, bool gradients, int64_t n_units) {
    Workspace& workspace = call.workspace;
    const Heads heads = call.heads(), edge_heads = call.edge_heads();
    const int64_t n_src = call.graph.n_src, n_dst = call.graph.n_dst, n = heads.heads;
    const int64_t d = heads.row(), d_edge = edge_heads.row();
    const auto& [source, destination, a, e] = call.in;

    ss = workspace.take<S>(n_src * n);
    sd = workspace.take<S>(n_dst * n);
    se = d_edge ? workspace.take<S>(call.graph.n_edges * n) : nullptr;
    x_dst = {destination, heads};
    model = {{source, heads},
             ss,
             sd,
             se,
             {a, heads},
             {a + d, heads},
             {e, edge_heads},
             {a + 2 * d, edge_heads},
             call.activation()};
    if (!gradients) return;
    model.gz_src = workspace.take<S>(n_src * n);
    model.gz_dst = workspace.take<S>(n_dst * n);
    model.unit_sums = workspace.take<S>(n_units * d_edge);
    folds[0] = FoldSpace<S>(n_src, d, workspace);
    folds[1] = FoldSpace<S>(n_dst, d, workspace);
    folds[2] = FoldSpace<S>(n_units, d_edge, workspace);
    model.grad_src = {call.grad[0]};
    model.grad_dst = {call.grad[1]};
    model.grad_a = call.grad[2];
    model.grad_e = {call.grad[3]};
    if (!model.grad_a) model.unit_sums = nullptr;
  }
  bool by_destination() const { return se && (model.grad_e || model.grad_a); }
  bool by_source() const { return model.grad_src || model.grad_a; }

  void prepare(const Call<T, S>& call) const {
    launch_row_scores(model.x, model.a_src, call.graph.n_src, ss, call.stream);
    launch_row_scores(x_dst, model.a_dst, call.graph.n_dst, sd, call.stream);
    if (se) launch_row_scores(model.e, model.a_edge, call.graph.n_edges, se, call.stream);
  }
  void sum_weights(const Call<T, S>& call, int64_t n_units) const {
    if (!model.grad_a) return;
    const Heads &h = model.x.heads, &h_edge = model.e.heads;
    const int64_t d = h.row();
    sum_rows(Weighted<T, S>{model.gz_src, model.x.x, h.heads, h.size}, call.graph.n_src, d,
             folds[0], model.grad_a, call.stream);
    sum_rows(Weighted<T, S>{model.gz_dst, x_dst.x, h.heads, h.size}, call.graph.n_dst, d, folds[1],
             model.grad_a + d, call.stream);
    sum_rows(Plain<S>{model.unit_sums, h_edge.row()}, n_units, h_edge.row(), folds[2],
             model.grad_a + 2 * d, call.stream);
  }
};

template <class T, class S>
struct GatV2Setup {
  GatV2<T, S> model;
  FoldSpace<S> fold;

  GatV2Setup(Call<T, S>& call, bool gradients, int64_t n_units) {
    const Heads heads = call.heads();
    const auto& [source, destination, a, e] = call.in;
    model = {{source, heads}, {destination, heads},           {e, heads},
             {a, heads},      {{call.saved, nullptr}, heads}, call.activation()};
    if (!gradients) return;
    model.unit_sums = call.workspace.template take<S>(n_units * heads.row());
    fold = FoldSpace<S>(n_units, heads.row(), call.workspace);
    model.grad_src = {call.grad[0]};
    model.grad_dst = {call.grad[1]};
    model.grad_a = call.grad[2];
    model.grad_e = {call.grad[3]};
    if (!model.grad_a) model.unit_sums = nullptr;
  }
  bool by_destination() const { return model.grad_dst || model.grad_a || model.grad_e; }
  bool by_source() const { return bool(model.grad_src); }

  void prepare(const Call<T, S>&) const {}
  void sum_weights(const Call<T, S>& call, int64_t n_units) const {
    const int64_t d = model.x.heads.row();
    if (model.grad_a)
      sum_rows(Plain<S>{model.unit_sums, d}, n_units, d, fold, model.grad_a, call.stream);
  }
};

template <class T, class S>
struct SimpleSetup {
  Simple<T, S> model;

  SimpleSetup(Call<T, S>& call, bool gradients, int64_t) {
    const Heads heads = call.heads();
    const auto& [q, k, v, e] = call.in;
    model = {{q, heads}, {k, heads}, {v, heads}, {e, heads}, real<T>(call.shape.parameter)};
    if (!gradients) return;
    model.grad_q = {call.grad[0]};
    model.grad_k = {call.grad[1]};
    model.grad_v = {call.grad[2]};
    model.grad_e = {call.grad[3]};
  }
  bool by_destination() const { return model.grad_q || model.grad_e; }
  bool by_source() const { return model.grad_k || model.grad_v; }

  void prepare(const Call<T, S>&) const {}
  void sum_weights(const Call<T, S>&, int64_t) const {}
};

template <template <class, class> class Setup, class T, class S>
int forward(Call<T, S> call) {
  using M = decltype(Setup<T, S>::model);
  if (!call.shape.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = call.heads();
  const Csc rows = by_dst(call.graph);
  Workspace& workspace = call.workspace;
  const int64_t n_softmax = rows.n_rows * heads.heads;

  const Cut cut = take_cut(rows, workspace);
  const Setup<T, S> setup(call, false, cut.n_units);
  char* split = workspace.take<char>(split_bytes<Attend<M>>(cut, heads, heads.tiles));
  auto* softmax = workspace.take<SoftmaxRow<S>>(n_softmax);
  auto* head_out = workspace.take<real<T>>(call.shape.concat ? 0 : n_softmax * heads.size);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, call.stream);
  setup.prepare(call);
  for_rows(Attend<M>{rows, heads, setup.model, call.out, call.shape.concat ? nullptr : head_out,
                     call.lse, call.softmax_scores ? softmax : nullptr},
           cut, split, call.stream);
  if (!call.shape.concat)
    launch_threads(rows.n_rows * heads.size, call.stream, mean_over_heads<T>, head_out, rows.n_rows,
                   heads.heads, heads.size, call.out);
  if (call.softmax_scores)
    for_rows(WriteSoftmax<M>{rows, heads, setup.model, softmax, call.softmax_scores}, cut, split,
             call.stream);
  if constexpr (std::is_same_v<M, GatV2<T, S>>)
    if (call.activated)
      for_rows(WriteActivated<M>{rows, heads, setup.model, call.activated}, cut, split,
               call.stream);
  return cudaGetLastError();
}

template <template <class, class> class Setup, class T, class S>
int gradients(Call<T, S> call) {
  using M = decltype(Setup<T, S>::model);
  if (!call.shape.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = call.heads();
  const Csc rows = by_dst(call.graph), columns = by_src(call.graph);
  Workspace& workspace = call.workspace;

  const Cut cut = take_cut(rows, workspace), transposed = take_cut(columns, workspace);
  const Setup<T, S> setup(call, true, cut.n_units);
  char* split = workspace.take<char>(
      std::max({split_bytes<Statistics<M>>(cut, heads, 1),
                split_bytes<ByDestination<M>>(cut, heads, setup.model.edge_heads().tiles),
                split_bytes<BySource<M>>(transposed, heads, heads.tiles)}));
  auto* softmax = workspace.take<SoftmaxRow<S>>(rows.n_rows * heads.heads);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, call.stream);
  cut_rows(columns, transposed, call.stream);
  setup.prepare(call);
  const Cotangent<T> g{call.g, heads, call.shape.concat};
  const Softmax<M> ready{heads, g, softmax};
  for_rows(Statistics<M>{rows, heads, setup.model, g, softmax}, cut, split, call.stream);
  if (setup.by_destination())
    for_rows(ByDestination<M>{rows, heads, setup.model, ready}, cut, split, call.stream);
  if (setup.by_source())
    for_rows(BySource<M>{columns, heads, setup.model, ready}, transposed, split, call.stream);
  setup.sum_weights(call, cut.n_units);
  return cudaGetLastError();
}

// ---- the four faces ----

struct Arrays {
  const void* v[4] = {};
};

template <template <class, class> class Setup, class T>
struct Faces {
  const gnograd_cuda_graph* graph;
  Shape shape;
  Workspace workspace;
  void* stream = nullptr;

  template <class S>
  Call<T, S> call(const Arrays& in, const Arrays& tangents = {}) {
    Call<T, S> c{*graph, shape, {}, workspace, static_cast<cudaStream_t>(stream)};
    for (int i = 0; i < 4; ++i)
      c.in[i] = {static_cast<const T*>(in.v[i]), static_cast<const T*>(tangents.v[i])};
    return c;
  }
  template <class S>
  int run_gradients(Call<T, S> c, const void* g, void* const (&grad)[4]) {
    c.g = static_cast<const T*>(g);
    for (int i = 0; i < 4; ++i) c.grad[i] = static_cast<T*>(grad[i]);
    return gradients<Setup>(c);
  }

  int forward(const Arrays& in, void* out, void* lse, void* softmax_scores, void* activated) {
    auto c = call<real<T>>(in);
    c.activated = static_cast<T*>(activated);
    c.out = static_cast<T*>(out);
    c.lse = static_cast<real<T>*>(lse);
    c.softmax_scores = static_cast<real<T>*>(softmax_scores);
    return gnograd::forward<Setup>(c);
  }
  int vjp(const void* g, const Arrays& in, const void* activated, void* const (&grad)[4]) {
    auto c = call<real<T>>(in);
    c.saved = static_cast<const T*>(activated);
    return run_gradients(c, g, grad);
  }
  int jvp(const Arrays& in, const Arrays& tangents, void* out) {
    auto c = call<Dual<real<T>>>(in, tangents);
    c.out = static_cast<T*>(out);
    return gnograd::forward<Setup>(c);
  }
  int hvp(const void* g, const Arrays& in, const Arrays& tangents, void* const (&grad)[4]) {
    return run_gradients(call<Dual<real<T>>>(in, tangents), g, grad);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() { return forward({}, nullptr, nullptr, nullptr, nullptr), workspace.bytes(); }
  size_t vjp_bytes() { return vjp(nullptr, {}, nullptr, {}), workspace.bytes(); }
  size_t jvp_bytes() { return jvp({}, {}, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, {}, {}, {}), workspace.bytes(); }
};

}  // namespace
}  // namespace gnograd

using namespace gnograd;

// One face: the function that counts, and the one that runs.
#define FACE(name, type, T, Setup, SIZES, shape, call, count, ...)                          \
  size_t gnograd_cuda_##name##_workspace_bytes_##type(GNOGRAD_CUDA_LIST SIZES) {            \
    return Faces<Setup, T>{graph, shape, {}}.count();                                       \
  }                                                                                         \
  int gnograd_cuda_##name##_##type(GNOGRAD_CUDA_LIST SIZES, __VA_ARGS__, void* workspace,   \
                                   size_t workspace_bytes, void* stream) {                  \
    return Faces<Setup, T>{graph, shape, {workspace, workspace_bytes}, stream}.call;        \
  }

#define FOUR_FACES(name, type, T, Setup, SIZES, shape, WRITTEN, READ, activated, A, B, C, D)     \
  FACE(name##_forward, type, T, Setup, SIZES, shape,                                             \
       forward({{A, B, C, D}}, out, lse, softmax_scores, activated), forward_bytes,              \
       const void* A, const void* B, const void* C, const void* D, void* out,                    \
       GNOGRAD_CUDA_LIST WRITTEN)                                                                \
  FACE(name##_vjp, type, T, Setup, SIZES, shape,                                                 \
       vjp(cotangent, {{A, B, C, D}}, activated, {grad_##A, grad_##B, grad_##C, grad_##D}),      \
       vjp_bytes, const void* cotangent, const void* A, const void* B, const void* C,            \
       const void* D, GNOGRAD_CUDA_LIST READ, void* grad_##A, void* grad_##B, void* grad_##C,    \
       void* grad_##D)                                                                           \
  FACE(name##_jvp, type, T, Setup, SIZES, shape,                                                 \
       jvp({{A, B, C, D}}, {{A##_tangent, B##_tangent, C##_tangent, D##_tangent}}, out_tangent), \
       jvp_bytes, const void* A, const void* B, const void* C, const void* D,                    \
       const void* A##_tangent, const void* B##_tangent, const void* C##_tangent,                \
       const void* D##_tangent, void* out_tangent)                                               \
  FACE(name##_hvp, type, T, Setup, SIZES, shape,                                                 \
       hvp(cotangent, {{A, B, C, D}}, {{A##_tangent, B##_tangent, C##_tangent, D##_tangent}},    \
           {grad_##A##_tangent, grad_##B##_tangent, grad_##C##_tangent, grad_##D##_tangent}),    \
       hvp_bytes, const void* cotangent, const void* A, const void* B, const void* C,            \
       const void* D, const void* A##_tangent, const void* B##_tangent, const void* C##_tangent, \
       const void* D##_tangent, void* grad_##A##_tangent, void* grad_##B##_tangent,              \
       void* grad_##C##_tangent, void* grad_##D##_tangent)

#define GAT_SHAPE \
  (Shape{n_heads, n_channels, n_edge_channels, concat_heads != 0, activation, negative_slope})
#define GAT_V2_SHAPE (Shape{n_heads, n_channels, 0, concat_heads != 0, activation, negative_slope})
#define SIMPLE_SHAPE                                        \
  (Shape{n_heads, n_channels, 0, concat_heads != 0, linear, \
         norm_by_dim ? 1 / sqrt(double(n_channels)) : 1})

// out, lse and softmax_scores are taken, but not read
#define GRAPH_ATTENTION(type, T)                                                                  \
  FOUR_FACES(mha_gat, type, T, GatSetup, GNOGRAD_CUDA_MHA_GAT, GAT_SHAPE, GNOGRAD_CUDA_WRITTEN,   \
             (const void*, const void*, const void*), nullptr, x_src, x_dst, a, e)                             \
  FOUR_FACES(mha_gat_v2, type, T, GatV2Setup, GNOGRAD_CUDA_MHA_GAT_V2, GAT_V2_SHAPE,              \
             GNOGRAD_CUDA_WRITTEN_V2, (const void*, const void*, const void*, const void* activation_scores),  \
             activation_scores, x_src, x_dst, a, e)                                               \
  FOUR_FACES(mha_simple, type, T, SimpleSetup, GNOGRAD_CUDA_MHA_SIMPLE, SIMPLE_SHAPE,             \
             GNOGRAD_CUDA_WRITTEN, (const void*, const void*, const void*), nullptr, q, k, v, e)
GRAPH_ATTENTION(f32, float)
GRAPH_ATTENTION(f64, double)
GRAPH_ATTENTION(f16, __half)
GRAPH_ATTENTION(bf16, __nv_bfloat16)

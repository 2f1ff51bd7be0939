// SPDX-License-Identifier: MIT
// Attention over the edges p = (j -> i) of a graph, whatever the scores are:
//
//     out_i = sum_p alpha_p value_p,   alpha = softmax of score_p over the edges of i
//
// for every head. The passes over the graph are written once for all operators:
//
//     AttentionForward        out_i, by an online softmax
//     AttentionStatistics     maximum, 1 / sum and delta_i = sum_p alpha_p ga_p of every softmax,
//                             with ga_p = g_i . value_p
//     AttentionByDestination  gradients of what belongs to destinations, edges and weights
//     AttentionBySource       gradients of what belongs to sources, on the transposed graph
//
// With gs_p = alpha_p (ga_p - delta_i), the gradient of score_p. Dropout gives every weight a
// factor m_p, 0 or 1 / (1 - p): m_p alpha_p stands in place of alpha_p before values, ga_p is m_p
// g_i . value_p, and the softmax and gs_p are as they were.
//
// Where forward has saved out and lse in full precision, and per head, AttentionStatistics has no
// edges to look at. GAT, whose scores are sums of numbers, has passes of its own (gat_passes.cuh).
//
// An operator is a model M of formulas (gat.cu, gat_v2.cu, mha_simple.cu):
//   T, S                       what it stores and computes with (device/numbers.cuh)
//   Score score(p, at)         of an edge; .s is the score, more may come with it
//   value(p, at, c)            from feature c on
//   edge_heads()               heads as its edges have them
//   DestinationSum, UnitSum    sums over the edges of a destination, of a unit of work; or Nothing
//   to_destination(sum, unit, p, at, score, alpha, gs, g), finish_destination(sum, i, at); here and
//                      in to_source, alpha is m_p alpha_p
//   unit_sums                  [n_units, heads, size] where UnitSum goes, or null
//   SourceSum                  sum over the edges of a source
//   to_source(sum, p, at, score, alpha, gs, g), finish_source(sum, j, at)
#pragma once
#include "device/dropout.cuh"
#include "device/rows.cuh"

namespace gnograd {

// ---- arrays ----

// Rows of features of one kind of node or edge, head by head: [n, heads, size].
template <class T, class S>
struct HeadFeatures {
  Input<T, S> x;
  Heads heads;

  explicit __host__ __device__ operator bool() const { return bool(x); }
  __device__ Vector<S, width<T>> load(int64_t row, int head, int c) const {
    return load_vector(x, (row * heads.heads + head) * heads.size + c, heads.size - c, heads.wide);
  }
};

template <class T>
struct HeadGradient {
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
struct HeadCotangent {
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

// A softmax's maximum, 1 / sum and delta.
template <class S>
struct SoftmaxRow {
  real_part<S> top;
  S inverse, delta;

  __device__ S weight(S score) const { return exponential(score - S(top)) * inverse; }
};

// ---- the passes over the graph ----

// Edges in flight: two where registers are left for them.
template <class S, int step>
constexpr int attention_unroll = ScalarTraits<S>::dual || step > 4 ? 1 : 2;

// ga_p = g_i . value_p
template <class M>
__device__ typename M::S dot_with_value(const M& model, const Heads& heads,
                                        const HeadCotangent<typename M::T>& g, const Edge& p,
                                        const Place& at) {
  using S = typename M::S;
  return sum_over_head<S>(
      heads, at, [&](int c) { return inner<S>(g.load(p.dst, at.head, c), model.value(p, at, c)); });
}

// Online softmax: `sum` of exp(score - top), and whatever else is summed with these weights.
template <class S, class More>
struct OnlineSoftmax {
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
  // The same of a batch, a score on each lane that `has` one. Each lane has the sum of its own
  // weights, all have one maximum: there is one rescaling a batch.
  __device__ S take(S score, bool has, const Group& group) {
    auto most = has && value(score) > top ? value(score) : top;
    for (int d = group.size / 2; d > 0; d /= 2) {
      const auto other = group_swap(most, d, group);
      if (other > most) most = other;
    }
    raise(most);
    const S weight = has ? exponential(score - S(top)) : S(0);
    sum += weight;
    return weight;
  }
  __device__ void merge(OnlineSoftmax later) {
    raise(later.top);
    later.scale(exponential(later.top - top));
    sum += later.sum;
    more.add(later.more);
  }
  // 1 / sum; of no edges nothing is left.
  __device__ S inverse() const { return value(sum) == 0 ? S(0) : S(1) / sum; }
};

// What is summed over a softmax besides its weights: exp(score - top) g.
template <class S>
struct WeightedCotangent {
  S sum = 0;

  template <class B>
  __device__ void scale(B factor) {
    sum *= factor;
  }
  __device__ void add(const WeightedCotangent& more) { sum += more.sum; }
};

// An edge moves what its score and value read: heads size numbers of the source, where both are of
// one array, as in GAT, else twice that, and of the edge. Its row of the destination comes from
// caches. Bound by memory and by the chain of rescaled sums, which a group follows edge by edge.
template <class M>
struct AttentionForward {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = OnlineSoftmax<S, Vector<S, step>>;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  T* out;                  // [n_dst, heads, size], or null
  real<T>* head_out;       // the same, if out is to be the mean over heads
  real<T>* lse;            // [n_dst, heads] log of the sum of exp(score), or null
  SoftmaxRow<S>* softmax;  // [n_dst, heads], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const Edge p = edge_to(graph, i, k);
    S weight = partial.take(model.score(p, at).s);
    weight *= dropout.factor<real<T>>(p.row, at.head, heads.heads);
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
};

// An edge moves what it does in AttentionForward; g_i comes from caches. Two dot products a head.
template <class M>
struct AttentionStatistics {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = OnlineSoftmax<S, WeightedCotangent<S>>;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  HeadCotangent<T> g;
  SoftmaxRow<S>* softmax;  // [n_dst, heads]

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const Edge p = edge_to(graph, i, k);
    const auto score = model.score(p, at);
    S ga = dot_with_value(model, heads, g, p, at);
    ga *= dropout.factor<real<T>>(p.row, at.head, heads.heads);
    const S weight = partial.take(score.s);
    partial.more.sum += weight * ga;
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    const S inverse = partial.inverse();
    if (at.group.lane == 0)
      softmax[i * heads.heads + at.head] = {partial.top, inverse, inverse * partial.more.sum};
  }
};

// The same from what forward has saved: the softmax is exp(score - lse), delta_i is g_i . out_i.
// Group: a head of a destination, lanes over features. Reads g and out once; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    attention_saved_statistics(Heads heads, int64_t n_rows, const T* __restrict__ g,
                               const T* __restrict__ out, const real<T>* __restrict__ lse,
                               SoftmaxRow<S>* __restrict__ softmax) {
  const Group group = this_group(heads.lanes);
  const int64_t item = group.number;
  if (item >= n_rows * heads.heads) return;
  const Place at{group, 0, 0, width<T>};
  const S delta = sum_over_head<S>(heads, at, [&](int c) {
    const int64_t first = item * heads.size + c;
    return inner<S>(load_vector(g + first, heads.size - c, heads.wide),
                    load_vector(out + first, heads.size - c, heads.wide));
  });
  if (group.lane == 0) softmax[item] = {lse[item], S(1), delta};
}

// What every gradient of an edge is made of.
template <class M>
struct ScoreGradients {
  using S = typename M::S;
  Heads heads;
  Dropout dropout;
  HeadCotangent<typename M::T> g;
  const SoftmaxRow<S>* softmax;  // [n_dst, heads]

  struct OfEdge {
    typename M::Score score;
    S alpha, gs;  // alpha with its factor of dropout
  };
  __device__ OfEdge operator()(const M& model, const Edge& p, const Place& at) const {
    const auto score = model.score(p, at);
    const auto factor = dropout.factor<real<typename M::T>>(p.row, at.head, heads.heads);
    S ga = dot_with_value(model, heads, g, p, at);
    ga *= factor;
    const SoftmaxRow<S> row = softmax[p.dst * heads.heads + at.head];
    S alpha = row.weight(score.s);
    const S gs = alpha * (ga - row.delta);
    alpha *= factor;
    return {score, alpha, gs};
  }
};

// An edge moves what it does in AttentionForward, and writes a gradient of its own if it has
// features.
template <class M>
struct AttentionByDestination {
  using S = typename M::S;
  static constexpr int step = width<typename M::T>, unroll = attention_unroll<S, step>;
  using Partial = typename M::DestinationSum;
  using Total = typename M::UnitSum;

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return model.edge_heads().tiles; }

  __device__ void edge(Partial& partial, Total& total, const Place& at, int64_t i,
                       int64_t k) const {
    const Edge p = edge_to(graph, i, k);
    const auto z = gradients(model, p, at);
    model.to_destination(partial, total, p, at, z.score, z.alpha, z.gs, gradients.g);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    model.finish_destination(partial, i, at);
  }
  __device__ void leave(const Total& total, const Place& at, int64_t unit) const {
    const Heads& h = model.edge_heads();
    if (!model.unit_sums) return;
    for (int v = 0, c = at.column(); v < step; ++v, ++c)
      if (c < h.size) model.unit_sums[(unit * h.heads + at.head) * h.size + c] = total[v];
  }
};

// An edge moves what belongs to its destination: g_i, the softmax row, and x_dst_i or q_i where
// scores read them; and its own features. Bound by memory.
template <class M>
struct AttentionBySource {
  using S = typename M::S;
  static constexpr int step = width<typename M::T>, unroll = attention_unroll<S, step>;
  using Partial = typename M::SourceSum;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t j, int64_t k) const {
    const Edge p = edge_from(graph, j, k);
    const auto z = gradients(model, p, at);
    model.to_source(partial, p, at, z.score, z.alpha, z.gs, gradients.g);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t j) const {
    model.finish_source(partial, j, at);
  }
};

// The scores and their softmax themselves, for callers that keep them: [2, heads, n_edges]. An edge
// moves what its score reads, and writes two numbers a head, n_edges apart.
template <class M>
struct AttentionWriteSoftmax {
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
    const S s = model.score(edge_to(graph, i, k), at).s;
    const SoftmaxRow<S> row = softmax[i * heads.heads + at.head];
    if (at.group.lane) return;
    out[at.head * graph.n_edges + k] = result(s);
    out[(heads.heads + at.head) * graph.n_edges + k] = result(row.weight(s));
  }
};

}  // namespace gnograd

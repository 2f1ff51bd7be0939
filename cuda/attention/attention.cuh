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
//     AttentionByDestination  alpha_p and gs_p, which are kept, and gradients of what belongs to
//                             destinations, edges and weights
//     AttentionBySource       gradients of what belongs to sources, on the transposed graph
//
// With gs_p = alpha_p (ga_p - delta_i), the gradient of score_p. Dropout gives every weight a
// factor m_p, 0 or 1 / (1 - p): m_p alpha_p stands in place of alpha_p before values, ga_p is m_p
// g_i . value_p, and the softmax and gs_p are as they were.
//
// Edges come in batches (device/rows.cuh): all rows of a batch are on their way before the first
// dot product, lane b has the score of edge b, and exponentials and the softmax are made once an
// edge and head. Passes by source read two numbers of an edge and head where they would need two
// dot products.
//
// If forward has saved out and lse in full precision, and per head, AttentionStatistics has no
// edges to look at. GAT, whose scores are sums of numbers, has gradients of its own
// (gat_passes.cuh).
//
// An operator is a model M of formulas (gat.cu, gat_v2.cu, mha_simple.cu):
//   T, S                       what it stores and computes with (device/numbers.cuh)
//   has_dots                   scores are dot products of rows, not functions of numbers alone
//   rows_of_edge               1 or 2: of how many there are registers for
//   own_part(j, row, head)     number of an edge that its own lane loads for its score
//   Rows<wide>                 features of an edge, packed; load(all, at, edges)
//   Destination                of its destination; destination(i, at)
//   score_part(rows, destination)      of the dot product, by this lane's features
//   score(sum, part, i, head)  of the sum over all features
//   value(rows)
//   edge_heads()               heads as its edges have them
// and of its gradients, unless these have passes of their own:
//   kept                       [n_edges, heads] (m_p alpha_p, gs_p) by position, or null
//   grad_e                     rows by edge, or null
//   UnitSum, unit_sums         sums over a unit of work, [n_units, heads, size] or null; or Nothing
//   to_destination(sum, unit, rows, destination, g, weights), which returns the gradient of e_p;
//                              finish_destination(sum, i, at)
//   SourceRows<wide>           what belongs to the destination, and e_p; load(all, at, edges, g)
//   Source                     of the source; source(j, at); or Nothing
//   SourceSum                  sum over the edges of a source
//   to_source(sum, rows, source, weights), finish_source(sum, j, at)
#pragma once
#include "device/dropout.cuh"
#include "device/rows.cuh"

namespace gnograd {

// ---- arrays ----

// Bytes before a head's row of [n, heads, size], or before a row of [n, size] that heads share.
template <class T>
__device__ int64_t row_of_head(int64_t row, int head, const Heads& heads, bool each = true) {
  return (each ? row * heads.heads + head : row) * heads.size * int64_t(sizeof(T));
}

// Rows of features of one kind of node or edge, head by head: [n, heads, size].
template <class T, class S>
struct HeadFeatures {
  Input<T, S> x;
  Heads heads;

  explicit __host__ __device__ operator bool() const { return bool(x); }
  // Features of a row on this lane.
  __device__ Vector<S, width<T>> load(int64_t row, const Place& at) const {
    const int c = at.column();
    if (c >= heads.size) return {};
    return load_vector(x, (row * heads.heads + at.head) * heads.size + c, heads.size - c,
                       heads.wide);
  }
  // Numbers of row 0; those of the next row are `row_bytes` further on.
  __device__ Input<T, S> first(const Place& at) const {
    return x + (at.head * heads.size + at.column());
  }
  __device__ int row_bytes() const { return heads.heads * heads.size * int(sizeof(T)); }
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

  // The part of a head in a cotangent that all heads share.
  __device__ real<T> share() const { return concat ? real<T>(1) : real<T>(1) / heads.heads; }
  // Features of row i on this lane.
  __device__ Vector<real<T>, width<T>> load(int64_t i, const Place& at) const {
    const int c = at.column();
    if (c >= heads.size) return {};
    const int64_t row = concat ? i * heads.heads + at.head : i;
    auto x = load_vector(g + row * heads.size + c, heads.size - c, heads.wide);
    if (!concat) x.scale(share());
    return x;
  }
  // Numbers of row 0, as they are stored; those of the next row are `row_bytes` further on.
  __device__ const T* first(const Place& at) const {
    return g + (concat ? at.head * heads.size : 0) + at.column();
  }
  __device__ int row_bytes() const {
    return (concat ? heads.heads : 1) * heads.size * int(sizeof(T));
  }
};

// A softmax's maximum, 1 / sum and delta.
template <class S>
struct SoftmaxRow {
  real_part<S> top;
  S inverse, delta;

  __device__ S weight(S score) const { return exponential(score - S(top)) * inverse; }
};

// ---- a batch of edges ----

template <class M, bool wide>
constexpr int edges_at_once = rows_at_once<typename M::T, typename M::S, wide, M::rows_of_edge>;

// Data that a lane loads of its own edge, for the passes by destination.
template <class M>
struct EdgeToDestination {
  int j;
  int64_t row;            // row of the edge table
  typename M::Part part;  // part of the score

  EdgeToDestination() = default;
  __device__ EdgeToDestination(const M& model, const Csc& by_dst, const Place& at, int64_t k)
      : j(by_dst.indices[k]), row(by_dst.edge_of(k)), part(model.own_part(j, row, at.head)) {}
};

// A batch of edges to i: rows of tile at.tile, and on lane b the score of edge b, with `products`
// ga of it, too. Dot products go over all tiles, that of `at` last.
template <class M, bool wide, bool products>
struct ScoredBatch {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int most = edges_at_once<M, wide>;

  typename M::template Rows<wide> rows[most];
  typename M::Destination destination;
  Vector<real<T>, width<T>> g;
  S score = 0, ga = 0;

  template <class Edges, class Ahead>
  __device__ ScoredBatch(const M& model, const Heads& heads, const Place& at, int64_t i,
                         const Edges& edges, const HeadCotangent<T>& cotangent, Ahead ahead) {
    constexpr bool all = M::has_dots || products;
    const auto part = edges.own.part;
    S dots[most] = {}, ga_of[most] = {};
#pragma unroll 1  // most heads are one tile
    for (int n = all ? 1 : heads.tiles; n <= heads.tiles; ++n) {
      Place to = at;
      to.tile = at.tile + n < heads.tiles ? at.tile + n : at.tile + n - heads.tiles;
      model.load(rows, to, edges);
      destination = model.destination(i, to);
      if constexpr (products) g = cotangent.load(i, to);
      if (n == heads.tiles) ahead();
      const bool some = to.column() < heads.size;
      if constexpr (all)
        edges.template each<most>([&](int b, bool in) {
          if (!in || !some) return;
          if constexpr (M::has_dots) dots[b] += model.score_part(rows[b], destination);
          if constexpr (products) ga_of[b] += inner<S>(g, model.value(rows[b]));
        });
    }
    S sum = 0;
    if constexpr (M::has_dots) sum = group_sums(dots, edges.group);
    if constexpr (products) ga = group_sums(ga_of, edges.group);
    if (edges.has_own()) score = model.score(sum, part, i, at.head);
  }
};

// ---- the passes over the graph ----

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
  // Weights of a batch, from a score on each lane that `has` one. Each lane has the sum of its own
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

// Further sum over a softmax, besides its weights: exp(score - top) g.
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
// one array, else twice that, and of the edge. Its row of the destination comes from caches. Bound
// by memory.
template <class M>
struct AttentionForward {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = OnlineSoftmax<S, Vector<S, step>>;
  using Total = Nothing;
  using Own = EdgeToDestination<M>;

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  T* out;                  // [n_dst, heads, size], or null
  real<T>* head_out;       // in place of out, if out is to be the mean over heads
  real<T>* lse;            // [n_dst, heads] log of the sum of exp(score), or null
  SoftmaxRow<S>* softmax;  // [n_dst, heads], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const { return {model, graph, at, k}; }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const int64_t row = edges.own.row;
    const ScoredBatch<M, wide, false> scored(model, heads, at, i, edges, {}, ahead);
    const bool has = edges.has_own(), some = at.column() < heads.size;
    S weight = partial.take(scored.score, has, edges.group);
    if (has) weight *= dropout.factor<real<T>>(row, at.head, heads.heads);
    edges.template each<at_once<wide>>([&](int b, bool in) {
      const S w = edges.of(weight, b);
      if (in && some) partial.more.add(w, model.value(scored.rows[b]));
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    const int64_t row = i * heads.heads + at.head;
    partial.sum = group_sum(partial.sum, at.group);
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

// An edge moves what it does in AttentionForward; g_i comes from caches. Bound by memory.
template <class M>
struct AttentionStatistics {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = OnlineSoftmax<S, WeightedCotangent<S>>;
  using Total = Nothing;
  using Own = EdgeToDestination<M>;

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  HeadCotangent<T> g;
  SoftmaxRow<S>* softmax;  // [n_dst, heads]

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place& at, int64_t k) const { return {model, graph, at, k}; }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const int64_t row = edges.own.row;
    const ScoredBatch<M, wide, true> scored(model, heads, at, i, edges, g, ahead);
    const bool has = edges.has_own();
    const S weight = partial.take(scored.score, has, edges.group);
    if (!has) return;
    partial.more.sum +=
        weight * (scored.ga * S(dropout.factor<real<T>>(row, at.head, heads.heads)));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    partial.sum = group_sum(partial.sum, at.group);
    const S inverse = partial.inverse(), ga = group_sum(partial.more.sum, at.group);
    if (at.group.lane == 0)
      softmax[i * heads.heads + at.head] = {partial.top, inverse, inverse * ga};
  }
};

// Statistics from what forward has saved: the softmax is exp(score - lse), delta_i is g_i . out_i.
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

// Data for the gradients of scores.
template <class M>
struct ScoreGradients {
  Heads heads;
  Dropout dropout;
  HeadCotangent<typename M::T> g;
  const SoftmaxRow<typename M::S>* softmax;  // [n_dst, heads]
};

// Results of an edge and head: m_p alpha_p, and the gradient of its score.
template <class S>
struct EdgeWeights {
  S alpha, gs;
};

// An edge moves what it does in AttentionForward, writes two numbers a head, and a gradient of its
// own if it has features. Bound by memory.
template <class M>
struct AttentionByDestination {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = Vector<S, step>;
  using Total = typename M::UnitSum;
  using Own = EdgeToDestination<M>;

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const { return {model, graph, at, k}; }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total& total, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const int64_t row = edges.own.row;
    const ScoredBatch<M, wide, true> scored(model, heads, at, i, edges, gradients.g, ahead);
    EdgeWeights<S> mine{0, 0};
    if (edges.has_own()) {
      const S factor = gradients.dropout.template factor<real<T>>(row, at.head, heads.heads);
      const SoftmaxRow<S> softmax = gradients.softmax[i * heads.heads + at.head];
      const S alpha = softmax.weight(scored.score);
      mine = {factor * alpha, alpha * (factor * scored.ga - softmax.delta)};
      if (model.kept && at.tile == 0)
        model.kept[(edges.k + at.group.lane) * heads.heads + at.head] = mine;
    }
    const int c = at.column(), count = heads.size - c;
    const int64_t own_bytes = row_of_head<T>(row, at.head, heads);
    edges.template each<at_once<wide>>([&](int b, bool in) {
      const EdgeWeights<S> weights{edges.of(mine.alpha, b), edges.of(mine.gs, b)};
      const int64_t to = model.grad_e ? edges.of(own_bytes, b) : 0;
      if (!in || count <= 0) return;
      const auto g_e = model.to_destination(partial, total, scored.rows[b], scored.destination,
                                            scored.g, weights);
      if (model.grad_e) store_vector(bytes_behind(model.grad_e.x + c, to), g_e, count, wide);
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    model.finish_destination(partial, i, at);
  }
  __device__ void leave(const Total& total, const Place& at, int64_t unit) const {
    if (!model.unit_sums) return;
    for (int v = 0, c = at.column(); v < step; ++v, ++c)
      if (c < heads.size)
        model.unit_sums[(unit * heads.heads + at.head) * heads.size + c] = total[v];
  }
};

// Pass after AttentionByDestination. An edge moves two numbers a head and what belongs to its
// destination: g_i, and x_dst_i or q_i; and its own features where scores read them. Bound by
// memory.
template <class M>
struct AttentionBySource {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = typename M::SourceSum;
  using Total = Nothing;
  struct Own {
    int i;
    int64_t row, position;
    EdgeWeights<S> weights;
  };
  using RowOperands = typename M::Source;

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const {
    const int64_t position = graph.position_of(k);
    return {graph.indices[k], graph.edge_of(k), position,
            model.kept[position * heads.heads + at.head]};
  }
  __device__ RowOperands enter(const Place& at, int64_t j) const { return model.source(j, at); }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t,
                        const RowOperands& source, const EdgeBatch<Own>& edges,
                        Ahead ahead) const {
    constexpr int most = at_once<wide>;
    EdgeWeights<S> mine = edges.own.weights;
    typename M::template SourceRows<wide> rows[most];
    model.load(rows, at, edges, gradients.g);
    ahead();
    mine.alpha *= gradients.g.share();
    const bool some = at.column() < heads.size;
    edges.template each<most>([&](int b, bool in) {
      const EdgeWeights<S> weights{edges.of(mine.alpha, b), edges.of(mine.gs, b)};
      if (in && some) model.to_source(partial, rows[b], source, weights);
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t j) const {
    model.finish_source(partial, j, at);
  }
};

// The scores and their softmax themselves, for callers that keep them: [2, heads, n_edges]. An edge
// moves what its score reads, and writes two numbers a head, n_edges apart, next to those of its
// neighbours; bound by memory.
template <class M>
struct AttentionWriteSoftmax {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = edges_at_once<M, wide>;
  using Partial = Nothing;
  using Total = Nothing;
  using Own = EdgeToDestination<M>;

  Csc graph;
  Heads heads;
  M model;
  const SoftmaxRow<S>* softmax;
  real<T>* out;

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place& at, int64_t k) const { return {model, graph, at, k}; }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const ScoredBatch<M, wide, false> scored(model, heads, at, i, edges, {}, ahead);
    if (!edges.has_own()) return;
    const SoftmaxRow<S> row = softmax[i * heads.heads + at.head];
    real<T>* const to = out + at.head * graph.n_edges + edges.k + at.group.lane;
    to[0] = result(scored.score);
    to[heads.heads * graph.n_edges] = result(row.weight(scored.score));
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Aggregation of edges into the rows of their destinations, for the walk over rows
// (device/rows.cuh): lanes of a group go over features, groups over units of edges.
#pragma once
#include "device/columns.cuh"
#include "device/rows.cuh"

namespace gnograd {

// One block of columns of the result: what is aggregated into it.
template <class T, class S>
struct EdgeColumns {
  Input<T, S> x;  // [n_src or n_edges, size]
  Input<T, S> w;  // [n_edges], or null: 1
  bool of_edges;  // x is a table of edges
  Heads heads;    // one head of `size` features
  int64_t column;

  __device__ S weight(const Csc& by_dst, int64_t k) const {
    return w ? w[by_dst.edge_of(k)] : S(1);
  }
  __device__ Vector<S, width<T>> features(const Csc& by_dst, int64_t k, int c) const {
    const int64_t row = of_edges ? by_dst.edge_of(k) : by_dst.indices[k];
    return load_vector(x, row * heads.size + c, heads.size - c, heads.wide);
  }
};

// ---- forward ----

// Sum and Mean. Mean divides by node_degree s_i = sum_p w_p, which is the number of edges where
// there are no weights. An edge moves its weight and `size` numbers of x, a row writes as many;
// bound by memory, 2 operations a number.
template <class T, class S>
struct AggSum {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    Vector<S, step> sum;
    S degree = 0;
  };
  using Total = Nothing;

  Csc graph;
  EdgeColumns<T, S> columns;
  Heads heads;
  bool mean;
  RowTable<T> out;
  real<T>* node_degree;  // [n_dst], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const S w = columns.weight(graph, k);
    partial.degree += w;
    if (const int c = at.column(); c < heads.size)
      partial.sum.add(w, columns.features(graph, k, c));
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.sum.add(more.sum);
  }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    if (mean && graph.offsets[row] < graph.offsets[row + 1])
      for (int v = 0; v < step; ++v) partial.sum[v] = partial.sum[v] / partial.degree;
    if (const int c = at.column(); c < heads.size)
      store_vector(out.at(row, columns.column + c), partial.sum, heads.size - c, heads.wide);
    if (node_degree && at.first()) node_degree[row] = result(partial.degree);
  }
};

// Min and Max, feature by feature; of equal candidates the first wins, and NaN wins over numbers.
// An edge moves what it does for a sum, a row 8 bytes a feature more for the winner.
template <class T, class S>
struct AggExtremum {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    Vector<S, step> best;
    int64_t where[step];  // CSC position, plus one: 0 is nowhere
  };
  using Total = Nothing;

  Csc graph;
  EdgeColumns<T, S> columns;
  Heads heads;
  real<T> sign;                // of Max 1, of Min -1
  RowTable<T> out;             // or null
  RowTable<int64_t> location;  // or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void take(Partial& partial, int v, S candidate, int64_t where) const {
    if (!where) return;
    const auto best = sign * value(partial.best[v]);
    if (partial.where[v] && (best != best || sign * value(candidate) <= best)) return;
    partial.best[v] = candidate;
    partial.where[v] = where;
  }
  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    const S w = columns.weight(graph, k);
    const auto x = columns.features(graph, k, c);
    for (int v = 0; v < step; ++v) take(partial, v, w * x[v], k + 1);
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    for (int v = 0; v < step; ++v) take(partial, v, more.best[v], more.where[v]);
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    if (out) store_vector(out.at(row, columns.column + c), partial.best, count, heads.wide);
    if (location)
      for (int v = 0; v < step; ++v)
        if (v < count) *location.at(row, columns.column + c + v) = partial.where[v] - 1;
  }
};

}  // namespace gnograd

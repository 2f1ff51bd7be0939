// SPDX-License-Identifier: MIT
// Gradients of aggregation, for the walk over rows (device/rows.cuh): to source features on the
// transposed graph, to edge features and weights on the graph itself.
#pragma once
#include "agg_forward.cuh"

namespace gnograd {

// The cotangent of one block of columns as its edges see it.
template <class T, class S>
struct ColumnCotangent {
  const T* g;  // [n_dst, stride]
  int64_t stride, column;
  Heads heads;
  RowTable<const int64_t> location;  // Min and Max: who won; else null
  bool mean;
  const S* degree;         // Mean with weights [n_dst]; else null
  const int64_t* offsets;  // of the destinations [n_dst+1]

  // The part of g_i that belongs to CSC position p.
  __device__ Vector<real<T>, width<T>> load(int64_t i, int64_t p, int c) const {
    auto x = load_vector(g + i * stride + column + c, heads.size - c, heads.wide);
    if (location)
      for (int v = 0; v < width<T>; ++v)
        if (c + v < heads.size && *location.at(i, column + c + v) != p) x[v] = 0;
    return x;
  }
  __device__ S divide(S x, int64_t i) const {
    if (!mean) return x;
    return x / (degree ? degree[i] : S(real<T>(offsets[i + 1] - offsets[i])));
  }
};

// grad_x_j = sum over the edges that leave j of w_p g_i (/ s_i), and the cotangent of own_j where
// own is x. An edge moves its weight, position and a row of g; of Min and Max that of the winners,
// 8 bytes a feature, too, which is then most. Bound by memory.
template <class T, class S>
struct AggSourceGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Vector<S, step>;
  using Total = Nothing;

  Csc graph;  // by source
  Input<T, S> w;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  const T* g_own;  // [n_src, stride of the cotangent], or null
  T* grad;         // [n_src, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    const int64_t i = graph.indices[k];
    const S weight = w ? w[graph.edge_of(k)] : S(1);
    partial.add(cotangent.divide(weight, i), cotangent.load(i, graph.position_of(k), c));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    if (g_own)
      partial.add(real<T>(1), load_vector(g_own + row * cotangent.stride + c, count, heads.wide));
    store_vector(grad + row * heads.size + c, partial, count, heads.wide);
  }
};

// grad_e_p = g_i (/ number of edges of i). An edge writes `size` numbers, and reads them from
// caches, since its neighbours have the same i; bound by memory.
template <class T, class S>
struct AggEdgeGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  T* grad;  // [n_edges, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    Vector<S, step> x;
    x.add(cotangent.divide(S(1), i), cotangent.load(i, k, c));
    store_vector(grad + graph.edge_of(k) * heads.size + c, x, heads.size - c, heads.wide);
  }
};

// d_p = g_i . x_j, which is grad_w_p except for Mean; there s_i = sum_p w_p and
// delta_i = sum_p w_p d_p / s_i are what AggMeanWeightGradient needs besides. An edge moves a row
// of x and writes a number; bound by memory, and by the log2(lanes) shuffles of a dot product.
template <class T, class S>
struct AggWeightGradient {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    S degree = 0, weighted = 0;
  };
  using Total = Nothing;

  Csc graph;
  EdgeColumns<T, S> columns;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  T* grad;    // [n_edges]; or null: not wanted, then d is not computed
  S* d;       // [n_edges], Mean only
  S* degree;  // [n_dst], Mean only
  S* delta;   // [n_dst], Mean only

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const S w = columns.weight(graph, k);
    partial.degree += w;
    if (!grad) return;
    const S dot = sum_over_head<S>(heads, at, [&](int c) {
      return inner<S>(cotangent.load(i, k, c), columns.features(graph, k, c));
    });
    partial.weighted += w * dot;
    if (!at.first()) return;
    if (cotangent.mean) d[k] = dot;
    else grad[graph.edge_of(k)] = T(result(dot));
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.weighted += more.weighted;
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    if (!cotangent.mean || !at.first()) return;
    degree[row] = partial.degree;
    delta[row] = partial.weighted / partial.degree;
  }
};

// grad_w_p = g_i . (x_j - out_i) / s_i = (d_p - delta_i) / s_i. An edge reads one number and writes
// one, by one lane of its group.
template <class T, class S>
struct AggMeanWeightGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  const S* d;
  const S* degree;
  const S* delta;
  T* grad;

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    if (at.first()) grad[graph.edge_of(k)] = T(result((d[k] - delta[i]) / degree[i]));
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Gradients of the sums over relations: to sources on the transposed graph, to weights on the graph
// itself, to the coefficients of a basis over chunks of edges.
#pragma once
#include "device/sums.cuh"
#include "relational_sums.cuh"

namespace gnograd {

// The cotangent as an edge of relation r to destination i sees it:
// q_ir = sum of c_rb g_ib, or g_ir without a basis.
template <class T, class S>
struct RelationCotangent {
  RowTable<const T> g;  // [n_dst, relations or bases * size at least]
  Basis<T, S> basis;
  Heads heads;  // one of `size` features

  __device__ Vector<real<T>, width<T>> block(int64_t i, int b, int c) const {
    return load_vector(g.at(i, int64_t(b) * heads.size + c), heads.size - c, heads.wide);
  }
  // f(factor, part of g) for every part of q
  template <class F>
  __device__ void parts(int64_t i, int r, int c, F f) const {
    if (!basis.coeff) {
      f(S(1), block(i, r, c));
      return;
    }
#pragma unroll 1
    for (int b = 0; b < basis.n_bases; ++b) f(basis.at(r, b), block(i, b, c));
  }
};

// grad_x_j = sum over the edges that leave j of v_e q_ir. An edge moves its relation and weight and
// a block of g for every basis; bound by memory.
template <class T, class S>
struct RelationSourceGradient {
  static constexpr int step = width<T>, unroll = 1;
  using Partial = Vector<S, step>;
  using Total = Nothing;

  Csc graph;  // by source
  RelationWeights<T, S> weights;
  RelationCotangent<T, S> cotangent;
  Heads heads;
  T* grad;  // [n_src, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int64_t row = graph.edge_of(k), i = graph.indices[k];
    const int r = weights.relation(row), c = at.column();
    if (r < 0 || c >= heads.size) return;
    const S weight = weights.at(row, i, r);
    cotangent.parts(i, r, c, [&](S factor, const auto& g) { partial.add(weight * factor, g); });
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t j) const {
    if (const int c = at.column(); c < heads.size)
      store_vector(grad + j * heads.size + c, partial, heads.size - c, heads.wide);
  }
};

// d_e = q_ir . x_j, the gradient to v: for Sum that to w. An edge moves a row of x and a block of g
// for every basis, most of them from caches, since its neighbours have the same i.
template <class T, class S>
struct RelationWeightGradient {
  static constexpr int step = width<T>, unroll = 1;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  RelationWeights<T, S> weights;
  RelationCotangent<T, S> cotangent;
  Input<T, S> x;  // [n_src, size]
  Heads heads;
  T* grad;  // [n_edges], Sum
  S* d;     // [n_edges] by position, Mean; else null

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int64_t row = graph.edge_of(k), from = int64_t(graph.indices[k]) * heads.size;
    const int r = weights.relation(row);
    S dot = 0;
    if (r >= 0)
      dot = sum_over_head<S>(heads, at, [&](int c) {
        const auto features = load_vector(x, from + c, heads.size - c, heads.wide);
        S sum = 0;
        cotangent.parts(i, r, c,
                        [&](S factor, const auto& g) { sum += factor * inner<S>(g, features); });
        return sum;
      });
    if (!at.first()) return;
    if (d) d[k] = dot;
    else grad[row] = T(result(dot));
  }
};

// grad_w_e = (d_e - m_ir) / s_ir for Mean. An edge reads one number and writes one.
template <class T, class S>
struct RelationMeanWeightGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  RelationWeights<T, S> weights;
  Heads heads;
  const S* d;     // [n_edges] by position
  const S* mean;  // m [n_dst, n_relations]
  T* grad;        // [n_edges]

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    if (!at.first()) return;
    const int64_t row = graph.edge_of(k);
    const int r = weights.relation(row);
    const int64_t of_row = i * weights.n_relations + r;
    grad[row] = r < 0 ? T(0) : T(result((d[k] - mean[of_row]) / weights.total[of_row]));
  }
};

// sums[chunk, r, b] = sum of v_e g_ib . x_j over the edges of a chunk that are of relation r; zeros
// before. Group: a chunk of consecutive edges and a basis, edge after edge. An edge moves a row of
// x and a block of g; the groups of all bases read the former from caches.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    relational_coefficients(Csc graph, RelationWeights<T, S> weights,
                            RelationCotangent<T, S> cotangent, Input<T, S> x, int n_chunks,
                            S* __restrict__ sums) {
  const Heads& heads = cotangent.heads;
  const Group group = this_group(heads.lanes);
  const int n_bases = cotangent.basis.n_bases;
  const int64_t chunk = group.number / n_bases;
  const int b = int(group.number % n_bases);
  if (chunk >= n_chunks) return;
  const Place at{group, 0, 0, width<T>};
  const int64_t length = (graph.end() + n_chunks - 1) / n_chunks;
  const int64_t first = chunk * length, last = min(first + length, graph.end());
  if (first >= last) return;
  int64_t low = 0, high = graph.n_rows - 1;  // the row of the first edge, by bisection
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (graph.offsets[middle] <= first) low = middle;
    else high = middle - 1;
  }
  sums += chunk * weights.n_relations * n_bases;
  for (int64_t k = first, i = low; k < last; ++k) {
    while (graph.offsets[i + 1] <= k) ++i;
    const int64_t row = graph.edge_of(k), from = int64_t(graph.indices[k]) * heads.size;
    const int r = weights.relation(row);
    if (r < 0) continue;
    const S dot = sum_over_head<S>(heads, at, [&](int c) {
      return inner<S>(cotangent.block(i, b, c),
                      load_vector(x, from + c, heads.size - c, heads.wide));
    });
    if (group.lane == 0) sums[int64_t(r) * n_bases + b] += weights.at(row, i, r) * dot;
  }
}

}  // namespace gnograd

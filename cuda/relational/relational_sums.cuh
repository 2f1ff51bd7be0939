// SPDX-License-Identifier: MIT
// Sums over the edges of one relation, for the walk over rows (device/rows.cuh): a relation, or a
// basis, is a head of `size` features.
#pragma once
#include "device/columns.cuh"
#include "device/rows.cuh"

namespace gnograd {

// What an edge counts in the sum of its relation.
template <class T, class S>
struct RelationWeights {
  const int32_t* edge_type;  // [n_edges]
  int n_relations;
  Input<T, S> w;   // [n_edges], or null: 1
  const S* total;  // Mean: the sums of w [n_dst, n_relations]; else null

  // -1: none, such an edge is left out
  __device__ int relation(int64_t row) const {
    const int32_t r = edge_type[row];
    return r >= 0 && r < n_relations ? r : -1;
  }
  __device__ S plain(int64_t row) const { return w ? w[row] : S(1); }
  __device__ S at(int64_t row, int64_t i, int r) const {
    return total ? plain(row) / total[i * n_relations + r] : plain(row);
  }
};

// total[i, r] = sum of w_e, or of w_e d_e, over the edges of relation r. Lane: a relation. An edge
// moves its relation, and its weight where that is the lane's own; neighbours read the same.
template <class T, class S>
struct RelationTotal {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    S sum = 0;
  };
  using Total = Nothing;

  Csc graph;
  RelationWeights<T, S> weights;
  const S* d;  // [n_edges] by position, for weights of the mean; or null
  Heads heads;
  S* total;  // [n_dst, n_relations]

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const int64_t row = graph.edge_of(k);
    if (const int r = weights.relation(row); r == at.head)
      partial.sum += d ? weights.at(row, i, r) * d[k] : weights.plain(row);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.sum += more.sum; }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    total[i * weights.n_relations + at.head] = partial.sum;
  }
};

// Coefficients of the basis, or none.
template <class T, class S>
struct Basis {
  Input<T, S> coeff;  // [n_relations, n_bases], or null
  int n_bases;

  __device__ S at(int r, int b) const { return coeff[int64_t(r) * n_bases + b]; }
};

// Block b of row i: the sum of v_e x_j over the edges of relation b, or with a basis over all of
// c_rb v_e x_j. An edge moves its relation and, where it counts, `size` numbers of x; of several
// bases those after the first find them in the cache.
template <class T, class S>
struct RelationSum {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Vector<S, step>;
  using Total = Nothing;

  Csc graph;
  RelationWeights<T, S> weights;
  Basis<T, S> basis;
  Input<T, S> x;  // [n_src, size]
  Heads heads;
  RowTable<T> out;  // [n_dst, heads * size at least]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const int64_t row = graph.edge_of(k);
    const int r = weights.relation(row), c = at.column();
    if (r < 0 || c >= heads.size || (!basis.coeff && r != at.head)) return;
    S weight = weights.at(row, i, r);
    if (basis.coeff) weight = weight * basis.at(r, at.head);
    const int64_t from = int64_t(graph.indices[k]) * heads.size + c;
    partial.add(weight, load_vector(x, from, heads.size - c, heads.wide));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    if (const int c = at.column(); c < heads.size)
      store_vector(out.at(i, int64_t(at.head) * heads.size + c), partial, heads.size - c,
                   heads.wide);
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Sums over the edges of one relation, for the walk over rows (device/rows.cuh): a relation, or a
// basis, is a head of `size` features.
#pragma once
#include "device/columns.cuh"
#include "device/rows.cuh"

namespace gnograd {

// Weight of an edge in the sum of its relation.
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
  // v of an edge to i, from its w
  __device__ S of_mean(S w, int64_t i, int r) const {
    return total ? w / total[i * n_relations + r] : w;
  }
  __device__ S at(int64_t row, int64_t i, int r) const { return of_mean(plain(row), i, r); }
};

// Data that a lane loads of its own edge.
template <class S>
struct RelationEdge {
  int other, r;  // node at the other end; relation, or -1
  S w;
  int64_t row;  // row of the edge table

  RelationEdge() = default;
  template <class T>
  __device__ RelationEdge(const Csc& graph, const RelationWeights<T, S>& weights, int64_t k)
      : other(graph.indices[k]), row(graph.edge_of(k)) {
    r = weights.relation(row);
    w = weights.plain(row);
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
// c_rb v_e x_j. A lane loads relation and weight of its own edge of a batch. An edge moves these
// and, where it counts, `size` numbers of x; of several bases those after the first find them in
// the cache. Bound by memory.
template <class T, class S>
struct RelationSum {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = Vector<S, step>;
  using Total = Nothing;
  using Own = RelationEdge<S>;

  Csc graph;
  RelationWeights<T, S> weights;
  Basis<T, S> basis;
  Input<T, S> x;  // [n_src, size]
  Heads heads;
  RowTable<T> out;  // [n_dst, heads * size at least]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const {
    Own own(graph, weights, k);
    if (!basis.coeff && own.r != at.head) own.r = -1;
    return own;
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    const int row_bytes = heads.size * int(sizeof(T));
    const Own own = edges.own;
    const int from = own.r < 0 ? -1 : own.other;
    PackedInput<T, S, wide> rows[most];
    bool counts[most] = {};
    edges.template each<most>([&](int b, bool in) {
      const int j = edges.of(from, b);
      counts[b] = in && j >= 0 && count > 0;
      if (counts[b]) rows[b].load(x + c, int64_t(j) * row_bytes, count);
    });
    ahead();
    S weight = 0;
    if (edges.has_own() && own.r >= 0) {
      weight = weights.of_mean(own.w, i, own.r);
      if (basis.coeff) weight = weight * basis.at(own.r, at.head);
    }
    edges.template each<most>([&](int b, bool) {
      const S w = edges.of(weight, b);
      if (counts[b]) partial.add(w, rows[b].unpack());
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    if (const int c = at.column(); c < heads.size)
      store_vector(out.at(i, int64_t(at.head) * heads.size + c), partial, heads.size - c,
                   heads.wide);
  }
};

}  // namespace gnograd

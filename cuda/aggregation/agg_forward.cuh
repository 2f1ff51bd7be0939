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

  // Data of an edge for all its features.
  struct OfEdge {
    int64_t from;  // bytes of x before its row
    S w;
    int64_t row;  // row of the edge table
  };
  __device__ OfEdge of_edge(const Csc& by_dst, int64_t k) const {
    const int64_t row = by_dst.edge_of(k);
    return {(of_edges ? row : int64_t(by_dst.indices[k])) * heads.size * int64_t(sizeof(T)),
            w ? w[row] : S(1), row};
  }
};

// ---- forward ----

// Sum and Mean. Mean divides by node_degree s_i = sum_p w_p, which is the number of edges where
// there are no weights; every lane sums those of its own edges. An edge moves its weight and `size`
// numbers of x, a row writes as many; bound by memory, 2 operations a number.
template <class T, class S>
struct AggSum {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  struct Partial {
    Vector<S, step> sum;
    S degree = 0;
  };
  using Total = Nothing;
  using Own = typename EdgeColumns<T, S>::OfEdge;

  Csc graph;
  EdgeColumns<T, S> columns;
  Heads heads;
  bool mean;
  RowTable<T> out;
  real<T>* node_degree;  // [n_dst], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t k) const { return columns.of_edge(graph, k); }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    PackedInput<T, S, wide> x[most];
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = edges.of(edges.own.from, b);
      if (in && count > 0) x[b].load(columns.x + c, from, count);
    });
    ahead();
    if (edges.has_own()) partial.degree += edges.own.w;
    edges.template each<most>([&](int b, bool in) {
      const S w = edges.of(edges.own.w, b);
      if (in && count > 0) partial.sum.add(w, x[b].unpack());
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.sum.add(more.sum);
  }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    const S degree = mean || node_degree ? group_sum(partial.degree, at.group) : S(1);
    if (mean && graph.offsets[row] < graph.offsets[row + 1])
      for (int v = 0; v < step; ++v) partial.sum[v] = partial.sum[v] / degree;
    if (const int c = at.column(); c < heads.size)
      store_vector(out.at(row, columns.column + c), partial.sum, heads.size - c, heads.wide);
    if (node_degree && at.first()) node_degree[row] = result(degree);
  }
};

// Min and Max, feature by feature; of equal candidates the first wins, and NaN wins over numbers.
// Candidates are compared as sign w x. An edge moves what it does for a sum, a row 8 bytes a
// feature more for the winner.
template <class T, class S>
struct AggExtremum {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  struct Partial {
    Vector<S, step> best;
    int where[step] = {};  // in the row
    __device__ Partial() {
      for (int v = 0; v < step; ++v) best[v] = S(-INFINITY);
    }
  };
  using Total = Nothing;
  using Own = typename EdgeColumns<T, S>::OfEdge;

  Csc graph;
  EdgeColumns<T, S> columns;
  Heads heads;
  real<T> sign;                // 1 for Max, -1 for Min
  RowTable<T> out;             // or null
  RowTable<int64_t> location;  // CSC positions; or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  // The first of a row wins over nothing, whatever it is.
  __device__ void take(Partial& partial, int v, S candidate, int where, bool first) const {
    const auto best = value(partial.best[v]);
    if (first || !(best != best || value(candidate) <= best)) {
      partial.best[v] = candidate;
      partial.where[v] = where;
    }
  }
  __device__ Own own(const Place&, int64_t k) const {
    Own own = columns.of_edge(graph, k);
    own.w *= sign;
    return own;
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t row, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    const int where = int(edges.k - graph.offsets[row]);
    PackedInput<T, S, wide> x[most];
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = edges.of(edges.own.from, b);
      if (in && count > 0) x[b].load(columns.x + c, from, count);
    });
    ahead();
    edges.template each<most>([&](int b, bool in) {
      const S w = edges.of(edges.own.w, b);
      if (!in || count <= 0) return;
      const auto row_of_x = x[b].unpack();
      for (int v = 0; v < step; ++v) take(partial, v, w * row_of_x[v], where + b, where + b == 0);
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    for (int v = 0; v < step; ++v) take(partial, v, more.best[v], more.where[v], false);
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    const int64_t begin = graph.offsets[row];
    const bool empty = begin == graph.offsets[row + 1];
    if (out) {
      Vector<S, step> best;
      if (!empty)
        for (int v = 0; v < step; ++v) best[v] = sign * partial.best[v];
      store_vector(out.at(row, columns.column + c), best, count, heads.wide);
    }
    if (location)
      for (int v = 0; v < step; ++v)
        if (v < count)
          *location.at(row, columns.column + c + v) = empty ? -1 : begin + partial.where[v];
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Gradients of aggregation, for the walk over rows (device/rows.cuh): to source features on the
// transposed graph, to edge features and weights on the graph itself.
#pragma once
#include "agg_forward.cuh"

namespace gnograd {

// Features that an edge has won, for Min and Max: a byte a lane, and a bit for each of its
// features. Gradients read it instead of the winners' positions, 8 bytes a feature, and then only
// what was won.
template <class X>
struct Winners {
  X* bits;  // [n_edges, row]; or null: all, as in Sum and Mean
  int row;  // lanes of all tiles

  __device__ int64_t column(const Place& at) const {
    return at.tile * at.group.size + at.group.lane;
  }
};
inline Winners<uint8_t> make_winners(uint8_t* bits, const Heads& heads) {
  return {bits, heads.tiles * heads.lanes};
}

// A row reads the winners' positions once, an edge writes its bits; bound by memory.
template <class T>
struct AggFindWinners {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Nothing;
  using Total = Nothing;
  struct Own {};
  struct RowOperands {
    int64_t begin;
    int where[step];
  };

  Csc graph;
  Heads heads;
  RowTable<const int64_t> location;
  int64_t column;
  Winners<uint8_t> won;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t) const { return {}; }
  __device__ RowOperands enter(const Place& at, int64_t row) const {
    RowOperands winners{graph.offsets[row], {}};
    const int c = at.column();
    for (int v = 0; v < step; ++v)
      winners.where[v] =
          c + v < heads.size ? int(*location.at(row, column + c + v) - winners.begin) : -1;
    return winners;
  }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place& at, int64_t, const RowOperands& winners,
                        const EdgeBatch<Own>& edges, Ahead) const {
    const int where = int(edges.k - winners.begin);
    uint8_t* bits = won.bits + edges.k * won.row + won.column(at);
    edges.template each<at_once<wide>>([&](int b, bool in) {
      unsigned mine = 0;
      for (int v = 0; v < step; ++v) mine |= unsigned(winners.where[v] == where + b) << v;
      if (in) bits[b * won.row] = uint8_t(mine);
    });
  }
};

// The cotangent of one block of columns as its edges see it.
template <class T, class S>
struct ColumnCotangent {
  const T* g;  // [n_dst, stride]
  int64_t stride, column;
  Heads heads;
  Winners<const uint8_t> won;
  bool mean;
  const S* degree;         // Mean with weights [n_dst]; else null
  const int64_t* offsets;  // edges by destination [n_dst+1]

  __device__ int64_t from(int64_t i) const { return i * stride + column; }
  __device__ S divide(S x, int64_t i) const {
    if (!mean) return x;
    return x / (degree ? degree[i] : S(real<T>(offsets[i + 1] - offsets[i])));
  }
};

// x where a bit is set, else 0.
template <class X, int n>
__device__ Vector<X, n> where_won(Vector<X, n> x, unsigned bits) {
  for (int v = 0; v < n; ++v)
    if (!(bits >> v & 1)) x[v] = X(0);
  return x;
}

// grad_x_j = sum over the edges that leave j of w_p g_i (/ s_i), and the cotangent of own_j where
// own is x. An edge moves its weight, position and a row of g; of Min and Max (`extremum`) a bit a
// feature, and of g what it has won. Bound by memory.
template <class T, class S, bool extremum>
struct AggSourceGradient {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = Vector<S, step>;
  using Total = Nothing;
  struct Own {
    int64_t from;  // bytes of g before its row
    S w;
    int64_t bits;
  };

  Csc graph;  // by source
  Input<T, S> w;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  const T* g_own;  // [n_src, stride of the cotangent], or null
  T* grad;         // [n_src, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t k) const {
    const int64_t i = graph.indices[k];
    return {cotangent.from(i) * int64_t(sizeof(T)),
            cotangent.divide(w ? w[graph.edge_of(k)] : S(1), i),
            extremum ? graph.position_of(k) * cotangent.won.row : 0};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    [[maybe_unused]] const uint8_t* won = cotangent.won.bits + cotangent.won.column(at);
    unsigned bits[most] = {};
    edges.template each<most>([&](int b, bool in) {
      bits[b] = in && count > 0;
      if constexpr (extremum)
        if (const int64_t first = edges.of(edges.own.bits, b); in) bits[b] = won[first];
    });
    Packed<T, wide> g[most];
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = edges.of(edges.own.from, b);
      if (in && bits[b]) g[b].load(bytes_behind(cotangent.g + c, from), count);
    });
    ahead();
    edges.template each<most>([&](int b, bool in) {
      const S weight = edges.of(edges.own.w, b);
      if (!in || !bits[b]) return;
      if constexpr (extremum) partial.add(weight, where_won(g[b].unpack(), bits[b]));
      else partial.add(weight, g[b].unpack());
    });
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

// grad_e_p = g_i (/ number of edges of i). An edge writes `size` numbers, a row reads as many once;
// bound by memory.
template <class T, class S>
struct AggEdgeGradient {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = Nothing;
  using Total = Nothing;
  struct Own {
    int64_t to;  // bytes
  };
  using RowOperands = Vector<S, step>;

  Csc graph;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  T* grad;  // [n_edges, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t k) const {
    return {graph.edge_of(k) * heads.size * int64_t(sizeof(T))};
  }
  __device__ RowOperands enter(const Place& at, int64_t i) const {
    RowOperands g;
    if (const int c = at.column(); c < heads.size)
      g.add(cotangent.divide(S(1), i),
            load_vector(cotangent.g + cotangent.from(i) + c, heads.size - c, heads.wide));
    return g;
  }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place& at, int64_t, const RowOperands& g,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const int c = at.column(), count = heads.size - c;
    const Own own = edges.own;
    ahead();
    edges.template each<at_once<wide>>([&](int b, bool in) {
      const int64_t to = edges.of(own.to, b);
      if (!in || count <= 0) return;
      auto x = g;
      if (const auto& won = cotangent.won; won.bits)
        x = where_won(x, won.bits[(edges.k + b) * won.row + won.column(at)]);
      store_vector(bytes_behind(grad + c, to), x, count, wide);
    });
  }
};

// d_p = g_i . x_j, which is grad_w_p except for Mean; there s_i = sum_p w_p and
// delta_i = sum_p w_p d_p / s_i are what AggMeanWeightGradient needs besides. Lane b has the dot
// product of edge b of a batch, and sums over its own edges. An edge moves a row of x, or of it
// what it has won, and writes a number; bound by memory.
template <class T, class S, bool extremum>
struct AggWeightGradient {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  struct Partial {
    S degree = 0, weighted = 0;
  };
  using Total = Nothing;
  using Own = typename EdgeColumns<T, S>::OfEdge;

  Csc graph;
  EdgeColumns<T, S> columns;
  ColumnCotangent<T, S> cotangent;
  Heads heads;
  T* grad;    // [n_edges]; or null: not wanted, then d is not computed
  S* d;       // [n_edges], Mean only
  S* degree;  // [n_dst], Mean only
  S* delta;   // [n_dst], Mean only

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const { return columns.of_edge(graph, k); }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const Own own = edges.own;
    if (edges.has_own()) partial.degree += own.w;
    if (!grad) return ahead();
    S dot[most] = {};
#pragma unroll 1  // most heads are one tile
    for (Place of_tile = at; of_tile.tile < heads.tiles; ++of_tile.tile) {
      const int c = of_tile.column(), count = heads.size - c;
      const auto& won = cotangent.won;
      [[maybe_unused]] const uint8_t* first = won.bits + edges.k * won.row + won.column(of_tile);
      unsigned bits[most] = {};
      edges.template each<most>([&](int b, bool in) {
        if constexpr (extremum) bits[b] = in ? first[b * won.row] : 0;
        else bits[b] = in && count > 0;
      });
      Packed<T, wide> g{};
      if (count > 0) g.load(cotangent.g + cotangent.from(i) + c, count);
      PackedInput<T, S, wide> x[most];
      edges.template each<most>([&](int b, bool in) {
        const int64_t from = edges.of(own.from, b);
        if (in && bits[b]) x[b].load(columns.x + c, from, count);
      });
      if (of_tile.tile + 1 == heads.tiles) ahead();
      const auto of_row = g.unpack();
      edges.template each<most>([&](int b, bool in) {
        if (!in || !bits[b]) return;
        if constexpr (extremum)
          dot[b] += inner<S>(where_won(of_row, bits[b]), where_won(x[b].unpack(), bits[b]));
        else dot[b] += inner<S>(of_row, x[b].unpack());
      });
    }
    const S mine = group_sums(dot, edges.group);
    if (!edges.has_own()) return;
    partial.weighted += own.w * mine;
    if (cotangent.mean) d[edges.k + at.group.lane] = mine;
    else grad[own.row] = T(result(mine));
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.weighted += more.weighted;
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    if (!cotangent.mean) return;
    const S s = group_sum(partial.degree, at.group), sum = group_sum(partial.weighted, at.group);
    if (!at.first()) return;
    degree[row] = s;
    delta[row] = sum / s;
  }
};

// grad_w_p = g_i . (x_j - out_i) / s_i = (d_p - delta_i) / s_i. Lane: an edge, which reads one
// number and writes one; bound by memory.
template <class T, class S>
struct AggMeanWeightGradient {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Nothing;
  using Total = Nothing;
  struct Own {
    S d;
    int64_t row;
  };

  Csc graph;
  const S* d;
  const S* degree;
  const S* delta;
  T* grad;
  Heads heads = {1, 1, 8, 1, true};

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const { return {d[k], graph.edge_of(k)}; }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place&, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    if (edges.has_own()) grad[edges.own.row] = T(result((edges.own.d - delta[i]) / degree[i]));
    ahead();
  }
};

}  // namespace gnograd

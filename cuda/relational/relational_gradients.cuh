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

  // Parts of q_ir for an edge to i: a block of g and its factor each.
  __device__ int parts() const { return basis.coeff ? basis.n_bases : 1; }
  __device__ int block(int part, int r) const { return basis.coeff ? part : r; }
  __device__ S factor(int part, int r) const { return basis.coeff ? basis.at(r, part) : S(1); }
  // Bytes before a block of row i.
  __device__ int64_t from(int64_t i, int block) const {
    return (i * g.stride + int64_t(block) * heads.size) * int64_t(sizeof(T));
  }
};

// grad_x_j = sum over the edges that leave j of v_e q_ir. A lane loads relation and weight of its
// own edge of a batch. An edge moves these and a block of g for every basis; bound by memory.
template <class T, class S>
struct RelationSourceGradient {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = Vector<S, step>;
  using Total = Nothing;
  using Own = RelationEdge<S>;

  Csc graph;  // by source
  RelationWeights<T, S> weights;
  RelationCotangent<T, S> cotangent;
  Heads heads;
  T* grad;  // [n_src, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t k) const {
    Own own(graph, weights, k);
    if (own.r >= 0) own.w = weights.of_mean(own.w, own.other, own.r);
    return own;
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    const Own own = edges.own;
    const bool mine = edges.has_own() && own.r >= 0;
    ahead();
#pragma unroll 1
    for (int part = 0; part < cotangent.parts(); ++part) {
      const int64_t from = mine ? cotangent.from(own.other, cotangent.block(part, own.r)) : -1;
      Packed<T, wide> g[most];
      bool counts[most] = {};
      edges.template each<most>([&](int b, bool in) {
        const int64_t bytes = edges.of(from, b);
        counts[b] = in && bytes >= 0 && count > 0;
        if (counts[b]) g[b].load(bytes_behind(cotangent.g.x + c, bytes), count);
      });
      const S weight = mine ? own.w * cotangent.factor(part, own.r) : S(0);
      edges.template each<most>([&](int b, bool) {
        const S w = edges.of(weight, b);
        if (counts[b]) partial.add(w, g[b].unpack());
      });
    }
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t j) const {
    if (const int c = at.column(); c < heads.size)
      store_vector(grad + j * heads.size + c, partial, heads.size - c, heads.wide);
  }
};

// d_e = q_ir . x_j, the gradient to v: for Sum that to w. Lane b has the dot products of edge b of
// a batch. An edge moves a row of x, and a block of g for every basis, most of them from caches,
// since its neighbours have the same i; bound by memory.
template <class T, class S>
struct RelationWeightGradient {
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide, 2>;
  using Partial = Nothing;
  using Total = Nothing;
  using Own = RelationEdge<S>;

  Csc graph;
  RelationWeights<T, S> weights;
  RelationCotangent<T, S> cotangent;
  Input<T, S> x;  // [n_src, size]
  Heads heads;
  T* grad;  // [n_edges], Sum
  S* d;     // [n_edges] by position, Mean; else null

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const { return {graph, weights, k}; }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const Own own = edges.own;
    const bool mine = edges.has_own() && own.r >= 0;
    const int from = mine ? own.other : -1, row_bytes = heads.size * int(sizeof(T));
    ahead();
    S dot = 0;
#pragma unroll 1  // most heads are one tile
    for (int tile = 0; tile < heads.tiles; ++tile) {
      const int c = at.column(tile), count = heads.size - c;
      PackedInput<T, S, wide> rows[most];
      bool counts[most] = {};
      edges.template each<most>([&](int b, bool in) {
        const int j = edges.of(from, b);
        counts[b] = in && j >= 0 && count > 0;
        if (counts[b]) rows[b].load(x + c, int64_t(j) * row_bytes, count);
      });
#pragma unroll 1
      for (int part = 0; part < cotangent.parts(); ++part) {
        const int64_t of_row = mine ? cotangent.from(i, cotangent.block(part, own.r)) : 0;
        Packed<T, wide> g[most];
        edges.template each<most>([&](int b, bool) {
          const int64_t bytes = edges.of(of_row, b);
          if (counts[b]) g[b].load(bytes_behind(cotangent.g.x + c, bytes), count);
        });
        S dots[most] = {};
        edges.template each<most>([&](int b, bool) {
          if (counts[b]) dots[b] = inner<S>(g[b].unpack(), rows[b].unpack());
        });
        const S sum = group_sums(dots, edges.group);
        if (mine) dot += cotangent.factor(part, own.r) * sum;
      }
    }
    if (!edges.has_own()) return;
    if (d) d[edges.k + at.group.lane] = dot;
    else grad[own.row] = T(result(dot));
  }
};

// grad_w_e = (d_e - m_ir) / s_ir for Mean. Lane: an edge, which reads one number of its own and two
// of its row, and writes one; bound by memory.
template <class T, class S>
struct RelationMeanWeightGradient {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Nothing;
  using Total = Nothing;
  struct Own {
    S d;
    int64_t row;
    int r;
  };

  Csc graph;
  RelationWeights<T, S> weights;
  const S* d;     // [n_edges] by position
  const S* mean;  // m [n_dst, n_relations]
  T* grad;        // [n_edges]
  Heads heads = {1, 1, 8, 1, true};

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const {
    const int64_t row = graph.edge_of(k);
    return {d[k], row, weights.relation(row)};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total&, const Place&, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const Own own = edges.own;
    ahead();
    if (!edges.has_own()) return;
    const int64_t of_row = i * weights.n_relations + own.r;
    grad[own.row] =
        own.r < 0 ? T(0) : T(result((own.d - mean[of_row]) / weights.total[of_row]));
  }
};

// sums[chunk, r, b] = sum of v_e g_ib . x_j over the edges of a chunk that are of relation r; zeros
// before. Group: a chunk of consecutive edges and a basis, a batch of edges at a time; lane l adds
// up relations l, l + lanes, ..., in a register where they are no more than lanes. An edge moves a
// row of x and a block of g, of which the groups of other bases find the former in caches; bound by
// the issue of instructions.
template <class T, class S, bool wide>
__global__ void __launch_bounds__(block_threads)
    relational_coefficients(Csc graph, RelationWeights<T, S> weights,
                            RelationCotangent<T, S> cotangent, Input<T, S> x, int n_chunks,
                            S* __restrict__ sums) {
  constexpr int most = rows_at_once<T, S, wide, 2>;
  const Heads& heads = cotangent.heads;
  const Group mine = this_group(heads.lanes), group{mine.size, mine.lane, mine.number, ~0u};
  const int n_bases = cotangent.basis.n_bases, n_relations = weights.n_relations;
  const auto item = divided(group.number, n_bases);
  const int64_t chunk = item.quotient;
  const int basis = item.rest;
  const int64_t length = (graph.end() + n_chunks - 1) / n_chunks;
  const int64_t first = min(chunk * length, graph.end());
  const int64_t last = chunk < n_chunks ? min(first + length, graph.end()) : first;
  int64_t low = 0, high = graph.n_rows - 1;  // the row of the first edge, by bisection
  while (first < last && low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (graph.offsets[middle] <= first) low = middle;
    else high = middle - 1;
  }
  const bool few = n_relations <= group.size;
  const int at_once = min(most, group.size), row_bytes = heads.size * int(sizeof(T));
  const T* const block = cotangent.g.x + basis * heads.size;
  const int g_bytes = int(cotangent.g.stride) * int(sizeof(T));
  S* const to = sums + (chunk * n_relations) * n_bases + basis;
  S sum = 0;
  int i = int(low);
  for (int64_t k = first; __any_sync(~0u, k < last); k += at_once) {
    const int n = int(max(int64_t(0), min(int64_t(at_once), last - k)));
    RelationEdge<S> own;
    if (group.lane < n) own = {graph, weights, k + group.lane};
    const EdgeBatch<RelationEdge<S>> edges(group, k, n, most, own);
    const bool has = edges.has_own() && edges.own.r >= 0;
    const int from = has ? edges.own.other : -1;
    int rows[most], own_row = 0;  // destinations
    for (int b = 0; b < most; ++b) {
      if (b < n)
        while (graph.offsets[i + 1] <= k + b) ++i;
      rows[b] = i;
      if (b == group.lane) own_row = i;
    }
    S dots[most] = {};
#pragma unroll 1  // most heads are one tile
    for (Place at{group, 0, 0, width<T>}; at.tile < heads.tiles; ++at.tile) {
      const int c = at.column(), count = heads.size - c;
      PackedInput<T, S, wide> features[most];
      Packed<T, wide> g[most];
      bool counts[most] = {};
      edges.template each<most>([&](int b, bool in) {
        const int j = edges.of(from, b);
        counts[b] = in && j >= 0 && count > 0;
        if (!counts[b]) return;
        features[b].load(x + c, int64_t(j) * row_bytes, count);
        g[b].load(bytes_behind(block + c, int64_t(rows[b]) * g_bytes), count);
      });
      edges.template each<most>([&](int b, bool) {
        if (counts[b]) dots[b] += inner<S>(g[b].unpack(), features[b].unpack());
      });
    }
    S product = group_sums(dots, group);
    product = has ? weights.of_mean(edges.own.w, own_row, edges.own.r) * product : S(0);
    const int relation = has ? edges.own.r : -1;
    edges.template each<most>([&](int b, bool in) {
      const S more = edges.of(product, b);
      const int r = edges.of(relation, b);
      if (!in || r < 0 || (r & (group.size - 1)) != group.lane) return;
      if (few) sum += more;
      else to[int64_t(r) * n_bases] += more;
    });
  }
  if (few && first < last && group.lane < n_relations) to[int64_t(group.lane) * n_bases] = sum;
}

}  // namespace gnograd

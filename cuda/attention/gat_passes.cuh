// SPDX-License-Identifier: MIT
// The passes of attention.cuh for GAT, whose scores act(ss_j + sd_i + se_p) are functions of three
// numbers: a lane has the score of its own edge of a batch, and exponentials and the softmax are
// made once an edge and head, while only rows of values go over all lanes. The gradient of z is
// kept, a number an edge and head, so that sums by destination read these instead of rows.
#pragma once
#include "graph_attention.cuh"

namespace gnograd {

// Bytes before a head's row of [n, heads, size], or before a row of [n, size] that heads share.
template <class T>
__device__ int64_t row_of_head(int64_t row, int head, const Heads& heads, bool each = true) {
  return (each ? row * heads.heads + head : row) * heads.size * int64_t(sizeof(T));
}

// An edge moves a number of its source and heads size numbers of x_src. Bound by memory.
template <class M>
struct GatForward {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = OnlineSoftmax<S, Vector<S, step>>;
  using Total = Nothing;
  struct Own {
    int64_t from, row;  // bytes of x; of the edge table
    S z;                // without the destination's part
  };

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  T* out;                  // [n_dst, heads, size], or null
  real<T>* head_out;       // the same, if out is to be the mean over heads
  real<T>* lse;            // [n_dst, heads] log of the sum of exp(score), or null
  SoftmaxRow<S>* softmax;  // [n_dst, heads], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const {
    const int64_t j = graph.indices[k], row = graph.edge_of(k);
    return {row_of_head<T>(j, at.head, heads), row, model.source_part(j, row, at.head)};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    const Own own = edges.own;
    PackedInput<T, S, wide> x[most];
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = edges.of(own.from, b);
      if (in && count > 0) x[b].load(model.x.x + c, from, count);
    });
    ahead();
    const bool has = edges.has_own();
    const S score = has ? model.act(own.z + model.destination_part(i, at.head)) : S(0);
    S weight = partial.take(score, has, edges.group);
    if (has) weight *= dropout.factor<real<T>>(own.row, at.head, heads.heads);
    edges.template each<most>([&](int b, bool in) {
      const S w = edges.of(weight, b);
      if (in && count > 0) partial.more.add(w, x[b].unpack());
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

// An edge moves what it does in GatForward; g_i comes from caches. Lane b of a group has the dot
// product of edge b of a batch.
template <class M>
struct GatStatistics {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = OnlineSoftmax<S, WeightedCotangent<S>>;
  using Total = Nothing;
  using Own = typename GatForward<M>::Own;

  Csc graph;
  Heads heads;
  M model;
  Dropout dropout;
  HeadCotangent<T> g;
  SoftmaxRow<S>* softmax;  // [n_dst, heads]

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place& at, int64_t k) const {
    const int64_t j = graph.indices[k], row = graph.edge_of(k);
    return {row_of_head<T>(j, at.head, heads), row, model.source_part(j, row, at.head)};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t i, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const Own own = edges.own;
    S dot[most] = {};
#pragma unroll 1  // most heads are one tile
    for (int tile = 0; tile < heads.tiles; ++tile) {
      const int c = at.column(tile), count = heads.size - c;
      PackedInput<T, S, wide> x[most];
      edges.template each<most>([&](int b, bool in) {
        const int64_t from = edges.of(own.from, b);
        if (in && count > 0) x[b].load(model.x.x + c, from, count);
      });
      Vector<real<T>, step> of_row;
      if (count > 0) of_row = g.load(i, at.head, c);
      edges.template each<most>([&](int b, bool in) {
        if (in && count > 0) dot[b] += inner<S>(of_row, x[b].unpack());
      });
    }
    ahead();
    S ga = group_sums(dot, edges.group);
    const bool has = edges.has_own();
    const S score = has ? model.act(own.z + model.destination_part(i, at.head)) : S(0);
    const S weight = partial.take(score, has, edges.group);
    if (!has) return;
    ga *= dropout.factor<real<T>>(own.row, at.head, heads.heads);
    partial.more.sum += weight * ga;
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    partial.sum = group_sum(partial.sum, at.group);
    const S inverse = partial.inverse(), ga = group_sum(partial.more.sum, at.group);
    if (at.group.lane == 0)
      softmax[i * heads.heads + at.head] = {partial.top, inverse, inverse * ga};
  }
};

// grad x_src, and the gradient gz_p of z of every edge. An edge moves g_i, the softmax and a number
// of its destination, and writes a number a head; bound by memory.
template <class M>
struct GatBySource {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  struct Partial {
    Vector<S, step> x;
    S gz = 0;  // of the lane's own edges
  };
  using Total = Nothing;
  struct Own {
    int64_t from, row, position;  // bytes of g; of the edge table; of gz
    S z;                          // without the source's part
    SoftmaxRow<S> softmax;
  };

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const {
    const int64_t i = graph.indices[k], row = graph.edge_of(k);
    return {row_of_head<T>(i, at.head, heads, gradients.g.concat), row,
            graph.position_of(k) * heads.heads + at.head, model.destination_part(i, row, at.head),
            gradients.softmax[i * heads.heads + at.head]};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t j, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const Own own = edges.own;
    const auto load = [&](Packed<T, wide>* g, int tile) {
      const int c = at.column(tile), count = heads.size - c;
      edges.template each<most>([&](int b, bool in) {
        const int64_t from = edges.of(own.from, b);
        if (in && count > 0) g[b].load(bytes_behind(gradients.g.g + c, from), count);
      });
    };
    S dot[most] = {};
    const auto multiply = [&](const Packed<T, wide>* g, int tile) {
      const int c = at.column(tile), count = heads.size - c;
      Vector<S, step> x;
      if (count > 0) x = model.x.load(j, at.head, c);
      edges.template each<most>([&](int b, bool in) {
        if (in && count > 0) dot[b] += inner<S>(g[b].unpack(), x);
      });
    };
    Packed<T, wide> g[most], other[most];
    load(g, at.tile);
#pragma unroll 1  // most heads are one tile
    for (int tile = 0; tile < heads.tiles; ++tile)
      if (tile != at.tile) {
        load(other, tile);
        multiply(other, tile);
      }
    ahead();
    multiply(g, at.tile);

    S ga = group_sums(dot, edges.group), alpha = 0;
    // a cotangent that heads share is divided among them
    const auto share = real<T>(1) / (gradients.g.concat ? 1 : heads.heads);
    if (edges.has_own()) {
      const S z = own.z + model.source_part(j, at.head);
      const auto factor = gradients.dropout.template factor<real<T>>(own.row, at.head, heads.heads);
      ga *= share * factor;
      alpha = own.softmax.weight(model.act(z));
      const S gz = alpha * (ga - own.softmax.delta) * model.act.derivative(z);
      alpha *= share * factor;
      partial.gz += gz;
      if (at.tile == 0) model.gz[own.position] = gz;
    }
    const int count = heads.size - at.column();
    edges.template each<most>([&](int b, bool in) {
      const S w = edges.of(alpha, b);
      if (in && count > 0) partial.x.add(w, g[b].unpack());
    });
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.x.add(more.x);
    partial.gz += more.gz;
  }
  __device__ void finish(Partial partial, const Place& at, int64_t j) const {
    partial.gz = group_sum(partial.gz, at.group);
    model.finish_source(partial.x, partial.gz, j, at);
  }
};

// gz_i = sum of gz_p, and grad x_dst_i. An edge moves a number a head, lanes have those of their
// own edges; bound by memory.
template <class M>
struct GatByDestination {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = warp_lanes;
  struct Partial {
    S gz = 0;
  };
  using Total = Nothing;
  struct Own {
    S gz;
  };

  Csc graph;
  Heads heads;
  M model;
  ScoreGradients<M> gradients;

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place& at, int64_t k) const {
    return {model.gz[k * heads.heads + at.head]};
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place&, int64_t, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const S gz = edges.own.gz;
    ahead();
    if (edges.has_own()) partial.gz += gz;
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.gz += more.gz; }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    model.finish_destination(group_sum(partial.gz, at.group), i, at);
  }
};

// grad e_p = gz_p a_edge, and sums of gz_p e_p over units. An edge reads its features, writes as
// many; bound by memory.
template <class M>
struct GatEdgeGradient {
  using T = typename M::T;
  using S = typename M::S;
  static constexpr int step = width<T>;
  template <bool wide>
  static constexpr int at_once = rows_at_once<T, S, wide>;
  using Partial = Nothing;
  using Total = Vector<S, step>;
  struct Own {
    int64_t row;  // bytes of e
    S gz;
  };
  using RowOperands = Vector<S, step>;  // a_edge

  Csc graph;
  Heads heads;
  M model;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place& at, int64_t k) const {
    return {row_of_head<T>(graph.edge_of(k), at.head, heads), model.gz[k * heads.heads + at.head]};
  }
  __device__ RowOperands enter(const Place& at, int64_t) const {
    if (at.column() >= heads.size) return {};
    return model.a_edge.load(0, at.head, at.column());
  }
  template <bool wide, class Ahead>
  __device__ void batch(Nothing&, Total& unit, const Place& at, int64_t, const RowOperands& a,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    constexpr int most = at_once<wide>;
    const int c = at.column(), count = heads.size - c;
    const Own own = edges.own;
    PackedInput<T, S, wide> e[most];
    edges.template each<most>([&](int b, bool in) {
      const int64_t from = edges.of(own.row, b);
      if (in && count > 0) e[b].load(model.e.x + c, from, count);
    });
    ahead();
    edges.template each<most>([&](int b, bool in) {
      const S gz = edges.of(own.gz, b);
      const int64_t to = edges.of(own.row, b);
      if (!in || count <= 0) return;
      unit.add(gz, e[b].unpack());
      if (!model.grad_e) return;
      auto g = a;
      g.scale(gz);
      store_vector(bytes_behind(model.grad_e.x + c, to), g, count, wide);
    });
  }
  __device__ void leave(const Total& unit, const Place& at, int64_t number) const {
    if (!model.unit_sums) return;
    for (int v = 0, c = at.column(); v < step; ++v, ++c)
      if (c < heads.size)
        model.unit_sums[(number * heads.heads + at.head) * heads.size + c] = unit[v];
  }
};

}  // namespace gnograd

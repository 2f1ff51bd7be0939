// SPDX-License-Identifier: MIT
// Gradients of GAT, whose scores act(ss_j + sd_i + se_p) are functions of three numbers: there is
// one row an edge, g_i, in the pass by source, which comes first. The gradient of z is kept, a
// number an edge and head, so that sums by destination read these instead of rows.
#pragma once
#include "graph_attention.cuh"

namespace gnograd {

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
    S gz = 0;  // from the lane's own edges
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
      Place to = at;
      to.tile = tile;
      const bool some = to.column() < heads.size;
      const Vector<S, step> x = model.x.load(j, to);
      edges.template each<most>([&](int b, bool in) {
        if (in && some) dot[b] += inner<S>(g[b].unpack(), x);
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
    const auto share = gradients.g.share();
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
    return model.a_edge.load(0, at);
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

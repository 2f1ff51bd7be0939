// SPDX-License-Identifier: MIT
// Gradients of what outgoing edges collect (triplet_tile.cuh): to the incoming edges' features and
// weights, and to the directions of both.
#pragma once
#include "device/sums.cuh"
#include "triplet_tile.cuh"

namespace gnograd {

template <class T, class S>
struct TripletGradients {
  T *vector, *rbf, *x, *weights;  // each or null
  S *turn_in, *turn_out;          // [n_edges, 3] to the direction, from its end and its start
  S* parts;                       // [pieces, n_weights] to the weights

  // What stands beside f and behind it.
  __host__ __device__ bool beyond_f() const { return rbf || weights; }
};

// Shared memory of agg_edge_to_edge_gradients besides the tile; xf has z, then the product of x and
// z, once the outgoing edges are through, and angular has r after Y.
template <class T, class S>
struct TripletGradientTile : TripletTile<T, S, 4> {
  using Base = TripletTile<T, S, 4>;
  using A = real<T>;
  using Base::angular, Base::first_feature, Base::in, Base::n_in, Base::n_out, Base::out, Base::p,
      Base::pitch, Base::q, Base::row, Base::warp, Base::w, Base::x, Base::xf;
  S* f;         // [row_room, pitch]
  A* g;         // [outgoing_slots, pitch]
  S* grad_cos;  // [slots, outgoing_slots]
  S* turn;      // [slots, 3]
  S* grad_q;    // [row_room, mid_pitch]

  static size_t bytes(const TripletSizes& s, int slots) {
    const int room = Base::row_room(s, slots);
    return Base::bytes(s, slots) + shared_bytes<S>(room * pitch) +
           shared_bytes<A>(outgoing_slots * pitch) + shared_bytes<S>(slots * outgoing_slots) +
           shared_bytes<S>(slots * 3) + shared_bytes<S>(room * Base::mid_pitch(s));
  }
  __device__ TripletGradientTile(const TripletProblem<T, S>& p, SharedMemory& shared)
      : Base(p, shared) {
    const int room = Base::row_room(p.sizes, p.slots);
    f = shared.take<S>(room * pitch);
    g = shared.take<A>(outgoing_slots * pitch);
    grad_cos = shared.take<S>(p.slots * outgoing_slots);
    turn = shared.take<S>(p.slots * 3);
    grad_q = shared.take<S>(room * Base::mid_pitch(p.sizes));
  }

  // The cotangent of the outgoing edges, features from `first` on; zeros behind them, up to a
  // multiple of 8.
  __device__ void load_cotangent(const T* __restrict__ cotangent, int first) const {
    const int n_emb = p.sizes.n_emb, room = round_up(n_out, 8);
    for (int i = int(threadIdx.x); i < room * tile_features<S>; i += block_threads) {
      const int b = i / tile_features<S>, n = i % tile_features<S>;
      g[b * pitch + n] =
          b < n_out && first + n < n_emb ? A(cotangent[out[b].edge * n_emb + first + n]) : A(0);
    }
  }

  using RowProduct = WarpProduct<S, max_row_tiles, feature_tiles<S>>;

  // z += Y g, this warp's features
  __device__ void add_z(RowProduct& z) const {
    const int between = Base::angular_pitch(p.sizes, p.slots), column = first_feature();
    z.add(
        Base::row_tiles(), feature_tiles<S>, round_up(n_out, 8),
        [&](int i, int b) { return angular[b * between + i]; },
        [&](int b, int n) { return g[b * pitch + column + n]; });
  }

  // r in place of Y, a warp every fourth 16 rows.
  __device__ void compute_r() const {
    const int between = Base::angular_pitch(p.sizes, p.slots), end = Base::n_rows();
    const int edge_tiles = (n_out + 7) / 8;
    for (int m = warp(); m < Base::row_tiles(); m += block_warps) {
      WarpProduct<S, 1, outgoing_slots / 8> r;
      r.add(
          1, edge_tiles, tile_features<S>,
          [&](int i, int n) { return xf[(16 * m + i) * pitch + n]; },
          [&](int n, int b) { return g[b * pitch + n]; });
      r.each(1, edge_tiles, [&](int i, int b, S sum) {
        if (16 * m + i < end && b < n_out) angular[b * between + 16 * m + i] = sum;
      });
    }
  }

  // From r.
  __device__ void compute_grad_cos() const {
    const int between = Base::angular_pitch(p.sizes, p.slots);
    Base::for_pairs([&](int a, int b) {
      if (a >= n_in || b >= n_out) return;
      const S* r = angular + b * between + row(a, 0);
      S sum = S(0);
      for_degrees(p, in[a], out[b], [&](int l, S, S slope) { sum += slope * r[l]; });
      grad_cos[a * outgoing_slots + b] = sum;
    });
  }

  // The cosine is the product of two directions: each gets the other one.
  __device__ void add_turns(S* turn_out) const {
    const int t = int(threadIdx.x);
    if (t < n_in * 3) {
      S sum = turn[t];
      for (int b = 0; b < n_out; ++b)
        sum += grad_cos[t / 3 * outgoing_slots + b] * out[b].unit[t % 3];
      turn[t] = sum;
    }
    if (const int b = t - warp_lanes; b >= 0 && b < n_out * 3) {
      S* to = turn_out + 3 * out[b / 3].edge + b % 3;
      S sum = *to;
      for (int a = 0; a < n_in; ++a)
        sum += grad_cos[a * outgoing_slots + b / 3] * in[a].unit[b % 3];
      *to = sum;
    }
  }

  __device__ void store_z(const RowProduct& z) const {
    const int end = Base::n_rows(), column = first_feature();
    z.each(Base::row_tiles(), feature_tiles<S>,
           [&](int i, int n, S sum) { xf[i * pitch + column + n] = i < end ? sum : S(0); });
  }

  // The gradient to x, and the product of x and z. Thread: `step` features of an edge.
  __device__ void finish_x(T* grad_x, int first) const {
    const int slot = int(threadIdx.x) / feature_lanes;
    const int column = int(threadIdx.x) % feature_lanes * step<S>;
    if (slot >= n_in) return;
    const FeaturePack<S> x = pack(this->x + slot * pitch + column);
    Vector<S, step<S>> to_x;
    for (int l = 0; l < p.sizes.n_spherical; ++l) {
      const FeaturePack<S> f = pack(this->f + row(slot, l) * pitch + column);
      FeaturePack<S>& z = pack(xf + row(slot, l) * pitch + column);
      for (int c = 0; c < step<S>; ++c) {
        to_x[c] += f.v[c] * z.v[c];
        z.v[c] = x.v[c] * z.v[c];
      }
    }
    if (grad_x)
      store_vector(grad_x + in[slot].edge * p.sizes.n_emb + first + column, to_x,
                   p.sizes.n_emb - first - column, false);
  }

  // grad_q(e', l, m) += sum_n W2(n, m) x z(e', l, n), columns m to m + mid_step.
  __device__ void add_grad_q(bool start, int m) const {
    const int between = Base::mid_pitch(p.sizes);
    for (int tile = warp(); tile < Base::row_tiles(); tile += block_warps) {
      WarpProduct<S, 1, 1> product;
      product.add(
          1, 1, tile_features<S>, [&](int i, int n) { return xf[(16 * tile + i) * pitch + n]; },
          [&](int n, int k) { return w[k * pitch + n]; });
      product.each(1, 1, [&](int i, int k, S sum) {
        S& to = grad_q[(16 * tile + i) * between + m + k];
        to = start ? sum : to + sum;
      });
    }
  }

  // W2(n, m) += sum x z(e', l, n) q(e', l, m) over rows; 16 features a warp.
  __device__ void add_to_w(WarpProduct<S, 1, 1>& to_w, int m) const {
    const int between = Base::mid_pitch(p.sizes), column = warp() * 16;
    if (column < tile_features<S>)
      to_w.add(
          1, 1, round_up(Base::n_rows(), 8),
          [&](int n, int i) { return xf[i * pitch + column + n]; },
          [&](int i, int k) { return q[i * between + m + k]; });
  }
  __device__ void store_w(WarpProduct<S, 1, 1>& to_w, int first, int m, S* part) const {
    const TripletSizes& s = p.sizes;
    const int column = first + warp() * 16;
    if (warp() * 16 < tile_features<S>)
      to_w.each(1, 1, [&](int n, int k, S sum) {
        if (column + n < s.n_emb && m + k < s.n_mid)
          part[(s.n_first() + column + n) * s.n_mid + m + k] += sum;
      });
    to_w = {};
  }
};

// Block: the nodes of a piece, every gridDim.x-th; up to 8 incoming and 32 outgoing edges and 64
// features at a time. Shared memory: TripletGradientTile::bytes, 65 KB in float32 with n_spherical
// = 7, n_mid = 8. 2 n_spherical n_emb operations a triplet, twice that if vectors have a gradient,
// and 6 n_spherical n_emb n_mid an edge, on tensor cores, three times; bound by shared memory and
// the instructions that bring their operands. Reads the cotangents of a node's outgoing edges once
// for every `slots` incoming ones. A node with many triplets is one block's.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) > 4 ? 2 : 3)
    agg_edge_to_edge_gradients(TripletProblem<T, S> p, const T* __restrict__ cotangent,
                               TripletGradients<T, S> grad) {
  const TripletSizes& s = p.sizes;
  SharedMemory shared;
  TripletGradientTile<T, S> tile(p, shared);
  const int t = int(threadIdx.x), between = tile.mid_pitch(s);
  S* part = grad.parts + int64_t(blockIdx.x) * s.n_weights();
  WarpProduct<S, 1, 1> to_w;
  const bool keeps = s.n_emb <= tile_features<S> && s.n_mid <= mid_step;  // to_w, to the end

  if (grad.weights)
    for (int i = t; i < s.n_weights(); i += block_threads) part[i] = S(0);
  for (int64_t j = blockIdx.x; j < p.incoming.n_rows; j += gridDim.x) {
    const int64_t n_in = p.incoming.offsets[j + 1] - p.incoming.offsets[j];
    const int64_t n_out = p.outgoing.offsets[j + 1] - p.outgoing.offsets[j];
    for (int64_t a_first = 0; a_first < n_in; a_first += p.slots) {
      __syncthreads();
      tile.load_incoming(j, a_first);
      if (t < 3 * p.slots) tile.turn[t] = S(0);
      __syncthreads();
      tile.compute_q();
      for (int first = 0; first < s.n_emb; first += tile_features<S>) {
        if (first) __syncthreads();
        tile.load_x(first);
        tile.compute_f(first, tile.f);
        typename TripletGradientTile<T, S>::RowProduct z;
        for (int64_t b_first = 0; b_first < n_out; b_first += outgoing_slots) {
          __syncthreads();
          tile.load_outgoing(j, b_first);
          __syncthreads();
          tile.load_cotangent(cotangent, first);
          tile.compute_angular();
          __syncthreads();
          tile.add_z(z);
          if (!grad.vector) continue;
          __syncthreads();
          tile.compute_r();
          __syncthreads();
          tile.compute_grad_cos();
          __syncthreads();
          tile.add_turns(grad.turn_out);
        }
        __syncthreads();
        tile.store_z(z);
        __syncthreads();
        tile.finish_x(grad.x, first);
        if (!grad.beyond_f()) continue;
        for (int m = 0; m < s.n_mid; m += mid_step) {
          tile.load_w(first, m);
          tile.add_grad_q(first == 0, m);
          if (!grad.weights) continue;
          tile.add_to_w(to_w, m);
          if (!keeps) tile.store_w(to_w, first, m, part);
        }
      }
      __syncthreads();
      if (grad.vector && t < 3 * tile.n_in)
        grad.turn_in[3 * tile.in[t / 3].edge + t % 3] = tile.turn[t];
      if (grad.rbf)
        for (int i = t; i < tile.n_in * s.n_first(); i += block_threads) {
          const int a = i / s.n_first(), row = i % s.n_first(), l = row / s.n_radial;
          S sum = S(0);
          for (int m = 0; m < s.n_mid; ++m)
            sum += p.first_weight(row, m) * tile.grad_q[tile.row(a, l) * between + m];
          grad.rbf[tile.in[a].edge * s.n_first() + row] = T(result(norm<real<T>>(l) * sum));
        }
      if (grad.weights)
        for (int i = t; i < s.n_first() * s.n_mid; i += block_threads) {
          const int row = i / s.n_mid, m = i % s.n_mid, l = row / s.n_radial;
          S sum = S(0);
          for (int a = 0; a < tile.n_in; ++a)
            sum += p.rbf[tile.in[a].edge * s.n_first() + row] *
                   tile.grad_q[tile.row(a, l) * between + m];
          part[i] += norm<real<T>>(l) * sum;
        }
    }
  }
  if (grad.weights && keeps) tile.store_w(to_w, 0, 0, part);
}

// Gradient to a vector from that to its direction u: (turn - u (u . turn))/|v|. Thread: an edge.
// Moves 3 numbers of T and 6 of S in, 3 out; bound by that.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    agg_edge_to_edge_vector_gradient(TripletProblem<T, S> p, TripletGradients<T, S> grad) {
  if (thread_number() >= p.incoming.end()) return;
  const int64_t e = p.incoming.edge_of(thread_number());
  S v[3], unit[3], turn[3], length, along = S(0);
  for (int c = 0; c < 3; ++c) {
    v[c] = p.vector[3 * e + c];
    turn[c] = grad.turn_in[3 * e + c] + grad.turn_out[3 * e + c];
  }
  const bool turns = direction(v, unit, length);
  for (int c = 0; c < 3; ++c) along += unit[c] * turn[c];
  for (int c = 0; c < 3; ++c)
    grad.vector[3 * e + c] = turns ? T(result((turn[c] - unit[c] * along) / length)) : T(0);
}

}  // namespace gnograd

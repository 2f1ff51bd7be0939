// SPDX-License-Identifier: MIT
// Gradients of what outgoing edges collect (triplet_tile.cuh): to the incoming edges' features and
// weights, and to the directions of both.
#pragma once
#include "device/sums.cuh"
#include "triplet_tile.cuh"

namespace gnograd {

// Incoming edges of a unit at most; nodes with more are cut.
constexpr int incoming_of_unit = 64;

template <class T, class S>
struct TripletGradients {
  T *vector, *rbf, *x, *weights;  // each or null
  S *turn_in, *turn_out;          // [n_edges, 3] to the direction, from its end and its start
  S* parts;                       // [pieces, n_weights] to the weights

  // True if gradients are wanted that need more than f.
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
  S* f;            // [row_room, pitch]
  A* g;            // [outgoing_slots, pitch]
  S* grad_cos;     // [slots, outgoing_slots]
  S* turn;         // [slots, 3]
  S* grad_q;       // [row_room, mid_pitch]
  int* degree_of;  // [n_first] of a row of W1
  S* w1;           // [n_first, n_mid + 1] W1, and
  S* grad_w1;      // [n_first, n_mid] the sum of its gradient, if they are small; else null

  static size_t bytes(const TripletSizes& s, int slots) {
    const int room = Base::row_room(s, slots);
    return Base::bytes(s, slots) + shared_bytes<S>(room * pitch) +
           shared_bytes<A>(outgoing_slots * pitch) + shared_bytes<S>(slots * outgoing_slots) +
           shared_bytes<S>(slots * 3) + shared_bytes<S>(room * Base::mid_pitch(s)) +
           shared_bytes<int>(s.n_first()) +
           (holds_w1(s) ? shared_bytes<S>(s.n_first() * (s.n_mid + 1)) +
                              shared_bytes<S>(s.n_first() * s.n_mid)
                        : 0);
  }
  // True if W1 and its gradient have room in shared memory.
  __host__ __device__ static bool holds_w1(const TripletSizes& s) {
    return s.n_first() * s.n_mid <= 1024;
  }
  __device__ TripletGradientTile(const TripletProblem<T, S>& p, SharedMemory& shared)
      : Base(p, shared) {
    const int room = Base::row_room(p.sizes, p.slots);
    f = shared.take<S>(room * pitch);
    g = shared.take<A>(outgoing_slots * pitch);
    grad_cos = shared.take<S>(p.slots * outgoing_slots);
    turn = shared.take<S>(p.slots * 3);
    grad_q = shared.take<S>(room * Base::mid_pitch(p.sizes));
    const TripletSizes& s = p.sizes;
    degree_of = shared.take<int>(s.n_first());
    for (int i = int(threadIdx.x); i < s.n_first(); i += block_threads)
      degree_of[i] = i / s.n_radial;
    w1 = grad_w1 = nullptr;
    if (!holds_w1(s)) return;
    w1 = shared.take<S>(s.n_first() * (s.n_mid + 1));
    grad_w1 = shared.take<S>(s.n_first() * s.n_mid);
    for (int i = int(threadIdx.x); i < s.n_first() * s.n_mid; i += block_threads) {
      w1[i / s.n_mid * (s.n_mid + 1) + i % s.n_mid] = p.first_weight(i / s.n_mid, i % s.n_mid);
      grad_w1[i] = S(0);
    }
  }
  __device__ S first_weight(int row, int m) const {
    return w1 ? w1[row * (p.sizes.n_mid + 1) + m] : p.first_weight(row, m);
  }

  // The cotangent of the outgoing edges, features from `first` on; zeros behind them, up to a
  // multiple of 8. Warp: an edge.
  __device__ void load_cotangent(const T* __restrict__ cotangent, int first) const {
    const int n_emb = p.sizes.n_emb, room = round_up(n_out, 8);
    for (int b = warp(); b < room; b += block_warps) {
      const T* from = cotangent + (b < n_out ? out[b].edge : 0) * n_emb + first;
      const int count = b < n_out ? n_emb - first : 0;
#pragma unroll
      for (int k = 0; k < tile_features<S>; k += warp_lanes) {
        const int n = k + int(threadIdx.x) % warp_lanes;
        g[b * pitch + n] = n < count ? A(from[n]) : A(0);
      }
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

  // r in place of Y: a warp every fourth 16 rows, 16 edges at a time.
  __device__ void compute_r() const {
    const int between = Base::angular_pitch(p.sizes, p.slots), end = Base::n_rows();
#pragma unroll 1
    for (int first = 0; first < n_out; first += 16)
#pragma unroll 1
      for (int m = warp(); m < Base::row_tiles(); m += block_warps) {
        const int left_out = n_out - first, edge_tiles = left_out > 8 ? 2 : 1;
        WarpProduct<S, 1, 2> r;
        r.add(
            1, edge_tiles, tile_features<S>,
            [&](int i, int n) { return xf[(16 * m + i) * pitch + n]; },
            [&](int n, int b) { return g[(first + b) * pitch + n]; });
        r.each(1, edge_tiles, [&](int i) {
          const int count = 16 * m + i < end ? left_out : 0;
          S* to = angular + first * between + 16 * m + i;
          return [=](int b, S left, S right) {
            if (b < count) to[b * between] = left;
            if (b + 1 < count) to[(b + 1) * between] = right;
          };
        });
      }
  }

  // Gradients to the cosines, from r.
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
  __device__ void add_turns_in() const {
    const int t = int(threadIdx.x);
    if (t >= n_in * 3) return;
    S sum = turn[t];
    for (int b = 0; b < n_out; ++b)
      sum += grad_cos[t / 3 * outgoing_slots + b] * out[b].unit[t % 3];
    turn[t] = sum;
  }
  __device__ void add_turns_out(S* turn_out) const {
    const int b = int(threadIdx.x) - warp_lanes;
    if (b < 0 || b >= n_out * 3) return;
    S* to = turn_out + 3 * out[b / 3].edge + b % 3;
    S sum = *to;
    for (int a = 0; a < n_in; ++a) sum += grad_cos[a * outgoing_slots + b / 3] * in[a].unit[b % 3];
    *to = sum;
  }

  __device__ void store_z(const RowProduct& z) const {
    const int end = Base::n_rows(), column = first_feature();
    z.each(Base::row_tiles(), feature_tiles<S>, [&](int i) {
      S* to = xf + i * pitch + column;
      return [=](int n, S left, S right) {
        store_pair(to + n, i < end ? left : S(0), i < end ? right : S(0));
      };
    });
  }

  // The gradient to x, and the product of x and z. Thread: two features of four edges, or of eight.
  __device__ void finish_x(T* grad_x, int first) const {
    constexpr int lanes = tile_features<S> / 2;
    const int column = int(threadIdx.x) % lanes * 2, count = p.sizes.n_emb - first - column;
    for (int slot = int(threadIdx.x) / lanes; slot < n_in; slot += block_threads / lanes) {
      const Pair<S> x = load_pair(this->x + slot * pitch + column);
      S to_x[2] = {S(0), S(0)};
      for (int l = 0; l < p.sizes.n_spherical; ++l) {
        S* at = xf + row(slot, l) * pitch + column;
        const Pair<S> f = load_pair(this->f + row(slot, l) * pitch + column), z = load_pair(at);
        for (int c = 0; c < 2; ++c) to_x[c] += f.v[c] * z.v[c];
        store_pair(at, x.v[0] * z.v[0], x.v[1] * z.v[1]);
      }
      if (!grad_x) continue;
      T* to = grad_x + in[slot].edge * p.sizes.n_emb + first + column;
      if (count > 0) to[0] = T(result(to_x[0]));
      if (count > 1) to[1] = T(result(to_x[1]));
    }
  }

  // grad_q(e', l, m) += sum_n W2(n, m) x z(e', l, n), columns m to m + mid_step.
  __device__ void add_grad_q(bool start, int m) const {
    const int between = Base::mid_pitch(p.sizes);
    for (int tile = warp(); tile < Base::row_tiles(); tile += block_warps) {
      WarpProduct<S, 1, 1> product;
      product.add(
          1, 1, tile_features<S>, [&](int i, int n) { return xf[(16 * tile + i) * pitch + n]; },
          [&](int n, int k) { return w[k * pitch + n]; });
      product.each(1, 1, [&](int i) {
        S* row = grad_q + (16 * tile + i) * between + m;
        return [=](int k, S left, S right) {
          const Pair<S> before = start ? Pair<S>{{S(0), S(0)}} : load_pair(row + k);
          store_pair(row + k, before.v[0] + left, before.v[1] + right);
        };
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
      to_w.each(1, 1, [&](int n) {
        const int count = column + n < s.n_emb ? s.n_mid - m : 0;
        S* row = part + (s.n_first() + column + n) * s.n_mid + m;
        return [=](int k, S left, S right) {
          if (k < count) row[k] += left;
          if (k + 1 < count) row[k + 1] += right;
        };
      });
    to_w = {};
  }

  // The gradient to rbf, from that to q. Warp: an edge.
  __device__ void finish_rbf(T* grad_rbf) const {
    const TripletSizes& s = p.sizes;
    const int n_first = s.n_first(), between = Base::mid_pitch(s);
    for (int a = warp(); a < n_in; a += block_warps) {
      T* to = grad_rbf + in[a].edge * n_first;
      for (int i = int(threadIdx.x) % warp_lanes; i < n_first; i += warp_lanes) {
        const int l = degree_of[i];
        const S* from = grad_q + row(a, l) * between;
        S sum = S(0);
        for (int m = 0; m < s.n_mid; ++m) sum += first_weight(i, m) * from[m];
        to[i] = T(result(Base::norms[l] * sum));
      }
    }
  }

  // Add the gradient to W1 to what there is: in shared memory, or where the piece has its sum.
  __device__ void add_to_w1(S* part) const {
    const TripletSizes& s = p.sizes;
    const int between = Base::mid_pitch(s), rbf_pitch = Base::rbf_pitch(s);
    const int in_order = s.n_spherical * between;
    S* sums = w1 ? grad_w1 : part;
    for (int i = int(threadIdx.x) / mid_step; i < s.n_first(); i += block_threads / mid_step) {
      const int l = degree_of[i];
      for (int m = int(threadIdx.x) % mid_step; m < s.n_mid; m += mid_step) {
        const S* from = grad_q + row(0, l) * between + m;
        S sum = S(0);
        for (int a = 0; a < n_in; ++a) sum += Base::rbf[a * rbf_pitch + i] * from[a * in_order];
        sums[i * s.n_mid + m] += Base::norms[l] * sum;
      }
    }
  }
};

// Block: the units of a piece, every gridDim.x-th; of up to 64 incoming edges of a node 8 at a
// time, with 32 outgoing ones and 64 features. Shared memory: TripletGradientTile::bytes, 69 KB in
// float32 with n_spherical = 7, n_mid = 8. 2 n_spherical n_emb operations a triplet, twice that if
// vectors have a gradient, and 6 n_spherical n_emb n_mid an edge, on tensor cores, three times;
// bound by shared memory and the instructions that bring their operands. Reads the cotangents of a
// node's outgoing edges once for every `slots` incoming ones.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) > 4 ? 2 : 3)
    agg_edge_to_edge_gradients(TripletProblem<T, S> p, const T* __restrict__ cotangent,
                               TripletGradients<T, S> grad) {
  const TripletSizes& s = p.sizes;
  SharedMemory shared;
  TripletGradientTile<T, S> tile(p, shared);
  const int t = int(threadIdx.x);
  S* part = grad.parts + int64_t(blockIdx.x) * s.n_weights();
  WarpProduct<S, 1, 1> to_w;
  const bool keeps = s.n_emb <= tile_features<S> && s.n_mid <= mid_step;  // to_w, to the end

  if (grad.weights)
    for (int i = t; i < s.n_weights(); i += block_threads) part[i] = S(0);
  const int64_t units = first_unit(p.incoming.n_edges, p.incoming.n_rows, incoming_of_unit);
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const int64_t j = node_of(p.incoming, incoming_of_unit, unit);
    const int64_t begin = p.incoming.offsets[j], n_in = p.incoming.offsets[j + 1] - begin;
    const int64_t of_node = unit - first_unit(begin, j, incoming_of_unit);
    const int64_t unit_begin = of_node * incoming_of_unit;
    const int64_t unit_end = min(unit_begin + incoming_of_unit, n_in);
    const int64_t n_out = p.outgoing.offsets[j + 1] - p.outgoing.offsets[j];
    // data of the outgoing edges stay, for all incoming ones
    const bool stays = n_out <= outgoing_slots && s.n_emb <= tile_features<S>;
    for (int64_t a_first = unit_begin; a_first < unit_end; a_first += p.slots) {
      __syncthreads();
      tile.load_incoming(j, a_first);
      if (t < 3 * p.slots) tile.turn[t] = S(0);
      __syncthreads();
      tile.load_rbf();
      __syncthreads();
      tile.compute_q();
      for (int first = 0; first < s.n_emb; first += tile_features<S>) {
        if (first) __syncthreads();
        tile.load_x(first);
        tile.compute_f(first, tile.f);
        typename TripletGradientTile<T, S>::RowProduct z;
        for (int64_t b_first = 0; b_first < n_out; b_first += outgoing_slots) {
          __syncthreads();
          if (!stays || a_first == unit_begin) {
            tile.load_outgoing(j, b_first);
            __syncthreads();
            tile.load_cotangent(cotangent, first);
          }
          tile.compute_angular();
          __syncthreads();
          tile.add_z(z);
          if (!grad.vector) continue;
          __syncthreads();
          tile.compute_r();
          __syncthreads();
          tile.compute_grad_cos();
          __syncthreads();
          tile.add_turns_in();
          if (n_in <= incoming_of_unit) tile.add_turns_out(grad.turn_out);
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
      if (grad.rbf) tile.finish_rbf(grad.rbf);
      if (grad.weights) tile.add_to_w1(part);
    }
  }
  if (grad.weights && tile.w1) {
    __syncthreads();
    for (int i = t; i < s.n_first() * s.n_mid; i += block_threads) part[i] = tile.grad_w1[i];
  }
  if (grad.weights && keeps) tile.store_w(to_w, 0, 0, part);
}

// Gradients to the directions of outgoing edges of nodes with several units: sums over all of their
// incoming edges. Block: up to 32 outgoing edges; other blocks end at once. Shared memory as above;
// for 8 incoming edges q and f are formed anew, and 2 n_spherical n_emb operations a triplet done
// on tensor cores, three times; bound by the instructions that bring their operands.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) > 4 ? 2 : 3)
    agg_edge_to_edge_turns(TripletProblem<T, S> p, const T* __restrict__ cotangent,
                           S* __restrict__ turn_out) {
  const int64_t j = node_of(p.outgoing, outgoing_slots, blockIdx.x);
  const int64_t begin = p.outgoing.offsets[j], n_out = p.outgoing.offsets[j + 1] - begin;
  const int64_t n_in = p.incoming.offsets[j + 1] - p.incoming.offsets[j];
  const int64_t tile_begin = (blockIdx.x - first_unit(begin, j, outgoing_slots)) * outgoing_slots;
  if (tile_begin >= n_out || n_in <= incoming_of_unit) return;

  SharedMemory shared;
  TripletGradientTile<T, S> tile(p, shared);
  tile.load_outgoing(j, tile_begin);
  for (int64_t a_first = 0; a_first < n_in; a_first += p.slots) {
    __syncthreads();
    tile.load_incoming(j, a_first);
    __syncthreads();
    tile.load_rbf();
    __syncthreads();
    tile.compute_q();
    for (int first = 0; first < p.sizes.n_emb; first += tile_features<S>) {
      tile.load_x(first);
      tile.compute_f(first, nullptr);
      tile.load_cotangent(cotangent, first);
      __syncthreads();
      tile.compute_r();
      __syncthreads();
      tile.compute_grad_cos();
      __syncthreads();
      tile.add_turns_out(turn_out);
    }
  }
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

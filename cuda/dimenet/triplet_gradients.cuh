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

// Shared memory of agg_edge_to_edge_gradients besides the tile.
template <class T, class S>
struct TripletGradientTile : TripletTile<T, S> {
  using A = real<T>;
  A* g;         // [outgoing_slots, pitch]
  S* grad_cos;  // [slots, outgoing_slots]
  S* turn;      // [slots, 3]
  S* grad_q;    // [slots, n_spherical, n_mid]
  S* w;         // [mid_step, pitch]: W2 transposed, and the sum of its gradient

  static size_t bytes(const TripletSizes& s, int slots) {
    return TripletTile<T, S>::bytes(s, slots) + shared_bytes<A>(outgoing_slots * pitch<S>) +
           shared_bytes<S>(slots * outgoing_slots) + shared_bytes<S>(slots * 3) +
           shared_bytes<S>(slots * s.n_spherical * s.n_mid) + shared_bytes<S>(mid_step * pitch<S>);
  }
  __device__ TripletGradientTile(const TripletProblem<T, S>& p, SharedMemory& shared)
      : TripletTile<T, S>(p, shared) {
    g = shared.take<A>(outgoing_slots * pitch<S>);
    grad_cos = shared.take<S>(p.slots * outgoing_slots);
    turn = shared.take<S>(p.slots * 3);
    grad_q = shared.take<S>(p.slots * p.sizes.n_spherical * p.sizes.n_mid);
    w = shared.take<S>(mid_step * pitch<S>);
  }

  // The cotangent of the outgoing edges, features from `first` on.
  __device__ void load_cotangent(const T* cotangent, int first) const {
    for (int i = int(threadIdx.x); i < this->n_out * tile_features<S>; i += block_threads) {
      const int b = i / tile_features<S>, n = i % tile_features<S>;
      g[b * pitch<S> + n] = first + n < this->p.sizes.n_emb
                                ? A(cotangent[this->out[b].edge * this->p.sizes.n_emb + first + n])
                                : A(0);
    }
  }

  // r of two outgoing edges a thread, and from it the gradient to their cosines.
  __device__ void compute_grad_cos() const {
    const int a = int(threadIdx.x) / feature_lanes, b = int(threadIdx.x) % feature_lanes;
    const int n_spherical = this->p.sizes.n_spherical;
    constexpr int pairs = outgoing_slots / feature_lanes;
    if (a >= this->n_in || b >= this->n_out) return;
    S r[max_spherical][pairs] = {};
    for (int n = 0; n < tile_features<S>; n += step<S>) {
      const FeaturePack<S> x = pack(this->x + a * pitch<S> + n);
      S xg[step<S>][pairs];
      for (int i = 0; i < pairs; ++i)
        for (int c = 0; c < step<S>; ++c)
          xg[c][i] = b + i * feature_lanes < this->n_out
                         ? x.v[c] * g[(b + i * feature_lanes) * pitch<S> + n + c]
                         : S(0);
#pragma unroll
      for (int l = 1; l < max_spherical; ++l)
        if (l < n_spherical) {
          const FeaturePack<S> f = pack(this->f_of(a, l) + n);
          for (int c = 0; c < step<S>; ++c)
            for (int i = 0; i < pairs; ++i) r[l][i] += f.v[c] * xg[c][i];
        }
    }
#pragma unroll
    for (int i = 0; i < pairs; ++i)
      if (const int to = b + i * feature_lanes; to < this->n_out) {
        S sum = S(0);
        for_degrees(this->p, this->in[a], this->out[to],
                    [&](int l, S, S slope) { sum += slope * r[l][i]; });
        grad_cos[a * outgoing_slots + to] = sum;
      }
  }

  // The cosine is the product of two directions: each gets the other one.
  __device__ void add_turns(S* turn_out) const {
    const int t = int(threadIdx.x);
    if (t < this->n_in * 3) {
      S sum = turn[t];
      for (int b = 0; b < this->n_out; ++b)
        sum += grad_cos[t / 3 * outgoing_slots + b] * this->out[b].unit[t % 3];
      turn[t] = sum;
    }
    if (const int b = t - warp_lanes; b >= 0 && b < this->n_out * 3) {
      S* to = turn_out + 3 * this->out[b / 3].edge + b % 3;
      S sum = *to;
      for (int a = 0; a < this->n_in; ++a)
        sum += grad_cos[a * outgoing_slots + b / 3] * this->in[a].unit[b % 3];
      *to = sum;
    }
  }

  // Columns m to m + mid_step of W2.
  __device__ void load_w(int first, int m) const {
    for (int i = int(threadIdx.x); i < mid_step * tile_features<S>; i += block_threads)
      w[i % mid_step * pitch<S> + i / mid_step] =
          this->p.second_weight(first + i / mid_step, m + i % mid_step);
  }

  // grad_q(e', l, m) += sum_n W2(n, m) x z(e', l, n), x z being where f was. A thread has two rows
  // and two columns.
  __device__ void add_grad_q(bool start, int m) const {
    constexpr int lanes = mid_step / 2, row_step = block_threads / lanes;
    const int n_rows = this->n_in * this->p.sizes.n_spherical, n_mid = this->p.sizes.n_mid;
    const int k = int(threadIdx.x) % lanes;
    for (int row = int(threadIdx.x) / lanes; row < n_rows; row += 2 * row_step) {
      const bool two = row + row_step < n_rows;
      S sum[2][2] = {};
      for (int n = 0; n < tile_features<S>; n += step<S>) {
        const FeaturePack<S> z[2] = {pack(this->f + row * pitch<S> + n),
                                     pack(this->f + (two ? row + row_step : row) * pitch<S> + n)};
        const FeaturePack<S> v[2] = {pack(w + k * pitch<S> + n),
                                     pack(w + (k + lanes) * pitch<S> + n)};
        for (int c = 0; c < step<S>; ++c)
          for (int i = 0; i < 2; ++i)
            for (int h = 0; h < 2; ++h) sum[i][h] += z[i].v[c] * v[h].v[c];
      }
      for (int i = 0; i < 1 + two; ++i)
        for (int h = 0; h < 2; ++h)
          if (m + k + h * lanes < n_mid) {
            S* to = grad_q + (row + i * row_step) * n_mid + m + k + h * lanes;
            *to = start ? sum[i][h] : *to + sum[i][h];
          }
    }
  }
};

// Gradient to columns of W2 that a thread has summed over the edges of its slot.
template <class S>
using WeightSum = Vector<S, step<S> * mid_step>;

// Add the sums of all slots, in their order, to the part of this piece, and start anew.
template <class T, class S>
__device__ void flush(const TripletGradientTile<T, S>& tile, WeightSum<S>& sum, int first, int m,
                      S* part) {
  const int slot = int(threadIdx.x) / feature_lanes;
  const int column = int(threadIdx.x) % feature_lanes * step<S>;
  for (int a = 0; a < incoming_slots; ++a) {
    __syncthreads();
    if (a == slot)
      for (int k = 0; k < mid_step; ++k)
        for (int c = 0; c < step<S>; ++c) {
          S& to = tile.w[k * pitch<S> + column + c];
          to = a ? to + sum[c * mid_step + k] : sum[c * mid_step + k];
        }
  }
  __syncthreads();
  const TripletSizes& s = tile.p.sizes;
  for (int i = int(threadIdx.x); i < mid_step * tile_features<S>; i += block_threads) {
    const int k = i % mid_step, n = i / mid_step;
    if (m + k < s.n_mid && first + n < s.n_emb)
      part[(s.n_first() + first + n) * s.n_mid + m + k] += tile.w[k * pitch<S> + n];
  }
  __syncthreads();
  sum = {};
}

// Block: the nodes of a piece, every gridDim.x-th; a thread has a slot of incoming edges and `step`
// features. Shared memory: TripletGradientTile::bytes, 42 KB in float32 with n_spherical = 7,
// n_mid = 8. 2 n_spherical n_emb operations a triplet, twice that if vectors have a gradient, which
// bound it, with the registers (z is max_spherical step of them). Reads the cotangents of a node's
// outgoing edges once for every `slots` incoming ones. A node with many triplets is one block's.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) > 4 ? 2 : 3)
    agg_edge_to_edge_gradients(TripletProblem<T, S> p, const T* __restrict__ cotangent,
                               TripletGradients<T, S> grad) {
  const TripletSizes& s = p.sizes;
  SharedMemory shared;
  TripletGradientTile<T, S> tile(p, shared);
  const int t = int(threadIdx.x), slot = t / feature_lanes;
  const int column = t % feature_lanes * step<S>;
  S* part = grad.parts + int64_t(blockIdx.x) * s.n_weights();
  WeightSum<S> to_w;
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
      __syncthreads();
      for (int first = 0; first < s.n_emb; first += tile_features<S>) {
        if (first) __syncthreads();
        tile.compute_f(first);
        Vector<S, step<S>> z[max_spherical];
        for (int64_t b_first = 0; b_first < n_out; b_first += outgoing_slots) {
          __syncthreads();
          tile.load_outgoing(j, b_first);
          __syncthreads();
          tile.load_cotangent(cotangent, first);
          tile.compute_angular();
          __syncthreads();
          if (slot < tile.n_in)
            for (int b = 0; b < tile.n_out; ++b) {
              const auto g = pack<real<T>, step<S>>(tile.g + b * pitch<S> + column);
              const S* y = tile.angular_of(slot, b);
#pragma unroll
              for (int l = 0; l < max_spherical; ++l)
                if (l < s.n_spherical)
                  for (int c = 0; c < step<S>; ++c) z[l][c] += y[l] * g.v[c];
            }
          if (!grad.vector) continue;
          tile.compute_grad_cos();
          __syncthreads();
          tile.add_turns(grad.turn_out);
        }
        __syncthreads();
        if (slot < tile.n_in) {
          const FeaturePack<S> x = pack(tile.x + slot * pitch<S> + column);
          Vector<S, step<S>> to_x;
#pragma unroll
          for (int l = 0; l < max_spherical; ++l)
            if (l < s.n_spherical) {
              FeaturePack<S>& f = pack(tile.f_of(slot, l) + column);
              for (int c = 0; c < step<S>; ++c) {
                to_x[c] += f.v[c] * z[l][c];
                f.v[c] = x.v[c] * z[l][c];
              }
            }
          if (grad.x)
            store_vector(grad.x + tile.in[slot].edge * s.n_emb + first + column, to_x,
                         s.n_emb - first - column, false);
        }
        if (!grad.beyond_f()) continue;
        for (int m = 0; m < s.n_mid; m += mid_step) {
          __syncthreads();
          tile.load_w(first, m);
          __syncthreads();
          tile.add_grad_q(first == 0, m);
          if (!grad.weights) continue;
          if (slot < tile.n_in)
            for (int l = 0; l < s.n_spherical; ++l) {
              const FeaturePack<S> xz = pack(tile.f_of(slot, l) + column);
              for (int k = 0; k < mid_step; ++k)
                if (m + k < s.n_mid) {
                  const S q = tile.q_of(slot, l)[m + k];
                  for (int c = 0; c < step<S>; ++c) to_w[c * mid_step + k] += q * xz.v[c];
                }
            }
          if (!keeps) flush(tile, to_w, first, m, part);
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
            sum += p.first_weight(row, m) * tile.grad_q[(a * s.n_spherical + l) * s.n_mid + m];
          grad.rbf[tile.in[a].edge * s.n_first() + row] = T(result(norm<real<T>>(l) * sum));
        }
      if (grad.weights)
        for (int i = t; i < s.n_first() * s.n_mid; i += block_threads) {
          const int row = i / s.n_mid, m = i % s.n_mid, l = row / s.n_radial;
          S sum = S(0);
          for (int a = 0; a < tile.n_in; ++a)
            sum += p.rbf[tile.in[a].edge * s.n_first() + row] *
                   tile.grad_q[(a * s.n_spherical + l) * s.n_mid + m];
          part[i] += norm<real<T>>(l) * sum;
        }
    }
  }
  if (grad.weights && keeps) flush(tile, to_w, 0, 0, part);
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

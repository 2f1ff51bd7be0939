// SPDX-License-Identifier: MIT
// DimeNet++: what an edge e = (j -> i) collects from the edges e' = (k -> j) that end where it
// starts. With the directions u = v/|v|, c(e', e) = u_e' . u_e, and W = [W1; W2],
//
//     q(e', l, m) = sqrt((2l+1)/(4 pi)) sum_r W1((l, r), m) rbf(e', (l, r))
//     f(e', l, n) = sum_m W2(n, m) q(e', l, m)
//     out(e, n)   = sum_e' x(e', n) sum_l P_l(c(e', e)) f(e', l, n)
//
// All that has to do with n_mid is done once an edge. The incoming edges of a node times its
// outgoing edges are a matrix of triplets, cut into tiles that a block handles in shared memory: up
// to 8 by 32 edges, 64 features. A row is a pair (e', l), and with Y(e', l, e) = P_l(c(e', e)), xf
// the product of x and f, and g the cotangent of out, all else is products of matrices:
//
//     f = q W2                 rows by features, sum over n_mid
//     out = Y^T xf             edges by features, sum over rows        triplet_forward.cuh
//     z = Y g                  rows by features, sum over edges        triplet_gradients.cuh
//     r = xf g^T               rows by edges, sum over features        triplet_gradients.cuh
//
// from z come the gradients to x and f, from r those to the cosines. In the forward pass a block
// has a tile of outgoing edges, in that of gradients up to 64 incoming ones, so that each edge gets
// its sums from one block alone, in a fixed order. A node with more is the work of several blocks,
// and its outgoing edges get the gradients to their directions in a pass of their own.
#pragma once
#include <cfloat>

#include "device/rows.cuh"
#include "triplet_products.cuh"

namespace gnograd {

enum Exclusion { reverse_edge, same_node, none };

constexpr int max_spherical = 10, max_radial = 16, max_mid = 64, max_emb = 512;

// Edges of a tile
constexpr int incoming_slots = 8, outgoing_slots = 32;
constexpr int block_warps = block_threads / warp_lanes;
// Columns of the weights handled at once
constexpr int mid_step = 8;
// Tiles of 16 rows
constexpr int max_row_tiles = incoming_slots * max_spherical / 16;

__host__ __device__ constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

struct TripletSizes {
  int n_spherical, n_radial, n_mid, n_emb, exclude;

  __host__ __device__ int n_first() const { return n_spherical * n_radial; }  // rows of W1
  __host__ __device__ int n_weights() const { return (n_first() + n_emb) * n_mid; }
};

// Relative rounding of edge vectors as they are stored.
template <class T>
constexpr double storage_epsilon = 0;
template <>
constexpr double storage_epsilon<float> = FLT_EPSILON;
template <>
constexpr double storage_epsilon<double> = DBL_EPSILON;
template <>
constexpr double storage_epsilon<__half> = 0x1p-10;
template <>
constexpr double storage_epsilon<__nv_bfloat16> = 0x1p-7;

template <class T, class S>
struct TripletProblem {
  Csc incoming, outgoing;  // by destination, by source
  TripletSizes sizes;
  int slots;            // incoming edges of a tile, as shared memory allows
  real<T> tolerance;    // largest sum of a vector and its reverse
  Input<T, S> vector;   // [n_edges, 3]
  Input<T, S> rbf;      // [n_edges, n_spherical n_radial]
  Input<T, S> x;        // [n_edges, n_emb]
  Input<T, S> weights;  // [n_spherical n_radial + n_emb, n_mid]

  __device__ S first_weight(int row, int m) const { return weights[row * sizes.n_mid + m]; }
  __device__ S second_weight(int n, int m) const {
    return n < sizes.n_emb && m < sizes.n_mid ? weights[(sizes.n_first() + n) * sizes.n_mid + m]
                                              : S(0);
  }
};

// Features of a tile
template <class S>
constexpr int tile_features = sizeof(S) > 8 ? 32 : 64;
// Tiles of 8 features of a warp in products of rows or edges by features
template <class S>
constexpr int feature_tiles = tile_features<S> / 8 / block_warps;

// ---- geometry ----

// Direction and length of a vector, safe against overflow; false if it has no length.
template <class S>
__device__ bool direction(const S (&v)[3], S (&unit)[3], S& length) {
  real_part<S> largest = 0;
  for (int c = 0; c < 3; ++c) largest = max(largest, real_part<S>(fabs(value(v[c]))));
  for (int c = 0; c < 3; ++c) unit[c] = S(0);
  length = S(0);
  if (!(largest > 0)) return false;
  for (int c = 0; c < 3; ++c) unit[c] = v[c] / S(largest);
  const S scaled = square_root(unit[0] * unit[0] + unit[1] * unit[1] + unit[2] * unit[2]);
  for (int c = 0; c < 3; ++c) unit[c] = unit[c] / scaled;
  length = scaled * largest;
  return true;
}

// An edge on one side of a tile.
template <class S>
struct Arm {
  int64_t edge;  // row of the edge table
  int far;       // node at the other end
  bool turns;    // it has a direction
  real_part<S> vector[3];
  S unit[3];
};

template <class T, class S>
__device__ Arm<S> load_arm(const TripletProblem<T, S>& p, const Csc& csc, int64_t position) {
  Arm<S> arm;
  arm.edge = csc.edge_of(position);
  arm.far = csc.indices[position];
  S v[3], length;
  for (int c = 0; c < 3; ++c) {
    v[c] = p.vector[3 * arm.edge + c];
    arm.vector[c] = value(v[c]);
  }
  arm.turns = direction(v, arm.unit, length);
  return arm;
}

template <class T, class S>
__device__ bool excluded(const TripletProblem<T, S>& p, const Arm<S>& in, const Arm<S>& out) {
  if (p.sizes.exclude == none || in.far != out.far) return false;
  if (p.sizes.exclude == same_node) return true;
  real<T> sum = 0, size = 0;
  for (int c = 0; c < 3; ++c) {
    sum = max(sum, real<T>(fabs(in.vector[c] + out.vector[c])));
    size = max(size, real<T>(fabs(in.vector[c]) + fabs(out.vector[c])));
  }
  return sum <= p.tolerance * size;
}

// P_l(c) and P_l'(c) from l = 0 on, by recurrences that do not cancel. Polynomials: a cosine that
// rounding has put beyond 1 does no harm.
template <class S>
struct Legendre {
  using A = real_part<S>;
  S c, value = S(1), before = S(0), slope = S(0), slope_before = S(0);

  __device__ void step_from(int l) {
    const S cp = c * value, next = cp + (A(l) / A(l + 1)) * (cp - before);
    const S next_slope = slope_before + A(2 * l + 1) * value;
    before = value;
    value = next;
    slope_before = slope;
    slope = next_slope;
  }
};

// The polynomials of a triplet, with P_0 alone where a vector has no direction, none if excluded.
template <class T, class S, class F>
__device__ void for_degrees(const TripletProblem<T, S>& p, const Arm<S>& in, const Arm<S>& out,
                            F f) {
  const bool counts = !excluded(p, in, out), turns = counts && in.turns && out.turns;
  Legendre<S> legendre;
  legendre.c = in.unit[0] * out.unit[0] + in.unit[1] * out.unit[1] + in.unit[2] * out.unit[2];
#pragma unroll
  for (int l = 0; l < max_spherical; ++l) {
    if (l >= p.sizes.n_spherical) break;
    const bool kept = l ? turns : counts;
    f(l, kept ? legendre.value : S(0), kept ? legendre.slope : S(0));
    legendre.step_from(l);
  }
}

// sqrt((2l+1)/(4 pi))
template <class A>
__device__ A norm(int l) {
  return square_root(A(2 * l + 1) * A(0.07957747154594767));
}

// ---- units of work ----

// Up to `edges` edges of a node. Node j has the units from (offsets[j] + j (edges - 1))/edges on,
// which is room for all of its edges; some stay empty.
__host__ __device__ inline int64_t first_unit(int64_t edges_before, int64_t j, int edges) {
  return (edges_before + j * (edges - 1)) / edges;
}
// Node of a unit, found by a warp that asks for 32 nodes at a time: log32(n_rows) dependent reads.
__device__ inline int64_t node_of(const Csc& csc, int edges, int64_t unit) {
  const int lane = int(threadIdx.x) % warp_lanes;
  int64_t low = 0, count = csc.n_rows;
  while (count > 1) {
    const int64_t step = (count + warp_lanes - 1) / warp_lanes, j = low + lane * step;
    const bool before = lane * step < count && first_unit(csc.offsets[j], j, edges) <= unit;
    const int64_t passed = (__popc(__ballot_sync(~0u, before)) - 1) * step;
    low += passed;
    count = min(step, count - passed);
  }
  return low;
}

// ---- a tile ----

// Rows of features lie `pitch` apart in shared memory, a few banks more than they are long: 4,
// where lanes of a product have 8 rows and 4 features, or 8, where they have 4 rows and 8 features.
template <class T, class S, int gap>
struct TripletTile {
  static constexpr int pitch = tile_features<S> + gap;

  const TripletProblem<T, S>& p;
  Arm<S>*in, *out;  // [slots], [outgoing_slots]
  int* slot_of;     // [row_room] of a row
  real<T>* norms;   // [n_spherical]
  S* rbf;           // [slots, rbf_pitch]
  S* w;             // [mid_step, pitch] W2 transposed
  S* q;             // [row_room, mid_pitch], zeros outside
  S* x;             // [slots, pitch]
  S* xf;            // [row_room, pitch], zeros in rows that are none
  S* angular;       // [outgoing_slots, angular_pitch] Y transposed, zeros outside
  int n_in = 0, n_out = 0;
  int w_holds = -1;  // part of W2 in w, -1: none

  __host__ __device__ static int row_room(const TripletSizes& s, int slots) {
    return round_up(slots * s.n_spherical, 16);
  }
  __host__ __device__ static int mid_pitch(const TripletSizes& s) {
    return round_up(s.n_mid, mid_step) + 4;
  }
  __host__ __device__ static int angular_pitch(const TripletSizes& s, int slots) {
    return row_room(s, slots) + 4;
  }
  __host__ __device__ static int rbf_pitch(const TripletSizes& s) { return s.n_first() | 1; }
  static size_t bytes(const TripletSizes& s, int slots) {
    const int room = row_room(s, slots);
    return shared_bytes<Arm<S>>(slots) + shared_bytes<Arm<S>>(outgoing_slots) +
           shared_bytes<int>(room) + shared_bytes<real<T>>(s.n_spherical) +
           shared_bytes<S>(slots * rbf_pitch(s)) + shared_bytes<S>(mid_step * pitch) +
           shared_bytes<S>(room * mid_pitch(s)) + shared_bytes<S>(slots * pitch) +
           shared_bytes<S>(room * pitch) +
           shared_bytes<S>(outgoing_slots * angular_pitch(s, slots));
  }
  __device__ TripletTile(const TripletProblem<T, S>& p, SharedMemory& shared) : p(p) {
    const TripletSizes& s = p.sizes;
    const int room = row_room(s, p.slots);
    in = shared.take<Arm<S>>(p.slots);
    out = shared.take<Arm<S>>(outgoing_slots);
    slot_of = shared.take<int>(room);
    norms = shared.take<real<T>>(s.n_spherical);
    rbf = shared.take<S>(p.slots * rbf_pitch(s));
    w = shared.take<S>(mid_step * pitch);
    q = shared.take<S>(room * mid_pitch(s));
    x = shared.take<S>(p.slots * pitch);
    xf = shared.take<S>(room * pitch);
    angular = shared.take<S>(outgoing_slots * angular_pitch(s, p.slots));
    for (int row = int(threadIdx.x); row < room; row += block_threads)
      slot_of[row] = row / s.n_spherical;
    if (const int l = int(threadIdx.x); l < s.n_spherical) norms[l] = norm<real<T>>(l);
  }
  __device__ int n_rows() const { return n_in * p.sizes.n_spherical; }
  __device__ int row_tiles() const { return (n_rows() + 15) / 16; }
  // Number of an incoming edge where it has degree l.
  __device__ int row(int a, int l) const { return a * p.sizes.n_spherical + l; }
  __device__ static int warp() { return int(threadIdx.x) / warp_lanes; }
  // First feature of this warp in products of which it has some features and all rows or edges.
  __device__ static int first_feature() { return warp() * feature_tiles<S> * 8; }

  // Edges of node j from number `first` on.
  __device__ void load_incoming(int64_t j, int64_t first) {
    const int64_t begin = p.incoming.offsets[j] + first;
    n_in = int(min(p.incoming.offsets[j + 1] - begin, int64_t(p.slots)));
    if (const int a = int(threadIdx.x); a < n_in) in[a] = load_arm(p, p.incoming, begin + a);
  }
  __device__ void load_outgoing(int64_t j, int64_t first) {
    const int64_t begin = p.outgoing.offsets[j] + first;
    n_out = int(min(p.outgoing.offsets[j + 1] - begin, int64_t(outgoing_slots)));
    if (const int b = int(threadIdx.x); b < n_out) out[b] = load_arm(p, p.outgoing, begin + b);
  }

  // Needs the incoming edges. Warp: an edge.
  __device__ void load_rbf() const {
    const int n_first = p.sizes.n_first();
    for (int a = warp(); a < n_in; a += block_warps) {
      const int64_t from = in[a].edge * n_first;
      for (int i = int(threadIdx.x) % warp_lanes; i < n_first; i += warp_lanes)
        rbf[a * rbf_pitch(p.sizes) + i] = p.rbf[from + i];
    }
  }

  // Needs rbf.
  __device__ void compute_q() const {
    const TripletSizes& s = p.sizes;
    const int end = n_rows(), room = row_tiles() * 16, between = mid_pitch(s);
    for (int i = int(threadIdx.x) / mid_step; i < room; i += block_threads / mid_step) {
      const int a = slot_of[i], l = i - row(a, 0);
      const S* values = rbf + a * rbf_pitch(s) + l * s.n_radial;
      for (int m = int(threadIdx.x) % mid_step; m < between - 4; m += mid_step) {
        S sum = S(0);
        if (i < end && m < s.n_mid)
          for (int r = 0; r < s.n_radial; ++r)
            sum += values[r] * p.first_weight(l * s.n_radial + r, m);
        q[i * between + m] = norms[l] * sum;
      }
    }
  }

  // x of the features from `first` on. Needs the incoming edges. Warp: an edge.
  __device__ void load_x(int first) const {
    const int n_emb = p.sizes.n_emb;
    for (int a = warp(); a < n_in; a += block_warps) {
      const int64_t from = in[a].edge * n_emb + first;
#pragma unroll
      for (int k = 0; k < tile_features<S>; k += warp_lanes) {
        const int n = k + int(threadIdx.x) % warp_lanes;
        x[a * pitch + n] = first + n < n_emb ? p.x[from + n] : S(0);
      }
    }
  }

  // Columns m to m + mid_step of W2, features from `first` on. Ends with a barrier.
  __device__ void load_w(int first, int m) {
    if (const int part = first * max_mid + m; part != w_holds) {
      __syncthreads();
      for (int i = int(threadIdx.x); i < mid_step * tile_features<S>; i += block_threads)
        w[i % mid_step * pitch + i / mid_step] =
            p.second_weight(first + i / mid_step, m + i % mid_step);
      w_holds = part;
    }
    __syncthreads();
  }

  // xf of the features from `first` on, and f where there is room for it. Needs q and x, for which
  // it has a barrier.
  __device__ void compute_f(int first, S* f) {
    const int end = n_rows(), tiles = row_tiles(), between = mid_pitch(p.sizes);
    const int column = first_feature();
    WarpProduct<S, max_row_tiles, feature_tiles<S>> product;
    for (int m = 0; m < p.sizes.n_mid; m += mid_step) {
      load_w(first, m);
      product.add(
          tiles, feature_tiles<S>, mid_step, [&](int i, int k) { return q[i * between + m + k]; },
          [&](int k, int n) { return w[k * pitch + column + n]; });
    }
    product.each(tiles, feature_tiles<S>, [&](int i) {
      const bool there = i < end;
      const S* factor = x + (there ? slot_of[i] : 0) * pitch + column;
      S *to_f = f && there ? f + i * pitch + column : nullptr, *to = xf + i * pitch + column;
      return [=](int n, S left, S right) {
        const Pair<S> by = load_pair(factor + n);
        if (to_f) store_pair(to_f + n, left, right);
        store_pair(to + n, there ? by.v[0] * left : S(0), there ? by.v[1] * right : S(0));
      };
    });
  }

  // f(a, b) by a thread for every pair of slots; 16 outgoing edges where there are no more.
  template <class F>
  __device__ void for_pairs(F f) const {
    const int shift = n_out > 16 ? 5 : 4, b = int(threadIdx.x) & ((1 << shift) - 1);
    for (int a = int(threadIdx.x) >> shift; a < p.slots; a += block_threads >> shift) f(a, b);
  }

  // Needs the edges on both sides.
  __device__ void compute_angular() const {
    const TripletSizes& s = p.sizes;
    const int between = angular_pitch(s, p.slots), end = p.slots * s.n_spherical;
    for_pairs([&](int a, int b) {
      S* to = angular + b * between + row(a, 0);
      if (a < n_in && b < n_out) for_degrees(p, in[a], out[b], [&](int l, S y, S) { to[l] = y; });
      else
        for (int l = 0; l < s.n_spherical; ++l) to[l] = S(0);
    });
    // behind the rows, where there is room for more
    if (const int b = int(threadIdx.x); b < outgoing_slots)
      for (int i = end; i < between - 4; ++i) angular[b * between + i] = S(0);
  }
};

}  // namespace gnograd

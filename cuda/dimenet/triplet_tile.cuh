// SPDX-License-Identifier: MIT
// DimeNet++: what an edge e = (j -> i) collects from the edges e' = (k -> j) that end where it
// starts. With the directions u = v/|v|, c(e', e) = u_e' . u_e, and W = [W1; W2],
//
//     q(e', l, m) = sqrt((2l+1)/(4 pi)) sum_r W1((l, r), m) rbf(e', (l, r))
//     f(e', l, n) = sum_m W2(n, m) q(e', l, m)
//     out(e, n)   = sum_e' x(e', n) sum_l P_l(c(e', e)) f(e', l, n)
//
// All that has to do with n_mid is done once an edge. The incoming edges of a node times its
// outgoing edges are a matrix of triplets, cut into tiles that a block handles in shared memory:
// up to 8 by 32 edges, 16 lanes with a few features each. With g the cotangent of out, a triplet
// takes part in three products that cost n_spherical n_emb each:
//
//     out(e, n)                                              triplet_forward.cuh
//     z(e', l, n) = sum_e P_l(c(e', e)) g(e, n)              triplet_gradients.cuh: to x and f
//     r(e', l, e) = sum_n x(e', n) f(e', l, n) g(e, n)       triplet_gradients.cuh: to P_l
//
// In the forward pass a block has a tile of outgoing edges, in that of gradients whole nodes, so
// that each edge gets its sums from one block alone, in a fixed order.
#pragma once
#include <cfloat>

#include "device/rows.cuh"

namespace gnograd {

enum Exclusion { reverse_edge, same_node, none };

constexpr int max_spherical = 10, max_radial = 16, max_mid = 64, max_emb = 512;

// Edges of a tile, and lanes over its features: 8 x 16 threads.
constexpr int incoming_slots = 8, outgoing_slots = 32, feature_lanes = 16;
static_assert(incoming_slots * feature_lanes == block_threads);
// Outgoing edges of a thread in `collect`
constexpr int outgoing_step = outgoing_slots / incoming_slots;
// Columns of the weights handled at once
constexpr int mid_step = 8;

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
  real<T> tolerance;    // how far the sum of a vector and its reverse may be from zero
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

// Features of a lane; with those of all lanes, of a tile.
template <class S>
constexpr int step = sizeof(S) > 8 ? 2 : 4;
template <class S>
constexpr int tile_features = feature_lanes * step<S>;
// Rows of features in shared memory: apart by a few banks.
template <class S>
constexpr int pitch = tile_features<S> + 4;

template <class S, int N = step<S>>
struct alignas(16) FeaturePack {
  S v[N];
};
template <class S, int N = step<S>>
__device__ FeaturePack<S, N>& pack(S* p) {
  return *reinterpret_cast<FeaturePack<S, N>*>(p);
}

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
  int64_t edge;  // of the edge table
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

// ---- a tile ----

template <class T, class S>
struct TripletTile {
  const TripletProblem<T, S>& p;
  Arm<S>*in, *out;  // [slots], [outgoing_slots]
  S* q;             // [slots, n_spherical, n_mid]
  S* f;             // [slots, n_spherical, pitch]
  S* x;             // [slots, pitch]
  S* angular;       // [slots, outgoing_slots, n_spherical], with a gap
  int n_in = 0, n_out = 0;

  static size_t bytes(const TripletSizes& s, int slots) {
    return shared_bytes<Arm<S>>(slots) + shared_bytes<Arm<S>>(outgoing_slots) +
           shared_bytes<S>(slots * s.n_spherical * s.n_mid) +
           shared_bytes<S>(slots * s.n_spherical * pitch<S>) + shared_bytes<S>(slots * pitch<S>) +
           shared_bytes<S>(slots * angular_pitch(s));
  }
  __device__ TripletTile(const TripletProblem<T, S>& p, SharedMemory& shared) : p(p) {
    const TripletSizes& s = p.sizes;
    in = shared.take<Arm<S>>(p.slots);
    out = shared.take<Arm<S>>(outgoing_slots);
    q = shared.take<S>(p.slots * s.n_spherical * s.n_mid);
    f = shared.take<S>(p.slots * s.n_spherical * pitch<S>);
    x = shared.take<S>(p.slots * pitch<S>);
    angular = shared.take<S>(p.slots * angular_pitch(s));
  }
  // Edges that share a warp are apart by a bank.
  __host__ __device__ static int angular_pitch(const TripletSizes& s) {
    return outgoing_slots * s.n_spherical + 1;
  }
  __device__ S* angular_of(int a, int b) const {
    return angular + a * angular_pitch(p.sizes) + b * p.sizes.n_spherical;
  }
  __device__ S* f_of(int a, int l) const { return f + (a * p.sizes.n_spherical + l) * pitch<S>; }
  __device__ S* q_of(int a, int l) const {
    return q + (a * p.sizes.n_spherical + l) * p.sizes.n_mid;
  }

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

  // Needs the incoming edges.
  __device__ void compute_q() const {
    const TripletSizes& s = p.sizes;
    for (int i = int(threadIdx.x); i < n_in * s.n_spherical * s.n_mid; i += block_threads) {
      const int m = i % s.n_mid, row = i / s.n_mid, l = row % s.n_spherical;
      const int64_t rbf = in[row / s.n_spherical].edge * s.n_first() + l * s.n_radial;
      S sum = S(0);
      for (int r = 0; r < s.n_radial; ++r)
        sum += p.rbf[rbf + r] * p.first_weight(l * s.n_radial + r, m);
      q[i] = norm<real<T>>(l) * sum;
    }
  }

  // f and x of the features from `first` on. Needs q.
  __device__ void compute_f(int first) const {
    const TripletSizes& s = p.sizes;
    const int lane = int(threadIdx.x) % feature_lanes, group = int(threadIdx.x) / feature_lanes;
    const int column = lane * step<S>;
    for (int m = 0; m < s.n_mid; m += mid_step) {
      S w[step<S>][mid_step];
      for (int c = 0; c < step<S>; ++c)
        for (int k = 0; k < mid_step; ++k) w[c][k] = p.second_weight(first + column + c, m + k);
      for (int row = group; row < n_in * s.n_spherical; row += incoming_slots) {
        FeaturePack<S> sum{};
        if (m) sum = pack(f + row * pitch<S> + column);
        for (int k = 0; k < mid_step; ++k)
          if (m + k < s.n_mid) {
            const S a = q[row * s.n_mid + m + k];
            for (int c = 0; c < step<S>; ++c) sum.v[c] += a * w[c][k];
          }
        pack(f + row * pitch<S> + column) = sum;
      }
    }
    if (group < n_in) {
      const int64_t at = in[group].edge * s.n_emb + first + column;
      FeaturePack<S> row{};
      for (int c = 0; c < step<S>; ++c)
        if (first + column + c < s.n_emb) row.v[c] = p.x[at + c];
      pack(x + group * pitch<S> + column) = row;
    }
  }

  // Needs the edges on both sides.
  __device__ void compute_angular() const {
    for (int i = int(threadIdx.x); i < n_in * outgoing_slots; i += block_threads) {
      const int a = i / outgoing_slots, b = i % outgoing_slots;
      if (b >= n_out) continue;
      S* to = angular_of(a, b);
      for_degrees(p, in[a], out[b], [&](int l, S y, S) { to[l] = y; });
    }
  }
};

}  // namespace gnograd

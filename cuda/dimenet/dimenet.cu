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
//     out(e, n)                                                        collect
//     z(e', l, n) = sum_e P_l(c(e', e)) g(e, n)                        agg_edge_to_edge_gradients:
//     gradient to x o f r(e', l, e) = sum_n x(e', n) f(e', l, n) g(e, n)
//     agg_edge_to_edge_gradients: gradient to P_l
//
// In `collect` a block has a tile of outgoing edges, in `agg_edge_to_edge_gradients` whole nodes,
// so that each edge gets its sums from one block alone, in a fixed order.
#include <cfloat>

#include "device/call.cuh"
#include "device/rows.cuh"
#include "device/sums.cuh"

namespace gnograd {
namespace {

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

// ---- forward ----

// Units of work: a tile of outgoing edges of a node. Node j has the units from
// (offsets[j] + j (slots - 1))/slots on, which is room for all of its edges; some stay empty.
__host__ __device__ inline int64_t first_unit(int64_t edges_before, int64_t j) {
  return (edges_before + j * (outgoing_slots - 1)) / outgoing_slots;
}
__device__ inline int64_t node_of(const Csc& csc, int64_t unit) {
  int64_t low = 0, high = csc.n_rows - 1;
  while (low < high) {
    const int64_t j = (low + high + 1) / 2;
    if (first_unit(csc.offsets[j], j) <= unit) low = j;
    else high = j - 1;
  }
  return low;
}

template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    agg_edge_to_edge_collect(TripletProblem<T, S> p, T* out) {
  const TripletSizes& s = p.sizes;
  const int64_t j = node_of(p.outgoing, blockIdx.x);
  const int64_t begin = p.outgoing.offsets[j];
  const int64_t tile_begin = (blockIdx.x - first_unit(begin, j)) * outgoing_slots;
  if (tile_begin >= p.outgoing.offsets[j + 1] - begin) return;
  const int first = int(blockIdx.y) * tile_features<S>;

  SharedMemory shared;
  TripletTile<T, S> tile(p, shared);
  const int column = int(threadIdx.x) % feature_lanes * step<S>;
  const int b_first = int(threadIdx.x) / feature_lanes * outgoing_step;
  const int64_t degree = p.incoming.offsets[j + 1] - p.incoming.offsets[j];
  Vector<S, step<S>> sum[outgoing_step];
  tile.load_outgoing(j, tile_begin);
  __syncthreads();
  for (int64_t a_first = 0; a_first < degree; a_first += p.slots) {
    if (a_first) __syncthreads();
    tile.load_incoming(j, a_first);
    __syncthreads();
    tile.compute_q();
    tile.compute_angular();
    __syncthreads();
    tile.compute_f(first);
    __syncthreads();
    const int n_b = min(tile.n_out - b_first, outgoing_step);
    if (n_b <= 0) continue;
    for (int a = 0; a < tile.n_in; ++a) {
      Vector<S, step<S>> part[outgoing_step];
      for (int l = 0; l < s.n_spherical; ++l) {
        const FeaturePack<S> f = pack(tile.f_of(a, l) + column);
        for (int b = 0; b < outgoing_step; ++b)
          if (b < n_b) {
            const S y = tile.angular_of(a, b_first + b)[l];
            for (int c = 0; c < step<S>; ++c) part[b][c] += y * f.v[c];
          }
      }
      const FeaturePack<S> x = pack(tile.x + a * pitch<S> + column);
      for (int b = 0; b < outgoing_step; ++b)
        for (int c = 0; c < step<S>; ++c) sum[b][c] += x.v[c] * part[b][c];
    }
  }
  for (int b = 0; b < outgoing_step; ++b)
    if (b_first + b < tile.n_out)
      store_vector(out + tile.out[b_first + b].edge * s.n_emb + first + column, sum[b],
                   s.n_emb - first - column, false);
}

// ---- gradients ----

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

// A block has the nodes of its piece: every gridDim.x-th.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) > 4 ? 2 : 3)
    agg_edge_to_edge_gradients(TripletProblem<T, S> p, const T* cotangent,
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

// Gradient to a vector from that to its direction u: (turn - u (u . turn))/|v|
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    agg_edge_to_edge_vector_gradient(TripletProblem<T, S> p, TripletGradients<T, S> grad) {
  const int64_t e = thread_number();
  if (e >= p.incoming.n_edges) return;
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

// ---- launchers ----

template <template <class, class> class Tile, class T, class S>
int slots_that_fit(const TripletSizes& s) {
  int slots = incoming_slots;
  while (slots > 1 && Tile<T, S>::bytes(s, slots) > most_shared) slots /= 2;
  return slots;
}

// Pieces of work, few enough for the gradients to the weights of all to be small.
inline int count_pieces(const gnograd_cuda_graph& graph, const TripletSizes& s) {
  const int64_t most = std::min<int64_t>(1024, std::max(32, (1 << 20) / s.n_weights()));
  return int(std::min(graph.n_dst, most));
}

template <class T>
struct AggEdgeToEdge {
  const gnograd_cuda_graph* graph;
  int64_t n_spherical, n_radial, n_mid, n_emb;
  int exclude;

  struct Inputs {
    const T* vector;     // [n_edges, 3]
    const T* rbf;        // [n_edges, n_spherical n_radial]
    const T* embedding;  // [n_edges, n_emb]
    const T* weights;    // [n_spherical n_radial + n_emb, n_mid]
  };
  struct Outputs {
    T* out;  // [n_edges, n_emb]
  };
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *vector, *rbf, *embedding, *weights;  // as the inputs, or null
  };

  bool valid() const {
    const auto within = [](int64_t n, int most) { return n >= 1 && n <= most; };
    return within(n_spherical, max_spherical) && within(n_radial, max_radial) &&
           within(n_mid, max_mid) && within(n_emb, max_emb) && exclude >= reverse_edge &&
           exclude <= none && graph->n_src == graph->n_dst;
  }
  TripletSizes sizes() const {
    return {int(n_spherical), int(n_radial), int(n_mid), int(n_emb), exclude};
  }
  template <class S>
  TripletProblem<T, S> problem(const Inputs& in, const Inputs& tangents, int slots) const {
    return {by_dst(*graph),
            by_src(*graph),
            sizes(),
            slots,
            real<T>(sqrt(storage_epsilon<T>)),
            {in.vector, tangents.vector},
            {in.rbf, tangents.rbf},
            {in.embedding, tangents.embedding},
            {in.weights, tangents.weights}};
  }

  template <class S>
  int value(const Inputs& in, const Inputs& tangents, T* out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const int slots = slots_that_fit<TripletTile, T, S>(sizes());
    const int64_t units = first_unit(graph->n_edges, graph->n_src);
    if (graph->n_edges)
      launch(agg_edge_to_edge_collect<T, S>, grid_of(units, ceil_div(n_emb, tile_features<S>)),
             dim3(block_threads), TripletTile<T, S>::bytes(sizes(), slots), call.stream,
             problem<S>(in, tangents, slots), out);
    return cudaGetLastError();
  }

  template <class S>
  int gradients(const T* g, const Inputs& in, const Inputs& tangents, const Gradients& wanted,
                Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    Workspace& workspace = call.workspace;
    const TripletSizes s = sizes();
    const int slots = slots_that_fit<TripletGradientTile, T, S>(s);
    const int pieces = count_pieces(*graph, s);
    const int64_t n_turns = 3 * graph->n_edges;
    TripletGradients<T, S> grad{wanted.vector, wanted.rbf, wanted.embedding, wanted.weights,
                                nullptr,       nullptr,    nullptr};
    grad.turn_in = workspace.take<S>(n_turns);
    grad.turn_out = workspace.take<S>(n_turns);
    grad.parts = workspace.take<S>(int64_t(pieces) * s.n_weights());
    const FoldSpace<S> folds(pieces, s.n_weights(), workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const auto p = problem<S>(in, tangents, slots);
    if (graph->n_edges) {
      if (grad.vector) set_zero(grad.turn_out, n_turns, call.stream);
      launch(agg_edge_to_edge_gradients<T, S>, grid_of(pieces), dim3(block_threads),
             TripletGradientTile<T, S>::bytes(s, slots), call.stream, p, g, grad);
      if (grad.vector)
        launch_threads(graph->n_edges, call.stream, agg_edge_to_edge_vector_gradient<T, S>, p,
                       grad);
    }
    if (grad.weights)
      sum_rows(PlainMatrix<S>{grad.parts, s.n_weights()}, graph->n_edges ? pieces : 0,
               s.n_weights(), folds, grad.weights, call.stream);
    return cudaGetLastError();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return value<real<T>>(in, {}, out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gradients<real<T>>(g.out, in, {}, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return value<Dual<real<T>>>(in, tangents, out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gradients<Dual<real<T>>>(g.out, in, tangents, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "dimenet_entries.cuh"

// SPDX-License-Identifier: MIT
// Sparse attention forward, of rows that see the same blocks: out, lse and D of nsa_tiles.cuh.
#pragma once
#include "nsa_tiles.cuh"

namespace gnograd {

// lse in two parts, max + ln(sum), each `softmax_copies` times a row, as nsa_selected_attention has
// it.
constexpr int softmax_copies = 8;
template <class R>
struct SplitLse {
  R* max = nullptr;  // [rows, softmax_copies]
  R* sum = nullptr;  // [rows, softmax_copies]
};

// Softmax of a row so far: sum of the weights, relative to the largest logit, and the factor of
// what was summed before.
template <class S>
struct SoftmaxSum {
  S total;
  real_part<S> top, factor;
};

// The weights of n keys, in place of their x; a warp.
template <class S>
__device__ void weigh_keys(SoftmaxSum<S>& sum, const QueryRow<S>& row, S* x, int64_t position,
                           int n, int lane) {
  S total = 0;
  if constexpr (ScalarTraits<S>::dual) {
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = row.sees(position + c) ? row.gate * exponential_below(x[c], row.lse) : S(0);
      total += x[c];
    }
    total = warp_sum(total);
    if (lane == 0) sum.total += total;
  } else {
    S top = sum.top;
    const S more = row.gate <= 0 ? S(-INFINITY) : logarithm(row.gate);
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = row.sees(position + c) ? x[c] + more : S(-INFINITY);
      top = max(top, x[c]);
    }
    top = warp_max(top);
    const S factor = sum.top > -INFINITY ? exponential(sum.top - top) : S(1);
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = x[c] == -INFINITY ? S(0) : exponential(x[c] - top);
      total += x[c];
    }
    total = warp_sum(total);
    __syncwarp();
    if (lane == 0) sum = {factor * sum.total + total, top, factor};
  }
}

// Flags that forms with sums in registers leave to NsaForward: for each of their warps, true if any
// of its rows is to be made again. Rows are numbered unit by unit, within a unit head by head,
// within a head query by query, and each has so many lanes.
struct RowFlags {
  int* found = nullptr;      // [all lanes / 32], or null
  int64_t rows_of_unit = 0;  // rows of a head, with places that fill up its last warp
  int lanes = 0;

  int64_t n_lanes(const Pattern& p) const { return p.n_units() * p.heads * rows_of_unit * lanes; }
  // Flags of whole blocks of threads
  int64_t size(const Pattern& p) const {
    return ceil_div(n_lanes(p), block_threads) * (block_threads / warp_lanes);
  }
  __device__ bool any(const Pattern& p, const QueryTile& tile) const {
    const TokenPiece& queries = tile.queries;
    const int64_t unit = (queries.number + queries.sequence) * p.heads + tile.head;
    const int64_t row =
        unit * rows_of_unit + (queries.first - queries.number * p.unit) * p.group + tile.first_head;
    const int64_t end = ((row + tile.n) * lanes + warp_lanes - 1) / warp_lanes;
    bool yes = false;
    for (int64_t i = row * lanes / warp_lanes; i < end; ++i) yes = yes || found[i];
    return yes;
  }
};

// Block: a tile of up to 64 rows that see the same blocks, one key/value head; it goes over their
// keys in tiles of up to 64. Scores and results are 16 x 16 a warp on tensor cores (numbers from 16
// bits) or 4 x 4 a thread; then a warp has a row's softmax. Shared memory: shared_memory(), shrunk
// to 56 KB if tiles stay 16 or more, 99 KB at most. Reads Dk + Dv numbers a key for every tile of
// rows, from L2 where tiles share keys; 2 (Dk + Dv) operations a row and key. Bound by shared
// memory, which every operand of a product passes. If only flagged rows are wanted, a block has 128
// tiles, far from each other, as neighbours are often wanted together; each thread looks at the
// flags of one, and it is bound by their latency if there are none.
template <class T, class S>
struct NsaForward {
  static constexpr int blocks_at_once = tile_blocks<S>;
  using Sum = SoftmaxSum<S>;

  NsaProblem<T, S> problem;
  const real<T>* known_lse;      // for dual numbers [rows]
  const T* cotangent;            // for D, or null
  const real<T>* lse_cotangent;  // or null
  T* out;                        // [rows, d_v], or null
  real<T>* lse;                  // [rows], or null
  RowStatistics<S> saved;        // each or null
  SplitLse<real<T>> softmax;     // both or none
  RowFlags only{};               // rows that are wanted, with others of their tiles; null: all

  __host__ __device__ bool values_wanted() const { return out || saved.delta; }
  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<QueryRow<S>>(p.rows) + shared_bytes<Sum>(p.rows) +
           SharedMatrix<S>::bytes(p.rows, p.d_k) + SharedMatrix<S>::bytes(p.rows, p.d_v) +
           SharedMatrix<S>::bytes(p.keys, std::max(p.d_k, p.d_v)) +
           SharedMatrix<S>::bytes(p.rows, p.keys) +
           shared_bytes<unsigned>(block_threads / warp_lanes);
  }

  // Blocks for the rows that are wanted.
  int64_t n_blocks() const {
    const int64_t tiles = problem.n_tiles();
    return only.found ? ceil_div(tiles, block_threads) : tiles;
  }

  __device__ void operator()() const {
    const auto tile = [&](int i) {
      return query_tile(problem, blockIdx.x + int64_t(i) * gridDim.x);
    };
    SharedMemory shared;
    unsigned* const wanted = shared.take<unsigned>(block_threads / warp_lanes);  // a bit a tile
    if (only.found) {
      const int thread = int(threadIdx.x);
      const QueryTile mine = tile(thread);
      const bool any = mine.n > 0 && only.any(problem.pattern, mine);
      const unsigned of_warp = __ballot_sync(~0u, any);
      if (thread % warp_lanes == 0) wanted[thread / warp_lanes] = of_warp;
      if (__syncthreads_and(!any)) return;
    }
#pragma unroll 1
    for (int i = 0; i < (only.found ? block_threads : 1); ++i)
      if (!only.found || wanted[i / warp_lanes] >> i % warp_lanes & 1) {
        __syncthreads();
        attend(tile(i), shared);
      }
  }

  __device__ void attend(const QueryTile& tile, SharedMemory shared) const {
    const auto& p = problem;
    QueryRow<S>* rows = shared.take<QueryRow<S>>(p.rows);
    Sum* sums = shared.take<Sum>(p.rows);
    const SharedMatrix<S> q(shared, p.rows, p.d_k), result(shared, p.rows, p.d_v);
    const SharedMatrix<S> kv(shared, p.keys, max(p.d_k, p.d_v)), x(shared, p.rows, p.keys);
    if (tile.n == 0) return;

    describe_rows(p, tile, rows);
    fill(result, tile.n, p.d_v, S(0));
    __syncthreads();
    for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
      sums[i] = {0, -INFINITY, 1};
      if constexpr (ScalarTraits<S>::dual) rows[i].lse = known_lse[rows[i].at];
    }
    load_queries(p, q, p.q, p.d_k, rows, tile.n);
    for_keys(
        p, tile, [&](int64_t slot) { load_gates(p, tile.head, slot, rows, tile.n); },
        [&](const KeyTile& keys) {
          load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head);
          fill_distances(p, x, rows, tile.n, keys);
          __syncthreads();
          tile_product<T, S>(
              tile.n, keys.n, p.d_k, [&](int i, int l) { return q(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) { x(i, j) = logit(p, sum, x(i, j)); });
          __syncthreads();
          warp_per_row(tile.n, [&](int i, int lane) {
            weigh_keys(sums[i], rows[i], &x(i, 0), keys.position, keys.n, lane);
          });
          if (values_wanted()) {
            const bool finite =
                __syncthreads_and(load_keys(p, kv, p.v, p.d_v, keys.first, keys.n, tile.head));
            masked_tile_product<T, S>(
                finite, tile.n, p.d_v, keys.n, [&](int i, int l) { return x(i, l); },
                [&](int l, int j) { return kv(l, j); },
                [&](int i, int l) { return rows[i].sees(keys.position + l); },
                [&](int i, int j, S sum) { result(i, j) = sums[i].factor * result(i, j) + sum; });
          }
          __syncthreads();
        },
        [](int64_t) {});
    __syncthreads();
    warp_per_row(tile.n, [&](int i, int lane) {
      finish(sums[i], rows[i], [&](int c) { return result(i, c); }, lane);
    });
  }

  // A row whose out is values(c) / sum.total; a warp.
  template <class Values>
  __device__ void finish(const Sum& sum, const QueryRow<S>& row, Values values, int lane) const {
    const bool any = value(sum.total) != 0;
    S delta = 0;
    for (int c = lane; values_wanted() && c < problem.d_v; c += warp_lanes) {
      const S y = any ? values(c) / sum.total : S(0);
      if (out) out[row.at * problem.d_v + c] = T(gnograd::result(y));
      if (saved.delta) delta += real<T>(cotangent[row.at * problem.d_v + c]) * y;
    }
    if (saved.delta) delta = warp_sum(delta);
    if (softmax.max && lane < softmax_copies) {
      const int64_t i = row.at * softmax_copies + lane;
      softmax.max[i] = any ? sum.top : -INFINITY;
      softmax.sum[i] = any ? value(sum.total) : real<T>(0);
    }
    if (lane) return;
    S total = -INFINITY;
    if (any) {
      total = logarithm(sum.total);
      if constexpr (ScalarTraits<S>::dual) total += row.lse;
      else total += sum.top;
    }
    if (lse) lse[row.at] = gnograd::result(total);
    if (saved.lse) saved.lse[row.at] = total;
    if (saved.delta) saved.delta[row.at] = lse_cotangent ? delta - lse_cotangent[row.at] : delta;
  }
};

// D of rows whose out is known. Eight lanes: a row, 16 bytes each at a time. Reads 2 Dv numbers,
// writes one; bound by memory.
constexpr int delta_lanes = 8;
template <class T>
__global__ void __launch_bounds__(block_threads)
    nsa_delta_of_out(int64_t n_rows, int d_v, bool wide, const T* __restrict__ cotangent,
                     const real<T>* lse_cotangent, const T* __restrict__ out, real<T>* delta) {
  const Group group = this_group(delta_lanes);
  const int64_t row = group.number, at = row * d_v;
  if (row >= n_rows) return;
  real<T> sum = 0;
  for (int c = group.lane * width<T>; c < d_v; c += delta_lanes * width<T>)
    sum += inner<real<T>>(load_vector(cotangent + at + c, d_v - c, wide),
                          load_vector(out + at + c, d_v - c, wide));
  sum = group_sum(sum, group);
  if (group.lane == 0) delta[row] = lse_cotangent ? sum - lse_cotangent[row] : sum;
}

// lse of its two parts. Thread: a row; bound by memory, an eighth of whose lines is used.
template <class R>
__global__ void __launch_bounds__(block_threads)
    nsa_join_lse(int64_t n_rows, SplitLse<const R> softmax, R* __restrict__ lse) {
  const int64_t row = thread_number(), i = row * softmax_copies;
  if (row >= n_rows) return;
  // the maximum of nothing is -infinity already
  lse[row] = softmax.max[i] + (softmax.sum[i] == 0 ? R(0) : logarithm(softmax.sum[i]));
}

}  // namespace gnograd

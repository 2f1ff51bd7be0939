// SPDX-License-Identifier: MIT
// Gradients of sparse attention, with lse and D of all rows known: to queries and gates by the rows
// that see the same blocks, to keys and values by the blocks.
#pragma once
#include "nsa_tiles.cuh"

namespace gnograd {

// Gradients to queries and gates. Block: as in NsaForward, with three products a tile of keys, 2 (2
// Dk
// + Dv) operations a row and key; keys are read twice, values once. Bound by shared memory.
template <class T, class S>
struct NsaQueryGradient {
  static constexpr int blocks_at_once = tile_blocks<S> - (sizeof(T) == sizeof(S));

  NsaProblem<T, S> problem;
  const T* cotangent;  // [rows, d_v]
  RowStatistics<const S> known;
  T* grad_q;     // [rows, d_k], or null
  S* grad_gate;  // [head parts, queries, heads, n_slots], zero, or null
  S* of_bias;    // terms of rows in the gradients of a bias [rows, d + 1], or null

  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<QueryRow<S>>(p.rows) + 2 * SharedMatrix<S>::bytes(p.rows, p.d_k) +
           SharedMatrix<real<T>>::bytes(p.rows, p.d_v) +
           SharedMatrix<S>::bytes(p.keys, std::max(p.d_k, p.d_v)) +
           SharedMatrix<S>::bytes(p.rows, p.keys) + shared_bytes<S>(p.rows) +
           SharedMatrix<S>::bytes(p.bias ? p.rows : 0, p.bias.d + 1);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    QueryRow<S>* rows = shared.take<QueryRow<S>>(p.rows);
    const SharedMatrix<S> q(shared, p.rows, p.d_k), grad(shared, p.rows, p.d_k);
    const SharedMatrix<real<T>> g(shared, p.rows, p.d_v);
    const SharedMatrix<S> kv(shared, p.keys, max(p.d_k, p.d_v)), x(shared, p.rows, p.keys);
    S* gate_sums = shared.take<S>(p.rows);
    const SharedMatrix<S> bias_sums(shared, p.bias ? p.rows : 0, p.bias.d + 1);
    const QueryTile tile = query_tile(p, blockIdx.x);
    if (tile.n == 0) return;

    describe_rows(p, tile, rows);
    fill(grad, tile.n, p.d_k, S(0));
    if (p.bias) fill(bias_sums, tile.n, p.bias.d + 1, S(0));
    __syncthreads();
    for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
      rows[i].lse = known.lse[rows[i].at];
      rows[i].delta = known.delta[rows[i].at];
    }
    load_queries(p, q, p.q, p.d_k, rows, tile.n);
    load_queries(p, g, Input<T, real<T>>{cotangent}, p.d_v, rows, tile.n);
    for_keys(
        p, tile,
        [&](int64_t slot) {
          load_gates(p, tile.head, slot, rows, tile.n);
          for (int i = int(threadIdx.x); i < tile.n; i += block_threads) gate_sums[i] = 0;
        },
        [&](const KeyTile& keys) {
          load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head);
          fill_distances(p, x, rows, tile.n, keys);
          __syncthreads();
          tile_product<T, S>(
              tile.n, keys.n, p.d_k, [&](int i, int l) { return q(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) {
                x(i, j) = rows[i].sees(keys.position + j)
                              ? exponential_below(logit(p, sum, x(i, j)), rows[i].lse)
                              : S(0);
              });
          __syncthreads();
          load_keys(p, kv, p.v, p.d_v, keys.first, keys.n, tile.head);
          __syncthreads();
          // E becomes E o (G V^T - D)
          tile_product<T, S>(
              tile.n, keys.n, p.d_v, [&](int i, int l) { return g(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) {
                x(i, j) = rows[i].sees(keys.position + j) ? x(i, j) * (sum - rows[i].delta) : S(0);
              });
          __syncthreads();
          if (grad_gate)
            warp_per_row(tile.n, [&](int i, int lane) {
              S sum = 0;
              for (int c = lane; c < keys.n; c += warp_lanes) sum += x(i, c);
              sum = warp_sum(sum);
              if (lane == 0) gate_sums[i] += sum;
            });
          if (of_bias)
            warp_per_row(tile.n, [&](int i, int lane) {
              DistancePull<S> sum;
              for (int c = lane; c < keys.n; c += warp_lanes)
                if (rows[i].sees(keys.position + c))
                  p.bias.pull(sum, rows[i].at, rows[i].query, keys.first + c, x(i, c));
              for (int c = 0; c < p.bias.d; ++c) {
                const S along = warp_sum(sum.along[c]);
                if (lane == 0) bias_sums(i, c) += along;
              }
              const S lengths = warp_sum(sum.length);
              if (lane == 0) bias_sums(i, p.bias.d) += lengths;
            });
          const bool finite =
              __syncthreads_and(load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head));
          masked_tile_product<T, S>(
              finite, tile.n, p.d_k, keys.n, [&](int i, int l) { return x(i, l); },
              [&](int l, int j) { return kv(l, j); },
              [&](int i, int l) { return rows[i].sees(keys.position + l); },
              [&](int i, int j, S sum) { grad(i, j) += rows[i].gate * sum; });
          __syncthreads();
        },
        [&](int64_t slot) {
          if (!grad_gate) return;
          for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
            if (i % tile.heads) continue;
            S sum = 0;
            for (int head = 0; head < tile.heads; ++head) sum += gate_sums[i + head];
            const int64_t of = tile.part * p.pattern.queries.n_tokens + rows[i].query;
            grad_gate[(of * p.pattern.heads + tile.head) * p.pattern.n_slots + slot] = sum;
          }
          __syncthreads();
        });
    __syncthreads();
    if (of_bias)
      for (int i = int(threadIdx.x); i < tile.n * (p.bias.d + 1); i += block_threads) {
        const int row = i / (p.bias.d + 1), c = i % (p.bias.d + 1);
        of_bias[rows[row].at * (p.bias.d + 1) + c] = bias_sums(row, c);
      }
    if (!grad_q) return;
    warp_per_row(tile.n, [&](int i, int lane) {
      for (int c = lane; c < p.d_k; c += warp_lanes)
        grad_q[rows[i].at * p.d_k + c] = T(result(p.scale * grad(i, c)));
    });
  }
};

// Gradients of a block's keys and values from one chunk of its visitors. Block: a part of a chunk,
// up to 64 keys; it goes over the chunk's rows, 1024 or more, in tiles of up to 64, with four
// products a tile, five where it gives the gradient to q too: 4 (Dk + Dv) operations a row and key.
// Shared memory: shared_memory(), as in NsaForward, so that tiles are often 16 x 16. Reads Dk + Dv
// numbers a row, writes as many a key (and Dk a row and part). Bound by shared memory.
template <class T, class S>
struct NsaKeyGradient {
  static constexpr int blocks_at_once = sizeof(T) == 2 && sizeof(S) == 4 ? 6 : tile_blocks<S>;

  NsaProblem<T, S> problem;
  VisitorLists lists;
  const T* cotangent;
  RowStatistics<const S> known;
  S* sums;    // [chunks, block, width()]
  S* grad_q;  // [rows of the slice, n_slots, parts, d_k]: what every visit gives, or null
  Range slice{0, INT64_MAX};  // of queries, if these are selected; sums add to those before it

  __host__ __device__ int parts() const { return problem.block_parts(); }
  // Gradients of a key: to k, v and its position
  __host__ __device__ int width() const { return problem.d_k + problem.d_v + problem.bias.d; }
  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<QueryRow<S>>(p.rows) + SharedMatrix<S>::bytes(p.rows, p.d_k) +
           SharedMatrix<real<T>>::bytes(p.rows, p.d_v) + 2 * SharedMatrix<S>::bytes(p.keys, p.d_k) +
           2 * SharedMatrix<S>::bytes(p.keys, p.d_v) + 2 * SharedMatrix<S>::bytes(p.rows, p.keys) +
           SharedMatrix<S>::bytes(p.bias ? p.keys : 0, p.bias.d);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    QueryRow<S>* rows = shared.take<QueryRow<S>>(p.rows);
    const SharedMatrix<S> q(shared, p.rows, p.d_k);
    const SharedMatrix<real<T>> g(shared, p.rows, p.d_v);
    const SharedMatrix<S> k(shared, p.keys, p.d_k), grad_k(shared, p.keys, p.d_k);
    const SharedMatrix<S> v(shared, p.keys, p.d_v), grad_v(shared, p.keys, p.d_v);
    const SharedMatrix<S> w(shared, p.rows, p.keys), x(shared, p.rows, p.keys);
    const SharedMatrix<S> grad_position(shared, p.bias ? p.keys : 0, p.bias.d);
    const unsigned number = blockIdx.x / unsigned(parts());
    const int part = int(blockIdx.x % unsigned(parts()));
    VisitorChunk chunk = chunk_of(p.pattern, lists, number);
    const KeyTile keys = keys_of(p, chunk, part);
    const int n_keys = keys.n;
    if (n_keys <= 0 || chunk.n <= 0) return;
    if (p.pattern.selected) cut(chunk, p.pattern, lists, slice);
    if (chunk.n <= 0 && slice.first > 0) return;
    const int64_t visits_before = slice.first * p.pattern.query_heads() * p.pattern.n_slots;

    const bool k_loaded = load_keys(p, k, p.k, p.d_k, keys.first, n_keys, chunk.head);
    load_keys(p, v, p.v, p.d_v, keys.first, n_keys, chunk.head);
    fill(grad_k, n_keys, p.d_k, S(0));
    fill(grad_v, n_keys, p.d_v, S(0));
    if (p.bias) fill(grad_position, n_keys, p.bias.d, S(0));
    const int64_t n_rows = chunk.n * lists.rows_per_entry;
    for (int64_t first = 0; first < n_rows; first += p.rows) {
      const int n = int(min(n_rows - first, int64_t(p.rows)));
      __syncthreads();
      describe_visitors(p, lists, chunk, first, n, rows);
      for (int i = int(threadIdx.x); i < n; i += block_threads) {
        const int64_t at = rows[i].at;
        rows[i].lse = at < 0 ? S(0) : known.lse[at];
        rows[i].delta = at < 0 ? S(0) : known.delta[at];
      }
      __syncthreads();
      const auto sees = [&](int i, int l) { return rows[i].sees(keys.position + l); };
      const auto seen = [&](int i, int l) { return sees(l, i); };
      const bool q_loaded = load_queries(p, q, p.q, p.d_k, rows, n);
      const bool g_loaded = load_queries(p, g, Input<T, real<T>>{cotangent}, p.d_v, rows, n);
      fill_distances(p, w, rows, n, keys);
      const bool finite = __syncthreads_and(k_loaded && q_loaded && g_loaded);
      tile_product<T, S>(
          n, n_keys, p.d_k, [&](int i, int l) { return q(i, l); },
          [&](int l, int j) { return k(j, l); },
          [&](int i, int j, S sum) {
            w(i, j) = sees(i, j)
                          ? rows[i].gate * exponential_below(logit(p, sum, w(i, j)), rows[i].lse)
                          : S(0);
          });
      __syncthreads();
      tile_product<T, S>(
          n, n_keys, p.d_v, [&](int i, int l) { return g(i, l); },
          [&](int l, int j) { return v(j, l); },
          [&](int i, int j, S sum) {
            x(i, j) = sees(i, j) ? w(i, j) * (sum - rows[i].delta) : S(0);
          });
      __syncthreads();
      masked_tile_product<T, S>(
          finite, n_keys, p.d_v, n, [&](int i, int l) { return w(l, i); },
          [&](int l, int j) { return g(l, j); }, seen,
          [&](int i, int j, S sum) { grad_v(i, j) += sum; });
      masked_tile_product<T, S>(
          finite, n_keys, p.d_k, n, [&](int i, int l) { return x(l, i); },
          [&](int l, int j) { return q(l, j); }, seen,
          [&](int i, int j, S sum) { grad_k(i, j) += p.scale * sum; });
      if (p.bias)
        warp_per_row(n_keys, [&](int j, int lane) {
          DistancePull<S> sum;
          for (int i = lane; i < n; i += warp_lanes)
            if (sees(i, j)) p.bias.pull(sum, rows[i].at, rows[i].query, keys.first + j, x(i, j));
          for (int c = 0; c < p.bias.d; ++c) {
            const S along = warp_sum(sum.along[c]);
            if (lane == 0) grad_position(j, c) += -along;
          }
        });
      if (grad_q)
        masked_tile_product<T, S>(
            finite, n, p.d_k, n_keys, [&](int i, int l) { return x(i, l); },
            [&](int l, int j) { return k(l, j); }, sees,
            [&](int i, int j, S sum) {
              if (rows[i].at < 0) return;
              grad_q[((rows[i].visit - visits_before) * parts() + part) * p.d_k + j] = sum;
            });
    }
    __syncthreads();
    S* to = sums + (int64_t(number) * p.pattern.block + part * p.keys) * width();
    warp_per_row(n_keys, [&](int i, int lane) {
      S* row = to + int64_t(i) * width();
      const auto put = [&](int column, const S& x) {
        row[column] = slice.first > 0 ? row[column] + x : x;
      };
      for (int c = lane; c < p.d_k; c += warp_lanes) put(c, grad_k(i, c));
      for (int c = lane; c < p.d_v; c += warp_lanes) put(p.d_k + c, grad_v(i, c));
      for (int c = lane; c < p.bias.d; c += warp_lanes) put(p.d_k + p.d_v + c, grad_position(i, c));
    });
  }
};

// The chunks of every list, in order. Thread: `each` features of a key and head, all of k, of v or
// of the position; reads as many numbers for every chunk of its block's list, two chunks of a mean
// list, and writes them; bound by memory and by finding the list, with divisions in 64 bits.
template <int each, class T, class S>
__global__ void __launch_bounds__(block_threads)
    nsa_join_chunks(Pattern p, VisitorLists lists, int d_k, int d_v, int d_position,
                    const S* __restrict__ sums, T* __restrict__ grad_k, T* __restrict__ grad_v,
                    S* __restrict__ of_bias) {
  const int d = d_k + d_v + d_position, threads = d / each;
  const int64_t row = thread_number() / threads;  // key times heads plus head
  const int c = int(thread_number() % threads) * each;
  const bool of_k = c < d_k, of_v = !of_k && c < d_k + d_v;
  if (row >= p.keys.n_tokens * p.heads) return;
  if ((of_k && !grad_k) || (of_v && !grad_v) || (!of_k && !of_v && !of_bias)) return;
  const int64_t key = row / p.heads, s = p.keys.of_token(key);
  const int64_t position = key - p.keys.first(s);
  const int64_t list =
      row % p.heads * lists.n_blocks + p.keys.number(s, p.block) + position / p.block;
  const int64_t first = lists.first_chunk(list), n = n_chunks_of(p, lists, list);
  Vector<S, each> sum;
  for (int64_t i = first; i < first + n; ++i) {
    const S* const from = sums + (i * p.block + position % p.block) * d + c;
#pragma unroll
    for (int e = 0; e < each; ++e) sum[e] += from[e];
  }
#pragma unroll
  for (int e = 0; e < each; ++e) {
    if (of_k) grad_k[row * d_k + c + e] = T(result(sum[e]));
    else if (of_v) grad_v[row * d_v + c + e - d_k] = T(result(sum[e]));
    else of_bias[row * d_position + c + e - d_k - d_v] = sum[e];
  }
}

// grad[i] = sum over the parts of the heads. Thread: a gate; reads `parts` numbers; bound by
// memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    nsa_join_gates(int64_t n, int parts, const S* __restrict__ sums, T* __restrict__ grad) {
  const int64_t i = thread_number();
  if (i >= n) return;
  S sum = 0;
  for (int part = 0; part < parts; ++part) sum += sums[part * n + i];
  grad[i] = T(result(sum));
}

}  // namespace gnograd

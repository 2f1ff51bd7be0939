// SPDX-License-Identifier: MIT
// Selected attention with the keys first, for selections that few rows share.
//
// If the rows of a selection fill a tile of the tensor cores, they stay in shared memory while
// their blocks pass by (nsa_forward.cuh). A selection of one row would then fetch
// n block (Dk + Dv) numbers for itself alone: at 131072 tokens, 8 heads, 16 blocks of 64 and 32
// features in float32 that is 256 KiB a row and 275 GB in all, some 60 ms of an H200's memory (4.8
// TB/s), for 137 GFLOP; and on tensor cores 15 of 16 rows of a tile would be empty. So here a block
// of threads keeps keys and values of one block, and the rows that selected it pass by, gathered
// into tiles. Every visit of a row leaves what it found, a number for every feature of out (of grad
// q) with maximum and sum; a second kernel joins the visits of a row in the order of its slots. A
// visit moves q once, and writes and reads Dv + 3 numbers: 400 bytes in the example, 7 GB in all or
// 1.4 ms, 40 times less. Multiplying float32 on tensor cores would have saved some ms of 60 only.
// The records of all visits would take n_slots times the memory of out, in the precision of the
// sums. So queries are handled in slices whose records take no more than record_bytes, 2 GiB.
#pragma once
#include "nsa_forward.cuh"

namespace gnograd {

// Rows of a selection from which on they are kept instead of the keys.
constexpr int64_t enough_rows = 16;
inline bool keys_first(const Pattern& p) { return p.selected && p.unit * p.group < enough_rows; }

// Little on the host, so that small problems have several slices.
constexpr int64_t record_bytes = slice_bytes > (1 << 20) ? int64_t(slice_bytes) * 16
                                                         : int64_t(slice_bytes) / 4;

// Records in which visits leave what they found: for every row of a slice of queries, slot and part
// of a block.
template <class S>
struct VisitRecords {
  SoftmaxSum<S>* sums = nullptr;  // [rows, n_slots, parts]
  S* values = nullptr;            // [rows, n_slots, parts, features], or null: not wanted
  int parts = 1;
  Range slice{0, INT64_MAX};

  // Number of the first record of a visit.
  __device__ int64_t of_visit(const Pattern& p, int64_t visit) const {
    return (visit - slice.first * p.query_heads() * p.n_slots) * parts;
  }
  // A row by its number in the slice, or -1.
  __device__ int64_t row(const Pattern& p, int64_t number) const {
    const int64_t at = slice.first * p.query_heads() + number;
    return at < min(slice.end, p.queries.n_tokens) * p.query_heads() ? at : -1;
  }
};

// Memory for the records of a slice, of whichever form.
struct RecordSpace {
  char* memory = nullptr;
  int64_t bytes = 0;
};

// body(slice) for slices of whole units of queries whose records fit, with so many bytes a query.
template <class Body>
void for_slices(const Pattern& p, const RecordSpace& space, int64_t per_query, Body body) {
  const int64_t n = p.queries.n_tokens, fit = per_query > 0 ? space.bytes / per_query : n;
  const int64_t each = std::max<int64_t>(1, fit / p.unit) * p.unit;
  for (int64_t first = 0; first < n; first += each)
    body(Range{first, std::min(first + each, n)});
}

// Block: a part of a chunk of a block's visitors, with up to 64 of its keys and values in shared
// memory (shared_memory(), as in NsaForward); it goes over the chunk's rows in tiles. 2 (Dk + Dv)
// operations a row and key; reads Dk numbers a visit, writes Dv + 3. Bound by shared memory.
template <class T, class S>
struct NsaVisitForward {
  static constexpr int blocks_at_once = tile_blocks<S>;

  NsaProblem<T, S> problem;
  VisitorLists lists;
  const real<T>* known_lse;  // for dual numbers [rows]
  VisitRecords<S> records;

  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<QueryRow<S>>(p.rows) + shared_bytes<SoftmaxSum<S>>(p.rows) +
           SharedMatrix<S>::bytes(p.rows, p.d_k) + SharedMatrix<S>::bytes(p.keys, p.d_k) +
           SharedMatrix<S>::bytes(p.keys, p.d_v) + SharedMatrix<S>::bytes(p.rows, p.keys);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    QueryRow<S>* rows = shared.take<QueryRow<S>>(p.rows);
    SoftmaxSum<S>* sums = shared.take<SoftmaxSum<S>>(p.rows);
    const SharedMatrix<S> q(shared, p.rows, p.d_k), k(shared, p.keys, p.d_k),
        v(shared, p.keys, p.d_v);
    const SharedMatrix<S> x(shared, p.rows, p.keys);
    const int part = int(blockIdx.x % unsigned(records.parts));
    VisitorChunk chunk = chunk_of(p.pattern, lists, blockIdx.x / unsigned(records.parts));
    const KeyTile keys = keys_of(p, chunk, part);
    if (keys.n <= 0 || chunk.n <= 0) return;
    cut(chunk, p.pattern, lists, records.slice);
    if (chunk.n <= 0) return;

    load_keys(p, k, p.k, p.d_k, keys.first, keys.n, chunk.head);
    const bool v_loaded =
        !records.values || load_keys(p, v, p.v, p.d_v, keys.first, keys.n, chunk.head);
    const int64_t n_rows = chunk.n * lists.rows_per_entry;
    for (int64_t first = 0; first < n_rows; first += p.rows) {
      const int n = int(min(n_rows - first, int64_t(p.rows)));
      __syncthreads();
      describe_visitors(p, lists, chunk, first, n, rows);
      for (int i = int(threadIdx.x); i < n; i += block_threads) {
        sums[i] = {0, -INFINITY, 1};
        if constexpr (ScalarTraits<S>::dual)
          rows[i].lse = rows[i].at < 0 ? real<T>(0) : known_lse[rows[i].at];
      }
      __syncthreads();
      load_queries(p, q, p.q, p.d_k, rows, n);
      __syncthreads();
      tile_product<T, S>(
          n, keys.n, p.d_k, [&](int i, int l) { return q(i, l); },
          [&](int l, int j) { return k(j, l); },
          [&](int i, int j, S sum) { x(i, j) = p.scale * sum; });
      __syncthreads();
      warp_per_row(n, [&](int i, int lane) {
        weigh_keys(sums[i], rows[i], &x(i, 0), keys.position, keys.n, lane);
        __syncwarp();
        if (lane == 0 && rows[i].at >= 0) records.sums[record_of(rows[i], part)] = sums[i];
      });
      if (!records.values) continue;
      const bool finite = __syncthreads_and(v_loaded);
      masked_tile_product<T, S>(
          finite, n, p.d_v, keys.n, [&](int i, int l) { return x(i, l); },
          [&](int l, int j) { return v(l, j); },
          [&](int i, int l) { return rows[i].sees(keys.position + l); },
          [&](int i, int j, S sum) {
            if (rows[i].at >= 0) records.values[record_of(rows[i], part) * p.d_v + j] = sum;
          });
    }
  }

  __device__ int64_t record_of(const QueryRow<S>& row, int part) const {
    return records.of_visit(problem.pattern, row.visit) + part;
  }
};

// body(record) for what the visits of a row have left, in the order of its slots.
template <class T, class S, class Body>
__device__ void for_records(const NsaProblem<T, S>& p, const VisitRecords<S>& records, int64_t row,
                            Body body) {
  const int64_t query = row / p.pattern.query_heads(), s = p.pattern.queries.of_token(query);
  const TokenPiece unit = p.pattern.unit_of(query / p.pattern.unit + s);
  const int head = int(row % p.pattern.query_heads() / p.pattern.group);
  for (BlockVisits visit(p.pattern, unit, head); visit.next();) {
    const int64_t n =
        min(p.pattern.keys.size(s) - visit.block * p.pattern.block, int64_t(p.pattern.block));
    const int64_t first = records.of_visit(p.pattern, row * p.pattern.n_slots + visit.slot);
    for (int64_t part = 0; part * p.keys < n; ++part) body(first + part);
  }
}

// Results of NsaForward, from the records of its visits. Warp: a row, lanes over features. Reads Dv
// + 3 numbers a visit once, and writes Dv; bound by memory. Room for eight blocks, as ptxas would
// spill to have more.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, 8)
    nsa_join_visits(NsaForward<T, S> attend, VisitRecords<S> records) {
  const auto& p = attend.problem;
  const int64_t at = records.row(p.pattern, thread_number() / warp_lanes);
  if (at < 0) return;
  QueryRow<S> row{};
  row.at = at;
  if constexpr (ScalarTraits<S>::dual) row.lse = attend.known_lse[at];
  SoftmaxSum<S> all{0, -INFINITY, 1};
  for_records(p, records, at,
              [&](int64_t i) { all.top = max(all.top, records.sums[i].top); });
  const auto factor = [&](int64_t i) {
    if constexpr (ScalarTraits<S>::dual) return real<T>(1);
    else return records.sums[i].top > -INFINITY ? exponential(records.sums[i].top - all.top) : S(0);
  };
  for_records(p, records, at,
              [&](int64_t i) { all.total += factor(i) * records.sums[i].total; });
  attend.finish(
      all, row,
      [&](int c) {
        S sum = 0;
        for_records(p, records, at,
                    [&](int64_t i) { sum += factor(i) * records.values[i * p.d_v + c]; });
        return sum;
      },
      int(threadIdx.x) % warp_lanes);
}

// grad q from the records of NsaKeyGradient. Warp: a row, lanes over features. Reads Dk numbers a
// visit, writes Dk; bound by memory. Room for eight blocks, as for nsa_join_visits.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, 8)
    nsa_join_query_gradients(NsaProblem<T, S> p, VisitRecords<S> records, T* __restrict__ grad_q) {
  const int64_t row = records.row(p.pattern, thread_number() / warp_lanes);
  if (row < 0) return;
  for (int c = int(threadIdx.x) % warp_lanes; c < p.d_k; c += warp_lanes) {
    S sum = 0;
    for_records(p, records, row, [&](int64_t i) { sum += records.values[i * p.d_k + c]; });
    grad_q[row * p.d_k + c] = T(result(p.scale * sum));
  }
}

}  // namespace gnograd

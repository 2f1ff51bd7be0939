// SPDX-License-Identifier: MIT
// Sparse attention forward with the keys first (nsa_visits.cuh), with sums in registers, for
// selections that few rows share. Records are rounded to the type of the arrays, as results are.
#pragma once
#include "nsa_fragments.cuh"
#include "nsa_visits.cuh"

namespace gnograd {

// Result of a visit, but for its values: their weights are power(x - top), of sum `total`.
struct VisitSum {
  float top, total;
};

// Block: a part of a chunk of a block's visitors, 64 keys and values in shared memory. Warp: 16 of
// its rows at a time, from q to the record of their visit, all in registers; nothing is shared but
// the keys. Reads Dk numbers a visit from L2, writes Dv and 8 bytes; 2 (Dk + Dv) operations a row
// and key. Bound by L2 or by issue.
template <class T, int d_k, int d_v>
struct NsaFragmentVisits {
  static constexpr int keys = 64, blocks_at_once = sizeof(T) == 2 && d_k + d_v <= 128 ? 3 : 2;
  using K = OperandMatrix<T, d_k>;
  using V = OperandMatrix<T, d_v>;

  NsaProblem<T, float> problem;
  VisitorLists lists;
  VisitSum* sums;  // [rows, n_slots, parts]
  T* values;       // [rows, n_slots, parts, d_v], divided by the totals
  Range slice;     // of queries, whose records these are

  __host__ __device__ int parts() const { return (problem.pattern.block + keys - 1) / keys; }
  size_t shared_memory() const { return shared_bytes<T>(K::size(keys) + V::size(keys)); }

  __device__ void operator()() const {
    const auto& p = problem;
    const Pattern& pattern = p.pattern;
    SharedMemory shared;
    const K k{shared.take<T>(K::size(keys) + V::size(keys))};
    const V v{k.x + K::size(keys)};
    const int warp = int(threadIdx.x) / warp_lanes, lane = int(threadIdx.x) % warp_lanes;
    VisitorChunk chunk = chunk_of(pattern, lists, blockIdx.x / unsigned(parts()));
    const int part = int(blockIdx.x % unsigned(parts()));
    const int first = int(chunk.keys.first) + part * keys;
    const int n = min(int(chunk.keys.end) - first, keys), head = chunk.head;
    if (n <= 0 || chunk.n <= 0) return;
    cut(chunk, pattern, lists, slice);
    if (chunk.n <= 0) return;
    const int64_t before = slice.first * pattern.query_heads();
    const int64_t heads = pattern.heads;
    k.template copy<keys>(p.k.v + (first * heads + head) * p.d_k, heads * p.d_k, p.d_k, n);
    v.template copy<keys>(p.v.v + (first * heads + head) * p.d_v, heads * p.d_v, p.d_v, n);
    commit_copies();
    await_copies();
    __syncthreads();

    const float scale = p.scale * logit_unit<T>;
    const unsigned n_rows = unsigned(chunk.n * lists.rows_per_entry);
#pragma unroll 1
    for (unsigned from = warp * fragment_rows; from < n_rows;
         from += block_threads / warp_lanes * fragment_rows) {
      FragmentRow rows[2];
      int64_t record[2];
      float gate[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const unsigned i = from + unsigned(lane) / 4 + 8 * r;
        const unsigned per_entry = unsigned(lists.rows_per_entry);
        const unsigned n_slots = unsigned(pattern.n_slots);
        record[r] = gate[r] = 0;
        if (i >= n_rows) continue;
        const unsigned entry = i / per_entry;
        const unsigned visitor = unsigned(lists.entries[chunk.first + entry]);
        const unsigned unit = visitor / n_slots, slot = visitor - unit * n_slots;
        rows[r] = row_of_unit(pattern, pattern.unit_of(unit), head, i - entry * per_entry);
        gate[r] = gate_of(p, rows[r], int(slot));
        record[r] = ((rows[r].at - before) * n_slots + slot) * parts() + part;
      }
      Fragment<T> q[d_k / 16];
      load_rows_as_left(q, p.q.v, p.d_k, rows, lane);
      float x[keys / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {}, zero[2];
      add_inner_products(x, [&](auto& a, int l) { memcpy(&a, q[l], sizeof a); }, k, lane);
      const bool all =
          __all_sync(~0u, n == keys && rows[0].sees_all(first, n) && rows[1].sees_all(first, n));
#pragma unroll
      for (int j = 0; j < keys / 8; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          float& y = x[j][c];
          y = scale * y + gate[c / 2];
          if (!all) {
            const int key = j * 8 + lane % 4 * 2 + c % 2;
            if (key >= n || !rows[c / 2].sees(first + key)) y = -INFINITY;
          }
          top[c / 2] = max(top[c / 2], y);
        }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        top[r] = max_of_row(top[r]);
        zero[r] = top[r] == -INFINITY ? 0.f : top[r];
      }
#pragma unroll
      for (int j = 0; j < keys / 8; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          x[j][c] = power<T>(x[j][c] - zero[c / 2]);
          total[c / 2] += x[j][c];
        }
      float sum[d_v / 8][4] = {};
      add_product(sum, x, v, lane);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        total[r] = sum_of_row(total[r]);
        if (rows[r].at < 0) continue;
        if (lane % 4 == 0) sums[record[r]] = {top[r], total[r]};
        const float factor = total[r] == 0 ? 1.f : 1 / total[r];
        T* const to = values + record[r] * p.d_v + lane % 4 * 2;
        const int n_columns = p.d_v - lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < d_v / 8; ++j)
          if (j * 8 < n_columns)
            store_pair(to + j * 8, factor * sum[j][2 * r], factor * sum[j][2 * r + 1]);
      }
    }
  }
};

// 16 bytes of the features of a row, from `column` on, from the records of its visits, and what
// NsaForward gives beside them. True if they are finite.
template <class T>
__device__ bool join_fragments(const NsaForward<T, float>& attend, int parts, const unsigned* marks,
                               const VisitSum* __restrict__ sums, const T* __restrict__ values,
                               const TokenPiece& unit, int head, int64_t row, int column,
                               int64_t before) {
  const auto& p = attend.problem;
  const Pattern& pattern = p.pattern;
  constexpr int each = width<T>;
  const SlotMarks marked(marks);
  const int64_t from = (row - before) * pattern.n_slots * parts;
  const auto for_visits = [&](auto body) {
#pragma unroll
    for (int w = 0; w < mark_words; ++w)
#pragma unroll 4
      for (unsigned bits = marked.words[w]; bits; bits &= bits - 1) {
        const int64_t slot = w * warp_lanes + __ffs(bits) - 1;
        if (parts == 1) {
          body(from + slot);
        } else {
          const int64_t block = pattern.slots(unit, head)[slot];
          const int64_t n = pattern.keys.size(unit.sequence) - block * pattern.block;
          for (int part = 0; part < parts && part * 64 < n; ++part)
            body(from + slot * parts + part);
        }
      }
  };
  float top = -INFINITY, total = 0;
  for_visits([&](int64_t i) { top = max(top, sums[i].top); });
  Vector<float, each> sum;
  for_visits([&](int64_t i) {
    const VisitSum of = sums[i];
    if (of.total == 0) return;
    const float weight = of.top == -INFINITY ? of.total : power<T>(of.top - top) * of.total;
    total += weight;
    sum.add(weight, load_vector(values + i * p.d_v + column, each, true));
  });
  const bool any = total != 0;
  bool finite = true;
  for (int c = 0; c < each; ++c) {
    sum[c] = any ? sum[c] / total : 0.f;
    finite = finite && is_finite(sum[c]);
  }
  store_vector(attend.out + row * p.d_v + column, sum, each, true);
  if (column > 0) return finite;
  top *= of_logit<T>;
  if (attend.softmax.max)
    for (int c = 0; c < softmax_copies; ++c) {
      attend.softmax.max[row * softmax_copies + c] = any ? top : -INFINITY;
      attend.softmax.sum[row * softmax_copies + c] = any ? total : 0.f;
    }
  if (attend.lse) attend.lse[row] = any ? top + logarithm(total) : -INFINITY;
  return finite;
}

// Thread: 16 bytes of the features of a row, which are the lanes of RowFlags. Reads Dv numbers and
// 8 bytes a visit, writes Dv; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    nsa_join_fragment_visits(NsaForward<T, float> attend, int parts,
                             const unsigned* __restrict__ marks, const VisitSum* __restrict__ sums,
                             const T* __restrict__ values, Range slice,
                             int* __restrict__ redo) {
  const Pattern& pattern = attend.problem.pattern;
  const unsigned steps = unsigned(attend.problem.d_v / width<T>), heads = unsigned(pattern.heads);
  const unsigned rows_of_unit = unsigned(pattern.unit) * unsigned(pattern.group);
  const unsigned number = blockIdx.x * unsigned(block_threads) + threadIdx.x, row = number / steps;
  const unsigned place = row / rows_of_unit;
  const int head = int(place % heads), column = int(number % steps) * width<T>;
  const TokenPiece unit = pattern.unit_of(place / heads);
  const int at = row_of_unit(pattern, unit, head, row % rows_of_unit).at;
  const int64_t before = slice.first * pattern.query_heads();
  bool finite = true;
  if (at >= before && at < slice.end * pattern.query_heads())
    finite = join_fragments(attend, parts, marks + place * mark_words, sums, values, unit, head, at,
                            column, before);
  const bool wrong = __any_sync(~0u, !finite);
  // a warp has rows of several slices where these meet
  if (threadIdx.x % warp_lanes == 0 && (wrong || slice.first == 0))
    redo[number / warp_lanes] = wrong;
}

template <class T, int d_k, int d_v>
void launch_visits(const NsaProblem<T, float>& p, const VisitorLists& lists, VisitSum* sums,
                   T* values, const Range& slice, int64_t blocks, cudaStream_t stream) {
  if constexpr (visits_fit<T>(d_k, d_v))
    launch_operation(NsaFragmentVisits<T, d_k, d_v>{p, lists, sums, values, slice}, blocks, stream);
}

// Bytes of the records of a query.
template <class T>
int64_t fragment_record_bytes(const Pattern& p, int d_v) {
  return p.query_heads() * p.n_slots * ceil_div(p.block, 64) *
         (d_v * int64_t(sizeof(T)) + int64_t(sizeof(VisitSum)));
}

// Out and lse; rows whose values are not finite are left to NsaForward.
template <class T>
void forward_on_visits(const NsaForward<T, float>& attend, const VisitorLists& lists,
                       const RecordSpace& space, const RowFlags& redo, cudaStream_t stream) {
  const auto& p = attend.problem;
  const Pattern& pattern = p.pattern;
  const int parts = int(ceil_div(pattern.block, 64));
  const int64_t blocks = lists.n_chunks * parts;
  for_slices(pattern, space, fragment_record_bytes<T>(pattern, p.d_v), [&](const Range& slice) {
    const int64_t n = (slice.end - slice.first) * pattern.query_heads() * pattern.n_slots * parts;
    T* const values = reinterpret_cast<T*>(space.memory);  // rows of whole 16 bytes
    VisitSum* const sums = reinterpret_cast<VisitSum*>(values + n * p.d_v);
    with_features(p.d_k, p.d_v, [&](auto d_k, auto d_v) {
      launch_visits<T, decltype(d_k)::value, decltype(d_v)::value>(p, lists, sums, values, slice,
                                                                   blocks, stream);
    });
    launch_threads(redo.n_lanes(pattern), stream, nsa_join_fragment_visits<T>, attend, parts,
                   lists.marks, sums, values, slice, redo.found);
  });
}

}  // namespace gnograd

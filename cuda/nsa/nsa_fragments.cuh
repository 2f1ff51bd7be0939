// SPDX-License-Identifier: MIT
// Sparse attention of 16-bit numbers on tensor cores: operands stay in 16 bits in shared memory,
// where copies arrive while products are made, sums stay in registers, dealt out as
// mma_m16n8k16 has them. Lane l holds of a 16 x 8 part of a result the rows l / 4 and l / 4 + 8 and
// the columns 2 (l % 4) and the next.
#pragma once
#include "device/copies.cuh"
#include "nsa_forward.cuh"

namespace gnograd {

constexpr int fragment_rows = 16;
constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;

// A matrix in shared memory whose rows have d numbers of T, an odd number of 16 bytes apart, so
// that the eight rows of an 8 x 8 matrix lie in different banks.
template <class T, int d>
struct HalfMatrix {
  static constexpr int pitch = d + 8;
  static __host__ __device__ constexpr int size(int rows) { return rows * pitch; }
  T* x;

  __device__ T* at(int row, int column) const { return x + row * pitch + column; }

  // Rows that the threads of a block copy at a time, 16 bytes each, neighbours side by side.
  static constexpr int steps = d <= 32 ? 4 : d <= 64 ? 8 : d <= 128 ? 16 : 32;
  static constexpr int rows_at_once = block_threads / steps;
  // Starts to copy rows 0..n of an array, `apart` numbers from each other and `size` long; zeros
  // behind.
  template <int rows>
  __device__ void copy(const T* __restrict__ from, int64_t apart, int size, int n) const {
    const int column = int(threadIdx.x) % steps * 8;
    if (d / 8 < steps && column >= d) return;
    int row = int(threadIdx.x) / steps;
    from += row * apart + column;
    T* to = at(row, column);
#pragma unroll 4
    for (int s = 0; s < rows / rows_at_once; ++s) {
      copy_async(to, from, row < n && column < size);
      row += rows_at_once;
      from += rows_at_once * apart;
      to += rows_at_once * pitch;
    }
  }

  // The matrix as the left operand of a product: rows m..m+15, columns k..k+15.
  __device__ void left(unsigned (&a)[4], int m, int k, int lane) const {
    load_matrices(a, at(m + lane % 16, k + lane / 16 * 8));
  }
  // Its transposed: columns m..m+15, rows k..k+15.
  __device__ void left_transposed(unsigned (&a)[4], int m, int k, int lane) const {
    load_matrices_transposed(a, at(k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8));
  }
  // As right operands of two products: rows k..k+15, columns n..n+7 and n+8..n+15.
  __device__ void right(unsigned (&b)[4], int k, int n, int lane) const {
    load_matrices_transposed(b, at(k + lane % 16, n + lane / 16 * 8));
  }
  // Its transposed: columns k..k+15, rows n..n+7 and n+8..n+15.
  __device__ void right_transposed(unsigned (&b)[4], int k, int n, int lane) const {
    load_matrices(b, at(n + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
  }
};

// sum[0], sum[1] += a b for the two right operands that HalfMatrix loads together.
template <class T>
__device__ void multiply_pair(float (&left)[4], float (&right)[4], const unsigned (&a)[4],
                              const unsigned (&b)[4]) {
  const unsigned first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
  mma_m16n8k16(T(), left, a, first);
  mma_m16n8k16(T(), right, a, second);
}

// sum += weight(r, l) right(l, column) for the `depth` rows l for which seen(r, l) is true; r tells
// which of a lane's two rows. What is not seen stays out, be it a NaN.
template <class T, int n, int d, class Weight, class Seen>
__device__ void add_seen(float (&sum)[n][4], Weight weight, const HalfMatrix<T, d>& right, int from,
                         int depth, Seen seen, int lane) {
#pragma unroll 1
  for (int l = 0; l < depth; ++l) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!seen(r, l)) continue;
      const float x = weight(r, l);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const T* const at = right.at(l, from + j * 8 + lane % 4 * 2);
        sum[j][2 * r] += x * float(at[0]);
        sum[j][2 * r + 1] += x * float(at[1]);
      }
    }
  }
}

template <class T>
__device__ unsigned pack(float x, float y) {
  const T both[2] = {T(x), T(y)};
  unsigned bits;
  memcpy(&bits, both, sizeof bits);
  return bits;
}
template <class T>
__device__ void unpack(float (&x)[2], unsigned bits) {
  T both[2];
  memcpy(static_cast<void*>(both), &bits, sizeof bits);
  x[0] = float(both[0]);
  x[1] = float(both[1]);
}
// Two neighbouring 16 x 8 parts of a result, as a left operand.
template <class T>
__device__ void as_left(unsigned (&a)[4], const float (&x)[4], const float (&y)[4]) {
  a[0] = pack<T>(x[0], x[1]);
  a[1] = pack<T>(x[2], x[3]);
  a[2] = pack<T>(y[0], y[1]);
  a[3] = pack<T>(y[2], y[3]);
}

// Of the four lanes that have a row.
__device__ inline float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ inline float max_of_row(float x) {
  x = max(x, __shfl_xor_sync(~0u, x, 1));
  return max(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline bool is_finite(float x) { return x - x == 0; }

// Keys first..end of all keys.
struct KeyRange {
  int first, end;
};

// What a lane knows of one of its rows.
struct FragmentRow {
  int at = -1;          // among all rows; -1: there is none
  KeyRange keys{0, 0};  // those it sees, among all keys

  __device__ bool sees(int key) const { return keys.first <= key && key < keys.end; }
  __device__ bool sees_any(int first, int n) const {
    return keys.first < first + n && first < keys.end;
  }
  __device__ bool sees_all(int first, int n) const {
    return keys.first <= first && first + n <= keys.end;
  }
};

// Row `within` of those of a unit and head, query by query.
__device__ inline FragmentRow row_of_unit(const Pattern& p, const TokenPiece& unit, int head,
                                          unsigned within) {
  FragmentRow row;
  const unsigned group = unsigned(p.group);
  const int64_t query = unit.number * p.unit + within / group;
  if (within >= p.unit * group || query < unit.first || query >= unit.end) return row;
  const int64_t s = unit.sequence, from = p.keys.first(s);
  const Range seen = p.visible(query - p.queries.first(s), p.keys.size(s));
  row.at = int(query * p.query_heads() + head * p.group + within % group);
  row.keys = {int(from + seen.first), int(from + seen.end)};
  return row;
}

// sum += x right, for a result x that becomes a left operand.
template <class T, int n, int parts, int d>
__device__ void add_product(float (&sum)[n][4], const float (&x)[parts][4],
                            const HalfMatrix<T, d>& right, int lane) {
  static_assert(n * 8 == d);
#pragma unroll
  for (int l = 0; l < parts; l += 2) {
    unsigned a[4];
    as_left<T>(a, x[l], x[l + 1]);
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      unsigned b[4];
      right.right(b, l * 8, j * 8, lane);
      multiply_pair<T>(sum[j], sum[j + 1], a, b);
    }
  }
}

// x += a right^T, for left operands a.
template <class T, int n, int parts, int d>
__device__ void add_inner_products(float (&x)[parts][4], const unsigned (&a)[n][4],
                                   const HalfMatrix<T, d>& right, int lane) {
  static_assert(n * 16 == d);
#pragma unroll
  for (int l = 0; l < n; ++l)
#pragma unroll
    for (int j = 0; j < parts; j += 2) {
      unsigned b[4];
      right.right_transposed(b, l * 16, j * 8, lane);
      multiply_pair<T>(x[j], x[j + 1], a[l], b);
    }
}

// The rows of a lane of an array [rows, size], as left operands.
template <class T, int n>
__device__ void load_rows_as_left(unsigned (&a)[n][4], const T* __restrict__ x, int size,
                                  const FragmentRow (&rows)[2], int lane) {
#pragma unroll
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int column = k * 16 + r / 2 * 8 + lane % 4 * 2;
      const int64_t at = rows[r % 2].at;
      a[k][r] = at >= 0 && column < size
                    ? __ldg(reinterpret_cast<const unsigned*>(x + at * size + column))
                    : 0;
    }
}

// ln of a row's gate, in powers of 2; 0 where there are none.
template <class T>
__device__ float gate_of(const NsaProblem<T, float>& p, const FragmentRow& row, int head,
                         int slot) {
  if (!p.gate || row.at < 0) return 0;
  const int64_t at = (int64_t(row.at / int(p.pattern.query_heads())) * p.pattern.heads + head) *
                         p.pattern.n_slots +
                     slot;
  const float gate = p.gate[at];
  return gate <= 0 ? -INFINITY : logarithm(gate) * log2_e;
}

// Whether by its sizes the problem is one for this form: numbers of 16 bits in rows of whole 16
// bytes, without a bias, and few enough for 32-bit numbers. Rows must be aligned too, which is not
// known when a workspace is counted.
constexpr int64_t most_slots = 128;
template <class T, class S>
bool fits_fragments(const NsaProblem<T, S>& p) {
  constexpr int64_t most = int64_t(1) << 30;
  if constexpr (sizeof(T) != 2 || ScalarTraits<S>::dual) return false;
  const Pattern& pattern = p.pattern;
  return p.d_k % 8 == 0 && p.d_v % 8 == 0 && !p.bias && pattern.unit * pattern.group < most &&
         pattern.rows() < most / 8 && pattern.keys.n_tokens + pattern.block < most &&
         pattern.n_slots <= most_slots &&
         pattern.queries.n_tokens * std::max<int64_t>(pattern.n_slots, 1) < most;
}

// As run_on_tiles, for operations that say how many of their blocks a multiprocessor should have
// room for in its registers.
template <class Operation>
__global__ void __launch_bounds__(block_threads, Operation::blocks_at_once)
    run_on_fragments(Operation operation) {
  operation();
}
template <class Operation>
void launch_fragments(const Operation& operation, int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return;
  launch(run_on_fragments<Operation>, grid_of(blocks), dim3(block_threads),
         operation.shared_memory(), stream, operation);
}

// f(constants d_k, d_v) for the sizes that features are padded to: of both the larger one, but for
// the usual 192 and 128.
template <int n>
struct Constant {
  static constexpr int value = n;
};
template <class F>
void with_features(int d_k, int d_v, F f) {
  const int d = std::max(d_k, d_v);
  if (d <= 32) f(Constant<32>(), Constant<32>());
  else if (d <= 64) f(Constant<64>(), Constant<64>());
  else if (d <= 96) f(Constant<96>(), Constant<96>());
  else if (d <= 128) f(Constant<128>(), Constant<128>());
  else if (d <= 192 && d_v <= 128) f(Constant<192>(), Constant<128>());
  else if (d <= 192) f(Constant<192>(), Constant<192>());
  else f(Constant<256>(), Constant<256>());
}

}  // namespace gnograd

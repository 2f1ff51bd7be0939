// SPDX-License-Identifier: MIT
// Sparse attention of numbers of 16 bits and float32 on tensor cores: operands stay as they are
// stored in shared memory, where copies arrive while products are made, sums stay in registers,
// dealt out as mma has them. Lane l holds of a 16 x 8 part of a result the rows l / 4 and l / 4 + 8
// and the columns 2 (l % 4) and the next.
//
// Numbers of 16 bits are multiplied as they are. One of float32 is the sum of two of 11 bits
// (SplitFloat), split in registers by every warp, as shared memory is the scarcer: three products,
// without that of the small parts, at most 2^-22 of that of the factors. Tensor cores round sums
// towards zero, so only sums of 16 products are theirs, small ones first; these are added up
// outside. Two numbers of float16 would need half of the tensor cores' time, but a factor for each
// row, by which features that are 2^15 smaller than others of their row would be less exact than
// float32.
#pragma once
#include "device/copies.cuh"
#include "nsa_forward.cuh"

namespace gnograd {

constexpr int fragment_rows = 16;
constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;

// Logits and their maxima are in powers of 2; in float32, which would show the rounding of the
// factor in large ones, in powers of e.
template <class T>
constexpr float logit_unit = sizeof(T) == 2 ? log2_e : 1.f;
template <class T>
constexpr float of_logit = sizeof(T) == 2 ? ln_2 : 1.f;
template <class T>
__device__ float power(float logit) {
  if constexpr (sizeof(T) == 2) return exp2f(logit);
  else return exponential(logit);
}

// Part of a 16 x 16 matrix of T that a lane has: a left operand, or two right ones side by side.
// For float32 these are two of depth 8, one behind the other.
template <class T>
constexpr int steps_of_16 = sizeof(T) / 2;
template <class T>
using Fragment = unsigned[4 * steps_of_16<T>];

// Barrier between steps of a product: the next one is not loaded from shared memory before, as
// ptxas would until registers run out, and split numbers take many.
template <class T>
__device__ void in_order() {
  if constexpr (sizeof(T) == 4) __syncwarp();
}

// A left operand as tensor cores take it, for several products.
template <class T>
struct LeftFactor {
  const Fragment<T>& x;
  __device__ explicit LeftFactor(const Fragment<T>& x) : x(x) {}
};
// Four numbers of float32 in two parts each.
struct SplitFour {
  unsigned large[4], small[4];
  __device__ explicit SplitFour(const unsigned* x) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned bits = made_here(x[i]);
      float number;
      memcpy(&number, &bits, sizeof number);
      const SplitFloat<false> split(number);
      large[i] = split.large;
      small[i] = split.small;
    }
  }
};
template <>
struct LeftFactor<float> {
  SplitFour steps[2];
  __device__ explicit LeftFactor(const Fragment<float>& x)
      : steps{SplitFour(x), SplitFour(x + 4)} {}
};

// left, right += a b for two right operands side by side.
template <class T>
__device__ void multiply_pair(float (&left)[4], float (&right)[4], const LeftFactor<T>& a,
                              const Fragment<T>& b) {
  const unsigned first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
  mma_m16n8k16(T(), left, a.x, first);
  mma_m16n8k16(T(), right, a.x, second);
}
template <>
__device__ inline void multiply_pair<float>(float (&left)[4], float (&right)[4],
                                            const LeftFactor<float>& a, const Fragment<float>& b) {
  float part[2][4] = {};
  const auto add = [&](const unsigned (&x)[4], const unsigned* y) {
    mma_m16n8k8(part[0], x, {y[0], y[1]});
    mma_m16n8k8(part[1], x, {y[2], y[3]});
  };
  unsigned large[2][4];
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const SplitFour y(b + 4 * step);
    add(a.steps[step].small, y.large);
    add(a.steps[step].large, y.small);
    memcpy(large[step], y.large, sizeof y.large);
  }
#pragma unroll
  for (int step = 0; step < 2; ++step) add(a.steps[step].large, large[step]);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    left[c] = made_here(left[c] + part[0][c]);
    right[c] = made_here(right[c] + part[1][c]);
  }
}

// A matrix in shared memory whose rows have d numbers of T, an odd number of 16 bytes apart, so
// that the eight rows of an 8 x 8 matrix of 16-bit numbers, or of an 8 x 4 matrix of float32, lie
// in different banks. Such numbers of float32 cannot be transposed as they are loaded; one at a
// time, no two lanes meet in a bank where they have rows 2 (l % 4) or the next. So in products
// along the rows of such a matrix, the numbers of an 8 x 8 matrix come in the order 0, 2, 4, 6, 1,
// 3, 5, 7: the one in which lanes hold results.
template <class T, int d>
struct OperandMatrix {
  static constexpr int together = 16 / sizeof(T);  // numbers in 16 bytes
  static constexpr int pitch = d + together;
  static __host__ __device__ constexpr int size(int rows) { return rows * pitch; }
  T* x;

  __device__ T* at(int row, int column) const { return x + row * pitch + column; }

  // Rows that the threads of a block copy at a time, 16 bytes each, neighbours side by side.
  static constexpr int steps = (d <= 32 ? 32 : d <= 64 ? 64 : d <= 128 ? 128 : 256) / together;
  static constexpr int rows_at_once = block_threads / steps;
  // Starts to copy rows 0..n of an array, `apart` numbers from each other and `size` long; zeros
  // behind.
  template <int rows>
  __device__ void copy(const T* __restrict__ from, int64_t apart, int size, int n) const {
    const int column = int(threadIdx.x) % steps * together;
    if (d / together < steps && column >= d) return;
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
  __device__ void left(Fragment<T>& a, int m, int k, int lane) const {
    load(a, [&](int step) { return at(m + lane % 16, k + 8 * step + lane / 16 * together); });
  }
  // Left operand from the transposed matrix: columns m..m+15, rows k..k+15.
  __device__ void left_transposed(Fragment<T>& a, int m, int k, int lane) const {
    if constexpr (sizeof(T) == 2)
      load_matrices_transposed(a, at(k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8));
    else
      load_numbers(a, [&](int step, int i) {
        return at(k + 8 * step + lane % 4 * 2 + i / 2, m + lane / 4 + i % 2 * 8);
      });
  }
  // Right operands of two products: rows k..k+15, columns n..n+7 and n+8..n+15.
  __device__ void right(Fragment<T>& b, int k, int n, int lane) const {
    if constexpr (sizeof(T) == 2) load_matrices_transposed(b, at(k + lane % 16, n + lane / 16 * 8));
    else
      load_numbers(b, [&](int step, int i) {
        return at(k + 8 * step + lane % 4 * 2 + i % 2, n + lane / 4 + i / 2 * 8);
      });
  }
  // Right operands from the transposed matrix: columns k..k+15, rows n..n+7 and n+8..n+15.
  __device__ void right_transposed(Fragment<T>& b, int k, int n, int lane) const {
    load(b, [&](int step) {
      return at(n + lane / 16 * 8 + lane % 8, k + 8 * step + lane / 8 % 2 * together);
    });
  }

 private:
  template <class At>
  __device__ void load(Fragment<T>& x, At at) const {
#pragma unroll
    for (int step = 0; step < steps_of_16<T>; ++step) {
      unsigned four[4];
      load_matrices(four, at(step));
#pragma unroll
      for (int i = 0; i < 4; ++i) x[4 * step + i] = four[i];
    }
  }
  template <class At>
  __device__ void load_numbers(Fragment<T>& x, At at) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) memcpy(&x[i], at(i / 4, i % 4), sizeof x[i]);
  }
};

// sum += weight(r, l) right(l, column) for the `depth` rows l for which seen(r, l) is true; r tells
// which of a lane's two rows. Rows that are not seen stay out, be they NaN.
template <class T, int n, int d, class Weight, class Seen>
__device__ void add_seen(float (&sum)[n][4], Weight weight, const OperandMatrix<T, d>& right,
                         int from, int depth, Seen seen, int lane) {
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

// Two numbers side by side, as they are stored.
template <class T>
using PairBits = std::conditional_t<sizeof(T) == 2, unsigned, uint2>;
template <class T>
__device__ PairBits<T> pack(float x, float y) {
  const T both[2] = {T(x), T(y)};
  PairBits<T> bits;
  memcpy(&bits, both, sizeof bits);
  return bits;
}
template <class T>
__device__ void unpack(float (&x)[2], const PairBits<T>& bits) {
  T both[2];
  memcpy(static_cast<void*>(both), &bits, sizeof bits);
  x[0] = float(both[0]);
  x[1] = float(both[1]);
}
template <class T>
__device__ void store_pair(T* to, float x, float y) {
  *reinterpret_cast<PairBits<T>*>(to) = pack<T>(x, y);
}
// Two neighbouring 16 x 8 parts of a result, as a left operand.
template <class T>
__device__ void as_left(Fragment<T>& a, const float (&x)[4], const float (&y)[4]) {
  if constexpr (sizeof(T) == 2) {
    a[0] = pack<T>(x[0], x[1]);
    a[1] = pack<T>(x[2], x[3]);
    a[2] = pack<T>(y[0], y[1]);
    a[3] = pack<T>(y[2], y[3]);
  } else {
    const float numbers[8] = {x[0], x[2], x[1], x[3], y[0], y[2], y[1], y[3]};
    memcpy(&a, numbers, sizeof a);
  }
}

// Sum and maximum over the four lanes that have a row.
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

// Data of one of a lane's rows.
struct FragmentRow {
  int at = -1;          // among all rows; -1: there is none
  KeyRange keys{0, 0};  // keys that it sees, among all keys

  __device__ bool sees(int key) const { return keys.first <= key && key < keys.end; }
  __device__ bool sees_any(int first, int n) const {
    return keys.first < first + n && first < keys.end;
  }
  __device__ bool sees_all(int first, int n) const {
    return keys.first <= first && first + n <= keys.end;
  }
};

// Marks of the slots of a unit and head, loaded at once.
struct SlotMarks {
  unsigned words[mark_words];
  __device__ explicit SlotMarks(const unsigned* marks) {
    const uint4 all = __ldg(reinterpret_cast<const uint4*>(marks));
    words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
  }
};

// Pieces of 16 rows of a unit and head, one for each warp. If positions decide, a unit is made what
// the warps of a block take side by side.
inline int cut_units(Pattern& p) {
  constexpr int warps = block_threads / warp_lanes, rows = warps * fragment_rows;
  if (p.selected) return int(ceil_div(p.unit * p.group, fragment_rows));
  p.unit = std::max<int64_t>(1, rows / p.group);
  return int(ceil_div(p.unit * p.group, rows)) * warps;
}

// Row `within` of those of a unit and head, query by query.
__device__ inline FragmentRow row_of_unit(const Pattern& p, const TokenPiece& unit, int head,
                                          unsigned within) {
  FragmentRow row;
  const unsigned group = unsigned(p.group), of_unit = within / group;
  const int64_t query = unit.number * p.unit + of_unit;
  if (within >= p.unit * group || query < unit.first || query >= unit.end) return row;
  const int64_t s = unit.sequence, from = p.keys.first(s);
  const Range seen = p.visible(query - p.queries.first(s), p.keys.size(s));
  row.at = int(query * p.query_heads() + head * p.group + within - of_unit * group);
  row.keys = {int(from + seen.first), int(from + seen.end)};
  return row;
}

// sum += x right, for a result x that becomes a left operand.
template <class T, int n, int parts, int d>
__device__ void add_product(float (&sum)[n][4], const float (&x)[parts][4],
                            const OperandMatrix<T, d>& right, int lane) {
  static_assert(n * 8 == d);
#pragma unroll
  for (int l = 0; l < parts; l += 2) {
    Fragment<T> a;
    as_left<T>(a, x[l], x[l + 1]);
    in_order<T>();
    const LeftFactor<T> left(a);
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      Fragment<T> b;
      right.right(b, l * 8, j * 8, lane);
      multiply_pair<T>(sum[j], sum[j + 1], left, b);
    }
  }
}

// x += left right^T; load(a, l) gives columns 16 l..16 l + 15 of the left operand.
template <class T, int parts, int d, class Load>
__device__ void add_inner_products(float (&x)[parts][4], Load load,
                                   const OperandMatrix<T, d>& right, int lane) {
#pragma unroll
  for (int l = 0; l < d / 16; ++l) {
    in_order<T>();
    Fragment<T> a;
    load(a, l);
    const LeftFactor<T> left(a);
#pragma unroll
    for (int j = 0; j < parts; j += 2) {
      Fragment<T> b;
      right.right_transposed(b, l * 16, j * 8, lane);
      multiply_pair<T>(x[j], x[j + 1], left, b);
    }
  }
}

// The rows of a lane of an array [rows, size], as left operands.
template <class T, int n>
__device__ void load_rows_as_left(Fragment<T> (&a)[n], const T* __restrict__ x, int size,
                                  const FragmentRow (&rows)[2], int lane) {
  constexpr int in_word = sizeof(unsigned) / sizeof(T);
  const T* from[2];
  int n_columns[2];  // from there on
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int first = lane % 4 * in_word;
    from[r] = x + int64_t(max(rows[r].at, 0)) * size + first;
    n_columns[r] = rows[r].at >= 0 ? size - first : 0;
  }
#pragma unroll
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int r = 0; r < 4 * steps_of_16<T>; ++r) {
      const int column = k * 16 + r / 2 * 4 * in_word;
      a[k][r] = column < n_columns[r % 2]
                    ? __ldg(reinterpret_cast<const unsigned*>(from[r % 2] + column))
                    : 0;
    }
}

// Term that a row's gate adds to its logits; 0 where there are no gates.
template <class T>
__device__ float gate_of(const NsaProblem<T, float>& p, const FragmentRow& row, int slot) {
  if (!p.gate || row.at < 0) return 0;
  const int64_t at = int64_t(row.at / p.pattern.group) * p.pattern.n_slots + slot;
  const float gate = p.gate[at];
  return gate <= 0 ? -INFINITY : logarithm(gate) * logit_unit<T>;
}

// True if registers and shared memory suffice for the features: where rows stay, where keys do, and
// in the gradients.
template <class T>
constexpr bool forward_fits(int d_k, int d_v) {
  return sizeof(T) == 2 || (d_k <= 128 && d_v <= 128);
}
template <class T>
constexpr bool visits_fit(int d_k, int d_v) {
  constexpr int most = sizeof(T) == 2 ? 128 : 64;
  return d_k <= most && d_v <= most;
}
template <class T>
constexpr bool gradient_fits(int d_k, int d_v) {
  return d_k <= (sizeof(T) == 2 ? 192 : 128) && d_v <= 128;
}

// True for numbers that tensor cores multiply here.
template <class T, class S>
constexpr bool has_fragments = sizeof(T) <= 4 && !ScalarTraits<S>::dual;

// True if by its sizes the problem is one for this form: rows of whole 16 bytes, of features for
// which registers suffice, without a bias, and few enough for 32-bit numbers. Rows must be aligned
// too, which is not known when a workspace is counted.
template <class T, class S>
bool fits_fragments(const NsaProblem<T, S>& p) {
  constexpr int64_t most = int64_t(1) << 30;
  if constexpr (!has_fragments<T, S>) return false;
  const Pattern& pattern = p.pattern;
  return forward_fits<T>(p.d_k, p.d_v) && p.d_k % width<T> == 0 && p.d_v % width<T> == 0 &&
         !p.bias && pattern.unit * pattern.group < most &&
         pattern.n_units() * pattern.unit * pattern.query_heads() < most / 8 &&
         pattern.keys.n_tokens + pattern.block < most && pattern.n_slots <= most_slots &&
         pattern.queries.n_tokens * std::max<int64_t>(pattern.n_slots, 1) < most;
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

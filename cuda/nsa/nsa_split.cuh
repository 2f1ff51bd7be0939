// SPDX-License-Identifier: MIT
// Rows of float32 as two of float16, of which tensor cores make twice as many products as of TF32.
//
// x is f (large + small) and a rest: f is a power of two with max |x| / f in [2^14, 2^15), large
// is x / f in float16, and small is what that leaves, again in float16. |small| f is at most
// 2^-11 |x|, the rest at most 2^-23 |x| or, of numbers that small has no more bits for, f 2^-25. So
// three products
//
//     x y = f_x f_y (large_x large_y + large_x small_y + small_x large_y) + rest
//
// leave out small_x small_y, at most 2^-22 |x| |y|, and the rests times the other number: together
// less than 2^-21 |x| |y| + 2^-25 (f_x |y| + f_y |x|), but for a product of two rests, which is
// 2^-50 f_x f_y at most.
#pragma once
#include "device/lanes.cuh"

namespace gnograd {

struct SplitEnd {
  float factor, norm;  // f; the sum of |x|, infinity where not all are finite
};
__device__ inline SplitEnd larger(const SplitEnd& a, const SplitEnd& b) {
  return {max(a.factor, b.factor), max(a.norm, b.norm)};
}
// Bound of what f 2^-25 adds to the error of the sum of products of two rows. If f_x f_y is too
// small for float32, all of the sum, which is less than 2^-112, is left out.
__device__ inline float split_rest(const SplitEnd& a, const SplitEnd& b) {
  return 0x1p-25f * (a.factor * b.norm + b.factor * a.norm) + 0x1p-112f;
}

constexpr int split_lanes = 8;  // lanes that split a row

// Rows of an array.
struct SplitRows {
  __half* x;       // [rows, 2 depth], large parts, then small ones
  SplitEnd* ends;  // [rows]
};

__device__ inline float power_of_2(int biased) {
  const unsigned bits = unsigned(biased) << 23;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Numbers j..j+7 of the d at x, zeros behind.
__device__ inline Vector<float, 8> eight_of_row(const float* __restrict__ x, int j, int d,
                                                bool wide) {
  Vector<float, 8> eight;
  for (int i = 0; i < 8; i += 4)
    if (j + i < d) {
      const auto four = load_vector(x + j + i, d - j - i, wide);
      for (int l = 0; l < 4; ++l) eight[i + l] = four[l];
    }
  return eight;
}

// Splits the d numbers at x, by the split_lanes lanes of a group: to[0..depth) are the large parts,
// to[depth..2 depth) the small ones, both with zeros behind.
__device__ inline SplitEnd split_row(__half* to, const float* __restrict__ x, int d, int depth,
                                     bool wide, const Group& group) {
  float largest = 0, norm = 0;
#pragma unroll 1
  for (int j = group.lane * 8; j < d; j += group.size * 8) {
    const auto eight = eight_of_row(x, j, d, wide);
    for (int i = 0; i < 8; ++i) {
      largest = max(largest, fabsf(eight[i]));
      norm += fabsf(eight[i]);
    }
  }
  for (int l = group.size / 2; l > 0; l /= 2) largest = max(largest, group_swap(largest, l, group));
  norm = group_sum(norm, group);
  if (norm != norm) norm = INFINITY;

  unsigned bits;
  memcpy(&bits, &largest, sizeof bits);
  const int exponent = min(max(int(bits >> 23), 27), 254);  // both factors are normal numbers
  const float divisor = power_of_2(268 - exponent);
#pragma unroll 1
  for (int j = group.lane * 8; j < depth; j += group.size * 8) {
    auto large = eight_of_row(x, j, d, wide);
    large.scale(divisor);
    Vector<float, 8> small;
    for (int i = 0; i < 8; ++i) small[i] = large[i] - float(__half(large[i]));
    store_vector(to + j, large, 8, true);
    store_vector(to + depth + j, small, 8, true);
  }
  return {power_of_2(exponent - 14), norm};
}

// Splits n rows of d numbers; split_lanes threads a row. Reads a row once from memory and once more
// from L1, and writes as much. Bound by DRAM.
__global__ void __launch_bounds__(block_threads)
    nsa_split_rows(int64_t n, int d, int depth, bool wide, const float* __restrict__ x,
                   SplitRows to) {
  const Group group = this_group(split_lanes);
  const int64_t row = group.number;
  if (row >= n) return;
  const SplitEnd end = split_row(to.x + row * 2 * depth, x + row * d, d, depth, wide, group);
  if (group.lane == 0) to.ends[row] = end;
}

}  // namespace gnograd

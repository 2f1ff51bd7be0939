// SPDX-License-Identifier: MIT
// Products of matrices with segments of other matrices: a matrix for every segment of consecutive
// rows, as a sum over them or as a factor of each. The segments are known on the device alone.
#pragma once
#include "planes.cuh"

namespace gnograd {

struct Segments {
  const int32_t* begin;  // [count + 1]
  const int64_t* count;
  int64_t most;  // of them
  int each;      // rows of the matrix, where `begin` counts groups of so many
};

// c[s] = a^T b, summed over the rows of segment s, for a of m columns and b of n. Columns of b come
// in chunks; those of one chunk lie together: c [count, n/chunk, m, chunk].
//
// Block (s, y, z): 64 x 64 of c[s], as gemm_tiles; blocks beyond the last segment end at once.
// Reads a and b of the segment n/64 and m/64 times, writes m n numbers; bound by these writes where
// segments are short, which leave most of a tile's 16 lines empty.
template <class R, bool rounded>
__global__ void __launch_bounds__(block_threads, 3)
    gemm_segment_sums(Segments segments, const R* __restrict__ a, int64_t m,
                      const R* __restrict__ b, int64_t n, int64_t chunk, R* __restrict__ c,
                      bool accumulate) {
  const int64_t s = blockIdx.x;
  if (s >= *segments.count) return;
  c += s * m * n;
  gemm_tile<rounded>(Operand<R>{a, nullptr, 1, m}, int64_t(blockIdx.z) * tile_rows, m,
                     Operand<R>{b, nullptr, n, 1}, int64_t(blockIdx.y) * tile_columns, n,
                     int64_t(segments.begin[s]) * segments.each,
                     int64_t(segments.begin[s + 1]) * segments.each,
                     [&](int64_t y, int64_t x, R sum) {
                       const int part = int(x) / int(chunk), at = int(x) % int(chunk);
                       R& to = c[(part * m + y) * chunk + at];
                       to = sum + (accumulate ? to : R(0));
                     });
}

// The rows of segment s of c [rows, n] = those of a [rows, m] times b[s] [m, n].
//
// Block (s, y): 64 columns, 64 rows at a time, as gemm_tiles. Reads m n numbers of b a segment,
// which bounds it where segments are short.
template <class R, bool rounded>
__global__ void __launch_bounds__(block_threads)
    gemm_segment_products(Segments segments, const R* __restrict__ a, int64_t m,
                          const R* __restrict__ b, int64_t n, R* __restrict__ c) {
  const int64_t s = blockIdx.x;
  if (s >= *segments.count) return;
  const int64_t begin = int64_t(segments.begin[s]) * segments.each;
  const int64_t end = int64_t(segments.begin[s + 1]) * segments.each;
  for (int64_t row = begin; row < end; row += tile_rows)
    gemm_tile<rounded>(Operand<R>{a, nullptr, m, 1}, row, end,
                       Operand<R>{b + s * m * n, nullptr, n, 1}, int64_t(blockIdx.y) * tile_columns,
                       n, 0, m, [&](int64_t y, int64_t x, R sum) { c[y * n + x] = sum; });
}

template <class R, class S>
void launch_segment_sums(const Segments& segments, const Input<R, S>& a, int64_t m,
                         const Planes<S>& b, int64_t n, int64_t chunk, const Planes<S>& c,
                         cudaStream_t stream) {
  const dim3 grid = grid_of(segments.most, ceil_div(n, tile_columns), ceil_div(m, tile_rows));
  const auto add = [&](const R* x, const R* y, R* to, bool accumulate) {
    with_precision<R>([&](auto rounded) {
      launch(gemm_segment_sums<R, rounded()>, grid, dim3(block_threads), tile_bytes<R>, stream,
             segments, x, m, y, n, chunk, to, accumulate);
    });
  };
  add(a.v, b.v, c.v, false);
  if (!ScalarTraits<S>::dual) return;
  add(a.v, b.d, c.d, false);
  if (a.d) add(a.d, b.v, c.d, true);
}

// a has no tangent.
template <class R, class S>
void launch_segment_products(const Segments& segments, const R* a, int64_t m, const Planes<S>& b,
                             int64_t n, const Planes<S>& c, cudaStream_t stream) {
  const dim3 grid = grid_of(segments.most, ceil_div(n, tile_columns));
  const auto product = [&](const R* y, R* to) {
    with_precision<R>([&](auto rounded) {
      launch(gemm_segment_products<R, rounded()>, grid, dim3(block_threads), tile_bytes<R>, stream,
             segments, a, m, y, n, to);
    });
  };
  product(b.v, c.v);
  if (ScalarTraits<S>::dual) product(b.d, c.d);
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Products of matrices with segments of other matrices: a matrix for every segment of consecutive
// rows, as a sum over them or as a factor of each. The segments are known on the device alone.
#pragma once
#include "gemm_tile.cuh"
#include "planes.cuh"

namespace gnograd {

// Segments of a slice of places.
struct Segments {
  const int64_t* begin;  // places where the segments of all slices begin, and their end
  const int64_t* count;  // number of segments
  const int64_t* start;  // the first of them
  int64_t first;         // place of the slice
  int64_t most;          // segments at most
  int each;              // rows of the matrix to a place

  // Start of segment s among the places of the slice, and among the rows
  __device__ int64_t place(int64_t s) const { return begin[*start + s] - first; }
  __device__ int64_t row(int64_t s) const { return place(s) * each; }
};

// Blocks along x, which go through the segments in turn: enough to fill any GPU, however few
// segments there turn out to be.
constexpr int64_t segment_blocks = 4096;

// c[s] = a^T b, summed over the rows of segment s, for a of m columns and b of n. Columns of b come
// in chunks; those of one chunk lie together: c [count, n/chunk, m, chunk].
//
// Block (., y, z): a tile of c[s] (gemm_tiles) for every 4096th s, y along m, z along n; it is the
// columns of b that are its rows, as m is the smaller. Reads a of the segment n/128 times and b
// m/32, writes m n numbers; bound by these writes where segments are short, which leave most of 16
// lines empty.
template <class R, bool rounded, int columns>
__global__ void __launch_bounds__(block_threads)
    gemm_segment_sums(Segments segments, Operand<R> a, bool a_wide, int64_t m, Operand<R> b,
                      bool b_wide, int64_t n, int64_t chunk, R* __restrict__ c, bool accumulate) {
  const int64_t count = *segments.count;
  for (int64_t s = blockIdx.x; s < count; s += gridDim.x) {
    __syncthreads();
    R* const to = c + s * m * n;
    gemm_tile<rounded, columns, GemmLayout<false, false>>(
        b, b_wide, int64_t(blockIdx.z) * tile_rows<columns>, n, a, a_wide,
        int64_t(blockIdx.y) * columns, m, segments.row(s), segments.row(s + 1),
        [&](int64_t y, int64_t x, R sum, R next, int n_sums) {
          const int part = int(y) / int(chunk), at = int(y) - part * int(chunk);
          R* const first = to + (part * int(m) + int(x)) * int(chunk) + at;
          *first = sum + (accumulate ? *first : R(0));
          if (n_sums == 2) first[chunk] = next + (accumulate ? first[chunk] : R(0));
        });
  }
}

// The rows of segment s of c [rows, n] = those of a [rows, m] times b[s] [m, n].
//
// Block (., y): 64 columns, 64 rows at a time (gemm_tiles), for every 4096th s. Reads m n numbers
// of b a segment, which bounds it where segments are short.
template <class R, bool rounded>
__global__ void __launch_bounds__(block_threads, 3)
    gemm_segment_products(Segments segments, Operand<R> a, bool a_wide, int64_t m,
                          const R* __restrict__ b, bool b_wide, int64_t n, R* __restrict__ c) {
  constexpr int columns = 64;
  const int64_t count = *segments.count;
  for (int64_t s = blockIdx.x; s < count; s += gridDim.x) {
    const int64_t end = segments.row(s + 1);
    for (int64_t row = segments.row(s); row < end; row += tile_rows<columns>) {
      __syncthreads();
      gemm_tile<rounded, columns, GemmLayout<true, false>>(
          a, a_wide, row, end, Operand<R>{b + s * m * n, nullptr, n, 1}, b_wide,
          int64_t(blockIdx.y) * columns, n, 0, m,
          [&](int64_t y, int64_t x, R sum, R next, int n_sums) {
            c[y * n + x] = sum;
            if (n_sums == 2) c[y * n + x + 1] = next;
          });
    }
  }
}

template <bool rounded, int columns, class R>
void start_segment_sums(const Segments& segments, const R* a, int64_t m, const R* b, int64_t n,
                        int64_t chunk, R* c, bool accumulate, cudaStream_t stream) {
  launch(gemm_segment_sums<R, rounded, columns>,
         grid_of(std::min(segments.most, segment_blocks), ceil_div(m, columns),
                 ceil_div(n, tile_rows<columns>)),
         dim3(block_threads), TileSteps<R, columns, GemmLayout<false, false>>::bytes, stream,
         segments, Operand<R>{a, nullptr, m, 1}, wide_copies(a, m, m), m,
         Operand<R>{b, nullptr, 1, n}, wide_copies(b, n, n), n, chunk, c, accumulate);
}

template <class R, class S>
void launch_segment_sums(const Segments& segments, const Input<R, S>& a, int64_t m,
                         const Planes<S>& b, int64_t n, int64_t chunk, const Planes<S>& c,
                         cudaStream_t stream) {
  const auto add = [&](const R* x, const R* y, R* to, bool accumulate) {
    with_precision<R>([&](auto rounded) {
      constexpr bool tf32 = decltype(rounded)::value;
      const auto start = m <= 8 ? start_segment_sums<tf32, 8, R> : start_segment_sums<tf32, 32, R>;
      start(segments, x, m, y, n, chunk, to, accumulate, stream);
    });
  };
  add(a.v, b.v, c.v, false);
  if (!ScalarTraits<S>::dual) return;
  add(a.v, b.d, c.d, false);
  if (a.d) add(a.d, b.v, c.d, true);
}

template <bool rounded, class R>
void start_segment_products(const Segments& segments, const R* a, int64_t m, const R* b, int64_t n,
                            R* c, cudaStream_t stream) {
  launch(gemm_segment_products<R, rounded>,
         grid_of(std::min(segments.most, segment_blocks), ceil_div(n, 64)), dim3(block_threads),
         TileSteps<R, 64, GemmLayout<true, false>>::bytes, stream, segments,
         Operand<R>{a, nullptr, m, 1}, wide_copies(a, m, m), m, b, wide_copies(b, n, n), n, c);
}

// a has no tangent.
template <class R, class S>
void launch_segment_products(const Segments& segments, const R* a, int64_t m, const Planes<S>& b,
                             int64_t n, const Planes<S>& c, cudaStream_t stream) {
  with_precision<R>([&](auto rounded) {
    start_segment_products<decltype(rounded)::value>(segments, a, m, b.v, n, c.v, stream);
    if (ScalarTraits<S>::dual)
      start_segment_products<decltype(rounded)::value>(segments, a, m, b.d, n, c.d, stream);
  });
}

}  // namespace gnograd

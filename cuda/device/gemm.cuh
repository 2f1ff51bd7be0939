// SPDX-License-Identifier: MIT
// Matrix products C = A B or C += A B, in tiles of 64 x 64. Few tiles with a long inner dimension
// are divided along it; how, depends on sizes alone, and the parts are added in order.
//
// float64 is multiplied in the ordinary way. float32 goes to tensor cores, each factor as the sum
// of two numbers of 11 bits: without the product of the small parts the error is that of float32.
// They round sums towards zero, so short sums are added up outside (Ootomo and Yokota, Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
// performance, IJHPCA 36, 2022). Where the process asks for TF32, each factor is rounded to 11 bits
// instead: a third of the products, and an error of 2^-10 of the sum of their absolute values.
// Where a factor is infinite, or so large that it is when rounded to 11 bits, the product is NaN.
#pragma once
#include "mma.cuh"
#include "numbers.cuh"
#include "precision.cuh"
#include "workspace.cuh"

namespace gnograd {

// What a product reads, any matrix of which rows or columns are contiguous; with its tangent d
// (null: zero) where numbers are dual.
template <class R>
struct Operand {
  const R* v;
  const R* d;
  int64_t row, column;  // strides

  Operand transposed() const { return {v, d, column, row}; }
};

constexpr int tile_rows = 64, tile_columns = 64, tile_depth = 16;
constexpr int tile_pitch = 64 + 8;  // of a line in shared memory: no two lanes in one bank

template <class R>
constexpr size_t tile_bytes = 2 * shared_bytes<R>(tile_depth * tile_pitch);

// Lines of 64 along the rows or columns of a matrix, `tile_depth` of them from `inner` on: zeros
// outside. Neighbouring threads read neighbouring numbers, whichever way the matrix lies.
template <class R>
__device__ void gemm_load_tile(const R* x, int64_t along, int64_t across, int64_t first, int64_t n,
                               int64_t inner, int64_t end, R* tile) {
  for (int i = int(threadIdx.x); i < 64 * tile_depth; i += block_threads) {
    const int line = across == 1 ? i % tile_depth : i / 64;
    const int at = across == 1 ? i / tile_depth : i % 64;
    const int64_t a = first + at, k = inner + line;
    tile[line * tile_pitch + at] = a < n && k < end ? x[a * along + k * across] : R(0);
  }
}

// What a thread accumulates of a tile: `add` takes in tile_depth lines of both factors, each(f)
// calls f(row, column, sum) for its entries.
template <class R, bool rounded>
class GemmAccumulator {
  static_assert(!rounded);
  static constexpr int rows = 8, columns = 4;
  static_assert(tile_rows / rows * (tile_columns / columns) == block_threads);
  R sum[rows][columns] = {};

  __device__ static int row() { return int(threadIdx.x) / (tile_columns / columns) * rows; }
  __device__ static int column() { return int(threadIdx.x) % (tile_columns / columns) * columns; }

 public:
  __device__ void add(const R* a, const R* b) {
#pragma unroll 4
    for (int l = 0; l < tile_depth; ++l)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
          sum[i][j] += a[l * tile_pitch + row() + i] * b[l * tile_pitch + column() + j];
  }
  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j) f(row() + i, column() + j, sum[i][j]);
  }
};

// A number as the sum of two that tensor cores take.
struct SplitFloat {
  unsigned large, small;
  __device__ explicit SplitFloat(float x) : large(to_tf32(x)) {
    float rest;
    memcpy(&rest, &large, sizeof rest);
    small = to_tf32(x - rest);
  }
};

// A warp does 32 x 32: 2 by 4 of the tensor cores' 16 x 8.
template <bool rounded>
class GemmAccumulator<float, rounded> {
  static constexpr int rows = 2, columns = 4;
  static_assert(block_threads == 4 * warp_lanes);
  float sum[rows][columns][4] = {};

  __device__ static int lane() { return int(threadIdx.x) % warp_lanes; }
  __device__ static int row() { return int(threadIdx.x) / warp_lanes / 2 * 32 + lane() / 4; }
  __device__ static int column() { return int(threadIdx.x) / warp_lanes % 2 * 32; }

 public:
  __device__ void add(const float* a, const float* b) {
    float part[rows][columns][4] = {};
#pragma unroll
    for (int step = 0; step < tile_depth; step += 8) {
      const int l = step + lane() % 4;
      unsigned large[columns][2], small[columns][2];
      for (int j = 0; j < columns; ++j)
        for (int k = 0; k < 2; ++k) {
          const SplitFloat x(b[(l + 4 * k) * tile_pitch + column() + 8 * j + lane() / 4]);
          large[j][k] = x.large, small[j][k] = x.small;
        }
      for (int i = 0; i < rows; ++i) {
        unsigned a_large[4], a_small[4];
        for (int k = 0; k < 4; ++k) {
          const SplitFloat x(a[(l + k / 2 * 4) * tile_pitch + row() + 16 * i + k % 2 * 8]);
          a_large[k] = x.large, a_small[k] = x.small;
        }
        for (int j = 0; j < columns; ++j) {
          if constexpr (!rounded) {
            mma_m16n8k8(part[i][j], a_small, large[j]);
            mma_m16n8k8(part[i][j], a_large, small[j]);
          }
          mma_m16n8k8(part[i][j], a_large, large[j]);
        }
      }
    }
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        for (int k = 0; k < 4; ++k) sum[i][j][k] += part[i][j][k];
  }
  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          f(row() + 16 * i + k / 2 * 8, column() + 8 * j + lane() % 4 * 2 + k % 2, sum[i][j][k]);
  }
};

// store(row, column, sum) for the entries of C in the tile of this block's threads, from the
// columns `begin` to `end` of A alone.
template <bool rounded, class R, class Store>
__device__ void gemm_tile(const Operand<R>& a, int64_t first_row, int64_t m, const Operand<R>& b,
                          int64_t first_column, int64_t n, int64_t begin, int64_t end,
                          Store store) {
  SharedMemory memory;
  R* a_tile = memory.template take<R>(tile_depth * tile_pitch);
  R* b_tile = memory.template take<R>(tile_depth * tile_pitch);
  GemmAccumulator<R, rounded> sums;
  for (int64_t inner = begin; inner < end; inner += tile_depth) {
    gemm_load_tile(a.v, a.row, a.column, first_row, m, inner, end, a_tile);
    gemm_load_tile(b.v, b.column, b.row, first_column, n, inner, end, b_tile);
    __syncthreads();
    sums.add(a_tile, b_tile);
    __syncthreads();
  }
  sums.each([&](int row, int column, R sum) {
    const int64_t y = first_row + row, x = first_column + column;
    if (y < m && x < n) store(y, x, sum);
  });
}

// f(whether factors are rounded to TF32)
template <class R, class F>
void with_precision(F f) {
  if constexpr (std::is_same_v<R, float>)
    if (tf32_products) return f(std::true_type());
  f(std::false_type());
}

// Of [m, k] by [k, n]; m and k may be bounds, then what is in use is told in device memory.
struct GemmShape {
  int64_t m, n, k;
  const int64_t *used_m = nullptr, *used_k = nullptr;
};

// Block (x, y, z): 64 x 64 of C, from part z of the inner dimension, `depth` long; a thread has 8 x
// 4 of its sums (float64) or a warp 32 x 32 (float32, on tensor cores). Shared memory: 16 lines of
// 72 of both factors, 9 KB in float32, 18 KB in float64. Reads m k n/64 + k n m/64 numbers, 2 m n k
// operations, three times that in float32; bound by the tensor cores (float64: FMAs) and by the
// splitting of factors. Rows that are not in use are not written.
template <class R, bool rounded>
__global__ void __launch_bounds__(block_threads)
    gemm_tiles(GemmShape shape, int64_t depth, Operand<R> a, Operand<R> b, R* __restrict__ c,
               bool accumulate) {
  const int64_t m = shape.used_m ? *shape.used_m : shape.m;
  const int64_t k = shape.used_k ? *shape.used_k : shape.k;
  const int64_t first_row = int64_t(blockIdx.x) * tile_rows;
  const int64_t begin = int64_t(blockIdx.z) * depth, end = min(begin + depth, k);
  if (first_row >= m) return;
  c += int64_t(blockIdx.z) * shape.m * shape.n;
  gemm_tile<rounded>(a, first_row, m, b, int64_t(blockIdx.y) * tile_columns, shape.n, begin, end,
                     [&](int64_t y, int64_t x, R sum) {
                       c[y * shape.n + x] = sum + (accumulate ? c[y * shape.n + x] : R(0));
                     });
}

// C from the parts of the inner dimension, in order. Thread: an entry; reads `parts` numbers,
// writes one; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    gemm_add_parts(GemmShape shape, int parts, const R* __restrict__ part, R* __restrict__ c,
                   bool accumulate) {
  const int64_t i = thread_number(), size = shape.m * shape.n;
  if (i >= (shape.used_m ? *shape.used_m * shape.n : size)) return;
  R sum = accumulate ? c[i] : R(0);
  for (int p = 0; p < parts; ++p) sum += part[p * size + i];
  c[i] = sum;
}

// Products up to some shape, and the room for their parts.
template <class R>
class Gemm {
  int parts;
  R* part;

  void add(const GemmShape& s, const R* a, const R* b, const Operand<R>& x, const Operand<R>& y,
           R* c, bool accumulate, cudaStream_t stream) const {
    const dim3 grid = grid_of(ceil_div(s.m, tile_rows), ceil_div(s.n, tile_columns), parts);
    const int64_t depth = ceil_div(ceil_div(s.k, parts), tile_depth) * tile_depth;
    with_precision<R>([&](auto rounded) {
      launch(gemm_tiles<R, rounded()>, grid, dim3(block_threads), tile_bytes<R>, stream, s, depth,
             Operand<R>{a, nullptr, x.row, x.column}, Operand<R>{b, nullptr, y.row, y.column},
             parts > 1 ? part : c, parts == 1 && accumulate);
    });
    if (parts > 1)
      launch_threads(s.m * s.n, stream, gemm_add_parts<R>, s, parts, part, c, accumulate);
  }

 public:
  // Enough blocks to fill any GPU, none of them too short to pay for its start.
  Gemm(const GemmShape& most, Workspace& workspace) {
    const int64_t tiles = ceil_div(most.m, tile_rows) * ceil_div(most.n, tile_columns);
    parts = int(std::clamp<int64_t>(512 / std::max<int64_t>(tiles, 1), 1,
                                    std::max<int64_t>(most.k / 256, 1)));
    part = workspace.take<R>(parts > 1 ? parts * most.m * most.n : 0);
  }

  // C, row by row, or with `dual` its tangent.
  void operator()(bool dual, const GemmShape& shape, const Operand<R>& a, const Operand<R>& b, R* c,
                  bool accumulate, cudaStream_t stream) const {
    if (shape.m == 0 || shape.n == 0) return;
    const auto term = [&](const R* x, const R* y) {
      add(shape, x, y, a, b, c, accumulate, stream);
      accumulate = true;
    };
    if (!dual) {
      term(a.v, b.v);
    } else {
      if (a.d) term(a.d, b.v);
      if (b.d) term(a.v, b.d);
      if (!accumulate) set_zero(c, shape.m * shape.n, stream);
    }
  }
};

}  // namespace gnograd

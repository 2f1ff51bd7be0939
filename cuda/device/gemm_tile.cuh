// SPDX-License-Identifier: MIT
// A tile of a matrix product, by a block of threads. Factors come to shared memory in steps of 16
// along the inner dimension, by copies that go on while earlier steps are multiplied.
//
// float64 is multiplied in the ordinary way. float32 goes to tensor cores, each factor as the sum
// of two numbers of 11 bits: without the product of the small parts, at most 2^-22 of that of the
// factors, the error is that of float32. They round sums towards zero, so short sums are added up
// outside (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
// surpassing the FP32 theoretical peak performance, IJHPCA 36, 2022). Where the process asks for
// TF32, each factor is rounded to 11 bits instead: a third of the products, and an error of 2^-10
// of the sum of their absolute values. Sums that come out infinite or NaN, as they do where a
// factor is infinite or becomes so when it is rounded, are made again in float32.
#pragma once
#include "copies.cuh"
#include "gemm.cuh"
#include "mma.cuh"
#include "numbers.cuh"

namespace gnograd {

constexpr int tile_depth = 16;
// Steps in shared memory, one of which is multiplied
template <class R>
constexpr int tile_stages = sizeof(R) == 4 ? 3 : 2;

// A step of one factor: `size` rows of A, or columns of B, of 16 numbers each. In shared memory
// those numbers of a row lie together (`inner`), or those of all rows with the same place in them;
// as in global memory, so that neighbouring threads copy neighbouring numbers. With the pitches no
// two lanes that load an operand of a tensor core are in one bank.
template <class R, int size, bool inner>
class TileStep {
  static constexpr int pitch = inner            ? tile_depth + (sizeof(R) == 4 ? 4 : 1)
                               : size % 32 == 8 ? size
                                                : size + 8;
  static constexpr int widest = sizeof(R) == 8 && inner ? 1 : 16 / sizeof(R);

  const R* from;          // what this thread copies first, of the next step
  int64_t line, advance;  // between lines in global memory; from one step to the next
  int rows;               // that there are
  bool wide;              // 16 bytes at a time

  template <int width, bool whole>
  __device__ void copy(int depth, R* tile) const {
    constexpr int in_line = (inner ? tile_depth : size) / width, lines = inner ? size : tile_depth;
    constexpr int together = block_threads / in_line;
    const int first = int(threadIdx.x) / in_line, at = int(threadIdx.x) % in_line * width;
    const R* x = from;
#pragma unroll
    for (int l = 0; l < lines; l += together) {
      if (together > lines && first >= lines) break;
      const int row = inner ? first + l : at, k = inner ? at : first + l;
      copy_async<width * sizeof(R)>(tile + place(row, k), x, whole || (row < rows && k < depth));
      x += together * line;
    }
  }

 public:
  static constexpr int numbers = inner ? size * pitch : tile_depth * pitch;
  __device__ static int place(int row, int k) { return inner ? row * pitch + k : k * pitch + row; }

  // x(row, k) at x[row * along + k * across]
  __device__ TileStep(const R* x, int64_t along, int64_t across, int64_t n_rows, bool wide)
      : line(inner ? along : across),
        advance(tile_depth * across),
        rows(int(min(n_rows, int64_t(size)))),
        wide(wide) {
    const int width = wide ? widest : 1, in_line = (inner ? tile_depth : size) / width;
    const int first = int(threadIdx.x) / in_line, at = int(threadIdx.x) % in_line * width;
    from = x + first * line + at * (inner ? across : along);
  }

  // Start to copy the next step, of which there are `depth` numbers in each row; zeros outside.
  __device__ void load(int64_t depth, R* tile) {
    if (rows == size && depth >= tile_depth) {
      if (wide) copy<widest, true>(tile_depth, tile);
      else copy<1, true>(tile_depth, tile);
    } else {
      const int there = int(min(depth, int64_t(tile_depth)));
      if (wide) copy<widest, false>(there, tile);
      else copy<1, false>(there, tile);
    }
    from += advance;
  }
};

// What a thread accumulates of a tile: `add` takes in a step of both factors, each(f) calls
// f(row, column, sum, next) for its entries; `next` is the one behind it in the row if `run` is 2.
template <class R, bool rounded, int columns>
class GemmAccumulator {
  static_assert(!rounded);
  static constexpr int cell_columns = columns >= 32 ? 4 : 2, across = columns / cell_columns;
  static constexpr int down = block_threads / across, cell_rows = tile_rows<columns> / down;
  R sum[cell_rows][cell_columns] = {};

  __device__ static int row() { return int(threadIdx.x) / across; }
  __device__ static int column() { return int(threadIdx.x) % across; }

 public:
  static constexpr int run = 1;

  template <class A, class B>
  __device__ void add(const R* a, const R* b) {
#pragma unroll 4
    for (int l = 0; l < tile_depth; ++l) {
      R x[cell_rows], y[cell_columns];
      for (int i = 0; i < cell_rows; ++i) x[i] = a[A::place(row() + i * down, l)];
      for (int j = 0; j < cell_columns; ++j) y[j] = b[B::place(column() + j * across, l)];
      for (int i = 0; i < cell_rows; ++i)
        for (int j = 0; j < cell_columns; ++j) sum[i][j] += x[i] * y[j];
    }
  }
  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < cell_rows; ++i)
#pragma unroll
      for (int j = 0; j < cell_columns; ++j)
        f(row() + i * down, column() + j * across, sum[i][j], R(0));
  }
};

// A number as the sum of two that tensor cores take; or the first alone.
template <bool rounded>
struct SplitFloat {
  unsigned large, small = 0;
  __device__ explicit SplitFloat(float x) {
    if constexpr (rounded) {
      large = to_tf32(x);
    } else {
      // as to_tf32 but for some NaN, whose rest is NaN too
      memcpy(&large, &x, sizeof x);
      large = (large + 0x1000) & ~0x1fffu;
      float rest;
      memcpy(&rest, &large, sizeof rest);
      rest = x - rest;
      memcpy(&small, &rest, sizeof rest);
      small &= ~0x1fffu;
    }
  }
};

// A warp does 32 x 32, or 32 x 8: 2 by up to 4 of the tensor cores' 16 x 8.
template <bool rounded, int columns>
class GemmAccumulator<float, rounded, columns> {
  static constexpr int rows = 2, across = columns < 32 ? columns / 8 : 4;
  static constexpr int warps_across = columns / (8 * across);
  static_assert(block_threads == 4 * warp_lanes && tile_rows<columns> == 4 / warps_across * 32);
  float sum[rows][across][4] = {};

  __device__ static int lane() { return int(threadIdx.x) % warp_lanes; }
  __device__ static int row() {
    return int(threadIdx.x) / warp_lanes / warps_across * 32 + lane() / 4;
  }
  __device__ static int column() {
    return int(threadIdx.x) / warp_lanes % warps_across * 8 * across;
  }

 public:
  static constexpr int run = 2;

  template <class A, class B>
  __device__ void add(const float* a, const float* b) {
    using Split = SplitFloat<rounded>;
    float part[rows][across][4] = {};
#pragma unroll
    for (int step = 0; step < tile_depth; step += 8) {
      const int l = step + lane() % 4;
      unsigned large[across][2], small[across][2];
      for (int j = 0; j < across; ++j)
        for (int k = 0; k < 2; ++k) {
          const Split x(b[B::place(column() + 8 * j + lane() / 4, l + 4 * k)]);
          large[j][k] = x.large, small[j][k] = x.small;
        }
      for (int i = 0; i < rows; ++i) {
        unsigned a_large[4], a_small[4];
        for (int k = 0; k < 4; ++k) {
          const Split x(a[A::place(row() + 16 * i + k % 2 * 8, l + k / 2 * 4)]);
          a_large[k] = x.large, a_small[k] = x.small;
        }
        for (int j = 0; j < across; ++j) {
          if constexpr (!rounded) {
            mma_m16n8k8(part[i][j], a_small, large[j]);
            mma_m16n8k8(part[i][j], a_large, small[j]);
          }
          mma_m16n8k8(part[i][j], a_large, large[j]);
        }
      }
    }
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < across; ++j)
        for (int k = 0; k < 4; ++k) sum[i][j][k] += part[i][j][k];
  }
  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int k = 0; k < 4; k += 2)
          f(row() + 16 * i + k / 2 * 8, column() + 8 * j + lane() % 4 * 2, sum[i][j][k],
            sum[i][j][k + 1]);
  }
  // Whether all sums of the warp are finite.
  __device__ bool finite() const {
    float zero = 0;
    each([&](int, int, float x, float next) { zero += 0 * x + 0 * next; });
    return !__any_sync(~0u, zero != 0);
  }
};

// How A and B lie: whether numbers that follow each other along the inner dimension do so in
// memory.
template <bool of_a, bool of_b>
struct GemmLayout {
  static constexpr bool a = of_a, b = of_b;
};

template <class R, int columns, class Layout>
struct TileSteps {
  using A = TileStep<R, tile_rows<columns>, Layout::a>;
  using B = TileStep<R, columns, Layout::b>;
  static constexpr int numbers = tile_stages<R> * (A::numbers + B::numbers);
  static constexpr size_t bytes = numbers * sizeof(R);
  static_assert(bytes >= tile_rows<columns> * columns * sizeof(float) && bytes <= plain_shared);
};

// store(row, column, sum, next, count) for the entries of C in the tile of this block's threads,
// one or two side by side, from the columns `begin` to `end` of A alone. a_wide, b_wide: whether
// factors can be copied 16 bytes at a time (wide_copies). Between two tiles of a block is a
// barrier.
template <bool rounded, int columns, class Layout, class R, class Store>
__device__ void gemm_tile(const Operand<R>& a, bool a_wide, int64_t first_row, int64_t m,
                          const Operand<R>& b, bool b_wide, int64_t first_column, int64_t n,
                          int64_t begin, int64_t end, Store store) {
  using Steps = TileSteps<R, columns, Layout>;
  using A = typename Steps::A;
  using B = typename Steps::B;
  constexpr int stages = tile_stages<R>, stage = A::numbers + B::numbers;
  using Accumulator = GemmAccumulator<R, rounded, columns>;

  SharedMemory memory;
  R* const tiles = memory.template take<R>(Steps::numbers);
  const R* const a_first = a.v + first_row * a.row;
  const R* const b_first = b.v + first_column * b.column;
  A a_step(a_first + begin * a.column, a.row, a.column, m - first_row, a_wide);
  B b_step(b_first + begin * b.row, b.column, b.row, n - first_column, b_wide);
  int64_t ahead = end - begin;  // not yet copied
  int to = 0;
  const auto load = [&] {
    if (ahead > 0) {
      a_step.load(ahead, tiles + to);
      b_step.load(ahead, tiles + to + A::numbers);
    }
    commit_copies();
    ahead -= tile_depth;
    to = to == (stages - 1) * stage ? 0 : to + stage;
  };
  Accumulator sums;
  for (int s = 1; s < stages; ++s) load();
  int at = 0;
  for (int64_t left = end - begin; left > 0; left -= tile_depth) {
    await_copies<stages - 2>();
    __syncthreads();
    load();
    sums.template add<A, B>(tiles + at, tiles + at + A::numbers);
    at = at == (stages - 1) * stage ? 0 : at + stage;
  }
  await_copies();
  __syncthreads();

  const auto put = [&](int row, int column, R sum, R next, int count) {
    const int64_t y = first_row + row, x = first_column + column;
    if (y < m && x < n) store(y, x, sum, next, x + 1 < n ? count : 1);
  };
  if constexpr (Accumulator::run == 2) {
    if (!sums.finite()) {
      // the warp's own entries, by way of shared memory
      sums.each([&](int row, int column, R sum, R next) {
        tiles[row * columns + column] = sum, tiles[row * columns + column + 1] = next;
      });
      __syncwarp();
      constexpr int width = columns < 32 ? columns : 32, warps_across = columns / width;
      const int warp = int(threadIdx.x) / warp_lanes;
#pragma unroll 1
      for (int i = int(threadIdx.x) % warp_lanes; i < 32 * width; i += warp_lanes) {
        const int row = warp / warps_across * 32 + i / width;
        const int column = warp % warps_across * width + i % width;
        R sum = tiles[row * columns + column];
        if (0 * sum != 0 && first_row + row < m && first_column + column < n) {
          sum = 0;
#pragma unroll 1
          for (int64_t k = begin; k < end; ++k)
            sum += a_first[row * a.row + k * a.column] * b_first[column * b.column + k * b.row];
        }
        put(row, column, sum, R(0), 1);
      }
      return;
    }
  }
  sums.each(
      [&](int row, int column, R sum, R next) { put(row, column, sum, next, Accumulator::run); });
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// A tile of a matrix product, by a block of threads. Factors come to shared memory in steps of 16
// (bfloat16: 32) along the inner dimension, by copies that go on while earlier steps are
// multiplied.
//
// float64 is multiplied in the ordinary way. float32 goes to tensor cores, each factor as the sum
// of two numbers of 11 bits: without the product of the small parts, at most 2^-22 of that of the
// factors, the error is that of float32. They round sums towards zero, so short sums are added up
// outside (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
// surpassing the FP32 theoretical peak performance, IJHPCA 36, 2022). If the process asks for TF32,
// each factor is rounded to 11 bits instead: a third of the products, and an error of 2^-10 of the
// sum of their absolute values. Sums that come out infinite or NaN, as they do where a factor is
// infinite or becomes so when it is rounded, are made again in float32.
//
// bfloat16 is what tensor cores take; sums are float32, rounded towards zero every 16 products.
#pragma once
#include "copies.cuh"
#include "gemm.cuh"
#include "mma.cuh"
#include "numbers.cuh"

namespace gnograd {

template <class T>
constexpr int tile_depth = sizeof(T) == 2 ? 32 : 16;
// Steps in shared memory, one of which is multiplied
template <class T>
constexpr int tile_stages = sizeof(T) == 8 ? 2 : 3;

// A step of one factor: `size` rows of A, or columns of B, of `depth` numbers each. In shared
// memory those numbers of a row lie together (`inner`), or those of all rows with the same place in
// them; as in global memory, so that neighbouring threads copy neighbouring numbers. With the
// pitches no two lanes that load an operand of a tensor core are in one bank.
template <class T, int size, bool inner>
class TileStep {
  static constexpr int depth = tile_depth<T>;
  static constexpr int pitch = inner            ? depth + (sizeof(T) == 8 ? 1 : 16 / sizeof(T))
                               : size % 32 == 8 ? size
                                                : size + 8;
  static constexpr int widest = sizeof(T) == 8 && inner ? 1 : 16 / sizeof(T);

  const T* from;          // first numbers of the next step that this thread copies
  int64_t line, advance;  // between lines in global memory; from one step to the next
  int rows;               // rows that there are
  bool wide;              // 16 bytes at a time

  template <int width, bool whole>
  __device__ void copy(int there, T* tile) const {
    constexpr int in_line = (inner ? depth : size) / width, lines = inner ? size : depth;
    constexpr int together = block_threads / in_line;
    const int first = int(threadIdx.x) / in_line, at = int(threadIdx.x) % in_line * width;
    const T* x = from;
#pragma unroll
    for (int l = 0; l < lines; l += together) {
      if (together > lines && first >= lines) break;
      const int row = inner ? first + l : at, k = inner ? at : first + l;
      const bool any = whole || (row < rows && k < there);
      // no copy of less than 4 bytes goes on by itself
      if constexpr (width * sizeof(T) < 4) tile[place(row, k)] = any ? *x : T(0);
      else copy_async<width * sizeof(T)>(tile + place(row, k), x, any);
      x += together * line;
    }
  }

 public:
  static constexpr bool along_depth = inner;
  static constexpr int numbers = inner ? size * pitch : depth * pitch;
  __device__ static int place(int row, int k) { return inner ? row * pitch + k : k * pitch + row; }

  // x(row, k) at x[row * along + k * across]
  __device__ TileStep(const T* x, int64_t along, int64_t across, int64_t n_rows, bool wide)
      : line(inner ? along : across),
        advance(depth * across),
        rows(int(min(n_rows, int64_t(size)))),
        wide(wide) {
    const int width = wide ? widest : 1, in_line = (inner ? depth : size) / width;
    const int first = int(threadIdx.x) / in_line, at = int(threadIdx.x) % in_line * width;
    from = x + first * line + at * (inner ? across : along);
  }

  // Start to copy the next step, of which there are `left` numbers in each row; zeros outside.
  __device__ void load(int64_t left, T* tile) {
    if (rows == size && left >= depth) {
      if (wide) copy<widest, true>(depth, tile);
      else copy<1, true>(depth, tile);
    } else {
      const int there = int(min(left, int64_t(depth)));
      if (wide) copy<widest, false>(there, tile);
      else copy<1, false>(there, tile);
    }
    from += advance;
  }
};

// Sums of a tile that a thread accumulates: `add` takes in a step of both factors, or half of one
// where the rest is zeros (tensor cores), each(f) calls f(row, column, sum, next) for its entries;
// `next` is the one behind it in the row if `run` is 2. If factors are `split`, infinite ones have
// made sums that have to be made again.
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
  static constexpr bool split = false;

  template <class A, class B>
  __device__ void add(const R* a, const R* b, bool) {
#pragma unroll 4
    for (int l = 0; l < tile_depth<R>; ++l) {
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

// Sums of a warp of tensor cores: 32 x 32, or 32 x 8, which are 2 by up to 4 of their 16 x 8.
template <int columns>
class FragmentSums {
 protected:
  static constexpr int rows = 2, across = columns < 32 ? columns / 8 : 4;
  static constexpr int warps_across = columns / (8 * across);
  static_assert(block_threads == 4 * warp_lanes && tile_rows<columns> == 4 / warps_across * 32);
  float sum[rows][across][4] = {};

  __device__ static int lane() { return int(threadIdx.x) % warp_lanes; }
  // The first of the warp.
  __device__ static int row() { return int(threadIdx.x) / warp_lanes / warps_across * 32; }
  __device__ static int column() {
    return int(threadIdx.x) / warp_lanes % warps_across * 8 * across;
  }

 public:
  static constexpr int run = 2;

  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int k = 0; k < 4; k += 2)
          f(row() + 16 * i + k / 2 * 8 + lane() / 4, column() + 8 * j + lane() % 4 * 2,
            sum[i][j][k], sum[i][j][k + 1]);
  }
};

template <bool rounded, int columns>
class GemmAccumulator<float, rounded, columns> : public FragmentSums<columns> {
  using Sums = FragmentSums<columns>;
  using Sums::across, Sums::column, Sums::lane, Sums::row, Sums::rows, Sums::sum;

 public:
  static constexpr bool split = true;

  template <class A, class B>
  __device__ void add(const float* a, const float* b, bool half) {
    using Split = SplitFloat<rounded>;
    static_assert(tile_depth<float> == 16);
    float part[rows][across][4] = {};
#pragma unroll
    for (int step = 0; step < 16; step += 8) {
      if (step > 0 && half) break;
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
          const Split x(a[A::place(row() + 16 * i + k % 2 * 8 + lane() / 4, l + k / 2 * 4)]);
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
  // True if all sums of the warp are finite.
  __device__ bool finite() const {
    float zero = 0;
    this->each([&](int, int, float x, float next) { zero += 0 * x + 0 * next; });
    return !__any_sync(~0u, zero != 0);
  }
};

// Operands come from shared memory as fragments: those of B for all of a step, two of 16 rows of A
// for 16 of its numbers.
template <int columns>
class GemmAccumulator<__nv_bfloat16, false, columns> : public FragmentSums<columns> {
  using Sums = FragmentSums<columns>;
  using Sums::across, Sums::column, Sums::lane, Sums::row, Sums::rows, Sums::sum;
  static_assert(tile_depth<__nv_bfloat16> == 32);

 public:
  static constexpr bool split = false;

  template <class A, class B>
  __device__ void add(const __nv_bfloat16* a, const __nv_bfloat16* b, bool half) {
    const int octet = lane() / 8, in_octet = lane() % 8;
    unsigned y[across][4];
    for (int j = 0; j < across; ++j) {
      const int first = column() + 8 * j;
      if constexpr (B::along_depth) load_matrices(y[j], b + B::place(first + in_octet, 8 * octet));
      else load_matrices_transposed(y[j], b + B::place(first, lane()));
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (step > 0 && half) break;
      for (int i = 0; i < rows; ++i) {
        const int first = row() + 16 * i, k = 16 * step + octet / 2 * 8;
        unsigned x[4];
        if constexpr (A::along_depth) load_matrices(x, a + A::place(first + lane() % 16, k));
        else load_matrices_transposed(x, a + A::place(first + octet % 2 * 8, k + in_octet));
        for (int j = 0; j < across; ++j)
          mma_m16n8k16(__nv_bfloat16(), sum[i][j], x, {y[j][2 * step], y[j][2 * step + 1]});
      }
    }
  }
};

// Layouts of A and B: true if numbers that follow each other along the inner dimension do so in
// memory.
template <bool of_a, bool of_b>
struct GemmLayout {
  static constexpr bool a = of_a, b = of_b;
};

template <class T, int columns, class Layout>
struct TileSteps {
  using A = TileStep<T, tile_rows<columns>, Layout::a>;
  using B = TileStep<T, columns, Layout::b>;
  static constexpr int numbers = tile_stages<T> * (A::numbers + B::numbers);
  static constexpr size_t bytes = numbers * sizeof(T);
  static_assert(bytes >= tile_rows<columns> * columns * sizeof(real<T>) && bytes <= plain_shared);
};

// Between rows of sums in shared memory, where a lane has two of eight rows.
template <class R, int columns>
constexpr int tile_pitch = sizeof(R) == 4 ? columns + 8 : columns;

// store(row, column, sum, next, count) for the entries of C in the tile of this block's threads,
// one or two side by side, from the columns `begin` to `end` of A alone. a_wide, b_wide: whether
// factors can be copied 16 bytes at a time (wide_copies). Between two tiles of a block is a
// barrier.
template <bool rounded, int columns, class Layout, class T, class Store>
__device__ void gemm_tile(const Operand<T>& a, bool a_wide, int64_t first_row, int64_t m,
                          const Operand<T>& b, bool b_wide, int64_t first_column, int64_t n,
                          int64_t begin, int64_t end, Store store) {
  using R = real<T>;
  using Steps = TileSteps<T, columns, Layout>;
  using A = typename Steps::A;
  using B = typename Steps::B;
  constexpr int stages = tile_stages<T>, stage = A::numbers + B::numbers;
  using Accumulator = GemmAccumulator<T, rounded, columns>;

  SharedMemory memory;
  T* const tiles = memory.template take<T>(Steps::numbers);
  const T* const a_first = a.v + first_row * a.row;
  const T* const b_first = b.v + first_column * b.column;
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
    ahead -= tile_depth<T>;
    to = to == (stages - 1) * stage ? 0 : to + stage;
  };
  Accumulator sums;
  for (int s = 1; s < stages; ++s) load();
  int at = 0;
  for (int64_t left = end - begin; left > 0; left -= tile_depth<T>) {
    await_copies<stages - 2>();
    __syncthreads();
    load();
    sums.template add<A, B>(tiles + at, tiles + at + A::numbers, 2 * left <= tile_depth<T>);
    at = at == (stages - 1) * stage ? 0 : at + stage;
  }
  await_copies();
  __syncthreads();

  const auto put = [&](int row, int column, R sum, R next, int count) {
    const int64_t y = first_row + row, x = first_column + column;
    if (y < m && x < n) store(y, x, sum, next, x + 1 < n ? count : 1);
  };
  if constexpr (Accumulator::split) {
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

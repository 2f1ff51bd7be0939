// SPDX-License-Identifier: MIT
// Small matrices in shared memory: gathered, multiplied and reduced by the threads of a block.
#pragma once
#include "lanes.cuh"

namespace gnograd {

// A matrix in shared memory. Its rows lie an odd number of elements apart, so that neither a row
// nor a column keeps lanes waiting for the same bank.
template <class S>
struct SharedMatrix {
  S* x;
  int pitch;

  static __host__ __device__ constexpr int padded(int columns) { return columns | 1; }
  static size_t bytes(int rows, int columns) {
    return shared_bytes<S>(size_t(rows) * padded(columns));
  }
  __device__ SharedMatrix(SharedMemory& shared, int rows, int columns)
      : x(shared.take<S>(rows * padded(columns))), pitch(padded(columns)) {}

  __device__ S& operator()(int row, int column) const { return x[row * pitch + column]; }
};

// write(i, j, sum over l < depth of a(i, l) b(l, j)) for i < m, j < n. Every thread of the block
// takes 4 x 4 of these at a time; neighbours have neighbouring j.
template <class S, class A, class B, class Write>
__device__ void product_by_fma(int m, int n, int depth, A a, B b, Write write) {
  constexpr int cells = 4;
  int down = 8;
  while (down > 1 && (down / 2) * cells >= m) down /= 2;
  const int across = block_threads / down;
  const int ti = int(threadIdx.x) / across, tj = int(threadIdx.x) % across;
#pragma unroll 1
  for (int i0 = ti; i0 < m; i0 += down * cells)
#pragma unroll 1
    for (int j0 = tj; j0 < n; j0 += across * cells) {
      S sum[cells][cells] = {};
#pragma unroll 1
      for (int l = 0; l < depth; ++l) {
        std::decay_t<decltype(a(0, 0))> x[cells];
        std::decay_t<decltype(b(0, 0))> y[cells];
        for (int c = 0; c < cells; ++c) x[c] = a(min(i0 + c * down, m - 1), l);
        for (int c = 0; c < cells; ++c) y[c] = b(l, min(j0 + c * across, n - 1));
        for (int c = 0; c < cells; ++c)
          for (int d = 0; d < cells; ++d) sum[c][d] += x[c] * y[d];
      }
      for (int c = 0; c < cells; ++c)
        for (int d = 0; d < cells; ++d) {
          const int i = i0 + c * down, j = j0 + d * across;
          if (i < m && j < n) write(i, j, sum[c][d]);
        }
    }
}

// tile(i, :) = row at(i) of x, for i < n; zeros where at(i) is negative. True if all that this
// thread has loaded is finite.
template <class T, class S, class At>
__device__ bool load_rows(const SharedMatrix<S>& tile, int n, int size, bool wide,
                          const Input<T, S>& x, At at) {
  const int steps = (size + width<T> - 1) / width<T>;
  real_part<S> zero = 0;
  for (int i = int(threadIdx.x); i < n * steps; i += block_threads) {
    const int row = i / steps, column = i % steps * width<T>, count = size - column;
    const int64_t from = at(row);
    Vector<S, width<T>> v;
    if (from >= 0) v = load_vector(x, from * size + column, count, wide);
    for (int c = 0; c < width<T>; ++c)
      if (c < count) tile(row, column + c) = v[c];
    for (int c = 0; c < width<T>; ++c) {
      zero += 0 * value(v[c]);
      if constexpr (ScalarTraits<S>::dual) zero += 0 * result(v[c]);
    }
  }
  return zero == 0;
}

template <class S>
__device__ void fill(const SharedMatrix<S>& tile, int rows, int columns, S value) {
  for (int i = int(threadIdx.x); i < rows * columns; i += block_threads)
    tile(i / columns, i % columns) = value;
}

// f(row, lane) for every row, by one warp each.
template <class F>
__device__ void warp_per_row(int rows, F f) {
  for (int row = int(threadIdx.x) / warp_lanes; row < rows; row += block_threads / warp_lanes)
    f(row, int(threadIdx.x) % warp_lanes);
}

template <class S>
__device__ S warp_sum(S x) {
  return group_sum(x, Group{warp_lanes, int(threadIdx.x) % warp_lanes, 0, ~0u});
}
template <class A>
__device__ A warp_max(A x) {
  for (int d = warp_lanes / 2; d > 0; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

// Shared memory of a block: several to a multiprocessor, unless tiles became too small for their
// products; then most_shared.
constexpr size_t wanted_shared = 56 * 1024;
constexpr int most_side = 64, least_side = 16;

// Halve the larger side of the tiles until what they need, bytes(), fits.
template <class Bytes>
void shrink_tiles(int& rows, int& columns, Bytes bytes) {
  const auto too_large = [&](size_t n) {
    return n > most_shared || (n > wanted_shared && std::max(rows, columns) > least_side);
  };
  while (too_large(bytes())) {
    int& side = columns >= rows ? columns : rows;
    side = (side + 1) / 2;
  }
}

// An operation of blocks of threads on tiles, which says itself what a block does, how much shared
// memory it needs, and how many blocks a multiprocessor should have room for in its registers.
template <class Operation>
__global__ void __launch_bounds__(block_threads, Operation::blocks_at_once)
    run_on_tiles(Operation operation) {
  operation();
}
template <class Operation>
void launch_operation(const Operation& operation, int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return;
  launch(run_on_tiles<Operation>, grid_of(blocks), dim3(block_threads), operation.shared_memory(),
         stream, operation);
}

}  // namespace gnograd

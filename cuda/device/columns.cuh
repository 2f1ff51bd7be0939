// SPDX-License-Identifier: MIT
// Matrices of which several blocks of columns are parts.
#pragma once
#include "platform.cuh"

namespace gnograd {

// A matrix whose rows the blocks of columns share.
template <class X>
struct RowTable {
  X* x;  // [n_rows, stride], or null
  int64_t stride;

  explicit __host__ __device__ operator bool() const { return x; }
  __device__ X* at(int64_t row, int64_t column) const { return x + row * stride + column; }
};

// to[:, c] = from[:, c], for the destinations' own features; zeros where `from` is null. Thread: a
// number, read and written once; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    copy_columns(const T* __restrict__ from, int64_t from_stride, T* __restrict__ to,
                 int64_t to_stride, int64_t n_rows, int64_t n_columns) {
  const auto [row, column] = divided(thread_number(), int(n_columns));
  if (row < n_rows) to[row * to_stride + column] = from ? from[row * from_stride + column] : T(0);
}

}  // namespace gnograd

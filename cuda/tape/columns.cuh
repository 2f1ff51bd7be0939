// SPDX-License-Identifier: MIT
// Columns of a matrix chosen and added by their numbers, and softmax along an axis.
#pragma once
#include "device/numbers.cuh"

namespace gnograd {

// Thread: an element of y; reads a number of a column and one element, bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_gather(int64_t width, int64_t n, const int64_t* __restrict__ index,
                const R* __restrict__ x, R* __restrict__ y) {
  const int64_t i = thread_number();
  if (i >= width * n) return;
  const int64_t column = i / width;
  y[i] = x[index[column] * width + (i - column * width)];
}

// Thread: an element of y; reads an element of every column that is added to its own, in order.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_scatter(int64_t width, int64_t n_columns, const int64_t* __restrict__ offsets,
                 const int64_t* __restrict__ places, const R* __restrict__ x, R* __restrict__ y) {
  const int64_t i = thread_number();
  if (i >= width * n_columns) return;
  const int64_t column = i / width, at = i - column * width;
  R sum = 0;
  for (int64_t p = offsets[column]; p < offsets[column + 1]; ++p) sum += x[places[p] * width + at];
  y[i] = sum;
}

// The largest of numbers; a NaN is none, and reaches the result through the sum.
template <class R>
__device__ R larger(R x, R y) {
  return y > x ? y : x;
}

// Warp: a row whose elements lie side by side; reads it three times and writes it once.
template <class R>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    tape_softmax_by_warp(int64_t length, int64_t outer, R least, const R* __restrict__ x,
                         R* __restrict__ y) {
  const int64_t row = thread_number() / warp_lanes;
  const int lane = int(threadIdx.x) % warp_lanes;
  if (row >= outer) return;
  x += row * length, y += row * length;
  R largest = least;
  double total = 0;
  for (int64_t k = lane; k < length; k += warp_lanes) largest = larger(largest, x[k]);
  for (int step = warp_lanes / 2; step > 0; step /= 2)
    largest = larger(largest, __shfl_xor_sync(~0u, largest, step));
  for (int64_t k = lane; k < length; k += warp_lanes) total += exponential(x[k] - largest);
  for (int step = warp_lanes / 2; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
  for (int64_t k = lane; k < length; k += warp_lanes) y[k] = exponential(x[k] - largest) / R(total);
}

// Thread: a row, beside those of its neighbours; reads it three times and writes it once.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_softmax_by_thread(int64_t inner, int64_t length, int64_t outer, R least,
                           const R* __restrict__ x, R* __restrict__ y) {
  const int64_t row = thread_number();
  if (row >= inner * outer) return;
  const int64_t first = row / inner * inner * length + row % inner;
  x += first, y += first;
  R largest = least;
  double total = 0;
  for (int64_t k = 0; k < length; ++k) largest = larger(largest, x[k * inner]);
  for (int64_t k = 0; k < length; ++k) total += exponential(x[k * inner] - largest);
  for (int64_t k = 0; k < length; ++k) y[k * inner] = exponential(x[k * inner] - largest) / R(total);
}

}  // namespace gnograd

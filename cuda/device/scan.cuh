// SPDX-License-Identifier: MIT
// Running sums by one block of threads: where pieces of known lengths begin.
#pragma once
#include "platform.cuh"

namespace gnograd {

constexpr int scan_threads = 1024;
constexpr size_t scan_bytes = scan_threads * sizeof(int64_t);

// write(i, sum of length(j) over j < i) for i <= n. Every thread has consecutive i, and calls
// length(i) for the last time before write(i, ...).
template <class Length, class Write>
__device__ void scan(int64_t n, Length length, Write write) {
  SharedMemory shared;
  int64_t* sums = shared.take<int64_t>(scan_threads);
  const int t = int(threadIdx.x);
  const int64_t each = (n + scan_threads - 1) / scan_threads;
  const int64_t first = min(t * each, n), end = min(first + each, n);
  int64_t sum = 0;
  for (int64_t i = first; i < end; ++i) sum += length(i);
  sums[t] = sum;
  for (int d = 1; d < scan_threads; d *= 2) {
    __syncthreads();
    const int64_t more = t >= d ? sums[t - d] : 0;
    __syncthreads();
    sums[t] += more;
  }
  int64_t start = sums[t] - sum;
  for (int64_t i = first; i < end; ++i) {
    const int64_t more = length(i);
    write(i, start);
    start += more;
  }
  if (t == scan_threads - 1) write(n, start);
}

}  // namespace gnograd

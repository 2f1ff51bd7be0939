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

// ---- longer arrays: chunks by a block each, their sums by one ----

constexpr int64_t scan_chunk = 4 * scan_threads;

// Call f(first item, items) for the chunk of this block.
template <class F>
__device__ void this_chunk(int64_t n, F f) {
  const int64_t first = blockIdx.x * scan_chunk;
  f(first, min(scan_chunk, n - first));
}

// Block: the sum of a chunk of 4096; the first of three kernels, which read x twice and write it
// once. Shared memory: 8 KB, as for all of them. Bound by memory, or, in short arrays, by their 20
// barriers.
template <class I>
__global__ void __launch_bounds__(scan_threads)
    scan_sum_chunks(const I* x, int64_t n, int64_t* sums) {
  this_chunk(n, [&](int64_t first, int64_t items) {
    scan(
        items, [&](int64_t i) { return x[first + i]; },
        [&](int64_t i, int64_t sum) {
          if (i == items) sums[blockIdx.x] = sum;
        });
  });
}

// One block: where every chunk begins.
template <class I>
__global__ void __launch_bounds__(scan_threads)
    scan_chunk_sums(int64_t n_chunks, int64_t* sums, I* total) {
  scan(
      n_chunks, [&](int64_t i) { return sums[i]; },
      [&](int64_t i, int64_t start) {
        if (i < n_chunks) sums[i] = start;
        else if (total) *total = I(start);
      });
}

// Block: where the pieces of a chunk begin.
template <class I>
__global__ void __launch_bounds__(scan_threads)
    scan_within_chunks(I* x, int64_t n, const int64_t* sums) {
  this_chunk(n, [&](int64_t first, int64_t items) {
    scan(
        items, [&](int64_t i) { return x[first + i]; },
        [&](int64_t i, int64_t start) {
          if (i < items) x[first + i] = I(sums[blockIdx.x] + start);
        });
  });
}

// Turn lengths x of pieces into their starts, in place; and give the end of the last, if wanted.
template <class I>
void exclusive_scan(I* x, int64_t n, I* total, int64_t* sums /* [ceil_div(n, scan_chunk)] */,
                    cudaStream_t stream) {
  const int64_t n_chunks = ceil_div(n, scan_chunk);
  const dim3 blocks = grid_of(n_chunks), threads(scan_threads);
  if (n) launch(scan_sum_chunks<I>, blocks, threads, scan_bytes, stream, x, n, sums);
  launch(scan_chunk_sums<I>, dim3(1), threads, scan_bytes, stream, n_chunks, sums, total);
  if (n) launch(scan_within_chunks<I>, blocks, threads, scan_bytes, stream, x, n, sums);
}

}  // namespace gnograd

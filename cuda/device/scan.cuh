// SPDX-License-Identifier: MIT
// Running sums by one block of threads: where pieces of known lengths begin.
#pragma once
#include "platform.cuh"

namespace gnograd {

constexpr int scan_warps = scan_threads / warp_lanes;
static_assert(scan_warps <= warp_lanes);
constexpr size_t scan_bytes = scan_warps * sizeof(int64_t);

// Sum of x over the lanes up to this one.
template <class I>
__device__ I sum_up_to_lane(I x) {
  const int lane = int(threadIdx.x % warp_lanes);
  for (int d = 1; d < warp_lanes; d *= 2) {
    const I before = __shfl_up_sync(~0u, x, d);
    if (lane >= d) x += before;
  }
  return x;
}

// write(i, sum of length(j) over j < i) for i <= n. Every thread has consecutive i, and calls
// length(i) for the last time before write(i, ...).
template <class Length, class Write>
__device__ void scan(int64_t n, Length length, Write write) {
  SharedMemory shared;
  int64_t* up_to_warp = shared.take<int64_t>(scan_warps);
  const int t = int(threadIdx.x), warp = t / warp_lanes;
  const int64_t each = (n + scan_threads - 1) / scan_threads;
  const int64_t first = min(t * each, n), end = min(first + each, n);
  int64_t sum = 0;
  for (int64_t i = first; i < end; ++i) sum += length(i);
  const int64_t up_to_here = sum_up_to_lane(sum);
  if (t % warp_lanes == warp_lanes - 1) up_to_warp[warp] = up_to_here;
  __syncthreads();
  if (warp == 0) {
    const int64_t up_to = sum_up_to_lane(t < scan_warps ? up_to_warp[t] : int64_t(0));
    if (t < scan_warps) up_to_warp[t] = up_to;
  }
  __syncthreads();
  int64_t start = up_to_here - sum + (warp ? up_to_warp[warp - 1] : 0);
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

// Block: the sum of a chunk; the first of three kernels, which read x twice and write it once. One
// chunk needs the last kernel alone. Shared memory: 256 bytes, as for all of them. Bound by memory,
// or, in short arrays, by latency.
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

// One block: where every chunk begins, and the end of the last.
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

// Block: where the pieces of a chunk begin. A null `sums` stands for a single chunk, whose end goes
// to `total` unless that is null, too.
template <class I>
__global__ void __launch_bounds__(scan_threads)
    scan_within_chunks(I* x, int64_t n, const int64_t* sums, I* total) {
  this_chunk(n, [&](int64_t first, int64_t items) {
    const int64_t before = sums ? sums[blockIdx.x] : 0;
    scan(
        items, [&](int64_t i) { return x[first + i]; },
        [&](int64_t i, int64_t start) {
          if (i < items) x[first + i] = I(before + start);
          else if (!sums && total) *total = I(start);
        });
  });
}

// Turn lengths x of pieces into their starts, in place; and give the end of the last, if wanted.
template <class I>
void exclusive_scan(I* x, int64_t n, I* total, int64_t* sums /* [ceil_div(n, scan_chunk)] */,
                    cudaStream_t stream) {
  const int64_t n_chunks = std::max<int64_t>(ceil_div(n, scan_chunk), 1);
  const dim3 blocks = grid_of(n_chunks), threads(scan_threads);
  const bool several = n_chunks > 1;
  if (several) {
    launch(scan_sum_chunks<I>, blocks, threads, scan_bytes, stream, x, n, sums);
    launch(scan_chunk_sums<I>, dim3(1), threads, scan_bytes, stream, n_chunks, sums, total);
  }
  launch(scan_within_chunks<I>, blocks, threads, scan_bytes, stream, x, n,
         several ? sums : nullptr, total);
}

}  // namespace gnograd

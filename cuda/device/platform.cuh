// SPDX-License-Identifier: MIT
// The one place that knows which compiler reads the kernels: nvcc, or a host C++ compiler with the
// SIMT runtime of tests/cuda, which runs the same sources without a GPU.
#pragma once

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>

// Bytes that the arrays of a slice of edges may take together: more than the L2 cache, so that a
// product over its edges fills a GPU. On the host, where graphs are small, it is little, so that
// these have several slices too.
constexpr size_t slice_bytes = size_t(128) << 20;

// Threads of the one block that finds running sums: as many as a block has. On the host, where each
// costs its own switches, a few, so that short arrays have several chunks too.
constexpr int scan_threads = 1024;

template <class... P, class... A>
void start(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
           A&&... args) {
  kernel<<<grid, block, shared, stream>>>(std::forward<A>(args)...);
}

// Bytes of a launch's shared memory that an array of n takes.
template <class T>
constexpr size_t shared_bytes(size_t n) {
  return (n * sizeof(T) + 15) / 16 * 16;
}

// Hands out the shared memory of a block, one array after another.
class SharedMemory {
  unsigned char* next;

 public:
  __device__ SharedMemory() {
    extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
    next = dynamic_shared_memory;
  }
  template <class T>
  __device__ T* take(int n) {
    T* p = reinterpret_cast<T*>(next);
    next += (n * sizeof(T) + 15) / 16 * 16;
    return p;
  }
};

#else
#include "simt.h"
constexpr size_t slice_bytes = size_t(256) << 10;
constexpr int scan_threads = 128;
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>
#include <utility>

namespace gnograd {

constexpr int warp_lanes = 32;
constexpr int block_threads = 128;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A grid of so many blocks; one that no device has where they are too many, so that its launch
// fails.
inline dim3 grid_of(int64_t x, int64_t y = 1, int64_t z = 1) {
  const auto size = [](int64_t n) { return unsigned(std::clamp<int64_t>(n, 0, UINT32_MAX)); };
  return {size(x), size(y), size(z)};
}

// Shared memory of a block that every kernel may have, and that every device since sm_80 gives one
// that asks for more.
constexpr size_t plain_shared = 48 * 1024, most_shared = 99 * 1024;

// Lets a kernel have all the shared memory that the current device gives a block. Once is enough:
// what belongs to the kernel must not be changed under the launches of other threads.
inline void allow_shared(const void* kernel) {
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> allowed;
  int device, most;
  if (cudaGetDevice(&device) != cudaSuccess) return;
  const std::lock_guard lock(mutex);
  if (!allowed.count({kernel, device}) &&
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
          cudaSuccess &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) ==
          cudaSuccess)
    allowed.insert({kernel, device});
}

// The last error of this thread is the status of a face (call.cuh). After a failure nothing
// more is started, as it would work on what the failed kernel has left out.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            A&&... args) {
  if (shared > plain_shared) allow_shared(reinterpret_cast<const void*>(kernel));
  if (cudaPeekAtLastError() != cudaSuccess) return;
  start(kernel, grid, block, shared, stream, std::forward<A>(args)...);
}

// Run `kernel` on at least n threads.
template <class... P, class... A>
void launch_threads(int64_t n, cudaStream_t stream, void (*kernel)(P...), A&&... args) {
  if (n == 0) return;
  launch(kernel, grid_of(ceil_div(n, block_threads)), dim3(block_threads), 0, stream,
         std::forward<A>(args)...);
}

template <class X>
void set_zero(X* x, int64_t n, cudaStream_t stream) {
  if (n) cudaMemsetAsync(x, 0, n * sizeof(X), stream);
}

// n / d and n % d, for n >= 0 and d > 0; in 32 bits where n has no more, as nearly always.
template <class Quotient>
struct Divided {
  Quotient quotient;
  int rest;
};
template <class Quotient = int64_t>
__device__ inline Divided<Quotient> divided(int64_t n, int d) {
  if (n >> 32) return {Quotient(n / d), int(n % d)};
  const unsigned q = unsigned(n) / unsigned(d);
  return {Quotient(q), int(unsigned(n) - q * unsigned(d))};
}

__device__ inline int64_t thread_number() {
  return int64_t(blockIdx.x) * block_threads + threadIdx.x;
}

// thread_number() where there are less than 2^31 threads.
__device__ inline int thread_index() { return int(blockIdx.x * block_threads + threadIdx.x); }

}  // namespace gnograd

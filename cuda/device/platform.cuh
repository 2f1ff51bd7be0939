// SPDX-License-Identifier: MIT
// The one place that knows which compiler reads the kernels: nvcc, or a host C++ compiler with the
// SIMT runtime of tests/cuda, which runs the same sources without a GPU.
#pragma once

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

// What the arrays of a slice of edges may take together. On the host, where graphs are small, it is
// little, so that these have several slices too.
constexpr size_t slice_bytes = size_t(128) << 20;

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            A&&... args) {
  if (shared > 48 * 1024)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared));
  kernel<<<grid, block, shared, stream>>>(std::forward<A>(args)...);
}

// What an array of n takes of a launch's shared memory.
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
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gnograd {

constexpr int warp_lanes = 32;
constexpr int block_threads = 128;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Run `kernel` on at least n threads.
template <class... P, class... A>
void launch_threads(int64_t n, cudaStream_t stream, void (*kernel)(P...), A&&... args) {
  if (n == 0) return;
  launch(kernel, dim3(unsigned(ceil_div(n, block_threads))), dim3(block_threads), 0, stream,
         std::forward<A>(args)...);
}

__device__ inline int64_t thread_number() {
  return int64_t(blockIdx.x) * block_threads + threadIdx.x;
}

}  // namespace gnograd

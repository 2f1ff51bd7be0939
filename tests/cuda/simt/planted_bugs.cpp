// SPDX-License-Identifier: MIT
// One planted bug a number. Each must end in a wrong answer, an abort, or a sanitizer's report;
// number 0 is the correct twin of them all and must pass.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "device/copies.cuh"
#include "device/platform.cuh"

namespace {

constexpr int n = 64;

__global__ void scale(const float* x, float* y, int limit) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < limit) y[i] = 2 * x[i];
}
__global__ void reverse_dynamic(const float* x, float* y, int extra, bool sync) {
  float* s = SharedMemory().take<float>(n);
  const int i = int(threadIdx.x);
  s[i + extra] = x[i];
  if (sync) __syncthreads();
  y[i] = s[n - 1 - i];
}
__global__ void reverse_static(const float* x, float* y, int extra, bool sync) {
  __shared__ float s[n];
  const int i = int(threadIdx.x);
  s[i + extra] = x[i];
  if (sync) __syncthreads();
  y[i] = s[n - 1 - i];
}
__global__ void reverse_warp(const float* x, float* y, bool sync) {
  __shared__ float s[32];
  const int i = int(threadIdx.x);
  s[i] = x[i];
  if (sync) __syncwarp();
  y[i] = s[31 - i];
}
__global__ void neighbour(const float* x, float* y, bool sync) {
  float* s = SharedMemory().take<float>(n);
  const int i = int(threadIdx.x);
  s[i] = x[i];
  if (sync) __syncthreads();
  y[i] = s[i ? i - 1 : n - 1];
}
__global__ void sum_plain(const float* x, float* y) { y[0] += x[threadIdx.x]; }
__global__ void sum_atomic(const float* x, float* y) { atomicAdd(y, x[threadIdx.x]); }
__global__ void sum_blocks(const float* x, float* y) {
  if (threadIdx.x == 0) y[0] += x[blockIdx.x];
}
__global__ void divergent_barrier(float* y) {
  if (threadIdx.x < 7) {
    y[0] = 1;
    __syncthreads();
  } else {
    y[1] = 2;
    __syncthreads();
  }
}
__global__ void missing_lane(float* y) {
  if (threadIdx.x != 5) y[threadIdx.x] = __shfl_sync(~0u, 1.f, 0);
  while (threadIdx.x == 5) __syncthreads();
}
__global__ void divergent_shuffle(float* y) {
  float v = float(threadIdx.x);
  if (threadIdx.x < 16) v = __shfl_sync(~0u, v, 1);
  else v = __shfl_sync(~0u, v, 2);
  y[threadIdx.x] = v;
}
__global__ void misaligned(const float* x, float* y, int offset) {
  y[threadIdx.x] = __ldg(reinterpret_cast<const float4*>(x + offset)).x;
}
__global__ void overflow(float* y, int factor) { y[threadIdx.x] = float(factor * factor); }
__global__ void two_arrays(const float* x, float* y, int extra) {
  SharedMemory shared;
  float *a = shared.take<float>(n), *b = shared.take<float>(n);
  const int i = int(threadIdx.x);
  a[i + extra] = x[i];
  b[i] = x[i];
  __syncthreads();
  y[i] = a[i] + b[n - 1 - i];
}
__global__ void copied(const float* x, float* y, bool wait) {
  float* s = SharedMemory().take<float>(n);
  const int i = int(threadIdx.x);
  copy_async<4>(s + i, x + i);
  commit_copies();
  if (wait) await_copies();
  y[i] = wait ? s[i] : x[i];
}

float* to_device(const std::vector<float>& host) {
  void* p = nullptr;
  cudaMalloc(&p, host.size() * sizeof(float));
  cudaMemcpy(p, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
  return static_cast<float*>(p);
}
bool same(const float* device, const std::vector<float>& want) {
  std::vector<float> got(want.size());
  cudaMemcpy(got.data(), device, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
  return got == want;
}
template <class... P, class... A>
void start(void (*kernel)(P...), int blocks, int threads, size_t shared, A... args) {
  gnograd::launch(kernel, dim3(unsigned(blocks)), dim3(unsigned(threads)), shared, cudaStream_t(nullptr),
         args...);
}

}  // namespace

int main(int, char** argv) {
  std::vector<float> up(n), zero(n);
  std::iota(up.begin(), up.end(), 0.f);
  const std::vector<float> down(up.rbegin(), up.rend()), half(up.begin(), up.begin() + 32);
  const std::vector<float> half_down(half.rbegin(), half.rend());
  float *x = to_device(up), *y = to_device(zero);
  constexpr size_t bytes = n * sizeof(float);
  bool right = true;
  switch (std::atoi(argv[1])) {
    case 0:
      start(reverse_dynamic, 1, n, bytes, x, y, 0, true);
      right = same(y, down);
      start(reverse_static, 1, n, 0, x, y, 0, true);
      right = right && same(y, down);
      start(reverse_warp, 1, 32, 0, x, y, true);
      right = right && same(y, half_down);
      cudaMemset(y, 0, sizeof(float));
      start(sum_atomic, 1, n, 0, x, y);
      right = right && same(y, {2016});
      start(copied, 1, n, bytes, x, y, true);
      right = right && same(y, up);
      break;
    case 1:  // global memory, one past the end
      start(scale, 2, n, 0, x, y, n + 1);
      break;
    case 2:  // dynamic shared memory, one past the end
      start(reverse_dynamic, 1, n, bytes, x, y, 1, true);
      break;
    case 3:  // static shared memory, one past the end
      start(reverse_static, 1, n, 0, x, y, 1, true);
      break;
    case 4:  // one shared array into the next
      start(two_arrays, 1, n, 2 * bytes, x, y, 1);
      break;
    case 5:  // launched with too little shared memory
      start(two_arrays, 1, n, bytes, x, y, 0);
      break;
    case 6:  // no __syncthreads, dynamic
      start(reverse_dynamic, 1, n, bytes, x, y, 0, false);
      right = same(y, down);
      break;
    case 7:  // no __syncthreads, static
      start(reverse_static, 1, n, 0, x, y, 0, false);
      right = same(y, down);
      break;
    case 8:  // no __syncwarp
      start(reverse_warp, 1, 32, 0, x, y, false);
      right = same(y, half_down);
      break;
    case 9:  // a race that the default order hides
      start(neighbour, 1, n, bytes, x, y, false);
      break;
    case 10:  // += without an atomic
      start(sum_plain, 1, n, 0, x, y);
      break;
    case 11:  // sum_blocks across blocks
      start(sum_blocks, 8, 32, 0, x, y);
      break;
    case 12: start(divergent_barrier, 1, n, 0, y); break;
    case 13: start(missing_lane, 1, n, 0, y); break;
    case 14: start(divergent_shuffle, 1, 32, 0, y); break;
    case 15: start(misaligned, 1, 4, 0, x, y, 1); break;
    case 16: start(overflow, 1, 4, 0, y, 70000); break;
    case 17:  // a device pointer read by the host
      right = y[3] == 0;
      break;
    case 18: {  // memory that was never written
      void* u = nullptr;
      cudaMalloc(&u, bytes);
      start(scale, 1, n, 0, static_cast<const float*>(u), y, n);
      right = same(y, zero);
      break;
    }
    case 19:  // use after free
      cudaFree(x);
      start(scale, 1, n, 0, x, y, n);
      break;
    case 20:  // an impossible launch
      start(scale, 1, 2048, 0, x, y, n);
      right = cudaGetLastError() == cudaSuccess;
      break;
    case 21:  // the end, while a copy to shared memory is under way
      start(copied, 1, n, bytes, x, y, false);
      right = same(y, up);
      break;
  }
  std::puts(right ? "right" : "WRONG");
  cudaFree(x);
  cudaFree(y);
  return right ? 0 : 1;
}

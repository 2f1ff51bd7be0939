// SPDX-License-Identifier: MIT
// Devices, memory and streams, for callers that have no CUDA runtime of their own.
#include "device/platform.cuh"
#include "gnograd_cuda.h"

namespace gnograd {
namespace {

template <class From, class To>
__global__ void __launch_bounds__(block_threads) convert(int64_t n, const From* from, To* to) {
  if (const int64_t i = thread_number(); i < n) to[i] = To(from[i]);
}

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace
}  // namespace gnograd

using namespace gnograd;

int gnograd_cuda_abi_version() { return 1; }

const char* gnograd_cuda_error_string(int status) {
  switch (status) {
    case GNOGRAD_CUDA_WORKSPACE: return "the workspace is too small";
    case GNOGRAD_CUDA_VALUE: return "a size or code that means nothing";
    default: return cudaGetErrorString(cudaError_t(status));
  }
}

int gnograd_cuda_device_count(int* n) {
  *n = 0;
  return cudaGetDeviceCount(n);
}

int gnograd_cuda_device_name(int device, int64_t length, char* name) {
  cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status == cudaSuccess && length > 0) {
    strncpy(name, properties.name, length - 1);
    name[length - 1] = 0;
  }
  return status;
}

int gnograd_cuda_allocate(size_t bytes, void** memory, void* stream) {
  return cudaMallocAsync(memory, bytes, as_stream(stream));
}

int gnograd_cuda_free(void* memory, void* stream) {
  return cudaFreeAsync(memory, as_stream(stream));
}

int gnograd_cuda_copy(void* to, const void* from, size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream));
}

int gnograd_cuda_synchronize(void* stream) { return cudaStreamSynchronize(as_stream(stream)); }

int gnograd_cuda_int32_to_int64(int64_t n, const int32_t* from, int64_t* to, void* stream) {
  launch_threads(n, as_stream(stream), convert<int32_t, int64_t>, n, from, to);
  return cudaGetLastError();
}

int gnograd_cuda_int64_to_int32(int64_t n, const int64_t* from, int32_t* to, void* stream) {
  launch_threads(n, as_stream(stream), convert<int64_t, int32_t>, n, from, to);
  return cudaGetLastError();
}

// SPDX-License-Identifier: MIT
// Devices, memory and streams, for callers that have no CUDA runtime of their own.
#include "device/platform.cuh"
#include "device/precision.cuh"
#include "gnograd_cuda.h"

namespace gnograd {
namespace {

constexpr int max_dims = 8;

struct Layout {
  int n_dims;
  int64_t n_items, shape[max_dims], to[max_dims], from[max_dims];
};

// Float types meet in float, or in double where one of them is double.
template <class To, class From>
using Between = std::conditional_t<
    std::is_integral_v<To>, To,
    std::conditional_t<std::is_same_v<To, double> || std::is_same_v<From, double>, double, float>>;

template <class To, class From>
__device__ Between<To, From> between(From x) {
  if constexpr (sizeof(From) == 2) return Between<To, From>(float(x));
  else return Between<To, From>(x);
}

template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    assign(Layout layout, To* to, const From* from, bool add) {
  int64_t rest = thread_number(), at = 0, source = 0;
  if (rest >= layout.n_items) return;
  for (int d = layout.n_dims - 1; d >= 0; --d) {
    const int64_t i = rest % layout.shape[d];
    rest /= layout.shape[d];
    at += i * layout.to[d];
    source += i * layout.from[d];
  }
  Between<To, From> x = between<To, From>(from[source]);
  if (add) x += between<From, To>(to[at]);
  to[at] = To(x);
}

template <class To, class From>
int launch_assign(const Layout& layout, void* to, const void* from, bool add, cudaStream_t stream) {
  if constexpr (std::is_integral_v<To> != std::is_integral_v<From>) return GNOGRAD_CUDA_VALUE;
  else {
    launch_threads(layout.n_items, stream, assign<To, From>, layout, static_cast<To*>(to),
                   static_cast<const From*>(from), add);
    return cudaGetLastError();
  }
}

// Call f with a value of the type that has this code.
template <class F>
int with_type(int type, F f) {
  switch (type) {
    case GNOGRAD_CUDA_F32: return f(float());
    case GNOGRAD_CUDA_F64: return f(double());
    case GNOGRAD_CUDA_F16: return f(__half());
    case GNOGRAD_CUDA_BF16: return f(__nv_bfloat16());
    case GNOGRAD_CUDA_I32: return f(int32_t());
    case GNOGRAD_CUDA_I64: return f(int64_t());
    default: return GNOGRAD_CUDA_VALUE;
  }
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

int gnograd_cuda_device_of(const void* memory, int* device) {
  cudaPointerAttributes attributes;
  const cudaError_t status = cudaPointerGetAttributes(&attributes, memory);
  if (status != cudaSuccess) return status;
  if (attributes.type == cudaMemoryTypeUnregistered) return cudaGetDevice(device);
  *device = attributes.device;
  return cudaSuccess;
}

int gnograd_cuda_current_device(int* device) { return cudaGetDevice(device); }

int gnograd_cuda_use_device(int device) { return cudaSetDevice(device); }

int gnograd_cuda_allocate(size_t bytes, void** memory, void* stream) {
  return cudaMallocAsync(memory, bytes, as_stream(stream));
}

int gnograd_cuda_free(void* memory, void* stream) {
  return cudaFreeAsync(memory, as_stream(stream));
}

int gnograd_cuda_release(void* memory) {
  const cudaError_t status = cudaDeviceSynchronize();
  return status == cudaSuccess ? cudaFreeAsync(memory, nullptr) : status;
}

int gnograd_cuda_copy(void* to, const void* from, size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream));
}

int gnograd_cuda_synchronize(void* stream) { return cudaStreamSynchronize(as_stream(stream)); }

int gnograd_cuda_wait(void* stream, void* other) {
  cudaEvent_t event;
  cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (status != cudaSuccess) return status;
  status = cudaEventRecord(event, as_stream(other));
  if (status == cudaSuccess) status = cudaStreamWaitEvent(as_stream(stream), event, 0);
  cudaEventDestroy(event);
  return status;
}

int gnograd_cuda_assign(int n_dims, const int64_t* shape, void* to, int to_type,
                        const int64_t* to_strides, const void* from, int from_type,
                        const int64_t* from_strides, int add, void* stream) {
  if (n_dims < 0 || n_dims > max_dims) return GNOGRAD_CUDA_VALUE;
  Layout layout{n_dims, 1, {}, {}, {}};
  for (int d = 0; d < n_dims; ++d) {
    layout.n_items *= layout.shape[d] = shape[d];
    layout.to[d] = to_strides[d];
    layout.from[d] = from_strides[d];
  }
  return with_type(to_type, [&](auto t) {
    return with_type(from_type, [&](auto f) {
      return launch_assign<decltype(t), decltype(f)>(layout, to, from, add != 0, as_stream(stream));
    });
  });
}

int gnograd_cuda_use_tf32(int on) {
  tf32_products = on != 0;
  return 0;
}

// The header's list of families once more, each face written out as text.
#define TEXT(...) #__VA_ARGS__
#define EXPANDED_TEXT(...) TEXT(__VA_ARGS__)
#undef GNOGRAD_CUDA_FACE
#define GNOGRAD_CUDA_FACE(name, type, sizes, ...) \
  #name "_" #type "(" EXPANDED_TEXT(GNOGRAD_CUDA_LIST sizes) "; " EXPANDED_TEXT(__VA_ARGS__) ")\n"
const char* gnograd_cuda_prototypes() { return GNOGRAD_CUDA_FAMILIES; }

// SPDX-License-Identifier: MIT
// Devices, memory and streams, for callers that have no CUDA runtime of their own.
#include <cstdio>
#include <map>

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

// Thread: an item; finds its place with a division in 64 bits for every dimension, which bound it
// where both sides are contiguous; reads and writes it once.
template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    runtime_assign(Layout layout, To* to, const From* from, bool add) {
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
    launch_threads(layout.n_items, stream, runtime_assign<To, From>, layout, static_cast<To*>(to),
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

// The first failure of calls that are made one after another. CUDA remembers it as the thread's
// last error, where the next operator would take it for its own.
class Outcome {
  cudaError_t status = cudaSuccess;

 public:
  Outcome& then(cudaError_t call) {
    if (status == cudaSuccess) status = call;
    if (call != cudaSuccess) (void)cudaGetLastError();
    return *this;
  }
  operator int() const { return status; }
};
int outcome(cudaError_t call) { return Outcome().then(call); }

// While it lives, calls of this thread are no part of what it, or another thread, captures into a
// CUDA graph, and do not end the capture; on streams of their own, that is.
class OutsideCapture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode); }
};

// The pool of the current device, or null where it has no pools. It keeps what is freed: the
// device's own gives everything back whenever a stream is waited for, and the next workspace would
// be mapped anew.
cudaError_t pool_of_device(cudaMemPool_t* pool) {
  static std::mutex mutex;
  static std::map<int, cudaMemPool_t> pools;
  int device, supported;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return e;
  const std::lock_guard lock(mutex);
  if (const auto found = pools.find(device); found != pools.end()) {
    *pool = found->second;
    return cudaSuccess;
  }
  const OutsideCapture outside;
  *pool = nullptr;
  if (const auto e = cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device);
      e != cudaSuccess)
    return e;
  if (supported) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    if (const auto e = cudaMemPoolCreate(pool, &properties); e != cudaSuccess) return e;
    uint64_t everything = UINT64_MAX;
    if (const auto e = cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &everything);
        e != cudaSuccess)
      return e;
  }
  pools[device] = *pool;
  return cudaSuccess;
}

// The oldest GPUs that the kernels were compiled for, as 10 * major + minor.
#ifdef __CUDA_ARCH_LIST__
constexpr int architectures[] = {__CUDA_ARCH_LIST__};  // 800, 900, ...
constexpr int least_capability = architectures[0] / 10;
#else
constexpr int least_capability = 80;
#endif

const char* too_old() {
  static char text[100];
  std::snprintf(text, sizeof text,
                "the GPU is too old: the kernels are for compute capability %d.%d and later",
                least_capability / 10, least_capability % 10);
  return text;
}

const char* old_driver() {
  int driver = 0, needed = 0;
  outcome(cudaDriverGetVersion(&driver));
  outcome(cudaRuntimeGetVersion(&needed));
  if (!driver) return "there is no NVIDIA driver";
  static thread_local char text[200];
  std::snprintf(text, sizeof text,
                "the NVIDIA driver is too old: it is for CUDA %d.%d, the kernels need CUDA %d.%d",
                driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10);
  return text;
}

}  // namespace
}  // namespace gnograd

using namespace gnograd;

int gnograd_cuda_abi_version() { return GNOGRAD_CUDA_ABI; }

const char* gnograd_cuda_error_string(int status) {
  switch (status) {
    case GNOGRAD_CUDA_WORKSPACE: return "the workspace is too small";
    case GNOGRAD_CUDA_VALUE: return "a size or code that means nothing";
    case GNOGRAD_CUDA_UNSUPPORTED: return "this is computed on the CPU only";
    case GNOGRAD_CUDA_DEVICE:
    case cudaErrorNoKernelImageForDevice: return too_old();
    case cudaErrorInsufficientDriver: return old_driver();
    default: return cudaGetErrorString(cudaError_t(status));
  }
}

int gnograd_cuda_device_count(int* n) {
  *n = 0;
  return outcome(cudaGetDeviceCount(n));
}

int gnograd_cuda_device_name(int device, int64_t length, char* name) {
  cudaDeviceProp properties;
  const int status = outcome(cudaGetDeviceProperties(&properties, device));
  if (status == cudaSuccess && length > 0) {
    strncpy(name, properties.name, length - 1);
    name[length - 1] = 0;
  }
  return status;
}

int gnograd_cuda_device_usable(int device) {
  int major = 0, minor = 0;
  const int status =
      Outcome()
          .then(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device))
          .then(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (status != cudaSuccess) return status;
  return 10 * major + minor < least_capability ? GNOGRAD_CUDA_DEVICE : 0;
}

int gnograd_cuda_device_of(const void* memory, int* device) {
  cudaPointerAttributes attributes;
  const int status = outcome(cudaPointerGetAttributes(&attributes, memory));
  if (status != cudaSuccess) return status;
  if (attributes.type == cudaMemoryTypeUnregistered) return outcome(cudaGetDevice(device));
  *device = attributes.device;
  return cudaSuccess;
}

int gnograd_cuda_current_device(int* device) { return outcome(cudaGetDevice(device)); }

int gnograd_cuda_use_device(int device) { return outcome(cudaSetDevice(device)); }

int gnograd_cuda_allocate(size_t bytes, void** memory, void* stream) {
  *memory = nullptr;
  if (bytes == 0) return 0;  // CUDA refuses to
  cudaMemPool_t pool;
  if (const int status = outcome(pool_of_device(&pool))) return status;
  if (!pool) return outcome(cudaMalloc(memory, bytes));
  return outcome(cudaMallocFromPoolAsync(memory, bytes, pool, as_stream(stream)));
}

int gnograd_cuda_free(void* memory, void* stream) {
  if (!memory) return 0;
  cudaMemPool_t pool;
  if (const int status = outcome(pool_of_device(&pool))) return status;
  return outcome(pool ? cudaFreeAsync(memory, as_stream(stream)) : cudaFree(memory));
}

int gnograd_cuda_hold(size_t bytes, const void* from, void** memory) {
  *memory = nullptr;
  if (bytes == 0) return 0;
  const OutsideCapture outside;
  cudaStream_t side = nullptr;
  Outcome status;
  status.then(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  if (!status) status.then(cudaMalloc(memory, bytes));
  if (!status && from) status.then(cudaMemcpyAsync(*memory, from, bytes, cudaMemcpyHostToDevice, side));
  if (!status) status.then(cudaStreamSynchronize(side));
  if (side) status.then(cudaStreamDestroy(side));
  if (status && *memory) {
    status.then(cudaFree(*memory));
    *memory = nullptr;
  }
  return status;
}

int gnograd_cuda_release(void* memory) {
  const OutsideCapture outside;
  return outcome(cudaFree(memory));  // cudaFree waits for whatever uses it
}

int gnograd_cuda_copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return 0;
  return outcome(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream)));
}

int gnograd_cuda_synchronize(void* stream) {
  return outcome(cudaStreamSynchronize(as_stream(stream)));
}

int gnograd_cuda_wait(void* stream, void* other, int device) {
  int here = device;
  cudaEvent_t event = nullptr;
  Outcome status;
  // an event can be recorded on the device alone where it was made
  status.then(cudaGetDevice(&here)).then(cudaSetDevice(device));
  if (!status) status.then(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (!status) status.then(cudaEventRecord(event, as_stream(other)));
  status.then(cudaSetDevice(here));
  if (!status) status.then(cudaStreamWaitEvent(as_stream(stream), event, 0));
  if (event) status.then(cudaEventDestroy(event));
  return status;
}

int gnograd_cuda_assign(int n_dims, const int64_t* shape, void* to, int to_type,
                        const int64_t* to_strides, const void* from, int from_type,
                        const int64_t* from_strides, int add, void* stream) {
  (void)cudaGetLastError();
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

// Generated from the header (tools/interface/cuda.py)
const char* gnograd_cuda_prototypes() {
  return
#include "runtime_entries.cuh"
      ;
}

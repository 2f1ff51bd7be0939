// SPDX-License-Identifier: MIT
// The CUDA runtime, as far as host code that launches kernels needs it. Streams run in order, at
// once. Calls that fail leave their error for cudaGetLastError, and what CUDA refuses is refused.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "runtime.h"

namespace simt {

thread_local int current_device;

std::recursive_mutex runtime;

std::map<std::pair<const void*, int>, int> allowed_shared;

namespace {

std::map<const char*, size_t> device;  // live cudaMalloc allocations,
std::map<const char*, size_t> reserved;  // memory from `reserve`,
std::map<const void*, int> device_of;  // the one of two devices that they are on,
std::set<const void*> ordered;         // and those in the order of a stream
thread_local cudaError_t last_error = cudaSuccess;

// Versions as 10 * major + minor, or 1000 * major + 10 * minor; the environment may name older
// ones.
int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
int driver() { return setting("SIMT_DRIVER", CUDART_VERSION); }

// Memory of a device with SIMT_GUARD: nobody else can touch it while none of its kernels and no
// copy is running, so a program that looks behind a device address ends.
class Guarded {
  static constexpr size_t room = size_t(1) << 30, grain = 256;
  char* const base;
  size_t used = 0, live = 0;
  std::map<size_t, std::vector<char*>> free;  // by size

 public:
  Guarded()
      : base(std::getenv("SIMT_GUARD")
                 ? static_cast<char*>(mmap(nullptr, room, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
                 : nullptr) {}
  bool on() const { return base; }
  static size_t rounded(size_t n) { return (n + grain) / grain * grain; }
  void* take(size_t n) {
    ++live;
    auto& fitting = free[rounded(n)];
    if (!fitting.empty()) {
      char* const p = fitting.back();
      fitting.pop_back();
      return p;
    }
    if (used + rounded(n) > room) return --live, nullptr;
    return base + std::exchange(used, used + rounded(n));
  }
  void give(void* p, size_t n) {
    free[rounded(n)].push_back(static_cast<char*>(p));
    if (--live) return;
    free.clear();  // changing the rights takes time by the page
    used = 0;
  }
  void expose(bool yes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const int rights = yes ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (on() && used && mprotect(base, (used + page - 1) / page * page, rights))
      die("device memory cannot be guarded");
  }
} guarded[2];

// The end of a copy that should be device memory.
void require_device(const void* p) {
  const auto within = [&](const auto& allocations) {
    auto at = allocations.upper_bound(static_cast<const char*>(p));
    return at != allocations.begin() &&
           (--at, static_cast<const char*>(p) <= at->first + at->second);
  };
  if (!within(device) && !within(reserved))
    die("a pointer to host memory where device memory is meant");
}

std::map<cudaStream_t, int> streams;  // streams made here, with their devices,
std::map<cudaEvent_t, int> events;    // and events

// A stream that is being captured into a graph, in the mode that binds all threads; what must not be
// called meanwhile ends that.
struct Capture {
  bool running = false, broken = false;
  cudaStream_t stream = nullptr;
} capture;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

bool breaks_capture(bool yes) {
  if (!capture.running || !yes) return false;
  capture.broken = true;
  return true;
}
bool unsafe_in_capture() { return breaks_capture(capture_mode != cudaStreamCaptureModeRelaxed); }
// The default stream waits for the captured one, which cannot be waited for.
bool default_in_capture(cudaStream_t s) { return breaks_capture(s == nullptr); }

cudaError_t allocate(void** p, size_t n, bool in_order) {
  if (driver() < CUDART_VERSION) return fail(cudaErrorInsufficientDriver);
  if (n > size_t(1) << 36) return fail(cudaErrorMemoryAllocation);
  Guarded& own = guarded[current_device];
  *p = own.on() ? own.take(n) : std::malloc(n);
  if (!*p) return fail(cudaErrorMemoryAllocation);
  own.expose(true);
  std::memset(*p, 0xff, n);
  own.expose(false);
  device[static_cast<char*>(*p)] = n;
  device_of[*p] = current_device;
  if (in_order) ordered.insert(*p);
  ASAN(__asan_poison_memory_region(*p, n);)
  return cudaSuccess;
}
cudaError_t release(void* p) {
  if (!device.count(static_cast<char*>(p))) return fail(cudaErrorInvalidValue);
  const size_t n = device[static_cast<char*>(p)];
  ASAN(__asan_unpoison_memory_region(p, n);)
  Guarded& own = guarded[device_of[p]];
  device.erase(static_cast<char*>(p));
  device_of.erase(p);
  ordered.erase(p);
  if (own.on()) own.give(p, n);
  else std::free(p);
  return cudaSuccess;
}

}  // namespace

// A call that fails says so twice.
cudaError_t fail(cudaError_t error) { return last_error = error; }
int capability() { return setting("SIMT_CAPABILITY", 80); }

// Under AddressSanitizer, and with SIMT_GUARD, device memory is out of bounds for the host, and with
// the latter that of the other device for a kernel.
void expose_device(bool yes, bool both) {
  for (int d = 0; d < 2; ++d)
    if (both || d == current_device) guarded[d].expose(yes);
  ASAN(for (auto [p, n] : device) yes ? __asan_unpoison_memory_region(p, n)
                                      : __asan_poison_memory_region(p, n);)(void) yes;
}

void* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  reserved[static_cast<char*>(p)] = bytes;
  return p;
}

}  // namespace simt

using namespace simt;

extern "C" {
cudaError_t cudaMalloc(void** p, size_t n) {
  const Turn turn(runtime);
  if (unsafe_in_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  return allocate(p, n, false);
}
cudaError_t cudaFree(void* p) {
  const Turn turn(runtime);
  if (unsafe_in_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  return p ? release(p) : cudaSuccess;
}
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t s) {
  const Turn turn(runtime);
  if (default_in_capture(s)) return fail(cudaErrorStreamCaptureImplicit);
  return n ? allocate(p, n, true) : fail(cudaErrorInvalidValue);
}
cudaError_t cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t pool, cudaStream_t s) {
  return pool ? cudaMallocAsync(p, n, s) : fail(cudaErrorInvalidValue);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  const Turn turn(runtime);
  if (default_in_capture(s)) return fail(cudaErrorStreamCaptureImplicit);
  return ordered.count(p) ? release(p) : fail(cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  static char pools;
  *pool = reinterpret_cast<cudaMemPool_t>(&pools);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t s) {
  const Turn turn(runtime);
  if (default_in_capture(s)) return fail(cudaErrorStreamCaptureImplicit);
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) require_device(to);
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) require_device(from);
  expose_device(true, true);
  std::memcpy(to, from, n);
  expose_device(false, true);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, n, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t s) {
  const Turn turn(runtime);
  if (default_in_capture(s)) return fail(cudaErrorStreamCaptureImplicit);
  require_device(p);
  expose_device(true, false);
  std::memset(p, value, n);
  expose_device(false, false);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t n) {
  return cudaMemsetAsync(p, value, n, nullptr);
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration";
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureUnsupported: return "not while a stream is being captured";
    default: return "invalid argument";
  }
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* n) {
  if (driver() < CUDART_VERSION) return fail(cudaErrorInsufficientDriver);
  *n = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* n) {
  if (driver() < CUDART_VERSION) return fail(cudaErrorInsufficientDriver);
  *n = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int n) {
  if (n != 0 && n != 1) return fail(cudaErrorInvalidDevice);
  current_device = n;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  const Turn turn(runtime);
  if (driver() < CUDART_VERSION) return fail(cudaErrorInsufficientDriver);
  *attributes = {};
  const auto at = device.upper_bound(static_cast<const char*>(p));
  if (at == device.begin()) return cudaSuccess;
  const auto [begin, n] = *std::prev(at);
  if (static_cast<const char*>(p) >= begin + std::max<size_t>(n, 1)) return cudaSuccess;
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = device_of[begin];
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "host (SIMT)");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = most_shared; break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability() % 10; break;
    case cudaDevAttrMemoryPoolsSupported: *value = setting("SIMT_POOLS", 1); break;
    case cudaDevAttrMultiProcessorCount: *value = capability() >= 90 ? 132 : 108; break;
    default: return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute which, int value) {
  const Turn turn(runtime);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > most_shared)
    return fail(cudaErrorInvalidValue);
  allowed_shared[{kernel, current_device}] = value;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Turn turn(runtime);
  if (breaks_capture(true)) return fail(cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const Turn turn(runtime);
  if (default_in_capture(s)) return fail(cudaErrorStreamCaptureImplicit);
  if (breaks_capture(s == capture.stream)) return fail(cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  const Turn turn(runtime);
  *s = reinterpret_cast<cudaStream_t>(new char);
  streams[*s] = current_device;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const Turn turn(runtime);
  if (!streams.erase(s)) return fail(cudaErrorInvalidResourceHandle);
  delete reinterpret_cast<char*>(s);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  const Turn turn(runtime);
  capture = {true, false, s};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  const Turn turn(runtime);
  const bool broken = std::exchange(capture, {}).broken;
  return broken ? fail(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t e, unsigned) {
  const Turn turn(runtime);
  return events.count(e) ? cudaSuccess : fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  const Turn turn(runtime);
  *e = reinterpret_cast<cudaEvent_t>(new char);
  events[*e] = current_device;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const Turn turn(runtime);
  const auto found = streams.find(s);
  const bool known = s == nullptr || found != streams.end();  // tests make some up
  const int of_stream = s == nullptr ? current_device : known ? found->second : 0;
  if (!events.count(e) || (known && events[e] != of_stream))
    return fail(cudaErrorInvalidResourceHandle);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  const Turn turn(runtime);
  if (!events.erase(e)) return fail(cudaErrorInvalidResourceHandle);
  delete reinterpret_cast<char*>(e);
  return cudaSuccess;
}
}

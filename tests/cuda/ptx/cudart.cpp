// SPDX-License-Identifier: MIT
// The CUDA runtime, as far as code that nvcc compiled for the host needs it: kernels come from the
// PTX in the fat binary (nvcc -arch=compute_80 -code=compute_80 --no-compress) and are executed on
// the host. Limits of launches are those of sm_80, or of PTX_ARCH. Streams run in order, at
// once.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>
#include <unordered_map>

#include "machine.h"

using namespace ptx;

struct CUkern_st {
  Module* module;
  std::string name;
  size_t most_dynamic = 48 * 1024;  // until cudaFuncSetAttribute allows more
  Kernel* kernel = nullptr;
};

namespace {

struct Binary {
  std::unique_ptr<Module> module;
  std::map<const void*, CUkern_st> registered;
};
struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

// Made when first asked for: libraries register their kernels before main. Never destroyed.
struct State {
  std::vector<std::unique_ptr<Binary>> binaries;
  std::unordered_map<const void*, CUkern_st*> kernels;  // by their stubs on the host
  std::vector<Configuration> configurations;
  std::map<u64, int> device_of;
  int device = 0;
  cudaError_t error = cudaSuccess;
};
void report();
State& state() {
  static State& s = *[] {
    std::atexit(report);
    return new State;
  }();
  return s;
}

cudaError_t keep(int error) {
  if (error) state().error = cudaError_t(error);
  return cudaError_t(error);
}

int capability() {
  const char* given = std::getenv("PTX_ARCH");
  return given ? std::atoi(given) : 80;
}

// A block's shared memory, by compute capability.
size_t most_shared() {
  const int arch = capability();
  if (arch == 86 || arch == 89 || arch >= 120) return 99 * 1024;
  return (arch >= 90 ? 227 : 163) * 1024;
}

// Report, with PTX_LOG=FILE, of the launches, and how much of each kernel was executed.
void report_counts(const char* label);
void report() {
  if (counting) report_counts("");
  const char* path = std::getenv("PTX_LOG");
  FILE* log = path ? std::fopen(path, "a") : nullptr;
  if (!log) return;
  for (const auto& b : state().binaries)
    for (const auto& [stub, k] : b->registered) {
      size_t n = 0, seen = 0;
      u64 executed = 0;
      if (k.kernel)
        for (const Instr& i : k.kernel->code) ++n, seen += i.seen != 0, executed += i.seen;
      std::fprintf(log, "%s launches %llu instructions %zu seen %zu executed %llu shared %u\n", k.name.c_str(),
                   k.kernel ? static_cast<unsigned long long>(k.kernel->launches) : 0ull, n, seen,
                   static_cast<unsigned long long>(executed),
                   k.kernel ? k.kernel->most_shared : 0);
    }
  std::fclose(log);
}

void report_counts(const char* label) {
  std::vector<std::pair<Kernel*, const Module*>> kernels;
  for (const auto& b : state().binaries)
    for (const auto& [stub, k] : b->registered)
      if (k.kernel) kernels.emplace_back(k.kernel, k.module);
  write_counts(kernels, label);
}

std::string ptx_of(const u8* fat) {
  u32 magic;
  u64 size;
  std::memcpy(&magic, fat, 4);
  std::memcpy(&size, fat + 8, 8);
  if (magic != 0xba55ed50) return "";
  for (const u8 *at = fat + 16, *end = at + size; at < end;) {
    u16 kind;
    u32 header, compressed;
    u64 payload;
    std::memcpy(&kind, at, 2);
    std::memcpy(&header, at + 4, 4);
    std::memcpy(&payload, at + 8, 8);
    std::memcpy(&compressed, at + 16, 4);
    if (kind == 1) {
      if (compressed) {
        std::fprintf(stderr, "ptx: the PTX is compressed; nvcc needs --no-compress\n");
        std::abort();
      }
      return std::string(reinterpret_cast<const char*>(at + header), payload);
    }
    at += header + payload;
  }
  return "";
}

std::string launch_problem(const CUkern_st& k, dim3 g, dim3 b, size_t shared) {
  const u64 threads = u64(b.x) * b.y * b.z;
  if (!g.x || !g.y || !g.z || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return "grid";
  if (!threads || threads > 1024 || b.z > 64) return "block";
  if (threads > k.kernel->max_threads) return "more threads than __launch_bounds__ says";
  if (k.kernel->static_shared > 48 * 1024) return "static shared memory";
  if (shared > k.most_dynamic || shared + k.kernel->static_shared > most_shared()) return "shared memory";
  return "";
}

bool on_device(const void* p, size_t n) {
  const auto [begin, size] = memory().find(reinterpret_cast<u64>(p));
  return reinterpret_cast<u64>(p) >= begin && reinterpret_cast<u64>(p) + n <= begin + size;
}

}  // namespace

extern "C" {

// Report for programs, with PTX_COUNT, of the counts since the last call, under this name.
void ptx_count(const char* label) {
  if (counting) report_counts(label);
}

// ---- what nvcc's own code calls ----

void** __cudaRegisterFatBinary(void* wrapper) {
  const u8* fat;
  std::memcpy(&fat, static_cast<u8*>(wrapper) + 8, sizeof fat);
  State& s = state();
  s.binaries.push_back(std::make_unique<Binary>());
  s.binaries.back()->module = std::make_unique<Module>(ptx_of(fat));
  return reinterpret_cast<void**>(s.binaries.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Binary& b = *reinterpret_cast<Binary*>(handle);
  CUkern_st& k = b.registered[stub];
  k.module = b.module.get();
  k.name = name;
  state().kernels[stub] = &k;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  state().configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& stack = state().configurations;
  if (stack.empty()) return cudaErrorMissingConfiguration;
  *grid = stack.back().grid, *block = stack.back().block, *shared = stack.back().shared;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const auto at = state().kernels.find(stub);
  if (at == state().kernels.end()) return keep(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(at->second);
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t) {
  CUkern_st& k = *reinterpret_cast<CUkern_st*>(handle);
  try {
    if (!k.kernel) k.kernel = &k.module->kernel(k.name);
    if (const std::string problem = launch_problem(k, grid, block, shared); !problem.empty()) {
      std::fprintf(stderr, "ptx: %s: launched with <<<(%u,%u,%u), (%u,%u,%u), %zu>>>: %s\n", k.name.c_str(),
                   grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, problem.c_str());
      return keep(problem == "shared memory" ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
    }
    std::vector<u8> params(k.kernel->param_bytes + 16);
    for (size_t p = 0; p < k.kernel->params.size(); ++p)
      std::memcpy(&params[k.kernel->params[p].first], args[p], k.kernel->params[p].second);
    run(*k.kernel, *k.module, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, u32(shared),
        params.data());
    return cudaSuccess;
  } catch (const Fault& f) {
    std::fprintf(stderr, "ptx: %s\n", f.what());
    return keep(f.code);
  }
}
cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  cudaKernel_t kernel;
  const cudaError_t status = __cudaGetKernel(&kernel, stub);
  return status ? status : __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  const auto at = state().kernels.find(stub);
  if (at == state().kernels.end()) return keep(cudaErrorInvalidDeviceFunction);
  CUkern_st& k = *at->second;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (!k.kernel) k.kernel = &k.module->kernel(k.name);
  if (value < 0 || value + k.kernel->static_shared > most_shared()) return keep(cudaErrorInvalidValue);
  k.most_dynamic = size_t(value);
  return cudaSuccess;
}

// ---- memory ----

cudaError_t cudaMalloc(void** p, size_t n) {
  const size_t bytes = (n + 255) / 256 * 256 + 256;
  *p = n < size_t(1) << 40 ? std::aligned_alloc(256, bytes) : nullptr;
  if (!*p) return keep(cudaErrorMemoryAllocation);
  std::memset(*p, 0xff, bytes);
  memory().allocations[reinterpret_cast<u64>(*p)] = n;
  state().device_of[reinterpret_cast<u64>(*p)] = state().device;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (p && !memory().allocations.erase(reinterpret_cast<u64>(p))) return keep(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  static char pools;
  *pool = reinterpret_cast<cudaMemPool_t>(&pools);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t) {
  if ((kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && !on_device(to, n))
    return keep(cudaErrorInvalidValue);
  if ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) && !on_device(from, n))
    return keep(cudaErrorInvalidValue);
  if (n) std::memcpy(to, from, n);
  static FILE* copies = std::getenv("PTX_COPIES") ? std::fopen(std::getenv("PTX_COPIES"), "wb") : nullptr;
  if (copies && n && on_device(from, n)) {  // copies to programs, to compare two builds bit for bit
    std::fwrite(&n, sizeof n, 1, copies);
    std::fwrite(from, 1, n, copies);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, n, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t) {
  if (!on_device(p, n)) return keep(cudaErrorInvalidValue);
  if (n) std::memset(p, value, n);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t n) { return cudaMemsetAsync(p, value, n, nullptr); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  const auto [begin, size] = memory().find(reinterpret_cast<u64>(p));
  if (!begin || reinterpret_cast<u64>(p) >= begin + std::max<u64>(size, 1)) return cudaSuccess;
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = state().device_of[begin];
  attributes->devicePointer = const_cast<void*>(p);
  return cudaSuccess;
}

// ---- devices, streams, errors ----

cudaError_t cudaGetLastError() { return std::exchange(state().error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return state().error; }
const char* cudaGetErrorString(cudaError_t e) {
  switch (int(e)) {
    case 0: return "no error";
    case 1: return "invalid argument";
    case 9: return "invalid configuration argument";
    case 98: return "invalid device function";
    case 209: return "PTX that the machine does not understand";
    case 700: return "an illegal memory access was encountered";
    case 702: return "the launch timed out and was terminated";
    case 715: return "an illegal instruction was encountered";
    case 716: return "misaligned address";
    case 719: return "unspecified launch failure";
    case 2: return "out of memory";
    case 101: return "invalid device ordinal";
    default: return "an error";
  }
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* n) {
  *n = state().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int n) {
  if (n != 0 && n != 1) return keep(cudaErrorInvalidDevice);
  state().device = n;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  const char* name = std::getenv("PTX_DEVICE_NAME");
  std::snprintf(properties->name, sizeof properties->name, "%s", name ? name : "host (PTX)");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(most_shared()); break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability() % 10; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrMultiProcessorCount: *value = capability() >= 90 ? 132 : 108; break;
    default: return keep(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return state().error; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return state().error; }
cudaError_t cudaStreamCreate(cudaStream_t* s) {
  *s = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
}

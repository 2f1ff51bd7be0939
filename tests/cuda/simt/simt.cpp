// SPDX-License-Identifier: MIT
// Fibers, the block scheduler, and the runtime calls that host code makes.
#include "simt.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char*, int),
    AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int),
    AnnotateIgnoreWritesEnd(const char*, int);
#define TSAN(...) __VA_ARGS__
#else
#define TSAN(...)
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace simt {

unsigned last_blocks;

#define FOUR(x) x, x, x, x
alignas(16) const unsigned char undefined[256] = {FOUR(FOUR(FOUR(FOUR(0xff))))};

namespace {

// Leave this stack with its registers on it, and go on where the other stack was left.
extern "C" void simt_switch(void** from, void* to);
asm(R"(.text
.globl simt_switch
.hidden simt_switch
simt_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; pop %rcx
  jmp *%rcx
)");

// A stack, and what the sanitizers have to be told when it is left for another.
struct Fiber {
  void* at{};
  const void* stack{};
  size_t size{};
  void* fake{};
  void* tsan{};
};

enum class State { ready, at_barrier, at_warp, exited };

struct Thread : Fiber {
  uint3 idx;
  State state;
  Site site;       // where it waits
  unsigned mask;   // for which lanes,
  const void* in;  // with what,
  Eval eval;       // to do what with what they bring
  void* closure;
};

Fiber scheduler;
std::vector<std::unique_ptr<Thread>>
    threads;  // kept from launch to launch; a block is the first `size`
unsigned size, alive, arrived;
Thread* self;
void (*body)(void*);
void* closure;
std::vector<std::pair<std::unique_ptr<void, void (*)(void*)>, size_t>>
    shared;  // this block's arrays, as its threads take them
size_t shared_left;
std::map<const char*, size_t> device;  // live cudaMalloc allocations,
std::map<const char*, size_t> reserved;  // what `reserve` gave,
std::map<const void*, int> device_of;  // and which of two devices they are on
int current_device;
cudaError_t last_error = cudaSuccess;

// What the race detector orders accesses by; the latter two are new for every block.
char order_start, order_end, order_fence;
struct Order {
  char block, warp[32];
};
std::unique_ptr<Order> order;
void publish(char& order) { TSAN(__tsan_release(&order);)(void) order; }
void observe(char& order) { TSAN(__tsan_acquire(&order);)(void) order; }

// The scheduler's own bookkeeping is no race, however many fibers touch it.
struct Quiet {
  Quiet() {
    TSAN(AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
         AnnotateIgnoreWritesBegin(__FILE__, __LINE__);)
  }
  ~Quiet() {
    TSAN(AnnotateIgnoreWritesEnd(__FILE__, __LINE__); AnnotateIgnoreReadsEnd(__FILE__, __LINE__);)
  }
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "simt: block (%u,%u,%u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               why.c_str());
  std::abort();
}

std::string name(Site s) {
  return std::string(s.file_name()) + ":" + std::to_string(s.line()) + ":" +
         std::to_string(s.column());
}
bool same(Site a, Site b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

void jump(Fiber& from, Fiber& to) {
  ASAN(__sanitizer_start_switch_fiber(&from.fake, to.stack, to.size);)
  TSAN(__tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);)
  simt_switch(&from.at, to.at);
  ASAN(__sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);)
}

bool release_barrier() {
  if (!arrived || arrived < alive) return false;
  const Thread* first = nullptr;
  for (unsigned i = 0; i < size; ++i) {
    Thread& t = *threads[i];
    if (t.state != State::at_barrier) continue;
    if (!first) first = &t;
    if (!same(t.site, first->site))
      die("threads meet in different __syncthreads: " + name(first->site) + " and " + name(t.site));
    t.state = State::ready;
  }
  arrived = 0;
  return true;
}

// Once all lanes that `any` waits for are there, hand each what it came for.
bool release_lanes(unsigned warp, const Thread& any) {
  const void* in[32] = {};
  for (unsigned l = 0; l < 32; ++l) {
    const unsigned i = warp * 32 + l;
    if (!(any.mask >> l & 1) || i >= size || threads[i]->state == State::exited) continue;
    const Thread& t = *threads[i];
    if (t.state != State::at_warp || t.mask != any.mask) return false;
    if (!same(t.site, any.site))
      die("lanes meet in different collectives: " + name(any.site) + " and " + name(t.site));
    in[l] = t.in;
  }
  const uint3 mine = threadIdx;
  for (unsigned l = 0; l < 32; ++l) {
    if (!in[l]) continue;
    Thread& t = *threads[warp * 32 + l];
    threadIdx = t.idx;
    t.eval(t.closure, in);
    t.state = State::ready;
  }
  threadIdx = mine;
  return true;
}

// Those who have left hold up nobody.
bool release_any() {
  bool any = release_barrier();
  for (unsigned i = 0; i < size; ++i)
    any |= threads[i]->state == State::at_warp && release_lanes(i / 32, *threads[i]);
  return any;
}

[[noreturn]] void deadlock() {
  std::map<std::string, unsigned> waiting;
  for (unsigned i = 0; i < size; ++i) {
    const Thread& t = *threads[i];
    char lanes[32] = "";
    if (t.state == State::at_warp) std::snprintf(lanes, sizeof lanes, " for lanes %#x", t.mask);
    if (t.state != State::exited) ++waiting[name(t.site) + lanes];
  }
  std::string why = "deadlock";
  for (auto& [where, count] : waiting)
    why.append("; ").append(std::to_string(count)).append(" threads wait at ").append(where);
  die(why);
}

void run_thread() {
  {
    Quiet quiet;
    observe(order_start);
  }
  body(closure);
  Quiet quiet;
  publish(order_end);
  self->state = State::exited;
  --alive;
  jump(*self, scheduler);
}

void entry() {
  ASAN(__sanitizer_finish_switch_fiber(nullptr, &scheduler.stack, &scheduler.size);)
  for (;;) run_thread();
}

std::unique_ptr<Thread> make_thread() {
  constexpr size_t bytes = 65 * 4096, guard = 4096;
  const size_t stagger =
      threads.size() * 320 % 4096;  // stacks that start alike would fight for the same cache lines
  char* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE)) die("no memory for a stack");
  auto t = std::make_unique<Thread>();
  t->stack = memory + guard;
  t->size = bytes - guard - stagger;
  void** top = reinterpret_cast<void**>(memory + guard + t->size);
  top[-2] = reinterpret_cast<void*>(entry);
  t->at = top - 8;
  TSAN(t->tsan = __tsan_create_fiber(0);)
  return t;
}

// The warps of a block run one after another, each as far as it can without the others, and so do
// the lanes of a warp: what the program does not order happens in the order least like a GPU's. A
// seed shuffles who goes first.
void run_block(size_t smem, std::mt19937* random) {
  shared.clear();
  shared_left = smem;
  order = std::make_unique<Order>();
  publish(order_start);
  for (unsigned i = 0; i < size; ++i) {
    Thread& t = *threads[i];
    t.idx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    t.state = State::ready;
  }
  unsigned warps[32], lanes[32];
  std::iota(warps, warps + 32, 0u), std::iota(lanes, lanes + 32, 0u);
  for (alive = size; alive;) {
    bool progress = false;
    if (random) std::shuffle(warps, warps + 32, *random);
    for (unsigned w : warps)
      for (bool moved = w * 32 < size; moved; progress |= moved) {
        moved = false;
        if (random) std::shuffle(lanes, lanes + 32, *random);
        for (unsigned l : lanes) {
          if (w * 32 + l >= size || threads[w * 32 + l]->state != State::ready) continue;
          self = threads[w * 32 + l].get();
          threadIdx = self->idx;
          jump(scheduler, *self);
          moved = true;
        }
      }
    if (alive && !progress && !release_any()) deadlock();
  }
}

// Under AddressSanitizer, device memory is out of bounds for the host.
void expose_device(bool yes) {
  ASAN(for (auto [p, n] : device) yes ? __asan_unpoison_memory_region(p, n)
                                      : __asan_poison_memory_region(p, n);)(void) yes;
}

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

}  // namespace

void run(dim3 grid, dim3 block, size_t smem, void (*b)(void*), void* c) {
  const size_t n = size_t(block.x) * block.y * block.z;
  if (!n || n > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z || grid.y > 65535 ||
      grid.z > 65535 || smem > 227 * 1024) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  Quiet quiet;
  TSAN(scheduler.tsan = __tsan_get_current_fiber();)
  gridDim = grid, blockDim = block, size = unsigned(n), body = b, closure = c;
  while (threads.size() < size) threads.push_back(make_thread());
  const char* seed = std::getenv("SIMT_SEED");
  const bool across_blocks = std::getenv(
      "SIMT_GRID_RACES");  // only for kernels without static __shared__, which blocks share here
  std::mt19937 random(seed ? std::atoi(seed) : 0);
  const unsigned first = last_blocks && grid.x > last_blocks ? grid.x - last_blocks : 0;
  expose_device(true);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = first; blockIdx.x < grid.x; ++blockIdx.x) {
        run_block(smem, seed ? &random : nullptr);
        if (across_blocks)
          std::rotate(threads.begin(), threads.begin() + size / 3 + 1, threads.begin() + size);
        else observe(order_end);
      }
  observe(order_end);
  expose_device(false);
}

void* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  reserved[static_cast<char*>(p)] = bytes;
  return p;
}

void* take_shared(unsigned index, size_t bytes) {
  Quiet quiet;
  if (index == shared.size()) {
    if (shared_bytes<char>(bytes) > shared_left) die("more shared memory taken than launched with");
    shared_left -= shared_bytes<char>(bytes);
    void* p = nullptr;
    if (posix_memalign(&p, 128, bytes)) die("no memory for a shared array");
    shared.emplace_back(
        std::unique_ptr<void, void (*)(void*)>(std::memset(p, 0xff, bytes), std::free), bytes);
  }
  if (shared[index].second != bytes) die("threads take different shared arrays");
  return shared[index].first.get();
}

void barrier(Site at) {
  Quiet quiet;
  Thread& me = *self;
  publish(order->block);
  me.site = at, me.state = State::at_barrier, ++arrived;
  if (!release_barrier()) jump(me, scheduler);
  observe(order->block);
}

void fence() {
  observe(order_fence);
  publish(order_fence);
}

void meet(unsigned mask, bool orders_memory, const void* in, Eval eval, void* closure, Site at) {
  Quiet quiet;
  Thread& me = *self;
  const unsigned warp = thread_rank() / 32;
  if (!(mask >> lane() & 1)) die("a lane outside its own mask, at " + name(at));
  if (orders_memory) publish(order->warp[warp]);
  me.site = at, me.mask = mask, me.in = in, me.eval = eval, me.closure = closure,
  me.state = State::at_warp;
  if (!release_lanes(warp, me)) jump(me, scheduler);
  if (orders_memory) observe(order->warp[warp]);
}

}  // namespace simt

// The CUDA runtime, as far as host code that launches kernels needs it. Streams run in order, at
// once.
using simt::current_device, simt::device, simt::device_of, simt::expose_device,
    simt::require_device;
extern "C" {
cudaError_t cudaMalloc(void** p, size_t n) {
  *p = std::malloc(n);
  std::memset(*p, 0xff, n);
  device[static_cast<char*>(*p)] = n;
  device_of[*p] = current_device;
  ASAN(__asan_poison_memory_region(*p, n);)
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  ASAN(if (p) __asan_unpoison_memory_region(p, device[static_cast<char*>(p)]);)
  device.erase(static_cast<char*>(p));
  device_of.erase(p);
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) require_device(to);
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) require_device(from);
  expose_device(true);
  std::memcpy(to, from, n);
  expose_device(false);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, n, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t) {
  require_device(p);
  expose_device(true);
  std::memset(p, value, n);
  expose_device(false);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t n) {
  return cudaMemsetAsync(p, value, n, nullptr);
}
cudaError_t cudaGetLastError() { return std::exchange(simt::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return simt::last_error; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : "invalid configuration";
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* n) {
  *n = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int n) {
  if (n != 0 && n != 1) return cudaErrorInvalidDevice;
  current_device = n;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
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
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* s) {
  *s = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
}

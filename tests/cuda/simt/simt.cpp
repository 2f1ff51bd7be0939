// SPDX-License-Identifier: MIT
// Fibers, the block scheduler, and the runtime calls that host code makes.
#include "simt.h"

#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

// This file is compiled without a sanitizer, which would watch the scheduler more than the kernels;
// what the sanitizers must know is told them here.
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char*, int),
    AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int),
    AnnotateIgnoreWritesEnd(const char*, int);
extern "C" void __tsan_read16(void*);
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

// cp.async: what arrives, and in which group of its thread.
struct Copy {
  void* to;
  const void* from;
  size_t bytes, of_these, group;  // behind what is copied there are zeros
};

enum class State { ready, at_barrier, at_warp, exited };

struct Thread : Fiber {
  uint3 idx;
  State state;
  bool vote;       // vote brought to a barrier, then that of all
  Site site;       // place of the wait
  unsigned mask;   // for which lanes,
  const void* in;  // with what,
  Eval eval;       // to do what with what they bring
  void* closure;
  std::vector<Copy> copies;  // copies that have not arrived
  size_t groups;
};

Fiber scheduler;
std::vector<std::unique_ptr<Thread>>
    threads;  // kept from launch to launch; a block is the first `size`
unsigned size, alive, arrived;
unsigned lanes_at_warp[32], lanes_exited[32];  // lanes of each warp in these two states
Thread* self;
void (*body)(void*);
void* closure;
std::vector<std::pair<std::unique_ptr<void, void (*)(void*)>, size_t>>
    shared;  // arrays as the threads of a block take them, kept for the next one
unsigned shared_taken;  // of these, by this block
size_t shared_left;
std::map<const char*, size_t> device;  // live cudaMalloc allocations,
std::map<const char*, size_t> reserved;  // memory from `reserve`,
std::map<const void*, int> device_of;  // the one of two devices that they are on,
std::set<const void*> ordered;         // and those in the order of a stream
thread_local int current_device;
thread_local cudaError_t last_error = cudaSuccess;

// Threads of the host may all call the runtime; it does one thing at a time.
std::recursive_mutex runtime;
using Turn = std::lock_guard<std::recursive_mutex>;

// Shared memory of a launch on the smallest device for kernels: without a request, and with one.
constexpr int plain_shared = 48 << 10, most_shared = 99 << 10;
std::map<std::pair<const void*, int>, int> allowed_shared;  // by kernel and device

// A call that fails says so twice.
cudaError_t fail(cudaError_t error) { return last_error = error; }

// Versions as 10 * major + minor, or 1000 * major + 10 * minor; the environment may name older
// ones.
int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
int capability() { return setting("SIMT_CAPABILITY", 80); }
int driver() { return setting("SIMT_DRIVER", CUDART_VERSION); }

// Objects by which the race detector orders accesses; those in Order are new for every block.
char order_start, order_end, order_fence;
struct Order {
  char block, warp[32];
};
std::unique_ptr<Order> order;
void publish(char& order) { TSAN(__tsan_release(&order);)(void) order; }
void observe(char& order) { TSAN(__tsan_acquire(&order);)(void) order; }

// What the scheduler touches for others is no race, whichever fiber it runs on.
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
bool same(const Site& a, const Site& b) {
  // mostly one object of the compiler
  if (std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof a) == 0)
    return true;
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
  bool all = true;
  for (unsigned i = 0; i < size; ++i)
    all = all && (threads[i]->state != State::at_barrier || threads[i]->vote);
  for (unsigned i = 0; i < size; ++i) {
    Thread& t = *threads[i];
    if (t.state != State::at_barrier) continue;
    t.vote = all;
    if (!first) first = &t;
    if (!same(t.site, first->site))
      die("threads meet in different __syncthreads: " + name(first->site) + " and " + name(t.site));
    t.state = State::ready;
  }
  arrived = 0;
  return true;
}

unsigned long meeting;  // number of the one whose lanes get what they came for

// Hand each lane what it came for, once all lanes that `any` waits for are there.
bool release_lanes(unsigned warp, const Thread& any) {
  if (any.mask & ~(lanes_at_warp[warp] | lanes_exited[warp])) return false;
  const void* in[32] = {};
  for (unsigned l = 0; l < 32; ++l) {
    if (!((any.mask & ~lanes_exited[warp]) >> l & 1)) continue;
    const Thread& t = *threads[warp * 32 + l];
    if (t.mask != any.mask) return false;
    if (!same(t.site, any.site))
      die("lanes meet in different collectives: " + name(any.site) + " and " + name(t.site));
    in[l] = t.in;
  }
  const Quiet quiet;
  const uint3 mine = threadIdx;
  ++meeting;
  for (unsigned l = 0; l < 32; ++l) {
    if (!in[l]) continue;
    Thread& t = *threads[warp * 32 + l];
    threadIdx = t.idx;
    t.eval(t.closure, in);
    t.state = State::ready;
    lanes_at_warp[warp] &= ~(1u << l);
  }
  threadIdx = mine;
  return true;
}

// Release threads that wait; those that have left hold up nobody.
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

// The warps of a block run one after another, each as far as it can without the others, and so do
// the lanes of a warp: what the program does not order happens in the order least like a GPU's. A
// seed shuffles who goes first.
class Turns {
  unsigned warps[32], lanes[32], n_warps, warp, lane;
  bool moved, progress;  // in this pass over a warp, and over the block

  void pass_over_block() {
    if (random) std::shuffle(warps, warps + n_warps, *random);
    warp = 0, progress = false;
    pass_over_warp();
  }
  void pass_over_warp() {
    if (random) std::shuffle(lanes, lanes + 32, *random);
    lane = 0, moved = false;
  }

 public:
  std::mt19937_64* random;

  void begin() {
    n_warps = (size + 31) / 32;
    std::iota(warps, warps + 32, 0u), std::iota(lanes, lanes + 32, 0u);
    pass_over_block();
  }
  // The thread that goes on; none once all have left.
  Thread* next() {
    while (alive) {
      while (lane < 32) {
        const unsigned i = warps[warp] * 32 + lanes[lane++];
        if (i < size && threads[i]->state == State::ready) {
          moved = true;
          return threads[i].get();
        }
      }
      progress = progress || moved;
      if (moved) pass_over_warp();
      else if (++warp < n_warps) pass_over_warp();
      else if (progress || release_any()) pass_over_block();
      else deadlock();
    }
    return nullptr;
  }
} turns;

// Go on with another thread, until it is this one's turn again.
void leave() {
  Thread& from = *self;
  Thread* const to = turns.next();
  if (to) {
    self = to;
    threadIdx = to->idx;
  }
  if (to != &from) jump(from, to ? static_cast<Fiber&>(*to) : scheduler);
}

void run_thread() {
  observe(order_start);
  body(closure);
  if (!self->copies.empty()) die("a thread ends before its copies have arrived");
  publish(order_end);
  self->state = State::exited;
  const int rank = thread_rank();
  lanes_exited[rank / 32] |= 1u << rank % 32;
  --alive;
  leave();
}

void entry() {
  // the very first is entered from the scheduler, whose stack is the host's
  ASAN(const void* stack; size_t n; __sanitizer_finish_switch_fiber(nullptr, &stack, &n);
       if (!scheduler.stack) scheduler.stack = stack, scheduler.size = n;)
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

void run_block(size_t smem) {
  TSAN(shared.clear();)  // blocks have an order in the same memory, and not in what is new
  shared_taken = 0;
  shared_left = smem;
  order = std::make_unique<Order>();
  publish(order_start);
  for (unsigned i = 0; i < size; ++i) {
    Thread& t = *threads[i];
    t.idx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    t.state = State::ready;
    t.copies.clear(), t.groups = 0;
  }
  for (unsigned w = 0; w < 32; ++w) {
    lanes_at_warp[w] = 0;
    lanes_exited[w] = size >= 32 * (w + 1) ? 0 : size <= 32 * w ? ~0u : ~0u << size % 32;
  }
  alive = size;
  turns.begin();
  self = turns.next();
  threadIdx = self->idx;
  jump(scheduler, *self);
}

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

// Under AddressSanitizer, and with SIMT_GUARD, device memory is out of bounds for the host, and with
// the latter that of the other device for a kernel.
void expose_device(bool yes, bool both) {
  for (int d = 0; d < 2; ++d)
    if (both || d == current_device) guarded[d].expose(yes);
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

void run(const void* kernel, dim3 grid, dim3 block, size_t smem, void (*b)(void*), void* c) {
  const Turn turn(runtime);
  const size_t n = size_t(block.x) * block.y * block.z;
  if (!n || n > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z || grid.x > INT_MAX ||
      grid.y > 65535 || grid.z > 65535) {
    fail(cudaErrorInvalidConfiguration);
    return;
  }
  const auto allowed = allowed_shared.find({kernel, current_device});
  if (smem > size_t(allowed == allowed_shared.end() ? plain_shared : allowed->second)) {
    fail(cudaErrorInvalidValue);
    return;
  }
  if (capability() < 80) {
    fail(cudaErrorNoKernelImageForDevice);
    return;
  }
  Quiet quiet;
  TSAN(scheduler.tsan = __tsan_get_current_fiber();)
  gridDim = grid, blockDim = block, size = unsigned(n), body = b, closure = c;
  while (threads.size() < size) threads.push_back(make_thread());
  const char* seed = std::getenv("SIMT_SEED");
  const bool across_blocks = std::getenv(
      "SIMT_GRID_RACES");  // only for kernels without static __shared__, which blocks share here
  std::mt19937_64 random(seed ? std::atoi(seed) : 0);
  turns.random = seed ? &random : nullptr;
  const unsigned first = last_blocks && grid.x > last_blocks ? grid.x - last_blocks : 0;
  expose_device(true, false);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = first; blockIdx.x < grid.x; ++blockIdx.x) {
        run_block(smem);
        if (across_blocks)
          std::rotate(threads.begin(), threads.begin() + size / 3 + 1, threads.begin() + size);
        else observe(order_end);
      }
  observe(order_end);
  expose_device(false, false);
}

void* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  reserved[static_cast<char*>(p)] = bytes;
  return p;
}

void* take_shared(unsigned index, size_t bytes) {
  if (index == shared_taken) {
    const Quiet quiet;
    if (shared_bytes<char>(bytes) > shared_left) die("more shared memory taken than launched with");
    shared_left -= shared_bytes<char>(bytes);
    if (index == shared.size() || shared[index].second != bytes) {
      void* p = nullptr;
      shared.erase(shared.begin() + index, shared.end());
      if (posix_memalign(&p, 128, bytes)) die("no memory for a shared array");
      shared.emplace_back(std::unique_ptr<void, void (*)(void*)>(p, std::free), bytes);
    }
    std::memset(shared[index].first.get(), 0xff, bytes);
    ++shared_taken;
  }
  if (shared[index].second != bytes) die("threads take different shared arrays");
  return shared[index].first.get();
}

bool barrier(bool vote, Site at) {
  Thread& me = *self;
  publish(order->block);
  me.site = at, me.vote = vote, me.state = State::at_barrier, ++arrived;
  if (!release_barrier()) leave();
  observe(order->block);
  return me.vote;
}

void copy_later(void* to, const void* from, size_t bytes, size_t of_these) {
  self->copies.push_back({to, from, bytes, of_these, self->groups});
}

void end_group() { ++self->groups; }

void await_groups(size_t n) {
  auto& copies = self->copies;  // in the order of their groups
  const auto late = std::find_if(copies.begin(), copies.end(), [&](const Copy& c) {
    return c.group + n >= self->groups;
  });
  for (auto c = copies.begin(); c != late; ++c) {
    std::memcpy(c->to, c->from, c->of_these);
    std::memset(static_cast<char*>(c->to) + c->of_these, 0, c->bytes - c->of_these);
  }
  copies.erase(copies.begin(), late);
}

void fence() {
  observe(order_fence);
  publish(order_fence);
}

void meet(unsigned mask, bool orders_memory, const void* in, Eval eval, void* closure, Site at) {
  Thread& me = *self;
  const unsigned warp = thread_rank() / 32;
  if (!(mask >> lane() & 1)) die("a lane outside its own mask, at " + name(at));
  if (orders_memory) publish(order->warp[warp]);
  me.site = at, me.mask = mask, me.in = in, me.eval = eval, me.closure = closure,
  me.state = State::at_warp;
  lanes_at_warp[warp] |= 1u << lane();
  if (!release_lanes(warp, me)) leave();
  if (orders_memory) observe(order->warp[warp]);
}

void shuffle(unsigned mask, const void* mine, void* out, size_t bytes, int from, Site at) {
  const auto eval = [&](const void* const* in) {
    const void* const x = in[from] ? in[from] : undefined;
    if (bytes == 4) __builtin_memcpy(out, x, 4);  // a call of its own would be watched
    else if (bytes == 8) __builtin_memcpy(out, x, 8);
    else std::memcpy(out, x, bytes);
  };
  using E = decltype(eval);
  meet(
      mask, false, mine,
      [](void* e, const void* const* in) { (*static_cast<E*>(e))(in); },
      const_cast<void*>(static_cast<const void*>(&eval)), at);
}

namespace {

// What a lane brings to a product of matrices.
struct Fragments {
  unsigned a[4], b[2];
};

template <class T>
float element(unsigned pair, int i) {
  return float(bits<T>(uint16_t(pair >> 16 * i)));
}

template <class T>
void mma_16_bits(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  // the first lanes that hold this lane's rows of a, and its columns of b
  const int row = lane() / 4 * 4, column = lane() % 4 * 8;
  const auto products = [&](Lanes<Fragments> in) {
    static unsigned long unpacked;  // at this meeting
    static float x[32][4][2], y[32][2][2];
    if (std::exchange(unpacked, meeting) != meeting)
      for (int l = 0; l < 32; ++l)
        for (int k = 0; k < 2; ++k) {
          for (int i = 0; i < 4; ++i) x[l][i][k] = element<T>(in[l].a[i], k);
          for (int i = 0; i < 2; ++i) y[l][i][k] = element<T>(in[l].b[i], k);
        }
    std::array<float, 4> sum{d[0], d[1], d[2], d[3]};
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 4; ++i)
        sum[i] += x[row + k % 8 / 2][k / 8 * 2 + i / 2][k % 2] *
                  y[column + i % 2 * 4 + k % 8 / 2][k / 8][k % 2];
    return sum;
  };
  const auto sum = collective(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, products, at);
  std::copy(sum.begin(), sum.end(), d);
}

template <bool transposed>
void load_8x8(unsigned (&d)[4], const void* row, Site at) {
  constexpr size_t row_bytes = 16;
  if (reinterpret_cast<uintptr_t>(row) % row_bytes) die("a row that is not aligned, at " + name(at));
  ASAN(if (__asan_region_is_poisoned(const_cast<void*>(row), row_bytes))
           die("a row outside its array, at " + name(at));)
  TSAN(__tsan_read16(const_cast<void*>(row));)
  const int i = lane() / 4, j = lane() % 4 * 2;
  const auto mine = [&](Lanes<const void*> in) {
    std::array<unsigned, 4> got;
    for (int m = 0; m < 4; ++m) {
      uint16_t x[2];
      for (int k = 0; k < 2; ++k)
        x[k] = transposed ? static_cast<const uint16_t*>(in[8 * m + j + k])[i]
                          : static_cast<const uint16_t*>(in[8 * m + i])[j + k];
      got[m] = x[0] | unsigned(x[1]) << 16;
    }
    return got;
  };
  const auto got = collective(~0u, row, mine, at);
  std::copy(got.begin(), got.end(), d);
}

// f of what the lanes bring where all of them get the same: found once a meeting.
template <class T, class F>
auto common(unsigned mask, const T& mine, F f, Site at) {
  const auto once = [&](Lanes<T> in) {
    static unsigned long found;
    static std::invoke_result_t<F, Lanes<T>> result;
    if (std::exchange(found, meeting) != meeting) result = f(in);
    return result;
  };
  return collective(mask, mine, once, at);
}

}  // namespace
}  // namespace simt

using namespace simt;

void __syncwarp(unsigned mask, Site at) {
  collective(mask, 0, [](auto) { return 0; }, at, true);
}
unsigned __ballot_sync(unsigned mask, int p, Site at) {
  const auto votes = [](Lanes<int> in) {
    unsigned all = 0;
    for (int l = 0; l < warpSize; ++l)
      if (in.has(l) && in[l]) all |= 1u << l;
    return all;
  };
  return common(mask, p, votes, at);
}
unsigned __reduce_min_sync(unsigned mask, unsigned v, Site at) {
  const auto minimum = [](Lanes<unsigned> in) {
    unsigned least = ~0u;
    for (int l = 0; l < warpSize; ++l)
      if (in.has(l)) least = std::min(least, in[l]);
    return least;
  };
  return common(mask, v, minimum, at);
}
void mma_m16n8k16(__half, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  mma_16_bits<__half>(d, a, b, at);
}
void mma_m16n8k16(__nv_bfloat16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  Site at) {
  mma_16_bits<__nv_bfloat16>(d, a, b, at);
}
void mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  const int row = lane() / 4 * 4, column = lane() % 4 * 8;
  const auto products = [&](Lanes<Fragments> in) {
    const auto read = [](unsigned x) { return bits<float>(x & ~0x1fffu); };
    std::array<float, 4> sum{d[0], d[1], d[2], d[3]};
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 4; ++i)
        sum[i] += read(in[row + k % 4].a[k / 4 * 2 + i / 2]) *
                  read(in[column + i % 2 * 4 + k % 4].b[k / 4]);
    return sum;
  };
  const auto sum = collective(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, products, at);
  std::copy(sum.begin(), sum.end(), d);
}
void load_matrices(unsigned (&d)[4], const void* row, Site at) { load_8x8<false>(d, row, at); }
void load_matrices_transposed(unsigned (&d)[4], const void* row, Site at) {
  load_8x8<true>(d, row, at);
}

// The CUDA runtime, as far as host code that launches kernels needs it. Streams run in order, at
// once. Calls that fail leave their error for cudaGetLastError, and what CUDA refuses is refused.
namespace simt {
namespace {

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
}  // namespace simt

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

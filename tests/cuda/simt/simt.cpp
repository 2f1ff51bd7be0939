// SPDX-License-Identifier: MIT
// Fibers and the scheduler of blocks.
#include "runtime.h"

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
#include <string>
#include <vector>

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

}  // namespace

unsigned long meeting;

void die(const std::string& why) {
  std::fprintf(stderr, "simt: block (%u,%u,%u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               why.c_str());
  std::abort();
}

std::string name(Site s) {
  return std::string(s.file_name()) + ":" + std::to_string(s.line()) + ":" +
         std::to_string(s.column());
}
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

}  // namespace simt

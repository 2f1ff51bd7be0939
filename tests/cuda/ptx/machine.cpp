// SPDX-License-Identifier: MIT
// Warps, blocks and grids. Every lane has its own program counter; of a warp's lanes those that are
// least far go on together, so lanes that part meet again where their paths do.
#include "machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <unordered_map>

namespace ptx {

const bool watching = std::getenv("PTX_RACES") != nullptr;

Memory& memory() {
  static Memory& m = *new Memory;  // never destroyed: others free memory late
  return m;
}

namespace {

constexpr int illegal_address = 700, misaligned_address = 716, illegal_instruction = 715,
              launch_failure = 719, timed_out = 702;

struct AlignedFree {
  void operator()(u8* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<u8[], AlignedFree>;
Bytes aligned_bytes(size_t n) {
  return Bytes(static_cast<u8*>(std::aligned_alloc(64, (n + 64 + 63) / 64 * 64)));
}

u32 bits_of(const u8* predicate) {
  const __m256i p = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(predicate));
  return ~u32(_mm256_movemask_epi8(_mm256_cmpeq_epi8(p, _mm256_setzero_si256())));
}

template <class T>
void fill(Warp& w, u32 row, T value) {
  std::fill_n(w.row<T>(row), lanes, value);
}

// Two bytes of memory.
struct Seen {
  int block = -1, warp = 0, epoch = 0, line = 0;
  bool several_blocks = false, several_warps = false;
  bool conflicts(int b, int w, int e) const {
    if (block < 0) return false;
    return block != b || several_blocks || (epoch == e && (warp != w || several_warps));
  }
  void add(int b, int w, int e, int l) {
    several_blocks |= block >= 0 && block != b;
    several_warps = block == b && epoch == e && (several_warps || warp != w);
    block = b, warp = w, epoch = e, line = l;
  }
};
struct Watched {
  Seen reads, writes;
  bool constant = false;
};
std::unordered_map<u64, Watched> seen_global, seen_shared;

struct Machine {
  Kernel& kernel;
  Block block;
  u32 n_threads;
  std::vector<Warp> warps;
  u64 budget;
  bool alone;  // each lane goes as far as it can without the others

  // Lanes that wait for each other at this instruction go through it once all are there.
  bool try_meet(Warp& w, u32 pc, u32 need) {
    const u32 those = need & w.live;
    if ((those & w.waiting) != those) return false;
    for (u32 m = those; m; m &= m - 1) {
      const int l = std::countr_zero(m);
      if (w.at_barrier >> l & 1 || w.pc[l] != pc || w.need[l] != need) return false;
    }
    const Instr& i = kernel.code[pc];
    w.mask = those;
    if (counting) [[unlikely]] count(w, i, those);
    i.step(w, i);
    i.seen += 1;
    for (u32 m = those; m; m &= m - 1) w.pc[std::countr_zero(m)] = pc + 1;
    w.waiting &= ~those;
    return true;
  }

  // Run these lanes on from pc until they part, wait, or are as far as others.
  void advance(Warp& w, u32 pc, u32 mask, u32 limit) {
    const Instr* code = kernel.code.data();
    const auto leave_at = [&](u32 lanes_of, u32 at) {
      for (u32 m = lanes_of; m; m &= m - 1) w.pc[std::countr_zero(m)] = at;
    };
    for (;;) {
      const Instr& i = code[pc];
      u32 active = mask;
      if (i.guard) {
        const u32 p = bits_of(w.row<u8>(i.guard));
        active &= i.unless ? ~p : p;
      }
      i.seen += active != 0;
      if (counting && i.kind != Kind::meet) [[unlikely]] count(w, i, active);
      switch (i.kind) {
        case Kind::plain:
          if (active) {
            w.mask = active;
            i.step(w, i);
          }
          ++pc;
          break;
        case Kind::branch:
          if (active == mask) {
            if (i.target <= pc && !--budget) fault(w, i, -1, timed_out, "no end in sight");
            pc = i.target;
          } else if (!active) {
            ++pc;
          } else {
            leave_at(active, i.target);
            leave_at(mask & ~active, pc + 1);
            return;
          }
          break;
        case Kind::table: {
          leave_at(mask & ~active, pc + 1);
          const u32* at = w.row<u32>(i.r[0]);
          for (u32 m = active; m; m &= m - 1) {
            const int l = std::countr_zero(m);
            if (at[l] >= i.targets.size()) fault(w, i, l, illegal_instruction, "no such branch");
            w.pc[l] = i.targets[at[l]];
          }
          return;
        }
        case Kind::leave:
          w.live &= ~active;
          mask &= ~active;
          if (!mask) return;
          ++pc;
          break;
        case Kind::barrier:
          leave_at(active, pc);
          leave_at(mask & ~active, pc + 1);
          w.waiting |= active;
          w.at_barrier |= active;
          if (active) return;
          ++pc;
          break;
        case Kind::meet: {
          if (!active) {
            ++pc;
            break;
          }
          bool alike = true;
          const u32 first = i.all ? ~0u : w.row<u32>(i.r[15])[std::countr_zero(active)];
          for (u32 m = active; m; m &= m - 1) {
            const int l = std::countr_zero(m);
            const u32 need = i.all ? ~0u : w.row<u32>(i.r[15])[l];
            if (!(need >> l & 1)) fault(w, i, l, illegal_instruction, "a lane outside its own mask");
            w.need[l] = need;
            alike &= need == first;
          }
          if (alike && active == (first & w.live)) {
            w.mask = active;
            if (counting) [[unlikely]] count(w, i, active);
            i.step(w, i);
            ++pc;
            break;
          }
          leave_at(active, pc);
          leave_at(mask & ~active, pc + 1);
          w.waiting |= active;
          for (u32 m = active; m; m &= m - 1) {
            const int l = std::countr_zero(m);
            if (w.waiting >> l & 1) try_meet(w, pc, w.need[l]);
          }
          return;
        }
      }
      if (pc >= limit) return leave_at(mask, pc);
    }
  }

  // Run a warp as far as it can without the others.
  bool go_on(Warp& w) {
    bool moved = false;
    for (;;) {
      const u32 ready = w.live & ~w.waiting;
      if (!ready) {
        bool met = false;
        for (u32 m = w.live & w.waiting & ~w.at_barrier; m && !met; m &= m - 1) {
          const int l = std::countr_zero(m);
          met = try_meet(w, w.pc[l], w.need[l]);
        }
        if (!met) return moved;
        moved = true;
        continue;
      }
      u32 pc = ~0u, limit = ~0u, mask = 0;
      moved = true;
      if (alone) {
        const int l = std::countr_zero(ready);
        advance(w, w.pc[l], 1u << l, limit);
        continue;
      }
      for (u32 m = ready; m; m &= m - 1) pc = std::min(pc, w.pc[std::countr_zero(m)]);
      for (u32 m = ready; m; m &= m - 1) {
        const int l = std::countr_zero(m);
        if (w.pc[l] == pc) mask |= 1u << l;
        else limit = std::min(limit, w.pc[l]);
      }
      advance(w, pc, mask, limit);
    }
  }

  // All threads that have not left are at a barrier.
  bool pass_barrier() {
    u32 at = ~0u;
    for (Warp& w : warps)
      for (u32 m = w.live; m; m &= m - 1) {
        const int l = std::countr_zero(m);
        if (!(w.at_barrier >> l & 1)) return false;
        const Instr& i = kernel.code[w.pc[l]];
        if (at == ~0u) at = w.pc[l];
        if (i.r[0] != kernel.code[at].r[0]) return false;
        if (i.all && w.pc[l] != w.pc[std::countr_zero(w.live)])
          fault(w, i, l, launch_failure, "lanes of a warp meet in different barriers");
      }
    if (at == ~0u) return false;
    ++block.epoch;
    if (counting) count_barrier();
    combine_at_barrier();
    for (Warp& w : warps) {
      for (u32 m = w.live; m; m &= m - 1) ++w.pc[std::countr_zero(m)];
      w.waiting &= ~w.live;
      w.at_barrier = 0;
    }
    return true;
  }

  // bar.red: of the predicates of all threads whether all or any hold, or how many. Rows 1: result,
  // 2: predicate, 3: 1 and, 2 or, 3 popc.
  void combine_at_barrier() {
    u32 threads = 0, hold = 0;
    const auto every = [&](auto&& visit) {
      for (Warp& w : warps)
        for (u32 m = w.live; m; m &= m - 1) {
          const int l = std::countr_zero(m);
          if (const Instr& i = kernel.code[w.pc[l]]; i.r[3]) visit(w, i, l);
        }
    };
    every([&](Warp& w, const Instr& i, int l) { ++threads, hold += w.row<u8>(i.r[2])[l] != 0; });
    every([&](Warp& w, const Instr& i, int l) {
      if (i.r[3] == 3) w.row<u32>(i.r[1])[l] = hold;
      else w.row<u8>(i.r[1])[l] = i.r[3] == 1 ? hold == threads : hold != 0;
    });
  }

  void deadlock() {
    for (Warp& w : warps)
      for (u32 m = w.live; m; m &= m - 1) {
        const int l = std::countr_zero(m);
        fault(w, kernel.code[w.pc[l]], l, launch_failure,
              w.at_barrier >> l & 1 ? "waits for ever at a barrier" : "waits for ever for lanes");
      }
  }

  void run_block(std::mt19937* random) {
    std::fill(block.shared.begin(), block.shared.end(), 0xff);
    seen_shared.clear();
    if (counting) count_block();
    for (Warp& w : warps) {
      const u32 left = n_threads - w.number * lanes;
      w.live = left >= lanes ? ~0u : (1u << left) - 1;
      w.waiting = w.at_barrier = 0;
      w.copies.clear();
      std::fill_n(w.groups, lanes, 0u);
      std::fill_n(w.pc, lanes, 0u);
      for (auto [row, special] : kernel.specials)
        if (special >= Special::ctaid_x && special <= Special::ctaid_z)
          fill<u32>(w, row, block.index[int(special) - int(Special::ctaid_x)]);
    }
    std::vector<u32> order(warps.size());
    std::iota(order.begin(), order.end(), 0u);
    for (;;) {
      if (random) std::shuffle(order.begin(), order.end(), *random);
      bool moved = false, alive = false;
      for (u32 i : order) moved |= go_on(warps[i]);
      for (const Warp& w : warps) alive |= w.live != 0;
      if (!alive) {
        if (counting) count_block_end(kernel);
        return;
      }
      if (!pass_barrier() && !moved) deadlock();
    }
  }
};

u32 special_value(Special s, const u32 (&grid)[3], const u32 (&block)[3], u32 thread, u32 n,
                  u32 dynamic, u32 total) {
  const u32 lane = thread % lanes;
  switch (s) {
    case Special::tid_x: return thread % block[0];
    case Special::tid_y: return thread / block[0] % block[1];
    case Special::tid_z: return thread / block[0] / block[1];
    case Special::ntid_x: return block[0];
    case Special::ntid_y: return block[1];
    case Special::ntid_z: return block[2];
    case Special::nctaid_x: return grid[0];
    case Special::nctaid_y: return grid[1];
    case Special::nctaid_z: return grid[2];
    case Special::laneid: return lane;
    case Special::warpid: return thread / lanes;
    case Special::nwarpid: return (n + lanes - 1) / lanes;
    case Special::lt: return (1u << lane) - 1;
    case Special::le: return (2u << lane) - 1;
    case Special::eq: return 1u << lane;
    case Special::ge: return ~((1u << lane) - 1);
    case Special::gt: return ~((2u << lane) - 1);
    case Special::dynamic_shared: return dynamic;
    case Special::total_shared: return total;
    default: return 0;
  }
}

}  // namespace

std::pair<u64, u64> Memory::find(u64 address) const {
  auto at = allocations.upper_bound(address);
  if (at == allocations.begin()) return {0, 0};
  --at;
  return *at;
}

void fault(const Warp& w, const Instr& i, int lane, int code, const std::string& what) {
  const Block& b = *w.block;
  char text[160];
  std::snprintf(text, sizeof text, "block (%u,%u,%u), warp %u, lane %d: ", b.index[0], b.index[1],
                b.index[2], w.number, lane);
  throw Fault(code, b.kernel->name + ": " + text + what + "; PTX line " + std::to_string(i.line) +
                        (i.source ? ", " + b.module->file(i.file) + ":" + std::to_string(i.source) : ""));
}

void watch(const Warp& w, const Instr& i, const u8* p, u32 bytes, bool writes) {
  const Block& b = *w.block;
  const bool shared = p >= b.shared.data() && p < b.shared.data() + b.shared.size();
  if (!shared && (i.space == Space::local || i.space == Space::param)) return;
  const int warp = int(w.number);
  for (u64 at = reinterpret_cast<u64>(p) / 2; at <= (reinterpret_cast<u64>(p) + bytes - 1) / 2; ++at) {
    Watched& x = (shared ? seen_shared : seen_global)[at];
    x.constant |= i.constant;
    const bool race = x.writes.conflicts(b.number, warp, b.epoch) ||
                      (writes && x.reads.conflicts(b.number, warp, b.epoch));
    (writes ? x.writes : x.reads).add(b.number, warp, b.epoch, i.line);
    const bool stale = x.constant && x.writes.block >= 0;
    if (!race && !stale) continue;
    const int other = writes ? x.reads.line : x.writes.line;
    static std::set<std::tuple<const Kernel*, int, int>> told;
    if (told.insert({b.kernel, i.line, other}).second)
      std::fprintf(stderr, "ptx: %s: %s, %s memory, PTX lines %d and %d, %s:%d\n", b.kernel->name.c_str(),
                   race ? "a race" : "a write to what ld.global.nc reads", shared ? "shared" : "global", i.line,
                   other, b.module->file(i.file).c_str(), i.source);
  }
}

u8* find_memory(const Warp& w, const Instr& i, u64 a, u32 bytes, int lane) {
  Space space = i.space;
  if (space == Space::generic) {
    const u64 window = a & ~in_window;
    if (window) a &= in_window;
    space = window == shared_window  ? Space::shared
            : window == local_window ? Space::local
            : window == param_window ? Space::param
                                     : Space::global;
  }
  if (a & (bytes - 1)) {
    char text[80];
    std::snprintf(text, sizeof text, "%u bytes at the misaligned address %#llx", bytes,
                  static_cast<unsigned long long>(a));
    fault(w, i, lane, misaligned_address, text);
  }
  const auto outside = [&](const char* where) {
    char text[80];
    std::snprintf(text, sizeof text, "%u bytes at %#llx, outside of %s memory", bytes,
                  static_cast<unsigned long long>(a), where);
    fault(w, i, lane, illegal_address, text);
  };
  Block& b = *w.block;
  switch (space) {
    case Space::shared:
      if (a < first_shared || a + bytes > first_shared + b.shared_bytes) outside("shared");
      return b.shared.data() + (a - first_shared);
    case Space::local:
      if (a + bytes > b.kernel->local_bytes) outside("local");
      return w.local + size_t(lane) * b.kernel->local_bytes + a;
    case Space::param:
      if (a + bytes > b.kernel->param_bytes) outside("parameter");
      return const_cast<u8*>(b.params) + a;
    default:
      if (a < i.begin || a + bytes > i.begin + i.size) {
        std::tie(i.begin, i.size) = memory().find(a);
        if (a < i.begin || a + bytes > i.begin + i.size) {
          i.size = 0;
          static const bool lenient = std::getenv("PTX_HOST_MEMORY");
          if (!lenient) outside("global");
        }
      }
      return reinterpret_cast<u8*>(a);
  }
}

void run(Kernel& kernel, const Module& module, const u32 (&grid)[3], const u32 (&block)[3],
         u32 shared, const u8* params) {
  Machine m{kernel, {&kernel, &module, params, {}, kernel.static_shared + shared, {}},
            block[0] * block[1] * block[2], {}, u64(1) << 34, std::getenv("PTX_ALONE") != nullptr};
  kernel.launches += 1;
  kernel.most_shared = std::max(kernel.most_shared, kernel.static_shared + shared);
  seen_global.clear();
  for (Instr& i : kernel.code) i.size = 0;  // allocations come and go between launches
  m.block.shared.resize(m.block.shared_bytes);
  const u32 n_warps = (m.n_threads + lanes - 1) / lanes;
  const size_t file = (kernel.file_bytes + 63) / 64 * 64;
  // registers and local memory are undefined at first: NaNs, so that it shows
  static Bytes space;
  static size_t space_size = 0;
  const size_t local = (size_t(kernel.local_bytes) * lanes + 63) / 64 * 64;
  const size_t needed = (file + local) * n_warps;
  if (needed > space_size) space = aligned_bytes(space_size = needed);
  std::memset(space.get(), 0xff, needed);
  for (u32 n = 0; n < n_warps; ++n) {
    Warp& w = m.warps.emplace_back();
    w.block = &m.block;
    w.number = n;
    w.file = space.get() + n * (file + local);
    w.local = w.file + file;
    for (const Constant& c : kernel.constants) {
      if (c.bytes == 1) fill<u8>(w, c.row, u8(c.value));
      else if (c.bytes == 2) fill<u16>(w, c.row, u16(c.value));
      else if (c.bytes == 4) fill<u32>(w, c.row, u32(c.value));
      else fill<u64>(w, c.row, c.value);
    }
    for (auto [row, special] : kernel.specials)
      for (u32 l = 0; l < lanes; ++l)
        w.row<u32>(row)[l] = special_value(special, grid, block, n * lanes + l, m.n_threads, shared,
                                           m.block.shared_bytes);
  }
  if (counting) count_launch(kernel, grid[0] * grid[1] * grid[2], m.n_threads, shared);
  const char* seed = std::getenv("PTX_SEED");
  std::mt19937 random(seed ? std::atoi(seed) : 0);
  for (u32 z = 0; z < grid[2]; ++z)
    for (u32 y = 0; y < grid[1]; ++y)
      for (u32 x = 0; x < grid[0]; ++x) {
        m.block.index[0] = x, m.block.index[1] = y, m.block.index[2] = z;
        m.run_block(seed ? &random : nullptr);
        ++m.block.number;
      }
}

}  // namespace ptx

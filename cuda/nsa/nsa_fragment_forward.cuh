// SPDX-License-Identifier: MIT
// Sparse attention forward with sums in registers: what NsaForward does, for real numbers of 16
// bits and float32.
#pragma once
#include "nsa_fragments.cuh"

namespace gnograd {

// Warp: 16 rows that see the same blocks, their q, sums of values, maxima and sums of weights in
// registers; wide q of float32 in shared memory, as registers do not suffice. Block: four warps
// side by side, which go over the blocks that any of them sees in tiles of `keys` keys; a tile that
// several see is loaded once. Two tiles are in shared memory, one being copied while the other is
// used. A warp reads Dk + Dv numbers a key from shared memory, the block as many from L2 for every
// tile, and a row does 2 (Dk + Dv) operations a key, in float32 three times as many. Bound by
// shared memory where neighbouring queries see the same blocks, by L2 where they do not; in float32
// by issue, as numbers have to be split. Rows whose values have a NaN or an infinity are left to
// NsaForward, as 0 * NaN is NaN also where a mask has made the 0, and an infinite logit is NaN
// where it is made of split numbers.
template <class T, int d_k, int d_v>
struct NsaFragmentForward {
  static constexpr int keys = (sizeof(T) == 4 ? d_k + d_v > 192 : d_k + d_v > 320) ? 16
                              : sizeof(T) == 4                                     ? 32
                                                                                   : 64;
  static constexpr bool keeps_q = sizeof(T) == 2 || d_k + d_v <= 128;  // in registers
  static constexpr int blocks_at_once = d_k + d_v <= 64 ? 3 : 2;
  static constexpr int warps = block_threads / warp_lanes, parts_n = keys / 8;
  using K = OperandMatrix<T, d_k>;
  using V = OperandMatrix<T, d_v>;

  NsaForward<T, float> attend;
  int* redo;   // flags of sums that are not finite, RowFlags of two lanes a row, or null
  int pieces;  // pieces of a unit and head, of 16 rows

  NsaFragmentForward(const NsaForward<T, float>& attend, int* redo)
      : attend(attend),
        redo(attend.values_wanted() ? redo : nullptr),
        pieces(cut_units(this->attend.problem.pattern)) {}
  int64_t n_blocks() const {
    const Pattern& p = attend.problem.pattern;
    return ceil_div(p.n_units() * pieces, warps) * p.heads;
  }
  __host__ __device__ int n_entries() const { return warps * int(attend.problem.pattern.n_slots); }
  static constexpr int q_size = keeps_q ? 0 : K::size(warps * fragment_rows);
  size_t shared_memory() const {
    return shared_bytes<T>(2 * (K::size(keys) + V::size(keys)) + q_size) +
           2 * shared_bytes<KeyRange>(n_entries()) + shared_bytes<int>(1);
  }

  // Registers of a warp.
  struct State {
    FragmentRow rows[2];
    Fragment<T> q[keeps_q ? d_k / 16 : 1];
    K q_rows;  // rows of q if q is not kept
    float sum[d_v / 8][4];
    float top[2], total[2];  // the total of this lane's keys
  };

  __device__ void operator()() const {
    const auto& p = attend.problem;
    const Pattern& pattern = p.pattern;
    SharedMemory shared;
    T* const stages = shared.take<T>(2 * (K::size(keys) + V::size(keys)) + q_size);
    KeyRange* const named = shared.take<KeyRange>(n_entries());
    KeyRange* const visits = shared.take<KeyRange>(n_entries());
    int* const n_named = shared.take<int>(1);
    const int warp = int(threadIdx.x) / warp_lanes, lane = int(threadIdx.x) % warp_lanes;
    const int head = int(blockIdx.x % unsigned(pattern.heads));
    const unsigned number = blockIdx.x / unsigned(pattern.heads) * warps + unsigned(warp);
    const TokenPiece unit = pattern.unit_of(number / unsigned(pieces));
    const int n_slots = int(pattern.n_slots);
    int n_visits = 0, first_key = 0, end_key = 0;
    if (pattern.selected) {
      list_blocks(unit, head, named, visits, n_named);
      n_visits = *n_named;
    } else if (unit.size() > 0) {
      const int64_t s = unit.sequence, first = pattern.queries.first(s), n = pattern.keys.size(s);
      const int from = int(pattern.visible(unit.first - first, n).first) / pattern.block;
      const int end = int(pattern.visible(unit.end - 1 - first, n).end);
      n_visits = max(0, (end + pattern.block - 1) / pattern.block - from);
      first_key = int(pattern.keys.first(s)) + from * pattern.block;
      end_key = int(pattern.keys.end(s));
    }

    State x;
    const unsigned within = number % unsigned(pieces) * fragment_rows + unsigned(lane) / 4;
    for (int r = 0; r < 2; ++r) x.rows[r] = row_of_unit(pattern, unit, head, within + 8 * r);
    x.q_rows.x = stages + 2 * (K::size(keys) + V::size(keys)) + K::size(warp * fragment_rows);
    if constexpr (keeps_q) load_rows_as_left(x.q, p.q.v, p.d_k, x.rows, lane);
    else copy_queries(x, lane);
    const int apart_k = pattern.heads * p.d_k, apart_v = pattern.heads * p.d_v;
    const auto visit = [&](int i) {
      if (pattern.selected) return visits[i];
      const int first = first_key + i * pattern.block;
      return KeyRange{first, min(first + pattern.block, end_key)};
    };
    const auto copy = [&](int stage, int i, int part) {
      const KeyRange block = visit(i);
      const int first = block.first + part * keys, n = block.end - first;
      // made here, else its products would take registers throughout
      const int own_head = int(made_here(unsigned(head)));
      T* const at = stages + stage * (K::size(keys) + V::size(keys));
      if (n > 0) {
        K{at}.template copy<keys>(p.k.v + int64_t(first) * apart_k + own_head * p.d_k, apart_k,
                                  p.d_k, n);
        if (attend.values_wanted())
          V{at + K::size(keys)}.template copy<keys>(
              p.v.v + int64_t(first) * apart_v + own_head * p.d_v, apart_v, p.d_v, n);
      }
      commit_copies();
    };

#pragma unroll
    for (int r = 0; r < 2; ++r) x.top[r] = -INFINITY, x.total[r] = 0;
#pragma unroll
    for (auto& part : x.sum)
#pragma unroll
      for (float& y : part) y = 0;
    if (n_visits > 0) copy(0, 0, 0);
    int stage = 0;
#pragma unroll 1
    for (int i = 0, part = 0; i < n_visits; stage ^= 1) {
      await_copies();
      __syncthreads();
      const KeyRange block = visit(i);
      const int first = block.first + part * keys, n = min(block.end - first, keys);
      if (++part * keys >= pattern.block) part = 0, ++i;
      if (i < n_visits) copy(stage ^ 1, i, part);
      if (n <= 0) continue;
      T* const at = stages + stage * (K::size(keys) + V::size(keys));
#pragma unroll 1
      for (int base = 0; base < max(n_slots, 1); base += warp_lanes) {
        const int slot = base + lane;
        // slots that name the block; where there are none, rows that see some of its keys
        const bool here = pattern.selected
                              ? slot < n_slots && named[warp * n_slots + slot].first == block.first
                              : x.rows[0].sees_any(first, n) || x.rows[1].sees_any(first, n);
        unsigned mine = __ballot_sync(~0u, here);
        if (!pattern.selected && mine) mine = 1;
#pragma unroll 1
        for (; mine; mine &= mine - 1)
          take_keys(x, K{at}, V{at + K::size(keys)}, first, n, base + __ffs(mine) - 1, lane);
      }
    }
    // queries that see no key are still under way
    if constexpr (!keeps_q) commit_copies();
    await_copies();
    const bool wrong = finish(x, lane);
    if (redo && __any_sync(~0u, x.rows[0].at >= 0 || x.rows[1].at >= 0)) {
      const bool any = __any_sync(~0u, wrong);
      // found again, as registers would be short to keep it
      const unsigned block = made_here(blockIdx.x), heads = unsigned(pattern.heads);
      const unsigned piece = block / heads * warps + unsigned(warp), of_unit = unsigned(pieces);
      const unsigned at = piece / of_unit * heads + block % heads;
      if (lane == 0) redo[at * of_unit + piece % of_unit] = any;
    }
  }

  // Starts to copy the rows of a warp.
  __device__ void copy_queries(const State& x, int lane) const {
    const auto& p = attend.problem;
    const int column = lane * K::together;
#pragma unroll
    for (int row = 0; row < fragment_rows; ++row) {
      const int64_t at = __shfl_sync(~0u, x.rows[row / 8].at, row % 8 * 4);
      if (column < d_k)
        copy_async(x.q_rows.at(row, column), p.q.v + at * p.d_k + column,
                   at >= 0 && column < p.d_k);
    }
  }

  // The blocks that the slots of every warp name, -1 where there is none, and all of them once, in
  // the order of warps and slots.
  __device__ void list_blocks(const TokenPiece& unit, int head, KeyRange* named, KeyRange* visits,
                              int* n_named) const {
    const Pattern& pattern = attend.problem.pattern;
    const int warp = int(threadIdx.x) / warp_lanes, lane = int(threadIdx.x) % warp_lanes;
    const int n_slots = int(pattern.n_slots);
    const int32_t* slots = pattern.slots(unit, head);
    const int from = int(pattern.keys.first(unit.sequence));
    const int end = int(pattern.keys.end(unit.sequence));
    for (int slot = lane; slot < n_slots; slot += warp_lanes) {
      KeyRange block{-1, -1};
      if (unit.size() > 0 && pattern.counts(slots, slot, unit.sequence, unit.end - 1))
        block = {from + slots[slot] * pattern.block,
                 min(from + (slots[slot] + 1) * pattern.block, end)};
      named[warp * n_slots + slot] = block;
    }
    __syncthreads();
    if (warp == 0) {
      int n = 0;
      for (int base = 0; base < n_entries(); base += warp_lanes) {
        const int entry = base + lane;
        const KeyRange block = entry < n_entries() ? named[entry] : KeyRange{-1, -1};
        bool first = block.first >= 0;
        for (int i = 0; i < entry && first; ++i) first = named[i].first != block.first;
        const unsigned all = __ballot_sync(~0u, first);
        if (first) visits[n + __popc(all & ((1u << lane) - 1))] = block;
        n += __popc(all);
      }
      if (lane == 0) *n_named = n;
    }
    __syncthreads();
  }

  // Keys first..first+n, which a tile has, for a slot.
  __device__ void take_keys(State& x, const K& k, const V& v, int first, int n, int slot,
                            int lane) const {
    const auto& p = attend.problem;
    const float scale = p.scale * logit_unit<T>;
    float y[parts_n][4] = {};
    add_inner_products(
        y,
        [&](auto& a, int l) {
          if constexpr (keeps_q) memcpy(&a, x.q[l], sizeof a);
          else x.q_rows.left(a, 0, l * 16, lane);
        },
        k, lane);
    const bool all =
        __all_sync(~0u, n == keys && x.rows[0].sees_all(first, n) && x.rows[1].sees_all(first, n));
    const float gate[2] = {gate_of(p, x.rows[0], slot), gate_of(p, x.rows[1], slot)};
    float top[2] = {x.top[0], x.top[1]};
#pragma unroll
    for (int j = 0; j < parts_n; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float& z = y[j][c];
        z = scale * z + gate[c / 2];
        if (!all) {
          const int key = j * 8 + lane % 4 * 2 + c % 2;
          if (key >= n || !x.rows[c / 2].sees(first + key)) z = -INFINITY;
        }
        top[c / 2] = max(top[c / 2], z);
      }
    float factor[2], zero[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = max_of_row(top[r]);
      zero[r] = top[r] == -INFINITY ? 0.f : top[r];
      factor[r] = x.top[r] > -INFINITY ? power<T>(x.top[r] - top[r]) : 1.f;
      x.top[r] = top[r];
      x.total[r] *= factor[r];
    }
#pragma unroll
    for (int j = 0; j < parts_n; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        y[j][c] = power<T>(y[j][c] - zero[c / 2]);
        x.total[c / 2] += y[j][c];
      }
    if (!attend.values_wanted()) return;
    if (__any_sync(~0u, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
      for (auto& part : x.sum)
#pragma unroll
        for (int c = 0; c < 4; ++c) part[c] *= factor[c / 2];
    }
    add_product(x.sum, y, v, lane);
  }

  // Write what NsaForward::finish does. Lanes have two numbers of a row side by side, and their
  // totals apart. True if some numbers of this lane are not finite.
  __device__ bool finish(const State& x, int lane) const {
    const auto& p = attend.problem;
    bool wrong = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = sum_of_row(x.total[r]);
      const int64_t at = x.rows[r].at;
      const bool any = total != 0, there = at >= 0;
      float delta = 0;
      if (attend.values_wanted() && there) {
        const float factor = any ? 1 / total : 0.f;
#pragma unroll
        for (int j = 0; j < d_v / 8; ++j) {
          const int column = j * 8 + lane % 4 * 2;
          wrong = wrong || !is_finite(x.sum[j][2 * r]) || !is_finite(x.sum[j][2 * r + 1]);
          if (column >= p.d_v) continue;
          const float y[2] = {any ? x.sum[j][2 * r] * factor : 0.f,
                              any ? x.sum[j][2 * r + 1] * factor : 0.f};
          const int64_t to = at * p.d_v + column;
          if (attend.out) store_pair(attend.out + to, y[0], y[1]);
          if (attend.saved.delta) {
            float g[2];
            unpack<T>(g, __ldg(reinterpret_cast<const PairBits<T>*>(attend.cotangent + to)));
            delta += g[0] * y[0] + g[1] * y[1];
          }
        }
      }
      if (attend.saved.delta) delta = sum_of_row(delta);
      if (!there) continue;
      const float top = x.top[r] * of_logit<T>;
      if (attend.softmax.max)
        for (int c = lane % 4; c < softmax_copies; c += 4) {
          attend.softmax.max[at * softmax_copies + c] = any ? top : -INFINITY;
          attend.softmax.sum[at * softmax_copies + c] = any ? total : 0.f;
        }
      if (lane % 4) continue;
      const float lse = any ? top + logarithm(total) : -INFINITY;
      if (attend.lse) attend.lse[at] = lse;
      if (attend.saved.lse) attend.saved.lse[at] = lse;
      if (attend.saved.delta)
        attend.saved.delta[at] = attend.lse_cotangent ? delta - attend.lse_cotangent[at] : delta;
    }
    return wrong;
  }
};

template <class T>
void forward_on_fragments(const NsaForward<T, float>& attend, int* redo, cudaStream_t stream) {
  with_features(attend.problem.d_k, attend.problem.d_v, [&](auto d_k, auto d_v) {
    if constexpr (forward_fits<T>(d_k.value, d_v.value)) {
      const NsaFragmentForward<T, d_k.value, d_v.value> operation(attend, redo);
      launch_operation(operation, operation.n_blocks(), stream);
    }
  });
}

}  // namespace gnograd

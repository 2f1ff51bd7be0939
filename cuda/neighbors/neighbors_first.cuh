// SPDX-License-Identifier: MIT
// The first k of what a warp finds, in the order of keys, and by number where keys are equal.
#pragma once
#include "device/dropout.cuh"
#include "neighbors_cells.cuh"

namespace gnograd {

// In the order of numbers that are not negative, and of nothing else.
__device__ inline uint64_t key_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The hash of a seed and two numbers: no source of destination i has the key of another one.
__device__ inline uint64_t random_key(int64_t seed, int64_t i, int32_t j) {
  return split_mix(split_mix(uint64_t(seed), uint64_t(i)), uint64_t(j));
}

// A key and its number. Keys of no point are behind all others of the same limit.
struct Ranked {
  uint64_t key;
  int32_t number;

  __device__ bool before(const Ranked& other) const {
    return key < other.key || (key == other.key && number < other.number);
  }
  __device__ Ranked of_lane(int lane) const {
    return {__shfl_sync(~0u, key, lane), __shfl_sync(~0u, number, lane)};
  }
  __device__ Ranked of_lane_before() const {
    return {__shfl_up_sync(~0u, key, 1), __shfl_up_sync(~0u, number, 1)};
  }
  // Keep one of the two that lanes `stride` apart have: the one that is first, or the other.
  __device__ void exchange(int stride, bool first) {
    const Ranked other{__shfl_xor_sync(~0u, key, stride), __shfl_xor_sync(~0u, number, stride)};
    if (other.before(*this) == first) *this = other;
  }
  // Bitonic, over the lanes of a warp: 15 exchanges, the last one first.
  __device__ void sort_backwards() {
    const int lane = lane_number();
#pragma unroll
    for (int size = 2; size <= warp_lanes; size *= 2)
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2)
        exchange(stride, ((lane & stride) == 0) != ((lane & size) == 0));
  }
  // Sort a warp's keys that rise and then fall, or the other way round: 5 exchanges.
  __device__ void merge(bool backwards = false) {
#pragma unroll
    for (int stride = warp_lanes / 2; stride > 0; stride /= 2)
      exchange(stride, ((lane_number() & stride) == 0) != backwards);
  }
};

// The first k of what lanes offer, 32 of them at a time in registers, one a lane: all that there
// are up to k = 32, and of more one block after another from memory. Lanes agree on n and on last.
struct FirstOnes {
  uint64_t* keys;    // [k], where k > 32
  int32_t* numbers;  // [k]
  int32_t k, n = 0;
  Ranked end;   // behind all that are taken
  Ranked last;  // bound before which offers have to be: the last of k, or the end

  __device__ FirstOnes(uint64_t* keys, int32_t* numbers, int64_t k, uint64_t limit)
      : keys(keys),
        numbers(numbers),
        k(int32_t(min(k, int64_t(INT32_MAX)))),
        end{limit, INT32_MAX},
        last(end),
        mine(end) {}

  // Numbers of keys that there is memory for.
  static int64_t room(int64_t n_rows, int64_t k) { return k > warp_lanes ? n_rows * k : 0; }

  // In any order. Few are put in their places one after another, many are sorted and merged with
  // what there is: 9 shuffles each, or 63 for all, where a block is all there is.
  __device__ void offer(bool offers, uint64_t key, int32_t number) {
    Ranked offered{key, number};
    unsigned taken = __ballot_sync(~0u, offers && offered.before(last));
    if (!taken || k == 0) return;
    const int count = __popc(taken);
    if (count > (k <= warp_lanes ? few : few_of_blocks)) {
      if (!(taken >> lane_number() & 1)) offered = end;
      offered.sort_backwards();
      change_blocks(count, [&](bool more) {
        // the first 32 of both stay, and the rest goes to the next block
        const bool swapped = offered.before(mine);
        const Ranked rest = swapped ? mine : offered;
        if (swapped) mine = offered;
        mine.merge();
        if (!more) return;
        offered = rest;
        offered.merge(true);
      });
    } else {
      for (; taken; taken &= taken - 1) {
        Ranked one = offered.of_lane(__ffs(int(taken)) - 1);
        change_blocks(1, [&](bool more) {
          const Ranked before = mine.of_lane_before(), rest = one;
          const bool stays = mine.before(one);
          const int place = __popc(__ballot_sync(~0u, stays));
          if (more) one = place < warp_lanes ? mine.of_lane(warp_lanes - 1) : one;
          if (!stays) mine = lane_number() == place ? rest : before;
        });
      }
    }
    if (n == k) last = mine.of_lane((k - 1) & (warp_lanes - 1));
  }

  // Numbers into their memory.
  __device__ void write() const {
    if (k <= warp_lanes && lane_number() < n) numbers[lane_number()] = mine.number;
  }

 private:
  static constexpr int few = 16, few_of_blocks = 4;  // more instructions than to sort and merge
  Ranked mine;                                       // candidate in the block last worked on

  // change(do more blocks follow) of every block, after `count` more have been offered.
  template <class F>
  __device__ void change_blocks(int count, F change) {
    const int32_t before = n;
    n += min(count, k - n);
    if (k <= warp_lanes) return change(false);
    for (int32_t base = 0; base < n; base += warp_lanes) {
      const int32_t e = base + lane_number();
      mine = e < before ? Ranked{keys[e], numbers[e]} : end;
      change(base + warp_lanes < n);
      if (e < n) keys[e] = mine.key, numbers[e] = mine.number;
    }
  }
};

// Ascending, of n <= 32 N numbers by one warp, of which a lane holds N: bitonic.
template <int N>
__device__ void sort_in_registers(const int32_t* from, int32_t* to, int n) {
  const int lane = lane_number();
  int32_t v[N];
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const int k = e * warp_lanes + lane;
    v[e] = k < n ? from[k] : INT32_MAX;
  }
#pragma unroll
  for (int size = 2; size <= N * warp_lanes; size *= 2)
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2)
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const bool up = ((e * warp_lanes + lane) & size) == 0;
        if (stride < warp_lanes) {
          const int32_t other = __shfl_xor_sync(~0u, v[e], stride);
          v[e] = ((lane & stride) == 0) == up ? min(v[e], other) : max(v[e], other);
        } else if (const int o = e ^ stride / warp_lanes; o > e) {
          const int32_t low = min(v[e], v[o]), high = max(v[e], v[o]);
          v[e] = up ? low : high;
          v[o] = up ? high : low;
        }
      }
#pragma unroll
  for (int e = 0; e < N; ++e)
    if (const int k = e * warp_lanes + lane; k < n) to[k] = v[e];
}

// A row without being sorted, by one warp.
__device__ inline void copy_row(const int32_t* from, int32_t* to, int64_t n) {
  for (int64_t e = lane_number(); e < n; e += warp_lanes) to[e] = from[e];
}

// Ascending, by one warp, from one place to another or to the same. Longer rows where they are to
// be: bitonic, with all comparisons the same way round, so that nothing needs to be where the next
// power of two would have more.
__device__ inline void sort_row(const int32_t* from, int32_t* x, int64_t n) {
  __syncwarp();
  if (n == 0) return;
  if (n <= warp_lanes) return sort_in_registers<1>(from, x, int(n));
  if (n <= 2 * warp_lanes) return sort_in_registers<2>(from, x, int(n));
  if (n <= 4 * warp_lanes) return sort_in_registers<4>(from, x, int(n));
  if (from != x) copy_row(from, x, n);
  for (int64_t size = 2; size < 2 * n; size *= 2)
    for (int64_t stride = size / 2; stride > 0; stride /= 2) {
      __syncwarp();
      for (int64_t k = lane_number();; k += warp_lanes) {
        const int64_t low = 2 * k - (k & (stride - 1));
        const int64_t high = stride == size / 2 ? low ^ (size - 1) : low + stride;
        if (low >= n) break;
        if (high >= n || x[low] <= x[high]) continue;
        const int32_t smaller = x[high];
        x[high] = x[low];
        x[low] = smaller;
      }
    }
}

}  // namespace gnograd

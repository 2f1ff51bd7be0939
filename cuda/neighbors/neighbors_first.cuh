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

// All of it belongs to a warp, whose lanes agree on n and on what is last.
struct FirstOnes {
  uint64_t* keys;    // [k]
  int32_t* numbers;  // [k]
  int64_t k, n = 0;
  uint64_t last_key = 0;
  int32_t last_number = 0;

  __device__ FirstOnes(uint64_t* keys, int32_t* numbers, int64_t k)
      : keys(keys), numbers(numbers), k(k) {}

  __device__ bool full() const { return n == k; }
  __device__ bool takes(uint64_t key, int32_t number) const {
    return !full() || before(key, number, last_key, last_number);
  }

  // What lanes offer, one after another: the order does not matter. 2 k/32 reads each, mostly from
  // caches, of those that are taken.
  __device__ void offer(bool offers, uint64_t key, int32_t number) {
    if (k == 0) return;
    unsigned left = __ballot_sync(~0u, offers && takes(key, number));
    while (left) {
      const int lane = __ffs(int(left)) - 1;
      insert(__shfl_sync(~0u, key, lane), __shfl_sync(~0u, number, lane));
      left &= left - 1;
      left &= __ballot_sync(~0u, offers && takes(key, number));
    }
  }

 private:
  static __device__ bool before(uint64_t key, int32_t number, uint64_t other, int32_t than) {
    return key < other || (key == other && number < than);
  }

  __device__ void insert(uint64_t key, int32_t number) {
    const int lane = int(threadIdx.x) % warp_lanes;
    int64_t at = 0;
    for (int64_t base = 0; base < n; base += warp_lanes) {
      const int64_t e = base + lane;
      const int ahead =
          __popc(__ballot_sync(~0u, e < n && before(keys[e], numbers[e], key, number)));
      at += ahead;
      if (ahead < warp_lanes) break;
    }
    // those behind it move on by one, from the last one on
    for (int64_t end = min(n, k - 1); end > at; end -= warp_lanes) {
      const int64_t e = end - 1 - lane;
      uint64_t moved_key = 0;
      int32_t moved = 0;
      if (e >= at) moved_key = keys[e], moved = numbers[e];
      __syncwarp();
      if (e >= at) keys[e + 1] = moved_key, numbers[e + 1] = moved;
      __syncwarp();
    }
    __syncwarp();  // all have read what was last
    if (lane == 0) keys[at] = key, numbers[at] = number;
    __syncwarp();
    n = min(n + 1, k);
    last_key = keys[n - 1], last_number = numbers[n - 1];
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

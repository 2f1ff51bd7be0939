// SPDX-License-Identifier: MIT
// Distribution of the features of a row over the lanes of a warp.
#pragma once
#include "numbers.cuh"

namespace gnograd {

// `size` consecutive lanes, a power of two, which work on one row together. Groups of a warp go
// through rows of different lengths, so a group meets under its own mask.
struct Group {
  int size, lane;
  int64_t number;  // among all groups of the launch
  unsigned mask;
};

// The group of this thread.
__device__ inline Group this_group(int size) {
  const int lane = int(threadIdx.x & (warp_lanes - 1));
  return {size, lane & (size - 1), thread_number() >> (__ffs(size) - 1),
          ~0u >> (warp_lanes - size) << (lane & -size)};
}

// Sum over the lanes of a group; a butterfly, so that all of them get the same bits.
template <class A>
__device__ A group_sum(A x, const Group& group) {
  for (int d = group.size / 2; d > 0; d /= 2) x += __shfl_xor_sync(group.mask, x, d);
  return x;
}
template <class A>
__device__ Dual<A> group_sum(Dual<A> x, const Group& group) {
  return {group_sum(x.v, group), group_sum(x.d, group)};
}

// x on `lane` of the group.
template <class A>
__device__ A group_get(A x, int lane, const Group& group) {
  return __shfl_sync(group.mask, x, lane, group.size);
}
template <class A>
__device__ Dual<A> group_get(Dual<A> x, int lane, const Group& group) {
  return {group_get(x.v, lane, group), group_get(x.d, lane, group)};
}

template <class A>
__device__ A group_swap(A x, int distance, const Group& group) {
  return __shfl_xor_sync(group.mask, x, distance);
}
template <class A>
__device__ Dual<A> group_swap(Dual<A> x, int distance, const Group& group) {
  return {group_swap(x.v, distance, group), group_swap(x.d, distance, group)};
}

// n sums over the lanes of a group at once: lane b gets that of x[b], for b < n and b < size. Lanes
// give away half of what they have, then half of the rest: n - 1 + log2(size / n) shuffles, where
// one after another takes n log2(size).
template <int n, class A>
__device__ A group_sums(A (&x)[n], const Group& group) {
#pragma unroll
  for (int d = n / 2; d > 0; d /= 2) {
    if (d >= group.size) continue;
    const bool upper = group.lane & d;
#pragma unroll
    for (int i = 0; i < d; ++i) {
      const A given = upper ? x[i] : x[i + d], kept = upper ? x[i + d] : x[i];
      x[i] = kept + group_swap(given, d, group);
    }
  }
  for (int d = n; d < group.size; d *= 2) x[0] = x[0] + group_swap(x[0], d, group);
  return x[0];
}

// Rows of `heads` heads of `size` features each. A group handles one tile of one head, width<T>
// consecutive features a lane; most heads are one tile.
struct Heads {
  int heads = 1, size = 0, lanes = 1, tiles = 1;
  bool wide = false;  // vector loads and stores are aligned

  __host__ __device__ int64_t row() const { return int64_t(heads) * size; }
};

template <class T>
bool aligned(int64_t size) {
  return size % width<T> == 0;
}
template <class T, class... P>
bool aligned(int64_t size, const void* p, P... others) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && aligned<T>(size, others...);
}

template <class T>
Heads make_heads(int64_t heads, int64_t size, bool wide) {
  Heads h{int(heads), int(size), 1, 1, wide};
  while (h.lanes < warp_lanes && h.lanes * width<T> < size) h.lanes *= 2;
  h.tiles = size ? int(ceil_div(size, h.lanes * width<T>)) : 1;
  return h;
}

// Share of a lane: `step` features of one head, from column() on.
struct Place {
  Group group;
  int head, tile, step;

  __device__ int column(int tile) const { return (tile * group.size + group.lane) * step; }
  __device__ int column() const { return column(tile); }
  // One lane of all that work on a head, to write what they agree on.
  __device__ bool first() const { return tile == 0 && group.lane == 0; }
};

// Sum of f(column) over the features of a head, on every lane of the group.
template <class S, class F>
__device__ S sum_over_head(const Heads& heads, const Place& at, F f) {
  S sum = 0;
#pragma unroll 1  // most heads are one tile
  for (int tile = 0; tile < heads.tiles; ++tile)
    if (const int c = at.column(tile); c < heads.size) sum += f(c);
  return group_sum(sum, at.group);
}

}  // namespace gnograd

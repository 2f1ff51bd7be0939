// SPDX-License-Identifier: MIT
// Points sorted by keys: five bits a pass, a chunk of them and a digit per lane in each warp.
#pragma once
#include "device/scan.cuh"
#include "neighbors_cells.cuh"

namespace gnograd {

constexpr int digit_bits = 5;  // a digit for every lane
static_assert(1 << digit_bits == warp_lanes);

struct SortDigits {
  int64_t n, length, n_chunks;
  int32_t* counts;  // [warp_lanes, n_chunks]
  int shift = 0;

  SortDigits(int64_t n, Workspace& workspace)
      : n(n),
        length(std::max<int64_t>(1024, ceil_div(ceil_div(n, 8192), warp_lanes) * warp_lanes)),
        n_chunks(ceil_div(n, length)),
        counts(workspace.take<int32_t>(warp_lanes * n_chunks)) {}
};

// f(i, is there a key i, its digit, lanes with the same one, lanes whose digit is this lane's
// number) for the keys of this warp's chunk, 32 at a time.
template <class F>
__device__ void for_digits(const SortDigits& digits, const uint32_t* keys, F f) {
  const int lane = lane_number();
  const int64_t first = warp_number() * digits.length;
  const int64_t last = min(first + digits.length, digits.n);
  for (int64_t base = first; base < last; base += warp_lanes) {
    const int64_t i = base + lane;
    const unsigned digit = i < last ? keys[i] >> digits.shift & (warp_lanes - 1) : 0;
    const unsigned there = __ballot_sync(~0u, i < last);
    unsigned same = there, named = there;
    for (int b = 0; b < digit_bits; ++b) {
      const unsigned ones = __ballot_sync(~0u, digit >> b & 1);
      same &= digit >> b & 1 ? ones : ~ones;
      named &= lane >> b & 1 ? ones : ~ones;
    }
    f(i, i < last, digit, same, named);
  }
}

// Warp: how often every digit occurs in a chunk of at least 1024 keys. Reads 4 bytes a key; bound
// by its 6 ballots for 32 keys.
static __global__ void __launch_bounds__(block_threads)
    neighbors_sort_count(SortDigits digits, const uint32_t* keys) {
  if (warp_number() >= digits.n_chunks) return;
  int32_t count = 0;
  for_digits(digits, keys,
             [&](int64_t, bool, unsigned, unsigned, unsigned named) { count += __popc(named); });
  digits.counts[lane_number() * digits.n_chunks + warp_number()] = count;
}

struct SortPairs {
  uint32_t* keys;
  int32_t* numbers;
};

// Warp: moves a chunk's pairs to their places, 8 bytes a point read in order and written to 32
// places; bound by these writes and by the ballots.
static __global__ void __launch_bounds__(block_threads)
    neighbors_sort_move(SortDigits digits, SortPairs from, SortPairs to) {
  if (warp_number() >= digits.n_chunks) return;
  int32_t next = digits.counts[lane_number() * digits.n_chunks + warp_number()];
  for_digits(digits, from.keys,
             [&](int64_t i, bool there, unsigned digit, unsigned same, unsigned named) {
               const int32_t start = __shfl_sync(~0u, next, int(digit));
               next += __popc(named);
               if (!there) return;
               const int32_t at = start + __popc(same & lower_lanes());
               to.keys[at] = from.keys[i];
               to.numbers[at] = from.numbers[i];
             });
}

// Sorts pairs by so many lower bits of their keys; those with the same ones stay in their order.
// They are in `from` then, with which `to` changes places after every pass.
inline void sort_pairs(SortDigits digits, int bits, SortPairs& from, SortPairs& to,
                       int64_t* sums /* [ceil_div(warp_lanes n_chunks, scan_chunk)] */,
                       cudaStream_t stream) {
  for (digits.shift = 0; digits.shift < bits; digits.shift += digit_bits, std::swap(from, to)) {
    launch_threads(digits.n_chunks * warp_lanes, stream, neighbors_sort_count, digits, from.keys);
    exclusive_scan<int32_t>(digits.counts, warp_lanes * digits.n_chunks, nullptr, sums, stream);
    launch_threads(digits.n_chunks * warp_lanes, stream, neighbors_sort_move, digits, from, to);
  }
}

// Bits of the numbers below n.
inline int bits_below(int64_t n) {
  int bits = 0;
  while (int64_t(1) << bits < n) ++bits;
  return bits;
}

// One thread: what is wrong with the points stands where the number of neighbours would.
[[maybe_unused]] static __global__ void neighbors_end_offsets(NeighborSearch s, int64_t* offsets) {
  if (threadIdx.x == 0 && s.grid[1] < 0) offsets[s.n_dst] = int64_t(s.grid[1]);
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// The hash table of the search for neighbours: points sorted by the buckets of their cells.
#pragma once
#include "neighbors_sort.cuh"

namespace gnograd {

// Thread: a point; reads d numbers, writes its bucket and number, 8 bytes; bound by memory and, on
// GPUs with few units for it, float64.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_choose_buckets(NeighborSearch s, const R* sources, uint32_t* buckets,
                             int32_t* numbers) {
  const int64_t i = thread_number();
  if (i >= s.n_src) return;
  const Cells<D> cells(s);
  const Point<D> p = point<D>(s, sources, i);
  const int64_t item = item_of(s.source_items, s.n_items, i);
  const uint64_t row = row_hash(item, cells.row(p.x), cells.layer(p.x));
  buckets[i] = uint32_t((row + uint64_t(cells.x.cell(p.x[0]))) & uint64_t(s.n_buckets - 1));
  numbers[i] = int32_t(i);
}

// Thread: a bucket, by bisection of the sorted keys; log2(n_src) dependent reads, from caches.
static __global__ void __launch_bounds__(block_threads)
    neighbors_find_starts(NeighborSearch s, const uint32_t* buckets) {
  const int64_t bucket = thread_number();
  if (bucket > s.n_buckets) return;
  int64_t low = 0, high = s.n_src;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (buckets[middle] < bucket) low = middle + 1;
    else high = middle;
  }
  s.starts[bucket] = int32_t(low);
}

// Thread: a point, in the order of the keys; reads d numbers from anywhere, writes 8 d bytes; bound
// by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_gather_positions(NeighborSearch s, const R* sources) {
  const int64_t k = thread_number();
  if (k >= s.n_src) return;
  const Point<D> p = point<D>(s, sources, s.order[k]);
#pragma unroll
  for (int a = 0; a < D; ++a) s.positions[k * D + a] = p.x[a];
}

}  // namespace gnograd

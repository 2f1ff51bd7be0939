// SPDX-License-Identifier: MIT
// Points within a radius of others, by a hash table of cells.
//
// Cells are a little wider than the radius, so that the neighbours of a point lie in its own cell
// and those next to it. Cells that follow one another along x have buckets that do so too, which
// makes three cells one range of points. Whatever else a bucket holds is told apart by the cell, so
// the table needs no bounds in space, and its size is that of the number of points.
//
// The points are sorted by bucket, five bits a pass, a chunk of them and a digit per lane in each
// warp. Within a bucket, and so in every count and row, the order is the same in every run.
#include "device/call.cuh"
#include "neighbors_table.cuh"

namespace gnograd {
namespace {

// f(lanes that have a neighbour, its number) by the warp of destination i, again and again.
template <int D, class R, class F>
__device__ void for_neighbors(const NeighborSearch& s, const R* destinations, int64_t i, F f) {
  const Cells<D> cells(s);
  const Point<D> p = point<D>(s, destinations, i);
  const int64_t item = item_of(s.destination_items, s.n_items, i);
  const int64_t first = s.source_items ? s.source_items[item] : 0;
  const int64_t last = s.source_items ? s.source_items[item + 1] : s.n_src;
  const CellRange along(cells.x, p.x[0]);
  const CellRange rows = D > 1 ? CellRange(cells.y, p.x[D > 1]) : CellRange();
  const CellRange layers = D > 2 ? CellRange(cells.z, p.x[D - 1]) : CellRange();

  // n cells from this one on, whose buckets begin anew with the first one after the last one
  const auto scan_cells = [&](uint64_t hash, int64_t row, int64_t layer, int64_t cell, int n) {
    const auto scan_buckets = [&](int64_t begin, int64_t end) {
      const int32_t stop = s.starts[end];
      for (int32_t base = s.starts[begin]; base < stop; base += warp_lanes) {
        const int32_t k = base + lane_number();
        bool near = k < stop && within<D>(s, p, s.positions + int64_t(k) * D);
        int32_t j = 0;
        if (near) {
          const double* q = s.positions + int64_t(k) * D;
          const int64_t x = cells.x.cell(q[0]);
          j = s.order[k];
          near = cell <= x && x < cell + n && cells.row(q) == row && cells.layer(q) == layer &&
                 first <= j && j < last && !(s.exclude_self && j == i);
        }
        f(__ballot_sync(~0u, near), j);
        if (stop - base <= warp_lanes) break;  // 32 bits would not hold what follows
      }
    };
    const auto begin = int64_t((hash + uint64_t(cell)) & uint64_t(s.n_buckets - 1));
    const int64_t end = min(begin + n, s.n_buckets);
    scan_buckets(begin, end);
    if (end - begin < n) scan_buckets(0, n - (end - begin));
  };
  const int straight = along.before_wrap();
  for (int b = 0; b < layers.n; ++b)
    for (int a = 0; a < rows.n; ++a) {
      const int64_t row = rows[a], layer = layers[b];
      const uint64_t hash = row_hash(item, row, layer);
      scan_cells(hash, row, layer, along[0], straight);
      if (straight < along.n) scan_cells(hash, row, layer, along[straight], along.n - straight);
    }
}

// Warp: a destination, lanes over the points of 3^(d-1) ranges of buckets. Reads 8 d bytes a point
// of these, mostly from caches; bound by the chain from bucket to range to position.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_count_rows(NeighborSearch s, const R* destinations, int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  int64_t count = 0;
  for_neighbors<D>(s, destinations, i, [&](unsigned near, int32_t) { count += __popc(near); });
  if (lane_number() == 0) counts[i] = count;
}

// One thread: what is wrong with the points stands where their number would.
__global__ void neighbors_end_offsets(NeighborSearch s, int64_t* offsets) {
  if (threadIdx.x == 0 && s.grid[1] < 0) offsets[s.n_dst] = int64_t(s.grid[1]);
}

// Ascending, by one warp: bitonic, with all comparisons the same way round, so that nothing needs
// to be where the next power of two would have more.
__device__ void sort_row(int32_t* x, int64_t n) {
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

// Warp: as in neighbors_count_rows, which this repeats, and sorts the row that it writes:
// log2(n)^2/2 passes over it, in global memory but from caches.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_write_rows(NeighborSearch s, const R* destinations, const int64_t* offsets,
                         int32_t* indices) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  int64_t end = offsets[i];
  for_neighbors<D>(s, destinations, i, [&](unsigned near, int32_t j) {
    if (near >> lane_number() & 1) indices[end + __popc(near & lower_lanes())] = j;
    end += __popc(near);
  });
  sort_row(indices + offsets[i], end - offsets[i]);
}

// ---- launchers ----

template <class F>
void with_axes(int64_t d, F f) {
  if (d == 1) f(std::integral_constant<int, 1>());
  else if (d == 2) f(std::integral_constant<int, 2>());
  else f(std::integral_constant<int, 3>());
}

template <class R>
int count_all(const NeighborSearch& s, const R* sources, const R* destinations, int64_t* offsets,
              Call& call) {
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  if (!s.valid()) return GNOGRAD_CUDA_VALUE;
  const PointParts source_parts(s.n_src, workspace), destination_parts(s.n_dst, workspace);
  SortDigits digits(s.n_src, workspace);
  SortPairs from{workspace.take<uint32_t>(s.n_src), workspace.take<int32_t>(s.n_src)};
  SortPairs to{workspace.take<uint32_t>(s.n_src), s.order};
  const int64_t longest = std::max({int64_t(1), s.n_dst, warp_lanes * digits.n_chunks});
  auto* sums = workspace.take<int64_t>(ceil_div(longest, scan_chunk));
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  const auto magnitude = [&](const PointParts& parts, const R* points) {
    launch_threads(parts.count * warp_lanes, stream, neighbors_magnitudes<R>, s, points, parts);
  };
  magnitude(source_parts, sources);
  magnitude(destination_parts, destinations);
  launch(neighbors_choose_grid, dim3(1), dim3(warp_lanes), 0, stream, s, source_parts,
         destination_parts);

  int passes = 0;
  while (int64_t(1) << digit_bits * passes < s.n_buckets) ++passes;
  if (passes % 2 == 0) std::swap(from, to);  // the last one ends in s.order
  with_axes(s.d, [&](auto d) {
    launch_threads(s.n_src, stream, neighbors_choose_buckets<d(), R>, s, sources, from.keys,
                   from.numbers);
  });
  for (; passes > 0; --passes, digits.shift += digit_bits, std::swap(from, to)) {
    launch_threads(digits.n_chunks * warp_lanes, stream, neighbors_sort_count, digits, from.keys);
    exclusive_scan<int32_t>(digits.counts, warp_lanes * digits.n_chunks, nullptr, sums, stream);
    launch_threads(digits.n_chunks * warp_lanes, stream, neighbors_sort_move, digits, from, to);
  }
  launch_threads(s.n_buckets + 1, stream, neighbors_find_starts, s, from.keys);
  with_axes(s.d, [&](auto d) {
    launch_threads(s.n_src, stream, neighbors_gather_positions<d(), R>, s, sources);
    launch_threads(s.n_dst * warp_lanes, stream, neighbors_count_rows<d(), R>, s, destinations,
                   offsets);
  });
  exclusive_scan(offsets, s.n_dst, offsets + s.n_dst, sums, stream);
  launch(neighbors_end_offsets, dim3(1), dim3(warp_lanes), 0, stream, s, offsets);
  return cudaGetLastError();
}

template <class R>
int fill_all(const NeighborSearch& s, const R* destinations, const int64_t* offsets,
             int32_t* indices, Call& call) {
  if (!s.valid()) return GNOGRAD_CUDA_VALUE;
  if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
  const cudaStream_t stream = call.stream;
  with_axes(s.d, [&](auto d) {
    launch_threads(s.n_dst * warp_lanes, stream, neighbors_write_rows<d(), R>, s, destinations,
                   offsets, indices);
  });
  return cudaGetLastError();
}

// ---- the two faces ----

template <class T>
struct Neighbors {
  int64_t n_src, n_dst, d, n_items, n_buckets;
  double radius, period_x, period_y, period_z;
  int exclude_self;

  struct Points {
    const T* sources;                                 // [n_src, d]
    const T* destinations;                            // [n_dst, d]
    const int64_t *source_items, *destination_items;  // [n_items + 1], or null
  };
  struct Counted {
    double* positions;  // [n_src, d]
    int32_t* order;     // [n_src]
    int32_t* starts;    // [n_buckets + 1]
    double* grid;       // [2]
    int64_t* offsets;   // [n_dst + 1]
  };
  struct Found {
    const T* destinations;
    const int64_t *source_items, *destination_items;
    const double* positions;
    const int32_t *order, *starts;
    const double* grid;
    const int64_t* offsets;
  };
  struct Filled {
    int32_t* indices;  // [offsets[n_dst]]
  };

  int count(const Points& in, const Counted& out, Call& call) const {
    const NeighborSearch search{n_src,
                                n_dst,
                                d,
                                n_items,
                                n_buckets,
                                radius,
                                {period_x, period_y, period_z},
                                exclude_self != 0,
                                in.source_items,
                                in.destination_items,
                                out.positions,
                                out.order,
                                out.starts,
                                out.grid};
    return count_all(search, in.sources, in.destinations, out.offsets, call);
  }
  int fill(const Found& in, const Filled& out, Call& call) const {
    const NeighborSearch search{n_src,
                                n_dst,
                                d,
                                n_items,
                                n_buckets,
                                radius,
                                {period_x, period_y, period_z},
                                exclude_self != 0,
                                in.source_items,
                                in.destination_items,
                                const_cast<double*>(in.positions),
                                const_cast<int32_t*>(in.order),
                                const_cast<int32_t*>(in.starts),
                                const_cast<double*>(in.grid)};
    return fill_all(search, in.destinations, in.offsets, out.indices, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "neighbors_entries.cuh"

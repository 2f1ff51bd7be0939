// SPDX-License-Identifier: MIT
// Points within a radius of others, by a hash table of cells.
//
// Cells are a little wider than the radius, so that the neighbours of a point lie in its own cell
// and those next to it. Cells that follow one another along x have buckets that do so too, which
// makes three cells one range of points. Whatever else a bucket holds is told apart by the cell, so
// the table needs no bounds in space, and its size is that of the number of points.
//
// The points are sorted by bucket. Within a bucket, and so in every count and row, the order is the
// same in every run.
#include "device/call.cuh"
#include "neighbors_first.cuh"
#include "neighbors_table.cuh"

namespace gnograd {
namespace {

// Range of cells along x that a lane has: row and layer count from the first ones; part: the cells
// before the box begins anew, or after.
struct RangeNumber {
  int row, layer, part;

  __device__ explicit RangeNumber(int lane) : row(lane % 3), layer(lane / 3 % 3), part(lane / 9) {}
};

// f(lanes that have a neighbour, its number) by the warp of destination i, again and again. Each
// lane finds a range of points; then all go through these as if they were one.
template <int D, class R, class F>
__device__ void for_neighbors(const NeighborSearch& s, const R* destinations, int64_t i, F f) {
  const Cells<D> cells(s);
  const Point<D> p = point<D>(s, destinations, i);
  const int64_t item = item_of(s.destination_items, s.n_items, i);
  const PointRange own = sources_of(s, item);
  const CellRange along(cells.x, p.x[0]);
  const CellRange rows = D > 1 ? CellRange(cells.y, p.x[D > 1]) : CellRange();
  const CellRange layers = D > 2 ? CellRange(cells.z, p.x[D - 1]) : CellRange();
  const int straight = along.before_wrap();

  int32_t begin = 0, left = 0, again = 0;  // `again`: so many points of the first buckets follow
  const RangeNumber mine(lane_number());
  const int n_cells = mine.part ? along.n - straight : straight;
  if (mine.part < 2 && n_cells > 0 && mine.row < rows.n && mine.layer < layers.n) {
    const int64_t cell = along[mine.part ? straight : 0];
    const uint64_t hash = row_hash(item, rows[mine.row], layers[mine.layer]);
    const auto bucket = int64_t((hash + uint64_t(cell)) & uint64_t(s.n_buckets - 1));
    const int64_t stop = bucket + n_cells;
    begin = s.starts[bucket];
    left = s.starts[min(stop, s.n_buckets)] - begin;
    if (stop > s.n_buckets) again = s.starts[stop - s.n_buckets];
  }
  do {
    constexpr int32_t most = 1 << 26;  // so that 32 bits hold the sum over all lanes
    const int32_t take = min(left, most);
    const uint32_t end = sum_up_to_lane(uint32_t(take));
    const uint32_t total = __shfl_sync(~0u, end, warp_lanes - 1);
    const uint32_t origin = uint32_t(begin) + uint32_t(take) - end;
    for (uint32_t base = 0; base < total; base += warp_lanes) {
      const uint32_t number = base + lane_number();
      int range = 0;  // so many ranges end before it
      for (int d = warp_lanes / 2; d > 0; d /= 2)
        if (__shfl_sync(~0u, end, range + d - 1) <= number) range += d;
      const auto k = int32_t(__shfl_sync(~0u, origin, range) + number);
      const double* q = s.positions + int64_t(k) * D;
      bool near = number < total && within<D>(s, p, q);
      int32_t j = 0;
      if (near) {
        const RangeNumber from(range);
        const int64_t cell = along[from.part ? straight : 0], x = cells.x.cell(q[0]);
        j = s.order[k];
        near = cell <= x && x < cell + (from.part ? along.n - straight : straight) &&
               cells.row(q) == rows[from.row] && cells.layer(q) == layers[from.layer] &&
               own.first <= j && j < own.last && !(s.exclude_self && j == i);
      }
      f(__ballot_sync(~0u, near), j);
    }
    begin += take, left -= take;
    if (left == 0) begin = 0, left = again, again = 0;
  } while (__any_sync(~0u, left > 0));
}

// The neighbours of destination i by its warp, in the order in which they are found; the first ones
// of them if there is room for no more. Returns their number.
template <int D, class R>
__device__ int64_t find_row(const NeighborSearch& s, const R* destinations, int64_t i,
                            int32_t* row, int64_t room) {
  int64_t n = 0;
  for_neighbors<D>(s, destinations, i, [&](unsigned near, int32_t j) {
    const int64_t place = n + __popc(near & lower_lanes());
    if ((near >> lane_number() & 1) && place < room) row[place] = j;
    n += __popc(near);
  });
  return n;
}

// Choose among the neighbours of destination i by a seed.
template <int D, class R>
__device__ void choose_row(const NeighborSearch& s, const R* destinations, int64_t i, int64_t seed,
                           FirstOnes& row) {
  for_neighbors<D>(s, destinations, i, [&](unsigned near, int32_t j) {
    row.offer(near >> lane_number() & 1, random_key(seed, i, j), j);
  });
}

// Warp: a destination, lanes over the points of 3^(d-1) ranges of buckets. Reads 8 d bytes a point
// of these, mostly from caches, and writes 4 a neighbour, as many as there is room for; bound by
// integer instructions.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_find_rows(NeighborSearch s, const R* destinations, int64_t room,
                        int32_t* found,  // [n_dst, room]
                        int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  const int64_t n = find_row<D>(s, destinations, i, found + i * room, room);
  if (lane_number() == 0) counts[i] = min(n, s.max_neighbors);
}

// Warp: the same, where a row has at most max_neighbors of those in reach, and there is room for
// them. Room for six blocks, as ptxas would spill to have more.
template <int D, class R>
__global__ void __launch_bounds__(block_threads, 6)
    neighbors_choose_rows(NeighborSearch s, const R* destinations, int64_t seed, int64_t room,
                          uint64_t* keys,  // [n_dst, max_neighbors], of more than 32
                          int32_t* found,  // [n_dst, room]
                          int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  FirstOnes row(keys + i * s.max_neighbors, found + i * room, s.max_neighbors, UINT64_MAX);
  choose_row<D>(s, destinations, i, seed, row);
  row.write();
  if (lane_number() == 0) counts[i] = row.n;
}

// Warp: a row that there was no room for, found again.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_find_long_rows(NeighborSearch s, const R* destinations, int64_t room,
                             const int64_t* offsets, int32_t* indices) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  const int64_t n = offsets[i + 1] - offsets[i];
  if (n > room) find_row<D>(s, destinations, i, indices + offsets[i], n);
}

// Warp: the same, of rows with at most max_neighbors. Room for six blocks, as ptxas would spill to
// have more.
template <int D, class R>
__global__ void __launch_bounds__(block_threads, 6)
    neighbors_choose_long_rows(NeighborSearch s, const R* destinations, int64_t seed, int64_t room,
                               uint64_t* keys,  // [n_dst, max_neighbors], of more than 32
                               const int64_t* offsets, int32_t* indices) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  const int64_t n = offsets[i + 1] - offsets[i];
  if (n <= room) return;
  FirstOnes row(keys + i * s.max_neighbors, indices + offsets[i], n, UINT64_MAX);
  choose_row<D>(s, destinations, i, seed, row);
  row.write();
}

// Warp: a row, sorted in registers up to 128 numbers, from where it was found; long ones are in
// their place. Reads and writes 4 bytes a neighbour; bound by the comparisons.
static __global__ void __launch_bounds__(block_threads)
    neighbors_write_rows(int64_t n_dst, int64_t room, const int32_t* found, const int64_t* offsets,
                         int32_t* indices) {
  const int64_t i = warp_number();
  if (i >= n_dst) return;
  const int64_t n = offsets[i + 1] - offsets[i];
  int32_t* row = indices + offsets[i];
  sort_row(n <= room ? found + i * room : row, row, n);
}

// Start of the bits of a row that begins at this edge; no two rows share 32 of them.
__device__ inline int64_t first_mark(int64_t i, int64_t edge) { return edge / warp_lanes + i; }

// Warp: a row, lanes over its sources, d numbers from anywhere each, and a bit for whether it is
// kept; bound by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_count_nearer(NeighborSearch s, const R* sources, const R* destinations,
                           const int64_t* offsets, const int32_t* indices, int64_t* counts,
                           int32_t* marks) {  // [offsets[n_dst] / 32 + n_dst]
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  const Point<D> p = point<D>(s, destinations, i);
  int32_t* mark = marks + first_mark(i, offsets[i]);
  int64_t count = 0;
  for (int64_t base = offsets[i]; base < offsets[i + 1]; base += warp_lanes) {
    const int64_t e = base + lane_number();
    const bool there = e < offsets[i + 1];
    const unsigned near =
        __ballot_sync(~0u, there && within<D>(s, p, point<D>(s, sources, indices[e]).x));
    if (lane_number() == 0) *mark = int32_t(near);
    ++mark;
    count += __popc(near);
  }
  if (lane_number() == 0) counts[i] = count;
}

// Warp: a row, those that are kept in the order that they are in; reads a bit an edge, and 4 bytes
// and writes them where it is kept; bound by memory.
static __global__ void __launch_bounds__(block_threads)
    neighbors_write_nearer(int64_t n_dst, const int64_t* __restrict__ offsets,
                           const int32_t* __restrict__ indices,
                           const int64_t* __restrict__ kept_offsets,
                           const int32_t* __restrict__ marks, int32_t* __restrict__ kept) {
  const int64_t i = warp_number();
  if (i >= n_dst) return;
  const int32_t* mark = marks + first_mark(i, offsets[i]);
  int64_t end = kept_offsets[i];
  for (int64_t base = offsets[i]; base < offsets[i + 1]; base += warp_lanes) {
    const auto near = unsigned(*mark++);
    if (near >> lane_number() & 1)
      kept[end + __popc(near & lower_lanes())] = indices[base + lane_number()];
    end += __popc(near);
  }
}

// ---- launchers ----

template <class R>
int count_all(const NeighborSearch& s, int64_t seed, const R* sources, const R* destinations,
              int64_t room, int32_t* found, int64_t* offsets, Call& call) {
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  if (!s.valid() || room < 0) return GNOGRAD_CUDA_VALUE;
  const bool chosen = s.max_neighbors < s.n_src && s.max_neighbors <= room;
  const PointParts source_parts(s.n_src, workspace), destination_parts(s.n_dst, workspace);
  SortDigits digits(s.n_src, workspace);
  SortPairs from{workspace.take<uint32_t>(s.n_src), workspace.take<int32_t>(s.n_src)};
  SortPairs to{workspace.take<uint32_t>(s.n_src), s.order};
  const int64_t longest = std::max({int64_t(1), s.n_dst, warp_lanes * digits.n_chunks});
  auto* sums = workspace.take<int64_t>(ceil_div(longest, scan_chunk));
  auto* keys = workspace.take<uint64_t>(chosen ? FirstOnes::room(s.n_dst, s.max_neighbors) : 0);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  choose_grid(s, sources, destinations, source_parts, destination_parts, stream);

  const int bits = bits_below(s.n_buckets);
  if (ceil_div(bits, digit_bits) % 2 == 0) std::swap(from, to);  // the last pass ends in s.order
  with_axes(s.d, [&](auto d) {
    launch_threads(s.n_src, stream, neighbors_choose_buckets<d(), R>, s, sources, from.keys,
                   from.numbers);
  });
  sort_pairs(digits, bits, from, to, sums, stream);
  launch_threads(s.n_buckets + 1, stream, neighbors_find_starts, s, from.keys);
  with_axes(s.d, [&](auto d) {
    launch_threads(s.n_src, stream, neighbors_gather_positions<d(), R>, s, sources);
    const int64_t threads = s.n_dst * warp_lanes;
    if (chosen)
      launch_threads(threads, stream, neighbors_choose_rows<d(), R>, s, destinations, seed, room,
                     keys, found, offsets);
    else
      launch_threads(threads, stream, neighbors_find_rows<d(), R>, s, destinations, room, found,
                     offsets);
  });
  exclusive_scan(offsets, s.n_dst, offsets + s.n_dst, sums, stream);
  launch(neighbors_end_offsets, dim3(1), dim3(warp_lanes), 0, stream, s, offsets);
  return cudaGetLastError();
}

template <class R>
int fill_all(const NeighborSearch& s, int64_t seed, const R* destinations, int64_t room,
             const int32_t* found, const int64_t* offsets, int32_t* indices, Call& call) {
  if (!s.valid() || room < 0) return GNOGRAD_CUDA_VALUE;
  const bool some_long = std::min(s.n_src, s.max_neighbors) > room;
  const bool chosen = some_long && s.max_neighbors < s.n_src;
  auto* keys =
      call.workspace.take<uint64_t>(chosen ? FirstOnes::room(s.n_dst, s.max_neighbors) : 0);
  if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
  const cudaStream_t stream = call.stream;
  const int64_t threads = s.n_dst * warp_lanes;
  with_axes(s.d, [&](auto d) {
    if (chosen)
      launch_threads(threads, stream, neighbors_choose_long_rows<d(), R>, s, destinations, seed,
                     room, keys, offsets, indices);
    else if (some_long)
      launch_threads(threads, stream, neighbors_find_long_rows<d(), R>, s, destinations, room,
                     offsets, indices);
  });
  launch_threads(threads, stream, neighbors_write_rows, s.n_dst, room, found, offsets, indices);
  return cudaGetLastError();
}

// ---- the faces ----

template <class T>
struct Neighbors {
  int64_t n_src, n_dst, d, n_items, n_buckets;
  double radius, period_x, period_y, period_z;
  int exclude_self;
  int64_t max_neighbors, seed, room;

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
    int32_t* found;     // [n_dst, room]
    int64_t* offsets;   // [n_dst + 1]
  };
  struct Found {
    const T* destinations;
    const int64_t *source_items, *destination_items;
    const double* positions;
    const int32_t *order, *starts;
    const double* grid;
    const int32_t* found;
    const int64_t* offsets;
  };
  struct Filled {
    int32_t* indices;  // [offsets[n_dst]]
  };

  int count(const Points& in, const Counted& out, Call& call) const {
    const NeighborSearch s = search(in.source_items, in.destination_items, out.positions, out.order,
                                    out.starts, out.grid);
    return count_all(s, seed, in.sources, in.destinations, room, out.found, out.offsets, call);
  }
  int fill(const Found& in, const Filled& out, Call& call) const {
    const NeighborSearch s =
        search(in.source_items, in.destination_items, const_cast<double*>(in.positions),
               const_cast<int32_t*>(in.order), const_cast<int32_t*>(in.starts),
               const_cast<double*>(in.grid));
    return fill_all(s, seed, in.destinations, room, in.found, in.offsets, out.indices, call);
  }

 private:
  NeighborSearch search(const int64_t* source_items, const int64_t* destination_items,
                        double* positions, int32_t* order, int32_t* starts, double* grid) const {
    return {n_src,
            n_dst,
            d,
            n_items,
            n_buckets,
            radius,
            {period_x, period_y, period_z},
            exclude_self != 0,
            max_neighbors,
            source_items,
            destination_items,
            positions,
            order,
            starts,
            grid};
  }
};

// Neighbours within a smaller radius, among those that there are.
template <class T>
struct NearerNeighbors {
  int64_t n_src, n_dst, d;
  double radius, period_x, period_y, period_z;

  struct Given {
    const T *sources, *destinations;  // [n_src, d], [n_dst, d]
    const int64_t* offsets;           // [n_dst + 1]
    const int32_t* indices;           // [offsets[n_dst]]
  };
  struct Counted {
    int64_t* kept_offsets;  // [n_dst + 1]
    int32_t* marks;         // [offsets[n_dst] / 32 + n_dst]
  };
  struct Kept {
    const int64_t* offsets;
    const int32_t* indices;
    const int64_t* kept_offsets;
    const int32_t* marks;
  };
  struct Filled {
    int32_t* kept;  // [kept_offsets[n_dst]]
  };

  int count(const Given& in, const Counted& out, Call& call) const {
    const NeighborSearch s = search();
    if (!s.valid()) return GNOGRAD_CUDA_VALUE;
    auto* sums = call.workspace.take<int64_t>(ceil_div(std::max(int64_t(1), n_dst), scan_chunk));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    with_axes(d, [&](auto axes) {
      launch_threads(n_dst * warp_lanes, call.stream, neighbors_count_nearer<axes(), T>, s,
                     in.sources, in.destinations, in.offsets, in.indices, out.kept_offsets,
                     out.marks);
    });
    exclusive_scan(out.kept_offsets, n_dst, out.kept_offsets + n_dst, sums, call.stream);
    return cudaGetLastError();
  }
  int fill(const Kept& in, const Filled& out, Call& call) const {
    if (!search().valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(n_dst * warp_lanes, call.stream, neighbors_write_nearer, n_dst, in.offsets,
                   in.indices, in.kept_offsets, in.marks, out.kept);
    return cudaGetLastError();
  }

 private:
  NeighborSearch search() const {
    NeighborSearch s{};
    s.n_src = n_src, s.n_dst = n_dst, s.d = d, s.n_items = 1, s.n_buckets = 4, s.radius = radius;
    s.period[0] = period_x, s.period[1] = period_y, s.period[2] = period_z;
    return s;
  }
};

}  // namespace
}  // namespace gnograd

#include "neighbors_entries.cuh"

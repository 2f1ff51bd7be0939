// SPDX-License-Identifier: MIT
// The nearest points, by a tree of boxes.
//
// Points are sorted by their items and, within these, along a curve that fills space (Morton, A
// computer oriented geodetic data base, IBM 1966). Boxes hold 32 points that follow one another, or
// 32 boxes, and so on: a tree that needs no pointers, and adapts to points as they lie. A warp goes
// down to the nearest box first, a lane a box, and leaves out those that are further away than what
// it has. Distances to boxes are rounded as those to points are, so that no point is nearer than
// its box.
#include "device/call.cuh"
#include "neighbors_first.cuh"
#include "neighbors_sort.cuh"

namespace gnograd {
namespace {

constexpr int most_levels = 7;  // 32^7 points

struct BoxTree {
  double* boxes[most_levels];  // [counts, 2, d]: the lowest and highest coordinates
  int64_t counts[most_levels];
  int n_levels = 0;

  BoxTree(int64_t n, int64_t d, Workspace& workspace) {
    do {
      n = ceil_div(n, warp_lanes);
      counts[n_levels] = n;
      boxes[n_levels++] = workspace.take<double>(n * 2 * d);
    } while (n > warp_lanes);
  }
};

// ---- order ----

// Bits that a coordinate has in the key of a point.
__host__ __device__ constexpr int bits_of_axis(int d) { return d == 1 ? 32 : d == 2 ? 16 : 10; }

// Lowest and highest coordinates of points, or of boxes, by lanes that hold some each.
template <int D>
struct Extent {
  double low[D], high[D];

  __device__ Extent() {
#pragma unroll
    for (int a = 0; a < D; ++a) low[a] = INFINITY, high[a] = -INFINITY;
  }
  __device__ void add(const double* lower, const double* upper) {
#pragma unroll
    for (int a = 0; a < D; ++a) low[a] = fmin(low[a], lower[a]), high[a] = fmax(high[a], upper[a]);
  }
  // Of all lanes; the first one writes it, [2, D].
  __device__ void write(double* box) {
#pragma unroll
    for (int a = 0; a < D; ++a) {
      for (int d = warp_lanes / 2; d > 0; d /= 2) {
        low[a] = fmin(low[a], __shfl_xor_sync(~0u, low[a], d));
        high[a] = fmax(high[a], __shfl_xor_sync(~0u, high[a], d));
      }
      if (lane_number() == 0) box[a] = low[a], box[D + a] = high[a];
    }
  }
};

// Warp: the box around a part of the points; reads d numbers a point; bound by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_part_boxes(NeighborSearch s, const R* points, PointParts parts,
                       double* boxes) {  // [parts, 2, D]
  const int64_t part = warp_number();
  const int64_t first = part * parts.length, last = min(first + parts.length, parts.n);
  if (first >= parts.n) return;
  Extent<D> extent;
  for (int64_t i = first + lane_number(); i < last; i += warp_lanes) {
    const Point<D> p = point<D>(s, points, i);
    extent.add(p.x, p.x);
  }
  extent.write(boxes + part * 2 * D);
}

// One warp: the box around all of them.
template <int D>
__global__ void nearest_whole_box(int64_t n, const double* boxes, double* whole) {
  Extent<D> extent;
  for (int64_t k = lane_number(); k < n; k += warp_lanes)
    extent.add(boxes + k * 2 * D, boxes + k * 2 * D + D);
  extent.write(whole);
}

// Thread: a point's place along the curve, of which the axes have bits in turn.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_choose_keys(NeighborSearch s, const R* sources, const double* whole, SortPairs pairs) {
  const int64_t i = thread_number();
  if (i >= s.n_src) return;
  constexpr int bits = bits_of_axis(D);
  const Point<D> p = point<D>(s, sources, i);
  uint32_t key = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double low = whole[a], scale = ldexp(1.0, bits) / (whole[D + a] - low);
    // comparisons that fail for a NaN put it somewhere
    const auto cell = uint32_t(fmin(fmax((p.x[a] - low) * scale, 0.0), ldexp(1.0, bits) - 1));
    for (int b = 0; b < bits; ++b) key |= (cell >> b & 1) << (b * D + a);
  }
  pairs.keys[i] = key;
  pairs.numbers[i] = int32_t(i);
}

// Thread: a point's item, in the order that there is.
static __global__ void __launch_bounds__(block_threads)
    nearest_item_keys(NeighborSearch s, SortPairs pairs) {
  const int64_t k = thread_number();
  if (k < s.n_src) pairs.keys[k] = uint32_t(item_of(s.source_items, s.n_items, pairs.numbers[k]));
}

// Warp: a box around 32 points, or around 32 boxes; reads each once.
template <int D>
__global__ void __launch_bounds__(block_threads)
    nearest_make_boxes(NeighborSearch s, BoxTree tree, int level) {
  const int64_t box = warp_number();
  if (box >= tree.counts[level]) return;
  const int64_t k = box * warp_lanes + lane_number();
  Extent<D> extent;
  if (level == 0 && k < s.n_src) extent.add(s.positions + k * D, s.positions + k * D);
  if (level > 0 && k < tree.counts[level - 1]) {
    const double* inner = tree.boxes[level - 1] + k * 2 * D;
    extent.add(inner, inner + D);
  }
  extent.write(tree.boxes[level] + box * 2 * D);
}

// ---- search ----

// No point in the box is nearer. Images are told apart before they are subtracted, which rounds
// otherwise than distances of points are: by less than what is taken off.
template <int D>
__device__ double distance_to_box(const NeighborSearch& s, const Point<D>& p, const double* box) {
  double squares = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double below = __dadd_rn(box[a], -p.x[a]), above = __dadd_rn(p.x[a], -box[D + a]);
    double gap = fmax(below, above);
    if (s.period[a] > 0) {
      gap = fmin(gap, fmin(below, above) + s.period[a]);
      gap -= s.period[a] * 0x1p-48;
    }
    gap = fmax(gap, 0.0);
    squares = __dadd_rn(squares, __dmul_rn(gap, gap));
  }
  return squares;
}

// Warp: a destination. Reads 16 d bytes a box, from caches mostly, and 8 d a point; bound by the
// chain from box to box.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_find(NeighborSearch s, BoxTree tree, const R* destinations,
                 uint64_t* keys,  // [n_dst, max_neighbors]
                 int32_t* found,  // [n_dst, max_neighbors]
                 int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  const int lane = lane_number();
  const Point<D> p = point<D>(s, destinations, i);
  const int64_t item = item_of(s.destination_items, s.n_items, i);
  const int64_t first = s.source_items ? s.source_items[item] : 0;
  const int64_t last = s.source_items ? s.source_items[item + 1] : s.n_src;
  const uint64_t reach = key_of(__dmul_rn(s.radius, s.radius));
  FirstOnes row(keys + i * s.max_neighbors, found + i * s.max_neighbors, s.max_neighbors);

  double distances[most_levels];  // of this lane's box on every level, negative: seen, or none
  int64_t begin[most_levels];     // the first lane's box
  const auto look = [&](int level, int64_t box) {
    begin[level] = box;
    box += lane;
    int64_t points = box, more = 1;
    for (int l = 0; l <= level; ++l) points *= warp_lanes, more *= warp_lanes;
    const bool there =
        box < tree.counts[level] && points < last && first < points + more && first < last;
    distances[level] = there ? distance_to_box<D>(s, p, tree.boxes[level] + box * 2 * D) : -1.0;
  };
  const auto look_at_points = [&](int64_t k) {
    k += lane;
    int32_t j = 0;
    uint64_t key = 0;
    bool near = first <= k && k < last;
    if (near) {
      j = s.order[k];
      key = key_of(squared_distance<D>(s, p, s.positions + k * D));
      near = key <= reach && !(s.exclude_self && j == i);
    }
    row.offer(near, key, j);
  };

  const int top = tree.n_levels - 1;
  int level = top;
  if (s.max_neighbors > 0) look(top, 0);
  else level = top + 1;
  while (level <= top) {
    const double mine = distances[level];
    const bool open =
        mine >= 0 && key_of(mine) <= reach && !(row.full() && key_of(mine) > row.last_key);
    double nearest = open ? mine : INFINITY;
    for (int d = warp_lanes / 2; d > 0; d /= 2)
      nearest = fmin(nearest, __shfl_xor_sync(~0u, nearest, d));
    const unsigned best = __ballot_sync(~0u, open && mine <= nearest);
    if (!best) {
      ++level;
      continue;
    }
    const int chosen = __ffs(int(best)) - 1;
    if (lane == chosen) distances[level] = -1;
    const int64_t inner = (begin[level] + chosen) * warp_lanes;
    if (level == 0) look_at_points(inner);
    else look(--level, inner);
  }
  if (lane == 0) counts[i] = row.n;
}

// Warp: a row to its place, by number if they are to ascend.
static __global__ void __launch_bounds__(block_threads)
    nearest_write_rows(int64_t n_dst, int64_t k, bool ascending, const int32_t* found,
                       const int64_t* offsets, int32_t* indices) {
  const int64_t i = warp_number();
  if (i >= n_dst) return;
  const int64_t n = offsets[i + 1] - offsets[i];
  if (ascending) sort_row(found + i * k, indices + offsets[i], n);
  else copy_row(found + i * k, indices + offsets[i], n);
}

// ---- launchers ----

template <class R>
int find_all(NeighborSearch s, const R* sources, const R* destinations, int32_t* found,
             int64_t* offsets, Call& call) {
  if (!s.valid()) return GNOGRAD_CUDA_VALUE;
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  const PointParts source_parts(s.n_src, workspace), destination_parts(s.n_dst, workspace);
  const BoxTree tree(s.n_src, s.d, workspace);
  SortDigits digits(s.n_src, workspace);
  SortPairs from{workspace.take<uint32_t>(s.n_src), workspace.take<int32_t>(s.n_src)};
  SortPairs to{workspace.take<uint32_t>(s.n_src), workspace.take<int32_t>(s.n_src)};
  const int64_t longest = std::max({int64_t(1), s.n_dst, warp_lanes * digits.n_chunks});
  auto* sums = workspace.take<int64_t>(ceil_div(longest, scan_chunk));
  auto* parts = workspace.take<double>(source_parts.count * 2 * s.d);
  auto* whole = workspace.take<double>(2 * s.d);
  auto* keys = workspace.take<uint64_t>(s.n_dst * s.max_neighbors);
  s.grid = workspace.take<double>(2);
  s.positions = workspace.take<double>(s.n_src * s.d);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  choose_grid(s, sources, destinations, source_parts, destination_parts, stream);
  with_axes(s.d, [&](auto d) {
    constexpr int D = d();
    launch_threads(source_parts.count * warp_lanes, stream, nearest_part_boxes<D, R>, s, sources,
                   source_parts, parts);
    launch(nearest_whole_box<D>, dim3(1), dim3(warp_lanes), 0, stream, source_parts.count, parts,
           whole);
    launch_threads(s.n_src, stream, nearest_choose_keys<D, R>, s, sources, whole, from);
    sort_pairs(digits, D * bits_of_axis(D), from, to, sums, stream);
    if (s.source_items) {
      launch_threads(s.n_src, stream, nearest_item_keys, s, from);
      sort_pairs(digits, bits_below(s.n_items), from, to, sums, stream);
    }
    s.order = from.numbers;
    launch_threads(s.n_src, stream, neighbors_gather_positions<D, R>, s, sources);
    for (int level = 0; level < tree.n_levels; ++level)
      launch_threads(tree.counts[level] * warp_lanes, stream, nearest_make_boxes<D>, s, tree,
                     level);
    launch_threads(s.n_dst * warp_lanes, stream, nearest_find<D, R>, s, tree, destinations, keys,
                   found, offsets);
  });
  exclusive_scan(offsets, s.n_dst, offsets + s.n_dst, sums, stream);
  launch(neighbors_end_offsets, dim3(1), dim3(warp_lanes), 0, stream, s, offsets);
  return cudaGetLastError();
}

template <class T>
struct NearestNeighbors {
  int64_t n_src, n_dst, d, n_items, k;
  double radius, period_x, period_y, period_z;
  int exclude_self, ascending;

  struct Points {
    const T* sources;                                 // [n_src, d]
    const T* destinations;                            // [n_dst, d]
    const int64_t *source_items, *destination_items;  // [n_items + 1], or null
  };
  struct Found {
    int32_t* found;    // [n_dst, k]
    int64_t* offsets;  // [n_dst + 1]
  };
  struct Given {
    const int32_t* found;
    const int64_t* offsets;
  };
  struct Filled {
    int32_t* indices;  // [offsets[n_dst]]
  };

  int find(const Points& in, const Found& out, Call& call) const {
    NeighborSearch s{};
    s.n_src = n_src, s.n_dst = n_dst, s.d = d, s.n_items = n_items, s.n_buckets = 4;
    s.radius = radius, s.exclude_self = exclude_self != 0, s.max_neighbors = k;
    s.period[0] = period_x, s.period[1] = period_y, s.period[2] = period_z;
    s.source_items = in.source_items, s.destination_items = in.destination_items;
    return find_all(s, in.sources, in.destinations, out.found, out.offsets, call);
  }
  int fill(const Given& in, const Filled& out, Call& call) const {
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(n_dst * warp_lanes, call.stream, nearest_write_rows, n_dst, k, ascending != 0,
                   in.found, in.offsets, out.indices);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "nearest_neighbors_entries.cuh"

// SPDX-License-Identifier: MIT
// The nearest points, by a tree of boxes.
//
// Points are sorted by their items and, within these, along a curve that fills space (Morton, A
// computer oriented geodetic data base, IBM 1966). Boxes hold 32 points that follow one another, or
// 32 boxes, and so on: a tree that needs no pointers, and adapts to points as they lie. A warp
// begins with the points that are next to its own on the curve, of which many are near. Then it
// goes down to the nearest box first, a lane a box, and leaves out those that are further away than
// what it has. Distances to boxes are rounded as those to points are, so that no point is nearer
// than its box.
//
// Coordinates lie as lanes read them: 32 points have theirs of every axis side by side, and so have
// 32 boxes.
#include "device/call.cuh"
#include "neighbors_first.cuh"
#include "neighbors_sort.cuh"

namespace gnograd {
namespace {

constexpr int most_levels = 6;  // enough for 2^31 points
constexpr int level_bits = 5;   // 32 boxes of a level are one of the next
static_assert(1 << level_bits == warp_lanes);

// Address of the first coordinate of point k, or of box k; its others are 32 numbers apart.
template <class X>
__host__ __device__ X* coordinates(X* x, int64_t k, int n) {
  return x + k / warp_lanes * warp_lanes * n + k % warp_lanes;
}
inline int64_t n_coordinates(int64_t k, int64_t n) {
  return ceil_div(k, warp_lanes) * warp_lanes * n;
}

struct BoxTree {
  double* boxes[most_levels];  // [count / 32, 2, d, 32]: the lowest and highest coordinates
  int n_levels = 0;

  BoxTree(int64_t n, int64_t d, Workspace& workspace) {
    int64_t n_boxes;
    do {
      n_boxes = count(n, n_levels);
      boxes[n_levels++] = workspace.take<double>(n_coordinates(n_boxes, 2 * d));
    } while (n_boxes > warp_lanes);
  }
  // Boxes of a level around n points.
  static __host__ __device__ int64_t count(int64_t n, int level) {
    const int bits = level_bits * (level + 1);
    return (n + (int64_t(1) << bits) - 1) >> bits;
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
  // Extend the box to a point, or to a box; their coordinates are so far apart.
  __device__ void add(const double* lower, const double* upper, int apart) {
#pragma unroll
    for (int a = 0; a < D; ++a) {
      low[a] = fmin(low[a], lower[a * apart]);
      high[a] = fmax(high[a], upper[a * apart]);
    }
  }
  __device__ void add_box(const double* boxes, int64_t k) {
    const double* box = coordinates(boxes, k, 2 * D);
    add(box, box + D * warp_lanes, warp_lanes);
  }
  // Join the boxes of all lanes; the first lane writes the result as box k.
  __device__ void write(double* boxes, int64_t k) {
    double* box = coordinates(boxes, k, 2 * D);
#pragma unroll
    for (int a = 0; a < D; ++a) {
      for (int d = warp_lanes / 2; d > 0; d /= 2) {
        low[a] = fmin(low[a], __shfl_xor_sync(~0u, low[a], d));
        high[a] = fmax(high[a], __shfl_xor_sync(~0u, high[a], d));
      }
      if (lane_number() == 0)
        box[a * warp_lanes] = low[a], box[(D + a) * warp_lanes] = high[a];
    }
  }
};

// Warp: the box around a part of the points; reads d numbers a point; bound by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_part_boxes(NeighborSearch s, const R* points, PointParts parts,
                       double* boxes) {  // [parts / 32, 2, D, 32]
  const int64_t part = warp_number();
  const int64_t first = part * parts.length, last = min(first + parts.length, parts.n);
  if (first >= parts.n) return;
  Extent<D> extent;
  for (int64_t i = first + lane_number(); i < last; i += warp_lanes) {
    const Point<D> p = point<D>(s, points, i);
    extent.add(p.x, p.x, 1);
  }
  extent.write(boxes, part);
}

// One warp: the box around all of them.
template <int D>
__global__ void nearest_whole_box(int64_t n, const double* boxes, double* whole) {
  Extent<D> extent;
  for (int64_t k = lane_number(); k < n; k += warp_lanes) extent.add_box(boxes, k);
  extent.write(whole, 0);
}

// A point's place along the curve, of which the axes have bits in turn.
template <int D>
__device__ uint32_t place_of(const Point<D>& p, const double* whole) {
  constexpr int bits = bits_of_axis(D);
  uint32_t place = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double low = whole[a * warp_lanes];
    const double scale = ldexp(1.0, bits) / (whole[(D + a) * warp_lanes] - low);
    // comparisons that fail for a NaN put it somewhere
    const auto cell = uint32_t(fmin(fmax((p.x[a] - low) * scale, 0.0), ldexp(1.0, bits) - 1));
    for (int b = 0; b < bits; ++b) place |= (cell >> b & 1) << (b * D + a);
  }
  return place;
}

// Thread: a point; reads d numbers, writes 8 bytes; bound by integer instructions.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_choose_keys(NeighborSearch s, const R* sources, const double* whole, SortPairs pairs) {
  const int64_t i = thread_number();
  if (i >= s.n_src) return;
  pairs.keys[i] = place_of<D>(point<D>(s, sources, i), whole);
  pairs.numbers[i] = int32_t(i);
}

// Thread: a point's item, in the order that there is.
static __global__ void __launch_bounds__(block_threads)
    nearest_item_keys(NeighborSearch s, SortPairs pairs) {
  const int64_t k = thread_number();
  if (k < s.n_src) pairs.keys[k] = uint32_t(item_of(s.source_items, s.n_items, pairs.numbers[k]));
}

// Thread: a point, in the order of the keys; reads d numbers from anywhere, writes 8 d + 4 bytes;
// bound by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_gather(NeighborSearch s, const R* sources, const double* whole,
                   uint32_t* places) {  // [n_src], ascending within an item
  const int64_t k = thread_number();
  if (k >= s.n_src) return;
  const Point<D> p = point<D>(s, sources, s.order[k]);
#pragma unroll
  for (int a = 0; a < D; ++a) coordinates(s.positions, k, D)[a * warp_lanes] = p.x[a];
  places[k] = place_of<D>(p, whole);
}

// Thread: the box of 32 points that a destination looks at first, which has its place on the curve.
// By bisection; log2(n_src) dependent reads, from caches.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    nearest_choose_boxes(NeighborSearch s, const R* destinations, const double* whole,
                         const uint32_t* places,
                         int32_t* boxes) {  // [n_dst]
  const int64_t i = thread_number();
  if (i >= s.n_dst) return;
  const uint32_t place = place_of<D>(point<D>(s, destinations, i), whole);
  const PointRange own = sources_of(s, item_of(s.destination_items, s.n_items, i));
  int32_t low = own.first, high = own.last - 1;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (places[middle] < place) low = middle + 1;
    else high = middle;
  }
  boxes[i] = low / warp_lanes;
}

// Warp: a box around 32 points, or around 32 boxes; reads each once.
template <int D>
__global__ void __launch_bounds__(block_threads)
    nearest_make_boxes(NeighborSearch s, BoxTree tree, int level) {
  const int64_t box = warp_number();
  if (box >= BoxTree::count(s.n_src, level)) return;
  const int64_t k = box * warp_lanes + lane_number();
  Extent<D> extent;
  if (level == 0 && k < s.n_src) {
    const double* x = coordinates(s.positions, k, D);
    extent.add(x, x, warp_lanes);
  }
  if (level > 0 && k < BoxTree::count(s.n_src, level - 1)) extent.add_box(tree.boxes[level - 1], k);
  extent.write(tree.boxes[level], box);
}

// ---- search ----

// No point in the box is nearer. Images are told apart before they are subtracted, which rounds
// otherwise than distances of points are: by less than what is taken off.
template <int D>
__device__ double distance_to_box(const NeighborSearch& s, const Point<D>& p, const double* box) {
  double squares = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double below = __dadd_rn(box[a * warp_lanes], -p.x[a]);
    const double above = __dadd_rn(p.x[a], -box[(D + a) * warp_lanes]);
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

// Warp: a destination, lanes over 32 boxes or points. Reads 16 d bytes a box and 8 d + 4 a point,
// from caches mostly, in whole lines; bound by integer instructions, and by L2 where the warps of a
// block look at different places: destinations that are the sources go in the order of the curve.
// Boxes are compared by the upper half of their distances, which is never more.
template <int D, class R>
__global__ void __launch_bounds__(block_threads, 8)
    nearest_find(NeighborSearch s, BoxTree tree, const R* destinations,
                 const int32_t* turns,        // [n_dst] destinations as they come, or null
                 const int32_t* first_boxes,  // [n_dst]
                 uint64_t* keys,              // [n_dst, max_neighbors], of more than 32
                 int32_t* found,              // [n_dst, max_neighbors]
                 int64_t* counts) {
  const int64_t turn = warp_number();
  if (turn >= s.n_dst) return;
  const int64_t i = turns ? turns[turn] : turn;
  const int lane = lane_number();
  const Point<D> p = point<D>(s, destinations, i);
  const PointRange own = sources_of(s, item_of(s.destination_items, s.n_items, i));
  const int64_t self = s.exclude_self ? i : -1;
  FirstOnes row(keys + i * s.max_neighbors, found + i * s.max_neighbors, s.max_neighbors,
                key_of(__dmul_rn(s.radius, s.radius)));

  const auto look_at_points = [&](int32_t box) {
    const int32_t k = box * warp_lanes + lane;
    int32_t j = 0;
    uint64_t key = 0;
    bool near = own.first <= k && k < own.last;
    if (near) {
      const double* x = s.positions + int64_t(box) * warp_lanes * D + lane;
      Point<D> q;
#pragma unroll
      for (int a = 0; a < D; ++a) q.x[a] = x[a * warp_lanes];
      j = s.order[k];
      key = key_of(squared_distance<D>(s, p, q.x));
      near = j != self;
    }
    row.offer(near, key, j);
  };

  constexpr uint32_t never = UINT32_MAX;
  const int32_t seen = first_boxes[i];
  // distance of this lane's box, one of 32 from `first` on
  const auto look_at_boxes = [&](int level, int32_t first) {
    const int32_t box = first + lane;
    const int bits = level_bits * (level + 1);
    if (box < own.first >> bits || box > (own.last - 1) >> bits) return never;
    if (level == 0 && box == seen) return never;
    const double* numbers = tree.boxes[level] + int64_t(first) * 2 * D + lane;
    return uint32_t(key_of(distance_to_box<D>(s, p, numbers)) >> 32);
  };

  uint32_t above[most_levels + 1];  // this lane's box of levels that are left for a while
  int level = tree.n_levels;        // above all boxes: one that has them
  int32_t first = 0;
  uint32_t mine = lane == 0 ? 0 : never;
  // The box of points to look at next, or -1.
  const auto next_box = [&] {
    while (true) {
      const uint32_t nearest = __reduce_min_sync(~0u, mine);
      if (nearest > uint32_t(row.last.key >> 32)) {
        if (level == tree.n_levels) return -1;
        mine = above[++level];
        first = first >> 2 * level_bits << level_bits;
        continue;
      }
      const int chosen = __ffs(int(__ballot_sync(~0u, mine == nearest))) - 1;
      if (lane == chosen) mine = never;
      if (level == 0) return first + chosen;
      above[level] = mine;
      first = (first + chosen) * warp_lanes;
      mine = look_at_boxes(--level, first);
    }
  };
  if (s.max_neighbors > 0 && own.first < own.last)
    for (int32_t box = seen; box >= 0; box = next_box()) look_at_points(box);
  row.write();
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
  auto* parts = workspace.take<double>(n_coordinates(source_parts.count, 2 * s.d));
  auto* whole = workspace.take<double>(n_coordinates(1, 2 * s.d));
  auto* first_boxes = workspace.take<int32_t>(s.n_dst);
  auto* keys = workspace.take<uint64_t>(FirstOnes::room(s.n_dst, s.max_neighbors));
  s.grid = workspace.take<double>(2);
  s.positions = workspace.take<double>(n_coordinates(s.n_src, s.d));
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  const bool same = sources == destinations && s.n_src == s.n_dst;
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
    uint32_t* places = to.keys;
    launch_threads(s.n_src, stream, nearest_gather<D, R>, s, sources, whole, places);
    launch_threads(s.n_dst, stream, nearest_choose_boxes<D, R>, s, destinations, whole, places,
                   first_boxes);
    for (int level = 0; level < tree.n_levels; ++level)
      launch_threads(BoxTree::count(s.n_src, level) * warp_lanes, stream, nearest_make_boxes<D>,
                     s, tree, level);
    launch_threads(s.n_dst * warp_lanes, stream, nearest_find<D, R>, s, tree, destinations,
                   same ? s.order : nullptr, first_boxes, keys, found, offsets);
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

// SPDX-License-Identifier: MIT
// The search for neighbours: what it is given, distances in a periodic box, and cells.
#pragma once
#include <cfloat>

#include "device/call.cuh"

namespace gnograd {

constexpr int most_axes = 3;
// No source is further from the origin in cells; what is left of 53 bits makes the slack.
constexpr double most_cells = 0x1p40, slack = 0x1p-10;

struct NeighborSearch {
  int64_t n_src, n_dst, d, n_items, n_buckets;
  double radius, period[most_axes];
  bool exclude_self;
  int64_t max_neighbors;                            // most neighbours of a destination
  const int64_t *source_items, *destination_items;  // [n_items+1], or null: one item
  double* positions;                                // [n_src, d] inside the box, in bucket order
  int32_t* order;                                   // [n_src] their numbers
  int32_t* starts;                                  // [n_buckets+1] first one of every bucket
  double* grid;                                     // width of a cell; what is not finite

  bool valid() const {
    bool good = radius >= 0 && max_neighbors >= 0 && n_src >= 0 && n_src <= INT32_MAX &&
                n_dst >= 0 && d >= 1 && d <= most_axes && n_items >= 1 && n_buckets >= 4 &&
                n_buckets <= int64_t(1) << 31 && (n_buckets & (n_buckets - 1)) == 0;
    for (const double length : period) good = good && length >= 0 && length <= DBL_MAX;
    return good;
  }
};

__device__ inline int lane_number() { return int(threadIdx.x) % warp_lanes; }
__device__ inline int64_t warp_number() { return thread_number() / warp_lanes; }
__device__ inline unsigned lower_lanes() { return (1u << lane_number()) - 1; }

// The image of x in 0 <= x < period; as on the CPU, to the last bit.
__device__ inline double wrapped(double x, double period) {
  if (!(period > 0)) return x;
  double image = fmod(x, period);
  if (image < 0) image = __dadd_rn(image, period);
  return image > 0 && image < period ? image : 0;
}

template <int D>
struct Point {
  double x[D];
};

template <int D, class R>
__device__ Point<D> point(const NeighborSearch& s, const R* points, int64_t i) {
  Point<D> p;
#pragma unroll
  for (int a = 0; a < D; ++a) p.x[a] = wrapped(double(points[i * D + a]), s.period[a]);
  return p;
}

// The difference to the nearest image of a coordinate in the same box, or in a box of no length.
__device__ inline double difference(double x, double y, double period) {
  double offset = __dadd_rn(x, -y);
  if (offset < -0.5 * period) offset = __dadd_rn(period, offset);
  else if (offset > 0.5 * period) offset = __dadd_rn(offset, -period);
  return offset;
}

template <int D>
__device__ double squared_distance(const NeighborSearch& s, const Point<D>& x, const double* y) {
  double squares = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double offset = difference(x.x[a], y[a], s.period[a]);
    squares = __dadd_rn(squares, __dmul_rn(offset, offset));
  }
  return squares;
}

template <int D>
__device__ bool within(const NeighborSearch& s, const Point<D>& x, const double* y) {
  return squared_distance<D>(s, x, y) <= __dmul_rn(s.radius, s.radius);
}

// The item that point i belongs to.
__device__ inline int64_t item_of(const int64_t* items, int64_t n_items, int64_t i) {
  int64_t low = 0, high = items ? n_items : 1;  // in low to high - 1
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (items[middle] <= i) low = middle;
    else high = middle;
  }
  return low;
}

struct PointRange {
  int32_t first, last;  // one behind the last
};

// The sources of an item.
__device__ inline PointRange sources_of(const NeighborSearch& s, int64_t item) {
  if (!s.source_items) return {0, int32_t(s.n_src)};
  return {int32_t(s.source_items[item]), int32_t(s.source_items[item + 1])};
}

// ---- cells ----

// Cells along one axis.
struct Axis {
  double scale;   // cells in a unit of length
  int64_t count;  // cells around the box, 0 along an open axis
  double lowest = -2 * most_cells, highest = 2 * most_cells;  // cells that there are

  __device__ Axis(double width, double period) {
    count = period > 0 ? int64_t(fmin(fmax(floor(period / width), 1.0), most_cells)) : 0;
    scale = period > 0 ? double(count) / period : 1 / width;
    if (count) lowest = 0, highest = double(count - 1);
  }
  // Comparisons that fail for a NaN put it into some cell.
  __device__ int64_t cell(double x) const {
    return int64_t(fmin(fmax(floor(x * scale), lowest), highest));
  }
};

// A cell and those next to it, each of them once: first, first + 1, ..., around the box.
struct CellRange {
  int64_t first = 0, count = 0;
  int n = 1;

  CellRange() = default;
  __device__ CellRange(const Axis& axis, double x) : count(axis.count) {
    n = count == 0 ? 3 : int(min(count, int64_t(3)));
    first = n == 3 ? axis.cell(x) - 1 : 0;
  }
  __device__ int64_t operator[](int k) const {
    const int64_t cell = first + k;
    return count == 0 ? cell : cell < 0 ? cell + count : cell >= count ? cell - count : cell;
  }
  // Number of cells, from the first one on, before the box begins anew.
  __device__ int before_wrap() const {
    return count == 0 ? n : first < 0 ? 1 : int(min(int64_t(n), count - first));
  }
};

__device__ inline uint64_t mixed(uint64_t hash, int64_t more) {
  hash = (hash ^ uint64_t(more)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}
// Cells (x, y, z) with the same y and z lie x buckets after this.
__device__ inline uint64_t row_hash(int64_t item, int64_t y, int64_t z) {
  return mixed(mixed(mixed(0, item), y), z);
}

template <int D>
struct Cells {
  Axis x, y, z;

  __device__ explicit Cells(const NeighborSearch& s)
      : x(s.grid[0], s.period[0]), y(s.grid[0], s.period[1]), z(s.grid[0], s.period[2]) {}

  __device__ int64_t row(const double* p) const { return D > 1 ? y.cell(p[D > 1]) : 0; }
  __device__ int64_t layer(const double* p) const { return D > 2 ? z.cell(p[D - 1]) : 0; }
};

// Points in parts of a warp each.
struct PointParts {
  int64_t n, length, count;
  double* largest;  // [count]

  PointParts(int64_t n, Workspace& workspace)
      : n(n),
        length(std::max<int64_t>(256, ceil_div(n, 2048))),
        count(ceil_div(n, length)),
        largest(workspace.take<double>(count)) {}
};

// The largest coordinate of every part; infinity where one is not finite. Warp: a part; reads d
// numbers a point; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_magnitudes(NeighborSearch s, const R* points, PointParts parts) {
  const int64_t first = warp_number() * parts.length, last = min(first + parts.length, parts.n);
  if (first >= parts.n) return;
  double largest = 0;
  for (int64_t k = first * s.d + lane_number(); k < last * s.d; k += warp_lanes) {
    const double x = double(points[k]);
    largest = fabs(x) <= DBL_MAX ? fmax(largest, fabs(wrapped(x, s.period[k % s.d]))) : INFINITY;
    if (largest > DBL_MAX) break;
  }
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, d));
  if (lane_number() == 0) parts.largest[warp_number()] = largest;
}

// One warp: the width of a cell, from the parts.
static __global__ void neighbors_choose_grid(NeighborSearch s, PointParts sources,
                                             PointParts destinations) {
  const auto largest = [](const PointParts& parts) {
    double x = 0;
    for (int64_t k = lane_number(); k < parts.count; k += warp_lanes) x = fmax(x, parts.largest[k]);
    for (int d = warp_lanes / 2; d > 0; d /= 2) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    return x;
  };
  const double extent = largest(sources), reach = largest(destinations);
  if (lane_number() != 0) return;
  s.grid[0] = fmax(fmax(s.radius * (1 + slack), extent / most_cells), DBL_MIN);
  s.grid[1] = extent > DBL_MAX ? -1 : reach > DBL_MAX ? -2 : 0;
}

// The largest coordinates of both kinds of points, which are looked at for what is not finite.
template <class R>
void choose_grid(const NeighborSearch& s, const R* sources, const R* destinations,
                 const PointParts& source_parts, const PointParts& destination_parts,
                 cudaStream_t stream) {
  const auto magnitude = [&](const PointParts& parts, const R* points) {
    launch_threads(parts.count * warp_lanes, stream, neighbors_magnitudes<R>, s, points, parts);
  };
  magnitude(source_parts, sources);
  magnitude(destination_parts, destinations);
  launch(neighbors_choose_grid, dim3(1), dim3(warp_lanes), 0, stream, s, source_parts,
         destination_parts);
}

template <class F>
void with_axes(int64_t d, F f) {
  if (d == 1) f(std::integral_constant<int, 1>());
  else if (d == 2) f(std::integral_constant<int, 2>());
  else f(std::integral_constant<int, 3>());
}

}  // namespace gnograd

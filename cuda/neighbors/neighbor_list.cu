// SPDX-License-Identifier: MIT
// Neighbours in a periodic cell of any shape: the images of points near the cell, and of the pairs
// that neighbors.cu finds of these, those that are within the radius by the formula.
#include <climits>

#include "device/call.cuh"
#include "device/scan.cuh"
#include "neighbors_cells.cuh"

namespace gnograd {
namespace {

constexpr double farthest = 0x1p30;  // cells that a point may be away
constexpr int64_t not_finite = int64_t(1) << 62, too_far = not_finite - 1;

// Periodic vectors, zeros along open axes.
template <int D>
struct Lattice {
  const double* numbers;  // [D, D] the cell, [D, D] its dual, [D] the radius in cells, and a slack

  __device__ double cell(int a, int c) const { return numbers[a * D + c]; }
  __device__ bool periodic(int a) const {
    bool any = false;
    for (int c = 0; c < D; ++c) any = any || cell(a, c) != 0;
    return any;
  }
  __device__ double reach(int a) const { return numbers[2 * D * D + a]; }
  __device__ double slack() const { return numbers[2 * D * D + D]; }
  // Coordinate of a point along this vector, in cells.
  template <class R>
  __device__ double cells(const R* x, int a) const {
    double sum = 0;
    // not fused: all kernels are to have the same
    for (int c = 0; c < D; ++c)
      sum = __dadd_rn(sum, __dmul_rn(double(x[c]), numbers[D * D + c * D + a]));
    return sum;
  }
  // Component c of so many cells; as on the CPU, to the last bit.
  __device__ double shifted(const int32_t* shift, int c) const {
    double sum = 0;
    for (int a = 0; a < D; ++a) sum = __dadd_rn(sum, __dmul_rn(double(shift[a]), cell(a, c)));
    return sum;
  }
};

// The images of a point along one vector that may be near the cell.
struct ImageRange {
  double first = 0, count = 1;

  template <int D, class R>
  __device__ ImageRange(const Lattice<D>& lattice, const R* x, int32_t base, int a) {
    if (!lattice.periodic(a)) return;
    const double inside = lattice.cells(x, a) - base, wide = lattice.reach(a) + lattice.slack();
    first = ceil(-wide - inside);
    count = floor(1 + wide - inside) - first + 1;
  }
};

// Thread: a point; reads d numbers, writes the cell that it is in and how many images it has.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    list_count_images(int64_t n, const R* points, Lattice<D> lattice, int64_t* counts,
                      int32_t* base) {  // [n, D]
  const int64_t i = thread_number();
  if (i >= n) return;
  double count = 1;
  for (int a = 0; a < D; ++a) {
    // comparisons that fail for a NaN put it somewhere
    const double cells = floor(lattice.cells(points + i * D, a));
    base[i * D + a] = int32_t(fmin(fmax(cells, -farthest), farthest));
    count *= ImageRange(lattice, points + i * D, base[i * D + a], a).count;
  }
  counts[i] = int64_t(fmin(fmax(count, 0.0), double(INT32_MAX)));
}

// The largest number that a coordinate of an image is made of; infinity where a point is not
// finite, and one before it where it is too far away. Warp: a part of the points; bound by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    list_magnitudes(const R* points, Lattice<D> lattice, PointParts parts) {
  const int64_t first = warp_number() * parts.length, last = min(first + parts.length, parts.n);
  if (first >= parts.n) return;
  double largest = 0;
  for (int64_t i = first + lane_number(); i < last; i += warp_lanes) {
    const R* x = points + i * D;
    for (int c = 0; c < D; ++c) {
      const double coordinate = fabs(double(x[c]));
      double moved = 0;
      for (int a = 0; a < D; ++a) {
        const double cells = fabs(lattice.cells(x, a));
        if (!(cells <= farthest)) moved = DBL_MAX;
        moved = fmin(moved + (cells + lattice.reach(a) + 3) * fabs(lattice.cell(a, c)), DBL_MAX);
      }
      largest = fmax(largest, coordinate <= DBL_MAX ? fmax(coordinate, moved) : INFINITY);
    }
  }
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, d));
  if (lane_number() == 0) parts.largest[warp_number()] = largest;
}

// One warp: the power of two above them all.
static __global__ void list_extent(PointParts parts, int64_t* exponent) {
  double largest = DBL_MIN;
  for (int64_t k = lane_number(); k < parts.count; k += warp_lanes)
    largest = fmax(largest, parts.largest[k]);
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, d));
  if (lane_number() != 0) return;
  *exponent = largest > DBL_MAX ? not_finite : largest > 0x1p1000 ? too_far : ilogb(largest) + 1;
}

// Thread: a point and all its images, ordered by their cells; 8 d bytes and 4 + 4 d for each, bound
// by these writes.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    list_place_images(int64_t n, const R* points, Lattice<D> lattice, const int64_t* starts,
                      const int32_t* base,
                      double* inside,    // [n, D]
                      double* copies,    // [n_images, D]
                      int32_t* point,    // [n_images]
                      int32_t* shift) {  // [n_images, D]
  const int64_t i = thread_number();
  if (i >= n) return;
  const R* x = points + i * D;
  double first[D], counts[D];
  for (int a = 0; a < D; ++a) {
    const ImageRange range(lattice, x, base[i * D + a], a);
    first[a] = range.first, counts[a] = range.count;
  }
  for (int c = 0; c < D; ++c) inside[i * D + c] = double(x[c]) - lattice.shifted(base + i * D, c);
  for (int64_t k = starts[i]; k < starts[i + 1]; ++k) {
    int64_t place = k - starts[i];
    for (int a = D - 1; a >= 0; --a) {
      const auto count = int64_t(counts[a]);
      shift[k * D + a] = int32_t(first[a]) + int32_t(place % count) - base[i * D + a];
      place /= count;
    }
    for (int c = 0; c < D; ++c)
      copies[k * D + c] = double(x[c]) + lattice.shifted(shift + k * D, c);
    point[k] = int32_t(i);
  }
}

struct Images {
  const int32_t* base;     // [n, D]
  const int32_t* point;    // [n_images]
  const int32_t* shift;    // [n_images, D]
  const int64_t* offsets;  // [n+1]
  const int32_t* indices;  // [offsets[n]] images near every point
};

// A pair: to the image of point j in this cell.
template <int D>
struct Edge {
  int32_t j, shift[D];
  double vector[D], squares = 0;
};

// f(lanes that have an edge, this one's) by the warp of point i, for what is near it.
template <int D, class R, class F>
__device__ void for_edges(const R* points, const Lattice<D>& lattice, const Images& images,
                          double radius, bool full, int64_t i, F f) {
  for (int64_t p = images.offsets[i]; p < images.offsets[i + 1]; p += warp_lanes) {
    const int64_t mine = p + lane_number();
    Edge<D> edge;
    bool near = mine < images.offsets[i + 1];
    if (near) {
      const int32_t image = images.indices[mine];
      edge.j = images.point[image];
      int sign = 0;
      for (int a = 0; a < D; ++a) {
        edge.shift[a] = images.shift[int64_t(image) * D + a] + images.base[i * D + a];
        if (sign == 0) sign = edge.shift[a];
      }
      for (int c = 0; c < D; ++c) {
        const double between =
            __dadd_rn(double(points[int64_t(edge.j) * D + c]), -double(points[i * D + c]));
        edge.vector[c] = __dadd_rn(between, lattice.shifted(edge.shift, c));
        edge.squares = __dadd_rn(edge.squares, __dmul_rn(edge.vector[c], edge.vector[c]));
      }
      const bool once = i < edge.j || (i == edge.j && sign > 0);
      near = edge.squares <= __dmul_rn(radius, radius) && (full ? i != edge.j || sign != 0 : once);
    }
    f(__ballot_sync(~0u, near), edge);
  }
}

// Warp: a point, lanes over the images near it: 4 d bytes and d numbers from anywhere for each.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    list_count_edges(int64_t n, const R* points, Lattice<D> lattice, Images images, double radius,
                     bool full, int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= n) return;
  int64_t count = 0;
  for_edges<D>(points, lattice, images, radius, full, i,
               [&](unsigned near, const Edge<D>&) { count += __popc(near); });
  if (lane_number() == 0) counts[i] = count;
}

// Warp: as in list_count_edges, and writes 12 + 12 d bytes an edge.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    list_write_edges(int64_t n, const R* points, Lattice<D> lattice, Images images, double radius,
                     bool full, const int64_t* offsets, int32_t* indices, int32_t* shifts,
                     double* distances, double* vectors) {
  const int64_t i = warp_number();
  if (i >= n) return;
  int64_t end = offsets[i];
  for_edges<D>(points, lattice, images, radius, full, i, [&](unsigned near, const Edge<D>& edge) {
    if (near >> lane_number() & 1) {
      const int64_t e = end + __popc(near & lower_lanes());
      indices[e] = edge.j;
      distances[e] = sqrt(edge.squares);
      for (int a = 0; a < D; ++a) {
        shifts[e * D + a] = edge.shift[a];
        vectors[e * D + a] = edge.vector[a];
      }
    }
    end += __popc(near);
  });
}

template <class T>
struct NeighborList {
  int64_t n, d, n_images;
  double radius;
  int full;

  struct Points {
    const T* points;        // [n, d]
    const double* lattice;  // [d (2 d + 1) + 1]
  };
  struct Counted {
    int64_t* starts;    // [n + 1]
    int32_t* base;      // [n, d]
    int64_t* exponent;  // [1]
  };
  struct Placed {
    const T* points;
    const double* lattice;
    const int64_t* starts;
    const int32_t* base;
  };
  struct Copies {
    double* inside;  // [n, d]
    double* copies;  // [n_images, d]
    int32_t* point;  // [n_images]
    int32_t* shift;  // [n_images, d]
  };
  struct Candidates {
    const T* points;
    const double* lattice;
    const int32_t *base, *point, *shift;
    const int64_t* candidate_offsets;  // [n + 1]
    const int32_t* candidates;         // [candidate_offsets[n]]
  };
  struct Offsets {
    int64_t* offsets;  // [n + 1]
  };
  struct Found {
    const T* points;
    const double* lattice;
    const int32_t *base, *point, *shift;
    const int64_t* candidate_offsets;
    const int32_t* candidates;
    const int64_t* offsets;
  };
  struct Edges {
    int32_t *indices, *shifts;    // [n_edges], [n_edges, d]
    double *distances, *vectors;  // [n_edges], [n_edges, d]
  };

  int images(const Points& in, const Counted& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const PointParts parts(n, call.workspace);
    auto* sums = call.workspace.take<int64_t>(ceil_div(std::max(int64_t(1), n), scan_chunk));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    with_axes(d, [&](auto axes) {
      const Lattice<axes()> lattice{in.lattice};
      launch_threads(n, call.stream, list_count_images<axes(), T>, n, in.points, lattice,
                     out.starts, out.base);
      launch_threads(parts.count * warp_lanes, call.stream, list_magnitudes<axes(), T>, in.points,
                     lattice, parts);
    });
    exclusive_scan(out.starts, n, out.starts + n, sums, call.stream);
    launch(list_extent, dim3(1), dim3(warp_lanes), 0, call.stream, parts, out.exponent);
    return cudaGetLastError();
  }
  int place(const Placed& in, const Copies& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    with_axes(d, [&](auto axes) {
      launch_threads(n, call.stream, list_place_images<axes(), T>, n, in.points,
                     Lattice<axes()>{in.lattice}, in.starts, in.base, out.inside, out.copies,
                     out.point, out.shift);
    });
    return cudaGetLastError();
  }
  int count(const Candidates& in, const Offsets& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    auto* sums = call.workspace.take<int64_t>(ceil_div(std::max(int64_t(1), n), scan_chunk));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Images images{in.base, in.point, in.shift, in.candidate_offsets, in.candidates};
    with_axes(d, [&](auto axes) {
      launch_threads(n * warp_lanes, call.stream, list_count_edges<axes(), T>, n, in.points,
                     Lattice<axes()>{in.lattice}, images, radius, full != 0, out.offsets);
    });
    exclusive_scan(out.offsets, n, out.offsets + n, sums, call.stream);
    return cudaGetLastError();
  }
  int fill(const Found& in, const Edges& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Images images{in.base, in.point, in.shift, in.candidate_offsets, in.candidates};
    with_axes(d, [&](auto axes) {
      launch_threads(n * warp_lanes, call.stream, list_write_edges<axes(), T>, n, in.points,
                     Lattice<axes()>{in.lattice}, images, radius, full != 0, in.offsets,
                     out.indices, out.shifts, out.distances, out.vectors);
    });
    return cudaGetLastError();
  }

 private:
  bool valid() const {
    return n >= 0 && n <= INT32_MAX && d >= 1 && d <= most_axes && n_images >= 0 &&
           n_images <= INT32_MAX && radius >= 0;
  }
};

}  // namespace
}  // namespace gnograd

#include "neighbor_list_entries.cuh"

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
#include <cfloat>

#include "device/call.cuh"
#include "device/scan.cuh"

namespace gnograd {
namespace {

constexpr int most_axes = 3;
// No source is further from the origin in cells; what is left of 53 bits makes the slack.
constexpr double most_cells = 0x1p40, slack = 0x1p-10;

struct Search {
  int64_t n_src, n_dst, d, n_items, n_buckets;
  double radius, period[most_axes];
  bool exclude_self;
  const int64_t *source_items, *destination_items;  // [n_items+1], or null: one item
  double* positions;                                // [n_src, d] inside the box, in bucket order
  int32_t* order;                                   // [n_src] their numbers
  int32_t* starts;                                  // [n_buckets+1] first one of every bucket
  double* grid;                                     // width of a cell; what is not finite

  bool valid() const {
    bool good = radius >= 0 && n_src >= 0 && n_src <= INT32_MAX && n_dst >= 0 && d >= 1 &&
                d <= most_axes && n_items >= 1 && n_buckets >= 4 && n_buckets <= int64_t(1) << 31 &&
                (n_buckets & (n_buckets - 1)) == 0;
    for (const double length : period) good = good && length >= 0 && length <= DBL_MAX;
    return good;
  }
};

__device__ int lane_number() { return int(threadIdx.x) % warp_lanes; }
__device__ int64_t warp_number() { return thread_number() / warp_lanes; }
__device__ unsigned lower_lanes() { return (1u << lane_number()) - 1; }

// The image of x in 0 <= x < period; as on the CPU, to the last bit.
__device__ double wrapped(double x, double period) {
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
__device__ Point<D> point(const Search& s, const R* points, int64_t i) {
  Point<D> p;
#pragma unroll
  for (int a = 0; a < D; ++a) p.x[a] = wrapped(double(points[i * D + a]), s.period[a]);
  return p;
}

// The difference to the nearest image of a coordinate in the same box, or in a box of no length.
__device__ double difference(double x, double y, double period) {
  double offset = __dadd_rn(x, -y);
  if (offset < -0.5 * period) offset = __dadd_rn(period, offset);
  else if (offset > 0.5 * period) offset = __dadd_rn(offset, -period);
  return offset;
}

template <int D>
__device__ bool within(const Search& s, const Point<D>& x, const double* y) {
  double squares = 0;
#pragma unroll
  for (int a = 0; a < D; ++a) {
    const double offset = difference(x.x[a], y[a], s.period[a]);
    squares = __dadd_rn(squares, __dmul_rn(offset, offset));
  }
  return squares <= __dmul_rn(s.radius, s.radius);
}

// The item that point i belongs to.
__device__ int64_t item_of(const int64_t* items, int64_t n_items, int64_t i) {
  int64_t low = 0, high = items ? n_items : 1;  // in low to high - 1
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (items[middle] <= i) low = middle;
    else high = middle;
  }
  return low;
}

// ---- cells ----

// Of one axis.
struct Axis {
  double scale;   // cells in a unit of length
  int64_t count;  // cells around the box, 0 along an open axis

  __device__ Axis(double width, double period) {
    count = period > 0 ? int64_t(fmin(fmax(floor(period / width), 1.0), most_cells)) : 0;
    scale = period > 0 ? double(count) / period : 1 / width;
  }
  // Comparisons that fail for a NaN put it into some cell.
  __device__ int64_t cell(double x) const {
    const auto c = int64_t(floor(fmin(fmax(x * scale, -2 * most_cells), 2 * most_cells)));
    return count ? max(min(c, count - 1), int64_t(0)) : c;
  }
};

// A cell and those next to it, each of them once: first, first + 1, ..., around the box.
struct Stretch {
  int64_t first = 0, count = 0;
  int n = 1;

  Stretch() = default;
  __device__ Stretch(const Axis& axis, double x) : count(axis.count) {
    n = count == 0 ? 3 : int(min(count, int64_t(3)));
    first = n == 3 ? axis.cell(x) - 1 : 0;
  }
  __device__ int64_t operator[](int k) const {
    const int64_t cell = first + k;
    return count == 0 ? cell : cell < 0 ? cell + count : cell >= count ? cell - count : cell;
  }
  // How many follow the first one before the box begins anew.
  __device__ int before_wrap() const {
    return count == 0 ? n : first < 0 ? 1 : int(min(int64_t(n), count - first));
  }
};

__device__ uint64_t mixed(uint64_t hash, int64_t more) {
  hash = (hash ^ uint64_t(more)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}
// Cells (x, y, z) with the same y and z lie x buckets after this.
__device__ uint64_t row_hash(int64_t item, int64_t y, int64_t z) {
  return mixed(mixed(mixed(0, item), y), z);
}

template <int D>
struct Cells {
  Axis x, y, z;

  __device__ explicit Cells(const Search& s)
      : x(s.grid[0], s.period[0]), y(s.grid[0], s.period[1]), z(s.grid[0], s.period[2]) {}

  __device__ int64_t row(const double* p) const { return D > 1 ? y.cell(p[D > 1]) : 0; }
  __device__ int64_t layer(const double* p) const { return D > 2 ? z.cell(p[D - 1]) : 0; }
};

// Points in parts of a warp each.
struct Parts {
  int64_t n, length, count;
  double* largest;  // [count]

  Parts(int64_t n, Workspace& workspace)
      : n(n),
        length(std::max<int64_t>(256, ceil_div(n, 2048))),
        count(ceil_div(n, length)),
        largest(workspace.take<double>(count)) {}
};

// The largest coordinate of every part; infinity where one is not finite. Warp: a part; reads d
// numbers a point; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_magnitudes(Search s, const R* points, Parts parts) {
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
__global__ void neighbors_choose_grid(Search s, Parts sources, Parts destinations) {
  const auto largest = [](const Parts& parts) {
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

// ---- the table ----

// Thread: a point; reads d numbers, writes its bucket and number, 8 bytes; bound by memory and, on
// GPUs with few units for it, float64.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_choose_buckets(Search s, const R* sources, uint32_t* buckets, int32_t* numbers) {
  const int64_t i = thread_number();
  if (i >= s.n_src) return;
  const Cells<D> cells(s);
  const Point<D> p = point<D>(s, sources, i);
  const int64_t item = item_of(s.source_items, s.n_items, i);
  const uint64_t row = row_hash(item, cells.row(p.x), cells.layer(p.x));
  buckets[i] = uint32_t((row + uint64_t(cells.x.cell(p.x[0]))) & uint64_t(s.n_buckets - 1));
  numbers[i] = int32_t(i);
}

constexpr int digit_bits = 5;  // a digit for every lane
static_assert(1 << digit_bits == warp_lanes);

struct Digits {
  int64_t n, length, n_chunks;
  int32_t* counts;  // [warp_lanes, n_chunks]
  int shift = 0;

  Digits(int64_t n, Workspace& workspace)
      : n(n),
        length(std::max<int64_t>(1024, ceil_div(ceil_div(n, 8192), warp_lanes) * warp_lanes)),
        n_chunks(ceil_div(n, length)),
        counts(workspace.take<int32_t>(warp_lanes * n_chunks)) {}
};

// f(i, is there a key i, its digit, lanes with the same one, lanes whose digit is this lane's
// number) for the keys of this warp's chunk, 32 at a time.
template <class F>
__device__ void for_digits(const Digits& digits, const uint32_t* keys, F f) {
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
__global__ void __launch_bounds__(block_threads)
    neighbors_sort_count(Digits digits, const uint32_t* keys) {
  if (warp_number() >= digits.n_chunks) return;
  int32_t count = 0;
  for_digits(digits, keys,
             [&](int64_t, bool, unsigned, unsigned, unsigned named) { count += __popc(named); });
  digits.counts[lane_number() * digits.n_chunks + warp_number()] = count;
}

struct Pairs {
  uint32_t* keys;
  int32_t* numbers;
};

// Warp: moves a chunk's pairs to their places, 8 bytes a point read in order and written to 32
// places; bound by these writes and by the ballots.
__global__ void __launch_bounds__(block_threads)
    neighbors_sort_move(Digits digits, Pairs from, Pairs to) {
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

// Thread: a bucket, by bisection of the sorted keys; log2(n_src) dependent reads, from caches.
__global__ void __launch_bounds__(block_threads)
    neighbors_find_starts(Search s, const uint32_t* buckets) {
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

// Thread: a point, in the order of buckets; reads d numbers from anywhere, writes 8 d bytes; bound
// by memory.
template <int D, class R>
__global__ void __launch_bounds__(block_threads)
    neighbors_gather_positions(Search s, const R* sources) {
  const int64_t k = thread_number();
  if (k >= s.n_src) return;
  const Point<D> p = point<D>(s, sources, s.order[k]);
#pragma unroll
  for (int a = 0; a < D; ++a) s.positions[k * D + a] = p.x[a];
}

// ---- the neighbours ----

// f(lanes that have a neighbour, its number) by the warp of destination i, again and again.
template <int D, class R, class F>
__device__ void for_neighbors(const Search& s, const R* destinations, int64_t i, F f) {
  const Cells<D> cells(s);
  const Point<D> p = point<D>(s, destinations, i);
  const int64_t item = item_of(s.destination_items, s.n_items, i);
  const int64_t first = s.source_items ? s.source_items[item] : 0;
  const int64_t last = s.source_items ? s.source_items[item + 1] : s.n_src;
  const Stretch along(cells.x, p.x[0]);
  const Stretch rows = D > 1 ? Stretch(cells.y, p.x[D > 1]) : Stretch();
  const Stretch layers = D > 2 ? Stretch(cells.z, p.x[D - 1]) : Stretch();

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
    neighbors_count_rows(Search s, const R* destinations, int64_t* counts) {
  const int64_t i = warp_number();
  if (i >= s.n_dst) return;
  int64_t count = 0;
  for_neighbors<D>(s, destinations, i, [&](unsigned near, int32_t) { count += __popc(near); });
  if (lane_number() == 0) counts[i] = count;
}

// One thread: what is wrong with the points stands where their number would.
__global__ void neighbors_end_offsets(Search s, int64_t* offsets) {
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
    neighbors_write_rows(Search s, const R* destinations, const int64_t* offsets,
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
int count_all(const Search& s, const R* sources, const R* destinations, int64_t* offsets,
              Call& call) {
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  if (!s.valid()) return GNOGRAD_CUDA_VALUE;
  const Parts source_parts(s.n_src, workspace), destination_parts(s.n_dst, workspace);
  Digits digits(s.n_src, workspace);
  Pairs from{workspace.take<uint32_t>(s.n_src), workspace.take<int32_t>(s.n_src)};
  Pairs to{workspace.take<uint32_t>(s.n_src), s.order};
  const int64_t longest = std::max({int64_t(1), s.n_dst, warp_lanes * digits.n_chunks});
  auto* sums = workspace.take<int64_t>(ceil_div(longest, scan_chunk));
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  const auto magnitude = [&](const Parts& parts, const R* points) {
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
int fill_all(const Search& s, const R* destinations, const int64_t* offsets, int32_t* indices,
             Call& call) {
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
    const Search search{n_src,
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
    const Search search{n_src,
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

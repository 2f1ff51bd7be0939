// SPDX-License-Identifier: MIT
// Moments of the offsets r = x_j - y_i over the edges of a destination: mean m and variance of |r|,
// centroid c, covariance of r. Positions on up to three axes go through the walk over rows
// (device/rows.cuh), where a lane has an edge and all sums of it; on more axes a thread has one
// number of a node. Dual numbers make jvp of the moments and hvp of their gradients.
#include "device/call.cuh"
#include "device/rows.cuh"

namespace gnograd {
namespace {

template <class T, class S>
struct Positions {
  int64_t d;
  Input<T, S> x, y;  // [n_src, d], [n_dst, d]

  __device__ S offset(int64_t j, int64_t i, int64_t a) const { return x[j * d + a] - y[i * d + a]; }
  // |r|; where that is 0 its derivatives are 0, too.
  __device__ S distance(int64_t j, int64_t i) const {
    S sum = 0;
    for (int64_t a = 0; a < d; ++a) {
      const S r = offset(j, i, a);
      sum += r * r;
    }
    return value(sum) == 0 ? S(0) : square_root(sum);
  }
};

// Column of the moments with entry (a, b), a <= b, of the covariance.
__device__ inline int64_t column_of(int64_t d, int64_t a, int64_t b) {
  return 2 + d + a * d - a * (a - 1) / 2 + b - a;
}

template <class S>
__device__ S scaled(const Csc& rows, int64_t i, S sum) {
  const int64_t n = rows.offsets[i + 1] - rows.offsets[i];
  return sum * (real_part<S>(1) / real_part<S>(n > 0 ? n : 1));
}

// ---- up to three axes ----

constexpr int most_axes = 3, pairs_of_axes = 6;
inline Heads lane_an_edge() { return {1, 1, 8, 1, true}; }

// Coordinates, and zeros where there are fewer axes.
template <class S>
using Point = Vector<S, most_axes>;
template <class T, class S>
__device__ Point<S> load_point(const Input<T, S>& x, int64_t d, int64_t row) {
  Point<S> point;
  for (int a = 0; a < most_axes; ++a)
    if (a < d) point[a] = x[row * d + a];
  return point;
}
template <class S>
__device__ Point<S> difference(Point<S> x, const Point<S>& y) {
  for (int a = 0; a < most_axes; ++a) x[a] = x[a] - y[a];
  return x;
}
template <class S>
__device__ S length_of(const Point<S>& r) {
  const S sum = inner<S>(r, r);
  return value(sum) == 0 ? S(0) : square_root(sum);
}

// A destination's position, mean distance and centroid.
template <class T, class S>
struct MomentsCentre {
  Point<S> y;
  S distance;
  Point<S> centroid;

  MomentsCentre() = default;
  __device__ MomentsCentre(const Positions<T, S>& at, const S* centres, int64_t i)
      : y(load_point(at.y, at.d, i)), distance(centres[i * (1 + at.d)]) {
    for (int a = 0; a < most_axes; ++a)
      if (a < at.d) centroid[a] = centres[i * (1 + at.d) + 1 + a];
  }
};

// Mean distances and centroids. An edge moves a position, a row 2 d + 1 numbers; bound by memory,
// that is by sectors of positions that lie anywhere.
template <class T, class S>
struct MomentsFindCentres {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Vector<S, 1 + most_axes>;
  using Total = Nothing;
  using Own = Point<S>;
  using RowOperands = Point<S>;

  Csc graph;
  Positions<T, S> positions;
  S* centre;  // [n_dst, 1 + d]
  Heads heads = lane_an_edge();

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const {
    return load_point(positions.x, positions.d, graph.indices[k]);
  }
  __device__ RowOperands enter(const Place&, int64_t i) const {
    return load_point(positions.y, positions.d, i);
  }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place&, int64_t, const RowOperands& y,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const Point<S> r = difference(edges.own, y);
    ahead();
    if (!edges.has_own()) return;
    partial[0] += length_of(r);
    for (int a = 0; a < most_axes; ++a) partial[1 + a] += r[a];
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    const S sum = group_sums(partial.v, at.group);
    if (at.group.lane <= positions.d)
      centre[i * (1 + positions.d) + at.group.lane] = scaled(graph, i, sum);
  }
};

// All moments, from the centres. An edge moves a position, a row its centre and its moments; bound
// by memory as above.
template <class T, class S>
struct MomentsOfRows {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Vector<S, 8>;  // spread, pairs of axes (0, 0), (0, 1), ..., and nothing
  using Total = Nothing;
  using Own = Point<S>;
  using RowOperands = MomentsCentre<T, S>;

  Csc graph;
  Positions<T, S> positions;
  const S* centres;
  int64_t columns;
  T* out;
  Heads heads = lane_an_edge();

  __host__ __device__ int tiles() const { return 1; }

  __device__ Own own(const Place&, int64_t k) const {
    return load_point(positions.x, positions.d, graph.indices[k]);
  }
  __device__ RowOperands enter(const Place&, int64_t i) const { return {positions, centres, i}; }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place&, int64_t, const RowOperands& row,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const Point<S> r = difference(edges.own, row.y);
    ahead();
    if (!edges.has_own()) return;
    const S spread = length_of(r) - row.distance;
    const Point<S> from = difference(r, row.centroid);
    partial[0] += spread * spread;
    for (int a = 0, k = 1; a < most_axes; ++a)
      for (int b = a; b < most_axes; ++b, ++k) partial[k] += from[a] * from[b];
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    const S moment = scaled(graph, i, group_sums(partial.v, at.group));
    const int64_t d = positions.d;
    const int lane = at.group.lane, k = lane - 1;
    const int a = k < 3 ? 0 : k < 5 ? 1 : 2, b = k < 3 ? k : k < 5 ? k - 2 : 2;
    T* const row = out + i * columns;
    if (lane == 0) row[1] = T(result(moment));
    else if (k < pairs_of_axes && b < d) row[column_of(d, a, b)] = T(result(moment));
    if (lane <= d) row[lane ? 1 + lane : 0] = T(result(centres[i * (1 + d) + lane]));
  }
};

// A destination as the gradients of its edges see it: with the cotangent g of the moments, n times
// the gradient to the offset of an edge is (g_m + 2 g_v (|r| - m)) r/|r| + g_c + (G + G^T) (r - c).
template <class T, class S>
struct MomentsCotangent {
  MomentsCentre<T, S> centre;
  T g_mean, g_spread, scale;
  Point<T> g_centroid;
  T g_pairs[pairs_of_axes] = {};  // G + G^T

  MomentsCotangent() = default;
  __device__ MomentsCotangent(const Positions<T, S>& at, const Csc& rows, const S* centres,
                              const T* g, int64_t i)
      : centre(at, centres, i) {
    const int64_t d = at.d;
    g += i * (2 + d + d * (d + 1) / 2);
    g_mean = g[0];
    g_spread = g[1];
    scale = scaled(rows, i, T(1));
    for (int a = 0, k = 0; a < most_axes; ++a) {
      if (a < d) g_centroid[a] = g[2 + a];
      for (int b = a; b < most_axes; ++b, ++k)
        if (b < d) g_pairs[k] = (a == b ? 2 : 1) * g[column_of(d, a, b)];
    }
  }
  // Gradient to x of the edge from x.
  __device__ Point<S> gradient(const Point<S>& x) const {
    const Point<S> r = difference(x, centre.y), from = difference(r, centre.centroid);
    const S length = length_of(r);
    Point<S> to;
    for (int a = 0, k = 0; a < most_axes; ++a) {
      to[a] += S(g_centroid[a]);
      for (int b = a; b < most_axes; ++b, ++k) {
        to[a] += g_pairs[k] * from[b];
        if (b > a) to[b] += g_pairs[k] * from[a];
      }
    }
    if (value(length) != 0)
      to.add((T(2) * g_spread * (length - centre.distance) + S(g_mean)) / length, r);
    to.scale(scale);
    return to;
  }
};

// Gradients to sources on the transposed graph, or to destinations. An edge moves what belongs to
// its other end: a position, or that with a centre and a cotangent, 18 numbers on three axes; bound
// by memory as above.
template <class T, class S, bool to_sources>
struct MomentsGradient {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = 8;
  using Partial = Vector<S, 4>;  // coordinates, and nothing
  using Total = Nothing;
  using Destination = MomentsCotangent<T, S>;
  using Own = std::conditional_t<to_sources, Destination, Point<S>>;
  using RowOperands = std::conditional_t<to_sources, Point<S>, Destination>;

  Csc graph, by_dst;
  Positions<T, S> positions;
  const S* centres;
  const T* g;
  T* grad;
  Heads heads = lane_an_edge();

  __host__ __device__ int tiles() const { return 1; }

  template <class End>
  __device__ End load(int64_t node) const {
    if constexpr (std::is_same_v<End, Destination>)
      return Destination(positions, by_dst, centres, g, node);
    else return load_point(positions.x, positions.d, node);
  }
  __device__ Own own(const Place&, int64_t k) const { return load<Own>(graph.indices[k]); }
  __device__ RowOperands enter(const Place&, int64_t row) const { return load<RowOperands>(row); }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place&, int64_t, const RowOperands& row,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    Point<S> to;
    if constexpr (to_sources) to = edges.own.gradient(row);
    else to = row.gradient(edges.own);
    ahead();
    if (!edges.has_own()) return;
    for (int a = 0; a < most_axes; ++a) partial[a] += to[a];
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    const S sum = group_sums(partial.v, at.group);
    if (at.group.lane < positions.d)
      grad[row * positions.d + at.group.lane] = T(result(to_sources ? sum : -sum));
  }
};

// ---- more axes ----

// Thread: mean distance or a component of the centroid of a destination. Reads d + d numbers an
// edge; bound by these reads, one edge after another.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    moments_find_centres(Csc rows, Positions<T, S> at, S* __restrict__ centre) {
  const int64_t i = thread_number() / (1 + at.d), k = thread_number() % (1 + at.d);
  if (i >= rows.n_rows) return;
  S sum = 0;
  for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p) {
    const int64_t j = rows.indices[p];
    sum += k ? at.offset(j, i, k - 1) : at.distance(j, i);
  }
  centre[thread_number()] = scaled(rows, i, sum);
}

// Thread: a moment of a destination; otherwise as above.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    moments_of_rows(Csc rows, Positions<T, S> at, const S* __restrict__ centres, int64_t columns,
                    T* __restrict__ out) {
  const int64_t i = thread_number() / columns, column = thread_number() % columns, d = at.d;
  if (i >= rows.n_rows) return;
  const S* centre = centres + i * (1 + d);
  int64_t a = 0, b = column - 2 - d;
  for (; a < d && b >= d - a; ++a) b -= d - a;
  b += a;
  S sum = 0;
  if (column == 1 || column >= 2 + d)
    for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p) {
      const int64_t j = rows.indices[p];
      const S left = column == 1 ? at.distance(j, i) - centre[0]
                                 : at.offset(j, i, a) - centre[1 + a];
      sum += left * (column == 1 ? left : at.offset(j, i, b) - centre[1 + b]);
    }
  S moment = scaled(rows, i, sum);
  if (column == 0) moment = centre[0];
  else if (column > 1 && column < 2 + d) moment = centre[column - 1];
  out[thread_number()] = T(result(moment));
}

// Component a of n times the gradient to the offset of an edge: with the cotangent g of the
// moments, (g_m + 2 g_v (|r| - m)) r/|r| + g_c + (G + G^T) (r - c).
template <class T, class S>
__device__ S moments_edge_gradient(const Positions<T, S>& at, int64_t j, int64_t i, int64_t a,
                                   const S* centre, const T* g) {
  const int64_t d = at.d;
  const S length = at.distance(j, i);
  S sum = g[2 + a];
  if (value(length) != 0)
    sum += (T(2) * g[1] * (length - centre[0]) + S(g[0])) * (at.offset(j, i, a) / length);
  for (int64_t b = 0; b < d; ++b) {
    const T weight = (a == b ? 2 : 1) * g[column_of(d, a < b ? a : b, a < b ? b : a)];
    sum += weight * (at.offset(j, i, b) - centre[1 + b]);
  }
  return sum;
}

// Thread: a coordinate of a source. Reads 2 d + 1 numbers and the cotangent of the destination an
// edge; bound by these reads.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    moments_source_gradient(Csc columns, Csc rows, Positions<T, S> at,
                            const S* __restrict__ centres, const T* __restrict__ g,
                            T* __restrict__ grad) {
  const int64_t d = at.d, j = thread_number() / d, a = thread_number() % d;
  if (j >= columns.n_rows) return;
  S sum = 0;
  for (int64_t p = columns.offsets[j]; p < columns.offsets[j + 1]; ++p) {
    const int64_t i = columns.indices[p];
    sum += scaled(rows, i, moments_edge_gradient(at, j, i, a, centres + i * (1 + d),
                                                 g + i * (2 + d + d * (d + 1) / 2)));
  }
  grad[thread_number()] = T(result(sum));
}

// Gradient to a destination.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    moments_destination_gradient(Csc rows, Positions<T, S> at, const S* __restrict__ centres,
                                 const T* __restrict__ g, T* __restrict__ grad) {
  const int64_t d = at.d, i = thread_number() / d, a = thread_number() % d;
  if (i >= rows.n_rows) return;
  S sum = 0;
  for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p)
    sum += moments_edge_gradient(at, rows.indices[p], i, a, centres + i * (1 + d),
                                 g + i * (2 + d + d * (d + 1) / 2));
  grad[thread_number()] = T(result(-scaled(rows, i, sum)));
}

template <class T>
struct OffsetMoments : OffsetMomentsRecords {
  template <class S>
  Positions<T, S> positions(const Inputs<T, S>& in) const {
    return {d, in.x, in.y};
  }
  template <class S>
  S* take_centres(Call& call) const {
    return call.workspace.template take<S>(graph->n_dst * (1 + d));
  }
  // Edges of the rows by one end, cut for the walk over them, where there are few axes.
  template <class S>
  struct Walk {
    Csc rows;
    Cut cut;
    void* split;

    Walk(const Csc& rows, bool wanted, Workspace& workspace) : rows(rows), cut{} {
      if (!wanted) return;
      cut = take_cut(rows, workspace);
      split = workspace.template take<char>(
          int64_t(split_bytes<MomentsOfRows<T, S>>(cut, lane_an_edge(), 1)));
    }
    void start(cudaStream_t stream) const { cut_rows(rows, cut, stream); }
    template <class Op>
    void run(const Op& op, cudaStream_t stream) const {
      for_rows(op, cut, split, stream);
    }
  };
  bool few() const { return d <= most_axes; }

  template <class S>
  void find_centres(const Positions<T, S>& at, const Walk<S>& by_row, S* centres,
                    Call& call) const {
    if (few()) {
      by_row.start(call.stream);
      by_row.run(MomentsFindCentres<T, S>{by_row.rows, at, centres}, call.stream);
    } else {
      launch_threads(graph->n_dst * (1 + d), call.stream, moments_find_centres<T, S>, by_row.rows,
                     at, centres);
    }
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    if (d < 0) return GNOGRAD_CUDA_VALUE;
    S* centres = take_centres<S>(call);
    const Walk<S> by_row(by_dst(*graph), few(), call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const auto at = positions(in);
    const int64_t columns = 2 + d + d * (d + 1) / 2;
    find_centres(at, by_row, centres, call);
    if (few())
      by_row.run(MomentsOfRows<T, S>{by_row.rows, at, centres, columns, out.moments}, call.stream);
    else
      launch_threads(graph->n_dst * columns, call.stream, moments_of_rows<T, S>, by_row.rows, at,
                     centres, columns, out.moments);
    return cudaGetLastError();
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    if (d < 0) return GNOGRAD_CUDA_VALUE;
    S* centres = take_centres<S>(call);
    const Walk<S> by_row(by_dst(*graph), few(), call.workspace);
    const Walk<S> by_column(by_src(*graph), few(), call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const auto at = positions(in);
    find_centres(at, by_row, centres, call);
    if (grad.x && few()) {
      by_column.start(call.stream);
      by_column.run(
          MomentsGradient<T, S, true>{by_column.rows, by_row.rows, at, centres, g.moments, grad.x},
          call.stream);
    } else if (grad.x) {
      launch_threads(graph->n_src * d, call.stream, moments_source_gradient<T, S>, by_column.rows,
                     by_row.rows, at, centres, g.moments, grad.x);
    }
    if (grad.y && few())
      by_row.run(
          MomentsGradient<T, S, false>{by_row.rows, by_row.rows, at, centres, g.moments, grad.y},
          call.stream);
    else if (grad.y)
      launch_threads(graph->n_dst * d, call.stream, moments_destination_gradient<T, S>, by_row.rows,
                     at, centres, g.moments, grad.y);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "moments_entries.cuh"

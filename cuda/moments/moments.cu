// SPDX-License-Identifier: MIT
// Moments of the offsets r = x_j - y_i over the edges of a destination: mean m and variance of |r|,
// centroid c, covariance of r. Positions have few coordinates, and few numbers are made of many
// edges: a thread has one of them. Dual numbers make jvp of the moments and hvp of their gradients.
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
__global__ void __launch_bounds__(block_threads)
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

// The same for a destination.
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
struct OffsetMoments {
  const gnograd_cuda_graph* graph;
  int64_t d;

  struct Inputs {
    const T* x;  // [n_src, d]
    const T* y;  // [n_dst, d]
  };
  struct Outputs {
    T* moments;  // [n_dst, 2 + d + d (d + 1) / 2]
  };
  struct Cotangents {
    const T* moments;
  };
  struct Gradients {
    T *x, *y;  // as the inputs, or null
  };

  template <class S>
  Positions<T, S> positions(const Inputs& in, const Inputs& tangents) const {
    return {d, {in.x, tangents.x}, {in.y, tangents.y}};
  }
  template <class S>
  S* take_centres(Call& call) const {
    return call.workspace.template take<S>(graph->n_dst * (1 + d));
  }
  template <class S>
  void find_centres(const Positions<T, S>& at, S* centres, Call& call) const {
    launch_threads(graph->n_dst * (1 + d), call.stream, moments_find_centres<T, S>,
                   by_dst(*graph), at, centres);
  }

  template <class S>
  int value(const Inputs& in, const Inputs& tangents, T* out, Call& call) const {
    if (d < 0) return GNOGRAD_CUDA_VALUE;
    S* centres = take_centres<S>(call);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const auto at = positions<S>(in, tangents);
    const int64_t columns = 2 + d + d * (d + 1) / 2;
    find_centres(at, centres, call);
    launch_threads(graph->n_dst * columns, call.stream, moments_of_rows<T, S>, by_dst(*graph), at,
                   centres, columns, out);
    return cudaGetLastError();
  }
  template <class S>
  int gradients(const T* g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
                Call& call) const {
    if (d < 0) return GNOGRAD_CUDA_VALUE;
    S* centres = take_centres<S>(call);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const auto at = positions<S>(in, tangents);
    find_centres(at, centres, call);
    if (grad.x)
      launch_threads(graph->n_src * d, call.stream, moments_source_gradient<T, S>, by_src(*graph),
                     by_dst(*graph), at, centres, g, grad.x);
    if (grad.y)
      launch_threads(graph->n_dst * d, call.stream, moments_destination_gradient<T, S>,
                     by_dst(*graph), at, centres, g, grad.y);
    return cudaGetLastError();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return value<T>(in, {}, out.moments, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gradients<T>(g.moments, in, {}, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return value<Dual<T>>(in, tangents, out.moments, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gradients<Dual<T>>(g.moments, in, tangents, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "moments_entries.cuh"

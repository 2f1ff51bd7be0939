// SPDX-License-Identifier: MIT
// Transfer between nodes and edges and the jets, for slices of edges: positions, features, weights,
// cotangents and outputs of all channels.
#pragma once
#include "device/rows.cuh"
#include "device/scan.cuh"
#include "device/segments.cuh"
#include "gno/gno_sum.cuh"
#include "jets.cuh"

namespace gnograd {

// Edges first .. first + n - 1, ordered by one end.
struct EdgeSlice {
  Csc graph;
  bool rows_are_dst;
  int64_t first, n;
  const int32_t* rows;  // [n]; behind the last edge n_rows, and there all is 0

  __device__ bool has(int64_t q) const { return rows[q] < graph.n_rows; }
  __device__ int64_t other(int64_t q) const { return graph.indices[first + q]; }
  __device__ int64_t dst(int64_t q) const { return rows_are_dst ? rows[q] : other(q); }
  __device__ int64_t src(int64_t q) const { return rows_are_dst ? other(q) : rows[q]; }
  __device__ int64_t edge(int64_t q) const { return graph.edge_of(first + q); }
};

// ---- rows within a slice ----

// A longer row is several segments, so that no block of threads has much more to do than others.
constexpr int64_t segment_length = 256;

// rows[k] of every place, behind the last edge n_rows; starts[k] = 1 where a segment begins, in
// slices of `length` places of n, else 0. Thread: a place, by bisection of the offsets; bound by
// log2(n_rows) dependent reads, from caches.
static __global__ void __launch_bounds__(block_threads)
    jets_mark_segments(Csc graph, int64_t n, int64_t length, int32_t* __restrict__ rows,
                       int64_t* __restrict__ starts) {
  const int64_t k = thread_number();
  if (k >= n) return;
  const int64_t row = k < graph.end() ? row_of(graph, k) : graph.n_rows;
  const int64_t q = n <= length ? k : k % length;
  rows[k] = int32_t(row);
  starts[k] = q % segment_length == 0 || k == graph.offsets[row];
}

// begin[s] of every segment, from `before` [n + 1], how many segments begin before a place. Thread:
// a place; bound by memory.
static __global__ void __launch_bounds__(block_threads)
    jets_find_segments(int64_t n, const int64_t* __restrict__ before, int64_t* __restrict__ begin) {
  const int64_t k = thread_number();
  if (k < n && before[k + 1] != before[k]) begin[before[k]] = k;
  if (k == n) begin[before[n]] = n;
}

// Counts of the segments of a slice.
struct SegmentCounts {
  int64_t segments, times_functions, times_channels;  // these also for all functions
  int64_t first;                                      // segment
};

// Thread: a slice.
static __global__ void __launch_bounds__(block_threads)
    jets_count_segments(int64_t n, int64_t length, int64_t n_batch, int channels,
                        const int64_t* __restrict__ before, SegmentCounts* __restrict__ counts) {
  const int64_t first = thread_number() * length;
  if (first >= n) return;
  const int64_t count = before[min(first + length, n)] - before[first];
  counts[thread_number()] = {count, count * n_batch, count * n_batch * channels, before[first]};
}

// target(row, column, sum over the segments of a row of `width` numbers each). Thread: a column of
// a row's first segment, others end at once. Reads `of_segments` once; bound by memory.
template <class R, class Target>
__global__ void __launch_bounds__(block_threads)
    jets_add_segments(EdgeSlice slice, Segments segments, int64_t width,
                      const R* __restrict__ of_segments, Target target) {
  const int i = thread_index(), columns = int(width), s = i / columns, column = i % columns;
  const int64_t count = *segments.count;
  if (s >= count) return;
  const int32_t row = slice.rows[segments.place(s)];
  if (row == slice.graph.n_rows) return;
  if (s > 0 && slice.rows[segments.place(s - 1)] == row) return;
  R sum = 0;
  for (int64_t t = s; t < count && slice.rows[segments.place(t)] == row; ++t)
    sum += of_segments[t * width + column];
  target(row, column, sum);
}

template <class R>
struct AddToRows {
  R* x;  // [n_rows, width]
  int64_t width;
  __device__ void operator()(int64_t row, int64_t column, R sum) const {
    x[row * width + column] += sum;
  }
};

// ---- outputs of all channels ----

// Outputs, or cotangents, of which any may be null.
template <class P>
struct JetArrays {
  P out;       // [n_dst, F], F being that of all functions together
  P gradient;  // [n_dst, d, F]
  P second;    // [n_dst, F] for the Laplacian, [n_dst, d, d, F] for the Hessian

  // f(array, row of F numbers in it) for all that channel c of destination i stands for
  template <class F>
  __device__ void each(const Jet& jet, int64_t i, int c, F f) const {
    const int d = jet.d;
    if (c == 0) return f(out, i);
    if (c <= d) return f(gradient, i * d + c - 1);
    if (jet.order == order_laplacian) return f(second, i);
    jet.for_pairs([&](int a, int b, int s) {
      if (s != c) return;
      f(second, (i * d + a - 1) * d + b - 1);
      if (a != b) f(second, (i * d + b - 1) * d + a - 1);
    });
  }
};

template <class R>
struct AddToOutputs {
  Jet jet;
  JetArrays<R*> outputs;
  int64_t width;
  const int64_t* degrees;  // offsets of destinations for a mean, else null

  __device__ void operator()(int64_t i, int64_t column, R sum) const {
    const R scaled = scale_of<R>(degrees, i) * sum;
    const int f = int(column) % int(width), c = int(column) / int(width);
    outputs.each(jet, i, c, [&](R* x, int64_t row) { x[row * width + f] += scaled; });
  }
};

// g [n, channels, F] = the cotangents of every edge's destination, over its degree for a mean.
// Thread: an entry; reads those of a destination through its index, two for a mixed derivative;
// bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    jets_gather_cotangents(Jet jet, EdgeSlice slice, JetArrays<const R*> cotangents, int64_t width,
                           const int64_t* __restrict__ degrees, R* __restrict__ g) {
  const int i = thread_index(), jet_row = i / int(width), f = i % int(width);
  const int q = jet_row / jet.channels();
  if (q >= slice.n) return;
  if (!slice.has(q)) {
    g[i] = 0;
    return;
  }
  R sum = 0;
  cotangents.each(jet, slice.dst(q), jet_row % jet.channels(), [&](const R* x, int64_t row) {
    if (x) sum += x[row * width + f];
  });
  g[i] = scale_of<R>(degrees, slice.dst(q)) * sum;
}

// ---- features ----

// x [n, F] = the features of every edge's source; null: 1. Thread: an entry; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_gather_sources(EdgeSlice slice, Input<R, S> h, int64_t width, Planes<S> x) {
  const int i = thread_index(), q = i / int(width), f = i % int(width);
  if (q >= slice.n) return;
  if (!slice.has(q)) x.set(i, S(R(0)));
  else x.set(i, h ? h[slice.src(q) * width + f] : S(R(1)));
}

// x [segments, F] = the features of every segment's row. Thread: an entry; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_gather_rows(EdgeSlice slice, Segments segments, Input<R, S> h, int64_t width,
                     Planes<S> x) {
  const int i = thread_index(), s = i / int(width), f = i % int(width);
  if (s >= *segments.count) return;
  const int64_t q = segments.place(s);
  x.set(i, slice.has(q) ? h[slice.rows[q] * width + f] : S(R(0)));
}

// ---- positions ----

template <class R, class S>
struct JetPositions {
  Input<R, S> x, y;  // [n_dst, d], [n_src, d]
  bool pair;
  int d;

  __host__ __device__ int seen() const { return pair ? 2 * d : d; }
  // Coordinates of an edge that the network sees: x_i - y_j, or [x_i, y_j].
  __device__ S operator()(const EdgeSlice& slice, int64_t q, int64_t a) const {
    if (a >= d) return y[slice.src(q) * d + a - d];
    const S at = x[slice.dst(q) * d + a];
    return pair ? at : at - y[slice.src(q) * d + a];
  }
};

// Jets of [c_e; 1]: the first d entries have derivative 1 by themselves, all other derivatives are
// 0. Thread: an entry, written; bound by that.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_seed(Jet jet, EdgeSlice slice, JetPositions<R, S> positions, Planes<S> jets) {
  const int i = thread_index(), width = positions.seen() + 1, jet_row = i / width, a = i % width;
  const int c = jet_row % jet.channels(), q = jet_row / jet.channels();
  if (q >= slice.n) return;
  if (!slice.has(q)) jets.set(i, S(R(0)));
  else if (c > 0) jets.set(i, S(R(c <= jet.d && a == c - 1)));
  else jets.set(i, a == width - 1 ? S(R(1)) : positions(slice, q, a));
}

// to_edges [n_edges, width] by the edge table. Thread: an entry; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    jets_scatter_edges(EdgeSlice slice, int64_t width, const R* __restrict__ x,
                       R* __restrict__ to_edges) {
  const int i = thread_index(), q = i / int(width), a = i % int(width);
  if (q < slice.n && slice.has(q)) to_edges[slice.edge(q) * width + a] = x[i];
}

// sums [n_rows, d] = scale times the sums over edges of columns shift .. shift + d - 1. Warp: an
// entry, lanes over edges; reads one number of `width` an edge, the others of it from caches; bound
// by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    jets_sum_edges(Csc graph, const R* __restrict__ of_edges, int64_t width, int64_t shift,
                   int64_t d, R scale, R* __restrict__ sums) {
  const Group warp = this_group(warp_lanes);
  const int64_t row = warp.number / d, a = warp.number % d;
  if (row >= graph.n_rows) return;
  R sum = 0;
  for (int64_t k = graph.offsets[row] + warp.lane; k < graph.offsets[row + 1]; k += warp_lanes)
    sum += of_edges[graph.edge_of(k) * width + shift + a];
  sum = group_sum(sum, warp);
  if (warp.lane == 0) sums[row * d + a] = scale * sum;
}

// ---- weights ----

template <class R, class S>
struct JetWeights {
  Input<R, S> value, derivatives;  // [n_edges], [n_edges, channels - 1] or null: 0
  int n_derivatives;

  __device__ S operator()(const EdgeSlice& slice, int64_t q, int c) const {
    if (!slice.has(q)) return S(R(0));
    const int64_t e = slice.edge(q);
    if (c == 0) return value[e];
    return derivatives ? derivatives[e * n_derivatives + c - 1] : S(R(0));
  }
};

// weighted = w jets. Thread: a feature of an edge, all its channels; reads them and the weight's
// jet, which is the same for all features, and writes as many; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_weigh(Jet jet, EdgeSlice slice, JetWeights<R, S> weights, int64_t width, Planes<S> jets,
               Planes<S> weighted) {
  const int i = thread_index(), q = i / int(width), k = i % int(width);
  if (q >= slice.n) return;
  jet_multiply(
      jet, [&](int c) { return weights(slice, q, c); }, JetIn<S>(jet, jets, width, q, k),
      JetIn<S>(jet, weighted, width, q, k));
}

// Gradients to jets from those to weighted jets; as jets_weigh.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_weigh_reverse(Jet jet, EdgeSlice slice, JetWeights<R, S> weights, int64_t width,
                       Planes<S> grad_weighted, Planes<S> grad) {
  const int i = thread_index(), q = i / int(width), k = i % int(width);
  if (q >= slice.n) return;
  jet_multiply_reverse(
      jet, [&](int c) { return weights(slice, q, c); }, JetIn<S>(jet, grad_weighted, width, q, k),
      JetIn<S>(jet, grad, width, q, k));
}

// Gradients to the weights. Warp: a channel of an edge, lanes over features; reads up to all
// channels of both arrays, from caches but for the first warp of an edge; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_weight_gradients(Jet jet, EdgeSlice slice, int64_t width, Planes<S> jets,
                          Planes<S> grad_weighted, R* __restrict__ grad_value,
                          R* __restrict__ grad_derivatives) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number / jet.channels();
  const int c = int(warp.number % jet.channels());
  if (q >= slice.n || !slice.has(q)) return;
  S sum = 0;
  for (int64_t k = warp.lane; k < width; k += warp_lanes)
    sum += jet_multiply_weight(jet, c, JetIn<S>(jet, jets, width, q, k),
                               JetIn<S>(jet, grad_weighted, width, q, k));
  sum = group_sum(sum, warp);
  if (warp.lane != 0) return;
  const int64_t e = slice.edge(q);
  if (c == 0 && grad_value) grad_value[e] = result(sum);
  if (c > 0 && grad_derivatives) grad_derivatives[e * (jet.channels() - 1) + c - 1] = result(sum);
}

}  // namespace gnograd

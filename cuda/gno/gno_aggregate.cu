// SPDX-License-Identifier: MIT
// Aggregation with a given kernel matrix an edge, out_i = s_i sum over (j -> i) of h_j . kappa_e,
// where s_i is 1 or 1/degree. All passes read or write every kappa_e once, and that is their time.
//
// They are walks over rows (device/rows.cuh), so a node with many edges is the work of many warps.
#include "device/call.cuh"
#include "device/rows.cuh"
#include "gno_sum.cuh"

namespace gnograd {
namespace {

// Division of the matrices [f_in, f_out] of a warp's edges among its lanes: `across` lanes go along
// a row, width<T> numbers each, and lanes of the same place in theirs have rows that follow one
// another.
struct MatrixLanes {
  Heads heads;  // one head of f_out features, of a whole warp
  int shift;    // across = 2^shift
  int f_in;

  __device__ int across() const { return 1 << shift; }
  __device__ int rows() const { return warp_lanes >> shift; }
  __device__ int row_in(const Place& at) const { return at.group.lane >> shift; }
  __device__ int column(const Place& at) const {
    return ((at.tile << shift) + (at.group.lane & (across() - 1))) * at.step;
  }
  __host__ __device__ int64_t size() const { return int64_t(f_in) * heads.size; }
};

template <class T, class... P>
MatrixLanes matrix_lanes(int64_t f_in, int64_t f_out, P... arrays) {
  MatrixLanes lanes{make_heads<T>(1, f_out, aligned<T>(f_out, arrays...)), 0, int(f_in)};
  while (1 << lanes.shift < lanes.heads.lanes) ++lanes.shift;
  lanes.heads.lanes = warp_lanes;
  return lanes;
}

// The result. An edge moves its matrix, and h_j from caches: 2 operations a number, for four of
// which two loads are made; bound by memory.
template <class T, class S>
struct GnoRowSum : MatrixLanes {
  static constexpr int step = width<T>, unroll = 1;
  using Partial = Vector<S, step>;
  using Total = Nothing;

  Csc graph;
  bool mean;
  Input<T, S> h, kappa;
  T* __restrict__ out;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int c = column(at), count = heads.size - c;
    if (count <= 0) return;
    const Input<T, S> h_j = h + int64_t(graph.indices[k]) * f_in;
    const Input<T, S> matrix = kappa + (graph.edge_of(k) * size() + c);
#pragma unroll 4
    for (int f = row_in(at); f < f_in; f += rows())
      partial.add(h_j[f], load_vector(matrix, int64_t(f) * heads.size, count, heads.wide));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    for (int d = across(); d < warp_lanes; d *= 2)
      for (int v = 0; v < step; ++v) partial[v] += group_swap(partial[v], d, at.group);
    partial.scale(scale_of<real<T>>(mean ? graph.offsets : nullptr, row));
    const int c = column(at), count = heads.size - c;
    if (row_in(at) == 0 && count > 0)
      store_vector(out + row * heads.size + c, partial, count, heads.wide);
  }
};

// The gradient to h, for edges by source: a lane adds up several rows of the matrices, of which it
// has the same columns. An edge moves its matrix, and g_i from caches; bound by memory.
template <class T, class S>
struct GnoSourceGradient : MatrixLanes {
  static constexpr int step = width<T>, unroll = 1;
  static constexpr int rows_of_lane = sizeof(S) > 4 ? 4 : 8;
  using Partial = Vector<S, rows_of_lane>;
  using Total = Nothing;

  Csc graph;
  const int64_t* __restrict__ degrees;  // offsets of destinations for a mean, else null
  const T* __restrict__ g;
  Input<T, S> kappa;
  T* __restrict__ grad_h;

  __host__ __device__ int tiles() const {
    const int rows = (warp_lanes >> shift) * rows_of_lane;
    return (f_in + rows - 1) / rows;
  }
  __device__ int first(const Place& at) const {
    return at.tile * rows() * rows_of_lane + row_in(at);
  }
  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int64_t i = graph.indices[k];
    const real<T> s = scale_of<real<T>>(degrees, i);
    const Input<T, S> matrix =
        kappa + (graph.edge_of(k) * size() + int64_t(first(at)) * heads.size);
    const int64_t between = int64_t(rows()) * heads.size;
    const int left = f_in - first(at);
    const int begin = (at.group.lane & (across() - 1)) * step;
    for (int c = begin; c < heads.size; c += across() * step) {
      const int count = heads.size - c;
      auto g_i = load_vector(g + i * heads.size + c, count, heads.wide);
      g_i.scale(s);
#pragma unroll
      for (int a = 0; a < rows_of_lane; ++a)
        if (a * rows() < left)
          partial[a] += inner<S>(load_vector(matrix, a * between + c, count, heads.wide), g_i);
    }
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    const Group along{across(), at.group.lane & (across() - 1), 0, at.group.mask};
    T* const to = grad_h + row * f_in + first(at);
    const int left = f_in - first(at);
#pragma unroll
    for (int a = 0; a < rows_of_lane; ++a) {
      const S sum = group_sum(partial[a], along);
      if (along.lane == 0 && a * rows() < left) to[a * rows()] = T(result(sum));
    }
  }
};

// The gradient to kappa. An edge writes its matrix, and h_j and g_i come from caches; bound by the
// writes.
template <class T, class S>
struct GnoMatrixGradient : MatrixLanes {
  static constexpr int step = width<T>, unroll = 1;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  bool mean;
  const T* __restrict__ g;
  Input<T, S> h;
  T* __restrict__ grad_kappa;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t row, int64_t k) const {
    const int c = column(at), count = heads.size - c;
    if (count <= 0) return;
    auto g_i = load_vector(g + row * heads.size + c, count, heads.wide);
    g_i.scale(scale_of<real<T>>(mean ? graph.offsets : nullptr, row));
    const Input<T, S> h_j = h + int64_t(graph.indices[k]) * f_in;
    T* const matrix = grad_kappa + graph.edge_of(k) * size() + c;
#pragma unroll 4
    for (int f = row_in(at); f < f_in; f += rows()) {
      Vector<S, step> x;
      x.add(h_j[f], g_i);
      store_vector(matrix + int64_t(f) * heads.size, x, count, heads.wide);
    }
  }
};

template <class T>
struct GnoAggregate : GnoAggregateRecords {
  bool mean() const { return reduction == reduce_mean; }
  bool valid() const {
    return f_in >= 1 && f_out >= 1 && (reduction == reduce_sum || reduction == reduce_mean);
  }
  // Edges of a unit at least: some 8192 numbers of their matrices.
  int64_t least() const { return std::clamp<int64_t>(8192 / (f_in * f_out), 8, 128); }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(*graph);
    const auto lanes = matrix_lanes<T>(f_in, f_out, in.kappa.v, in.kappa.d, out.out);
    const Cut cut = take_cut(rows, call.workspace, least());
    const GnoRowSum<T, S> sum{lanes, rows, mean(), in.h, in.kappa, out.out};
    void* split =
        call.workspace.take<char>(split_bytes<GnoRowSum<T, S>>(cut, lanes.heads, sum.tiles()));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    cut_rows(rows, cut, call.stream);
    for_rows(sum, cut, split, call.stream);
    return cudaGetLastError();
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(*graph), sources = by_src(*graph);
    const auto to_h = matrix_lanes<T>(f_in, f_out, in.kappa.v, in.kappa.d, g.out);
    const auto to_kappa = matrix_lanes<T>(f_in, f_out, grad.kappa, g.out);
    const Cut cut = take_cut(rows, call.workspace, least());
    const Cut source_cut = take_cut(sources, call.workspace, least());
    const GnoSourceGradient<T, S> source_gradient{to_h,  sources,  mean() ? rows.offsets : nullptr,
                                                  g.out, in.kappa, grad.h};
    void* split = call.workspace.take<char>(
        split_bytes<GnoSourceGradient<T, S>>(source_cut, to_h.heads, source_gradient.tiles()));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (grad.h) {
      cut_rows(sources, source_cut, call.stream);
      for_rows(source_gradient, source_cut, split, call.stream);
    }
    clear_room(*graph, grad.kappa, f_in * f_out, call.stream);
    if (grad.kappa) {
      cut_rows(rows, cut, call.stream);
      for_rows(GnoMatrixGradient<T, S>{to_kappa, rows, mean(), g.out, in.h, grad.kappa}, cut,
               nullptr, call.stream);
    }
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_aggregate_entries.cuh"

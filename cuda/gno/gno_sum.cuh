// SPDX-License-Identifier: MIT
// Common parts of the sums over neighbours: out_i = s_i sum over e = (j -> i) of w_e h_j kappa_e,
// s_i = 1 or 1/degree.
#pragma once
#include "device/rows.cuh"
#include "gno_network.cuh"

namespace gnograd {

enum Reduction { reduce_sum, reduce_mean };
enum KernelForm { kernel_full, kernel_diagonal };

// s_i of destination i: 1, or with the offsets of destinations 1/degree; 0 without edges.
template <class R>
__device__ R scale_of(const int64_t* offsets, int64_t i) {
  if (!offsets) return R(1);
  const int64_t degree = offsets[i + 1] - offsets[i];
  return degree ? R(1) / R(degree) : R(0);
}

// The row that holds edge k.
__device__ inline int64_t row_of(const Csc& graph, int64_t k) {
  int64_t low = 0, high = graph.n_rows - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (graph.offsets[middle + 1] <= k) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Thread: a position, by bisection of the offsets; log2(n_rows) dependent reads, from caches.
static __global__ void __launch_bounds__(block_threads)
    gno_find_rows(Csc graph, int64_t first, int64_t n, int32_t* __restrict__ rows) {
  const int64_t q = thread_number(), k = first + q;
  if (q < n) rows[q] = int32_t(k < graph.end() ? row_of(graph, k) : graph.n_rows);
}
// rows[q] of position first + q; behind the last edge n_rows
inline void find_rows(const Csc& graph, int64_t first, int64_t n, int32_t* rows,
                      cudaStream_t stream) {
  launch_threads(n, stream, gno_find_rows, graph, first, n, rows);
}

// A walk over the edges by one end, and what they bring along from the other.
template <class T, class S>
struct GnoWalk {
  using R = real<T>;

  Csc graph;  // rows are destinations, or sources
  bool rows_are_dst;
  Input<T, S> x;  // [nodes at the other end, width]; null: 1
  int64_t width;
  Input<R, S> weight;      // [n_edges] or null: 1
  const int64_t* degrees;  // offsets of destinations for a mean, else null

  __device__ R scale(int64_t row, int64_t k) const {
    return scale_of<R>(degrees, rows_are_dst ? row : int64_t(graph.indices[k]));
  }
  // s_i w_e
  __device__ S coefficient(int64_t row, int64_t k) const {
    const R s = scale(row, k);
    return weight ? s * weight[graph.edge_of(k)] : S(s);
  }
  __device__ S feature(int64_t k, int64_t f) const {
    return x ? x[graph.indices[k] * width + f] : S(R(1));
  }
};

// Sizes and inputs of gno (with coords, u, b_u) or gno_contract (with hid). Functions of a batch
// are side by side.
template <class T, class S>
struct GnoProblem {
  using R = real<T>;

  const gnograd_cuda_graph& graph;
  int64_t n_batch, f_in, f_out;
  int reduction, kernel;
  EdgeNetwork<T, S> network;
  Input<T, S> h, v, b_v;
  Input<R, S> weight;

  bool valid() const {
    return n_batch >= 0 && network.d >= 0 && network.n_hidden >= 1 && f_in >= 1 && f_out >= 1 &&
           network.activation >= 0 && network.activation < n_activations &&
           (reduction == reduce_sum || reduction == reduce_mean) &&
           (kernel == kernel_full || (kernel == kernel_diagonal && f_in == f_out));
  }
  const int64_t* degrees() const {
    return reduction == reduce_mean ? graph.by_dst.offsets : nullptr;
  }
  GnoWalk<T, S> by_destination() const {
    return {by_dst(graph), true, h, n_batch * f_in, weight, degrees()};
  }
  GnoWalk<T, S> by_source(const T* cotangent) const {
    return {by_src(graph), false, {cotangent, nullptr}, n_batch * f_out, weight, degrees()};
  }
};

// Null where not wanted.
template <class T>
struct GnoGradients {
  T* h;
  real<T>* coords;
  T *u, *b_u, *v, *b_v;
  real<T>* edge_weight;
  T* hid;

  void clear(const gnograd_cuda_graph& graph, int64_t d, int64_t n_hidden,
             cudaStream_t stream) const {
    clear_room(graph, coords, d, stream);
    clear_room(graph, edge_weight, 1, stream);
    clear_room(graph, hid, n_hidden, stream);
  }
};

}  // namespace gnograd

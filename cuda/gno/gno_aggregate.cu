// SPDX-License-Identifier: MIT
// Aggregation with a given kernel matrix an edge, out_i = s_i sum over (j -> i) of h_j . kappa_e,
// where s_i is 1 or 1/degree. All passes read or write every kappa_e once, and that is their time.
#include "device/call.cuh"
#include "device/lanes.cuh"
#include "device/rows.cuh"
#include "gno_sum.cuh"

namespace gnograd {
namespace {

// Thread: a feature of a row of the result; neighbours read neighbouring kappa. 2 f_in f_out
// operations an edge for as many numbers of kappa: bound by these reads; a row's edges come one
// after another.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_aggregate_rows(Csc rows, int64_t f_in, int64_t f_out, bool mean, Input<T, S> h,
                       Input<T, S> kappa, T* __restrict__ out) {
  const int64_t i = thread_number() / f_out, o = thread_number() % f_out;
  if (i >= rows.n_rows) return;
  S sum = 0;
  for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p) {
    const int64_t j = rows.indices[p], e = rows.edge_of(p);
    for (int64_t f = 0; f < f_in; ++f) sum += h[j * f_in + f] * kappa[(e * f_in + f) * f_out + o];
  }
  out[thread_number()] = T(result(sum * scale_of<real<T>>(mean ? rows.offsets : nullptr, i)));
}

// Warp: a feature of a source, lanes over f_out. Reads kappa of the edges that leave it, f_out
// numbers together; bound by these reads, and, where f_out < 32, by idle lanes.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_aggregate_source_gradient(Csc columns, const int64_t* __restrict__ degrees, int64_t f_in,
                                  int64_t f_out, const T* __restrict__ g, Input<T, S> kappa,
                                  T* __restrict__ grad_h) {
  const Group warp = this_group(warp_lanes);
  const int64_t j = warp.number / f_in, f = warp.number % f_in;
  if (j >= columns.n_rows) return;
  S sum = 0;
  for (int64_t p = columns.offsets[j]; p < columns.offsets[j + 1]; ++p) {
    const int64_t i = columns.indices[p], e = columns.edge_of(p);
    const auto s = scale_of<real<T>>(degrees, i);
    for (int64_t o = warp.lane; o < f_out; o += warp_lanes)
      sum += s * real<T>(g[i * f_out + o]) * kappa[(e * f_in + f) * f_out + o];
  }
  sum = group_sum(sum, warp);
  if (warp.lane == 0) grad_h[warp.number] = T(result(sum));
}

// Warp: an edge, lanes over kappa. Writes f_in f_out numbers, f_in + f_out are read; bound by the
// writes and two divisions in 64 bits an entry.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_aggregate_kappa_gradient(Csc rows, int64_t f_in, int64_t f_out, bool mean,
                                 const T* __restrict__ g, Input<T, S> h,
                                 T* __restrict__ grad_kappa) {
  const Group warp = this_group(warp_lanes);
  const int64_t p = warp.number;
  if (p >= rows.end()) return;
  const int64_t i = row_of(rows, p), j = rows.indices[p], e = rows.edge_of(p);
  const auto s = scale_of<real<T>>(mean ? rows.offsets : nullptr, i);
  for (int64_t c = warp.lane; c < f_in * f_out; c += warp_lanes)
    grad_kappa[e * f_in * f_out + c] =
        T(result(s * real<T>(g[i * f_out + c % f_out]) * h[j * f_in + c / f_out]));
}

template <class T>
struct GnoAggregate {
  const gnograd_cuda_graph* graph;
  int64_t f_in, f_out;
  int reduction;

  struct Inputs {
    const T* h;      // [n_src, f_in]
    const T* kappa;  // [n_edges, f_in, f_out]
  };
  struct Outputs {
    T* out;  // [n_dst, f_out]
  };
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *h, *kappa;  // as the inputs, or null
  };

  bool mean() const { return reduction == reduce_mean; }
  bool valid() const {
    return f_in >= 1 && f_out >= 1 && (reduction == reduce_sum || reduction == reduce_mean);
  }
  template <class S>
  int value(const Inputs& in, const Inputs& tangents, T* out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(graph->n_dst * f_out, call.stream, gno_aggregate_rows<T, S>, by_dst(*graph),
                   f_in, f_out, mean(), Input<T, S>{in.h, tangents.h},
                   Input<T, S>{in.kappa, tangents.kappa}, out);
    return cudaGetLastError();
  }
  template <class S>
  int gradients(const T* g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
                Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (grad.h)
      launch_threads(graph->n_src * f_in * warp_lanes, call.stream,
                     gno_aggregate_source_gradient<T, S>, by_src(*graph),
                     mean() ? graph->by_dst.offsets : nullptr, f_in, f_out, g,
                     Input<T, S>{in.kappa, tangents.kappa}, grad.h);
    clear_room(*graph, grad.kappa, f_in * f_out, call.stream);
    if (grad.kappa)
      launch_threads(graph->n_edges * warp_lanes, call.stream, gno_aggregate_kappa_gradient<T, S>,
                     by_dst(*graph), f_in, f_out, mean(), g, Input<T, S>{in.h, tangents.h},
                     grad.kappa);
    return cudaGetLastError();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return value<real<T>>(in, {}, out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gradients<real<T>>(g.out, in, {}, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return value<Dual<real<T>>>(in, tangents, out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gradients<Dual<real<T>>>(g.out, in, tangents, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_aggregate_entries.cuh"

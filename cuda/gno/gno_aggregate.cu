// SPDX-License-Identifier: MIT
// Aggregation with a given kernel matrix an edge, out_i = s_i sum over (j -> i) of h_j . kappa_e,
// where s_i is 1 or 1/degree. All passes read or write every kappa_e once, and that is their time.
#include "device/face.cuh"
#include "device/lanes.cuh"
#include "device/rows.cuh"
#include "gno_sum.cuh"

namespace gnograd {
namespace {

// A thread a row and feature of the result.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    aggregate(Csc rows, int64_t f_in, int64_t f_out, bool mean, Input<R, S> h, Input<R, S> kappa,
              R* out) {
  const int64_t i = thread_number() / f_out, o = thread_number() % f_out;
  if (i >= rows.n_rows) return;
  S sum = 0;
  for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p) {
    const int64_t j = rows.indices[p], e = rows.edge_of(p);
    for (int64_t f = 0; f < f_in; ++f) sum += h[j * f_in + f] * kappa[(e * f_in + f) * f_out + o];
  }
  out[thread_number()] = result(sum * scale_of<R>(mean ? rows.offsets : nullptr, i));
}

// A warp a row and feature of the sources.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    source_gradient(Csc columns, const int64_t* degrees, int64_t f_in, int64_t f_out, const R* g,
                    Input<R, S> kappa, R* grad_h) {
  const Group warp = this_group(warp_lanes);
  const int64_t j = warp.number / f_in, f = warp.number % f_in;
  if (j >= columns.n_rows) return;
  S sum = 0;
  for (int64_t p = columns.offsets[j]; p < columns.offsets[j + 1]; ++p) {
    const int64_t i = columns.indices[p], e = columns.edge_of(p);
    const R s = scale_of<R>(degrees, i);
    for (int64_t o = warp.lane; o < f_out; o += warp_lanes)
      sum += s * g[i * f_out + o] * kappa[(e * f_in + f) * f_out + o];
  }
  sum = group_sum(sum, warp);
  if (warp.lane == 0) grad_h[warp.number] = result(sum);
}

// A warp a position.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    kernel_gradient(Csc rows, int64_t f_in, int64_t f_out, bool mean, const R* g, Input<R, S> h,
                    R* grad_kappa) {
  const Group warp = this_group(warp_lanes);
  const int64_t p = warp.number;
  if (p >= rows.n_edges) return;
  const int64_t i = row_of(rows, p), j = rows.indices[p], e = rows.edge_of(p);
  const R s = scale_of<R>(mean ? rows.offsets : nullptr, i);
  for (int64_t c = warp.lane; c < f_in * f_out; c += warp_lanes)
    grad_kappa[e * f_in * f_out + c] =
        result(s * g[i * f_out + c % f_out] * h[j * f_in + c / f_out]);
}

template <class R>
struct Faces {
  const gnograd_cuda_graph* graph;
  int64_t f_in, f_out;
  int reduction;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  bool mean() const { return reduction == reduce_mean; }
  bool valid() const {
    return f_in >= 1 && f_out >= 1 && (reduction == reduce_sum || reduction == reduce_mean);
  }
  template <class S>
  int value(const void* h, const void* kappa, const void* t_h, const void* t_kappa, void* out) {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    launch_threads(graph->n_dst * f_out, stream, aggregate<R, S>, by_dst(*graph), f_in, f_out,
                   mean(), make_input<R, S>(h, t_h), make_input<R, S>(kappa, t_kappa),
                   static_cast<R*>(out));
    return cudaGetLastError();
  }
  template <class S>
  int gradients(const void* cotangent, const void* h, const void* kappa, const void* t_h,
                const void* t_kappa, void* grad_h, void* grad_kappa) {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const R* g = static_cast<const R*>(cotangent);
    if (grad_h)
      launch_threads(graph->n_src * f_in * warp_lanes, stream, source_gradient<R, S>,
                     by_src(*graph), mean() ? graph->by_dst.offsets : nullptr, f_in, f_out, g,
                     make_input<R, S>(kappa, t_kappa), static_cast<R*>(grad_h));
    if (grad_kappa)
      launch_threads(graph->n_edges * warp_lanes, stream, kernel_gradient<R, S>, by_dst(*graph),
                     f_in, f_out, mean(), g, make_input<R, S>(h, t_h), static_cast<R*>(grad_kappa));
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

using namespace gnograd;

// They need no workspace.
#define FACE(face, type, R, ...)                                      \
  DEFINE_FACE(gno_aggregate_##face, type, GNOGRAD_CUDA_GNO_AGGREGATE, \
              (Faces<R>{graph, f_in, f_out, reduction}), workspace.bytes, __VA_ARGS__)
#define GNO_AGGREGATE(type, R)                                                                  \
  FACE(forward, type, R, value<R>(h, kappa, nullptr, nullptr, out), const void* h,              \
       const void* kappa, void* out)                                                            \
  FACE(vjp, type, R, gradients<R>(cotangent, h, kappa, nullptr, nullptr, grad_h, grad_kappa),   \
       const void* cotangent, const void* h, const void* kappa, void* grad_h, void* grad_kappa) \
  FACE(jvp, type, R, value<Dual<R>>(h, kappa, h_tangent, kappa_tangent, out_tangent),           \
       const void* h, const void* kappa, const void* h_tangent, const void* kappa_tangent,      \
       void* out_tangent)                                                                       \
  FACE(hvp, type, R,                                                                            \
       gradients<Dual<R>>(cotangent, h, kappa, h_tangent, kappa_tangent, grad_h_tangent,        \
                          grad_kappa_tangent),                                                  \
       const void* cotangent, const void* h, const void* kappa, const void* h_tangent,          \
       const void* kappa_tangent, void* grad_h_tangent, void* grad_kappa_tangent)
GNO_AGGREGATE(f32, float)
GNO_AGGREGATE(f64, double)

// SPDX-License-Identifier: MIT
// The GNO sum with a full kernel, factorised: kappa is never formed. With x = h or, on the way
// back, x = g, the cotangent of out, and the sums over an end of the edges
//
//     Z_i = sum over (j -> i) of s_i w_e h_j (x) [hid_e; 1],     out_i = Z_i . [V; b_v]
//     P_j = sum over (j -> i) of s_i w_e g_i (x) [hid_e; 1],     d_h_j = P_j . [V; b_v]
//     d_[V; b_v] = sum_j h_j (x) P_j
//     Q_j = h_j . [V; b_v],                     d_[hid_e; 1] = s_i w_e g_i . Q_j
//
// Rows go in tiles whose panels [F, K] of sums or products stay in a GPU's cache. K = H + 1. Of a
// batch a row has the panels of all functions, one behind the other.
#pragma once
#include "gno_network.cuh"
#include "gno_sum.cuh"

namespace gnograd {

constexpr int edges_together = 8;
constexpr int panel_features = 64, panel_hidden = 32;  // of a block
constexpr int patch = 4;                               // of a thread, both ways
static_assert(panel_features / patch * (panel_hidden / patch) == block_threads);

template <class S>
constexpr size_t outer_sum_bytes = shared_bytes<S>(edges_together * panel_features) +
                                   shared_bytes<S>(edges_together * panel_hidden);

// Panels of the rows from `first` on. Block (row, part of K, part of F): 64 features by 32 hidden
// features, a thread 4 x 4 of them, over the row's edges, 8 at a time in shared memory (3 KB in
// float32). 2 F K operations an edge; writes F K numbers a row, which bound it below some 40 edges
// a row. Hidden features are found again for every part of F. A row with many edges is one block's.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    gno_outer_sums(GnoWalk<R, S> walk, EdgeNetwork<R, S> network, int64_t first, Planes<S> panels) {
  SharedMemory memory;
  S* x = memory.template take<S>(edges_together * panel_features);
  S* hidden = memory.template take<S>(edges_together * panel_hidden);
  const int64_t row = first + blockIdx.x;
  const int64_t k0 = int64_t(blockIdx.y) * panel_hidden, f0 = int64_t(blockIdx.z) * panel_features;
  const int k = int(threadIdx.x) % (panel_hidden / patch) * patch;
  const int f = int(threadIdx.x) / (panel_hidden / patch) * patch;

  S sum[patch][patch] = {};
  const int64_t end = walk.graph.offsets[row + 1];
  for (int64_t p = walk.graph.offsets[row]; p < end; p += edges_together) {
    const int n = int(min(end - p, int64_t(edges_together)));
    for (int i = int(threadIdx.x); i < n * panel_features; i += block_threads) {
      const int64_t at = p + i / panel_features, c = f0 + i % panel_features;
      x[i] = c < walk.width ? walk.coefficient(row, at) * walk.feature(at, c) : S(0);
    }
    for (int i = int(threadIdx.x); i < n * panel_hidden; i += block_threads) {
      const int64_t at = p + i / panel_hidden, c = k0 + i % panel_hidden;
      hidden[i] = c < network.size() ? network(walk.graph.edge_of(at), c) : S(0);
    }
    __syncthreads();
    for (int b = 0; b < n; ++b)
      for (int i = 0; i < patch; ++i)
        for (int j = 0; j < patch; ++j)
          sum[i][j] += x[b * panel_features + f + i] * hidden[b * panel_hidden + k + j];
    __syncthreads();
  }
  for (int i = 0; i < patch; ++i)
    for (int j = 0; j < patch; ++j)
      if (f0 + f + i < walk.width && k0 + k + j < network.size())
        panels.set((int64_t(blockIdx.x) * walk.width + f0 + f + i) * network.size() + k0 + k + j,
                   sum[i][j]);
}

constexpr int cotangents_together = 64;
template <class R, class S>
constexpr size_t edge_gradient_bytes(int64_t d) {
  return shared_bytes<R>(edges_together * cotangents_together) +
         2 * shared_bytes<S>(edges_together * block_threads) +
         shared_bytes<S>(edges_together * (d + 1));
}

// Gradients of what belongs to the edges of row first + blockIdx.x, with Q of the rows. `layer`
// [tile, d + 1, H] takes in what the row adds to the gradients of [U; b_u].
//
// Block: a row, 8 edges at a time; a thread has a hidden feature of all 8, then a warp a sum over
// them. Shared memory: edge_gradient_bytes, 10 KB in float32. 2 F K operations an edge for reading
// F K numbers of Q a row for every 8 edges, from caches but for the first; bound by these reads and
// FMAs. Of K = H + 1, one more than a multiple of 128 is a pass of its own.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    gno_edge_gradients(GnoWalk<R, S> walk, EdgeNetwork<R, S> network, int64_t first, Planes<S> q,
                       R* __restrict__ grad_weight, R* __restrict__ grad_coords,
                       R* __restrict__ grad_hid, S* __restrict__ layer) {
  SharedMemory memory;
  R* g = memory.template take<R>(edges_together * cotangents_together);
  S* before = memory.template take<S>(edges_together * block_threads);
  S* weighted = memory.template take<S>(edges_together * block_threads);
  S* sums = memory.template take<S>(edges_together * (network.d + 1));  // of coords, and the weight
  const int64_t row = first + blockIdx.x, n_hidden = network.n_hidden, size = network.size();
  const int me = int(threadIdx.x), n_sums = network.d + 1;
  const Group warp = this_group(warp_lanes);
  const int warp_number = me / warp_lanes, n_warps = block_threads / warp_lanes;
  if (layer) layer += blockIdx.x * network.layer();

  const int64_t end = walk.graph.offsets[row + 1];
  for (int64_t p = walk.graph.offsets[row]; p < end; p += edges_together) {
    const int n = int(min(end - p, int64_t(edges_together)));
    for (int64_t k0 = 0; k0 < size; k0 += block_threads) {
      const int64_t k = k0 + me;
      S grad[edges_together] = {};
      for (int64_t f0 = 0; f0 < walk.width; f0 += cotangents_together) {
        const int width = int(min(walk.width - f0, int64_t(cotangents_together)));
        __syncthreads();
        for (int i = me; i < edges_together * width; i += block_threads)
          g[i] = i / width < n
                     ? walk.x.v[walk.graph.indices[p + i / width] * walk.width + f0 + i % width]
                     : R(0);
        __syncthreads();
        if (k < size)
          for (int f = 0; f < width; ++f) {
            const S q_k = q[(int64_t(blockIdx.x) * walk.width + f0 + f) * size + k];
            for (int b = 0; b < edges_together; ++b) grad[b] += g[b * width + f] * q_k;
          }
      }
#pragma unroll
      for (int b = 0; b < edges_together; ++b) {
        if (b >= n) break;
        const int64_t e = walk.graph.edge_of(p + b);
        const S to_hidden = walk.coefficient(row, p + b) * grad[b];
        S to_before = 0, to_weight = 0;
        if (k < size) to_weight = walk.scale(row, p + b) * (network(e, k) * grad[b]);
        if (k < n_hidden) {
          if (!network.from_table)
            to_before = to_hidden * slope(network.activation, network.before(e, k));
          else if (grad_hid) grad_hid[e * n_hidden + k] = result(to_hidden);
        }
        before[b * block_threads + me] = to_before;
        weighted[b * block_threads + me] = to_weight;
      }
      if (layer && k < n_hidden)
        for (int a = 0; a <= network.d; ++a) {
          S sum = layer[a * n_hidden + k];
          for (int b = 0; b < n; ++b) {
            const S x = before[b * block_threads + me];
            sum +=
                a == network.d ? x : x * network.coords[walk.graph.edge_of(p + b) * network.d + a];
          }
          layer[a * n_hidden + k] = sum;
        }
      __syncthreads();
      // a warp a sum
      for (int i = warp_number; i < n * n_sums; i += n_warps) {
        const int b = i / n_sums, a = i % n_sums;
        S sum = 0;
        for (int c = warp.lane; c < block_threads && k0 + c < size; c += warp_lanes) {
          if (a == network.d) sum += weighted[b * block_threads + c];
          else if (k0 + c < n_hidden)
            sum += before[b * block_threads + c] * network.u[a * n_hidden + k0 + c];
        }
        sum = group_sum(sum, warp);
        if (warp.lane == 0) sums[i] = k0 == 0 ? sum : sums[i] + sum;
      }
    }
    __syncthreads();
    for (int i = me; i < n * n_sums; i += block_threads) {
      const int64_t e = walk.graph.edge_of(p + i / n_sums), a = i % n_sums;
      if (a == network.d) {
        if (grad_weight) grad_weight[e] = result(sums[i]);
      } else if (grad_coords) {
        grad_coords[e * network.d + a] = result(sums[i]);
      }
    }
    __syncthreads();
  }
}

template <class R, class S>
struct GnoFullSum {
  static constexpr bool dual = ScalarTraits<S>::dual;

  const GnoProblem<R, S>& problem;
  Workspace& workspace;
  cudaStream_t stream;

  int64_t hidden() const { return problem.network.size(); }
  // [V; b_v] for sums over neighbours of width F_in, and for those of width F_out
  LayerOrder forward_order() const { return {problem.f_in, problem.f_out, problem.f_out, 1}; }
  LayerOrder reverse_order() const { return {problem.f_out, problem.f_in, 1, problem.f_out}; }

  // 64 MiB of panels, but enough of them for a product
  int64_t tile_length(int64_t n_rows, int64_t width) const {
    const int64_t n_batch = problem.n_batch, least = ceil_div(64, n_batch);
    const int64_t fit = (int64_t(64) << 20) / int64_t(sizeof(S) * width * hidden()) / n_batch;
    return std::max<int64_t>(1, std::min(n_rows, std::clamp<int64_t>(fit, least, 16384)));
  }
  void pack(const LayerOrder& order, const Planes<S>& layer) const {
    pack_layer(order, problem.network.n_hidden, problem.v, problem.b_v, layer, stream);
  }
  void sum(const GnoWalk<R, S>& walk, int64_t first, int64_t n, const Planes<S>& panels) const {
    const dim3 grid =
        grid_of(n, ceil_div(hidden(), panel_hidden), ceil_div(walk.width, panel_features));
    launch(gno_outer_sums<R, S>, grid, dim3(block_threads), outer_sum_bytes<S>, stream, walk,
           problem.network, first, panels);
  }

  int forward(R* out) const {
    const int64_t n_rows = problem.graph.n_dst, inner = problem.f_in * hidden();
    const int64_t length = tile_length(n_rows, problem.f_in), most = length * problem.n_batch;
    const Planes<S> layer(inner * problem.f_out, workspace), panels(most * inner, workspace);
    const Gemm<R> to_out({most, problem.f_out, inner}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack(forward_order(), layer);
    for (int64_t first = 0; first < n_rows; first += length) {
      const int64_t n = std::min(length, n_rows - first);
      sum(problem.by_destination(), first, n, panels);
      to_out(dual, {n * problem.n_batch, problem.f_out, inner}, panels.rows(inner),
             layer.rows(problem.f_out), out + first * problem.n_batch * problem.f_out, false,
             stream);
    }
    return cudaGetLastError();
  }

  int gradients(const R* cotangent, const GnoGradients<R>& grad) const {
    if (edge_gradient_bytes<R, S>(problem.network.d) > most_shared) return GNOGRAD_CUDA_VALUE;
    const int64_t n_rows = problem.graph.n_src, f_in = problem.f_in;
    const int64_t inner = problem.f_out * hidden();
    const int64_t length = tile_length(n_rows, problem.f_out), most = length * problem.n_batch;
    const Planes<S> layer(inner * f_in, workspace), panels(most * inner, workspace);
    R* grad_layer = workspace.take<R>(inner * f_in);
    FirstLayer<R, S> first_layer(problem.network, length, workspace);
    const Gemm<R> to_h({most, f_in, inner}, workspace);
    const Gemm<R> to_layer({inner, f_in, most}, workspace);
    const Gemm<R> to_edges({most, inner, f_in}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    const bool want_edges = want_first || grad.coords || grad.hid || grad.edge_weight;
    grad.clear(problem.graph, problem.network.d, problem.network.n_hidden, stream);
    if (grad.h || want_edges) pack(reverse_order(), layer);
    if (want_last) set_zero(grad_layer, inner * f_in, stream);
    if (want_first) set_zero(first_layer.sums, length * problem.network.layer(), stream);
    const auto walk = problem.by_source(cotangent);
    for (int64_t first = 0; first < n_rows; first += length) {
      const int64_t n = std::min(length, n_rows - first);
      const int64_t n_panels = n * problem.n_batch, start = first * problem.n_batch * f_in;
      const Operand<R> h = rows(problem.h + start, f_in);
      if (grad.h || want_last) {
        sum(walk, first, n, panels);
        if (grad.h)
          to_h(dual, {n_panels, f_in, inner}, panels.rows(inner), layer.rows(f_in), grad.h + start,
               false, stream);
        if (want_last)
          to_layer(dual, {inner, f_in, n_panels}, panels.rows(inner).transposed(), h, grad_layer, true,
                   stream);
      }
      if (!want_edges) continue;
      const GemmShape shape{n_panels, inner, f_in};
      const auto b = layer.rows(f_in).transposed();
      gemm_planes(to_edges, shape, h, b, panels, stream);
      launch(gno_edge_gradients<R, S>, grid_of(n), dim3(block_threads),
             edge_gradient_bytes<R, S>(problem.network.d), stream, walk, problem.network, first,
             panels, grad.edge_weight, grad.coords, grad.hid,
             want_first ? first_layer.sums : nullptr);
    }
    if (want_last)
      unpack_layer(reverse_order(), problem.network.n_hidden, grad_layer, grad.v, grad.b_v, stream);
    if (want_first) first_layer.finish(grad.u, grad.b_u, stream);
    return cudaGetLastError();
  }
};

}  // namespace gnograd

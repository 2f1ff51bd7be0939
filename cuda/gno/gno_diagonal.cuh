// SPDX-License-Identifier: MIT
// The GNO sum with a diagonal kernel, out_i = s_i sum over e = (j -> i) of w_e h_j o kappa_e, in
// tiles of edges. A row whose edges lie in several tiles is added up tile by tile. The functions of
// a batch have one kappa. In bfloat16 hidden features, kappa and their gradients are rounded, and a
// row is when all its tiles have been added.
#pragma once
#include "gno_network.cuh"
#include "gno_sum.cuh"

namespace gnograd {

// sums[row] += coefficient x o kappa over the edges of a tile. Thread: a feature of an edge, and
// only that of a row's first edge does something, for all of them. Reads kappa and x once; bound by
// memory, in a tile with one long row by its length.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_add_messages(GnoWalk<T, S> walk, int64_t width, int64_t first, int64_t n,
                     const int32_t* __restrict__ rows, Planes<S, T> kappa,
                     real<T>* __restrict__ sums) {
  const int64_t q = thread_number() / walk.width, f = thread_number() % walk.width;
  if (q >= n || rows[q] == walk.graph.n_rows || (q > 0 && rows[q - 1] == rows[q])) return;
  S sum = 0;
  for (int64_t p = q; p < n && rows[p] == rows[q]; ++p)
    sum += walk.coefficient(rows[q], first + p) * walk.feature(first + p, f) *
           kappa[p * width + f % width];
  sums[rows[q] * walk.width + f] += result(sum);
}

// Gradients to kappa, for edges by source. Thread: a feature of an edge; reads two numbers a
// function, writes one; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_kappa_gradient(GnoWalk<T, S> walk, int64_t width, Input<T, S> h, int64_t first, int64_t n,
                       const int32_t* __restrict__ rows, Planes<S, T> grad) {
  const int64_t q = thread_number() / width;
  if (q >= n) return;
  const int64_t j = rows[q];
  S sum = 0;
  if (j < walk.graph.n_rows)  // else there is no edge
    for (int64_t f = thread_number() % width; f < walk.width; f += width) {
      const S x = h ? h[j * walk.width + f] : S(real<T>(1));
      sum += walk.coefficient(j, first + q) * walk.feature(first + q, f) * x;
    }
  grad.set(thread_number(), sum);
}

// Gradients to the weights. Warp: an edge, lanes over features. Reads three numbers a feature, two
// through indices; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_weight_gradient(GnoWalk<T, S> walk, int64_t width, Input<T, S> h, int64_t first, int64_t n,
                        const int32_t* __restrict__ rows, Planes<S, T> kappa,
                        real<T>* __restrict__ grad_weight) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number, k = first + q;
  if (q >= n || rows[q] == walk.graph.n_rows) return;
  const int64_t j = rows[q];
  S sum = 0;
  for (int64_t f = warp.lane; f < walk.width; f += warp_lanes)
    sum += walk.feature(k, f) * (h ? h[j * walk.width + f] : S(real<T>(1))) *
           kappa[q * width + f % width];
  sum = group_sum(sum, warp);
  if (warp.lane == 0) grad_weight[walk.graph.edge_of(k)] = result(walk.scale(j, k) * sum);
}

// Thread: a number, read and written once; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gno_store_sums(int64_t n, const real<T>* __restrict__ sums, T* __restrict__ to) {
  const int64_t i = thread_number();
  if (i < n) to[i] = T(sums[i]);
}

// What tiles add to a result: the result itself, or, where that is of half precision, float32.
template <class T>
struct TileSums {
  static constexpr bool apart = !std::is_same_v<T, real<T>>;

  T* to;  // null: not wanted
  int64_t n;
  real<T>* sums;

  TileSums(T* to, int64_t n, Workspace& workspace)
      : to(to), n(n), sums(workspace.take<real<T>>(apart ? n : 0)) {
    if constexpr (!apart) sums = to;
  }
  void clear(cudaStream_t stream) const { set_zero(sums, n, stream); }
  void store(cudaStream_t stream) const {
    if constexpr (apart) launch_threads(n, stream, gno_store_sums<T>, n, sums, to);
  }
};

template <class T, class S>
struct GnoDiagonalSum {
  using R = real<T>;
  static constexpr bool dual = ScalarTraits<S>::dual;

  const GnoProblem<T, S>& problem;
  Workspace& workspace;
  cudaStream_t stream;

  int64_t width() const { return problem.f_out; }
  int64_t features() const { return problem.network.size(); }
  LayerOrder order() const { return {1, width(), 0, 1}; }

  // kappa of the edges of a tile
  void matrices(const EdgeTile<T, S>& tile, const Gemm<T>& to_kappa, const Planes<S, T>& layer,
                int64_t n, const Planes<S, T>& kappa) const {
    const GemmShape shape{n, width(), features()};
    const auto a = tile.hidden.rows(features()), b = layer.rows(width());
    gemm_planes(to_kappa, shape, a, b, kappa, stream);
  }
  void pack(const Planes<S, T>& layer) const {
    pack_layer(order(), problem.network.n_hidden, problem.v, problem.b_v, layer, stream);
  }

  int forward(T* out) const {
    const EdgeTile<T, S> tile(problem.network, problem.graph.n_edges, width(), workspace, stream);
    const Planes<S, T> layer(features() * width(), workspace);
    const Planes<S, T> kappa(tile.length * width(), workspace);
    const auto walk = problem.by_destination();
    const TileSums<T> sums(out, problem.graph.n_dst * walk.width, workspace);
    int32_t* rows = workspace.take<int32_t>(tile.length);
    const Gemm<T> to_kappa({tile.length, width(), features()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack(layer);
    sums.clear(stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      find_rows(walk.graph, first, n, rows, stream);
      tile.load({walk.graph, first}, n);
      matrices(tile, to_kappa, layer, n, kappa);
      launch_threads(n * walk.width, stream, gno_add_messages<T, S>, walk, width(), first, n, rows,
                     kappa, sums.sums);
    });
    sums.store(stream);
    return cudaGetLastError();
  }

  int gradients(const T* cotangent, const GnoGradients<T>& grad) const {
    EdgeTile<T, S> tile(problem.network, problem.graph.n_edges, width(), workspace, stream);
    const Planes<S, T> layer(features() * width(), workspace);
    const Planes<S, T> kappa(tile.length * width(), workspace);
    const auto walk = problem.by_source(cotangent);
    const TileSums<T> to_h(grad.h, problem.graph.n_src * walk.width, workspace);
    R* grad_layer = workspace.take<R>(features() * width());
    int32_t* rows = workspace.take<int32_t>(tile.length);
    const Gemm<T> to_kappa({tile.length, width(), features()}, workspace);
    const Gemm<T> to_layer({features(), width(), tile.length}, workspace);
    const Gemm<T> to_hidden({tile.length, features(), width()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    const bool want_hidden = want_first || grad.coords || grad.hid;
    grad.clear(problem.graph, problem.network.d, problem.network.n_hidden, stream);
    pack(layer);
    if (grad.h) to_h.clear(stream);
    if (want_last) set_zero(grad_layer, features() * width(), stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      find_rows(walk.graph, first, n, rows, stream);
      tile.load({walk.graph, first}, n);
      if (grad.h || grad.edge_weight) {
        matrices(tile, to_kappa, layer, n, kappa);
        if (grad.h)
          launch_threads(n * walk.width, stream, gno_add_messages<T, S>, walk, width(), first, n,
                         rows, kappa, to_h.sums);
        if (grad.edge_weight)
          launch_threads(n * warp_lanes, stream, gno_weight_gradient<T, S>, walk, width(),
                         problem.h, first, n, rows, kappa, grad.edge_weight);
      }
      if (!want_last && !want_hidden) return;
      launch_threads(n * width(), stream, gno_kappa_gradient<T, S>, walk, width(), problem.h, first,
                     n, rows, kappa);
      if (want_last)
        to_layer(dual, {features(), width(), n}, tile.hidden.rows(features()).transposed(),
                 kappa.rows(width()), grad_layer, true, stream);
      if (!want_hidden) return;
      const GemmShape shape{n, features(), width()};
      const auto to = layer.rows(width()).transposed();
      gemm_planes(to_hidden, shape, kappa.rows(width()), to, tile.grad, stream);
      tile.reverse({walk.graph, first}, n, grad.coords, grad.hid, want_first);
    });
    if (grad.h) to_h.store(stream);
    if (want_last)
      unpack_layer(order(), problem.network.n_hidden, grad_layer, grad.v, grad.b_v, stream);
    if (want_first) tile.finish(grad.u, grad.b_u);
    return cudaGetLastError();
  }
};

}  // namespace gnograd

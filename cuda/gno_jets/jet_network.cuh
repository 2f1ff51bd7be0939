// SPDX-License-Identifier: MIT
// Jets of a slice of edges through the hidden layers of a kernel network:
//
//     hid_0 = c,   pre_l = U_l^T hid_(l-1) + b_l,   hid_l = act(pre_l)
//
// With the jet of 1, which is (1, 0, ...), behind the features of every hid_l, a layer is one
// product with [U_l; b_l], which is how layers are packed. All arrays are [edges, channels, width].
#pragma once
#include <vector>

#include "jet_edges.cuh"

namespace gnograd {

enum Geometry { geometry_difference, geometry_pair };

// Sizes and inputs of one call. Functions of a batch are side by side.
template <class R, class S>
struct JetsProblem {
  const gnograd_cuda_graph& graph;
  Jet jet;
  int64_t n_batch, f_in, f_out, n_layers;
  const int64_t* widths;  // widths of the hidden layers
  int geometry, activation, reduction, kernel;
  Input<R, S> h, x, y, layers, v, b_v, weight, weight_derivatives;

  bool valid() const {
    for (int64_t l = 0; l < n_layers; ++l)
      if (widths[l] < 1) return false;
    return n_batch >= 0 && jet.d >= 1 && f_in >= 1 && f_out >= 1 && n_layers >= 1 &&
           (geometry == geometry_difference || geometry == geometry_pair) && activation >= 0 &&
           activation < n_activations && (reduction == reduce_sum || reduction == reduce_mean) &&
           (kernel == kernel_full || (kernel == kernel_diagonal && f_in == f_out)) &&
           (weight || !weight_derivatives);
  }
  int64_t channels() const { return jet.channels(); }
  // Second derivatives as the outputs have them
  int64_t n_second() const {
    if (jet.order == order_gradient) return 0;
    return jet.order == order_hessian ? jet.d * jet.d : 1;
  }
  // Features of a node with those of all functions
  int64_t all_in() const { return n_batch * f_in; }
  int64_t all_out() const { return n_batch * f_out; }
  JetPositions<R, S> positions() const { return {x, y, geometry == geometry_pair, jet.d}; }
  JetWeights<R, S> weights() const { return {weight, weight_derivatives, jet.channels() - 1}; }
  const int64_t* degrees() const {
    return reduction == reduce_mean ? graph.by_dst.offsets : nullptr;
  }
  // Features of layer l, the input being 0; with the 1 behind them
  int64_t width(int64_t l) const { return l == 0 ? positions().seen() : widths[l - 1]; }
  int64_t columns(int64_t l) const { return width(l) + 1; }
  int64_t n_hidden() const { return width(n_layers); }
  int64_t widest() const {
    int64_t n = 0;
    for (int64_t l = 0; l <= n_layers; ++l) n = std::max(n, columns(l));
    return n;
  }
  // Start of [U_l; b_l], for l from 1; the end for n_layers + 1
  int64_t start(int64_t l) const {
    int64_t n = 0;
    for (int64_t m = 1; m < l; ++m) n += columns(m - 1) * width(m);
    return n;
  }
  Operand<R> layer(int64_t l) const { return rows(layers + start(l), width(l)); }
};

// hid = act(pre), jets of `width` features, the last of which is the 1. Thread: a feature of an
// edge, all its channels; reads and writes as many numbers, those of neighbours side by side; bound
// by memory, in float64 by the four derivatives of the activation.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_activate(Jet jet, int activation, int64_t n, int64_t width, Planes<S> pre, Planes<S> hid) {
  const int i = thread_index(), q = i / int(width), k = i % int(width);
  if (q >= n) return;
  const JetIn<S> y(jet, hid, width, q, k);
  if (k < width - 1) {
    jet_activate(jet, activation, JetIn<S>(jet, pre, width - 1, q, k), y);
  } else {
    y.set(0, S(R(1)));
    for (int c = 1; c < jet.channels(); ++c) y.set(c, S(R(0)));
  }
}

// Edges whose jets fill a tile of a product, which has 64 rows.
inline __host__ __device__ int edges_of_tile(const Jet& jet) { return 64 / jet.channels(); }

// pre = x [U; b], unless it is null, and hid = act(pre), with the 1 behind it. Block (x, y): 64
// features of as many edges as there is room for in 64 rows with all their channels (gemm_tiles);
// then a thread a feature of an edge, through shared memory. Reads x n / 64 times and writes hid,
// pre; bound by memory.
template <class R, bool rounded>
__global__ void __launch_bounds__(block_threads, 3)
    jets_layer(Jet jet, int activation, int64_t n, Operand<R> x, bool x_wide, int64_t inner,
               Operand<R> layer, bool layer_wide, int width, R* __restrict__ pre,
               R* __restrict__ hid) {
  constexpr int columns = 64;
  const int channels = jet.channels(), edges = edges_of_tile(jet);
  const int64_t first = int64_t(blockIdx.x) * edges, first_row = first * channels;
  const int there = int(min(int64_t(edges), n - first)), first_column = int(blockIdx.y) * columns;
  using Layout = GemmLayout<true, false>;
  SharedMemory memory;  // memory of the factors, when they have been multiplied
  R* const tile = memory.template take<R>(TileSteps<R, columns, Layout>::numbers);
  gemm_tile<rounded, columns, Layout>(
      x, x_wide, first_row, first_row + there * channels, layer, layer_wide, first_column, width, 0,
      inner, [&](int64_t y, int64_t c, R sum, R next, int count) {
        R* const to = tile + int(y - first_row) * columns + int(c - first_column);
        to[0] = sum;
        if (count == 2) to[1] = next;
      });
  __syncthreads();
  Planes<R> from, to;
  from.v = tile, to.v = hid + first_row * (width + 1);
  for (int i = int(threadIdx.x); i < there * columns; i += block_threads) {
    const int q = i / columns, k = i % columns;
    if (first_column + k >= width) continue;
    const JetIn<R> p(jet, from, columns, q, k);
    jet_activate(jet, activation, p, JetIn<R>(jet, to, width + 1, q, first_column + k));
    if (!pre) continue;
    R* const own = pre + (first_row + q * channels) * width + first_column + k;
    for (int c = 0; c < channels; ++c) own[c * width] = p[c];
  }
  if (first_column > 0) return;
  for (int i = int(threadIdx.x); i < there * channels; i += block_threads)
    to.v[int64_t(i) * (width + 1) + width] = i % channels == 0 ? R(1) : R(0);
}

template <bool rounded, class R>
void start_layer(const Jet& jet, int activation, int64_t n, const Operand<R>& x, int64_t inner,
                 const Operand<R>& layer, int64_t width, R* pre, R* hid, cudaStream_t stream) {
  launch(jets_layer<R, rounded>, grid_of(ceil_div(n, edges_of_tile(jet)), ceil_div(width, 64)),
         dim3(block_threads), TileSteps<R, 64, GemmLayout<true, false>>::bytes, stream, jet,
         activation, n, x, wide_copies(x.v, inner, x.row), inner, layer,
         wide_copies(layer.v, width, layer.row), int(width), pre, hid);
}

// Gradients to hid, `pitch` apart, become those to pre. Thread: as in jets_activate; the gradients
// are read and written, pre is read.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_activate_reverse(Jet jet, int activation, int64_t n, int64_t width, Planes<S> pre,
                          int64_t pitch, Planes<S> grad) {
  const int i = thread_index(), q = i / int(width), k = i % int(width);
  if (q < n)
    jet_activate_reverse(jet, activation, JetIn<S>(jet, pre, width, q, k),
                         JetIn<S>(jet, grad, pitch, q, k));
}

template <class R, class S>
class JetNetwork {
  static constexpr bool dual = ScalarTraits<S>::dual;

  const JetsProblem<R, S>& problem;
  cudaStream_t stream;
  bool reverses;
  std::vector<Planes<S>> pre, hid;  // on the way forward, one or two in turn
  std::vector<Gemm<R>> up, down;
  std::vector<GemmSum<R>> to_layers;
  Planes<S> spare;

  int64_t top() const { return problem.n_layers; }
  // True if layers are one kernel each. Then, on the way forward, there is no pre.
  bool fused() const { return !dual && edges_of_tile(problem.jet) > 0; }

 public:
  Planes<S> grad;  // gradient to features() on the way back

  // Numbers that an edge takes.
  static int64_t numbers(const JetsProblem<R, S>& problem, bool reverse) {
    int64_t n = 2 * problem.widest();
    for (int64_t l = 0; reverse && l <= problem.n_layers; ++l)
      n += problem.columns(l) + (l ? problem.width(l) : 0);
    return problem.channels() * n;
  }

  JetNetwork(const JetsProblem<R, S>& problem, int64_t length, bool reverse, Workspace& workspace,
             cudaStream_t stream)
      : problem(problem), stream(stream), reverses(reverse) {
    const int64_t jets = length * problem.channels();
    spare = Planes<S>(jets * problem.widest(), workspace);
    grad = Planes<S>(jets * problem.widest(), workspace);
    for (int64_t l = 0; l <= top(); ++l) {
      const int64_t width = problem.width(l), below = l ? problem.columns(l - 1) : 0;
      const Planes<S> in_turn = fused() && (top() - l) % 2 ? spare : grad;
      hid.push_back(reverse ? Planes<S>(jets * problem.columns(l), workspace) : in_turn);
      pre.push_back(reverse ? Planes<S>(l ? jets * width : 0, workspace) : spare);
      up.emplace_back(GemmShape{jets, width, below}, workspace);
      if (!reverse) continue;
      down.emplace_back(GemmShape{jets, below, width}, workspace);
      to_layers.emplace_back(GemmShape{below, width, jets}, workspace);
    }
  }

  void load(const EdgeSlice& slice) const {
    const int64_t jets = slice.n * problem.channels();
    launch_threads(jets * problem.columns(0), stream, jets_seed<R, S>, problem.jet, slice,
                   problem.positions(), hid[0]);
    for (int64_t l = 1; l <= top(); ++l) {
      const int64_t width = problem.width(l), below = problem.columns(l - 1);
      const auto x = hid[l - 1].rows(below);
      if (fused()) {
        const Operand<R> layer = problem.layer(l);
        R* const to_pre = reverses ? pre[l].v : nullptr;
        with_precision<R>([&](auto rounded) {
          start_layer<decltype(rounded)::value>(problem.jet, problem.activation, slice.n, x, below,
                                                layer, width, to_pre, hid[l].v, stream);
        });
        continue;
      }
      gemm_planes(up[l], {jets, width, below}, x, problem.layer(l), pre[l], stream);
      launch_threads(slice.n * (width + 1), stream, jets_activate<R, S>, problem.jet,
                     problem.activation, slice.n, width + 1, pre[l], hid[l]);
    }
  }

  // Jets of w_e [hid_e; 1], of columns(top) features.
  Planes<S> features(const EdgeSlice& slice) const {
    if (!problem.weight) return hid[top()];
    const int64_t width = problem.columns(top());
    launch_threads(slice.n * width, stream, jets_weigh<R, S>, problem.jet, slice, problem.weights(),
                   width, hid[top()], spare);
    return spare;
  }

  // Gradients of layers, after all slices
  void finish(R* layers) const {
    for (int64_t l = 1; l <= top(); ++l) to_layers[l].finish(layers + problem.start(l), stream);
  }
  // Go from `grad` to the gradients to weights, layers and c_e [n, width(0)], as wanted.
  void reverse(const EdgeSlice& slice, R* weight, R* weight_derivatives, bool layers, R* coords) {
    const int64_t jets = slice.n * problem.channels();
    int64_t pitch = problem.columns(top());
    if (weight || weight_derivatives)
      launch_threads(jets * warp_lanes, stream, jets_weight_gradients<R, S>, problem.jet, slice,
                     pitch, hid[top()], grad, weight, weight_derivatives);
    if (!layers && !coords) return;
    if (problem.weight) {
      launch_threads(slice.n * pitch, stream, jets_weigh_reverse<R, S>, problem.jet, slice,
                     problem.weights(), pitch, grad, spare);
      std::swap(grad, spare);
    }
    for (int64_t l = top(); l >= 1; --l) {
      const int64_t width = problem.width(l), below = problem.width(l - 1);
      launch_threads(slice.n * width, stream, jets_activate_reverse<R, S>, problem.jet,
                     problem.activation, slice.n, width, pre[l], pitch, grad);
      const auto x = hid[l - 1].rows(below + 1).transposed();
      if (layers) to_layers[l].add(dual, jets, x, grad.rows(pitch), stream);
      const auto back = problem.layer(l).transposed();
      if (l > 1) {
        gemm_planes(down[l], {jets, below, width}, grad.rows(pitch), back, spare, stream);
        std::swap(grad, spare);
        pitch = below;
      } else if (coords) {
        // all other channels of c_e are constants
        const auto first = grad.rows(problem.channels() * pitch);
        down[l](dual, {slice.n, below, width}, first, back, coords, false, stream);
      }
    }
  }
};

}  // namespace gnograd

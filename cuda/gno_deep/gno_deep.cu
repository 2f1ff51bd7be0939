// SPDX-License-Identifier: MIT
// The graph neural operator with a kernel network of several layers,
//
//     out_i = s_i sum over e = (j -> i) of w_e k_e h_j,     s_i = 1 or 1/degree
//
// where k_e is what the layers make of edge e (edge_network/edge_layers.cuh). With the cotangent g,
//
//     p_e = s_i h_j g_i:   d_k_e = w_e p_e,   d_w_e = k_e . p_e,   d_h_j = sum_e s_i w_e k_e g_i
//
// summed over the functions of a batch in p_e. k_e and its gradient are there for one chunk of
// edges at a time; messages are formed where they are added up.
#include "device/call.cuh"
#include "edge_network/edge_layers.cuh"

namespace gnograd {
namespace {

// Factors of the edges of a chunk. Columns count those of all functions, side by side.
template <class R, class S>
struct DeepEdges {
  EdgeChunk chunk;
  int64_t width, all;  // features of the kernel; of all functions
  Input<R, S> h;       // [n_src, all], or null: ones
  Input<R, S> weight;  // [n_edges], or null: 1
  const int64_t* degrees;
  Planes<S> kernel;  // [n, width]

  __device__ R scale(int64_t q) const { return scale_of<R>(degrees, chunk.dst(q)); }
  // s_i w_e
  __device__ S coefficient(int64_t q) const {
    return weight ? scale(q) * weight[chunk.edge(q)] : S(scale(q));
  }
  // Factors of an edge, by columns
  __device__ auto factors(int64_t q) const {
    return [row = kernel + q * width, width = int(width)](int column) {
      return row[column % width];
    };
  }
  __device__ auto features(int64_t q) const {
    return [row = h ? h + chunk.src(q) * all : h](int column) {
      return row ? row[column] : S(R(1));
    };
  }
};

// s_i w_e k_e h_j. An edge moves its row of k and of h.
template <class R, class S>
struct DeepMessages {
  DeepEdges<R, S> edges;
  __device__ auto edge(int64_t q) const {
    return [coefficient = edges.coefficient(q), factors = edges.factors(q),
            features = edges.features(q)](int column) {
      return coefficient * (factors(column) * features(column));
    };
  }
};

// s_i w_e k_e g_i
template <class R, class S>
struct DeepMessagesBack {
  DeepEdges<R, S> edges;
  const R* g;  // [n_dst, all]
  __device__ auto edge(int64_t q) const {
    return [coefficient = edges.coefficient(q), factors = edges.factors(q),
            row = g + edges.chunk.dst(q) * edges.all](int column) {
      return coefficient * factors(column) * row[column];
    };
  }
};

// d_k [n, width] = w_e p_e. Thread: an entry; reads h_j and g_i of all functions, in part from
// caches; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    deep_kernel_gradient(DeepEdges<R, S> edges, const R* __restrict__ g, Planes<S> grad) {
  const auto [q, column] = divided(thread_number(), int(edges.width));
  if (q >= edges.chunk.n) return;
  S sum = R(0);
  if (edges.chunk.has(q)) {
    const auto features = edges.features(q);
    const R* const row = g + edges.chunk.dst(q) * edges.all;
    for (int c = column; c < edges.all; c += int(edges.width)) sum += features(c) * row[c];
    sum = edges.coefficient(q) * sum;
  }
  grad.set(thread_number(), sum);
}

// d_w = k_e . p_e. Warp: an edge, lanes over columns; reads k_e, h_j and g_i; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    deep_weight_gradient(DeepEdges<R, S> edges, const R* __restrict__ g,
                         R* __restrict__ grad_weight) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number;
  if (q >= edges.chunk.n || !edges.chunk.has(q)) return;
  S sum = R(0);
  const auto factors = edges.factors(q);
  const auto features = edges.features(q);
  const R* const row = g + edges.chunk.dst(q) * edges.all;
  for (int c = warp.lane; c < edges.all; c += warp_lanes)
    sum += factors(c) * features(c) * row[c];
  sum = group_sum(edges.scale(q) * sum, warp);
  if (warp.lane == 0) grad_weight[edges.chunk.edge(q)] = result(sum);
}

template <class T>
struct GnoDeep : GnoDeepRecords {
  template <class S>
  EdgeLayers<T, S> network(const Inputs<T, S>& in) const {
    return {*graph,
            n_layers,
            widths,
            activation,
            {in.y, d_y, 0},
            {in.x, d_x, d_y},
            {in.c, d_c, d_y + d_x},
            in.layers};
  }
  template <class S>
  bool valid(const EdgeLayers<T, S>& layers) const {
    return layers.valid() && n_functions >= 0 && n_in == layers.inputs(1) &&
           (reduction == reduce_sum || reduction == reduce_mean);
  }
  // Columns of all functions
  int64_t all() const { return std::max<int64_t>(n_functions, 1) * widths[n_layers - 1]; }

  template <class S>
  DeepEdges<T, S> edges(const EdgeChunk& chunk, const Inputs<T, S>& in,
                        const Planes<S>& kernel) const {
    return {chunk, widths[n_layers - 1], all(),
            in.h,  in.edge_weight,       reduction == reduce_mean ? graph->by_dst.offsets : nullptr,
            kernel};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    const auto layers = network(in);
    if (!valid(layers)) return GNOGRAD_CUDA_VALUE;
    const EdgeChunks<T, S> chunks(layers, all(), false, call.workspace, call.stream);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    set_zero(out.out, graph->n_dst * all(), call.stream);
    chunks.each([&](const EdgeChunk& chunk) {
      chunks.add({chunk, false}, all(), DeepMessages<T, S>{edges(chunk, in, chunks.output())},
                 out.out);
    });
    return cudaGetLastError();
  }

  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    const auto layers = network(in);
    if (!valid(layers)) return GNOGRAD_CUDA_VALUE;
    EdgeChunks<T, S> chunks(layers, all(), true, call.workspace, call.stream);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const cudaStream_t stream = call.stream;
    const EdgeLayersGradients<T> wanted{grad.y, grad.x, grad.c, grad.layers};
    if (grad.h) set_zero(grad.h, graph->n_src * all(), stream);
    clear_room(*graph, grad.c, d_c, stream);
    clear_room(*graph, grad.edge_weight, 1, stream);
    chunks.start_reverse();
    chunks.each([&](const EdgeChunk& chunk) {
      const auto e = edges(chunk, in, chunks.output());
      if (grad.edge_weight)
        launch_threads(chunk.n * warp_lanes, stream, deep_weight_gradient<T, S>, e, g.out,
                       grad.edge_weight);
      if (grad.h) chunks.add({chunk, true}, all(), DeepMessagesBack<T, S>{e, g.out}, grad.h);
      if (!wanted.any()) return;
      launch_threads(chunk.n * e.width, stream, deep_kernel_gradient<T, S>, e, g.out, chunks.grad);
      chunks.reverse(chunk, wanted, [&](const EdgeRows<T>& of_c) {
        launch_columns(chunk.n, d_c, stream, edges_scatter<EdgeRows<T>, T>, chunk, d_c, of_c,
                       grad.c);
      });
    });
    chunks.finish_reverse(wanted);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_deep_entries.cuh"

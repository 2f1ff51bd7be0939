// SPDX-License-Identifier: MIT
// A network on the edges p = (j -> i), and the sum of what it gives at their destinations:
//
//     m_p = layers of [e_p, x_src_j, x_dst_i]  (edge_network/edge_layers.cuh)
//     edges_p = (e_p +) (normalised) m_p,   nodes_i = sum or mean of w_p edges_p
//
// The way from m to the results, and back from their cotangents, is in edge_messages.cuh. Hidden
// features and, where they are not asked for, edges are there for one chunk of edges at a time.
#include "device/call.cuh"
#include "edge_messages.cuh"

namespace gnograd {
namespace {

enum Results { both_results, edges_only, nodes_only };

template <class T>
struct EdgeMlp : EdgeMlpRecords {
  template <class S>
  EdgeLayers<T, S> network(const Inputs<T, S>& in) const {
    return {*graph,
            n_layers,
            widths,
            activation,
            {in.x_src, f_s, f_e},
            {in.x_dst, f_d, f_e + f_s},
            {in.e, f_e, 0},
            in.weights};
  }
  template <class S>
  bool valid(const EdgeLayers<T, S>& layers) const {
    return layers.valid() && n_in == layers.inputs(1) && (!residual || f_e == width()) &&
           (reduction == reduce_sum || reduction == reduce_mean) && outputs >= both_results &&
           outputs <= nodes_only;
  }
  int64_t width() const { return widths[n_layers - 1]; }
  bool mean() const { return reduction == reduce_mean && outputs != edges_only; }

  // Memory for messages that all chunks share.
  template <class S>
  struct Room {
    Planes<S> moments, scale;

    Room(const EdgeMlp& op, int64_t length, Workspace& workspace)
        : moments(op.layer_norm ? 2 * length : 0, workspace),
          scale(op.mean() ? op.graph->n_dst : 0, workspace) {
      if (!op.layer_norm) moments = {};
      if (!op.mean()) scale = {};
    }
  };
  template <class S>
  void start(const Room<S>& room, const Inputs<T, S>& in, Call& call) const {
    if (mean())
      launch_threads(graph->n_dst * warp_lanes, call.stream, message_scales<T, S>, by_dst(*graph),
                     in.edge_weight, room.scale);
  }
  template <class S>
  EdgeMessages<T, S> messages(const EdgeLayers<T, S>& layers, const EdgeChunk& chunk,
                              const Planes<S>& m, const Room<S>& room, const Inputs<T, S>& in,
                              const Cotangents<T>& g, Call& call) const {
    if (layer_norm)
      launch_threads(chunk.n * warp_lanes, call.stream, message_moments<T, S>, chunk.n, width(), m,
                     room.moments);
    const Input<T, S> behind = layers.packed + layers.start(n_layers + 1);
    return {chunk,
            width(),
            m,
            room.moments,
            behind,
            behind + width(),
            residual ? layers.edge.x : Input<T, S>{},
            in.edge_weight,
            room.scale,
            g.edges,
            g.nodes};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    const auto layers = network(in);
    if (!valid(layers)) return GNOGRAD_CUDA_VALUE;
    const EdgeChunks<T, S> chunks(layers, 0, false, call.workspace, call.stream);
    const Room<S> room(*this, chunks.most(), call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    clear_room(*graph, out.edges, width(), call.stream);
    if (out.nodes) set_zero(out.nodes, graph->n_dst * width(), call.stream);
    start(room, in, call);
    chunks.each([&](const EdgeChunk& chunk) {
      const auto made = messages(layers, chunk, chunks.output(), room, in, {}, call);
      if (out.edges)
        launch_columns(chunk.n, width(), call.stream, edges_scatter<EdgeMessages<T, S>, T>, chunk,
                       width(), made, out.edges);
      if (out.nodes) chunks.add({chunk, false}, width(), WeightedMessages<T, S>{made}, out.nodes);
    });
    return cudaGetLastError();
  }

  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    const auto layers = network(in);
    if (!valid(layers)) return GNOGRAD_CUDA_VALUE;
    EdgeChunks<T, S> chunks(layers, 0, true, call.workspace, call.stream);
    const Room<S> room(*this, chunks.most(), call.workspace);
    SumOfSlices<S> to_behind(layer_norm ? chunks.most() : 0, 2 * width(), call.workspace);
    Planes<S> along(mean() ? graph->n_edges : 0, call.workspace);
    if (!mean()) along = {};
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const cudaStream_t stream = call.stream;
    const EdgeLayersGradients<T> wanted{grad.x_src, grad.x_dst, grad.e, grad.weights};
    T* behind = layer_norm && grad.weights ? grad.weights + layers.start(n_layers + 1) : nullptr;
    if (grad.edge_weight) set_zero(grad.edge_weight, graph->n_edges, stream);
    clear_room(*graph, grad.e, f_e, stream);
    start(room, in, call);
    chunks.start_reverse();
    chunks.each([&](const EdgeChunk& chunk) {
      const auto made = messages(layers, chunk, chunks.output(), room, in, g, call);
      if (grad.edge_weight && g.nodes)
        launch_threads(chunk.n * warp_lanes, stream, message_weights<T, S>, made, along,
                       grad.edge_weight);
      if (behind)
        to_behind.add(chunk.n, [&](S* sums, bool added) {
          launch_threads(ceil_div(chunk.n, folded) * width(), stream, message_norm_gradients<T, S>,
                         made, sums, added);
        });
      if (!wanted.any()) return;
      launch_threads(chunk.n * warp_lanes, stream, message_reverse<T, S>, made, chunks.grad);
      chunks.reverse(chunk, wanted, [&](const EdgeRows<T>& by_layer) {
        launch_columns(chunk.n, f_e, stream, edges_scatter<EdgeGradients<T, S>, T>, chunk, f_e,
                       EdgeGradients<T, S>{made, by_layer}, grad.e);
      });
    });
    chunks.finish_reverse(wanted);
    if (behind) to_behind.finish(behind, stream);
    if (grad.edge_weight && g.nodes && mean())
      launch_threads(graph->n_dst * warp_lanes, stream, message_mean_weights<T, S>, by_dst(*graph),
                     in.edge_weight, room.scale, along, grad.edge_weight);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "edge_mlp_entries.cuh"

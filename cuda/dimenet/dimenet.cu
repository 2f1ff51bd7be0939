// SPDX-License-Identifier: MIT
// agg_edge_to_edge of DimeNet++: messages between edges that share a node (triplet_tile.cuh).
#include "device/call.cuh"
#include "triplet_forward.cuh"
#include "triplet_gradients.cuh"

namespace gnograd {
namespace {

template <class Tile>
int slots_that_fit(const TripletSizes& s) {
  int slots = incoming_slots;
  while (slots > 1 && Tile::bytes(s, slots) > most_shared) slots /= 2;
  return slots;
}

// Pieces of work, few enough for the gradients to the weights of all to be small.
inline int count_pieces(const gnograd_cuda_graph& graph, const TripletSizes& s) {
  const int64_t most = std::min<int64_t>(1024, std::max(32, (1 << 20) / s.n_weights()));
  return int(std::min(first_unit(graph.n_edges, graph.n_dst, incoming_of_unit), most));
}

template <class T>
struct AggEdgeToEdge : AggEdgeToEdgeRecords {
  bool valid() const {
    const auto within = [](int64_t n, int most) { return n >= 1 && n <= most; };
    return within(n_spherical, max_spherical) && within(n_radial, max_radial) &&
           within(n_mid, max_mid) && within(n_emb, max_emb) && exclude >= reverse_edge &&
           exclude <= none && graph->n_src == graph->n_dst;
  }
  TripletSizes sizes() const {
    return {int(n_spherical), int(n_radial), int(n_mid), int(n_emb), exclude};
  }
  template <class S>
  TripletProblem<T, S> problem(const Inputs<T, S>& in, int slots) const {
    return {
        by_dst(*graph), by_src(*graph), sizes(),      slots,     real<T>(sqrt(storage_epsilon<T>)),
        in.vector,      in.rbf,         in.embedding, in.weights};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const int slots = slots_that_fit<TripletForwardTile<T, S>>(sizes());
    const int64_t units = first_unit(graph->n_edges, graph->n_src, outgoing_slots);
    clear_room(*graph, out.out, n_emb, call.stream);
    if (graph->n_edges)
      launch(agg_edge_to_edge_forward<T, S>, grid_of(units, ceil_div(n_emb, tile_features<S>)),
             dim3(block_threads), TripletForwardTile<T, S>::bytes(sizes(), slots), call.stream,
             problem(in, slots), out.out);
    return cudaGetLastError();
  }

  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& wanted,
              Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    Workspace& workspace = call.workspace;
    const TripletSizes s = sizes();
    const int slots = slots_that_fit<TripletGradientTile<T, S>>(s);
    const int pieces = count_pieces(*graph, s);
    const int64_t n_turns = 3 * graph->n_edges;
    TripletGradients<T, S> grad{wanted.vector, wanted.rbf, wanted.embedding, wanted.weights,
                                nullptr,       nullptr,    nullptr};
    grad.turn_in = workspace.take<S>(n_turns);
    grad.turn_out = workspace.take<S>(n_turns);
    grad.parts = workspace.take<S>(int64_t(pieces) * s.n_weights());
    const FoldSpace<S> folds(pieces, s.n_weights(), workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const auto p = problem(in, slots);
    clear_room(*graph, grad.vector, 3, call.stream);
    clear_room(*graph, grad.rbf, s.n_first(), call.stream);
    clear_room(*graph, grad.x, n_emb, call.stream);
    if (graph->n_edges) {
      if (grad.vector) set_zero(grad.turn_out, n_turns, call.stream);
      launch(agg_edge_to_edge_gradients<T, S>, grid_of(pieces), dim3(block_threads),
             TripletGradientTile<T, S>::bytes(s, slots), call.stream, p, g.out, grad);
      if (grad.vector && graph->n_edges > incoming_of_unit)
        launch(agg_edge_to_edge_turns<T, S>,
               grid_of(first_unit(graph->n_edges, graph->n_src, outgoing_slots)),
               dim3(block_threads), TripletGradientTile<T, S>::bytes(s, slots), call.stream, p,
               g.out, grad.turn_out);
      if (grad.vector)
        launch_threads(graph->n_edges, call.stream, agg_edge_to_edge_vector_gradient<T, S>, p,
                       grad);
    }
    if (grad.weights)
      sum_rows(PlainMatrix<S>{grad.parts, s.n_weights()}, graph->n_edges ? pieces : 0,
               s.n_weights(), folds, grad.weights, call.stream);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "dimenet_entries.cuh"

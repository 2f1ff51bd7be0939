// SPDX-License-Identifier: MIT
// The four faces of attention over a graph, for any model of attention.cuh, on the host's side.
#pragma once
#include <array>

#include "attention.cuh"
#include "device/call.cuh"
#include "device/score_activation.cuh"

namespace gnograd {

struct GraphAttentionSizes {
  int64_t heads, size, edge_size;  // edge_size: features of a head of e, mha_gat only
  bool concat;
  int activation;
  double parameter;  // parameter of the activation; for mha_simple factor of the scores
  double p;          // probability of dropout
  const int64_t* seed;

  bool valid() const {
    return heads > 0 && size >= 0 && edge_size >= 0 && activation >= 0 &&
           activation < n_score_activations && p >= 0 && p <= 1 && (p == 0 || seed);
  }
};

// One call: its arrays in the operator's order (x_src, x_dst, a, e or q, k, v, e).
template <class T, class S>
struct GraphAttentionProblem {
  const gnograd_cuda_graph& graph;
  GraphAttentionSizes sizes;
  Input<T, S> in[4];
  Workspace& workspace;
  cudaStream_t stream;
  // for forward
  T* out = nullptr;
  real<T>* lse = nullptr;             // [n_dst, heads], or null
  real<T>* softmax_scores = nullptr;  // [2, heads, n_edges], or null
  T* activated = nullptr;             // [n_edges, heads, size], or null; mha_gat_v2
  // for the gradients
  const T* g = nullptr;
  const T* saved = nullptr;            // forward's `activated`, or null
  const T* saved_out = nullptr;        // forward's `out`, or null
  const real<T>* saved_lse = nullptr;  // forward's `lse`, or null
  T* grad[4] = {};                     // each or null

  bool arrays_aligned(int64_t size) const {
    bool all = aligned<T>(size, out, g, activated, saved, saved_out);
    for (int i = 0; i < 4; ++i) all = all && aligned<T>(size, in[i].v, in[i].d, grad[i]);
    return all;
  }
  Heads heads() const { return make_heads<T>(sizes.heads, sizes.size, arrays_aligned(sizes.size)); }
  Dropout dropout() const { return make_dropout(sizes.p, sizes.seed); }
  ScoreActivation<real<T>> activation() const {
    return make_score_activation(sizes.activation, real<T>(sizes.parameter));
  }
};

// Setup of an operator: it has its model, made of a problem; takes the workspace that this needs;
// and says by_destination() and by_source() which passes its gradients want. The other steps do
// nothing unless it redefines them.
template <class T, class S>
struct AttentionSetup {
  using Problem = GraphAttentionProblem<T, S>;
  void prepare(const Problem&) const {}                       // precompute node terms
  void save(const Problem&, const Csc&, const Cut&) const {}  // write what forward saves
  void after(const Problem&, const Csc&, const Cut&) const {}  // passes behind those by both ends
  void sum_weights(const Problem&, int64_t) const {}           // gradients of weights, of all units
};

// out[n, c] = mean over h of x[n, h, c]. Thread: an entry of out; reads `heads` numbers, neighbours
// neighbouring ones; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    attention_mean_over_heads(const real<T>* x, int64_t n_rows, int heads, int size,
                              T* __restrict__ out) {
  const auto [row, c] = divided(thread_number(), size);
  if (row >= n_rows) return;
  real<T> sum = 0;
  for (int h = 0; h < heads; ++h) sum += x[(row * heads + h) * size + c];
  out[thread_number()] = T(sum / heads);
}

// The passes of a model's gradients, of attention.cuh unless it has its own.
template <class M>
struct GradientPassesOf {
  using ByDestination = AttentionByDestination<M>;
  using BySource = AttentionBySource<M>;
  static constexpr bool source_first = false;
};

template <template <class, class> class Setup, class T, class S>
int attention_forward(const GraphAttentionProblem<T, S>& problem) {
  using M = decltype(Setup<T, S>::model);
  if (!problem.sizes.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = problem.heads();
  const Csc rows = by_dst(problem.graph);
  Workspace& workspace = problem.workspace;
  const int64_t n_softmax = rows.n_rows * heads.heads;

  const Cut cut = take_cut(rows, workspace);
  const Setup<T, S> setup(problem, false, cut.n_units);
  char* split = workspace.take<char>(split_bytes<AttentionForward<M>>(cut, heads, heads.tiles));
  auto* softmax = workspace.take<SoftmaxRow<S>>(n_softmax);
  auto* head_out = workspace.take<real<T>>(problem.sizes.concat ? 0 : n_softmax * heads.size);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, problem.stream);
  setup.prepare(problem);
  for_rows(AttentionForward<M>{rows, heads, setup.model, problem.dropout(), problem.out,
                               problem.sizes.concat ? nullptr : head_out, problem.lse,
                               problem.softmax_scores ? softmax : nullptr},
           cut, split, problem.stream);
  if (!problem.sizes.concat)
    launch_threads(rows.n_rows * heads.size, problem.stream, attention_mean_over_heads<T>, head_out,
                   rows.n_rows, heads.heads, heads.size, problem.out);
  if constexpr (!ScalarTraits<S>::dual) {  // a jvp saves nothing
    clear_room(problem.graph, problem.softmax_scores, 2 * heads.heads, problem.stream);
    clear_room(problem.graph, problem.activated, heads.row(), problem.stream);
    if (problem.softmax_scores)
      for_rows(AttentionWriteSoftmax<M>{rows, heads, setup.model, softmax, problem.softmax_scores},
               cut, nullptr, problem.stream);
    setup.save(problem, rows, cut);
  }
  return cudaGetLastError();
}

template <template <class, class> class Setup, class T, class S>
int attention_gradients(const GraphAttentionProblem<T, S>& problem) {
  using M = decltype(Setup<T, S>::model);
  using Passes = GradientPassesOf<M>;
  if (!problem.sizes.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = problem.heads();
  const Csc rows = by_dst(problem.graph), columns = by_src(problem.graph);
  Workspace& workspace = problem.workspace;

  const Cut cut = take_cut(rows, workspace), transposed = take_cut(columns, workspace);
  const Setup<T, S> setup(problem, true, cut.n_units);
  char* split = workspace.take<char>(std::max(
      {split_bytes<AttentionStatistics<M>>(cut, heads, 1),
       split_bytes<typename Passes::ByDestination>(cut, heads, heads.tiles),
       split_bytes<typename Passes::BySource>(transposed, heads, heads.tiles)}));
  auto* softmax = workspace.take<SoftmaxRow<S>>(rows.n_rows * heads.heads);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, problem.stream);
  cut_rows(columns, transposed, problem.stream);
  setup.prepare(problem);
  const Heads& edge_heads = setup.model.edge_heads();
  clear_room(problem.graph, problem.grad[3], edge_heads.row(), problem.stream);
  const HeadCotangent<T> g{problem.g, heads, problem.sizes.concat};
  const ScoreGradients<M> gradients{heads, problem.dropout(), g, softmax};
  // In 16 bits out is not what it was, and of a mean over heads theirs are not known.
  bool saved = false;
  if constexpr (!ScalarTraits<S>::dual && sizeof(T) >= sizeof(float))
    saved = problem.saved_out && problem.saved_lse && problem.sizes.concat;
  if (saved)
    launch_threads(rows.n_rows * heads.heads * heads.lanes, problem.stream,
                   attention_saved_statistics<T, S>, heads, rows.n_rows, problem.g,
                   problem.saved_out, problem.saved_lse, softmax);
  else
    for_rows(AttentionStatistics<M>{rows, heads, setup.model, problem.dropout(), g, softmax}, cut,
             split, problem.stream);
  for (const bool sources : {Passes::source_first, !Passes::source_first}) {
    if (sources && setup.by_source())
      for_rows(typename Passes::BySource{columns, heads, setup.model, gradients}, transposed, split,
               problem.stream);
    if (!sources && setup.by_destination())
      for_rows(typename Passes::ByDestination{rows, heads, setup.model, gradients}, cut, split,
               problem.stream);
  }
  setup.after(problem, rows, cut);
  setup.sum_weights(problem, cut.n_units);
  return cudaGetLastError();
}

// ---- both directions, on the records of an operator ----

template <template <class, class> class Setup, class T, class S, class Outputs>
int attention_evaluate(GraphAttentionProblem<T, S> problem, const Outputs& out) {
  problem.out = out.out;
  problem.lse = out.lse;
  problem.softmax_scores = out.softmax_scores;
  return attention_forward<Setup>(problem);
}

// Gradients are four arrays. Saved softmax_scores are not read: it costs less to compute scores.
template <template <class, class> class Setup, class T, class S, class Cotangents, class Saved,
          class Gradients>
int attention_reverse(GraphAttentionProblem<T, S> problem, const Cotangents& g, const Saved& saved,
                      const Gradients& grad) {
  problem.g = g.out;
  problem.saved_out = saved.out;
  problem.saved_lse = saved.lse;
  const auto& [first, second, third, fourth] = grad;
  const std::array<T*, 4> gradients{first, second, third, fourth};
  std::copy(gradients.begin(), gradients.end(), problem.grad);
  return attention_gradients<Setup>(problem);
}

}  // namespace gnograd

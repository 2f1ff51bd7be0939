// SPDX-License-Identifier: MIT
// The four faces of attention over a graph, for any model of attention.cuh, on the host's side.
#pragma once
#include "attention.cuh"
#include "device/face.cuh"
#include "device/score_activation.cuh"

namespace gnograd {

struct AttentionShape {
  int64_t heads, size, edge_size;  // edge_size: features of a head of e, mha_gat only
  bool concat;
  int activation;
  double parameter;  // of the activation; of mha_simple the factor of the scores

  bool valid() const {
    return heads > 0 && size >= 0 && edge_size >= 0 && activation >= 0 &&
           activation < n_score_activations;
  }
};

// One call: its arrays in the operator's order (x_src, x_dst, a, e or q, k, v, e).
template <class T, class S>
struct AttentionCall {
  const gnograd_cuda_graph& graph;
  AttentionShape shape;
  Input<T, S> in[4];
  Workspace& workspace;
  cudaStream_t stream;
  // of forward
  T* out = nullptr;
  real<T>* lse = nullptr;             // [n_dst, heads], or null
  real<T>* softmax_scores = nullptr;  // [2, heads, n_edges], or null
  T* activated = nullptr;             // [n_edges, heads, size], or null; mha_gat_v2
  // of the gradients
  const T* g = nullptr;
  const T* saved = nullptr;  // what forward wrote to `activated`, or null
  T* grad[4] = {};           // each or null

  bool arrays_aligned(int64_t size) const {
    bool all = aligned<T>(size, out, g, activated, saved);
    for (int i = 0; i < 4; ++i) all = all && aligned<T>(size, in[i].v, in[i].d, grad[i]);
    return all;
  }
  Heads heads() const { return make_heads<T>(shape.heads, shape.size, arrays_aligned(shape.size)); }
  ScoreActivation<real<T>> activation() const {
    return make_score_activation(shape.activation, real<T>(shape.parameter));
  }
};

// An operator's Setup has its model, made of a call; takes the workspace that this needs; and says
// by_destination() and by_source() which passes its gradients want. What there is to do besides is
// nothing, unless it says otherwise.
template <class T, class S>
struct AttentionSetup {
  using Call = AttentionCall<T, S>;
  void prepare(const Call&) const {}                       // what its formulas need, once a node
  void save(const Call&, const Csc&, const Cut&) const {}  // what forward saves
  void sum_weights(const Call&, int64_t) const {}          // gradients of weights, of all units
};

// out[n, c] = mean over h of x[n, h, c]
template <class T>
__global__ void __launch_bounds__(block_threads)
    mean_over_heads(const real<T>* x, int64_t n_rows, int heads, int size, T* out) {
  const int64_t row = thread_number() / size, c = thread_number() % size;
  if (row >= n_rows) return;
  real<T> sum = 0;
  for (int h = 0; h < heads; ++h) sum += x[(row * heads + h) * size + c];
  out[thread_number()] = T(sum / heads);
}

template <template <class, class> class Setup, class T, class S>
int attend(AttentionCall<T, S> call) {
  using M = decltype(Setup<T, S>::model);
  if (!call.shape.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = call.heads();
  const Csc rows = by_dst(call.graph);
  Workspace& workspace = call.workspace;
  const int64_t n_softmax = rows.n_rows * heads.heads;

  const Cut cut = take_cut(rows, workspace);
  const Setup<T, S> setup(call, false, cut.n_units);
  char* split = workspace.take<char>(split_bytes<AttendEdges<M>>(cut, heads, heads.tiles));
  auto* softmax = workspace.take<SoftmaxRow<S>>(n_softmax);
  auto* head_out = workspace.take<real<T>>(call.shape.concat ? 0 : n_softmax * heads.size);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, call.stream);
  setup.prepare(call);
  for_rows(
      AttendEdges<M>{rows, heads, setup.model, call.out, call.shape.concat ? nullptr : head_out,
                     call.lse, call.softmax_scores ? softmax : nullptr},
      cut, split, call.stream);
  if (!call.shape.concat)
    launch_threads(rows.n_rows * heads.size, call.stream, mean_over_heads<T>, head_out, rows.n_rows,
                   heads.heads, heads.size, call.out);
  if constexpr (!ScalarTraits<S>::dual) {  // a jvp saves nothing
    if (call.softmax_scores)
      for_rows(WriteSoftmax<M>{rows, heads, setup.model, softmax, call.softmax_scores}, cut,
               nullptr, call.stream);
    setup.save(call, rows, cut);
  }
  return cudaGetLastError();
}

template <template <class, class> class Setup, class T, class S>
int attention_gradients(AttentionCall<T, S> call) {
  using M = decltype(Setup<T, S>::model);
  if (!call.shape.valid()) return GNOGRAD_CUDA_VALUE;
  const Heads heads = call.heads();
  const Csc rows = by_dst(call.graph), columns = by_src(call.graph);
  Workspace& workspace = call.workspace;

  const Cut cut = take_cut(rows, workspace), transposed = take_cut(columns, workspace);
  const Setup<T, S> setup(call, true, cut.n_units);
  char* split = workspace.take<char>(
      std::max({split_bytes<SoftmaxStatistics<M>>(cut, heads, 1),
                split_bytes<ByDestination<M>>(cut, heads, setup.model.edge_heads().tiles),
                split_bytes<BySource<M>>(transposed, heads, heads.tiles)}));
  auto* softmax = workspace.take<SoftmaxRow<S>>(rows.n_rows * heads.heads);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  cut_rows(rows, cut, call.stream);
  cut_rows(columns, transposed, call.stream);
  setup.prepare(call);
  const Cotangent<T> g{call.g, heads, call.shape.concat};
  const ScoreGradients<M> gradients{heads, g, softmax};
  for_rows(SoftmaxStatistics<M>{rows, heads, setup.model, g, softmax}, cut, split, call.stream);
  if (setup.by_destination())
    for_rows(ByDestination<M>{rows, heads, setup.model, gradients}, cut, split, call.stream);
  if (setup.by_source())
    for_rows(BySource<M>{columns, heads, setup.model, gradients}, transposed, split, call.stream);
  setup.sum_weights(call, cut.n_units);
  return cudaGetLastError();
}

// ---- the four faces ----

struct AttentionArrays {
  const void* v[4] = {};
};

template <template <class, class> class Setup, class T>
struct AttentionFaces {
  using Arrays = AttentionArrays;
  const gnograd_cuda_graph* graph;
  AttentionShape shape;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  template <class S>
  AttentionCall<T, S> call(const Arrays& in, const Arrays& tangents = {}) {
    AttentionCall<T, S> c{*graph, shape, {}, workspace, stream};
    for (int i = 0; i < 4; ++i) c.in[i] = make_input<T, S>(in.v[i], tangents.v[i]);
    return c;
  }
  template <class S>
  int gradients(AttentionCall<T, S> c, const void* g, void* const (&grad)[4]) {
    c.g = static_cast<const T*>(g);
    for (int i = 0; i < 4; ++i) c.grad[i] = static_cast<T*>(grad[i]);
    return attention_gradients<Setup>(c);
  }

  int forward(const Arrays& in, void* out, void* lse, void* softmax_scores, void* activated) {
    auto c = call<real<T>>(in);
    c.activated = static_cast<T*>(activated);
    c.out = static_cast<T*>(out);
    c.lse = static_cast<real<T>*>(lse);
    c.softmax_scores = static_cast<real<T>*>(softmax_scores);
    return attend<Setup>(c);
  }
  int vjp(const void* g, const Arrays& in, const void* activated, void* const (&grad)[4]) {
    auto c = call<real<T>>(in);
    c.saved = static_cast<const T*>(activated);
    return gradients(c, g, grad);
  }
  int jvp(const Arrays& in, const Arrays& tangents, void* out) {
    auto c = call<Dual<real<T>>>(in, tangents);
    c.out = static_cast<T*>(out);
    return attend<Setup>(c);
  }
  int hvp(const void* g, const Arrays& in, const Arrays& tangents, void* const (&grad)[4]) {
    return gradients(call<Dual<real<T>>>(in, tangents), g, grad);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() {
    return forward({}, nullptr, nullptr, nullptr, nullptr), workspace.bytes();
  }
  size_t vjp_bytes() { return vjp(nullptr, {}, nullptr, {}), workspace.bytes(); }
  size_t jvp_bytes() { return jvp({}, {}, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, {}, {}, {}), workspace.bytes(); }
};

}  // namespace gnograd

// All faces of an operator with the inputs A, B, C and D. WRITTEN and READ are the parameters for
// what forward saves and vjp gets of it, the latter without names but for `activated`.
#define ATTENTION_FACES(name, type, SIZES, faces, WRITTEN, READ, activated, A, B, C, D)         \
  DEFINE_FACE(                                                                                  \
      name##_forward, type, SIZES, faces, forward_bytes,                                        \
      forward({{A, B, C, D}}, out, lse, softmax_scores, activated), const void* A,              \
      const void* B, const void* C, const void* D, void* out, GNOGRAD_CUDA_LIST WRITTEN)        \
  DEFINE_FACE(                                                                                  \
      name##_vjp, type, SIZES, faces, vjp_bytes,                                                \
      vjp(cotangent, {{A, B, C, D}}, activated, {grad_##A, grad_##B, grad_##C, grad_##D}),      \
      const void* cotangent, const void* A, const void* B, const void* C, const void* D,        \
      GNOGRAD_CUDA_LIST READ, void* grad_##A, void* grad_##B, void* grad_##C, void* grad_##D)   \
  DEFINE_FACE(                                                                                  \
      name##_jvp, type, SIZES, faces, jvp_bytes,                                                \
      jvp({{A, B, C, D}}, {{A##_tangent, B##_tangent, C##_tangent, D##_tangent}}, out_tangent), \
      const void* A, const void* B, const void* C, const void* D, const void* A##_tangent,      \
      const void* B##_tangent, const void* C##_tangent, const void* D##_tangent,                \
      void* out_tangent)                                                                        \
  DEFINE_FACE(                                                                                  \
      name##_hvp, type, SIZES, faces, hvp_bytes,                                                \
      hvp(cotangent, {{A, B, C, D}}, {{A##_tangent, B##_tangent, C##_tangent, D##_tangent}},    \
          {grad_##A##_tangent, grad_##B##_tangent, grad_##C##_tangent, grad_##D##_tangent}),    \
      const void* cotangent, const void* A, const void* B, const void* C, const void* D,        \
      const void* A##_tangent, const void* B##_tangent, const void* C##_tangent,                \
      const void* D##_tangent, void* grad_##A##_tangent, void* grad_##B##_tangent,              \
      void* grad_##C##_tangent, void* grad_##D##_tangent)

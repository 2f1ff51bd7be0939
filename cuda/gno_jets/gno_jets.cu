// SPDX-License-Identifier: MIT
// The graph neural operator with derivatives by the positions of the destinations.
//
//     out_i = s_i sum over e = (j -> i) of w_e h_j . kappa(c_e),     c_e = x_i - y_j or [x_i, y_j]
//
// together with its gradient and Laplacian (or Hessian) by x_i. Every edge carries the jet of its
// hidden features through the network (jets.cuh), and each channel of the jet is summed as the
// value is. With W = [V; b_v], f_e = [hid_e; 1] and channels c,
//
//     out_i^c = Z_i^c W,   Z_i^c = s_i sum_e (w_e f_e)^c (x) h_j
//
// and on the way back, by source, with the cotangents g_i^c,
//
//     P_j = sum_(e,c) (w_e f_e)^c (x) s_i g_i^c:   d_h_j = P_j W,   d_W = sum_j P_j (x) h_j
//     Q_j = h_j W:                                 d_(w_e f_e)^c = s_i Q_j g_i^c
//
// A diagonal kernel has kappa_e^c = (w_e f_e)^c W instead, one number a feature.
//
// The functions of a batch have their h, Z, g, P and Q; f, W and kappa are those of all.
//
// Edges go in slices. Rows whose edges lie in several slices, or segments of one, are added up in
// order.
#include "device/call.cuh"
#include "gno/gno_batch.cuh"
#include "gno/gno_network.cuh"
#include "jet_network.cuh"

namespace gnograd {
namespace {

// ---- sums with a diagonal kernel ----

// out[s, c, f] = sum over the edges of a segment of x_f kappa^c_f. Thread: an entry of out, edge by
// edge; reads kappa once, x once for every channel; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_diagonal_messages(Segments segments, int64_t n_batch, int64_t channels, int64_t width,
                           Planes<S> x, Planes<S> kappa, R* __restrict__ out) {
  const int i = thread_index(), all = int(n_batch * width), f = i % all, k = f % int(width);
  const int c = i / all % int(channels), s = i / all / int(channels);
  if (s >= *segments.count) return;
  const int64_t end = segments.place(s + 1);
  S sum = 0;
  for (int64_t q = segments.place(s); q < end; ++q)
    sum += x[q * all + f] * kappa[(q * channels + c) * width + k];
  out[i] = result(sum);
}

// out[s, f] = sum over the edges and channels of a segment of g^c_f kappa^c_f. Thread: an entry of
// out; reads g and kappa once; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_diagonal_messages_back(Segments segments, int64_t n_batch, int64_t channels, int64_t width,
                                const R* __restrict__ g, Planes<S> kappa, R* __restrict__ out) {
  const int i = thread_index(), all = int(n_batch * width), f = i % all, s = i / all;
  const int k = f % int(width);
  if (s >= *segments.count) return;
  const int64_t end = segments.place(s + 1) * channels;
  S sum = 0;
  for (int64_t p = segments.place(s) * channels; p < end; ++p)
    sum += g[p * all + f] * kappa[p * width + k];
  out[i] = result(sum);
}

// to_kappa[q, c, f] = g^c_f x_f, summed over functions. Thread: an entry; reads g, x once for every
// channel; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    jets_diagonal_kappa_gradient(int64_t n, int64_t n_batch, int64_t channels, int64_t width,
                                 const R* __restrict__ g, Planes<S> x, Planes<S> to_kappa) {
  const int i = thread_index(), all = int(n_batch * width), p = i / int(width);
  const int q = p / int(channels);
  if (q >= n) return;
  S sum = 0;
  for (int64_t f = i % int(width); f < all; f += width) sum += g[p * all + f] * x[q * all + f];
  to_kappa.set(i, sum);
}

// ---- slices ----

template <class R>
struct GnoJetsGradients {
  R *h, *x, *y, *layers, *v, *b_v, *edge_weight, *weight_derivatives;  // each or null: not wanted
};

// State of every slice, in both directions.
template <class R, class S>
struct JetSlices {
  const JetsProblem<R, S>& problem;
  Csc graph;
  bool reverse;
  cudaStream_t stream;
  int64_t length;
  int64_t n_slices;
  int32_t* rows;               // rows of all edges
  int64_t *before, *begin;     // segments before a place; where they begin
  int64_t* sums;               // sums of chunks, for `before`
  SegmentCounts* counts;       // counts of each slice
  Planes<S> layer, panels, x;  // W; sums or kappa; features
  JetNetwork<R, S> network;

  int64_t features() const { return problem.columns(problem.n_layers); }
  bool full() const { return problem.kernel == kernel_full; }
  // W for sums over neighbours of F_in features or, on the way back, of F_out; or a diagonal one
  LayerOrder order() const {
    if (!full()) return {1, problem.f_out, 0, 1};
    return reverse ? LayerOrder{problem.f_out, problem.f_in, 1, problem.f_out}
                   : LayerOrder{problem.f_in, problem.f_out, problem.f_out, 1};
  }
  // Numbers of an edge or, at most, a segment
  int64_t panel() const {
    if (!full()) return problem.channels() * problem.f_out;
    return features() * (reverse ? problem.all_out() : problem.channels() * problem.all_in());
  }
  // Edges of a slice at most: as many as have room for their arrays, but enough for a product
  int64_t longest() const {
    const int64_t numbers = JetNetwork<R, S>::numbers(problem, reverse) + panel() +
                            problem.all_in() + (problem.channels() + 1) * problem.all_out();
    const int64_t fit = int64_t(slice_bytes / sizeof(S)) / numbers;
    return std::max<int64_t>(1, std::min(graph.n_edges, std::clamp<int64_t>(fit, 32, 65536)));
  }

  JetSlices(const JetsProblem<R, S>& problem, bool reverse, Workspace& workspace,
            cudaStream_t stream)
      : problem(problem),
        graph(reverse ? by_src(problem.graph) : by_dst(problem.graph)),
        reverse(reverse),
        stream(stream),
        length(longest()),
        n_slices(ceil_div(graph.n_edges, length)),
        rows(workspace.take<int32_t>(graph.n_edges)),
        before(workspace.take<int64_t>(graph.n_edges + 1)),
        begin(workspace.take<int64_t>(graph.n_edges + 1)),
        sums(workspace.take<int64_t>(ceil_div(graph.n_edges, scan_chunk))),
        counts(workspace.take<SegmentCounts>(n_slices)),
        layer(order().kappa() * features(), workspace),
        panels(length * panel(), workspace),
        x(length * problem.all_in(), workspace),
        network(problem, length, reverse, workspace, stream) {}

  void pack_last_layer() const {
    pack_layer(order(), problem.n_hidden(), problem.v, problem.b_v, layer, stream);
  }
  // f(slice) for each, with its rows and segments found and its jets loaded
  template <class F>
  void each(F f) const {
    find_segments();
    for (int64_t first = 0; first < graph.n_edges; first += length) {
      const int64_t n = std::min(length, graph.n_edges - first);
      const EdgeSlice slice{graph, !reverse, first, n, rows + first};
      network.load(slice);
      f(slice);
    }
  }
  // Rows and segments of all slices
  void find_segments() const {
    const int64_t n = graph.n_edges;
    if (n == 0) return;
    launch_threads(n, stream, jets_mark_segments, graph, n, length, rows, before);
    exclusive_scan(before, n, before + n, sums, stream);
    launch_threads(n + 1, stream, jets_find_segments, n, before, begin);
    launch_threads(n_slices, stream, jets_count_segments, n, length, problem.n_batch,
                   problem.jet.channels(), before, counts);
  }
  SegmentCounts* of(const EdgeSlice& slice) const { return counts + slice.first / length; }
  Segments segments(const EdgeSlice& slice, int64_t rows_each) const {
    return {begin, &of(slice)->segments, &of(slice)->first, slice.first, slice.n, int(rows_each)};
  }
  template <class Target>
  void add(const EdgeSlice& slice, int64_t width, const R* of_segments, Target target) const {
    launch_threads(slice.n * width, stream, jets_add_segments<R, Target>, slice, segments(slice, 1),
                   width, of_segments, target);
  }
};

// ---- the sums of a slice: from its jets to `of_segments`, and back ----

template <class R, class S>
class JetsFullForward {
  const JetSlices<R, S>& all;
  const JetsProblem<R, S>& problem = all.problem;
  int64_t channels = problem.channels(), features = all.features();
  int64_t inner = problem.f_in * features;
  Gemm<R> to_outputs;

 public:
  JetsFullForward(const JetSlices<R, S>& all, Workspace& workspace)
      : all(all),
        to_outputs({all.length * problem.n_batch * channels, problem.f_out, inner}, workspace) {}

  void operator()(const EdgeSlice& slice, const Planes<S>& jets, R* of_segments) const {
    const Input<R, S> x{all.x.v, all.x.d};
    const int64_t all_in = problem.all_in(), n = slice.n * problem.n_batch * channels;
    launch_threads(slice.n * all_in, all.stream, jets_gather_sources<R, S>, slice, problem.h,
                   all_in, all.x);
    launch_segment_sums(all.segments(slice, 1), x, all_in, jets, channels * features, features,
                        all.panels, all.stream);
    to_outputs(ScalarTraits<S>::dual, {n, problem.f_out, inner, &all.of(slice)->times_channels},
               all.panels.rows(inner), all.layer.rows(problem.f_out), of_segments, false,
               all.stream);
  }
};

template <class R, class S>
class JetsFullReverse {
  const JetSlices<R, S>& all;
  const JetsProblem<R, S>& problem = all.problem;
  int64_t f_in = problem.f_in, f_out = problem.f_out, features = all.features();
  int64_t inner = f_out * features;
  Gemm<R> to_h, to_panels;

 public:
  GemmSum<R> to_layer;

  JetsFullReverse(const JetSlices<R, S>& all, Workspace& workspace)
      : all(all),
        to_h({all.length * problem.n_batch, f_in, inner}, workspace),
        to_panels({all.length * problem.n_batch, inner, f_in}, workspace),
        to_layer({inner, f_in, all.length * problem.n_batch}, workspace) {}

  // Gradients to h of segments, to W and to the jets, as wanted.
  void operator()(const EdgeSlice& slice, const R* g, R* of_segments, bool want_layer,
                  bool want_jets) {
    constexpr bool dual = ScalarTraits<S>::dual;
    const Planes<S>&panels = all.panels, &x = all.x;
    const Segments by_jet = all.segments(slice, problem.channels());
    const auto w = all.layer.rows(f_in);
    const int64_t n = slice.n * problem.n_batch, *count = &all.of(slice)->times_functions;
    launch_threads(slice.n * problem.all_in(), all.stream, jets_gather_rows<R, S>, slice,
                   all.segments(slice, 1), problem.h, problem.all_in(), x);
    if (of_segments || want_layer)
      launch_segment_sums(by_jet, Input<R, S>{g, nullptr}, problem.all_out(),
                          all.network.features(slice), features, features, panels, all.stream);
    if (of_segments)
      to_h(dual, {n, f_in, inner, count}, panels.rows(inner), w, of_segments, false, all.stream);
    if (want_layer)
      to_layer.add(dual, n, panels.rows(inner).transposed(), x.rows(f_in), all.stream, count);
    if (!want_jets) return;
    const GemmShape shape{n, inner, f_in, count};
    gemm_planes(to_panels, shape, x.rows(f_in), w.transposed(), panels, all.stream);
    launch_segment_products(by_jet, g, problem.all_out(), panels, features, all.network.grad,
                            all.stream);
  }
};

// kappa of every edge and channel
template <class R, class S>
void load_kappa(const JetSlices<R, S>& all, const EdgeSlice& slice, const Gemm<R>& to_kappa,
                const Planes<S>& jets) {
  const GemmShape shape{slice.n * all.problem.channels(), all.problem.f_out, all.features()};
  const auto a = jets.rows(all.features()), b = all.layer.rows(all.problem.f_out);
  gemm_planes(to_kappa, shape, a, b, all.panels, all.stream);
}

template <class R, class S>
class JetsDiagonalForward {
  const JetSlices<R, S>& all;
  const JetsProblem<R, S>& problem = all.problem;
  int64_t channels = problem.channels(), width = problem.f_out;
  Gemm<R> to_kappa;

 public:
  JetsDiagonalForward(const JetSlices<R, S>& all, Workspace& workspace)
      : all(all), to_kappa({all.length * channels, width, all.features()}, workspace) {}

  void operator()(const EdgeSlice& slice, const Planes<S>& jets, R* of_segments) const {
    const int64_t all_in = problem.all_in();
    launch_threads(slice.n * all_in, all.stream, jets_gather_sources<R, S>, slice, problem.h,
                   all_in, all.x);
    load_kappa(all, slice, to_kappa, jets);
    launch_threads(slice.n * channels * all_in, all.stream, jets_diagonal_messages<R, S>,
                   all.segments(slice, 1), problem.n_batch, channels, width, all.x, all.panels,
                   of_segments);
  }
};

template <class R, class S>
class JetsDiagonalReverse {
  const JetSlices<R, S>& all;
  const JetsProblem<R, S>& problem = all.problem;
  int64_t channels = problem.channels(), width = problem.f_out, features = all.features();
  Gemm<R> to_kappa, to_jets;

 public:
  GemmSum<R> to_layer;

  JetsDiagonalReverse(const JetSlices<R, S>& all, Workspace& workspace)
      : all(all),
        to_kappa({all.length * channels, width, features}, workspace),
        to_jets({all.length * channels, features, width}, workspace),
        to_layer({features, width, all.length * channels}, workspace) {}

  // Gradients to h of segments, to W and to the jets, as wanted.
  void operator()(const EdgeSlice& slice, const R* g, R* of_segments, bool want_layer,
                  bool want_jets) {
    const int64_t jets = slice.n * channels;
    const int64_t all_in = problem.all_in();
    const Planes<S> weighted = all.network.features(slice), &panels = all.panels;
    if (of_segments) {
      load_kappa(all, slice, to_kappa, weighted);
      launch_threads(slice.n * all_in, all.stream, jets_diagonal_messages_back<R, S>,
                     all.segments(slice, 1), problem.n_batch, channels, width, g, panels,
                     of_segments);
    }
    if (!want_layer && !want_jets) return;
    launch_threads(slice.n * all_in, all.stream, jets_gather_sources<R, S>, slice, problem.h,
                   all_in, all.x);
    launch_threads(jets * width, all.stream, jets_diagonal_kappa_gradient<R, S>, slice.n,
                   problem.n_batch, channels, width, g, all.x, panels);
    if (want_layer)
      to_layer.add(ScalarTraits<S>::dual, jets, weighted.rows(features).transposed(),
                   panels.rows(width), all.stream);
    if (!want_jets) return;
    const GemmShape shape{jets, features, width};
    const auto back = all.layer.rows(width).transposed();
    gemm_planes(to_jets, shape, panels.rows(width), back, all.network.grad, all.stream);
  }
};

// ---- all slices ----

template <template <class, class> class Forward, class R, class S>
int jets_forward(const JetsProblem<R, S>& problem, const JetArrays<R*>& outputs, Call& call) {
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  const JetSlices<R, S> slices(problem, false, workspace, stream);
  const int64_t width = problem.channels() * problem.all_out();
  R* of_segments = workspace.take<R>(slices.length * width);
  const Forward<R, S> sum(slices, workspace);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  const int64_t n = problem.graph.n_dst * problem.all_out();
  set_zero(outputs.out, n, stream);
  set_zero(outputs.gradient, n * problem.jet.d, stream);
  if (outputs.second) set_zero(outputs.second, n * problem.n_second(), stream);
  slices.pack_last_layer();
  slices.each([&](const EdgeSlice& slice) {
    sum(slice, slices.network.features(slice), of_segments);
    slices.add(slice, width, of_segments,
               AddToOutputs<R>{problem.jet, outputs, problem.all_out(), problem.degrees()});
  });
  return cudaGetLastError();
}

template <template <class, class> class Reverse, class R, class S>
int jets_gradients(const JetsProblem<R, S>& problem, const JetArrays<const R*>& cotangents,
                   const GnoJetsGradients<R>& grad, Call& call) {
  Workspace& workspace = call.workspace;
  const cudaStream_t stream = call.stream;
  JetSlices<R, S> slices(problem, true, workspace, stream);
  const int64_t f_in = problem.all_in(), f_out = problem.all_out(), channels = problem.channels();
  const int64_t seen = problem.width(0);
  R* g = workspace.take<R>(slices.length * channels * f_out);
  R* of_segments = workspace.take<R>(slices.length * f_in);
  R* of_coords = workspace.take<R>(slices.length * seen);
  R* of_edges = workspace.take<R>(problem.graph.n_edges * seen);
  Reverse<R, S> reverse(slices, workspace);
  if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

  const bool want_last = grad.v || grad.b_v, want_coords = grad.x || grad.y;
  const bool want_jets = want_coords || grad.layers || grad.edge_weight || grad.weight_derivatives;
  if (grad.h) set_zero(grad.h, problem.graph.n_src * f_in, stream);
  clear_room(problem.graph, grad.edge_weight, 1, stream);
  clear_room(problem.graph, grad.weight_derivatives, channels - 1, stream);
  slices.pack_last_layer();
  slices.each([&](const EdgeSlice& slice) {
    launch_threads(slice.n * channels * f_out, stream, jets_gather_cotangents<R>, problem.jet,
                   slice, cotangents, f_out, problem.degrees(), g);
    reverse(slice, g, grad.h ? of_segments : nullptr, want_last, want_jets);
    if (grad.h) slices.add(slice, f_in, of_segments, AddToRows<R>{grad.h, f_in});
    if (!want_jets) return;
    slices.network.reverse(slice, grad.edge_weight, grad.weight_derivatives, grad.layers != nullptr,
                           want_coords ? of_coords : nullptr);
    if (want_coords)
      launch_threads(slice.n * seen, stream, jets_scatter_edges<R>, slice, seen, of_coords,
                     of_edges);
  });

  if (want_last)
    unpack_layer(slices.order(), problem.n_hidden(), reverse.to_layer, grad.v, grad.b_v, stream);
  if (grad.layers) slices.network.finish(grad.layers);
  const auto sum = [&](const Csc& graph, int64_t shift, R scale, R* sums) {
    const int64_t d = problem.jet.d;
    launch_threads(graph.n_rows * d * warp_lanes, stream, jets_sum_edges<R>, graph, of_edges, seen,
                   shift, d, scale, sums);
  };
  const bool pair = problem.geometry == geometry_pair;
  if (grad.x) sum(by_dst(problem.graph), 0, R(1), grad.x);
  if (grad.y) sum(by_src(problem.graph), pair ? problem.jet.d : 0, R(pair ? 1 : -1), grad.y);
  return cudaGetLastError();
}

// ---- batches ----

template <class R, class S>
int jets_batch_forward(JetsProblem<R, S> problem, const JetArrays<R*>& outputs, Call& call) {
  if (!problem.valid()) return GNOGRAD_CUDA_VALUE;
  if (problem.n_batch == 0) return cudaGetLastError();
  const Batch batch{problem.n_batch, call.workspace, call.stream};
  const int64_t n_dst = problem.graph.n_dst, f_out = problem.f_out;
  const int64_t d = problem.jet.d, n_second = problem.n_second();
  problem.h = batch.interleave(problem.h, problem.graph.n_src, problem.f_in);
  const JetArrays<R*> interleaved{batch.allocate(outputs.out, n_dst, f_out),
                                  batch.allocate(outputs.gradient, n_dst * d, f_out),
                                  batch.allocate(outputs.second, n_dst * n_second, f_out)};
  const int status = problem.kernel == kernel_full
                         ? jets_forward<JetsFullForward>(problem, interleaved, call)
                         : jets_forward<JetsDiagonalForward>(problem, interleaved, call);
  if (status) return status;
  batch.separate(interleaved.out, outputs.out, n_dst, f_out);
  batch.separate(interleaved.gradient, outputs.gradient, n_dst * d, f_out);
  batch.separate(interleaved.second, outputs.second, n_dst * n_second, f_out);
  return cudaGetLastError();
}

// Clear the gradients that a batch shares: without functions they are zero.
template <class R, class S>
int clear_gradients(const JetsProblem<R, S>& problem, const GnoJetsGradients<R>& grad,
                    cudaStream_t stream) {
  const gnograd_cuda_graph& graph = problem.graph;
  const int64_t d = problem.jet.d;
  const int64_t kappa = problem.f_out * (problem.kernel == kernel_full ? problem.f_in : 1);
  const auto clear = [&](R* x, int64_t n) {
    if (x) set_zero(x, n, stream);
  };
  clear(grad.x, graph.n_dst * d);
  clear(grad.y, graph.n_src * d);
  clear(grad.layers, problem.start(problem.n_layers + 1));
  clear(grad.v, problem.n_hidden() * kappa);
  clear(grad.b_v, kappa);
  clear(grad.edge_weight, graph.n_edges);
  clear(grad.weight_derivatives, graph.n_edges * (problem.channels() - 1));
  return cudaGetLastError();
}

template <class R, class S>
int jets_batch_gradients(JetsProblem<R, S> problem, const JetArrays<const R*>& cotangents,
                         GnoJetsGradients<R> grad, Call& call) {
  if (!problem.valid()) return GNOGRAD_CUDA_VALUE;
  if (problem.n_batch == 0) return clear_gradients(problem, grad, call.stream);
  const Batch batch{problem.n_batch, call.workspace, call.stream};
  const int64_t n_dst = problem.graph.n_dst, n_src = problem.graph.n_src, f_out = problem.f_out;
  R* const to_h = grad.h;
  problem.h = batch.interleave(problem.h, n_src, problem.f_in);
  const JetArrays<const R*> interleaved{
      batch.interleave(cotangents.out, n_dst, f_out),
      batch.interleave(cotangents.gradient, n_dst * problem.jet.d, f_out),
      batch.interleave(cotangents.second, n_dst * problem.n_second(), f_out)};
  grad.h = batch.allocate(to_h, n_src, problem.f_in);
  const int status = problem.kernel == kernel_full
                         ? jets_gradients<JetsFullReverse>(problem, interleaved, grad, call)
                         : jets_gradients<JetsDiagonalReverse>(problem, interleaved, grad, call);
  if (status) return status;
  batch.separate(grad.h, to_h, n_src, problem.f_in);
  return cudaGetLastError();
}

// ---- the operators ----

template <class T, class Operator, template <class, class> class Inputs, class S>
JetsProblem<T, S> jets_problem(const Operator& op, JetOrder order, const Inputs<T, S>& in) {
  return {*op.graph,
          {order, int(op.d)},
          op.n_batch,
          op.f_in,
          op.f_out,
          op.n_layers,
          op.widths,
          op.geometry,
          op.activation,
          op.reduction,
          op.kernel,
          in.h,
          in.x,
          in.y,
          in.layers,
          in.v,
          in.b_v,
          in.edge_weight,
          in.weight_derivatives};
}
template <class T, class Gradients>
GnoJetsGradients<T> jets_gradients_of(const Gradients& grad) {
  return {grad.h, grad.x,   grad.y,           grad.layers,
          grad.v, grad.b_v, grad.edge_weight, grad.weight_derivatives};
}

template <class T>
struct GnoWithGradient : GnoWithGradientRecords {
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return jets_batch_forward(jets_problem<T>(*this, order_gradient, in),
                              JetArrays<T*>{out.out, out.gradient, nullptr}, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return jets_batch_gradients(jets_problem<T>(*this, order_gradient, in),
                                JetArrays<const T*>{g.out, g.gradient, nullptr},
                                jets_gradients_of<T>(grad), call);
  }
};
template <class T>
struct GnoWithLaplacian : GnoWithLaplacianRecords {
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return jets_batch_forward(jets_problem<T>(*this, order_laplacian, in),
                              JetArrays<T*>{out.out, out.gradient, out.laplacian}, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return jets_batch_gradients(jets_problem<T>(*this, order_laplacian, in),
                                JetArrays<const T*>{g.out, g.gradient, g.laplacian},
                                jets_gradients_of<T>(grad), call);
  }
};
template <class T>
struct GnoWithHessian : GnoWithHessianRecords {
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return jets_batch_forward(jets_problem<T>(*this, order_hessian, in),
                              JetArrays<T*>{out.out, out.gradient, out.hessian}, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return jets_batch_gradients(jets_problem<T>(*this, order_hessian, in),
                                JetArrays<const T*>{g.out, g.gradient, g.hessian},
                                jets_gradients_of<T>(grad), call);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_jets_entries.cuh"

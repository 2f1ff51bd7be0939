// SPDX-License-Identifier: MIT
// Graph attention (GAT), mha_gat: for an edge p = (j -> i) and every head
//
//     z_p = a_src . x_src_j + a_dst . x_dst_i (+ a_edge . e_p),   score act(z_p),   value x_src_j
//
// With gz_p = gs_p act'(z_p) and its sums over the edges of a node, gz_j and gz_i,
//
//     grad x_src_j = sum of alpha_p g_i + gz_j a_src     grad a_src  = sum over j of gz_j x_src_j
//     grad x_dst_i = gz_i a_dst                          grad a_dst  = sum over i of gz_i x_dst_i
//     grad e_p     = gz_p a_edge                         grad a_edge = sum over p of gz_p e_p
#include "device/sums.cuh"
#include "gat_passes.cuh"

namespace gnograd {
namespace {

// z = ss_j + sd_i (+ se_p) with ss_j = a_src . x_j and so on, once per node; score = act(z).
template <class T_, class S_>
struct Gat {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  HeadFeatures<T, S> x;             // sources
  const S *ss, *sd, *se;            // [n_src, heads], [n_dst, heads], [n_edges, heads] or null
  HeadFeatures<T, S> a_src, a_dst;  // [1, heads, size]
  HeadFeatures<T, S> e, a_edge;     // [n_edges, heads, edge size], [1, heads, edge size]
  ScoreActivation<real<T>> act;
  HeadGradient<T> grad_src = {}, grad_dst = {}, grad_e = {};
  S* gz = nullptr;         // [n_edges, heads] gradients of z by position
  S* gz_src = nullptr;     // [n_src, heads] their sums
  S* gz_dst = nullptr;     // [n_dst, heads]
  S* unit_sums = nullptr;  // [n_units, heads, edge size] sums of gz_p e_p, for a_edge; or null

  // for the passes of attention.cuh
  static constexpr bool has_dots = false;
  static constexpr int rows_of_edge = 1;
  using Part = S;
  using Destination = Nothing;
  template <bool wide>
  struct Rows {
    PackedInput<T, S, wide> x;
  };
  template <bool wide, int most, class Edges>
  __device__ void load(Rows<wide> (&rows)[most], const Place& at, const Edges& edges) const {
    const auto first = x.first(at);
    const int count = x.heads.size - at.column(), row_bytes = x.row_bytes();
    edges.template each<most>([&](int b, bool in) {
      const int j = edges.of(edges.own.j, b);
      if (in && count > 0) rows[b].x.load(first, int64_t(j) * row_bytes, count);
    });
  }
  __device__ Destination destination(int64_t, const Place&) const { return {}; }
  __device__ S own_part(int64_t j, int64_t row, int h) const { return source_part(j, row, h); }
  __device__ S score(S, S part, int64_t i, int h) const {
    return act(part + destination_part(i, h));
  }
  template <bool wide>
  __device__ Row value(const Rows<wide>& rows) const {
    return rows.x.unpack();
  }

  // z without the part of the other end
  __device__ S edge_part(int64_t row, int h) const {
    return se ? se[row * x.heads.heads + h] : S(0);
  }
  __device__ S source_part(int64_t j, int h) const { return ss[j * x.heads.heads + h]; }
  __device__ S source_part(int64_t j, int64_t row, int h) const {
    return source_part(j, h) + edge_part(row, h);
  }
  __device__ S destination_part(int64_t i, int h) const { return sd[i * x.heads.heads + h]; }
  __device__ S destination_part(int64_t i, int64_t row, int h) const {
    return destination_part(i, h) + edge_part(row, h);
  }

  // All passes but GatEdgeGradient have the heads of nodes.
  __host__ __device__ const Heads& edge_heads() const { return e.heads; }

  __device__ void finish_destination(S gz, int64_t i, const Place& at) const {
    if (at.group.lane == 0) gz_dst[i * x.heads.heads + at.head] = gz;
    if (!grad_dst) return;
    Place to = at;
    for (to.tile = 0; to.tile < x.heads.tiles; ++to.tile)
      if (to.column() < x.heads.size) {
        Row g;
        g.add(gz, a_dst.load(0, to));
        grad_dst.store(x.heads, i, to, g);
      }
  }
  __device__ void finish_source(Row sum, S gz, int64_t j, const Place& at) const {
    if (at.first()) gz_src[j * x.heads.heads + at.head] = gz;
    if (!grad_src || at.column() >= x.heads.size) return;
    sum.add(gz, a_src.load(0, at));
    grad_src.store(x.heads, j, at, sum);
  }
};

}  // namespace

template <class T, class S>
struct GradientPassesOf<Gat<T, S>> {
  using ByDestination = GatByDestination<Gat<T, S>>;
  using BySource = GatBySource<Gat<T, S>>;
  static constexpr bool source_first = true;
};

namespace {

// out[n, h] = a[h] . x[n, h]. Group: a row and head, lanes over features. Reads x once, a from
// caches, writes a number a head; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gat_row_scores(HeadFeatures<T, S> x, HeadFeatures<T, S> a, int64_t n_rows,
                   S* __restrict__ out) {
  const Heads& heads = x.heads;
  const Group group = this_group(heads.lanes);
  const int64_t item = group.number;
  const auto [row, head] = divided(item, heads.heads);
  if (row >= n_rows) return;
  S sum = 0;
  for (Place at{group, head, 0, width<T>}; at.tile < heads.tiles; ++at.tile) {
    const auto of_row = x.load(row, at);  // first, as it comes from memory
    sum += inner<S>(a.load(0, at), of_row);
  }
  sum = group_sum(sum, group);
  if (group.lane == 0) out[item] = sum;
}
template <class T, class S>
void launch_gat_row_scores(const HeadFeatures<T, S>& x, const HeadFeatures<T, S>& a, int64_t n_rows,
                           S* out, cudaStream_t stream) {
  launch_threads(n_rows * x.heads.heads * x.heads.lanes, stream, gat_row_scores<T, S>, x, a, n_rows,
                 out);
}

template <class T, class S>
struct GatSetup : AttentionSetup<T, S> {
  using Problem = GraphAttentionProblem<T, S>;
  Gat<T, S> model;
  HeadFeatures<T, S> x_dst;
  S *ss, *sd, *se;
  FoldSpace<S> folds[3];
  T* grad_a = nullptr;

  GatSetup(const Problem& problem, bool gradients, int64_t n_units) {
    Workspace& workspace = problem.workspace;
    const Heads heads = problem.heads(), edge_heads = heads_of_edges(problem);
    const int64_t n_src = problem.graph.n_src, n_dst = problem.graph.n_dst, n = heads.heads;
    const int64_t d = heads.row(), d_edge = edge_heads.row();
    const auto& [source, destination, a, e] = problem.in;

    ss = workspace.take<S>(n_src * n);
    sd = workspace.take<S>(n_dst * n);
    se = d_edge ? workspace.take<S>(problem.graph.n_edges * n) : nullptr;
    x_dst = {destination, heads};
    model = {{source, heads},
             ss,
             sd,
             se,
             {a, heads},
             {a + d, heads},
             {e, edge_heads},
             {a + 2 * d, edge_heads},
             problem.activation()};
    if (!gradients) return;
    model.gz = workspace.take<S>(problem.graph.n_edges * n);
    model.gz_src = workspace.take<S>(n_src * n);
    model.gz_dst = workspace.take<S>(n_dst * n);
    model.unit_sums = workspace.take<S>(n_units * d_edge);
    folds[0] = FoldSpace<S>(n_src, d, workspace);
    folds[1] = FoldSpace<S>(n_dst, d, workspace);
    folds[2] = FoldSpace<S>(n_units, d_edge, workspace);
    model.grad_src = {problem.grad[0]};
    model.grad_dst = {problem.grad[1]};
    grad_a = problem.grad[2];
    model.grad_e = {problem.grad[3]};
    if (!grad_a) model.unit_sums = nullptr;
  }
  // Edge features of another width, dealt to groups of the same size.
  static Heads heads_of_edges(const Problem& problem) {
    const int64_t size = problem.sizes.edge_size;
    Heads h = problem.heads();
    h.size = int(size);
    h.tiles = int(ceil_div(size, h.lanes * width<T>));
    h.wide = problem.arrays_aligned(problem.sizes.size) && problem.arrays_aligned(size);
    return h;
  }
  bool of_edges() const { return se && (model.grad_e || grad_a); }
  bool by_destination() const { return model.grad_dst || grad_a; }
  bool by_source() const { return by_destination() || model.grad_src || of_edges(); }
  void after(const Problem& problem, const Csc& rows, const Cut& cut) const {
    if (of_edges())
      for_rows(GatEdgeGradient<Gat<T, S>>{rows, model.e.heads, model}, cut, nullptr,
               problem.stream);
  }

  void prepare(const Problem& problem) const {
    launch_gat_row_scores(model.x, model.a_src, problem.graph.n_src, ss, problem.stream);
    launch_gat_row_scores(x_dst, model.a_dst, problem.graph.n_dst, sd, problem.stream);
    if (se) launch_gat_row_scores(model.e, model.a_edge, problem.graph.n_edges, se, problem.stream);
  }
  void sum_weights(const Problem& problem, int64_t n_units) const {
    if (!grad_a) return;
    const Heads &h = model.x.heads, &h_edge = model.e.heads;
    const int64_t d = h.row();
    sum_rows(WeightedMatrix<T, S>{model.gz_src, model.x.x, h.heads, h.size}, problem.graph.n_src, d,
             folds[0], grad_a, problem.stream);
    sum_rows(WeightedMatrix<T, S>{model.gz_dst, x_dst.x, h.heads, h.size}, problem.graph.n_dst, d,
             folds[1], grad_a + d, problem.stream);
    sum_rows(PlainMatrix<S>{model.unit_sums, h_edge.row()}, n_units, h_edge.row(), folds[2],
             grad_a + 2 * d, problem.stream);
  }
};

template <class T>
struct MhaGat : MhaGatRecords {
  template <class S>
  GraphAttentionProblem<T, S> problem(const Inputs<T, S>& in, Call& call) const {
    const GraphAttentionSizes sizes{n_heads,    n_channels,     n_edge_channels, concat_heads != 0,
                                    activation, negative_slope, dropout,         seed};
    return {*graph, sizes, {in.x_src, in.x_dst, in.a, in.e}, call.workspace, call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return attention_evaluate<GatSetup>(problem(in, call), out);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return attention_reverse<GatSetup>(problem(in, call), g, saved, grad);
  }
};

}  // namespace
}  // namespace gnograd

#include "gat_entries.cuh"

// SPDX-License-Identifier: MIT
// Aggregation by relations: over the incoming edges e = (j -> i) of type r,
//
//     S_ir  = sum of v_e x_j,   v_e = w_e for Sum, w_e / (sum of w of relation r at i) for Mean
//     out_i = [S_i0 | S_i1 | ... | own_i],
//     out_i = [B_i0 | B_i1 | ... | own_i],   B_ib = sum of c_rb S_ir   with coefficients.
//
// The walk over rows has a group for every block of out, so that no edge has a row of features of
// its own. Mean needs a number for every destination and relation. Dual numbers make jvp and hvp.
#include "device/call.cuh"
#include "relational_gradients.cuh"

namespace gnograd {
namespace {

enum AggregationCode { agg_sum, agg_mean };

template <class T, class S>
struct RelationalAggregation {
  const gnograd_cuda_graph& graph;
  int64_t size, own_size, n_relations, n_bases;
  const int32_t* edge_type;
  int aggregation;
  Input<T, S> x;      // [n_src, size]
  Input<T, S> w;      // [n_edges], or null
  Input<T, S> coeff;  // [n_relations, n_bases], or null
  Input<T, S> own;    // [n_dst, own_size], or null
  Workspace& workspace;
  cudaStream_t stream;

  bool mean() const { return aggregation == agg_mean; }
  int64_t blocks() const { return n_bases ? n_bases : n_relations; }
  int64_t row() const { return blocks() * size + own_size; }
  bool valid() const {
    return aggregation >= agg_sum && aggregation <= agg_mean && size >= 0 && own_size >= 0 &&
           n_relations > 0 && n_bases >= 0 && !(coeff && n_bases == 0);
  }
  Basis<T, S> basis() const { return {coeff, int(n_bases)}; }
  template <class... P>
  Heads heads(int64_t count, P... arrays) const {
    return make_heads<T>(count, size, aligned<T>(size, arrays...) && aligned<T>(row()));
  }
  // A lane for every relation
  Heads relations() const { return make_heads<T>(n_relations, 1, false); }

  // Pieces of the edges for the gradient to the coefficients, whose sums take 2^20 numbers or 32
  // times those of the coefficients.
  int chunks() const {
    const int64_t most = (int64_t(1) << 20) / std::max<int64_t>(1, n_relations * n_bases);
    const int64_t n = std::max<int64_t>(32, std::min<int64_t>(1024, most));
    return int(std::max<int64_t>(1, std::min(n, ceil_div(graph.n_edges, 64))));
  }

  S* take_totals() const { return workspace.take<S>(mean() ? graph.n_dst * n_relations : 0); }
  RelationWeights<T, S> weights(const S* total) const {
    return {edge_type, int(n_relations), w, mean() ? total : nullptr};
  }
  void find_totals(S* total, const Cut& cut, void* split) const {
    if (mean())
      for_rows(RelationTotal<T, S>{by_dst(graph), weights(nullptr), nullptr,
                                   relations(), total},
               cut, split, stream);
  }

  int forward(T* out) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(graph);
    const Cut cut = take_cut(rows, workspace);
    const Heads h = heads(blocks(), out, x.v, x.d);
    void* split = workspace.take<char>(
        int64_t(std::max(split_bytes<RelationSum<T, S>>(cut, h, h.tiles),
                         split_bytes<RelationTotal<T, S>>(cut, relations(), 1))));
    S* total = take_totals();
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    cut_rows(rows, cut, stream);
    find_totals(total, cut, split);
    if (size)
      for_rows(RelationSum<T, S>{rows, weights(total), basis(), x, h, {out, row()}}, cut, split,
               stream);
    launch_threads(graph.n_dst * own_size, stream, copy_columns<T>,
                   ScalarTraits<S>::dual ? own.d : own.v, own_size, out + blocks() * size, row(),
                   graph.n_dst, own_size);
    return cudaGetLastError();
  }

  int gradients(const T* g, const AggRelationalRecords::Gradients<T>& grad) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(graph), sources = by_src(graph);
    const Cut cut = take_cut(rows, workspace), source_cut = take_cut(sources, workspace);
    const Heads h = heads(1, g, x.v, x.d, grad.x);
    const int n_chunks = chunks();
    void* split = workspace.take<char>(
        int64_t(std::max(split_bytes<RelationSourceGradient<T, S>>(source_cut, h, h.tiles),
                         split_bytes<RelationTotal<T, S>>(cut, relations(), 1))));
    S* total = take_totals();
    S* m = take_totals();
    S* d = workspace.take<S>(mean() ? graph.n_edges : 0);
    const int64_t n_coefficients = n_relations * n_bases;
    S* sums = workspace.take<S>(n_chunks * n_coefficients);
    const FoldSpace<S> space(n_chunks, n_coefficients, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    cut_rows(rows, cut, stream);
    find_totals(total, cut, split);
    const RelationWeights<T, S> v = weights(total);
    const RelationCotangent<T, S> cotangent{{g, row()}, basis(), h};
    if (grad.x && size) {
      cut_rows(sources, source_cut, stream);
      for_rows(RelationSourceGradient<T, S>{sources, v, cotangent, h, grad.x}, source_cut, split,
               stream);
    }
    if (grad.w) {
      clear_room(graph, grad.w, 1, stream);
      for_rows(RelationWeightGradient<T, S>{rows, v, cotangent, x, h, grad.w,
                                            mean() ? d : nullptr},
               cut, split, stream);
      if (mean()) {
        for_rows(RelationTotal<T, S>{rows, v, d, relations(), m}, cut, split, stream);
        for_rows(RelationMeanWeightGradient<T, S>{rows, v, d, m, grad.w}, cut, split, stream);
      }
    }
    if (grad.coeff && n_coefficients) {
      set_zero(sums, n_chunks * n_coefficients, stream);
      launch_threads(int64_t(n_chunks) * n_bases * h.lanes, stream,
                     h.wide ? relational_coefficients<T, S, true>
                            : relational_coefficients<T, S, false>,
                     rows, v, cotangent, x, n_chunks, sums);
      sum_rows(PlainMatrix<S>{sums, n_coefficients}, n_chunks, n_coefficients, space, grad.coeff,
               stream);
    }
    if (grad.own)  // linear in it: no second derivative
      launch_threads(graph.n_dst * own_size, stream, copy_columns<T>,
                     ScalarTraits<S>::dual ? nullptr : g + blocks() * size, row(), grad.own,
                     own_size, graph.n_dst, own_size);
    return cudaGetLastError();
  }
};

// ---- the operator ----

template <class T>
struct AggRelational : AggRelationalRecords {
  template <class S>
  RelationalAggregation<T, S> over(const Inputs<T, S>& in, Call& call) const {
    return {*graph,    n_features,     n_own_features, n_relations, n_bases,
            edge_type, aggregation,    in.x,           in.w,        in.coeff,
            in.own,    call.workspace, call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return over(in, call).forward(out.out);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return over(in, call).gradients(g.out, grad);
  }
};

}  // namespace
}  // namespace gnograd

#include "relational_entries.cuh"

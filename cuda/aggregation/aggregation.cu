// SPDX-License-Identifier: MIT
// Weighted and simple aggregation of neighbour features:
//
//     out_i = AggOp over the edges p = (j -> i) of  w_p x_j   or of  e_p
#include <initializer_list>

#include "agg_forward.cuh"
#include "agg_gradients.cuh"
#include "device/call.cuh"

namespace gnograd {
namespace {

enum AggregationCode { agg_sum, agg_mean, agg_min, agg_max };

// ---- launchers ----

struct AggregatedSizes {
  int64_t node, edge, own;  // features of each block of columns
  int64_t aggregated() const { return node + edge; }
  int64_t row() const { return node + edge + own; }
};

template <class T>
using AggregatedGradients = AggConcatRecords::Gradients<T>;  // own may be x

template <class T, class S>
struct Aggregation {
  const gnograd_cuda_graph& graph;
  AggregatedSizes sizes;
  int aggregation;
  Input<T, S> x;    // [n_src, node]
  Input<T, S> w;    // [n_edges] weights of the nodes' columns, or null
  Input<T, S> e;    // [n_edges, edge]
  Input<T, S> own;  // [n_dst, own]
  Workspace& workspace;
  cudaStream_t stream;

  bool extremum() const { return aggregation == agg_min || aggregation == agg_max; }
  bool valid() const {
    return aggregation >= agg_sum && aggregation <= agg_max && sizes.node >= 0 && sizes.edge >= 0 &&
           sizes.own >= 0;
  }
  // `table` is what is read or written a row per destination, `others` are what goes with it.
  template <class... P>
  Heads heads(int64_t size, const void* table, int64_t column, P... others) const {
    return make_heads<T>(
        1, size,
        aligned<T>(sizes.row(), table) && aligned<T>(column) && aligned<T>(size, others...));
  }
  template <class... P>
  EdgeColumns<T, S> node_columns(const void* table, P... others) const {
    return {x, w, false, heads(sizes.node, table, 0, x.v, x.d, others...), 0};
  }
  template <class... P>
  EdgeColumns<T, S> edge_columns(const void* table, P... others) const {
    return {e, {}, true, heads(sizes.edge, table, sizes.node, e.v, e.d, others...), sizes.node};
  }

  void aggregate(const EdgeColumns<T, S>& columns, const Cut& cut, void* split, T* out,
                 int64_t* location, real<T>* node_degree) const {
    const Csc rows = by_dst(graph);
    if (extremum())
      for_rows(AggExtremum<T, S>{rows,
                                 columns,
                                 columns.heads,
                                 real<T>(aggregation == agg_max ? 1 : -1),
                                 {out, sizes.row()},
                                 {location, sizes.aggregated()}},
               cut, split, stream);
    else
      for_rows(AggSum<T, S>{rows,
                            columns,
                            columns.heads,
                            aggregation == agg_mean,
                            {out, sizes.row()},
                            node_degree},
               cut, split, stream);
  }

  // Room for the divided rows of all operations here: what is largest.
  void* take_split(const Cut& dst, const Cut& src) const {
    size_t most = 0;
    for (const int64_t size : {sizes.node, sizes.edge}) {
      const Heads h = make_heads<T>(1, size, false);
      most = std::max({most, split_bytes<AggSum<T, S>>(dst, h, h.tiles),
                       split_bytes<AggExtremum<T, S>>(dst, h, h.tiles),
                       split_bytes<AggSourceGradient<T, S, false>>(src, h, h.tiles),
                       split_bytes<AggWeightGradient<T, S, false>>(dst, h, 1)});
    }
    return workspace.take<char>(int64_t(most));
  }

  void zero(T* x, int64_t n) const {
    if (x) set_zero(x, n, stream);
  }

  // location: [n_dst, node + edge] or null; node_degree: [n_dst] or null
  int forward(T* out, int64_t* location, real<T>* node_degree) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(graph);
    const Cut cut = take_cut(rows, workspace);
    void* split = take_split(cut, cut);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    cut_rows(rows, cut, stream);
    if (sizes.node || node_degree)
      aggregate(node_columns(out), cut, split, out, location, node_degree);
    if (sizes.edge) aggregate(edge_columns(out), cut, split, out, location, nullptr);
    launch_threads(graph.n_dst * sizes.own, stream, copy_columns<T>,
                   ScalarTraits<S>::dual ? own.d : own.v, sizes.own, out + sizes.aggregated(),
                   sizes.row(), graph.n_dst, sizes.own);
    return cudaGetLastError();
  }

  // Bytes of the winners' bits of a block of columns.
  int64_t winner_bytes(int64_t size) const {
    const Heads h = make_heads<T>(1, size, false);
    return size ? graph.n_edges * make_winners(nullptr, h).row : 0;
  }
  // The gradients to nodes and weights, of Min and Max or of Sum and Mean.
  template <bool extremum>
  void node_gradients(const EdgeColumns<T, S>& columns, ColumnCotangent<T, S> nodes,
                      const S* node_degree, S* d, S* degree, S* delta, const T* g_own,
                      const AggregatedGradients<T>& grad, const Cut& cut, const Cut& source_cut,
                      void* split) const {
    const bool mean = nodes.mean, weighted_mean = mean && w;
    if (grad.w || (weighted_mean && !node_degree)) {
      for_rows(AggWeightGradient<T, S, extremum>{by_dst(graph), columns, nodes, columns.heads,
                                                 grad.w, d, degree, delta},
               cut, split, stream);
      if (mean && grad.w)
        for_rows(AggMeanWeightGradient<T, S>{by_dst(graph), d, degree, delta, grad.w}, cut, split,
                 stream);
      node_degree = degree;
    }
    if (weighted_mean) nodes.degree = node_degree;
    if (grad.x)
      for_rows(
          AggSourceGradient<T, S, extremum>{by_src(graph), w, nodes, columns.heads, g_own, grad.x},
          source_cut, split, stream);
  }

  // location and node_degree may come from the forward pass; null: computed here.
  int gradients(const T* g, const int64_t* location, const S* node_degree,
                const AggregatedGradients<T>& grad) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const bool mean = aggregation == agg_mean;
    const Csc rows = by_dst(graph), sources = by_src(graph);
    const Cut cut = take_cut(rows, workspace), source_cut = take_cut(sources, workspace);
    void* split = take_split(cut, source_cut);
    int64_t* found = workspace.take<int64_t>(extremum() ? graph.n_dst * sizes.aggregated() : 0);
    uint8_t* bits = workspace.take<uint8_t>(
        extremum() ? std::max(winner_bytes(sizes.node), winner_bytes(sizes.edge)) : 0);
    S* d = workspace.take<S>(mean ? graph.n_edges : 0);
    S* degree = workspace.take<S>(mean ? graph.n_dst : 0);
    S* delta = workspace.take<S>(mean ? graph.n_dst : 0);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    cut_rows(rows, cut, stream);
    if (grad.x) cut_rows(sources, source_cut, stream);
    const T* g_own = g + sizes.aggregated();
    const bool own_is_x =
        grad.own == grad.x && sizes.own == sizes.node && graph.n_dst == graph.n_src;
    T* grad_own = own_is_x ? nullptr : grad.own;
    // Min and Max need their winners first, unless forward has found them.
    const auto cotangent = [&](const EdgeColumns<T, S>& columns) {
      Winners<uint8_t> won = make_winners(nullptr, columns.heads);
      if (extremum()) {
        won.bits = bits;
        if (!location) aggregate(columns, cut, split, nullptr, found, nullptr);
        for_rows(AggFindWinners<T>{rows,
                                   columns.heads,
                                   {location ? location : found, sizes.aggregated()},
                                   columns.column,
                                   won},
                 cut, split, stream);
      }
      return ColumnCotangent<T, S>{
          g,    sizes.row(), columns.column,      columns.heads, {won.bits, won.row},
          mean, nullptr,     graph.by_dst.offsets};
    };
    if (sizes.node) clear_room(graph, grad.w, 1, stream);
    if (!ScalarTraits<S>::dual) clear_room(graph, grad.e, sizes.edge, stream);
    if (!sizes.node) {  // no block has weights
      zero(grad.w, graph.n_edges);
    } else if (grad.x || grad.w) {
      const auto columns = node_columns(g, grad.x);
      const auto run =
          extremum() ? &Aggregation::node_gradients<true> : &Aggregation::node_gradients<false>;
      (this->*run)(columns, cotangent(columns), node_degree, d, degree, delta,
                   own_is_x && !ScalarTraits<S>::dual ? g_own : nullptr, grad, cut, source_cut,
                   split);
    }
    if constexpr (ScalarTraits<S>::dual) {  // linear in e and own: no second derivative
      zero(grad.e, graph.n_edges * sizes.edge);
      zero(grad_own, graph.n_dst * sizes.own);
    } else {
      if (grad.e) {
        const auto columns = edge_columns(g, grad.e);
        for_rows(AggEdgeGradient<T, S>{rows, cotangent(columns), columns.heads, grad.e}, cut, split,
                 stream);
      }
      if (grad_own)
        launch_threads(graph.n_dst * sizes.own, stream, copy_columns<T>, g_own, sizes.row(),
                       grad_own, sizes.own, graph.n_dst, sizes.own);
    }
    return cudaGetLastError();
  }
};

// ---- the operators ----

template <class T>
struct AggConcat : AggConcatRecords {
  template <class S>
  Aggregation<T, S> over(const Inputs<T, S>& in, Call& call) const {
    return {*graph,      {n_features, n_edge_features, n_own_features},
            aggregation, in.x,
            in.w,        in.e,
            in.own,      call.workspace,
            call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return over(in, call).forward(out.out, out.location, out.degree);
  }
  // Saved out is not read: in 16 bits it is not what it was.
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    const S* degree = nullptr;
    if constexpr (!ScalarTraits<S>::dual) degree = saved.degree;
    return over(in, call).gradients(g.out, saved.location, degree, grad);
  }
};

// agg_concat without edge features and own features
template <class T>
struct AggWeighted : AggWeightedRecords {
  using General = AggConcat<T>;
  General general() const { return {{graph, n_features, 0, 0, aggregation}}; }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return general().evaluate(AggConcatRecords::Inputs<T, S>{in.x, in.w, {}, {}},
                              {out.out, out.location, out.degree}, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return general().reverse({g.out}, AggConcatRecords::Inputs<T, S>{in.x, in.w, {}, {}},
                             {saved.out, saved.location, saved.degree},
                             {grad.x, grad.w, nullptr, nullptr}, call);
  }
};

// agg_concat without weights and own features
template <class T>
struct AggSimple : AggSimpleRecords {
  using General = AggConcat<T>;
  General general() const { return {{graph, n_features, n_edge_features, 0, aggregation}}; }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return general().evaluate(AggConcatRecords::Inputs<T, S>{in.x, {}, in.e, {}},
                              {out.out, out.location}, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return general().reverse({g.out}, AggConcatRecords::Inputs<T, S>{in.x, {}, in.e, {}},
                             {nullptr, saved.location}, {grad.x, nullptr, grad.e, nullptr}, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "aggregation_entries.cuh"

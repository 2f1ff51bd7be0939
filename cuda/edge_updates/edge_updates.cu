// SPDX-License-Identifier: MIT
// New features of edges p = (j -> i) from their own and those of the nodes at both ends:
//
//     out_p = [e_p | x_src_j | x_dst_i]   or   e_p + x_src_j + x_dst_i
//
// Tangents are the same of tangents, where what is absent is 0; second derivatives are 0.
#include "device/call.cuh"
#include "device/columns.cuh"
#include "device/rows.cuh"

namespace gnograd {
namespace {

enum UpdateMode { update_concat, update_sum };

// Rows of edges: the sum of those that are given, 0 of none. An edge moves `size` numbers for each
// of them, those of its destination from caches, and writes as many; bound by memory.
template <class T>
struct EdgeRows {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  RowTable<const T> e, x_src, x_dst;  // each or null
  RowTable<T> out;

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    const int64_t row = graph.edge_of(k);
    Vector<real<T>, step> sum;
    if (e) sum.add(load_vector(e.at(row, c), count, heads.wide));
    if (x_src) sum.add(load_vector(x_src.at(graph.indices[k], c), count, heads.wide));
    if (x_dst) sum.add(load_vector(x_dst.at(i, c), count, heads.wide));
    store_vector<T>(out.at(row, c), sum, count, heads.wide);
  }
};

// The sum of the rows of a node's edges. An edge moves `size` numbers; bound by memory.
template <class T>
struct EdgeRowSum {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Vector<real<T>, step>;
  using Total = Nothing;

  Csc graph;  // by either end
  Heads heads;
  RowTable<const T> g;
  T* sum;  // [n_rows, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    if (const int c = at.column(); c < heads.size)
      partial.add(load_vector(g.at(graph.edge_of(k), c), heads.size - c, heads.wide));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    if (const int c = at.column(); c < heads.size)
      store_vector(sum + row * heads.size + c, partial, heads.size - c, heads.wide);
  }
};

template <class T>
struct UpdateEdges : UpdateEdgesRecords {
  bool valid() const {
    return (mode == update_concat || mode == update_sum) && n_edge_features >= 0 &&
           n_src_features >= 0 && n_dst_features >= 0;
  }
  bool adds() const { return mode == update_sum; }
  int64_t row() const {
    return adds() ? n_edge_features : n_edge_features + n_src_features + n_dst_features;
  }
  int64_t source_column() const { return adds() ? 0 : n_edge_features; }
  int64_t destination_column() const { return adds() ? 0 : n_edge_features + n_src_features; }
  template <class... P>
  Heads heads(int64_t size, P... arrays) const {
    return make_heads<T>(1, size, aligned<T>(size, arrays...) && aligned<T>(row()));
  }

  // A block of columns of out.
  void write(const Cut& cut, T* out, int64_t size, const T* e, const T* x_src, const T* x_dst,
             cudaStream_t stream) const {
    if (!size) return;
    const Heads h = heads(size, out, e, x_src, x_dst);
    for_rows(EdgeRows<T>{by_dst(*graph), h, {e, size}, {x_src, size}, {x_dst, size}, {out, row()}},
             cut, nullptr, stream);
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    const auto part = [](const Input<T, S>& x) { return ScalarTraits<S>::dual ? x.d : x.v; };
    const T *e = part(in.e), *x_src = part(in.x_src), *x_dst = part(in.x_dst);
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Cut cut = take_cut(by_dst(*graph), call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    cut_rows(by_dst(*graph), cut, call.stream);
    clear_room(*graph, out.out, row(), call.stream);
    if (adds()) {
      write(cut, out.out, row(), e, x_src, x_dst, call.stream);
    } else {
      write(cut, out.out, n_edge_features, e, nullptr, nullptr, call.stream);
      write(cut, out.out + source_column(), n_src_features, nullptr, x_src, nullptr, call.stream);
      write(cut, out.out + destination_column(), n_dst_features, nullptr, nullptr, x_dst,
            call.stream);
    }
    return cudaGetLastError();
  }

  // Linear: no second derivative
  int clear_gradients(const Gradients<T>& grad, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const auto zero = [&](T* x, int64_t n) {
      if (x) set_zero(x, n, call.stream);
    };
    zero(grad.e, graph->n_edges * n_edge_features);
    zero(grad.x_src, graph->n_src * n_src_features);
    zero(grad.x_dst, graph->n_dst * n_dst_features);
    return cudaGetLastError();
  }
  int gradients(const Cotangents<T>& g, const Gradients<T>& grad, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(*graph), sources = by_src(*graph);
    const Cut cut = take_cut(rows, call.workspace), source_cut = take_cut(sources, call.workspace);
    const auto room = [&](const Cut& of_rows, int64_t size) {
      const Heads h = heads(size);
      return split_bytes<EdgeRowSum<T>>(of_rows, h, h.tiles);
    };
    void* split = call.workspace.take<char>(
        int64_t(std::max(room(source_cut, n_src_features), room(cut, n_dst_features))));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const T* to_src = g.out + source_column();
    const T* to_dst = g.out + destination_column();
    const Heads of_src = heads(n_src_features, to_src, grad.x_src);
    const Heads of_dst = heads(n_dst_features, to_dst, grad.x_dst);
    cut_rows(rows, cut, call.stream);
    if (grad.e && n_edge_features) {
      clear_room(*graph, grad.e, n_edge_features, call.stream);
      const Heads h = heads(n_edge_features, g.out, grad.e);
      const RowTable<const T> none{nullptr, 0};
      for_rows(EdgeRows<T>{rows, h, {g.out, row()}, none, none, {grad.e, n_edge_features}}, cut,
               nullptr, call.stream);
    }
    if (grad.x_src && n_src_features) {
      cut_rows(sources, source_cut, call.stream);
      for_rows(EdgeRowSum<T>{sources, of_src, {to_src, row()}, grad.x_src}, source_cut, split,
               call.stream);
    }
    if (grad.x_dst && n_dst_features)
      for_rows(EdgeRowSum<T>{rows, of_dst, {to_dst, row()}, grad.x_dst}, cut, split, call.stream);
    return cudaGetLastError();
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>&, const Gradients<T>& grad,
              Call& call) const {
    return ScalarTraits<S>::dual ? clear_gradients(grad, call) : gradients(g, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "edge_updates_entries.cuh"

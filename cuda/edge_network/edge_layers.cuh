// SPDX-License-Identifier: MIT
// A network on edges e = (j -> i), which sees of them c_e, y_j and x_i:
//
//     pre_1 = c_e U_c + (y U_y)_j + (x U_x)_i + b_1,   pre_l = act(pre_(l-1)) U_l + b_l
//
// The first layer is linear in what comes from either end, so that its products are made once a
// node. Edges go in chunks; what the layers make of one is kept for the way back from it, and for
// no longer. On the way back the gradients to pre_1 are summed at both ends, so that those to y, x
// and to their rows of U_1 are products over nodes, too.
#pragma once
#include <vector>

#include "edge_chunks.cuh"

namespace gnograd {

// Input of the network from the nodes at one end, or from the edges.
template <class R, class S>
struct Seen {
  Input<R, S> x;    // [n, columns]
  int64_t columns;  // 0: nothing
  int64_t row;      // first row in U_1
};

// Sizes and inputs.
template <class R, class S>
struct EdgeLayers {
  const gnograd_cuda_graph& graph;
  int64_t n_layers;
  const int64_t* widths;
  int activation;
  Seen<R, S> src, dst, edge;
  Input<R, S> packed;  // [U_1 | b_1 | U_2 | b_2 | ...]

  bool valid() const {
    for (int64_t l = 0; l < n_layers; ++l)
      if (widths[l] < 1) return false;
    return n_layers >= 1 && src.columns >= 0 && dst.columns >= 0 && edge.columns >= 0 &&
           src.columns + dst.columns + edge.columns >= 1 && activation >= 0 &&
           activation < n_activations;
  }
  // Layers count from 1.
  int64_t width(int64_t l) const { return widths[l - 1]; }
  int64_t first_width() const { return widths[0]; }
  int64_t last_width() const { return widths[n_layers - 1]; }
  int64_t inputs(int64_t l) const {
    return l == 1 ? src.columns + dst.columns + edge.columns : width(l - 1);
  }
  // Start of layer l, and of its bias; the end for n_layers + 1
  int64_t start(int64_t l) const {
    int64_t n = 0;
    for (int64_t m = 1; m < l; ++m) n += (inputs(m) + 1) * width(m);
    return n;
  }
  int64_t bias(int64_t l) const { return start(l) + inputs(l) * width(l); }
  Operand<R> layer(int64_t l) const { return rows(packed + start(l), width(l)); }
  // Start of the rows of U_1 for a part of the input, and these rows
  int64_t start(const Seen<R, S>& part) const { return part.row * first_width(); }
  Operand<R> layer(const Seen<R, S>& part) const {
    return rows(packed + start(part), first_width());
  }
};

// ---- the first layer at the nodes ----

template <class R, class S>
class NodePart {
  static constexpr bool dual = ScalarTraits<S>::dual;

  const EdgeLayers<R, S>& layers;
  const Seen<R, S>& seen;
  int64_t n, room;  // nodes; and numbers of their rows of the first width, 0 if nothing is seen
  bool of_sources;
  cudaStream_t stream;
  Planes<S> products, sums;
  Gemm<R> up, down, to_layer;

 public:
  NodePart(const EdgeLayers<R, S>& layers, bool of_sources, bool reverse, Workspace& workspace,
           cudaStream_t stream)
      : layers(layers),
        seen(of_sources ? layers.src : layers.dst),
        n(of_sources ? layers.graph.n_src : layers.graph.n_dst),
        room(seen.columns ? n * layers.first_width() : 0),
        of_sources(of_sources),
        stream(stream),
        products(room, workspace),
        sums(reverse ? room : 0, workspace),
        up({n, layers.first_width(), seen.columns}, workspace),
        down({reverse ? n : 0, seen.columns, layers.first_width()}, workspace),
        to_layer({seen.columns, layers.first_width(), reverse ? n : 0}, workspace) {
    if (!seen.columns) products = {};
  }

  // Product of every node that its edges add; null where nothing is seen
  const Planes<S>& of_nodes() const { return products; }
  void start() const {
    if (room)
      gemm_planes(up, {n, layers.first_width(), seen.columns}, rows(seen.x, seen.columns),
                  layers.layer(seen), products, stream);
  }
  void start_reverse() const {
    if (!room) return;
    set_zero(sums.v, room, stream);
    if (dual) set_zero(sums.d, room, stream);
  }
  // Gradients to pre_1 of a chunk
  void add(const EdgeChunk& chunk, const Planes<S>& grad, R* pieces) const {
    if (!room) return;
    const EdgeRuns runs{chunk, of_sources};
    const int64_t width = layers.first_width();
    add_to_nodes(runs, width, EdgeRows<R>{grad.v, width}, pieces, sums.v, stream);
    if (dual) add_to_nodes(runs, width, EdgeRows<R>{grad.d, width}, pieces, sums.d, stream);
  }
  // Gradients to what is seen, and to its rows of U_1; null where not wanted.
  void finish_reverse(R* grad_seen, R* packed) const {
    if (!seen.columns) return;
    const int64_t width = layers.first_width(), columns = seen.columns;
    if (grad_seen)
      down(dual, {n, columns, width}, sums.rows(width), layers.layer(seen).transposed(), grad_seen,
           false, stream);
    if (packed)
      to_layer(dual, {columns, width, n}, rows(seen.x, columns).transposed(), sums.rows(width),
               packed + layers.start(seen), false, stream);
  }
};

// ---- layers on a chunk ----

// pre_1: what the nodes and the bias add to what edges have brought, and hid = act(pre_1) unless it
// is null. Thread: features of an edge; reads a row of either end, in part from caches, reads and
// writes its own; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    edges_first_layer(EdgeChunk chunk, int activation, int64_t width, bool from_edges,
                      Planes<S> src, Planes<S> dst, Input<R, S> bias, Planes<S> pre,
                      Planes<S> hid) {
  const EdgeColumns columns(width);
  const int64_t q = columns.q;
  if (q >= chunk.n) return;
  const bool has = chunk.has(q);
  if (has && src.v) src = src + chunk.src(q) * width;
  if (has && dst.v) dst = dst + chunk.dst(q) * width;
  const Planes<S> to_pre = pre + q * width, to_hid = hid.v ? hid + q * width : hid;
  columns.each([&](int k) {
    S sum = R(0);
    if (has) {
      sum = bias[k];
      if (from_edges) sum += to_pre[k];
      if (src.v) sum += src[k];
      if (dst.v) sum += dst[k];
    }
    if (to_pre.v != to_hid.v) to_pre.set(k, sum);
    if (to_hid.v) to_hid.set(k, activate(activation, sum));
  });
}

// pre += bias, and hid = act(pre) unless it is null; it may be pre itself. For dual numbers; others
// are activated where the product is stored (GemmActivated). Thread: a feature of an edge; reads
// and writes it; bound by memory, in float64 by the activation.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    edges_activate(int activation, int64_t n, int64_t width, Input<R, S> bias, Planes<S> pre,
                   Planes<S> hid) {
  const int64_t i = thread_number();
  if (i >= n * width) return;
  const S sum = pre[i] + bias[divided(i, int(width)).rest];
  if (pre.v != hid.v) pre.set(i, sum);
  if (hid.v) hid.set(i, activate(activation, sum));
}

// Gradients to hid become those to pre; of dual numbers, as above. Thread: a feature of an edge;
// they are read and written, pre is read; bound by memory, in float64 by the slope.
template <class S>
__global__ void __launch_bounds__(block_threads)
    edges_activate_reverse(int activation, int64_t n, Planes<S> pre, Planes<S> grad) {
  const int64_t i = thread_number();
  if (i < n) grad.set(i, grad[i] * slope(activation, pre[i]));
}

// Gradients of a call to what the network sees and to its layers; null where not wanted.
template <class R>
struct EdgeLayersGradients {
  R *src, *dst, *edge, *packed;
  bool any() const { return src || dst || edge || packed; }
};

// A graph's edges, one chunk after another.
template <class R, class S>
class EdgeChunks {
  static constexpr bool dual = ScalarTraits<S>::dual;

  const EdgeLayers<R, S>& layers;
  bool reverses;
  cudaStream_t stream;
  int64_t widest, length;
  int32_t* to;
  int64_t* place;
  Planes<S> seen, spare;
  std::vector<Planes<S>> pre, hid;  // by layer; on the way forward two in turn
  NodePart<R, S> src, dst;
  std::vector<Gemm<R>> up, down;  // the first of each is that of c
  std::vector<GemmSum<R>> to_layers;
  std::vector<SumOfSlices<S>> to_biases;

  int64_t top() const { return layers.n_layers; }
  // Features before layer l, of those that edges bring
  int64_t below(int64_t l) const { return l == 1 ? layers.edge.columns : layers.width(l - 1); }
  // Edges of a chunk at most: as many as have room for their arrays, but enough for a product
  int64_t longest() const {
    int64_t numbers = layers.edge.columns + 2 * widest;
    for (int64_t l = 1; reverses && l <= top(); ++l) numbers += 2 * layers.width(l);
    const int64_t fit = int64_t(slice_bytes / sizeof(S)) / numbers;
    const int64_t most = std::clamp<int64_t>(fit, 32, 65536);
    return std::max<int64_t>(1, std::min(layers.graph.n_edges, most));
  }

  void load(const EdgeChunk& chunk) const {
    const int64_t first = layers.first_width();
    if (below(1)) {
      launch_columns(chunk.n, below(1), stream, edges_gather<R, S>, chunk, below(1), layers.edge.x,
                     seen);
      gemm_planes(up[0], {chunk.n, first, below(1)}, seen.rows(below(1)), layers.layer(layers.edge),
                  pre[0], stream);
    }
    launch_columns(chunk.n, first, stream, edges_first_layer<R, S>, chunk, layers.activation, first,
                   below(1) > 0, src.of_nodes(), dst.of_nodes(), layers.packed + layers.bias(1),
                   pre[0], hid[0]);
    for (int64_t l = 2; l <= top(); ++l) {
      const GemmShape shape{chunk.n, layers.width(l), below(l)};
      const Operand<R> x = hid[l - 2].rows(below(l)), layer = layers.layer(l);
      const Input<R, S> bias = layers.packed + layers.bias(l);
      if constexpr (dual) {
        gemm_planes(up[l - 1], shape, x, layer, pre[l - 1], stream);
        launch_threads(shape.m * shape.n, stream, edges_activate<R, S>, layers.activation, shape.m,
                       shape.n, bias, pre[l - 1], hid[l - 1]);
      } else {
        const GemmActivated<R> to{bias.v, layers.activation, pre[l - 1].v, hid[l - 1].v};
        up[l - 1](shape, x, layer, to, stream);
      }
    }
  }

 public:
  Planes<S> grad;  // gradient to output(), on the way back

  // `extra` is the largest number of columns that the caller adds to nodes.
  EdgeChunks(const EdgeLayers<R, S>& layers, int64_t extra, bool reverse, Workspace& workspace,
             cudaStream_t stream)
      : layers(layers),
        reverses(reverse),
        stream(stream),
        widest(std::max({*std::max_element(layers.widths, layers.widths + layers.n_layers),
                         layers.edge.columns, extra})),
        length(longest()),
        to(workspace.take<int32_t>(length)),
        place(workspace.take<int64_t>(reverse ? length : 0)),
        seen(length * layers.edge.columns, workspace),
        spare(length * widest, workspace),
        src(layers, true, reverse, workspace, stream),
        dst(layers, false, reverse, workspace, stream),
        grad(length * widest, workspace) {
    for (int64_t l = 1; l <= top(); ++l) {
      const int64_t n = length * layers.width(l);
      const Planes<S> in_turn = (top() - l) % 2 ? spare : grad;
      pre.push_back(reverse ? Planes<S>(n, workspace) : in_turn);
      if (l == top()) hid.emplace_back();
      else hid.push_back(reverse ? Planes<S>(n, workspace) : in_turn);
      up.emplace_back(GemmShape{length, layers.width(l), below(l)}, workspace);
      if (!reverse) continue;
      down.emplace_back(GemmShape{length, below(l), layers.width(l)}, workspace);
      to_layers.emplace_back(GemmShape{below(l), layers.width(l), length}, workspace);
      to_biases.emplace_back(length, layers.width(l), workspace);
    }
  }

  int64_t most() const { return length; }
  const Planes<S>& output() const { return pre.back(); }
  // x.edge(edge of the chunk)(column) to the nodes at one end; on the way back before `reverse`
  template <class X>
  void add(const EdgeRuns& runs, int64_t width, const X& x, R* sums) const {
    add_to_nodes(runs, width, x, spare.v, sums, stream);
  }

  // f(chunk) for each, with its output
  template <class F>
  void each(F f) const {
    const Csc by_destination = by_dst(layers.graph);
    src.start();
    dst.start();
    for (int64_t first = 0; first < layers.graph.n_edges; first += length) {
      const int64_t n = std::min(length, layers.graph.n_edges - first);
      find_rows(by_destination, first, n, to, stream);
      const EdgeChunk chunk{by_destination, by_src(layers.graph), first, n, to, place};
      if (reverses) launch_threads(n, stream, edges_find_places, chunk, place);
      load(chunk);
      f(chunk);
    }
  }

  // Go from `grad` to the gradients that are wanted; of_edges gets the rows of those to c_e.
  template <class OfEdges>
  void reverse(const EdgeChunk& chunk, const EdgeLayersGradients<R>& wanted, OfEdges of_edges) {
    if (!wanted.any()) return;
    for (int64_t l = top(); l >= 1; --l) {
      const int64_t width = layers.width(l), n = below(l);
      const Operand<R> g = grad.rows(width);
      const auto to_layer = [&](const Planes<S>& x) {
        to_layers[l - 1].add(dual, chunk.n, x.rows(n).transposed(), g, stream);
      };
      if (wanted.packed) to_biases[l - 1].add(PlanesMatrix<S>{grad, width}, chunk.n, stream);
      if (l > 1) {
        if (wanted.packed) to_layer(hid[l - 2]);
        const GemmShape shape{chunk.n, n, width};
        const Operand<R> back = layers.layer(l).transposed();
        if constexpr (dual) {
          gemm_planes(down[l - 1], shape, g, back, spare, stream);
          launch_threads(chunk.n * n, stream, edges_activate_reverse<S>, layers.activation,
                         chunk.n * n, pre[l - 2], spare);
        } else {
          const GemmSlope<R> to{layers.activation, pre[l - 2].v, spare.v};
          down[l - 1](shape, g, back, to, stream);
        }
        std::swap(grad, spare);
      } else {
        if (wanted.packed) to_layer(seen);
        if (wanted.edge) {
          down[0](dual, {chunk.n, n, width}, g, layers.layer(layers.edge).transposed(), spare.v,
                  false, stream);
          of_edges(EdgeRows<R>{spare.v, n});
        }
      }
    }
    if (wanted.src || wanted.packed) src.add(chunk, grad, spare.v);
    if (wanted.dst || wanted.packed) dst.add(chunk, grad, spare.v);
  }

  // Steps before the first chunk of the way back, and after the last
  void start_reverse() const {
    src.start_reverse();
    dst.start_reverse();
  }
  void finish_reverse(const EdgeLayersGradients<R>& wanted) const {
    for (int64_t l = 1; wanted.packed && l <= top(); ++l) {
      const int64_t start = l == 1 ? layers.start(layers.edge) : layers.start(l);
      to_layers[l - 1].finish(wanted.packed + start, stream);
      to_biases[l - 1].finish(wanted.packed + layers.bias(l), stream);
    }
    src.finish_reverse(wanted.src, wanted.packed);
    dst.finish_reverse(wanted.dst, wanted.packed);
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Weighted and simple aggregation of neighbour features:
//
//     out_i = AggOp over the edges p = (j -> i) of  w_p x_j   or of  e_p
//
// Lanes of a group go over features, groups over units of edges (device/rows.cuh).
#include <initializer_list>

#include "device/face.cuh"
#include "device/rows.cuh"

namespace gnograd {
namespace {

enum Aggregation { agg_sum, agg_mean, agg_min, agg_max };

// One block of columns of the result: what is aggregated into it.
template <class T, class S>
struct Part {
  Input<T, S> x;  // [n_src or n_edges, size]
  Input<T, S> w;  // [n_edges], or null: 1
  bool of_edges;  // x is a table of edges
  Heads heads;    // one head of `size` features
  int64_t column;

  __device__ S weight(const Csc& by_dst, int64_t k) const {
    return w ? w[by_dst.edge_of(k)] : S(1);
  }
  __device__ Vector<S, width<T>> features(const Csc& by_dst, int64_t k, int c) const {
    const int64_t row = of_edges ? by_dst.edge_of(k) : by_dst.indices[k];
    return load_vector(x, row * heads.size + c, heads.size - c, heads.wide);
  }
};

// A matrix with one row per destination that the blocks of columns share.
template <class X>
struct Table {
  X* x;  // [n_dst, stride], or null
  int64_t stride;

  explicit __host__ __device__ operator bool() const { return x; }
  __device__ X* at(int64_t row, int64_t column) const { return x + row * stride + column; }
};

// ---- forward ----

// Sum and Mean. Mean divides by node_degree s_i = sum_p w_p, which is the number of edges where
// there are no weights.
template <class T, class S>
struct SumEdges {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    Vector<S, step> sum;
    S degree = 0;
  };
  using Total = Nothing;

  Csc graph;
  Part<T, S> part;
  Heads heads;
  bool mean;
  Table<T> out;
  real<T>* node_degree;  // [n_dst], or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const S w = part.weight(graph, k);
    partial.degree += w;
    if (const int c = at.column(); c < heads.size) partial.sum.add(w, part.features(graph, k, c));
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.sum.add(more.sum);
  }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    if (mean && graph.offsets[row] < graph.offsets[row + 1])
      for (int v = 0; v < step; ++v) partial.sum[v] = partial.sum[v] / partial.degree;
    if (const int c = at.column(); c < heads.size)
      store_vector(out.at(row, part.column + c), partial.sum, heads.size - c, heads.wide);
    if (node_degree && at.first()) node_degree[row] = result(partial.degree);
  }
};

// Min and Max, feature by feature; of equal candidates the first wins, and NaN wins over numbers.
template <class T, class S>
struct ExtremumOfEdges {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    Vector<S, step> best;
    int64_t where[step];  // CSC position, plus one: 0 is nowhere
  };
  using Total = Nothing;

  Csc graph;
  Part<T, S> part;
  Heads heads;
  real<T> sign;             // of Max 1, of Min -1
  Table<T> out;             // or null
  Table<int64_t> location;  // or null

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void take(Partial& partial, int v, S candidate, int64_t where) const {
    if (!where) return;
    const auto best = sign * value(partial.best[v]);
    if (partial.where[v] && (best != best || sign * value(candidate) <= best)) return;
    partial.best[v] = candidate;
    partial.where[v] = where;
  }
  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    const S w = part.weight(graph, k);
    const auto x = part.features(graph, k, c);
    for (int v = 0; v < step; ++v) take(partial, v, w * x[v], k + 1);
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    for (int v = 0; v < step; ++v) take(partial, v, more.best[v], more.where[v]);
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    if (out) store_vector(out.at(row, part.column + c), partial.best, count, heads.wide);
    if (location)
      for (int v = 0; v < step; ++v)
        if (v < count) *location.at(row, part.column + c + v) = partial.where[v] - 1;
  }
};

// ---- gradients ----

// The cotangent of one block of columns as its edges see it.
template <class T, class S>
struct Cotangent {
  const T* g;  // [n_dst, stride]
  int64_t stride, column;
  Heads heads;
  Table<const int64_t> location;  // Min and Max: who won; else null
  bool mean;
  const S* degree;         // Mean with weights [n_dst]; else null
  const int64_t* offsets;  // of the destinations [n_dst+1]

  // The part of g_i that belongs to CSC position p.
  __device__ Vector<real<T>, width<T>> load(int64_t i, int64_t p, int c) const {
    auto x = load_vector(g + i * stride + column + c, heads.size - c, heads.wide);
    if (location)
      for (int v = 0; v < width<T>; ++v)
        if (c + v < heads.size && *location.at(i, column + c + v) != p) x[v] = 0;
    return x;
  }
  __device__ S divide(S x, int64_t i) const {
    if (!mean) return x;
    return x / (degree ? degree[i] : S(real<T>(offsets[i + 1] - offsets[i])));
  }
};

// grad_x_j = sum over the edges that leave j of w_p g_i (/ s_i), and the cotangent of own_j where
// own is x
template <class T, class S>
struct NodeGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Vector<S, step>;
  using Total = Nothing;

  Csc graph;  // by source
  Input<T, S> w;
  Cotangent<T, S> cotangent;
  Heads heads;
  const T* g_own;  // [n_src, stride of the cotangent], or null
  T* grad;         // [n_src, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    const int64_t i = graph.indices[k];
    const S weight = w ? w[graph.edge_of(k)] : S(1);
    partial.add(cotangent.divide(weight, i), cotangent.load(i, graph.position_of(k), c));
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.add(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t row) const {
    const int c = at.column(), count = heads.size - c;
    if (count <= 0) return;
    if (g_own)
      partial.add(real<T>(1), load_vector(g_own + row * cotangent.stride + c, count, heads.wide));
    store_vector(grad + row * heads.size + c, partial, count, heads.wide);
  }
};

// grad_e_p = g_i (/ number of edges of i)
template <class T, class S>
struct EdgeGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Cotangent<T, S> cotangent;
  Heads heads;
  T* grad;  // [n_edges, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int c = at.column();
    if (c >= heads.size) return;
    Vector<S, step> x;
    x.add(cotangent.divide(S(1), i), cotangent.load(i, k, c));
    store_vector(grad + graph.edge_of(k) * heads.size + c, x, heads.size - c, heads.wide);
  }
};

// d_p = g_i . x_j, which is grad_w_p except for Mean; there s_i = sum_p w_p and
// delta_i = sum_p w_p d_p / s_i are what MeanWeightGradient needs besides.
template <class T, class S>
struct WeightGradient {
  static constexpr int step = width<T>, unroll = 4;
  struct Partial {
    S degree = 0, weighted = 0;
  };
  using Total = Nothing;

  Csc graph;
  Part<T, S> part;
  Cotangent<T, S> cotangent;
  Heads heads;
  T* grad;    // [n_edges]; or null: not wanted, then d is not computed
  S* d;       // [n_edges], Mean only
  S* degree;  // [n_dst], Mean only
  S* delta;   // [n_dst], Mean only

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t i, int64_t k) const {
    const S w = part.weight(graph, k);
    partial.degree += w;
    if (!grad) return;
    const S dot = sum_over_head<S>(heads, at, [&](int c) {
      return inner<S>(cotangent.load(i, k, c), part.features(graph, k, c));
    });
    partial.weighted += w * dot;
    if (!at.first()) return;
    if (cotangent.mean) d[k] = dot;
    else grad[graph.edge_of(k)] = T(result(dot));
  }
  __device__ void merge(Partial& partial, const Partial& more) const {
    partial.degree += more.degree;
    partial.weighted += more.weighted;
  }
  __device__ void finish(const Partial& partial, const Place& at, int64_t row) const {
    if (!cotangent.mean || !at.first()) return;
    degree[row] = partial.degree;
    delta[row] = partial.weighted / partial.degree;
  }
};

// grad_w_p = g_i . (x_j - out_i) / s_i = (d_p - delta_i) / s_i
template <class T, class S>
struct MeanWeightGradient {
  static constexpr int step = width<T>, unroll = 4;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  const S* d;
  const S* degree;
  const S* delta;
  T* grad;

  __host__ __device__ int tiles() const { return 1; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    if (at.first()) grad[graph.edge_of(k)] = T(result((d[k] - delta[i]) / degree[i]));
  }
};

// to[:, c] = from[:, c], for the destinations' own features; zeros where `from` is null.
template <class T>
__global__ void __launch_bounds__(block_threads)
    copy_columns(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n_rows,
                 int64_t n_columns) {
  const int64_t row = thread_number() / n_columns, column = thread_number() % n_columns;
  if (row < n_rows) to[row * to_stride + column] = from ? from[row * from_stride + column] : T(0);
}

// ---- launchers ----

struct Sizes {
  int64_t node, edge, own;  // features of each block of columns
  int64_t aggregated() const { return node + edge; }
  int64_t row() const { return node + edge + own; }
};

template <class T, class S>
struct Inputs {
  Input<T, S> x;    // [n_src, node]
  Input<T, S> w;    // [n_edges] weights of the nodes' part, or null
  Input<T, S> e;    // [n_edges, edge]
  Input<T, S> own;  // [n_dst, own]
};

template <class T>
struct Gradients {
  T *x, *w, *e, *own;  // each or null; own may be x
};

template <class T, class S>
struct Family {
  const gnograd_cuda_graph& graph;
  Sizes sizes;
  int aggregation;
  Inputs<T, S> in;
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
  Part<T, S> node_part(const void* table, P... others) const {
    return {in.x, in.w, false, heads(sizes.node, table, 0, in.x.v, in.x.d, others...), 0};
  }
  template <class... P>
  Part<T, S> edge_part(const void* table, P... others) const {
    return {in.e,
            {},
            true,
            heads(sizes.edge, table, sizes.node, in.e.v, in.e.d, others...),
            sizes.node};
  }

  void aggregate(const Part<T, S>& part, const Cut& cut, void* split, T* out, int64_t* location,
                 real<T>* node_degree) const {
    const Csc rows = by_dst(graph);
    if (extremum())
      for_rows(ExtremumOfEdges<T, S>{rows,
                                     part,
                                     part.heads,
                                     real<T>(aggregation == agg_max ? 1 : -1),
                                     {out, sizes.row()},
                                     {location, sizes.aggregated()}},
               cut, split, stream);
    else
      for_rows(
          SumEdges<T, S>{
              rows, part, part.heads, aggregation == agg_mean, {out, sizes.row()}, node_degree},
          cut, split, stream);
  }

  // Room for the divided rows of all operations here: what is largest.
  void* take_split(const Cut& dst, const Cut& src) const {
    size_t most = 0;
    for (const int64_t size : {sizes.node, sizes.edge}) {
      const Heads h = make_heads<T>(1, size, false);
      most = std::max({most, split_bytes<SumEdges<T, S>>(dst, h, h.tiles),
                       split_bytes<ExtremumOfEdges<T, S>>(dst, h, h.tiles),
                       split_bytes<NodeGradient<T, S>>(src, h, h.tiles),
                       split_bytes<WeightGradient<T, S>>(dst, h, 1)});
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
      aggregate(node_part(out), cut, split, out, location, node_degree);
    if (sizes.edge) aggregate(edge_part(out), cut, split, out, location, nullptr);
    launch_threads(graph.n_dst * sizes.own, stream, copy_columns<T>,
                   ScalarTraits<S>::dual ? in.own.d : in.own.v, sizes.own, out + sizes.aggregated(),
                   sizes.row(), graph.n_dst, sizes.own);
    return cudaGetLastError();
  }

  // location and node_degree may come from the forward pass; null: computed here.
  int gradients(const T* g, const int64_t* location, const S* node_degree,
                const Gradients<T>& grad) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const bool mean = aggregation == agg_mean;
    const Csc rows = by_dst(graph), columns = by_src(graph);
    const Cut cut = take_cut(rows, workspace), transposed = take_cut(columns, workspace);
    void* split = take_split(cut, transposed);
    int64_t* found = workspace.take<int64_t>(extremum() ? graph.n_dst * sizes.aggregated() : 0);
    S* d = workspace.take<S>(mean ? graph.n_edges : 0);
    S* degree = workspace.take<S>(mean ? graph.n_dst : 0);
    S* delta = workspace.take<S>(mean ? graph.n_dst : 0);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    cut_rows(rows, cut, stream);
    if (grad.x) cut_rows(columns, transposed, stream);
    if (extremum() && !location) {
      if (grad.x || grad.w) aggregate(node_part(nullptr), cut, split, nullptr, found, nullptr);
      if (grad.e && !ScalarTraits<S>::dual)
        aggregate(edge_part(nullptr), cut, split, nullptr, found, nullptr);
      location = found;
    }
    const T* g_own = g + sizes.aggregated();
    const bool own_is_x =
        grad.own == grad.x && sizes.own == sizes.node && graph.n_dst == graph.n_src;
    T* grad_own = own_is_x ? nullptr : grad.own;
    const auto cotangent = [&](const Part<T, S>& part) {
      return Cotangent<T, S>{g,
                             sizes.row(),
                             part.column,
                             part.heads,
                             {extremum() ? location : nullptr, sizes.aggregated()},
                             mean,
                             nullptr,
                             graph.by_dst.offsets};
    };
    if (!sizes.node) {  // no block has weights
      zero(grad.w, graph.n_edges);
    } else if (grad.x || grad.w) {
      const auto part = node_part(g, grad.x);
      auto nodes = cotangent(part);
      const bool weighted_mean = mean && in.w;
      if (grad.w || (weighted_mean && !node_degree)) {
        for_rows(WeightGradient<T, S>{rows, part, nodes, part.heads, grad.w, d, degree, delta}, cut,
                 split, stream);
        if (mean && grad.w)
          for_rows(MeanWeightGradient<T, S>{rows, part.heads, d, degree, delta, grad.w}, cut, split,
                   stream);
        node_degree = degree;
      }
      if (weighted_mean) nodes.degree = node_degree;
      if (grad.x)
        for_rows(NodeGradient<T, S>{columns, in.w, nodes, part.heads,
                                    own_is_x && !ScalarTraits<S>::dual ? g_own : nullptr, grad.x},
                 transposed, split, stream);
    }
    if constexpr (ScalarTraits<S>::dual) {  // linear in e and own: no second derivative
      zero(grad.e, graph.n_edges * sizes.edge);
      zero(grad_own, graph.n_dst * sizes.own);
    } else {
      if (grad.e) {
        const auto part = edge_part(g, grad.e);
        for_rows(EdgeGradient<T, S>{rows, cotangent(part), part.heads, grad.e}, cut, split, stream);
      }
      if (grad_own)
        launch_threads(graph.n_dst * sizes.own, stream, copy_columns<T>, g_own, sizes.row(),
                       grad_own, sizes.own, graph.n_dst, sizes.own);
    }
    return cudaGetLastError();
  }
};

// ---- the four faces ----

// Arrays of one call as they cross the C ABI: values of the inputs, or their tangents.
struct Arrays {
  const void *x = nullptr, *w = nullptr, *e = nullptr, *own = nullptr;
};

template <class T, class S>
Inputs<T, S> inputs(const Arrays& values, const Arrays& tangents = {}) {
  const auto input = make_input<T, S>;
  return {input(values.x, tangents.x), input(values.w, tangents.w), input(values.e, tangents.e),
          input(values.own, tangents.own)};
}

template <class T>
struct Faces {
  const gnograd_cuda_graph* graph;
  Sizes sizes;
  int aggregation;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  template <class S>
  Family<T, S> family(const Inputs<T, S>& in) {
    return {*graph, sizes, aggregation, in, workspace, stream};
  }

  int forward(const Arrays& in, void* out, int64_t* location, void* node_degree) {
    return family(inputs<T, real<T>>(in))
        .forward(static_cast<T*>(out), location, static_cast<real<T>*>(node_degree));
  }
  int vjp(const void* g, const Arrays& in, const int64_t* location, const void* node_degree,
          const Gradients<T>& grad) {
    return family(inputs<T, real<T>>(in))
        .gradients(static_cast<const T*>(g), location, static_cast<const real<T>*>(node_degree),
                   grad);
  }
  int jvp(const Arrays& in, const Arrays& tangents, void* out) {
    return family(inputs<T, Dual<real<T>>>(in, tangents))
        .forward(static_cast<T*>(out), nullptr, nullptr);
  }
  int hvp(const void* g, const Arrays& in, const Arrays& tangents, const Gradients<T>& grad) {
    return family(inputs<T, Dual<real<T>>>(in, tangents))
        .gradients(static_cast<const T*>(g), nullptr, nullptr, grad);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() { return forward({}, nullptr, nullptr, nullptr), workspace.bytes(); }
  size_t vjp_bytes() { return vjp(nullptr, {}, nullptr, nullptr, {}), workspace.bytes(); }
  size_t jvp_bytes() { return jvp({}, {}, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, {}, {}, {}), workspace.bytes(); }
};

template <class T>
Gradients<T> gradients(void* x, void* w, void* e = nullptr, void* own = nullptr) {
  return {static_cast<T*>(x), static_cast<T*>(w), static_cast<T*>(e), static_cast<T*>(own)};
}

}  // namespace
}  // namespace gnograd

using namespace gnograd;

#define AGG_WEIGHTED(face, type, T, call, ...)              \
  DEFINE_FACE(                                              \
      agg_weighted_##face, type, GNOGRAD_CUDA_AGG_WEIGHTED, \
      (Faces<T>{graph, {n_features, 0, 0}, aggregation}), face##_bytes, call, __VA_ARGS__)
#define AGG_SIMPLE(face, type, T, call, ...)                                                \
  DEFINE_FACE(                                                                              \
      agg_simple_##face, type, GNOGRAD_CUDA_AGG_SIMPLE,                                     \
      (Faces<T>{graph, {n_features, n_edge_features, 0}, aggregation}), face##_bytes, call, \
      __VA_ARGS__)
#define AGG_CONCAT(face, type, T, call, ...)                                         \
  DEFINE_FACE(                                                                       \
      agg_concat_##face, type, GNOGRAD_CUDA_AGG_CONCAT,                              \
      (Faces<T>{graph, {n_features, n_edge_features, n_own_features}, aggregation}), \
      face##_bytes, call, __VA_ARGS__)

#define AGGREGATION(type, T)                                                                       \
  AGG_WEIGHTED(forward, type, T, forward({x, w}, out, location, degree), const void* x,            \
               const void* w, void* out, int64_t* location, void* degree)                          \
  AGG_WEIGHTED(vjp, type, T,                                                                       \
               vjp(cotangent, {x, w}, location, degree, gradients<T>(grad_x, grad_w)),             \
               const void* cotangent, const void* x, const void* w, const void*,                   \
               const int64_t* location, const void* degree, void* grad_x, void* grad_w)            \
  AGG_WEIGHTED(jvp, type, T, jvp({x, w}, {x_tangent, w_tangent}, out_tangent), const void* x,      \
               const void* w, const void* x_tangent, const void* w_tangent, void* out_tangent)     \
  AGG_WEIGHTED(hvp, type, T,                                                                       \
               hvp(cotangent, {x, w}, {x_tangent, w_tangent},                                      \
                   gradients<T>(grad_x_tangent, grad_w_tangent)),                                  \
               const void* cotangent, const void* x, const void* w, const void* x_tangent,         \
               const void* w_tangent, void* grad_x_tangent, void* grad_w_tangent)                  \
  AGG_SIMPLE(forward, type, T, forward({x, nullptr, e}, out, location, nullptr), const void* x,    \
             const void* e, void* out, int64_t* location)                                          \
  AGG_SIMPLE(                                                                                      \
      vjp, type, T,                                                                                \
      vjp(cotangent, {x, nullptr, e}, location, nullptr, gradients<T>(grad_x, nullptr, grad_e)),   \
      const void* cotangent, const void* x, const void* e, const int64_t* location, void* grad_x,  \
      void* grad_e)                                                                                \
  AGG_SIMPLE(jvp, type, T, jvp({x, nullptr, e}, {x_tangent, nullptr, e_tangent}, out_tangent),     \
             const void* x, const void* e, const void* x_tangent, const void* e_tangent,           \
             void* out_tangent)                                                                    \
  AGG_SIMPLE(hvp, type, T,                                                                         \
             hvp(cotangent, {x, nullptr, e}, {x_tangent, nullptr, e_tangent},                      \
                 gradients<T>(grad_x_tangent, nullptr, grad_e_tangent)),                           \
             const void* cotangent, const void* x, const void* e, const void* x_tangent,           \
             const void* e_tangent, void* grad_x_tangent, void* grad_e_tangent)                    \
  AGG_CONCAT(forward, type, T, forward({x, w, e, own}, out, location, degree), const void* x,      \
             const void* w, const void* e, const void* own, void* out, int64_t* location,          \
             void* degree)                                                                         \
  AGG_CONCAT(                                                                                      \
      vjp, type, T,                                                                                \
      vjp(cotangent, {x, w, e}, location, degree, gradients<T>(grad_x, grad_w, grad_e, grad_own)), \
      const void* cotangent, const void* x, const void* w, const void* e, const void*,             \
      const void*, const int64_t* location, const void* degree, void* grad_x, void* grad_w,        \
      void* grad_e, void* grad_own)                                                                \
  AGG_CONCAT(                                                                                      \
      jvp, type, T, jvp({x, w, e}, {x_tangent, w_tangent, e_tangent, own_tangent}, out_tangent),   \
      const void* x, const void* w, const void* e, const void*, const void* x_tangent,             \
      const void* w_tangent, const void* e_tangent, const void* own_tangent, void* out_tangent)    \
  AGG_CONCAT(hvp, type, T,                                                                         \
             hvp(cotangent, {x, w}, {x_tangent, w_tangent},                                        \
                 gradients<T>(grad_x_tangent, grad_w_tangent, grad_e_tangent, grad_own_tangent)),  \
             const void* cotangent, const void* x, const void* w, const void*, const void*,        \
             const void* x_tangent, const void* w_tangent, const void*, const void*,               \
             void* grad_x_tangent, void* grad_w_tangent, void* grad_e_tangent,                     \
             void* grad_own_tangent)
AGGREGATION(f32, float)
AGGREGATION(f64, double)
AGGREGATION(f16, __half)
AGGREGATION(bf16, __nv_bfloat16)

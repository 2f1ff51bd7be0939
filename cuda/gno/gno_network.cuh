// SPDX-License-Identifier: MIT
// The kernel network of the GNO operators, on edges:
//
//     hid_e = act(U^T c_e + b_u),     kappa_e = hid_e . V + b_v
//
// [V; b_v] is one matrix for [hid_e; 1], of K = H + 1 hidden features. Edges are numbered by their
// positions in some order; behind the last one all is 0. Coordinates are in the type R of the
// arithmetic, all else is stored as T.
#pragma once
#include "device/activation.cuh"
#include "device/lanes.cuh"
#include "device/planes.cuh"
#include "device/rows.cuh"
#include "device/sums.cuh"

namespace gnograd {

// Source of the hidden features of an edge: its coordinates, or a table.
template <class T, class S>
struct EdgeNetwork {
  using R = real<T>;

  Input<R, S> coords;  // [n_edges, d]
  Input<T, S> u, b_u;  // [d, H], [H]
  Input<T, S> hid;     // [n_edges, H]
  bool from_table;
  int d, n_hidden, activation;

  __host__ __device__ int64_t size() const { return n_hidden + 1; }
  __host__ __device__ int64_t layer() const { return int64_t(d + 1) * n_hidden; }

  __device__ S before(int64_t e, int64_t k) const {
    S sum = b_u[k];
    for (int a = 0; a < d; ++a) sum += coords[e * d + a] * u[a * n_hidden + k];
    return sum;
  }
  __device__ S operator()(int64_t e, int64_t k) const {
    if (k == n_hidden) return S(R(1));
    return from_table ? hid[e * n_hidden + k] : activate(activation, before(e, k));
  }
};

// A hidden feature of many edges, with the first of its weights at hand.
template <class T, class S>
class HiddenFeature {
  using R = real<T>;
  static constexpr int kept = 3;
  const EdgeNetwork<T, S>& network;
  int k;
  S bias = R(0), u[kept];

 public:
  // k may be beyond the last, where there is none
  __device__ HiddenFeature(const EdgeNetwork<T, S>& network, int k) : network(network), k(k) {
    if (network.from_table || k >= network.n_hidden) return;
    bias = network.b_u[k];
#pragma unroll
    for (int a = 0; a < kept; ++a)
      u[a] = a < network.d ? network.u[a * network.n_hidden + k] : S(R(0));
  }
  __device__ S before(int64_t e) const {
    const int64_t c = e * network.d;
    S sum = bias;
#pragma unroll
    for (int a = 0; a < kept; ++a)
      if (a < network.d) sum += network.coords[c + a] * u[a];
    for (int a = kept; a < network.d; ++a)
      sum += network.coords[c + a] * network.u[a * network.n_hidden + k];
    return sum;
  }
  __device__ S operator()(int64_t e) const {
    return network.from_table ? network.hid[e * network.n_hidden + k]
                              : activate(network.activation, before(e));
  }
};

// [V; b_v] with the index (f, g) of kappa and the hidden feature k in the order (f, k, g), or (k,
// f, g). `f_step` and `g_step` are strides of kappa.
struct LayerOrder {
  int64_t f, g, f_step, g_step;
  bool hidden_first = false;

  __host__ __device__ int64_t kappa() const { return f * g; }
  // k and the place in kappa of entry i, of n k
  __device__ void find(int64_t i, int64_t n, int64_t& k, int64_t& at) const {
    const int64_t row = i / g, inner = hidden_first ? f : n;
    const int64_t outer = row / inner, rest = row % inner;
    k = hidden_first ? outer : rest;
    at = (hidden_first ? rest : outer) * f_step + i % g * g_step;
  }
};

// Thread: an entry of the packed layer, read and written once; writes are in order, reads f_step or
// g_step apart.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_pack_layer(LayerOrder order, int64_t n_hidden, Input<T, S> v, Input<T, S> b_v,
                   Planes<S, T> packed) {
  const int64_t i = thread_number();
  if (i >= order.kappa() * (n_hidden + 1)) return;
  int64_t k, at;
  order.find(i, n_hidden + 1, k, at);
  packed.set(i, k < n_hidden ? v[k * order.kappa() + at] : b_v[at]);
}

// Inverse of gno_pack_layer, for gradients, from the parts of a sum.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gno_unpack_layer(LayerOrder order, int64_t n_hidden, int parts,
                     const real<T>* __restrict__ packed, T* __restrict__ v, T* __restrict__ b_v) {
  const int64_t i = thread_number(), size = order.kappa() * (n_hidden + 1);
  if (i >= size) return;
  int64_t k, at;
  order.find(i, n_hidden + 1, k, at);
  real<T> sum = 0;
  for (int p = 0; p < parts; ++p) sum += packed[p * size + i];
  if (k < n_hidden) {
    if (v) v[k * order.kappa() + at] = T(sum);
  } else {
    if (b_v) b_v[at] = T(sum);
  }
}

template <class T, class S>
void pack_layer(const LayerOrder& order, int64_t n_hidden, const Input<T, S>& v,
                const Input<T, S>& b_v, const Planes<S, T>& packed, cudaStream_t stream) {
  launch_threads(order.kappa() * (n_hidden + 1), stream, gno_pack_layer<T, S>, order, n_hidden, v,
                 b_v, packed);
}
template <class T>
void unpack_layer(const LayerOrder& order, int64_t n_hidden, const GemmSum<T>& sum, T* v, T* b_v,
                  cudaStream_t stream) {
  launch_threads(order.kappa() * (n_hidden + 1), stream, gno_unpack_layer<T>, order, n_hidden,
                 sum.parts, sum.part, v, b_v);
}

// ---- tiles of edges: `n` positions from `first` on ----

struct TilePositions {
  const int64_t* edge;  // [n_edges] rows of the edge table, or null: the position itself
  const int64_t* end;   // number of edges, or null: all that there is room for
  int64_t first;

  explicit TilePositions(int64_t first) : edge(nullptr), end(nullptr), first(first) {}
  TilePositions(const Csc& graph, int64_t first)
      : edge(graph.edge), end(graph.offsets + graph.n_rows), first(first) {}

  __device__ bool has(int64_t at) const { return !end || first + at < *end; }
  __device__ int64_t row(int64_t at) const { return edge ? edge[first + at] : first + at; }
};

// hidden [n, K]. Thread: a hidden feature of an edge; 2 d operations and an activation, reads d
// numbers of the edge and d of u, all but the first from caches, writes one; bound by the writes
// and the activation.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_hidden_features(EdgeNetwork<T, S> network, TilePositions tile, int64_t n,
                        Planes<S, T> hidden) {
  const int64_t i = thread_number();
  const auto [at, k] = divided(i, int(network.size()));
  if (at < n) hidden.set(i, tile.has(at) ? network(tile.row(at), k) : S(real<T>(0)));
}

// Gradients to hid become gradients to the first layer's sums, in place. Thread: a hidden feature
// of an edge, whose sum is formed anew; bound by reading and writing `grad` and by the slope.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_before_activation(EdgeNetwork<T, S> network, TilePositions tile, int64_t n,
                          Planes<S, T> grad) {
  const int64_t i = thread_number();
  const auto [at, k] = divided(i, network.n_hidden);
  if (at >= n || !tile.has(at)) return;
  const int64_t e = tile.row(at);
  grad.set(i, grad[i] * slope(network.activation, network.before(e, k)));
}

// Gradients to a table of hidden features. Thread: one of an edge; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_store_hidden(EdgeNetwork<T, S> network, TilePositions tile, int64_t n, Planes<S, T> grad,
                     T* __restrict__ grad_hid) {
  const int64_t i = thread_number();
  const auto [at, k] = divided(i, network.n_hidden);
  if (at >= n || !tile.has(at)) return;
  grad_hid[tile.row(at) * network.n_hidden + k] = T(result(grad[i]));
}

// Warp: a coordinate of an edge, lanes over hidden features. Reads H numbers of `grad` and of u, d
// times for an edge, from caches but for the first; bound by these reads.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_coordinate_gradient(EdgeNetwork<T, S> network, TilePositions tile, int64_t n,
                            Planes<S, T> grad, real<T>* __restrict__ grad_coords) {
  const Group warp = this_group(warp_lanes);
  const auto [at, a] = divided(warp.number, network.d);
  if (at >= n || !tile.has(at)) return;
  S sum = 0;
  for (int k = warp.lane; k < network.n_hidden; k += warp_lanes)
    sum += grad[at * network.n_hidden + k] * network.u[int64_t(a) * network.n_hidden + k];
  sum = group_sum(sum, warp);
  if (warp.lane == 0) grad_coords[tile.row(at) * network.d + a] = result(sum);
}

// Terms that an edge adds to the gradients of [U; b_u].
template <class T, class S>
struct FirstLayerTerms {
  EdgeNetwork<T, S> network;
  TilePositions tile;
  Planes<S, T> grad;

  __device__ S operator()(int64_t at, int64_t column) const {
    if (!tile.has(at)) return S(real<T>(0));
    const auto [a, k] = divided(column, network.n_hidden);
    const S x = grad[at * network.n_hidden + k];
    return a == network.d ? x : x * network.coords[tile.row(at) * network.d + a];
  }
};

// Gradients of [U; b_u] go to both, or to the one that is wanted.
template <class T>
struct FirstLayerGradients {
  T *u, *b_u;
  int64_t size;  // numbers of u
  template <class S>
  __device__ void operator()(int64_t i, S sum) const {
    T* const to = i < size ? u : b_u;
    if (to) to[i < size ? i : i - size] = T(result(sum));
  }
};

// Gradients of [U; b_u], from sums that tiles left behind, [n, d + 1, H].
template <class T, class S>
class FirstLayer {
  int64_t d, n_hidden, n;
  FoldSpace<S> space;

 public:
  S* sums;

  FirstLayer(const EdgeNetwork<T, S>& network, int64_t n, Workspace& workspace)
      : d(network.d),
        n_hidden(network.n_hidden),
        n(n),
        space(n, network.layer(), workspace),
        sums(workspace.take<S>(n * network.layer())) {}

  void finish(T* grad_u, T* grad_b_u, cudaStream_t stream) {
    const int64_t width = (d + 1) * n_hidden;
    sum_rows(PlainMatrix<S>{sums, width}, n, width, space,
             FirstLayerGradients<T>{grad_u, grad_b_u, d * n_hidden}, stream);
  }
};

// A tile of edges with its hidden features, their gradients, and all that follows from these.
template <class T, class S>
struct EdgeTile {
  EdgeNetwork<T, S> network;
  cudaStream_t stream;
  int64_t n_edges, length, n_tiles;
  FoldSpace<S> space;
  FirstLayer<T, S> layer;
  Planes<S, T> hidden, grad;  // [length, K], [length, H]

  // The longest that leaves all arrays of an edge, `width` numbers a row besides, in a GPU's cache
  static int64_t tile_length(int64_t n_edges, int64_t width) {
    const int64_t fit = (int64_t(16) << 20) / int64_t(Planes<S, T>::bytes * width);
    return std::max<int64_t>(1, std::min(n_edges, std::clamp<int64_t>(fit, 1024, 65536)));
  }

  EdgeTile(const EdgeNetwork<T, S>& network, int64_t n_edges, int64_t width, Workspace& workspace,
           cudaStream_t stream)
      : network(network),
        stream(stream),
        n_edges(n_edges),
        length(tile_length(n_edges, std::max(width, network.size()))),
        n_tiles(ceil_div(n_edges, length)),
        space(length, network.layer(), workspace),
        layer(network, n_tiles, workspace),
        hidden(length * network.size(), workspace),
        grad(length * network.n_hidden, workspace) {}

  // Call f(first, n) for every tile.
  template <class F>
  void for_tiles(F f) const {
    for (int64_t first = 0; first < n_edges; first += length)
      f(first, std::min(length, n_edges - first));
  }

  void load(const TilePositions& tile, int64_t n) const {
    launch_threads(n * network.size(), stream, gno_hidden_features<T, S>, network, tile, n, hidden);
  }

  // Go back through the layer, with the gradients of hid in `grad`.
  void reverse(const TilePositions& tile, int64_t n, real<T>* grad_coords, T* grad_hid,
               bool want_layer) const {
    const int64_t size = n * network.n_hidden;
    if (network.from_table) {
      if (grad_hid)
        launch_threads(size, stream, gno_store_hidden<T, S>, network, tile, n, grad, grad_hid);
      return;
    }
    if (!grad_coords && !want_layer) return;
    launch_threads(size, stream, gno_before_activation<T, S>, network, tile, n, grad);
    if (grad_coords)
      launch_threads(n * network.d * warp_lanes, stream, gno_coordinate_gradient<T, S>, network,
                     tile, n, grad, grad_coords);
    if (want_layer)
      sum_rows(FirstLayerTerms<T, S>{network, tile, grad}, n, network.layer(), space,
               layer.sums + tile.first / length * network.layer(), stream);
  }

  void finish(T* grad_u, T* grad_b_u) { layer.finish(grad_u, grad_b_u, stream); }
};

}  // namespace gnograd

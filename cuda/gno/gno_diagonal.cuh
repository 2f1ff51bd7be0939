// SPDX-License-Identifier: MIT
// The GNO sum with a diagonal kernel, out_i = s_i sum over e = (j -> i) of w_e h_j o kappa_e, in
// tiles of edges. A row whose edges lie in several tiles is added up tile by tile, and in a tile in
// pieces: it is cut where units of `unit_edges` begin. The first piece of a row goes to its sum,
// the others are joined by a tree. The functions of a batch have one kappa. In bfloat16 hidden
// features, kappa and their gradients are rounded, and a row is when all its tiles have been added.
#pragma once
#include "gno_network.cuh"
#include "gno_sum.cuh"

namespace gnograd {

// Edges of a unit, and units that are joined at a time.
constexpr int unit_edges = 16, joined_units = 32;

// The edges of a tile in units. Unit u has piece number u, if its first row began before it.
struct TileUnits {
  const int32_t* rows;  // [n] of the tile's edges; n_rows where there is none
  int n, n_rows;

  __host__ __device__ int count() const { return (n + unit_edges - 1) / unit_edges; }
  // The row of which unit u has a further piece, or -1
  __device__ int further(int u) const {
    const int q = u * unit_edges;
    if (u == 0 || u >= count() || rows[q] != rows[q - 1]) return -1;
    return rows[q] < n_rows ? rows[q] : -1;
  }
};

// sums[row] += coefficient x o kappa over the edges of a tile that are their row's first piece;
// pieces [units, width] = that of the others. Thread: a feature of a unit, of whose edges it loads
// eight before it adds them up. Reads kappa and x once; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_add_messages(GnoWalk<T, S> walk, int width, int64_t first, TileUnits units,
                     Planes<S, T> kappa, real<T>* __restrict__ pieces, real<T>* __restrict__ sums) {
  constexpr int at_once = 8;
  const auto place = divided<int>(thread_number(), int(walk.width));
  const int unit = place.quotient, f = place.rest;
  if (unit >= units.count()) return;
  const int begin = unit * unit_edges;
  const int64_t left = walk.graph.end() - first;
  const int end = int(max(min(left, int64_t(min(begin + unit_edges, units.n))), int64_t(0)));
  const Planes<S, T> factors = kappa + f % width;
  bool further = units.further(unit) >= 0;
  int row = begin < end ? units.rows[begin] : -1;
  S sum = real<T>(0);
  const auto leave = [&] {
    if (further) pieces[int64_t(unit) * walk.width + f] = result(sum);
    else sums[row * walk.width + f] += result(sum);
    further = false;
    sum = real<T>(0);
  };
  for (int q = begin; q < end; q += at_once) {
    S message[at_once];
    int row_of_message[at_once];
#pragma unroll
    for (int b = 0; b < at_once; ++b)
      if (q + b < end) {
        row_of_message[b] = units.rows[q + b];
        message[b] = walk.coefficient(row_of_message[b], first + q + b) *
                     walk.feature(first + q + b, f) * factors[int64_t(q + b) * width];
      }
#pragma unroll
    for (int b = 0; b < at_once; ++b)
      if (q + b < end) {
        if (row_of_message[b] != row) {
          leave();
          row = row_of_message[b];
        }
        sum += message[b];
      }
  }
  if (begin < end) leave();
}

// The first of 32 units collects the pieces of the row that it goes on with. Thread: a feature of
// 32 units. Reads pieces once, from L2.
template <class R>
__global__ void __launch_bounds__(block_threads)
    gno_join_units(TileUnits units, int64_t width, R* __restrict__ pieces) {
  const auto [group, f] = divided<int>(thread_number(), int(width));
  const int u = group * joined_units, row = units.further(u);
  if (row < 0 || row != units.further(u + 1)) return;
  R* const mine = pieces + u * width + f;
  R sum = *mine;
  for (int v = 1; v < joined_units && units.further(u + v) == row; ++v) sum += mine[v * width];
  *mine = sum;
}

// sums[row] += its pieces, after gno_join_units: 31 and one for 32 units, at most. Thread: a
// feature of a row's second piece; others end at once.
template <class R>
__global__ void __launch_bounds__(block_threads)
    gno_join_rows(TileUnits units, int64_t width, const R* __restrict__ pieces,
                  R* __restrict__ sums) {
  const auto [unit, f] = divided<int>(thread_number(), int(width));
  const int row = units.further(unit);
  if (row < 0 || row == units.further(unit - 1)) return;
  R sum = R(0);
  for (int u = unit; units.further(u) == row; u = u % joined_units ? u + 1 : u + joined_units)
    sum += pieces[u * width + f];
  sums[row * width + f] += sum;
}

// Gradients to kappa, for edges by source. Thread: a feature of an edge; reads two numbers a
// function, writes one; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_kappa_gradient(GnoWalk<T, S> walk, int width, Input<T, S> h, int64_t first, int64_t n,
                       const int32_t* __restrict__ rows, Planes<S, T> grad) {
  const auto [q, column] = divided(thread_number(), width);
  if (q >= n) return;
  const int64_t j = rows[q];
  S sum = 0;
  if (j < walk.graph.n_rows)  // else there is no edge
    for (int64_t f = column; f < walk.width; f += width) {
      const S x = h ? h[j * walk.width + f] : S(real<T>(1));
      sum += walk.coefficient(j, first + q) * walk.feature(first + q, f) * x;
    }
  grad.set(thread_number(), sum);
}

// Gradients to the weights. Warp: an edge, lanes over features. Reads three numbers a feature, two
// through indices; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    gno_weight_gradient(GnoWalk<T, S> walk, int width, Input<T, S> h, int64_t first, int64_t n,
                        const int32_t* __restrict__ rows, Planes<S, T> kappa,
                        real<T>* __restrict__ grad_weight) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number, k = first + q;
  if (q >= n || rows[q] == walk.graph.n_rows) return;
  const int64_t j = rows[q];
  S sum = 0;
  for (int f = warp.lane; f < walk.width; f += warp_lanes)
    sum += walk.feature(k, f) * (h ? h[j * walk.width + f] : S(real<T>(1))) *
           kappa[q * width + f % width];
  sum = group_sum(sum, warp);
  if (warp.lane == 0) grad_weight[walk.graph.edge_of(k)] = result(walk.scale(j, k) * sum);
}

// Thread: a number, read and written once; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gno_store_sums(int64_t n, const real<T>* __restrict__ sums, T* __restrict__ to) {
  const int64_t i = thread_number();
  if (i < n) to[i] = T(sums[i]);
}

// Sums to which tiles add: the result itself, or, where that is of half precision, float32.
template <class T>
struct TileSums {
  static constexpr bool apart = !std::is_same_v<T, real<T>>;

  T* to;  // null: not wanted
  int64_t n;
  real<T>* sums;

  TileSums(T* to, int64_t n, Workspace& workspace)
      : to(to), n(n), sums(workspace.take<real<T>>(apart ? n : 0)) {
    if constexpr (!apart) sums = to;
  }
  void clear(cudaStream_t stream) const { set_zero(sums, n, stream); }
  void store(cudaStream_t stream) const {
    if constexpr (apart) launch_threads(n, stream, gno_store_sums<T>, n, sums, to);
  }
};

template <class T, class S>
struct GnoDiagonalSum {
  using R = real<T>;
  static constexpr bool dual = ScalarTraits<S>::dual;

  const GnoProblem<T, S>& problem;
  Workspace& workspace;
  cudaStream_t stream;

  int64_t width() const { return problem.f_out; }
  int64_t features() const { return problem.network.size(); }
  LayerOrder order() const { return {1, width(), 0, 1}; }

  // kappa of the edges of a tile
  void matrices(const EdgeTile<T, S>& tile, const Gemm<T>& to_kappa, const Planes<S, T>& layer,
                int64_t n, const Planes<S, T>& kappa) const {
    const GemmShape shape{n, width(), features()};
    const auto a = tile.hidden.rows(features()), b = layer.rows(width());
    gemm_planes(to_kappa, shape, a, b, kappa, stream);
  }
  // Add the messages of a tile with kappa.
  void add_messages(const GnoWalk<T, S>& walk, int64_t first, int64_t n, const int32_t* rows,
                    const Planes<S, T>& kappa, R* pieces, R* sums) const {
    const TileUnits units{rows, int(n), int(walk.graph.n_rows)};
    const int64_t n_units = units.count();
    launch_threads(n_units * walk.width, stream, gno_add_messages<T, S>, walk, int(width()), first,
                   units, kappa, pieces, sums);
    if (n_units > joined_units)
      launch_threads(ceil_div(n_units, joined_units) * walk.width, stream, gno_join_units<R>, units,
                     walk.width, pieces);
    if (n_units > 1)
      launch_threads(n_units * walk.width, stream, gno_join_rows<R>, units, walk.width, pieces,
                     sums);
  }
  R* take_pieces(int64_t length) const {
    return workspace.take<R>(ceil_div(length, unit_edges) * problem.n_batch * width());
  }
  void pack(const Planes<S, T>& layer) const {
    pack_layer(order(), problem.network.n_hidden, problem.v, problem.b_v, layer, stream);
  }

  int forward(T* out) const {
    const EdgeTile<T, S> tile(problem.network, problem.graph.n_edges, width(), workspace, stream);
    const Planes<S, T> layer(features() * width(), workspace);
    const Planes<S, T> kappa(tile.length * width(), workspace);
    const auto walk = problem.by_destination();
    const TileSums<T> sums(out, problem.graph.n_dst * walk.width, workspace);
    int32_t* rows = workspace.take<int32_t>(tile.length);
    R* pieces = take_pieces(tile.length);
    const Gemm<T> to_kappa({tile.length, width(), features()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack(layer);
    sums.clear(stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      find_rows(walk.graph, first, n, rows, stream);
      tile.load({walk.graph, first}, n);
      matrices(tile, to_kappa, layer, n, kappa);
      add_messages(walk, first, n, rows, kappa, pieces, sums.sums);
    });
    sums.store(stream);
    return cudaGetLastError();
  }

  int gradients(const T* cotangent, const GnoGradients<T>& grad) const {
    EdgeTile<T, S> tile(problem.network, problem.graph.n_edges, width(), workspace, stream);
    const Planes<S, T> layer(features() * width(), workspace);
    const Planes<S, T> kappa(tile.length * width(), workspace);
    const auto walk = problem.by_source(cotangent);
    const TileSums<T> to_h(grad.h, problem.graph.n_src * walk.width, workspace);
    int32_t* rows = workspace.take<int32_t>(tile.length);
    R* pieces = take_pieces(tile.length);
    const Gemm<T> to_kappa({tile.length, width(), features()}, workspace);
    GemmSum<T> to_layer({features(), width(), tile.length}, workspace);
    const Gemm<T> to_hidden({tile.length, problem.network.n_hidden, width()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    const bool want_hidden = want_first || grad.coords || grad.hid;
    grad.clear(problem.graph, problem.network.d, problem.network.n_hidden, stream);
    pack(layer);
    if (grad.h) to_h.clear(stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      find_rows(walk.graph, first, n, rows, stream);
      tile.load({walk.graph, first}, n);
      if (grad.h || grad.edge_weight) {
        matrices(tile, to_kappa, layer, n, kappa);
        if (grad.h) add_messages(walk, first, n, rows, kappa, pieces, to_h.sums);
        if (grad.edge_weight)
          launch_threads(n * warp_lanes, stream, gno_weight_gradient<T, S>, walk, int(width()),
                         problem.h, first, n, rows, kappa, grad.edge_weight);
      }
      if (!want_last && !want_hidden) return;
      launch_threads(n * width(), stream, gno_kappa_gradient<T, S>, walk, int(width()), problem.h,
                     first, n, rows, kappa);
      if (want_last)
        to_layer.add(dual, n, tile.hidden.rows(features()).transposed(), kappa.rows(width()),
                     stream);
      if (!want_hidden) return;
      const GemmShape shape{n, problem.network.n_hidden, width()};
      const auto to = layer.rows(width()).transposed();
      gemm_planes(to_hidden, shape, kappa.rows(width()), to, tile.grad, stream);
      tile.reverse({walk.graph, first}, n, grad.coords, grad.hid, want_first);
    });
    if (grad.h) to_h.store(stream);
    if (want_last)
      unpack_layer(order(), problem.network.n_hidden, to_layer, grad.v, grad.b_v, stream);
    if (want_first) tile.finish(grad.u, grad.b_u);
    return cudaGetLastError();
  }
};

}  // namespace gnograd

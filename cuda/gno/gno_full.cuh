// SPDX-License-Identifier: MIT
// The GNO sum with a full kernel, factorised: kappa is never formed. With x = h or, on the way
// back, x = g, the cotangent of out, and the sums over an end of the edges
//
//     Z_i = sum over (j -> i) of s_i w_e h_j (x) [hid_e; 1],     out_i = Z_i . [V; b_v]
//     P_j = sum over (j -> i) of s_i w_e g_i (x) [hid_e; 1],     d_h_j = P_j . [V; b_v]
//     d_[V; b_v] = sum_j h_j (x) P_j
//     Q_j = h_j . [V; b_v],                     d_[hid_e; 1] = s_i w_e g_i . Q_j
//
// Rows go in tiles whose panels, [K, F] of sums or [F, K] of products with K = H + 1, stay in a
// GPU's L2 cache. In a batch a row has the panels of all functions, one behind the other.
//
// A row of more than `cut` edges is cut at the multiples of `cut` in the order of edges. Its first
// piece is its own block's; the others have blocks by these multiples, most of which are within no
// such row. Their sums come before all tiles, and the row's own block adds them to its panel.
//
// In bfloat16 sums are float32, and panels are rounded when they are stored, as tensor cores take
// them.
#pragma once
#include "gno_network.cuh"
#include "gno_sum.cuh"

namespace gnograd {

// Bytes of the panels of a tile: some half of the L2 cache of a GPU of 40 MB or more. They are the
// same on all GPUs, so that sums of gradients are, too. On the host, see slice_bytes.
constexpr int64_t panel_bytes = std::min(int64_t(slice_bytes), int64_t(24) << 20);

// Rows of a tile and the pieces behind them, which have a place of their own each.
struct RowTile {
  int64_t first, n;  // rows
  int64_t cut;       // edges of a piece at most
  int64_t n_pieces;  // pieces of rows besides their first, in all tiles

  int64_t places() const { return n + n_pieces; }

  struct Piece {
    int64_t row, begin, end, row_end;  // its edges; none where there is no such piece
  };
  __device__ Piece operator()(const Csc& graph, int64_t place) const {
    if (place < n) {
      const int64_t row = first + place, begin = graph.offsets[row], end = graph.offsets[row + 1];
      return {row, begin, end - begin <= cut ? end : (begin / cut + 1) * cut, end};
    }
    const int64_t begin = (place - n + 1) * cut;
    if (begin <= graph.offsets[first] || begin >= graph.offsets[first + n]) return {0, 0, 0, 0};
    const int64_t row = row_of(graph, begin), start = graph.offsets[row];
    const int64_t end = graph.offsets[row + 1];
    if (start == begin || end - start <= cut) return {0, 0, 0, 0};
    return {row, begin, min(end, begin + cut), end};
  }
  // Number of the piece that begins at a multiple of `cut`
  __device__ int64_t number(int64_t begin) const { return begin / cut - 1; }
};

// Four numbers that lie together in shared memory.
template <class S>
struct alignas(sizeof(S) < 4 ? 4 : 16) Four {
  S v[4];
};
template <class S>
__device__ Four<S> four_at(const S* p) {
  return *reinterpret_cast<const Four<S>*>(p);
}

constexpr int edges_together = 16;                    // edges that sums take at once
constexpr int panel_hidden = 64, thread_hidden = 16;  // hidden features of a block, of a warp
constexpr int panel_features = warp_lanes;
static_assert(panel_hidden == block_threads / warp_lanes * thread_hidden);

template <class S>
constexpr size_t outer_sum_bytes = shared_bytes<S>(edges_together * panel_features) +
                                   shared_bytes<S>(edges_together * panel_hidden);

// Panels [K, F] of a tile's pieces from the place `start` on. Block (place, part of H, part of F):
// 64 hidden features by 32 features over the edges of a piece, 16 at a time in shared memory (6 KB
// in float32); a lane has a feature, a warp 16 hidden ones of it and the first also the sum of
// features alone, which goes with b_v. A hidden feature costs 2 d operations and an activation an
// edge and part of F, 2 F K operations an edge go to the sums, for every 16 of which 5 loads from
// shared memory are made. A row adds its `further` pieces, in order, 17 reads of a thread at a
// time. Writes F K numbers a row; bound by these writes, and with many edges a row by activations.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) <= 8 ? 4 : 2)
    gno_outer_sums(GnoWalk<T, S> walk, EdgeNetwork<T, S> network, RowTile tile, int64_t start,
                   int n_features, Planes<S, T> further, Planes<S, T> panels) {
  using R = real<T>;
  SharedMemory memory;
  S* const x = memory.template take<S>(edges_together * panel_features);
  S* const hidden = memory.template take<S>(edges_together * panel_hidden);
  const auto piece = tile(walk.graph, start + blockIdx.x);
  if (start > 0 && piece.begin == piece.end) return;
  const int lane = int(threadIdx.x) % warp_lanes, warp = int(threadIdx.x) / warp_lanes;
  constexpr int warps = block_threads / warp_lanes;
  const int k0 = int(blockIdx.y) * panel_hidden, n_hidden = network.n_hidden;
  const int c = int(blockIdx.z) * panel_features + lane, width = int(walk.width);
  const int my_hidden = k0 + int(threadIdx.x) % panel_hidden;
  const HiddenFeature<T, S> feature(network, my_hidden);

  S sum[thread_hidden] = {}, alone = R(0);
  for (int64_t p = piece.begin; p < piece.end; p += edges_together) {
    const int n = int(min(piece.end - p, int64_t(edges_together)));
    for (int b = warp; b < n; b += warps)
      x[b * panel_features + lane] =
          c < width ? walk.coefficient(piece.row, p + b) * walk.feature(p + b, c) : S(R(0));
    for (int b = int(threadIdx.x) / panel_hidden; b < n; b += block_threads / panel_hidden)
      hidden[b * panel_hidden + int(threadIdx.x) % panel_hidden] =
          my_hidden < n_hidden ? feature(walk.graph.edge_of(p + b)) : S(R(0));
    __syncthreads();
    for (int b = 0; b < n; ++b) {
      const S x_b = x[b * panel_features + lane];
      const S* const h = hidden + b * panel_hidden + warp * thread_hidden;
      alone += x_b;
#pragma unroll
      for (int i = 0; i < thread_hidden; i += 4) {
        const auto four = four_at(h + i);
        for (int j = 0; j < 4; ++j) sum[i + j] += x_b * four.v[j];
      }
    }
    __syncthreads();
  }
  if (c >= width) return;
  int functions = 1, function = 0, f = c;
  if (n_features != width)
    functions = width / n_features, function = c / n_features, f = c % n_features;
  const int64_t first_k = k0 + warp * thread_hidden;
  const int there = int(n_hidden - first_k);
  const auto panel = [&](const Planes<S, T>& of, int64_t place) {
    return of + (place * functions + function) * network.size() * n_features + f;
  };
  if (start == 0)
    for (int64_t begin = piece.end; begin < piece.row_end; begin += tile.cut) {
      const Planes<S, T> more = panel(further, tile.number(begin));
      const Planes<S, T> my_more = more + first_k * n_features;
#pragma unroll
      for (int i = 0; i < thread_hidden; ++i)
        if (i < there) sum[i] += my_more[i * n_features];
      alone += more[int64_t(n_hidden) * n_features];
    }
  const Planes<S, T> to = panel(panels, blockIdx.x);
  Planes<S, T> mine = to + first_k * n_features;
#pragma unroll
  for (int i = 0; i < thread_hidden; ++i, mine = mine + n_features)
    if (i < there) mine.set(0, sum[i]);
  if (warp == 0 && k0 == 0) to.set(int64_t(n_hidden) * n_features, alone);
}

// ---- gradients of what belongs to the edges ----

constexpr int group_edges = 8, cotangents_together = 32;
// Threads in two groups with 64 hidden features each, or in one with 128.
inline __host__ __device__ int group_threads(int n_hidden) { return n_hidden > 64 ? 128 : 64; }
inline __host__ __device__ int n_edge_groups(int threads) { return block_threads / threads; }

template <class S>
constexpr size_t edge_gradient_bytes(int64_t d) {
  using R = real_part<S>;
  constexpr int most = 2 * group_edges;  // edges, in two groups with a pitch of 72 each
  return shared_bytes<R>((most + 4) * cotangents_together) + 2 * shared_bytes<S>(most * 72) +
         shared_bytes<S>(most * (d + 1));
}

// Gradients of what belongs to the edges of a tile's pieces, with the products Q [F, K] of its
// rows. `layer` [places, groups, d + 1, H] takes in what a piece adds to the gradients of [U; b_u].
//
// Block: a piece; a group of 64 (128) threads takes 8 edges at a time, a thread a hidden feature of
// all 8, then 8 (16) lanes a sum over hidden features of one. Shared memory: edge_gradient_bytes,
// 12 KB in float32. For 8 edges, F K numbers of Q are read, by the second group from the L1 cache:
// 2 F K operations an edge, for 8 of which 3 loads are made, and a slope for every hidden feature;
// bound by issuing these, with few edges a row by reading Q.
template <class T, class S>
__global__ void __launch_bounds__(block_threads, sizeof(S) <= 8 ? 4 : 2)
    gno_edge_gradients(GnoWalk<T, S> walk, EdgeNetwork<T, S> network, RowTile tile, Planes<S, T> q,
                       real<T>* __restrict__ grad_weight, real<T>* __restrict__ grad_coords,
                       T* __restrict__ grad_hid, S* __restrict__ layer) {
  using R = real<T>;
  const int n_hidden = network.n_hidden, d = network.d, n_sums = d + 1;
  const int threads = group_threads(n_hidden), groups = n_edge_groups(threads);
  const int together = groups * group_edges, slices = threads / group_edges;
  const int pitch = threads + slices, g_pitch = together + 4;
  SharedMemory memory;
  R* const g = memory.template take<R>((2 * group_edges + 4) * cotangents_together);
  S* const before = memory.template take<S>(2 * group_edges * 72);
  S* const weighted = memory.template take<S>(2 * group_edges * 72);
  S* const sums = memory.template take<S>(2 * group_edges * n_sums);  // for coords, and the weight
  const auto piece = tile(walk.graph, blockIdx.x);
  if (piece.begin == piece.end) return;
  const int64_t row = piece.row, size = network.size(), width = walk.width;
  const int64_t at_row = (row - tile.first) * width * size;
  const int group = int(threadIdx.x) / threads, mine = int(threadIdx.x) % threads;
  const int slice = int(threadIdx.x) % slices, edge_of_slice = int(threadIdx.x) / slices;
  const Group lanes = this_group(slices);
  const bool first_layer = !network.from_table;
  if (layer) layer += (int64_t(blockIdx.x) * groups + group) * network.layer();

  for (int64_t p = piece.begin; p < piece.end; p += together) {
    const int n = int(min(piece.end - p, int64_t(together)));
    const int n_mine = min(n - group * group_edges, group_edges);
    for (int k0 = 0; k0 < n_hidden; k0 += threads) {
      const int k = k0 + mine;
      const bool there = k < n_hidden;
      const HiddenFeature<T, S> feature(network, k);
      S grad[group_edges] = {}, of_bias = R(0);
      for (int64_t f0 = 0; f0 < width; f0 += cotangents_together) {
        const int n_f = int(min(width - f0, int64_t(cotangents_together)));
        __syncthreads();
        // g [f][edge], zero where there is no edge
        for (int b = int(threadIdx.x) / cotangents_together; b < together;
             b += block_threads / cotangents_together) {
          const int f = int(threadIdx.x) % cotangents_together;
          g[f * g_pitch + b] =
              b < n && f < n_f ? R(walk.x.v[walk.graph.indices[p + b] * width + f0 + f]) : R(0);
        }
        __syncthreads();
        if (there && n_mine > 0) {
          Planes<S, T> q_f = q + (at_row + f0 * size + k);
          const R* g_f = g + group * group_edges;
#pragma unroll 4
          for (int f = 0; f < n_f; ++f, q_f = q_f + size, g_f += g_pitch) {
            const S q_k = q_f[0];
#pragma unroll
            for (int b = 0; b < group_edges; b += 4) {
              const auto four = four_at(g_f + b);
              for (int j = 0; j < 4; ++j) grad[b + j] += four.v[j] * q_k;
            }
          }
        }
        if (grad_weight && k0 == 0 && edge_of_slice < n)
          for (int f = slice; f < n_f; f += slices)
            of_bias += g[f * g_pitch + edge_of_slice] * q[at_row + (f0 + f) * size + n_hidden];
      }
#pragma unroll
      for (int b = 0; b < group_edges; ++b) {
        S to_before = R(0), to_weight = R(0);
        if (there && b < n_mine) {
          const int64_t place = p + group * group_edges + b, e = walk.graph.edge_of(place);
          const S to_hidden = walk.coefficient(row, place) * grad[b];
          if (grad_weight) to_weight = walk.scale(row, place) * (feature(e) * grad[b]);
          if (first_layer) to_before = to_hidden * slope(network.activation, feature.before(e));
          else if (grad_hid) grad_hid[e * n_hidden + k] = T(result(to_hidden));
        }
        before[(group * group_edges + b) * pitch + mine] = to_before;
        if (grad_weight) weighted[(group * group_edges + b) * pitch + mine] = to_weight;
      }
      if (layer && there && n_mine > 0)
        for (int a = 0; a <= d; ++a) {
          S sum = layer[a * n_hidden + k];
          for (int b = 0; b < n_mine; ++b) {
            const S x = before[(group * group_edges + b) * pitch + mine];
            sum +=
                a == d
                    ? x
                    : x * network.coords[walk.graph.edge_of(p + group * group_edges + b) * d + a];
          }
          layer[a * n_hidden + k] = sum;
        }
      if (!grad_coords && !grad_weight) continue;
      __syncthreads();
      // `slices` lanes a sum; all of a warp go along
      const S* const of_edge = before + edge_of_slice * pitch + slice;
      for (int a = 0; a < n_sums; ++a) {
        if (a < d ? !grad_coords : !grad_weight) continue;
        S sum = R(0);
        if (a == d && edge_of_slice < n) sum = walk.scale(row, p + edge_of_slice) * of_bias;
        for (int l = 0; l < threads; l += slices) {
          if (k0 + slice + l >= n_hidden) break;
          if (a == d) sum += weighted[edge_of_slice * pitch + slice + l];
          else sum += of_edge[l] * network.u[a * n_hidden + k0 + slice + l];
        }
        sum = group_sum(sum, lanes);
        S& to = sums[edge_of_slice * n_sums + a];
        if (slice == 0) to = k0 == 0 ? sum : to + sum;
      }
    }
    if (!grad_coords && !grad_weight) continue;
    __syncthreads();
    for (int i = int(threadIdx.x); i < n * n_sums; i += block_threads) {
      const int64_t e = walk.graph.edge_of(p + i / n_sums);
      const int a = i % n_sums;
      if (a == d && grad_weight) grad_weight[e] = result(sums[i]);
      if (a < d && grad_coords) grad_coords[e * d + a] = result(sums[i]);
    }
  }
}

template <class T, class S>
struct GnoFullSum {
  using R = real<T>;
  static constexpr bool dual = ScalarTraits<S>::dual;

  const GnoProblem<T, S>& problem;
  Workspace& workspace;
  cudaStream_t stream;

  int64_t hidden() const { return problem.network.size(); }
  // [V; b_v] for sums over neighbours of width F_in, and for those of width F_out: with K first,
  // and with F first for products
  LayerOrder forward_order() const { return {problem.f_in, problem.f_out, problem.f_out, 1, true}; }
  LayerOrder reverse_order(bool hidden_first) const {
    return {problem.f_out, problem.f_in, 1, problem.f_out, hidden_first};
  }

  // Rows whose panels stay in the L2 cache, but enough of them for a product
  int64_t tile_length(int64_t n_rows, int64_t width) const {
    const int64_t n_batch = problem.n_batch, least = ceil_div(64, n_batch);
    const int64_t fit = panel_bytes / int64_t(Planes<S, T>::bytes * width * hidden()) / n_batch;
    return std::max<int64_t>(1, std::min(n_rows, std::clamp<int64_t>(fit, least, 16384)));
  }
  // The first of the tiles; pieces take no more panels than rows
  RowTile first_tile(int64_t length) const {
    const int64_t n_edges = problem.graph.n_edges;
    const int64_t cut = std::max<int64_t>(256, ceil_div(n_edges, length));
    return {0, length, cut, n_edges ? (n_edges - 1) / cut : 0};
  }
  void pack(const LayerOrder& order, const Planes<S, T>& layer) const {
    pack_layer(order, problem.network.n_hidden, problem.v, problem.b_v, layer, stream);
  }
  // Panels of n places of a tile from `start` on
  void sum(const GnoWalk<T, S>& walk, const RowTile& tile, int64_t start, int64_t n,
           const Planes<S, T>& further, const Planes<S, T>& panels) const {
    const int64_t parts = ceil_div(int64_t(problem.network.n_hidden), panel_hidden);
    if (n)
      launch(gno_outer_sums<T, S>, grid_of(n, parts, ceil_div(walk.width, panel_features)),
             dim3(block_threads), outer_sum_bytes<S>, stream, walk, problem.network, tile, start,
             int(walk.width / problem.n_batch), further, panels);
  }
  // Sum the further pieces of all rows
  void sum_further(const GnoWalk<T, S>& walk, RowTile tile, const Planes<S, T>& further) const {
    tile.first = 0, tile.n = walk.graph.n_rows;
    sum(walk, tile, tile.n, tile.n_pieces, {}, further);
  }

  int forward(T* out) const {
    const int64_t n_rows = problem.graph.n_dst, inner = problem.f_in * hidden();
    const int64_t length = tile_length(n_rows, problem.f_in), most = length * problem.n_batch;
    RowTile tile = first_tile(length);
    const Planes<S, T> layer(inner * problem.f_out, workspace);
    const Planes<S, T> further(tile.n_pieces * problem.n_batch * inner, workspace);
    const Planes<S, T> panels(most * inner, workspace);
    const Gemm<T> to_out({most, problem.f_out, inner}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack(forward_order(), layer);
    const auto walk = problem.by_destination();
    sum_further(walk, tile, further);
    for (int64_t first = 0; first < n_rows; first += length) {
      const int64_t n = std::min(length, n_rows - first);
      tile.first = first, tile.n = n;
      sum(walk, tile, 0, n, further, panels);
      to_out(dual, {n * problem.n_batch, problem.f_out, inner}, panels.rows(inner),
             layer.rows(problem.f_out), out + first * problem.n_batch * problem.f_out, false,
             stream);
    }
    return cudaGetLastError();
  }

  int gradients(const T* cotangent, const GnoGradients<T>& grad) const {
    if (edge_gradient_bytes<S>(problem.network.d) > most_shared) return GNOGRAD_CUDA_VALUE;
    const int64_t n_rows = problem.graph.n_src, f_in = problem.f_in;
    const int64_t inner = problem.f_out * hidden();
    const int64_t length = tile_length(n_rows, problem.f_out), most = length * problem.n_batch;
    RowTile tile = first_tile(length);
    const int64_t groups = n_edge_groups(group_threads(problem.network.n_hidden));
    const int64_t n_sums = tile.places() * groups;  // in the first layer
    const Planes<S, T> layer(inner * f_in, workspace), back(inner * f_in, workspace);
    const Planes<S, T> further(tile.n_pieces * problem.n_batch * inner, workspace);
    const Planes<S, T> panels(most * inner, workspace);
    FirstLayer<T, S> first_layer(problem.network, n_sums, workspace);
    const Gemm<T> to_h({most, f_in, inner}, workspace);
    GemmSum<T> to_layer({inner, f_in, most}, workspace);
    const Gemm<T> to_edges({most, inner, f_in}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    const bool want_edges = want_first || grad.coords || grad.hid || grad.edge_weight;
    grad.clear(problem.graph, problem.network.d, problem.network.n_hidden, stream);
    if (grad.h) pack(reverse_order(true), layer);
    if (want_edges) pack(reverse_order(false), back);
    if (want_first) set_zero(first_layer.sums, n_sums * problem.network.layer(), stream);
    const auto walk = problem.by_source(cotangent);
    if (grad.h || want_last) sum_further(walk, tile, further);
    for (int64_t first = 0; first < n_rows; first += length) {
      const int64_t n = std::min(length, n_rows - first);
      const int64_t n_panels = n * problem.n_batch, start = first * problem.n_batch * f_in;
      const Operand<T> h = rows(problem.h + start, f_in);
      tile.first = first, tile.n = n;
      if (grad.h || want_last) {
        sum(walk, tile, 0, n, further, panels);
        if (grad.h)
          to_h(dual, {n_panels, f_in, inner}, panels.rows(inner), layer.rows(f_in), grad.h + start,
               false, stream);
        if (want_last) to_layer.add(dual, n_panels, panels.rows(inner).transposed(), h, stream);
      }
      if (!want_edges) continue;
      const GemmShape shape{n_panels, inner, f_in};
      gemm_planes(to_edges, shape, h, back.rows(f_in).transposed(), panels, stream);
      launch(gno_edge_gradients<T, S>, grid_of(tile.places()), dim3(block_threads),
             edge_gradient_bytes<S>(problem.network.d), stream, walk, problem.network, tile, panels,
             grad.edge_weight, grad.coords, grad.hid, want_first ? first_layer.sums : nullptr);
    }
    if (want_last)
      unpack_layer(reverse_order(true), problem.network.n_hidden, to_layer, grad.v, grad.b_v,
                   stream);
    if (want_first) first_layer.finish(grad.u, grad.b_u, stream);
    return cudaGetLastError();
  }
};

}  // namespace gnograd

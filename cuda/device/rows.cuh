// SPDX-License-Identifier: MIT
// Walking the edges of a graph row by row, with work balanced by edges.
//
// Edges and row ends, merged in order (row 0's edges, its end, row 1's edges, ...), are cut into
// units of equal length: few long rows and many short ones then load the machine alike (Merrill and
// Garland, Merge-based parallel sparse matrix-vector multiplication, SC16). A row that one unit
// begins and another ends leaves a partial result in each, and a second kernel adds these in the
// order of the units. The cut depends on sizes alone, so results are the same bits in every run.
#pragma once
#include "gnograd_cuda.h"
#include "lanes.cuh"
#include "workspace.cuh"

namespace gnograd {

// Edges grouped by the node at one end: a row per node.
struct Csc {
  int64_t n_rows, n_edges;  // edges: as there is room for
  const int64_t* offsets;   // [n_rows+1]; the last one tells how many there are
  const int32_t* indices;   // [n_edges] node at the other end
  const int64_t* edge;      // [n_edges] row of the edge table, or null: k itself
  const int64_t* position;  // [n_edges] place in the destination-major order, or null: as edge

  __device__ int64_t end() const { return offsets[n_rows]; }
  __device__ int64_t edge_of(int64_t k) const { return edge ? edge[k] : k; }
  __device__ int64_t position_of(int64_t k) const { return position ? position[k] : edge_of(k); }
};

inline Csc by_dst(const gnograd_cuda_graph& g) {
  return {g.n_dst, g.n_edges, g.by_dst.offsets, g.by_dst.indices, g.by_dst.edge, nullptr};
}
inline Csc by_src(const gnograd_cuda_graph& g) {
  return {g.n_src, g.n_edges, g.by_src.offsets, g.by_src.indices, g.by_src.edge, g.by_src.position};
}

// An edge as the operators see it, whichever end the rows are.
struct Edge {
  int64_t dst, src;
  int64_t row;       // of the caller's edge table
  int64_t position;  // in the destination-major order
};
__device__ inline Edge edge_to(const Csc& by_dst, int64_t i, int64_t k) {
  return {i, by_dst.indices[k], by_dst.edge_of(k), k};
}
__device__ inline Edge edge_from(const Csc& by_src, int64_t j, int64_t k) {
  return {by_src.indices[k], j, by_src.edge_of(k), by_src.position_of(k)};
}

struct Cut {
  int n_units;
  int64_t unit_length, n_rows;
  const int64_t* n_edges;  // on the device, where there may be fewer than there is room for
  int32_t* rows;           // [n_units+1] row ends before each unit

  __device__ int64_t begin(int unit) const { return min(unit * unit_length, n_rows + *n_edges); }
  __device__ int64_t first_edge(int unit) const { return begin(unit) - rows[unit]; }
};

// Enough units to fill any GPU, none of them too short to pay for its start.
inline Cut cut_shape(const Csc& graph) {
  const int64_t total = graph.n_rows + graph.n_edges;
  const int64_t length = std::max<int64_t>(128, ceil_div(total, 1 << 15));
  return {int(ceil_div(total, length)), length, graph.n_rows, graph.offsets + graph.n_rows,
          nullptr};
}

// The end of row r is number offsets[r + 1] + r of the merged order. Thread: a unit, by bisection
// of the offsets: log2(n_rows) dependent reads.
static __global__ void __launch_bounds__(block_threads) walk_find_cut(Csc graph, Cut cut) {
  const int unit = int(thread_number());
  if (unit > cut.n_units) return;
  const int64_t target = cut.begin(unit);
  int64_t low = 0, high = graph.n_rows;
  while (low < high) {
    const int64_t r = (low + high) / 2;
    if (graph.offsets[r + 1] + r < target) low = r + 1;
    else high = r;
  }
  cut.rows[unit] = int32_t(low);
}

inline void cut_rows(const Csc& graph, const Cut& cut, cudaStream_t stream) {
  launch_threads(cut.n_units + 1, stream, walk_find_cut, graph, cut);
}

inline Cut take_cut(const Csc& graph, Workspace& workspace) {
  Cut cut = cut_shape(graph);
  cut.rows = workspace.take<int32_t>(cut.n_units + 1);
  return cut;
}

// x [n_edges, width] = 0 where no edge has some of its rows, that is, where there is room for more
// edges; the host does not know it. Thread: every gridDim-th number; else all end at once.
template <class T>
__global__ void __launch_bounds__(block_threads)
    clear_if_room(Csc graph, T* __restrict__ x, int64_t width) {
  if (graph.end() == graph.n_edges) return;
  const int64_t n = graph.n_edges * width, step = int64_t(gridDim.x) * block_threads;
  for (int64_t i = thread_number(); i < n; i += step) x[i] = T(0);
}

// For results by edge, before the kernels that write those of edges. x may be null.
template <class T>
void clear_room(const gnograd_cuda_graph& graph, T* x, int64_t width, cudaStream_t stream) {
  const int64_t n = x ? graph.n_edges * width : 0;
  launch_threads(std::min<int64_t>(n, 512 * block_threads), stream, clear_if_room<T>,
                 by_dst(graph), x, width);
}

// An operation `Op` on the rows of op.graph, done by groups of op.heads.lanes lanes, each of them
// one of op.tiles() tiles of one head:
//   step, unroll         features of a lane, edges in flight
//   Partial              what a row has come to so far; value-initialised for a row without edges
//   Total                what a unit adds up over all its rows
//   edge(partial, total, at, row, k)    take in edge k of a row
//   merge(partial, more)                the same row's later edges
//   finish(partial, at, row)            all edges are in
//   leave(total, at, unit)              the unit is done
// Where there is Nothing to sum over a row it has no merge and no finish, over a unit no leave.
struct Nothing {};

// Of a divided row, unit u leaves what it passes on at number 2u + 1 and what it ends at 2u.
__device__ inline int64_t slot(int number, int part, int parts, const Group& group) {
  return (int64_t(number) * parts + part) * group.size + group.lane;
}

// Group: a unit of at least 128 edges and row ends, and one tile of one head; lanes over features.
// No shared memory: a row's sum stays in registers. What an edge moves, and what bounds that, is
// said at the operations; here 4 bytes of its index come on top, and those of its row in the edge
// table and its position where they have tables.
template <class Op>
__global__ void __launch_bounds__(block_threads)
    walk_rows(Op op, Cut cut, typename Op::Partial* __restrict__ split) {
  const Group group = this_group(op.heads.lanes);
  const int tiles = op.tiles(), parts = op.heads.heads * tiles;
  const int unit = int(group.number / parts), part = int(group.number % parts);
  if (unit >= cut.n_units) return;
  const Place at{group, part / tiles, part % tiles, Op::step};

  constexpr bool sums_rows = !std::is_same_v<typename Op::Partial, Nothing>;
  const int64_t row_end = cut.rows[unit + 1], last = cut.first_edge(unit + 1);
  int64_t row = cut.rows[unit], k = cut.first_edge(unit);
  bool continued = op.graph.offsets[row] < k;
  typename Op::Total total{};
  for (; row <= row_end; ++row) {
    const bool ends = row < row_end;
    const int64_t stop = ends ? op.graph.offsets[row + 1] : last;
    const bool any = k < stop;
    typename Op::Partial partial{};
#pragma unroll Op::unroll
    for (; k < stop; ++k) op.edge(partial, total, at, row, k);
    if constexpr (sums_rows) {
      if (ends && !continued) op.finish(partial, at, row);
      else if (ends || any) split[slot(2 * unit + !ends, part, parts, group)] = partial;
    }
    continued = false;
  }
  if constexpr (!std::is_same_v<typename Op::Total, Nothing>) op.leave(total, at, unit);
}

// The unit in which a divided row ends collects it. Group: as in walk_rows. Reads a partial result
// for every unit that a row goes through, one after another: what a hub of 1 M edges takes is the
// latency of 8,000 reads.
template <class Op>
__global__ void __launch_bounds__(block_threads)
    walk_join_rows(Op op, Cut cut, const typename Op::Partial* __restrict__ split) {
  const Group group = this_group(op.heads.lanes);
  const int tiles = op.tiles(), parts = op.heads.heads * tiles;
  const int unit = int(group.number / parts), part = int(group.number % parts);
  if (unit >= cut.n_units) return;
  const int64_t row = cut.rows[unit], begin = op.graph.offsets[row];
  if (row == cut.rows[unit + 1] || begin >= cut.first_edge(unit)) return;

  int u = int((begin + row) / cut.unit_length);
  typename Op::Partial partial = split[slot(2 * u + 1, part, parts, group)];
  for (++u; u < unit; ++u) op.merge(partial, split[slot(2 * u + 1, part, parts, group)]);
  op.merge(partial, split[slot(2 * unit, part, parts, group)]);
  op.finish(partial, Place{group, part / tiles, part % tiles, Op::step}, row);
}

// Partial results of divided rows, in one buffer for all operations that run one after another.
template <class Op>
size_t split_bytes(const Cut& cut, const Heads& heads, int tiles) {
  return size_t(2) * cut.n_units * heads.heads * tiles * heads.lanes * sizeof(typename Op::Partial);
}

template <class Op>
void for_rows(const Op& op, const Cut& cut, void* split, cudaStream_t stream) {
  using Partial = typename Op::Partial;
  const int64_t threads = int64_t(cut.n_units) * op.heads.heads * op.tiles() * op.heads.lanes;
  launch_threads(threads, stream, walk_rows<Op>, op, cut, static_cast<Partial*>(split));
  if constexpr (!std::is_same_v<Partial, Nothing>)
    launch_threads(threads, stream, walk_join_rows<Op>, op, cut,
                   static_cast<const Partial*>(split));
}

}  // namespace gnograd

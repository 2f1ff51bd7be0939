// SPDX-License-Identifier: MIT
// Walking the edges of a graph row by row, with work balanced by edges.
//
// Edges and row ends, merged in order (row 0's edges, its end, row 1's edges, ...), are cut into
// units of about equal length: few long rows and many short ones then load the machine alike
// (Merrill and Garland, Merge-based parallel sparse matrix-vector multiplication, SC16). A row no
// longer than a unit is never divided: a cut that falls into it is moved to its beginning. A longer
// one leaves a partial result in each unit that it goes through, and further kernels add these by a
// tree, in the order of the units. The cut depends on sizes alone, so results are the same bits in
// every run.
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

struct Cut {
  int n_units;
  int64_t unit_length, n_rows;
  const int64_t* n_edges;  // on the device, where there may be fewer than there is room for
  int32_t* rows;           // [n_units+1] row ends before each unit
  int64_t* first;          // [n_units+1] edges before each unit

  __device__ int64_t begin(int unit) const { return min(unit * unit_length, n_rows + *n_edges); }
};

// Enough units to fill any GPU, none of them too short to pay for its start: edges that bring much
// need fewer.
inline Cut cut_shape(const Csc& graph, int64_t least = 128) {
  const int64_t total = graph.n_rows + graph.n_edges;
  const int64_t length = std::max(least, ceil_div(total, 1 << 15));
  return {int(ceil_div(total, length)), length,  graph.n_rows,
          graph.offsets + graph.n_rows, nullptr, nullptr};
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
  int64_t edge = target - low;
  if (low < graph.n_rows)
    if (const int64_t begin = graph.offsets[low]; graph.offsets[low + 1] - begin <= cut.unit_length)
      edge = begin;
  cut.rows[unit] = int32_t(low);
  cut.first[unit] = edge;
}

inline void cut_rows(const Csc& graph, const Cut& cut, cudaStream_t stream) {
  launch_threads(cut.n_units + 1, stream, walk_find_cut, graph, cut);
}

inline Cut take_cut(const Csc& graph, Workspace& workspace, int64_t least = 128) {
  Cut cut = cut_shape(graph, least);
  cut.rows = workspace.take<int32_t>(cut.n_units + 1);
  cut.first = workspace.take<int64_t>(cut.n_units + 1);
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

// Clear results by edge, before the kernels that write those of edges. x may be null.
template <class T>
void clear_room(const gnograd_cuda_graph& graph, T* x, int64_t width, cudaStream_t stream) {
  const int64_t n = x ? graph.n_edges * width : 0;
  launch_threads(std::min<int64_t>(n, 512 * block_threads), stream, clear_if_room<T>, by_dst(graph),
                 x, width);
}

// An operation `Op` on the rows of op.graph, done by groups of op.heads.lanes lanes, each of them
// one of op.tiles() tiles of one head:
//   step                 features of a lane
//   Partial              what a row has come to so far; value-initialised for a row without edges
//   Total                what a unit adds up over all its rows
//   merge(partial, more)                the same row's later edges
//   finish(partial, at, row)            all edges are in
//   leave(total, at, unit)              the unit is done
// An operation with Nothing to sum over a row has no merge and no finish, over a unit no leave.
// Edges are taken in one by one:
//   unroll               edges that the compiler may interleave
//   edge(partial, total, at, row, k)    take in edge k of a row
// or several at once, of which all loads are made before the first sum waits for one:
//   at_once<wide>        edges of a batch at most; no more than the group has lanes
//   Own, own(at, k)      what a lane loads of its own edge of the batch, once for the group
//   RowOperands, enter(at, row)         what all edges of a row share; or neither
//   batch<wide>(partial, total, at, row, operands, edges, ahead)    take in an EdgeBatch
// ahead() loads Own of the next batch, and is called once the loads of this one are made.
// `wide` is op.heads.wide, so that there are no other loads where vectors are aligned; true where
// step is 1.
struct Nothing {};

template <class Op, class = void>
struct BatchTraits {
  using Own = Nothing;
  static constexpr bool batched = false;
};
template <class Op>
struct BatchTraits<Op, std::void_t<typename Op::Own>> {
  using Own = typename Op::Own;
  static constexpr bool batched = true;
};
template <class Op, class = void>
struct OperandsOfRow {
  using type = Nothing;
};
template <class Op>
struct OperandsOfRow<Op, std::void_t<typename Op::RowOperands>> {
  using type = typename Op::RowOperands;
};

// n edges of a row, k and those behind it, no more than the group has lanes; lane b has `own` of
// edge k + b. All groups of a warp take in their batches together, some of which may be empty, so
// that shuffles are those of whole warps: a mask that differs from lane to lane costs a turn each.
template <class Own>
struct EdgeBatch {
  const Group& group;  // its mask is that of the warp
  int64_t k;
  int n;
  Own own;
  bool full;    // n is `most` in all groups of the warp
  int longest;  // no group has more: a quarter of `most`, a half, or all

  __device__ EdgeBatch(const Group& group, int64_t k, int n, int most, const Own& own)
      : group(group), k(k), n(n), own(own), full(__all_sync(group.mask, n == most)) {
    const int half = (most + 1) / 2, quarter = (most + 3) / 4;
    longest = most;
    if (!full && !__any_sync(group.mask, n > half))
      longest = __any_sync(group.mask, n > quarter) ? half : quarter;
  }

  __device__ bool has_own() const { return group.lane < n; }
  // Value of lane b.
  template <class X>
  __device__ X of(X mine, int b) const {
    return group_get(mine, b, group);
  }
  // f(b, whether there is an edge b), by all lanes; b is a constant in each copy, and so is `true`
  // in full batches.
  template <int most, class F>
  __device__ void each(F f) const {
    constexpr int half = (most + 1) / 2, quarter = (most + 3) / 4;
    if (full) {
#pragma unroll
      for (int b = 0; b < most; ++b) f(b, true);
      return;
    }
#pragma unroll
    for (int b = 0; b < quarter; ++b) f(b, b < n);
    if (longest <= quarter) return;
#pragma unroll
    for (int b = quarter; b < half; ++b) f(b, b < n);
    if (longest <= half) return;
#pragma unroll
    for (int b = half; b < most; ++b) f(b, b < n);
  }
};

// Rows in flight, 16 bytes a lane each: what hides the latency of memory, and fits the registers.
// An edge with several rows counts as that many.
template <class T, class S, bool wide, int rows_of_edge = 1>
constexpr int rows_at_once = std::max(1, (wide            ? 8
                                          : sizeof(T) < 4 ? 2
                                                          : 4) /
                                             (ScalarTraits<S>::dual ? 2 : 1) / rows_of_edge);

// Partial results of divided rows. Unit u leaves what it passes on at number 2u + 1 and what it
// ends at 2u: words of 4 bytes, each word of a group's lanes together.
template <class Partial>
struct SplitRows {
  static constexpr int words = (sizeof(Partial) + 3) / 4;
  uint32_t* memory;

  __device__ uint32_t* at(int number, int part, int parts, const Group& group) const {
    return memory + (int64_t(number) * parts + part) * words * group.size + group.lane;
  }
  __device__ void store(int number, int part, int parts, const Group& group,
                        const Partial& partial) const {
    uint32_t* p = at(number, part, parts, group);
    uint32_t raw[words] = {};
    memcpy(raw, &partial, sizeof partial);
#pragma unroll
    for (int i = 0; i < words; ++i) p[i * group.size] = raw[i];
  }
  __device__ Partial load(int number, int part, int parts, const Group& group) const {
    const uint32_t* p = at(number, part, parts, group);
    uint32_t raw[words];
#pragma unroll
    for (int i = 0; i < words; ++i) raw[i] = p[i * group.size];
    Partial partial;
    memcpy(static_cast<void*>(&partial), raw, sizeof partial);
    return partial;
  }
};

// Group: a unit of about 128 edges and row ends, and one tile of one head; lanes over features. No
// shared memory: a row's sum stays in registers. Operations say what an edge moves, and what bounds
// that; here 4 bytes of its index come on top, and the numbers of its row in the edge table and of
// its position where there are such tables.
template <class Op, bool wide>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    walk_rows(Op op, Cut cut, SplitRows<typename Op::Partial> split) {
  using Partial = typename Op::Partial;
  using Own = typename BatchTraits<Op>::Own;
  constexpr bool batched = BatchTraits<Op>::batched;
  Group group = this_group(op.heads.lanes);
  const Group of_warp{group.size, group.lane, group.number, ~0u};
  const int tiles = op.tiles(), parts = op.heads.heads * tiles;
  const auto [unit, part] = divided<int>(group.number, parts);
  const bool some = unit < cut.n_units;
  if (!batched && !some) return;
  if (batched && parts % (warp_lanes / group.size) == 0) group = of_warp;  // lanes of one unit
  const Place at{group, part / tiles, part % tiles, Op::step};

  constexpr bool sums_rows = !std::is_same_v<Partial, Nothing>;
  const int64_t* __restrict__ offsets = op.graph.offsets;
  const int64_t row_end = some ? cut.rows[unit + 1] : -1, first = some ? cut.first[unit] : 0;
  const int last =
      some ? int(cut.first[unit + 1] - first) : 0;  // edges count from the unit's first
  int64_t row = some ? cut.rows[unit] : 0;
  bool continued = some && offsets[row] < first;
  int64_t end = row < row_end ? offsets[row + 1] : 0;  // end of the row
  const auto more = [&](bool mine) { return batched ? __any_sync(~0u, mine) : mine; };
  typename Op::Total total{};
  [[maybe_unused]] Own next{};
  if constexpr (batched)
    if (group.lane < last) next = op.own(at, first + group.lane);
  for (int k = 0; more(row <= row_end); ++row) {
    const bool ends = row < row_end;
    const int stop = ends ? int(end - first) : last;
    if (row + 1 < row_end) end = offsets[row + 2];
    const bool any = k < stop;
    Partial partial{};
    if constexpr (batched) {
      typename OperandsOfRow<Op>::type operands{};
      if constexpr (!std::is_same_v<decltype(operands), Nothing>)
        if (any) operands = op.enter(at, row);
      const int at_once = min(Op::template at_once<wide>, group.size);
#pragma unroll 1
      while (more(k < stop)) {
        const int n = min(at_once, stop - k);
        const EdgeBatch<Own> edges(of_warp, first + k, n, Op::template at_once<wide>, next);
        k += n;
        const auto ahead = [&] {
          if (n && k + group.lane < last) next = op.own(at, first + k + group.lane);
        };
        op.template batch<wide>(partial, total, at, n ? row : 0, operands, edges, ahead);
      }
    } else {
#pragma unroll Op::unroll
      for (; k < stop; ++k) op.edge(partial, total, at, row, first + k);
    }
    if constexpr (sums_rows) {
      if (ends && !continued) op.finish(partial, at, row);
      else if (row <= row_end && (ends || any))
        split.store(2 * unit + !ends, part, parts, group, partial);
    }
    continued = false;
  }
  if constexpr (!std::is_same_v<typename Op::Total, Nothing>)
    if (some) op.leave(total, at, unit);
}

// Partial results of a divided row are joined in two steps: those of `joined` units at a time, and
// what is left of that by the unit in which the row ends.
constexpr int joined = 32;

// partial += what the units from u on, before `end`, pass on; in this order, several loads at once.
template <class Op, class Next>
__device__ void join_units(const Op& op, typename Op::Partial& partial,
                           SplitRows<typename Op::Partial> split, int u, int end, int part,
                           int parts, const Group& group, Next next) {
  constexpr int at_once = 4;
  while (u < end) {
    typename Op::Partial more[at_once];
    int n = 0;
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (u < end) {
        more[i] = split.load(2 * u + 1, part, parts, group);
        u = next(u);
        n = i + 1;
      }
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (i < n) op.merge(partial, more[i]);
  }
}

// The first of 32 units collects what they pass on of the row that goes through all of it. Group: a
// part of 32 units; most have nothing to do. Reads and writes partial results once, from L2.
template <class Op>
__global__ void __launch_bounds__(block_threads, 1)  // bounds of walk_rows
    walk_join_units(Op op, Cut cut, SplitRows<typename Op::Partial> split) {
  const Group group = this_group(op.heads.lanes);
  const int parts = op.heads.heads * op.tiles();
  const auto [units, part] = divided<int>(group.number, parts);
  const int unit = units * joined;
  if (unit >= cut.n_units) return;
  const int row = cut.rows[unit];
  if (cut.rows[unit + 1] != row || op.graph.offsets[row] >= cut.first[unit]) return;
  int end = unit + 1;
  while (end < unit + joined && end < cut.n_units && cut.rows[end + 1] == row) ++end;
  auto partial = split.load(2 * unit + 1, part, parts, group);
  join_units(op, partial, split, unit + 1, end, part, parts, group, [](int u) { return u + 1; });
  split.store(2 * unit + 1, part, parts, group, partial);
}

// The unit in which a divided row ends collects it, after walk_join_units. Group: as in walk_rows.
// For a row that goes through n units it reads n / 32 + 32 partial results, 4 at a time: what a hub
// of 1 M edges takes is the latency of 70 reads.
template <class Op>
__global__ void __launch_bounds__(block_threads)
    walk_join_rows(Op op, Cut cut, SplitRows<typename Op::Partial> split) {
  const Group group = this_group(op.heads.lanes);
  const int tiles = op.tiles(), parts = op.heads.heads * tiles;
  const auto [unit, part] = divided<int>(group.number, parts);
  if (unit >= cut.n_units) return;
  const int row = cut.rows[unit];
  if (row == cut.rows[unit + 1]) return;
  const int64_t begin = op.graph.offsets[row];
  if (begin >= cut.first[unit]) return;

  const int start = int((begin + row) / cut.unit_length);
  auto partial = split.load(2 * start + 1, part, parts, group);
  join_units(op, partial, split, start + 1, unit, part, parts, group,
             [](int u) { return u % joined ? u + 1 : u + joined; });
  op.merge(partial, split.load(2 * unit, part, parts, group));
  op.finish(partial, Place{group, part / tiles, part % tiles, Op::step}, row);
}

// Partial results of divided rows, in one buffer for all operations that run one after another.
template <class Op>
size_t split_bytes(const Cut& cut, const Heads& heads, int tiles) {
  return size_t(2) * cut.n_units * heads.heads * tiles * heads.lanes * 4 *
         SplitRows<typename Op::Partial>::words;
}

template <class Op>
void for_rows(const Op& op, const Cut& cut, void* memory, cudaStream_t stream) {
  using Partial = typename Op::Partial;
  const SplitRows<Partial> split{static_cast<uint32_t*>(memory)};
  const int64_t of_unit = int64_t(op.heads.heads) * op.tiles() * op.heads.lanes;
  bool wide = true;
  if constexpr (BatchTraits<Op>::batched && Op::step > 1) {
    wide = op.heads.wide;
    if (!wide) launch_threads(cut.n_units * of_unit, stream, walk_rows<Op, false>, op, cut, split);
  }
  if (wide) launch_threads(cut.n_units * of_unit, stream, walk_rows<Op, true>, op, cut, split);
  if constexpr (!std::is_same_v<Partial, Nothing>) {
    if (cut.n_units > joined)
      launch_threads(ceil_div(cut.n_units, joined) * of_unit, stream, walk_join_units<Op>, op, cut,
                     split);
    launch_threads(cut.n_units * of_unit, stream, walk_join_rows<Op>, op, cut, split);
  }
}

}  // namespace gnograd

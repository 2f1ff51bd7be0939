// SPDX-License-Identifier: MIT
// Chunks of edges, in the order of destinations, and sums over those of a chunk that share a node.
//
// The edges of a destination follow each other. The edges of a source are found by the order of
// sources, where its edges in a chunk follow each other too: a row there is in the order of
// destinations. Sums go along these runs of edges, in pieces that depend on their places alone; a
// node whose edges lie in several chunks gets them in the order of chunks.
#pragma once
#include "gno/gno_sum.cuh"

namespace gnograd {

// Positions first .. first + n - 1 of the order of destinations.
struct EdgeChunk {
  Csc rows, columns;  // by destination; by source, on the way back only
  int64_t first, n;
  const int32_t* to;     // [n] destinations; behind the last edge n_dst, and there all is 0
  const int64_t* place;  // [n] in the order of sources, on the way back only

  __device__ bool has(int64_t q) const { return to[q] < rows.n_rows; }
  __device__ int64_t dst(int64_t q) const { return to[q]; }
  __device__ int64_t src(int64_t q) const { return rows.indices[first + q]; }
  __device__ int64_t edge(int64_t q) const { return rows.edge_of(first + q); }
};

// Thread: an edge, by bisection of its source's row; log2 of its length dependent reads.
static __global__ void __launch_bounds__(block_threads)
    edges_find_places(EdgeChunk chunk, int64_t* __restrict__ place) {
  const int64_t q = thread_number();
  if (q >= chunk.n || !chunk.has(q)) return;
  const int64_t j = chunk.src(q);
  int64_t low = chunk.columns.offsets[j], high = chunk.columns.offsets[j + 1] - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (chunk.columns.position_of(middle) < chunk.first + q) low = middle + 1;
    else high = middle;
  }
  place[q] = low;
}

// Columns of an edge that a thread has: what is the same for all of them it finds once.
constexpr int columns_at_once = 4;

// Columns of this thread; neighbours have neighbouring ones.
struct EdgeColumns {
  int64_t q;
  int first, step, width;

  explicit __device__ EdgeColumns(int64_t columns)
      : step((int(columns) + columns_at_once - 1) / columns_at_once), width(int(columns)) {
    const auto found = divided(thread_number(), step);
    q = found.quotient, first = found.rest;
  }
  // f(column)
  template <class F>
  __device__ void each(F f) const {
#pragma unroll
    for (int j = 0; j < columns_at_once; ++j)
      if (const int column = first + j * step; column < width) f(column);
  }
};
// Run a kernel with EdgeColumns on n edges.
template <class... P, class... A>
void launch_columns(int64_t n, int64_t columns, cudaStream_t stream, void (*kernel)(P...),
                    A&&... args) {
  launch_threads(n * ceil_div(columns, columns_at_once), stream, kernel, std::forward<A>(args)...);
}

// x [n, width] = the rows of a chunk's edges in a table by edge. Thread: columns of an edge; bound
// by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    edges_gather(EdgeChunk chunk, int64_t width, Input<R, S> table, Planes<S> x) {
  const EdgeColumns columns(width);
  const int64_t q = columns.q;
  if (q >= chunk.n) return;
  const bool has = chunk.has(q);
  const Input<R, S> row = table + (has ? chunk.edge(q) * width : 0);
  const Planes<S> to = x + q * width;
  columns.each([&](int column) { to.set(column, has ? row[column] : S(R(0))); });
}

// The rows of a chunk's edges in a table by edge = x.edge(edge of the chunk)(column). Thread:
// columns of an edge; bound by memory.
template <class X, class R>
__global__ void __launch_bounds__(block_threads)
    edges_scatter(EdgeChunk chunk, int64_t width, X x, R* __restrict__ table) {
  const EdgeColumns columns(width);
  const int64_t q = columns.q;
  if (q >= chunk.n || !chunk.has(q)) return;
  R* const row = table + chunk.edge(q) * width;
  const auto from = x.edge(q);
  columns.each([&](int column) { row[column] = result(from(column)); });
}

// The rows of a matrix [n, width] by edges of the chunk.
template <class R>
struct EdgeRows {
  const R* x;
  int64_t width;
  __device__ auto edge(int64_t q) const {
    return [row = x + q * width](int column) { return row[column]; };
  }
};

// ---- sums over the edges of a node ----

// Many edges of a node are several pieces, so that no thread has much more to do than others. A
// piece ends at a multiple of this in the order of that end.
constexpr int64_t longest_piece = 256;

// Edges of a node that are added up together.
struct EdgePiece {
  int64_t place, end;  // in the order of that end
  int32_t q, node;     // its first edge in the chunk
  bool whole;          // true if the chunk has no other edges of the node
};

// The edges of a chunk by the nodes at one end.
struct EdgeRuns {
  EdgeChunk chunk;
  bool of_sources;

  // A place in the order of that end, and the edge of the chunk there
  __device__ int64_t place(int64_t q) const {
    return of_sources ? chunk.place[q] : chunk.first + q;
  }
  __device__ int64_t at(int64_t k) const {
    return (of_sources ? chunk.columns.position_of(k) : k) - chunk.first;
  }
  __device__ int64_t node(int64_t q) const { return of_sources ? chunk.src(q) : chunk.dst(q); }
  __device__ int64_t begin(int64_t node) const {
    return (of_sources ? chunk.columns : chunk.rows).offsets[node];
  }
  __device__ bool inside(int64_t k) const {
    const int64_t q = at(k);
    return q >= 0 && q < chunk.n;
  }
  // True if the edge at place k of a node's is its first in the chunk
  __device__ bool first(int64_t node, int64_t k) const {
    return k == begin(node) || !inside(k - 1);
  }
  // True if a piece begins at edge q, which `piece` then is
  __device__ bool find(int64_t q, EdgePiece& piece) const {
    if (q >= chunk.n || !chunk.has(q)) return false;
    const int64_t node = this->node(q), k = place(q), row_end = begin(node + 1);
    const bool first = this->first(node, k);
    if (k % longest_piece != 0 && !first) return false;
    const int64_t most = min(row_end, (k / longest_piece + 1) * longest_piece);
    int64_t low = k + 1, high = most;  // edges of the chunk follow each other
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (inside(middle)) low = middle + 1;
      else high = middle;
    }
    const bool last = low < most || low == row_end || !inside(low);
    piece = {k, low, int32_t(q), int32_t(node), first && last};
    return true;
  }
};

// sums[node] += sum of x.edge(edge)(:) over its edges, if they are one piece; else pieces[q] = that
// over the piece that edge q of the chunk begins. Block: 32 edges; a warp finds the pieces that
// begin there, by bisection of at most 8 dependent reads, then `together` threads, a power of 2,
// take one after another, a thread 4 columns. Shared memory: 1 KB. Reads x once, the columns of an
// edge together; bound by memory.
template <class X, class R>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    edges_sum_pieces(EdgeRuns runs, int width, int together, X x, R* __restrict__ pieces,
                     R* __restrict__ sums) {
  SharedMemory memory;
  EdgePiece* const found = memory.template take<EdgePiece>(warp_lanes);
  int* const n_found = memory.template take<int>(1);
  const int thread = int(threadIdx.x);
  if (thread < warp_lanes) {
    EdgePiece piece;
    const bool begins = runs.find(int64_t(blockIdx.x) * warp_lanes + thread, piece);
    const unsigned all = __ballot_sync(~0u, begins);
    if (begins) found[__popc(all & ((1u << thread) - 1))] = piece;
    if (thread == 0) *n_found = __popc(all);
  }
  __syncthreads();
  const int count = *n_found, shift = __ffs(together) - 1;
  for (int i = thread >> shift; i < count; i += block_threads >> shift) {
    const EdgePiece piece = found[i];
    for (int c = thread & (together - 1); c < width; c += columns_at_once * together) {
      // beyond the last, that one again
      const auto column = [&](int j) { return min(c + j * together, width - 1); };
      decltype(x.edge(0)(0)) sum[columns_at_once];
      const auto first = x.edge(piece.q);
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) sum[j] = first(column(j));
#pragma unroll 1  // registers: more blocks at a time
      for (int64_t k = piece.place + 1; k < piece.end; ++k) {
        const auto next = x.edge(runs.at(k));
#pragma unroll
        for (int j = 0; j < columns_at_once; ++j) sum[j] += next(column(j));
      }
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) {
        if (c + j * together >= width) continue;
        if (piece.whole) sums[int64_t(piece.node) * width + column(j)] += result(sum[j]);
        else pieces[int64_t(piece.q) * width + column(j)] = result(sum[j]);
      }
    }
  }
}

// sums[node] += its pieces, in order, if they are several. Block: 32 edges, all warps the same; of
// those with which such a node begins, a thread every 128th column. Bound by asking, a hub by one
// dependent read for 256 edges.
template <class R>
__global__ void __launch_bounds__(block_threads)
    edges_add_pieces(EdgeRuns runs, int width, const R* __restrict__ pieces, R* __restrict__ sums) {
  const int lane = int(threadIdx.x) % warp_lanes;
  const auto after = [](int64_t k) { return (k / longest_piece + 1) * longest_piece; };
  const int64_t q = int64_t(blockIdx.x) * warp_lanes + lane;
  bool begins = false;
  if (q < runs.chunk.n && runs.chunk.has(q)) {
    const int64_t node = runs.node(q), k = runs.place(q), next = after(k);
    begins = next < runs.begin(node + 1) && runs.inside(next) && runs.first(node, k);
  }
  for (unsigned left = __ballot_sync(~0u, begins); left; left &= left - 1) {
    const int64_t first = q - lane + __ffs(int(left)) - 1;
    const int64_t node = runs.node(first), end = runs.begin(node + 1);
    for (int column = int(threadIdx.x); column < width; column += block_threads) {
      R sum = 0;
      for (int64_t k = runs.place(first); k < end && runs.inside(k); k = after(k))
        sum += pieces[runs.at(k) * width + column];
      sums[node * width + column] += sum;
    }
  }
}

// sums [nodes, width] += x.edge(edge of the chunk)(column). `pieces` [n, width] is overwritten.
template <class X, class R>
void add_to_nodes(const EdgeRuns& runs, int64_t width, const X& x, R* pieces, R* sums,
                  cudaStream_t stream) {
  int together = 1;
  while (together < block_threads && together * columns_at_once < width) together *= 2;
  const dim3 grid = grid_of(ceil_div(runs.chunk.n, warp_lanes)), block(block_threads);
  launch(edges_sum_pieces<X, R>, grid, block,
         shared_bytes<EdgePiece>(warp_lanes) + shared_bytes<int>(1), stream, runs, int(width),
         together, x, pieces, sums);
  launch(edges_add_pieces<R>, grid, block, 0, stream, runs, int(width), pieces, sums);
}

template <class S>
struct PlanesMatrix {
  Planes<S> x;  // [n_rows, n_columns]
  int64_t n_columns;
  __device__ S operator()(int64_t row, int64_t column) const { return x[row * n_columns + column]; }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Chunks of edges, in the order of destinations, and sums over those of a chunk that share a node.
//
// The edges of a destination follow each other. Those of a source are found by the order of
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

// x [n, width] = the rows of a chunk's edges in a table by edge. Thread: an entry; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    edges_gather(EdgeChunk chunk, int64_t width, Input<R, S> table, Planes<S> x) {
  const auto [q, column] = divided(thread_number(), int(width));
  if (q >= chunk.n) return;
  x.set(thread_number(), chunk.has(q) ? table[chunk.edge(q) * width + column] : S(R(0)));
}

// The rows of a chunk's edges in a table by edge = x(edge of the chunk, column). Thread: an entry;
// bound by memory.
template <class X, class R>
__global__ void __launch_bounds__(block_threads)
    edges_scatter(EdgeChunk chunk, int64_t width, X x, R* __restrict__ table) {
  const auto [q, column] = divided(thread_number(), int(width));
  if (q < chunk.n && chunk.has(q)) table[chunk.edge(q) * width + column] = result(x(q, column));
}

// ---- sums over the edges of a node ----

// Many edges of a node are several pieces, so that no thread has much more to do than others.
constexpr int64_t longest_piece = 256;

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
  // Whether the edge at place k of a node's is its first in the chunk
  __device__ bool first(int64_t node, int64_t k) const {
    return k == begin(node) || !inside(k - 1);
  }
};

// sums[node] += sum of x(edge, :) over its edges, if they are one piece; else pieces[q] = that over
// the piece that edge q of the chunk begins. Thread: a column of a piece, others end at once. Reads
// x once, the columns of an edge together; bound by memory.
template <class X, class R>
__global__ void __launch_bounds__(block_threads)
    edges_sum_pieces(EdgeRuns runs, int width, X x, R* __restrict__ pieces, R* __restrict__ sums) {
  const auto [q, column] = divided(thread_number(), width);
  if (q >= runs.chunk.n || !runs.chunk.has(q)) return;
  const int64_t node = runs.node(q), end = runs.begin(node + 1);
  int64_t k = runs.place(q);
  const bool first = runs.first(node, k);
  if (k % longest_piece != 0 && !first) return;
  auto sum = x(q, column);
  for (++k; k < end && k % longest_piece != 0 && runs.inside(k); ++k) sum += x(runs.at(k), column);
  if (first && (k == end || !runs.inside(k))) sums[node * width + column] += result(sum);
  else pieces[thread_number()] = result(sum);
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

// sums [nodes, width] += x(edge of the chunk, column). `pieces` [n, width] is overwritten.
template <class X, class R>
void add_to_nodes(const EdgeRuns& runs, int64_t width, const X& x, R* pieces, R* sums,
                  cudaStream_t stream) {
  launch_threads(runs.chunk.n * width, stream, edges_sum_pieces<X, R>, runs, int(width), x, pieces,
                 sums);
  launch(edges_add_pieces<R>, grid_of(ceil_div(runs.chunk.n, warp_lanes)), dim3(block_threads), 0,
         stream, runs, int(width), pieces, sums);
}

template <class S>
struct PlanesMatrix {
  Planes<S> x;  // [n_rows, n_columns]
  int64_t n_columns;
  __device__ S operator()(int64_t row, int64_t column) const { return x[row * n_columns + column]; }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Graphs from edges in any order, from edges by destination, or from other graphs: both orders of
// the edges, stable, as the CPU has them. Edges are sorted by radix (neighbors_sort.cuh); offsets
// are found by bisection of the sorted nodes. Left-out edges have a node behind the last one, and
// so come behind all others.
#include "device/call.cuh"
#include "gnograd_cuda.h"
#include "neighbors/neighbors_sort.cuh"

namespace gnograd {
namespace {

// Faults of the arrays, and their order, bit by bit; a number for every warp.
enum Finding { faulty = 1, disordered = 2 };

// Store a warp's findings; every thread of the block calls it.
__device__ void report(int finding, int32_t* found) {
  const unsigned wrong = __ballot_sync(~0u, finding & faulty);
  const unsigned other = __ballot_sync(~0u, finding & disordered);
  if (lane_number() == 0) found[warp_number()] = (wrong ? faulty : 0) | (other ? disordered : 0);
}

// One block of 1024 threads: found[0], whether anything is faulty; found[1], whether all is in
// order. Reads 4 bytes for every 32 edges; bound by latency.
__global__ void __launch_bounds__(scan_threads)
    graph_join_findings(const int32_t* __restrict__ findings, int64_t n, int64_t* found) {
  SharedMemory shared;
  int32_t* of_warps = shared.take<int32_t>(scan_threads / warp_lanes);
  const int t = int(threadIdx.x), lane = t % warp_lanes;
  int32_t all = 0;
  for (int64_t i = t; i < n; i += scan_threads) all |= findings[i];
  for (int d = warp_lanes / 2; d > 0; d /= 2) all |= __shfl_xor_sync(~0u, all, d);
  if (lane == 0) of_warps[t / warp_lanes] = all;
  __syncthreads();
  if (t != 0) return;
  for (int i = 1; i < scan_threads / warp_lanes; ++i) all |= of_warps[i];
  found[0] = all & faulty ? 1 : 0;
  found[1] = all & disordered ? 0 : 1;
}

// Number of sorted numbers that are less than x.
template <class I>
__device__ int64_t count_below(const I* sorted, int64_t n, int64_t x) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (int64_t(sorted[middle]) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Thread: where the edges of a node begin, of n + 1. Bisects 4 bytes an edge, writes 8; bound by
// latency.
__global__ void __launch_bounds__(block_threads)
    graph_find_offsets(const uint32_t* __restrict__ nodes, int64_t n_edges, int64_t n,
                       int64_t* __restrict__ offsets) {
  const int64_t i = thread_number();
  if (i <= n) offsets[i] = count_below(nodes, n_edges, i);
}

// The ends of edges as they are given, and loops behind them.
template <class T>
struct GivenEdges {
  const T *src, *dst;
  int64_t n_src, n_dst, n_given, n_edges;
  int self_loops;  // -1: as they are; else they are left out
  bool gaps;       // rows with ends of -1 are no edges

  __device__ int64_t source(int64_t e) const { return e < n_given ? int64_t(src[e]) : e - n_given; }
  __device__ int64_t destination(int64_t e) const {
    return e < n_given ? int64_t(dst[e]) : e - n_given;
  }
  __device__ bool is_gap(int64_t e) const { return gaps && e < n_given && src[e] == -1; }
  __device__ bool left_out(int64_t e) const {
    return is_gap(e) || (e < n_given && self_loops >= 0 && src[e] == dst[e]);
  }
};

// Thread: an edge; checks its ends, and writes its destination and number. Reads two numbers,
// writes 8 bytes; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    graph_check_edges(GivenEdges<T> edges, SortPairs to, int32_t* __restrict__ findings) {
  const int64_t e = thread_number();
  int finding = 0;
  if (e < edges.n_edges) {
    const int64_t source = edges.source(e);
    int64_t node = edges.destination(e);
    if (edges.left_out(e) || (e > 0 && edges.destination(e - 1) > node)) finding = disordered;
    const bool there = source >= 0 && source < edges.n_src && node >= 0 && node < edges.n_dst;
    if (!there && !edges.is_gap(e)) finding = faulty;
    if (!there || edges.left_out(e)) node = edges.n_dst;
    to.keys[e] = uint32_t(node);
    to.numbers[e] = int32_t(e);
  }
  report(finding, findings);
}

struct ByDestination {
  int32_t* indices;
  int64_t* edge_ids;
  int32_t* destinations;  // destination of every edge
};

// Thread: an edge in the order of destinations; reads 8 bytes, and its source from anywhere; writes
// 24 bytes; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    graph_write_by_destination(GivenEdges<T> edges, SortPairs sorted, ByDestination out,
                               SortPairs to) {
  const int64_t p = thread_number();
  if (p >= edges.n_edges) return;
  const int64_t e = sorted.numbers[p], node = sorted.keys[p];
  const int64_t source = edges.source(e);
  const bool there = node < edges.n_dst && source >= 0 && source < edges.n_src;
  out.edge_ids[p] = e;
  out.indices[p] = there ? int32_t(source) : 0;
  out.destinations[p] = there ? int32_t(node) : 0;
  to.keys[p] = uint32_t(there ? source : edges.n_src);
  to.numbers[p] = int32_t(p);
}

// Edges by destination as they are given.
template <class T>
struct GivenRows {
  const int64_t* offsets;
  const T* indices;
  int64_t n_src, n_dst, n_edges;
};

// Thread: an edge and a row; checks both, and writes the edge's source and number, and, found by
// bisection of the offsets, its destination. Bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    graph_check_rows(GivenRows<T> rows, int32_t* __restrict__ indices,
                     int32_t* __restrict__ destinations, SortPairs to,
                     int32_t* __restrict__ findings) {
  const int64_t i = thread_number();
  int finding = 0;
  if (i <= rows.n_dst) {
    const int64_t before = i ? rows.offsets[i - 1] : 0, here = rows.offsets[i];
    if (i == 0 ? here != 0 : here < before) finding = faulty;
    if (i == rows.n_dst && here != rows.n_edges) finding = faulty;
  }
  if (i < rows.n_edges) {
    int64_t source = rows.indices[i];
    if (source < 0 || source >= rows.n_src) {
      finding = faulty;
      source = rows.n_src;
    }
    indices[i] = int32_t(source);
    destinations[i] =
        int32_t(max(count_below(rows.offsets, rows.n_dst + 1, i + 1) - 1, int64_t(0)));
    to.keys[i] = uint32_t(source);
    to.numbers[i] = int32_t(i);
  }
  report(finding, findings);
}

// Thread: an edge; its row of edge arrays as a key, and one behind the last where there is no such
// row. Reads 8 bytes, writes 8; bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_write_ids(const int64_t* __restrict__ edge_ids, int64_t n_edges, SortPairs to) {
  const int64_t i = thread_number();
  if (i >= n_edges) return;
  const int64_t id = edge_ids[i];
  to.keys[i] = uint32_t(id < 0 || id > n_edges ? n_edges : id);
  to.numbers[i] = int32_t(i);
}

// Thread: an edge; whether these rows, in order, are all there are. Reads 4 bytes; bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_check_ids(const uint32_t* __restrict__ sorted, int64_t n_edges,
                    int32_t* __restrict__ findings) {
  const int64_t i = thread_number();
  report(i < n_edges && sorted[i] != i ? faulty : 0, findings);
}

struct BySource {
  int64_t* offsets;
  int32_t* indices;
  int64_t *edges, *positions;  // the latter may be null
};

// Thread: an edge in the order of sources; reads 8 bytes, and 4 to 12 from anywhere, writes 20;
// bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_write_by_source(SortPairs sorted, int64_t n_edges, int64_t n_src,
                          const int32_t* __restrict__ destinations,
                          const int64_t* __restrict__ edge_ids, BySource out) {
  const int64_t q = thread_number();
  if (q >= n_edges) return;
  const int64_t position = sorted.numbers[q];
  out.indices[q] = sorted.keys[q] < n_src ? destinations[position] : 0;
  out.edges[q] = edge_ids ? edge_ids[position] : position;
  if (out.positions) out.positions[q] = position;
}

// Buffers, and the two sorts.
struct EdgeSort {
  int64_t n_edges, n_findings;
  SortPairs pairs, others;
  SortDigits digits;
  int64_t* sums;
  int32_t *destinations, *findings;

  // Findings of threads for `items` of something, twice.
  EdgeSort(int64_t n, int64_t items, Workspace& workspace)
      : n_edges(n),
        n_findings(ceil_div(items, block_threads) * (block_threads / warp_lanes)),
        pairs{workspace.take<uint32_t>(n), workspace.take<int32_t>(n)},
        others{workspace.take<uint32_t>(n), workspace.take<int32_t>(n)},
        digits(n, workspace),
        sums(workspace.take<int64_t>(ceil_div(warp_lanes * digits.n_chunks, scan_chunk) + 1)),
        destinations(workspace.take<int32_t>(n)),
        findings(workspace.take<int32_t>(2 * n_findings)) {}

  void sort(int64_t n_nodes, cudaStream_t stream) {
    if (n_edges) sort_pairs(digits, bits_below(n_nodes + 1), pairs, others, sums, stream);
  }
  void transpose(int64_t n_src, const int64_t* edge_ids, const BySource& out, cudaStream_t stream) {
    sort(n_src, stream);
    launch_threads(n_src + 1, stream, graph_find_offsets, pairs.keys, n_edges, n_src, out.offsets);
    launch_threads(n_edges, stream, graph_write_by_source, pairs, n_edges, n_src, destinations,
                   edge_ids, out);
  }
  void join(int64_t n, int64_t* found, cudaStream_t stream) const {
    launch(graph_join_findings, dim3(1), dim3(scan_threads),
           shared_bytes<int32_t>(scan_threads / warp_lanes), stream, findings, n, found);
  }
};

bool few_enough(int64_t n_src, int64_t n_dst, int64_t n_edges) {
  return n_src >= 0 && n_dst >= 0 && n_edges >= 0 && n_src < INT32_MAX && n_dst < INT32_MAX &&
         n_edges < INT32_MAX;
}

// Thread: an edge; its two ends to its row of edge arrays, the destination found by bisection of
// the offsets, or -1 where there is no edge. Reads 4 to 12 bytes, writes 8 to anywhere; bound by
// memory.
__global__ void __launch_bounds__(block_threads)
    graph_write_ends(int64_t n_dst, int64_t n_edges, const int64_t* __restrict__ offsets,
                     const int32_t* __restrict__ indices, const int64_t* __restrict__ edge_ids,
                     int32_t* __restrict__ src, int32_t* __restrict__ dst) {
  const int64_t p = thread_number();
  if (p >= n_edges) return;
  const int64_t row = edge_ids ? edge_ids[p] : p;
  const bool there = p < offsets[n_dst];
  src[row] = there ? indices[p] : -1;
  dst[row] = there ? int32_t(count_below(offsets, n_dst + 1, p + 1) - 1) : -1;
}

// Thread: an edge, and the end of it by which the next sort goes; a row without an edge comes last.
// Reads 4 to 8 bytes, writes 4 or 8; bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_write_keys(const int32_t* __restrict__ ends, int64_t n_edges, int64_t n_nodes,
                     bool numbered, SortPairs to) {
  const int64_t i = thread_number();
  if (i >= n_edges) return;
  if (!numbered) to.numbers[i] = int32_t(i);
  const int32_t end = ends[to.numbers[i]];
  to.keys[i] = uint32_t(end < 0 ? n_nodes : end);
}

// Thread: an edge behind others with the same ends, if there are such; whether it is their first,
// which is kept. Reads 24 bytes, of which 16 from anywhere, and writes 4 there; bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_mark_first(const int32_t* __restrict__ src, const int32_t* __restrict__ dst,
                     const int32_t* __restrict__ numbers, int64_t n_edges,
                     int32_t* __restrict__ kept) {
  const int64_t i = thread_number();
  if (i >= n_edges) return;
  const int32_t e = numbers[i], before = i ? numbers[i - 1] : e;
  const bool repeated = i && src[e] == src[before] && dst[e] == dst[before];
  kept[e] = src[e] >= 0 && !repeated;
}

// Thread: an edge, and to its new place if it is kept: where the next one has another. Reads 16
// bytes, writes 8; bound by memory.
__global__ void __launch_bounds__(block_threads)
    graph_write_kept(const int32_t* __restrict__ src, const int32_t* __restrict__ dst,
                     const int32_t* __restrict__ places, int64_t n_edges,
                     int32_t* __restrict__ kept_src, int32_t* __restrict__ kept_dst,
                     int64_t* __restrict__ found) {
  const int64_t e = thread_number();
  if (e == 0) found[0] = places[n_edges];
  if (e >= n_edges || places[e + 1] == places[e]) return;
  kept_src[places[e]] = src[e];
  kept_dst[places[e]] = dst[e];
}

constexpr int64_t largest_blocks = 256;

// Warp: the largest of its share of numbers, -1 if it has none; a thread every `threads`-th number.
// Reads the numbers once; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    graph_find_largest(const T* __restrict__ x, int64_t n, int64_t threads,
                       int64_t* __restrict__ of_warps) {
  int64_t largest = -1;
  for (int64_t i = thread_number(); i < n; i += threads) largest = max(largest, int64_t(x[i]));
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    largest = max(largest, __shfl_xor_sync(~0u, largest, d));
  if (lane_number() == 0) of_warps[warp_number()] = largest;
}

}  // namespace

// Edges of nodes by pairs, n_given of them, in any order.
template <class T>
struct GraphFromEdges {
  int64_t n_src, n_dst, n_given;
  int self_loops;  // -1: as they are; 0: none; 1: one at every node on both sides, behind the
                   // others

  struct Ends {
    const T *src, *dst;  // [n_given]
  };
  struct Largest {
    int64_t* largest;  // [2]
  };
  struct Arrays {
    int64_t* offsets;
    int32_t* indices;
    int64_t *edge_ids, *src_offsets;
    int32_t* src_indices;
    int64_t *src_edges, *src_positions, *found;
  };

  int largest(const Ends& in, const Largest& out, Call& call) const {
    if (n_given < 0) return GNOGRAD_CUDA_VALUE;
    constexpr int64_t warps = largest_blocks * (block_threads / warp_lanes);
    auto* of_warps = call.workspace.take<int64_t>(2 * warps);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const dim3 blocks = grid_of(largest_blocks), threads(block_threads);
    const T* ends[2] = {in.src, in.dst};
    constexpr int64_t all = largest_blocks * block_threads;
    for (int end = 0; end < 2; ++end) {
      launch(graph_find_largest<T>, blocks, threads, 0, call.stream, ends[end], n_given, all,
             of_warps + end * warps);
      launch(graph_find_largest<int64_t>, dim3(1), dim3(warp_lanes), 0, call.stream,
             of_warps + end * warps, warps, int64_t(warp_lanes), out.largest + end);
    }
    return cudaGetLastError();
  }

  int build(const Ends& in, const Arrays& out, Call& call) const {
    return order(in, out, false, call);
  }
  int rows(const Ends& in, const Arrays& out, Call& call) const {
    return order(in, out, true, call);
  }

 private:
  int order(const Ends& in, const Arrays& out, bool gaps, Call& call) const {
    const int64_t n = n_given + (self_loops > 0 ? std::min(n_src, n_dst) : 0);
    if (!few_enough(n_src, n_dst, n) || n_given < 0) return GNOGRAD_CUDA_VALUE;
    EdgeSort sort(n, n, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const GivenEdges<T> edges{in.src, in.dst, n_src, n_dst, n_given, n, self_loops, gaps};
    launch_threads(n, call.stream, graph_check_edges<T>, edges, sort.pairs, sort.findings);
    sort.join(sort.n_findings, out.found, call.stream);
    sort.sort(n_dst, call.stream);
    launch_threads(n_dst + 1, call.stream, graph_find_offsets, sort.pairs.keys, n, n_dst,
                   out.offsets);
    const ByDestination by_dst{out.indices, out.edge_ids, sort.destinations};
    launch_threads(n, call.stream, graph_write_by_destination<T>, edges, sort.pairs, by_dst,
                   sort.others);
    std::swap(sort.pairs, sort.others);
    const BySource by_src{out.src_offsets, out.src_indices, out.src_edges, out.src_positions};
    sort.transpose(n_src, out.edge_ids, by_src, call.stream);
    return cudaGetLastError();
  }
};

// Edges by destination, as a graph has them.
template <class T>
struct GraphFromCsc {
  int64_t n_src, n_dst, n_edges;

  struct Rows {
    const int64_t* offsets;   // [n_dst + 1]
    const T* sources;         // [n_edges]
    const int64_t* edge_ids;  // [n_edges] or null
  };
  struct Arrays {
    int32_t* indices;
    int64_t* src_offsets;
    int32_t* src_indices;
    int64_t *src_edges, *src_positions, *found;
  };

  int build(const Rows& in, const Arrays& out, Call& call) const {
    if (!few_enough(n_src, n_dst, n_edges)) return GNOGRAD_CUDA_VALUE;
    const int64_t items = std::max(n_edges, n_dst + 1);
    EdgeSort sort(n_edges, items, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const GivenRows<T> rows{in.offsets, in.sources, n_src, n_dst, n_edges};
    if (in.edge_ids) {
      launch_threads(n_edges, call.stream, graph_write_ids, in.edge_ids, n_edges, sort.pairs);
      sort.sort(n_edges, call.stream);
      launch_threads(items, call.stream, graph_check_ids, sort.pairs.keys, n_edges,
                     sort.findings + sort.n_findings);
    }
    launch_threads(items, call.stream, graph_check_rows<T>, rows, out.indices, sort.destinations,
                   sort.pairs, sort.findings);
    sort.join(sort.n_findings * (in.edge_ids ? 2 : 1), out.found, call.stream);
    const BySource by_src{out.src_offsets, out.src_indices, out.src_edges, out.src_positions};
    sort.transpose(n_src, in.edge_ids, by_src, call.stream);
    return cudaGetLastError();
  }
};

// The rows of edge arrays of a graph.
template <class T>
struct GraphRows {
  int64_t n_dst, n_edges;

  struct Arrays {
    const int64_t* offsets;   // [n_dst + 1]
    const T* indices;         // [n_edges]
    const int64_t* edge_ids;  // [n_edges] or null
  };
  struct Ends {
    T *src, *dst;  // [n_edges]
  };

  int ends(const Arrays& in, const Ends& out, Call& call) const {
    if (!few_enough(0, n_dst, n_edges)) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(n_edges, call.stream, graph_write_ends, n_dst, n_edges, in.offsets, in.indices,
                   in.edge_ids, out.src, out.dst);
    return cudaGetLastError();
  }
};

// Choice of the rows of edges that are the first with their ends: two stable sorts bring the same
// edges side by side, the first one of them in front.
template <class T>
struct GraphUnion {
  int64_t n_src, n_dst, n_given;

  struct Ends {
    const T *src, *dst;  // [n_given], -1 where there is no edge
  };
  struct Kept {
    T *src, *dst;    // [n_given]
    int64_t* found;  // [1]
  };

  int first(const Ends& in, const Kept& out, Call& call) const {
    if (!few_enough(n_src, n_dst, n_given)) return GNOGRAD_CUDA_VALUE;
    EdgeSort sort(n_given, 0, call.workspace);
    auto* places = call.workspace.take<int32_t>(n_given + 1);
    auto* sums = call.workspace.take<int64_t>(ceil_div(n_given, scan_chunk));
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(n_given, call.stream, graph_write_keys, in.src, n_given, n_src, false,
                   sort.pairs);
    sort.sort(n_src, call.stream);
    launch_threads(n_given, call.stream, graph_write_keys, in.dst, n_given, n_dst, true,
                   sort.pairs);
    sort.sort(n_dst, call.stream);
    launch_threads(n_given, call.stream, graph_mark_first, in.src, in.dst, sort.pairs.numbers,
                   n_given, places);
    exclusive_scan(places, n_given, places + n_given, sums, call.stream);
    launch_threads(std::max(n_given, int64_t(1)), call.stream, graph_write_kept, in.src, in.dst,
                   places, n_given, out.src, out.dst, out.found);
    return cudaGetLastError();
  }
};

}  // namespace gnograd

#include "graph_entries.cuh"

// SPDX-License-Identifier: MIT
// Softmax of scores over the edges of a destination, for every head: alpha_p. Its Jacobian is
// symmetric, J v = alpha (v - alpha . v), so that the gradient for a cotangent g is J g; dual
// numbers make the jvp of alpha and the hvp of J g.
#include <limits>

#include "attention.cuh"
#include "device/call.cuh"

namespace gnograd {
namespace {

// Lanes go over heads, up to a warp's of them a tile; where there are few, over several edges, too.
struct HeadLanes {
  Heads heads;
  int each;  // lanes to an edge, a power of two
};
constexpr int batch_of_edges = 8;
inline HeadLanes head_lanes(int64_t n_heads) {
  int each = 1;
  while (each < warp_lanes && each < n_heads) each *= 2;
  const int tiles = int(std::max<int64_t>(1, ceil_div(n_heads, each)));
  return {{1, int(n_heads), std::max(each, batch_of_edges), tiles, false}, each};
}

// Scores as lanes read them: each of its head, and of every second edge, or every fourth, and so
// on; alpha, or with a cotangent g the gradient alpha (g - delta), as they write it.
template <class T, class S>
struct LaneScores {
  Csc graph;
  HeadLanes lanes;
  Input<T, S> s;  // [n_edges, n_heads]
  const T* g;     // [n_edges, n_heads], or null
  T* out;         // [n_edges, n_heads]

  __device__ int head(const Place& at) const {
    return at.tile * lanes.each + (at.group.lane & (lanes.each - 1));
  }
  __device__ bool some(const Place& at) const { return head(at) < lanes.heads.size; }
  // The lane's first edge, and from one to its next.
  __device__ int first(const Place& at) const { return at.group.lane / lanes.each; }
  __device__ int step(const Place& at) const { return at.group.size / lanes.each; }

  // Bytes before the scores of edge k; what there is so many bytes on in the column of a head.
  __device__ int64_t bytes(int64_t k) const {
    return graph.edge_of(k) * (lanes.heads.size * int(sizeof(T)));
  }
  __device__ S score(int head, int64_t bytes) const {
    const T* const d = s.d ? bytes_behind(s.d + head, bytes) : nullptr;
    return Input<T, S>{bytes_behind(s.v + head, bytes), d}[0];
  }
  __device__ real<T> cotangent(int head, int64_t bytes) const {
    return real<T>(*bytes_behind(g + head, bytes));
  }

  // Edges k to `end` of a row, four on their way at a time.
  __device__ void write(const Place& at, int64_t k, int64_t end, const SoftmaxRow<S>& row) const {
    constexpr int at_once = 4;
    const int h = head(at), by = step(at), n = some(at) ? int(end - k) : 0;
    for (int j = first(at); j < n; j += at_once * by) {
      int64_t to[at_once];
      S x[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        if (j + u * by >= n) continue;
        to[u] = bytes(k + (j + u * by));
        x[u] = row.weight(score(h, to[u]));
        if (g) x[u] *= S(cotangent(h, to[u])) - row.delta;
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (j + u * by < n) *bytes_behind(out + h, to[u]) = T(result(x[u]));
    }
  }
};

// A row with no score but -inf has no weights: it starts at the least finite score, not at -inf,
// from which nothing can be taken.
template <class S>
struct ScoresOfRow : OnlineSoftmax<S, WeightedCotangent<S>> {
  static constexpr real_part<S> least = std::numeric_limits<real_part<S>>::lowest();
  __device__ ScoresOfRow() { this->top = least; }
};

// Reads a score, and a cotangent, of every edge and head, and writes as many: a row that is in one
// unit of the walk finds its scores in caches when it is done. Lanes of a group read batches of 8
// edges as they follow one another, and have the sums of their own scores, with one rescaling a
// batch. Bound by memory.
template <class T, class S>
struct EdgeSoftmaxRows {
  static constexpr int step = 1;
  template <bool wide>
  static constexpr int at_once = batch_of_edges;
  using Partial = ScoresOfRow<S>;
  using Total = Nothing;
  struct Own {
    int64_t bytes;
  };

  Csc graph;
  Heads heads;
  LaneScores<T, S> scores;
  int64_t unit_length;
  SoftmaxRow<S>* softmax;  // [n_dst, n_heads], of longer rows

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ Own own(const Place&, int64_t k) const { return {scores.bytes(k)}; }
  template <bool wide, class Ahead>
  __device__ void batch(Partial& partial, Total&, const Place& at, int64_t, Nothing,
                        const EdgeBatch<Own>& edges, Ahead ahead) const {
    const int h = scores.head(at), first = scores.first(at), by = scores.step(at);
    const int n = scores.some(at) ? edges.n : 0;
    S s[batch_of_edges];
    real<T> g[batch_of_edges];
    bool in[batch_of_edges] = {};
#pragma unroll
    for (int u = 0; u < batch_of_edges; ++u) {
      if (u * by >= batch_of_edges) continue;
      const int64_t bytes = edges.of(edges.own.bytes, u * by + first);
      in[u] = u * by + first < n;
      if (!in[u]) continue;
      s[u] = scores.score(h, bytes);
      if (scores.g) g[u] = scores.cotangent(h, bytes);
    }
    ahead();
    auto top = partial.top;
#pragma unroll
    for (int u = 0; u < batch_of_edges; ++u)
      if (in[u] && value(s[u]) > top) top = value(s[u]);
    partial.raise(top);
#pragma unroll
    for (int u = 0; u < batch_of_edges; ++u)
      if (in[u]) {
        const S weight = exponential(s[u] - S(top));
        partial.sum += weight;
        if (scores.g) partial.more.sum += weight * g[u];
      }
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(Partial partial, const Place& at, int64_t i) const {
    for (int d = scores.lanes.each; d < at.group.size; d *= 2) {
      Partial other;
      other.top = group_swap(partial.top, d, at.group);
      other.sum = group_swap(partial.sum, d, at.group);
      other.more.sum = group_swap(partial.more.sum, d, at.group);
      partial.merge(other);
    }
    // all lanes of a head get equal bits
    const int lane = at.group.lane & (scores.lanes.each - 1);
    partial.top = group_get(partial.top, lane, at.group);
    partial.sum = group_get(partial.sum, lane, at.group);
    const S inverse = partial.inverse();
    const SoftmaxRow<S> row{partial.top, inverse,
                            group_get(partial.more.sum, lane, at.group) * inverse};
    const int64_t begin = graph.offsets[i], end = graph.offsets[i + 1];
    if (end - begin <= unit_length) scores.write(at, begin, end, row);
    else if (scores.some(at) && at.group.lane < scores.lanes.each)
      softmax[i * heads.size + scores.head(at)] = row;
  }
};

// The rest of it, for rows that are longer than a unit: those that a unit begins and ends in.
// Group: a unit and a tile of heads; most have nothing to do. Reads scores and cotangents of these
// rows once more, and writes as many numbers; bound by memory.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    edge_softmax_long_rows(EdgeSoftmaxRows<T, S> op, Cut cut) {
  const Group group = this_group(op.heads.lanes);
  const auto [unit, tile] = divided<int>(group.number, op.heads.tiles);
  if (unit >= cut.n_units) return;
  const Place at{group, 0, tile, 1};
  const int64_t first = cut.first[unit], last = cut.first[unit + 1];
  const int64_t final_row = cut.rows[unit + 1];
  for (int64_t row = cut.rows[unit]; row <= final_row && row < op.graph.n_rows;
       row = row < final_row ? final_row : final_row + 1) {
    const int64_t begin = op.graph.offsets[row], end = op.graph.offsets[row + 1];
    if (end - begin > op.unit_length && op.scores.some(at))
      op.scores.write(at, max(begin, first), min(end, last),
                      op.softmax[row * op.heads.size + op.scores.head(at)]);
  }
}

template <class T>
struct EdgeSoftmax : EdgeSoftmaxRecords {
  template <class S>
  int run(const Inputs<T, S>& in, const T* g, T* out, Call& call) const {
    if (n_heads < 0) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(*graph);
    const HeadLanes lanes = head_lanes(n_heads);
    const Heads& heads = lanes.heads;
    const Cut cut = take_cut(rows, call.workspace);
    char* split = call.workspace.template take<char>(
        split_bytes<EdgeSoftmaxRows<T, S>>(cut, heads, heads.tiles));
    auto* softmax = call.workspace.template take<SoftmaxRow<S>>(rows.n_rows * n_heads);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (!out || n_heads == 0) return cudaSuccess;

    cut_rows(rows, cut, call.stream);
    clear_room(*graph, out, n_heads, call.stream);
    const LaneScores<T, S> scores{rows, lanes, in.s, g, out};
    const EdgeSoftmaxRows<T, S> op{rows, heads, scores, cut.unit_length, softmax};
    for_rows(op, cut, split, call.stream);
    launch_threads(int64_t(cut.n_units) * heads.tiles * heads.lanes, call.stream,
                   edge_softmax_long_rows<T, S>, op, cut);
    return cudaGetLastError();
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return run(in, nullptr, out.out, call);
  }
  // Saved out is not read: the scores are needed for it in 16 bits, and cost as much to read.
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>&,
              const Gradients<T>& grad, Call& call) const {
    return run(in, g.out, grad.s, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "edge_softmax_entries.cuh"

// SPDX-License-Identifier: MIT
// Softmax of scores over the edges of a destination, for every head: alpha_p. Its Jacobian is
// symmetric, J v = alpha (v - alpha . v), so that the gradient for a cotangent g is J g; dual
// numbers make the jvp of alpha and the hvp of J g.
#include <limits>

#include "attention.cuh"
#include "device/call.cuh"

namespace gnograd {
namespace {

// A lane has one head of every edge, and `tiles` of them where there are more than a warp's.
inline Heads one_head_a_lane(int64_t n_heads) {
  Heads heads{1, int(n_heads), 1, 1, false};
  while (heads.lanes < warp_lanes && heads.lanes < n_heads) heads.lanes *= 2;
  heads.tiles = int(std::max<int64_t>(1, ceil_div(n_heads, heads.lanes)));
  return heads;
}

// A row with no score but -inf has no weights: it starts at the least finite score, not at -inf,
// from which nothing can be taken.
template <class S>
struct ScoresOfRow : OnlineSoftmax<S, WeightedCotangent<S>> {
  static constexpr real_part<S> least = std::numeric_limits<real_part<S>>::lowest();
  __device__ ScoresOfRow() { this->top = least; }
};

// Reads a score, and a cotangent, of every edge and head once. Groups are as wide as there are
// heads, so that with one head neighbouring lanes read 128 edges apart, out of what the caches hold
// of a line; bound by the chain of rescaled sums, which a lane follows edge by edge.
template <class T, class S>
struct EdgeSoftmaxStatistics {
  static constexpr int step = 1, unroll = 2;
  using Partial = ScoresOfRow<S>;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  Input<T, S> s;         // [n_edges, n_heads]
  const T* g;            // [n_edges, n_heads], or null
  SoftmaxRow<S>* softmax;  // [n_dst, n_heads]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial& partial, Total&, const Place& at, int64_t, int64_t k) const {
    const int h = at.column();
    if (h >= heads.size) return;
    const int64_t e = graph.edge_of(k) * heads.size + h;
    const S weight = partial.take(s[e]);
    if (g) partial.more.sum += weight * real<T>(g[e]);
  }
  __device__ void merge(Partial& partial, const Partial& more) const { partial.merge(more); }
  __device__ void finish(const Partial& partial, const Place& at, int64_t i) const {
    const int h = at.column();
    if (h >= heads.size) return;
    const S inverse = partial.inverse();
    softmax[i * heads.size + h] = {partial.top, inverse, partial.more.sum * inverse};
  }
};

// Writes alpha, or with g the gradient alpha (g - delta), of every edge and head; reads what
// EdgeSoftmaxStatistics does, and the destination's softmax out of caches.
template <class T, class S>
struct EdgeSoftmaxWrite {
  static constexpr int step = 1, unroll = 2;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  Input<T, S> s;
  const T* g;
  const SoftmaxRow<S>* softmax;
  T* out;  // [n_edges, n_heads]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    const int h = at.column();
    if (h >= heads.size) return;
    const int64_t e = graph.edge_of(k) * heads.size + h;
    const SoftmaxRow<S> row = softmax[i * heads.size + h];
    S x = row.weight(s[e]);
    if (g) x *= S(real<T>(g[e])) - row.delta;
    out[e] = T(result(x));
  }
};

template <class T>
struct EdgeSoftmax {
  const gnograd_cuda_graph* graph;
  int64_t n_heads;

  struct Inputs {
    const T* s;  // [n_edges, n_heads]
  };
  struct Outputs {
    T* out;  // [n_edges, n_heads]
  };
  struct Cotangents {
    const T* out;
  };
  struct Saved {
    const T* out;  // not read: the scores are needed for it in 16 bits, and cost as much to read
  };
  struct Gradients {
    T* s;  // or null
  };

  template <class S>
  int run(const Inputs& in, const Inputs& tangents, const T* g, T* out, Call& call) const {
    if (n_heads < 0) return GNOGRAD_CUDA_VALUE;
    const Csc rows = by_dst(*graph);
    const Heads heads = one_head_a_lane(n_heads);
    const Cut cut = take_cut(rows, call.workspace);
    char* split = call.workspace.template take<char>(
        split_bytes<EdgeSoftmaxStatistics<T, S>>(cut, heads, heads.tiles));
    auto* softmax = call.workspace.template take<SoftmaxRow<S>>(rows.n_rows * n_heads);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (!out || n_heads == 0) return cudaSuccess;

    cut_rows(rows, cut, call.stream);
    clear_room(*graph, out, n_heads, call.stream);
    const Input<T, S> s{in.s, tangents.s};
    for_rows(EdgeSoftmaxStatistics<T, S>{rows, heads, s, g, softmax}, cut, split, call.stream);
    for_rows(EdgeSoftmaxWrite<T, S>{rows, heads, s, g, softmax, out}, cut, split, call.stream);
    return cudaGetLastError();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return run<real<T>>(in, {}, nullptr, out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved&, const Gradients& grad,
          Call& call) const {
    return run<real<T>>(in, {}, g.out, grad.s, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return run<Dual<real<T>>>(in, tangents, nullptr, out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return run<Dual<real<T>>>(in, tangents, g.out, grad.s, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "edge_softmax_entries.cuh"

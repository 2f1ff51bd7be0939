// SPDX-License-Identifier: MIT
// What edge_mlp makes of the output m of its layers, for the edges of a chunk, and the way back:
//
//     edges_p = m_p,  or normalised  gamma * x_p + beta,  x_p = (m_p - mean)/sigma;  + e_p or not
//     nodes_i = s_i sum over the edges p of i of w_p edges_p,   s_i = 1 or 1/(sum of w_p)
//
// Neither edges nor x is kept: both are formed from m where they are used.
#pragma once
#include "edge_network/edge_layers.cuh"

namespace gnograd {

template <class R, class S>
struct EdgeMessages {
  EdgeChunk chunk;
  int64_t width;
  Planes<S> m;                   // [n, width]
  Planes<S> moments;             // [n, 2] mean and 1/sigma, or null: no normalisation
  Input<R, S> gamma, beta;       // [width]
  Input<R, S> e;                 // [n_edges, width], or null: no residual
  Input<R, S> weight;            // [n_edges], or null: 1
  Planes<S> scale;               // s [n_dst], or null: 1
  const R *of_edges, *of_nodes;  // cotangents [n_edges, width], [n_dst, width], or null: 0

  __device__ S normal(int64_t q, int64_t k) const {
    return (m[q * width + k] - moments[2 * q]) * moments[2 * q + 1];
  }
  // edges_p
  __device__ S operator()(int64_t q, int64_t k) const {
    const S out = moments.v ? normal(q, k) * gamma[k] + beta[k] : m[q * width + k];
    return e ? out + e[chunk.edge(q) * width + k] : out;
  }
  // s_i w_p
  __device__ S coefficient(int64_t q) const {
    const S s = scale.v ? scale[chunk.dst(q)] : S(R(1));
    return weight ? s * weight[chunk.edge(q)] : s;
  }
  // Gradient to edges_p
  __device__ S gradient(int64_t q, int64_t k) const {
    S sum = R(0);
    if (of_edges) sum = of_edges[chunk.edge(q) * width + k];
    if (of_nodes) sum += coefficient(q) * of_nodes[chunk.dst(q) * width + k];
    return sum;
  }
};

// s_i w_p edges_p. An edge moves its row of m, and of e.
template <class R, class S>
struct WeightedMessages {
  EdgeMessages<R, S> messages;
  __device__ S operator()(int64_t q, int64_t k) const {
    return messages.coefficient(q) * messages(q, k);
  }
};

// What an edge adds to the gradients of [gamma | beta]. It moves its row of m and of the
// cotangents.
template <class R, class S>
struct NormGradients {
  EdgeMessages<R, S> messages;
  __device__ S operator()(int64_t q, int64_t column) const {
    if (!messages.chunk.has(q)) return S(R(0));
    const int64_t width = messages.width, k = column < width ? column : column - width;
    const S g = messages.gradient(q, k);
    return column < width ? g * messages.normal(q, k) : g;
  }
};

// Gradient to e, by the first layer and by the residual.
template <class R, class S>
struct EdgeGradients {
  EdgeMessages<R, S> messages;
  PlainMatrix<R> by_layer;
  __device__ R operator()(int64_t q, int64_t k) const {
    const R sum = by_layer(q, k);
    return messages.e ? sum + result(messages.gradient(q, k)) : sum;
  }
};

// Warp: an edge, lanes over features. Reads m twice, the second time from caches; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_moments(int64_t n, int64_t width, Planes<S> m, Planes<S> moments) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number;
  if (q >= n) return;
  S mean = R(0), square = R(0);
  for (int64_t k = warp.lane; k < width; k += warp_lanes) mean += m[q * width + k];
  mean = group_sum(mean, warp) * (R(1) / R(width));
  for (int64_t k = warp.lane; k < width; k += warp_lanes) {
    const S x = m[q * width + k] - mean;
    square += x * x;
  }
  square = group_sum(square, warp) * (R(1) / R(width)) + S(R(1e-5));
  if (warp.lane != 0) return;
  moments.set(2 * q, mean);
  moments.set(2 * q + 1, S(R(1)) / square_root(square));
}

// grad [n, width] = gradients to m. Warp: an edge, lanes over features. Reads m and the cotangents
// twice, the second time from caches, writes as many numbers; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_reverse(EdgeMessages<R, S> messages, Planes<S> grad) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number, width = messages.width;
  if (q >= messages.chunk.n) return;
  const bool has = messages.chunk.has(q);
  S sum = R(0), turned = R(0);
  if (has && messages.moments.v) {
    for (int64_t k = warp.lane; k < width; k += warp_lanes) {
      const S g = messages.gradient(q, k) * messages.gamma[k];
      sum += g;
      turned += g * messages.normal(q, k);
    }
    sum = group_sum(sum, warp) * (R(1) / R(width));
    turned = group_sum(turned, warp) * (R(1) / R(width));
  }
  for (int64_t k = warp.lane; k < width; k += warp_lanes) {
    S g = R(0);
    if (has) {
      g = messages.gradient(q, k);
      if (messages.moments.v)
        g = messages.moments[2 * q + 1] *
            (g * messages.gamma[k] - sum - messages.normal(q, k) * turned);
    }
    grad.set(q * width + k, g);
  }
}

// d_w_p = edges_p . g_i, of a mean, by position, for message_mean_weights. Warp: an edge, lanes
// over features; reads m, e and g_i; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_weights(EdgeMessages<R, S> messages, Planes<S> of_mean, R* __restrict__ of_sum) {
  const Group warp = this_group(warp_lanes);
  const int64_t q = warp.number, width = messages.width;
  if (q >= messages.chunk.n || !messages.chunk.has(q)) return;
  S sum = R(0);
  for (int64_t k = warp.lane; k < width; k += warp_lanes)
    sum += messages(q, k) * messages.of_nodes[messages.chunk.dst(q) * width + k];
  sum = group_sum(sum, warp);
  if (warp.lane != 0) return;
  if (of_mean.v) of_mean.set(messages.chunk.first + q, sum);
  else of_sum[messages.chunk.edge(q)] = result(sum);
}

// d_w_p = s_i (edges_p - nodes_i) . g_i, for `along` edges_p . g_i by position. Warp: a
// destination, lanes over its edges; reads two numbers an edge, one of them twice, writes one;
// bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_mean_weights(Csc graph, Input<R, S> weight, Planes<S> scale, Planes<S> along,
                         R* __restrict__ grad_weight) {
  const Group warp = this_group(warp_lanes);
  const int64_t i = warp.number;
  if (i >= graph.n_rows) return;
  const int64_t begin = graph.offsets[i], end = graph.offsets[i + 1];
  const S s = scale[i];
  S mean = R(0);
  for (int64_t p = begin + warp.lane; p < end; p += warp_lanes)
    mean += weight[graph.edge_of(p)] * along[p];
  mean = s * group_sum(mean, warp);
  for (int64_t p = begin + warp.lane; p < end; p += warp_lanes)
    grad_weight[graph.edge_of(p)] = result(s * (along[p] - mean));
}

// scale[i] = 1/(sum of the weights of i's edges), without weights 1/degree; 0 without edges. Warp:
// a destination, lanes over its edges; reads a number an edge; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_scales(Csc graph, Input<R, S> weight, Planes<S> scale) {
  const Group warp = this_group(warp_lanes);
  const int64_t i = warp.number;
  if (i >= graph.n_rows) return;
  const int64_t begin = graph.offsets[i], end = graph.offsets[i + 1];
  S sum = R(0);
  for (int64_t p = begin + warp.lane; weight && p < end; p += warp_lanes)
    sum += weight[graph.edge_of(p)];
  sum = group_sum(sum, warp);
  if (!weight) sum = R(end - begin);
  if (warp.lane == 0) scale.set(i, begin == end ? S(R(0)) : S(R(1)) / sum);
}

}  // namespace gnograd

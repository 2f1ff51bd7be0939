// SPDX-License-Identifier: MIT
// Results of edge_mlp from the output m of its layers, for the edges of a chunk, and the way back:
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

  // s_i w_p
  __device__ S coefficient(int64_t q) const {
    const S s = scale.v ? scale[chunk.dst(q)] : S(R(1));
    return weight ? s * weight[chunk.edge(q)] : s;
  }
  // Features x_p of an edge, which are m_p where nothing is normalised,
  __device__ auto normal(int64_t q) const {
    const bool normalised = moments.v;
    const S mean = normalised ? moments[2 * q] : S(R(0));
    const S factor = normalised ? moments[2 * q + 1] : S(R(1));
    return [row = m + q * width, normalised, mean, factor](int k) {
      return normalised ? (row[k] - mean) * factor : row[k];
    };
  }
  // edges_p,
  __device__ auto edge(int64_t q) const {
    return [this, x = normal(q), added = e ? e + chunk.edge(q) * width : e](int k) {
      const S out = moments.v ? x(k) * gamma[k] + beta[k] : x(k);
      return added ? out + added[k] : out;
    };
  }
  // and the gradient to edges_p
  __device__ auto gradient(int64_t q) const {
    const R* const own = of_edges ? of_edges + chunk.edge(q) * width : nullptr;
    const R* const node = of_nodes ? of_nodes + chunk.dst(q) * width : nullptr;
    const S factor = of_nodes ? coefficient(q) : S(R(0));
    return [own, node, factor](int k) {
      S sum = R(0);
      if (own) sum = own[k];
      if (node) sum += factor * node[k];
      return sum;
    };
  }
};

// s_i w_p edges_p. An edge moves its row of m, and of e.
template <class R, class S>
struct WeightedMessages {
  EdgeMessages<R, S> messages;
  __device__ auto edge(int64_t q) const {
    return [coefficient = messages.coefficient(q), message = messages.edge(q)](int k) {
      return coefficient * message(k);
    };
  }
};

// Gradient to e, by the first layer and by the residual.
template <class R, class S>
struct EdgeGradients {
  EdgeMessages<R, S> messages;
  EdgeRows<R> by_layer;
  __device__ auto edge(int64_t q) const {
    return [residual = bool(messages.e), row = by_layer.edge(q),
            more = messages.gradient(q)](int k) {
      return residual ? row(k) + result(more(k)) : row(k);
    };
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
  const Planes<S> to = grad + q * width;
  if (!messages.chunk.has(q)) {
    for (int k = warp.lane; k < width; k += warp_lanes) to.set(k, S(R(0)));
    return;
  }
  const bool normalised = messages.moments.v;
  const auto gradient = messages.gradient(q);
  const auto normal = messages.normal(q);
  S sum = R(0), turned = R(0), factor = R(1);
  if (normalised) {
    for (int k = warp.lane; k < width; k += warp_lanes) {
      const S g = gradient(k) * messages.gamma[k];
      sum += g;
      turned += g * normal(k);
    }
    sum = group_sum(sum, warp) * (R(1) / R(width));
    turned = group_sum(turned, warp) * (R(1) / R(width));
    factor = messages.moments[2 * q + 1];
  }
  for (int k = warp.lane; k < width; k += warp_lanes) {
    const S g = gradient(k);
    to.set(k, normalised ? factor * (g * messages.gamma[k] - sum - normal(k) * turned) : g);
  }
}

// sums [n/64, 2, width] = what 64 edges add to the gradients of [gamma | beta], or that is added to
// them. Thread: a feature of 64 edges; reads m and the cotangents; bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    message_norm_gradients(EdgeMessages<R, S> messages, S* __restrict__ sums, bool added) {
  const auto [block, k] = divided(thread_number(), int(messages.width));
  const int64_t first = block * folded, last = min(first + folded, messages.chunk.n);
  if (first >= last) return;
  S to_gamma = R(0), to_beta = R(0);
  for (int64_t q = first; q < last && messages.chunk.has(q); ++q) {
    const S g = messages.gradient(q)(k);
    to_gamma += g * messages.normal(q)(k);
    to_beta += g;
  }
  S* const to = sums + 2 * block * messages.width + k;
  to[0] = added ? to[0] + to_gamma : to_gamma;
  to[messages.width] = added ? to[messages.width] + to_beta : to_beta;
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
  const auto message = messages.edge(q);
  const R* const of_node = messages.of_nodes + messages.chunk.dst(q) * width;
  for (int k = warp.lane; k < width; k += warp_lanes) sum += message(k) * of_node[k];
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

// SPDX-License-Identifier: MIT
// A bias of attention that is linear in the distance of query and key: to the logits of row r, a
// query at p_r and one of its heads, and of the key at p_c it adds slope |p_r - p_c|. With
// u = (p_r - p_c) / |p_r - p_c|, which is 0 where the points coincide,
//
//     grad slope = sum dS |p_r - p_c|    grad p_r = sum slope dS u    grad p_c = -sum slope dS u
//
// Distances are computed where a tile of logits is; rows (of queries) and heads (of keys) have sums
// of their own, which are added up at last.
#pragma once
#include "device/sums.cuh"
#include "device/tiles.cuh"

namespace gnograd {

constexpr int most_dimensions = 8;

// Contribution of one pair to the gradients.
template <class S>
struct DistancePull {
  S length;
  S along[most_dimensions];  // slope dS u

  __device__ DistancePull() : length(0) {
    for (int c = 0; c < most_dimensions; ++c) along[c] = 0;
  }
};

template <class R, class S>
struct DistanceBias {
  Input<R, S> queries, keys;  // [queries, d], [keys, d]
  Input<R, S> slope;          // [query heads]
  int64_t heads;              // query heads
  int d;                      // 0: there is no bias

  explicit __host__ __device__ operator bool() const { return d > 0; }

  // Distance between a query and a key; row `at` below is one of the query's.
  __device__ S length(int64_t query, int64_t key) const {
    S squares = 0;
    for (int c = 0; c < d; ++c) {
      const S r = queries[query * d + c] - keys[key * d + c];
      squares += r * r;
    }
    return value(squares) == 0 ? S(0) : square_root(squares);
  }
  __device__ S operator()(int64_t at, int64_t query, int64_t key) const {
    return slope[at % heads] * length(query, key);
  }
  // Add what the pair gives whose cotangent is ds.
  __device__ void pull(DistancePull<S>& sum, int64_t at, int64_t query, int64_t key, S ds) const {
    const S l = length(query, key);
    sum.length += ds * l;
    if (value(l) == 0) return;
    const S w = slope[at % heads] * ds / l;
#pragma unroll
    for (int c = 0; c < most_dimensions; ++c)
      if (c < d) sum.along[c] += w * (queries[query * d + c] - keys[key * d + c]);
  }
};

// grad[token, c] = sum over the heads. Thread: a coordinate of a token; reads a number a head;
// bound by memory.
template <class R, class S>
__global__ void __launch_bounds__(block_threads)
    nsa_join_positions(int64_t n_tokens, int heads, int d, int pitch, const S* __restrict__ sums,
                       R* __restrict__ grad) {
  const int64_t token = thread_number() / d;
  const int c = int(thread_number() % d);
  if (token >= n_tokens) return;
  S sum = 0;
  for (int h = 0; h < heads; ++h) sum += sums[(token * heads + h) * pitch + c];
  grad[thread_number()] = R(result(sum));
}

// Contribution of every row to the gradient to its slope, behind its d coordinates.
template <class S>
struct SlopeSums {
  const S* sums;  // [queries, heads, d + 1]
  int64_t heads;
  int d;
  __device__ S operator()(int64_t query, int64_t head) const {
    return sums[(query * heads + head) * (d + 1) + d];
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Functions of one and of two numbers, for every element of an array.
#pragma once
#include "device/activation.cuh"
#include "gnograd_cuda.h"

namespace gnograd {

__device__ inline float power(float x, float y) { return powf(x, y); }
__device__ inline double power(double x, double y) { return pow(x, y); }

template <class R>
__device__ R unary(int function, R p, R parameter) {
  switch (function) {
    case GNOGRAD_CUDA_NEGATIVE: return -p;
    case GNOGRAD_CUDA_EXP: return exponential(p);
    case GNOGRAD_CUDA_LOG: return logarithm(p);
    case GNOGRAD_CUDA_SQRT: return square_root(p);
    case GNOGRAD_CUDA_SIN: return sine(p);
    case GNOGRAD_CUDA_COS: return cosine(p);
    case GNOGRAD_CUDA_ABS: return p < 0 ? -p : p + R(0);  // -0 becomes 0
    case GNOGRAD_CUDA_SIGN_OF: return p > 0 ? R(1) : p < 0 ? R(-1) : p;
    case GNOGRAD_CUDA_INVERSE: return p != 0 && p == p ? R(1) / p : R(0) * p;
    case GNOGRAD_CUDA_SIGMOID: return logistic(p);
    case GNOGRAD_CUDA_MONOMIAL:
      // powers that programs write most often, without the rounding of the general one
      if (parameter == R(2)) return p * p;
      if (parameter == R(3)) return p * p * p;
      if (parameter == R(0.5)) return square_root(p);
      if (parameter == R(-0.5)) return R(1) / square_root(p);
      if (parameter == R(-1)) return R(1) / p;
      return power(p, parameter);
    case GNOGRAD_CUDA_RELU: return activate(act_relu, p);
    case GNOGRAD_CUDA_GELU: return activate(act_gelu, p);
    case GNOGRAD_CUDA_SILU: return activate(act_silu, p);
    default: return activate(act_tanh, p);
  }
}

template <class R>
__device__ R binary(int function, R p, R q) {
  switch (function) {
    case GNOGRAD_CUDA_ADD: return p + q;
    case GNOGRAD_CUDA_SUBTRACT: return p - q;
    case GNOGRAD_CUDA_MULTIPLY: return p * q;
    case GNOGRAD_CUDA_DIVIDE: return p / q;
    case GNOGRAD_CUDA_POWER: return power(p, q);
    case GNOGRAD_CUDA_MAXIMUM: return p >= q || p != p ? p : q;
    case GNOGRAD_CUDA_MINIMUM: return p <= q || p != p ? p : q;
    case GNOGRAD_CUDA_ABOVE: return p > q ? R(1) : p < q ? R(0) : R(0.5);
    case GNOGRAD_CUDA_RELU_SLOPE: return p * slope(act_relu, q);
    case GNOGRAD_CUDA_GELU_SLOPE: return p * slope(act_gelu, q);
    case GNOGRAD_CUDA_SILU_SLOPE: return p * slope(act_silu, q);
    default: return p * slope(act_tanh, q);
  }
}

// Thread: an element; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads) tape_fill(int64_t n, R number, R* __restrict__ x) {
  const int64_t i = thread_number();
  if (i < n) x[i] = number;
}

// Thread: an element; reads one number and writes one, bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_unary(int function, R parameter, int64_t n, const R* a, R* c) {
  const int64_t i = thread_number();
  if (i < n) c[i] = unary(function, a[i], parameter);
}

// Walk through two operands: axes of the result from the first on, neighbours that are alike walked
// as one, and the step along each in both operands.
struct Walk {
  int n_axes;
  int64_t size, extent[4], a_stride[4], b_stride[4];
};

// Thread: an element of c; reads two numbers and writes one, with a division for every axis but
// one.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_binary(int function, Walk walk, const R* a, const R* b, R* c) {
  const int64_t i = thread_number();
  if (i >= walk.size) return;
  int64_t rest = i, x = 0, y = 0;
  for (int d = 0; d < walk.n_axes; ++d) {
    int64_t at = rest;
    if (d + 1 < walk.n_axes) {
      rest = at / walk.extent[d];
      at -= rest * walk.extent[d];
    }
    x += at * walk.a_stride[d];
    y += at * walk.b_stride[d];
  }
  c[i] = binary(function, a[x], b[y]);
}

inline Walk walk_of(const int64_t* a_extents, const int64_t* b_extents) {
  Walk walk{0, 1, {}, {}, {}};
  int64_t a_step = 1, b_step = 1;
  for (int d = 0; d < 4; ++d) {
    const int64_t extent = a_extents[d] == 1 ? b_extents[d] : a_extents[d];
    walk.size *= extent;
    if (extent == 1) continue;
    const int64_t a_stride = a_extents[d] == 1 ? 0 : a_step;
    const int64_t b_stride = b_extents[d] == 1 ? 0 : b_step;
    const int last = walk.n_axes - 1;
    if (last >= 0 && (a_stride == 0) == (walk.a_stride[last] == 0) &&
        (b_stride == 0) == (walk.b_stride[last] == 0)) {
      walk.extent[last] *= extent;
    } else {
      walk.extent[walk.n_axes] = extent;
      walk.a_stride[walk.n_axes] = a_stride;
      walk.b_stride[walk.n_axes] = b_stride;
      ++walk.n_axes;
    }
    a_step *= a_extents[d];
    b_step *= b_extents[d];
  }
  return walk;
}

}  // namespace gnograd

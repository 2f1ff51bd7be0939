// SPDX-License-Identifier: MIT
// Activations of attention scores, and their slopes. With the parameter c: LeakyReLU is z or c z,
// ELU is z or c (exp(z) - 1), Scalar is c z. At z = 0 slopes are those of the negative side.
#pragma once
#include "numbers.cuh"

namespace gnograd {

enum ScoreActivationCode {
  score_leaky_relu,
  score_elu,
  score_linear,
  score_relu,
  score_scalar,
  score_sigmoid,
  score_tanh,
  n_score_activations
};

// The activations that bend. Not inlined: they are long, and GATv2 has one for every feature.
template <class A, class S>
__device__ __attribute__((noinline)) S smooth_activation(int code, A c, S x) {
  if (code == score_tanh) return hyperbolic_tangent(x);
  if (code == score_elu) return value(x) > 0 ? x : c * exponential_minus_1(x);
  const S t = exponential(value(x) > 0 ? -x : x);
  return (value(x) > 0 ? S(1) : t) / (S(1) + t);
}
template <class A, class S>
__device__ __attribute__((noinline)) S smooth_derivative(int code, A c, S x) {
  if (code == score_tanh) {
    const S t = hyperbolic_tangent(x);
    return S(1) - t * t;
  }
  if (code == score_elu) return value(x) > 0 ? S(1) : c * exponential(x);
  const S t = exponential(value(x) > 0 ? -x : x);
  return t / ((S(1) + t) * (S(1) + t));
}

template <class A>
struct ScoreActivation {
  int code;
  A c;
  bool smooth;
  A above, below;  // slopes above and below zero, if not smooth

  template <class S>
  __device__ S operator()(S x) const {
    return smooth ? smooth_activation(code, c, x) : (value(x) > 0 ? above : below) * x;
  }
  template <class S>
  __device__ S derivative(S x) const {
    return smooth ? smooth_derivative(code, c, x) : S(value(x) > 0 ? above : below);
  }
};

// The derivative at x, from act(x); c is not negative.
template <class A, class S>
__device__ S derivative_from(const ScoreActivation<A>& act, S y) {
  if (!act.smooth) return value(y) > 0 ? act.above : act.below;
  if (act.code == score_tanh) return S(1) - y * y;
  if (act.code == score_elu) return value(y) > 0 ? S(1) : y + S(act.c);
  return y * (S(1) - y);
}

template <class A>
ScoreActivation<A> make_score_activation(int code, A c) {
  const bool smooth = code == score_elu || code == score_sigmoid || code == score_tanh;
  const A above = code == score_scalar ? c : 1;
  const A below = code == score_relu ? 0 : code == score_linear ? 1 : c;
  return {code, c, smooth, above, below};
}

}  // namespace gnograd

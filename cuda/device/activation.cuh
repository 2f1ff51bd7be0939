// SPDX-License-Identifier: MIT
// Activation functions of kernel networks, and their slopes. Over dual numbers the slope carries
// the second derivative. relu'(0) = 0 and relu'' = 0; gelu is the erf form x Phi(x).
#pragma once
#include "numbers.cuh"

namespace gnograd {

enum Activation { act_relu, act_gelu, act_silu, act_tanh, act_sin, act_identity, n_activations };

__device__ inline float complementary_error(float x) { return erfcf(x); }
__device__ inline double complementary_error(double x) { return erfc(x); }
__device__ inline float sine(float x) { return sinf(x); }
__device__ inline double sine(double x) { return sin(x); }
__device__ inline float cosine(float x) { return cosf(x); }
__device__ inline double cosine(double x) { return cos(x); }

template <class A>
__device__ Dual<A> complementary_error(Dual<A> x) {
  constexpr A two_over_sqrt_pi = A(1.12837916709551257390);
  return {complementary_error(x.v), -two_over_sqrt_pi * exponential(-x.v * x.v) * x.d};
}
template <class A>
__device__ Dual<A> sine(Dual<A> x) {
  return {sine(x.v), cosine(x.v) * x.d};
}
template <class A>
__device__ Dual<A> cosine(Dual<A> x) {
  return {cosine(x.v), -sine(x.v) * x.d};
}

// x between -far and far; beyond, an infinite x times a zero would be NaN.
template <class S>
__device__ S within(S x, real_part<S> far) {
  return value(x) < -far ? S(-far) : value(x) > far ? S(far) : x;
}
// x, but at least `least`: large x are what they are.
template <class S>
__device__ S above(S x, real_part<S> least) {
  return value(x) < least ? S(least) : x;
}

// Beyond, the density and one tail of the normal distribution are zero in either precision.
template <class A>
constexpr A normal_range = 40;
// Beyond, exp(-|x|) is no normal number.
template <class A>
constexpr A logistic_range = sizeof(A) == 4 ? 87 : 708;

// Phi(x), of the standard normal distribution.
template <class S>
__device__ S normal_probability(S x) {
  using A = real_part<S>;
  return A(0.5) * complementary_error(A(-0.70710678118654752440) * x);
}
template <class S>
__device__ S normal_density(S x) {
  using A = real_part<S>;
  return A(0.39894228040143267794) * exponential(A(-0.5) * (x * x));
}
template <class S>
__device__ S logistic(S x) {
  return S(1) / (S(1) + exponential(-x));
}

template <class S>
__device__ S activate(int activation, S x) {
  using A = real_part<S>;
  switch (activation) {
    case act_relu: return value(x) > 0 ? x : S(0);
    case act_gelu: {
      const A far = normal_range<A>;
      return above(x, -far) * normal_probability(within(x, far));
    }
    case act_silu: {
      const A far = logistic_range<A>;
      return above(x, -far) * logistic(within(x, far));
    }
    case act_tanh: return hyperbolic_tangent(x);
    case act_sin: return sine(x);
    default: return x;
  }
}

template <class S>
__device__ S slope(int activation, S x) {
  using A = real_part<S>;
  switch (activation) {
    case act_relu: return S(value(x) > 0 ? A(1) : A(0));
    case act_gelu: {
      const S near = within(x, normal_range<A>);
      return normal_probability(near) + near * normal_density(near);
    }
    case act_silu: {
      const S near = within(x, logistic_range<A>);
      const S s = logistic(near), other = logistic(-near);
      return s * (S(1) + near * other);
    }
    case act_tanh: {
      const S t = hyperbolic_tangent(x);
      return (S(1) - t) * (S(1) + t);
    }
    case act_sin: return cosine(x);
    default: return S(1);
  }
}

// act and its first three derivatives; over dual numbers there is the fourth, too.
template <class S>
struct Derivatives {
  S value, first, second, third;
};

template <class S>
__device__ Derivatives<S> derivatives(int activation, S x) {
  using A = real_part<S>;
  switch (activation) {
    case act_relu: return {activate(activation, x), slope(activation, x), S(0), S(0)};
    case act_gelu: {
      const A far = normal_range<A>;
      const S near = within(x, far), p = normal_probability(near), q = normal_density(near);
      return {above(x, -far) * p, p + near * q, q * (S(2) - near * near),
              q * near * (near * near - S(4))};
    }
    case act_silu: {
      const A far = logistic_range<A>;
      const S near = within(x, far), s = logistic(near), other = logistic(-near);
      const S q = s * other, t = other - s;
      return {above(x, -far) * s, s * (S(1) + near * other), q * (S(2) + near * t),
              q * (t * (S(3) + near * t) - A(2) * near * q)};
    }
    case act_tanh: {
      const S t = hyperbolic_tangent(x), q = (S(1) - t) * (S(1) + t);
      return {t, q, A(-2) * t * q, q * (A(6) * t * t - S(2))};
    }
    case act_sin: {
      const S s = sine(x), c = cosine(x);
      return {s, c, -s, -c};
    }
    default: return {x, S(1), S(0), S(0)};
  }
}

}  // namespace gnograd

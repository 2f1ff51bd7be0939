// SPDX-License-Identifier: MIT
// Activations as the oracles have them.
#pragma once
#include "support.h"

enum { relu, gelu, silu, hyperbolic, sinus, identity };
// Function for bounds: where x is not negative, it and its first two derivatives are at least as
// large as the absolute values of those of any other at x or -x.
constexpr int dominating = identity + 1;
const char* const activation_names[] = {"relu", "gelu", "silu", "tanh", "sin", "identity"};

// An activation with its first two derivatives.
template <class R>
std::array<R, 3> derivatives(int activation, R x) {
  switch (activation) {
    case relu: return {x > 0 ? x : R(0), x > 0 ? R(1) : R(0), R(0)};
    case gelu: {
      const R p = std::erfc(-x * R(M_SQRT1_2)) / 2;
      const R q = std::exp(-x * x / 2) * R(M_2_SQRTPI * M_SQRT1_2 / 2);
      return {x * p, p + x * q, q * (2 - x * x)};
    }
    case silu: {
      const R s = 1 / (1 + std::exp(-x)), o = 1 / (1 + std::exp(x));
      return {x * s, s * (1 + x * o), s * o * (2 + x * (o - s))};
    }
    case hyperbolic: {
      const R t = std::tanh(x);
      return {t, 1 - t * t, -2 * t * (1 - t * t)};
    }
    case sinus: return {std::sin(x), std::cos(x), -std::sin(x)};
    case dominating: return {R(1.2) * (x + x * x / 2), R(1.2) * (1 + x), R(1.2)};
    default: return {x, R(1), R(0)};
  }
}
template <class N>
N act(int activation, N x, int order) {
  using R = typename RealPart<N>::type;
  const auto f = derivatives(activation, R(std::real(x)));
  if constexpr (std::is_same_v<N, R>) return f[order];
  else return {f[order], f[order + 1] * x.imag()};
}

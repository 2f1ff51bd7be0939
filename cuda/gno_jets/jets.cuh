// SPDX-License-Identifier: MIT
// Jets: numbers with their derivatives by d coordinates, and what functions do to them.
//
// A jet u has channels: u_0 the value, u_1..u_d the first derivatives, and u_s behind them the
// second ones. Each of these is a sum over pairs (a, b) of coordinates: the Laplacian has the pairs
// (1, 1)..(d, d) in one channel, the Hessian a channel for each a <= b. Then
//
//     act(p):  y_0 = act(p_0),  y_a = act' p_a,  y_s = act' p_s + act'' sum_(a,b) p_a p_b
//     w y:     z_0 = w_0 y_0,   z_a = w_0 y_a + w_a y_0,
//              z_s = w_0 y_s + w_s y_0 + sum_(a,b) (w_a y_b + w_b y_a)
//
// and a linear layer acts on each channel alone.
#pragma once
#include "device/activation.cuh"
#include "device/planes.cuh"

namespace gnograd {

enum JetOrder { order_gradient, order_laplacian, order_hessian, n_orders };

struct Jet {
  int order, d;

  __host__ __device__ int channels() const {
    return 1 + d + (order == order_hessian ? d * (d + 1) / 2 : order == order_laplacian);
  }
  // f(a, b, channel) for every pair of coordinates
  template <class F>
  __device__ void for_pairs(F f) const {
    if (order == order_laplacian)
      for (int a = 1; a <= d; ++a) f(a, a, d + 1);
    if (order == order_hessian) {
      int s = d + 1;
      for (int a = 1; a <= d; ++a)
        for (int b = a; b <= d; ++b) f(a, b, s++);
    }
  }
};

// The channels of one feature of an edge, in an array [edges, channels, width].
template <class S>
class JetIn {
  Planes<S> x;
  int first, step;

 public:
  // An array of a slice, which has less than 2^31 numbers
  __device__ JetIn(const Jet& jet, const Planes<S>& x, int64_t width, int64_t edge, int64_t feature)
      : x(x), first(int(edge) * jet.channels() * int(width) + int(feature)), step(int(width)) {}
  __device__ S operator[](int c) const { return x[first + c * step]; }
  __device__ void set(int c, S y) const { x.set(first + c * step, y); }
  __device__ void add(int c, S y) const { set(c, (*this)[c] + y); }
};

// y = act(p)
template <class S>
__device__ void jet_activate(const Jet& jet, int activation, const JetIn<S>& p, const JetIn<S>& y) {
  const auto act = derivatives(activation, p[0]);
  y.set(0, act.value);
  S squares = real_part<S>(0);
  for (int a = 1; a <= jet.d; ++a) {
    const S p_a = p[a];
    y.set(a, act.first * p_a);
    squares += p_a * p_a;
  }
  if (jet.order == order_laplacian)
    y.set(jet.d + 1, act.first * p[jet.d + 1] + act.second * squares);
  else
    jet.for_pairs(
        [&](int a, int b, int s) { y.set(s, act.first * p[s] + act.second * p[a] * p[b]); });
}

// The gradient to y = act(p) becomes that to p.
template <class S>
__device__ void jet_activate_reverse(const Jet& jet, int activation, const JetIn<S>& p,
                                     const JetIn<S>& grad) {
  const auto act = derivatives(activation, p[0]);
  S to_value = act.first * grad[0];
  if (jet.order == order_laplacian) {
    // both terms of a pair (a, a) at once, each number read and written once
    const S g = grad[jet.d + 1];
    to_value += act.second * g * p[jet.d + 1];
    for (int a = 1; a <= jet.d; ++a) {
      const S p_a = p[a], g_a = grad[a], curved = g * p_a;
      to_value += act.second * g_a * p_a + act.third * curved * p_a;
      grad.set(a, act.first * g_a + real_part<S>(2) * (act.second * curved));
    }
    grad.set(0, to_value);
    grad.set(jet.d + 1, act.first * g);
    return;
  }
  for (int c = 1; c < jet.channels(); ++c) to_value += act.second * grad[c] * p[c];
  for (int a = 1; a <= jet.d; ++a) grad.set(a, act.first * grad[a]);
  jet.for_pairs([&](int a, int b, int s) {
    to_value += act.third * grad[s] * p[a] * p[b];
    grad.add(a, act.second * grad[s] * p[b]);
    grad.add(b, act.second * grad[s] * p[a]);
  });
  grad.set(0, to_value);
  for (int s = jet.d + 1; s < jet.channels(); ++s) grad.set(s, act.first * grad[s]);
}

// z = w y, for w(c).
template <class S, class W>
__device__ void jet_multiply(const Jet& jet, W w, const JetIn<S>& y, const JetIn<S>& z) {
  const S w0 = w(0), y0 = y[0];
  z.set(0, w0 * y0);
  for (int c = 1; c < jet.channels(); ++c) z.set(c, w0 * y[c] + w(c) * y0);
  jet.for_pairs([&](int a, int b, int s) { z.add(s, w(a) * y[b] + w(b) * y[a]); });
}

// Gradient to y from that to z = w y.
template <class S, class W>
__device__ void jet_multiply_reverse(const Jet& jet, W w, const JetIn<S>& grad_z,
                                     const JetIn<S>& grad_y) {
  S to_value = 0;
  for (int c = 0; c < jet.channels(); ++c) {
    grad_y.set(c, w(0) * grad_z[c]);
    to_value += w(c) * grad_z[c];
  }
  grad_y.set(0, to_value);
  jet.for_pairs([&](int a, int b, int s) {
    grad_y.add(b, w(a) * grad_z[s]);
    grad_y.add(a, w(b) * grad_z[s]);
  });
}

// Gradient to w_c from that to z = w y.
template <class S>
__device__ S jet_multiply_weight(const Jet& jet, int c, const JetIn<S>& y, const JetIn<S>& grad_z) {
  S sum = grad_z[c] * y[0];
  if (c == 0)
    for (int other = 1; other < jet.channels(); ++other) sum += grad_z[other] * y[other];
  jet.for_pairs([&](int a, int b, int s) {
    if (c == a) sum += grad_z[s] * y[b];
    if (c == b) sum += grad_z[s] * y[a];
  });
  return sum;
}

}  // namespace gnograd

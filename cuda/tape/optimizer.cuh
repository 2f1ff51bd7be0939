// SPDX-License-Identifier: MIT
// Steps of optimizers: the formulas of fortran/autodiff/optimizer_loops.fypp.
#pragma once
#include "device/numbers.cuh"

namespace gnograd {

template <class R>
struct Adam {
  R beta1, beta2, eps, decay, rate, root, keep;
};

// Thread: a parameter; reads four numbers and writes three, bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_adam(Adam<R> adam, int64_t n, const R* __restrict__ grad, R* __restrict__ m,
              R* __restrict__ v, R* __restrict__ x) {
  const int64_t i = thread_number();
  if (i >= n) return;
  const R old = x[i] * adam.keep;
  const R g = grad[i] + adam.decay * old;
  m[i] = adam.beta1 * m[i] + (1 - adam.beta1) * g;
  v[i] = adam.beta2 * v[i] + (1 - adam.beta2) * g * g;
  x[i] = old - adam.rate * m[i] / (adam.root * square_root(v[i]) + adam.eps);
}

// Thread: a parameter; reads three numbers and writes two, bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_descend(R momentum, R rate, int64_t n, const R* __restrict__ grad, R* __restrict__ m,
                 R* __restrict__ x) {
  const int64_t i = thread_number();
  if (i >= n) return;
  m[i] = momentum * m[i] + grad[i];
  x[i] -= rate * m[i];
}

}  // namespace gnograd

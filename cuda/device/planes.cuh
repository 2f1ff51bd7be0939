// SPDX-License-Identifier: MIT
// Intermediate matrices of numbers that may be dual: values and tangents apart, so that products of
// matrices are products of real ones.
#pragma once
#include "gemm.cuh"
#include "numbers.cuh"

namespace gnograd {

template <class S>
struct Planes {
  using R = real_part<S>;
  R* v = nullptr;
  R* d = nullptr;  // where S is dual

  Planes() = default;
  Planes(int64_t n, Workspace& workspace)
      : v(workspace.take<R>(n)), d(workspace.take<R>(ScalarTraits<S>::dual ? n : 0)) {
    if (!ScalarTraits<S>::dual) d = nullptr;
  }

  __device__ S operator[](int64_t i) const {
    if constexpr (ScalarTraits<S>::dual) return {v[i], d[i]};
    else return v[i];
  }
  __device__ void set(int64_t i, S x) const {
    v[i] = value(x);
    if constexpr (ScalarTraits<S>::dual) d[i] = x.d;
  }
  __host__ __device__ Planes operator+(int64_t n) const {
    Planes moved;
    moved.v = v + n;
    if constexpr (ScalarTraits<S>::dual) moved.d = d + n;
    return moved;
  }
  // As a matrix with rows of n.
  Operand<R> rows(int64_t n) const { return {v, d, n, 1}; }
};

// c = a b, values and tangents.
template <class R, class S>
void gemm_planes(const Gemm<R>& gemm, const GemmShape& shape, const Operand<R>& a,
                 const Operand<R>& b, const Planes<S>& c, cudaStream_t stream) {
  gemm(false, shape, a, b, c.v, false, stream);
  if (ScalarTraits<S>::dual) gemm(true, shape, a, b, c.d, false, stream);
}

template <class R, class S>
Operand<R> rows(const Input<R, S>& x, int64_t n) {
  return {x.v, x.d, n, 1};
}

}  // namespace gnograd

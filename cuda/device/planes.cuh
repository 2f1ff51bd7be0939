// SPDX-License-Identifier: MIT
// Intermediate matrices of numbers that may be dual: values and tangents apart, so that products of
// matrices are products of real ones. They are stored as T, where that is bfloat16 rounded.
#pragma once
#include "gemm.cuh"
#include "numbers.cuh"

namespace gnograd {

template <class S, class T = real_part<S>>
struct Planes {
  using R = real_part<S>;
  T* v = nullptr;
  T* d = nullptr;  // tangents, if S is dual

  // Bytes of one number
  static constexpr size_t bytes = sizeof(T) * (ScalarTraits<S>::dual ? 2 : 1);

  Planes() = default;
  Planes(int64_t n, Workspace& workspace)
      : v(workspace.take<T>(n)), d(workspace.take<T>(ScalarTraits<S>::dual ? n : 0)) {
    if (!ScalarTraits<S>::dual) d = nullptr;
  }

  __device__ S operator[](int64_t i) const {
    if constexpr (ScalarTraits<S>::dual) return {R(v[i]), R(d[i])};
    else return R(v[i]);
  }
  __device__ void set(int64_t i, S x) const {
    v[i] = T(value(x));
    if constexpr (ScalarTraits<S>::dual) d[i] = T(x.d);
  }
  __host__ __device__ Planes operator+(int64_t n) const {
    Planes moved;
    moved.v = v + n;
    if constexpr (ScalarTraits<S>::dual) moved.d = d + n;
    return moved;
  }
  // Matrix with rows of n.
  Operand<T> rows(int64_t n) const { return {v, d, n, 1}; }
};

// c = a b, values and tangents.
template <class T, class S>
void gemm_planes(const Gemm<T>& gemm, const GemmShape& shape, const Operand<T>& a,
                 const Operand<T>& b, const Planes<S, T>& c, cudaStream_t stream) {
  gemm(false, shape, a, b, c.v, false, stream);
  if (ScalarTraits<S>::dual) gemm(true, shape, a, b, c.d, false, stream);
}

template <class T, class S>
Operand<T> rows(const Input<T, S>& x, int64_t n) {
  return {x.v, x.d, n, 1};
}

}  // namespace gnograd

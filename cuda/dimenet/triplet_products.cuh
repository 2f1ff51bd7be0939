// SPDX-License-Identifier: MIT
// Products of small matrices in shared memory, each by one warp: 16 M x 8 N of C += A B.
//
// Sums are dealt to the lanes as mma.m16n8k8 deals them. float32 goes to tensor cores in two parts,
// three products for one (gemm.cuh says how exact that is; a factor that is infinite makes NaN);
// sums over 16 are added up outside, as tensor cores round towards zero. A dual number has its
// value and tangent done so. float64 is multiplied in the ordinary way, in the same places.
#pragma once
#include "device/mma.cuh"
#include "device/numbers.cuh"

namespace gnograd {

// Part of a factor that a lane has: number p of it is the value, or the tangent.
template <class R, int N>
struct TensorFactor {
  static constexpr int planes = ScalarTraits<R>::dual ? 2 : 1;
  unsigned large[planes][N], small[planes][N];

  __device__ void set(int i, R x) {
    const SplitFloat<false> first(float(value(x)));
    large[0][i] = first.large, small[0][i] = first.small;
    if constexpr (planes > 1) {
      const SplitFloat<false> second(float(result(x)));
      large[1][i] = second.large, small[1][i] = second.small;
    }
  }
};

template <class A, class B>
__device__ void multiply_planes(float (&c)[4], const TensorFactor<A, 4>& a, int p,
                                const TensorFactor<B, 2>& b, int q) {
  mma_m16n8k8(c, a.small[p], b.large[q]);
  mma_m16n8k8(c, a.large[p], b.small[q]);
  mma_m16n8k8(c, a.large[p], b.large[q]);
}

// Two numbers that follow one another in shared memory, moved at once.
template <class S>
struct alignas(sizeof(S) > 8 ? 16 : 2 * sizeof(S)) Pair {
  S v[2];
};
template <class S>
__device__ void store_pair(S* p, S x, S y) {
  *reinterpret_cast<Pair<S>*>(p) = {{x, y}};
}
template <class S>
__device__ Pair<S> load_pair(const S* p) {
  return *reinterpret_cast<const Pair<S>*>(p);
}

template <class S, int M, int N>
class WarpProduct {
  S sum[M][N][4] = {};

  static __device__ int lane() { return int(threadIdx.x) % warp_lanes; }

  template <class A, class B>
  __device__ void add_on_tensor_cores(int m_tiles, int n_tiles, int depth, A a, B b) {
    using Left = decltype(a(0, 0));
    using Right = decltype(b(0, 0));
    constexpr int planes = ScalarTraits<S>::dual ? 2 : 1;
    const int row = lane() / 4, inner = lane() % 4;
#pragma unroll 1
    for (int first = 0; first < depth; first += 16) {
      TensorFactor<Right, 2> right[2][N];
      const bool second = first + 8 < depth;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (h == 0 || second)
#pragma unroll
          for (int n = 0; n < N; ++n)
            if (n < n_tiles)
              for (int i = 0; i < 2; ++i)
                right[h][n].set(i, b(first + 8 * h + 4 * i + inner, 8 * n + row));
#pragma unroll
      for (int m = 0; m < M; ++m)
        if (m < m_tiles) {
          float part[planes][N][4] = {};
#pragma unroll
          for (int h = 0; h < 2; ++h)
            if (h == 0 || second) {
              TensorFactor<Left, 4> left;
              for (int i = 0; i < 4; ++i)
                left.set(i, a(16 * m + row + i % 2 * 8, first + 8 * h + i / 2 * 4 + inner));
#pragma unroll
              for (int n = 0; n < N; ++n)
                if (n < n_tiles) {
                  multiply_planes(part[0][n], left, 0, right[h][n], 0);
                  if constexpr (ScalarTraits<Left>::dual)
                    multiply_planes(part[1][n], left, 1, right[h][n], 0);
                  if constexpr (ScalarTraits<Right>::dual)
                    multiply_planes(part[1][n], left, 0, right[h][n], 1);
                }
            }
#pragma unroll
          for (int n = 0; n < N; ++n)
            for (int i = 0; i < 4; ++i) {
              if constexpr (planes > 1) sum[m][n][i] += S(part[0][n][i], part[1][n][i]);
              else sum[m][n][i] += part[0][n][i];
            }
        }
    }
  }

  template <class A, class B>
  __device__ void add_plainly(int m_tiles, int n_tiles, int depth, A a, B b) {
    const int row = lane() / 4, column = lane() % 4 * 2;
    for (int k = 0; k < depth; ++k) {
      decltype(b(0, 0)) right[N][2];
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (n < n_tiles)
          for (int i = 0; i < 2; ++i) right[n][i] = b(k, 8 * n + column + i);
#pragma unroll
      for (int m = 0; m < M; ++m)
        if (m < m_tiles)
          for (int h = 0; h < 2; ++h) {
            const auto left = a(16 * m + row + 8 * h, k);
#pragma unroll
            for (int n = 0; n < N; ++n)
              if (n < n_tiles)
                for (int i = 0; i < 2; ++i) sum[m][n][2 * h + i] += left * right[n][i];
          }
    }
  }

 public:
  // The first m_tiles of M and n_tiles of N, from a(row, k) and b(k, column) for k < depth, which
  // is a multiple of 8. All lanes of the warp together.
  template <class A, class B>
  __device__ void add(int m_tiles, int n_tiles, int depth, A a, B b) {
    if constexpr (std::is_same_v<real_part<S>, float>)
      add_on_tensor_cores(m_tiles, n_tiles, depth, a, b);
    else add_plainly(m_tiles, n_tiles, depth, a, b);
  }
  // row(row) makes f, for f(column, sum, that of the next column)
  template <class Row>
  __device__ void each(int m_tiles, int n_tiles, Row row) const {
#pragma unroll
    for (int m = 0; m < M; ++m)
      if (m < m_tiles)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const auto f = row(16 * m + lane() / 4 + 8 * h);
#pragma unroll
          for (int n = 0; n < N; ++n)
            if (n < n_tiles) f(8 * n + lane() % 4 * 2, sum[m][n][2 * h], sum[m][n][2 * h + 1]);
        }
  }
};

}  // namespace gnograd

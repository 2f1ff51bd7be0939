// SPDX-License-Identifier: MIT
// Products of small matrices on tensor cores: operands in 16 bits, sums in float32.
#pragma once
#include "mma.cuh"
#include "tiles.cuh"

namespace gnograd {

// f(l) and f(l + 1) in one register; 0 from `depth` on, or where there is nothing.
template <class T, class F>
__device__ unsigned pair(bool any, int l, int depth, F f) {
  const T x[2] = {T(any && l < depth ? float(f(l)) : 0.f),
                  T(any && l + 1 < depth ? float(f(l + 1)) : 0.f)};
  unsigned bits;
  memcpy(&bits, x, sizeof bits);
  return bits;
}

// product_by_fma with a and b rounded to T. A warp takes 16 x 16 sums at a time.
template <class T, class A, class B, class Write>
__device__ void product_by_mma(int m, int n, int depth, A a, B b, Write write) {
  const int lane = int(threadIdx.x) % warp_lanes, row = lane / 4, column = lane % 4 * 2;
  const int across = (n + 15) / 16, tiles = (m + 15) / 16 * across;
#pragma unroll 1
  for (int tile = int(threadIdx.x) / warp_lanes; tile < tiles; tile += block_threads / warp_lanes) {
    const int i0 = tile / across * 16 + row, j0 = tile % across * 16;
    float sum[2][4] = {};
#pragma unroll 1
    for (int l0 = column; l0 < depth + column; l0 += 16) {
      unsigned x[4], y[2];
      for (int r = 0; r < 4; ++r) {
        const int i = i0 + r % 2 * 8;
        x[r] = pair<T>(i < m, l0 + r / 2 * 8, depth, [&](int l) { return a(i, l); });
      }
      for (int c = 0; c < 2; ++c) {
        const int j = j0 + c * 8 + row;
        for (int r = 0; r < 2; ++r)
          y[r] = pair<T>(j < n, l0 + r * 8, depth, [&](int l) { return b(l, j); });
        mma_m16n8k16(T(), sum[c], x, y);
      }
    }
    for (int c = 0; c < 2; ++c)
      for (int r = 0; r < 4; ++r) {
        const int i = i0 + r / 2 * 8, j = j0 + c * 8 + column + r % 2;
        if (i < m && j < n) write(i, j, sum[c][r]);
      }
  }
}

// The product as it is done for arrays of T and numbers S.
template <class T, class S, class A, class B, class Write>
__device__ void tile_product(int m, int n, int depth, A a, B b, Write write) {
  if constexpr (sizeof(T) == 2 && !ScalarTraits<S>::dual)
    product_by_mma<T>(m, n, depth, a, b, write);
  else product_by_fma<S>(m, n, depth, a, b, write);
}

// The product with weights a(i, l) of which a mask has made some zero: where there(i, l) is not
// true. These keep out whatever b has, which 0 * NaN would not; `finite` says that there is no NaN
// and no infinity in b, the same for all threads of the block.
template <class T, class S, class A, class B, class There, class Write>
__device__ void masked_tile_product(bool finite, int m, int n, int depth, A a, B b, There there,
                                    Write write) {
  if (finite) {
    tile_product<T, S>(m, n, depth, a, b, write);
    return;
  }
#pragma unroll 1
  for (int cell = int(threadIdx.x); cell < m * n; cell += block_threads) {
    const int i = cell / n, j = cell % n;
    S sum = 0;
#pragma unroll 1
    for (int l = 0; l < depth; ++l)
      if (there(i, l)) sum += a(i, l) * b(l, j);
    write(i, j, sum);
  }
}

}  // namespace gnograd

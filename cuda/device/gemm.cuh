// SPDX-License-Identifier: MIT
// Matrix products C = A B or C += A B, in tiles (gemm_tile.cuh). Few tiles with a long inner
// dimension are divided along it; how, depends on sizes alone, and the parts are added in order.
// Factors are float64, float32 or bfloat16; of the latter sums are float32, and C is either.
#pragma once
#include "numbers.cuh"
#include "precision.cuh"
#include "workspace.cuh"

namespace gnograd {

// What a product reads, any matrix of which rows or columns are contiguous; with its tangent d
// (null: zero) where numbers are dual.
template <class T>
struct Operand {
  const T* v;
  const T* d;
  int64_t row, column;  // strides

  Operand transposed() const { return {v, d, column, row}; }
};

// f(whether factors are rounded to TF32)
template <class R, class F>
void with_precision(F f) {
  if constexpr (std::is_same_v<R, float>)
    if (tf32_products) return f(std::true_type());
  f(std::false_type());
}

// Columns of a tile in a product with n: as many as leave least of it empty. Rows of such a tile.
inline int tile_columns(int64_t n) { return n <= 8 ? 8 : n <= 32 || (n > 64 && n <= 96) ? 32 : 64; }
constexpr int rows_of_tile(int columns) { return columns == 64 ? 64 : 128; }
template <int columns>
constexpr int tile_rows = rows_of_tile(columns);

// Whether lines of `size` numbers, `pitch` apart, can be copied 16 bytes at a time.
template <class T>
bool wide_copies(const T* x, int64_t size, int64_t pitch) {
  constexpr int64_t numbers = 16 / sizeof(T);
  return reinterpret_cast<uintptr_t>(x) % 16 == 0 && size % numbers == 0 && pitch % numbers == 0;
}

// Of [m, k] by [k, n]; m and k may be bounds, then what is in use is told in device memory.
struct GemmShape {
  int64_t m, n, k;
  const int64_t *used_m = nullptr, *used_k = nullptr;
};

// C [m, n], row by row, or with `accumulate` what is added to it, from values of A and B alone; in
// `parts` of the inner dimension, for which `part` has room where there are several.
template <class T, class C>
void launch_gemm(const GemmShape& shape, int parts, const Operand<T>& a, const Operand<T>& b, C* c,
                 real<T>* part, bool accumulate, cudaStream_t stream);

// Products up to some shape, and the room for their parts.
template <class T>
class Gemm {
  int parts;
  real<T>* part;

 public:
  // Enough blocks to fill any GPU, none of them too short to pay for its start.
  Gemm(const GemmShape& most, Workspace& workspace) {
    const int columns = tile_columns(most.n);
    const int64_t tiles = ceil_div(most.m, rows_of_tile(columns)) * ceil_div(most.n, columns);
    parts = int(std::clamp<int64_t>(512 / std::max<int64_t>(tiles, 1), 1,
                                    std::max<int64_t>(most.k / 256, 1)));
    part = workspace.take<real<T>>(parts > 1 ? parts * most.m * most.n : 0);
  }

  // C, row by row, or with `dual` its tangent.
  template <class C>
  void operator()(bool dual, const GemmShape& shape, const Operand<T>& a, const Operand<T>& b, C* c,
                  bool accumulate, cudaStream_t stream) const {
    if (shape.m == 0 || shape.n == 0) return;
    const auto term = [&](const T* x, const T* y) {
      launch_gemm<T>(shape, parts, {x, nullptr, a.row, a.column}, {y, nullptr, b.row, b.column}, c,
                     part, accumulate, stream);
      accumulate = true;
    };
    if (!dual) {
      term(a.v, b.v);
    } else {
      if (a.d) term(a.d, b.v);
      if (b.d) term(a.v, b.d);
      if (!accumulate) set_zero(c, shape.m * shape.n, stream);
    }
  }
};

}  // namespace gnograd

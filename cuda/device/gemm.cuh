// SPDX-License-Identifier: MIT
// Matrix products C = A B or C += A B, in tiles (gemm_tile.cuh). Few tiles with a long inner
// dimension are divided along it; how, depends on sizes alone, and the parts are added in order.
// Factors are float64, float32 or bfloat16; of the latter sums are float32, and C is either.
#pragma once
#include "numbers.cuh"
#include "precision.cuh"
#include "workspace.cuh"

namespace gnograd {

// Factor of a product: any matrix of which rows or columns are contiguous; with its tangent d
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

// True if lines of `size` numbers, `pitch` apart, can be copied 16 bytes at a time.
template <class T>
bool wide_copies(const T* x, int64_t size, int64_t pitch) {
  constexpr int64_t numbers = 16 / sizeof(T);
  return reinterpret_cast<uintptr_t>(x) % 16 == 0 && size % numbers == 0 && pitch % numbers == 0;
}

// Product of [m, k] by [k, n]; m and k may be bounds: the sizes in use are then in device memory.
struct GemmShape {
  int64_t m, n, k;
  const int64_t *used_m = nullptr, *used_k = nullptr;
};

// Destinations of the sums of A B, row by row: they are C, or are added to it;
template <class C>
struct GemmResult {
  C* c;  // [m, n]
  bool accumulate;
};
// they are a layer: pre = A B + bias, unless it is hid itself, and hid = act(pre), unless that is
// null;
template <class R>
struct GemmActivated {
  const R* bias;  // [n]
  int activation;
  R *pre, *hid;
};
// they are gradients to hid, and those to pre are C.
template <class R>
struct GemmSlope {
  int activation;
  const R* pre;
  R* c;
};

// Multiply A and B, values alone; in `parts` of the inner dimension, whose results are `shape.m`
// rows apart, and of which there is one where the target is no GemmResult.
template <class T, class Target>
void launch_gemm(const GemmShape& shape, int parts, const Operand<T>& a, const Operand<T>& b,
                 const Target& target, cudaStream_t stream);
// Sum the parts, in order, for the rows in use.
template <class R, class Target>
void launch_add_parts(const GemmShape& shape, int parts, const R* part, const Target& target,
                      cudaStream_t stream);

// Enough parts to fill any GPU with blocks, none of them too short to pay for its start.
inline int gemm_parts(const GemmShape& most) {
  const int columns = tile_columns(most.n);
  const int64_t tiles = ceil_div(most.m, rows_of_tile(columns)) * ceil_div(most.n, columns);
  return int(std::clamp<int64_t>(512 / std::max<int64_t>(tiles, 1), 1,
                                 std::max<int64_t>(most.k / 256, 1)));
}

// f(a, b) for the products of values of which a product consists, or with `dual` its tangent.
template <class T, class F>
void for_terms(bool dual, const Operand<T>& a, const Operand<T>& b, F f) {
  const auto term = [&](const T* x, const T* y) {
    f(Operand<T>{x, nullptr, a.row, a.column}, Operand<T>{y, nullptr, b.row, b.column});
  };
  if (!dual) return term(a.v, b.v);
  if (a.d) term(a.d, b.v);
  if (b.d) term(a.v, b.d);
}

// Products up to some shape, and the room for their parts.
template <class T>
class Gemm {
  int parts;
  real<T>* part;

 public:
  Gemm(const GemmShape& most, Workspace& workspace)
      : parts(gemm_parts(most)),
        part(workspace.take<real<T>>(parts > 1 ? parts * most.m * most.n : 0)) {}

  template <class Target>
  void operator()(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                  const Target& target, cudaStream_t stream) const {
    if (shape.m == 0 || shape.n == 0) return;
    if (parts == 1) return launch_gemm(shape, 1, a, b, target, stream);
    launch_gemm(shape, parts, a, b, GemmResult<real<T>>{part, false}, stream);
    launch_add_parts(shape, parts, part, target, stream);
  }
  // C, row by row, or with `dual` its tangent.
  template <class C>
  void operator()(bool dual, const GemmShape& shape, const Operand<T>& a, const Operand<T>& b, C* c,
                  bool accumulate, cudaStream_t stream) const {
    for_terms(dual, a, b, [&](const Operand<T>& x, const Operand<T>& y) {
      (*this)(shape, x, y, GemmResult<C>{c, accumulate}, stream);
      accumulate = true;
    });
    if (!accumulate) set_zero(c, shape.m * shape.n, stream);
  }
};

// Sums of products over slices, whose parts are added up when all have been there.
template <class T>
class GemmSum {
  GemmShape shape;  // k: the most of a slice
  int most_parts;

 public:
  real<T>* part;
  int parts = 0;  // none before the first slice

  GemmSum(const GemmShape& most, Workspace& workspace)
      : shape(most),
        most_parts(gemm_parts(most)),
        part(workspace.take<real<T>>(most_parts * most.m * most.n)) {}

  // Add the product of a slice, or with `dual` its tangent
  void add(bool dual, int64_t k, const Operand<T>& a, const Operand<T>& b, cudaStream_t stream,
           const int64_t* used_k = nullptr) {
    if (shape.m == 0 || shape.n == 0) return;
    for_terms(dual, a, b, [&](const Operand<T>& x, const Operand<T>& y) {
      launch_gemm({shape.m, shape.n, k, nullptr, used_k}, most_parts, x, y,
                  GemmResult<real<T>>{part, parts > 0}, stream);
      parts = most_parts;
    });
  }
  void finish(real<T>* c, cudaStream_t stream) const {
    launch_add_parts(shape, parts, part, GemmResult<real<T>>{c, false}, stream);
  }
};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// The kernels of matrix products (gemm.cuh), once for all operators.
#include "gemm_tile.cuh"

namespace gnograd {
namespace {

// C, or what is added to it, row by row; two numbers at a time where they are aligned.
template <class R>
struct StoreRows {
  R* c;
  int64_t n;
  bool accumulate, paired;

  __device__ void operator()(int64_t y, int64_t x, R sum, R next, int count) const {
    R* const to = c + y * n + x;
    if (paired && count == 2) {
      uint64_t* const both = reinterpret_cast<uint64_t*>(to);
      float before[2] = {}, pair[2];
      if (accumulate) {
        const uint64_t bits = *both;
        memcpy(before, &bits, sizeof bits);
      }
      pair[0] = float(sum) + before[0], pair[1] = float(next) + before[1];
      uint64_t bits;
      memcpy(&bits, pair, sizeof bits);
      *both = bits;
    } else {
      to[0] = sum + (accumulate ? to[0] : R(0));
      if (count == 2) to[1] = next + (accumulate ? to[1] : R(0));
    }
  }
};

// Block (x, y, z): 64 x 64, 128 x 32 or 128 x 8 of C, from part z of the inner dimension, `depth`
// long; a warp has 32 columns of 32 rows, or 8, on tensor cores (float32), or a thread 8 x 4 or 4 x
// 2 (float64). Shared memory: three steps of 16 lines of both factors, 28 to 34 KB; in float64 two,
// 34 to 45 KB. Reads m k n / columns + k n m / rows numbers; 2 m n k operations, three times that
// in float32, for every 48 products of 16 x 8 x 8 32 loads from shared memory and 32 numbers split.
// Bound by the tensor cores (float64: FMAs), with 8 columns by reading A. Rows that are not in use
// are not written.
template <class R, bool rounded, int columns, class Layout>
__global__ void __launch_bounds__(block_threads, 3)
    gemm_tiles(GemmShape shape, int64_t depth, Operand<R> a, bool a_wide, Operand<R> b, bool b_wide,
               R* __restrict__ c, bool accumulate, bool paired) {
  const int64_t m = shape.used_m ? *shape.used_m : shape.m;
  const int64_t k = shape.used_k ? *shape.used_k : shape.k;
  const int64_t first_row = int64_t(blockIdx.x) * tile_rows<columns>;
  const int64_t begin = int64_t(blockIdx.z) * depth, end = min(begin + depth, k);
  if (first_row >= m) return;
  c += int64_t(blockIdx.z) * shape.m * shape.n;
  gemm_tile<rounded, columns, Layout>(a, a_wide, first_row, m, b, b_wide,
                                      int64_t(blockIdx.y) * columns, shape.n, begin, end,
                                      StoreRows<R>{c, shape.n, accumulate, paired});
}

// C from the parts of the inner dimension, in order, of the rows in use. Thread: an entry; reads
// `parts` numbers, writes one; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    gemm_add_parts(GemmShape shape, int parts, const R* __restrict__ part, R* __restrict__ c,
                   bool accumulate) {
  const int64_t i = thread_number(), size = shape.m * shape.n;
  if (i >= (shape.used_m ? *shape.used_m * shape.n : size)) return;
  R sum = accumulate ? c[i] : R(0);
  for (int p = 0; p < parts; ++p) sum += part[p * size + i];
  c[i] = sum;
}

// The arguments of launch_gemm.
template <class R>
struct Product {
  GemmShape shape;
  int parts;
  Operand<R> a, b;
  R *c, *part;
  bool accumulate;
  cudaStream_t stream;
};

template <class R, bool rounded, int columns, bool a_inner, bool b_inner>
void start(const Product<R>& p) {
  using Layout = GemmLayout<a_inner, b_inner>;
  const GemmShape& s = p.shape;
  const Operand<R>&a = p.a, &b = p.b;
  const int64_t depth = ceil_div(ceil_div(s.k, p.parts), tile_depth) * tile_depth;
  R* const to = p.parts > 1 ? p.part : p.c;
  const bool paired = sizeof(R) == 4 && s.n % 2 == 0 && reinterpret_cast<uintptr_t>(to) % 8 == 0;
  const bool a_wide = a_inner ? a.column == 1 && !s.used_k && wide_copies(a.v, s.k, a.row)
                              : a.row == 1 && !s.used_m && wide_copies(a.v, s.m, a.column);
  const bool b_wide = b_inner ? b.row == 1 && !s.used_k && wide_copies(b.v, s.k, b.column)
                              : wide_copies(b.v, s.n, b.row);
  const dim3 grid = grid_of(ceil_div(s.m, tile_rows<columns>), ceil_div(s.n, columns), p.parts);
  launch(gemm_tiles<R, rounded, columns, Layout>, grid, dim3(block_threads),
         TileSteps<R, columns, Layout>::bytes, p.stream, s, depth, a, a_wide, b, b_wide, to,
         p.parts == 1 && p.accumulate, paired);
  if (p.parts > 1)
    launch_threads(s.m * s.n, p.stream, gemm_add_parts<R>, s, p.parts, p.part, p.c, p.accumulate);
}

// No operator multiplies two factors that are both strided along the inner dimension; they would
// be copied number by number.
template <class R, bool rounded, int columns>
void start_by_layout(const Product<R>& p) {
  if (p.b.column != 1) start<R, rounded, columns, true, true>(p);
  else if (p.a.column == 1) start<R, rounded, columns, true, false>(p);
  else start<R, rounded, columns, false, false>(p);
}
template <class R, bool rounded>
void start_by_columns(const Product<R>& p) {
  switch (tile_columns(p.shape.n)) {
    case 8: return start_by_layout<R, rounded, 8>(p);
    case 32: return start_by_layout<R, rounded, 32>(p);
    default: return start_by_layout<R, rounded, 64>(p);
  }
}

}  // namespace

template <class R>
void launch_gemm(const GemmShape& shape, int parts, const Operand<R>& a, const Operand<R>& b, R* c,
                 R* part, bool accumulate, cudaStream_t stream) {
  const Product<R> product{shape, parts, a, b, c, part, accumulate, stream};
  if constexpr (std::is_same_v<R, float>)
    if (tf32_products) return start_by_columns<R, true>(product);
  start_by_columns<R, false>(product);
}

template void launch_gemm<float>(const GemmShape&, int, const Operand<float>&,
                                 const Operand<float>&, float*, float*, bool, cudaStream_t);
template void launch_gemm<double>(const GemmShape&, int, const Operand<double>&,
                                  const Operand<double>&, double*, double*, bool, cudaStream_t);

}  // namespace gnograd

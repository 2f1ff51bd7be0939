// SPDX-License-Identifier: MIT
// The kernels of matrix products (gemm.cuh), once for all operators.
#include "gemm_tile.cuh"

namespace gnograd {
namespace {

// C, or what is added to it, row by row; two numbers at a time where they are aligned.
template <class C>
struct StoreRows {
  using R = real<C>;
  using Both = std::conditional_t<sizeof(C) == 2, uint32_t, uint64_t>;

  C* c;
  int64_t n;
  bool accumulate, paired;

  __device__ void operator()(int64_t y, int64_t x, R sum, R next, int count) const {
    C* const to = c + y * n + x;
    if constexpr (2 * sizeof(C) == sizeof(Both))
      if (paired && count == 2) {
        Both* const both = reinterpret_cast<Both*>(to);
        C pair[2] = {C(R(0)), C(R(0))};
        if (accumulate) {
          const Both bits = *both;
          memcpy(static_cast<void*>(pair), &bits, sizeof bits);
        }
        pair[0] = C(sum + R(pair[0])), pair[1] = C(next + R(pair[1]));
        Both bits;
        memcpy(&bits, pair, sizeof bits);
        *both = bits;
        return;
      }
    to[0] = C(sum + (accumulate ? R(to[0]) : R(0)));
    if (count == 2) to[1] = C(next + (accumulate ? R(to[1]) : R(0)));
  }
};

// Block (x, y, z): 64 x 64, 128 x 32 or 128 x 8 of C, from part z of the inner dimension, `depth`
// long; a warp has 32 columns of 32 rows, or 8, on tensor cores (float32), or a thread 8 x 4 or 4 x
// 2 (float64). Shared memory: three steps of 16 lines of both factors, 28 to 34 KB; in float64 two,
// 34 to 45 KB; in bfloat16 three of 32, 28 to 38 KB. Reads m k n / columns + k n m / rows numbers;
// 2 m n k operations, three times that in float32, for every 48 products of 16 x 8 x 8 32 loads
// from shared memory and 32 numbers split; in bfloat16 for 16 products of 16 x 8 x 16 8 loads of
// fragments. Bound by the tensor cores (float64: FMAs), with 8 columns and in bfloat16 by reading
// A. Rows that are not in use are not written.
template <class T, class C, bool rounded, int columns, class Layout>
__global__ void __launch_bounds__(block_threads, 3)
    gemm_tiles(GemmShape shape, int64_t depth, Operand<T> a, bool a_wide, Operand<T> b, bool b_wide,
               C* __restrict__ c, bool accumulate, bool paired) {
  const int64_t m = shape.used_m ? *shape.used_m : shape.m;
  const int64_t k = shape.used_k ? *shape.used_k : shape.k;
  const int64_t first_row = int64_t(blockIdx.x) * tile_rows<columns>;
  const int64_t begin = int64_t(blockIdx.z) * depth, end = min(begin + depth, k);
  if (first_row >= m) return;
  c += int64_t(blockIdx.z) * shape.m * shape.n;
  gemm_tile<rounded, columns, Layout>(a, a_wide, first_row, m, b, b_wide,
                                      int64_t(blockIdx.y) * columns, shape.n, begin, end,
                                      StoreRows<C>{c, shape.n, accumulate, paired});
}

// C from the parts of the inner dimension, in order, of the rows in use. Thread: an entry; reads
// `parts` numbers, writes one; bound by memory.
template <class R, class C>
__global__ void __launch_bounds__(block_threads)
    gemm_add_parts(GemmShape shape, int parts, const R* __restrict__ part, C* __restrict__ c,
                   bool accumulate) {
  const int64_t i = thread_number(), size = shape.m * shape.n;
  if (i >= (shape.used_m ? *shape.used_m * shape.n : size)) return;
  R sum = accumulate ? R(c[i]) : R(0);
  for (int p = 0; p < parts; ++p) sum += part[p * size + i];
  c[i] = C(sum);
}

// The arguments of launch_gemm.
template <class T, class C>
struct Product {
  GemmShape shape;
  int parts;
  Operand<T> a, b;
  C* c;
  real<T>* part;
  bool accumulate;
  cudaStream_t stream;
};

template <bool rounded, int columns, class Layout, class T, class C, class To>
void start_tiles(const Product<T, C>& p, To* to, bool accumulate) {
  constexpr bool a_inner = Layout::a, b_inner = Layout::b;
  const GemmShape& s = p.shape;
  const Operand<T>&a = p.a, &b = p.b;
  constexpr int step = tile_depth<T>;
  const int64_t depth = ceil_div(ceil_div(s.k, p.parts), step) * step;
  const bool paired = s.n % 2 == 0 && reinterpret_cast<uintptr_t>(to) % (2 * sizeof(To)) == 0;
  const bool a_wide = a_inner ? a.column == 1 && !s.used_k && wide_copies(a.v, s.k, a.row)
                              : a.row == 1 && !s.used_m && wide_copies(a.v, s.m, a.column);
  const bool b_wide = b_inner ? b.row == 1 && !s.used_k && wide_copies(b.v, s.k, b.column)
                              : wide_copies(b.v, s.n, b.row);
  const dim3 grid = grid_of(ceil_div(s.m, tile_rows<columns>), ceil_div(s.n, columns), p.parts);
  launch(gemm_tiles<T, To, rounded, columns, Layout>, grid, dim3(block_threads),
         TileSteps<T, columns, Layout>::bytes, p.stream, s, depth, a, a_wide, b, b_wide, to,
         accumulate, paired);
}
template <class T, bool rounded, int columns, bool a_inner, bool b_inner, class C>
void start(const Product<T, C>& p) {
  using Layout = GemmLayout<a_inner, b_inner>;
  if (p.parts == 1) return start_tiles<rounded, columns, Layout>(p, p.c, p.accumulate);
  start_tiles<rounded, columns, Layout>(p, p.part, false);
  launch_threads(p.shape.m * p.shape.n, p.stream, gemm_add_parts<real<T>, C>, p.shape, p.parts,
                 p.part, p.c, p.accumulate);
}

// No operator multiplies two factors that are both strided along the inner dimension; they would
// be copied number by number.
template <class T, bool rounded, int columns, class C>
void start_by_layout(const Product<T, C>& p) {
  if (p.b.column != 1) start<T, rounded, columns, true, true>(p);
  else if (p.a.column == 1) start<T, rounded, columns, true, false>(p);
  else start<T, rounded, columns, false, false>(p);
}
template <class T, bool rounded, class C>
void start_by_columns(const Product<T, C>& p) {
  switch (tile_columns(p.shape.n)) {
    case 8: return start_by_layout<T, rounded, 8>(p);
    case 32: return start_by_layout<T, rounded, 32>(p);
    default: return start_by_layout<T, rounded, 64>(p);
  }
}

}  // namespace

template <class T, class C>
void launch_gemm(const GemmShape& shape, int parts, const Operand<T>& a, const Operand<T>& b, C* c,
                 real<T>* part, bool accumulate, cudaStream_t stream) {
  const Product<T, C> product{shape, parts, a, b, c, part, accumulate, stream};
  if constexpr (std::is_same_v<T, float>)
    if (tf32_products) return start_by_columns<T, true>(product);
  start_by_columns<T, false>(product);
}

#define GNOGRAD_GEMM(T, C)                                                                         \
  template void launch_gemm<T, C>(const GemmShape&, int, const Operand<T>&, const Operand<T>&, C*, \
                                  real<T>*, bool, cudaStream_t);
GNOGRAD_GEMM(float, float)
GNOGRAD_GEMM(double, double)
GNOGRAD_GEMM(__nv_bfloat16, __nv_bfloat16)
GNOGRAD_GEMM(__nv_bfloat16, float)
#undef GNOGRAD_GEMM

}  // namespace gnograd

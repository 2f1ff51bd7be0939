// SPDX-License-Identifier: MIT
// The kernels of matrix products (gemm.cuh), once for all operators.
#include "activation.cuh"
#include "gemm_tile.cuh"

namespace gnograd {
namespace {

// Store the sum at place i, of column x.
template <class C, class R>
__device__ void store(const GemmResult<C>& to, int64_t i, int, R sum) {
  to.c[i] = C(sum + (to.accumulate ? R(to.c[i]) : R(0)));
}
template <class R>
__device__ void store(const GemmActivated<R>& to, int64_t i, int x, R sum) {
  sum += to.bias[x];
  if (to.pre != to.hid) to.pre[i] = sum;
  if (to.hid) to.hid[i] = activate(to.activation, sum);
}
template <class R>
__device__ void store(const GemmSlope<R>& to, int64_t i, int, R sum) {
  to.c[i] = sum * slope(to.activation, to.pre[i]);
}

// C, or what is added to it, row by row; two numbers at a time where they are aligned.
template <class Result>
struct StoreRows {
  using C = std::remove_pointer_t<decltype(Result::c)>;
  using R = real<C>;
  using Both = std::conditional_t<sizeof(C) == 2, uint32_t, uint64_t>;

  Result to;
  int64_t first, n;  // place of the part; columns
  bool paired;

  __device__ void operator()(int64_t y, int64_t x, R sum, R next, int count) const {
    const int64_t i = first + y * n + x;
    if constexpr (2 * sizeof(C) == sizeof(Both))
      if (paired && count == 2) {
        Both* const both = reinterpret_cast<Both*>(to.c + i);
        C pair[2] = {C(R(0)), C(R(0))};
        if (to.accumulate) {
          const Both bits = *both;
          memcpy(static_cast<void*>(pair), &bits, sizeof bits);
        }
        pair[0] = C(sum + R(pair[0])), pair[1] = C(next + R(pair[1]));
        Both bits;
        memcpy(&bits, pair, sizeof bits);
        *both = bits;
        return;
      }
    store(to, i, int(x), sum);
    if (count == 2) store(to, i + 1, int(x) + 1, next);
  }
};
template <class Target>
constexpr bool is_result = false;
template <class C>
constexpr bool is_result<GemmResult<C>> = true;

// Block (x, y, z): 64 x 64, 128 x 32 or 128 x 8 of C, from part z of the inner dimension, `depth`
// long; a warp has 32 columns of 32 rows, or 8, on tensor cores (float32), or a thread 8 x 4 or 4 x
// 2 (float64). Shared memory: three steps of 16 lines of both factors, 28 to 34 KB; in float64 two,
// 34 to 45 KB; in bfloat16 three of 32, 28 to 38 KB. Reads m k n / columns + k n m / rows numbers;
// 2 m n k operations, three times that in float32, for every 48 products of 16 x 8 x 8 32 loads
// from shared memory and 32 numbers split; in bfloat16 for 16 products of 16 x 8 x 16 8 loads of
// fragments. Bound by the tensor cores (float64: FMAs), with 8 columns and in bfloat16 by reading
// A. Rows that are not in use are not written. An activation or slope is applied on the way from
// shared memory, so that its code is there once.
template <class T, class Target, bool rounded, int columns, class Layout>
__global__ void __launch_bounds__(block_threads, 3)
    gemm_tiles(GemmShape shape, int64_t depth, Operand<T> a, bool a_wide, Operand<T> b, bool b_wide,
               Target target, bool paired) {
  const int64_t m = shape.used_m ? *shape.used_m : shape.m;
  const int64_t k = shape.used_k ? *shape.used_k : shape.k;
  const int64_t first_row = int64_t(blockIdx.x) * tile_rows<columns>;
  const int64_t begin = int64_t(blockIdx.z) * depth, end = min(begin + depth, k);
  if (first_row >= m) return;
  const int64_t first_column = int64_t(blockIdx.y) * columns, n = shape.n;
  const auto make = [&](auto to) {
    gemm_tile<rounded, columns, Layout>(a, a_wide, first_row, m, b, b_wide, first_column, n, begin,
                                        end, to);
  };
  if constexpr (is_result<Target>) {
    make(StoreRows<Target>{target, int64_t(blockIdx.z) * shape.m * n, n, paired});
  } else {
    using R = real<T>;
    constexpr int pitch = tile_pitch<R, columns>, down = block_threads / columns;
    static_assert(tile_rows<columns> * pitch <= TileSteps<T, columns, Layout>::numbers);
    SharedMemory memory;  // memory of the factors, when they have been multiplied
    R* const tile = memory.template take<R>(TileSteps<T, columns, Layout>::numbers);
    make([&](int64_t y, int64_t x, R sum, R next, int count) {
      R* const to = tile + int(y - first_row) * pitch + int(x - first_column);
      to[0] = sum;
      if (count == 2) to[1] = next;
    });
    __syncthreads();
    const int there = int(min(m - first_row, int64_t(tile_rows<columns>)));
    const int column = int(threadIdx.x) % columns, x = int(first_column) + column;
    if (x >= n) return;
    int row = int(threadIdx.x) / columns;
    int64_t i = (first_row + row) * n + x;
#pragma unroll 2
    for (; row < there; row += down, i += down * n) store(target, i, x, tile[row * pitch + column]);
  }
}

// Sum the parts of the inner dimension, in order, for the rows in use. Thread: an entry; reads
// `parts` numbers; bound by memory.
template <class R, class Target>
__global__ void __launch_bounds__(block_threads)
    gemm_add_parts(GemmShape shape, int parts, const R* __restrict__ part, Target target) {
  const int64_t i = thread_number(), size = shape.m * shape.n;
  if (i >= (shape.used_m ? *shape.used_m * shape.n : size)) return;
  R sum = 0;
  for (int p = 0; p < parts; ++p) sum += part[p * size + i];
  store(target, i, divided(i, int(shape.n)).rest, sum);
}

// The arguments of launch_gemm.
template <class T, class Target>
struct Product {
  GemmShape shape;
  int parts;
  Operand<T> a, b;
  Target target;
  cudaStream_t stream;
};

template <bool rounded, int columns, bool a_inner, bool b_inner, class T, class Target>
void start(const Product<T, Target>& p) {
  using Layout = GemmLayout<a_inner, b_inner>;
  const GemmShape& s = p.shape;
  const Operand<T>&a = p.a, &b = p.b;
  constexpr int step = tile_depth<T>;
  const int64_t depth = ceil_div(ceil_div(s.k, p.parts), step) * step;
  const bool a_wide = a_inner ? a.column == 1 && !s.used_k && wide_copies(a.v, s.k, a.row)
                              : a.row == 1 && !s.used_m && wide_copies(a.v, s.m, a.column);
  const bool b_wide = b_inner ? b.row == 1 && !s.used_k && wide_copies(b.v, s.k, b.column)
                              : wide_copies(b.v, s.n, b.row);
  const dim3 grid = grid_of(ceil_div(s.m, tile_rows<columns>), ceil_div(s.n, columns), p.parts);
  bool paired = false;
  if constexpr (is_result<Target>)
    paired =
        s.n % 2 == 0 && reinterpret_cast<uintptr_t>(p.target.c) % (2 * sizeof *p.target.c) == 0;
  launch(gemm_tiles<T, Target, rounded, columns, Layout>, grid, dim3(block_threads),
         TileSteps<T, columns, Layout>::bytes, p.stream, s, depth, a, a_wide, b, b_wide, p.target,
         paired);
}

// No operator multiplies two factors that are both strided along the inner dimension; they would
// be copied number by number. Rows of edges stand before a layer, or its transpose.
template <bool rounded, int columns, class T, class C>
void start_by_layout(const Product<T, GemmResult<C>>& p) {
  if (p.b.column != 1) start<rounded, columns, true, true>(p);
  else if (p.a.column == 1) start<rounded, columns, true, false>(p);
  else start<rounded, columns, false, false>(p);
}
template <bool rounded, int columns, class T>
void start_by_layout(const Product<T, GemmActivated<T>>& p) {
  start<rounded, columns, true, false>(p);
}
template <bool rounded, int columns, class T>
void start_by_layout(const Product<T, GemmSlope<T>>& p) {
  start<rounded, columns, true, true>(p);
}
template <bool rounded, class T, class Target>
void start_by_columns(const Product<T, Target>& p) {
  switch (tile_columns(p.shape.n)) {
    case 8: return start_by_layout<rounded, 8>(p);
    case 32: return start_by_layout<rounded, 32>(p);
    default: return start_by_layout<rounded, 64>(p);
  }
}
template <class T, class Target>
void start_by_precision(const Product<T, Target>& p) {
  with_precision<T>([&](auto rounded) { start_by_columns<decltype(rounded)::value>(p); });
}

}  // namespace

template <class T, class Target>
void launch_gemm(const GemmShape& shape, int parts, const Operand<T>& a, const Operand<T>& b,
                 const Target& target, cudaStream_t stream) {
  start_by_precision(Product<T, Target>{shape, parts, a, b, target, stream});
}
template <class R, class Target>
void launch_add_parts(const GemmShape& shape, int parts, const R* part, const Target& target,
                      cudaStream_t stream) {
  launch_threads(shape.m * shape.n, stream, gemm_add_parts<R, Target>, shape, parts, part, target);
}

#define GNOGRAD_GEMM(T, Target)                                                  \
  template void launch_gemm<T, Target>(const GemmShape&, int, const Operand<T>&, \
                                       const Operand<T>&, const Target&, cudaStream_t);
#define GNOGRAD_ADD_PARTS(R, Target)                                                        \
  template void launch_add_parts<R, Target>(const GemmShape&, int, const R*, const Target&, \
                                            cudaStream_t);
#define GNOGRAD_GEMM_OF(R)               \
  GNOGRAD_GEMM(R, GemmResult<R>)         \
  GNOGRAD_GEMM(R, GemmActivated<R>)      \
  GNOGRAD_GEMM(R, GemmSlope<R>)          \
  GNOGRAD_ADD_PARTS(R, GemmResult<R>)    \
  GNOGRAD_ADD_PARTS(R, GemmActivated<R>) \
  GNOGRAD_ADD_PARTS(R, GemmSlope<R>)
GNOGRAD_GEMM_OF(float)
GNOGRAD_GEMM_OF(double)
GNOGRAD_GEMM(__nv_bfloat16, GemmResult<__nv_bfloat16>)
GNOGRAD_GEMM(__nv_bfloat16, GemmResult<float>)
GNOGRAD_ADD_PARTS(float, GemmResult<__nv_bfloat16>)
#undef GNOGRAD_GEMM_OF
#undef GNOGRAD_ADD_PARTS
#undef GNOGRAD_GEMM

}  // namespace gnograd

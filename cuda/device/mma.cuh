// SPDX-License-Identifier: MIT
// The instructions of tensor cores (sm_80 and later); elsewhere the SIMT runtime has them.
#pragma once
#include "platform.cuh"

#ifdef __CUDACC__

// d += a b for a 16x16 matrix a (row by row), 16x8 b (column by column) and 16x8 d, dealt to the
// lanes of a warp as the PTX manual says of mma.m16n8k16; the first argument tells the type.
#define GNOGRAD_MMA(T, name)                                                            \
  __device__ inline void mma_m16n8k16(T, float (&d)[4], const unsigned (&a)[4],         \
                                      const unsigned (&b)[2]) {                         \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "         \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));   \
  }
GNOGRAD_MMA(__half, "f16")
GNOGRAD_MMA(__nv_bfloat16, "bf16")
#undef GNOGRAD_MMA

// x to 10 bits of mantissa, nearest, ties away from zero; as a float with zeros behind, where PTX
// leaves open what there is.
__device__ inline unsigned to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits & ~0x1fffu;
}

// d += a b for a 16x8 matrix a (row by row), 8x8 b (column by column) and 16x8 d of such numbers,
// dealt out as for mma.m16n8k8.
__device__ inline void mma_m16n8k8(float (&d)[4], const unsigned (&a)[4],
                                   const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// x, made here, between the products before and behind: the compiler does not know what it is. So
// it takes registers from here on, not from before a loop, and what x is made of until here.
__device__ inline unsigned made_here(unsigned x) {
  asm volatile("" : "+r"(x));
  return x;
}
__device__ inline float made_here(float x) {
  asm volatile("" : "+f"(x));
  return x;
}

// Four 8x8 matrices of 16-bit numbers from shared memory, dealt out as operands of mma_m16n8k16 are:
// lane l names row l % 8 of matrix l / 8, 16 bytes that are aligned to 16, and gets of each matrix
// the numbers 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; of column l / 4 where they are transposed.
__device__ inline void load_matrices(unsigned (&d)[4], const void* row) {
  const unsigned at = unsigned(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(at)
               : "memory");
}
__device__ inline void load_matrices_transposed(unsigned (&d)[4], const void* row) {
  const unsigned at = unsigned(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(at)
               : "memory");
}

#endif

namespace gnograd {

// A number as the sum of two that tensor cores take, or the first alone: rounded to 11 bits, and
// the rest. The rest has 12 bits at most, of which tensor cores ignore the last one. It is no use
// to clear it: PTX does not say so, but if they read it, the sum would only be nearer, by 2^-23 of
// it.
template <bool rounded>
struct SplitFloat {
  unsigned large, small = 0;
  __device__ explicit SplitFloat(float x) {
    if constexpr (rounded) {
      large = to_tf32(x);
    } else {
      // to_tf32 but for some NaN, whose rest is NaN too
      memcpy(&large, &x, sizeof x);
      large = (large + 0x1000) & ~0x1fffu;
      float rest;
      memcpy(&rest, &large, sizeof rest);
      rest = x - rest;
      memcpy(&small, &rest, sizeof rest);
    }
  }
};

}  // namespace gnograd

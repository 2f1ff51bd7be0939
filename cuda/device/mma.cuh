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

#endif

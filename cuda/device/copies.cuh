// SPDX-License-Identifier: MIT
// Copies from global to shared memory that go on while their thread does (sm_80 and later);
// elsewhere the SIMT runtime has them, where what is copied arrives when it is waited for.
#pragma once
#include "platform.cuh"

#ifdef __CUDACC__

// Starts to copy 4, 8 or 16 bytes, to which both addresses are aligned; zeros where there is
// nothing to copy, and then `from` is not read. 16 bytes leave the L1 cache out.
template <int bytes = 16>
__device__ inline void copy_async(void* to, const void* from, bool there = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const unsigned at = unsigned(__cvta_generic_to_shared(to)), n = there ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(n)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes),
                 "r"(n)
                 : "memory");
}

// Makes a group of what this thread has started since the last commit.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of this thread but the last n. Other threads see what has arrived behind a
// barrier.
template <int n = 0>
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

#endif

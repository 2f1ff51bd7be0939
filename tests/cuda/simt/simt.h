// SPDX-License-Identifier: MIT
// The device side of CUDA for a plain C++ compiler: every CUDA thread is a fiber (simt.cpp), so the
// kernels of cuda/ run, and run under sanitizers, on a machine without a GPU. Types, vector types
// and half/bfloat16 arithmetic are those of NVIDIA's own headers.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>

// Blocks run one after another, so that one copy serves them all; SharedMemory is checked more
// closely.
#undef __shared__
#define __shared__ static
#define __launch_bounds__(...)

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace simt {

// Tools of tests of huge arrays: of every grid only so many blocks run, its last ones (0: all), and
// device memory that exists only where it is touched, zero at first; null if there is none.
extern unsigned last_blocks;
void* reserve(size_t bytes);

using Site = std::source_location;
using Eval = void (*)(void* closure, const void* const* in);

void run(const void* kernel, dim3 grid, dim3 block, size_t smem, void (*body)(void*),
         void* closure);
void* take_shared(unsigned index, size_t bytes);
// All threads of the block meet; whether all of them vote yes.
bool barrier(bool vote, Site at);
void fence();
void meet(unsigned mask, bool orders_memory, const void* in, Eval eval, void* closure, Site at);

// Copies that a thread has started, in groups, which arrive when they are waited for: all but the
// last n.
void copy_later(void* to, const void* from, size_t bytes, size_t of_these);
void end_group();
void await_groups(size_t n);

inline int thread_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
inline int lane() { return thread_rank() % warpSize; }

// Values that each lane of a warp brought to a collective; all ones (a NaN, a -1) where a GPU would
// read an undefined value.
alignas(16) extern const unsigned char undefined[256];
template <class T>
struct Lanes {
  const void* const* in;
  bool has(int lane) const { return in[lane]; }
  const T& operator[](int lane) const {
    return *static_cast<const T*>(in[lane] ? in[lane] : undefined);
  }
};

// The one primitive under every warp intrinsic: the lanes of `mask` meet, then each gets f(what all
// of them brought).
template <class T, class F>
auto collective(unsigned mask, const T& mine, F f, Site at, bool orders_memory = false) {
  std::invoke_result_t<F, Lanes<T>> out;
  auto eval = [&](const void* const* in) { out = f(Lanes<T>{in}); };
  using E = decltype(eval);
  meet(
      mask, orders_memory, &mine, [](void* e, const void* const* in) { (*static_cast<E*>(e))(in); },
      &eval, at);
  return out;
}

// What lane `from` brought to a shuffle.
void shuffle(unsigned mask, const void* mine, void* out, size_t bytes, int from, Site at);
template <class T>
T shuffle(unsigned mask, const T& mine, int from, Site at) {
  T out;
  shuffle(mask, &mine, &out, sizeof out, from, at);
  return out;
}

template <class To, class From>
To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof to);
  return to;
}

template <class T, class F>
T atomic(T* p, F f) {
  using Word = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  Word* word = reinterpret_cast<Word*>(p);
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, bits<Word>(f(bits<T>(old))), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return bits<T>(old);
}

}  // namespace simt

template <class... P, class... A>
void start(void (*kernel)(P...), dim3 grid, dim3 block, size_t smem, cudaStream_t, A&&... args) {
  std::tuple<P...> params(std::forward<A>(args)...);
  auto body = [&] { std::apply(kernel, params); };
  simt::run(
      reinterpret_cast<const void*>(kernel), grid, block, smem,
      [](void* b) { (*static_cast<decltype(body)*>(b))(); }, &body);
}

// Bytes of a launch's shared memory that an array of n takes.
template <class T>
constexpr size_t shared_bytes(size_t n) {
  return (n * sizeof(T) + 15) / 16 * 16;
}

// Hands out the shared memory of a block, one array after another, each with its own bounds.
class SharedMemory {
  unsigned taken = 0;

 public:
  template <class T>
  T* take(int n) {
    return static_cast<T*>(simt::take_shared(taken++, n * sizeof(T)));
  }
};

#define SIMT_AT simt::Site at = simt::Site::current()

inline void __syncthreads(SIMT_AT) { simt::barrier(true, at); }
inline int __syncthreads_and(int yes, SIMT_AT) { return simt::barrier(yes, at); }
void __syncwarp(unsigned mask = ~0u, SIMT_AT);
inline void __threadfence() { simt::fence(); }
inline void __threadfence_block() { simt::fence(); }

template <class T>
T __shfl_sync(unsigned mask, T v, int src, int width = 32, SIMT_AT) {
  const int from = (simt::lane() & -width) | (src & (width - 1));
  return simt::shuffle(mask, v, from, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int x, int width = 32, SIMT_AT) {
  const int me = simt::lane(), from = (me ^ x) > (me | (width - 1)) ? me : me ^ x;
  return simt::shuffle(mask, v, from, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32, SIMT_AT) {
  const int me = simt::lane(), from = me - int(d) < (me & -width) ? me : me - int(d);
  return simt::shuffle(mask, v, from, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32, SIMT_AT) {
  const int me = simt::lane(), from = me + int(d) > (me | (width - 1)) ? me : me + int(d);
  return simt::shuffle(mask, v, from, at);
}

unsigned __ballot_sync(unsigned mask, int p, SIMT_AT);
unsigned __reduce_min_sync(unsigned mask, unsigned v, SIMT_AT);
template <class T>
unsigned __match_any_sync(unsigned mask, T v, SIMT_AT) {
  const int me = simt::lane();
  return simt::collective(
      mask, v,
      [=](simt::Lanes<T> in) {
        unsigned same = 0;
        for (int l = 0; l < warpSize; ++l)
          if (in.has(l) && in[l] == in[me]) same |= 1u << l;
        return same;
      },
      at);
}
inline int __any_sync(unsigned mask, int p, SIMT_AT) { return __ballot_sync(mask, p, at) != 0; }
inline int __all_sync(unsigned mask, int p, SIMT_AT) { return __ballot_sync(mask, !p, at) == 0; }

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return simt::atomic(p, [=](T o) { return T(o + v); });
}

template <class T>
T __ldg(const T* p) {
  assert(reinterpret_cast<uintptr_t>(p) % alignof(T) == 0);
  return *p;
}

// d += a b on a warp's fragments of 16x16, 16x8 and 16x8 matrices (PTX manual, mma.m16n8k16); the
// first argument tells the type.
void mma_m16n8k16(__half, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIMT_AT);
void mma_m16n8k16(__nv_bfloat16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  SIMT_AT);

inline unsigned to_tf32(float x) {
  const unsigned bits = simt::bits<unsigned>(x);
  const bool finite = (bits & 0x7f800000) != 0x7f800000;
  return (bits + (finite ? 0x1000 : 0)) & ~0x1fffu;
}

inline auto made_here(auto x) { return x; }

// d += a b for 16x8, 8x8 and 16x8 matrices of floats whose last 13 bits are ignored (mma.m16n8k8).
void mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], SIMT_AT);

// Four 8x8 matrices of 16-bit numbers; lane l brings row l % 8 of matrix l / 8 (PTX manual, ldmatrix).
void load_matrices(unsigned (&d)[4], const void* row, SIMT_AT);
void load_matrices_transposed(unsigned (&d)[4], const void* row, SIMT_AT);

template <int bytes = 16>
void copy_async(void* to, const void* from, bool there = true) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  assert(reinterpret_cast<uintptr_t>(to) % bytes == 0);
  assert(!there || reinterpret_cast<uintptr_t>(from) % bytes == 0);
  simt::copy_later(to, from, bytes, there ? bytes : 0);
}
inline void commit_copies() { simt::end_group(); }
template <int n = 0>
void await_copies() {
  simt::await_groups(n);
}

// products and sums that the compiler does not fuse
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(unsigned x) { return std::countl_zero(x); }
inline int __ffs(int x) { return x ? std::countr_zero(unsigned(x)) + 1 : 0; }
using std::max;
using std::min;

// SPDX-License-Identifier: MIT
// Operations of the lanes of a warp together: votes, products of matrices, their loads.
#include <algorithm>
#include <array>

#include "runtime.h"

namespace simt {
namespace {

// A lane's part of a product of matrices.
struct Fragments {
  unsigned a[4], b[2];
};

template <class T>
float element(unsigned pair, int i) {
  return float(bits<T>(uint16_t(pair >> 16 * i)));
}

template <class T>
void mma_16_bits(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  // the first lanes that hold this lane's rows of a, and its columns of b
  const int row = lane() / 4 * 4, column = lane() % 4 * 8;
  const auto products = [&](Lanes<Fragments> in) {
    static unsigned long unpacked;  // at this meeting
    static float x[32][4][2], y[32][2][2];
    if (std::exchange(unpacked, meeting) != meeting)
      for (int l = 0; l < 32; ++l)
        for (int k = 0; k < 2; ++k) {
          for (int i = 0; i < 4; ++i) x[l][i][k] = element<T>(in[l].a[i], k);
          for (int i = 0; i < 2; ++i) y[l][i][k] = element<T>(in[l].b[i], k);
        }
    std::array<float, 4> sum{d[0], d[1], d[2], d[3]};
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 4; ++i)
        sum[i] += x[row + k % 8 / 2][k / 8 * 2 + i / 2][k % 2] *
                  y[column + i % 2 * 4 + k % 8 / 2][k / 8][k % 2];
    return sum;
  };
  const auto sum = collective(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, products, at);
  std::copy(sum.begin(), sum.end(), d);
}

template <bool transposed>
void load_8x8(unsigned (&d)[4], const void* row, Site at) {
  constexpr size_t row_bytes = 16;
  if (reinterpret_cast<uintptr_t>(row) % row_bytes) die("a row that is not aligned, at " + name(at));
  ASAN(if (__asan_region_is_poisoned(const_cast<void*>(row), row_bytes))
           die("a row outside its array, at " + name(at));)
  TSAN(__tsan_read16(const_cast<void*>(row));)
  const int i = lane() / 4, j = lane() % 4 * 2;
  const auto mine = [&](Lanes<const void*> in) {
    std::array<unsigned, 4> got;
    for (int m = 0; m < 4; ++m) {
      uint16_t x[2];
      for (int k = 0; k < 2; ++k)
        x[k] = transposed ? static_cast<const uint16_t*>(in[8 * m + j + k])[i]
                          : static_cast<const uint16_t*>(in[8 * m + i])[j + k];
      got[m] = x[0] | unsigned(x[1]) << 16;
    }
    return got;
  };
  const auto got = collective(~0u, row, mine, at);
  std::copy(got.begin(), got.end(), d);
}

// f of what the lanes bring where all of them get the same: found once a meeting.
template <class T, class F>
auto common(unsigned mask, const T& mine, F f, Site at) {
  const auto once = [&](Lanes<T> in) {
    static unsigned long found;
    static std::invoke_result_t<F, Lanes<T>> result;
    if (std::exchange(found, meeting) != meeting) result = f(in);
    return result;
  };
  return collective(mask, mine, once, at);
}

}  // namespace
}  // namespace simt

using namespace simt;

void __syncwarp(unsigned mask, Site at) {
  collective(mask, 0, [](auto) { return 0; }, at, true);
}
unsigned __ballot_sync(unsigned mask, int p, Site at) {
  const auto votes = [](Lanes<int> in) {
    unsigned all = 0;
    for (int l = 0; l < warpSize; ++l)
      if (in.has(l) && in[l]) all |= 1u << l;
    return all;
  };
  return common(mask, p, votes, at);
}
unsigned __reduce_min_sync(unsigned mask, unsigned v, Site at) {
  const auto minimum = [](Lanes<unsigned> in) {
    unsigned least = ~0u;
    for (int l = 0; l < warpSize; ++l)
      if (in.has(l)) least = std::min(least, in[l]);
    return least;
  };
  return common(mask, v, minimum, at);
}
void mma_m16n8k16(__half, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  mma_16_bits<__half>(d, a, b, at);
}
void mma_m16n8k16(__nv_bfloat16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  Site at) {
  mma_16_bits<__nv_bfloat16>(d, a, b, at);
}
void mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site at) {
  const int row = lane() / 4 * 4, column = lane() % 4 * 8;
  const auto products = [&](Lanes<Fragments> in) {
    const auto read = [](unsigned x) { return bits<float>(x & ~0x1fffu); };
    std::array<float, 4> sum{d[0], d[1], d[2], d[3]};
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 4; ++i)
        sum[i] += read(in[row + k % 4].a[k / 4 * 2 + i / 2]) *
                  read(in[column + i % 2 * 4 + k % 4].b[k / 4]);
    return sum;
  };
  const auto sum = collective(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, products, at);
  std::copy(sum.begin(), sum.end(), d);
}
void load_matrices(unsigned (&d)[4], const void* row, Site at) { load_8x8<false>(d, row, at); }
void load_matrices_transposed(unsigned (&d)[4], const void* row, Site at) {
  load_8x8<true>(d, row, at);
}

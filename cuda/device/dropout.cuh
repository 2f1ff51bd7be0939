// SPDX-License-Identifier: MIT
// Dropout of attention weights: with probability p a weight becomes 0, else it is divided by 1 - p.
#pragma once
#include <cmath>

#include "numbers.cuh"

namespace gnograd {

// Number `number` of the sequence that SplitMix64 makes of a seed (Steele, Lea, Flood, Fast
// splittable pseudorandom number generators, OOPSLA 2014). Any can be had without those before it.
__device__ inline uint64_t split_mix(uint64_t seed, uint64_t number) {
  uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Dropout of weights. The seed, the row of the edge table and the head decide which ones are
// dropped, as on a CPU (fortran/core/split_mix.h). The seed stays in device memory, so that nobody
// waits.
struct Dropout {
  const int64_t* seed = nullptr;  // [1], or null: all weights stay
  int64_t dropped = 0;            // so many of 2^53 equally likely numbers are those of dropped ones
  double kept = 1;

  // Factor of a weight.
  template <class R>
  __device__ R factor(int64_t row, int head, int n_heads) const {
    if (!seed) return R(1);
    const uint64_t bits = split_mix(uint64_t(*seed), uint64_t(row) * n_heads + head) >> 11;
    return int64_t(bits) < dropped ? R(0) : R(kept);
  }
};

inline Dropout make_dropout(double p, const int64_t* seed) {
  if (p == 0) return {};
  return {seed, int64_t(std::ceil(std::ldexp(p, 53))), p < 1 ? 1 / (1 - p) : 0};
}

}  // namespace gnograd

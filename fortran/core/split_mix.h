// SPDX-License-Identifier: MIT
// SplitMix64 (Steele, Lea, Flood, Fast splittable pseudorandom number generators, OOPSLA 2014): any
// number of the sequence of a seed can be had without those before it.
#ifndef GNOGRAD_SPLIT_MIX_H
#define GNOGRAD_SPLIT_MIX_H
#include <stdint.h>

static inline uint64_t split_mix(uint64_t seed, uint64_t number)
{
    uint64_t z = seed + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif

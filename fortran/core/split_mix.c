// SPDX-License-Identifier: MIT
// Integers without sign, which Fortran does not have.
#include "split_mix.h"

int64_t gnograd_split_mix(int64_t seed, int64_t number)
{
    return (int64_t)split_mix((uint64_t)seed, (uint64_t)number);
}

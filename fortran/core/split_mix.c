// SPDX-License-Identifier: MIT
// Integers without sign, which Fortran does not have.
#include <string.h>

#include "split_mix.h"

int64_t gnograd_split_mix(int64_t seed, int64_t number)
{
    return (int64_t)split_mix((uint64_t)seed, (uint64_t)number);
}

// x[i] = 2^-53 times the first 53 bits of number first + i. Both halves of the bits, put into the
// mantissas of 2^52 and 2^84, are real numbers without a conversion, which few processors have for
// vectors.
void gnograd_uniforms(int64_t seed, int64_t first, int n, double *x)
{
    for (int i = 0; i < n; i++) {
        const uint64_t bits = split_mix((uint64_t)seed, (uint64_t)first + (uint64_t)i) >> 11;
        const uint64_t halves[2] = {bits >> 32 | UINT64_C(0x4530000000000000),
                                    (bits & UINT64_C(0xffffffff)) | UINT64_C(0x4330000000000000)};
        double high, low;
        memcpy(&high, &halves[0], sizeof high);
        memcpy(&low, &halves[1], sizeof low);
        x[i] = ((high - (0x1p84 + 0x1p52)) + low) * 0x1p-53;
    }
}

// SPDX-License-Identifier: MIT
// Random bits of edges and heads: integers without sign, which Fortran does not have.
//
// Number r * n_heads + h of the sequence of a seed belongs to row r of the edge table and head h.
#include "../../core/split_mix.h"

// factor[n_edges, n_heads] = kept where the 53 upper bits are not less than dropped, else 0. A table of
// both instead of a branch, which no processor could foresee.
#define DRAW(suffix, real)                                                                       \
    __attribute__((visibility("hidden")))                                                        \
    void gnograd_draw_dropout_##suffix(int64_t seed, int64_t dropped, real kept, int n_edges,    \
                                       const int64_t *row, int n_heads, real *factor)            \
    {                                                                                            \
        const real factors[2] = {0, kept};                                                       \
        for (int q = 0; q < n_edges; q++)                                                        \
            for (int h = 0; h < n_heads; h++) {                                                  \
                const uint64_t number = (uint64_t)row[q] * (uint64_t)n_heads + (uint64_t)h;      \
                const int64_t bits = (int64_t)(split_mix((uint64_t)seed, number) >> 11);         \
                factor[(int64_t)q * n_heads + h] = factors[bits >= dropped];                     \
            }                                                                                    \
    }

DRAW(r32, float)
DRAW(r64, double)

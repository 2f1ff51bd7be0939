// SPDX-License-Identifier: MIT
// The one thing that Fortran cannot say: ask for memory before it is needed.
#include <stdint.h>

enum { line = 64 };

// Ask for a row in the second cache: the rows of a list and of the one behind are more than the
// first one holds. A row need not start with a line; asking for its last byte, too, is cheaper than
// asking whether.
static inline void prefetch(const char *first, int64_t n_bytes)
{
    for (int64_t k = 0; k < n_bytes; k += line)
        __builtin_prefetch(first + k, 0, 2);
    if (n_bytes > 0)  // rows of nothing may be of no table
        __builtin_prefetch(first + n_bytes - 1, 0, 2);
}

__attribute__((visibility("hidden")))
void gnograd_prefetch(int64_t n_bytes, const char *first)
{
    prefetch(first, n_bytes);
}

__attribute__((visibility("hidden")))
void gnograd_prefetch_rows_int32(int64_t n, const int32_t *row, int64_t row_bytes,
                                 const char *table)
{
    for (int64_t q = 0; q < n; q++)
        prefetch(table + row[q] * row_bytes, row_bytes);
}

__attribute__((visibility("hidden")))
void gnograd_prefetch_rows_int64(int64_t n, const int64_t *row, int64_t row_bytes,
                                 const char *table)
{
    for (int64_t q = 0; q < n; q++)
        prefetch(table + row[q] * row_bytes, row_bytes);
}

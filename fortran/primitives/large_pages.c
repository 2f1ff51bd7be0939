// SPDX-License-Identifier: MIT
// madvise, where there is one: a hint that changes no result.
#define _DEFAULT_SOURCE
#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

__attribute__((visibility("hidden")))
void gnograd_prefer_large_pages(int64_t n_bytes, char *array)
{
#ifdef MADV_HUGEPAGE
    enum { page = 4096 };
    const uintptr_t first = ((uintptr_t)array + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)array + n_bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)n_bytes, (void)array;
#endif
}

// SPDX-License-Identifier: MIT
// OpenBLAS on one thread while kernels call it from theirs, and afterwards as it was. Its number of
// threads belongs to the process, and so to the host program: the first call that needs it keeps what
// it was, the last one that ends gives it back.
#include <pthread.h>

#ifndef BLAS_PREFIX
#define BLAS_PREFIX
#endif
#define JOIN(a, b) a##b
#define NAME(prefix, name) JOIN(prefix, name)
#define get_num_threads NAME(BLAS_PREFIX, openblas_get_num_threads)
#define set_num_threads NAME(BLAS_PREFIX, openblas_set_num_threads)
#define get_parallel NAME(BLAS_PREFIX, openblas_get_parallel)

#if defined(BLAS_IS_OPENBLAS)
#define OPTIONAL
#elif defined(__ELF__)
// The BLAS that is linked may be OpenBLAS even so, as through Debian's alternatives.
#define OPTIONAL __attribute__((weak))
#else
#define NO_OPENBLAS
#endif

#ifndef NO_OPENBLAS
extern int get_num_threads(void) OPTIONAL;
extern void set_num_threads(int) OPTIONAL;
extern int get_parallel(void) OPTIONAL;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_users, before;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

static void restore(void)
{
    // unless the host has meanwhile chosen another number
    if (before != 1 && get_num_threads() == 1)
        set_num_threads(before);
}

// The threads that use it do not exist in a child process.
static void restore_in_child(void)
{
    if (n_users > 0)
        restore();
    n_users = 0;
    release();
}

static void watch_forks(void)
{
    pthread_atfork(acquire, release, restore_in_child);
}

// An OpenMP build (2) sees the enclosing parallel region by itself.
static int is_ours(void)
{
#ifndef BLAS_IS_OPENBLAS
    if (!get_num_threads || !set_num_threads || !get_parallel)
        return 0;
#endif
    return get_parallel() != 2;
}
#endif

void gnograd_blas_one_thread(void)
{
#ifndef NO_OPENBLAS
    if (!is_ours())
        return;
    pthread_once(&once, watch_forks);
    acquire();
    if (n_users++ == 0) {
        before = get_num_threads();
        if (before != 1)
            set_num_threads(1);
    }
    release();
#endif
}

void gnograd_blas_as_before(void)
{
#ifndef NO_OPENBLAS
    if (!is_ours())
        return;
    acquire();
    if (--n_users == 0)
        restore();
    release();
#endif
}

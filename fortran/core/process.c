// SPDX-License-Identifier: MIT
// Counters, and locks for lists, that all threads of a process share. By C and not by OpenMP, because
// a library that was built without OpenMP is used by threads of the host program all the same.
#include <pthread.h>
#include <stdint.h>

// Numbers of locks are in process.f90
enum { n_locks = 2 };

static pthread_mutex_t locks[n_locks] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_all(void)
{
    for (int k = 0; k < n_locks; k++)
        pthread_mutex_lock(&locks[k]);
}

static void unlock_all(void)
{
    for (int k = n_locks - 1; k >= 0; k--)
        pthread_mutex_unlock(&locks[k]);
}

// A thread that has a lock does not exist in a child process, where nobody would give it back.
static void watch_forks(void)
{
    pthread_atfork(lock_all, unlock_all, unlock_all);
}

__attribute__((visibility("hidden")))
void gnograd_lock(int32_t which)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&locks[which]);
}

__attribute__((visibility("hidden")))
void gnograd_unlock(int32_t which)
{
    pthread_mutex_unlock(&locks[which]);
}

__attribute__((visibility("hidden")))
int64_t gnograd_added(int64_t *number, int64_t more)
{
    return __atomic_add_fetch(number, more, __ATOMIC_ACQ_REL);
}

__attribute__((visibility("hidden")))
int64_t gnograd_read_number(const int64_t *number)
{
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}

__attribute__((visibility("hidden")))
void gnograd_write_number(int64_t *number, int64_t value)
{
    __atomic_store_n(number, value, __ATOMIC_RELAXED);
}

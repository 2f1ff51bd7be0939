// SPDX-License-Identifier: MIT
// Threads of a host program in a library that was compiled without OpenMP.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { n_threads = 4, n_rounds = 20000 };

void begin(void);
int64_t work(int64_t thread, int64_t rounds, int64_t *serials);
int end(void);

static int64_t serials[n_threads * n_rounds], n_wrong[n_threads];

static void *run(void *thread)
{
    const int64_t k = (intptr_t)thread;
    n_wrong[k] = work(k, n_rounds, serials + k * n_rounds);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    pthread_t threads[n_threads];
    int64_t wrong = 0, twice = 0;

    begin();
    for (intptr_t k = 0; k < n_threads; k++)
        pthread_create(&threads[k], NULL, run, (void *)k);
    for (int k = 0; k < n_threads; k++) {
        pthread_join(threads[k], NULL);
        wrong += n_wrong[k];
    }
    qsort(serials, n_threads * n_rounds, sizeof *serials, ascending);
    for (int k = 1; k < n_threads * n_rounds; k++)
        twice += serials[k] == serials[k - 1];
    const int is_last = end();
    printf("%ld wrong, %ld serials twice, holders %s\n", (long)wrong, (long)twice,
           is_last ? "right" : "wrong");
    return wrong || twice || !is_last;
}

/* SPDX-License-Identifier: MIT
 * Threads of a C program, each of which makes, uses and frees tapes of its own. */
#include <gnograd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { n_threads = 4, n_rounds = 500 };
static int n_wrong[n_threads];

/* One tape: gradients of a mean of squares, and the message of an error. */
static int is_right(int me) {
    const int64_t extents[1] = {3};
    const double v[3] = {1.0 + me, 2, 3};
    double grad[3], loss;
    char name[40], message[100];
    gnograd_tape *tape;
    if (gnograd_tape_create(&tape)) return 0;
    const int64_t x = gnograd_array_leaf(tape, 64, 1, 1, extents, v);
    const int64_t l = gnograd_array_mean(tape, gnograd_array_multiply(tape, x, x));
    int well = gnograd_tape_backward(tape, l, 0) == GNOGRAD_OK;
    well &= gnograd_array_value(tape, l, &loss) == GNOGRAD_OK && loss == (v[0] * v[0] + 13) / 3;
    well &= gnograd_array_grad(tape, x, grad) == GNOGRAD_OK && grad[0] == v[0] * 2 / 3;
    snprintf(name, sizeof name, "no folder/of thread %d", me);
    well &= gnograd_tape_load(tape, name, 1) == GNOGRAD_VALUE;
    gnograd_last_error(sizeof message, message);
    well &= strstr(message, name) != NULL;
    gnograd_tape_free(tape);
    return well;
}

static void *work(void *number) {
    int *wrong = number;
    for (int k = 0; k < n_rounds; k++)
        *wrong += !is_right((int)(wrong - n_wrong));
    return NULL;
}

int main(void) {
    pthread_t threads[n_threads];
    int total = 0;
    for (int k = 0; k < n_threads; k++) pthread_create(&threads[k], NULL, work, &n_wrong[k]);
    for (int k = 0; k < n_threads; k++) {
        pthread_join(threads[k], NULL);
        total += n_wrong[k];
    }
    printf("wrong or failed: %d of %d\n", total, n_threads * n_rounds);
    return total != 0;
}

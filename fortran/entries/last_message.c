// SPDX-License-Identifier: MIT
// The message of the last error of every thread, with or without OpenMP. It goes with its thread.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct message {
    int64_t length;
    char text[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int has_key;

// free belongs to libc: it is still there when this library has been unloaded and a thread ends
static void make_key(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

__attribute__((destructor))
static void delete_key(void)
{
    if (has_key)
        pthread_key_delete(key);
}

// Without memory there is no message.
__attribute__((visibility("hidden")))
void gnograd_keep_message(int64_t length, const char *text)
{
    pthread_once(&once, make_key);
    if (!has_key)
        return;
    free(pthread_getspecific(key));
    struct message *kept = malloc(sizeof *kept + (size_t)length);
    if (kept) {
        kept->length = length;
        memcpy(kept->text, text, (size_t)length);
    }
    if (pthread_setspecific(key, kept) != 0) {
        pthread_setspecific(key, NULL);
        free(kept);
    }
}

// Length of the message of this thread, 0 without; copy the first characters of it.
__attribute__((visibility("hidden")))
int64_t gnograd_kept_message(int64_t room, char *text)
{
    pthread_once(&once, make_key);
    const struct message *kept = has_key ? pthread_getspecific(key) : NULL;
    if (!kept)
        return 0;
    if (room > 0)
        memcpy(text, kept->text, (size_t)(room < kept->length ? room : kept->length));
    return kept->length;
}

/* SPDX-License-Identifier: MIT
 * Loaded before libc: the n-th call of a function fails, FAILING="write 2"; or every write takes a
 * part of what it is given, FAILING="short". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file that went to the disk last: others are closed, too */
static int last = -1;

static int fails(const char *function) {
    static int count;
    const char *failing = getenv("FAILING");
    const size_t length = strlen(function);
    if (!failing || strncmp(failing, function, length)) return 0;
    if (++count != atoi(failing + length)) return 0;
    errno = EIO;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t n) {
    ssize_t (*next)(int, const void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "write");
    const char *failing = getenv("FAILING");
    if (file > 2 && fails("write")) return -1;
    if (file > 2 && failing && !strcmp(failing, "short")) n = (n + 1) / 2;
    return next(file, bytes, n);
}

int fsync(int file) {
    int (*next)(int);
    *(void **)&next = dlsym(RTLD_NEXT, "fsync");
    last = file;
    return fails("fsync") ? -1 : next(file);
}

int close(int file) {
    int (*next)(int);
    *(void **)&next = dlsym(RTLD_NEXT, "close");
    const int status = next(file);
    return file == last && fails("close") ? -1 : status;
}

int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "rename");
    return fails("rename") ? -1 : next(from, to);
}

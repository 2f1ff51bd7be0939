// SPDX-License-Identifier: MIT
// Files by the calls of POSIX: all errors of writing are seen, which Fortran's buffers lose, and no
// setting of the host program (its byte order for unformatted files, say) has a part in it.
//
// A file is written under a name that no other process has, and takes its place when all of it is on
// the disk: what was there is whole until then, and stays after an error.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../core/split_mix.h"

// Bytes in memory, as in files.f90.
struct piece {
    const char *bytes;
    int64_t length;
};

// Beside those of errno
enum { no_file = -1, ends_early = -2, not_for_sure = -3 };
// Bytes of one call: some systems take no more than 2 GiB
enum { most = 1 << 30 };

// Text of a status.
__attribute__((visibility("hidden")))
void gnograd_file_problem(int status, int64_t length, char *text)
{
    if (status == no_file)
        snprintf(text, (size_t)length, "it is a folder, a pipe or a device");
    else if (status == ends_early)
        snprintf(text, (size_t)length, "it has become shorter");
    else if (status == not_for_sure)
        snprintf(text, (size_t)length, "it is in place, but may be lost where the power fails");
    else if (strerror_r(status, text, (size_t)length) != 0)
        snprintf(text, (size_t)length, "error %d", status);
}

static int write_piece(int file, struct piece piece)
{
    const char *bytes = piece.bytes;
    int64_t n = piece.length;

    while (n > 0) {
        const ssize_t written = write(file, bytes, n < most ? (size_t)n : most);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        bytes += written;
        n -= written;
    }
    return 0;
}

// Write a file to the disk, where the file system can tell.
static int synchronise(int file)
{
    int status;
    do
        status = fsync(file) == 0 ? 0 : errno;
    while (status == EINTR);
    return status == EINVAL || status == ENOTSUP ? 0 : status;
}

// A new file beside the one that it will replace: neither a file nor a link of another process. Its
// name is that of Python's save_weights.
static int create_part(const char *filename, size_t folder, char *part, size_t size, int *file)
{
    enum { longest = 180, attempts = 100 };
    static uint64_t count;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t seed = (uint64_t)getpid() << 32 ^ (uint64_t)now.tv_sec << 20
                          ^ (uint64_t)now.tv_nsec;
    for (int k = 0; k < attempts; k++) {
        const uint64_t number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
        snprintf(part, size, "%.*s.%.*s.%016llx.gnograd-part", (int)folder, filename, longest,
                 filename + folder, (unsigned long long)split_mix(seed, number));
        *file = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*file >= 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

// The new name of a file is on the disk with the folder that has it. One that may not be read, or
// knows no fsync, is left to the system.
static int synchronise_folder(const char *filename, size_t length, char *name)
{
    snprintf(name, length + 2, "%.*s", (int)length, filename);
    const int folder = open(length > 0 ? name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return 0;
    const int status = synchronise(folder);
    close(folder);
    return status == 0 ? 0 : not_for_sure;
}

// Write pieces one behind the other. Returns 0, or what is wrong.
__attribute__((visibility("hidden")))
int gnograd_write_file(const char *filename, int64_t n_pieces, const struct piece *pieces)
{
    const char *slash = strrchr(filename, '/');
    const size_t folder = slash ? (size_t)(slash - filename) + 1 : 0;
    const size_t size = strlen(filename) + 64;
    struct stat before;
    int file, status;

    if (lstat(filename, &before) == 0 && !S_ISREG(before.st_mode) && !S_ISLNK(before.st_mode))
        return no_file;
    char *part = malloc(size);
    if (!part)
        return ENOMEM;
    status = create_part(filename, folder, part, size, &file);
    if (status == 0) {
        for (int64_t k = 0; k < n_pieces && status == 0; k++)
            status = write_piece(file, pieces[k]);
        if (status == 0)
            status = synchronise(file);
        if (close(file) != 0 && status == 0)
            status = errno;
        if (status == 0 && rename(part, filename) != 0)
            status = errno;
        if (status == 0)
            status = synchronise_folder(filename, folder, part);
        else
            unlink(part);
    }
    free(part);
    return status;
}

// Begin to read a file, which has so many bytes. A pipe would be waited for.
__attribute__((visibility("hidden")))
int gnograd_open_file(const char *filename, int *file, int64_t *size)
{
    struct stat found;

    *file = open(filename, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*file < 0)
        return errno;
    int status = fstat(*file, &found) == 0 ? 0 : errno;
    if (status == 0 && !S_ISREG(found.st_mode))
        status = no_file;
    if (status != 0)
        close(*file);
    else
        *size = found.st_size;
    return status;
}

// n bytes from a place on, counted from 0.
__attribute__((visibility("hidden")))
int gnograd_read_file(int file, int64_t place, int64_t n, char *bytes)
{
    while (n > 0) {
        const ssize_t found = pread(file, bytes, n < most ? (size_t)n : most, place);
        if (found < 0 && errno == EINTR)
            continue;
        if (found <= 0)
            return found < 0 ? errno : ends_early;
        bytes += found;
        place += found;
        n -= found;
    }
    return 0;
}

__attribute__((visibility("hidden")))
void gnograd_close_file(int file)
{
    close(file);
}

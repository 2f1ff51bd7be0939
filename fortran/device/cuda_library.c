/* SPDX-License-Identifier: MIT
 *
 * The CUDA library, loaded when a tape first asks for a GPU: what links libgnograd needs no CUDA.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GNOGRAD_CUDA_LIBRARY names it, or, left empty, none; else it is beside this library, or above the
 * folder glibc-hwcaps that glibc took this one from, or where the system finds libraries. Null where
 * there is none: the message, ended by a null byte, says why. */
void *gnograd_open_cuda_library(int64_t length, char *message) {
  static const char name[] = "libgnograd_cuda.so";
  const char *named = getenv("GNOGRAD_CUDA_LIBRARY");
  char path[4096] = "";
  void *library = NULL;

  if (named && !*named) {
    snprintf(message, (size_t)length, "GNOGRAD_CUDA_LIBRARY is empty");
    return NULL;
  }
  if (named) {
    library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  } else {
    Dl_info here;
    const char *slash = NULL;
    if (dladdr((void *)(uintptr_t)gnograd_open_cuda_library, &here) && here.dli_fname) {
      slash = strstr(here.dli_fname, "/glibc-hwcaps/x86-64-v");
      if (!slash) slash = strrchr(here.dli_fname, '/');
    }
    if (slash && (size_t)(slash - here.dli_fname) + sizeof name + 1 < sizeof path) {
      memcpy(path, here.dli_fname, (size_t)(slash - here.dli_fname) + 1);
      memcpy(path + (slash - here.dli_fname) + 1, name, sizeof name);
      library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) {
    const char *why = dlerror();
    snprintf(message, (size_t)length, "%s", why ? why : "unknown");
  }
  return library;
}

/* Null where the library has no such function. */
void *gnograd_cuda_function(void *library, const char *name) { return dlsym(library, name); }

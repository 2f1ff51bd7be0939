// SPDX-License-Identifier: MIT
// State that the scheduler of threads, operations of lanes together and the CUDA runtime share.
// Hidden, since a program and a library may each have their own.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "simt.h"

// These files are compiled without a sanitizer, which would watch the scheduler more than the kernels;
// what the sanitizers must know is told them here.
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char*, int),
    AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int),
    AnnotateIgnoreWritesEnd(const char*, int);
extern "C" void __tsan_read16(void*);
#define TSAN(...) __VA_ARGS__
#else
#define TSAN(...)
#endif

#pragma GCC visibility push(hidden)
namespace simt {

[[noreturn]] void die(const std::string& why);
std::string name(Site s);

extern unsigned long meeting;  // number of the one whose lanes get what they came for
extern thread_local int current_device;

// Threads of the host may all call the runtime; it does one thing at a time.
extern std::recursive_mutex runtime;
using Turn = std::lock_guard<std::recursive_mutex>;

// Shared memory of a launch on the smallest device for kernels: without a request, and with one.
constexpr int plain_shared = 48 << 10, most_shared = 99 << 10;
extern std::map<std::pair<const void*, int>, int> allowed_shared;  // by kernel and device

cudaError_t fail(cudaError_t error);
int capability();
void expose_device(bool yes, bool both);

}  // namespace simt
#pragma GCC visibility pop

// SPDX-License-Identifier: MIT
// How a face of an operator enters the C interface: DEFINE_FACE defines the function that counts
// its workspace and the one that runs. `faces` has all that they need but `workspace` and `stream`,
// which are members of it; of it they ask `count` and `call`. Further arguments are the parameters
// between sizes and workspace. A face returns the last error of its thread: one that others have
// left there is not its own.
#pragma once
#include "gnograd_cuda.h"
#include "workspace.cuh"

#define DEFINE_FACE(name, type, SIZES, faces, count, call, ...)                           \
  size_t gnograd_cuda_##name##_workspace_bytes_##type(GNOGRAD_CUDA_LIST SIZES) {          \
    return (faces).count();                                                               \
  }                                                                                       \
  int gnograd_cuda_##name##_##type(GNOGRAD_CUDA_LIST SIZES, __VA_ARGS__, void* workspace, \
                                   size_t workspace_bytes, void* stream) {                \
    (void)cudaGetLastError();                                                             \
    auto run = faces;                                                                     \
    run.workspace = {workspace, workspace_bytes};                                         \
    run.stream = static_cast<cudaStream_t>(stream);                                       \
    return run.call;                                                                      \
  }

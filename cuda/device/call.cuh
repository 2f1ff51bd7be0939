// SPDX-License-Identifier: MIT
// Calls of operators from the C interface. Every operator is one class template over the type T of
// its arrays, an aggregate of what stands first in its C functions, in their order:
//
//     template <class T>
//     struct Operator {
//       const gnograd_cuda_graph* graph;  // if it has one; then sizes and static arguments
//
//       struct Inputs, Outputs, Cotangents, Saved, Gradients;  // pointers in the declared order
//
//       int forward(Inputs, Outputs, Call&) const;
//       int vjp(Cotangents, Inputs, Saved, Gradients, Call&) const;
//       int jvp(Inputs, Inputs tangents, Outputs tangents, Call&) const;
//       int hvp(Cotangents, Inputs, Inputs tangents, Gradients, Call&) const;
//     };
//
// Outputs are followed by what forward saves, null where jvp does not name it; Saved is what vjp
// gets of both, and is left out where that is nothing. tools/interface/cuda.py writes the C
// functions (<source>_entries.cuh) from the operators' declarations and these names.
//
// A face takes all its pieces of the workspace before anything else, and returns
// GNOGRAD_CUDA_WORKSPACE where they do not suffice. Without a workspace it thereby only counts, and
// touches none of its arrays, which are null then.
#pragma once
#include "gnograd_cuda.h"
#include "workspace.cuh"

namespace gnograd {

// Workspace and stream of a face.
struct Call {
  Workspace workspace;
  cudaStream_t stream = nullptr;
};

// An array of the C interface: a pointer to whatever the operator's class has in its place.
struct InputArray {
  const void* memory;
  template <class X>
  operator const X*() const {
    return static_cast<const X*>(memory);
  }
};
struct OutputArray {
  void* memory;
  template <class X>
  operator X*() const {
    return static_cast<X*>(memory);
  }
};
inline InputArray array(const void* memory) { return {memory}; }
inline OutputArray array(void* memory) { return {memory}; }

// The status of a face is the last error of its thread: one that others have left there is not its
// own.
template <class Face>
int run_face(void* workspace, size_t workspace_bytes, void* stream, Face face) {
  (void)cudaGetLastError();
  Call call{{workspace, workspace_bytes}, static_cast<cudaStream_t>(stream)};
  return face(call);
}
template <class Face>
size_t count_workspace(Face face) {
  Call call;
  face(call);
  return call.workspace.bytes();
}

}  // namespace gnograd

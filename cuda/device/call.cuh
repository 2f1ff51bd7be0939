// SPDX-License-Identifier: MIT
// Calls of operators from the C interface. Every operator is one class template over the type T of
// its arrays, with two procedures on the records that tools/interface/cuda.py writes from its
// declaration (records.cuh):
//
//     template <class T>
//     struct Operator : OperatorRecords {  // graph if it has one, sizes, static arguments
//       template <class S>
//       int evaluate(const Inputs<T, S>&, const Outputs<T>&, Call&) const;
//       template <class S>
//       int reverse(const Cotangents<T>&, const Inputs<T, S>&, const Saved<T>&,
//                   const Gradients<T>&, Call&) const;
//     };
//
// S is real<T> for forward and vjp, Dual<real<T>> for jvp and hvp. A null pointer is an absent
// input, a zero tangent or cotangent, a gradient that is not wanted, or an array that is not saved.
// Outputs are followed by what forward saves, null for jvp; Saved is what vjp gets of both, and is
// left out where that is nothing. <source>_entries.cuh has the C functions of the operators whose
// class templates a source has.
//
// A face takes all its pieces of the workspace before anything else, and returns
// GNOGRAD_CUDA_WORKSPACE where they do not suffice. Without a workspace it thereby only counts, and
// touches none of its arrays, which are null then.
#pragma once
#include "gnograd_cuda.h"
#include "numbers.cuh"
#include "records.cuh"
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

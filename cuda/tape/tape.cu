// SPDX-License-Identifier: MIT
// Kernels for arrays of a tape, besides those of operators: elementwise functions, sums, products,
// choices of columns, steps of optimizers. Copies with strides are gnograd_cuda_assign.
#include <limits>

#include "device/call.cuh"
#include "device/gemm.cuh"
#include "tape/columns.cuh"
#include "tape/elementwise.cuh"
#include "tape/optimizer.cuh"
#include "tape/sums.cuh"

namespace gnograd {
namespace {

// Call f with a number of the type that has this code; as a face, with its own errors alone.
template <class F>
int with_real(int type, F f) {
  (void)cudaGetLastError();
  switch (type) {
    case GNOGRAD_CUDA_F32: return f(float());
    case GNOGRAD_CUDA_F64: return f(double());
    default: return GNOGRAD_CUDA_VALUE;
  }
}

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// A product in Fortran's order is, row by row, that of the transposes the other way round.
template <class R>
struct FortranProduct {
  GemmShape shape;
  Gemm<R> gemm;

  FortranProduct(int64_t m, int64_t n, int64_t depth, Workspace& workspace)
      : shape{n, m, depth}, gemm(shape, workspace) {}

  void operator()(bool transpose_a, bool transpose_b, const R* a, const R* b, R* c,
                  cudaStream_t stream) const {
    const auto [n, m, depth, used_m, used_k] = shape;
    const Operand<R> left = transpose_b ? Operand<R>{b, nullptr, 1, n}
                                        : Operand<R>{b, nullptr, depth, 1};
    const Operand<R> right = transpose_a ? Operand<R>{a, nullptr, 1, depth}
                                         : Operand<R>{a, nullptr, m, 1};
    if (depth == 0) set_zero(c, m * n, stream);
    else gemm(false, shape, left, right, c, false, stream);
  }
};

}  // namespace
}  // namespace gnograd

using namespace gnograd;

int gnograd_cuda_tape_fill(int type, int64_t n, double number, void* x, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(n, as_stream(stream), tape_fill<R>, n, R(number), static_cast<R*>(x));
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_unary(int type, int function, double parameter, int64_t n, const void* a,
                            void* c, void* stream) {
  if (function < GNOGRAD_CUDA_NEGATIVE || function > GNOGRAD_CUDA_TANH) return GNOGRAD_CUDA_VALUE;
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(n, as_stream(stream), tape_unary<R>, function, R(parameter), n,
                   static_cast<const R*>(a), static_cast<R*>(c));
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_binary(int type, int function, const int64_t* a_extents,
                             const int64_t* b_extents, const void* a, const void* b, void* c,
                             void* stream) {
  if (function < GNOGRAD_CUDA_ADD || function > GNOGRAD_CUDA_TANH_SLOPE) return GNOGRAD_CUDA_VALUE;
  const Walk walk = walk_of(a_extents, b_extents);
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(walk.size, as_stream(stream), tape_binary<R>, function, walk,
                   static_cast<const R*>(a), static_cast<const R*>(b), static_cast<R*>(c));
    return int(cudaGetLastError());
  });
}

size_t gnograd_cuda_tape_sum_workspace_bytes(int type, const int64_t* x_extents,
                                             const int64_t* y_extents) {
  Workspace workspace;
  with_real(type, [&](auto r) {
    using R = decltype(r);
    sum_axes<R>(x_extents, y_extents, nullptr, nullptr, workspace, nullptr);
    return 0;
  });
  return workspace.bytes();
}

int gnograd_cuda_tape_sum(int type, const int64_t* x_extents, const int64_t* y_extents,
                          const void* x, void* y, void* workspace, size_t workspace_bytes,
                          void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    Workspace given(workspace, workspace_bytes);
    if (!sum_axes(x_extents, y_extents, static_cast<const R*>(x), static_cast<R*>(y), given,
                  as_stream(stream)))
      return int(GNOGRAD_CUDA_WORKSPACE);
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_softmax(int type, int64_t inner, int64_t length, int64_t outer,
                              const void* x, void* y, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    const R least = -std::numeric_limits<R>::max();
    const R* const from = static_cast<const R*>(x);
    R* const to = static_cast<R*>(y);
    if (length == 0) return 0;
    if (inner == 1)
      launch_threads(outer * warp_lanes, as_stream(stream), tape_softmax_by_warp<R>, length, outer,
                     least, from, to);
    else
      launch_threads(inner * outer, as_stream(stream), tape_softmax_by_thread<R>, inner, length,
                     outer, least, from, to);
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_gather(int type, int64_t width, int64_t n, const int64_t* index,
                             const void* x, void* y, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(width * n, as_stream(stream), tape_gather<R>, width, n, index,
                   static_cast<const R*>(x), static_cast<R*>(y));
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_scatter(int type, int64_t width, int64_t n_columns, const int64_t* offsets,
                              const int64_t* places, const void* x, void* y, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(width * n_columns, as_stream(stream), tape_scatter<R>, width, n_columns, offsets,
                   places, static_cast<const R*>(x), static_cast<R*>(y));
    return int(cudaGetLastError());
  });
}

size_t gnograd_cuda_tape_product_workspace_bytes(int type, int64_t m, int64_t n, int64_t depth) {
  Workspace workspace;
  with_real(type, [&](auto r) {
    FortranProduct<decltype(r)>(m, n, depth, workspace);
    return 0;
  });
  return workspace.bytes();
}

int gnograd_cuda_tape_product(int type, int transpose_a, int transpose_b, int64_t m, int64_t n,
                              int64_t depth, const void* a, const void* b, void* c,
                              void* workspace, size_t workspace_bytes, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    Workspace given(workspace, workspace_bytes);
    const FortranProduct<R> product(m, n, depth, given);
    if (!given.sufficient()) return int(GNOGRAD_CUDA_WORKSPACE);
    product(transpose_a != 0, transpose_b != 0, static_cast<const R*>(a), static_cast<const R*>(b),
            static_cast<R*>(c), as_stream(stream));
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_adam(int type, int64_t n, double beta1, double beta2, double eps,
                           double decay, double rate, double root, double keep, const void* grad,
                           void* m, void* v, void* x, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    const Adam<R> adam{R(beta1), R(beta2), R(eps), R(decay), R(rate), R(root), R(keep)};
    launch_threads(n, as_stream(stream), tape_adam<R>, adam, n, static_cast<const R*>(grad),
                   static_cast<R*>(m), static_cast<R*>(v), static_cast<R*>(x));
    return int(cudaGetLastError());
  });
}

int gnograd_cuda_tape_descend(int type, int64_t n, double momentum, double rate, const void* grad,
                              void* m, void* x, void* stream) {
  return with_real(type, [&](auto r) {
    using R = decltype(r);
    launch_threads(n, as_stream(stream), tape_descend<R>, R(momentum), R(rate), n,
                   static_cast<const R*>(grad), static_cast<R*>(m), static_cast<R*>(x));
    return int(cudaGetLastError());
  });
}

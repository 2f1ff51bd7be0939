// SPDX-License-Identifier: MIT
// The graph neural operator, from the coordinates of the edges (gno) or from the last hidden
// features of any kernel network (gno_contract):
//
//     out_i = s_i sum over e = (j -> i) of w_e h_j . kappa_e,     kappa_e = hid_e . V + b_v
#include "device/face.cuh"
#include "gno_diagonal.cuh"
#include "gno_full.cuh"

namespace gnograd {
namespace {

// The inputs of one call as they cross the C ABI, or their tangents.
struct Arrays {
  const void *h = nullptr, *coords = nullptr, *u = nullptr, *b_u = nullptr, *v = nullptr,
             *b_v = nullptr, *weight = nullptr, *hid = nullptr;
};

template <class R>
struct Faces {
  const gnograd_cuda_graph* graph;
  bool contract;  // from hid
  int64_t d, n_hidden, f_in, f_out;
  int activation, reduction, kernel;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  template <class S>
  GnoProblem<R, S> problem(const Arrays& values, const Arrays& tangents = {}) {
    const auto input = make_input<R, S>;
    return {*graph,
            f_in,
            f_out,
            reduction,
            kernel,
            {input(values.coords, tangents.coords), input(values.u, tangents.u),
             input(values.b_u, tangents.b_u), input(values.hid, tangents.hid), contract, int(d),
             int(n_hidden), activation},
            input(values.h, tangents.h),
            input(values.v, tangents.v),
            input(values.b_v, tangents.b_v),
            input(values.weight, tangents.weight)};
  }

  // f(the sum in the form that the kernel asks for)
  template <class S, class F>
  int with_sum(const GnoProblem<R, S>& problem, F f) {
    if (!problem.valid()) return GNOGRAD_CUDA_VALUE;
    return kernel == kernel_diagonal ? f(DiagonalSum<R, S>{problem, workspace, stream})
                                     : f(FullSum<R, S>{problem, workspace, stream});
  }
  template <class S>
  int value(const GnoProblem<R, S>& problem, void* out) {
    return with_sum(problem, [&](const auto& sum) { return sum.forward(static_cast<R*>(out)); });
  }
  template <class S>
  int gradients(const GnoProblem<R, S>& problem, const void* cotangent,
                const GnoGradients<R>& grad) {
    return with_sum(problem, [&](const auto& sum) {
      return sum.gradients(static_cast<const R*>(cotangent), grad);
    });
  }

  int forward(const Arrays& in, void* out) { return value(problem<R>(in), out); }
  int vjp(const void* cotangent, const Arrays& in, const GnoGradients<R>& grad) {
    return gradients(problem<R>(in), cotangent, grad);
  }
  int jvp(const Arrays& in, const Arrays& tangents, void* out) {
    return value(problem<Dual<R>>(in, tangents), out);
  }
  int hvp(const void* cotangent, const Arrays& in, const Arrays& tangents,
          const GnoGradients<R>& grad) {
    return gradients(problem<Dual<R>>(in, tangents), cotangent, grad);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() { return forward({}, nullptr), workspace.bytes(); }
  size_t vjp_bytes() { return vjp(nullptr, {}, {}), workspace.bytes(); }
  size_t jvp_bytes() { return jvp({}, {}, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, {}, {}, {}), workspace.bytes(); }
};

template <class R>
GnoGradients<R> gno_gradients(void* h, void* coords, void* u, void* b_u, void* v, void* b_v,
                              void* weight) {
  return {
      static_cast<R*>(h), static_cast<R*>(coords), static_cast<R*>(u),      static_cast<R*>(b_u),
      static_cast<R*>(v), static_cast<R*>(b_v),    static_cast<R*>(weight), nullptr};
}
template <class R>
GnoGradients<R> contract_gradients(void* h, void* hid, void* v, void* b_v, void* weight) {
  return {static_cast<R*>(h),
          nullptr,
          nullptr,
          nullptr,
          static_cast<R*>(v),
          static_cast<R*>(b_v),
          static_cast<R*>(weight),
          static_cast<R*>(hid)};
}

}  // namespace
}  // namespace gnograd

using namespace gnograd;

#define SUM_OF_GNO(R) \
  (Faces<R>{graph, false, d, n_hidden, f_in, f_out, activation, reduction, kernel})
#define SUM_OF_CONTRACT(R) \
  (Faces<R>{graph, true, 0, n_hidden, f_in, f_out, act_identity, reduction, kernel})

#define GNO_INPUTS                                                                  \
  const void *h, const void *coords, const void *u, const void *b_u, const void *v, \
      const void *b_v, const void *edge_weight
#define GNO_TANGENTS                                                           \
  const void *h_tangent, const void *coords_tangent, const void *u_tangent,    \
      const void *b_u_tangent, const void *v_tangent, const void *b_v_tangent, \
      const void *edge_weight_tangent
#define GNO_GRADIENTS                                                                          \
  void *grad_h, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v, \
      void *grad_edge_weight
#define GNO_IN {h, coords, u, b_u, v, b_v, edge_weight}
#define GNO_ALONG \
  {h_tangent, coords_tangent, u_tangent, b_u_tangent, v_tangent, b_v_tangent, edge_weight_tangent}
#define GNO_GRAD(R) \
  gno_gradients<R>(grad_h, grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, grad_edge_weight)

#define CONTRACT_INPUTS \
  const void *h, const void *hid, const void *v, const void *b_v, const void *edge_weight
#define CONTRACT_TANGENTS                                                                         \
  const void *h_tangent, const void *hid_tangent, const void *v_tangent, const void *b_v_tangent, \
      const void *edge_weight_tangent
#define CONTRACT_GRADIENTS \
  void *grad_h, void *grad_hid, void *grad_v, void *grad_b_v, void *grad_edge_weight
#define CONTRACT_IN {h, nullptr, nullptr, nullptr, v, b_v, edge_weight, hid}
#define CONTRACT_ALONG \
  {h_tangent, nullptr, nullptr, nullptr, v_tangent, b_v_tangent, edge_weight_tangent, hid_tangent}
#define CONTRACT_GRAD(R) contract_gradients<R>(grad_h, grad_hid, grad_v, grad_b_v, grad_edge_weight)

#define FOUR_FACES(name, type, R, SIZES, NAME)                                                 \
  DEFINE_FACE(name##_forward, type, SIZES, SUM_OF_##NAME(R), forward_bytes,                    \
              forward(NAME##_IN, out), NAME##_INPUTS, void* out)                               \
  DEFINE_FACE(name##_vjp, type, SIZES, SUM_OF_##NAME(R), vjp_bytes,                            \
              vjp(cotangent, NAME##_IN, NAME##_GRAD(R)), const void* cotangent, NAME##_INPUTS, \
              NAME##_GRADIENTS)                                                                \
  DEFINE_FACE(name##_jvp, type, SIZES, SUM_OF_##NAME(R), jvp_bytes,                            \
              jvp(NAME##_IN, NAME##_ALONG, out_tangent), NAME##_INPUTS, NAME##_TANGENTS,       \
              void* out_tangent)                                                               \
  DEFINE_FACE(name##_hvp, type, SIZES, SUM_OF_##NAME(R), hvp_bytes,                            \
              hvp(cotangent, NAME##_IN, NAME##_ALONG, NAME##_GRAD(R)), const void* cotangent,  \
              NAME##_INPUTS, NAME##_TANGENTS, NAME##_GRADIENTS)
#define GNO(type, R)                              \
  FOUR_FACES(gno, type, R, GNOGRAD_CUDA_GNO, GNO) \
  FOUR_FACES(gno_contract, type, R, GNOGRAD_CUDA_GNO_CONTRACT, CONTRACT)
GNO(f32, float)
GNO(f64, double)

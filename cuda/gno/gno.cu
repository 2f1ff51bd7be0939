// SPDX-License-Identifier: MIT
// The graph neural operator, from the coordinates of the edges (gno) or from the last hidden
// features of any kernel network (gno_contract):
//
//     out_i = s_i sum over e = (j -> i) of w_e h_j . kappa_e,     kappa_e = hid_e . V + b_v
#include "device/call.cuh"
#include "gno_batch.cuh"
#include "gno_diagonal.cuh"
#include "gno_full.cuh"

namespace gnograd {
namespace {

// f(the sum in the form that the kernel asks for)
template <class T, class S, class F>
int with_gno_sum(const GnoProblem<T, S>& problem, Call& call, F f) {
  if (!problem.valid()) return GNOGRAD_CUDA_VALUE;
  if (problem.kernel == kernel_diagonal)
    return f(GnoDiagonalSum<T, S>{problem, call.workspace, call.stream});
  return f(GnoFullSum<T, S>{problem, call.workspace, call.stream});
}
template <class T, class S>
int gno_forward(GnoProblem<T, S> problem, T* out, Call& call) {
  if (problem.n_batch == 0) return cudaGetLastError();
  const Batch batch{problem.n_batch, call.workspace, call.stream};
  problem.h = batch.interleave(problem.h, problem.graph.n_src, problem.f_in);
  T* interleaved = batch.allocate(out, problem.graph.n_dst, problem.f_out);
  const int status =
      with_gno_sum(problem, call, [&](const auto& sum) { return sum.forward(interleaved); });
  if (status) return status;
  batch.separate(interleaved, out, problem.graph.n_dst, problem.f_out);
  return cudaGetLastError();
}

// Clear the gradients that a batch shares: without functions they are zero.
template <class T, class S>
int clear_gradients(const GnoProblem<T, S>& problem, const GnoGradients<T>& grad,
                    cudaStream_t stream) {
  const int64_t n_edges = problem.graph.n_edges, d = problem.network.d;
  const int64_t n_hidden = problem.network.n_hidden;
  const int64_t kappa = problem.f_out * (problem.kernel == kernel_full ? problem.f_in : 1);
  const auto clear = [&](auto* x, int64_t n) {
    if (x) set_zero(x, n, stream);
  };
  clear(grad.coords, n_edges * d);
  clear(grad.u, d * n_hidden);
  clear(grad.b_u, n_hidden);
  clear(grad.v, n_hidden * kappa);
  clear(grad.b_v, kappa);
  clear(grad.edge_weight, n_edges);
  clear(grad.hid, n_edges * n_hidden);
  return cudaGetLastError();
}
template <class T, class S>
int gno_gradients(GnoProblem<T, S> problem, const T* cotangent, GnoGradients<T> grad, Call& call) {
  if (problem.n_batch == 0) return clear_gradients(problem, grad, call.stream);
  const Batch batch{problem.n_batch, call.workspace, call.stream};
  T* const to_h = grad.h;
  problem.h = batch.interleave(problem.h, problem.graph.n_src, problem.f_in);
  cotangent = batch.interleave(cotangent, problem.graph.n_dst, problem.f_out);
  grad.h = batch.allocate(to_h, problem.graph.n_src, problem.f_in);
  const int status =
      with_gno_sum(problem, call, [&](const auto& sum) { return sum.gradients(cotangent, grad); });
  if (status) return status;
  batch.separate(grad.h, to_h, problem.graph.n_src, problem.f_in);
  return cudaGetLastError();
}

// Sizes and inputs of an operator, with the network that its edges have.
template <class T, class S, class Op, class In>
GnoProblem<T, S> gno_problem(const Op& op, const EdgeNetwork<T, S>& network, const In& in) {
  return {*op.graph, op.n_batch, op.f_in, op.f_out, op.reduction, op.kernel,
          network,   in.h,       in.v,    in.b_v,   in.edge_weight};
}

template <class T>
struct Gno : GnoRecords {
  template <class S>
  GnoProblem<T, S> problem(const Inputs<T, S>& in) const {
    return gno_problem<T, S>(
        *this, {in.coords, in.u, in.b_u, {}, false, int(d), int(n_hidden), activation}, in);
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return gno_forward(problem(in), out.out, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return gno_gradients<T>(
        problem(in), g.out,
        {grad.h, grad.coords, grad.u, grad.b_u, grad.v, grad.b_v, grad.edge_weight, nullptr}, call);
  }
};

template <class T>
struct GnoContract : GnoContractRecords {
  template <class S>
  GnoProblem<T, S> problem(const Inputs<T, S>& in) const {
    return gno_problem<T, S>(*this, {{}, {}, {}, in.hid, true, 0, int(n_hidden), act_identity}, in);
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return gno_forward(problem(in), out.out, call);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return gno_gradients<T>(
        problem(in), g.out,
        {grad.h, nullptr, nullptr, nullptr, grad.v, grad.b_v, grad.edge_weight, grad.hid}, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_entries.cuh"

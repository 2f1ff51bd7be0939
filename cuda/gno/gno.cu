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

template <class T>
struct Gno {
  const gnograd_cuda_graph* graph;
  int64_t n_batch, d, n_hidden, f_in, f_out;
  int activation, reduction, kernel;

  struct Inputs {
    const T* h;                  // [n_batch, n_src, f_in], or null: ones, diagonal only
    const real<T>* coords;       // [n_edges, d]
    const T* u;                  // [d, n_hidden]
    const T* b_u;                // [n_hidden]
    const T* v;                  // [n_hidden, f_in, f_out]; diagonal: [n_hidden, f_out]
    const T* b_v;                // [f_in, f_out]; diagonal: [f_out]
    const real<T>* edge_weight;  // [n_edges], or null: 1
  };
  struct Outputs {
    T* out;  // [n_batch, n_dst, f_out]
  };
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T* h;  // shaped as the inputs, or null
    real<T>* coords;
    T *u, *b_u, *v, *b_v;
    real<T>* edge_weight;
    operator GnoGradients<T>() const { return {h, coords, u, b_u, v, b_v, edge_weight, nullptr}; }
  };

  template <class S>
  GnoProblem<T, S> problem(const Inputs& in, const Inputs& tangents) const {
    return {*graph,
            n_batch,
            f_in,
            f_out,
            reduction,
            kernel,
            {{in.coords, tangents.coords},
             {in.u, tangents.u},
             {in.b_u, tangents.b_u},
             {},
             false,
             int(d),
             int(n_hidden),
             activation},
            {in.h, tangents.h},
            {in.v, tangents.v},
            {in.b_v, tangents.b_v},
            {in.edge_weight, tangents.edge_weight}};
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return gno_forward(problem<real<T>>(in, {}), out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gno_gradients<T>(problem<real<T>>(in, {}), g.out, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return gno_forward(problem<Dual<real<T>>>(in, tangents), out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gno_gradients<T>(problem<Dual<real<T>>>(in, tangents), g.out, grad, call);
  }
};

template <class T>
struct GnoContract {
  const gnograd_cuda_graph* graph;
  int64_t n_batch, n_hidden, f_in, f_out;
  int reduction, kernel;

  struct Inputs {
    const T* h;                  // [n_batch, n_src, f_in], or null: ones, diagonal only
    const T* hid;                // [n_edges, n_hidden]
    const T* v;                  // [n_hidden, f_in, f_out]; diagonal: [n_hidden, f_out]
    const T* b_v;                // [f_in, f_out]; diagonal: [f_out]
    const real<T>* edge_weight;  // [n_edges], or null: 1
  };
  using Outputs = typename Gno<T>::Outputs;
  using Cotangents = typename Gno<T>::Cotangents;
  struct Gradients {
    T *h, *hid, *v, *b_v;  // shaped as the inputs, or null
    real<T>* edge_weight;
    operator GnoGradients<T>() const {
      return {h, nullptr, nullptr, nullptr, v, b_v, edge_weight, hid};
    }
  };

  template <class S>
  GnoProblem<T, S> problem(const Inputs& in, const Inputs& tangents) const {
    return {*graph,
            n_batch,
            f_in,
            f_out,
            reduction,
            kernel,
            {{}, {}, {}, {in.hid, tangents.hid}, true, 0, int(n_hidden), act_identity},
            {in.h, tangents.h},
            {in.v, tangents.v},
            {in.b_v, tangents.b_v},
            {in.edge_weight, tangents.edge_weight}};
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return gno_forward(problem<real<T>>(in, {}), out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gno_gradients<T>(problem<real<T>>(in, {}), g.out, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return gno_forward(problem<Dual<real<T>>>(in, tangents), out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gno_gradients<T>(problem<Dual<real<T>>>(in, tangents), g.out, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_entries.cuh"

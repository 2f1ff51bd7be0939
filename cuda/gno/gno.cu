// SPDX-License-Identifier: MIT
// The graph neural operator, from the coordinates of the edges (gno) or from the last hidden
// features of any kernel network (gno_contract):
//
//     out_i = s_i sum over e = (j -> i) of w_e h_j . kappa_e,     kappa_e = hid_e . V + b_v
#include "device/call.cuh"
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
int gno_forward(const GnoProblem<T, S>& problem, T* out, Call& call) {
  return with_gno_sum(problem, call, [&](const auto& sum) { return sum.forward(out); });
}
template <class T, class S>
int gno_gradients(const GnoProblem<T, S>& problem, const T* cotangent, const GnoGradients<T>& grad,
                  Call& call) {
  return with_gno_sum(problem, call,
                      [&](const auto& sum) { return sum.gradients(cotangent, grad); });
}

template <class T>
struct Gno {
  const gnograd_cuda_graph* graph;
  int64_t d, n_hidden, f_in, f_out;
  int activation, reduction, kernel;

  struct Inputs {
    const T* h;            // [n_src, f_in], or null: ones, diagonal only
    const T* coords;       // [n_edges, d]
    const T* u;            // [d, n_hidden]
    const T* b_u;          // [n_hidden]
    const T* v;            // [n_hidden, f_in, f_out]; diagonal: [n_hidden, f_out]
    const T* b_v;          // [f_in, f_out]; diagonal: [f_out]
    const T* edge_weight;  // [n_edges], or null: 1
  };
  struct Outputs {
    T* out;  // [n_dst, f_out]
  };
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *h, *coords, *u, *b_u, *v, *b_v, *edge_weight;  // as the inputs, or null
    operator GnoGradients<T>() const { return {h, coords, u, b_u, v, b_v, edge_weight, nullptr}; }
  };

  template <class S>
  GnoProblem<T, S> problem(const Inputs& in, const Inputs& tangents) const {
    return {*graph,
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
    return gno_forward(problem<T>(in, {}), out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gno_gradients<T>(problem<T>(in, {}), g.out, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return gno_forward(problem<Dual<T>>(in, tangents), out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gno_gradients<T>(problem<Dual<T>>(in, tangents), g.out, grad, call);
  }
};

template <class T>
struct GnoContract {
  const gnograd_cuda_graph* graph;
  int64_t n_hidden, f_in, f_out;
  int reduction, kernel;

  struct Inputs {
    const T* h;            // [n_src, f_in], or null: ones, diagonal only
    const T* hid;          // [n_edges, n_hidden]
    const T* v;            // [n_hidden, f_in, f_out]; diagonal: [n_hidden, f_out]
    const T* b_v;          // [f_in, f_out]; diagonal: [f_out]
    const T* edge_weight;  // [n_edges], or null: 1
  };
  using Outputs = typename Gno<T>::Outputs;
  using Cotangents = typename Gno<T>::Cotangents;
  struct Gradients {
    T *h, *hid, *v, *b_v, *edge_weight;  // as the inputs, or null
    operator GnoGradients<T>() const {
      return {h, nullptr, nullptr, nullptr, v, b_v, edge_weight, hid};
    }
  };

  template <class S>
  GnoProblem<T, S> problem(const Inputs& in, const Inputs& tangents) const {
    return {*graph,
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
    return gno_forward(problem<T>(in, {}), out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gno_gradients<T>(problem<T>(in, {}), g.out, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return gno_forward(problem<Dual<T>>(in, tangents), out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gno_gradients<T>(problem<Dual<T>>(in, tangents), g.out, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_entries.cuh"

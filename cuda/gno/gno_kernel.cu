// SPDX-License-Identifier: MIT
// Kernel matrices of edges, kappa_e = act(U^T c_e + b_u) . V + b_v, in tiles of edges: products of
// their hidden features with the last layer.
#include "device/face.cuh"
#include "gno_network.cuh"

namespace gnograd {
namespace {

template <class R>
struct Gradients {
  R *coords, *u, *b_u, *v, *b_v;
};

template <class R, class S>
struct KernelMatrices {
  static constexpr bool dual = ScalarTraits<S>::dual;

  int64_t n_edges;
  Hidden<R, S> network;
  int64_t size;  // of kappa
  Input<R, S> v, b_v;
  Workspace& workspace;
  cudaStream_t stream;

  LayerOrder order() const { return {1, size, 0, 1}; }
  int64_t features() const { return network.size(); }
  bool valid() const {
    return n_edges >= 0 && network.d >= 0 && network.n_hidden >= 1 && size >= 1 &&
           network.activation >= 0 && network.activation < n_activations;
  }
  int forward(R* kappa) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const EdgeTile<R, S> tile(network, n_edges, size, workspace, stream);
    const Planes<S> layer(features() * size, workspace);
    const Product<R> product({tile.length, size, features()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack_layer(order(), network.n_hidden, v, b_v, layer, stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      tile.load(nullptr, first, n);
      product(dual, {n, size, features()}, tile.hidden.rows(features()), layer.rows(size),
              kappa + first * size, false, stream);
    });
    return cudaGetLastError();
  }

  int gradients(const R* cotangent, const Gradients<R>& grad) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    EdgeTile<R, S> tile(network, n_edges, size, workspace, stream);
    const Planes<S> layer(features() * size, workspace);
    R* grad_layer = workspace.take<R>(features() * size);
    const Product<R> to_layer({features(), size, tile.length}, workspace);
    const Product<R> to_hidden({tile.length, features(), size}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    if (want_first || grad.coords) pack_layer(order(), network.n_hidden, v, b_v, layer, stream);
    if (want_last) set_zero(grad_layer, features() * size, stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      const Operand<R> g{cotangent + first * size, nullptr, size, 1};
      if (want_last) {
        tile.load(nullptr, first, n);
        to_layer(dual, {features(), size, n}, tile.hidden.rows(features()).transposed(), g,
                 grad_layer, true, stream);
      }
      if (!want_first && !grad.coords) return;
      const Operand<R> to = layer.rows(size).transposed();
      multiply_planes(to_hidden, {n, features(), size}, g, to, tile.grad, stream);
      tile.reverse(nullptr, first, n, grad.coords, nullptr, want_first);
    });
    if (want_last) unpack_layer(order(), network.n_hidden, grad_layer, grad.v, grad.b_v, stream);
    tile.finish(grad.u, grad.b_u);
    return cudaGetLastError();
  }
};

// ---- the four faces ----

// The inputs of one call as they cross the C ABI, or their tangents.
struct Arrays {
  const void *coords, *u, *b_u, *v, *b_v;
};

template <class R>
struct Faces {
  int64_t n_edges, d, n_hidden, f_in, f_out;
  int activation;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  template <class S>
  KernelMatrices<R, S> of(const Arrays& values, const Arrays& tangents = {}) {
    const auto input = make_input<R, S>;
    return {n_edges,
            {input(values.coords, tangents.coords),
             input(values.u, tangents.u),
             input(values.b_u, tangents.b_u),
             {},
             false,
             int(d),
             int(n_hidden),
             activation},
            f_in * f_out,
            input(values.v, tangents.v),
            input(values.b_v, tangents.b_v),
            workspace,
            stream};
  }
  static Gradients<R> typed(void* coords, void* u, void* b_u, void* v, void* b_v) {
    return {static_cast<R*>(coords), static_cast<R*>(u), static_cast<R*>(b_u), static_cast<R*>(v),
            static_cast<R*>(b_v)};
  }

  int forward(const Arrays& in, void* kappa) { return of<R>(in).forward(static_cast<R*>(kappa)); }
  int vjp(const void* cotangent, const Arrays& in, const Gradients<R>& grad) {
    return of<R>(in).gradients(static_cast<const R*>(cotangent), grad);
  }
  int jvp(const Arrays& in, const Arrays& tangents, void* kappa) {
    return of<Dual<R>>(in, tangents).forward(static_cast<R*>(kappa));
  }
  int hvp(const void* cotangent, const Arrays& in, const Arrays& tangents,
          const Gradients<R>& grad) {
    return of<Dual<R>>(in, tangents).gradients(static_cast<const R*>(cotangent), grad);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() { return forward({}, nullptr), workspace.bytes(); }
  size_t vjp_bytes() { return vjp(nullptr, {}, {}), workspace.bytes(); }
  size_t jvp_bytes() { return jvp({}, {}, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, {}, {}, {}), workspace.bytes(); }
};

}  // namespace
}  // namespace gnograd

using namespace gnograd;

#define FACE(face, type, R, ...)                                \
  DEFINE_FACE(gno_kernel_##face, type, GNOGRAD_CUDA_GNO_KERNEL, \
              (Faces<R>{n_edges, d, n_hidden, f_in, f_out, activation}), face##_bytes, __VA_ARGS__)
#define INPUTS const void *coords, const void *u, const void *b_u, const void *v, const void *b_v
#define TANGENTS                                                              \
  const void *coords_tangent, const void *u_tangent, const void *b_u_tangent, \
      const void *v_tangent, const void *b_v_tangent
#define GNO_KERNEL(type, R)                                                                       \
  FACE(forward, type, R, forward({coords, u, b_u, v, b_v}, kappa), INPUTS, void* kappa)           \
  FACE(vjp, type, R,                                                                              \
       vjp(cotangent, {coords, u, b_u, v, b_v},                                                   \
           Faces<R>::typed(grad_coords, grad_u, grad_b_u, grad_v, grad_b_v)),                     \
       const void* cotangent, INPUTS, void* grad_coords, void* grad_u, void* grad_b_u,            \
       void* grad_v, void* grad_b_v)                                                              \
  FACE(jvp, type, R,                                                                              \
       jvp({coords, u, b_u, v, b_v},                                                              \
           {coords_tangent, u_tangent, b_u_tangent, v_tangent, b_v_tangent}, kappa_tangent),      \
       INPUTS, TANGENTS, void* kappa_tangent)                                                     \
  FACE(hvp, type, R,                                                                              \
       hvp(cotangent, {coords, u, b_u, v, b_v},                                                   \
           {coords_tangent, u_tangent, b_u_tangent, v_tangent, b_v_tangent},                      \
           Faces<R>::typed(grad_coords_tangent, grad_u_tangent, grad_b_u_tangent, grad_v_tangent, \
                           grad_b_v_tangent)),                                                    \
       const void* cotangent, INPUTS, TANGENTS, void* grad_coords_tangent, void* grad_u_tangent,  \
       void* grad_b_u_tangent, void* grad_v_tangent, void* grad_b_v_tangent)
GNO_KERNEL(f32, float)
GNO_KERNEL(f64, double)

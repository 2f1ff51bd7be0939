// SPDX-License-Identifier: MIT
// Kernel matrices of edges, kappa_e = act(U^T c_e + b_u) . V + b_v, in tiles of edges: products of
// their hidden features, which are stored as T, with the last layer.
#include "device/call.cuh"
#include "gno_network.cuh"

namespace gnograd {
namespace {

template <class T, class S>
struct GnoKernelMatrices {
  static constexpr bool dual = ScalarTraits<S>::dual;

  int64_t n_edges;
  EdgeNetwork<T, S> network;
  int64_t size;  // numbers of kappa
  Input<T, S> v, b_v;
  Workspace& workspace;
  cudaStream_t stream;

  LayerOrder order() const { return {1, size, 0, 1}; }
  int64_t features() const { return network.size(); }
  bool valid() const {
    return n_edges >= 0 && network.d >= 0 && network.n_hidden >= 1 && size >= 1 &&
           network.activation >= 0 && network.activation < n_activations;
  }
  int forward(T* kappa) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const EdgeTile<T, S> tile(network, n_edges, size, workspace, stream);
    const Planes<S, T> layer(features() * size, workspace);
    const Gemm<T> to_kappa({tile.length, size, features()}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    pack_layer(order(), network.n_hidden, v, b_v, layer, stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      tile.load(TilePositions(first), n);
      to_kappa(dual, {n, size, features()}, tile.hidden.rows(features()), layer.rows(size),
               kappa + first * size, false, stream);
    });
    return cudaGetLastError();
  }

  int gradients(const T* cotangent, const GnoKernelRecords::Gradients<T>& grad) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    EdgeTile<T, S> tile(network, n_edges, size, workspace, stream);
    const Planes<S, T> layer(features() * size, workspace);
    GemmSum<T> to_layer({features(), size, tile.length}, workspace);
    const Gemm<T> to_hidden({tile.length, network.n_hidden, size}, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;

    const bool want_last = grad.v || grad.b_v, want_first = grad.u || grad.b_u;
    if (want_first || grad.coords) pack_layer(order(), network.n_hidden, v, b_v, layer, stream);
    tile.for_tiles([&](int64_t first, int64_t n) {
      const Operand<T> g{cotangent + first * size, nullptr, size, 1};
      if (want_last) {
        tile.load(TilePositions(first), n);
        to_layer.add(dual, n, tile.hidden.rows(features()).transposed(), g, stream);
      }
      if (!want_first && !grad.coords) return;
      const Operand<T> to = layer.rows(size).transposed();
      gemm_planes(to_hidden, {n, network.n_hidden, size}, g, to, tile.grad, stream);
      tile.reverse(TilePositions(first), n, grad.coords, nullptr, want_first);
    });
    if (want_last) unpack_layer(order(), network.n_hidden, to_layer, grad.v, grad.b_v, stream);
    tile.finish(grad.u, grad.b_u);
    return cudaGetLastError();
  }
};

// ---- the operator ----

template <class T>
struct GnoKernel : GnoKernelRecords {
  template <class S>
  GnoKernelMatrices<T, S> matrices(const Inputs<T, S>& in, Call& call) const {
    return {n_edges,      {in.coords, in.u, in.b_u, {}, false, int(d), int(n_hidden), activation},
            f_in * f_out, in.v,
            in.b_v,       call.workspace,
            call.stream};
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return matrices(in, call).forward(out.kappa);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return matrices(in, call).gradients(g.kappa, grad);
  }
};

}  // namespace
}  // namespace gnograd

#include "gno_kernel_entries.cuh"

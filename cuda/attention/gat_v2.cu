// SPDX-License-Identifier: MIT
// Graph attention with the activation inside (GATv2), mha_gat_v2: for an edge p = (j -> i) and
// every head
//
//     u_p = x_src_j + x_dst_i (+ e_p),   t_p = act(u_p),   score a . t_p,   value x_src_j
//
// With gu_p = gs_p a o act'(u_p),
//
//     grad x_src_j = sum of alpha_p g_i + gu_p     grad x_dst_i = sum of gu_p
//     grad e_p     = gu_p                          grad a       = sum of gs_p t_p
#include "attention_faces.cuh"
#include "device/sums.cuh"

namespace gnograd {
namespace {

template <class T_, class S_>
struct GatV2 {
  using T = T_;
  using S = S_;
  using Row = Vector<S, width<T>>;

  Features<T, S> x, x_dst, e, a;
  Features<T, S> saved;  // t by position, [n_edges, heads, size], instead of x_dst and e; or null
  ScoreActivation<real<T>> act;
  Gradient<T> grad_src = {}, grad_dst = {}, grad_e = {};
  S* unit_sums = nullptr;  // [n_units, heads, size] sums of gs_p t_p, for a; or null

  struct Score {
    S s;
  };
  __device__ Row sum(const Edge& p, const Place& at, int c) const {
    Row u = x.load(p.src, at.head, c);
    u.add(x_dst.load(p.dst, at.head, c));
    if (e) u.add(e.load(p.row, at.head, c));
    return u;
  }
  __device__ Row activated(const Edge& p, const Place& at, int c) const {
    if (saved) return saved.load(p.position, at.head, c);
    Row t = sum(p, at, c);
    for (int v = 0; v < width<T>; ++v) t[v] = act(t[v]);
    return t;
  }
  __device__ Score score(const Edge& p, const Place& at) const {
    return {sum_over_head<S>(x.heads, at, [&](int c) {
      return inner<S>(a.load(0, at.head, c), activated(p, at, c));
    })};
  }
  __device__ Row value(const Edge& p, const Place& at, int c) const {
    return x.load(p.src, at.head, c);
  }

  using RowSums = NoRowSums;

  // The gradient of u, for this lane's features.
  __device__ Row grad_sum(const Edge& p, const Place& at, S gs) const {
    const int c = at.column();
    Row g = a.load(0, at.head, c);
    if (saved) {
      const Row t = saved.load(p.position, at.head, c);
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * derivative_from(act, t[v]);
    } else {
      const Row u = sum(p, at, c);
      for (int v = 0; v < width<T>; ++v) g[v] = gs * g[v] * act.derivative(u[v]);
    }
    return g;
  }

  __host__ __device__ const Heads& edge_heads() const { return x.heads; }
  using DestinationSum = Row;
  using UnitSum = Row;
  __device__ void to_destination(Row& sum_i, Row& unit, const Edge& p, const Place& at,
                                 const Score&, S, S gs, const Cotangent<T>&) const {
    const int c = at.column();
    if (c >= x.heads.size) return;
    const Row g = grad_sum(p, at, gs);
    sum_i.add(g);
    if (unit_sums) unit.add(gs, activated(p, at, c));
    grad_e.store(x.heads, p.row, at, g);
  }
  __device__ void finish_destination(const Row& sum_i, int64_t i, const Place& at) const {
    grad_dst.store(x.heads, i, at, sum_i);
  }

  struct SourceSum {
    Row x;
    __device__ void merge(const SourceSum& more) { x.add(more.x); }
  };
  __device__ void to_source(SourceSum& sum_j, const Edge& p, const Place& at, const Score&, S alpha,
                            S gs, const Cotangent<T>& g) const {
    const int c = at.column();
    if (c >= x.heads.size) return;
    sum_j.x.add(alpha, g.load(p.dst, at.head, c));
    sum_j.x.add(grad_sum(p, at, gs));
  }
  __device__ void finish_source(const SourceSum& sum_j, int64_t j, const Place& at) const {
    grad_src.store(x.heads, j, at, sum_j.x);
  }
};

// What goes into the scores, for callers that keep it: t by position.
template <class T, class S>
struct WriteActivated {
  static constexpr int step = width<T>, unroll = attention_unroll<S, step>;
  using Partial = Nothing;
  using Total = Nothing;

  Csc graph;
  Heads heads;
  GatV2<T, S> model;
  Gradient<T> out;  // [n_edges, heads, size]

  __host__ __device__ int tiles() const { return heads.tiles; }

  __device__ void edge(Partial&, Total&, const Place& at, int64_t i, int64_t k) const {
    if (const int c = at.column(); c < heads.size)
      out.store(heads, k, at, model.activated(edge_to(graph, i, k), at, c));
  }
};

template <class T, class S>
struct GatV2Setup : AttentionSetup<T, S> {
  using Call = AttentionCall<T, S>;
  GatV2<T, S> model;
  FoldSpace<S> fold;
  T* grad_a = nullptr;

  GatV2Setup(Call& call, bool gradients, int64_t n_units) {
    const Heads heads = call.heads();
    const auto& [source, destination, a, e] = call.in;
    model = {{source, heads}, {destination, heads},           {e, heads},
             {a, heads},      {{call.saved, nullptr}, heads}, call.activation()};
    if (!gradients) return;
    model.unit_sums = call.workspace.template take<S>(n_units * heads.row());
    fold = FoldSpace<S>(n_units, heads.row(), call.workspace);
    model.grad_src = {call.grad[0]};
    model.grad_dst = {call.grad[1]};
    grad_a = call.grad[2];
    model.grad_e = {call.grad[3]};
    if (!grad_a) model.unit_sums = nullptr;
  }
  bool by_destination() const { return model.grad_dst || grad_a || model.grad_e; }
  bool by_source() const { return bool(model.grad_src); }

  void save(const Call& call, const Csc& rows, const Cut& cut) const {
    if (call.activated)
      for_rows(WriteActivated<T, S>{rows, model.x.heads, model, {call.activated}}, cut, nullptr,
               call.stream);
  }
  void sum_weights(const Call& call, int64_t n_units) const {
    const int64_t d = model.x.heads.row();
    if (grad_a)
      sum_rows(Plain<S>{model.unit_sums, d}, n_units, d, fold, grad_a, call.stream);
  }
};

}  // namespace
}  // namespace gnograd

using namespace gnograd;

// out, lse and softmax_scores are taken, but not read
#define MHA_GAT_V2(type, T)                                                                       \
  ATTENTION_FACES(                                                                                \
      mha_gat_v2, type, GNOGRAD_CUDA_MHA_GAT_V2,                                                  \
      (AttentionFaces<GatV2Setup, T>{                                                             \
          graph, {n_heads, n_channels, 0, concat_heads != 0, activation, negative_slope}}),       \
      GNOGRAD_CUDA_WRITTEN_V2,                                                                    \
      (const void*, const void*, const void*, const void* activation_scores),                     \
      activation_scores, x_src, x_dst, a, e)
MHA_GAT_V2(f32, float)
MHA_GAT_V2(f64, double)
MHA_GAT_V2(f16, __half)
MHA_GAT_V2(bf16, __nv_bfloat16)

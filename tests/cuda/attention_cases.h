// SPDX-License-Identifier: MIT
// Common parts of the tests of mha_gat, mha_gat_v2 and mha_simple: attention in plain loops, and
// all faces of an operator held to it, for every type and activation on irregular graphs.
#pragma once
#include "support.h"

enum { leaky_relu, elu, linear, relu, scalar, sigmoid, tanh_, n_activations };

struct Setting {
  int64_t heads, size, edge_size;  // edge_size 0: no edge features
  bool concat;
  int activation;  // norm_by_dim for mha_simple
  double slope = 0.2;
  double dropout = 0;
  const int64_t* seed = nullptr;

  int64_t row() const { return heads * size; }
  int64_t edge_row() const { return heads * edge_size; }
  bool edges() const { return edge_size > 0; }
};

constexpr uint64_t the_seed = 0xfedcba9876543210;

// x_src, x_dst, a, e or q, k, v, e, in the operator's order
template <class N>
using Arrays = std::array<std::vector<N>, 4>;

// ---- oracle ----

// An operator's Oracle has score(in, i, p, h), value(in, p, h, c), and adds what edge p brings to
// the gradients, pull(grad, in, i, p, h, alpha, gs, gh).
template <class N, class Oracle>
struct Attention {
  using R = typename RealPart<N>::type;
  const HostGraph& g;
  Setting s;

  N act(N z) const {
    const bool positive = std::real(z) > 0;
    switch (s.activation) {
      case leaky_relu: return positive ? z : R(s.slope) * z;
      case elu: return positive ? z : R(s.slope) * (std::exp(z) - R(1));
      case relu: return positive ? z : N(0);
      case scalar: return R(s.slope) * z;
      case sigmoid: return R(1) / (R(1) + std::exp(-z));
      case tanh_: return std::tanh(z);
      default: return z;
    }
  }
  N act_derivative(N z) const {
    const bool positive = std::real(z) > 0;
    switch (s.activation) {
      case leaky_relu: return positive ? R(1) : R(s.slope);
      case elu: return positive ? N(1) : R(s.slope) * std::exp(z);
      case relu: return positive ? R(1) : R(0);
      case scalar: return R(s.slope);
      case sigmoid: return act(z) * (R(1) - act(z));
      case tanh_: return R(1) - std::tanh(z) * std::tanh(z);
      default: return R(1);
    }
  }

  // A head's features of a node, and of an edge, which may have none.
  const N* node(const std::vector<N>& x, int64_t row, int64_t h) const {
    return &x[(row * s.heads + h) * s.size];
  }
  N edge(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
    return s.edges() ? in[3][(g.row(p) * s.heads + h) * s.edge_size + c] : N(0);
  }
  // Their gradients.
  N* node(std::vector<N>& grad, int64_t row, int64_t h) const {
    return &grad[(row * s.heads + h) * s.size];
  }
  N* edge(Arrays<N>& grad, int64_t p, int64_t h) const {
    return &grad[3][(g.row(p) * s.heads + h) * s.edge_size];
  }

  // Factor of the weight of edge p: 0, or 1 / (1 - dropout).
  R factor(int64_t p, int64_t h) const {
    if (s.dropout == 0) return 1;
    uint64_t z = the_seed + (uint64_t(g.row(p)) * s.heads + h + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return std::ldexp(double(z >> 11), -53) < s.dropout ? 0 : 1 / (1 - s.dropout);
  }

  const Oracle& oracle() const { return static_cast<const Oracle&>(*this); }
  std::vector<N> softmax(const Arrays<N>& in, int64_t i, int64_t h) const {
    std::vector<N> alpha;
    R top = -INFINITY;
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
      alpha.push_back(oracle().score(in, i, p, h));
      top = std::max(top, R(std::real(alpha.back())));
    }
    N sum = 0;
    for (N& a : alpha) sum += a = std::exp(a - top);
    for (N& a : alpha) a /= sum;
    return alpha;
  }

  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(g.n_dst * (s.concat ? s.row() : s.size));
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto alpha = softmax(in, i, h);
        for (int64_t c = 0; c < s.size; ++c) {
          N sum = 0;
          for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p)
            sum += factor(p, h) * alpha[p - g.offsets[i]] * oracle().value(in, p, h, c);
          if (s.concat) out[(i * s.heads + h) * s.size + c] = sum;
          else out[i * s.size + c] += sum / R(s.heads);
        }
      }
    return out;
  }

  Arrays<N> vjp(const std::vector<N>& cotangent, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto alpha = softmax(in, i, h);
        std::vector<N> gh(s.size), ga(alpha.size());
        for (int64_t c = 0; c < s.size; ++c)
          gh[c] = s.concat ? cotangent[(i * s.heads + h) * s.size + c]
                           : cotangent[i * s.size + c] / R(s.heads);
        N delta = 0;
        for (size_t k = 0; k < alpha.size(); ++k) {
          for (int64_t c = 0; c < s.size; ++c)
            ga[k] += gh[c] * oracle().value(in, g.offsets[i] + k, h, c);
          ga[k] *= factor(g.offsets[i] + k, h);
          delta += alpha[k] * ga[k];
        }
        for (size_t k = 0; k < alpha.size(); ++k)
          oracle().pull(grad, in, i, g.offsets[i] + k, h, factor(g.offsets[i] + k, h) * alpha[k],
                        alpha[k] * (ga[k] - delta), gh);
      }
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define ABI(name, T, type)                                                                      \
  template <>                                                                                   \
  struct Abi<T> {                                                                               \
    static constexpr auto forward = gnograd_cuda_##name##_forward_##type;                       \
    static constexpr auto vjp = gnograd_cuda_##name##_vjp_##type;                               \
    static constexpr auto jvp = gnograd_cuda_##name##_jvp_##type;                               \
    static constexpr auto hvp = gnograd_cuda_##name##_hvp_##type;                               \
    static constexpr auto forward_bytes = gnograd_cuda_##name##_forward_workspace_bytes_##type; \
    static constexpr auto vjp_bytes = gnograd_cuda_##name##_vjp_workspace_bytes_##type;         \
    static constexpr auto jvp_bytes = gnograd_cuda_##name##_jvp_workspace_bytes_##type;         \
    static constexpr auto hvp_bytes = gnograd_cuda_##name##_hvp_workspace_bytes_##type;         \
  };
#define ABI_OF(name)     \
  ABI(name, float, f32)  \
  ABI(name, double, f64) \
  ABI(name, __half, f16) \
  ABI(name, __nv_bfloat16, bf16)

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

// An Operator has a name, its Oracle, the sizes of its inputs and the sizes and codes that its
// faces take. saves_activations: forward and vjp have activation_scores besides.
template <class Operator, class T>
struct Case {
  template <class N>
  using Oracle = typename Operator::template Oracle<N>;

  const HostGraph& graph;
  Setting s;
  size_t shift;  // offset of all arrays, in elements
  Device<int64_t> seed{std::vector<int64_t>{int64_t(the_seed)}};

  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, Setting s, size_t shift = 0) : graph(graph), s(s), shift(shift) {
    if (s.dropout > 0) this->s.seed = seed.get();
    std::mt19937 random(17);
    const auto draw = [&] {
      Arrays<T> arrays;
      const auto sizes = Operator::inputs(graph, s);
      for (int a = 0; a < 4; ++a) arrays[a] = randoms<T>(sizes[a], random);
      return arrays;
    };
    in = draw();
    tangents = draw();
    g = randoms<T>(graph.n_dst * (s.concat ? s.row() : s.size), random);
  }

  std::string name(const std::string& face) const {
    return std::string(Operator::name) + " " + face + ", " + graph.name + ", " +
           std::to_string(s.heads) + "x" + std::to_string(s.size) + " edges " +
           std::to_string(s.edge_size) + (s.concat ? " concat" : " mean") + " act " +
           std::to_string(s.activation) + (s.dropout > 0 ? " dropout" : "");
  }
  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    return upload_all<T>(arrays, shift);
  }
  std::vector<Device<T>> room() const { return room_for<T>(in, shift); }
  T* edges(std::vector<Device<T>>& arrays) const { return s.edges() ? arrays[3].get() : nullptr; }

  // Call a face; activation scores, where there are any, stand between `before` and `behind`.
  template <class Entry, class Bytes, class Before, class... Behind>
  static void run_saving(Entry entry, Bytes bytes, const auto& sizes, const Before& before,
                         T* activations, Behind... behind) {
    const auto saved = [&] {
      if constexpr (Operator::saves_activations) return std::tuple(activations);
      else return std::tuple();
    }();
    std::apply([&](auto... array) { run_entry(entry, bytes, sizes, array...); },
               std::tuple_cat(before, saved, std::tuple(behind...)));
  }
  void run_vjp(const auto& sizes, T* cotangent, std::vector<Device<T>>& x, T* activations,
               const std::array<T*, 4>& grad, T* out = nullptr, Real<T>* lse = nullptr) const {
    run_saving(
        Abi<T>::vjp, Abi<T>::vjp_bytes, sizes,
        std::tuple(cotangent, x[0].get(), x[1].get(), x[2].get(), edges(x), out, lse, nullptr),
        activations, grad[0], grad[1], grad[2], grad[3]);
  }

  void test() {
    DeviceGraph d = to_device(graph);
    const auto sizes = Operator::sizes(&d.view, s);
    auto x = upload(in), dx = upload(tangents);
    Device<T> cotangent(g, shift), out(g.size(), shift), dout(g.size(), shift);
    Device<Real<T>> lse(graph.n_dst * s.heads), scores(2 * s.heads * graph.n_edges());
    Device<T> activated(graph.n_edges() * s.row(), shift);

    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const Oracle<double> truth{{graph, s}};
    const Oracle<float> plain{{graph, s}};
    const Oracle<Complex> truth_derivative{{graph, s}};
    const Oracle<ComplexFloat> plain_derivative{{graph, s}};
    const auto values = [&](auto zero, const Arrays<T>* t) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 4; ++a) v[a] = numbers<decltype(zero)>(in[a], t ? &(*t)[a] : nullptr);
      return v;
    };
    const auto in64 = values(double(), nullptr);
    const auto in32 = values(float(), nullptr);
    const auto along64 = values(Complex(), &tangents);
    const auto along32 = values(ComplexFloat(), &tangents);

    // forward, with what it saves
    run_saving(Abi<T>::forward, Abi<T>::forward_bytes, sizes,
               std::tuple(x[0].get(), x[1].get(), x[2].get(), edges(x), out.get(), lse.get(),
                          scores.get()),
               activated.get());
    compare(name("forward"), out.host(), truth.forward(in64), doubles(plain.forward(in32)));
    std::vector<double> want_scores(2 * s.heads * graph.n_edges()), want_lse;
    for (int64_t i = 0; i < graph.n_dst; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto alpha = truth.softmax(in64, i, h);
        double sum = 0;
        for (size_t k = 0; k < alpha.size(); ++k) {
          const int64_t p = graph.offsets[i] + k;
          const double score = truth.score(in64, i, p, h);
          want_scores[h * graph.n_edges() + p] = score;
          want_scores[(s.heads + h) * graph.n_edges() + p] = alpha[k];
          sum += std::exp(score);
        }
        want_lse.push_back(std::log(sum));
      }
    const auto got_lse = doubles(lse.host());
    bool close = true;
    for (size_t k = 0; k < want_lse.size(); ++k)
      close = close && (got_lse[k] == want_lse[k] ||
                        std::fabs(got_lse[k] - want_lse[k]) <=
                            100 * Type<Real<T>>::epsilon * (1 + std::fabs(want_lse[k])));
    check(close, name("lse"));
    double largest = 1;
    for (const double w : want_scores) largest = std::max(largest, std::fabs(w));
    check(worst(doubles(scores.host()), want_scores) <= 50 * Type<Real<T>>::epsilon * largest,
          name("softmax_scores"));

    if constexpr (Operator::saves_activations)
      compare(name("activation_scores"), activated.host(), truth.all_activated(in64),
              doubles(plain.all_activated(in32)));

    // vjp: all gradients, and each alone
    const auto want = truth.vjp(numbers<double>(g), in64);
    const auto plain_vjp = plain.vjp(numbers<float>(g), in32);
    for (int alone = -1; alone < 4; ++alone) {
      if (alone == 3 && !s.edges()) continue;
      auto grad = room();
      const auto wanted = [&](int a) -> T* {
        return (alone < 0 || alone == a) && (a < 3 || s.edges()) ? grad[a].get() : nullptr;
      };
      run_vjp(sizes, cotangent.get(), x, nullptr, {wanted(0), wanted(1), wanted(2), wanted(3)});
      for (int a = 0; a < 4; ++a)
        if (wanted(a))
          compare(name("vjp") + " " + std::to_string(a) + (alone < 0 ? "" : " alone"),
                  grad[a].host(), doubles(want[a]), doubles(plain_vjp[a]));
    }

    // from what forward has saved, which of 16 bits and of means over heads is not read
    {
      auto grad = room();
      run_vjp(sizes, cotangent.get(), x, nullptr,
              {grad[0].get(), grad[1].get(), grad[2].get(), edges(grad)}, out.get(), lse.get());
      for (int a = 0; a < 4; ++a)
        if (a < 3 || s.edges())
          compare(name("vjp from out and lse") + " " + std::to_string(a), grad[a].host(),
                  doubles(want[a]), doubles(plain_vjp[a]));
    }

    // numbers saved in 16 bits are rounded by more than the oracle allows for
    if constexpr (Operator::saves_activations && sizeof(T) >= sizeof(float)) {
      auto grad = room();
      run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), x[0].get(), nullptr,
                x[2].get(), nullptr, nullptr, nullptr, nullptr, activated.get(), grad[0].get(),
                grad[1].get(), grad[2].get(), edges(grad));
      for (int a = 0; a < 4; ++a)
        if (a < 3 || s.edges())
          compare(name("vjp from activation_scores") + " " + std::to_string(a), grad[a].host(),
                  doubles(want[a]), doubles(plain_vjp[a]));
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    run_entry(Abi<T>::jvp, Abi<T>::jvp_bytes, sizes, x[0].get(), x[1].get(), x[2].get(), edges(x),
              dx[0].get(), dx[1].get(), dx[2].get(), edges(dx), dout.get());
    const auto tangent = doubles(truth_derivative.forward(along64));
    compare(name("jvp"), dout.host(), tangent, doubles(plain_derivative.forward(along32)));
    check_adjoint(name("oracle"), g, tangent, want, tangents);

    // hvp: along all tangents, and along each alone
    for (int alone = -1; alone < 4; ++alone) {
      if (alone == 3 && !s.edges()) continue;
      Arrays<T> t;
      for (int a = 0; a < 4; ++a)
        if (alone < 0 || alone == a) t[a] = tangents[a];
      const auto want_hvp = truth_derivative.vjp(numbers<Complex>(g), values(Complex(), &t));
      const auto plain_hvp =
          plain_derivative.vjp(numbers<ComplexFloat>(g), values(ComplexFloat(), &t));
      const auto along = [&](int a) -> T* {
        return (alone < 0 || alone == a) && (a < 3 || s.edges()) ? dx[a].get() : nullptr;
      };
      auto grad = room();
      run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), x[0].get(), x[1].get(),
                x[2].get(), edges(x), along(0), along(1), along(2), along(3), grad[0].get(),
                grad[1].get(), grad[2].get(), edges(grad));
      for (int a = 0; a < 4; ++a)
        if (a < 3 || s.edges())
          compare(name("hvp") + " " + std::to_string(a) +
                      (alone < 0 ? "" : " along " + std::to_string(alone)),
                  grad[a].host(), doubles(want_hvp[a]), doubles(plain_hvp[a]));
    }
  }

  // The bits of everything vjp and hvp give.
  std::vector<T> bits() {
    DeviceGraph d = to_device(graph);
    const auto sizes = Operator::sizes(&d.view, s);
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    run_vjp(sizes, cotangent.get(), x, nullptr,
            {grad[0].get(), grad[1].get(), grad[2].get(), edges(grad)});
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), x[0].get(), x[1].get(),
              x[2].get(), edges(x), dx[0].get(), dx[1].get(), dx[2].get(), edges(dx),
              dgrad[0].get(), dgrad[1].get(), dgrad[2].get(), edges(dgrad));
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto h = a.host();
        all.insert(all.end(), h.begin(), h.end());
      }
    return all;
  }
};

// Edge features are as wide as the nodes', unless the operator takes others.
template <class Operator, class T>
void test_type(const std::vector<HostGraph>& graphs) {
  using C = Case<Operator, T>;
  const auto edge = [](int64_t other, int64_t same) {
    return Operator::any_edge_size ? other : same;
  };
  for (const HostGraph& graph : graphs) {
    C(graph, {3, 5, edge(2, 5), true, 0}).test();
    C(graph, {2, 8, 0, false, 1}).test();
    C(graph, {3, 5, edge(2, 5), true, 1, 0.2, 0.4}).test();
  }
  for (int activation = 0; activation < Operator::n_activations; ++activation) {
    C(graphs[1], {2, 3, edge(4, 3), false, activation, 0.7}).test();
    C(graphs[1], {4, 8, edge(16, 8), true, activation}).test();
  }
  C(graphs[1], {1, 16, edge(8, 16), true, 0}, 1).test();
  C(graphs[1], {1, 1, edge(40, 1), false, 0}).test();
  C(graphs[1], {2, 3, edge(4, 3), false, 1, 0.2, 0.7}).test();
  C(graphs[1], {2, 264, edge(8, 264), true, 1}).test();
}

template <class Operator>
int test_operator() {
  require_device();
  const std::vector<HostGraph> graphs{power_law(),
                                      small_square(),
                                      without_edges(3, 5),
                                      without_edges(0, 2),
                                      without_edges(4, 0),
                                      without_edges(0, 0),
                                      with_room(power_law(), 150),
                                      with_room(small_square(), 7),
                                      with_room(without_edges(3, 5), 4)};
  test_type<Operator, float>(graphs);
  if (!short_run()) {
    test_type<Operator, double>(graphs);
    test_type<Operator, __half>(graphs);
    test_type<Operator, __nv_bfloat16>(graphs);
  }
  Case<Operator, float>(many_nodes(), {1, 2, 2, true, 0}).test();
  Case<Operator, float> c(graphs[0], {3, 5, Operator::any_edge_size ? 2 : 5, true, 1});
  check_same_bits(c);
  return report();
}

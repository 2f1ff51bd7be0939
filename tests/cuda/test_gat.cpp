// SPDX-License-Identifier: MIT
// mha_gat, mha_gat_v2 and mha_simple against plain loops in float64: every face, type and
// activation on irregular graphs.
#include "support.h"

namespace {

enum Operator { gat, gat_v2, simple };
const char* const operator_names[] = {"mha_gat", "mha_gat_v2", "mha_simple"};
enum { leaky_relu, elu, linear, relu, scalar, sigmoid, tanh_ };

struct Setting {
  Operator op;
  int64_t heads, size, edge_size;  // edge_size 0: no edge features
  bool concat;
  int activation;  // of mha_simple: norm_by_dim
  double slope = 0.2;

  int64_t row() const { return heads * size; }
  int64_t edge_row() const { return heads * edge_size; }
  bool edges() const { return edge_size > 0; }
};

// x_src, x_dst, a, e or q, k, v, e, in the operator's order
template <class N>
using Arrays = std::array<std::vector<N>, 4>;

// ---- oracle ----

template <class N>
struct Oracle {
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
  R scale() const { return s.activation ? R(1) / std::sqrt(R(s.size)) : R(1); }

  // Rows of the three tables, and of the edge features, which may be absent.
  static const N* at(const std::vector<N>& x, int64_t row, int64_t h, int64_t heads, int64_t size) {
    return x.data() + (row * heads + h) * size;
  }
  const N* node(const std::vector<N>& x, int64_t row, int64_t h) const {
    return at(x, row, h, s.heads, s.size);
  }
  N edge(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
    return s.edges() ? at(in[3], g.row(p), h, s.heads, s.edge_size)[c] : N(0);
  }

  // z of mha_gat, u of mha_gat_v2
  N gat_z(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
    N z = 0;
    for (int64_t c = 0; c < s.size; ++c)
      z += in[2][h * s.size + c] * node(in[0], g.indices[p], h)[c] +
           in[2][s.row() + h * s.size + c] * node(in[1], i, h)[c];
    for (int64_t c = 0; c < s.edge_size; ++c)
      z += in[2][2 * s.row() + h * s.edge_size + c] * edge(in, p, h, c);
    return z;
  }
  N v2_u(const Arrays<N>& in, int64_t i, int64_t p, int64_t h, int64_t c) const {
    return node(in[0], g.indices[p], h)[c] + node(in[1], i, h)[c] + edge(in, p, h, c);
  }
  N score(const Arrays<N>& in, int64_t i, int64_t p, int64_t h) const {
    if (s.op == gat) return act(gat_z(in, i, p, h));
    N sum = 0;
    for (int64_t c = 0; c < s.size; ++c)
      if (s.op == gat_v2) sum += in[2][h * s.size + c] * act(v2_u(in, i, p, h, c));
      else sum += node(in[0], i, h)[c] * (node(in[1], g.indices[p], h)[c] + edge(in, p, h, c));
    return s.op == simple ? scale() * sum : sum;
  }
  N value(const Arrays<N>& in, int64_t p, int64_t h, int64_t c) const {
    if (s.op == simple) return node(in[2], g.indices[p], h)[c] + edge(in, p, h, c);
    return node(in[0], g.indices[p], h)[c];
  }
  std::vector<N> softmax(const Arrays<N>& in, int64_t i, int64_t h) const {
    std::vector<N> alpha;
    R top = -INFINITY;
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
      alpha.push_back(score(in, i, p, h));
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
            sum += alpha[p - g.offsets[i]] * value(in, p, h, c);
          if (s.concat) out[(i * s.heads + h) * s.size + c] = sum;
          else out[i * s.size + c] += sum / R(s.heads);
        }
      }
    return out;
  }

  Arrays<N> vjp(const std::vector<N>& cotangent, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    const auto to = [&](int a, int64_t row, int64_t h, int64_t c) -> N& {
      return grad[a][(row * s.heads + h) * (a == 3 ? s.edge_size : s.size) + c];
    };
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto alpha = softmax(in, i, h);
        const auto gh = [&](int64_t c) {
          return s.concat ? cotangent[(i * s.heads + h) * s.size + c]
                          : cotangent[i * s.size + c] / R(s.heads);
        };
        std::vector<N> ga(alpha.size());
        N delta = 0;
        for (size_t k = 0; k < alpha.size(); ++k) {
          for (int64_t c = 0; c < s.size; ++c) ga[k] += gh(c) * value(in, g.offsets[i] + k, h, c);
          delta += alpha[k] * ga[k];
        }
        for (size_t k = 0; k < alpha.size(); ++k) {
          const int64_t p = g.offsets[i] + k, j = g.indices[p], row = g.row(p);
          const N gs = alpha[k] * (ga[k] - delta);
          const N gz = s.op == gat ? gs * act_derivative(gat_z(in, i, p, h)) : N(0);
          for (int64_t c = 0; c < s.size; ++c) {
            const int64_t w = h * s.size + c;
            if (s.op == gat) {
              to(0, j, h, c) += alpha[k] * gh(c) + gz * in[2][w];
              to(1, i, h, c) += gz * in[2][s.row() + w];
              grad[2][w] += gz * node(in[0], j, h)[c];
              grad[2][s.row() + w] += gz * node(in[1], i, h)[c];
            } else if (s.op == gat_v2) {
              const N u = v2_u(in, i, p, h, c), gu = gs * in[2][w] * act_derivative(u);
              to(0, j, h, c) += alpha[k] * gh(c) + gu;
              to(1, i, h, c) += gu;
              if (s.edges()) to(3, row, h, c) += gu;
              grad[2][w] += gs * act(u);
            } else {
              const N key = node(in[1], j, h)[c] + edge(in, p, h, c);
              to(0, i, h, c) += scale() * gs * key;
              to(1, j, h, c) += scale() * gs * node(in[0], i, h)[c];
              to(2, j, h, c) += alpha[k] * gh(c);
              if (s.edges())
                to(3, row, h, c) += scale() * gs * node(in[0], i, h)[c] + alpha[k] * gh(c);
            }
          }
          if (s.op == gat)
            for (int64_t c = 0; c < s.edge_size; ++c) {
              const int64_t w = 2 * s.row() + h * s.edge_size + c;
              to(3, row, h, c) += gz * in[2][w];
              grad[2][w] += gz * edge(in, p, h, c);
            }
        }
      }
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define OPERATOR(name, type)                                                                 \
  static constexpr auto name##_forward = gnograd_cuda_##name##_forward_##type;               \
  static constexpr auto name##_vjp = gnograd_cuda_##name##_vjp_##type;                       \
  static constexpr auto name##_jvp = gnograd_cuda_##name##_jvp_##type;                       \
  static constexpr auto name##_hvp = gnograd_cuda_##name##_hvp_##type;                       \
  static constexpr auto name##_forward_bytes =                                               \
      gnograd_cuda_##name##_forward_workspace_bytes_##type;                                  \
  static constexpr auto name##_vjp_bytes = gnograd_cuda_##name##_vjp_workspace_bytes_##type; \
  static constexpr auto name##_jvp_bytes = gnograd_cuda_##name##_jvp_workspace_bytes_##type; \
  static constexpr auto name##_hvp_bytes = gnograd_cuda_##name##_hvp_workspace_bytes_##type;
#define ABI(T, type)           \
  template <>                  \
  struct Abi<T> {              \
    OPERATOR(mha_gat, type)    \
    OPERATOR(mha_gat_v2, type) \
    OPERATOR(mha_simple, type) \
  };
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

// Call one face of the operator of a setting.
#define SIZES_mha_gat \
  std::tuple(&d.view, s.heads, s.size, s.edge_size, int(s.concat), s.activation, s.slope)
#define SIZES_mha_gat_v2 std::tuple(&d.view, s.heads, s.size, int(s.concat), s.activation, s.slope)
#define SIZES_mha_simple std::tuple(&d.view, s.heads, s.size, int(s.concat), s.activation)
#define ENTRY(name, face, ...)                                                         \
  run_entry(Abi<T>::name##_##face, Abi<T>::name##_##face##_bytes, SIZES_##name, __VA_ARGS__)
#define CALL(face, ...)                                           \
  do {                                                            \
    if (s.op == gat) ENTRY(mha_gat, face, __VA_ARGS__);           \
    else if (s.op == gat_v2) ENTRY(mha_gat_v2, face, __VA_ARGS__); \
    else ENTRY(mha_simple, face, __VA_ARGS__);                    \
  } while (false)
// One that saves or reads what GATv2 has more of than the others.
#define LIST(...) __VA_ARGS__
#define CALL_SAVING(face, activated, before, ...)                                               \
  do {                                                                                          \
    if (s.op == gat) ENTRY(mha_gat, face, LIST before __VA_OPT__(, ) __VA_ARGS__);              \
    else if (s.op == gat_v2)                                                                    \
      ENTRY(mha_gat_v2, face, LIST before, activated __VA_OPT__(, ) __VA_ARGS__);               \
    else ENTRY(mha_simple, face, LIST before __VA_OPT__(, ) __VA_ARGS__);                       \
  } while (false)

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
struct Case {
  const HostGraph& graph;
  Setting s;
  size_t shift;  // of all arrays, in elements

  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, Setting s, size_t shift = 0) : graph(graph), s(s), shift(shift) {
    std::mt19937 random(17);
    const auto draw = [&](double scale) {
      const auto nodes = [&](int64_t n) { return randoms<T>(n * s.row(), random, scale); };
      auto edges = randoms<T>(graph.n_edges() * s.edge_row(), random, scale);
      if (s.op == simple)
        return Arrays<T>{nodes(graph.n_dst), nodes(graph.n_src), nodes(graph.n_src), edges};
      const int64_t weights = s.op == gat ? 2 * s.row() + s.edge_row() : s.row();
      return Arrays<T>{nodes(graph.n_src), nodes(graph.n_dst), randoms<T>(weights, random, scale),
                       edges};
    };
    in = draw(1);
    tangents = draw(1);
    g = randoms<T>(graph.n_dst * (s.concat ? s.row() : s.size), random);
  }

  std::string name(const std::string& face) const {
    return std::string(operator_names[s.op]) + " " + face + ", " + graph.name + ", " +
           std::to_string(s.heads) + "x" + std::to_string(s.size) + " edges " +
           std::to_string(s.edge_size) + (s.concat ? " concat" : " mean") + " act " +
           std::to_string(s.activation);
  }
  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    std::vector<Device<T>> out;
    for (const auto& a : arrays) out.emplace_back(a, shift);
    return out;
  }
  std::vector<Device<T>> room() const {
    std::vector<Device<T>> out;
    for (const auto& a : in) out.emplace_back(a.size(), shift);
    return out;
  }
  T* edges(std::vector<Device<T>>& arrays) const { return s.edges() ? arrays[3].get() : nullptr; }

  void test() {
    DeviceGraph d = to_device(graph);
    auto x = upload(in), dx = upload(tangents);
    Device<T> cotangent(g, shift), out(g.size(), shift), dout(g.size(), shift);
    Device<Real<T>> lse(graph.n_dst * s.heads), scores(2 * s.heads * graph.n_edges());
    Device<T> activated(graph.n_edges() * s.row(), shift);

    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const Oracle<double> truth{graph, s};
    const Oracle<float> plain{graph, s};
    const Oracle<Complex> truth_derivative{graph, s};
    const Oracle<ComplexFloat> plain_derivative{graph, s};
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
    CALL_SAVING(forward, activated.get(),
                (x[0].get(), x[1].get(), x[2].get(), edges(x), out.get(), lse.get(), scores.get()));
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

    if (s.op == gat_v2) {
      const auto bent = [&](auto& oracle, const auto& in) {
        std::vector<double> t(graph.n_edges() * s.row());
        for (int64_t i = 0; i < graph.n_dst; ++i)
          for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; ++p)
            for (int64_t c = 0; c < s.row(); ++c)
              t[p * s.row() + c] = oracle.act(oracle.v2_u(in, i, p, c / s.size, c % s.size));
        return t;
      };
      compare(name("activation_scores"), activated.host(), bent(truth, in64), bent(plain, in32));
    }

    // vjp: all gradients, and each alone
    const auto want = truth.vjp(numbers<double>(g), in64);
    const auto plain_vjp = plain.vjp(numbers<float>(g), in32);
    for (int alone = -1; alone < 4; ++alone) {
      if (alone == 3 && !s.edges()) continue;
      auto grad = room();
      const auto wanted = [&](int a) -> T* {
        return (alone < 0 || alone == a) && (a < 3 || s.edges()) ? grad[a].get() : nullptr;
      };
      CALL_SAVING(vjp, nullptr,
           (cotangent.get(), x[0].get(), x[1].get(), x[2].get(), edges(x), nullptr, nullptr,
            nullptr),
           wanted(0), wanted(1), wanted(2), wanted(3));
      for (int a = 0; a < 4; ++a)
        if (wanted(a))
          compare(name("vjp") + " " + std::to_string(a) + (alone < 0 ? "" : " alone"),
                  grad[a].host(), doubles(want[a]), doubles(plain_vjp[a]));
    }

    // what is saved in 16 bits is rounded, which is more than the oracle allows for
    if (s.op == gat_v2 && sizeof(T) >= sizeof(float)) {
      auto grad = room();
      ENTRY(mha_gat_v2, vjp, cotangent.get(), x[0].get(), nullptr, x[2].get(), nullptr, nullptr,
            nullptr, nullptr, activated.get(), grad[0].get(), grad[1].get(), grad[2].get(), edges(grad));
      for (int a = 0; a < 4; ++a)
        if (a < 3 || s.edges())
          compare(name("vjp from activation_scores") + " " + std::to_string(a), grad[a].host(),
                  doubles(want[a]), doubles(plain_vjp[a]));
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    CALL(jvp, x[0].get(), x[1].get(), x[2].get(), edges(x), dx[0].get(), dx[1].get(), dx[2].get(),
         edges(dx), dout.get());
    const auto tangent = doubles(truth_derivative.forward(along64));
    compare(name("jvp"), dout.host(), tangent, doubles(plain_derivative.forward(along32)));
    double left = 0, right = 0, sum = 1;
    for (size_t k = 0; k < tangent.size(); ++k) {
      left += to_double(g[k]) * tangent[k];
      sum += std::fabs(to_double(g[k]) * tangent[k]);
    }
    for (int a = 0; a < 4; ++a)
      for (size_t k = 0; k < in[a].size(); ++k) right += want[a][k] * to_double(tangents[a][k]);
    check(std::fabs(left - right) <= 1e-11 * sum, name("oracle"));

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
      CALL(hvp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), edges(x), along(0), along(1),
           along(2), along(3), grad[0].get(), grad[1].get(), grad[2].get(), edges(grad));
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
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    CALL_SAVING(vjp, nullptr,
         (cotangent.get(), x[0].get(), x[1].get(), x[2].get(), edges(x), nullptr, nullptr,
          nullptr),
         grad[0].get(), grad[1].get(), grad[2].get(), edges(grad));
    CALL(hvp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), edges(x), dx[0].get(),
         dx[1].get(), dx[2].get(), edges(dx), dgrad[0].get(), dgrad[1].get(), dgrad[2].get(),
         edges(dgrad));
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto h = a.host();
        all.insert(all.end(), h.begin(), h.end());
      }
    return all;
  }
};

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  for (const Operator op : {gat, gat_v2, simple}) {
    const auto edge = [=](int64_t own, int64_t same) { return op == gat ? own : same; };
    for (const HostGraph& graph : graphs) {
      Case<T>(graph, {op, 3, 5, edge(2, 5), true, 0}).test();
      Case<T>(graph, {op, 2, 8, 0, false, 1}).test();
    }
    for (int activation = 0; activation < (op == simple ? 2 : 7); ++activation) {
      Case<T>(graphs[1], {op, 2, 3, edge(4, 3), false, activation, 0.7}).test();
      Case<T>(graphs[1], {op, 4, 8, edge(16, 8), true, activation}).test();
    }
    Case<T>(graphs[1], {op, 1, 16, edge(8, 16), true, 0}, 1).test();
    Case<T>(graphs[1], {op, 1, 1, edge(40, 1), false, 0}).test();
    Case<T>(graphs[1], {op, 2, 264, edge(8, 264), true, 1}).test();
  }
}

void test_determinism(const HostGraph& graph) {
  for (const Operator op : {gat, gat_v2, simple}) {
    Case<float> c(graph, {op, 3, 5, op == gat ? 2 : 5, true, 1});
    check_same_bits(c);
  }
}

}  // namespace

int main() {
  require_device();
  const std::vector<HostGraph> graphs{power_law(),         small_square(),
                                      without_edges(3, 5), without_edges(0, 2),
                                      without_edges(4, 0), without_edges(0, 0)};
  test_type<float>(graphs);
  test_type<double>(graphs);
  test_type<__half>(graphs);
  test_type<__nv_bfloat16>(graphs);
  const HostGraph many = many_nodes();
  for (const Operator op : {gat, gat_v2, simple}) Case<float>(many, {op, 1, 2, 2, true, 0}).test();
  test_determinism(graphs[0]);
  return report();
}

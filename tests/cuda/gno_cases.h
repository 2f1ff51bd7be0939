// SPDX-License-Identifier: MIT
// Common parts of the tests of the GNO operators: the formulas with a kernel matrix an edge in
// plain loops, and all faces of an operator held to them.
//
// In bfloat16 some intermediate results are rounded, each of which is a sum of products. So an
// entry may be off by the roundings on its way, 2^-8 each, of the formula's value for the absolute
// values of all numbers; for activations and their derivatives, what dominates them.
#pragma once
#include "activations.h"

enum { sum, mean };
enum { full, diagonal };
enum Input { h, coords, u, b_u, v, b_v, weight, hid, kappa, n_inputs };
const char* const input_names[] = {"h", "coords", "u", "b_u", "v", "b_v", "weight", "hid", "kappa"};

template <class N>
using Arrays = std::array<std::vector<N>, n_inputs>;

// ---- oracle ----

struct Sizes {
  int64_t d, n_hidden, f_in, f_out;
};

template <class N>
struct Oracle {
  const HostGraph& g;
  Sizes n;
  int activation, reduction, kernel;

  int64_t matrix() const { return kernel == full ? n.f_in * n.f_out : n.f_out; }
  N before(const Arrays<N>& in, int64_t e, int64_t k) const {
    N x = in[b_u][k];
    for (int64_t a = 0; a < n.d; ++a) x += in[coords][e * n.d + a] * in[u][a * n.n_hidden + k];
    return x;
  }
  std::vector<N> hidden(const Arrays<N>& in, int64_t e) const {
    std::vector<N> x(n.n_hidden);
    for (int64_t k = 0; k < n.n_hidden; ++k)
      x[k] = in[hid].empty() ? act(activation, before(in, e, k), 0) : in[hid][e * n.n_hidden + k];
    return x;
  }
  std::vector<N> matrix_of(const Arrays<N>& in, int64_t e) const {
    std::vector<N> m(matrix());
    if (!in[kappa].empty()) {
      std::copy_n(&in[kappa][e * matrix()], matrix(), m.begin());
      return m;
    }
    const auto x = hidden(in, e);
    for (int64_t c = 0; c < matrix(); ++c) {
      m[c] = in[b_v][c];
      for (int64_t k = 0; k < n.n_hidden; ++k) m[c] += x[k] * in[v][k * matrix() + c];
    }
    return m;
  }
  N scale(int64_t i) const {
    const int64_t degree = g.offsets[i + 1] - g.offsets[i];
    return reduction == mean ? N(1) / N(double(std::max<int64_t>(degree, 1))) : N(1);
  }
  N source(const Arrays<N>& in, int64_t j, int64_t f) const {
    return in[h].empty() ? N(1) : in[h][j * n.f_in + f];
  }

  template <class F>
  void for_edges(F f) const {
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) f(i, g.indices[p], g.row(p));
  }
  // f(input feature, output feature, place in kappa)
  template <class F>
  void for_matrix(F f) const {
    for (int64_t c = 0; c < matrix(); ++c)
      f(kernel == full ? c / n.f_out : c, kernel == full ? c % n.f_out : c, c);
  }

  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(g.n_dst * n.f_out);
    for_edges([&](int64_t i, int64_t j, int64_t e) {
      const auto m = matrix_of(in, e);
      const N s = in[weight].empty() ? scale(i) : scale(i) * in[weight][e];
      for_matrix([&](int64_t a, int64_t o, int64_t c) {
        out[i * n.f_out + o] += s * source(in, j, a) * m[c];
      });
    });
    return out;
  }
  // Gradients to what gives kappa, for its gradients.
  void network_vjp(const std::vector<N>& y, const Arrays<N>& in, int64_t e, Arrays<N>& grad) const {
    const auto x = hidden(in, e);
    for (int64_t c = 0; c < matrix(); ++c) grad[b_v][c] += y[c];
    for (int64_t k = 0; k < n.n_hidden; ++k) {
      N to_hidden = 0;
      for (int64_t c = 0; c < matrix(); ++c) {
        grad[v][k * matrix() + c] += x[k] * y[c];
        to_hidden += in[v][k * matrix() + c] * y[c];
      }
      if (!in[hid].empty()) {
        grad[hid][e * n.n_hidden + k] = to_hidden;
        continue;
      }
      const N to_before = to_hidden * act(activation, before(in, e, k), 1);
      grad[b_u][k] += to_before;
      for (int64_t a = 0; a < n.d; ++a) {
        grad[u][a * n.n_hidden + k] += in[coords][e * n.d + a] * to_before;
        grad[coords][e * n.d + a] += in[u][a * n.n_hidden + k] * to_before;
      }
    }
  }
  Arrays<N> no_gradients(const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < n_inputs; ++a) grad[a].resize(in[a].size());
    return grad;
  }
  Arrays<N> vjp(const std::vector<N>& y, const Arrays<N>& in) const {
    auto grad = no_gradients(in);
    for_edges([&](int64_t i, int64_t j, int64_t e) {
      const auto m = matrix_of(in, e);
      const N w = in[weight].empty() ? N(1) : in[weight][e];
      std::vector<N> to_matrix(matrix());
      N to_weight = 0;
      for_matrix([&](int64_t a, int64_t o, int64_t c) {
        const N x = source(in, j, a), g = scale(i) * y[i * n.f_out + o];
        if (!in[h].empty()) grad[h][j * n.f_in + a] += w * m[c] * g;
        to_matrix[c] = w * x * g;
        to_weight += x * m[c] * g;
      });
      if (!in[weight].empty()) grad[weight][e] = to_weight;
      if (in[kappa].empty()) network_vjp(to_matrix, in, e, grad);
      else std::copy(to_matrix.begin(), to_matrix.end(), &grad[kappa][e * matrix()]);
    });
    return grad;
  }
};

// gno_kernel: kappa itself.
template <class N>
struct KernelOracle : Oracle<N> {
  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out;
    for (int64_t e = 0; e < this->g.n_edges(); ++e)
      for (const N x : this->matrix_of(in, e)) out.push_back(x);
    return out;
  }
  Arrays<N> vjp(const std::vector<N>& y, const Arrays<N>& in) const {
    auto grad = this->no_gradients(in);
    const int64_t m = this->matrix();
    for (int64_t e = 0; e < this->g.n_edges(); ++e)
      this->network_vjp({y.begin() + e * m, y.begin() + (e + 1) * m}, in, e, grad);
    return grad;
  }
};

// ---- the library ----

// The four faces of an operator, its inputs, and how it takes its sizes.
#define ENTRY(name, type, face) \
  gnograd_cuda_##name##_##face##_##type, gnograd_cuda_##name##_##face##_workspace_bytes_##type
#define OPERATOR(Name, name, count, inputs_, sizes_)                                               \
  template <class T>                                                                               \
  struct Name {                                                                                    \
    static constexpr const char* label = #name;                                                    \
    static constexpr std::array<int, count> inputs inputs_;                                        \
    static auto sizes(const gnograd_cuda_graph& g, Sizes n, int activation, int reduction,         \
                      int kernel) {                                                                \
      (void)g, (void)activation, (void)reduction, (void)kernel;                                    \
      return std::make_tuple sizes_;                                                               \
    }                                                                                              \
    template <class S>                                                                             \
    static void run(const char* face, S s, std::vector<void*> a) {                                 \
      const auto go = [&](auto single, auto single_bytes, auto twice, auto twice_bytes, auto half, \
                          auto half_bytes, auto size) {                                            \
        std::array<void*, size()> arrays;                                                          \
        std::copy(a.begin(), a.end(), arrays.begin());                                             \
        std::apply(                                                                                \
            [&](auto... x) {                                                                       \
              if constexpr (sizeof(T) == 4) run_entry(single, single_bytes, s, x...);              \
              else if constexpr (sizeof(T) == 8) run_entry(twice, twice_bytes, s, x...);           \
              else run_entry(half, half_bytes, s, x...);                                           \
            },                                                                                     \
            arrays);                                                                               \
      };                                                                                           \
      using std::integral_constant;                                                                \
      const std::string f = face;                                                                  \
      if (f == "forward")                                                                          \
        go(ENTRY(name, f32, forward), ENTRY(name, f64, forward), ENTRY(name, bf16, forward),       \
           integral_constant<size_t, count + 1>());                                                \
      if (f == "vjp")                                                                              \
        go(ENTRY(name, f32, vjp), ENTRY(name, f64, vjp), ENTRY(name, bf16, vjp),                   \
           integral_constant<size_t, 2 * count + 1>());                                            \
      if (f == "jvp")                                                                              \
        go(ENTRY(name, f32, jvp), ENTRY(name, f64, jvp), ENTRY(name, bf16, jvp),                   \
           integral_constant<size_t, 2 * count + 1>());                                            \
      if (f == "hvp")                                                                              \
        go(ENTRY(name, f32, hvp), ENTRY(name, f64, hvp), ENTRY(name, bf16, hvp),                   \
           integral_constant<size_t, 3 * count + 1>());                                            \
    }                                                                                              \
  };
#define LIST(...) \
  { __VA_ARGS__ }

// Arrays of the arithmetic's type, whatever the others have.
inline bool is_wide(int a) { return a == coords || a == weight; }
template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

// An input or a gradient on the device.
template <class T>
class Stored {
  bool wide;
  Device<T> as_declared;
  Device<Wide<T>> as_wide;

  static std::vector<Wide<T>> widened(const std::vector<T>& x) {
    std::vector<Wide<T>> out;
    for (const T v : x) out.push_back(Wide<T>(to_double(v)));
    return out;
  }

 public:
  Stored(int a, size_t n) : wide(is_wide(a)), as_declared(wide ? 0 : n), as_wide(wide ? n : 0) {}
  Stored(int a, const std::vector<T>& x)
      : wide(is_wide(a)),
        as_declared(wide ? std::vector<T>() : x),
        as_wide(wide ? widened(x) : std::vector<Wide<T>>()) {}

  void* get() { return wide ? static_cast<void*>(as_wide.get()) : as_declared.get(); }
  std::vector<Wide<T>> host() { return wide ? as_wide.host() : widened(as_declared.host()); }
};

// A destination and a source with most of the edges: their rows are cut into more pieces than are
// joined at once.
inline HostGraph hub() {
  auto random = std::make_shared<std::mt19937>(6);
  return make_graph(
      "hub", 9, 9, true, [](int64_t i) { return i == 4 ? 1300 : 3 * (i % 3); },
      [=](int64_t) { return (*random)() % 8 ? 5 : int64_t((*random)() % 9); });
}

struct Options {
  int activation = gelu, reduction = sum, kernel = full;
  bool weighted = true, features = true;
};

template <template <class> class Operator, template <class> class Truth, class T>
struct Case {
  const HostGraph& graph;
  Sizes n;
  Options o;
  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, Sizes n, Options o) : graph(graph), n(n), o(o) {
    std::mt19937 random(7);
    const int64_t m = o.kernel == full ? n.f_in * n.f_out : n.f_out;
    const double layer = 1 / std::sqrt(double(n.n_hidden));
    const auto draw = [&] {
      Arrays<T> all{randoms<T>(o.features ? graph.n_src * n.f_in : 0, random),
                    randoms<T>(graph.n_edges() * n.d, random),
                    randoms<T>(n.d * n.n_hidden, random),
                    randoms<T>(n.n_hidden, random),
                    randoms<T>(n.n_hidden * m, random, layer),
                    randoms<T>(m, random),
                    randoms<T>(o.weighted ? graph.n_edges() : 0, random),
                    randoms<T>(graph.n_edges() * n.n_hidden, random),
                    randoms<T>(graph.n_edges() * m, random)};
      for (int a = 0; a < n_inputs; ++a)
        if (!takes(a)) all[a].clear();
      return all;
    };
    in = draw();
    tangents = draw();
    g = randoms<T>(size(), random);
  }
  static bool takes(int a) {
    return std::find(Operator<T>::inputs.begin(), Operator<T>::inputs.end(), a) !=
           Operator<T>::inputs.end();
  }
  static constexpr bool on_nodes = Operator<T>::inputs[0] == h;
  int64_t size() const {
    return on_nodes ? graph.n_dst * n.f_out : graph.n_edges() * n.f_in * n.f_out;
  }
  // An absent input; one that only has no items is not.
  bool absent(int a) const { return (a == h && !o.features) || (a == weight && !o.weighted); }
  std::string name(const char* face) const {
    return std::string(Operator<T>::label) + " " + face + ", " + activation_names[o.activation] +
           (o.reduction == mean ? " mean" : " sum") + (o.kernel == diagonal ? " diagonal" : "") +
           ", " + graph.name + ", " + std::to_string(n.d) + "-" + std::to_string(n.n_hidden) + "-" +
           std::to_string(n.f_in) + "x" + std::to_string(n.f_out);
  }

  std::vector<Stored<T>> upload(const Arrays<T>& arrays) const {
    std::vector<Stored<T>> out;
    for (const int a : Operator<T>::inputs) out.emplace_back(a, arrays[a]);
    return out;
  }
  std::vector<Stored<T>> room() const {
    std::vector<Stored<T>> out;
    for (const int a : Operator<T>::inputs) out.emplace_back(a, in[a].size());
    return out;
  }
  // Run a face with these groups of arrays between the sizes and the end.
  std::vector<void*> pointers(std::vector<Stored<T>>& arrays, int only = -1) const {
    std::vector<void*> out;
    for (size_t a = 0; a < arrays.size(); ++a)
      out.push_back(absent(Operator<T>::inputs[a]) || (only >= 0 && only != int(a))
                        ? nullptr
                        : arrays[a].get());
    return out;
  }
  static std::vector<void*> join(std::initializer_list<std::vector<void*>> parts) {
    std::vector<void*> out;
    for (const auto& p : parts) out.insert(out.end(), p.begin(), p.end());
    return out;
  }

  template <class N>
  Truth<N> oracle() const {
    return {graph, n, o.activation, o.reduction, o.kernel};
  }
  template <class N>
  Arrays<N> values(const Arrays<T>* t = nullptr) const {
    Arrays<N> out;
    for (int a = 0; a < n_inputs; ++a) out[a] = numbers<N>(in[a], t ? &(*t)[a] : nullptr);
    return out;
  }

  // Roundings on the way to an entry: of a panel, which hubs have in pieces that are joined, and of
  // the entry; a tangent is rounded between its two products. The diagonal form has at most those
  // of gradients of kernels, of hidden features before and behind the slope, and of the entry.
  double roundings(bool tangents) const { return (o.kernel == full ? 3 : 4) + tangents; }

  void judge(const std::string& what, const auto& got, const std::vector<double>& want,
             const std::vector<double>& plain, const std::vector<double>& dominating,
             bool tangents) const {
    if constexpr (sizeof(T) > 2) {
      compare(what, got, want, plain);
    } else {
      const double base = allowed_error<float>(want, plain);
      double worst = 0;  // largest error as a part of what is allowed
      for (size_t i = 0; i < want.size(); ++i) {
        const double error = std::fabs(to_double(got[i]) - want[i]);
        const double allowed = base + roundings(tangents) * 0x1p-8 * dominating[i];
        worst = error <= allowed ? std::max(worst, error / allowed) : INFINITY;
      }
      check(got.size() == want.size() && worst <= 1, what + " in bfloat16");
      largest_share = std::max(largest_share, worst);
    }
  }
  static inline double largest_share = 0;

  // Absolute values of the inputs: results for the inputs never exceed those for these.
  template <class N>
  Arrays<N> absolute(const Arrays<T>* t = nullptr) const {
    Arrays<N> out = values<N>(t);
    for (auto& x : out)
      for (N& v : x) v = magnitude(v);
    return out;
  }
  template <class N>
  static N magnitude(N x) {
    if constexpr (std::is_floating_point_v<N>) return std::fabs(x);
    else return {std::fabs(x.real()), std::fabs(x.imag())};
  }
  template <class N>
  Truth<N> bound() const {
    return {graph, n, dominating, o.reduction, o.kernel};
  }
  template <class N>
  std::vector<N> absolute_cotangent() const {
    auto out = numbers<N>(g);
    for (N& v : out) v = magnitude(v);
    return out;
  }

  // All faces; thoroughly: also each gradient alone and along one tangent.
  void test(bool thoroughly = false) {
    using C64 = std::complex<double>;
    using C32 = std::complex<float>;
    DeviceGraph d = to_device(graph);
    const auto sizes = Operator<T>::sizes(d.view, n, o.activation, o.reduction, o.kernel);
    auto x = upload(in), dx = upload(tangents);
    Device<T> cotangent(g), out(size()), dout(size());

    Operator<T>::run("forward", sizes, join({pointers(x), {out.get()}}));
    judge(name("forward"), out.host(), oracle<double>().forward(values<double>()),
          doubles(oracle<float>().forward(values<float>())),
          bound<double>().forward(absolute<double>()), false);

    const auto want = oracle<double>().vjp(numbers<double>(g), values<double>());
    const auto plain = oracle<float>().vjp(numbers<float>(g), values<float>());
    const auto most = bound<double>().vjp(absolute_cotangent<double>(), absolute<double>());
    const auto judge_all = [&](const char* face, std::vector<Stored<T>>& grad, auto& truth,
                               auto& rough, auto& bounds, int only) {
      const bool tangents = std::string(face) != "vjp";
      for (size_t b = 0; b < grad.size(); ++b) {
        const int a = Operator<T>::inputs[b];
        if (only >= 0 && only != int(b)) continue;
        judge(name(face) + " " + input_names[a], grad[b].host(), doubles(truth[a]),
              doubles(rough[a]), doubles(bounds[a]), tangents);
      }
    };
    for (int only = -1; only < (thoroughly ? int(x.size()) : 0); ++only) {
      auto grad = room();
      Operator<T>::run("vjp", sizes, join({{cotangent.get()}, pointers(x), pointers(grad, only)}));
      judge_all("vjp", grad, want, plain, most, only);
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    Operator<T>::run("jvp", sizes, join({pointers(x), pointers(dx), {dout.get()}}));
    const auto tangent = doubles(oracle<C64>().forward(values<C64>(&tangents)));
    judge(name("jvp"), dout.host(), tangent, doubles(oracle<C32>().forward(values<C32>(&tangents))),
          doubles(bound<C64>().forward(absolute<C64>(&tangents))), true);
    check_adjoint(name("oracle"), g, tangent, want, tangents);

    const auto second = oracle<C64>().vjp(numbers<C64>(g), values<C64>(&tangents));
    const auto second32 = oracle<C32>().vjp(numbers<C32>(g), values<C32>(&tangents));
    const auto most_second = bound<C64>().vjp(absolute_cotangent<C64>(), absolute<C64>(&tangents));
    for (int only = -1; only < (thoroughly ? int(x.size()) : 0); ++only) {
      auto grad = room();
      Operator<T>::run("hvp", sizes,
                       join({{cotangent.get()}, pointers(x), pointers(dx), pointers(grad, only)}));
      judge_all("hvp", grad, second, second32, most_second, only);
    }

    // tangents of one input alone
    for (int only = 0; thoroughly && only < int(x.size()); ++only) {
      Arrays<T> one;
      for (int a = 0; a < n_inputs; ++a) one[a].resize(in[a].size(), T(0.f));
      one[Operator<T>::inputs[only]] = tangents[Operator<T>::inputs[only]];
      Operator<T>::run("jvp", sizes, join({pointers(x), pointers(dx, only), {dout.get()}}));
      judge(name("jvp along one") + " " + input_names[Operator<T>::inputs[only]], dout.host(),
            doubles(oracle<C64>().forward(values<C64>(&one))),
            doubles(oracle<C32>().forward(values<C32>(&one))),
            doubles(bound<C64>().forward(absolute<C64>(&one))), true);
      auto grad = room();
      Operator<T>::run("hvp", sizes,
                       join({{cotangent.get()}, pointers(x), pointers(dx, only), pointers(grad)}));
      const auto truth = oracle<C64>().vjp(numbers<C64>(g), values<C64>(&one));
      const auto rough = oracle<C32>().vjp(numbers<C32>(g), values<C32>(&one));
      const auto bounds = bound<C64>().vjp(absolute_cotangent<C64>(), absolute<C64>(&one));
      judge_all("hvp along one", grad, truth, rough, bounds, -1);
    }
  }

  std::vector<Wide<T>> bits() {
    DeviceGraph d = to_device(graph);
    const auto sizes = Operator<T>::sizes(d.view, n, o.activation, o.reduction, o.kernel);
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    Operator<T>::run("vjp", sizes, join({{cotangent.get()}, pointers(x), pointers(grad)}));
    Operator<T>::run("hvp", sizes,
                     join({{cotangent.get()}, pointers(x), pointers(dx), pointers(dgrad)}));
    std::vector<Wide<T>> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto host = a.host();
        all.insert(all.end(), host.begin(), host.end());
      }
    return all;
  }
};

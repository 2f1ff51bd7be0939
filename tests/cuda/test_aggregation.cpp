// SPDX-License-Identifier: MIT
// agg_concat, of which agg_weighted and agg_simple are cases, against plain loops in float64:
// every face, type and AggOp on irregular graphs.
#include "support.h"

namespace {

enum { sum, mean, min, max };
const char* const op_names[] = {"Sum", "Mean", "Min", "Max"};

struct Sizes {
  int64_t node, edge, own;
  int64_t row() const { return node + edge + own; }
};

// x [n_src, node], w [n_edges] or empty, e [n_edges, edge], own [n_dst, own]
template <class N>
using Arrays = std::array<std::vector<N>, 4>;

// ---- oracle ----

template <class N>
struct Oracle {
  const HostGraph& g;
  Sizes n;
  int op;

  N weight(const Arrays<N>& in, int64_t p) const { return in[1].empty() ? N(1) : in[1][g.row(p)]; }
  // Message of edge p in column c of the aggregated part.
  N message(const Arrays<N>& in, int64_t p, int64_t c) const {
    if (c >= n.node) return in[2][g.row(p) * n.edge + c - n.node];
    return weight(in, p) * in[0][g.indices[p] * n.node + c];
  }
  N degree(const Arrays<N>& in, int64_t i, int64_t c) const {
    N s = 0;
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p)
      s += c < n.node ? weight(in, p) : N(1);
    return s;
  }
  // The first of the largest or smallest; by values alone, so that a derivative breaks no tie.
  int64_t winner(const Arrays<N>& in, int64_t i, int64_t c) const {
    const auto value = [&](int64_t p) {
      return c >= n.node ? real_part(message(in, p, c))
                         : real_part(weight(in, p)) * real_part(in[0][g.indices[p] * n.node + c]);
    };
    int64_t best = -1;
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p)
      if (best < 0 || (op == max ? value(p) > value(best) : value(p) < value(best))) best = p;
    return best;
  }

  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(g.n_dst * n.row());
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t c = 0; c < n.row(); ++c) {
        N& y = out[i * n.row() + c];
        if (c >= n.node + n.edge) {
          y = in[3][i * n.own + c - n.node - n.edge];
        } else if (op == sum || op == mean) {
          for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) y += message(in, p, c);
          if (op == mean && g.offsets[i] < g.offsets[i + 1]) y /= degree(in, i, c);
        } else if (const int64_t p = winner(in, i, c); p >= 0) {
          y = message(in, p, c);
        }
      }
    return out;
  }

  Arrays<N> vjp(const std::vector<N>& cotangent, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t c = 0; c < n.row(); ++c) {
        const N y = cotangent[i * n.row() + c];
        if (c >= n.node + n.edge) {
          grad[3][i * n.own + c - n.node - n.edge] = y;
          continue;
        }
        const int64_t won = op == min || op == max ? winner(in, i, c) : -1;
        const N s = op == mean ? degree(in, i, c) : N(1);
        N out = 0;
        if (op == mean)
          for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) out += message(in, p, c) / s;
        for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
          if (won >= 0 && p != won) continue;
          if (c >= n.node) {
            grad[2][g.row(p) * n.edge + c - n.node] += y / s;
            continue;
          }
          const N x = in[0][g.indices[p] * n.node + c];
          grad[0][g.indices[p] * n.node + c] += weight(in, p) * y / s;
          if (!in[1].empty()) grad[1][g.row(p)] += y * (op == mean ? (x - out) / s : x);
        }
      }
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define ABI(T, type)                                                                              \
  template <>                                                                                     \
  struct Abi<T> {                                                                                 \
    static constexpr auto forward = gnograd_cuda_agg_concat_forward_##type;                       \
    static constexpr auto vjp = gnograd_cuda_agg_concat_vjp_##type;                               \
    static constexpr auto jvp = gnograd_cuda_agg_concat_jvp_##type;                               \
    static constexpr auto hvp = gnograd_cuda_agg_concat_hvp_##type;                               \
    static constexpr auto forward_bytes = gnograd_cuda_agg_concat_forward_workspace_bytes_##type; \
    static constexpr auto vjp_bytes = gnograd_cuda_agg_concat_vjp_workspace_bytes_##type;         \
    static constexpr auto jvp_bytes = gnograd_cuda_agg_concat_jvp_workspace_bytes_##type;         \
    static constexpr auto hvp_bytes = gnograd_cuda_agg_concat_hvp_workspace_bytes_##type;         \
    static constexpr auto weighted = gnograd_cuda_agg_weighted_vjp_##type;                        \
    static constexpr auto weighted_bytes = gnograd_cuda_agg_weighted_vjp_workspace_bytes_##type;  \
    static constexpr auto simple = gnograd_cuda_agg_simple_hvp_##type;                            \
    static constexpr auto simple_bytes = gnograd_cuda_agg_simple_hvp_workspace_bytes_##type;      \
  };
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
struct Case {
  const HostGraph& graph;
  Sizes n;
  int op;
  bool weighted;
  size_t shift = 0;  // offset of all arrays, in elements

  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const HostGraph& graph, Sizes n, int op, bool weighted, size_t shift = 0)
      : graph(graph), n(n), op(op), weighted(weighted), shift(shift) {
    std::mt19937 random(11);
    const auto draw = [&] {
      return Arrays<T>{randoms<T>(graph.n_src * n.node, random),
                       randoms<T>(weighted ? graph.n_edges() : 0, random),
                       randoms<T>(graph.n_edges() * n.edge, random),
                       randoms<T>(graph.n_dst * n.own, random)};
    };
    in = draw();
    tangents = draw();
    for (T& w : in[1]) w = T(float(std::fabs(to_double(w)) + 0.25));  // no mean divides by zero
    g = randoms<T>(graph.n_dst * n.row(), random);
  }

  std::string name(const char* face) const {
    return std::string("agg ") + op_names[op] + (weighted ? " weighted " : " ") + face + ", " +
           graph.name + ", " + std::to_string(n.node) + "+" + std::to_string(n.edge) + "+" +
           std::to_string(n.own);
  }
  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    return upload_all<T>(arrays, shift);
  }
  std::vector<Device<T>> room() const { return room_for<T>(in, shift); }
  T* weights(std::vector<Device<T>>& arrays) const { return weighted ? arrays[1].get() : nullptr; }

  void test() {
    DeviceGraph d = to_device(graph);
    const std::tuple sizes(&d.view, n.node, n.edge, n.own, op);
    auto x = upload(in), dx = upload(tangents);
    Device<T> cotangent(g, shift), out(graph.n_dst * n.row(), shift);
    Device<int64_t> location(graph.n_dst * (n.node + n.edge));
    Device<Real<T>> degree(graph.n_dst);
    const bool extremum = op == min || op == max;

    const Oracle<double> truth{graph, n, op};
    const Oracle<float> plain{graph, n, op};
    const Oracle<std::complex<double>> truth_derivative{graph, n, op};
    const Oracle<std::complex<float>> plain_derivative{graph, n, op};
    const auto values = [&](auto zero, const Arrays<T>* t) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 4; ++a) v[a] = numbers<decltype(zero)>(in[a], t ? &(*t)[a] : nullptr);
      return v;
    };
    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const auto in64 = values(double(), nullptr);
    const auto in32 = values(float(), nullptr);
    const auto along64 = values(Complex(), &tangents);
    const auto along32 = values(ComplexFloat(), &tangents);

    // forward
    run_entry(Abi<T>::forward, Abi<T>::forward_bytes, sizes, x[0].get(), weights(x), x[2].get(),
              x[3].get(), out.get(), extremum ? location.get() : nullptr,
              op == mean ? degree.get() : nullptr);
    compare(name("forward"), out.host(), truth.forward(in64), doubles(plain.forward(in32)));
    if (extremum) {
      const auto got = location.host();
      bool same = true;
      for (int64_t i = 0; i < graph.n_dst; ++i)
        for (int64_t c = 0; c < n.node + n.edge; ++c)
          same = same && got[i * (n.node + n.edge) + c] == truth.winner(in64, i, c);
      check(same, name("location"));
    }
    if (op == mean && n.node) {
      std::vector<double> want;
      for (int64_t i = 0; i < graph.n_dst; ++i) want.push_back(truth.degree(in64, i, 0));
      std::vector<double> got = doubles(degree.host());
      check(worst(got, want) <= 100 * Type<Real<T>>::epsilon * (1 + graph.n_edges()),
            name("degree"));
    }

    // vjp: with the saved arrays of forward, without, and each gradient alone
    const auto want = truth.vjp(numbers<double>(g), in64);
    const auto plain_vjp = plain.vjp(numbers<float>(g), in32);
    for (const bool saved : {true, false}) {
      auto grad = room();
      run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), x[0].get(), weights(x),
                x[2].get(), x[3].get(), nullptr, saved && extremum ? location.get() : nullptr,
                saved && op == mean ? degree.get() : nullptr, grad[0].get(), weights(grad),
                grad[2].get(), grad[3].get());
      for (int a = 0; a < 4; ++a)
        compare(name("vjp") + " " + "xweo"[a], grad[a].host(), doubles(want[a]),
                doubles(plain_vjp[a]));
    }
    for (int a = 0; a < 4; ++a) {
      if (a == 1 && !weighted) continue;
      auto grad = room();
      const auto wanted = [&](int b) -> T* { return a == b ? grad[b].get() : nullptr; };
      run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), x[0].get(), weights(x),
                x[2].get(), x[3].get(), nullptr, nullptr, nullptr, wanted(0), wanted(1), wanted(2),
                wanted(3));
      compare(name("vjp, alone") + " " + "xweo"[a], grad[a].host(), doubles(want[a]),
              doubles(plain_vjp[a]));
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    Device<T> dout(graph.n_dst * n.row(), shift);
    run_entry(Abi<T>::jvp, Abi<T>::jvp_bytes, sizes, x[0].get(), weights(x), x[2].get(), x[3].get(),
              dx[0].get(), weights(dx), dx[2].get(), dx[3].get(), dout.get());
    const auto tangent = doubles(truth_derivative.forward(along64));
    compare(name("jvp"), dout.host(), tangent, doubles(plain_derivative.forward(along32)));
    check_adjoint(name("oracle"), g, tangent, want, tangents);

    // hvp
    auto grad = room();
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), x[0].get(), weights(x),
              x[2].get(), x[3].get(), dx[0].get(), weights(dx), dx[2].get(), dx[3].get(),
              grad[0].get(), weights(grad), grad[2].get(), grad[3].get());
    const auto want_hvp = truth_derivative.vjp(numbers<Complex>(g), along64);
    const auto plain_hvp = plain_derivative.vjp(numbers<ComplexFloat>(g), along32);
    for (int a = 0; a < 4; ++a)
      compare(name("hvp") + " " + "xweo"[a], grad[a].host(), doubles(want_hvp[a]),
              doubles(plain_hvp[a]));
  }

  // The bits of everything vjp and hvp give.
  std::vector<T> bits() {
    DeviceGraph d = to_device(graph);
    const std::tuple sizes(&d.view, n.node, n.edge, n.own, op);
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), x[0].get(), weights(x),
              x[2].get(), x[3].get(), nullptr, nullptr, nullptr, grad[0].get(), weights(grad),
              grad[2].get(), grad[3].get());
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), x[0].get(), weights(x),
              x[2].get(), x[3].get(), dx[0].get(), weights(dx), dx[2].get(), dx[3].get(),
              dgrad[0].get(), weights(dgrad), dgrad[2].get(), dgrad[3].get());
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto h = a.host();
        all.insert(all.end(), h.begin(), h.end());
      }
    return all;
  }
};

// agg_weighted and agg_simple are the same kernels; one call of each proves their arguments.
template <class T>
void test_names(const HostGraph& graph) {
  DeviceGraph d = to_device(graph);
  {
    Case<T> c(graph, {5, 0, 0}, mean, true);
    auto x = c.upload(c.in), grad = c.room();
    Device<T> g(c.g);
    run_entry(Abi<T>::weighted, Abi<T>::weighted_bytes, std::tuple(&d.view, int64_t(5), int(mean)),
              g.get(), x[0].get(), x[1].get(), nullptr, nullptr, nullptr, grad[0].get(),
              grad[1].get());
    Arrays<double> in;
    Arrays<float> in32;
    for (int a = 0; a < 4; ++a) in[a] = numbers<double>(c.in[a]), in32[a] = numbers<float>(c.in[a]);
    const auto want = Oracle<double>{graph, c.n, mean}.vjp(numbers<double>(c.g), in);
    const auto plain = Oracle<float>{graph, c.n, mean}.vjp(numbers<float>(c.g), in32);
    for (const int a : {0, 1})
      compare("agg_weighted_vjp", grad[a].host(), want[a], doubles(plain[a]));
  }
  {
    Case<T> c(graph, {3, 2, 0}, sum, false);
    auto x = c.upload(c.in), grad = c.room();
    Device<T> g(c.g);
    run_entry(Abi<T>::simple, Abi<T>::simple_bytes,
              std::tuple(&d.view, int64_t(3), int64_t(2), int(sum)), g.get(), x[0].get(),
              x[2].get(), nullptr, nullptr, grad[0].get(), grad[2].get());
    for (const int a : {0, 2})
      compare("agg_simple_hvp", grad[a].host(), std::vector<double>(c.in[a].size()),
              std::vector<double>(c.in[a].size()));
  }
}

// A gradient of x and own in one array. Sums of these numbers are exact in float32, but for Mean's.
template <class T>
void test_own_is_x(const HostGraph& graph, Sizes n, int op, size_t shift = 0) {
  Case<T> c(graph, n, op, true, shift);
  DeviceGraph d = to_device(graph);
  const std::tuple sizes(&d.view, n.node, n.edge, n.own, op);
  auto x = c.upload(c.in), dx = c.upload(c.tangents), grad = c.room(), apart = c.room();
  Device<T> g(c.g, shift);
  run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, g.get(), x[0].get(), x[1].get(), x[2].get(),
            x[0].get(), nullptr, nullptr, nullptr, grad[0].get(), grad[1].get(), grad[2].get(),
            grad[0].get());
  Arrays<double> in;
  Arrays<float> in32;
  for (int a = 0; a < 4; ++a) in[a] = numbers<double>(c.in[a]), in32[a] = numbers<float>(c.in[a]);
  auto want = Oracle<double>{graph, n, op}.vjp(numbers<double>(c.g), in);
  auto plain = Oracle<float>{graph, n, op}.vjp(numbers<float>(c.g), in32);
  for (size_t k = 0; k < want[0].size(); ++k) want[0][k] += want[3][k], plain[0][k] += plain[3][k];
  const auto got = grad[0].host();
  compare(c.name("vjp, own is x"), got, want[0], doubles(plain[0]));
  bool rounded_once = true;
  for (size_t k = 0; op != mean && k < got.size(); ++k)
    rounded_once = rounded_once && to_double(got[k]) == to_double(T(float(want[0][k])));
  check(rounded_once, c.name("vjp, own is x: rounded once"));

  for (const bool together : {true, false}) {
    auto& to = together ? grad : apart;
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, g.get(), x[0].get(), x[1].get(), x[2].get(),
              x[0].get(), dx[0].get(), dx[1].get(), dx[2].get(), dx[0].get(), to[0].get(),
              to[1].get(), to[2].get(), to[together ? 0 : 3].get());
  }
  const auto together = grad[0].host(), alone = apart[0].host();
  check(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(T)) == 0,
        c.name("hvp, own is x"));
}

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  for (const int op : {sum, mean, min, max}) {
    for (const HostGraph& graph : graphs) {
      Case<T>(graph, {6, 3, 2}, op, true).test();
      Case<T>(graph, {8, 16, 8}, op, false).test();
    }
    Case<T>(graphs[1], {8, 8, 0}, op, true, 1).test();
    Case<T>(graphs[1], {264, 0, 0}, op, true).test();
    Case<T>(graphs[1], {0, 5, 0}, op, false).test();
  }
  test_names<T>(graphs[1]);
  // a source and a destination whose edges are divided among several units of work
  const HostGraph hub = make_graph(
      "hub", 40, 40, true, [](int64_t i) { return i % 7 == 3 ? 0 : 1 + 60 / (1 + i); },
      [](int64_t i) { return i % 2 ? 0 : i; });
  for (const int op : {sum, mean, min, max})
    for (const HostGraph& graph : {hub, small_square(), without_edges(5, 5)}) {
      test_own_is_x<T>(graph, {5, 3, 5}, op);
      test_own_is_x<T>(graph, {8, 16, 8}, op);
    }
  test_own_is_x<T>(hub, {16, 8, 16}, sum, 1);
}

void test_determinism(const HostGraph& graph) {
  for (const int op : {sum, mean, max}) {
    Case<float> c(graph, {6, 3, 2}, op, true);
    check_same_bits(c);
  }
}

}  // namespace

int main() {
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
  test_type<float>(graphs);
  if (!short_run()) {
    test_type<double>(graphs);
    test_type<__half>(graphs);
    test_type<__nv_bfloat16>(graphs);
  }
  test_determinism(graphs[0]);
  return report();
}

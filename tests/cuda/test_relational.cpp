// SPDX-License-Identifier: MIT
// agg_relational against plain loops in float64: every face and type, with and without weights,
// basis and own features, on irregular graphs.
#include "support.h"

namespace {

enum { sum, mean };
constexpr const char* parts_of[] = {"x", "w", "coeff", "own"};

struct Sizes {
  int64_t features, own, relations, bases;
  int64_t blocks() const { return bases ? bases : relations; }
  int64_t row() const { return blocks() * features + own; }
};

// x [n_src, features], w [n_edges] or empty, coeff [relations, bases], own [n_dst, own]
template <class N>
using Arrays = std::array<std::vector<N>, 4>;

// ---- oracle ----

template <class N>
struct Oracle {
  const HostGraph& g;
  Sizes n;
  int op;
  const std::vector<int32_t>& types;

  int64_t relation(int64_t p) const { return types[g.row(p)]; }
  bool counts(int64_t p) const { return relation(p) >= 0 && relation(p) < n.relations; }
  N plain(const Arrays<N>& in, int64_t p) const { return in[1].empty() ? N(1) : in[1][g.row(p)]; }
  // The sum of the weights of the relation of edge p at its destination i.
  N total(const Arrays<N>& in, int64_t i, int64_t p) const {
    N s = 0;
    for (int64_t q = g.offsets[i]; q < g.offsets[i + 1]; ++q)
      if (relation(q) == relation(p)) s += plain(in, q);
    return s;
  }
  N weight(const Arrays<N>& in, int64_t i, int64_t p) const {
    return op == mean ? plain(in, p) / total(in, i, p) : plain(in, p);
  }
  N coefficient(const Arrays<N>& in, int64_t p, int64_t b) const {
    return n.bases ? in[2][relation(p) * n.bases + b] : N(relation(p) == b ? 1 : 0);
  }
  // f(destination, edge) for all edges that count
  void each(const auto& f) const {
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p)
        if (counts(p)) f(i, p);
  }

  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(g.n_dst * n.row());
    each([&](int64_t i, int64_t p) {
      const N v = weight(in, i, p);
      for (int64_t b = 0; b < n.blocks(); ++b)
        for (int64_t c = 0; c < n.features; ++c)
          out[i * n.row() + b * n.features + c] +=
              v * coefficient(in, p, b) * in[0][g.indices[p] * n.features + c];
    });
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t c = 0; c < n.own; ++c)
        out[(i + 1) * n.row() - n.own + c] = in[3][i * n.own + c];
    return out;
  }

  Arrays<N> vjp(const std::vector<N>& cotangent, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    std::vector<N> d(g.n_edges());
    each([&](int64_t i, int64_t p) {
      const N v = weight(in, i, p);
      for (int64_t b = 0; b < n.blocks(); ++b)
        for (int64_t c = 0; c < n.features; ++c) {
          const N y = cotangent[i * n.row() + b * n.features + c];
          const int64_t from = g.indices[p] * n.features + c;
          grad[0][from] += v * coefficient(in, p, b) * y;
          if (n.bases) grad[2][relation(p) * n.bases + b] += v * in[0][from] * y;
          d[p] += coefficient(in, p, b) * in[0][from] * y;
        }
    });
    if (!in[1].empty())
      each([&](int64_t i, int64_t p) {
        N m = 0;
        for (int64_t q = g.offsets[i]; q < g.offsets[i + 1]; ++q)
          if (relation(q) == relation(p)) m += weight(in, i, q) * d[q];
        grad[1][g.row(p)] = op == mean ? (d[p] - m) / total(in, i, p) : d[p];
      });
    for (int64_t i = 0; i < g.n_dst; ++i)
      for (int64_t c = 0; c < n.own; ++c)
        grad[3][i * n.own + c] = cotangent[(i + 1) * n.row() - n.own + c];
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define FACE(face, type)                                                  \
  static constexpr auto face = gnograd_cuda_agg_relational_##face##_##type; \
  static constexpr auto face##_bytes = gnograd_cuda_agg_relational_##face##_workspace_bytes_##type
#define ABI(T, type)   \
  template <>          \
  struct Abi<T> {      \
    FACE(forward, type); \
    FACE(vjp, type);     \
    FACE(jvp, type);     \
    FACE(hvp, type);     \
  };
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

template <class T>
struct Case {
  const HostGraph& graph;
  Sizes n;
  int op;
  bool weighted;
  size_t shift;  // offset of all arrays, in elements

  std::vector<int32_t> types;
  Arrays<T> in, tangents;
  std::vector<T> g;

  // The last relation has no edge; where it is told, some edges have none that there is.
  Case(const HostGraph& graph, Sizes n, int op, bool weighted, size_t shift = 0,
       bool unknown = false)
      : graph(graph), n(n), op(op), weighted(weighted), shift(shift), types(graph.n_edges()) {
    std::mt19937 random(11);
    const auto draw = [&] {
      return Arrays<T>{randoms<T>(graph.n_src * n.features, random),
                       randoms<T>(weighted ? graph.n_edges() : 0, random),
                       randoms<T>(n.relations * n.bases, random),
                       randoms<T>(graph.n_dst * n.own, random)};
    };
    in = draw();
    tangents = draw();
    for (T& w : in[1]) w = T(float(std::fabs(to_double(w)) + 0.25));  // no mean divides by zero
    g = randoms<T>(graph.n_dst * n.row(), random);
    for (int32_t& r : types) r = int32_t(random() % std::max<int64_t>(1, n.relations - 1));
    if (unknown)
      for (size_t e = 0; e < types.size(); e += 5) types[e] = e % 2 ? -1 : int32_t(n.relations);
  }

  std::string name(const std::string& face) const {
    return std::string("relational ") + (op == mean ? "Mean " : "Sum ") +
           (weighted ? "weighted " : "") + face + ", " + graph.name + ", " +
           std::to_string(n.features) + "+" + std::to_string(n.own) + ", " +
           std::to_string(n.relations) + " relations, " + std::to_string(n.bases) + " bases";
  }
  // An input that is not there is null.
  T* at(std::vector<Device<T>>& arrays, int a) const {
    const bool there[] = {true, weighted, n.bases > 0, n.own > 0};
    return there[a] ? arrays[a].get() : nullptr;
  }

  void test() {
    DeviceGraph d = to_device(graph);
    Device<int32_t> kinds(types);
    const std::tuple sizes(&d.view, n.features, n.own, n.relations, n.bases,
                           (const int32_t*)kinds.get(), op);
    auto x = upload_all<T>(in, shift), dx = upload_all<T>(tangents, shift);
    Device<T> cotangent(g, shift), out(graph.n_dst * n.row(), shift);

    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const Oracle<double> truth{graph, n, op, types};
    const Oracle<float> plain{graph, n, op, types};
    const Oracle<Complex> truth_derivative{graph, n, op, types};
    const Oracle<ComplexFloat> plain_derivative{graph, n, op, types};
    const auto values = [&](auto zero, const Arrays<T>* t) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 4; ++a) v[a] = numbers<decltype(zero)>(in[a], t ? &(*t)[a] : nullptr);
      return v;
    };
    const auto in64 = values(double(), nullptr);
    const auto in32 = values(float(), nullptr);
    const auto along64 = values(Complex(), &tangents);
    const auto along32 = values(ComplexFloat(), &tangents);

    run_entry(Abi<T>::forward, Abi<T>::forward_bytes, sizes, at(x, 0), at(x, 1), at(x, 2),
              at(x, 3), out.get());
    compare(name("forward"), out.host(), truth.forward(in64), doubles(plain.forward(in32)));

    // vjp: all gradients, and each alone
    const auto want = truth.vjp(numbers<double>(g), in64);
    const auto plain_vjp = plain.vjp(numbers<float>(g), in32);
    for (int alone = -1; alone < 4; ++alone) {
      auto grad = room_for<T>(in, shift);
      const auto wanted = [&](int a) { return alone < 0 || alone == a ? at(grad, a) : nullptr; };
      run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1),
                at(x, 2), at(x, 3), wanted(0), wanted(1), wanted(2), wanted(3));
      for (int a = 0; a < 4; ++a)
        if (wanted(a))
          compare(name("vjp ") + " " + parts_of[a], grad[a].host(), want[a],
                  doubles(plain_vjp[a]));
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    Device<T> dout(graph.n_dst * n.row(), shift);
    run_entry(Abi<T>::jvp, Abi<T>::jvp_bytes, sizes, at(x, 0), at(x, 1), at(x, 2), at(x, 3),
              at(dx, 0), at(dx, 1), at(dx, 2), at(dx, 3), dout.get());
    const auto tangent = doubles(truth_derivative.forward(along64));
    compare(name("jvp"), dout.host(), tangent, doubles(plain_derivative.forward(along32)));
    check_adjoint(name("oracle"), g, tangent, want, tangents);

    auto grad = room_for<T>(in, shift);
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1), at(x, 2),
              at(x, 3), at(dx, 0), at(dx, 1), at(dx, 2), at(dx, 3), at(grad, 0), at(grad, 1),
              at(grad, 2), at(grad, 3));
    const auto want_hvp = truth_derivative.vjp(numbers<Complex>(g), along64);
    const auto plain_hvp = plain_derivative.vjp(numbers<ComplexFloat>(g), along32);
    for (int a = 0; a < 4; ++a)
      if (at(grad, a))
        compare(name("hvp") + " " + parts_of[a], grad[a].host(), doubles(want_hvp[a]),
                doubles(plain_hvp[a]));
  }

  // The bits of everything vjp and hvp give.
  std::vector<T> bits() {
    DeviceGraph d = to_device(graph);
    Device<int32_t> kinds(types);
    const std::tuple sizes(&d.view, n.features, n.own, n.relations, n.bases,
                           (const int32_t*)kinds.get(), op);
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents);
    auto grad = room_for<T>(in), dgrad = room_for<T>(in);
    Device<T> cotangent(g);
    run_entry(Abi<T>::vjp, Abi<T>::vjp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1), at(x, 2),
              at(x, 3), at(grad, 0), at(grad, 1), at(grad, 2), at(grad, 3));
    run_entry(Abi<T>::hvp, Abi<T>::hvp_bytes, sizes, cotangent.get(), at(x, 0), at(x, 1), at(x, 2),
              at(x, 3), at(dx, 0), at(dx, 1), at(dx, 2), at(dx, 3), at(dgrad, 0), at(dgrad, 1),
              at(dgrad, 2), at(dgrad, 3));
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
  for (const int op : {sum, mean}) {
    for (const HostGraph& graph : graphs) {
      Case<T>(graph, {6, 2, 4, 3}, op, true).test();
      Case<T>(graph, {8, 8, 3, 0}, op, false).test();
    }
    Case<T>(graphs[1], {8, 0, 4, 2}, op, true, 1).test();
    Case<T>(graphs[1], {264, 0, 2, 2}, op, true).test();
    Case<T>(graphs[1], {0, 5, 3, 2}, op, true).test();
    Case<T>(graphs[0], {3, 1, 40, 33}, op, true).test();
    Case<T>(graphs[0], {4, 0, 4, 2}, op, true, 0, true).test();
    Case<T>(graphs[0], {4, 0, 4, 0}, op, true, 0, true).test();
  }
}

void test_determinism(const HostGraph& graph) {
  for (const int op : {sum, mean}) {
    Case<float> c(graph, {6, 2, 4, 3}, op, true);
    check_same_bits(c);
  }
}

}  // namespace

int main() {
  require_device();
  const std::vector<HostGraph> graphs{power_law(),         small_square(),
                                      without_edges(3, 5), without_edges(0, 2),
                                      without_edges(4, 0), without_edges(0, 0),
                                      with_room(power_law(), 150), with_room(small_square(), 7),
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

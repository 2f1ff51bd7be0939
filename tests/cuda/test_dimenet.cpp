// SPDX-License-Identifier: MIT
// agg_edge_to_edge against plain loops over triplets in float64: every face, type and exclusion.
#include "support.h"

namespace {

enum { reverse_edge, same_node, none };

struct Sizes {
  int64_t spherical, radial, mid, emb;
  int exclude;

  int64_t first() const { return spherical * radial; }
};

// vector [n_edges, 3], rbf [n_edges, spherical radial], embedding [n_edges, emb],
// weights [spherical radial + emb, mid]
template <class N>
using Arrays = std::array<std::vector<N>, 4>;

// A graph whose nodes lie in space, in a periodic cell.
struct Molecule {
  HostGraph graph;
  std::vector<int64_t> src, dst;  // ends of each row of the edge table
  std::vector<double> vector;     // multiples of 1/16, which all types hold
};

Molecule place(HostGraph graph) {
  Molecule m{std::move(graph), {}, {}, {}};
  std::mt19937 random(9);
  const auto at = randoms<double>(3 * m.graph.n_src, random);
  m.src.resize(m.graph.n_edges(), -1);  // rows that no edge has meet none
  m.dst.resize(m.graph.n_edges(), -2);
  m.vector.resize(3 * m.graph.n_edges(), 0.5);
  for (int64_t i = 0; i < m.graph.n_dst; ++i)
    for (int64_t p = m.graph.offsets[i]; p < m.graph.offsets[i + 1]; ++p) {
      const int64_t e = m.graph.row(p), j = m.graph.indices[p];
      m.src[e] = j;
      m.dst[e] = i;
      // some edges go to the next cell; self-loops in their own have no length
      const int image = random() % 4 ? 0 : 1;
      for (int c = 0; c < 3; ++c) m.vector[3 * e + c] = at[3 * i + c] - at[3 * j + c] + image;
    }
  return m;
}

// Nodes with several edges in both directions, with repeated edges and self-loops.
Molecule crowd(int64_t room = 0) {
  auto random = std::make_shared<std::mt19937>(11);
  const HostGraph graph = make_graph(
      "crowd", 8, 8, true, [](int64_t i) { return i % 4 == 3 ? 0 : 5; },
      [=](int64_t) { return int64_t((*random)() % 8); });
  return place(room ? with_room(graph, room) : graph);
}
// More edges at one node than a tile has, on both sides.
Molecule hub() {
  auto random = std::make_shared<std::mt19937>(12);
  return place(make_graph(
      "hub", 14, 14, false, [](int64_t i) { return i ? 3 : 11; },
      [=](int64_t i) { return i ? 0 : int64_t((*random)() % 14); }));
}
// Molecule with so many edges at a node that it is the work of several blocks, on both sides.
Molecule crossing() {
  auto random = std::make_shared<std::mt19937>(13);
  return place(make_graph(
      "crossing", 14, 14, true, [](int64_t i) { return i ? 3 : 140; },
      [=](int64_t i) { return i ? 0 : int64_t((*random)() % 14); }));
}
// More nodes than pieces of work, or than are summed at once.
Molecule ring(int64_t n) {
  return place(make_graph(
      "ring of " + std::to_string(n), n, n, false, [](int64_t) { return 1; },
      [=](int64_t i) { return (i + n - 1) % n; }));
}
Molecule empty(int64_t n) { return place(without_edges(n, n)); }

// ---- oracle ----

template <class N>
struct Oracle {
  using R = typename RealPart<N>::type;
  const Molecule& m;
  Sizes s;
  // Error given to cosines, to see what it comes to: all alike, or with alternating signs.
  double off = 0;
  bool alternating = false;

  struct Edge {
    N unit[3], length;
    bool turns;
  };
  Edge edge(const Arrays<N>& in, int64_t e) const {
    const N* v = in[0].data() + 3 * e;
    const N length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    if (std::real(length) == 0) return {{}, N(0), false};
    return {{v[0] / length, v[1] / length, v[2] / length}, length, true};
  }
  bool counts(int64_t in, int64_t out) const {
    if (m.dst[in] != m.src[out]) return false;
    if (s.exclude == none || m.src[in] != m.dst[out]) return true;
    if (s.exclude == same_node) return false;
    for (int c = 0; c < 3; ++c)
      if (m.vector[3 * in + c] + m.vector[3 * out + c] != 0) return true;
    return false;
  }

  // Parts of a triplet.
  struct Triplet {
    int64_t in, out;
    Edge e_in, e_out;
    std::vector<N> y, dy;  // [spherical]
    std::vector<N> mid;    // [mid]
  };
  N rbf(const Arrays<N>& in, int64_t e, int64_t row) const { return in[1][e * s.first() + row]; }
  N x(const Arrays<N>& in, int64_t e, int64_t n) const { return in[2][e * s.emb + n]; }
  N w1(const Arrays<N>& in, int64_t row, int64_t k) const { return in[3][row * s.mid + k]; }
  N w2(const Arrays<N>& in, int64_t n, int64_t k) const { return w1(in, s.first() + n, k); }

  template <class F>
  void for_triplets(const Arrays<N>& in, F f) const {
    for (int64_t out = 0; out < int64_t(m.src.size()); ++out)
      for (int64_t from = 0; from < int64_t(m.src.size()); ++from) {
        if (!counts(from, out)) continue;
        Triplet t{from, out, edge(in, from), edge(in, out), {}, {}, {}};
        N c = t.e_in.unit[0] * t.e_out.unit[0] + t.e_in.unit[1] * t.e_out.unit[1] +
              t.e_in.unit[2] * t.e_out.unit[2];
        const R shift = R(alternating && (from + out) % 2 ? -off : off);
        c += shift * (N(1) + c - std::real(c));  // and its derivative, in proportion
        std::vector<N> p{N(1), c}, slope{N(0), N(1)};
        for (int64_t l = 2; l < s.spherical; ++l) {
          p.push_back((R(2 * l - 1) * c * p[l - 1] - R(l - 1) * p[l - 2]) / R(l));
          slope.push_back(slope[l - 2] + R(2 * l - 1) * p[l - 1]);
        }
        for (int64_t l = 0; l < s.spherical; ++l) {
          const bool turns = l == 0 || (t.e_in.turns && t.e_out.turns);
          const R norm = turns ? std::sqrt(R(2 * l + 1) / R(4 * 3.14159265358979323846)) : R(0);
          t.y.push_back(norm * p[l]);
          t.dy.push_back(norm * slope[l]);
        }
        t.mid.resize(s.mid);
        for (int64_t k = 0; k < s.mid; ++k)
          for (int64_t row = 0; row < s.first(); ++row)
            t.mid[k] += w1(in, row, k) * rbf(in, from, row) * t.y[row / s.radial];
        f(t);
      }
  }

  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(m.src.size() * s.emb);
    for_triplets(in, [&](const Triplet& t) {
      for (int64_t n = 0; n < s.emb; ++n) {
        N f = 0;
        for (int64_t k = 0; k < s.mid; ++k) f += w2(in, n, k) * t.mid[k];
        out[t.out * s.emb + n] += x(in, t.in, n) * f;
      }
    });
    return out;
  }

  Arrays<N> vjp(const std::vector<N>& g, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    std::vector<N> turn(in[0].size());
    for_triplets(in, [&](const Triplet& t) {
      std::vector<N> to_mid(s.mid);
      for (int64_t n = 0; n < s.emb; ++n) {
        const N gn = g[t.out * s.emb + n], h = gn * x(in, t.in, n);
        for (int64_t k = 0; k < s.mid; ++k) {
          grad[2][t.in * s.emb + n] += gn * w2(in, n, k) * t.mid[k];
          grad[3][(s.first() + n) * s.mid + k] += h * t.mid[k];
          to_mid[k] += h * w2(in, n, k);
        }
      }
      N to_cos = 0;
      for (int64_t row = 0; row < s.first(); ++row) {
        const int64_t l = row / s.radial;
        N back = 0;
        for (int64_t k = 0; k < s.mid; ++k) {
          back += w1(in, row, k) * to_mid[k];
          grad[3][row * s.mid + k] += rbf(in, t.in, row) * t.y[l] * to_mid[k];
        }
        grad[1][t.in * s.first() + row] += t.y[l] * back;
        to_cos += t.dy[l] * rbf(in, t.in, row) * back;
      }
      for (int c = 0; c < 3; ++c) {
        turn[3 * t.in + c] += to_cos * t.e_out.unit[c];
        turn[3 * t.out + c] += to_cos * t.e_in.unit[c];
      }
    });
    for (int64_t e = 0; e < int64_t(m.src.size()); ++e) {
      const Edge d = edge(in, e);
      N along = 0;
      for (int c = 0; c < 3; ++c) along += d.unit[c] * turn[3 * e + c];
      for (int c = 0; c < 3; ++c)
        if (d.turns) grad[0][3 * e + c] = (turn[3 * e + c] - d.unit[c] * along) / d.length;
    }
    return grad;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define FACE(face, type)                                                      \
  static constexpr auto face = gnograd_cuda_agg_edge_to_edge_##face##_##type; \
  static constexpr auto face##_bytes =                                        \
      gnograd_cuda_agg_edge_to_edge_##face##_workspace_bytes_##type;
#define ABI(T, type)    \
  template <>           \
  struct Abi<T> {       \
    FACE(forward, type) \
    FACE(vjp, type)     \
    FACE(jvp, type)     \
    FACE(hvp, type)     \
  };
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

#define CALL(face, ...)                         \
  run_entry(Abi<T>::face, Abi<T>::face##_bytes, \
            std::tuple(&d.view, s.spherical, s.radial, s.mid, s.emb, s.exclude), __VA_ARGS__)

template <class T>
struct Case {
  const Molecule& m;
  Sizes s;
  size_t shift;  // offset of all arrays, in elements

  Arrays<T> in, tangents;
  std::vector<T> g;

  Case(const Molecule& m, Sizes s, size_t shift = 0) : m(m), s(s), shift(shift) {
    std::mt19937 random(23);
    const int64_t n = m.graph.n_edges();
    // about one when summed over what they are multiplied with
    const double narrow = 1 / std::sqrt(double(s.radial)), wide = 1 / std::sqrt(double(s.mid));
    const auto draw = [&] {
      return Arrays<T>{randoms<T>(3 * n, random), randoms<T>(n * s.first(), random, narrow),
                       randoms<T>(n * s.emb, random),
                       randoms<T>((s.first() + s.emb) * s.mid, random, wide)};
    };
    in = draw();
    for (int64_t i = 0; i < 3 * n; ++i) in[0][i] = T(float(m.vector[i]));
    tangents = draw();
    g = randoms<T>(n * s.emb, random);
  }

  std::string name(const std::string& face) const {
    return face + ", " + m.graph.name + ", " + std::to_string(s.spherical) + " " +
           std::to_string(s.radial) + " " + std::to_string(s.mid) + " " + std::to_string(s.emb) +
           " exclude " + std::to_string(s.exclude);
  }
  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    return upload_all<T>(arrays, shift);
  }
  std::vector<Device<T>> room() const { return room_for<T>(in, shift); }

  // Most that each of the results of `face` changes by the roundings of cosines. P_l' is l (l + 1)
  // / 2 where vectors are parallel, 45 at l = 9, so a cosine that is off by its roundings is what
  // matters there: the ring of two nodes has no others. One evaluation of the formula may happen to
  // give exactly -1, as the plain one in float32 does and the kernel does not where multiply-adds
  // are fused. To first order, in roundings of 2^-24: a component of a direction has 1 by the
  // division by the largest one, 1.5 of the squares' sum (half of 3), 1 of the square root, 1 of
  // the division; two directions, and 3 of products and sums between them: 12 at most.
  template <class Face>
  std::array<double, 4> amplified(const Face& face) const {
    std::array<double, 4> change{};
    if (std::is_same_v<T, double>) return change;
    using Complex = std::complex<double>;
    const auto exact = face(Oracle<Complex>{m, s});
    for (const bool alternating : {false, true}) {
      const auto moved = face(Oracle<Complex>{m, s, 12 * 0x1p-24, alternating});
      for (size_t a = 0; a < exact.size(); ++a)
        change[a] = std::max(change[a], worst(moved[a], exact[a]));
    }
    return change;
  }

  // Each gradient alone too, and each tangent.
  void test(bool thorough = false) {
    DeviceGraph d = to_device(m.graph);
    auto x = upload(in), dx = upload(tangents);
    Device<T> cotangent(g, shift), out(g.size(), shift), dout(g.size(), shift);

    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const Oracle<double> truth{m, s};
    const Oracle<float> plain{m, s};
    const Oracle<Complex> truth_derivative{m, s};
    const Oracle<ComplexFloat> plain_derivative{m, s};
    const auto values = [&](auto zero, const Arrays<T>* t) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 4; ++a) v[a] = numbers<decltype(zero)>(in[a], t ? &(*t)[a] : nullptr);
      return v;
    };
    const auto in64 = values(double(), nullptr);
    const auto in32 = values(float(), nullptr);
    const auto along64 = values(Complex(), &tangents);
    const auto along32 = values(ComplexFloat(), &tangents);

    // the faces in complex numbers, whose imaginary parts are derivatives
    const auto real_parts = [](const std::vector<Complex>& x) {
      std::vector<double> out(x.size());
      std::transform(x.begin(), x.end(), out.begin(), real_part<Complex>);
      return out;
    };
    const auto values_of = [&](const Oracle<Complex>& o) {
      return std::array{real_parts(o.forward(along64))};
    };
    const auto tangents_of = [&](const Oracle<Complex>& o) {
      return std::array{doubles(o.forward(along64))};
    };
    const auto gradients_of = [&](const Oracle<Complex>& o) {
      const auto grad = o.vjp(numbers<Complex>(g), along64);
      return std::array{real_parts(grad[0]), real_parts(grad[1]), real_parts(grad[2]),
                        real_parts(grad[3])};
    };

    CALL(forward, x[0].get(), x[1].get(), x[2].get(), x[3].get(), out.get());
    compare(name("forward"), out.host(), truth.forward(in64), doubles(plain.forward(in32)),
            amplified(values_of)[0]);

    const auto want = truth.vjp(numbers<double>(g), in64);
    const auto plain_vjp = plain.vjp(numbers<float>(g), in32);
    const auto in_vjp = amplified(gradients_of);
    for (int alone = -1; alone < (thorough ? 4 : 0); ++alone) {
      auto grad = room();
      const auto wanted = [&](int a) { return alone < 0 || alone == a ? grad[a].get() : nullptr; };
      CALL(vjp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), x[3].get(), wanted(0),
           wanted(1), wanted(2), wanted(3));
      for (int a = 0; a < 4; ++a)
        if (wanted(a))
          compare(name("vjp") + " " + std::to_string(a) + (alone < 0 ? "" : " alone"),
                  grad[a].host(), want[a], doubles(plain_vjp[a]), in_vjp[a]);
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    CALL(jvp, x[0].get(), x[1].get(), x[2].get(), x[3].get(), dx[0].get(), dx[1].get(), dx[2].get(),
         dx[3].get(), dout.get());
    const auto tangent = doubles(truth_derivative.forward(along64));
    compare(name("jvp"), dout.host(), tangent, doubles(plain_derivative.forward(along32)),
            amplified(tangents_of)[0]);
    check_adjoint(name("oracle"), g, tangent, want, tangents);

    for (int alone = -1; alone < (thorough ? 4 : 0); ++alone) {
      Arrays<T> t;
      for (int a = 0; a < 4; ++a)
        if (alone < 0 || alone == a) t[a] = tangents[a];
      const auto want_hvp = truth_derivative.vjp(numbers<Complex>(g), values(Complex(), &t));
      const auto plain_hvp =
          plain_derivative.vjp(numbers<ComplexFloat>(g), values(ComplexFloat(), &t));
      const auto in_hvp = amplified([&](const Oracle<Complex>& o) {
        const auto grad = o.vjp(numbers<Complex>(g), values(Complex(), &t));
        return std::array{doubles(grad[0]), doubles(grad[1]), doubles(grad[2]), doubles(grad[3])};
      });
      const auto along = [&](int a) { return alone < 0 || alone == a ? dx[a].get() : nullptr; };
      auto grad = room();
      CALL(hvp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), x[3].get(), along(0), along(1),
           along(2), along(3), grad[0].get(), grad[1].get(), grad[2].get(), grad[3].get());
      for (int a = 0; a < 4; ++a)
        compare(name("hvp") + " " + std::to_string(a) +
                    (alone < 0 ? "" : " along " + std::to_string(alone)),
                grad[a].host(), doubles(want_hvp[a]), doubles(plain_hvp[a]), in_hvp[a]);
    }
  }

  // The bits of everything vjp and hvp give.
  std::vector<T> bits() {
    DeviceGraph d = to_device(m.graph);
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    CALL(vjp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), x[3].get(), grad[0].get(),
         grad[1].get(), grad[2].get(), grad[3].get());
    CALL(hvp, cotangent.get(), x[0].get(), x[1].get(), x[2].get(), x[3].get(), dx[0].get(),
         dx[1].get(), dx[2].get(), dx[3].get(), dgrad[0].get(), dgrad[1].get(), dgrad[2].get(),
         dgrad[3].get());
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
void test_type() {
  const Molecule molecules[] = {crowd(), hub(), ring(70), ring(2), empty(3), empty(0)};
  for (const int exclude : {reverse_edge, same_node, none})
    Case<T>(molecules[0], {3, 2, 5, 20, exclude}).test(exclude == reverse_edge);
  Case<T>(molecules[0], {7, 6, 8, 64, reverse_edge}).test();
  Case<T>(molecules[0], {10, 2, 11, 70, reverse_edge}, 1).test(true);
  Case<T>(molecules[0], {1, 1, 1, 1, none}).test();
  Case<T>(molecules[1], {4, 1, 2, 9, reverse_edge}).test();
  Case<T>(molecules[1], {7, 6, 8, 64, same_node}).test();
  Case<T>(crossing(), {3, 1, 2, 9, reverse_edge}).test();
  Case<T>(molecules[2], {2, 1, 2, 5, reverse_edge}).test();
  if (!short_run()) Case<T>(molecules[3], {10, 16, 64, 512, none}).test();  // the largest sizes
  for (const Molecule& m :
       {empty(3), empty(0), crowd(40), place(with_room(without_edges(3, 3), 5))})
    Case<T>(m, {3, 2, 5, 20, reverse_edge}).test(true);
}

// Weights so large that there are fewer pieces of work than nodes; and so many nodes that a unit's
// is found in three steps.
void test_pieces() {
  const Molecule m = ring(40), many = ring(1100);
  Case<float>(m, {1, 1, 64, 512, none}).test();
  Case<float>(many, {2, 1, 2, 5, reverse_edge}).test();
}

// The bound of the ring of two nodes, the loosest, still finds what TF32 would make of the
// products: every weight off by up to 2^-11 of itself. (The gradient to the vectors is zero there.)
void test_planted_error() {
  const Molecule m = ring(2);
  Case<float> c(m, {10, 16, 64, 512, none});
  Arrays<float> wrong = c.in;
  std::mt19937 random(41);
  std::uniform_real_distribution<float> bits(-0x1p-11f, 0x1p-11f);
  for (float& w : wrong[3]) w *= 1 + bits(random);
  Arrays<double> x, y;
  for (int a = 0; a < 4; ++a) x[a] = numbers<double>(c.in[a]), y[a] = numbers<double>(wrong[a]);
  const Oracle<double> oracle{m, c.s};
  const auto g = numbers<double>(c.g);
  const auto want = oracle.vjp(g, x), got = oracle.vjp(g, y);
  const auto amplified = c.amplified([&](const Oracle<std::complex<double>>& o) {
    Arrays<std::complex<double>> z;
    for (int a = 0; a < 4; ++a) z[a] = numbers<std::complex<double>>(c.in[a]);
    const auto grad = o.vjp(numbers<std::complex<double>>(c.g), z);
    std::array<std::vector<double>, 4> parts;
    for (int a = 0; a < 4; ++a)
      for (const auto& v : grad[a]) parts[a].push_back(v.real());
    return parts;
  });
  for (int a = 1; a < 4; ++a) {
    const double error = worst(got[a], want[a]);
    const double allowed = allowed_error<float>(want[a], want[a], amplified[a]);
    char text[100];
    std::snprintf(text, sizeof text, "a planted error of %.2e in gradient %d, allowed %.2e", error,
                  a, allowed);
    check(error > 2 * allowed, text);
  }
}

void test_determinism() {
  const Molecule m = crowd();
  Case<float> c(m, {7, 2, 8, 64, reverse_edge});
  check_same_bits(c);
}

void test_refusals() {
  const Molecule m = empty(2);
  DeviceGraph d = to_device(m.graph);
  const Sizes wrong[] = {{0, 6, 8, 64, none},  {11, 6, 8, 64, none}, {7, 17, 8, 64, none},
                         {7, 6, 65, 64, none}, {7, 6, 8, 513, none}, {7, 6, 8, 64, 3}};
  for (const Sizes& s : wrong)
    check(gnograd_cuda_agg_edge_to_edge_forward_f32(
              &d.view, s.spherical, s.radial, s.mid, s.emb, s.exclude, nullptr, nullptr, nullptr,
              nullptr, nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
          "a size or code beyond its range is refused");
  d.view.n_src = 3;
  check(gnograd_cuda_agg_edge_to_edge_forward_f32(&d.view, 7, 6, 8, 64, none, nullptr, nullptr,
                                                  nullptr, nullptr, nullptr, nullptr, 0,
                                                  nullptr) == GNOGRAD_CUDA_VALUE,
        "a bipartite graph is refused");
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  test_pieces();
  if (!short_run()) {
    test_type<double>();
    test_type<__half>();
    test_type<__nv_bfloat16>();
    test_planted_error();
    test_determinism();
  }
  test_refusals();
  return report();
}

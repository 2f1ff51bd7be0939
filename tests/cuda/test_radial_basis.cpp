// SPDX-License-Identifier: MIT
// radial_basis against its formula in long double, with the standard library's Bessel functions,
// and differences of it.
#include "support.h"

namespace {

using Long = long double;

struct Sizes {
  int64_t spherical, radial;
  int exponent;

  int64_t functions() const { return radial * (1 + spherical); }
};

// ---- oracle ----

// The n-th zero of j_l, by halving.
Long zero_of(int l, int n) {
  Long at = 0.5L, step = 0.25L;
  for (int found = -1;;) {
    Long low = at, high = at + step;
    if ((std::sph_bessel(l, low) > 0) != (std::sph_bessel(l, high) > 0) && ++found == n) {
      const bool positive = std::sph_bessel(l, low) > 0;
      for (int k = 0; k < 80; ++k) {
        const Long middle = (low + high) / 2;
        ((std::sph_bessel(l, middle) > 0) == positive ? low : high) = middle;
      }
      return (low + high) / 2;
    }
    at = high;
  }
}

struct Oracle {
  Sizes s;
  std::vector<Long> zeros, norms;  // [spherical, radial]

  explicit Oracle(Sizes s) : s(s) {
    for (int l = 0; l < s.spherical; ++l)
      for (int n = 0; n < s.radial; ++n) {
        zeros.push_back(zero_of(l, n));
        norms.push_back(std::sqrt(2.0L) / std::fabs(std::sph_bessel(l + 1, zeros.back())));
      }
  }
  Long value(int64_t c, Long x, Long w) const {
    if (!(x > 0 && x < 1)) return 0;
    const Long p = s.exponent + 1;
    const Long u = 1 - (p + 1) * (p + 2) / 2 * std::pow(x, p) + p * (p + 2) * std::pow(x, p + 1) -
                   p * (p + 1) / 2 * std::pow(x, p + 2);
    if (c < s.radial) return u * std::sin(w * x) / x;
    const int64_t i = c - s.radial;
    return u * norms[i] * std::sph_bessel(unsigned(i / s.radial), zeros[i] * x) / x;
  }
  // Slope from four differences: wrong by h^4 times a fifth derivative.
  template <class F>
  static Long slope(F f) {
    const Long h = 1e-4L;
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
  }
  // Steps in x are relative to it.
  Long by_x(int64_t c, Long x, Long w) const {
    if (x <= 0 || x >= 1) return 0;
    return slope([&](Long h) { return value(c, x + h * x, w); }) / x;
  }
  Long by_w(int64_t c, Long x, Long w) const {
    return c < s.radial ? slope([&](Long h) { return value(c, x, w + h); }) : 0;
  }
  Long by_xx(int64_t c, Long x, Long w) const {
    if (x <= 0 || x >= 1) return 0;
    return slope([&](Long h) { return by_x(c, x + h * x, w); }) / x;
  }
  Long by_xw(int64_t c, Long x, Long w) const {
    return c < s.radial ? slope([&](Long h) { return by_x(c, x, w + h); }) : 0;
  }
  Long by_ww(int64_t c, Long x, Long w) const {
    return c < s.radial ? slope([&](Long h) { return by_w(c, x, w + h); }) : 0;
  }
};

// ---- the library ----

template <class T>
struct Abi;
#define FACE(face, type)                                                  \
  static constexpr auto face = gnograd_cuda_radial_basis_##face##_##type; \
  static constexpr auto face##_bytes = gnograd_cuda_radial_basis_##face##_workspace_bytes_##type;
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
            std::tuple(int64_t(x.size()), s.spherical, s.radial, s.exponent), __VA_ARGS__)

// Within rounding to T, and what differences of this order leave of the largest number of its row.
template <class T>
void near(const std::string& what, const std::vector<T>& got, const std::vector<Long>& want,
          int64_t row, double tolerance) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double size = 0;
    for (size_t k = i / row * row; k < std::min<size_t>((i / row + 1) * row, want.size()); ++k)
      size = std::max(size, double(std::fabs(want[k])));
    const double allowed = Type<T>::epsilon * std::fabs(double(want[i])) + tolerance * size;
    const double error = std::fabs(to_double(got[i]) - double(want[i]));
    if (!(error <= allowed)) worst = std::max(worst, error == error ? error : INFINITY);
  }
  char text[200];
  std::snprintf(text, sizeof text, "%s %s: error %.2e", Type<T>::name, what.c_str(), worst);
  check(worst == 0, text);
}

template <class T>
void test(Sizes s, std::vector<double> distances) {
  std::mt19937 random(5);
  std::vector<T> x, w;
  for (const double d : distances) x.push_back(T(d));
  for (int n = 1; n <= s.radial; ++n) w.push_back(T(3.14159 * n));
  const int64_t n_edges = int64_t(x.size()), n_sbf = s.spherical * s.radial;
  const auto g_rbf = randoms<T>(n_edges * s.radial, random);
  const auto g_sbf = randoms<T>(n_edges * n_sbf, random);
  const auto x_dot = randoms<T>(n_edges, random), w_dot = randoms<T>(s.radial, random);
  const Oracle oracle(s);

  struct Results {
    std::vector<Long> rbf, sbf, rbf_dot, sbf_dot, grad_x, grad_w, grad_x_dot, grad_w_dot;
  } want;
  want.grad_w.resize(s.radial);
  want.grad_w_dot.resize(s.radial);
  for (int64_t e = 0; e < n_edges; ++e) {
    const Long r = to_double(x[e]), along = to_double(x_dot[e]);
    Long to_x = 0, to_x_dot = 0;
    for (int64_t c = 0; c < s.functions(); ++c) {
      const bool first = c < s.radial;
      const Long k = first ? to_double(w[c]) : 0, k_dot = first ? to_double(w_dot[c]) : 0;
      const Long g = to_double(first ? g_rbf[e * s.radial + c] : g_sbf[e * n_sbf + c - s.radial]);
      const Long fx = oracle.by_x(c, r, k), fw = oracle.by_w(c, r, k);
      (first ? want.rbf : want.sbf).push_back(oracle.value(c, r, k));
      (first ? want.rbf_dot : want.sbf_dot).push_back(fx * along + fw * k_dot);
      const Long fxw = oracle.by_xw(c, r, k);
      to_x += g * fx;
      to_x_dot += g * (oracle.by_xx(c, r, k) * along + fxw * k_dot);
      if (!first) continue;
      want.grad_w[c] += g * fw;
      want.grad_w_dot[c] += g * (fxw * along + oracle.by_ww(c, r, k) * k_dot);
    }
    want.grad_x.push_back(to_x);
    want.grad_x_dot.push_back(to_x_dot);
  }

  Device<T> dx(x), dw(w), drbf(g_rbf), dsbf(g_sbf), tx(x_dot), tw(w_dot);
  Device<T> rbf(g_rbf.size()), sbf(g_sbf.size()), grad_x(x.size()), grad_w(w.size());
  const std::string name = std::to_string(s.spherical) + "x" + std::to_string(s.radial) + " " +
                           std::to_string(s.exponent) + ", " + std::to_string(n_edges) + " edges";

  CALL(forward, dx.get(), dw.get(), rbf.get(), sbf.get());
  near("rbf " + name, rbf.host(), want.rbf, s.radial, 1e-13);
  near("sbf " + name, sbf.host(), want.sbf, n_sbf, 1e-13);
  CALL(jvp, dx.get(), dw.get(), tx.get(), tw.get(), rbf.get(), sbf.get());
  near("rbf jvp " + name, rbf.host(), want.rbf_dot, s.radial, 1e-9);
  near("sbf jvp " + name, sbf.host(), want.sbf_dot, n_sbf, 1e-9);
  CALL(vjp, drbf.get(), dsbf.get(), dx.get(), dw.get(), grad_x.get(), grad_w.get());
  near("vjp x " + name, grad_x.host(), want.grad_x, 1 + n_edges, 1e-8);
  near("vjp w " + name, grad_w.host(), want.grad_w, s.radial, 1e-8);
  CALL(hvp, drbf.get(), dsbf.get(), dx.get(), dw.get(), tx.get(), tw.get(), grad_x.get(),
       grad_w.get());
  near("hvp x " + name, grad_x.host(), want.grad_x_dot, 1 + n_edges, 1e-7);
  near("hvp w " + name, grad_w.host(), want.grad_w_dot, s.radial, 1e-7);

  // absent cotangents and tangents are zeros; each gradient alone
  Device<T> none_rbf(std::vector<T>(g_rbf.size(), T(0.0f)));
  Device<T> none_x(std::vector<T>(x.size(), T(0.0f)));
  Device<T> again_x(x.size()), again_w(w.size());
  const auto same = [&](const std::string& what, Device<T>& a, Device<T>& b) {
    const auto left = a.host(), right = b.host();
    check(left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0,
          what + " " + name);
  };
  CALL(vjp, none_rbf.get(), dsbf.get(), dx.get(), dw.get(), grad_x.get(), grad_w.get());
  CALL(vjp, nullptr, dsbf.get(), dx.get(), dw.get(), again_x.get(), nullptr);
  CALL(vjp, nullptr, dsbf.get(), dx.get(), dw.get(), nullptr, again_w.get());
  same("vjp x without grad_rbf", grad_x, again_x);
  same("vjp w without grad_rbf", grad_w, again_w);
  CALL(hvp, drbf.get(), dsbf.get(), dx.get(), dw.get(), none_x.get(), tw.get(), grad_x.get(),
       grad_w.get());
  CALL(hvp, drbf.get(), dsbf.get(), dx.get(), dw.get(), nullptr, tw.get(), again_x.get(),
       again_w.get());
  same("hvp x without x_tangent", grad_x, again_x);
  same("hvp w without x_tangent", grad_w, again_w);
}

template <class T>
void test_type() {
  // 16 bits hold neither small distances nor what belongs to them
  std::vector<double> distances{0, 1, 1.5, -0.25, 0.25, 0.5, 0.75, 0.9375};
  if (sizeof(T) > 2) distances.insert(distances.end(), {0.001, 0.03, 0.99});
  test<T>({7, 6, 5}, distances);
  test<T>({10, 16, 1}, {0.4, 0.7});
  test<T>({2, 3, 5}, {});
  std::vector<double> many;  // more than are summed at once
  for (int i = 0; i < 150; ++i) many.push_back(0.25 + 0.004 * i);
  test<T>({1, 2, 8}, many);
}

// Frequencies whose sines need another reduction, or none; those that are no numbers; edges
// outside.
void test_frequencies() {
  using T = double;
  const Sizes s{1, 6, 5};
  const std::vector<T> x{0.5, 0.25, 2.0}, w{0, -3.0, 2097154, 0x1p40 + 2, INFINITY, NAN};
  Device<T> dx(x), dw(w), rbf(18), sbf(18);
  CALL(forward, dx.get(), dw.get(), rbf.get(), sbf.get());
  const Oracle oracle(s);
  const auto got = rbf.host();
  for (int64_t i = 0; i < 18; ++i) {
    const Long want = oracle.value(i % 6, x[i / 6], w[i % 6]);
    const bool right = i >= 12        ? got[i] == 0
                       : want == want ? std::fabs(got[i] - want) <= 1e-14
                                      : std::isnan(got[i]);
    check(right, "rbf of frequency " + std::to_string(i % 6) + ", edge " + std::to_string(i / 6));
  }
}

void test_refusals() {
  const Sizes wrong[] = {{0, 6, 5}, {11, 6, 5}, {7, 0, 5}, {7, 17, 5}, {7, 6, 0}, {7, 6, 101}};
  for (const Sizes& s : wrong)
    check(gnograd_cuda_radial_basis_forward_f32(2, s.spherical, s.radial, s.exponent, nullptr,
                                                nullptr, nullptr, nullptr, nullptr, 0,
                                                nullptr) == GNOGRAD_CUDA_VALUE,
          "a size beyond its range is refused");
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  test_type<__half>();
  test_type<__nv_bfloat16>();
  test_frequencies();
  test_refusals();
  return report();
}

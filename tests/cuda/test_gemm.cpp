// SPDX-License-Identifier: MIT
// Matrix products of all shapes of tiles, by way of gno_kernel: with the identity for a first layer
// its forward face is [c; 1] [V; b], and the way back has the products with either transposed.
#include <limits>

#include "activations.h"
#include "support.h"

namespace {

constexpr int64_t one = 1;

template <class T>
struct Faces;
template <>
struct Faces<float> {
  static constexpr auto forward = gnograd_cuda_gno_kernel_forward_f32;
  static constexpr auto forward_bytes = gnograd_cuda_gno_kernel_forward_workspace_bytes_f32;
  static constexpr auto vjp = gnograd_cuda_gno_kernel_vjp_f32;
  static constexpr auto vjp_bytes = gnograd_cuda_gno_kernel_vjp_workspace_bytes_f32;
};
template <>
struct Faces<double> {
  static constexpr auto forward = gnograd_cuda_gno_kernel_forward_f64;
  static constexpr auto forward_bytes = gnograd_cuda_gno_kernel_forward_workspace_bytes_f64;
  static constexpr auto vjp = gnograd_cuda_gno_kernel_vjp_f64;
  static constexpr auto vjp_bytes = gnograd_cuda_gno_kernel_vjp_workspace_bytes_f64;
};

// [m, k] by [k, n]: k - 1 hidden features and the bias
template <class T>
struct Products {
  int64_t m, n, k;
  std::vector<T> a, b, bias, g;
  std::vector<T> out, grad_a, grad_b;

  Products(int64_t m, int64_t n, int64_t k) : m(m), n(n), k(k) {
    std::mt19937 random(unsigned(m + 100 * n + 10000 * k));
    std::uniform_real_distribution<double> draw(-1, 1);
    for (auto [x, size] : {std::pair(&a, m * (k - 1)), {&b, (k - 1) * n}, {&bias, n}, {&g, m * n}})
      for (int64_t i = 0; i < size; ++i) x->push_back(T(draw(random)));
  }
  void run() {
    const int64_t h = k - 1;
    std::vector<T> identity_layer(h * h), zeros(h);
    for (int64_t i = 0; i < h; ++i) identity_layer[i * h + i] = 1;
    Device<T> da(a), du(identity_layer), dz(zeros), db(b), dbias(bias), dg(g);
    Device<T> kappa(m * n), ga(m * h), gb(h * n);
    const std::tuple sizes(m, h, h, one, n, int(identity));
    run_entry(Faces<T>::forward, Faces<T>::forward_bytes, sizes, da.get(), du.get(), dz.get(),
              db.get(), dbias.get(), kappa.get());
    T* const none = nullptr;
    run_entry(Faces<T>::vjp, Faces<T>::vjp_bytes, sizes, dg.get(), da.get(), du.get(), dz.get(),
              db.get(), dbias.get(), ga.get(), none, none, gb.get(), none);
    out = kappa.host(), grad_a = ga.host(), grad_b = gb.host();
  }

  // The largest error, in sums of absolute products.
  template <class X, class Y>
  static double worst(const std::vector<T>& got, int64_t rows, int64_t columns, int64_t inner, X x,
                      Y y) {
    double error = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0, size = 0;
        for (int64_t l = 0; l < inner; ++l) {
          const double term = double(x(i, l)) * double(y(l, j));
          sum += term, size += std::fabs(term);
        }
        error = std::max(error, std::fabs(got[i * columns + j] - sum) / size);
      }
    return error;
  }
  T of_a(int64_t i, int64_t l) const { return l < k - 1 ? a[i * (k - 1) + l] : T(1); }
  T of_b(int64_t l, int64_t j) const { return l < k - 1 ? b[l * n + j] : bias[j]; }
  T of_g(int64_t i, int64_t j) const { return g[i * n + j]; }

  void check_errors(double bound) {
    run();
    const std::string name = std::string(Type<T>::name) + " product " + std::to_string(m) + " x " +
                             std::to_string(n) + " x " + std::to_string(k);
    check(worst(
              out, m, n, k, [&](auto i, auto l) { return of_a(i, l); },
              [&](auto l, auto j) { return of_b(l, j); }) <= bound,
          name);
    check(worst(
              grad_a, m, k - 1, n, [&](auto i, auto l) { return of_g(i, l); },
              [&](auto l, auto j) { return of_b(j, l); }) <= bound,
          name + ", second factor transposed");
    check(worst(
              grad_b, k - 1, n, m, [&](auto i, auto l) { return of_a(l, i); },
              [&](auto l, auto j) { return of_g(l, j); }) <= bound,
          name + ", first factor transposed");
  }
};

// Whole tiles of each shape and parts of them, rows that can be copied 16 bytes at a time and such
// that cannot, and inner dimensions that are done in parts.
template <class T>
void test_shapes(double bound) {
  for (auto [m, n, k] : {std::tuple(128, 64, 64),
                         {64, 32, 32},
                         {128, 8, 16},
                         {130, 5, 17},
                         {33, 31, 18},
                         {65, 66, 5},
                         {1, 1, 2},
                         {3, 130, 70},
                         {600, 12, 8}})
    Products<T>(m, n, k).check_errors(bound);
}

// Results are those of float32 where factors are infinite, NaN, or too large to be rounded to 11
// bits.
void test_special() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  for (int64_t n : {64, 20, 8})
    for (float x : {inf, -inf, std::nanf(""), most, -most}) {
      Products<float> p(70, n, 20);
      p.b[5 * n + 1] = x;
      for (int64_t i = 0; i < p.m; ++i) p.a[i * 19 + 5] *= i % 7 ? 0.5f : 0;
      p.run();
      bool same = true;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < p.k; ++l) sum += double(p.of_a(i, l)) * double(p.of_b(l, j));
          const float want = float(sum), got = p.out[i * n + j];
          same &= std::isfinite(want) ? std::fabs(got - want) <= 1e-5f + 1e-6f * std::fabs(want)
                  : std::isnan(want)  ? std::isnan(got)
                                      : got == want;
        }
      check(same, "a product with " + std::to_string(x));
    }
}

}  // namespace

int main() {
  require_device();
  test_shapes<float>(8 * Type<float>::epsilon);
  if (!short_run()) {
    test_shapes<double>(8 * Type<double>::epsilon);
    test_special();
  }
  MUST(gnograd_cuda_use_tf32(1));
  test_shapes<float>(0x1.01p-10);
  MUST(gnograd_cuda_use_tf32(0));
  return report();
}

// SPDX-License-Identifier: MIT
// Kernels for arrays of a tape besides operators, against loops on the host in double.
#include <functional>
#include <limits>

#include "support.h"

namespace {

int failures = 0;
void check(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("FAILED %s\n", what.c_str());
  ++failures;
}

template <class T>
constexpr int code = sizeof(T) == 4 ? GNOGRAD_CUDA_F32 : GNOGRAD_CUDA_F64;

template <class T>
std::vector<T> numbers(int64_t n, double low, double high, int seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<T> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(T(draw(random)));
  return x;
}

template <class T>
bool near(T got, double wanted, double scale) {
  return std::abs(double(got) - wanted) <= 16 * Type<T>::epsilon * scale;
}

using Extents = std::array<int64_t, 4>;
int64_t size_of(const Extents& e) { return e[0] * e[1] * e[2] * e[3]; }
// Place of element i of an array of extents `all` in one of extents `of`, which may be 1.
int64_t place(int64_t i, const Extents& all, const Extents& of) {
  int64_t at = 0, step = 1;
  for (int d = 0; d < 4; ++d) {
    at += of[d] == 1 ? 0 : i % all[d] * step;
    i /= all[d];
    step *= of[d];
  }
  return at;
}

template <class T>
void test_elementwise() {
  const double pi = std::acos(-1.0);
  const auto normal = [=](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); };
  const auto below = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<std::function<double(double)>> functions = {
      [](double x) { return -x; },
      [](double x) { return std::exp(x); },
      [](double x) { return std::log(x); },
      [](double x) { return std::sqrt(x); },
      [](double x) { return std::sin(x); },
      [](double x) { return std::cos(x); },
      [](double x) { return std::abs(x); },
      [](double) { return 1.0; },
      [](double x) { return 1 / x; },
      logistic,
      [](double x) { return std::pow(x, 1.7); },
      [](double x) { return x; },
      [=](double x) { return x * below(x); },
      [=](double x) { return x * logistic(x); },
      [](double x) { return std::tanh(x); }};
  const auto a = numbers<T>(1000, 0.1, 4, 1), b = numbers<T>(1000, 0.1, 4, 2);
  Device<T> da(a), db(b), dc(1000);
  for (int f = 0; f < int(functions.size()); ++f) {
    MUST(gnograd_cuda_tape_unary(code<T>, f, 1.7, 1000, da.get(), dc.get(), nullptr));
    const auto c = dc.host();
    for (int i = 0; i < 1000; ++i)
      check(near(c[i], functions[f](a[i]), 4 * std::abs(functions[f](a[i])) + 1),
            "unary " + std::to_string(f));
  }
  const std::vector<T> special = {0, -2, 3, std::numeric_limits<T>::quiet_NaN()};
  Device<T> ds(special), dt(4);
  const auto of_special = [&](int f, double parameter) {
    MUST(gnograd_cuda_tape_unary(code<T>, f, parameter, 4, ds.get(), dt.get(), nullptr));
    return dt.host();
  };
  auto s = of_special(GNOGRAD_CUDA_SIGN_OF, 0);
  check(s[0] == 0 && s[1] == -1 && s[2] == 1 && s[3] != s[3], "sign");
  s = of_special(GNOGRAD_CUDA_INVERSE, 0);
  check(s[0] == 0 && s[1] == T(-0.5) && s[3] != s[3], "inverse");
  s = of_special(GNOGRAD_CUDA_MONOMIAL, 5);
  check(s[0] == 0 && near(s[1], -32, 32) && near(s[2], 243, 243) && s[3] != s[3], "whole power");
  s = of_special(GNOGRAD_CUDA_RELU, 0);
  check(s[1] == 0 && s[2] == 3, "relu");

  const std::vector<std::function<double(double, double)>> pairs = {
      [](double x, double y) { return x + y; },
      [](double x, double y) { return x - y; },
      [](double x, double y) { return x * y; },
      [](double x, double y) { return x / y; },
      [](double x, double y) { return std::pow(x, y); },
      [](double x, double y) { return std::max(x, y); },
      [](double x, double y) { return std::min(x, y); },
      [](double x, double y) { return x > y ? 1.0 : x < y ? 0.0 : 0.5; },
      [](double x, double) { return x; },
      [=](double x, double y) { return x * (below(y) + y * normal(y)); },
      [=](double x, double y) { return x * logistic(y) * (1 + y * logistic(-y)); },
      [](double x, double y) { return x * (1 - std::tanh(y) * std::tanh(y)); }};
  const std::vector<std::pair<Extents, Extents>> shapes = {
      {{7, 5, 3, 2}, {7, 5, 3, 2}}, {{7, 1, 3, 1}, {1, 5, 1, 2}}, {{7, 1, 1, 1}, {7, 50, 1, 1}},
      {{1, 1, 1, 1}, {9, 1, 4, 1}}, {{7, 5, 1, 1}, {1, 5, 3, 2}}, {{0, 5, 1, 1}, {1, 5, 1, 1}},
      {{7, 5, 3, 1}, {7, 1, 3, 1}}};
  for (int f = 0; f < int(pairs.size()); ++f)
    for (const auto& [x, y] : shapes) {
      Extents z;
      for (int d = 0; d < 4; ++d) z[d] = x[d] == 1 ? y[d] : x[d];
      Device<T> out(size_of(z));
      MUST(gnograd_cuda_tape_binary(code<T>, f, x.data(), y.data(), da.get(), db.get(), out.get(),
                                    nullptr));
      const auto c = out.host();
      for (int64_t i = 0; i < size_of(z); ++i) {
        const double wanted = pairs[f](a[place(i, z, x)], b[place(i, z, y)]);
        check(near(c[i], wanted, 8 * std::abs(wanted) + 4), "binary " + std::to_string(f));
      }
    }
  MUST(gnograd_cuda_tape_fill(code<T>, 1000, 2.5, dc.get(), nullptr));
  const auto filled = dc.host();
  check(std::count(filled.begin(), filled.end(), T(2.5)) == 1000, "fill");
  check(gnograd_cuda_tape_unary(code<T>, 99, 0, 1, da.get(), dc.get(), nullptr) ==
            GNOGRAD_CUDA_VALUE, "a function that is none");
  check(gnograd_cuda_tape_fill(GNOGRAD_CUDA_F16, 1, 0, dc.get(), nullptr) == GNOGRAD_CUDA_VALUE,
        "a type that is none");
}

template <class T>
void test_sums() {
  const std::vector<std::pair<Extents, Extents>> shapes = {
      {{7, 5, 3, 2}, {1, 1, 1, 1}},  {{7, 5, 3, 2}, {7, 1, 3, 1}}, {{7, 5, 3, 2}, {1, 5, 1, 2}},
      {{9000, 1, 1, 1}, {1, 1, 1, 1}}, {{3, 9000, 1, 1}, {3, 1, 1, 1}},
      {{2100, 3, 1, 1}, {1, 3, 1, 1}}, {{1, 300, 7, 1}, {1, 1, 7, 1}},
      {{33, 2, 4200, 1}, {33, 1, 1, 1}}, {{4, 0, 2, 1}, {4, 1, 2, 1}},
      {{5, 4, 1, 1}, {5, 4, 1, 1}}};
  for (const auto& [x, y] : shapes) {
    const auto values = numbers<T>(size_of(x), -1, 1, 3);
    std::vector<double> wanted(size_of(y)), scale(size_of(y));
    for (int64_t i = 0; i < size_of(x); ++i) {
      wanted[place(i, x, y)] += values[i];
      scale[place(i, x, y)] += std::abs(values[i]);
    }
    Device<T> in(values), out(size_of(y));
    const size_t bytes =
        gnograd_cuda_tape_sum_workspace_bytes(code<T>, x.data(), y.data());
    Device<unsigned char> workspace(bytes);
    MUST(gnograd_cuda_tape_sum(code<T>, x.data(), y.data(), in.get(), out.get(), workspace.get(),
                               bytes, nullptr));
    const auto got = out.host();
    for (size_t i = 0; i < got.size(); ++i)
      check(near(got[i], wanted[i], scale[i]), "sum of " + std::to_string(size_of(x)));
    if (bytes)
      check(gnograd_cuda_tape_sum(code<T>, x.data(), y.data(), in.get(), out.get(),
                                  workspace.get(), bytes - 256, nullptr) ==
                GNOGRAD_CUDA_WORKSPACE, "too small a workspace");
  }
}

// Many equal numbers, whose roundings in single precision all go the same way.
template <class T>
void test_long_sums() {
  for (const auto& [x, y] : std::vector<std::pair<Extents, Extents>>{
           {{400000, 1, 1, 1}, {1, 1, 1, 1}}, {{2, 200000, 1, 1}, {2, 1, 1, 1}}}) {
    Device<T> in(std::vector<T>(size_of(x), T(0.1))), out(size_of(y));
    const size_t bytes =
        gnograd_cuda_tape_sum_workspace_bytes(code<T>, x.data(), y.data());
    Device<unsigned char> workspace(bytes);
    MUST(gnograd_cuda_tape_sum(code<T>, x.data(), y.data(), in.get(), out.get(), workspace.get(),
                               bytes, nullptr));
    const double wanted = double(T(0.1)) * double(size_of(x) / size_of(y));
    for (const T got : out.host())
      check(near(got, wanted, wanted / (sizeof(T) == 4 ? 16 : 1)), "a long sum");
  }
}

template <class T>
void test_columns() {
  const int64_t width = 5, n = 9, columns = 4;
  const auto x = numbers<T>(width * n, -1, 1, 4);
  const std::vector<int64_t> index = {2, 0, 8, 8, 3}, offsets = {0, 3, 3, 8, 9};
  const std::vector<int64_t> places = {1, 4, 7, 0, 2, 3, 5, 6, 8};
  Device<T> dx(x), picked(width * 5), added(width * columns);
  Device<int64_t> di(index), dof(offsets), dp(places);
  MUST(gnograd_cuda_tape_gather(code<T>, width, 5, di.get(), dx.get(), picked.get(), nullptr));
  MUST(gnograd_cuda_tape_scatter(code<T>, width, columns, dof.get(), dp.get(), dx.get(),
                                 added.get(), nullptr));
  const auto p = picked.host(), s = added.host();
  for (int64_t k = 0; k < 5; ++k)
    for (int64_t i = 0; i < width; ++i)
      check(p[k * width + i] == x[index[k] * width + i], "gather");
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t i = 0; i < width; ++i) {
      T sum = 0;
      for (int64_t q = offsets[c]; q < offsets[c + 1]; ++q) sum += x[places[q] * width + i];
      check(s[c * width + i] == sum, "scatter");
    }
  for (const auto& [inner, length, outer] :
       {std::array<int64_t, 3>{1, 70, 6}, {1, 3, 40}, {6, 11, 5}, {3, 1, 2}}) {
    auto v = numbers<T>(inner * length * outer, -3, 3, 5);
    v[0] = length > 1 ? -std::numeric_limits<T>::infinity() : v[0];
    Device<T> in(v), out(v.size());
    MUST(gnograd_cuda_tape_softmax(code<T>, inner, length, outer, in.get(), out.get(), nullptr));
    const auto got = out.host();
    for (int64_t k = 0; k < outer; ++k)
      for (int64_t i = 0; i < inner; ++i) {
        double total = 0;
        for (int64_t j = 0; j < length; ++j)
          total += std::exp(double(v[(k * length + j) * inner + i]));
        for (int64_t j = 0; j < length; ++j) {
          const int64_t at = (k * length + j) * inner + i;
          check(near(got[at], std::exp(double(v[at])) / total, 1), "softmax");
        }
      }
  }
}

template <class T>
void test_products() {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 7, 3}, {64, 1, 33}, {1, 40, 9},
                                {33, 70, 65}, {3, 2, 2000}, {4, 3, 0}, {0, 3, 2}})
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      const auto a = numbers<T>(m * k, -1, 1, 6), b = numbers<T>(k * n, -1, 1, 7);
      Device<T> da(a), db(b), dc(m * n);
      const size_t bytes = gnograd_cuda_tape_product_workspace_bytes(code<T>, m, n, k);
      Device<unsigned char> workspace(bytes);
      MUST(gnograd_cuda_tape_product(code<T>, ta, tb, m, n, k, da.get(), db.get(), dc.get(),
                                     workspace.get(), bytes, nullptr));
      const auto c = dc.host();
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0, scale = 0;
          for (int64_t q = 0; q < k; ++q) {
            const double left = a[ta ? q + i * k : i + q * m];
            const double right = b[tb ? j + q * n : q + j * k];
            const double term = left * right;
            sum += term;
            scale += std::abs(term);
          }
          check(near(c[i + j * m], sum, scale), "product " + std::to_string(way));
        }
    }
}

template <class T>
void test_steps() {
  const int64_t n = 300;
  const auto g = numbers<T>(n, -1, 1, 8), m = numbers<T>(n, -1, 1, 9), v = numbers<T>(n, 0, 1, 10);
  const auto x = numbers<T>(n, -1, 1, 11);
  Device<T> dg(g), dm(m), dv(v), dx(x);
  MUST(gnograd_cuda_tape_adam(code<T>, n, 0.9, 0.99, 1e-8, 0.1, 0.01, 1.5, 0.98, dg.get(), dm.get(),
                              dv.get(), dx.get(), nullptr));
  const auto m1 = dm.host(), v1 = dv.host(), x1 = dx.host();
  for (int64_t i = 0; i < n; ++i) {
    const double old = 0.98 * x[i], grad = g[i] + 0.1 * old;
    const double mean = 0.9 * m[i] + 0.1 * grad, square = 0.99 * v[i] + 0.01 * grad * grad;
    check(near(m1[i], mean, 1) && near(v1[i], square, 1), "averages of Adam");
    check(near(x1[i], old - 0.01 * mean / (1.5 * std::sqrt(square) + 1e-8), 1), "step of Adam");
  }
  Device<T> other(m), moved(x);
  MUST(gnograd_cuda_tape_descend(code<T>, n, 0.5, 0.1, dg.get(), other.get(), moved.get(),
                                 nullptr));
  const auto m2 = other.host(), x2 = moved.host();
  for (int64_t i = 0; i < n; ++i) {
    check(near(m2[i], 0.5 * m[i] + g[i], 1), "momentum");
    check(near(x2[i], x[i] - 0.1 * (0.5 * m[i] + g[i]), 1), "step of descent");
  }
}

template <class T>
void test_all() {
  test_elementwise<T>();
  test_sums<T>();
  test_long_sums<T>();
  test_columns<T>();
  test_products<T>();
  test_steps<T>();
}

}  // namespace

int main() {
  test_all<float>();
  test_all<double>();
  std::printf("%d failures\n", failures);
  return failures != 0;
}

// SPDX-License-Identifier: MIT
// radial_basis in every type, at the ends of its range, and at unusual frequencies.
#include "laws.h"

namespace {

struct Sizes {
  int64_t spherical, radial;
  int exponent;
};

// Distances in 0.25 to 0.75.
Problem basis(Sizes s, int64_t n_edges) {
  const std::tuple sizes(n_edges, s.spherical, s.radial, s.exponent);
  return {"radial_basis " + std::to_string(s.spherical) + "x" + std::to_string(s.radial) + " " +
              std::to_string(s.exponent) + ", " + std::to_string(n_edges) + " edges",
          {{n_edges, 0.25, 0.5}, {s.radial, 1, 4}},
          {{n_edges * s.radial}, {n_edges * s.radial * s.spherical}},
          {},
          FOUR_TYPES(radial_basis, sizes, 0),
          true,
          double(s.spherical * s.radial)};
}

// Frequencies whose sines need another reduction, or none; those that are no numbers; edges
// outside of the range, where all is 0.
void test_frequencies() {
  const int64_t n = 6;
  const std::vector<double> x{0.5, 0.25, 2.0, 1, 0, -0.25};
  const std::vector<double> w{0, -3.0, 2097154, 0x1p40 + 2, INFINITY, NAN};
  Device<double> dx(x), dw(w), rbf(36), sbf(36), grad_x(6), grad_w(6);
  const std::tuple sizes(n, int64_t(1), n, 5);
  FACE(radial_basis, forward, f64, sizes).call({dx.get(), dw.get(), rbf.get(), sbf.get()});
  const auto got = rbf.host(), other = sbf.host();
  for (int64_t i = 0; i < 36; ++i) {
    const long double r = x[i / 6], k = w[i % 6];
    const long double u = 1 - 28 * powl(r, 6) + 48 * powl(r, 7) - 21 * powl(r, 8);
    const long double want = u * sinl(k * r) / r;
    const bool right = i >= 12        ? got[i] == 0 && other[i] == 0
                       : want == want ? std::fabs(got[i] - want) <= 1e-14
                                      : std::isnan(got[i]);
    check(right, "rbf of frequency " + std::to_string(i % 6) + ", edge " + std::to_string(i / 6));
  }
  Device<double> ones(std::vector<double>(36, 1.0));
  FACE(radial_basis, vjp, f64, sizes)
      .call({ones.get(), ones.get(), dx.get(), dw.get(), grad_x.get(), grad_w.get()});
  const auto slope = grad_x.host();
  check(std::all_of(slope.begin() + 2, slope.end(), [](double s) { return s == 0; }),
        "no slope outside");
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
  check_laws(basis({7, 6, 5}, 11), all_types, Depth::all);
  check_laws(basis({10, 16, 1}, 2), all_types);
  check_laws(basis({2, 3, 5}, 0), all_types);
  check_laws(basis({1, 2, 8}, 150), all_types);  // more than are summed at once
  test_frequencies();
  test_refusals();
  return report();
}

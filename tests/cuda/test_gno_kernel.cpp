// SPDX-License-Identifier: MIT
// gno_kernel in every type.
#include "gno_cases.h"

namespace {

Problem kernel(int64_t n_edges, Sizes n, int activation) {
  const std::tuple sizes(n_edges, n.d, n.n_hidden, n.f_in, n.f_out, activation);
  const int64_t matrix = n.f_in * n.f_out;
  return {"gno_kernel, " + std::to_string(n_edges) + " edges, " + n.name(),
          {{n_edges * n.d, 1, 0, wide},
           {n.d * n.n_hidden},
           {n.n_hidden},
           {n.n_hidden * matrix, n.layer()},
           {matrix}},
          {{n_edges * matrix}},
          {},
          THREE_TYPES(gno_kernel, sizes, 0),
          true,
          4};
}

// Products in float32 are as accurate as that, and those in TF32 as that.
void test_precision() {
  constexpr int64_t n = 70, h = 40, f = 9;
  std::mt19937 random(6);
  std::uniform_real_distribution<float> draw(-1, 1);
  const auto numbers = [&](size_t size) {
    std::vector<float> x(size);
    for (float& v : x) v = draw(random);
    return x;
  };
  const auto coords = numbers(n), u = numbers(h), v = numbers(h * f);
  const std::vector<float> zeros(h + f);
  Device<float> dc(coords), du(u), dv(v), db(zeros), kappa(n * f);
  const auto values = [&](int tf32) {
    MUST(gnograd_cuda_use_tf32(tf32));
    run_entry(gnograd_cuda_gno_kernel_forward_f32,
              gnograd_cuda_gno_kernel_forward_workspace_bytes_f32,
              std::tuple(n, int64_t(1), h, f, int64_t(1), int(identity)), dc.get(), du.get(),
              db.get(), dv.get(), db.get(), kappa.get());
    MUST(gnograd_cuda_use_tf32(0));
    return kappa.host();
  };
  const auto accurate = values(0), rounded = values(1);
  double worst_accurate = 0, worst_rounded = 0;  // in sums of absolute products
  for (int64_t e = 0; e < n; ++e)
    for (int64_t j = 0; j < f; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < h; ++k) {
        const double term = double(coords[e] * u[k]) * double(v[k * f + j]);
        sum += term, size += std::fabs(term);
      }
      worst_accurate = std::max(worst_accurate, std::fabs(accurate[e * f + j] - sum) / size);
      worst_rounded = std::max(worst_rounded, std::fabs(rounded[e * f + j] - sum) / size);
    }
  check(worst_accurate < 8 * Type<float>::epsilon, "products as accurate as float32");
  check(worst_rounded < 0x1.01p-10, "products as accurate as TF32");
  check(worst_rounded > 0x1p-15, "products in TF32, where it is asked for");
  check(values(0) == accurate, "products in float32 again");
}

}  // namespace

int main() {
  require_device();
  for (const int64_t n_edges : {500, 20, 0})
    check_laws(kernel(n_edges, {2, 6, 3, 4}, gelu), without_half);
  check_laws(kernel(20, {3, 70, 9, 8}, silu), without_half, Depth::all);
  test_precision();
  return report();
}

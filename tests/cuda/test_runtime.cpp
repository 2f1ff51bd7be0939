// SPDX-License-Identifier: MIT
// Memory, conversions and status codes of the CUDA library.
#include "support.h"

int main() {
  require_device();
  check(gnograd_cuda_abi_version() == GNOGRAD_CUDA_ABI, "abi_version");
  check(std::strlen(gnograd_cuda_error_string(GNOGRAD_CUDA_WORKSPACE)) > 0 &&
            std::strlen(gnograd_cuda_error_string(GNOGRAD_CUDA_VALUE)) > 0 &&
            std::strstr(gnograd_cuda_error_string(GNOGRAD_CUDA_DEVICE), ".0 and later") &&
            std::strlen(gnograd_cuda_error_string(0)) > 0,
        "error_string");

  // items of every type and back, forwards and added
  const auto assign = [](int64_t n, void* to, int to_type, int64_t to_stride, const void* from,
                         int from_type, int64_t from_stride, int add) {
    return gnograd_cuda_assign(1, &n, to, to_type, &to_stride, from, from_type, &from_stride, add,
                               nullptr);
  };
  std::vector<int64_t> wide(300);
  std::iota(wide.begin(), wide.end(), int64_t(-7));
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  Device<int64_t> wide_in(wide), wide_out(wide.size());
  Device<int32_t> narrow_out(narrow.size());
  const auto n = int64_t(wide.size());
  MUST(assign(n, narrow_out.get(), GNOGRAD_CUDA_I32, 1, wide_in.get(), GNOGRAD_CUDA_I64, 1, 0));
  MUST(assign(n, wide_out.get(), GNOGRAD_CUDA_I64, 1, narrow_out.get(), GNOGRAD_CUDA_I32, 1, 0));
  check(narrow_out.host() == narrow, "int64 to int32");
  check(wide_out.host() == wide, "int32 to int64");
  Device<int64_t> wide_copy(wide.size());
  Device<int32_t> narrow_copy(narrow.size());
  MUST(assign(n, wide_copy.get(), GNOGRAD_CUDA_I64, 1, wide_in.get(), GNOGRAD_CUDA_I64, 1, 0));
  MUST(assign(n, narrow_copy.get(), GNOGRAD_CUDA_I32, 1, narrow_out.get(), GNOGRAD_CUDA_I32, 1, 0));
  check(wide_copy.host() == wide, "int64 to int64");
  check(narrow_copy.host() == narrow, "int32 to int32");

  const std::vector<double> reals(wide.begin(), wide.end());  // exact in float16 and bfloat16
  Device<double> real_in(reals), real_out(reals.size());
  Device<uint64_t> between(reals.size());
  for (const int type : {GNOGRAD_CUDA_F32, GNOGRAD_CUDA_F64, GNOGRAD_CUDA_F16, GNOGRAD_CUDA_BF16}) {
    // backwards
    const double* last = real_in.get() + 255;
    MUST(assign(256, between.get(), type, 1, last, GNOGRAD_CUDA_F64, -1, 0));
    MUST(assign(256, between.get(), type, 1, between.get(), type, 1, 1));
    MUST(assign(256, real_out.get(), GNOGRAD_CUDA_F64, 1, between.get(), type, 1, 0));
    const auto got = real_out.host();
    bool good = true;
    for (int i = 0; i < 256; ++i) good = good && got[i] == 2 * reals[255 - i];
    check(good, "float64 to type " + std::to_string(type) + " and back");
  }
  const std::array<int64_t, 2> shape{3, 5}, transposed{1, 3}, rows{5, 1};
  MUST(gnograd_cuda_assign(2, shape.data(), real_out.get(), GNOGRAD_CUDA_F64, rows.data(),
                           real_in.get(), GNOGRAD_CUDA_F64, transposed.data(), 0, nullptr));
  check(real_out.host()[1 * 5 + 2] == reals[1 + 2 * 3], "strides");
  check(assign(1, real_out.get(), GNOGRAD_CUDA_F64, 1, wide_in.get(), GNOGRAD_CUDA_I64, 1, 0) ==
            GNOGRAD_CUDA_VALUE,
        "integers do not become reals");
  check(assign(1, real_out.get(), 6, 1, real_in.get(), GNOGRAD_CUDA_F64, 1, 0) ==
            GNOGRAD_CUDA_VALUE,
        "an unknown type is refused");
  MUST(assign(0, nullptr, GNOGRAD_CUDA_F64, 1, nullptr, GNOGRAD_CUDA_F64, 1, 0));

  int device = -1;
  MUST(gnograd_cuda_current_device(&device));
  int same = -1;
  MUST(gnograd_cuda_device_of(real_in.get() + 7, &same));
  check(device == same, "memory lies on the current device");
  MUST(gnograd_cuda_use_device(device));
  MUST(gnograd_cuda_device_usable(device));
  MUST(gnograd_cuda_wait(nullptr, nullptr, device));
  void* memory = nullptr;
  MUST(gnograd_cuda_hold(narrow.size() * sizeof(int32_t), narrow.data(), &memory));
  std::vector<int32_t> held(narrow.size());
  MUST(gnograd_cuda_copy(held.data(), memory, held.size() * sizeof(int32_t), nullptr));
  MUST(gnograd_cuda_synchronize(nullptr));
  check(held == narrow, "memory that is held");
  MUST(gnograd_cuda_release(memory));
  MUST(gnograd_cuda_allocate(0, &memory, nullptr));
  MUST(gnograd_cuda_free(memory, nullptr));

  check(std::strstr(gnograd_cuda_prototypes(),
                    "agg_weighted_forward_f64(const gnograd_cuda_graph *graph, int64_t n_features, "
                    "int aggregation; const void *x, const void *w, void *out, int64_t *location, "
                    "void *degree)\n"),
        "prototypes");

  const DeviceGraph graph = to_device(small_square());
  check(gnograd_cuda_agg_weighted_forward_f32(&graph.view, 3, 4, nullptr, nullptr, nullptr, nullptr,
                                              nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "an unknown aggregation is refused");
  check(gnograd_cuda_mha_gat_vjp_f64(&graph.view, 0, 3, 0, 1, 0, 0.2, 0, nullptr, nullptr, nullptr,
                                     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     nullptr, nullptr, nullptr, nullptr, 0,
                                     nullptr) == GNOGRAD_CUDA_VALUE,
        "no heads are refused");
  check(gnograd_cuda_mha_gat_v2_jvp_f16(&graph.view, 1, 3, 1, 7, 0.2, 0, nullptr, nullptr, nullptr,
                                        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                        nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "an unknown activation is refused");
  check(gnograd_cuda_mha_simple_forward_f32(&graph.view, 1, 3, 1, 1, 0.5, nullptr, nullptr, nullptr,
                                            nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0,
                                            nullptr) == GNOGRAD_CUDA_VALUE,
        "dropout without a seed is refused");
  return report();
}

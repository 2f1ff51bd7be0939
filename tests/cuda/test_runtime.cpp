// SPDX-License-Identifier: MIT
// Memory, conversions and status codes of the CUDA library.
#include "support.h"

int main() {
  require_device();
  check(gnograd_cuda_abi_version() == 1, "abi_version");
  check(std::strlen(gnograd_cuda_error_string(GNOGRAD_CUDA_WORKSPACE)) > 0 &&
            std::strlen(gnograd_cuda_error_string(GNOGRAD_CUDA_VALUE)) > 0 &&
            std::strlen(gnograd_cuda_error_string(0)) > 0,
        "error_string");

  std::vector<int64_t> wide(300);
  std::iota(wide.begin(), wide.end(), int64_t(-7));
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  Device<int64_t> wide_in(wide), wide_out(wide.size());
  Device<int32_t> narrow_in(narrow), narrow_out(narrow.size());
  const auto n = int64_t(wide.size());
  MUST(gnograd_cuda_int64_to_int32(n, wide_in.get(), narrow_out.get(), nullptr));
  MUST(gnograd_cuda_int32_to_int64(n, narrow_in.get(), wide_out.get(), nullptr));
  check(narrow_out.host() == narrow, "int64_to_int32");
  check(wide_out.host() == wide, "int32_to_int64");
  MUST(gnograd_cuda_int32_to_int64(0, nullptr, nullptr, nullptr));

  const DeviceGraph graph = to_device(small_square());
  check(gnograd_cuda_agg_weighted_forward_f32(&graph.view, 3, 4, nullptr, nullptr, nullptr, nullptr,
                                              nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "an unknown aggregation is refused");
  check(gnograd_cuda_mha_gat_vjp_f64(&graph.view, 0, 3, 0, 1, 0, 0.2, nullptr, nullptr, nullptr,
                                     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "no heads are refused");
  check(gnograd_cuda_mha_gat_v2_jvp_f16(&graph.view, 1, 3, 1, 7, 0.2, nullptr, nullptr, nullptr,
                                        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                        nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
        "an unknown activation is refused");
  return report();
}

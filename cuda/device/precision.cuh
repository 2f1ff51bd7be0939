// SPDX-License-Identifier: MIT
// Precision of products of float32 matrices, a setting of the process.
#pragma once
#include <atomic>

namespace gnograd {

// Factors rounded to TF32, instead of split in two such numbers.
inline std::atomic<bool> tf32_products{false};

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// The caller's workspace, handed out piece by piece. A face takes its pieces first, whether it is
// run or only asked how much it needs, so that both answers come from the same lines.
#pragma once
#include "platform.cuh"

namespace gnograd {

class Workspace {
  char* base = nullptr;
  size_t capacity = 0, used = 0;
  bool counts = true;

 public:
  // A workspace that only counts, and never suffices.
  Workspace() = default;
  Workspace(void* base, size_t bytes)
      : base(static_cast<char*>(base)), capacity(bytes), counts(false) {}

  template <class X>
  X* take(int64_t n) {
    const size_t at = used;
    used += ceil_div(n * int64_t(sizeof(X)), alignment) * alignment;
    return reinterpret_cast<X*>(base + at);
  }
  size_t bytes() const { return used; }
  bool sufficient() const { return !counts && used <= capacity; }

  static constexpr int64_t alignment = 256;
};

}  // namespace gnograd

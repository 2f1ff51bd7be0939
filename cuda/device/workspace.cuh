// SPDX-License-Identifier: MIT
// The caller's workspace, handed out piece by piece. A launcher takes its pieces first, whether it
// is run or only asked how much it needs, so that both answers come from the same lines.
#pragma once
#include "platform.cuh"

namespace gnograd {

class Workspace {
  char* base;
  size_t capacity, used = 0;

 public:
  // Without memory it only counts.
  Workspace() : base(nullptr), capacity(0) {}
  Workspace(void* base, size_t bytes) : base(static_cast<char*>(base)), capacity(bytes) {}

  template <class X>
  X* take(int64_t n) {
    const size_t at = used;
    used += ceil_div(n * int64_t(sizeof(X)), alignment) * alignment;
    return reinterpret_cast<X*>(base + at);
  }
  size_t bytes() const { return used; }
  bool sufficient() const { return used <= capacity; }

  static constexpr int64_t alignment = 256;
};

}  // namespace gnograd

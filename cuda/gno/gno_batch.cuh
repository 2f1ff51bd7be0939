// SPDX-License-Identifier: MIT
// Batches of functions on one graph. To kernels a batch is one function with more features: at each
// node those of all items stand side by side, [n, n_batch, F]. Memory for them is the workspace's;
// one item is where it is.
#pragma once
#include "device/planes.cuh"

namespace gnograd {

// to [n, n_batch, F] = from [n_batch, n, F]; or back, with n and n_batch exchanged. Thread: an
// entry; reads and writes F numbers together; bound by memory.
template <class R>
__global__ void __launch_bounds__(block_threads)
    gno_swap_axes(int64_t n_batch, int64_t n, int64_t width, const R* __restrict__ from,
                  R* __restrict__ to) {
  const int64_t f = thread_number() % width, item = thread_number() / width % n_batch;
  const int64_t row = thread_number() / width / n_batch;
  if (row < n) to[thread_number()] = from[(item * n + row) * width + f];
}

struct Batch {
  int64_t n_batch;
  Workspace& workspace;
  cudaStream_t stream;

  // Arrays of n rows of `width` numbers side by side; null stays null.
  template <class R>
  const R* interleave(const R* items, int64_t n, int64_t width) const {
    if (n_batch == 1) return items;
    R* to = workspace.take<R>(n_batch * n * width);
    if (!items || !workspace.sufficient()) return nullptr;
    launch_threads(n_batch * n * width, stream, gno_swap_axes<R>, n_batch, n, width, items, to);
    return to;
  }
  template <class R, class S>
  Input<R, S> interleave(const Input<R, S>& items, int64_t n, int64_t width) const {
    const R* values = interleave(items.v, n, width);
    return {values, ScalarTraits<S>::dual ? interleave(items.d, n, width) : nullptr};
  }
  // Memory for a result side by side, which `separate` brings to where it belongs.
  template <class R>
  R* allocate(R* items, int64_t n, int64_t width) const {
    if (n_batch == 1) return items;
    R* to = workspace.take<R>(n_batch * n * width);
    return items ? to : nullptr;
  }
  template <class R>
  void separate(const R* interleaved, R* items, int64_t n, int64_t width) const {
    if (n_batch == 1 || !items) return;
    launch_threads(n_batch * n * width, stream, gno_swap_axes<R>, n, n_batch, width, interleaved,
                   items);
  }
};

}  // namespace gnograd

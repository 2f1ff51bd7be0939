// SPDX-License-Identifier: MIT
// Sums along axes, in pieces whose borders follow from sizes alone; sums of pieces are summed in
// the same way, until there is one. A piece is summed in double precision: these kernels wait for
// memory, and rounding adds up nowhere but from one level of pieces to the next.
#pragma once
#include "device/platform.cuh"
#include "device/workspace.cuh"

namespace gnograd {

// Places in an array by their number, from the first axis on.
struct Axes {
  int n = 0;
  int64_t size = 1, extent[4] = {}, stride[4] = {};

  void add(int64_t of_axis, int64_t step) {
    size *= of_axis;
    if (of_axis == 1) return;
    if (n > 0 && stride[n - 1] * extent[n - 1] == step) {
      extent[n - 1] *= of_axis;
    } else {
      extent[n] = of_axis;
      stride[n++] = step;
    }
  }
  __device__ int64_t operator()(int64_t i) const {
    int64_t at = 0;
    for (int d = 0; d < n; ++d) {
      if (d + 1 == n) return at + i * stride[d];
      const int64_t next = i / extent[d];
      at += (i - next * extent[d]) * stride[d];
      i = next;
    }
    return at;
  }
};

// Terms of a piece, for a thread and for a warp.
constexpr int64_t thread_terms = 64, warp_terms = 1024;

// Thread: a piece of a sum; neighbours have neighbouring sums. Reads every number once.
template <class R>
__global__ void __launch_bounds__(block_threads)
    tape_sum_by_thread(Axes kept, Axes summed, int64_t n_pieces, const R* __restrict__ x,
                       R* __restrict__ y) {
  const int64_t i = thread_number();
  if (i >= kept.size * n_pieces) return;
  const int64_t piece = i / kept.size, first = piece * thread_terms;
  const int64_t last = min(first + thread_terms, summed.size), from = kept(i - piece * kept.size);
  double sum = 0;
  for (int64_t k = first; k < last; ++k) sum += x[from + summed(k)];
  y[i] = R(sum);
}

// Warp: a piece of a sum whose terms lie side by side; lanes have every 32nd, and are added by a
// tree. Reads every number once.
template <class R>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    tape_sum_by_warp(Axes kept, Axes summed, int64_t n_pieces, const R* __restrict__ x,
                     R* __restrict__ y) {
  const int64_t i = thread_number() / warp_lanes;
  const int lane = int(threadIdx.x) % warp_lanes;
  if (i >= kept.size * n_pieces) return;
  const int64_t piece = i / kept.size, first = piece * warp_terms;
  const int64_t last = min(first + warp_terms, summed.size), from = kept(i - piece * kept.size);
  double sum = 0;
  for (int64_t k = first + lane; k < last; k += warp_lanes) sum += x[from + summed(k)];
  for (int step = warp_lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) y[i] = R(sum);
}

// The sums of x; with no workspace, what it needs is counted.
template <class R>
bool sum_axes(const int64_t* x_extents, const int64_t* y_extents, const R* x, R* y,
              Workspace& workspace, cudaStream_t stream) {
  Axes kept, summed;
  int64_t step = 1;
  bool side_by_side = false;  // are the terms of a sum?
  for (int d = 0; d < 4; ++d) {
    const bool is_kept = y_extents[d] == x_extents[d];
    if (x_extents[d] != 1 && step == 1) side_by_side = !is_kept;
    (is_kept ? kept : summed).add(x_extents[d], step);
    step *= x_extents[d];
  }
  side_by_side = side_by_side && summed.size >= warp_lanes;
  int64_t n_pieces =
      std::max<int64_t>(1, ceil_div(summed.size, side_by_side ? warp_terms : thread_terms));
  R* parts[2] = {};
  if (n_pieces > 1) {
    parts[0] = workspace.take<R>(kept.size * n_pieces);
    parts[1] = workspace.take<R>(kept.size * ceil_div(n_pieces, thread_terms));
  }
  if (!workspace.sufficient()) return false;
  R* to = n_pieces > 1 ? parts[0] : y;
  if (side_by_side)
    launch_threads(kept.size * n_pieces * warp_lanes, stream, tape_sum_by_warp<R>, kept, summed,
                   n_pieces, x, to);
  else
    launch_threads(kept.size * n_pieces, stream, tape_sum_by_thread<R>, kept, summed, n_pieces, x,
                   to);
  Axes plain;
  plain.add(kept.size, 1);
  while (n_pieces > 1) {
    Axes pieces;
    pieces.size = n_pieces;
    pieces.n = 1;
    pieces.extent[0] = n_pieces, pieces.stride[0] = kept.size;
    n_pieces = ceil_div(n_pieces, thread_terms);
    R* const from = to;
    to = n_pieces == 1 ? y : from == parts[0] ? parts[1] : parts[0];
    launch_threads(kept.size * n_pieces, stream, tape_sum_by_thread<R>, plain, pieces, n_pieces,
                   from, to);
  }
  return true;
}

}  // namespace gnograd

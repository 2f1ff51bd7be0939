// SPDX-License-Identifier: MIT
// What outgoing edges collect from the incoming edges of their nodes (triplet_tile.cuh).
#pragma once
#include "triplet_tile.cuh"

namespace gnograd {

// Units of work: a tile of outgoing edges of a node. Node j has the units from
// (offsets[j] + j (slots - 1))/slots on, which is room for all of its edges; some stay empty.
__host__ __device__ inline int64_t first_unit(int64_t edges_before, int64_t j) {
  return (edges_before + j * (outgoing_slots - 1)) / outgoing_slots;
}
__device__ inline int64_t node_of(const Csc& csc, int64_t unit) {
  int64_t low = 0, high = csc.n_rows - 1;
  while (low < high) {
    const int64_t j = (low + high + 1) / 2;
    if (first_unit(csc.offsets[j], j) <= unit) low = j;
    else high = j - 1;
  }
  return low;
}

// Block (unit, part of the features): up to 32 outgoing edges of a node times 16 step features; a
// thread has 4 edges and `step` features, and goes over the incoming edges, `slots` at a time.
// Shared memory: TripletTile::bytes, 28 KB in float32 with n_spherical = 7, n_mid = 8. 2
// n_spherical n_emb operations a triplet, which bound it; q and f of an incoming edge are found
// again by every unit of its node. Reads n_spherical n_radial + n_emb + 3 numbers of an incoming
// edge a unit.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    agg_edge_to_edge_forward(TripletProblem<T, S> p, T* __restrict__ out) {
  const TripletSizes& s = p.sizes;
  const int64_t j = node_of(p.outgoing, blockIdx.x);
  const int64_t begin = p.outgoing.offsets[j];
  const int64_t tile_begin = (blockIdx.x - first_unit(begin, j)) * outgoing_slots;
  if (tile_begin >= p.outgoing.offsets[j + 1] - begin) return;
  const int first = int(blockIdx.y) * tile_features<S>;

  SharedMemory shared;
  TripletTile<T, S> tile(p, shared);
  const int column = int(threadIdx.x) % feature_lanes * step<S>;
  const int b_first = int(threadIdx.x) / feature_lanes * outgoing_step;
  const int64_t degree = p.incoming.offsets[j + 1] - p.incoming.offsets[j];
  Vector<S, step<S>> sum[outgoing_step];
  tile.load_outgoing(j, tile_begin);
  __syncthreads();
  for (int64_t a_first = 0; a_first < degree; a_first += p.slots) {
    if (a_first) __syncthreads();
    tile.load_incoming(j, a_first);
    __syncthreads();
    tile.compute_q();
    tile.compute_angular();
    __syncthreads();
    tile.compute_f(first);
    __syncthreads();
    const int n_b = min(tile.n_out - b_first, outgoing_step);
    if (n_b <= 0) continue;
    for (int a = 0; a < tile.n_in; ++a) {
      Vector<S, step<S>> part[outgoing_step];
      for (int l = 0; l < s.n_spherical; ++l) {
        const FeaturePack<S> f = pack(tile.f_of(a, l) + column);
        for (int b = 0; b < outgoing_step; ++b)
          if (b < n_b) {
            const S y = tile.angular_of(a, b_first + b)[l];
            for (int c = 0; c < step<S>; ++c) part[b][c] += y * f.v[c];
          }
      }
      const FeaturePack<S> x = pack(tile.x + a * pitch<S> + column);
      for (int b = 0; b < outgoing_step; ++b)
        for (int c = 0; c < step<S>; ++c) sum[b][c] += x.v[c] * part[b][c];
    }
  }
  for (int b = 0; b < outgoing_step; ++b)
    if (b_first + b < tile.n_out)
      store_vector(out + tile.out[b_first + b].edge * s.n_emb + first + column, sum[b],
                   s.n_emb - first - column, false);
}

}  // namespace gnograd

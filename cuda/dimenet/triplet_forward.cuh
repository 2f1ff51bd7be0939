// SPDX-License-Identifier: MIT
// Sums at outgoing edges over the incoming edges of their nodes (triplet_tile.cuh).
#pragma once
#include "triplet_tile.cuh"

namespace gnograd {

template <class T, class S>
using TripletForwardTile = TripletTile<T, S, 8>;

// Block (unit, part of the features): up to 32 outgoing edges of a node times 64 features, of which
// a warp has 16; it goes over the incoming edges, `slots` at a time. Shared memory:
// TripletTile::bytes, 37 KB in float32 with n_spherical = 7, n_mid = 8. Reads n_spherical n_radial
// + n_emb + 3 numbers of an incoming edge a unit, as every unit of a node finds q and f again. 2
// n_spherical n_emb operations a triplet on tensor cores, three times; bound by the instructions
// that bring their operands.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    agg_edge_to_edge_forward(TripletProblem<T, S> p, T* __restrict__ out) {
  const TripletSizes& s = p.sizes;
  const int64_t j = node_of(p.outgoing, outgoing_slots, blockIdx.x);
  const int64_t begin = p.outgoing.offsets[j];
  const int64_t tile_begin = (blockIdx.x - first_unit(begin, j, outgoing_slots)) * outgoing_slots;
  if (tile_begin >= p.outgoing.offsets[j + 1] - begin) return;
  const int first = int(blockIdx.y) * tile_features<S>;

  SharedMemory shared;
  TripletForwardTile<T, S> tile(p, shared);
  const int column = tile.first_feature(), between = tile.angular_pitch(s, p.slots);
  const int64_t degree = p.incoming.offsets[j + 1] - p.incoming.offsets[j];
  WarpProduct<S, outgoing_slots / 16, feature_tiles<S>> sum;
  tile.load_outgoing(j, tile_begin);
  __syncthreads();
  const int edge_tiles = tile.n_out > 16 ? 2 : 1;
  for (int64_t a_first = 0; a_first < degree; a_first += p.slots) {
    __syncthreads();
    tile.load_incoming(j, a_first);
    __syncthreads();
    tile.load_x(first);
    tile.load_rbf();
    tile.compute_angular();
    __syncthreads();
    tile.compute_q();
    tile.compute_f(first, nullptr);
    __syncthreads();
    sum.add(
        edge_tiles, feature_tiles<S>, round_up(tile.n_rows(), 8),
        [&](int b, int i) { return tile.angular[b * between + i]; },
        [&](int i, int n) { return tile.xf[i * tile.pitch + column + n]; });
  }
  sum.each(edge_tiles, feature_tiles<S>, [&](int b) {
    const bool there = b < tile.n_out;
    const int count = there ? s.n_emb - first - column : 0;
    T* row = out + (there ? tile.out[b].edge : 0) * s.n_emb + first + column;
    return [=](int n, S left, S right) {
      if (n < count) row[n] = T(result(left));
      if (n + 1 < count) row[n + 1] = T(result(right));
    };
  });
}

}  // namespace gnograd

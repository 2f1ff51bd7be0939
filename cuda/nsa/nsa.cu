// SPDX-License-Identifier: MIT
// Native sparse attention: selected, compressed and window attention, and faults of a selection.
#include "nsa_passes.cuh"

namespace gnograd {
namespace {

// No sequence is longer, and no sum of these overflows.
constexpr int64_t no_limit = int64_t(1) << 40;

template <class T>
struct SelectedAttention : SelectedAttentionRecords {
  NsaSizes sizes() const {
    Pattern p = make_pattern(n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k,
                             causal, q_offset);
    const bool valid = n_slots >= 0 && duplicates >= duplicates_ignore &&
                       duplicates <= duplicates_count && block_size <= most_block;
    p.block = valid ? int(block_size) : 0;
    p.unit = query_block;
    p.selected = true;
    p.block_index = block_index;
    p.n_slots = n_slots;
    p.repeat = duplicates == duplicates_count;
    return {p, d_k, d_v, scale};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .evaluate(NsaInputs<T, S>{in.q, in.k, in.v, in.slot_gate}, out.out, out.lse);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .reverse(g.out, nullptr, NsaInputs<T, S>{in.q, in.k, in.v, in.slot_gate}, saved.out,
                 saved.lse, {grad.q, grad.k, grad.v, grad.slot_gate});
  }
};

// lse is an output of its own here, with a cotangent and a tangent.
template <class T>
struct CompressedAttention : CompressedAttentionRecords {
  NsaSizes sizes() const {
    Pattern p = make_pattern(n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k,
                             causal, q_offset - block + 1);
    p.stride = block >= 1 ? stride : 0;
    return {p, d_k, d_v, scale};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .evaluate(NsaInputs<T, S>{in.q, in.k, in.v}, out.out, out.lse);
  }
  // The cotangent of out, which is zeros where it is absent.
  const T* cotangent(const Cotangents<T>& g, Call& call) const {
    const int64_t n = std::max<int64_t>(n_queries * n_query_heads * d_v, 0);
    T* zeros = call.workspace.template take<T>(n);
    if (!g.out && call.workspace.sufficient()) set_zero(zeros, n, call.stream);
    return g.out ? g.out : zeros;
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    const T* g_out = cotangent(g, call);
    return SparseAttention<T>(sizes(), call)
        .reverse(g_out, g.lse, NsaInputs<T, S>{in.q, in.k, in.v}, saved.out, saved.lse,
                 {grad.q, grad.k, grad.v, nullptr});
  }
};

template <class T>
struct WindowAttention : WindowAttentionRecords {
  NsaSizes sizes() const {
    Pattern p = make_pattern(n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k,
                             causal, q_offset);
    (causal ? p.window : p.ball) = std::min(window, no_limit);
    return {p, d_k, d_v, scale, d};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .evaluate(NsaInputs<T, S>{in.q, in.k, in.v, {}, in.positions_q, in.positions_k, in.slope},
                  out.out, out.lse);
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .reverse(g.out, nullptr,
                 NsaInputs<T, S>{in.q, in.k, in.v, {}, in.positions_q, in.positions_k, in.slope},
                 saved.out, saved.lse,
                 {grad.q, grad.k, grad.v, nullptr, grad.positions_q, grad.positions_k, grad.slope});
  }
};

// ---- what a selection has wrong ----

// First query in error of some units and heads, or the largest number.
constexpr int64_t no_query = INT64_MAX;
struct Faults {
  int64_t out_of_range = no_query, named_twice = no_query;
  __device__ void add(const Faults& more) {
    out_of_range = min(out_of_range, more.out_of_range);
    named_twice = min(named_twice, more.named_twice);
  }
};
// Thread: 32 units and heads, slot by slot. Reads 4 n_slots bytes each, again from caches for every
// slot where a block may be named twice: bound by these n_slots^2/2 comparisons.
__global__ void __launch_bounds__(block_threads)
    nsa_find_faults(Pattern p, int64_t n, Faults* __restrict__ faults) {
  const int64_t first = thread_number() * warp_lanes, end = min(first + warp_lanes, n);
  if (first >= n) return;
  Faults found;
  for (int64_t i = first; i < end; ++i) {
    const TokenPiece unit = p.unit_of(i / p.heads);
    if (unit.size() <= 0) continue;
    const int32_t* slots = p.slots(unit, int(i % p.heads));
    for (int64_t slot = 0; slot < p.n_slots; ++slot) {
      const int64_t b = slots[slot];
      if (b == -1) continue;
      if (b < 0 || b >= p.n_blocks(unit.sequence))
        found.out_of_range = min(found.out_of_range, unit.first);
      else if (p.named_before(slots, slot)) found.named_twice = min(found.named_twice, unit.first);
    }
  }
  faults[thread_number()] = found;
}
// One warp: the first of all; reads 16 bytes for every thread of that; bound by latency.
__global__ void __launch_bounds__(block_threads)
    nsa_first_faults(const Faults* __restrict__ faults, int64_t n, int64_t* __restrict__ first) {
  Faults found;
  for (int64_t i = thread_number(); i < n; i += warp_lanes) found.add(faults[i]);
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    found.add(
        {__shfl_xor_sync(~0u, found.out_of_range, d), __shfl_xor_sync(~0u, found.named_twice, d)});
  if (threadIdx.x > 0) return;
  first[0] = found.out_of_range == no_query ? -1 : found.out_of_range;
  first[1] = found.named_twice == no_query ? -1 : found.named_twice;
}

// Blocks that do not exist or are named twice.
int check_selection(const NsaSizes& sizes, int64_t* first, Call& call) {
  if (!sizes.valid()) return GNOGRAD_CUDA_VALUE;
  const Pattern& p = sizes.pattern;
  const int64_t n = p.n_units() * p.heads, groups = ceil_div(n, warp_lanes);
  Faults* faults = call.workspace.take<Faults>(groups);
  if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
  launch_threads(groups, call.stream, nsa_find_faults, p, n, faults);
  launch(nsa_first_faults, dim3(1), dim3(warp_lanes), 0, call.stream, faults, groups, first);
  return cudaGetLastError();
}

}  // namespace
}  // namespace gnograd

#include "nsa_selected_attention.cuh"

namespace gnograd {
using compat::NsaSelectedAttention;
}  // namespace gnograd

#include "nsa_entries.cuh"

using namespace gnograd;

size_t gnograd_cuda_selected_attention_check_workspace_bytes_i32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t* block_index,
    const int64_t* cu_q, const int64_t* cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates) {
  return count_workspace([&](Call& call) {
    const SelectedAttention<float> selected{
        {n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index,
         cu_q, cu_k, block_size, scale, causal, q_offset, query_block, duplicates}};
    return check_selection(selected.sizes(), nullptr, call);
  });
}

int gnograd_cuda_selected_attention_check_i32(int64_t n_queries, int64_t n_keys,
                                              int64_t n_query_heads, int64_t n_heads, int64_t d_k,
                                              int64_t d_v, int64_t n_slots, int64_t n_sequences,
                                              const int32_t* block_index, const int64_t* cu_q,
                                              const int64_t* cu_k, int64_t block_size, double scale,
                                              int causal, int64_t q_offset, int64_t query_block,
                                              int duplicates, int64_t* faults, void* workspace,
                                              size_t workspace_bytes, void* stream) {
  return run_face(workspace, workspace_bytes, stream, [&](Call& call) {
    const SelectedAttention<float> selected{
        {n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index,
         cu_q, cu_k, block_size, scale, causal, q_offset, query_block, duplicates}};
    return check_selection(selected.sizes(), faults, call);
  });
}

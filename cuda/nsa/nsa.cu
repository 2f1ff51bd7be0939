// SPDX-License-Identifier: MIT
// Native sparse attention: selected, compressed and window attention, selected attention as
// Ascend's operators have it, and what a selection has wrong.
#include "nsa_passes.cuh"

namespace gnograd {
namespace {

// No sequence is longer, and no sum of these overflows.
constexpr int64_t no_limit = int64_t(1) << 40;

// Queries, keys, values and what else the three branches have in common.
template <class T>
struct AttentionOutputs {
  T* out;                  // [n_queries, n_query_heads, d_v]
  real<T>* lse = nullptr;  // [n_queries, n_query_heads], or null
};
template <class T>
struct AttentionSaved {
  const T* out;
  const real<T>* lse;
};
template <class T>
struct UngatedInputs {
  const T* q;  // [n_queries, n_query_heads, d_k]
  const T* k;  // [n_keys, n_heads, d_k]
  const T* v;  // [n_keys, n_heads, d_v]
  operator NsaInputs<T>() const { return {q, k, v, nullptr}; }
};
template <class T>
struct UngatedGradients {
  T *q, *k, *v;  // shaped as the inputs, or null
  operator NsaGradients<T>() const { return {q, k, v, nullptr}; }
};

template <class T>
struct SelectedAttention {
  int64_t n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences;
  const int32_t* block_index;  // [ceil(n_queries / query_block), n_heads, n_slots]
  const int64_t *cu_q, *cu_k;  // [n_sequences + 1], or null
  int64_t block_size;
  double scale;
  int causal;
  int64_t q_offset, query_block;
  int duplicates;

  struct Inputs {
    const T* q;          // [n_queries, n_query_heads, d_k]
    const T* k;          // [n_keys, n_heads, d_k]
    const T* v;          // [n_keys, n_heads, d_v]
    const T* slot_gate;  // [n_queries, n_heads, n_slots], or null
    operator NsaInputs<T>() const { return {q, k, v, slot_gate}; }
  };
  using Outputs = AttentionOutputs<T>;
  using Saved = AttentionSaved<T>;
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *q, *k, *v, *slot_gate;  // shaped as the inputs, or null
    operator NsaGradients<T>() const { return {q, k, v, slot_gate}; }
  };

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

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).forward(in, out.out, out.lse);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call).vjp(g.out, nullptr, in, saved.out, saved.lse, grad);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).jvp(in, tangents, out.out, out.lse);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call).hvp(g.out, nullptr, in, tangents, grad);
  }
};

// lse is an output of its own here, with a cotangent and a tangent.
template <class T>
struct CompressedAttention {
  int64_t n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_sequences;
  const int64_t *cu_q, *cu_k;  // [n_sequences + 1], or null
  int64_t block, stride;
  double scale;
  int causal;
  int64_t q_offset;

  using Inputs = UngatedInputs<T>;
  using Outputs = AttentionOutputs<T>;
  using Saved = AttentionSaved<T>;
  struct Cotangents {
    const T* out;
    const real<T>* lse;
  };
  using Gradients = UngatedGradients<T>;

  NsaSizes sizes() const {
    Pattern p = make_pattern(n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k,
                             causal, q_offset - block + 1);
    p.stride = block >= 1 ? stride : 0;
    return {p, d_k, d_v, scale};
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).forward(in, out.out, out.lse);
  }
  // The cotangent of out, which is zeros where it is absent.
  const T* cotangent(const Cotangents& g, Call& call) const {
    const int64_t n = std::max<int64_t>(n_queries * n_query_heads * d_v, 0);
    T* zeros = call.workspace.take<T>(n);
    if (!g.out && call.workspace.sufficient()) set_zero(zeros, n, call.stream);
    return g.out ? g.out : zeros;
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    const T* of_out = cotangent(g, call);
    return SparseAttention<T>(sizes(), call).vjp(of_out, g.lse, in, saved.out, saved.lse, grad);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).jvp(in, tangents, out.out, out.lse);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    const T* of_out = cotangent(g, call);
    return SparseAttention<T>(sizes(), call).hvp(of_out, g.lse, in, tangents, grad);
  }
};

template <class T>
struct WindowAttention {
  int64_t n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, n_sequences;
  const int64_t *cu_q, *cu_k;  // [n_sequences + 1], or null
  int64_t window;
  double scale;
  int causal;
  int64_t q_offset;

  struct Inputs {
    const T* q;                                       // [n_queries, n_query_heads, d_k]
    const T* k;                                       // [n_keys, n_heads, d_k]
    const T* v;                                       // [n_keys, n_heads, d_v]
    const real<T>*positions_q, *positions_k, *slope;  // [n_queries, d], [n_keys, d],
                                                      // [n_query_heads], or null
    operator NsaInputs<T>() const { return {q, k, v, nullptr, positions_q, positions_k, slope}; }
  };
  using Outputs = AttentionOutputs<T>;
  using Saved = AttentionSaved<T>;
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *q, *k, *v;  // shaped as the inputs, or null
    real<T>*positions_q, *positions_k, *slope;
    operator NsaGradients<T>() const { return {q, k, v, nullptr, positions_q, positions_k, slope}; }
  };

  NsaSizes sizes() const {
    Pattern p = make_pattern(n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k,
                             causal, q_offset);
    (causal ? p.window : p.ball) = std::min(window, no_limit);
    return {p, d_k, d_v, scale, d};
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).forward(in, out.out, out.lse);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call).vjp(g.out, nullptr, in, saved.out, saved.lse, grad);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call).jvp(in, tangents, out.out, out.lse);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call).hvp(g.out, nullptr, in, tangents, grad);
  }
};

// selected_attention in the shape of Ascend's operator
template <class T>
struct NsaSelectedAttention {
  int64_t n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_sequences;
  const int32_t* topk_indices;  // [n_queries, n_heads, select_block_count]
  const int64_t *cu_q, *cu_k;   // [n_sequences + 1], or null
  double scale_value;
  int64_t select_block_size, select_block_count;
  int sparse_mode;

  struct Inputs {
    const T *query, *key, *value;
    operator NsaInputs<T>() const { return {query, key, value, nullptr}; }
  };
  struct Outputs {
    T* attention_out;
    real<T>*softmax_max, *softmax_sum;  // [n_queries, n_query_heads, 8]
  };
  struct Cotangents {
    const T* attention_out;
  };
  struct Saved {
    const T* attention_out;
    const real<T>*softmax_max, *softmax_sum;
  };
  struct Gradients {
    T *query, *key, *value;
    operator NsaGradients<T>() const { return {query, key, value, nullptr}; }
  };

  NsaSizes sizes() const {
    return SelectedAttention<T>{n_queries,
                                n_keys,
                                n_query_heads,
                                n_heads,
                                d_k,
                                d_v,
                                select_block_count,
                                n_sequences,
                                topk_indices,
                                cu_q,
                                cu_k,
                                select_block_size,
                                scale_value,
                                sparse_mode == 2,
                                0,
                                1,
                                duplicates_count}
        .sizes();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .forward(in, out.attention_out, nullptr, {out.softmax_max, out.softmax_sum});
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .vjp(g.attention_out, in, saved.attention_out, {saved.softmax_max, saved.softmax_sum},
             grad);
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

#include "nsa_entries.cuh"

using namespace gnograd;

size_t gnograd_cuda_selected_attention_check_workspace_bytes_i32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t* block_index,
    const int64_t* cu_q, const int64_t* cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates) {
  return count_workspace([&](Call& call) {
    const SelectedAttention<float> selected{
        n_queries, n_keys,      n_query_heads, n_heads,     d_k,       d_v,
        n_slots,   n_sequences, block_index,   cu_q,        cu_k,      block_size,
        scale,     causal,      q_offset,      query_block, duplicates};
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
        n_queries, n_keys,      n_query_heads, n_heads,     d_k,       d_v,
        n_slots,   n_sequences, block_index,   cu_q,        cu_k,      block_size,
        scale,     causal,      q_offset,      query_block, duplicates};
    return check_selection(selected.sizes(), faults, call);
  });
}

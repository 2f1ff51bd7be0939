// SPDX-License-Identifier: MIT
// Selected attention as Ascend's operators have it, by the passes of selected_attention.
#pragma once
#include "nsa_passes.cuh"

namespace gnograd::compat {
namespace {

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
    operator NsaInputs<T, real<T>>() const { return {{query}, {key}, {value}}; }
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
    return SelectedAttention<T>{{n_queries, n_keys, n_query_heads, n_heads, d_k, d_v,
                                 select_block_count, n_sequences, topk_indices, cu_q, cu_k,
                                 select_block_size, scale_value, sparse_mode == 2, 0, 1,
                                 duplicates_count}}
        .sizes();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .evaluate(in, out.attention_out, nullptr, {out.softmax_max, out.softmax_sum});
  }
  int vjp(const Cotangents& g, const Inputs& in, const Saved& saved, const Gradients& grad,
          Call& call) const {
    return SparseAttention<T>(sizes(), call)
        .reverse(g.attention_out, in, saved.attention_out, {saved.softmax_max, saved.softmax_sum},
                 grad);
  }
};

}  // namespace
}  // namespace gnograd::compat

// SPDX-License-Identifier: MIT
// Compressed tokens, and the blocks that attention to them selects:
//
//     compress        out_c = sum over i < block of w_i x_{c stride + i}, head by head
//     select_blocks   the blocks with most of that attention (nsa_select.cuh)
//
// Where the compressed tokens of a sequence begin is counted on the device first.
#include "device/call.cuh"
#include "device/sums.cuh"
#include "gnograd_cuda.h"
#include "nsa_select.cuh"

namespace gnograd {
namespace {

Stretches make_stretches(int64_t n_tokens, int64_t n_sequences, const int64_t* cu, int64_t block,
                         int64_t stride) {
  if (n_sequences < 1) return {{n_tokens, 1, nullptr}, block, stride};
  return {{n_tokens, n_sequences, cu}, block, stride};
}

// One block of 1024 threads: how many compressed tokens the sequences before have. Shared memory: 8
// KB; bound by latency. Alone, as ptxas would spill to have room for another one.
__global__ void __launch_bounds__(scan_threads, 1)
    compress_find_offsets(Stretches x, int64_t* __restrict__ offsets) {
  scan(
      x.tokens.n, [&](int64_t s) { return x.count(s); },
      [&](int64_t s, int64_t offset) { offsets[s] = offset; });
}

// The compressed tokens as sequences of their own.
struct Compressed {
  Sequences tokens;
  int64_t* offsets;

  Compressed(const Stretches& x, int64_t n, Workspace& workspace)
      : offsets(workspace.take<int64_t>(x.tokens.n + 1)) {
    tokens = {n, x.tokens.n, offsets};
  }
  void find(const Stretches& x, cudaStream_t stream) const {
    launch(compress_find_offsets, dim3(1), dim3(scan_threads), scan_bytes, stream, x, offsets);
  }
};

// ---- compress ----

template <class T, class S>
struct Compression {
  Stretches stretches;
  Sequences compressed;
  int64_t heads, size;  // features of a head
  Input<T, S> x;        // [tokens, heads, size]
  Input<T, S> w;        // [block, heads]
  const T* g;           // [compressed tokens, heads, size], of gradients

  // First token of a compressed one.
  __device__ int64_t first_token(int64_t c) const {
    const int64_t s = compressed.of_token(c);
    return stretches.tokens.first(s) + (c - compressed.first(s)) * stretches.stride;
  }
};

// Thread: a feature of a compressed token; reads `block` tokens, which block/stride compressed ones
// share in caches, writes one number. 2 block operations a number; bound by memory or L2.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    compress_sums(Compression<T, S> p, T* __restrict__ out) {
  const int64_t row = p.heads * p.size, c = thread_number() / row, column = thread_number() % row;
  if (c >= p.compressed.n_tokens) return;
  const int64_t token = p.first_token(c), head = column / p.size;
  S sum = 0;
  for (int64_t i = 0; i < p.stretches.block; ++i)
    sum += p.w[i * p.heads + head] * p.x[(token + i) * row + column];
  out[c * row + column] = T(result(sum));
}

// What every token gets back from the stretches that it is part of. Thread: a feature of a token;
// reads block/stride cotangents, writes one number; bound by memory or L2.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    compress_token_gradient(Compression<T, S> p, T* __restrict__ grad_x) {
  const int64_t row = p.heads * p.size, token = thread_number() / row;
  const int64_t column = thread_number() % row;
  if (token >= p.stretches.tokens.n_tokens) return;
  const int64_t s = p.stretches.tokens.of_token(token), stride = p.stretches.stride;
  const int64_t at = token - p.stretches.tokens.first(s);
  const int64_t end = min(at / stride + 1, p.compressed.size(s));
  S sum = 0;
  for (int64_t c = max(at - p.stretches.block + stride, int64_t(0)) / stride; c < end; ++c)
    sum += p.w[(at - c * stride) * p.heads + column / p.size] *
           real<T>(p.g[(p.compressed.first(s) + c) * row + column]);
  grad_x[token * row + column] = T(result(sum));
}

// g_c . x_{c stride + i}, head by head: row c, column (i, head)
template <class T, class S>
struct CompressWeightTerms {
  Compression<T, S> p;

  __device__ S operator()(int64_t c, int64_t column) const {
    const int64_t head = column % p.heads, token = p.first_token(c) + column / p.heads;
    S sum = 0;
    for (int64_t d = 0; d < p.size; ++d)
      sum += real<T>(p.g[(c * p.heads + head) * p.size + d]) *
             p.x[(token * p.heads + head) * p.size + d];
    return sum;
  }
};

template <class T>
struct Compress {
  int64_t n_tokens, n_heads, n_features, n_sequences;
  const int64_t* cu;  // [n_sequences + 1], or null: one sequence
  int64_t block, stride, n_compressed;

  struct Inputs {
    const T* x;  // [n_tokens, n_heads, n_features]
    const T* w;  // [block, n_heads]
  };
  struct Outputs {
    T* out;  // [n_compressed, n_heads, n_features]
  };
  struct Cotangents {
    const T* out;
  };
  struct Gradients {
    T *x, *w;  // as the inputs, or null
  };

  Stretches stretches() const { return make_stretches(n_tokens, n_sequences, cu, block, stride); }
  bool valid() const { return block >= 1 && stride >= 1 && n_heads >= 0 && n_features >= 0; }
  template <class S>
  Compression<T, S> compression(const Compressed& to, const Inputs& in, const Inputs& tangents,
                                const T* g) const {
    return {stretches(), to.tokens, n_heads, n_features, {in.x, tangents.x}, {in.w, tangents.w}, g};
  }

  template <class S>
  int sums(const Inputs& in, const Inputs& tangents, T* out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Compressed to(stretches(), n_compressed, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches(), call.stream);
    launch_threads(n_compressed * n_heads * n_features, call.stream, compress_sums<T, S>,
                   compression<S>(to, in, tangents, nullptr), out);
    return cudaGetLastError();
  }

  template <class S>
  int gradients(const T* g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
                Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const int64_t n_weights = block * n_heads;
    const Compressed to(stretches(), n_compressed, call.workspace);
    const FoldSpace<S> space(n_compressed, n_weights, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches(), call.stream);
    const auto p = compression<S>(to, in, tangents, g);
    if (grad.x)
      launch_threads(n_tokens * n_heads * n_features, call.stream, compress_token_gradient<T, S>, p,
                     grad.x);
    if (grad.w && n_weights)
      sum_rows(CompressWeightTerms<T, S>{p}, n_compressed, n_weights, space, grad.w, call.stream);
    return cudaGetLastError();
  }

  using R = real<T>;
  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return sums<R>(in, {}, out.out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gradients<R>(g.out, in, {}, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return sums<Dual<R>>(in, tangents, out.out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gradients<Dual<R>>(g.out, in, tangents, grad, call);
  }
};

// ---- select_blocks ----

// The best of a unit are in shared memory.
constexpr int64_t most_slots = 1024;

template <class T>
struct SelectBlocks {
  int64_t n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, n_slots, n_sequences;
  const int64_t *cu_q, *cu_k;  // [n_sequences + 1], or null
  int64_t block, stride, block_size;
  double scale;
  int causal;
  int64_t q_offset, query_block, first_blocks, local_blocks;
  int exclude_own;

  struct Inputs {
    const T* q;          // [n_queries, n_query_heads, d_k]
    const T* k;          // [n_compressed, n_heads, d_k]
    const real<T>* lse;  // [n_queries, n_query_heads]
  };
  struct Outputs {
    int32_t* block_index;  // [ceil(n_queries / query_block), n_heads, n_slots]
  };

  bool valid(const Pattern& p) const {
    return p.heads >= 1 && p.group >= 1 && query_block >= 1 && d_k >= 1 && d_k <= most_features &&
           block >= 1 && stride >= 1 && block_size >= 1 && n_slots >= 0 && n_slots <= most_slots &&
           first_blocks >= 0 && local_blocks >= 0 && first_blocks + local_blocks <= n_slots &&
           !(local_blocks > 0 && exclude_own);
  }
  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    // beyond these bounds nothing changes, and below them nothing overflows
    const int64_t most = n_keys + 1, unit = std::min(query_block, std::max<int64_t>(n_queries, 1));
    const int64_t length = std::min(block, most), step = std::min(stride, most);
    const int64_t size = std::min(block_size, n_keys + n_queries + std::abs(q_offset) + 1);
    Pattern pattern = make_pattern(n_queries, n_compressed, n_query_heads, n_heads, n_sequences,
                                   cu_q, nullptr, causal, q_offset - length + 1);
    pattern.stride = step;
    pattern.unit = unit;
    if (!valid(pattern)) return GNOGRAD_CUDA_VALUE;
    const Stretches stretches = make_stretches(n_keys, n_sequences, cu_k, length, step);
    const Compressed to(stretches, n_compressed, call.workspace);
    using Select = NsaSelectBlocks<T>;
    pattern.keys = to.tokens;
    Select select{pattern,
                  stretches,
                  {size, n_slots, q_offset, first_blocks, local_blocks, exclude_own != 0},
                  int(d_k),
                  real<T>(scale * 1.4426950408889634),
                  in.q,
                  in.k,
                  {},
                  in.lse,
                  out.block_index,
                  pattern.n_units(),
                  aligned<T>(d_k, in.q, in.k)};
    constexpr int64_t narrow = INT32_MAX / 1024;
    select.narrow = std::max({length, step, size, unit * pattern.group}) < narrow;
    if (select.narrow) select.by_stride = Divisor(step), select.by_size = Divisor(size);
    const int64_t n_rows = n_compressed * n_heads;
    if constexpr (Select::parts == 2)
      select.split_k = {call.workspace.template take<__half>(n_rows * 2 * select.depth()),
                        call.workspace.template take<SplitEnd>(n_rows)};
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches, call.stream);
    if constexpr (Select::parts == 2)
      launch_threads(n_rows * split_lanes, call.stream, nsa_split_rows, n_rows, int(d_k),
                     select.depth(), select.wide, in.k, select.split_k);
    select.choose_tiles();
    if (pattern.rows() && n_slots)
      launch(nsa_select_blocks<T>, grid_of(ceil_div(select.n_units, select.units()) * n_heads),
             dim3(select.warps * warp_lanes), select.shared_memory(), call.stream, select);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "nsa_compress_entries.cuh"

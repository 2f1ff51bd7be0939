// SPDX-License-Identifier: MIT
// Compressed tokens, and the blocks that attention to them selects:
//
//     compress        out_c = sum over i < block of w_i x_{c stride + i}, head by head
//     select_blocks   score_b = sum over the queries that share a selection, their group of heads,
//                     and the compressed tokens c, of exp(scale q . k_c - lse) times the tokens
//                     that c and b share; the n_slots best
//
// Where the compressed tokens of a sequence begin is counted on the device first.
#include "device/call.cuh"
#include "device/sums.cuh"
#include "gnograd_cuda.h"
#include "nsa_tiles.cuh"

namespace gnograd {
namespace {

// Stretches of the tokens of every sequence.
struct Stretches {
  Sequences tokens;
  int64_t block, stride;  // tokens of a stretch, and from one to the next

  __device__ int64_t count(int64_t s) const {
    const int64_t n = tokens.size(s);
    return n >= block ? (n - block) / stride + 1 : 0;
  }
};

Stretches make_stretches(int64_t n_tokens, int64_t n_sequences, const int64_t* cu, int64_t block,
                         int64_t stride) {
  if (n_sequences < 1) return {{n_tokens, 1, nullptr}, block, stride};
  return {{n_tokens, n_sequences, cu}, block, stride};
}

// One block of 1024 threads: how many compressed tokens the sequences before have. Shared memory: 8
// KB; bound by latency.
__global__ void __launch_bounds__(scan_threads)
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

// Limits of a selection; which blocks are always chosen, or never.
struct Rules {
  int64_t block_size, n_slots, q_offset, first_blocks, local_blocks;
  bool exclude_own;
};

__host__ __device__ inline int64_t floor_ratio(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Block: a unit and key/value head; it goes over 64 blocks at a time, over their compressed tokens
// in tiles of up to 64, and for each over the unit's rows in tiles of up to 64. Shared memory:
// shared_memory(), as in NsaForward. 2 Dk operations a row and compressed token, reads Dk numbers a
// token for every unit, of q for every tile of tokens. Bound by shared memory and, where n_slots is
// large, by the one thread that keeps the best.
template <class T>
struct NsaSelectBlocks {
  using R = real<T>;

  Pattern pattern;  // of the compressed tokens; a unit is the queries that share a selection
  Stretches stretches;
  Rules rules;
  int d_k;
  R scale;
  const T *q, *k;
  const R* lse;  // [queries, query heads]
  bool wide;
  int32_t* chosen;  // [ceil(queries / unit), heads, n_slots]
  int rows, keys;   // of a tile
  static constexpr int blocks = 64;

  // The best so far.
  struct Best {
    R score;
    int32_t block;
  };

  size_t shared_memory() const {
    return shared_bytes<QueryRow<R>>(rows) + SharedMatrix<R>::bytes(rows, d_k) +
           SharedMatrix<R>::bytes(keys, d_k) + SharedMatrix<R>::bytes(rows, keys) +
           shared_bytes<R>(keys) + shared_bytes<R>(blocks) + shared_bytes<Best>(rules.n_slots) +
           shared_bytes<int>(1);
  }

  __device__ void operator()() const {
    SharedMemory shared;
    QueryRow<R>* row = shared.take<QueryRow<R>>(rows);
    const SharedMatrix<R> q_tile(shared, rows, d_k), k_tile(shared, keys, d_k),
        e(shared, rows, keys);
    R* sums = shared.take<R>(keys);
    R* scores = shared.take<R>(blocks);
    Best* best = shared.take<Best>(int(rules.n_slots));
    int* n_best = shared.take<int>(1);
    const int head = int(blockIdx.x % pattern.heads), t = int(threadIdx.x);
    const TokenPiece unit = pattern.unit_of(blockIdx.x / pattern.heads);
    // of two sequences that share a selection the first has it
    if (unit.size() <= 0 || unit.first != unit.number * pattern.unit) return;
    const int64_t s = unit.sequence, from = pattern.queries.first(s);
    const int64_t n_compressed = pattern.keys.size(s), size = rules.block_size;
    const int64_t own_first = floor_ratio(unit.first - from + rules.q_offset, size);
    const int64_t own_last = floor_ratio(unit.end - 1 - from + rules.q_offset, size);
    int64_t n_blocks = (stretches.tokens.size(s) + size - 1) / size;
    if (pattern.causal) n_blocks = min(n_blocks, own_last + 1);

    if (t == 0) *n_best = 0;
    for (int64_t b = 0; b < n_blocks; b += blocks) {
      const int n = int(min(n_blocks - b, int64_t(blocks)));
      if (t < n) scores[t] = 0;
      const int64_t low = b * size, high = (b + n) * size;
      const int64_t end = min((high - 1) / stretches.stride + 1, n_compressed);
      int64_t c = max(low - stretches.block + stretches.stride, int64_t(0)) / stretches.stride;
      for (; c < end; c += keys) {
        const int m = int(min(end - c, int64_t(keys)));
        attend(unit, head, c, m, row, q_tile, k_tile, e, sums);
        if (t < n) scores[t] += shared_attention(b + t, c, m, sums);
        __syncthreads();
      }
      if (t == 0)
        for (int i = 0; i < n; ++i) enter(b + i, scores[i], own_first, own_last, best, *n_best);
      __syncthreads();
    }
    __syncthreads();
    int32_t* to = chosen + (unit.number * pattern.heads + head) * rules.n_slots;
    for (int i = t; i < rules.n_slots; i += block_threads) to[i] = i < *n_best ? best[i].block : -1;
  }

  // sums[i] = attention of all rows of a unit to compressed token c + i of its sequence
  __device__ void attend(const TokenPiece& unit, int head, int64_t c, int m, QueryRow<R>* row,
                         const SharedMatrix<R>& q_tile, const SharedMatrix<R>& k_tile,
                         const SharedMatrix<R>& e, R* sums) const {
    const int t = int(threadIdx.x);
    const int64_t from = pattern.queries.first(unit.sequence);
    const int64_t first_key = pattern.keys.first(unit.sequence) + c;
    const int64_t n_keys = pattern.keys.size(unit.sequence), n_rows = unit.size() * pattern.group;
    load_rows(k_tile, m, d_k, wide, Input<T, R>{k},
              [&](int i) { return (first_key + i) * pattern.heads + head; });
    if (t < m) sums[t] = 0;
    for (int64_t first = 0; first < n_rows; first += rows) {
      const int n = int(min(n_rows - first, int64_t(rows)));
      for (int i = t; i < n; i += block_threads) {
        const int64_t query = unit.first + (first + i) / pattern.group;
        row[i].query = query;
        row[i].at = query * pattern.query_heads() + int64_t(head) * pattern.group +
                    (first + i) % pattern.group;
        row[i].keys = pattern.visible(query - from, n_keys);
        row[i].lse = lse[row[i].at];
      }
      __syncthreads();
      load_rows(q_tile, n, d_k, wide, Input<T, R>{q}, [&](int i) { return row[i].at; });
      __syncthreads();
      product_by_fma<R>(
          n, m, d_k, [&](int i, int l) { return q_tile(i, l); },
          [&](int l, int j) { return k_tile(j, l); },
          [&](int i, int j, R sum) {
            e(i, j) = row[i].sees(c + j) ? exponential_below(scale * sum, row[i].lse) : R(0);
          });
      __syncthreads();
      if (t < m)
        for (int i = 0; i < n; ++i) sums[t] += e(i, t);
      __syncthreads();
    }
  }

  // What block b gets of the attention to compressed tokens c..c+m.
  __device__ R shared_attention(int64_t b, int64_t c, int m, const R* sums) const {
    const int64_t low = b * rules.block_size, high = low + rules.block_size;
    R score = 0;
    for (int i = 0; i < m; ++i) {
      const int64_t first = (c + i) * stretches.stride, end = first + stretches.block;
      const int64_t tokens = min(end, high) - max(first, low);
      if (tokens > 0) score += R(tokens) * sums[i];
    }
    return score;
  }

  // Keep a block if it is among the best; of equal ones the first.
  __device__ void enter(int64_t b, R score, int64_t own_first, int64_t own_last, Best* best,
                        int& n) const {
    const bool own = own_first <= b && b <= own_last;
    if (own && rules.exclude_own) return;
    const bool local =
        rules.local_blocks > 0 && own_first - rules.local_blocks < b && b <= own_last;
    if (b < rules.first_blocks || local) score = INFINITY;
    if (n < rules.n_slots) ++n;
    else if (n == 0 || !(score > best[n - 1].score)) return;
    int i = n - 1;
    for (; i > 0 && score > best[i - 1].score; --i) best[i] = best[i - 1];
    best[i] = {score, int32_t(b)};
  }
};

// A thread inserts; more slots than this would take long, and much shared memory.
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
    Pattern pattern = make_pattern(n_queries, n_compressed, n_query_heads, n_heads, n_sequences,
                                   cu_q, nullptr, causal, q_offset - block + 1);
    pattern.stride = stride;
    pattern.unit = query_block;
    if (!valid(pattern)) return GNOGRAD_CUDA_VALUE;
    const Stretches stretches = make_stretches(n_keys, n_sequences, cu_k, block, stride);
    const Compressed to(stretches, n_compressed, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches, call.stream);
    pattern.keys = to.tokens;
    NsaSelectBlocks<T> select{
        pattern,
        stretches,
        {block_size, n_slots, q_offset, first_blocks, local_blocks, exclude_own != 0},
        int(d_k),
        real<T>(scale),
        in.q,
        in.k,
        in.lse,
        aligned<T>(d_k, in.q, in.k),
        out.block_index,
        int(std::min<int64_t>(most_side,
                              std::min<int64_t>(query_block, most_side) * pattern.group)),
        most_side};
    shrink_tiles(select.rows, select.keys, [&] { return select.shared_memory(); });
    if (pattern.rows() && n_slots)
      launch_operation(select, pattern.n_units() * pattern.heads, call.stream);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "nsa_compress_entries.cuh"

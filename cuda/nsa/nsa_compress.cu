// SPDX-License-Identifier: MIT
// Compressed tokens, and the blocks that attention to them selects:
//
//     compress        out_c = sum over i < block of w_i x_{c stride + i}, head by head
//     select_blocks   score_b = sum over the queries that share a selection, their group of heads,
//                     and the compressed tokens c, of exp(scale q . k_c - lse) times the tokens
//                     that c and b share; the n_slots best
//
// Where the compressed tokens of a sequence begin is counted on the device first.
#include "device/face.cuh"
#include "device/sums.cuh"
#include "gnograd_cuda.h"
#include "nsa_attention.cuh"

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

__global__ void __launch_bounds__(scan_threads) find_offsets(Stretches x, int64_t* offsets) {
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
    launch(find_offsets, dim3(1), dim3(scan_threads), scan_bytes, stream, x, offsets);
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

template <class T, class S>
__global__ void __launch_bounds__(block_threads) sum_stretches(Compression<T, S> p, T* out) {
  const int64_t row = p.heads * p.size, c = thread_number() / row, column = thread_number() % row;
  if (c >= p.compressed.n_tokens) return;
  const int64_t token = p.first_token(c), head = column / p.size;
  S sum = 0;
  for (int64_t i = 0; i < p.stretches.block; ++i)
    sum += p.w[i * p.heads + head] * p.x[(token + i) * row + column];
  out[c * row + column] = T(result(sum));
}

// What every token gets back from the stretches that it is part of.
template <class T, class S>
__global__ void __launch_bounds__(block_threads) spread(Compression<T, S> p, T* grad_x) {
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
struct Correlation {
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
  Stretches stretches;
  int64_t n_compressed, heads, size;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  bool valid() const {
    return stretches.block >= 1 && stretches.stride >= 1 && heads >= 0 && size >= 0;
  }
  template <class S>
  Compression<T, S> compression(const Compressed& to, const void* const (&in)[2],
                                const void* const (&tangents)[2], const void* g) const {
    return {stretches,
            to.tokens,
            heads,
            size,
            {static_cast<const T*>(in[0]), static_cast<const T*>(tangents[0])},
            {static_cast<const T*>(in[1]), static_cast<const T*>(tangents[1])},
            static_cast<const T*>(g)};
  }

  template <class S>
  int sums(const void* const (&in)[2], const void* const (&tangents)[2], void* out) {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Compressed to(stretches, n_compressed, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches, stream);
    launch_threads(n_compressed * heads * size, stream, sum_stretches<T, S>,
                   compression<S>(to, in, tangents, nullptr), static_cast<T*>(out));
    return cudaGetLastError();
  }

  template <class S>
  int gradients(const void* g, const void* const (&in)[2], const void* const (&tangents)[2],
                void* grad_x, void* grad_w) {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const int64_t n_weights = stretches.block * heads;
    const Compressed to(stretches, n_compressed, workspace);
    const FoldSpace<S> space(n_compressed, n_weights, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches, stream);
    const auto p = compression<S>(to, in, tangents, g);
    if (grad_x)
      launch_threads(stretches.tokens.n_tokens * heads * size, stream, spread<T, S>, p,
                     static_cast<T*>(grad_x));
    if (grad_w && n_weights)
      sum_rows(Correlation<T, S>{p}, n_compressed, n_weights, space, static_cast<T*>(grad_w),
               stream);
    return cudaGetLastError();
  }

  using R = real<T>;
  int forward(const void* x, const void* w, void* out) { return sums<R>({x, w}, {}, out); }
  int vjp(const void* g, const void* x, const void* w, void* grad_x, void* grad_w) {
    return gradients<R>(g, {x, w}, {}, grad_x, grad_w);
  }
  int jvp(const void* x, const void* w, const void* dx, const void* dw, void* out) {
    return sums<Dual<R>>({x, w}, {dx, dw}, out);
  }
  int hvp(const void* g, const void* x, const void* w, const void* dx, const void* dw,
          void* grad_x, void* grad_w) {
    return gradients<Dual<R>>(g, {x, w}, {dx, dw}, grad_x, grad_w);
  }

  // A face that has no memory to work in only counts what it needs.
  size_t forward_bytes() { return forward(nullptr, nullptr, nullptr), workspace.bytes(); }
  size_t vjp_bytes() {
    return vjp(nullptr, nullptr, nullptr, nullptr, nullptr), workspace.bytes();
  }
  size_t jvp_bytes() {
    return jvp(nullptr, nullptr, nullptr, nullptr, nullptr), workspace.bytes();
  }
  size_t hvp_bytes() {
    return hvp(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), workspace.bytes();
  }
};

// ---- select_blocks ----

// Limits of a selection; which blocks are always chosen, or never.
struct Rules {
  int64_t block_size, n_slots, q_offset, first_blocks, local_blocks;
  bool exclude_own;
};

__host__ __device__ inline int64_t floor_ratio(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

template <class T>
struct SelectBlocks {
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
    return shared_bytes<Row<R>>(rows) + Tile<R>::bytes(rows, d_k) + Tile<R>::bytes(keys, d_k) +
           Tile<R>::bytes(rows, keys) + shared_bytes<R>(keys) + shared_bytes<R>(blocks) +
           shared_bytes<Best>(rules.n_slots) + shared_bytes<int>(1);
  }

  __device__ void operator()() const {
    SharedMemory shared;
    Row<R>* row = shared.take<Row<R>>(rows);
    const Tile<R> q_tile(shared, rows, d_k), k_tile(shared, keys, d_k), e(shared, rows, keys);
    R* sums = shared.take<R>(keys);
    R* scores = shared.take<R>(blocks);
    Best* best = shared.take<Best>(int(rules.n_slots));
    int* n_best = shared.take<int>(1);
    const int head = int(blockIdx.x % pattern.heads), t = int(threadIdx.x);
    const Piece unit = pattern.unit_of(blockIdx.x / pattern.heads);
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
  __device__ void attend(const Piece& unit, int head, int64_t c, int m, Row<R>* row,
                         const Tile<R>& q_tile, const Tile<R>& k_tile, const Tile<R>& e,
                         R* sums) const {
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
      multiply<R>(
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
struct Select {
  SelectBlocks<T> operation;
  int64_t n_compressed;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  bool valid() const {
    const Pattern& p = operation.pattern;
    const Stretches& x = operation.stretches;
    const Rules& rules = operation.rules;
    return p.heads >= 1 && p.group >= 1 && p.unit >= 1 && operation.d_k >= 1 &&
           operation.d_k <= most_features && x.block >= 1 && x.stride >= 1 &&
           rules.block_size >= 1 && rules.n_slots >= 0 && rules.n_slots <= most_slots &&
           rules.first_blocks >= 0 && rules.local_blocks >= 0 &&
           rules.first_blocks + rules.local_blocks <= rules.n_slots &&
           !(rules.local_blocks > 0 && rules.exclude_own);
  }
  int forward(const void* q, const void* k, const void* lse, int32_t* block_index) {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Compressed to(operation.stretches, n_compressed, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(operation.stretches, stream);
    auto& o = operation;
    o.pattern.keys = to.tokens;
    o.q = static_cast<const T*>(q);
    o.k = static_cast<const T*>(k);
    o.lse = static_cast<const real<T>*>(lse);
    o.wide = aligned<T>(o.d_k, q, k);
    o.chosen = block_index;
    o.rows = int(std::min<int64_t>(most_side, std::min<int64_t>(o.pattern.unit, most_side) *
                                                  o.pattern.group));
    o.keys = most_side;
    shrink_tiles(o.rows, o.keys, [&] { return o.shared_memory(); });
    if (o.pattern.rows() && o.rules.n_slots)
      launch_operation(o, o.pattern.n_units() * o.pattern.heads, stream);
    return cudaGetLastError();
  }
  size_t forward_bytes() {
    return forward(nullptr, nullptr, nullptr, nullptr), workspace.bytes();
  }
};

// The functions' static arguments, as gnograd_cuda.h lists them.
#define COMPRESS (n_tokens, n_heads, n_features, n_sequences, cu, block, stride, n_compressed)
template <class T>
Compress<T> compress GNOGRAD_CUDA_COMPRESS {
  return {make_stretches(n_tokens, n_sequences, cu, block, stride), n_compressed, n_heads,
          n_features, {}};
}

#define SELECT                                                                               \
  (n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, n_slots, n_sequences, cu_q, \
   cu_k, block, stride, block_size, scale, causal, q_offset, query_block, first_blocks,      \
   local_blocks, exclude_own)
template <class T>
Select<T> select_blocks GNOGRAD_CUDA_SELECT_BLOCKS {
  SelectBlocks<T> o{};
  o.pattern = make_pattern(n_queries, n_compressed, n_query_heads, n_heads, n_sequences, cu_q,
                           nullptr, causal, q_offset - block + 1);
  o.pattern.stride = stride;
  o.pattern.unit = query_block;
  o.stretches = make_stretches(n_keys, n_sequences, cu_k, block, stride);
  o.rules = {block_size, n_slots, q_offset, first_blocks, local_blocks, exclude_own != 0};
  o.d_k = int(std::min<int64_t>(d_k, most_features + 1));
  o.scale = real<T>(scale);
  return {o, n_compressed, {}};
}

}  // namespace
}  // namespace gnograd

using namespace gnograd;

#define COMPRESS_FACE(face, type, T, call, ...)                                                 \
  DEFINE_FACE(compress_##face, type, GNOGRAD_CUDA_COMPRESS, compress<T> COMPRESS, face##_bytes, \
              face call, __VA_ARGS__)
#define FACES(type, T)                                                                          \
  COMPRESS_FACE(forward, type, T, (x, w, out), const void* x, const void* w, void* out)         \
  COMPRESS_FACE(vjp, type, T, (cotangent, x, w, grad_x, grad_w), const void* cotangent,         \
                const void* x, const void* w, void* grad_x, void* grad_w)                       \
  COMPRESS_FACE(jvp, type, T, (x, w, dx, dw, out), const void* x, const void* w,                \
                const void* dx, const void* dw, void* out)                                      \
  COMPRESS_FACE(hvp, type, T, (cotangent, x, w, dx, dw, grad_x, grad_w),                        \
                const void* cotangent, const void* x, const void* w, const void* dx,            \
                const void* dw, void* grad_x, void* grad_w)                                     \
  DEFINE_FACE(select_blocks_forward, type, GNOGRAD_CUDA_SELECT_BLOCKS, select_blocks<T> SELECT, \
              forward_bytes, forward(q, k, lse, block_index), const void* q, const void* k,     \
              const void* lse, int32_t* block_index)
FACES(f32, float)
FACES(f64, double)
FACES(f16, __half)
FACES(bf16, __nv_bfloat16)

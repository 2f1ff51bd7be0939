// SPDX-License-Identifier: MIT
// Compressed tokens, and the blocks that attention to them selects:
//
//     compress        out_c = sum over i < block of w_i x_{c stride + i}, head by head
//     select_blocks   the blocks with most of that attention (nsa_select.cuh)
//
// The first compressed token of every sequence is counted on the device before that.
#include "device/call.cuh"
#include "device/lanes.cuh"
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

// One block of 1024 threads: how many compressed tokens the sequences before have. Shared memory:
// 256 bytes; bound by latency. Alone, as ptxas would spill to have room for another one.
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

// Division by a number that is known before: a product where both have 31 bits, as nearly always.
struct WideDivisor {
  int64_t d;
  Divisor narrow;

  explicit WideDivisor(int64_t d)
      : d(std::max<int64_t>(d, 1)), narrow(std::clamp<int64_t>(d, 1, INT32_MAX)) {}
  __device__ int64_t operator()(int64_t n) const {
    return (n | d) >> 31 ? n / d : narrow(int(n));
  }
};

template <class T, class S>
struct Compression {
  Stretches stretches;
  Sequences compressed;
  int heads, size;  // features of a head
  Input<T, S> x;    // [tokens, heads, size]
  Input<T, S> w;    // [block, heads]
  const T* g;       // [compressed tokens, heads, size], of gradients
  bool wide;        // rows are aligned
  // a token is in so many stretches, and in one more if it is one of the first `over` after the
  // beginning of a stretch
  int64_t stretches_of_token, over;
  WideDivisor by_stride, by_row, by_head;  // pieces of a row, and of a head

  // Numbers that a thread works on: width<T> features of one head of a row.
  struct Piece {
    int64_t row;
    int head, column, count;
  };
  __device__ int64_t features() const { return int64_t(heads) * size; }
  __device__ Piece piece() const {
    const int64_t row = by_row(thread_number());
    const int number = int(thread_number() - row * by_row.d);
    const int head = by_head.narrow(number);
    const int first = (number - head * int(by_head.d)) * width<T>;
    return {row, head, head * size + first, size - first};
  }

  // First token of a compressed one.
  __device__ int64_t first_token(int64_t c) const {
    const int64_t s = compressed.of_token(c);
    return stretches.tokens.first(s) + (c - compressed.first(s)) * stretches.stride;
  }
};

// Thread: 16 bytes of a compressed token, all of one head; reads as much of `block` tokens, which
// block/stride compressed ones share in caches, four on the way at a time. 2 block operations a
// number; bound by memory.
template <class T, class S, bool wide>
__global__ void __launch_bounds__(block_threads)
    compress_sums(Compression<T, S> p, T* __restrict__ out) {
  const auto at = p.piece();
  if (at.row >= p.compressed.n_tokens) return;
  constexpr int ahead = sizeof(S) > 8 ? 2 : 4;  // all that registers allow
  const int64_t row = p.features(), first = p.first_token(at.row) * row + at.column;
  Vector<S, width<T>> sum;
#pragma unroll 1
  for (int64_t i = 0; i < p.stretches.block; i += ahead) {
    PackedInput<T, S, wide> x[ahead];
    S w[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      if (i + a >= p.stretches.block) continue;
      x[a].load(p.x, (first + (i + a) * row) * int64_t(sizeof(T)), at.count);
      w[a] = p.w[(i + a) * p.heads + at.head];
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a)
      if (i + a < p.stretches.block) sum.add(w[a], x[a].unpack());
  }
  store_vector(out + at.row * row + at.column, sum, at.count, wide);
}

// Gradient to every token: the sum over the stretches that it is part of. Thread: 16 bytes of a
// token, all of one head; reads as much of block/stride cotangents, two on the way at a time; bound
// by integer instructions, at twice what memory takes.
template <class T, class S, bool wide>
__global__ void __launch_bounds__(block_threads)
    compress_token_gradient(Compression<T, S> p, T* __restrict__ grad_x) {
  const auto at = p.piece();
  if (at.row >= p.stretches.tokens.n_tokens) return;
  constexpr int ahead = 2;
  const int64_t row = p.features(), stride = p.stretches.stride;
  const int64_t s = p.stretches.tokens.of_token(at.row);
  const int64_t place = at.row - p.stretches.tokens.first(s), last = p.by_stride(place);
  const int64_t n = p.stretches_of_token + (place - last * stride < p.over);
  const int64_t end = min(last + 1, p.compressed.size(s));
  const int64_t begin = max(last + 1 - n, int64_t(0));
  const T* g = p.g + (p.compressed.first(s) + begin) * row + at.column;
  int64_t weight = (place - begin * stride) * p.heads + at.head;
  const int64_t step = stride * p.heads;
  Vector<S, width<T>> sum;
#pragma unroll 1  // needs less setup
  for (int64_t left = end - begin; left > 0; left -= ahead) {
    Packed<T, wide> terms[ahead];
    S w[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a, g += row, weight -= step) {
      if (a >= left) continue;
      terms[a].load(g, at.count);
      w[a] = p.w[weight];
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a)
      if (a < left) sum.add(w[a], terms[a].unpack());
  }
  store_vector(grad_x + at.row * row + at.column, sum, at.count, wide);
}

// g_c . x_{c stride + i}, head by head: row c, column (i, head). 16 bytes of both at a time, four
// of these on the way.
template <class T, class S, bool wide>
struct CompressWeightTerms {
  Compression<T, S> p;

  __device__ S operator()(int64_t c, int column) const {
    constexpr int ahead = 4;
    const int i = int(unsigned(column) / unsigned(p.heads)), head = column - i * p.heads;
    const T* g = p.g + (c * p.heads + head) * p.size;
    const int64_t x = ((p.first_token(c) + i) * p.heads + head) * p.size;
    S sum = 0;
#pragma unroll 1
    for (int d = 0; d < p.size; d += ahead * width<T>) {
      Packed<T, wide> gs[ahead];
      PackedInput<T, S, wide> xs[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        const int at = d + a * width<T>;
        if (at >= p.size) continue;
        gs[a].load(g + at, p.size - at);
        xs[a].load(p.x, (x + at) * int64_t(sizeof(T)), p.size - at);
      }
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        if (d + a * width<T> >= p.size) continue;
        const auto terms = gs[a].unpack();
        const auto numbers = xs[a].unpack();
        for (int f = 0; f < width<T>; ++f) sum += terms[f] * numbers[f];
      }
    }
    return sum;
  }
};

template <class T>
struct Compress : CompressRecords {
  Stretches stretches() const { return make_stretches(n_tokens, n_sequences, cu, block, stride); }
  bool valid() const { return block >= 1 && stride >= 1 && n_heads >= 0 && n_features >= 0; }
  // Pieces of a row, a thread each.
  int64_t n_pieces() const { return n_heads * ceil_div(n_features, width<T>); }
  // Compression of arrays that all have to be aligned for vectors.
  template <class S, class... Arrays>
  Compression<T, S> compression(const Compressed& to, const Inputs<T, S>& in, const T* g,
                                Arrays... arrays) const {
    return {stretches(),
            to.tokens,
            int(n_heads),
            int(n_features),
            in.x,
            in.w,
            g,
            aligned<T>(n_features, in.x.v, in.x.d, g, arrays...),
            block / stride,
            block % stride,
            WideDivisor(stride),
            WideDivisor(n_pieces()),
            WideDivisor(ceil_div(n_features, width<T>))};
  }
  // f(whether rows are aligned, as a type)
  template <class F>
  static void with_width(bool wide, F f) {
    if (wide) f(std::true_type());
    else f(std::false_type());
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const Compressed to(stretches(), n_compressed, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches(), call.stream);
    const auto p = compression(to, in, nullptr, out.out);
    with_width(p.wide, [&](auto wide) {
      launch_threads(n_compressed * n_pieces(), call.stream, compress_sums<T, S, wide()>, p,
                     out.out);
    });
    return cudaGetLastError();
  }

  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const int64_t n_weights = block * n_heads;
    const Compressed to(stretches(), n_compressed, call.workspace);
    const FoldSpace<S> space(n_compressed, n_weights, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    to.find(stretches(), call.stream);
    const auto p = compression(to, in, g.out, grad.x);
    if (grad.x)
      with_width(p.wide, [&](auto wide) {
        launch_threads(n_tokens * n_pieces(), call.stream, compress_token_gradient<T, S, wide()>, p,
                       grad.x);
      });
    if (grad.w && n_weights)
      with_width(p.wide, [&](auto wide) {
        sum_rows(CompressWeightTerms<T, S, wide()>{p}, n_compressed, n_weights, space, grad.w,
                 call.stream);
      });
    return cudaGetLastError();
  }
};

// ---- select_blocks ----

// The best of a unit are in shared memory.
constexpr int64_t most_slots = 1024;

template <class T>
struct SelectBlocks : SelectBlocksRecords {
  bool valid(const Pattern& p) const {
    return p.heads >= 1 && p.group >= 1 && query_block >= 1 && d_k >= 1 && d_k <= most_features &&
           block >= 1 && stride >= 1 && block_size >= 1 && n_slots >= 0 && n_slots <= most_slots &&
           first_blocks >= 0 && local_blocks >= 0 && first_blocks + local_blocks <= n_slots &&
           !(local_blocks > 0 && exclude_own);
  }
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    if (keep > 0) return GNOGRAD_CUDA_UNSUPPORTED;
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
                  in.q.v,
                  in.k.v,
                  {},
                  in.lse.v,
                  out.block_index,
                  pattern.n_units(),
                  aligned<T>(d_k, in.q.v, in.k.v)};
    constexpr int64_t narrow = INT32_MAX / 1024;
    select.narrow = std::max({length, step, size, unit * pattern.group}) < narrow;
    if (select.narrow) select.by_stride = Divisor(step), select.by_size = Divisor(size);
    const int64_t n_rows = n_compressed * n_heads;
    if constexpr (Select::parts == 2)
      select.split_k = {call.workspace.template take<__half>(n_rows * 2 * select.depth()),
                        call.workspace.template take<SplitEnd>(n_rows)};
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (!in.lse) return GNOGRAD_CUDA_VALUE;
    to.find(stretches, call.stream);
    if constexpr (Select::parts == 2)
      launch_threads(n_rows * split_lanes, call.stream, nsa_split_rows, n_rows, int(d_k),
                     select.depth(), select.wide, in.k.v, select.split_k);
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

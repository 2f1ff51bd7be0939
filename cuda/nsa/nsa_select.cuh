// SPDX-License-Identifier: MIT
// The blocks that attention to compressed tokens selects:
//
//     score_b = sum over the queries that share a selection, their group of heads, and the
//               compressed tokens c, of exp(scale q . k_c - lse) times the tokens c and b share
//
// and the n_slots best of these, of equal ones the first. Products are made on tensor cores,
// float32 by 3xTF32; those that are NaN then are made again without: parts of an infinity are
// no numbers.
#pragma once
#include "device/copies.cuh"
#include "device/lanes.cuh"
#include "device/mma.cuh"
#include "nsa_pattern.cuh"

namespace gnograd {

// Stretches of the tokens of every sequence.
struct Stretches {
  Sequences tokens;
  int64_t block, stride;  // tokens of a stretch, and from one to the next

  __device__ int64_t count(int64_t s) const {
    const int64_t n = tokens.size(s);
    return n >= block ? (n - block) / stride + 1 : 0;
  }
};

// Limits of a selection; which blocks are always chosen, or never.
struct SelectRules {
  int64_t block_size, n_slots, q_offset, first_blocks, local_blocks;
  bool exclude_own;
};

__host__ __device__ inline int64_t floor_ratio(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Compressed tokens of a tile, and what the depth of a product is padded to.
template <class T>
constexpr int select_keys = sizeof(T) == 2   ? 64
                            : sizeof(T) == 4 ? 32
                                             : 16;
template <class T>
constexpr int select_step = sizeof(T) == 8 ? 2 : 16;
constexpr int select_rows = 16;     // of a warp
constexpr int select_warps = 8;     // of a block at most
constexpr int select_window = 256;  // blocks that have their scores in shared memory

// ---- products of 16 rows of q and the first n rows of a tile of k, or all, dealt out as
// mma_m16n8k16 does ----

// Of numbers of 16 bits. Every eight rows of 16 bytes lie in different banks (pitch()).
template <bool full, class T, int n_tiles>
__device__ void select_product(const T* q, const T* k, int pitch, int depth, int n,
                               float (&sum)[n_tiles][4]) {
  const int lane = int(threadIdx.x) % warp_lanes;
  const T* a = q + lane % 16 * pitch + lane / 16 * 8;
  const T* b[n_tiles / 2];
#pragma unroll
  for (int i = 0; i < n_tiles / 2; ++i)
    b[i] = k + (i * 16 + lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8;
#pragma unroll 1
  for (int l = 0; l < depth; l += 16) {
    unsigned x[4];
    load_matrices(x, a);
    a += 16;
#pragma unroll
    for (int i = 0; i < n_tiles / 2; ++i)
      if (full || i * 16 < n) {
        unsigned y[4];
        load_matrices(y, b[i]);
        b[i] += 16;
        mma_m16n8k16(T(), sum[2 * i], x, {y[0], y[1]});
        mma_m16n8k16(T(), sum[2 * i + 1], x, {y[2], y[3]});
      }
  }
}

// A number as the sum of two of 11 bits: the first rounded to nearest, the second, which is exact
// but for 2^-21 of the number, towards zero. Of infinity and NaN the second is NaN, which cutting
// off keeps one, as rounding may not.
struct SelectParts {
  unsigned large, small;
  __device__ explicit SelectParts(float x) {
    constexpr unsigned kept = ~0x1fffu;
    memcpy(&large, &x, sizeof x);
    large = (large + 0x1000) & kept;
    float rest;
    memcpy(&rest, &large, sizeof rest);
    rest = x - rest;
    memcpy(&small, &rest, sizeof rest);
    small &= kept;
  }
};

template <bool full, int n_tiles>
__device__ void select_product(const float* q, const float* k, int pitch, int depth, int n,
                               float (&sum)[n_tiles][4]) {
  const int lane = int(threadIdx.x) % warp_lanes, row = lane / 4, column = lane % 4;
#pragma unroll 1
  for (int l0 = 0; l0 < depth; l0 += 16) {
    // sums of tensor cores are rounded towards zero: short ones are added up outside
    float part[n_tiles][4] = {};
#pragma unroll
    for (int l = l0 + column; l < l0 + column + 16; l += 8) {
      unsigned a_large[4], a_small[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const SelectParts x(q[(row + r % 2 * 8) * pitch + l + r / 2 * 4]);
        a_large[r] = x.large, a_small[r] = x.small;
      }
#pragma unroll
      for (int tile = 0; tile < n_tiles; ++tile)
        if (full || tile * 8 < n) {
          unsigned b_large[2], b_small[2];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const SelectParts y(k[(tile * 8 + row) * pitch + l + r * 4]);
            b_large[r] = y.large, b_small[r] = y.small;
          }
          mma_m16n8k8(part[tile], a_small, b_large);
          mma_m16n8k8(part[tile], a_large, b_small);
          mma_m16n8k8(part[tile], a_large, b_large);
        }
    }
#pragma unroll
    for (int tile = 0; tile < n_tiles; ++tile)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[tile][r] += part[tile][r];
  }
#pragma unroll
  for (int tile = 0; tile < n_tiles; ++tile)
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (sum[tile][r] != sum[tile][r] && tile * 8 < n) {
        const float* x = q + (row + r / 2 * 8) * pitch;
        const float* y = k + (tile * 8 + column * 2 + r % 2) * pitch;
        float again = 0;
#pragma unroll 1
        for (int l = 0; l < depth; ++l) again += x[l] * y[l];
        sum[tile][r] = again;
      }
}

template <bool full, int n_tiles>
__device__ void select_product(const double* q, const double* k, int pitch, int depth, int n,
                               double (&sum)[n_tiles][4]) {
  const int lane = int(threadIdx.x) % warp_lanes, row = lane / 4, column = lane % 4 * 2;
#pragma unroll 2
  for (int l = 0; l < depth; ++l) {
    const double x[2] = {q[row * pitch + l], q[(row + 8) * pitch + l]};
#pragma unroll
    for (int tile = 0; tile < n_tiles; ++tile)
#pragma unroll
      for (int c = 0; c < 2 && (full || tile * 8 < n); ++c) {
        const double y = k[(tile * 8 + column + c) * pitch + l];
        sum[tile][c] += x[0] * y;
        sum[tile][2 + c] += x[1] * y;
      }
  }
}

// Division of numbers below 2^31 by one that is known before: a product with 2^(31 + s) / d,
// rounded up, for the least s with d <= 2^s.
struct Divisor {
  unsigned factor = 0;
  int shift = 31;

  Divisor() = default;
  explicit Divisor(int64_t d) {
    while (int64_t(1) << (shift - 31) < d) ++shift;
    factor = unsigned(((uint64_t(1) << shift) + d - 1) / d);
  }
  __device__ int operator()(int x) const { return int(uint64_t(unsigned(x)) * factor >> shift); }
};

__device__ inline float exponential_of_2(float x) { return exp2f(x); }
__device__ inline double exponential_of_2(double x) { return exp2(x); }

// Sums over the lanes of equal lane % 4. Of n numbers a lane gives half away at every step, until
// it has two: of n / 2 tiles, those of number lane / 4 / (16 / n). The order is the same for all of
// them, so that equal columns have equal sums.
template <int n, int step = 16, class R>
__device__ void sum_over_rows(R* x) {
  if constexpr (step >= 4) {
    if constexpr (n > 2) {
      const bool upper = int(threadIdx.x) & step;
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const R give = upper ? x[i] : x[i + n / 2], keep = upper ? x[i + n / 2] : x[i];
        x[i] = keep + __shfl_xor_sync(~0u, give, step);
      }
      sum_over_rows<n / 2, step / 2>(x);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) x[i] += __shfl_xor_sync(~0u, x[i], step);
      sum_over_rows<n, step / 2>(x);
    }
  }
}

// A block goes over the compressed tokens for up to eight units (queries that share a selection)
// and one key/value head. A unit has as many warps as its rows need, up to all; a warp has 16 rows
// at a time, and all compressed tokens that they see, a tile after another, which come to shared
// memory while the block works on the last one. A lane holds 2 rows by 2 of every 8 tokens. Sums
// over the rows go to the scores of 256 blocks in shared memory; when these are complete, a warp a
// unit puts those that are better than its worst into a sorted list. Shared memory:
// shared_memory(). Does 2 Dk operations a row and compressed token; reads Dk numbers a token for
// eight units of 16 rows from L2, q once where a unit has up to 128 rows, else for every tile of
// tokens. Bound by shared memory and exponentials at Dk <= 128 in 16 bits, else by tensor cores; in
// float32 by splitting k.
template <class T>
struct NsaSelectBlocks {
  using R = real<T>;

  Pattern pattern;  // of the compressed tokens; a unit is the queries that share a selection
  Stretches stretches;
  SelectRules rules;
  int d_k;
  R scale;  // of q . k, times log2(e)
  const T* __restrict__ q;
  const T* __restrict__ k;
  const R* __restrict__ lse;     // [queries, query heads]
  int32_t* __restrict__ chosen;  // [ceil(queries / unit), heads, n_slots]
  int64_t n_units;
  bool wide;            // rows are aligned
  bool narrow = false;  // tokens of a window and a tile, and rows, have 32 bits
  int warps = 1, unit_warps = 1, stages = 1;  // of a block, of a unit; tiles of k
  int row_bits = 0;                           // log2 of the lanes that load a row
  Divisor by_stride{}, by_size{};

  static constexpr int keys = select_keys<T>, n_tiles = keys / 8, window = select_window;

  // The best so far.
  struct Best {
    R score;
    int32_t block;
  };

  __host__ __device__ int depth() const {
    return (d_k + select_step<T> - 1) / select_step<T> * select_step<T>;
  }
  __host__ __device__ int pitch() const { return depth() + 16 / int(sizeof(T)); }
  int units() const { return warps / unit_warps; }
  size_t shared_memory() const {
    return shared_bytes<T>(warps * select_rows * pitch()) +
           shared_bytes<T>(stages * keys * pitch()) + shared_bytes<R>(warps * keys) +
           shared_bytes<R>(units() * window) + shared_bytes<Best>(units() * rules.n_slots) +
           shared_bytes<Unit>(units());
  }
  // As many warps as have room, best with two tiles of k.
  void choose_tiles() {
    const int64_t rows = pattern.unit * pattern.group;
    row_bits = 0;
    while (row_bits < 5 && (width<T> << row_bits) < d_k) ++row_bits;
    for (warps = select_warps; warps >= 1; warps /= 2)
      for (stages = 2; stages >= 1; --stages) {
        unit_warps = 1;
        while (unit_warps < warps && unit_warps * select_rows < rows) unit_warps *= 2;
        if (shared_memory() <= most_shared) return;
      }
  }

  // In shared memory.
  struct Unit {
    TokenPiece queries;
    int64_t n_rows, n_blocks, seen;  // rows, blocks to choose from, compressed tokens seen
    int64_t own_first, own_last;     // blocks
  };
  // Of a row: lanes 0 to 15 have one each.
  struct Row {
    int64_t at, keys;  // among all rows, -1: there is none; compressed tokens that it sees
    R shift;           // -lse log2(e)
  };
  // Compressed tokens c..c+n of a sequence, for the blocks of a window.
  struct Tile {
    int64_t window, c, end, n;
  };

  __device__ bool there(const Unit& unit) const {
    // of two sequences that share a selection the first has it
    return unit.queries.size() > 0 && unit.queries.first == unit.queries.number * pattern.unit;
  }

  __device__ Unit describe(int64_t number) const {
    Unit u{};
    if (number < 0 || number >= n_units) return u;
    u.queries = pattern.unit_of(number);
    if (!there(u)) return u;
    const int64_t s = u.queries.sequence, from = pattern.queries.first(s), size = rules.block_size;
    const int64_t last = u.queries.end - 1 - from;
    u.n_rows = u.queries.size() * pattern.group;
    u.own_first = floor_ratio(u.queries.first - from + rules.q_offset, size);
    u.own_last = floor_ratio(last + rules.q_offset, size);
    u.n_blocks = (stretches.tokens.size(s) + size - 1) / size;
    if (pattern.causal) u.n_blocks = max(min(u.n_blocks, u.own_last + 1), int64_t(0));
    u.seen = pattern.visible(last, pattern.keys.size(s)).end;
    return u;
  }

  // Whether there is a tile after this one, of the first `seen` compressed tokens.
  __device__ bool next(Tile& tile, int64_t n_blocks, int64_t seen) const {
    tile.c += tile.n;
    while (tile.c >= tile.end) {
      const int64_t low = ++tile.window * window * rules.block_size;
      if (tile.window * window >= n_blocks) return false;
      const int64_t high = min((tile.window + 1) * window, n_blocks) * rules.block_size;
      tile.c = max(low - stretches.block + stretches.stride, int64_t(0)) / stretches.stride;
      tile.end = min((high - 1) / stretches.stride + 1, seen);
    }
    tile.n = min(tile.end - tile.c, int64_t(keys));
    return true;
  }

  // tile(i, :) = the d_k numbers at x + i * row for i < n, zeros where they are not there, by
  // `threads` of which this is the t-th. They arrive when copies are awaited.
  __device__ void load(T* tile, int n, int t, int threads, const T* x, int64_t row,
                       bool there = true) const {
    const int row_lanes = 1 << row_bits, at_once = threads >> row_bits, first = t >> row_bits;
    const int column = (t & (row_lanes - 1)) * width<T>, columns = row_lanes * width<T>;
    T* to = tile + first * pitch();
    x += first * row;
    if (wide) {
#pragma unroll 1
      for (int i = first; i < n; i += at_once, to += at_once * pitch(), x += at_once * row)
        for (int j = column; j < d_k; j += columns) copy_async(to + j, x + j, there);
    } else {
#pragma unroll 1
      for (int i = first; i < n; i += at_once, to += at_once * pitch(), x += at_once * row)
        for (int j = column; j < d_k; j += columns)
          for (int l = j; l < min(j + width<T>, d_k); ++l) to[l] = there ? x[l] : T(0.f);
    }
  }
  __device__ void load_keys(T* tile, const Tile& of, int64_t sequence, int head) const {
    const int64_t row = int64_t(pattern.heads) * d_k;
    load(tile, int(of.n), int(threadIdx.x), warps * warp_lanes,
         k + (pattern.keys.first(sequence) + of.c) * row + int64_t(head) * d_k, row);
    commit_copies();
  }

  // The rows that this warp takes at a time: numbers, and, to shared memory, their q.
  __device__ Row load_queries(T* tile, const Unit& unit, int head, int64_t first) const {
    const int lane = int(threadIdx.x) % warp_lanes;
    Row row{-1, 0, -INFINITY};
    const int64_t r = first + lane;
    if (lane < select_rows && r < unit.n_rows) {
      const int64_t s = unit.queries.sequence;
      const int64_t number = narrow ? int(r) / pattern.group : r / pattern.group;
      const int64_t query = unit.queries.first + number;
      row.at = query * pattern.query_heads() + int64_t(head) * pattern.group + r -
               number * pattern.group;
      // without a softmax a row has no attention to give
      if (const R x = lse[row.at]; x != -INFINITY) {
        row.shift = x * R(-1.4426950408889634);
        row.keys = pattern.visible(query - pattern.queries.first(s), pattern.keys.size(s)).end;
      }
    }
    const int at_once = warp_lanes >> row_bits;
    for (int i = 0; i < select_rows; i += at_once) {
      const int n = min(at_once, select_rows - i);
      const int64_t at = __shfl_sync(~0u, row.at, (i + (lane >> row_bits)) % select_rows);
      // every row has its own place: that of the lane's
      load(tile + i * pitch(), n, lane, warp_lanes, q + max(at, int64_t(0)) * d_k, 0, at >= 0);
    }
    return row;
  }

  __device__ void operator()() const {
    SharedMemory shared;
    const int t = int(threadIdx.x), warp = t / warp_lanes, lane = t % warp_lanes;
    const int u = warp / unit_warps, part = warp % unit_warps, n_units_here = warps / unit_warps;
    T* q_tiles = shared.take<T>(warps * select_rows * pitch());
    T* k_tiles = shared.take<T>(stages * keys * pitch());
    R* sums = shared.take<R>(warps * keys) + warp * keys;
    R* scores = shared.take<R>(n_units_here * window) + u * window;
    Best* best = shared.take<Best>(n_units_here * int(rules.n_slots)) + u * rules.n_slots;
    Unit* units_here = shared.take<Unit>(n_units_here);
    const Unit& unit = units_here[u];
    T* q_tile = q_tiles + warp * select_rows * pitch();

    // the last units see most, and begin first
    const int64_t first_unit =
        int64_t(gridDim.x / pattern.heads - 1 - blockIdx.x / pattern.heads) * n_units_here;
    const int head = int(blockIdx.x % pattern.heads);
    if (part == 0 && lane == 0) units_here[u] = describe(first_unit + u);
    if (depth() != d_k) {
      for (int i = t; i < warps * select_rows * pitch(); i += warps * warp_lanes)
        q_tiles[i] = T(0.f);
      for (int i = t; i < stages * keys * pitch(); i += warps * warp_lanes) k_tiles[i] = T(0.f);
    }
    for (int i = lane; i < window; i += warp_lanes)
      if (part == 0) scores[i] = 0;
    __syncthreads();

    const bool one_pass = unit.n_rows <= unit_warps * select_rows;
    Row row{};
    if (one_pass) {
      row = load_queries(q_tile, unit, head, part * select_rows);
      commit_copies();
    }
    int64_t sequence = -1;
    for (int i = 0; i < n_units_here; ++i) {
      const int64_t s = units_here[i].queries.sequence;
      if (!there(units_here[i]) || s == sequence) continue;
      sequence = s;
      const bool active = there(unit) && unit.queries.sequence == s;
      int64_t n_blocks = 0, seen = 0;
      for (int j = i; j < n_units_here; ++j)
        if (const Unit& other = units_here[j]; there(other) && other.queries.sequence == s)
          n_blocks = max(n_blocks, other.n_blocks), seen = max(seen, other.seen);

      int n_best = 0, stage = 0;
      int64_t finished = 0;  // windows
      Tile tile{-1, 0, 0, 0};
      bool more = next(tile, n_blocks, seen);
      if (more) load_keys(k_tiles, tile, s, head);
      while (more) {
        await_copies();
        __syncthreads();
        const Tile now = tile;
        const T* k_tile = k_tiles + stage * keys * pitch();
        more = next(tile, n_blocks, seen);
        if (stages == 2) {
          stage ^= 1;
          if (more) load_keys(k_tiles + stage * keys * pitch(), tile, s, head);
        }
        if (active && part == 0)
          for (; finished < now.window; ++finished) finish(unit, finished, scores, best, n_best);
        const int n = int(min(now.n, unit.seen - now.c));
        const bool sees = active && n > 0;
        if (sees) {
          R sum[2 * n_tiles] = {};
#pragma unroll 1
          for (int64_t first = part * select_rows; first < unit.n_rows;
               first += unit_warps * select_rows) {
            if (!one_pass) {
              __syncwarp();
              row = load_queries(q_tile, unit, head, first);
              commit_copies();
              await_copies();
              __syncwarp();
            }
            attend(row, now, n, q_tile, k_tile, sum);
          }
          sum_over_rows<2 * n_tiles>(sum);
          constexpr int copies = 8 / n_tiles;  // lanes that have the same sums
          constexpr R highest = sizeof(R) == 8 ? R(0x1p920) : R(0x1p114);  // of a lse not of this k
          if (lane / 4 % copies == 0)
            for (int c = 0; c < 2; ++c)
              sums[lane / 4 / copies * 8 + lane % 4 * 2 + c] = sum[c] > highest ? highest : sum[c];
        }
        if (unit_warps > 1) __syncthreads();
        __syncwarp();
        if (sees && part == 0) {
          for (int w = 1; w < unit_warps; ++w)
            for (int c = lane; c < keys; c += warp_lanes) sums[c] += sums[w * keys + c];
          __syncwarp();
          if (narrow) add_scores<int>(now, n, sums, scores);
          else add_scores<int64_t>(now, n, sums, scores);
        }
        if (stages == 1) {
          __syncthreads();
          if (more) load_keys(k_tiles, tile, s, head);
        }
      }
      if (active && part == 0) {
        __syncwarp();
        for (; finished * window < unit.n_blocks; ++finished)
          finish(unit, finished, scores, best, n_best);
        int32_t* to = chosen + (unit.queries.number * pattern.heads + head) * rules.n_slots;
        for (int j = lane; j < rules.n_slots; j += warp_lanes)
          to[j] = j < n_best ? best[j].block : -1;
      }
      __syncthreads();
    }
    await_copies();
  }

  // Adds the attention of 16 rows to the first n compressed tokens of a tile: of rows g and g + 8
  // to tokens 2 j and 2 j + 1 of every 8, g = lane / 4 and j = lane % 4.
  __device__ void attend(const Row& row, const Tile& tile, int n, const T* q_tile, const T* k_tile,
                         R (&sums)[2 * n_tiles]) const {
    const int group = int(threadIdx.x) % warp_lanes / 4;
    const int last = int(max(min(row.keys - tile.c, int64_t(n)), int64_t(0)));
    const R shift[2] = {__shfl_sync(~0u, row.shift, group), __shfl_sync(~0u, row.shift, group + 8)};
    const int seen[2] = {__shfl_sync(~0u, last, group), __shfl_sync(~0u, last, group + 8)};
    if (__all_sync(~0u, seen[0] == keys && seen[1] == keys))
      add_attention<true>(shift, seen, n, q_tile, k_tile, sums);
    else add_attention<false>(shift, seen, n, q_tile, k_tile, sums);
  }

  // The same, where rows see all tokens of the tile, or the first seen[0] and seen[1].
  template <bool full>
  __device__ void add_attention(const R (&shift)[2], const int (&seen)[2], int n, const T* q_tile,
                                const T* k_tile, R (&sums)[2 * n_tiles]) const {
    R product[n_tiles][4] = {};
    select_product<full>(q_tile, k_tile, pitch(), depth(), n, product);
    const int column = int(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < n_tiles; ++j)
      if (full || j * 8 < n) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          R e = exponential_of_2(fma(product[j][r], scale, shift[r / 2]));
          if constexpr (!full) e = j * 8 + column + r % 2 < seen[r / 2] ? e : R(0);
          sums[2 * j + r % 2] += e;
        }
      }
  }

  // Adds what the blocks of a window get of the attention to the first n tokens of a tile; lane: a
  // block. Positions are counted from the tile's first token, in numbers of type I.
  template <class I>
  __device__ void add_scores(const Tile& tile, int n, const R* sums, R* scores) const {
    const I size = I(rules.block_size), length = I(stretches.block), stride = I(stretches.stride);
    const I first = I(tile.window * window * rules.block_size - tile.c * stretches.stride);
    const I end = (n - 1) * stride + length;
    const auto over = [](I x, I d, const Divisor& by) {
      if constexpr (sizeof(I) == 4) return by(x);
      else return x / d;
    };
    const int from = first < 0 ? int(min(over(-first, size, by_size), I(window))) : 0;
    const int to = int(min(over(max(end - first + size - 1, I(0)), size, by_size), I(window)));
    for (int b = from + int(threadIdx.x) % warp_lanes; b < to; b += warp_lanes) {
      const I low = first + b * size, high = low + size;
      const int c_end = high > 0 ? int(min(over(high - 1, stride, by_stride) + 1, I(n))) : 0;
      int c = low < length ? 0 : int(min(over(low - length, stride, by_stride) + 1, I(n)));
      R score = scores[b];
      for (I at = c * stride; c < c_end; ++c, at += stride)
        score += R(min(at + length, high) - max(at, low)) * sums[c];
      scores[b] = score;
    }
    __syncwarp();
  }

  // Enters the blocks of a window that are among the best, 32 candidates at a time, and clears
  // their scores; of equal ones the first is the better.
  __device__ void finish(const Unit& unit, int64_t number, R* scores, Best* best,
                         int& n_best) const {
    const int lane = int(threadIdx.x) % warp_lanes, n_slots = int(rules.n_slots);
    for (int i = 0; i < window; i += warp_lanes) {
      const int64_t first = number * window + i, b = first + lane;
      if (first >= unit.n_blocks) break;
      R score = scores[i + lane];
      scores[i + lane] = 0;
      const bool own = unit.own_first <= b && b <= unit.own_last;
      bool candidate = b < unit.n_blocks && !(own && rules.exclude_own);
      const bool local =
          rules.local_blocks > 0 && unit.own_first - rules.local_blocks < b && b <= unit.own_last;
      if (b < rules.first_blocks || local) score = INFINITY;
      while (true) {
        // a full list takes what is better than its last
        const bool better = n_best < n_slots || score > best[n_slots - 1].score;
        const unsigned left = __ballot_sync(~0u, candidate && better);
        if (!left) break;
        const int next = __ffs(left) - 1;
        insert({__shfl_sync(~0u, score, next), int32_t(first + next)}, best, n_best);
        candidate = candidate && lane > next;
      }
    }
    __syncwarp();
  }

  // Puts x behind the last one that it does not exceed; where the list is full, the last one goes.
  __device__ void insert(Best x, Best* best, int& n_best) const {
    const int lane = int(threadIdx.x) % warp_lanes;
    __syncwarp();  // all have compared with the last one
    if (n_best < rules.n_slots) ++n_best;
    const int n = n_best - 1;
    int place = 0;
    for (int first = (n - 1) & -warp_lanes; first >= 0 && n > 0; first -= warp_lanes) {
      const int i = first + lane;
      Best other{};
      if (i < n) other = best[i];
      const unsigned before = __ballot_sync(~0u, i < n && !(x.score > other.score));
      place = before ? first + 32 - __clz(before) : first;
      __syncwarp();  // all have read what others write
      if (place <= i && i < n) best[i + 1] = other;
      __syncwarp();
      if (before) break;
    }
    if (lane == 0) best[place] = x;
    __syncwarp();
  }
};

template <class T>
__global__ void __launch_bounds__(select_warps* warp_lanes, 2)
    nsa_select_blocks(NsaSelectBlocks<T> select) {
  select();
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// The blocks that attention to compressed tokens selects:
//
//     score_b = sum over the queries that share a selection, their group of heads, and the
//               compressed tokens c, of exp(scale q . k_c - lse) times the tokens c and b share
//
// and the n_slots best of these, of equal ones the first. Products are made on tensor cores, of
// float32 as three of float16 (nsa_split.cuh). These leave out less than
//
//     2^-21 sum |q| |k|  +  what numbers far below their row's largest lose;
//
// the first is what a sum of eight products may lose in float32, the second moves a logit by 2^-22
// at most: else, or where numbers are not finite, a product is made in float32. So scores are as
// good as those of float32. Blocks whose scores differ by less than its roundings may change
// places, as with any other order of its sums; those of equal tokens are equal.
#pragma once
#include "device/copies.cuh"
#include "device/lanes.cuh"
#include "device/mma.cuh"
#include "nsa_pattern.cuh"
#include "nsa_split.cuh"

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

// Type of the factors of products, and how many of them a number is split into.
template <class T>
struct SelectParts {
  using Part = T;
  static constexpr int n = 1;
};
template <>
struct SelectParts<float> {
  using Part = __half;
  static constexpr int n = 2;
};

// Compressed tokens of a tile, and what the depth of a product is padded to.
template <class T>
constexpr int select_keys = sizeof(T) == 8 ? 16 : 64;
template <class T>
constexpr int select_step = sizeof(T) == 8 ? 2 : 16;
// Warps of a block at most. In float32 the fragments of two parts take more than the 128 registers
// that two blocks of eight have.
template <class T>
constexpr int select_warps = sizeof(T) == 4 ? 4 : 8;
constexpr int select_rows = 16;     // rows of a warp
constexpr int select_window = 256;  // blocks that have their scores in shared memory

// Shared memory of a block of the current device that leaves room for a second one on its
// multiprocessor, which keeps 1 KB of each for itself; where that is known.
inline size_t half_of_shared() {
  int device, most;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
          cudaSuccess &&
      most > 0)
    return (size_t(most) - 1024) / 2;
  (void)cudaGetLastError();
  return 0;
}

// ---- products of 16 rows of q and the first n rows of a tile of k, or all, dealt out as
// mma_m16n8k16 does ----

// Product of numbers of 16 bits. Every eight rows of 16 bytes lie in different banks (pitch()).
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

// Product of rows in two parts.
template <bool full, int n_tiles>
__device__ void select_split_product(const __half* q, const __half* k, int pitch, int depth, int n,
                                     float (&sum)[n_tiles][4]) {
  const int lane = int(threadIdx.x) % warp_lanes;
  const __half* a = q + lane % 16 * pitch + lane / 16 * 8;
  const __half* b[n_tiles / 2];
#pragma unroll
  for (int i = 0; i < n_tiles / 2; ++i)
    b[i] = k + (i * 16 + lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8;
#pragma unroll 1
  for (int l = 0; l < depth; l += 16) {
    unsigned large[4], small[4];
    load_matrices(large, a);
    load_matrices(small, a + depth);
    a += 16;
#pragma unroll
    for (int i = 0; i < n_tiles / 2; ++i)
      if (full || i * 16 < n) {
        unsigned x[4], y[4];
        load_matrices(x, b[i]);
        load_matrices(y, b[i] + depth);
        b[i] += 16;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          // sums of tensor cores are rounded towards zero: short ones are added up outside
          float part[4] = {};
          mma_m16n8k16(__half(), part, small, {x[2 * c], x[2 * c + 1]});
          mma_m16n8k16(__half(), part, large, {y[2 * c], y[2 * c + 1]});
          mma_m16n8k16(__half(), part, large, {x[2 * c], x[2 * c + 1]});
#pragma unroll
          for (int r = 0; r < 4; ++r) sum[2 * i + c][r] += part[r];
        }
      }
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

// Sums over the lanes of equal lane % 4. A lane gives half of n numbers away at every step, until
// it has two: from n / 2 tiles, the numbers lane / 4 / (16 / n). The order is the same for all of
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

// A block goes over the compressed tokens for up to eight units (queries that share a selection;
// four in float32) and one key/value head. A unit has as many warps as its rows need, up to all; a
// warp has 16 rows at a time, and all compressed tokens that they see, a tile after another, which
// come to shared memory while the block works on the last one. A lane holds 2 rows by 2 of every 8
// tokens. Sums over the rows go to the scores of 256 blocks in shared memory; when these are
// complete, a warp a unit puts those that are better than its worst into a sorted list. Shared
// memory: shared_memory(). Does 2 Dk operations a row and compressed token, in float32 three times
// as many; reads Dk numbers a token for a block's units from L2, q once where a unit has no more
// rows than the block's warps, else for every tile of tokens. Bound by shared memory and
// exponentials at Dk <= 128 in 16 bits, by shared memory and tensor cores in float32, else by
// tensor cores.
template <class T>
struct NsaSelectBlocks {
  using R = real<T>;
  using Part = typename SelectParts<T>::Part;
  static constexpr int parts = SelectParts<T>::n;

  Pattern pattern;  // pattern of compressed tokens; a unit is the queries that share a selection
  Stretches stretches;
  SelectRules rules;
  int d_k;
  R scale;  // factor of q . k, times log2(e)
  const T* __restrict__ q;
  const T* __restrict__ k;
  SplitRows split_k;  // [compressed tokens, heads], where there are parts
  const R* __restrict__ lse;     // [queries, query heads]
  int32_t* __restrict__ chosen;  // [ceil(queries / unit), heads, n_slots]
  int64_t n_units;
  bool wide;            // rows are aligned
  bool narrow = false;  // tokens of a window and a tile, and rows, have 32 bits
  int warps = 1, unit_warps = 1, stages = 1;  // warps of a block, of a unit; tiles of k
  int row_bits = 0;                           // log2 of the lanes that load a row
  Divisor by_stride{}, by_size{};

  static constexpr int keys = select_keys<T>, n_tiles = keys / 8, window = select_window;
  static constexpr int sum_copies = 8 / n_tiles;  // lanes that have the same of sum_over_rows

  // The best so far.
  struct Best {
    R score;
    int32_t block;
  };

  __host__ __device__ int depth() const {
    return (d_k + select_step<T> - 1) / select_step<T> * select_step<T>;
  }
  __host__ __device__ int pitch() const { return parts * depth() + 16 / int(sizeof(Part)); }
  // Numbers of a row as they come to shared memory.
  __host__ __device__ int row_size() const { return parts == 2 ? 2 * depth() : d_k; }
  int units() const { return warps / unit_warps; }
  size_t shared_memory() const {
    return shared_bytes<Part>(warps * select_rows * pitch()) +
           shared_bytes<Part>(stages * keys * pitch()) +
           shared_bytes<SplitEnd>((parts - 1) * (warps * (select_rows + 1) + stages * keys)) +
           shared_bytes<R>(warps * keys) + shared_bytes<R>(units() * window) +
           shared_bytes<Best>(units() * rules.n_slots) + shared_bytes<Unit>(units());
  }
  // Choose as many warps as have room, best with two tiles of k; two blocks a multiprocessor.
  void choose_tiles() {
    const size_t most = std::max(most_shared, half_of_shared());
    const int64_t rows = pattern.unit * pattern.group;
    row_bits = 0;
    while (row_bits < 5 && (width<Part> << row_bits) < row_size()) ++row_bits;
    for (warps = select_warps<T>; warps >= 1; warps /= 2)
      for (stages = 2; stages >= 1; --stages) {
        unit_warps = 1;
        while (unit_warps < warps && unit_warps * select_rows < rows) unit_warps *= 2;
        if (shared_memory() <= most) return;
      }
  }

  // In shared memory.
  struct Unit {
    TokenPiece queries;
    int64_t n_rows, n_blocks, seen;  // rows, blocks to choose from, compressed tokens seen
    int64_t own_first, own_last;     // blocks
  };
  // Data of a row: lanes 0 to 15 have one each.
  struct Row {
    int64_t keys;  // compressed tokens that it sees
    R shift;       // -lse log2(e)
  };
  // Rows of q and k in shared memory, and where there are parts, what belongs to these.
  struct Operands {
    const Part *q, *k;
    const SplitEnd *q_ends, *k_ends;  // behind those of q the largest
  };
  // Compressed tokens c..c+n of a sequence, for the blocks of a window.
  struct Tile {
    int64_t c, end;
    int window, n;
  };

  __device__ bool there(const Unit& unit) const {
    // the first of two sequences that share a selection has it
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

  // Go on to the next tile that units of a sequence see; false if there is none.
  __device__ bool next(Tile& tile, const Unit* units, int n, int64_t sequence) const {
    tile.c += tile.n;
    while (tile.c >= tile.end) {
      int64_t n_blocks = 0, seen = 0;
      for (int i = 0; i < n; ++i)
        if (const Unit& unit = units[i]; there(unit) && unit.queries.sequence == sequence)
          n_blocks = max(n_blocks, unit.n_blocks), seen = max(seen, unit.seen);
      const int64_t first = int64_t(++tile.window) * window, low = first * rules.block_size;
      if (first >= n_blocks) return false;
      const int64_t high = min(first + window, n_blocks) * rules.block_size;
      tile.c = max(low - stretches.block + stretches.stride, int64_t(0)) / stretches.stride;
      tile.end = min((high - 1) / stretches.stride + 1, seen);
    }
    tile.n = int(min(tile.end - tile.c, int64_t(keys)));
    return true;
  }

  // tile(i, :) = the row_size() numbers at x + i * row for i < n, zeros where they are not there,
  // by `threads` of which this is the t-th. They arrive when copies are awaited.
  __device__ void load(Part* tile, int n, int t, int threads, const Part* x, int64_t row,
                       bool there = true) const {
    constexpr int step = width<Part>;
    const int row_lanes = 1 << row_bits, at_once = threads >> row_bits, first = t >> row_bits;
    const int column = (t & (row_lanes - 1)) * step, columns = row_lanes * step, size = row_size();
    Part* to = tile + first * pitch();
    x += first * row;
    if (parts == 2 || wide) {
#pragma unroll 1
      for (int i = first; i < n; i += at_once, to += at_once * pitch(), x += at_once * row)
        for (int j = column; j < size; j += columns) copy_async(to + j, x + j, there);
    } else {
#pragma unroll 1
      for (int i = first; i < n; i += at_once, to += at_once * pitch(), x += at_once * row)
        for (int j = column; j < size; j += columns)
          for (int l = j; l < min(j + step, size); ++l) to[l] = there ? x[l] : Part(0.f);
    }
  }
  __device__ void load_keys(Part* tile, SplitEnd* ends, const Tile& of, int64_t sequence,
                            int head) const {
    const int t = int(threadIdx.x), size = row_size();
    const int64_t first = (pattern.keys.first(sequence) + of.c) * pattern.heads + head;
    const Part* from;
    if constexpr (parts == 2) {
      from = split_k.x;
      for (int i = t; i < of.n; i += warps * warp_lanes)
        copy_async<8>(ends + i, split_k.ends + first + i * pattern.heads);
    } else {
      from = k;
    }
    load(tile, of.n, t, warps * warp_lanes, from + first * size, pattern.heads * size);
    commit_copies();
  }

  // Row r of a unit: its query, and its number among all rows of q.
  __device__ int64_t query_of(const Unit& unit, int64_t r) const {
    return unit.queries.first + (narrow ? int(r) / pattern.group : r / pattern.group);
  }
  __device__ int64_t row_of(const Unit& unit, int head, int64_t r, int64_t query) const {
    return query * pattern.query_heads() + int64_t(head) * pattern.group + r -
           (query - unit.queries.first) * pattern.group;
  }

  // The rows that this warp takes at a time: numbers, and, to shared memory, their q.
  __device__ Row load_queries(Part* tile, SplitEnd* ends, const Unit& unit, int head,
                              int64_t first) const {
    const int lane = int(threadIdx.x) % warp_lanes;
    Row row{0, -INFINITY};
    const int64_t r = first + lane;
    int64_t at = -1;
    if (lane < select_rows && r < unit.n_rows) {
      const int64_t query = query_of(unit, r), s = unit.queries.sequence;
      at = row_of(unit, head, r, query);
      // without a softmax a row has no attention to give
      if (const R x = lse[at]; x != -INFINITY) {
        row.shift = x * R(-1.4426950408889634);
        row.keys = pattern.visible(query - pattern.queries.first(s), pattern.keys.size(s)).end;
      }
    }
    if constexpr (parts == 2) {
      const Group group = this_group(split_lanes);
      SplitEnd largest{};
#pragma unroll 1
      for (int i = lane / split_lanes; i < select_rows; i += warp_lanes / split_lanes) {
        const int64_t from = __shfl_sync(~0u, at, i);
        const SplitEnd end = split_row(tile + i * pitch(), q + max(from, int64_t(0)) * d_k,
                                       from < 0 ? 0 : d_k, depth(), wide, group);
        if (group.lane == 0) ends[i] = end;
        largest = larger(largest, end);
      }
      for (int l = split_lanes; l < warp_lanes; l *= 2)
        largest = larger(largest, {__shfl_xor_sync(~0u, largest.factor, l),
                                   __shfl_xor_sync(~0u, largest.norm, l)});
      if (lane == 0) ends[select_rows] = largest;
    } else {
      const int at_once = warp_lanes >> row_bits;
      for (int i = 0; i < select_rows; i += at_once) {
        const int n = min(at_once, select_rows - i);
        const int64_t from = __shfl_sync(~0u, at, (i + (lane >> row_bits)) % select_rows);
        // every row has its own place: that of the lane's
        load(tile + i * pitch(), n, lane, warp_lanes, q + max(from, int64_t(0)) * d_k, 0,
             from >= 0);
      }
    }
    return row;
  }

  __device__ void operator()() const {
    SharedMemory shared;
    const int t = int(threadIdx.x), warp = t / warp_lanes, lane = t % warp_lanes;
    const int u = warp / unit_warps, part = warp % unit_warps, n_units_here = warps / unit_warps;
    Part* q_tiles = shared.take<Part>(warps * select_rows * pitch());
    Part* k_tiles = shared.take<Part>(stages * keys * pitch());
    SplitEnd* ends =
        shared.take<SplitEnd>((parts - 1) * (warps * (select_rows + 1) + stages * keys));
    R* sums = shared.take<R>(warps * keys) + warp * keys;
    R* scores = shared.take<R>(n_units_here * window) + u * window;
    Best* best = shared.take<Best>(n_units_here * int(rules.n_slots)) + u * rules.n_slots;
    Unit* units_here = shared.take<Unit>(n_units_here);
    const Unit& unit = units_here[u];
    Part* q_tile = q_tiles + warp * select_rows * pitch();
    SplitEnd* q_ends = ends + warp * (select_rows + 1);
    SplitEnd* k_ends = ends + warps * (select_rows + 1);

    // the last units see most, and begin first
    const int64_t first_unit =
        int64_t(gridDim.x / pattern.heads - 1 - blockIdx.x / pattern.heads) * n_units_here;
    const int head = int(blockIdx.x % pattern.heads);
    if (part == 0 && lane == 0) units_here[u] = describe(first_unit + u);
    if (parts == 1 && depth() != d_k) {
      for (int i = t; i < warps * select_rows * pitch(); i += warps * warp_lanes)
        q_tiles[i] = Part(0.f);
      for (int i = t; i < stages * keys * pitch(); i += warps * warp_lanes) k_tiles[i] = Part(0.f);
    }
    for (int i = lane; i < window; i += warp_lanes)
      if (part == 0) scores[i] = 0;
    __syncthreads();

    const bool one_pass = unit.n_rows <= unit_warps * select_rows;
    Row row{};
    if (one_pass) {
      row = load_queries(q_tile, q_ends, unit, head, part * select_rows);
      commit_copies();
    }
    int64_t sequence = -1;
    for (int i = 0; i < n_units_here; ++i) {
      const int64_t s = units_here[i].queries.sequence;
      if (!there(units_here[i]) || s == sequence) continue;
      sequence = s;
      const bool active = there(unit) && unit.queries.sequence == s;
      int n_best = 0, stage = 0, finished = 0;  // finished: windows
      Tile tile{0, 0, -1, 0};
      bool more = next(tile, units_here, n_units_here, s);
      if (more) load_keys(k_tiles, k_ends, tile, s, head);
      while (more) {
        await_copies();
        __syncthreads();
        const Tile now = tile;
        const Operands operands{q_tile, k_tiles + stage * keys * pitch(), q_ends,
                                k_ends + stage * keys};
        more = next(tile, units_here, n_units_here, s);
        if (stages == 2) {
          stage ^= 1;
          if (more)
            load_keys(k_tiles + stage * keys * pitch(), k_ends + stage * keys, tile, s, head);
        }
        if (active && part == 0)
          for (; finished < now.window; ++finished) finish(unit, finished, scores, best, n_best);
        const int n = int(min(int64_t(now.n), unit.seen - now.c));
        const bool sees = active && n > 0;
        if (sees) {
          R total[2] = {};
#pragma unroll 1
          for (int64_t first = part * select_rows; first < unit.n_rows;
               first += unit_warps * select_rows) {
            if (!one_pass) {
              __syncwarp();
              row = load_queries(q_tile, q_ends, unit, head, first);
              commit_copies();
              await_copies();
              __syncwarp();
            }
            attend(unit, head, first, row, now, n, operands, sums, total);
          }
          constexpr R highest = sizeof(R) == 8 ? R(0x1p920) : R(0x1p114);  // for a lse of another k
          if (lane / 4 % sum_copies == 0)
            for (int c = 0; c < 2; ++c)
              sums[token_of_sum(c)] = total[c] > highest ? highest : total[c];
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
          if (more) load_keys(k_tiles, k_ends, tile, s, head);
        }
      }
      if (active && part == 0) {
        __syncwarp();
        for (; int64_t(finished) * window < unit.n_blocks; ++finished)
          finish(unit, finished, scores, best, n_best);
        int32_t* to = chosen + (unit.queries.number * pattern.heads + head) * rules.n_slots;
        for (int j = lane; j < rules.n_slots; j += warp_lanes)
          to[j] = j < n_best ? best[j].block : -1;
      }
      __syncthreads();
    }
    await_copies();
  }

  // Adds the attention of rows first..first+16 of a unit to the first n compressed tokens of a
  // tile, dealt out as sum_over_rows does. scratch: of the warp, a number a token.
  __device__ void attend(const Unit& unit, int head, int64_t first, const Row& row,
                         const Tile& tile, int n, const Operands& x, R* scratch,
                         R (&total)[2]) const {
    const int lane = int(threadIdx.x) % warp_lanes, group = lane / 4;
    const int last = int(max(min(row.keys - tile.c, int64_t(n)), int64_t(0)));
    const R shift[2] = {__shfl_sync(~0u, row.shift, group), __shfl_sync(~0u, row.shift, group + 8)};
    const int seen[2] = {__shfl_sync(~0u, last, group), __shfl_sync(~0u, last, group + 8)};
    bool all_exact = true;
    if constexpr (parts == 2) {
      SplitEnd largest{};
      for (int i = lane; i < n; i += warp_lanes) largest = larger(largest, x.k_ends[i]);
      all_exact = __all_sync(~0u, exact(x.q_ends[select_rows], largest));
    }
    R sums[2 * n_tiles] = {};
    if (all_exact && __all_sync(~0u, seen[0] == keys && seen[1] == keys))
      add_attention<true>(shift, ~0u, n, x, sums);
    else add_attention<false>(shift, counted(seen, all_exact, x), n, x, sums);
    sum_over_rows<2 * n_tiles>(sums);
    for (int c = 0; c < 2; ++c) total[c] += sums[c];
    if constexpr (parts == 2)
      if (!all_exact) add_others(unit, head, first, row.shift, last, tile.c, x, scratch, total);
  }

  // Products of this lane that count as tensor cores make them, a bit each: those of rows with the
  // first seen[0] and seen[1] tokens, which they see, if exact.
  __device__ unsigned counted(const int (&seen)[2], bool all_exact, const Operands& x) const {
    const int lane = int(threadIdx.x) % warp_lanes, group = lane / 4, column = lane % 4 * 2;
    unsigned bits = 0;
#pragma unroll 1
    for (int i = 0; i < n_tiles * 4; ++i) {
      const int token = i / 4 * 8 + column + i % 2, half = i / 2 % 2;
      bool counts = token < (half ? seen[1] : seen[0]);
      if constexpr (parts == 2)
        counts = counts && (all_exact || exact(x.q_ends[group + half * 8], x.k_ends[token]));
      bits |= unsigned(counts) << i;
    }
    return bits;
  }

  // Adds attention by products on tensor cores: of rows g and g + 8 to tokens 2 j and 2 j + 1 of
  // every 8, g = lane / 4 and j = lane % 4; of the whole tile, or where it is counted.
  template <bool full>
  __device__ void add_attention(const R (&shift)[2], unsigned counted, int n, const Operands& x,
                                R (&sums)[2 * n_tiles]) const {
    const int lane = int(threadIdx.x) % warp_lanes, group = lane / 4, column = lane % 4 * 2;
    R product[n_tiles][4] = {};
    if constexpr (parts == 2) select_split_product<full>(x.q, x.k, pitch(), depth(), n, product);
    else select_product<full>(x.q, x.k, pitch(), depth(), n, product);
#pragma unroll
    for (int j = 0; j < n_tiles; ++j)
      if (full || j * 8 < n) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          if constexpr (parts == 2)
            product[j][r] *= x.q_ends[group + r / 2 * 8].factor *
                             x.k_ends[j * 8 + column + r % 2].factor;
          const R e = exponential_of_2(fma(product[j][r], scale, shift[r / 2]));
          sums[2 * j + r % 2] += full || counted >> (4 * j + r) & 1 ? e : R(0);
        }
      }
  }

  // True if the product of two rows in parts moves a logit by 2^-22 at most.
  __device__ bool exact(const SplitEnd& a, const SplitEnd& b) const {
    return fabsf(scale) * split_rest(a, b) <= R(0x1p-22);
  }

  // Add attention by the products that are not exact, made in float32; lane: every 32nd feature.
  // A product's row and token alone decide which way it is made, so that equal tokens have equal
  // scores. shift, seen: of the row of this lane; c: first token of the tile.
  __device__ void add_others(const Unit& unit, int head, int64_t first_row, R shift, int seen,
                             int64_t c, const Operands& x, R* scratch, R (&total)[2]) const {
    const int lane = int(threadIdx.x) % warp_lanes;
    const int64_t first_key = pattern.keys.first(unit.queries.sequence) + c;
    for (int i = lane; i < keys; i += warp_lanes) scratch[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < select_rows; ++i) {
      const int end = __shfl_sync(~0u, seen, i);
      const R shift_of_row = __shfl_sync(~0u, shift, i);
      const int64_t r = first_row + i;
      const T* const one = q + row_of(unit, head, r, query_of(unit, r)) * d_k;
#pragma unroll 1
      for (int first = 0; first < end; first += warp_lanes) {
        const int mine = first + lane;
        unsigned left = __ballot_sync(~0u, mine < end && !exact(x.q_ends[i], x.k_ends[mine]));
#pragma unroll 1
        for (; left; left &= left - 1) {
          const int token = first + __ffs(left) - 1;
          const T* const other = k + ((first_key + token) * pattern.heads + head) * d_k;
          R product = 0;
#pragma unroll 1
          for (int l = lane; l < d_k; l += warp_lanes) product += one[l] * other[l];
          for (int l = 1; l < warp_lanes; l *= 2) product += __shfl_xor_sync(~0u, product, l);
          if (lane == 0) scratch[token] += exponential_of_2(fma(product, scale, shift_of_row));
        }
      }
    }
    __syncwarp();
    for (int c = 0; c < 2; ++c) total[c] += scratch[token_of_sum(c)];
    __syncwarp();
  }

  // The token of which this lane has sum c behind sum_over_rows.
  __device__ static int token_of_sum(int c) {
    const int lane = int(threadIdx.x) % warp_lanes;
    return lane / 4 / sum_copies * 8 + lane % 4 * 2 + c;
  }

  // Adds what the blocks of a window get of the attention to the first n tokens of a tile; lane: a
  // block. Positions are counted from the tile's first token, in numbers of type I.
  template <class I>
  __device__ void add_scores(const Tile& tile, int n, const R* sums, R* scores) const {
    const I size = I(rules.block_size), length = I(stretches.block), stride = I(stretches.stride);
    const I first = I(int64_t(tile.window) * window * rules.block_size - tile.c * stretches.stride);
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
  __device__ void finish(const Unit& unit, int number, R* scores, Best* best,
                         int& n_best) const {
    const int lane = int(threadIdx.x) % warp_lanes, n_slots = int(rules.n_slots);
    for (int i = 0; i < window; i += warp_lanes) {
      const int64_t first = int64_t(number) * window + i, b = first + lane;
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
__global__ void __launch_bounds__(select_warps<T>* warp_lanes, 2)
    nsa_select_blocks(NsaSelectBlocks<T> select) {
  select();
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Gradients of sparse attention without gates, with sums in registers, of 16 bits and float32.
//
// One pass gives all three, with the keys first: a block of threads keeps the keys and values of a
// block, and the rows that see it pass by. Every visit leaves its part of grad q as a record of Dk
// numbers, rounded to the type of the results; a second kernel adds the records of a row in the
// order of its slots. If positions decide, the blocks that a row sees are its slots, from the first
// of them on. Records of all visits would be n_slots times the memory of q (17 GB at 65536 tokens,
// 64 heads of 128 and 16 slots). So queries are handled in slices whose records take no more than
// record_bytes, 2 GiB; gradients of keys are added up in float32 from slice to slice.
#pragma once
#include "nsa_fragment_visits.cuh"
#include "nsa_gradients.cuh"

namespace gnograd {

// Keys of a tile, and rows at most.
constexpr int gradient_keys = 64, gradient_rows = 32;

// Queries whose records are in memory at a time, and the records.
template <class T>
struct QuerySlice {
  int64_t first, end;
  int64_t n_slots;  // slots of a row, also where positions decide
  T* records;       // [rows, n_slots, parts, d_k], or null: grad q is not wanted
};

// Sums of keys and visitors, of one chunk. Block: a part of a chunk of a block's visitors, 64 keys
// with their values in shared memory, a quarter of them a warp. It goes over the rows of the slice
// in tiles of 32, q and g of the next being copied meanwhile. Wide rows of float32 leave room for
// one such tile, the widest for 16 rows; then other blocks work while one waits. Warp: S^T and dP^T
// of its keys and all rows, from which grad k and grad v come in registers, and a quarter of what
// the tile gives to grad q, for which dS goes through shared memory. 4 Dk + 2 (Dk + Dv) + 4 Dv
// operations a row and key, in float32 three times as many; reads Dk + Dv numbers a visit of a row
// from L2 and writes Dk. Bound by shared memory, in float32 by issue, as numbers have to be split.
template <class T, int d_k, int d_v>
struct NsaFragmentGradient {
  static constexpr int keys = gradient_keys;
  static constexpr int n_rows = sizeof(T) == 4 && d_k + d_v > 192 ? 16 : gradient_rows;
  static constexpr int stages_n = sizeof(T) == 4 && d_k + d_v > 128 ? 1 : 2;
  static constexpr int blocks_at_once = d_k + d_v <= (sizeof(T) == 2 ? 128 : 64) ? 3 : 2;
  static constexpr int described = 3;  // tiles of rows: used, copied, being described
  static constexpr bool keeps_v =
      d_k + d_v <= (sizeof(T) == 2 ? 256 : 64);  // operands in registers
  using K = OperandMatrix<T, d_k>;
  using V = OperandMatrix<T, d_v>;
  using W = OperandMatrix<T, n_rows>;

  // Data of the rows of a tile.
  struct Rows {
    int at[n_rows];                    // among all rows; -1: there is none, or it sees nothing
    int64_t record[n_rows];            // record for the numbers of a row, -1: none
    float lse[n_rows], delta[n_rows];  // lse as logits are
    KeyRange seen[n_rows];
    int all, finite;  // true if all see all keys; true if all numbers of all rows are finite
  };

  // Chunk that a block works on, in shared memory as registers are short.
  struct Chunk {
    int64_t first, sequence;  // entry, or query where positions decide
    unsigned n;               // rows
    int head, k_finite;
    KeyRange keys;
    int position;  // place of the first key, in its sequence
  };

  NsaProblem<T, float> problem;
  VisitorLists lists;
  const T* cotangent;
  RowStatistics<const float> known;
  float* sums;  // [chunks, block, d_k + d_v]
  QuerySlice<T> slice;

  __host__ __device__ int parts() const { return (problem.pattern.block + keys - 1) / keys; }
  static constexpr int stage = K::size(n_rows) + V::size(n_rows);
  size_t shared_memory() const {
    return shared_bytes<T>(K::size(keys) + V::size(keys) + stages_n * stage + W::size(keys)) +
           shared_bytes<Rows>(described) + shared_bytes<Chunk>(1);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    T* const tiles =
        shared.take<T>(K::size(keys) + V::size(keys) + stages_n * stage + W::size(keys));
    Rows* const rows = shared.take<Rows>(described);
    Chunk* const chunk = shared.take<Chunk>(1);
    const K k{tiles};
    const V v{tiles + K::size(keys)};
    T* const stages = tiles + K::size(keys) + V::size(keys);
    const W w{stages + stages_n * stage};
    const int warp = int(threadIdx.x) / warp_lanes, lane = int(threadIdx.x) % warp_lanes;
    if (!start(chunk, k, v)) return;
    const auto describe_tile = [&](unsigned tile) {
      if (warp == int(tile % (block_threads / warp_lanes)))
        describe(rows[tile % described], *chunk, tile * n_rows + unsigned(lane), lane);
    };
    const auto copy_tile = [&](unsigned tile) {
      T* const at = stages + tile % stages_n * stage;
      copy_rows(K{at}, p.q.v, p.d_k, rows[tile % described]);
      copy_rows(V{at + K::size(n_rows)}, cotangent, p.d_v, rows[tile % described]);
      commit_copies();
    };
    describe_tile(0);
    describe_tile(1);
    await_copies();
    __syncthreads();
    const bool finite = all_finite(k);
    if (threadIdx.x == 0) chunk->k_finite = finite;
    if constexpr (stages_n == 2) copy_tile(0);

    float grad_k[d_k / 8][4] = {}, grad_v[d_v / 8][4] = {};
    Fragment<T> kept[keeps_v ? d_v / 16 : 1];
    if constexpr (keeps_v) {
#pragma unroll
      for (int l = 0; l < d_v / 16; ++l) v.left(kept[l], warp * 16, l * 16, lane);
    }
    const float scale = p.scale * logit_unit<T>;
    const unsigned n_tiles = (chunk->n + n_rows - 1) / n_rows;
#pragma unroll 1
    for (unsigned tile = 0; tile < n_tiles; ++tile) {
      if constexpr (stages_n == 1) {
        __syncthreads();
        copy_tile(tile);
      }
      await_copies();
      __syncthreads();
      const Rows& of = rows[tile % described];
      if (stages_n == 2 && tile + 1 < n_tiles) copy_tile(tile + 1);
      if (tile + 2 < n_tiles) describe_tile(tile + 2);
      const K q{stages + tile % stages_n * stage};
      const V g{stages + tile % stages_n * stage + K::size(n_rows)};

      float x[n_rows / 8][4] = {}, y[n_rows / 8][4] = {};
      const auto load_k = [&](auto& a, int l) { k.left(a, warp * 16, l * 16, lane); };
      const auto load_v = [&](auto& a, int l) {
        if constexpr (keeps_v) memcpy(&a, kept[l], sizeof a);
        else v.left(a, warp * 16, l * 16, lane);
      };
      add_inner_products(x, load_k, q, lane);
      add_inner_products(y, load_v, g, lane);
      // x becomes P^T, y dS^T
      const int key = warp * 16 + lane / 4;
      if constexpr (sizeof(T) == 4) multiply_again(x, k, q, key, lane);
      const bool all = of.all;
      const auto sees = [&](int row, int i) {
        const int at = chunk->keys.first + i;
        return at < chunk->keys.end && of.seen[row].first <= at && at < of.seen[row].end;
      };
#pragma unroll
      for (int j = 0; j < n_rows / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int row = j * 8 + lane % 4 * 2 + c;
          const float lse = of.lse[row], delta = of.delta[row];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float& weight = x[j][2 * r + c];
            float& ds = y[j][2 * r + c];
            weight = power<T>(scale * weight - lse);
            ds = weight * (ds - delta);
            if (!all && !sees(row, key + 8 * r)) weight = ds = 0;
          }
        }
      // 0 * NaN is NaN: where there may be one, products leave out what the mask has made zero
      const bool careful = !(chunk->k_finite && of.finite);
      const auto weight = [&](int r, int row) { return float(*w.at(key + 8 * r, row)); };
      const auto seen = [&](int r, int row) { return sees(row, key + 8 * r); };
      if (careful) {
        put(w, x, key, lane);
        add_seen(grad_v, weight, g, 0, n_rows, seen, lane);
      } else {
        add_product(grad_v, x, g, lane);
      }
      put(w, y, key, lane);
      if (careful) add_seen(grad_k, weight, q, 0, n_rows, seen, lane);
      else add_product(grad_k, y, q, lane);
      if (!slice.records) continue;
      __syncthreads();
      write_records(k, w, of, careful, chunk->keys, warp, lane);
    }
    await_copies();  // in a chunk without rows the first tile of zeros is still under way

    const int64_t width = p.d_k + p.d_v;
    const int64_t number = blockIdx.x / unsigned(parts());
    const int part = int(blockIdx.x % unsigned(parts())),
              n_keys = chunk->keys.end - chunk->keys.first;
    float* const to = sums + (number * p.pattern.block + int64_t(part) * keys) * width;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = warp * 16 + lane / 4 + 8 * r;
      if (key >= n_keys) continue;
      float* const row = to + key * width;
#pragma unroll
      for (int j = 0; j < d_k / 8; ++j)
        add_sums(row, j * 8 + lane % 4 * 2, p.d_k, p.scale * grad_k[j][2 * r],
                 p.scale * grad_k[j][2 * r + 1]);
#pragma unroll
      for (int j = 0; j < d_v / 8; ++j)
        add_sums(row + p.d_k, j * 8 + lane % 4 * 2, p.d_v, grad_v[j][2 * r], grad_v[j][2 * r + 1]);
    }
  }

  // Starts to copy keys and values; false where there is nothing to do.
  __device__ bool start(Chunk* chunk, const K& k, const V& v) const {
    const auto& p = problem;
    const unsigned number = blockIdx.x / unsigned(parts());
    VisitorChunk of = chunk_of(p.pattern, lists, number);
    const int64_t first = of.keys.first + int(blockIdx.x % unsigned(parts())) * keys;
    const int n = int(min(of.keys.end - first, int64_t(keys)));
    if (n <= 0 || of.n <= 0) return false;
    if (p.pattern.selected) cut(of, p.pattern, lists, {slice.first, slice.end});
    else of = chunk_of(p.pattern, lists, number, {slice.first, slice.end});
    if (of.n == 0 && slice.first > 0) return false;
    const int64_t heads = p.pattern.heads;
    k.template copy<keys>(p.k.v + (first * heads + of.head) * p.d_k, heads * p.d_k, p.d_k, n);
    v.template copy<keys>(p.v.v + (first * heads + of.head) * p.d_v, heads * p.d_v, p.d_v, n);
    commit_copies();
    if (threadIdx.x == 0) {
      const int64_t s = of.keys.sequence;
      *chunk = {p.pattern.selected ? of.first : p.pattern.queries.first(s) + of.first,
                s,
                unsigned(of.n * lists.rows_per_entry),
                of.head,
                1,
                {int(first), int(first) + n},
                int(first - p.pattern.keys.first(s))};
    }
    __syncthreads();
    return true;
  }
  __device__ bool all_finite(const K& k) const {
    bool finite = true;
#pragma unroll 4
    for (int i = int(threadIdx.x); i < keys * d_k / 2; i += block_threads) {
      float x[2];
      PairBits<T> bits;
      memcpy(&bits, k.at(i / (d_k / 2), i % (d_k / 2) * 2), sizeof bits);
      unpack<T>(x, bits);
      finite = finite && is_finite(x[0]) && is_finite(x[1]);
    }
    return __syncthreads_and(finite);
  }

  // Inner products that are not finite, of numbers as they are: split, -infinity would be NaN.
  __device__ static void multiply_again(float (&x)[n_rows / 8][4], const K& k, const K& q, int key,
                                        int lane) {
    float zero = 0;
#pragma unroll
    for (int j = 0; j < n_rows / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) zero += 0 * x[j][c];
    if (zero == 0) return;
#pragma unroll
    for (int j = 0; j < n_rows / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (is_finite(x[j][c])) continue;
        x[j][c] = 0;
#pragma unroll 1
        for (int l = 0; l < d_k; ++l)
          x[j][c] += *k.at(key + c / 2 * 8, l) * *q.at(j * 8 + lane % 4 * 2 + c % 2, l);
      }
  }

  // Rows of a warp, to be read by it.
  __device__ void put(const W& w, const float (&x)[n_rows / 8][4], int key, int lane) const {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < n_rows / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        store_pair(w.at(key + 8 * r, j * 8 + lane % 4 * 2), x[j][2 * r], x[j][2 * r + 1]);
    __syncwarp();
  }
  // Two sums, added to those of the slices before.
  __device__ void add_sums(float* row, int column, int size, float x, float y) const {
    if (column >= size) return;
    float2* const to = reinterpret_cast<float2*>(row + column);
    if (slice.first > 0) {
      const float2 before = *to;
      x += before.x;
      y += before.y;
    }
    *to = float2{x, y};
  }

  // Row i of a chunk, by the lanes of a warp; those behind the tile have none.
  __device__ void describe(Rows& rows, const Chunk& chunk, unsigned i, int lane) const {
    const Pattern& p = problem.pattern;
    const unsigned part = blockIdx.x % unsigned(parts());
    const unsigned per_entry = unsigned(lists.rows_per_entry), n_slots = unsigned(p.n_slots);
    const unsigned block = unsigned(p.block);
    FragmentRow row;
    int64_t record = -1;
    float lse = INFINITY, delta = 0;
    bool finite = true;
    if (i < chunk.n && lane < n_rows) {
      const int64_t entry = chunk.first + i / per_entry;
      unsigned slot;
      if (p.selected) {
        const unsigned visitor = unsigned(lists.entries[entry]);
        row = row_of_unit(p, p.unit_of(visitor / n_slots), chunk.head, i % per_entry);
        slot = visitor % n_slots;
      } else {
        row = row_of_unit(p, {chunk.sequence, entry, entry, entry + 1}, chunk.head, i % per_entry);
        if (!row.sees_any(chunk.keys.first, chunk.keys.end - chunk.keys.first)) row.at = -1;
        const unsigned seen = unsigned(row.keys.first - chunk.keys.first + chunk.position);
        slot = unsigned(chunk.position) / block - seen / block;
      }
      if (row.at >= 0) {
        const int64_t from = slice.first * p.query_heads();
        record = (((row.at - from) * slice.n_slots + slot) * parts() + part) * problem.d_k;
        if (row.keys.first >= row.keys.end) row.at = -1;
      }
    }
    if (row.at >= 0) {
      lse = __ldg(known.lse + row.at);
      delta = __ldg(known.delta + row.at);
      finite = is_finite(lse) && is_finite(delta);
      lse = lse == -INFINITY ? INFINITY : lse * logit_unit<T>;
    }
    if (lane < n_rows) {
      rows.at[lane] = row.at;
      rows.record[lane] = record;
      rows.lse[lane] = lse;
      rows.delta[lane] = delta;
      rows.seen[lane] = row.keys;
    }
    const bool sees_all = row.at >= 0 && row.sees_all(chunk.keys.first, keys) &&
                          chunk.keys.end - chunk.keys.first == keys;
    const int all = __all_sync(~0u, sees_all || lane >= n_rows);
    finite = __all_sync(~0u, finite);
    if (lane == 0) rows.all = all, rows.finite = finite;
  }

  template <int d>
  __device__ void copy_rows(const OperandMatrix<T, d>& to, const T* __restrict__ from, int size,
                            const Rows& rows) const {
    const int column = int(threadIdx.x) % to.steps * to.together;
    if (d / to.together < to.steps && column >= d) return;
#pragma unroll
    for (int row = int(threadIdx.x) / to.steps; row < n_rows; row += to.rows_at_once) {
      const int64_t at = rows.at[row];
      copy_async(to.at(row, column), from + at * size + column, at >= 0 && column < size);
    }
  }

  // scale dS K: a warp has 16 rows and its part of the features.
  __device__ void write_records(const K& k, const W& w, const Rows& rows, bool careful,
                                const KeyRange& of_tile, int warp, int lane) const {
    constexpr int tiles = n_rows / 16, columns = d_k * tiles * warp_lanes / block_threads;
    static_assert(columns % 16 == 0);
    const int m = warp % tiles * 16, from = warp / tiles * columns;
    float sum[columns / 8][4] = {};
    if (!careful) {
#pragma unroll
      for (int l = 0; l < keys / 16; ++l) {
        Fragment<T> a;
        in_order<T>();
        w.left_transposed(a, m, l * 16, lane);
        const LeftFactor<T> left(a);
#pragma unroll
        for (int j = 0; j < columns / 8; j += 2) {
          Fragment<T> b;
          k.right(b, l * 16, from + j * 8, lane);
          multiply_pair<T>(sum[j], sum[j + 1], left, b);
        }
      }
    } else {
      const int row = m + lane / 4;
      add_seen(
          sum, [&](int r, int key) { return float(*w.at(key, row + 8 * r)); }, k, from,
          of_tile.end - of_tile.first,
          [&](int r, int key) {
            const KeyRange seen = rows.seen[row + 8 * r];
            return seen.first <= of_tile.first + key && of_tile.first + key < seen.end;
          },
          lane);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t record = rows.record[m + lane / 4 + 8 * r];
      if (record < 0) continue;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        const int column = from + j * 8 + lane % 4 * 2;
        if (column < problem.d_k)
          store_pair(slice.records + record + column, problem.scale * sum[j][2 * r],
                     problem.scale * sum[j][2 * r + 1]);
      }
    }
  }
};

// grad q of a slice from its records. Thread: 16 bytes of the features of a row. Reads Dk numbers a
// visit, writes Dk; bound by memory. Room for eight blocks, as ptxas would spill to have more.
template <class T>
__global__ void __launch_bounds__(block_threads, 8)
    nsa_add_records(Pattern p, int d_k, int parts, QuerySlice<T> slice,
                    const unsigned* __restrict__ marks, T* __restrict__ grad_q) {
  constexpr int each = width<T>;
  const unsigned steps = unsigned(d_k / each);
  const unsigned number = blockIdx.x * unsigned(block_threads) + threadIdx.x;
  const unsigned row = number / steps, heads = unsigned(p.query_heads());
  const int column = int(number % steps) * each;
  const int64_t query = slice.first + row / heads;
  if (query >= slice.end) return;
  const int64_t s = p.queries.of_token(query);
  Range seen{0, 0};
  if (!p.selected) seen = p.visible(query - p.queries.first(s), p.keys.size(s));
  const int head = int(row % heads / unsigned(p.group));
  const T* const from = slice.records + int64_t(row) * slice.n_slots * parts * d_k + column;
  T* const to = grad_q + (slice.first * heads + row) * d_k + column;
  Vector<float, each> sum;
  const auto add = [&](int64_t record) { sum.add(load_vector(from + record * d_k, each, true)); };
  if (!p.selected) {
    const unsigned block = unsigned(p.block);
    const int first = int(unsigned(seen.first) / block);
    const int n = seen.first < seen.end ? int(unsigned(seen.end - 1) / block) - first + 1 : 0;
#pragma unroll 4
    for (int slot = 0; slot < n; ++slot) add(slot);
    store_vector(to, sum, each, true);
    return;
  }
  const int64_t unit = unsigned(query) / unsigned(p.unit);
  const SlotMarks marked(marks + ((unit + s) * p.heads + head) * mark_words);
#pragma unroll
  for (int w = 0; w < mark_words; ++w)
#pragma unroll 4
    for (unsigned bits = marked.words[w]; bits; bits &= bits - 1) {
      const int64_t slot = w * warp_lanes + __ffs(bits) - 1;
      if (parts == 1) {
        add(slot);
      } else {
        const int64_t b = p.block_index[(unit * p.heads + head) * p.n_slots + slot];
        const int64_t n = min(p.keys.size(s) - b * p.block, int64_t(p.block));
        for (int part = 0; part * gradient_keys < n; ++part) add(slot * parts + part);
      }
    }
  store_vector(to, sum, each, true);
}

// Workspace of the gradient to q, whether it is wanted or not.
template <class T>
struct NsaFragmentSpace {
  T* records = nullptr;
  int64_t bytes = 0;
  int64_t queries = 0;  // queries of a slice; 0: this form does not take the problem
  int64_t n_slots = 0;
  int parts = 0;

  explicit operator bool() const { return queries; }
  // `least` bytes at least, if they are for the records of other forms too
  void take(const Pattern& p, int d_k, int64_t least, Workspace& workspace) {
    parts = int(ceil_div(p.block, gradient_keys));
    n_slots = p.selected ? p.n_slots : p.most_blocks();
    const int64_t numbers = p.query_heads() * n_slots * parts * d_k;
    const int64_t most = record_bytes / std::max<int64_t>(1, numbers * int64_t(sizeof(T)));
    // rows that see so many blocks that a slice would not fill a tile
    if (!p.selected && most < p.queries.n_tokens && most * p.group < gradient_rows) return;
    queries = std::max<int64_t>(1, most / p.unit) * p.unit;
    bytes = std::min(queries, p.queries.n_tokens) * numbers * int64_t(sizeof(T));
    if (keys_first(p)) bytes = std::max(bytes, least);
    records = reinterpret_cast<T*>(workspace.take<char>(bytes));
  }
};

// The gradient to q, and the sums of keys that nsa_join_chunks adds up.
template <class T>
void gradients_on_fragments(const NsaKeyGradient<T, float>& keys, const NsaFragmentSpace<T>& space,
                            T* grad_q, cudaStream_t stream) {
  const auto& p = keys.problem;
  const Pattern& pattern = p.pattern;
  const int64_t tokens = pattern.queries.n_tokens;
  const int64_t each = grad_q ? space.queries : std::max<int64_t>(1, tokens);
  for (int64_t first = 0; first < std::max<int64_t>(1, tokens); first += each) {
    const QuerySlice<T> slice{first, std::min(first + each, tokens), space.n_slots,
                              grad_q ? space.records : nullptr};
    with_features(p.d_k, p.d_v, [&](auto d_k, auto d_v) {
      if constexpr (gradient_fits<T>(d_k.value, d_v.value)) {
        using Gradient = NsaFragmentGradient<T, d_k.value, d_v.value>;
        launch_operation(Gradient{p, keys.lists, keys.cotangent, keys.known, keys.sums, slice},
                         keys.lists.n_chunks * space.parts, stream);
      }
    });
    if (grad_q)
      launch_threads((slice.end - first) * pattern.query_heads() * (p.d_k / width<T>), stream,
                     nsa_add_records<T>, pattern, p.d_k, space.parts, slice, keys.lists.marks,
                     grad_q);
  }
}

}  // namespace gnograd

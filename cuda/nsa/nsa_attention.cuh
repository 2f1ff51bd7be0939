// SPDX-License-Identifier: MIT
// Native sparse attention: selected blocks, compressed tokens, windows and balls. For a query row r
// (a token and one of its heads) and the keys c of its key/value head that the pattern shows it,
//
//     x = scale q . k    E = exp(x - lse)    P = gate E    out = P V    lse = ln sum gate exp(x)
//
// with a gate for every slot, 1 where there are none. With G the cotangent of out, g that of lse:
//
//     D = rowsum(G o out) - g      dS = P o (G V^T - D)
//     grad q = scale dS K          grad k = scale dS^T Q         grad v = P^T G
//     grad gate = sum over the heads and keys of a slot of E o (G V^T - D)
//
// Three kernels do this, tile by tile in shared memory, over a scalar S (device/numbers.cuh), with
// tensor cores for real numbers from 16 bits; P and dS are rounded to these for their products:
//
//     Attend        out, lse and D of some rows that see the same blocks
//     PullQueries   gradients to q and the gates, of the same rows
//     PullKeys      gradients to k and v, of a block, from some of its visitors (nsa_pattern.cuh)
//
// Where few rows share a selection, out and the gradient to q come with the keys first
// (nsa_visits.cuh).
//
// With dual numbers they are the jvp and the hvp. lse is known then from a pass with real numbers,
// so that no maximum moves while derivatives are summed. A row that sees no key has out = 0,
// lse = -infinity and no part in any gradient. NaN goes where a formula above takes it, and nowhere
// else: a key or a value that a row does not see does not reach it, though both be in one tile.
#pragma once
#include "device/tensor.cuh"
#include "nsa_pattern.cuh"

namespace gnograd {

template <class T, class S>
struct Problem {
  Pattern pattern;
  int d_k, d_v;
  real<T> scale;
  Input<T, S> q;     // [queries, query heads, d_k]
  Input<T, S> k, v;  // [keys, heads, d_k], [keys, heads, d_v]
  Input<T, S> gate;  // [queries, heads, n_slots], or null
  bool wide;         // rows are aligned
  int rows, keys;    // of a tile

  // Query heads of one query in a tile, tiles for all its heads; queries in a tile, tiles of a unit
  __host__ __device__ int heads() const { return pattern.group < rows ? pattern.group : rows; }
  __host__ __device__ int head_parts() const {
    return (pattern.group + heads() - 1) / heads();
  }
  __host__ __device__ int64_t queries() const {
    const int64_t most = rows / heads();
    return pattern.unit < most ? pattern.unit : most;
  }
  __host__ __device__ int64_t query_parts() const {
    return (pattern.unit + queries() - 1) / queries();
  }
  // Tiles of the keys of a block
  __host__ __device__ int block_parts() const { return (pattern.block + keys - 1) / keys; }
  int64_t n_visits() const { return pattern.rows() * pattern.n_slots; }
  int64_t n_gates() const {
    return pattern.queries.n_tokens * pattern.heads * pattern.n_slots;
  }
  int64_t n_tiles() const {
    return pattern.n_units() * query_parts() * head_parts() * pattern.heads;
  }
};

// What a tile knows of a row.
template <class S>
struct Row {
  int64_t at;     // among all rows: query times query heads plus head; -1: there is none
  int64_t query;  // among all queries
  int64_t visit;  // of a block: at times n_slots plus the slot
  Range keys;     // those it sees, counted in its sequence
  S lse, delta, gate;

  __device__ bool sees(int64_t key) const {
    return at >= 0 && keys.first <= key && key < keys.end;
  }
};

// lse and D of all rows; S may be const.
template <class S>
struct Statistics {
  S* lse = nullptr;
  S* delta = nullptr;
};

// lse in two parts, max + ln(sum), each `softmax_copies` times a row, as Ascend's operators have
// it.
constexpr int softmax_copies = 8;
template <class R>
struct Softmax {
  R* max = nullptr;  // [rows, softmax_copies]
  R* sum = nullptr;  // the same
};

// exp(x - lse); where a gate is 0, x may exceed lse by far.
template <class S>
__device__ S exponential_below(S x, S lse) {
  using R = real_part<S>;
  constexpr R highest = sizeof(R) == 8 ? R(638) : R(79);  // 0.9 ln(largest)
  if (value(lse) == -INFINITY) return 0;
  S y = x - lse;
  if (value(y) > highest) y = y + S(highest - value(y));
  return exponential(y);
}

// Rows of one unit and key/value head that are handled together.
struct QueryTile {
  Piece queries;
  int head, part;         // key/value head; which part of its query heads
  int first_head, heads;  // that part
  int n;                  // rows
};

template <class T, class S>
__device__ QueryTile query_tile(const Problem<T, S>& p) {
  int64_t b = blockIdx.x;
  QueryTile tile;
  tile.head = int(b % p.pattern.heads);
  b /= p.pattern.heads;
  tile.part = int(b % p.head_parts());
  b /= p.head_parts();
  tile.first_head = tile.part * p.heads();
  tile.heads = min(p.heads(), p.pattern.group - tile.first_head);
  tile.queries = p.pattern.unit_of(b / p.query_parts());
  // from the unit's first place on, whichever sequence that belongs to
  const int64_t from = tile.queries.number * p.pattern.unit + b % p.query_parts() * p.queries();
  const int64_t to = min(from + p.queries(), (tile.queries.number + 1) * p.pattern.unit);
  tile.queries.first = max(tile.queries.first, from);
  tile.queries.end = min(tile.queries.end, to);
  tile.n = int(max(tile.queries.size(), int64_t(0))) * tile.heads;
  return tile;
}

template <class T, class S>
__device__ void describe_rows(const Problem<T, S>& p, const QueryTile& tile, Row<S>* rows) {
  const int64_t s = tile.queries.sequence, from = p.pattern.queries.first(s);
  const int64_t n_keys = p.pattern.keys.size(s);
  for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
    Row<S>& row = rows[i];
    row.query = tile.queries.first + i / tile.heads;
    row.at = row.query * p.pattern.query_heads() + int64_t(tile.head) * p.pattern.group +
             tile.first_head + i % tile.heads;
    row.keys = p.pattern.visible(row.query - from, n_keys);
    row.gate = 1;
  }
}

template <class T, class S>
__device__ bool load_keys(const Problem<T, S>& p, const Tile<S>& tile, const Input<T, S>& x,
                          int size, int64_t first, int n, int head) {
  return load_rows(tile, n, size, p.wide, x,
                   [&](int i) { return (first + i) * p.pattern.heads + head; });
}
template <class T, class S, class X>
__device__ bool load_queries(const Problem<T, S>& p, const Tile<X>& tile, const Input<T, X>& x,
                             int size, const Row<S>* rows, int n) {
  return load_rows(tile, n, size, p.wide, x, [&](int i) { return rows[i].at; });
}

// Keys first..first+n of all keys; they begin at `position` in their sequence.
struct KeyTile {
  int64_t first, position;
  int n;
};

// body(keys) for every tile of the blocks that a tile of queries sees; before(slot) at every new
// block, after(slot) when it is done.
template <class T, class S, class Before, class Body, class After>
__device__ void for_keys(const Problem<T, S>& p, const QueryTile& tile, Before before, Body body,
                         After after) {
  const int64_t s = tile.queries.sequence;
  const int64_t from = p.pattern.keys.first(s), n_keys = p.pattern.keys.size(s);
  for (Visits visit(p.pattern, tile.queries, tile.head); visit.next();) {
    before(visit.slot);
    const int64_t end = min((visit.block + 1) * p.pattern.block, n_keys);
    for (int64_t k = visit.block * p.pattern.block; k < end; k += p.keys)
      body(KeyTile{from + k, k, int(min(int64_t(p.keys), end - k))});
    after(visit.slot);
  }
}

// The gates of a slot, if there are any.
template <class T, class S>
__device__ void load_gates(const Problem<T, S>& p, int head, int64_t slot, Row<S>* rows, int n) {
  if (!p.gate) return;
  for (int i = int(threadIdx.x); i < n; i += block_threads)
    rows[i].gate = p.gate[(rows[i].query * p.pattern.heads + head) * p.pattern.n_slots + slot];
}

// Rows first..first+n of those that a chunk's entries stand for.
template <class T, class S>
__device__ void describe_visitors(const Problem<T, S>& problem, const Lists& lists,
                                  const Chunk& chunk, int64_t first, int n, Row<S>* rows) {
  const Pattern& p = problem.pattern;
  const int64_t s = chunk.keys.sequence, from = p.queries.first(s), n_keys = p.keys.size(s);
  for (int i = int(threadIdx.x); i < n; i += block_threads) {
    Row<S>& row = rows[i];
    const int64_t entry = chunk.first + (first + i) / lists.rows_per_entry;
    const int64_t within = (first + i) % lists.rows_per_entry;
    int64_t slot = 0;
    row.gate = 1;
    bool there = true;
    if (p.selected) {
      const int64_t visitor = lists.entries[entry];
      const Piece unit = p.unit_of(visitor / p.n_slots);
      slot = visitor % p.n_slots;
      row.query = unit.number * p.unit + within / p.group;
      there = unit.first <= row.query && row.query < unit.end;
      if (there && problem.gate)
        row.gate = problem.gate[(row.query * p.heads + chunk.head) * p.n_slots + slot];
    } else {
      row.query = from + entry;
    }
    row.at = row.query * p.query_heads() + int64_t(chunk.head) * p.group + within % p.group;
    row.visit = row.at * p.n_slots + slot;
    if (!there) row.at = -1;
    row.keys = p.visible(row.query - from, n_keys);
  }
}

// A part of the keys of a chunk's block, of p.keys keys; none past the end.
template <class T, class S>
__device__ KeyTile keys_of(const Problem<T, S>& p, const Chunk& chunk, int part) {
  const int64_t first = chunk.keys.first + int64_t(part) * p.keys;
  return {first, first - p.pattern.keys.first(chunk.keys.sequence),
          int(min(chunk.keys.end - first, int64_t(p.keys)))};
}

// Softmax of a row so far: sum of the weights, relative to the largest logit, and the factor of
// what was summed before.
template <class S>
struct SoftmaxSum {
  S total;
  real_part<S> top, factor;
};

// The weights of n keys, in place of their x; a warp.
template <class S>
__device__ void weigh(SoftmaxSum<S>& sum, const Row<S>& row, S* x, int64_t position, int n,
                      int lane) {
  S total = 0;
  if constexpr (ScalarTraits<S>::dual) {
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = row.sees(position + c) ? row.gate * exponential_below(x[c], row.lse) : S(0);
      total += x[c];
    }
    total = warp_sum(total);
    if (lane == 0) sum.total += total;
  } else {
    S top = sum.top;
    const S more = row.gate <= 0 ? S(-INFINITY) : logarithm(row.gate);
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = row.sees(position + c) ? x[c] + more : S(-INFINITY);
      top = max(top, x[c]);
    }
    top = warp_max(top);
    const S factor = sum.top > -INFINITY ? exponential(sum.top - top) : S(1);
    for (int c = lane; c < n; c += warp_lanes) {
      x[c] = x[c] == -INFINITY ? S(0) : exponential(x[c] - top);
      total += x[c];
    }
    total = warp_sum(total);
    __syncwarp();
    if (lane == 0) sum = {factor * sum.total + total, top, factor};
  }
}

// ---- forward ----

template <class T, class S>
struct Attend {
  using Sum = SoftmaxSum<S>;

  Problem<T, S> problem;
  const real<T>* known_lse;      // of dual numbers [rows]
  const T* cotangent;            // for D, or null
  const real<T>* lse_cotangent;  // or null
  T* out;                        // [rows, d_v], or null
  real<T>* lse;                  // [rows], or null
  Statistics<S> saved;           // each or null
  Softmax<real<T>> softmax;      // both or none

  __host__ __device__ bool values_wanted() const { return out || saved.delta; }
  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<Row<S>>(p.rows) + shared_bytes<Sum>(p.rows) +
           Tile<S>::bytes(p.rows, p.d_k) + Tile<S>::bytes(p.rows, p.d_v) +
           Tile<S>::bytes(p.keys, std::max(p.d_k, p.d_v)) + Tile<S>::bytes(p.rows, p.keys);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    Row<S>* rows = shared.take<Row<S>>(p.rows);
    Sum* sums = shared.take<Sum>(p.rows);
    const Tile<S> q(shared, p.rows, p.d_k), result(shared, p.rows, p.d_v);
    const Tile<S> kv(shared, p.keys, max(p.d_k, p.d_v)), x(shared, p.rows, p.keys);
    const QueryTile tile = query_tile(p);
    if (tile.n == 0) return;

    describe_rows(p, tile, rows);
    fill(result, tile.n, p.d_v, S(0));
    __syncthreads();
    for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
      sums[i] = {0, -INFINITY, 1};
      if constexpr (ScalarTraits<S>::dual) rows[i].lse = known_lse[rows[i].at];
    }
    load_queries(p, q, p.q, p.d_k, rows, tile.n);
    for_keys(
        p, tile, [&](int64_t slot) { load_gates(p, tile.head, slot, rows, tile.n); },
        [&](const KeyTile& keys) {
          load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head);
          __syncthreads();
          product<T, S>(
              tile.n, keys.n, p.d_k, [&](int i, int l) { return q(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) { x(i, j) = p.scale * sum; });
          __syncthreads();
          warp_per_row(tile.n, [&](int i, int lane) {
            weigh(sums[i], rows[i], &x(i, 0), keys.position, keys.n, lane);
          });
          if (values_wanted()) {
            const bool finite = __syncthreads_and(
                load_keys(p, kv, p.v, p.d_v, keys.first, keys.n, tile.head));
            masked_product<T, S>(
                finite, tile.n, p.d_v, keys.n, [&](int i, int l) { return x(i, l); },
                [&](int l, int j) { return kv(l, j); },
                [&](int i, int l) { return rows[i].sees(keys.position + l); },
                [&](int i, int j, S sum) { result(i, j) = sums[i].factor * result(i, j) + sum; });
          }
          __syncthreads();
        },
        [](int64_t) {});
    __syncthreads();
    warp_per_row(tile.n, [&](int i, int lane) {
      finish(sums[i], rows[i], [&](int c) { return result(i, c); }, lane);
    });
  }

  // A row whose out is values(c) / sum.total; a warp.
  template <class Values>
  __device__ void finish(const Sum& sum, const Row<S>& row, Values values, int lane) const {
    const bool any = value(sum.total) != 0;
    S delta = 0;
    for (int c = lane; values_wanted() && c < problem.d_v; c += warp_lanes) {
      const S y = any ? values(c) / sum.total : S(0);
      if (out) out[row.at * problem.d_v + c] = T(gnograd::result(y));
      if (saved.delta) delta += real<T>(cotangent[row.at * problem.d_v + c]) * y;
    }
    if (saved.delta) delta = warp_sum(delta);
    if (softmax.max && lane < softmax_copies) {
      const int64_t i = row.at * softmax_copies + lane;
      softmax.max[i] = any ? sum.top : -INFINITY;
      softmax.sum[i] = any ? value(sum.total) : real<T>(0);
    }
    if (lane) return;
    S total = -INFINITY;
    if (any) {
      total = logarithm(sum.total);
      if constexpr (ScalarTraits<S>::dual) total += row.lse;
      else total += sum.top;
    }
    if (lse) lse[row.at] = gnograd::result(total);
    if (saved.lse) saved.lse[row.at] = total;
    if (saved.delta) saved.delta[row.at] = lse_cotangent ? delta - lse_cotangent[row.at] : delta;
  }
};

// D of rows whose out is known; a warp each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    project(int64_t n_rows, int d_v, const T* cotangent, const real<T>* lse_cotangent, const T* out,
            real<T>* delta) {
  const int64_t row = thread_number() / warp_lanes;
  const int lane = int(threadIdx.x) % warp_lanes;
  if (row >= n_rows) return;
  real<T> sum = 0;
  for (int c = lane; c < d_v; c += warp_lanes)
    sum += real<T>(cotangent[row * d_v + c]) * real<T>(out[row * d_v + c]);
  sum = warp_sum(sum);
  if (lane == 0) delta[row] = lse_cotangent ? sum - lse_cotangent[row] : sum;
}

template <class R>
__global__ void __launch_bounds__(block_threads)
    join_softmax(int64_t n_rows, Softmax<const R> softmax, R* lse) {
  const int64_t row = thread_number(), i = row * softmax_copies;
  if (row >= n_rows) return;
  // the maximum of nothing is -infinity already
  lse[row] = softmax.max[i] + (softmax.sum[i] == 0 ? R(0) : logarithm(softmax.sum[i]));
}

// ---- gradients ----

template <class T, class S>
struct PullQueries {
  Problem<T, S> problem;
  const T* cotangent;  // [rows, d_v]
  Statistics<const S> known;
  T* grad_q;     // [rows, d_k], or null
  S* grad_gate;  // [head parts, queries, heads, n_slots], zero, or null

  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<Row<S>>(p.rows) + 2 * Tile<S>::bytes(p.rows, p.d_k) +
           Tile<real<T>>::bytes(p.rows, p.d_v) + Tile<S>::bytes(p.keys, std::max(p.d_k, p.d_v)) +
           Tile<S>::bytes(p.rows, p.keys) + shared_bytes<S>(p.rows);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    Row<S>* rows = shared.take<Row<S>>(p.rows);
    const Tile<S> q(shared, p.rows, p.d_k), grad(shared, p.rows, p.d_k);
    const Tile<real<T>> g(shared, p.rows, p.d_v);
    const Tile<S> kv(shared, p.keys, max(p.d_k, p.d_v)), x(shared, p.rows, p.keys);
    S* gate_sums = shared.take<S>(p.rows);
    const QueryTile tile = query_tile(p);
    if (tile.n == 0) return;

    describe_rows(p, tile, rows);
    fill(grad, tile.n, p.d_k, S(0));
    __syncthreads();
    for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
      rows[i].lse = known.lse[rows[i].at];
      rows[i].delta = known.delta[rows[i].at];
    }
    load_queries(p, q, p.q, p.d_k, rows, tile.n);
    load_queries(p, g, Input<T, real<T>>{cotangent}, p.d_v, rows, tile.n);
    for_keys(
        p, tile,
        [&](int64_t slot) {
          load_gates(p, tile.head, slot, rows, tile.n);
          for (int i = int(threadIdx.x); i < tile.n; i += block_threads) gate_sums[i] = 0;
        },
        [&](const KeyTile& keys) {
          load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head);
          __syncthreads();
          product<T, S>(
              tile.n, keys.n, p.d_k, [&](int i, int l) { return q(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) {
                x(i, j) = rows[i].sees(keys.position + j)
                              ? exponential_below(p.scale * sum, rows[i].lse)
                              : S(0);
              });
          __syncthreads();
          load_keys(p, kv, p.v, p.d_v, keys.first, keys.n, tile.head);
          __syncthreads();
          // E becomes E o (G V^T - D)
          product<T, S>(
              tile.n, keys.n, p.d_v, [&](int i, int l) { return g(i, l); },
              [&](int l, int j) { return kv(j, l); },
              [&](int i, int j, S sum) {
                x(i, j) = rows[i].sees(keys.position + j) ? x(i, j) * (sum - rows[i].delta) : S(0);
              });
          __syncthreads();
          if (grad_gate)
            warp_per_row(tile.n, [&](int i, int lane) {
              S sum = 0;
              for (int c = lane; c < keys.n; c += warp_lanes) sum += x(i, c);
              sum = warp_sum(sum);
              if (lane == 0) gate_sums[i] += sum;
            });
          const bool finite = __syncthreads_and(
              load_keys(p, kv, p.k, p.d_k, keys.first, keys.n, tile.head));
          masked_product<T, S>(
              finite, tile.n, p.d_k, keys.n, [&](int i, int l) { return x(i, l); },
              [&](int l, int j) { return kv(l, j); },
              [&](int i, int l) { return rows[i].sees(keys.position + l); },
              [&](int i, int j, S sum) { grad(i, j) += rows[i].gate * sum; });
          __syncthreads();
        },
        [&](int64_t slot) {
          if (!grad_gate) return;
          for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
            if (i % tile.heads) continue;
            S sum = 0;
            for (int head = 0; head < tile.heads; ++head) sum += gate_sums[i + head];
            const int64_t of = tile.part * p.pattern.queries.n_tokens + rows[i].query;
            grad_gate[(of * p.pattern.heads + tile.head) * p.pattern.n_slots + slot] = sum;
          }
          __syncthreads();
        });
    __syncthreads();
    if (!grad_q) return;
    warp_per_row(tile.n, [&](int i, int lane) {
      for (int c = lane; c < p.d_k; c += warp_lanes)
        grad_q[rows[i].at * p.d_k + c] = T(result(p.scale * grad(i, c)));
    });
  }
};

// Gradients of a block's keys and values from one chunk of its visitors.
template <class T, class S>
struct PullKeys {
  Problem<T, S> problem;
  Lists lists;
  const T* cotangent;
  Statistics<const S> known;
  S* sums;    // [chunks, block, d_k + d_v]
  S* grad_q;  // [rows, n_slots, parts, d_k]: what every visit gives, or null

  __host__ __device__ int parts() const { return problem.block_parts(); }
  size_t shared_memory() const {
    const auto& p = problem;
    return shared_bytes<Row<S>>(p.rows) + Tile<S>::bytes(p.rows, p.d_k) +
           Tile<real<T>>::bytes(p.rows, p.d_v) + 2 * Tile<S>::bytes(p.keys, p.d_k) +
           2 * Tile<S>::bytes(p.keys, p.d_v) + 2 * Tile<S>::bytes(p.rows, p.keys);
  }

  __device__ void operator()() const {
    const auto& p = problem;
    SharedMemory shared;
    Row<S>* rows = shared.take<Row<S>>(p.rows);
    const Tile<S> q(shared, p.rows, p.d_k);
    const Tile<real<T>> g(shared, p.rows, p.d_v);
    const Tile<S> k(shared, p.keys, p.d_k), grad_k(shared, p.keys, p.d_k);
    const Tile<S> v(shared, p.keys, p.d_v), grad_v(shared, p.keys, p.d_v);
    const Tile<S> w(shared, p.rows, p.keys), x(shared, p.rows, p.keys);
    const int64_t number = int64_t(blockIdx.x) / parts();
    const int part = int(int64_t(blockIdx.x) % parts());
    const Chunk chunk = chunk_of(p.pattern, lists, number);
    const KeyTile keys = keys_of(p, chunk, part);
    const int n_keys = keys.n;
    if (n_keys <= 0 || chunk.n <= 0) return;

    const bool k_loaded = load_keys(p, k, p.k, p.d_k, keys.first, n_keys, chunk.head);
    load_keys(p, v, p.v, p.d_v, keys.first, n_keys, chunk.head);
    fill(grad_k, n_keys, p.d_k, S(0));
    fill(grad_v, n_keys, p.d_v, S(0));
    const int64_t n_rows = chunk.n * lists.rows_per_entry;
    for (int64_t first = 0; first < n_rows; first += p.rows) {
      const int n = int(min(n_rows - first, int64_t(p.rows)));
      __syncthreads();
      describe_visitors(p, lists, chunk, first, n, rows);
      for (int i = int(threadIdx.x); i < n; i += block_threads) {
        const int64_t at = rows[i].at;
        rows[i].lse = at < 0 ? S(0) : known.lse[at];
        rows[i].delta = at < 0 ? S(0) : known.delta[at];
      }
      __syncthreads();
      const auto sees = [&](int i, int l) { return rows[i].sees(keys.position + l); };
      const auto seen = [&](int i, int l) { return sees(l, i); };
      const bool q_loaded = load_queries(p, q, p.q, p.d_k, rows, n);
      const bool g_loaded = load_queries(p, g, Input<T, real<T>>{cotangent}, p.d_v, rows, n);
      const bool finite = __syncthreads_and(k_loaded && q_loaded && g_loaded);
      product<T, S>(
          n, n_keys, p.d_k, [&](int i, int l) { return q(i, l); },
          [&](int l, int j) { return k(j, l); },
          [&](int i, int j, S sum) {
            w(i, j) = sees(i, j)
                          ? rows[i].gate * exponential_below(p.scale * sum, rows[i].lse)
                          : S(0);
          });
      __syncthreads();
      product<T, S>(
          n, n_keys, p.d_v, [&](int i, int l) { return g(i, l); },
          [&](int l, int j) { return v(j, l); },
          [&](int i, int j, S sum) {
            x(i, j) = sees(i, j) ? w(i, j) * (sum - rows[i].delta) : S(0);
          });
      __syncthreads();
      masked_product<T, S>(
          finite, n_keys, p.d_v, n, [&](int i, int l) { return w(l, i); },
          [&](int l, int j) { return g(l, j); }, seen,
          [&](int i, int j, S sum) { grad_v(i, j) += sum; });
      masked_product<T, S>(
          finite, n_keys, p.d_k, n, [&](int i, int l) { return x(l, i); },
          [&](int l, int j) { return q(l, j); }, seen,
          [&](int i, int j, S sum) { grad_k(i, j) += p.scale * sum; });
      if (grad_q)
        masked_product<T, S>(
            finite, n, p.d_k, n_keys, [&](int i, int l) { return x(i, l); },
            [&](int l, int j) { return k(l, j); }, sees,
            [&](int i, int j, S sum) {
              if (rows[i].at >= 0) grad_q[(rows[i].visit * parts() + part) * p.d_k + j] = sum;
            });
    }
    __syncthreads();
    S* to = sums + (number * p.pattern.block + int64_t(part) * p.keys) * (p.d_k + p.d_v);
    warp_per_row(n_keys, [&](int i, int lane) {
      S* row = to + int64_t(i) * (p.d_k + p.d_v);
      for (int c = lane; c < p.d_k; c += warp_lanes) row[c] = grad_k(i, c);
      for (int c = lane; c < p.d_v; c += warp_lanes) row[p.d_k + c] = grad_v(i, c);
    });
  }
};

// The chunks of every list, in order.
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    join_chunks(Pattern p, Lists lists, int d_k, int d_v, const S* sums, T* grad_k, T* grad_v) {
  const int d = d_k + d_v;
  const int64_t row = thread_number() / d;  // key times heads plus head
  const int c = int(thread_number() % d);
  if (row >= p.keys.n_tokens * p.heads || !(c < d_k ? grad_k : grad_v)) return;
  const int64_t key = row / p.heads, s = p.keys.of_token(key);
  const int64_t position = key - p.keys.first(s);
  const int64_t list =
      row % p.heads * lists.n_blocks + p.keys.number(s, p.block) + position / p.block;
  const int64_t first = lists.first_chunk(list), n = n_chunks_of(p, lists, list);
  S sum = 0;
  for (int64_t i = first; i < first + n; ++i)
    sum += sums[(i * p.block + position % p.block) * d + c];
  if (c < d_k) grad_k[row * d_k + c] = T(result(sum));
  else grad_v[row * d_v + c - d_k] = T(result(sum));
}

// grad[i] = sum over the parts of the heads
template <class T, class S>
__global__ void __launch_bounds__(block_threads)
    join_gates(int64_t n, int parts, const S* sums, T* grad) {
  const int64_t i = thread_number();
  if (i >= n) return;
  S sum = 0;
  for (int part = 0; part < parts; ++part) sum += sums[part * n + i];
  grad[i] = T(result(sum));
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// Native sparse attention: selected blocks, compressed tokens, windows and balls. For a query row r
// (a token and one of its heads) and the keys c of its key/value head that the pattern shows it,
//
//     x = scale q . k    E = exp(x - lse)    P = gate E    out = P V    lse = ln sum gate exp(x)
//
// with a gate for every slot, 1 where there are none; x may have a bias (nsa_distance.cuh). With G
// the cotangent of out, g that of lse:
//
//     D = rowsum(G o out) - g      dS = P o (G V^T - D)
//     grad q = scale dS K          grad k = scale dS^T Q         grad v = P^T G
//     grad gate = sum over the heads and keys of a slot of E o (G V^T - D)
//
// Three kernels do this (nsa_forward.cuh, nsa_gradients.cuh), tile by tile in shared memory, over a
// scalar S (device/numbers.cuh), with tensor cores for real numbers from 16 bits; P and dS are
// rounded to these for their products:
//
//     NsaForward        out, lse and D of some rows that see the same blocks
//     NsaQueryGradient   gradients to q and the gates, of the same rows
//     NsaKeyGradient      gradients to k and v, of a block, from some of its visitors
//     (nsa_pattern.cuh)
//
// If few rows share a selection, out and the gradient to q come with the keys first
// (nsa_visits.cuh). For numbers of 16 bits and float32, out and lse, and gradients without gates,
// have forms of their own, with sums in registers (nsa_fragments.cuh); what these do not take is
// done here.
//
// With dual numbers they are the jvp and the hvp. lse is known then from a pass with real numbers,
// so that no maximum moves while derivatives are summed. A row that sees no key has out = 0,
// lse = -infinity and no part in any gradient. NaN goes where a formula above takes it, and nowhere
// else: a key or a value that a row does not see does not reach it, though both be in one tile.
#pragma once
#include "device/tensor.cuh"
#include "nsa_distance.cuh"
#include "nsa_pattern.cuh"

namespace gnograd {

template <class T, class S>
struct NsaProblem {
  Pattern pattern;
  int d_k, d_v;
  real<T> scale;
  Input<T, S> q;     // [queries, query heads, d_k]
  Input<T, S> k, v;  // [keys, heads, d_k], [keys, heads, d_v]
  Input<T, S> gate;  // [queries, heads, n_slots], or null
  bool wide;         // rows are aligned
  int rows, keys;    // shape of a tile
  DistanceBias<real<T>, S> bias;

  // Query heads of one query in a tile, tiles for all its heads; queries in a tile, tiles of a unit
  __host__ __device__ int heads() const { return pattern.group < rows ? pattern.group : rows; }
  __host__ __device__ int head_parts() const { return (pattern.group + heads() - 1) / heads(); }
  __host__ __device__ int64_t queries() const {
    const int64_t most = rows / heads();
    return pattern.unit < most ? pattern.unit : most;
  }
  __host__ __device__ int64_t query_parts() const {
    const int64_t each = queries();
    return each == pattern.unit ? 1 : (pattern.unit + each - 1) / each;
  }
  // Tiles of the keys of a block
  __host__ __device__ int block_parts() const { return (pattern.block + keys - 1) / keys; }
  int64_t n_visits() const { return pattern.rows() * pattern.n_slots; }
  int64_t n_gates() const { return pattern.queries.n_tokens * pattern.heads * pattern.n_slots; }
  int64_t n_tiles() const {
    return pattern.n_units() * query_parts() * head_parts() * pattern.heads;
  }
};

// Blocks at once for which registers suffice; some operations have room for one more, or less. Left
// alone, ptxas spills to have more blocks, for which shared memory seldom has room.
template <class S>
constexpr int tile_blocks = sizeof(S) == 4 ? 5 : sizeof(S) == 8 ? 4 : 3;

// Data of a row in a tile.
template <class S>
struct QueryRow {
  int64_t at;     // among all rows: query times query heads plus head; -1: there is none
  int64_t query;  // among all queries
  int64_t visit;  // number among the block's visits: at times n_slots plus the slot
  Range keys;     // keys that it sees, counted in its sequence
  S lse, delta, gate;

  __device__ bool sees(int64_t key) const { return at >= 0 && keys.first <= key && key < keys.end; }
};

// lse and D of all rows; S may be const.
template <class S>
struct RowStatistics {
  S* lse = nullptr;
  S* delta = nullptr;
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
  TokenPiece queries;
  int head, part;         // key/value head; which part of its query heads
  int first_head, heads;  // heads of that part
  int n;                  // rows
};

template <class T, class S>
__device__ QueryTile query_tile(const NsaProblem<T, S>& p, int64_t number) {
  QueryTile tile;
  const auto [unit_part, head] = divided(number, p.pattern.heads);
  const auto [query_part, part] = divided(unit_part, p.head_parts());
  const int64_t parts = p.query_parts();
  const int64_t unit = parts == 1 ? query_part : query_part / parts;
  tile.head = head;
  tile.part = part;
  tile.first_head = tile.part * p.heads();
  tile.heads = min(p.heads(), p.pattern.group - tile.first_head);
  tile.queries = p.pattern.unit_of(unit);
  // from the unit's first place on, whichever sequence that belongs to
  const int64_t from =
      tile.queries.number * p.pattern.unit + (query_part - unit * parts) * p.queries();
  const int64_t to = min(from + p.queries(), (tile.queries.number + 1) * p.pattern.unit);
  tile.queries.first = max(tile.queries.first, from);
  tile.queries.end = min(tile.queries.end, to);
  tile.n = int(max(tile.queries.size(), int64_t(0))) * tile.heads;
  return tile;
}

template <class T, class S>
__device__ void describe_rows(const NsaProblem<T, S>& p, const QueryTile& tile, QueryRow<S>* rows) {
  const int64_t s = tile.queries.sequence, from = p.pattern.queries.first(s);
  const int64_t n_keys = p.pattern.keys.size(s);
  for (int i = int(threadIdx.x); i < tile.n; i += block_threads) {
    QueryRow<S>& row = rows[i];
    row.query = tile.queries.first + i / tile.heads;
    row.at = row.query * p.pattern.query_heads() + int64_t(tile.head) * p.pattern.group +
             tile.first_head + i % tile.heads;
    row.keys = p.pattern.visible(row.query - from, n_keys);
    row.gate = 1;
  }
}

template <class T, class S>
__device__ bool load_keys(const NsaProblem<T, S>& p, const SharedMatrix<S>& tile,
                          const Input<T, S>& x, int size, int64_t first, int n, int head) {
  return load_rows(tile, n, size, p.wide, x,
                   [&](int i) { return (first + i) * p.pattern.heads + head; });
}
template <class T, class S, class X>
__device__ bool load_queries(const NsaProblem<T, S>& p, const SharedMatrix<X>& tile,
                             const Input<T, X>& x, int size, const QueryRow<S>* rows, int n) {
  return load_rows(tile, n, size, p.wide, x, [&](int i) { return rows[i].at; });
}

// A logit, of a product of q and k and of what fill_distances has left in its place.
template <class T, class S>
__device__ S logit(const NsaProblem<T, S>& p, S product, const S& distance) {
  const S x = p.scale * product;
  if (!p.bias) return x;
  return x + distance;
}

// Keys first..first+n of all keys; they begin at `position` in their sequence.
struct KeyTile {
  int64_t first, position;
  int n;
};

// The bias of all pairs of a tile, where there is one.
template <class T, class S>
__device__ void fill_distances(const NsaProblem<T, S>& p, const SharedMatrix<S>& x,
                               const QueryRow<S>* rows, int n, const KeyTile& keys) {
  if (!p.bias) return;
  for (int cell = int(threadIdx.x); cell < n * keys.n; cell += block_threads) {
    const int i = cell / keys.n, j = cell % keys.n;
    x(i, j) = rows[i].at < 0 ? S(0) : p.bias(rows[i].at, rows[i].query, keys.first + j);
  }
}

// body(keys) for every tile of the blocks that a tile of queries sees; before(slot) at every new
// block, after(slot) when it is done.
template <class T, class S, class Before, class Body, class After>
__device__ void for_keys(const NsaProblem<T, S>& p, const QueryTile& tile, Before before, Body body,
                         After after) {
  const int64_t s = tile.queries.sequence;
  const int64_t from = p.pattern.keys.first(s), n_keys = p.pattern.keys.size(s);
  for (BlockVisits visit(p.pattern, tile.queries, tile.head); visit.next();) {
    before(visit.slot);
    const int64_t end = min((visit.block + 1) * p.pattern.block, n_keys);
    for (int64_t k = visit.block * p.pattern.block; k < end; k += p.keys)
      body(KeyTile{from + k, k, int(min(int64_t(p.keys), end - k))});
    after(visit.slot);
  }
}

// The gates of a slot, if there are any.
template <class T, class S>
__device__ void load_gates(const NsaProblem<T, S>& p, int head, int64_t slot, QueryRow<S>* rows,
                           int n) {
  if (!p.gate) return;
  for (int i = int(threadIdx.x); i < n; i += block_threads)
    rows[i].gate = p.gate[(rows[i].query * p.pattern.heads + head) * p.pattern.n_slots + slot];
}

// Rows first..first+n of those that a chunk's entries stand for.
template <class T, class S>
__device__ void describe_visitors(const NsaProblem<T, S>& problem, const VisitorLists& lists,
                                  const VisitorChunk& chunk, int64_t first, int n,
                                  QueryRow<S>* rows) {
  const Pattern& p = problem.pattern;
  const int64_t s = chunk.keys.sequence, from = p.queries.first(s), n_keys = p.keys.size(s);
  for (int i = int(threadIdx.x); i < n; i += block_threads) {
    QueryRow<S>& row = rows[i];
    const int64_t entry = chunk.first + (first + i) / lists.rows_per_entry;
    const int64_t within = (first + i) % lists.rows_per_entry;
    int64_t slot = 0;
    row.gate = 1;
    bool there = true;
    if (p.selected) {
      const int64_t visitor = lists.entries[entry];
      const TokenPiece unit = p.unit_of(visitor / p.n_slots);
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
__device__ KeyTile keys_of(const NsaProblem<T, S>& p, const VisitorChunk& chunk, int part) {
  const int64_t first = chunk.keys.first + int64_t(part) * p.keys;
  return {first, first - p.pattern.keys.first(chunk.keys.sequence),
          int(min(chunk.keys.end - first, int64_t(p.keys)))};
}

}  // namespace gnograd

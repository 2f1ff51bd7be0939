// SPDX-License-Identifier: MIT
// Pattern of queries and the keys that they see, for selected, compressed and window attention.
//
// Queries are handled in units, keys in blocks. Neither crosses the border of a sequence, and where
// the borders are only the device knows; so both are numbered in a way that leaves gaps but needs
// no table: piece b of sequence s, in pieces of `length` tokens, has number cu[s] / length + s + b.
//
// The gradients to the keys of a block need all its visitors. Where a query's position decides what
// it sees, they are a range of queries. Blocks that are selected have lists of visitors, made by
// count, scan and stable fill. In both cases long lists are cut into chunks of a fixed length,
// whose sums are added in order: no block waits for a popular one, and every run gives the same
// bits.
#pragma once
#include "device/lanes.cuh"
#include "device/scan.cuh"
#include "device/workspace.cuh"

namespace gnograd {

// Consecutive tokens of one sequence.
struct TokenPiece {
  int64_t sequence, number;
  int64_t first, end;  // tokens, among those of all sequences
  __device__ int64_t size() const { return end - first; }
};

struct Sequences {
  int64_t n_tokens, n;
  const int64_t* cu;  // [n+1], or null: one sequence

  __device__ int64_t first(int64_t s) const { return cu ? cu[s] : 0; }
  __device__ int64_t end(int64_t s) const { return cu ? cu[s + 1] : n_tokens; }
  __device__ int64_t size(int64_t s) const { return end(s) - first(s); }

  int64_t n_pieces(int64_t length) const { return n_tokens / length + n; }
  __device__ int64_t number(int64_t s, int64_t length) const { return first(s) / length + s; }

  // The last sequence whose key(s) is at most x; key rises, and key(0) <= x.
  template <class Key>
  __device__ int64_t last(int64_t x, Key key) const {
    int64_t low = 0, high = n;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (key(middle) <= x) low = middle;
      else high = middle;
    }
    return low;
  }
  // The sequence of a token; of those that begin there, the one that is not empty.
  __device__ int64_t of_token(int64_t token) const {
    return last(token, [&](int64_t s) { return first(s); });
  }
  __device__ int64_t of_piece(int64_t piece, int64_t length) const {
    return last(piece, [&](int64_t s) { return number(s, length); });
  }
};

constexpr int most_features = 256, most_block = 256;

enum Duplicates { duplicates_ignore, duplicates_error, duplicates_count };

struct Range {
  int64_t first, end;
};

struct Pattern {
  Sequences queries, keys;
  int heads, group;  // key/value heads, and query heads for each
  int block;         // keys of a block
  int64_t unit;      // consecutive queries that share a selection, or are handled together
  // A query at position s sees the keys first..last, last = floor((s + shift) / stride) and
  // first = last - window + 1 (causal; window 0: the first key), or those of its ball (0: all).
  bool causal;
  int64_t shift, stride, window, ball;
  // True if blocks are selected: [ceil(queries / unit), heads, n_slots], -1 for an empty slot.
  // Otherwise positions alone decide.
  bool selected;
  const int32_t* block_index;
  int64_t n_slots;
  bool repeat;  // a block named twice counts twice

  __host__ __device__ int64_t query_heads() const { return int64_t(heads) * group; }
  __host__ __device__ int64_t rows() const { return queries.n_tokens * query_heads(); }
  int64_t n_units() const { return queries.n_pieces(unit); }
  int64_t n_blocks() const { return keys.n_pieces(block); }

  __device__ Range visible(int64_t position, int64_t n_keys) const {
    if (!causal) {
      if (!ball) return {0, n_keys};
      const int64_t first = position / ball * ball;
      return {first, min(first + ball, n_keys)};
    }
    if (position + shift < 0) return {0, 0};
    const int64_t end = (stride == 1 ? position + shift : (position + shift) / stride) + 1;
    return {window ? max(end - window, int64_t(0)) : 0, min(end, n_keys)};
  }

  // Queries first..end of a sequence that may see one of the keys first..end; its inverse.
  __device__ Range visitors(Range seen, int64_t n_queries) const {
    Range r{0, n_queries};
    if (causal) {
      r.first = max(r.first, seen.first * stride - shift);
      if (window) r.end = min(r.end, (seen.end - 1 + window) * stride - shift);
    } else if (ball) {
      r.first = seen.first / ball * ball;
      r.end = min(r.end, ((seen.end - 1) / ball + 1) * ball);
    }
    return r;
  }
  // Blocks that a query sees at most, where positions decide.
  int64_t most_blocks() const {
    const int64_t all = ceil_div(keys.n_tokens, block), seen = causal ? window : ball;
    return seen ? std::min(all, (seen + block - 2) / block + 1) : all;
  }
  // Visitors of a block at most.
  int64_t most_visitors() const {
    const int64_t all = queries.n_tokens;
    if (causal) return window ? std::min(all, (block + window) * stride) : all;
    return ball ? std::min(all, block + 2 * ball) : all;
  }

  // Units are numbered through all sequences, for block_index; blocks in their own sequence.
  __device__ TokenPiece unit_of(int64_t number) const {
    const int64_t s = queries.of_piece(number, unit), n = number - s;
    return {s, n, max(n * unit, queries.first(s)), min((n + 1) * unit, queries.end(s))};
  }
  __device__ TokenPiece block_of(int64_t number) const {
    const int64_t s = keys.of_piece(number, block), b = number - keys.number(s, block);
    const int64_t first = keys.first(s) + b * block;
    return {s, b, first, min(first + block, keys.end(s))};
  }
  __device__ int64_t n_blocks(int64_t sequence) const {
    return (keys.size(sequence) + block - 1) / block;
  }

  __device__ const int32_t* slots(const TokenPiece& unit, int head) const {
    return block_index + (unit.number * heads + head) * n_slots;
  }
  __device__ bool named_before(const int32_t* slots, int64_t slot) const {
    for (int64_t i = 0; i < slot; ++i)
      if (slots[i] == slots[slot]) return true;
    return false;
  }
  // True if queries up to `last` may see a block.
  __device__ bool sees(int64_t b, int64_t sequence, int64_t last) const {
    return b >= 0 && b * block < visible(last - queries.first(sequence), keys.size(sequence)).end;
  }
  // True if a slot brings a block that queries up to `last` may see.
  __device__ bool counts(const int32_t* slots, int64_t slot, int64_t sequence, int64_t last) const {
    return sees(slots[slot], sequence, last) && (repeat || !named_before(slots, slot));
  }
  // Block that this lane's slot brings, one of the slots base..base+31 of a unit that has queries,
  // or -1; a warp.
  __device__ int64_t block_of_lane(const int32_t* slots, int64_t base, const TokenPiece& unit,
                                   int lane) const {
    const int32_t b = base + lane < n_slots ? slots[base + lane] : -1;
    const bool first = repeat || !(__match_any_sync(~0u, b) & ((1u << lane) - 1));
    if (!first || !sees(b, unit.sequence, unit.end - 1)) return -1;
    for (int64_t i = 0; !repeat && i < base; ++i)
      if (slots[i] == b) return -1;
    return b;
  }
};

// Pattern with what all branches have in common.
inline Pattern make_pattern(int64_t n_queries, int64_t n_keys, int64_t n_query_heads,
                            int64_t n_heads, int64_t n_sequences, const int64_t* cu_q,
                            const int64_t* cu_k, bool causal, int64_t shift) {
  Pattern p{};
  if (n_sequences < 1) {
    n_sequences = 1;
    cu_q = cu_k = nullptr;
  }
  p.queries = {n_queries, n_sequences, cu_q};
  p.keys = {n_keys, n_sequences, cu_k};
  p.heads = int(n_heads);
  if (n_heads > 0 && n_query_heads % n_heads == 0) p.group = int(n_query_heads / n_heads);
  p.block = 64;  // keys handled together if no blocks are selected
  p.unit = 1;
  p.causal = causal;
  p.shift = shift;
  p.stride = 1;
  return p;
}

// The blocks that some queries of one unit see: those of its slots, or a range.
class BlockVisits {
  const Pattern& p;
  const TokenPiece& queries;
  const int32_t* slots;
  int64_t next_, end;

 public:
  int64_t block, slot = 0;  // block and slot of this visit

  __device__ BlockVisits(const Pattern& p, const TokenPiece& queries, int head)
      : p(p), queries(queries) {
    if (p.selected) {
      slots = p.slots(queries, head);
      next_ = 0;
      end = p.n_slots;
      return;
    }
    const int64_t from = p.queries.first(queries.sequence), n = p.keys.size(queries.sequence);
    next_ = p.visible(queries.first - from, n).first / p.block;
    end = (p.visible(queries.end - 1 - from, n).end + p.block - 1) / p.block;
  }
  // Go to the next block, if there is one.
  __device__ bool next() {
    if (!p.selected) {
      block = next_;
      return next_++ < end;
    }
    for (; next_ < end; ++next_)
      if (p.counts(slots, next_, queries.sequence, queries.end - 1)) {
        block = slots[next_];
        slot = next_++;
        return true;
      }
    return false;
  }
};

// ---- visitors of blocks ----

// Lists are numbered by head, then block. An entry is n_slots times a unit, plus the slot; where
// positions decide it is a query, and no list is stored. Chunk j of list i has number
// starts[i] / chunk + i + j, or chunks_per_list i + j.
struct VisitorLists {
  int64_t n_lists = 0, n_blocks = 0, n_chunks = 0;
  // Entries of a chunk; where positions decide, at least so many, and of a list that has more than
  // chunks_per_list times that, equal parts.
  int64_t chunk = 1, chunks_per_list = 0;
  int64_t rows_per_entry = 1;  // queries times query heads

  int64_t* starts = nullptr;   // [n_lists+1]
  int64_t* entries = nullptr;  // [at most units * heads * n_slots]
  // Slots that bring a visit, a bit each [units, heads, 4], for units with queries. Null if there
  // are more slots than bits.
  unsigned* marks = nullptr;
  // Segments of units are counted apart, each by one warp: [n_segments, n_lists] lengths of the
  // lists, then where the segment's entries begin in them.
  int64_t n_segments = 0, segment = 0;
  int64_t* cells = nullptr;

  __device__ int64_t first_chunk(int64_t list) const {
    return chunks_per_list ? list * chunks_per_list : starts[list] / chunk + list;
  }
  // Entries of each of at most `most` chunks of n visitors, and the number of these chunks, where
  // positions decide. In 32 bits, as tokens are.
  __device__ unsigned length_of(unsigned n, unsigned most) const {
    return max(unsigned(chunk), (n + most - 1) / most);
  }
  __device__ unsigned n_chunks_of(int64_t n) const {
    if (n <= 0) return 0;
    const unsigned length = length_of(unsigned(n), unsigned(chunks_per_list));
    return (unsigned(n) + length - 1) / length;
  }
};

constexpr int64_t most_slots = 128;
constexpr int mark_words = int(most_slots) / warp_lanes;

// Rows that a chunk has at least, so that it pays for its start; chunks that are enough for any
// number of multiprocessors, more than which would take memory for their sums; of a list, at most.
constexpr int64_t chunk_rows = 1024, enough_chunks = 8192, most_chunks = 8;

inline VisitorLists take_lists(const Pattern& p, Workspace& workspace) {
  VisitorLists l;
  l.n_blocks = p.n_blocks();
  l.n_lists = l.n_blocks * p.heads;
  l.rows_per_entry = p.group * (p.selected ? p.unit : 1);
  l.chunk = std::max<int64_t>(1, chunk_rows / l.rows_per_entry);
  if (!p.selected) {
    const int64_t most = std::max<int64_t>(1, ceil_div(p.most_visitors(), l.chunk));
    const int64_t enough = ceil_div(enough_chunks, std::max<int64_t>(1, l.n_lists));
    l.chunks_per_list = std::min({most, enough, most_chunks});
    l.n_chunks = l.n_lists * l.chunks_per_list;
    return l;
  }
  const int64_t units = p.n_units(), most = units * p.heads * p.n_slots;
  // about two chunks to a list of mean length at most
  l.chunk = std::max(l.chunk, most / (2 * l.n_lists));
  l.n_chunks = most / l.chunk + l.n_lists;
  l.n_segments = std::max<int64_t>(1, std::min(ceil_div(units, 16), most / l.n_lists));
  l.segment = ceil_div(units, l.n_segments);
  l.starts = workspace.take<int64_t>(l.n_lists + 1);
  l.entries = workspace.take<int64_t>(most);
  if (p.n_slots <= most_slots) l.marks = workspace.take<unsigned>(units * p.heads * mark_words);
  l.cells = workspace.take<int64_t>(l.n_segments * l.n_lists);
  return l;
}

// Count the entries of every list in every segment, or write them. Warp: a head of a segment of
// units, in order, 32 slots at a time; of its lanes that meet in a list, each finds its place by
// its rank. Reads 4 bytes a slot, and writes 8, and 16 of marks a unit; bound by the latency of the
// cells, which a warp reads and writes one group of slots after another. Room for eight blocks, as
// ptxas would spill to have more.
template <bool write>
__global__ void __launch_bounds__(block_threads, 8)
    nsa_list_visitors(Pattern p, VisitorLists l, int64_t units) {
  const int64_t warp = thread_number() / warp_lanes, segment = warp / p.heads;
  const int head = int(warp % p.heads), lane = int(threadIdx.x) % warp_lanes;
  if (segment >= l.n_segments) return;
  const int64_t end = min((segment + 1) * l.segment, units);
  int64_t sequence = -1, list = 0;  // the first one of that sequence
  for (int64_t u = segment * l.segment; u < end; ++u) {
    const TokenPiece unit = p.unit_of(u);
    if (unit.size() <= 0) continue;
    const int32_t* slots = p.slots(unit, head);
    if (sequence != unit.sequence) {
      sequence = unit.sequence;
      list = head * l.n_blocks + p.keys.number(sequence, p.block);
    }
    unsigned marked = 0;  // word `lane`
    for (int64_t base = 0; base < p.n_slots; base += warp_lanes) {
      const int64_t block = p.block_of_lane(slots, base, unit, lane);
      const bool counts = block >= 0;
      if constexpr (write) {
        const unsigned all = __ballot_sync(~0u, counts);
        if (lane == base / warp_lanes) marked = all;
      }
      const int64_t mine = counts ? list + block : -1;
      const unsigned same = __match_any_sync(~0u, static_cast<unsigned long long>(mine));
      const int rank = __popc(same & ((1u << lane) - 1));
      int64_t* cell = l.cells + segment * l.n_lists + mine;
      const int64_t before = counts ? *cell : 0;
      if constexpr (write)
        if (counts) l.entries[l.starts[mine] + before + rank] = u * p.n_slots + base + lane;
      __syncwarp();
      if (counts && rank == 0) *cell = before + __popc(same);
      __syncwarp();
    }
    if constexpr (write)
      if (l.marks && lane < mark_words) l.marks[(u * p.heads + head) * mark_words + lane] = marked;
  }
}

// Starts of the segments' entries in a list, from their numbers; the list's length goes to
// `starts`. Thread: a list; reads and writes 8 bytes for every segment, neighbours side by side;
// bound by memory.
static __global__ void __launch_bounds__(block_threads) nsa_place_segments(VisitorLists l) {
  const int64_t list = thread_number();
  if (list >= l.n_lists) return;
  int64_t length = 0;
  for (int64_t segment = 0; segment < l.n_segments; ++segment) {
    int64_t& cell = l.cells[segment * l.n_lists + list];
    const int64_t more = cell;
    cell = length;
    length += more;
  }
  l.starts[list] = length;
}

// Lengths of the lists become their starts. One block of 1024 threads; shared memory: 256 bytes.
// Reads the lengths twice and writes the starts; bound by latency, as one multiprocessor works
// alone.
static __global__ void __launch_bounds__(scan_threads) nsa_scan_lists(VisitorLists l) {
  scan(
      l.n_lists, [&](int64_t i) { return l.starts[i]; },
      [&](int64_t i, int64_t start) { l.starts[i] = start; });
}

inline void make_lists(const Pattern& p, const VisitorLists& l, cudaStream_t stream) {
  if (!p.selected) return;
  const int64_t threads = l.n_segments * p.heads * warp_lanes;
  set_zero(l.cells, l.n_segments * l.n_lists, stream);
  launch_threads(threads, stream, nsa_list_visitors<false>, p, l, p.n_units());
  launch_threads(l.n_lists, stream, nsa_place_segments, l);
  launch(nsa_scan_lists, dim3(1), dim3(scan_threads), scan_bytes, stream, l);
  launch_threads(threads, stream, nsa_list_visitors<true>, p, l, p.n_units());
}

// A chunk of a list, and the block whose list it is.
struct VisitorChunk {
  int head = 0;
  TokenPiece keys{};
  int64_t first = 0, n = 0;  // entries, from l.entries or from the first query of the sequence
};

// Visitors of a block where positions decide.
__device__ inline Range visitors_of(const Pattern& p, const TokenPiece& keys) {
  const int64_t from = p.keys.first(keys.sequence);
  return p.visitors({keys.first - from, keys.end - from}, p.queries.size(keys.sequence));
}

// Chunk of visitors by its number. Where positions decide, the visitors among the queries of a
// slice are cut into as many chunks as all of them would be, some of which may be empty.
__device__ inline VisitorChunk chunk_of(const Pattern& p, const VisitorLists& l, int64_t number,
                                        Range slice = {0, INT64_MAX}) {
  int64_t list;
  if (l.chunks_per_list) {
    list = unsigned(number) / unsigned(l.chunks_per_list);
  } else {
    int64_t low = 0, high = l.n_lists;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (l.first_chunk(middle) <= number) low = middle;
      else high = middle;
    }
    list = low;
  }
  VisitorChunk c;
  c.head = int(list / l.n_blocks);
  c.keys = p.block_of(list % l.n_blocks);
  if (c.keys.size() <= 0) return c;
  const int64_t j = number - l.first_chunk(list);
  if (p.selected) {
    c.first = l.starts[list] + j * l.chunk;
    c.n = min(l.starts[list + 1] - c.first, l.chunk);
    return c;
  }
  Range some = visitors_of(p, c.keys);
  const unsigned n = l.n_chunks_of(some.end - some.first);
  if (j >= n) return c;
  const int64_t from = p.queries.first(c.keys.sequence);
  some = {max(some.first, slice.first - from), min(some.end, slice.end - from)};
  const int64_t length = l.length_of(unsigned(max(some.end - some.first, int64_t(0))), n);
  c.first = some.first + j * length;
  c.n = max(min(some.end - c.first, length), int64_t(0));
  return c;
}

// Cut a chunk of a list of selections to the entries whose queries are in a slice of whole units;
// they are in the order of queries.
__device__ inline void cut(VisitorChunk& chunk, const Pattern& p, const VisitorLists& l,
                           const Range& slice) {
  const auto from = [&](int64_t query) {
    int64_t low = chunk.first, high = chunk.first + chunk.n;
    if (query <= 0) return low;
    if (query >= p.queries.n_tokens) return high;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (p.unit_of(l.entries[middle] / p.n_slots).first < query) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const int64_t first = from(slice.first), end = from(slice.end);
  chunk.first = first;
  chunk.n = end - first;
}

// Number of chunks of the list of a block that has keys.
__device__ inline int64_t n_chunks_of(const Pattern& p, const VisitorLists& l, int64_t list) {
  if (p.selected) return (l.starts[list + 1] - l.starts[list] + l.chunk - 1) / l.chunk;
  const Range all = visitors_of(p, p.block_of(list % l.n_blocks));
  return l.n_chunks_of(all.end - all.first);
}

}  // namespace gnograd

// SPDX-License-Identifier: MIT
// The passes of sparse attention on the host's side, and its four faces for any pattern.
#pragma once
#include "device/call.cuh"
#include "nsa_fragment_forward.cuh"
#include "nsa_fragment_gradients.cuh"
#include "nsa_fragment_visits.cuh"
#include "nsa_gradients.cuh"
#include "nsa_visits.cuh"

namespace gnograd {

// Arrays of a call, each or null.
template <class T, class S>
struct NsaInputs {
  Input<T, S> q, k, v, gate = {};
  Input<real<T>, S> positions_q = {}, positions_k = {}, slope = {};
};
template <class T>
struct NsaGradients {
  T *q, *k, *v, *gate;
  real<T>*positions_q = nullptr, *positions_k = nullptr, *slope = nullptr;
};

template <int bytes>
bool aligned_to(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

// Tiles of at most so many rows.
template <class Operation>
void fit_tiles(Operation& operation, int64_t most_rows) {
  auto& p = operation.problem;
  p.rows = int(std::min<int64_t>(most_side, most_rows));
  p.keys = std::min(most_side, p.pattern.block);
  shrink_tiles(p.rows, p.keys, [&] { return operation.shared_memory(); });
}
// Tiles of queries that see the same blocks.
template <class Operation>
void fit_query_tiles(Operation& operation) {
  Pattern& pattern = operation.problem.pattern;
  const int64_t shared = std::min<int64_t>(pattern.unit, most_block) * pattern.group;
  fit_tiles(operation, pattern.selected ? shared : INT64_MAX);
  if (!pattern.selected) pattern.unit = operation.problem.rows / operation.problem.heads();
}

struct NsaSizes {
  Pattern pattern;
  int64_t d_k, d_v;
  double scale;
  int64_t d = 0;  // coordinates of the points whose distances are a bias, 0: there is none

  bool valid() const {
    const Pattern& p = pattern;
    return p.heads >= 1 && p.group >= 1 && d_k >= 1 && d_k <= most_features && d_v >= 1 &&
           d_v <= most_features && p.block >= 1 && p.block <= most_block && p.unit >= 1 &&
           p.stride >= 1 && p.window >= 0 && p.ball >= 0 && d >= 0 && d <= most_dimensions;
  }
};

// Rows before keys: the keys of a block stay.
template <class T, class S>
void fit_tiles(NsaVisitForward<T, S>& operation) {
  auto& p = operation.problem;
  p.rows = most_side;
  p.keys = std::min(most_side, p.pattern.block);
  shrink_tiles(p.keys, p.rows, [&] { return operation.shared_memory(); });
  operation.records.parts = p.block_parts();
}

// Bytes of the records of a query: for out, or for lse alone, and for grad q.
template <class T, class S>
int64_t forward_record_bytes(const NsaVisitForward<T, S>& visits, bool values_wanted) {
  const auto& p = visits.problem;
  const int64_t values = values_wanted ? p.d_v * int64_t(sizeof(S)) : 0;
  return p.pattern.query_heads() * p.pattern.n_slots * visits.records.parts *
         (values + int64_t(sizeof(SoftmaxSum<S>)));
}
template <class T, class S>
int64_t forward_record_bytes(const NsaProblem<T, S>& p, bool values_wanted = true) {
  NsaVisitForward<T, S> visits{p, {}, nullptr, {}};
  fit_tiles(visits);
  return forward_record_bytes(visits, values_wanted);
}
template <class T, class S>
int64_t gradient_record_bytes(const NsaKeyGradient<T, S>& pull) {
  const auto& p = pull.problem;
  return p.pattern.query_heads() * p.pattern.n_slots * pull.parts() * p.d_k * int64_t(sizeof(S));
}
template <class T, class S>
int64_t gradient_record_bytes(const NsaProblem<T, S>& p) {
  NsaKeyGradient<T, S> pull{p, {}, nullptr, {}, nullptr, nullptr};
  fit_tiles(pull, INT64_MAX);
  return gradient_record_bytes(pull);
}

// Room for the records of a slice: of all queries if that is little, in the form that takes the
// problem unless its arrays are not aligned, and of one unit at least in any form.
inline RecordSpace take_records(const Pattern& p, int64_t per_query, int64_t most_per_query,
                                Workspace& workspace) {
  if (!keys_first(p)) return {};
  const int64_t all = std::min(per_query * p.queries.n_tokens, record_bytes);
  const int64_t bytes = std::max(all, most_per_query * p.unit);
  return {workspace.take<char>(bytes), bytes};
}

// Out and lse, with rows or keys first; `space` is for the records of visits.
template <class T, class S>
struct NsaForwardPass {
  NsaForward<T, S> attend;
  NsaVisitForward<T, S> visits;
  RecordSpace space;
  RowFlags redo;  // from forms with sums in registers: rows whose values are not finite

  NsaForwardPass(const NsaForward<T, S>& operation, const VisitorLists& lists,
                 const RecordSpace& space, Workspace& workspace)
      : attend(operation), visits{attend.problem, lists, attend.known_lse, {}}, space(space) {
    const Pattern& p = operation.problem.pattern;
    if (fits_fragments(operation.problem)) {
      Pattern units = p;
      redo.rows_of_unit = cut_units(units) * fragment_rows;
      redo.lanes = warp_lanes / fragment_rows;
      if (keys_first(p)) {
        redo.rows_of_unit = p.unit * p.group;
        redo.lanes = operation.problem.d_v / width<T>;
      }
      redo.found = workspace.take<int>(redo.size(units));
    }
    fit_query_tiles(attend);
    if (keys_first(p)) fit_tiles(visits);
  }
  void run(cudaStream_t stream) const {
    // lse alone is for dual numbers: in float32 it has the roundings of their products, which
    // cancel
    if constexpr (has_fragments<T, S>)
      if (redo.found && attend.problem.wide && (sizeof(T) == 2 || attend.values_wanted()) &&
          run_on_fragments(stream))
        return;
    const auto& p = attend.problem;
    if (!keys_first(p.pattern)) {
      launch_operation(attend, attend.n_blocks(), stream);
      return;
    }
    NsaForward<T, S> join = attend;
    join.problem = visits.problem;
    const bool values_wanted = attend.values_wanted();
    const int64_t per_query = forward_record_bytes(visits, values_wanted);
    for_slices(p.pattern, space, per_query, [&](const Range& slice) {
      NsaVisitForward<T, S> some = visits;
      auto& records = some.records;
      const int64_t rows = (slice.end - slice.first) * p.pattern.query_heads();
      records.slice = slice;
      records.sums = reinterpret_cast<SoftmaxSum<S>*>(space.memory);
      if (values_wanted)
        records.values =
            reinterpret_cast<S*>(records.sums + rows * p.pattern.n_slots * records.parts);
      launch_operation(some, some.lists.n_chunks * records.parts, stream);
      launch_threads(rows * warp_lanes, stream, nsa_join_visits<T, S>, join, records);
    });
  }
  // Run with sums in registers; false if that is not possible.
  bool run_on_fragments(cudaStream_t stream) const {
    const auto& p = attend.problem;
    if (!keys_first(p.pattern)) {
      if (!aligned_to<2 * sizeof(T)>(attend.out)) return false;
      forward_on_fragments(attend, redo.found, stream);
    } else {
      if (!attend.out || attend.saved.delta || !aligned_to<16>(attend.out) ||
          !visits_fit<T>(p.d_k, p.d_v))
        return false;
      forward_on_visits(attend, visits.lists, space, redo, stream);
    }
    if (!attend.values_wanted()) return true;
    NsaForward<T, S> again = attend;
    again.only = redo;
    cut_units(again.problem.pattern);
    launch_operation(again, again.n_blocks(), stream);
    return true;
  }
};

// The kernels of the gradients, with what they work in.
template <class T, class S>
struct NsaGradientPass {
  NsaQueryGradient<T, S> queries;
  NsaKeyGradient<T, S> keys;
  NsaGradients<T> grad;
  S* positions_k = nullptr;  // gradients by head [keys, heads, d]
  FoldSpace<S> slopes;
  NsaFragmentSpace<T> fragments;
  RecordSpace space;

  // `space` is for the records of visits; gates are summed over a row's heads, rows first
  NsaGradientPass(const NsaProblem<T, S>& problem, const T* g, const RowStatistics<const S>& known,
                  const NsaGradients<T>& grad, const VisitorLists& lists,
                  const NsaFragmentSpace<T>& fragments, const RecordSpace& space,
                  Workspace& workspace)
      : queries{problem, g, known, grad.q, nullptr, nullptr},
        keys{problem, lists, g, known, nullptr, nullptr},
        grad(grad),
        fragments(fragments),
        space(space) {
    const Pattern& p = problem.pattern;
    fit_query_tiles(queries);
    fit_tiles(keys, INT64_MAX);
    queries.grad_gate = workspace.take<S>(queries.problem.head_parts() * problem.n_gates());
    keys.sums = workspace.take<S>(keys.lists.n_chunks * p.block * keys.width());
    const int d = problem.bias.d;
    if (d) {
      queries.of_bias = workspace.take<S>(p.rows() * (d + 1));
      positions_k = workspace.take<S>(p.keys.n_tokens * p.heads * d);
      slopes = FoldSpace<S>(p.queries.n_tokens, p.query_heads(), workspace);
    }
    if (!grad.positions_q && !grad.slope) queries.of_bias = nullptr;
    if (!grad.gate) queries.grad_gate = nullptr;
    if (grad.q && !grad.gate && keys_first(p)) keys.grad_q = reinterpret_cast<S*>(space.memory);
  }

  void run(cudaStream_t stream) const {
    if constexpr (has_fragments<T, S>)
      if (const auto& p = keys.problem; fragments && p.wide && !p.gate && aligned_to<16>(grad.q)) {
        gradients_on_fragments(keys, fragments, grad.q, stream);
        if (grad.k || grad.v) join_keys(stream);
        return;
      }
    if (grad.gate || (grad.q && !keys.grad_q) || queries.of_bias) pull_queries(stream);
    if (grad.k || grad.v || keys.grad_q || grad.positions_k) pull_keys(stream);
  }
  void pull_queries(cudaStream_t stream) const {
    const auto& p = queries.problem;
    const int64_t n = p.n_gates(), parts = p.head_parts();
    if (grad.gate) set_zero(queries.grad_gate, parts * n, stream);
    launch_operation(queries, p.n_tiles(), stream);
    if (grad.gate)
      launch_threads(n, stream, nsa_join_gates<T, S>, n, int(parts), queries.grad_gate, grad.gate);
    const int64_t tokens = p.pattern.queries.n_tokens, heads = p.pattern.query_heads();
    const int d = p.bias.d;
    if (grad.positions_q)
      launch_threads(tokens * d, stream, nsa_join_positions<real<T>, S>, tokens, int(heads), d,
                     d + 1, queries.of_bias, grad.positions_q);
    if (grad.slope)
      sum_rows(SlopeSums<S>{queries.of_bias, heads, d}, tokens, heads, slopes, grad.slope, stream);
  }
  void pull_keys(cudaStream_t stream) const {
    const auto& p = keys.problem;
    if (!keys.grad_q) launch_operation(keys, keys.lists.n_chunks * keys.parts(), stream);
    else pull_slices(stream);
    join_keys(stream);
    const int64_t tokens = p.pattern.keys.n_tokens, heads = p.pattern.heads;
    const int d = p.bias.d;
    if (grad.positions_k)
      launch_threads(tokens * d, stream, nsa_join_positions<real<T>, S>, tokens, int(heads), d, d,
                     positions_k, grad.positions_k);
  }
  void pull_slices(cudaStream_t stream) const {
    const Pattern& p = keys.problem.pattern;
    for_slices(p, space, gradient_record_bytes(keys), [&](const Range& slice) {
      NsaKeyGradient<T, S> some = keys;
      some.slice = slice;
      launch_operation(some, keys.lists.n_chunks * keys.parts(), stream);
      launch_threads((slice.end - slice.first) * p.query_heads() * warp_lanes, stream,
                     nsa_join_query_gradients<T, S>, keys.problem,
                     VisitRecords<S>{nullptr, keys.grad_q, keys.parts(), slice}, grad.q);
    });
  }
  void join_keys(cudaStream_t stream) const {
    const auto& p = keys.problem;
    const int64_t n = p.pattern.keys.n_tokens * p.pattern.heads * keys.width();
    S* const positions = grad.positions_k ? positions_k : nullptr;
    if (!p.bias && p.d_k % 4 == 0 && p.d_v % 4 == 0)
      launch_threads(n / 4, stream, nsa_join_chunks<4, T, S>, p.pattern, keys.lists, p.d_k, p.d_v,
                     0, keys.sums, grad.k, grad.v, positions);
    else
      launch_threads(n, stream, nsa_join_chunks<1, T, S>, p.pattern, keys.lists, p.d_k, p.d_v,
                     p.bias.d, keys.sums, grad.k, grad.v, positions);
  }
};

template <class T>
struct SparseAttention {
  using R = real<T>;
  using D = Dual<R>;
  template <class S>
  using Inputs = NsaInputs<T, S>;
  using Gradients = NsaGradients<T>;

  NsaSizes sizes;
  Workspace& workspace;
  cudaStream_t stream;

  SparseAttention(const NsaSizes& sizes, Call& call)
      : sizes(sizes), workspace(call.workspace), stream(call.stream) {}

  int64_t n_rows() const { return sizes.pattern.rows(); }
  // A bias needs points in some dimensions.
  template <class S>
  bool valid(const Inputs<S>& in) const {
    return sizes.valid() && (!in.slope || sizes.d > 0);
  }

  template <class S>
  NsaProblem<T, S> problem(const Inputs<S>& in, const T* g) const {
    const bool wide = aligned<T>(sizes.d_k, in.q.v, in.k.v, in.q.d, in.k.d) &&
                      aligned<T>(sizes.d_v, in.v.v, in.v.d, g);
    return {sizes.pattern,
            int(sizes.d_k),
            int(sizes.d_v),
            R(sizes.scale),
            in.q,
            in.k,
            in.v,
            in.gate,
            wide,
            1,
            1,
            {in.positions_q, in.positions_k, in.slope, sizes.pattern.query_heads(), int(sizes.d)}};
  }

  // Lists of visitors, where they are needed for more than gradients to keys.
  VisitorLists take_lists() {
    return keys_first(sizes.pattern) ? gnograd::take_lists(sizes.pattern, workspace)
                                     : VisitorLists();
  }
  void make_lists(const VisitorLists& lists) const {
    if (keys_first(sizes.pattern)) gnograd::make_lists(sizes.pattern, lists, stream);
  }
  // lse alone
  NsaForwardPass<T, R> only_lse(const Inputs<D>& in, R* lse, const VisitorLists& lists,
                                const RecordSpace& space) {
    const Inputs<R> values{{in.q.v},           {in.k.v},           {in.v.v},    {in.gate.v},
                           {in.positions_q.v}, {in.positions_k.v}, {in.slope.v}};
    return {{problem(values, nullptr), nullptr, nullptr, nullptr, nullptr, lse, {}, {}},
            lists,
            space,
            workspace};
  }

  int evaluate(const Inputs<R>& in, T* out, R* lse, const SplitLse<R>& split = {}) {
    if (!valid(in)) return GNOGRAD_CUDA_VALUE;
    const auto p = problem(in, nullptr);
    const VisitorLists lists = take_lists();
    const int64_t any = forward_record_bytes(p);
    const bool on_fragments = fits_fragments(p) && visits_fit<T>(p.d_k, p.d_v);
    const int64_t usual = on_fragments ? fragment_record_bytes<T>(p.pattern, p.d_v) : any;
    const RecordSpace space = take_records(p.pattern, usual, any, workspace);
    const NsaForwardPass<T, R> attend({p, nullptr, nullptr, nullptr, out, lse, {}, split}, lists,
                                      space, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (n_rows() == 0) return 0;
    make_lists(lists);
    attend.run(stream);
    return cudaGetLastError();
  }

  int evaluate(const Inputs<D>& in, T* t_out, R* t_lse) {
    if (!valid(in)) return GNOGRAD_CUDA_VALUE;
    const auto p = problem(in, nullptr);
    const VisitorLists lists = take_lists();
    const int64_t per_query = forward_record_bytes(p);  // more than those for lse
    const RecordSpace space = take_records(p.pattern, per_query, per_query, workspace);
    R* lse = workspace.take<R>(n_rows());
    const auto first = only_lse(in, lse, lists, space);
    const NsaForwardPass<T, D> attend({p, lse, nullptr, nullptr, t_out, t_lse, {}, {}}, lists,
                                      space, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (n_rows() == 0) return 0;
    make_lists(lists);
    first.run(stream);
    attend.run(stream);
    return cudaGetLastError();
  }

  // out and lse may come from the forward pass; null: computed here
  int reverse(const T* g, const R* g_lse, const Inputs<R>& in, const T* out, const R* lse,
              const Gradients& grad) {
    if (!valid(in)) return GNOGRAD_CUDA_VALUE;
    const RowStatistics<R> known{workspace.take<R>(n_rows()), workspace.take<R>(n_rows())};
    const bool saved = out && lse;
    const auto p = problem(in, g);
    const VisitorLists lists = gnograd::take_lists(p.pattern, workspace);
    const int64_t any = std::max(forward_record_bytes(p), gradient_record_bytes(p));
    NsaFragmentSpace<T> fragments;
    RecordSpace space;
    if (fits_fragments(p) && gradient_fits<T>(p.d_k, p.d_v)) {
      fragments.take(p.pattern, p.d_k, any * p.pattern.unit, workspace);
      space = {reinterpret_cast<char*>(fragments.records), fragments.bytes};
    } else {
      space = take_records(p.pattern, any, any, workspace);
    }
    const NsaForwardPass<T, R> attend({p, nullptr, g, g_lse, nullptr, nullptr, known, {}}, lists,
                                      space, workspace);
    const NsaGradientPass<T, R> pull(p, g, {saved ? lse : known.lse, known.delta}, grad, lists,
                                     fragments, space, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    gnograd::make_lists(p.pattern, lists, stream);
    if (saved)
      launch_threads(n_rows() * delta_lanes, stream, nsa_delta_of_out<T>, n_rows(), p.d_v,
                     aligned<T>(sizes.d_v, g, out), g, g_lse, out, known.delta);
    else attend.run(stream);
    pull.run(stream);
    return cudaGetLastError();
  }

  int reverse(const T* g, const R* g_lse, const Inputs<D>& in, const T*, const R*,
              const Gradients& grad) {
    if (!valid(in)) return GNOGRAD_CUDA_VALUE;
    R* lse = workspace.take<R>(n_rows());
    const RowStatistics<D> known{workspace.take<D>(n_rows()), workspace.take<D>(n_rows())};
    const auto p = problem(in, g);
    const VisitorLists lists = gnograd::take_lists(p.pattern, workspace);
    const int64_t per_query = std::max(forward_record_bytes(p), gradient_record_bytes(p));
    const RecordSpace space = take_records(p.pattern, per_query, per_query, workspace);
    const auto first = only_lse(in, lse, lists, space);
    const NsaForwardPass<T, D> attend({p, lse, g, g_lse, nullptr, nullptr, known, {}}, lists,
                                      space, workspace);
    const NsaGradientPass<T, D> pull(p, g, {known.lse, known.delta}, grad, lists, {}, space,
                                     workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    gnograd::make_lists(p.pattern, lists, stream);
    first.run(stream);
    attend.run(stream);
    pull.run(stream);
    return cudaGetLastError();
  }

  // lse of the forward pass in two parts
  int reverse(const T* g, const Inputs<R>& in, const T* out, const SplitLse<const R>& split,
              const Gradients& grad) {
    if (!valid(in)) return GNOGRAD_CUDA_VALUE;
    R* lse = workspace.take<R>(n_rows());
    if (workspace.sufficient())
      launch_threads(n_rows(), stream, nsa_join_lse<R>, n_rows(), split, lse);
    return reverse(g, nullptr, in, out, lse, grad);
  }
};

}  // namespace gnograd

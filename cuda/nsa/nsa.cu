// SPDX-License-Identifier: MIT
// Native sparse attention: the four faces of selected, compressed and window attention, and
// selected attention as Ascend's operators have it.
#include "device/face.cuh"
#include "gnograd_cuda.h"
#include "nsa_visits.cuh"

namespace gnograd {
namespace {

// The C interface's arrays, each or null.
struct Inputs {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *gate = nullptr;
};
struct Gradients {
  void *q = nullptr, *k = nullptr, *v = nullptr, *gate = nullptr;
};

// Tiles of at most so many rows.
template <class Operation>
void fit_tiles(Operation& operation, int64_t most_rows) {
  auto& p = operation.problem;
  p.rows = int(std::min<int64_t>(most_side, most_rows));
  p.keys = std::min(most_side, p.pattern.block);
  shrink_tiles(p.rows, p.keys, [&] { return operation.shared_memory(); });
}
// Of queries that see the same blocks.
template <class Operation>
void fit_query_tiles(Operation& operation) {
  Pattern& pattern = operation.problem.pattern;
  const int64_t shared = std::min<int64_t>(pattern.unit, most_block) * pattern.group;
  fit_tiles(operation, pattern.selected ? shared : INT64_MAX);
  if (!pattern.selected) pattern.unit = operation.problem.rows / operation.problem.heads();
}

struct Shape {
  Pattern pattern;
  int64_t d_k, d_v;
  double scale;

  bool valid() const {
    const Pattern& p = pattern;
    return p.heads >= 1 && p.group >= 1 && d_k >= 1 && d_k <= most_features && d_v >= 1 &&
           d_v <= most_features && p.block >= 1 && p.block <= most_block && p.unit >= 1 &&
           p.stride >= 1 && p.window >= 0 && p.ball >= 0;
  }
};

// Rows before keys: the keys of a block stay.
template <class T, class S>
void fit_tiles(AttendVisits<T, S>& operation) {
  auto& p = operation.problem;
  p.rows = most_side;
  p.keys = std::min(most_side, p.pattern.block);
  shrink_tiles(p.keys, p.rows, [&] { return operation.shared_memory(); });
  operation.records.parts = p.block_parts();
}

// Numbers that the records of visits take: for out and for grad q, not at once.
template <class T, class S>
int64_t record_size(const Problem<T, S>& p) {
  if (!keys_first(p.pattern)) return 0;
  AttendVisits<T, S> attend{p, {}, nullptr, {}};
  PullKeys<T, S> pull{p, {}, nullptr, {}, nullptr, nullptr};
  fit_tiles(attend);
  fit_tiles(pull, INT64_MAX);
  return p.n_visits() * std::max(attend.records.parts * p.d_v, pull.parts() * p.d_k);
}

// Out and lse, with rows or keys first. `values` has room for the records of visits.
template <class T, class S>
struct Forward {
  Attend<T, S> attend;
  AttendVisits<T, S> visits;

  Forward(const Attend<T, S>& operation, const Lists& lists, S* values, Workspace& workspace)
      : attend(operation), visits{attend.problem, lists, attend.known_lse, {}} {
    if (!keys_first(attend.problem.pattern)) {
      fit_query_tiles(attend);
      return;
    }
    fit_tiles(visits);
    attend.problem = visits.problem;
    auto& records = visits.records;
    records.sums = workspace.take<SoftmaxSum<S>>(attend.problem.n_visits() * records.parts);
    if (attend.values_wanted()) records.values = values;
  }
  void run(cudaStream_t stream) const {
    const auto& p = attend.problem;
    if (!keys_first(p.pattern)) {
      launch_operation(attend, p.n_tiles(), stream);
      return;
    }
    launch_operation(visits, visits.lists.n_chunks * visits.records.parts, stream);
    launch_threads(p.pattern.rows() * warp_lanes, stream, join_visits<T, S>, attend,
                   visits.records);
  }
};

// The kernels of the gradients, with what they work in.
template <class T, class S>
struct Pull {
  PullQueries<T, S> queries;
  PullKeys<T, S> keys;
  Gradients grad;

  // `values` has room for the records of visits; gates are summed over a row's heads, rows first
  Pull(const Problem<T, S>& problem, const T* g, const Statistics<const S>& known,
       const Gradients& grad, const Lists& lists, S* values, Workspace& workspace)
      : queries{problem, g, known, static_cast<T*>(grad.q), nullptr},
        keys{problem, lists, g, known, nullptr, nullptr},
        grad(grad) {
    const Pattern& p = problem.pattern;
    fit_query_tiles(queries);
    fit_tiles(keys, INT64_MAX);
    queries.grad_gate = workspace.take<S>(queries.problem.head_parts() * problem.n_gates());
    keys.sums = workspace.take<S>(keys.lists.n_chunks * p.block * (problem.d_k + problem.d_v));
    if (!grad.gate) queries.grad_gate = nullptr;
    if (grad.q && !grad.gate && keys_first(p)) keys.grad_q = values;
  }

  void run(cudaStream_t stream) const {
    if (grad.gate || (grad.q && !keys.grad_q)) pull_queries(stream);
    if (grad.k || grad.v || keys.grad_q) pull_keys(stream);
  }
  void pull_queries(cudaStream_t stream) const {
    const auto& p = queries.problem;
    const int64_t n = p.n_gates(), parts = p.head_parts();
    if (grad.gate) set_zero(queries.grad_gate, parts * n, stream);
    launch_operation(queries, p.n_tiles(), stream);
    if (grad.gate)
      launch_threads(n, stream, join_gates<T, S>, n, int(parts), queries.grad_gate,
                     static_cast<T*>(grad.gate));
  }
  void pull_keys(cudaStream_t stream) const {
    const auto& p = keys.problem;
    launch_operation(keys, keys.lists.n_chunks * keys.parts(), stream);
    launch_threads(p.pattern.keys.n_tokens * p.pattern.heads * (p.d_k + p.d_v), stream,
                   join_chunks<T, S>, p.pattern, keys.lists, p.d_k, p.d_v, keys.sums,
                   static_cast<T*>(grad.k), static_cast<T*>(grad.v));
    if (keys.grad_q)
      launch_threads(p.pattern.rows() * warp_lanes, stream, join_gradients<T, S>, p,
                     VisitRecords<S>{nullptr, keys.grad_q, keys.parts()}, static_cast<T*>(grad.q));
  }
};

template <class T>
struct Attention {
  using R = real<T>;
  using D = Dual<R>;

  Shape shape;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  int64_t n_rows() const { return shape.pattern.rows(); }

  template <class S>
  Problem<T, S> problem(const Inputs& in, const Inputs& tangents, const void* g) const {
    const auto input = make_input<T, S>;
    const bool wide = aligned<T>(shape.d_k, in.q, in.k, tangents.q, tangents.k) &&
                      aligned<T>(shape.d_v, in.v, tangents.v, g);
    return {shape.pattern,
            int(shape.d_k),
            int(shape.d_v),
            R(shape.scale),
            input(in.q, tangents.q),
            input(in.k, tangents.k),
            input(in.v, tangents.v),
            input(in.gate, tangents.gate),
            wide,
            1,
            1};
  }

  // Lists of visitors, where they are needed for more than gradients to keys.
  Lists take_lists() {
    return keys_first(shape.pattern) ? gnograd::take_lists(shape.pattern, workspace) : Lists();
  }
  void make_lists(const Lists& lists) const {
    if (keys_first(shape.pattern)) gnograd::make_lists(shape.pattern, lists, stream);
  }
  // lse alone
  Forward<T, R> only_lse(const Inputs& in, R* lse, const Lists& lists) {
    return {{problem<R>(in, {}, nullptr), nullptr, nullptr, nullptr, nullptr, lse, {}, {}},
            lists,
            nullptr,
            workspace};
  }

  int forward(const Inputs& in, void* out, void* lse, void* softmax_max = nullptr,
              void* softmax_sum = nullptr) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    const auto p = problem<R>(in, {}, nullptr);
    const Lists lists = take_lists();
    R* values = workspace.take<R>(record_size(p));
    const Forward<T, R> attend({p,
                                nullptr,
                                nullptr,
                                nullptr,
                                static_cast<T*>(out),
                                static_cast<R*>(lse),
                                {},
                                {static_cast<R*>(softmax_max), static_cast<R*>(softmax_sum)}},
                               lists, values, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (n_rows() == 0) return 0;
    make_lists(lists);
    attend.run(stream);
    return cudaGetLastError();
  }

  int jvp(const Inputs& in, const Inputs& tangents, void* out_tangent, void* lse_tangent) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    const auto p = problem<D>(in, tangents, nullptr);
    const Lists lists = take_lists();
    D* values = workspace.take<D>(record_size(p));
    R* lse = workspace.take<R>(n_rows());
    const auto first = only_lse(in, lse, lists);
    const Forward<T, D> attend({p,
                                lse,
                                nullptr,
                                nullptr,
                                static_cast<T*>(out_tangent),
                                static_cast<R*>(lse_tangent),
                                {},
                                {}},
                               lists, values, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    if (n_rows() == 0) return 0;
    make_lists(lists);
    first.run(stream);
    attend.run(stream);
    return cudaGetLastError();
  }

  // out and lse may come from the forward pass; null: computed here
  int vjp(const void* cotangent, const void* lse_cotangent, const Inputs& in, const void* out,
          const void* lse, const Gradients& grad) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    const auto* g = static_cast<const T*>(cotangent);
    const auto* lse_g = static_cast<const R*>(lse_cotangent);
    const Statistics<R> known{workspace.take<R>(n_rows()), workspace.take<R>(n_rows())};
    const bool saved = out && lse;
    const auto p = problem<R>(in, {}, g);
    const Lists lists = gnograd::take_lists(p.pattern, workspace);
    R* values = workspace.take<R>(record_size(p));
    const Forward<T, R> attend({p, nullptr, g, lse_g, nullptr, nullptr, known, {}}, lists, values,
                               workspace);
    const Pull<T, R> pull(p, g, {saved ? static_cast<const R*>(lse) : known.lse, known.delta}, grad,
                          lists, values, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    gnograd::make_lists(p.pattern, lists, stream);
    if (saved)
      launch_threads(n_rows() * warp_lanes, stream, project<T>, n_rows(), p.d_v, g, lse_g,
                     static_cast<const T*>(out), known.delta);
    else attend.run(stream);
    pull.run(stream);
    return cudaGetLastError();
  }

  int hvp(const void* cotangent, const void* lse_cotangent, const Inputs& in,
          const Inputs& tangents, const Gradients& grad) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    const auto* g = static_cast<const T*>(cotangent);
    R* lse = workspace.take<R>(n_rows());
    const Statistics<D> known{workspace.take<D>(n_rows()), workspace.take<D>(n_rows())};
    const auto p = problem<D>(in, tangents, g);
    const Lists lists = gnograd::take_lists(p.pattern, workspace);
    D* values = workspace.take<D>(record_size(p));
    const auto first = only_lse(in, lse, lists);
    const Forward<T, D> attend(
        {p, lse, g, static_cast<const R*>(lse_cotangent), nullptr, nullptr, known, {}}, lists,
        values, workspace);
    const Pull<T, D> pull(p, g, {known.lse, known.delta}, grad, lists, values, workspace);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    gnograd::make_lists(p.pattern, lists, stream);
    first.run(stream);
    attend.run(stream);
    pull.run(stream);
    return cudaGetLastError();
  }

  // lse of the forward pass in two parts
  int vjp_of_softmax(const void* cotangent, const Inputs& in, const void* out, const void* max,
                     const void* sum, const Gradients& grad) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    R* lse = workspace.take<R>(n_rows());
    if (workspace.sufficient())
      launch_threads(n_rows(), stream, join_softmax<R>, n_rows(),
                     Softmax<const R>{static_cast<const R*>(max), static_cast<const R*>(sum)}, lse);
    return vjp(cotangent, nullptr, in, out, lse, grad);
  }

  // A face that has no memory to work in only counts what it needs.
  // Without records it needs none, and with none it would run.
  size_t forward_bytes() {
    return keys_first(shape.pattern) ? (forward({}, nullptr, nullptr), workspace.bytes()) : 0;
  }
  size_t vjp_bytes() {
    return vjp(nullptr, nullptr, {}, nullptr, nullptr, {}), workspace.bytes();
  }
  size_t jvp_bytes() { return jvp({}, {}, nullptr, nullptr), workspace.bytes(); }
  size_t hvp_bytes() { return hvp(nullptr, nullptr, {}, {}, {}), workspace.bytes(); }
  size_t vjp_of_softmax_bytes() {
    return vjp_of_softmax(nullptr, {}, nullptr, nullptr, nullptr, {}), workspace.bytes();
  }
};

// First query in error of every 32 units and heads, or the largest number; and then of all.
constexpr int64_t no_query = INT64_MAX;
struct Faults {
  int64_t out_of_range = no_query, named_twice = no_query;
  __device__ void add(const Faults& more) {
    out_of_range = min(out_of_range, more.out_of_range);
    named_twice = min(named_twice, more.named_twice);
  }
};
__global__ void __launch_bounds__(block_threads)
    find_faults(Pattern p, int64_t n, Faults* faults) {
  const int64_t first = thread_number() * warp_lanes, end = min(first + warp_lanes, n);
  if (first >= n) return;
  Faults found;
  for (int64_t i = first; i < end; ++i) {
    const Piece unit = p.unit_of(i / p.heads);
    if (unit.size() <= 0) continue;
    const int32_t* slots = p.slots(unit, int(i % p.heads));
    for (int64_t slot = 0; slot < p.n_slots; ++slot) {
      const int64_t b = slots[slot];
      if (b == -1) continue;
      if (b < 0 || b >= p.n_blocks(unit.sequence))
        found.out_of_range = min(found.out_of_range, unit.first);
      else if (p.named_before(slots, slot)) found.named_twice = min(found.named_twice, unit.first);
    }
  }
  faults[thread_number()] = found;
}
__global__ void __launch_bounds__(block_threads)
    first_faults(const Faults* faults, int64_t n, int64_t* first) {
  Faults found;
  for (int64_t i = thread_number(); i < n; i += warp_lanes) found.add(faults[i]);
  for (int d = warp_lanes / 2; d > 0; d /= 2)
    found.add({__shfl_xor_sync(~0u, found.out_of_range, d),
               __shfl_xor_sync(~0u, found.named_twice, d)});
  if (threadIdx.x > 0) return;
  first[0] = found.out_of_range == no_query ? -1 : found.out_of_range;
  first[1] = found.named_twice == no_query ? -1 : found.named_twice;
}

// Blocks that do not exist or are named twice.
struct CheckSelection {
  Shape shape;
  Workspace workspace = {};
  cudaStream_t stream = nullptr;

  int check(int64_t* first) {
    if (!shape.valid()) return GNOGRAD_CUDA_VALUE;
    const Pattern& p = shape.pattern;
    const int64_t n = p.n_units() * p.heads, groups = ceil_div(n, warp_lanes);
    Faults* faults = workspace.take<Faults>(groups);
    if (!workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    launch_threads(groups, stream, find_faults, p, n, faults);
    launch(first_faults, dim3(1), dim3(warp_lanes), 0, stream, faults, groups, first);
    return cudaGetLastError();
  }
  size_t check_bytes() { return check(nullptr), workspace.bytes(); }
};

// ---- the three branches ----

// No sequence is longer, and no sum of these overflows.
constexpr int64_t no_limit = int64_t(1) << 40;

#define HEAD n_queries, n_keys, n_query_heads, n_heads, d_k, d_v
#define SEQUENCES n_queries, n_keys, n_query_heads, n_heads, n_sequences, cu_q, cu_k

#define SELECTED                                                                             \
  (HEAD, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, q_offset, \
   query_block, duplicates)
Shape selected_attention GNOGRAD_CUDA_SELECTED_ATTENTION {
  Pattern p = make_pattern(SEQUENCES, causal, q_offset);
  const bool valid = n_slots >= 0 && duplicates >= duplicates_ignore &&
                     duplicates <= duplicates_count && block_size <= most_block;
  p.block = valid ? int(block_size) : 0;
  p.unit = query_block;
  p.selected = true;
  p.block_index = block_index;
  p.n_slots = n_slots;
  p.repeat = duplicates == duplicates_count;
  return {p, d_k, d_v, scale};
}

#define COMPRESSED (HEAD, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset)
Shape compressed_attention GNOGRAD_CUDA_COMPRESSED_ATTENTION {
  Pattern p = make_pattern(SEQUENCES, causal, q_offset - block + 1);
  p.stride = block >= 1 ? stride : 0;
  return {p, d_k, d_v, scale};
}

#define WINDOW (HEAD, n_sequences, cu_q, cu_k, window, scale, causal, q_offset)
Shape window_attention GNOGRAD_CUDA_WINDOW_ATTENTION {
  Pattern p = make_pattern(SEQUENCES, causal, q_offset);
  (causal ? p.window : p.ball) = std::min(window, no_limit);
  return {p, d_k, d_v, scale};
}

#define ASCEND                                                                  \
  (HEAD, n_sequences, topk_indices, cu_q, cu_k, scale_value, select_block_size, \
   select_block_count, sparse_mode)
Shape nsa_selected_attention GNOGRAD_CUDA_NSA_SELECTED_ATTENTION {
  return selected_attention(HEAD, select_block_count, n_sequences, topk_indices, cu_q, cu_k,
                            select_block_size, scale_value, sparse_mode == 2, 0, 1,
                            duplicates_count);
}

}  // namespace
}  // namespace gnograd

using namespace gnograd;

#define QKV const void *q, const void *k, const void *v
#define TANGENTS const void *q_tangent, const void *k_tangent, const void *v_tangent
#define GRADIENTS void *grad_q, void *grad_k, void *grad_v

#define SELECTED_FACE(face, type, Operator, ...)                                \
  DEFINE_FACE(selected_attention_##face, type, GNOGRAD_CUDA_SELECTED_ATTENTION, \
              Operator{selected_attention SELECTED}, face##_bytes, __VA_ARGS__)
#define COMPRESSED_FACE(face, type, Operator, ...)                                  \
  DEFINE_FACE(compressed_attention_##face, type, GNOGRAD_CUDA_COMPRESSED_ATTENTION, \
              Operator{compressed_attention COMPRESSED}, face##_bytes, __VA_ARGS__)
#define WINDOW_FACE(face, type, Operator, ...)                              \
  DEFINE_FACE(window_attention_##face, type, GNOGRAD_CUDA_WINDOW_ATTENTION, \
              Operator{window_attention WINDOW}, face##_bytes, __VA_ARGS__)

#define SPARSE_ATTENTION(type, T)                                                                  \
  SELECTED_FACE(forward, type, T, forward({q, k, v, gate}, out, lse), QKV,                         \
                const void* gate, void* out, void* lse)                                            \
  SELECTED_FACE(vjp, type, T,                                                                      \
                vjp(cotangent, nullptr, {q, k, v, gate}, out, lse,                                 \
                    {grad_q, grad_k, grad_v, grad_gate}),                                          \
                const void* cotangent, QKV, const void* gate, const void* out, const void* lse,    \
                GRADIENTS, void* grad_gate)                                                        \
  SELECTED_FACE(jvp, type, T,                                                                      \
                jvp({q, k, v, gate}, {q_tangent, k_tangent, v_tangent, gate_tangent}, out_tangent, \
                    nullptr),                                                                      \
                QKV, const void* gate, TANGENTS, const void* gate_tangent, void* out_tangent)      \
  SELECTED_FACE(hvp, type, T,                                                                      \
                hvp(cotangent, nullptr, {q, k, v, gate},                                           \
                    {q_tangent, k_tangent, v_tangent, gate_tangent},                               \
                    {grad_q, grad_k, grad_v, grad_gate}),                                          \
                const void* cotangent, QKV, const void* gate, TANGENTS, const void* gate_tangent,  \
                GRADIENTS, void* grad_gate)                                                        \
  COMPRESSED_FACE(forward, type, T, forward({q, k, v}, out, lse), QKV,                             \
                  void* out, void* lse)                                                            \
  COMPRESSED_FACE(vjp, type, T,                                                                    \
                  vjp(cotangent, lse_cotangent, {q, k, v}, out, lse, {grad_q, grad_k, grad_v}),    \
                  const void* cotangent, const void* lse_cotangent, QKV, const void* out,          \
                  const void* lse, GRADIENTS)                                                      \
  COMPRESSED_FACE(jvp, type, T,                                                                    \
                  jvp({q, k, v}, {q_tangent, k_tangent, v_tangent}, out_tangent, lse_tangent),     \
                  QKV, TANGENTS, void* out_tangent, void* lse_tangent)                             \
  COMPRESSED_FACE(hvp, type, T,                                                                    \
                  hvp(cotangent, lse_cotangent, {q, k, v}, {q_tangent, k_tangent, v_tangent},      \
                      {grad_q, grad_k, grad_v}),                                                   \
                  const void* cotangent, const void* lse_cotangent, QKV, TANGENTS, GRADIENTS)      \
  WINDOW_FACE(forward, type, T, forward({q, k, v}, out, lse), QKV, void* out, void* lse)           \
  WINDOW_FACE(vjp, type, T,                                                                        \
              vjp(cotangent, nullptr, {q, k, v}, out, lse, {grad_q, grad_k, grad_v}),              \
              const void* cotangent, QKV, const void* out, const void* lse, GRADIENTS)             \
  WINDOW_FACE(jvp, type, T,                                                                        \
              jvp({q, k, v}, {q_tangent, k_tangent, v_tangent}, out_tangent, nullptr), QKV,        \
              TANGENTS, void* out_tangent)                                                         \
  WINDOW_FACE(hvp, type, T,                                                                        \
              hvp(cotangent, nullptr, {q, k, v}, {q_tangent, k_tangent, v_tangent},                \
                  {grad_q, grad_k, grad_v}),                                                       \
              const void* cotangent, QKV, TANGENTS, GRADIENTS)

#define ASCEND_FACE(face, type, Operator, ...)                                          \
  DEFINE_FACE(nsa_selected_attention_##face, type, GNOGRAD_CUDA_NSA_SELECTED_ATTENTION, \
              Operator{nsa_selected_attention ASCEND}, __VA_ARGS__)
#define ASCEND_SELECTED_ATTENTION(type, T)                                                        \
  ASCEND_FACE(forward, type, T, forward_bytes,                                                    \
              forward({query, key, value}, attention_out, nullptr, softmax_max, softmax_sum),     \
              const void* query, const void* key, const void* value, void* attention_out,         \
              void* softmax_max, void* softmax_sum)                                               \
  ASCEND_FACE(vjp, type, T, vjp_of_softmax_bytes,                                                 \
              vjp_of_softmax(attention_out_grad, {query, key, value}, attention_out, softmax_max, \
                             softmax_sum, {dq, dk, dv}),                                          \
              const void* attention_out_grad, const void* query, const void* key,                 \
              const void* value, const void* attention_out, const void* softmax_max,              \
              const void* softmax_sum, void* dq, void* dk, void* dv)
SPARSE_ATTENTION(f32, Attention<float>)
SPARSE_ATTENTION(f64, Attention<double>)
SPARSE_ATTENTION(f16, Attention<__half>)
SPARSE_ATTENTION(bf16, Attention<__nv_bfloat16>)
ASCEND_SELECTED_ATTENTION(f32, Attention<float>)
ASCEND_SELECTED_ATTENTION(f64, Attention<double>)
ASCEND_SELECTED_ATTENTION(f16, Attention<__half>)
ASCEND_SELECTED_ATTENTION(bf16, Attention<__nv_bfloat16>)
SELECTED_FACE(check, i32, CheckSelection, check(faults), int64_t* faults)

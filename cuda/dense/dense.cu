// SPDX-License-Identifier: MIT
// Dense attention and its adjoint by the values:
//
//     x_ts = (scale q_t . k_s + b_s)/temperature_t,  w = softmax over s of x
//     attention: out_t = sum over s of w_ts v_s      attention_pool: pooled_s = sum of w_ts c_t
//
// Both are passes of nsa/nsa_passes.cuh, over all keys of a sequence: the value of attention_pool
// is attention's gradient to v for the cotangent c, and its gradient to c is attention's value. A
// bias and temperatures make queries and keys of their own in the workspace, with two features
// more:
//
//     q' = (scale a q, a, 1),  k' = (k, b, 0),  a = 1/temperature:  x = q' . k'
//
// With y the gradient to q', grad q = scale a y, and that to a is scale q . y plus the second but
// last of y. A key with a bias of -infinity is k' = (0, 0, -infinity).
#include "device/call.cuh"
#include "device/sums.cuh"
#include "gnograd_cuda.h"
#include "nsa/nsa_passes.cuh"

namespace gnograd {
namespace {

template <class T>
struct DenseInputs {
  const T *q, *k, *v, *bias, *temperature;

  template <class Inputs>
  DenseInputs(const Inputs& in, bool tangents) {
    const auto& [of_q, of_k, of_v, of_bias, of_temperature] = in;
    const auto part = [=](const auto& x) { return tangents ? x.d : x.v; };
    q = part(of_q), k = part(of_k), v = part(of_v);
    bias = part(of_bias), temperature = part(of_temperature);
  }
};
template <class T>
struct DenseGradients {
  T *q, *k, *v, *bias, *temperature;
};
template <class T, class Gradients>
DenseGradients<T> dense_gradients(const Gradients& grad) {
  const auto& [q, k, v, bias, temperature] = grad;
  return {q, k, v, bias, temperature};
}

struct DenseSizes {
  int64_t n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_temperatures, n_sequences;
  const int64_t *cu_q, *cu_k;  // [n_sequences + 1], or null
  double scale;

  template <class Operator>
  explicit DenseSizes(const Operator& op)
      : n_queries(op.n_queries),
        n_keys(op.n_keys),
        n_query_heads(op.n_query_heads),
        n_heads(op.n_heads),
        d_k(op.d_k),
        d_v(op.d_v),
        n_temperatures(op.n_temperatures),
        n_sequences(op.n_sequences),
        cu_q(op.cu_q),
        cu_k(op.cu_k),
        scale(op.scale) {}
  int64_t n_rows() const { return n_queries * n_query_heads; }
  int64_t key_rows() const { return n_keys * n_heads; }
};

// Inverse temperature of a row, 1 where there is none, and its tangent.
template <class T>
struct Rates {
  const T *temperature, *tangent;  // [n_temperatures, n_query_heads], or null
  int64_t n;                       // numbers of them

  __device__ T rate(int64_t row) const { return temperature ? T(1) / temperature[row % n] : T(1); }
  __device__ T slope(int64_t row) const {
    if (!temperature || !tangent) return T(0);
    const T a = rate(row);
    return -a * a * tangent[row % n];
  }
};

// Thread: a number of q' or of its tangent. Reads and writes 8 to 16 bytes; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_make_queries(int64_t n_rows, int d_k, int d, bool biased, T scale, Rates<T> rates,
                       const T* __restrict__ q, const T* __restrict__ t_q, bool tangent,
                       T* __restrict__ out) {
  const auto [row, column] = divided(thread_number(), d);
  if (row >= n_rows) return;
  const T a = rates.rate(row), da = rates.slope(row);
  const int64_t at = row * d_k + column;
  T x = 0;
  if (column < d_k) {
    if (!tangent) x = scale * a * q[at];
    else x = scale * ((t_q ? a * t_q[at] : T(0)) + (da != T(0) ? da * q[at] : T(0)));
  } else if (column == d_k && biased) {
    x = tangent ? da : a;
  } else if (column == d_k + 1 && biased && !tangent) {
    x = 1;
  }
  out[thread_number()] = x;
}

// A key with a bias of -infinity is not seen.
template <class T>
__device__ bool is_hidden(T bias) {
  return bias == -INFINITY;
}

// Thread: a number of k' or of its tangent. Where there are tangents, the last of a key that is not
// seen is far below all logits, not -infinity: 0 times it is 0. Bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_make_keys(int64_t n_rows, int d_k, int d, const T* __restrict__ k,
                    const T* __restrict__ bias, const T* __restrict__ t_bias, bool tangent,
                    T lowest, T* __restrict__ out) {
  const auto [row, column] = divided(thread_number(), d);
  if (row >= n_rows) return;
  const bool hidden = is_hidden(bias[row]);
  T x = 0;
  if (hidden) {
    if (column == d_k + 1 && !tangent) x = lowest;
  } else if (column < d_k) {
    if (k) x = k[row * d_k + column];
  } else if (column == d_k) {
    if (!tangent) x = bias[row] < lowest ? lowest : bias[row];
    else if (t_bias) x = t_bias[row];
  }
  out[thread_number()] = x;
}

// Thread: a number of values; 0 of a key that is not seen. Bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_clear_hidden(int64_t n, int d_v, const T* __restrict__ bias, const T* __restrict__ v,
                       T* __restrict__ out) {
  const int64_t i = thread_number();
  if (i < n) out[i] = is_hidden(bias[i / d_v]) ? T(0) : v[i];
}

// Thread: a number of grad q, from those of q', y, or of its tangent, from those of y as well.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_query_gradient(int64_t n_rows, int d_k, int d, T scale, Rates<T> rates,
                         const T* __restrict__ y, const T* __restrict__ dy,
                         T* __restrict__ grad) {
  const auto [row, column] = divided(thread_number(), d_k);
  if (row >= n_rows) return;
  const int64_t at = row * d + column;
  T x = rates.rate(row) * (dy ? dy[at] : y[at]);
  if (dy && rates.temperature) x += rates.slope(row) * y[at];
  grad[thread_number()] = scale * x;
}

// Thread: gradient to the temperature of a row, or its tangent; reads one or two rows, one number
// after the other: bound by latency, with few bytes.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_temperature_gradient(int64_t n_rows, int d_k, int d, bool biased, T scale, Rates<T> rates,
                               const T* __restrict__ q, const T* __restrict__ t_q,
                               const T* __restrict__ y, const T* __restrict__ dy,
                               T* __restrict__ grad) {
  const int64_t row = thread_number();
  if (row >= n_rows) return;
  T first = 0, second = 0;
  for (int i = 0; i < d_k; ++i) {
    const T of_q = q[row * d_k + i];
    first += of_q * y[row * d + i];
    if (!dy) continue;
    second += of_q * dy[row * d + i];
    if (t_q) second += t_q[row * d_k + i] * y[row * d + i];
  }
  first *= scale;
  second *= scale;
  if (biased) {
    first += y[row * d + d_k];
    if (dy) second += dy[row * d + d_k];
  }
  const T a = rates.rate(row), da = rates.slope(row);
  grad[row] = dy ? -a * (T(2) * da * first + a * second) : -a * a * first;
}

// Thread: a number of grad k or, in the last column, of the gradient to a bias, from those of k'.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_key_gradient(int64_t n_rows, int d_k, int d, const T* __restrict__ y,
                       T* __restrict__ grad_k, T* __restrict__ grad_bias) {
  const auto [row, column] = divided(thread_number(), d_k + 1);
  if (row >= n_rows) return;
  const T x = y[row * d + column];
  if (column < d_k) {
    if (grad_k) grad_k[row * d_k + column] = x;
  } else if (grad_bias) {
    grad_bias[row] = x;
  }
}

// Thread: a number; bound by memory.
template <class T>
__global__ void __launch_bounds__(block_threads)
    dense_add(int64_t n, const T* __restrict__ more, T* __restrict__ x) {
  const int64_t i = thread_number();
  if (i < n) x[i] += more[i];
}

// The first status that is no success.
int first_of(int a, int b) { return a ? a : b; }

// One face: the arrays that it works on, and its passes, in their order.
template <class T>
class DensePass {
  const DenseSizes& s;
  Call& call;
  DenseInputs<T> in, t;
  bool biased, heated, second;
  int64_t d;  // features of q' and k'
  T *q = nullptr, *k = nullptr, *t_q = nullptr, *t_k = nullptr;

  bool made() const { return biased || heated; }
  bool runs() const { return call.workspace.sufficient(); }
  Rates<T> rates() const {
    return {heated ? in.temperature : nullptr, t.temperature, s.n_temperatures * s.n_query_heads};
  }
  NsaInputs<T, T> inputs(const T* v) const { return {{q ? q : in.q}, {k ? k : in.k}, {v}}; }
  NsaInputs<T, Dual<T>> inputs(const T* v, const T* t_v) const {
    return {{q ? q : in.q, q ? t_q : t.q}, {k ? k : in.k, k ? t_k : t.k}, {v, t_v}};
  }
  SparseAttention<T> attend() const {
    const Pattern p = make_pattern(s.n_queries, s.n_keys, s.n_query_heads, s.n_heads,
                                   s.n_sequences, s.cu_q, s.cu_k, false, 0);
    return {{p, d, s.d_v, made() ? 1.0 : s.scale}, call};
  }

 public:
  // Gradients to q' and k', in the workspace or in those of q and k themselves
  struct Made {
    T *q, *k;
  };

  DensePass(const DenseSizes& s, Call& call, const DenseInputs<T>& in, const DenseInputs<T>& t,
            bool second, bool biased, bool heated)
      : s(s), call(call), in(in), t(t), biased(biased), heated(heated), second(second), d(s.d_k) {
    if (biased) d = ceil_div(s.d_k + 2, 4) * 4;
    if (made()) q = call.workspace.template take<T>(s.n_rows() * d);
    if (made() && second) t_q = call.workspace.template take<T>(s.n_rows() * d);
    if (biased) k = call.workspace.template take<T>(s.key_rows() * d);
    if (biased && second) t_k = call.workspace.template take<T>(s.key_rows() * d);
    if (!runs()) return;
    const T scale = T(s.scale);
    const T lowest = second ? T(-0.1) * std::numeric_limits<T>::max()
                            : -std::numeric_limits<T>::infinity();
    for (int pass = 0; pass <= int(second); ++pass) {
      if (made())
        launch_threads(s.n_rows() * d, call.stream, dense_make_queries<T>, s.n_rows(), int(s.d_k),
                       int(d), biased, scale, rates(), in.q, t.q, pass == 1, pass ? t_q : q);
      if (biased)
        launch_threads(s.key_rows() * d, call.stream, dense_make_keys<T>, s.key_rows(), int(s.d_k),
                       int(d), pass ? t.k : in.k, in.bias, t.bias, pass == 1, lowest,
                       pass ? t_k : k);
    }
  }
  bool valid() const { return d <= most_features; }

  // Values, or what stands for them, without those of keys that are not seen.
  const T* seen(const T* v) {
    if (!biased) return v;
    const int64_t n = s.key_rows() * s.d_v;
    T* const cleared = call.workspace.template take<T>(n);
    if (!runs() || !v) return v;
    launch_threads(n, call.stream, dense_clear_hidden<T>, n, int(s.d_v), in.bias, v, cleared);
    return cleared;
  }
  int value(const T* v, T* out, T* lse) { return attend().evaluate(inputs(v), out, lse); }
  int value_tangent(const T* v, const T* t_v, T* t_out) {
    return attend().evaluate(inputs(v, t_v), t_out, nullptr);
  }
  // Room for gradients to what was made of queries and keys, or the gradients themselves.
  Made room(T* grad_q, T* grad_k) {
    return {made() ? call.workspace.template take<T>(s.n_rows() * d) : grad_q,
            biased ? call.workspace.template take<T>(s.key_rows() * d) : grad_k};
  }
  int gradients(const T* g, const T* v, const T* out, const T* lse, const Made& to, T* grad_v) {
    return attend().reverse(g, nullptr, inputs(v), out, lse, {to.q, to.k, grad_v, nullptr});
  }
  int gradient_tangents(const T* g, const T* v, const T* t_v, const Made& to, T* grad_v) {
    return attend().reverse(g, nullptr, inputs(v, t_v), nullptr, nullptr,
                            {to.q, to.k, grad_v, nullptr});
  }
  void add(const Made& more, const Made& to) const {
    if (to.q) add(s.n_rows() * d, more.q, to.q);
    if (to.k) add(s.key_rows() * d, more.k, to.k);
  }
  void add(int64_t n, const T* more, T* to) const {
    if (runs()) launch_threads(n, call.stream, dense_add<T>, n, more, to);
  }
  // Gradients to the inputs from those to q' and k', or with `tangent` theirs.
  void finish(const Made& y, const Made* tangent, const DenseGradients<T>& grad) {
    T* const terms = heated ? call.workspace.template take<T>(s.n_rows()) : nullptr;
    const FoldSpace<T> space(s.n_queries, s.n_query_heads, call.workspace);
    if (!runs()) return;
    const T scale = T(s.scale);
    const T* const dq = tangent ? tangent->q : nullptr;
    if (made() && grad.q)
      launch_threads(s.n_rows() * s.d_k, call.stream, dense_query_gradient<T>, s.n_rows(),
                     int(s.d_k), int(d), scale, rates(), y.q, dq, grad.q);
    if (biased && (grad.k || grad.bias))
      launch_threads(s.key_rows() * (s.d_k + 1), call.stream, dense_key_gradient<T>, s.key_rows(),
                     int(s.d_k), int(d), tangent ? tangent->k : y.k, grad.k, grad.bias);
    if (!heated || !grad.temperature) return;
    const bool each = s.n_temperatures == s.n_queries;
    launch_threads(s.n_rows(), call.stream, dense_temperature_gradient<T>, s.n_rows(), int(s.d_k),
                   int(d), biased, scale, rates(), in.q, t.q, y.q, dq,
                   each ? grad.temperature : terms);
    if (!each)
      sum_rows(PlainMatrix<T>{terms, s.n_query_heads}, s.n_queries, s.n_query_heads, space,
               grad.temperature, call.stream);
  }
  // Gradients to queries by the value, which those to temperatures need beside tangents.
  Made by_value(int& status, const T* g, const T* v) {
    if (!heated) return {};
    const Made made{room(nullptr, nullptr).q, nullptr};
    status = first_of(status, gradients(g, v, nullptr, nullptr, made, nullptr));
    return made;
  }
  // No values are there, nor wanted: those of zero.
  T* no_values() {
    T* const v = numbers(n_values());
    if (runs()) set_zero(v, n_values(), call.stream);
    return v;
  }
  Made more() { return {numbers(s.n_rows() * d), numbers(s.key_rows() * d)}; }
  int64_t n_rows() const { return s.n_rows(); }
  int64_t n_values() const { return s.key_rows() * s.d_v; }
  int64_t n_contents() const { return s.n_rows() * s.d_v; }
  T* numbers(int64_t n) { return call.workspace.template take<T>(n); }
  bool is_ready() const { return runs(); }
};

// face(pass), for what the inputs have; the workspace suffices for any of them.
template <class T, class S, class Operator, class Inputs, class Face>
int run_dense(const Operator& op, const Inputs& inputs, Call& call, Face face) {
  constexpr bool second = ScalarTraits<S>::dual;
  const DenseSizes s(op);
  const DenseInputs<T> in(inputs, false), t(inputs, true);
  if (in.temperature && s.n_temperatures != s.n_queries && s.n_temperatures != 1)
    return GNOGRAD_CUDA_VALUE;
  size_t most = 0;
  for (int what = 0; what < 4; ++what) {
    Call count;
    DensePass<T> pass(s, count, in, t, second, what & 1, what & 2);
    if (!pass.valid()) continue;
    const int status = face(pass);
    if (status != GNOGRAD_CUDA_WORKSPACE) return status;
    most = std::max(most, count.workspace.bytes());
  }
  Workspace all = call.workspace;
  all.take<char>(int64_t(most));
  if (!all.sufficient()) {
    call.workspace = all;
    return GNOGRAD_CUDA_WORKSPACE;
  }
  DensePass<T> pass(s, call, in, t, second, in.bias, in.temperature);
  return pass.valid() ? face(pass) : GNOGRAD_CUDA_VALUE;
}

template <class T>
struct Attention : AttentionRecords {
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return run_dense<T, S>(*this, in, call, [&](DensePass<T>& pass) {
      const T* const v = pass.seen(in.v.v);
      if constexpr (ScalarTraits<S>::dual) return pass.value_tangent(v, pass.seen(in.v.d), out.out);
      else return pass.value(v, out.out, out.lse);
    });
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Saved<T>& saved,
              const Gradients<T>& grad, Call& call) const {
    return run_dense<T, S>(*this, in, call, [&](DensePass<T>& pass) {
      const auto to = pass.room(grad.q, grad.k);
      const T* const v = pass.seen(in.v.v);
      int status;
      if constexpr (ScalarTraits<S>::dual) {
        status = pass.gradient_tangents(g.out, v, pass.seen(in.v.d), to, grad.v);
        const auto first = pass.by_value(status, g.out, v);
        pass.finish(first, &to, dense_gradients<T>(grad));
      } else {
        status = pass.gradients(g.out, v, saved.out, saved.lse, to, grad.v);
        pass.finish(to, nullptr, dense_gradients<T>(grad));
      }
      return status;
    });
  }
};

template <class T>
struct AttentionPool : AttentionPoolRecords {
  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    return run_dense<T, S>(*this, in, call, [&](DensePass<T>& pass) {
      T* const v = pass.no_values();
      if constexpr (ScalarTraits<S>::dual) {
        T* const more = pass.numbers(pass.n_values());
        int status = pass.gradient_tangents(in.c.v, v, nullptr, {}, out.pooled);
        if (in.c.d || !pass.is_ready()) {
          status = first_of(status, pass.gradients(in.c.d, v, nullptr, nullptr, {}, more));
          pass.add(pass.n_values(), more, out.pooled);
        }
        return status;
      } else {
        T* const lse = pass.numbers(pass.n_rows());
        const int status = pass.value(v, nullptr, lse);
        // of the statistics, the gradient to v needs lse alone
        return first_of(status, pass.gradients(in.c.v, v, in.c.v, lse, {}, out.pooled));
      }
    });
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    return run_dense<T, S>(*this, in, call, [&](DensePass<T>& pass) {
      const auto to = pass.room(grad.q, grad.k);
      if constexpr (ScalarTraits<S>::dual) {
        const bool counts = !pass.is_ready();
        const T* const u = pass.seen(g.pooled);
        int status = pass.gradient_tangents(in.c.v, u, nullptr, to, nullptr);
        if (in.c.d || counts) {
          const auto more = pass.more();
          status = first_of(status, pass.gradients(in.c.d, u, nullptr, nullptr, more, nullptr));
          pass.add(more, to);
        }
        const auto first = pass.by_value(status, in.c.v, u);
        pass.finish(first, &to, dense_gradients<T>(grad));
        if (grad.c || counts) status = first_of(status, pass.value_tangent(u, nullptr, grad.c));
        return status;
      } else {
        T* const own = pass.numbers(pass.n_contents());
        T* const lse = pass.numbers(pass.n_rows());
        T* const out = grad.c ? grad.c : own;
        const T* const u = pass.seen(g.pooled);
        int status = pass.value(u, out, lse);
        status = first_of(status, pass.gradients(in.c.v, u, out, lse, to, nullptr));
        pass.finish(to, nullptr, dense_gradients<T>(grad));
        return status;
      }
    });
  }
};

}  // namespace
}  // namespace gnograd

#include "dense_entries.cuh"

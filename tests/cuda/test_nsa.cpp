// SPDX-License-Identifier: MIT
// Selected, compressed and window attention against loops over one query and one head at a time.
#include "support.h"

namespace {

enum Branch { selected, compressed, window };
const char* const branch_names[] = {"selected", "compressed", "window"};
enum Face { forward, vjp, jvp, hvp };

// Shape of the attention; sequences by their lengths.
struct Shape {
  Branch branch;
  std::vector<int64_t> q_lengths, k_lengths;
  int64_t n_query_heads, n_heads, d_k, d_v;
  bool causal = false;
  int64_t q_offset = 0;
  // selected
  int64_t block_size = 4, n_slots = 3, query_block = 1;
  bool gated = false, repeat = false;
  // compressed: `block`, `stride`; window: `window`
  int64_t block = 1, stride = 1, window = 0;
  double scale = 0.4;
  size_t shift = 0;           // offset of all arrays, in elements
  double key_scale = 1;       // factor of the keys
  bool popular = false;       // everybody selects the first block
  bool one_sequence = false;  // cu is null

  static int64_t sum(const std::vector<int64_t>& x) {
    return std::accumulate(x.begin(), x.end(), int64_t(0));
  }
  int64_t n_queries() const { return sum(q_lengths); }
  int64_t n_keys() const { return sum(k_lengths); }
  int64_t group() const { return n_query_heads / n_heads; }
  int64_t rows() const { return n_queries() * n_query_heads; }
  int64_t n_gates() const { return gated ? n_queries() * n_heads * n_slots : 0; }
  std::string name() const {
    return std::string(branch_names[branch]) + (causal ? " causal " : " ") +
           std::to_string(n_queries()) + "x" + std::to_string(n_keys()) + " tokens, " +
           std::to_string(n_query_heads) + "/" + std::to_string(n_heads) + " heads, " +
           std::to_string(d_k) + "/" + std::to_string(d_v) + (gated ? ", gates" : "") +
           (query_block > 1 ? ", shared" : "");
  }
};

std::vector<int64_t> borders(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> cu{0};
  for (const int64_t n : lengths) cu.push_back(cu.back() + n);
  return cu;
}

// q, k, v, gates
template <class X>
using Arrays = std::array<std::vector<X>, 4>;

template <class N>
struct Oracle {
  const Shape& s;
  const std::vector<int32_t>& blocks;
  // rounding of P and dS to 16 bits, as the products on tensor cores have them; or null
  double (*round)(double) = nullptr;

  N rounded(N x) const {
    if constexpr (std::is_floating_point_v<N>)
      if (round) return N(round(double(x)));
    return x;
  }

  struct Seen {
    int64_t key, slot;
  };
  std::vector<Seen> visible(int64_t t, int64_t hk) const {
    const auto cu_q = borders(s.q_lengths), cu_k = borders(s.k_lengths);
    size_t b = 0;
    while (cu_q[b + 1] <= t) ++b;
    const int64_t at = t - cu_q[b], n = s.k_lengths[b];
    std::vector<Seen> seen;
    const auto add = [&](int64_t p, int64_t slot) {
      if (s.causal && p * s.stride + s.block - 1 > at + s.q_offset) return;
      if (s.branch == window && s.window) {
        if (s.causal ? p <= at + s.q_offset - s.window : p / s.window != at / s.window) return;
      }
      seen.push_back({cu_k[b] + p, slot});
    };
    if (s.branch != selected) {
      for (int64_t p = 0; p < n; ++p) add(p, 0);
      return seen;
    }
    std::vector<int64_t> named;
    for (int64_t slot = 0; slot < s.n_slots; ++slot) {
      const int64_t i = blocks[((t / s.query_block) * s.n_heads + hk) * s.n_slots + slot];
      if (i < 0 || i * s.block_size >= n) continue;
      if (!s.repeat && std::count(named.begin(), named.end(), i)) continue;
      named.push_back(i);
      for (int64_t p = i * s.block_size; p < std::min((i + 1) * s.block_size, n); ++p) add(p, slot);
    }
    return seen;
  }
  int64_t gate_at(int64_t t, int64_t hk, int64_t slot) const {
    return (t * s.n_heads + hk) * s.n_slots + slot;
  }

  // f(row, seen, E, gates, lse) for every row; E = exp(x - lse)
  template <class F>
  void for_rows(const Arrays<N>& in, F f) const {
    for (int64_t t = 0; t < s.n_queries(); ++t)
      for (int64_t h = 0; h < s.n_query_heads; ++h) {
        const int64_t hk = h / s.group(), row = t * s.n_query_heads + h;
        const auto seen = visible(t, hk);
        std::vector<N> x, gates;
        double top = -INFINITY;
        for (const Seen& c : seen) {
          N dot = 0;
          for (int64_t d = 0; d < s.d_k; ++d)
            dot += in[0][row * s.d_k + d] * in[1][(c.key * s.n_heads + hk) * s.d_k + d];
          x.push_back(N(typename RealPart<N>::type(s.scale)) * dot);
          gates.push_back(s.gated ? in[3][gate_at(t, hk, c.slot)] : N(1));
          if (real_part(gates.back()) > 0) top = std::max(top, real_part(x.back()));
        }
        using R = typename RealPart<N>::type;
        N total = 0;
        for (size_t i = 0; i < x.size() && top > -INFINITY; ++i)
          total += gates[i] * std::exp(x[i] - N(R(top)));
        if (real_part(total) == 0) {
          f(row, hk, {}, x, gates, N(R(-INFINITY)));
          continue;
        }
        const N lse = N(R(top)) + std::log(total);
        for (N& y : x) y = std::exp(y - lse);
        f(row, hk, seen, x, gates, lse);
      }
  }

  struct Outputs {
    std::vector<N> out, lse;
  };
  Outputs forward(const Arrays<N>& in) const {
    Outputs y{std::vector<N>(s.rows() * s.d_v), std::vector<N>(s.rows())};
    for_rows(in, [&](int64_t row, int64_t hk, const std::vector<Seen>& seen,
                     const std::vector<N>& e, const std::vector<N>& gates, N lse) {
      y.lse[row] = lse;
      for (size_t i = 0; i < seen.size(); ++i)
        for (int64_t d = 0; d < s.d_v; ++d)
          y.out[row * s.d_v + d] +=
              rounded(gates[i] * e[i]) * in[2][(seen[i].key * s.n_heads + hk) * s.d_v + d];
    });
    return y;
  }

  // D from `out`, where it is given.
  Arrays<N> vjp(const std::vector<N>& g, const std::vector<N>& lse_g, const Arrays<N>& in,
                const std::vector<N>& out = {}) const {
    using R = typename RealPart<N>::type;
    Arrays<N> grad;
    for (int a = 0; a < 4; ++a) grad[a].resize(in[a].size());
    const N scale = N(R(s.scale));
    for_rows(in, [&](int64_t row, int64_t hk, const std::vector<Seen>& seen,
                     const std::vector<N>& e, const std::vector<N>& gates, N) {
      std::vector<N> dp(seen.size());
      N delta = lse_g.empty() ? N(0) : -lse_g[row];
      for (int64_t d = 0; d < s.d_v && !out.empty(); ++d)
        delta += g[row * s.d_v + d] * out[row * s.d_v + d];
      for (size_t i = 0; i < seen.size(); ++i) {
        const int64_t key = seen[i].key * s.n_heads + hk;
        for (int64_t d = 0; d < s.d_v; ++d) {
          dp[i] += g[row * s.d_v + d] * in[2][key * s.d_v + d];
          grad[2][key * s.d_v + d] += rounded(gates[i] * e[i]) * g[row * s.d_v + d];
        }
        if (out.empty()) delta += rounded(gates[i] * e[i]) * dp[i];
      }
      for (size_t i = 0; i < seen.size(); ++i) {
        const int64_t key = seen[i].key * s.n_heads + hk;
        const N de = e[i] * (dp[i] - delta), ds = rounded(gates[i] * de);
        if (s.gated) grad[3][gate_at(row / s.n_query_heads, hk, seen[i].slot)] += de;
        for (int64_t d = 0; d < s.d_k; ++d) {
          grad[0][row * s.d_k + d] += scale * ds * in[1][key * s.d_k + d];
          grad[1][key * s.d_k + d] += scale * ds * in[0][row * s.d_k + d];
        }
      }
    });
    return grad;
  }
};

// ---- the library ----

template <class T, Branch branch>
struct Abi;
#define BRANCH(T, type, name)                                                                   \
  template <>                                                                                   \
  struct Abi<T, name> {                                                                         \
    static constexpr auto entries = std::make_tuple(                                            \
        gnograd_cuda_##name##_attention_forward_##type,                                         \
        gnograd_cuda_##name##_attention_vjp_##type, gnograd_cuda_##name##_attention_jvp_##type, \
        gnograd_cuda_##name##_attention_hvp_##type);                                            \
    static constexpr auto bytes =                                                               \
        std::array{gnograd_cuda_##name##_attention_forward_workspace_bytes_##type,              \
                   gnograd_cuda_##name##_attention_vjp_workspace_bytes_##type,                  \
                   gnograd_cuda_##name##_attention_jvp_workspace_bytes_##type,                  \
                   gnograd_cuda_##name##_attention_hvp_workspace_bytes_##type};                 \
  };
#define ABI(T, type)          \
  BRANCH(T, type, selected)   \
  BRANCH(T, type, compressed) \
  BRANCH(T, type, window)
ABI(float, f32)
ABI(double, f64)
ABI(__half, f16)
ABI(__nv_bfloat16, bf16)

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
double through(double x) {
  return to_double(T(float(x)));
}

template <class T>
struct Case {
  const Shape s;
  Arrays<T> in, tangents;
  std::vector<T> g;
  std::vector<Real<T>> lse_g;
  std::vector<int32_t> blocks;
  Device<int32_t> device_blocks;
  Device<int64_t> cu_q, cu_k;

  static std::vector<int32_t> draw_blocks(const Shape& s) {
    std::mt19937 random(7);
    const int64_t units = (s.n_queries() + s.query_block - 1) / s.query_block;
    const auto cu = borders(s.q_lengths);
    std::vector<int32_t> blocks;
    for (int64_t i = 0; i < units * s.n_heads * s.n_slots; ++i) {
      // all of the sequences that share the unit must have the block
      const int64_t u = i / (s.n_heads * s.n_slots);
      int64_t n = INT64_MAX;
      for (size_t b = 0; b < s.q_lengths.size(); ++b)
        if (cu[b] < (u + 1) * s.query_block && u * s.query_block < cu[b + 1])
          n = std::min(n, (s.k_lengths[b] + s.block_size - 1) / s.block_size);
      const bool hole = random() % 5 == 0 || n < 1 || n == INT64_MAX;
      blocks.push_back(hole ? -1 : int32_t(s.popular && i % s.n_slots == 0 ? 0 : random() % n));
    }
    return blocks;
  }

  explicit Case(const Shape& shape)
      : s(shape),
        blocks(draw_blocks(s)),
        device_blocks(blocks),
        cu_q(borders(s.q_lengths)),
        cu_k(borders(s.k_lengths)) {
    std::mt19937 random(11);
    const auto draw = [&](double size) {
      return Arrays<T>{randoms<T>(s.rows() * s.d_k, random),
                       randoms<T>(s.n_keys() * s.n_heads * s.d_k, random, size),
                       randoms<T>(s.n_keys() * s.n_heads * s.d_v, random),
                       randoms<T>(s.n_gates(), random)};
    };
    in = draw(s.key_scale);
    tangents = draw(1);
    for (size_t i = 0; i < in[3].size(); ++i)
      in[3][i] = i % 7 == 0 ? T(0.f) : T(float(std::fabs(to_double(in[3][i]))));
    g = randoms<T>(s.rows() * s.d_v, random);
    if (s.branch == compressed) lse_g = randoms<Real<T>>(s.rows(), random);
  }

  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    return upload_all<T>(arrays, s.shift);
  }
  std::vector<Device<T>> room() const { return room_for<T>(in, s.shift); }

  // A face's arrays; what it does not have is not looked at.
  struct Pointers {
    T* x[4] = {};
    T* dx[4] = {};
    T* grad[4] = {};
    T* out = nullptr;
    Real<T>* lse = nullptr;
    T* g = nullptr;
    Real<T>* lse_g = nullptr;
  };
  void point(T* (&to)[4], std::vector<Device<T>>& arrays, int only = -1) const {
    for (int a = 0; a < 4; ++a)
      to[a] = (a < 3 || s.gated) && (only < 0 || a == only) ? arrays[a].get() : nullptr;
  }
  // Pointers for forward and vjp.
  Pointers pointers(std::vector<Device<T>>& x, std::vector<Device<T>>& grad, Device<T>& out,
                    Device<Real<T>>& lse, Device<T>& cotangent) const {
    Pointers p;
    point(p.x, x);
    point(p.grad, grad);
    p.out = out.get();
    p.lse = lse.get();
    p.g = cotangent.get();
    return p;
  }

  template <Face face, Branch branch>
  void run(const Pointers& p) {
    const int64_t n = s.one_sequence ? 1 : int64_t(s.q_lengths.size());
    const int64_t* q = s.one_sequence ? nullptr : cu_q.get();
    const int64_t* k = s.one_sequence ? nullptr : cu_k.get();
    const int causal = s.causal;
    const auto sizes = [&] {
      const std::tuple head(s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v);
      if constexpr (branch == selected)
        return std::tuple_cat(
            head,
            std::tuple(s.n_slots, n, static_cast<const int32_t*>(device_blocks.get()), q, k,
                       s.block_size, s.scale, causal, s.q_offset, s.query_block, s.repeat ? 2 : 0));
      else if constexpr (branch == compressed)
        return std::tuple_cat(head,
                              std::tuple(n, q, k, s.block, s.stride, s.scale, causal, s.q_offset));
      else
        return std::tuple_cat(
            head, std::tuple(int64_t{0}, n, q, k, s.window, s.scale, causal, s.q_offset));
    }();
    const auto inputs = [](T* const(&x)[4]) {
      if constexpr (branch == selected) return std::tuple(x[0], x[1], x[2], x[3]);
      else if constexpr (branch == compressed) return std::tuple(x[0], x[1], x[2]);
      else return std::tuple(x[0], x[1], x[2], nullptr, nullptr, nullptr);  // no bias
    };
    const auto outputs = [](auto* out, auto* lse) {
      if constexpr (branch == compressed) return std::tuple(out, lse);
      else return std::tuple(out);
    };
    const auto arrays = [&] {
      const auto x = inputs(p.x);
      if constexpr (face == forward) return std::tuple_cat(x, std::tuple(p.out, p.lse));
      if constexpr (face == vjp)
        return std::tuple_cat(outputs(p.g, p.lse_g), x, std::tuple(p.out, p.lse), inputs(p.grad));
      if constexpr (face == jvp) return std::tuple_cat(x, inputs(p.dx), outputs(p.out, p.lse));
      if constexpr (face == hvp)
        return std::tuple_cat(outputs(p.g, p.lse_g), x, inputs(p.dx), inputs(p.grad));
    }();
    using A = Abi<T, branch>;
    const auto entry = std::get<face>(A::entries);
    std::apply([&](auto... a) { run_entry(entry, A::bytes[face], sizes, a...); }, arrays);
  }
  template <Face face>
  void run(const Pointers& p) {
    if (s.branch == selected) run<face, selected>(p);
    else if (s.branch == compressed) run<face, compressed>(p);
    else run<face, window>(p);
  }

  void expect(const std::string& face, std::vector<Device<T>>& got, const Arrays<double>& want,
              const Arrays<double>& plain, int only = -1) {
    for (int a = 0; a < 4; ++a)
      if ((a < 3 || s.gated) && (only < 0 || a == only))
        compare(s.name() + " " + face + " " + "qkvg"[a], got[a].host(), want[a], plain[a]);
  }

  void test() {
    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;
    const Oracle<double> truth{s, blocks};
    const Oracle<float> plain{s, blocks, sizeof(T) == 2 ? through<T> : nullptr};
    const Oracle<Complex> truth_derivative{s, blocks};
    const Oracle<ComplexFloat> plain_derivative{s, blocks};
    const auto values = [&](auto zero, const Arrays<T>* t) {
      Arrays<decltype(zero)> v;
      for (int a = 0; a < 4; ++a) v[a] = numbers<decltype(zero)>(in[a], t ? &(*t)[a] : nullptr);
      return v;
    };
    const auto all_doubles = [](const auto& arrays) {
      Arrays<double> out;
      for (int a = 0; a < 4; ++a) out[a] = doubles(arrays[a]);
      return out;
    };
    const auto in64 = values(double(), nullptr);
    const auto in32 = values(float(), nullptr);
    const auto along64 = values(Complex(), &tangents);
    const auto along32 = values(ComplexFloat(), &tangents);

    auto x = upload(in), dx = upload(tangents);
    Device<T> out(s.rows() * s.d_v, s.shift), cotangent(g, s.shift);
    Device<Real<T>> lse(s.rows()), lse_cotangent(lse_g);
    Pointers p;
    point(p.x, x);
    point(p.dx, dx);
    p.out = out.get();
    p.lse = lse.get();
    p.g = cotangent.get();
    p.lse_g = s.branch == compressed ? lse_cotangent.get() : nullptr;

    // forward
    run<forward>(p);
    const auto y = truth.forward(in64);
    const auto y32 = plain.forward(in32);
    compare(s.name() + " out", out.host(), y.out, doubles(y32.out));
    compare_lse(lse.host(), y.lse, doubles(y32.lse));

    // vjp: with what forward saved, without, and each gradient alone
    const auto want = truth.vjp(numbers<double>(g), numbers<double>(lse_g), in64);
    const auto g32 = numbers<float>(g), lse_g32 = numbers<float>(lse_g);
    const auto plain_vjp = all_doubles(plain.vjp(g32, lse_g32, in32));
    // results saved in 16 bits have that accuracy
    const auto plain_saved = all_doubles(plain.vjp(g32, lse_g32, in32, numbers<float>(out.host())));
    for (const bool saved : {true, false}) {
      auto grad = room();
      point(p.grad, grad);
      Pointers given = p;
      if (!saved) given.lse = nullptr;
      run<vjp>(given);
      expect(saved ? "vjp" : "vjp, nothing saved", grad, want, saved ? plain_saved : plain_vjp);
    }
    for (int a = 0; a < (s.gated ? 4 : 3); ++a) {
      auto grad = room();
      point(p.grad, grad, a);
      run<vjp>(p);
      expect("vjp, alone", grad, want, plain_saved, a);
    }

    // jvp, which also proves the oracle's vjp: <g, jvp(t)> = <vjp(g), t>
    Device<T> dout(s.rows() * s.d_v, s.shift);
    Device<Real<T>> dlse(s.rows());
    Pointers along = p;
    along.out = dout.get();
    along.lse = dlse.get();
    run<jvp>(along);
    const auto dy = truth_derivative.forward(along64);
    const auto dy32 = plain_derivative.forward(along32);
    const auto tangent = doubles(dy.out), lse_tangent = doubles(dy.lse);
    compare(s.name() + " jvp", dout.host(), tangent, doubles(dy32.out));
    if (s.branch == compressed)
      compare(s.name() + " jvp lse", dlse.host(), lse_tangent, doubles(dy32.lse));
    double left = 0, right = 0;
    for (size_t k = 0; k < tangent.size(); ++k) left += to_double(g[k]) * tangent[k];
    for (size_t k = 0; k < lse_g.size(); ++k) left += to_double(lse_g[k]) * lse_tangent[k];
    for (int a = 0; a < 4; ++a)
      for (size_t k = 0; k < in[a].size(); ++k) right += want[a][k] * to_double(tangents[a][k]);
    check(std::fabs(left - right) <= 1e-10 * (1 + std::fabs(left)), s.name() + " oracle");

    // hvp
    auto grad = room();
    point(p.grad, grad);
    run<hvp>(p);
    const auto want_hvp =
        all_doubles(truth_derivative.vjp(numbers<Complex>(g), numbers<Complex>(lse_g), along64));
    const auto plain_hvp = all_doubles(
        plain_derivative.vjp(numbers<ComplexFloat>(g), numbers<ComplexFloat>(lse_g), along32));
    expect("hvp", grad, want_hvp, plain_hvp);
  }

  void compare_lse(const std::vector<Real<T>>& got, std::vector<double> want,
                   std::vector<double> plain) {
    std::vector<Real<T>> finite(got);
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) {
      if (want[i] > -INFINITY) continue;
      same = same && got[i] == want[i];
      finite[i] = 0;
      want[i] = plain[i] = 0;
    }
    check(same, s.name() + " lse of rows that see nothing");
    compare(s.name() + " lse", finite, want, plain);
  }

  // The bits of everything vjp and hvp give.
  std::vector<T> bits() {
    auto x = upload(in), dx = upload(tangents), grad = room(), dgrad = room();
    Device<T> cotangent(g);
    Device<Real<T>> lse_cotangent(lse_g);
    Pointers p;
    point(p.x, x);
    point(p.dx, dx);
    point(p.grad, grad);
    p.g = cotangent.get();
    run<vjp>(p);
    point(p.grad, dgrad);
    run<hvp>(p);
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (auto& a : *arrays) {
        const auto h = a.host();
        all.insert(all.end(), h.begin(), h.end());
      }
    return all;
  }
};

Shape mha() { return {selected, {21}, {21}, 2, 2, 5, 3}; }

std::vector<Shape> small_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](Shape s, auto change) {
    change(s);
    shapes.push_back(s);
  };
  const Shape gqa{selected, {9, 1, 0, 14}, {11, 3, 4, 18}, 4, 2, 6, 8};
  add(mha(), [](Shape& s) { s.one_sequence = true; });
  add(gqa, [](Shape& s) { s.causal = true, s.q_offset = 2; });
  add(gqa, [](Shape& s) { s.gated = true, s.causal = true, s.q_offset = -3, s.repeat = true; });
  add(gqa, [](Shape& s) { s.query_block = 4, s.gated = true, s.shift = 1; });
  // just so many rows share a selection that they stay while keys pass by
  add(gqa, [](Shape& s) { s.query_block = 8, s.causal = true; });
  add(gqa, [](Shape& s) { s.branch = compressed, s.block = 4, s.stride = 2; });
  add(gqa, [](Shape& s) {
    s.branch = compressed, s.block = 4, s.stride = 2, s.causal = true, s.q_offset = 6;
  });
  add(gqa, [](Shape& s) { s.branch = window, s.window = 4, s.causal = true, s.q_offset = 1; });
  add(gqa, [](Shape& s) { s.branch = window, s.window = 5; });
  add(gqa, [](Shape& s) { s.branch = window, s.causal = true; });
  return shapes;
}

// Sizes that need several tiles, chunks or parts, and the edges of what is allowed.
std::vector<Shape> large_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](Shape s, auto change) {
    change(s);
    shapes.push_back(s);
  };
  // a list of several chunks; many slots; blocks larger than a tile
  add({selected, {1300}, {16}, 1, 1, 2, 2}, [](Shape& s) { s.popular = true, s.query_block = 16; });
  add({selected, {5}, {400}, 1, 1, 3, 4}, [](Shape& s) { s.block_size = 3, s.n_slots = 40; });
  add({selected, {7}, {300}, 2, 1, 8, 8}, [](Shape& s) { s.block_size = 150; });
  // more heads than rows of a tile, so that gates are summed in parts
  add({selected, {3}, {9}, 70, 1, 4, 4}, [](Shape& s) { s.gated = true; });
  // the largest heads; shared memory is short
  add({selected, {3}, {9}, 2, 1, 256, 256}, [](Shape& s) { s.gated = true; });
  // logits of 1e3
  add(mha(), [](Shape& s) { s.scale = 300; });
  // nothing to see, nobody to see it
  add({selected, {4}, {0}, 2, 1, 3, 2}, [](Shape&) {});
  add({selected, {0}, {6}, 2, 1, 3, 2}, [](Shape&) {});
  add({selected, {5}, {6}, 2, 1, 3, 2}, [](Shape& s) { s.n_slots = 0; });
  add({selected, {5}, {6}, 2, 1, 3, 2}, [](Shape& s) { s.causal = true, s.q_offset = -9; });
  // windows over several blocks and chunks
  add({window, {150}, {150}, 1, 1, 2, 2}, [](Shape& s) { s.window = 70, s.causal = true; });
  add({window, {150}, {140}, 1, 1, 2, 2}, [](Shape& s) { s.window = 100; });
  add({compressed, {1100}, {70}, 1, 1, 2, 2},
      [](Shape& s) { s.block = 32, s.stride = 16, s.causal = true; });
  return shapes;
}

// Several tiles of tensor cores, none of them full, in every direction.
Shape tensor_shape() {
  Shape s{selected, {9}, {60}, 24, 1, 40, 24};
  s.block_size = 25;
  s.gated = true;
  return s;
}

// Shapes for which aligned rows of numbers of 16 bits and float32 have kernels of their own:
// features of every size that they are padded to, blocks smaller and larger than a tile, rows of a
// selection that are less than a warp's, several warps' and several blocks', ragged ends and
// sequences side by side.
std::vector<Shape> fragment_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](Shape s, auto change) {
    change(s);
    shapes.push_back(s);
  };
  const Shape gqa{selected, {9, 1, 0, 14}, {75, 3, 4, 140}, 16, 1, 32, 24};
  const auto selection = [](Shape& s) { s.block_size = 64, s.causal = true, s.q_offset = 60; };
  add(gqa, selection);
  add(gqa, [](Shape& s) { s.block_size = 16, s.n_slots = 40, s.d_k = 40, s.d_v = 64; });
  add(gqa, [](Shape& s) { s.block_size = 100, s.repeat = true, s.popular = true; });
  add(gqa, [](Shape& s) { s.block_size = 40, s.gated = true, s.query_block = 3; });
  // no heads share a key: one row an entry, and units of less and more than a warp's rows
  add({selected, {70}, {150}, 2, 2, 32, 32}, [](Shape& s) { s.block_size = 64; });
  add({selected, {70}, {150}, 2, 2, 32, 32},
      [](Shape& s) { s.block_size = 50, s.query_block = 8, s.causal = true, s.q_offset = 80; });
  add({selected, {70}, {150}, 2, 2, 16, 32},
      [](Shape& s) { s.block_size = 50, s.query_block = 40, s.one_sequence = true; });
  add({selected, {5}, {140}, 40, 2, 128, 128}, [](Shape& s) { s.block_size = 64; });
  add({selected, {5}, {140}, 5, 1, 192, 128}, [](Shape& s) { s.block_size = 128; });
  add({selected, {5}, {70}, 16, 1, 80, 96}, [](Shape& s) { s.block_size = 64; });
  add({selected, {3}, {70}, 16, 1, 136, 192}, [](Shape& s) { s.block_size = 64; });
  add({selected, {3}, {70}, 16, 1, 256, 200}, [](Shape& s) { s.block_size = 64; });
  // many visitors of one block: several chunks
  add({selected, {130}, {64}, 16, 1, 8, 8},
      [](Shape& s) { s.block_size = 64, s.popular = true, s.n_slots = 1; });
  // logits of 1e3
  add({selected, {20}, {140}, 16, 1, 64, 64}, [](Shape& s) { s.scale = 60; });
  add({selected, {20}, {140}, 2, 2, 64, 64}, [](Shape& s) { s.scale = 60; });
  // positions decide
  add(gqa, [](Shape& s) { s.branch = window, s.window = 70, s.causal = true, s.q_offset = 61; });
  add(gqa, [](Shape& s) { s.branch = window, s.n_heads = 16, s.window = 7; });
  add(gqa, [](Shape& s) { s.branch = window, s.n_heads = 16, s.causal = true, s.q_offset = 9; });
  add(gqa, [](Shape& s) {
    s.branch = compressed, s.block = 4, s.stride = 2, s.causal = true, s.q_offset = 60;
  });
  add({compressed, {6}, {80}, 72, 1, 16, 16}, [](Shape& s) { s.block = 4, s.stride = 2; });
  // several chunks of a block's visitors, and slices of queries
  add({window, {120}, {100}, 16, 1, 8, 8},
      [](Shape& s) { s.window = 60, s.causal = true, s.q_offset = -10; });
  return shapes;
}

template <class T>
void test_type(size_t each) {
  const auto shapes = small_shapes();
  for (size_t i = 0; i < shapes.size(); i += each) Case<T>(shapes[i]).test();
}

// A key and a value that are not numbers reach the rows that see them, and no row that shares a
// tile with these.
template <class T>
void test_not_a_number(const Shape& s) {
  Case<T> c(s);
  const Oracle<double> truth{s, c.blocks};
  const auto run_all = [&] {
    auto x = c.upload(c.in), grad = c.room();
    Device<T> out(s.rows() * s.d_v), g(c.g);
    Device<Real<T>> lse(s.rows());
    auto p = c.pointers(x, grad, out, lse, g);
    c.template run<forward>(p);
    c.template run<vjp>(p);
    return std::array{out.host(), grad[0].host(), grad[1].host(), grad[2].host()};
  };
  const auto before = run_all();
  const int64_t bad_key = s.n_keys() - 2, bad_value = s.n_keys() - 9;
  for (int64_t d = 0; d < s.d_k; ++d) c.in[1][bad_key * s.n_heads * s.d_k + d] = T(NAN);
  for (int64_t d = 0; d < s.d_v; ++d) c.in[2][bad_value * s.n_heads * s.d_v + d] = T(NAN);
  const auto after = run_all();
  // by head 0's keys and rows: which are not numbers
  std::vector<bool> of_row(s.rows()), of_k(s.n_keys() * s.n_heads), of_v(of_k);
  for (int64_t row = 0; row < s.rows(); ++row) {
    const int64_t hk = row % s.n_query_heads / s.group();
    const auto seen = truth.visible(row / s.n_query_heads, hk);
    bool lse = false;
    for (const auto& one : seen) {
      lse = lse || (hk == 0 && one.key == bad_key);
      of_row[row] = of_row[row] || (hk == 0 && (one.key == bad_key || one.key == bad_value));
    }
    for (const auto& one : seen) {
      const int64_t at = one.key * s.n_heads + hk;
      of_k[at] = of_k[at] || of_row[row];
      of_v[at] = of_v[at] || lse;
    }
  }
  const auto expect = [&](const char* name, const std::vector<T>& x, const std::vector<T>& y,
                          const std::vector<bool>& bad, int64_t d) {
    bool same = true;
    double size = 0;
    for (const T& v : x) size = std::max(size, std::fabs(to_double(v)));
    for (size_t i = 0; i < x.size(); ++i) {
      const double a = to_double(x[i]), b = to_double(y[i]);
      same = same && (bad[i / d] ? std::isnan(b) : std::fabs(a - b) <= size / 64);
    }
    check(same, s.name() + " NaN in " + name);
    check(std::count(bad.begin(), bad.end(), true) > 0, s.name() + " NaN in some " + name);
  };
  check(std::count(of_row.begin(), of_row.end(), false) > 0, s.name() + " rows without NaN");
  expect("out", before[0], after[0], of_row, s.d_v);
  expect("grad q", before[1], after[1], of_row, s.d_k);
  expect("grad k", before[2], after[2], of_k, s.d_k);
  expect("grad v", before[3], after[3], of_v, s.d_v);
}

void test_not_a_number() {
  Shape one{selected, {70}, {75}, 16, 1, 32, 24};
  one.q_offset = 6;
  one.popular = true;
  // tiles for three blocks that look for those to be made again; units that sequences cut, one at
  // the last rows of a warp
  Shape many{selected, {266, 1, 0, 40}, {75, 3, 4, 75}, 24, 2, 32, 24};
  many.query_block = 2;
  many.q_offset = 40;
  for (Shape s : {one, many}) {
    s.block_size = 64;
    s.causal = true;
    test_not_a_number<__nv_bfloat16>(s);
    test_not_a_number<float>(s);
    s.n_query_heads = 2;
    test_not_a_number<__half>(s);
    test_not_a_number<float>(s);
    s.branch = window;
    s.window = 20;
    test_not_a_number<__half>(s);
    test_not_a_number<float>(s);
  }
  // more heads than rows of a tile
  Shape wide{window, {20}, {25}, 80, 1, 16, 16};
  wide.causal = true;
  wide.q_offset = 5;
  wide.window = 6;
  test_not_a_number<__nv_bfloat16>(wide);
}

// A key whose logits are -infinity in float32 has no part in anything.
void test_infinite_logits(int64_t n_query_heads) {
  Shape s{selected, {20}, {75}, n_query_heads, 1, 32, 24};
  s.block_size = 64;
  Case<float> c(s);
  for (float& q : c.in[0]) q = 1 + std::fabs(q);
  for (int64_t d = 0; d < s.d_k; ++d) c.in[1][3 * s.d_k + d] = -3e38f;
  Arrays<double> in, plain_vjp;
  Arrays<float> in32;
  for (int a = 0; a < 4; ++a) in[a] = numbers<double>(c.in[a]), in32[a] = c.in[a];
  const Oracle<double> truth{s, c.blocks};
  const Oracle<float> plain{s, c.blocks};
  const auto want = truth.vjp(numbers<double>(c.g), {}, in);
  const auto in_float = plain.vjp(c.g, {}, in32);
  for (int a = 0; a < 4; ++a) plain_vjp[a] = doubles(in_float[a]);
  auto x = c.upload(c.in), grad = c.room();
  Device<float> out(s.rows() * s.d_v), lse(s.rows()), g(c.g);
  auto p = c.pointers(x, grad, out, lse, g);
  c.run<forward>(p);
  compare(s.name() + " out beside -infinity", out.host(), truth.forward(in).out,
          doubles(plain.forward(in32).out));
  c.run<vjp>(p);
  c.expect("vjp beside -infinity", grad, want, plain_vjp);
  p.lse = nullptr;
  c.run<vjp>(p);
  c.expect("vjp beside -infinity, nothing saved", grad, want, plain_vjp);
}

template <class T>
void test_determinism(const Shape& s) {
  Case<T> c(s);
  const auto first = c.bits();
  for (const char* seed : {"1", "2"}) {
    setenv("SIMT_SEED", seed, 1);
    const auto again = c.bits();
    check(std::memcmp(first.data(), again.data(), first.size() * sizeof(T)) == 0,
          s.name() + " same bits in another order");
  }
  unsetenv("SIMT_SEED");
}

// The selection is checked on demand; a block that is not there is not seen.
void test_faults() {
  Shape s = mha();
  Case<float> c(s);
  const auto faults = [&] {
    Device<int32_t> blocks(c.blocks);
    Device<int64_t> found(2);
    run_entry(gnograd_cuda_selected_attention_check_i32,
              gnograd_cuda_selected_attention_check_workspace_bytes_i32,
              std::tuple(s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v,
                         s.n_slots, int64_t(1), static_cast<const int32_t*>(blocks.get()),
                         static_cast<const int64_t*>(nullptr), static_cast<const int64_t*>(nullptr),
                         s.block_size, s.scale, 0, int64_t(0), int64_t(1), 1),
              found.get());
    return found.host();
  };
  const auto at = [&](int64_t query, int64_t slot) -> int32_t& {
    return c.blocks[(query * s.n_heads + 1) * s.n_slots + slot];
  };
  for (int32_t& b : c.blocks) b = -1;
  check(faults() == std::vector<int64_t>{-1, -1}, "a good selection");
  at(17, 0) = at(17, 2) = 1;
  at(19, 1) = at(19, 2) = 3;
  check(faults() == std::vector<int64_t>{-1, 17}, "a block named twice");
  at(20, 1) = 6;
  at(18, 1) = -2;
  check(faults() == std::vector<int64_t>{18, 17}, "a block that is not there");
}

// Ascend's operator is selected_attention of a multiset, with its lse in two parts.
void test_ascend(bool causal) {
  Shape s{selected, {9, 1, 14}, {11, 3, 18}, 4, 2, 6, 5};
  s.causal = causal;
  s.repeat = true;
  Case<float> c(s);
  auto x = c.upload(c.in), grad = c.room(), ascend_grad = c.room();
  Device<float> out(s.rows() * s.d_v), ascend_out(s.rows() * s.d_v), g(c.g), lse(s.rows());
  Device<float> top(8 * s.rows()), total(8 * s.rows());
  auto p = c.pointers(x, grad, out, lse, g);
  c.run<forward>(p);
  c.run<vjp>(p);
  const std::tuple sizes(
      s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v, int64_t(3),
      static_cast<const int32_t*>(c.device_blocks.get()), static_cast<const int64_t*>(c.cu_q.get()),
      static_cast<const int64_t*>(c.cu_k.get()), s.scale, s.block_size, s.n_slots, causal ? 2 : 0);
  run_entry(gnograd_cuda_nsa_selected_attention_forward_f32,
            gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f32, sizes, p.x[0], p.x[1],
            p.x[2], ascend_out.get(), top.get(), total.get());
  run_entry(gnograd_cuda_nsa_selected_attention_vjp_f32,
            gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f32, sizes, p.g, p.x[0], p.x[1],
            p.x[2], ascend_out.get(), top.get(), total.get(), ascend_grad[0].get(),
            ascend_grad[1].get(), ascend_grad[2].get());
  check(out.host() == ascend_out.host(), s.name() + " out as Ascend's");
  const auto joined = lse.host(), tops = top.host(), totals = total.host();
  bool same = true;
  for (size_t i = 0; i < tops.size(); ++i) {
    const float sum = tops[i] + std::log(totals[i]), of_row = joined[i / 8];
    same = same && (sum == of_row || std::fabs(sum - of_row) <= 1e-6 * (1 + std::fabs(of_row)));
  }
  check(same, s.name() + " maximum and sum");
  for (int a = 0; a < 3; ++a) {
    const auto want = doubles(grad[a].host());
    compare(s.name() + " gradient as Ascend's", ascend_grad[a].host(), want, want);
  }
}

void test_values() {
  Shape s = mha();
  Case<float> c(s);
  auto x = c.upload(c.in);
  Device<float> out(s.rows() * s.d_v);
  Device<char> workspace(1 << 20);
  const auto run = [&](int64_t heads, int64_t d_k, int64_t block_size, int duplicates) {
    return gnograd_cuda_selected_attention_forward_f32(
        s.n_queries(), s.n_keys(), s.n_query_heads, heads, d_k, s.d_v, s.n_slots, 1,
        c.device_blocks.get(), nullptr, nullptr, block_size, s.scale, 0, 0, 1, duplicates,
        x[0].get(), x[1].get(), x[2].get(), nullptr, out.get(), nullptr, workspace.get(), 1 << 20,
        nullptr);
  };
  check(run(s.n_heads, s.d_k, 4, 0) == 0, "good sizes");
  check(run(3, s.d_k, 4, 0) == GNOGRAD_CUDA_VALUE, "heads that do not divide");
  check(run(s.n_heads, 257, 4, 0) == GNOGRAD_CUDA_VALUE, "a head that is too large");
  check(run(s.n_heads, s.d_k, 0, 0) == GNOGRAD_CUDA_VALUE, "an empty block");
  check(run(s.n_heads, s.d_k, 257, 0) == GNOGRAD_CUDA_VALUE, "a block that is too large");
  check(run(s.n_heads, s.d_k, 4, 3) == GNOGRAD_CUDA_VALUE, "an unknown code");
}

}  // namespace

int main() {
  require_device();
  const size_t each = short_run() ? 6 : 1;
  test_type<float>(each);
  if (!short_run()) test_type<double>(2 * each);
  test_type<__half>(3 * each);
  test_type<__nv_bfloat16>(3 * each);
  const auto large = large_shapes();
  for (size_t i = 0; i < large.size(); i += each) Case<float>(large[i]).test();
  if (!short_run()) Case<double>(large[4]).test();
  Case<__half>(tensor_shape()).test();
  Case<__nv_bfloat16>(tensor_shape()).test();
  const auto shapes = fragment_shapes();
  for (size_t i = 0; i < shapes.size(); i += each) {
    const bool in_float = std::max(shapes[i].d_k, shapes[i].d_v) <= 128;
    if (in_float && !(short_run() && i % 4 == 0)) Case<float>(shapes[i]).test();
    if (in_float && short_run() && i % 4 != 0) continue;  // numbers of 16 bits and of 32 in turns
    if (i % 4 == 0) Case<__half>(shapes[i]).test();
    else Case<__nv_bfloat16>(shapes[i]).test();
  }
  if (!short_run()) {
    test_not_a_number();
    test_infinite_logits(16);
    test_infinite_logits(2);
    test_determinism<float>(large_shapes()[0]);
    test_determinism<__nv_bfloat16>(shapes.back());
    test_determinism<float>(shapes.back());
  }
  test_faults();
  test_ascend(false);
  if (!short_run()) {
    test_ascend(true);
    test_values();
  }
  return report();
}

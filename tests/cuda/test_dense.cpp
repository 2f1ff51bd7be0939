// SPDX-License-Identifier: MIT
// attention and attention_pool against loops over one query and one head at a time.
#include "support.h"

namespace {

enum Face { forward, vjp, jvp, hvp };

struct Shape {
  bool pool;
  std::vector<int64_t> q_lengths, k_lengths;
  int64_t n_query_heads, n_heads, d_k, d_v;
  bool biased = false;
  int64_t n_temperatures = 0;  // 0: there is no temperature
  size_t shift = 0;            // offset of all arrays, in elements
  double scale = 0.4;

  static int64_t sum(const std::vector<int64_t>& x) {
    return std::accumulate(x.begin(), x.end(), int64_t(0));
  }
  int64_t n_queries() const { return sum(q_lengths); }
  int64_t n_keys() const { return sum(k_lengths); }
  int64_t rows() const { return n_queries() * n_query_heads; }
  int64_t key_rows() const { return n_keys() * n_heads; }
  int64_t n_out() const { return (pool ? key_rows() : rows()) * d_v; }
  std::array<int64_t, 5> inputs() const {
    return {rows() * d_k, key_rows() * d_k, (pool ? rows() : key_rows()) * d_v,
            biased ? key_rows() : 0, n_temperatures * n_query_heads};
  }
  bool has(int input) const { return input < 3 || (input == 3 ? biased : n_temperatures > 0); }
  std::string name(const std::string& face) const {
    return std::string(pool ? "attention_pool " : "attention ") + face + ", " +
           std::to_string(n_queries()) + "x" + std::to_string(n_keys()) + " tokens, " +
           std::to_string(n_query_heads) + "/" + std::to_string(n_heads) + " heads, " +
           std::to_string(d_k) + "/" + std::to_string(d_v) + (biased ? ", bias" : "") + ", " +
           std::to_string(n_temperatures) + " temperatures";
  }
};

std::vector<int64_t> borders(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> cu{0};
  for (const int64_t n : lengths) cu.push_back(cu.back() + n);
  return cu;
}

// q, k, v or c, bias, temperature
template <class X>
using Arrays = std::array<std::vector<X>, 5>;

template <class N>
struct Oracle {
  const Shape& s;
  using R = typename RealPart<N>::type;

  // f(row, temperature's place, first key row, weights, logits) for every row
  template <class F>
  void for_rows(const Arrays<N>& in, F f) const {
    const auto cu_q = borders(s.q_lengths), cu_k = borders(s.k_lengths);
    for (size_t b = 0; b < s.q_lengths.size(); ++b)
      for (int64_t t = cu_q[b]; t < cu_q[b + 1]; ++t)
        for (int64_t h = 0; h < s.n_query_heads; ++h) {
          const int64_t row = t * s.n_query_heads + h;
          const int64_t place =
              s.n_temperatures ? (t % s.n_temperatures) * s.n_query_heads + h : 0;
          const int64_t first =
              cu_k[b] * s.n_heads + h / (s.n_query_heads / s.n_heads);
          std::vector<N> x(s.k_lengths[b]), w;
          double top = -INFINITY;
          for (int64_t i = 0; i < int64_t(x.size()); ++i) {
            const int64_t key = first + i * s.n_heads;
            for (int64_t d = 0; d < s.d_k; ++d)
              x[i] += N(R(s.scale)) * in[0][row * s.d_k + d] * in[1][key * s.d_k + d];
            if (s.biased) x[i] += in[3][key];
            if (s.n_temperatures) x[i] /= in[4][place];
            top = std::max(top, real_part(x[i]));
          }
          N total = 0;
          for (const N& y : x) total += std::exp(y - N(R(top)));
          for (const N& y : x) w.push_back(std::exp(y - N(R(top))) / total);
          f(row, place, first, w, x);
        }
  }
  std::vector<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(s.n_out());
    for_rows(in, [&](int64_t row, int64_t, int64_t first, const auto& w, const auto&) {
      for (size_t i = 0; i < w.size(); ++i)
        for (int64_t d = 0; d < s.d_v; ++d) {
          const int64_t key = (first + int64_t(i) * s.n_heads) * s.d_v + d, at = row * s.d_v + d;
          if (s.pool) out[key] += w[i] * in[2][at];
          else out[at] += w[i] * in[2][key];
        }
    });
    return out;
  }
  Arrays<N> vjp(const std::vector<N>& c, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (int a = 0; a < 5; ++a) grad[a].resize(in[a].size());
    const auto& rows = s.pool ? in[2] : c;
    const auto& values = s.pool ? c : in[2];
    for_rows(in, [&](int64_t row, int64_t place, int64_t first, const auto& w, const auto& x) {
      std::vector<N> dw(w.size());
      N mean = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        const int64_t key = first + int64_t(i) * s.n_heads;
        for (int64_t d = 0; d < s.d_v; ++d) {
          dw[i] += rows[row * s.d_v + d] * values[key * s.d_v + d];
          if (s.pool) grad[2][row * s.d_v + d] += w[i] * values[key * s.d_v + d];
          else grad[2][key * s.d_v + d] += w[i] * rows[row * s.d_v + d];
        }
        mean += w[i] * dw[i];
      }
      const N heat = s.n_temperatures ? in[4][place] : N(1);
      for (size_t i = 0; i < w.size(); ++i) {
        const int64_t key = first + int64_t(i) * s.n_heads;
        const N dx = w[i] * (dw[i] - mean) / heat;
        if (s.biased) grad[3][key] += dx;
        if (s.n_temperatures) grad[4][place] -= dx * x[i];
        for (int64_t d = 0; d < s.d_k; ++d) {
          grad[0][row * s.d_k + d] += N(R(s.scale)) * dx * in[1][key * s.d_k + d];
          grad[1][key * s.d_k + d] += N(R(s.scale)) * dx * in[0][row * s.d_k + d];
        }
      }
    });
    return grad;
  }
};

template <class T>
struct Entries;
#define ENTRIES(T, type)                                                              \
  template <>                                                                         \
  struct Entries<T> {                                                                 \
    template <bool pool, Face face>                                                   \
    static auto get() {                                                               \
      if constexpr (pool) {                                                           \
        if constexpr (face == forward)                                                \
          return std::pair(&gnograd_cuda_attention_pool_forward_##type,                \
                           &gnograd_cuda_attention_pool_forward_workspace_bytes_##type); \
        else if constexpr (face == vjp)                                               \
          return std::pair(&gnograd_cuda_attention_pool_vjp_##type,                    \
                           &gnograd_cuda_attention_pool_vjp_workspace_bytes_##type);   \
        else if constexpr (face == jvp)                                               \
          return std::pair(&gnograd_cuda_attention_pool_jvp_##type,                    \
                           &gnograd_cuda_attention_pool_jvp_workspace_bytes_##type);   \
        else                                                                          \
          return std::pair(&gnograd_cuda_attention_pool_hvp_##type,                    \
                           &gnograd_cuda_attention_pool_hvp_workspace_bytes_##type);   \
      } else {                                                                        \
        if constexpr (face == forward)                                                \
          return std::pair(&gnograd_cuda_attention_forward_##type,                     \
                           &gnograd_cuda_attention_forward_workspace_bytes_##type);    \
        else if constexpr (face == vjp)                                               \
          return std::pair(&gnograd_cuda_attention_vjp_##type,                         \
                           &gnograd_cuda_attention_vjp_workspace_bytes_##type);        \
        else if constexpr (face == jvp)                                               \
          return std::pair(&gnograd_cuda_attention_jvp_##type,                         \
                           &gnograd_cuda_attention_jvp_workspace_bytes_##type);        \
        else                                                                          \
          return std::pair(&gnograd_cuda_attention_hvp_##type,                         \
                           &gnograd_cuda_attention_hvp_workspace_bytes_##type);        \
      }                                                                               \
    }                                                                                 \
  };
ENTRIES(float, f32)
ENTRIES(double, f64)

template <class T>
struct Case {
  Shape s;
  Arrays<T> in, tangents;
  std::vector<T> g;
  Device<int64_t> cu_q, cu_k;

  explicit Case(const Shape& shape)
      : s(shape), cu_q(borders(s.q_lengths)), cu_k(borders(s.k_lengths)) {
    std::mt19937 random(11);
    const auto lengths = s.inputs();
    for (auto* arrays : {&in, &tangents})
      for (int a = 0; a < 5; ++a) (*arrays)[a] = randoms<T>(lengths[a], random);
    for (T& x : in[4]) x = T(1.5f) + x / T(2.f);
    g = randoms<T>(s.n_out(), random);
  }
  std::string name(const std::string& face) const { return s.name(face); }

  template <bool pool, Face face>
  void run(const auto&... groups) {
    const auto [entry, bytes] = Entries<T>::template get<pool, face>();
    const bool one = s.q_lengths.size() == 1;
    const std::tuple sizes(s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v,
                           s.n_temperatures, int64_t(s.q_lengths.size()),
                           one ? nullptr : static_cast<const int64_t*>(cu_q.get()),
                           one ? nullptr : static_cast<const int64_t*>(cu_k.get()), s.scale);
    std::apply([&](auto... array) { run_entry(entry, bytes, sizes, array...); },
               std::tuple_cat(groups...));
  }
  std::array<T*, 5> pointers(std::vector<Device<T>>& arrays, int alone = -1) const {
    std::array<T*, 5> p;
    for (int a = 0; a < 5; ++a)
      p[a] = s.has(a) && (alone < 0 || alone == a) ? arrays[a].get() : nullptr;
    return p;
  }
  template <class N>
  Arrays<N> values(const Arrays<T>* t = nullptr) const {
    Arrays<N> v;
    for (int a = 0; a < 5; ++a) v[a] = numbers<N>(in[a], t ? &(*t)[a] : nullptr);
    return v;
  }

  void test() {
    if (s.pool) test_operator<true>();
    else test_operator<false>();
  }
  template <bool pool>
  void test_operator() {
    using C64 = std::complex<double>;
    using C32 = std::complex<float>;
    auto x = upload_all<T>(in, s.shift), dx = upload_all<T>(tangents, s.shift);
    Device<T> cotangent(g, s.shift), out(g.size(), s.shift), dout(g.size(), s.shift);
    Device<T> lse(s.rows(), s.shift);
    if constexpr (pool) run<pool, forward>(pointers(x), std::tuple(out.get()));
    else run<pool, forward>(pointers(x), std::tuple(out.get(), lse.get()));
    compare(name("forward"), out.host(), Oracle<double>{s}.forward(values<double>()),
            doubles(Oracle<float>{s}.forward(values<float>())));

    const auto want = Oracle<double>{s}.vjp(numbers<double>(g), values<double>());
    const auto rough = Oracle<float>{s}.vjp(numbers<float>(g), values<float>());
    for (int alone = -2; alone < 5; ++alone) {
      auto grad = room_for<T>(in, s.shift);
      const bool saved = alone == -2;
      const auto statistics = [&] {
        if constexpr (pool) return std::tuple();
        else return std::tuple(saved ? out.get() : nullptr, saved ? lse.get() : nullptr);
      }();
      run<pool, vjp>(std::tuple(cotangent.get()), pointers(x), statistics, pointers(grad, alone));
      for (int a = 0; a < 5; ++a)
        if (s.has(a) && (alone < 0 || alone == a))
          compare(name("vjp") + " of " + std::to_string(a), grad[a].host(), doubles(want[a]),
                  doubles(rough[a]));
    }

    for (int alone = -1; alone < 5; ++alone) {
      if (alone >= 0 && !s.has(alone)) continue;
      Arrays<T> t;
      for (int a = 0; a < 5; ++a)
        if (alone < 0 || alone == a) t[a] = tangents[a];
      run<pool, jvp>(pointers(x), pointers(dx, alone), std::tuple(dout.get()));
      const auto tangent = doubles(Oracle<C64>{s}.forward(values<C64>(&t)));
      compare(name("jvp"), dout.host(), tangent,
              doubles(Oracle<C32>{s}.forward(values<C32>(&t))));
      if (alone < 0) check_adjoint(name("oracle"), g, tangent, want, tangents);

      const auto second = Oracle<C64>{s}.vjp(numbers<C64>(g), values<C64>(&t));
      const auto second32 = Oracle<C32>{s}.vjp(numbers<C32>(g), values<C32>(&t));
      auto grad = room_for<T>(in, s.shift);
      run<pool, hvp>(std::tuple(cotangent.get()), pointers(x), pointers(dx, alone),
                     pointers(grad));
      for (int a = 0; a < 5; ++a)
        if (s.has(a))
          compare(name("hvp") + " of " + std::to_string(a), grad[a].host(), doubles(second[a]),
                  doubles(second32[a]));
    }
  }

  // The bits of what vjp and hvp give.
  std::vector<T> bits() {
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents);
    auto grad = room_for<T>(in), dgrad = room_for<T>(in);
    Device<T> cotangent(g);
    const T* none = nullptr;
    run<false, vjp>(std::tuple(cotangent.get()), pointers(x), std::tuple(none, none),
                    pointers(grad));
    run<false, hvp>(std::tuple(cotangent.get()), pointers(x), pointers(dx), pointers(dgrad));
    std::vector<T> all;
    for (auto* arrays : {&grad, &dgrad})
      for (int a = 0; a < 5; ++a) {
        if (!s.has(a)) continue;
        const auto host = (*arrays)[a].host();
        all.insert(all.end(), host.begin(), host.end());
      }
    return all;
  }
};

// Keys with a bias of -infinity have no part in anything, and need not be finite.
template <class T>
struct HiddenKeys {
  static constexpr std::array<int64_t, 2> hidden{2, 7};
  Case<T> few, all;

  explicit HiddenKeys(bool pool)
      : few({pool, {6}, {7}, 4, 2, 4, 3, true, 6}), all({pool, {6}, {9}, 4, 2, 4, 3, true, 6}) {
    const T nothing = std::numeric_limits<T>::quiet_NaN();
    for (int a = 0; a < 5; ++a) {
      const bool keys = a == 1 || a == 3 || (a == 2 && !pool);
      all.in[a] = keys ? with(few.in[a], nothing) : few.in[a];
      all.tangents[a] = keys ? with(few.tangents[a], nothing) : few.tangents[a];
    }
    all.in[3] = with(few.in[3], -std::numeric_limits<T>::infinity());
    all.g = pool ? with(few.g, nothing) : few.g;
  }
  // Rows of keys with the hidden ones among them
  std::vector<T> with(std::vector<T> x, T fill) const {
    const auto width = x.size() / few.s.n_keys();
    for (const int64_t key : hidden) x.insert(x.begin() + key * width, width, fill);
    return x;
  }
  // Without the hidden ones, which must be 0
  std::vector<T> without(std::vector<T> x, const std::string& what) const {
    const auto width = x.size() / 9;
    for (const int64_t key : {hidden[1], hidden[0]}) {
      const auto first = x.begin() + key * width, end = first + width;
      check(std::all_of(first, end, [](T y) { return y == T(0); }), what + " of hidden keys is 0");
      x.erase(first, end);
    }
    return x;
  }
  template <bool pool>
  void test() {
    using C64 = std::complex<double>;
    using C32 = std::complex<float>;
    auto x = upload_all<T>(all.in), dx = upload_all<T>(all.tangents);
    Device<T> cotangent(all.g), out(all.g.size()), dout(all.g.size()), lse(all.s.rows());
    const auto values = [&](std::vector<T> y, const std::string& what) {
      return pool ? without(y, what) : y;
    };
    const auto name = [&](const char* face) { return all.name(face) + ", hidden keys"; };
    const auto gradients = [&](const std::string& what, std::vector<Device<T>>& grad,
                               const auto& want, const auto& plain) {
      for (int a = 0; a < 5; ++a) {
        const bool keys = a == 1 || a == 3 || (a == 2 && !pool);
        const auto found = grad[a].host();
        compare(what + " of " + std::to_string(a), keys ? without(found, what) : found,
                doubles(want[a]), doubles(plain[a]));
      }
    };
    if constexpr (pool) all.template run<pool, forward>(all.pointers(x), std::tuple(out.get()));
    else all.template run<pool, forward>(all.pointers(x), std::tuple(out.get(), lse.get()));
    compare(name("forward"), values(out.host(), name("forward")),
            Oracle<double>{few.s}.forward(few.template values<double>()),
            doubles(Oracle<float>{few.s}.forward(few.template values<float>())));

    auto grad = room_for<T>(all.in), dgrad = room_for<T>(all.in);
    const auto saved = [&] {
      if constexpr (pool) return std::tuple();
      else return std::tuple(out.get(), lse.get());
    }();
    all.template run<pool, vjp>(std::tuple(cotangent.get()), all.pointers(x), saved,
                                all.pointers(grad));
    gradients(name("vjp"), grad,
              Oracle<double>{few.s}.vjp(numbers<double>(few.g), few.template values<double>()),
              Oracle<float>{few.s}.vjp(numbers<float>(few.g), few.template values<float>()));

    const auto in64 = few.template values<C64>(&few.tangents);
    const auto in32 = few.template values<C32>(&few.tangents);
    all.template run<pool, jvp>(all.pointers(x), all.pointers(dx), std::tuple(dout.get()));
    compare(name("jvp"), values(dout.host(), name("jvp")),
            doubles(Oracle<C64>{few.s}.forward(in64)), doubles(Oracle<C32>{few.s}.forward(in32)));
    all.template run<pool, hvp>(std::tuple(cotangent.get()), all.pointers(x), all.pointers(dx),
                                all.pointers(dgrad));
    gradients(name("hvp"), dgrad, Oracle<C64>{few.s}.vjp(numbers<C64>(few.g), in64),
              Oracle<C32>{few.s}.vjp(numbers<C32>(few.g), in32));
  }
};

template <class T>
void test_type() {
  HiddenKeys<T>(false).template test<false>();
  HiddenKeys<T>(true).template test<true>();
  for (const bool pool : {false, true}) {
    Case<T>({pool, {7}, {9}, 2, 1, 3, 2}).test();
    Case<T>({pool, {7, 0, 3}, {9, 4, 2}, 4, 2, 4, 8, true}).test();
    Case<T>({pool, {7, 5}, {9, 0}, 2, 2, 4, 4, false, 12}).test();
    Case<T>({pool, {5, 3}, {70, 2}, 4, 2, 8, 4, true, 8}).test();
    Case<T>({pool, {70}, {5}, 2, 2, 5, 4, true, 1, 1}).test();
    Case<T>({pool, {3}, {0}, 1, 1, 2, 2, true, 1}).test();
  }
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  if (!short_run()) test_type<double>();
  Case<float> c({false, {70}, {100}, 4, 2, 8, 8, true, 1});
  check_same_bits(c);
  return report();
}

// SPDX-License-Identifier: MIT
// Compressed tokens, and the blocks selected by them, against loops.
#include "laws.h"

namespace {

int64_t count(int64_t length, int64_t block, int64_t stride) {
  return length < block ? 0 : (length - block) / stride + 1;
}
std::vector<int64_t> compressed_lengths(const std::vector<int64_t>& lengths, int64_t block,
                                        int64_t stride) {
  std::vector<int64_t> counts;
  for (const int64_t n : lengths) counts.push_back(count(n, block, stride));
  return counts;
}

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

// ---- compress ----

Problem compress(const std::vector<int64_t>& lengths, int64_t block, int64_t stride, int64_t heads,
                 int64_t size, bool one_sequence = false) {
  const auto cu = std::make_shared<Device<int64_t>>(borders(lengths));
  const int64_t n_tokens = borders(lengths).back();
  const int64_t n_compressed = borders(compressed_lengths(lengths, block, stride)).back();
  const std::tuple sizes(n_tokens, heads, size, one_sequence ? 1 : int64_t(lengths.size()),
                         one_sequence ? nullptr : cu->get(), block, stride, n_compressed);
  return {"compress " + std::to_string(n_tokens) + " tokens, block " + std::to_string(block) +
              ", stride " + std::to_string(stride),
          {{n_tokens * heads * size}, {block * heads}},
          {{n_compressed * heads * size}},
          {},
          FOUR_TYPES(compress, sizes, cu)};
}

// ---- select_blocks ----

template <class T>
struct Select;
#define SELECT(T, type)                                                     \
  template <>                                                               \
  struct Select<T> {                                                        \
    static constexpr auto entry = gnograd_cuda_select_blocks_forward_##type; \
    static constexpr auto bytes =                                           \
        gnograd_cuda_select_blocks_forward_workspace_bytes_##type;          \
  };
SELECT(float, f32)
SELECT(double, f64)
SELECT(__half, f16)
SELECT(__nv_bfloat16, bf16)

struct Selection {
  std::vector<int64_t> q_lengths, k_lengths;
  int64_t group, heads, d_k, block, stride, block_size, n_slots;
  bool causal = false;
  int64_t q_offset = 0, query_block = 1, first_blocks = 0, local_blocks = 0;
  bool exclude_own = false;
  enum Numbers { random, equal, infinite, features, rows } numbers = random;
  size_t shift = 0;  // numbers that q and k begin after an aligned address
  int q_power = 0, k_power = 0;  // powers of two, factors of q and k; the scale makes up for them
  int64_t period = 0;            // after which compressed tokens are the same
};

int64_t floor_ratio(int64_t a, int64_t b) { return int64_t(std::floor(double(a) / double(b))); }

template <class T>
void test_select(const std::string& name, const Selection& s) {
  const auto cu_q = borders(s.q_lengths), cu_k = borders(s.k_lengths);
  const auto cu_c = borders(compressed_lengths(s.k_lengths, s.block, s.stride));
  const int64_t n_queries = cu_q.back(), n_compressed = cu_c.back();
  const int64_t query_heads = s.heads * s.group;
  std::mt19937 random(3);
  auto q = randoms<T>(n_queries * query_heads * s.d_k, random);
  auto k = randoms<T>(n_compressed * s.heads * s.d_k, random);
  if (s.numbers == Selection::equal) std::fill(q.begin(), q.end(), T(0.f));
  if (s.numbers == Selection::infinite) {  // some logits are -infinity
    for (size_t i = 0; i < q.size(); i += s.d_k) q[i] = T(float(std::abs(to_double(q[i])) + 0.125));
    for (size_t i = 0; i < k.size(); i += 3 * s.d_k) k[i] = T(-INFINITY);
  }
  if (s.numbers == Selection::features)  // huge ones meet tiny ones
    for (int64_t i = 0; i < std::ssize(q); ++i) {
      const int power = 20 * int(i % s.d_k % 3 - 1);
      q[i] = T(float(std::ldexp(to_double(q[i]), power)));
      for (size_t j = i; j < k.size() && i < s.d_k; j += s.d_k)
        k[j] = T(float(std::ldexp(to_double(k[j]), -power)));
    }
  if (s.numbers == Selection::rows) {  // tiny ones, and huge ones where q is zero
    for (size_t i = 0; i < q.size(); ++i)
      q[i] = T(float(i % s.d_k ? std::ldexp(to_double(q[i]), i / s.d_k % 3 ? 0 : -30) : 0));
    for (size_t i = 0; i < k.size(); ++i)
      if (const size_t row = i / s.d_k; row % 4 == 0 || (row % 5 == 0 && i % s.d_k == 0))
        k[i] = T(float(std::ldexp(to_double(k[i]), row % 4 == 0 ? -100 : 100)));
  }
  for (T& x : q) x = T(float(std::ldexp(to_double(x), s.q_power)));
  for (T& x : k) x = T(float(std::ldexp(to_double(x), s.k_power)));
  if (s.period)
    for (size_t i = s.period * s.heads * s.d_k; i < k.size(); ++i)
      k[i] = k[i - s.period * s.heads * s.d_k];
  const double scale = std::ldexp(0.7, -s.q_power - s.k_power);

  const auto sees = [&](int64_t t, int64_t c) {
    return !s.causal || c * s.stride + s.block - 1 <= t + s.q_offset;
  };
  const auto dot = [&](int64_t t, int64_t h, int64_t c) {
    double x = 0;
    for (int64_t d = 0; d < s.d_k; ++d)
      x += to_double(q[(t * query_heads + h) * s.d_k + d]) *
           to_double(k[(c * s.heads + h / s.group) * s.d_k + d]);
    return scale * x;
  };
  const int64_t n_selections = (n_queries + s.query_block - 1) / s.query_block;
  std::vector<int32_t> want(n_selections * s.heads * s.n_slots, -1);
  std::vector<Real<T>> lse(n_queries * query_heads, Real<T>(-INFINITY));
  for (size_t b = 0; b < s.q_lengths.size(); ++b) {
    const int64_t n_blocks = (s.k_lengths[b] + s.block_size - 1) / s.block_size;
    for (int64_t first = 0; first < s.q_lengths[b]; first += s.query_block)
      for (int64_t hk = 0; hk < s.heads; ++hk) {
        const int64_t end = std::min(first + s.query_block, s.q_lengths[b]);
        std::vector<double> score(n_blocks);
        for (int64_t t = first; t < end; ++t)
          for (int64_t h = hk * s.group; h < (hk + 1) * s.group; ++h) {
            double total = 0;
            for (int64_t c = 0; c < cu_c[b + 1] - cu_c[b]; ++c)
              if (sees(t, c)) total += std::exp(dot(cu_q[b] + t, h, cu_c[b] + c));
            if (total == 0) continue;
            lse[(cu_q[b] + t) * query_heads + h] = Real<T>(std::log(total));
            for (int64_t c = 0; c < cu_c[b + 1] - cu_c[b]; ++c)
              if (sees(t, c))
                for (int64_t i = 0; i < n_blocks; ++i) {
                  const int64_t shared = std::min((i + 1) * s.block_size, c * s.stride + s.block) -
                                         std::max(i * s.block_size, c * s.stride);
                  if (shared > 0)
                    score[i] += double(shared) * std::exp(dot(cu_q[b] + t, h, cu_c[b] + c)) / total;
                }
          }
        const int64_t own_first = floor_ratio(first + s.q_offset, s.block_size);
        const int64_t own_last = floor_ratio(end - 1 + s.q_offset, s.block_size);
        std::vector<int32_t> order;
        for (int64_t i = 0; i < n_blocks; ++i) {
          const bool own = own_first <= i && i <= own_last;
          if ((s.causal && i > own_last) || (own && s.exclude_own)) continue;
          if (i < s.first_blocks ||
              (s.local_blocks && own_first - s.local_blocks < i && i <= own_last))
            score[i] = INFINITY;
          order.push_back(int32_t(i));
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](int i, int j) { return score[i] > score[j]; });
        order.resize(std::min(order.size(), size_t(s.n_slots)));
        std::copy(order.begin(), order.end(),
                  want.begin() + (((cu_q[b] + first) / s.query_block) * s.heads + hk) * s.n_slots);
      }
  }

  Device<int64_t> device_q(cu_q), device_k(cu_k);
  Device<T> q_device(q, s.shift), k_device(k, s.shift);
  Device<Real<T>> lse_device(lse);
  Device<int32_t> chosen(want.size());
  run_entry(Select<T>::entry, Select<T>::bytes,
            std::tuple(n_queries, n_compressed, cu_k.back(), query_heads, s.heads, s.d_k, s.n_slots,
                       int64_t(s.q_lengths.size()), static_cast<const int64_t*>(device_q.get()),
                       static_cast<const int64_t*>(device_k.get()), s.block, s.stride, s.block_size,
                       scale, int(s.causal), s.q_offset, s.query_block, s.first_blocks,
                       s.local_blocks, int(s.exclude_own), int64_t(0)),
            q_device.get(), k_device.get(), lse_device.get(), chosen.get());
  check(chosen.host() == want, std::string(Type<T>::name) + " select_blocks, " + name);
}

// Numbers that no float16 is, which float32 must select by as well as others.
template <class T>
void test_powers() {
  const std::pair<int, int> powers[] = {{20, 20},  {20, -20},  {-20, -20},  {100, -100},
                                        {20, 100}, {-100, 20}, {-20, -100}, {-60, -60}};
  Selection s{{9, 3}, {400, 90}, 16, 1, 40, 4, 2, 16, 12};
  for (const auto& [q_power, k_power] : powers) {
    s.q_power = q_power, s.k_power = k_power;
    test_select<T>("q times 2^" + std::to_string(q_power) + ", k 2^" + std::to_string(k_power), s);
  }
  s.q_power = s.k_power = 0;
  for (const bool causal : {false, true}) {
    s.causal = causal, s.q_offset = causal ? 170 : 0;
    const std::string name = causal ? ", causal" : "";
    s.numbers = Selection::features;
    test_select<T>("huge and tiny features" + name, s);
    s.numbers = Selection::rows;
    test_select<T>("huge and tiny rows" + name, s);
  }
  s = {{9}, {600}, 16, 1, 24, 2, 2, 8, 20};
  s.numbers = Selection::features, s.period = 12;
  test_select<T>("huge and tiny features, scores that repeat", s);
}

template <class T>
void test_type() {
  const Selection base{{9, 0, 21}, {30, 4, 70}, 2, 2, 5, 4, 2, 6, 3};
  test_select<T>("all", base);
  Selection s = base;
  s.causal = true, s.q_offset = 7;
  test_select<T>("causal", s);
  s.first_blocks = s.local_blocks = 1;
  test_select<T>("causal, first and local blocks", s);
  s = {{12, 18}, {30, 70}, 1, 2, 4, 5, 3, 4, 5};
  s.query_block = 6, s.exclude_own = true;
  test_select<T>("shared, own blocks excluded", s);
  // more rows, compressed tokens and blocks than a tile has
  s = {{70}, {300}, 1, 1, 3, 2, 1, 2, 40};
  s.query_block = 70;
  test_select<T>("several tiles", s);
  s.n_slots = 0;
  test_select<T>("no slots", s);

  // rows that are aligned, and filled up to a step of the product; several units in a block
  s = {{1, 3, 0, 2, 21}, {30, 70, 9, 0, 64}, 16, 2, 8, 8, 4, 8, 4};
  s.causal = true, s.q_offset = 6, s.local_blocks = 1;
  test_select<T>("short sequences, groups of 16", s);
  s.numbers = Selection::infinite;
  test_select<T>("infinite keys", s);
  s.numbers = Selection::equal;
  test_select<T>("equal scores", s);
  s = {{9}, {600}, 16, 1, 24, 2, 2, 8, 20};
  s.period = 12;
  test_select<T>("scores that repeat", s);
  if (sizeof(T) > 2 && !short_run()) test_powers<T>();
  s = {{19}, {1300}, 16, 1, 32, 4, 2, 2, 40};
  test_select<T>("several windows", s);
  s.causal = true, s.q_offset = 900, s.shift = 1;
  test_select<T>("several windows, causal, not aligned", s);
  s = {{30}, {400}, 8, 2, 16, 8, 4, 16, 5};
  s.query_block = 3, s.causal = true, s.q_offset = 300;
  test_select<T>("two warps a unit", s);
  s = {{90}, {400}, 4, 1, 16, 8, 4, 16, 5};
  s.query_block = 45, s.first_blocks = 1;
  test_select<T>("a unit in several passes", s);
  s.causal = true, s.q_offset = 250;
  test_select<T>("a unit in several passes, causal", s);
  for (const int64_t d_k : {128, 192, 256}) {
    if (short_run() && d_k == 192) continue;
    s = {{9}, {300}, 4, 1, d_k, 2, 1, 16, 6};
    test_select<T>(std::to_string(d_k) + " features", s);
  }
  s.n_slots = 1024;
  test_select<T>("256 features, 1024 slots", s);
  s = {{7}, {40}, 1, 1, 3, 70, 1, 1, 5};
  test_select<T>("nothing compressed", s);
  s = {{7}, {700}, 1, 1, 3, 600, 7, 1, 5};
  test_select<T>("long compressed tokens", s);
}

}  // namespace

int main() {
  require_device();
  check_laws(compress({23, 3, 0, 8, 16}, 4, 2, 2, 5), all_types, Depth::all);
  check_laws(compress({19}, 3, 5, 1, 2, true), all_types);
  check_laws(compress({150}, 2, 1, 1, 3), all_types);
  check_laws(compress({3}, 4, 2, 1, 3), all_types);
  test_type<float>();
  if (!short_run()) {
    test_type<double>();
    test_type<__half>();
  }
  test_type<__nv_bfloat16>();
  return report();
}

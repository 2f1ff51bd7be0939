// SPDX-License-Identifier: MIT
// Offsets and counts beyond 32 bits. Attention to arrays of more than 2^32 elements, of which only the
// last tokens exist: their sequence must come out bit for bit as it does alone. And more than 2^31
// warps, of which the last have something to do.
#include "../support.h"
#include "simt.h"

namespace {

constexpr int64_t d = 256, n_slots = 2;

// Two sequences; the second has few tokens, and selects all its blocks.
struct Shape {
  const char* name;
  int64_t queries_before, queries, keys_before, keys;
  int64_t query_heads, heads, block_size, query_block;
  int64_t seen_keys;  // the last, whose gradients are looked at, in the last head
};

template <class T>
T* reserve(int64_t n) {
  void* p = simt::reserve(n * sizeof(T));
  if (p) return static_cast<T*>(p);
  std::printf("skipped: no address space\n");
  std::exit(77);
}

// Results of all faces for the last tokens.
std::vector<float> ends(const Shape& s) {
  const int64_t n_queries = s.queries_before + s.queries, n_keys = s.keys_before + s.keys;
  const int64_t rows = n_queries * s.query_heads, tokens = n_keys * s.heads;
  const int64_t last_rows = s.queries * s.query_heads;
  std::mt19937 random(1);
  const auto input = [&](int64_t n, int64_t last) {
    float* x = reserve<float>(n * d);
    const auto values = randoms<float>(last * d, random);
    std::copy(values.begin(), values.end(), x + (n - last) * d);
    return x;
  };
  const float *q = input(rows, last_rows), *g = input(rows, last_rows);
  const float *k = input(tokens, s.keys * s.heads), *v = input(tokens, s.keys * s.heads);
  float *out = reserve<float>(rows * d), *lse = reserve<float>(rows);
  float *grad_q = reserve<float>(rows * d), *grad_k = reserve<float>(tokens * d);
  float* grad_v = reserve<float>(tokens * d);
  const float* no_gate = nullptr;
  float* no_gradient = nullptr;

  const int64_t units = (n_queries + s.query_block - 1) / s.query_block;
  std::vector<int32_t> blocks(units * s.heads * n_slots, -1);
  for (size_t i = s.queries_before / s.query_block * s.heads * n_slots; i < blocks.size(); ++i)
    if (int64_t(i) % n_slots * s.block_size < s.keys) blocks[i] = int32_t(i % n_slots);
  Device<int32_t> block_index(blocks);
  Device<int64_t> cu_q({0, s.queries_before, n_queries}), cu_k({0, s.keys_before, n_keys});
  const std::tuple sizes(n_queries, n_keys, s.query_heads, s.heads, d, d, n_slots, int64_t(2),
                         block_index.get(), cu_q.get(), cu_k.get(), s.block_size, 0.01, 0,
                         int64_t(0), s.query_block, 0);
  const auto run = [&](auto entry, auto bytes, auto... arrays) {
    std::apply(
        [&](auto... size) {
          const size_t n = bytes(size...);
          MUST(entry(size..., arrays..., reserve<char>(n + 1), n, nullptr));
        },
        sizes);
  };

  std::vector<float> seen;
  const auto look = [&](const float* x, int64_t n, int64_t last) {
    seen.insert(seen.end(), x + n - last, x + n);
  };
  const auto look_at_gradients = [&] {
    look(grad_q, rows * d, last_rows * d);
    for (const float* grad : {grad_k, grad_v})
      for (int64_t key = n_keys - s.seen_keys; key < n_keys; ++key)
        look(grad, (key + 1) * s.heads * d, d);
  };
  run(gnograd_cuda_selected_attention_forward_f32,
      gnograd_cuda_selected_attention_forward_workspace_bytes_f32, q, k, v, no_gate, out, lse);
  look(out, rows * d, last_rows * d);
  look(lse, rows, last_rows);
  run(gnograd_cuda_selected_attention_vjp_f32,
      gnograd_cuda_selected_attention_vjp_workspace_bytes_f32, g, q, k, v, no_gate, out, lse,
      grad_q, grad_k, grad_v, no_gradient);
  look_at_gradients();
  run(gnograd_cuda_selected_attention_jvp_f32,
      gnograd_cuda_selected_attention_jvp_workspace_bytes_f32, q, k, v, no_gate, g, v, k, no_gate,
      out);
  look(out, rows * d, last_rows * d);
  run(gnograd_cuda_selected_attention_hvp_f32,
      gnograd_cuda_selected_attention_hvp_workspace_bytes_f32, g, q, k, v, no_gate, g, v, k,
      no_gate, grad_q, grad_k, grad_v, no_gradient);
  look_at_gradients();
  return seen;
}

// The gradient to the last of so many sources, which alone has an edge.
void last_warps() {
  constexpr int64_t n_src = int64_t(1) << 27, f_in = 17;
  simt::last_blocks = 64;
  int64_t* offsets = reserve<int64_t>(n_src + 1);
  offsets[n_src] = 1;
  Device<int32_t> destination(std::vector<int32_t>{0});
  Device<int64_t> edge(std::vector<int64_t>{0}), rows(std::vector<int64_t>{0, 1});
  const gnograd_cuda_graph graph{n_src,
                                 1,
                                 1,
                                 {rows.get(), destination.get(), nullptr, nullptr},
                                 {offsets, destination.get(), edge.get(), nullptr}};
  std::vector<float> kappa(f_in);
  std::iota(kappa.begin(), kappa.end(), 1.f);
  Device<float> g(std::vector<float>{2}), of_edge(kappa);
  float* grad = reserve<float>(n_src * f_in);
  const size_t bytes =
      gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f32(&graph, f_in, 1, 0);
  MUST(gnograd_cuda_gno_aggregate_vjp_f32(&graph, f_in, 1, 0, g.get(), nullptr, of_edge.get(), grad,
                                          nullptr, reserve<char>(bytes + 1), bytes, nullptr));
  bool good = grad[(n_src - 1) * f_in - 1] == 0;
  for (int64_t f = 0; f < f_in; ++f)
    good = good && grad[(n_src - 1) * f_in + f] == 2 * kappa[f];
  check(good, "more than 2^31 warps");
  simt::last_blocks = 0;
}

}  // namespace

int main() {
  last_warps();
  const int64_t many = 131072 + 16;  // tokens of 128 heads: more than 2^32 elements
  for (Shape s : {Shape{"queries", many, 2, 0, 8, 128, 1, 5, 16, 8},
                  Shape{"keys", 0, 3, many, 6, 128, 128, 256, 16, 2}}) {
    simt::last_blocks = 1024;
    const auto huge = ends(s);
    s.queries_before = s.keys_before = 0;
    simt::last_blocks = 0;
    const auto alone = ends(s);
    check(huge.size() == alone.size() &&
              std::memcmp(huge.data(), alone.data(), huge.size() * sizeof(float)) == 0,
          std::string("many ") + s.name);
    // neither is empty
    check(std::count(alone.begin(), alone.end(), 0.f) < int64_t(alone.size()) / 10,
          std::string("something to see of ") + s.name);
  }
  return report();
}

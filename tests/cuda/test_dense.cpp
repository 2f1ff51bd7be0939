// SPDX-License-Identifier: MIT
// attention and attention_pool: one sequence and several, few queries or keys, bias, temperatures.
#include "laws.h"

namespace {

struct Shape {
  bool pool;
  std::vector<int64_t> q_lengths, k_lengths;
  int64_t n_query_heads, n_heads, d_k, d_v;
  bool biased = false;
  int64_t n_temperatures = 0;  // 0: there is no temperature
};

Problem dense(const Shape& s) {
  const auto cu_q = borders(s.q_lengths), cu_k = borders(s.k_lengths);
  const auto on_q = std::make_shared<Device<int64_t>>(cu_q);
  const auto on_k = std::make_shared<Device<int64_t>>(cu_k);
  const int64_t rows = cu_q.back() * s.n_query_heads, keys = cu_k.back() * s.n_heads;
  const bool one = s.q_lengths.size() == 1;
  const std::tuple sizes(cu_q.back(), cu_k.back(), s.n_query_heads, s.n_heads, s.d_k, s.d_v,
                         s.n_temperatures, int64_t(s.q_lengths.size()), one ? nullptr : on_q->get(),
                         one ? nullptr : on_k->get(), 0.4);
  Problem p{std::string(s.pool ? "attention_pool " : "attention ") + std::to_string(cu_q.back()) +
                "x" + std::to_string(cu_k.back()) + " tokens, " + std::to_string(s.n_query_heads) +
                "/" + std::to_string(s.n_heads) + " heads, " + std::to_string(s.d_k) + "/" +
                std::to_string(s.d_v),
            {{rows * s.d_k},
             {keys * s.d_k},
             {(s.pool ? rows : keys) * s.d_v},
             {s.biased ? keys : -1},
             {s.n_temperatures ? s.n_temperatures * s.n_query_heads : -1, 0.5, 1.5}},
            {{(s.pool ? keys : rows) * s.d_v}},
            {},
            {},
            true,
            4};
  if (!s.pool) p.saved = {{rows}};
  if (s.pool) p.faces = TWO_TYPES(attention_pool, sizes, on_q, on_k);
  else p.faces = TWO_TYPES(attention, sizes, on_q, on_k);
  return p;
}

}  // namespace

int main() {
  require_device();
  for (const bool pool : {false, true})
    for (const Shape& s :
         {Shape{pool, {7}, {9}, 2, 1, 3, 2}, Shape{pool, {7, 0, 3}, {9, 4, 2}, 4, 2, 4, 8, true},
          Shape{pool, {7, 5}, {9, 0}, 2, 2, 4, 4, false, 12},
          Shape{pool, {5, 3}, {70, 2}, 4, 2, 8, 4, true, 8},
          Shape{pool, {70}, {5}, 2, 2, 5, 4, true, 1}, Shape{pool, {3}, {0}, 1, 1, 2, 2, true, 1}})
      check_laws(dense(s), single_double, s.biased ? Depth::all : Depth::derivatives);
  check_orders(dense({false, {70}, {100}, 4, 2, 8, 8, true, 1}));
  return report();
}

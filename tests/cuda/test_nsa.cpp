// SPDX-License-Identifier: MIT
// Selected, compressed and window attention: laws on shapes for every path through the kernels,
// numbers that are none, and Ascend's operator.
#include "laws.h"

namespace {

enum Branch { selected, compressed, window };
const char* const branch_names[] = {"selected", "compressed", "window"};

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

std::vector<int32_t> draw_blocks(const Shape& s) {
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


Problem attention(const Shape& s) {
  const auto blocks = std::make_shared<Device<int32_t>>(draw_blocks(s));
  const auto cu_q = std::make_shared<Device<int64_t>>(borders(s.q_lengths));
  const auto cu_k = std::make_shared<Device<int64_t>>(borders(s.k_lengths));
  const int64_t n = s.one_sequence ? 1 : int64_t(s.q_lengths.size()), keys = s.n_keys() * s.n_heads;
  const int64_t* q = s.one_sequence ? nullptr : cu_q->get();
  const int64_t* k = s.one_sequence ? nullptr : cu_k->get();
  const std::tuple head(s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v);
  Problem p{s.name(), {{s.rows() * s.d_k}, {keys * s.d_k}, {keys * s.d_v}}, {{s.rows() * s.d_v}},
            {}, {}, true, 4 + s.scale};
  const Array lse{s.rows(), 1, 0, wide};
  if (s.branch == selected) {
    p.inputs.push_back({s.gated ? s.n_gates() : -1});
    p.saved = {lse};
    p.smooth = !s.gated;  // gates are not negative
    p.change = [](Lists& in) {
      for (size_t i = 0; i < in[3].size(); ++i) in[3][i] = i % 7 == 0 ? 0 : std::fabs(in[3][i]);
    };
    const auto sizes = std::tuple_cat(
        head, std::tuple(s.n_slots, n, blocks->get(), q, k, s.block_size, s.scale, int(s.causal),
                         s.q_offset, s.query_block, s.repeat ? 2 : 0));
    p.faces = FOUR_TYPES(selected_attention, sizes, blocks, cu_q, cu_k);
  } else if (s.branch == compressed) {
    p.outputs.push_back(lse);
    p.smooth = !s.causal;  // lse of a row that sees nothing is -infinity
    const auto sizes = std::tuple_cat(
        head, std::tuple(n, q, k, s.block, s.stride, s.scale, int(s.causal), s.q_offset));
    p.faces = FOUR_TYPES(compressed_attention, sizes, cu_q, cu_k);
  } else {
    p.inputs.insert(p.inputs.end(), 3, {-1});  // no bias
    p.saved = {lse};
    const auto sizes = std::tuple_cat(
        head, std::tuple(int64_t(0), n, q, k, s.window, s.scale, int(s.causal), s.q_offset));
    p.faces = FOUR_TYPES(window_attention, sizes, cu_q, cu_k);
  }
  return p;
}

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
  add(gqa, [](Shape& s) { s.query_block = 4, s.gated = true; });
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

// Results of forward, and of vjp from what it saves.
std::pair<Lists, Lists> forward_and_vjp(Trial& t, bool from_saved = true) {
  Buffers saved;
  const Lists out = t.run_forward(&saved);
  return {out, t.run_vjp(-1, from_saved ? &saved : nullptr)};
}

struct Seen {
  int64_t key, slot;
};
// Keys that a query sees with a head of the keys, once for every slot.
std::vector<Seen> visible(const Shape& s, const std::vector<int32_t>& blocks, int64_t t,
                          int64_t hk) {
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

// A key and a value that are not numbers reach the rows that see them, and no row that shares a
// tile with these.
void test_not_a_number(const Shape& s, Precision type) {
  const auto blocks = draw_blocks(s);
  const Problem p = attention(s);
  Trial t(p, type);
  const auto [out, grad] = forward_and_vjp(t);
  const int64_t bad_key = s.n_keys() - 2, bad_value = s.n_keys() - 9;
  for (int64_t d = 0; d < s.d_k; ++d) t.in[1][bad_key * s.n_heads * s.d_k + d] = NAN;
  for (int64_t d = 0; d < s.d_v; ++d) t.in[2][bad_value * s.n_heads * s.d_v + d] = NAN;
  const auto [bad_out, bad_grad] = forward_and_vjp(t);
  // by head 0's keys and rows: which are not numbers
  std::vector<bool> of_row(s.rows()), of_k(s.n_keys() * s.n_heads), of_v(of_k);
  for (int64_t row = 0; row < s.rows(); ++row) {
    const int64_t hk = row % s.n_query_heads / s.group();
    const auto seen = visible(s, blocks, row / s.n_query_heads, hk);
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
  const auto expect = [&](const char* name, const std::vector<double>& x,
                          const std::vector<double>& y, const std::vector<bool>& bad, int64_t d) {
    bool same = true;
    double size = 0;
    for (const double v : x) size = std::max(size, std::fabs(v));
    for (size_t i = 0; i < x.size(); ++i)
      same = same && (bad[i / d] ? std::isnan(y[i]) : std::fabs(x[i] - y[i]) <= size / 64);
    check(same, s.name() + " NaN in " + name);
    check(std::count(bad.begin(), bad.end(), true) > 0, s.name() + " NaN in some " + name);
  };
  check(std::count(of_row.begin(), of_row.end(), false) > 0, s.name() + " rows without NaN");
  expect("out", out[0], bad_out[0], of_row, s.d_v);
  expect("grad q", grad[0], bad_grad[0], of_row, s.d_k);
  expect("grad k", grad[1], bad_grad[1], of_k, s.d_k);
  expect("grad v", grad[2], bad_grad[2], of_v, s.d_v);
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
    test_not_a_number(s, bf16);
    test_not_a_number(s, f32);
    s.n_query_heads = 2;
    test_not_a_number(s, f16);
    test_not_a_number(s, f32);
    s.branch = window;
    s.window = 20;
    test_not_a_number(s, f16);
    test_not_a_number(s, f32);
  }
  // more heads than rows of a tile
  Shape wide{window, {20}, {25}, 80, 1, 16, 16};
  wide.causal = true;
  wide.q_offset = 5;
  wide.window = 6;
  test_not_a_number(wide, bf16);
}

// A key whose logits are -infinity in float32 has no part in anything.
void test_infinite_logits(int64_t n_query_heads) {
  Shape s{selected, {20}, {75}, n_query_heads, 1, 32, 24};
  s.block_size = 64;
  const Problem p = attention(s);
  Trial single(p, f32), twice(p, f64);
  for (Trial* t : {&single, &twice}) {
    for (double& q : t->in[0]) q = 1 + std::fabs(q);
    for (int64_t d = 0; d < s.d_k; ++d) t->in[1][3 * s.d_k + d] = double(-3e38f);
  }
  for (const bool saved : {true, false}) {
    const auto [out, grad] = forward_and_vjp(single, saved);
    const auto [want, gradients] = forward_and_vjp(twice, saved);
    near(s.name() + " out beside -infinity", out, want, 0x1p-15);
    for (const int a : {0, 1, 2})
      near(s.name() + " vjp beside -infinity", grad, gradients, 0x1p-15, a);
  }
}

// The selection is checked on demand; a block that is not there is not seen.
void test_faults() {
  Shape s = mha();
  auto selection = draw_blocks(s);
  const auto faults = [&] {
    Device<int32_t> blocks(selection);
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
    return selection[(query * s.n_heads + 1) * s.n_slots + slot];
  };
  for (int32_t& b : selection) b = -1;
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
  const Problem p = attention(s);
  Trial t(p, f32);
  Buffers saved;
  const auto out = t.run_forward(&saved)[0];
  const Lists grad = t.run_vjp(-1, &saved);
  const auto floats = [](const std::vector<double>& x) {
    return Device<float>(std::vector<float>(x.begin(), x.end()));
  };
  auto q = floats(t.in[0]), k = floats(t.in[1]), v = floats(t.in[2]), g = floats(t.cotangents[0]);
  auto grad_q = floats(t.in[0]), grad_k = floats(t.in[1]), grad_v = floats(t.in[2]);
  Device<float> ascend_out(s.rows() * s.d_v), top(8 * s.rows()), total(8 * s.rows());
  Device<int32_t> blocks(draw_blocks(s));
  Device<int64_t> cu_q(borders(s.q_lengths)), cu_k(borders(s.k_lengths));
  const std::tuple sizes(
      s.n_queries(), s.n_keys(), s.n_query_heads, s.n_heads, s.d_k, s.d_v, int64_t(3),
      static_cast<const int32_t*>(blocks.get()), static_cast<const int64_t*>(cu_q.get()),
      static_cast<const int64_t*>(cu_k.get()), s.scale, s.block_size, s.n_slots, causal ? 2 : 0);
  run_entry(gnograd_cuda_nsa_selected_attention_forward_f32,
            gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f32, sizes, q.get(),
            k.get(), v.get(), ascend_out.get(), top.get(), total.get());
  run_entry(gnograd_cuda_nsa_selected_attention_vjp_f32,
            gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f32, sizes, g.get(), q.get(),
            k.get(), v.get(), ascend_out.get(), top.get(), total.get(), grad_q.get(), grad_k.get(),
            grad_v.get());
  check(doubles(ascend_out.host()) == out, s.name() + " out as Ascend's");
  const auto joined = saved[1]->numbers();
  const auto tops = top.host(), totals = total.host();
  bool same = true;
  for (size_t i = 0; i < tops.size(); ++i) {
    const double sum = tops[i] + std::log(totals[i]), of_row = joined[i / 8];
    same = same && (sum == of_row || std::fabs(sum - of_row) <= 1e-6 * (1 + std::fabs(of_row)));
  }
  check(same, s.name() + " maximum and sum");
  near(s.name() + " gradient as Ascend's",
       {doubles(grad_q.host()), doubles(grad_k.host()), doubles(grad_v.host())},
       {grad[0], grad[1], grad[2]}, 1e-5);
}

void test_values() {
  Shape s = mha();
  Device<int32_t> blocks(draw_blocks(s));
  Device<float> q(s.rows() * s.d_k), k(s.n_keys() * s.n_heads * s.d_k),
      v(s.n_keys() * s.n_heads * s.d_v), out(s.rows() * s.d_v);
  Device<char> workspace(1 << 20);
  const auto run = [&](int64_t heads, int64_t d_k, int64_t block_size, int duplicates) {
    return gnograd_cuda_selected_attention_forward_f32(
        s.n_queries(), s.n_keys(), s.n_query_heads, heads, d_k, s.d_v, s.n_slots, 1,
        blocks.get(), nullptr, nullptr, block_size, s.scale, 0, 0, 1, duplicates,
        q.get(), k.get(), v.get(), nullptr, out.get(), nullptr, workspace.get(), 1 << 20,
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
  const size_t each = short_run() ? 6 : 1, each_fragment = values_matter() ? 1 : 6;
  const auto small = small_shapes(), large = large_shapes(), shapes = fragment_shapes();
  for (size_t i = 0; i < small.size(); i += each) {
    auto types = single_double;
    if (i % 3 == 0) types = all_types;
    check_laws(attention(small[i]), types, i % 3 == 0 ? Depth::all : Depth::derivatives);
  }
  for (size_t i = 0; i < large.size(); i += each) check_laws(attention(large[i]), {f32});
  if (!short_run()) check_laws(attention(large[4]), {f64}, Depth::all);
  check_laws(attention(tensor_shape()), {f16, bf16});
  for (size_t i = 0; i < shapes.size(); i += each_fragment) {
    const Precision halves = i % 4 == 0 ? f16 : bf16;
    const bool in_float = std::max(shapes[i].d_k, shapes[i].d_v) <= 128;
    check_laws(attention(shapes[i]), in_float ? std::vector{f32, halves} : std::vector{halves});
  }
  if (values_matter()) {
    test_not_a_number();
    test_infinite_logits(16);
    test_infinite_logits(2);
    check_orders(attention(large[0]));
    for (const Precision type : {f32, bf16}) check_orders(attention(shapes.back()), type);
  }
  test_faults();
  test_ascend(false);
  if (!short_run()) {
    test_ascend(true);
    test_values();
  }
  return report();
}

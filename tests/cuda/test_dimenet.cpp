// SPDX-License-Identifier: MIT
// agg_edge_to_edge in every type, with every exclusion.
#include "laws.h"

namespace {

enum { reverse_edge, same_node, none };

struct Sizes {
  int64_t spherical, radial, mid, emb;
  int exclude;

  int64_t first() const { return spherical * radial; }
};

// A graph whose nodes lie in space, in a periodic cell.
struct Molecule {
  HostGraph graph;
  std::vector<double> vector;     // multiples of 1/16, which all types hold
};

Molecule place(HostGraph graph) {
  Molecule m{std::move(graph), {}};
  std::mt19937 random(9);
  const auto at = randoms<double>(3 * m.graph.n_src, random);
  m.vector.resize(3 * m.graph.n_edges(), 0.5);
  for (int64_t i = 0; i < m.graph.n_dst; ++i)
    for (int64_t p = m.graph.offsets[i]; p < m.graph.offsets[i + 1]; ++p) {
      const int64_t e = m.graph.row(p), j = m.graph.indices[p];
      // some edges go to the next cell; self-loops in their own have no length
      const int image = random() % 4 ? 0 : 1;
      for (int c = 0; c < 3; ++c) m.vector[3 * e + c] = at[3 * i + c] - at[3 * j + c] + image;
    }
  return m;
}

// Nodes with several edges in both directions, with repeated edges and self-loops.
Molecule crowd(int64_t room = 0) {
  auto random = std::make_shared<std::mt19937>(11);
  const HostGraph graph = make_graph(
      "crowd", 8, 8, true, [](int64_t i) { return i % 4 == 3 ? 0 : 5; },
      [=](int64_t) { return int64_t((*random)() % 8); });
  return place(room ? with_room(graph, room) : graph);
}
// More edges at one node than a tile has, on both sides.
Molecule hub() {
  auto random = std::make_shared<std::mt19937>(12);
  return place(make_graph(
      "hub", 14, 14, false, [](int64_t i) { return i ? 3 : 11; },
      [=](int64_t i) { return i ? 0 : int64_t((*random)() % 14); }));
}
// Molecule with so many edges at a node that it is the work of several blocks, on both sides.
Molecule crossing() {
  auto random = std::make_shared<std::mt19937>(13);
  return place(make_graph(
      "crossing", 14, 14, true, [](int64_t i) { return i ? 3 : 140; },
      [=](int64_t i) { return i ? 0 : int64_t((*random)() % 14); }));
}
// More nodes than pieces of work, or than are summed at once.
Molecule ring(int64_t n) {
  return place(make_graph(
      "ring of " + std::to_string(n), n, n, false, [](int64_t) { return 1; },
      [=](int64_t i) { return (i + n - 1) % n; }));
}
Molecule empty(int64_t n) { return place(without_edges(n, n)); }

// Cosines are off by up to 12 roundings of float32, which the derivative of P_l multiplies by up to
// l (l + 1)/2.
Problem triplets(const Molecule& m, Sizes s) {
  const auto graph = on_device(m.graph);
  const int64_t n = m.graph.n_edges();
  const std::tuple sizes(&graph->view, s.spherical, s.radial, s.mid, s.emb, s.exclude);
  const auto narrow = [](int64_t n) { return std::exp2(-std::round(std::log2(n) / 2)); };
  return {m.graph.name + ", " + std::to_string(s.spherical) + " " + std::to_string(s.radial) + " " +
              std::to_string(s.mid) + " " + std::to_string(s.emb) + " exclude " +
              std::to_string(s.exclude),
          {{3 * n},
           {n * s.first(), narrow(s.radial)},
           {n * s.emb},
           {(s.first() + s.emb) * s.mid, narrow(s.mid)}},
          {{n * s.emb}},
          {},
          FOUR_TYPES(agg_edge_to_edge, sizes, graph),
          false,  // vectors of no length, and pairs that sum to zero
          4,
          [vector = m.vector](Lists& in) { in[0] = vector; }};
}

void test_refusals() {
  const Molecule m = empty(2);
  DeviceGraph d = to_device(m.graph);
  const Sizes wrong[] = {{0, 6, 8, 64, none},  {11, 6, 8, 64, none}, {7, 17, 8, 64, none},
                         {7, 6, 65, 64, none}, {7, 6, 8, 513, none}, {7, 6, 8, 64, 3}};
  for (const Sizes& s : wrong)
    check(gnograd_cuda_agg_edge_to_edge_forward_f32(
              &d.view, s.spherical, s.radial, s.mid, s.emb, s.exclude, nullptr, nullptr, nullptr,
              nullptr, nullptr, nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE,
          "a size or code beyond its range is refused");
  d.view.n_src = 3;
  check(gnograd_cuda_agg_edge_to_edge_forward_f32(&d.view, 7, 6, 8, 64, none, nullptr, nullptr,
                                                  nullptr, nullptr, nullptr, nullptr, 0,
                                                  nullptr) == GNOGRAD_CUDA_VALUE,
        "a bipartite graph is refused");
}

}  // namespace

int main() {
  require_device();
  const auto test = [](const Molecule& m, Sizes s, Depth depth = Depth::numbers) {
    check_laws(triplets(m, s), depth == Depth::all ? all_types : some_types(), depth);
  };
  for (const int exclude : {reverse_edge, same_node, none})
    test(crowd(), {3, 2, 5, 20, exclude}, all_if(exclude == reverse_edge));
  test(crowd(), {7, 6, 8, 64, reverse_edge});
  test(crowd(), {10, 2, 11, 70, reverse_edge}, Depth::all);
  test(crowd(), {1, 1, 1, 1, none});
  test(hub(), {4, 1, 2, 9, reverse_edge});
  test(hub(), {7, 6, 8, 64, same_node});
  test(crossing(), {3, 1, 2, 9, reverse_edge});
  test(ring(70), {2, 1, 2, 5, reverse_edge});
  if (!short_run()) test(ring(2), {10, 16, 64, 512, none});  // the largest sizes
  test(crowd(40), {3, 2, 5, 20, reverse_edge}, Depth::all);
  for (const Molecule& m : {empty(3), empty(0), place(with_room(without_edges(3, 3), 5))})
    test(m, {3, 2, 5, 20, reverse_edge});
  // weights so large that there are fewer pieces of work than nodes; and so many nodes that a
  // unit's is found in three steps
  check_laws(triplets(ring(40), {1, 1, 64, 512, none}), {f32});
  check_laws(triplets(ring(1100), {2, 1, 2, 5, reverse_edge}), {f32});
  if (!short_run()) check_orders(triplets(crowd(), {7, 2, 8, 64, reverse_edge}));
  test_refusals();
  return report();
}

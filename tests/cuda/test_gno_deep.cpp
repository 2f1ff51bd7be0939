// SPDX-License-Identifier: MIT
// gno_deep against its formula edge by edge in float64: every face, activation and reduction, with
// and without what nodes, edges and functions bring, on irregular graphs.
#include "edge_network_cases.h"

enum { sum, mean };
enum { h, y, x, c, layers, weight };

struct Options {
  int64_t functions = 1;  // 0: ones
  int64_t d_y = 2, d_x = 1, d_c = 2;
  std::vector<int64_t> widths = {5, 4, 3};
  int activation = gelu, reduction = sum;
  bool weighted = false;
};

struct Deep {
  const HostGraph& graph;
  Options o;

  static constexpr const char* input_names[] = {"h", "y", "x", "c", "layers", "edge_weight"};
  static constexpr const char* output_names[] = {"out"};
  static constexpr int layers_input = layers;

  Layers network() const { return {o.d_y + o.d_x + o.d_c, o.widths, o.activation}; }
  int64_t width() const { return o.widths.back(); }
  int64_t all() const { return std::max<int64_t>(o.functions, 1) * width(); }
  double layers_scale() const {
    return 1 / std::sqrt(double(*std::max_element(o.widths.begin(), o.widths.end())));
  }
  std::vector<int64_t> inputs() const {
    const auto table = [](int64_t n, int64_t columns) { return columns ? n * columns : -1; };
    return {table(graph.n_src, o.functions * width()),
            table(graph.n_src, o.d_y),
            table(graph.n_dst, o.d_x),
            table(graph.n_edges(), o.d_c),
            network().n_packed(),
            o.weighted ? graph.n_edges() : -1};
  }
  std::vector<int64_t> outputs() const { return {graph.n_dst * all()}; }
  std::string text() const {
    std::string s = std::string("gno_deep, ") + activation_names[o.activation] +
                    (o.reduction == mean ? " mean" : " sum") + (o.weighted ? " weighted, " : ", ") +
                    graph.name + ", " + std::to_string(o.functions) + " functions, " +
                    std::to_string(o.d_y) + "+" + std::to_string(o.d_x) + "+" +
                    std::to_string(o.d_c);
    for (const int64_t w : o.widths) s += "-" + std::to_string(w);
    return s + ",";
  }

  // f(destination, source, edge, z)
  template <class N, class F>
  void each(const Arrays<N>& in, F f) const {
    for_edges(graph, [&](int64_t i, int64_t j, int64_t e) {
      std::vector<N> z;
      for (int64_t a = 0; a < o.d_y; ++a) z.push_back(in[y][j * o.d_y + a]);
      for (int64_t a = 0; a < o.d_x; ++a) z.push_back(in[x][i * o.d_x + a]);
      for (int64_t a = 0; a < o.d_c; ++a) z.push_back(in[c][e * o.d_c + a]);
      f(i, j, e, z);
    });
  }
  template <class N>
  N scale(int64_t i) const {
    const int64_t degree = graph.offsets[i + 1] - graph.offsets[i];
    return o.reduction == mean ? N(1) / N(double(degree)) : N(1);
  }
  template <class N>
  Arrays<N> forward(const Arrays<N>& in) const {
    std::vector<N> out(graph.n_dst * all());
    each(in, [&](int64_t i, int64_t j, int64_t e, const std::vector<N>& z) {
      Arrays<N> pre;
      const auto k = network().forward(in[layers], z, pre).back();
      for (int64_t f = 0; f < all(); ++f) {
        N m = scale<N>(i) * k[f % width()];
        if (o.functions) m *= in[h][j * all() + f];
        if (o.weighted) m *= in[weight][e];
        out[i * all() + f] += m;
      }
    });
    return {out};
  }
  template <class N>
  Arrays<N> vjp(const Arrays<N>& g, const Arrays<N>& in) const {
    Arrays<N> grad;
    for (const auto& a : in) grad.emplace_back(a.size());
    each(in, [&](int64_t i, int64_t j, int64_t e, const std::vector<N>& z) {
      Arrays<N> pre;
      const auto read = network().forward(in[layers], z, pre);
      const N w = o.weighted ? in[weight][e] : N(1);
      std::vector<N> to_kernel(width());
      for (int64_t f = 0; f < all(); ++f) {
        const N k = read.back()[f % width()], to = scale<N>(i) * g[0][i * all() + f];
        const N feature = o.functions ? in[h][j * all() + f] : N(1);
        to_kernel[f % width()] += w * feature * to;
        if (o.weighted) grad[weight][e] += k * feature * to;
        if (o.functions) grad[h][j * all() + f] += w * k * to;
      }
      const auto to_z = network().backward(in[layers], read, pre, to_kernel, grad[layers]);
      for (int64_t a = 0; a < o.d_y; ++a) grad[y][j * o.d_y + a] += to_z[a];
      for (int64_t a = 0; a < o.d_x; ++a) grad[x][i * o.d_x + a] += to_z[o.d_y + a];
      for (int64_t a = 0; a < o.d_c; ++a) grad[c][e * o.d_c + a] += to_z[o.d_y + o.d_x + a];
    });
    return grad;
  }
  template <class T>
  void run(const std::string& face, const gnograd_cuda_graph& view,
           const std::vector<void*>& a) const {
    const auto sizes =
        std::make_tuple(&view, o.functions, o.d_y, o.d_x, o.d_c, network().n_in,
                        int64_t(o.widths.size()), o.widths.data(), o.activation, o.reduction);
    if constexpr (std::is_same_v<T, float>) {
      CALL_FACES(gno_deep, 6, 1, f32, face, sizes, a)
    } else {
      CALL_FACES(gno_deep, 6, 1, f64, face, sizes, a)
    }
  }
};

template <class T>
void test(const HostGraph& graph, Options o, bool thoroughly = false) {
  FacesCase<Deep, T>({graph, std::move(o)}).test(thoroughly);
}

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  const Options everything{.functions = 2, .d_x = 2, .reduction = mean, .weighted = true};
  for (const HostGraph& graph : graphs) test<T>(graph, everything);
  test<T>(square, everything, true);
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    test<T>(square, {.widths = {4, 3}, .activation = activation});
  test<T>(irregular, {.functions = 0, .d_y = 0, .widths = {3, 1}, .weighted = true});
  test<T>(irregular, {.d_x = 0, .d_c = 0, .widths = {3, 4, 5, 2}, .activation = silu});
  test<T>(square, {.functions = 3, .d_y = 0, .d_x = 0, .widths = {3}, .reduction = mean});
  test<T>(square, {.d_x = 3, .d_c = 0, .widths = {4}});
}

int main() {
  require_device();
  const HostGraph irregular = power_law();
  const std::vector<HostGraph> graphs = {irregular,
                                         small_square(),
                                         with_room(irregular, 150),
                                         with_room(without_edges(3, 5), 4),
                                         without_edges(0, 2),
                                         without_edges(4, 0)};
  test_type<float>(short_run() ? graphs : std::vector{irregular, graphs[1]});
  if (!short_run()) test_type<double>(graphs);
  // more than a tile of products, more nodes than one sum
  test<double>(graphs[1], {.functions = 1, .d_y = 70, .d_c = 3, .widths = {66, 5, 70}});
  test<float>(graphs[1], {.functions = 1, .d_c = 65, .widths = {3, 130, 2}, .activation = silu});
  // many chunks of edges
  test<double>(irregular, {.functions = 2, .widths = {40, 20, 6}, .weighted = true});
  const HostGraph many = many_nodes();
  test<double>(many, {.widths = {3, 2}, .activation = hyperbolic, .reduction = mean});
  FacesCase<Deep, float> shuffled({irregular, {.functions = 2, .weighted = true}});
  check_same_bits(shuffled);
  return report();
}

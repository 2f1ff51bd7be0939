// SPDX-License-Identifier: MIT
// edge_mlp against its formula edge by edge in float64: every face, activation, reduction and
// choice of results, with and without normalisation, residual and weights, on irregular graphs.
#include "edge_network_cases.h"

enum { sum, mean };
enum { both, edges_only, nodes_only };
enum { e, x_src, x_dst, weights, edge_weight };
enum { edges, nodes };

struct Options {
  int64_t f_e = 3, f_s = 2, f_d = 1;
  std::vector<int64_t> widths = {5, 4, 3};
  int activation = silu;
  bool norm = true, residual = true;
  int reduction = sum, results = both;
  bool weighted = false;
};

struct Mlp {
  const HostGraph& graph;
  Options o;

  static constexpr const char* input_names[] = {"e", "x_src", "x_dst", "weights", "edge_weight"};
  static constexpr const char* output_names[] = {"edges", "nodes"};
  static constexpr int layers_input = weights;

  Layers network() const { return {o.f_e + o.f_s + o.f_d, o.widths, o.activation}; }
  int64_t width() const { return o.widths.back(); }
  double layers_scale() const {
    return 1 / std::sqrt(double(*std::max_element(o.widths.begin(), o.widths.end())));
  }
  std::vector<int64_t> inputs() const {
    const auto table = [](int64_t n, int64_t columns) { return columns ? n * columns : -1; };
    return {table(graph.n_edges(), o.f_e), table(graph.n_src, o.f_s), table(graph.n_dst, o.f_d),
            network().n_packed() + (o.norm ? 2 * width() : 0), o.weighted ? graph.n_edges() : -1};
  }
  std::vector<int64_t> outputs() const {
    return {o.results == nodes_only ? -1 : graph.n_edges() * width(),
            o.results == edges_only ? -1 : graph.n_dst * width()};
  }
  std::string text() const {
    std::string s = std::string("edge_mlp, ") + activation_names[o.activation] +
                    (o.norm ? " normalised" : "") + (o.residual ? " residual" : "") +
                    (o.reduction == mean ? " mean" : " sum") + (o.weighted ? " weighted" : "") +
                    " results " + std::to_string(o.results) + ", " + graph.name + ", " +
                    std::to_string(o.f_e) + "+" + std::to_string(o.f_s) + "+" +
                    std::to_string(o.f_d);
    for (const int64_t w : o.widths) s += "-" + std::to_string(w);
    return s + ",";
  }

  // Results of one edge: what its layers read, the normalised result, 1/sigma, and edges
  template <class N>
  struct Made {
    Arrays<N> pre, read;
    std::vector<N> normal, out;
    N inverse;
  };
  template <class N>
  Made<N> make(const Arrays<N>& in, int64_t i, int64_t j, int64_t p) const {
    using R = typename RealPart<N>::type;
    std::vector<N> z;
    for (int64_t a = 0; a < o.f_e; ++a) z.push_back(in[e][p * o.f_e + a]);
    for (int64_t a = 0; a < o.f_s; ++a) z.push_back(in[x_src][j * o.f_s + a]);
    for (int64_t a = 0; a < o.f_d; ++a) z.push_back(in[x_dst][i * o.f_d + a]);
    Made<N> m;
    m.read = network().forward(in[weights], z, m.pre);
    m.out = m.normal = m.read.back();
    if (o.norm) {
      N average = 0, square = 0;
      for (const N x : m.normal) average += x / R(width());
      for (N& x : m.normal) x -= average, square += x * x / R(width());
      m.inverse = R(1) / std::sqrt(square + R(1e-5));
      const N* gamma = &in[weights][network().n_packed()];
      for (int64_t k = 0; k < width(); ++k) {
        m.normal[k] *= m.inverse;
        m.out[k] = m.normal[k] * gamma[k] + gamma[width() + k];
      }
    }
    for (int64_t k = 0; o.residual && k < width(); ++k) m.out[k] += in[e][p * width() + k];
    return m;
  }
  // Sums of the weights, or 1
  template <class N>
  std::vector<N> divisors(const Arrays<N>& in) const {
    std::vector<N> total(graph.n_dst, N(o.reduction == mean ? 0 : 1));
    if (o.reduction == mean)
      for_edges(graph, [&](int64_t i, int64_t, int64_t p) {
        total[i] += o.weighted ? in[edge_weight][p] : N(1);
      });
    return total;
  }
  template <class N>
  Arrays<N> forward(const Arrays<N>& in) const {
    const auto total = divisors(in);
    Arrays<N> out{std::vector<N>(o.results == nodes_only ? 0 : graph.n_edges() * width()),
                  std::vector<N>(o.results == edges_only ? 0 : graph.n_dst * width())};
    for_edges(graph, [&](int64_t i, int64_t j, int64_t p) {
      const auto made = make(in, i, j, p);
      const N w = o.weighted ? in[edge_weight][p] : N(1);
      for (int64_t k = 0; k < width(); ++k) {
        if (o.results != nodes_only) out[edges][p * width() + k] = made.out[k];
        if (o.results != edges_only) out[nodes][i * width() + k] += w / total[i] * made.out[k];
      }
    });
    return out;
  }
  template <class N>
  Arrays<N> vjp(const Arrays<N>& g, const Arrays<N>& in) const {
    using R = typename RealPart<N>::type;
    const auto total = divisors(in);
    const auto sums = forward(in)[nodes];
    Arrays<N> grad;
    for (const auto& a : in) grad.emplace_back(a.size());
    for_edges(graph, [&](int64_t i, int64_t j, int64_t p) {
      const auto made = make(in, i, j, p);
      const N w = o.weighted ? in[edge_weight][p] : N(1);
      std::vector<N> to(width());
      for (int64_t k = 0; k < width(); ++k) {
        if (o.results != nodes_only) to[k] += g[edges][p * width() + k];
        if (o.results == edges_only) continue;
        const N at_node = g[nodes][i * width() + k] / total[i];
        to[k] += w * at_node;
        if (!o.weighted) continue;
        const N moved = o.reduction == mean ? made.out[k] - sums[i * width() + k] : made.out[k];
        grad[edge_weight][p] += at_node * moved;
      }
      for (int64_t k = 0; o.residual && k < width(); ++k) grad[e][p * width() + k] += to[k];
      if (o.norm) {
        const int64_t gamma = network().n_packed();
        N average = 0, turned = 0;
        for (int64_t k = 0; k < width(); ++k) {
          grad[weights][gamma + k] += to[k] * made.normal[k];
          grad[weights][gamma + width() + k] += to[k];
          to[k] *= in[weights][gamma + k];
          average += to[k] / R(width()), turned += to[k] * made.normal[k] / R(width());
        }
        for (int64_t k = 0; k < width(); ++k)
          to[k] = made.inverse * (to[k] - average - made.normal[k] * turned);
      }
      const auto to_z = network().backward(in[weights], made.read, made.pre, to, grad[weights]);
      for (int64_t a = 0; a < o.f_e; ++a) grad[e][p * o.f_e + a] += to_z[a];
      for (int64_t a = 0; a < o.f_s; ++a) grad[x_src][j * o.f_s + a] += to_z[o.f_e + a];
      for (int64_t a = 0; a < o.f_d; ++a) grad[x_dst][i * o.f_d + a] += to_z[o.f_e + o.f_s + a];
    });
    return grad;
  }
  template <class T>
  void run(const std::string& face, const gnograd_cuda_graph& view,
           const std::vector<void*>& a) const {
    const auto sizes = std::make_tuple(&view, o.f_e, o.f_s, o.f_d, network().n_in,
                                       int64_t(o.widths.size()), o.widths.data(), o.activation,
                                       int(o.norm), int(o.residual), o.reduction, o.results);
    if constexpr (std::is_same_v<T, float>) {
      CALL_FACES(edge_mlp, 5, 2, f32, face, sizes, a)
    } else {
      CALL_FACES(edge_mlp, 5, 2, f64, face, sizes, a)
    }
  }
};

template <class T>
void test(const HostGraph& graph, Options o, bool thoroughly = false) {
  FacesCase<Mlp, T>({graph, std::move(o)}).test(thoroughly);
}

template <class T>
void test_type(const std::vector<HostGraph>& graphs) {
  const HostGraph &irregular = graphs[0], &square = graphs[1];
  for (const HostGraph& graph : graphs) test<T>(graph, {.reduction = mean});
  test<T>(square, {.weighted = true}, true);
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    test<T>(square, {.f_s = 3, .widths = {4, 3}, .activation = activation, .norm = false});
  for (const int results : {edges_only, nodes_only}) {
    test<T>(irregular, {.f_e = 2, .residual = false, .results = results, .weighted = true});
    test<T>(square, {.widths = {3}, .norm = false, .results = results});
  }
  test<T>(square, {.f_e = 0, .widths = {3, 4, 5, 2}, .norm = false, .residual = false});
  test<T>(square, {.f_s = 0, .f_d = 0, .widths = {6, 3}, .norm = false});
  test<T>(square, {.f_e = 0, .f_s = 4, .f_d = 0, .widths = {4}, .norm = false, .residual = false});
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
  // the sum of the weights moves with each of them
  Options weighted_mean{.reduction = mean, .weighted = true};
  test<double>(graphs[1], weighted_mean, true);
  // more than a warp's features, more than a tile of products, many chunks of edges
  test<double>(graphs[1], {.f_e = 40, .f_s = 3, .f_d = 70, .widths = {66, 5, 40}});
  test<double>(irregular, {.f_e = 6, .widths = {40, 20, 6}, .activation = gelu});
  test<double>(many_nodes(), {.widths = {4, 3}, .activation = hyperbolic});
  FacesCase<Mlp, float> shuffled({irregular, {.reduction = mean, .results = nodes_only}});
  check_same_bits(shuffled);
  return report();
}

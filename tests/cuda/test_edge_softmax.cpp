// SPDX-License-Identifier: MIT
// edge_softmax against plain loops in float64.
#include "one_output.h"

ABI(edge_softmax, float, f32)
ABI(edge_softmax, double, f64)
ABI(edge_softmax, __half, f16)
ABI(edge_softmax, __nv_bfloat16, bf16)

namespace {

struct EdgeSoftmax {
  static constexpr const char* name = "edge_softmax";
  static constexpr int n_inputs = 1, n_saved = 1;

  static std::array<int64_t, 1> inputs(const HostGraph& g, int64_t heads) {
    return {g.n_edges() * heads};
  }
  static int64_t output(const HostGraph& g, int64_t heads) { return g.n_edges() * heads; }

  template <class N>
  struct Oracle {
    using R = typename RealPart<N>::type;
    using Arrays = std::array<std::vector<N>, 1>;
    const HostGraph& g;
    int64_t heads;

    // f(first edge, last edge, head)
    template <class F>
    void for_softmaxes(F f) const {
      for (int64_t i = 0; i < g.n_dst; ++i)
        for (int64_t h = 0; h < heads; ++h) f(g.offsets[i], g.offsets[i + 1], h);
    }
    int64_t at(int64_t p, int64_t h) const { return g.row(p) * heads + h; }

    std::vector<N> forward(const Arrays& in) const {
      std::vector<N> out(in[0].size());
      for_softmaxes([&](int64_t first, int64_t last, int64_t h) {
        R top = -INFINITY;
        for (int64_t p = first; p < last; ++p) top = std::max(top, R(std::real(in[0][at(p, h)])));
        N sum = 0;
        for (int64_t p = first; p < last; ++p)
          sum += out[at(p, h)] = std::exp(in[0][at(p, h)] - top);
        for (int64_t p = first; p < last; ++p) out[at(p, h)] /= sum;
      });
      return out;
    }
    Arrays vjp(const std::vector<N>& c, const Arrays& in) const {
      Arrays grad{forward(in)};
      for_softmaxes([&](int64_t first, int64_t last, int64_t h) {
        N mean = 0;
        for (int64_t p = first; p < last; ++p) mean += grad[0][at(p, h)] * c[at(p, h)];
        for (int64_t p = first; p < last; ++p) grad[0][at(p, h)] *= c[at(p, h)] - mean;
      });
      return grad;
    }
  };
};

// An edge with a score of -inf has no weight, wherever it stands; with no other there is none.
void test_minus_infinity() {
  HostGraph graph = power_law();
  std::vector<double> s(graph.n_edges(), -INFINITY);
  for (int64_t i = 0; i < graph.n_dst; i += 2)
    for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; p += 3)
      s[graph.row(p)] = 0.01 * double(p);
  DeviceGraph d = to_device(graph);
  Device<double> x(s), out(s.size());
  run_entry(Abi<double>::forward, Abi<double>::forward_bytes, std::tuple(&d.view, int64_t(1)),
            x.get(), out.get());
  const auto got = out.host();
  bool good = true;
  for (int64_t i = 0; i < graph.n_dst; ++i) {
    double sum = 0;
    for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; ++p) {
      good = good && (got[graph.row(p)] > 0) == (s[graph.row(p)] > -INFINITY);
      sum += got[graph.row(p)];
    }
    const bool any = i % 2 == 0 && graph.offsets[i] < graph.offsets[i + 1];
    good = good && std::fabs(sum - any) < 1e-14;
  }
  check(good, "edge_softmax of -inf");
}

}  // namespace

int main() {
  require_device();
  if (!short_run()) test_type<EdgeSoftmax, double>({0, 1, 3, 33, 70});
  test_type<EdgeSoftmax, float>({0, 1, 3, 33, 70});
  test_type<EdgeSoftmax, __half>({1, 4});
  test_type<EdgeSoftmax, __nv_bfloat16>({1, 4});
  test_minus_infinity();
  const HostGraph graph = power_law();
  Case<EdgeSoftmax, float> c(graph, 3);
  check_same_bits(c);
  return report();
}

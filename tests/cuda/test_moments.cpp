// SPDX-License-Identifier: MIT
// offset_moments against plain loops in float64.
#include "one_output.h"

ABI(offset_moments, float, f32)
ABI(offset_moments, double, f64)

namespace {

struct OffsetMoments {
  static constexpr const char* name = "offset_moments";
  static constexpr int n_inputs = 2, n_saved = 0;

  static int64_t columns(int64_t d) { return 2 + d + d * (d + 1) / 2; }
  static std::array<int64_t, 2> inputs(const HostGraph& g, int64_t d) {
    return {g.n_src * d, g.n_dst * d};
  }
  static int64_t output(const HostGraph& g, int64_t d) { return g.n_dst * columns(d); }

  template <class N>
  struct Oracle {
    using R = typename RealPart<N>::type;
    using Arrays = std::array<std::vector<N>, 2>;
    const HostGraph& g;
    int64_t d;

    std::vector<N> offset(const Arrays& in, int64_t i, int64_t p) const {
      std::vector<N> r(d);
      for (int64_t a = 0; a < d; ++a) r[a] = in[0][g.indices[p] * d + a] - in[1][i * d + a];
      return r;
    }
    // 0 with all its derivatives where the points coincide
    static N length(const std::vector<N>& r) {
      N sum = 0;
      bool apart = false;
      for (const N& x : r) {
        sum += x * x;
        apart = apart || std::real(x) != 0;
      }
      return apart ? std::sqrt(sum) : N(0);
    }
    R degree(int64_t i) const { return R(std::max<int64_t>(1, g.offsets[i + 1] - g.offsets[i])); }

    std::vector<N> forward(const Arrays& in) const {
      std::vector<N> out(g.n_dst * columns(d));
      for (int64_t i = 0; i < g.n_dst; ++i) {
        N* row = &out[i * columns(d)];
        for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
          const auto r = offset(in, i, p);
          row[0] += length(r) / degree(i);
          for (int64_t a = 0; a < d; ++a) row[2 + a] += r[a] / degree(i);
        }
        for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
          const auto r = offset(in, i, p);
          const N spread = length(r) - row[0];
          row[1] += spread * spread / degree(i);
          int64_t k = 2 + d;
          for (int64_t a = 0; a < d; ++a)
            for (int64_t b = a; b < d; ++b)
              row[k++] += (r[a] - row[2 + a]) * (r[b] - row[2 + b]) / degree(i);
        }
      }
      return out;
    }
    Arrays vjp(const std::vector<N>& c, const Arrays& in) const {
      const auto moments = forward(in);
      Arrays grad{std::vector<N>(in[0].size()), std::vector<N>(in[1].size())};
      for (int64_t i = 0; i < g.n_dst; ++i) {
        const N *row = &moments[i * columns(d)], *ci = &c[i * columns(d)];
        for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) {
          const auto r = offset(in, i, p);
          const N l = length(r);
          std::vector<N> to(d);
          for (int64_t a = 0; a < d; ++a) {
            to[a] = ci[2 + a];
            if (std::real(l) != 0) to[a] += (ci[0] + R(2) * ci[1] * (l - row[0])) * r[a] / l;
          }
          int64_t k = 2 + d;
          for (int64_t a = 0; a < d; ++a)
            for (int64_t b = a; b < d; ++b, ++k) {
              to[a] += ci[k] * (r[b] - row[2 + b]);
              to[b] += ci[k] * (r[a] - row[2 + a]);
            }
          for (int64_t a = 0; a < d; ++a) {
            grad[0][g.indices[p] * d + a] += to[a] / degree(i);
            grad[1][i * d + a] -= to[a] / degree(i);
          }
        }
      }
      return grad;
    }
  };
};

}  // namespace

int main() {
  require_device();
  if (!short_run()) test_type<OffsetMoments, double>({1, 2, 3, 5});
  test_type<OffsetMoments, float>({1, 2, 3, 5});
  const HostGraph graph = power_law();
  Case<OffsetMoments, float> c(graph, 3);
  check_same_bits(c);
  return report();
}

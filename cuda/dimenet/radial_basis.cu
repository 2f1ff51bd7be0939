// SPDX-License-Identifier: MIT
// Radial basis of DimeNet++, for 0 < x < 1, else zero:
//
//     rbf(n)    = u(x) sin(w_n x)/x
//     sbf(l, n) = u(x) N_ln j_l(z_ln x)/x
//
// z_ln is the n-th zero of the spherical Bessel function j_l, N_ln = sqrt(2)/|j_(l+1)(z_ln)|, and u
// the envelope. There are few values an edge, so that all types compute in double, with the same
// formulas as on the CPU.
#include <cfloat>

#include "device/call.cuh"
#include "device/lanes.cuh"
#include "device/sums.cuh"

namespace gnograd {
namespace {

constexpr int max_spherical = 10, max_radial = 16, max_exponent = 100;

// ---- spherical Bessel functions ----

// t^l/(2l+1)!! sum_k (-t^2/2)^k/(k! (2l+3)(2l+5)...(2l+2k+1))
__host__ __device__ inline double bessel_series(int l, double t) {
  double term = 1;
  for (int k = 1; k <= l; ++k) term *= t / (2 * k + 1);
  double total = term;
  for (int k = 1;; ++k) {
    term *= -t * t / (2 * k * (2 * l + 2 * k + 1));
    total += term;
    if (fabs(term) <= DBL_EPSILON / 8 * fabs(total)) return total;
  }
}

// j_l to j_(l+Extra) at t, to a few units in the last place of the larger of |j_l| and 1/t: the
// recurrence is stable above the turning point t = l, the power series below.
template <int Extra>
__host__ __device__ void spherical_bessel(int l, double t, double (&j)[Extra + 1]) {
  if (fabs(t) <= l + Extra + 1) {
    for (int k = 0; k <= Extra; ++k) j[k] = bessel_series(l + k, t);
    return;
  }
  double here = sin(t) / t, next = (here - cos(t)) / t;
  for (int k = 0; k <= l + Extra; ++k) {
    for (int i = 0; i <= Extra; ++i)
      if (k == l + i) j[i] = here;
    const double before = here;
    here = next;
    next = (2 * k + 3) * here / t - before;
  }
}

// Zeros and norms of the largest basis; a smaller one has the first of them.
struct BesselTable {
  double zero[max_spherical][max_radial], norm[max_spherical][max_radial];

  BesselTable() {
    // The zeros of j_0 are n pi, those of j_l lie between two of j_(l-1).
    constexpr int n_zeros = max_spherical + max_radial;
    double zeros[n_zeros], j[2];
    for (int n = 0; n < n_zeros; ++n) zeros[n] = (n + 1) * 3.14159265358979323846;
    for (int l = 0; l < max_spherical; ++l) {
      for (int n = 0; l > 0 && n < n_zeros - l; ++n)
        zeros[n] = find_zero(l, zeros[n], zeros[n + 1], n % 2 ? -1 : 1);
      for (int n = 0; n < max_radial; ++n) {
        spherical_bessel<1>(l, zeros[n], j);
        zero[l][n] = zeros[n];
        norm[l][n] = sqrt(2.0) / fabs(j[1]);
      }
    }
  }
  // By Newton's method, and by halving where that leaves the bracket; below the zero j_l has this
  // sign.
  static double find_zero(int l, double low, double high, int sign) {
    double t = (low + high) / 2, j[2];
    for (;;) {
      spherical_bessel<1>(l, t, j);
      (j[0] * sign > 0 ? low : high) = t;
      const double newton = t - j[0] / (l / t * j[0] - j[1]);
      if (fabs(newton - t) <= 4 * DBL_EPSILON * t) return newton;
      t = newton > low && newton < high ? newton : (low + high) / 2;
      if (high - low <= 4 * DBL_EPSILON * t) return t;
    }
  }
};

const BesselTable& bessel_table() {
  static const BesselTable made;
  return made;
}

// ---- one function of the basis ----

// u(x) = 1 - (P+1)(P+2)/2 x^P + P(P+2) x^(P+1) - P(P+1)/2 x^(P+2), P = exponent + 1, as
// (1-x)^3 sum_{k<P} (k+1)(k+2)/2 x^k, which keeps its digits up to the cutoff; u', u''
struct Envelope {
  double u[3];

  __device__ Envelope(int p, double x) {
    double total = 0, power = 1;  // x^(P-2)
    for (int k = p - 1; k >= 0; --k) total = total * x + 0.5 * (k + 1) * (k + 2);
    for (int k = 0; k < p - 2; ++k) power *= x;
    const double rest = 1 - x, slope = -0.5 * p * (p + 1.0) * (p + 2.0) * power * rest;
    u[0] = rest * rest * rest * total;
    u[1] = slope * x * rest;
    u[2] = slope * ((p - 1) * rest - 2 * x);
  }
};

// A function of the basis with its derivatives by x and w, those that `Order` asks for.
struct BasisValue {
  double f = 0, x = 0, w = 0, xx = 0, xw = 0, ww = 0;
};

// (u h)^(i) from u and h
__device__ inline void times_envelope(const Envelope& e, const double (&h)[3], BasisValue& point) {
  point.f = e.u[0] * h[0];
  point.x = e.u[1] * h[0] + e.u[0] * h[1];
  point.xx = e.u[2] * h[0] + 2 * e.u[1] * h[1] + e.u[0] * h[2];
}

template <int Order>
__device__ BasisValue radial(const Envelope& e, double w, double x) {
  // sin(t)/t = j_0, and j_0' = -j_1, j_1' = (j_0 - 2 j_2)/3
  double j[Order + 1], h[3] = {};
  const double t = w * x;
  spherical_bessel<Order>(0, t, j);
  h[0] = w * j[0];
  if constexpr (Order > 0) h[1] = -w * w * j[1];
  if constexpr (Order > 1) h[2] = w * w * w * (2 * j[2] - j[0]) / 3;
  BasisValue point;
  times_envelope(e, h, point);
  if constexpr (Order > 0) point.w = e.u[0] * cos(t);
  if constexpr (Order > 1) {
    point.xw = e.u[1] * cos(t) - e.u[0] * w * sin(t);
    point.ww = -e.u[0] * x * sin(t);
  }
  return point;
}

template <int Order>
__device__ BasisValue spherical(const Envelope& e, int l, double z, double norm, double x) {
  // k = j_l/t: k' = (l-1) k/t - j_(l+1)/t,
  // k'' = (l-1)(l-2) k/t^2 - (2l-1) j_(l+1)/t^2 + j_(l+2)/t
  double j[Order + 1], h[3] = {};
  spherical_bessel<Order>(l, z * x, j);
  h[0] = norm * j[0] / x;
  if constexpr (Order > 0) h[1] = norm * ((l - 1) * j[0] / x - z * j[1]) / x;
  if constexpr (Order > 1)
    h[2] = norm * (((l - 1) * (l - 2) * j[0] / x - (2 * l - 1) * z * j[1]) / x + z * z * j[2]) / x;
  BasisValue point;
  times_envelope(e, h, point);
  return point;
}

template <class T>
struct Basis {
  BesselTable table;
  int64_t n_edges;
  int n_spherical, n_radial, exponent;
  const T *x, *w;          // [n_edges], [n_radial]
  const T *x_dot, *w_dot;  // their tangents, or null

  __host__ __device__ int n_functions() const { return n_radial * (1 + n_spherical); }
  __device__ static double read(const T* p, int64_t i) { return p ? double(real<T>(p[i])) : 0; }

  // Function c of edge e: the radial ones, then the spherical ones. Outside of 0 < x < 1 all is
  // zero: an edge without length has no radial part, as it has no direction.
  template <int Order>
  __device__ BasisValue at(int64_t e, int c) const {
    const double r = read(x, e);
    if (r <= 0 || r >= 1) return {};
    const Envelope envelope(exponent + 1, r);
    if (c < n_radial) return radial<Order>(envelope, read(w, c), r);
    const int l = c / n_radial - 1, n = c % n_radial;
    return spherical<Order>(envelope, l, table.zero[l][n], table.norm[l][n], r);
  }
};

template <class T>
struct BasisCotangents {
  const T *rbf, *sbf;  // each or null: zero
  __device__ double operator()(const Basis<T>& b, int64_t e, int c) const {
    if (c < b.n_radial) return b.read(rbf, e * b.n_radial + c);
    return b.read(sbf, e * (b.n_functions() - b.n_radial) + c - b.n_radial);
  }
};

// ---- kernels ----

// The basis, or its tangent. Thread: a function of an edge. Reads an edge's length n_functions
// times, from caches, and writes n_functions numbers an edge; bound by the float64 arithmetic of
// sine, cosine and the Bessel recurrences.
template <class T, bool Tangent>
__global__ void __launch_bounds__(block_threads)
    radial_basis_values(Basis<T> b, T* __restrict__ rbf, T* __restrict__ sbf) {
  const int64_t e = thread_number() / b.n_functions();
  const int c = int(thread_number() % b.n_functions());
  if (e >= b.n_edges) return;
  const BasisValue p = b.template at<Tangent>(e, c);
  double y = p.f;
  if constexpr (Tangent) {
    y = p.x * b.read(b.x_dot, e);
    if (c < b.n_radial) y += p.w * b.read(b.w_dot, c);
  }
  T& to = c < b.n_radial ? rbf[e * b.n_radial + c]
                         : sbf[e * (b.n_functions() - b.n_radial) + c - b.n_radial];
  to = T(real<T>(y));
}

// Gradient to x, or its tangent. Warp: an edge, lanes over its functions. Reads n_functions
// cotangents an edge; bound by float64 arithmetic, as the basis.
template <class T, bool Tangent>
__global__ void __launch_bounds__(block_threads)
    radial_basis_distance_gradient(Basis<T> b, BasisCotangents<T> cotangents,
                                   T* __restrict__ grad_x) {
  const Group group = this_group(warp_lanes);
  if (const int64_t e = group.number; e < b.n_edges) {
    double sum = 0;
    for (int c = group.lane; c < b.n_functions(); c += warp_lanes) {
      const BasisValue p = b.template at<1 + Tangent>(e, c);
      double y = p.x;
      if constexpr (Tangent) {
        y = p.xx * b.read(b.x_dot, e);
        if (c < b.n_radial) y += p.xw * b.read(b.w_dot, c);
      }
      sum += cotangents(b, e, c) * y;
    }
    sum = group_sum(sum, group);
    if (group.lane == 0) grad_x[e] = T(real<T>(sum));
  }
}

// What edges give to w, a column a frequency, for the sum over edges.
template <class T, bool Tangent>
struct FrequencyTerms {
  Basis<T> b;
  BasisCotangents<T> cotangents;

  __device__ double operator()(int64_t e, int64_t n) const {
    const int c = int(n);
    const BasisValue p = b.template at<1 + Tangent>(e, c);
    const double y = Tangent ? p.xw * b.read(b.x_dot, e) + p.ww * b.read(b.w_dot, c) : p.w;
    return cotangents(b, e, c) * y;
  }
};

// ---- the operator ----

template <class T>
struct RadialBasis {
  int64_t n_edges, n_spherical, n_radial, exponent;

  struct Inputs {
    const T* x;  // [n_edges]
    const T* w;  // [n_radial]
  };
  struct Outputs {
    T* rbf;  // [n_edges, n_radial]
    T* sbf;  // [n_edges, n_spherical n_radial]
  };
  using Cotangents = BasisCotangents<T>;
  struct Gradients {
    T *x, *w;  // as the inputs, or null
  };

  bool valid() const {
    const auto within = [](int64_t n, int most) { return n >= 1 && n <= most; };
    return n_edges >= 0 && within(n_spherical, max_spherical) && within(n_radial, max_radial) &&
           within(exponent, max_exponent);
  }
  Basis<T> basis(const Inputs& in, const Inputs& tangents) const {
    return {bessel_table(), n_edges, int(n_spherical), int(n_radial), int(exponent),
            in.x,           in.w,    tangents.x,       tangents.w};
  }

  template <bool Tangent>
  int values(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Basis<T> b = basis(in, tangents);
    launch_threads(n_edges * b.n_functions(), call.stream, radial_basis_values<T, Tangent>, b,
                   out.rbf, out.sbf);
    return cudaGetLastError();
  }
  template <bool Tangent>
  int gradients(const Cotangents& g, const Inputs& in, const Inputs& tangents,
                const Gradients& grad, Call& call) const {
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    const FoldSpace<double> folds(n_edges, n_radial, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Basis<T> b = basis(in, tangents);
    if (grad.x)
      launch_threads(n_edges * warp_lanes, call.stream, radial_basis_distance_gradient<T, Tangent>,
                     b, g, grad.x);
    if (grad.w)
      sum_rows(FrequencyTerms<T, Tangent>{b, g}, n_edges, n_radial, folds, grad.w, call.stream);
    return cudaGetLastError();
  }

  int forward(const Inputs& in, const Outputs& out, Call& call) const {
    return values<false>(in, {}, out, call);
  }
  int vjp(const Cotangents& g, const Inputs& in, const Gradients& grad, Call& call) const {
    return gradients<false>(g, in, {}, grad, call);
  }
  int jvp(const Inputs& in, const Inputs& tangents, const Outputs& out, Call& call) const {
    return values<true>(in, tangents, out, call);
  }
  int hvp(const Cotangents& g, const Inputs& in, const Inputs& tangents, const Gradients& grad,
          Call& call) const {
    return gradients<true>(g, in, tangents, grad, call);
  }
};

}  // namespace
}  // namespace gnograd

#include "radial_basis_entries.cuh"

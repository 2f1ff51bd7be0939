// SPDX-License-Identifier: MIT
// Radial basis of DimeNet++, for 0 < x < 1, else zero:
//
//     rbf(n)    = u(x) sin(w_n x)/x
//     sbf(l, n) = u(x) N_ln j_l(z_ln x)/x
//
// z_ln is the n-th zero of the spherical Bessel function j_l, N_ln = sqrt(2)/|j_(l+1)(z_ln)|, and u
// the envelope. All types compute in double: a value is right to a unit in the last place of
// float32 next to its zeros too, and the GPUs that this is for have half as many units for
// float64 as for float32.
//
// The lanes of a warp have edges, and go through the functions together: a degree l is a constant
// of the code, so that recurrences and power series are straight lines of multiply-adds with
// constants. The numbers of 32 edges in an array lie in one piece, and pass through shared memory.
#include <cfloat>

#include "device/call.cuh"
#include "device/lanes.cuh"
#include "device/sums.cuh"

namespace gnograd {
namespace {

constexpr int max_spherical = 10, max_radial = 16, max_exponent = 100;

// ---- zeros of spherical Bessel functions, on the host ----

// t^l/(2l+1)!! sum_k (-t^2/2)^k/(k! (2l+3)(2l+5)...(2l+2k+1))
inline double bessel_series(int l, double t) {
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
void spherical_bessel(int l, double t, double (&j)[Extra + 1]) {
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

// Zeros, their inverses and norms of the largest basis; a smaller one has the first of them.
struct BesselTable {
  double zero[max_spherical][max_radial], inverse[max_spherical][max_radial],
      norm[max_spherical][max_radial];

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
        inverse[l][n] = 1 / zeros[n];
        norm[l][n] = sqrt(2.0) / fabs(j[1]);
      }
    }
  }
  // Find a zero by Newton's method, and by halving where that leaves the bracket; below the zero
  // j_l has this sign.
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

// ---- sine, cosine and spherical Bessel functions ----

// Sine and cosine to about an ulp of 1 for |t| <= 10^6, NaN for NaN: the polynomials of fdlibm on
// |r| <= pi/4.
__device__ inline void sine_cosine(double t, double& sine, double& cosine) {
  // pi/2 in two parts whose multiples by up to 2^20 are exact, and the rest
  constexpr double first = 1.57079632673412561417, second = 6.07710050630396597660e-11,
                   third = 2.02226624879595063154e-21;
  constexpr double shift = 0x1.8p52;  // the last bits of a sum with it are the nearest integer
  const double shifted = t * 0.63661977236758134308 + shift, n = shifted - shift;
  uint64_t quadrant;
  memcpy(&quadrant, &shifted, sizeof shifted);
  const double r = ((t - n * first) - n * second) - n * third, z = r * r;
  double a = 1.58969099521155010221e-10, b = -1.13596475577881948265e-11;
  a = a * z - 2.50507602534068634195e-08;
  b = b * z + 2.08757232129817482790e-09;
  a = a * z + 2.75573137070700676789e-06;
  b = b * z - 2.75573143513906633035e-07;
  a = a * z - 1.98412698298579493134e-04;
  b = b * z + 2.48015872894767294178e-05;
  a = a * z + 8.33333333332248946124e-03;
  b = b * z - 1.38888888888741095749e-03;
  a = a * z - 1.66666666666666324348e-01;
  b = b * z + 4.16666666666666019037e-02;
  a = r + r * z * a;
  b = (1 - 0.5 * z) + z * z * b;
  const auto q = unsigned(quadrant);
  sine = q & 1 ? b : a;
  cosine = q & 1 ? a : b;
  if (q & 2) sine = -sine;
  if ((q + 1) & 2) cosine = -cosine;
}

// (-1/2)^k/(k! (2l+3)(2l+5)...(2l+2k+1))
__host__ __device__ constexpr double series_coefficient(int l, int k) {
  double c = 1;
  for (int i = 1; i <= k; ++i) c *= -0.5 / (i * (2 * l + 2 * i + 1));
  return c;
}
// Terms of the series, which is not below exp(-t^2/2), that leave less than 1e-18 at |t| <= most.
__host__ __device__ constexpr int series_terms(int l, int most) {
  double term = 1;
  int k = 0;
  for (; term > 1e-18; ++k) term *= 0.5 * most * most / ((k + 1) * (2 * l + 2 * k + 3));
  return k;
}
template <int K, int L, int Most>
__device__ double series_from(double square) {
  constexpr double c = series_coefficient(L, K);
  if constexpr (K + 1 >= series_terms(L, Most)) return c;
  else return c + square * series_from<K + 1, L, Most>(square);
}
// j_L for |t| <= Most: t^L/(2L+1)!! times its power series
template <int L, int Most>
__device__ double bessel_by_series(double t, double square) {
  double power = series_from<0, L, Most>(square);
#pragma unroll
  for (int k = 0; k < L / 2; ++k) power *= square * (1.0 / ((4 * k + 3) * (4 * k + 5)));
  return L % 2 ? power * (t * (1.0 / (2 * L + 1))) : power;
}

// j_L to j_(L+Extra) at t < 100 and 1/t, to a few units in the last place of the larger of |j_L|
// and 1/t: the recurrence is stable upwards above the turning point t = L, and downwards from two
// power series below.
template <int L, int Extra>
__device__ void bessel(double t, double over, double (&j)[Extra + 1]) {
  constexpr int most = L + Extra + 1;
  if (t <= most) {
    const double square = t * t;
    j[Extra] = bessel_by_series<L + Extra, most>(t, square);
    if constexpr (Extra > 0) j[Extra - 1] = bessel_by_series<L + Extra - 1, most>(t, square);
    if constexpr (Extra > 1) j[0] = (2 * L + 3) * over * j[1] - j[2];
    return;
  }
  double sine, cosine;
  sine_cosine(t, sine, cosine);
  double here = sine * over, next = (here - cosine) * over;
#pragma unroll
  for (int k = 0; k < L + Extra; ++k) {
    if (k >= L) j[k - L] = here;
    const double before = here;
    here = next;
    next = (2 * k + 3) * over * here - before;
  }
  j[Extra] = here;
}

// ---- the functions of an edge ----

// u(x) = 1 - (P+1)(P+2)/2 x^P + P(P+2) x^(P+1) - P(P+1)/2 x^(P+2), P = exponent + 1, as
// (1-x)^3 sum_{k<P} (k+1)(k+2)/2 x^k, which keeps its digits up to the cutoff; u', u''
struct Envelope {
  double u[3];

  __device__ Envelope(int p, double x) {
    double total = 0, power = 1;  // x^(P-2)
    for (int k = p - 1; k >= 0; --k) total = total * x + 0.5 * ((k + 1) * (k + 2));
    for (int k = 0; k < p - 2; ++k) power *= x;
    const double rest = 1 - x, slope = -0.5 * p * (p + 1.0) * (p + 2.0) * power * rest;
    u[0] = rest * rest * rest * total;
    u[1] = slope * x * rest;
    u[2] = slope * ((p - 1) * rest - 2 * x);
  }
};

template <class T>
struct Basis {
  BesselTable table;
  int64_t n_edges;
  int n_spherical, n_radial, exponent;
  const T *x, *w;          // [n_edges], [n_radial]
  const T *x_dot, *w_dot;  // their tangents, or null

  __host__ __device__ int n_functions() const { return n_radial * (1 + n_spherical); }
  // Between edges in shared memory: odd, so that lanes have different banks.
  __host__ __device__ int pitch() const { return n_functions() | 1; }
  __device__ static double read(const T* p, int64_t i) { return p ? double(real<T>(p[i])) : 0; }
};

// The edge of a lane. Outside of 0 < x < 1 all is zero: an edge without length has no radial part,
// as it has no direction.
struct BasisPoint {
  double x, over;  // and 1/x; outside, those of some other edge
  double u[3];     // the envelope and its derivatives
  bool outside;

  template <class T>
  __device__ BasisPoint(const Basis<T>& b, int64_t e) {
    const double r = e < b.n_edges ? b.read(b.x, e) : 0;
    outside = r <= 0 || r >= 1;
    x = outside ? 0.5 : r;
    over = 1 / x;
    const Envelope envelope(b.exponent + 1, x);
    for (int i = 0; i < 3; ++i) u[i] = envelope.u[i];
  }
  // A function of the edge
  __device__ double inside(double y) const { return outside ? 0 : y; }
};

// h = sin(w x)/x with h' and h'', and what the derivatives by w are made of.
template <int Order>
struct Wave {
  double sine, cosine, h[Order + 1];

  __device__ Wave(double w, const BasisPoint& at) {
    const double t = w * at.x;
    if (fabs(t) <= 1e6) sine_cosine(t, sine, cosine);
    else sine = sin(t), cosine = cos(t);
    h[0] = sine * at.over;
    if constexpr (Order > 0) {
      // -w^2 j_1(t), which is a difference of numbers that are nearly the same where t is small
      if (fabs(t) <= 2) h[1] = -w * w * bessel_by_series<1, 2>(t, t * t);
      else h[1] = (w * cosine - h[0]) * at.over;
    }
    if constexpr (Order > 1) h[2] = -w * w * h[0] - 2 * at.over * h[1];
  }
};

// h = N j_l(z x)/x with h' and h''
template <int L, int Order>
__device__ void spherical(const BesselTable& table, int n, const BasisPoint& at,
                          double (&h)[Order + 1]) {
  // k = j_l/t: k' = (l-1) k/t - j_(l+1)/t,
  // k'' = (l-1)(l-2) k/t^2 - (2l-1) j_(l+1)/t^2 + j_(l+2)/t
  const double z = table.zero[L][n], norm = table.norm[L][n] * at.over;
  double j[Order + 1];
  bessel<L, Order>(z * at.x, table.inverse[L][n] * at.over, j);
  h[0] = norm * j[0];
  if constexpr (Order > 0) h[1] = norm * ((L - 1) * at.over * j[0] - z * j[1]);
  if constexpr (Order > 1)
    h[2] = norm *
           (((L - 1) * (L - 2) * at.over * j[0] - (2 * L - 1) * z * j[1]) * at.over + z * z * j[2]);
}

// (u h)^(i)
template <int I, int N>
__device__ double enveloped(const BasisPoint& at, const double (&h)[N]) {
  static_assert(I < N);
  if constexpr (I == 0) return at.inside(at.u[0] * h[0]);
  else if constexpr (I == 1) return at.inside(at.u[1] * h[0] + at.u[0] * h[1]);
  else return at.inside(at.u[2] * h[0] + 2 * at.u[1] * h[1] + at.u[0] * h[2]);
}

// ---- a block's edges ----

// Blocks have the edges of a warp: its four warps share the functions.
constexpr int block_edges = warp_lanes, block_warps = block_threads / warp_lanes;

// The first of a warp's functions n, which are every fourth one of those from number `first` on.
__device__ inline int first_function(int warp, int first) {
  return (warp - first) & (block_warps - 1);
}

// f(l) for every degree, as a constant
template <int L = 0, class F>
__device__ void for_degrees(int n_spherical, F f) {
  if constexpr (L < max_spherical)
    if (L < n_spherical) {
      f(std::integral_constant<int, L>());
      for_degrees<L + 1>(n_spherical, f);
    }
}

// f(place in a row of shared memory, place in the array) for what the block's edges have of an
// array of n columns, the first of which is column `first` of the tile.
template <class F>
__device__ void for_entries(int edges, int n, int first, int pitch, F f) {
  const int rows = block_threads / n, more = block_threads % n;
  int row = int(threadIdx.x) / n, column = int(threadIdx.x) % n;
  for (int i = int(threadIdx.x); i < edges * n; i += block_threads) {
    f(row * pitch + first + column, i);
    row += rows;
    column += more;
    if (column >= n) column -= n, ++row;
  }
}

// ---- kernels ----

// The basis, or its tangent. Block: 32 edges, one a lane; warp: a fourth of the functions. Shared
// memory: 32 n_functions numbers of T. Reads a number an edge and writes n_functions; bound by
// float64 arithmetic, some 60 operations a function.
template <class T, bool Tangent>
__global__ void __launch_bounds__(block_threads)
    radial_basis_values(const Basis<T> b, T* __restrict__ rbf, T* __restrict__ sbf) {
  SharedMemory shared;
  T* tile = shared.take<T>(block_edges * b.pitch());
  const int lane = int(threadIdx.x) % warp_lanes, warp = int(threadIdx.x) / warp_lanes;
  const int64_t first = int64_t(blockIdx.x) * block_edges, e = first + lane;
  const int edges = int(min(b.n_edges - first, int64_t(block_edges)));
  const BasisPoint at(b, e);
  const double x_dot = Tangent && lane < edges ? b.read(b.x_dot, e) : 0;
  T* row = tile + lane * b.pitch();

  for (int n = first_function(warp, 0); n < b.n_radial; n += block_warps) {
    const Wave<Tangent> wave(b.read(b.w, n), at);
    double y = enveloped<Tangent>(at, wave.h);
    if constexpr (Tangent) y = y * x_dot + at.inside(at.u[0] * wave.cosine) * b.read(b.w_dot, n);
    row[n] = T(real<T>(y));
  }
  for_degrees(b.n_spherical, [&](auto degree) {
    constexpr int l = decltype(degree)::value;
    const int before = (l + 1) * b.n_radial;
    for (int n = first_function(warp, before); n < b.n_radial; n += block_warps) {
      double h[1 + Tangent];
      spherical<l, Tangent>(b.table, n, at, h);
      double y = enveloped<Tangent>(at, h);
      if constexpr (Tangent) y *= x_dot;
      row[before + n] = T(real<T>(y));
    }
  });
  __syncthreads();
  const int n_sbf = b.n_spherical * b.n_radial;
  for_entries(edges, b.n_radial, 0, b.pitch(),
              [&](int place, int i) { rbf[first * b.n_radial + i] = tile[place]; });
  for_entries(edges, n_sbf, b.n_radial, b.pitch(),
              [&](int place, int i) { sbf[first * n_sbf + i] = tile[place]; });
}

// Gradient to x, and what the block's edges give to w, or the tangents of both. Block, warp and
// shared memory as in radial_basis_values, and 1 KB for the sums of four warps. Reads n_functions
// cotangents and a number an edge; bound by float64 arithmetic, some 80 operations a function.
template <class T, bool Tangent>
__global__ void __launch_bounds__(block_threads)
    radial_basis_gradients(const Basis<T> b, RadialBasisRecords::Cotangents<T> cotangents,
                           T* __restrict__ grad_x,
                           double* __restrict__ to_w /* [blocks, n_radial] */) {
  constexpr int order = 1 + Tangent;
  SharedMemory shared;
  T* tile = shared.take<T>(block_edges * b.pitch());
  double* sums = shared.take<double>(block_threads);
  const int lane = int(threadIdx.x) % warp_lanes, warp = int(threadIdx.x) / warp_lanes;
  const int64_t first = int64_t(blockIdx.x) * block_edges, e = first + lane;
  const int edges = int(min(b.n_edges - first, int64_t(block_edges)));
  const int n_sbf = b.n_spherical * b.n_radial;
  for_entries(block_edges, b.n_radial, 0, b.pitch(), [&](int place, int i) {
    const bool there = cotangents.rbf && i < edges * b.n_radial;
    tile[place] = there ? cotangents.rbf[first * b.n_radial + i] : T(0.0f);
  });
  if (grad_x)
    for_entries(block_edges, n_sbf, b.n_radial, b.pitch(), [&](int place, int i) {
      const bool there = cotangents.sbf && i < edges * n_sbf;
      tile[place] = there ? cotangents.sbf[first * n_sbf + i] : T(0.0f);
    });
  __syncthreads();

  const BasisPoint at(b, e);
  const double x_dot = Tangent && lane < edges ? b.read(b.x_dot, e) : 0;
  const T* g = tile + lane * b.pitch();
  double sum = 0;
  for (int n = first_function(warp, 0); n < b.n_radial; n += block_warps) {
    const double w = b.read(b.w, n), w_dot = Tangent ? b.read(b.w_dot, n) : 0;
    const Wave<order> wave(w, at);
    double by_x = enveloped<order>(at, wave.h), by_w = at.inside(at.u[0] * wave.cosine);
    if constexpr (Tangent) {
      const double by_xw = at.inside(at.u[1] * wave.cosine - at.u[0] * w * wave.sine);
      by_x = by_x * x_dot + by_xw * w_dot;
      by_w = by_xw * x_dot - at.inside(at.u[0] * at.x * wave.sine) * w_dot;
    }
    const double to = double(real<T>(g[n]));
    sum += to * by_x;
    if (to_w) {
      const double all = group_sum(to * by_w, this_group(warp_lanes));
      if (lane == 0) to_w[int64_t(blockIdx.x) * b.n_radial + n] = all;
    }
  }
  if (!grad_x) return;
  for_degrees(b.n_spherical, [&](auto degree) {
    constexpr int l = decltype(degree)::value;
    const int before = (l + 1) * b.n_radial;
    for (int n = first_function(warp, before); n < b.n_radial; n += block_warps) {
      double h[1 + order];
      spherical<l, order>(b.table, n, at, h);
      double by_x = enveloped<order>(at, h);
      if constexpr (Tangent) by_x *= x_dot;
      sum += double(real<T>(g[before + n])) * by_x;
    }
  });
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp == 0 && lane < edges) {
    for (int k = 1; k < block_warps; ++k) sum += sums[k * warp_lanes + lane];
    grad_x[e] = T(real<T>(sum));
  }
}

// ---- the operator ----

template <class T>
struct RadialBasis : RadialBasisRecords {
  bool valid() const {
    const auto within = [](int64_t n, int most) { return n >= 1 && n <= most; };
    return n_edges >= 0 && within(n_spherical, max_spherical) && within(n_radial, max_radial) &&
           within(exponent, max_exponent);
  }
  int64_t blocks() const { return ceil_div(n_edges, block_edges); }
  template <class S>
  Basis<T> basis(const Inputs<T, S>& in) const {
    return {bessel_table(), n_edges, int(n_spherical), int(n_radial), int(exponent),
            in.x.v,         in.w.v,  in.x.d,           in.w.d};
  }

  template <class S>
  int evaluate(const Inputs<T, S>& in, const Outputs<T>& out, Call& call) const {
    constexpr bool Tangent = ScalarTraits<S>::dual;
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Basis<T> b = basis(in);
    if (n_edges)
      launch(radial_basis_values<T, Tangent>, grid_of(blocks()), dim3(block_threads),
             shared_bytes<T>(block_edges * b.pitch()), call.stream, b, out.rbf, out.sbf);
    return cudaGetLastError();
  }
  template <class S>
  int reverse(const Cotangents<T>& g, const Inputs<T, S>& in, const Gradients<T>& grad,
              Call& call) const {
    constexpr bool Tangent = ScalarTraits<S>::dual;
    if (!valid()) return GNOGRAD_CUDA_VALUE;
    auto* to_w = call.workspace.take<double>(blocks() * n_radial);
    const FoldSpace<double> folds(blocks(), n_radial, call.workspace);
    if (!call.workspace.sufficient()) return GNOGRAD_CUDA_WORKSPACE;
    const Basis<T> b = basis(in);
    if (n_edges && (grad.x || grad.w))
      launch(radial_basis_gradients<T, Tangent>, grid_of(blocks()), dim3(block_threads),
             shared_bytes<T>(block_edges * b.pitch()) + shared_bytes<double>(block_threads),
             call.stream, b, g, grad.x, grad.w ? to_w : nullptr);
    if (grad.w)
      sum_rows(PlainMatrix<double>{to_w, n_radial}, blocks(), n_radial, folds, grad.w, call.stream);
    return cudaGetLastError();
  }
};

}  // namespace
}  // namespace gnograd

#include "radial_basis_entries.cuh"

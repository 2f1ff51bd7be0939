// SPDX-License-Identifier: MIT
// Numbers in kernels. Arrays are stored as T (float, double, __half, __nv_bfloat16) and computed
// with in real<T>. A kernel is written once over a scalar S: with S = real<T> it is the operator or
// its gradient, with S = Dual<real<T>> every number carries its derivative along the given
// tangents, and the same kernel is the jvp or the hvp.
#pragma once
#include <cmath>

#include "platform.cuh"

namespace gnograd {

template <class T>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};
template <class T>
using real = typename RealOf<T>::type;

// value + tangent * t, to first order in t.
template <class A>
struct Dual {
  A v = 0, d = 0;

  Dual() = default;
  __device__ Dual(A v) : v(v) {}
  __device__ Dual(A v, A d) : v(v), d(d) {}

  friend __device__ Dual operator-(Dual a) { return {-a.v, -a.d}; }
  friend __device__ Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
  friend __device__ Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
  friend __device__ Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend __device__ Dual operator*(A a, Dual b) { return {a * b.v, a * b.d}; }
  friend __device__ Dual operator*(Dual a, A b) { return {a.v * b, a.d * b}; }
  friend __device__ Dual operator/(Dual a, Dual b) {
    const A q = a.v / b.v;
    return {q, (a.d - q * b.d) / b.v};
  }
  __device__ Dual& operator+=(Dual b) { return *this = *this + b; }
  template <class B>
  __device__ Dual& operator*=(B b) {
    return *this = *this * b;
  }
};

template <class S>
struct ScalarTraits {
  using Real = S;
  static constexpr bool dual = false;
};
template <class A>
struct ScalarTraits<Dual<A>> {
  using Real = A;
  static constexpr bool dual = true;
};
template <class S>
using real_part = typename ScalarTraits<S>::Real;

// value: what comparisons look at; result: what a kernel over S is asked for, value or derivative.
template <class S>
__device__ real_part<S> value(S x) {
  if constexpr (ScalarTraits<S>::dual) return x.v;
  else return x;
}
template <class S>
__device__ real_part<S> result(S x) {
  if constexpr (ScalarTraits<S>::dual) return x.d;
  else return x;
}

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float exponential_minus_1(float x) { return expm1f(x); }
__device__ inline double exponential_minus_1(double x) { return expm1(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }
__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }

template <class A>
__device__ Dual<A> exponential(Dual<A> x) {
  const A e = exponential(x.v);
  return {e, e * x.d};
}
template <class A>
__device__ Dual<A> logarithm(Dual<A> x) {
  return {logarithm(x.v), x.d / x.v};
}
template <class A>
__device__ Dual<A> exponential_minus_1(Dual<A> x) {
  return {exponential_minus_1(x.v), exponential(x.v) * x.d};
}
template <class A>
__device__ Dual<A> hyperbolic_tangent(Dual<A> x) {
  const A t = hyperbolic_tangent(x.v);
  return {t, (1 - t * t) * x.d};
}
template <class A>
__device__ Dual<A> square_root(Dual<A> x) {
  const A root = square_root(x.v);
  return {root, x.d / (2 * root)};
}

// An input of the operator; where S is dual, its tangent too (null: zero).
template <class T, class S>
struct Input {
  const T* v = nullptr;
  const T* d = nullptr;

  explicit __host__ __device__ operator bool() const { return v; }
  __host__ __device__ Input operator+(int64_t n) const { return {v + n, d ? d + n : nullptr}; }

  __device__ S operator[](int64_t i) const {
    if constexpr (ScalarTraits<S>::dual) return {real<T>(v[i]), d ? real<T>(d[i]) : real<T>(0)};
    else return real<T>(v[i]);
  }
};

// Features are moved 16 bytes at a time: this many T.
template <class T>
constexpr int width = 16 / sizeof(T);

template <class S, int N>
struct Vector {
  S v[N] = {};

  __device__ S& operator[](int i) { return v[i]; }
  __device__ const S& operator[](int i) const { return v[i]; }
  template <class B>
  __device__ void scale(B b) {
    for (int i = 0; i < N; ++i) v[i] *= b;
  }
  __device__ void add(const Vector& x) {
    for (int i = 0; i < N; ++i) v[i] += x[i];
  }
  // this += a * x
  template <class B, class X>
  __device__ void add(B a, const Vector<X, N>& x) {
    for (int i = 0; i < N; ++i) v[i] += a * x[i];
  }
};

template <class S, class X, class Y, int N>
__device__ S inner(const Vector<X, N>& x, const Vector<Y, N>& y) {
  S sum = 0;
  for (int i = 0; i < N; ++i) sum += x[i] * y[i];
  return sum;
}

// The first `count` of the width<T> numbers at p, zeros for the others; one load where `wide`.
template <class T>
__device__ Vector<real<T>, width<T>> load_vector(const T* p, int count, bool wide) {
  Vector<real<T>, width<T>> x;
  if (wide) {
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(p));
    T packed[width<T>];
    memcpy(static_cast<void*>(packed), &raw, sizeof raw);
    for (int i = 0; i < width<T>; ++i) x[i] = real<T>(packed[i]);
  } else {
    for (int i = 0; i < width<T>; ++i)
      if (i < count) x[i] = real<T>(p[i]);
  }
  return x;
}

template <class T, class S>
__device__ Vector<S, width<T>> load_vector(const Input<T, S>& x, int64_t at, int count, bool wide) {
  const auto v = load_vector(x.v + at, count, wide);
  if constexpr (ScalarTraits<S>::dual) {
    Vector<S, width<T>> both;
    for (int i = 0; i < width<T>; ++i) both[i] = v[i];
    if (x.d) {
      const auto d = load_vector(x.d + at, count, wide);
      for (int i = 0; i < width<T>; ++i) both[i].d = d[i];
    }
    return both;
  } else {
    return v;
  }
}

// p moved by bytes: an offset that a lane has computed for others costs these one addition.
template <class X>
__device__ X* bytes_behind(X* p, int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<X>, const char, char>;
  return reinterpret_cast<X*>(reinterpret_cast<Byte*>(p) + bytes);
}

// Numbers that load_vector reads, as they are stored: rows that wait take no more registers.
template <class T, bool wide>
struct Packed {
  uint4 raw;

  __device__ void load(const T* p, int) { raw = __ldg(reinterpret_cast<const uint4*>(p)); }
  __device__ Vector<real<T>, width<T>> unpack() const {
    T x[width<T>];
    memcpy(static_cast<void*>(x), &raw, sizeof raw);
    Vector<real<T>, width<T>> numbers;
    for (int i = 0; i < width<T>; ++i) numbers[i] = real<T>(x[i]);
    return numbers;
  }
};
template <class T>
struct Packed<T, false> {
  T x[width<T>];

  __device__ void load(const T* p, int count) {
    for (int i = 0; i < width<T>; ++i) x[i] = i < count ? p[i] : T(0);
  }
  __device__ Vector<real<T>, width<T>> unpack() const {
    Vector<real<T>, width<T>> numbers;
    for (int i = 0; i < width<T>; ++i) numbers[i] = real<T>(x[i]);
    return numbers;
  }
};

// Packed numbers of an input, from an offset in bytes on, with their tangents where S is dual.
template <class T, class S, bool wide>
struct PackedInput {
  Packed<T, wide> v;

  __device__ void load(const Input<T, S>& x, int64_t bytes, int count) {
    v.load(bytes_behind(x.v, bytes), count);
  }
  __device__ Vector<S, width<T>> unpack() const { return v.unpack(); }
};
template <class T, class A, bool wide>
struct PackedInput<T, Dual<A>, wide> {
  Packed<T, wide> v, d;

  __device__ void load(const Input<T, Dual<A>>& x, int64_t bytes, int count) {
    v.load(bytes_behind(x.v, bytes), count);
    if (x.d) d.load(bytes_behind(x.d, bytes), count);
    else memset(static_cast<void*>(&d), 0, sizeof d);
  }
  __device__ Vector<Dual<A>, width<T>> unpack() const {
    const auto values = v.unpack(), derivatives = d.unpack();
    Vector<Dual<A>, width<T>> both;
    for (int i = 0; i < width<T>; ++i) both[i] = {values[i], derivatives[i]};
    return both;
  }
};

// Write the results of the first `count` numbers of x.
template <class T, class S, int N>
__device__ void store_vector(T* p, const Vector<S, N>& x, int count, bool wide) {
  if constexpr (N == width<T>) {
    if (wide) {
      T packed[N];
      for (int i = 0; i < N; ++i) packed[i] = T(result(x[i]));
      uint4 raw;
      memcpy(&raw, packed, sizeof raw);
      *reinterpret_cast<uint4*>(p) = raw;
      return;
    }
  }
  for (int i = 0; i < N; ++i)
    if (i < count) p[i] = T(result(x[i]));
}

}  // namespace gnograd

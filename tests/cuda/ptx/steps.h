// SPDX-License-Identifier: MIT
// Meanings of PTX instructions, by the PTX ISA manual; nothing here was taken from the host twins of the
// project's intrinsics. One file, since kinds of instructions share rows, types and rounding.
#pragma once
#include <algorithm>
#include <cfenv>
#include <tuple>

#include "decode.h"

namespace ptx {

template <class F>
void each(const Warp& w, F f) {
  if (w.mask == ~0u)
    for (int l = 0; l < lanes; ++l) f(l);
  else
    for (u32 m = w.mask; m; m &= m - 1) f(std::countr_zero(m));
}

// d = f(s...) lane by lane, for rows 0, 1, ... of the instruction.
template <class D, class... S, class F>
Step lanewise(F) {
  return [](Warp& w, const Instr& i) {
    [&]<size_t... k>(std::index_sequence<k...>) {
      D* d = w.row<D>(i.r[0]);
      const std::tuple<const S*...> s{w.row<const S>(i.r[k + 1])...};
      each(w, [&](int l) { d[l] = F{}(std::get<k>(s)[l]...); });
    }(std::index_sequence_for<S...>());
  };
}

// Apply a function to both halves of 32-bit registers.
template <class T, class... S, class F>
Step pairwise(F) {
  return [](Warp& w, const Instr& i) {
    [&]<size_t... k>(std::index_sequence<k...>) {
      T* d = w.row<T>(i.r[0]);
      const std::tuple<const S*...> s{w.row<const S>(i.r[k + 1])...};
      each(w, [&](int l) {
        d[2 * l] = F{}(std::get<k>(s)[2 * l]...);
        d[2 * l + 1] = F{}(std::get<k>(s)[2 * l + 1]...);
      });
    }(std::index_sequence_for<S...>());
  };
}

template <class T>
constexpr bool half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Type that numbers are computed in, and the canonical NaN of results.
template <class T>
auto num(T x) {
  if constexpr (half<T>) return float(x);
  else return x;
}
template <class T, class X>
T made(X x) {
  if constexpr (std::is_same_v<T, float>) return x == x ? float(x) : std::bit_cast<float>(0x7fffffff);
  else return T(x);
}
template <class T>
T fused(T a, T b, T c) {
  if constexpr (half<T>) return T(double(float(a)) * double(float(b)) + double(float(c)));
  else return made<T>(std::fma(a, b, c));
}
template <class T>
auto unsigned_of(T x) {
  return std::make_unsigned_t<T>(x);
}

// Extremum of two numbers: the other one where one is a NaN; -0 is less than +0.
template <class T, bool nan, bool greatest>
T extremum(T a, T b) {
  const auto x = num(a), y = num(b);
  const T none = T(std::bit_cast<float>(0x7fffffff));
  if (x != x || y != y) return nan || (x != x && y != y) ? none : x != x ? b : a;
  const bool a_less = x < y || (x == y && std::signbit(x));
  return a_less == greatest ? b : a;
}
template <class T>
T saturated(T x) {
  const auto v = num(x);
  return v != v || v <= 0 ? T(0.f) : v > 1 ? T(1.f) : x;
}

template <class T>
using Double = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T>
T high(T a, T b) {
  return T(Double<T>(a) * Double<T>(b) >> (8 * sizeof(T)));
}

// Float to integer: rounded, clamped; a NaN becomes 0, or with 64 bits on either side 2^63.
template <class D, class S>
D to_integer(S x, int mode) {
  double v = double(num(x));
  if (v != v) return sizeof(S) == 8 || sizeof(D) == 8 ? D(u64(1) << (8 * sizeof(D) - 1)) : D(0);
  v = mode == 'n' ? std::nearbyint(v) : mode == 'z' ? std::trunc(v)
      : mode == 'm' ? std::floor(v) : std::ceil(v);
  const double least = double(std::numeric_limits<D>::min());
  const double end = std::ldexp(1, int(8 * sizeof(D)) - std::is_signed_v<D>);
  if (v < least) return std::numeric_limits<D>::min();
  if (v >= end) return std::numeric_limits<D>::max();
  return D(v);
}

template <int c>
double to_integral(double x) {
  return c == 'n' ? std::nearbyint(x) : c == 'z' ? std::trunc(x) : c == 'm' ? std::floor(x) : std::ceil(x);
}

inline u32 to_tf32_rna(float x) {
  const u32 b = std::bit_cast<u32>(x);
  if (x != x) return 0x7fffffff;
  // the manual does not say what is in the lower 13 bits; zeros on sm_80 and later
  static const char* given = std::getenv("PTX_TF32_LOW");
  static const u32 low = given ? u32(std::strtoul(given, nullptr, 0)) & 0x1fff : 0;
  return (b & 0x7f800000) == 0x7f800000 ? b : ((b + 0x1000) & ~0x1fffu) | low;
}

inline u32 permuted(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64(b) << 32 | a;
  u32 d = 0;
  for (int k = 0; k < 4; ++k) {
    const u32 s = selector >> 4 * k & 15;
    u32 byte = u32(bytes >> 8 * (s & 7)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    d |= byte << 8 * k;
  }
  return d;
}

template <class T>
T extracted(T a, u32 position, u32 count) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 bits = 8 * sizeof(T), top = bits - 1;
  position &= 255, count &= 255;
  const bool sign = std::is_signed_v<T> && count && (U(a) >> std::min(position + count - 1, top) & 1);
  U d = 0;
  for (u32 i = 0; i < bits; ++i) {
    const bool bit = i < count && position + i <= top ? U(a) >> (position + i) & 1 : sign;
    d |= U(bit) << i;
  }
  return T(d);
}
template <class U>
U inserted(U a, U b, u32 position, u32 count) {
  constexpr u32 bits = 8 * sizeof(U);
  position &= 255, count &= 255;
  for (u32 i = 0; i < count && position + i < bits; ++i) {
    b &= ~(U(1) << (position + i));
    b |= (a >> i & 1) << (position + i);
  }
  return b;
}

enum class Cmp { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
template <Cmp c, class T>
bool compared(T x, T y) {
  const auto a = num(x), b = num(y);
  const bool nan = a != a || b != b;
  switch (c) {
    case Cmp::eq: return a == b;
    case Cmp::ne: return !nan && a != b;
    case Cmp::lt: return a < b;
    case Cmp::le: return a <= b;
    case Cmp::gt: return a > b;
    case Cmp::ge: return a >= b;
    case Cmp::equ: return nan || a == b;
    case Cmp::neu: return nan || a != b;
    case Cmp::ltu: return nan || a < b;
    case Cmp::leu: return nan || a <= b;
    case Cmp::gtu: return nan || a > b;
    case Cmp::geu: return nan || a >= b;
    case Cmp::num: return !nan;
    case Cmp::nan: return nan;
  }
  return false;
}

// Memory: the value is read as M and held in a register of W.
template <class T>
u64 address(const Warp& w, const Instr& i, int l) {
  return (i.wide ? w.row<u64>(i.r[15])[l] : w.row<u32>(i.r[15])[l]) + i.imm;
}
template <class M, class W>
void load(Warp& w, const Instr& i) {
  each(w, [&](int l) {
    const u8* p = find_memory(w, i, address<M>(w, i, l), sizeof(M) * i.n, l);
    if (watching) watch(w, i, p, sizeof(M) * i.n, false);
    for (int k = 0; k < i.n; ++k) {
      M x;
      std::memcpy(&x, p + k * sizeof(M), sizeof x);
      w.row<W>(i.r[k])[l] = W(x);
    }
  });
}
template <class M, class W>
void store(Warp& w, const Instr& i) {
  each(w, [&](int l) {
    u8* p = find_memory(w, i, address<M>(w, i, l), sizeof(M) * i.n, l);
    if (watching) watch(w, i, p, sizeof(M) * i.n, true);
    for (int k = 0; k < i.n; ++k) {
      const M x = M(w.row<W>(i.r[k])[l]);
      std::memcpy(p + k * sizeof(M), &x, sizeof x);
    }
  });
}
// row 0: old value, 1: operand, 2: second operand
template <class T, class F>
Step atomic(F) {
  return [](Warp& w, const Instr& i) {
    each(w, [&](int l) {
      u8* p = find_memory(w, i, address<T>(w, i, l), sizeof(T), l);
      T old, next;
      std::memcpy(&old, p, sizeof old);
      next = F{}(old, w.row<T>(i.r[1])[l], w.row<T>(i.r[2])[l]);
      std::memcpy(p, &next, sizeof next);
      w.row<T>(i.r[0])[l] = old;
    });
  };
}

// rows 0: result, 1: predicate, 2: a, 3: b, 4: c
template <int mode>
void shuffle(Warp& w, const Instr& i) {
  u32 got[lanes];
  u8 valid[lanes];
  const u32 *a = w.row<u32>(i.r[2]), *b = w.row<u32>(i.r[3]), *c = w.row<u32>(i.r[4]);
  each(w, [&](int l) {
    const u32 bval = b[l] & 31, cval = c[l] & 31, segment = c[l] >> 8 & 31;
    const int most = int((u32(l) & segment) | (cval & ~segment)), least = int(u32(l) & segment);
    int j;
    bool ok;
    if (mode == 'u') j = l - int(bval), ok = j >= most;
    else if (mode == 'd') j = l + int(bval), ok = j <= most;
    else if (mode == 'b') j = l ^ int(bval), ok = j <= most;
    else j = least | int(bval & ~segment), ok = j <= most;
    if (!ok) j = l;
    valid[l] = ok;
    got[l] = w.mask >> j & 1 ? a[j] : ~0u;  // undefined: a NaN, a -1
  });
  each(w, [&](int l) {
    w.row<u32>(i.r[0])[l] = got[l];
    w.row<u8>(i.r[1])[l] = valid[l];
  });
}

// rows 0: result, 1: predicate
template <int mode>
void vote(Warp& w, const Instr& i) {
  u32 yes = 0;
  each(w, [&](int l) { yes |= u32(w.row<u8>(i.r[1])[l] != 0) << l; });
  each(w, [&](int l) {
    if (mode == 'b') w.row<u32>(i.r[0])[l] = yes;
    else w.row<u8>(i.r[0])[l] = mode == 'y' ? yes != 0 : mode == 'l' ? yes == w.mask : !yes || yes == w.mask;
  });
}
template <class T>
void match_any(Warp& w, const Instr& i) {
  u32 same[lanes] = {};
  const T* a = w.row<T>(i.r[1]);
  each(w, [&](int l) { each(w, [&](int k) { same[l] |= u32(a[l] == a[k]) << k; }); });
  each(w, [&](int l) { w.row<u32>(i.r[0])[l] = same[l]; });
}
template <class T, class F>
Step reduce(F) {
  return [](Warp& w, const Instr& i) {
    const T* a = w.row<T>(i.r[1]);
    T sum = a[std::countr_zero(w.mask)];
    bool first = true;
    each(w, [&](int l) { sum = first ? a[l] : F{}(sum, a[l]), first = false; });
    each(w, [&](int l) { w.row<T>(i.r[0])[l] = sum; });
  };
}

// One sum of products as tensor cores make it, for all that is known of them: products are exact;
// addends are lined up with the largest, cut off two bits below its last, added, and the sum is cut
// off.
template <int depth>
float tensor_sum(const float (&a)[depth], const float (&b)[depth], float c) {
  static const bool quick = std::getenv("PTX_QUICK");
  if (quick) {
    for (int k = 0; k < depth; ++k) c += a[k] * b[k];
    return c;
  }
  double x[depth + 1];
  int top = -10000;
  bool special = false;
  for (int k = 0; k <= depth; ++k) {
    x[k] = k < depth ? double(a[k]) * double(b[k]) : double(c);
    special |= !std::isfinite(x[k]);
    if (x[k] != 0) top = std::max(top, std::ilogb(x[k]));
  }
  if (special) {
    double sum = 0;
    for (double v : x) sum += v;
    return made<float>(sum);
  }
  if (top == -10000) return 0;
  const double unit = std::ldexp(1.0, std::max(top, -126) - 25);
  double sum = 0;
  for (double v : x) sum += std::trunc(v / unit);
  sum *= unit;
  float f = float(sum);
  if (std::abs(double(f)) > std::abs(sum)) f = std::bit_cast<float>(std::bit_cast<u32>(f) - 1);
  return f;
}

// rows 0..3: d, 4..7: a, 8..9: b, 10..13: c
void put_tensor_sums(Warp& w, const Instr& i, auto sum) {
  float d[lanes][4];
  for (int l = 0; l < lanes; ++l) {
    const int group = l >> 2, thread = l % 4;
    for (int k = 0; k < 4; ++k)
      d[l][k] = sum(k < 2 ? group : group + 8, thread * 2 + (k & 1), w.row<float>(i.r[10 + k])[l]);
  }
  for (int l = 0; l < lanes; ++l)
    for (int k = 0; k < 4; ++k) w.row<float>(i.r[k])[l] = d[l][k];
}
inline void mma_m16n8k8_tf32(Warp& w, const Instr& i) {
  if (w.mask != ~0u) fault(w, i, -1, 715, "mma by a part of a warp");
  float a[16][8], b[8][8];  // b by columns
  const auto element = [&](int r, int l) {  // the lower 13 bits are ignored
    return std::bit_cast<float>(w.row<u32>(i.r[r])[l] & ~0x1fffu);
  };
  for (int l = 0; l < lanes; ++l) {
    const int group = l >> 2, thread = l % 4;
    for (int k = 0; k < 4; ++k)
      a[k == 0 || k == 2 ? group : group + 8][k < 2 ? thread : thread + 4] = element(4 + k, l);
    for (int k = 0; k < 2; ++k) b[group][k == 0 ? thread : thread + 4] = element(8 + k, l);
  }
  put_tensor_sums(w, i, [&](int m, int n, float c) { return tensor_sum<8>(a[m], b[n], c); });
}
template <class T>
void mma_m16n8k16(Warp& w, const Instr& i) {
  if (w.mask != ~0u) fault(w, i, -1, 715, "mma by a part of a warp");
  float a[16][16], b[8][16];
  for (int l = 0; l < lanes; ++l) {
    const int group = l >> 2, thread = l % 4;
    for (int e = 0; e < 8; ++e)
      a[e < 2 || (4 <= e && e < 6) ? group : group + 8][thread * 2 + (e & 1) + (e < 4 ? 0 : 8)] =
          float(w.row<T>(i.r[4 + e / 2])[2 * l + e % 2]);
    for (int e = 0; e < 4; ++e)
      b[group][thread * 2 + (e & 1) + (e < 2 ? 0 : 8)] = float(w.row<T>(i.r[8 + e / 2])[2 * l + e % 2]);
  }
  put_tensor_sums(w, i, [&](int m, int n, float c) { return tensor_sum<16>(a[m], b[n], c); });
}

// Matrices of 8 rows of 16 bytes; lanes 8 k to 8 k + 7 say where the rows of matrix k are.
template <bool transposed>
void ldmatrix(Warp& w, const Instr& i) {
  if (w.mask != ~0u) fault(w, i, -1, 715, "ldmatrix by a part of a warp");
  const u8* rows[lanes];
  for (int l = 0; l < 8 * i.n; ++l) {
    rows[l] = find_memory(w, i, address<u32>(w, i, l), 16, l);
    if (watching) watch(w, i, rows[l], 16, false);
  }
  for (int k = 0; k < i.n; ++k) {
    u32* d = w.row<u32>(i.r[k]);
    for (int l = 0; l < lanes; ++l) {
      u16 pair[2];
      for (int h = 0; h < 2; ++h) {
        const int r = transposed ? l % 4 * 2 + h : l / 4, c = transposed ? l / 4 : l % 4 * 2 + h;
        std::memcpy(&pair[h], rows[8 * k + r] + 2 * c, 2);
      }
      d[l] = u32(pair[1]) << 16 | pair[0];
    }
  }
}

// Copies to shared memory arrive when they are waited for, so that missing waits show.
// rows 13: bytes that are there, the rest are zeros; 14: to; 15: from. target: offset of `to`;
// all: that has 64 bits
inline void copy_async(Warp& w, const Instr& i) {
  Instr to = i;
  to.space = Space::shared, to.r[15] = i.r[14], to.wide = i.all, to.imm = i.target;
  each(w, [&](int l) {
    const u32 n = std::min<u32>(w.row<u32>(i.r[13])[l], i.unit);
    const u8* from = n ? find_memory(w, i, address<u32>(w, i, l), i.unit, l) : nullptr;
    u8* p = find_memory(w, to, address<u32>(w, to, l), i.unit, l);
    if (watching && n) watch(w, i, from, n, false);
    if (watching) watch(w, to, p, i.unit, true);
    w.copies.push_back({p, from, n, i.unit, l, w.groups[l]});
  });
}
inline void commit_copies(Warp& w, const Instr&) {
  each(w, [&](int l) { ++w.groups[l]; });
}
inline void await_copies(Warp& w, const Instr& i) {  // imm: groups that may be left, or ~0: wait for all
  std::erase_if(w.copies, [&](const Warp::Copy& c) {
    if (!(w.mask >> c.lane & 1) || (i.imm != ~u64(0) && c.group + i.imm >= w.groups[c.lane])) return false;
    if (c.n) std::memcpy(c.to, c.from, c.n);
    std::memset(c.to + c.n, 0, c.bytes - c.n);
    return true;
  });
}

// ---- steps by the type of an instruction ----

// f(a value of the C++ type)
template <class F>
Step with_int(Type t, F f) {
  const bool s = t.c == 's';
  switch (t.bytes) {
    case 1: return s ? f(s8()) : f(u8());
    case 2: return s ? f(s16()) : f(u16());
    case 4: return s ? f(s32()) : f(u32());
    default: return s ? f(s64()) : f(u64());
  }
}
template <class F>
Step with_word(Type t, F f) {  // 16 bits and more
  const bool s = t.c == 's';
  switch (t.bytes) {
    case 2: return s ? f(s16()) : f(u16());
    case 4: return s ? f(s32()) : f(u32());
    default: return s ? f(s64()) : f(u64());
  }
}
template <class F>
Step with_float(Type t, F f) {
  if (t.c == 'g') return f(bf16());
  return t.bytes == 2 ? f(f16()) : t.bytes == 4 ? f(float()) : f(double());
}
template <class F>
Step with_bits(u32 bytes, F f) {
  return bytes == 1 ? f(u8()) : bytes == 2 ? f(u16()) : bytes == 4 ? f(u32()) : f(u64());
}

// lanewise, or pairwise where the type is a pair of 16-bit numbers
template <int n, class F>
Step float_step(Type t, F f) {
  const auto of = [&](auto x) -> Step {
    using T = decltype(x);
    const auto make = [&](auto... s) -> Step {
      if constexpr (half<T>)
        if (t.pair) return pairwise<T, decltype(s)...>(f);
      return lanewise<T, decltype(s)...>(f);
    };
    if constexpr (n == 1) return make(x);
    else if constexpr (n == 2) return make(x, x);
    else return make(x, x, x);
  };
  if (t.pair) return t.c == 'g' ? of(bf16()) : of(f16());
  return with_float(t, of);
}

inline void directed(Warp& w, const Instr& i) {  // imm: the rounding mode
  std::fesetround(int(i.imm));
  i.inner(w, i);
  std::fesetround(FE_TONEAREST);
}
inline void flushed(Warp& w, const Instr& i) {
  const u32 before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  i.inner(w, i);
  _mm_setcsr(before);
}

}  // namespace ptx

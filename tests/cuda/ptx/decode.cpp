// SPDX-License-Identifier: MIT
// PTX text into instructions of machine.h. What each does follows the PTX ISA manual; nothing here
// was taken from the host twins of the project's intrinsics.
#include <algorithm>
#include <cfenv>
#include <cstdlib>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "machine.h"

namespace ptx {

namespace {

// ---- what instructions do ----

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

u32 to_tf32_rna(float x) {
  const u32 b = std::bit_cast<u32>(x);
  if (x != x) return 0x7fffffff;
  // the manual does not say what is in the lower 13 bits; zeros on sm_80 and later
  static const char* given = std::getenv("PTX_TF32_LOW");
  static const u32 low = given ? u32(std::strtoul(given, nullptr, 0)) & 0x1fff : 0;
  return (b & 0x7f800000) == 0x7f800000 ? b : ((b + 0x1000) & ~0x1fffu) | low;
}

u32 permuted(u32 a, u32 b, u32 selector) {
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
void mma_m16n8k8_tf32(Warp& w, const Instr& i) {
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
void copy_async(Warp& w, const Instr& i) {
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
void commit_copies(Warp& w, const Instr&) {
  each(w, [&](int l) { ++w.groups[l]; });
}
void await_copies(Warp& w, const Instr& i) {  // imm: groups that may be left, or ~0: wait for all
  std::erase_if(w.copies, [&](const Warp::Copy& c) {
    if (!(w.mask >> c.lane & 1) || (i.imm != ~u64(0) && c.group + i.imm >= w.groups[c.lane])) return false;
    if (c.n) std::memcpy(c.to, c.from, c.n);
    std::memset(c.to + c.n, 0, c.bytes - c.n);
    return true;
  });
}

// ---- types ----

struct Type {
  char c = 0;  // u, s, b, f (float), g (bfloat), t (tf32), p (predicate)
  u32 bytes = 0;
  bool pair = false;
};

bool parse_type(const std::string& s, Type& t) {
  static const std::unordered_map<std::string, Type> types = {
      {"pred", {'p', 1}}, {"u8", {'u', 1}},   {"u16", {'u', 2}},  {"u32", {'u', 4}},
      {"u64", {'u', 8}},  {"s8", {'s', 1}},   {"s16", {'s', 2}},  {"s32", {'s', 4}},
      {"s64", {'s', 8}},  {"b8", {'b', 1}},   {"b16", {'b', 2}},  {"b32", {'b', 4}},
      {"b64", {'b', 8}},  {"f16", {'f', 2}},  {"f32", {'f', 4}},  {"f64", {'f', 8}},
      {"bf16", {'g', 2}}, {"tf32", {'t', 4}}, {"f16x2", {'f', 4, true}},
      {"bf16x2", {'g', 4, true}}};
  const auto at = types.find(s);
  if (at == types.end()) return false;
  t = at->second;
  return true;
}
bool is_float(Type t) { return t.c == 'f' || t.c == 'g'; }

[[noreturn]] void unknown(const std::string& what) { throw Fault(209, "not understood: " + what); }

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

void directed(Warp& w, const Instr& i) {  // imm: the rounding mode
  std::fesetround(int(i.imm));
  i.inner(w, i);
  std::fesetround(FE_TONEAREST);
}
void flushed(Warp& w, const Instr& i) {
  const u32 before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  i.inner(w, i);
  _mm_setcsr(before);
}

// ---- text ----

struct Token {
  std::string text;
  int line;
};

std::vector<Token> tokens_of(const std::string& s) {
  std::vector<Token> tokens;
  int line = 1;
  const auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '$';
  };
  for (size_t i = 0; i < s.size();) {
    const char c = s[i];
    if (c == '\n') ++line, ++i;
    else if (std::isspace(static_cast<unsigned char>(c)) || c == 0) ++i;
    else if (s.compare(i, 2, "//") == 0) i = std::min(s.find('\n', i), s.size());
    else if (s.compare(i, 2, "/*") == 0) {
      const size_t end = s.find("*/", i) + 2;
      for (; i < end; ++i) line += s[i] == '\n';
    } else if (c == '"') {
      const size_t end = s.find('"', i + 1) + 1;
      tokens.push_back({s.substr(i, end - i), line});
      i = end;
    } else if (word(c)) {
      size_t end = i;
      while (end < s.size() && (word(s[end]) || s.compare(end, 2, "::") == 0)) end += word(s[end]) ? 1 : 2;
      tokens.push_back({s.substr(i, end - i), line});
      const std::string& t = tokens.back().text;
      i = end;
      if (t == ".loc" || t == ".file" || t == ".version" || t == ".target" || t == ".address_size") {
        // these end with the line
        end = std::min(s.find('\n', i), s.size());
        tokens.back().text += s.substr(i, end - i);
        i = end;
      }
    } else {
      tokens.push_back({std::string(1, c), line});
      ++i;
    }
  }
  return tokens;
}

std::vector<std::string> split(const std::string& s, char at) {
  std::vector<std::string> parts{""};
  for (char c : s)
    if (c == at) parts.emplace_back();
    else parts.back() += c;
  return parts;
}

bool is_number(const std::string& t) { return std::isdigit(static_cast<unsigned char>(t[0])); }

struct Register {
  u32 row = 0, bytes = 0;
};
struct Range {
  u32 row, bytes, count;
};
struct Symbol {
  Space space;
  u64 at;
};

u32 row_size(u32 bytes) { return bytes * lanes; }

struct Operand {
  enum { none, reg, number, name, vector, memory } kind = none;
  Register r;
  std::string text;
  u64 value = 0;
  bool negated = false;
  std::vector<Operand> parts;  // parts of a vector; the address; the second of p|q
  s64 offset = 0;
};

struct Param {
  std::string name;
  u32 bytes, align;
};
struct Function {
  std::string name;
  bool entry = false;
  std::vector<Param> params, results;
  size_t begin = 0, end = 0;  // range of the body among the tokens
  u32 max_threads = 1024;
};

}  // namespace

// ---- a module ----

struct Module::Parser {
  std::vector<Token> t;
  std::map<std::string, Function> functions;
  std::map<std::string, Symbol> globals;
  std::set<std::string> external_shared;
  std::map<std::string, std::pair<u32, u32>> module_shared;  // bytes, alignment
  std::vector<std::unique_ptr<u64[]>> storage;
  std::map<int, std::string> files;

  explicit Parser(std::string text) : t(tokens_of(text)) { module(); }
  ~Parser() {
    for (const auto& s : storage) memory().allocations.erase(reinterpret_cast<u64>(s.get()));
  }

  size_t closing(size_t open) const {  // after the brace that closes
    int depth = 0;
    for (size_t k = open; k < t.size(); ++k) {
      depth += t[k].text == "{";
      depth -= t[k].text == "}";
      if (!depth) return k + 1;
    }
    unknown("an open brace");
  }

  std::vector<Param> parameters(size_t& k) const {  // from "(" to after ")"
    std::vector<Param> list;
    Param p{"", 0, 0};
    for (++k;; ++k) {
      const std::string& s = t[k].text;
      Type type;
      if (s == ")" || s == ",") {
        if (p.bytes) list.push_back(p);
        p = {"", 0, 0};
        if (s == ")") break;
      } else if (s == ".align") {
        p.align = std::max(p.align, p.bytes ? 0 : u32(std::stoul(t[k + 1].text)));
        ++k;
      } else if (s == ".ptr") {  // attributes of what is pointed to
        while (t[k + 1].text == ".align" || t[k + 1].text == ".global" || is_number(t[k + 1].text)) ++k;
      } else if (s[0] == '.' && parse_type(s.substr(1), type)) {
        p.bytes = type.bytes;
        p.align = std::max(p.align, type.bytes);
      } else if (s == "[") {
        p.bytes *= u32(std::stoul(t[k + 1].text));
        k += 2;
      } else if (s[0] != '.') {
        p.name = s;
      }
    }
    ++k;
    return list;
  }

  void function(size_t& k, bool entry) {
    Function f;
    f.entry = entry;
    if (t[k].text == "(") f.results = parameters(k);
    f.name = t[k++].text;
    if (t[k].text == "(") f.params = parameters(k);
    for (; t[k].text != "{" && t[k].text != ";"; ++k)
      if (t[k].text == ".maxntid" || t[k].text == ".reqntid") {
        f.max_threads = 1;
        do {
          ++k;
          f.max_threads *= u32(std::stoul(t[k].text));
        } while (t[k + 1].text == "," && ++k);
      }
    if (t[k].text == ";") {
      ++k;
      return;
    }
    f.begin = k;
    f.end = k = closing(k);
    functions[f.name] = f;
  }

  // A variable, to after its ";". k is told where its type begins.
  void variable(size_t& k, bool shared, bool external) {
    u32 align = 1, bytes = 0, n = 1;
    std::string name;
    Type type;
    for (; t[k].text != ";" && t[k].text != "="; ++k) {
      const std::string& s = t[k].text;
      if (s == ".align") align = u32(std::stoul(t[++k].text));
      else if (s[0] == '.' && parse_type(s.substr(1), type)) bytes = type.bytes;
      else if (s == "[") n *= t[k + 1].text == "]" ? 0 : u32(std::stoul(t[++k].text));
      else if (s == "]" || s[0] == '.') continue;
      else name = s;
    }
    align = std::max(align, bytes);
    if (shared) {
      if (external) external_shared.insert(name);
      else module_shared[name] = {bytes * n, align};
    } else {
      auto& words = storage.emplace_back(new u64[bytes * n / 8 + 2]());
      u8* p = reinterpret_cast<u8*>(words.get());
      globals[name] = {Space::global, reinterpret_cast<u64>(p)};
      memory().allocations[reinterpret_cast<u64>(p)] = bytes * n;
      if (t[k].text == "=") {
        for (u32 i = 0; t[k].text != ";"; ++k) {
          if (!is_number(t[k].text)) continue;
          const u64 x = number(t[k].text, type) * (t[k - 1].text == "-" ? -1 : 1);
          if (i * bytes < bytes * n) std::memcpy(p + i++ * bytes, &x, bytes);
        }
      }
    }
    ++k;
  }

  static u64 number(const std::string& s, Type type) {
    if (s.size() == 10 && (s[1] == 'f' || s[1] == 'F') && s[0] == '0')
      return std::stoul(s.substr(2), nullptr, 16);
    if (s.size() == 18 && (s[1] == 'd' || s[1] == 'D') && s[0] == '0') {
      const u64 bits = std::stoull(s.substr(2), nullptr, 16);
      return type.c == 'f' && type.bytes == 4 ? std::bit_cast<u32>(float(std::bit_cast<double>(bits)))
                                              : bits;
    }
    if (s.find('.') != std::string::npos) {
      const double x = std::stod(s);
      return type.bytes == 4 ? std::bit_cast<u32>(float(x)) : std::bit_cast<u64>(x);
    }
    return std::stoull(s, nullptr, 0);
  }

  void module() {
    for (size_t k = 0; k < t.size();) {
      const std::string& s = t[k].text;
      if (s.starts_with(".file")) {
        const int n = std::atoi(s.c_str() + 5);
        const size_t from = s.find('"');
        if (from != std::string::npos) files[n] = s.substr(from + 1, s.find('"', from + 1) - from - 1);
        ++k;
      } else if (s == ".entry" || s == ".func") {
        function(++k, s == ".entry");
      } else if (s == ".global" || s == ".const") {
        variable(++k, false, false);
      } else if (s == ".shared") {
        const bool external = k && t[k - 1].text == ".extern";
        variable(++k, true, external);
      } else if (s == ".section") {
        while (t[k].text != "{") ++k;
        k = closing(k);
      } else {
        ++k;
      }
    }
  }

  Kernel decode(const std::string& name);
};

// ---- the body of a kernel ----

namespace {

struct Decoder {
  const std::vector<Token>& t;
  const std::map<std::string, Function>& functions;
  const std::map<std::string, Symbol>& globals;
  Kernel& out;

  struct Scope {
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, Range> ranges;
    std::unordered_map<std::string, Symbol> symbols;
  };
  std::vector<Scope> scopes{{}};
  std::map<std::tuple<u32, u64>, u32> constant_rows;
  std::map<Special, u32> special_rows;
  u32 next_row = 64;
  int line = 0, file = 0, source = 0;

  // Labels of one function, and who jumps to them.
  struct Frame {
    const Function* function;
    std::unordered_map<std::string, u32> labels;
    std::vector<std::pair<u32, std::string>> jumps;
    std::vector<std::tuple<u32, u32, std::string>> table_jumps;
    std::unordered_map<std::string, std::vector<std::string>> tables;
    std::vector<u32> returns;
    size_t first_scope;
  };
  std::vector<Frame> frames;

  // the guard of the instruction at hand, and what has to follow it
  u32 guard = 0;
  bool unless = false;
  std::vector<Instr> after;

  Decoder(const std::vector<Token>& t, const std::map<std::string, Function>& functions,
          const std::map<std::string, Symbol>& globals, Kernel& out)
      : t(t), functions(functions), globals(globals), out(out) {}

  u32 fresh(u32 bytes) {
    const u32 row = next_row;
    next_row += (row_size(bytes) + 31) / 32 * 32;
    return row;
  }
  u32 constant(u64 value, u32 bytes) {
    if (bytes < 8) value &= (u64(1) << 8 * bytes) - 1;
    u32& row = constant_rows[{bytes, value}];
    if (!row) {
      row = fresh(bytes);
      out.constants.push_back({row, bytes, value});
    }
    return row;
  }
  u32 special(Special s) {
    u32& row = special_rows[s];
    if (!row) {
      row = fresh(4);
      out.specials.emplace_back(row, s);
    }
    return row;
  }
  u64 local_space(u32 bytes, u32 align) {
    out.local_bytes = (out.local_bytes + align - 1) / align * align;
    const u64 at = out.local_bytes;
    out.local_bytes += bytes;
    return at;
  }

  bool find_register(const std::string& name, Register& r) const {
    size_t end = name.size();
    while (end && std::isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
    const std::string prefix = name.substr(0, end);
    const u32 index = end < name.size() ? u32(std::stoul(name.substr(end))) : 0;
    for (size_t s = scopes.size(); s-- > 0;) {
      if (const auto at = scopes[s].registers.find(name); at != scopes[s].registers.end()) {
        r = at->second;
        return true;
      }
      if (end == name.size()) continue;
      if (const auto at = scopes[s].ranges.find(prefix);
          at != scopes[s].ranges.end() && index < at->second.count) {
        const Range& range = at->second;
        r = {range.row + index * std::max(row_size(range.bytes), 32u), range.bytes};
        return true;
      }
      if (!frames.empty() && s == frames.back().first_scope) break;
    }
    return false;
  }
  bool find_symbol(const std::string& name, Symbol& symbol) const {
    for (size_t s = scopes.size(); s-- > 0;)
      if (const auto at = scopes[s].symbols.find(name); at != scopes[s].symbols.end()) {
        symbol = at->second;
        return true;
      }
    const auto at = globals.find(name);
    if (at == globals.end()) return false;
    symbol = at->second;
    return true;
  }
  static bool find_special(const std::string& name, Special& s) {
    static const std::unordered_map<std::string, Special> names = {
        {"%tid.x", Special::tid_x},       {"%tid.y", Special::tid_y},
        {"%tid.z", Special::tid_z},       {"%ntid.x", Special::ntid_x},
        {"%ntid.y", Special::ntid_y},     {"%ntid.z", Special::ntid_z},
        {"%ctaid.x", Special::ctaid_x},   {"%ctaid.y", Special::ctaid_y},
        {"%ctaid.z", Special::ctaid_z},   {"%nctaid.x", Special::nctaid_x},
        {"%nctaid.y", Special::nctaid_y}, {"%nctaid.z", Special::nctaid_z},
        {"%laneid", Special::laneid},     {"%warpid", Special::warpid},
        {"%nwarpid", Special::nwarpid},   {"%smid", Special::smid},
        {"%clock", Special::clock},       {"%lanemask_lt", Special::lt},
        {"%lanemask_le", Special::le},    {"%lanemask_eq", Special::eq},
        {"%lanemask_ge", Special::ge},    {"%lanemask_gt", Special::gt},
        {"%dynamic_smem_size", Special::dynamic_shared},
        {"%total_smem_size", Special::total_shared}};
    const auto at = names.find(name);
    if (at == names.end()) return false;
    s = at->second;
    return true;
  }

  // ---- operands ----

  Operand operand(size_t& k) const {
    Operand o;
    if (t[k].text == "!") {
      o = operand(++k);
      o.negated = !o.negated;
      return o;
    }
    if (t[k].text == "{") {
      o.kind = Operand::vector;
      for (++k; t[k].text != "}";) {
        o.parts.push_back(operand(k));
        if (t[k].text == ",") ++k;
      }
      ++k;
      return o;
    }
    if (t[k].text == "[") {
      o.kind = Operand::memory;
      o.parts.push_back(operand(++k));
      if (t[k].text == "+") {
        const bool minus = t[k + 1].text == "-";
        k += 1 + minus;
        o.offset = s64(std::stoull(t[k++].text, nullptr, 0)) * (minus ? -1 : 1);
      }
      if (t[k].text != "]") unknown("an address: " + t[k].text);
      ++k;
      return o;
    }
    const bool minus = t[k].text == "-";
    k += minus;
    o.text = t[k++].text;
    if (is_number(o.text)) {
      o.kind = Operand::number;
      o.value = minus ? 1 : 0;
    } else if (find_register(o.text, o.r)) {
      o.kind = Operand::reg;
    } else {
      o.kind = Operand::name;
    }
    if (t[k].text == "|") o.parts.push_back(operand(++k));
    if (t[k].text == "+" && o.kind == Operand::name) {
      ++k;
      o.offset = s64(std::stoull(t[k++].text, nullptr, 0));
    }
    return o;
  }

  static u64 immediate(const Operand& o, Type type) {
    const u64 x = ptx_number(o.text, type);
    return o.value ? -x : x;
  }
  static u64 (*ptx_number)(const std::string&, Type);

  // ---- emitting ----

  Instr make(Step step) const {
    Instr i;
    i.step = step;
    i.guard = guard, i.unless = unless;
    i.line = line, i.file = file, i.source = source;
    return i;
  }
  void emit(Instr i) {
    out.code.push_back(std::move(i));
    for (Instr& next : after) out.code.push_back(std::move(next));
    after.clear();
  }
  template <class... R>
  void emit(Step step, R... rows) {
    Instr i = make(step);
    u32 k = 0;
    ((i.r[k++] = rows), ...);
    emit(std::move(i));
  }

  // Row of an operand as so many bytes.
  u32 in(const Operand& o, Type type, u32 bytes = 0) {
    if (!bytes) bytes = type.bytes;
    if (o.kind == Operand::number) return constant(immediate(o, type), bytes);
    if (o.kind == Operand::reg) {
      if (o.r.bytes == bytes) {
        if (!o.negated) return o.r.row;
        const u32 row = fresh(1);
        Instr i = make(lanewise<u8, u8>([](u8 p) { return u8(!p); }));
        i.r[0] = row, i.r[1] = o.r.row;
        out.code.push_back(i);
        return row;
      }
      if (o.r.bytes < bytes) unknown("a register that is too narrow: " + o.text);
      const u32 row = fresh(bytes);
      Instr i = make(with_bits(bytes, [&](auto d) {
        return with_bits(o.r.bytes, [&](auto s) {
          using D = decltype(d);
          using S = decltype(s);
          return lanewise<D, S>([](S x) { return D(x); });
        });
      }));
      i.r[0] = row, i.r[1] = o.r.row;
      out.code.push_back(i);
      return row;
    }
    if (o.kind == Operand::vector) {  // packed
      const u32 each_bytes = bytes / u32(o.parts.size());
      const u32 row = fresh(bytes);
      for (u32 k = 0; k < o.parts.size(); ++k) {
        Instr i = make(with_bits(each_bytes, [&](auto s) -> Step {
          using S = decltype(s);
          return [](Warp& w, const Instr& i) {
            each(w, [&](int l) {
              w.row<S>(i.r[0])[l * int(i.imm >> 32) + int(u32(i.imm))] = w.row<S>(i.r[1])[l];
            });
          };
        }));
        i.r[0] = row, i.r[1] = in(o.parts[k], {'b', each_bytes});
        i.imm = u64(o.parts.size()) << 32 | k;
        out.code.push_back(i);
      }
      return row;
    }
    Special s;
    if (find_special(o.text, s)) {
      if (bytes == 4) return special(s);
      Operand r;
      r.kind = Operand::reg, r.r = {special(s), 4};
      const u32 row = fresh(bytes);
      Instr i = make(bytes == 8 ? lanewise<u64, u32>([](u32 x) { return u64(x); })
                                : lanewise<u16, u32>([](u32 x) { return u16(x); }));
      i.r[0] = row, i.r[1] = r.r.row;
      out.code.push_back(i);
      return row;
    }
    if (o.text == "WARP_SZ") return constant(32, bytes);
    Symbol symbol;
    if (find_symbol(o.text, symbol)) return constant(symbol.at + u64(o.offset), bytes);
    unknown("an operand: " + o.text);
  }
  u32 predicate(const Operand& o) { return in(o, {'p', 1}); }

  // Row that takes a result of so many bytes; a wider register gets it extended.
  u32 to(const Operand& o, u32 bytes, bool sign = false) {
    if (o.kind == Operand::vector) {  // unpacked
      const u32 row = fresh(bytes), each_bytes = bytes / u32(o.parts.size());
      for (u32 k = 0; k < o.parts.size(); ++k) {
        if (o.parts[k].text == "_") continue;
        Instr i = make(with_bits(each_bytes, [&](auto s) -> Step {
          using S = decltype(s);
          return [](Warp& w, const Instr& i) {
            each(w, [&](int l) {
              w.row<S>(i.r[0])[l] = w.row<S>(i.r[1])[l * int(i.imm >> 32) + int(u32(i.imm))];
            });
          };
        }));
        if (o.parts[k].r.bytes != each_bytes) unknown("a vector of other registers");
        i.r[0] = o.parts[k].r.row, i.r[1] = row;
        i.imm = u64(o.parts.size()) << 32 | k;
        after.push_back(i);
      }
      return row;
    }
    if (o.kind == Operand::none || o.text == "_") return fresh(bytes);
    if (o.kind != Operand::reg) unknown("a result: " + o.text);
    if (o.r.bytes == bytes) return o.r.row;
    if (o.r.bytes < bytes) unknown("a register that is too narrow: " + o.text);
    const u32 row = fresh(bytes);
    Instr i = make(with_int({sign ? 's' : 'u', bytes}, [&](auto s) {
      return with_bits(o.r.bytes, [&](auto d) {
        using S = decltype(s);
        using D = decltype(d);
        return lanewise<D, S>([](S x) { return D(x); });
      });
    }));
    i.r[0] = o.r.row, i.r[1] = row;
    after.push_back(i);
    return row;
  }

  void set_address(Instr& i, const Operand& o, Space space) {
    const Operand& base = o.parts[0];
    i.space = space;
    i.imm = u64(o.offset) + u64(base.offset);
    if (base.kind == Operand::reg) {
      i.wide = base.r.bytes == 8;
      i.r[15] = base.r.row;
      return;
    }
    i.r[15] = constant(0, 8);
    if (base.kind == Operand::number) {
      i.imm += immediate(base, {'u', 8});
      return;
    }
    Symbol symbol;
    if (!find_symbol(base.text, symbol)) unknown("a variable: " + base.text);
    i.space = symbol.space;
    i.imm += symbol.at;
  }

  // ---- declarations ----

  void declare_registers(size_t& k) {
    Type type;
    parse_type(t[k + 1].text.substr(1), type);
    for (k += 2; t[k].text != ";";) {
      const std::string name = t[k++].text;
      if (t[k].text == "<") {
        const u32 count = u32(std::stoul(t[k + 1].text));
        const u32 each_row = std::max(row_size(type.bytes), 32u);
        scopes.back().ranges[name] = {next_row, type.bytes, count};
        next_row += each_row * count;
        k += 3;
      } else {
        scopes.back().registers[name] = {fresh(type.bytes), type.bytes};
      }
      if (t[k].text == ",") ++k;
    }
    ++k;
  }
  void declare_memory(size_t& k) {
    const Space space = t[k].text == ".shared" ? Space::shared : Space::local;  // .local, .param
    u32 align = 1, n = 1;
    Type type;
    std::string name;
    for (++k; t[k].text != ";"; ++k) {
      const std::string& s = t[k].text;
      if (s == ".align") align = u32(std::stoul(t[++k].text));
      else if (s[0] == '.') parse_type(s.substr(1), type);
      else if (s == "[") n *= u32(std::stoul(t[++k].text));
      else if (s != "]") name = s;
    }
    ++k;
    align = std::max(align, type.bytes);
    if (space == Space::local) {
      scopes.back().symbols[name] = {space, local_space(type.bytes * n, align)};
    } else {
      Symbol known;
      if (!find_symbol(name, known)) scopes.back().symbols[name] = {space, add_shared(type.bytes * n, align)};
    }
  }
  u64 add_shared(u32 bytes, u32 align) {
    out.static_shared = (out.static_shared + align - 1) / align * align;
    const u64 at = first_shared + out.static_shared;
    out.static_shared += bytes;
    return at;
  }

  // ---- bodies ----

  void body(const Function& f) {
    frames.push_back({&f, {}, {}, {}, {}, {}, scopes.size()});
    if (frames.size() > 30) unknown("a recursive function: " + f.name);
    scopes.push_back({});
    for (size_t k = f.begin + 1; k < f.end - 1;) statement(k);
    scopes.resize(frames.back().first_scope);
    Frame& frame = frames.back();
    const u32 end = u32(out.code.size());
    const auto place = [&](const std::string& label) {
      const auto at = frame.labels.find(label);
      if (at == frame.labels.end()) unknown("a label: " + label);
      return at->second;
    };
    for (auto& [at, label] : frame.jumps) out.code[at].target = place(label);
    for (auto& [at, slot, label] : frame.table_jumps) out.code[at].targets[slot] = place(label);
    for (u32 at : frame.returns) out.code[at].target = end;
    frames.pop_back();
  }

  void statement(size_t& k) {
    line = t[k].line;
    const std::string& s = t[k].text;
    if (s == "{") {
      scopes.push_back({});
      ++k;
    } else if (s == "}") {
      scopes.pop_back();
      ++k;
    } else if (s == ";") {
      ++k;
    } else if (s == ".reg") {
      declare_registers(k);
    } else if (s == ".local" || s == ".shared" || s == ".param") {
      declare_memory(k);
    } else if (s.starts_with(".loc ") || s.starts_with(".loc\t")) {
      std::sscanf(s.c_str() + 4, "%d %d", &file, &source);
      ++k;
    } else if (s == ".pragma") {
      while (t[k++].text != ";") {
      }
    } else if (t[k + 1].text == ":") {
      if (t[k + 2].text == ".branchtargets") {
        std::vector<std::string> labels;
        const std::string name = s;
        for (k += 3; t[k].text != ";"; ++k)
          if (t[k].text != ",") labels.push_back(t[k].text);
        frames.back().tables[name] = labels;
        ++k;
      } else if (t[k + 2].text == ".callprototype") {
        while (t[k++].text != ";") {
        }
      } else {
        frames.back().labels[s] = u32(out.code.size());
        k += 2;
      }
    } else if (s[0] == '.') {
      unknown("a directive: " + s);
    } else {
      instruction(k);
    }
  }

  void instruction(size_t& k) {
    guard = 0, unless = false;
    if (t[k].text[0] == '@') {
      ++k;
      unless = t[k].text == "!";
      k += unless;
      Register r;
      if (!find_register(t[k].text, r)) unknown("a predicate: " + t[k].text);
      guard = r.row;
      ++k;
    }
    const std::string opcode = t[k++].text;
    const auto name = split(opcode, '.');
    if (name[0] == "call") return call(k);
    std::vector<Operand> o;
    while (t[k].text != ";") {
      o.push_back(operand(k));
      if (t[k].text == ",") ++k;
      else if (t[k].text != ";") unknown("operands of " + opcode + " near " + t[k].text);
    }
    ++k;
    const size_t first = out.code.size();
    try {
      operation(opcode, name, o);
      count_as(opcode, o, first);
    } catch (const Fault& f) {
      throw Fault(f.code, std::string(f.what()) + " in " + opcode + ", PTX line " + std::to_string(line));
    }
  }

  // Count a PTX instruction at one of its steps.
  void count_as(const std::string& opcode, const std::vector<Operand>& o, size_t first) {
    if (first == out.code.size()) return;
    size_t at = out.code.size() - 1;
    for (size_t k = first; k < out.code.size(); ++k)
      if (out.code[k].unit || out.code[k].kind != Kind::plain) at = k;
    const bool packs = opcode.starts_with("mov") && std::any_of(o.begin(), o.end(), [](const Operand& x) {
      return x.kind == Operand::vector && x.parts[0].r.bytes == 2;
    });
    out.code[at].op = number_of(packs ? opcode + ".packed" : opcode);
  }

  // The callee's body is put in place of the call.
  void call(size_t& k) {
    std::vector<std::string> lists[2], *list = nullptr;
    std::string callee;
    bool before = true;
    for (; t[k].text != ";"; ++k) {
      const std::string& s = t[k].text;
      if (s == "(") list = &lists[before ? 0 : 1];
      else if (s == ")") list = nullptr;
      else if (s == ",") continue;
      else if (list) list->push_back(s);
      else if (callee.empty()) callee = s, before = false;
    }
    ++k;
    const auto at = functions.find(callee);
    if (at == functions.end()) unknown("a call of " + callee);
    const Function& f = at->second;
    const u32 skip_guard = guard;
    const bool skip_unless = unless;
    u32 skip = 0;
    if (skip_guard) {  // around the call where the guard does not hold
      Instr i = make(nullptr);
      i.kind = Kind::branch;
      i.unless = !skip_unless;
      skip = u32(out.code.size());
      emit(i);
    }
    scopes.push_back({});
    const auto bind = [&](const std::vector<Param>& formal, const std::vector<std::string>& actual) {
      for (size_t p = 0; p < formal.size(); ++p) {
        Symbol symbol;
        if (!find_symbol(actual.at(p), symbol)) unknown("an argument: " + actual[p]);
        scopes.back().symbols[formal[p].name] = symbol;
      }
    };
    bind(f.results, lists[0]);
    bind(f.params, lists[1]);
    guard = 0, unless = false;
    body(f);
    scopes.pop_back();
    if (skip_guard) out.code[skip].target = u32(out.code.size());
  }

  void operation(const std::string& opcode, const std::vector<std::string>& name,
                 std::vector<Operand>& o);

  // p|q = raw and c | !raw and c
  void combine_predicates(const std::vector<Operand>& o, const std::string& combine, u32 raw, u32 with,
                          u32 p) {
    const Step step = combine == "and"  ? lanewise<u8, u8, u8>([](u8 a, u8 b) { return u8(a && b); })
                      : combine == "or" ? lanewise<u8, u8, u8>([](u8 a, u8 b) { return u8(a || b); })
                      : combine == "xor" ? lanewise<u8, u8, u8>([](u8 a, u8 b) { return u8(!a != !b); })
                                         : lanewise<u8, u8, u8>([](u8 a, u8) { return a; });
    if (!with) with = raw;
    if (!o[0].parts.empty()) {
      const u32 opposite = fresh(1), q = to(o[0].parts[0], 1), c = fresh(1);
      emit(lanewise<u8, u8>([](u8 a) { return u8(!a); }), opposite, raw);
      emit(lanewise<u8, u8>([](u8 a) { return a; }), c, with);  // p may be it
      emit(step, p, raw, c);
      emit(step, q, opposite, c);
    } else {
      emit(step, p, raw, with);
    }
  }
};

u64 (*Decoder::ptx_number)(const std::string&, Type) = nullptr;

int rounding_mode(const std::string& m) {
  return m == "rz" ? FE_TOWARDZERO : m == "rm" ? FE_DOWNWARD : m == "rp" ? FE_UPWARD : FE_TONEAREST;
}

template <class T>
Step comparison(const std::string& c) {
  const auto as = [](auto k) {
    return lanewise<u8, T, T>([](T a, T b) { return u8(compared<decltype(k)::value>(a, b)); });
  };
#define GNOGRAD_PTX_COMPARE(name) \
  if (c == #name) return as(std::integral_constant<Cmp, Cmp::name>())
  GNOGRAD_PTX_COMPARE(eq);
  GNOGRAD_PTX_COMPARE(ne);
  GNOGRAD_PTX_COMPARE(lt);
  GNOGRAD_PTX_COMPARE(le);
  GNOGRAD_PTX_COMPARE(gt);
  GNOGRAD_PTX_COMPARE(ge);
  if (c == "lo") return comparison<T>("lt");
  if (c == "ls") return comparison<T>("le");
  if (c == "hi") return comparison<T>("gt");
  if (c == "hs") return comparison<T>("ge");
  if constexpr (!std::is_integral_v<T>) {
    GNOGRAD_PTX_COMPARE(equ);
    GNOGRAD_PTX_COMPARE(neu);
    GNOGRAD_PTX_COMPARE(ltu);
    GNOGRAD_PTX_COMPARE(leu);
    GNOGRAD_PTX_COMPARE(gtu);
    GNOGRAD_PTX_COMPARE(geu);
    GNOGRAD_PTX_COMPARE(num);
    GNOGRAD_PTX_COMPARE(nan);
  }
#undef GNOGRAD_PTX_COMPARE
  unknown("a comparison: " + c);
}

// Approximate functions are as wrong as the manual allows, one way or the other by chance, so that
// nobody relies on more; PTX_ROUGH says how many times as wrong, 0: correctly rounded. Powers of two
// are exact, which NVIDIA's own library counts on.
float rough(float exact, float x, double ulps) {
  static const char* given = std::getenv("PTX_ROUGH");
  static const double times = given ? std::atof(given) : 1;
  if (!times || !std::isfinite(exact) || exact == 0) return exact;
  if (!(std::bit_cast<u32>(exact) & 0x7fffff)) return exact;
  const u32 hash = std::bit_cast<u32>(x) * 2654435761u >> 16;
  const double way = double(s32(hash & 0xffff) - 0x8000) / 0x8000;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return float(double(exact) + way * ulps * times * unit);
}

double upper_half(double x) {
  return std::bit_cast<double>(std::bit_cast<u64>(x) & 0xffffffff00000000u);
}

void Decoder::operation(const std::string& opcode, const std::vector<std::string>& name,
                        std::vector<Operand>& o) {
  const std::string& op = name[0];
  const auto has = [&](const char* m) {
    return std::find(name.begin() + 1, name.end(), m) != name.end();
  };
  std::vector<Type> types;
  for (size_t k = 1; k < name.size(); ++k)
    if (Type t; parse_type(name[k], t)) types.push_back(t);
  const Type type = types.empty() ? Type{} : types.back();
  std::string rounding;
  for (const char* m : {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"})
    if (has(m)) rounding = m;
  const auto rows = [&](Step step, std::initializer_list<u32> r) {
    Instr i = make(step);
    std::copy(r.begin(), r.end(), i.r);
    emit(i);
  };
  // with the rounding mode and the flushing that the name asks for, and then clamped to [0, 1]
  const auto float_rows = [&](Step step, std::initializer_list<u32> r) {
    Instr i = make(step);
    std::copy(r.begin(), r.end(), i.r);
    const int mode = rounding_mode(rounding);
    if (mode != FE_TONEAREST) {
      if (has("ftz") || type.bytes < 4 || type.pair) unknown("rounding in this way");
      i.inner = step, i.step = directed, i.imm = u64(mode);
    } else if (has("ftz") && type.bytes == 4 && !type.pair) {
      i.inner = step, i.step = flushed;
    }
    const std::vector<Instr> later = std::move(after);
    after.clear();
    emit(i);
    if (has("sat")) {
      Instr s = make(float_step<1>(type, [](auto x) { return saturated(x); }));
      s.r[0] = s.r[1] = *r.begin();
      emit(s);
    }
    for (const Instr& next : later) emit(next);
  };
  const auto need = [&](size_t n) {
    if (o.size() < n) unknown("too few operands");
  };

  // ---- moving ----
  if (op == "mov") {
    need(2);
    const u32 from = in(o[1], type);
    const u32 at = to(o[0], type.bytes);
    return rows(with_bits(type.bytes, [&](auto x) {
                  using T = decltype(x);
                  return lanewise<T, T>([](T a) { return a; });
                }),
                {at, from});
  }
  if (op == "ld" || op == "ldu" || op == "st") {
    const bool loads = op != "st";
    const Operand &value = o[loads ? 0 : 1], &place = o[loads ? 1 : 0];
    const Space space = has("global")               ? Space::global
                        : has("shared") || has("shared::cta") ? Space::shared
                        : has("local")              ? Space::local
                        : has("const")              ? Space::global
                        : has("param")              ? Space::param
                                                    : Space::generic;
    const std::vector<Operand> single{value};
    const auto& parts = value.kind == Operand::vector ? value.parts : single;
    const u32 width = parts[0].kind == Operand::reg ? parts[0].r.bytes : std::max(type.bytes, 2u);
    Instr i;
    if (loads) {
      i = make(with_int(type, [&](auto m) {
        return with_bits(width, [&](auto r) -> Step { return load<decltype(m), decltype(r)>; });
      }));
      for (size_t p = 0; p < parts.size(); ++p)
        i.r[p] = parts[p].text == "_" ? fresh(width) : parts[p].r.row;
      for (const Operand& p : parts)
        if (p.text != "_" && (p.kind != Operand::reg || p.r.bytes != width)) unknown("mixed registers");
    } else {
      i = make(with_bits(type.bytes, [&](auto m) {
        return with_bits(width, [&](auto r) -> Step { return store<decltype(m), decltype(r)>; });
      }));
      u32 rows_in[8];
      for (size_t p = 0; p < parts.size(); ++p) rows_in[p] = in(parts[p], type, width);
      std::copy(rows_in, rows_in + parts.size(), i.r);
    }
    i.n = u8(parts.size());
    i.unit = u8(type.bytes);
    i.outs = loads ? i.n : 0;
    i.constant = has("nc");
    set_address(i, place, space);
    return emit(i);
  }
  if (op == "cvta") {
    const u64 window = has("shared") || has("shared::cta") ? shared_window
                       : has("local")                      ? local_window
                       : has("param")                      ? param_window
                                                           : 0;
    Operand from = o[1];
    if (has("to")) {
      const u32 a = in(from, type), at = to(o[0], type.bytes);
      if (!window) return rows(lanewise<u64, u64>([](u64 x) { return x; }), {at, a});
      return rows(lanewise<u64, u64>([](u64 x) { return x & in_window; }), {at, a});
    }
    const u32 a = in(from, type), at = to(o[0], type.bytes);
    return rows(lanewise<u64, u64, u64>([](u64 x, u64 y) { return x | y; }), {at, a, constant(window, 8)});
  }
  if (op == "isspacep") {
    const u64 window = has("shared") || has("shared::cta") ? shared_window : has("local") ? local_window : 0;
    const u32 a = in(o[1], {'u', 8}), at = to(o[0], 1);
    return rows(lanewise<u8, u64, u64>([](u64 x, u64 y) { return u8((x & ~in_window) == y); }),
                {at, a, constant(window, 8)});
  }
  if (op == "cvt") {
    const Type d = types.at(0), s = types.at(1);
    if (d.pair) {
      if (s.c != 'f' || s.bytes != 4 || o.size() != 3 || has("relu") || rounding != "rn") unknown("this");
      const u32 a = in(o[1], s), b = in(o[2], s), at = to(o[0], 4);
      if (d.c == 'f')
        return rows(lanewise<u32, float, float>([](float a, float b) {
                      return u32(f16(a).bits) << 16 | f16(b).bits;
                    }), {at, a, b});
      return rows(lanewise<u32, float, float>([](float a, float b) {
                    return u32(bf16(a).bits) << 16 | bf16(b).bits;
                  }), {at, a, b});
    }
    if (d.c == 't') {
      if (rounding != "rna") unknown("this rounding");
      const u32 a = in(o[1], s), at = to(o[0], 4);
      return rows(lanewise<u32, float>([](float x) { return to_tf32_rna(x); }), {at, a});
    }
    const u32 a = in(o[1], s), at = to(o[0], d.bytes, d.c == 's');
    if (!is_float(d) && !is_float(s)) {
      if (has("sat")) unknown("saturation");
      return rows(with_int(s, [&](auto x) {
                    return with_bits(d.bytes, [&](auto y) {
                      using S = decltype(x);
                      using D = decltype(y);
                      return lanewise<D, S>([](S v) { return D(v); });
                    });
                  }), {at, a});
    }
    if (!is_float(d)) {
      if (has("ftz") && s.bytes != 4) unknown("ftz");
      const auto with_mode = [&](auto mode) {
        return with_float(s, [&](auto x) {
          return with_int(d, [&](auto y) {
            using S = decltype(x);
            using D = decltype(y);
            return lanewise<D, S>([](S v) { return to_integer<D>(v, decltype(mode)::value); });
          });
        });
      };
      Step step = rounding == "rni"   ? with_mode(std::integral_constant<int, 'n'>())
                  : rounding == "rzi" ? with_mode(std::integral_constant<int, 'z'>())
                  : rounding == "rmi" ? with_mode(std::integral_constant<int, 'm'>())
                                      : with_mode(std::integral_constant<int, 'p'>());
      return rows(step, {at, a});
    }
    if (!is_float(s)) {
      const Step step = with_int(s, [&](auto x) {
        return with_float(d, [&](auto y) {
          using S = decltype(x);
          using D = decltype(y);
          if constexpr (half<D>) return lanewise<D, S>([](S v) { return D(double(v)); });
          else return lanewise<D, S>([](S v) { return D(v); });
        });
      });
      return float_rows(step, {at, a});
    }
    if (rounding.size() == 3) {  // to an integral value
      const auto with_mode = [&](auto mode) {
        return with_float(s, [&](auto x) {
          using S = decltype(x);
          return lanewise<S, S>([](S v) { return S(to_integral<decltype(mode)::value>(double(num(v)))); });
        });
      };
      if (d.bytes != s.bytes) unknown("this rounding");
      return float_rows(rounding == "rni"   ? with_mode(std::integral_constant<int, 'n'>())
                        : rounding == "rzi" ? with_mode(std::integral_constant<int, 'z'>())
                        : rounding == "rmi" ? with_mode(std::integral_constant<int, 'm'>())
                                            : with_mode(std::integral_constant<int, 'p'>()), {at, a});
    }
    if (rounding_mode(rounding) != FE_TONEAREST && d.bytes < 4) unknown("this rounding");
    return float_rows(with_float(s, [&](auto x) {
                        return with_float(d, [&](auto y) {
                          using S = decltype(x);
                          using D = decltype(y);
                          if constexpr (half<D> && std::is_same_v<S, double>)
                            return lanewise<D, S>([](S v) { return D(v); });
                          else return lanewise<D, S>([](S v) { return made<D>(num(v)); });
                        });
                      }), {at, a});
  }

  // ---- arithmetic ----
  if (op == "add" || op == "sub" || op == "mul" || op == "div" || op == "min" || op == "max" ||
      op == "rem" || op == "and" || op == "or" || op == "xor" || op == "copysign") {
    need(3);
    if (is_float(type)) {
      const u32 a = in(o[1], type), b = in(o[2], type), d = to(o[0], type.bytes);
      if (op == "add") return float_rows(float_step<2>(type, [](auto x, auto y) { return made<decltype(x)>(num(x) + num(y)); }), {d, a, b});
      if (op == "sub") return float_rows(float_step<2>(type, [](auto x, auto y) { return made<decltype(x)>(num(x) - num(y)); }), {d, a, b});
      if (op == "mul") return float_rows(float_step<2>(type, [](auto x, auto y) { return made<decltype(x)>(num(x) * num(y)); }), {d, a, b});
      if (op == "div") {
        if (has("approx") || has("full"))
          return float_rows(lanewise<float, float, float>([](float x, float y) { return rough(made<float>(x / y), y, 2); }), {d, a, b});
        return float_rows(float_step<2>(type, [](auto x, auto y) { return made<decltype(x)>(num(x) / num(y)); }), {d, a, b});
      }
      if (op == "copysign")
        return rows(with_float(type, [&](auto x) {
                      using T = decltype(x);
                      return lanewise<T, T, T>([](T x, T y) { return T(std::copysign(num(y), num(x))); });
                    }), {d, a, b});
      if (has("xorsign") || has("abs")) unknown("this");
      const bool greatest = op == "max", nan = has("NaN");
      const Step step = greatest ? nan ? float_step<2>(type, [](auto x, auto y) { return extremum<decltype(x), true, true>(x, y); })
                                       : float_step<2>(type, [](auto x, auto y) { return extremum<decltype(x), false, true>(x, y); })
                        : nan ? float_step<2>(type, [](auto x, auto y) { return extremum<decltype(x), true, false>(x, y); })
                              : float_step<2>(type, [](auto x, auto y) { return extremum<decltype(x), false, false>(x, y); });
      return float_rows(step, {d, a, b});
    }
    if (type.c == 'p') {
      const u32 a = predicate(o[1]), b = predicate(o[2]), d = to(o[0], 1);
      if (op == "and") return rows(lanewise<u8, u8, u8>([](u8 x, u8 y) { return u8(x && y); }), {d, a, b});
      if (op == "or") return rows(lanewise<u8, u8, u8>([](u8 x, u8 y) { return u8(x || y); }), {d, a, b});
      return rows(lanewise<u8, u8, u8>([](u8 x, u8 y) { return u8(!x != !y); }), {d, a, b});
    }
    if (has("cc")) {
      if (type.bytes != 4 || op == "mul") unknown("carry");
      const u32 a = in(o[1], type), b = in(o[2], type), d = to(o[0], 4);
      return rows(op == "add" ? Step([](Warp& w, const Instr& i) {
                    each(w, [&](int l) {
                      const u64 sum = u64(w.row<u32>(i.r[1])[l]) + w.row<u32>(i.r[2])[l];
                      w.row<u32>(i.r[0])[l] = u32(sum), w.carry[l] = u32(sum >> 32);
                    });
                  })
                              : Step([](Warp& w, const Instr& i) {
                    each(w, [&](int l) {
                      const u32 x = w.row<u32>(i.r[1])[l], y = w.row<u32>(i.r[2])[l];
                      w.row<u32>(i.r[0])[l] = x - y, w.carry[l] = x < y;
                    });
                  }), {d, a, b});
    }
    if (op == "mul" && has("wide")) {
      const u32 a = in(o[1], type), b = in(o[2], type), d = to(o[0], 2 * type.bytes, type.c == 's');
      const bool sign = type.c == 's';
      if (type.bytes == 4)
        return rows(sign ? lanewise<s64, s32, s32>([](s32 x, s32 y) { return s64(x) * y; })
                         : lanewise<u64, u32, u32>([](u32 x, u32 y) { return u64(x) * y; }), {d, a, b});
      return rows(sign ? lanewise<s32, s16, s16>([](s16 x, s16 y) { return s32(x) * y; })
                       : lanewise<u32, u16, u16>([](u16 x, u16 y) { return u32(x) * y; }), {d, a, b});
    }
    const bool upper = op == "mul" && has("hi");
    const u32 a = in(o[1], type), b = in(o[2], type), d = to(o[0], type.bytes, type.c == 's');
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  using U = std::make_unsigned_t<T>;
                  if (op == "add") return lanewise<T, T, T>([](T x, T y) { return T(U(x) + U(y)); });
                  if (op == "sub") return lanewise<T, T, T>([](T x, T y) { return T(U(x) - U(y)); });
                  if (upper) return lanewise<T, T, T>([](T x, T y) { return high(x, y); });
                  if (op == "mul") return lanewise<T, T, T>([](T x, T y) { return T(u64(U(x)) * u64(U(y))); });
                  if (op == "div") return lanewise<T, T, T>([](T x, T y) { return y == 0 ? T(-1) : std::is_signed_v<T> && y == T(-1) ? T(U(0) - U(x)) : T(x / y); });
                  if (op == "rem") return lanewise<T, T, T>([](T x, T y) { return y == 0 ? x : std::is_signed_v<T> && y == T(-1) ? T(0) : T(x % y); });
                  if (op == "min") return lanewise<T, T, T>([](T x, T y) { return x < y ? x : y; });
                  if (op == "max") return lanewise<T, T, T>([](T x, T y) { return x < y ? y : x; });
                  if (op == "and") return lanewise<T, T, T>([](T x, T y) { return T(x & y); });
                  if (op == "or") return lanewise<T, T, T>([](T x, T y) { return T(x | y); });
                  if (op == "xor") return lanewise<T, T, T>([](T x, T y) { return T(x ^ y); });
                  unknown("this");
                }), {d, a, b});
  }
  if (op == "addc" || op == "subc") {
    const u32 a = in(o[1], type), b = in(o[2], type), d = to(o[0], 4);
    if (type.bytes != 4) unknown("carry");
    return rows(op == "addc" ? Step([](Warp& w, const Instr& i) {
                  each(w, [&](int l) {
                    const u64 sum = u64(w.row<u32>(i.r[1])[l]) + w.row<u32>(i.r[2])[l] + w.carry[l];
                    w.row<u32>(i.r[0])[l] = u32(sum), w.carry[l] = u32(sum >> 32);
                  });
                })
                             : Step([](Warp& w, const Instr& i) {
                  each(w, [&](int l) {
                    const u64 x = w.row<u32>(i.r[1])[l], y = u64(w.row<u32>(i.r[2])[l]) + w.carry[l];
                    w.row<u32>(i.r[0])[l] = u32(x - y), w.carry[l] = x < y;
                  });
                }), {d, a, b});
  }
  if (op == "mad" || op == "madc" || op == "fma") {
    need(4);
    if (is_float(type)) {
      if (has("relu")) unknown("relu");
      const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], type), d = to(o[0], type.bytes);
      return float_rows(float_step<3>(type, [](auto x, auto y, auto z) { return fused(x, y, z); }), {d, a, b, c});
    }
    const u32 a = in(o[1], type), b = in(o[2], type);
    if (has("wide")) {
      const u32 c = in(o[3], {type.c, 2 * type.bytes}), d = to(o[0], 2 * type.bytes, type.c == 's');
      if (type.bytes == 4)
        return rows(type.c == 's' ? lanewise<u64, s32, s32, u64>([](s32 x, s32 y, u64 z) { return u64(s64(x) * y) + z; })
                                  : lanewise<u64, u32, u32, u64>([](u32 x, u32 y, u64 z) { return u64(x) * y + z; }), {d, a, b, c});
      return rows(type.c == 's' ? lanewise<u32, s16, s16, u32>([](s16 x, s16 y, u32 z) { return u32(s32(x) * y) + z; })
                                : lanewise<u32, u16, u16, u32>([](u16 x, u16 y, u32 z) { return u32(x) * y + z; }), {d, a, b, c});
    }
    const u32 c = in(o[3], type), d = to(o[0], type.bytes, type.c == 's');
    const bool upper = has("hi");
    if (op == "madc" || has("cc")) {
      if (type.bytes != 4 || (upper && type.c == 's')) unknown("carry");
      const auto step = [](auto with_carry, auto of_high) -> Step {
        return [](Warp& w, const Instr& i) {
          each(w, [&](int l) {
            u64 x = u64(w.row<u32>(i.r[1])[l]) * w.row<u32>(i.r[2])[l];
            x = decltype(of_high)::value ? x >> 32 : u32(x);
            x += w.row<u32>(i.r[3])[l];
            if (decltype(with_carry)::value) x += w.carry[l];
            w.row<u32>(i.r[0])[l] = u32(x), w.carry[l] = u32(x >> 32);
          });
        };
      };
      using Yes = std::true_type;
      using No = std::false_type;
      return rows(op == "madc" ? upper ? step(Yes(), Yes()) : step(Yes(), No())
                  : upper ? step(No(), Yes()) : step(No(), No()), {d, a, b, c});
    }
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  if (upper) return lanewise<T, T, T, T>([](T x, T y, T z) { return T(unsigned_of(high(x, y)) + unsigned_of(z)); });
                  return lanewise<T, T, T, T>([](T x, T y, T z) { return T(u64(x) * u64(y) + u64(z)); });
                }), {d, a, b, c});
  }
  if (op == "neg" || op == "abs") {
    const u32 a = in(o[1], type), d = to(o[0], type.bytes, type.c == 's');
    if (is_float(type)) {  // signs alone, of NaNs too
      const u64 sign = type.pair ? 0x80008000u : u64(1) << (8 * type.bytes - 1);
      const bool negates = op == "neg";
      const u32 mask = constant(negates ? sign : ~sign, type.bytes);
      Instr i = make(with_bits(type.bytes, [&](auto x) -> Step {
        using T = decltype(x);
        return negates ? lanewise<T, T, T>([](T x, T m) { return T(x ^ m); })
                       : lanewise<T, T, T>([](T x, T m) { return T(x & m); });
      }));
      i.r[0] = d, i.r[1] = a, i.r[2] = mask;
      if (has("ftz")) {
        const Step move = lanewise<float, float>([](float x) { return x * 1.0f; });
        Instr f = make(flushed);
        f.inner = move, f.r[0] = d, f.r[1] = d;
        after.insert(after.begin(), f);
      }
      return emit(i);
    }
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  if (op == "neg") return lanewise<T, T>([](T x) { return T(-u64(x)); });
                  return lanewise<T, T>([](T x) { return x < 0 ? T(-u64(x)) : x; });
                }), {d, a});
  }
  if (op == "sqrt" || op == "rcp" || op == "rsqrt") {
    const u32 a = in(o[1], type), d = to(o[0], type.bytes);
    if (type.bytes == 8 && has("approx"))  // the upper 32 bits of the number alone
      return rows(op == "rcp" ? lanewise<double, double>([](double x) { return upper_half(1 / (std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0., x) : upper_half(x))); })
                              : lanewise<double, double>([](double x) { return upper_half(1 / std::sqrt(std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0., x) : upper_half(x))); }), {d, a});
    if (op == "rsqrt") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(1 / std::sqrt(double(x))), x, 2); }), {d, a});
    const bool approx = has("approx");
    if (op == "sqrt")
      return approx ? float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::sqrt(x)), x, 2); }), {d, a})
                    : float_rows(float_step<1>(type, [](auto x) { return made<decltype(x)>(std::sqrt(num(x))); }), {d, a});
    return approx ? float_rows(lanewise<float, float>([](float x) { return rough(made<float>(1 / x), x, 1); }), {d, a})
                  : float_rows(float_step<1>(type, [](auto x) { return made<decltype(x)>(1 / num(x)); }), {d, a});
  }
  if (op == "ex2" || op == "lg2" || op == "sin" || op == "cos" || op == "tanh") {
    if (type.bytes != 4 || type.pair) unknown("this type");
    const u32 a = in(o[1], type), d = to(o[0], 4);
    if (op == "ex2") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::exp2(double(x))), x, 2); }), {d, a});
    if (op == "lg2") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::log2(double(x))), x, 1); }), {d, a});
    if (op == "sin") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::sin(double(x))), x, 4); }), {d, a});
    if (op == "cos") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::cos(double(x))), x, 4); }), {d, a});
    return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::tanh(double(x))), x, 4096); }), {d, a});
  }
  if (op == "testp") {
    const u32 a = in(o[1], type), d = to(o[0], 1);
    return rows(with_float(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  if (has("finite")) return lanewise<u8, T>([](T x) { return u8(std::isfinite(num(x))); });
                  if (has("infinite")) return lanewise<u8, T>([](T x) { return u8(std::isinf(num(x))); });
                  if (has("notanumber")) return lanewise<u8, T>([](T x) { return u8(std::isnan(num(x))); });
                  if (has("number")) return lanewise<u8, T>([](T x) { return u8(!std::isnan(num(x))); });
                  if (has("normal")) return lanewise<u8, T>([](T x) { return u8(std::isnormal(num(x))); });
                  unknown("this");
                }), {d, a});
  }

  // ---- bits ----
  if (op == "not" || op == "cnot") {
    if (type.c == 'p') {
      const u32 a = predicate(o[1]), d = to(o[0], 1);
      return rows(lanewise<u8, u8>([](u8 x) { return u8(!x); }), {d, a});
    }
    const u32 a = in(o[1], type), d = to(o[0], type.bytes);
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  if (op == "not") return lanewise<T, T>([](T x) { return T(~x); });
                  return lanewise<T, T>([](T x) { return T(x == 0); });
                }), {d, a});
  }
  if (op == "shl" || op == "shr") {
    const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), d = to(o[0], type.bytes, type.c == 's');
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  constexpr u32 bits = 8 * sizeof(T);
                  if (op == "shl") return lanewise<T, T, u32>([](T x, u32 n) { return n >= bits ? T(0) : T(u64(x) << n); });
                  return lanewise<T, T, u32>([](T x, u32 n) { return n >= bits ? T(x < 0 ? -1 : 0) : T(x >> n); });
                }), {d, a, b});
  }
  if (op == "shf") {
    const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), d = to(o[0], 4);
    const bool left = has("l"), wrap = has("wrap");
    if (left)
      return rows(wrap ? lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) << (c & 31) >> 32); })
                       : lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return c >= 32 ? a : u32((u64(b) << 32 | a) << c >> 32); }), {d, a, b, c});
    return rows(wrap ? lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) >> (c & 31)); })
                     : lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return c >= 32 ? b : u32((u64(b) << 32 | a) >> c); }), {d, a, b, c});
  }
  if (op == "lop3") {
    if (o.size() != 5 || o[4].kind != Operand::number) unknown("this form");
    const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], type), d = to(o[0], 4);
    return rows(lanewise<u32, u32, u32, u32, u32>([](u32 a, u32 b, u32 c, u32 table) {
                  u32 d = 0;
                  for (int k = 0; k < 8; ++k)
                    if (table >> k & 1) d |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
                  return d;
                }), {d, a, b, c, in(o[4], {'u', 4})});
  }
  if (op == "prmt") {
    if (name.size() != 2) unknown("this mode");
    const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), d = to(o[0], 4);
    return rows(lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return permuted(a, b, c); }), {d, a, b, c});
  }
  if (op == "bfe") {
    const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), c = in(o[3], {'u', 4}), d = to(o[0], type.bytes);
    return rows(with_word(type, [&](auto x) {
                  using T = decltype(x);
                  return lanewise<T, T, u32, u32>([](T a, u32 b, u32 c) { return extracted(a, b, c); });
                }), {d, a, b, c});
  }
  if (op == "bfi") {
    const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), e = in(o[4], {'u', 4}), d = to(o[0], type.bytes);
    return rows(type.bytes == 4 ? lanewise<u32, u32, u32, u32, u32>([](u32 a, u32 b, u32 c, u32 e) { return inserted(a, b, c, e); })
                                : lanewise<u64, u64, u64, u32, u32>([](u64 a, u64 b, u32 c, u32 e) { return inserted(a, b, c, e); }), {d, a, b, c, e});
  }
  if (op == "popc" || op == "clz" || op == "brev" || op == "bfind") {
    const u32 a = in(o[1], type), d = to(o[0], op == "brev" ? type.bytes : 4);
    const bool shift = has("shiftamt");
    return rows(with_word(type, [&](auto x) -> Step {
                  using T = decltype(x);
                  using U = std::make_unsigned_t<T>;
                  if (op == "popc") return lanewise<u32, T>([](T x) { return u32(std::popcount(U(x))); });
                  if (op == "clz") return lanewise<u32, T>([](T x) { return u32(std::countl_zero(U(x))); });
                  if (op == "brev")
                    return lanewise<T, T>([](T x) {
                      U d = 0;
                      for (u32 k = 0; k < 8 * sizeof(T); ++k) d |= (U(x) >> k & 1) << (8 * sizeof(T) - 1 - k);
                      return T(d);
                    });
                  if (shift)
                    return lanewise<u32, T>([](T x) { const U y = U(x < 0 ? ~x : x); return y ? u32(std::countl_zero(y)) : ~0u; });
                  return lanewise<u32, T>([](T x) { const U y = U(x < 0 ? ~x : x); return y ? u32(8 * sizeof(T) - 1 - std::countl_zero(y)) : ~0u; });
                }), {d, a});
  }

  // ---- comparing and selecting ----
  if (op == "setp") {
    const std::string c = name[1];
    const std::string combine = has("and") ? "and" : has("or") ? "or" : has("xor") ? "xor" : "";
    const u32 a = in(o[1], type), b = in(o[2], type);
    const u32 with = combine.empty() ? 0 : predicate(o[3]);
    const u32 p = to(o[0], 1);
    Step step = is_float(type) ? with_float(type, [&](auto x) { return comparison<decltype(x)>(c); })
                               : with_word(type, [&](auto x) { return comparison<decltype(x)>(c); });
    if (type.pair) unknown("pairs");
    if (has("ftz")) {
      Instr i = make(flushed);
      i.inner = step, i.r[1] = a, i.r[2] = b;
      i.r[0] = combine.empty() && o[0].parts.empty() ? p : fresh(1);
      if (i.r[0] == p) return emit(i);
      const u32 raw = i.r[0];
      emit(i);
      return combine_predicates(o, combine, raw, with, p);
    }
    if (combine.empty() && o[0].parts.empty()) return rows(step, {p, a, b});
    const u32 raw = fresh(1);
    rows(step, {raw, a, b});
    return combine_predicates(o, combine, raw, with, p);
  }
  if (op == "set") {
    const Type d = types.at(0);
    const u32 a = in(o[1], type), b = in(o[2], type), raw = fresh(1), at = to(o[0], d.bytes);
    if (has("and") || has("or") || has("xor") || has("ftz")) unknown("this form");
    const std::vector<Instr> later = std::move(after);
    after.clear();
    rows(is_float(type) ? with_float(type, [&](auto x) { return comparison<decltype(x)>(name[1]); })
                        : with_word(type, [&](auto x) { return comparison<decltype(x)>(name[1]); }), {raw, a, b});
    const bool real = is_float(d);
    rows(d.bytes == 2 ? lanewise<u16, u8, u16>([](u8 p, u16 yes) { return p ? yes : u16(0); })
                      : lanewise<u32, u8, u32>([](u8 p, u32 yes) { return p ? yes : 0u; }),
         {at, raw, constant(real ? d.bytes == 4 ? 0x3f800000u : d.c == 'g' ? 0x3f80u : 0x3c00u : ~u64(0), d.bytes)});
    for (const Instr& next : later) emit(next);
    return;
  }
  if (op == "selp") {
    const u32 a = in(o[1], type), b = in(o[2], type), p = predicate(o[3]), d = to(o[0], type.bytes);
    return rows(with_bits(type.bytes, [&](auto x) {
                  using T = decltype(x);
                  return lanewise<T, T, T, u8>([](T a, T b, u8 p) { return p ? a : b; });
                }), {d, a, b, p});
  }
  if (op == "slct") {
    const Type d = types.at(0), c = types.at(1);
    const u32 a = in(o[1], d), b = in(o[2], d), x = in(o[3], c), at = to(o[0], d.bytes);
    return rows(with_bits(d.bytes, [&](auto t) -> Step {
                  using T = decltype(t);
                  if (c.c == 'f') return lanewise<T, T, T, float>([](T a, T b, float c) { return c >= 0 ? a : b; });
                  return lanewise<T, T, T, s32>([](T a, T b, s32 c) { return c >= 0 ? a : b; });
                }), {at, a, b, x});
  }

  // ---- control ----
  if (op == "bra") {
    Instr i = make(nullptr);
    i.kind = Kind::branch;
    frames.back().jumps.emplace_back(u32(out.code.size()), o.at(0).text);
    return emit(i);
  }
  if (op == "brx") {
    const u32 index = in(o[0], {'u', 4});
    Instr i = make(nullptr);
    i.kind = Kind::table;
    i.outs = 0;
    i.r[0] = index;
    const auto& labels = frames.back().tables.at(o.at(1).text);
    i.targets.resize(labels.size());
    for (u32 k = 0; k < labels.size(); ++k) frames.back().table_jumps.emplace_back(u32(out.code.size()), k, labels[k]);
    return emit(i);
  }
  if (op == "ret" && frames.size() > 1) {
    Instr i = make(nullptr);
    i.kind = Kind::branch;
    frames.back().returns.push_back(u32(out.code.size()));
    return emit(i);
  }
  if (op == "ret" || op == "exit") {
    Instr i = make(nullptr);
    i.kind = Kind::leave;
    return emit(i);
  }
  if (op == "trap" || op == "brkpt")
    return emit(Step([](Warp& w, const Instr& i) { fault(w, i, std::countr_zero(w.mask), 719, "trap"); }));
  if (op == "membar" || op == "fence" || op == "prefetch" || op == "prefetchu" || op == "discard" || op == "nanosleep" ||
      op == "griddepcontrol")
    return;
  if ((op == "bar" || op == "barrier") && !has("warp")) {
    const bool cta = name[1] == "cta";
    const std::string& kind = name[cta ? 2 : 1];
    const bool reduces = kind == "red";
    const size_t number = reduces ? 1 : 0;
    if ((kind != "sync" && !reduces) || o.size() != (reduces ? 3 : 1) || o[number].kind != Operand::number)
      unknown("this barrier");
    Instr i = make(nullptr);
    i.kind = Kind::barrier;
    i.outs = 16;  // rows 1 and 2 are not as other instructions'
    i.all = op == "bar" || has("aligned");
    i.r[0] = u32(immediate(o[number], {'u', 4}));
    if (reduces) {
      i.r[2] = predicate(o[2]);
      i.r[1] = to(o[0], has("popc") ? 4 : 1);
      i.r[3] = has("and") ? 1 : has("or") ? 2 : 3;
    }
    return emit(i);
  }

  // ---- lanes together ----
  const auto meeting = [&](Step step, std::initializer_list<u32> r, const Operand& mask, u8 outs = 1) {
    Instr i = make(step);
    std::copy(r.begin(), r.end(), i.r);
    i.kind = Kind::meet;
    i.r[15] = in(mask, {'b', 4});
    i.outs = outs;
    emit(i);
  };
  if (op == "bar" || op == "barrier")
    return meeting([](Warp&, const Instr&) {}, {}, o.at(0), 0);
  if (op == "activemask") {
    const u32 d = to(o[0], 4);
    return rows([](Warp& w, const Instr& i) { each(w, [&](int l) { w.row<u32>(i.r[0])[l] = w.mask; }); }, {d});
  }
  if (op == "shfl") {
    need(5);
    const Operand p = o[0].parts.empty() ? Operand() : o[0].parts[0];
    const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), c = in(o[3], {'u', 4});
    const u32 d = to(o[0], 4), q = to(p, 1);
    const Step step = has("up") ? shuffle<'u'> : has("down") ? shuffle<'d'> : has("bfly") ? shuffle<'b'> : shuffle<'i'>;
    return meeting(step, {d, q, a, b, c}, o[4], 2);
  }
  if (op == "vote") {
    const u32 p = predicate(o[1]), d = to(o[0], has("ballot") ? 4 : 1);
    return meeting(has("ballot") ? vote<'b'> : has("any") ? vote<'y'> : has("all") ? vote<'l'> : vote<'u'>, {d, p}, o.at(2));
  }
  if (op == "match" && has("any")) {
    const u32 a = in(o[1], type), d = to(o[0], 4);
    return meeting(type.bytes == 4 ? match_any<u32> : match_any<u64>, {d, a}, o.at(2));
  }
  if (op == "redux") {
    const u32 a = in(o[1], type), d = to(o[0], 4);
    const bool sign = type.c == 's';
    const Step step = has("add") ? reduce<u32>([](u32 x, u32 y) { return x + y; })
                      : has("and") ? reduce<u32>([](u32 x, u32 y) { return x & y; })
                      : has("or")  ? reduce<u32>([](u32 x, u32 y) { return x | y; })
                      : has("xor") ? reduce<u32>([](u32 x, u32 y) { return x ^ y; })
                      : has("min") ? sign ? reduce<s32>([](s32 x, s32 y) { return std::min(x, y); })
                                          : reduce<u32>([](u32 x, u32 y) { return std::min(x, y); })
                      : sign       ? reduce<s32>([](s32 x, s32 y) { return std::max(x, y); })
                                   : reduce<u32>([](u32 x, u32 y) { return std::max(x, y); });
    return meeting(step, {d, a}, o.at(2));
  }
  if (op == "mma") {
    Step step = nullptr;
    if (opcode == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") step = mma_m16n8k8_tf32;
    if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") step = mma_m16n8k16<f16>;
    if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") step = mma_m16n8k16<bf16>;
    if (!step || o.size() != 4 || o[0].parts.size() != 4 || o[1].parts.size() != 4 || o[2].parts.size() != 2 ||
        o[3].parts.size() != 4)
      unknown("this shape");
    u32 r[14], k = 0;
    for (const Operand& v : o)
      for (const Operand& p : v.parts) {
        if (p.kind != Operand::reg && &v == &o[0]) unknown("a result: " + p.text);
        r[k++] = in(p, {'b', 4});
      }
    Instr i = make(step);
    std::copy(r, r + 14, i.r);
    i.outs = 4;
    i.kind = Kind::meet;
    i.all = true;
    return emit(i);
  }

  if (op == "cp") {
    if (name.at(1) != "async" || has("bulk") || has("mbarrier")) unknown("this copy");
    if (has("commit_group")) return emit(Step(commit_copies));
    if (has("wait_group") || has("wait_all")) {
      Instr i = make(await_copies);
      i.imm = has("wait_all") ? ~u64(0) : immediate(o.at(0), {'u', 8});
      return emit(i);
    }
    need(3);
    Instr i = make(copy_async);
    Instr to = i;
    set_address(to, o[0], Space::shared);
    set_address(i, o[1], Space::global);
    i.r[14] = to.r[15], i.target = u32(to.imm), i.all = to.wide;
    i.unit = u8(immediate(o[2], {'u', 4}));
    i.r[13] = o.size() > 3 && o[3].kind != Operand::none ? in(o[3], {'u', 4}) : constant(i.unit, 4);
    i.outs = 0;
    return emit(i);
  }
  if (op == "ldmatrix") {
    if (!has("m8n8") || !has("b16") || o.size() != 2 || o[1].kind != Operand::memory) unknown("this shape");
    const std::vector<Operand> parts = o[0].kind == Operand::vector ? o[0].parts : std::vector<Operand>{o[0]};
    if (parts.size() != (has("x4") ? 4u : has("x2") ? 2u : 1u)) unknown("this shape");
    Instr i = make(has("trans") ? ldmatrix<true> : ldmatrix<false>);
    for (size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].kind != Operand::reg || parts[k].r.bytes != 4) unknown("a result: " + parts[k].text);
      i.r[k] = parts[k].r.row;
    }
    i.kind = Kind::meet;
    i.all = true;
    i.n = i.outs = u8(parts.size());
    i.unit = 16;
    set_address(i, o[1], has("shared") || has("shared::cta") ? Space::shared : Space::generic);
    return emit(i);
  }

  // ---- atomics ----
  if (op == "atom" || op == "red") {
    const size_t first = op == "atom";
    const u32 a = in(o.at(first + 1), type);
    const u32 b = o.size() > first + 2 ? in(o[first + 2], type) : a;
    const u32 d = first ? to(o[0], type.bytes) : fresh(type.bytes);
    Instr i = make(nullptr);
    if (is_float(type)) {
      if (!has("add")) unknown("this");
      i.step = with_float(type, [&](auto x) {
        using T = decltype(x);
        return atomic<T>([](T old, T x, T) { return made<T>(num(old) + num(x)); });
      });
    } else {
      i.step = with_word(type, [&](auto x) -> Step {
        using T = decltype(x);
        using U = std::make_unsigned_t<T>;
        if (has("add")) return atomic<T>([](T old, T x, T) { return T(U(old) + U(x)); });
        if (has("min")) return atomic<T>([](T old, T x, T) { return std::min(old, x); });
        if (has("max")) return atomic<T>([](T old, T x, T) { return std::max(old, x); });
        if (has("and")) return atomic<T>([](T old, T x, T) { return T(old & x); });
        if (has("or")) return atomic<T>([](T old, T x, T) { return T(old | x); });
        if (has("xor")) return atomic<T>([](T old, T x, T) { return T(old ^ x); });
        if (has("exch")) return atomic<T>([](T, T x, T) { return x; });
        if (has("cas")) return atomic<T>([](T old, T x, T y) { return old == x ? y : old; });
        unknown("this");
      });
    }
    i.r[0] = d, i.r[1] = a, i.r[2] = b;
    i.unit = u8(type.bytes);
    set_address(i, o[first], has("global") ? Space::global : has("shared") ? Space::shared : Space::generic);
    return emit(i);
  }
  unknown("an instruction");
}

}  // namespace

Kernel Module::Parser::decode(const std::string& name) {
  const Function& f = functions.at(name);
  Kernel kernel;
  kernel.name = name;
  kernel.max_threads = f.max_threads;
  Decoder::ptx_number = number;
  Decoder d(t, functions, globals, kernel);
  auto& symbols = d.scopes[0].symbols;
  u32 at = 0;
  for (const Param& p : f.params) {
    at = (at + p.align - 1) / p.align * p.align;
    kernel.params.emplace_back(at, p.bytes);
    symbols[p.name] = {Space::param, at};
    at += p.bytes;
  }
  kernel.param_bytes = at;
  // static arrays of the module that this kernel names
  for (size_t k = f.begin; k < f.end; ++k)
    if (const auto s = module_shared.find(this->t[k].text); s != module_shared.end() && !symbols.contains(s->first))
      symbols[s->first] = {Space::shared, d.add_shared(s->second.first, s->second.second)};
  for (size_t k = f.begin; k < f.end;)
    if (this->t[k].text == ".shared") d.declare_memory(k);  // and goes on behind it
    else ++k;
  kernel.static_shared = (kernel.static_shared + 127) / 128 * 128;
  for (const std::string& s : external_shared) symbols[s] = {Space::shared, first_shared + kernel.static_shared};
  const u32 before = kernel.static_shared;
  d.body(f);
  if (kernel.static_shared != before) throw Fault(209, "static shared memory within a function: " + name);
  kernel.local_bytes = (kernel.local_bytes + 15) / 16 * 16;
  kernel.file_bytes = d.next_row;
  return kernel;
}

Module::Module(std::string text) : parser(std::make_unique<Parser>(std::move(text))) {}
Module::~Module() = default;

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, f] : parser->functions)
    if (f.entry) names.push_back(name);
  return names;
}
Kernel& Module::kernel(const std::string& name) {
  auto at = decoded.find(name);
  if (at == decoded.end()) at = decoded.emplace(name, parser->decode(name)).first;
  return at->second;
}
const std::string& Module::file(int number) const { return parser->files[number]; }

}  // namespace ptx

// SPDX-License-Identifier: MIT
// Instructions on numbers and on bits.
#include <cstdlib>

#include "steps.h"

namespace ptx {

namespace {

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

}  // namespace

void Decoder::binary() {
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

void Decoder::add_with_carry() {
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

void Decoder::multiply_and_add() {
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

void Decoder::negate() {
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

void Decoder::root() {
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

void Decoder::approximate() {
  if (type.bytes != 4 || type.pair) unknown("this type");
  const u32 a = in(o[1], type), d = to(o[0], 4);
  if (op == "ex2") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::exp2(double(x))), x, 2); }), {d, a});
  if (op == "lg2") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::log2(double(x))), x, 1); }), {d, a});
  if (op == "sin") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::sin(double(x))), x, 4); }), {d, a});
  if (op == "cos") return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::cos(double(x))), x, 4); }), {d, a});
  return float_rows(lanewise<float, float>([](float x) { return rough(made<float>(std::tanh(double(x))), x, 4096); }), {d, a});
}

void Decoder::test_number() {
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

void Decoder::invert() {
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

void Decoder::shift() {
  const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), d = to(o[0], type.bytes, type.c == 's');
  return rows(with_word(type, [&](auto x) -> Step {
                using T = decltype(x);
                constexpr u32 bits = 8 * sizeof(T);
                if (op == "shl") return lanewise<T, T, u32>([](T x, u32 n) { return n >= bits ? T(0) : T(u64(x) << n); });
                return lanewise<T, T, u32>([](T x, u32 n) { return n >= bits ? T(x < 0 ? -1 : 0) : T(x >> n); });
              }), {d, a, b});
}

void Decoder::funnel_shift() {
  const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), d = to(o[0], 4);
  const bool left = has("l"), wrap = has("wrap");
  if (left)
    return rows(wrap ? lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) << (c & 31) >> 32); })
                     : lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return c >= 32 ? a : u32((u64(b) << 32 | a) << c >> 32); }), {d, a, b, c});
  return rows(wrap ? lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return u32((u64(b) << 32 | a) >> (c & 31)); })
                   : lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return c >= 32 ? b : u32((u64(b) << 32 | a) >> c); }), {d, a, b, c});
}

void Decoder::logic() {
  if (o.size() != 5 || o[4].kind != Operand::number) unknown("this form");
  const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], type), d = to(o[0], 4);
  return rows(lanewise<u32, u32, u32, u32, u32>([](u32 a, u32 b, u32 c, u32 table) {
                u32 d = 0;
                for (int k = 0; k < 8; ++k)
                  if (table >> k & 1) d |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
                return d;
              }), {d, a, b, c, in(o[4], {'u', 4})});
}

void Decoder::permute() {
  if (name.size() != 2) unknown("this mode");
  const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), d = to(o[0], 4);
  return rows(lanewise<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return permuted(a, b, c); }), {d, a, b, c});
}

void Decoder::extract() {
  const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), c = in(o[3], {'u', 4}), d = to(o[0], type.bytes);
  return rows(with_word(type, [&](auto x) {
                using T = decltype(x);
                return lanewise<T, T, u32, u32>([](T a, u32 b, u32 c) { return extracted(a, b, c); });
              }), {d, a, b, c});
}

void Decoder::insert() {
  const u32 a = in(o[1], type), b = in(o[2], type), c = in(o[3], {'u', 4}), e = in(o[4], {'u', 4}), d = to(o[0], type.bytes);
  return rows(type.bytes == 4 ? lanewise<u32, u32, u32, u32, u32>([](u32 a, u32 b, u32 c, u32 e) { return inserted(a, b, c, e); })
                              : lanewise<u64, u64, u64, u32, u32>([](u64 a, u64 b, u32 c, u32 e) { return inserted(a, b, c, e); }), {d, a, b, c, e});
}

void Decoder::count_bits() {
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

}  // namespace ptx

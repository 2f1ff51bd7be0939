// SPDX-License-Identifier: MIT
// Instructions that move numbers, and convert them.
#include "steps.h"

namespace ptx {

void Decoder::move() {
  need(2);
  const u32 from = in(o[1], type);
  const u32 at = to(o[0], type.bytes);
  return rows(with_bits(type.bytes, [&](auto x) {
                using T = decltype(x);
                return lanewise<T, T>([](T a) { return a; });
              }),
              {at, from});
}

void Decoder::load_or_store() {
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
  emit(i);
}

void Decoder::convert_address() {
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

void Decoder::is_in_space() {
  const u64 window = has("shared") || has("shared::cta") ? shared_window : has("local") ? local_window : 0;
  const u32 a = in(o[1], {'u', 8}), at = to(o[0], 1);
  return rows(lanewise<u8, u64, u64>([](u64 x, u64 y) { return u8((x & ~in_window) == y); }),
              {at, a, constant(window, 8)});
}

void Decoder::convert() {
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

}  // namespace ptx

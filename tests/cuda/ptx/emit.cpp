// SPDX-License-Identifier: MIT
// Instructions in the making: rows of operands, and steps with the rounding that a name asks for.
#include <cfenv>

#include "steps.h"

namespace ptx {

Instr Decoder::make(Step step) const {
  Instr i;
  i.step = step;
  i.guard = guard, i.unless = unless;
  i.line = line, i.file = file, i.source = source;
  return i;
}

void Decoder::emit(Instr i) {
  out.code.push_back(std::move(i));
  for (Instr& next : after) out.code.push_back(std::move(next));
  after.clear();
}

// Row of an operand as so many bytes.
u32 Decoder::in(const Operand& o, Type type, u32 bytes) {
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

// Row that takes a result of so many bytes; a wider register gets it extended.
u32 Decoder::to(const Operand& o, u32 bytes, bool sign) {
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

void Decoder::set_address(Instr& i, const Operand& o, Space space) {
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

int rounding_mode(const std::string& m) {
  return m == "rz" ? FE_TOWARDZERO : m == "rm" ? FE_DOWNWARD : m == "rp" ? FE_UPWARD : FE_TONEAREST;
}

bool Decoder::has(const char* m) const {
  return std::find(name.begin() + 1, name.end(), m) != name.end();
}

void Decoder::need(size_t n) const {
  if (o.size() < n) unknown("too few operands");
}

void Decoder::rows(Step step, std::initializer_list<u32> r) {
  Instr i = make(step);
  std::copy(r.begin(), r.end(), i.r);
  emit(i);
}

// With the rounding mode and the flushing that the name asks for, and then clamped to [0, 1]
void Decoder::float_rows(Step step, std::initializer_list<u32> r) {
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
}

void Decoder::meeting(Step step, std::initializer_list<u32> r, const Operand& mask, u8 outs) {
  Instr i = make(step);
  std::copy(r.begin(), r.end(), i.r);
  i.kind = Kind::meet;
  i.r[15] = in(mask, {'b', 4});
  i.outs = outs;
  emit(i);
}

}  // namespace ptx

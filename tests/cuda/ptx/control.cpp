// SPDX-License-Identifier: MIT
// Instructions that compare, select and jump; those of lanes together, and atomics.
#include "steps.h"

namespace ptx {

namespace {

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

}  // namespace

// p|q = raw and c | !raw and c
void Decoder::combine_predicates(const std::vector<Operand>& o, const std::string& combine, u32 raw, u32 with, u32 p) {
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

void Decoder::compare() {
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

void Decoder::compare_to_value() {
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
}

void Decoder::select() {
  const u32 a = in(o[1], type), b = in(o[2], type), p = predicate(o[3]), d = to(o[0], type.bytes);
  return rows(with_bits(type.bytes, [&](auto x) {
                using T = decltype(x);
                return lanewise<T, T, T, u8>([](T a, T b, u8 p) { return p ? a : b; });
              }), {d, a, b, p});
}

void Decoder::select_by_sign() {
  const Type d = types.at(0), c = types.at(1);
  const u32 a = in(o[1], d), b = in(o[2], d), x = in(o[3], c), at = to(o[0], d.bytes);
  return rows(with_bits(d.bytes, [&](auto t) -> Step {
                using T = decltype(t);
                if (c.c == 'f') return lanewise<T, T, T, float>([](T a, T b, float c) { return c >= 0 ? a : b; });
                return lanewise<T, T, T, s32>([](T a, T b, s32 c) { return c >= 0 ? a : b; });
              }), {at, a, b, x});
}

void Decoder::branch() {
  Instr i = make(nullptr);
  i.kind = Kind::branch;
  frames.back().jumps.emplace_back(u32(out.code.size()), o.at(0).text);
  emit(i);
}

void Decoder::branch_by_table() {
  const u32 index = in(o[0], {'u', 4});
  Instr i = make(nullptr);
  i.kind = Kind::table;
  i.outs = 0;
  i.r[0] = index;
  const auto& labels = frames.back().tables.at(o.at(1).text);
  i.targets.resize(labels.size());
  for (u32 k = 0; k < labels.size(); ++k) frames.back().table_jumps.emplace_back(u32(out.code.size()), k, labels[k]);
  emit(i);
}

void Decoder::leave() {
  if (op == "ret" && frames.size() > 1) {
    Instr i = make(nullptr);
    i.kind = Kind::branch;
    frames.back().returns.push_back(u32(out.code.size()));
    return emit(i);
  }
  Instr i = make(nullptr);
  i.kind = Kind::leave;
  emit(i);
}

void Decoder::trap() {
  emit(Step([](Warp& w, const Instr& i) { fault(w, i, std::countr_zero(w.mask), 719, "trap"); }));
}

void Decoder::barrier() {
  if (has("warp")) return meeting([](Warp&, const Instr&) {}, {}, o.at(0), 0);
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
  emit(i);
}

void Decoder::active_mask() {
  const u32 d = to(o[0], 4);
  return rows([](Warp& w, const Instr& i) { each(w, [&](int l) { w.row<u32>(i.r[0])[l] = w.mask; }); }, {d});
}

void Decoder::shuffle_lanes() {
  need(5);
  const Operand p = o[0].parts.empty() ? Operand() : o[0].parts[0];
  const u32 a = in(o[1], type), b = in(o[2], {'u', 4}), c = in(o[3], {'u', 4});
  const u32 d = to(o[0], 4), q = to(p, 1);
  const Step step = has("up") ? shuffle<'u'> : has("down") ? shuffle<'d'> : has("bfly") ? shuffle<'b'> : shuffle<'i'>;
  return meeting(step, {d, q, a, b, c}, o[4], 2);
}

void Decoder::vote_of_lanes() {
  const u32 p = predicate(o[1]), d = to(o[0], has("ballot") ? 4 : 1);
  return meeting(has("ballot") ? vote<'b'> : has("any") ? vote<'y'> : has("all") ? vote<'l'> : vote<'u'>, {d, p}, o.at(2));
}

void Decoder::match_lanes() {
  if (!has("any")) unknown("an instruction");
  const u32 a = in(o[1], type), d = to(o[0], 4);
  return meeting(type.bytes == 4 ? match_any<u32> : match_any<u64>, {d, a}, o.at(2));
}

void Decoder::reduce_lanes() {
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

void Decoder::multiply_matrices() {
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
  emit(i);
}

void Decoder::copy() {
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
  emit(i);
}

void Decoder::load_matrix() {
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
  emit(i);
}

void Decoder::atomic_operation() {
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
  emit(i);
}

}  // namespace ptx

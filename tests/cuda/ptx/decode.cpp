// SPDX-License-Identifier: MIT
// PTX into instructions of machine.h: names, declarations, bodies.
#include <algorithm>

#include "decode.h"

namespace ptx {

u32 Decoder::fresh(u32 bytes) {
  const u32 row = next_row;
  next_row += (row_size(bytes) + 31) / 32 * 32;
  return row;
}

u32 Decoder::constant(u64 value, u32 bytes) {
  if (bytes < 8) value &= (u64(1) << 8 * bytes) - 1;
  u32& row = constant_rows[{bytes, value}];
  if (!row) {
    row = fresh(bytes);
    out.constants.push_back({row, bytes, value});
  }
  return row;
}

u32 Decoder::special(Special s) {
  u32& row = special_rows[s];
  if (!row) {
    row = fresh(4);
    out.specials.emplace_back(row, s);
  }
  return row;
}

u64 Decoder::local_space(u32 bytes, u32 align) {
  out.local_bytes = (out.local_bytes + align - 1) / align * align;
  const u64 at = out.local_bytes;
  out.local_bytes += bytes;
  return at;
}

bool Decoder::find_register(const std::string& name, Register& r) const {
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

bool Decoder::find_symbol(const std::string& name, Symbol& symbol) const {
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

bool Decoder::find_special(const std::string& name, Special& s) {
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

Operand Decoder::operand(size_t& k) const {
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

u64 Decoder::immediate(const Operand& o, Type type) {
  const u64 x = number_of_text(o.text, type);
  return o.value ? -x : x;
}

void Decoder::declare_registers(size_t& k) {
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

void Decoder::declare_memory(size_t& k) {
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

u64 Decoder::add_shared(u32 bytes, u32 align) {
  out.static_shared = (out.static_shared + align - 1) / align * align;
  const u64 at = first_shared + out.static_shared;
  out.static_shared += bytes;
  return at;
}

void Decoder::body(const Function& f) {
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

void Decoder::statement(size_t& k) {
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

void Decoder::instruction(size_t& k) {
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
  opcode = t[k++].text;
  name = split(opcode, '.');
  op = name[0];
  if (op == "call") return call(k);
  o.clear();
  while (t[k].text != ";") {
    o.push_back(operand(k));
    if (t[k].text == ",") ++k;
    else if (t[k].text != ";") unknown("operands of " + opcode + " near " + t[k].text);
  }
  ++k;
  const size_t first = out.code.size();
  try {
    operation();
    count_as(first);
  } catch (const Fault& f) {
    throw Fault(f.code, std::string(f.what()) + " in " + opcode + ", PTX line " + std::to_string(line));
  }
}

// Count a PTX instruction at one of its steps.
void Decoder::count_as(size_t first) {
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
void Decoder::call(size_t& k) {
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

void Decoder::operation() {
  using Method = void (Decoder::*)();
  static const auto methods = [] {
    std::unordered_map<std::string, Method> found;
    const auto add = [&](Method method, const char* names) {
      for (const std::string& name : split(names, ' ')) found[name] = method;
    };
    add(&Decoder::move, "mov");
    add(&Decoder::load_or_store, "ld ldu st");
    add(&Decoder::convert_address, "cvta");
    add(&Decoder::is_in_space, "isspacep");
    add(&Decoder::convert, "cvt");
    add(&Decoder::binary, "add sub mul div min max rem and or xor copysign");
    add(&Decoder::add_with_carry, "addc subc");
    add(&Decoder::multiply_and_add, "mad madc fma");
    add(&Decoder::negate, "neg abs");
    add(&Decoder::root, "sqrt rcp rsqrt");
    add(&Decoder::approximate, "ex2 lg2 sin cos tanh");
    add(&Decoder::test_number, "testp");
    add(&Decoder::invert, "not cnot");
    add(&Decoder::shift, "shl shr");
    add(&Decoder::funnel_shift, "shf");
    add(&Decoder::logic, "lop3");
    add(&Decoder::permute, "prmt");
    add(&Decoder::extract, "bfe");
    add(&Decoder::insert, "bfi");
    add(&Decoder::count_bits, "popc clz brev bfind");
    add(&Decoder::compare, "setp");
    add(&Decoder::compare_to_value, "set");
    add(&Decoder::select, "selp");
    add(&Decoder::select_by_sign, "slct");
    add(&Decoder::branch, "bra");
    add(&Decoder::branch_by_table, "brx");
    add(&Decoder::leave, "ret exit");
    add(&Decoder::trap, "trap brkpt");
    // instructions that order memory or save time
    add(nullptr, "membar fence prefetch prefetchu discard nanosleep griddepcontrol");
    add(&Decoder::barrier, "bar barrier");
    add(&Decoder::active_mask, "activemask");
    add(&Decoder::shuffle_lanes, "shfl");
    add(&Decoder::vote_of_lanes, "vote");
    add(&Decoder::match_lanes, "match");
    add(&Decoder::reduce_lanes, "redux");
    add(&Decoder::multiply_matrices, "mma");
    add(&Decoder::copy, "cp");
    add(&Decoder::load_matrix, "ldmatrix");
    add(&Decoder::atomic_operation, "atom red");
    return found;
  }();
  const auto at = methods.find(op);
  if (at == methods.end()) unknown("an instruction");
  types.clear();
  for (size_t k = 1; k < name.size(); ++k)
    if (Type t; parse_type(name[k], t)) types.push_back(t);
  type = types.empty() ? Type{} : types.back();
  rounding.clear();
  for (const char* m : {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"})
    if (has(m)) rounding = m;
  if (at->second) (this->*at->second)();
}

}  // namespace ptx

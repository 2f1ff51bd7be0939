// SPDX-License-Identifier: MIT
// Parts of the decoder of PTX: what its text consists of, and a kernel in the making.
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "machine.h"

namespace ptx {

// ---- text ----

struct Type {
  char c = 0;  // u, s, b, f (float), g (bfloat), t (tf32), p (predicate)
  u32 bytes = 0;
  bool pair = false;
};
bool parse_type(const std::string& s, Type& t);
inline bool is_float(Type t) { return t.c == 'f' || t.c == 'g'; }

[[noreturn]] inline void unknown(const std::string& what) { throw Fault(209, "not understood: " + what); }

struct Token {
  std::string text;
  int line;
};
std::vector<Token> tokens_of(const std::string& s);
std::vector<std::string> split(const std::string& s, char at);
inline bool is_number(const std::string& t) { return std::isdigit(static_cast<unsigned char>(t[0])); }
u64 number_of_text(const std::string& s, Type type);

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

inline u32 row_size(u32 bytes) { return bytes * lanes; }

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

int rounding_mode(const std::string& m);

// ---- the body of a kernel ----

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

  // the instruction at hand: its name and the parts of it, operands, guard, and what has to follow it
  std::string opcode, op, rounding;
  std::vector<std::string> name;
  std::vector<Type> types;
  Type type;
  std::vector<Operand> o;
  u32 guard = 0;
  bool unless = false;
  std::vector<Instr> after;

  Decoder(const std::vector<Token>& t, const std::map<std::string, Function>& functions,
          const std::map<std::string, Symbol>& globals, Kernel& out)
      : t(t), functions(functions), globals(globals), out(out) {}

  u32 fresh(u32 bytes);
  u32 constant(u64 value, u32 bytes);
  u32 special(Special s);
  u64 local_space(u32 bytes, u32 align);

  bool find_register(const std::string& name, Register& r) const;
  bool find_symbol(const std::string& name, Symbol& symbol) const;
  static bool find_special(const std::string& name, Special& s);

  Operand operand(size_t& k) const;

  static u64 immediate(const Operand& o, Type type);

  Instr make(Step step) const;
  void emit(Instr i);
  template <class... R>
  void emit(Step step, R... rows) {
    Instr i = make(step);
    u32 k = 0;
    ((i.r[k++] = rows), ...);
    emit(std::move(i));
  }

  // Row of an operand as so many bytes.
  u32 in(const Operand& o, Type type, u32 bytes = 0);
  u32 predicate(const Operand& o) { return in(o, {'p', 1}); }

  // Row that takes a result of so many bytes; a wider register gets it extended.
  u32 to(const Operand& o, u32 bytes, bool sign = false);

  void set_address(Instr& i, const Operand& o, Space space);

  void declare_registers(size_t& k);
  void declare_memory(size_t& k);
  u64 add_shared(u32 bytes, u32 align);

  void body(const Function& f);

  void statement(size_t& k);

  void instruction(size_t& k);

  // Count a PTX instruction at one of its steps.
  void count_as(size_t first);

  // The callee's body is put in place of the call.
  void call(size_t& k);

  // p|q = raw and c | !raw and c
  void combine_predicates(const std::vector<Operand>& o, const std::string& combine, u32 raw,
                          u32 with, u32 p);

  // ---- operations, by the instruction at hand ----

  bool has(const char* m) const;
  void need(size_t n) const;
  void rows(Step step, std::initializer_list<u32> r);
  void float_rows(Step step, std::initializer_list<u32> r);
  void meeting(Step step, std::initializer_list<u32> r, const Operand& mask, u8 outs = 1);
  void operation();
  // moving.cpp
  void move(), load_or_store(), convert_address(), is_in_space(), convert();
  // arithmetic.cpp
  void binary(), add_with_carry(), multiply_and_add(), negate(), root(), approximate(),
      test_number(), invert(), shift(), funnel_shift(), logic(), permute(), extract(), insert(),
      count_bits();
  // control.cpp
  void compare(), compare_to_value(), select(), select_by_sign(), branch(), branch_by_table(),
      leave(), trap(), barrier(), active_mask(), shuffle_lanes(), vote_of_lanes(), match_lanes(),
      reduce_lanes(), multiply_matrices(), copy(), load_matrix(), atomic_operation();
};

}  // namespace ptx

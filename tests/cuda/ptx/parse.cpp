// SPDX-License-Identifier: MIT
// PTX text into words, and a module of functions and variables.
#include <algorithm>
#include <cstdlib>

#include "decode.h"

namespace ptx {

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

u64 number_of_text(const std::string& s, Type type) {
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
          const u64 x = number_of_text(t[k].text, type) * (t[k - 1].text == "-" ? -1 : 1);
          if (i * bytes < bytes * n) std::memcpy(p + i++ * bytes, &x, bytes);
        }
      }
    }
    ++k;
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

Kernel Module::Parser::decode(const std::string& name) {
  const Function& f = functions.at(name);
  Kernel kernel;
  kernel.name = name;
  kernel.max_threads = f.max_threads;
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

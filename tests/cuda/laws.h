// SPDX-License-Identifier: MIT
// Laws of all faces of an operator, whatever its formula, to which tests/test_cuda.py holds the
// same kernels: derivatives that fit together, each tangent and gradient alone, saved arrays or
// none, any alignment, every type beside float64, workspaces of exactly their size, equal bits in
// any order.
#pragma once
#include <functional>
#include <utility>

#include "support.h"

enum Precision { f32, f64, f16, bf16 };
const char* const type_names[] = {"float32", "float64", "float16", "bfloat16"};
const std::vector<Precision> single_double{f32, f64}, without_half{f32, f64, bf16},
    all_types{f32, f64, f16, bf16};

// Numbers of an array: in the type of the call, in that of its arithmetic, or positions.
enum Kind { same, wide, position };

// An array of a face: how many numbers, -1 if it is absent. They lie in shift +- scale, which are
// powers of 2, so that all types hold them.
struct Array {
  int64_t size;
  double scale = 1, shift = 0;
  Kind kind = same;
};
using Lists = std::vector<std::vector<double>>;

// ---- one call ----

// Numbers on the device in one of the types.
class Buffer {
  Kind kind;
  Precision type;
  std::unique_ptr<Device<float>> single;
  std::unique_ptr<Device<double>> twice;
  std::unique_ptr<Device<__half>> half;
  std::unique_ptr<Device<__nv_bfloat16>> brain;
  std::unique_ptr<Device<int64_t>> positions;

  void visit(auto f) {
    if (kind == position) f(positions);
    else if (type == f64) f(twice);
    else if (type == f32 || kind == wide) f(single);
    else if (type == f16) f(half);
    else f(brain);
  }

 public:
  Buffer(Precision type, const Array& a, size_t shift, const std::vector<double>* values = nullptr)
      : kind(a.kind), type(type) {
    visit([&]<class T>(std::unique_ptr<Device<T>>& memory) {
      std::vector<T> host;
      for (size_t i = 0; values && i < values->size(); ++i) {
        if constexpr (std::is_same_v<T, double>) host.push_back((*values)[i]);
        else host.push_back(T(float((*values)[i])));
      }
      memory = values ? std::make_unique<Device<T>>(host, shift)
                      : std::make_unique<Device<T>>(size_t(a.size), shift);
    });
  }
  void* get() {
    void* address = nullptr;
    visit([&](auto& memory) { address = memory->get(); });
    return address;
  }
  std::vector<double> numbers() {
    std::vector<double> out;
    visit([&](auto& memory) {
      for (const auto x : memory->host()) out.push_back(to_double(x));
    });
    return out;
  }
};
using Buffers = std::vector<std::shared_ptr<Buffer>>;

// A face of an operator whose sizes are given, and how many arrays it takes.
struct Face {
  size_t count;
  std::function<void(const std::vector<void*>&)> call;
};

template <class... P, class Bytes, class... S>
Face face_of(int (*entry)(P...), Bytes bytes, std::tuple<S...> sizes) {
  constexpr size_t first = sizeof...(S), count = sizeof...(P) - first - 3;
  return {count, [=](const std::vector<void*>& a) {
            [&]<size_t... i>(std::index_sequence<i...>) {
              run_entry(
                  entry, bytes, sizes,
                  static_cast<std::tuple_element_t<first + i, std::tuple<P...>>>(a.at(i))...);
            }(std::make_index_sequence<count>());
          }};
}
enum { forward, vjp, jvp, hvp };
using Faces = std::array<Face, 4>;
#define FACE(name, face, type, sizes) \
  face_of(gnograd_cuda_##name##_##face##_##type, \
          gnograd_cuda_##name##_##face##_workspace_bytes_##type, sizes)
#define FACES(name, type, sizes)                                        \
  Faces {                                                               \
    FACE(name, forward, type, sizes), FACE(name, vjp, type, sizes),     \
        FACE(name, jvp, type, sizes), FACE(name, hvp, type, sizes)      \
  }
// The faces of an operator by type, for sizes that point into what is to be kept.
#define TWO_TYPES(name, sizes, ...)                              \
  [sizes = sizes, kept = std::tuple(__VA_ARGS__)](Precision type) {   \
    return type == f64 ? FACES(name, f64, sizes) : FACES(name, f32, sizes); \
  }
#define THREE_TYPES(name, sizes, ...)                            \
  [sizes = sizes, kept = std::tuple(__VA_ARGS__)](Precision type) {   \
    return type == f64    ? FACES(name, f64, sizes)              \
           : type == bf16 ? FACES(name, bf16, sizes)             \
                          : FACES(name, f32, sizes);             \
  }
#define FOUR_TYPES(name, sizes, ...)                             \
  [sizes = sizes, kept = std::tuple(__VA_ARGS__)](Precision type) {   \
    return type == f64    ? FACES(name, f64, sizes)              \
           : type == bf16 ? FACES(name, bf16, sizes)             \
           : type == f16  ? FACES(name, f16, sizes)              \
                          : FACES(name, f32, sizes);             \
  }

// ---- an operator with its sizes ----

struct Problem {
  std::string name;
  std::vector<Array> inputs, outputs, saved;
  std::function<Faces(Precision)> faces;
  bool smooth = true;    // no number is at a kink
  double roundings = 1;  // factor of the errors that are allowed
  std::function<void(Lists&)> change = [](Lists&) {};  // of the inputs that are drawn
};

class Trial {
  const Problem& p;
  Precision type;
  size_t shift;
  Faces faces;
  std::vector<void*> arguments;
  Buffers buffers;

  void give(const std::vector<Array>& arrays, const Lists& values, int only = -1) {
    for (size_t k = 0; k < arrays.size(); ++k) {
      const bool there = arrays[k].size >= 0 && (only < 0 || only == int(k));
      if (there) buffers.push_back(std::make_shared<Buffer>(type, arrays[k], shift, &values[k]));
      arguments.push_back(there ? buffers.back()->get() : nullptr);
    }
  }
  Buffers room(const std::vector<Array>& arrays, int only = -1) {
    Buffers made;
    for (size_t k = 0; k < arrays.size(); ++k) {
      const bool there = arrays[k].size >= 0 && (only < 0 || only == int(k));
      made.push_back(there ? std::make_shared<Buffer>(type, arrays[k], shift) : nullptr);
      arguments.push_back(there ? made.back()->get() : nullptr);
    }
    return made;
  }
  void nothing(size_t count) { arguments.insert(arguments.end(), count, nullptr); }
  Lists call(int face, Buffers results) {
    if (arguments.size() != faces[face].count)
      check(false, p.name + ": another number of arrays");
    faces[face].call(arguments);
    arguments.clear(), buffers.clear();
    Lists out;
    for (auto& b : results) out.push_back(b ? b->numbers() : std::vector<double>());
    return out;
  }

 public:
  Lists in, tangents, cotangents;

  Trial(const Problem& p, Precision type, size_t shift = 0)
      : p(p), type(type), shift(shift), faces(p.faces(type)) {
    std::mt19937 random(11);
    const auto draw = [&](const std::vector<Array>& arrays, bool differences) {
      Lists all;
      for (const Array& a : arrays) {
        all.push_back(randoms<double>(std::max<int64_t>(a.size, 0), random, a.scale));
        for (double& x : all.back()) x += differences ? 0 : a.shift;
      }
      return all;
    };
    in = draw(p.inputs, false), p.change(in);
    tangents = draw(p.inputs, true), cotangents = draw(p.outputs, true);
  }

  // Arrays that vjp takes of what forward has made: its outputs may be among them.
  size_t n_saved() const { return faces[vjp].count - p.outputs.size() - 2 * p.inputs.size(); }
  Lists run_forward(Buffers* saved = nullptr) {
    give(p.inputs, in);
    const auto out = room(p.outputs);
    if (saved) {
      *saved = room(p.saved);
      if (n_saved() > p.saved.size()) saved->insert(saved->begin(), out.begin(), out.end());
    } else {
      nothing(faces[forward].count - arguments.size());
    }
    return call(forward, out);
  }
  Lists run_vjp(int only = -1, const Buffers* saved = nullptr, int from = -1) {
    give(p.outputs, cotangents, from), give(p.inputs, in);
    if (saved)
      for (const auto& b : *saved) arguments.push_back(b ? b->get() : nullptr);
    else nothing(n_saved());
    return call(vjp, room(p.inputs, only));
  }
  Lists run_jvp(int along = -1) {
    give(p.inputs, in), give(p.inputs, tangents, along);
    return call(jvp, room(p.outputs));
  }
  Lists run_hvp(int along = -1, int only = -1, int from = -1) {
    give(p.outputs, cotangents, from), give(p.inputs, in), give(p.inputs, tangents, along);
    return call(hvp, room(p.inputs, only));
  }
  std::array<Lists, 4> run() { return {run_forward(), run_vjp(), run_jvp(), run_hvp()}; }
};

// ---- laws ----

inline double inner(const Lists& a, const Lists& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k)
    for (size_t i = 0; i < a[k].size(); ++i) sum += a[k][i] * b[k][i];
  return sum;
}
inline Lists combined(Lists a, double factor, const Lists& b) {
  for (size_t k = 0; k < a.size(); ++k)
    for (size_t i = 0; i < a[k].size(); ++i) a[k][i] += factor * b[k][i];
  return a;
}

// Results are as near as their sizes allow; infinities are equal.
inline void near(const std::string& what, const Lists& got, const Lists& want, double relative,
                 int only = -1) {
  for (size_t k = 0; k < want.size(); ++k) {
    if (only >= 0 && only != int(k)) continue;
    double size = 1, error = got[k].size() == want[k].size() ? 0 : INFINITY;
    for (const double x : want[k])
      if (std::isfinite(x)) size = std::max(size, std::fabs(x));
    for (size_t i = 0; i < std::min(got[k].size(), want[k].size()); ++i) {
      if (got[k][i] == want[k][i]) continue;
      const double e = std::fabs(got[k][i] - want[k][i]);
      error = e == e ? std::max(error, e) : INFINITY;
    }
    char text[300];
    std::snprintf(text, sizeof text, "%s %zu: error %.2e of %.2e, allowed %.2e", what.c_str(), k,
                  error, size, relative * size);
    check(error <= relative * size, text);
  }
}

// Laws that a problem is held to: results in every type; then derivatives; then each tangent and
// gradient alone, and arrays that are not aligned.
enum class Depth { numbers, derivatives, all };
inline Depth all_if(bool yes) { return yes ? Depth::all : Depth::numbers; }

// Each tangent and gradient alone, in float64.
inline void check_alone(const Problem& p, const std::array<Lists, 4>& all) {
  Trial t(p, f64);
  Lists jvps = combined(all[jvp], -1, all[jvp]), hvps = combined(all[hvp], -1, all[hvp]);
  for (int k = 0; k < int(p.inputs.size()); ++k) {
    if (p.inputs[k].size < 0) continue;
    jvps = combined(jvps, 1, t.run_jvp(k)), hvps = combined(hvps, 1, t.run_hvp(k));
    near(p.name + " vjp, alone", t.run_vjp(k), all[vjp], 1e-12, k);
    near(p.name + " hvp, alone", t.run_hvp(-1, k), all[hvp], 1e-12, k);
  }
  near(p.name + " jvp along each", jvps, all[jvp], 1e-11);
  near(p.name + " hvp along each", hvps, all[hvp], 1e-11);
  Lists vjps = combined(all[vjp], -1, all[vjp]);
  hvps = combined(hvps, -1, hvps);
  for (int k = 0; k < int(p.outputs.size()); ++k)
    vjps = combined(vjps, 1, t.run_vjp(-1, nullptr, k)),
    hvps = combined(hvps, 1, t.run_hvp(-1, -1, k));
  near(p.name + " vjp of each", vjps, all[vjp], 1e-11);
  near(p.name + " hvp of each", hvps, all[hvp], 1e-11);
}

// The adjoint, and differences, in float64.
inline void check_derivatives(const Problem& p, const std::array<Lists, 4>& all) {
  Trial t(p, f64);
  const double scale = 1 + std::fabs(inner(t.cotangents, all[jvp]));
  check(std::fabs(inner(t.cotangents, all[jvp]) - inner(all[vjp], t.tangents)) <= 1e-10 * scale,
        p.name + " vjp is the adjoint of jvp");
  if (!p.smooth) return;
  constexpr double step = 0x1p-16;
  Trial ahead(p, f64), behind(p, f64);
  ahead.in = combined(t.in, step, t.tangents), behind.in = combined(t.in, -step, t.tangents);
  const auto slope = [](const Lists& a, const Lists& b) {
    const Lists zero = combined(a, -1, a);
    return combined(combined(zero, 0.5 / step, a), -0.5 / step, b);
  };
  near(p.name + " jvp by differences", slope(ahead.run_forward(), behind.run_forward()), all[jvp],
       1e-6);
  near(p.name + " hvp by differences", slope(ahead.run_vjp(), behind.run_vjp()), all[hvp], 1e-6);
}

inline void check_laws(const Problem& p, const std::vector<Precision>& types,
                       Depth depth = Depth::numbers) {
  if (!values_matter()) {
    const auto all = Trial(p, f32).run();
    for (const Lists& results : all) near(p.name + " numbers", results, results, 0);
    return;
  }
  const auto truth = Trial(p, f64).run();
  if (short_run()) depth = Depth::numbers;
  if (depth >= Depth::derivatives) check_derivatives(p, truth);
  if (depth == Depth::all) check_alone(p, truth);
  for (const Precision type : types) {
    // arithmetic is that of float32 at least; 16 bits round what goes in and out of products
    const double stored[] = {0, 0, 0x1p-10 * 8, 0x1p-7 * 8};
    const double relative = (type == f64 ? 1e-12 : 0x1p-17) * p.roundings + stored[type];
    for (size_t shift = 0; shift < (depth == Depth::all ? 2 : 1); ++shift) {
      const std::string name = p.name + " " + type_names[type] + (shift ? " not aligned " : " ");
      Trial t(p, type, shift);
      const auto all = type == f64 && !shift ? truth : t.run();
      for (const int face : {forward, vjp, jvp, hvp})
        near(name + std::array{"forward", "vjp", "jvp", "hvp"}[face], all[face], truth[face],
             relative);
      if (!t.n_saved()) continue;
      Buffers saved;
      near(name + "forward that saves", t.run_forward(&saved), all[forward], 0);
      near(name + "vjp from what is saved", t.run_vjp(-1, &saved), truth[vjp], 2 * relative);
    }
  }
}

// Types of a case among many: those of 16 bits take the same paths, so one of them, by lot.
inline std::vector<Precision> some_types() {
  static std::mt19937 random(2);
  return {f32, f64, random() % 2 ? f16 : bf16};
}

// Results have the same bits in other orders of the threads.
inline void check_orders(const Problem& p, Precision type = f32) {
  if (short_run()) return;
  Trial t(p, type);
  const auto first = t.run();
  for (const char* seed : {"1", "2"}) {
    setenv("SIMT_SEED", seed, 1);
    check(t.run() == first, p.name + " same bits in another order");
  }
  unsetenv("SIMT_SEED");
}

inline std::vector<HostGraph> irregular_graphs() {
  // room is no reason for a race
  if (short_run()) return {with_room(power_law(), 150), small_square(), without_edges(3, 5)};
  return {power_law(),          small_square(),       without_edges(3, 5),
          without_edges(0, 2),  without_edges(4, 0),  without_edges(0, 0),
          with_room(power_law(), 150), with_room(small_square(), 7),
          with_room(without_edges(3, 5), 4)};
}
// First tokens of sequences by their lengths, and the end.
inline std::vector<int64_t> borders(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> cu{0};
  for (const int64_t n : lengths) cu.push_back(cu.back() + n);
  return cu;
}
inline auto on_device(const HostGraph& g) { return std::make_shared<DeviceGraph>(to_device(g)); }

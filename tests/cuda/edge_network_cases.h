// SPDX-License-Identifier: MIT
// Common parts of the tests of operators with a network on edges: the network of one edge and its
// way back in plain loops, and all faces of an operator held to its formula.
#pragma once
#include "activations.h"

template <class N>
using Arrays = std::vector<std::vector<N>>;

// ---- the network of an edge ----

// Linear layers [U_1 | b_1 | U_2 | b_2 | ...] with an activation between them.
struct Layers {
  int64_t n_in;
  std::vector<int64_t> widths;
  int activation;

  int64_t inputs(size_t l) const { return l ? widths[l - 1] : n_in; }
  int64_t n_packed() const {
    int64_t n = 0;
    for (size_t l = 0; l < widths.size(); ++l) n += (inputs(l) + 1) * widths[l];
    return n;
  }

  // Input of every layer, and behind them the result.
  template <class N>
  Arrays<N> forward(const std::vector<N>& packed, const std::vector<N>& z, Arrays<N>& pre) const {
    Arrays<N> read{z};
    pre.clear();
    const N* u = packed.data();
    for (size_t l = 0; l < widths.size(); ++l) {
      std::vector<N> x(widths[l]);
      for (int64_t k = 0; k < widths[l]; ++k) {
        x[k] = u[inputs(l) * widths[l] + k];
        for (int64_t a = 0; a < inputs(l); ++a) x[k] += read[l][a] * u[a * widths[l] + k];
      }
      pre.push_back(x);
      if (l + 1 < widths.size())
        for (N& v : x) v = act(activation, v, 0);
      read.push_back(x);
      u += (inputs(l) + 1) * widths[l];
    }
    return read;
  }
  // Gradients to z from those to the result; those to the layers are added to.
  template <class N>
  std::vector<N> backward(const std::vector<N>& packed, const Arrays<N>& read, const Arrays<N>& pre,
                          std::vector<N> g, std::vector<N>& to_packed) const {
    int64_t start = n_packed();
    for (size_t l = widths.size(); l-- > 0;) {
      start -= (inputs(l) + 1) * widths[l];
      std::vector<N> below(inputs(l));
      for (int64_t k = 0; k < widths[l]; ++k) {
        to_packed[start + inputs(l) * widths[l] + k] += g[k];
        for (int64_t a = 0; a < inputs(l); ++a) {
          to_packed[start + a * widths[l] + k] += read[l][a] * g[k];
          below[a] += packed[start + a * widths[l] + k] * g[k];
        }
      }
      for (int64_t a = 0; l && a < inputs(l); ++a) below[a] *= act(activation, pre[l - 1][a], 1);
      g = below;
    }
    return g;
  }
};

// f(destination, source, row of the edge table)
template <class F>
void for_edges(const HostGraph& g, F f) {
  for (int64_t i = 0; i < g.n_dst; ++i)
    for (int64_t p = g.offsets[i]; p < g.offsets[i + 1]; ++p) f(i, g.indices[p], g.row(p));
}

// ---- all faces ----

// Call an entry point with `count` arrays.
template <size_t count, class Entry, class Bytes, class S>
void call_entry(Entry entry, Bytes bytes, const S& sizes, const std::vector<void*>& a) {
  std::array<void*, count> arrays;
  std::copy(a.begin(), a.end(), arrays.begin());
  std::apply([&](auto... p) { run_entry(entry, bytes, sizes, p...); }, arrays);
}
#define ENTRY(name, face, type) \
  gnograd_cuda_##name##_##face##_##type, gnograd_cuda_##name##_##face##_workspace_bytes_##type
#define CALL_FACES(name, n_in, n_out, type, face, sizes, a)                               \
  if (face == "forward") call_entry<n_in + n_out>(ENTRY(name, forward, type), sizes, a);  \
  else if (face == "vjp") call_entry<2 * n_in + n_out>(ENTRY(name, vjp, type), sizes, a); \
  else if (face == "jvp") call_entry<2 * n_in + n_out>(ENTRY(name, jvp, type), sizes, a); \
  else call_entry<3 * n_in + n_out>(ENTRY(name, hvp, type), sizes, a);

// An operator's problem has `graph`, input_names and output_names; inputs() and outputs(), sizes of
// its arrays, -1 for an absent one; oracles forward(in) and vjp(cotangents, in) over any number;
// run<T>(face, graph on the device, pointers); and text().
template <class Problem, class T>
struct FacesCase {
  Problem problem;
  std::vector<int64_t> inputs, outputs;
  Arrays<T> in, tangents, cotangents;

  explicit FacesCase(Problem p)
      : problem(std::move(p)), inputs(problem.inputs()), outputs(problem.outputs()) {
    std::mt19937 random(7);
    const auto draw = [&](const std::vector<int64_t>& sizes) {
      Arrays<T> all;
      for (const int64_t n : sizes) all.push_back(randoms<T>(std::max<int64_t>(n, 0), random));
      return all;
    };
    in = draw(inputs), tangents = draw(inputs), cotangents = draw(outputs);
    for (T& u : in[problem.layers_input]) u *= T(problem.layers_scale());
  }
  std::string name(const std::string& what) const { return problem.text() + " " + what; }

  static std::vector<void*> pointers(std::vector<Device<T>>& arrays,
                                     const std::vector<int64_t>& sizes, int only = -1) {
    std::vector<void*> p;
    for (size_t a = 0; a < arrays.size(); ++a)
      p.push_back(sizes[a] < 0 || (only >= 0 && int(a) != only) ? nullptr : arrays[a].get());
    return p;
  }
  void run(const char* face, const gnograd_cuda_graph& view,
           const std::vector<std::vector<void*>>& groups) const {
    std::vector<void*> a;
    for (const auto& group : groups) a.insert(a.end(), group.begin(), group.end());
    problem.template run<T>(face, view, a);
  }
  template <class N>
  Arrays<N> values(const Arrays<T>& x, const Arrays<T>* along = nullptr) const {
    Arrays<N> out;
    for (size_t a = 0; a < x.size(); ++a)
      out.push_back(numbers<N>(x[a], along ? &(*along)[a] : nullptr));
    return out;
  }

  // All faces; thoroughly: also each gradient alone and along one tangent.
  void test(bool thoroughly = false) {
    using C64 = std::complex<double>;
    using C32 = std::complex<float>;
    DeviceGraph g = to_device(problem.graph);
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents), c = upload_all<T>(cotangents);
    const auto judge = [&](const char* face, const char* const* names,
                           const std::vector<int64_t>& sizes, std::vector<Device<T>>& got,
                           const auto& truth, const auto& rough, int only = -1) {
      for (size_t a = 0; a < got.size(); ++a)
        if (sizes[a] >= 0 && (only < 0 || only == int(a)))
          compare(name(std::string(face) + " " + names[a]), got[a].host(), doubles(truth[a]),
                  doubles(rough[a]));
    };
    const auto judge_outputs = [&](const char* face, auto& got, const auto& truth,
                                   const auto& rough) {
      judge(face, problem.output_names, outputs, got, truth, rough);
    };
    const auto judge_gradients = [&](const char* face, auto& got, const auto& truth,
                                     const auto& rough, int only = -1) {
      judge(face, problem.input_names, inputs, got, truth, rough, only);
    };
    const auto xs = pointers(x, inputs), cs = pointers(c, outputs);

    auto out = room_for<T>(cotangents);
    run("forward", g.view, {xs, pointers(out, outputs)});
    judge_outputs("forward", out, problem.forward(values<double>(in)),
                  problem.forward(values<float>(in)));
    const auto along = [&](const char* face, const Arrays<T>& t, int only) {
      auto moved = room_for<T>(cotangents);
      run("jvp", g.view, {xs, pointers(dx, inputs, only), pointers(moved, outputs)});
      judge_outputs(face, moved, problem.forward(values<C64>(in, &t)),
                    problem.forward(values<C32>(in, &t)));
    };
    along("jvp", tangents, -1);
    const auto truth = problem.vjp(values<double>(cotangents), values<double>(in));
    const auto rough = problem.vjp(values<float>(cotangents), values<float>(in));
    const auto turn = problem.vjp(values<C64>(cotangents), values<C64>(in, &tangents));
    const auto rough_turn = problem.vjp(values<C32>(cotangents), values<C32>(in, &tangents));
    const auto moved = problem.forward(values<C64>(in, &tangents));
    std::vector<T> all_cotangents;
    std::vector<double> all_moved;
    Arrays<double> gradients;
    for (size_t o = 0; o < moved.size(); ++o)
      for (size_t k = 0; k < cotangents[o].size(); ++k) {
        all_cotangents.push_back(cotangents[o][k]);
        all_moved.push_back(doubles(moved[o])[k]);
      }
    for (const auto& a : truth) gradients.push_back(doubles(a));
    check_adjoint(name("oracle"), all_cotangents, all_moved, gradients, tangents);

    for (int only = -1; only < (thoroughly ? int(inputs.size()) : 0); ++only) {
      auto grad = room_for<T>(in), grad_tangent = room_for<T>(in);
      run("vjp", g.view, {cs, xs, pointers(grad, inputs, only)});
      judge_gradients("vjp", grad, truth, rough, only);
      run("hvp", g.view, {cs, xs, pointers(dx, inputs), pointers(grad_tangent, inputs, only)});
      judge_gradients("hvp", grad_tangent, turn, rough_turn, only);
    }
    for (int only = 0; thoroughly && only < int(inputs.size()); ++only) {
      Arrays<T> one;
      for (const auto& a : in) one.emplace_back(a.size(), T(0));
      one[only] = tangents[only];
      along("jvp along one", one, only);
      auto grad = room_for<T>(in);
      run("hvp", g.view, {cs, xs, pointers(dx, inputs, only), pointers(grad, inputs)});
      judge_gradients("hvp along one", grad,
                      problem.vjp(values<C64>(cotangents), values<C64>(in, &one)),
                      problem.vjp(values<C32>(cotangents), values<C32>(in, &one)));
    }
  }

  std::vector<T> bits() {
    DeviceGraph g = to_device(problem.graph);
    auto x = upload_all<T>(in), dx = upload_all<T>(tangents), c = upload_all<T>(cotangents);
    auto out = room_for<T>(cotangents), grad = room_for<T>(in), turn = room_for<T>(in);
    const auto xs = pointers(x, inputs), dxs = pointers(dx, inputs), cs = pointers(c, outputs);
    run("jvp", g.view, {xs, dxs, pointers(out, outputs)});
    run("vjp", g.view, {cs, xs, pointers(grad, inputs)});
    run("hvp", g.view, {cs, xs, dxs, pointers(turn, inputs)});
    std::vector<T> all;
    for (auto* arrays : {&out, &grad, &turn})
      for (auto& array : *arrays) {
        const auto host = array.host();
        all.insert(all.end(), host.begin(), host.end());
      }
    return all;
  }
};

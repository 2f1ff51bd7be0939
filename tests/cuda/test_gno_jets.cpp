// SPDX-License-Identifier: MIT
// gno_with_gradient, gno_with_laplacian and gno_with_hessian against the formulas in float64: the
// network of every edge with its Jacobian and its Hessian, a kernel matrix an edge, and gradients
// by differentiation with respect to one number after another.
#include "support.h"

enum { relu, gelu, silu, hyperbolic, sinus, identity };
const char* const activation_names[] = {"relu", "gelu", "silu", "tanh", "sin", "identity"};
enum { gradient, laplacian, hessian };
const char* const order_names[] = {"gradient", "laplacian", "hessian"};
enum { difference, pair };
enum { sum, mean };
enum { full, diagonal };
enum { h, x, y, layers, v, b_v, weight, weight_derivatives, n_inputs };
const char* const input_names[] = {"h", "x",   "y",      "layers",
                                   "v", "b_v", "weight", "weight_derivatives"};

template <class N>
using Arrays = std::array<std::vector<N>, n_inputs>;

// ---- numbers with derivatives along two directions, and their mixed second derivative ----

template <class R>
struct Hyper {
  R v = 0, a = 0, b = 0, ab = 0;
  Hyper(R v = 0, R a = 0, R b = 0, R ab = 0) : v(v), a(a), b(b), ab(ab) {}
  Hyper& operator+=(Hyper o) { return *this = {v + o.v, a + o.a, b + o.b, ab + o.ab}; }
  friend Hyper operator+(Hyper l, Hyper r) { return l += r; }
  friend Hyper operator-(Hyper l, Hyper r) { return l += Hyper(-1) * r; }
  friend Hyper operator*(Hyper l, Hyper r) {
    return {l.v * r.v, l.a * r.v + l.v * r.a, l.b * r.v + l.v * r.b,
            l.ab * r.v + l.a * r.b + l.b * r.a + l.v * r.ab};
  }
};

// An activation with its first four derivatives.
template <class R>
std::array<R, 5> derivatives(int activation, R x) {
  switch (activation) {
    case relu: return {x > 0 ? x : R(0), x > 0 ? R(1) : R(0), 0, 0, 0};
    case gelu: {
      const R p = std::erfc(-x * R(M_SQRT1_2)) / 2;
      const R q = std::exp(-x * x / 2) * R(M_2_SQRTPI * M_SQRT1_2 / 2), s = x * x;
      return {x * p, p + x * q, q * (2 - s), q * x * (s - 4), q * (7 * s - s * s - 4)};
    }
    case silu: {
      const R s = 1 / (1 + std::exp(-x)), o = 1 / (1 + std::exp(x)), q = s * o, t = o - s;
      return {x * s, s * (1 + x * o), q * (2 + x * t), q * (3 * t + x * t * t - 2 * x * q),
              q * (4 * t * t + x * t * t * t - 8 * q * (1 + x * t))};
    }
    case hyperbolic: {
      const R t = std::tanh(x), u = 1 - t * t;
      return {t, u, -2 * t * u, u * (6 * t * t - 2), 8 * t * u * (2 - 3 * t * t)};
    }
    case sinus: return {std::sin(x), std::cos(x), -std::sin(x), -std::cos(x), std::sin(x)};
    default: return {x, 1, 0, 0, 0};
  }
}
// Derivative number `order` of the activation.
template <class R>
Hyper<R> act(int activation, Hyper<R> x, int order) {
  const auto f = derivatives(activation, x.v);
  return {f[order], f[order + 1] * x.a, f[order + 1] * x.b,
          f[order + 1] * x.ab + f[order + 2] * x.a * x.b};
}

// ---- oracle ----

struct Options {
  int order = laplacian;
  int64_t d = 2;
  std::vector<int64_t> widths = {5, 4};
  int64_t f_in = 3, f_out = 4;
  int geometry = difference, activation = gelu, reduction = sum, kernel = full;
  int weights = 0;  // 1: weights, 2: with derivatives
  bool features = true;
  bool only_second = false;  // the other cotangents are null

  int64_t seen() const { return geometry == ::pair ? 2 * d : d; }
  int64_t kappa() const { return kernel == full ? f_in * f_out : f_out; }
  int64_t n_second() const { return order == gradient ? 0 : order == hessian ? d * d : 1; }
  int64_t n_derivatives() const {
    return d + (order == gradient ? 0 : order == hessian ? d * (d + 1) / 2 : 1);
  }
  int64_t n_outputs() const { return (1 + d + n_second()) * f_out; }  // numbers of one destination
  std::array<int64_t, n_inputs> sizes(int64_t n_src, int64_t n_dst, int64_t n_edges) const {
    int64_t packed = 0, before = seen();
    for (const int64_t width : widths) packed += (before + 1) * width, before = width;
    return {features ? n_src * f_in : 0,
            n_dst * d,
            n_src * d,
            packed,
            before * kappa(),
            kappa(),
            weights ? n_edges : 0,
            weights > 1 ? n_edges * n_derivatives() : 0};
  }
};

// Terms of one edge in the outputs of its destination: value, gradient, second derivatives.
template <class N>
std::vector<N> edge_outputs(const Options& o, const Arrays<N>& in) {
  const int64_t d = o.d;
  std::vector<N> z(o.seen());
  for (int64_t a = 0; a < d; ++a) {
    z[a] = o.geometry == ::pair ? in[x][a] : in[x][a] - in[y][a];
    if (o.geometry == ::pair) z[d + a] = in[y][a];
  }
  std::vector<N> jacobian(z.size() * d), curves(z.size() * d * d);
  for (int64_t a = 0; a < d; ++a) jacobian[a * d + a] = N(1);
  int64_t start = 0;
  for (const int64_t width : o.widths) {
    const int64_t before = z.size();
    std::vector<N> hid(width), slopes(width * d), bends(width * d * d);
    for (int64_t k = 0; k < width; ++k) {
      N p = in[layers][start + before * width + k];
      std::vector<N> first(d), second(d * d);
      for (int64_t m = 0; m < before; ++m) {
        const N u = in[layers][start + m * width + k];
        p += z[m] * u;
        for (int64_t a = 0; a < d; ++a) first[a] += jacobian[m * d + a] * u;
        for (int64_t a = 0; a < d * d; ++a) second[a] += curves[m * d * d + a] * u;
      }
      const N f = act(o.activation, p, 1), g = act(o.activation, p, 2);
      hid[k] = act(o.activation, p, 0);
      for (int64_t a = 0; a < d; ++a) {
        slopes[k * d + a] = f * first[a];
        for (int64_t b = 0; b < d; ++b)
          bends[(k * d + a) * d + b] = f * second[a * d + b] + g * first[a] * first[b];
      }
    }
    z = hid, jacobian = slopes, curves = bends;
    start += (before + 1) * width;
  }

  const int64_t kappa = o.kappa();
  std::vector<N> out(o.n_outputs());
  for (int64_t c = 0; c < kappa; ++c) {
    const int64_t fi = o.kernel == full ? c / o.f_out : c, fo = c % o.f_out;
    N value = in[b_v][c];
    std::vector<N> first(d), second(d * d);
    for (size_t k = 0; k < z.size(); ++k) {
      const N u = in[v][k * kappa + c];
      value += z[k] * u;
      for (int64_t a = 0; a < d; ++a) first[a] += jacobian[k * d + a] * u;
      for (int64_t a = 0; a < d * d; ++a) second[a] += curves[k * d * d + a] * u;
    }
    const N hj = o.features ? in[h][fi] : N(1), w = o.weights ? in[weight][0] : N(1);
    const auto dw = [&](int64_t a) {
      return o.weights > 1 && a < o.n_derivatives() ? in[weight_derivatives][a] : N(0);
    };
    out[fo] += hj * w * value;
    for (int64_t a = 0; a < d; ++a)
      out[(1 + a) * o.f_out + fo] += hj * (w * first[a] + dw(a) * value);
    N total = dw(d) * value;  // for the Laplacian
    int64_t upper = d;
    for (int64_t a = 0; a < d && o.order != gradient; ++a)
      for (int64_t b = a; b < d; ++b, ++upper) {
        const N mixed = w * second[a * d + b] + dw(a) * first[b] + dw(b) * first[a];
        if (a == b) total += mixed;
        if (o.order != hessian) continue;
        const N entry = hj * (mixed + dw(upper) * value);
        out[(1 + d + a * d + b) * o.f_out + fo] += entry;
        if (a != b) out[(1 + d + b * d + a) * o.f_out + fo] += entry;
      }
    if (o.order == laplacian) out[(1 + d) * o.f_out + fo] += hj * total;
  }
  return out;
}

template <class T>
std::array<std::vector<T>, 3> split_outputs(const Options& o, int64_t n_dst,
                                            const std::vector<T>& all) {
  std::array<std::vector<T>, 3> parts;
  const int64_t rows[] = {1, o.d, o.n_second()};
  for (int64_t i = 0, at = 0; i < n_dst; ++i)
    for (int p = 0; p < 3; ++p)
      for (int64_t k = 0; k < rows[p] * o.f_out; ++k) parts[p].push_back(all[at++]);
  return parts;
}

// All results in R: outputs and their tangents by destination, gradients and their tangents.
template <class R, class T>
struct Oracle {
  std::vector<double> out, out_tangent;
  Arrays<double> grad, grad_tangent;

  Oracle(const HostGraph& graph, const Options& o, const Arrays<T>& in, const Arrays<T>& tangents,
         const std::vector<T>& cotangents) {
    using N = Hyper<R>;
    std::vector<N> sums(graph.n_dst * o.n_outputs());
    Arrays<N> to;
    for (int a = 0; a < n_inputs; ++a) to[a].resize(in[a].size());
    for (int64_t i = 0; i < graph.n_dst; ++i) {
      const int64_t degree = graph.offsets[i + 1] - graph.offsets[i];
      const R scale = o.reduction == mean && degree ? R(1) / R(degree) : R(1);
      for (int64_t p = graph.offsets[i]; p < graph.offsets[i + 1]; ++p) {
        // start of the numbers of this edge in each array
        const auto sizes = o.sizes(1, 1, 1);
        const int64_t j = graph.indices[p], e = graph.row(p);
        const int64_t at[n_inputs] = {j, i, j, 0, 0, 0, e, e};
        Arrays<N> local;
        for (int a = 0; a < n_inputs; ++a)
          for (int64_t k = 0; k < sizes[a]; ++k) {
            const int64_t from = at[a] * sizes[a] + k;
            local[a].push_back({R(to_double(in[a][from])), 0, R(to_double(tangents[a][from])), 0});
          }
        const auto own = edge_outputs(o, local);
        for (int64_t k = 0; k < o.n_outputs(); ++k)
          sums[i * o.n_outputs() + k] += N(scale) * own[k];
        for (int a = 0; a < n_inputs; ++a)
          for (int64_t k = 0; k < sizes[a]; ++k) {
            local[a][k].a = 1;
            const auto moved = edge_outputs(o, local);
            local[a][k].a = 0;
            for (int64_t c = 0; c < o.n_outputs(); ++c)
              to[a][at[a] * sizes[a] + k] +=
                  N(scale * R(to_double(cotangents[i * o.n_outputs() + c]))) * moved[c];
          }
      }
    }
    for (const N& s : sums) out.push_back(s.v), out_tangent.push_back(s.b);
    for (int a = 0; a < n_inputs; ++a)
      for (const N& g : to[a]) grad[a].push_back(g.a), grad_tangent[a].push_back(g.ab);
  }
};

// ---- the library ----

template <size_t count, class Entry, class Bytes, class S>
void go(Entry entry, Bytes bytes, const S& sizes, const std::vector<void*>& a) {
  std::array<void*, count> arrays;
  std::copy(a.begin(), a.end(), arrays.begin());
  std::apply([&](auto... p) { run_entry(entry, bytes, sizes, p...); }, arrays);
}
#define ENTRY(name, face, type) \
  gnograd_cuda_##name##_##face##_##type, gnograd_cuda_##name##_##face##_workspace_bytes_##type
#define FACES(name, n_out, type)                                              \
  if (face == "forward") go<8 + n_out>(ENTRY(name, forward, type), sizes, a); \
  else if (face == "vjp") go<16 + n_out>(ENTRY(name, vjp, type), sizes, a);   \
  else if (face == "jvp") go<16 + n_out>(ENTRY(name, jvp, type), sizes, a);   \
  else go<24 + n_out>(ENTRY(name, hvp, type), sizes, a);
#define TYPES(name, n_out)                  \
  if constexpr (std::is_same_v<T, float>) { \
    FACES(name, n_out, f32)                 \
  } else {                                  \
    FACES(name, n_out, f64)                 \
  }

template <class T>
struct Case {
  const HostGraph& graph;
  Options o;
  Arrays<T> in, tangents;
  std::vector<T> cotangents;  // cotangents of all outputs, by destination

  Case(const HostGraph& graph, Options options) : graph(graph), o(std::move(options)) {
    std::mt19937 random(7);
    const auto sizes = o.sizes(graph.n_src, graph.n_dst, graph.n_edges());
    for (auto* arrays : {&in, &tangents})
      for (int a = 0; a < n_inputs; ++a)
        (*arrays)[a] = randoms<T>(sizes[a], random, a == v ? std::sqrt(1.0 / o.widths.back()) : 1);
    cotangents = randoms<T>(graph.n_dst * o.n_outputs(), random);
    for (size_t k = 0; o.only_second && k < cotangents.size(); ++k)
      if (int64_t(k % o.n_outputs()) < (1 + o.d) * o.f_out) cotangents[k] = T(0);
  }
  bool absent(int a) const {
    return (a == h && !o.features) || (a == weight && !o.weights) ||
           (a == weight_derivatives && o.weights < 2);
  }
  std::string name(const std::string& what) const {
    std::string text =
        std::string(order_names[o.order]) + " " + what + ", " + activation_names[o.activation] +
        (o.reduction == mean ? " mean" : " sum") + (o.kernel == diagonal ? " diagonal" : "") +
        (o.geometry == ::pair ? " pair" : "") + ", weights " + std::to_string(o.weights) + ", " +
        graph.name + ", " + std::to_string(o.d) + "D";
    for (const int64_t width : o.widths) text += "-" + std::to_string(width);
    return text + ", " + std::to_string(o.f_in) + " to " + std::to_string(o.f_out);
  }

  void run(const std::string& face, const gnograd_cuda_graph& view,
           const std::vector<std::vector<void*>>& groups) const {
    std::vector<void*> a;
    for (const auto& group : groups) a.insert(a.end(), group.begin(), group.end());
    const auto sizes =
        std::make_tuple(&view, int64_t(1), o.d, o.f_in, o.f_out, int64_t(o.widths.size()), o.widths.data(),
                        o.geometry, o.activation, o.reduction, o.kernel);
    if (o.order == gradient) {
      TYPES(gno_with_gradient, 2)
    } else if (o.order == laplacian) {
      TYPES(gno_with_laplacian, 3)
    } else {
      TYPES(gno_with_hessian, 3)
    }
  }
  std::vector<Device<T>> upload(const Arrays<T>& arrays) const {
    return upload_all<T>(arrays);
  }
  std::vector<Device<T>> room() const { return room_for<T>(in); }
  std::vector<void*> pointers(std::vector<Device<T>>& arrays, int only = -1) const {
    std::vector<void*> p;
    for (int a = 0; a < n_inputs; ++a)
      p.push_back(absent(a) || (only >= 0 && a != only) ? nullptr : arrays[a].get());
    return p;
  }
  std::vector<Device<T>> output_room() const {
    std::vector<Device<T>> device;
    const int64_t rows[] = {1, o.d, o.n_second()};
    for (int p = 0; p < (o.order == gradient ? 2 : 3); ++p)
      device.emplace_back(graph.n_dst * rows[p] * o.f_out);
    return device;
  }
  std::vector<void*> output_pointers(std::vector<Device<T>>& arrays) const {
    std::vector<void*> p;
    for (auto& array : arrays) p.push_back(array.get());
    return p;
  }
  std::vector<Device<T>> upload_cotangents() const {
    std::vector<Device<T>> device;
    for (const auto& part : split_outputs(o, graph.n_dst, cotangents)) device.emplace_back(part);
    if (o.order == gradient) device.pop_back();
    return device;
  }

  // All faces; thoroughly: also each gradient alone and along one tangent.
  void test(bool thoroughly = false) {
    DeviceGraph g = to_device(graph);
    auto values = upload(in), along = upload(tangents), c = upload_cotangents();
    auto c_pointers = output_pointers(c);
    if (o.only_second) c_pointers[0] = c_pointers[1] = nullptr;
    auto out = output_room(), out_tangent = output_room();
    const Oracle<double, T> truth(graph, o, in, tangents, cotangents);
    const Oracle<float, T> plain(graph, o, in, tangents, cotangents);

    const auto judge_outputs = [&](const char* face, std::vector<Device<T>>& got,
                                   const std::vector<double>& want,
                                   const std::vector<double>& rough) {
      const auto exact = split_outputs(o, graph.n_dst, want);
      const auto near = split_outputs(o, graph.n_dst, rough);
      for (size_t p = 0; p < got.size(); ++p)
        compare(name(std::string(face) + " " + std::to_string(p)), got[p].host(), exact[p],
                near[p]);
    };
    run("forward", g.view, {pointers(values), output_pointers(out)});
    judge_outputs("forward", out, truth.out, plain.out);
    run("jvp", g.view, {pointers(values), pointers(along), output_pointers(out_tangent)});
    judge_outputs("jvp", out_tangent, truth.out_tangent, plain.out_tangent);

    const auto judge = [&](const char* face, std::vector<Device<T>>& got,
                           const Arrays<double>& want, const Arrays<double>& rough, int only) {
      for (int a = 0; a < n_inputs; ++a)
        if (!absent(a) && (only < 0 || a == only))
          compare(name(std::string(face) + " " + input_names[a]), got[a].host(), want[a], rough[a]);
    };
    for (int only = -1; only < (thoroughly ? int(n_inputs) : 0); ++only) {
      auto grad = room(), grad_tangent = room();
      run("vjp", g.view, {c_pointers, pointers(values), pointers(grad, only)});
      judge("vjp", grad, truth.grad, plain.grad, only);
      run("hvp", g.view,
          {c_pointers, pointers(values), pointers(along), pointers(grad_tangent, only)});
      judge("hvp", grad_tangent, truth.grad_tangent, plain.grad_tangent, only);
    }
    for (int only = 0; thoroughly && only < n_inputs; ++only) {
      Arrays<T> one;
      for (int a = 0; a < n_inputs; ++a) one[a].resize(in[a].size(), T(0));
      one[only] = tangents[only];
      const Oracle<double, T> want(graph, o, in, one, cotangents);
      const Oracle<float, T> rough(graph, o, in, one, cotangents);
      auto moved = output_room(), grad = room();
      run("jvp", g.view, {pointers(values), pointers(along, only), output_pointers(moved)});
      judge_outputs("jvp along one", moved, want.out_tangent, rough.out_tangent);
      run("hvp", g.view, {c_pointers, pointers(values), pointers(along, only), pointers(grad)});
      judge("hvp along one", grad, want.grad_tangent, rough.grad_tangent, -1);
    }
  }

  std::vector<T> bits() {
    DeviceGraph g = to_device(graph);
    auto values = upload(in), along = upload(tangents), c = upload_cotangents();
    auto out = output_room(), grad = room();
    run("jvp", g.view, {pointers(values), pointers(along), output_pointers(out)});
    run("hvp", g.view, {output_pointers(c), pointers(values), pointers(along), pointers(grad)});
    std::vector<T> all;
    for (auto* arrays : {&out, &grad})
      for (auto& array : *arrays) {
        const auto host = array.host();
        all.insert(all.end(), host.begin(), host.end());
      }
    return all;
  }
};

// Many edges between two nodes, of which one is a row longer than a segment.
HostGraph hub() {
  return make_graph(
      "hub", 2, 3, true, [](int64_t i) { return i == 1 ? 300 : 2 * i; },
      [](int64_t i) { return i % 2; });
}

template <class T>
void test_type() {
  const HostGraph square = small_square(), long_row = hub();
  for (const int order : {gradient, laplacian, hessian})
    for (const int kernel : {full, diagonal}) {
      Options o{.order = order,
                .f_in = kernel == full ? 3 : 4,
                .reduction = mean,
                .kernel = kernel,
                .weights = 2};
      if (kernel == full || !short_run()) Case<T>(square, o).test();
      o.geometry = ::pair, o.weights = 0, o.reduction = sum, o.activation = silu;
      if (kernel == diagonal || !short_run()) Case<T>(square, o).test();
      if (short_run()) continue;
      for (const auto& [n_src, n_dst] : {std::pair{3, 5}, std::pair{0, 2}, std::pair{4, 0}})
        Case<T>(without_edges(n_src, n_dst), o).test();
    }
  for (int activation = relu; activation <= (short_run() ? relu : identity); ++activation)
    Case<T>(square, {.widths = {4, 3}, .activation = activation, .weights = 1}).test();
  Case<T>(square, {.order = hessian,
                   .d = 3,
                   .widths = {3, 5, 2},
                   .f_in = 1,
                   .f_out = 1,
                   .activation = sinus,
                   .only_second = true})
      .test();
  Case<T>(square, {.d = 1,
                   .widths = {7},
                   .f_in = 2,
                   .f_out = 2,
                   .activation = hyperbolic,
                   .reduction = mean,
                   .kernel = diagonal,
                   .features = false})
      .test();
  Case<T>(long_row, {.widths = {4}, .f_in = 2, .f_out = 2, .weights = 1}).test();
}

// Products with segments of edges in TF32, where it is asked for.
void test_precision(const HostGraph& graph) {
  Case<float> c(graph, {.weights = 2});
  const auto accurate = c.bits();
  MUST(gnograd_cuda_use_tf32(1));
  const auto rounded = c.bits();
  MUST(gnograd_cuda_use_tf32(0));
  double size = 0, difference = 0;
  for (size_t i = 0; i < accurate.size(); ++i) {
    size = std::max(size, std::fabs(double(accurate[i])));
    difference = std::max(difference, std::fabs(double(accurate[i]) - rounded[i]));
  }
  check(difference < 0x1p-7 * size, "products in TF32");  // some of them one after another
  check(difference > 0x1p-15 * size, "products in TF32, where it is asked for");
  check(c.bits() == accurate, "products in float32 again");
}

int main() {
  require_device();
  test_type<float>();
  if (!short_run()) test_type<double>();
  const HostGraph square = small_square(), irregular = power_law();
  const HostGraph roomy = with_room(irregular, 150), none = with_room(without_edges(3, 5), 4);
  for (const int kernel : {full, diagonal}) {
    Options o{.f_in = 3, .f_out = 3, .reduction = mean, .kernel = kernel, .weights = 2};
    Case<double>(roomy, o).test();
    if (short_run()) continue;
    Case<double>(square, o).test(true);
    for (const HostGraph* graph : {&irregular, &none}) Case<double>(*graph, o).test();
    o.geometry = ::pair, o.weights = 0, o.reduction = sum, o.activation = silu;
    Case<double>(roomy, o).test();
  }
  // more than a tile of each
  Case<double>(square, {.widths = {3, 70}, .f_in = 1, .f_out = 1, .weights = 1}).test();
  Case<double>(square, {.widths = {2}, .f_in = 66, .f_out = 1}).test();
  Case<double>(square, {.widths = {2}, .f_in = 1, .f_out = 66}).test();
  Case<float> c(square, {.weights = 2});
  if (!short_run()) check_same_bits(c);
  if (!short_run()) test_precision(square);
  return report();
}

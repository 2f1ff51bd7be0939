// SPDX-License-Identifier: MIT
// Periodic images: the images near a cell are all there, and of candidates the right ones are kept,
// against all images of all points.
#include <array>

#include "support.h"

namespace {

template <class T>
struct Abi;
template <>
struct Abi<float> {
  static constexpr auto images = gnograd_cuda_neighbor_list_images_f32;
  static constexpr auto images_bytes = gnograd_cuda_neighbor_list_images_workspace_bytes_f32;
  static constexpr auto place = gnograd_cuda_neighbor_list_place_f32;
  static constexpr auto place_bytes = gnograd_cuda_neighbor_list_place_workspace_bytes_f32;
  static constexpr auto count = gnograd_cuda_neighbor_list_count_f32;
  static constexpr auto count_bytes = gnograd_cuda_neighbor_list_count_workspace_bytes_f32;
  static constexpr auto fill = gnograd_cuda_neighbor_list_fill_f32;
  static constexpr auto fill_bytes = gnograd_cuda_neighbor_list_fill_workspace_bytes_f32;
};
template <>
struct Abi<double> {
  static constexpr auto images = gnograd_cuda_neighbor_list_images_f64;
  static constexpr auto images_bytes = gnograd_cuda_neighbor_list_images_workspace_bytes_f64;
  static constexpr auto place = gnograd_cuda_neighbor_list_place_f64;
  static constexpr auto place_bytes = gnograd_cuda_neighbor_list_place_workspace_bytes_f64;
  static constexpr auto count = gnograd_cuda_neighbor_list_count_f64;
  static constexpr auto count_bytes = gnograd_cuda_neighbor_list_count_workspace_bytes_f64;
  static constexpr auto fill = gnograd_cuda_neighbor_list_fill_f64;
  static constexpr auto fill_bytes = gnograd_cuda_neighbor_list_fill_workspace_bytes_f64;
};

// In two dimensions, a cell (a, 0), (b, c) whose second vector may be open.
struct Cell {
  double a, b, c;
  bool both = true;

  std::vector<double> lattice(double radius) const {
    const double second = both ? 1 : 0;
    const double x = 1 / a, y = both ? -b / (a * c) : 0;
    const double height = std::hypot(x, y), other = second / c;
    return {a,         0, second * b, second * c, x, 0, y, other, radius * height, radius * other,
            1e-9 * (1 + radius * std::max(height, other))};
  }
};

// j, both numbers of the shift, distance and vector, in this order.
using Edge = std::array<double, 6>;

template <class T>
std::vector<std::vector<Edge>> all_images(const std::vector<T>& points, const Cell& cell,
                                          double radius, bool full) {
  const int64_t n = int64_t(points.size()) / 2, most = 40;
  std::vector<std::vector<Edge>> rows(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t s = -most; s <= most; ++s)
        for (int64_t t = cell.both ? -most : 0; t <= (cell.both ? most : 0); ++t) {
          volatile double between = double(points[2 * j]) - double(points[2 * i]);
          volatile double first = double(s) * cell.a, second = double(t) * cell.b;
          volatile double moved = first + second;
          const double x = between + moved;
          between = double(points[2 * j + 1]) - double(points[2 * i + 1]);
          moved = double(t) * cell.c;
          const double y = between + moved;
          volatile double xx = x * x, yy = y * y;
          const double squares = xx + yy;
          const bool ahead = s > 0 || (s == 0 && t > 0), own = i == j;
          const bool counts = full ? !(own && s == 0 && t == 0) : i < j || (own && ahead);
          if (squares <= radius * radius && counts)
            rows[i].push_back({double(j), double(s), double(t), std::sqrt(squares), x, y});
        }
  return rows;
}

template <class T>
void test(const std::string& name, const std::vector<double>& coordinates, const Cell& cell,
          double radius, bool full) {
  const std::vector<T> given(coordinates.begin(), coordinates.end());
  const int64_t n = int64_t(given.size()) / 2;
  Device<T> points(given);
  Device<double> lattice(cell.lattice(radius));
  const auto sizes = [&](int64_t n_images) {
    return std::tuple(n, int64_t(2), n_images, radius, int(full));
  };
  Device<int64_t> starts(n + 1), exponent(1);
  Device<int32_t> base(2 * n);
  run_entry(Abi<T>::images, Abi<T>::images_bytes, sizes(0), points.get(), lattice.get(),
            starts.get(), base.get(), exponent.get());
  const int64_t n_images = starts.host().back();
  Device<double> inside(2 * n), copies(2 * n_images);
  Device<int32_t> point(n_images), shift(2 * n_images);
  run_entry(Abi<T>::place, Abi<T>::place_bytes, sizes(n_images), points.get(), lattice.get(),
            starts.get(), base.get(), inside.get(), copies.get(), point.get(), shift.get());

  // all images are candidates of every point; those far away are no edges
  std::vector<int64_t> candidate_offsets;
  std::vector<int32_t> candidates;
  for (int64_t i = 0; i <= n; ++i) candidate_offsets.push_back(i * n_images);
  for (int64_t i = 0; i < n; ++i)
    for (int32_t k = 0; k < n_images; ++k) candidates.push_back(k);
  Device<int64_t> near_offsets(candidate_offsets), offsets(n + 1);
  Device<int32_t> near(candidates);
  run_entry(Abi<T>::count, Abi<T>::count_bytes, sizes(n_images), points.get(), lattice.get(),
            base.get(), point.get(), shift.get(), near_offsets.get(), near.get(), offsets.get());
  const int64_t n_edges = offsets.host().back();
  Device<int32_t> indices(n_edges), shifts(2 * n_edges);
  Device<double> distances(n_edges), vectors(2 * n_edges);
  run_entry(Abi<T>::fill, Abi<T>::fill_bytes, sizes(n_images), points.get(), lattice.get(),
            base.get(), point.get(), shift.get(), near_offsets.get(), near.get(), offsets.get(),
            indices.get(), shifts.get(), distances.get(), vectors.get());

  std::vector<int64_t> want_offsets{0};
  std::vector<Edge> want, found;
  for (const auto& row : all_images(given, cell, radius, full)) {
    want.insert(want.end(), row.begin(), row.end());
    want_offsets.push_back(int64_t(want.size()));
  }
  const auto j = indices.host(), s = shifts.host();
  const auto d = distances.host(), v = vectors.host();
  for (int64_t e = 0; e < n_edges; ++e)
    found.push_back({double(j[e]), double(s[2 * e]), double(s[2 * e + 1]), d[e], v[2 * e],
                     v[2 * e + 1]});
  check(offsets.host() == want_offsets, std::string(Type<T>::name) + " offsets, " + name);
  check(found == want, std::string(Type<T>::name) + " edges, " + name);
  // an image is where its shift says
  const auto where = copies.host(), in = inside.host();
  const auto of = point.host(), by = shift.host();
  double error = 0;
  for (int64_t k = 0; k < n_images; ++k)
    error = std::max(error, std::abs(where[2 * k] - (double(given[2 * of[k]]) + by[2 * k] * cell.a +
                                                     (cell.both ? by[2 * k + 1] * cell.b : 0))));
  check(error < 1e-12 * std::ldexp(1, int(exponent.host()[0])), "images, " + name);
}

template <class T>
int64_t exponent_of(const std::vector<T>& given) {
  const Cell cell{1, 0, 1};
  Device<T> points(given);
  Device<double> lattice(cell.lattice(1));
  const int64_t n = int64_t(given.size()) / 2;
  Device<int64_t> starts(n + 1), exponent(1);
  Device<int32_t> base(2 * n);
  run_entry(Abi<T>::images, Abi<T>::images_bytes, std::tuple(n, int64_t(2), int64_t(0), 1.0, 1),
            points.get(), lattice.get(), starts.get(), base.get(), exponent.get());
  return exponent.host()[0];
}

template <class T>
void test_type() {
  std::mt19937 generator(5);
  const auto draw = [&](int64_t n) {
    std::vector<double> x(2 * n);
    for (double& v : x) v = double(int(generator() % 33) - 16) / 8;
    return x;
  };
  for (const bool full : {true, false}) {
    const std::string name = full ? "full" : "half";
    test<T>("sheared, " + name, draw(9), {1, 0.5, 1.25}, 0.75, full);
    test<T>("very sheared, " + name, draw(6), {1, 3.5, 1}, 1, full);
    test<T>("wider than the cell, " + name, draw(5), {1, -0.5, 0.75}, 2.5, full);
    test<T>("one vector, " + name, draw(9), {0.5, 0.5, 1, false}, 1, full);
    test<T>("no radius, " + name, draw(30), {1, 0.25, 1}, 0, full);
    test<T>("one point, " + name, draw(1), {1, 0.5, 1}, 1.5, full);
    test<T>("no points, " + name, {}, {1, 0.5, 1}, 1, full);
  }
  const int64_t not_finite = int64_t(1) << 62;
  check(exponent_of<T>({0, 0, NAN, 0}) == not_finite, "a point that is not finite");
  check(exponent_of<T>({0, 0, 0, T(1e10)}) == not_finite - 1, "a point too far away");
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  const auto refused = [](int64_t d, double radius) {
    return gnograd_cuda_neighbor_list_images_f32(1, d, 0, radius, 1, nullptr, nullptr, nullptr,
                                                 nullptr, nullptr, nullptr, 0,
                                                 nullptr) == GNOGRAD_CUDA_VALUE;
  };
  check(refused(0, 1) && refused(4, 1) && refused(2, -1) && refused(2, NAN), "axes and lengths");
  return report();
}

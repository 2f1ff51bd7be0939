// SPDX-License-Identifier: MIT
// Nearest neighbours, against all distances.
#include "neighbor_cases.h"

namespace {

template <class T>
struct Abi;
template <>
struct Abi<float> {
  static constexpr auto find = gnograd_cuda_nearest_neighbors_find_f32;
  static constexpr auto find_bytes = gnograd_cuda_nearest_neighbors_find_workspace_bytes_f32;
  static constexpr auto fill = gnograd_cuda_nearest_neighbors_fill_f32;
  static constexpr auto fill_bytes = gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f32;
};
template <>
struct Abi<double> {
  static constexpr auto find = gnograd_cuda_nearest_neighbors_find_f64;
  static constexpr auto find_bytes = gnograd_cuda_nearest_neighbors_find_workspace_bytes_f64;
  static constexpr auto fill = gnograd_cuda_nearest_neighbors_fill_f64;
  static constexpr auto fill_bytes = gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f64;
};

// Results of the kernels: offsets, and indices unless these say that a point is not finite.
template <class T>
std::pair<std::vector<int64_t>, std::vector<int32_t>> search(const Case& c, int64_t k,
                                                             bool ascending) {
  const std::vector<T> sources(c.sources.begin(), c.sources.end());
  const std::vector<T> destinations(c.destinations.begin(), c.destinations.end());
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  const bool batch = !c.source_items.empty();
  const std::tuple sizes(n, m, c.d, batch ? int64_t(c.source_items.size()) - 1 : int64_t(1), k,
                         c.radius, c.period[0], c.period[1], c.period[2], int(c.exclude_self),
                         int(ascending));
  Device<T> x(sources), y(destinations);
  Device<int64_t> source_items(c.source_items), destination_items(c.destination_items);
  Device<int32_t> found(m * k);
  Device<int64_t> offsets(m + 1);
  const bool same = c.destinations == c.sources;  // one array then
  run_entry(Abi<T>::find, Abi<T>::find_bytes, sizes, x.get(), same ? x.get() : y.get(),
            batch ? source_items.get() : nullptr, batch ? destination_items.get() : nullptr,
            found.get(), offsets.get());
  const int64_t n_edges = offsets.host().back();
  Device<int32_t> indices(std::max<int64_t>(n_edges, 0));
  if (n_edges >= 0)
    run_entry(Abi<T>::fill, Abi<T>::fill_bytes, sizes, found.get(), offsets.get(), indices.get());
  return {offsets.host(), indices.host()};
}

// A search takes a tenth of a second under the host's fibers: few numbers stand for all.
template <class T>
void test(const std::string& name, const Case& c, const std::vector<int64_t>& numbers = {5, 33}) {
  const auto squares = all_squares(c, as_stored<T>(c.sources), as_stored<T>(c.destinations));
  for (const int64_t k : numbers)
    for (const bool ascending : {false, true}) {
      if (numbers.size() == 2 && ascending != (k == numbers.back())) continue;
      std::vector<int64_t> want_offsets{0};
      std::vector<int32_t> want;
      for (const auto& row : squares) {
        std::vector<std::pair<double, int32_t>> near;
        for (size_t j = 0; j < row.size(); ++j)
          if (row[j] <= c.radius * c.radius) near.emplace_back(row[j], int32_t(j));
        std::sort(near.begin(), near.end());
        near.resize(std::min(near.size(), size_t(k)));
        for (const auto& pair : near) want.push_back(pair.second);
        if (ascending) std::sort(want.begin() + want_offsets.back(), want.end());
        want_offsets.push_back(int64_t(want.size()));
      }
      const auto [offsets, indices] = search<T>(c, k, ascending);
      const std::string which = name + ", " + std::to_string(k) + " nearest";
      check(offsets == want_offsets, std::string(Type<T>::name) + " offsets, " + which);
      check(indices == want, std::string(Type<T>::name) + " indices, " + which);
    }
}

template <class T>
void test_type() {
  for (int64_t d = 1; d <= 3; ++d) {
    const std::string name = std::to_string(d) + " axes";
    const Case base{d, INFINITY, uniform(150, d, -1, 1), uniform(70, d, -1, 1)};
    test<T>(name, base, {0, 1, 32, 33, 150});
    Case c = base;
    c.period = {0.9, 0, 1.3};
    test<T>(name + ", partly periodic", c);
    c = {d, INFINITY, on_lattice(150, d), on_lattice(70, d)};
    test<T>(name + ", equal distances", c);
    if (d != 2) continue;
    c.period = {1, 1, 1};
    test<T>(name + ", images at equal distances", c);
    c.radius = 0.25;
    test<T>(name + ", images at the radius", c);
    c = base;
    c.radius = 0.3;
    test<T>(name + ", within a radius", c);
    c = {d, INFINITY, uniform(50, d, 1e5, 1e5 + 0.01), uniform(50, d, 1e5, 1e5 + 0.01)};
    test<T>(name + ", far from the origin", c);
  }
  Case c{2, INFINITY, uniform(90, 2), {}};
  c.destinations = c.sources;
  c.exclude_self = true;
  test<T>("without self", c);
  c.source_items = {0, 0, 31, 32, 90}, c.destination_items = c.source_items;
  test<T>("a batch without self", c);
  c.exclude_self = false;
  c.destination_items = {0, 20, 20, 55, 90};
  test<T>("a batch", c);
  c.period = {1, 1, 0};
  test<T>("a periodic batch", c);

  c = {3, 0.0, on_lattice(60, 3), on_lattice(60, 3)};
  test<T>("no radius", c);
  c = {3, INFINITY, std::vector<double>(180, 0.5), std::vector<double>(30, 0.5)};
  test<T>("one place", c);
  c = {2, INFINITY, uniform(80, 2), uniform(80, 2)};
  c.sources[7] = 1e30, c.sources[20] = -1e30, c.destinations[3] = 1e35, c.destinations[4] = -1e30;
  test<T>("points far outside", c);
  test<T>("no points", {2, 1.0, {}, {}}, {0});
  test<T>("no sources", {2, 1.0, {}, uniform(5, 2)}, {0, 3});
  test<T>("no destinations", {2, 1.0, uniform(5, 2), {}});

  for (const double bad : {double(NAN), double(INFINITY)}) {
    c = {2, INFINITY, uniform(300, 2), uniform(70, 2)};
    c.destinations[139] = bad;
    check(search<T>(c, 3, false).first.back() == -2, "a destination that is not finite");
    c.period = {1, 1, 1};
    c.sources[0] = bad;
    check(search<T>(c, 3, false).first.back() == -1, "a source that is not finite");
  }
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  // three levels of boxes, and more than the chunks of one pass of sorting hold
  test<float>("many points", {2, INFINITY, uniform(9000, 2), uniform(40, 2)}, {8});
  test<double>("many points", {3, INFINITY, uniform(3000, 3), uniform(40, 3)}, {40});
  Case layers{2, INFINITY, uniform(3000, 2), uniform(60, 2)};
  for (size_t k = 1; k < layers.sources.size(); k += 2) layers.sources[k] *= 1e-6;
  layers.source_items = {0, 1000, 1010, 3000}, layers.destination_items = {0, 20, 40, 60};
  test<double>("a batch of layers", layers, {16});
  const auto refused = [](int64_t d, double radius, double period) {
    return gnograd_cuda_nearest_neighbors_find_f32(1, 1, d, 1, 1, radius, period, 0, 0, 0, 0, nullptr,
                                                   nullptr, nullptr, nullptr, nullptr, nullptr,
                                                   nullptr, 0, nullptr) == GNOGRAD_CUDA_VALUE;
  };
  check(refused(0, 1, 0) && refused(4, 1, 0) && refused(2, -1, 0) && refused(2, 1, -1),
        "axes and lengths");
  return report();
}

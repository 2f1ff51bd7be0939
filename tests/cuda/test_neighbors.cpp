// SPDX-License-Identifier: MIT
// Neighbours within a radius, against all distances.
#include <cfloat>

#include "support.h"

namespace {

struct Case {
  int64_t d;
  double radius;
  std::vector<double> sources, destinations;  // [n, d]
  std::vector<double> period = {0, 0, 0};
  std::vector<int64_t> source_items = {}, destination_items = {};
  bool exclude_self = false;
  int64_t n_buckets = 0;  // 0: as many as sources
};

double image(double x, double period) {
  if (!(period > 0)) return x;
  x = std::fmod(x, period);
  if (x < 0) x += period;
  return x > 0 && x < period ? x : 0;
}

double difference(double x, double y, double period) {
  volatile double offset = image(x, period) - image(y, period);  // not fused with what follows
  if (offset < -0.5 * period) offset = period + offset;
  else if (offset > 0.5 * period) offset = offset - period;
  return offset;
}

std::vector<std::vector<int32_t>> all_pairs(const Case& c, const std::vector<double>& sources,
                                            const std::vector<double>& destinations) {
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  const auto item = [](const std::vector<int64_t>& items, int64_t i) {
    return std::upper_bound(items.begin(), items.end(), i) - items.begin();
  };
  std::vector<std::vector<int32_t>> rows(m);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      volatile double squares = 0;
      for (int64_t a = 0; a < c.d; ++a) {
        const double offset =
            difference(destinations[i * c.d + a], sources[j * c.d + a], c.period[a]);
        volatile double square = offset * offset;
        squares = squares + square;
      }
      if (squares <= c.radius * c.radius && !(c.exclude_self && i == j) &&
          item(c.source_items, j) == item(c.destination_items, i))
        rows[i].push_back(int32_t(j));
    }
  return rows;
}

template <class T>
struct Abi;
template <>
struct Abi<float> {
  static constexpr auto count = gnograd_cuda_neighbors_count_f32;
  static constexpr auto count_bytes = gnograd_cuda_neighbors_count_workspace_bytes_f32;
  static constexpr auto fill = gnograd_cuda_neighbors_fill_f32;
  static constexpr auto fill_bytes = gnograd_cuda_neighbors_fill_workspace_bytes_f32;
};
template <>
struct Abi<double> {
  static constexpr auto count = gnograd_cuda_neighbors_count_f64;
  static constexpr auto count_bytes = gnograd_cuda_neighbors_count_workspace_bytes_f64;
  static constexpr auto fill = gnograd_cuda_neighbors_fill_f64;
  static constexpr auto fill_bytes = gnograd_cuda_neighbors_fill_workspace_bytes_f64;
};

// What the kernels find: offsets, and indices unless these say that a point is not finite.
template <class T>
std::pair<std::vector<int64_t>, std::vector<int32_t>> search(const Case& c) {
  const std::vector<T> sources(c.sources.begin(), c.sources.end());
  const std::vector<T> destinations(c.destinations.begin(), c.destinations.end());
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  int64_t n_buckets = c.n_buckets ? c.n_buckets : 4;
  while (!c.n_buckets && n_buckets < n) n_buckets *= 2;
  const bool batch = !c.source_items.empty();
  const std::tuple sizes(n, m, c.d, batch ? int64_t(c.source_items.size()) - 1 : int64_t(1),
                         n_buckets, c.radius, c.period[0], c.period[1], c.period[2],
                         int(c.exclude_self));

  Device<T> x(sources), y(destinations);
  Device<int64_t> source_items(c.source_items), destination_items(c.destination_items);
  Device<double> positions(n * c.d), grid(2);
  Device<int32_t> order(n), starts(n_buckets + 1);
  Device<int64_t> offsets(m + 1);
  const int64_t* items[] = {batch ? source_items.get() : nullptr,
                            batch ? destination_items.get() : nullptr};
  run_entry(Abi<T>::count, Abi<T>::count_bytes, sizes, x.get(), y.get(), items[0], items[1],
            positions.get(), order.get(), starts.get(), grid.get(), offsets.get());
  const auto found = offsets.host();
  Device<int32_t> indices(std::max<int64_t>(found.back(), 0));
  if (found.back() >= 0)
    run_entry(Abi<T>::fill, Abi<T>::fill_bytes, sizes, y.get(), items[0], items[1], positions.get(),
              order.get(), starts.get(), grid.get(), offsets.get(), indices.get());
  return {found, indices.host()};
}

template <class T>
void test(const std::string& name, const Case& c) {
  const auto [offsets, indices] = search<T>(c);
  const auto as_stored = [](const std::vector<double>& x) {
    std::vector<double> y;
    for (const double v : x) y.push_back(double(T(v)));
    return y;
  };
  std::vector<int64_t> want_offsets{0};
  std::vector<int32_t> want;
  for (const auto& row : all_pairs(c, as_stored(c.sources), as_stored(c.destinations))) {
    want.insert(want.end(), row.begin(), row.end());
    want_offsets.push_back(int64_t(want.size()));
  }
  check(offsets == want_offsets, std::string(Type<T>::name) + " offsets, " + name);
  check(indices == want, std::string(Type<T>::name) + " indices, " + name);
}

std::mt19937 generator(9);
std::vector<double> uniform(int64_t n, int64_t d, double low = 0, double high = 1) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> x(n * d);
  for (double& v : x) v = draw(generator);
  return x;
}
// Multiples of an eighth: many distances are the radius itself.
std::vector<double> on_lattice(int64_t n, int64_t d) {
  std::vector<double> x(n * d);
  for (double& v : x) v = double(int(generator() % 17) - 8) / 8;
  return x;
}

template <class T>
void test_type() {
  for (int64_t d = 1; d <= 3; ++d) {
    const std::string name = std::to_string(d) + " axes";
    const Case base{d, 0.3, uniform(150, d, -1, 1), uniform(70, d, -1, 1)};
    test<T>(name, base);
    Case c = base;
    c.n_buckets = 4;
    test<T>(name + ", four buckets", c);
    c = base;
    c.period = {0.9, 0, 1.3};
    test<T>(name + ", partly periodic", c);
    c.period = {1, 1, 1};
    test<T>(name + ", periodic", c);
    for (const double radius : {0.4, 0.7, 3.0}) {
      c.radius = radius;
      test<T>(name + ", few cells around the box", c);
    }
    c = {d, 0.25, on_lattice(150, d), on_lattice(70, d)};
    test<T>(name + ", points at the radius", c);
    c.period = {1, 1, 1};
    test<T>(name + ", images at the radius", c);
    c = {d, 1e-3, uniform(50, d, 1e5, 1e5 + 0.01), uniform(50, d, 1e5, 1e5 + 0.01)};
    test<T>(name + ", far from the origin", c);
  }

  Case c{2, 0.2, uniform(90, 2), uniform(90, 2)};
  c.destinations = c.sources;
  c.exclude_self = true;
  test<T>("without self", c);
  c.exclude_self = false;
  c.source_items = {0, 0, 31, 32, 90}, c.destination_items = {0, 20, 20, 55, 90};
  test<T>("a batch", c);
  c.period = {1, 1, 0};
  test<T>("a periodic batch", c);

  c = {3, 0.0, on_lattice(60, 3), on_lattice(60, 3)};
  test<T>("no radius", c);
  c.sources.assign(180, 0.0);
  c.destinations.assign(30, 0.0);
  test<T>("one place", c);
  test<T>("all pairs", {3, INFINITY, uniform(70, 3), uniform(40, 3)});
  c = {2, 0.1, uniform(80, 2), uniform(80, 2)};
  c.sources[7] = 1e30, c.sources[20] = -1e30, c.destinations[3] = 1e35, c.destinations[4] = -1e30;
  test<T>("points far outside", c);
  test<T>("tiny radius", {2, 1e-300, uniform(40, 2), uniform(40, 2)});
  c = {1, 1.0, {0, DBL_MIN, 5, 1 + DBL_EPSILON}, {0, 1, 6, 4}};
  test<T>("rounding at the radius", c);

  test<T>("no points", {2, 1.0, {}, {}});
  test<T>("no sources", {2, 1.0, {}, uniform(5, 2)});
  test<T>("no destinations", {2, 1.0, uniform(5, 2), {}});

  for (const double bad : {double(NAN), double(INFINITY)}) {
    c = {2, 0.2, uniform(300, 2), uniform(300, 2)};
    c.destinations[599] = bad;
    check(search<T>(c).first.back() == -2, "a destination that is not finite");
    c.period = {1, 1, 1};
    c.sources[0] = bad;
    check(search<T>(c).first.back() == -1, "a source that is not finite");
  }
}

// More points than the chunks of one pass, of one scan, and of one part hold.
void test_many() {
  Case c{2, 0.02, uniform(9000, 2), uniform(5000, 2)};
  test<float>("many points", c);
  c.sources = uniform(2500, 2, 0, 1e-3);
  c.destinations = uniform(3, 2, 0, 1e-3);
  test<double>("many neighbors", c);
}

}  // namespace

int main() {
  require_device();
  test_type<float>();
  test_type<double>();
  test_many();
  const auto refused = [](int64_t d, int64_t n_buckets, double radius, double period) {
    return gnograd_cuda_neighbors_count_f32(1, 1, d, 1, n_buckets, radius, period, 0, 0, 0, nullptr,
                                            nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                            nullptr, nullptr, nullptr, 0,
                                            nullptr) == GNOGRAD_CUDA_VALUE;
  };
  check(refused(0, 4, 1, 0) && refused(4, 4, 1, 0), "one to three axes");
  check(refused(2, 2, 1, 0) && refused(2, 6, 1, 0), "buckets are a power of two");
  check(refused(2, 4, -1, 0) && refused(2, 4, NAN, 0) && refused(2, 4, 1, -1) &&
            refused(2, 4, 1, INFINITY),
        "lengths");
  return report();
}

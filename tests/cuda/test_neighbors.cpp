// SPDX-License-Identifier: MIT
// Neighbours within a radius, against all distances.
#include "neighbor_cases.h"

namespace {

// SplitMix64 of a seed and two numbers, one after the other.
uint64_t random_key(uint64_t seed, uint64_t i, uint64_t j) {
  for (const uint64_t number : {i, j}) {
    uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    seed = z ^ z >> 31;
  }
  return seed;
}

template <class T>
struct Abi;
template <>
struct Abi<float> {
  static constexpr auto count = gnograd_cuda_neighbors_count_f32;
  static constexpr auto count_bytes = gnograd_cuda_neighbors_count_workspace_bytes_f32;
  static constexpr auto fill = gnograd_cuda_neighbors_fill_f32;
  static constexpr auto fill_bytes = gnograd_cuda_neighbors_fill_workspace_bytes_f32;
  static constexpr auto count_nearer = gnograd_cuda_nearer_neighbors_count_f32;
  static constexpr auto count_nearer_bytes =
      gnograd_cuda_nearer_neighbors_count_workspace_bytes_f32;
  static constexpr auto fill_nearer = gnograd_cuda_nearer_neighbors_fill_f32;
  static constexpr auto fill_nearer_bytes = gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f32;
};
template <>
struct Abi<double> {
  static constexpr auto count = gnograd_cuda_neighbors_count_f64;
  static constexpr auto count_bytes = gnograd_cuda_neighbors_count_workspace_bytes_f64;
  static constexpr auto fill = gnograd_cuda_neighbors_fill_f64;
  static constexpr auto fill_bytes = gnograd_cuda_neighbors_fill_workspace_bytes_f64;
  static constexpr auto count_nearer = gnograd_cuda_nearer_neighbors_count_f64;
  static constexpr auto count_nearer_bytes =
      gnograd_cuda_nearer_neighbors_count_workspace_bytes_f64;
  static constexpr auto fill_nearer = gnograd_cuda_nearer_neighbors_fill_f64;
  static constexpr auto fill_nearer_bytes = gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f64;
};

constexpr int64_t seed = -5;

// Results of the kernels: offsets, and indices unless these say that a point is not finite. There
// is room for so many of a row until they are written.
template <class T>
std::pair<std::vector<int64_t>, std::vector<int32_t>> search(const Case& c,
                                                             int64_t room,
                                                             int64_t max_neighbors = INT32_MAX) {
  const std::vector<T> sources(c.sources.begin(), c.sources.end());
  const std::vector<T> destinations(c.destinations.begin(), c.destinations.end());
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  int64_t n_buckets = c.n_buckets ? c.n_buckets : 4;
  while (!c.n_buckets && n_buckets < n) n_buckets *= 2;
  const bool batch = !c.source_items.empty();
  const std::tuple sizes(n, m, c.d, batch ? int64_t(c.source_items.size()) - 1 : int64_t(1),
                         n_buckets, c.radius, c.period[0], c.period[1], c.period[2],
                         int(c.exclude_self), std::min(n, max_neighbors), seed, room);

  Device<T> x(sources), y(destinations);
  Device<int64_t> source_items(c.source_items), destination_items(c.destination_items);
  Device<double> positions(n * c.d), grid(2);
  Device<int32_t> order(n), starts(n_buckets + 1), kept(m * room);
  Device<int64_t> offsets(m + 1);
  const int64_t* items[] = {batch ? source_items.get() : nullptr,
                            batch ? destination_items.get() : nullptr};
  run_entry(Abi<T>::count, Abi<T>::count_bytes, sizes, x.get(), y.get(), items[0], items[1],
            positions.get(), order.get(), starts.get(), grid.get(), kept.get(), offsets.get());
  const auto found = offsets.host();
  Device<int32_t> indices(std::max<int64_t>(found.back(), 0));
  if (found.back() >= 0)
    run_entry(Abi<T>::fill, Abi<T>::fill_bytes, sizes, y.get(), items[0], items[1], positions.get(),
              order.get(), starts.get(), grid.get(), kept.get(), offsets.get(), indices.get());
  return {found, indices.host()};
}

template <class T>
void check_rows(const std::string& name, const std::vector<std::vector<int32_t>>& rows,
                const std::vector<int64_t>& offsets, const std::vector<int32_t>& indices) {
  std::vector<int64_t> want_offsets{0};
  std::vector<int32_t> want;
  for (const auto& row : rows) {
    want.insert(want.end(), row.begin(), row.end());
    want_offsets.push_back(int64_t(want.size()));
  }
  check(offsets == want_offsets, std::string(Type<T>::name) + " offsets, " + name);
  check(indices == want, std::string(Type<T>::name) + " indices, " + name);
}

std::vector<std::vector<int32_t>> within(const std::vector<std::vector<double>>& squares,
                                         double radius) {
  std::vector<std::vector<int32_t>> rows(squares.size());
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < squares[i].size(); ++j)
      if (squares[i][j] <= radius * radius) rows[i].push_back(int32_t(j));
  return rows;
}

// Neighbours within half the radius, among those found.
template <class T>
void test_nearer(const std::string& name, const Case& c,
                 const std::vector<std::vector<double>>& squares,
                 const std::vector<int64_t>& given_offsets, const std::vector<int32_t>& given) {
  const std::vector<T> sources(c.sources.begin(), c.sources.end());
  const std::vector<T> destinations(c.destinations.begin(), c.destinations.end());
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  const std::tuple sizes(n, m, c.d, 0.5 * c.radius, c.period[0], c.period[1], c.period[2]);
  Device<T> x(sources), y(destinations);
  Device<int64_t> offsets(given_offsets), kept_offsets(m + 1);
  Device<int32_t> indices(given), marks(given.size() / 32 + m);
  run_entry(Abi<T>::count_nearer, Abi<T>::count_nearer_bytes, sizes, x.get(), y.get(),
            offsets.get(), indices.get(), kept_offsets.get(), marks.get());
  Device<int32_t> kept(kept_offsets.host().back());
  run_entry(Abi<T>::fill_nearer, Abi<T>::fill_nearer_bytes, sizes, offsets.get(), indices.get(),
            kept_offsets.get(), marks.get(), kept.get());
  check_rows<T>(name, within(squares, 0.5 * c.radius), kept_offsets.host(), kept.host());
}

template <class T>
void test(const std::string& name, const Case& c) {
  const auto squares = all_squares(c, as_stored<T>(c.sources), as_stored<T>(c.destinations));
  const auto rows = within(squares, c.radius);
  const auto [again_offsets, again] = search<T>(c, 5);
  check_rows<T>(name + ", room for 5", rows, again_offsets, again);
  const auto [offsets, indices] = search<T>(c, 64);
  check_rows<T>(name, rows, offsets, indices);
  test_nearer<T>(name + ", half the radius", c, squares, offsets, indices);

  for (const auto& [most, room] : {std::pair<int64_t, int64_t>(0, 0), {2, 1}, {40, 40}}) {
    auto chosen = rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      auto& row = chosen[i];
      std::sort(row.begin(), row.end(), [&](int32_t j, int32_t k) {
        const auto s = uint64_t(seed);
        return random_key(s, i, uint64_t(j)) < random_key(s, i, uint64_t(k));
      });
      row.resize(std::min(row.size(), size_t(most)));
      std::sort(row.begin(), row.end());
    }
    const auto [some_offsets, some] = search<T>(c, room, most);
    const auto limits = std::to_string(most) + " at most, room for " + std::to_string(room);
    check_rows<T>(name + ", " + limits, chosen, some_offsets, some);
  }
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
    check(search<T>(c, 64).first.back() == -2, "a destination that is not finite");
    c.period = {1, 1, 1};
    c.sources[0] = bad;
    check(search<T>(c, 64).first.back() == -1, "a source that is not finite");
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
  const auto refused = [](int64_t d, int64_t n_buckets, double radius, double period,
                          int64_t room = 1) {
    return gnograd_cuda_neighbors_count_f32(1, 1, d, 1, n_buckets, radius, period, 0, 0, 0, 1, 0,
                                            room, nullptr, nullptr, nullptr, nullptr, nullptr,
                                            nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0,
                                            nullptr) == GNOGRAD_CUDA_VALUE;
  };
  check(refused(2, 4, 1, 0, -1), "room is not negative");
  check(refused(0, 4, 1, 0) && refused(4, 4, 1, 0), "one to three axes");
  check(refused(2, 2, 1, 0) && refused(2, 6, 1, 0), "buckets are a power of two");
  check(refused(2, 4, -1, 0) && refused(2, 4, NAN, 0) && refused(2, 4, 1, -1) &&
            refused(2, 4, 1, INFINITY),
        "lengths");
  return report();
}

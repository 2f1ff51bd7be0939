// SPDX-License-Identifier: MIT
// Points, and all distances between them.
#pragma once
#include <cfloat>

#include "support.h"

struct Case {
  int64_t d;
  double radius;
  std::vector<double> sources, destinations;  // [n, d]
  std::vector<double> period = {0, 0, 0};
  std::vector<int64_t> source_items = {}, destination_items = {};
  bool exclude_self = false;
  int64_t n_buckets = 0;  // 0: as many as sources
};

inline double image(double x, double period) {
  if (!(period > 0)) return x;
  x = std::fmod(x, period);
  if (x < 0) x += period;
  return x > 0 && x < period ? x : 0;
}

inline double difference(double x, double y, double period) {
  volatile double offset = image(x, period) - image(y, period);  // not fused with what follows
  if (offset < -0.5 * period) offset = period + offset;
  else if (offset > 0.5 * period) offset = offset - period;
  return offset;
}

// Squared distances that count, by destination and source; NaN where points are of different
// items, or the same one.
inline std::vector<std::vector<double>> all_squares(const Case& c,
                                                    const std::vector<double>& sources,
                                                    const std::vector<double>& destinations) {
  const int64_t n = int64_t(sources.size()) / c.d, m = int64_t(destinations.size()) / c.d;
  const auto item = [](const std::vector<int64_t>& items, int64_t i) {
    return std::upper_bound(items.begin(), items.end(), i) - items.begin();
  };
  std::vector<std::vector<double>> rows(m, std::vector<double>(n, NAN));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      volatile double squares = 0;
      for (int64_t a = 0; a < c.d; ++a) {
        const double offset =
            difference(destinations[i * c.d + a], sources[j * c.d + a], c.period[a]);
        volatile double square = offset * offset;
        squares = squares + square;
      }
      if (!(c.exclude_self && i == j) &&
          item(c.source_items, j) == item(c.destination_items, i))
        rows[i][j] = squares;
    }
  return rows;
}

template <class T>
std::vector<double> as_stored(const std::vector<double>& x) {
  std::vector<double> y;
  for (const double v : x) y.push_back(double(T(v)));
  return y;
}

inline std::mt19937 generator(9);
inline std::vector<double> uniform(int64_t n, int64_t d, double low = 0, double high = 1) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> x(n * d);
  for (double& v : x) v = draw(generator);
  return x;
}
// Multiples of an eighth: many distances are the radius itself.
inline std::vector<double> on_lattice(int64_t n, int64_t d) {
  std::vector<double> x(n * d);
  for (double& v : x) v = double(int(generator() % 17) - 8) / 8;
  return x;
}

// SPDX-License-Identifier: MIT
// Sizes for the tests of the GNO operators with one layer on edges.
#pragma once
#include "activations.h"
#include "laws.h"

enum { sum, mean };
enum { full, diagonal };

struct Sizes {
  int64_t d, n_hidden, f_in, f_out;
  std::string name() const {
    return std::to_string(d) + "-" + std::to_string(n_hidden) + "-" + std::to_string(f_in) + "x" +
           std::to_string(f_out);
  }
  // Power of 2 near 1/sqrt(n_hidden), for sums over hidden features that are about 1.
  double layer() const { return std::exp2(-std::round(std::log2(n_hidden) / 2)); }
};

// A destination and a source with most of the edges: their rows are cut into more pieces than are
// joined at once.
inline HostGraph hub() {
  auto random = std::make_shared<std::mt19937>(6);
  return make_graph(
      "hub", 9, 9, true, [](int64_t i) { return i == 4 ? 1300 : 3 * (i % 3); },
      [=](int64_t) { return (*random)() % 8 ? 5 : int64_t((*random)() % 9); });
}

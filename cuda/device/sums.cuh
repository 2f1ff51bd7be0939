// SPDX-License-Identifier: MIT
// Sums over all rows of a matrix, for the gradients of weights: 64 rows become one, again and
// again. The order is fixed, and rounding grows with the logarithm of the number of rows.
#pragma once
#include "numbers.cuh"
#include "workspace.cuh"

namespace gnograd {

constexpr int64_t folded = 64;

// A matrix of S as it is.
template <class S>
struct PlainMatrix {
  const S* x;  // [n_rows, n_columns]
  int64_t n_columns;
  __device__ S operator()(int64_t row, int64_t column) const { return x[row * n_columns + column]; }
};

// coefficient[row, head] * x[row, head, :]
template <class T, class S>
struct WeightedMatrix {
  const S* coefficient;  // [n_rows, heads]
  Input<T, S> x;         // [n_rows, heads, size]
  int64_t heads, size;
  __device__ S operator()(int64_t row, int64_t column) const {
    return coefficient[row * heads + column / size] * x[row * heads * size + column];
  }
};

// Destination of sums: they are stored, or added to what is there.
template <class Out, bool added = false>
struct SumsTo {
  Out* out;
  template <class S>
  __device__ void operator()(int64_t i, S sum) const {
    if constexpr (added) out[i] += sum;
    else if constexpr (std::is_same_v<Out, S>) out[i] = sum;
    else out[i] = Out(result(sum));
  }
};

// Thread: 64 rows of a column; neighbours have neighbouring columns. Reads every entry of the
// matrix once, and writes 1/64 of that; bound by memory, or by what an entry takes to compute.
template <class Matrix, class Target>
__global__ void __launch_bounds__(block_threads, 1)  // else ptxas spills some for occupancy
    sum_rows_fold(Matrix matrix, int64_t n_rows, int n_columns, Target target) {
  const auto [block, column] = divided(thread_number(), n_columns);
  const int64_t first = block * folded, last = min(first + folded, n_rows);
  if (block > 0 && first >= n_rows) return;
  auto sum = decltype(matrix(0, 0))(0);
  for (int64_t row = first; row < last; ++row) sum += matrix(row, column);
  target(thread_number(), sum);
}

template <class Matrix, class Target>
void fold_once(const Matrix& matrix, int64_t n_rows, int64_t n_columns, Target target,
               cudaStream_t stream) {
  const int64_t blocks = std::max<int64_t>(1, ceil_div(n_rows, folded));
  launch_threads(blocks * n_columns, stream, sum_rows_fold<Matrix, Target>, matrix, n_rows,
                 int(n_columns), target);
}

// Room for the sums of a matrix of n_rows: two buffers used in turn.
template <class S>
struct FoldSpace {
  S* buffers[2] = {};

  FoldSpace() = default;
  FoldSpace(int64_t n_rows, int64_t n_columns, Workspace& workspace) {
    for (S*& buffer : buffers) {
      n_rows = ceil_div(n_rows, folded);
      buffer = workspace.take<S>(n_rows * n_columns);
    }
  }
};

// target(column, sum over rows of matrix(row, column))
template <class Matrix, class S, class Target>
void sum_rows(const Matrix& matrix, int64_t n_rows, int64_t n_columns, FoldSpace<S> space,
              Target target, cudaStream_t stream) {
  if (n_rows <= folded) return fold_once(matrix, n_rows, n_columns, target, stream);
  fold_once(matrix, n_rows, n_columns, SumsTo<S>{space.buffers[0]}, stream);
  for (int64_t rows = ceil_div(n_rows, folded);; rows = ceil_div(rows, folded)) {
    const PlainMatrix<S> sums{space.buffers[0], n_columns};
    if (rows <= folded) return fold_once(sums, rows, n_columns, target, stream);
    fold_once(sums, rows, n_columns, SumsTo<S>{space.buffers[1]}, stream);
    std::swap(space.buffers[0], space.buffers[1]);
  }
}
// to out
template <class Matrix, class S, class T>
void sum_rows(const Matrix& matrix, int64_t n_rows, int64_t n_columns, FoldSpace<S> space, T* out,
              cudaStream_t stream) {
  sum_rows(matrix, n_rows, n_columns, space, SumsTo<T>{out}, stream);
}

// Sums over the rows of a matrix that comes in slices, of which none is longer than the first.
template <class S>
class SumOfSlices {
  int64_t n_columns, n_rows = 0;  // shape of the sums
  FoldSpace<S> space;
  S* sums;

 public:
  SumOfSlices(int64_t length, int64_t n_columns, Workspace& workspace)
      : n_columns(n_columns),
        space(ceil_div(length, folded), n_columns, workspace),
        sums(workspace.take<S>(ceil_div(length, folded) * n_columns)) {}

  // fold(sums, whether they are added to): those of 64 rows each, of a slice of n
  template <class Fold>
  void add(int64_t n, Fold fold) {
    fold(sums, n_rows > 0);
    if (!n_rows) n_rows = ceil_div(n, folded);
  }
  template <class Matrix>
  void add(const Matrix& matrix, int64_t n, cudaStream_t stream) {
    add(n, [&](S* to, bool added) {
      if (added) fold_once(matrix, n, n_columns, SumsTo<S, true>{to}, stream);
      else fold_once(matrix, n, n_columns, SumsTo<S>{to}, stream);
    });
  }
  template <class T>
  void finish(T* out, cudaStream_t stream) const {
    sum_rows(PlainMatrix<S>{sums, n_columns}, n_rows, n_columns, space, out, stream);
  }
};

}  // namespace gnograd

! SPDX-License-Identifier: MIT

!> Milliseconds of two layers, forward and backward, the shortest of several: for benchmarks/fpm.py.
program speed
  use gnograd, only: sp, dp, int64, array_type, error_type, graph_type, tape_type, agg_weighted, &
    & gelu, gno, sum
  implicit none
  integer, parameter :: n = 3000, degree = 16, width = 32, hidden = 64
  type(graph_type) :: graph
  type(tape_type) :: tape
  type(error_type), allocatable :: error
  type(array_type) :: h, coords, u, b_u, v, b_v, weights, loss
  real(sp), allocatable :: features(:, :), edges(:, :), first(:, :), second(:, :, :), bias(:, :)
  integer(int64) :: begin, finish, rate
  real(dp) :: best(2)
  integer :: i, j, layer, repetition, start

  allocate (features(width, n), edges(2, n*degree), first(hidden, 2), second(width, width, hidden), &
    & bias(width, width))
  call random_number(features)
  call random_number(edges)
  call random_number(first)
  call random_number(second)
  call random_number(bias)
  call graph%init([(1 + i*degree, i=0, n)], &
    & [((modulo(7*i + 13*j*j, n) + 1, j=1, degree), i=1, n)], n, error)
  if (.not. allocated(error)) call tape%init(error)
  if (allocated(error)) error stop "no graph or tape"
  h = tape%parameter(features)
  coords = tape%constant(edges)
  weights = tape%constant(edges(1, :))
  u = tape%parameter(first)
  b_u = tape%parameter(first(:, 1))
  v = tape%parameter(second)
  b_v = tape%parameter(bias)
  start = tape%mark()
  best = huge(best)
  do layer = 1, 2
    do repetition = 1, 8
      call system_clock(begin, rate)
      if (layer == 1) loss = sum(gno(h, coords, u, b_u, v, b_v, graph, activation="gelu"))
      if (layer == 2) loss = sum(gelu(agg_weighted(h, weights, graph, aggregation="sum")))
      call tape%backward(loss, error)
      if (allocated(error)) error stop "no gradient"
      call system_clock(finish)
      best(layer) = min(best(layer), 1e3_dp*real(finish - begin, dp)/real(rate, dp))
      call tape%rewind(start)
    end do
  end do
  print "(2f10.2)", best
end program speed

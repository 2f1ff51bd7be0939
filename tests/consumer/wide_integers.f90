! SPDX-License-Identifier: MIT

!> A host that is compiled with -fdefault-integer-8 -fdefault-real-8, as many older codes are.
program wide_integers
  use, intrinsic :: iso_fortran_env, only: int32
  use gnograd
  implicit none
  type(tape_type) :: tape
  type(graph_type) :: graph
  type(initializer_type) :: initial
  type(gno_type) :: layer
  type(adam_type) :: adam
  type(array_type) :: x, loss, coords
  type(error_type), allocatable :: error
  real :: points(2, 50), f(3, 50), first, last
  integer :: start, step, k
  integer, allocatable :: src(:)

  points = reshape([(0.5 + 0.5*sin(0.7*k), k=1, 100)], [2, 50])
  f = reshape([(cos(0.3*k), k=1, 150)], [3, 50])
  call graph%radius(points, 0.3, error)
  if (allocated(error)) error stop error%message
  src = graph%src()
  call tape%init(error)
  if (allocated(error)) error stop error%message
  initial = initializer_type(seed=1)
  call layer%init(tape, initial, "layer", n_in=3_int32, n_out=2_int32, coord_dim=2_int32, &
    & n_hidden=8_int32)
  call adam%init(layer%parameters(), 1e-2, error)
  if (allocated(error)) error stop error%message
  start = tape%mark()
  do step = 1, 30
    x = tape%constant(f)
    coords = tape%constant(points(:, graph%dst()) - points(:, src))
    loss = mean(layer%forward(x, coords, graph)**2)
    loss = 2*loss + 0*mean(sum(reshape(x, [50, 3]), 1)) + norm(softmax(slice(x, [1, 1], [2, 2]), 2))
    loss = loss - norm(softmax(slice(x, [1, 1], [2, 2]), 2)) + 0*mean(mean(gather(x, [1, 2]), 1))
    loss = sum(concatenate([reshape(loss/2, [1]), reshape(0*loss, [1])], 1))
    call tape%backward(loss, error)
    call adam%step(error)
    if (allocated(error)) error stop error%message
    last = loss%value()
    if (step == 1) first = last
    call tape%rewind(start)
  end do
  print "(a, l2)", "falls", last < first
end program wide_integers

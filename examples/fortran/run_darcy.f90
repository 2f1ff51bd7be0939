! SPDX-License-Identifier: MIT

!> Run in Fortran what Python has trained: the network of `gnograd train darcy`.
!>
!>     run_darcy DIRECTORY [FILE.csv]
!>
!> takes model.safetensors and sample.safetensors from the directory of the training, evaluates the
!> network on the sample and prints its error, and how far it is from what Python computed. The
!> file, which pictures.py makes a picture of, has a line a point: x, y, the solution and what was
!> computed.
program run_darcy
  use gnograd, only: sp, int64, weights_type, load_weights, tape_type, array_type, graph_type, &
    & error_type, gno, gelu, matmul, operator(+), operator(*)
  implicit none
  type(weights_type) :: model, sample
  type(tape_type) :: tape
  type(graph_type) :: graph
  type(error_type), allocatable :: error
  integer(int64), allocatable :: offsets(:), indices(:)
  real(sp), allocatable :: nodes(:, :), edges(:, :), mean(:, :), std(:, :), truth(:, :)
  real(sp), allocatable :: of_python(:, :), solution(:, :)
  type(array_type) :: out
  character(len=1000) :: directory, filename

  call get_command_argument(1, directory)
  if (directory == "") error stop "usage: run_darcy DIRECTORY [FILE.csv]"
  call load_weights(trim(directory)//"/model.safetensors", model, error)
  call stop_on(error)
  call load_weights(trim(directory)//"/sample.safetensors", sample, error)
  call stop_on(error)

  call sample%get("offsets", offsets, error)
  call stop_on(error)
  call sample%get("indices", indices, error)
  call stop_on(error)
  ! Python counts from 0
  call graph%init(offsets + 1, indices + 1, size(offsets, kind=int64) - 1, error)
  call stop_on(error)

  nodes = values("nodes")
  edges = values("edges")
  mean = values("mean")
  std = values("std")
  truth = values("solution")
  of_python = values("prediction")

  call tape%init(error)
  call stop_on(error)
  out = network(tape%constant(nodes), tape%constant(edges))
  out = out*tape%constant(std) + tape%constant(mean)
  call out%val(solution, error)
  call stop_on(error)
  print "(a, i0, a, i0, a)", "sample: ", size(nodes, 2), " points, ", size(indices), " edges"
  print "(a, f8.5)", "relative error:         ", norm2(solution - truth)/norm2(truth)
  print "(a, es8.1)", "difference from Python: ", norm2(solution - of_python)/norm2(of_python)
  call get_command_argument(2, filename)
  if (filename /= "") call write_solution(trim(filename))

contains

  !> The last two features of a node are its position, with 0 in the middle and sides of length 2.
  subroutine write_solution(filename)
    character(len=*), intent(in) :: filename
    integer :: unit, i

    open (newunit=unit, file=filename, action="write")
    write (unit, "(a)") "x,y,solution,computed"
    write (unit, "(es13.6, ',', es13.6, ',', es13.6, ',', es13.6)") &
      & ((nodes(size(nodes, 1) - 1:, i) + 1)/2, truth(1, i), solution(1, i), i=1, size(nodes, 2))
    close (unit)
  end subroutine write_solution

  !> Lift, layers h <- h + gelu(W h + b + mean of kappa h over neighbours), projection.
  function network(nodes, edges) result(out)
    type(array_type), intent(in) :: nodes, edges
    type(array_type) :: out, h, integral
    character(len=12) :: layer
    integer :: k

    h = linear("lift", nodes)
    k = 0
    do
      write (layer, "(i0)") k
      if (.not. model%has(trim(layer)//".weight")) exit
      integral = gno(h, edges, weight(trim(layer)//".kernel.weight"), &
        & bias(trim(layer)//".kernel.bias"), kernel(trim(layer)//".kernel.V"), &
        & weight(trim(layer)//".kernel.b_v"), graph, activation="gelu", reduction="mean")
      h = h + gelu(linear(trim(layer), h) + integral)
      k = k + 1
    end do
    out = linear("projection", gelu(linear("inner", h)))
  end function network

  function linear(name, x) result(y)
    character(len=*), intent(in) :: name
    type(array_type), intent(in) :: x
    type(array_type) :: y

    y = matmul(weight(name//".weight"), x) + bias(name//".bias")
  end function linear

  ! parameters of the network, which have their axes in reverse here

  function weight(name) result(x)
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:, :)

    call model%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function weight

  function bias(name) result(x)
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:)

    call model%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function bias

  function kernel(name) result(x)
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:, :, :)

    call model%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function kernel

  function values(name) result(numbers)
    character(len=*), intent(in) :: name
    real(sp), allocatable :: numbers(:, :)

    call sample%get(name, numbers, error)
    call stop_on(error)
  end function values

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program run_darcy

! SPDX-License-Identifier: MIT

!> A model that `gnograd train points` has made, on the points of data.safetensors: its results go to
!> out.safetensors, with their gradients; then it makes a step of training, and goes to
!> further.safetensors.
program point_gno
  use gnograd
  implicit none
  type(point_gno_type) :: model
  type(weights_type) :: data, results
  type(tape_type) :: tape
  type(sgd_type) :: sgd
  type(array_type) :: f, u, loss
  type(error_type), allocatable :: error
  real(sp), allocatable :: values(:, :), gradient(:, :)

  call tape%init(error)
  call stop_on(error)
  call model%load(tape, "model.safetensors", error)
  call stop_on(error)
  call load_weights("data.safetensors", data, error)
  call stop_on(error)
  if (data%has("queries")) then
    call model%place(tape, matrix("points"), error, queries=matrix("queries"))
  else
    call model%place(tape, matrix("points"), error)
  end if
  call stop_on(error)
  call sgd%init(model%parameters(), 0.01_dp, error)
  call stop_on(error)

  f = tape%parameter(matrix("inputs"))
  if (model%n_parameters > 0) then
    u = model%forward(f, tape%constant(reshape(matrix("parameters"), [model%n_parameters])))
  else
    u = model%forward(f)
  end if
  loss = mean(u*u)
  call tape%backward(loss, error)
  call stop_on(error)
  call u%val(values, error)
  call stop_on(error)
  call f%grad(gradient, error)
  call stop_on(error)
  call results%set("out", values, error)
  call stop_on(error)
  call results%set("gradient", gradient, error)
  call stop_on(error)
  call save_weights("out.safetensors", results, error)
  call stop_on(error)

  call sgd%step(error)
  call stop_on(error)
  call model%save("further.safetensors", error)
  call stop_on(error)

contains

  function matrix(name) result(numbers)
    character(len=*), intent(in) :: name
    real(sp), allocatable :: numbers(:, :)

    call data%get(name, numbers, error)
    call stop_on(error)
  end function matrix

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program point_gno

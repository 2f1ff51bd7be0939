! SPDX-License-Identifier: MIT

!> The tape as a Fortran program sees it: kinds and ranks, derivatives to second order, errors.
!> Operations are checked one by one from Python, operators in test_laws.f90.
module test_autodiff
  use, intrinsic :: ieee_arithmetic, only: ieee_set_rounding_mode, ieee_round_type, ieee_up, &
    & ieee_down, ieee_to_zero, ieee_nearest
  use gnograd
  use testing, only: test_type, check, short_run
  implicit none
  private
  public :: autodiff_tests, draw, expect

  !> A function of two matrices to one number
  abstract interface
    function loss_interface(tape, x, y) result(loss)
      import :: tape_type, array_type
      type(tape_type), intent(in) :: tape
      type(array_type), intent(in) :: x, y
      type(array_type) :: loss
    end function loss_interface
  end interface

contains

  function autodiff_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds and all ranks", test_values), &
      & test_type("plain numbers", test_numbers), &
      & test_type("derivatives, network", test_network), &
      & test_type("derivatives, shapes", test_shapes), &
      & test_type("long sums and products", test_long), &
      & test_type("errors mark the tape", test_errors), &
      & test_type("choices that do not exist", test_choices), &
      & test_type("val and grad return errors", test_returned_errors), &
      & test_type("changed values have no gradient", test_changed), &
      & test_type("steps of slices", test_steps), &
      & test_type("arithmetic that does not round to nearest", test_rounding)]
  end function autodiff_tests

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x
    real(sp) :: s
    real(sp), allocatable :: vector(:), cube(:, :, :)
    real(dp), allocatable :: matrix(:, :), four(:, :, :, :)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%constant(2.5_sp)
    call x%val(s)
    call check(error, s == 2.5_sp, "number")
    x = tape%parameter([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp])
    call x%val(vector)
    call check(error, all(vector == [1, 2, 3, 4]), "vector")
    x = reshape(x, [1, 2, 2])
    call x%val(cube)
    call check(error, all(shape(cube) == [1, 2, 2]) .and. cube(1, 2, 1) == 2, "cube")
    ! a section with gaps
    x = tape%constant(reshape([1.0_dp, 2.0_dp, 3.0_dp, 4.0_dp, 5.0_dp, 6.0_dp], [2, 3]))
    call x%val(matrix)
    x = tape%constant(matrix(2:2, ::2))
    call x%val(matrix)
    call check(error, all(shape(matrix) == [1, 2]) .and. all(matrix(1, :) == [2, 6]), "section")
    call check(error, all(x%shape() == [1, 2]), "shape")
    x = tape%constant(reshape([1.0_dp, 2.0_dp], [1, 1, 1, 2]))
    call x%val(four)
    call check(error, four(1, 1, 1, 2) == 2, "four axes")
    x = tape%parameter(matrix)
    matrix(1, 1) = 7
    call x%set_value(matrix)
    call x%val(matrix)
    call check(error, matrix(1, 1) == 7, "set_value")
    if (.not. allocated(error)) call tape%check(error)
    call tape%free()
  end subroutine test_values

  subroutine test_numbers(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(sp), allocatable :: values(:), slope(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_sp, 2.0_sp])
    y = 1 + 2.0_sp*x - 0.5_dp/x + x**2 - (3 - x)/4 + 2.0_sp**x + x**2.0_dp
    call y%val(values)
    call check(error, all(abs(values - [6.0, 16.5]) < 1e-5), "values")
    call tape%backward(sum(y), error)
    if (allocated(error)) return
    call x%grad(slope)
    values = 2 + 0.5/[1, 2]**2 + 4*[1, 2] + 0.25 + log(2.0)*2.0**[1, 2]
    call check(error, all(abs(slope - values) < 1e-5), "slopes")
    call tape%free()
  end subroutine test_numbers

  function network(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, h

    h = tanh(matmul(x, y) + tape%constant([0.1_dp, -0.2_dp, 0.3_dp]))
    h = gelu(h) + silu(h)*sigmoid(h) - softmax(h, 1)
    loss = norm(h) + mean(exp(h)*cos(h)) + sum(sqrt(h*h + 1)) + sum(norm(h, 2))
  end function network

  function shapes(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, both

    both = concatenate([x, reshape(y, [5, 2]), transpose(y)], 1)
    both = gather(both, [2_int64, 1_int64, 2_int64])
    both = slice(both, [1_int64, 3_int64], [4_int64, 2_int64], [2_int64, -1_int64])
    loss = sum(sin(both)*mean(both, 1, keep_dim=.true.)) + sum(permute(x*x, [2, 1])*y)
    loss = loss*tape%constant(0.5_dp)
  end function shapes

  subroutine test_network(error)
    type(error_type), allocatable, intent(out) :: error

    call check_derivatives(network, [3, 4], [4, 5], error)
  end subroutine test_network

  subroutine test_shapes(error)
    type(error_type), allocatable, intent(out) :: error

    call check_derivatives(shapes, [5, 2], [2, 5], error)
  end subroutine test_shapes

  !> First and second order against central differences along a direction.
  subroutine check_derivatives(f, shape_x, shape_y, error)
    procedure(loss_interface) :: f
    integer, intent(in) :: shape_x(2), shape_y(2)
    type(error_type), allocatable, intent(out) :: error
    real(dp), parameter :: step = 1e-5_dp
    real(dp), allocatable :: x(:, :), y(:, :), dx(:, :), dy(:, :)
    real(dp) :: value(-1:1), slope(-1:1), first, second
    integer :: side

    x = draw(shape_x, 1)
    y = draw(shape_y, 2)
    dx = draw(shape_x, 3)
    dy = draw(shape_y, 4)
    do side = -1, 1
      call derivatives(f, x + side*step*dx, y + side*step*dy, dx, dy, value(side), slope(side), &
        & first, second, error)
      if (allocated(error)) return
      if (side == 0) then
        slope(0) = first
        value(0) = second
      end if
    end do
    call check(error, abs((value(1) - value(-1))/(2*step) - slope(0)) < 1e-7_dp, "first order")
    call check(error, abs((slope(1) - slope(-1))/(2*step) - value(0)) < 1e-6_dp, "second order")
  end subroutine check_derivatives

  !> f, its derivative along (dx, dy), and its second derivative; the first one with and without
  !> create_graph.
  subroutine derivatives(f, x, y, dx, dy, value, slope, slope_of_graph, curve, error)
    procedure(loss_interface) :: f
    real(dp), intent(in) :: x(:, :), y(:, :), dx(:, :), dy(:, :)
    real(dp), intent(out) :: value, slope, slope_of_graph, curve
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: a, b, loss, along
    type(array_type), allocatable :: grads(:)

    value = 0
    slope = 0
    slope_of_graph = 0
    curve = 0
    call tape%init(error)
    if (allocated(error)) return
    a = tape%parameter(x)
    b = tape%parameter(y)
    loss = f(tape, a, b)
    call tape%gradient(loss, [a, b], grads, error)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(slope)
    call tape%gradient(loss, [a, b], grads, error, create_graph=.true.)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(slope_of_graph)
    call tape%gradient(along, [a, b], grads, error)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(curve)
    call loss%val(value)
    call tape%check(error)
    call tape%free()
  end subroutine derivatives

  !> Numbers between -1 and 1, always the same.
  function draw(extents, seed) result(values)
    integer, intent(in) :: extents(2), seed
    real(dp) :: values(extents(1), extents(2))
    integer :: i, j

    do j = 1, extents(2)
      do i = 1, extents(1)
        values(i, j) = sin(1.7_dp*i + 2.9_dp*j + 5.3_dp*seed*i*j)
      end do
    end do
  end function draw

  !> Sums along either axis and long inner products in real32, against real64; the same
  !> bits for any number of threads.
  subroutine test_long(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: shapes(2, 4) = reshape([3, 60000, 900, 300, 20000, 70, 70, 20000], [2, 4])
    integer, parameter :: products(3, 3) = reshape([20, 9000, 30, 300, 9000, 200, 700, 12000, &
      & 600], [3, 3])
    real(sp), allocatable :: x(:, :), y(:, :), one(:, :), other(:, :)
    real(dp), allocatable :: exact(:, :)
    integer :: k, dim, n_shapes, n_products

    n_shapes = merge(2, size(shapes, 2), short_run())
    n_products = merge(1, size(products, 2), short_run())
    do k = 1, n_shapes
      x = real(1 + draw(shapes(:, k), k), sp)
      do dim = 1, 2
        exact = reshape(sum(real(x, dp), dim), [1, size(x)/size(x, dim)])
        call sums(1, one)
        call sums(3, other)
        if (allocated(error)) return
        call check(error, maxval(abs(one - exact)/exact) < 1.3e-7_dp, "a long sum")
        call check(error, all(one == other), "bits of a long sum")
      end do
    end do
    do k = 1, n_products
      x = real(1 + draw(products(:2, k), 1), sp)
      y = real(1 + draw(products(3:2:-1, k), 2), sp)
      exact = matmul(real(x, dp), transpose(real(y, dp)))
      call multiply(1, one)
      call multiply(3, other)
      if (allocated(error)) return
      call check(error, maxval(abs(one - exact)/exact) < 1e-6_dp, "a long product")
      call check(error, all(one == other), "bits of a long product")
    end do

  contains

    subroutine sums(n_threads, values)
      integer, intent(in) :: n_threads
      real(sp), allocatable, intent(out) :: values(:, :)
      type(tape_type) :: tape
      type(array_type) :: y

      call tape%init(error)
      if (allocated(error)) return
      call set_n_threads(n_threads)
      y = sum(tape%constant(x), dim)
      y = reshape(y, [1, size(x)/size(x, dim)])
      call set_n_threads(0)
      call y%val(values, error)
    end subroutine sums

    subroutine multiply(n_threads, values)
      integer, intent(in) :: n_threads
      real(sp), allocatable, intent(out) :: values(:, :)
      type(tape_type) :: tape
      type(array_type) :: z

      call tape%init(error)
      if (allocated(error)) return
      call set_n_threads(n_threads)
      z = matmul(tape%constant(x), tape%constant(y), transpose_b=.true.)
      call set_n_threads(0)
      call z%val(values, error)
    end subroutine multiply

  end subroutine test_long

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape, other
    type(array_type) :: x, y, z
    real(dp), allocatable :: wrong(:)
    integer :: length

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(reshape([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp, 5.0_sp, 6.0_sp], [2, 3]))
    y = tape%parameter([1.0_sp, 2.0_sp, 3.0_sp])
    length = tape%mark()
    z = x + y
    call check(error, .not. z%alive(), "a failed operation gives an array")
    z = exp(z*z) + x
    call check(error, .not. z%alive() .and. tape%mark() == length, "a failed tape goes on")
    call expect(tape, "add: shapes (2, 3) + (3) cannot be broadcast", error)
    z = matmul(x, y)
    call check(error, z%alive(), "a cleared tape works")
    z = matmul(x, x)
    call expect(tape, "matmul: (2, 3) and (2, 3): the inner extents differ", error)
    z = x*tape%constant(1.0_dp)
    call expect(tape, "multiply: operands of different kinds, real32 and real64", error)
    call x%val(wrong)
    call expect(tape, "val: the array is real32 (2, 3), the argument is real64 of rank 1", error)
    call check(error, .not. allocated(wrong), "a wrong argument is allocated")
    z = sum(x, 3)
    call expect(tape, "sum: (2, 3) has no such axis", error)
    z = slice(y, [3_int64], [2_int64])
    call expect(tape, "slice: a range leaves the array (3)", error)
    call tape%backward(x, raised)
    call check(error, allocated(raised), "a loss with many elements")
    call expect(tape, "gradient: the loss must be one number, it is (2, 3)", error)
    call other%init(raised)
    z = y + other%constant([1.0_sp, 2.0_sp, 3.0_sp])
    call expect(tape, "add: the operands are on different tapes", error)
    call other%free()
    call tape%free()
  end subroutine test_errors

  !> The message names the argument and what it may be.
  subroutine test_choices(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    type(tape_type) :: tape
    type(array_type) :: x, row, weights, y

    call graph%from_edges([1, 2], [2, 1], error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(reshape([1.0_dp, 2.0_dp], [1, 2]))
    row = tape%parameter([1.0_dp, 2.0_dp])
    weights = tape%parameter(reshape([1.0_dp], [1, 1]))
    y = agg_weighted(x, row, graph, aggregation="average")
    call expect(tape, "agg_weighted: aggregation must be one of sum, mean, min, max", error)
    y = update_edges(x, graph, x, x, mode="product")
    call expect(tape, "update_edges: mode must be one of concat, sum", error)
    y = mha_gat(x, x, row, graph, num_heads=1, activation="relu6")
    call expect(tape, "mha_gat: activation must be one of "// &
      & "LeakyReLU, ELU, Linear, ReLU, Scalar, Sigmoid, Tanh", error)
    y = gno(x, x, weights, slice(row, [1], [1]), reshape(weights, [1, 1, 1]), weights, graph, &
      & kernel="")
    call expect(tape, "gno: kernel must be one of full, diagonal", error)
  end subroutine test_choices

  !> The tape is marked with this message; the mark is removed.
  subroutine expect(tape, message, error)
    type(tape_type), intent(inout) :: tape
    character(len=*), intent(in) :: message
    type(error_type), allocatable, intent(inout) :: error
    type(error_type), allocatable :: raised

    call tape%check(raised)
    if (allocated(raised)) then
      call check(error, raised%message == message, "message is "//raised%message)
    else
      call check(error, .false., "no error: "//message)
    end if
    call tape%clear_error()
  end subroutine expect

  subroutine test_returned_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, nothing
    real(sp) :: single
    real(dp) :: value
    real(dp), allocatable :: values(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_dp, 2.0_dp])
    values = [7, 7, 7]
    value = 42
    call x%val(value, raised)
    call check(error, allocated(raised), "a number from a vector")
    if (allocated(raised)) call check(error, raised%message == "val: the array is real64 (2), "// &
      & "the argument is real64 of rank 0", raised%message)
    call check(error, value /= value, "the old number stays")
    call nothing%val(values, raised)
    call check(error, allocated(raised) .and. .not. allocated(values), "values of nothing")
    call x%set_value([1.0_dp], raised)
    call check(error, allocated(raised), "values of another shape")
    call tape%check(raised)
    call check(error, .not. allocated(raised), "the tape is marked although the error was returned")
    call x%val(values, raised)
    call check(error, .not. allocated(raised), "an error of a right call")
    if (allocated(values)) call check(error, all(values == [1, 2]), "values")
    ! later calls on a marked tape have no old numbers either
    nothing = x + tape%constant([1.0_dp, 2.0_dp, 3.0_dp])
    single = 42
    value = 42
    call x%grad(values, raised)
    call check(error, allocated(raised) .and. .not. allocated(values), "grad on a marked tape")
    call x%val(value)
    call x%val(single)
    call check(error, value /= value .and. single /= single, "val on a marked tape")
    call expect(tape, "add: shapes (2) + (3) cannot be broadcast", error)
  end subroutine test_returned_errors

  subroutine test_changed(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(sgd_type) :: sgd
    real(dp) :: slope
    character(len=*), parameter :: message = "gradient: a value was changed after it had been "// &
      & "used (set_value, or the step of an optimizer); compute the loss again"

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(3.0_dp)
    y = x*x
    call x%set_value(5.0_dp)
    call tape%backward(y + x, raised)
    call expect(tape, message, error)
    call tape%backward(x*x, error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, slope == 10, "computed anew")
    call sgd%init([x], 0.1_dp, error)
    y = x*x
    if (.not. allocated(error)) call sgd%step(error)
    if (allocated(error)) return
    call tape%backward(y, raised)
    call expect(tape, message, error)
  end subroutine test_changed

  subroutine test_steps(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    integer(int64) :: least
    character(len=*), parameter :: leaves = "slice: a range leaves the array (3)"

    call tape%init(error)
    if (allocated(error)) return
    least = -huge(least) - 1
    x = tape%parameter([1.0_dp, 2.0_dp, 3.0_dp])
    y = slice(x, [1_int64], [3_int64], [0_int64])
    call expect(tape, "slice: a step is 0", error)
    y = slice(x, [1_int64], [3_int64], [2_int64**62])
    call expect(tape, leaves, error)
    y = slice(x, [3_int64], [3_int64], [least])
    call expect(tape, leaves, error)
    y = slice(x, [1_int64], [huge(least)], [1_int64])
    call expect(tape, leaves, error)
    y = slice(x, [1_int64], [1_int64], [1_int64, 1_int64])
    call expect(tape, "slice: needs one range for every axis of (3)", error)
    y = slice(x, [3_int64], [1_int64], [least])
    call check(error, y%alive(), "one element has no step")
    y = slice(x, [3_int64], [2_int64], [-2_int64])
    call check(error, y%alive(), "backwards")
  end subroutine test_steps

  !> Whatever the rounding is, the message is of rounding.
  subroutine test_rounding(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised, of_graph
    type(ieee_round_type) :: modes(3)
    type(tape_type) :: tape
    type(graph_type) :: graph
    integer :: k

    modes = [ieee_up, ieee_down, ieee_to_zero]
    do k = 1, 3
      call ieee_set_rounding_mode(modes(k))
      call tape%init(raised)
      call graph%init([1, 2], [1], 1, of_graph)
      call ieee_set_rounding_mode(ieee_nearest)
      call check(error, allocated(raised) .and. allocated(of_graph), "another rounding is taken")
      if (allocated(error)) return
      call check(error, index(raised%message, "arithmetic does not round to nearest") == 1, &
        & raised%message)
      call check(error, of_graph%message == raised%message, of_graph%message)
    end do
    call tape%init(error)
  end subroutine test_rounding

end module test_autodiff

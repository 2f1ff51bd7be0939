! SPDX-License-Identifier: MIT

!> Linear maps of a program on the tape: values, derivatives, errors, and who is told of them.
module test_linear_map
  use gnograd
  use gnograd_core_error, only: fail, code_unsupported, code_value
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: linear_map_tests

  !> A matrix, which refuses to be transposed if told so
  type, extends(linear_map_type) :: matrix_type
    real(dp), allocatable :: a(:, :)
    logical :: one_way = .false.
  contains
    procedure :: apply_r32
    procedure :: apply_r64
    procedure :: abandon
  end type matrix_type

  !> Number of calls of abandon, and the message of the last one
  integer, save :: n_abandoned = 0
  character(len=200), save :: told = ""

contains

  function linear_map_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds and several ranks", test_values), &
      & test_type("derivatives of any order", test_derivatives), &
      & test_type("no rows, no features", test_empty), &
      & test_type("errors of the map", test_errors), &
      & test_type("a map that cannot be called is told", test_abandoned)]
  end function linear_map_tests

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(matrix_type) :: map
    real(sp), allocatable :: cube(:, :, :)
    real(dp), allocatable :: vector(:), matrix(:, :)

    call tape%init(error)
    if (allocated(error)) return
    map = three_from_two()
    x = tape%constant([1.0_dp, 10.0_dp])
    y = linear_map(x, 3, map)
    call y%val(vector)
    call tape%check(error)
    if (allocated(error)) return
    call check(error, all(vector == [21, 43, 65]), "vector")
    y = linear_map(y, 2_int64, map, transposed=.true.)
    call y%val(vector)
    call check(error, all(vector == matmul([21.0_dp, 43.0_dp, 65.0_dp], map%a)), "transposed")
    x = tape%constant(reshape([1.0_dp, 2.0_dp, 10.0_dp, 20.0_dp], [2, 2]))
    y = linear_map(x, 3_int64, map)
    call y%val(matrix)
    call check(error, all(matrix == reshape([21, 42, 43, 86, 65, 130], [2, 3])), "matrix")
    x = tape%constant(reshape([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp], [1, 2, 2]))
    y = linear_map(x, 3_int64, map)
    call y%val(cube)
    call check(error, all(shape(cube) == [1, 2, 3]), "shape")
    call check(error, all(cube(1, 2, :) == [10, 22, 34]), "three axes, real32")
    call tape%check(error)
  end subroutine test_values

  !> Gradient of sum(A**T (A x)**3 * x), and the next two, against the formula for one direction.
  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, g
    type(array_type), allocatable :: grads(:)
    type(matrix_type) :: map
    real(dp), parameter :: at(2) = [0.3_dp, -0.7_dp]
    real(dp), allocatable :: found(:)
    real(dp) :: hidden(3), first(2), second(2), third(2)

    call tape%init(error)
    if (allocated(error)) return
    map = three_from_two()
    x = tape%parameter(at)
    ! f = sum (a x)**4, since <A**T (A x)**3, x> = <(A x)**3, A x>
    y = sum(linear_map(linear_map(x, 3_int64, map)**3.0_dp, 2_int64, map, transposed=.true.)*x)
    hidden = matmul(map%a, at)
    first = matmul(4*hidden**3, map%a)
    second = matmul(12*hidden**2*matmul(map%a, [1.0_dp, 1.0_dp]), map%a)
    third = matmul(24*hidden*matmul(map%a, [1.0_dp, 1.0_dp])**2, map%a)

    call tape%backward(y, error)
    if (allocated(error)) return
    call x%grad(found)
    call check(error, all(abs(found - first) < 1e-11_dp), "backward")
    call tape%gradient(y, [x], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(found)
    call check(error, all(abs(found - first) < 1e-11_dp), "first")
    g = sum(grads(1))
    call tape%gradient(g, [x], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(found)
    call check(error, all(abs(found - second) < 1e-10_dp), "second")
    g = sum(grads(1))
    call tape%gradient(g, [x], grads, error)
    if (allocated(error)) return
    call grads(1)%val(found)
    call check(error, all(abs(found - third) < 1e-9_dp), "third")
  end subroutine test_derivatives

  subroutine test_empty(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(matrix_type) :: map
    real(dp) :: none(3, 0)
    real(dp), allocatable :: values(:, :)
    integer :: k, n

    call tape%init(error)
    if (allocated(error)) return
    do k = 1, 2
      n = 2*(k - 1)
      ! from no rows, and to no rows
      allocate (map%a(2 - n, n), source=1.0_dp)
      x = tape%parameter(reshape([real(dp) ::], [3, n], pad=[1.0_dp]))
      y = linear_map(x, int(2 - n, int64), map)
      call y%val(values)
      call tape%check(error)
      if (allocated(error)) return
      call check(error, all(shape(values) == [3, 2 - n]) .and. all(values == 0), "values")
      loss = sum(y) + sum(x)
      call tape%backward(loss, error)
      if (allocated(error)) return
      call x%grad(values)
      call check(error, all(values == 1), "gradient")
      deallocate (map%a)
    end do
    ! no features
    x = tape%parameter(reshape(none, [0, 2]))
    y = linear_map(x, 3_int64, three_from_two())
    call check(error, all(y%shape() == [0, 3]), "no features")
    call tape%check(error)
  end subroutine test_empty

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(matrix_type) :: map

    call tape%init(error)
    if (allocated(error)) return
    map = three_from_two()
    x = tape%parameter([1.0_dp, 2.0_dp, 3.0_dp])
    y = linear_map(x, 3_int64, map)
    call tape%check(raised)
    call check_refused(error, raised, "matrix: 3 rows, needs 2")
    call check(error, .not. y%alive(), "a result of a failed map")
    call tape%clear_error()

    y = linear_map(sum(x), 3_int64, map)
    call tape%check(raised)
    call check_refused(error, raised, "told: linear_map: needs an array with an axis")
    call tape%clear_error()
    y = linear_map(x, -1_int64, map)
    call tape%check(raised)
    call check_refused(error, raised, "told: linear_map: a negative number of rows")
    call tape%clear_error()

    ! on the way back
    map%one_way = .true.
    x = tape%parameter([1.0_dp, 2.0_dp])
    loss = sum(linear_map(x, 3_int64, map))
    call tape%backward(loss, raised)
    call check_refused(error, raised, "matrix: one way only")
    call check(error, raised%code == code_unsupported, "code")
    call tape%clear_error()
    loss = sum(x*x)
    call tape%backward(loss, raised)
    call check(error, .not. allocated(raised), "the tape goes on")
  end subroutine test_errors

  subroutine test_abandoned(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, y, never

    call tape%init(error)
    if (allocated(error)) return
    n_abandoned = 0
    x = tape%parameter([1.0_dp, 2.0_dp])
    ! called, though in vain
    y = linear_map(x, 5_int64, three_from_two())
    call check(error, n_abandoned == 0, "a map that was called")
    y = linear_map(x, 3_int64, three_from_two())
    call check(error, n_abandoned == 1 .and. told == "matrix: 5 rows, needs 3", trim(told))
    call tape%check(raised)
    call check_refused(error, raised, "told: matrix: 5 rows, needs 3")
    call tape%clear_error()
    y = linear_map(x, -1_int64, three_from_two())
    call check(error, n_abandoned == 2 .and. told == "linear_map: a negative number of rows", &
      & trim(told))
    call tape%clear_error()
    y = linear_map(never, 3_int64, three_from_two())
    call check(error, n_abandoned == 3 .and. told == "linear_map: the operand has no value", &
      & trim(told))
    call tape%check(raised)
    call check(error, .not. allocated(raised), "a tape without the operand")
  end subroutine test_abandoned

  function three_from_two() result(map)
    type(matrix_type) :: map

    map%a = reshape([1.0_dp, 3.0_dp, 5.0_dp, 2.0_dp, 4.0_dp, 6.0_dp], [3, 2])
  end function three_from_two

  subroutine apply_r32(self, transposed, x, y, error)
    class(matrix_type), intent(in) :: self
    logical, intent(in) :: transposed
    real(sp), intent(in), contiguous, target :: x(:, :)
    real(sp), intent(inout), contiguous, target :: y(:, :)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable :: wide(:, :)

    wide = y
    call self%apply(transposed, real(x, dp), wide, error)
    y(:, :) = real(wide, sp)
  end subroutine apply_r32

  subroutine apply_r64(self, transposed, x, y, error)
    class(matrix_type), intent(in) :: self
    logical, intent(in) :: transposed
    real(dp), intent(in), contiguous, target :: x(:, :)
    real(dp), intent(inout), contiguous, target :: y(:, :)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable :: a(:, :)
    character(len=80) :: text

    a = self%a
    if (transposed) a = transpose(self%a)
    if (transposed .and. self%one_way) then
      call fail(error, code_unsupported, "matrix: one way only")
    else if (size(x, 2) /= size(a, 2)) then
      write (text, "(2(a, i0))") "matrix: ", size(x, 2), " rows, needs ", size(a, 2)
      call fail(error, code_value, trim(text))
    else if (size(y, 2) /= size(a, 1)) then
      write (text, "(2(a, i0))") "matrix: ", size(y, 2), " rows, needs ", size(a, 1)
      call fail(error, code_value, trim(text))
    else
      y(:, :) = matmul(x, transpose(a))
    end if
  end subroutine apply_r64

  subroutine abandon(self, transposed, problem)
    class(matrix_type), intent(in) :: self
    logical, intent(in) :: transposed
    type(error_type), intent(inout) :: problem

    n_abandoned = n_abandoned + 1
    told = problem%message
    problem%message = "told: "//problem%message
  end subroutine abandon

end module test_linear_map

! SPDX-License-Identifier: MIT

!> Expressions with arrays as a Fortran programmer writes them: intrinsic names, plain arrays in
!> expressions, casts between kinds, default integers, printing, parts without derivatives.
module test_expressions
  use gnograd
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: expressions_tests

  !> log(1 + exp(x)), as the documentation has it
  type, extends(custom_operation_type) :: softplus_type
  contains
    procedure :: forward_r64 => softplus_forward
    procedure :: pullback => softplus_pullback
  end type softplus_type

  !> The outer product of two vectors; its way back is of its own kind
  type, extends(custom_operation_type) :: outer_type
    logical :: broken = .false.
  contains
    procedure :: forward_r32 => outer_forward_r32
    procedure :: forward_r64 => outer_forward_r64
    procedure :: pullback => outer_pullback
  end type outer_type

contains

  function expressions_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("max, min and abs", test_extrema), &
      & test_type("their derivatives", test_extrema_slopes), &
      & test_type("plain arrays in expressions", test_plain), &
      & test_type("casts between kinds", test_casts), &
      & test_type("dot_product", test_dot_product), &
      & test_type("default integers and int64", test_integers), &
      & test_type("value and text", test_print), &
      & test_type("no_grad", test_no_grad), &
      & test_type("operations of a program", test_custom), &
      & test_type("errors of these", test_custom_errors)]
  end function expressions_tests

  subroutine test_extrema(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(dp), allocatable :: values(:), matrix(:, :)
    real(dp) :: nan, inf

    call tape%init(error)
    if (allocated(error)) return
    nan = 0
    nan = sqrt(nan - 1)
    inf = huge(inf)
    inf = inf*10
    x = tape%constant([1.0_dp, -2.0_dp, nan, 3.0_dp, inf, -inf])
    y = max(x, tape%constant([-1.0_dp, 2.0_dp, 1.0_dp, nan, -inf, -inf]))
    call y%val(values)
    call check(error, all(values([1, 2]) == [1, 2]) .and. all(values(3:4) /= values(3:4)) .and. &
      & values(5) > huge(inf) .and. values(6) < -huge(inf), "max lets NaN and infinities through")
    y = min(x, tape%constant([-1.0_dp, 2.0_dp, 1.0_dp, nan, -inf, -inf]))
    call y%val(values)
    call check(error, all(values([1, 2]) == [-1, -2]) .and. all(values(3:4) /= values(3:4)) .and. &
      & all(values(5:6) < -huge(inf)), "min")
    y = max(0, min(x, 2.5_sp))
    call y%val(values)
    call check(error, values(1) == 1 .and. values(2) == 0 .and. values(4) == 2.5_dp, "numbers")
    y = abs(x)
    call y%val(values)
    call check(error, values(2) == 2 .and. values(3) /= values(3) .and. values(6) > huge(inf), "abs")
    y = max(tape%constant(reshape([1.0_dp, 5.0_dp], [1, 2])), tape%constant([2.0_dp, 3.0_dp]))
    call y%val(matrix)
    call check(error, all(matrix == reshape([2, 3, 5, 5], [2, 2])), "broadcast")
    if (.not. allocated(error)) call tape%check(error)
  end subroutine test_extrema

  subroutine test_extrema_slopes(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(array_type), allocatable :: grads(:)
    real(dp), allocatable :: slope(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_dp, 2.0_dp, 3.0_dp, 0.0_dp])
    y = tape%parameter([2.0_dp, 2.0_dp, 1.0_dp, -1.0_dp])
    loss = sum(max(x, y)**2 + 3*min(x, y) + 10*abs(x - 2))
    call tape%gradient(loss, [x, y], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(slope)
    ! x < y; equal: half to each, and no slope of |0|; x > y twice
    call check(error, all(abs(slope - [3 - 10, 2 + 0, 6 + 10, 0 - 10] - [0.0, 1.5, 0.0, 0.0]) < 1e-14), &
      & "to x")
    call grads(2)%val(slope)
    call check(error, all(abs(slope - [4.0, 3.5, 3.0, 3.0]) < 1e-14), "to y")
    loss = sum(grads(1)*grads(1))
    call tape%gradient(loss, [x], grads, error)
    if (allocated(error)) return
    call grads(1)%val(slope)
    ! d/dx (2 x + c)**2 where x > y; a quarter where they are equal, half of the slope of half of it
    call check(error, all(abs(slope - [0.0, 3.5, 2*2*16.0, -2*2*10.0]) < 1e-13), "second")
  end subroutine test_extrema_slopes

  subroutine test_plain(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(dp), allocatable :: values(:, :), slope(:)
    real(dp) :: table(2, 3)

    call tape%init(error)
    if (allocated(error)) return
    table = reshape([1, 2, 3, 4, 5, 6], [2, 3])
    x = tape%parameter([10.0_dp, 20.0_dp])
    y = (table*x - [1.0_dp, 2.0_dp])/table + 2*(table(:, 3) - x)
    call y%val(values)
    if (.not. allocated(error)) call tape%check(error)
    if (allocated(error)) return
    call check(error, all(abs(values - (table*spread([10, 20], 2, 3) - spread([1, 2], 2, 3))/table - &
      & 2*spread(table(:, 3) - [10, 20], 2, 3)) < 1e-14), "values")
    call tape%backward(sum(y), error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, all(abs(slope - [3 - 6, 3 - 6]) < 1e-14), "slopes")
    y = x + [1.0_sp, 2.0_sp]
    call tape%check(refused)
    call check_refused(error, refused, "add: operands of different kinds, real64 and real32")
    call tape%clear_error()
    y = x*[1.0_dp, 2.0_dp, 3.0_dp]
    call tape%check(refused)
    call check_refused(error, refused, "multiply: shapes (2) * (3) cannot be broadcast")
  end subroutine test_plain

  !> float32 inside of float64: values rounded once, derivatives through both.
  subroutine test_casts(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(array_type), allocatable :: grads(:)
    real(sp), allocatable :: narrow(:)
    real(dp), allocatable :: wide(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1/3.0_dp, 2.0_dp])
    y = real(x, sp)
    call y%val(narrow)
    call check(error, all(narrow == real([1/3.0_dp, 2.0_dp], sp)), "narrow")
    y = real(y*y, dp)
    call y%val(wide)
    call check(error, all(wide == real(narrow*narrow, dp)), "wide")
    loss = sum(y*x)
    call tape%gradient(loss, [x], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(wide)
    call check(error, all(abs(wide - 3*[1/9.0_dp, 4.0_dp]) < 1e-6), "slope")
    loss = sum(grads(1))
    call tape%gradient(loss, [x], grads, error)
    if (allocated(error)) return
    call grads(1)%val(wide)
    call check(error, all(abs(wide - 6*[1/3.0_dp, 2.0_dp]) < 1e-6), "second")
    y = real(x, dp)
    call check(error, y%id == x%id, "nothing to do")
    y = real(x, 3)
    call tape%check(refused)
    call check_refused(error, refused, "real: the kind is neither sp nor dp")
  end subroutine test_casts

  subroutine test_dot_product(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(dp), allocatable :: slope(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_dp, 2.0_dp])
    y = dot_product(x, x)
    call check(error, y%value() == 5, "value")
    call tape%backward(y, error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, all(slope == [2, 4]), "slope")
    y = dot_product(x, tape%constant([1.0_dp]))
    call tape%check(refused)
    call check_refused(error, refused, &
      & "dot_product: needs two vectors of one length, not (2) and (1)")
  end subroutine test_dot_product

  subroutine test_integers(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, z
    real(dp), allocatable :: a(:, :), b(:, :)
    integer :: k

    call tape%init(error)
    if (allocated(error)) return
    x = tape%constant([(real(k, dp), k=1, 12)])
    y = gather(slice(reshape(x, [3, 4]), [1, 4], [2, 3], [2, -1]), [3, 1])
    z = gather(slice(reshape(x, [3_int64, 4_int64]), [1_int64, 4_int64], [2_int64, 3_int64], &
      & [2_int64, -1_int64]), [3_int64, 1_int64])
    call y%val(a)
    call z%val(b)
    if (.not. allocated(error)) call tape%check(error)
    if (allocated(error)) return
    call check(error, all(a == b), "equal")
    call check(error, all(a == reshape([4, 6, 10, 12], [2, 2])), "values")
  end subroutine test_integers

  subroutine test_print(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, none
    character(len=200) :: line
    real(dp) :: number

    call tape%init(error)
    if (allocated(error)) return
    x = tape%constant(0.5_sp)
    call check(error, x%value() == 0.5_dp, "value")
    line = x%text()
    ! the number of zeros that follow is the compiler's choice
    call check(error, line(:3) == "0.5" .and. verify(trim(line(4:)), "0") == 0, &
      & "one number: "//line)
    x = tape%constant(-0.25_dp)
    line = x%text()
    call check(error, line(:5) == "-0.25", "a negative number: "//line)
    x = tape%constant(reshape([1.0_dp, 2.0_dp, 3.0_dp, 4.0_dp, 5.0_dp, 6.0_dp], [3, 2]))
    line = x%text()
    call check(error, line(:16) == "real64 (3, 2): 1" .and. index(line, " 6.") > 0 .and. &
      & index(line, "...") == 0, "matrix: "//line)
    x = tape%constant([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp, 5.0_sp, 6.0_sp, 7.0_sp, 8.0_sp, 9.0_sp])
    line = x%text()
    call check(error, index(line, "real32 (9):") == 1 .and. index(line, " 9.") == 0 .and. &
      & index(line, " ...") == len_trim(line) - 3, "long: "//line)
    line = none%text()
    call check(error, line == "array without a value", "nothing")
    number = x%value()
    call tape%check(refused)
    call check_refused(error, refused, "value: the array has shape (9), not one number")
    call check(error, number /= number, "NaN")
    number = none%value()
    call check(error, number /= number, "nothing is NaN")
  end subroutine test_print

  subroutine test_no_grad(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, y, z
    real(dp), allocatable :: slope(:)

    call tape%no_grad()  ! before init: nothing
    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([3.0_dp])
    call tape%no_grad()
    call tape%no_grad()
    y = sum(x*x)
    call tape%end_no_grad()
    z = sum(x*x)
    call tape%end_no_grad()
    call tape%end_no_grad()
    call check(error, y%value() == 9 .and. z%value() == 9, "values")
    call tape%backward(y, refused)
    call check_refused(error, refused, "gradient: the loss does not depend on any parameter")
    call tape%clear_error()
    call tape%backward(z, refused)
    call check_refused(error, refused, "gradient: the loss does not depend on any parameter")
    call tape%clear_error()
    if (allocated(error)) return
    call tape%backward(z + sum(x*x)*y, error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, slope(1) == 54, "what is inside is constant outside")
  end subroutine test_no_grad

  ! ---- operations of a program ----

  subroutine softplus_forward(self, operands, y, error)
    class(softplus_type), intent(in) :: self
    type(operand_type), intent(in) :: operands(:)
    real(dp), intent(inout), contiguous :: y(:)
    type(error_type), allocatable, intent(out) :: error

    y = max(operands(1)%r64, 0.0_dp) + log(1 + exp(-abs(operands(1)%r64)))
  end subroutine softplus_forward

  subroutine softplus_pullback(self, operands, output, cotangent, wanted, gradients)
    class(softplus_type), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)

    gradients(1) = cotangent*sigmoid(operands(1))
  end subroutine softplus_pullback

  subroutine outer_forward_r32(self, operands, y, error)
    class(outer_type), intent(in) :: self
    type(operand_type), intent(in) :: operands(:)
    real(sp), intent(inout), contiguous :: y(:)
    type(error_type), allocatable, intent(out) :: error
    integer :: j, n

    n = size(operands(1)%r32)
    do j = 1, size(operands(2)%r32)
      y((j - 1)*n + 1:j*n) = operands(1)%r32*operands(2)%r32(j)
    end do
  end subroutine outer_forward_r32

  subroutine outer_forward_r64(self, operands, y, error)
    class(outer_type), intent(in) :: self
    type(operand_type), intent(in) :: operands(:)
    real(dp), intent(inout), contiguous :: y(:)
    type(error_type), allocatable, intent(out) :: error
    integer :: j, n

    if (self%broken) then
      error = error_type(42, "outer: broken")
      return
    end if
    n = int(operands(1)%shape(1))
    do j = 1, size(operands(2)%r64)
      y((j - 1)*n + 1:j*n) = operands(1)%r64*operands(2)%r64(j)
    end do
  end subroutine outer_forward_r64

  subroutine outer_pullback(self, operands, output, cotangent, wanted, gradients)
    class(outer_type), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)

    if (wanted(1)) gradients(1) = matmul(cotangent, operands(2))
    if (wanted(2)) gradients(2) = matmul(operands(1), cotangent)
  end subroutine outer_pullback

  subroutine test_custom(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(array_type), allocatable :: grads(:)
    real(dp), allocatable :: values(:), matrix(:, :)
    real(sp), allocatable :: narrow(:, :)
    real(dp) :: s(2)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([0.3_dp, -1.2_dp])
    loss = sum(custom_operation(softplus_type(), [x])**2)
    s = log(1 + exp([0.3_dp, -1.2_dp]))
    call check(error, abs(loss%value() - sum(s**2)) < 1e-14, "value")
    call tape%gradient(loss, [x], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(values)
    associate (p => 1/(1 + exp(-[0.3_dp, -1.2_dp])))
      call check(error, all(abs(values - 2*s*p) < 1e-14), "slope")
      call tape%gradient(sum(grads(1)), [x], grads, error)
      if (allocated(error)) return
      call grads(1)%val(values)
      call check(error, all(abs(values - 2*p*p - 2*s*p*(1 - p)) < 1e-14), "second")
    end associate
    ! two operands, another shape, both kinds
    y = tape%parameter([2.0_dp, 3.0_dp, 5.0_dp])
    loss = custom_operation(outer_type(), [x, y], [2, 3])
    call loss%val(matrix)
    call check(error, all(abs(matrix(2, :) + 1.2_dp*[2, 3, 5]) < 1e-14), "outer")
    call tape%backward(sum(loss*loss), error)
    if (allocated(error)) return
    call y%grad(values)
    call check(error, all(abs(values - 2*(0.09_dp + 1.44_dp)*[2, 3, 5]) < 1e-13), "slopes")
    loss = custom_operation(outer_type(), [real(x, sp), real(y, sp)], [2_int64, 3_int64])
    call loss%val(narrow)
    call check(error, all(abs(narrow - matrix) < 1e-6), "single precision")
    if (.not. allocated(error)) call tape%check(error)
  end subroutine test_custom

  subroutine test_custom_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: x, y

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_sp])
    y = custom_operation(softplus_type(), [x])
    call expect("custom_operation: there is no forward_r32")
    x = tape%parameter([1.0_dp])
    y = custom_operation(outer_type(broken=.true.), [x, x], [1, 1])
    call check(error, .not. y%alive(), "no value")
    call expect("outer: broken")
    y = custom_operation(outer_type(), [x, x], [1, 1, 1, 1, 1])
    call expect("custom_operation: no array has this shape")
    y = custom_operation(outer_type(), [x, x], [-1, 1])
    call expect("custom_operation: no array has this shape")
    y = custom_operation(softplus_type(), [y])
    call check(error, .not. y%alive(), "an operand without a value")

  contains

    subroutine expect(message)
      character(len=*), intent(in) :: message

      call tape%check(refused)
      call check_refused(error, refused, message)
      call tape%clear_error()
    end subroutine expect

  end subroutine test_custom_errors

end module test_expressions

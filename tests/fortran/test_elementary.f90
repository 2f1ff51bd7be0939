! SPDX-License-Identifier: MIT

!> Elementary functions of arrays: errors in units in the last place against a wider kind, special
!> values, the same bits wherever an element stands.
module test_elementary
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_quiet_nan, &
    & ieee_positive_inf
  use gnograd, only: error_type, sp, dp
  use gnograd_primitives_elementary, only: to_exp, to_log, to_tanh, normal, sine_cosine, &
    & exponentiate
  use testing, only: test_type, check
  implicit none
  private
  public :: elementary_tests

  integer, parameter :: qp = selected_real_kind(30), n = 20000
  character(len=7), parameter :: names(8) = &
    & [character(len=7) :: "exp", "weight", "log", "tanh", "normal", "density", "sin", "cos"]
  !> Units in the last place; without fused multiply-add the last ones of tanh and normal are lost
  real(dp), parameter :: most(8) = [1.5_dp, 1.5_dp, 1._dp, 2.5_dp, 3._dp, 2.5_dp, 1.5_dp, 1.5_dp]

contains

  function elementary_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("errors, real32", test_errors_r32), &
      & test_type("errors, real64", test_errors_r64), &
      & test_type("special values", test_special), &
      & test_type("equal bits in every place", test_places)]
  end function elementary_tests

  !> Arguments of a function, close ones and far ones.
  subroutine arguments(k, last, x)
    integer, intent(in) :: k
    !> The largest exponent of two
    integer, intent(in) :: last
    real(dp), intent(out) :: x(n)
    real(dp) :: reach

    call random_number(x)
    select case (names(k))
    case ("exp")
      reach = last*log(2._dp)
      x = merge(2*x - 1, (2*x - 1)*reach, x < 0.25_dp)
    case ("weight")
      x = -x*(last - 2)*log(2._dp)
    case ("log")
      x = merge(0.5_dp + 2*x, 2._dp**((2*x - 1)*(last - 2)), x < 0.5_dp)
    case ("tanh")
      x = merge(2*x - 1, 40*x - 20, x < 0.5_dp)
    case ("normal", "density")
      x = merge(4*x - 2, (2*x - 1)*1.15_dp*sqrt(real(last, dp)), x < 0.5_dp)
    case ("sin", "cos")
      x = merge(20*x - 5, 2._dp**(2*x*(last/2 - 1)), x < 0.5_dp)
    end select
  end subroutine arguments

  elemental function exact(k, x) result(y)
    integer, intent(in) :: k
    real(qp), intent(in) :: x
    real(qp) :: y

    select case (names(k))
    case ("exp", "weight")
      y = exp(x)
    case ("log")
      y = log(x)
    case ("tanh")
      y = tanh(x)
    case ("normal")
      y = erfc(-x*sqrt(0.5_qp))/2
    case ("density")
      y = exp(-x*x/2)/sqrt(2*acos(-1._qp))
    case ("sin")
      y = sin(x)
    case default
      y = cos(x)
    end select
  end function exact

  subroutine compute_r32(k, x)
    integer, intent(in) :: k
    real(sp), intent(inout) :: x(:)
    real(sp) :: t(size(x)), other(size(x))

    t = x
    select case (names(k))
    case ("exp")
      call to_exp(size(x), x)
    case ("weight")
      call exponentiate(size(x), x)
    case ("log")
      call to_log(size(x), x)
    case ("tanh")
      call to_tanh(size(x), x)
    case ("normal")
      call normal(size(x), t, x, other)
    case ("density")
      call normal(size(x), t, other, x)
    case ("sin")
      call sine_cosine(size(x), t, x, other)
    case ("cos")
      call sine_cosine(size(x), t, other, x)
    end select
  end subroutine compute_r32

  subroutine compute_r64(k, x)
    integer, intent(in) :: k
    real(dp), intent(inout) :: x(:)
    real(dp) :: t(size(x)), other(size(x))

    t = x
    select case (names(k))
    case ("exp")
      call to_exp(size(x), x)
    case ("weight")
      call exponentiate(size(x), x)
    case ("log")
      call to_log(size(x), x)
    case ("tanh")
      call to_tanh(size(x), x)
    case ("normal")
      call normal(size(x), t, x, other)
    case ("density")
      call normal(size(x), t, other, x)
    case ("sin")
      call sine_cosine(size(x), t, x, other)
    case ("cos")
      call sine_cosine(size(x), t, other, x)
    end select
  end subroutine compute_r64

  subroutine test_errors_r32(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: given(n), wrong
    real(sp) :: x(n), y(n)
    real(qp) :: wanted(n)
    integer :: k

    do k = 1, size(names)
      call arguments(k, maxexponent(x), given)
      x = real(given, sp)
      y = x
      call compute_r32(k, y)
      wanted = exact(k, real(x, qp))
      wrong = real(maxval(abs(y - wanted)/spacing(real(abs(wanted), sp))), dp)
      call check(error, wrong < most(k), trim(names(k)))
    end do
  end subroutine test_errors_r32

  subroutine test_errors_r64(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: x(n), y(n), wrong
    real(qp) :: wanted(n)
    integer :: k

    do k = 1, size(names)
      call arguments(k, maxexponent(x), x)
      y = x
      call compute_r64(k, y)
      wanted = exact(k, real(x, qp))
      wrong = real(maxval(abs(y - wanted)/spacing(real(abs(wanted), dp))), dp)
      call check(error, wrong < most(k), trim(names(k)))
    end do
  end subroutine test_errors_r64

  subroutine test_special(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: x(7), y(7), z(7), inf
    integer :: k

    inf = ieee_value(inf, ieee_positive_inf)
    x = [ieee_value(inf, ieee_quiet_nan), inf, -inf, 0._dp, -0._dp, tiny(inf)/4, -3._dp]
    do k = 1, size(names)
      y = x
      call compute_r64(k, y)
      call check(error, ieee_is_nan(y(1)), "NaN in "//names(k))
      select case (names(k))
      case ("exp")
        call check(error, y(2) > huge(inf) .and. y(3) == 0 .and. y(4) == 1 .and. y(6) == 1, "exp")
      case ("log")
        call check(error, y(2) > huge(inf) .and. y(4) < -huge(inf) .and. y(5) < -huge(inf) .and. &
          & ieee_is_nan(y(3)) .and. ieee_is_nan(y(7)), "log")
        call check(error, abs(y(6) - log(x(6))) <= spacing(y(6)), "log of a subnormal number")
      case ("tanh")
        call check(error, y(2) == 1 .and. y(3) == -1 .and. sign(1._dp, y(5)) < 0 .and. &
          & y(6) == x(6), "tanh")
        z = -x
        call compute_r64(k, z)
        call check(error, all(y(2:) == -z(2:)), "tanh is odd")
      case ("normal")
        call check(error, y(2) == 1 .and. y(3) == 0 .and. all(y(4:5) == 0.5_dp), &
          & "normal")
      case ("sin")
        call check(error, all(ieee_is_nan(y(2:3))) .and. sign(1._dp, y(5)) < 0 .and. y(6) == x(6), &
          & "sin")
      case ("cos")
        call check(error, all(ieee_is_nan(y(2:3))) .and. all(y(4:6) == 1), "cos")
      end select
    end do
  end subroutine test_special

  !> Whole vectors and what is left of them.
  subroutine test_places(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: some = 67
    real(dp) :: x(n), y(some), one(1)
    real(sp) :: y_sp(some), one_sp(1)
    integer :: k, j

    do k = 1, size(names)
      call arguments(k, maxexponent(y_sp), x)
      y = x(:some)
      y_sp = real(y, sp)
      call compute_r64(k, y)
      call compute_r32(k, y_sp)
      do j = 1, some
        one = x(j)
        one_sp = real(x(j), sp)
        call compute_r64(k, one)
        call compute_r32(k, one_sp)
        call check(error, y(j) == one(1) .and. y_sp(j) == one_sp(1), names(k))
      end do
    end do
  end subroutine test_places

end module test_elementary

! SPDX-License-Identifier: MIT

!> Check that arithmetic follows IEEE 754, whatever the compiler made of it, and rounds to nearest.
!>
!> -Ofast, -ffast-math, and ifx unless told -fp-model=precise let a compiler leave out NaN and
!> reorder sums; then a diverged computation shows clean zeros, and exponentials are wrong by a
!> quarter. The Meson build takes such options back; whoever compiles otherwise gets an error here.
!>
!> Elementary functions add and take away large numbers to round to integers: where a host has set
!> another rounding, they are wrong in half of their digits.
module gnograd_core_arithmetic
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_quiet_nan, &
    & ieee_get_rounding_mode, ieee_nearest, ieee_round_type, operator(==)
  use gnograd_core_error, only: error_type, fail, code_unsupported
  use gnograd_core_kinds, only: sp
  implicit none
  private
  public :: check_arithmetic

contains

  !> Raise an error unless arithmetic follows IEEE 754 and rounds to nearest.
  subroutine check_arithmetic(error)
    type(error_type), allocatable, intent(out) :: error
    type(ieee_round_type) :: mode

    call ieee_get_rounding_mode(mode)
    if (.not. mode == ieee_nearest) then
      call fail(error, code_unsupported, "arithmetic does not round to nearest "// &
        & "(ieee_set_rounding_mode, or fesetround in C), without which gnograd's functions are "// &
        & "wrong: set ieee_nearest around its calls")
      return
    end if
    if (ieee_is_nan(hidden(ieee_value(1._sp, ieee_quiet_nan))) .and. rounds(hidden(0.25_sp))) return
    call fail(error, code_unsupported, "gnograd was compiled with options such as -Ofast, "// &
      & "-ffast-math or -fp-model=fast, which break its kernels: add -fno-fast-math, or "// &
      & "-fp-model=precise")
  end subroutine check_arithmetic

  !> x, of which the compiler knows nothing
  function hidden(x) result(y)
    real(sp), intent(in) :: x
    real(sp) :: y
    real(sp), volatile :: there

    there = x
    y = there
  end function hidden

  !> Adding a large number and taking it away rounds to an integer.
  pure function rounds(x)
    real(sp), intent(in) :: x
    logical :: rounds
    real(sp), parameter :: large = 1.5_sp*2._sp**(digits(1._sp) - 1)
    real(sp) :: t

    t = x + large
    rounds = t - large <= 0
  end function rounds

end module gnograd_core_arithmetic

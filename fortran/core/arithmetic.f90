! SPDX-License-Identifier: MIT

!> Whether the compiler kept to IEEE arithmetic.
!>
!> -Ofast, -ffast-math, and ifx unless told -fp-model=precise let a compiler leave out NaN and
!> reorder sums; then a diverged computation shows clean zeros, and exponentials are wrong by a
!> quarter. The Meson build takes such options back; whoever compiles otherwise gets an error here.
module gnograd_core_arithmetic
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_quiet_nan
  use gnograd_core_error, only: error_type, fail, code_unsupported
  use gnograd_core_kinds, only: sp
  implicit none
  private
  public :: check_arithmetic

contains

  !> Raise an error if not.
  subroutine check_arithmetic(error)
    type(error_type), allocatable, intent(out) :: error

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

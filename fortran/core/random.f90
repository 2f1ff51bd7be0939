! SPDX-License-Identifier: MIT

!> Random numbers from a seed, the same on every machine: SplitMix64 (split_mix.h), scaled, which
!> is exact.
module gnograd_core_random
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t
  use gnograd_core_kinds, only: dp, int64
  implicit none
  private
  public :: random_type, split_mix, uniforms, shuffled

  !> A sequence: random = random_type(seed=1)
  type :: random_type
    integer(int64) :: seed = 0
    !> Numbers that were taken from it
    integer(int64) :: drawn = 0
  contains
    !> The next number, equally likely in 0 <= x < 1, or low <= x < high
    procedure :: uniform
  end type random_type

  interface
    !> A number of the sequence of a seed, counted from 0.
    pure function split_mix(seed, number) result(bits) bind(c, name="gnograd_split_mix")
      import :: c_int64_t
      integer(c_int64_t), value :: seed, number
      integer(c_int64_t) :: bits
    end function split_mix

    !> Numbers first .. first + n - 1 of it as `uniform` has them, 0 <= x < 1.
    pure subroutine uniforms(seed, first, n, x) bind(c, name="gnograd_uniforms")
      import :: c_double, c_int, c_int64_t
      integer(c_int64_t), value :: seed, first
      integer(c_int), value :: n
      real(c_double), intent(out) :: x(n)
    end subroutine uniforms
  end interface

contains

  function uniform(self, low, high) result(x)
    class(random_type), intent(inout) :: self
    real(dp), intent(in), optional :: low, high
    real(dp) :: x, first, last

    first = 0
    last = 1
    if (present(low)) first = low
    if (present(high)) last = high
    x = scale(real(ishft(split_mix(self%seed, self%drawn), -11), dp), -53)
    x = first + ((last - first)*x)
    self%drawn = self%drawn + 1
  end function uniform

  !> The numbers 1 to n in an order that the seed decides (Fisher and Yates).
  pure function shuffled(n, seed) result(order)
    integer, intent(in) :: n
    integer(int64), intent(in) :: seed
    integer :: order(n), k, other, kept

    order = [(k, k=1, n)]
    do k = n, 2, -1
      other = 1 + int(modulo(ishft(split_mix(seed, int(k, int64)), -1), int(k, int64)))
      kept = order(k)
      order(k) = order(other)
      order(other) = kept
    end do
  end function shuffled

end module gnograd_core_random

! SPDX-License-Identifier: MIT

!> Exponentials are right whatever options a user gives.
program fast
  use gnograd_core_kinds, only: sp, dp
  use gnograd_primitives_elementary, only: exponentiate_r32, exponentiate_r64
  implicit none
  integer, parameter :: n = 1001
  real(sp) :: x(n), y(n)
  real(dp) :: x_dp(n), y_dp(n)
  integer :: k

  do k = 1, n
    x_dp(k) = -80*real(k - 1, dp)/(n - 1)
  end do
  x = real(x_dp, sp)
  y = x
  y_dp = x_dp
  call exponentiate_r32(n, y)
  call exponentiate_r64(n, y_dp)
  if (maxval(abs(y/exp(x) - 1)) > 4*epsilon(x)) error stop "real32"
  if (maxval(abs(y_dp/exp(x_dp) - 1)) > 4*epsilon(x_dp)) error stop "real64"
end program fast

! SPDX-License-Identifier: MIT

!> Spherical Bessel functions of several arguments side by side in vector registers, and their
!> zeros.
module gnograd_kernels_spherical_bessel
  use gnograd_core_kinds, only: dp
  use gnograd_primitives_elementary, only: sine_cosine
  implicit none
  private
  public :: lanes, spherical_bessel, bessel_zeros

  !> Arguments side by side: more than gfortran would unroll, which it does instead of vectorising
  integer, parameter :: lanes = 32

contains

  !> j_l to j_(l+extra) at t, to a few units in the last place of the larger of |j_l| and 1/t:
  !> the recurrence is stable upwards above the turning point t = l, and downwards from two power
  !> series below.
  pure subroutine spherical_bessel(l, extra, t, j)
    integer, intent(in) :: l, extra
    real(dp), intent(in) :: t(lanes)
    real(dp), intent(out) :: j(lanes, 0:extra)
    real(dp), dimension(lanes) :: before, here, next, over, cosine
    logical :: below(lanes)
    integer :: k, n_below

    below = abs(t) <= l + extra + 1
    n_below = count(below)
    if (n_below > 0) then
      next = merge(t, 1.0_dp, below)
      call bessel_series(l + extra, next, j(:, extra))
      if (extra > 0) call bessel_series(l + extra - 1, next, j(:, extra - 1))
      if (extra > 1) over = 1/next
      do k = extra - 2, 0, -1
        j(:, k) = (2*(l + k) + 3)*j(:, k + 1)*over - j(:, k + 2)
      end do
      if (n_below == lanes) return
    end if
    over = 1/merge(1.0_dp, t, below)
    call sine_cosine(lanes, t, here, cosine)
    here = here*over
    next = (here - cosine)*over
    do k = 0, l + extra
      if (k >= l) j(:, k - l) = merge(j(:, k - l), here, below)
      before = here
      here = next
      next = (2*k + 3)*here*over - before
    end do
  end subroutine spherical_bessel

  !> t^l/(2l+1)!! sum_k (-t^2/2)^k/(k! (2l+3)(2l+5)...(2l+2k+1)) for |t| <= l + 2.
  pure subroutine bessel_series(l, t, total)
    integer, intent(in) :: l
    real(dp), intent(in) :: t(lanes)
    real(dp), intent(out) :: total(lanes)
    real(dp) :: square(lanes)
    integer :: k

    square = -t*t
    total = 1
    ! enough terms to leave less than 1e-18
    do k = 14 + l, 1, -1
      total = 1 + total*(square*(1.0_dp/(2*k*(2*l + 2*k + 1))))
    end do
    do k = 1, l
      total = total*(t*(1.0_dp/(2*k + 1)))
    end do
  end subroutine bessel_series

  !> First zeros of j_0 to j_(S-1). Zeros of j_0 are n pi, each of j_l lies between two of j_(l-1).
  pure subroutine bessel_zeros(z)
    !> [R, S]
    real(dp), intent(out) :: z(:, :)
    real(dp), parameter :: pi = acos(-1.0_dp)
    real(dp) :: zeros(size(z, 1) + size(z, 2)), low, high, t, j(lanes, 0:1)
    integer :: l, n

    do n = 1, size(zeros)
      zeros(n) = n*pi
    end do
    z(:, 1) = zeros(:size(z, 1))
    do l = 1, size(z, 2) - 1
      do n = 1, size(zeros) - l
        ! Newton, and halving where that leaves the bracket; j_l has the sign of (-1)^(n-1) below
        low = zeros(n)
        high = zeros(n + 1)
        t = 0.5_dp*(low + high)
        do
          call spherical_bessel(l, 1, spread(t, 1, lanes), j)
          if (j(1, 0)*(-1)**(n - 1) > 0) then
            low = t
          else
            high = t
          end if
          associate (newton => t - j(1, 0)/(l/t*j(1, 0) - j(1, 1)))
            if (abs(newton - t) <= 4*epsilon(t)*t) exit
            t = merge(newton, 0.5_dp*(low + high), newton > low .and. newton < high)
          end associate
          if (high - low <= 4*epsilon(t)*t) exit
        end do
        zeros(n) = t
      end do
      z(:, l + 1) = zeros(:size(z, 1))
    end do
  end subroutine bessel_zeros

end module gnograd_kernels_spherical_bessel

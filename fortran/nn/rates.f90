! SPDX-License-Identifier: MIT

!> Schedules: the learning rate of a step, which counts from 1.
!>
!> But for one_cycle_rate, the rate rises in equal parts to `peak` over n_warmup steps.
module gnograd_nn_rates
  use gnograd_core_kinds, only: dp
  implicit none
  private
  public :: constant_rate, linear_rate, cosine_rate, step_rate, exponential_rate, one_cycle_rate

contains

  !> A constant rate.
  pure function constant_rate(step, peak, n_warmup) result(rate)
    integer, intent(in) :: step
    real(dp), intent(in) :: peak
    !> Steps of the rise; 0 if absent
    integer, intent(in), optional :: n_warmup
    real(dp) :: rate

    rate = peak*warmth(step, n_warmup)
  end function constant_rate

  !> A rate that falls to `last` along a line.
  pure function linear_rate(step, n_steps, peak, n_warmup, last) result(rate)
    !> Number of the step, 1 to n_steps; all steps
    integer, intent(in) :: step, n_steps
    real(dp), intent(in) :: peak
    !> Steps of the rise; 0 if absent
    integer, intent(in), optional :: n_warmup
    real(dp), intent(in), optional :: last
    real(dp) :: rate, lowest

    lowest = 0
    if (present(last)) lowest = last
    rate = warmth(step, n_warmup)*(peak + (lowest - peak)*progress(step, n_steps, n_warmup))
  end function linear_rate

  !> A rate that falls to `last` along half a cosine.
  pure function cosine_rate(step, n_steps, peak, n_warmup, last) result(rate)
    !> Number of the step, 1 to n_steps; all steps
    integer, intent(in) :: step, n_steps
    real(dp), intent(in) :: peak
    !> Steps of the rise; 0 if absent
    integer, intent(in), optional :: n_warmup
    real(dp), intent(in), optional :: last
    real(dp) :: rate, lowest

    lowest = 0
    if (present(last)) lowest = last
    rate = warmth(step, n_warmup)*half_cosine(peak, lowest, progress(step, n_steps, n_warmup))
  end function cosine_rate

  !> A rate that is multiplied by `decay` after every so many steps.
  pure function step_rate(step, every, peak, decay, n_warmup) result(rate)
    integer, intent(in) :: step, every
    real(dp), intent(in) :: peak, decay
    !> Steps of the rise; 0 if absent
    integer, intent(in), optional :: n_warmup
    real(dp) :: rate

    rate = warmth(step, n_warmup)*peak*decay**(max(0, step - 1 - warmup(n_warmup))/max(1, every))
  end function step_rate

  !> A rate that is multiplied by `decay` in the course of so many steps, by the same at each.
  pure function exponential_rate(step, every, peak, decay, n_warmup) result(rate)
    integer, intent(in) :: step, every
    real(dp), intent(in) :: peak, decay
    !> Steps of the rise; 0 if absent
    integer, intent(in), optional :: n_warmup
    real(dp) :: rate

    rate = warmth(step, n_warmup)*peak &
      & *decay**(real(max(0, step - 1 - warmup(n_warmup)), dp)/max(1, every))
  end function exponential_rate

  !> One cycle (Smith and Topin 2019): up to `peak`, down to `last`, each along half a cosine. It
  !> equals OneCycleLR of PyTorch, which leaves the momentum as it is with cycle_momentum=False.
  pure function one_cycle_rate(step, n_steps, peak, n_warmup, first, last) result(rate)
    !> Number of the step, 1 to n_steps; all steps
    integer, intent(in) :: step, n_steps
    real(dp), intent(in) :: peak
    !> Step with the highest rate; three tenths of n_steps if absent
    integer, intent(in), optional :: n_warmup
    !> First and last rate; peak/25, and 1e-4 of that, if absent
    real(dp), intent(in), optional :: first, last
    real(dp) :: rate, lowest, start
    integer :: n

    n = nint(0.3_dp*n_steps)
    if (present(n_warmup)) n = n_warmup
    start = peak/25
    if (present(first)) start = first
    lowest = 1e-4_dp*peak/25
    if (present(last)) lowest = last
    if (step < n) then
      rate = half_cosine(start, peak, part(step - 1, n - 1))
    else
      rate = half_cosine(peak, lowest, part(step - n, n_steps - n))
    end if
  end function one_cycle_rate

  ! ---- parts of schedules ----

  pure function warmup(n_warmup) result(n)
    integer, intent(in), optional :: n_warmup
    integer :: n

    n = 0
    if (present(n_warmup)) n = max(0, n_warmup)
  end function warmup

  !> Factor that rises from 0 to 1 over the first steps, and is 1 from there on.
  pure function warmth(step, n_warmup)
    integer, intent(in) :: step
    integer, intent(in), optional :: n_warmup
    real(dp) :: warmth

    warmth = part(step, warmup(n_warmup))
    if (warmup(n_warmup) == 0) warmth = 1
  end function warmth

  !> 0 over the first steps, and from there to 1.
  pure function progress(step, n_steps, n_warmup)
    integer, intent(in) :: step, n_steps
    integer, intent(in), optional :: n_warmup
    real(dp) :: progress

    progress = part(step - warmup(n_warmup), n_steps - warmup(n_warmup))
  end function progress

  !> Part of n steps that is done, from 0 to 1.
  pure function part(step, n)
    integer, intent(in) :: step, n
    real(dp) :: part

    part = max(0.0_dp, min(1.0_dp, real(step, dp)/max(1, n)))
  end function part

  !> Rate between two, level at both ends.
  pure function half_cosine(from, to, progress) result(rate)
    real(dp), intent(in) :: from, to, progress
    real(dp) :: rate
    real(dp), parameter :: pi = acos(-1.0_dp)

    rate = to + (from - to)*(1 + cos(pi*progress))/2
  end function half_cosine

end module gnograd_nn_rates

! SPDX-License-Identifier: MIT

!> The kinds of gnograd: node ids are int32, offsets and edge positions int64, reals sp or dp.
module gnograd_core_kinds
  use, intrinsic :: iso_fortran_env, only: int32, int64, sp => real32, dp => real64
  implicit none
  private
  public :: int32, int64, sp, dp
end module gnograd_core_kinds

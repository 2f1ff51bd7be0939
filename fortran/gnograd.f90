! SPDX-License-Identifier: MIT

!> Everything a Fortran program uses of gnograd.
module gnograd
  use gnograd_core_kinds, only: sp, dp, int32, int64
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_threads, only: set_n_threads
  implicit none
  public
end module gnograd

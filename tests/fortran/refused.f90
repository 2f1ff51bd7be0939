! SPDX-License-Identifier: MIT

!> Without IEEE arithmetic there are no graphs, and so none of the operators on them.
program refused
  use gnograd_core_error, only: error_type, code_unsupported
  use gnograd_core_graph, only: graph_type
  implicit none
  type(graph_type) :: graph
  type(error_type), allocatable :: error

  call graph%init([1, 2], [1], 1, error)
  if (.not. allocated(error)) error stop "compiled with -Ofast, and a graph all the same"
  if (error%code /= code_unsupported) error stop "another error"
  deallocate (error)  ! a main program never frees what it has, which is a leak to a sanitizer
end program refused

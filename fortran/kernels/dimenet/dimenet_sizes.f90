! SPDX-License-Identifier: MIT

!> Sizes of a call of agg_edge_to_edge.
module gnograd_kernels_dimenet_sizes
  use gnograd_core_codes, only: exclude_reverse_edge
  use gnograd_core_error, only: error_type, check_range, fail, code_value
  use gnograd_core_graph_view, only: graph_view
  use gnograd_records_dimenet, only: agg_edge_to_edge_static
  implicit none
  private
  public :: dimenet_static_type, read_sizes

  !> Sizes and static codes.
  type :: dimenet_static_type
    !> Degrees l and radial functions of the spherical basis
    integer :: n_spherical = 0, n_radial = 0
    !> Width of the product, of the embedding
    integer :: n_mid = 0, n_emb = 0
    !> One of exclude_* of gnograd_core_codes
    integer :: exclude = exclude_reverse_edge
  end type dimenet_static_type

contains

  !> Sizes, when they mean something, and the code.
  subroutine read_sizes(graph, static, sizes, error)
    type(graph_view), intent(in) :: graph
    type(agg_edge_to_edge_static), intent(in) :: static
    type(dimenet_static_type), intent(out) :: sizes
    type(error_type), allocatable, intent(out) :: error
    character(len=*), parameter :: name = "agg_edge_to_edge"

    call check_range(name, "n_spherical", static%n_spherical, 1, 10, error)
    call check_range(name, "n_radial", static%n_radial, 1, 16, error)
    call check_range(name, "n_mid", static%n_mid, 1, 64, error)
    call check_range(name, "n_emb", static%n_emb, 1, 512, error)
    if (allocated(error)) return
    if (.not. graph%is_square()) call fail(error, code_value, name//": the graph must have as "// &
      & "many sources as destinations, for they are the same nodes")
    sizes = dimenet_static_type(int(static%n_spherical), int(static%n_radial), &
      & int(static%n_mid), int(static%n_emb), static%exclude)
  end subroutine read_sizes

end module gnograd_kernels_dimenet_sizes

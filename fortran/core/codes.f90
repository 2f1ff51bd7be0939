! SPDX-License-Identifier: MIT

!> Static codes: the same numbers in Fortran, C, CUDA and Python.
module gnograd_core_codes
  implicit none
  public

  !> Activations of the GNO kernel network
  integer, parameter :: act_relu = 0, act_gelu = 1, act_silu = 2, act_tanh = 3, act_sin = 4, &
    & act_identity = 5
  character(len=*), parameter :: act_names(0:5) = [character(len=8) :: "relu", "gelu", "silu", &
    & "tanh", "sin", "identity"]

  !> Reductions over the edges of a destination
  integer, parameter :: reduce_sum = 0, reduce_mean = 1, reduce_min = 2, reduce_max = 3
  character(len=*), parameter :: reduce_names(0:3) = [character(len=4) :: "sum", "mean", "min", &
    & "max"]

  !> Forms of the GNO kernel: a matrix an edge, or a diagonal
  integer, parameter :: kernel_full = 0, kernel_diagonal = 1
  character(len=*), parameter :: kernel_names(0:1) = [character(len=8) :: "full", "diagonal"]

  !> Derivatives by the query positions that come with the value: first, and second in one of two
  !> forms
  integer, parameter :: order_gradient = 0, order_laplacian = 1, order_hessian = 2

  !> Coordinates of an edge that the kernel network sees: x_i - y_j, or both
  integer, parameter :: geometry_difference = 0, geometry_pair = 1
  character(len=*), parameter :: geometry_names(0:1) = [character(len=10) :: "difference", "pair"]

  !> Activations of attention scores
  integer, parameter :: score_leaky_relu = 0, score_elu = 1, score_linear = 2, score_relu = 3, &
    & score_scalar = 4, score_sigmoid = 5, score_tanh = 6
  character(len=*), parameter :: score_names(0:6) = [character(len=9) :: "LeakyReLU", "ELU", &
    & "Linear", "ReLU", "Scalar", "Sigmoid", "Tanh"]

  !> Parts of an edge's new features side by side, or added up
  integer, parameter :: update_concat = 0, update_sum = 1
  character(len=*), parameter :: update_names(0:1) = [character(len=6) :: "concat", "sum"]

  !> Triplets k -> j -> i with k = i that DimeNet leaves out: those that turn back on the same
  !> edge, all, none
  integer, parameter :: exclude_reverse_edge = 0, exclude_same_node = 1, exclude_none = 2
  character(len=*), parameter :: exclude_names(0:2) = [character(len=12) :: "reverse_edge", &
    & "same_node", "none"]

  !> Results of a network on edges that are asked for
  integer, parameter :: outputs_both = 0, outputs_edges = 1, outputs_nodes = 2
  character(len=*), parameter :: outputs_names(0:2) = [character(len=5) :: "both", "edges", "nodes"]

  !> A block of keys selected twice counts once, is refused, or counts twice
  character(len=*), parameter :: duplicate_names(0:2) = [character(len=6) :: "ignore", "error", &
    & "count"]

contains

  !> The code of a name, -1 if it is none of these; the default if there is no name.
  pure function code_of(names, default, name) result(code)
    character(len=*), intent(in) :: names(0:)
    integer, intent(in) :: default
    character(len=*), intent(in), optional :: name
    integer :: code

    code = default
    if (present(name)) code = findloc(names == name, .true., dim=1) - 1
  end function code_of

end module gnograd_core_codes

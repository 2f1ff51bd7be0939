! SPDX-License-Identifier: MIT

!> Network on the edges of a graph, as gnograd.torch.MeshGraphEdgeMLPConcat: the message of
!> MeshGraphNets (Pfaff et al. 2021).
module gnograd_nn_edge_mlp_layer
  use gnograd_core_graph, only: graph_type
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_edge_mlp, only: edge_mlp
  use gnograd_autodiff_shape, only: reshape, transpose
  use gnograd_autodiff_slice, only: concatenate
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_initializer, only: initializer_type
  use gnograd_nn_mlp, only: mlp_type
  implicit none
  private
  public :: edge_mlp_type

  !> An mlp of [e, x_src, x_dst] of every edge, added to e; and its sums at the destinations. No
  !> array of edges and hidden features is formed. Parameters have the names of an mlp's.
  type :: edge_mlp_type
    type(mlp_type) :: mlp
    integer, allocatable :: widths(:)
    character(len=:), allocatable :: activation, reduction
    logical :: residual = .true.
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init
    !> Output of the layer for an input
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type edge_mlp_type

contains

  subroutine init(self, tape, initial, name, n_edge, n_node, widths, activation, &
      & layer_norm, residual, reduction)
    class(edge_mlp_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Features of an edge, and of a node at either end
    integer, intent(in) :: n_edge, n_node
    !> Features behind every layer
    integer, intent(in) :: widths(:)
    !> Activation: relu, gelu, silu (default), tanh, sin, identity
    character(len=*), intent(in), optional :: activation
    !> Normalise behind the last layer; default: yes
    logical, intent(in), optional :: layer_norm
    !> Add e, which then has as many features as the last layer; default: yes
    logical, intent(in), optional :: residual
    !> Reduction at the nodes: sum (default), mean
    character(len=*), intent(in), optional :: reduction
    logical :: normed

    self%activation = "silu"
    if (present(activation)) self%activation = activation
    self%reduction = "sum"
    if (present(reduction)) self%reduction = reduction
    if (present(residual)) self%residual = residual
    normed = .true.
    if (present(layer_norm)) normed = layer_norm
    self%widths = widths
    call self%mlp%init(tape, initial, name, [n_edge + 2*n_node, widths], self%activation, normed)
  end subroutine init

  !> New features of the edges, and their sums or means at the nodes.
  subroutine forward(self, e, x, graph, edges, nodes)
    class(edge_mlp_type), intent(in) :: self
    !> [n_edge, n_edges]
    type(array_type), intent(in) :: e
    !> [n_node, n]
    type(array_type), intent(in) :: x
    type(graph_type), intent(in), target :: graph
    !> [widths(last), n_edges], [widths(last), n]
    type(array_type), intent(out) :: edges, nodes
    type(array_type), allocatable :: parts(:)
    integer :: k

    allocate (parts(0))
    do k = 1, size(self%mlp%layers)
      associate (layer => self%mlp%layers(k))
        parts = [parts, flat(transpose(layer%weight)), layer%bias]
      end associate
    end do
    if (self%mlp%has_norm) parts = [parts, self%mlp%norm%parameters()]
    call edge_mlp(e, x, x, concatenate(parts, 1), graph, self%widths, edges, nodes, &
      & activation=self%activation, layer_norm=self%mlp%has_norm, residual=self%residual, &
      & reduction=self%reduction)
  end subroutine forward

  function parameters(self) result(list)
    class(edge_mlp_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = self%mlp%parameters()
  end function parameters

  function flat(x) result(y)
    type(array_type), intent(in) :: x
    type(array_type) :: y

    y = reshape(x, [product(x%shape())])
  end function flat

end module gnograd_nn_edge_mlp_layer

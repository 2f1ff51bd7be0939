! SPDX-License-Identifier: MIT

!> Graph neural operator layer, as gnograd.torch.GNO.
module gnograd_nn_gno_layer
  use gnograd_core_graph, only: graph_type
  use gnograd_core_kinds, only: dp
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_gno, only: gno
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_initializer, only: initializer_type, is_positive
  implicit none
  private
  public :: gno_type

  !> Features integrated against a learned kernel of the geometry (Li et al. 2020). Parameters are
  !> <name>.U [n_hidden, coord_dim], <name>.b_u [n_hidden], <name>.V [n_out, n_in, n_hidden] and
  !> <name>.b_v [n_out, n_in], where a diagonal kernel has one axis [n_in] for the two.
  type :: gno_type
    type(array_type) :: U, b_u, V, b_v
    character(len=:), allocatable :: activation, reduction, kernel
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init
    !> Output of the layer for an input
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type gno_type

contains

  subroutine init(self, tape, initial, name, n_in, n_out, coord_dim, n_hidden, activation, &
      & reduction, kernel)
    class(gno_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Features of sources and destinations
    integer, intent(in) :: n_in, n_out
    !> Numbers that describe an edge
    integer, intent(in) :: coord_dim
    !> Width of the kernel network; 64 if absent
    integer, intent(in), optional :: n_hidden
    !> Activation: relu, gelu (default), silu, tanh, sin, identity
    character(len=*), intent(in), optional :: activation
    !> Reduction: mean (default), sum
    character(len=*), intent(in), optional :: reduction
    !> Kernel: full (default), diagonal
    character(len=*), intent(in), optional :: kernel
    real(dp) :: bound
    integer :: width

    width = 64
    if (present(n_hidden)) width = n_hidden
    self%activation = "gelu"
    if (present(activation)) self%activation = activation
    self%reduction = "mean"
    if (present(reduction)) self%reduction = reduction
    self%kernel = "full"
    if (present(kernel)) self%kernel = kernel
    if (.not. is_positive(tape, "gno", "n_in", n_in)) return
    if (.not. is_positive(tape, "gno", "n_out", n_out)) return
    if (.not. is_positive(tape, "gno", "coord_dim", coord_dim)) return
    if (.not. is_positive(tape, "gno", "n_hidden", width)) return
    ! hidden features between -1 and 1 or so; results of the size of the features
    bound = 1/sqrt(real(coord_dim, dp))
    self%U = initial%between(tape, trim(name)//".U", [width, coord_dim], bound)
    self%b_u = initial%between(tape, trim(name)//".b_u", [width], bound)
    if (self%kernel /= "diagonal") then
      bound = sqrt(3/(real(width, dp)*n_in))
      self%V = initial%between(tape, trim(name)//".V", [n_out, n_in, width], bound)
      self%b_v = initial%constant(tape, trim(name)//".b_v", [n_out, n_in], 0.0_dp)
    else if (n_in == n_out) then
      self%V = initial%between(tape, trim(name)//".V", [n_in, width], sqrt(3/real(width, dp)))
      self%b_v = initial%constant(tape, trim(name)//".b_v", [n_in], 0.0_dp)
    else
      call tape%refuse("gno: a diagonal kernel needs n_out equal to n_in")
    end if
  end subroutine init

  !> [n_in, n_src] to [n_out, n_dst]
  function forward(self, h, coords, graph, edge_weight) result(out)
    class(gno_type), intent(in) :: self
    !> Features of the sources; array_type() is 1, for a diagonal kernel
    type(array_type), intent(in) :: h
    !> [coord_dim, n_edges]
    type(array_type), intent(in) :: coords
    type(graph_type), intent(in), target :: graph
    !> Quadrature weights [n_edges]
    type(array_type), intent(in), optional :: edge_weight
    type(array_type) :: out

    out = gno(h, coords, self%U, self%b_u, self%V, self%b_v, graph, edge_weight=edge_weight, &
      & activation=self%activation, reduction=self%reduction, kernel=self%kernel)
  end function forward

  function parameters(self) result(list)
    class(gno_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%U, self%b_u, self%V, self%b_v]
  end function parameters

end module gnograd_nn_gno_layer

! SPDX-License-Identifier: MIT

!> Graph attention layer, as gnograd.torch.GATConv without edge features.
module gnograd_nn_gat_layer
  use gnograd_core_graph, only: graph_type
  use gnograd_core_kinds, only: dp
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_elementwise, only: operator(+)
  use gnograd_autodiff_attention, only: mha_gat
  use gnograd_autodiff_linalg, only: matmul
  use gnograd_autodiff_shape, only: reshape
  use gnograd_autodiff_slice, only: concatenate
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_initializer, only: initializer_type, is_positive
  implicit none
  private
  public :: gat_type

  !> Attention to the neighbours (Velickovic et al. 2018). Parameters are <name>.lin.weight
  !> [n_in, n_heads n_out], <name>.att_src and <name>.att_dst [n_out, n_heads, 1], and <name>.bias.
  !> A node has its own features only where the graph has self-loops.
  type :: gat_type
    type(array_type) :: weight, att_src, att_dst, bias
    integer :: n_out = 0, n_heads = 1
    logical :: concat_heads = .true.
    real(dp) :: negative_slope = 0.2_dp
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init
    !> Output of the layer for an input
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type gat_type

contains

  subroutine init(self, tape, initial, name, n_in, n_out, n_heads, concat_heads, negative_slope)
    class(gat_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Features of a node; features of a head
    integer, intent(in) :: n_in, n_out
    !> Number of heads; 1 if absent
    integer, intent(in), optional :: n_heads
    !> Heads side by side (default), or their mean
    logical, intent(in), optional :: concat_heads
    !> Slope of the leaky relu below 0; 0.2 if absent
    real(dp), intent(in), optional :: negative_slope

    self%n_out = n_out
    if (present(n_heads)) self%n_heads = n_heads
    if (present(concat_heads)) self%concat_heads = concat_heads
    if (present(negative_slope)) self%negative_slope = negative_slope
    if (.not. is_positive(tape, "gat", "n_in", n_in)) return
    if (.not. is_positive(tape, "gat", "n_out", n_out)) return
    if (.not. is_positive(tape, "gat", "n_heads", self%n_heads)) return
    associate (width => n_out*self%n_heads)
      self%weight = initial%weight(tape, trim(name)//".lin.weight", [n_in, width], n_in, width)
      self%att_src = initial%weight(tape, trim(name)//".att_src", [n_out, self%n_heads, 1], n_out, &
        & self%n_heads)
      self%att_dst = initial%weight(tape, trim(name)//".att_dst", [n_out, self%n_heads, 1], n_out, &
        & self%n_heads)
      self%bias = initial%constant(tape, trim(name)//".bias", [merge(width, n_out, self%concat_heads)], &
        & 0.0_dp)
    end associate
  end subroutine init

  !> [n_in, n] to [n_heads n_out, n], or [n_out, n] for the mean of the heads
  function forward(self, x, graph) result(out)
    class(gat_type), intent(in) :: self
    type(array_type), intent(in) :: x
    type(graph_type), intent(in), target :: graph
    type(array_type) :: out, h, a

    h = matmul(self%weight, x, transpose_a=.true.)
    a = concatenate([self%att_src, self%att_dst], 3)
    a = reshape(a, [2*self%n_out*self%n_heads])
    out = mha_gat(h, h, a, graph, num_heads=self%n_heads, concat_heads=self%concat_heads, &
      & negative_slope=self%negative_slope) + self%bias
  end function forward

  function parameters(self) result(list)
    class(gat_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%weight, self%att_src, self%att_dst, self%bias]
  end function parameters

end module gnograd_nn_gat_layer

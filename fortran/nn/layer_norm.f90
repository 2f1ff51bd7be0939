! SPDX-License-Identifier: MIT

!> Normalisation of the features of every node (Ba, Kiros, Hinton 2016); torch.nn.LayerNorm.
module gnograd_nn_layer_norm
  use gnograd_core_kinds, only: dp
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_elementwise, only: operator(+), operator(-), operator(*), operator(/), sqrt
  use gnograd_autodiff_reduce, only: mean
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_initializer, only: initializer_type, is_positive
  implicit none
  private
  public :: layer_norm_type

  !> y = (x - mean)/sqrt(variance + eps) weight + bias, over the first axis of x. Parameters are
  !> <name>.weight, which begins with ones, and <name>.bias, with zeros [n].
  type :: layer_norm_type
    type(array_type) :: weight, bias
    real(dp) :: eps = 1e-5_dp
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init
    !> Output of the layer for an input
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type layer_norm_type

contains

  subroutine init(self, tape, initial, name, n, eps)
    class(layer_norm_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Number of features
    integer, intent(in) :: n
    !> Number added to the variance; 1e-5 if absent
    real(dp), intent(in), optional :: eps

    if (present(eps)) self%eps = eps
    if (.not. is_positive(tape, "layer_norm", "n", n)) return
    self%weight = initial%constant(tape, trim(name)//".weight", [n], 1.0_dp)
    self%bias = initial%constant(tape, trim(name)//".bias", [n], 0.0_dp)
  end subroutine init

  function forward(self, x) result(y)
    class(layer_norm_type), intent(in) :: self
    !> [n, ...]
    type(array_type), intent(in) :: x
    type(array_type) :: y, centred

    centred = x - mean(x, 1, keep_dim=.true.)
    y = centred/sqrt(mean(centred*centred, 1, keep_dim=.true.) + self%eps)*self%weight + self%bias
  end function forward

  function parameters(self) result(list)
    class(layer_norm_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%weight, self%bias]
  end function parameters

end module gnograd_nn_layer_norm

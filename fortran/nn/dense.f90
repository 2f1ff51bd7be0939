! SPDX-License-Identifier: MIT

!> Linear layer, a matrix and a bias; torch.nn.Linear.
module gnograd_nn_dense
  use gnograd_core_kinds, only: dp
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_elementwise, only: operator(+)
  use gnograd_autodiff_linalg, only: matmul
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_activations, only: activate
  use gnograd_nn_initializer, only: initializer_type, is_positive
  implicit none
  private
  public :: dense_type

  !> y = act(transpose(weight) x + bias). Parameters are <name>.weight [n_in, n_out] and <name>.bias
  !> [n_out], which begins with zeros.
  type :: dense_type
    type(array_type) :: weight, bias
    logical :: has_bias = .true.
    character(len=:), allocatable :: activation
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init
    !> Output of the layer for an input
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type dense_type

contains

  subroutine init(self, tape, initial, name, n_in, n_out, activation, bias)
    class(dense_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Features of the input and of the output
    integer, intent(in) :: n_in, n_out
    !> Activation: relu, gelu, silu, tanh, sin, sigmoid or identity (default)
    character(len=*), intent(in), optional :: activation
    !> Have a bias; default: yes
    logical, intent(in), optional :: bias

    self%activation = "identity"
    if (present(activation)) self%activation = activation
    if (present(bias)) self%has_bias = bias
    if (.not. is_positive(tape, "dense", "n_in", n_in)) return
    if (.not. is_positive(tape, "dense", "n_out", n_out)) return
    self%weight = initial%weight(tape, trim(name)//".weight", [n_in, n_out], n_in, n_out)
    if (self%has_bias) self%bias = initial%constant(tape, trim(name)//".bias", [n_out], 0.0_dp)
  end subroutine init

  !> [n_in, n] to [n_out, n], or one column
  function forward(self, x) result(y)
    class(dense_type), intent(in) :: self
    type(array_type), intent(in) :: x
    type(array_type) :: y

    if (size(x%shape()) == 1) then
      y = matmul(x, self%weight)
    else
      y = matmul(self%weight, x, transpose_a=.true.)
    end if
    if (self%has_bias) y = y + self%bias
    y = activate("dense", self%activation, y)
  end function forward

  function parameters(self) result(list)
    class(dense_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    if (self%has_bias) then
      list = [self%weight, self%bias]
    else
      list = [self%weight]
    end if
  end function parameters

end module gnograd_nn_dense

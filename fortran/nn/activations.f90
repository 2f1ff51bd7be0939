! SPDX-License-Identifier: MIT

!> Activation functions by name.
module gnograd_nn_activations
  use gnograd_core_error, only: code_value
  use gnograd_autodiff_array, only: array_type, is_open
  use gnograd_autodiff_operands, only: fail
  use gnograd_autodiff_activation, only: relu, gelu, silu, tanh, sigmoid
  use gnograd_autodiff_elementwise, only: sin
  implicit none
  private
  public :: activate

contains

  !> Apply relu, gelu, silu, tanh, sin, sigmoid or identity; another name marks the tape.
  function activate(layer, name, x) result(y)
    !> Name of the layer, for messages; name of the activation
    character(len=*), intent(in) :: layer, name
    type(array_type), intent(in) :: x
    type(array_type) :: y

    select case (name)
    case ("relu")
      y = relu(x)
    case ("gelu")
      y = gelu(x)
    case ("silu")
      y = silu(x)
    case ("tanh")
      y = tanh(x)
    case ("sin")
      y = sin(x)
    case ("sigmoid")
      y = sigmoid(x)
    case ("identity")
      y = x
    case default
      if (is_open(x)) call fail(x%store, code_value, layer//": activation is '"//name// &
        & "', needs relu, gelu, silu, tanh, sin, sigmoid or identity")
    end select
  end function activate

end module gnograd_nn_activations

! SPDX-License-Identifier: MIT

!> Activation functions by name.
module gnograd_nn_activations
  use gnograd_core_codes, only: act_names, code_of
  use gnograd_core_error, only: code_value, error_type, set_error => fail
  use gnograd_autodiff_array, only: array_type, is_open
  use gnograd_autodiff_operands, only: fail
  use gnograd_autodiff_activation, only: relu, gelu, silu, tanh, sigmoid, act_sigmoid
  use gnograd_autodiff_elementwise, only: sin
  implicit none
  private
  public :: activate, find_activation

  character(len=*), parameter :: needed = &
    & "', needs relu, gelu, silu, tanh, sin, sigmoid or identity"

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
      if (is_open(x)) call fail(x%store, code_value, layer//": activation is '"//name//needed)
    end select
  end function activate

  !> Code of an activation, for plain arrays; an earlier error stays.
  subroutine find_activation(layer, name, code, error)
    !> Name of the layer, for messages; name of the activation
    character(len=*), intent(in) :: layer, name
    integer, intent(out) :: code
    type(error_type), allocatable, intent(inout) :: error

    code = code_of(act_names, -1, name)
    if (name == "sigmoid") code = act_sigmoid
    if (code < 0 .and. .not. allocated(error)) call set_error(error, code_value, &
      & layer//": activation is '"//name//needed)
  end subroutine find_activation

end module gnograd_nn_activations

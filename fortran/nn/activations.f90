! SPDX-License-Identifier: MIT

!> Activation functions by name.
module gnograd_nn_activations
  use gnograd_core_codes, only: act_names, code_of
  use gnograd_core_error, only: code_value, error_type, fail
  use gnograd_autodiff_activation, only: act_sigmoid
  implicit none
  private
  public :: find_activation

  character(len=*), parameter :: needed = &
    & "', needs relu, gelu, silu, tanh, sin, sigmoid or identity"

contains

  !> Code of an activation, act_sigmoid among them; an earlier error stays.
  subroutine find_activation(layer, name, code, error)
    !> Name of the layer, for messages; name of the activation
    character(len=*), intent(in) :: layer, name
    integer, intent(out) :: code
    type(error_type), allocatable, intent(inout) :: error

    code = code_of(act_names, -1, name)
    if (name == "sigmoid") code = act_sigmoid
    if (code < 0 .and. .not. allocated(error)) call fail(error, code_value, &
      & layer//": activation is '"//name//needed)
  end subroutine find_activation

end module gnograd_nn_activations

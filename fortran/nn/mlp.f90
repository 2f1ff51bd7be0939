! SPDX-License-Identifier: MIT

!> Several linear layers with activations between them, and a normalisation behind.
module gnograd_nn_mlp
  use gnograd_core_error, only: text
  use gnograd_core_kinds, only: int64
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_dense, only: dense_type
  use gnograd_nn_initializer, only: initializer_type
  use gnograd_nn_layer_norm, only: layer_norm_type
  implicit none
  private
  public :: mlp_type

  !> Parameters are those of the layers, with the names that torch.nn.Sequential has for linear
  !> layers and activations by turns, and a LayerNorm: <name>.0.weight, <name>.0.bias, <name>.2.weight, ...
  type :: mlp_type
    type(dense_type), allocatable :: layers(:)
    logical :: has_norm = .false.
    type(layer_norm_type) :: norm
  contains
    !> New parameters on a tape, by their sizes
    procedure :: init => mlp_init
    !> Output of the layers for an input
    procedure :: forward => mlp_forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type mlp_type

contains

  subroutine mlp_init(self, tape, initial, name, widths, activation, layer_norm)
    class(mlp_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    class(initializer_type), intent(inout) :: initial
    character(len=*), intent(in) :: name
    !> Features before the first layer and behind each: [3, 64, 64, 1] are three layers
    integer, intent(in) :: widths(:)
    !> Activation between the layers, not behind the last: gelu (default), or as for dense
    character(len=*), intent(in), optional :: activation
    !> Normalise behind the last layer; default: no
    logical, intent(in), optional :: layer_norm
    character(len=:), allocatable :: act
    integer :: k, n

    n = size(widths) - 1
    if (allocated(self%layers)) deallocate (self%layers)
    allocate (self%layers(max(n, 0)))
    if (n < 1) then
      call tape%refuse("mlp: widths has less than two entries")
      return
    end if
    act = "gelu"
    if (present(activation)) act = activation
    do k = 1, n
      if (k == n) act = "identity"
      call self%layers(k)%init(tape, initial, trim(name)//"."//text(int(2*(k - 1), int64)), widths(k), &
        & widths(k + 1), act)
    end do
    self%has_norm = .false.
    if (present(layer_norm)) self%has_norm = layer_norm
    if (self%has_norm) call self%norm%init(tape, initial, trim(name)//"."//text(int(2*n - 1, int64)), &
      & widths(n + 1))
  end subroutine mlp_init

  !> [widths(1), n] to [widths(last), n]
  function mlp_forward(self, x) result(y)
    class(mlp_type), intent(in) :: self
    type(array_type), intent(in) :: x
    type(array_type) :: y
    integer :: k

    y = x
    do k = 1, size(self%layers)
      y = self%layers(k)%forward(y)
    end do
    if (self%has_norm) y = self%norm%forward(y)
  end function mlp_forward

  function parameters(self) result(list)
    class(mlp_type), intent(in) :: self
    type(array_type), allocatable :: list(:)
    integer :: k

    allocate (list(0))
    do k = 1, size(self%layers)
      list = [list, self%layers(k)%parameters()]
    end do
    if (self%has_norm) list = [list, self%norm%parameters()]
  end function parameters

end module gnograd_nn_mlp

! SPDX-License-Identifier: MIT

!> New parameters: their kinds and the numbers that they begin with.
module gnograd_nn_initializer
  use gnograd_core_kinds, only: sp, dp, int64
  use gnograd_core_error, only: text
  use gnograd_core_random, only: random_type
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_tape, only: tape_type
  implicit none
  private
  public :: initializer_type, is_positive

  !> Maker of the parameters of layers, one after the other: initial = initializer_type(seed=1). A
  !> seed gives the same bits on every machine.
  type, extends(random_type) :: initializer_type
    !> Kind of the parameters: sp or dp
    integer :: kind = dp
    !> "glorot" (Glorot and Bengio 2010) or "he" (He et al. 2015, for relu and the like): weights
    !> are equally likely between -b and b, with b**2 = 6/(n_in + n_out) or 6/n_in
    character(len=6) :: rule = "glorot"
  contains
    !> A weight that n_in numbers go through, to n_out
    procedure :: weight
    !> A parameter with numbers between -bound and bound
    procedure :: between
    !> A parameter with one number everywhere
    procedure :: constant
  end type initializer_type

contains

  function weight(self, tape, name, extents, n_in, n_out) result(x)
    class(initializer_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    !> Name of the parameter in files
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    integer, intent(in) :: n_in, n_out
    type(array_type) :: x

    select case (self%rule)
    case ("glorot")
      x = self%between(tape, name, extents, sqrt(6.0_dp/max(1, n_in + n_out)))
    case ("he")
      x = self%between(tape, name, extents, sqrt(6.0_dp/max(1, n_in)))
    case default
      call tape%refuse(name//": rule is '"//trim(self%rule)//"', needs glorot or he")
    end select
  end function weight

  function between(self, tape, name, extents, bound) result(x)
    class(initializer_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    real(dp), intent(in) :: bound
    type(array_type) :: x
    real(dp), allocatable :: values(:)
    integer :: k

    allocate (values(product(extents)))
    do k = 1, size(values)
      values(k) = self%uniform(-bound, bound)
    end do
    x = parameter_of(self, tape, name, extents, values)
  end function between

  function constant(self, tape, name, extents, number) result(x)
    class(initializer_type), intent(in) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    real(dp), intent(in) :: number
    type(array_type) :: x
    real(dp), allocatable :: values(:)

    allocate (values(product(extents)), source=number)
    x = parameter_of(self, tape, name, extents, values)
  end function constant

  !> A parameter with these values, of rank 1 to 3.
  function parameter_of(self, tape, name, extents, values) result(x)
    class(initializer_type), intent(in) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    real(dp), intent(in) :: values(:)
    type(array_type) :: x
    character(len=:), allocatable :: full_name
    logical :: narrow

    narrow = self%kind == sp
    ! in a layer without a name, a parameter has a name of its own
    full_name = name(merge(2, 1, index(name, ".") == 1):)
    select case (size(extents))
    case (1)
      if (narrow) x = tape%parameter(real(values, sp), full_name)
      if (.not. narrow) x = tape%parameter(values, full_name)
    case (2)
      if (narrow) x = tape%parameter(reshape(real(values, sp), extents(1:2)), full_name)
      if (.not. narrow) x = tape%parameter(reshape(values, extents(1:2)), full_name)
    case (3)
      if (narrow) x = tape%parameter(reshape(real(values, sp), extents(1:3)), full_name)
      if (.not. narrow) x = tape%parameter(reshape(values, extents(1:3)), full_name)
    end select
  end function parameter_of

  !> True if a size of a layer is positive; if not, the tape is marked.
  function is_positive(tape, layer, argument, n)
    class(tape_type), intent(in) :: tape
    !> Names for the message
    character(len=*), intent(in) :: layer, argument
    integer, intent(in) :: n
    logical :: is_positive

    is_positive = n > 0
    if (.not. is_positive) call tape%refuse(layer//": "//argument//" is "// &
      & text(int(n, int64))//", needs 1 or more")
  end function is_positive

end module gnograd_nn_initializer

! SPDX-License-Identifier: MIT

!> New parameters: of which kind, and what numbers they begin with.
module gnograd_nn_initializer
  use gnograd_core_kinds, only: sp, dp, int64
  use gnograd_core_error, only: code_value, text
  use gnograd_core_random, only: random_type
  use gnograd_autodiff_array, only: array_type, node_type, fail, max_rank, kind_r32, kind_r64
  use gnograd_autodiff_tape, only: tape_type
  implicit none
  private
  public :: initializer_type, is_positive

  !> What layers make their parameters by, one after the other: initial = initializer_type(seed=1).
  !> The same seed gives the same bits on every machine.
  type, extends(random_type) :: initializer_type
    !> sp or dp
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
    !> For files
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
      if (associated(tape%store)) call fail(tape%store, code_value, name//": rule is '"// &
        & trim(self%rule)//"', needs glorot or he")
    end select
  end function weight

  function between(self, tape, name, extents, bound) result(x)
    class(initializer_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    real(dp), intent(in) :: bound
    type(array_type) :: x
    type(node_type), pointer :: node
    integer(int64) :: k

    call place(self, tape, name, extents, x, node)
    if (.not. associated(node)) return
    do k = 1, node%size
      if (node%kind == kind_r32) then
        node%value%r32(k) = real(self%uniform(-bound, bound), sp)
      else
        node%value%r64(k) = self%uniform(-bound, bound)
      end if
    end do
  end function between

  function constant(self, tape, name, extents, number) result(x)
    class(initializer_type), intent(in) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    real(dp), intent(in) :: number
    type(array_type) :: x
    type(node_type), pointer :: node

    call place(self, tape, name, extents, x, node)
    if (.not. associated(node)) return
    if (node%kind == kind_r32) then
      node%value%r32(:) = real(number, sp)
    else
      node%value%r64(:) = number
    end if
  end function constant

  !> A parameter whose numbers are to be filled in.
  subroutine place(self, tape, name, extents, x, node)
    class(initializer_type), intent(in) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    integer, intent(in) :: extents(:)
    type(array_type), intent(out) :: x
    !> Null on error
    type(node_type), pointer, intent(out) :: node
    integer(int64) :: shape(max_rank)

    shape = 1
    shape(:size(extents)) = extents
    ! of a layer without a name, a parameter has that of its own
    call tape%leaf(merge(kind_r32, kind_r64, self%kind == sp), size(extents), shape, .true., x, &
      & node, name(merge(2, 1, index(name, ".") == 1):))
  end subroutine place

  !> Whether a size of a layer is one; if not, the tape is marked.
  function is_positive(tape, layer, argument, n)
    class(tape_type), intent(in) :: tape
    !> For the message
    character(len=*), intent(in) :: layer, argument
    integer, intent(in) :: n
    logical :: is_positive

    is_positive = n > 0
    if (is_positive .or. .not. associated(tape%store)) return
    call fail(tape%store, code_value, layer//": "//argument//" is "//text(int(n, int64))// &
      & ", needs 1 or more")
  end function is_positive

end module gnograd_nn_initializer

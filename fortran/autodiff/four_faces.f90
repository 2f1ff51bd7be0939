! SPDX-License-Identifier: MIT

!> Operators with four faces (forward, vjp, jvp, hvp) on the tape.
!>
!> The gradients of y = f(x) are themselves operations on the tape: with the cotangent c of y,
!> g = vjp(c, x). Given a cotangent v of g, c gets jvp(x, v), and x gets hvp(c, x, v). That is all
!> the second order needs; a third one is refused.
!>
!> Bilinear operators have derivatives of any order: with T(c, x) = <c, f(x)>, linear in c and in each
!> x, the operation is the derivative of T to one of them, from the others. Pulling it back gives
!> derivatives of T again. One file: each face is pulled back to the others.
module gnograd_autodiff_four_faces
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, code_memory, code_unsupported
  use gnograd_autodiff_array, only: array_type, operation_type, node_type, node_ref, max_rank, &
    & kind_r32, kind_r64
  use gnograd_autodiff_operands, only: resolve, fail
  use gnograd_autodiff_store, only: push_result, push_leaf
  use gnograd_autodiff_values, only: address_in
  use gnograd_cuda, only: gnograd_cuda_graph
  use gnograd_device, only: device_type
  use gnograd_autodiff_shape, only: reshape_to
  use gnograd_autodiff_slice, only: slice
  implicit none
  private
  public :: four_face_operation, apply, addresses_of, parts_of, saved_by

  !> An operator with its static arguments; families extend it by their kernels.
  type, abstract, extends(operation_type) :: four_face_operation
    !> Name of the operator, for messages
    character(len=24) :: name = ""
    !> False if memory ran out for its static arrays
    logical :: complete = .true.
    !> True if there are two inputs, and the output is linear in each, given the other
    logical :: bilinear = .false.
    !> Values of each output; several lie one behind the other in one node
    integer(int64), allocatable :: counts(:)
    !> Items of each array that evaluate saves for reverse, 0 where it is not needed; whether they
    !> are 64-bit integers
    integer(int64), allocatable :: saved_counts(:)
    logical, allocatable :: saved_integers(:)
    !> Device of the arrays; addresses of the graph there
    type(device_type) :: device
    type(gnograd_cuda_graph) :: graph_on_device
  contains
    procedure(evaluate_interface), deferred :: evaluate
    procedure(reverse_interface), deferred :: reverse
    procedure :: pullback => four_face_pullback
  end type four_face_operation

  abstract interface
    !> The output of the inputs (forward), or with tangents its tangent (jvp). Null pointers are
    !> absent inputs and tangents that are zero. Fills output%saved, too, if it has memory.
    subroutine evaluate_interface(self, inputs, output, error, tangents)
      import :: four_face_operation, node_ref, node_type, error_type
      class(four_face_operation), intent(in), target :: self
      type(node_ref), intent(in) :: inputs(:)
      type(node_type), intent(inout), target :: output
      type(error_type), allocatable, intent(out) :: error
      type(node_ref), intent(in), optional :: tangents(:)
    end subroutine evaluate_interface

    !> Gradients to the inputs (vjp), or with tangents their tangents (hvp). Null pointers are also
    !> gradients that nobody wants. Evaluate has filled output if it is present.
    subroutine reverse_interface(self, cotangent, inputs, gradients, error, tangents, output)
      import :: four_face_operation, node_ref, node_type, error_type
      class(four_face_operation), intent(in), target :: self
      type(node_type), intent(in), target :: cotangent
      type(node_ref), intent(in) :: inputs(:)
      type(node_ref), intent(in) :: gradients(:)
      type(error_type), allocatable, intent(out) :: error
      type(node_ref), intent(in), optional :: tangents(:)
      type(node_type), intent(in), target, optional :: output
    end subroutine reverse_interface
  end interface

  !> All wanted gradients, one behind the other in one vector; operands are c and x.
  type, extends(operation_type) :: vjp_operation
    class(four_face_operation), allocatable :: face
    !> True for the inputs whose gradients are in the vector
    logical, allocatable :: wanted(:)
  contains
    procedure :: pullback => vjp_pullback
  end type vjp_operation

  integer, parameter :: all_slots(0:2) = [0, 1, 2]

  !> The derivative of <c, f(x)> to one slot, from the others: slot 0 is c, whose derivative is the
  !> output, slot k input k.
  type, extends(operation_type) :: bilinear_operation
    class(four_face_operation), allocatable :: face
    integer :: slot = 0
    !> Ranks and shapes of all slots, extents in Fortran order
    integer :: ranks(0:2)
    integer(int64) :: shapes(max_rank, 0:2)
  contains
    procedure :: pullback => bilinear_pullback
  end type bilinear_operation

  !> Results of jvp and hvp.
  type, extends(operation_type) :: last_operation
    character(len=24) :: name = ""
  contains
    procedure :: pullback => last_pullback
  end type last_operation

contains

  !> The outputs of a four-face operator as arrays. The operator is moved to the tape.
  subroutine apply(operator, inputs, absent, ranks, shapes, outputs)
    class(four_face_operation), allocatable, intent(inout) :: operator
    !> Checked by the operator
    type(array_type), intent(in) :: inputs(:)
    !> Inputs that may be absent
    logical, intent(in) :: absent(:)
    !> Ranks and shapes of the outputs, extents in Fortran order [max_rank, :]
    integer, intent(in) :: ranks(:)
    integer(int64), intent(in) :: shapes(:, :)
    type(array_type), intent(out) :: outputs(:)
    type(array_type) :: packed
    integer(int64) :: counts(size(ranks)), first
    integer :: k

    counts = product(shapes, dim=1)
    operator%counts = counts
    if (size(ranks) == 1) then
      call push_outputs(operator, inputs, absent, ranks(1), shapes(:, 1), outputs(1))
      return
    end if
    call push_outputs(operator, inputs, absent, 1, [sum(counts), 1_int64, 1_int64, 1_int64], &
      & packed)
    if (packed%id == 0) return
    first = 1
    do k = 1, size(ranks)
      outputs(k) = reshape_to(slice(packed, [first], [counts(k)]), ranks(k), shapes(:, k))
      first = first + counts(k)
    end do
  end subroutine apply

  !> The node of all outputs.
  subroutine push_outputs(operator, inputs, absent, rank, shape, y)
    class(four_face_operation), allocatable, intent(inout) :: operator
    type(array_type), intent(in) :: inputs(:)
    logical, intent(in) :: absent(:)
    integer, intent(in) :: rank
    integer(int64), intent(in) :: shape(max_rank)
    type(array_type), intent(out) :: y
    type(node_ref) :: x(size(inputs))
    type(node_type), pointer :: z
    type(error_type), allocatable :: error
    integer(int64) :: n
    integer :: first, kind
    logical :: ok

    call resolve(trim(operator%name), inputs, x, ok, absent)
    if (.not. ok) return
    first = findloc(inputs%id > 0, .true., dim=1)
    associate (store => inputs(first)%store)
      call push_result(store, x(first)%node%kind, rank, shape, inputs, y, z)
      if (.not. associated(z)) return
      if (z%requires_grad) then
        call count_saved(operator, z%kind, kind, n)
        if (n > 0) call store%pool%take(kind, n, z%saved, ok)
      end if
      if (ok) then
        call operator%evaluate(x, z, error)
        if (z%requires_grad) call move_alloc(operator, z%operation)
        if (.not. allocated(error)) return
        call fail(store, error%code, error%message)
      else
        call fail(store, code_memory, trim(operator%name)//": not enough memory")
      end if
    end associate
    y = array_type()
  end subroutine push_outputs

  ! ---- where arrays lie, for the entry points ----

  !> The memory for all that is saved: integers first, then reals.
  subroutine count_saved(operator, of_values, kind, n)
    class(four_face_operation), intent(in) :: operator
    !> Kind of the values
    integer, intent(in) :: of_values
    !> Kind and count of the numbers that the memory takes
    integer, intent(out) :: kind
    integer(int64), intent(out) :: n
    integer(int64) :: n_integers

    kind = of_values
    n = 0
    if (.not. allocated(operator%saved_counts)) return
    n = sum(operator%saved_counts, mask=.not. operator%saved_integers)
    n_integers = sum(operator%saved_counts, mask=operator%saved_integers)
    if (n_integers == 0) return
    if (kind == kind_r32) n = (n + 1)/2
    kind = kind_r64
    n = n + n_integers
  end subroutine count_saved

  !> Addresses of what forward saved, or is to save; null for what is not needed or not there.
  function saved_by(operator, output) result(addresses)
    class(four_face_operation), intent(in) :: operator
    type(node_type), intent(in), target, optional :: output
    type(c_ptr) :: addresses(size(operator%saved_counts))
    integer(int64) :: at
    integer :: k, pass
    logical :: narrow

    addresses = c_null_ptr
    if (.not. present(output)) return
    at = 0
    do pass = 1, 2
      do k = 1, size(addresses)
        associate (n => operator%saved_counts(k))
          if (n == 0 .or. (operator%saved_integers(k) .neqv. pass == 1)) cycle
          narrow = associated(output%saved%r32)
          if (narrow) then
            addresses(k) = c_loc(output%saved%r32(at + 1))
          else if (associated(output%saved%r64)) then
            addresses(k) = c_loc(output%saved%r64(at + 1))
          end if
          ! reals of 32 bits behind integers
          if (pass == 2 .and. output%kind == kind_r32 .and. .not. narrow) then
            at = at + (n + 1)/2
          else
            at = at + n
          end if
        end associate
      end do
    end do
  end function saved_by

  !> Addresses of the values of nodes, null where there is none.
  function addresses_of(nodes) result(addresses)
    type(node_ref), intent(in) :: nodes(:)
    type(c_ptr) :: addresses(size(nodes))
    integer :: k

    addresses = c_null_ptr
    do k = 1, size(nodes)
      if (associated(nodes(k)%node)) &
        & addresses(k) = address_in(nodes(k)%node%value, nodes(k)%node%kind, 0_int64, &
        & nodes(k)%node%size)
    end do
  end function addresses_of

  !> Addresses of the outputs in their node, or of their cotangents.
  function parts_of(operator, node) result(addresses)
    class(four_face_operation), intent(in) :: operator
    type(node_type), intent(in), target, optional :: node
    type(c_ptr) :: addresses(size(operator%counts))
    integer(int64) :: at
    integer :: k

    addresses = c_null_ptr
    if (.not. present(node)) return
    at = 0
    do k = 1, size(addresses)
      ! an output that is not asked for is a null pointer to the CUDA library
      if (operator%counts(k) > 0 .or. .not. operator%device%active) &
        & addresses(k) = address_in(node%value, node%kind, at, operator%counts(k))
      at = at + operator%counts(k)
    end do
  end function parts_of

  ! ---- on the way back ----

  subroutine four_face_pullback(self, operands, output, cotangent, wanted, gradients)
    class(four_face_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)
    type(node_ref) :: x(size(operands)), grad(size(operands))
    type(node_type), pointer :: c, y
    type(error_type), allocatable :: error
    logical :: ok
    integer :: k

    if (output%store%recording) then
      if (self%bilinear) then
        call record_derivatives(self, operands, cotangent, wanted, gradients)
      else
        call record_vjp(self, operands, output, cotangent, wanted, gradients)
      end if
      return
    end if
    call resolve(trim(self%name), cotangent, output, c, y)
    call resolve(trim(self%name), operands, x, ok, operands%id == 0)
    if (.not. (ok .and. associated(c))) return
    do k = 1, size(operands)
      if (.not. wanted(k)) cycle
      call push_leaf(output%store, c%kind, x(k)%node%rank, x(k)%node%shape, gradients(k), &
        & grad(k)%node)
      if (.not. associated(grad(k)%node)) return
    end do
    call self%reverse(c, x, grad, error, output=y)
    if (allocated(error)) call fail(output%store, error%code, error%message)
  end subroutine four_face_pullback

  !> The gradients as an operation that can be pulled back in its turn.
  subroutine record_vjp(self, operands, output, cotangent, wanted, gradients)
    class(four_face_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)
    type(node_ref) :: x(size(operands)), grad(size(operands))
    type(node_type), target :: part(size(operands))
    type(node_type), pointer :: c, y, z
    type(array_type) :: packed
    type(vjp_operation) :: operation
    type(error_type), allocatable :: error
    integer(int64) :: shape(max_rank), at
    integer :: k, status
    logical :: ok

    call resolve(trim(self%name), cotangent, output, c, y)
    call resolve(trim(self%name), operands, x, ok, operands%id == 0)
    if (.not. (ok .and. associated(c))) return
    shape = [0_int64, 1_int64, 1_int64, 1_int64]
    do k = 1, size(operands)
      if (wanted(k)) shape(1) = shape(1) + x(k)%node%size
    end do
    allocate (operation%wanted(size(wanted)), stat=status)
    if (status == 0) allocate (operation%face, source=self, stat=status)
    if (status /= 0) then
      call fail(cotangent%store, code_memory, trim(self%name)//": not enough memory")
      return
    end if
    operation%wanted(:) = wanted
    call push_result(cotangent%store, c%kind, 1, shape, [cotangent, operands], operation, packed, z)
    if (.not. associated(z)) return
    ! the kernels write into parts of z
    at = 0
    do k = 1, size(operands)
      if (.not. wanted(k)) cycle
      part(k)%kind = z%kind
      part(k)%rank = x(k)%node%rank
      part(k)%shape = x(k)%node%shape
      part(k)%size = x(k)%node%size
      if (z%kind == kind_r32) then
        part(k)%value%r32 => z%value%r32(at + 1:at + part(k)%size)
      else
        part(k)%value%r64 => z%value%r64(at + 1:at + part(k)%size)
      end if
      grad(k)%node => part(k)
      at = at + part(k)%size
    end do
    call self%reverse(c, x, grad, error, output=y)
    if (allocated(error)) then
      call fail(cotangent%store, error%code, error%message)
      return
    end if
    call unpack_parts(packed, x, wanted, gradients)
  end subroutine record_vjp

  !> The parts of a vector as arrays of the shapes of x.
  subroutine unpack_parts(packed, x, wanted, parts)
    type(array_type), intent(in) :: packed
    type(node_ref), intent(in) :: x(:)
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: parts(:)
    integer(int64) :: first
    integer :: k

    first = 1
    do k = 1, size(x)
      if (.not. wanted(k)) cycle
      associate (like => x(k)%node)
        parts(k) = reshape_to(slice(packed, [first], [like%size]), like%rank, like%shape)
        first = first + like%size
      end associate
    end do
  end subroutine unpack_parts

  subroutine vjp_pullback(self, operands, output, cotangent, wanted, gradients)
    class(vjp_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)
    type(node_ref) :: x(size(operands) - 1), tangent(size(operands) - 1), grad(size(operands) - 1)
    type(node_type), pointer :: c, t
    type(array_type) :: direction(size(operands) - 1)
    type(last_operation) :: last
    type(error_type), allocatable :: error
    logical :: ok
    integer :: k

    call resolve(trim(self%face%name), operands(1), c)
    call resolve(trim(self%face%name), operands(2:), x, ok, operands(2:)%id == 0)
    if (.not. (ok .and. associated(c))) return
    call unpack_parts(cotangent, x, self%wanted, direction)
    call resolve(trim(self%face%name), direction, tangent, ok, .not. self%wanted)
    if (.not. ok) return

    last%name = self%face%name
    if (wanted(1)) then
      call place(c, gradients(1), t)
      if (.not. associated(t)) return
      call self%face%evaluate(x, t, error, tangent)
    end if
    do k = 1, size(x)
      if (.not. wanted(k + 1)) cycle
      call place(x(k)%node, gradients(k + 1), grad(k)%node)
      if (.not. associated(grad(k)%node)) return
    end do
    if (any(wanted(2:)) .and. .not. allocated(error)) &
      & call self%face%reverse(c, x, grad, error, tangent)
    if (allocated(error)) call fail(output%store, error%code, error%message)

  contains

    !> A node shaped like another one, which cannot be differentiated further.
    subroutine place(like, made, node)
      type(node_type), intent(in) :: like
      type(array_type), intent(out) :: made
      type(node_type), pointer, intent(out) :: node

      call push_result(output%store, like%kind, like%rank, like%shape, [cotangent, operands], &
        & last, made, node)
    end subroutine place

  end subroutine vjp_pullback

  ! ---- bilinear operators ----

  !> The gradients as operations of the same kind.
  subroutine record_derivatives(self, operands, cotangent, wanted, gradients)
    class(four_face_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)
    type(array_type) :: slots(0:2)
    type(node_ref) :: nodes(0:2)
    type(bilinear_operation) :: operation
    logical :: ok
    integer :: k, status

    slots = [cotangent, operands]
    call resolve(trim(self%name), slots, nodes, ok)
    if (.not. ok) return
    allocate (operation%face, source=self, stat=status)
    if (status /= 0) then
      call fail(cotangent%store, code_memory, trim(self%name)//": not enough memory")
      return
    end if
    do k = 0, 2
      operation%ranks(k) = nodes(k)%node%rank
      operation%shapes(:, k) = nodes(k)%node%shape
    end do
    do k = 1, 2
      if (wanted(k)) gradients(k) = derivative(operation, slots, k)
    end do
  end subroutine record_derivatives

  !> The derivative to one slot.
  function derivative(operation, slots, slot) result(d)
    class(bilinear_operation), intent(inout) :: operation
    !> All slots; that of the derivative is not read
    type(array_type), intent(in) :: slots(0:2)
    integer, intent(in) :: slot
    type(array_type) :: d, others(2)
    type(node_ref) :: nodes(0:2), gradients(2)
    type(node_type), pointer :: z
    type(error_type), allocatable :: error
    logical :: ok

    operation%slot = slot
    others = pack(slots, all_slots /= slot)
    call resolve(trim(operation%face%name), slots, nodes, ok, all_slots == slot)
    if (.not. ok) return
    call push_result(others(1)%store, nodes(merge(1, 0, slot == 0))%node%kind, &
      & operation%ranks(slot), operation%shapes(:, slot), others, operation, d, z)
    if (.not. associated(z)) return
    if (slot == 0) then
      call operation%face%evaluate(nodes(1:), z, error)
    else
      ! no input is read for its own gradient, but its address must not be null
      nodes(slot)%node => z
      gradients(slot)%node => z
      call operation%face%reverse(nodes(0)%node, nodes(1:), gradients, error)
    end if
    if (.not. allocated(error)) return
    call fail(others(1)%store, error%code, error%message)
    d = array_type()
  end function derivative

  subroutine bilinear_pullback(self, operands, output, cotangent, wanted, gradients)
    class(bilinear_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)
    class(bilinear_operation), allocatable :: operation
    type(array_type) :: slots(0:2)
    integer :: others(2), k, status

    allocate (operation, source=self, stat=status)
    if (status /= 0) then
      call fail(output%store, code_memory, trim(self%face%name)//": not enough memory")
      return
    end if
    others = pack(all_slots, all_slots /= self%slot)
    slots(self%slot) = cotangent
    do k = 1, 2
      slots(others(k)) = operands(k)
    end do
    do k = 1, 2
      if (wanted(k)) gradients(k) = derivative(operation, slots, others(k))
    end do
  end subroutine bilinear_pullback

  subroutine last_pullback(self, operands, output, cotangent, wanted, gradients)
    class(last_operation), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)

    call fail(output%store, code_unsupported, trim(self%name)// &
      & ": third derivatives are not available")
  end subroutine last_pullback

end module gnograd_autodiff_four_faces

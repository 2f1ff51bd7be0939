! SPDX-License-Identifier: MIT

!> Checks that hold for every operator: its four faces on plain arrays against differences and each
!> other, with absent tangents and gradients, and its operation on the tape against those faces.
module faces
  use gnograd, only: array_type, tape_type, reshape, slice, sum, operator(*), dp, int64
  use gnograd_core_error, only: error_type
  use testing, only: check
  implicit none
  private
  public :: operator_type, check_faces, check_tape, close, numbers

  !> Step of central differences, and how far they may be from what they stand for
  real(dp), parameter :: step = 1e-5_dp, tolerance = 1e-8_dp

  !> Central differences of four values: places in steps, weights times 12
  integer, parameter :: places(4) = [-2, -1, 1, 2], weights(4) = [1, -8, 8, -1]

  !> An operator with its static arguments. All inputs are one vector, one behind the other, and so
  !> are tangents, gradients and outputs.
  type, abstract :: operator_type
    !> Ranks and shapes of the inputs; rank 0: absent
    integer, allocatable :: ranks(:), shapes(:, :)
    !> Numbers in the outputs, and how many they are
    integer :: n_out = 0, n_outputs = 1
    !> Output that alone has a cotangent; 0: all have
    integer :: only = 0
    !> Inputs that have a tangent, and those whose gradient is wanted
    logical, allocatable :: moving(:), wanted(:)
  contains
    procedure(evaluate_interface), deferred :: evaluate
    procedure(reverse_interface), deferred :: reverse
    procedure(record_interface), deferred :: record
    procedure :: add_input
    !> First and last place of an input in the vector
    procedure :: first_of, last_of
    procedure :: view
  end type operator_type

  abstract interface
    !> forward, or with t jvp
    subroutine evaluate_interface(self, x, y, error, t)
      import :: operator_type, error_type, dp
      class(operator_type), intent(in) :: self
      real(dp), intent(in), contiguous, target :: x(:)
      real(dp), intent(out), contiguous, target :: y(:)
      type(error_type), allocatable, intent(out) :: error
      real(dp), intent(in), contiguous, target, optional :: t(:)
    end subroutine evaluate_interface

    !> vjp, or with t hvp
    subroutine reverse_interface(self, c, x, g, error, t)
      import :: operator_type, error_type, dp
      class(operator_type), intent(in) :: self
      real(dp), intent(in), contiguous, target :: c(:), x(:)
      real(dp), intent(inout), contiguous, target :: g(:)
      type(error_type), allocatable, intent(out) :: error
      real(dp), intent(in), contiguous, target, optional :: t(:)
    end subroutine reverse_interface

    !> The operator on a tape
    subroutine record_interface(self, x, y)
      import :: operator_type, array_type
      class(operator_type), intent(in) :: self
      !> Inputs, null handles where they are absent
      type(array_type), intent(in) :: x(:)
      !> Outputs in one vector
      type(array_type), intent(out) :: y
    end subroutine record_interface
  end interface

contains

  ! ---- operators ----

  !> Declare the next input.
  subroutine add_input(self, extents)
    class(operator_type), intent(inout) :: self
    !> None: the input is absent
    integer, intent(in) :: extents(:)
    integer :: n

    if (.not. allocated(self%ranks)) allocate (self%ranks(0), self%shapes(3, 0))
    n = size(self%ranks) + 1
    self%ranks = [self%ranks, size(extents)]
    self%shapes = reshape([self%shapes, extents, spread(1, 1, 3 - size(extents))], [3, n])
    self%moving = spread(.true., 1, n)
    self%wanted = self%moving
  end subroutine add_input

  pure function first_of(self, k) result(first)
    class(operator_type), intent(in) :: self
    integer, intent(in) :: k
    integer :: first

    first = 1
    if (k > 1) first = self%last_of(k - 1) + 1
  end function first_of

  pure function last_of(self, k) result(last)
    class(operator_type), intent(in) :: self
    integer, intent(in) :: k
    integer :: last

    last = sum(merge(product(self%shapes(:, :k), 1), 0, self%ranks(:k) > 0))
  end function last_of

  !> An input of rank 2 as an array.
  subroutine view(self, k, x, array)
    class(operator_type), intent(in) :: self
    integer, intent(in) :: k
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), pointer, contiguous, intent(out) :: array(:, :)

    array(1:self%shapes(1, k), 1:self%shapes(2, k)) => x(self%first_of(k):self%last_of(k))
  end subroutine view

  ! ---- checks ----

  !> jvp against differences of forward, <vjp, t> against <c, jvp>, hvp against differences of vjp;
  !> a tangent or cotangent that is absent is zero, and a gradient that is absent changes nothing.
  subroutine check_faces(operator, x, error)
    class(operator_type), intent(inout) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable, target, dimension(:) :: t, c, alone, y, y_t, y_same, g, g_t, g_same
    integer :: k, first, last

    t = numbers(size(x), 17)
    c = numbers(operator%n_out, 18)
    allocate (alone, g, g_t, g_same, mold=t)
    allocate (y, y_t, y_same, mold=c)

    call evaluate(x, y_t, t)
    if (allocated(error)) return
    call differences(.false., y)
    call check(error, close(y_t, y, tolerance), "jvp is no difference of forward")
    call reverse(x, g)
    call check(error, abs(dot_product(g, t) - dot_product(c, y_t)) <= &
      & 1e-12_dp*(1 + sum(abs(g*t))), "vjp is no transpose of jvp")
    call reverse(x, g_t, t)
    call differences(.true., g_same)
    call check(error, close(g_t, g_same, tolerance), "hvp is no difference of vjp")

    do k = 1, size(operator%ranks)
      if (operator%ranks(k) == 0) cycle
      first = operator%first_of(k)
      last = operator%last_of(k)
      alone(:) = 0
      alone(first:last) = t(first:last)
      call evaluate(x, y, alone)
      call reverse(x, g_same, alone)
      operator%moving(:) = .false.
      operator%moving(k) = .true.
      call evaluate(x, y_same, t)
      call check(error, close(y_same, y, 1e-12_dp), "jvp, absent tangents")
      alone(:) = g_same
      call reverse(x, g_same, t)
      call check(error, close(g_same, alone, 1e-12_dp), "hvp, absent tangents")
      operator%moving(:) = .true.

      operator%wanted(:) = .false.
      operator%wanted(k) = .true.
      g_same(:) = 7
      call reverse(x, g_same)
      call check_alone("vjp, absent gradients", g)
      g_same(:) = 7
      call reverse(x, g_same, t)
      call check_alone("hvp, absent gradients", g_t)
      operator%wanted(:) = .true.
    end do

    if (operator%n_outputs == 1) return
    do k = 1, operator%n_outputs
      operator%only = k
      call reverse(x, g_same)
      g = g - g_same
      call reverse(x, g_same, t)
      g_t = g_t - g_same
    end do
    operator%only = 0
    g_same(:) = 0
    call check(error, close(g, g_same, 1e-11_dp), "vjp, absent cotangents")
    call check(error, close(g_t, g_same, 1e-11_dp), "hvp, absent cotangents")

  contains

    subroutine evaluate(x, y, t)
      real(dp), intent(in), contiguous, target :: x(:)
      real(dp), intent(out), contiguous, target :: y(:)
      real(dp), intent(in), contiguous, target, optional :: t(:)
      type(error_type), allocatable :: problem

      y(:) = 0
      call operator%evaluate(x, y, problem, t)
      if (allocated(problem)) call check(error, .false., problem%message)
    end subroutine evaluate

    subroutine reverse(x, g, t)
      real(dp), intent(in), contiguous, target :: x(:)
      real(dp), intent(inout), contiguous, target :: g(:)
      real(dp), intent(in), contiguous, target, optional :: t(:)
      type(error_type), allocatable :: problem

      call operator%reverse(c, x, g, problem, t)
      if (allocated(problem)) call check(error, .false., problem%message)
    end subroutine reverse

    !> Derivative of forward or vjp along t.
    subroutine differences(of_gradient, slope)
      logical, intent(in) :: of_gradient
      real(dp), intent(out) :: slope(:)
      real(dp), allocatable, target :: place(:), f(:)
      integer :: n

      allocate (f, mold=slope)
      slope(:) = 0
      do n = 1, 4
        place = x + places(n)*step*t
        if (of_gradient) then
          call reverse(place, f)
        else
          call evaluate(place, f)
        end if
        slope(:) = slope + weights(n)*f/(12*step)
      end do
    end subroutine differences

    !> The part of an input is that of all gradients, and nothing else is written.
    subroutine check_alone(message, all_parts)
      character(len=*), intent(in) :: message
      real(dp), intent(in) :: all_parts(:)

      call check(error, close(g_same(first:last), all_parts(first:last), 1e-12_dp) .and. &
        & all(g_same(:first - 1) == 7) .and. all(g_same(last + 1:) == 7), message)
    end subroutine check_alone

  end subroutine check_faces

  !> Check s = <c, f(x)> on a tape: its value, its gradient (recorded or not), and for s' = <t,
  !> ds/dx> the gradients to x and c, which are hvp and jvp.
  subroutine check_tape(operator, x, error)
    class(operator_type), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable, target, dimension(:) :: t, c, y, y_t, g, g_t, got
    type(tape_type) :: tape
    type(array_type) :: all_inputs, cotangent, output, inputs(size(operator%ranks))
    type(array_type), allocatable :: slopes(:)
    logical :: recorded
    character(len=10) :: device
    integer :: k

    t = numbers(size(x), 17)
    c = numbers(operator%n_out, 18)
    allocate (g, g_t, mold=t)
    allocate (y, y_t, mold=c)
    call operator%evaluate(x, y, error)
    if (.not. allocated(error)) call operator%evaluate(x, y_t, error, t)
    if (.not. allocated(error)) call operator%reverse(c, x, g, error)
    if (.not. allocated(error)) call operator%reverse(c, x, g_t, error, t)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return

    all_inputs = tape%parameter(x)
    cotangent = tape%parameter(c)
    do k = 1, size(inputs)
      if (operator%ranks(k) > 0) inputs(k) = reshape(slice(all_inputs, &
        & [int(operator%first_of(k), int64)], &
        & [int(product(operator%shapes(:, k)), int64)]), operator%shapes(:operator%ranks(k), k))
    end do
    call operator%record(inputs, output)
    call tape%check(error)
    if (allocated(error)) return
    call output%val(got)
    ! the CUDA library rounds in another order
    call get_environment_variable("GNOGRAD_DEVICE", device)
    call check(error, all(got == y) .or. (device(:4) == "cuda" .and. close(got, y, 1e-13_dp)), &
      & "value on the tape")
    if (allocated(error)) return
    do k = 1, 2
      recorded = k == 2
      call tape%gradient(sum(output*cotangent), [all_inputs], slopes, error, create_graph=recorded)
      if (allocated(error)) return
      call slopes(1)%val(got)
      call check(error, close(got, g, 1e-13_dp), "gradient on the tape")
      if (allocated(error)) return
    end do
    call tape%gradient(sum(slopes(1)*tape%constant(t)), [all_inputs, cotangent], slopes, error)
    if (allocated(error)) return
    call slopes(1)%val(got)
    call check(error, close(got, g_t, 1e-13_dp), "second order on the tape, inputs")
    call slopes(2)%val(got)
    call check(error, close(got, y_t, 1e-13_dp), "second order on the tape, cotangent")
    call tape%free()
  end subroutine check_tape

  ! ---- numbers ----

  !> True if all numbers are as near to those wanted as their size allows.
  pure function close(got, wanted, relative)
    real(dp), intent(in) :: got(:), wanted(:), relative
    logical :: close

    close = size(got) == size(wanted)
    if (close) close = all(abs(got - wanted) <= relative*(1 + maxval(abs(wanted))))
  end function close

  !> Numbers between -1 and 1 that look random and are the same in every run.
  pure function numbers(n, seed) result(x)
    integer, intent(in) :: n, seed
    real(dp) :: x(n)
    integer(int64) :: state
    integer :: k

    ! minimal standard of Park and Miller
    state = 48271_int64*(seed + 1000)
    do k = 1, n
      state = mod(48271_int64*state, 2147483647_int64)
      x(k) = 2*real(state, dp)/2147483647 - 1
    end do
  end function numbers

end module faces

! SPDX-License-Identifier: MIT

!> Dense attention and its adjoint: values against plain loops, derivatives against differences and
!> each other, the tape against the kernels, refusals. Also where few queries or few keys are
!> repeated.
module test_dense
  use gnograd, only: attention, attention_pool, array_type, reshape, error_type, dp, sp, int64
  use gnograd_kernels, only: attention_forward, attention_vjp, attention_jvp, attention_hvp, &
    & attention_pool_forward, attention_pool_vjp, attention_pool_jvp, attention_pool_hvp
  use faces, only: operator_type, check_faces, check_tape, close, numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: dense_tests

  !> Features of keys and values, query heads, key/value heads
  integer, parameter :: d_k = 3, d_v = 2, n_q_heads = 2, n_heads = 1
  real(dp), parameter :: scale = 0.7_dp

  type, extends(operator_type) :: dense_operator
    logical :: pool = .false.
    integer :: n_queries = 0, n_keys = 0
    !> Two sequences
    integer(int64) :: cu_q(3) = 0, cu_k(3) = 0
  contains
    procedure :: evaluate => dense_evaluate
    procedure :: reverse => dense_reverse
    procedure :: record => dense_record
  end type dense_operator

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :, :) :: q => null(), k => null(), v => null()
    real(dp), pointer, contiguous, dimension(:, :) :: bias => null(), temperature => null()
  end type arrays_type

contains

  function dense_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("attention, values, derivatives and tape", test_attention), &
      & test_type("attention_pool, values, derivatives and tape", test_pool), &
      & test_type("attention, wrong shapes and temperatures", test_refused)]
  end function dense_tests

  subroutine test_attention(error)
    type(error_type), allocatable, intent(out) :: error

    call check_sizes(.false., error)
  end subroutine test_attention

  subroutine test_pool(error)
    type(error_type), allocatable, intent(out) :: error

    call check_sizes(.true., error)
  end subroutine test_pool

  !> One block of keys, several, few queries with many keys, and few keys with many queries.
  subroutine check_sizes(pool, error)
    logical, intent(in) :: pool
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: queries(4) = [9, 7, 3, 700], keys(4) = [11, 300, 700, 3]
    type(dense_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    integer :: k

    do k = 1, 4
      call make(operator, pool, queries(k), keys(k), merge(1, queries(k), k > 2), x)
      allocate (y(operator%n_out), wanted(operator%n_out))
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call formula(operator, x, wanted)
      call check(error, close(y, wanted, 1e-13_dp), "r64")
      if (.not. allocated(error)) call check_single(operator, x, wanted, error)
      if (.not. allocated(error)) call check_faces(operator, x, error)
      if (.not. allocated(error)) call check_tape(operator, x, error)
      if (allocated(error)) return
      deallocate (y, wanted)
    end do
  end subroutine check_sizes

  subroutine make(operator, pool, n_queries, n_keys, n_temperatures, x)
    type(dense_operator), intent(out) :: operator
    logical, intent(in) :: pool
    integer, intent(in) :: n_queries, n_keys, n_temperatures
    real(dp), allocatable, intent(out) :: x(:)

    operator%pool = pool
    operator%n_queries = n_queries
    operator%n_keys = n_keys
    operator%cu_q = [0, n_queries - 2, n_queries]
    operator%cu_k = [0, n_keys - 1, n_keys]
    call operator%add_input([d_k, n_q_heads, n_queries])
    call operator%add_input([d_k, n_heads, n_keys])
    if (pool) then
      call operator%add_input([d_v, n_q_heads, n_queries])
      operator%n_out = d_v*n_heads*n_keys
    else
      call operator%add_input([d_v, n_heads, n_keys])
      operator%n_out = d_v*n_q_heads*n_queries
    end if
    call operator%add_input([n_heads, n_keys])
    call operator%add_input([n_q_heads, n_temperatures])
    x = numbers(operator%last_of(5), 1)
    associate (temperature => x(operator%first_of(5):))
      temperature(:) = 1.5_dp + temperature
    end associate
  end subroutine make

  function arrays(operator, x, mask) result(views)
    class(dense_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%q, mask)
    call operator%view(2, x, views%k, mask)
    call operator%view(3, x, views%v, mask)
    call operator%view(4, x, views%bias, mask)
    call operator%view(5, x, views%temperature, mask)
  end function arrays

  !> A query and head at a time.
  subroutine formula(operator, x, y)
    type(dense_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    real(dp), pointer, contiguous :: out(:, :, :)
    real(dp), allocatable :: w(:)
    type(arrays_type) :: in
    integer :: s, t, h, j, first, last, row

    in = arrays(operator, x)
    y(:) = 0
    call take_output(operator, y, out)
    do s = 1, 2
      first = int(operator%cu_k(s)) + 1
      last = int(operator%cu_k(s + 1))
      allocate (w(first:last))
      do t = int(operator%cu_q(s)) + 1, int(operator%cu_q(s + 1))
        row = min(t, size(in%temperature, 2))
        do h = 1, n_q_heads
          do j = first, last
            w(j) = exp((scale*dot_product(in%q(:, h, t), in%k(:, 1, j)) + in%bias(1, j)) &
              & /in%temperature(h, row))
          end do
          w(:) = w/sum(w)
          do j = first, last
            if (operator%pool) then
              out(:, 1, j) = out(:, 1, j) + w(j)*in%v(:, h, t)
            else
              out(:, h, t) = out(:, h, t) + w(j)*in%v(:, 1, j)
            end if
          end do
        end do
      end do
      deallocate (w)
    end do
  end subroutine formula

  subroutine check_single(operator, x, wanted, error)
    type(dense_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:), wanted(:)
    type(error_type), allocatable, intent(out) :: error
    real(sp), allocatable :: out(:, :, :)
    type(arrays_type) :: in

    in = arrays(operator, x)
    if (operator%pool) then
      allocate (out(d_v, n_heads, operator%n_keys))
      call attention_pool_forward(operator%cu_q, operator%cu_k, scale, real(in%q, sp), &
        & real(in%k, sp), real(in%v, sp), real(in%bias, sp), real(in%temperature, sp), out, error)
    else
      allocate (out(d_v, n_q_heads, operator%n_queries))
      call attention_forward(operator%cu_q, operator%cu_k, scale, real(in%q, sp), real(in%k, sp), &
        & real(in%v, sp), real(in%bias, sp), real(in%temperature, sp), out, error=error)
    end if
    if (allocated(error)) return
    call check(error, close(real(reshape(out, [size(wanted)]), dp), wanted, 1e-5_dp), "r32")
  end subroutine check_single

  subroutine take_output(operator, y, out)
    class(dense_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: y(:)
    real(dp), pointer, contiguous, intent(out) :: out(:, :, :)

    if (operator%pool) then
      out(1:d_v, 1:n_heads, 1:operator%n_keys) => y
    else
      out(1:d_v, 1:n_q_heads, 1:operator%n_queries) => y
    end if
  end subroutine take_output

  subroutine dense_evaluate(self, x, y, error, t)
    class(dense_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    real(dp), pointer, contiguous :: out(:, :, :)
    type(arrays_type) :: in, tan

    in = arrays(self, x)
    call take_output(self, y, out)
    if (present(t)) then
      tan = arrays(self, t, self%moving)
      if (self%pool) then
        call attention_pool_jvp(self%cu_q, self%cu_k, scale, in%q, in%k, in%v, in%bias, &
          & in%temperature, tan%q, tan%k, tan%v, tan%bias, tan%temperature, out, error)
      else
        call attention_jvp(self%cu_q, self%cu_k, scale, in%q, in%k, in%v, in%bias, &
          & in%temperature, tan%q, tan%k, tan%v, tan%bias, tan%temperature, out, error)
      end if
    else if (self%pool) then
      call attention_pool_forward(self%cu_q, self%cu_k, scale, in%q, in%k, in%v, in%bias, &
        & in%temperature, out, error)
    else
      call attention_forward(self%cu_q, self%cu_k, scale, in%q, in%k, in%v, in%bias, &
        & in%temperature, out, error=error)
    end if
  end subroutine dense_evaluate

  subroutine dense_reverse(self, c, x, g, error, t)
    class(dense_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    real(dp), pointer, contiguous :: cotangent(:, :, :)
    type(arrays_type) :: in, tan, grad

    in = arrays(self, x)
    grad = arrays(self, g, self%wanted)
    call take_output(self, c, cotangent)
    if (present(t)) then
      tan = arrays(self, t, self%moving)
      if (self%pool) then
        call attention_pool_hvp(self%cu_q, self%cu_k, scale, cotangent, in%q, in%k, in%v, in%bias, &
          & in%temperature, tan%q, tan%k, tan%v, tan%bias, tan%temperature, grad%q, grad%k, &
          & grad%v, grad%bias, grad%temperature, error)
      else
        call attention_hvp(self%cu_q, self%cu_k, scale, cotangent, in%q, in%k, in%v, in%bias, &
          & in%temperature, tan%q, tan%k, tan%v, tan%bias, tan%temperature, grad%q, grad%k, &
          & grad%v, grad%bias, grad%temperature, error)
      end if
    else if (self%pool) then
      call attention_pool_vjp(self%cu_q, self%cu_k, scale, cotangent, in%q, in%k, in%v, in%bias, &
        & in%temperature, grad_q=grad%q, grad_k=grad%k, grad_c=grad%v, grad_bias=grad%bias, &
        & grad_temperature=grad%temperature, error=error)
    else
      call attention_vjp(self%cu_q, self%cu_k, scale, cotangent, in%q, in%k, in%v, in%bias, &
        & in%temperature, grad_q=grad%q, grad_k=grad%k, grad_v=grad%v, grad_bias=grad%bias, &
        & grad_temperature=grad%temperature, error=error)
    end if
  end subroutine dense_reverse

  subroutine dense_record(self, x, y)
    class(dense_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y

    if (self%pool) then
      y = attention_pool(x(1), x(2), x(3), x(4), x(5), cu_q=self%cu_q, cu_k=self%cu_k, scale=scale)
    else
      y = attention(x(1), x(2), x(3), x(4), x(5), cu_q=self%cu_q, cu_k=self%cu_k, scale=scale)
    end if
    y = reshape(y, [self%n_out])
  end subroutine dense_record

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(dense_operator) :: operator
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(d_v, n_q_heads, 9)
    type(arrays_type) :: in

    call make(operator, .false., 9, 11, 9, x)
    in = arrays(operator, x)
    out(:, :, :) = 7
    call attention_forward(q=in%q, k=in%k(2:, :, :), v=in%v, scale=scale, out=out, error=refused)
    call check_refused(error, refused, "attention: k has shape 2 1 11, needs 3 1 11")
    call attention_forward(q=in%q, k=in%k, v=in%v, temperature=in%temperature(:, 2:), scale=scale, &
      & out=out, error=refused)
    call check_refused(error, refused, &
      & "attention: temperature has one row of heads, or one for every query")
    in%temperature(2, 3) = 0
    call attention_forward(q=in%q, k=in%k, v=in%v, temperature=in%temperature, scale=scale, &
      & out=out, error=refused)
    call check_refused(error, refused, "attention: temperature must be positive")
    call check(error, all(out == 7), "out changed in spite of an error")
  end subroutine test_refused

end module test_dense

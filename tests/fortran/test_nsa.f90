! SPDX-License-Identifier: MIT

!> Native sparse attention: values against plain loops over all keys, derivatives against
!> differences and each other, the tape against the kernels, chosen blocks against all scores,
!> refusals.
module test_nsa
  use gnograd, only: selected_attention, compressed_attention, window_attention, compress, &
    & array_type, reshape, concatenate, duplicate_names, error_type, dp, sp, int32, int64
  use gnograd_kernels, only: selected_attention_forward, selected_attention_vjp, &
    & selected_attention_jvp, selected_attention_hvp, compressed_attention_forward, &
    & compressed_attention_vjp, compressed_attention_jvp, compressed_attention_hvp, &
    & window_attention_forward, window_attention_vjp, window_attention_jvp, window_attention_hvp
  use gnograd_kernels, only: compress_forward, compress_vjp, compress_jvp, compress_hvp
  use gnograd_kernels, only: select_blocks_forward
  use faces, only: operator_type, check_faces, check_tape, close, numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: nsa_tests

  integer, parameter :: form_selected = 1, form_compressed = 2, form_window = 3
  character(len=*), parameter :: names(3) = [character(len=20) :: "selected_attention", &
    & "compressed_attention", "window_attention"]
  !> Features of keys and values, query heads, key/value heads, queries, keys, slots
  integer, parameter :: d_k = 5, d_v = 3, n_q_heads = 4, n_heads = 2, n_queries = 19, n_keys = 23, &
    & n_slots = 3
  !> Two sequences
  integer(int64), parameter :: cu_q(3) = [0, 8, 19], cu_k(3) = [0, 9, 23]
  integer(int64), parameter :: block_size = 4, query_block = 2, block = 3, stride = 2, &
    & window = 5
  real(dp), parameter :: scale = 0.7_dp

  type, extends(operator_type) :: attention_operator
    integer :: form = form_selected
    logical :: causal = .false., gated = .false.
    integer(int64) :: q_offset = 0
    integer :: duplicates = 0
    integer(int32) :: blocks(n_slots, n_heads, (n_queries + 1)/2) = -1
    !> Give the vjp what forward saves
    logical :: saved = .false.
  contains
    procedure :: evaluate => attention_evaluate
    procedure :: reverse => attention_reverse
    procedure :: record => attention_record
  end type attention_operator

  type, extends(operator_type) :: compress_operator
  contains
    procedure :: evaluate => compress_evaluate
    procedure :: reverse => compress_reverse
    procedure :: record => compress_record
  end type compress_operator

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :, :) :: q => null(), k => null(), v => null(), &
      & gate => null()
  end type arrays_type

  !> Tokens that compress makes of those two sequences: 4 and 6
  integer, parameter :: n_compressed = 10

contains

  function nsa_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("attention, values of both kinds", test_values), &
      & test_type("attention, derivatives and tape", test_derivatives), &
      & test_type("attention, one of two cotangents", test_cotangents), &
      & test_type("attention, wrong codes and shapes", test_refused), &
      & test_type("compress, values, derivatives and tape", test_compress), &
      & test_type("compress, wrong sizes", test_compress_refused), &
      & test_type("select_blocks", test_select), &
      & test_type("select_blocks, wrong sizes", test_select_refused)]
  end function nsa_tests

  ! ---- attention ----

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: form, k

    do form = form_selected, form_window
      do k = 0, 7
        call check_value(form, k, error)
        if (allocated(error)) error%message = trim(names(form))//": "//error%message
        if (allocated(error)) return
      end do
    end do
  end subroutine test_values

  !> out and lse against a loop over all keys.
  subroutine check_value(form, k, error)
    integer, intent(in) :: form
    !> Number of the case
    integer, intent(in) :: k
    type(error_type), allocatable, intent(out) :: error
    type(attention_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp), dimension(d_v, n_q_heads, n_queries) :: out, wanted
    real(dp), dimension(n_q_heads, n_queries) :: lse, total
    real(sp) :: out_single(d_v, n_q_heads, n_queries)
    real(dp) :: factor
    integer :: i, j, h

    call make(operator, form, k, x)
    in = arrays(operator, x)
    call forward(operator, in, out, lse, error)
    if (allocated(error)) return
    wanted(:, :, :) = 0
    total(:, :) = 0
    do i = 1, n_queries
      do h = 1, n_q_heads
        do j = 1, n_keys
          factor = weight(operator, in, i, j, (h + 1)/2) &
            & *exp(scale*sum(in%q(:, h, i)*in%k(:, (h + 1)/2, j)))
          total(h, i) = total(h, i) + factor
          wanted(:, h, i) = wanted(:, h, i) + factor*in%v(:, (h + 1)/2, j)
        end do
        if (total(h, i) > 0) wanted(:, h, i) = wanted(:, h, i)/total(h, i)
      end do
    end do
    call check(error, any(total > 0), "nothing is seen")
    call check(error, close(reshape(out, [size(out)]), reshape(wanted, [size(out)]), 1e-13_dp), &
      & "out")
    call check(error, all(lse < -huge(lse) .eqv. total <= 0), "lse where nothing is seen")
    call check(error, close(pack(lse, total > 0), log(pack(total, total > 0)), 1e-13_dp), "lse")
    call forward_single(operator, in, out_single, error)
    if (allocated(error)) return
    call check(error, close(real(reshape(out_single, [size(out)]), dp), &
      & reshape(wanted, [size(out)]), 1e-5_dp), "real32")
  end subroutine check_value

  !> Sum of the gates with which query i sees key j of a head, once for every time that it does.
  function weight(operator, in, i, j, head)
    type(attention_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    integer, intent(in) :: i, j, head
    real(dp) :: weight
    integer :: slot
    !> Places of the query and the key in their sequence, from 0
    integer(int64) :: s, t

    weight = 0
    if ((i > cu_q(2)) .neqv. (j > cu_k(2))) return
    s = i - 1 - merge(cu_q(2), 0_int64, i > cu_q(2))
    t = j - 1 - merge(cu_k(2), 0_int64, j > cu_k(2))
    select case (operator%form)
    case (form_selected)
      if (operator%causal .and. t > s + operator%q_offset) return
      do slot = 1, n_slots
        if (operator%blocks(slot, head, (i + 1)/2) /= t/block_size) cycle
        if (associated(in%gate)) then
          weight = weight + in%gate(slot, head, i)
        else
          weight = weight + 1
        end if
        if (duplicate_names(operator%duplicates) == "ignore") exit
      end do
    case (form_compressed)
      if (.not. operator%causal .or. t*stride + block - 1 <= s + operator%q_offset) weight = 1
    case default
      if (operator%causal) then
        if (t <= s + operator%q_offset .and. t > s + operator%q_offset - window) weight = 1
      else
        if (t/window == s/window) weight = 1
      end if
    end select
  end function weight

  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(attention_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: form, k

    do form = form_selected, form_window
      do k = 0, 7
        call make(operator, form, k, x)
        ! lse has no derivative where nothing is seen
        if (form == form_compressed) operator%q_offset = block
        call check_faces(operator, x, error)
        if (.not. allocated(error)) call check_tape(operator, x, error)
        if (allocated(error)) error%message = trim(names(form))//": "//error%message
        if (allocated(error)) return
      end do
    end do
  end subroutine test_derivatives

  !> vjp and hvp of compressed_attention with the cotangent of out alone, and with that of lse.
  subroutine test_cotangents(error)
    type(error_type), allocatable, intent(out) :: error
    type(attention_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: c_out(d_v, n_q_heads, n_queries), c_lse(n_q_heads, n_queries)
    real(dp), dimension(d_k, n_q_heads, n_queries) :: both, of_out, of_lse

    call make(operator, form_compressed, 0, x)
    in = arrays(operator, x)
    c_out(:, :, :) = reshape(numbers(size(c_out), 3), shape(c_out))
    c_lse(:, :) = reshape(numbers(size(c_lse), 4), shape(c_lse))
    call vjp(c_out, c_lse, both)
    call vjp(c_out, grad_q=of_out)
    call vjp(c_lse=c_lse, grad_q=of_lse)
    call check(error, maxval(abs(of_out)) > 0.01_dp .and. maxval(abs(of_lse)) > 0.01_dp .and. &
      & maxval(abs(both - of_out - of_lse)) < 1e-13_dp, "vjp")
    call hvp(c_out, c_lse, both)
    call hvp(c_out, grad_q=of_out)
    call hvp(c_lse=c_lse, grad_q=of_lse)
    call check(error, maxval(abs(of_out)) > 0.01_dp .and. maxval(abs(of_lse)) > 0.01_dp .and. &
      & maxval(abs(both - of_out - of_lse)) < 1e-13_dp, "hvp")

  contains

    subroutine vjp(c_out, c_lse, grad_q)
      real(dp), intent(in), optional, contiguous :: c_out(:, :, :), c_lse(:, :)
      real(dp), intent(out), contiguous :: grad_q(:, :, :)
      type(error_type), allocatable :: problem

      call compressed_attention_vjp(cu_q, cu_k, block, stride, scale, .false., 0_int64, c_out, &
        & c_lse, in%q, in%k, in%v, grad_q=grad_q, error=problem)
      call check(error, .not. allocated(problem), "vjp refused")
    end subroutine vjp

    subroutine hvp(c_out, c_lse, grad_q)
      real(dp), intent(in), optional, contiguous :: c_out(:, :, :), c_lse(:, :)
      real(dp), intent(out), contiguous :: grad_q(:, :, :)
      type(error_type), allocatable :: problem

      call compressed_attention_hvp(cu_q, cu_k, block, stride, scale, .false., 0_int64, c_out, &
        & c_lse, in%q, in%k, in%v, t_k=in%k, grad_q=grad_q, error=problem)
      call check(error, .not. allocated(problem), "hvp refused")
    end subroutine hvp

  end subroutine test_cotangents

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(attention_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(d_v, n_q_heads, n_queries)
    integer :: k

    call make(operator, form_selected, 1, x)
    in = arrays(operator, x)
    out(:, :, :) = 7
    do k = -1, 3, 4
      call selected_attention_forward(operator%blocks, cu_q, cu_k, block_size, scale, .false., &
        & 0_int64, query_block, k, in%q, in%k, in%v, out=out, error=refused)
      call check_refused(error, refused, "selected_attention: duplicates: no such code")
    end do
    call selected_attention_vjp(operator%blocks, cu_q, cu_k, 257_int64, scale, .false., 0_int64, &
      & query_block, 0, out, in%q, in%k, in%v, error=refused)
    call check_refused(error, refused, &
      & "selected_attention: block_size must lie between 1 and 256")
    call selected_attention_jvp(operator%blocks, cu_q, cu_k, block_size, scale, .false., 0_int64, &
      & 1_int64, 0, in%q, in%k, in%v, t_out=out, error=refused)
    call check_refused(error, refused, &
      & "selected_attention: block_index has shape 3 2 10, needs 3 2 19")
    call selected_attention_hvp(operator%blocks, cu_q(:2), cu_k, block_size, scale, .false., &
      & 0_int64, query_block, 0, out, in%q, in%k, in%v, error=refused)
    call check_refused(error, refused, &
      & "selected_attention: cu_k has shape 3, needs 2")
    operator%blocks(2, 1, 4) = 3
    call selected_attention_forward(operator%blocks, cu_q, cu_k, block_size, scale, .false., &
      & 0_int64, query_block, 0, in%q, in%k, in%v, out=out, error=refused)
    call check_refused(error, refused, "selected_attention: block_index names a block that the "// &
      & "sequence of query 6 does not have")
    call compressed_attention_forward(cu_q, cu_k, 0_int64, stride, scale, .false., 0_int64, in%q, &
      & in%k, in%v, out, error=refused)
    call check_refused(error, refused, &
      & "compressed_attention: block and stride must be at least 1")
    call compressed_attention_vjp(cu_q, cu_k, block, stride, scale, .false., 0_int64, &
      & c_lse=out(1, 2:, :), q=in%q, k=in%k, v=in%v, error=refused)
    call check_refused(error, refused, "compressed_attention: c_lse has shape 3 19, needs 4 19")
    call window_attention_forward(cu_q, cu_k, -1_int64, scale, .true., 0_int64, in%q, in%k, in%v, &
      & out=out, error=refused)
    call check_refused(error, refused, "window_attention: window must be at least 1")
    call window_attention_vjp(cu_q, cu_k, window, scale, .true., 2_int64**32, out, in%q, in%k, &
      & in%v, error=refused)
    call check_refused(error, refused, "window_attention: q_offset must lie between -2^31 and 2^31")
    call window_attention_jvp(cu_q, cu_k, window, scale, .true., 0_int64, in%q, in%k, in%v, &
      & t_v=in%k, t_out=out, error=refused)
    call check_refused(error, refused, "window_attention: t_v has shape 5 2 23, needs 3 2 23")
    call window_attention_hvp(cu_q, cu_k, window, scale, .true., 0_int64, out, in%q, &
      & in%k(2:, :, :), in%v, error=refused)
    call check_refused(error, refused, "window_attention: k has shape 4 2 23, needs 5 2 23")
    call check(error, all(out == 7), "results changed in spite of an error")
  end subroutine test_refused

  !> One of eight cases of an operator.
  subroutine make(operator, form, k, x)
    type(attention_operator), intent(out) :: operator
    integer, intent(in) :: form, k
    real(dp), allocatable, intent(out) :: x(:)
    real(dp), allocatable :: draws(:)

    operator%form = form
    operator%causal = mod(k, 2) == 1
    operator%saved = mod(k/2, 2) == 1
    operator%q_offset = 1
    operator%gated = form == form_selected .and. k > 3
    operator%duplicates = merge(0, 2, k < 6)
    ! three or four blocks a sequence; some twice, some empty
    draws = numbers(size(operator%blocks), 2)
    operator%blocks(:, :, :) = reshape(int(floor(2*draws + 1), int32), shape(operator%blocks))
    operator%blocks(2, :, 5:) = operator%blocks(2, :, 5:) + 1_int32
    call operator%add_input([d_k, n_q_heads, n_queries])
    call operator%add_input([d_k, n_heads, n_keys])
    call operator%add_input([d_v, n_heads, n_keys])
    call operator%add_input(pack([n_slots, n_heads, n_queries], operator%gated))
    operator%n_out = d_v*n_q_heads*n_queries
    if (form == form_compressed) operator%n_out = operator%n_out + n_q_heads*n_queries
    x = numbers(operator%last_of(4), 1)
    if (operator%gated) x(operator%first_of(4):) = 1.5_dp + x(operator%first_of(4):)
  end subroutine make

  function arrays(operator, x, mask) result(views)
    type(attention_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%q, mask)
    call operator%view(2, x, views%k, mask)
    call operator%view(3, x, views%v, mask)
    call operator%view(4, x, views%gate, mask)
  end function arrays

  subroutine forward(op, in, out, lse, error)
    type(attention_operator), intent(in) :: op
    type(arrays_type), intent(in) :: in
    real(dp), intent(out), contiguous :: out(:, :, :), lse(:, :)
    type(error_type), allocatable, intent(out) :: error

    select case (op%form)
    case (form_selected)
      call selected_attention_forward(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
        & op%q_offset, query_block, op%duplicates, in%q, in%k, in%v, in%gate, out, lse, error)
    case (form_compressed)
      call compressed_attention_forward(cu_q, cu_k, block, stride, scale, op%causal, op%q_offset, &
        & in%q, in%k, in%v, out, lse, error)
    case default
      call window_attention_forward(cu_q, cu_k, window, scale, op%causal, op%q_offset, in%q, in%k, &
        & in%v, out=out, lse=lse, error=error)
    end select
  end subroutine forward

  subroutine forward_single(op, in, out, error)
    type(attention_operator), intent(in) :: op
    type(arrays_type), intent(in) :: in
    real(sp), intent(out), contiguous :: out(:, :, :)
    type(error_type), allocatable, intent(out) :: error
    real(sp), allocatable :: q(:, :, :), k(:, :, :), v(:, :, :), gate(:, :, :)

    q = real(in%q, sp)
    k = real(in%k, sp)
    v = real(in%v, sp)
    if (associated(in%gate)) gate = real(in%gate, sp)
    select case (op%form)
    case (form_selected)
      call selected_attention_forward(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
        & op%q_offset, query_block, op%duplicates, q, k, v, gate, out, error=error)
    case (form_compressed)
      call compressed_attention_forward(cu_q, cu_k, block, stride, scale, op%causal, op%q_offset, &
        & q, k, v, out, error=error)
    case default
      call window_attention_forward(cu_q, cu_k, window, scale, op%causal, op%q_offset, q, k, v, &
        & out=out, error=error)
    end select
  end subroutine forward_single

  !> out, or out and lse, in a vector.
  subroutine take_outputs(operator, y, out, lse)
    class(attention_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: y(:)
    real(dp), pointer, contiguous, intent(out) :: out(:, :, :), lse(:, :)
    integer, parameter :: n = d_v*n_q_heads*n_queries

    nullify (lse)
    out(1:d_v, 1:n_q_heads, 1:n_queries) => y(:n)
    if (operator%form == form_compressed) lse(1:n_q_heads, 1:n_queries) => y(n + 1:)
  end subroutine take_outputs

  subroutine attention_evaluate(self, x, y, error, t)
    class(attention_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, tan
    real(dp), pointer, contiguous :: out(:, :, :), lse(:, :)

    in = arrays(self, x)
    call take_outputs(self, y, out, lse)
    if (present(t)) tan = arrays(self, t, self%moving)
    associate (op => self)
      select case (op%form)
      case (form_selected)
        if (present(t)) then
          call selected_attention_jvp(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
            & op%q_offset, query_block, op%duplicates, in%q, in%k, in%v, in%gate, tan%q, tan%k, &
            & tan%v, tan%gate, out, error)
        else
          call selected_attention_forward(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
            & op%q_offset, query_block, op%duplicates, in%q, in%k, in%v, in%gate, out, error=error)
        end if
      case (form_compressed)
        if (present(t)) then
          call compressed_attention_jvp(cu_q, cu_k, block, stride, scale, op%causal, op%q_offset, &
            & in%q, in%k, in%v, tan%q, tan%k, tan%v, out, lse, error)
        else
          call compressed_attention_forward(cu_q, cu_k, block, stride, scale, op%causal, &
            & op%q_offset, in%q, in%k, in%v, out, lse, error)
        end if
      case default
        if (present(t)) then
          call window_attention_jvp(cu_q, cu_k, window, scale, op%causal, op%q_offset, in%q, in%k, &
            & in%v, t_q=tan%q, t_k=tan%k, t_v=tan%v, t_out=out, error=error)
        else
          call window_attention_forward(cu_q, cu_k, window, scale, op%causal, op%q_offset, in%q, &
            & in%k, in%v, out=out, error=error)
        end if
      end select
    end associate
  end subroutine attention_evaluate

  subroutine attention_reverse(self, c, x, g, error, t)
    class(attention_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, grad, tan
    real(dp), pointer, contiguous :: c_out(:, :, :), c_lse(:, :)
    real(dp), allocatable :: out(:, :, :), lse(:, :)

    in = arrays(self, x)
    grad = arrays(self, g, self%wanted)
    call take_outputs(self, c, c_out, c_lse)
    if (present(t)) tan = arrays(self, t, self%moving)
    if (self%saved .and. .not. present(t)) then
      allocate (out, mold=c_out)
      allocate (lse(n_q_heads, n_queries))
      call forward(self, in, out, lse, error)
      if (allocated(error)) return
    end if
    associate (op => self)
      select case (op%form)
      case (form_selected)
        if (present(t)) then
          call selected_attention_hvp(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
            & op%q_offset, query_block, op%duplicates, c_out, in%q, in%k, in%v, in%gate, tan%q, &
            & tan%k, tan%v, tan%gate, grad%q, grad%k, grad%v, grad%gate, error)
        else
          call selected_attention_vjp(op%blocks, cu_q, cu_k, block_size, scale, op%causal, &
            & op%q_offset, query_block, op%duplicates, c_out, in%q, in%k, in%v, in%gate, out, lse, &
            & grad%q, grad%k, grad%v, grad%gate, error)
        end if
      case (form_compressed)
        if (present(t)) then
          call compressed_attention_hvp(cu_q, cu_k, block, stride, scale, op%causal, op%q_offset, &
            & c_out, c_lse, in%q, in%k, in%v, tan%q, tan%k, tan%v, grad%q, grad%k, grad%v, error)
        else
          call compressed_attention_vjp(cu_q, cu_k, block, stride, scale, op%causal, op%q_offset, &
            & c_out, c_lse, in%q, in%k, in%v, out, lse, grad%q, grad%k, grad%v, error)
        end if
      case default
        if (present(t)) then
          call window_attention_hvp(cu_q, cu_k, window, scale, op%causal, op%q_offset, c_out, &
            & in%q, in%k, in%v, t_q=tan%q, t_k=tan%k, t_v=tan%v, grad_q=grad%q, grad_k=grad%k, &
            & grad_v=grad%v, error=error)
        else
          call window_attention_vjp(cu_q, cu_k, window, scale, op%causal, op%q_offset, c_out, &
            & in%q, in%k, in%v, out=out, lse=lse, grad_q=grad%q, grad_k=grad%k, grad_v=grad%v, &
            & error=error)
        end if
      end select
    end associate
  end subroutine attention_reverse

  subroutine attention_record(self, x, y)
    class(attention_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y
    type(array_type) :: out, lse

    select case (self%form)
    case (form_selected)
      y = selected_attention(x(1), x(2), x(3), self%blocks, int(block_size), x(4), scale, &
        & self%causal, int(self%q_offset), cu_q, cu_k, int(query_block), &
        & trim(duplicate_names(self%duplicates)))
    case (form_compressed)
      call compressed_attention(x(1), x(2), x(3), int(block), int(stride), out, lse, scale, &
        & self%causal, int(self%q_offset), cu_q, cu_k)
      y = concatenate([reshape(out, [size_of(out)]), reshape(lse, [size_of(lse)])], 1)
    case default
      y = window_attention(x(1), x(2), x(3), window=int(window), scale=scale, &
        & causal=self%causal, q_offset=int(self%q_offset), cu_q=cu_q, cu_k=cu_k)
    end select
    y = reshape(y, [self%n_out])

  contains

    function size_of(array)
      type(array_type), intent(in) :: array
      integer :: size_of

      size_of = int(product(array%shape()))
    end function size_of

  end subroutine attention_record

  ! ---- compressed tokens ----

  subroutine test_compress(error)
    type(error_type), allocatable, intent(out) :: error
    type(compress_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: tokens(:, :, :), w(:, :)
    real(dp) :: wanted(d_k, n_heads, n_compressed)
    real(sp) :: out(d_k, n_heads, n_compressed)
    integer :: s, c, i, h, n

    call make_compress(operator, x, y)
    call operator%view(1, x, tokens)
    call operator%view(2, x, w)
    wanted(:, :, :) = 0
    n = 0
    do s = 1, 2
      c = 0
      do while (c*stride + block <= cu_k(s + 1) - cu_k(s))
        n = n + 1
        do i = 1, int(block)
          do h = 1, n_heads
            wanted(:, h, n) = wanted(:, h, n) + w(h, i)*tokens(:, h, cu_k(s) + c*stride + i)
          end do
        end do
        c = c + 1
      end do
    end do
    call check(error, n == n_compressed, "number of compressed tokens")
    if (allocated(error)) return
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    call check(error, close(y, reshape(wanted, [size(y)]), 1e-13_dp), "r64")
    call compress_forward(cu_k, block, stride, real(tokens, sp), real(w, sp), out, error)
    if (allocated(error)) return
    call check(error, close(real(reshape(out, [size(y)]), dp), reshape(wanted, [size(y)]), &
      & 1e-6_dp), "r32")
    if (.not. allocated(error)) call check_faces(operator, x, error)
    if (.not. allocated(error)) call check_tape(operator, x, error)
  end subroutine test_compress

  subroutine test_compress_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(compress_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: tokens(:, :, :), w(:, :)
    real(dp) :: out(d_k, n_heads, n_compressed)

    call make_compress(operator, x, y)
    call operator%view(1, x, tokens)
    call operator%view(2, x, w)
    out(:, :, :) = 7
    call compress_forward(cu_k, block, 0_int64, tokens, w, out, refused)
    call check_refused(error, refused, "compress: block and stride must be at least 1")
    call compress_vjp(cu_k, 4_int64, stride, out, tokens, w, error=refused)
    call check_refused(error, refused, "compress: w has shape 2 3, needs 2 4")
    ! one sequence has one more
    call compress_jvp(block=block, stride=stride, x=tokens, w=w, t_out=out, error=refused)
    call check_refused(error, refused, "compress: out has shape 5 2 10, needs 5 2 11")
    call compress_hvp(cu_k, block, stride, out, tokens, w, t_w=w(:, 2:), error=refused)
    call check_refused(error, refused, "compress: t_w has shape 2 2, needs 2 3")
    call check(error, all(out == 7), "out changed in spite of an error")
  end subroutine test_compress_refused

  subroutine make_compress(operator, x, y)
    type(compress_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:), y(:)

    call operator%add_input([d_k, n_heads, n_keys])
    call operator%add_input([n_heads, int(block)])
    operator%n_out = d_k*n_heads*n_compressed
    x = numbers(operator%last_of(2), 1)
    allocate (y(operator%n_out))
  end subroutine make_compress

  subroutine compress_evaluate(self, x, y, error, t)
    class(compress_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    real(dp), pointer, contiguous :: tokens(:, :, :), w(:, :), t_x(:, :, :), t_w(:, :), out(:, :, :)

    call self%view(1, x, tokens)
    call self%view(2, x, w)
    out(1:d_k, 1:n_heads, 1:n_compressed) => y
    if (present(t)) then
      call self%view(1, t, t_x, self%moving)
      call self%view(2, t, t_w, self%moving)
      call compress_jvp(cu_k, block, stride, tokens, w, t_x, t_w, out, error)
    else
      call compress_forward(cu_k, block, stride, tokens, w, out, error)
    end if
  end subroutine compress_evaluate

  subroutine compress_reverse(self, c, x, g, error, t)
    class(compress_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    real(dp), pointer, contiguous :: tokens(:, :, :), w(:, :), t_x(:, :, :), t_w(:, :), &
      & cotangent(:, :, :), grad_x(:, :, :), grad_w(:, :)

    call self%view(1, x, tokens)
    call self%view(2, x, w)
    call self%view(1, g, grad_x, self%wanted)
    call self%view(2, g, grad_w, self%wanted)
    cotangent(1:d_k, 1:n_heads, 1:n_compressed) => c
    if (present(t)) then
      call self%view(1, t, t_x, self%moving)
      call self%view(2, t, t_w, self%moving)
      call compress_hvp(cu_k, block, stride, cotangent, tokens, w, t_x, t_w, grad_x, grad_w, error)
    else
      call compress_vjp(cu_k, block, stride, cotangent, tokens, w, grad_x, grad_w, error)
    end if
  end subroutine compress_reverse

  subroutine compress_record(self, x, y)
    class(compress_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y

    y = reshape(compress(x(1), x(2), int(stride), cu_k), [self%n_out])
  end subroutine compress_record

  ! ---- chosen blocks ----

  !> Blocks are those always chosen, then the best by the scores of all blocks.
  subroutine test_select(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: q(d_k, n_q_heads, n_queries), k(d_k, n_heads, n_compressed), &
      & lse(n_q_heads, n_queries), out(d_v, n_q_heads, n_queries), v(d_v, n_heads, n_compressed)
    integer(int32) :: blocks(n_slots, n_heads, n_queries)
    integer(int64), parameter :: cu_c(3) = [0, 4, 10]
    logical :: causal
    integer :: i, head

    q(:, :, :) = reshape(numbers(size(q), 1), shape(q))
    k(:, :, :) = reshape(numbers(size(k), 2), shape(k))
    v(:, :, :) = 0
    causal = .false.
    do
      call compressed_attention_forward(cu_q, cu_c, block, stride, scale, causal, 1_int64, q, k, &
        & v, out, lse, error)
      if (.not. allocated(error)) call select_blocks_forward(int(n_keys, int64), cu_q, cu_k, &
        & block, stride, block_size, scale, causal, 1_int64, 1_int64, 1_int64, 0_int64, .true., &
        & merge(0_int64, 100_int64, causal), q, k, lse, blocks, error)
      if (allocated(error)) return
      do i = 1, n_queries
        do head = 1, n_heads
          call check(error, all(blocks(:, head, i) == best(i, head)), "blocks of a query")
        end do
      end do
      if (causal) exit
      causal = .true.
    end do

  contains

    !> Block 0 first, never the own block, then by score.
    function best(i, head) result(chosen)
      integer, intent(in) :: i, head
      integer(int32) :: chosen(n_slots)
      real(dp), allocatable :: scores(:)
      logical, allocatable :: left(:)
      integer :: s, own, b, c, h, n, token

      s = merge(2, 1, i > cu_q(2))
      own = int((i - 1 - cu_q(s) + 1)/block_size)
      n = int((cu_k(s + 1) - cu_k(s) + block_size - 1)/block_size)
      allocate (scores(0:n - 1), left(0:n - 1))
      scores(:) = 0
      do c = 0, int(cu_c(s + 1) - cu_c(s)) - 1
        if (causal .and. c*stride + block - 1 > i - 1 - cu_q(s) + 1) cycle
        do h = 2*head - 1, 2*head
          do token = int(c*stride), int(c*stride + block) - 1
            b = token/int(block_size)
            scores(b) = scores(b) &
              & + exp(scale*sum(q(:, h, i)*k(:, head, cu_c(s) + c + 1)) - lse(h, i))
          end do
        end do
      end do
      left(:) = .true.
      if (own < n) left(own) = .false.
      if (causal) left(own + 1:) = .false.
      chosen(:) = -1
      scores(0) = huge(scores)
      do c = 1, n_slots
        b = maxloc(scores, mask=left, dim=1) - 1
        if (b < 0) exit
        chosen(c) = int(b, int32)
        left(b) = .false.
      end do
    end function best

  end subroutine test_select

  subroutine test_select_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    real(dp) :: q(d_k, n_q_heads, n_queries), k(d_k, n_heads, n_compressed), &
      & lse(n_q_heads, n_queries)
    integer(int32) :: blocks(n_slots, n_heads, n_queries)

    q(:, :, :) = 0
    k(:, :, :) = 0
    lse(:, :) = 0
    blocks(:, :, :) = 7
    call choose(q, k, lse, 1_int64, 4_int64, "select_blocks: first_blocks and local_blocks are "// &
      & "more than n_blocks")
    call choose(q, k, lse, 0_int64, 0_int64, "select_blocks: query_block must be at least 1")
    call choose(q, k, lse, 2_int64, 0_int64, &
      & "select_blocks: block_index has shape 3 2 19, needs 3 2 10")
    call choose(q, k(:, :, 2:), lse, 1_int64, 0_int64, &
      & "select_blocks: k must have the compressed tokens of all keys")
    call choose(q, k(2:, :, :), lse, 1_int64, 0_int64, &
      & "select_blocks: k has shape 4 2 10, needs 5 2 10")
    call choose(q, k, lse(:, 2:), 1_int64, 0_int64, &
      & "select_blocks: lse has shape 4 18, needs 4 19")
    call check(error, all(blocks == 7), "blocks changed in spite of an error")

  contains

    subroutine choose(q, k, lse, query_block, first_blocks, message)
      real(dp), intent(in), contiguous :: q(:, :, :), k(:, :, :), lse(:, :)
      integer(int64), intent(in) :: query_block, first_blocks
      character(len=*), intent(in) :: message

      call select_blocks_forward(int(n_keys, int64), cu_q, cu_k, block, stride, block_size, scale, &
        & .false., 0_int64, query_block, first_blocks, 0_int64, .false., 0_int64, q, k, lse, &
        & blocks, refused)
      call check_refused(error, refused, message)
    end subroutine choose

  end subroutine test_select_refused

end module test_nsa

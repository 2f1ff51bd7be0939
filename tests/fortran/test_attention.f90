! SPDX-License-Identifier: MIT

!> Graph attention: values against plain loops, what forward saves, refusals.
module test_attention
  use gnograd, only: score_leaky_relu, score_elu, &
    & score_linear, score_relu, score_scalar, score_sigmoid, score_tanh, score_names, &
    & error_type, dp, sp, int64
  use gnograd_kernels, only: mha_gat_forward, mha_gat_vjp, mha_gat_jvp, mha_gat_hvp, &
    & mha_gat_v2_forward, mha_gat_v2_vjp, mha_gat_v2_jvp, mha_simple_forward, mha_simple_hvp
  use faces, only: close, numbers
  use operators, only: mha_gat_operator
  use test_aggregation, only: ragged_graph
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: attention_tests

  integer, parameter :: form_gat = 1, form_gat_v2 = 2, form_simple = 3
  character(len=*), parameter :: names(3) = [character(len=10) :: "mha_gat", "mha_gat_v2", &
    & "mha_simple"]
  !> Heads, channels, edge channels of mha_gat, factor of the activations
  integer, parameter :: h = 3, c = 5, ce = 2, d = h*c, n_nodes = 6, n_edges = 82
  integer(int64), parameter :: n_heads = h
  real(dp), parameter :: slope = 0.3_dp

  !> The three forms have static arguments in common.
  type, extends(mha_gat_operator) :: attention_operator
    integer :: form = form_gat
    logical :: concat = .true., norm = .true.
  contains
    procedure :: width
  end type attention_operator

  !> Inputs: x_src, x_dst, a, e, or q, k, v, e
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: source => null(), target => null(), &
      & value => null(), e => null()
    real(dp), pointer, contiguous :: a(:) => null()
  end type arrays_type

contains

  function attention_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds", test_values), &
      & test_type("wrong codes and shapes", test_refused)]
  end function attention_tests

  ! ---- values ----

  !> out, and lse, scores and activations by position.
  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: form, activation, k

    do form = form_gat, form_simple
      do activation = score_leaky_relu, merge(score_leaky_relu, score_tanh, form == form_simple)
        do k = 0, 3
          call check_value(form, activation, mod(k, 2) == 0, k > 1, error)
          if (allocated(error)) error%message = trim(names(form))//", "// &
            & trim(score_names(activation))//": "//error%message
          if (allocated(error)) return
        end do
      end do
    end do
  end subroutine test_values

  subroutine check_value(form, activation, concat, edges, error)
    integer, intent(in) :: form, activation
    !> Heads side by side; with edge features
    logical, intent(in) :: concat, edges
    type(error_type), allocatable, intent(out) :: error
    type(attention_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp), allocatable :: out(:, :)
    real(dp), dimension(h, n_nodes) :: lse
    real(dp) :: scores(n_edges, h, 2), activated(d, n_edges)
    real(sp), allocatable :: out_single(:, :)
    real(dp) :: heads(c, h), t(d), total(h)
    integer(int64) :: i, j, p, row, first, last
    integer :: m

    call make(operator, form, activation, concat, edges, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (out(operator%width(), n_nodes), out_single(operator%width(), n_nodes))
    call forward(operator, in, out, lse, scores, activated, error)
    if (allocated(error)) return

    do i = 1, n_nodes
      first = operator%graph%by_dst%offsets(i - 1) + 1
      last = operator%graph%by_dst%offsets(i)
      heads(:, :) = 0
      total(:) = 0
      do p = first, last
        j = operator%graph%by_dst%indices(p - 1) + 1
        row = operator%graph%by_dst%edge(p - 1) + 1
        do m = 1, h
          associate (s => score(operator, in, i, j, row, m))
            call check(error, abs(scores(p, m, 1) - s) < 1e-13_dp*(1 + abs(s)), "score")
            total(m) = total(m) + exp(s)
            if (form == form_simple) then
              t(:) = in%value(:, j)
              if (edges) t(:) = t + in%e(:, row)
            else
              t(:) = in%source(:, j)
            end if
            heads(:, m) = heads(:, m) + exp(s)*t((m - 1)*c + 1:m*c)
          end associate
        end do
        if (form /= form_gat_v2) cycle
        t(:) = in%source(:, j) + in%target(:, i)
        if (edges) t(:) = t + in%e(:, row)
        call check(error, close(activated(:, p), activate(activation, t), 1e-13_dp), "activations")
      end do
      if (last >= first) then
        do m = 1, h
          heads(:, m) = heads(:, m)/total(m)
        end do
        call check(error, close(lse(:, i), log(total), 1e-13_dp), "lse")
      else
        call check(error, all(lse(:, i) < -huge(lse)), "lse without edges")
      end if
      do p = first, last
        call check(error, close(scores(p, :, 2), exp(scores(p, :, 1) - log(total)), 1e-13_dp), &
          & "softmax")
      end do
      if (concat) then
        call check(error, close(out(:, i), reshape(heads, [d]), 1e-13_dp), "out")
      else
        call check(error, close(out(:, i), sum(heads, dim=2)/h, 1e-13_dp), "mean of heads")
      end if
    end do
    if (allocated(error)) return

    call forward_single(operator, in, out_single, error)
    if (allocated(error)) return
    call check(error, close(real(reshape(out_single, [size(out)]), dp), reshape(out, [size(out)]), &
      & 1e-5_dp), "real32")
  end subroutine check_value

  !> The score of the edge j -> i with a row of edge features, for head m.
  function score(operator, in, i, j, row, m) result(s)
    type(attention_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    integer(int64), intent(in) :: i, j, row
    integer, intent(in) :: m
    real(dp) :: s
    real(dp) :: t(c), of_e(c)
    integer :: first

    first = (m - 1)*c
    of_e(:) = 0
    associate (x_j => in%source(first + 1:first + c, j), x_i => in%target(first + 1:first + c, i))
      select case (operator%form)
      case (form_gat)
        s = sum(in%a(first + 1:first + c)*x_j) + sum(in%a(d + first + 1:d + first + c)*x_i)
        if (associated(in%e)) s = s + sum(in%a(2*d + (m - 1)*ce + 1:2*d + m*ce) &
          & *in%e((m - 1)*ce + 1:m*ce, row))
        t(:1) = activate(operator%activation, [s])
        s = t(1)
      case (form_gat_v2)
        if (associated(in%e)) of_e(:) = in%e(first + 1:first + c, row)
        s = sum(in%a(first + 1:first + c)*activate(operator%activation, x_j + x_i + of_e))
      case default
        if (associated(in%e)) of_e(:) = in%e(first + 1:first + c, row)
        s = sum(x_i*(x_j + of_e))
        if (operator%norm) s = s/sqrt(real(c, dp))
      end select
    end associate
  end function score

  function activate(activation, z) result(t)
    integer, intent(in) :: activation
    real(dp), intent(in) :: z(:)
    real(dp) :: t(size(z))

    select case (activation)
    case (score_leaky_relu)
      t(:) = merge(z, slope*z, z > 0)
    case (score_elu)
      t(:) = merge(z, slope*(exp(z) - 1), z > 0)
    case (score_linear)
      t(:) = z
    case (score_relu)
      t(:) = max(z, 0.0_dp)
    case (score_scalar)
      t(:) = slope*z
    case (score_sigmoid)
      t(:) = 1/(1 + exp(-z))
    case (score_tanh)
      t(:) = tanh(z)
    end select
  end function activate

  ! ---- refusals ----

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(attention_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(d, n_nodes), narrow(d - 1, n_nodes)

    out(:, :) = 7
    narrow(:, :) = 7
    call make(operator, form_gat, score_elu, .true., .true., x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    associate (graph => operator%graph)
      call mha_gat_forward(graph%view(), n_heads, .true., -1, slope, 0.0_dp, operator%seed, &
        & in%source, in%target, in%a, &
        & in%e, &
        & out, error=refused)
      call check_refused(error, refused, "mha_gat: activation: no such code")
      call mha_gat_forward(graph%view(), n_heads, .true., score_tanh + 1, slope, 0.0_dp, &
        & operator%seed, in%source, &
        & in%target, &
        & in%a, in%e, out, error=refused)
      call check_refused(error, refused, "mha_gat: activation: no such code")
      call mha_gat_vjp(graph%view(), 0_int64, .true., score_elu, slope, 0.0_dp, operator%seed, &
        & out, in%source, &
        & in%target, in%a, &
        & in%e, error=refused)
      call check_refused(error, refused, "mha_gat: num_heads must be at least 1")
      call mha_gat_jvp(graph%view(), 2_int64, .true., score_elu, slope, 0.0_dp, operator%seed, &
        & in%source, in%target, &
        & in%a, in%e, &
        & t_out=out, error=refused)
      call check_refused(error, refused, "mha_gat: x_src has shape 15 6, needs 14 6")
      call mha_gat_hvp(graph%view(), n_heads, .true., score_elu, slope, 0.0_dp, operator%seed, &
        & out, in%source, &
        & in%target, in%a, &
        & error=refused)
      call check_refused(error, refused, &
        & "mha_gat: a has weights for edge features, but e is missing")
      call mha_gat_forward(graph%view(), n_heads, .true., score_elu, slope, 0.0_dp, &
        & operator%seed, in%source, in%target, &
        & in%a(:d), in%e, out, error=refused)
      call check_refused(error, refused, "mha_gat: a has shape 15, needs 30")
      call mha_gat_forward(graph%view(), n_heads, .true., score_elu, slope, 0.0_dp, &
        & operator%seed, in%source, in%target, &
        & in%a(2:), in%e, out, error=refused)
      call check_refused(error, refused, &
        & "mha_gat: a has shape 35, needs 33")
      call mha_gat_v2_forward(graph%view(), n_heads, .true., 7, slope, 0.0_dp, operator%seed, &
        & in%source, in%target, &
        & in%a(:d), &
        & out=out, error=refused)
      call check_refused(error, refused, "mha_gat_v2: activation: no such code")
      call mha_gat_v2_vjp(graph%view(), n_heads, .true., score_elu, slope, 0.0_dp, &
        & operator%seed, narrow, in%source, &
        & in%target, &
        & in%a(:d), error=refused)
      call check_refused(error, refused, "mha_gat_v2: cotangent has shape 14 6, needs 15 6")
      call mha_gat_v2_jvp(graph%view(), n_heads, .true., score_elu, slope, 0.0_dp, &
        & operator%seed, in%source, in%target, &
        & in%a(:d), t_a=in%a, t_out=out, error=refused)
      call check_refused(error, refused, "mha_gat_v2: t_a has shape 36, needs 15")
      call mha_simple_forward(graph%view(), n_heads, .false., .true., 0.0_dp, operator%seed, &
        & in%source, in%target, &
        & in%source, &
        & out=out, error=refused)
      call check_refused(error, refused, "mha_simple: out has shape 15 6, needs 5 6")
      call mha_simple_hvp(graph%view(), n_heads, .true., .true., 0.0_dp, operator%seed, out, &
        & in%source, in%target, &
        & in%source(:, 2:), error=refused)
      call check_refused(error, refused, "mha_simple: v has shape 15 5, needs 15 6")
      call mha_gat_forward(graph%view(), n_heads, .true., score_elu, slope, 1.5_dp, [1_int64], &
        & in%source, in%target, in%a, in%e, out, error=refused)
      call check_refused(error, refused, "mha_gat: dropout must be from 0 to 1")
      call mha_gat_forward(graph%view(), n_heads, .true., score_elu, slope, 0.5_dp, operator%seed, &
        & in%source, in%target, in%a, in%e, out, error=refused)
      call check_refused(error, refused, "mha_gat: with dropout there must be a seed")
      call mha_simple_forward(graph%view(), n_heads, .true., .true., 0.5_dp, [1_int64, 2_int64], &
        & in%source, in%target, in%source, out=out, error=refused)
      call check_refused(error, refused, "mha_simple: seed has shape 2, needs 1")
    end associate
    call check(error, all(out == 7), "results changed in spite of an error")
  end subroutine test_refused

  ! ---- the operators ----

  subroutine make(operator, form, activation, concat, edges, x, error)
    type(attention_operator), intent(out) :: operator
    integer, intent(in) :: form, activation
    logical, intent(in) :: concat, edges
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error

    operator%form = form
    operator%activation = activation
    operator%concat = concat
    operator%norm = concat
    call ragged_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([d, n_nodes])
    call operator%add_input([d, n_nodes])
    select case (form)
    case (form_gat)
      call operator%add_input([2*d + merge(h*ce, 0, edges)])
    case (form_gat_v2)
      call operator%add_input([d])
    case default
      call operator%add_input([d, n_nodes])
    end select
    call operator%add_input(pack([merge(h*ce, d, form == form_gat), n_edges], edges))
    operator%n_out = operator%width()*n_nodes
    x = numbers(operator%last_of(4), 1)
  end subroutine make

  !> Features of out.
  pure function width(self)
    class(attention_operator), intent(in) :: self
    integer :: width

    width = merge(d, c, self%concat)
  end function width

  function arrays(operator, x) result(views)
    type(attention_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    if (operator%form == form_simple) then
      call operator%view(1, x, views%target)
      call operator%view(2, x, views%source)
      call operator%view(3, x, views%value)
    else
      call operator%view(1, x, views%source)
      call operator%view(2, x, views%target)
      call operator%view(3, x, views%a)
    end if
    call operator%view(4, x, views%e)
  end function arrays

  !> The operator with all that it saves.
  subroutine forward(operator, in, out, lse, scores, activated, error)
    type(attention_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(dp), intent(out), contiguous :: out(:, :), lse(:, :), scores(:, :, :), activated(:, :)
    type(error_type), allocatable, intent(out) :: error

    activated(:, :) = 0
    associate (op => operator)
      select case (op%form)
      case (form_gat)
        call mha_gat_forward(op%graph%view(), n_heads, op%concat, op%activation, slope, &
          & op%dropout, op%seed, in%source, &
          & in%target, in%a, in%e, out, lse, scores, error)
      case (form_gat_v2)
        call mha_gat_v2_forward(op%graph%view(), n_heads, op%concat, op%activation, slope, &
          & op%dropout, op%seed, &
          & in%source, &
          & in%target, in%a, in%e, out, lse, scores, activated, error)
      case default
        call mha_simple_forward(op%graph%view(), n_heads, op%concat, op%norm, op%dropout, &
          & op%seed, in%target, &
          & in%source, &
          & in%value, in%e, out, lse, scores, error)
      end select
    end associate
  end subroutine forward

  subroutine forward_single(operator, in, out, error)
    type(attention_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(sp), intent(out), contiguous :: out(:, :)
    type(error_type), allocatable, intent(out) :: error
    real(sp), allocatable :: e(:, :)

    if (associated(in%e)) e = real(in%e, sp)
    associate (op => operator)
      select case (op%form)
      case (form_gat)
        call mha_gat_forward(op%graph%view(), n_heads, op%concat, op%activation, slope, &
          & op%dropout, op%seed, &
          & real(in%source, sp), real(in%target, sp), real(in%a, sp), e, out, error=error)
      case (form_gat_v2)
        call mha_gat_v2_forward(op%graph%view(), n_heads, op%concat, op%activation, slope, &
          & op%dropout, op%seed, &
          & real(in%source, sp), real(in%target, sp), real(in%a, sp), e, out, error=error)
      case default
        call mha_simple_forward(op%graph%view(), n_heads, op%concat, op%norm, op%dropout, &
          & op%seed, real(in%target, sp), &
          & real(in%source, sp), real(in%value, sp), e, out, error=error)
      end select
    end associate
  end subroutine forward_single

end module test_attention

! SPDX-License-Identifier: MIT

!> gno_with_gradient, gno_with_laplacian and gno_with_hessian: values against the sum in plain
!> loops, its derivatives by a complex step and by differences; derivatives against differences and
!> each other, the tape against the kernels, refusals.
module test_gno_jets
  use gnograd, only: gno_with_gradient, gno_with_laplacian, gno_with_hessian, array_type, reshape, &
    & concatenate, act_gelu, act_silu, act_tanh, act_sin, act_identity, act_names, reduce_sum, &
    & reduce_mean, reduce_names, kernel_full, kernel_diagonal, kernel_names, order_gradient, &
    & order_laplacian, order_hessian, geometry_difference, geometry_pair, geometry_names, &
    & graph_type, error_type, dp, sp, int64
  use gnograd_kernels, only: gno_with_gradient_forward, gno_with_gradient_vjp, &
    & gno_with_gradient_jvp, gno_with_gradient_hvp, gno_with_laplacian_forward, &
    & gno_with_laplacian_vjp, gno_with_laplacian_jvp, gno_with_laplacian_hvp, &
    & gno_with_hessian_forward, gno_with_hessian_vjp, gno_with_hessian_jvp, gno_with_hessian_hvp
  use faces, only: operator_type, check_faces, check_tape, close, numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: gno_jets_tests

  integer, parameter :: d = 2, f_in = 4, f_out = 3, n_src = 7, n_dst = 4, n_edges = 41
  integer(int64), parameter :: widths(2) = [6, 5]

  type, extends(operator_type) :: jets_operator
    type(graph_type) :: graph
    integer :: order = order_gradient, geometry = geometry_difference, activation = act_tanh, &
      & reduction = reduce_sum, kernel = kernel_full
    !> Features of destinations, functions of the batch
    integer :: width = f_out, n_batch = 1
  contains
    procedure :: evaluate
    procedure :: reverse
    procedure :: record
    procedure :: n_second
  end type jets_operator

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous :: h(:, :, :) => null()
    real(dp), pointer, contiguous, dimension(:, :) :: x => null(), y => null(), &
      & b_v => null(), weight_derivatives => null()
    real(dp), pointer, contiguous :: layers(:) => null(), edge_weight(:) => null()
    real(dp), pointer, contiguous :: v(:, :, :) => null()
  end type arrays_type

  !> Outputs, tangents or cotangents
  type :: outputs_type
    real(dp), pointer, contiguous :: out(:, :, :) => null(), gradient(:, :, :, :) => null(), &
      & laplacian(:, :, :) => null(), hessian(:, :, :, :, :) => null()
  end type outputs_type

contains

  function gno_jets_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values", test_values), &
      & test_type("values, r32", test_single), &
      & test_type("derivatives", test_derivatives), &
      & test_type("absent cotangents", test_cotangents), &
      & test_type("tape", test_tape), &
      & test_type("wrong shapes and codes", test_refused)]
  end function gno_jets_tests

  !> Orders, geometries, reductions, kernels and activations in twelve combinations.
  subroutine choose(k, operator, x, error)
    !> 1 to 12
    integer, intent(in) :: k
    type(jets_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: activations(0:4) = [act_tanh, act_gelu, act_sin, act_silu, act_identity]
    logical :: weighted
    integer :: columns, n, p

    operator%order = mod(k, 3)
    operator%geometry = mod(k/3, 2)
    operator%activation = activations(mod(k, 5))
    operator%reduction = merge(reduce_sum, reduce_mean, mod(k, 2) == 0)
    operator%kernel = merge(kernel_full, kernel_diagonal, mod(k/2, 2) == 0)
    weighted = mod(k, 4) < 2
    ! the second destination has no edges, and the fourth more than a block
    call operator%graph%init([1, 3, 3, 8, n_edges + 1], [(1 + mod(3*p*p, n_src), p=1, n_edges)], &
      & n_src, error, [(1 + mod(11*p, n_edges), p=1, n_edges)])
    if (allocated(error)) return
    columns = f_in
    if (operator%kernel == kernel_diagonal) then
      columns = 1
      operator%width = f_in
    end if
    n = merge(2*d, d, operator%geometry == geometry_pair)
    ! every other diagonal kernel is without h
    if (columns > 1 .or. k > 6) then
      ! an array of a tape has no more axes than a Hessian without a batch
      if (operator%order < order_hessian) operator%n_batch = 2
      call operator%add_input([f_in, n_src, pack([2], operator%order < order_hessian)])
    else
      call operator%add_input([integer ::])
    end if
    call operator%add_input([d, n_dst])
    call operator%add_input([d, n_src])
    call operator%add_input([int(widths(1)*(n + 1) + widths(2)*(widths(1) + 1))])
    call operator%add_input([operator%width, columns, int(widths(2))])
    call operator%add_input([operator%width, columns])
    call operator%add_input(pack([n_edges], weighted))
    n = d
    if (operator%order == order_laplacian) n = d + 1
    if (operator%order == order_hessian) n = d + d*(d + 1)/2
    call operator%add_input(pack([n, n_edges], weighted .and. k /= 5))
    operator%n_out = operator%width*n_dst*operator%n_batch*(1 + d + operator%n_second())
    x = numbers(operator%last_of(8), k)
  end subroutine choose

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(jets_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    integer :: k

    do k = 1, 12
      call choose(k, operator, x, error)
      if (allocated(error)) return
      allocate (y(operator%n_out), wanted(operator%n_out))
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call formula(operator, arrays(operator, x), results(operator, wanted))
      ! differences are no nearer to second derivatives
      call check(error, close(y, wanted, 1e-9_dp), "not the formula")
      if (allocated(error)) return
      deallocate (y, wanted)
    end do
  end subroutine test_values

  subroutine test_single(error)
    type(error_type), allocatable, intent(out) :: error
    type(jets_operator) :: operator
    type(arrays_type) :: in
    type(outputs_type) :: wanted
    real(dp), allocatable, target :: x(:), y(:)
    real(sp), allocatable :: out(:, :, :), gradient(:, :, :, :), hessian(:, :, :, :, :)

    ! order 2, full kernel, with weights
    call choose(8, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (y(operator%n_out))
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    wanted = results(operator, y)
    allocate (out(f_out, n_dst, 1), gradient(f_out, d, n_dst, 1), hessian(f_out, d, d, n_dst, 1))
    call gno_with_hessian_forward(operator%graph%view(), widths, operator%geometry, &
      & operator%activation, &
      & operator%reduction, operator%kernel, real(in%h, sp), real(in%x, sp), real(in%y, sp), &
      & real(in%layers, sp), real(in%v, sp), real(in%b_v, sp), real(in%edge_weight, sp), &
      & real(in%weight_derivatives, sp), out, gradient, hessian, error)
    if (allocated(error)) return
    call check(error, close(real([out], dp), [wanted%out], 1e-5_dp), "out")
    call check(error, close(real([gradient], dp), [wanted%gradient], 1e-5_dp), "gradient")
    call check(error, close(real([hessian], dp), [wanted%hessian], 1e-5_dp), "hessian")
  end subroutine test_single

  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(jets_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: k

    do k = 1, 12
      call choose(k, operator, x, error)
      if (allocated(error)) return
      call check_faces(operator, x, error)
      if (allocated(error)) return
    end do
  end subroutine test_derivatives

  !> A cotangent that is absent is zero.
  subroutine test_cotangents(error)
    type(error_type), allocatable, intent(out) :: error
    type(jets_operator) :: operator
    type(arrays_type) :: in, grad, tan
    type(outputs_type) :: c
    real(dp), allocatable, target :: x(:), t(:), cotangent(:), g(:), wanted(:)
    logical :: there(3)
    integer :: k, n

    ! order 1, full kernel, with weights
    call choose(4, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    t = numbers(size(x), 20)
    tan = arrays(operator, t)
    allocate (g, wanted, mold=x)
    grad = arrays(operator, g)
    n = operator%width*n_dst*operator%n_batch
    do k = 0, 7
      there = btest(k, [0, 1, 2])
      cotangent = numbers(operator%n_out, 21)
      if (.not. there(1)) cotangent(:n) = 0
      if (.not. there(2)) cotangent(n + 1:n*(1 + d)) = 0
      if (.not. there(3)) cotangent(n*(1 + d) + 1:) = 0
      c = results(operator, cotangent)
      if (.not. there(1)) nullify (c%out)
      if (.not. there(2)) nullify (c%gradient)
      if (.not. there(3)) nullify (c%laplacian)
      call operator%reverse(cotangent, x, wanted, error)
      if (allocated(error)) return
      call gno_with_laplacian_vjp(operator%graph%view(), widths, operator%geometry, &
        & operator%activation, &
        & operator%reduction, operator%kernel, c%out, c%gradient, c%laplacian, in%h, in%x, in%y, &
        & in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, grad%h, grad%x, grad%y, &
        & grad%layers, grad%v, grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
      if (allocated(error)) return
      call check(error, close(g, wanted, 1e-13_dp), "vjp")
      if (allocated(error)) return
      call operator%reverse(cotangent, x, wanted, error, t)
      if (allocated(error)) return
      call gno_with_laplacian_hvp(operator%graph%view(), widths, operator%geometry, &
        & operator%activation, &
        & operator%reduction, operator%kernel, c%out, c%gradient, c%laplacian, in%h, in%x, in%y, &
        & in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, tan%h, tan%x, tan%y, &
        & tan%layers, tan%v, tan%b_v, tan%edge_weight, tan%weight_derivatives, grad%h, grad%x, &
        & grad%y, grad%layers, grad%v, grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
      if (allocated(error)) return
      call check(error, close(g, wanted, 1e-13_dp), "hvp")
      if (allocated(error)) return
    end do
  end subroutine test_cotangents

  subroutine test_tape(error)
    type(error_type), allocatable, intent(out) :: error
    type(jets_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: k

    do k = 1, 12
      call choose(k, operator, x, error)
      if (allocated(error)) return
      call check_tape(operator, x, error)
      if (allocated(error)) return
    end do
  end subroutine test_tape

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(jets_operator) :: operator
    type(arrays_type) :: in
    type(outputs_type) :: out
    real(dp), allocatable, target :: x(:), y(:)
    integer(int64), parameter :: none(0) = [integer(int64) ::]
    integer(int64), parameter :: long(1) = 2_int64**40
    integer :: right(4)

    ! order 1, full kernel, with weights
    call choose(4, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (y(operator%n_out), source=7.0_dp)
    out = results(operator, y)
    right = [operator%geometry, operator%activation, operator%reduction, operator%kernel]
    call forward(none, right)
    call check_refused(error, refused, &
      & "gno_with_laplacian: widths is empty")
    call forward([0_int64, 5_int64], right)
    call check_refused(error, refused, "gno_with_laplacian: widths must be at least 1")
    call forward([6_int64, 6_int64], right)
    call check_refused(error, refused, "gno_with_laplacian: layers has shape 65, needs 72")
    call forward(long, right)
    call check(error, allocated(refused), "a layer of 2^40")
    call forward(widths, [17, right(2:)])
    call check_refused(error, refused, "gno_with_laplacian: geometry must be difference or pair")
    call forward(widths, [right(1), 17, right(3:)])
    call check_refused(error, refused, "gno_with_laplacian: unknown activation")
    call forward(widths, [right(:2), 17, right(4)])
    call check_refused(error, refused, "gno_with_laplacian: reduction must be sum or mean")
    call forward(widths, [right(:3), 17])
    call check_refused(error, refused, "gno_with_laplacian: kernel must be full or diagonal")
    nullify (in%edge_weight)
    call forward(widths, right)
    call check_refused(error, refused, &
      & "gno_with_laplacian: weight_derivatives goes with edge_weight")
    in = arrays(operator, x)
    nullify (in%h)
    call forward(widths, right)
    call check_refused(error, refused, "gno_with_laplacian: a full kernel needs h")
    in = arrays(operator, x)
    call gno_with_laplacian_forward(operator%graph%view(), widths, right(1), right(2), right(3), &
      & right(4), in%h, in%x(:, 2:), in%y, in%layers, in%v, in%b_v, in%edge_weight, &
      & in%weight_derivatives, out%out, out%gradient, out%laplacian, refused)
    call check_refused(error, refused, "gno_with_laplacian: x has shape 2 3, needs 2 4")
    call gno_with_laplacian_forward(operator%graph%view(), widths, right(1), right(2), right(3), &
      & right(4), in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, &
      & in%weight_derivatives, out%out, out%gradient, out%laplacian(:, :, 2:), refused)
    call check_refused(error, refused, "gno_with_laplacian: laplacian has shape 3 4 1, needs 3 4 2")
    call gno_with_gradient_forward(operator%graph%view(), widths, right(1), right(2), right(3), &
      & right(4), &
      & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
      & out%out, out%gradient, refused)
    call check_refused(error, refused, &
      & "gno_with_gradient: weight_derivatives has shape 3 41, needs 2 41")
    call check(error, all(y == 7), "results changed in spite of an error")

  contains

    subroutine forward(widths, codes)
      integer(int64), intent(in), contiguous :: widths(:)
      integer, intent(in) :: codes(4)

      call gno_with_laplacian_forward(operator%graph%view(), widths, codes(1), codes(2), codes(3), &
        & codes(4), in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, &
        & in%weight_derivatives, out%out, out%gradient, out%laplacian, refused)
    end subroutine forward

  end subroutine test_refused

  ! ---- the operators ----

  !> Second derivatives of every feature.
  pure function n_second(self)
    class(jets_operator), intent(in) :: self
    integer :: n_second

    n_second = 0
    if (self%order == order_laplacian) n_second = 1
    if (self%order == order_hessian) n_second = d*d
  end function n_second

  function arrays(operator, x, mask) result(views)
    class(jets_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views
    real(dp), pointer, contiguous :: h(:)

    call operator%view(1, x, h, mask)
    if (associated(h)) views%h(1:f_in, 1:n_src, 1:operator%n_batch) => h
    call operator%view(2, x, views%x, mask)
    call operator%view(3, x, views%y, mask)
    call operator%view(4, x, views%layers, mask)
    call operator%view(5, x, views%v, mask)
    call operator%view(6, x, views%b_v, mask)
    call operator%view(7, x, views%edge_weight, mask)
    call operator%view(8, x, views%weight_derivatives, mask)
  end function arrays

  function results(operator, y) result(views)
    class(jets_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: y(:)
    type(outputs_type) :: views
    integer :: n

    n = operator%width*n_dst*operator%n_batch
    associate (f => operator%width, b => operator%n_batch)
      views%out(1:f, 1:n_dst, 1:b) => y(:n)
      views%gradient(1:f, 1:d, 1:n_dst, 1:b) => y(n + 1:n*(1 + d))
      if (operator%order == order_laplacian) &
        & views%laplacian(1:f, 1:n_dst, 1:b) => y(n*(1 + d) + 1:)
      if (operator%order == order_hessian) &
        & views%hessian(1:f, 1:d, 1:d, 1:n_dst, 1:b) => y(n*(1 + d) + 1:)
    end associate
  end function results

  subroutine evaluate(self, x, y, error, t)
    class(jets_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, tan
    type(outputs_type) :: out

    in = arrays(self, x)
    if (present(t)) tan = arrays(self, t, self%moving)
    out = results(self, y)
    associate (graph => self%graph, geometry => self%geometry, activation => self%activation, &
        & reduction => self%reduction, kernel => self%kernel)
      select case (self%order)
      case (order_gradient)
        if (present(t)) then
          call gno_with_gradient_jvp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & tan%h, tan%x, tan%y, tan%layers, tan%v, tan%b_v, tan%edge_weight, &
            & tan%weight_derivatives, out%out, out%gradient, error)
        else
          call gno_with_gradient_forward(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & out%out, out%gradient, error)
        end if
      case (order_laplacian)
        if (present(t)) then
          call gno_with_laplacian_jvp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & tan%h, tan%x, tan%y, tan%layers, tan%v, tan%b_v, tan%edge_weight, &
            & tan%weight_derivatives, out%out, out%gradient, out%laplacian, error)
        else
          call gno_with_laplacian_forward(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & out%out, out%gradient, out%laplacian, error)
        end if
      case (order_hessian)
        if (present(t)) then
          call gno_with_hessian_jvp(graph%view(), widths, geometry, activation, reduction, kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & tan%h, tan%x, tan%y, tan%layers, tan%v, tan%b_v, tan%edge_weight, &
            & tan%weight_derivatives, out%out, out%gradient, out%hessian, error)
        else
          call gno_with_hessian_forward(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, in%weight_derivatives, &
            & out%out, out%gradient, out%hessian, error)
        end if
      end select
    end associate
  end subroutine evaluate

  subroutine reverse(self, c, x, g, error, t)
    class(jets_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, tan, grad
    type(outputs_type) :: of

    in = arrays(self, x)
    if (present(t)) tan = arrays(self, t, self%moving)
    grad = arrays(self, g, self%wanted)
    of = results(self, c)
    associate (graph => self%graph, geometry => self%geometry, activation => self%activation, &
        & reduction => self%reduction, kernel => self%kernel)
      select case (self%order)
      case (order_gradient)
        if (present(t)) then
          call gno_with_gradient_hvp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & of%out, of%gradient, in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, &
            & in%weight_derivatives, tan%h, tan%x, tan%y, tan%layers, tan%v, tan%b_v, &
            & tan%edge_weight, tan%weight_derivatives, grad%h, grad%x, grad%y, grad%layers, &
            & grad%v, grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
        else
          call gno_with_gradient_vjp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & of%out, of%gradient, in%h, in%x, in%y, in%layers, in%v, in%b_v, in%edge_weight, &
            & in%weight_derivatives, grad%h, grad%x, grad%y, grad%layers, grad%v, grad%b_v, &
            & grad%edge_weight, grad%weight_derivatives, error)
        end if
      case (order_laplacian)
        if (present(t)) then
          call gno_with_laplacian_hvp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & of%out, of%gradient, of%laplacian, in%h, in%x, in%y, in%layers, in%v, in%b_v, &
            & in%edge_weight, in%weight_derivatives, tan%h, tan%x, tan%y, tan%layers, tan%v, &
            & tan%b_v, tan%edge_weight, tan%weight_derivatives, grad%h, grad%x, grad%y, &
            & grad%layers, grad%v, grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
        else
          call gno_with_laplacian_vjp(graph%view(), widths, geometry, activation, reduction, &
            & kernel, &
            & of%out, of%gradient, of%laplacian, in%h, in%x, in%y, in%layers, in%v, in%b_v, &
            & in%edge_weight, in%weight_derivatives, grad%h, grad%x, grad%y, grad%layers, grad%v, &
            & grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
        end if
      case (order_hessian)
        if (present(t)) then
          call gno_with_hessian_hvp(graph%view(), widths, geometry, activation, reduction, kernel, &
            & of%out, of%gradient, of%hessian, in%h, in%x, in%y, in%layers, in%v, in%b_v, &
            & in%edge_weight, in%weight_derivatives, tan%h, tan%x, tan%y, tan%layers, tan%v, &
            & tan%b_v, tan%edge_weight, tan%weight_derivatives, grad%h, grad%x, grad%y, &
            & grad%layers, grad%v, grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
        else
          call gno_with_hessian_vjp(graph%view(), widths, geometry, activation, reduction, kernel, &
            & of%out, of%gradient, of%hessian, in%h, in%x, in%y, in%layers, in%v, in%b_v, &
            & in%edge_weight, in%weight_derivatives, grad%h, grad%x, grad%y, grad%layers, grad%v, &
            & grad%b_v, grad%edge_weight, grad%weight_derivatives, error)
        end if
      end select
    end associate
  end subroutine reverse

  subroutine record(self, x, y)
    class(jets_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y
    type(array_type) :: v, b_v, out, gradient, second
    integer :: n

    v = x(5)
    b_v = x(6)
    if (self%kernel == kernel_diagonal) then
      v = reshape(v, [self%width, int(widths(2))])
      b_v = reshape(b_v, [self%width])
    end if
    associate (geometry => geometry_names(self%geometry), &
        & activation => act_names(self%activation), &
        & reduction => reduce_names(self%reduction), kernel => kernel_names(self%kernel))
      select case (self%order)
      case (order_gradient)
        call gno_with_gradient(x(1), x(2), x(3), x(4), v, b_v, self%graph, int(widths), out, &
          & gradient, x(7), x(8), geometry=geometry, activation=activation, reduction=reduction, &
          & kernel=kernel)
      case (order_laplacian)
        call gno_with_laplacian(x(1), x(2), x(3), x(4), v, b_v, self%graph, int(widths), out, &
          & gradient, second, x(7), x(8), geometry=geometry, activation=activation, &
          & reduction=reduction, kernel=kernel)
      case (order_hessian)
        call gno_with_hessian(x(1), x(2), x(3), x(4), v, b_v, self%graph, int(widths), out, &
          & gradient, second, x(7), x(8), geometry=geometry, activation=activation, &
          & reduction=reduction, kernel=kernel)
      end select
    end associate
    n = self%width*n_dst*self%n_batch
    y = concatenate([reshape(out, [n]), reshape(gradient, [n*d])], 1)
    if (self%order > order_gradient) &
      & y = concatenate([y, reshape(second, [n*self%n_second()])], 1)
  end subroutine record

  ! ---- the formula ----

  !> The sum with every position x_i moved by a complex number: its derivatives along a direction
  !> are those of a complex step, and second ones differences of these.
  subroutine formula(operator, in, wanted)
    type(jets_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    type(outputs_type), intent(in) :: wanted
    real(dp), parameter :: tiny_step = 1e-30_dp, step = 1e-4_dp
    integer, parameter :: places(4) = [-2, -1, 1, 2], weights(4) = [1, -8, 8, -1]
    complex(dp) :: move(d), value(operator%width, n_dst, operator%n_batch)
    real(dp) :: second(operator%width, d, d, n_dst, operator%n_batch)
    integer :: a, b, k

    second(:, :, :, :, :) = 0
    do a = 1, d
      move(:) = 0
      move(a) = cmplx(0, tiny_step, dp)
      call moved_sum(operator, in, move, value)
      wanted%out(:, :, :) = real(value, dp)
      wanted%gradient(:, a, :, :) = aimag(value)/tiny_step
      do b = 1, d
        do k = 1, 4
          move(b) = move(b) + places(k)*step
          call moved_sum(operator, in, move, value)
          second(:, a, b, :, :) = second(:, a, b, :, :) + &
            & weights(k)*aimag(value)/tiny_step/(12*step)
          move(b) = move(b) - places(k)*step
        end do
      end do
    end do
    if (associated(wanted%hessian)) wanted%hessian(:, :, :, :, :) = second
    if (associated(wanted%laplacian)) &
      & wanted%laplacian(:, :, :) = second(:, 1, 1, :, :) + second(:, 2, 2, :, :)
  end subroutine formula

  subroutine moved_sum(operator, in, move, value)
    type(jets_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    complex(dp), intent(in) :: move(d)
    complex(dp), intent(out) :: value(:, :, :)
    complex(dp), allocatable :: z(:), next(:)
    complex(dp) :: w, kappa(operator%n_batch)
    real(dp) :: s
    integer :: i, j, e, p, l, o, k, m, at

    value(:, :, :) = 0
    do i = 1, n_dst
      associate (csc => operator%graph%by_dst)
        s = 1
        if (operator%reduction == reduce_mean) s = 1/real(max(csc%offsets(i) - csc%offsets(i - 1), &
          & 1_int64), dp)
        do p = int(csc%offsets(i - 1)), int(csc%offsets(i)) - 1
          j = int(csc%indices(p)) + 1
          e = int(csc%edge(p)) + 1
          if (operator%geometry == geometry_pair) then
            z = [in%x(:, i) + move, cmplx(in%y(:, j), kind=dp)]
          else
            z = in%x(:, i) + move - in%y(:, j)
          end if
          at = 0
          do l = 1, size(widths)
            m = int(widths(l))
            ! weights [m, size(z)], then biases [m]
            next = cmplx(in%layers(at + m*size(z) + 1:at + m*(size(z) + 1)), kind=dp)
            do k = 1, size(z)
              next(:) = next + in%layers(at + m*(k - 1) + 1:at + m*k)*z(k)
            end do
            at = at + m*(size(z) + 1)
            z = activate(operator%activation, next)
          end do
          w = moved_weight(operator%order, in, e, move)
          do o = 1, operator%width
            do k = 1, f_in
              if (operator%kernel == kernel_diagonal .and. k /= o) cycle
              associate (column => merge(1, k, operator%kernel == kernel_diagonal))
                kappa(:) = in%b_v(o, column) + sum(in%v(o, column, :)*z)
              end associate
              if (associated(in%h)) kappa(:) = kappa*in%h(k, j, :)
              value(o, i, :) = value(o, i, :) + s*w*kappa
            end do
          end do
        end do
      end associate
    end do
  end subroutine moved_sum

  !> The weight of an edge as the polynomial that its derivatives tell of.
  pure function moved_weight(order, in, e, move) result(w)
    integer, intent(in) :: order, e
    type(arrays_type), intent(in) :: in
    complex(dp), intent(in) :: move(d)
    complex(dp) :: w

    w = 1
    if (associated(in%edge_weight)) w = in%edge_weight(e)
    if (.not. associated(in%weight_derivatives)) return
    associate (by => in%weight_derivatives(:, e))
      w = w + sum(by(:d)*move)
      if (order == order_laplacian) w = w + by(3)/d*sum(move**2)/2
      if (order == order_hessian) w = w + (by(3)*move(1)**2 + by(5)*move(2)**2)/2 + &
        & by(4)*move(1)*move(2)
    end associate
  end function moved_weight

  !> An activation of a complex number with a tiny imaginary part.
  elemental function activate(activation, z) result(y)
    integer, intent(in) :: activation
    complex(dp), intent(in) :: z
    complex(dp) :: y
    real(dp) :: x

    x = real(z, dp)
    select case (activation)
    case (act_tanh)
      y = tanh(z)
    case (act_sin)
      y = sin(z)
    case (act_silu)
      y = z/(1 + exp(-z))
    case (act_gelu)
      ! the first terms of its series
      y = x*0.5_dp*(1 + erf(x/sqrt(2.0_dp))) + (z - x)*(0.5_dp*(1 + erf(x/sqrt(2.0_dp))) + &
        & x*exp(-x**2/2)/sqrt(2*acos(-1.0_dp)))
    case default
      y = z
    end select
  end function activate

end module test_gno_jets

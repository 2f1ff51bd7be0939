! SPDX-License-Identifier: MIT

!> GNO kernels: derivatives against central differences in real64 and against each other, degenerate
!> graphs, refused shapes, equal bits for any number of threads.
module test_gno
  use gnograd_core_codes, only: act_relu, act_identity, act_gelu, act_tanh, kernel_full, &
    & kernel_diagonal, reduce_sum, reduce_mean
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_kinds, only: dp, sp
  use gnograd_core_threads, only: set_n_threads
  use gnograd_kernels_gno, only: gno_forward, gno_vjp, gno_jvp, gno_hvp, gno_contract_forward, &
    & gno_contract_vjp
  use testing, only: test_type, check
  implicit none
  private
  public :: gno_tests

  !> Step and tolerance of central differences
  real(dp), parameter :: step = 1e-5_dp, tolerance = 1e-7_dp

  !> Inputs of gno, their tangents, or their gradients
  type :: inputs_type
    real(dp), allocatable :: h(:, :), coords(:, :), u(:, :), b_u(:), v(:, :, :), b_v(:, :)
    real(dp), allocatable :: edge_weight(:)
  end type inputs_type

contains

  function gno_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("value of a small sum", test_value), &
      & test_type("derivatives, full kernel", test_full), &
      & test_type("derivatives, diagonal kernel", test_diagonal), &
      & test_type("hidden features given", test_contract), &
      & test_type("no edges, no nodes", test_degenerate), &
      & test_type("wrong shapes", test_shapes), &
      & test_type("equal bits for 1, 2, 3 threads", test_threads)]
  end function gno_tests

  !> Two edges into the first of two destinations, worked by hand.
  subroutine test_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp) :: out(1, 2)

    call graph%init([1, 3, 3], [1, 2], 2, error)
    if (allocated(error)) return
    ! hid = max(coords, 0), kappa = 2 hid + 1: 5 for the first edge, 1 for the second
    call gno_forward(graph, act_relu, reduce_sum, kernel_full, &
      & h=reshape([10.0_dp, 100.0_dp], [1, 2]), coords=reshape([2.0_dp, -3.0_dp], [1, 2]), &
      & u=reshape([1.0_dp], [1, 1]), b_u=[0.0_dp], v=reshape([2.0_dp], [1, 1, 1]), &
      & b_v=reshape([1.0_dp], [1, 1]), edge_weight=[1.0_dp, 0.5_dp], out=out, error=error)
    if (allocated(error)) return
    call check(error, all(abs(out(1, :) - [100.0_dp, 0.0_dp]) < 1e-12_dp), "value")
  end subroutine test_value

  subroutine test_full(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: activation

    do activation = act_relu, act_identity
      if (.not. allocated(error)) call check_derivatives(activation, reduce_sum, kernel_full, &
        & .true., error)
      if (.not. allocated(error)) call check_derivatives(activation, reduce_mean, kernel_full, &
        & .false., error)
    end do
  end subroutine test_full

  subroutine test_diagonal(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: activation

    do activation = act_relu, act_identity
      if (.not. allocated(error)) call check_derivatives(activation, reduce_sum, kernel_diagonal, &
        & .false., error)
      if (.not. allocated(error)) call check_derivatives(activation, reduce_mean, &
        & kernel_diagonal, .true., error)
    end do
  end subroutine test_diagonal

  !> jvp against differences of forward, <vjp, t> against <cotangent, jvp>, hvp against differences
  !> of vjp.
  subroutine check_derivatives(activation, reduction, kernel, weighted, error)
    integer, intent(in) :: activation, reduction, kernel
    logical, intent(in) :: weighted
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    type(inputs_type) :: x, t, above, below, grad, grad_above, grad_below, grad_t
    real(dp), allocatable :: out(:, :), out_above(:, :), out_below(:, :), cotangent(:, :)

    call irregular_graph(graph, error)
    if (allocated(error)) return
    call random_inputs(graph, kernel, weighted, x)
    call random_inputs(graph, kernel, weighted, t)
    above = shifted(x, t, step)
    below = shifted(x, t, -step)
    grad = x
    grad_above = x
    grad_below = x
    grad_t = x
    allocate (out(size(x%v, 1), graph%n_dst), cotangent(size(x%v, 1), graph%n_dst))
    allocate (out_above, out_below, mold=out)
    call random_number(cotangent)

    call gno_forward(graph, activation, reduction, kernel, above%h, above%coords, above%u, &
      & above%b_u, above%v, above%b_v, above%edge_weight, out_above, error)
    if (allocated(error)) return
    call gno_forward(graph, activation, reduction, kernel, below%h, below%coords, below%u, &
      & below%b_u, below%v, below%b_v, below%edge_weight, out_below, error)
    if (allocated(error)) return
    call gno_jvp(graph, activation, reduction, kernel, x%h, x%coords, x%u, x%b_u, x%v, x%b_v, &
      & x%edge_weight, t%h, t%coords, t%u, t%b_u, t%v, t%b_v, t%edge_weight, out, error)
    if (allocated(error)) return
    call check(error, all(abs(out - (out_above - out_below)/(2*step)) < &
      & tolerance*(1 + maxval(abs(out)))), "jvp")

    call vjp(x, grad)
    call check(error, abs(inner(grad, t) - sum(cotangent*out)) < &
      & 1e-12_dp*(1 + sum(abs(cotangent*out))), "vjp")
    call vjp(above, grad_above)
    call vjp(below, grad_below)
    if (allocated(error)) return
    call gno_hvp(graph, activation, reduction, kernel, cotangent, x%h, x%coords, x%u, x%b_u, x%v, &
      & x%b_v, x%edge_weight, t%h, t%coords, t%u, t%b_u, t%v, t%b_v, t%edge_weight, grad_t%h, &
      & grad_t%coords, grad_t%u, grad_t%b_u, grad_t%v, grad_t%b_v, grad_t%edge_weight, error)
    if (allocated(error)) return
    call check(error, distance(grad_t, grad_above, grad_below) < tolerance, "hvp")

  contains

    subroutine vjp(inputs, gradients)
      type(inputs_type), intent(in) :: inputs
      type(inputs_type), intent(inout) :: gradients
      type(error_type), allocatable :: problem

      call gno_vjp(graph, activation, reduction, kernel, cotangent, inputs%h, inputs%coords, &
        & inputs%u, inputs%b_u, inputs%v, inputs%b_v, inputs%edge_weight, gradients%h, &
        & gradients%coords, gradients%u, gradients%b_u, gradients%v, gradients%b_v, &
        & gradients%edge_weight, problem)
      if (allocated(problem)) call check(error, .false., problem%message)
    end subroutine vjp

  end subroutine check_derivatives

  !> gno and gno_contract with the same hidden features give the same sum and gradients.
  subroutine test_contract(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    type(inputs_type) :: x
    real(dp), allocatable :: hid(:, :), out(:, :), same(:, :), d_h(:, :), same_d_h(:, :), d_hid(:, :)
    integer :: e

    call irregular_graph(graph, error)
    if (allocated(error)) return
    call random_inputs(graph, kernel_full, .true., x)
    allocate (hid(size(x%b_u), graph%n_edges), out(size(x%v, 1), graph%n_dst))
    allocate (same, mold=out)
    allocate (d_h, same_d_h, mold=x%h)
    allocate (d_hid, mold=hid)
    do e = 1, size(hid, 2)
      hid(:, e) = tanh(matmul(x%u, x%coords(:, e)) + x%b_u)
    end do
    call gno_forward(graph, act_tanh, reduce_mean, kernel_full, x%h, x%coords, x%u, x%b_u, x%v, &
      & x%b_v, x%edge_weight, out, error)
    if (allocated(error)) return
    call gno_contract_forward(graph, reduce_mean, kernel_full, x%h, hid, x%v, x%b_v, &
      & x%edge_weight, same, error)
    if (allocated(error)) return
    call check(error, all(abs(out - same) < 1e-12_dp), "value")
    if (allocated(error)) return
    call gno_vjp(graph, act_tanh, reduce_mean, kernel_full, out, x%h, x%coords, x%u, x%b_u, x%v, &
      & x%b_v, x%edge_weight, grad_h=d_h, error=error)
    if (allocated(error)) return
    call gno_contract_vjp(graph, reduce_mean, kernel_full, out, x%h, hid, x%v, x%b_v, &
      & x%edge_weight, grad_h=same_d_h, grad_hid=d_hid, error=error)
    if (allocated(error)) return
    call check(error, all(abs(d_h - same_d_h) < 1e-11_dp), "gradient to h")
  end subroutine test_contract

  subroutine test_degenerate(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    integer :: n_dst, n_src, kernel

    do kernel = kernel_full, kernel_diagonal
      do n_dst = 0, 2
        do n_src = 0, 2
          call graph%init(spread(1, 1, n_dst + 1), [integer ::], n_src, error)
          if (.not. allocated(error)) call check_zeros(graph, kernel, error)
          if (allocated(error)) return
        end do
      end do
    end do
  end subroutine test_degenerate

  !> Without edges, everything is zero.
  subroutine check_zeros(graph, kernel, error)
    type(graph_type), intent(in) :: graph
    integer, intent(in) :: kernel
    type(error_type), allocatable, intent(out) :: error
    type(inputs_type) :: x, grad
    real(dp), allocatable :: out(:, :)

    call random_inputs(graph, kernel, .true., x)
    grad = x
    allocate (out(size(x%v, 1), graph%n_dst), source=1.0_dp)
    call gno_vjp(graph, act_gelu, reduce_mean, kernel, out, x%h, x%coords, x%u, x%b_u, x%v, &
      & x%b_v, x%edge_weight, grad%h, grad%coords, grad%u, grad%b_u, grad%v, grad%b_v, &
      & grad%edge_weight, error)
    if (allocated(error)) return
    call check(error, inner(grad, grad) == 0, "vjp without edges")
    if (allocated(error)) return
    call gno_forward(graph, act_gelu, reduce_mean, kernel, x%h, x%coords, x%u, x%b_u, x%v, x%b_v, &
      & x%edge_weight, out, error)
    if (allocated(error)) return
    call check(error, all(out == 0), "forward without edges")
  end subroutine check_zeros

  subroutine test_shapes(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(graph_type) :: graph
    type(inputs_type) :: x
    real(dp), allocatable :: out(:, :)

    call irregular_graph(graph, error)
    if (allocated(error)) return
    call random_inputs(graph, kernel_full, .true., x)
    allocate (out(size(x%v, 1), graph%n_dst), source=7.0_dp)
    call gno_forward(graph, act_gelu, reduce_mean, kernel_full, x%h(:, 2:), x%coords, x%u, x%b_u, &
      & x%v, x%b_v, x%edge_weight, out, refused)
    call check(error, allocated(refused), "h too short")
    if (allocated(error)) return
    call check(error, index(refused%message, "h has shape") > 0, refused%message)
    call check(error, all(out == 7), "output changed in spite of an error")
    call gno_forward(graph, 17, reduce_mean, kernel_full, x%h, x%coords, x%u, x%b_u, &
      & x%v, x%b_v, x%edge_weight, out, refused)
    call check(error, allocated(refused), "unknown activation")
  end subroutine test_shapes

  subroutine test_threads(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    type(inputs_type) :: x
    real(sp), allocatable :: h(:, :), coords(:, :), u(:, :), b_u(:), v(:, :, :), b_v(:, :)
    real(sp), allocatable :: out(:, :), d_h(:, :), d_coords(:, :), d_u(:, :), d_v(:, :, :)
    real(sp), allocatable :: first(:)
    integer, allocatable :: offsets(:)
    integer, parameter :: n_nodes = 3000, degree = 9
    integer :: k, n

    offsets = [(1 + degree*k, k=0, n_nodes)]
    call graph%init(offsets, [(1 + mod(k*7919, n_nodes), k=1, degree*n_nodes)], n_nodes, error)
    if (allocated(error)) return
    call random_inputs(graph, kernel_full, .false., x)
    h = real(x%h, sp)
    coords = real(x%coords, sp)
    u = real(x%u, sp)
    b_u = real(x%b_u, sp)
    v = real(x%v, sp)
    b_v = real(x%b_v, sp)
    allocate (out(size(v, 1), n_nodes))
    allocate (d_h, mold=h)
    allocate (d_coords, mold=coords)
    allocate (d_u, mold=u)
    allocate (d_v, mold=v)
    do n = 1, 3
      call set_n_threads(n)
      call gno_forward(graph, act_gelu, reduce_mean, kernel_full, h, coords, u, b_u, v, b_v, &
        & out=out, error=error)
      if (.not. allocated(error)) call gno_vjp(graph, act_gelu, reduce_mean, kernel_full, out, h, &
        & coords, u, b_u, v, b_v, grad_h=d_h, grad_coords=d_coords, grad_u=d_u, grad_v=d_v, &
        & error=error)
      if (allocated(error)) exit
      associate (all_bits => [pack(out, .true.), pack(d_h, .true.), pack(d_coords, .true.), &
          & pack(d_u, .true.), pack(d_v, .true.)])
        if (n == 1) first = all_bits
        call check(error, all(first == all_bits), "bits depend on the number of threads")
      end associate
    end do
    call set_n_threads(0)
  end subroutine test_threads

  !> Isolated nodes on both sides, a repeated edge, a row longer than a block of edges.
  subroutine irregular_graph(graph, error)
    type(graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error
    integer :: k

    call graph%init([1, 4, 4, 104, 106], [2, 2, 5, (1 + mod(k*k, 6), k=1, 100), 6, 1], 7, error, &
      & [(1 + mod(k*11, 105), k=1, 105)])
  end subroutine irregular_graph

  subroutine random_inputs(graph, kernel, weighted, x)
    type(graph_type), intent(in) :: graph
    integer, intent(in) :: kernel
    logical, intent(in) :: weighted
    type(inputs_type), intent(out) :: x
    integer, parameter :: d = 2, n_hidden = 19, f_in = 5, f_out = 3

    allocate (x%coords(d, graph%n_edges), x%u(n_hidden, d), x%b_u(n_hidden))
    if (kernel == kernel_diagonal) then
      allocate (x%h(f_in, graph%n_src), x%v(f_in, 1, n_hidden), x%b_v(f_in, 1))
    else
      allocate (x%h(f_in, graph%n_src), x%v(f_out, f_in, n_hidden), x%b_v(f_out, f_in))
    end if
    call random_number(x%h)
    call random_number(x%coords)
    call random_number(x%u)
    call random_number(x%b_u)
    call random_number(x%v)
    call random_number(x%b_v)
    x%coords = x%coords - 0.5_dp
    x%u = x%u - 0.5_dp
    x%b_u = x%b_u - 0.5_dp
    if (weighted) then
      allocate (x%edge_weight(graph%n_edges))
      call random_number(x%edge_weight)
    end if
  end subroutine random_inputs

  function shifted(x, t, s) result(y)
    type(inputs_type), intent(in) :: x, t
    real(dp), intent(in) :: s
    type(inputs_type) :: y

    y%h = x%h + s*t%h
    y%coords = x%coords + s*t%coords
    y%u = x%u + s*t%u
    y%b_u = x%b_u + s*t%b_u
    y%v = x%v + s*t%v
    y%b_v = x%b_v + s*t%b_v
    if (allocated(x%edge_weight)) y%edge_weight = x%edge_weight + s*t%edge_weight
  end function shifted

  function inner(a, b) result(s)
    type(inputs_type), intent(in) :: a, b
    real(dp) :: s

    s = sum(a%h*b%h) + sum(a%coords*b%coords) + sum(a%u*b%u) + sum(a%b_u*b%b_u) + &
      & sum(a%v*b%v) + sum(a%b_v*b%b_v)
    if (allocated(a%edge_weight)) s = s + sum(a%edge_weight*b%edge_weight)
  end function inner

  !> Largest relative distance of an array of t from the differences of above and below.
  function distance(t, above, below) result(s)
    type(inputs_type), intent(in) :: t, above, below
    real(dp) :: s

    s = max(relative(pack(t%h, .true.), pack(above%h - below%h, .true.)), &
      & relative(pack(t%coords, .true.), pack(above%coords - below%coords, .true.)), &
      & relative(pack(t%u, .true.), pack(above%u - below%u, .true.)), &
      & relative(t%b_u, above%b_u - below%b_u), &
      & relative(pack(t%v, .true.), pack(above%v - below%v, .true.)), &
      & relative(pack(t%b_v, .true.), pack(above%b_v - below%b_v, .true.)))
    if (allocated(t%edge_weight)) &
      & s = max(s, relative(t%edge_weight, above%edge_weight - below%edge_weight))
  end function distance

  function relative(got, difference) result(s)
    real(dp), intent(in) :: got(:), difference(:)
    real(dp) :: s

    s = maxval(abs(got - difference/(2*step)))/(1 + maxval(abs(got)))
  end function relative

end module test_gno

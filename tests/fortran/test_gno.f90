! SPDX-License-Identifier: MIT

!> gno and gno_contract: values against plain loops, derivatives against differences and each other,
!> the tape against the kernels, degenerate graphs, refusals, equal bits for any number of threads.
module test_gno
  use gnograd, only: gno, gno_contract, array_type, reshape, act_relu, act_identity, act_gelu, &
    & act_tanh, act_names, reduce_sum, reduce_mean, reduce_names, kernel_full, kernel_diagonal, &
    & kernel_names, gno_forward, gno_vjp, gno_jvp, gno_hvp, gno_contract_forward, &
    & gno_contract_vjp, gno_contract_jvp, gno_contract_hvp, set_n_threads, graph_type, error_type, &
    & dp, sp, int64
  use faces, only: operator_type, check_faces, check_tape, close, numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: gno_tests, irregular_graph, activate

  integer, parameter :: d = 2, n_hidden = 19, f_in = 5, f_out = 3

  !> gno, or gno_contract with hid instead of coords, u and b_u
  type, extends(operator_type) :: gno_operator
    type(graph_type) :: graph
    integer :: activation = act_tanh, reduction = reduce_sum, kernel = kernel_full
    !> Features of destinations, functions of the batch
    integer :: width = f_out, n_batch = 2
    logical :: contract = .false.
  contains
    procedure :: evaluate
    procedure :: reverse
    procedure :: record
  end type gno_operator

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous :: h(:, :, :) => null()
    real(dp), pointer, contiguous, dimension(:, :) :: coords => null(), u => null(), &
      & b_v => null(), hid => null()
    real(dp), pointer, contiguous :: b_u(:) => null(), edge_weight(:) => null(), &
      & v(:, :, :) => null()
  end type arrays_type

contains

  function gno_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("value of a small sum", test_value), &
      & test_type("values, both kinds", test_formula), &
      & test_type("derivatives, full kernel", test_full), &
      & test_type("derivatives, diagonal kernel", test_diagonal), &
      & test_type("derivatives, hidden features given", test_contract), &
      & test_type("tape", test_tape), &
      & test_type("no edges, no nodes", test_degenerate), &
      & test_type("wrong shapes and codes", test_refused), &
      & test_type("equal bits for 1, 2, 3 threads", test_threads)]
  end function gno_tests

  !> Two edges into the first of two destinations, worked by hand.
  subroutine test_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp) :: out(1, 2, 2)

    call graph%init([1, 3, 3], [1, 2], 2, error)
    if (allocated(error)) return
    ! hid = max(coords, 0), kappa = 2 hid + 1: 5 for the first edge, 1 for the second
    call gno_forward(graph%view(), act_relu, reduce_sum, kernel_full, &
      & h=reshape([10.0_dp, 100.0_dp, 1.0_dp, 2.0_dp], [1, 2, 2]), coords=reshape([2.0_dp, -3.0_dp], [1, 2]), &
      & u=reshape([1.0_dp], [1, 1]), b_u=[0.0_dp], v=reshape([2.0_dp], [1, 1, 1]), &
      & b_v=reshape([1.0_dp], [1, 1]), edge_weight=[1.0_dp, 0.5_dp], out=out, error=error)
    if (allocated(error)) return
    call check(error, all(abs([out] - [100.0_dp, 0.0_dp, 6.0_dp, 0.0_dp]) < 1e-12_dp), &
      & "value")
  end subroutine test_value

  subroutine test_formula(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    real(sp), allocatable :: out(:, :, :), single_h(:, :, :)
    integer :: activation, reduction, kernel

    do kernel = kernel_full, kernel_diagonal
      do reduction = reduce_sum, reduce_mean
        do activation = act_relu, act_identity
          call make(operator, activation, reduction, kernel, weighted=reduction == reduce_sum, &
            & error=error)
          if (allocated(error)) return
          x = numbers(operator%last_of(7), 1)
          allocate (y(operator%n_out))
          call operator%evaluate(x, y, error)
          if (allocated(error)) return
          in = arrays(operator, x)
          wanted = formula(operator, in)
          call check(error, close(y, wanted, 1e-13_dp), "r64 "//act_names(activation))
          if (allocated(error)) return

          allocate (out(operator%width, operator%graph%n_dst, operator%n_batch))
          single_h = real(in%h, sp)
          if (associated(in%edge_weight)) then
            call gno_forward(operator%graph%view(), activation, reduction, kernel, single_h, &
              & real(in%coords, sp), real(in%u, sp), real(in%b_u, sp), real(in%v, sp), &
              & real(in%b_v, sp), real(in%edge_weight, sp), out, error)
          else
            call gno_forward(operator%graph%view(), activation, reduction, kernel, single_h, &
              & real(in%coords, sp), real(in%u, sp), real(in%b_u, sp), real(in%v, sp), &
              & real(in%b_v, sp), out=out, error=error)
          end if
          if (allocated(error)) return
          call check(error, close(real(reshape(out, [operator%n_out]), dp), wanted, 1e-6_dp), &
            & "r32 "//act_names(activation))
          if (allocated(error)) return
          deallocate (y, out)
        end do
      end do
    end do
  end subroutine test_formula

  subroutine test_full(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: activation

    do activation = act_relu, act_identity
      call check_operator(activation, reduce_sum, kernel_full, .true., error)
      if (.not. allocated(error)) &
        & call check_operator(activation, reduce_mean, kernel_full, .false., error)
      if (allocated(error)) return
    end do
  end subroutine test_full

  subroutine test_diagonal(error)
    type(error_type), allocatable, intent(out) :: error
    integer :: activation

    do activation = act_relu, act_identity
      call check_operator(activation, reduce_sum, kernel_diagonal, .false., error)
      if (.not. allocated(error)) &
        & call check_operator(activation, reduce_mean, kernel_diagonal, .true., error)
      if (.not. allocated(error)) call check_operator(activation, reduce_mean, kernel_diagonal, &
        & .true., error, without_h=.true.)
      if (allocated(error)) return
    end do
  end subroutine test_diagonal

  subroutine test_contract(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    integer :: kernel

    do kernel = kernel_full, kernel_diagonal
      call make(operator, act_identity, reduce_mean, kernel, .true., error, contract=.true.)
      if (allocated(error)) return
      x = numbers(operator%last_of(5), 1)
      allocate (y(operator%n_out))
      call operator%evaluate(x, y, error)
      if (.not. allocated(error)) call check(error, &
        & close(y, formula(operator, arrays(operator, x)), 1e-13_dp), "value")
      if (.not. allocated(error)) call check_faces(operator, x, error)
      if (allocated(error)) return
      deallocate (y)
    end do
  end subroutine test_contract

  subroutine check_operator(activation, reduction, kernel, weighted, error, without_h)
    integer, intent(in) :: activation, reduction, kernel
    logical, intent(in) :: weighted
    type(error_type), allocatable, intent(out) :: error
    logical, intent(in), optional :: without_h
    type(gno_operator) :: operator
    real(dp), allocatable, target :: x(:)

    call make(operator, activation, reduction, kernel, weighted, error, without_h=without_h)
    if (allocated(error)) return
    x = numbers(operator%last_of(7), 1)
    call check_faces(operator, x, error)
    if (allocated(error)) error%message = trim(act_names(activation))//": "//error%message
  end subroutine check_operator

  subroutine test_tape(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: kernel, reduction
    logical :: contract

    do kernel = kernel_full, kernel_diagonal
      do reduction = reduce_sum, reduce_mean
        contract = kernel == reduction
        call make(operator, act_gelu, reduction, kernel, reduction == reduce_sum, error, contract, &
          & without_h=kernel == kernel_diagonal .and. .not. contract)
        if (allocated(error)) return
        x = numbers(operator%last_of(size(operator%ranks)), 1)
        call check_tape(operator, x, error)
        if (allocated(error)) return
      end do
    end do
  end subroutine test_tape

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
    type(gno_operator) :: operator
    real(dp), allocatable, target :: x(:), g(:), y(:)

    call make(operator, act_gelu, reduce_mean, kernel, .true., error, graph=graph)
    if (allocated(error)) return
    x = numbers(operator%last_of(7), 1)
    allocate (y(operator%n_out), source=1.0_dp)
    allocate (g, source=x)
    call operator%reverse(y, x, g, error)
    if (allocated(error)) return
    call check(error, all(g == 0), "vjp without edges")
    if (allocated(error)) return
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    call check(error, all(y == 0), "forward without edges")
  end subroutine check_zeros

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(gno_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), out(:, :, :), g(:, :, :)
    integer, parameter :: right(3) = [act_gelu, reduce_mean, kernel_full]
    character(len=*), parameter :: messages(3) = [character(len=40) :: "gno: unknown activation", &
      & "gno: reduction must be sum or mean", "gno: kernel must be full or diagonal"]
    integer :: codes(3), k

    call make(operator, right(1), right(2), right(3), .true., error)
    if (allocated(error)) return
    x = numbers(operator%last_of(7), 1)
    in = arrays(operator, x)
    allocate (out(f_out, operator%graph%n_dst, 2), source=7.0_dp)
    allocate (g, source=in%h)
    g(:, :, :) = 7
    do k = 1, 3
      codes = right
      codes(k) = 17
      call forward(codes, in%h)
      call check_refused(error, refused, trim(messages(k)))
    end do
    call forward([act_gelu, reduce_mean, kernel_diagonal], in%h)
    call check_refused(error, refused, "gno: h has shape 5 7 2, needs 3 7 2")
    call forward(right, in%h(:, 2:, :))
    call check_refused(error, refused, "gno: h has shape 5 6 2, needs 5 7 2")
    call forward(right)
    call check_refused(error, refused, "gno: a full kernel needs h")
    call gno_vjp(operator%graph%view(), right(1), right(2), right(3), out(:, 2:, :), in%h, &
      & in%coords, in%u, &
      & in%b_u, in%v, in%b_v, grad_h=g, error=refused)
    call check_refused(error, refused, "gno: cotangent has shape 3 3 2, needs 3 4 2")
    call gno_vjp(operator%graph%view(), right(1), right(2), right(3), out, in%h, in%coords, in%u, &
      & in%b_u, in%v, in%b_v, grad_h=g(:, :, 2:), error=refused)
    call check_refused(error, refused, "gno: grad_h has shape 5 7 1, needs 5 7 2")
    call gno_vjp(operator%graph%view(), right(1), right(2), right(3), out, in%h, in%coords, in%u, &
      & in%b_u, in%v, in%b_v(:, 2:), grad_h=g, error=refused)
    call check_refused(error, refused, "gno: b_v has shape 3 4, needs 3 5")
    call gno_contract_forward(operator%graph%view(), right(2), 2, in%h, in%hid, in%v, in%b_v, &
      & out=out, &
      & error=refused)
    call check_refused(error, refused, "gno_contract: kernel must be full or diagonal")
    call check(error, all(out == 7) .and. all(g == 7), "results changed in spite of an error")

  contains

    subroutine forward(codes, h)
      integer, intent(in) :: codes(3)
      real(dp), intent(in), contiguous, optional :: h(:, :, :)

      call gno_forward(operator%graph%view(), codes(1), codes(2), codes(3), h, in%coords, in%u, &
        & in%b_u, &
        & in%v, in%b_v, in%edge_weight, out, refused)
    end subroutine forward

  end subroutine test_refused

  subroutine test_threads(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_operator) :: operator
    type(graph_type) :: graph
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(sp), allocatable :: h(:, :, :), coords(:, :), u(:, :), b_u(:), v(:, :, :), b_v(:, :)
    real(sp), allocatable :: out(:, :, :), d_h(:, :, :), d_coords(:, :), d_u(:, :), d_v(:, :, :)
    real(sp), allocatable :: first(:)
    integer, parameter :: n_nodes = 3000, degree = 9
    integer :: k, n

    call graph%init([(1 + degree*k, k=0, n_nodes)], &
      & [(1 + mod(k*7919, n_nodes), k=1, degree*n_nodes)], n_nodes, error)
    if (allocated(error)) return
    call make(operator, act_gelu, reduce_mean, kernel_full, .false., error, graph=graph)
    if (allocated(error)) return
    x = numbers(operator%last_of(7), 1)
    in = arrays(operator, x)
    h = real(in%h, sp)
    coords = real(in%coords, sp)
    u = real(in%u, sp)
    b_u = real(in%b_u, sp)
    v = real(in%v, sp)
    b_v = real(in%b_v, sp)
    allocate (out(size(v, 1), n_nodes, 2))
    allocate (d_h, mold=h)
    allocate (d_coords, mold=coords)
    allocate (d_u, mold=u)
    allocate (d_v, mold=v)
    do n = 1, 3
      call set_n_threads(n)
      call gno_forward(graph%view(), act_gelu, reduce_mean, kernel_full, h, coords, u, b_u, v, &
        & b_v, &
        & out=out, error=error)
      if (.not. allocated(error)) call gno_vjp(graph%view(), act_gelu, reduce_mean, kernel_full, &
        & out, h, &
        & coords, u, b_u, v, b_v, grad_h=d_h, grad_coords=d_coords, grad_u=d_u, grad_v=d_v, &
        & error=error)
      if (allocated(error)) exit
      associate (all_bits => [pack(out, .true.), pack(d_h, .true.), pack(d_coords, .true.), &
          & pack(d_u, .true.), pack(d_v, .true.)])
        if (n == 1) first = all_bits
        call check(error, all(first == all_bits), "bits depend on the number of threads")
      end associate
      if (allocated(error)) exit
    end do
    call set_n_threads(0)
  end subroutine test_threads

  ! ---- the operator ----

  !> Isolated nodes on both sides, a repeated edge, a row longer than a block of edges, edges that
  !> lie elsewhere in the edge table.
  subroutine irregular_graph(graph, error)
    type(graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error
    integer :: k

    call graph%init([1, 4, 4, 104, 106], [2, 2, 5, (1 + mod(k*k, 6), k=1, 100), 6, 1], 7, error, &
      & [(1 + mod(k*11, 105), k=1, 105)])
  end subroutine irregular_graph

  subroutine make(operator, activation, reduction, kernel, weighted, error, contract, without_h, &
      & graph)
    type(gno_operator), intent(out) :: operator
    integer, intent(in) :: activation, reduction, kernel
    logical, intent(in) :: weighted
    type(error_type), allocatable, intent(out) :: error
    logical, intent(in), optional :: contract, without_h
    type(graph_type), intent(in), optional :: graph
    logical :: with_h
    integer :: n_edges, columns

    with_h = .true.
    if (present(without_h)) with_h = .not. without_h
    if (present(contract)) operator%contract = contract
    operator%activation = activation
    operator%reduction = reduction
    operator%kernel = kernel
    if (present(graph)) then
      operator%graph = graph
    else
      call irregular_graph(operator%graph, error)
      if (allocated(error)) return
    end if
    n_edges = int(operator%graph%n_edges)
    if (kernel == kernel_diagonal) operator%width = f_in
    columns = merge(1, f_in, kernel == kernel_diagonal)
    if (.not. with_h) operator%n_batch = 1
    call operator%add_input(pack([f_in, int(operator%graph%n_src), operator%n_batch], with_h))
    if (operator%contract) then
      call operator%add_input([n_hidden, n_edges])
    else
      call operator%add_input([d, n_edges])
      call operator%add_input([n_hidden, d])
      call operator%add_input([n_hidden])
    end if
    call operator%add_input([operator%width, columns, n_hidden])
    call operator%add_input([operator%width, columns])
    call operator%add_input(pack([n_edges], weighted))
    operator%n_out = operator%width*int(operator%graph%n_dst)*operator%n_batch
  end subroutine make

  function arrays(operator, x, mask) result(views)
    class(gno_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views
    integer :: last

    call operator%view(1, x, views%h, mask)
    if (operator%contract) then
      call operator%view(2, x, views%hid, mask)
      last = 2
    else
      call operator%view(2, x, views%coords, mask)
      call operator%view(3, x, views%u, mask)
      call operator%view(4, x, views%b_u, mask)
      last = 4
    end if
    call operator%view(last + 1, x, views%v, mask)
    call operator%view(last + 2, x, views%b_v, mask)
    call operator%view(last + 3, x, views%edge_weight, mask)
  end function arrays

  subroutine evaluate(self, x, y, error, t)
    class(gno_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, tan
    real(dp), pointer, contiguous :: out(:, :, :)

    in = arrays(self, x)
    if (present(t)) tan = arrays(self, t, self%moving)
    out(1:self%width, 1:self%graph%n_dst, 1:self%n_batch) => y
    if (self%contract .and. present(t)) then
      call gno_contract_jvp(self%graph%view(), self%reduction, self%kernel, in%h, in%hid, in%v, &
        & in%b_v, &
        & in%edge_weight, tan%h, tan%hid, tan%v, tan%b_v, tan%edge_weight, out, error)
    else if (self%contract) then
      call gno_contract_forward(self%graph%view(), self%reduction, self%kernel, in%h, in%hid, &
        & in%v, &
        & in%b_v, in%edge_weight, out, error)
    else if (present(t)) then
      call gno_jvp(self%graph%view(), self%activation, self%reduction, self%kernel, in%h, &
        & in%coords, &
        & in%u, in%b_u, in%v, in%b_v, in%edge_weight, tan%h, tan%coords, tan%u, tan%b_u, tan%v, &
        & tan%b_v, tan%edge_weight, out, error)
    else
      call gno_forward(self%graph%view(), self%activation, self%reduction, self%kernel, in%h, &
        & in%coords, &
        & in%u, in%b_u, in%v, in%b_v, in%edge_weight, out, error)
    end if
  end subroutine evaluate

  subroutine reverse(self, c, x, g, error, t)
    class(gno_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, grad, tan
    real(dp), pointer, contiguous :: cotangent(:, :, :)

    in = arrays(self, x)
    grad = arrays(self, g, self%wanted)
    if (present(t)) tan = arrays(self, t, self%moving)
    cotangent(1:self%width, 1:self%graph%n_dst, 1:self%n_batch) => c
    if (self%contract .and. present(t)) then
      call gno_contract_hvp(self%graph%view(), self%reduction, self%kernel, cotangent, in%h, &
        & in%hid, &
        & in%v, in%b_v, in%edge_weight, tan%h, tan%hid, tan%v, tan%b_v, tan%edge_weight, grad%h, &
        & grad%hid, grad%v, grad%b_v, grad%edge_weight, error)
    else if (self%contract) then
      call gno_contract_vjp(self%graph%view(), self%reduction, self%kernel, cotangent, in%h, &
        & in%hid, &
        & in%v, in%b_v, in%edge_weight, grad%h, grad%hid, grad%v, grad%b_v, grad%edge_weight, error)
    else if (present(t)) then
      call gno_hvp(self%graph%view(), self%activation, self%reduction, self%kernel, cotangent, &
        & in%h, &
        & in%coords, in%u, in%b_u, in%v, in%b_v, in%edge_weight, tan%h, tan%coords, tan%u, &
        & tan%b_u, tan%v, tan%b_v, tan%edge_weight, grad%h, grad%coords, grad%u, grad%b_u, &
        & grad%v, grad%b_v, grad%edge_weight, error)
    else
      call gno_vjp(self%graph%view(), self%activation, self%reduction, self%kernel, cotangent, &
        & in%h, &
        & in%coords, in%u, in%b_u, in%v, in%b_v, in%edge_weight, grad%h, grad%coords, grad%u, &
        & grad%b_u, grad%v, grad%b_v, grad%edge_weight, error)
    end if
  end subroutine reverse

  subroutine record(self, x, y)
    class(gno_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y
    type(array_type) :: v, b_v

    associate (n => size(x))
      v = x(n - 2)
      b_v = x(n - 1)
      if (self%kernel == kernel_diagonal) then
        v = reshape(v, [self%width, n_hidden])
        b_v = reshape(b_v, [self%width])
      end if
      if (self%contract) then
        y = gno_contract(x(1), x(2), v, b_v, self%graph, edge_weight=x(n), &
          & reduction=reduce_names(self%reduction), kernel=kernel_names(self%kernel))
      else
        y = gno(x(1), x(2), x(3), x(4), v, b_v, self%graph, edge_weight=x(n), &
          & activation=act_names(self%activation), reduction=reduce_names(self%reduction), &
          & kernel=kernel_names(self%kernel))
      end if
    end associate
    y = reshape(y, [self%n_out])
  end subroutine record

  !> The sum, edge by edge.
  function formula(operator, in) result(y)
    type(gno_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(dp), allocatable :: y(:)
    real(dp) :: out(operator%width, operator%graph%n_dst, operator%n_batch), hid(n_hidden)
    real(dp) :: kappa, h(operator%n_batch), w, s
    integer :: e, i, j, k, o, p

    out(:, :, :) = 0
    do i = 1, int(operator%graph%n_dst)
      associate (offsets => operator%graph%by_dst%offsets)
        s = 1
        if (operator%reduction == reduce_mean) &
          & s = 1/real(max(offsets(i) - offsets(i - 1), 1_int64), dp)
        do p = int(offsets(i - 1)), int(offsets(i)) - 1
          e = int(operator%graph%by_dst%edge(p)) + 1
          j = int(operator%graph%by_dst%indices(p)) + 1
          if (operator%contract) then
            hid(:) = in%hid(:, e)
          else
            hid(:) = activate(operator%activation, matmul(in%u, in%coords(:, e)) + in%b_u)
          end if
          w = 1
          if (associated(in%edge_weight)) w = in%edge_weight(e)
          do o = 1, operator%width
            do k = 1, f_in
              if (operator%kernel == kernel_diagonal .and. k /= o) cycle
              h(:) = 1
              if (associated(in%h)) h(:) = in%h(k, j, :)
              associate (column => merge(1, k, operator%kernel == kernel_diagonal))
                kappa = in%b_v(o, column) + dot_product(in%v(o, column, :), hid)
              end associate
              out(o, i, :) = out(o, i, :) + s*w*h*kappa
            end do
          end do
        end do
      end associate
    end do
    y = reshape(out, [size(out)])
  end function formula

  elemental function activate(activation, x) result(y)
    integer, intent(in) :: activation
    real(dp), intent(in) :: x
    real(dp) :: y

    select case (trim(act_names(activation)))
    case ("relu")
      y = max(x, 0.0_dp)
    case ("gelu")
      y = x*0.5_dp*(1 + erf(x/sqrt(2.0_dp)))
    case ("silu")
      y = x/(1 + exp(-x))
    case ("tanh")
      y = tanh(x)
    case ("sin")
      y = sin(x)
    case default
      y = x
    end select
  end function activate

end module test_gno

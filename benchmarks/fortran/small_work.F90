! SPDX-License-Identifier: MIT

!> Small networks beside loops written by hand: values of a few columns, as a closure in a solver's
!> loop needs them, by `evaluate` and on a tape; and a training step of a few samples.
!>
!> All numbers are ratios to the time by hand, loops or BLAS, which is faster: medians of runs that
!> take turns, in processor time on one thread. Results are compared before anything is timed.
!>
!>     gfortran -O3 -march=native small_work.F90 $(pkg-config --cflags --libs gnograd) -lopenblas \
!>       -o small_work
!>     OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ./small_work
!>
!> The BLAS of scipy-openblas32 has other names: -DDGEMM=scipy_dgemm -DSGEMM=scipy_sgemm. One file,
!> which one command compiles.
#ifndef DGEMM
#define DGEMM dgemm
#define SGEMM sgemm
#endif
module small_work_cases
  use gnograd
  implicit none
  public

  !> Work that is done in several ways, 1 to n_ways; the ways from first_by_hand on are written by hand.
  type, abstract :: work_type
    character(len=34) :: name
    integer :: n_ways, first_by_hand
    !> Calls that are timed together
    integer :: repeats
  contains
    procedure(run_interface), deferred :: run
    !> Difference of the results
    procedure(difference_interface), deferred :: difference
  end type work_type

  abstract interface
    subroutine run_interface(self, way)
      import :: work_type
      class(work_type), intent(inout) :: self
      integer, intent(in) :: way
    end subroutine run_interface

    function difference_interface(self) result(difference)
      import :: work_type, dp
      class(work_type), intent(inout) :: self
      real(dp) :: difference
    end function difference_interface
  end interface

  !> Values of 4-32-32-1 with tanh: evaluate, tape, loops, BLAS.
  type, extends(work_type) :: values_type
    type(tape_type) :: tape
    type(mlp_type) :: net
    integer :: start, n
    real(dp), allocatable :: w1(:, :), w2(:, :), w3(:, :), b1(:), b2(:), b3(:), x(:, :), y(:, :), &
      & taped(:, :), hand(:, :), a(:, :), b(:, :)
  contains
    procedure :: init => values_init
    procedure :: run => values_run
    procedure :: difference => values_difference
  end type values_type

  !> The integral of gno_type over a small graph: evaluate, tape, loops.
  type, extends(work_type) :: integral_type
    type(tape_type) :: tape
    type(gno_type) :: layer
    type(graph_type) :: graph
    integer :: start
    integer, allocatable :: src(:), dst(:)
    real(dp), allocatable :: h(:, :), coords(:, :), u(:, :), b_u(:), v(:, :, :), b_v(:, :), y(:, :), &
      & taped(:, :), hand(:, :)
  contains
    procedure :: init => integral_init
    procedure :: run => integral_run
    procedure :: difference => integral_difference
  end type integral_type

  !> A network on the edges of a small graph: evaluate, tape, loops.
  type, extends(work_type) :: edges_type
    type(tape_type) :: tape
    type(edge_mlp_type) :: layer
    type(graph_type) :: graph
    integer :: start
    integer, allocatable :: src(:), dst(:)
    real(dp), allocatable :: x(:, :), e(:, :), w1(:, :), w2(:, :), b1(:), b2(:), gamma(:), beta(:), &
      & edges(:, :), nodes(:, :), taped(:, :), hand(:, :), sums(:, :)
  contains
    procedure :: init => edges_init
    procedure :: run => edges_run
    procedure :: difference => edges_difference
  end type edges_type

  !> A step of gradient descent with tanh behind all layers: tape, loops with BLAS.
  type, extends(work_type) :: step_type
    type(tape_type) :: tape
    type(mlp_type) :: net
    type(sgd_type) :: sgd
    integer :: start, n, width
    real(sp), allocatable :: w(:, :, :), b(:, :), gw(:, :), x(:, :), y(:, :), a(:, :, :), g(:, :), &
      & before(:, :)
  contains
    procedure :: init => step_init
    procedure :: run => step_run
    procedure :: difference => step_difference
  end type step_type

  !> Width of hidden layers; layers of the network that is trained; features and degree on graphs
  integer, parameter :: hidden = 32, n_layers = 3, n_features = 8, degree = 4
  real(sp), parameter :: rate = 0.01

contains

  !> Print the median ratios of all ways to the fastest by hand.
  subroutine compare(work)
    class(work_type), intent(inout) :: work
    integer, parameter :: n_rounds = 41
    real(dp) :: t(work%n_ways, n_rounds), before, behind, difference
    integer :: best, k, round, way

    do way = 1, work%n_ways
      call work%run(way)
    end do
    difference = work%difference()
    do round = 1, n_rounds
      do way = 1, work%n_ways
        call cpu_time(before)
        do k = 1, work%repeats
          call work%run(way)
        end do
        call cpu_time(behind)
        t(way, round) = behind - before
      end do
    end do
    best = work%first_by_hand
    do way = best + 1, work%n_ways
      if (median(t(way, :)) < median(t(best, :))) best = way
    end do
    print "(a, es9.1, f10.2, *(f9.2))", work%name, difference, 1e6_dp*median(t(best, :))/work%repeats, &
      & (median(t(way, :)/t(best, :)), way=1, work%n_ways)
  end subroutine compare

  !> Median of an odd number of values.
  pure function median(values)
    real(dp), intent(in) :: values(:)
    real(dp) :: median, rest(size(values))
    integer :: k

    rest = values
    do k = 1, size(rest)/2
      rest(minloc(rest)) = huge(median)
    end do
    median = minval(rest)
  end function median

  subroutine stop_at(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    error stop
  end subroutine stop_at

  ! ---- values of a dense network ----

  subroutine values_init(self, n)
    class(values_type), intent(inout) :: self
    !> Columns
    integer, intent(in) :: n
    type(initializer_type) :: initial
    type(error_type), allocatable :: error

    write (self%name, "(a, i5)") "values, columns", n
    self%n_ways = 4
    self%first_by_hand = 3
    self%repeats = max(3, 3000/n)
    self%n = n
    call self%tape%init(error)
    call stop_at(error)
    initial = initializer_type(seed=1)
    call self%net%init(self%tape, initial, "n", [4, hidden, hidden, 1], activation="tanh")
    call self%net%layers(1)%weight%val(self%w1)
    call self%net%layers(2)%weight%val(self%w2)
    call self%net%layers(3)%weight%val(self%w3)
    call self%net%layers(1)%bias%val(self%b1)
    call self%net%layers(2)%bias%val(self%b2)
    call self%net%layers(3)%bias%val(self%b3)
    self%start = self%tape%mark()
    allocate (self%x(4, n), self%y(1, n), self%hand(1, n), self%a(hidden, n), self%b(hidden, n))
    call random_number(self%x)
  end subroutine values_init

  subroutine values_run(self, way)
    class(values_type), intent(inout) :: self
    integer, intent(in) :: way
    type(error_type), allocatable :: error
    type(array_type) :: out

    select case (way)
    case (1)
      call self%net%evaluate(self%x, self%y, error)
      call stop_at(error)
    case (2)
      call self%tape%no_grad()
      out = self%net%forward(self%tape%constant(self%x))
      call out%val(self%taped)
      call self%tape%end_no_grad()
      call self%tape%rewind(self%start)
    case (3)
      call loops(self%n, self%x, self%w1, self%b1, self%w2, self%b2, self%w3, self%b3, self%hand)
    case (4)
      call with_blas(self%n, self%x, self%w1, self%b1, self%w2, self%b2, self%w3, self%b3, self%a, &
        & self%b, self%hand)
    end select
  end subroutine values_run

  function values_difference(self) result(difference)
    class(values_type), intent(inout) :: self
    real(dp) :: difference

    difference = max(maxval(abs(self%y - self%hand)), maxval(abs(self%y - self%taped)))
  end function values_difference

  subroutine loops(n, x, w1, b1, w2, b2, w3, b3, y)
    integer, intent(in) :: n
    real(dp), intent(in) :: x(4, n), w1(4, hidden), b1(hidden), w2(hidden, hidden), b2(hidden), &
      & w3(hidden), b3(1)
    real(dp), intent(out) :: y(n)
    real(dp) :: u(hidden), v(hidden)
    integer :: j, k

    do j = 1, n
      do k = 1, hidden
        u(k) = tanh(b1(k) + dot_product(w1(:, k), x(:, j)))
      end do
      do k = 1, hidden
        v(k) = tanh(b2(k) + dot_product(w2(:, k), u))
      end do
      y(j) = b3(1) + dot_product(w3, v)
    end do
  end subroutine loops

  subroutine with_blas(n, x, w1, b1, w2, b2, w3, b3, a, b, y)
    integer, intent(in) :: n
    real(dp), intent(in) :: x(4, n), w1(4, hidden), b1(hidden), w2(hidden, hidden), b2(hidden), &
      & w3(hidden), b3(1)
    real(dp), intent(inout) :: a(hidden, n), b(hidden, n), y(n)
    integer :: j

    call DGEMM("T", "N", hidden, n, 4, 1.0_dp, w1, 4, x, 4, 0.0_dp, a, hidden)
    do j = 1, n
      a(:, j) = tanh(a(:, j) + b1)
    end do
    call DGEMM("T", "N", hidden, n, hidden, 1.0_dp, w2, hidden, a, hidden, 0.0_dp, b, hidden)
    do j = 1, n
      b(:, j) = tanh(b(:, j) + b2)
    end do
    call DGEMM("T", "N", 1, n, hidden, 1.0_dp, w3, hidden, b, hidden, 0.0_dp, y, 1)
    y = y + b3(1)
  end subroutine with_blas

  ! ---- layers on graphs ----

  !> Every node of a ring and some of those behind it.
  subroutine make_ring(n, graph, src, dst)
    integer, intent(in) :: n
    type(graph_type), intent(out) :: graph
    integer, allocatable, intent(out) :: src(:), dst(:)
    type(error_type), allocatable :: error
    integer :: i, k

    call graph%from_edges([((1 + modulo(i - k - 1, n), k=1, degree), i=1, n)], &
      & [((i, k=1, degree), i=1, n)], error)
    call stop_at(error)
    src = int(graph%src())
    dst = int(graph%dst())
  end subroutine make_ring

  subroutine integral_init(self, n)
    class(integral_type), intent(inout) :: self
    !> Nodes
    integer, intent(in) :: n
    type(initializer_type) :: initial
    type(error_type), allocatable :: error

    write (self%name, "(a, i5)") "gno, nodes", n
    self%n_ways = 3
    self%first_by_hand = 3
    self%repeats = max(3, 800/n)
    call self%tape%init(error)
    call stop_at(error)
    initial = initializer_type(seed=1)
    call self%layer%init(self%tape, initial, "g", n_features, n_features, 2, hidden, "tanh")
    call self%layer%U%val(self%u)
    call self%layer%b_u%val(self%b_u)
    call self%layer%V%val(self%v)
    call self%layer%b_v%val(self%b_v)
    self%start = self%tape%mark()
    call make_ring(n, self%graph, self%src, self%dst)
    allocate (self%h(n_features, n), self%y(n_features, n), self%hand(n_features, n), &
      & self%coords(2, size(self%src)))
    call random_number(self%h)
    call random_number(self%coords)
  end subroutine integral_init

  subroutine integral_run(self, way)
    class(integral_type), intent(inout) :: self
    integer, intent(in) :: way
    type(error_type), allocatable :: error
    type(array_type) :: out

    select case (way)
    case (1)
      call self%layer%evaluate(self%h, self%coords, self%graph, self%y, error)
      call stop_at(error)
    case (2)
      call self%tape%no_grad()
      out = self%layer%forward(self%tape%constant(self%h), self%tape%constant(self%coords), self%graph)
      call out%val(self%taped)
      call self%tape%end_no_grad()
      call self%tape%rewind(self%start)
    case (3)
      call integral_by_hand(size(self%h, 2), size(self%src), self%src, self%dst, self%h, self%coords, &
        & self%u, self%b_u, self%v, self%b_v, self%hand)
    end select
  end subroutine integral_run

  function integral_difference(self) result(difference)
    class(integral_type), intent(inout) :: self
    real(dp) :: difference

    difference = max(maxval(abs(self%y - self%hand)), maxval(abs(self%y - self%taped)))
  end function integral_difference

  subroutine integral_by_hand(n, n_edges, src, dst, h, coords, u, b_u, v, b_v, y)
    integer, intent(in) :: n, n_edges, src(n_edges), dst(n_edges)
    real(dp), intent(in) :: h(n_features, n), coords(2, n_edges), u(hidden, 2), b_u(hidden), &
      & v(n_features, n_features, hidden), b_v(n_features, n_features)
    real(dp), intent(out) :: y(n_features, n)
    real(dp) :: a(hidden), kernel(n_features, n_features)
    integer :: p, k

    y = 0
    do p = 1, n_edges
      a = tanh(u(:, 1)*coords(1, p) + u(:, 2)*coords(2, p) + b_u)
      kernel = b_v
      do k = 1, hidden
        kernel = kernel + v(:, :, k)*a(k)
      end do
      do k = 1, n_features
        y(:, dst(p)) = y(:, dst(p)) + kernel(:, k)*h(k, src(p))/degree
      end do
    end do
  end subroutine integral_by_hand

  subroutine edges_init(self, n)
    class(edges_type), intent(inout) :: self
    !> Nodes
    integer, intent(in) :: n
    type(initializer_type) :: initial
    type(error_type), allocatable :: error

    write (self%name, "(a, i5)") "edge_mlp, nodes", n
    self%n_ways = 3
    self%first_by_hand = 3
    self%repeats = max(3, 800/n)
    call self%tape%init(error)
    call stop_at(error)
    initial = initializer_type(seed=1)
    call self%layer%init(self%tape, initial, "e", n_features, n_features, [hidden, n_features], "tanh")
    associate (mlp => self%layer%mlp)
      call mlp%layers(1)%weight%val(self%w1)
      call mlp%layers(2)%weight%val(self%w2)
      call mlp%layers(1)%bias%val(self%b1)
      call mlp%layers(2)%bias%val(self%b2)
      call mlp%norm%weight%val(self%gamma)
      call mlp%norm%bias%val(self%beta)
    end associate
    self%start = self%tape%mark()
    call make_ring(n, self%graph, self%src, self%dst)
    allocate (self%x(n_features, n), self%nodes(n_features, n), self%sums(n_features, n))
    allocate (self%e(n_features, degree*n), self%edges(n_features, degree*n), &
      & self%hand(n_features, degree*n))
    call random_number(self%x)
    call random_number(self%e)
  end subroutine edges_init

  subroutine edges_run(self, way)
    class(edges_type), intent(inout) :: self
    integer, intent(in) :: way
    type(error_type), allocatable :: error
    type(array_type) :: edges, nodes

    select case (way)
    case (1)
      call self%layer%evaluate(self%e, self%x, self%graph, self%edges, self%nodes, error)
      call stop_at(error)
    case (2)
      call self%tape%no_grad()
      call self%layer%forward(self%tape%constant(self%e), self%tape%constant(self%x), self%graph, &
        & edges, nodes)
      call edges%val(self%taped)
      call self%tape%end_no_grad()
      call self%tape%rewind(self%start)
    case (3)
      call edges_by_hand(size(self%x, 2), size(self%src), self%src, self%dst, self%x, self%e, &
        & self%w1, self%b1, self%w2, self%b2, self%gamma, self%beta, self%hand, self%sums)
    end select
  end subroutine edges_run

  function edges_difference(self) result(difference)
    class(edges_type), intent(inout) :: self
    real(dp) :: difference

    difference = max(maxval(abs(self%edges - self%hand)), maxval(abs(self%edges - self%taped)), &
      & maxval(abs(self%nodes - self%sums)))
  end function edges_difference

  subroutine edges_by_hand(n, n_edges, src, dst, x, e, w1, b1, w2, b2, gamma, beta, edges, nodes)
    integer, intent(in) :: n, n_edges, src(n_edges), dst(n_edges)
    real(dp), intent(in) :: x(n_features, n), e(n_features, n_edges), w1(3*n_features, hidden), &
      & b1(hidden), w2(hidden, n_features), b2(n_features), gamma(n_features), beta(n_features)
    real(dp), intent(out) :: edges(n_features, n_edges), nodes(n_features, n)
    real(dp) :: all_of_them(3*n_features), a(hidden), m(n_features)
    integer :: p, k

    nodes = 0
    do p = 1, n_edges
      all_of_them = [e(:, p), x(:, src(p)), x(:, dst(p))]
      do k = 1, hidden
        a(k) = tanh(b1(k) + dot_product(w1(:, k), all_of_them))
      end do
      do k = 1, n_features
        m(k) = b2(k) + dot_product(w2(:, k), a)
      end do
      m = m - sum(m)/n_features
      edges(:, p) = e(:, p) + m/sqrt(sum(m**2)/n_features + 1e-5_dp)*gamma + beta
      nodes(:, dst(p)) = nodes(:, dst(p)) + edges(:, p)
    end do
  end subroutine edges_by_hand

  ! ---- a step of training ----

  subroutine step_init(self, width, n)
    class(step_type), intent(inout) :: self
    !> Features of all layers, and samples
    integer, intent(in) :: width, n
    type(initializer_type) :: initial
    type(error_type), allocatable :: error
    real(sp), allocatable :: values(:, :)
    integer :: k

    write (self%name, "(a, i4, a, i5)") "step, width", width, ", samples", n
    self%n_ways = 2
    self%first_by_hand = 2
    self%repeats = max(3, 8000000/(width*width*(n + 8)))
    self%width = width
    self%n = n
    call self%tape%init(error)
    call stop_at(error)
    initial = initializer_type(seed=1, kind=sp)
    call self%net%init(self%tape, initial, "net", spread(width, 1, n_layers + 1), activation="tanh")
    call self%sgd%init(self%net%parameters(), real(rate, dp), error)
    call stop_at(error)
    allocate (self%w(width, width, n_layers), self%gw(width, width), self%x(width, n), &
      & self%y(width, n), self%a(width, n, 0:n_layers), self%g(width, n), self%before(width, n))
    allocate (self%b(width, n_layers), source=0.0_sp)
    do k = 1, n_layers
      call self%net%layers(k)%weight%val(values)
      self%w(:, :, k) = values
    end do
    call random_number(self%x)
    call random_number(self%y)
    self%start = self%tape%mark()
  end subroutine step_init

  subroutine step_run(self, way)
    class(step_type), intent(inout) :: self
    integer, intent(in) :: way
    type(error_type), allocatable :: error
    type(array_type) :: loss

    if (way == 2) then
      call step_by_hand(self%width, self%n, self%x, self%y, self%w, self%b, self%a, self%g, self%gw, &
        & self%before)
      return
    end if
    loss = sum((tanh(self%net%forward(self%tape%constant(self%x))) - self%tape%constant(self%y))**2) &
      & /(2.0_dp*self%n)
    call self%tape%backward(loss, error)
    if (.not. allocated(error)) call self%sgd%step(error)
    call stop_at(error)
    call self%tape%rewind(self%start)
  end subroutine step_run

  function step_difference(self) result(difference)
    class(step_type), intent(inout) :: self
    real(dp) :: difference
    real(sp), allocatable :: values(:, :)

    call self%net%layers(1)%weight%val(values)
    difference = maxval(abs(values - self%w(:, :, 1)))
  end function step_difference

  subroutine step_by_hand(width, n, x, y, w, b, a, g, gw, before)
    integer, intent(in) :: width, n
    real(sp), intent(in) :: x(width, n), y(width, n)
    real(sp), intent(inout) :: w(width, width, n_layers), b(width, n_layers), &
      & a(width, n, 0:n_layers), g(width, n), gw(width, width), before(width, n)
    integer :: l, j

    a(:, :, 0) = x
    do l = 1, n_layers
      call SGEMM("T", "N", width, n, width, 1.0_sp, w(1, 1, l), width, a(1, 1, l - 1), width, &
        & 0.0_sp, a(1, 1, l), width)
      do j = 1, n
        a(:, j, l) = tanh(a(:, j, l) + b(:, l))
      end do
    end do
    g = (a(:, :, n_layers) - y)/n
    do l = n_layers, 1, -1
      g = g*(1 - a(:, :, l)**2)
      call SGEMM("N", "T", width, width, n, 1.0_sp, a(1, 1, l - 1), width, g, width, 0.0_sp, gw, width)
      if (l > 1) call SGEMM("N", "N", width, n, width, 1.0_sp, w(1, 1, l), width, g, width, 0.0_sp, &
        & before, width)
      w(:, :, l) = w(:, :, l) - rate*gw
      b(:, l) = b(:, l) - rate*sum(g, 2)
      if (l > 1) g = before
    end do
  end subroutine step_by_hand

end module small_work_cases

program small_work
  use small_work_cases
  implicit none
  type(values_type), allocatable :: closure
  type(integral_type), allocatable :: integral
  type(edges_type), allocatable :: network
  type(step_type), allocatable :: step
  integer :: k

  print "(t35, 4a)", "  differ by", "  us by hand", "  evaluate", "  tape, loops, BLAS: times as long"
  do k = 0, 3
    allocate (closure)
    call closure%init(8**k)
    call compare(closure)
    deallocate (closure)
  end do
  do k = 1, 3
    allocate (integral, network)
    call integral%init(8**k)
    call compare(integral)
    call network%init(8**k)
    call compare(network)
    deallocate (integral, network)
  end do
  print "(/t35, 4a)", "  differ by", "  us by hand", "      tape", "  BLAS: times as long"
  do k = 0, 3
    allocate (step)
    call step%init(hidden, 4**k)
    call compare(step)
    deallocate (step)
    allocate (step)
    call step%init(128, 4**k)
    call compare(step)
    deallocate (step)
  end do
end program small_work

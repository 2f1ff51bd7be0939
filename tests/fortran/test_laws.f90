! SPDX-License-Identifier: MIT

!> Laws that hold for every operator, in all forms that operators.fypp takes from the declarations.
module test_laws
  use gnograd, only: graph_type, error_type, set_n_threads, sp, dp, int64
  use faces, only: check_faces, check_tape, close, numbers
  use operators, only: plain_type, make_case, case_names
  use testing, only: test_type, check
  implicit none
  private
  public :: laws_tests, begin

contains

  function laws_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("derivatives", test_derivatives), &
      & test_type("tape", test_tape), &
      & test_type("both kinds", test_kinds), &
      & test_type("equal bits for any number of threads", test_threads), &
      & test_type("no edges, no nodes", test_empty), &
      & test_type("codes that no choice has", test_codes), &
      & test_type("arrays that do not fit", test_refused)]
  end function laws_tests

  !> Edges to later nodes: half of them to the last, none to the first two, and rows of the table
  !> in an order of their own. None of two goes back between the same nodes, where vectors of edges
  !> would depend on each other.
  subroutine make_graph(n, degree, graph, error)
    integer, intent(in) :: n, degree
    type(graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error
    integer :: k, dst(n*degree), src(n*degree)

    dst(:) = [(merge(n, 3 + mod(k*k + k/5, n - 2), mod(k, 2) == 0), k=1, n*degree)]
    src(:) = [(1 + mod(7*k + k/3, dst(k) - 1), k=1, n*degree)]
    call graph%from_edges(src, dst, error, n_src=n, n_dst=n)
  end subroutine make_graph

  !> A case of a few edges, and its inputs.
  subroutine begin(number, operator, x, error)
    integer, intent(in) :: number
    class(plain_type), allocatable, intent(inout) :: operator
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph

    call make_graph(7, 21, graph, error)
    if (allocated(error)) return
    call make_case(number, graph, 1, operator)
    x = inputs(operator)
  end subroutine begin

  !> Numbers between .2 and 1, which are valid for all inputs.
  function inputs(operator) result(x)
    class(plain_type), intent(in) :: operator
    real(dp), allocatable :: x(:)

    x = 0.6_dp + 0.4_dp*numbers(operator%last_of(size(operator%ranks)), 1)
  end function inputs

  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable, target :: x(:)
    integer :: k

    do k = 1, size(case_names)
      call begin(k, operator, x, error)
      if (.not. allocated(error)) call check_faces(operator, x, error)
      call name_case(k, error)
      if (allocated(error)) return
    end do
  end subroutine test_derivatives

  subroutine test_tape(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable, target :: x(:)
    integer :: k

    do k = 1, size(case_names)
      call begin(k, operator, x, error)
      if (.not. allocated(error)) call check_tape(operator, x, error)
      call name_case(k, error)
      if (allocated(error)) return
    end do
  end subroutine test_tape

  !> All faces of real(sp) are near those of real(dp).
  subroutine test_kinds(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable, target, dimension(:) :: x, y, t, c, g
    real(sp), allocatable, target, dimension(:) :: x4, y4, t4, c4, g4
    integer :: k

    do k = 1, size(case_names)
      call begin(k, operator, x, error)
      if (allocated(error)) return
      x4 = real(x, sp)
      x = real(x4, dp)
      t4 = real(numbers(size(x), 2), sp)
      t = real(t4, dp)
      c4 = real(numbers(operator%n_out, 3), sp)
      c = real(c4, dp)
      if (allocated(y)) deallocate (y, y4, g, g4)
      allocate (y, mold=c)
      allocate (y4, mold=c4)
      allocate (g, mold=x)
      allocate (g4, mold=x4)
      call operator%evaluate(x, y, error)
      if (.not. allocated(error)) call operator%evaluate_r32(x4, y4, error)
      call compare("forward", y, y4)
      if (.not. allocated(error)) call operator%evaluate(x, y, error, t)
      if (.not. allocated(error)) call operator%evaluate_r32(x4, y4, error, t4)
      call compare("jvp", y, y4)
      if (.not. allocated(error)) call operator%reverse(c, x, g, error)
      if (.not. allocated(error)) call operator%reverse_r32(c4, x4, g4, error)
      call compare("vjp", g, g4)
      if (.not. allocated(error)) call operator%reverse(c, x, g, error, t)
      if (.not. allocated(error)) call operator%reverse_r32(c4, x4, g4, error, t4)
      call compare("hvp", g, g4)
      call name_case(k, error)
      if (allocated(error)) return
    end do

  contains

    subroutine compare(face, wide, narrow)
      character(len=*), intent(in) :: face
      real(dp), intent(in) :: wide(:)
      real(sp), intent(in) :: narrow(:)

      if (.not. allocated(error)) call check(error, close(real(narrow, dp), wide, 2e-5_dp), face// &
        & " in real32")
    end subroutine compare

  end subroutine test_kinds

  subroutine test_threads(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    type(graph_type) :: graph
    real(dp), allocatable, target, dimension(:) :: x, t, c, y, g
    real(dp), allocatable :: all_of_them(:), wanted(:)
    integer :: k, n

    call make_graph(400, 8, graph, error)
    if (allocated(error)) return
    do k = 1, size(case_names)
      call make_case(k, graph, 20, operator)
      x = inputs(operator)
      t = numbers(size(x), 2)
      c = numbers(operator%n_out, 3)
      if (allocated(y)) deallocate (y, g)
      allocate (y, mold=c)
      allocate (g, mold=x)
      do n = 1, 2
        call set_n_threads(n)
        all_of_them = [real(dp) ::]
        call operator%evaluate(x, y, error)
        all_of_them = [all_of_them, y]
        if (.not. allocated(error)) call operator%evaluate(x, y, error, t)
        all_of_them = [all_of_them, y]
        if (.not. allocated(error)) call operator%reverse(c, x, g, error)
        all_of_them = [all_of_them, g]
        if (.not. allocated(error)) call operator%reverse(c, x, g, error, t)
        all_of_them = [all_of_them, g]
        if (n == 1) wanted = all_of_them
        if (.not. allocated(error)) call check(error, all(all_of_them == wanted), "other bits")
        if (allocated(error)) exit
      end do
      call set_n_threads(0)
      call name_case(k, error)
      if (allocated(error)) return
    end do
  end subroutine test_threads

  !> Derivatives of nothing, and of what does not come from edges.
  subroutine test_empty(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    type(graph_type) :: graph
    real(dp), allocatable, target :: x(:)
    integer :: k, n

    do n = 0, 2
      call graph%init(spread(1, 1, n + 1), [integer ::], n, error)
      if (allocated(error)) return
      do k = 1, size(case_names)
        call make_case(k, graph, 1, operator)
        x = inputs(operator)
        call check_faces(operator, x, error)
        call name_case(k, error)
        if (allocated(error)) return
      end do
    end do
  end subroutine test_empty

  !> A code that is none is an error that names the operator, and no result changes.
  subroutine test_codes(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable, target :: x(:), y(:)
    integer :: k, choice, code

    do k = 1, size(case_names)
      do choice = 1, 10
        do code = -1, 99, 100
          call begin(k, operator, x, error)
          if (allocated(error)) return
          ! also for an output that only another code has
          y = spread(7.0_dp, 1, operator%n_out + 1000)
          if (.not. operator%choose(choice, code)) exit
          call check_refused(k, operator, x, y, error)
          if (allocated(error)) return
        end do
      end do
    end do
  end subroutine test_codes

  !> Every input with one more along its last axis is an error that names the operator, and no
  !> result changes.
  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable, target :: x(:), y(:), wide(:)
    integer :: k, input, rank

    do k = 1, size(case_names)
      call begin(k, operator, x, error)
      if (allocated(error)) return
      y = spread(7.0_dp, 1, operator%n_out)
      do input = 1, size(operator%ranks)
        rank = operator%ranks(input)
        if (rank == 0) cycle
        operator%shapes(rank, input) = operator%shapes(rank, input) + 1
        wide = inputs(operator)
        call check_refused(k, operator, wide, y, error)
        operator%shapes(rank, input) = operator%shapes(rank, input) - 1
        if (allocated(error)) return
      end do
    end do
  end subroutine test_refused

  !> Check that a call is an error that names the operator, and that results, all 7, are unchanged.
  subroutine check_refused(number, operator, x, y, error)
    integer, intent(in) :: number
    class(plain_type), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(inout), contiguous, target :: y(:)
    type(error_type), allocatable, intent(inout) :: error
    type(error_type), allocatable :: refused

    call operator%evaluate(x, y, refused)
    call check(error, allocated(refused), "a wrong call is taken")
    if (.not. allocated(error)) call check(error, index(refused%message, operator_name(number) &
      & //": ") == 1 .and. all(y == 7), refused%message)
    call name_case(number, error)
  end subroutine check_refused

  !> First word of a case.
  function operator_name(number) result(name)
    integer, intent(in) :: number
    character(len=:), allocatable :: name

    name = case_names(number)(:index(case_names(number), " ") - 1)
  end function operator_name

  !> The case in front of the message of an error.
  subroutine name_case(number, error)
    integer, intent(in) :: number
    type(error_type), allocatable, intent(inout) :: error

    if (allocated(error)) error%message = trim(case_names(number))//": "//error%message
  end subroutine name_case

end module test_laws

! SPDX-License-Identifier: MIT

!> Handles, tapes and graphs: how long they live, and what threads share.
module test_tape
  use gnograd
  use gnograd_core_graph, only: hold, release
  use test_autodiff, only: draw, expect
  use testing, only: test_type, check, resident, short_run
  implicit none
  private
  public :: tape_tests

contains

  function tape_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("variables that nothing has initialised", test_private), &
      & test_type("arrays end with rewind", test_rewind), &
      & test_type("null handles", test_null), &
      & test_type("arrays of another tape", test_other_tape), &
      & test_type("arrays outlive their tape", test_outlived), &
      & test_type("mark, rewind and free in any order", test_any_order), &
      & test_type("a tape ends with its variable", test_scope), &
      & test_type("graphs come and go", test_graphs), &
      & test_type("tapes of several threads share a graph", test_shared_graph), &
      & test_type("ten thousand steps leak nothing", test_leaks)]
  end function tape_tests

  !> A tape begins in memory with anything in it, as that of private variables of a parallel region.
  subroutine test_private(error)
    use, intrinsic :: iso_c_binding, only: c_f_pointer, c_loc
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: n_bytes = 4096
    character(len=1), target :: memory(n_bytes)
    type(tape_type), pointer :: anywhere
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(array_type) :: x
    type(error_type), allocatable :: refused
    real(dp) :: loss
    integer :: k, n_right

    memory(:) = char(85)
    call c_f_pointer(c_loc(memory), anywhere)
    call anywhere%init(error)
    if (allocated(error)) return
    x = anywhere%parameter([1.0_dp, 2.0_dp])
    call check(error, x%alive() .and. anywhere%mark() == 1, "a tape in used memory")
    call anywhere%free()
    if (allocated(error)) return

    n_right = 0
    do k = 1, 20
      !$omp parallel default(none) num_threads(2) private(tape, graph, x, refused, loss) &
      !$omp & reduction(+:n_right)
      call tape%init(refused)
      x = tape%parameter([1.0_dp, 2.0_dp, 3.0_dp])
      call graph%from_edges([1, 2, 3], [2, 3, 1], refused)
      x = sum(agg_weighted(reshape(x, [1, 3]), tape%constant([1.0_dp, 2.0_dp, 3.0_dp]), graph))
      loss = x%value()
      n_right = n_right + merge(1, 0, loss == 14)
      call tape%free()
      !$omp end parallel
    end do
    call check(error, n_right >= 20, "private variables")
  end subroutine test_private

  subroutine test_rewind(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, z
    integer :: mark
    real(dp) :: value

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(2.0_dp)
    mark = tape%mark()
    y = x*x
    call tape%rewind(mark)
    z = x + x
    call check(error, .not. y%alive() .and. z%alive(), "alive")
    value = -1
    call y%val(value)
    call expect(tape, "val: an operand is no longer on the tape (rewind)", error)
    call check(error, value /= value, "value of an array that is gone")
    y = z*y
    call expect(tape, "multiply: an operand is no longer on the tape (rewind)", error)
    call tape%free()
    call tape%free()
    call tape%init(error)
    call check(error, tape%mark() == 0, "a tape that starts anew is empty")
    call tape%free()
  end subroutine test_rewind

  subroutine test_null(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: nothing, x
    type(array_type), allocatable :: g(:)

    call tape%check(raised)
    call check(error, allocated(raised), "a tape without init")
    x = tape%parameter(1.0_dp)
    call check(error, .not. x%alive(), "an array without a tape")
    x = exp(nothing) + nothing
    call check(error, .not. x%alive() .and. size(x%shape()) == 0, "operations on nothing")
    call tape%backward(x, raised)
    call check(error, allocated(raised), "backward without a tape")
    call tape%init(raised)
    x = tape%constant(1.0_dp) + nothing
    call expect(tape, "add: an operand has no value", error)
    call tape%backward(nothing, raised)
    call expect(tape, "gradient: the loss is not on this tape", error)
    call tape%gradient(nothing, [nothing], g, raised)
    call expect(tape, "gradient: the loss is not on this tape", error)
    call tape%free()
  end subroutine test_null

  !> The numbers of nodes are the same on both tapes; the gradients must not be mixed up.
  subroutine test_other_tape(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: a, b
    type(array_type) :: x, y, nothing
    type(array_type), allocatable :: g(:)
    type(adam_type) :: adam

    call a%init(error)
    if (.not. allocated(error)) call b%init(error)
    if (allocated(error)) return
    x = a%parameter([1.0_dp, 2.0_dp])
    y = b%parameter([3.0_dp, 4.0_dp])
    call a%gradient(sum(x*x), [y], g, raised)
    call expect(a, "gradient: an array has no value on this tape", error)
    call check(error, allocated(raised) .and. .not. g(1)%alive(), "an array of another tape")
    call a%gradient(sum(x*x), [x, nothing], g, raised)
    call expect(a, "gradient: an array has no value on this tape", error)
    call check(error, allocated(raised), "an array without a value")
    call a%backward(sum(y*y), raised)
    call expect(a, "gradient: the loss is not on this tape", error)
    call b%check(raised)
    call check(error, .not. allocated(raised), "an innocent tape is marked")
    call adam%init([x, nothing], 0.1_dp, raised)
    call check(error, allocated(raised), "an optimizer of nothing")
    call adam%step(raised)
    call check(error, allocated(raised), "a step of an optimizer without init")
    y = concatenate([nothing, x], 1)
    call expect(a, "concatenate: an operand has no value", error)
  end subroutine test_other_tape

  subroutine test_outlived(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: old, new, local
    type(array_type), allocatable :: g(:)
    type(adam_type) :: adam
    real(dp) :: value
    integer :: k

    call local_array(local, error)
    if (allocated(error)) return
    call check(error, .not. local%alive() .and. size(local%shape()) == 0, "an array without a tape")
    do k = 1, 3
      call tape%init(error)
      if (allocated(error)) return
      new = tape%parameter([1.0_dp*k, 2.0_dp])
      if (k > 1) then
        call check(error, .not. old%alive(), "an array of the former tape")
        call old%val(value, raised)
        call check(error, allocated(raised) .and. value /= value, "value of an array that is gone")
        call check(error, raised%message == "val: the tape of the array has ended", raised%message)
        old = exp(old)
        call check(error, .not. old%alive(), "an operation on an array that is gone")
        call tape%check(raised)
        call check(error, .not. allocated(raised), "the new tape is marked")
      end if
      old = new
      call check(error, old%alive(), "copy of an array")
    end do
    call adam%init([new], 0.1_dp, error)
    if (allocated(error)) return
    call tape%init(error)
    if (allocated(error)) return
    new = tape%parameter([1.0_dp, 2.0_dp])
    call adam%step(raised)
    call check(error, allocated(raised), "a step with parameters of the former tape")
    new = new + old
    call expect(tape, "add: the tape of an operand has ended", error)
    call tape%gradient(sum(tape%parameter(1.0_dp)), [old], g, raised)
    call expect(tape, "gradient: an array has no value on this tape", error)
    call tape%free()
    call new%val(value)
    call check(error, value /= value, "value after free")
  end subroutine test_outlived

  subroutine local_array(x, error)
    type(array_type), intent(out) :: x
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape

    call tape%init(error)
    if (.not. allocated(error)) x = tape%parameter([1.0_dp, 2.0_dp])
  end subroutine local_array

  subroutine test_any_order(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: a, b
    type(array_type) :: x
    type(array_type), allocatable :: g(:)

    call check(error, a%mark() == 0, "mark before init")
    call a%rewind(0)
    call a%rewind(7)
    call a%clear_error()
    call a%free()
    call a%gradient(x, [x], g, raised)
    call check(error, allocated(raised), "gradient before init")
    call a%init(error)
    if (allocated(error)) return
    x = a%parameter(1.0_dp)
    b = a
    call check(error, b%mark() == 1, "a copy is the same tape")
    call a%rewind(-5)
    call check(error, b%mark() == 0 .and. .not. x%alive(), "rewind before the begin")
    call a%rewind(1)
    call check(error, a%mark() == 0, "rewind beyond the end")
    call a%free()
    call check(error, b%mark() == 0, "mark of a tape that has ended")
    call b%rewind(0)
    x = b%parameter(1.0_dp)
    call check(error, .not. x%alive(), "an array of a tape that has ended")
    call b%check(raised)
    call check(error, allocated(raised), "check of a tape that has ended")
    call a%init(raised)
    call check(error, b%mark() == 0 .and. .not. allocated(raised), "another tape began")
    x = a%parameter(1.0_dp)
    call b%free()
    call check(error, x%alive(), "the former tape ends the new one")
    b = a
    call b%free()
    call a%free()
    call check(error, .not. x%alive(), "both are freed")
  end subroutine test_any_order

  !> Memory comes back, and a local copy does not end the tape.
  subroutine test_scope(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x
    integer(int64) :: before
    integer :: k

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(1.0_dp)
    call use_copy(tape)
    call check(error, x%alive() .and. tape%mark() == 2, "the end of a copy")
    call use_local(error)
    before = resident()
    do k = 1, 100
      if (.not. allocated(error)) call use_local(error)
    end do
    call check(error, resident() - before < 4000000, "tapes that went out of scope keep memory")

  contains

    subroutine use_copy(tape)
      type(tape_type), intent(in) :: tape
      type(tape_type) :: copy
      type(array_type) :: y

      copy = tape
      y = copy%constant(2.0_dp)
    end subroutine use_copy

    !> One of its own, and two in a structure
    subroutine use_local(error)
      type(error_type), allocatable, intent(inout) :: error
      type :: pair_type
        type(tape_type) :: first
        type(tape_type), allocatable :: second
      end type pair_type
      type(tape_type) :: alone
      type(pair_type) :: pair
      type(array_type) :: x(3)
      real(dp) :: numbers(20000)

      numbers = 1
      allocate (pair%second)
      call alone%init(error)
      if (.not. allocated(error)) call pair%first%init(error)
      if (.not. allocated(error)) call pair%second%init(error)
      x = [exp(alone%parameter(numbers)), exp(pair%first%parameter(numbers)), &
        & exp(pair%second%parameter(numbers))]
      call check(error, all([(x(k)%alive(), k=1, 3)]), "local tapes")
    end subroutine use_local

  end subroutine test_scope

  !> Losses of three meshes are added up before backward; their graphs are gone by then.
  subroutine test_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(array_type) :: w, loss, y
    real(dp), allocatable :: slope(:, :)
    integer :: step, start

    call tape%init(error)
    if (allocated(error)) return
    w = tape%parameter(reshape([1.0_dp, 10.0_dp, 100.0_dp], [1, 3]))
    start = tape%mark()
    do step = 1, 3
      call graph%init([1, 4], [1, 2, 3], 3, error)
      if (allocated(error)) return
      loss = sum(agg_simple(w, graph))
      ! more edges than the first one, and none
      call graph%init([1, 3, 5, 6], [1, 2, 1, 2, 1], 3, error)
      if (allocated(error)) return
      loss = loss + sum(agg_simple(w, graph))
      call graph%init([1, 1], [integer ::], 3, error)
      if (allocated(error)) return
      loss = loss + sum(agg_simple(w, graph)) + local_mesh(w)
      call tape%backward(loss, error)
      if (allocated(error)) return
      call w%grad(slope)
      call check(error, all(slope(1, :) == [4, 3, 2]), "gradient of all graphs")
      call tape%rewind(start)
      call tape%rewind(start)
    end do
    y = agg_simple(w, no_graph())
    call tape%check(raised)
    call check(error, allocated(raised), "a graph without init")
  end subroutine test_graphs

  function local_mesh(w) result(loss)
    type(array_type), intent(in) :: w
    type(array_type) :: loss
    type(graph_type) :: graph
    type(error_type), allocatable :: error

    call graph%init([1, 2], [3], 3, error)
    loss = sum(agg_simple(w, graph))
  end function local_mesh

  function no_graph() result(graph)
    type(graph_type) :: graph
  end function no_graph

  subroutine test_shared_graph(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: plain
    type(graph_type), pointer :: shared
    type(error_type), allocatable :: raised
    real(dp) :: slopes(8)
    integer :: k

    call plain%init([1, 3, 4], [1, 2, 2], 2, error)
    if (allocated(error)) return
    call hold(plain, shared, raised)
    slopes = 0
    !$omp parallel do default(none) num_threads(4) private(k) shared(shared, slopes)
    do k = 1, 8
      call train(shared, slopes(k))
    end do
    call release(shared)
    call check(error, all(slopes == 2000), "gradients of all threads")

  contains

    subroutine train(graph, slope)
      type(graph_type), intent(in), target :: graph
      real(dp), intent(out) :: slope
      type(tape_type) :: tape
      type(array_type) :: w
      type(error_type), allocatable :: error
      real(dp), allocatable :: slopes(:, :)
      integer :: k

      slope = 0
      do k = 1, 500
        call tape%init(error)
        w = tape%parameter(reshape([1.0_dp, 10.0_dp], [1, 2]))
        call tape%backward(sum(agg_simple(w, graph))*2.0_dp, error)
        call w%grad(slopes)
        slope = slope + slopes(1, 2)
      end do
    end subroutine train

  end subroutine test_shared_graph

  subroutine test_leaks(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(adam_type) :: adam
    type(array_type) :: w, v, b_v, x, loss, h
    type(array_type), allocatable :: g(:)
    integer :: step, mark, n_steps
    integer(int64) :: before

    n_steps = merge(1000, 10000, short_run())
    call graph%init([1, 3, 4], [1, 2, 2], 2, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    w = tape%parameter(real(draw([4, 4], 1), sp))
    v = tape%parameter(reshape(real(draw([4, 8], 2), sp), [4, 4, 2]))
    b_v = tape%constant(real(draw([4, 4], 3), sp))
    x = tape%constant(real(draw([4, 2], 4), sp))
    call adam%init([w, v], 1e-4_dp, error)
    if (allocated(error)) return
    mark = tape%mark()
    before = 0
    do step = 1, n_steps
      h = gelu(matmul(w, x)) + concatenate([slice(x, [1_int64, 1_int64], [3_int64, 2_int64]), &
        & slice(x, [4_int64, 1_int64], [1_int64, 2_int64])], 1)
      h = gno_contract(h, tape%constant(real(draw([2, 3], 5), sp)), v, b_v, graph)
      loss = norm(gather(h, [2_int64, 1_int64, 2_int64]))
      call tape%backward(loss, error)
      if (modulo(step, 4) == 0 .and. .not. allocated(error)) then
        call tape%gradient(loss, [w, v], g, error, create_graph=.true.)
        if (.not. allocated(error)) call tape%gradient(sum(g(1)**2) + sum(g(2)**2), [v], g, error)
      end if
      if (.not. allocated(error)) call adam%step(error)
      if (allocated(error)) return
      ! errors are also to leave nothing behind
      h = matmul(x, x)
      call tape%clear_error()
      call tape%rewind(mark)
      if (step == n_steps/10) before = resident()
    end do
    call check(error, resident() - before < 500000, "memory grows")
    call check(error, tape%mark() == mark, "the tape grows")
    call tape%free()
  end subroutine test_leaks

end module test_tape

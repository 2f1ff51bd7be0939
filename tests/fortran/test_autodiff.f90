! SPDX-License-Identifier: MIT

!> The tape as a Fortran program sees it: kinds and ranks, derivatives to second order, memory,
!> errors, optimizers. Every operation is checked one by one from Python.
module test_autodiff
  use gnograd
  use testing, only: test_type, check
  implicit none
  private
  public :: autodiff_tests

  !> A function of two matrices to one number
  abstract interface
    function loss_interface(tape, x, y) result(loss)
      import :: tape_type, array_type
      type(tape_type), intent(in) :: tape
      type(array_type), intent(in) :: x, y
      type(array_type) :: loss
    end function loss_interface
  end interface

contains

  function autodiff_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds and all ranks", test_values), &
      & test_type("plain numbers", test_numbers), &
      & test_type("derivatives, network", test_network), &
      & test_type("derivatives, gno", test_gno), &
      & test_type("derivatives, DimeNet", test_dimenet), &
      & test_type("derivatives, aggregation and attention", test_graph_operators), &
      & test_type("derivatives, sparse attention", test_sparse_attention), &
      & test_type("derivatives, shapes", test_shapes), &
      & test_type("shared nodes cost once", test_shared), &
      & test_type("third order", test_third_order), &
      & test_type("gradients stay, nodes go", test_lengths), &
      & test_type("errors mark the tape", test_errors), &
      & test_type("arrays end with rewind", test_rewind), &
      & test_type("null handles", test_null), &
      & test_type("ten thousand steps leak nothing", test_leaks), &
      & test_type("optimizers", test_optimizers)]
  end function autodiff_tests

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x
    real(sp) :: s
    real(sp), allocatable :: vector(:), cube(:, :, :)
    real(dp), allocatable :: matrix(:, :), four(:, :, :, :)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%constant(2.5_sp)
    call x%val(s)
    call check(error, s == 2.5_sp, "number")
    x = tape%parameter([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp])
    call x%val(vector)
    call check(error, all(vector == [1, 2, 3, 4]), "vector")
    x = reshape(x, [1, 2, 2])
    call x%val(cube)
    call check(error, all(shape(cube) == [1, 2, 2]) .and. cube(1, 2, 1) == 2, "cube")
    ! a section with gaps
    x = tape%constant(reshape([1.0_dp, 2.0_dp, 3.0_dp, 4.0_dp, 5.0_dp, 6.0_dp], [2, 3]))
    call x%val(matrix)
    x = tape%constant(matrix(2:2, ::2))
    call x%val(matrix)
    call check(error, all(shape(matrix) == [1, 2]) .and. all(matrix(1, :) == [2, 6]), "section")
    call check(error, all(x%shape() == [1, 2]), "shape")
    x = tape%constant(reshape([1.0_dp, 2.0_dp], [1, 1, 1, 2]))
    call x%val(four)
    call check(error, four(1, 1, 1, 2) == 2, "four axes")
    x = tape%parameter(matrix)
    matrix(1, 1) = 7
    call x%set_value(matrix)
    call x%val(matrix)
    call check(error, matrix(1, 1) == 7, "set_value")
    if (.not. allocated(error)) call tape%check(error)
    call tape%free()
  end subroutine test_values

  subroutine test_numbers(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(sp), allocatable :: values(:), slope(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_sp, 2.0_sp])
    y = 1 + 2.0_sp*x - 0.5_dp/x + x**2 - (3 - x)/4 + 2.0_sp**x + x**2.0_dp
    call y%val(values)
    call check(error, all(abs(values - [5.0, 14.5]) < 1e-5), "values")
    call tape%backward(sum(y), error)
    if (allocated(error)) return
    call x%grad(slope)
    values = 2 + 0.5/[1, 2]**2 + 4*[1, 2] + 0.25 + log(2.0)*2.0**[1, 2]
    call check(error, all(abs(slope - values) < 1e-5), "slopes")
    call tape%free()
  end subroutine test_numbers

  ! ---- derivatives ----

  function network(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, h

    h = tanh(matmul(x, y) + tape%constant([0.1_dp, -0.2_dp, 0.3_dp]))
    h = gelu(h) + silu(h)*sigmoid(h) - softmax(h, 1)
    loss = norm(h) + mean(exp(h)*cos(h)) + sum(sqrt(h*h + 1)) + sum(norm(h, 2))
  end function network

  function shapes(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, both

    both = concatenate([x, reshape(y, [5, 2]), transpose(y)], 1)
    both = gather(both, [2_int64, 1_int64, 2_int64])
    both = slice(both, [1_int64, 3_int64], [4_int64, 2_int64], [2_int64, -1_int64])
    loss = sum(sin(both)*mean(both, 1, keep_dim=.true.)) + sum(permute(x*x, [2, 1])*y)
    loss = loss*tape%constant(0.5_dp)
  end function shapes

  function operator_sum(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, kappa, v
    type(graph_type), save, target :: graph
    type(error_type), allocatable :: error

    if (graph%n_dst == 0) call graph%init([1, 3, 3, 5], [1, 2, 3, 3], 3, error)
    v = tape%constant(reshape([real(dp) :: 0.3, -0.2, 0.5, 0.7, -0.4, 0.1, 0.9, -0.6], [2, 2, 2]))
    ! x: coordinates of 4 edges, y: features of 3 nodes
    loss = sum(sin(gno(y, x, tape%constant(reshape([real(dp) :: 0.5, -1.0, 0.7, 0.3], [2, 2])), &
      & tape%constant([0.1_dp, 0.2_dp]), v, v_bias(tape), graph, activation="tanh", &
      & reduction="mean")))
    kappa = gno_kernel(x, tape%constant(reshape([real(dp) :: 1, 2, 3, 4], [2, 2])), &
      & tape%constant([0.0_dp, 0.1_dp]), v, v_bias(tape), activation="gelu")
    loss = loss + norm(gno_aggregate(y, kappa, graph))
    loss = loss + sum(gno_contract(y, x, v, v_bias(tape), graph)**2)
  end function operator_sum

  function v_bias(tape) result(b_v)
    type(tape_type), intent(in) :: tape
    type(array_type) :: b_v

    b_v = tape%constant(reshape([real(dp) :: 0.1, 0.2, -0.3, 0.4], [2, 2]))
  end function v_bias

  !> x: vectors of 4 edges, y: weights; the radial parts are those of the lengths.
  function triplet_sum(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, rbf, sbf
    type(graph_type), save, target :: graph
    type(error_type), allocatable :: error

    if (graph%n_dst == 0) call graph%init([1, 3, 4, 5], [3, 2, 1, 2], 3, error)
    call radial_basis(norm(x, 1)/2.5_dp, tape%constant([3.1_dp, 6.3_dp]), 2, rbf, sbf)
    loss = sum(sin(agg_edge_to_edge(x, sbf, rbf, y, graph, n_spherical=2, exclude="none")))
  end function triplet_sum

  subroutine test_dimenet(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: loss

    call check_derivatives(triplet_sum, [3, 4], [3, 6], error)
    if (allocated(error)) return
    call tape%init(error)
    if (allocated(error)) return
    loss = triplet_sum(tape, tape%constant(draw([2, 4], 1)), tape%constant(draw([3, 6], 2)))
    call expect(tape, "agg_edge_to_edge: vector has shape 2 4, needs 3 4", error)
    call tape%free()
  end subroutine test_dimenet

  !> x: features of 3 nodes, y: weights of 4 edges and of attention
  function neighbour_sum(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, w, a
    type(graph_type), save, target :: graph
    type(error_type), allocatable :: error

    if (graph%n_dst == 0) call graph%init([1, 3, 3, 5], [1, 2, 3, 3], 3, error)
    w = reshape(slice(y, [1_int64, 1_int64], [4_int64, 1_int64]), [4])
    a = reshape(slice(y, [1_int64, 2_int64], [4_int64, 2_int64]), [8])
    loss = sum(sin(agg_weighted(x, w, graph))*agg_weighted(x, w*w + tape%constant(2.0_dp), &
      & graph, "mean"))
    loss = loss + norm(agg_concat(x, graph, w, own=x, aggregation="max"))
    loss = loss + sum(cos(agg_simple(x, graph, e=reshape(w, [1, 4]))))
    loss = loss + sum(sin(mha_gat(x, x, a, graph, num_heads=2, activation="Tanh")))
    loss = loss + sum(sin(mha_gat_v2(x, x, slice(a, [1_int64], [4_int64]), graph, &
      & concat_heads=.false., activation="Sigmoid")))
    loss = loss + sum(sin(mha_simple(x, sin(x), x, graph, num_heads=2, norm_by_dim=.false.)))
  end function neighbour_sum

  subroutine test_graph_operators(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: loss

    call check_derivatives(neighbour_sum, [4, 3], [4, 3], error)
    if (allocated(error)) return
    call tape%init(error)
    if (allocated(error)) return
    loss = neighbour_sum(tape, tape%constant(draw([4, 2], 1)), tape%constant(draw([4, 3], 2)))
    call expect(tape, "agg_weighted: x is (4, 2), needs (4, 3)", error)
    call tape%free()
  end subroutine test_graph_operators

  !> x: queries (2 features, 4 heads, 6 tokens), y: keys (2 features, 2 heads, 7 tokens), and
  !> values, gates and compressed tokens made of them
  function sparse_attention_sum(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, q, k, v, w, gate, out, lse
    ! empty slots, a block named twice, and the ragged last block
    integer(int32), parameter :: blocks(2, 2, 6) = reshape(int([0, 3, 1, -1, 2, 2, -1, 0, 3, 1, &
      & 0, 2, 1, 0, 3, 3, -1, -1, 2, 1, 0, 1, 1, 3], int32), [2, 2, 6])

    q = reshape(x, [2, 4, 6])
    k = reshape(y, [2, 2, 7])
    v = sin(k)
    gate = exp(reshape(slice(x, [1_int64, 1_int64], [4_int64, 6_int64]), [2, 2, 6]))
    loss = sum(sin(selected_attention(q, k, v, blocks, 2_int64, slot_gate=gate)))
    loss = loss + norm(selected_attention(q, k, v, blocks(:, :, :3), 2_int64, causal=.true., &
      & q_offset=2_int64, query_block=2_int64, duplicates="count"))
    loss = loss + sum(cos(window_attention(q, k, v, 3_int64, scale=0.7_dp, causal=.true.)))
    w = tape%constant(draw([2, 3], 5))
    call compressed_attention(q, compress(k, w, 2_int64), compress(v, w*w, 2_int64), 3_int64, &
      & 2_int64, out, lse, causal=.true., q_offset=2_int64)
    loss = loss + sum(sin(out)) + sum(lse*lse)
  end function sparse_attention_sum

  subroutine test_sparse_attention(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: q, k, v, selected, dense
    integer(int32) :: everything(4, 2, 6)
    real(dp), allocatable :: first(:, :, :), second(:, :, :)
    integer :: block

    call check_derivatives(sparse_attention_sum, [8, 6], [4, 7], error)
    if (allocated(error)) return
    call tape%init(error)
    if (allocated(error)) return
    q = tape%constant(reshape(draw([8, 6], 1), [2, 4, 6]))
    k = tape%constant(reshape(draw([4, 7], 2), [2, 2, 7]))
    v = tape%constant(reshape(draw([6, 7], 3), [3, 2, 7]))
    do block = 1, 4
      everything(block, :, :) = int(4 - block, int32)
    end do
    selected = selected_attention(q, k, v, everything, 2_int64)
    dense = window_attention(q, k, v)
    call selected%val(first)
    call dense%val(second)
    call check(error, all(shape(first) == [3, 4, 6]), "shape")
    if (allocated(error)) return
    call check(error, maxval(abs(first - second)) < 1e-14_dp, "all blocks are all keys")
    selected = selected_attention(q, k, v, everything(:, :, :5), 2_int64)
    call expect(tape, "selected_attention: block_index has another shape than "// &
      & "(n_slots, heads of k, queries/query_block)", error)
    call tape%free()
  end subroutine test_sparse_attention

  subroutine test_network(error)
    type(error_type), allocatable, intent(out) :: error

    call check_derivatives(network, [3, 4], [4, 5], error)
  end subroutine test_network

  subroutine test_gno(error)
    type(error_type), allocatable, intent(out) :: error

    call check_derivatives(operator_sum, [2, 4], [2, 3], error)
  end subroutine test_gno

  subroutine test_shapes(error)
    type(error_type), allocatable, intent(out) :: error

    call check_derivatives(shapes, [5, 2], [2, 5], error)
  end subroutine test_shapes

  !> First and second order against central differences along a direction.
  subroutine check_derivatives(f, shape_x, shape_y, error)
    procedure(loss_interface) :: f
    integer, intent(in) :: shape_x(2), shape_y(2)
    type(error_type), allocatable, intent(out) :: error
    real(dp), parameter :: step = 1e-5_dp
    real(dp), allocatable :: x(:, :), y(:, :), dx(:, :), dy(:, :)
    real(dp) :: value(-1:1), slope(-1:1), first, second
    integer :: side

    x = draw(shape_x, 1)
    y = draw(shape_y, 2)
    dx = draw(shape_x, 3)
    dy = draw(shape_y, 4)
    do side = -1, 1
      call derivatives(f, x + side*step*dx, y + side*step*dy, dx, dy, value(side), slope(side), &
        & first, second, error)
      if (allocated(error)) return
      if (side == 0) then
        slope(0) = first
        value(0) = second
      end if
    end do
    call check(error, abs((value(1) - value(-1))/(2*step) - slope(0)) < 1e-7_dp, "first order")
    call check(error, abs((slope(1) - slope(-1))/(2*step) - value(0)) < 1e-6_dp, "second order")
  end subroutine check_derivatives

  !> f, its derivative along (dx, dy), and its second derivative; the first one with and without
  !> create_graph.
  subroutine derivatives(f, x, y, dx, dy, value, slope, slope_of_graph, curve, error)
    procedure(loss_interface) :: f
    real(dp), intent(in) :: x(:, :), y(:, :), dx(:, :), dy(:, :)
    real(dp), intent(out) :: value, slope, slope_of_graph, curve
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: a, b, loss, along
    type(array_type), allocatable :: grads(:)

    value = 0
    slope = 0
    slope_of_graph = 0
    curve = 0
    call tape%init(error)
    if (allocated(error)) return
    a = tape%parameter(x)
    b = tape%parameter(y)
    loss = f(tape, a, b)
    call tape%gradient(loss, [a, b], grads, error)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(slope)
    call tape%gradient(loss, [a, b], grads, error, create_graph=.true.)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(slope_of_graph)
    call tape%gradient(along, [a, b], grads, error)
    if (allocated(error)) return
    along = sum(grads(1)*tape%constant(dx)) + sum(grads(2)*tape%constant(dy))
    call along%val(curve)
    call loss%val(value)
    call tape%check(error)
    call tape%free()
  end subroutine derivatives

  !> Numbers between -1 and 1, always the same.
  function draw(extents, seed) result(values)
    integer, intent(in) :: extents(2), seed
    real(dp) :: values(extents(1), extents(2))
    integer :: i, j

    do j = 1, extents(2)
      do i = 1, extents(1)
        values(i, j) = sin(1.7_dp*i + 2.9_dp*j + 5.3_dp*seed*i*j)
      end do
    end do
  end function draw

  subroutine test_shared(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    real(dp) :: slope
    integer :: k

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(1.5_dp)
    y = x
    do k = 1, 26
      y = y + y
    end do
    call tape%backward(y, error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, slope == 2.0_dp**26, "gradient")
    call check(error, tape%mark() == 27, "length of the tape")
    call tape%free()
  end subroutine test_shared

  !> x**5 by products and tanh to the third order.
  subroutine test_third_order(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(array_type), allocatable :: g(:)
    real(dp) :: value, t
    integer :: order

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(0.7_dp)
    y = x*x*x*x*x + tanh(x)
    do order = 1, 3
      call tape%gradient(y, [x], g, error, create_graph=.true.)
      if (allocated(error)) return
      y = g(1)
    end do
    call y%val(value)
    t = tanh(0.7_dp)
    call check(error, abs(value - 60*0.7_dp**2 - (1 - t**2)*(6*t**2 - 2)) < 1e-12_dp, "value")
    call tape%free()
  end subroutine test_third_order

  subroutine test_lengths(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y, loss
    type(array_type), allocatable :: g(:)
    integer :: length

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_sp, 2.0_sp])
    y = tape%parameter([3.0_sp])
    loss = norm(exp(x*y)/(1 + x*x))
    length = tape%mark()
    call tape%backward(loss, error)
    call check(error, tape%mark() == length, "backward leaves nodes")
    if (allocated(error)) return
    call tape%gradient(loss, [x, y], g, error)
    call check(error, tape%mark() == length + 2, "gradient leaves more than gradients")
    call tape%free()
  end subroutine test_lengths

  ! ---- errors ----

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape, other
    type(array_type) :: x, y, z
    real(dp), allocatable :: wrong(:)
    integer :: length

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(reshape([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp, 5.0_sp, 6.0_sp], [2, 3]))
    y = tape%parameter([1.0_sp, 2.0_sp, 3.0_sp])
    length = tape%mark()
    z = x + y
    call check(error, .not. z%alive(), "a failed operation gives an array")
    z = exp(z*z) + x
    call check(error, .not. z%alive() .and. tape%mark() == length, "a failed tape goes on")
    call expect(tape, "add: shapes (2, 3) + (3) cannot be broadcast", error)
    z = matmul(x, y)
    call check(error, z%alive(), "a cleared tape works")
    z = matmul(x, x)
    call expect(tape, "matmul: (2, 3) and (2, 3): the inner extents differ", error)
    z = x*tape%constant(1.0_dp)
    call expect(tape, "multiply: operands of different kinds, real32 and real64", error)
    call x%val(wrong)
    call expect(tape, "val: the array is real32 (2, 3), the argument is real64 of rank 1", error)
    call check(error, .not. allocated(wrong), "a wrong argument is allocated")
    z = sum(x, 3)
    call expect(tape, "sum: (2, 3) has no such axis", error)
    z = slice(y, [3_int64], [2_int64])
    call expect(tape, "slice: a range leaves the array (3)", error)
    call tape%backward(x, raised)
    call check(error, allocated(raised), "a loss with many elements")
    call expect(tape, "gradient: the loss must be one number, it is (2, 3)", error)
    call other%init(raised)
    z = y + other%constant([1.0_sp, 2.0_sp, 3.0_sp])
    call expect(tape, "add: the operands are on different tapes", error)
    call other%free()
    call tape%free()
  end subroutine test_errors

  !> The tape is marked with this message; the mark is removed.
  subroutine expect(tape, message, error)
    type(tape_type), intent(inout) :: tape
    character(len=*), intent(in) :: message
    type(error_type), allocatable, intent(inout) :: error
    type(error_type), allocatable :: raised

    call tape%check(raised)
    if (allocated(raised)) then
      call check(error, raised%message == message, "message is "//raised%message)
    else
      call check(error, .false., "no error: "//message)
    end if
    call tape%clear_error()
  end subroutine expect

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
    call check(error, value == -1, "value of an array that is gone")
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

  ! ---- memory ----

  subroutine test_leaks(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type), target :: graph
    type(adam_type) :: adam
    type(array_type) :: w, v, b_v, x, loss, h
    type(array_type), allocatable :: g(:)
    integer :: step, mark
    integer(int64) :: before

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
    do step = 1, 10000
      h = gelu(matmul(w, x)) + concatenate([slice(x, [1_int64, 1_int64], [3_int64, 2_int64]), &
        & slice(x, [4_int64, 1_int64], [1_int64, 2_int64])], 1)
      h = gno_contract(h, tape%constant(real(draw([2, 3], 5), sp)), v, b_v, graph)
      loss = norm(gather(h, [2_int64, 1_int64, 2_int64]))
      call tape%backward(loss, error)
      if (.not. allocated(error)) call adam%step(error)
      if (modulo(step, 4) == 0 .and. .not. allocated(error)) then
        call tape%gradient(loss, [w, v], g, error, create_graph=.true.)
        if (.not. allocated(error)) call tape%gradient(sum(g(1)**2) + sum(g(2)**2), [v], g, error)
      end if
      if (allocated(error)) return
      ! errors are also to leave nothing behind
      h = matmul(x, x)
      call tape%clear_error()
      call tape%rewind(mark)
      if (step == 1000) before = resident()
    end do
    call check(error, resident() - before < 500000, "memory grows")
    call check(error, tape%mark() == mark, "the tape grows")
    call tape%free()
  end subroutine test_leaks

  !> Memory of this process in bytes; 0 where /proc does not tell.
  function resident() result(bytes)
    integer(int64) :: bytes, pages(2)
    integer :: unit, stat

    pages = 0
    open (newunit=unit, file="/proc/self/statm", status="old", action="read", iostat=stat)
    if (stat == 0) then
      read (unit, *, iostat=stat) pages
      close (unit)
    end if
    bytes = 4096*pages(2)
  end function resident

  ! ---- optimizers ----

  subroutine test_optimizers(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(adam_type) :: adam
    type(sgd_type) :: sgd
    real(dp) :: p, q, m, v, s, value
    integer :: k, mark

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(1.0_dp)
    y = tape%parameter(1.0_dp)
    call adam%init([x], 0.1_dp, error, weight_decay=0.01_dp)
    if (.not. allocated(error)) call sgd%init([y], 0.1_dp, error, momentum=0.5_dp)
    if (allocated(error)) return
    p = 1
    q = 1
    m = 0
    v = 0
    s = 0
    mark = tape%mark()
    do k = 1, 5
      call tape%backward(x**4 + y**4, error)
      if (.not. allocated(error)) call adam%step(error)
      if (.not. allocated(error)) call sgd%step(error)
      if (allocated(error)) return
      call tape%rewind(mark)
      m = 0.9_dp*m + 0.1_dp*(4*p**3 + 0.01_dp*p)
      v = 0.999_dp*v + 0.001_dp*(4*p**3 + 0.01_dp*p)**2
      p = p - 0.1_dp*m/(1 - 0.9_dp**k)/(sqrt(v/(1 - 0.999_dp**k)) + 1e-8_dp)
      s = 0.5_dp*s + 4*q**3
      q = q - 0.1_dp*s
    end do
    call x%val(value)
    call check(error, abs(value - p) < 1e-13_dp, "Adam")
    call y%val(value)
    call check(error, abs(value - q) < 1e-13_dp, "SGD")
    call tape%free()
  end subroutine test_optimizers

end module test_autodiff

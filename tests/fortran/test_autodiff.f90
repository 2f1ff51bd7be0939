! SPDX-License-Identifier: MIT

!> The tape as a Fortran program sees it: kinds and ranks, derivatives to second order, memory,
!> errors, optimizers. Every operation is checked one by one from Python.
module test_autodiff
  use, intrinsic :: ieee_arithmetic, only: ieee_set_rounding_mode, ieee_round_type, ieee_up, &
    & ieee_down, ieee_to_zero, ieee_nearest
  use gnograd
  use gnograd_core_graph, only: hold, release
  use testing, only: test_type, check, resident, short_run
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
      & test_type("choices that do not exist", test_choices), &
      & test_type("arrays of another tape", test_other_tape), &
      & test_type("arrays outlive their tape", test_outlived), &
      & test_type("mark, rewind and free in any order", test_any_order), &
      & test_type("a tape ends with its variable", test_scope), &
      & test_type("val and grad return errors", test_returned_errors), &
      & test_type("changed values have no gradient", test_changed), &
      & test_type("graphs come and go", test_graphs), &
      & test_type("tapes of several threads share a graph", test_shared_graph), &
      & test_type("variables that nothing has initialised", test_private), &
      & test_type("steps of slices", test_steps), &
      & test_type("ten thousand steps leak nothing", test_leaks), &
      & test_type("optimizers", test_optimizers), &
      & test_type("steps after an error move nothing", test_steps_after_errors), &
      & test_type("arithmetic that does not round to nearest", test_rounding), &
      & test_type("long sums and products", test_long)]
  end function autodiff_tests

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
    call check(error, all(abs(values - [6.0, 16.5]) < 1e-5), "values")
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
    type(graph_type), save :: graph
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
    type(graph_type), save :: graph
    type(error_type), allocatable :: error

    if (graph%n_dst == 0) call graph%init([1, 3, 4, 5], [3, 2, 1, 2], 3, error)
    call radial_basis(reshape(norm(x, 1)/2.5_dp, [1, 4]), tape%constant([3.1_dp, 6.3_dp]), rbf, &
      & sbf, n_spherical=2)
    loss = sum(sin(agg_edge_to_edge(x, sbf, rbf, y, graph, n_spherical=2, n_radial=2, &
      & exclude="none")))
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
    call expect(tape, "agg_edge_to_edge: vector is (2, 4), needs (3, 4)", error)
    call tape%free()
  end subroutine test_dimenet

  !> x: features of 3 nodes, y: weights of 4 edges and of attention
  function neighbour_sum(tape, x, y) result(loss)
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: x, y
    type(array_type) :: loss, w, a
    type(graph_type), save :: graph
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
    loss = sum(sin(selected_attention(q, k, v, blocks, 2, slot_gate=gate)))
    loss = loss + norm(selected_attention(q, k, v, blocks(:, :, :3), 2, causal=.true., &
      & q_offset=2, query_block=2, duplicates="count"))
    loss = loss + sum(cos(window_attention(q, k, v, window=3, scale=0.7_dp, causal=.true.)))
    w = tape%constant(draw([2, 3], 5))
    call compressed_attention(q, compress(k, w, 2), compress(v, w*w, 2), 3, &
      & 2, out, lse, causal=.true., q_offset=2)
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
    selected = selected_attention(q, k, v, everything, 2)
    dense = window_attention(q, k, v)
    call selected%val(first)
    call dense%val(second)
    call check(error, all(shape(first) == [3, 4, 6]), "shape")
    if (allocated(error)) return
    call check(error, maxval(abs(first - second)) < 1e-14_dp, "all blocks are all keys")
    selected = selected_attention(q, k, v, everything(:, :, :5), 2)
    call expect(tape, "selected_attention: block_index does not fit to the other "// &
      & "arguments", error)
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

  !> The message names the argument and what it may be.
  subroutine test_choices(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    type(tape_type) :: tape
    type(array_type) :: x, row, weights, y

    call graph%from_edges([1, 2], [2, 1], error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(reshape([1.0_dp, 2.0_dp], [1, 2]))
    row = tape%parameter([1.0_dp, 2.0_dp])
    weights = tape%parameter(reshape([1.0_dp], [1, 1]))
    y = agg_weighted(x, row, graph, aggregation="average")
    call expect(tape, "agg_weighted: aggregation must be one of sum, mean, min, max", error)
    y = update_edges(x, graph, x, x, mode="product")
    call expect(tape, "update_edges: mode must be one of concat, sum", error)
    y = mha_gat(x, x, row, graph, num_heads=1, activation="relu6")
    call expect(tape, "mha_gat: activation must be one of "// &
      & "LeakyReLU, ELU, Linear, ReLU, Scalar, Sigmoid, Tanh", error)
    y = gno(x, x, weights, slice(row, [1], [1]), reshape(weights, [1, 1, 1]), weights, graph, &
      & kernel="")
    call expect(tape, "gno: kernel must be one of full, diagonal", error)
  end subroutine test_choices

  ! ---- handles, tapes and graphs ----

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

  subroutine test_returned_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, nothing
    real(sp) :: single
    real(dp) :: value
    real(dp), allocatable :: values(:)

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0_dp, 2.0_dp])
    values = [7, 7, 7]
    value = 42
    call x%val(value, raised)
    call check(error, allocated(raised), "a number from a vector")
    if (allocated(raised)) call check(error, raised%message == "val: the array is real64 (2), "// &
      & "the argument is real64 of rank 0", raised%message)
    call check(error, value /= value, "the old number stays")
    call nothing%val(values, raised)
    call check(error, allocated(raised) .and. .not. allocated(values), "values of nothing")
    call x%set_value([1.0_dp], raised)
    call check(error, allocated(raised), "values of another shape")
    call tape%check(raised)
    call check(error, .not. allocated(raised), "the tape is marked although the error was returned")
    call x%val(values, raised)
    call check(error, .not. allocated(raised), "an error of a right call")
    if (allocated(values)) call check(error, all(values == [1, 2]), "values")
    ! later calls on a marked tape have no old numbers either
    nothing = x + tape%constant([1.0_dp, 2.0_dp, 3.0_dp])
    single = 42
    value = 42
    call x%grad(values, raised)
    call check(error, allocated(raised) .and. .not. allocated(values), "grad on a marked tape")
    call x%val(value)
    call x%val(single)
    call check(error, value /= value .and. single /= single, "val on a marked tape")
    call expect(tape, "add: shapes (2) + (3) cannot be broadcast", error)
  end subroutine test_returned_errors

  subroutine test_changed(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(sgd_type) :: sgd
    real(dp) :: slope
    character(len=*), parameter :: message = "gradient: a value was changed after it had been "// &
      & "used (set_value, or the step of an optimizer); compute the loss again"

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(3.0_dp)
    y = x*x
    call x%set_value(5.0_dp)
    call tape%backward(y + x, raised)
    call expect(tape, message, error)
    call tape%backward(x*x, error)
    if (allocated(error)) return
    call x%grad(slope)
    call check(error, slope == 10, "computed anew")
    call sgd%init([x], 0.1_dp, error)
    y = x*x
    if (.not. allocated(error)) call sgd%step(error)
    if (allocated(error)) return
    call tape%backward(y, raised)
    call expect(tape, message, error)
  end subroutine test_changed

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

  subroutine test_steps(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    integer(int64) :: least
    character(len=*), parameter :: leaves = "slice: a range leaves the array (3)"

    call tape%init(error)
    if (allocated(error)) return
    least = -huge(least) - 1
    x = tape%parameter([1.0_dp, 2.0_dp, 3.0_dp])
    y = slice(x, [1_int64], [3_int64], [0_int64])
    call expect(tape, "slice: a step is 0", error)
    y = slice(x, [1_int64], [3_int64], [2_int64**62])
    call expect(tape, leaves, error)
    y = slice(x, [3_int64], [3_int64], [least])
    call expect(tape, leaves, error)
    y = slice(x, [1_int64], [huge(least)], [1_int64])
    call expect(tape, leaves, error)
    y = slice(x, [1_int64], [1_int64], [1_int64, 1_int64])
    call expect(tape, "slice: needs one range for every axis of (3)", error)
    y = slice(x, [3_int64], [1_int64], [least])
    call check(error, y%alive(), "one element has no step")
    y = slice(x, [3_int64], [2_int64], [-2_int64])
    call check(error, y%alive(), "backwards")
  end subroutine test_steps

  !> Sums along either axis and long inner products in real32, against real64; the same
  !> bits for any number of threads.
  subroutine test_long(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: shapes(2, 4) = reshape([3, 60000, 900, 300, 20000, 70, 70, 20000], [2, 4])
    integer, parameter :: products(3, 3) = reshape([20, 9000, 30, 300, 9000, 200, 700, 12000, &
      & 600], [3, 3])
    real(sp), allocatable :: x(:, :), y(:, :), one(:, :), other(:, :)
    real(dp), allocatable :: exact(:, :)
    integer :: k, dim, n_shapes, n_products

    n_shapes = merge(2, size(shapes, 2), short_run())
    n_products = merge(1, size(products, 2), short_run())
    do k = 1, n_shapes
      x = real(1 + draw(shapes(:, k), k), sp)
      do dim = 1, 2
        exact = reshape(sum(real(x, dp), dim), [1, size(x)/size(x, dim)])
        call sums(1, one)
        call sums(3, other)
        if (allocated(error)) return
        call check(error, maxval(abs(one - exact)/exact) < 1.3e-7_dp, "a long sum")
        call check(error, all(one == other), "bits of a long sum")
      end do
    end do
    do k = 1, n_products
      x = real(1 + draw(products(:2, k), 1), sp)
      y = real(1 + draw(products(3:2:-1, k), 2), sp)
      exact = matmul(real(x, dp), transpose(real(y, dp)))
      call multiply(1, one)
      call multiply(3, other)
      if (allocated(error)) return
      call check(error, maxval(abs(one - exact)/exact) < 1e-6_dp, "a long product")
      call check(error, all(one == other), "bits of a long product")
    end do

  contains

    subroutine sums(n_threads, values)
      integer, intent(in) :: n_threads
      real(sp), allocatable, intent(out) :: values(:, :)
      type(tape_type) :: tape
      type(array_type) :: y

      call tape%init(error)
      if (allocated(error)) return
      call set_n_threads(n_threads)
      y = sum(tape%constant(x), dim)
      y = reshape(y, [1, size(x)/size(x, dim)])
      call set_n_threads(0)
      call y%val(values, error)
    end subroutine sums

    subroutine multiply(n_threads, values)
      integer, intent(in) :: n_threads
      real(sp), allocatable, intent(out) :: values(:, :)
      type(tape_type) :: tape
      type(array_type) :: z

      call tape%init(error)
      if (allocated(error)) return
      call set_n_threads(n_threads)
      z = matmul(tape%constant(x), tape%constant(y), transpose_b=.true.)
      call set_n_threads(0)
      call z%val(values, error)
    end subroutine multiply

  end subroutine test_long

  ! ---- memory ----

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

  ! ---- optimizers ----

  !> One bad sample in a training: the loop of the documentation.
  subroutine test_steps_after_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    character(len=*), parameter :: message = "subtract: shapes (2, 10) - (2, 9) cannot be "// &
      & "broadcast", lost = "optimizer: the last backward (or sum_gradients) has failed, so that "// &
      & "there are no gradients"
    type(tape_type) :: tape
    type(array_type) :: w, b, loss, nothing
    type(adam_type) :: adam, other
    real(dp), allocatable :: before(:, :), after(:, :)
    real(dp) :: x(3, 10), y(2, 10), norm
    integer :: step, start, n

    x = draw([3, 10], 1)
    y = draw([2, 10], 2)
    call tape%init(error)
    if (allocated(error)) return
    w = tape%parameter(draw([2, 3], 3), "w")
    b = tape%parameter(draw([2, 1], 4), "b")
    call adam%init([w, b], 0.1_dp, error)
    if (allocated(error)) return
    start = tape%mark()
    do step = 1, 5
      if (step == 4) call w%val(before, error)
      n = merge(9, 10, step == 4)
      loss = mean((matmul(w, tape%constant(x)) + b - tape%constant(y(:, :n)))**2)
      call tape%backward(loss, raised)
      call adam%step(raised)
      call tape%rewind(start)
      call check(error, allocated(raised) .eqv. step > 3, "the error of a step")
      if (allocated(raised)) call check(error, raised%message == message, raised%message)
      if (allocated(error)) return
    end do
    call adam%save("after_an_error.safetensors", raised)
    call check(error, allocated(raised), "an optimizer of a marked tape is saved")
    call other%init([w, nothing], 0.1_dp, raised)
    if (.not. allocated(error)) call check(error, raised%message == message, raised%message)
    call adam%clip_gradients(1.0_dp, norm, raised)
    call check(error, allocated(raised) .and. norm /= norm, "a norm of gradients that are none")
    call expect(tape, message, error)
    ! whoever forgets the error finds no gradients, and not those of step 3
    call w%val(after, error)
    if (allocated(error)) return
    call check(error, all(after == before) .and. adam%steps == 3, "a parameter has moved")
    call w%grad(after, error)
    if (allocated(error)) return
    call check(error, all(after == 0), "an old gradient")
    call adam%step(raised)
    if (.not. allocated(error)) call check(error, raised%message == lost, raised%message)
    ! a part of a sum is none either
    call tape%backward(sum(w), raised, add=.true.)
    call check(error, .not. allocated(raised), "backward after an error")
    call adam%step(raised)
    if (.not. allocated(error)) call check(error, allocated(raised), "a part of a sum of gradients")
    if (allocated(error)) return
    call tape%backward(sum(w), error)
    if (.not. allocated(error)) call adam%step(error)
    if (allocated(error)) return
    call w%val(after, error)
    call check(error, any(after /= before) .and. adam%steps == 4, "no way back")
    ! and an error that has nothing to do with backward
    nothing = w + tape%constant([1.0_dp, 2.0_dp, 3.0_dp])
    call adam%step(raised)
    call check(error, allocated(raised) .and. adam%steps == 4, "a step on a marked tape")
    call tape%clear_error()
    call adam%step(raised)
    call check(error, .not. allocated(raised), "gradients of the last backward")
  end subroutine test_steps_after_errors

  !> Whatever the rounding is, the message is of rounding.
  subroutine test_rounding(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised, of_graph
    type(ieee_round_type) :: modes(3)
    type(tape_type) :: tape
    type(graph_type) :: graph
    integer :: k

    modes = [ieee_up, ieee_down, ieee_to_zero]
    do k = 1, 3
      call ieee_set_rounding_mode(modes(k))
      call tape%init(raised)
      call graph%init([1, 2], [1], 1, of_graph)
      call ieee_set_rounding_mode(ieee_nearest)
      call check(error, allocated(raised) .and. allocated(of_graph), "another rounding is taken")
      if (allocated(error)) return
      call check(error, index(raised%message, "arithmetic does not round to nearest") == 1, &
        & raised%message)
      call check(error, of_graph%message == raised%message, of_graph%message)
    end do
    call tape%init(error)
  end subroutine test_rounding

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

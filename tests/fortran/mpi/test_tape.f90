! SPDX-License-Identifier: MIT

!> The halo and sums over processes on the tape, against one process that has the whole graph.
module test_tape
  use mpi_f08, only: MPI_COMM_WORLD
  use gnograd, only: sp, dp, int64, error_type, tape_type, array_type, adam_type, norm, sum, &
    & concatenate, slice, operator(+), operator(-), operator(*)
  use gnograd_mpi, only: communicator_type, halo, global_sum, global_mean, global_norm
  use layer, only: layer_type, weights_type, make_layer, make_weights, apply, values, total, near, &
    & f_in, f_out, n_hidden
  use problem, only: feature, node_of, layouts
  use testing, only: test_type, check, short_run
  implicit none
  private
  public :: tape_tests

  !> Steps of a training
  integer, parameter :: n_steps = 50

contains

  function tape_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values and ranks", test_values), &
      & test_type("sums, means and norms", test_sums), &
      & test_type("a norm of zeros has no NaN", test_zero), &
      & test_type("two orders through the halo", test_derivatives), &
      & test_type("fifty steps of training", test_training), &
      & test_type("the same bits in another run", test_twice)]
  end function tape_tests

  ! ---- values ----

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(layer_type) :: it
    real(dp), allocatable :: row(:), matrix(:, :)
    real(sp), allocatable :: cube(:, :, :)
    integer(int64), allocatable :: nodes(:)
    integer :: k

    do k = 1, size(layouts)
      call make_layer(layouts(k), .true., it, error)
      if (.not. allocated(error)) call tape%init(error)
      if (allocated(error)) return
      associate (graph => it%distributed)
        nodes = node_of([graph%owned_src, graph%halo_ids])
        x = tape%constant(feature(1, it%src))
        y = halo(x, graph)
        call y%val(row)
        x = tape%constant(values(3, it%src))
        y = halo(x, graph)
        call y%val(matrix)
        x = tape%constant(real(reshape(values(4, it%src), [2, 2, size(it%src)]), sp))
        y = halo(x, graph)
        call y%val(cube)
        call tape%check(error)
        if (allocated(error)) return
        call check(error, all(row == feature(1, nodes)), "vector")
        call check(error, all(matrix == values(3, nodes)), "matrix")
        call check(error, all(cube == real(reshape(values(4, nodes), shape(cube)), sp)), "real32")
      end associate
    end do
  end subroutine test_values

  !> Their gradients too: of a number on each process, and of what all have.
  subroutine test_sums(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, loss, square
    type(array_type), allocatable :: grads(:)
    type(communicator_type) :: all
    real(dp), allocatable :: here(:), everywhere(:), found(:)
    real(dp) :: value
    integer(int64) :: k
    integer :: rank

    call all%init(MPI_COMM_WORLD, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    ! another number of elements on each process, none on the first one
    allocate (everywhere(0))
    do rank = 0, all%size - 1
      here = feature(rank, [(k, k=1, 3*rank)])
      everywhere = [everywhere, here]
      if (rank == all%rank) x = tape%parameter(here)
      if (rank == all%rank) found = here
    end do
    here = found
    associate (n => max(1, size(everywhere)))
      if (all%size > 1) then
        loss = global_mean(x*x, all)
        call tape%backward(loss, error)
        if (allocated(error)) return
        call loss%val(value)
        call x%grad(found)
        call check(error, near([value], [sum(everywhere**2)/n], 1e-14_dp), "mean")
        call check(error, near(found, 2*here/n, 1e-14_dp), "gradient of the mean")
      end if
    end associate
    loss = global_norm(x, all)
    call tape%gradient(loss, [x], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call loss%val(value)
    call grads(1)%val(found)
    call check(error, near([value], [norm2(everywhere)], 1e-14_dp), "norm")
    if (all%size > 1) call check(error, near(found, here/value, 1e-14_dp), "gradient of the norm")
    ! d/dx of sum (x/|x|)**4 on all processes
    square = grads(1)*grads(1)
    loss = global_sum(sum(square*square), all)
    call tape%gradient(loss, [x], grads, error)
    if (allocated(error)) return
    call grads(1)%val(found)
    if (all%size > 1) call check(error, near(found, 4*here**3/value**4 - 4*sum(everywhere**4)* &
      & here/value**6, 1e-13_dp), "second derivative of the norm")

    ! a parameter that all have: each has a part of the gradient
    x = tape%parameter([1.0_dp, 2.0_dp])
    loss = global_sum(sum(x*x*tape%constant([1.0_dp, real(all%rank, dp)])), all)
    call tape%backward(loss, error)
    call all%sum_gradients([x], error)
    if (allocated(error)) return
    call x%grad(found)
    call check(error, near(found, [2.0_dp*all%size, 2.0_dp*all%size*(all%size - 1)], 1e-14_dp), &
      & "a parameter of all")
  end subroutine test_sums

  subroutine test_zero(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, loss
    type(communicator_type) :: all
    real(dp), allocatable :: found(:)

    call all%init(MPI_COMM_WORLD, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([0.0_dp, 0.0_dp])
    loss = global_norm(x, all)
    call tape%backward(loss, error)
    if (allocated(error)) return
    call x%grad(found)
    call check(error, all_zero(found), "gradient")

  contains

    logical function all_zero(x)
      real(dp), intent(in) :: x(:)

      all_zero = count(x == 0) == size(x)
    end function all_zero

  end subroutine test_zero

  ! ---- derivatives ----

  !> Gradients of a loss of two layers, and of an inner product with these gradients.
  subroutine differentiate(it, h_grad, u_grad, h_curve, u_curve, error)
    type(layer_type), intent(in) :: it
    !> Derivatives by own nodes [f_in, n], and by the weights, of all processes [n_hidden, 2]
    real(dp), allocatable, intent(out) :: h_grad(:, :), u_grad(:, :), h_curve(:, :), u_curve(:, :)
    type(error_type), allocatable, intent(inout) :: error
    type(tape_type) :: tape
    type(array_type) :: h, out, loss
    type(array_type), allocatable :: grads(:)
    type(weights_type) :: w

    call tape%init(error)
    if (allocated(error)) return
    w = make_weights(tape)
    h = tape%parameter(values(f_in, it%src))
    out = apply(it, tape, h, w)
    if (it%is_square) then
      ! a second layer, on what the first one made
      out = apply(it, tape, concatenate([out, slice(h, [1_int64, 1_int64], &
        & [1_int64, size(it%src, kind=int64)])], 1), w)
    end if
    loss = total(it, sum(out*out))
    call tape%gradient(loss, [h, w%u], grads, error, create_graph=.true.)
    if (allocated(error)) return
    call grads(1)%val(h_grad)
    call grads(2)%val(u_grad)
    loss = total(it, sum(grads(1)*tape%constant(cos(values(f_in, it%src)))) + &
      & sum(grads(2)*tape%constant(values(n_hidden, [3_int64, 4_int64]))))
    call tape%gradient(loss, [h, w%u], grads, error)
    if (allocated(error)) return
    call grads(1)%val(h_curve)
    call grads(2)%val(u_curve)
    if (.not. it%is_distributed) return
    call it%distributed%sum(u_grad, error)
    call it%distributed%sum(u_curve, error)
  end subroutine differentiate

  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(layer_type) :: one, many
    real(dp), allocatable, dimension(:, :) :: h_one, u_one, hh_one, uu_one, h, u, hh, uu
    integer :: k

    do k = 1, size(layouts)
      call make_layer(layouts(k), .false., one, error)
      call make_layer(layouts(k), .true., many, error)
      if (.not. allocated(error)) call differentiate(one, h_one, u_one, hh_one, uu_one, error)
      if (.not. allocated(error)) call differentiate(many, h, u, hh, uu, error)
      if (allocated(error)) return
      call compare(h, h_one(:, many%src), "h")
      call compare(u, u_one, "u")
      call compare(hh, hh_one(:, many%src), "h, second order")
      call compare(uu, uu_one, "u, second order")
    end do

  contains

    subroutine compare(found, needed, what)
      real(dp), intent(in) :: found(:, :), needed(:, :)
      character(len=*), intent(in) :: what

      call check(error, near(reshape(found, [size(found)]), reshape(needed, [size(needed)]), &
        & 1e-12_dp), trim(layouts(k))//": "//what)
    end subroutine compare

  end subroutine test_derivatives

  !> The losses of a training, and the parameters after it.
  subroutine train(it, losses, u, error)
    type(layer_type), intent(in) :: it
    real(dp), intent(out) :: losses(n_steps)
    real(dp), allocatable, intent(out) :: u(:, :)
    type(error_type), allocatable, intent(inout) :: error
    type(tape_type) :: tape
    type(adam_type) :: adam
    type(weights_type) :: w
    type(array_type) :: h, loss, error_of
    integer :: step, start

    call tape%init(error)
    if (allocated(error)) return
    w = make_weights(tape)
    h = tape%constant(values(f_in, it%src))
    call adam%init([w%u, w%b_u, w%v, w%b_v], lr=0.01_dp, error=error)
    if (allocated(error)) return
    start = tape%mark()
    do step = 1, n_steps
      error_of = apply(it, tape, h, w) - tape%constant(values(f_out, it%dst))
      if (it%is_distributed) then
        loss = global_norm(error_of, it%distributed)
      else
        loss = norm(error_of)
      end if
      call tape%backward(loss, error)
      if (it%is_distributed) &
        & call it%distributed%sum_gradients([w%u, w%b_u, w%v, w%b_v], error)
      if (allocated(error)) return
      call adam%step(error)
      if (allocated(error)) return
      call loss%val(losses(step))
      call tape%rewind(start)
    end do
    call w%u%val(u)
  end subroutine train

  subroutine test_training(error)
    type(error_type), allocatable, intent(out) :: error
    type(layer_type) :: one, many
    real(dp) :: losses_one(n_steps), losses(n_steps)
    real(dp), allocatable :: u_one(:, :), u(:, :)
    integer :: k

    do k = 1, merge(2, size(layouts), short_run())
      call make_layer(layouts(k), .false., one, error)
      call make_layer(layouts(k), .true., many, error)
      if (.not. allocated(error)) call train(one, losses_one, u_one, error)
      if (.not. allocated(error)) call train(many, losses, u, error)
      if (allocated(error)) return
      call check(error, losses(n_steps) < 0.9_dp*losses(1), layouts(k)//": does not learn")
      call check(error, near(losses, losses_one, 1e-12_dp), layouts(k)//": loss")
      call check(error, near(reshape(u, [size(u)]), reshape(u_one, [size(u)]), 1e-12_dp), &
        & layouts(k)//": parameters")
    end do
  end subroutine test_training

  subroutine test_twice(error)
    type(error_type), allocatable, intent(out) :: error
    type(layer_type) :: it
    real(dp) :: first(n_steps), second(n_steps)
    real(dp), allocatable :: u(:, :), again(:, :), others(:, :)

    call make_layer("scattered", .true., it, error)
    if (.not. allocated(error)) call train(it, first, u, error)
    if (.not. allocated(error)) call train(it, second, again, error)
    if (allocated(error)) return
    call check(error, all(first == second) .and. all(u == again), "other bits")
    ! all processes have the same parameters
    others = u
    if (it%distributed%rank > 0) others = 0
    call it%distributed%sum(others, error)
    call check(error, all(u == others), "other parameters on other processes")
  end subroutine test_twice

end module test_tape

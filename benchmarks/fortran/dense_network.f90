! SPDX-License-Identifier: MIT

!> A step of training of a dense network, here and in neural-fortran: forward, backward, update.
!>
!> Both begin with the same weights and see the same batches, in real32. Before anything is timed, the
!> weights are compared after some steps: both do the same. Then every size is timed by turns, and
!> the least time of all rounds counts.
!>
!>     git clone https://github.com/modern-fortran/neural-fortran
!>     cmake -S neural-fortran -B nf -DCMAKE_Fortran_FLAGS=-march=native && make -C nf neural-fortran
!>     gfortran -O3 -march=native dense_network.f90 $(pkg-config --cflags --libs gnograd) \
!>       -Inf/include nf/lib/libneural-fortran.a -o dense_network
!>     OMP_NUM_THREADS=1 ./dense_network
program dense_network
  use gnograd, only: sp, dp, tape_type, array_type, error_type, sgd_type, initializer_type, &
    & random_type, mlp_type, tanh, sum, operator(-), operator(/), operator(**)
  use nf, only: network, nf_input => input, nf_dense => dense, nf_sgd => sgd, tanhf
  use nf_dense_layer, only: dense_layer
  implicit none
  integer, parameter :: n_rounds = 5, n_in = 32, n_out = 8, widths(3) = [32, 128, 512], &
    & batches(2) = [1, 64]
  type(tape_type) :: tape
  type(mlp_type) :: net
  type(sgd_type) :: sgd
  type(network) :: other
  type(error_type), allocatable :: error
  real(sp), allocatable :: x(:, :), y(:, :)
  integer :: start, i, j

  print "(a)", "width  batch   gnograd ms   neural-fortran ms   ratio   weights differ by"
  do i = 1, size(widths)
    do j = 1, size(batches)
      call compare(widths(i), batches(j))
    end do
  end do

contains

  subroutine compare(width, batch)
    integer, intent(in) :: width, batch
    type(initializer_type) :: initial
    type(random_type) :: random
    real(sp), allocatable :: weight(:, :), theirs(:, :)
    real(dp) :: here, there, difference, seconds
    integer :: k, n_steps, round

    call tape%init(error)
    initial = initializer_type(seed=1, kind=sp)
    call net%init(tape, initial, "net", [n_in, width, width, n_out], activation="tanh")
    call sgd%init(net%parameters(), 0.01_dp, error)
    if (allocated(error)) error stop "gnograd"
    other = network([nf_input(n_in), nf_dense(width, tanhf()), nf_dense(width, tanhf()), &
      & nf_dense(n_out, tanhf())])
    do k = 1, 3
      select type (layer => other%layers(k + 1)%p)
      type is (dense_layer)
        call net%layers(k)%weight%val(weight)
        layer%weights = weight
        layer%biases = 0
      end select
    end do
    if (allocated(x)) deallocate (x, y)
    allocate (x(n_in, batch), y(n_out, batch))
    do k = 1, size(x)
      x(1 + mod(k - 1, n_in), 1 + (k - 1)/n_in) = real(random%uniform(-1.0_dp, 1.0_dp), sp)
    end do
    y = 0.5_sp*x(:n_out, :)

    start = tape%mark()
    do k = 1, 5
      call step_here()
      call step_there()
    end do
    call net%layers(2)%weight%val(weight)
    select type (layer => other%layers(3)%p)
    type is (dense_layer)
      theirs = layer%weights
    end select
    difference = maxval(abs(weight - theirs))/maxval(abs(weight))
    if (.not. difference < 1e-4_dp) error stop "the two do not do the same"

    n_steps = max(3, 20000000/(width*(width + n_in)*batch))
    here = huge(here)
    there = huge(there)
    do round = 1, n_rounds
      seconds = clock()
      do k = 1, n_steps
        call step_here()
      end do
      here = min(here, (clock() - seconds)/n_steps)
      seconds = clock()
      do k = 1, n_steps
        call step_there()
      end do
      there = min(there, (clock() - seconds)/n_steps)
    end do
    print "(i5, i7, f13.3, f20.3, f8.1, es20.1)", width, batch, 1e3_dp*here, 1e3_dp*there, &
      & there/here, difference
  end subroutine compare

  subroutine step_here()
    type(array_type) :: loss

    loss = sum((tanh(net%forward(tape%constant(x))) - tape%constant(y))**2)/(2.0_dp*size(x, 2))
    call tape%backward(loss, error)
    if (.not. allocated(error)) call sgd%step(error)
    if (allocated(error)) error stop "gnograd"
    call tape%rewind(start)
  end subroutine step_here

  !> One step of neural-fortran, as its `train` makes it with one batch.
  subroutine step_there()
    integer :: sample

    do sample = 1, size(x, 2)
      call other%forward(x(:, sample))
      call other%backward(y(:, sample))
    end do
    call other%update(nf_sgd(learning_rate=0.01), size(x, 2))
  end subroutine step_there

  !> Seconds of this process, which a busy machine does not change as it does those of a clock.
  function clock()
    real(dp) :: clock

    call cpu_time(clock)
  end function clock

end program dense_network

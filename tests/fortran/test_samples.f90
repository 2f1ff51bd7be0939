! SPDX-License-Identifier: MIT

!> Samples in batches.
module test_samples
  use gnograd
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: samples_tests, make_samples

contains

  function samples_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("batches", test_batches), &
      & test_type("order of samples", test_order), &
      & test_type("a loader has samples of its own", test_own_samples), &
      & test_type("batches of samples without graphs", test_no_graphs), &
      & test_type("samples that do not fit", test_refused_samples)]
  end function samples_tests

  !> Sample k has k + 2 nodes in a row, and what a sum over neighbours makes of a wave.
  subroutine make_samples(n, samples, error)
    integer, intent(in) :: n
    type(sample_type), allocatable, intent(out) :: samples(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable :: x(:, :), f(:, :), sums(:, :)
    integer :: i, k

    allocate (samples(n))
    do k = 1, n
      x = reshape([(real(i, dp)/(k + 2), i=1, k + 2)], [1, k + 2])
      f = cos(k*x)
      sums = 0*f
      associate (sample => samples(k))
        call sample%graph%knn(x, 3, error)
        if (allocated(error)) return
        associate (src => sample%graph%src(), dst => sample%graph%dst())
          do i = 1, size(src)
            sums(1, dst(i)) = sums(1, dst(i)) + f(1, src(i))
          end do
          call sample%arrays%set("coords", x(:, dst) - x(:, src), error)
        end associate
        if (.not. allocated(error)) call sample%arrays%set("f", f, error)
        if (.not. allocated(error)) call sample%arrays%set("sums", sums, error)
        if (allocated(error)) return
      end associate
    end do
  end subroutine make_samples

  subroutine test_batches(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    real(dp), allocatable :: f(:, :)
    integer(int64) :: k
    integer :: n

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call check(error, loader%n_batches() == 3, "batches of an epoch")
    do k = 1, 6
      call loader%batch(k, sample, error)
      if (allocated(error)) return
      n = merge(4*int(modulo(k - 1, 3_int64)) + 7, 7, modulo(k, 3_int64) /= 0)
      call check(error, sample%graph%n_src == n, "nodes")
      call sample%arrays%get("f", f, error)
      if (allocated(error)) return
      call check(error, size(f, 2) == n, "features")
      if (k == 2) call check(error, abs(f(1, 6) - cos(4.0_dp/6)) < 1e-15, "those of the second")
      call check(error, all(sample%arrays%shape("coords") == [1_int64, sample%graph%n_edges]), &
        & "edges")
    end do
  end subroutine test_batches

  subroutine test_order(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    integer :: order(6, 3), again(6)
    integer :: epoch, k

    call make_samples(6, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, seed=4)
    do epoch = 1, 3
      do k = 1, 6
        if (allocated(error)) return
        call loader%batch(6_int64*(epoch - 1) + k, sample, error)
        if (associated(sample)) order(k, epoch) = int(sample%graph%n_src) - 2
      end do
      call check(error, all([(count(order(:, epoch) == k) == 1, k=1, 6)]), "every one once")
    end do
    call check(error, any(order(:, 1) /= order(:, 2)) .and. any(order(:, 2) /= order(:, 3)), &
      & "another order in every epoch")
    do k = 1, 6
      if (allocated(error)) return
      call loader%batch(6_int64 + k, sample, error)
      again(k) = int(sample%graph%n_src) - 2
    end do
    call check(error, all(again == order(:, 2)), "always the same")
  end subroutine test_order

  !> Samples of the program stay, also where the loaders share them.
  subroutine test_own_samples(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: known, unseen
    real(dp), allocatable :: f(:, :)

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call known%init(samples(:3), error)
    if (.not. allocated(error)) call unseen%init(samples(4:), error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call check(error, known%n_batches() == 3 .and. unseen%n_batches() == 1, "parts of an array")
    call check(error, size(samples) == 5, "they are still there")
    call samples(4)%arrays%get("f", f, error)
    if (.not. allocated(error)) call samples(4)%arrays%set("f", 0*f, error)
    if (.not. allocated(error)) call unseen%batch(1_int64, sample, error)
    if (allocated(error)) return
    call check(error, sample%graph%n_src == sum(samples(4:)%graph%n_src), "nodes")
    deallocate (samples)
    call sample%arrays%get("f", f, error)
    if (allocated(error)) return
    call check(error, all(abs(f(1, :6)) > 0), "copies")
  end subroutine test_own_samples

  !> Samples of networks that need no graph make batches; a graph that some lack is an error.
  subroutine test_no_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(sample_type) :: samples(3)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    integer :: k

    do k = 1, 3
      call samples(k)%arrays%set("f", spread([1.0_dp*k, 2.0_dp], 2, k), error)
      if (allocated(error)) return
    end do
    call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (.not. allocated(error)) call loader%batch(1_int64, sample, error)
    if (allocated(error)) return
    call check(error, all(sample%arrays%shape("f") == [2, 3]) .and. sample%graph%n_src == 0, "joined")
    call samples(1)%graph%from_edges([1], [1], error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, "graph%batch: graphs(2) was never built")
  end subroutine test_no_graphs

  subroutine test_refused_samples(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    type(array_type) :: x

    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, "loader: init comes first")
    call loader%init(samples, refused)
    call check_refused(error, refused, "loader: samples is not allocated")
    if (.not. allocated(error)) call make_samples(2, samples, error)
    if (allocated(error)) return
    call loader%init(samples, refused, batch_size=0)
    call check_refused(error, refused, "loader: batch_size is 0, needs 1 or more")
    call check(error, loader%batch_size == 1, "an error changes nothing")
    call samples(2)%arrays%set("f", [1.0_dp], error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2)
    if (allocated(error)) return
    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, &
      & "join_weights: 'f' has another type or shape in part 2; only the last axis may differ")
    call tape%init(error)
    if (allocated(error)) return
    x = loader%samples(1)%array(tape, "g")
    call tape%check(refused)
    call check_refused(error, refused, "sample: there is no array 'g'")
  end subroutine test_refused_samples

end module test_samples

! SPDX-License-Identifier: MIT

!> Learn a smoothing operator in the unit square from meshes that are all different.
!>
!> A sample is a cloud of points, a function f on it, and its averages over the neighbours with
!> Gaussian weights. The network is a lift, two graph neural operator layers and a projection. It
!> is judged by clouds that it has never seen.
!>
!>     ./train_meshes [STEPS [CHECKPOINT [FILE.csv]]]
!>
!> With a checkpoint the training goes on from the file, if there is one, and leaves one; ""
!> is none. FILE.csv, which pictures.py makes a picture of, has a line a point of a cloud never
!> seen: x, y, the function, its average, and what the network says of that.
module smoothing
  use gnograd, only: dp, tape_type, array_type, error_type, random_type, initializer_type, &
    & mlp_type, gno_type, sample_type, model_type, gelu, norm, operator(+), operator(-), operator(/)
  implicit none

  type, extends(model_type) :: network_type
    type(mlp_type) :: lift, project
    type(gno_type) :: gno(2)
  contains
    procedure :: init
    procedure :: parameters
    procedure :: forward
    procedure :: loss
  end type network_type

contains

  subroutine init(self, tape, initial)
    class(network_type), intent(inout) :: self
    type(tape_type), intent(in) :: tape
    type(initializer_type), intent(inout) :: initial

    call self%lift%init(tape, initial, "lift", [1, 16, 16])
    call self%gno(1)%init(tape, initial, "gno.0", n_in=16, n_out=16, coord_dim=2, n_hidden=24)
    call self%gno(2)%init(tape, initial, "gno.1", n_in=16, n_out=16, coord_dim=2, n_hidden=24)
    call self%project%init(tape, initial, "project", [16, 16, 1])
  end subroutine init

  function parameters(self) result(list)
    class(network_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%lift%parameters(), self%gno(1)%parameters(), self%gno(2)%parameters(), &
      & self%project%parameters()]
  end function parameters

  !> The averages of f [1, n].
  function forward(self, tape, sample) result(out)
    class(network_type), intent(in) :: self
    type(tape_type), intent(inout) :: tape
    type(sample_type), intent(in) :: sample
    type(array_type) :: out, h, coords
    integer :: k

    coords = sample%array(tape, "coords")
    h = self%lift%forward(sample%array(tape, "f"))
    do k = 1, size(self%gno)
      h = h + gelu(self%gno(k)%forward(h, coords, sample%graph))
    end do
    out = self%project%forward(h)
  end function forward

  !> Relative error.
  function loss(self, tape, sample)
    class(network_type), intent(in) :: self
    type(tape_type), intent(inout) :: tape
    type(sample_type), intent(in) :: sample
    type(array_type) :: loss, smooth

    smooth = sample%array(tape, "smooth")
    loss = norm(self%forward(tape, sample) - smooth)/norm(smooth)
  end function loss

  !> Clouds of 80 to 160 points.
  subroutine make_samples(n, seed, samples, error)
    integer, intent(in) :: n, seed
    type(sample_type), allocatable, intent(out) :: samples(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), parameter :: radius = 0.25_dp
    type(random_type) :: random
    real(dp), allocatable :: x(:, :), f(:, :), offset(:, :), weight(:), sums(:, :)
    integer :: sample, n_points, i, k, e

    random = random_type(seed=seed)
    allocate (samples(n))
    do sample = 1, n
      n_points = 80 + int(80*random%uniform())
      allocate (x(2, n_points), f(1, n_points), sums(2, n_points))
      do i = 1, n_points
        x(:, i) = [random%uniform(), random%uniform()]
      end do
      f = 0
      sums = 0
      do k = 1, 3
        f(1, :) = f(1, :) + cos(random%uniform(2.0_dp, 6.0_dp)*x(1, :) &
          & + random%uniform(-6.0_dp, 6.0_dp)*x(2, :) + random%uniform(0.0_dp, 6.28_dp))
      end do
      associate (this => samples(sample))
        call this%graph%radius(x, radius, error)
        if (allocated(error)) return
        associate (src => this%graph%src(), dst => this%graph%dst())
          offset = (x(:, dst) - x(:, src))/radius
          weight = exp(-3*sum(offset**2, dim=1))
          do e = 1, size(src)
            sums(:, dst(e)) = sums(:, dst(e)) + weight(e)*[f(1, src(e)), 1.0_dp]
          end do
        end associate
        call this%arrays%set("coords", offset, error)
        if (.not. allocated(error)) call this%arrays%set("x", x, error)
        if (.not. allocated(error)) call this%arrays%set("f", f, error)
        if (.not. allocated(error)) call this%arrays%set("smooth", sums(:1, :)/sums(2:, :), error)
        if (allocated(error)) return
      end associate
      deallocate (x, f, sums)
    end do
  end subroutine make_samples

end module smoothing

program train_meshes
  use gnograd, only: dp, tape_type, array_type, error_type, initializer_type, adamw_type, &
    & sample_type, loader_type, training_type, evaluate
  use smoothing, only: network_type, make_samples
  implicit none
  type(tape_type) :: tape
  type(network_type) :: network
  type(initializer_type) :: initial
  type(sample_type), allocatable :: samples(:)
  type(loader_type) :: known, unseen
  type(adamw_type) :: adamw
  type(training_type) :: training
  type(error_type), allocatable :: error
  character(len=200) :: filename
  character(len=20) :: steps
  real(dp) :: loss

  training%n_steps = 600
  call get_command_argument(1, steps)
  if (steps /= "") read (steps, *) training%n_steps
  call get_command_argument(2, training%checkpoint)

  call make_samples(40, 1, samples, error)
  if (.not. allocated(error)) call known%init(samples, error, batch_size=2, seed=3)
  if (.not. allocated(error)) call make_samples(10, 2, samples, error)
  if (.not. allocated(error)) call unseen%init(samples, error)
  if (.not. allocated(error)) call tape%init(error)
  call stop_on(error)
  initial = initializer_type(seed=4)
  call network%init(tape, initial)
  call adamw%init(network%parameters(), lr=3e-3_dp, error=error)
  call stop_on(error)

  training%lr = 3e-3_dp
  training%n_warmup = 20
  training%max_norm = 1
  training%report_every = 100
  call evaluate(network, tape, unseen, loss, error)
  call stop_on(error)
  print "(a, f8.5)", "meshes never seen, before: relative error", loss
  call training%run(network, tape, known, adamw, error)
  call stop_on(error)
  call evaluate(network, tape, unseen, loss, error)
  call stop_on(error)
  print "(a, f8.5)", "meshes never seen, after:  relative error", loss
  call get_command_argument(3, filename)
  if (filename /= "") call write_cloud(unseen%samples(1), trim(filename))

contains

  subroutine write_cloud(sample, filename)
    type(sample_type), intent(in) :: sample
    character(len=*), intent(in) :: filename
    type(array_type) :: out
    real(dp), allocatable :: x(:, :), f(:, :), smooth(:, :), found(:, :)
    integer :: unit, i

    call sample%arrays%get("x", x, error)
    call stop_on(error)
    call sample%arrays%get("f", f, error)
    call stop_on(error)
    call sample%arrays%get("smooth", smooth, error)
    call stop_on(error)
    out = network%forward(tape, sample)
    call out%val(found, error)
    call stop_on(error)
    open (newunit=unit, file=filename, action="write")
    write (unit, "(a)") "x,y,function,average,found"
    write (unit, "(f0.6, ',', f0.6, ',', f0.6, ',', f0.6, ',', f0.6)") &
      & (x(:, i), f(1, i), smooth(1, i), found(1, i), i=1, size(f, 2))
    close (unit)
  end subroutine write_cloud

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program train_meshes

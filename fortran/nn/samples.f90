! SPDX-License-Identifier: MIT

!> Samples to learn from, each with a mesh of its own, and batches of them.
module gnograd_nn_samples
  use gnograd_core_error, only: error_type, fail, text, code_value
  use gnograd_core_graph, only: graph_type
  use gnograd_core_kinds, only: sp, dp, int64
  use gnograd_core_random, only: shuffled, split_mix
  use gnograd_weights, only: weights_type, weights_ref, join_weights
  use gnograd_autodiff_array, only: array_type, max_rank
  use gnograd_autodiff_shape, only: reshape
  use gnograd_autodiff_tape, only: tape_type
  implicit none
  private
  public :: sample_type, loader_type

  !> A graph, and arrays by names: features of nodes or edges, with these along the last axis.
  type :: sample_type
    type(graph_type) :: graph
    type(weights_type) :: arrays
  contains
    !> An array as a constant of a tape: f = sample%array(tape, "f")
    procedure :: array
  end type sample_type

  !> Batches in an order that changes from epoch to epoch. Batch 1, 2, 3, ... is always the same for
  !> a seed, so that a training goes on where it stopped.
  type :: loader_type
    type(sample_type), allocatable :: samples(:)
    !> Samples of a batch, side by side in one graph; the last batch of an epoch may have fewer
    integer :: batch_size = 1
    integer(int64) :: seed = 0
    !> Shuffle the samples; else they come in the order given
    logical :: shuffle = .true.
    integer(int64), private :: epoch = -1
    integer, allocatable, private :: order(:)
    type(sample_type), private :: joined
  contains
    !> Copy samples, and say how many make a batch
    procedure :: init
    !> Batches of an epoch
    procedure :: n_batches
    !> Batch 1, 2, 3, ... of all epochs
    generic :: batch => batch_default, batch_int64
    procedure, private :: batch_default, batch_int64
  end type loader_type

contains

  !> The array of this name as a constant; without such an array no value, and an error on the tape.
  function array(self, tape, name) result(x)
    class(sample_type), intent(in) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: name
    type(array_type) :: x
    type(error_type), allocatable :: error
    integer(int64), allocatable :: shape(:)
    real(sp), allocatable :: narrow(:)
    real(dp), allocatable :: wide(:)

    shape = self%arrays%shape(name)
    if (.not. self%arrays%has(name)) then
      call tape%refuse("sample: there is no array '"//name//"'")
      return
    else if (size(shape) > max_rank) then
      call tape%refuse("sample: '"//name//"' has more axes than arrays of tapes")
      return
    end if
    if (self%arrays%dtype(name) == "F64") then
      allocate (wide(product(shape)))
      call self%arrays%get_row(name, product(shape), wide, error)
      x = tape%constant(wide)
    else
      allocate (narrow(product(shape)))
      call self%arrays%get_row(name, product(shape), narrow, error)
      x = tape%constant(narrow)
    end if
    if (size(shape) /= 1) x = reshape(x, shape)
    if (allocated(error)) call tape%refuse(error%message)
  end function array

  !> Copy the samples, which stay as they are; a part of an array may be given, as samples(:40).
  subroutine init(self, samples, error, batch_size, seed, shuffle)
    class(loader_type), intent(inout) :: self
    ! so that an array that is not allocated is an error, and no crash
    type(sample_type), intent(in), optional :: samples(:)
    type(error_type), allocatable, intent(out) :: error
    !> Samples of a batch; 1 if absent
    integer, intent(in), optional :: batch_size
    !> Seed of the order; 0 if absent
    integer, intent(in), optional :: seed
    !> Shuffle the samples; default: yes
    logical, intent(in), optional :: shuffle

    if (.not. present(samples)) then
      call fail(error, code_value, "loader: samples is not allocated")
    else if (size(samples) == 0) then
      call fail(error, code_value, "loader: samples is empty")
    end if
    if (present(batch_size)) then
      if (batch_size < 1) call fail(error, code_value, "loader: batch_size is "// &
        & text(int(batch_size, int64))//", needs 1 or more")
    end if
    if (allocated(error)) return
    self%batch_size = 1
    if (present(batch_size)) self%batch_size = batch_size
    self%seed = 0
    if (present(seed)) self%seed = seed
    self%shuffle = .true.
    if (present(shuffle)) self%shuffle = shuffle
    self%epoch = -1
    self%samples = samples
  end subroutine init

  pure integer function n_batches(self)
    class(loader_type), intent(in) :: self

    n_batches = 0
    if (allocated(self%samples)) n_batches = (size(self%samples) + self%batch_size - 1)/ &
      & self%batch_size
  end function n_batches

  subroutine batch_default(self, number, sample, error)
    class(loader_type), intent(inout), target :: self
    integer, intent(in) :: number
    type(sample_type), pointer, intent(out) :: sample
    type(error_type), allocatable, intent(out) :: error

    call self%batch(int(number, int64), sample, error)
  end subroutine batch_default

  !> Batch 1, 2, 3, ... of all epochs.
  subroutine batch_int64(self, number, sample, error)
    class(loader_type), intent(inout), target :: self
    integer(int64), intent(in) :: number
    !> Batch, valid until the next call, and the end of the loader
    type(sample_type), pointer, intent(out) :: sample
    type(error_type), allocatable, intent(out) :: error
    type(weights_ref), allocatable :: arrays(:)
    type(graph_type), allocatable :: graphs(:)
    integer(int64) :: epoch
    integer :: first, last, k

    sample => null()
    if (self%n_batches() == 0) then
      call fail(error, code_value, "loader: init comes first")
      return
    else if (number < 1) then
      call fail(error, code_value, "loader%batch: number is "//text(number)//", needs 1 or more")
      return
    end if
    epoch = (number - 1)/self%n_batches()
    if (epoch /= self%epoch) then
      self%epoch = epoch
      if (self%shuffle) then
        self%order = shuffled(size(self%samples), split_mix(self%seed, epoch))
      else
        self%order = [(k, k=1, size(self%samples))]
      end if
    end if
    first = int(modulo(number - 1, int(self%n_batches(), int64)))*self%batch_size + 1
    last = min(first + self%batch_size - 1, size(self%samples))
    if (self%batch_size == 1) then
      sample => self%samples(self%order(first))
      return
    end if
    allocate (arrays(last - first + 1), graphs(last - first + 1))
    do k = first, last
      arrays(k - first + 1)%weights => self%samples(self%order(k))%arrays
      graphs(k - first + 1) = self%samples(self%order(k))%graph
    end do
    if (any(graphs%serial /= 0)) then
      call self%joined%graph%batch(graphs, error)
    else
      self%joined%graph = graph_type()  ! samples of a network without edges have none
    end if
    if (.not. allocated(error)) call join_weights(arrays, self%joined%arrays, error)
    if (.not. allocated(error)) sample => self%joined
  end subroutine batch_int64

end module gnograd_nn_samples

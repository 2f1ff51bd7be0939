! SPDX-License-Identifier: MIT

!> Memory for the values on a tape, kept for the next step instead of going back to the system.
!>
!> A training step asks for the same memory again and again. Fresh pages from the operating system
!> cost more than most elementwise operations on them.
!>
!> On a device the pointers hold addresses in its memory: the host passes them on and never looks
!> behind them.
module gnograd_autodiff_memory
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_loc, c_ptr, c_size_t
  use gnograd_core_kinds, only: sp, dp, int64
  use gnograd_core_threads, only: n_threads
  use gnograd_device, only: device_type, take_memory, give_memory
  implicit none
  private
  public :: pool_type, values_type, kind_r32, kind_r64

  integer, parameter :: kind_r32 = 32
  integer, parameter :: kind_r64 = 64

  !> Numbers of one kind, in Fortran order, whatever their shape.
  type :: values_type
    !> One of the two is associated, or none
    real(sp), pointer, contiguous :: r32(:) => null()
    real(dp), pointer, contiguous :: r64(:) => null()
    !> Memory that they are a view of
    real(dp), pointer, contiguous, private :: memory(:) => null()
  end type values_type

  type :: block_type
    real(dp), pointer, contiguous :: memory(:) => null()
  end type block_type

  !> Free blocks of one size, a stack.
  type :: shelf_type
    type(block_type), allocatable :: blocks(:)
    integer :: n = 0, room = 0
  end type shelf_type

  !> Smallest block, in doubles, as a power of two
  integer, parameter :: first_power = 6
  !> Sizes between two powers of two: at most a quarter of a block is wasted
  integer, parameter :: sizes = 4
  !> More than any machine has
  integer, parameter :: last_power = 50
  integer, parameter :: last_shelf = sizes*(last_power - first_power)

  !> Doubles of a page, and of blocks that are touched by all threads
  integer(int64), parameter :: page_size = 512, touch_size = 2_int64**17

  type :: pool_type
    !> Device of the memory; set while the pool is empty
    type(device_type) :: device
    !> Not allocated: empty
    type(shelf_type), allocatable, private :: shelves(:)
  contains
    !> Memory for n numbers of a kind
    procedure :: take
    !> Memory back to the pool
    procedure :: give
    !> Memory back to the system
    procedure :: free
  end type pool_type

contains

  subroutine take(self, kind, n, values, ok)
    class(pool_type), intent(inout), target :: self
    integer, intent(in) :: kind
    integer(int64), intent(in) :: n
    !> Without memory
    type(values_type), intent(inout) :: values
    !> False when memory is short
    logical, intent(out) :: ok
    integer(int64) :: capacity
    integer :: shelf, status

    call fit(merge((n + 1)/2, n, kind == kind_r32), shelf, capacity)
    ok = shelf <= last_shelf
    if (.not. ok) return
    if (.not. allocated(self%shelves)) then
      allocate (self%shelves(0:last_shelf), stat=status)
      ok = status == 0
      if (.not. ok) return
    end if
    associate (here => self%shelves(shelf))
      if (here%n > 0) then
        values%memory => here%blocks(here%n)%memory
        here%n = here%n - 1
      else
        call allocate_block(self, capacity, values%memory, ok)
        if (.not. ok) return
      end if
    end associate
    if (kind == kind_r32) then
      call c_f_pointer(c_loc(values%memory), values%r32, [n])
    else
      values%r64 => values%memory(:n)
    end if
  end subroutine take

  !> Fresh memory; what lies on the shelves of a device goes back before it is said to be short.
  subroutine allocate_block(self, capacity, memory, ok)
    class(pool_type), intent(inout) :: self
    integer(int64), intent(in) :: capacity
    real(dp), pointer, contiguous, intent(out) :: memory(:)
    logical, intent(out) :: ok
    type(c_ptr) :: address
    integer(c_size_t) :: bytes
    integer(c_int) :: code
    integer :: status

    memory => null()
    if (self%device%active) then
      bytes = capacity*(storage_size(1.0_dp)/8)
      call take_memory(self%device, bytes, address, code)
      if (code /= 0) then
        call empty_shelves(self)
        call take_memory(self%device, bytes, address, code)
      end if
      ok = code == 0
      if (ok) call c_f_pointer(address, memory, [capacity])
    else
      allocate (memory(capacity), stat=status)
      ok = status == 0
      if (ok .and. capacity > touch_size) call touch(memory)
    end if
  end subroutine allocate_block

  !> The end of a block.
  subroutine end_block(self, memory)
    class(pool_type), intent(in) :: self
    real(dp), pointer, contiguous, intent(inout) :: memory(:)

    if (self%device%active) then
      call give_memory(self%device, c_loc(memory))
      memory => null()
    else
      deallocate (memory)
    end if
  end subroutine end_block

  !> Write to every page by the thread that is likely to use it: on machines with several memories
  !> a page comes to the one that is near.
  subroutine touch(memory)
    real(dp), intent(inout), contiguous :: memory(:)
    integer(int64) :: i

    !$omp parallel do default(none) num_threads(n_threads()) schedule(static) private(i) &
    !$omp& shared(memory)
    do i = 1, size(memory, kind=int64), page_size
      memory(i) = 0
    end do
  end subroutine touch

  !> Values without memory are left alone; with a view of other memory, the view ends.
  subroutine give(self, values)
    class(pool_type), intent(inout) :: self
    type(values_type), intent(inout) :: values
    integer(int64) :: capacity
    integer :: shelf, status

    if (associated(values%memory)) then
      call fit(size(values%memory, kind=int64), shelf, capacity)
      associate (here => self%shelves(shelf))
        status = 0
        if (here%n == here%room) call enlarge(here, status)
        if (status == 0) then
          here%n = here%n + 1
          here%blocks(here%n)%memory => values%memory
        else
          call end_block(self, values%memory)
        end if
      end associate
    end if
    nullify (values%memory, values%r32, values%r64)
  end subroutine give

  !> Room for more blocks on a shelf.
  subroutine enlarge(shelf, status)
    type(shelf_type), intent(inout) :: shelf
    integer, intent(out) :: status
    type(block_type), allocatable :: more(:)

    allocate (more(max(8, 2*shelf%n)), stat=status)
    if (status /= 0) return
    if (shelf%n > 0) more(:shelf%n) = shelf%blocks
    call move_alloc(more, shelf%blocks)
    shelf%room = size(shelf%blocks)
  end subroutine enlarge

  subroutine free(self)
    class(pool_type), intent(inout) :: self

    if (.not. allocated(self%shelves)) return
    call empty_shelves(self)
    deallocate (self%shelves)
  end subroutine free

  subroutine empty_shelves(self)
    class(pool_type), intent(inout) :: self
    integer :: shelf, k

    do shelf = 0, last_shelf
      associate (here => self%shelves(shelf))
        do k = 1, here%n
          call end_block(self, here%blocks(k)%memory)
        end do
        here%n = 0
      end associate
    end do
  end subroutine empty_shelves

  !> The shelf for n doubles, and the size of its blocks: 64, then 80, 96, 112, 128, 160, ...
  pure subroutine fit(n, shelf, capacity)
    integer(int64), intent(in) :: n
    integer, intent(out) :: shelf
    integer(int64), intent(out) :: capacity
    integer(int64) :: base, part
    integer :: power

    shelf = 0
    capacity = 2_int64**first_power
    if (n <= capacity) return
    ! 2**power < n <= 2**(power + 1)
    power = int(bit_size(n)) - 1 - leadz(n - 1)
    base = shiftl(1_int64, power)
    part = (n - base + base/sizes - 1)/(base/sizes)
    shelf = sizes*(power - first_power) + int(part)
    capacity = base + part*(base/sizes)
  end subroutine fit

end module gnograd_autodiff_memory

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
    !> Block of the pool that they are a view of; 0: none
    integer :: block = 0
  end type values_type

  type :: block_type
    real(dp), pointer, contiguous :: memory(:) => null()
    !> Shelf for its size
    integer :: shelf = 0
    !> Next free block of the shelf; 0: none
    integer :: next = 0
  end type block_type

  !> Smallest block, in doubles, as a power of two
  integer, parameter :: first_power = 6
  !> Sizes between two powers of two, 2**power_of_sizes: at most a quarter of a block is wasted
  integer, parameter :: power_of_sizes = 2, sizes = 2**power_of_sizes
  !> More than any machine has
  integer, parameter :: last_power = 50
  integer, parameter :: last_shelf = sizes*(last_power - first_power)
  !> Shelf of blocks without memory
  integer, parameter :: empty_shelf = -1

  !> Doubles of a page, and of blocks that are touched by all threads
  integer(int64), parameter :: page_size = 512, touch_size = 2_int64**17
  !> Blocks a pool has room for at first
  integer, parameter :: first_room = 64

  type :: pool_type
    !> Device of the memory; set while the pool is empty
    type(device_type) :: device
    type(block_type), allocatable, private :: blocks(:)
    !> First free block of every shelf; 0: none
    integer, private :: first(empty_shelf:last_shelf) = 0
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
    real(dp), pointer, contiguous :: memory(:)
    integer(int64) :: capacity
    integer :: shelf

    call fit(merge((n + 1)/2, n, kind == kind_r32), shelf, capacity)
    ok = shelf <= last_shelf
    if (.not. ok) return
    if (self%first(shelf) == 0) call add_block(self, shelf, capacity, ok)
    if (.not. ok) return
    values%block = self%first(shelf)
    self%first(shelf) = self%blocks(values%block)%next
    memory => self%blocks(values%block)%memory
    if (kind == kind_r32) then
      call c_f_pointer(c_loc(memory), values%r32, [n])
    else
      values%r64 => memory(:n)
    end if
  end subroutine take

  !> A free block on a shelf that has none.
  subroutine add_block(self, shelf, capacity, ok)
    class(pool_type), intent(inout) :: self
    integer, intent(in) :: shelf
    !> Doubles of the block
    integer(int64), intent(in) :: capacity
    !> False when memory is short
    logical, intent(out) :: ok
    real(dp), pointer, contiguous :: memory(:)
    integer :: k, status

    if (self%first(empty_shelf) == 0) then
      call enlarge(self, status)
      ok = status == 0
      if (.not. ok) return
    end if
    call allocate_block(self, capacity, memory, ok)
    if (.not. ok) return
    k = self%first(empty_shelf)
    self%first(empty_shelf) = self%blocks(k)%next
    self%blocks(k) = block_type(memory, shelf, 0)
    self%first(shelf) = k
  end subroutine add_block

  !> Room for twice as many blocks.
  subroutine enlarge(self, status)
    class(pool_type), intent(inout) :: self
    integer, intent(out) :: status
    type(block_type), allocatable :: more(:)
    integer :: k, n

    n = 0
    if (allocated(self%blocks)) n = size(self%blocks)
    allocate (more(max(first_room, 2*n)), stat=status)
    if (status /= 0) return
    if (n > 0) more(:n) = self%blocks
    call move_alloc(more, self%blocks)
    do k = size(self%blocks), n + 1, -1
      call put_on_shelf(self, k, empty_shelf)
    end do
  end subroutine enlarge

  subroutine put_on_shelf(self, k, shelf)
    class(pool_type), intent(inout) :: self
    !> Number of the block
    integer, intent(in) :: k
    integer, intent(in) :: shelf

    self%blocks(k)%shelf = shelf
    self%blocks(k)%next = self%first(shelf)
    self%first(shelf) = k
  end subroutine put_on_shelf

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

    if (values%block > 0) call put_on_shelf(self, values%block, self%blocks(values%block)%shelf)
    values%block = 0
    nullify (values%r32, values%r64)
  end subroutine give

  subroutine free(self)
    class(pool_type), intent(inout) :: self

    call empty_shelves(self)
    if (allocated(self%blocks)) deallocate (self%blocks)
    self%first(empty_shelf) = 0
  end subroutine free

  subroutine empty_shelves(self)
    class(pool_type), intent(inout) :: self
    integer :: shelf, k

    do shelf = 0, last_shelf
      do while (self%first(shelf) > 0)
        k = self%first(shelf)
        self%first(shelf) = self%blocks(k)%next
        call end_block(self, self%blocks(k)%memory)
        call put_on_shelf(self, k, empty_shelf)
      end do
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
    part = shiftr(n - 1 - base, power - power_of_sizes) + 1
    shelf = sizes*(power - first_power) + int(part)
    capacity = base + part*(base/sizes)
  end subroutine fit

end module gnograd_autodiff_memory

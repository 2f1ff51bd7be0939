! SPDX-License-Identifier: MIT

!> A GPU through the CUDA library, which is loaded when a program first asks for one.
!>
!> Addresses of arrays are addresses in device memory. Everything is put on the stream of the device
!> and comes in its order; only copies from and to the host wait. Functions return a status: 0, or
!> what message_of explains. One file, since everything shares the table of loaded functions.
module gnograd_device
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_f_procpointer, &
    & c_funptr, c_int, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
  use gnograd_core_error, only: error_type, fail, text, code_memory, code_unsupported, code_value
  use gnograd_core_kinds, only: dp, int64
  use gnograd_core_process, only: lock, unlock, lock_of_cuda_library
  use gnograd_cuda
  implicit none
  private
  public :: device_type, open_device, enter, leave, find_kernel, message_of, device_error, &
    & status_missing, type_of
  public :: take_memory, give_memory, copy_to_device, copy_to_host, copy_on_device, lend
  public :: hold_on_device, release_on_device
  public :: fill, unary, binary, sum_axes, assign, softmax, gather_columns, scatter_columns, &
    & multiply, step_adam, step_descend

  !> Device that holds the arrays of a tape and computes with them; not active: the host.
  type :: device_type
    logical :: active = .false.
    !> CUDA's number of the GPU
    integer(c_int) :: number = 0
    !> A cudaStream_t of the caller's on this GPU; null is its default stream
    type(c_ptr) :: stream = c_null_ptr
  end type device_type

  !> The library has no kernel for this
  integer(c_int), parameter :: status_missing = -99
  !> Status of cudaMalloc without memory
  integer(c_int), parameter :: status_memory = 2
  !> Axes of arrays here
  integer, parameter :: n_axes = 4

  interface
    function gnograd_open_cuda_library(length, message) result(library) bind(C)
      import :: c_char, c_int64_t, c_ptr
      integer(c_int64_t), value :: length
      character(kind=c_char), intent(out) :: message(*)
      type(c_ptr) :: library
    end function gnograd_open_cuda_library

    function gnograd_cuda_function(library, name) result(address) bind(C)
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: library
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function gnograd_cuda_function
  end interface

  !> Library of the process, which stays loaded, and its functions
  type(c_ptr), save :: library = c_null_ptr
  procedure(gnograd_cuda_abi_version), pointer, save :: cuda_abi_version => null()
  procedure(gnograd_cuda_error_string), pointer, save :: cuda_error_string => null()
  procedure(gnograd_cuda_device_count), pointer, save :: cuda_device_count => null()
  procedure(gnograd_cuda_current_device), pointer, save :: cuda_current_device => null()
  procedure(gnograd_cuda_use_device), pointer, save :: cuda_use_device => null()
  procedure(gnograd_cuda_device_usable), pointer, save :: cuda_device_usable => null()
  procedure(gnograd_cuda_allocate), pointer, save :: cuda_allocate => null()
  procedure(gnograd_cuda_free), pointer, save :: cuda_free => null()
  procedure(gnograd_cuda_hold), pointer, save :: cuda_hold => null()
  procedure(gnograd_cuda_release), pointer, save :: cuda_release => null()
  procedure(gnograd_cuda_copy), pointer, save :: cuda_copy => null()
  procedure(gnograd_cuda_synchronize), pointer, save :: cuda_synchronize => null()
  procedure(gnograd_cuda_assign), pointer, save :: cuda_assign => null()
  procedure(gnograd_cuda_tape_fill), pointer, save :: cuda_fill => null()
  procedure(gnograd_cuda_tape_unary), pointer, save :: cuda_unary => null()
  procedure(gnograd_cuda_tape_binary), pointer, save :: cuda_binary => null()
  procedure(gnograd_cuda_tape_sum_workspace_bytes), pointer, save :: cuda_sum_bytes => null()
  procedure(gnograd_cuda_tape_sum), pointer, save :: cuda_sum => null()
  procedure(gnograd_cuda_tape_softmax), pointer, save :: cuda_softmax => null()
  procedure(gnograd_cuda_tape_gather), pointer, save :: cuda_gather => null()
  procedure(gnograd_cuda_tape_scatter), pointer, save :: cuda_scatter => null()
  procedure(gnograd_cuda_tape_product_workspace_bytes), pointer, &
    & save :: cuda_product_bytes => null()
  procedure(gnograd_cuda_tape_product), pointer, save :: cuda_product => null()
  procedure(gnograd_cuda_tape_adam), pointer, save :: cuda_adam => null()
  procedure(gnograd_cuda_tape_descend), pointer, save :: cuda_descend => null()

  !> A copy of integers for the time of a kernel, null of an array that is not allocated
  interface lend
    module procedure :: lend_list, lend_numbers, lend_table
  end interface lend

contains

  !> The device with this name: "cpu"; "cuda", the current GPU of the thread; "cuda:N", the GPU with
  !> this number.
  subroutine open_device(name, stream, device, error)
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: stream
    type(device_type), intent(out) :: device
    !> Allocated also where the CUDA library or a GPU is missing: the message says which
    type(error_type), allocatable, intent(out) :: error
    integer(c_int) :: status, n, number

    if (name == "cpu") return
    number = number_in(name)
    if (name /= "cuda" .and. number < 0) then
      call fail(error, code_value, "tape: device is '"//name//"', needs cpu, cuda or cuda:N")
      return
    end if
    call lock(lock_of_cuda_library)
    call load_library(error)
    call unlock(lock_of_cuda_library)
    if (allocated(error)) return
    status = cuda_device_count(n)
    if (status == 0 .and. n == 0) then
      call fail(error, code_unsupported, "tape: there is no GPU")
      return
    else if (status == 0 .and. number >= n) then
      call fail(error, code_value, "tape: device is '"//name//"', and the last GPU is cuda:"// &
        & text(int(n - 1, int64)))
      return
    end if
    if (status == 0 .and. number < 0) status = cuda_current_device(number)
    if (status == 0) status = cuda_device_usable(number)
    if (status /= 0) then
      call fail(error, code_unsupported, "tape: no GPU can be used: "//trim(message_of(status)))
    else
      device%active = .true.
      device%number = number
      device%stream = stream
    end if
  end subroutine open_device

  !> The number in "cuda:N"; -1 where there is none.
  pure function number_in(name) result(number)
    character(len=*), intent(in) :: name
    integer(c_int) :: number
    integer, parameter :: first = 6, most_digits = 9

    number = -1
    if (len(name) < first .or. len(name) >= first + most_digits) return
    if (name(:first - 1) /= "cuda:" .or. verify(name(first:), "0123456789") > 0) return
    read (name(first:), *) number
  end function number_in

  !> Make it the current device of the thread, until leave: what is called works on that one.
  function enter(device, before) result(status)
    type(device_type), intent(in) :: device
    !> Number of the GPU that was current, for leave
    integer(c_int), intent(out) :: before
    integer(c_int) :: status

    status = cuda_current_device(before)
    if (status == 0 .and. before /= device%number) status = cuda_use_device(device%number)
    if (status /= 0) before = device%number
  end function enter

  !> The program goes on with the device that it had.
  subroutine leave(device, before)
    type(device_type), intent(in) :: device
    integer(c_int), intent(in) :: before
    integer(c_int) :: status

    if (before /= device%number) status = cuda_use_device(before)
  end subroutine leave

  !> Find the functions of the library; once is enough.
  subroutine load_library(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: length = 1000
    character(kind=c_char) :: why(length)
    type(c_ptr) :: opened

    if (c_associated(library)) return
    opened = gnograd_open_cuda_library(int(length, c_int64_t), why)
    if (.not. c_associated(opened)) then
      call fail(error, code_unsupported, "tape: the CUDA library cannot be loaded: "//trim(string(why)))
      return
    end if
    call c_f_procpointer(find("abi_version"), cuda_abi_version)
    if (associated(cuda_abi_version)) then
      if (cuda_abi_version() /= gnograd_cuda_abi) cuda_abi_version => null()
    end if
    call c_f_procpointer(find("tape_descend"), cuda_descend)
    if (.not. (associated(cuda_abi_version) .and. associated(cuda_descend))) then
      call fail(error, code_unsupported, "tape: the CUDA library is of another version")
      return
    end if
    call c_f_procpointer(find("error_string"), cuda_error_string)
    call c_f_procpointer(find("device_count"), cuda_device_count)
    call c_f_procpointer(find("current_device"), cuda_current_device)
    call c_f_procpointer(find("use_device"), cuda_use_device)
    call c_f_procpointer(find("device_usable"), cuda_device_usable)
    call c_f_procpointer(find("allocate"), cuda_allocate)
    call c_f_procpointer(find("free"), cuda_free)
    call c_f_procpointer(find("hold"), cuda_hold)
    call c_f_procpointer(find("release"), cuda_release)
    call c_f_procpointer(find("copy"), cuda_copy)
    call c_f_procpointer(find("synchronize"), cuda_synchronize)
    call c_f_procpointer(find("assign"), cuda_assign)
    call c_f_procpointer(find("tape_fill"), cuda_fill)
    call c_f_procpointer(find("tape_unary"), cuda_unary)
    call c_f_procpointer(find("tape_binary"), cuda_binary)
    call c_f_procpointer(find("tape_sum_workspace_bytes"), cuda_sum_bytes)
    call c_f_procpointer(find("tape_sum"), cuda_sum)
    call c_f_procpointer(find("tape_softmax"), cuda_softmax)
    call c_f_procpointer(find("tape_gather"), cuda_gather)
    call c_f_procpointer(find("tape_scatter"), cuda_scatter)
    call c_f_procpointer(find("tape_product_workspace_bytes"), cuda_product_bytes)
    call c_f_procpointer(find("tape_product"), cuda_product)
    call c_f_procpointer(find("tape_adam"), cuda_adam)
    library = opened

  contains

    function find(name) result(address)
      character(len=*), intent(in) :: name
      type(c_funptr) :: address

      address = gnograd_cuda_function(opened, "gnograd_cuda_"//name//c_null_char)
    end function find

  end subroutine load_library

  !> A function of an operator for a type; null where the library has none.
  function find_kernel(name, type) result(address)
    !> Operator and face
    character(len=*), intent(in) :: name
    !> gnograd_cuda_f32 or gnograd_cuda_f64
    integer(c_int), intent(in) :: type
    type(c_funptr) :: address

    address = gnograd_cuda_function(library, "gnograd_cuda_"//name// &
      & merge("_f32", "_f64", type == gnograd_cuda_f32)//c_null_char)
  end function find_kernel

  !> The library's number of a kind of reals, by the bits that a number has.
  pure function type_of(bits) result(type)
    integer, intent(in) :: bits
    integer(c_int) :: type

    type = merge(gnograd_cuda_f32, gnograd_cuda_f64, bits == 32)
  end function type_of

  ! ---- errors ----

  !> Meaning of a status.
  function message_of(status) result(text)
    integer(c_int), intent(in) :: status
    integer, parameter :: most = 500
    character(len=most) :: text
    character(kind=c_char), pointer :: characters(:)

    if (status == status_missing) then
      text = "there is no CUDA kernel for it"
      return
    end if
    call c_f_pointer(cuda_error_string(status), characters, [most])
    text = string(characters)
  end function message_of

  !> The error object behind a status.
  subroutine device_error(name, status, error)
    !> Name of the operation
    character(len=*), intent(in) :: name
    integer(c_int), intent(in) :: status
    !> Not allocated where the status is 0
    type(error_type), allocatable, intent(out) :: error

    select case (status)
    case (0)
    case (status_memory)
      call fail(error, code_memory, name//": not enough memory on the device")
    case (status_missing)
      call fail(error, code_unsupported, name//": "//trim(message_of(status)))
    case default
      call fail(error, code_value, name//": CUDA: "//trim(message_of(status)))
    end select
  end subroutine device_error

  !> Characters up to a null byte.
  pure function string(characters) result(text)
    character(kind=c_char), intent(in) :: characters(:)
    character(len=size(characters)) :: text
    integer :: k

    text = ""
    do k = 1, size(characters)
      if (characters(k) == c_null_char) return
      text(k:k) = characters(k)
    end do
  end function string

  ! ---- memory ----

  subroutine take_memory(device, bytes, memory, status)
    type(device_type), intent(in) :: device
    integer(c_size_t), intent(in) :: bytes
    !> Null of no bytes
    type(c_ptr), intent(out) :: memory
    integer(c_int), intent(out) :: status
    integer(c_int) :: before

    memory = c_null_ptr
    status = enter(device, before)
    if (status == 0) status = cuda_allocate(bytes, memory, device%stream)
    call leave(device, before)
  end subroutine take_memory

  !> Free memory once what is on the stream has used it.
  subroutine give_memory(device, memory)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: memory
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_free(memory, device%stream)
    call leave(device, before)
  end subroutine give_memory

  !> Waits, so that the caller may change what it has given, also where that is page-locked memory.
  function copy_to_device(device, from, bytes, to) result(status)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: from, to
    integer(int64), intent(in) :: bytes
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_copy(to, from, int(bytes, c_size_t), device%stream)
    if (status == 0) status = cuda_synchronize(device%stream)
    call leave(device, before)
  end function copy_to_device

  !> Waits for all that is on the stream.
  function copy_to_host(device, from, bytes, to) result(status)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: from, to
    integer(int64), intent(in) :: bytes
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_copy(to, from, int(bytes, c_size_t), device%stream)
    if (status == 0) status = cuda_synchronize(device%stream)
    call leave(device, before)
  end function copy_to_host

  !> Copy without waiting; from the host, where memory is pageable, CUDA has read it before it
  !> returns.
  function copy_on_device(device, from, bytes, to) result(status)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: from, to
    integer(int64), intent(in) :: bytes
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_copy(to, from, int(bytes, c_size_t), device%stream)
    call leave(device, before)
  end function copy_on_device

  !> A copy of host memory that lives until release_on_device.
  subroutine hold_on_device(device, from, bytes, memory, status)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: from
    integer(int64), intent(in) :: bytes
    type(c_ptr), intent(out) :: memory
    integer(c_int), intent(out) :: status
    integer(c_int) :: before

    memory = c_null_ptr
    status = enter(device, before)
    if (status == 0) status = cuda_hold(int(bytes, c_size_t), from, memory)
    call leave(device, before)
  end subroutine hold_on_device

  !> Whatever the current device is: CUDA knows whose it is.
  subroutine release_on_device(memory)
    type(c_ptr), intent(inout) :: memory
    integer(c_int) :: status

    if (c_associated(memory)) status = cuda_release(memory)
    memory = c_null_ptr
  end subroutine release_on_device

  subroutine lend_list(device, list, memory, status)
    type(device_type), intent(in) :: device
    integer(int64), allocatable, intent(in), target :: list(:)
    type(c_ptr), intent(out) :: memory
    !> Status of the calls so far: after a failure nothing is done
    integer(c_int), intent(inout) :: status

    memory = c_null_ptr
    if (.not. allocated(list) .or. status /= 0) return
    call lend_bytes(device, c_loc(list), storage_size(list)/8*size(list, kind=int64), memory, &
      & status)
  end subroutine lend_list

  subroutine lend_numbers(device, list, memory, status)
    type(device_type), intent(in) :: device
    integer, allocatable, intent(in), target :: list(:)
    type(c_ptr), intent(out) :: memory
    integer(c_int), intent(inout) :: status

    memory = c_null_ptr
    if (.not. allocated(list) .or. status /= 0) return
    call lend_bytes(device, c_loc(list), storage_size(list)/8*size(list, kind=int64), memory, &
      & status)
  end subroutine lend_numbers

  subroutine lend_table(device, table, memory, status)
    type(device_type), intent(in) :: device
    integer, allocatable, intent(in), target :: table(:, :, :)
    type(c_ptr), intent(out) :: memory
    integer(c_int), intent(inout) :: status

    memory = c_null_ptr
    if (.not. allocated(table) .or. status /= 0) return
    call lend_bytes(device, c_loc(table), storage_size(table)/8*size(table, kind=int64), memory, &
      & status)
  end subroutine lend_table

  subroutine lend_bytes(device, from, bytes, memory, status)
    type(device_type), intent(in) :: device
    type(c_ptr), intent(in) :: from
    integer(int64), intent(in) :: bytes
    type(c_ptr), intent(out) :: memory
    integer(c_int), intent(out) :: status

    ! an empty array is not an absent one
    call take_memory(device, int(max(bytes, 8_int64), c_size_t), memory, status)
    if (status == 0) status = copy_on_device(device, from, bytes, memory)
  end subroutine lend_bytes

  ! ---- kernels ----

  function fill(device, bits, n, number, x) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: n
    real(dp), intent(in) :: number
    type(c_ptr), intent(in) :: x
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_fill(type_of(bits), n, number, x, device%stream)
    call leave(device, before)
  end function fill

  function unary(device, bits, function, parameter, n, a, c) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(c_int), intent(in) :: function
    real(dp), intent(in) :: parameter
    integer(int64), intent(in) :: n
    type(c_ptr), intent(in) :: a, c
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_unary(type_of(bits), function, parameter, n, a, c, &
      & device%stream)
    call leave(device, before)
  end function unary

  function binary(device, bits, function, a_extents, b_extents, a, b, c) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(c_int), intent(in) :: function
    integer(int64), intent(in), target :: a_extents(n_axes), b_extents(n_axes)
    type(c_ptr), intent(in) :: a, b, c
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_binary(type_of(bits), function, c_loc(a_extents), &
      & c_loc(b_extents), a, b, c, device%stream)
    call leave(device, before)
  end function binary

  function sum_axes(device, bits, x_extents, y_extents, x, y) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in), target :: x_extents(n_axes), y_extents(n_axes)
    type(c_ptr), intent(in) :: x, y
    integer(c_int) :: status, before
    integer(c_size_t) :: bytes
    type(c_ptr) :: workspace

    workspace = c_null_ptr
    status = enter(device, before)
    if (status == 0) then
      bytes = cuda_sum_bytes(type_of(bits), c_loc(x_extents), c_loc(y_extents))
      call take_memory(device, bytes, workspace, status)
    end if
    if (status == 0) status = cuda_sum(type_of(bits), c_loc(x_extents), c_loc(y_extents), x, y, &
      & workspace, bytes, device%stream)
    call give_memory(device, workspace)
    call leave(device, before)
  end function sum_axes

  !> to = from, or to + from, in walks with these steps.
  function assign(device, extents, to_bits, to, to_steps, from_bits, from, from_steps, add) &
      & result(status)
    type(device_type), intent(in) :: device
    integer(int64), intent(in) :: extents(n_axes), to_steps(n_axes), from_steps(n_axes)
    integer, intent(in) :: to_bits, from_bits
    type(c_ptr), intent(in) :: to, from
    logical, intent(in) :: add
    integer(c_int) :: status, before
    integer(c_int64_t), target :: shape(n_axes), to_strides(n_axes), from_strides(n_axes)

    shape = extents(n_axes:1:-1)
    to_strides = to_steps(n_axes:1:-1)
    from_strides = from_steps(n_axes:1:-1)
    status = enter(device, before)
    if (status == 0) status = cuda_assign(int(n_axes, c_int), c_loc(shape), to, type_of(to_bits), &
      & c_loc(to_strides), from, type_of(from_bits), c_loc(from_strides), &
      & merge(1_c_int, 0_c_int, add), device%stream)
    call leave(device, before)
  end function assign

  function softmax(device, bits, inner, length, outer, x, y) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: inner, length, outer
    type(c_ptr), intent(in) :: x, y
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_softmax(type_of(bits), inner, length, outer, x, y, &
      & device%stream)
    call leave(device, before)
  end function softmax

  !> y(:, k) = x(:, index(k))
  function gather_columns(device, bits, width, index, x, y) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: width
    !> Counted from 1
    integer(int64), intent(in) :: index(:)
    type(c_ptr), intent(in) :: x, y
    integer(c_int) :: status, before
    integer(int64), allocatable :: from_zero(:)
    type(c_ptr) :: places

    allocate (from_zero(size(index)), stat=status)
    if (status /= 0) then
      status = status_memory
      return
    end if
    from_zero(:) = index - 1
    status = enter(device, before)
    call lend(device, from_zero, places, status)
    if (status == 0) status = cuda_gather(type_of(bits), width, size(index, kind=int64), places, &
      & x, y, device%stream)
    call give_memory(device, places)
    call leave(device, before)
  end function gather_columns

  !> y(:, c) = sum of the columns k of x with index(k) = c, in their order
  function scatter_columns(device, bits, width, n_columns, index, x, y) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: width, n_columns
    !> Counted from 1
    integer(int64), intent(in) :: index(:)
    type(c_ptr), intent(in) :: x, y
    integer(c_int) :: status, before
    integer(int64), allocatable :: offsets(:), places(:)
    integer(int64) :: k
    type(c_ptr) :: lent(2)

    allocate (offsets(0:n_columns), places(0:size(index) - 1), stat=status)
    if (status /= 0) then
      status = status_memory
      return
    end if
    ! sorted by column, stable: offsets are ends while they are counted, then starts
    offsets(:) = 0
    do k = 1, size(index, kind=int64)
      offsets(index(k) - 1) = offsets(index(k) - 1) + 1
    end do
    do k = 1, n_columns
      offsets(k) = offsets(k) + offsets(k - 1)
    end do
    do k = size(index, kind=int64), 1, -1
      offsets(index(k) - 1) = offsets(index(k) - 1) - 1
      places(offsets(index(k) - 1)) = k - 1
    end do
    status = enter(device, before)
    call lend(device, offsets, lent(1), status)
    call lend(device, places, lent(2), status)
    if (status == 0) status = cuda_scatter(type_of(bits), width, n_columns, lent(1), lent(2), x, &
      & y, device%stream)
    call give_memory(device, lent(1))
    call give_memory(device, lent(2))
    call leave(device, before)
  end function scatter_columns

  !> c = op(a) op(b) [m, n]
  function multiply(device, bits, transpose_a, transpose_b, m, n, depth, a, b, c) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    logical, intent(in) :: transpose_a, transpose_b
    integer(int64), intent(in) :: m, n, depth
    type(c_ptr), intent(in) :: a, b, c
    integer(c_int) :: status, before
    integer(c_size_t) :: bytes
    type(c_ptr) :: workspace

    workspace = c_null_ptr
    status = enter(device, before)
    if (status == 0) then
      bytes = cuda_product_bytes(type_of(bits), m, n, depth)
      call take_memory(device, bytes, workspace, status)
    end if
    if (status == 0) status = cuda_product(type_of(bits), merge(1_c_int, 0_c_int, transpose_a), &
      & merge(1_c_int, 0_c_int, transpose_b), m, n, depth, a, b, c, workspace, bytes, device%stream)
    call give_memory(device, workspace)
    call leave(device, before)
  end function multiply

  function step_adam(device, bits, n, beta1, beta2, eps, decay, rate, root, keep, grad, m, v, x) &
      & result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: n
    real(dp), intent(in) :: beta1, beta2, eps, decay, rate, root, keep
    type(c_ptr), intent(in) :: grad, m, v, x
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_adam(type_of(bits), n, beta1, beta2, eps, decay, rate, root, &
      & keep, grad, m, v, x, device%stream)
    call leave(device, before)
  end function step_adam

  function step_descend(device, bits, n, momentum, rate, grad, m, x) result(status)
    type(device_type), intent(in) :: device
    integer, intent(in) :: bits
    integer(int64), intent(in) :: n
    real(dp), intent(in) :: momentum, rate
    type(c_ptr), intent(in) :: grad, m, x
    integer(c_int) :: status, before

    status = enter(device, before)
    if (status == 0) status = cuda_descend(type_of(bits), n, momentum, rate, grad, m, x, &
      & device%stream)
    call leave(device, before)
  end function step_descend

end module gnograd_device

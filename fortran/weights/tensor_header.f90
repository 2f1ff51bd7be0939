! SPDX-License-Identifier: MIT

!> The header of a safetensors file: JSON that says of each tensor its type, shape and place.
!>
!>     {"__metadata__": {"key": "text"},
!>      "lift.weight": {"dtype": "F32", "shape": [2, 64], "data_offsets": [0, 512]}, ...}
!>
!> Shapes are in C order. The places of all tensors together are the rest of the file, without holes.
!> Nothing of a header is believed: what is wrong with it ends in an error that says what and where.
!> Python's reader and this one refuse and take the same files, but for two tensors of one name and
!> tensors that are no objects, which the format does not allow, and for extents of 2^63 and more.
!>
!> Format: https://github.com/huggingface/safetensors
module gnograd_weights_tensor_header
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, text, code_value
  use gnograd_weights_json, only: reader_type, buffer_type, white_space
  use gnograd_weights_names, only: is_same, is_utf8
  implicit none
  private
  public :: place_type, entry_type, header_type, parse_header, write_header, append_entry
  public :: bits_of_dtype, max_header

  !> Bytes that a header may have, by the format
  integer(int64), parameter :: max_header = 100000000_int64
  !> Types of numbers, and bits of one
  character(len=11), parameter :: dtypes(22) = [character(len=11) :: "F32", "F64", "F16", "BF16", &
    & "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "F8_E4M3", "F8_E5M2", &
    & "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4", "C64"]
  integer, parameter :: bits(22) = [32, 64, 16, 16, 8, 16, 32, 64, 8, 16, 32, 64, 8, 8, 8, 8, 8, 8, &
    & 6, 6, 4, 64]

  !> Entry of the header for one tensor.
  type :: place_type
    character(len=:), allocatable :: name
    character(len=:), allocatable :: dtype
    !> In C order
    integer(int64), allocatable :: shape(:)
    !> Bytes first + 1 to last of what follows the header
    integer(int64) :: first = 0
    integer(int64) :: last = 0
  end type place_type

  !> A line of the metadata.
  type :: entry_type
    character(len=:), allocatable :: key
    character(len=:), allocatable :: value
  end type entry_type

  type :: header_type
    type(place_type), allocatable :: places(:)
    type(entry_type), allocatable :: metadata(:)
  end type header_type

  abstract interface
    !> True if a comes before b.
    pure logical function order_interface(a, b)
      import :: place_type
      type(place_type), intent(in) :: a, b
    end function order_interface
  end interface

contains

  !> Bits of one number; 0: no such type.
  pure function bits_of_dtype(dtype) result(n)
    character(len=*), intent(in) :: dtype
    integer :: n, k

    n = 0
    do k = 1, size(dtypes)
      if (is_same(dtype, trim(dtypes(k)))) n = bits(k)
    end do
  end function bits_of_dtype

  ! ---- reading ----

  !> Parse a header; an error unless all of it holds together.
  subroutine parse_header(json, n_data, header, error)
    character(len=*), intent(in), target :: json
    !> Bytes that follow the header
    integer(int64), intent(in) :: n_data
    type(header_type), intent(out) :: header
    type(error_type), allocatable, intent(out) :: error
    type(reader_type) :: reader
    type(place_type) :: place
    character(len=:), allocatable :: name
    integer :: n
    logical :: has_metadata

    reader%text => json
    allocate (header%places(16), header%metadata(0))
    if (.not. is_utf8(json)) call reader%refuse("is not UTF-8")
    n = 0
    has_metadata = .false.
    call reader%take("{")
    if (.not. reader%is_next("}")) then
      do
        call reader%string(name)
        call reader%take(":")
        if (allocated(reader%error)) exit
        if (is_same(name, "__metadata__")) then
          if (has_metadata) call reader%refuse("has __metadata__ twice")
          has_metadata = .true.
          call parse_metadata(reader, header%metadata)
        else
          call parse_place(reader, name, place)
          if (n == size(header%places)) call enlarge(header%places)
          n = n + 1
          header%places(n) = place
        end if
        if (allocated(reader%error)) exit
        if (.not. reader%is_next(",")) exit
        call reader%take(",")
      end do
    end if
    call reader%take("}")
    if (.not. allocated(reader%error)) then
      if (verify(json(reader%at:), white_space) > 0) call reader%refuse("goes on after its end")
    end if
    if (allocated(reader%error)) then
      call move_alloc(reader%error, error)
      return
    end if
    header%places = header%places(:n)
    call check_places(header%places, n_data, error)
  end subroutine parse_header

  !> Lines of text; of two with one key the last one counts.
  subroutine parse_metadata(reader, metadata)
    type(reader_type), intent(inout) :: reader
    type(entry_type), allocatable, intent(inout) :: metadata(:)
    type(entry_type), allocatable :: lines(:)
    character(len=:), allocatable :: key, value
    integer :: n

    if (reader%is_next("n")) then
      call reader%skip_word("null")
      return
    end if
    allocate (lines(16))
    n = 0
    call reader%take("{")
    if (.not. reader%is_next("}")) then
      do
        call reader%string(key)
        call reader%take(":")
        call reader%string(value)
        if (allocated(reader%error)) return
        if (n == size(lines)) call resize(lines, 2*n)
        n = n + 1
        call move_alloc(key, lines(n)%key)
        call move_alloc(value, lines(n)%value)
        if (.not. reader%is_next(",")) exit
        call reader%take(",")
      end do
    end if
    call reader%take("}")
    if (allocated(reader%error)) return
    call keep_last(lines, n)
    call resize(lines, n)
    call move_alloc(lines, metadata)
  end subroutine parse_metadata

  !> The first n lines without those whose keys come again.
  subroutine keep_last(lines, n)
    type(entry_type), intent(inout) :: lines(:)
    !> Number of lines; on return, of those that stay
    integer, intent(inout) :: n
    type(place_type), allocatable :: keys(:)
    integer, allocatable :: order(:)
    logical, allocatable :: again(:)
    integer :: k, m

    allocate (keys(n), again(n))
    do k = 1, n
      call move_alloc(lines(k)%key, keys(k)%name)
    end do
    call sort(keys, by_name, order)
    again(:) = .false.
    do k = 2, n
      again(order(k - 1)) = is_same(keys(order(k - 1))%name, keys(order(k))%name)
    end do
    m = 0
    do k = 1, n
      if (again(k)) cycle
      m = m + 1
      call move_alloc(keys(k)%name, lines(m)%key)
      if (m < k) call move_alloc(lines(k)%value, lines(m)%value)
    end do
    n = m
  end subroutine keep_last

  !> Room for one more.
  subroutine append_entry(metadata)
    type(entry_type), allocatable, intent(inout) :: metadata(:)

    call resize(metadata, size(metadata) + 1)
  end subroutine append_entry

  !> Room for n lines, which keep what they have. (An array constructor would leak: gfortran 12 keeps
  !> its components.)
  subroutine resize(lines, n)
    type(entry_type), allocatable, intent(inout) :: lines(:)
    integer, intent(in) :: n
    type(entry_type), allocatable :: others(:)
    integer :: k

    allocate (others(n))
    do k = 1, min(n, size(lines))
      call move_alloc(lines(k)%key, others(k)%key)
      call move_alloc(lines(k)%value, others(k)%value)
    end do
    call move_alloc(others, lines)
  end subroutine resize

  subroutine parse_place(reader, name, place)
    type(reader_type), intent(inout) :: reader
    character(len=*), intent(in) :: name
    type(place_type), intent(out) :: place
    integer(int64), allocatable :: offsets(:)
    character(len=:), allocatable :: key
    logical :: again

    place%name = name
    call reader%take("{")
    do
      call reader%string(key)
      call reader%take(":")
      if (allocated(reader%error)) return
      again = .false.
      if (is_same(key, "dtype")) then
        again = allocated(place%dtype)
        call reader%string(place%dtype)
      else if (is_same(key, "shape")) then
        again = allocated(place%shape)
        call reader%numbers(place%shape)
      else if (is_same(key, "data_offsets")) then
        again = allocated(offsets)
        call reader%numbers(offsets)
      else
        ! an entry of a later version of the format, or of somebody else
        call reader%skip(0)
      end if
      if (again) call reader%refuse("says "//key//" of the tensor '"//name//"' twice")
      if (allocated(reader%error)) return
      if (.not. reader%is_next(",")) exit
      call reader%take(",")
    end do
    call reader%take("}")
    if (allocated(reader%error)) return
    if (.not. (allocated(place%dtype) .and. allocated(place%shape) .and. allocated(offsets))) then
      call reader%refuse("does not give dtype, shape and data_offsets of the tensor '"//name//"'")
    else if (size(offsets) /= 2) then
      call reader%refuse("does not give two data_offsets of the tensor '"//name//"'")
    else
      place%first = offsets(1)
      place%last = offsets(2)
    end if
  end subroutine parse_place

  !> Twice the room.
  subroutine enlarge(places)
    type(place_type), allocatable, intent(inout) :: places(:)
    type(place_type), allocatable :: larger(:)
    integer :: k

    allocate (larger(2*size(places)))
    do k = 1, size(places)
      call move_alloc(places(k)%name, larger(k)%name)
      call move_alloc(places(k)%dtype, larger(k)%dtype)
      call move_alloc(places(k)%shape, larger(k)%shape)
      larger(k)%first = places(k)%first
      larger(k)%last = places(k)%last
    end do
    call move_alloc(larger, places)
  end subroutine enlarge

  !> No name twice; of each tensor as many bytes as its shape needs; no byte twice or left over.
  subroutine check_places(places, n_data, error)
    type(place_type), intent(in) :: places(:)
    integer(int64), intent(in) :: n_data
    type(error_type), allocatable, intent(out) :: error
    integer, allocatable :: order(:)
    integer(int64) :: behind
    integer :: k

    call sort(places, by_name, order)
    do k = 2, size(order)
      if (is_same(places(order(k))%name, places(order(k - 1))%name)) then
        call fail(error, code_value, "has the tensor '"//places(order(k))%name//"' twice")
        return
      end if
    end do
    behind = 0
    call sort(places, by_offset, order)
    do k = 1, size(order)
      associate (place => places(order(k)))
        call check_place(place, error)
        if (allocated(error)) return
        if (place%first /= behind) then
          call fail(error, code_value, "places the tensor '"//place%name//"' from byte "// &
            & text(place%first)//" on, needs "//text(behind))
          return
        end if
        behind = place%last
      end associate
    end do
    if (behind /= n_data) call fail(error, code_value, "has tensors of "//text(behind)//" bytes, "// &
      & text(n_data)//" follow the header")
  end subroutine check_places

  !> Check that a tensor has the bytes that its shape needs.
  subroutine check_place(place, error)
    type(place_type), intent(in) :: place
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: n
    integer :: k, width

    width = bits_of_dtype(place%dtype)
    if (width == 0) then
      call fail(error, code_value, "gives the tensor '"//place%name//"' the type '"//place%dtype// &
        & "', which the format does not know")
      return
    end if
    n = 1
    do k = 1, size(place%shape)
      if (place%shape(k) > 0) then
        if (n > huge(n)/place%shape(k)) exit
      end if
      n = n*place%shape(k)
    end do
    if (k <= size(place%shape) .or. n > huge(n)/width) then
      call fail(error, code_value, "gives the tensor '"//place%name//"' more numbers than there are")
      return
    end if
    n = n*width
    if (modulo(n, 8_int64) /= 0) then
      call fail(error, code_value, "gives the tensor '"//place%name//"' "//text(n)// &
        & " bits, which are no whole bytes")
      return
    end if
    n = n/8
    if (place%last - place%first /= n) call fail(error, code_value, "gives the tensor '"// &
      & place%name//"' bytes "//text(place%first)//" to "//text(place%last)//", its shape needs "// &
      & text(n))
  end subroutine check_place

  pure logical function by_name(a, b)
    type(place_type), intent(in) :: a, b

    by_name = llt(a%name, b%name) .or. (a%name == b%name .and. len(a%name) < len(b%name))
  end function by_name

  !> Tensors without numbers stand before the one that begins where they are.
  pure logical function by_offset(a, b)
    type(place_type), intent(in) :: a, b

    by_offset = a%first < b%first .or. (a%first == b%first .and. a%last < b%last)
  end function by_offset

  !> The order in which places are sorted: runs of twice the length, again and again.
  subroutine sort(places, before, order)
    type(place_type), intent(in) :: places(:)
    procedure(order_interface) :: before
    integer, allocatable, intent(out) :: order(:)
    integer, allocatable :: from(:)
    integer :: length, low, middle, high, a, b, k, n

    n = size(places)
    order = [(k, k=1, n)]
    length = 1
    do while (length < n)
      from = order
      do low = 1, n, 2*length
        middle = min(low + length, n + 1)
        high = min(middle + length, n + 1)
        a = low
        b = middle
        do k = low, high - 1
          if (a == middle) then
            order(k) = from(b)
            b = b + 1
          else if (b == high) then
            order(k) = from(a)
            a = a + 1
          else if (before(places(from(b)), places(from(a)))) then
            order(k) = from(b)
            b = b + 1
          else
            order(k) = from(a)
            a = a + 1
          end if
        end do
      end do
      length = 2*length
    end do
  end subroutine sort

  ! ---- writing ----

  !> The header as text, filled up with blanks so that the numbers behind it are aligned.
  subroutine write_header(header, json)
    type(header_type), intent(in) :: header
    character(len=:), allocatable, intent(out) :: json
    type(buffer_type) :: buffer
    integer :: k

    allocate (character(len=1024) :: buffer%text)
    call buffer%add("{")
    if (size(header%metadata) > 0) then
      call buffer%add('"__metadata__":{')
      do k = 1, size(header%metadata)
        if (k > 1) call buffer%add(",")
        call buffer%add_quoted(header%metadata(k)%key)
        call buffer%add(":")
        call buffer%add_quoted(header%metadata(k)%value)
      end do
      call buffer%add("}")
      if (size(header%places) > 0) call buffer%add(",")
    end if
    do k = 1, size(header%places)
      associate (place => header%places(k))
        if (k > 1) call buffer%add(",")
        call buffer%add_quoted(place%name)
        call buffer%add(':{"dtype":')
        call buffer%add_quoted(place%dtype)
        call buffer%add(',"shape":')
        call buffer%add_list(place%shape)
        call buffer%add(',"data_offsets":')
        call buffer%add_list([place%first, place%last])
        call buffer%add("}")
      end associate
    end do
    call buffer%add("}")
    call buffer%add(repeat(" ", modulo(-buffer%length, 8)))
    json = buffer%text(:buffer%length)
  end subroutine write_header

end module gnograd_weights_tensor_header

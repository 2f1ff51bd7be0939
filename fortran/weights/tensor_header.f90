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
  implicit none
  private
  public :: place_type, entry_type, header_type, parse_header, write_header, append_entry
  public :: bits_of_dtype, max_header, is_same, flaw_of_name, flaw_of_text

  !> Bytes that a header may have, by the format
  integer(int64), parameter :: max_header = 100000000_int64
  !> Types of numbers, and bits of one
  character(len=11), parameter :: dtypes(22) = [character(len=11) :: "F32", "F64", "F16", "BF16", &
    & "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "F8_E4M3", "F8_E5M2", &
    & "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4", "C64"]
  integer, parameter :: bits(22) = [32, 64, 16, 16, 8, 16, 32, 64, 8, 16, 32, 64, 8, 8, 8, 8, 8, 8, &
    & 6, 6, 4, 64]
  !> Lists and objects that may be within each other in what the format does not know, as in Python's
  !> reader
  integer, parameter :: max_depth = 125
  character(len=*), parameter :: white_space = " "//achar(9)//achar(10)//achar(13)

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

  !> A text that grows.
  type :: buffer_type
    character(len=:), allocatable :: text
    integer :: length = 0
  contains
    procedure :: add
    procedure :: add_quoted
    procedure :: add_list
  end type buffer_type

  type :: header_type
    type(place_type), allocatable :: places(:)
    type(entry_type), allocatable :: metadata(:)
  end type header_type

  !> A text and how far it is read.
  type :: reader_type
    character(len=:), pointer :: text => null()
    integer :: at = 1
    type(error_type), allocatable :: error
  contains
    procedure :: refuse
    procedure :: next
    procedure :: take
    procedure :: is_next
    procedure :: string
    procedure :: number
    procedure :: numbers
    procedure :: skip
    procedure :: skip_number
    procedure :: skip_word
  end type reader_type

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

  !> Equality of every character: == takes no notice of blanks at the end.
  pure function is_same(a, b)
    character(len=*), intent(in) :: a, b
    logical :: is_same

    is_same = len(a) == len(b)
    if (is_same) is_same = a == b
  end function is_same

  ! ---- names ----

  !> Reason why a tensor cannot have this name, to stand behind it in a message; empty if it can.
  pure function flaw_of_name(name) result(flaw)
    character(len=*), intent(in) :: name
    character(len=64) :: flaw

    if (name == "") then
      flaw = "is no name for an array: it is empty"
    else if (is_same(name, "__metadata__")) then
      flaw = "is no name for an array: in files the texts have it"
    else
      flaw = flaw_of_text(name)
      if (flaw /= "") flaw = "is no name for an array: "//trim(flaw)
    end if
  end function flaw_of_name

  !> Reason why a text would not come back from a file; empty if it does.
  pure function flaw_of_text(string) result(flaw)
    character(len=*), intent(in) :: string
    character(len=64) :: flaw

    flaw = ""
    if (index(string, achar(0)) > 0) then
      flaw = "it has a null character"
    else if (.not. is_utf8(string)) then
      flaw = "it is not UTF-8"
    end if
  end function flaw_of_text

  !> True if all bytes are characters of UTF-8, none of them longer than it must be, and no halves
  !> of pairs.
  pure function is_utf8(string)
    character(len=*), intent(in) :: string
    logical :: is_utf8
    integer :: k, byte, n_more, lowest, highest

    is_utf8 = .false.
    n_more = 0
    lowest = int(z"80")
    highest = int(z"BF")
    do k = 1, len(string)
      byte = ichar(string(k:k))
      if (n_more > 0) then
        if (byte < lowest .or. byte > highest) return
        n_more = n_more - 1
        lowest = int(z"80")
        highest = int(z"BF")
      else if (byte >= int(z"80")) then
        select case (byte)
        case (int(z"C2"):int(z"DF"))
          n_more = 1
        case (int(z"E0"):int(z"EF"))
          n_more = 2
          if (byte == int(z"E0")) lowest = int(z"A0")
          if (byte == int(z"ED")) highest = int(z"9F")
        case (int(z"F0"):int(z"F4"))
          n_more = 3
          if (byte == int(z"F0")) lowest = int(z"90")
          if (byte == int(z"F4")) highest = int(z"8F")
        case default
          return
        end select
      end if
    end do
    is_utf8 = n_more == 0
  end function is_utf8

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

  ! ---- JSON, as much as the format has of it ----

  !> The first thing that is wrong.
  subroutine refuse(self, message)
    class(reader_type), intent(inout) :: self
    character(len=*), intent(in) :: message

    if (.not. allocated(self%error)) call fail(self%error, code_value, message)
  end subroutine refuse

  !> The next character that is not white space; a null character at the end.
  function next(self) result(character)
    class(reader_type), intent(inout) :: self
    character(len=1) :: character
    integer :: blanks

    character = achar(0)
    if (self%at > len(self%text)) return
    blanks = verify(self%text(self%at:), white_space)
    self%at = merge(self%at + blanks - 1, len(self%text) + 1, blanks > 0)
    if (blanks > 0) character = self%text(self%at:self%at)
  end function next

  function is_next(self, character)
    class(reader_type), intent(inout) :: self
    character(len=1), intent(in) :: character
    logical :: is_next

    is_next = .not. allocated(self%error)
    if (is_next) is_next = self%next() == character
  end function is_next

  !> Go past a character, which must be there.
  subroutine take(self, character)
    class(reader_type), intent(inout) :: self
    character(len=1), intent(in) :: character

    if (allocated(self%error)) return
    if (self%next() == character) then
      self%at = self%at + 1
    else
      call self%refuse("is damaged at character "//text(int(self%at, int64))//": needs "//character)
    end if
  end subroutine take

  subroutine string(self, value)
    class(reader_type), intent(inout) :: self
    character(len=:), allocatable, intent(out) :: value
    integer :: first, length

    call self%take('"')
    if (allocated(self%error)) return
    ! count characters up to the closing quote: escapes are longer than what they mean
    first = self%at
    do
      length = scan(self%text(self%at:), '"\')
      if (length == 0) then
        call self%refuse("ends within a string")
        return
      end if
      self%at = self%at + length
      if (self%text(self%at - 1:self%at - 1) == '"') exit
      self%at = self%at + 1
      if (self%at > len(self%text)) then
        call self%refuse("ends within a string")
        return
      end if
    end do
    associate (raw => self%text(first:self%at - 2))
      if (has_control(raw)) then
        call self%refuse("has a string with a control character")
      else if (index(raw, "\") == 0) then
        value = raw
      else
        call unescape(self, raw, value)
      end if
    end associate
  end subroutine string

  pure function has_control(string)
    character(len=*), intent(in) :: string
    logical :: has_control
    integer :: k

    has_control = .false.
    do k = 1, len(string)
      has_control = has_control .or. ichar(string(k:k)) < 32
    end do
  end function has_control

  !> Without backslashes.
  subroutine unescape(reader, raw, value)
    type(reader_type), intent(inout) :: reader
    character(len=*), intent(in) :: raw
    character(len=:), allocatable, intent(out) :: value
    character(len=:), allocatable :: buffer
    integer :: at, n, code, low

    allocate (character(len=len(raw)) :: buffer)
    at = 1
    n = 0
    do while (at <= len(raw))
      if (raw(at:at) /= "\") then
        call put(raw(at:at))
        at = at + 1
        cycle
      end if
      at = at + 2
      select case (raw(at - 1:at - 1))
      case ('"', "\", "/")
        call put(raw(at - 1:at - 1))
      case ("b")
        call put(achar(8))
      case ("f")
        call put(achar(12))
      case ("n")
        call put(achar(10))
      case ("r")
        call put(achar(13))
      case ("t")
        call put(achar(9))
      case ("u")
        code = hexadecimal(raw, at)
        at = at + 4
        if (code >= int(z"D800") .and. code < int(z"DC00")) then
          ! the first half of a pair
          low = -1
          if (len(raw) >= at + 1) then
            if (raw(at:at + 1) == "\u") low = hexadecimal(raw, at + 2)
          end if
          at = at + 6
          code = merge(int(z"10000") + ishft(code - int(z"D800"), 10) + low - int(z"DC00"), -1, &
            & low >= int(z"DC00") .and. low < int(z"E000"))
        else if (code >= int(z"DC00") .and. code < int(z"E000")) then
          code = -1
        end if
        if (code < 0) then
          call reader%refuse("has a string with a character that is none")
          return
        end if
        call put(utf8(code))
      case default
        call reader%refuse("has a string with an escape that is none")
        return
      end select
    end do
    value = buffer(:n)

  contains

    subroutine put(bytes)
      character(len=*), intent(in) :: bytes

      buffer(n + 1:n + len(bytes)) = bytes
      n = n + len(bytes)
    end subroutine put

  end subroutine unescape

  !> Four hexadecimal digits; -1: not that.
  pure function hexadecimal(raw, at) result(code)
    character(len=*), intent(in) :: raw
    integer, intent(in) :: at
    integer :: code, k, digit

    code = -1
    if (at + 3 > len(raw)) return
    code = 0
    do k = at, at + 3
      digit = index("0123456789abcdef0123456789ABCDEF", raw(k:k)) - 1
      if (digit < 0) then
        code = -1
        return
      end if
      code = 16*code + modulo(digit, 16)
    end do
  end function hexadecimal

  pure function utf8(code) result(bytes)
    integer, intent(in) :: code
    character(len=count(code >= [0, int(z"80"), int(z"800"), int(z"10000")])) :: bytes

    if (code < int(z"80")) then
      bytes = char(code)
    else if (code < int(z"800")) then
      bytes = char(int(z"C0") + ishft(code, -6))//tail(code)
    else if (code < int(z"10000")) then
      bytes = char(int(z"E0") + ishft(code, -12))//tail(ishft(code, -6))//tail(code)
    else
      bytes = char(int(z"F0") + ishft(code, -18))//tail(ishft(code, -12))//tail(ishft(code, -6))// &
        & tail(code)
    end if

  contains

    pure function tail(bits) result(byte)
      integer, intent(in) :: bits
      character(len=1) :: byte

      byte = char(int(z"80") + iand(bits, int(z"3F")))
    end function tail

  end function utf8

  !> A whole number from 0 on.
  subroutine number(self, value)
    class(reader_type), intent(inout) :: self
    integer(int64), intent(out) :: value
    integer :: digit, n_digits

    value = 0
    n_digits = 0
    do while (.not. allocated(self%error))
      if (n_digits == 0) then
        digit = index("0123456789", self%next()) - 1
      else if (self%at <= len(self%text)) then
        digit = index("0123456789", self%text(self%at:self%at)) - 1
      else
        digit = -1
      end if
      if (digit < 0) exit
      if (n_digits == 1 .and. value == 0) call self%refuse("has a number that begins with 0")
      if (value > (huge(value) - digit)/10) call self%refuse("has a number that is too large")
      if (.not. allocated(self%error)) value = 10*value + digit
      n_digits = n_digits + 1
      self%at = self%at + 1
    end do
    if (n_digits == 0) call self%refuse("is damaged at character "//text(int(self%at, int64))// &
      & ": needs a whole number")
  end subroutine number

  subroutine numbers(self, values)
    class(reader_type), intent(inout) :: self
    integer(int64), allocatable, intent(out) :: values(:)
    integer(int64), allocatable :: more(:)
    integer(int64) :: value
    integer :: n

    allocate (values(8))
    n = 0
    call self%take("[")
    if (.not. self%is_next("]")) then
      do
        call self%number(value)
        if (allocated(self%error)) return
        if (n == size(values)) then
          allocate (more(2*n))
          more(:n) = values
          call move_alloc(more, values)
        end if
        n = n + 1
        values(n) = value
        if (.not. self%is_next(",")) exit
        call self%take(",")
      end do
    end if
    call self%take("]")
    values = values(:n)
  end subroutine numbers

  !> Any value.
  recursive subroutine skip(self, depth)
    class(reader_type), intent(inout) :: self
    !> Lists and objects that it is in
    integer, intent(in) :: depth
    character(len=:), allocatable :: string
    character(len=1) :: first
    logical :: is_object

    if (allocated(self%error)) return
    first = self%next()
    select case (first)
    case ('"')
      call self%string(string)
    case ("{", "[")
      if (depth == max_depth) then
        call self%refuse("has more than 125 lists or objects within each other")
        return
      end if
      is_object = first == "{"
      call self%take(first)
      first = merge("}", "]", is_object)
      if (.not. self%is_next(first)) then
        do
          if (is_object) then
            call self%string(string)
            call self%take(":")
          end if
          call self%skip(depth + 1)
          if (allocated(self%error)) return
          if (.not. self%is_next(",")) exit
          call self%take(",")
        end do
      end if
      call self%take(first)
    case ("t")
      call self%skip_word("true")
    case ("f")
      call self%skip_word("false")
    case ("n")
      call self%skip_word("null")
    case default
      call self%skip_number()
    end select
  end subroutine skip

  !> One of JSON's words, which is next.
  subroutine skip_word(self, word)
    class(reader_type), intent(inout) :: self
    character(len=*), intent(in) :: word
    integer :: last

    last = self%at + len(word) - 1
    if (last <= len(self%text)) then
      if (self%text(self%at:last) == word) then
        self%at = last + 1
        return
      end if
    end if
    call self%refuse("is damaged at character "//text(int(self%at, int64))//": needs "//word)
  end subroutine skip_word

  !> Any number that a double has room for.
  subroutine skip_number(self)
    class(reader_type), intent(inout) :: self
    character(len=*), parameter :: largest = "17976931348623158"
    character(len=len(largest)) :: leading
    integer :: n_whole, n_leading, k, digit, sign
    integer(int64) :: magnitude, exponent
    logical :: is_damaged

    leading = ""
    n_leading = 0
    magnitude = 0
    if (self%is_next("-")) self%at = self%at + 1
    n_whole = 0
    do while (digit_at(self%at) >= 0)
      digit = digit_at(self%at)
      if (n_leading > 0) magnitude = magnitude + 1
      call keep(digit)
      n_whole = n_whole + 1
      self%at = self%at + 1
    end do
    is_damaged = n_whole == 0
    if (n_whole > 1) is_damaged = self%text(self%at - n_whole:self%at - n_whole) == "0"
    if (character_at(self%at) == ".") then
      self%at = self%at + 1
      k = self%at
      do while (digit_at(self%at) >= 0)
        if (n_leading == 0) magnitude = magnitude - 1
        call keep(digit_at(self%at))
        self%at = self%at + 1
      end do
      is_damaged = is_damaged .or. self%at == k
    end if
    if (scan(character_at(self%at), "eE") == 1) then
      self%at = self%at + 1
      sign = merge(-1, 1, character_at(self%at) == "-")
      if (scan(character_at(self%at), "+-") == 1) self%at = self%at + 1
      k = self%at
      exponent = 0
      do while (digit_at(self%at) >= 0)
        exponent = min(10*exponent + digit_at(self%at), 10_int64**12)
        self%at = self%at + 1
      end do
      is_damaged = is_damaged .or. self%at == k
      magnitude = magnitude + sign*exponent
    end if
    if (is_damaged) then
      call self%refuse("is damaged at character "//text(int(self%at, int64))//": needs a value")
    else if (n_leading > 0 .and. (magnitude > 308 .or. (magnitude == 308 .and. &
      & lge(leading, largest)))) then
      call self%refuse("has a number that is too large")
    end if

  contains

    pure function character_at(at) result(character)
      integer, intent(in) :: at
      character(len=1) :: character

      character = achar(0)
      if (at <= len(self%text)) character = self%text(at:at)
    end function character_at

    pure function digit_at(at) result(digit)
      integer, intent(in) :: at
      integer :: digit

      digit = index("0123456789", character_at(at)) - 1
    end function digit_at

    !> The first digits that count.
    subroutine keep(digit)
      integer, intent(in) :: digit

      if (n_leading == 0 .and. digit == 0) return
      n_leading = n_leading + 1
      if (n_leading <= len(leading)) leading(n_leading:n_leading) = achar(iachar("0") + digit)
    end subroutine keep

  end subroutine skip_number

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

  subroutine add(self, string)
    class(buffer_type), intent(inout) :: self
    character(len=*), intent(in) :: string
    character(len=:), allocatable :: more

    if (self%length + len(string) > len(self%text)) then
      allocate (character(len=2*(self%length + len(string))) :: more)
      more(:self%length) = self%text(:self%length)
      call move_alloc(more, self%text)
    end if
    self%text(self%length + 1:self%length + len(string)) = string
    self%length = self%length + len(string)
  end subroutine add

  !> A string as JSON has it.
  subroutine add_quoted(self, string)
    class(buffer_type), intent(inout) :: self
    character(len=*), intent(in) :: string
    character(len=4) :: code
    integer :: k

    call self%add('"')
    do k = 1, len(string)
      select case (string(k:k))
      case ('"', "\")
        call self%add("\"//string(k:k))
      case (:achar(31))
        write (code, "(z4.4)") iachar(string(k:k))
        call self%add("\u"//code)
      case default
        call self%add(string(k:k))
      end select
    end do
    call self%add('"')
  end subroutine add_quoted

  subroutine add_list(self, values)
    class(buffer_type), intent(inout) :: self
    integer(int64), intent(in) :: values(:)
    integer :: k

    call self%add("[")
    do k = 1, size(values)
      if (k > 1) call self%add(",")
      call self%add(text(values(k)))
    end do
    call self%add("]")
  end subroutine add_list

end module gnograd_weights_tensor_header

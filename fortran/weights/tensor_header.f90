! SPDX-License-Identifier: MIT

!> The header of a safetensors file: JSON that says of each tensor its type, shape and place.
!>
!>     {"__metadata__": {"key": "text"},
!>      "lift.weight": {"dtype": "F32", "shape": [2, 64], "data_offsets": [0, 512]}, ...}
!>
!> Shapes are in C order. The places of all tensors together are the rest of the file, without holes.
!> Nothing of a header is believed: what is wrong with it ends in an error that says what and where.
!>
!> Format: https://github.com/huggingface/safetensors
module gnograd_weights_tensor_header
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, text, code_value
  implicit none
  private
  public :: place_type, entry_type, header_type, parse_header, header_text, append_entry
  public :: bytes_of_dtype, max_header

  !> Bytes that a header may have, by the format
  integer(int64), parameter :: max_header = 100000000_int64
  !> What a tensor's numbers can be, and bytes of one
  character(len=7), parameter :: dtypes(15) = [character(len=7) :: "F32", "F64", "F16", "BF16", &
    & "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "F8_E4M3", "F8_E5M2"]
  integer, parameter :: widths(15) = [4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 1]
  !> Axes that a tensor can have here
  integer, parameter :: max_axes = 32

  !> What the header says of a tensor.
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
  end type reader_type

  abstract interface
    !> Does a come before b?
    pure logical function order_interface(a, b)
      import :: place_type
      type(place_type), intent(in) :: a, b
    end function order_interface
  end interface

contains

  !> Bytes of one number; 0: no such type.
  pure function bytes_of_dtype(dtype) result(n)
    character(len=*), intent(in) :: dtype
    integer :: n, k

    n = 0
    do k = 1, size(dtypes)
      if (dtype == dtypes(k)) n = widths(k)
    end do
  end function bytes_of_dtype

  ! ---- reading ----

  !> What a header says, if all of it holds together.
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
    n = 0
    has_metadata = .false.
    call reader%take("{")
    if (.not. reader%is_next("}")) then
      do
        call reader%string(name)
        call reader%take(":")
        if (allocated(reader%error)) exit
        if (name == "__metadata__") then
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
      if (verify(json(reader%at:), " ") > 0) call reader%refuse("goes on after its end")
    end if
    if (allocated(reader%error)) then
      call move_alloc(reader%error, error)
      return
    end if
    header%places = header%places(:n)
    call check_places(header%places, n_data, error)
  end subroutine parse_header

  subroutine parse_metadata(reader, metadata)
    type(reader_type), intent(inout) :: reader
    type(entry_type), allocatable, intent(inout) :: metadata(:)
    type(entry_type) :: entry
    integer :: n

    call reader%take("{")
    if (.not. reader%is_next("}")) then
      do
        call reader%string(entry%key)
        call reader%take(":")
        call reader%string(entry%value)
        if (allocated(reader%error)) return
        call append_entry(metadata)
        n = size(metadata)
        call move_alloc(entry%key, metadata(n)%key)
        call move_alloc(entry%value, metadata(n)%value)
        if (.not. reader%is_next(",")) exit
        call reader%take(",")
      end do
    end if
    call reader%take("}")
  end subroutine parse_metadata

  !> Room for one more. (An array constructor would leak: gfortran 12 keeps its components.)
  subroutine append_entry(metadata)
    type(entry_type), allocatable, intent(inout) :: metadata(:)
    type(entry_type), allocatable :: more(:)
    integer :: k

    allocate (more(size(metadata) + 1))
    do k = 1, size(metadata)
      call move_alloc(metadata(k)%key, more(k)%key)
      call move_alloc(metadata(k)%value, more(k)%value)
    end do
    call move_alloc(more, metadata)
  end subroutine append_entry

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
      select case (key)
      case ("dtype")
        again = allocated(place%dtype)
        call reader%string(place%dtype)
      case ("shape")
        again = allocated(place%shape)
        call reader%numbers(place%shape)
      case ("data_offsets")
        again = allocated(offsets)
        call reader%numbers(offsets)
      case default
        again = .false.
        call reader%refuse("says '"//key//"' of the tensor '"//name//"', which the format does not know")
      end select
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
      if (places(order(k))%name == places(order(k - 1))%name .and. &
        & len(places(order(k))%name) == len(places(order(k - 1))%name)) then
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

  !> Has a tensor the bytes that its shape needs?
  subroutine check_place(place, error)
    type(place_type), intent(in) :: place
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: n
    integer :: k, width

    width = bytes_of_dtype(place%dtype)
    if (width == 0) then
      call fail(error, code_value, "gives the tensor '"//place%name//"' the type '"//place%dtype// &
        & "', which the format does not know")
      return
    end if
    n = width
    do k = 1, size(place%shape)
      if (place%shape(k) > 0) then
        if (n > huge(n)/place%shape(k)) then
          call fail(error, code_value, "gives the tensor '"//place%name//"' more numbers than there are")
          return
        end if
      end if
      n = n*place%shape(k)
    end do
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
    blanks = verify(self%text(self%at:), " "//achar(9)//achar(10)//achar(13))
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
    ! as many characters as until the quote that ends it: escapes are longer than what they mean
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
      if (index(raw, "\") == 0) then
        value = raw
      else
        call unescape(self, raw, value)
      end if
    end associate
  end subroutine string

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
    character(len=:), allocatable :: bytes

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
    integer(int64) :: value

    allocate (values(0))
    call self%take("[")
    if (.not. self%is_next("]")) then
      do
        call self%number(value)
        if (size(values) == max_axes) call self%refuse("has a tensor of more than 32 axes")
        if (allocated(self%error)) return
        values = [values, value]
        if (.not. self%is_next(",")) exit
        call self%take(",")
      end do
    end if
    call self%take("]")
  end subroutine numbers

  ! ---- writing ----

  !> The header as text, filled up with blanks so that the numbers behind it are aligned.
  function header_text(header) result(json)
    type(header_type), intent(in) :: header
    character(len=:), allocatable :: json
    integer :: k

    json = "{"
    if (size(header%metadata) > 0) then
      json = json//'"__metadata__":{'
      do k = 1, size(header%metadata)
        if (k > 1) json = json//","
        json = json//quoted(header%metadata(k)%key)//":"//quoted(header%metadata(k)%value)
      end do
      json = json//"}"
      if (size(header%places) > 0) json = json//","
    end if
    do k = 1, size(header%places)
      associate (place => header%places(k))
        if (k > 1) json = json//","
        json = json//quoted(place%name)//':{"dtype":'//quoted(place%dtype)//',"shape":'// &
          & list(place%shape)//',"data_offsets":'//list([place%first, place%last])//"}"
      end associate
    end do
    json = json//"}"
    json = json//repeat(" ", modulo(-len(json), 8))
  end function header_text

  pure function list(values) result(json)
    integer(int64), intent(in) :: values(:)
    character(len=:), allocatable :: json
    integer :: k

    json = "["
    do k = 1, size(values)
      if (k > 1) json = json//","
      json = json//text(values(k))
    end do
    json = json//"]"
  end function list

  pure function quoted(string) result(json)
    character(len=*), intent(in) :: string
    character(len=:), allocatable :: json
    character(len=4) :: code
    integer :: k

    json = '"'
    do k = 1, len(string)
      select case (string(k:k))
      case ('"', "\")
        json = json//"\"//string(k:k)
      case (:achar(31))
        write (code, "(z4.4)") iachar(string(k:k))
        json = json//"\u"//code
      case default
        json = json//string(k:k)
      end select
    end do
    json = json//'"'
  end function quoted

end module gnograd_weights_tensor_header

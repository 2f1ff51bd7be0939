! SPDX-License-Identifier: MIT

!> JSON, as much as the header of a safetensors file has of it: a reader that goes through a text
!> and stops at the first thing that is wrong, and a text that grows. Half of it is escapes and
!> numbers, which it takes exactly as Python's reader does.
module gnograd_weights_json
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, text, code_value
  implicit none
  private
  public :: reader_type, buffer_type, white_space

  !> Lists and objects that may be within each other in what the format does not know, as in Python's
  !> reader
  integer, parameter :: max_depth = 125
  character(len=*), parameter :: white_space = " "//achar(9)//achar(10)//achar(13)

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

  !> A text that grows.
  type :: buffer_type
    character(len=:), allocatable :: text
    integer :: length = 0
  contains
    procedure :: add
    procedure :: add_quoted
    procedure :: add_list
  end type buffer_type

contains

  ! ---- reading ----

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

  !> Put a string at the end.
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

  !> Put a list of numbers at the end.
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

end module gnograd_weights_json

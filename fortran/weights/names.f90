! SPDX-License-Identifier: MIT

!> Names and texts that a safetensors file can have, and those that would not come back from one.
module gnograd_weights_names
  implicit none
  private
  public :: is_same, flaw_of_name, flaw_of_text, is_utf8

contains

  !> Equality of every character: == takes no notice of blanks at the end.
  pure function is_same(a, b)
    character(len=*), intent(in) :: a, b
    logical :: is_same

    is_same = len(a) == len(b)
    if (is_same) is_same = a == b
  end function is_same

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

end module gnograd_weights_names

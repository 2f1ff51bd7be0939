! SPDX-License-Identifier: MIT

!> Arrays by name, their files, damaged files, and the leaves of a tape.
module test_weights
  use gnograd
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: weights_tests

  character(len=*), parameter :: filename = "gnograd_test.safetensors"

contains

  function weights_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("arrays come back bit for bit", test_bits), &
      & test_type("names, replaced arrays, texts", test_names), &
      & test_type("names that no array can have", test_names_refused), &
      & test_type("names in variables of fixed length", test_blanks), &
      & test_type("what Python writes", test_foreign), &
      & test_type("types that do not fit", test_types), &
      & test_type("damaged files", test_damaged), &
      & test_type("a file appears whole", test_whole), &
      & test_type("the leaves of a tape", test_tape), &
      & test_type("leaves that do not fit", test_tape_refused)]
  end function weights_tests

  subroutine test_bits(error)
    type(error_type), allocatable, intent(out) :: error
    type(weights_type) :: weights, found
    real(sp) :: number
    real(sp), allocatable :: vector(:)
    real(dp), allocatable :: cube(:, :, :), box(:, :, :, :)
    integer(int32), allocatable :: pairs(:, :)
    integer(int64) :: large

    call weights%set("empty", reshape([real(sp) ::], [0]), error)
    if (.not. allocated(error)) call weights%set("number", 1.0_sp/3, error)
    if (.not. allocated(error)) call weights%set("a.cube", drawn([2, 3, 4]), error)
    if (.not. allocated(error)) &
      & call weights%set("box", reshape(drawn([2, 3, 4]), [1, 4, 3, 2]), error)
    if (.not. allocated(error)) call weights%set("pairs", reshape([1, -2, 3, 4], [2, 2]), error)
    if (.not. allocated(error)) call weights%set("large", -huge(1_int64), error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    if (.not. allocated(error)) call load_weights(filename, found, error)
    if (allocated(error)) return
    call check(error, found%count() == 6, "count")
    call check(error, all(found%shape("a.cube") == [2, 3, 4]), "shape")
    call check(error, found%dtype("a.cube") == "F64" .and. found%dtype("none") == "", "dtype")
    if (allocated(error)) return
    call found%get("number", number, error)
    if (.not. allocated(error)) call found%get("empty", vector, error)
    if (.not. allocated(error)) call found%get("a.cube", cube, error)
    if (.not. allocated(error)) call found%get("box", box, error)
    if (.not. allocated(error)) call found%get("pairs", pairs, error)
    if (.not. allocated(error)) call found%get("large", large, error)
    if (allocated(error)) return
    call check(error, number == 1.0_sp/3 .and. size(vector) == 0, "number, nothing")
    call check(error, all(cube == drawn([2, 3, 4])), "cube")
    call check(error, all(box == reshape(drawn([2, 3, 4]), [1, 4, 3, 2])), "box")
    call check(error, all(pairs == reshape([1, -2, 3, 4], [2, 2])), "pairs")
    call check(error, large == -huge(1_int64), "large")
    call remove()
  end subroutine test_bits

  subroutine test_names(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(weights_type) :: weights, found
    character(len=*), parameter :: odd = 'tab'//achar(9)//' quote " backslash \ é'
    real(dp), allocatable :: values(:)

    call weights%set(odd, [1.0_dp], error)
    if (.not. allocated(error)) call weights%set("x", [1.0_dp, 2.0_dp], error)
    if (.not. allocated(error)) call weights%set("x ", [3.0_dp], error)
    if (.not. allocated(error)) call weights%set("x", [4.0_dp, 5.0_dp, 6.0_dp], error)
    if (allocated(error)) return
    call weights%set_text("trained on", odd)
    call weights%set_text("steps", "10")
    call weights%set_text("steps", "20")
    call save_weights(filename, weights, error)
    if (.not. allocated(error)) call load_weights(filename, found, error)
    if (allocated(error)) return
    call check(error, found%count() == 3 .and. found%name(1) == odd .and. found%name(4) == "", &
      & "names")
    call check(error, found%get_text("trained on") == odd .and. found%get_text("steps") == "20" &
      & .and. found%get_text("other") == "", "texts")
    if (.not. allocated(error)) call found%get("x", values, error)
    if (allocated(error)) return
    call check(error, size(values) == 3, "replaced")
    call found%get("y", values, refused)
    call check_refused(error, refused, "weights%get: there is no array 'y'")
    call check(error, .not. allocated(values), "nothing old stays")
    call check(error, found%get_text("steps ") == "", "a key with a blank is another one")
    call remove()
  end subroutine test_names

  !> In an array of weights, as a leaf of a tape, and as a text.
  subroutine test_names_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(weights_type) :: weights
    type(tape_type) :: tape
    type(array_type) :: x

    call refuse("__metadata__", "in files the texts have it")
    call refuse("a"//achar(0)//"b", "it has a null character")
    call refuse("a"//char(255), "it is not UTF-8")
    call refuse("a"//char(195), "it is not UTF-8")
    call refuse(char(192)//char(128), "it is not UTF-8")
    call refuse(char(237)//char(160)//char(128), "it is not UTF-8")
    call weights%set(" ", 1.0_dp, refused)
    call check_refused(error, refused, "weights%set: ' ' is no name for an array: it is empty")
    call weights%set("__metadata__ ", 1.0_dp, refused)
    call check(error, .not. allocated(refused), "another name")
    call weights%set_text("key", "a"//char(255))
    call save_weights(filename, weights, refused)
    call check_refused(error, refused, &
      & "save_weights: the text 'key' cannot be written: it is not UTF-8")
    call weights%set_text("key", "good")
    call save_weights("a"//achar(0), weights, refused)
    call check_refused(error, refused, "save_weights: a"//achar(0)// &
      & " cannot be written: its name has a null character")
    call save_weights("  ", weights, refused)
    call check_refused(error, refused, "save_weights:  cannot be written: its name is empty")
    call save_weights(".", weights, refused)
    call check_refused(error, refused, &
      & "save_weights: . cannot be written: it is a folder, a pipe or a device")
    call load_weights("/dev/null", weights, refused)
    call check_refused(error, refused, &
      & "load_weights: /dev/null cannot be read: it is a folder, a pipe or a device")

  contains

    subroutine refuse(name, why)
      character(len=*), intent(in) :: name, why

      call weights%set(name, 1.0_dp, refused)
      call check_refused(error, refused, &
        & "weights%set: '"//name//"' is no name for an array: "//why)
      call tape%init(refused)
      x = tape%parameter([1.0_dp], name)
      call tape%check(refused)
      call check_refused(error, refused, "tape: '"//name//"' is no name for an array: "//why)
      call check(error, .not. x%alive(), "an array all the same")
    end subroutine refuse

  end subroutine test_names_refused

  subroutine test_blanks(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=60) :: fixed
    character(len=20) :: name
    type(tape_type) :: tape
    type(array_type) :: u
    type(dense_type) :: layer
    type(initializer_type) :: initial
    type(weights_type) :: found
    logical :: there

    fixed = filename
    name = "lift"
    call tape%init(error)
    if (allocated(error)) return
    u = tape%parameter([1.0_dp, 2.0_dp], name)
    initial = initializer_type(seed=1)
    call layer%init(tape, initial, name, 2, 3)
    call check(error, len(u%name()) == 4 .and. layer%weight%name() == "lift.weight", "names")
    if (.not. allocated(error)) call tape%save(fixed, error)
    if (.not. allocated(error)) call tape%load(fixed, error)
    if (.not. allocated(error)) call load_weights(fixed, found, error)
    if (.not. allocated(error)) call save_weights(fixed, found, error)
    if (allocated(error)) return
    inquire (file=filename, exist=there)
    call check(error, there .and. found%has("lift") .and. found%has("lift.weight"), "the file")
    call remove()
  end subroutine test_blanks

  !> Another order of keys, white space, escapes, 16-bit numbers.
  subroutine test_foreign(error)
    type(error_type), allocatable, intent(out) :: error
    type(weights_type) :: weights
    real(sp), allocatable :: values(:)
    real(dp), allocatable :: wide(:)
    character(len=*), parameter :: header = ' { "b\u00e9\ud83d\ude00" : {"data_offsets":[0 , 8], '// &
      & '"shape":[4],"dtype":"BF16"},'//achar(10)// &
      & '"h": {"shape": [6], "dtype": "F16", "data_offsets": [8, 20]}, "__metadata__": {} } '

    ! 1, -2.5, inf, 0; 1, -2.5, inf, the least, -0, 65504
    call write_file(header, [int(z"3F80"), int(z"C020"), int(z"7F80"), 0, int(z"3C00"), &
      & int(z"C100"), int(z"7C00"), 1, int(z"8000"), int(z"7BFF")])
    call load_weights(filename, weights, error)
    if (.not. allocated(error)) call weights%get("bé"//char(240)//char(159)//char(152)//char(128), &
      & values, error)
    if (.not. allocated(error)) call weights%get("h", wide, error)
    if (allocated(error)) return
    call check(error, all(values([1, 2, 4]) == [1.0_sp, -2.5_sp, 0.0_sp]) .and. &
      & values(3) > huge(1.0_sp), "bfloat16")
    call check(error, all(wide([1, 2, 4, 5, 6]) == [1.0_dp, -2.5_dp, 2.0_dp**(-24), 0.0_dp, &
      & 65504.0_dp]) .and. wide(3) > huge(1.0_dp), "float16")
    call check(error, sign(1.0_dp, wide(5)) < 0, "minus zero")
    call remove()
  end subroutine test_foreign

  subroutine test_types(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(weights_type) :: weights
    real(sp), allocatable :: narrow(:)
    real(dp), allocatable :: wide(:), matrix(:, :)
    integer(int64), allocatable :: numbers(:)

    call weights%set("x", [1.5_dp], error)
    if (.not. allocated(error)) call weights%set("y", [2.5_sp, 1.0_sp], error)
    if (.not. allocated(error)) call weights%get("y", wide, error)
    if (allocated(error)) return
    call check(error, all(wide == [2.5_dp, 1.0_dp]), "wider")
    if (.not. allocated(error)) call weights%set("n", [-3, 7], error)
    if (.not. allocated(error)) call weights%get("n", numbers, error)
    if (allocated(error)) return
    call check(error, all(numbers == [-3, 7]), "wider integers")
    call weights%get("x", narrow, refused)
    call check_refused(error, refused, "weights%get: 'x' is F64, the argument F32")
    call weights%get("x", numbers, refused)
    call check_refused(error, refused, "weights%get: 'x' is F64, the argument I64")
    call weights%get("x", matrix, refused)
    call check_refused(error, refused, "weights%get: 'x' has 1 axes, the argument 2")
  end subroutine test_types

  !> Every one is refused with a message that says what is wrong.
  subroutine test_damaged(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=*), parameter :: x = '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    integer, parameter :: two(4) = 0

    call refuse("", [integer ::], "is no safetensors file: it has 8 bytes", .false.)
    call refuse(x//"}", two(:3), "has tensors of 8 bytes, 6 follow the header")
    call refuse(x//"}", [two, 0], "has tensors of 8 bytes, 10 follow the header")
    call refuse(x, two, "is damaged at character 54: needs }")
    call refuse(x//"} x", two, "goes on after its end")
    call refuse(x//',"x":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}', two, &
      & "has the tensor 'x' twice")
    call refuse(x//',"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', two, &
      & "places the tensor 'y' from byte 4 on, needs 8")
    call refuse(x//',"y":{"dtype":"F32","shape":[1],"data_offsets":[10,14]}}', [two, 0, 0, 0], &
      & "places the tensor 'y' from byte 10 on, needs 8")
    call refuse('{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}', two, &
      & "gives the tensor 'x' bytes 0 to 8, its shape needs 12")
    call refuse('{"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', two, &
      & "gives the tensor 'x' bytes 8 to 0, its shape needs 8")
    call refuse('{"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}', two, &
      & "gives the tensor 'x' the type 'F31', which the format does not know")
    call refuse('{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}', two, &
      & "gives the tensor 'x' more numbers than there are")
    call refuse('{"x":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}}', two, &
      & "has a number that is too large")
    call refuse('{"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', two, &
      & "is damaged at character 30: needs a whole number")
    call refuse('{"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', two, &
      & "is damaged at character 31: needs ]")
    call refuse('{"x":{"dtype":"F32","shape":[2]}}', two, &
      & "does not give dtype, shape and data_offsets of the tensor 'x'")
    call refuse('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}}', two, &
      & "does not give two data_offsets of the tensor 'x'")
    call refuse('{"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', two, &
      & "says dtype of the tensor 'x' twice")
    call refuse('{"x":{"code":"F32"}}', two, &
      & "does not give dtype, shape and data_offsets of the tensor 'x'")
    call refuse('{"x":{"dtype":"F32 ","shape":[2],"data_offsets":[0,8]}}', two, &
      & "gives the tensor 'x' the type 'F32 ', which the format does not know")
    call refuse('{"x":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}', two, &
      & "has a number that begins with 0")
    call refuse('{"x":{"dtype":"F4","shape":[17],"data_offsets":[0,8]}}', two, &
      & "gives the tensor 'x' 68 bits, which are no whole bytes")
    call refuse('{"x":{"dtype":"F32","more":'//repeat("[", 126), two, &
      & "has more than 125 lists or objects within each other")
    call refuse('{"x":{"dtype":"F32","more":1e999}}', two, "has a number that is too large")
    call refuse('{"x'//achar(9)//'":{}}', two, "has a string with a control character")
    call refuse('{"x'//char(255)//'":{}}', two, "is not UTF-8")
    call refuse('{"x', two, "ends within a string")
    call refuse('{"x\', two, "ends within a string")
    call refuse('{"\ud800":{}}', two, "has a string with a character that is none")
    call refuse('{"\x":{}}', two, "has a string with an escape that is none")
    call refuse(repeat("[", 100000), two, "is damaged at character 1: needs {")
    call remove()

  contains

    subroutine refuse(header, numbers, message, of_header)
      character(len=*), intent(in) :: header, message
      integer, intent(in) :: numbers(:)
      logical, intent(in), optional :: of_header
      type(error_type), allocatable :: refused
      type(weights_type) :: weights

      call write_file(header, numbers)
      call load_weights(filename, weights, refused)
      if (present(of_header)) then
        call check_refused(error, refused, "load_weights: "//filename//" "//message)
      else
        call check_refused(error, refused, "load_weights: the header of "//filename//" "//message)
      end if
      call check(error, weights%count() == 0, "an error leaves nothing")
    end subroutine refuse

  end subroutine test_damaged

  subroutine test_whole(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(weights_type) :: weights

    call weights%set("x", 1.0_dp, error)
    if (allocated(error)) return
    call save_weights("no_such_folder/"//filename, weights, refused)
    call check(error, allocated(refused), "no folder")
    if (allocated(refused)) call check(error, index(refused%message, "no_such_folder/"//filename// &
      & " cannot be written: ") > 0, refused%message)
    call load_weights("no_such_file", weights, refused)
    call check(error, allocated(refused), "no file")
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    call remove()
  end subroutine test_whole

  !> A tape goes on where another one was saved.
  subroutine test_tape(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape, other
    type(array_type) :: u, mean, x, y
    real(sp), allocatable :: values(:, :)
    real(sp) :: number

    call tape%init(error)
    if (allocated(error)) return
    u = tape%parameter(reshape([1.0_sp, 2.0_sp, 3.0_sp, 4.0_sp, 5.0_sp, 6.0_sp], [2, 3]), "layer.u")
    mean = tape%constant(0.5_sp, name="mean")
    x = u*u + tape%constant(1.0_sp)
    call check(error, u%name() == "layer.u" .and. x%name() == "", "name")
    if (.not. allocated(error)) call tape%save(filename, error)
    if (.not. allocated(error)) call other%init(error)
    if (allocated(error)) return
    y = other%parameter(reshape(spread(0.0_sp, 1, 6), [2, 3]), "layer.u")
    mean = other%constant(0.0_sp, "mean")
    call other%load(filename, error)
    if (allocated(error)) return
    call y%val(values)
    call mean%val(number)
    call check(error, all(values == reshape([1, 2, 3, 4, 5, 6], [2, 3])) .and. number == 0.5_sp, &
      & "values")
    call remove()
  end subroutine test_tape

  subroutine test_tape_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(array_type) :: u, v
    type(weights_type) :: weights
    real(dp), allocatable :: values(:)
    integer :: mark

    call tape%init(error)
    if (allocated(error)) return
    mark = tape%mark()
    u = tape%parameter([1.0_dp, 2.0_dp])
    call tape%save(filename, refused)
    call check_refused(error, refused, &
      & "save: a parameter (2) has no name: tape%parameter(values, name)")
    call tape%rewind(mark)
    u = tape%parameter([1.0_dp, 2.0_dp], "u")
    v = tape%parameter(3.0_dp, "u")
    call tape%save(filename, refused)
    call check_refused(error, refused, "save: two arrays have the name 'u'")
    call tape%rewind(mark)
    u = tape%parameter([1.0_dp, 2.0_dp], "u")
    v = tape%parameter([3.0_sp], "v")

    call weights%set("u", [7.0_dp, 8.0_dp], error)
    if (.not. allocated(error)) call weights%set("v", [9.0_dp], error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    if (allocated(error)) return
    call tape%load(filename, refused)
    call check_refused(error, refused, &
      & "load: 'v' is F64 in "//filename//", which the array on the tape cannot hold")
    call weights%set("v", reshape([9.0_sp], [1, 1]), error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    if (allocated(error)) return
    call tape%load(filename, refused)
    call check_refused(error, refused, &
      & "load: 'v' is (1) on the tape, and of another shape in "//filename)
    call weights%set("v", [9.0_sp], error)
    if (.not. allocated(error)) call weights%set("w", 1.0_sp, error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    if (allocated(error)) return
    call tape%load(filename, refused)
    call check_refused(error, refused, "load: "//filename//" has 'w', and the tape has not")
    call u%val(values)
    call check(error, all(values == [1, 2]), "an error changes nothing")
    if (.not. allocated(error)) call tape%load(filename, error, strict=.false.)
    if (allocated(error)) return
    call u%val(values)
    call check(error, all(values == [7, 8]), "not strict")
    v = tape%parameter(0.0_dp, "new")
    call tape%load(filename, refused)
    call check_refused(error, refused, "load: "//filename//" has no 'new'")
    call remove()
  end subroutine test_tape_refused

  ! ---- tools ----

  function drawn(n) result(numbers)
    integer, intent(in) :: n(3)
    real(dp) :: numbers(n(1), n(2), n(3))
    integer :: k

    numbers = reshape([(sqrt(real(k, dp)), k=1, product(n))], n)
  end function drawn

  !> A file with this header and these 16-bit numbers.
  subroutine write_file(header, numbers)
    character(len=*), intent(in) :: header
    integer, intent(in) :: numbers(:)
    integer :: unit, k

    open (newunit=unit, file=filename, access="stream", form="unformatted", status="replace")
    write (unit) len(header, kind=int64), header
    do k = 1, size(numbers)
      write (unit) char(iand(numbers(k), 255)), char(ishft(numbers(k), -8))
    end do
    close (unit)
  end subroutine write_file

  subroutine remove()
    integer :: unit

    open (newunit=unit, file=filename, status="old")
    close (unit, status="delete")
  end subroutine remove

end module test_weights

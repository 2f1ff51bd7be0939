! SPDX-License-Identifier: MIT

!> Tapes on a device beside tapes on the CPU. The program runs on the kernels' build for the host,
!> where nobody but kernels and copies can touch device memory (SIMT_GUARD), or on a GPU. One file,
!> since its tests share the comparison of both and the operations of the program.
module device_tests
  use, intrinsic :: iso_c_binding, only: c_int
  use gnograd
  use gnograd_device, only: device_type, enter, leave
  use testing, only: test_type, check, check_refused, resident
  implicit none
  private
  public :: device_suite

  !> A loss of two matrices of a graph's features
  abstract interface
    function loss_interface(tape, graph, w, x) result(loss)
      import :: tape_type, graph_type, array_type
      type(tape_type), intent(in) :: tape
      type(graph_type), intent(in) :: graph
      type(array_type), intent(in) :: w, x
      type(array_type) :: loss
    end function loss_interface
  end interface

  !> A map that a program brings itself
  type, extends(linear_map_type) :: twice_type
  contains
    procedure :: apply_r32 => twice_r32
    procedure :: apply_r64 => twice_r64
  end type twice_type

  !> An operation of the program, which fails if told so
  type, extends(custom_operation_type) :: square_type
    logical :: fails = .false.
  contains
    procedure :: forward_r32 => square_r32
    procedure :: forward_r64 => square_r64
    procedure :: pullback => square_pullback
  end type square_type

contains

  function device_suite() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [test_type("elementwise", elementwise), test_type("sums and shapes", sums), &
      & test_type("products", products), test_type("operators", operators), &
      & test_type("procedures of the program", procedures), test_type("two GPUs", two_devices), &
      & test_type("training", training), test_type("files", files), &
      & test_type("values", values_both_ways), test_type("errors", errors), &
      & test_type("many steps", many_steps)]
  end function device_suite

  !> Both devices give the same loss: values, gradients, and gradients of gradients.
  subroutine compare(loss_of, error, tolerance)
    procedure(loss_interface) :: loss_of
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), optional :: tolerance
    character(len=4), parameter :: devices(2) = ["cpu ", "cuda"]
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(array_type) :: w, x, loss
    type(array_type), allocatable :: g(:), second(:)
    real(dp), allocatable :: at_w(:, :, :), at_x(:, :, :), to_w(:, :, :), to_x(:, :, :), got(:, :)
    real(dp) :: value(2), most
    integer :: k

    most = 1e-12_dp
    if (present(tolerance)) most = tolerance
    allocate (at_w(4, 4, 2), to_w(4, 4, 2), at_x(4, 5, 2), to_x(4, 5, 2))
    call graph%init([1, 4, 4, 6, 8, 9], [1, 2, 5, 3, 4, 5, 1, 2], 5, error)
    if (allocated(error)) return
    do k = 1, 2
      call tape%init(error, device=trim(devices(k)))
      if (allocated(error)) return
      w = tape%parameter(draw(4, 4, 1))
      x = tape%parameter(draw(4, 5, 2))
      loss = loss_of(tape, graph, w, x)
      value(k) = loss%value()
      call tape%backward(loss, error)
      if (allocated(error)) return
      call w%grad(got)
      at_w(:, :, k) = got
      call x%grad(got)
      at_x(:, :, k) = got
      loss = loss_of(tape, graph, w, x)
      call tape%gradient(loss, [w, x], g, error, create_graph=.true.)
      if (.not. allocated(error)) call tape%gradient(sum(g(1)*g(1)) + sum(g(2)*x), [w, x], second, &
        & error)
      if (allocated(error)) return
      call second(1)%val(got)
      to_w(:, :, k) = got
      call second(2)%val(got)
      to_x(:, :, k) = got
    end do
    call check(error, abs(value(1) - value(2)) <= most*(1 + abs(value(1))), "value")
    call check(error, close(at_w, most) .and. close(at_x, most), "gradient")
    call check(error, close(to_w, most) .and. close(to_x, most), "gradient of a gradient")
    call check(error, maxval(abs(at_w)) > 0 .and. maxval(abs(to_w)) > 0, "nothing to compare")
    call tape%free()
  end subroutine compare

  pure function close(both, most)
    real(dp), intent(in) :: both(:, :, :), most
    logical :: close

    close = all(abs(both(:, :, 1) - both(:, :, 2)) <= most*(1 + maxval(abs(both(:, :, 1)))))
  end function close

  !> Numbers between 0.1 and 1, the same in every run.
  pure function draw(rows, columns, seed) result(x)
    integer, intent(in) :: rows, columns, seed
    real(dp) :: x(rows, columns)
    integer :: i, j

    do j = 1, columns
      do i = 1, rows
        x(i, j) = 0.1_dp + 0.9_dp*modulo(sin(12.9898_dp*i + 78.233_dp*j + 3.7_dp*seed)*437.5_dp, &
          & 1.0_dp)
      end do
    end do
  end function draw

  ! ---- expressions ----

  subroutine elementwise(error)
    type(error_type), allocatable, intent(out) :: error

    call compare(elementwise_loss, error)
  end subroutine elementwise

  function elementwise_loss(tape, graph, w, x) result(loss)
    type(tape_type), intent(in) :: tape
    type(graph_type), intent(in) :: graph
    type(array_type), intent(in) :: w, x
    type(array_type) :: loss, y, z

    y = exp(w) + log(w)/sqrt(w) - sin(w)*cos(2*w) + abs(w - 0.5_dp) + w**3 + w**1.5_dp + w**2
    z = max(x, 0.4_dp) + min(x, 0.6_dp) + relu(x) + gelu(x) + silu(x) + tanh(x) + sigmoid(x)
    z = z + x**gather(w, [1, 2, 3, 4, 1])
    loss = sum(matmul(y, z)*x) + mean(-y) + sum(w/slice(x, [1, 2], [1, 4]))
  end function elementwise_loss

  subroutine sums(error)
    type(error_type), allocatable, intent(out) :: error

    call compare(sums_loss, error)
  end subroutine sums

  function sums_loss(tape, graph, w, x) result(loss)
    type(tape_type), intent(in) :: tape
    type(graph_type), intent(in) :: graph
    type(array_type), intent(in) :: w, x
    type(array_type) :: loss, y, z

    y = concatenate([w, x], 2)
    z = slice(y, [4, 8], [2, 3], [-2, -3])*softmax(slice(y, [1, 1], [2, 3]), 1)
    z = z + transpose(reshape(slice(x, [1, 2], [2, 3]), [3, 2]))
    y = gather(y, [3, 1, 9, 3, 3])*gather(reshape(softmax(y, 2), [4, 9]), [2, 2, 1, 4, 9])
    loss = norm(z) + sum(norm(y, 1)) + sum(sum(y, 2)*sum(w, 1)) + mean(real(real(y, sp), dp)**2)
    loss = loss + sum(matmul(sum(w, 2, keep_dim=.true.), sum(z, 1, keep_dim=.true.))) + &
      & dot_product(sum(w, 1), mean(w, 2)) + sum(mean(x, 1)**2)
  end function sums_loss

  subroutine products(error)
    type(error_type), allocatable, intent(out) :: error

    call compare(products_loss, error)
  end subroutine products

  function products_loss(tape, graph, w, x) result(loss)
    type(tape_type), intent(in) :: tape
    type(graph_type), intent(in) :: graph
    type(array_type), intent(in) :: w, x
    type(array_type) :: loss, y

    y = matmul(w, matmul(w, x, transpose_a=.true.)) + matmul(w, matmul(x, w, .true., .true.), &
      & transpose_b=.true.)
    loss = sum(y*y) + sum(matmul(w, sum(w, 1))) + sum(matmul(sum(x, 2), x)) &
      & + sum(tape%constant(draw(4, 5, 3))*y)
  end function products_loss

  ! ---- operators ----

  subroutine operators(error)
    type(error_type), allocatable, intent(out) :: error

    call compare(operators_loss, error)
  end subroutine operators

  function operators_loss(tape, graph, w, x) result(loss)
    type(tape_type), intent(in) :: tape
    type(graph_type), intent(in) :: graph
    type(array_type), intent(in) :: w, x
    type(array_type) :: loss, h, edges, kappa

    edges = gather(x, [1, 3, 2, 4, 5, 1, 2, 3])
    h = gno(x, slice(edges, [1, 1], [2, 8]), slice(w, [1, 1], [4, 2]), sum(w, 2), &
      & reshape(matmul(w, w), [1, 4, 4]), slice(w, [1, 1], [1, 4]), graph, activation="gelu", &
      & reduction="mean")
    kappa = reshape(concatenate([edges, edges, edges, edges], 1), [4, 4, 8])
    h = h + sum(gno_aggregate(x, kappa, graph, reduction="mean"), 1, keep_dim=.true.)
    h = h + agg_weighted(x, sum(edges, 1), graph, aggregation="mean")
    h = h + mha_simple(x, matmul(w, x), x, graph, num_heads=2)
    loss = sum(h*x)
  end function operators_loss

  ! ---- procedures of the program, on the host ----

  subroutine procedures(error)
    type(error_type), allocatable, intent(out) :: error

    call compare(procedures_loss, error)
  end subroutine procedures

  function procedures_loss(tape, graph, w, x) result(loss)
    type(tape_type), intent(in) :: tape
    type(graph_type), intent(in) :: graph
    type(array_type), intent(in) :: w, x
    type(array_type) :: loss

    loss = sum(matmul(custom_operation(square_type(), [w]), linear_map(x*x, 5, twice_type()))*x)
  end function procedures_loss

  ! ---- several GPUs ----

  !> A tape stays on its GPU, and the program on the one that it has chosen.
  subroutine two_devices(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape(4)
    type(device_type) :: gpu(2)
    type(array_type) :: x(4), loss
    type(graph_type) :: graph
    real(dp), allocatable :: first(:, :), got(:, :)
    integer(c_int) :: before, now, status
    integer :: k, there

    call tape(1)%init(error, device="cuda:0")
    if (allocated(error)) return
    call tape(2)%init(refused, device="cuda:1")
    if (allocated(refused)) then
      call check_refused(error, refused, "tape: device is 'cuda:1', and the last GPU is cuda:0")
      return
    end if
    do there = 1, 2  ! and on the current ones
      gpu(there) = device_type(active=.true., number=int(there - 1, c_int))
      status = enter(gpu(there), before)
      call tape(2 + there)%init(error, device="cuda")
      call leave(gpu(there), before)
      if (allocated(error)) return
    end do
    do k = 1, 4
      x(k) = tape(k)%parameter(draw(4, 5, 2))
    end do
    call graph%init([1, 4, 4, 6, 8, 9], [1, 2, 5, 3, 4, 5, 1, 2], 5, error)
    do there = 1, 2
      status = enter(gpu(there), before)
      do k = 1, 4
        loss = operators_loss(tape(k), graph, matmul(x(k), x(k), transpose_b=.true.), x(k))
        if (.not. allocated(error)) call tape(k)%backward(loss, error)
        if (allocated(error)) exit
        call x(k)%grad(got)
        if (.not. allocated(first)) first = got
        call check(error, all(.not. abs(got - first) > 0) .and. maxval(abs(got)) > 0, "gradient")
      end do
      status = enter(gpu(there), now)
      call check(error, now == there - 1, "the device of the program has changed")
      call leave(gpu(there), before)
    end do
  end subroutine two_devices

  ! ---- training ----

  !> AdamW with clipped gradients, and descent with momentum, in both kinds of reals: the same way.
  subroutine training(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=4), parameter :: devices(2) = ["cpu ", "cuda"]
    type(tape_type) :: tape
    type(adamw_type) :: adam
    type(sgd_type) :: sgd
    type(array_type) :: w, b, v, loss
    real(dp), allocatable :: end_of_w(:, :), of_w(:, :, :)
    real(sp), allocatable :: end_of_v(:, :), of_v(:, :, :)
    real(dp) :: norms(2)
    integer :: k, step, mark

    allocate (of_w(4, 4, 2), of_v(4, 4, 2))
    do k = 1, 2
      call tape%init(error, device=trim(devices(k)))
      if (allocated(error)) return
      w = tape%parameter(draw(4, 4, 1))
      b = tape%parameter(0.25_dp)
      v = tape%parameter(real(draw(4, 4, 4), sp))
      call adam%init([w, b], 0.05_dp, error, weight_decay=0.1_dp)
      if (.not. allocated(error)) call sgd%init([v], 0.01_dp, error, momentum=0.9_dp)
      mark = tape%mark()
      do step = 1, 20
        loss = sum((matmul(w, tape%constant(draw(4, 5, 2))) - 3 + b)**2)
        if (.not. allocated(error)) call tape%backward(loss, error)
        call adam%clip_gradients(1.0_dp, norms(k))
        if (.not. allocated(error)) call adam%step(error)
        loss = sum((matmul(v, v) - 1)**2)
        if (.not. allocated(error)) call tape%backward(loss, error)
        if (.not. allocated(error)) call sgd%step(error)
        if (allocated(error)) return
        call tape%rewind(mark)
      end do
      call w%val(end_of_w)
      call v%val(end_of_v)
      of_w(:, :, k) = end_of_w
      of_v(:, :, k) = end_of_v
    end do
    call check(error, close(of_w, 1e-12_dp), "AdamW")
    call check(error, all(abs(of_v(:, :, 1) - of_v(:, :, 2)) < 1e-4), "descent in float32")
    call check(error, abs(norms(1) - norms(2)) < 1e-9_dp .and. norms(1) > 1, &
      & "norm of the gradients")
    call check(error, maxval(abs(of_w(:, :, 1) - draw(4, 4, 1))) > 0.1_dp, "nothing was learnt")
    call tape%free()
  end subroutine training

  !> Training saved on one device goes on on the other.
  subroutine files(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=*), parameter :: file = "test_device.safetensors"
    type(tape_type) :: there, here
    type(adam_type) :: adam, other
    type(array_type) :: w, u, loss
    real(dp), allocatable :: of_w(:, :), of_u(:, :)
    integer :: step, unit

    call there%init(error, device="cuda")
    if (.not. allocated(error)) call here%init(error, device="cpu")
    if (allocated(error)) return
    w = there%parameter(draw(3, 3, 1), "w")
    u = here%parameter(draw(3, 3, 2), "w")
    call adam%init([w], 0.1_dp, error)
    if (.not. allocated(error)) call other%init([u], 0.1_dp, error)
    do step = 1, 6
      if (allocated(error)) return
      loss = sum(matmul(w, w)**2)
      call there%backward(loss, error)
      if (.not. allocated(error)) call adam%step(error)
      if (step < 4) then
        cycle
      else if (step == 4) then
        if (.not. allocated(error)) call adam%save(file, error)
        if (.not. allocated(error)) call other%load(file, error)
      else
        loss = sum(matmul(u, u)**2)
        if (.not. allocated(error)) call here%backward(loss, error)
        if (.not. allocated(error)) call other%step(error)
      end if
    end do
    call w%val(of_w)
    call u%val(of_u)
    call check(error, all(abs(of_w - of_u) < 1e-12_dp), "steps after a file")
    if (.not. allocated(error)) call here%save(file, error)
    if (.not. allocated(error)) call w%set_value(0*of_w)
    if (.not. allocated(error)) call there%load(file, error)
    call w%val(of_w)
    call check(error, all(.not. abs(of_w - of_u) > 0), "values of a file")
    open (newunit=unit, file=file)
    close (unit, status="delete")
  end subroutine files

  ! ---- values ----

  subroutine values_both_ways(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, one
    real(sp), allocatable :: got(:, :), empty(:)

    call tape%init(error, device="cuda")
    if (allocated(error)) return
    x = tape%parameter(reshape([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]))
    call x%val(got)
    call check(error, all(.not. abs(got - reshape([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])) > 0), &
      & "val")
    call x%set_value(2*got)
    one = sum(x*[real(sp) :: 1, 10])
    call check(error, .not. abs(one%value() - 258) > 0, &
      & "set_value, and plain arrays in expressions")
    call check(error, x%text() == "real32 (2, 3): 2.00000000 4.00000000 6.00000000 8.00000000 "// &
      & "10.0000000 12.0000000", "text: "//x%text())
    call check(error, one%text() == "258.000000", "text of a number: "//one%text())
    call x%grad(got)
    call check(error, all(.not. abs(got) > 0), "no gradient is zero")
    x = tape%constant([real(sp) ::])
    call x%val(empty)
    one = sum(x)
    call check(error, size(empty) == 0 .and. .not. abs(one%value()) > 0, "no elements")
    call tape%check(error)
  end subroutine values_both_ways

  ! ---- errors ----

  subroutine errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(array_type) :: x, y
    character(len=8), parameter :: wrong(5) = [character(len=8) :: "tpu", "cuda:", "cuda:x", &
      & "cuda:-1", "cuda 1"]
    integer :: k

    do k = 1, size(wrong)
      call tape%init(refused, device=trim(wrong(k)))
      call check_refused(error, refused, "tape: device is '"//trim(wrong(k))// &
        & "', needs cpu, cuda or cuda:N")
    end do
    call tape%init(refused, device="cuda:99")
    call check(error, allocated(refused), "there is no cuda:99")
    if (allocated(error)) return
    call check(error, index(refused%message, "tape: device is 'cuda:99', and the last GPU is cuda:") &
      & == 1, refused%message)
    if (.not. allocated(error)) call tape%init(error, device="cuda")
    if (allocated(error)) return
    x = tape%parameter(draw(2, 3, 1))
    y = custom_operation(square_type(fails=.true.), [x])
    call tape%check(refused)
    call check_refused(error, refused, "square: told to fail")
    call check(error, .not. y%alive(), "the result of an operation that failed")
    call tape%clear_error()
    call graph%init([1, 2, 3], [1, 3], 3, error)
    y = agg_weighted(x, tape%constant([1.0_dp, 2.0_dp]), graph, aggregation="median")
    call tape%check(refused)
    call check_refused(error, refused, &
      & "agg_weighted: aggregation must be one of sum, mean, min, max")
    call tape%clear_error()
    y = matmul(x, x)
    call tape%check(refused)
    call check_refused(error, refused, "matmul: (2, 3) and (2, 3): the inner extents differ")
  end subroutine errors

  subroutine twice_r32(self, transposed, x, y, error)
    class(twice_type), intent(in) :: self
    logical, intent(in) :: transposed
    real(sp), intent(in), contiguous, target :: x(:, :)
    real(sp), intent(inout), contiguous, target :: y(:, :)
    type(error_type), allocatable, intent(out) :: error

    y(:, :) = 2*x
  end subroutine twice_r32

  subroutine twice_r64(self, transposed, x, y, error)
    class(twice_type), intent(in) :: self
    logical, intent(in) :: transposed
    real(dp), intent(in), contiguous, target :: x(:, :)
    real(dp), intent(inout), contiguous, target :: y(:, :)
    type(error_type), allocatable, intent(out) :: error

    y(:, :) = 2*x
  end subroutine twice_r64

  subroutine square_r32(self, operands, y, error)
    class(square_type), intent(in) :: self
    type(operand_type), intent(in) :: operands(:)
    real(sp), intent(inout), contiguous :: y(:)
    type(error_type), allocatable, intent(out) :: error

    y(:) = operands(1)%r32**2
  end subroutine square_r32

  subroutine square_r64(self, operands, y, error)
    class(square_type), intent(in) :: self
    type(operand_type), intent(in) :: operands(:)
    real(dp), intent(inout), contiguous :: y(:)
    type(error_type), allocatable, intent(out) :: error

    y(:) = operands(1)%r64**2
    if (self%fails) error = error_type(1, "square: told to fail")
  end subroutine square_r64

  subroutine square_pullback(self, operands, output, cotangent, wanted, gradients)
    class(square_type), intent(in) :: self
    type(array_type), intent(in) :: operands(:), output, cotangent
    logical, intent(in) :: wanted(:)
    type(array_type), intent(inout) :: gradients(:)

    gradients(1) = 2*cotangent*operands(1)
  end subroutine square_pullback

  ! ---- memory ----

  !> Ten thousand small steps, and some of every kind of memory, take no more than the first ones.
  subroutine many_steps(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(sgd_type) :: sgd
    type(graph_type) :: graph
    type(array_type) :: w, h, loss
    integer(int64) :: before
    integer :: step, mark

    call tape%init(error, device="cuda")
    if (allocated(error)) return
    w = tape%parameter(real(draw(2, 3, 1), sp))
    call sgd%init([w], 1e-3_dp, error)
    mark = tape%mark()
    before = 0
    do step = 1, 10000
      if (allocated(error)) return
      if (modulo(step, 50) == 0) then  ! a graph of its own, workspaces, integers lent to kernels
        call graph%init([1, 3, 4, 5], [1, 2, 2, 3], 3, error)
        h = agg_weighted(gather(matmul(matmul(w, w, transpose_b=.true.), w), [2, 3, 1]), &
          & tape%constant([real(sp) :: 1, 2, 3, 4]), graph, aggregation="sum")
        loss = norm(linear_map(custom_operation(square_type(), [h]), 3, twice_type()))
      else
        loss = sum(w*w)
      end if
      if (.not. allocated(error)) call tape%backward(loss, error)
      if (.not. allocated(error)) call sgd%step(error)
      call tape%rewind(mark)
      if (step == 1000) before = resident()
    end do
    call check(error, resident() - before < 500000, "memory grows")
    call check(error, tape%mark() == mark, "the tape grows")
  end subroutine many_steps

end module device_tests

!> test_device [TEST]
program test_device
  use testing, only: run_suite
  use device_tests, only: device_suite
  implicit none
  character(len=100) :: only_test
  integer :: n_run, n_failed

  n_run = 0
  n_failed = 0
  call get_command_argument(1, only_test)
  call run_suite("device", device_suite(), trim(only_test), n_run, n_failed)
  if (n_run == 0) error stop "no such test"
  if (n_failed > 0) error stop 1
end program test_device

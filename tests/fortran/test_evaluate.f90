! SPDX-License-Identifier: MIT

!> Layers on plain arrays, and models on points.
module test_evaluate
  use gnograd
  use test_layers, only: begin, same
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: evaluate_tests

  character(len=*), parameter :: filename = "gnograd_test_evaluate.safetensors"

contains

  function evaluate_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("plain arrays", test_outputs), &
      & test_type("plain arrays on graphs", test_evaluate_on_graphs), &
      & test_type("plain arrays that do not fit", test_refused_evaluate), &
      & test_type("plain arrays, by threads of the program", test_evaluate_in_threads), &
      & test_type("a model on points", test_point_gno), &
      & test_type("models on points that cannot be", test_refused_point_gno)]
  end function evaluate_tests

  !> Outputs for plain arrays have the bits that forward has on the tape, in both kinds, for one
  !> column and for so many that threads share them.
  subroutine test_outputs(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=8), parameter :: activations(8) = [character(len=8) :: "relu", "gelu", "silu", &
      & "tanh", "sin", "sigmoid", "identity", ""]
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(mlp_type) :: net
    type(dense_type) :: bare
    type(random_type) :: random
    type(array_type) :: out
    real(dp), allocatable :: x(:, :), y(:, :), wanted(:, :), column(:)
    integer, parameter :: counts(4) = [0, 1, 5, 700]
    integer :: i, j, k, n

    call tape%init(error, device="cpu")
    if (allocated(error)) return
    do k = 1, size(activations)
      initial = initializer_type(seed=k)
      if (activations(k) /= "") then
        call net%init(tape, initial, "m", [3, 40, 5, 2], trim(activations(k)))
      else
        call net%init(tape, initial, "m", [3, 40], layer_norm=.true.)
      end if
      do i = 1, size(net%layers)
        call shake(net%layers(i)%bias)
      end do
      do i = 1, size(counts)
        n = counts(i)
        if (allocated(x)) deallocate (x, y)
        allocate (x(3, n), y(size_of(net), n))
        do j = 1, size(x)
          x(1 + mod(j - 1, 3), 1 + (j - 1)/3) = random%uniform(-2.0_dp, 2.0_dp)
        end do
        call net%evaluate(x, y, error)
        if (allocated(error)) return
        out = net%forward(tape%constant(x))
        call out%val(wanted, error)
        if (allocated(error)) return
        call check(error, all(y == wanted), "columns")
        if (n == 0) cycle
        ! columns that are not side by side
        call net%evaluate(x(:, ::n), y(:, ::n), error)
        if (.not. allocated(error)) call net%evaluate(x(:, 1), y(:, n), error)
        if (allocated(error)) return
        out = net%forward(tape%constant(x(:, 1)))
        call out%val(column, error)
        if (allocated(error)) return
        call check(error, all(y(:, n) == column), "one column")
        out = net%forward(tape%constant(x(:, ::n)))
        call out%val(wanted, error)
        if (allocated(error)) return
        call check(error, all(y(:, :1) == wanted(:, :1)), "columns that are apart")
      end do
    end do
    call bare%init(tape, initial, "b", 3, 2, "tanh", bias=.false.)
    call bare%evaluate(x, y(:2, :), error)
    if (allocated(error)) return
    out = bare%forward(tape%constant(x))
    call out%val(wanted, error)
    if (.not. allocated(error)) call check(error, all(y(:2, :) == wanted), "no bias")
    if (.not. allocated(error)) call evaluate_single(tape, error)

  contains

    integer function size_of(net)
      type(mlp_type), intent(in) :: net

      size_of = merge(2, 40, size(net%layers) > 1)
    end function size_of

    !> Other numbers than zeros.
    subroutine shake(bias)
      type(array_type), intent(in) :: bias
      real(dp), allocatable :: values(:)
      integer :: i

      call bias%val(values)
      do i = 1, size(values)
        values(i) = random%uniform(-1.0_dp, 1.0_dp)
      end do
      call bias%set_value(values)
    end subroutine shake

  end subroutine test_outputs

  subroutine evaluate_single(tape, error)
    type(tape_type), intent(in) :: tape
    type(error_type), allocatable, intent(out) :: error
    type(initializer_type) :: initial
    type(mlp_type) :: net
    type(array_type) :: out
    real(sp) :: x(3, 7), y(2, 7)
    real(sp), allocatable :: wanted(:, :)

    call random_number(x)
    initial = initializer_type(seed=1, kind=sp)
    call net%init(tape, initial, "s", [3, 8, 2], "gelu", layer_norm=.true.)
    call net%evaluate(x, y, error)
    if (allocated(error)) return
    out = net%forward(tape%constant(x))
    call out%val(wanted, error)
    if (.not. allocated(error)) call check(error, all(y == wanted), "real(sp)")
  end subroutine evaluate_single

  subroutine test_evaluate_on_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(initializer_type) :: initial
    type(gno_type) :: integral
    type(gat_type) :: attention
    type(edge_mlp_type) :: network
    type(layer_norm_type) :: norm
    type(array_type) :: x, out, nodes
    real(dp) :: values(3, 4), weights(5), y(2, 4), same_width(3, 4), e(3, 5), f(3, 5), batch(3, 4, 2), &
      & many(2, 4, 2)
    real(dp), allocatable :: wanted(:, :), all_of_them(:, :, :)

    call begin(tape, x, values, error, device="cpu")
    if (.not. allocated(error)) call graph%from_edges([1, 2, 3, 4, 1], [2, 3, 4, 4, 1], error)
    if (allocated(error)) return
    call random_number(e)
    call random_number(weights)
    call integral%init(tape, initial, "g", 3, 2, 2, n_hidden=8)
    call integral%evaluate(values, e(:2, :), graph, y, error, edge_weight=weights)
    if (allocated(error)) return
    out = integral%forward(x, tape%constant(e(:2, :)), graph, tape%constant(weights))
    call compare(y, "gno")
    batch = spread(values, 3, 2)
    batch(:, :, 2) = -2*batch(:, :, 2)
    if (.not. allocated(error)) call integral%evaluate(batch, e(:2, :), graph, many, error)
    if (allocated(error)) return
    out = integral%forward(tape%constant(batch), tape%constant(e(:2, :)), graph)
    call out%val(all_of_them, error)
    if (.not. allocated(error)) call check(error, all(many == all_of_them), "gno of a batch")
    call integral%init(tape, initial, "h", 3, 3, 2, kernel="diagonal", activation="tanh", &
      & reduction="sum")
    if (.not. allocated(error)) call integral%evaluate(values, e(:2, :), graph, same_width, error)
    if (allocated(error)) return
    out = integral%forward(x, tape%constant(e(:2, :)), graph)
    call compare(same_width, "gno with a diagonal kernel")

    call attention%init(tape, initial, "a", 3, 2, n_heads=3, concat_heads=.false.)
    call attention%bias%set_value([0.3_dp, -0.2_dp])
    if (.not. allocated(error)) call attention%evaluate(values, graph, y, error)
    if (allocated(error)) return
    out = attention%forward(x, graph)
    call compare(y, "gat")

    call network%init(tape, initial, "n", 3, 3, [6, 5, 3])
    if (.not. allocated(error)) call network%evaluate(e, values, graph, f, same_width, error)
    if (allocated(error)) return
    call network%forward(tape%constant(e), x, graph, out, nodes)
    call compare(f, "edges")
    out = nodes
    call compare(same_width, "nodes")
    call network%init(tape, initial, "o", 3, 3, [2], layer_norm=.false., residual=.false., &
      & reduction="mean", activation="identity")
    if (.not. allocated(error)) call network%evaluate(e, values, graph, f(:2, :), y, error)
    if (allocated(error)) return
    call network%forward(tape%constant(e), x, graph, out, nodes)
    call compare(f(:2, :), "edges of one layer")

    call norm%init(tape, initial, "norm", 3)
    call norm%weight%set_value([1.5_dp, -2.0_dp, 0.1_dp])
    if (.not. allocated(error)) call norm%evaluate(values, same_width, error)
    if (allocated(error)) return
    out = norm%forward(x)
    call compare(same_width, "layer norm")

  contains

    subroutine compare(y, message)
      real(dp), intent(in) :: y(:, :)
      character(len=*), intent(in) :: message

      if (allocated(error)) return
      call out%val(wanted, error)
      if (.not. allocated(error)) call check(error, all(y == wanted), message)
    end subroutine compare

  end subroutine test_evaluate_on_graphs

  subroutine test_refused_evaluate(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(graph_type) :: graph, none
    type(initializer_type) :: initial
    type(mlp_type) :: net
    type(dense_type) :: layer
    type(gno_type) :: integral
    type(edge_mlp_type) :: network
    type(gat_type) :: attention
    real(dp) :: x(3, 4), y(2, 4), edges(3, 5)
    real(sp) :: single(3, 4), narrow(2, 4)
    character(len=*), parameter :: absent = "; evaluate needs a layer after init, on a tape that "// &
      & "has not ended"

    x = 1
    single = 1
    edges = 1
    call net%evaluate(x, y, refused)
    call check_refused(error, refused, "mlp: it has no layers"//absent)
    call layer%evaluate(x, y, refused)
    call check_refused(error, refused, "dense: it has no weight"//absent)
    call network%evaluate(edges, x, graph, edges, x, refused)
    call check_refused(error, refused, "graph: init comes first")
    if (allocated(error)) return
    call tape%init(error, device="cpu")
    if (.not. allocated(error)) call graph%from_edges([1, 2, 3, 4, 1], [2, 3, 4, 4, 1], error)
    if (allocated(error)) return
    call network%evaluate(edges, x, graph, edges, x, refused)
    call check_refused(error, refused, "edge_mlp: evaluate needs a layer after init")
    call net%init(tape, initial, "m", [3, 5, 2])
    call net%evaluate(x(:2, :), y, refused)
    call check_refused(error, refused, "mlp: x has shape 2 4, needs 3 4")
    call net%evaluate(x, y(:, :3), refused)
    call check_refused(error, refused, "mlp: y has shape 2 3, needs 2 4")
    call net%evaluate(x(:, 1), x(:, 2), refused)
    call check_refused(error, refused, "mlp: y has shape 3 1, needs 2 1")
    call net%evaluate(single, narrow, refused)
    call check_refused(error, refused, "dense: weight is real64, the arrays given to evaluate are "// &
      & "real32")
    call layer%init(tape, initial, "d", 3, 2, "swish")
    call layer%evaluate(x, y, refused)
    call check_refused(error, refused, "dense: activation is 'swish', needs relu, gelu, silu, "// &
      & "tanh, sin, sigmoid or identity")
    call integral%init(tape, initial, "g", 3, 2, 2, activation="swish")
    call integral%evaluate(x, edges(:2, :), graph, y, refused)
    call check_refused(error, refused, "gno: activation must be one of "// &
      & "relu, gelu, silu, tanh, sin, identity")
    call integral%init(tape, initial, "g", 3, 2, 2)
    call integral%evaluate(x, edges, graph, y, refused)
    call check_refused(error, refused, "gno: u has shape 64 2, needs 64 3")
    call integral%evaluate(x, edges(:2, :), none, y, refused)
    call check_refused(error, refused, "graph: init comes first")
    call attention%init(tape, initial, "a", 3, 2)
    call attention%evaluate(x, graph, x, refused)
    call check_refused(error, refused, "mha_gat: out has shape 3 4, needs 2 4")
    call network%init(tape, initial, "n", 3, 3, [4, 3])
    call network%evaluate(edges, x, graph, edges(:2, :), x, refused)
    call check_refused(error, refused, "edge_mlp: edges has shape 2 5, needs 3 5")
    call tape%free()
    call net%evaluate(x, y, refused)
    call check_refused(error, refused, "mlp: it has no layers"//absent)
    call integral%evaluate(x, edges(:2, :), graph, y, refused)
    call check_refused(error, refused, "gno: it has no U"//absent)
  end subroutine test_refused_evaluate

  !> Threads of the program evaluate one network at once.
  subroutine test_evaluate_in_threads(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: n = 200
    type(error_type), allocatable :: problem
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(mlp_type) :: net
    real(dp) :: x(3, n), y(2, n), wanted(2, n)
    integer :: k, n_failed

    call tape%init(error, device="cpu")
    if (allocated(error)) return
    call net%init(tape, initial, "m", [3, 16, 2], layer_norm=.true.)
    call random_number(x)
    do k = 1, n
      call net%evaluate(x(:, k), wanted(:, k), error)
      if (allocated(error)) return
    end do
    n_failed = 0
    !$omp parallel do default(none) num_threads(4) private(k, problem) shared(net, x, y) &
    !$omp& reduction(+:n_failed)
    do k = 1, n
      call net%evaluate(x(:, k), y(:, k), problem)
      if (allocated(problem)) n_failed = n_failed + 1
    end do
    call check(error, n_failed == 0 .and. all(y == wanted), "values")
  end subroutine test_evaluate_in_threads

  !> A file as Python writes it, with layers that give 0: what comes out is the mean of the outputs.
  subroutine write_model(error)
    type(error_type), allocatable, intent(inout) :: error
    type(weights_type) :: weights
    real(sp), parameter :: nothing(2, 2) = 0
    character(len=*), parameter :: parts(6) = ["lift.0.      ", "lift.2.      ", "local.0.     ", &
      & "projection.0.", "projection.2.", "integral.0.  "]
    character(len=:), allocatable :: name
    integer :: k

    call weights%set_text("model", "gno")
    call weights%set_text("radius", "0.5")
    call weights%set("centre", [1.0_sp], error)
    call weights%set("scale", 2.0_sp, error)
    do k = 1, size(parts) - 1
      name = "network."//trim(parts(k))
      call weights%set(name//"weight", nothing, error)
      call weights%set(name//"bias", nothing(:, 1), error)
    end do
    name = "network."//trim(parts(6))
    call weights%set(name//"U", nothing, error)
    call weights%set(name//"b_u", nothing(:, 1), error)
    call weights%set(name//"V", reshape(nothing, [2, 2, 2], pad=nothing), error)
    call weights%set(name//"b_v", nothing, error)
    call weights%set("input_mean", [3.0_sp], error)
    call weights%set("input_std", [1.0_sp], error)
    call weights%set("parameter_mean", [real(sp) ::], error)
    call weights%set("parameter_std", [real(sp) ::], error)
    call weights%set("output_mean", [5.0_sp, 7.0_sp], error)
    call weights%set("output_std", [1.0_sp, 1.0_sp], error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
  end subroutine write_model

  subroutine remove_model()
    integer :: unit

    open (newunit=unit, file=filename)
    close (unit, status="delete")
  end subroutine remove_model

  subroutine test_point_gno(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(point_gno_type) :: model
    type(weights_type) :: saved
    type(array_type) :: u
    type(array_type), allocatable :: parameters(:)
    real(sp), allocatable :: values(:, :), bias(:)

    call write_model(error)
    if (.not. allocated(error)) call tape%init(error)
    if (.not. allocated(error)) call model%load(tape, filename, error)
    if (allocated(error)) return
    call check(error, model%dimension == 1 .and. model%n_outputs == 2, "sizes of the model")
    if (allocated(error)) return
    call model%place(tape, reshape([0.0_sp, 0.3_sp, 2.0_sp], [1, 3]), error)
    if (allocated(error)) return
    u = model%forward(tape%constant(reshape([1.0_sp, 2.0_sp, 3.0_sp], [1, 3])))
    call tape%backward(sum(u), error)
    if (.not. allocated(error)) call u%val(values, error)
    if (allocated(error)) return
    call check(error, all(abs(values - spread([5, 7], 2, 3)) < 1e-6), "means of the outputs")
    if (allocated(error)) return
    parameters = model%parameters()
    call check(error, size(parameters) == 14, "number of parameters")
    if (.not. allocated(error)) call parameters(14)%grad(bias, error)
    if (allocated(error)) return
    call check(error, all(abs(bias - 3) < 1e-6), "gradient of the last bias")
    if (.not. allocated(error)) call model%save(filename, error)
    if (.not. allocated(error)) call load_weights(filename, saved, error)
    if (allocated(error)) return
    call check(error, saved%get_text("radius") == "0.5" .and. saved%count() == 22, "saved")
    call remove_model()
  end subroutine test_point_gno

  subroutine test_refused_point_gno(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(point_gno_type) :: model
    type(weights_type) :: weights
    type(array_type) :: u

    call write_model(error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    call model%place(tape, reshape([0.0_sp], [1, 1]), refused)
    call check_refused(error, refused, "point_gno: there is no model, needs load")
    if (allocated(error)) return
    call model%load(tape, filename, error)
    if (allocated(error)) return
    u = model%forward(tape%constant(reshape([1.0_sp], [1, 1])))
    call tape%check(refused)
    call check_refused(error, refused, "point_gno: there are no points, needs place")
    if (allocated(error)) return
    call tape%clear_error()
    call model%place(tape, reshape([0.0_sp, 1.0_sp], [2, 1]), refused)
    call check_refused(error, refused, "point_gno: points have 2 coordinates, need 1")
    if (allocated(error)) return
    call model%place(tape, reshape([0.0_sp], [1, 1]), refused, reshape([0.0_sp], [1, 1]))
    call check_refused(error, refused, "point_gno: the model has no queries")
    if (allocated(error)) return
    call model%place(tape, reshape([0.0_sp, 1.0_sp], [1, 2]), error)
    if (allocated(error)) return
    u = model%forward(tape%constant(reshape([1.0_sp], [1, 1])))
    call tape%check(refused)
    call check_refused(error, refused, "point_gno: inputs need shape [1, 2]")
    if (allocated(error)) return
    call tape%clear_error()
    u = model%forward(tape%constant(reshape([1.0_sp, 2.0_sp], [1, 2])), tape%constant([1.0_sp]))
    call tape%check(refused)
    call check_refused(error, refused, "point_gno: of_sample has 0 numbers in this model")
    if (allocated(error)) return
    call tape%clear_error()
    call weights%set_text("model", "gino")
    call save_weights(filename, weights, error)
    if (allocated(error)) return
    call model%load(tape, filename, refused)
    call check_refused(error, refused, "point_gno: "//filename//" is not from `gnograd train "// &
      & "points --model gno`, or from an older gnograd")
    if (allocated(error)) return
    call weights%set_text("model", "gno")
    call save_weights(filename, weights, error)
    if (allocated(error)) return
    call model%load(tape, filename, refused)
    call check_refused(error, refused, "weights%get: there is no array 'centre'")
    call remove_model()
  end subroutine test_refused_point_gno

end module test_evaluate

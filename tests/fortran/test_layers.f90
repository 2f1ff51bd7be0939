! SPDX-License-Identifier: MIT

!> Layers, what they begin with, samples in batches, and the loop of a training.
module test_layers
  use gnograd
  use testing, only: test_type, check, check_refused, resident, short_run
  implicit none
  private
  public :: layers_tests

  character(len=*), parameter :: filename = "gnograd_test_layers.safetensors"

  !> Learns a sum over neighbours.
  type, extends(model_type) :: net_type
    type(mlp_type) :: lift
    type(gno_type) :: gno
    type(dense_type) :: project
  contains
    procedure :: loss => net_loss
    procedure :: init => net_init
    procedure :: parameters => net_parameters
  end type net_type

  !> Training that keeps its reports instead of printing them.
  type, extends(training_type) :: quiet_type
  contains
    procedure :: report => keep_report
  end type quiet_type

  !> Step and loss of the report made last
  integer, save :: last_step = 0
  real(dp), save :: last_loss = 0

contains

  function layers_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("what parameters begin with", test_initializer), &
      & test_type("dense", test_dense), &
      & test_type("a matrix and a bias are one node", test_dense_node), &
      & test_type("layer norm", test_layer_norm), &
      & test_type("mlp", test_mlp), &
      & test_type("gno", test_gno), &
      & test_type("gat", test_gat), &
      & test_type("network on edges", test_edge_mlp), &
      & test_type("layers that begin again", test_again), &
      & test_type("layers that cannot be", test_refused_layers), &
      & test_type("plain arrays", test_evaluate), &
      & test_type("plain arrays on graphs", test_evaluate_on_graphs), &
      & test_type("plain arrays that do not fit", test_refused_evaluate), &
      & test_type("plain arrays, by threads of the program", test_evaluate_in_threads), &
      & test_type("a model on points", test_point_gno), &
      & test_type("models on points that cannot be", test_refused_point_gno), &
      & test_type("batches", test_batches), &
      & test_type("order of samples", test_order), &
      & test_type("a loader has samples of its own", test_own_samples), &
      & test_type("batches of samples without graphs", test_no_graphs), &
      & test_type("samples that do not fit", test_refused_samples), &
      & test_type("a training learns", test_learns), &
      & test_type("schedules by name", test_schedules), &
      & test_type("batches one after another", test_accumulate), &
      & test_type("a training goes on with the same bits", test_resume), &
      & test_type("a training that fails", test_refused_training), &
      & test_type("trainings by threads of the program", test_host_threads), &
      & test_type("memory of 10,000 steps", test_memory)]
  end function layers_tests

  ! ---- layers ----

  subroutine test_initializer(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(array_type) :: x(4)
    real(dp), allocatable :: wide(:, :), again(:, :), he(:, :)
    real(sp), allocatable :: narrow(:, :)

    call tape%init(error)
    if (allocated(error)) return
    initial = initializer_type(seed=3)
    x(1) = initial%weight(tape, "a.weight", [40, 50], 40, 50)
    initial = initializer_type(seed=3)
    x(2) = initial%weight(tape, ".weight", [40, 50], 40, 50)
    initial = initializer_type(seed=3, rule="he")
    x(3) = initial%weight(tape, "c.weight", [40, 50], 40, 50)
    initial = initializer_type(seed=3, kind=sp)
    x(4) = initial%weight(tape, "d.weight", [40, 50], 40, 50)
    call x(1)%val(wide)
    call x(2)%val(again)
    call x(3)%val(he)
    call x(4)%val(narrow, error)
    if (allocated(error)) return
    associate (bound => sqrt(6.0_dp/90))
      call check(error, maxval(abs(wide)) <= bound .and. maxval(abs(wide)) > 0.99_dp*bound, &
        & "glorot")
      call check(error, abs(sum(wide)/2000) < 0.03_dp*bound, "mean")
    end associate
    call check(error, all(abs(he - wide*sqrt(90.0_dp/40)) < 1e-15_dp), "he")
    call check(error, all(wide == again), "the same seed, the same bits")
    call check(error, all(narrow == real(wide, sp)), "sp")
    call check(error, x(1)%name() == "a.weight" .and. x(2)%name() == "weight", "names")
    ! a number that any machine has to find
    call check(error, transfer(wide(1, 1), 0_int64) == -4627012186432871223_int64, "the first bits")
  end subroutine test_initializer

  !> A tape, and numbers [3, 4] on it.
  subroutine begin(tape, x, values, error, device)
    type(tape_type), intent(inout) :: tape
    type(array_type), intent(out) :: x
    real(dp), intent(out) :: values(3, 4)
    type(error_type), allocatable, intent(out) :: error
    character(len=*), intent(in), optional :: device
    type(random_type) :: random
    integer :: i, j

    random = random_type(seed=9)
    do j = 1, 4
      do i = 1, 3
        values(i, j) = random%uniform(-1.0_dp, 1.0_dp)
      end do
    end do
    call tape%init(error, device)
    if (.not. allocated(error)) x = tape%constant(values)
  end subroutine begin

  subroutine test_dense(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(dense_type) :: layer, bare
    type(array_type) :: x, y
    real(dp) :: values(3, 4), b(2)
    real(dp), allocatable :: w(:, :), out(:, :), column(:)

    call begin(tape, x, values, error)
    if (allocated(error)) return
    call layer%init(tape, initial, "d", 3, 2, "tanh")
    b = [0.3_dp, -0.2_dp]
    call layer%bias%set_value(b)
    call layer%weight%val(w)
    y = layer%forward(x)
    call y%val(out, error)
    if (allocated(error)) return
    call check(error, all(abs(out - tanh(matmul(transpose(w), values) + spread(b, 2, 4))) &
      & < 1e-15), "values")
    call check(error, size(layer%parameters()) == 2 .and. layer%bias%name() == "d.bias", &
      & "parameters")
    y = layer%forward(tape%constant(values(:, 2)))
    call y%val(column, error)
    if (allocated(error)) return
    call check(error, all(abs(column - out(:, 2)) < 1e-15), "one column")
    call bare%init(tape, initial, "e", 3, 2, bias=.false.)
    call check(error, size(bare%parameters()) == 1, "no bias")
  end subroutine test_dense

  !> The matrix and the bias of a layer are one node, with the bits of matmul and + in values and in
  !> derivatives of first and second order.
  subroutine test_dense_node(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(dense_type) :: layer
    type(array_type) :: x, y
    type(array_type), allocatable :: parts(:), g(:), h(:)
    real(dp) :: values(3, 4)
    real(dp), allocatable :: first(:, :), again(:, :), second(:, :), b(:), wanted(:, :, :), wanted_b(:)
    integer :: k, way, mark, nodes(2)

    ! on a GPU they are two
    call begin(tape, x, values, error, device="cpu")
    if (allocated(error)) return
    call layer%init(tape, initial, "d", 3, 2)
    call layer%bias%set_value([0.3_dp, -0.2_dp])
    x = tape%parameter(values)
    parts = [layer%weight, layer%bias, x]
    allocate (wanted(3, 4, 3))
    do way = 1, 2
      mark = tape%mark()
      if (way == 1) then
        y = layer%forward(x)
      else
        y = matmul(layer%weight, x, transpose_a=.true.) + layer%bias
      end if
      nodes(way) = tape%mark() - mark
      y = tanh(y)
      do k = 1, 2
        call tape%gradient(sum(y*y*y), parts, g, error, create_graph=k == 2)
        if (allocated(error)) return
        call g(1)%val(first)
        call g(2)%val(b)
        call g(3)%val(again)
        if (way == 1 .and. k == 1) then
          wanted(:, :2, 1) = first
          wanted(:, :, 2) = again
          wanted_b = b
        end if
        call check(error, all(first == wanted(:, :2, 1)) .and. all(b == wanted_b) .and. &
          & all(again == wanted(:, :, 2)), "gradients")
        if (allocated(error)) return
      end do
      call tape%gradient(sum(g(1)*g(1)) + sum(g(3)*g(3))*sum(g(2)), parts, h, error)
      if (allocated(error)) return
      call h(3)%val(second)
      if (way == 1) wanted(:, :, 3) = second
      call check(error, all(second == wanted(:, :, 3)), "second order")
      if (allocated(error)) return
    end do
    call check(error, nodes(1) == 1 .and. nodes(2) == 2, "nodes")
  end subroutine test_dense_node

  subroutine test_layer_norm(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(layer_norm_type) :: layer
    type(array_type) :: x, y
    real(dp) :: values(3, 4), wanted(3)
    real(dp), allocatable :: out(:, :)
    integer :: k

    call begin(tape, x, values, error)
    if (allocated(error)) return
    call layer%init(tape, initial, "n", 3)
    call layer%weight%set_value([1.0_dp, 2.0_dp, 3.0_dp])
    call layer%bias%set_value([0.0_dp, 0.5_dp, 0.0_dp])
    y = layer%forward(x)
    call y%val(out, error)
    if (allocated(error)) return
    do k = 1, 4
      wanted = values(:, k) - sum(values(:, k))/3
      wanted = wanted/sqrt(sum(wanted**2)/3 + 1e-5_dp)*[1, 2, 3] + [0.0_dp, 0.5_dp, 0.0_dp]
      call check(error, all(abs(out(:, k) - wanted) < 1e-14), "values")
    end do
  end subroutine test_layer_norm

  !> What is absent in a later init is the default, not what an earlier one was given.
  subroutine test_again(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(dense_type) :: dense
    type(layer_norm_type) :: norm_layer
    type(gat_type) :: gat
    type(edge_mlp_type) :: edges
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(adamw_type) :: adamw
    type(sgd_type) :: sgd
    type(sample_type), allocatable :: samples(:)
    type(array_type) :: x

    call tape%init(error)
    if (.not. allocated(error)) call make_samples(2, samples, error)
    if (allocated(error)) return
    x = tape%parameter([1.0_dp])
    call dense%init(tape, initial, "d", 3, 2, bias=.false.)
    call dense%init(tape, initial, "d2", 3, 2)
    call check(error, dense%has_bias, "dense")
    call norm_layer%init(tape, initial, "n", 3, eps=1.0_dp)
    call norm_layer%init(tape, initial, "n2", 3)
    call check(error, norm_layer%eps < 1e-4_dp, "layer norm")
    call gat%init(tape, initial, "g", 3, 2, n_heads=4, concat_heads=.false., negative_slope=0.5_dp)
    call gat%init(tape, initial, "g2", 3, 2)
    call check(error, gat%n_heads == 1 .and. gat%concat_heads .and. gat%negative_slope < 0.3_dp, "gat")
    call edges%init(tape, initial, "e", 3, 2, [4], residual=.false.)
    call edges%init(tape, initial, "e2", 3, 2, [3])
    call check(error, edges%residual, "network on edges")
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2, seed=3, shuffle=.false.)
    if (.not. allocated(error)) call loader%init(samples, error)
    if (allocated(error)) return
    call check(error, loader%batch_size == 1 .and. loader%seed == 0 .and. loader%shuffle, "loader")
    if (.not. allocated(error)) call adam%init([x], 0.1_dp, error, 0.5_dp, 0.6_dp, 1.0_dp, 0.3_dp)
    if (.not. allocated(error)) call adam%init([x], 0.1_dp, error)
    if (.not. allocated(error)) call adamw%init([x], 0.1_dp, error, 0.5_dp, weight_decay=0.3_dp)
    if (.not. allocated(error)) call adamw%init([x], 0.1_dp, error)
    if (.not. allocated(error)) call sgd%init([x], 0.1_dp, error, momentum=0.9_dp)
    if (.not. allocated(error)) call sgd%init([x], 0.1_dp, error)
    if (allocated(error)) return
    call check(error, all(abs([adam%beta1, adam%beta2, adam%eps, adam%weight_decay, adamw%beta1, &
      & adamw%weight_decay, sgd%momentum] - [0.9_dp, 0.999_dp, 1e-8_dp, 0.0_dp, 0.9_dp, 0.01_dp, &
      & 0.0_dp]) < 1e-12_dp), "optimizers")
  end subroutine test_again

  subroutine test_mlp(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(mlp_type) :: net
    type(array_type) :: x, y, z
    type(array_type), allocatable :: all_of_them(:)
    real(dp) :: values(3, 4)
    real(dp), allocatable :: out(:, :), wanted(:, :)

    call begin(tape, x, values, error)
    if (allocated(error)) return
    call net%init(tape, initial, "m", [3, 5, 5, 2], activation="silu", layer_norm=.true.)
    all_of_them = net%parameters()
    call check(error, size(all_of_them) == 8, "number of parameters")
    call check(error, net%layers(2)%activation == "silu" .and. &
      & net%layers(3)%activation == "identity", "activations")
    call check(error, all_of_them(5)%name() == "m.4.weight" .and. all_of_them(7)%name() == &
      & "m.5.weight", "names of torch.nn.Sequential")
    y = net%forward(x)
    z = net%norm%forward(net%layers(3)%forward(net%layers(2)%forward(net%layers(1)%forward(x))))
    call y%val(out, error)
    if (allocated(error)) return
    call z%val(wanted)
    call check(error, all(out == wanted), "values")
  end subroutine test_mlp

  subroutine test_gno(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(initializer_type) :: initial
    type(gno_type) :: full, diagonal
    type(array_type) :: x, coords, y
    real(dp) :: values(3, 4)
    integer(int64), allocatable :: shape(:)

    call begin(tape, x, values, error)
    if (.not. allocated(error)) call graph%from_edges([1, 2, 3, 4], [2, 3, 4, 4], error)
    if (allocated(error)) return
    coords = tape%constant(values(:2, :))
    call full%init(tape, initial, "g", 3, 2, 2, n_hidden=8)
    call diagonal%init(tape, initial, "h", 3, 3, 2, kernel="diagonal")
    y = full%forward(x, coords, graph)
    shape = y%shape()
    call check(error, all(shape == [2, 4]), "full")
    call check(error, y%alive() .and. same(y, gno(x, coords, full%U, full%b_u, full%V, full%b_v, &
      & graph, activation="gelu", reduction="mean")), "values")
    y = diagonal%forward(x, coords, graph)
    shape = y%shape()
    call check(error, all(shape == [3, 4]), "diagonal")
    if (.not. allocated(error)) call tape%check(error)
  end subroutine test_gno

  logical function same(x, y)
    type(array_type), intent(in) :: x, y
    real(dp), allocatable :: a(:, :), b(:, :)

    call x%val(a)
    call y%val(b)
    same = all(a == b)
  end function same

  subroutine test_gat(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(initializer_type) :: initial
    type(gat_type) :: layer
    type(array_type) :: x, y
    real(dp) :: values(3, 4), h(2, 4), score(2), wanted(2)
    real(dp), allocatable :: w(:, :), src(:, :, :), dst(:, :, :), out(:, :)

    call begin(tape, x, values, error)
    if (.not. allocated(error)) call graph%from_edges([1, 2], [3, 3], error, n_src=4)
    if (allocated(error)) return
    call layer%init(tape, initial, "g", 3, 2)
    y = layer%forward(x, graph)
    call y%val(out, error)
    if (allocated(error)) return
    call layer%weight%val(w)
    call layer%att_src%val(src)
    call layer%att_dst%val(dst)
    h = matmul(transpose(w), values)
    score = [dot_product(src(:, 1, 1), h(:, 1)), dot_product(src(:, 1, 1), h(:, 2))] &
      & + dot_product(dst(:, 1, 1), h(:, 3))
    score = exp(merge(score, 0.2_dp*score, score > 0))
    wanted = matmul(h(:, :2), score/sum(score))
    call check(error, all(abs(out(:, 3) - wanted) < 1e-14), "values")
    call check(error, all(out(:, 1) == 0), "no neighbours")
    call layer%init(tape, initial, "k", 3, 2, n_heads=4)
    y = layer%forward(x, graph)
    call check(error, all(y%shape() == [8, 4]) .and. size(layer%parameters()) == 4, "heads")
    call layer%init(tape, initial, "l", 3, 2, n_heads=4, concat_heads=.false.)
    y = layer%forward(x, graph)
    call check(error, all(y%shape() == [2, 4]), "mean of heads")
  end subroutine test_gat

  !> Against the layers on what is gathered.
  subroutine test_edge_mlp(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(graph_type) :: graph
    type(initializer_type) :: initial
    type(edge_mlp_type) :: layer
    type(array_type) :: x, e, edges, nodes, wanted
    real(dp) :: values(3, 4)
    real(dp), allocatable :: a(:, :), b(:, :)

    call begin(tape, x, values, error)
    if (.not. allocated(error)) call graph%from_edges([1, 4, 3], [3, 2, 3], error)
    if (allocated(error)) return
    e = tape%constant(values(:2, :3))
    call layer%init(tape, initial, "edge", 2, 3, [6, 2])
    call layer%forward(e, x, graph, edges, nodes)
    wanted = e + layer%mlp%forward(concatenate([e, gather(x, graph%src()), &
      & gather(x, graph%dst())], 1))
    call edges%val(a, error)
    if (.not. allocated(error)) call wanted%val(b, error)
    if (allocated(error)) return
    call check(error, all(abs(a - b) < 1e-14), "edges")
    call nodes%val(b)
    call check(error, all(abs(b(:, 3) - a(:, 1) - a(:, 3)) < 1e-14) .and. all(b(:, 1) == 0), &
      & "nodes")
    call check(error, size(layer%parameters()) == 6, "parameters")
  end subroutine test_edge_mlp

  subroutine test_refused_layers(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(dense_type) :: dense
    type(mlp_type) :: mlp
    type(gno_type) :: gno
    type(array_type) :: x

    call tape%init(error)
    if (allocated(error)) return
    call dense%init(tape, initial, "d", 0, 3)
    call refuse("dense: n_in is 0, needs 1 or more")
    call mlp%init(tape, initial, "d", [1])
    call refuse("mlp: widths has less than two entries")
    call gno%init(tape, initial, "d", 2, 3, 1, kernel="diagonal")
    call refuse("gno: a diagonal kernel needs n_out equal to n_in")
    call dense%init(tape, initial, "d", 1, 1, "swish")
    x = dense%forward(tape%constant([1.0_dp]))
    call refuse("dense: activation is 'swish', needs relu, gelu, silu, tanh, sin, sigmoid or "// &
      & "identity")
    initial%rule = "lecun"
    call dense%init(tape, initial, "d", 1, 1)
    call refuse("d.weight: rule is 'lecun', needs glorot or he")

  contains

    subroutine refuse(message)
      character(len=*), intent(in) :: message

      call tape%check(refused)
      call check_refused(error, refused, message)
      call tape%clear_error()
    end subroutine refuse

  end subroutine test_refused_layers

  ! ---- plain arrays ----

  !> Outputs for plain arrays have the bits that forward has on the tape, in both kinds, for one
  !> column and for so many that threads share them.
  subroutine test_evaluate(error)
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

  end subroutine test_evaluate

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
    call check_refused(error, refused, "gno: unknown activation")
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

  ! ---- models on points ----

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

  ! ---- samples ----

  !> Sample k has k + 2 nodes in a row, and what a sum over neighbours makes of a wave.
  subroutine make_samples(n, samples, error)
    integer, intent(in) :: n
    type(sample_type), allocatable, intent(out) :: samples(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), allocatable :: x(:, :), f(:, :), sums(:, :)
    integer :: i, k

    allocate (samples(n))
    do k = 1, n
      x = reshape([(real(i, dp)/(k + 2), i=1, k + 2)], [1, k + 2])
      f = cos(k*x)
      sums = 0*f
      associate (sample => samples(k))
        call sample%graph%knn(x, 3, error)
        if (allocated(error)) return
        associate (src => sample%graph%src(), dst => sample%graph%dst())
          do i = 1, size(src)
            sums(1, dst(i)) = sums(1, dst(i)) + f(1, src(i))
          end do
          call sample%arrays%set("coords", x(:, dst) - x(:, src), error)
        end associate
        if (.not. allocated(error)) call sample%arrays%set("f", f, error)
        if (.not. allocated(error)) call sample%arrays%set("sums", sums, error)
        if (allocated(error)) return
      end associate
    end do
  end subroutine make_samples

  subroutine test_batches(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    real(dp), allocatable :: f(:, :)
    integer(int64) :: k
    integer :: n

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call check(error, loader%n_batches() == 3, "batches of an epoch")
    do k = 1, 6
      call loader%batch(k, sample, error)
      if (allocated(error)) return
      n = merge(4*int(modulo(k - 1, 3_int64)) + 7, 7, modulo(k, 3_int64) /= 0)
      call check(error, sample%graph%n_src == n, "nodes")
      call sample%arrays%get("f", f, error)
      if (allocated(error)) return
      call check(error, size(f, 2) == n, "features")
      if (k == 2) call check(error, abs(f(1, 6) - cos(4.0_dp/6)) < 1e-15, "those of the second")
      call check(error, all(sample%arrays%shape("coords") == [1_int64, sample%graph%n_edges]), &
        & "edges")
    end do
  end subroutine test_batches

  subroutine test_order(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    integer :: order(6, 3), again(6)
    integer :: epoch, k

    call make_samples(6, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, seed=4)
    do epoch = 1, 3
      do k = 1, 6
        if (allocated(error)) return
        call loader%batch(6_int64*(epoch - 1) + k, sample, error)
        if (associated(sample)) order(k, epoch) = int(sample%graph%n_src) - 2
      end do
      call check(error, all([(count(order(:, epoch) == k) == 1, k=1, 6)]), "every one once")
    end do
    call check(error, any(order(:, 1) /= order(:, 2)) .and. any(order(:, 2) /= order(:, 3)), &
      & "another order in every epoch")
    do k = 1, 6
      if (allocated(error)) return
      call loader%batch(6_int64 + k, sample, error)
      again(k) = int(sample%graph%n_src) - 2
    end do
    call check(error, all(again == order(:, 2)), "always the same")
  end subroutine test_order

  !> Samples of the program stay, also where the loaders share them.
  subroutine test_own_samples(error)
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: known, unseen
    real(dp), allocatable :: f(:, :)

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call known%init(samples(:3), error)
    if (.not. allocated(error)) call unseen%init(samples(4:), error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call check(error, known%n_batches() == 3 .and. unseen%n_batches() == 1, "parts of an array")
    call check(error, size(samples) == 5, "they are still there")
    call samples(4)%arrays%get("f", f, error)
    if (.not. allocated(error)) call samples(4)%arrays%set("f", 0*f, error)
    if (.not. allocated(error)) call unseen%batch(1_int64, sample, error)
    if (allocated(error)) return
    call check(error, sample%graph%n_src == sum(samples(4:)%graph%n_src), "nodes")
    deallocate (samples)
    call sample%arrays%get("f", f, error)
    if (allocated(error)) return
    call check(error, all(abs(f(1, :6)) > 0), "copies")
  end subroutine test_own_samples

  !> Samples of networks that need no graph make batches; a graph that some lack is an error.
  subroutine test_no_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(sample_type) :: samples(3)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    integer :: k

    do k = 1, 3
      call samples(k)%arrays%set("f", spread([1.0_dp*k, 2.0_dp], 2, k), error)
      if (allocated(error)) return
    end do
    call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (.not. allocated(error)) call loader%batch(1_int64, sample, error)
    if (allocated(error)) return
    call check(error, all(sample%arrays%shape("f") == [2, 3]) .and. sample%graph%n_src == 0, "joined")
    call samples(1)%graph%from_edges([1], [1], error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2, shuffle=.false.)
    if (allocated(error)) return
    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, "graph%batch: graphs(2) was never built")
  end subroutine test_no_graphs

  subroutine test_refused_samples(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(sample_type), allocatable :: samples(:)
    type(sample_type), pointer :: sample
    type(loader_type) :: loader
    type(array_type) :: x

    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, "loader: init comes first")
    call loader%init(samples, refused)
    call check_refused(error, refused, "loader: samples is not allocated")
    if (.not. allocated(error)) call make_samples(2, samples, error)
    if (allocated(error)) return
    call loader%init(samples, refused, batch_size=0)
    call check_refused(error, refused, "loader: batch_size is 0, needs 1 or more")
    call check(error, loader%batch_size == 1, "an error changes nothing")
    call samples(2)%arrays%set("f", [1.0_dp], error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size=2)
    if (allocated(error)) return
    call loader%batch(1_int64, sample, refused)
    call check_refused(error, refused, &
      & "join_weights: 'f' has another type or shape in part 2; only the last axis may differ")
    call tape%init(error)
    if (allocated(error)) return
    x = loader%samples(1)%array(tape, "g")
    call tape%check(refused)
    call check_refused(error, refused, "sample: there is no array 'g'")
  end subroutine test_refused_samples

  ! ---- training ----

  subroutine net_init(self, tape, initial)
    class(net_type), intent(inout) :: self
    type(tape_type), intent(in) :: tape
    type(initializer_type), intent(inout) :: initial

    call self%lift%init(tape, initial, "lift", [1, 8, 8])
    call self%gno%init(tape, initial, "gno", 8, 8, 1, n_hidden=8, reduction="sum")
    call self%project%init(tape, initial, "project", 8, 1)
  end subroutine net_init

  function net_parameters(self) result(list)
    class(net_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%lift%parameters(), self%gno%parameters(), self%project%parameters()]
  end function net_parameters

  function net_loss(self, tape, sample) result(loss)
    class(net_type), intent(in) :: self
    type(tape_type), intent(inout) :: tape
    type(sample_type), intent(in) :: sample
    type(array_type) :: loss, h

    h = self%lift%forward(sample%array(tape, "f"))
    h = self%gno%forward(h, sample%array(tape, "coords"), sample%graph)
    loss = mean((self%project%forward(h) - sample%array(tape, "sums"))**2)
  end function net_loss

  subroutine keep_report(self, step, loss, lr, seconds)
    class(quiet_type), intent(in) :: self
    integer, intent(in) :: step
    real(dp), intent(in) :: loss, lr, seconds

    last_step = step
    last_loss = loss
  end subroutine keep_report

  !> Everything that a training needs.
  subroutine prepare(tape, net, loader, adam, error, batch_size, seed)
    type(tape_type), intent(inout) :: tape
    type(net_type), intent(inout) :: net
    type(loader_type), intent(inout) :: loader
    type(adam_type), intent(inout) :: adam
    type(error_type), allocatable, intent(out) :: error
    integer, intent(in), optional :: batch_size, seed
    type(sample_type), allocatable :: samples(:)
    type(initializer_type) :: initial

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size, seed=1)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    initial = initializer_type(seed=2)
    if (present(seed)) initial%seed = seed
    call net%init(tape, initial)
    call adam%init(net%parameters(), 0.01_dp, error)
  end subroutine prepare

  subroutine test_learns(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    real(dp) :: before, behind
    integer :: mark

    call prepare(tape, net, loader, adam, error, 3)
    if (.not. allocated(error)) call evaluate(net, tape, loader, before, error)
    if (allocated(error)) return
    mark = tape%mark()
    training%n_steps = 150
    training%lr = 0.02_dp
    training%n_warmup = 10
    training%max_norm = 1
    training%report_every = 40
    call training%run(net, tape, loader, adam, error)
    if (.not. allocated(error)) call evaluate(net, tape, loader, behind, error)
    if (allocated(error)) return
    call check(error, behind < 0.02_dp*before, "the loss falls")
    call check(error, last_step == 150 .and. last_loss < 0.1_dp*before, "reports")
    call check(error, adam%steps == 150 .and. adam%lr < 1e-10_dp, "steps, rate")
    call check(error, tape%mark() == mark, "nothing is left on the tape")
  end subroutine test_learns

  !> Rates equal those of the functions of the same names, and are used in a run.
  subroutine test_schedules(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    real(dp) :: lr

    training = quiet_type(n_steps=100, lr=0.5_dp, n_warmup=4, last_lr=0.1_dp, decay=0.25_dp, &
      & decay_every=20)
    call check(error, same(cosine_rate(30, 100, 0.5_dp, 4, 0.1_dp)), "cosine is the default")
    training%schedule = "linear"
    call check(error, same(linear_rate(30, 100, 0.5_dp, 4, 0.1_dp)), "linear")
    training%schedule = "constant"
    call check(error, same(constant_rate(30, 0.5_dp, 4)), "constant")
    training%schedule = "step"
    call check(error, same(step_rate(30, 20, 0.5_dp, 0.25_dp, 4)), "step")
    training%schedule = "one_cycle"
    call check(error, same(one_cycle_rate(30, 100, 0.5_dp, 4, last=0.1_dp)), "one_cycle")
    training%n_warmup = 0
    call check(error, same(0.5_dp), "one_cycle: top by default")
    training%schedule = "exponential"
    call check(error, same(exponential_rate(30, 20, 0.5_dp, 0.25_dp)), "exponential")

    training%n_steps = 5
    training%lr = 1e-3_dp
    training%decay_every = 2
    lr = training%rate(5)
    call prepare(tape, net, loader, adam, error)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call check(error, abs(adam%lr - lr) < 1e-16 .and. abs(lr - 0.0625e-3_dp) < 1e-16, "of a run")

  contains

    logical function same(rate)
      real(dp), intent(in) :: rate

      same = abs(training%rate(30) - rate) < 1e-15
    end function same

  end subroutine test_schedules

  !> Five samples one after another give the gradients of their mean loss.
  subroutine test_accumulate(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    type(array_type) :: loss
    real(dp), allocatable :: found(:, :), wanted(:, :)
    integer :: k

    call prepare(tape, net, loader, adam, error)
    if (allocated(error)) return
    training%n_steps = 1
    training%lr = 0
    training%n_accumulate = 5
    training%report_every = 0
    call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call net%project%weight%grad(found)
    loss = net%loss(tape, loader%samples(1))
    do k = 2, 5
      loss = loss + net%loss(tape, loader%samples(k))
    end do
    call tape%backward(loss/5.0_dp, error)
    if (allocated(error)) return
    call net%project%weight%grad(wanted)
    call check(error, all(abs(found - wanted) < 1e-13_dp*maxval(abs(wanted))), "gradients")
  end subroutine test_accumulate

  !> Twelve steps, or seven, another program, and five more.
  subroutine test_resume(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape, other
    type(net_type) :: net, again
    type(loader_type) :: loader, second
    type(adam_type) :: adam, third
    type(quiet_type) :: training
    real(dp), allocatable :: whole(:, :), parts(:, :)

    training%n_steps = 12
    call prepare(tape, net, loader, adam, error, 2)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call net%gno%U%val(whole)
    call prepare(tape, again, second, third, error, 2)
    if (.not. allocated(error)) call stop_after(7)
    if (.not. allocated(error)) call prepare(other, again, second, third, error, 2)
    if (allocated(error)) return
    training%checkpoint = filename
    call training%run(again, other, second, third, error)
    if (allocated(error)) return
    call again%gno%U%val(parts)
    call check(error, third%steps == 12, "steps")
    call check(error, all(whole == parts), "the same bits")
    call remove()

  contains

    !> Train n steps and save, as if the process were killed behind a checkpoint.
    subroutine stop_after(n)
      integer, intent(in) :: n
      type(sample_type), pointer :: sample
      integer :: step, mark

      mark = tape%mark()
      do step = 1, n
        call second%batch(int(step, int64), sample, error)
        if (.not. allocated(error)) call tape%backward(again%loss(tape, sample), error)
        third%lr = training%rate(step)
        if (.not. allocated(error)) call third%step(error)
        if (allocated(error)) return
        call tape%rewind(mark)
      end do
      call third%save(filename, error)
    end subroutine stop_after

  end subroutine test_resume

  subroutine test_refused_training(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    integer :: unit

    call prepare(tape, net, loader, adam, error)
    if (allocated(error)) return
    training%n_accumulate = 0
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: n_accumulate is 0, needs 1 or more")
    training%n_accumulate = 1
    training%schedule = "triangle"
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: schedule is 'triangle', needs cosine, "// &
      & "linear, constant, step, exponential or one_cycle")
    training%schedule = "step"
    training%decay_every = 0
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: decay_every is 0, needs 1 or more")
    training%decay_every = 1
    call net%project%bias%set_value([huge(1.0_dp)])
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: the loss of step 1 is not finite")
    open (newunit=unit, file=filename)
    write (unit, "(a)") "something else"
    close (unit)
    training%checkpoint = filename
    call training%run(net, tape, loader, adam, refused)
    call check(error, allocated(refused), "a file that is none of ours")
    call check(error, adam%steps == 0, "nothing has changed")
    call remove()
  end subroutine test_refused_training

  !> Each with a tape of its own: as one after another.
  subroutine test_host_threads(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: together(8, 6), alone(8, 6)
    logical :: failed
    integer :: k

    failed = .false.
    !$omp parallel do default(none) shared(together) reduction(.or.: failed) num_threads(3)
    do k = 1, 6
      call train_alone(k, together(:, k), failed)
    end do
    do k = 1, 6
      call train_alone(k, alone(:, k), failed)
    end do
    call check(error, .not. failed, "no errors")
    call check(error, all(together == alone), "the same bits")
    call check(error, any(alone(:, 1) /= alone(:, 2)), "not all are one")
  end subroutine test_host_threads

  subroutine train_alone(seed, weights, failed)
    integer, intent(in) :: seed
    real(dp), intent(out) :: weights(8)
    logical, intent(inout) :: failed
    type(error_type), allocatable :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(training_type) :: training
    real(dp), allocatable :: values(:, :)

    weights = 0
    training%n_steps = 15
    training%report_every = 0
    call prepare(tape, net, loader, adam, error, 2, seed)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (.not. allocated(error)) call net%project%weight%val(values, error)
    failed = failed .or. allocated(error)
    if (.not. allocated(error)) weights = values(:, 1)
  end subroutine train_alone

  !> Memory of the process stays what it is behind the first steps.
  subroutine test_memory(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    integer(int64) :: before
    integer :: n_steps

    call prepare(tape, net, loader, adam, error, 2)
    if (allocated(error)) return
    n_steps = merge(500, 10000, short_run())
    training%n_steps = n_steps/5
    call training%run(net, tape, loader, adam, error)
    before = resident()
    if (before == 0 .or. allocated(error)) return  ! not on Linux
    training%n_steps = n_steps
    call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call check(error, adam%steps == n_steps, "steps")
    call check(error, resident() <= before + 1024*1024, "memory grows")
  end subroutine test_memory

  subroutine remove()
    integer :: unit

    open (newunit=unit, file=filename, status="old")
    close (unit, status="delete")
  end subroutine remove

end module test_layers

! SPDX-License-Identifier: MIT

!> Layers, and what they begin with.
module test_layers
  use gnograd
  use test_samples, only: make_samples
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: layers_tests, begin, same

contains

  function layers_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("what parameters begin with", test_initializer), &
      & test_type("dense", test_dense), &
      & test_type("a matrix and a bias are one node", test_dense_node), &
      & test_type("layer norm", test_layer_norm), &
      & test_type("layers that begin again", test_again), &
      & test_type("mlp", test_mlp), &
      & test_type("gno", test_gno), &
      & test_type("gat", test_gat), &
      & test_type("network on edges", test_edge_mlp), &
      & test_type("layers that cannot be", test_refused_layers)]
  end function layers_tests

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

end module test_layers

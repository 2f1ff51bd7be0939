! SPDX-License-Identifier: MIT

!> What no law says of operators: a value worked by hand, texts of errors, and values of arguments
!> that mean nothing.
module test_operators
  use gnograd, only: gno_forward, gno_vjp, act_relu, act_gelu, reduce_sum, reduce_mean, &
    & kernel_full, kernel_diagonal, graph_type, error_type, dp, int64
  use operators
  use test_laws, only: begin
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: operators_tests

contains

  function operators_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("value of a small sum", test_value), &
      & test_type("texts of errors", test_texts), &
      & test_type("wrong values, attention on graphs", test_graph_attention), &
      & test_type("wrong values, gno and networks", test_networks), &
      & test_type("wrong values, other sums", test_sums), &
      & test_type("wrong values, attention", test_attention)]
  end function operators_tests

  !> Two edges into the first of two destinations.
  subroutine test_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp) :: out(1, 2, 2)

    call graph%init([1, 3, 3], [1, 2], 2, error)
    if (allocated(error)) return
    ! hid = max(coords, 0), kappa = 2 hid + 1: 5 for the first edge, 1 for the second
    call gno_forward(graph%view(), act_relu, reduce_sum, kernel_full, &
      & h=reshape([10.0_dp, 100.0_dp, 1.0_dp, 2.0_dp], [1, 2, 2]), &
      & coords=reshape([2.0_dp, -3.0_dp], [1, 2]), u=reshape([1.0_dp], [1, 1]), b_u=[0.0_dp], &
      & v=reshape([2.0_dp], [1, 1, 1]), b_v=reshape([1.0_dp], [1, 1]), &
      & edge_weight=[1.0_dp, 0.5_dp], out=out, error=error)
    if (allocated(error)) return
    call check(error, all(abs([out] - [100.0_dp, 0.0_dp, 6.0_dp, 0.0_dp]) < 1e-12_dp), &
      & "value")
  end subroutine test_value

  !> Shapes and codes are checked alike for all operators.
  subroutine test_texts(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(graph_type) :: graph
    integer, parameter :: right(3) = [act_gelu, reduce_mean, kernel_full]
    real(dp) :: h(5, 2, 2), coords(2, 3), u(6, 2), b_u(6), v(3, 5, 6), b_v(3, 5), out(3, 2, 2)

    call graph%init([1, 3, 4], [1, 2, 1], 2, error)
    if (allocated(error)) return
    h(:, :, :) = 7
    coords(:, :) = 7
    u(:, :) = 7
    b_u(:) = 7
    v(:, :, :) = 7
    b_v(:, :) = 7
    out(:, :, :) = 7
    call forward([17, right(2:)], h)
    call check_refused(error, refused, "gno: activation must be one of "// &
      & "relu, gelu, silu, tanh, sin, identity")
    call forward([right(1), 17, right(3)], h)
    call check_refused(error, refused, "gno: reduction must be one of sum, mean")
    call forward([right(:2), 17], h)
    call check_refused(error, refused, "gno: kernel must be one of full, diagonal")
    call forward([right(:2), kernel_diagonal], h)
    call check_refused(error, refused, "gno: h has shape 5 2 2, needs 3 2 2")
    call forward(right, h(:, 2:, :))
    call check_refused(error, refused, "gno: h has shape 5 1 2, needs 5 2 2")
    call forward(right)
    call check_refused(error, refused, "gno: a full kernel needs h")
    call vjp(out(:, 2:, :), b_v, h)
    call check_refused(error, refused, "gno: cotangent has shape 3 1 2, needs 3 2 2")
    call vjp(out, b_v, h(:, :, 2:))
    call check_refused(error, refused, "gno: grad_h has shape 5 2 1, needs 5 2 2")
    call vjp(out, b_v(:, 2:), h)
    call check_refused(error, refused, "gno: b_v has shape 3 4, needs 3 5")
    call check(error, all(out == 7) .and. all(h == 7), "results changed in spite of an error")

  contains

    subroutine forward(codes, h)
      integer, intent(in) :: codes(3)
      real(dp), intent(in), contiguous, optional :: h(:, :, :)

      call gno_forward(graph%view(), codes(1), codes(2), codes(3), h, coords, u, b_u, v, b_v, &
        & out=out, error=refused)
    end subroutine forward

    subroutine vjp(cotangent, b_v, grad_h)
      real(dp), intent(in), contiguous :: cotangent(:, :, :), b_v(:, :)
      real(dp), intent(inout), contiguous :: grad_h(:, :, :)

      call gno_vjp(graph%view(), right(1), right(2), right(3), cotangent, 1*h, coords, u, b_u, v, &
        & b_v, grad_h=grad_h, error=refused)
    end subroutine vjp

  end subroutine test_texts

  subroutine test_graph_attention(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable :: x(:)

    call make("mha_gat", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (mha_gat_operator)
      operator%dropout = 1.5_dp
      call refuse(operator, x, "dropout must be from 0 to 1", error)
      operator%dropout = 0.5_dp
      call refuse(operator, x, "with dropout there must be a seed", error)
      operator%seed = [1_int64, 2_int64]
      call refuse(operator, x, "seed has shape 2, needs 1", error)
      operator%dropout = 0
      deallocate (operator%seed)
      operator%ranks(4) = 0
      call refuse(operator, x, "a has weights for edge features, but e is missing", error)
      operator%n_heads = 0
      call refuse(operator, x, "num_heads must be at least 1", error)
    end select
  end subroutine test_graph_attention

  subroutine test_networks(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable :: x(:)

    call make("edge_mlp", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (edge_mlp_operator)
      operator%widths = [integer(int64) ::]
      call refuse(operator, x, "widths is empty", error)
      operator%widths = [4_int64, 0_int64]
      call refuse(operator, x, "widths must be at least 1", error)
    end select
    call make("gno_with_laplacian", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (gno_with_laplacian_operator)
      operator%widths = [integer(int64) ::]
      call refuse(operator, x, "widths is empty", error)
      operator%widths = [2_int64**40]
      call refuse(operator, x, "layers has shape", error)
      operator%widths = [4_int64, 3_int64]
      operator%ranks(7) = 0
      call refuse(operator, x, "weight_derivatives goes with edge_weight", error)
      operator%ranks(7) = 1
      operator%ranks(1) = 0
      call refuse(operator, x, "a full kernel needs h", error)
    end select
  end subroutine test_networks

  subroutine test_sums(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable :: x(:)

    call make("agg_relational", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (agg_relational_operator)
      operator%edge_type(6) = 7
      call refuse(operator, x, "edge_type[5] is 7, not one of 3 relations", error)
      operator%edge_type = operator%edge_type(2:)
      call refuse(operator, x, "edge_type has shape 146, needs 147", error)
      operator%n_relations = 0
      call refuse(operator, x, "n_relations must be at least 1", error)
    end select
    call make("radial_basis", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (radial_basis_operator)
      operator%exponent = 0
      call refuse(operator, x, "exponent is 0, needs 1 to 100", error)
      operator%exponent = 2_int64**32 + 5
      call refuse(operator, x, "exponent is 4294967301, needs 1 to 100", error)
      operator%n_spherical = 11
      call refuse(operator, x, "n_spherical is 11, needs 1 to 10", error)
    end select
    call make("agg_edge_to_edge", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (agg_edge_to_edge_operator)
      operator%n_radial = 17
      call refuse(operator, x, "n_radial is 17, needs 1 to 16", error)
    end select
  end subroutine test_sums

  subroutine test_attention(error)
    type(error_type), allocatable, intent(out) :: error
    class(plain_type), allocatable :: operator
    real(dp), allocatable :: x(:)

    call make("attention", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (attention_operator)
      operator%shapes(2, 5) = 3
      call refuse(operator, x, "temperature has one row of heads, or one for every query", error)
      operator%shapes(2, 5) = 7
      x(operator%last_of(5)) = 0
      call refuse(operator, x, "temperature must be positive", error)
    end select
    call make("selected_attention", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (selected_attention_operator)
      operator%cu_q = [0_int64, operator%n_queries]
      call refuse(operator, x, "cu_k has shape 3, needs 2", error)
      operator%cu_q = [0_int64, 3_int64, operator%n_queries]
      operator%block_index(2, 1, 6) = 3
      call refuse(operator, x, "block_index names a block that the sequence of query 5 does not " &
        & //"have", error)
      operator%query_block = 2
      call refuse(operator, x, "block_index has shape 2 2 7, needs 2 2 4", error)
      operator%query_block = 1
      operator%block_index(2, 1, 6) = 0
      operator%block_size = 257
      call refuse(operator, x, "block_size must lie between 1 and 256", error)
    end select
    call make("compressed_attention", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (compressed_attention_operator)
      operator%block = 0
      call refuse(operator, x, "block and stride must be at least 1", error)
    end select
    call make("window_attention", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (window_attention_operator)
      operator%window = -1
      call refuse(operator, x, "window must be at least 1", error)
      operator%window = 3
      operator%q_offset = 2_int64**32
      call refuse(operator, x, "q_offset must lie between -2^31 and 2^31", error)
    end select
    call make("compress", operator, x, error)
    if (allocated(error)) return
    select type (operator)
    type is (compress_operator)
      operator%n_compressed = operator%n_compressed + 1
      call refuse(operator, x, "out has shape 3 2 15, needs 3 2 14", error)
      operator%stride = 0
      call refuse(operator, x, "block and stride must be at least 1", error)
    end select
  end subroutine test_attention

  !> The first form of an operator, and inputs.
  subroutine make(name, operator, x, error)
    character(len=*), intent(in) :: name
    class(plain_type), allocatable, intent(inout) :: operator
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(inout) :: error

    if (.not. allocated(error)) call begin(findloc(case_names, name, 1), operator, x, error)
  end subroutine make

  !> Raise an error unless the operator refuses its arguments with a text that begins so.
  subroutine refuse(operator, x, text, error)
    class(plain_type), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    character(len=*), intent(in) :: text
    type(error_type), allocatable, intent(inout) :: error
    type(error_type), allocatable :: refused
    real(dp), allocatable, target :: y(:)

    allocate (y(operator%n_out + 1000), source=7.0_dp)
    call operator%evaluate(x, y, refused)
    if (.not. allocated(refused)) then
      call check(error, .false., "not refused: "//text)
    else
      call check(error, index(refused%message, ": "//text) > 0 .and. all(y == 7), &
        & "'"//refused%message//"' for '"//text//"'")
    end if
  end subroutine refuse

end module test_operators

! SPDX-License-Identifier: MIT

!> One GNO layer on one process that has the whole graph, and on all of them.
module layer
  use mpi_f08, only: MPI_COMM_WORLD
  use gnograd, only: dp, int64, error_type, graph_type, tape_type, array_type, gno
  use gnograd_mpi, only: communicator_type, distributed_graph_type, halo, global_sum
  use problem, only: problem_type, part_type, make_problem, part_of, distribute, feature, node_of
  implicit none
  private
  public :: layer_type, weights_type, make_layer, make_weights, apply, values, total, near
  public :: f_in, f_out, n_hidden

  integer, parameter :: f_in = 3, f_out = 2, n_hidden = 4

  !> A GNO layer's graph, and the numbers of its nodes and edges, on one process or on all.
  type :: layer_type
    type(graph_type) :: graph
    !> Nodes of destinations, of sources before the halo, and edges, of the whole problem
    integer(int64), allocatable :: dst(:), src(:), edges(:)
    !> True if the sources are the destinations
    logical :: is_square = .true.
    !> True on many processes
    logical :: is_distributed = .false.
    type(distributed_graph_type) :: distributed
  end type layer_type

  !> Parameters of the layer
  type :: weights_type
    type(array_type) :: u, b_u, v, b_v
  end type weights_type

contains

  subroutine make_layer(layout, many, it, error)
    character(len=*), intent(in) :: layout
    logical, intent(in) :: many
    type(layer_type), intent(out) :: it
    type(error_type), allocatable, intent(inout) :: error
    type(communicator_type) :: all
    type(problem_type) :: whole
    type(part_type) :: part
    integer(int64) :: k

    call all%init(MPI_COMM_WORLD, error)
    whole = make_problem(layout, all%size)
    it%is_square = .not. whole%bipartite
    it%is_distributed = many
    if (many) then
      part = part_of(whole, all%rank)
      call distribute(whole, part, it%distributed, error)
      if (allocated(error)) return
      it%graph = it%distributed%local
      it%dst = part%nodes(it%distributed%rows)
      it%src = node_of(it%distributed%owned_src)
      it%edges = part%edges(it%distributed%edges)
    else
      call it%graph%init(whole%offsets, whole%sources, whole%n_src, error)
      it%dst = [(k, k=1, whole%n_dst)]
      it%src = [(k, k=1, whole%n_src)]
      it%edges = [(k, k=1, size(whole%sources))]
    end if
  end subroutine make_layer

  function values(n, nodes) result(x)
    integer, intent(in) :: n
    integer(int64), intent(in) :: nodes(:)
    real(dp) :: x(n, size(nodes))
    integer :: k

    do k = 1, n
      x(k, :) = feature(k, nodes)
    end do
  end function values

  function make_weights(tape) result(w)
    type(tape_type), intent(in) :: tape
    type(weights_type) :: w
    integer(int64) :: k

    w%u = tape%parameter(values(n_hidden, [1_int64, 2_int64]))
    w%b_u = tape%parameter(feature(1, [(k, k=1, n_hidden)]))
    w%v = tape%parameter(reshape(values(f_out, [(k, k=1, f_in*n_hidden)]), &
      & [f_out, f_in, n_hidden]))
    w%b_v = tape%parameter(values(f_out, [(k, k=30, 29 + f_in)]))
  end function make_weights

  !> The GNO layer on h of own sources.
  function apply(it, tape, h, w) result(out)
    type(layer_type), intent(in) :: it
    type(tape_type), intent(in) :: tape
    type(array_type), intent(in) :: h
    type(weights_type), intent(in) :: w
    type(array_type) :: out, h_ext

    h_ext = h
    if (it%is_distributed) h_ext = halo(h, it%distributed)
    out = gno(h_ext, tape%constant(values(2, it%edges)), w%u, w%b_u, w%v, w%b_v, it%graph, &
      & activation="gelu", reduction="mean")
  end function apply

  function total(it, x) result(y)
    type(layer_type), intent(in) :: it
    type(array_type), intent(in) :: x
    type(array_type) :: y

    y = x
    if (it%is_distributed) y = global_sum(x, it%distributed)
  end function total

  !> |a - b| against the largest number of b
  logical function near(a, b, tolerance)
    real(dp), intent(in) :: a(:), b(:), tolerance

    near = size(a) == size(b)
    if (near .and. size(a) > 0) near = maxval(abs(a - b)) <= tolerance*maxval(abs(b))
  end function near

end module layer

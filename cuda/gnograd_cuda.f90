! SPDX-License-Identifier: MIT
! Written by tools/interface/cuda.py from gnograd_cuda.h, where every function is explained.

!> The CUDA library from Fortran, with arrays in device memory (OpenACC, OpenMP, CUDA Fortran).
!>
!> This file is source, so that any compiler can compile it; programs that call these functions
!> link libgnograd_cuda. Arrays are addresses in device memory (c_loc in a region of host_data
!> use_device or target data use_device_addr, c_devloc in CUDA Fortran), axes in the reverse of the
!> header's order; c_null_ptr is "null" there. Nodes and edges are counted from 0. Functions for
!> 16-bit numbers are left out.
module gnograd_cuda
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_ptr, c_null_ptr, &
    & c_size_t
  implicit none
  public

  integer(c_int), parameter :: gnograd_cuda_workspace = -1
  integer(c_int), parameter :: gnograd_cuda_value = -2
  integer(c_int), parameter :: gnograd_cuda_device = -3

  integer(c_int), parameter :: gnograd_cuda_f32 = 0
  integer(c_int), parameter :: gnograd_cuda_f64 = 1
  integer(c_int), parameter :: gnograd_cuda_f16 = 2
  integer(c_int), parameter :: gnograd_cuda_bf16 = 3
  integer(c_int), parameter :: gnograd_cuda_i32 = 4
  integer(c_int), parameter :: gnograd_cuda_i64 = 5

  integer(c_int), parameter :: gnograd_cuda_negative = 0
  integer(c_int), parameter :: gnograd_cuda_exp = 1
  integer(c_int), parameter :: gnograd_cuda_log = 2
  integer(c_int), parameter :: gnograd_cuda_sqrt = 3
  integer(c_int), parameter :: gnograd_cuda_sin = 4
  integer(c_int), parameter :: gnograd_cuda_cos = 5
  integer(c_int), parameter :: gnograd_cuda_abs = 6
  integer(c_int), parameter :: gnograd_cuda_sign_of = 7
  integer(c_int), parameter :: gnograd_cuda_inverse = 8
  integer(c_int), parameter :: gnograd_cuda_sigmoid = 9
  integer(c_int), parameter :: gnograd_cuda_monomial = 10
  integer(c_int), parameter :: gnograd_cuda_relu = 11
  integer(c_int), parameter :: gnograd_cuda_gelu = 12
  integer(c_int), parameter :: gnograd_cuda_silu = 13
  integer(c_int), parameter :: gnograd_cuda_tanh = 14

  integer(c_int), parameter :: gnograd_cuda_add = 0
  integer(c_int), parameter :: gnograd_cuda_subtract = 1
  integer(c_int), parameter :: gnograd_cuda_multiply = 2
  integer(c_int), parameter :: gnograd_cuda_divide = 3
  integer(c_int), parameter :: gnograd_cuda_power = 4
  integer(c_int), parameter :: gnograd_cuda_maximum = 5
  integer(c_int), parameter :: gnograd_cuda_minimum = 6
  integer(c_int), parameter :: gnograd_cuda_above = 7
  integer(c_int), parameter :: gnograd_cuda_relu_slope = 8
  integer(c_int), parameter :: gnograd_cuda_gelu_slope = 9
  integer(c_int), parameter :: gnograd_cuda_silu_slope = 10
  integer(c_int), parameter :: gnograd_cuda_tanh_slope = 11

  !> Arrays of a graph grouped by the node at one end, in device memory
  type, bind(C) :: gnograd_cuda_csc
    !> [n_rows+1]
    type(c_ptr) :: offsets = c_null_ptr
    !> Node at the other end, 32-bit integers [n_edges]
    type(c_ptr) :: indices = c_null_ptr
    !> Row of the edge table [n_edges], or null: the position itself
    type(c_ptr) :: edge = c_null_ptr
    !> Place in by_dst [n_edges] (by_src only), or null: same as edge
    type(c_ptr) :: position = c_null_ptr
  end type gnograd_cuda_csc

  !> A graph, as gnograd_cuda.h has it
  type, bind(C) :: gnograd_cuda_graph
    integer(c_int64_t) :: n_src = 0, n_dst = 0, n_edges = 0
    type(gnograd_cuda_csc) :: by_dst, by_src
  end type gnograd_cuda_graph

  interface
    function gnograd_cuda_abi_version() result(outcome) bind(C)
      import :: c_int
      integer(c_int) :: outcome
    end function gnograd_cuda_abi_version

    function gnograd_cuda_error_string(status) result(outcome) bind(C)
      import :: c_int, c_ptr
      integer(c_int), value :: status
      type(c_ptr) :: outcome
    end function gnograd_cuda_error_string

    function gnograd_cuda_device_count(n) result(outcome) bind(C)
      import :: c_int
      integer(c_int), intent(out) :: n
      integer(c_int) :: outcome
    end function gnograd_cuda_device_count

    function gnograd_cuda_device_name(device, length, name) result(outcome) bind(C)
      import :: c_char, c_int, c_int64_t
      integer(c_int), value :: device
      integer(c_int64_t), value :: length
      character(kind=c_char), intent(out) :: name(*)
      integer(c_int) :: outcome
    end function gnograd_cuda_device_name

    function gnograd_cuda_device_usable(device) result(outcome) bind(C)
      import :: c_int
      integer(c_int), value :: device
      integer(c_int) :: outcome
    end function gnograd_cuda_device_usable

    function gnograd_cuda_device_of(memory, device) result(outcome) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
      integer(c_int), intent(out) :: device
      integer(c_int) :: outcome
    end function gnograd_cuda_device_of

    function gnograd_cuda_current_device(device) result(outcome) bind(C)
      import :: c_int
      integer(c_int), intent(out) :: device
      integer(c_int) :: outcome
    end function gnograd_cuda_current_device

    function gnograd_cuda_use_device(device) result(outcome) bind(C)
      import :: c_int
      integer(c_int), value :: device
      integer(c_int) :: outcome
    end function gnograd_cuda_use_device

    function gnograd_cuda_allocate(bytes, memory, stream) result(outcome) bind(C)
      import :: c_int, c_ptr, c_size_t
      integer(c_size_t), value :: bytes
      type(c_ptr), intent(out) :: memory
      type(c_ptr), value :: stream
      integer(c_int) :: outcome
    end function gnograd_cuda_allocate

    function gnograd_cuda_free(memory, stream) result(outcome) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_free

    function gnograd_cuda_hold(bytes, from, memory) result(outcome) bind(C)
      import :: c_int, c_ptr, c_size_t
      integer(c_size_t), value :: bytes
      type(c_ptr), value :: from
      type(c_ptr), intent(out) :: memory
      integer(c_int) :: outcome
    end function gnograd_cuda_hold

    function gnograd_cuda_release(memory) result(outcome) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
      integer(c_int) :: outcome
    end function gnograd_cuda_release

    function gnograd_cuda_copy(to, from, bytes, stream) result(outcome) bind(C)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from, stream
      integer(c_size_t), value :: bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_copy

    function gnograd_cuda_synchronize(stream) result(outcome) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
      integer(c_int) :: outcome
    end function gnograd_cuda_synchronize

    function gnograd_cuda_wait(stream, other, device) result(outcome) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream, other
      integer(c_int), value :: device
      integer(c_int) :: outcome
    end function gnograd_cuda_wait

    function gnograd_cuda_assign(n_dims, shape, to, to_type, to_strides, from, from_type, &
      & from_strides, add, stream) result(outcome) bind(C)
      import :: c_int, c_ptr
      integer(c_int), value :: n_dims, to_type, from_type, add
      type(c_ptr), value :: shape, to, to_strides, from, from_strides, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_assign

    function gnograd_cuda_use_tf32(on) result(outcome) bind(C)
      import :: c_int
      integer(c_int), value :: on
      integer(c_int) :: outcome
    end function gnograd_cuda_use_tf32

    function gnograd_cuda_tape_fill(type, n, number, x, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: n
      real(c_double), value :: number
      type(c_ptr), value :: x, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_fill

    function gnograd_cuda_tape_unary(type, function, parameter, n, a, c, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr
      integer(c_int), value :: type, function
      real(c_double), value :: parameter
      integer(c_int64_t), value :: n
      type(c_ptr), value :: a, c, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_unary

    function gnograd_cuda_tape_binary(type, function, a_extents, b_extents, a, b, c, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_ptr
      integer(c_int), value :: type, function
      type(c_ptr), value :: a_extents, b_extents, a, b, c, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_binary

    function gnograd_cuda_tape_sum_workspace_bytes(type, x_extents, &
      & y_extents) result(outcome) bind(C)
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: type
      type(c_ptr), value :: x_extents, y_extents
      integer(c_size_t) :: outcome
    end function gnograd_cuda_tape_sum_workspace_bytes

    function gnograd_cuda_tape_sum(type, x_extents, y_extents, x, y, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: type
      type(c_ptr), value :: x_extents, y_extents, x, y, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_sum

    function gnograd_cuda_tape_softmax(type, inner, length, outer, x, y, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: inner, length, outer
      type(c_ptr), value :: x, y, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_softmax

    function gnograd_cuda_tape_gather(type, width, n, index, x, y, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: width, n
      type(c_ptr), value :: index, x, y, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_gather

    function gnograd_cuda_tape_scatter(type, width, n_columns, offsets, places, x, y, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: width, n_columns
      type(c_ptr), value :: offsets, places, x, y, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_scatter

    function gnograd_cuda_tape_product_workspace_bytes(type, m, n, depth) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int), value :: type
      integer(c_int64_t), value :: m, n, depth
      integer(c_size_t) :: outcome
    end function gnograd_cuda_tape_product_workspace_bytes

    function gnograd_cuda_tape_product(type, transpose_a, transpose_b, m, n, depth, a, b, c, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int), value :: type, transpose_a, transpose_b
      integer(c_int64_t), value :: m, n, depth
      type(c_ptr), value :: a, b, c, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_product

    function gnograd_cuda_tape_adam(type, n, beta1, beta2, eps, decay, rate, root, keep, grad, m, &
      & v, x, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: n
      real(c_double), value :: beta1, beta2, eps, decay, rate, root, keep
      type(c_ptr), value :: grad, m, v, x, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_adam

    function gnograd_cuda_tape_descend(type, n, momentum, rate, grad, m, x, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr
      integer(c_int), value :: type
      integer(c_int64_t), value :: n
      real(c_double), value :: momentum, rate
      type(c_ptr), value :: grad, m, x, stream
      integer(c_int) :: outcome
    end function gnograd_cuda_tape_descend

    function gnograd_cuda_prototypes() result(outcome) bind(C)
      import :: c_ptr
      type(c_ptr) :: outcome
    end function gnograd_cuda_prototypes

    function gnograd_cuda_graph_from_edges_largest_workspace_bytes_i32(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_largest_workspace_bytes_i32

    function gnograd_cuda_graph_from_edges_largest_i32(n_src, n_dst, n_given, self_loops, src, &
      & dst, largest, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, largest, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_largest_i32

    function gnograd_cuda_graph_from_edges_build_workspace_bytes_i32(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_build_workspace_bytes_i32

    function gnograd_cuda_graph_from_edges_build_i32(n_src, n_dst, n_given, self_loops, src, dst, &
      & offsets, indices, edge_ids, src_offsets, src_indices, src_edges, src_positions, found, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, offsets, indices, edge_ids, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_build_i32

    function gnograd_cuda_graph_from_edges_rows_workspace_bytes_i32(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_rows_workspace_bytes_i32

    function gnograd_cuda_graph_from_edges_rows_i32(n_src, n_dst, n_given, self_loops, src, dst, &
      & offsets, indices, edge_ids, src_offsets, src_indices, src_edges, src_positions, found, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, offsets, indices, edge_ids, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_rows_i32

    function gnograd_cuda_graph_from_edges_largest_workspace_bytes_i64(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_largest_workspace_bytes_i64

    function gnograd_cuda_graph_from_edges_largest_i64(n_src, n_dst, n_given, self_loops, src, &
      & dst, largest, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, largest, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_largest_i64

    function gnograd_cuda_graph_from_edges_build_workspace_bytes_i64(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_build_workspace_bytes_i64

    function gnograd_cuda_graph_from_edges_build_i64(n_src, n_dst, n_given, self_loops, src, dst, &
      & offsets, indices, edge_ids, src_offsets, src_indices, src_edges, src_positions, found, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, offsets, indices, edge_ids, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_build_i64

    function gnograd_cuda_graph_from_edges_rows_workspace_bytes_i64(n_src, n_dst, n_given, &
      & self_loops) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_edges_rows_workspace_bytes_i64

    function gnograd_cuda_graph_from_edges_rows_i64(n_src, n_dst, n_given, self_loops, src, dst, &
      & offsets, indices, edge_ids, src_offsets, src_indices, src_edges, src_positions, found, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_int), value :: self_loops
      type(c_ptr), value :: src, dst, offsets, indices, edge_ids, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_edges_rows_i64

    function gnograd_cuda_graph_rows_ends_workspace_bytes_i32(n_dst, &
      & n_edges) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_dst, n_edges
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_rows_ends_workspace_bytes_i32

    function gnograd_cuda_graph_rows_ends_i32(n_dst, n_edges, offsets, indices, edge_ids, src, &
      & dst, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_dst, n_edges
      type(c_ptr), value :: offsets, indices, edge_ids, src, dst, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_rows_ends_i32

    function gnograd_cuda_graph_union_first_workspace_bytes_i32(n_src, n_dst, &
      & n_given) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_union_first_workspace_bytes_i32

    function gnograd_cuda_graph_union_first_i32(n_src, n_dst, n_given, src, dst, kept_src, &
      & kept_dst, found, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_given
      type(c_ptr), value :: src, dst, kept_src, kept_dst, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_union_first_i32

    function gnograd_cuda_graph_from_csc_build_workspace_bytes_i32(n_src, n_dst, &
      & n_edges) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_edges
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_csc_build_workspace_bytes_i32

    function gnograd_cuda_graph_from_csc_build_i32(n_src, n_dst, n_edges, offsets, sources, &
      & edge_ids, indices, src_offsets, src_indices, src_edges, src_positions, found, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_edges
      type(c_ptr), value :: offsets, sources, edge_ids, indices, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_csc_build_i32

    function gnograd_cuda_graph_from_csc_build_workspace_bytes_i64(n_src, n_dst, &
      & n_edges) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_edges
      integer(c_size_t) :: outcome
    end function gnograd_cuda_graph_from_csc_build_workspace_bytes_i64

    function gnograd_cuda_graph_from_csc_build_i64(n_src, n_dst, n_edges, offsets, sources, &
      & edge_ids, indices, src_offsets, src_indices, src_edges, src_positions, found, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, n_edges
      type(c_ptr), value :: offsets, sources, edge_ids, indices, src_offsets, src_indices, &
        & src_edges, src_positions, found, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_graph_from_csc_build_i64

    function gnograd_cuda_agg_weighted_forward_workspace_bytes_f32(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_forward_workspace_bytes_f32

    function gnograd_cuda_agg_weighted_forward_f32(graph, n_features, aggregation, x, w, out, &
      & location, degree, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, out, location, degree, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_forward_f32

    function gnograd_cuda_agg_weighted_vjp_workspace_bytes_f32(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_vjp_workspace_bytes_f32

    function gnograd_cuda_agg_weighted_vjp_f32(graph, n_features, aggregation, cotangent, x, w, &
      & out, location, degree, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, out, location, degree, grad_x, grad_w, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_vjp_f32

    function gnograd_cuda_agg_weighted_jvp_workspace_bytes_f32(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_jvp_workspace_bytes_f32

    function gnograd_cuda_agg_weighted_jvp_f32(graph, n_features, aggregation, x, w, t_x, t_w, &
      & t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, t_x, t_w, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_jvp_f32

    function gnograd_cuda_agg_weighted_hvp_workspace_bytes_f32(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_hvp_workspace_bytes_f32

    function gnograd_cuda_agg_weighted_hvp_f32(graph, n_features, aggregation, cotangent, x, w, &
      & t_x, t_w, grad_x, grad_w, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_hvp_f32

    function gnograd_cuda_agg_weighted_forward_workspace_bytes_f64(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_forward_workspace_bytes_f64

    function gnograd_cuda_agg_weighted_forward_f64(graph, n_features, aggregation, x, w, out, &
      & location, degree, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, out, location, degree, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_forward_f64

    function gnograd_cuda_agg_weighted_vjp_workspace_bytes_f64(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_vjp_workspace_bytes_f64

    function gnograd_cuda_agg_weighted_vjp_f64(graph, n_features, aggregation, cotangent, x, w, &
      & out, location, degree, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, out, location, degree, grad_x, grad_w, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_vjp_f64

    function gnograd_cuda_agg_weighted_jvp_workspace_bytes_f64(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_jvp_workspace_bytes_f64

    function gnograd_cuda_agg_weighted_jvp_f64(graph, n_features, aggregation, x, w, t_x, t_w, &
      & t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, t_x, t_w, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_jvp_f64

    function gnograd_cuda_agg_weighted_hvp_workspace_bytes_f64(graph, n_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_weighted_hvp_workspace_bytes_f64

    function gnograd_cuda_agg_weighted_hvp_f64(graph, n_features, aggregation, cotangent, x, w, &
      & t_x, t_w, grad_x, grad_w, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_weighted_hvp_f64

    function gnograd_cuda_agg_simple_forward_workspace_bytes_f32(graph, n_features, &
      & n_edge_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_forward_workspace_bytes_f32

    function gnograd_cuda_agg_simple_forward_f32(graph, n_features, n_edge_features, aggregation, &
      & x, e, out, location, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, e, out, location, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_forward_f32

    function gnograd_cuda_agg_simple_vjp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_vjp_workspace_bytes_f32

    function gnograd_cuda_agg_simple_vjp_f32(graph, n_features, n_edge_features, aggregation, &
      & cotangent, x, e, location, grad_x, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, e, location, grad_x, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_vjp_f32

    function gnograd_cuda_agg_simple_jvp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_jvp_workspace_bytes_f32

    function gnograd_cuda_agg_simple_jvp_f32(graph, n_features, n_edge_features, aggregation, x, &
      & e, t_x, t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, e, t_x, t_e, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_jvp_f32

    function gnograd_cuda_agg_simple_hvp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_hvp_workspace_bytes_f32

    function gnograd_cuda_agg_simple_hvp_f32(graph, n_features, n_edge_features, aggregation, &
      & cotangent, x, e, t_x, t_e, grad_x, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, e, t_x, t_e, grad_x, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_hvp_f32

    function gnograd_cuda_agg_simple_forward_workspace_bytes_f64(graph, n_features, &
      & n_edge_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_forward_workspace_bytes_f64

    function gnograd_cuda_agg_simple_forward_f64(graph, n_features, n_edge_features, aggregation, &
      & x, e, out, location, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, e, out, location, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_forward_f64

    function gnograd_cuda_agg_simple_vjp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_vjp_workspace_bytes_f64

    function gnograd_cuda_agg_simple_vjp_f64(graph, n_features, n_edge_features, aggregation, &
      & cotangent, x, e, location, grad_x, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, e, location, grad_x, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_vjp_f64

    function gnograd_cuda_agg_simple_jvp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_jvp_workspace_bytes_f64

    function gnograd_cuda_agg_simple_jvp_f64(graph, n_features, n_edge_features, aggregation, x, &
      & e, t_x, t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, e, t_x, t_e, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_jvp_f64

    function gnograd_cuda_agg_simple_hvp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_simple_hvp_workspace_bytes_f64

    function gnograd_cuda_agg_simple_hvp_f64(graph, n_features, n_edge_features, aggregation, &
      & cotangent, x, e, t_x, t_e, grad_x, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, e, t_x, t_e, grad_x, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_simple_hvp_f64

    function gnograd_cuda_agg_concat_forward_workspace_bytes_f32(graph, n_features, &
      & n_edge_features, n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_forward_workspace_bytes_f32

    function gnograd_cuda_agg_concat_forward_f32(graph, n_features, n_edge_features, &
      & n_own_features, aggregation, x, w, e, own, out, location, degree, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, e, own, out, location, degree, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_forward_f32

    function gnograd_cuda_agg_concat_vjp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_vjp_workspace_bytes_f32

    function gnograd_cuda_agg_concat_vjp_f32(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, cotangent, x, w, e, own, out, location, degree, grad_x, grad_w, grad_e, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, e, own, out, location, degree, grad_x, grad_w, &
        & grad_e, grad_own, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_vjp_f32

    function gnograd_cuda_agg_concat_jvp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_jvp_workspace_bytes_f32

    function gnograd_cuda_agg_concat_jvp_f32(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, x, w, e, own, t_x, t_w, t_e, t_own, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, e, own, t_x, t_w, t_e, t_own, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_jvp_f32

    function gnograd_cuda_agg_concat_hvp_workspace_bytes_f32(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_hvp_workspace_bytes_f32

    function gnograd_cuda_agg_concat_hvp_f32(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, cotangent, x, w, e, own, t_x, t_w, t_e, t_own, grad_x, grad_w, grad_e, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, e, own, t_x, t_w, t_e, t_own, grad_x, grad_w, &
        & grad_e, grad_own, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_hvp_f32

    function gnograd_cuda_agg_concat_forward_workspace_bytes_f64(graph, n_features, &
      & n_edge_features, n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_forward_workspace_bytes_f64

    function gnograd_cuda_agg_concat_forward_f64(graph, n_features, n_edge_features, &
      & n_own_features, aggregation, x, w, e, own, out, location, degree, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, e, own, out, location, degree, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_forward_f64

    function gnograd_cuda_agg_concat_vjp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_vjp_workspace_bytes_f64

    function gnograd_cuda_agg_concat_vjp_f64(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, cotangent, x, w, e, own, out, location, degree, grad_x, grad_w, grad_e, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, e, own, out, location, degree, grad_x, grad_w, &
        & grad_e, grad_own, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_vjp_f64

    function gnograd_cuda_agg_concat_jvp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_jvp_workspace_bytes_f64

    function gnograd_cuda_agg_concat_jvp_f64(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, x, w, e, own, t_x, t_w, t_e, t_own, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: x, w, e, own, t_x, t_w, t_e, t_own, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_jvp_f64

    function gnograd_cuda_agg_concat_hvp_workspace_bytes_f64(graph, n_features, n_edge_features, &
      & n_own_features, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_concat_hvp_workspace_bytes_f64

    function gnograd_cuda_agg_concat_hvp_f64(graph, n_features, n_edge_features, n_own_features, &
      & aggregation, cotangent, x, w, e, own, t_x, t_w, t_e, t_own, grad_x, grad_w, grad_e, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_edge_features, n_own_features
      integer(c_int), value :: aggregation
      type(c_ptr), value :: cotangent, x, w, e, own, t_x, t_w, t_e, t_own, grad_x, grad_w, &
        & grad_e, grad_own, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_concat_hvp_f64

    function gnograd_cuda_agg_relational_forward_workspace_bytes_f32(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_forward_workspace_bytes_f32

    function gnograd_cuda_agg_relational_forward_f32(graph, n_features, n_own_features, &
      & n_relations, n_bases, edge_type, aggregation, x, w, coeff, own, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, x, w, coeff, own, out, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_forward_f32

    function gnograd_cuda_agg_relational_vjp_workspace_bytes_f32(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_vjp_workspace_bytes_f32

    function gnograd_cuda_agg_relational_vjp_f32(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, cotangent, x, w, coeff, own, grad_x, grad_w, grad_coeff, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, cotangent, x, w, coeff, own, grad_x, grad_w, grad_coeff, &
        & grad_own, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_vjp_f32

    function gnograd_cuda_agg_relational_jvp_workspace_bytes_f32(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_jvp_workspace_bytes_f32

    function gnograd_cuda_agg_relational_jvp_f32(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, x, w, coeff, own, t_x, t_w, t_coeff, t_own, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, x, w, coeff, own, t_x, t_w, t_coeff, t_own, t_out, &
        & workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_jvp_f32

    function gnograd_cuda_agg_relational_hvp_workspace_bytes_f32(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_hvp_workspace_bytes_f32

    function gnograd_cuda_agg_relational_hvp_f32(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, cotangent, x, w, coeff, own, t_x, t_w, t_coeff, t_own, &
      & grad_x, grad_w, grad_coeff, grad_own, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, cotangent, x, w, coeff, own, t_x, t_w, t_coeff, t_own, &
        & grad_x, grad_w, grad_coeff, grad_own, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_hvp_f32

    function gnograd_cuda_agg_relational_forward_workspace_bytes_f64(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_forward_workspace_bytes_f64

    function gnograd_cuda_agg_relational_forward_f64(graph, n_features, n_own_features, &
      & n_relations, n_bases, edge_type, aggregation, x, w, coeff, own, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, x, w, coeff, own, out, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_forward_f64

    function gnograd_cuda_agg_relational_vjp_workspace_bytes_f64(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_vjp_workspace_bytes_f64

    function gnograd_cuda_agg_relational_vjp_f64(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, cotangent, x, w, coeff, own, grad_x, grad_w, grad_coeff, &
      & grad_own, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, cotangent, x, w, coeff, own, grad_x, grad_w, grad_coeff, &
        & grad_own, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_vjp_f64

    function gnograd_cuda_agg_relational_jvp_workspace_bytes_f64(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_jvp_workspace_bytes_f64

    function gnograd_cuda_agg_relational_jvp_f64(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, x, w, coeff, own, t_x, t_w, t_coeff, t_own, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, x, w, coeff, own, t_x, t_w, t_coeff, t_own, t_out, &
        & workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_jvp_f64

    function gnograd_cuda_agg_relational_hvp_workspace_bytes_f64(graph, n_features, &
      & n_own_features, n_relations, n_bases, edge_type, aggregation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type
      integer(c_int), value :: aggregation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_relational_hvp_workspace_bytes_f64

    function gnograd_cuda_agg_relational_hvp_f64(graph, n_features, n_own_features, n_relations, &
      & n_bases, edge_type, aggregation, cotangent, x, w, coeff, own, t_x, t_w, t_coeff, t_own, &
      & grad_x, grad_w, grad_coeff, grad_own, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_features, n_own_features, n_relations, n_bases
      type(c_ptr), value :: edge_type, cotangent, x, w, coeff, own, t_x, t_w, t_coeff, t_own, &
        & grad_x, grad_w, grad_coeff, grad_own, workspace, stream
      integer(c_int), value :: aggregation
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_relational_hvp_f64

    function gnograd_cuda_update_edges_forward_workspace_bytes_f32(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_forward_workspace_bytes_f32

    function gnograd_cuda_update_edges_forward_f32(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, e, x_src, x_dst, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: e, x_src, x_dst, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_forward_f32

    function gnograd_cuda_update_edges_vjp_workspace_bytes_f32(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_vjp_workspace_bytes_f32

    function gnograd_cuda_update_edges_vjp_f32(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, cotangent, e, x_src, x_dst, grad_e, grad_x_src, grad_x_dst, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: cotangent, e, x_src, x_dst, grad_e, grad_x_src, grad_x_dst, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_vjp_f32

    function gnograd_cuda_update_edges_jvp_workspace_bytes_f32(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_jvp_workspace_bytes_f32

    function gnograd_cuda_update_edges_jvp_f32(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, e, x_src, x_dst, t_e, t_x_src, t_x_dst, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: e, x_src, x_dst, t_e, t_x_src, t_x_dst, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_jvp_f32

    function gnograd_cuda_update_edges_hvp_workspace_bytes_f32(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_hvp_workspace_bytes_f32

    function gnograd_cuda_update_edges_hvp_f32(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, cotangent, e, x_src, x_dst, t_e, t_x_src, t_x_dst, grad_e, &
      & grad_x_src, grad_x_dst, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: cotangent, e, x_src, x_dst, t_e, t_x_src, t_x_dst, grad_e, &
        & grad_x_src, grad_x_dst, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_hvp_f32

    function gnograd_cuda_update_edges_forward_workspace_bytes_f64(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_forward_workspace_bytes_f64

    function gnograd_cuda_update_edges_forward_f64(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, e, x_src, x_dst, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: e, x_src, x_dst, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_forward_f64

    function gnograd_cuda_update_edges_vjp_workspace_bytes_f64(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_vjp_workspace_bytes_f64

    function gnograd_cuda_update_edges_vjp_f64(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, cotangent, e, x_src, x_dst, grad_e, grad_x_src, grad_x_dst, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: cotangent, e, x_src, x_dst, grad_e, grad_x_src, grad_x_dst, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_vjp_f64

    function gnograd_cuda_update_edges_jvp_workspace_bytes_f64(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_jvp_workspace_bytes_f64

    function gnograd_cuda_update_edges_jvp_f64(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, e, x_src, x_dst, t_e, t_x_src, t_x_dst, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: e, x_src, x_dst, t_e, t_x_src, t_x_dst, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_jvp_f64

    function gnograd_cuda_update_edges_hvp_workspace_bytes_f64(graph, n_edge_features, &
      & n_src_features, n_dst_features, mode) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_update_edges_hvp_workspace_bytes_f64

    function gnograd_cuda_update_edges_hvp_f64(graph, n_edge_features, n_src_features, &
      & n_dst_features, mode, cotangent, e, x_src, x_dst, t_e, t_x_src, t_x_dst, grad_e, &
      & grad_x_src, grad_x_dst, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_edge_features, n_src_features, n_dst_features
      integer(c_int), value :: mode
      type(c_ptr), value :: cotangent, e, x_src, x_dst, t_e, t_x_src, t_x_dst, grad_e, &
        & grad_x_src, grad_x_dst, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_update_edges_hvp_f64

    function gnograd_cuda_mha_gat_forward_workspace_bytes_f32(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_forward_workspace_bytes_f32

    function gnograd_cuda_mha_gat_forward_f32(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, x_src, x_dst, a, e, out, lse, &
      & softmax_scores, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, out, lse, softmax_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_forward_f32

    function gnograd_cuda_mha_gat_vjp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_vjp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_vjp_f32(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, &
      & out, lse, softmax_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_vjp_f32

    function gnograd_cuda_mha_gat_jvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_jvp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_jvp_f32(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, x_src, x_dst, a, e, t_x_src, &
      & t_x_dst, t_a, t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, t_out, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_jvp_f32

    function gnograd_cuda_mha_gat_hvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_hvp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_hvp_f32(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, &
      & t_x_src, t_x_dst, t_a, t_e, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_hvp_f32

    function gnograd_cuda_mha_gat_forward_workspace_bytes_f64(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_forward_workspace_bytes_f64

    function gnograd_cuda_mha_gat_forward_f64(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, x_src, x_dst, a, e, out, lse, &
      & softmax_scores, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, out, lse, softmax_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_forward_f64

    function gnograd_cuda_mha_gat_vjp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_vjp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_vjp_f64(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, &
      & out, lse, softmax_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_vjp_f64

    function gnograd_cuda_mha_gat_jvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_jvp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_jvp_f64(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, x_src, x_dst, a, e, t_x_src, &
      & t_x_dst, t_a, t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, t_out, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_jvp_f64

    function gnograd_cuda_mha_gat_hvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & n_edge_channels, concat_heads, activation, negative_slope, dropout, &
      & seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_hvp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_hvp_f64(graph, n_heads, n_channels, n_edge_channels, &
      & concat_heads, activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, &
      & t_x_src, t_x_dst, t_a, t_e, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels, n_edge_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_hvp_f64

    function gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f32

    function gnograd_cuda_mha_gat_v2_forward_f32(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, x_src, x_dst, a, e, out, lse, softmax_scores, &
      & activation_scores, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & activation_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_forward_f32

    function gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_v2_vjp_f32(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, out, lse, &
      & softmax_scores, activation_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & activation_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_vjp_f32

    function gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_v2_jvp_f32(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, &
      & t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, t_out, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_jvp_f32

    function gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f32

    function gnograd_cuda_mha_gat_v2_hvp_f32(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, t_x_src, &
      & t_x_dst, t_a, t_e, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_hvp_f32

    function gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f64

    function gnograd_cuda_mha_gat_v2_forward_f64(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, x_src, x_dst, a, e, out, lse, softmax_scores, &
      & activation_scores, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & activation_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_forward_f64

    function gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_v2_vjp_f64(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, out, lse, &
      & softmax_scores, activation_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, out, lse, softmax_scores, &
        & activation_scores, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_vjp_f64

    function gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_v2_jvp_f64(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, &
      & t_e, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, t_out, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_jvp_f64

    function gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, activation, negative_slope, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f64

    function gnograd_cuda_mha_gat_v2_hvp_f64(graph, n_heads, n_channels, concat_heads, &
      & activation, negative_slope, dropout, seed, cotangent, x_src, x_dst, a, e, t_x_src, &
      & t_x_dst, t_a, t_e, grad_x_src, grad_x_dst, grad_a, grad_e, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, activation
      real(c_double), value :: negative_slope, dropout
      type(c_ptr), value :: seed, cotangent, x_src, x_dst, a, e, t_x_src, t_x_dst, t_a, t_e, &
        & grad_x_src, grad_x_dst, grad_a, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_gat_v2_hvp_f64

    function gnograd_cuda_mha_simple_forward_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_forward_workspace_bytes_f32

    function gnograd_cuda_mha_simple_forward_f32(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, q, k, v, e, out, lse, softmax_scores, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, q, k, v, e, out, lse, softmax_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_forward_f32

    function gnograd_cuda_mha_simple_vjp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_vjp_workspace_bytes_f32

    function gnograd_cuda_mha_simple_vjp_f32(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, cotangent, q, k, v, e, out, lse, softmax_scores, grad_q, &
      & grad_k, grad_v, grad_e, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, cotangent, q, k, v, e, out, lse, softmax_scores, grad_q, &
        & grad_k, grad_v, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_vjp_f32

    function gnograd_cuda_mha_simple_jvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_jvp_workspace_bytes_f32

    function gnograd_cuda_mha_simple_jvp_f32(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, q, k, v, e, t_q, t_k, t_v, t_e, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, q, k, v, e, t_q, t_k, t_v, t_e, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_jvp_f32

    function gnograd_cuda_mha_simple_hvp_workspace_bytes_f32(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_hvp_workspace_bytes_f32

    function gnograd_cuda_mha_simple_hvp_f32(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, cotangent, q, k, v, e, t_q, t_k, t_v, t_e, grad_q, grad_k, &
      & grad_v, grad_e, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, cotangent, q, k, v, e, t_q, t_k, t_v, t_e, grad_q, grad_k, &
        & grad_v, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_hvp_f32

    function gnograd_cuda_mha_simple_forward_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_forward_workspace_bytes_f64

    function gnograd_cuda_mha_simple_forward_f64(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, q, k, v, e, out, lse, softmax_scores, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, q, k, v, e, out, lse, softmax_scores, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_forward_f64

    function gnograd_cuda_mha_simple_vjp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_vjp_workspace_bytes_f64

    function gnograd_cuda_mha_simple_vjp_f64(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, cotangent, q, k, v, e, out, lse, softmax_scores, grad_q, &
      & grad_k, grad_v, grad_e, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, cotangent, q, k, v, e, out, lse, softmax_scores, grad_q, &
        & grad_k, grad_v, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_vjp_f64

    function gnograd_cuda_mha_simple_jvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_jvp_workspace_bytes_f64

    function gnograd_cuda_mha_simple_jvp_f64(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, q, k, v, e, t_q, t_k, t_v, t_e, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, q, k, v, e, t_q, t_k, t_v, t_e, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_jvp_f64

    function gnograd_cuda_mha_simple_hvp_workspace_bytes_f64(graph, n_heads, n_channels, &
      & concat_heads, norm_by_dim, dropout, seed) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed
      integer(c_size_t) :: outcome
    end function gnograd_cuda_mha_simple_hvp_workspace_bytes_f64

    function gnograd_cuda_mha_simple_hvp_f64(graph, n_heads, n_channels, concat_heads, &
      & norm_by_dim, dropout, seed, cotangent, q, k, v, e, t_q, t_k, t_v, t_e, grad_q, grad_k, &
      & grad_v, grad_e, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads, n_channels
      integer(c_int), value :: concat_heads, norm_by_dim
      real(c_double), value :: dropout
      type(c_ptr), value :: seed, cotangent, q, k, v, e, t_q, t_k, t_v, t_e, grad_q, grad_k, &
        & grad_v, grad_e, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_mha_simple_hvp_f64

    function gnograd_cuda_edge_softmax_forward_workspace_bytes_f32(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_forward_workspace_bytes_f32

    function gnograd_cuda_edge_softmax_forward_f32(graph, n_heads, s, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: s, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_forward_f32

    function gnograd_cuda_edge_softmax_vjp_workspace_bytes_f32(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_vjp_workspace_bytes_f32

    function gnograd_cuda_edge_softmax_vjp_f32(graph, n_heads, cotangent, s, out, grad_s, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: cotangent, s, out, grad_s, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_vjp_f32

    function gnograd_cuda_edge_softmax_jvp_workspace_bytes_f32(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_jvp_workspace_bytes_f32

    function gnograd_cuda_edge_softmax_jvp_f32(graph, n_heads, s, t_s, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: s, t_s, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_jvp_f32

    function gnograd_cuda_edge_softmax_hvp_workspace_bytes_f32(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_hvp_workspace_bytes_f32

    function gnograd_cuda_edge_softmax_hvp_f32(graph, n_heads, cotangent, s, t_s, grad_s, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: cotangent, s, t_s, grad_s, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_hvp_f32

    function gnograd_cuda_edge_softmax_forward_workspace_bytes_f64(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_forward_workspace_bytes_f64

    function gnograd_cuda_edge_softmax_forward_f64(graph, n_heads, s, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: s, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_forward_f64

    function gnograd_cuda_edge_softmax_vjp_workspace_bytes_f64(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_vjp_workspace_bytes_f64

    function gnograd_cuda_edge_softmax_vjp_f64(graph, n_heads, cotangent, s, out, grad_s, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: cotangent, s, out, grad_s, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_vjp_f64

    function gnograd_cuda_edge_softmax_jvp_workspace_bytes_f64(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_jvp_workspace_bytes_f64

    function gnograd_cuda_edge_softmax_jvp_f64(graph, n_heads, s, t_s, t_out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: s, t_s, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_jvp_f64

    function gnograd_cuda_edge_softmax_hvp_workspace_bytes_f64(graph, &
      & n_heads) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_softmax_hvp_workspace_bytes_f64

    function gnograd_cuda_edge_softmax_hvp_f64(graph, n_heads, cotangent, s, t_s, grad_s, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_heads
      type(c_ptr), value :: cotangent, s, t_s, grad_s, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_softmax_hvp_f64

    function gnograd_cuda_offset_moments_forward_workspace_bytes_f32(graph, &
      & d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_forward_workspace_bytes_f32

    function gnograd_cuda_offset_moments_forward_f32(graph, d, x, y, moments, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: x, y, moments, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_forward_f32

    function gnograd_cuda_offset_moments_vjp_workspace_bytes_f32(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_vjp_workspace_bytes_f32

    function gnograd_cuda_offset_moments_vjp_f32(graph, d, cotangent, x, y, grad_x, grad_y, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: cotangent, x, y, grad_x, grad_y, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_vjp_f32

    function gnograd_cuda_offset_moments_jvp_workspace_bytes_f32(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_jvp_workspace_bytes_f32

    function gnograd_cuda_offset_moments_jvp_f32(graph, d, x, y, t_x, t_y, t_moments, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: x, y, t_x, t_y, t_moments, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_jvp_f32

    function gnograd_cuda_offset_moments_hvp_workspace_bytes_f32(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_hvp_workspace_bytes_f32

    function gnograd_cuda_offset_moments_hvp_f32(graph, d, cotangent, x, y, t_x, t_y, grad_x, &
      & grad_y, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: cotangent, x, y, t_x, t_y, grad_x, grad_y, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_hvp_f32

    function gnograd_cuda_offset_moments_forward_workspace_bytes_f64(graph, &
      & d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_forward_workspace_bytes_f64

    function gnograd_cuda_offset_moments_forward_f64(graph, d, x, y, moments, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: x, y, moments, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_forward_f64

    function gnograd_cuda_offset_moments_vjp_workspace_bytes_f64(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_vjp_workspace_bytes_f64

    function gnograd_cuda_offset_moments_vjp_f64(graph, d, cotangent, x, y, grad_x, grad_y, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: cotangent, x, y, grad_x, grad_y, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_vjp_f64

    function gnograd_cuda_offset_moments_jvp_workspace_bytes_f64(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_jvp_workspace_bytes_f64

    function gnograd_cuda_offset_moments_jvp_f64(graph, d, x, y, t_x, t_y, t_moments, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: x, y, t_x, t_y, t_moments, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_jvp_f64

    function gnograd_cuda_offset_moments_hvp_workspace_bytes_f64(graph, d) result(outcome) bind(C)
      import :: c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      integer(c_size_t) :: outcome
    end function gnograd_cuda_offset_moments_hvp_workspace_bytes_f64

    function gnograd_cuda_offset_moments_hvp_f64(graph, d, cotangent, x, y, t_x, t_y, grad_x, &
      & grad_y, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: d
      type(c_ptr), value :: cotangent, x, y, t_x, t_y, grad_x, grad_y, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_offset_moments_hvp_f64

    function gnograd_cuda_selected_attention_forward_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_forward_workspace_bytes_f32

    function gnograd_cuda_selected_attention_forward_f32(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, &
      & causal, q_offset, query_block, duplicates, q, k, v, slot_gate, out, lse, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, q, k, v, slot_gate, out, lse, workspace, &
        & stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_forward_f32

    function gnograd_cuda_selected_attention_vjp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_vjp_workspace_bytes_f32

    function gnograd_cuda_selected_attention_vjp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, cotangent, q, k, v, slot_gate, out, lse, grad_q, &
      & grad_k, grad_v, grad_slot_gate, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, cotangent, q, k, v, slot_gate, out, lse, &
        & grad_q, grad_k, grad_v, grad_slot_gate, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_vjp_f32

    function gnograd_cuda_selected_attention_jvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_jvp_workspace_bytes_f32

    function gnograd_cuda_selected_attention_jvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, q, k, v, slot_gate, t_q, t_k, t_v, t_slot_gate, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, q, k, v, slot_gate, t_q, t_k, t_v, &
        & t_slot_gate, t_out, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_jvp_f32

    function gnograd_cuda_selected_attention_hvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_hvp_workspace_bytes_f32

    function gnograd_cuda_selected_attention_hvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, cotangent, q, k, v, slot_gate, t_q, t_k, t_v, &
      & t_slot_gate, grad_q, grad_k, grad_v, grad_slot_gate, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, cotangent, q, k, v, slot_gate, t_q, t_k, &
        & t_v, t_slot_gate, grad_q, grad_k, grad_v, grad_slot_gate, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_hvp_f32

    function gnograd_cuda_selected_attention_forward_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_forward_workspace_bytes_f64

    function gnograd_cuda_selected_attention_forward_f64(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, &
      & causal, q_offset, query_block, duplicates, q, k, v, slot_gate, out, lse, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, q, k, v, slot_gate, out, lse, workspace, &
        & stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_forward_f64

    function gnograd_cuda_selected_attention_vjp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_vjp_workspace_bytes_f64

    function gnograd_cuda_selected_attention_vjp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, cotangent, q, k, v, slot_gate, out, lse, grad_q, &
      & grad_k, grad_v, grad_slot_gate, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, cotangent, q, k, v, slot_gate, out, lse, &
        & grad_q, grad_k, grad_v, grad_slot_gate, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_vjp_f64

    function gnograd_cuda_selected_attention_jvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_jvp_workspace_bytes_f64

    function gnograd_cuda_selected_attention_jvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, q, k, v, slot_gate, t_q, t_k, t_v, t_slot_gate, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, q, k, v, slot_gate, t_q, t_k, t_v, &
        & t_slot_gate, t_out, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_jvp_f64

    function gnograd_cuda_selected_attention_hvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_hvp_workspace_bytes_f64

    function gnograd_cuda_selected_attention_hvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, cotangent, q, k, v, slot_gate, t_q, t_k, t_v, &
      & t_slot_gate, grad_q, grad_k, grad_v, grad_slot_gate, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, cotangent, q, k, v, slot_gate, t_q, t_k, &
        & t_v, t_slot_gate, grad_q, grad_k, grad_v, grad_slot_gate, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_hvp_f64

    function gnograd_cuda_compressed_attention_forward_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_forward_workspace_bytes_f32

    function gnograd_cuda_compressed_attention_forward_f32(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, q, k, &
      & v, out, lse, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, out, lse, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_forward_f32

    function gnograd_cuda_compressed_attention_vjp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_vjp_workspace_bytes_f32

    function gnograd_cuda_compressed_attention_vjp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, c_out, c_lse, &
      & q, k, v, out, lse, grad_q, grad_k, grad_v, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, c_out, c_lse, q, k, v, out, lse, grad_q, grad_k, grad_v, &
        & workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_vjp_f32

    function gnograd_cuda_compressed_attention_jvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_jvp_workspace_bytes_f32

    function gnograd_cuda_compressed_attention_jvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, q, k, v, t_q, &
      & t_k, t_v, t_out, t_lse, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, t_q, t_k, t_v, t_out, t_lse, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_jvp_f32

    function gnograd_cuda_compressed_attention_hvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_hvp_workspace_bytes_f32

    function gnograd_cuda_compressed_attention_hvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, c_out, c_lse, &
      & q, k, v, t_q, t_k, t_v, grad_q, grad_k, grad_v, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, c_out, c_lse, q, k, v, t_q, t_k, t_v, grad_q, grad_k, &
        & grad_v, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_hvp_f32

    function gnograd_cuda_compressed_attention_forward_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_forward_workspace_bytes_f64

    function gnograd_cuda_compressed_attention_forward_f64(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, q, k, &
      & v, out, lse, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, out, lse, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_forward_f64

    function gnograd_cuda_compressed_attention_vjp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_vjp_workspace_bytes_f64

    function gnograd_cuda_compressed_attention_vjp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, c_out, c_lse, &
      & q, k, v, out, lse, grad_q, grad_k, grad_v, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, c_out, c_lse, q, k, v, out, lse, grad_q, grad_k, grad_v, &
        & workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_vjp_f64

    function gnograd_cuda_compressed_attention_jvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_jvp_workspace_bytes_f64

    function gnograd_cuda_compressed_attention_jvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, q, k, v, t_q, &
      & t_k, t_v, t_out, t_lse, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, t_q, t_k, t_v, t_out, t_lse, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_jvp_f64

    function gnograd_cuda_compressed_attention_hvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compressed_attention_hvp_workspace_bytes_f64

    function gnograd_cuda_compressed_attention_hvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_sequences, cu_q, cu_k, block, stride, scale, causal, q_offset, c_out, c_lse, &
      & q, k, v, t_q, t_k, t_v, grad_q, grad_k, grad_v, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, block, stride, q_offset
      type(c_ptr), value :: cu_q, cu_k, c_out, c_lse, q, k, v, t_q, t_k, t_v, grad_q, grad_k, &
        & grad_v, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compressed_attention_hvp_f64

    function gnograd_cuda_window_attention_forward_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_forward_workspace_bytes_f32

    function gnograd_cuda_window_attention_forward_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, q, k, v, &
      & positions_q, positions_k, slope, out, lse, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, positions_q, positions_k, slope, out, lse, &
        & workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_forward_f32

    function gnograd_cuda_window_attention_vjp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_vjp_workspace_bytes_f32

    function gnograd_cuda_window_attention_vjp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, cotangent, q, k, &
      & v, positions_q, positions_k, slope, out, lse, grad_q, grad_k, grad_v, grad_positions_q, &
      & grad_positions_k, grad_slope, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, cotangent, q, k, v, positions_q, positions_k, slope, out, &
        & lse, grad_q, grad_k, grad_v, grad_positions_q, grad_positions_k, grad_slope, workspace, &
        & stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_vjp_f32

    function gnograd_cuda_window_attention_jvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_jvp_workspace_bytes_f32

    function gnograd_cuda_window_attention_jvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, q, k, v, &
      & positions_q, positions_k, slope, t_q, t_k, t_v, t_positions_q, t_positions_k, t_slope, &
      & t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, positions_q, positions_k, slope, t_q, t_k, t_v, &
        & t_positions_q, t_positions_k, t_slope, t_out, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_jvp_f32

    function gnograd_cuda_window_attention_hvp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_hvp_workspace_bytes_f32

    function gnograd_cuda_window_attention_hvp_f32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, cotangent, q, k, &
      & v, positions_q, positions_k, slope, t_q, t_k, t_v, t_positions_q, t_positions_k, t_slope, &
      & grad_q, grad_k, grad_v, grad_positions_q, grad_positions_k, grad_slope, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, cotangent, q, k, v, positions_q, positions_k, slope, t_q, &
        & t_k, t_v, t_positions_q, t_positions_k, t_slope, grad_q, grad_k, grad_v, &
        & grad_positions_q, grad_positions_k, grad_slope, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_hvp_f32

    function gnograd_cuda_window_attention_forward_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_forward_workspace_bytes_f64

    function gnograd_cuda_window_attention_forward_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, q, k, v, &
      & positions_q, positions_k, slope, out, lse, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, positions_q, positions_k, slope, out, lse, &
        & workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_forward_f64

    function gnograd_cuda_window_attention_vjp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_vjp_workspace_bytes_f64

    function gnograd_cuda_window_attention_vjp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, cotangent, q, k, &
      & v, positions_q, positions_k, slope, out, lse, grad_q, grad_k, grad_v, grad_positions_q, &
      & grad_positions_k, grad_slope, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, cotangent, q, k, v, positions_q, positions_k, slope, out, &
        & lse, grad_q, grad_k, grad_v, grad_positions_q, grad_positions_k, grad_slope, workspace, &
        & stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_vjp_f64

    function gnograd_cuda_window_attention_jvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_jvp_workspace_bytes_f64

    function gnograd_cuda_window_attention_jvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, q, k, v, &
      & positions_q, positions_k, slope, t_q, t_k, t_v, t_positions_q, t_positions_k, t_slope, &
      & t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, q, k, v, positions_q, positions_k, slope, t_q, t_k, t_v, &
        & t_positions_q, t_positions_k, t_slope, t_out, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_jvp_f64

    function gnograd_cuda_window_attention_hvp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t) :: outcome
    end function gnograd_cuda_window_attention_hvp_workspace_bytes_f64

    function gnograd_cuda_window_attention_hvp_f64(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, d, n_sequences, cu_q, cu_k, window, scale, causal, q_offset, cotangent, q, k, &
      & v, positions_q, positions_k, slope, t_q, t_k, t_v, t_positions_q, t_positions_k, t_slope, &
      & grad_q, grad_k, grad_v, grad_positions_q, grad_positions_k, grad_slope, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, d, &
        & n_sequences, window, q_offset
      type(c_ptr), value :: cu_q, cu_k, cotangent, q, k, v, positions_q, positions_k, slope, t_q, &
        & t_k, t_v, t_positions_q, t_positions_k, t_slope, grad_q, grad_k, grad_v, &
        & grad_positions_q, grad_positions_k, grad_slope, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_window_attention_hvp_f64

    function gnograd_cuda_compress_forward_workspace_bytes_f32(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_forward_workspace_bytes_f32

    function gnograd_cuda_compress_forward_f32(n_tokens, n_heads, n_features, n_sequences, cu, &
      & block, stride, n_compressed, x, w, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, x, w, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_forward_f32

    function gnograd_cuda_compress_vjp_workspace_bytes_f32(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_vjp_workspace_bytes_f32

    function gnograd_cuda_compress_vjp_f32(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, cotangent, x, w, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, cotangent, x, w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_vjp_f32

    function gnograd_cuda_compress_jvp_workspace_bytes_f32(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_jvp_workspace_bytes_f32

    function gnograd_cuda_compress_jvp_f32(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, x, w, t_x, t_w, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, x, w, t_x, t_w, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_jvp_f32

    function gnograd_cuda_compress_hvp_workspace_bytes_f32(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_hvp_workspace_bytes_f32

    function gnograd_cuda_compress_hvp_f32(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_hvp_f32

    function gnograd_cuda_compress_forward_workspace_bytes_f64(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_forward_workspace_bytes_f64

    function gnograd_cuda_compress_forward_f64(n_tokens, n_heads, n_features, n_sequences, cu, &
      & block, stride, n_compressed, x, w, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, x, w, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_forward_f64

    function gnograd_cuda_compress_vjp_workspace_bytes_f64(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_vjp_workspace_bytes_f64

    function gnograd_cuda_compress_vjp_f64(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, cotangent, x, w, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, cotangent, x, w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_vjp_f64

    function gnograd_cuda_compress_jvp_workspace_bytes_f64(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_jvp_workspace_bytes_f64

    function gnograd_cuda_compress_jvp_f64(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, x, w, t_x, t_w, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, x, w, t_x, t_w, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_jvp_f64

    function gnograd_cuda_compress_hvp_workspace_bytes_f64(n_tokens, n_heads, n_features, &
      & n_sequences, cu, block, stride, n_compressed) result(outcome) bind(C)
      import :: c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu
      integer(c_size_t) :: outcome
    end function gnograd_cuda_compress_hvp_workspace_bytes_f64

    function gnograd_cuda_compress_hvp_f64(n_tokens, n_heads, n_features, n_sequences, cu, block, &
      & stride, n_compressed, cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_tokens, n_heads, n_features, n_sequences, block, stride, &
        & n_compressed
      type(c_ptr), value :: cu, cotangent, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_compress_hvp_f64

    function gnograd_cuda_select_blocks_forward_workspace_bytes_f32(n_queries, n_compressed, &
      & n_keys, n_query_heads, n_heads, d_k, n_slots, n_sequences, cu_q, cu_k, block, stride, &
      & block_size, scale, causal, q_offset, query_block, first_blocks, local_blocks, &
      & exclude_own) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, &
        & n_slots, n_sequences, block, stride, block_size, q_offset, query_block, first_blocks, &
        & local_blocks
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, exclude_own
      integer(c_size_t) :: outcome
    end function gnograd_cuda_select_blocks_forward_workspace_bytes_f32

    function gnograd_cuda_select_blocks_forward_f32(n_queries, n_compressed, n_keys, &
      & n_query_heads, n_heads, d_k, n_slots, n_sequences, cu_q, cu_k, block, stride, block_size, &
      & scale, causal, q_offset, query_block, first_blocks, local_blocks, exclude_own, q, k, lse, &
      & block_index, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, &
        & n_slots, n_sequences, block, stride, block_size, q_offset, query_block, first_blocks, &
        & local_blocks
      type(c_ptr), value :: cu_q, cu_k, q, k, lse, block_index, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, exclude_own
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_select_blocks_forward_f32

    function gnograd_cuda_select_blocks_forward_workspace_bytes_f64(n_queries, n_compressed, &
      & n_keys, n_query_heads, n_heads, d_k, n_slots, n_sequences, cu_q, cu_k, block, stride, &
      & block_size, scale, causal, q_offset, query_block, first_blocks, local_blocks, &
      & exclude_own) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, &
        & n_slots, n_sequences, block, stride, block_size, q_offset, query_block, first_blocks, &
        & local_blocks
      type(c_ptr), value :: cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, exclude_own
      integer(c_size_t) :: outcome
    end function gnograd_cuda_select_blocks_forward_workspace_bytes_f64

    function gnograd_cuda_select_blocks_forward_f64(n_queries, n_compressed, n_keys, &
      & n_query_heads, n_heads, d_k, n_slots, n_sequences, cu_q, cu_k, block, stride, block_size, &
      & scale, causal, q_offset, query_block, first_blocks, local_blocks, exclude_own, q, k, lse, &
      & block_index, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_compressed, n_keys, n_query_heads, n_heads, d_k, &
        & n_slots, n_sequences, block, stride, block_size, q_offset, query_block, first_blocks, &
        & local_blocks
      type(c_ptr), value :: cu_q, cu_k, q, k, lse, block_index, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, exclude_own
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_select_blocks_forward_f64

    function gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, &
      & select_block_size, select_block_count, sparse_mode) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f32

    function gnograd_cuda_nsa_selected_attention_forward_f32(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, select_block_size, &
      & select_block_count, sparse_mode, query, key, value, attention_out, softmax_max, &
      & softmax_sum, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k, query, key, value, attention_out, &
        & softmax_max, softmax_sum, workspace, stream
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nsa_selected_attention_forward_f32

    function gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, &
      & select_block_size, select_block_count, sparse_mode) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f32

    function gnograd_cuda_nsa_selected_attention_vjp_f32(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, select_block_size, &
      & select_block_count, sparse_mode, attention_out_grad, query, key, value, attention_out, &
      & softmax_max, softmax_sum, dq, dk, dv, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k, attention_out_grad, query, key, value, &
        & attention_out, softmax_max, softmax_sum, dq, dk, dv, workspace, stream
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nsa_selected_attention_vjp_f32

    function gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, &
      & select_block_size, select_block_count, sparse_mode) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f64

    function gnograd_cuda_nsa_selected_attention_forward_f64(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, select_block_size, &
      & select_block_count, sparse_mode, query, key, value, attention_out, softmax_max, &
      & softmax_sum, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k, query, key, value, attention_out, &
        & softmax_max, softmax_sum, workspace, stream
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nsa_selected_attention_forward_f64

    function gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f64(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, &
      & select_block_size, select_block_count, sparse_mode) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f64

    function gnograd_cuda_nsa_selected_attention_vjp_f64(n_queries, n_keys, n_query_heads, &
      & n_heads, d_k, d_v, n_sequences, topk_indices, cu_q, cu_k, scale_value, select_block_size, &
      & select_block_count, sparse_mode, attention_out_grad, query, key, value, attention_out, &
      & softmax_max, softmax_sum, dq, dk, dv, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
        & n_sequences, select_block_size, select_block_count
      type(c_ptr), value :: topk_indices, cu_q, cu_k, attention_out_grad, query, key, value, &
        & attention_out, softmax_max, softmax_sum, dq, dk, dv, workspace, stream
      real(c_double), value :: scale_value
      integer(c_int), value :: sparse_mode
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nsa_selected_attention_vjp_f64

    function gnograd_cuda_selected_attention_check_workspace_bytes_i32(n_queries, n_keys, &
      & n_query_heads, n_heads, d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, &
      & block_size, scale, causal, q_offset, query_block, duplicates) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t) :: outcome
    end function gnograd_cuda_selected_attention_check_workspace_bytes_i32

    function gnograd_cuda_selected_attention_check_i32(n_queries, n_keys, n_query_heads, n_heads, &
      & d_k, d_v, n_slots, n_sequences, block_index, cu_q, cu_k, block_size, scale, causal, &
      & q_offset, query_block, duplicates, faults, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, n_slots, &
        & n_sequences, block_size, q_offset, query_block
      type(c_ptr), value :: block_index, cu_q, cu_k, faults, workspace, stream
      real(c_double), value :: scale
      integer(c_int), value :: causal, duplicates
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_selected_attention_check_i32

    function gnograd_cuda_radial_basis_forward_workspace_bytes_f32(n_edges, n_spherical, &
      & n_radial, exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_forward_workspace_bytes_f32

    function gnograd_cuda_radial_basis_forward_f32(n_edges, n_spherical, n_radial, exponent, x, &
      & w, rbf, sbf, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: x, w, rbf, sbf, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_forward_f32

    function gnograd_cuda_radial_basis_vjp_workspace_bytes_f32(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_vjp_workspace_bytes_f32

    function gnograd_cuda_radial_basis_vjp_f32(n_edges, n_spherical, n_radial, exponent, c_rbf, &
      & c_sbf, x, w, grad_x, grad_w, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: c_rbf, c_sbf, x, w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_vjp_f32

    function gnograd_cuda_radial_basis_jvp_workspace_bytes_f32(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_jvp_workspace_bytes_f32

    function gnograd_cuda_radial_basis_jvp_f32(n_edges, n_spherical, n_radial, exponent, x, w, &
      & t_x, t_w, t_rbf, t_sbf, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: x, w, t_x, t_w, t_rbf, t_sbf, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_jvp_f32

    function gnograd_cuda_radial_basis_hvp_workspace_bytes_f32(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_hvp_workspace_bytes_f32

    function gnograd_cuda_radial_basis_hvp_f32(n_edges, n_spherical, n_radial, exponent, c_rbf, &
      & c_sbf, x, w, t_x, t_w, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: c_rbf, c_sbf, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_hvp_f32

    function gnograd_cuda_radial_basis_forward_workspace_bytes_f64(n_edges, n_spherical, &
      & n_radial, exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_forward_workspace_bytes_f64

    function gnograd_cuda_radial_basis_forward_f64(n_edges, n_spherical, n_radial, exponent, x, &
      & w, rbf, sbf, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: x, w, rbf, sbf, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_forward_f64

    function gnograd_cuda_radial_basis_vjp_workspace_bytes_f64(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_vjp_workspace_bytes_f64

    function gnograd_cuda_radial_basis_vjp_f64(n_edges, n_spherical, n_radial, exponent, c_rbf, &
      & c_sbf, x, w, grad_x, grad_w, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: c_rbf, c_sbf, x, w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_vjp_f64

    function gnograd_cuda_radial_basis_jvp_workspace_bytes_f64(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_jvp_workspace_bytes_f64

    function gnograd_cuda_radial_basis_jvp_f64(n_edges, n_spherical, n_radial, exponent, x, w, &
      & t_x, t_w, t_rbf, t_sbf, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: x, w, t_x, t_w, t_rbf, t_sbf, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_jvp_f64

    function gnograd_cuda_radial_basis_hvp_workspace_bytes_f64(n_edges, n_spherical, n_radial, &
      & exponent) result(outcome) bind(C)
      import :: c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      integer(c_size_t) :: outcome
    end function gnograd_cuda_radial_basis_hvp_workspace_bytes_f64

    function gnograd_cuda_radial_basis_hvp_f64(n_edges, n_spherical, n_radial, exponent, c_rbf, &
      & c_sbf, x, w, t_x, t_w, grad_x, grad_w, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, n_spherical, n_radial, exponent
      type(c_ptr), value :: c_rbf, c_sbf, x, w, t_x, t_w, grad_x, grad_w, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_radial_basis_hvp_f64

    function gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f32(graph, n_spherical, &
      & n_radial, n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f32

    function gnograd_cuda_agg_edge_to_edge_forward_f32(graph, n_spherical, n_radial, n_mid, &
      & n_emb, exclude, vector, rbf, embedding, weights, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: vector, rbf, embedding, weights, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_forward_f32

    function gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f32(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f32

    function gnograd_cuda_agg_edge_to_edge_vjp_f32(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, cotangent, vector, rbf, embedding, weights, grad_vector, grad_rbf, &
      & grad_embedding, grad_weights, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: cotangent, vector, rbf, embedding, weights, grad_vector, grad_rbf, &
        & grad_embedding, grad_weights, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_vjp_f32

    function gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f32(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f32

    function gnograd_cuda_agg_edge_to_edge_jvp_f32(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, t_weights, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, &
        & t_weights, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_jvp_f32

    function gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f32(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f32

    function gnograd_cuda_agg_edge_to_edge_hvp_f32(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, cotangent, vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, &
      & t_weights, grad_vector, grad_rbf, grad_embedding, grad_weights, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: cotangent, vector, rbf, embedding, weights, t_vector, t_rbf, &
        & t_embedding, t_weights, grad_vector, grad_rbf, grad_embedding, grad_weights, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_hvp_f32

    function gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f64(graph, n_spherical, &
      & n_radial, n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f64

    function gnograd_cuda_agg_edge_to_edge_forward_f64(graph, n_spherical, n_radial, n_mid, &
      & n_emb, exclude, vector, rbf, embedding, weights, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: vector, rbf, embedding, weights, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_forward_f64

    function gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f64(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f64

    function gnograd_cuda_agg_edge_to_edge_vjp_f64(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, cotangent, vector, rbf, embedding, weights, grad_vector, grad_rbf, &
      & grad_embedding, grad_weights, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: cotangent, vector, rbf, embedding, weights, grad_vector, grad_rbf, &
        & grad_embedding, grad_weights, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_vjp_f64

    function gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f64(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f64

    function gnograd_cuda_agg_edge_to_edge_jvp_f64(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, t_weights, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, &
        & t_weights, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_jvp_f64

    function gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f64(graph, n_spherical, n_radial, &
      & n_mid, n_emb, exclude) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      integer(c_size_t) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f64

    function gnograd_cuda_agg_edge_to_edge_hvp_f64(graph, n_spherical, n_radial, n_mid, n_emb, &
      & exclude, cotangent, vector, rbf, embedding, weights, t_vector, t_rbf, t_embedding, &
      & t_weights, grad_vector, grad_rbf, grad_embedding, grad_weights, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_spherical, n_radial, n_mid, n_emb
      integer(c_int), value :: exclude
      type(c_ptr), value :: cotangent, vector, rbf, embedding, weights, t_vector, t_rbf, &
        & t_embedding, t_weights, grad_vector, grad_rbf, grad_embedding, grad_weights, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_agg_edge_to_edge_hvp_f64

    function gnograd_cuda_gno_forward_workspace_bytes_f32(graph, n_batch, d, n_hidden, f_in, &
      & f_out, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_forward_workspace_bytes_f32

    function gnograd_cuda_gno_forward_f32(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, h, coords, u, b_u, v, b_v, edge_weight, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: h, coords, u, b_u, v, b_v, edge_weight, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_forward_f32

    function gnograd_cuda_gno_vjp_workspace_bytes_f32(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_vjp_f32(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, cotangent, h, coords, u, b_u, v, b_v, edge_weight, grad_h, &
      & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, grad_edge_weight, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: cotangent, h, coords, u, b_u, v, b_v, edge_weight, grad_h, &
        & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_vjp_f32

    function gnograd_cuda_gno_jvp_workspace_bytes_f32(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_jvp_f32(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, t_b_u, &
      & t_v, t_b_v, t_edge_weight, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, t_b_u, &
        & t_v, t_b_v, t_edge_weight, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_jvp_f32

    function gnograd_cuda_gno_hvp_workspace_bytes_f32(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_hvp_f32(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, cotangent, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, &
      & t_b_u, t_v, t_b_v, t_edge_weight, grad_h, grad_coords, grad_u, grad_b_u, grad_v, &
      & grad_b_v, grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: cotangent, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, &
        & t_u, t_b_u, t_v, t_b_v, t_edge_weight, grad_h, grad_coords, grad_u, grad_b_u, grad_v, &
        & grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_hvp_f32

    function gnograd_cuda_gno_forward_workspace_bytes_f64(graph, n_batch, d, n_hidden, f_in, &
      & f_out, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_forward_workspace_bytes_f64

    function gnograd_cuda_gno_forward_f64(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, h, coords, u, b_u, v, b_v, edge_weight, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: h, coords, u, b_u, v, b_v, edge_weight, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_forward_f64

    function gnograd_cuda_gno_vjp_workspace_bytes_f64(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_vjp_f64(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, cotangent, h, coords, u, b_u, v, b_v, edge_weight, grad_h, &
      & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, grad_edge_weight, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: cotangent, h, coords, u, b_u, v, b_v, edge_weight, grad_h, &
        & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_vjp_f64

    function gnograd_cuda_gno_jvp_workspace_bytes_f64(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_jvp_f64(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, t_b_u, &
      & t_v, t_b_v, t_edge_weight, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, t_b_u, &
        & t_v, t_b_v, t_edge_weight, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_jvp_f64

    function gnograd_cuda_gno_hvp_workspace_bytes_f64(graph, n_batch, d, n_hidden, f_in, f_out, &
      & activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_hvp_f64(graph, n_batch, d, n_hidden, f_in, f_out, activation, &
      & reduction, kernel, cotangent, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, t_u, &
      & t_b_u, t_v, t_b_v, t_edge_weight, grad_h, grad_coords, grad_u, grad_b_u, grad_v, &
      & grad_b_v, grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation, reduction, kernel
      type(c_ptr), value :: cotangent, h, coords, u, b_u, v, b_v, edge_weight, t_h, t_coords, &
        & t_u, t_b_u, t_v, t_b_v, t_edge_weight, grad_h, grad_coords, grad_u, grad_b_u, grad_v, &
        & grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_hvp_f64

    function gnograd_cuda_gno_contract_forward_workspace_bytes_f32(graph, n_batch, n_hidden, &
      & f_in, f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_forward_workspace_bytes_f32

    function gnograd_cuda_gno_contract_forward_f32(graph, n_batch, n_hidden, f_in, f_out, &
      & reduction, kernel, h, hid, v, b_v, edge_weight, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: h, hid, v, b_v, edge_weight, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_forward_f32

    function gnograd_cuda_gno_contract_vjp_workspace_bytes_f32(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_contract_vjp_f32(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, cotangent, h, hid, v, b_v, edge_weight, grad_h, grad_hid, grad_v, grad_b_v, &
      & grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: cotangent, h, hid, v, b_v, edge_weight, grad_h, grad_hid, grad_v, &
        & grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_vjp_f32

    function gnograd_cuda_gno_contract_jvp_workspace_bytes_f32(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_contract_jvp_f32(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, &
        & t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_jvp_f32

    function gnograd_cuda_gno_contract_hvp_workspace_bytes_f32(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_contract_hvp_f32(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, cotangent, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, &
      & grad_h, grad_hid, grad_v, grad_b_v, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: cotangent, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, &
        & t_edge_weight, grad_h, grad_hid, grad_v, grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_hvp_f32

    function gnograd_cuda_gno_contract_forward_workspace_bytes_f64(graph, n_batch, n_hidden, &
      & f_in, f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_forward_workspace_bytes_f64

    function gnograd_cuda_gno_contract_forward_f64(graph, n_batch, n_hidden, f_in, f_out, &
      & reduction, kernel, h, hid, v, b_v, edge_weight, out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: h, hid, v, b_v, edge_weight, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_forward_f64

    function gnograd_cuda_gno_contract_vjp_workspace_bytes_f64(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_contract_vjp_f64(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, cotangent, h, hid, v, b_v, edge_weight, grad_h, grad_hid, grad_v, grad_b_v, &
      & grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: cotangent, h, hid, v, b_v, edge_weight, grad_h, grad_hid, grad_v, &
        & grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_vjp_f64

    function gnograd_cuda_gno_contract_jvp_workspace_bytes_f64(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_contract_jvp_f64(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, t_out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, &
        & t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_jvp_f64

    function gnograd_cuda_gno_contract_hvp_workspace_bytes_f64(graph, n_batch, n_hidden, f_in, &
      & f_out, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_contract_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_contract_hvp_f64(graph, n_batch, n_hidden, f_in, f_out, reduction, &
      & kernel, cotangent, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, t_edge_weight, &
      & grad_h, grad_hid, grad_v, grad_b_v, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, n_hidden, f_in, f_out
      integer(c_int), value :: reduction, kernel
      type(c_ptr), value :: cotangent, h, hid, v, b_v, edge_weight, t_h, t_hid, t_v, t_b_v, &
        & t_edge_weight, grad_h, grad_hid, grad_v, grad_b_v, grad_edge_weight, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_contract_hvp_f64

    function gnograd_cuda_gno_kernel_forward_workspace_bytes_f32(n_edges, d, n_hidden, f_in, &
      & f_out, activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_forward_workspace_bytes_f32

    function gnograd_cuda_gno_kernel_forward_f32(n_edges, d, n_hidden, f_in, f_out, activation, &
      & coords, u, b_u, v, b_v, kappa, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: coords, u, b_u, v, b_v, kappa, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_forward_f32

    function gnograd_cuda_gno_kernel_vjp_workspace_bytes_f32(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_kernel_vjp_f32(n_edges, d, n_hidden, f_in, f_out, activation, &
      & cotangent, coords, u, b_u, v, b_v, grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: cotangent, coords, u, b_u, v, b_v, grad_coords, grad_u, grad_b_u, &
        & grad_v, grad_b_v, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_vjp_f32

    function gnograd_cuda_gno_kernel_jvp_workspace_bytes_f32(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_kernel_jvp_f32(n_edges, d, n_hidden, f_in, f_out, activation, &
      & coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, t_kappa, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, t_kappa, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_jvp_f32

    function gnograd_cuda_gno_kernel_hvp_workspace_bytes_f32(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_kernel_hvp_f32(n_edges, d, n_hidden, f_in, f_out, activation, &
      & cotangent, coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, grad_coords, grad_u, &
      & grad_b_u, grad_v, grad_b_v, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: cotangent, coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, &
        & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_hvp_f32

    function gnograd_cuda_gno_kernel_forward_workspace_bytes_f64(n_edges, d, n_hidden, f_in, &
      & f_out, activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_forward_workspace_bytes_f64

    function gnograd_cuda_gno_kernel_forward_f64(n_edges, d, n_hidden, f_in, f_out, activation, &
      & coords, u, b_u, v, b_v, kappa, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: coords, u, b_u, v, b_v, kappa, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_forward_f64

    function gnograd_cuda_gno_kernel_vjp_workspace_bytes_f64(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_kernel_vjp_f64(n_edges, d, n_hidden, f_in, f_out, activation, &
      & cotangent, coords, u, b_u, v, b_v, grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: cotangent, coords, u, b_u, v, b_v, grad_coords, grad_u, grad_b_u, &
        & grad_v, grad_b_v, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_vjp_f64

    function gnograd_cuda_gno_kernel_jvp_workspace_bytes_f64(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_kernel_jvp_f64(n_edges, d, n_hidden, f_in, f_out, activation, &
      & coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, t_kappa, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, t_kappa, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_jvp_f64

    function gnograd_cuda_gno_kernel_hvp_workspace_bytes_f64(n_edges, d, n_hidden, f_in, f_out, &
      & activation) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_kernel_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_kernel_hvp_f64(n_edges, d, n_hidden, f_in, f_out, activation, &
      & cotangent, coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, grad_coords, grad_u, &
      & grad_b_u, grad_v, grad_b_v, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_edges, d, n_hidden, f_in, f_out
      integer(c_int), value :: activation
      type(c_ptr), value :: cotangent, coords, u, b_u, v, b_v, t_coords, t_u, t_b_u, t_v, t_b_v, &
        & grad_coords, grad_u, grad_b_u, grad_v, grad_b_v, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_kernel_hvp_f64

    function gnograd_cuda_gno_aggregate_forward_workspace_bytes_f32(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_forward_workspace_bytes_f32

    function gnograd_cuda_gno_aggregate_forward_f32(graph, f_in, f_out, reduction, h, kappa, out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: h, kappa, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_forward_f32

    function gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f32(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_aggregate_vjp_f32(graph, f_in, f_out, reduction, cotangent, h, &
      & kappa, grad_h, grad_kappa, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: cotangent, h, kappa, grad_h, grad_kappa, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_vjp_f32

    function gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f32(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_aggregate_jvp_f32(graph, f_in, f_out, reduction, h, kappa, t_h, &
      & t_kappa, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: h, kappa, t_h, t_kappa, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_jvp_f32

    function gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f32(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_aggregate_hvp_f32(graph, f_in, f_out, reduction, cotangent, h, &
      & kappa, t_h, t_kappa, grad_h, grad_kappa, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: cotangent, h, kappa, t_h, t_kappa, grad_h, grad_kappa, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_hvp_f32

    function gnograd_cuda_gno_aggregate_forward_workspace_bytes_f64(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_forward_workspace_bytes_f64

    function gnograd_cuda_gno_aggregate_forward_f64(graph, f_in, f_out, reduction, h, kappa, out, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: h, kappa, out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_forward_f64

    function gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f64(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_aggregate_vjp_f64(graph, f_in, f_out, reduction, cotangent, h, &
      & kappa, grad_h, grad_kappa, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: cotangent, h, kappa, grad_h, grad_kappa, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_vjp_f64

    function gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f64(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_aggregate_jvp_f64(graph, f_in, f_out, reduction, h, kappa, t_h, &
      & t_kappa, t_out, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: h, kappa, t_h, t_kappa, t_out, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_jvp_f64

    function gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f64(graph, f_in, f_out, &
      & reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_aggregate_hvp_f64(graph, f_in, f_out, reduction, cotangent, h, &
      & kappa, t_h, t_kappa, grad_h, grad_kappa, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_in, f_out
      integer(c_int), value :: reduction
      type(c_ptr), value :: cotangent, h, kappa, t_h, t_kappa, grad_h, grad_kappa, workspace, &
        & stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_aggregate_hvp_f64

    function gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f32

    function gnograd_cuda_gno_with_gradient_forward_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, out, gradient, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_forward_f32

    function gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_with_gradient_vjp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, h, x, y, layers, v, &
      & b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, h, x, y, layers, v, b_v, edge_weight, &
        & weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_vjp_f32

    function gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_gradient_jvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_jvp_f32

    function gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_gradient_hvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, h, x, y, layers, v, &
      & b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
      & grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, h, x, y, layers, v, b_v, edge_weight, &
        & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_hvp_f32

    function gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f64

    function gnograd_cuda_gno_with_gradient_forward_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, out, gradient, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_forward_f64

    function gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_with_gradient_vjp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, h, x, y, layers, v, &
      & b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, h, x, y, layers, v, b_v, edge_weight, &
        & weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_vjp_f64

    function gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_gradient_jvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_jvp_f64

    function gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_gradient_hvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, h, x, y, layers, v, &
      & b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
      & grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, h, x, y, layers, v, b_v, edge_weight, &
        & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_gradient_hvp_f64

    function gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f32

    function gnograd_cuda_gno_with_laplacian_forward_f32(graph, n_batch, d, f_in, f_out, &
      & n_layers, widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, &
      & edge_weight, weight_derivatives, out, gradient, laplacian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, laplacian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_forward_f32

    function gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_with_laplacian_vjp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_laplacian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, &
      & grad_v, grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_laplacian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_vjp_f32

    function gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_laplacian_jvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, t_laplacian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, t_laplacian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_jvp_f32

    function gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_laplacian_hvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_laplacian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, &
      & t_edge_weight, t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_laplacian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_hvp_f32

    function gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f64

    function gnograd_cuda_gno_with_laplacian_forward_f64(graph, n_batch, d, f_in, f_out, &
      & n_layers, widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, &
      & edge_weight, weight_derivatives, out, gradient, laplacian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, laplacian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_forward_f64

    function gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_with_laplacian_vjp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_laplacian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, &
      & grad_v, grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_laplacian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_vjp_f64

    function gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_laplacian_jvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, t_laplacian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, t_laplacian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_jvp_f64

    function gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_laplacian_hvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_laplacian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, &
      & t_edge_weight, t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_laplacian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_laplacian_hvp_f64

    function gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f32

    function gnograd_cuda_gno_with_hessian_forward_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, out, gradient, hessian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, hessian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_forward_f32

    function gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_with_hessian_vjp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_hessian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, &
      & grad_v, grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_hessian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_vjp_f32

    function gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_hessian_jvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, t_hessian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, t_hessian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_jvp_f32

    function gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f32(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_with_hessian_hvp_f32(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_hessian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, &
      & t_edge_weight, t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_hessian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_hvp_f32

    function gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f64

    function gnograd_cuda_gno_with_hessian_forward_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, out, gradient, hessian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & out, gradient, hessian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_forward_f64

    function gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_with_hessian_vjp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_hessian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, &
      & grad_v, grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_hessian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_vjp_f64

    function gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_hessian_jvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, &
      & weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
      & t_weight_derivatives, t_out, t_gradient, t_hessian, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
        & t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, t_weight_derivatives, t_out, &
        & t_gradient, t_hessian, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_jvp_f64

    function gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f64(graph, n_batch, d, f_in, &
      & f_out, n_layers, widths, geometry, activation, reduction, kernel) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_with_hessian_hvp_f64(graph, n_batch, d, f_in, f_out, n_layers, &
      & widths, geometry, activation, reduction, kernel, c_out, c_gradient, c_hessian, h, x, y, &
      & layers, v, b_v, edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, &
      & t_edge_weight, t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, &
      & grad_b_v, grad_edge_weight, grad_weight_derivatives, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_batch, d, f_in, f_out, n_layers
      type(c_ptr), value :: widths, c_out, c_gradient, c_hessian, h, x, y, layers, v, b_v, &
        & edge_weight, weight_derivatives, t_h, t_x, t_y, t_layers, t_v, t_b_v, t_edge_weight, &
        & t_weight_derivatives, grad_h, grad_x, grad_y, grad_layers, grad_v, grad_b_v, &
        & grad_edge_weight, grad_weight_derivatives, workspace, stream
      integer(c_int), value :: geometry, activation, reduction, kernel
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_with_hessian_hvp_f64

    function gnograd_cuda_gno_deep_forward_workspace_bytes_f32(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_forward_workspace_bytes_f32

    function gnograd_cuda_gno_deep_forward_f32(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, h, y, x, c, layers, edge_weight, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, h, y, x, c, layers, edge_weight, out, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_forward_f32

    function gnograd_cuda_gno_deep_vjp_workspace_bytes_f32(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_vjp_workspace_bytes_f32

    function gnograd_cuda_gno_deep_vjp_f32(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, cotangent, h, y, x, c, layers, edge_weight, grad_h, &
      & grad_y, grad_x, grad_c, grad_layers, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, cotangent, h, y, x, c, layers, edge_weight, grad_h, grad_y, &
        & grad_x, grad_c, grad_layers, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_vjp_f32

    function gnograd_cuda_gno_deep_jvp_workspace_bytes_f32(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_jvp_workspace_bytes_f32

    function gnograd_cuda_gno_deep_jvp_f32(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, t_c, &
      & t_layers, t_edge_weight, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, t_c, &
        & t_layers, t_edge_weight, t_out, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_jvp_f32

    function gnograd_cuda_gno_deep_hvp_workspace_bytes_f32(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_hvp_workspace_bytes_f32

    function gnograd_cuda_gno_deep_hvp_f32(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, cotangent, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, &
      & t_c, t_layers, t_edge_weight, grad_h, grad_y, grad_x, grad_c, grad_layers, &
      & grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, cotangent, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, &
        & t_c, t_layers, t_edge_weight, grad_h, grad_y, grad_x, grad_c, grad_layers, &
        & grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_hvp_f32

    function gnograd_cuda_gno_deep_forward_workspace_bytes_f64(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_forward_workspace_bytes_f64

    function gnograd_cuda_gno_deep_forward_f64(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, h, y, x, c, layers, edge_weight, out, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, h, y, x, c, layers, edge_weight, out, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_forward_f64

    function gnograd_cuda_gno_deep_vjp_workspace_bytes_f64(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_vjp_workspace_bytes_f64

    function gnograd_cuda_gno_deep_vjp_f64(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, cotangent, h, y, x, c, layers, edge_weight, grad_h, &
      & grad_y, grad_x, grad_c, grad_layers, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, cotangent, h, y, x, c, layers, edge_weight, grad_h, grad_y, &
        & grad_x, grad_c, grad_layers, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_vjp_f64

    function gnograd_cuda_gno_deep_jvp_workspace_bytes_f64(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_jvp_workspace_bytes_f64

    function gnograd_cuda_gno_deep_jvp_f64(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, t_c, &
      & t_layers, t_edge_weight, t_out, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, t_c, &
        & t_layers, t_edge_weight, t_out, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_jvp_f64

    function gnograd_cuda_gno_deep_hvp_workspace_bytes_f64(graph, n_functions, d_y, d_x, d_c, &
      & n_in, n_layers, widths, activation, reduction) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, reduction
      integer(c_size_t) :: outcome
    end function gnograd_cuda_gno_deep_hvp_workspace_bytes_f64

    function gnograd_cuda_gno_deep_hvp_f64(graph, n_functions, d_y, d_x, d_c, n_in, n_layers, &
      & widths, activation, reduction, cotangent, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, &
      & t_c, t_layers, t_edge_weight, grad_h, grad_y, grad_x, grad_c, grad_layers, &
      & grad_edge_weight, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: n_functions, d_y, d_x, d_c, n_in, n_layers
      type(c_ptr), value :: widths, cotangent, h, y, x, c, layers, edge_weight, t_h, t_y, t_x, &
        & t_c, t_layers, t_edge_weight, grad_h, grad_y, grad_x, grad_c, grad_layers, &
        & grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, reduction
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_gno_deep_hvp_f64

    function gnograd_cuda_edge_mlp_forward_workspace_bytes_f32(graph, f_e, f_s, f_d, n_in, &
      & n_layers, widths, activation, layer_norm, residual, reduction, &
      & outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_forward_workspace_bytes_f32

    function gnograd_cuda_edge_mlp_forward_f32(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, e, x_src, x_dst, weights, &
      & edge_weight, edges, nodes, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, e, x_src, x_dst, weights, edge_weight, edges, nodes, &
        & workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_forward_f32

    function gnograd_cuda_edge_mlp_vjp_workspace_bytes_f32(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_vjp_workspace_bytes_f32

    function gnograd_cuda_edge_mlp_vjp_f32(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, c_edges, c_nodes, e, x_src, x_dst, &
      & weights, edge_weight, grad_e, grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, c_edges, c_nodes, e, x_src, x_dst, weights, edge_weight, &
        & grad_e, grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_vjp_f32

    function gnograd_cuda_edge_mlp_jvp_workspace_bytes_f32(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_jvp_workspace_bytes_f32

    function gnograd_cuda_edge_mlp_jvp_f32(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, e, x_src, x_dst, weights, &
      & edge_weight, t_e, t_x_src, t_x_dst, t_weights, t_edge_weight, t_edges, t_nodes, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, e, x_src, x_dst, weights, edge_weight, t_e, t_x_src, t_x_dst, &
        & t_weights, t_edge_weight, t_edges, t_nodes, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_jvp_f32

    function gnograd_cuda_edge_mlp_hvp_workspace_bytes_f32(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_hvp_workspace_bytes_f32

    function gnograd_cuda_edge_mlp_hvp_f32(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, c_edges, c_nodes, e, x_src, x_dst, &
      & weights, edge_weight, t_e, t_x_src, t_x_dst, t_weights, t_edge_weight, grad_e, &
      & grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, c_edges, c_nodes, e, x_src, x_dst, weights, edge_weight, t_e, &
        & t_x_src, t_x_dst, t_weights, t_edge_weight, grad_e, grad_x_src, grad_x_dst, &
        & grad_weights, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_hvp_f32

    function gnograd_cuda_edge_mlp_forward_workspace_bytes_f64(graph, f_e, f_s, f_d, n_in, &
      & n_layers, widths, activation, layer_norm, residual, reduction, &
      & outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_forward_workspace_bytes_f64

    function gnograd_cuda_edge_mlp_forward_f64(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, e, x_src, x_dst, weights, &
      & edge_weight, edges, nodes, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, e, x_src, x_dst, weights, edge_weight, edges, nodes, &
        & workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_forward_f64

    function gnograd_cuda_edge_mlp_vjp_workspace_bytes_f64(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_vjp_workspace_bytes_f64

    function gnograd_cuda_edge_mlp_vjp_f64(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, c_edges, c_nodes, e, x_src, x_dst, &
      & weights, edge_weight, grad_e, grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, c_edges, c_nodes, e, x_src, x_dst, weights, edge_weight, &
        & grad_e, grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_vjp_f64

    function gnograd_cuda_edge_mlp_jvp_workspace_bytes_f64(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_jvp_workspace_bytes_f64

    function gnograd_cuda_edge_mlp_jvp_f64(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, e, x_src, x_dst, weights, &
      & edge_weight, t_e, t_x_src, t_x_dst, t_weights, t_edge_weight, t_edges, t_nodes, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, e, x_src, x_dst, weights, edge_weight, t_e, t_x_src, t_x_dst, &
        & t_weights, t_edge_weight, t_edges, t_nodes, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_jvp_f64

    function gnograd_cuda_edge_mlp_hvp_workspace_bytes_f64(graph, f_e, f_s, f_d, n_in, n_layers, &
      & widths, activation, layer_norm, residual, reduction, outputs) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t) :: outcome
    end function gnograd_cuda_edge_mlp_hvp_workspace_bytes_f64

    function gnograd_cuda_edge_mlp_hvp_f64(graph, f_e, f_s, f_d, n_in, n_layers, widths, &
      & activation, layer_norm, residual, reduction, outputs, c_edges, c_nodes, e, x_src, x_dst, &
      & weights, edge_weight, t_e, t_x_src, t_x_dst, t_weights, t_edge_weight, grad_e, &
      & grad_x_src, grad_x_dst, grad_weights, grad_edge_weight, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_int, c_int64_t, c_ptr, c_size_t, gnograd_cuda_graph
      type(gnograd_cuda_graph), intent(in) :: graph
      integer(c_int64_t), value :: f_e, f_s, f_d, n_in, n_layers
      type(c_ptr), value :: widths, c_edges, c_nodes, e, x_src, x_dst, weights, edge_weight, t_e, &
        & t_x_src, t_x_dst, t_weights, t_edge_weight, grad_e, grad_x_src, grad_x_dst, &
        & grad_weights, grad_edge_weight, workspace, stream
      integer(c_int), value :: activation, layer_norm, residual, reduction, outputs
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_edge_mlp_hvp_f64

    function gnograd_cuda_neighbors_count_workspace_bytes_f32(n_src, n_dst, d, n_items, &
      & n_buckets, radius, period_x, period_y, period_z, exclude_self, max_neighbors, seed, &
      & room) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbors_count_workspace_bytes_f32

    function gnograd_cuda_neighbors_count_f32(n_src, n_dst, d, n_items, n_buckets, radius, &
      & period_x, period_y, period_z, exclude_self, max_neighbors, seed, room, sources, &
      & destinations, source_items, destination_items, positions, order, starts, grid, found, &
      & offsets, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      type(c_ptr), value :: sources, destinations, source_items, destination_items, positions, &
        & order, starts, grid, found, offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbors_count_f32

    function gnograd_cuda_neighbors_fill_workspace_bytes_f32(n_src, n_dst, d, n_items, n_buckets, &
      & radius, period_x, period_y, period_z, exclude_self, max_neighbors, seed, &
      & room) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbors_fill_workspace_bytes_f32

    function gnograd_cuda_neighbors_fill_f32(n_src, n_dst, d, n_items, n_buckets, radius, &
      & period_x, period_y, period_z, exclude_self, max_neighbors, seed, room, destinations, &
      & source_items, destination_items, positions, order, starts, grid, found, offsets, indices, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      type(c_ptr), value :: destinations, source_items, destination_items, positions, order, &
        & starts, grid, found, offsets, indices, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbors_fill_f32

    function gnograd_cuda_neighbors_count_workspace_bytes_f64(n_src, n_dst, d, n_items, &
      & n_buckets, radius, period_x, period_y, period_z, exclude_self, max_neighbors, seed, &
      & room) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbors_count_workspace_bytes_f64

    function gnograd_cuda_neighbors_count_f64(n_src, n_dst, d, n_items, n_buckets, radius, &
      & period_x, period_y, period_z, exclude_self, max_neighbors, seed, room, sources, &
      & destinations, source_items, destination_items, positions, order, starts, grid, found, &
      & offsets, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      type(c_ptr), value :: sources, destinations, source_items, destination_items, positions, &
        & order, starts, grid, found, offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbors_count_f64

    function gnograd_cuda_neighbors_fill_workspace_bytes_f64(n_src, n_dst, d, n_items, n_buckets, &
      & radius, period_x, period_y, period_z, exclude_self, max_neighbors, seed, &
      & room) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbors_fill_workspace_bytes_f64

    function gnograd_cuda_neighbors_fill_f64(n_src, n_dst, d, n_items, n_buckets, radius, &
      & period_x, period_y, period_z, exclude_self, max_neighbors, seed, room, destinations, &
      & source_items, destination_items, positions, order, starts, grid, found, offsets, indices, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, n_buckets, max_neighbors, seed, room
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self
      type(c_ptr), value :: destinations, source_items, destination_items, positions, order, &
        & starts, grid, found, offsets, indices, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbors_fill_f64

    function gnograd_cuda_nearer_neighbors_count_workspace_bytes_f32(n_src, n_dst, d, radius, &
      & period_x, period_y, period_z) result(outcome) bind(C)
      import :: c_double, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearer_neighbors_count_workspace_bytes_f32

    function gnograd_cuda_nearer_neighbors_count_f32(n_src, n_dst, d, radius, period_x, period_y, &
      & period_z, sources, destinations, offsets, indices, kept_offsets, marks, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      type(c_ptr), value :: sources, destinations, offsets, indices, kept_offsets, marks, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearer_neighbors_count_f32

    function gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f32(n_src, n_dst, d, radius, &
      & period_x, period_y, period_z) result(outcome) bind(C)
      import :: c_double, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f32

    function gnograd_cuda_nearer_neighbors_fill_f32(n_src, n_dst, d, radius, period_x, period_y, &
      & period_z, offsets, indices, kept_offsets, marks, kept, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      type(c_ptr), value :: offsets, indices, kept_offsets, marks, kept, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearer_neighbors_fill_f32

    function gnograd_cuda_nearer_neighbors_count_workspace_bytes_f64(n_src, n_dst, d, radius, &
      & period_x, period_y, period_z) result(outcome) bind(C)
      import :: c_double, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearer_neighbors_count_workspace_bytes_f64

    function gnograd_cuda_nearer_neighbors_count_f64(n_src, n_dst, d, radius, period_x, period_y, &
      & period_z, sources, destinations, offsets, indices, kept_offsets, marks, workspace, &
      & workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      type(c_ptr), value :: sources, destinations, offsets, indices, kept_offsets, marks, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearer_neighbors_count_f64

    function gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f64(n_src, n_dst, d, radius, &
      & period_x, period_y, period_z) result(outcome) bind(C)
      import :: c_double, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f64

    function gnograd_cuda_nearer_neighbors_fill_f64(n_src, n_dst, d, radius, period_x, period_y, &
      & period_z, offsets, indices, kept_offsets, marks, kept, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d
      real(c_double), value :: radius, period_x, period_y, period_z
      type(c_ptr), value :: offsets, indices, kept_offsets, marks, kept, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearer_neighbors_fill_f64

    function gnograd_cuda_nearest_neighbors_find_workspace_bytes_f32(n_src, n_dst, d, n_items, k, &
      & radius, period_x, period_y, period_z, exclude_self, ascending) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearest_neighbors_find_workspace_bytes_f32

    function gnograd_cuda_nearest_neighbors_find_f32(n_src, n_dst, d, n_items, k, radius, &
      & period_x, period_y, period_z, exclude_self, ascending, sources, destinations, &
      & source_items, destination_items, found, offsets, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      type(c_ptr), value :: sources, destinations, source_items, destination_items, found, &
        & offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearest_neighbors_find_f32

    function gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f32(n_src, n_dst, d, n_items, k, &
      & radius, period_x, period_y, period_z, exclude_self, ascending) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f32

    function gnograd_cuda_nearest_neighbors_fill_f32(n_src, n_dst, d, n_items, k, radius, &
      & period_x, period_y, period_z, exclude_self, ascending, found, offsets, indices, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      type(c_ptr), value :: found, offsets, indices, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearest_neighbors_fill_f32

    function gnograd_cuda_nearest_neighbors_find_workspace_bytes_f64(n_src, n_dst, d, n_items, k, &
      & radius, period_x, period_y, period_z, exclude_self, ascending) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearest_neighbors_find_workspace_bytes_f64

    function gnograd_cuda_nearest_neighbors_find_f64(n_src, n_dst, d, n_items, k, radius, &
      & period_x, period_y, period_z, exclude_self, ascending, sources, destinations, &
      & source_items, destination_items, found, offsets, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      type(c_ptr), value :: sources, destinations, source_items, destination_items, found, &
        & offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearest_neighbors_find_f64

    function gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f64(n_src, n_dst, d, n_items, k, &
      & radius, period_x, period_y, period_z, exclude_self, ascending) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      integer(c_size_t) :: outcome
    end function gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f64

    function gnograd_cuda_nearest_neighbors_fill_f64(n_src, n_dst, d, n_items, k, radius, &
      & period_x, period_y, period_z, exclude_self, ascending, found, offsets, indices, &
      & workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n_src, n_dst, d, n_items, k
      real(c_double), value :: radius, period_x, period_y, period_z
      integer(c_int), value :: exclude_self, ascending
      type(c_ptr), value :: found, offsets, indices, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_nearest_neighbors_fill_f64

    function gnograd_cuda_neighbor_list_images_workspace_bytes_f32(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_images_workspace_bytes_f32

    function gnograd_cuda_neighbor_list_images_f32(n, d, n_images, radius, full, points, lattice, &
      & starts, base, exponent, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, starts, base, exponent, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_images_f32

    function gnograd_cuda_neighbor_list_place_workspace_bytes_f32(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_place_workspace_bytes_f32

    function gnograd_cuda_neighbor_list_place_f32(n, d, n_images, radius, full, points, lattice, &
      & starts, base, inside, copies, point, shift, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, starts, base, inside, copies, point, shift, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_place_f32

    function gnograd_cuda_neighbor_list_count_workspace_bytes_f32(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_count_workspace_bytes_f32

    function gnograd_cuda_neighbor_list_count_f32(n, d, n_images, radius, full, points, lattice, &
      & base, point, shift, candidate_offsets, candidates, offsets, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, base, point, shift, candidate_offsets, candidates, &
        & offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_count_f32

    function gnograd_cuda_neighbor_list_fill_workspace_bytes_f32(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_fill_workspace_bytes_f32

    function gnograd_cuda_neighbor_list_fill_f32(n, d, n_images, radius, full, points, lattice, &
      & base, point, shift, candidate_offsets, candidates, offsets, indices, shifts, distances, &
      & vectors, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, base, point, shift, candidate_offsets, candidates, &
        & offsets, indices, shifts, distances, vectors, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_fill_f32

    function gnograd_cuda_neighbor_list_images_workspace_bytes_f64(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_images_workspace_bytes_f64

    function gnograd_cuda_neighbor_list_images_f64(n, d, n_images, radius, full, points, lattice, &
      & starts, base, exponent, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, starts, base, exponent, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_images_f64

    function gnograd_cuda_neighbor_list_place_workspace_bytes_f64(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_place_workspace_bytes_f64

    function gnograd_cuda_neighbor_list_place_f64(n, d, n_images, radius, full, points, lattice, &
      & starts, base, inside, copies, point, shift, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, starts, base, inside, copies, point, shift, &
        & workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_place_f64

    function gnograd_cuda_neighbor_list_count_workspace_bytes_f64(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_count_workspace_bytes_f64

    function gnograd_cuda_neighbor_list_count_f64(n, d, n_images, radius, full, points, lattice, &
      & base, point, shift, candidate_offsets, candidates, offsets, workspace, workspace_bytes, &
      & stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, base, point, shift, candidate_offsets, candidates, &
        & offsets, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_count_f64

    function gnograd_cuda_neighbor_list_fill_workspace_bytes_f64(n, d, n_images, radius, &
      & full) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      integer(c_size_t) :: outcome
    end function gnograd_cuda_neighbor_list_fill_workspace_bytes_f64

    function gnograd_cuda_neighbor_list_fill_f64(n, d, n_images, radius, full, points, lattice, &
      & base, point, shift, candidate_offsets, candidates, offsets, indices, shifts, distances, &
      & vectors, workspace, workspace_bytes, stream) result(outcome) bind(C)
      import :: c_double, c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int64_t), value :: n, d, n_images
      real(c_double), value :: radius
      integer(c_int), value :: full
      type(c_ptr), value :: points, lattice, base, point, shift, candidate_offsets, candidates, &
        & offsets, indices, shifts, distances, vectors, workspace, stream
      integer(c_size_t), value :: workspace_bytes
      integer(c_int) :: outcome
    end function gnograd_cuda_neighbor_list_fill_f64
  end interface

end module gnograd_cuda

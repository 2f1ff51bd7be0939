! SPDX-License-Identifier: MIT

!> A program that has its arrays on a device and calls the CUDA library itself, as one with OpenACC,
!> OpenMP or CUDA Fortran does: gno, forward and vjp, against the formula in plain loops.
program interface
  use, intrinsic :: iso_c_binding
  use gnograd_cuda
  implicit none
  integer, parameter :: n_src = 3, n_dst = 2, n_edges = 4, d = 1, n_hidden = 5, f_in = 2, f_out = 3
  integer(c_int64_t), parameter :: one = 1
  integer(c_int), parameter :: tanh_code = 3, sum_code = 0, full = 0
  integer(c_int64_t), target :: offsets(n_dst + 1) = [0_c_int64_t, 3_c_int64_t, 4_c_int64_t]
  integer(c_int32_t), target :: sources(n_edges) = [0, 1, 2, 1]
  integer(c_int64_t), target :: src_offsets(n_src + 1) = [0_c_int64_t, 1_c_int64_t, 3_c_int64_t, &
    & 4_c_int64_t]
  integer(c_int32_t), target :: destinations(n_edges) = [0, 0, 1, 0]
  integer(c_int64_t), target :: src_edges(n_edges) = [0_c_int64_t, 1_c_int64_t, 3_c_int64_t, &
    & 2_c_int64_t]
  real(c_double), target :: h(f_in, n_src), coords(d, n_edges), u(n_hidden, d), b_u(n_hidden), &
    & v(f_out, f_in, n_hidden), b_v(f_out, f_in), out(f_out, n_dst), c(f_out, n_dst), &
    & grad_h(f_in, n_src)
  real(c_double) :: kernel(f_out, f_in), wanted(f_out, n_dst), wanted_grad(f_in, n_src)
  type(gnograd_cuda_graph) :: graph
  type(c_ptr) :: x(6), result, cotangent, gradient, workspace, stream
  integer(c_size_t) :: bytes
  integer :: dst, e, k

  call random_init(repeatable=.true., image_distinct=.false.)
  call random_number(h)
  call random_number(coords)
  call random_number(u)
  call random_number(b_u)
  call random_number(v)
  call random_number(b_v)
  call random_number(c)

  stream = c_null_ptr
  graph%n_src = n_src
  graph%n_dst = n_dst
  graph%n_edges = n_edges
  graph%by_dst%offsets = on_device(c_loc(offsets), c_sizeof(offsets))
  graph%by_dst%indices = on_device(c_loc(sources), c_sizeof(sources))
  graph%by_src%offsets = on_device(c_loc(src_offsets), c_sizeof(src_offsets))
  graph%by_src%indices = on_device(c_loc(destinations), c_sizeof(destinations))
  graph%by_src%edge = on_device(c_loc(src_edges), c_sizeof(src_edges))
  x = [on_device(c_loc(h), c_sizeof(h)), on_device(c_loc(coords), c_sizeof(coords)), &
    & on_device(c_loc(u), c_sizeof(u)), on_device(c_loc(b_u), c_sizeof(b_u)), &
    & on_device(c_loc(v), c_sizeof(v)), on_device(c_loc(b_v), c_sizeof(b_v))]
  cotangent = on_device(c_loc(c), c_sizeof(c))
  call must(gnograd_cuda_allocate(c_sizeof(out), result, stream))
  call must(gnograd_cuda_allocate(c_sizeof(grad_h), gradient, stream))

  bytes = gnograd_cuda_gno_forward_workspace_bytes_f64(graph, one, int(d, c_int64_t), &
    & int(n_hidden, c_int64_t), int(f_in, c_int64_t), int(f_out, c_int64_t), tanh_code, sum_code, &
    & full)
  call must(gnograd_cuda_allocate(bytes, workspace, stream))
  call must(gnograd_cuda_gno_forward_f64(graph, one, int(d, c_int64_t), int(n_hidden, c_int64_t), &
    & int(f_in, c_int64_t), int(f_out, c_int64_t), tanh_code, sum_code, full, x(1), x(2), x(3), &
    & x(4), &
    & x(5), x(6), c_null_ptr, result, workspace, bytes, stream))
  call must(gnograd_cuda_free(workspace, stream))

  bytes = gnograd_cuda_gno_vjp_workspace_bytes_f64(graph, one, int(d, c_int64_t), &
    & int(n_hidden, c_int64_t), int(f_in, c_int64_t), int(f_out, c_int64_t), tanh_code, sum_code, &
    & full)
  call must(gnograd_cuda_allocate(bytes, workspace, stream))
  ! gradient to h alone
  call must(gnograd_cuda_gno_vjp_f64(graph, one, int(d, c_int64_t), int(n_hidden, c_int64_t), &
    & int(f_in, c_int64_t), int(f_out, c_int64_t), tanh_code, sum_code, full, cotangent, x(1), &
    & x(2), &
    & x(3), x(4), x(5), x(6), c_null_ptr, gradient, c_null_ptr, c_null_ptr, c_null_ptr, &
    & c_null_ptr, &
    & c_null_ptr, c_null_ptr, workspace, bytes, stream))
  call must(gnograd_cuda_free(workspace, stream))
  call must(gnograd_cuda_copy(c_loc(out), result, c_sizeof(out), stream))
  call must(gnograd_cuda_copy(c_loc(grad_h), gradient, c_sizeof(grad_h), stream))
  call must(gnograd_cuda_synchronize(stream))

  wanted = 0
  wanted_grad = 0
  do dst = 1, n_dst
    do e = int(offsets(dst)) + 1, int(offsets(dst + 1))
      kernel = b_v
      do k = 1, n_hidden
        kernel = kernel + tanh(dot_product(u(k, :), coords(:, e)) + b_u(k))*v(:, :, k)
      end do
      wanted(:, dst) = wanted(:, dst) + matmul(kernel, h(:, sources(e) + 1))
      wanted_grad(:, sources(e) + 1) = wanted_grad(:, sources(e) + 1) + matmul(c(:, dst), kernel)
    end do
  end do
  if (any(abs(out - wanted) > 1e-12_c_double)) error stop "the sum is wrong"
  if (any(abs(grad_h - wanted_grad) > 1e-12_c_double)) error stop "the gradient is wrong"
  print "(a)", "as the formula says"

contains

  !> A copy in device memory.
  function on_device(host, bytes) result(memory)
    type(c_ptr), intent(in) :: host
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr) :: memory

    call must(gnograd_cuda_allocate(bytes, memory, stream))
    call must(gnograd_cuda_copy(memory, host, bytes, stream))
  end function on_device

  subroutine must(status)
    integer(c_int), intent(in) :: status

    if (status /= 0) error stop "a call of the CUDA library has failed"
  end subroutine must

end program interface

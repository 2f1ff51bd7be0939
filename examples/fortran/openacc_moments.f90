! SPDX-License-Identifier: MIT

!> Moments of neighbourhoods by gnograd's CUDA kernels in an OpenACC program.
!>
!> The arrays stay on the device, where loops of OpenACC have made them; a kernel of gnograd reads and
!> writes them there.
program openacc_moments
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int32_t, c_int64_t, c_loc, c_null_ptr, &
    & c_ptr, c_size_t
  use gnograd_cuda
  implicit none
  integer(c_int64_t), parameter :: n_src = 4, n_dst = 3, n_edges = 6, d = 2
  !> Mean and variance of the distance, the centroid, the covariance's upper triangle
  integer, parameter :: n_moments = 2 + d + d*(d + 1)/2
  integer(c_int64_t), target :: offsets(n_dst + 1) = [integer(c_int64_t) :: 0, 2, 5, 6]
  integer(c_int32_t), target :: sources(n_edges) = [0, 1, 1, 2, 3, 3]
  real(c_double), target :: x(d, n_src), y(d, n_dst), moments(n_moments, n_dst)
  type(gnograd_cuda_graph) :: graph
  type(c_ptr) :: workspace
  integer(c_size_t) :: bytes
  integer(c_int) :: status
  integer :: i

  !$acc data create(x, y) copyin(offsets, sources) copyout(moments)
  !$acc parallel loop
  do i = 1, int(n_src)
    x(:, i) = [cos(real(i, c_double)), sin(real(i, c_double))]
  end do
  !$acc parallel loop
  do i = 1, int(n_dst)
    y(:, i) = [0.1_c_double*i, 0.0_c_double]
  end do

  !$acc host_data use_device(offsets, sources, x, y, moments)
  graph%n_src = n_src
  graph%n_dst = n_dst
  graph%n_edges = n_edges
  graph%by_dst%offsets = c_loc(offsets)
  graph%by_dst%indices = c_loc(sources)
  bytes = gnograd_cuda_offset_moments_forward_workspace_bytes_f64(graph, d)
  status = gnograd_cuda_allocate(bytes, workspace, c_null_ptr)
  if (status == 0) status = gnograd_cuda_offset_moments_forward_f64(graph, d, c_loc(x), c_loc(y), &
    & c_loc(moments), workspace, bytes, c_null_ptr)
  if (status == 0) status = gnograd_cuda_free(workspace, c_null_ptr)
  if (status == 0) status = gnograd_cuda_synchronize(c_null_ptr)
  !$acc end host_data
  !$acc end data
  if (status /= 0) error stop "gnograd: no moments"

  print "(a, *(f8.4))", "mean distances", moments(1, :)
end program openacc_moments

! SPDX-License-Identifier: MIT

!> Graphs over many processes: what a Fortran program with MPI uses besides gnograd.
module gnograd_mpi
  use gnograd_mpi_communicator, only: communicator_type
  use gnograd_mpi_distributed_graph, only: distributed_graph_type
  use gnograd_mpi_tape, only: halo, global_sum, global_mean, global_norm
  use gnograd_mpi_transport, only: pending_halo_type => pending_type
  implicit none
  public
end module gnograd_mpi

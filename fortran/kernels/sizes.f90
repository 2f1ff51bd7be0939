! SPDX-License-Identifier: MIT

!> Sizes that follow from static arguments: what entry points and the tape call besides kernels.
module gnograd_kernels_sizes
  use gnograd_kernels_gno_jets_arrays, only: gno_jets_sizes
  use gnograd_kernels_network_arrays, only: gno_deep_sizes => network_sizes, &
    & edge_mlp_sizes => network_sizes
  use gnograd_kernels_compress, only: nsa_sizes
  implicit none
  public
end module gnograd_kernels_sizes

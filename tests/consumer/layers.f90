! SPDX-License-Identifier: MIT

!> Layers with parameters that PyTorch has, for tests/test_fortran_layers.py: in a folder with
!> model.safetensors and data.safetensors; writes out.safetensors.
program layers
  use gnograd
  implicit none
  type(tape_type) :: tape
  type(initializer_type) :: initial
  type(dense_type) :: dense
  type(mlp_type) :: mlp
  type(layer_norm_type) :: normed
  type(gno_type) :: full, diagonal
  type(gat_type) :: heads, mean_heads
  type(edge_mlp_type) :: messages
  type(sample_type) :: data
  type(weights_type) :: results
  type(error_type), allocatable :: error
  type(array_type) :: x, e, coords, edges, nodes
  integer(int64), allocatable :: src(:), dst(:)

  call load_weights("data.safetensors", data%arrays, error)
  if (.not. allocated(error)) call data%arrays%get("src", src, error)
  if (.not. allocated(error)) call data%arrays%get("dst", dst, error)
  if (.not. allocated(error)) call data%graph%from_edges(src + 1, dst + 1, error, 10_int64)
  if (.not. allocated(error)) call tape%init(error)
  initial = initializer_type(seed=1, kind=sp)
  call dense%init(tape, initial, "dense", 4, 6)
  call mlp%init(tape, initial, "mlp", [4, 7, 7, 3], activation="gelu")
  call normed%init(tape, initial, "norm", 4)
  call full%init(tape, initial, "full", 4, 5, 2, n_hidden=8)
  call diagonal%init(tape, initial, "diagonal", 4, 4, 2, n_hidden=8, kernel="diagonal")
  call heads%init(tape, initial, "heads", 4, 3, n_heads=2)
  call mean_heads%init(tape, initial, "mean_heads", 4, 3, n_heads=2, concat_heads=.false.)
  call messages%init(tape, initial, "edge_mlp.model", 2, 4, [9, 9, 2])
  if (.not. allocated(error)) call tape%load("model.safetensors", error)

  x = data%array(tape, "x")
  e = data%array(tape, "e")
  coords = data%array(tape, "coords")
  call put("dense", dense%forward(x))
  call put("mlp", mlp%forward(x))
  call put("norm", normed%forward(x))
  call put("full", full%forward(x, coords, data%graph))
  call put("diagonal", diagonal%forward(x, coords, data%graph))
  call put("heads", heads%forward(x, data%graph))
  call put("mean_heads", mean_heads%forward(x, data%graph))
  call messages%forward(e, x, data%graph, edges, nodes)
  call put("edges", edges)
  call put("nodes", nodes)
  if (.not. allocated(error)) call save_weights("out.safetensors", results, error)
  if (allocated(error)) then
    print "(a)", error%message
    stop 1
  end if

contains

  subroutine put(name, x)
    character(len=*), intent(in) :: name
    type(array_type), intent(in) :: x
    real(sp), allocatable :: values(:, :)

    if (allocated(error)) return
    call tape%check(error)
    if (.not. allocated(error)) call x%val(values, error)
    if (.not. allocated(error)) call results%set(name, values, error)
  end subroutine put

end program layers

! SPDX-License-Identifier: MIT

!> Layers that PyTorch has trained, evaluated by a Fortran program: trained gno|mesh_graph_net, in a
!> folder with model.safetensors and data.safetensors; writes out.safetensors.
program trained
  use gnograd
  implicit none
  type(weights_type) :: model, data, results
  type(tape_type) :: tape
  type(graph_type) :: graph
  type(error_type), allocatable :: error
  integer(int64), allocatable :: offsets(:), indices(:)
  real(sp), allocatable :: values(:, :)
  type(array_type) :: out
  character(len=20) :: what

  call get_command_argument(1, what)
  call load_weights("model.safetensors", model, error)
  call stop_on(error)
  call load_weights("data.safetensors", data, error)
  call stop_on(error)
  call data%get("offsets", offsets, error)
  call stop_on(error)
  call data%get("indices", indices, error)
  call stop_on(error)
  call graph%init(offsets + 1, indices + 1, size(offsets, kind=int64) - 1, error)
  call stop_on(error)
  call tape%init(error)
  call stop_on(error)

  if (what == "gno") then
    out = gno(matrix(data, "nodes"), matrix(data, "edges"), matrix(model, "U"), &
      & vector(model, "b_u"), cube(model, "V"), matrix(model, "b_v"), graph, activation="silu", &
      & reduction="mean")
  else
    out = mesh_graph_net(matrix(data, "nodes"), matrix(data, "edges"))
  end if

  call out%val(values, error)
  call stop_on(error)
  call results%set("out", values, error)
  call stop_on(error)
  call save_weights("out.safetensors", results, error)
  call stop_on(error)

contains

  !> Encoders, blocks of edges and of nodes by turns, decoder.
  function mesh_graph_net(nodes, edges) result(y)
    type(array_type), intent(in) :: nodes, edges
    type(array_type) :: y, x, e
    character(len=40) :: block
    integer :: k

    x = mlp("node_encoder.model", nodes)
    e = mlp("edge_encoder.model", edges)
    k = 0
    do
      write (block, "(a, i0)") "processor.processor_layers.", k
      if (.not. model%has(trim(block)//".edge_mlp.model.0.weight")) exit
      e = e + mlp(trim(block)//".edge_mlp.model", update_edges(e, graph, x, x))
      write (block, "(a, i0)") "processor.processor_layers.", k + 1
      x = x + mlp(trim(block)//".node_mlp.model", &
        & concatenate([agg_simple(array_type(), graph, e, aggregation="sum"), x], 1))
      k = k + 2
    end do
    y = mlp("node_decoder.model", x)
  end function mesh_graph_net

  !> Linear layers with relu between them, and a layer norm behind, as far as the file has them.
  function mlp(name, x) result(y)
    character(len=*), intent(in) :: name
    type(array_type), intent(in) :: x
    type(array_type) :: y
    character(len=80) :: layer
    integer :: k

    y = x
    do k = 0, 20
      write (layer, "(2a, i0)") name, ".", k
      if (.not. model%has(trim(layer)//".weight")) cycle
      if (size(model%shape(trim(layer)//".weight")) == 2) then
        if (k > 0) y = relu(y)
        y = matmul(transpose(matrix(model, trim(layer)//".weight")), y) &
          & + vector(model, trim(layer)//".bias")
      else
        y = layer_norm(y)*vector(model, trim(layer)//".weight") &
          & + vector(model, trim(layer)//".bias")
      end if
    end do
  end function mlp

  function layer_norm(x) result(y)
    type(array_type), intent(in) :: x
    type(array_type) :: y

    y = x - mean(x, 1, keep_dim=.true.)
    y = y/sqrt(mean(y*y, 1, keep_dim=.true.) + tape%constant(1e-5_sp))
  end function layer_norm

  function vector(from, name) result(x)
    type(weights_type), intent(in) :: from
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:)

    call from%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function vector

  function matrix(from, name) result(x)
    type(weights_type), intent(in) :: from
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:, :)

    call from%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function matrix

  function cube(from, name) result(x)
    type(weights_type), intent(in) :: from
    character(len=*), intent(in) :: name
    type(array_type) :: x
    real(sp), allocatable :: numbers(:, :, :)

    call from%get(name, numbers, error)
    call stop_on(error)
    x = tape%constant(numbers)
  end function cube

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program trained

! SPDX-License-Identifier: MIT

!> A graph neural operator on points that Python has trained, gnograd.models.PointGNO.
module gnograd_nn_point_gno
  use gnograd_core_error, only: error_type, set_error => fail, text, code_value
  use gnograd_core_graph, only: graph_type
  use gnograd_core_kinds, only: sp, dp, int64
  use gnograd_weights, only: weights_type, load_weights, save_weights
  use gnograd_autodiff_activation, only: gelu
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_operands, only: fail
  use gnograd_autodiff_elementwise, only: operator(+), operator(-), operator(*), operator(/)
  use gnograd_autodiff_slice, only: concatenate, slice
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_dense, only: dense_type
  use gnograd_nn_gno_layer, only: gno_type
  use gnograd_nn_mlp, only: mlp_type
  implicit none
  private
  public :: point_gno_type

  character(len=*), parameter :: network = "network."
  !> Points that a query sees
  integer, parameter :: n_seen = 8
  real(sp), parameter :: two_pi = 2*acos(-1.0_sp)

  !> Model that `gnograd train points --model gno` has trained, with the scales of its inputs and
  !> outputs. It goes from inputs on points of any number to outputs on the same points or on
  !> others, or from a state to the next one.
  !>
  !>     call model%load(tape, "runs/points/model.safetensors", error)
  !>     call model%place(tape, points, error)
  !>     u = model%forward(tape%constant(f))
  !>
  !> Parameters are leaves of the tape, so that results have gradients with respect to them and to
  !> the inputs, and the model can be trained on.
  type :: point_gno_type
    !> Dimension of space
    integer :: dimension = 0
    !> Numbers at a point, of a whole sample, and at a point of the result. In time stepping a state
    !> is the last inputs, and the output
    integer :: n_inputs = 0, n_parameters = 0, n_outputs = 0
    !> True if the output is the next state
    logical :: in_time = .false.
    !> True if outputs are on points of their own
    logical :: has_queries = .false.
    !> Number of inputs before those that the network's results are added to; -1 without
    integer, private :: adds = -1
    type(weights_type), private :: file
    type(array_type), private :: input_mean, input_std, parameter_mean, parameter_std
    type(array_type), private :: output_mean, output_std
    real(sp), allocatable, private :: centre(:)
    real(sp), private :: scale = 1
    !> Lengths of the box of scaled points, 0 along axes that are not periodic; none without
    real(dp), allocatable, private :: period(:)
    real(dp), private :: radius = 0
    type(mlp_type), private :: lift, projection
    type(dense_type), allocatable, private :: local(:)
    type(gno_type), allocatable, private :: integral(:)
    type(gno_type), private :: kernel
    type(dense_type), private :: at_queries
    !> All parameters of the network, and their names in the file
    type(array_type), allocatable, private :: leaves(:)
    character(len=80), allocatable, private :: names(:)
    !> Neighbours of the points of `place`, and the features of edges and of places
    type(graph_type), private :: near, seen
    type(array_type), private :: near_edges, seen_edges, places, query_places
    !> Zeros that parameters of a sample are added to
    type(array_type), private :: everywhere
    integer(int64), private :: n_points = -1
  contains
    !> Read a model onto a tape
    procedure :: load
    !> Write the model, as Python and `load` read it
    procedure :: save
    !> Set the points
    procedure :: place
    !> Outputs at the points
    procedure :: forward
    !> All parameters, for an optimizer
    procedure :: parameters
  end type point_gno_type

contains

  ! ---- files ----

  !> Read `model.safetensors` of a training. After an error there is no model.
  subroutine load(self, tape, filename, error)
    class(point_gno_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    character(len=*), intent(in) :: filename
    type(error_type), allocatable, intent(out) :: error
    character(len=:), allocatable :: k
    integer :: n_layers, n_leaves, layer

    self%n_points = -1
    if (allocated(self%leaves)) deallocate (self%leaves)
    call load_weights(filename, self%file, error)
    if (allocated(error)) return
    if (self%file%get_text("model") /= "gno") then
      call set_error(error, code_value, "point_gno: "//trim(filename)//" is not from `gnograd train "// &
        & "points --model gno`, or from an older gnograd")
      return
    end if
    call read_settings()
    if (allocated(error)) return
    n_layers = 0
    do while (self%file%has(network//"local."//text(int(n_layers, int64))//".weight"))
      n_layers = n_layers + 1
    end do
    n_leaves = 8 + 6*n_layers + merge(6, 0, self%has_queries)
    allocate (self%leaves(n_leaves), self%names(n_leaves))
    n_leaves = 0
    call perceptron("lift", self%lift)
    if (allocated(self%local)) deallocate (self%local)
    if (allocated(self%integral)) deallocate (self%integral)
    allocate (self%local(n_layers), self%integral(n_layers))
    do layer = 1, n_layers
      k = text(int(layer - 1, int64))
      call dense("local."//k, self%local(layer))
      call gno("integral."//k, self%integral(layer))
    end do
    if (self%has_queries) then
      call gno("to_queries.kernel", self%kernel)
      call dense("to_queries.where", self%at_queries)
    end if
    call perceptron("projection", self%projection)
    if (.not. allocated(error)) call tape%check(error)
    if (.not. allocated(error)) call check_widths()
    if (allocated(error)) deallocate (self%leaves, self%names)

  contains

    subroutine read_settings()
      character(len=:), allocatable :: period
      integer :: status

      call self%file%get("centre", self%centre, error)
      if (.not. allocated(error)) call self%file%get("scale", self%scale, error)
      if (allocated(error)) return
      self%dimension = size(self%centre)
      call statistics("input", self%n_inputs, self%input_mean, self%input_std)
      call statistics("parameter", self%n_parameters, self%parameter_mean, self%parameter_std)
      call statistics("output", self%n_outputs, self%output_mean, self%output_std)
      if (allocated(error)) return
      self%in_time = self%file%get_text("in_time") == "true"
      self%has_queries = self%file%get_text("apart") == "true"
      self%adds = merge(self%n_inputs - self%n_outputs, -1, self%in_time)
      period = self%file%get_text("adds")
      status = 0
      if (len(period) > 0) read (period, *, iostat=status) self%adds
      if (status /= 0 .or. self%adds > self%n_inputs - self%n_outputs) then
        call set_error(error, code_value, "point_gno: results of "//trim(filename)// &
          & " are added to inputs that it does not have")
        return
      end if
      period = self%file%get_text("radius")
      read (period, *, iostat=status) self%radius
      if (status /= 0 .or. .not. self%radius > 0) then
        call set_error(error, code_value, "point_gno: "//trim(filename)//" names no radius")
        return
      end if
      if (allocated(self%period)) deallocate (self%period)
      period = self%file%get_text("period")
      if (index(period, "[") /= 1) return
      allocate (self%period(self%dimension))
      read (period(2:len(period) - 1), *, iostat=status) self%period
      if (status /= 0) call set_error(error, code_value, "point_gno: period of "//trim(filename)// &
        & " is not one length an axis")
    end subroutine read_settings

    subroutine statistics(what, n, mean, std)
      character(len=*), intent(in) :: what
      integer, intent(out) :: n
      type(array_type), intent(out) :: mean, std
      real(sp), allocatable :: numbers(:)

      n = 0
      if (allocated(error)) return
      call self%file%get(what//"_mean", numbers, error)
      if (allocated(error)) return
      n = size(numbers)
      mean = tape%constant(numbers)
      call self%file%get(what//"_std", numbers, error)
      if (allocated(error)) return
      std = tape%constant(numbers)
    end subroutine statistics

    subroutine perceptron(name, layers)
      character(len=*), intent(in) :: name
      type(mlp_type), intent(out) :: layers

      allocate (layers%layers(2))
      call dense(name//".0", layers%layers(1))
      layers%layers(1)%activation = "gelu"
      call dense(name//".2", layers%layers(2))
    end subroutine perceptron

    subroutine dense(name, layer)
      character(len=*), intent(in) :: name
      type(dense_type), intent(out) :: layer

      layer%activation = "identity"
      layer%weight = leaf(name//".weight", 2)
      layer%bias = leaf(name//".bias", 1)
    end subroutine dense

    subroutine gno(name, layer)
      character(len=*), intent(in) :: name
      type(gno_type), intent(out) :: layer

      layer%activation = "gelu"
      layer%reduction = "mean"
      layer%kernel = "full"
      layer%U = leaf(name//".U", 2)
      layer%b_u = leaf(name//".b_u", 1)
      layer%V = leaf(name//".V", 3)
      layer%b_v = leaf(name//".b_v", 2)
    end subroutine gno

    !> A parameter by its name in the network.
    function leaf(name, rank) result(x)
      character(len=*), intent(in) :: name
      integer, intent(in) :: rank
      type(array_type) :: x
      real(sp), allocatable :: row(:), matrix(:, :), block(:, :, :)

      if (allocated(error)) return
      select case (rank)
      case (1)
        call self%file%get(network//name, row, error)
        if (.not. allocated(error)) x = tape%parameter(row, name=network//name)
      case (2)
        call self%file%get(network//name, matrix, error)
        if (.not. allocated(error)) x = tape%parameter(matrix, name=network//name)
      case default
        call self%file%get(network//name, block, error)
        if (.not. allocated(error)) x = tape%parameter(block, name=network//name)
      end select
      n_leaves = n_leaves + 1
      self%leaves(n_leaves) = x
      self%names(n_leaves) = network//name
    end function leaf

    !> Check that each layer takes what the one before it gives: operations find all other faults.
    subroutine check_widths()
      integer(int64), allocatable :: first(:), last(:)
      integer :: n_known

      n_known = self%dimension + self%n_inputs + self%n_parameters
      if (allocated(self%period)) n_known = n_known + count(self%period > 0)
      first = self%lift%layers(1)%weight%shape()
      last = self%projection%layers(2)%bias%shape()
      if (first(1) /= n_known .or. last(1) /= self%n_outputs) call set_error(error, code_value, &
        & "point_gno: the network of "//trim(filename)//" does not fit its normalisation")
    end subroutine check_widths

  end subroutine load

  !> Write the model with the values that its parameters have now.
  subroutine save(self, filename, error)
    class(point_gno_type), intent(inout) :: self
    character(len=*), intent(in) :: filename
    type(error_type), allocatable, intent(out) :: error
    real(sp), allocatable :: row(:), matrix(:, :), block(:, :, :)
    integer :: k

    if (.not. allocated(self%leaves)) then
      call set_error(error, code_value, "point_gno: there is no model, needs load")
      return
    end if
    do k = 1, size(self%leaves)
      select case (size(self%leaves(k)%shape()))
      case (1)
        call self%leaves(k)%val(row, error)
        if (.not. allocated(error)) call self%file%set(trim(self%names(k)), row, error)
      case (2)
        call self%leaves(k)%val(matrix, error)
        if (.not. allocated(error)) call self%file%set(trim(self%names(k)), matrix, error)
      case default
        call self%leaves(k)%val(block, error)
        if (.not. allocated(error)) call self%file%set(trim(self%names(k)), block, error)
      end select
      if (allocated(error)) return
    end do
    call save_weights(filename, self%file, error)
  end subroutine save

  !> Parameters of the network; the scales stay.
  function parameters(self) result(list)
    class(point_gno_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    if (allocated(self%leaves)) then
      list = self%leaves
    else
      allocate (list(0))
    end if
  end function parameters

  ! ---- points ----

  !> Find the neighbours of points, for all calls of forward until the next one of this. The tape
  !> must not be rewound behind this call as long.
  subroutine place(self, tape, points, error, queries)
    class(point_gno_type), intent(inout) :: self
    class(tape_type), intent(in) :: tape
    !> In units of the data that it was trained on [dimension, n]
    real(sp), intent(in) :: points(:, :)
    type(error_type), allocatable, intent(out) :: error
    !> Points where outputs are wanted [dimension, m], for a model that was trained with such points
    real(sp), intent(in), optional :: queries(:, :)
    real(sp), allocatable :: here(:, :), there(:, :)

    self%n_points = -1
    if (.not. allocated(self%leaves)) then
      call set_error(error, code_value, "point_gno: there is no model, needs load")
    else if (self%has_queries .neqv. present(queries)) then
      call set_error(error, code_value, "point_gno: the model "//trim(merge("needs queries ", &
        & "has no queries", self%has_queries)))
    else
      call check("points", points)
      if (present(queries)) call check("queries", queries)
    end if
    if (allocated(error)) return
    here = scaled(self, points)
    call self%near%radius(here, self%radius, error, period=self%period)
    if (allocated(error)) return
    self%near_edges = tape%constant(edge_features(self, here, here, self%near))
    self%places = tape%constant(place_features(self, here))
    self%everywhere = tape%constant(reshape([real(sp) ::], [self%n_parameters, size(points, 2)], &
      & pad=[0.0_sp]))
    if (present(queries)) then
      there = scaled(self, queries)
      call self%seen%knn(here, n_seen, error, destinations=there, period=self%period)
      if (allocated(error)) return
      self%seen_edges = tape%constant(edge_features(self, here, there, self%seen))
      self%query_places = tape%constant(place_features(self, there))
    end if
    call tape%check(error)
    if (.not. allocated(error)) self%n_points = size(points, 2, int64)

  contains

    subroutine check(name, x)
      character(len=*), intent(in) :: name
      real(sp), intent(in) :: x(:, :)

      if (allocated(error) .or. size(x, 1) == self%dimension) return
      call set_error(error, code_value, "point_gno: "//name//" have "// &
        & text(size(x, 1, int64))//" coordinates, need "//text(int(self%dimension, int64)))
    end subroutine check

  end subroutine place

  function scaled(self, points) result(x)
    class(point_gno_type), intent(in) :: self
    real(sp), intent(in) :: points(:, :)
    real(sp), allocatable :: x(:, :)
    integer :: i

    allocate (x, mold=points)
    do i = 1, size(points, 2)
      x(:, i) = (points(:, i) - self%centre)/self%scale
    end do
  end function scaled

  !> Differences of positions, to the nearest image, and their length, in units of the radius.
  function edge_features(self, sources, destinations, graph) result(features)
    class(point_gno_type), intent(in) :: self
    real(sp), intent(in) :: sources(:, :), destinations(:, :)
    type(graph_type), intent(in) :: graph
    real(sp), allocatable :: features(:, :)
    integer(int64), allocatable :: src(:), dst(:)
    real(sp) :: difference(self%dimension), period(self%dimension)
    integer(int64) :: e

    src = graph%src()
    dst = graph%dst()
    period = 0
    if (allocated(self%period)) period = real(self%period, sp)
    allocate (features(self%dimension + 1, size(src, kind=int64)))
    do e = 1, size(src, kind=int64)
      difference = sources(:, src(e)) - destinations(:, dst(e))
      where (period > 0) difference = difference - anint(difference/period)*period
      difference = difference/real(self%radius, sp)
      features(:, e) = [difference, norm2(difference)]
    end do
  end function edge_features

  !> Coordinates, and along periodic axes their sine and cosine.
  function place_features(self, points) result(features)
    class(point_gno_type), intent(in) :: self
    real(sp), intent(in) :: points(:, :)
    real(sp), allocatable :: features(:, :)
    real(sp) :: angle
    logical :: wraps(self%dimension)
    integer :: i, axis, row

    wraps = .false.
    if (allocated(self%period)) wraps = self%period > 0
    allocate (features(self%dimension + count(wraps), size(points, 2)))
    do i = 1, size(points, 2)
      row = 0
      do axis = 1, self%dimension
        if (wraps(axis)) then
          angle = points(axis, i)*(two_pi/real(self%period(axis), sp))
          features(row + 1:row + 2, i) = [sin(angle), cos(angle)]
          row = row + 2
        else
          features(row + 1, i) = points(axis, i)
          row = row + 1
        end if
      end do
    end do
  end function place_features

  ! ---- values ----

  !> [n_outputs, m] at the queries, or at the points where there are none. Any error marks the tape.
  function forward(self, inputs, of_sample) result(out)
    class(point_gno_type), intent(in) :: self
    !> [n_inputs, n] at the points of place, real(sp)
    type(array_type), intent(in) :: inputs
    !> Parameters of the sample [n_parameters], where the model has such
    type(array_type), intent(in), optional :: of_sample
    type(array_type) :: out, h
    integer(int64), allocatable :: extents(:)
    logical :: fits
    integer :: k

    if (self%n_points < 0) then
      call fail(inputs%store, code_value, "point_gno: there are no points, needs place")
      return
    end if
    extents = inputs%shape()
    fits = size(extents) == 2
    if (fits) fits = all(extents == [int(self%n_inputs, int64), self%n_points])
    if (.not. fits) then
      call fail(inputs%store, code_value, "point_gno: inputs need shape ["// &
        & text(int(self%n_inputs, int64))//", "//text(self%n_points)//"]")
      return
    end if
    if (present(of_sample) .neqv. self%n_parameters > 0) then
      call fail(inputs%store, code_value, "point_gno: of_sample has "// &
        & text(int(self%n_parameters, int64))//" numbers in this model")
      return
    end if

    h = concatenate([self%places, (inputs - self%input_mean)/self%input_std], 1)
    if (present(of_sample)) h = concatenate([h, &
      & self%everywhere + (of_sample - self%parameter_mean)/self%parameter_std], 1)
    h = self%lift%forward(h)
    do k = 1, size(self%local)
      h = h + gelu(self%local(k)%forward(h) + &
        & self%integral(k)%forward(h, self%near_edges, self%near))
    end do
    if (self%has_queries) h = self%at_queries%forward(self%query_places) + &
      & self%kernel%forward(h, self%seen_edges, self%seen)
    out = self%projection%forward(h)*self%output_std + self%output_mean
    ! such as the change of a state in time
    if (self%adds >= 0) out = out + slice(inputs, [self%adds + 1, 1], &
      & [self%n_outputs, int(self%n_points)])
  end function forward

end module gnograd_nn_point_gno

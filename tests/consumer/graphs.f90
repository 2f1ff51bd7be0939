! SPDX-License-Identifier: MIT

!> Graphs of points that a file has, for tests/test_fortran_graphs.py: graphs POINTS GRAPHS
program graphs
  use gnograd, only: dp, int64, error_type, graph_type, weights_type, load_weights, save_weights
  implicit none
  type(weights_type) :: given, found
  type(graph_type) :: all, near, some, any, joined, back, several
  type(error_type), allocatable :: error
  character(len=200) :: filename
  real(dp), allocatable :: sources(:, :), destinations(:, :), period(:)
  real(dp) :: radius
  integer(int64) :: seed, k
  logical :: itself

  call get_command_argument(1, filename)
  call load_weights(trim(filename), given, error)
  if (.not. allocated(error)) call given%get("sources", sources, error)
  if (.not. allocated(error)) call given%get("period", period, error)
  if (.not. allocated(error)) call given%get("radius", radius, error)
  if (.not. allocated(error)) call given%get("k", k, error)
  if (.not. allocated(error)) call given%get("seed", seed, error)
  ! one that is not allocated is absent
  if (given%has("destinations") .and. .not. allocated(error)) &
    & call given%get("destinations", destinations, error)
  itself = .not. given%has("not itself")

  if (.not. allocated(error)) call all%radius(sources, radius, error, destinations, itself, period)
  if (.not. allocated(error)) call near%knn(sources, int(k), error, destinations, itself, period)
  if (.not. allocated(error)) call some%radius(sources, radius, error, destinations, itself, &
    & period, max_neighbors=int(k))
  if (.not. allocated(error)) call any%radius(sources, radius, error, destinations, itself, &
    & period, max_neighbors=int(k), choose="random", seed=seed)
  if (.not. allocated(error)) call joined%union([near, some], error)
  if (.not. allocated(error)) call joined%reverse(back, error)
  if (.not. allocated(error)) call several%batch([near, joined, all], error)
  call put("all", all)
  call put("near", near)
  call put("some", some)
  call put("any", any)
  call put("joined", joined)
  call put("back", back)
  call put("several", several)
  call get_command_argument(2, filename)
  if (.not. allocated(error)) call save_weights(trim(filename), found, error)
  if (allocated(error)) then
    print "(a)", error%message
    stop 1
  end if

contains

  subroutine put(name, graph)
    character(len=*), intent(in) :: name
    type(graph_type), intent(in) :: graph

    if (.not. allocated(error)) call found%set(name//".offsets", graph%by_dst%offsets, error)
    if (.not. allocated(error)) call found%set(name//".indices", graph%by_dst%indices, error)
    if (.not. allocated(error)) call found%set(name//".src", graph%src(), error)
    if (.not. allocated(error)) call found%set(name//".dst", graph%dst(), error)
  end subroutine put

end program graphs

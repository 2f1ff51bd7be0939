! SPDX-License-Identifier: MIT

!> radial_basis and agg_edge_to_edge: values against plain loops, edges that are the reverse of
!> each other, refusals.
module test_dimenet
  use gnograd, only: exclude_reverse_edge, &
    & exclude_same_node, exclude_none, exclude_names, graph_type, error_type, dp, sp, int64
  use gnograd_kernels, only: agg_edge_to_edge_forward, agg_edge_to_edge_vjp
  use gnograd_kernels, only: radial_basis_forward, radial_basis_vjp, radial_basis_hvp
  use faces, only: check_faces, check_tape, close, numbers
  use operators, only: agg_edge_to_edge_operator, radial_basis_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: dimenet_tests

  integer(int64), parameter :: n_radial = 3, n_spherical = 4, exponent = 5
  integer, parameter :: n_basis = int(n_radial*n_spherical), n_distances = 37, n_mid = 4, n_emb = 6

  !> Inputs of agg_edge_to_edge
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: vector => null(), rbf => null(), &
      & embedding => null(), weights => null()
  end type arrays_type

contains

  function dimenet_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("basis, values of both kinds", test_basis_values), &
      & test_type("basis, outside of the cutoff", test_basis_outside), &
      & test_type("basis, absent cotangents", test_basis_cotangents), &
      & test_type("basis, wrong shapes and sizes", test_basis_refused), &
      & test_type("triplets, values of both kinds", test_triplet_values), &
      & test_type("triplets, derivatives and tape", test_triplet_derivatives), &
      & test_type("triplets, no edges", test_triplet_empty), &
      & test_type("triplets, wrong shapes and codes", test_triplet_refused)]
  end function dimenet_tests

  ! ---- radial_basis ----

  subroutine test_basis_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(radial_basis_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    real(dp), pointer, contiguous :: length(:, :), w(:), rbf(:, :), sbf(:, :)
    real(sp) :: rbf_r32(n_radial, n_distances), sbf_r32(n_basis, n_distances)
    integer :: e, l, n
    real(dp) :: z

    call make_basis(operator, x)
    allocate (y(operator%n_out), wanted(operator%n_out))
    call operator%view(1, x, length)
    call operator%view(2, x, w)
    call bases(wanted, rbf, sbf)
    do e = 1, n_distances
      rbf(:, e) = envelope(length(1, e))*sin(w*length(1, e))/length(1, e)
      do l = 0, int(n_spherical) - 1
        do n = 1, int(n_radial)
          z = bessel_zero(l, n)
          sbf(n + int(n_radial)*l, e) = envelope(length(1, e))*sqrt(2.0_dp)/abs(bessel(l + 1, z))* &
            & bessel(l, z*length(1, e))/length(1, e)
        end do
      end do
    end do
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    call check(error, close(y, wanted, 1e-12_dp), "r64")
    if (allocated(error)) return
    call radial_basis_forward(n_spherical, exponent, real(length, sp), real(w, sp), rbf_r32, &
      & sbf_r32, error)
    if (allocated(error)) return
    call check(error, close(real([rbf_r32, sbf_r32], dp), wanted, 1e-6_dp), "r32")
  end subroutine test_basis_values

  !> Beyond the cutoff and at 0, values and derivatives are 0.
  subroutine test_basis_outside(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp), parameter :: length(1, 5) = reshape([0.0_dp, -0.5_dp, 1.0_dp, 1.5_dp, 0.5_dp], [1, 5])
    real(dp), parameter :: w(3) = [3.0_dp, 6.0_dp, 9.0_dp]
    real(dp) :: rbf(n_radial, 5), sbf(n_basis, 5), slope(1, 5)

    call radial_basis_forward(n_spherical, exponent, length, w, rbf, sbf, error)
    if (allocated(error)) return
    call check(error, all(rbf(:, :4) == 0) .and. all(sbf(:, :4) == 0), "value outside")
    call check(error, all(rbf(:, 5) /= 0) .and. all(sbf(:, 5) /= 0), "value inside")
    if (allocated(error)) return
    rbf(:, :) = 1
    sbf(:, :) = 1
    call radial_basis_vjp(n_spherical, exponent, rbf, sbf, length, w, slope, error=error)
    if (allocated(error)) return
    call check(error, all(slope(1, :4) == 0) .and. slope(1, 5) /= 0, "slope")
  end subroutine test_basis_outside

  !> A cotangent that is absent is zero.
  subroutine test_basis_cotangents(error)
    type(error_type), allocatable, intent(out) :: error
    type(radial_basis_operator) :: operator
    real(dp), allocatable, target :: x(:), t(:), c(:), g(:), wanted(:)
    real(dp), pointer, contiguous :: length(:, :), w(:), t_x(:, :), t_w(:), grad_x(:, :), &
      & grad_w(:), rbf(:, :), sbf(:, :)
    integer :: k

    call make_basis(operator, x)
    t = numbers(size(x), 20)
    allocate (g, wanted, mold=x)
    call operator%view(1, x, length)
    call operator%view(2, x, w)
    call operator%view(1, t, t_x)
    call operator%view(2, t, t_w)
    call operator%view(1, g, grad_x)
    call operator%view(2, g, grad_w)
    do k = 0, 3
      c = numbers(operator%n_out, 21)
      call bases(c, rbf, sbf)
      if (.not. btest(k, 0)) then
        rbf(:, :) = 0
        nullify (rbf)
      end if
      if (.not. btest(k, 1)) then
        sbf(:, :) = 0
        nullify (sbf)
      end if
      call operator%reverse(c, x, wanted, error)
      if (allocated(error)) return
      call radial_basis_vjp(n_spherical, exponent, rbf, sbf, length, w, grad_x, grad_w, error)
      if (allocated(error)) return
      call check(error, close(g, wanted, 1e-13_dp), "vjp")
      if (allocated(error)) return
      call operator%reverse(c, x, wanted, error, t)
      if (allocated(error)) return
      call radial_basis_hvp(n_spherical, exponent, rbf, sbf, length, w, t_x, t_w, grad_x, grad_w, &
        & error)
      if (allocated(error)) return
      call check(error, close(g, wanted, 1e-13_dp), "hvp")
      if (allocated(error)) return
    end do
  end subroutine test_basis_cotangents

  subroutine test_basis_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(radial_basis_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: length(:, :), w(:), rbf(:, :), sbf(:, :)

    call make_basis(operator, x)
    call operator%view(1, x, length)
    call operator%view(2, x, w)
    allocate (y(operator%n_out), source=7.0_dp)
    call bases(y, rbf, sbf)
    call radial_basis_forward(11_int64, exponent, length, w, rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: n_spherical is 11, needs 1 to 10")
    call radial_basis_forward(n_spherical, 0_int64, length, w, rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: exponent is 0, needs 1 to 100")
    call radial_basis_forward(n_spherical, 2_int64**32 + 5, length, w, rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: exponent is 4294967301, needs 1 to 100")
    call radial_basis_forward(n_spherical, exponent, length, w(:0), rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: rbf has shape 3 37, needs 0 37")
    call radial_basis_forward(n_spherical, exponent, length, w(2:), rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: rbf has shape 3 37, needs 2 37")
    call radial_basis_forward(n_spherical - 1, exponent, length, w, rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: sbf has shape 12 37, needs 9 37")
    call radial_basis_forward(n_spherical, exponent, 1*rbf, w, rbf, sbf, refused)
    call check_refused(error, refused, "radial_basis: x has shape 3 37, needs 1 37")
    call radial_basis_vjp(n_spherical, exponent, rbf, sbf, length, w, grad_w=y(:2), error=refused)
    call check_refused(error, refused, "radial_basis: grad_w has shape 2, needs 3")
    call check(error, all(y == 7), "results changed in spite of an error")
  end subroutine test_basis_refused

  subroutine make_basis(operator, x)
    type(radial_basis_operator), intent(inout) :: operator
    real(dp), allocatable, intent(out) :: x(:)

    operator%n_edges = n_distances
    operator%n_radial = n_radial
    operator%n_spherical = n_spherical
    operator%exponent = exponent
    call operator%add_input([1, n_distances])
    call operator%add_input([int(n_radial)])
    operator%n_out = int(n_radial + n_basis)*n_distances
    ! distances in 0.05..0.95, frequencies near pi, 2 pi, 3 pi
    x = numbers(operator%last_of(2), 1)
    x(:n_distances) = 0.5_dp + 0.45_dp*x(:n_distances)
    x(n_distances + 1:) = x(n_distances + 1:) + [3, 6, 9]
  end subroutine make_basis

  !> The two outputs in a vector.
  subroutine bases(y, rbf, sbf)
    real(dp), intent(in), contiguous, target :: y(:)
    real(dp), pointer, contiguous, intent(out) :: rbf(:, :), sbf(:, :)
    integer, parameter :: n = int(n_radial)*n_distances

    rbf(1:n_radial, 1:n_distances) => y(:n)
    sbf(1:n_basis, 1:n_distances) => y(n + 1:)
  end subroutine bases

  pure function envelope(x) result(u)
    real(dp), intent(in) :: x
    real(dp) :: u
    integer, parameter :: p = int(exponent) + 1

    u = 1 - (p + 1)*(p + 2)/2*x**p + p*(p + 2)*x**(p + 1) - p*(p + 1)/2*x**(p + 2)
  end function envelope

  !> Spherical Bessel function: its power series, sum_k (-x^2/2)^k x^l / (k! (2l + 2k + 1)!!)
  pure function bessel(l, x) result(j)
    integer, intent(in) :: l
    real(dp), intent(in) :: x
    real(dp) :: j, term
    integer :: k

    term = 1
    do k = 1, l
      term = term*x/(2*k + 1)
    end do
    j = term
    do k = 1, 100
      term = -term*x**2/(2*k*(2*l + 2*k + 1))
      j = j + term
    end do
  end function bessel

  !> The n-th positive zero, by bisection.
  pure function bessel_zero(l, n) result(z)
    integer, intent(in) :: l, n
    real(dp) :: z, low, high
    integer :: k, found

    found = 0
    high = 0.1_dp
    do while (found < n)
      low = high
      high = low + 0.1_dp
      if (bessel(l, low)*bessel(l, high) <= 0) found = found + 1
    end do
    do k = 1, 60
      z = (low + high)/2
      if (bessel(l, low)*bessel(l, z) <= 0) then
        high = z
      else
        low = z
      end if
    end do
  end function bessel_zero

  ! ---- agg_edge_to_edge ----

  subroutine test_triplet_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_edge_to_edge_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:), g(:), wanted(:, :)
    real(sp), allocatable :: out(:, :)
    integer :: exclude

    do exclude = exclude_reverse_edge, exclude_none
      call make_triplets(operator, exclude, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      ! without length, and so without angles
      in%vector(:, 1) = 0
      allocate (y(operator%n_out), g(size(x)), wanted(n_emb, operator%graph%n_edges))
      allocate (out(n_emb, operator%graph%n_edges))
      call formula(operator, in, wanted)
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, close(y, [wanted], 1e-13_dp), "r64 "//exclude_names(exclude))
      if (allocated(error)) return
      call agg_edge_to_edge_forward(operator%graph%view(), n_spherical, n_radial, exclude, &
        & real(in%vector, sp), real(in%rbf, sp), real(in%embedding, sp), real(in%weights, sp), &
        & out, error)
      if (allocated(error)) return
      call check(error, close(real([out], dp), [wanted], 1e-5_dp), "r32 "//exclude_names(exclude))
      if (allocated(error)) return
      call operator%reverse(y, x, g, error)
      if (allocated(error)) return
      call check(error, all(g(:3) == 0) .and. all(abs(g) < huge(1.0_dp)), "slope without length")
      if (allocated(error)) return
      deallocate (y, g, wanted, out)
    end do
  end subroutine test_triplet_values

  subroutine test_triplet_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_edge_to_edge_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: exclude

    do exclude = exclude_reverse_edge, exclude_none
      call make_triplets(operator, exclude, x, error)
      ! a difference turns vectors that sum to zero into others
      if (exclude == exclude_reverse_edge) x(:operator%last_of(1)) = &
        & x(:operator%last_of(1)) + 0.1_dp*numbers(operator%last_of(1), 3)
      if (.not. allocated(error)) call check_faces(operator, x, error)
      if (.not. allocated(error)) call check_tape(operator, x, error)
      if (allocated(error)) return
    end do
  end subroutine test_triplet_derivatives

  subroutine test_triplet_empty(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_edge_to_edge_operator) :: operator, fresh
    real(dp), allocatable, target :: g(:), x(:), y(:)
    integer :: nodes

    do nodes = 0, 2
      operator = fresh
      call operator%graph%init(spread(1, 1, nodes + 1), [integer ::], nodes, error)
      if (allocated(error)) return
      call add_inputs(operator)
      x = numbers(operator%last_of(4), 1)
      g = x
      allocate (y(0))
      call operator%evaluate(x, y, error)
      if (.not. allocated(error)) call operator%reverse(y, x, g, error)
      if (allocated(error)) return
      call check(error, all(g == 0), "gradient to the weights")
      if (allocated(error)) return
      deallocate (y)
    end do
  end subroutine test_triplet_empty

  subroutine test_triplet_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(agg_edge_to_edge_operator) :: operator
    type(graph_type) :: oblong
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), out(:, :)

    call make_triplets(operator, exclude_none, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (out(n_emb, operator%graph%n_edges), source=7.0_dp)
    call forward(operator%graph, 0_int64, n_radial, exclude_none)
    call check_refused(error, refused, "agg_edge_to_edge: n_spherical is 0, needs 1 to 10")
    call forward(operator%graph, n_spherical, 17_int64, exclude_none)
    call check_refused(error, refused, "agg_edge_to_edge: n_radial is 17, needs 1 to 16")
    call forward(operator%graph, n_spherical, n_radial, 3)
    call check_refused(error, refused, &
      & "agg_edge_to_edge: exclude must be reverse_edge, same_node or none")
    call forward(operator%graph, n_spherical, 2_int64, exclude_none)
    call check_refused(error, refused, "agg_edge_to_edge: rbf has shape 12 85, needs 8 85")
    if (allocated(error)) return
    call oblong%init([1, 2], [1], 2, error)
    if (allocated(error)) return
    call forward(oblong, n_spherical, n_radial, exclude_none)
    call check_refused(error, refused, "agg_edge_to_edge: vector has shape 3 85, needs 3 1")
    call agg_edge_to_edge_vjp(operator%graph%view(), n_spherical, n_radial, exclude_none, out(:, &
      & 2:), &
      & in%vector, in%rbf, in%embedding, in%weights, error=refused)
    call check_refused(error, refused, "agg_edge_to_edge: cotangent has shape 6 84, needs 6 85")
    call check(error, all(out == 7), "out changed in spite of an error")

  contains

    subroutine forward(graph, n_spherical, n_radial, exclude)
      type(graph_type), intent(in) :: graph
      integer(int64), intent(in) :: n_spherical, n_radial
      integer, intent(in) :: exclude

      call agg_edge_to_edge_forward(graph%view(), n_spherical, n_radial, exclude, in%vector, &
        & in%rbf, &
        & in%embedding, in%weights, out, refused)
    end subroutine forward

  end subroutine test_triplet_refused

  !> Nodes without edges in or out, more edges at a node than a tile has, pairs of edges that are
  !> the reverse of each other.
  subroutine make_triplets(operator, exclude, x, error)
    type(agg_edge_to_edge_operator), intent(out) :: operator
    integer, intent(in) :: exclude
    real(dp), allocatable, target, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: n_nodes = 6
    real(dp), pointer, contiguous :: vector(:, :)
    real(dp) :: position(3, n_nodes)
    integer :: e, i, p

    operator%exclude = exclude
    ! 40 edges into the first node, 40 out of it, and a few more
    call operator%graph%init([1, 41, 56, 71, 83, 86, 86], [(2 + mod(p, 4), p=1, 40), &
      & spread(1, 1, 14), 3, spread(1, 1, 13), 2, 4, spread(1, 1, 11), 2, 1, 1, 6], n_nodes, &
      & error, [(1 + mod(7*p, 85), p=1, 85)])
    if (allocated(error)) return
    call add_inputs(operator)
    x = numbers(operator%last_of(4), 1)
    call operator%view(1, x, vector)
    position(:, :) = reshape(numbers(3*n_nodes, 2), [3, n_nodes])
    associate (csc => operator%graph%by_dst)
      do i = 1, n_nodes
        do p = int(csc%offsets(i - 1)), int(csc%offsets(i)) - 1
          e = int(csc%edge(p)) + 1
          ! half of the edges go to a periodic image
          vector(:, e) = position(:, i) - position(:, csc%indices(p) + 1) + [mod(p, 2), 0, 0]
        end do
      end do
    end associate
  end subroutine make_triplets

  subroutine add_inputs(operator)
    type(agg_edge_to_edge_operator), intent(inout) :: operator

    operator%n_emb = n_emb
    operator%n_radial = n_radial
    operator%n_spherical = n_spherical
    associate (n => int(operator%graph%n_edges))
      call operator%add_input([3, n])
      call operator%add_input([n_basis, n])
      call operator%add_input([n_emb, n])
      call operator%add_input([n_mid, n_basis + n_emb])
      operator%n_out = n_emb*n
    end associate
  end subroutine add_inputs

  function arrays(operator, x) result(views)
    class(agg_edge_to_edge_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%vector)
    call operator%view(2, x, views%rbf)
    call operator%view(3, x, views%embedding)
    call operator%view(4, x, views%weights)
  end function arrays

  !> The sum, triplet by triplet.
  subroutine formula(operator, in, out)
    type(agg_edge_to_edge_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(dp), intent(out) :: out(:, :)
    real(dp) :: basis(n_basis), legendre(0:n_spherical - 1), cosine
    integer, allocatable :: src(:), dst(:)
    integer :: e, other, i, l, p

    allocate (src(operator%graph%n_edges), dst(operator%graph%n_edges))
    associate (csc => operator%graph%by_dst)
      do i = 1, int(operator%graph%n_dst)
        do p = int(csc%offsets(i - 1)), int(csc%offsets(i)) - 1
          e = int(csc%edge(p)) + 1
          src(e) = int(csc%indices(p)) + 1
          dst(e) = i
        end do
      end do
    end associate

    out(:, :) = 0
    do e = 1, size(src)
      do other = 1, size(src)
        if (dst(other) /= src(e)) cycle
        if (src(other) == dst(e) .and. operator%exclude == exclude_same_node) cycle
        associate (a => in%vector(:, other), b => in%vector(:, e))
          if (src(other) == dst(e) .and. operator%exclude == exclude_reverse_edge) then
            if (all(abs(a + b) <= 1e-7_dp)) cycle
          end if
          legendre(0) = 1
          legendre(1:) = 0
          if (norm2(a)*norm2(b) > 0) then
            cosine = dot_product(a, b)/(norm2(a)*norm2(b))
            legendre(1) = cosine
            do l = 2, int(n_spherical) - 1
              legendre(l) = ((2*l - 1)*cosine*legendre(l - 1) - (l - 1)*legendre(l - 2))/l
            end do
          end if
        end associate
        do l = 0, int(n_spherical) - 1
          associate (first => int(n_radial)*l + 1, last => int(n_radial)*(l + 1))
            basis(first:last) = in%rbf(first:last, other)* &
              & sqrt((2*l + 1)/(4*acos(-1.0_dp)))*legendre(l)
          end associate
        end do
        out(:, e) = out(:, e) + in%embedding(:, other)*matmul(transpose(in%weights(:, &
          & n_basis + 1:)), matmul(in%weights(:, :n_basis), basis))
      end do
    end do
  end subroutine formula

end module test_dimenet

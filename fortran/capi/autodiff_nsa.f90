! SPDX-License-Identifier: MIT

!> Native sparse attention on the tape, for C; see gnograd.h.
module gnograd_capi_autodiff_nsa
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t, c_ptr
  use gnograd_core_codes, only: duplicate_names
  use gnograd_core_kinds, only: int32
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_nsa, only: selected_attention, compressed_attention, window_attention, &
    & compress
  use gnograd_entries_arrays, only: view
  use gnograd_capi_autodiff, only: array, handle_of
  implicit none
  private

contains

  function gnograd_array_selected_attention(tape, n_slots, n_heads, n_selections, n_sequences, &
      & block_index, cu_q, cu_k, block_size, scale, causal, q_offset, query_block, duplicates, q, &
      & k, v, slot_gate) result(y) bind(c, name="gnograd_array_selected_attention")
    type(c_ptr), value :: tape, block_index, cu_q, cu_k
    integer(c_int64_t), value :: n_slots, n_heads, n_selections, n_sequences, block_size, &
      & q_offset, query_block, q, k, v, slot_gate
    integer(c_int), value :: causal, duplicates
    real(c_double), value :: scale
    integer(c_int64_t) :: y
    integer(c_int64_t), pointer, contiguous :: cu_q_(:), cu_k_(:)
    integer(int32), pointer, contiguous :: blocks(:, :, :)

    call view(block_index, n_slots, n_heads, n_selections, blocks)
    call view(cu_q, n_sequences + 1, cu_q_)
    call view(cu_k, n_sequences + 1, cu_k_)
    y = handle_of(tape, selected_attention(array(tape, q), array(tape, k), array(tape, v), blocks, &
      & block_size, array(tape, slot_gate), scale, causal /= 0, q_offset, cu_q_, cu_k_, &
      & query_block, duplicate_names(min(max(duplicates, 0), ubound(duplicate_names, 1)))))
  end function gnograd_array_selected_attention

  function gnograd_array_compressed_attention(tape, n_sequences, cu_q, cu_k, block, stride, scale, &
      & causal, q_offset, q, k, v, lse) result(y) bind(c, name="gnograd_array_compressed_attention")
    type(c_ptr), value :: tape, cu_q, cu_k
    integer(c_int64_t), value :: n_sequences, block, stride, q_offset, q, k, v
    integer(c_int), value :: causal
    real(c_double), value :: scale
    integer(c_int64_t), intent(out) :: lse
    integer(c_int64_t) :: y
    integer(c_int64_t), pointer, contiguous :: cu_q_(:), cu_k_(:)
    type(array_type) :: out, log_sum

    call view(cu_q, n_sequences + 1, cu_q_)
    call view(cu_k, n_sequences + 1, cu_k_)
    call compressed_attention(array(tape, q), array(tape, k), array(tape, v), block, stride, out, &
      & log_sum, scale, causal /= 0, q_offset, cu_q_, cu_k_)
    y = handle_of(tape, out)
    lse = handle_of(tape, log_sum)
  end function gnograd_array_compressed_attention

  function gnograd_array_window_attention(tape, n_sequences, cu_q, cu_k, window, scale, causal, &
      & q_offset, q, k, v) result(y) bind(c, name="gnograd_array_window_attention")
    type(c_ptr), value :: tape, cu_q, cu_k
    integer(c_int64_t), value :: n_sequences, window, q_offset, q, k, v
    integer(c_int), value :: causal
    real(c_double), value :: scale
    integer(c_int64_t) :: y
    integer(c_int64_t), pointer, contiguous :: cu_q_(:), cu_k_(:)

    call view(cu_q, n_sequences + 1, cu_q_)
    call view(cu_k, n_sequences + 1, cu_k_)
    y = handle_of(tape, window_attention(array(tape, q), array(tape, k), array(tape, v), window, &
      & scale, causal /= 0, q_offset, cu_q_, cu_k_))
  end function gnograd_array_window_attention

  function gnograd_array_compress(tape, n_sequences, cu, stride, x, w) result(y) &
      & bind(c, name="gnograd_array_compress")
    type(c_ptr), value :: tape, cu
    integer(c_int64_t), value :: n_sequences, stride, x, w
    integer(c_int64_t) :: y
    integer(c_int64_t), pointer, contiguous :: cu_(:)

    call view(cu, n_sequences + 1, cu_)
    y = handle_of(tape, compress(array(tape, x), array(tape, w), stride, cu_))
  end function gnograd_array_compress

end module gnograd_capi_autodiff_nsa

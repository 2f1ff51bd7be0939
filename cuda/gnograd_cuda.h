/* SPDX-License-Identifier: MIT
 *
 * gnograd on NVIDIA GPUs: the C ABI of libgnograd_cuda.so.
 *
 * Arrays are C-contiguous and lie in device memory; shapes stand behind each argument. T is the
 * type in a function's suffix: f32 float, f64 double, f16 __half, bf16 __nv_bfloat16. `real` is
 * double for f64 and float for the others. An array marked "or null" may be a null pointer: as an
 * input it is absent (a tangent: zero), as an output it is not computed. Outputs are overwritten.
 *
 * Functions only put kernels on `stream` (a cudaStream_t): they neither allocate nor wait. Each
 * works in `workspace`, device memory aligned to 256 bytes; how much is told by the function of the
 * same name with `_workspace_bytes` before the suffix, for the same graph, sizes and codes.
 * They return 0, a positive cudaError_t, or a negative gnograd_cuda_status;
 * gnograd_cuda_error_string has the message.
 *
 * No kernel uses atomics: the same inputs give the same bits in every run on one kind of device.
 */
#ifndef GNOGRAD_CUDA_H
#define GNOGRAD_CUDA_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define GNOGRAD_CUDA_API __attribute__((visibility("default")))

enum gnograd_cuda_status {
  GNOGRAD_CUDA_WORKSPACE = -1, /* the workspace is too small */
  GNOGRAD_CUDA_VALUE = -2,     /* a size or code that means nothing */
  GNOGRAD_CUDA_DEVICE = -3     /* the device is older than what the kernels were compiled for */
};

/* The arrays of a graph, in device memory: what gnograd_graph holds on the host. This struct itself
 * is host memory, and is read during the call only. */
typedef struct {
  const int64_t *offsets;  /* [n_rows+1] */
  const int32_t *indices;  /* [n_edges] node at the other end */
  const int64_t *edge;     /* [n_edges] row of the edge table; or null: the position itself */
  const int64_t *position; /* [n_edges] place in by_dst (by_src only); or null: same as edge */
} gnograd_cuda_csc;

typedef struct {
  int64_t n_src, n_dst, n_edges;
  gnograd_cuda_csc by_dst; /* rows are destinations */
  gnograd_cuda_csc by_src; /* rows are sources; used by vjp and hvp only */
} gnograd_cuda_graph;

/* ---- runtime ---- */

GNOGRAD_CUDA_API int gnograd_cuda_abi_version(void);
GNOGRAD_CUDA_API const char *gnograd_cuda_error_string(int status);

/* Number of devices; 0, with the reason as status, where there is no driver that can be used. */
GNOGRAD_CUDA_API int gnograd_cuda_device_count(int *n);
GNOGRAD_CUDA_API int gnograd_cuda_device_name(int device, int64_t length,
                                              char *name /* [length] */);
/* Whether the kernels run on a device: 0, or the reason why they do not. */
GNOGRAD_CUDA_API int gnograd_cuda_device_usable(int device);

/* The device that memory lies on; the current one for memory that CUDA does not know. */
GNOGRAD_CUDA_API int gnograd_cuda_device_of(const void *memory, int *device);
/* What the calling thread allocates and launches on. */
GNOGRAD_CUDA_API int gnograd_cuda_current_device(int *device);
GNOGRAD_CUDA_API int gnograd_cuda_use_device(int device);

/* Memory of the current device in the order of a stream, for callers without an allocator of their
 * own. The process keeps what is freed, for the next call. Of no bytes there is a null pointer. */
GNOGRAD_CUDA_API int gnograd_cuda_allocate(size_t bytes, void **memory, void *stream);
GNOGRAD_CUDA_API int gnograd_cuda_free(void *memory, void *stream);
/* A copy of host memory on the current device that every stream may read when this returns; and its
 * end, which waits for all that use it. Both leave alone what is being captured into a CUDA graph. */
GNOGRAD_CUDA_API int gnograd_cuda_hold(size_t bytes, const void *from, void **memory);
GNOGRAD_CUDA_API int gnograd_cuda_release(void *memory);
/* Between host and device, or on the device. From or to pageable host memory this waits. */
GNOGRAD_CUDA_API int gnograd_cuda_copy(void *to, const void *from, size_t bytes, void *stream);
GNOGRAD_CUDA_API int gnograd_cuda_synchronize(void *stream);
/* What is put on `stream` from now on comes after what is on `other`, a stream of this device. */
GNOGRAD_CUDA_API int gnograd_cuda_wait(void *stream, void *other, int device);

enum gnograd_cuda_type {
  GNOGRAD_CUDA_F32,
  GNOGRAD_CUDA_F64,
  GNOGRAD_CUDA_F16,
  GNOGRAD_CUDA_BF16,
  GNOGRAD_CUDA_I32,
  GNOGRAD_CUDA_I64
};

/* to = from, or to += from, item by item, between float types or between integer types. Both have
 * this shape; strides count items. Shape and strides are host memory, with at most 8 dimensions. */
GNOGRAD_CUDA_API int gnograd_cuda_assign(int n_dims, const int64_t *shape, void *to, int to_type,
                                         const int64_t *to_strides, const void *from, int from_type,
                                         const int64_t *from_strides, int add, void *stream);

/* From now on products of float32 matrices in the graph neural operators round their factors to TF32
 * (11 bits), in this process; 0: they are as accurate as float32, in three times the work. */
GNOGRAD_CUDA_API int gnograd_cuda_use_tf32(int on);

/* The functions of operators, one a line, "<name>_<type>(sizes and codes; arrays)" without what is
 * common to all: for languages that call this library without reading this header. */
GNOGRAD_CUDA_API const char *gnograd_cuda_prototypes(void);

/* Every face of every operator is a pair of functions:
 *   size_t gnograd_cuda_<name>_workspace_bytes_<type>(sizes and codes)
 *   int    gnograd_cuda_<name>_<type>(sizes and codes, arrays, workspace, its bytes, stream)
 * An operator on a graph has it first among the sizes.
 */
#define GNOGRAD_CUDA_FACE(name, type, sizes, ...)                                               \
  GNOGRAD_CUDA_API size_t gnograd_cuda_##name##_workspace_bytes_##type(                         \
      GNOGRAD_CUDA_LIST sizes);                                                                 \
  GNOGRAD_CUDA_API int gnograd_cuda_##name##_##type(GNOGRAD_CUDA_LIST sizes, __VA_ARGS__,       \
                                                    void *workspace, size_t workspace_bytes,    \
                                                    void *stream);
#define GNOGRAD_CUDA_LIST(...) __VA_ARGS__

/* ---- aggregation: out_i = Agg over the edges p = (j -> i), feature by feature ----
 *
 * agg_weighted:  Agg w_p x_j                         out [n_dst, D]
 * agg_simple:    [Agg x_j | Agg e_p]                 out [n_dst, D + De]
 * agg_concat:    [Agg w_p x_j | Agg e_p | own_i]     out [n_dst, D + De + Do]
 *
 * aggregation is Sum 0, Mean 1, Min 2 or Max 3; D = n_features, De = n_edge_features,
 * Do = n_own_features, 0 where there is no such input.
 * x [n_src, D], w [n_edges] (agg_concat: or null, all 1), e [n_edges, De], own [n_dst, Do].
 * Saved by forward, or null: location [n_dst, D + De] of Min and Max, the winner's position in
 * by_dst, -1 without edges; degree real [n_dst] of Mean, the sum of w. vjp computes again what it
 * needs and does not get; `out` is taken as on the CPU, but what is saved in 16 bits would cost
 * accuracy, so it is not read. An input may be null where no gradient that is wanted depends on it.
 * Where own is x (n_src = n_dst, D = Do), the gradients may be one array too, grad_own = grad_x: it
 * gets their sum, rounded once.
 */
#define GNOGRAD_CUDA_AGG_WEIGHTED \
  (const gnograd_cuda_graph *graph, int64_t n_features, int aggregation)
#define GNOGRAD_CUDA_AGG_SIMPLE \
  (const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation)
#define GNOGRAD_CUDA_AGG_CONCAT                                                         \
  (const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,        \
   int64_t n_own_features, int aggregation)

#define GNOGRAD_CUDA_AGGREGATION(type)                                                           \
  GNOGRAD_CUDA_FACE(agg_weighted_forward, type, GNOGRAD_CUDA_AGG_WEIGHTED, const void *x,        \
                    const void *w, void *out, int64_t *location, void *degree)                   \
  GNOGRAD_CUDA_FACE(agg_weighted_vjp, type, GNOGRAD_CUDA_AGG_WEIGHTED, const void *cotangent,    \
                    const void *x, const void *w, const void *out, const int64_t *location,      \
                    const void *degree, void *grad_x, void *grad_w)                              \
  GNOGRAD_CUDA_FACE(agg_weighted_jvp, type, GNOGRAD_CUDA_AGG_WEIGHTED, const void *x,            \
                    const void *w, const void *x_tangent, const void *w_tangent,                 \
                    void *out_tangent)                                                           \
  GNOGRAD_CUDA_FACE(agg_weighted_hvp, type, GNOGRAD_CUDA_AGG_WEIGHTED, const void *cotangent,    \
                    const void *x, const void *w, const void *x_tangent, const void *w_tangent,  \
                    void *grad_x_tangent, void *grad_w_tangent)                                  \
  GNOGRAD_CUDA_FACE(agg_simple_forward, type, GNOGRAD_CUDA_AGG_SIMPLE, const void *x,            \
                    const void *e, void *out, int64_t *location)                                 \
  GNOGRAD_CUDA_FACE(agg_simple_vjp, type, GNOGRAD_CUDA_AGG_SIMPLE, const void *cotangent,        \
                    const void *x, const void *e, const int64_t *location, void *grad_x,         \
                    void *grad_e)                                                                \
  GNOGRAD_CUDA_FACE(agg_simple_jvp, type, GNOGRAD_CUDA_AGG_SIMPLE, const void *x, const void *e, \
                    const void *x_tangent, const void *e_tangent, void *out_tangent)             \
  GNOGRAD_CUDA_FACE(agg_simple_hvp, type, GNOGRAD_CUDA_AGG_SIMPLE, const void *cotangent,        \
                    const void *x, const void *e, const void *x_tangent, const void *e_tangent,  \
                    void *grad_x_tangent, void *grad_e_tangent)                                  \
  GNOGRAD_CUDA_FACE(agg_concat_forward, type, GNOGRAD_CUDA_AGG_CONCAT, const void *x,            \
                    const void *w, const void *e, const void *own, void *out, int64_t *location, \
                    void *degree)                                                                \
  GNOGRAD_CUDA_FACE(agg_concat_vjp, type, GNOGRAD_CUDA_AGG_CONCAT, const void *cotangent,        \
                    const void *x, const void *w, const void *e, const void *own,                \
                    const void *out, const int64_t *location, const void *degree, void *grad_x,  \
                    void *grad_w, void *grad_e, void *grad_own)                                  \
  GNOGRAD_CUDA_FACE(agg_concat_jvp, type, GNOGRAD_CUDA_AGG_CONCAT, const void *x, const void *w, \
                    const void *e, const void *own, const void *x_tangent,                       \
                    const void *w_tangent, const void *e_tangent, const void *own_tangent,       \
                    void *out_tangent)                                                           \
  GNOGRAD_CUDA_FACE(agg_concat_hvp, type, GNOGRAD_CUDA_AGG_CONCAT, const void *cotangent,        \
                    const void *x, const void *w, const void *e, const void *own,                \
                    const void *x_tangent, const void *w_tangent, const void *e_tangent,         \
                    const void *own_tangent, void *grad_x_tangent, void *grad_w_tangent,         \
                    void *grad_e_tangent, void *grad_own_tangent)

/* ---- graph attention: out_i = sum over p = (j -> i) of softmax(score)_p value_p, per head ----
 *
 * mha_gat:    score act(a_src . x_src_j + a_dst . x_dst_i (+ a_edge . e_p)), value x_src_j
 * mha_gat_v2: score a . act(x_src_j + x_dst_i (+ e_p)),                      value x_src_j
 * mha_simple: score q_i . (k_j + e_p) (/ sqrt(n_channels) if norm_by_dim),   value v_j + e_p
 *
 * With D = n_heads n_channels: x_src, k, v [n_src, D], x_dst, q [n_dst, D], e [n_edges, D] or null
 * (mha_gat: [n_edges, n_heads n_edge_channels], null where n_edge_channels is 0),
 * a [D], for mha_gat [a_src | a_dst | a_edge], 2 D + n_heads n_edge_channels.
 * out [n_dst, D], or the mean over heads [n_dst, n_channels] unless concat_heads.
 * activation: LeakyReLU 0, ELU 1, Linear 2, ReLU 3, Scalar 4, Sigmoid 5, Tanh 6; negative_slope is
 * the slope of LeakyReLU, the factor of ELU and of Scalar.
 * Saved by forward, or null: lse real [n_dst, n_heads], log of the sum of exp(score);
 * softmax_scores real [2, n_heads, n_edges], scores and their softmax by position in by_dst. vjp
 * takes out and both as on the CPU and reads none: the pass that would use them finds the maxima
 * anyway.
 * mha_gat_v2 also saves activation_scores [n_edges, D], the activated sums by position in by_dst. A
 * vjp that gets them reads them instead of x_dst and e, which may then be null; the negative_slope
 * of LeakyReLU and ELU must not be negative there.
 */
#define GNOGRAD_CUDA_MHA_GAT                                                                  \
  (const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels,                      \
   int64_t n_edge_channels, int concat_heads, int activation, double negative_slope)
#define GNOGRAD_CUDA_MHA_GAT_V2                                                               \
  (const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,    \
   int activation, double negative_slope)
#define GNOGRAD_CUDA_MHA_SIMPLE                                                               \
  (const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,    \
   int norm_by_dim)

#define GNOGRAD_CUDA_ATTENTION(name, type, sizes, written, read, A, B, C, D)                      \
  GNOGRAD_CUDA_FACE(name##_forward, type, sizes, const void *A, const void *B, const void *C,     \
                    const void *D, void *out, GNOGRAD_CUDA_LIST written)                          \
  GNOGRAD_CUDA_FACE(name##_vjp, type, sizes, const void *cotangent, const void *A, const void *B, \
                    const void *C, const void *D, GNOGRAD_CUDA_LIST read, void *grad_##A,         \
                    void *grad_##B, void *grad_##C, void *grad_##D)                               \
  GNOGRAD_CUDA_FACE(name##_jvp, type, sizes, const void *A, const void *B, const void *C,         \
                    const void *D, const void *A##_tangent, const void *B##_tangent,              \
                    const void *C##_tangent, const void *D##_tangent, void *out_tangent)          \
  GNOGRAD_CUDA_FACE(name##_hvp, type, sizes, const void *cotangent, const void *A, const void *B, \
                    const void *C, const void *D, const void *A##_tangent,                        \
                    const void *B##_tangent, const void *C##_tangent, const void *D##_tangent,    \
                    void *grad_##A##_tangent, void *grad_##B##_tangent, void *grad_##C##_tangent, \
                    void *grad_##D##_tangent)
#define GNOGRAD_CUDA_WRITTEN (void *lse, void *softmax_scores)
#define GNOGRAD_CUDA_READ (const void *out, const void *lse, const void *softmax_scores)
#define GNOGRAD_CUDA_WRITTEN_V2 (void *lse, void *softmax_scores, void *activation_scores)
#define GNOGRAD_CUDA_READ_V2 \
  (const void *out, const void *lse, const void *softmax_scores, const void *activation_scores)
#define GNOGRAD_CUDA_GRAPH_ATTENTION(type)                                                        \
  GNOGRAD_CUDA_ATTENTION(mha_gat, type, GNOGRAD_CUDA_MHA_GAT, GNOGRAD_CUDA_WRITTEN,               \
                         GNOGRAD_CUDA_READ, x_src, x_dst, a, e)                                   \
  GNOGRAD_CUDA_ATTENTION(mha_gat_v2, type, GNOGRAD_CUDA_MHA_GAT_V2, GNOGRAD_CUDA_WRITTEN_V2,      \
                         GNOGRAD_CUDA_READ_V2, x_src, x_dst, a, e)                                \
  GNOGRAD_CUDA_ATTENTION(mha_simple, type, GNOGRAD_CUDA_MHA_SIMPLE, GNOGRAD_CUDA_WRITTEN,         \
                         GNOGRAD_CUDA_READ, q, k, v, e)

/* ---- native sparse attention ----
 *
 * out [n_queries, n_query_heads, d_v] of the queries q [n_queries, n_query_heads, d_k] over the
 * keys k [n_keys, n_heads, d_k] with values v [n_keys, n_heads, d_v] that each sees; head
 * dimensions go to 256. lse real [n_queries, n_query_heads], the log of the sum of
 * exp(scale q . k), may be null; with its cotangent and tangent it is a second output of
 * compressed_attention. A query that sees no key has out = 0 and lse = -infinity. vjp computes out
 * and lse again if either is null.
 *
 * cu_q and cu_k [n_sequences+1] are the borders of packed sequences, or null: one sequence. causal:
 * the query at position s of its sequence sees the keys up to position s + q_offset.
 *
 * selected_attention: the n_slots blocks block_index[t / query_block, head, :] of block_size keys
 * (1 to 256) of query t's sequence; -1 is an empty slot, and so is here a number that the sequence
 * does not have. slot_gate [n_queries, n_heads, n_slots], or null, multiplies exp(x) in the blocks
 * of a slot. duplicates: a block named twice counts once 0, is an error 1 (here as 0, for a kernel
 * cannot refuse it; gnograd_cuda_selected_attention_check_i32 finds it), counts twice 2.
 * compressed_attention: key c stands for the tokens c stride .. c stride + block - 1; causal, it is
 * visible if the last of them is.
 * window_attention: causal, the last `window` keys; otherwise those of the query's ball of `window`
 * tokens; 0 is no limit.
 *
 * Workspace: n_units n_heads n_slots integers of 8 bytes, twice, for selected blocks, where a unit
 * is query_block queries; sums of the gradients to the keys, at most about 3 times (windows and
 * compressed keys: 8 times) the keys and values in `real`; two numbers a query row. Twice that
 * and one in hvp, one number a row in jvp, none in forward. Where fewer than 16 rows share a
 * selection (query_block n_query_heads / n_heads), every face also has the lists, and for every
 * query row, slot and 64 keys of a block (or fewer, where heads are large) three numbers and
 * max(d_k, d_v) in `real`, twice that in jvp and hvp.
 */
#define GNOGRAD_CUDA_SELECTED_ATTENTION                                                            \
  (int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,         \
   int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,                  \
   const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,         \
   int64_t q_offset, int64_t query_block, int duplicates)
#define GNOGRAD_CUDA_COMPRESSED_ATTENTION                                                          \
  (int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,         \
   int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,      \
   int64_t stride, double scale, int causal, int64_t q_offset)
#define GNOGRAD_CUDA_WINDOW_ATTENTION                                                              \
  (int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,         \
   int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t window,     \
   double scale, int causal, int64_t q_offset)

#define GNOGRAD_CUDA_SPARSE_ATTENTION(type)                                                        \
  GNOGRAD_CUDA_FACE(selected_attention_forward, type,                                \
                                  GNOGRAD_CUDA_SELECTED_ATTENTION, const void *q, const void *k,   \
                                  const void *v, const void *slot_gate, void *out, void *lse)      \
  GNOGRAD_CUDA_FACE(                                                                 \
      selected_attention_vjp, type, GNOGRAD_CUDA_SELECTED_ATTENTION, const void *cotangent,        \
      const void *q, const void *k, const void *v, const void *slot_gate, const void *out,         \
      const void *lse, void *grad_q, void *grad_k, void *grad_v, void *grad_slot_gate)             \
  GNOGRAD_CUDA_FACE(                                                                 \
      selected_attention_jvp, type, GNOGRAD_CUDA_SELECTED_ATTENTION, const void *q, const void *k, \
      const void *v, const void *slot_gate, const void *q_tangent, const void *k_tangent,          \
      const void *v_tangent, const void *slot_gate_tangent, void *out_tangent)                     \
  GNOGRAD_CUDA_FACE(                                                                 \
      selected_attention_hvp, type, GNOGRAD_CUDA_SELECTED_ATTENTION, const void *cotangent,        \
      const void *q, const void *k, const void *v, const void *slot_gate, const void *q_tangent,   \
      const void *k_tangent, const void *v_tangent, const void *slot_gate_tangent,                 \
      void *grad_q_tangent, void *grad_k_tangent, void *grad_v_tangent,                            \
      void *grad_slot_gate_tangent)                                                                \
  GNOGRAD_CUDA_FACE(compressed_attention_forward, type,                              \
                                  GNOGRAD_CUDA_COMPRESSED_ATTENTION, const void *q, const void *k, \
                                  const void *v, void *out, void *lse)                             \
  GNOGRAD_CUDA_FACE(                                                                 \
      compressed_attention_vjp, type, GNOGRAD_CUDA_COMPRESSED_ATTENTION, const void *cotangent,    \
      const void *lse_cotangent, const void *q, const void *k, const void *v, const void *out,     \
      const void *lse, void *grad_q, void *grad_k, void *grad_v)                                   \
  GNOGRAD_CUDA_FACE(                                                                 \
      compressed_attention_jvp, type, GNOGRAD_CUDA_COMPRESSED_ATTENTION, const void *q,            \
      const void *k, const void *v, const void *q_tangent, const void *k_tangent,                  \
      const void *v_tangent, void *out_tangent, void *lse_tangent)                                 \
  GNOGRAD_CUDA_FACE(                                                                 \
      compressed_attention_hvp, type, GNOGRAD_CUDA_COMPRESSED_ATTENTION, const void *cotangent,    \
      const void *lse_cotangent, const void *q, const void *k, const void *v,                      \
      const void *q_tangent, const void *k_tangent, const void *v_tangent, void *grad_q_tangent,   \
      void *grad_k_tangent, void *grad_v_tangent)                                                  \
  GNOGRAD_CUDA_FACE(window_attention_forward, type, GNOGRAD_CUDA_WINDOW_ATTENTION,   \
                                  const void *q, const void *k, const void *v, void *out,          \
                                  void *lse)                                                       \
  GNOGRAD_CUDA_FACE(window_attention_vjp, type, GNOGRAD_CUDA_WINDOW_ATTENTION,       \
                                  const void *cotangent, const void *q, const void *k,             \
                                  const void *v, const void *out, const void *lse, void *grad_q,   \
                                  void *grad_k, void *grad_v)                                      \
  GNOGRAD_CUDA_FACE(window_attention_jvp, type, GNOGRAD_CUDA_WINDOW_ATTENTION,       \
                                  const void *q, const void *k, const void *v,                     \
                                  const void *q_tangent, const void *k_tangent,                    \
                                  const void *v_tangent, void *out_tangent)                        \
  GNOGRAD_CUDA_FACE(window_attention_hvp, type, GNOGRAD_CUDA_WINDOW_ATTENTION,       \
                                  const void *cotangent, const void *q, const void *k,             \
                                  const void *v, const void *q_tangent, const void *k_tangent,     \
                                  const void *v_tangent, void *grad_q_tangent,                     \
                                  void *grad_k_tangent, void *grad_v_tangent)

/* compress: out [n_compressed, n_heads, n_features], sum over i < block of w_i x_{c stride + i}, of
 * the tokens x [n_tokens, n_heads, n_features] of every sequence, borders cu [n_sequences+1] or
 * null, and weights w [block, n_heads]; n_compressed counts those of all sequences.
 * select_blocks: block_index [ceil(n_queries/query_block), n_heads, n_slots] from q, the compressed
 * keys k [n_compressed, n_heads, d_k] of n_keys tokens, whose borders are cu_k, and lse of
 * compressed_attention; at most 1024 slots. Rules and order are those of the CPU.
 */
#define GNOGRAD_CUDA_COMPRESS                                                                     \
  (int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu, \
   int64_t block, int64_t stride, int64_t n_compressed)
#define GNOGRAD_CUDA_SELECT_BLOCKS                                                                \
  (int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads,                \
   int64_t n_heads, int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q,       \
   const int64_t *cu_k, int64_t block, int64_t stride, int64_t block_size, double scale,          \
   int causal, int64_t q_offset, int64_t query_block, int64_t first_blocks, int64_t local_blocks, \
   int exclude_own)
#define GNOGRAD_CUDA_COMPRESSION(type)                                                            \
  GNOGRAD_CUDA_FACE(compress_forward, type, GNOGRAD_CUDA_COMPRESS, const void *x,   \
                                  const void *w, void *out)                                       \
  GNOGRAD_CUDA_FACE(compress_vjp, type, GNOGRAD_CUDA_COMPRESS,                      \
                                  const void *cotangent, const void *x, const void *w,            \
                                  void *grad_x, void *grad_w)                                     \
  GNOGRAD_CUDA_FACE(compress_jvp, type, GNOGRAD_CUDA_COMPRESS, const void *x,       \
                                  const void *w, const void *x_tangent, const void *w_tangent,    \
                                  void *out_tangent)                                              \
  GNOGRAD_CUDA_FACE(compress_hvp, type, GNOGRAD_CUDA_COMPRESS,                      \
                                  const void *cotangent, const void *x, const void *w,            \
                                  const void *x_tangent, const void *w_tangent,                   \
                                  void *grad_x_tangent, void *grad_w_tangent)                     \
  GNOGRAD_CUDA_FACE(select_blocks_forward, type, GNOGRAD_CUDA_SELECT_BLOCKS,        \
                                  const void *q, const void *k, const void *lse,                  \
                                  int32_t *block_index)

/* nsa_selected_attention: selected_attention in the shape of Ascend's operator, whose limits
 * gnograd_nsa_selected_attention_get_workspace_size_r32 checks (it reads no array on a device).
 * topk_indices [n_queries, n_heads, select_block_count] is a multiset; sparse_mode 0 is no mask, 2
 * causal. lse = softmax_max + ln(softmax_sum), each real [n_queries, n_query_heads, 8], one value 8
 * times; -infinity and 0 where a query sees no key. cu_q and cu_k as above: with the leading 0.
 */
#define GNOGRAD_CUDA_NSA_SELECTED_ATTENTION                                                        \
  (int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,         \
   int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,             \
   const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count, \
   int sparse_mode)
#define GNOGRAD_CUDA_ASCEND(type)                                                                  \
  GNOGRAD_CUDA_FACE(nsa_selected_attention_forward, type, GNOGRAD_CUDA_NSA_SELECTED_ATTENTION,     \
                    const void *query, const void *key, const void *value, void *attention_out,    \
                    void *softmax_max, void *softmax_sum)                                          \
  GNOGRAD_CUDA_FACE(nsa_selected_attention_vjp, type, GNOGRAD_CUDA_NSA_SELECTED_ATTENTION,         \
                    const void *attention_out_grad, const void *query, const void *key,            \
                    const void *value, const void *attention_out, const void *softmax_max,         \
                    const void *softmax_sum, void *dq, void *dk, void *dv)

/* faults[0]: the first query that names a block which its sequence does not have; faults[1]: the
 * first that names a block twice; -1 where there is none. */
#define GNOGRAD_CUDA_SPARSE_ATTENTION_CHECK                                                        \
  GNOGRAD_CUDA_FACE(selected_attention_check, i32, GNOGRAD_CUDA_SELECTED_ATTENTION,                \
                    int64_t *faults /* [2] */)

/* ---- DimeNet++ ----
 *
 * radial_basis: for 0 < x < 1
 *     rbf[e, n] = u(x) sin(w_n x)/x,   sbf[e, l*n_radial + n] = u(x) N_ln j_l(z_ln x)/x
 * else 0, as in gnograd.h; computed in float64 for every type.
 * x [n_edges], w [n_radial], rbf [n_edges, n_radial], sbf [n_edges, n_spherical*n_radial].
 * n_spherical <= 10, n_radial <= 16, exponent 1 to 100.
 */
#define GNOGRAD_CUDA_RADIAL_BASIS \
  (int64_t n_edges, int64_t n_spherical, int64_t n_radial, int exponent)
#define GNOGRAD_CUDA_BASIS(type)                                                                   \
  GNOGRAD_CUDA_FACE(radial_basis_forward, type, GNOGRAD_CUDA_RADIAL_BASIS, const void *x,          \
                    const void *w, void *rbf, void *sbf)                                           \
  GNOGRAD_CUDA_FACE(radial_basis_vjp, type, GNOGRAD_CUDA_RADIAL_BASIS, const void *grad_rbf,       \
                    const void *grad_sbf, const void *x, const void *w, void *grad_x,              \
                    void *grad_w)                                                                  \
  GNOGRAD_CUDA_FACE(radial_basis_jvp, type, GNOGRAD_CUDA_RADIAL_BASIS, const void *x,              \
                    const void *w, const void *x_tangent, const void *w_tangent,                   \
                    void *rbf_tangent, void *sbf_tangent)                                          \
  GNOGRAD_CUDA_FACE(radial_basis_hvp, type, GNOGRAD_CUDA_RADIAL_BASIS, const void *grad_rbf,       \
                    const void *grad_sbf, const void *x, const void *w, const void *x_tangent,     \
                    const void *w_tangent, void *grad_x_tangent, void *grad_w_tangent)

/* agg_edge_to_edge: out[e] = sum over the edges e' = (k -> j) that end where e = (j -> i) starts of
 * embedding[e'] o W2 . (W1^T (rbf[e'] o Y)), as in gnograd.h; the graph's sources and destinations
 * are the same nodes.
 * vector [n_edges, 3], rbf [n_edges, n_spherical*n_radial], embedding, out [n_edges, n_emb],
 * weights = [W1; W2] [n_spherical*n_radial + n_emb, n_mid].
 * n_spherical <= 10, n_radial <= 16, n_mid <= 64, n_emb <= 512.
 * exclude: 0 leaves out e' where it is e walked backwards, 1 every e' with k = i, 2 none.
 * Sums are plain FMAs in `real`.
 */
#define GNOGRAD_CUDA_AGG_EDGE_TO_EDGE                                                            \
  (const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,        \
   int64_t n_emb, int exclude)
#define GNOGRAD_CUDA_EDGE_TO_EDGE(type)                                                            \
  GNOGRAD_CUDA_FACE(agg_edge_to_edge_forward, type, GNOGRAD_CUDA_AGG_EDGE_TO_EDGE,                 \
                    const void *vector, const void *rbf, const void *embedding,                    \
                    const void *weights, void *out)                                                \
  GNOGRAD_CUDA_FACE(agg_edge_to_edge_vjp, type, GNOGRAD_CUDA_AGG_EDGE_TO_EDGE,                     \
                    const void *cotangent, const void *vector, const void *rbf,                    \
                    const void *embedding, const void *weights, void *grad_vector, void *grad_rbf, \
                    void *grad_embedding, void *grad_weights)                                      \
  GNOGRAD_CUDA_FACE(agg_edge_to_edge_jvp, type, GNOGRAD_CUDA_AGG_EDGE_TO_EDGE,                     \
                    const void *vector, const void *rbf, const void *embedding,                    \
                    const void *weights, const void *vector_tangent, const void *rbf_tangent,      \
                    const void *embedding_tangent, const void *weights_tangent, void *out_tangent) \
  GNOGRAD_CUDA_FACE(agg_edge_to_edge_hvp, type, GNOGRAD_CUDA_AGG_EDGE_TO_EDGE,                     \
                    const void *cotangent, const void *vector, const void *rbf,                    \
                    const void *embedding, const void *weights, const void *vector_tangent,        \
                    const void *rbf_tangent, const void *embedding_tangent,                        \
                    const void *weights_tangent, void *grad_vector_tangent,                        \
                    void *grad_rbf_tangent, void *grad_embedding_tangent,                          \
                    void *grad_weights_tangent)

/* ---- all families: a new one is one line here ---- */

/* ---- graph neural operators, for f32 and f64 ----
 *
 * gno_kernel:     kappa_e = act(coords_e . u + b_u) . v + b_v      kappa [n_edges, f_in, f_out]
 * gno_aggregate:  out_i = sum or mean of h_j . kappa_e             out [n_dst, f_out]
 * gno, gno_contract: the same with weights edge_weight_e, from the coordinates or from the last
 *                    hidden features of any network, without forming kappa
 *
 * h [n_src, f_in], coords [n_edges, d], u [d, n_hidden], b_u [n_hidden], hid [n_edges, n_hidden],
 * v [n_hidden, f_in, f_out], b_v [f_in, f_out], edge_weight [n_edges] or null. With a diagonal
 * kernel f_in = f_out = F, v is [n_hidden, F], b_v [F], and h may be null: ones.
 * activation: relu 0, gelu 1, silu 2, tanh 3, sin 4, identity 5; reduction: sum 0, mean 1;
 * kernel: full 0, diagonal 1. The order of arguments is that of gnograd.h.
 */
#define GNOGRAD_CUDA_GNO_KERNEL                                                                   \
  (int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation)
#define GNOGRAD_CUDA_GNO_AGGREGATE \
  (const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction)
#define GNOGRAD_CUDA_GNO \
  (const gnograd_cuda_graph *graph, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation, int reduction,       \
   int kernel)
#define GNOGRAD_CUDA_GNO_CONTRACT \
  (const gnograd_cuda_graph *graph, int64_t n_hidden, int64_t f_in, int64_t f_out, int reduction, int kernel)

#define GNOGRAD_CUDA_GRAPH_OPERATORS(type)                                                        \
  GNOGRAD_CUDA_FACE(                                                                           \
      gno_kernel_forward, type, GNOGRAD_CUDA_GNO_KERNEL, const void *coords,    \
      const void *u, const void *b_u, const void *v, const void *b_v, void *kappa)                \
  GNOGRAD_CUDA_FACE(                                                                           \
      gno_kernel_vjp, type, GNOGRAD_CUDA_GNO_KERNEL, const void *cotangent,     \
      const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,         \
      void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v)              \
  GNOGRAD_CUDA_FACE(                                                                           \
      gno_kernel_jvp, type, GNOGRAD_CUDA_GNO_KERNEL, const void *coords,        \
      const void *u, const void *b_u, const void *v, const void *b_v, const void *coords_tangent, \
      const void *u_tangent, const void *b_u_tangent, const void *v_tangent,                      \
      const void *b_v_tangent, void *kappa_tangent)                                               \
  GNOGRAD_CUDA_FACE(                                                                           \
      gno_kernel_hvp, type, GNOGRAD_CUDA_GNO_KERNEL, const void *cotangent,     \
      const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,         \
      const void *coords_tangent, const void *u_tangent, const void *b_u_tangent,                 \
      const void *v_tangent, const void *b_v_tangent, void *grad_coords_tangent,                  \
      void *grad_u_tangent, void *grad_b_u_tangent, void *grad_v_tangent, void *grad_b_v_tangent) \
  GNOGRAD_CUDA_FACE(gno_aggregate_forward, type, GNOGRAD_CUDA_GNO_AGGREGATE, const void *h,       \
                    const void *kappa, void *out)                                                 \
  GNOGRAD_CUDA_FACE(gno_aggregate_vjp, type, GNOGRAD_CUDA_GNO_AGGREGATE, const void *cotangent,   \
                    const void *h, const void *kappa, void *grad_h, void *grad_kappa)             \
  GNOGRAD_CUDA_FACE(gno_aggregate_jvp, type, GNOGRAD_CUDA_GNO_AGGREGATE, const void *h,           \
                    const void *kappa, const void *h_tangent, const void *kappa_tangent,          \
                    void *out_tangent)                                                            \
  GNOGRAD_CUDA_FACE(gno_aggregate_hvp, type, GNOGRAD_CUDA_GNO_AGGREGATE, const void *cotangent,   \
                    const void *h, const void *kappa, const void *h_tangent,                      \
                    const void *kappa_tangent, void *grad_h_tangent, void *grad_kappa_tangent)    \
  GNOGRAD_CUDA_FACE(gno_forward, type, GNOGRAD_CUDA_GNO, const void *h, const void *coords,       \
                    const void *u, const void *b_u, const void *v, const void *b_v,               \
                    const void *edge_weight, void *out)                                           \
  GNOGRAD_CUDA_FACE(gno_vjp, type, GNOGRAD_CUDA_GNO, const void *cotangent, const void *h,        \
                    const void *coords, const void *u, const void *b_u, const void *v,            \
                    const void *b_v, const void *edge_weight, void *grad_h, void *grad_coords,    \
                    void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,                   \
                    void *grad_edge_weight)                                                       \
  GNOGRAD_CUDA_FACE(gno_jvp, type, GNOGRAD_CUDA_GNO, const void *h, const void *coords,           \
                    const void *u, const void *b_u, const void *v, const void *b_v,               \
                    const void *edge_weight, const void *h_tangent, const void *coords_tangent,   \
                    const void *u_tangent, const void *b_u_tangent, const void *v_tangent,        \
                    const void *b_v_tangent, const void *edge_weight_tangent, void *out_tangent)  \
  GNOGRAD_CUDA_FACE(gno_hvp, type, GNOGRAD_CUDA_GNO, const void *cotangent, const void *h,        \
                    const void *coords, const void *u, const void *b_u, const void *v,            \
                    const void *b_v, const void *edge_weight, const void *h_tangent,              \
                    const void *coords_tangent, const void *u_tangent, const void *b_u_tangent,   \
                    const void *v_tangent, const void *b_v_tangent,                               \
                    const void *edge_weight_tangent, void *grad_h_tangent,                        \
                    void *grad_coords_tangent, void *grad_u_tangent, void *grad_b_u_tangent,      \
                    void *grad_v_tangent, void *grad_b_v_tangent, void *grad_edge_weight_tangent) \
  GNOGRAD_CUDA_FACE(gno_contract_forward, type, GNOGRAD_CUDA_GNO_CONTRACT, const void *h,         \
                    const void *hid, const void *v, const void *b_v, const void *edge_weight,     \
                    void *out)                                                                    \
  GNOGRAD_CUDA_FACE(gno_contract_vjp, type, GNOGRAD_CUDA_GNO_CONTRACT, const void *cotangent,     \
                    const void *h, const void *hid, const void *v, const void *b_v,               \
                    const void *edge_weight, void *grad_h, void *grad_hid, void *grad_v,          \
                    void *grad_b_v, void *grad_edge_weight)                                       \
  GNOGRAD_CUDA_FACE(gno_contract_jvp, type, GNOGRAD_CUDA_GNO_CONTRACT, const void *h,             \
                    const void *hid, const void *v, const void *b_v, const void *edge_weight,     \
                    const void *h_tangent, const void *hid_tangent, const void *v_tangent,        \
                    const void *b_v_tangent, const void *edge_weight_tangent, void *out_tangent)  \
  GNOGRAD_CUDA_FACE(gno_contract_hvp, type, GNOGRAD_CUDA_GNO_CONTRACT, const void *cotangent,     \
                    const void *h, const void *hid, const void *v, const void *b_v,               \
                    const void *edge_weight, const void *h_tangent, const void *hid_tangent,      \
                    const void *v_tangent, const void *b_v_tangent,                               \
                    const void *edge_weight_tangent, void *grad_h_tangent,                        \
                    void *grad_hid_tangent, void *grad_v_tangent, void *grad_b_v_tangent,         \
                    void *grad_edge_weight_tangent)

/* ---- gno_with_gradient, gno_with_laplacian, gno_with_hessian, for f32 and f64 ----
 *
 * The sum of gno with its derivatives by the positions x_i of the destinations, as in gnograd.h:
 * out [n_dst, f_out], gradient [n_dst, d, f_out], second [n_dst, f_out] for the Laplacian,
 * [n_dst, d, d, f_out] for the Hessian; of several cotangents c_* some may be null.
 * x [n_dst, d], y [n_src, d], layers [U_1 | b_1 | U_2 | b_2 | ...]; widths [n_layers], of the hidden
 * layers, is host memory, and is read during the call only. weight_derivatives [n_edges, d] for the
 * gradient, [n_edges, d+1] for the Laplacian, [n_edges, d+d(d+1)/2] for the Hessian; or null: 0.
 * geometry: x_i - y_j 0, [x_i, y_j] 1; other arrays and codes as for gno.
 */
#define GNOGRAD_CUDA_GNO_JETS                                                                 \
  (const gnograd_cuda_graph *graph, int64_t d, int64_t f_in, int64_t f_out, int64_t n_layers, \
   const int64_t *widths, int geometry, int activation, int reduction, int kernel)
#define GNOGRAD_CUDA_JETS_INPUTS                                                          \
  const void *h, const void *x, const void *y, const void *layers, const void *v,         \
      const void *b_v, const void *edge_weight, const void *weight_derivatives
#define GNOGRAD_CUDA_JETS_TANGENTS                                               \
  const void *h_tangent, const void *x_tangent, const void *y_tangent,           \
      const void *layers_tangent, const void *v_tangent, const void *b_v_tangent, \
      const void *edge_weight_tangent, const void *weight_derivatives_tangent
#define GNOGRAD_CUDA_JETS_GRADIENTS                                                 \
  void *grad_h, void *grad_x, void *grad_y, void *grad_layers, void *grad_v,        \
      void *grad_b_v, void *grad_edge_weight, void *grad_weight_derivatives
#define GNOGRAD_CUDA_JETS_FIRST_OUTPUTS (void *out, void *gradient)
#define GNOGRAD_CUDA_JETS_FIRST_OUTPUT_TANGENTS (void *out_tangent, void *gradient_tangent)
#define GNOGRAD_CUDA_JETS_FIRST_COTANGENTS (const void *c_out, const void *c_gradient)
#define GNOGRAD_CUDA_JETS_SECOND_OUTPUTS (void *out, void *gradient, void *second)
#define GNOGRAD_CUDA_JETS_SECOND_OUTPUT_TANGENTS \
  (void *out_tangent, void *gradient_tangent, void *second_tangent)
#define GNOGRAD_CUDA_JETS_SECOND_COTANGENTS \
  (const void *c_out, const void *c_gradient, const void *c_second)

#define GNOGRAD_CUDA_JETS_FACES(name, type, ORDER)                                            \
  GNOGRAD_CUDA_FACE(name##_forward, type, GNOGRAD_CUDA_GNO_JETS, GNOGRAD_CUDA_JETS_INPUTS,    \
                    GNOGRAD_CUDA_LIST GNOGRAD_CUDA_JETS_##ORDER##_OUTPUTS)                    \
  GNOGRAD_CUDA_FACE(name##_vjp, type, GNOGRAD_CUDA_GNO_JETS,                                  \
                    GNOGRAD_CUDA_LIST GNOGRAD_CUDA_JETS_##ORDER##_COTANGENTS,                 \
                    GNOGRAD_CUDA_JETS_INPUTS, GNOGRAD_CUDA_JETS_GRADIENTS)                    \
  GNOGRAD_CUDA_FACE(name##_jvp, type, GNOGRAD_CUDA_GNO_JETS, GNOGRAD_CUDA_JETS_INPUTS,        \
                    GNOGRAD_CUDA_JETS_TANGENTS,                                               \
                    GNOGRAD_CUDA_LIST GNOGRAD_CUDA_JETS_##ORDER##_OUTPUT_TANGENTS)            \
  GNOGRAD_CUDA_FACE(name##_hvp, type, GNOGRAD_CUDA_GNO_JETS,                                  \
                    GNOGRAD_CUDA_LIST GNOGRAD_CUDA_JETS_##ORDER##_COTANGENTS,                 \
                    GNOGRAD_CUDA_JETS_INPUTS, GNOGRAD_CUDA_JETS_TANGENTS,                     \
                    GNOGRAD_CUDA_JETS_GRADIENTS)
#define GNOGRAD_CUDA_JETS(type)                           \
  GNOGRAD_CUDA_JETS_FACES(gno_with_gradient, type, FIRST)   \
  GNOGRAD_CUDA_JETS_FACES(gno_with_laplacian, type, SECOND) \
  GNOGRAD_CUDA_JETS_FACES(gno_with_hessian, type, SECOND)

/* ---- neighbours within a radius, for coordinates in f32 and f64 ----
 *
 * neighbors_count finds where the neighbours of every destination begin, and leaves what
 * neighbors_fill needs to write them, in ascending order. A source is a neighbour where
 * (x_1 - y_1)^2 + ... <= radius^2, computed in double in the order of the axes, without fused
 * operations; along a periodic axis the difference is that to the nearest image.
 *
 * sources [n_src, d], destinations [n_dst, d], d <= 3; period_x to _z the lengths of the box, 0
 * along axes that are not periodic. source_items, destination_items [n_items+1] or null: first
 * point of every item of a batch, and the number of points; others' points are no neighbours.
 * exclude_self: nor is the source of the destination's own number.
 * n_buckets: a power of two, at least 4, and best next to n_src.
 * offsets [n_dst+1]; its last entry is the number of neighbours, or -1 where a source is not finite,
 * or -2 where a destination is not. indices [offsets[n_dst]].
 * Kept between the two: positions [n_src, d], order [n_src], starts [n_buckets+1], grid [2].
 */
#define GNOGRAD_CUDA_NEIGHBORS                                                                \
  (int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets,               \
   double radius, double period_x, double period_y, double period_z, int exclude_self)
#define GNOGRAD_CUDA_NEIGHBOR_SEARCH(type)                                                     \
  GNOGRAD_CUDA_FACE(neighbors_count, type, GNOGRAD_CUDA_NEIGHBORS, const void *sources,        \
                    const void *destinations, const int64_t *source_items,                     \
                    const int64_t *destination_items, double *positions, int32_t *order,       \
                    int32_t *starts, double *grid, int64_t *offsets)                           \
  GNOGRAD_CUDA_FACE(neighbors_fill, type, GNOGRAD_CUDA_NEIGHBORS, const void *destinations,    \
                    const int64_t *source_items, const int64_t *destination_items,             \
                    const double *positions, const int32_t *order, const int32_t *starts,      \
                    const double *grid, const int64_t *offsets, int32_t *indices)

#define GNOGRAD_CUDA_FOUR_TYPES(family) family(f32) family(f64) family(f16) family(bf16)
#define GNOGRAD_CUDA_FAMILIES                            \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_AGGREGATION)      \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_GRAPH_ATTENTION)  \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_SPARSE_ATTENTION) \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_COMPRESSION)      \
  GNOGRAD_CUDA_SPARSE_ATTENTION_CHECK                    \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_ASCEND)           \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_BASIS)            \
  GNOGRAD_CUDA_FOUR_TYPES(GNOGRAD_CUDA_EDGE_TO_EDGE) \
  GNOGRAD_CUDA_GRAPH_OPERATORS(f32) \
  GNOGRAD_CUDA_GRAPH_OPERATORS(f64) \
  GNOGRAD_CUDA_JETS(f32) GNOGRAD_CUDA_JETS(f64) \
  GNOGRAD_CUDA_NEIGHBOR_SEARCH(f32) \
  GNOGRAD_CUDA_NEIGHBOR_SEARCH(f64)
GNOGRAD_CUDA_FAMILIES

#ifdef __cplusplus
}
#endif
#endif

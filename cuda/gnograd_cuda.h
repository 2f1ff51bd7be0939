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
  int64_t n_src, n_dst;
  int64_t n_edges; /* or the room for them: behind the last offset, which is the same for both
                      orders, arrays are not read, and results of rows that no edge has are 0 */
  gnograd_cuda_csc by_dst; /* rows are destinations */
  gnograd_cuda_csc by_src; /* rows are sources, their edges in the order of by_dst; used by vjp and
                              hvp only */
} gnograd_cuda_graph;

/* ---- runtime ---- */

GNOGRAD_CUDA_API int gnograd_cuda_abi_version(void);
GNOGRAD_CUDA_API const char *gnograd_cuda_error_string(int status);

/* Number of devices; 0, with the reason as status, where there is no driver that can be used. */
GNOGRAD_CUDA_API int gnograd_cuda_device_count(int *n);
GNOGRAD_CUDA_API int gnograd_cuda_device_name(int device, int64_t length,
                                              char *name /* [length] */);
/* Support of a device by the kernels: 0 if they run on it, or the reason why they do not. */
GNOGRAD_CUDA_API int gnograd_cuda_device_usable(int device);

/* The device that memory lies on; the current one for memory that CUDA does not know. */
GNOGRAD_CUDA_API int gnograd_cuda_device_of(const void *memory, int *device);
/* Device on which the calling thread allocates and launches. */
GNOGRAD_CUDA_API int gnograd_cuda_current_device(int *device);
GNOGRAD_CUDA_API int gnograd_cuda_use_device(int device);

/* Memory of the current device in the order of a stream, for callers without an allocator of their
 * own. The process keeps what is freed, for the next call. Without bytes the pointer is null. */
GNOGRAD_CUDA_API int gnograd_cuda_allocate(size_t bytes, void **memory, void *stream);
GNOGRAD_CUDA_API int gnograd_cuda_free(void *memory, void *stream);
/* A copy of host memory on the current device that every stream may read when this returns (`from`
 * may be null: then only room for one); and its end, which waits for all that use it. Both leave
 * alone what is being captured into a CUDA graph. */
GNOGRAD_CUDA_API int gnograd_cuda_hold(size_t bytes, const void *from, void **memory);
GNOGRAD_CUDA_API int gnograd_cuda_release(void *memory);
/* Between host and device, or on the device. From or to pageable host memory this waits. */
GNOGRAD_CUDA_API int gnograd_cuda_copy(void *to, const void *from, size_t bytes, void *stream);
GNOGRAD_CUDA_API int gnograd_cuda_synchronize(void *stream);
/* Order of two streams: work put on `stream` from now on waits for the work that is on `other`, a
 * stream of this device. */
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

/* From now on products of float32 matrices in the graph neural operators round their factors to
 * TF32 (11 bits), in this process; 0: they are as accurate as float32, in three times the work. */
GNOGRAD_CUDA_API int gnograd_cuda_use_tf32(int on);

/* ---- the tape: what its arrays need on a device besides operators ----
 *
 * type is GNOGRAD_CUDA_F32 or GNOGRAD_CUDA_F64, of all arrays; these lie in device memory without
 * gaps. Extents are in Fortran's order, the first axis is the contiguous one; they and strides are
 * host memory.
 */

enum gnograd_cuda_unary {
  GNOGRAD_CUDA_NEGATIVE,
  GNOGRAD_CUDA_EXP,
  GNOGRAD_CUDA_LOG,
  GNOGRAD_CUDA_SQRT,
  GNOGRAD_CUDA_SIN,
  GNOGRAD_CUDA_COS,
  GNOGRAD_CUDA_ABS,
  GNOGRAD_CUDA_SIGN_OF, /* 0 for 0 */
  GNOGRAD_CUDA_INVERSE, /* 0 for 0 */
  GNOGRAD_CUDA_SIGMOID,
  GNOGRAD_CUDA_MONOMIAL, /* a ** parameter */
  GNOGRAD_CUDA_RELU,
  GNOGRAD_CUDA_GELU,
  GNOGRAD_CUDA_SILU,
  GNOGRAD_CUDA_TANH
};

enum gnograd_cuda_binary {
  GNOGRAD_CUDA_ADD,
  GNOGRAD_CUDA_SUBTRACT,
  GNOGRAD_CUDA_MULTIPLY,
  GNOGRAD_CUDA_DIVIDE,
  GNOGRAD_CUDA_POWER,
  GNOGRAD_CUDA_MAXIMUM, /* NaN where either is */
  GNOGRAD_CUDA_MINIMUM,
  GNOGRAD_CUDA_ABOVE, /* 1 where a > b, 1/2 where they are equal, else 0 */
  GNOGRAD_CUDA_RELU_SLOPE, /* a times the derivative at b */
  GNOGRAD_CUDA_GELU_SLOPE,
  GNOGRAD_CUDA_SILU_SLOPE,
  GNOGRAD_CUDA_TANH_SLOPE
};

/* x = number */
GNOGRAD_CUDA_API int gnograd_cuda_tape_fill(int type, int64_t n, double number, void *x,
                                            void *stream);
/* c = f(a); c may be a */
GNOGRAD_CUDA_API int gnograd_cuda_tape_unary(int type, int function, double parameter, int64_t n,
                                             const void *a, void *c, void *stream);
/* c = f(a, b), repeated along axes where one of them has a single element: extents [4]; c may be an
 * operand of its own shape */
GNOGRAD_CUDA_API int gnograd_cuda_tape_binary(int type, int function, const int64_t *a_extents,
                                              const int64_t *b_extents, const void *a,
                                              const void *b, void *c, void *stream);
/* y = the sums of x along the axes where y has a single element: extents [4] */
GNOGRAD_CUDA_API size_t gnograd_cuda_tape_sum_workspace_bytes(int type, const int64_t *x_extents,
                                                              const int64_t *y_extents);
GNOGRAD_CUDA_API int gnograd_cuda_tape_sum(int type, const int64_t *x_extents,
                                           const int64_t *y_extents, const void *x, void *y,
                                           void *workspace, size_t workspace_bytes, void *stream);
/* softmax along the middle axis of [inner, length, outer] */
GNOGRAD_CUDA_API int gnograd_cuda_tape_softmax(int type, int64_t inner, int64_t length,
                                               int64_t outer, const void *x, void *y, void *stream);
/* y(:, k) = x(:, index(k)), index [n] counted from 0 and in device memory */
GNOGRAD_CUDA_API int gnograd_cuda_tape_gather(int type, int64_t width, int64_t n,
                                              const int64_t *index, const void *x, void *y,
                                              void *stream);
/* y(:, c) = sum of x(:, places(p)), offsets(c) <= p < offsets(c + 1), in this order; offsets
 * [n_columns+1] and places are in device memory */
GNOGRAD_CUDA_API int gnograd_cuda_tape_scatter(int type, int64_t width, int64_t n_columns,
                                               const int64_t *offsets, const int64_t *places,
                                               const void *x, void *y, void *stream);
/* c = op(a) op(b) [m, n], op the transpose where it is asked for, op(a) [m, depth] */
GNOGRAD_CUDA_API size_t gnograd_cuda_tape_product_workspace_bytes(int type, int64_t m, int64_t n,
                                                                  int64_t depth);
GNOGRAD_CUDA_API int gnograd_cuda_tape_product(int type, int transpose_a, int transpose_b,
                                               int64_t m, int64_t n, int64_t depth, const void *a,
                                               const void *b, void *c, void *workspace,
                                               size_t workspace_bytes, void *stream);
/* A step of Adam: x is made smaller by the factor `keep` first; rate and root have the corrections
 * of the averages' bias. A step of gradient descent along m = momentum m + grad. */
GNOGRAD_CUDA_API int gnograd_cuda_tape_adam(int type, int64_t n, double beta1, double beta2,
                                            double eps, double decay, double rate, double root,
                                            double keep, const void *grad, void *m, void *v,
                                            void *x, void *stream);
GNOGRAD_CUDA_API int gnograd_cuda_tape_descend(int type, int64_t n, double momentum, double rate,
                                               const void *grad, void *m, void *x, void *stream);

/* The functions of operators, one a line, "<name>_<type>(sizes and codes; arrays)" without what is
 * common to all: for languages that call this library without reading this header. */
GNOGRAD_CUDA_API const char *gnograd_cuda_prototypes(void);

/* Every face of every operator is a pair of functions for each type:
 *   size_t gnograd_cuda_<operator>_<face>_workspace_bytes_<type>(sizes and codes)
 *   int    gnograd_cuda_<operator>_<face>_<type>(sizes and codes, arrays, workspace, ..., stream)
 * The graph of an operator stands first among the sizes. vjp gets the cotangents of the outputs
 * (`cotangent`, or c_<output> of several), the inputs, what forward saved, and writes the gradients
 * grad_<input>; jvp gets tangents t_<input> and writes t_<output>; hvp, the derivative of vjp along
 * tangents, gets cotangents, inputs and tangents and writes grad_<input>. They are generated from
 * the declarations of python/gnograd by tools/interface/cuda.py; arrays are explained where an
 * operator has them first.
 */

/* ---- graphs: both orders of edges, as gnograd_graph has them, entry by entry ----
 *
 * T is the type of the nodes: i32 int32_t, i64 int64_t. Nodes, and rows of edge arrays, are less than
 * 2^31 - 1. found[0]: whether a node, an offset or a row is wrong; then arrays have no meaning.
 *
 * graph_from_edges_build: of edges from src to dst [n_given] in any order. self_loops: -1, as they
 * are; 0, their rows of edge arrays belong to no edge; 1, and min(n_src, n_dst) rows more are those of
 * one at every node on both sides. n_edges is the number of rows then. found[1]: whether all rows
 * are edges, by destination; then edge_ids and src_positions say nothing.
 * graph_from_edges_rows: the same, but rows with a source -1 belong to no edge.
 * graph_from_edges_largest: the largest node of src and of dst, -1 where there is none.
 * graph_rows_ends: of a graph, the ends of every row of edge arrays, -1 where it belongs to no edge.
 * graph_union_first: of such rows, those that are the first with their ends, in their order, and
 * in found[0] how many.
 *
 * graph_from_csc_build: of edges by destination. edge_ids: a permutation of the rows of edge arrays.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_largest_workspace_bytes_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_largest_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops,
    const void *src,  /* [n_given] */
    const void *dst,  /* [n_given] */
    int64_t *largest, /* [2] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_build_workspace_bytes_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_build_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops, const void *src, const void *dst,
    int64_t *offsets,       /* [n_dst+1] */
    int32_t *indices,       /* [n_edges] */
    int64_t *edge_ids,      /* [n_edges] */
    int64_t *src_offsets,   /* [n_src+1] */
    int32_t *src_indices,   /* [n_edges] */
    int64_t *src_edges,     /* [n_edges] */
    int64_t *src_positions, /* [n_edges] */
    int64_t *found,         /* [2] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_rows_workspace_bytes_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_rows_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops, const void *src, const void *dst,
    int64_t *offsets, int32_t *indices, int64_t *edge_ids, int64_t *src_offsets,
    int32_t *src_indices, int64_t *src_edges, int64_t *src_positions, int64_t *found,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_largest_workspace_bytes_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_largest_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops, const void *src, const void *dst,
    int64_t *largest, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_build_workspace_bytes_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_build_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops, const void *src, const void *dst,
    int64_t *offsets, int32_t *indices, int64_t *edge_ids, int64_t *src_offsets,
    int32_t *src_indices, int64_t *src_edges, int64_t *src_positions, int64_t *found,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_edges_rows_workspace_bytes_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_edges_rows_i64(
    int64_t n_src, int64_t n_dst, int64_t n_given, int self_loops, const void *src, const void *dst,
    int64_t *offsets, int32_t *indices, int64_t *edge_ids, int64_t *src_offsets,
    int32_t *src_indices, int64_t *src_edges, int64_t *src_positions, int64_t *found,
    void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_graph_rows_ends_workspace_bytes_i32(
    int64_t n_dst, int64_t n_edges);
GNOGRAD_CUDA_API int gnograd_cuda_graph_rows_ends_i32(
    int64_t n_dst, int64_t n_edges,
    const int64_t *offsets,  /* [n_dst+1] */
    const void *indices,     /* [n_edges] */
    const int64_t *edge_ids, /* [n_edges] or null */
    void *src,               /* [n_edges] */
    void *dst,               /* [n_edges] */
    void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_graph_union_first_workspace_bytes_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given);
GNOGRAD_CUDA_API int gnograd_cuda_graph_union_first_i32(
    int64_t n_src, int64_t n_dst, int64_t n_given,
    const void *src, /* [n_given] */
    const void *dst, /* [n_given] */
    void *kept_src,  /* [n_given] */
    void *kept_dst,  /* [n_given] */
    int64_t *found,  /* [1] */
    void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_csc_build_workspace_bytes_i32(
    int64_t n_src, int64_t n_dst, int64_t n_edges);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_csc_build_i32(
    int64_t n_src, int64_t n_dst, int64_t n_edges,
    const int64_t *offsets,  /* [n_dst+1] */
    const void *sources,     /* [n_edges] */
    const int64_t *edge_ids, /* [n_edges] or null */
    int32_t *indices,        /* [n_edges] */
    int64_t *src_offsets,    /* [n_src+1] */
    int32_t *src_indices,    /* [n_edges] */
    int64_t *src_edges,      /* [n_edges] */
    int64_t *src_positions,  /* [n_edges] or null */
    int64_t *found,          /* [2] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_graph_from_csc_build_workspace_bytes_i64(
    int64_t n_src, int64_t n_dst, int64_t n_edges);
GNOGRAD_CUDA_API int gnograd_cuda_graph_from_csc_build_i64(
    int64_t n_src, int64_t n_dst, int64_t n_edges, const int64_t *offsets, const void *sources,
    const int64_t *edge_ids, int32_t *indices, int64_t *src_offsets, int32_t *src_indices,
    int64_t *src_edges, int64_t *src_positions, int64_t *found, void *workspace,
    size_t workspace_bytes, void *stream);

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
 * needs and does not get or read. An input may be null where no gradient that is wanted depends on it.
 * Where own is x (n_src = n_dst, D = Do), the gradients may be one array too, grad_own = grad_x: it
 * gets their sum, rounded once.
 */

/* vjp of agg_weighted does not read: out, degree; out where aggregation=sum|min|max. */
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation,
    const void *x,     /* [n_src, n_features] */
    const void *w,     /* [n_edges] */
    void *out,         /* [n_dst, n_features] */
    int64_t *location, /* [n_dst, n_features] or null */
    void *degree,      /* real [n_dst] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation,
    const void *cotangent, /* [n_dst, n_features] */
    const void *x, const void *w, const void *out, const int64_t *location, const void *degree,
    void *grad_x,          /* [n_src, n_features] or null */
    void *grad_w,          /* [n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w,
    const void *t_x, /* [n_src, n_features] or null */
    const void *t_w, /* [n_edges] or null */
    void *t_out,     /* [n_dst, n_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_weighted_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_weighted_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int aggregation, const void *cotangent,
    const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w,
    void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x,     /* [n_src, n_features] or null */
    const void *e,     /* [n_edges, n_edge_features] or null */
    void *out,         /* [n_dst, n_features+n_edge_features] */
    int64_t *location, /* [n_dst, n_features+n_edge_features] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, /* [n_dst, n_features+n_edge_features] */
    const void *x, const void *e, const int64_t *location,
    void *grad_x,          /* [n_src, n_features] or null */
    void *grad_e,          /* [n_edges, n_edge_features] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e,
    const void *t_x, /* [n_src, n_features] or null */
    const void *t_e, /* [n_edges, n_edge_features] or null */
    void *t_out,     /* [n_dst, n_features+n_edge_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const void *t_x, const void *t_e,
    void *grad_x, void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, void *out, int64_t *location, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const int64_t *location, void *grad_x,
    void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, const void *t_x, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const void *t_x, const void *t_e,
    void *grad_x, void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, void *out, int64_t *location, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const int64_t *location, void *grad_x,
    void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, const void *t_x, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const void *t_x, const void *t_e,
    void *grad_x, void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, void *out, int64_t *location, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const int64_t *location, void *grad_x,
    void *grad_e, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *x, const void *e, const void *t_x, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_simple_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_simple_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const void *cotangent, const void *x, const void *e, const void *t_x, const void *t_e,
    void *grad_x, void *grad_e, void *workspace, size_t workspace_bytes, void *stream);

/* vjp of agg_concat does not read: out, degree; out where aggregation=sum|min|max. */
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation,
    const void *x,     /* [n_src, n_features] or null */
    const void *w,     /* [n_edges] or null */
    const void *e,     /* [n_edges, n_edge_features] or null */
    const void *own,   /* [n_dst, n_own_features] or null */
    void *out,         /* [n_dst, n_features+n_edge_features+n_own_features] */
    int64_t *location, /* [n_dst, n_features+n_edge_features] or null */
    void *degree,      /* real [n_dst] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation,
    const void *cotangent, /* [n_dst, n_features+n_edge_features+n_own_features] */
    const void *x, const void *w, const void *e, const void *own, const void *out,
    const int64_t *location, const void *degree,
    void *grad_x,          /* [n_src, n_features] or null */
    void *grad_w,          /* [n_edges] or null */
    void *grad_e,          /* [n_edges, n_edge_features] or null */
    void *grad_own,        /* [n_dst, n_own_features] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own,
    const void *t_x,   /* [n_src, n_features] or null */
    const void *t_w,   /* [n_edges] or null */
    const void *t_e,   /* [n_edges, n_edge_features] or null */
    const void *t_own, /* [n_dst, n_own_features] or null */
    void *t_out,       /* [n_dst, n_features+n_edge_features+n_own_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *t_x, const void *t_w, const void *t_e,
    const void *t_own, void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, const void *t_x, const void *t_w, const void *t_e, const void *t_own,
    void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *t_x, const void *t_w, const void *t_e,
    const void *t_own, void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, const void *t_x, const void *t_w, const void *t_e, const void *t_own,
    void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *t_x, const void *t_w, const void *t_e,
    const void *t_own, void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, void *out, int64_t *location, void *degree, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *out, const int64_t *location, const void *degree,
    void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *x, const void *w, const void *e,
    const void *own, const void *t_x, const void *t_w, const void *t_e, const void *t_own,
    void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_concat_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_concat_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_edge_features,
    int64_t n_own_features, int aggregation, const void *cotangent, const void *x, const void *w,
    const void *e, const void *own, const void *t_x, const void *t_w, const void *t_e,
    const void *t_own, void *grad_x, void *grad_w, void *grad_e, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);

/* ---- relations: out_i = [S_i0 | S_i1 | ... | own_i], S_ir the Sum (0) or Mean (1) of w_e x_j over the
 *      edges e = (j -> i) of type r; with coeff [B_i0 | ... | own_i], B_ib = sum_r coeff_rb S_ir
 *
 * D = n_features, R = n_relations; n_bases is 0 without coeff. edge_type [n_edges] has 0 to R-1; an
 * edge of another type is left out. Mean divides by the sum of w, or the number of edges, of a
 * relation at the destination. w null: all 1.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases,
    const int32_t *edge_type, /* [n_edges] */
    int aggregation,
    const void *x,            /* [n_src, n_features] */
    const void *w,            /* [n_edges] or null */
    const void *coeff,        /* [n_relations, n_bases] or null */
    const void *own,          /* [n_dst, n_own_features] or null */
    void *out,                /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
    const void *x, const void *w, const void *coeff, const void *own,
    void *grad_x,          /* [n_src, n_features] or null */
    void *grad_w,          /* [n_edges] or null */
    void *grad_coeff,      /* [n_relations, n_bases] or null */
    void *grad_own,        /* [n_dst, n_own_features] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own,
    const void *t_x,     /* [n_src, n_features] or null */
    const void *t_w,     /* [n_edges] or null */
    const void *t_coeff, /* [n_relations, n_bases] or null */
    const void *t_own,   /* [n_dst, n_own_features] or null */
    void *t_out,         /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    const void *t_x, const void *t_w, const void *t_coeff, const void *t_own, void *grad_x,
    void *grad_w, void *grad_coeff, void *grad_own, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    void *grad_x, void *grad_w, void *grad_coeff, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, const void *t_x, const void *t_w,
    const void *t_coeff, const void *t_own, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    const void *t_x, const void *t_w, const void *t_coeff, const void *t_own, void *grad_x,
    void *grad_w, void *grad_coeff, void *grad_own, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    void *grad_x, void *grad_w, void *grad_coeff, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, const void *t_x, const void *t_w,
    const void *t_coeff, const void *t_own, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    const void *t_x, const void *t_w, const void *t_coeff, const void *t_own, void *grad_x,
    void *grad_w, void *grad_coeff, void *grad_own, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    void *grad_x, void *grad_w, void *grad_coeff, void *grad_own, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation, const void *x,
    const void *w, const void *coeff, const void *own, const void *t_x, const void *t_w,
    const void *t_coeff, const void *t_own, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_relational_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation);
GNOGRAD_CUDA_API int gnograd_cuda_agg_relational_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_features, int64_t n_own_features,
    int64_t n_relations, int64_t n_bases, const int32_t *edge_type, int aggregation,
    const void *cotangent, const void *x, const void *w, const void *coeff, const void *own,
    const void *t_x, const void *t_w, const void *t_coeff, const void *t_own, void *grad_x,
    void *grad_w, void *grad_coeff, void *grad_own, void *workspace, size_t workspace_bytes,
    void *stream);

/* ---- edges: out_p = [e_p | x_src_j | x_dst_i], or with mode 1 their sum, for p = (j -> i)
 *
 * Each part is there if its input is; for a sum all have n_edge_features features, and n_src_features
 * and n_dst_features are the same number.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode,
    const void *e,     /* [n_edges, n_edge_features] or null */
    const void *x_src, /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    const void *x_dst, /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
    void *out,         /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode,
    const void *cotangent, /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
    const void *e, const void *x_src, const void *x_dst,
    void *grad_e,          /* [n_edges, n_edge_features] or null */
    void *grad_x_src,      /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    void *grad_x_dst,      /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    const void *t_e,     /* [n_edges, n_edge_features] or null */
    const void *t_x_src, /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    const void *t_x_dst, /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
    void *t_out,         /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, const void *t_e, const void *t_x_src, const void *t_x_dst, void *grad_e,
    void *grad_x_src, void *grad_x_dst, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, void *grad_e, void *grad_x_src, void *grad_x_dst, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    const void *t_e, const void *t_x_src, const void *t_x_dst, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, const void *t_e, const void *t_x_src, const void *t_x_dst, void *grad_e,
    void *grad_x_src, void *grad_x_dst, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, void *grad_e, void *grad_x_src, void *grad_x_dst, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    const void *t_e, const void *t_x_src, const void *t_x_dst, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, const void *t_e, const void *t_x_src, const void *t_x_dst, void *grad_e,
    void *grad_x_src, void *grad_x_dst, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, void *grad_e, void *grad_x_src, void *grad_x_dst, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *e, const void *x_src, const void *x_dst,
    const void *t_e, const void *t_x_src, const void *t_x_dst, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_update_edges_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode);
GNOGRAD_CUDA_API int gnograd_cuda_update_edges_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const void *cotangent, const void *e, const void *x_src,
    const void *x_dst, const void *t_e, const void *t_x_src, const void *t_x_dst, void *grad_e,
    void *grad_x_src, void *grad_x_dst, void *workspace, size_t workspace_bytes, void *stream);

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
 * softmax_scores real [2, n_heads, n_edges], scores and their softmax by position in by_dst. A vjp
 * that gets out and lse need not look at all edges once more.
 * mha_gat_v2 also saves activation_scores [n_edges, D], the activated sums by position in by_dst. A
 * vjp that gets them reads them instead of x_dst and e, which may then be null; the negative_slope
 * of LeakyReLU and ELU must not be negative there.
 */

/* vjp of mha_gat does not read: softmax_scores; out, lse where concat_heads=False; out, lse in f16
 * and bf16. */
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout,
    const int64_t *seed,  /* [1] or null */
    const void *x_src,    /* [n_src, n_heads*n_channels] */
    const void *x_dst,    /* [n_dst, n_heads*n_channels] */
    const void *a,        /* [n_heads*(2*n_channels+n_edge_channels)] */
    const void *e,        /* [n_edges, n_heads*n_edge_channels] or null */
    void *out,            /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *lse,            /* real [n_dst, n_heads] or null */
    void *softmax_scores, /* real [2, n_heads, n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const void *x_src, const void *x_dst, const void *a, const void *e, const void *out,
    const void *lse, const void *softmax_scores,
    void *grad_x_src,      /* [n_src, n_heads*n_channels] or null */
    void *grad_x_dst,      /* [n_dst, n_heads*n_channels] or null */
    void *grad_a,          /* [n_heads*(2*n_channels+n_edge_channels)] or null */
    void *grad_e,          /* [n_edges, n_heads*n_edge_channels] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, /* [n_src, n_heads*n_channels] or null */
    const void *t_x_dst, /* [n_dst, n_heads*n_channels] or null */
    const void *t_a,     /* [n_heads*(2*n_channels+n_edge_channels)] or null */
    const void *t_e,     /* [n_edges, n_heads*n_edge_channels] or null */
    void *t_out,         /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, void *out, void *lse,
    void *softmax_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, const void *t_x_src,
    const void *t_x_dst, const void *t_a, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, void *out, void *lse,
    void *softmax_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, const void *t_x_src,
    const void *t_x_dst, const void *t_a, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, void *out, void *lse,
    void *softmax_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *x_src, const void *x_dst, const void *a, const void *e, const void *t_x_src,
    const void *t_x_dst, const void *t_a, const void *t_e, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);

/* vjp of mha_gat_v2 does not read: softmax_scores; out, lse where concat_heads=False; out, lse in
 * f16 and bf16. */
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout,
    const int64_t *seed,     /* [1] or null */
    const void *x_src,       /* [n_src, n_heads*n_channels] */
    const void *x_dst,       /* [n_dst, n_heads*n_channels] */
    const void *a,           /* [n_heads*n_channels] */
    const void *e,           /* [n_edges, n_heads*n_channels] or null */
    void *out,               /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *lse,               /* real [n_dst, n_heads] or null */
    void *softmax_scores,    /* real [2, n_heads, n_edges] or null */
    void *activation_scores, /* [n_edges, n_heads*n_channels] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const void *x_src, const void *x_dst, const void *a, const void *e, const void *out,
    const void *lse, const void *softmax_scores, const void *activation_scores,
    void *grad_x_src,      /* [n_src, n_heads*n_channels] or null */
    void *grad_x_dst,      /* [n_dst, n_heads*n_channels] or null */
    void *grad_a,          /* [n_heads*n_channels] or null */
    void *grad_e,          /* [n_edges, n_heads*n_channels] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e,
    const void *t_x_src, /* [n_src, n_heads*n_channels] or null */
    const void *t_x_dst, /* [n_dst, n_heads*n_channels] or null */
    const void *t_a,     /* [n_heads*n_channels] or null */
    const void *t_e,     /* [n_edges, n_heads*n_channels] or null */
    void *t_out,         /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, void *out, void *lse, void *softmax_scores,
    void *activation_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, const void *activation_scores,
    void *grad_x_src, void *grad_x_dst, void *grad_a, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, const void *t_x_src, const void *t_x_dst,
    const void *t_a, const void *t_e, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, void *out, void *lse, void *softmax_scores,
    void *activation_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, const void *activation_scores,
    void *grad_x_src, void *grad_x_dst, void *grad_a, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, const void *t_x_src, const void *t_x_dst,
    const void *t_a, const void *t_e, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, void *out, void *lse, void *softmax_scores,
    void *activation_scores, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *out, const void *lse, const void *softmax_scores, const void *activation_scores,
    void *grad_x_src, void *grad_x_dst, void *grad_a, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const void *x_src,
    const void *x_dst, const void *a, const void *e, const void *t_x_src, const void *t_x_dst,
    const void *t_a, const void *t_e, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_gat_v2_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_gat_v2_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const void *cotangent, const void *x_src, const void *x_dst, const void *a, const void *e,
    const void *t_x_src, const void *t_x_dst, const void *t_a, const void *t_e, void *grad_x_src,
    void *grad_x_dst, void *grad_a, void *grad_e, void *workspace, size_t workspace_bytes,
    void *stream);

/* vjp of mha_simple does not read: softmax_scores; out, lse where concat_heads=False; out, lse in
 * f16 and bf16. */
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout,
    const int64_t *seed,  /* [1] or null */
    const void *q,        /* [n_dst, n_heads*n_channels] */
    const void *k,        /* [n_src, n_heads*n_channels] */
    const void *v,        /* [n_src, n_heads*n_channels] */
    const void *e,        /* [n_edges, n_heads*n_channels] or null */
    void *out,            /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *lse,            /* real [n_dst, n_heads] or null */
    void *softmax_scores, /* real [2, n_heads, n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed,
    const void *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const void *q, const void *k, const void *v, const void *e, const void *out, const void *lse,
    const void *softmax_scores,
    void *grad_q,          /* [n_dst, n_heads*n_channels] or null */
    void *grad_k,          /* [n_src, n_heads*n_channels] or null */
    void *grad_v,          /* [n_src, n_heads*n_channels] or null */
    void *grad_e,          /* [n_edges, n_heads*n_channels] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e,
    const void *t_q, /* [n_dst, n_heads*n_channels] or null */
    const void *t_k, /* [n_src, n_heads*n_channels] or null */
    const void *t_v, /* [n_src, n_heads*n_channels] or null */
    const void *t_e, /* [n_edges, n_heads*n_channels] or null */
    void *t_out,     /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *grad_q, void *grad_k, void *grad_v, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, void *out, void *lse, void *softmax_scores, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *out, const void *lse,
    const void *softmax_scores, void *grad_q, void *grad_k, void *grad_v, void *grad_e,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *grad_q, void *grad_k, void *grad_v, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, void *out, void *lse, void *softmax_scores, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *out, const void *lse,
    const void *softmax_scores, void *grad_q, void *grad_k, void *grad_v, void *grad_e,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *grad_q, void *grad_k, void *grad_v, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, void *out, void *lse, void *softmax_scores, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *out, const void *lse,
    const void *softmax_scores, void *grad_q, void *grad_k, void *grad_v, void *grad_e,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *q, const void *k,
    const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_mha_simple_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed);
GNOGRAD_CUDA_API int gnograd_cuda_mha_simple_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const void *cotangent, const void *q,
    const void *k, const void *v, const void *e, const void *t_q, const void *t_k, const void *t_v,
    const void *t_e, void *grad_q, void *grad_k, void *grad_v, void *grad_e, void *workspace,
    size_t workspace_bytes, void *stream);

/* ---- edge_softmax: softmax of scores over the edges of a destination, per head ----
 *
 * s, out [n_edges, n_heads].
 */

/* vjp of edge_softmax does not read: out. */
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads,
    const void *s, /* [n_edges, n_heads] */
    void *out,     /* [n_edges, n_heads] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads,
    const void *cotangent, /* [n_edges, n_heads] */
    const void *s, const void *out,
    void *grad_s,          /* [n_edges, n_heads] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s,
    const void *t_s, /* [n_edges, n_heads] or null */
    void *t_out,     /* [n_edges, n_heads] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *t_s, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *out, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, const void *t_s, void *t_out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *t_s, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *out, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, const void *t_s, void *t_out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *t_s, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, void *out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *out, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *s, const void *t_s, void *t_out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_softmax_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads);
GNOGRAD_CUDA_API int gnograd_cuda_edge_softmax_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_heads, const void *cotangent, const void *s,
    const void *t_s, void *grad_s, void *workspace, size_t workspace_bytes, void *stream);

/* ---- offset_moments, for f32 and f64 ----
 *
 * Over the n edges of a destination, with r_p = x_j - y_i for x [n_src, d], y [n_dst, d]: the mean
 * m = sum |r_p|/n and the variance sum (|r_p| - m)^2/n of the distance, the centroid c = sum r_p/n
 * (d columns), and the upper triangle of the covariance sum (r_p - c)(r_p - c)^T/n row by row; 0
 * without edges. Derivatives of |r_p| are 0 where it is.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_forward_f32(
    const gnograd_cuda_graph *graph, int64_t d,
    const void *x, /* [n_src, d] */
    const void *y, /* [n_dst, d] */
    void *moments, /* [n_dst, 2+d+d*(d+1)//2] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t d,
    const void *cotangent, /* [n_dst, 2+d+d*(d+1)//2] */
    const void *x, const void *y,
    void *grad_x,          /* [n_src, d] or null */
    void *grad_y,          /* [n_dst, d] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t d, const void *x, const void *y,
    const void *t_x, /* [n_src, d] or null */
    const void *t_y, /* [n_dst, d] or null */
    void *t_moments, /* [n_dst, 2+d+d*(d+1)//2] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t d, const void *cotangent, const void *x, const void *y,
    const void *t_x, const void *t_y, void *grad_x, void *grad_y, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_forward_f64(
    const gnograd_cuda_graph *graph, int64_t d, const void *x, const void *y, void *moments,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t d, const void *cotangent, const void *x, const void *y,
    void *grad_x, void *grad_y, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t d, const void *x, const void *y, const void *t_x,
    const void *t_y, void *t_moments, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_offset_moments_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t d);
GNOGRAD_CUDA_API int gnograd_cuda_offset_moments_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t d, const void *cotangent, const void *x, const void *y,
    const void *t_x, const void *t_y, void *grad_x, void *grad_y, void *workspace,
    size_t workspace_bytes, void *stream);

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

GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_forward_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_forward_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences,
    const int32_t *block_index, /* [(n_queries+query_block-1)//query_block, n_heads, n_slots] */
    const int64_t *cu_q,        /* [n_sequences+1] or null */
    const int64_t *cu_k,        /* [n_sequences+1] or null */
    int64_t block_size, double scale, int causal, int64_t q_offset, int64_t query_block,
    int duplicates,
    const void *q,              /* [n_queries, n_query_heads, d_k] */
    const void *k,              /* [n_keys, n_heads, d_k] */
    const void *v,              /* [n_keys, n_heads, d_v] */
    const void *slot_gate,      /* [n_queries, n_heads, n_slots] or null */
    void *out,                  /* [n_queries, n_query_heads, d_v] */
    void *lse,                  /* real [n_queries, n_query_heads] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_vjp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_vjp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates,
    const void *cotangent, /* [n_queries, n_query_heads, d_v] */
    const void *q, const void *k, const void *v, const void *slot_gate, const void *out,
    const void *lse,
    void *grad_q,          /* [n_queries, n_query_heads, d_k] or null */
    void *grad_k,          /* [n_keys, n_heads, d_k] or null */
    void *grad_v,          /* [n_keys, n_heads, d_v] or null */
    void *grad_slot_gate,  /* [n_queries, n_heads, n_slots] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_jvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_jvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate,
    const void *t_q,         /* [n_queries, n_query_heads, d_k] or null */
    const void *t_k,         /* [n_keys, n_heads, d_k] or null */
    const void *t_v,         /* [n_keys, n_heads, d_v] or null */
    const void *t_slot_gate, /* [n_queries, n_heads, n_slots] or null */
    void *t_out,             /* [n_queries, n_query_heads, d_v] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_hvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_hvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *t_q, const void *t_k,
    const void *t_v, const void *t_slot_gate, void *grad_q, void *grad_k, void *grad_v,
    void *grad_slot_gate, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_forward_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_forward_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, void *out, void *lse, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_vjp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_vjp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *out, const void *lse,
    void *grad_q, void *grad_k, void *grad_v, void *grad_slot_gate, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_jvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_jvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, const void *t_q, const void *t_k, const void *t_v,
    const void *t_slot_gate, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_hvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_hvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *t_q, const void *t_k,
    const void *t_v, const void *t_slot_gate, void *grad_q, void *grad_k, void *grad_v,
    void *grad_slot_gate, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_forward_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_forward_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, void *out, void *lse, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_vjp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_vjp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *out, const void *lse,
    void *grad_q, void *grad_k, void *grad_v, void *grad_slot_gate, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_jvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_jvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, const void *t_q, const void *t_k, const void *t_v,
    const void *t_slot_gate, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_hvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_hvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *t_q, const void *t_k,
    const void *t_v, const void *t_slot_gate, void *grad_q, void *grad_k, void *grad_v,
    void *grad_slot_gate, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_forward_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_forward_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, void *out, void *lse, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_vjp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_vjp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *out, const void *lse,
    void *grad_q, void *grad_k, void *grad_v, void *grad_slot_gate, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_jvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_jvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *q, const void *k,
    const void *v, const void *slot_gate, const void *t_q, const void *t_k, const void *t_v,
    const void *t_slot_gate, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_hvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_hvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const void *cotangent, const void *q,
    const void *k, const void *v, const void *slot_gate, const void *t_q, const void *t_k,
    const void *t_v, const void *t_slot_gate, void *grad_q, void *grad_k, void *grad_v,
    void *grad_slot_gate, void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_forward_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_forward_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const int64_t *cu_q, /* [n_sequences+1] or null */
    const int64_t *cu_k, /* [n_sequences+1] or null */
    int64_t block, int64_t stride, double scale, int causal, int64_t q_offset,
    const void *q,       /* [n_queries, n_query_heads, d_k] */
    const void *k,       /* [n_keys, n_heads, d_k] */
    const void *v,       /* [n_keys, n_heads, d_v] */
    void *out,           /* [n_queries, n_query_heads, d_v] */
    void *lse,           /* real [n_queries, n_query_heads] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_vjp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_vjp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset,
    const void *c_out, /* [n_queries, n_query_heads, d_v] or null */
    const void *c_lse, /* real [n_queries, n_query_heads] or null */
    const void *q, const void *k, const void *v, const void *out, const void *lse,
    void *grad_q,      /* [n_queries, n_query_heads, d_k] or null */
    void *grad_k,      /* [n_keys, n_heads, d_k] or null */
    void *grad_v,      /* [n_keys, n_heads, d_v] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_jvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_jvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v,
    const void *t_q, /* [n_queries, n_query_heads, d_k] or null */
    const void *t_k, /* [n_keys, n_heads, d_k] or null */
    const void *t_v, /* [n_keys, n_heads, d_v] or null */
    void *t_out,     /* [n_queries, n_query_heads, d_v] */
    void *t_lse,     /* real [n_queries, n_query_heads] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_hvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_hvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *t_q,
    const void *t_k, const void *t_v, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_forward_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_forward_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, void *out, void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_vjp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_vjp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *out,
    const void *lse, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_jvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_jvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *t_q, const void *t_k, const void *t_v, void *t_out, void *t_lse,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_hvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_hvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *t_q,
    const void *t_k, const void *t_v, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_forward_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_forward_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, void *out, void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_vjp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_vjp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *out,
    const void *lse, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_jvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_jvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *t_q, const void *t_k, const void *t_v, void *t_out, void *t_lse,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_hvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_hvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *t_q,
    const void *t_k, const void *t_v, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_forward_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_forward_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, void *out, void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_vjp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_vjp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *out,
    const void *lse, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_jvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_jvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *t_q, const void *t_k, const void *t_v, void *t_out, void *t_lse,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compressed_attention_hvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_compressed_attention_hvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const void *c_out,
    const void *c_lse, const void *q, const void *k, const void *v, const void *t_q,
    const void *t_k, const void *t_v, void *grad_q, void *grad_k, void *grad_v, void *workspace,
    size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_forward_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_forward_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences,
    const int64_t *cu_q,     /* [n_sequences+1] or null */
    const int64_t *cu_k,     /* [n_sequences+1] or null */
    int64_t window, double scale, int causal, int64_t q_offset,
    const void *q,           /* [n_queries, n_query_heads, d_k] */
    const void *k,           /* [n_keys, n_heads, d_k] */
    const void *v,           /* [n_keys, n_heads, d_v] */
    const void *positions_q, /* real [n_queries, d] or null */
    const void *positions_k, /* real [n_keys, d] or null */
    const void *slope,       /* real [n_query_heads] or null */
    void *out,               /* [n_queries, n_query_heads, d_v] */
    void *lse,               /* real [n_queries, n_query_heads] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_vjp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_vjp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset,
    const void *cotangent,  /* [n_queries, n_query_heads, d_v] */
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *out, const void *lse,
    void *grad_q,           /* [n_queries, n_query_heads, d_k] or null */
    void *grad_k,           /* [n_keys, n_heads, d_k] or null */
    void *grad_v,           /* [n_keys, n_heads, d_v] or null */
    void *grad_positions_q, /* real [n_queries, d] or null */
    void *grad_positions_k, /* real [n_keys, d] or null */
    void *grad_slope,       /* real [n_query_heads] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_jvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_jvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope,
    const void *t_q,           /* [n_queries, n_query_heads, d_k] or null */
    const void *t_k,           /* [n_keys, n_heads, d_k] or null */
    const void *t_v,           /* [n_keys, n_heads, d_v] or null */
    const void *t_positions_q, /* real [n_queries, d] or null */
    const void *t_positions_k, /* real [n_keys, d] or null */
    const void *t_slope,       /* real [n_query_heads] or null */
    void *t_out,               /* [n_queries, n_query_heads, d_v] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_hvp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_hvp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_forward_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_forward_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope, void *out,
    void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_vjp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_vjp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *out, const void *lse, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_jvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_jvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope,
    const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_hvp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_hvp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_forward_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_forward_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope, void *out,
    void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_vjp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_vjp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *out, const void *lse, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_jvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_jvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope,
    const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_hvp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_hvp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_forward_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_forward_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope, void *out,
    void *lse, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_vjp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_vjp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *out, const void *lse, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_jvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_jvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *q, const void *k,
    const void *v, const void *positions_q, const void *positions_k, const void *slope,
    const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_window_attention_hvp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset);
GNOGRAD_CUDA_API int gnograd_cuda_window_attention_hvp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const void *cotangent,
    const void *q, const void *k, const void *v, const void *positions_q, const void *positions_k,
    const void *slope, const void *t_q, const void *t_k, const void *t_v, const void *t_positions_q,
    const void *t_positions_k, const void *t_slope, void *grad_q, void *grad_k, void *grad_v,
    void *grad_positions_q, void *grad_positions_k, void *grad_slope, void *workspace,
    size_t workspace_bytes, void *stream);

/* compress: out [n_compressed, n_heads, n_features], sum over i < block of w_i x_{c stride + i}, of
 * the tokens x [n_tokens, n_heads, n_features] of every sequence, borders cu [n_sequences+1] or
 * null, and weights w [block, n_heads]; n_compressed counts those of all sequences.
 * select_blocks: block_index [ceil(n_queries/query_block), n_heads, n_slots] from q, the compressed
 * keys k [n_compressed, n_heads, d_k] of n_keys tokens, whose borders are cu_k, and lse of
 * compressed_attention; at most 1024 slots. Rules and order are those of the CPU.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_compress_forward_workspace_bytes_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_forward_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences,
    const int64_t *cu, /* [n_sequences+1] or null */
    int64_t block, int64_t stride, int64_t n_compressed,
    const void *x,     /* [n_tokens, n_heads, n_features] */
    const void *w,     /* [block, n_heads] */
    void *out,         /* [n_compressed, n_heads, n_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_vjp_workspace_bytes_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_vjp_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed,
    const void *cotangent, /* [n_compressed, n_heads, n_features] */
    const void *x, const void *w,
    void *grad_x,          /* [n_tokens, n_heads, n_features] or null */
    void *grad_w,          /* [block, n_heads] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_jvp_workspace_bytes_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_jvp_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w,
    const void *t_x, /* [n_tokens, n_heads, n_features] or null */
    const void *t_w, /* [block, n_heads] or null */
    void *t_out,     /* [n_compressed, n_heads, n_features] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_hvp_workspace_bytes_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_hvp_f32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_forward_workspace_bytes_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_forward_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w, void *out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_vjp_workspace_bytes_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_vjp_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_jvp_workspace_bytes_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_jvp_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w,
    const void *t_x, const void *t_w, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_hvp_workspace_bytes_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_hvp_f64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_forward_workspace_bytes_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_forward_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w, void *out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_vjp_workspace_bytes_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_vjp_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_jvp_workspace_bytes_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_jvp_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w,
    const void *t_x, const void *t_w, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_hvp_workspace_bytes_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_hvp_f16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_forward_workspace_bytes_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_forward_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w, void *out,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_vjp_workspace_bytes_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_vjp_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, void *grad_x, void *grad_w, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_jvp_workspace_bytes_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_jvp_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *x, const void *w,
    const void *t_x, const void *t_w, void *t_out, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_compress_hvp_workspace_bytes_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed);
GNOGRAD_CUDA_API int gnograd_cuda_compress_hvp_bf16(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const void *cotangent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_select_blocks_forward_workspace_bytes_f32(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own);
GNOGRAD_CUDA_API int gnograd_cuda_select_blocks_forward_f32(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences,
    const int64_t *cu_q,  /* [n_sequences+1] or null */
    const int64_t *cu_k,  /* [n_sequences+1] or null */
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own,
    const void *q,        /* [n_queries, n_query_heads, d_k] */
    const void *k,        /* [n_compressed, n_heads, d_k] */
    const void *lse,      /* real [n_queries, n_query_heads] */
    int32_t *block_index, /* [(n_queries+query_block-1)//query_block, n_heads, n_slots] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_select_blocks_forward_workspace_bytes_f64(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own);
GNOGRAD_CUDA_API int gnograd_cuda_select_blocks_forward_f64(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own, const void *q,
    const void *k, const void *lse, int32_t *block_index, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_select_blocks_forward_workspace_bytes_f16(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own);
GNOGRAD_CUDA_API int gnograd_cuda_select_blocks_forward_f16(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own, const void *q,
    const void *k, const void *lse, int32_t *block_index, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_select_blocks_forward_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own);
GNOGRAD_CUDA_API int gnograd_cuda_select_blocks_forward_bf16(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own, const void *q,
    const void *k, const void *lse, int32_t *block_index, void *workspace, size_t workspace_bytes,
    void *stream);

/* nsa_selected_attention: selected_attention in the shape of Ascend's operator, whose limits
 * gnograd_nsa_selected_attention_get_workspace_size_r32 checks (it reads no array on a device).
 * topk_indices [n_queries, n_heads, select_block_count] is a multiset; sparse_mode 0 is no mask, 2
 * causal. lse = softmax_max + ln(softmax_sum), each real [n_queries, n_query_heads, 8], one value 8
 * times; -infinity and 0 where a query sees no key. cu_q and cu_k as above: with the leading 0.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_forward_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const int32_t *topk_indices, /* [n_queries, n_heads, select_block_count] */
    const int64_t *cu_q,         /* [n_sequences+1] or null */
    const int64_t *cu_k,         /* [n_sequences+1] or null */
    double scale_value, int64_t select_block_size, int64_t select_block_count, int sparse_mode,
    const void *query,           /* [n_queries, n_query_heads, d_k] */
    const void *key,             /* [n_keys, n_heads, d_k] */
    const void *value,           /* [n_keys, n_heads, d_v] */
    void *attention_out,         /* [n_queries, n_query_heads, d_v] */
    void *softmax_max,           /* [n_queries, n_query_heads, 8] */
    void *softmax_sum,           /* [n_queries, n_query_heads, 8] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_vjp_f32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *attention_out_grad, const void *query, const void *key,
    const void *value, const void *attention_out, const void *softmax_max, const void *softmax_sum,
    void *dq, void *dk, void *dv, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_forward_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *query, const void *key, const void *value, void *attention_out,
    void *softmax_max, void *softmax_sum, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_vjp_f64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *attention_out_grad, const void *query, const void *key,
    const void *value, const void *attention_out, const void *softmax_max, const void *softmax_sum,
    void *dq, void *dk, void *dv, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_forward_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *query, const void *key, const void *value, void *attention_out,
    void *softmax_max, void *softmax_sum, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_vjp_f16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *attention_out_grad, const void *query, const void *key,
    const void *value, const void *attention_out, const void *softmax_max, const void *softmax_sum,
    void *dq, void *dk, void *dv, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_forward_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_forward_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *query, const void *key, const void *value, void *attention_out,
    void *softmax_max, void *softmax_sum, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nsa_selected_attention_vjp_workspace_bytes_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode);
GNOGRAD_CUDA_API int gnograd_cuda_nsa_selected_attention_vjp_bf16(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int32_t *topk_indices, const int64_t *cu_q,
    const int64_t *cu_k, double scale_value, int64_t select_block_size, int64_t select_block_count,
    int sparse_mode, const void *attention_out_grad, const void *query, const void *key,
    const void *value, const void *attention_out, const void *softmax_max, const void *softmax_sum,
    void *dq, void *dk, void *dv, void *workspace, size_t workspace_bytes, void *stream);

/* faults[0]: the first query that names a block which its sequence does not have; faults[1]: the
 * first that names a block twice; -1 where there is none. */

GNOGRAD_CUDA_API size_t gnograd_cuda_selected_attention_check_workspace_bytes_i32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates);
GNOGRAD_CUDA_API int gnograd_cuda_selected_attention_check_i32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates,
    int64_t *faults, /* [2] */
    void *workspace, size_t workspace_bytes, void *stream);

/* ---- DimeNet++ ----
 *
 * radial_basis: for 0 < x < 1
 *     rbf[e, n] = u(x) sin(w_n x)/x,   sbf[e, l*n_radial + n] = u(x) N_ln j_l(z_ln x)/x
 * else 0, as in gnograd.h; computed in float64 for every type.
 * x [n_edges], w [n_radial], rbf [n_edges, n_radial], sbf [n_edges, n_spherical*n_radial].
 * n_spherical <= 10, n_radial <= 16, exponent 1 to 100.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_forward_workspace_bytes_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_forward_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent,
    const void *x, /* [n_edges, 1] */
    const void *w, /* [n_radial] */
    void *rbf,     /* [n_edges, n_radial] */
    void *sbf,     /* [n_edges, n_spherical*n_radial] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_vjp_workspace_bytes_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_vjp_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent,
    const void *c_rbf, /* [n_edges, n_radial] or null */
    const void *c_sbf, /* [n_edges, n_spherical*n_radial] or null */
    const void *x, const void *w,
    void *grad_x,      /* [n_edges, 1] or null */
    void *grad_w,      /* [n_radial] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_jvp_workspace_bytes_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_jvp_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w,
    const void *t_x, /* [n_edges, 1] or null */
    const void *t_w, /* [n_radial] or null */
    void *t_rbf,     /* [n_edges, n_radial] */
    void *t_sbf,     /* [n_edges, n_spherical*n_radial] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_hvp_workspace_bytes_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_hvp_f32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x,
    void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_forward_workspace_bytes_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_forward_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, void *rbf, void *sbf, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_vjp_workspace_bytes_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_vjp_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_jvp_workspace_bytes_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_jvp_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_rbf, void *t_sbf, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_hvp_workspace_bytes_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_hvp_f64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x,
    void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_forward_workspace_bytes_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_forward_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, void *rbf, void *sbf, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_vjp_workspace_bytes_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_vjp_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_jvp_workspace_bytes_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_jvp_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_rbf, void *t_sbf, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_hvp_workspace_bytes_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_hvp_f16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x,
    void *grad_w, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_forward_workspace_bytes_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_forward_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, void *rbf, void *sbf, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_vjp_workspace_bytes_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_vjp_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, void *grad_x, void *grad_w, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_jvp_workspace_bytes_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_jvp_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *x,
    const void *w, const void *t_x, const void *t_w, void *t_rbf, void *t_sbf, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_radial_basis_hvp_workspace_bytes_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent);
GNOGRAD_CUDA_API int gnograd_cuda_radial_basis_hvp_bf16(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const void *c_rbf,
    const void *c_sbf, const void *x, const void *w, const void *t_x, const void *t_w, void *grad_x,
    void *grad_w, void *workspace, size_t workspace_bytes, void *stream);

/* agg_edge_to_edge: out[e] = sum over the edges e' = (k -> j) that end where e = (j -> i) starts of
 * embedding[e'] o W2 . (W1^T (rbf[e'] o Y)), as in gnograd.h; the graph's sources and destinations
 * are the same nodes.
 * vector [n_edges, 3], rbf [n_edges, n_spherical*n_radial], embedding, out [n_edges, n_emb],
 * weights = [W1; W2] [n_spherical*n_radial + n_emb, n_mid].
 * n_spherical <= 10, n_radial <= 16, n_mid <= 64, n_emb <= 512.
 * exclude: 0 leaves out e' where it is e walked backwards, 1 every e' with k = i, 2 none.
 * Sums are plain FMAs in `real`.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude,
    const void *vector,    /* [n_edges, 3] */
    const void *rbf,       /* [n_edges, n_spherical*n_radial] */
    const void *embedding, /* [n_edges, n_emb] */
    const void *weights,   /* [n_spherical*n_radial+n_emb, n_mid] */
    void *out,             /* [n_edges, n_emb] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude,
    const void *cotangent, /* [n_edges, n_emb] */
    const void *vector, const void *rbf, const void *embedding, const void *weights,
    void *grad_vector,     /* [n_edges, 3] or null */
    void *grad_rbf,        /* [n_edges, n_spherical*n_radial] or null */
    void *grad_embedding,  /* [n_edges, n_emb] or null */
    void *grad_weights,    /* [n_spherical*n_radial+n_emb, n_mid] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights,
    const void *t_vector,    /* [n_edges, 3] or null */
    const void *t_rbf,       /* [n_edges, n_spherical*n_radial] or null */
    const void *t_embedding, /* [n_edges, n_emb] or null */
    const void *t_weights,   /* [n_spherical*n_radial+n_emb, n_mid] or null */
    void *t_out,             /* [n_edges, n_emb] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, const void *t_vector, const void *t_rbf,
    const void *t_embedding, const void *t_weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, const void *t_vector, const void *t_rbf, const void *t_embedding,
    const void *t_weights, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, const void *t_vector, const void *t_rbf,
    const void *t_embedding, const void *t_weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_forward_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_vjp_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_jvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, const void *t_vector, const void *t_rbf, const void *t_embedding,
    const void *t_weights, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_hvp_f16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, const void *t_vector, const void *t_rbf,
    const void *t_embedding, const void *t_weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *vector, const void *rbf, const void *embedding,
    const void *weights, const void *t_vector, const void *t_rbf, const void *t_embedding,
    const void *t_weights, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_agg_edge_to_edge_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude);
GNOGRAD_CUDA_API int gnograd_cuda_agg_edge_to_edge_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid,
    int64_t n_emb, int exclude, const void *cotangent, const void *vector, const void *rbf,
    const void *embedding, const void *weights, const void *t_vector, const void *t_rbf,
    const void *t_embedding, const void *t_weights, void *grad_vector, void *grad_rbf,
    void *grad_embedding, void *grad_weights, void *workspace, size_t workspace_bytes,
    void *stream);

/* ---- graph neural operators, for f32, f64 and bf16 ----
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
 * kernel: full 0, diagonal 1. The order of arguments is that of gnograd.h. In bf16 coords and
 * edge_weight are float32, with their tangents and gradients; other sums than those that are results
 * are rounded to bf16 before they are multiplied with the last layer, and sums are float32.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel,
    const void *h,           /* [n_batch, n_src, f_in] or null */
    const void *coords,      /* real [n_edges, d] */
    const void *u,           /* [d, n_hidden] */
    const void *b_u,         /* [n_hidden] */
    const void *v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] */
    const void *b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const void *edge_weight, /* real [n_edges] or null */
    void *out,               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel,
    const void *cotangent,  /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    const void *h, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, const void *edge_weight,
    void *grad_h,           /* [n_batch, n_src, f_in] or null */
    void *grad_coords,      /* real [n_edges, d] or null */
    void *grad_u,           /* [d, n_hidden] or null */
    void *grad_b_u,         /* [n_hidden] or null */
    void *grad_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    void *grad_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    void *grad_edge_weight, /* real [n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *h, const void *coords,
    const void *u, const void *b_u, const void *v, const void *b_v, const void *edge_weight,
    const void *t_h,           /* [n_batch, n_src, f_in] or null */
    const void *t_coords,      /* real [n_edges, d] or null */
    const void *t_u,           /* [d, n_hidden] or null */
    const void *t_b_u,         /* [n_hidden] or null */
    const void *t_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    const void *t_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const void *t_edge_weight, /* real [n_edges] or null */
    void *t_out,               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *cotangent, const void *h,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *edge_weight, const void *t_h, const void *t_coords, const void *t_u,
    const void *t_b_u, const void *t_v, const void *t_b_v, const void *t_edge_weight, void *grad_h,
    void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,
    void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *h, const void *coords,
    const void *u, const void *b_u, const void *v, const void *b_v, const void *edge_weight,
    void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *cotangent, const void *h,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *edge_weight, void *grad_h, void *grad_coords, void *grad_u, void *grad_b_u,
    void *grad_v, void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *h, const void *coords,
    const void *u, const void *b_u, const void *v, const void *b_v, const void *edge_weight,
    const void *t_h, const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v,
    const void *t_b_v, const void *t_edge_weight, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *cotangent, const void *h,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *edge_weight, const void *t_h, const void *t_coords, const void *t_u,
    const void *t_b_u, const void *t_v, const void *t_b_v, const void *t_edge_weight, void *grad_h,
    void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,
    void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *h, const void *coords,
    const void *u, const void *b_u, const void *v, const void *b_v, const void *edge_weight,
    void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *cotangent, const void *h,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *edge_weight, void *grad_h, void *grad_coords, void *grad_u, void *grad_b_u,
    void *grad_v, void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *h, const void *coords,
    const void *u, const void *b_u, const void *v, const void *b_v, const void *edge_weight,
    const void *t_h, const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v,
    const void *t_b_v, const void *t_edge_weight, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const void *cotangent, const void *h,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *edge_weight, const void *t_h, const void *t_coords, const void *t_u,
    const void *t_b_u, const void *t_v, const void *t_b_v, const void *t_edge_weight, void *grad_h,
    void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,
    void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel,
    const void *h,           /* [n_batch, n_src, f_in] or null */
    const void *hid,         /* [n_edges, n_hidden] */
    const void *v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] */
    const void *b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const void *edge_weight, /* real [n_edges] or null */
    void *out,               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel,
    const void *cotangent,  /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    const void *h, const void *hid, const void *v, const void *b_v, const void *edge_weight,
    void *grad_h,           /* [n_batch, n_src, f_in] or null */
    void *grad_hid,         /* [n_edges, n_hidden] or null */
    void *grad_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    void *grad_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    void *grad_edge_weight, /* real [n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *h, const void *hid, const void *v, const void *b_v,
    const void *edge_weight,
    const void *t_h,           /* [n_batch, n_src, f_in] or null */
    const void *t_hid,         /* [n_edges, n_hidden] or null */
    const void *t_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    const void *t_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const void *t_edge_weight, /* real [n_edges] or null */
    void *t_out,               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *cotangent, const void *h, const void *hid, const void *v,
    const void *b_v, const void *edge_weight, const void *t_h, const void *t_hid, const void *t_v,
    const void *t_b_v, const void *t_edge_weight, void *grad_h, void *grad_hid, void *grad_v,
    void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *h, const void *hid, const void *v, const void *b_v,
    const void *edge_weight, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *cotangent, const void *h, const void *hid, const void *v,
    const void *b_v, const void *edge_weight, void *grad_h, void *grad_hid, void *grad_v,
    void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *h, const void *hid, const void *v, const void *b_v,
    const void *edge_weight, const void *t_h, const void *t_hid, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *cotangent, const void *h, const void *hid, const void *v,
    const void *b_v, const void *edge_weight, const void *t_h, const void *t_hid, const void *t_v,
    const void *t_b_v, const void *t_edge_weight, void *grad_h, void *grad_hid, void *grad_v,
    void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *h, const void *hid, const void *v, const void *b_v,
    const void *edge_weight, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *cotangent, const void *h, const void *hid, const void *v,
    const void *b_v, const void *edge_weight, void *grad_h, void *grad_hid, void *grad_v,
    void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *h, const void *hid, const void *v, const void *b_v,
    const void *edge_weight, const void *t_h, const void *t_hid, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, void *t_out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_contract_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_contract_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const void *cotangent, const void *h, const void *hid, const void *v,
    const void *b_v, const void *edge_weight, const void *t_h, const void *t_hid, const void *t_v,
    const void *t_b_v, const void *t_edge_weight, void *grad_h, void *grad_hid, void *grad_v,
    void *grad_b_v, void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_forward_workspace_bytes_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_forward_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, /* real [n_edges, d] */
    const void *u,      /* [d, n_hidden] */
    const void *b_u,    /* [n_hidden] */
    const void *v,      /* [n_hidden, f_in, f_out] */
    const void *b_v,    /* [f_in, f_out] */
    void *kappa,        /* [n_edges, f_in, f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_vjp_workspace_bytes_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_vjp_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, /* [n_edges, f_in, f_out] */
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    void *grad_coords,     /* real [n_edges, d] or null */
    void *grad_u,          /* [d, n_hidden] or null */
    void *grad_b_u,        /* [n_hidden] or null */
    void *grad_v,          /* [n_hidden, f_in, f_out] or null */
    void *grad_b_v,        /* [f_in, f_out] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_jvp_workspace_bytes_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_jvp_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *t_coords, /* real [n_edges, d] or null */
    const void *t_u,      /* [d, n_hidden] or null */
    const void *t_b_u,    /* [n_hidden] or null */
    const void *t_v,      /* [n_hidden, f_in, f_out] or null */
    const void *t_b_v,    /* [f_in, f_out] or null */
    void *t_kappa,        /* [n_edges, f_in, f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_hvp_workspace_bytes_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_hvp_f32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v,
    const void *t_b_v, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v,
    void *grad_b_v, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_forward_workspace_bytes_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_forward_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v, void *kappa,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_vjp_workspace_bytes_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_vjp_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_jvp_workspace_bytes_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_jvp_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v, const void *t_b_v,
    void *t_kappa, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_hvp_workspace_bytes_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_hvp_f64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v,
    const void *t_b_v, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v,
    void *grad_b_v, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_forward_workspace_bytes_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_forward_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v, void *kappa,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_vjp_workspace_bytes_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_vjp_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v, void *grad_b_v,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_jvp_workspace_bytes_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_jvp_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *coords, const void *u, const void *b_u, const void *v, const void *b_v,
    const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v, const void *t_b_v,
    void *t_kappa, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_kernel_hvp_workspace_bytes_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation);
GNOGRAD_CUDA_API int gnograd_cuda_gno_kernel_hvp_bf16(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const void *cotangent, const void *coords, const void *u, const void *b_u, const void *v,
    const void *b_v, const void *t_coords, const void *t_u, const void *t_b_u, const void *t_v,
    const void *t_b_v, void *grad_coords, void *grad_u, void *grad_b_u, void *grad_v,
    void *grad_b_v, void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_forward_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *h,     /* [n_src, f_in] */
    const void *kappa, /* [n_edges, f_in, f_out] */
    void *out,         /* [n_dst, f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, /* [n_dst, f_out] */
    const void *h, const void *kappa,
    void *grad_h,          /* [n_src, f_in] or null */
    void *grad_kappa,      /* [n_edges, f_in, f_out] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction, const void *h,
    const void *kappa,
    const void *t_h,     /* [n_src, f_in] or null */
    const void *t_kappa, /* [n_edges, f_in, f_out] or null */
    void *t_out,         /* [n_dst, f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, const void *h, const void *kappa, const void *t_h, const void *t_kappa,
    void *grad_h, void *grad_kappa, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_forward_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction, const void *h,
    const void *kappa, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, const void *h, const void *kappa, void *grad_h, void *grad_kappa,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction, const void *h,
    const void *kappa, const void *t_h, const void *t_kappa, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, const void *h, const void *kappa, const void *t_h, const void *t_kappa,
    void *grad_h, void *grad_kappa, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_forward_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_forward_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction, const void *h,
    const void *kappa, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_vjp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_vjp_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, const void *h, const void *kappa, void *grad_h, void *grad_kappa,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_jvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_jvp_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction, const void *h,
    const void *kappa, const void *t_h, const void *t_kappa, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_aggregate_hvp_workspace_bytes_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_aggregate_hvp_bf16(
    const gnograd_cuda_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const void *cotangent, const void *h, const void *kappa, const void *t_h, const void *t_kappa,
    void *grad_h, void *grad_kappa, void *workspace, size_t workspace_bytes, void *stream);

/* ---- gno_with_gradient, gno_with_laplacian, gno_with_hessian, for f32 and f64 ----
 *
 * The sum of gno with its derivatives by the positions x_i of the destinations, as in gnograd.h:
 * out [n_dst, f_out], gradient [n_dst, d, f_out], laplacian [n_dst, f_out],
 * hessian [n_dst, d, d, f_out]; of several cotangents c_* some may be null.
 * x [n_dst, d], y [n_src, d], layers [U_1 | b_1 | U_2 | b_2 | ...]; widths [n_layers], of the hidden
 * layers, is host memory, and is read during the call only. weight_derivatives [n_edges, d] for the
 * gradient, [n_edges, d+1] for the Laplacian, [n_edges, d+d(d+1)/2] for the Hessian; or null: 0.
 * geometry: x_i - y_j 0, [x_i, y_j] 1; other arrays and codes as for gno.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,          /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const void *h,                  /* [n_batch, n_src, f_in] or null */
    const void *x,                  /* [n_dst, d] */
    const void *y,                  /* [n_src, d] */
    const void *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const void *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const void *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const void *edge_weight,        /* [n_edges] or null */
    const void *weight_derivatives, /* [n_edges, d] or null */
    void *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const void *c_out,             /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const void *c_gradient,        /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const void *h, const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives,
    void *grad_h,                  /* [n_batch, n_src, f_in] or null */
    void *grad_x,                  /* [n_dst, d] or null */
    void *grad_y,                  /* [n_src, d] or null */
    void *grad_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    void *grad_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    void *grad_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    void *grad_edge_weight,        /* [n_edges] or null */
    void *grad_weight_derivatives, /* [n_edges, d] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives,
    const void *t_h,                  /* [n_batch, n_src, f_in] or null */
    const void *t_x,                  /* [n_dst, d] or null */
    const void *t_y,                  /* [n_src, d] or null */
    const void *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const void *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const void *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const void *t_edge_weight,        /* [n_edges] or null */
    const void *t_weight_derivatives, /* [n_edges, d] or null */
    void *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *t_gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *h, const void *x,
    const void *y, const void *layers, const void *v, const void *b_v, const void *edge_weight,
    const void *weight_derivatives, const void *t_h, const void *t_x, const void *t_y,
    const void *t_layers, const void *t_v, const void *t_b_v, const void *t_edge_weight,
    const void *t_weight_derivatives, void *grad_h, void *grad_x, void *grad_y, void *grad_layers,
    void *grad_v, void *grad_b_v, void *grad_edge_weight, void *grad_weight_derivatives,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, void *out,
    void *gradient, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *h, const void *x,
    const void *y, const void *layers, const void *v, const void *b_v, const void *edge_weight,
    const void *weight_derivatives, void *grad_h, void *grad_x, void *grad_y, void *grad_layers,
    void *grad_v, void *grad_b_v, void *grad_edge_weight, void *grad_weight_derivatives,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, const void *t_h,
    const void *t_x, const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *t_out, void *t_gradient,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_gradient_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_gradient_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *h, const void *x,
    const void *y, const void *layers, const void *v, const void *b_v, const void *edge_weight,
    const void *weight_derivatives, const void *t_h, const void *t_x, const void *t_y,
    const void *t_layers, const void *t_v, const void *t_b_v, const void *t_edge_weight,
    const void *t_weight_derivatives, void *grad_h, void *grad_x, void *grad_y, void *grad_layers,
    void *grad_v, void *grad_b_v, void *grad_edge_weight, void *grad_weight_derivatives,
    void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,          /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const void *h,                  /* [n_batch, n_src, f_in] or null */
    const void *x,                  /* [n_dst, d] */
    const void *y,                  /* [n_src, d] */
    const void *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const void *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const void *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const void *edge_weight,        /* [n_edges] or null */
    const void *weight_derivatives, /* [n_edges, d+1] or null */
    void *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *laplacian,                /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const void *c_out,             /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const void *c_gradient,        /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const void *c_laplacian,       /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const void *h, const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives,
    void *grad_h,                  /* [n_batch, n_src, f_in] or null */
    void *grad_x,                  /* [n_dst, d] or null */
    void *grad_y,                  /* [n_src, d] or null */
    void *grad_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    void *grad_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    void *grad_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    void *grad_edge_weight,        /* [n_edges] or null */
    void *grad_weight_derivatives, /* [n_edges, d+1] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives,
    const void *t_h,                  /* [n_batch, n_src, f_in] or null */
    const void *t_x,                  /* [n_dst, d] or null */
    const void *t_y,                  /* [n_src, d] or null */
    const void *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const void *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const void *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const void *t_edge_weight,        /* [n_edges] or null */
    const void *t_weight_derivatives, /* [n_edges, d+1] or null */
    void *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *t_gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *t_laplacian,                /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_laplacian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, const void *t_h, const void *t_x,
    const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, void *out,
    void *gradient, void *laplacian, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_laplacian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, const void *t_h,
    const void *t_x, const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *t_out, void *t_gradient,
    void *t_laplacian, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_laplacian_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_laplacian_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_laplacian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, const void *t_h, const void *t_x,
    const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,          /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const void *h,                  /* [n_batch, n_src, f_in] or null */
    const void *x,                  /* [n_dst, d] */
    const void *y,                  /* [n_src, d] */
    const void *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const void *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const void *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const void *edge_weight,        /* [n_edges] or null */
    const void *weight_derivatives, /* [n_edges, d+d*(d+1)//2] or null */
    void *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *hessian,                  /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const void *c_out,             /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const void *c_gradient,        /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const void *c_hessian,         /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] or null */
    const void *h, const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives,
    void *grad_h,                  /* [n_batch, n_src, f_in] or null */
    void *grad_x,                  /* [n_dst, d] or null */
    void *grad_y,                  /* [n_src, d] or null */
    void *grad_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    void *grad_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    void *grad_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    void *grad_edge_weight,        /* [n_edges] or null */
    void *grad_weight_derivatives, /* [n_edges, d+d*(d+1)//2] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives,
    const void *t_h,                  /* [n_batch, n_src, f_in] or null */
    const void *t_x,                  /* [n_dst, d] or null */
    const void *t_y,                  /* [n_src, d] or null */
    const void *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const void *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const void *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const void *t_edge_weight,        /* [n_edges] or null */
    const void *t_weight_derivatives, /* [n_edges, d+d*(d+1)//2] or null */
    void *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    void *t_gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    void *t_hessian,                  /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_hessian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, const void *t_h, const void *t_x,
    const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, void *out,
    void *gradient, void *hessian, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_hessian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *h, const void *x, const void *y, const void *layers, const void *v,
    const void *b_v, const void *edge_weight, const void *weight_derivatives, const void *t_h,
    const void *t_x, const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *t_out, void *t_gradient,
    void *t_hessian, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_with_hessian_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel);
GNOGRAD_CUDA_API int gnograd_cuda_gno_with_hessian_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const void *c_out, const void *c_gradient, const void *c_hessian, const void *h,
    const void *x, const void *y, const void *layers, const void *v, const void *b_v,
    const void *edge_weight, const void *weight_derivatives, const void *t_h, const void *t_x,
    const void *t_y, const void *t_layers, const void *t_v, const void *t_b_v,
    const void *t_edge_weight, const void *t_weight_derivatives, void *grad_h, void *grad_x,
    void *grad_y, void *grad_layers, void *grad_v, void *grad_b_v, void *grad_edge_weight,
    void *grad_weight_derivatives, void *workspace, size_t workspace_bytes, void *stream);

/* ---- gno_deep, for f32 and f64 ----
 *
 * The diagonal sum with a kernel network of several layers, as in gnograd.h:
 * k_e = act(... act([y_j, x_i, c_e] U_1 + b_1) ...) U_n + b_n, out_i = sum or mean of w_e k_e * h_j.
 * h [n_src, n_batch*f_out] or null: ones, and n_batch 0; y [n_src, d_y], x [n_dst, d_x],
 * c [n_edges, d_c], of which one without columns may be null; out [n_dst, max(n_batch, 1)*f_out].
 * widths [n_layers] is host memory, and is read during the call only; layers and codes as above, the
 * first layer has n_in = d_y + d_x + d_c rows.
 * Workspace: the layers of at most 65,536 edges within 128 MiB, or of 32 edges; and n_src and n_dst
 * times widths[0] numbers where y and x have columns, twice that in vjp; all twice with tangents.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_forward_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers,
    const int64_t *widths,   /* [n_layers] */
    int activation, int reduction,
    const void *h,           /* [n_src, n_functions*f_out] or null */
    const void *y,           /* [n_src, d_y] or null */
    const void *x,           /* [n_dst, d_x] or null */
    const void *c,           /* [n_edges, d_c] or null */
    const void *layers,      /* [(n_in+1)*first_width+deeper_layers] */
    const void *edge_weight, /* [n_edges] or null */
    void *out,               /* [n_dst, max(n_functions,1)*f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *cotangent,  /* [n_dst, max(n_functions,1)*f_out] */
    const void *h, const void *y, const void *x, const void *c, const void *layers,
    const void *edge_weight,
    void *grad_h,           /* [n_src, n_functions*f_out] or null */
    void *grad_y,           /* [n_src, d_y] or null */
    void *grad_x,           /* [n_dst, d_x] or null */
    void *grad_c,           /* [n_edges, d_c] or null */
    void *grad_layers,      /* [(n_in+1)*first_width+deeper_layers] or null */
    void *grad_edge_weight, /* [n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *h, const void *y, const void *x, const void *c, const void *layers,
    const void *edge_weight,
    const void *t_h,           /* [n_src, n_functions*f_out] or null */
    const void *t_y,           /* [n_src, d_y] or null */
    const void *t_x,           /* [n_dst, d_x] or null */
    const void *t_c,           /* [n_edges, d_c] or null */
    const void *t_layers,      /* [(n_in+1)*first_width+deeper_layers] or null */
    const void *t_edge_weight, /* [n_edges] or null */
    void *t_out,               /* [n_dst, max(n_functions,1)*f_out] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *cotangent, const void *h, const void *y, const void *x, const void *c,
    const void *layers, const void *edge_weight, const void *t_h, const void *t_y, const void *t_x,
    const void *t_c, const void *t_layers, const void *t_edge_weight, void *grad_h, void *grad_y,
    void *grad_x, void *grad_c, void *grad_layers, void *grad_edge_weight, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_forward_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *h, const void *y, const void *x, const void *c, const void *layers,
    const void *edge_weight, void *out, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *cotangent, const void *h, const void *y, const void *x, const void *c,
    const void *layers, const void *edge_weight, void *grad_h, void *grad_y, void *grad_x,
    void *grad_c, void *grad_layers, void *grad_edge_weight, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *h, const void *y, const void *x, const void *c, const void *layers,
    const void *edge_weight, const void *t_h, const void *t_y, const void *t_x, const void *t_c,
    const void *t_layers, const void *t_edge_weight, void *t_out, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_gno_deep_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction);
GNOGRAD_CUDA_API int gnograd_cuda_gno_deep_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const void *cotangent, const void *h, const void *y, const void *x, const void *c,
    const void *layers, const void *edge_weight, const void *t_h, const void *t_y, const void *t_x,
    const void *t_c, const void *t_layers, const void *t_edge_weight, void *grad_h, void *grad_y,
    void *grad_x, void *grad_c, void *grad_layers, void *grad_edge_weight, void *workspace,
    size_t workspace_bytes, void *stream);

/* ---- edge_mlp, for f32 and f64 ----
 *
 * A network on the edges p = (j -> i), and the sum or mean of edge_weight_p edges_p at their
 * destinations, as in gnograd.h: edges [n_edges, f_out], nodes [n_dst, f_out]; a result that is not
 * asked for, by `outputs`, is a null pointer, and so is its cotangent.
 * e [n_edges, f_e], x_src [n_src, f_s], x_dst [n_dst, f_d], of which one without columns may be
 * null; edge_weight [n_edges] or null: 1. widths, weights and codes as in gnograd.h, where widths is
 * host memory, and is read during the call only.
 * Workspace: as for gno_deep, with x_src and x_dst for y and x; with a mean a number a destination,
 * and in vjp and hvp a number an edge; both twice with tangents.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_forward_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_forward_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers,
    const int64_t *widths,   /* [n_layers] */
    int activation, int layer_norm, int residual, int reduction, int outputs,
    const void *e,           /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    const void *x_src,       /* [n_src, f_s] or null */
    const void *x_dst,       /* [n_dst, f_d] or null */
    const void *weights,     /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] */
    const void *edge_weight, /* [n_edges] or null */
    void *edges,             /* [n_edges, f_out]; outputs=nodes: null */
    void *nodes,             /* [n_dst, f_out]; outputs=edges: null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_vjp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_vjp_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs,
    const void *c_edges,    /* [n_edges, f_out] or null */
    const void *c_nodes,    /* [n_dst, f_out] or null */
    const void *e, const void *x_src, const void *x_dst, const void *weights,
    const void *edge_weight,
    void *grad_e,           /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    void *grad_x_src,       /* [n_src, f_s] or null */
    void *grad_x_dst,       /* [n_dst, f_d] or null */
    void *grad_weights,     /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] or null */
    void *grad_edge_weight, /* [n_edges] or null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_jvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_jvp_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *e, const void *x_src, const void *x_dst,
    const void *weights, const void *edge_weight,
    const void *t_e,           /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    const void *t_x_src,       /* [n_src, f_s] or null */
    const void *t_x_dst,       /* [n_dst, f_d] or null */
    const void *t_weights,     /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] or null */
    const void *t_edge_weight, /* [n_edges] or null */
    void *t_edges,             /* [n_edges, f_out]; outputs=nodes: null */
    void *t_nodes,             /* [n_dst, f_out]; outputs=edges: null */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_hvp_workspace_bytes_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_hvp_f32(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *c_edges, const void *c_nodes, const void *e,
    const void *x_src, const void *x_dst, const void *weights, const void *edge_weight,
    const void *t_e, const void *t_x_src, const void *t_x_dst, const void *t_weights,
    const void *t_edge_weight, void *grad_e, void *grad_x_src, void *grad_x_dst, void *grad_weights,
    void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_forward_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_forward_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *e, const void *x_src, const void *x_dst,
    const void *weights, const void *edge_weight, void *edges, void *nodes, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_vjp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_vjp_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *c_edges, const void *c_nodes, const void *e,
    const void *x_src, const void *x_dst, const void *weights, const void *edge_weight,
    void *grad_e, void *grad_x_src, void *grad_x_dst, void *grad_weights, void *grad_edge_weight,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_jvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_jvp_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *e, const void *x_src, const void *x_dst,
    const void *weights, const void *edge_weight, const void *t_e, const void *t_x_src,
    const void *t_x_dst, const void *t_weights, const void *t_edge_weight, void *t_edges,
    void *t_nodes, void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_edge_mlp_hvp_workspace_bytes_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs);
GNOGRAD_CUDA_API int gnograd_cuda_edge_mlp_hvp_f64(
    const gnograd_cuda_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const void *c_edges, const void *c_nodes, const void *e,
    const void *x_src, const void *x_dst, const void *weights, const void *edge_weight,
    const void *t_e, const void *t_x_src, const void *t_x_dst, const void *t_weights,
    const void *t_edge_weight, void *grad_e, void *grad_x_src, void *grad_x_dst, void *grad_weights,
    void *grad_edge_weight, void *workspace, size_t workspace_bytes, void *stream);

/* ---- near points, for coordinates in f32 and f64 ----
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
 * max_neighbors: of a destination with more of them, those with the smallest hashes of (seed, i, j)
 * are written, i the destination and j the source: number j of the sequence that SplitMix64 makes of
 * number i of that of the seed. n_src where there are to be all.
 * offsets [n_dst+1]; its last entry is the number of neighbours, or -1 where a source is not finite,
 * or -2 where a destination is not. indices [offsets[n_dst]].
 * Kept between the two: positions [n_src, d], order [n_src], starts [n_buckets+1], grid [2], and
 * found [n_dst, room], the rows that are no longer than `room`: longer ones are searched again.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_neighbors_count_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room);
GNOGRAD_CUDA_API int gnograd_cuda_neighbors_count_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room,
    const void *sources,              /* [n_src, d] */
    const void *destinations,         /* [n_dst, d] */
    const int64_t *source_items,      /* [n_items+1] or null */
    const int64_t *destination_items, /* [n_items+1] or null */
    double *positions,                /* [n_src, d] */
    int32_t *order,                   /* [n_src] */
    int32_t *starts,                  /* [n_buckets+1] */
    double *grid,                     /* [2] */
    int32_t *found,                   /* [n_dst, room] */
    int64_t *offsets,                 /* [n_dst+1] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbors_fill_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room);
GNOGRAD_CUDA_API int gnograd_cuda_neighbors_fill_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room, const void *destinations, const int64_t *source_items,
    const int64_t *destination_items, const double *positions, const int32_t *order,
    const int32_t *starts, const double *grid, const int32_t *found, const int64_t *offsets,
    int32_t *indices, /* [offsets[n_dst]] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbors_count_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room);
GNOGRAD_CUDA_API int gnograd_cuda_neighbors_count_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room, const void *sources, const void *destinations,
    const int64_t *source_items, const int64_t *destination_items, double *positions,
    int32_t *order, int32_t *starts, double *grid, int32_t *found, int64_t *offsets,
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbors_fill_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room);
GNOGRAD_CUDA_API int gnograd_cuda_neighbors_fill_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t n_buckets, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int64_t max_neighbors,
    int64_t seed, int64_t room, const void *destinations, const int64_t *source_items,
    const int64_t *destination_items, const double *positions, const int32_t *order,
    const int32_t *starts, const double *grid, const int32_t *found, const int64_t *offsets,
    int32_t *indices, void *workspace, size_t workspace_bytes, void *stream);

/* Neighbours within a smaller radius, among those that were found and in their order:
 * nearer_neighbors_count, which leaves a bit for each in `marks`, then nearer_neighbors_fill. */

GNOGRAD_CUDA_API size_t gnograd_cuda_nearer_neighbors_count_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z);
GNOGRAD_CUDA_API int gnograd_cuda_nearer_neighbors_count_f32(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z,
    const void *sources,      /* [n_src, d] */
    const void *destinations, /* [n_dst, d] */
    const int64_t *offsets,   /* [n_dst+1] */
    const int32_t *indices,   /* [offsets[n_dst]] */
    int64_t *kept_offsets,    /* [n_dst+1] */
    int32_t *marks,           /* [offsets[n_dst]/32 + n_dst] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z);
GNOGRAD_CUDA_API int gnograd_cuda_nearer_neighbors_fill_f32(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z, const int64_t *offsets, const int32_t *indices, const int64_t *kept_offsets,
    const int32_t *marks,
    int32_t *kept, /* [kept_offsets[n_dst]] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearer_neighbors_count_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z);
GNOGRAD_CUDA_API int gnograd_cuda_nearer_neighbors_count_f64(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z, const void *sources, const void *destinations, const int64_t *offsets,
    const int32_t *indices, int64_t *kept_offsets, int32_t *marks, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearer_neighbors_fill_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z);
GNOGRAD_CUDA_API int gnograd_cuda_nearer_neighbors_fill_f64(
    int64_t n_src, int64_t n_dst, int64_t d, double radius, double period_x, double period_y,
    double period_z, const int64_t *offsets, const int32_t *indices, const int64_t *kept_offsets,
    const int32_t *marks, int32_t *kept, void *workspace, size_t workspace_bytes, void *stream);

/* nearest_neighbors_find has the k nearest sources of every destination, at most radius away, which
 * may be infinite; of those at the same distance the ones with the lowest numbers. Distances, items,
 * exclude_self and offsets as above. found [n_dst, k], the nearest first.
 * nearest_neighbors_fill writes those that there are, one row behind the other, ascending if wanted.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_nearest_neighbors_find_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending);
GNOGRAD_CUDA_API int gnograd_cuda_nearest_neighbors_find_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending,
    const void *sources,              /* [n_src, d] */
    const void *destinations,         /* [n_dst, d] */
    const int64_t *source_items,      /* [n_items+1] or null */
    const int64_t *destination_items, /* [n_items+1] or null */
    int32_t *found,                   /* [n_dst, k] */
    int64_t *offsets,                 /* [n_dst+1] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending);
GNOGRAD_CUDA_API int gnograd_cuda_nearest_neighbors_fill_f32(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending,
    const int32_t *found, const int64_t *offsets,
    int32_t *indices, /* [offsets[n_dst]] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearest_neighbors_find_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending);
GNOGRAD_CUDA_API int gnograd_cuda_nearest_neighbors_find_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending,
    const void *sources, const void *destinations, const int64_t *source_items,
    const int64_t *destination_items, int32_t *found, int64_t *offsets, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_nearest_neighbors_fill_workspace_bytes_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending);
GNOGRAD_CUDA_API int gnograd_cuda_nearest_neighbors_fill_f64(
    int64_t n_src, int64_t n_dst, int64_t d, int64_t n_items, int64_t k, double radius,
    double period_x, double period_y, double period_z, int exclude_self, int ascending,
    const int32_t *found, const int64_t *offsets, int32_t *indices, void *workspace,
    size_t workspace_bytes, void *stream);

/* All periodic images of points [n, d] within a radius, in a cell of any shape. lattice: the vectors
 * of the cell [d, d], zeros along those that are not periodic; [d, d] by which coordinates are
 * multiplied for how many cells away they are; the radius in cells [d]; and what is added to it for
 * rounding.
 * neighbor_list_images: starts, where the images of every point begin that may be near the cell, and
 * their number; base, the cell that a point is in; exponent, of the power of two above all numbers
 * that images are made of, or 2^62 where a point is not finite, or 2^62 - 1 where one is more than
 * 2^30 cells away. neighbor_list_place: the points in the cell, and their images.
 * neighbor_list_count, _fill: of these images, the candidates that neighbors finds for the points in
 * the cell, those of which |x_j - x_i + S cell|^2 <= radius^2, computed as above; but none of a point
 * itself, and without `full` a pair from one of its ends.
 */

GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_images_workspace_bytes_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_images_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full,
    const void *points,    /* [n, d] */
    const double *lattice, /* [d (2 d + 1) + 1] */
    int64_t *starts,       /* [n+1] */
    int32_t *base,         /* [n, d] */
    int64_t *exponent,     /* [1] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_place_workspace_bytes_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_place_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int64_t *starts, const int32_t *base,
    double *inside, /* [n, d] */
    double *copies, /* [n_images, d] */
    int32_t *point, /* [n_images] */
    int32_t *shift, /* [n_images, d] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_count_workspace_bytes_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_count_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int32_t *base, const int32_t *point, const int32_t *shift,
    const int64_t *candidate_offsets, /* [n+1] */
    const int32_t *candidates,        /* [candidate_offsets[n]] */
    int64_t *offsets,                 /* [n+1] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_fill_workspace_bytes_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_fill_f32(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int32_t *base, const int32_t *point, const int32_t *shift,
    const int64_t *candidate_offsets, const int32_t *candidates, const int64_t *offsets,
    int32_t *indices,  /* [offsets[n]] */
    int32_t *shifts,   /* [offsets[n], d] */
    double *distances, /* [offsets[n]] */
    double *vectors,   /* [offsets[n], d] */
    void *workspace, size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_images_workspace_bytes_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_images_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, int64_t *starts, int32_t *base, int64_t *exponent, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_place_workspace_bytes_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_place_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int64_t *starts, const int32_t *base, double *inside,
    double *copies, int32_t *point, int32_t *shift, void *workspace, size_t workspace_bytes,
    void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_count_workspace_bytes_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_count_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int32_t *base, const int32_t *point, const int32_t *shift,
    const int64_t *candidate_offsets, const int32_t *candidates, int64_t *offsets, void *workspace,
    size_t workspace_bytes, void *stream);
GNOGRAD_CUDA_API size_t gnograd_cuda_neighbor_list_fill_workspace_bytes_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full);
GNOGRAD_CUDA_API int gnograd_cuda_neighbor_list_fill_f64(
    int64_t n, int64_t d, int64_t n_images, double radius, int full, const void *points,
    const double *lattice, const int32_t *base, const int32_t *point, const int32_t *shift,
    const int64_t *candidate_offsets, const int32_t *candidates, const int64_t *offsets,
    int32_t *indices, int32_t *shifts, double *distances, double *vectors, void *workspace,
    size_t workspace_bytes, void *stream);

#ifdef __cplusplus
}
#endif
#endif

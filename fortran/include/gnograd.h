/* SPDX-License-Identifier: MIT
 *
 * gnograd for C: graph neural operators and their derivatives to second order.
 *
 * Arrays are C-contiguous; shapes stand behind each argument. An array marked "or null" may be a
 * null pointer: as an input it is absent (a tangent: zero), as an output it is not computed.
 * Functions return 0 or one of the gnograd_status codes; gnograd_last_error has the message.
 * Arguments are checked before anything is written: after an error, output arrays are as they
 * were, except after GNOGRAD_MEMORY, when what they hold means nothing. A handle (graph, tape,
 * optimizer) that could not be made is null. All functions may be called from several threads.
 *
 * vjp: gradients to the inputs for cotangents of the outputs; jvp: tangents of the outputs for
 * tangents t_ of the inputs; hvp: tangents of the gradients of vjp, cotangents held fixed. In jvp and
 * hvp t_ arrays may be null (zero), in vjp and hvp grad_ arrays (not computed), of several
 * cotangents some (zero), and what forward saves for vjp everywhere. Those for real64 (_r64) have
 * double where those for real32 (_r32) have float.
 *
 * Written by tools/interface from gnograd.h.in and the operators that python/gnograd declares. The
 * Python binding is made from this file: one declaration a function, one type and one name an
 * argument.
 */
#ifndef GNOGRAD_H
#define GNOGRAD_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum gnograd_status {
    GNOGRAD_OK = 0,
    GNOGRAD_VALUE = 1,       /* wrong shape, size or name */
    GNOGRAD_INDEX = 2,       /* node, edge or array number out of range */
    GNOGRAD_MEMORY = 3,      /* allocation failed */
    GNOGRAD_UNSUPPORTED = 4, /* meaningful, but not available */
    GNOGRAD_TYPE = 5         /* kinds of numbers that do not belong together */
};

/* ---- runtime ---- */

int gnograd_abi_version(void);

/* Threads the kernels use; 0 gives the choice back to OpenMP. No result depends on it. There may be
   gnograd_most_threads: four a processor or 64, whichever is more, within OMP_THREAD_LIMIT; a larger
   number, also one of OMP_NUM_THREADS, counts as that one. */
int gnograd_num_threads(void);
int gnograd_most_threads(void);
void gnograd_set_num_threads(int n);

/* Message of the last error of this thread, null-terminated. */
void gnograd_last_error(int64_t length, char *message /* [length] */);

/* "compiler | options | BLAS", null-terminated. */
void gnograd_build_info(int64_t length, char *text /* [length] */);

/* ---- graph ---- */

typedef struct gnograd_graph gnograd_graph;

/* Destination-major graph; checked and transposed here, O(n_edges). Nothing of the arrays is kept. */
int gnograd_graph_create(
    int64_t n_dst, int64_t n_src, int64_t n_edges,
    const int64_t *offsets,   /* [n_dst+1] */
    const int64_t *indices,   /* [n_edges] source of every edge */
    const int64_t *edge_ids,  /* [n_edges] permutation: row of the edge table; or null */
    gnograd_graph **graph);

/* Make a graph of the edges src -> dst in any order; row p of the edge table belongs to edge p. If
   self_loops is negative, edges from a node to itself stay. Otherwise they are left out, and their rows of
   the edge table belong to no edge; if self_loops is positive, each of the first min(n_dst, n_src) nodes
   then gets one self-loop, whose row comes behind the others. */
int gnograd_graph_from_edges(
    int64_t n_dst, int64_t n_src, int64_t n_edges, int self_loops,
    const int64_t *src,       /* [n_edges] */
    const int64_t *dst,       /* [n_edges] */
    gnograd_graph **graph);

/* Make a graph of arrays that are already in both orders. Nothing is checked, copied or kept: the arrays
   must not change while the graph is in use (a tape makes a copy). They may have room for more edges than
   the graph has: edge tables have n_edges rows, while the last offset is the number of edges. Rows behind
   it are never read, and derivatives to them are 0. */
int gnograd_graph_lend(
    int64_t n_dst, int64_t n_src, int64_t n_edges,
    const int64_t *dst_offsets,   /* [n_dst+1] */
    const int32_t *dst_indices,   /* [n_edges] source of every edge */
    const int64_t *dst_edge,      /* [n_edges] row of the edge table; or null: the position itself */
    const int64_t *src_offsets,   /* [n_src+1] */
    const int32_t *src_indices,   /* [n_edges] destination of every edge */
    const int64_t *src_edge,      /* [n_edges] row of the edge table */
    const int64_t *src_position,  /* [n_edges] position in the first order; or null: as src_edge */
    gnograd_graph **graph);

int64_t gnograd_graph_n_edges(const gnograd_graph *graph);

/* 1 if the rows of the edge table are in the destination-major order, else 0. */
int gnograd_graph_is_ordered(const gnograd_graph *graph);

/* Free a graph; null is ignored. Arrays made with it on a tape stay what they are. */
void gnograd_graph_free(gnograd_graph *graph);

/* Addresses of the arrays of a graph, in the order of gnograd_graph_lend; valid until it is freed. */
void gnograd_graph_arrays(const gnograd_graph *graph, const void **arrays /* [7] */);

/* Copy the edges ordered by destination. */
void gnograd_graph_by_dst(
    const gnograd_graph *graph,
    int64_t *offsets,   /* [n_dst+1] */
    int32_t *indices,   /* [n_edges] source of every edge */
    int64_t *edge);     /* [n_edges] row of the edge table; or null */

/* Copy the edges ordered by source. */
void gnograd_graph_by_src(
    const gnograd_graph *graph,
    int64_t *offsets,   /* [n_src+1] */
    int32_t *indices,   /* [n_edges] destination of every edge */
    int64_t *edge,      /* [n_edges] row of the edge table */
    int64_t *position); /* [n_edges] position in the destination-major order */

/* ---- near points ----
 *
 * Sources near every destination, decided by squares of distances in double, summed in the order of
 * the axes. Distances are to the nearest image, along the axes of a box whose period is not 0. Only
 * points of the same item of a batch are neighbours; without a batch there is one item, {0, n}. Where
 * destinations are among the sources and are no neighbours of themselves, `own` is the source that is
 * destination 0, the next one destination 1, and so on; else it is negative.
 */

typedef struct gnograd_neighbors gnograd_neighbors;

/* For every radius, sources ascending. Where a destination has more than max_neighbors (if that is not
   negative), it keeps the nearest, or where at_random is 1, those with the smallest hashes of the seed
   and the two numbers. */
int gnograd_neighbors_within(
    int64_t n_axes, int64_t n_dst, int64_t n_src, int64_t n_items, int64_t n_radii,
    int64_t max_neighbors, int at_random, int64_t seed, int64_t own,
    const double *destinations, /* [n_dst, n_axes] */
    const double *sources,      /* [n_src, n_axes] */
    const double *period,       /* [n_axes] */
    const int64_t *dst_items,   /* [n_items+1] first destination of every item, and n_dst */
    const int64_t *src_items,   /* [n_items+1] */
    const double *radii,        /* [n_radii] inclusive */
    gnograd_neighbors **found);

/* The k nearest sources, the nearest first, by number where distances are equal; all where there are
   less. */
int gnograd_neighbors_nearest(
    int64_t n_axes, int64_t n_dst, int64_t n_src, int64_t n_items, int64_t k, int64_t own,
    const double *destinations, /* [n_dst, n_axes] */
    const double *sources,      /* [n_src, n_axes] */
    const double *period,       /* [n_axes] */
    const int64_t *dst_items,   /* [n_items+1] */
    const int64_t *src_items,   /* [n_items+1] */
    gnograd_neighbors **found);

/* Neighbours that were found for a radius, by its number from 0. */
int64_t gnograd_neighbors_n_edges(const gnograd_neighbors *found, int64_t number);

/* Copy them: a graph is made by gnograd_graph_create. */
void gnograd_neighbors_copy(
    const gnograd_neighbors *found, int64_t number,
    int64_t *offsets,   /* [n_dst+1] */
    int32_t *indices);  /* [n_edges] source of every edge */

/* Free them; null is ignored. */
void gnograd_neighbors_free(gnograd_neighbors *found);

/* ---- aggregation ----
 *
 * out_i = Agg over the incoming edges p = (j -> i) of w_p x_j, feature by feature; agg_simple has
 * w_p = 1 and aggregates edge features as well, out = [Agg x_j | Agg e_p]; agg_concat has weights,
 * or not, and appends the destination's own features, out = [Agg w_p x_j | Agg e_p | own_i].
 * Below, D = n_features, De = n_edge_features, Do = n_own_features, each 0 if there is no such
 * input; D_out = D + De + Do. `aggregation` is one of enum gnograd_aggregation; Mean divides by
 * degree_i = sum of w_p, or by the number of edges where there are no weights.
 *
 * What a forward pass saves, its vjp can use: out and degree for the mean of w_p x_j, location for
 * minimum and maximum (the edge's position in the destination-major order; -1 without edges; the
 * lowest position wins a tie). A vjp computes what it needs and does not get. Its inputs may be
 * null where no gradient that is wanted depends on them. Where own is x (n_src = n_dst, D = Do), the
 * gradients may be one array too, grad_own = grad_x: it gets their sum.
 */

enum gnograd_aggregation {
    GNOGRAD_SUM = 0,
    GNOGRAD_MEAN = 1,
    GNOGRAD_MIN = 2,
    GNOGRAD_MAX = 3
};

/* vjp of agg_weighted does not read: out where aggregation=sum|min|max. */
int gnograd_agg_weighted_forward_r32(
    const gnograd_graph *graph, int64_t n_features, int aggregation,
    const float *x,    /* [n_src, n_features] */
    const float *w,    /* [n_edges] */
    float *out,        /* [n_dst, n_features] */
    int64_t *location, /* [n_dst, n_features] or null */
    float *degree);    /* [n_dst] or null */
int gnograd_agg_weighted_vjp_r32(
    const gnograd_graph *graph, int64_t n_features, int aggregation,
    const float *cotangent, /* [n_dst, n_features] */
    const float *x, const float *w, const float *out, const int64_t *location, const float *degree,
    float *grad_x,          /* [n_src, n_features] or null */
    float *grad_w);         /* [n_edges] or null */
int gnograd_agg_weighted_jvp_r32(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const float *x, const float *w,
    const float *t_x, /* [n_src, n_features] or null */
    const float *t_w, /* [n_edges] or null */
    float *t_out);    /* [n_dst, n_features] */
int gnograd_agg_weighted_hvp_r32(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const float *cotangent,
    const float *x, const float *w, const float *t_x, const float *t_w, float *grad_x,
    float *grad_w);
int gnograd_agg_weighted_forward_r64(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const double *x,
    const double *w, double *out, int64_t *location, double *degree);
int gnograd_agg_weighted_vjp_r64(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const double *cotangent,
    const double *x, const double *w, const double *out, const int64_t *location,
    const double *degree, double *grad_x, double *grad_w);
int gnograd_agg_weighted_jvp_r64(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const double *x,
    const double *w, const double *t_x, const double *t_w, double *t_out);
int gnograd_agg_weighted_hvp_r64(
    const gnograd_graph *graph, int64_t n_features, int aggregation, const double *cotangent,
    const double *x, const double *w, const double *t_x, const double *t_w, double *grad_x,
    double *grad_w);

int gnograd_agg_simple_forward_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const float *x,     /* [n_src, n_features] or null */
    const float *e,     /* [n_edges, n_edge_features] or null */
    float *out,         /* [n_dst, n_features+n_edge_features] */
    int64_t *location); /* [n_dst, n_features+n_edge_features] or null */
int gnograd_agg_simple_vjp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const float *cotangent, /* [n_dst, n_features+n_edge_features] */
    const float *x, const float *e, const int64_t *location,
    float *grad_x,          /* [n_src, n_features] or null */
    float *grad_e);         /* [n_edges, n_edge_features] or null */
int gnograd_agg_simple_jvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const float *x, const float *e,
    const float *t_x, /* [n_src, n_features] or null */
    const float *t_e, /* [n_edges, n_edge_features] or null */
    float *t_out);    /* [n_dst, n_features+n_edge_features] */
int gnograd_agg_simple_hvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const float *cotangent, const float *x, const float *e, const float *t_x, const float *t_e,
    float *grad_x, float *grad_e);
int gnograd_agg_simple_forward_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const double *x, const double *e, double *out, int64_t *location);
int gnograd_agg_simple_vjp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const double *cotangent, const double *x, const double *e, const int64_t *location,
    double *grad_x, double *grad_e);
int gnograd_agg_simple_jvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const double *x, const double *e, const double *t_x, const double *t_e, double *t_out);
int gnograd_agg_simple_hvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int aggregation,
    const double *cotangent, const double *x, const double *e, const double *t_x, const double *t_e,
    double *grad_x, double *grad_e);

/* vjp of agg_concat does not read: out where aggregation=sum|min|max. */
int gnograd_agg_concat_forward_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation,
    const float *x,    /* [n_src, n_features] or null */
    const float *w,    /* [n_edges] or null */
    const float *e,    /* [n_edges, n_edge_features] or null */
    const float *own,  /* [n_dst, n_own_features] or null */
    float *out,        /* [n_dst, n_features+n_edge_features+n_own_features] */
    int64_t *location, /* [n_dst, n_features+n_edge_features] or null */
    float *degree);    /* [n_dst] or null */
int gnograd_agg_concat_vjp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation,
    const float *cotangent, /* [n_dst, n_features+n_edge_features+n_own_features] */
    const float *x, const float *w, const float *e, const float *own, const float *out,
    const int64_t *location, const float *degree,
    float *grad_x,          /* [n_src, n_features] or null */
    float *grad_w,          /* [n_edges] or null */
    float *grad_e,          /* [n_edges, n_edge_features] or null */
    float *grad_own);       /* [n_dst, n_own_features] or null */
int gnograd_agg_concat_jvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const float *x, const float *w, const float *e, const float *own,
    const float *t_x,   /* [n_src, n_features] or null */
    const float *t_w,   /* [n_edges] or null */
    const float *t_e,   /* [n_edges, n_edge_features] or null */
    const float *t_own, /* [n_dst, n_own_features] or null */
    float *t_out);      /* [n_dst, n_features+n_edge_features+n_own_features] */
int gnograd_agg_concat_hvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const float *cotangent, const float *x, const float *w, const float *e,
    const float *own, const float *t_x, const float *t_w, const float *t_e, const float *t_own,
    float *grad_x, float *grad_w, float *grad_e, float *grad_own);
int gnograd_agg_concat_forward_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const double *x, const double *w, const double *e, const double *own,
    double *out, int64_t *location, double *degree);
int gnograd_agg_concat_vjp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const double *cotangent, const double *x, const double *w, const double *e,
    const double *own, const double *out, const int64_t *location, const double *degree,
    double *grad_x, double *grad_w, double *grad_e, double *grad_own);
int gnograd_agg_concat_jvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const double *x, const double *w, const double *e, const double *own,
    const double *t_x, const double *t_w, const double *t_e, const double *t_own, double *t_out);
int gnograd_agg_concat_hvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_edge_features, int64_t n_own_features,
    int aggregation, const double *cotangent, const double *x, const double *w, const double *e,
    const double *own, const double *t_x, const double *t_w, const double *t_e, const double *t_own,
    double *grad_x, double *grad_w, double *grad_e, double *grad_own);

/* ---- relations ----
 *
 * Over the incoming edges e = (j -> i) of type r, S_ir = sum or mean of w_e x_j:
 *
 *     out_i = [S_i0 | S_i1 | ... | own_i], or with coeff [B_i0 | B_i1 | ... | own_i],
 *     B_ib  = sum over r of coeff_rb S_ir
 *
 * With D = n_features, Do = n_own_features, R = n_relations, and K = n_bases, or R without coeff
 * (n_bases 0): out [n_dst, K D + Do]. w null: 1. edge_type has 0 to R-1. `aggregation` is Sum or Mean
 * of enum gnograd_aggregation; Mean divides by the sum of w, or the number of edges, of a relation.
 */

int gnograd_agg_relational_forward_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases,
    const int32_t *edge_type, /* [n_edges] */
    int aggregation,
    const float *x,           /* [n_src, n_features] */
    const float *w,           /* [n_edges] or null */
    const float *coeff,       /* [n_relations, n_bases] or null */
    const float *own,         /* [n_dst, n_own_features] or null */
    float *out);              /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
int gnograd_agg_relational_vjp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation,
    const float *cotangent, /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
    const float *x, const float *w, const float *coeff, const float *own,
    float *grad_x,          /* [n_src, n_features] or null */
    float *grad_w,          /* [n_edges] or null */
    float *grad_coeff,      /* [n_relations, n_bases] or null */
    float *grad_own);       /* [n_dst, n_own_features] or null */
int gnograd_agg_relational_jvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const float *x, const float *w,
    const float *coeff, const float *own,
    const float *t_x,     /* [n_src, n_features] or null */
    const float *t_w,     /* [n_edges] or null */
    const float *t_coeff, /* [n_relations, n_bases] or null */
    const float *t_own,   /* [n_dst, n_own_features] or null */
    float *t_out);        /* [n_dst, (max(1-n_bases,0)*n_relations+n_bases)*n_features+n_own_features] */
int gnograd_agg_relational_hvp_r32(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const float *cotangent,
    const float *x, const float *w, const float *coeff, const float *own, const float *t_x,
    const float *t_w, const float *t_coeff, const float *t_own, float *grad_x, float *grad_w,
    float *grad_coeff, float *grad_own);
int gnograd_agg_relational_forward_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const double *x, const double *w,
    const double *coeff, const double *own, double *out);
int gnograd_agg_relational_vjp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const double *cotangent,
    const double *x, const double *w, const double *coeff, const double *own, double *grad_x,
    double *grad_w, double *grad_coeff, double *grad_own);
int gnograd_agg_relational_jvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const double *x, const double *w,
    const double *coeff, const double *own, const double *t_x, const double *t_w,
    const double *t_coeff, const double *t_own, double *t_out);
int gnograd_agg_relational_hvp_r64(
    const gnograd_graph *graph, int64_t n_features, int64_t n_own_features, int64_t n_relations,
    int64_t n_bases, const int32_t *edge_type, int aggregation, const double *cotangent,
    const double *x, const double *w, const double *coeff, const double *own, const double *t_x,
    const double *t_w, const double *t_coeff, const double *t_own, double *grad_x, double *grad_w,
    double *grad_coeff, double *grad_own);

/* ---- edges ----
 *
 * out_p = [e_p | x_src_j | x_dst_i] for every edge p = (j -> i), or with mode Sum the sum of the three;
 * each there unless it is null. mode is one of enum gnograd_update_mode. For a sum all have
 * n_edge_features, and so have n_src_features and n_dst_features to be.
 */

enum gnograd_update_mode { GNOGRAD_CONCAT = 0, GNOGRAD_ADD = 1 };

int gnograd_update_edges_forward_r32(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode,
    const float *e,     /* [n_edges, n_edge_features] or null */
    const float *x_src, /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    const float *x_dst, /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
    float *out);        /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
int gnograd_update_edges_vjp_r32(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode,
    const float *cotangent, /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
    const float *e, const float *x_src, const float *x_dst,
    float *grad_e,          /* [n_edges, n_edge_features] or null */
    float *grad_x_src,      /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    float *grad_x_dst);     /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
int gnograd_update_edges_jvp_r32(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const float *e, const float *x_src, const float *x_dst,
    const float *t_e,     /* [n_edges, n_edge_features] or null */
    const float *t_x_src, /* [n_src, n_src_features]; mode=sum: [n_src, n_edge_features] or null */
    const float *t_x_dst, /* [n_dst, n_dst_features]; mode=sum: [n_dst, n_edge_features] or null */
    float *t_out);        /* [n_edges, n_edge_features+n_src_features+n_dst_features]; mode=sum: [n_edges, n_edge_features] */
int gnograd_update_edges_hvp_r32(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const float *cotangent, const float *e, const float *x_src,
    const float *x_dst, const float *t_e, const float *t_x_src, const float *t_x_dst, float *grad_e,
    float *grad_x_src, float *grad_x_dst);
int gnograd_update_edges_forward_r64(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const double *e, const double *x_src, const double *x_dst,
    double *out);
int gnograd_update_edges_vjp_r64(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const double *cotangent, const double *e, const double *x_src,
    const double *x_dst, double *grad_e, double *grad_x_src, double *grad_x_dst);
int gnograd_update_edges_jvp_r64(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const double *e, const double *x_src, const double *x_dst,
    const double *t_e, const double *t_x_src, const double *t_x_dst, double *t_out);
int gnograd_update_edges_hvp_r64(
    const gnograd_graph *graph, int64_t n_edge_features, int64_t n_src_features,
    int64_t n_dst_features, int mode, const double *cotangent, const double *e, const double *x_src,
    const double *x_dst, const double *t_e, const double *t_x_src, const double *t_x_dst,
    double *grad_e, double *grad_x_src, double *grad_x_dst);

/* ---- graph attention ----
 *
 * Over the edges p = (j -> i) of a destination and for every head h, with H = n_heads,
 * C = n_channels, D = H C, Ce = n_edge_channels:
 *
 *   mha_gat     z = a_src[h].x_src[j,h] + a_dst[h].x_dst[i,h] (+ a_edge[h].e[p,h]),  s = act(z);
 *               a = [a_src | a_dst | a_edge], a_edge only with e; value x_src[j]
 *   mha_gat_v2  s = a[h] . act(x_src[j] + x_dst[i] (+ e[p]))[h];                    value x_src[j]
 *   mha_simple  s = q_i[h] . (k_j[h] + e_p[h]) (/ sqrt(C) if norm_by_dim);          value v_j + e_p
 *
 * out_i is the sum of softmax(s)_p times the values, heads side by side if concat_heads, else
 * their mean: D_out = D or C. `activation` is one of enum gnograd_score_activation;
 * negative_slope is the factor c of LeakyReLU (c z for z <= 0), ELU (c (exp(z) - 1) for z <= 0)
 * and Scalar (c z).
 *
 * Saved by forward for vjp: out, and lse, the logarithm of the sum of exp(s) (-infinity without
 * edges). A vjp that does not get both computes them. softmax_scores are s and its softmax, edges
 * by position in the destination-major order.
 */

enum gnograd_score_activation {
    GNOGRAD_SCORE_LEAKY_RELU = 0,
    GNOGRAD_SCORE_ELU = 1,
    GNOGRAD_SCORE_LINEAR = 2,
    GNOGRAD_SCORE_RELU = 3,
    GNOGRAD_SCORE_SCALAR = 4,
    GNOGRAD_SCORE_SIGMOID = 5,
    GNOGRAD_SCORE_TANH = 6
};

/* vjp of mha_gat does not read: softmax_scores; out, lse where concat_heads=False. */
int gnograd_mha_gat_forward_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout,
    const int64_t *seed,    /* [1] or null */
    const float *x_src,     /* [n_src, n_heads*n_channels] */
    const float *x_dst,     /* [n_dst, n_heads*n_channels] */
    const float *a,         /* [n_heads*(2*n_channels+n_edge_channels)] */
    const float *e,         /* [n_edges, n_heads*n_edge_channels] or null */
    float *out,             /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    float *lse,             /* [n_dst, n_heads] or null */
    float *softmax_scores); /* [2, n_heads, n_edges] or null */
int gnograd_mha_gat_vjp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const float *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const float *x_src, const float *x_dst, const float *a, const float *e, const float *out,
    const float *lse, const float *softmax_scores,
    float *grad_x_src,      /* [n_src, n_heads*n_channels] or null */
    float *grad_x_dst,      /* [n_dst, n_heads*n_channels] or null */
    float *grad_a,          /* [n_heads*(2*n_channels+n_edge_channels)] or null */
    float *grad_e);         /* [n_edges, n_heads*n_edge_channels] or null */
int gnograd_mha_gat_jvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const float *x_src, const float *x_dst, const float *a, const float *e,
    const float *t_x_src, /* [n_src, n_heads*n_channels] or null */
    const float *t_x_dst, /* [n_dst, n_heads*n_channels] or null */
    const float *t_a,     /* [n_heads*(2*n_channels+n_edge_channels)] or null */
    const float *t_e,     /* [n_edges, n_heads*n_edge_channels] or null */
    float *t_out);        /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
int gnograd_mha_gat_hvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const float *cotangent, const float *x_src, const float *x_dst, const float *a, const float *e,
    const float *t_x_src, const float *t_x_dst, const float *t_a, const float *t_e,
    float *grad_x_src, float *grad_x_dst, float *grad_a, float *grad_e);
int gnograd_mha_gat_forward_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *x_src, const double *x_dst, const double *a, const double *e, double *out,
    double *lse, double *softmax_scores);
int gnograd_mha_gat_vjp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *cotangent, const double *x_src, const double *x_dst, const double *a,
    const double *e, const double *out, const double *lse, const double *softmax_scores,
    double *grad_x_src, double *grad_x_dst, double *grad_a, double *grad_e);
int gnograd_mha_gat_jvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *x_src, const double *x_dst, const double *a, const double *e,
    const double *t_x_src, const double *t_x_dst, const double *t_a, const double *t_e,
    double *t_out);
int gnograd_mha_gat_hvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int64_t n_edge_channels,
    int concat_heads, int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *cotangent, const double *x_src, const double *x_dst, const double *a,
    const double *e, const double *t_x_src, const double *t_x_dst, const double *t_a,
    const double *t_e, double *grad_x_src, double *grad_x_dst, double *grad_a, double *grad_e);

/* vjp of mha_gat_v2 does not read: softmax_scores; out, lse where concat_heads=False. */
int gnograd_mha_gat_v2_forward_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout,
    const int64_t *seed,       /* [1] or null */
    const float *x_src,        /* [n_src, n_heads*n_channels] */
    const float *x_dst,        /* [n_dst, n_heads*n_channels] */
    const float *a,            /* [n_heads*n_channels] */
    const float *e,            /* [n_edges, n_heads*n_channels] or null */
    float *out,                /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    float *lse,                /* [n_dst, n_heads] or null */
    float *softmax_scores,     /* [2, n_heads, n_edges] or null */
    float *activation_scores); /* [n_edges, n_heads*n_channels] or null */
int gnograd_mha_gat_v2_vjp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const float *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const float *x_src, const float *x_dst, const float *a, const float *e, const float *out,
    const float *lse, const float *softmax_scores, const float *activation_scores,
    float *grad_x_src,      /* [n_src, n_heads*n_channels] or null */
    float *grad_x_dst,      /* [n_dst, n_heads*n_channels] or null */
    float *grad_a,          /* [n_heads*n_channels] or null */
    float *grad_e);         /* [n_edges, n_heads*n_channels] or null */
int gnograd_mha_gat_v2_jvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const float *x_src,
    const float *x_dst, const float *a, const float *e,
    const float *t_x_src, /* [n_src, n_heads*n_channels] or null */
    const float *t_x_dst, /* [n_dst, n_heads*n_channels] or null */
    const float *t_a,     /* [n_heads*n_channels] or null */
    const float *t_e,     /* [n_edges, n_heads*n_channels] or null */
    float *t_out);        /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
int gnograd_mha_gat_v2_hvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const float *cotangent, const float *x_src, const float *x_dst, const float *a, const float *e,
    const float *t_x_src, const float *t_x_dst, const float *t_a, const float *t_e,
    float *grad_x_src, float *grad_x_dst, float *grad_a, float *grad_e);
int gnograd_mha_gat_v2_forward_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const double *x_src,
    const double *x_dst, const double *a, const double *e, double *out, double *lse,
    double *softmax_scores, double *activation_scores);
int gnograd_mha_gat_v2_vjp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *cotangent, const double *x_src, const double *x_dst, const double *a,
    const double *e, const double *out, const double *lse, const double *softmax_scores,
    const double *activation_scores, double *grad_x_src, double *grad_x_dst, double *grad_a,
    double *grad_e);
int gnograd_mha_gat_v2_jvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed, const double *x_src,
    const double *x_dst, const double *a, const double *e, const double *t_x_src,
    const double *t_x_dst, const double *t_a, const double *t_e, double *t_out);
int gnograd_mha_gat_v2_hvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int activation, double negative_slope, double dropout, const int64_t *seed,
    const double *cotangent, const double *x_src, const double *x_dst, const double *a,
    const double *e, const double *t_x_src, const double *t_x_dst, const double *t_a,
    const double *t_e, double *grad_x_src, double *grad_x_dst, double *grad_a, double *grad_e);
/* vjp of mha_simple does not read: softmax_scores; out, lse where concat_heads=False. */
int gnograd_mha_simple_forward_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout,
    const int64_t *seed,    /* [1] or null */
    const float *q,         /* [n_dst, n_heads*n_channels] */
    const float *k,         /* [n_src, n_heads*n_channels] */
    const float *v,         /* [n_src, n_heads*n_channels] */
    const float *e,         /* [n_edges, n_heads*n_channels] or null */
    float *out,             /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    float *lse,             /* [n_dst, n_heads] or null */
    float *softmax_scores); /* [2, n_heads, n_edges] or null */
int gnograd_mha_simple_vjp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed,
    const float *cotangent, /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
    const float *q, const float *k, const float *v, const float *e, const float *out,
    const float *lse, const float *softmax_scores,
    float *grad_q,          /* [n_dst, n_heads*n_channels] or null */
    float *grad_k,          /* [n_src, n_heads*n_channels] or null */
    float *grad_v,          /* [n_src, n_heads*n_channels] or null */
    float *grad_e);         /* [n_edges, n_heads*n_channels] or null */
int gnograd_mha_simple_jvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const float *q, const float *k,
    const float *v, const float *e,
    const float *t_q, /* [n_dst, n_heads*n_channels] or null */
    const float *t_k, /* [n_src, n_heads*n_channels] or null */
    const float *t_v, /* [n_src, n_heads*n_channels] or null */
    const float *t_e, /* [n_edges, n_heads*n_channels] or null */
    float *t_out);    /* [n_dst, n_heads*n_channels]; concat_heads=False: [n_dst, n_channels] */
int gnograd_mha_simple_hvp_r32(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const float *cotangent, const float *q,
    const float *k, const float *v, const float *e, const float *t_q, const float *t_k,
    const float *t_v, const float *t_e, float *grad_q, float *grad_k, float *grad_v, float *grad_e);
int gnograd_mha_simple_forward_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const double *q, const double *k,
    const double *v, const double *e, double *out, double *lse, double *softmax_scores);
int gnograd_mha_simple_vjp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const double *cotangent, const double *q,
    const double *k, const double *v, const double *e, const double *out, const double *lse,
    const double *softmax_scores, double *grad_q, double *grad_k, double *grad_v, double *grad_e);
int gnograd_mha_simple_jvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const double *q, const double *k,
    const double *v, const double *e, const double *t_q, const double *t_k, const double *t_v,
    const double *t_e, double *t_out);
int gnograd_mha_simple_hvp_r64(
    const gnograd_graph *graph, int64_t n_heads, int64_t n_channels, int concat_heads,
    int norm_by_dim, double dropout, const int64_t *seed, const double *cotangent, const double *q,
    const double *k, const double *v, const double *e, const double *t_q, const double *t_k,
    const double *t_v, const double *t_e, double *grad_q, double *grad_k, double *grad_v,
    double *grad_e);

/* ---- edge_softmax ----
 *
 *     out_e = exp(s_e)/sum of exp(s) over the edges of the same destination, for every head
 *
 * Saved by forward for vjp: out. A vjp that does not get it computes it.
 */

int gnograd_edge_softmax_forward_r32(
    const gnograd_graph *graph, int64_t n_heads,
    const float *s, /* [n_edges, n_heads] */
    float *out);    /* [n_edges, n_heads] */
int gnograd_edge_softmax_vjp_r32(
    const gnograd_graph *graph, int64_t n_heads,
    const float *cotangent, /* [n_edges, n_heads] */
    const float *s, const float *out,
    float *grad_s);         /* [n_edges, n_heads] or null */
int gnograd_edge_softmax_jvp_r32(
    const gnograd_graph *graph, int64_t n_heads, const float *s,
    const float *t_s, /* [n_edges, n_heads] or null */
    float *t_out);    /* [n_edges, n_heads] */
int gnograd_edge_softmax_hvp_r32(
    const gnograd_graph *graph, int64_t n_heads, const float *cotangent, const float *s,
    const float *t_s, float *grad_s);
int gnograd_edge_softmax_forward_r64(
    const gnograd_graph *graph, int64_t n_heads, const double *s, double *out);
int gnograd_edge_softmax_vjp_r64(
    const gnograd_graph *graph, int64_t n_heads, const double *cotangent, const double *s,
    const double *out, double *grad_s);
int gnograd_edge_softmax_jvp_r64(
    const gnograd_graph *graph, int64_t n_heads, const double *s, const double *t_s, double *t_out);
int gnograd_edge_softmax_hvp_r64(
    const gnograd_graph *graph, int64_t n_heads, const double *cotangent, const double *s,
    const double *t_s, double *grad_s);

/* ---- offset_moments ----
 *
 * Over the n edges of a destination, with r_e = x_j - y_i, side by side:
 *
 *     mean distance m = sum |r_e|/n, variance sum (|r_e| - m)^2/n, centroid c = sum r_e/n,
 *     covariance sum (r_e - c)(r_e - c)^T/n, its upper triangle row by row
 *
 * and 0 without edges. Derivatives of |r_e| are 0 where it is.
 */

int gnograd_offset_moments_forward_r32(
    const gnograd_graph *graph, int64_t d,
    const float *x,  /* [n_src, d] */
    const float *y,  /* [n_dst, d] */
    float *moments); /* [n_dst, 2+d+d*(d+1)//2] */
int gnograd_offset_moments_vjp_r32(
    const gnograd_graph *graph, int64_t d,
    const float *cotangent, /* [n_dst, 2+d+d*(d+1)//2] */
    const float *x, const float *y,
    float *grad_x,          /* [n_src, d] or null */
    float *grad_y);         /* [n_dst, d] or null */
int gnograd_offset_moments_jvp_r32(
    const gnograd_graph *graph, int64_t d, const float *x, const float *y,
    const float *t_x,  /* [n_src, d] or null */
    const float *t_y,  /* [n_dst, d] or null */
    float *t_moments); /* [n_dst, 2+d+d*(d+1)//2] */
int gnograd_offset_moments_hvp_r32(
    const gnograd_graph *graph, int64_t d, const float *cotangent, const float *x, const float *y,
    const float *t_x, const float *t_y, float *grad_x, float *grad_y);
int gnograd_offset_moments_forward_r64(
    const gnograd_graph *graph, int64_t d, const double *x, const double *y, double *moments);
int gnograd_offset_moments_vjp_r64(
    const gnograd_graph *graph, int64_t d, const double *cotangent, const double *x,
    const double *y, double *grad_x, double *grad_y);
int gnograd_offset_moments_jvp_r64(
    const gnograd_graph *graph, int64_t d, const double *x, const double *y, const double *t_x,
    const double *t_y, double *t_moments);
int gnograd_offset_moments_hvp_r64(
    const gnograd_graph *graph, int64_t d, const double *cotangent, const double *x,
    const double *y, const double *t_x, const double *t_y, double *grad_x, double *grad_y);

/* ---- gno: the graph neural operator sum ----
 *
 *     hid_e   = act(U^T c_e + b_u)
 *     kappa_e = hid_e . V + b_v
 *     out_i   = sum or mean over e = (j -> i) of w_e h_j . kappa_e
 *
 * activation: relu 0, gelu 1, silu 2, tanh 3, sin 4, identity 5; reduction: sum 0, mean 1;
 * kernel: full 0, diagonal 1 (f_in = f_out = f, kappa_e multiplies h_j entry by entry).
 * Rows of edge arrays are rows of the edge table. h may be null for a diagonal kernel only: ones.
 */

int gnograd_gno_forward_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel,
    const float *h,           /* [n_batch, n_src, f_in] or null */
    const float *coords,      /* [n_edges, d] */
    const float *u,           /* [d, n_hidden] */
    const float *b_u,         /* [n_hidden] */
    const float *v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] */
    const float *b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const float *edge_weight, /* [n_edges] or null */
    float *out);              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_vjp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel,
    const float *cotangent,   /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    const float *h, const float *coords, const float *u, const float *b_u, const float *v,
    const float *b_v, const float *edge_weight,
    float *grad_h,            /* [n_batch, n_src, f_in] or null */
    float *grad_coords,       /* [n_edges, d] or null */
    float *grad_u,            /* [d, n_hidden] or null */
    float *grad_b_u,          /* [n_hidden] or null */
    float *grad_v,            /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    float *grad_b_v,          /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    float *grad_edge_weight); /* [n_edges] or null */
int gnograd_gno_jvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const float *h, const float *coords,
    const float *u, const float *b_u, const float *v, const float *b_v, const float *edge_weight,
    const float *t_h,           /* [n_batch, n_src, f_in] or null */
    const float *t_coords,      /* [n_edges, d] or null */
    const float *t_u,           /* [d, n_hidden] or null */
    const float *t_b_u,         /* [n_hidden] or null */
    const float *t_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    const float *t_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const float *t_edge_weight, /* [n_edges] or null */
    float *t_out);              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_hvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const float *cotangent,
    const float *h, const float *coords, const float *u, const float *b_u, const float *v,
    const float *b_v, const float *edge_weight, const float *t_h, const float *t_coords,
    const float *t_u, const float *t_b_u, const float *t_v, const float *t_b_v,
    const float *t_edge_weight, float *grad_h, float *grad_coords, float *grad_u, float *grad_b_u,
    float *grad_v, float *grad_b_v, float *grad_edge_weight);
int gnograd_gno_forward_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const double *h, const double *coords,
    const double *u, const double *b_u, const double *v, const double *b_v,
    const double *edge_weight, double *out);
int gnograd_gno_vjp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const double *cotangent,
    const double *h, const double *coords, const double *u, const double *b_u, const double *v,
    const double *b_v, const double *edge_weight, double *grad_h, double *grad_coords,
    double *grad_u, double *grad_b_u, double *grad_v, double *grad_b_v, double *grad_edge_weight);
int gnograd_gno_jvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const double *h, const double *coords,
    const double *u, const double *b_u, const double *v, const double *b_v,
    const double *edge_weight, const double *t_h, const double *t_coords, const double *t_u,
    const double *t_b_u, const double *t_v, const double *t_b_v, const double *t_edge_weight,
    double *t_out);
int gnograd_gno_hvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t n_hidden, int64_t f_in,
    int64_t f_out, int activation, int reduction, int kernel, const double *cotangent,
    const double *h, const double *coords, const double *u, const double *b_u, const double *v,
    const double *b_v, const double *edge_weight, const double *t_h, const double *t_coords,
    const double *t_u, const double *t_b_u, const double *t_v, const double *t_b_v,
    const double *t_edge_weight, double *grad_h, double *grad_coords, double *grad_u,
    double *grad_b_u, double *grad_v, double *grad_b_v, double *grad_edge_weight);

/* ---- gno_contract: the same sum from the last hidden features of any kernel network ---- */

int gnograd_gno_contract_forward_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel,
    const float *h,           /* [n_batch, n_src, f_in] or null */
    const float *hid,         /* [n_edges, n_hidden] */
    const float *v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] */
    const float *b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const float *edge_weight, /* [n_edges] or null */
    float *out);              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_contract_vjp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel,
    const float *cotangent,   /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    const float *h, const float *hid, const float *v, const float *b_v, const float *edge_weight,
    float *grad_h,            /* [n_batch, n_src, f_in] or null */
    float *grad_hid,          /* [n_edges, n_hidden] or null */
    float *grad_v,            /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    float *grad_b_v,          /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    float *grad_edge_weight); /* [n_edges] or null */
int gnograd_gno_contract_jvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const float *h, const float *hid, const float *v, const float *b_v,
    const float *edge_weight,
    const float *t_h,           /* [n_batch, n_src, f_in] or null */
    const float *t_hid,         /* [n_edges, n_hidden] or null */
    const float *t_v,           /* [n_hidden, f_in, f_out]; kernel=diagonal: [n_hidden, f_in] or null */
    const float *t_b_v,         /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const float *t_edge_weight, /* [n_edges] or null */
    float *t_out);              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_contract_hvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const float *cotangent, const float *h, const float *hid,
    const float *v, const float *b_v, const float *edge_weight, const float *t_h,
    const float *t_hid, const float *t_v, const float *t_b_v, const float *t_edge_weight,
    float *grad_h, float *grad_hid, float *grad_v, float *grad_b_v, float *grad_edge_weight);
int gnograd_gno_contract_forward_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const double *h, const double *hid, const double *v,
    const double *b_v, const double *edge_weight, double *out);
int gnograd_gno_contract_vjp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const double *cotangent, const double *h, const double *hid,
    const double *v, const double *b_v, const double *edge_weight, double *grad_h, double *grad_hid,
    double *grad_v, double *grad_b_v, double *grad_edge_weight);
int gnograd_gno_contract_jvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const double *h, const double *hid, const double *v,
    const double *b_v, const double *edge_weight, const double *t_h, const double *t_hid,
    const double *t_v, const double *t_b_v, const double *t_edge_weight, double *t_out);
int gnograd_gno_contract_hvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t n_hidden, int64_t f_in, int64_t f_out,
    int reduction, int kernel, const double *cotangent, const double *h, const double *hid,
    const double *v, const double *b_v, const double *edge_weight, const double *t_h,
    const double *t_hid, const double *t_v, const double *t_b_v, const double *t_edge_weight,
    double *grad_h, double *grad_hid, double *grad_v, double *grad_b_v, double *grad_edge_weight);

/* ---- gno_kernel: kappa itself, one matrix an edge ---- */

int gnograd_gno_kernel_forward_r32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const float *coords, /* [n_edges, d] */
    const float *u,      /* [d, n_hidden] */
    const float *b_u,    /* [n_hidden] */
    const float *v,      /* [n_hidden, f_in, f_out] */
    const float *b_v,    /* [f_in, f_out] */
    float *kappa);       /* [n_edges, f_in, f_out] */
int gnograd_gno_kernel_vjp_r32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const float *cotangent, /* [n_edges, f_in, f_out] */
    const float *coords, const float *u, const float *b_u, const float *v, const float *b_v,
    float *grad_coords,     /* [n_edges, d] or null */
    float *grad_u,          /* [d, n_hidden] or null */
    float *grad_b_u,        /* [n_hidden] or null */
    float *grad_v,          /* [n_hidden, f_in, f_out] or null */
    float *grad_b_v);       /* [f_in, f_out] or null */
int gnograd_gno_kernel_jvp_r32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const float *coords, const float *u, const float *b_u, const float *v, const float *b_v,
    const float *t_coords, /* [n_edges, d] or null */
    const float *t_u,      /* [d, n_hidden] or null */
    const float *t_b_u,    /* [n_hidden] or null */
    const float *t_v,      /* [n_hidden, f_in, f_out] or null */
    const float *t_b_v,    /* [f_in, f_out] or null */
    float *t_kappa);       /* [n_edges, f_in, f_out] */
int gnograd_gno_kernel_hvp_r32(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const float *cotangent, const float *coords, const float *u, const float *b_u, const float *v,
    const float *b_v, const float *t_coords, const float *t_u, const float *t_b_u, const float *t_v,
    const float *t_b_v, float *grad_coords, float *grad_u, float *grad_b_u, float *grad_v,
    float *grad_b_v);
int gnograd_gno_kernel_forward_r64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const double *coords, const double *u, const double *b_u, const double *v, const double *b_v,
    double *kappa);
int gnograd_gno_kernel_vjp_r64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const double *cotangent, const double *coords, const double *u, const double *b_u,
    const double *v, const double *b_v, double *grad_coords, double *grad_u, double *grad_b_u,
    double *grad_v, double *grad_b_v);
int gnograd_gno_kernel_jvp_r64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const double *coords, const double *u, const double *b_u, const double *v, const double *b_v,
    const double *t_coords, const double *t_u, const double *t_b_u, const double *t_v,
    const double *t_b_v, double *t_kappa);
int gnograd_gno_kernel_hvp_r64(
    int64_t n_edges, int64_t d, int64_t n_hidden, int64_t f_in, int64_t f_out, int activation,
    const double *cotangent, const double *coords, const double *u, const double *b_u,
    const double *v, const double *b_v, const double *t_coords, const double *t_u,
    const double *t_b_u, const double *t_v, const double *t_b_v, double *grad_coords,
    double *grad_u, double *grad_b_u, double *grad_v, double *grad_b_v);

/* ---- gno_aggregate: sum or mean of h_j . kappa_e with a given kappa ---- */

int gnograd_gno_aggregate_forward_r32(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const float *h,     /* [n_src, f_in] */
    const float *kappa, /* [n_edges, f_in, f_out] */
    float *out);        /* [n_dst, f_out] */
int gnograd_gno_aggregate_vjp_r32(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction,
    const float *cotangent, /* [n_dst, f_out] */
    const float *h, const float *kappa,
    float *grad_h,          /* [n_src, f_in] or null */
    float *grad_kappa);     /* [n_edges, f_in, f_out] or null */
int gnograd_gno_aggregate_jvp_r32(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const float *h,
    const float *kappa,
    const float *t_h,     /* [n_src, f_in] or null */
    const float *t_kappa, /* [n_edges, f_in, f_out] or null */
    float *t_out);        /* [n_dst, f_out] */
int gnograd_gno_aggregate_hvp_r32(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const float *cotangent,
    const float *h, const float *kappa, const float *t_h, const float *t_kappa, float *grad_h,
    float *grad_kappa);
int gnograd_gno_aggregate_forward_r64(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const double *h,
    const double *kappa, double *out);
int gnograd_gno_aggregate_vjp_r64(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const double *cotangent,
    const double *h, const double *kappa, double *grad_h, double *grad_kappa);
int gnograd_gno_aggregate_jvp_r64(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const double *h,
    const double *kappa, const double *t_h, const double *t_kappa, double *t_out);
int gnograd_gno_aggregate_hvp_r64(
    const gnograd_graph *graph, int64_t f_in, int64_t f_out, int reduction, const double *cotangent,
    const double *h, const double *kappa, const double *t_h, const double *t_kappa, double *grad_h,
    double *grad_kappa);

/* ---- gno_with_gradient, gno_with_laplacian, gno_with_hessian ----
 *
 * The same sum with its derivatives by the positions x_i of the destinations:
 *
 *     hid_e   = the hidden layers hid = act(U_l^T hid + b_l) of c_e = x_i - y_j or [x_i, y_j]
 *     kappa_e = hid_e . V + b_v
 *     out_i   = sum or mean over e = (j -> i) of w_e h_j . kappa_e
 *
 * geometry: difference 0, pair 1; other codes as for gno. widths are those of the n_layers hidden
 * layers; layers is [U_1 | b_1 | U_2 | b_2 | ...], U_l as [width before, width], with the width d or
 * 2 d before the first. A weight may depend on x_i: weight_derivatives has its gradient and its
 * Laplacian, or the upper triangle of its Hessian row by row, for every edge; null: 0.
 */

int gnograd_gno_with_laplacian_forward_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,           /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const float *h,                  /* [n_batch, n_src, f_in] or null */
    const float *x,                  /* [n_dst, d] */
    const float *y,                  /* [n_src, d] */
    const float *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const float *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const float *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const float *edge_weight,        /* [n_edges] or null */
    const float *weight_derivatives, /* [n_edges, d+1] or null */
    float *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    float *laplacian);               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_with_laplacian_vjp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const float *c_out,              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const float *c_gradient,         /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const float *c_laplacian,        /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    float *grad_h,                   /* [n_batch, n_src, f_in] or null */
    float *grad_x,                   /* [n_dst, d] or null */
    float *grad_y,                   /* [n_src, d] or null */
    float *grad_layers,              /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    float *grad_v,                   /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    float *grad_b_v,                 /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    float *grad_edge_weight,         /* [n_edges] or null */
    float *grad_weight_derivatives); /* [n_edges, d+1] or null */
int gnograd_gno_with_laplacian_jvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    const float *t_h,                  /* [n_batch, n_src, f_in] or null */
    const float *t_x,                  /* [n_dst, d] or null */
    const float *t_y,                  /* [n_src, d] or null */
    const float *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const float *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const float *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const float *t_edge_weight,        /* [n_edges] or null */
    const float *t_weight_derivatives, /* [n_edges, d+1] or null */
    float *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *t_gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    float *t_laplacian);               /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
int gnograd_gno_with_laplacian_hvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *c_out, const float *c_gradient, const float *c_laplacian,
    const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives, const float *t_h,
    const float *t_x, const float *t_y, const float *t_layers, const float *t_v, const float *t_b_v,
    const float *t_edge_weight, const float *t_weight_derivatives, float *grad_h, float *grad_x,
    float *grad_y, float *grad_layers, float *grad_v, float *grad_b_v, float *grad_edge_weight,
    float *grad_weight_derivatives);
int gnograd_gno_with_laplacian_forward_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    double *out, double *gradient, double *laplacian);
int gnograd_gno_with_laplacian_vjp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *c_laplacian,
    const double *h, const double *x, const double *y, const double *layers, const double *v,
    const double *b_v, const double *edge_weight, const double *weight_derivatives, double *grad_h,
    double *grad_x, double *grad_y, double *grad_layers, double *grad_v, double *grad_b_v,
    double *grad_edge_weight, double *grad_weight_derivatives);
int gnograd_gno_with_laplacian_jvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    const double *t_h, const double *t_x, const double *t_y, const double *t_layers,
    const double *t_v, const double *t_b_v, const double *t_edge_weight,
    const double *t_weight_derivatives, double *t_out, double *t_gradient, double *t_laplacian);
int gnograd_gno_with_laplacian_hvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *c_laplacian,
    const double *h, const double *x, const double *y, const double *layers, const double *v,
    const double *b_v, const double *edge_weight, const double *weight_derivatives,
    const double *t_h, const double *t_x, const double *t_y, const double *t_layers,
    const double *t_v, const double *t_b_v, const double *t_edge_weight,
    const double *t_weight_derivatives, double *grad_h, double *grad_x, double *grad_y,
    double *grad_layers, double *grad_v, double *grad_b_v, double *grad_edge_weight,
    double *grad_weight_derivatives);

int gnograd_gno_with_gradient_forward_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,           /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const float *h,                  /* [n_batch, n_src, f_in] or null */
    const float *x,                  /* [n_dst, d] */
    const float *y,                  /* [n_src, d] */
    const float *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const float *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const float *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const float *edge_weight,        /* [n_edges] or null */
    const float *weight_derivatives, /* [n_edges, d] or null */
    float *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *gradient);                /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
int gnograd_gno_with_gradient_vjp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const float *c_out,              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const float *c_gradient,         /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    float *grad_h,                   /* [n_batch, n_src, f_in] or null */
    float *grad_x,                   /* [n_dst, d] or null */
    float *grad_y,                   /* [n_src, d] or null */
    float *grad_layers,              /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    float *grad_v,                   /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    float *grad_b_v,                 /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    float *grad_edge_weight,         /* [n_edges] or null */
    float *grad_weight_derivatives); /* [n_edges, d] or null */
int gnograd_gno_with_gradient_jvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    const float *t_h,                  /* [n_batch, n_src, f_in] or null */
    const float *t_x,                  /* [n_dst, d] or null */
    const float *t_y,                  /* [n_src, d] or null */
    const float *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const float *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const float *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const float *t_edge_weight,        /* [n_edges] or null */
    const float *t_weight_derivatives, /* [n_edges, d] or null */
    float *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *t_gradient);                /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
int gnograd_gno_with_gradient_hvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *c_out, const float *c_gradient, const float *h, const float *x,
    const float *y, const float *layers, const float *v, const float *b_v, const float *edge_weight,
    const float *weight_derivatives, const float *t_h, const float *t_x, const float *t_y,
    const float *t_layers, const float *t_v, const float *t_b_v, const float *t_edge_weight,
    const float *t_weight_derivatives, float *grad_h, float *grad_x, float *grad_y,
    float *grad_layers, float *grad_v, float *grad_b_v, float *grad_edge_weight,
    float *grad_weight_derivatives);
int gnograd_gno_with_gradient_forward_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    double *out, double *gradient);
int gnograd_gno_with_gradient_vjp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *h, const double *x,
    const double *y, const double *layers, const double *v, const double *b_v,
    const double *edge_weight, const double *weight_derivatives, double *grad_h, double *grad_x,
    double *grad_y, double *grad_layers, double *grad_v, double *grad_b_v, double *grad_edge_weight,
    double *grad_weight_derivatives);
int gnograd_gno_with_gradient_jvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    const double *t_h, const double *t_x, const double *t_y, const double *t_layers,
    const double *t_v, const double *t_b_v, const double *t_edge_weight,
    const double *t_weight_derivatives, double *t_out, double *t_gradient);
int gnograd_gno_with_gradient_hvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *h, const double *x,
    const double *y, const double *layers, const double *v, const double *b_v,
    const double *edge_weight, const double *weight_derivatives, const double *t_h,
    const double *t_x, const double *t_y, const double *t_layers, const double *t_v,
    const double *t_b_v, const double *t_edge_weight, const double *t_weight_derivatives,
    double *grad_h, double *grad_x, double *grad_y, double *grad_layers, double *grad_v,
    double *grad_b_v, double *grad_edge_weight, double *grad_weight_derivatives);

int gnograd_gno_with_hessian_forward_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers,
    const int64_t *widths,           /* [n_layers] */
    int geometry, int activation, int reduction, int kernel,
    const float *h,                  /* [n_batch, n_src, f_in] or null */
    const float *x,                  /* [n_dst, d] */
    const float *y,                  /* [n_src, d] */
    const float *layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] */
    const float *v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] */
    const float *b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] */
    const float *edge_weight,        /* [n_edges] or null */
    const float *weight_derivatives, /* [n_edges, d+d*(d+1)//2] or null */
    float *out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    float *hessian);                 /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] */
int gnograd_gno_with_hessian_vjp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel,
    const float *c_out,              /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] or null */
    const float *c_gradient,         /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] or null */
    const float *c_hessian,          /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] or null */
    const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    float *grad_h,                   /* [n_batch, n_src, f_in] or null */
    float *grad_x,                   /* [n_dst, d] or null */
    float *grad_y,                   /* [n_src, d] or null */
    float *grad_layers,              /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    float *grad_v,                   /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    float *grad_b_v,                 /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    float *grad_edge_weight,         /* [n_edges] or null */
    float *grad_weight_derivatives); /* [n_edges, d+d*(d+1)//2] or null */
int gnograd_gno_with_hessian_jvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *h, const float *x, const float *y, const float *layers, const float *v,
    const float *b_v, const float *edge_weight, const float *weight_derivatives,
    const float *t_h,                  /* [n_batch, n_src, f_in] or null */
    const float *t_x,                  /* [n_dst, d] or null */
    const float *t_y,                  /* [n_src, d] or null */
    const float *t_layers,             /* [(d+1)*first_width+deeper_layers]; geometry=pair: [(2*d+1)*first_width+deeper_layers] or null */
    const float *t_v,                  /* [last_width, f_in, f_out]; kernel=diagonal: [last_width, f_in] or null */
    const float *t_b_v,                /* [f_in, f_out]; kernel=diagonal: [f_in] or null */
    const float *t_edge_weight,        /* [n_edges] or null */
    const float *t_weight_derivatives, /* [n_edges, d+d*(d+1)//2] or null */
    float *t_out,                      /* [n_batch, n_dst, f_out]; kernel=diagonal: [n_batch, n_dst, f_in] */
    float *t_gradient,                 /* [n_batch, n_dst, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, f_in] */
    float *t_hessian);                 /* [n_batch, n_dst, d, d, f_out]; kernel=diagonal: [n_batch, n_dst, d, d, f_in] */
int gnograd_gno_with_hessian_hvp_r32(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const float *c_out, const float *c_gradient, const float *c_hessian, const float *h,
    const float *x, const float *y, const float *layers, const float *v, const float *b_v,
    const float *edge_weight, const float *weight_derivatives, const float *t_h, const float *t_x,
    const float *t_y, const float *t_layers, const float *t_v, const float *t_b_v,
    const float *t_edge_weight, const float *t_weight_derivatives, float *grad_h, float *grad_x,
    float *grad_y, float *grad_layers, float *grad_v, float *grad_b_v, float *grad_edge_weight,
    float *grad_weight_derivatives);
int gnograd_gno_with_hessian_forward_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    double *out, double *gradient, double *hessian);
int gnograd_gno_with_hessian_vjp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *c_hessian,
    const double *h, const double *x, const double *y, const double *layers, const double *v,
    const double *b_v, const double *edge_weight, const double *weight_derivatives, double *grad_h,
    double *grad_x, double *grad_y, double *grad_layers, double *grad_v, double *grad_b_v,
    double *grad_edge_weight, double *grad_weight_derivatives);
int gnograd_gno_with_hessian_jvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *h, const double *x, const double *y, const double *layers,
    const double *v, const double *b_v, const double *edge_weight, const double *weight_derivatives,
    const double *t_h, const double *t_x, const double *t_y, const double *t_layers,
    const double *t_v, const double *t_b_v, const double *t_edge_weight,
    const double *t_weight_derivatives, double *t_out, double *t_gradient, double *t_hessian);
int gnograd_gno_with_hessian_hvp_r64(
    const gnograd_graph *graph, int64_t n_batch, int64_t d, int64_t f_in, int64_t f_out,
    int64_t n_layers, const int64_t *widths, int geometry, int activation, int reduction,
    int kernel, const double *c_out, const double *c_gradient, const double *c_hessian,
    const double *h, const double *x, const double *y, const double *layers, const double *v,
    const double *b_v, const double *edge_weight, const double *weight_derivatives,
    const double *t_h, const double *t_x, const double *t_y, const double *t_layers,
    const double *t_v, const double *t_b_v, const double *t_edge_weight,
    const double *t_weight_derivatives, double *grad_h, double *grad_x, double *grad_y,
    double *grad_layers, double *grad_v, double *grad_b_v, double *grad_edge_weight,
    double *grad_weight_derivatives);

/* ---- gno_deep ----
 *
 * The diagonal sum with a kernel network of several layers:
 *
 *     k_e   = act(... act([y_j, x_i, c_e] U_1 + b_1) ...) U_n + b_n
 *     out_i = sum or mean over e = (j -> i) of w_e k_e * h_j
 *
 * Codes as for gno. widths are those of the n_layers layers, of which the last is f_out; layers is
 * [U_1 | b_1 | U_2 | b_2 | ...], U_l as [width before, width], with n_in = d_y + d_x + d_c before the
 * first. h has n_batch functions side by side; null: 1, and n_batch 0.
 */

int gnograd_gno_deep_forward_r32(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers,
    const int64_t *widths,    /* [n_layers] */
    int activation, int reduction,
    const float *h,           /* [n_src, n_functions*f_out] or null */
    const float *y,           /* [n_src, d_y] or null */
    const float *x,           /* [n_dst, d_x] or null */
    const float *c,           /* [n_edges, d_c] or null */
    const float *layers,      /* [(n_in+1)*first_width+deeper_layers] */
    const float *edge_weight, /* [n_edges] or null */
    float *out);              /* [n_dst, max(n_functions,1)*f_out] */
int gnograd_gno_deep_vjp_r32(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const float *cotangent,   /* [n_dst, max(n_functions,1)*f_out] */
    const float *h, const float *y, const float *x, const float *c, const float *layers,
    const float *edge_weight,
    float *grad_h,            /* [n_src, n_functions*f_out] or null */
    float *grad_y,            /* [n_src, d_y] or null */
    float *grad_x,            /* [n_dst, d_x] or null */
    float *grad_c,            /* [n_edges, d_c] or null */
    float *grad_layers,       /* [(n_in+1)*first_width+deeper_layers] or null */
    float *grad_edge_weight); /* [n_edges] or null */
int gnograd_gno_deep_jvp_r32(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const float *h, const float *y, const float *x, const float *c, const float *layers,
    const float *edge_weight,
    const float *t_h,           /* [n_src, n_functions*f_out] or null */
    const float *t_y,           /* [n_src, d_y] or null */
    const float *t_x,           /* [n_dst, d_x] or null */
    const float *t_c,           /* [n_edges, d_c] or null */
    const float *t_layers,      /* [(n_in+1)*first_width+deeper_layers] or null */
    const float *t_edge_weight, /* [n_edges] or null */
    float *t_out);              /* [n_dst, max(n_functions,1)*f_out] */
int gnograd_gno_deep_hvp_r32(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const float *cotangent, const float *h, const float *y, const float *x, const float *c,
    const float *layers, const float *edge_weight, const float *t_h, const float *t_y,
    const float *t_x, const float *t_c, const float *t_layers, const float *t_edge_weight,
    float *grad_h, float *grad_y, float *grad_x, float *grad_c, float *grad_layers,
    float *grad_edge_weight);
int gnograd_gno_deep_forward_r64(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const double *h, const double *y, const double *x, const double *c, const double *layers,
    const double *edge_weight, double *out);
int gnograd_gno_deep_vjp_r64(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const double *cotangent, const double *h, const double *y, const double *x, const double *c,
    const double *layers, const double *edge_weight, double *grad_h, double *grad_y, double *grad_x,
    double *grad_c, double *grad_layers, double *grad_edge_weight);
int gnograd_gno_deep_jvp_r64(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const double *h, const double *y, const double *x, const double *c, const double *layers,
    const double *edge_weight, const double *t_h, const double *t_y, const double *t_x,
    const double *t_c, const double *t_layers, const double *t_edge_weight, double *t_out);
int gnograd_gno_deep_hvp_r64(
    const gnograd_graph *graph, int64_t n_functions, int64_t d_y, int64_t d_x, int64_t d_c,
    int64_t n_in, int64_t n_layers, const int64_t *widths, int activation, int reduction,
    const double *cotangent, const double *h, const double *y, const double *x, const double *c,
    const double *layers, const double *edge_weight, const double *t_h, const double *t_y,
    const double *t_x, const double *t_c, const double *t_layers, const double *t_edge_weight,
    double *grad_h, double *grad_y, double *grad_x, double *grad_c, double *grad_layers,
    double *grad_edge_weight);

/* ---- edge_mlp ----
 *
 * A network on the edges p = (j -> i), and its sum at their destinations:
 *
 *     z_p     = e_p W_e + x_src_j W_s + x_dst_i W_d + b_0
 *     m_p     = act(... act(z_p) W_1 + b_1 ...) W_L + b_L, then normalised if layer_norm is not 0
 *     edges_p = e_p + m_p if residual is not 0, else m_p
 *     nodes_i = sum or mean of edge_weight_p edges_p; the mean divides by the sum of the weights
 *
 * outputs: both 0, edges 1, nodes 2; a result that is not asked for is a null pointer, and so is its
 * cotangent. Other codes as for gno. widths are those of the n_layers layers, of which the last is
 * f_out; n_in = f_e + f_s + f_d, and with residual f_e = f_out. weights is
 * [W_e | W_s | W_d | b_0 | W_1 | b_1 | ... | gamma | beta], the last two if layer_norm is not 0.
 */

int gnograd_edge_mlp_forward_r32(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers,
    const int64_t *widths,    /* [n_layers] */
    int activation, int layer_norm, int residual, int reduction, int outputs,
    const float *e,           /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    const float *x_src,       /* [n_src, f_s] or null */
    const float *x_dst,       /* [n_dst, f_d] or null */
    const float *weights,     /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] */
    const float *edge_weight, /* [n_edges] or null */
    float *edges,             /* [n_edges, f_out]; outputs=nodes: null */
    float *nodes);            /* [n_dst, f_out]; outputs=edges: null */
int gnograd_edge_mlp_vjp_r32(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs,
    const float *c_edges,     /* [n_edges, f_out] or null */
    const float *c_nodes,     /* [n_dst, f_out] or null */
    const float *e, const float *x_src, const float *x_dst, const float *weights,
    const float *edge_weight,
    float *grad_e,            /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    float *grad_x_src,        /* [n_src, f_s] or null */
    float *grad_x_dst,        /* [n_dst, f_d] or null */
    float *grad_weights,      /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] or null */
    float *grad_edge_weight); /* [n_edges] or null */
int gnograd_edge_mlp_jvp_r32(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const float *e, const float *x_src, const float *x_dst,
    const float *weights, const float *edge_weight,
    const float *t_e,           /* [n_edges, f_e]; residual=True: [n_edges, f_out] or null */
    const float *t_x_src,       /* [n_src, f_s] or null */
    const float *t_x_dst,       /* [n_dst, f_d] or null */
    const float *t_weights,     /* [(n_in+1)*first_width+deeper_layers]; layer_norm=True: [(n_in+1)*first_width+deeper_layers+2*f_out] or null */
    const float *t_edge_weight, /* [n_edges] or null */
    float *t_edges,             /* [n_edges, f_out]; outputs=nodes: null */
    float *t_nodes);            /* [n_dst, f_out]; outputs=edges: null */
int gnograd_edge_mlp_hvp_r32(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const float *c_edges, const float *c_nodes, const float *e,
    const float *x_src, const float *x_dst, const float *weights, const float *edge_weight,
    const float *t_e, const float *t_x_src, const float *t_x_dst, const float *t_weights,
    const float *t_edge_weight, float *grad_e, float *grad_x_src, float *grad_x_dst,
    float *grad_weights, float *grad_edge_weight);
int gnograd_edge_mlp_forward_r64(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const double *e, const double *x_src, const double *x_dst,
    const double *weights, const double *edge_weight, double *edges, double *nodes);
int gnograd_edge_mlp_vjp_r64(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const double *c_edges, const double *c_nodes, const double *e,
    const double *x_src, const double *x_dst, const double *weights, const double *edge_weight,
    double *grad_e, double *grad_x_src, double *grad_x_dst, double *grad_weights,
    double *grad_edge_weight);
int gnograd_edge_mlp_jvp_r64(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const double *e, const double *x_src, const double *x_dst,
    const double *weights, const double *edge_weight, const double *t_e, const double *t_x_src,
    const double *t_x_dst, const double *t_weights, const double *t_edge_weight, double *t_edges,
    double *t_nodes);
int gnograd_edge_mlp_hvp_r64(
    const gnograd_graph *graph, int64_t f_e, int64_t f_s, int64_t f_d, int64_t n_in,
    int64_t n_layers, const int64_t *widths, int activation, int layer_norm, int residual,
    int reduction, int outputs, const double *c_edges, const double *c_nodes, const double *e,
    const double *x_src, const double *x_dst, const double *weights, const double *edge_weight,
    const double *t_e, const double *t_x_src, const double *t_x_dst, const double *t_weights,
    const double *t_edge_weight, double *grad_e, double *grad_x_src, double *grad_x_dst,
    double *grad_weights, double *grad_edge_weight);

/* ---- automatic differentiation ----
 *
 * A tape keeps arrays and how they were computed. An array is an integer; 0 says that an operation
 * failed: gnograd_tape_error tells why, and nothing is computed until it was asked. A tape is used
 * by one thread at a time. Extents and axes are those of C order; negative axes count from the
 * end.
 *
 * The integers of arrays are different for all tapes of a process: one that is freed by a rewind, or
 * of another tape, is an error wherever it is used. A tape itself must not be used after it was
 * freed; graphs and optimizers may be freed before or after the tapes that they were used with.
 */

typedef struct gnograd_tape gnograd_tape;

int gnograd_tape_create(gnograd_tape **tape);

/* Free a tape and all its arrays; null is ignored. */
void gnograd_tape_free(gnograd_tape *tape);

/* Status of the first error since the last call, which is forgotten. */
int gnograd_tape_error(gnograd_tape *tape);

/* The present end of the tape, and the way back: arrays made since the mark are freed; nothing
 * happens where the tape is shorter. */
int64_t gnograd_tape_mark(gnograd_tape *tape);
void gnograd_tape_rewind(gnograd_tape *tape, int64_t mark);

/* Gradients of a loss with one element, kept in all parameters: set, or added if add is not 0. After
 * an error there are none, also not of an earlier call. */
int gnograd_tape_backward(gnograd_tape *tape, int64_t loss, int add);

/* Gradients of a loss as arrays; with create_graph they can be differentiated again. */
int gnograd_tape_gradient(
    gnograd_tape *tape, int64_t loss,
    int64_t n,
    const int64_t *arrays,  /* [n] */
    int create_graph,
    int64_t *gradients);    /* [n] */

/* A new array of kind 32 (float) or 64 (double); the values are copied. */
int64_t gnograd_array_leaf(
    gnograd_tape *tape, int kind, int requires_grad,
    int rank,
    const int64_t *extents, /* [rank] */
    const void *data);

/* A constant with one element, of the kind of another array. */
int64_t gnograd_array_scalar(gnograd_tape *tape, int64_t like, double number);

/* Kind, whether a gradient is needed, rank, extents. */
int gnograd_array_info(gnograd_tape *tape, int64_t x, int64_t *info /* [7] */);

/* Copy values out, gradients of the last backward out (zeros if there are none), values in: of
 * what was computed from an array before its values changed there is no gradient, which is an
 * error. Gradients in, of parameters: optimizers take them from there. */
int gnograd_array_value(gnograd_tape *tape, int64_t x, void *data);
int gnograd_array_grad(gnograd_tape *tape, int64_t x, void *data);
int gnograd_array_set_value(gnograd_tape *tape, int64_t x, const void *data);
int gnograd_array_set_grad(gnograd_tape *tape, int64_t x, const void *data);

/* A name for a parameter or constant, which is copied; an empty one takes it away. Names are UTF-8, and
 * not __metadata__. */
int gnograd_array_set_name(gnograd_tape *tape, int64_t x, const char *name);

/* All arrays with a name to a safetensors file, from which Python, PyTorch and others read them; a
 * parameter without one is an error, and so are two with one name. The file appears whole, and is on
 * the disk then, or what was there stays; its name does not end with a blank. And their
 * values from such a file: names and extents are compared first, so that after an error all values
 * are as they were. A file of floats fills doubles. If strict is not 0, the file must have all
 * arrays that have a name, and no other; else what both have is taken. */
int gnograd_tape_save(gnograd_tape *tape, const char *filename);
int gnograd_tape_load(gnograd_tape *tape, const char *filename, int strict);

/* Element by element; extents of 1 are repeated, as in NumPy. */
int64_t gnograd_array_add(gnograd_tape *tape, int64_t a, int64_t b);
int64_t gnograd_array_subtract(gnograd_tape *tape, int64_t a, int64_t b);
int64_t gnograd_array_multiply(gnograd_tape *tape, int64_t a, int64_t b);
int64_t gnograd_array_divide(gnograd_tape *tape, int64_t a, int64_t b);
int64_t gnograd_array_power(gnograd_tape *tape, int64_t a, int64_t b);
int64_t gnograd_array_monomial(gnograd_tape *tape, int64_t x, double exponent);
int64_t gnograd_array_negative(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_exp(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_log(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_sqrt(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_sin(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_cos(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_tanh(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_relu(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_gelu(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_silu(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_sigmoid(gnograd_tape *tape, int64_t x);

/* Matrices, or a matrix and a vector. */
int64_t gnograd_array_matmul(gnograd_tape *tape, int64_t a, int64_t b);

/* Sum, mean and norm, sqrt(sum(x**2)), over all elements or along an axis; softmax along an axis. */
int64_t gnograd_array_sum(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_sum_axis(gnograd_tape *tape, int64_t x, int axis, int keepdims);
int64_t gnograd_array_mean(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_mean_axis(gnograd_tape *tape, int64_t x, int axis, int keepdims);
int64_t gnograd_array_norm(gnograd_tape *tape, int64_t x);
int64_t gnograd_array_norm_axis(gnograd_tape *tape, int64_t x, int axis, int keepdims);
int64_t gnograd_array_softmax(gnograd_tape *tape, int64_t x, int axis);

int64_t gnograd_array_reshape(
    gnograd_tape *tape, int64_t x, int rank,
    const int64_t *extents); /* [rank] */
int64_t gnograd_array_transpose(
    gnograd_tape *tape, int64_t x, int rank,
    const int64_t *axes);    /* [rank] permutation: axis k of the result is axes[k] of x */

/* Elements first, first + step, ... of every axis; no step is 0. */
int64_t gnograd_array_slice(
    gnograd_tape *tape, int64_t x, int rank,
    const int64_t *first, const int64_t *count, const int64_t *step); /* [rank] each */
int64_t gnograd_array_concatenate(
    gnograd_tape *tape,
    int64_t n,
    const int64_t *arrays, /* [n] */
    int axis);

/* Rows of x (entries of its first axis); a row may be taken several times. */
int64_t gnograd_array_gather(
    gnograd_tape *tape, int64_t x,
    int64_t n,
    const int64_t *rows); /* [n] */

/* A linear map that the program brings: n_in rows of `width` numbers of a kind (32 or 64) become
 * n_out, or n_out become n_in by the transposed map, each column by itself. Where there are no
 * numbers the address is null. Returns 0, or the status that the tape's error is to have. It must
 * not use the tape. */
typedef int gnograd_linear_map(
    void *context, int transposed, int kind, int64_t width,
    int64_t n_in,
    const void *rows_in, /* [n_in, width] */
    int64_t n_out,
    void *rows_out);     /* [n_out, width], all of it to be filled */

/* Rows (entries of the first axis) made of those of x by a map. It is called here, and again by
 * gnograd_tape_backward and gnograd_tape_gradient, transposed to pull back, until the array is freed
 * by a rewind or with the tape. */
int64_t gnograd_array_linear_map(
    gnograd_tape *tape, int64_t x, int64_t n_rows, gnograd_linear_map *map, void *context);

/* The operators of this header on arrays of a tape; 0 is an absent array, as null is elsewhere. Of
 * several results the first is returned, and `others` gets the rest. Nothing is kept of lists and
 * static arrays. */

int64_t gnograd_array_agg_weighted(
    gnograd_tape *tape, const gnograd_graph *graph, int aggregation, int64_t x, int64_t w);
int64_t gnograd_array_agg_simple(
    gnograd_tape *tape, const gnograd_graph *graph, int aggregation, int64_t x, int64_t e);
int64_t gnograd_array_agg_concat(
    gnograd_tape *tape, const gnograd_graph *graph, int aggregation, int64_t x, int64_t w,
    int64_t e, int64_t own);
int64_t gnograd_array_mha_gat(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_heads, int concat_heads,
    int activation, double negative_slope, double dropout,
    const int64_t *seed, /* [1] or null */
    int64_t x_src, int64_t x_dst, int64_t a, int64_t e);
int64_t gnograd_array_mha_gat_v2(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_heads, int concat_heads,
    int activation, double negative_slope, double dropout,
    const int64_t *seed, /* [1] or null */
    int64_t x_src, int64_t x_dst, int64_t a, int64_t e);
int64_t gnograd_array_mha_simple(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_heads, int concat_heads,
    int norm_by_dim, double dropout,
    const int64_t *seed, /* [1] or null */
    int64_t q, int64_t k, int64_t v, int64_t e);
int64_t gnograd_array_edge_softmax(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t s);
int64_t gnograd_array_radial_basis(
    gnograd_tape *tape, int64_t n_spherical, int64_t exponent, int64_t x, int64_t w,
    int64_t *others); /* [1] sbf */
int64_t gnograd_array_agg_edge_to_edge(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial,
    int exclude, int64_t vector, int64_t rbf, int64_t embedding, int64_t weights);
int64_t gnograd_array_edge_mlp(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_layers,
    const int64_t *widths, /* [n_layers] */
    int activation, int layer_norm, int residual, int reduction, int outputs, int64_t e,
    int64_t x_src, int64_t x_dst, int64_t weights, int64_t edge_weight,
    int64_t *others);      /* [1] nodes */
int64_t gnograd_array_update_edges(
    gnograd_tape *tape, const gnograd_graph *graph, int mode, int64_t e, int64_t x_src,
    int64_t x_dst);
int64_t gnograd_array_gno_kernel(
    gnograd_tape *tape, int activation, int64_t coords, int64_t u, int64_t b_u, int64_t v,
    int64_t b_v);
int64_t gnograd_array_gno_aggregate(
    gnograd_tape *tape, const gnograd_graph *graph, int reduction, int64_t h, int64_t kappa);
int64_t gnograd_array_gno_contract(
    gnograd_tape *tape, const gnograd_graph *graph, int reduction, int kernel, int64_t h,
    int64_t hid, int64_t v, int64_t b_v, int64_t edge_weight);
int64_t gnograd_array_gno(
    gnograd_tape *tape, const gnograd_graph *graph, int activation, int reduction, int kernel,
    int64_t h, int64_t coords, int64_t u, int64_t b_u, int64_t v, int64_t b_v, int64_t edge_weight);
int64_t gnograd_array_gno_deep(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_layers,
    const int64_t *widths, /* [n_layers] */
    int activation, int reduction, int64_t h, int64_t y, int64_t x, int64_t c, int64_t layers,
    int64_t edge_weight);
int64_t gnograd_array_gno_with_laplacian(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_layers,
    const int64_t *widths, /* [n_layers] */
    int geometry, int activation, int reduction, int kernel, int64_t h, int64_t x, int64_t y,
    int64_t layers, int64_t v, int64_t b_v, int64_t edge_weight, int64_t weight_derivatives,
    int64_t *others);      /* [2] gradient, laplacian */
int64_t gnograd_array_gno_with_gradient(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_layers,
    const int64_t *widths, /* [n_layers] */
    int geometry, int activation, int reduction, int kernel, int64_t h, int64_t x, int64_t y,
    int64_t layers, int64_t v, int64_t b_v, int64_t edge_weight, int64_t weight_derivatives,
    int64_t *others);      /* [1] gradient */
int64_t gnograd_array_gno_with_hessian(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_layers,
    const int64_t *widths, /* [n_layers] */
    int geometry, int activation, int reduction, int kernel, int64_t h, int64_t x, int64_t y,
    int64_t layers, int64_t v, int64_t b_v, int64_t edge_weight, int64_t weight_derivatives,
    int64_t *others);      /* [2] gradient, hessian */
int64_t gnograd_array_offset_moments(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t x, int64_t y);
int64_t gnograd_array_selected_attention(
    gnograd_tape *tape, int64_t n_queries, int64_t n_heads, int64_t n_slots, int64_t n_sequences,
    const int32_t *block_index, /* [(n_queries+query_block-1)//query_block, n_heads, n_slots] */
    const int64_t *cu_q,        /* [n_sequences+1] or null */
    const int64_t *cu_k,        /* [n_sequences+1] or null */
    int64_t block_size, double scale, int causal, int64_t q_offset, int64_t query_block,
    int duplicates, int64_t q, int64_t k, int64_t v, int64_t slot_gate);
int64_t gnograd_array_compressed_attention(
    gnograd_tape *tape, int64_t n_sequences,
    const int64_t *cu_q, /* [n_sequences+1] or null */
    const int64_t *cu_k, /* [n_sequences+1] or null */
    int64_t block, int64_t stride, double scale, int causal, int64_t q_offset, int64_t q, int64_t k,
    int64_t v,
    int64_t *others);    /* [1] lse */
int64_t gnograd_array_window_attention(
    gnograd_tape *tape, int64_t n_sequences,
    const int64_t *cu_q, /* [n_sequences+1] or null */
    const int64_t *cu_k, /* [n_sequences+1] or null */
    int64_t window, double scale, int causal, int64_t q_offset, int64_t q, int64_t k, int64_t v,
    int64_t positions_q, int64_t positions_k, int64_t slope);
int64_t gnograd_array_compress(
    gnograd_tape *tape, int64_t n_sequences,
    const int64_t *cu, /* [n_sequences+1] or null */
    int64_t stride, int64_t x, int64_t w);
int64_t gnograd_array_agg_relational(
    gnograd_tape *tape, const gnograd_graph *graph, int64_t n_relations,
    const int32_t *edge_type, /* [n_edges] */
    int aggregation, int64_t x, int64_t w, int64_t coeff, int64_t own);

/* Optimizers move parameters along the gradients of the last backward. */
typedef struct gnograd_optimizer gnograd_optimizer;

int gnograd_adam_create(
    gnograd_tape *tape,
    int64_t n,
    const int64_t *parameters, /* [n] */
    double lr, double beta1, double beta2, double eps, double weight_decay,
    gnograd_optimizer **optimizer);
int gnograd_sgd_create(
    gnograd_tape *tape,
    int64_t n,
    const int64_t *parameters, /* [n] */
    double lr, double momentum,
    gnograd_optimizer **optimizer);
void gnograd_optimizer_free(gnograd_optimizer *optimizer);

/* One step. Nothing moves, and the status says why, after a backward that has failed (until one
 * succeeds that does not add), or if the tape has an error, which is forgotten then. */
int gnograd_optimizer_step(gnograd_optimizer *optimizer, double lr);

/* For checkpoints: steps taken, and the running averages of a parameter (Adam: mean, mean square;
 * SGD: momentum), copied out, or in if write is not 0. */
int64_t gnograd_optimizer_steps(gnograd_optimizer *optimizer);
void gnograd_optimizer_set_steps(gnograd_optimizer *optimizer, int64_t steps);
int gnograd_optimizer_slot(
    gnograd_optimizer *optimizer, int slot, int64_t parameter, int write, void *data);
/* ---- DimeNet++ ---- */

/* rbf[e, n] = u(x) sin(w_n x)/x and sbf[e, l*n_radial + n] = u(x) N_ln j_l(z_ln x)/x for 0 < x < 1,
 * else 0; u is the envelope of order exponent+1, z_ln the n-th zero of the spherical Bessel function
 * j_l, N_ln = sqrt(2)/|j_l+1(z_ln)|. n_spherical <= 10, n_radial <= 16. */

int gnograd_radial_basis_forward_r32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent,
    const float *x, /* [n_edges, 1] */
    const float *w, /* [n_radial] */
    float *rbf,     /* [n_edges, n_radial] */
    float *sbf);    /* [n_edges, n_spherical*n_radial] */
int gnograd_radial_basis_vjp_r32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent,
    const float *c_rbf, /* [n_edges, n_radial] or null */
    const float *c_sbf, /* [n_edges, n_spherical*n_radial] or null */
    const float *x, const float *w,
    float *grad_x,      /* [n_edges, 1] or null */
    float *grad_w);     /* [n_radial] or null */
int gnograd_radial_basis_jvp_r32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const float *x,
    const float *w,
    const float *t_x, /* [n_edges, 1] or null */
    const float *t_w, /* [n_radial] or null */
    float *t_rbf,     /* [n_edges, n_radial] */
    float *t_sbf);    /* [n_edges, n_spherical*n_radial] */
int gnograd_radial_basis_hvp_r32(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const float *c_rbf,
    const float *c_sbf, const float *x, const float *w, const float *t_x, const float *t_w,
    float *grad_x, float *grad_w);
int gnograd_radial_basis_forward_r64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const double *x,
    const double *w, double *rbf, double *sbf);
int gnograd_radial_basis_vjp_r64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const double *c_rbf,
    const double *c_sbf, const double *x, const double *w, double *grad_x, double *grad_w);
int gnograd_radial_basis_jvp_r64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const double *x,
    const double *w, const double *t_x, const double *t_w, double *t_rbf, double *t_sbf);
int gnograd_radial_basis_hvp_r64(
    int64_t n_edges, int64_t n_spherical, int64_t n_radial, int64_t exponent, const double *c_rbf,
    const double *c_sbf, const double *x, const double *w, const double *t_x, const double *t_w,
    double *grad_x, double *grad_w);

/* out[e] = sum over the edges e' = (k -> j) that end where e = (j -> i) starts of
 * embedding[e'] o W2 . (W1^T (rbf[e'] o Y)), with Y_l = sqrt((2l+1)/(4 pi)) P_l(cos) of the angle
 * between the vectors of e' and e, and weights = [W1; W2]. The graph's sources and destinations are
 * the same nodes; edge arrays are in the order of its edge table. n_spherical <= 10,
 * n_radial <= 16, n_mid <= 64, n_emb <= 512.
 * exclude: 0 leaves out e' where it is e walked backwards, 1 every e' with k = i, 2 none. A vector
 * without length has Y_0 only. */

int gnograd_agg_edge_to_edge_forward_r32(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude,
    const float *vector,    /* [n_edges, 3] */
    const float *rbf,       /* [n_edges, n_spherical*n_radial] */
    const float *embedding, /* [n_edges, n_emb] */
    const float *weights,   /* [n_spherical*n_radial+n_emb, n_mid] */
    float *out);            /* [n_edges, n_emb] */
int gnograd_agg_edge_to_edge_vjp_r32(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude,
    const float *cotangent, /* [n_edges, n_emb] */
    const float *vector, const float *rbf, const float *embedding, const float *weights,
    float *grad_vector,     /* [n_edges, 3] or null */
    float *grad_rbf,        /* [n_edges, n_spherical*n_radial] or null */
    float *grad_embedding,  /* [n_edges, n_emb] or null */
    float *grad_weights);   /* [n_spherical*n_radial+n_emb, n_mid] or null */
int gnograd_agg_edge_to_edge_jvp_r32(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const float *vector, const float *rbf, const float *embedding,
    const float *weights,
    const float *t_vector,    /* [n_edges, 3] or null */
    const float *t_rbf,       /* [n_edges, n_spherical*n_radial] or null */
    const float *t_embedding, /* [n_edges, n_emb] or null */
    const float *t_weights,   /* [n_spherical*n_radial+n_emb, n_mid] or null */
    float *t_out);            /* [n_edges, n_emb] */
int gnograd_agg_edge_to_edge_hvp_r32(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const float *cotangent, const float *vector, const float *rbf,
    const float *embedding, const float *weights, const float *t_vector, const float *t_rbf,
    const float *t_embedding, const float *t_weights, float *grad_vector, float *grad_rbf,
    float *grad_embedding, float *grad_weights);
int gnograd_agg_edge_to_edge_forward_r64(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const double *vector, const double *rbf, const double *embedding,
    const double *weights, double *out);
int gnograd_agg_edge_to_edge_vjp_r64(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const double *cotangent, const double *vector, const double *rbf,
    const double *embedding, const double *weights, double *grad_vector, double *grad_rbf,
    double *grad_embedding, double *grad_weights);
int gnograd_agg_edge_to_edge_jvp_r64(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const double *vector, const double *rbf, const double *embedding,
    const double *weights, const double *t_vector, const double *t_rbf, const double *t_embedding,
    const double *t_weights, double *t_out);
int gnograd_agg_edge_to_edge_hvp_r64(
    const gnograd_graph *graph, int64_t n_spherical, int64_t n_radial, int64_t n_mid, int64_t n_emb,
    int exclude, const double *cotangent, const double *vector, const double *rbf,
    const double *embedding, const double *weights, const double *t_vector, const double *t_rbf,
    const double *t_embedding, const double *t_weights, double *grad_vector, double *grad_rbf,
    double *grad_embedding, double *grad_weights);

/* ---- native sparse attention ----
 *
 * Queries q [n_queries, n_query_heads, d_k] see keys k [n_keys, n_heads, d_k] with values
 * v [n_keys, n_heads, d_v]; query head h belongs to key/value head h / (n_query_heads/n_heads).
 * With x = scale q . k over the visible keys, out = softmax(x) v [n_queries, n_query_heads, d_v]
 * and lse = ln(sum(exp(x))) [n_queries, n_query_heads]; a query that sees no key has out = 0 and
 * lse = -infinity. Head dimensions go to 256.
 *
 * Tokens may be those of several sequences: cu_q and cu_k [n_sequences+1] rise from 0 to n_queries
 * and n_keys; null is one sequence. With causal not 0, the query at position s of its sequence
 * sees the keys up to position s + q_offset.
 *
 * selected_attention: the keys of a sequence are cut into blocks of block_size (1 to 256). Query t
 * sees the blocks block_index[t / query_block, head, :] of its sequence, -1 is an empty slot;
 * `duplicates` is one of enum gnograd_duplicates. slot_gate, if there is one, multiplies exp(x) in
 * the blocks of a slot; gates are not negative.
 * compressed_attention: keys stand for `block` tokens each, one every `stride` tokens; causal, one
 * is visible if its last token is. Here lse is an output with a cotangent, or null.
 * window_attention: causal, the last `window` keys; not causal, the keys of a ball, `window` tokens
 * of the sequence; 0 is no limit.
 * compress: out[c, h, :] = sum over i < block of w[i, h] x[c stride + i, h, :] in every sequence of
 * at least `block` tokens; cu [n_sequences+1] borders those of x. n_compressed is the number of all
 * compressed tokens, floor((length - block)/stride) + 1 of a sequence.
 * select_blocks: for every query_block queries and every key/value head the n_slots blocks of
 * block_size tokens that get most attention, exp(scale q . k - lse), through the compressed tokens k
 * that overlap them; the lower number first among equals, -1 where none is left. Here cu_k borders
 * the n_keys tokens that were compressed. The own block of a query at position s of its sequence is
 * that of token s + q_offset. Always chosen are first_blocks at the start of the sequence, and
 * local_blocks that end with the own block; with exclude_own, never the own block; with causal, no
 * block that begins after the query.
 *
 * A vjp recomputes out and lse if they are null.
 */

enum gnograd_duplicates {
    GNOGRAD_IGNORE = 0, /* a block named twice counts once */
    GNOGRAD_REFUSE = 1, /* it is an error */
    GNOGRAD_COUNT = 2   /* it counts twice */
};

int gnograd_selected_attention_forward_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences,
    const int32_t *block_index, /* [(n_queries+query_block-1)//query_block, n_heads, n_slots] */
    const int64_t *cu_q,        /* [n_sequences+1] or null */
    const int64_t *cu_k,        /* [n_sequences+1] or null */
    int64_t block_size, double scale, int causal, int64_t q_offset, int64_t query_block,
    int duplicates,
    const float *q,             /* [n_queries, n_query_heads, d_k] */
    const float *k,             /* [n_keys, n_heads, d_k] */
    const float *v,             /* [n_keys, n_heads, d_v] */
    const float *slot_gate,     /* [n_queries, n_heads, n_slots] or null */
    float *out,                 /* [n_queries, n_query_heads, d_v] */
    float *lse);                /* [n_queries, n_query_heads] or null */
int gnograd_selected_attention_vjp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates,
    const float *cotangent, /* [n_queries, n_query_heads, d_v] */
    const float *q, const float *k, const float *v, const float *slot_gate, const float *out,
    const float *lse,
    float *grad_q,          /* [n_queries, n_query_heads, d_k] or null */
    float *grad_k,          /* [n_keys, n_heads, d_k] or null */
    float *grad_v,          /* [n_keys, n_heads, d_v] or null */
    float *grad_slot_gate); /* [n_queries, n_heads, n_slots] or null */
int gnograd_selected_attention_jvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const float *q, const float *k,
    const float *v, const float *slot_gate,
    const float *t_q,         /* [n_queries, n_query_heads, d_k] or null */
    const float *t_k,         /* [n_keys, n_heads, d_k] or null */
    const float *t_v,         /* [n_keys, n_heads, d_v] or null */
    const float *t_slot_gate, /* [n_queries, n_heads, n_slots] or null */
    float *t_out);            /* [n_queries, n_query_heads, d_v] */
int gnograd_selected_attention_hvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const float *cotangent, const float *q,
    const float *k, const float *v, const float *slot_gate, const float *t_q, const float *t_k,
    const float *t_v, const float *t_slot_gate, float *grad_q, float *grad_k, float *grad_v,
    float *grad_slot_gate);
int gnograd_selected_attention_forward_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const double *q, const double *k,
    const double *v, const double *slot_gate, double *out, double *lse);
int gnograd_selected_attention_vjp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const double *cotangent, const double *q,
    const double *k, const double *v, const double *slot_gate, const double *out, const double *lse,
    double *grad_q, double *grad_k, double *grad_v, double *grad_slot_gate);
int gnograd_selected_attention_jvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const double *q, const double *k,
    const double *v, const double *slot_gate, const double *t_q, const double *t_k,
    const double *t_v, const double *t_slot_gate, double *t_out);
int gnograd_selected_attention_hvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_slots, int64_t n_sequences, const int32_t *block_index,
    const int64_t *cu_q, const int64_t *cu_k, int64_t block_size, double scale, int causal,
    int64_t q_offset, int64_t query_block, int duplicates, const double *cotangent, const double *q,
    const double *k, const double *v, const double *slot_gate, const double *t_q, const double *t_k,
    const double *t_v, const double *t_slot_gate, double *grad_q, double *grad_k, double *grad_v,
    double *grad_slot_gate);

int gnograd_compressed_attention_forward_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const int64_t *cu_q, /* [n_sequences+1] or null */
    const int64_t *cu_k, /* [n_sequences+1] or null */
    int64_t block, int64_t stride, double scale, int causal, int64_t q_offset,
    const float *q,      /* [n_queries, n_query_heads, d_k] */
    const float *k,      /* [n_keys, n_heads, d_k] */
    const float *v,      /* [n_keys, n_heads, d_v] */
    float *out,          /* [n_queries, n_query_heads, d_v] */
    float *lse);         /* [n_queries, n_query_heads] */
int gnograd_compressed_attention_vjp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset,
    const float *c_out, /* [n_queries, n_query_heads, d_v] or null */
    const float *c_lse, /* [n_queries, n_query_heads] or null */
    const float *q, const float *k, const float *v, const float *out, const float *lse,
    float *grad_q,      /* [n_queries, n_query_heads, d_k] or null */
    float *grad_k,      /* [n_keys, n_heads, d_k] or null */
    float *grad_v);     /* [n_keys, n_heads, d_v] or null */
int gnograd_compressed_attention_jvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const float *q, const float *k,
    const float *v,
    const float *t_q, /* [n_queries, n_query_heads, d_k] or null */
    const float *t_k, /* [n_keys, n_heads, d_k] or null */
    const float *t_v, /* [n_keys, n_heads, d_v] or null */
    float *t_out,     /* [n_queries, n_query_heads, d_v] */
    float *t_lse);    /* [n_queries, n_query_heads] */
int gnograd_compressed_attention_hvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const float *c_out,
    const float *c_lse, const float *q, const float *k, const float *v, const float *t_q,
    const float *t_k, const float *t_v, float *grad_q, float *grad_k, float *grad_v);
int gnograd_compressed_attention_forward_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const double *q, const double *k,
    const double *v, double *out, double *lse);
int gnograd_compressed_attention_vjp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const double *c_out,
    const double *c_lse, const double *q, const double *k, const double *v, const double *out,
    const double *lse, double *grad_q, double *grad_k, double *grad_v);
int gnograd_compressed_attention_jvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const double *q, const double *k,
    const double *v, const double *t_q, const double *t_k, const double *t_v, double *t_out,
    double *t_lse);
int gnograd_compressed_attention_hvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k, int64_t block,
    int64_t stride, double scale, int causal, int64_t q_offset, const double *c_out,
    const double *c_lse, const double *q, const double *k, const double *v, const double *t_q,
    const double *t_k, const double *t_v, double *grad_q, double *grad_k, double *grad_v);

int gnograd_window_attention_forward_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences,
    const int64_t *cu_q,      /* [n_sequences+1] or null */
    const int64_t *cu_k,      /* [n_sequences+1] or null */
    int64_t window, double scale, int causal, int64_t q_offset,
    const float *q,           /* [n_queries, n_query_heads, d_k] */
    const float *k,           /* [n_keys, n_heads, d_k] */
    const float *v,           /* [n_keys, n_heads, d_v] */
    const float *positions_q, /* [n_queries, d] or null */
    const float *positions_k, /* [n_keys, d] or null */
    const float *slope,       /* [n_query_heads] or null */
    float *out,               /* [n_queries, n_query_heads, d_v] */
    float *lse);              /* [n_queries, n_query_heads] or null */
int gnograd_window_attention_vjp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset,
    const float *cotangent,  /* [n_queries, n_query_heads, d_v] */
    const float *q, const float *k, const float *v, const float *positions_q,
    const float *positions_k, const float *slope, const float *out, const float *lse,
    float *grad_q,           /* [n_queries, n_query_heads, d_k] or null */
    float *grad_k,           /* [n_keys, n_heads, d_k] or null */
    float *grad_v,           /* [n_keys, n_heads, d_v] or null */
    float *grad_positions_q, /* [n_queries, d] or null */
    float *grad_positions_k, /* [n_keys, d] or null */
    float *grad_slope);      /* [n_query_heads] or null */
int gnograd_window_attention_jvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const float *q, const float *k,
    const float *v, const float *positions_q, const float *positions_k, const float *slope,
    const float *t_q,           /* [n_queries, n_query_heads, d_k] or null */
    const float *t_k,           /* [n_keys, n_heads, d_k] or null */
    const float *t_v,           /* [n_keys, n_heads, d_v] or null */
    const float *t_positions_q, /* [n_queries, d] or null */
    const float *t_positions_k, /* [n_keys, d] or null */
    const float *t_slope,       /* [n_query_heads] or null */
    float *t_out);              /* [n_queries, n_query_heads, d_v] */
int gnograd_window_attention_hvp_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const float *cotangent,
    const float *q, const float *k, const float *v, const float *positions_q,
    const float *positions_k, const float *slope, const float *t_q, const float *t_k,
    const float *t_v, const float *t_positions_q, const float *t_positions_k, const float *t_slope,
    float *grad_q, float *grad_k, float *grad_v, float *grad_positions_q, float *grad_positions_k,
    float *grad_slope);
int gnograd_window_attention_forward_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const double *q, const double *k,
    const double *v, const double *positions_q, const double *positions_k, const double *slope,
    double *out, double *lse);
int gnograd_window_attention_vjp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const double *cotangent,
    const double *q, const double *k, const double *v, const double *positions_q,
    const double *positions_k, const double *slope, const double *out, const double *lse,
    double *grad_q, double *grad_k, double *grad_v, double *grad_positions_q,
    double *grad_positions_k, double *grad_slope);
int gnograd_window_attention_jvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const double *q, const double *k,
    const double *v, const double *positions_q, const double *positions_k, const double *slope,
    const double *t_q, const double *t_k, const double *t_v, const double *t_positions_q,
    const double *t_positions_k, const double *t_slope, double *t_out);
int gnograd_window_attention_hvp_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t d, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t window, double scale, int causal, int64_t q_offset, const double *cotangent,
    const double *q, const double *k, const double *v, const double *positions_q,
    const double *positions_k, const double *slope, const double *t_q, const double *t_k,
    const double *t_v, const double *t_positions_q, const double *t_positions_k,
    const double *t_slope, double *grad_q, double *grad_k, double *grad_v, double *grad_positions_q,
    double *grad_positions_k, double *grad_slope);

int gnograd_compress_forward_r32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences,
    const int64_t *cu, /* [n_sequences+1] or null */
    int64_t block, int64_t stride, int64_t n_compressed,
    const float *x,    /* [n_tokens, n_heads, n_features] */
    const float *w,    /* [block, n_heads] */
    float *out);       /* [n_compressed, n_heads, n_features] */
int gnograd_compress_vjp_r32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed,
    const float *cotangent, /* [n_compressed, n_heads, n_features] */
    const float *x, const float *w,
    float *grad_x,          /* [n_tokens, n_heads, n_features] or null */
    float *grad_w);         /* [block, n_heads] or null */
int gnograd_compress_jvp_r32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const float *x, const float *w,
    const float *t_x, /* [n_tokens, n_heads, n_features] or null */
    const float *t_w, /* [block, n_heads] or null */
    float *t_out);    /* [n_compressed, n_heads, n_features] */
int gnograd_compress_hvp_r32(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const float *cotangent, const float *x,
    const float *w, const float *t_x, const float *t_w, float *grad_x, float *grad_w);
int gnograd_compress_forward_r64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const double *x, const double *w,
    double *out);
int gnograd_compress_vjp_r64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const double *cotangent, const double *x,
    const double *w, double *grad_x, double *grad_w);
int gnograd_compress_jvp_r64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const double *x, const double *w,
    const double *t_x, const double *t_w, double *t_out);
int gnograd_compress_hvp_r64(
    int64_t n_tokens, int64_t n_heads, int64_t n_features, int64_t n_sequences, const int64_t *cu,
    int64_t block, int64_t stride, int64_t n_compressed, const double *cotangent, const double *x,
    const double *w, const double *t_x, const double *t_w, double *grad_x, double *grad_w);

int gnograd_select_blocks_forward_r32(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences,
    const int64_t *cu_q,   /* [n_sequences+1] or null */
    const int64_t *cu_k,   /* [n_sequences+1] or null */
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own,
    const float *q,        /* [n_queries, n_query_heads, d_k] */
    const float *k,        /* [n_compressed, n_heads, d_k] */
    const float *lse,      /* [n_queries, n_query_heads] */
    int32_t *block_index); /* [(n_queries+query_block-1)//query_block, n_heads, n_slots] */
int gnograd_select_blocks_forward_r64(
    int64_t n_queries, int64_t n_compressed, int64_t n_keys, int64_t n_query_heads, int64_t n_heads,
    int64_t d_k, int64_t n_slots, int64_t n_sequences, const int64_t *cu_q, const int64_t *cu_k,
    int64_t block, int64_t stride, int64_t block_size, double scale, int causal, int64_t q_offset,
    int64_t query_block, int64_t first_blocks, int64_t local_blocks, int exclude_own,
    const double *q, const double *k, const double *lse, int32_t *block_index);

/* ---- the shape of Ascend's operators ----
 *
 * nsa_selected_attention and its gradient as two calls each, with the names, limits and codes of
 * aclnnNsaSelectedAttention and aclnnNsaSelectedAttentionGrad: the first checks the arguments and
 * says how many bytes of workspace the second needs. topk_indices names existing blocks, a block
 * named twice counts twice. actual_seq_* are cumulative lengths without the leading 0. softmax_max
 * and softmax_sum hold one value 8 times, lse = max + ln(sum). The stream is for kernels on a
 * device; here it is not used. docs/howto/ascend.md has every parameter.
 */

enum gnograd_ascend_status {
    GNOGRAD_ASCEND_NULL = 161001,   /* a pointer is null that must not be */
    GNOGRAD_ASCEND_INVALID = 161002 /* an argument is outside its limits */
};

int gnograd_nsa_selected_attention_get_workspace_size_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const float *query, const float *key, const float *value,
    const int32_t *topk_indices,     /* [n_queries, n_heads, select_block_count] */
    const void *atten_mask,          /* null */
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen, /* [n_sequences] */
    double scale_value, int64_t head_num, int64_t select_block_size, int64_t select_block_count,
    const char *input_layout,        /* "TND" */
    int sparse_mode,
    float *attention_out,
    float *softmax_max, float *softmax_sum, /* [n_queries, n_query_heads, 8] */
    int64_t *workspace_size);
int gnograd_nsa_selected_attention_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const float *query, const float *key, const float *value,
    const int32_t *topk_indices,     /* [n_queries, n_heads, select_block_count] */
    const void *atten_mask,          /* null */
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen, /* [n_sequences] */
    double scale_value, int64_t head_num, int64_t select_block_size, int64_t select_block_count,
    const char *input_layout,        /* "TND" */
    int sparse_mode,
    float *attention_out,
    float *softmax_max, float *softmax_sum, /* [n_queries, n_query_heads, 8] */
    void *workspace, int64_t workspace_size, void *stream);

int gnograd_nsa_selected_attention_grad_get_workspace_size_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const float *query, const float *key, const float *value,
    const float *attention_out, const float *attention_out_grad,
    const float *softmax_max, const float *softmax_sum,
    const int32_t *topk_indices,
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen,
    const void *atten_mask,          /* null */
    double scale_value, int64_t selected_block_size, int64_t selected_block_count,
    int64_t head_num, const char *input_layout, int sparse_mode,
    float *dq, float *dk, float *dv,
    int64_t *workspace_size);
int gnograd_nsa_selected_attention_grad_r32(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const float *query, const float *key, const float *value,
    const float *attention_out, const float *attention_out_grad,
    const float *softmax_max, const float *softmax_sum,
    const int32_t *topk_indices,
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen,
    const void *atten_mask,          /* null */
    double scale_value, int64_t selected_block_size, int64_t selected_block_count,
    int64_t head_num, const char *input_layout, int sparse_mode,
    float *dq, float *dk, float *dv,
    void *workspace, int64_t workspace_size, void *stream);

int gnograd_nsa_selected_attention_get_workspace_size_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const double *query, const double *key, const double *value,
    const int32_t *topk_indices,     /* [n_queries, n_heads, select_block_count] */
    const void *atten_mask,          /* null */
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen, /* [n_sequences] */
    double scale_value, int64_t head_num, int64_t select_block_size, int64_t select_block_count,
    const char *input_layout,        /* "TND" */
    int sparse_mode,
    double *attention_out,
    double *softmax_max, double *softmax_sum, /* [n_queries, n_query_heads, 8] */
    int64_t *workspace_size);
int gnograd_nsa_selected_attention_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const double *query, const double *key, const double *value,
    const int32_t *topk_indices,     /* [n_queries, n_heads, select_block_count] */
    const void *atten_mask,          /* null */
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen, /* [n_sequences] */
    double scale_value, int64_t head_num, int64_t select_block_size, int64_t select_block_count,
    const char *input_layout,        /* "TND" */
    int sparse_mode,
    double *attention_out,
    double *softmax_max, double *softmax_sum, /* [n_queries, n_query_heads, 8] */
    void *workspace, int64_t workspace_size, void *stream);

int gnograd_nsa_selected_attention_grad_get_workspace_size_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const double *query, const double *key, const double *value,
    const double *attention_out, const double *attention_out_grad,
    const double *softmax_max, const double *softmax_sum,
    const int32_t *topk_indices,
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen,
    const void *atten_mask,          /* null */
    double scale_value, int64_t selected_block_size, int64_t selected_block_count,
    int64_t head_num, const char *input_layout, int sparse_mode,
    double *dq, double *dk, double *dv,
    int64_t *workspace_size);
int gnograd_nsa_selected_attention_grad_r64(
    int64_t n_queries, int64_t n_keys, int64_t n_query_heads, int64_t n_heads, int64_t d_k,
    int64_t d_v, int64_t n_sequences,
    const double *query, const double *key, const double *value,
    const double *attention_out, const double *attention_out_grad,
    const double *softmax_max, const double *softmax_sum,
    const int32_t *topk_indices,
    const int64_t *actual_seq_qlen, const int64_t *actual_seq_kvlen,
    const void *atten_mask,          /* null */
    double scale_value, int64_t selected_block_size, int64_t selected_block_count,
    int64_t head_num, const char *input_layout, int sparse_mode,
    double *dq, double *dk, double *dv,
    void *workspace, int64_t workspace_size, void *stream);

#ifdef __cplusplus
}
#endif
#endif

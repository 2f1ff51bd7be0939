/* SPDX-License-Identifier: MIT
 *
 * gnograd for C: graph neural operators and their derivatives to second order.
 *
 * Arrays are C-contiguous; shapes stand behind each argument. An array marked "or null" may be a
 * null pointer: as an input it is absent (a tangent: zero), as an output it is not computed.
 * Functions return 0 or one of the gnograd_status codes; gnograd_last_error has the message.
 * After an error, outputs are as they were. All functions may be called from several threads.
 *
 * The Python binding is generated from this file: one declaration a function, one type and one
 * name an argument.
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
    GNOGRAD_UNSUPPORTED = 4  /* meaningful, but not available */
};

/* ---- runtime ---- */

int gnograd_abi_version(void);

/* Threads the kernels use; 0 gives the choice back to OpenMP. No result depends on it. */
int gnograd_num_threads(void);
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

/* Free a graph; null is ignored. */
void gnograd_graph_free(gnograd_graph *graph);

/* Copy the edges ordered by source. */
void gnograd_graph_by_src(
    const gnograd_graph *graph,
    int64_t *offsets,   /* [n_src+1] */
    int32_t *indices,   /* [n_edges] destination of every edge */
    int64_t *edge,      /* [n_edges] row of the edge table */
    int64_t *position); /* [n_edges] position in the destination-major order */

#ifdef __cplusplus
}
#endif
#endif

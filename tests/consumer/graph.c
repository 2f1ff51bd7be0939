/* SPDX-License-Identifier: MIT
 * A C program against the installed library: a graph with two edges, its transpose, an error. */
#include <gnograd.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const int64_t offsets[] = {0, 2, 2};
    const int64_t indices[] = {1, 0};
    const int64_t wrong[] = {1, 7};
    int64_t by_src[3], edge[2], position[2];
    int32_t destination[2];
    char message[200];
    gnograd_graph *graph = 0;

    if (gnograd_graph_create(2, 2, 2, offsets, indices, 0, &graph) != GNOGRAD_OK) return 1;
    gnograd_graph_by_src(graph, by_src, destination, edge, position);
    gnograd_graph_free(graph);
    if (by_src[1] != 1 || edge[0] != 1 || destination[0] != 0) return 2;

    if (gnograd_graph_create(2, 2, 2, offsets, wrong, 0, &graph) != GNOGRAD_INDEX) return 3;
    gnograd_last_error(sizeof message, message);
    if (!strstr(message, "indices[1] is 7")) return 4;
    puts("ok");
    return 0;
}

/* SPDX-License-Identifier: MIT
 * The derivative of a weighted sum over a graph, in C and C++: out_1 = 2 x_0 + 3 x_1 and, for the
 * cotangent c = 0.5, the gradients c x_j of the weights and c w of the features. */
#include <gnograd.h>
#include <stdio.h>

int main(void) {
    const int64_t offsets[] = {0, 0, 2};
    const int64_t indices[] = {0, 1};
    const double x[] = {4, -6}, w[] = {2, 3}, cotangent[] = {8, 0.5};
    double out[2], grad_x[2], grad_w[2];
    char message[200];
    gnograd_graph *graph = 0;
    int status;

    status = gnograd_graph_create(2, 2, 2, offsets, indices, 0, &graph);
    if (!status)
        status = gnograd_agg_weighted_forward_r64(graph, 1, GNOGRAD_SUM, x, w, out, 0, 0);
    if (!status)
        status = gnograd_agg_weighted_vjp_r64(graph, 1, GNOGRAD_SUM, cotangent, x, w, 0, 0, 0, grad_x,
                                              grad_w);
    gnograd_graph_free(graph);
    if (status) {
        gnograd_last_error(sizeof message, message);
        puts(message);
        return 1;
    }
    printf("out %g %g, gradients %g %g and %g %g\n", out[0], out[1], grad_x[0], grad_x[1], grad_w[0],
           grad_w[1]);
    return !(out[0] == 0 && out[1] == -10 && grad_x[0] == 1 && grad_x[1] == 1.5 && grad_w[0] == 2 &&
             grad_w[1] == -3);
}

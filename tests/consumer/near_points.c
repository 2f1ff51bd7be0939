/* SPDX-License-Identifier: MIT
 * Searches for near points from C: what they find, and the error of every bad argument. */
#include <gnograd.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_AXES = 2, N_SRC = 3, N_DST = 2 };

/* The arguments of a search, of which each case spoils one. */
struct search {
    int64_t n_axes, n_items, n_radii, max_neighbors, k;
    double destinations[N_DST * N_AXES], sources[N_SRC * N_AXES], period[N_AXES], radii[2];
    int64_t dst_items[3], src_items[3];
};

static struct search good(void) {
    const struct search s = {
        N_AXES, 1, 2, -1, 2, {0, 0, 1, 1}, {0, 0.5, 1, 0.5, 5, 5}, {0, 0}, {0.6, 2},
        {0, N_DST}, {0, N_SRC}
    };
    return s;
}

static int within(const struct search *s, gnograd_neighbors **found) {
    return gnograd_neighbors_within(
        s->n_axes, N_DST, N_SRC, s->n_items, s->n_radii, s->max_neighbors, 0, 0, -1,
        s->destinations, s->sources, s->period, s->dst_items, s->src_items, s->radii, found);
}

static int nearest(const struct search *s, gnograd_neighbors **found) {
    return gnograd_neighbors_nearest(
        s->n_axes, N_DST, N_SRC, s->n_items, s->k, -1, s->destinations, s->sources, s->period,
        s->dst_items, s->src_items, found);
}

typedef int function(const struct search *, gnograd_neighbors **);

/* 1 if a search refuses its arguments, says why, and leaves a null handle. */
static int refuses(function *find, const struct search *s, const char *why) {
    char message[200] = "";
    gnograd_neighbors *found = (gnograd_neighbors *)&message;
    const int status = find(s, &found);
    gnograd_last_error(sizeof message, message);
    if (status == GNOGRAD_VALUE && !found && strstr(message, why)) return 1;
    printf("status %d, \"%s\" instead of \"%s\"\n", status, message, why);
    return 0;
}

static int refused_by_both(const struct search *s, const char *why) {
    return refuses(within, s, why) & refuses(nearest, s, why);
}

static int finds(function *find, const struct search *s, int64_t number, int64_t n_first,
                 int64_t n_edges, int32_t last) {
    int64_t offsets[N_DST + 1];
    int32_t indices[N_DST * N_SRC];
    gnograd_neighbors *found = 0;
    if (find(s, &found) != GNOGRAD_OK) return 0;
    const int64_t n = gnograd_neighbors_n_edges(found, number);
    gnograd_neighbors_copy(found, number, offsets, indices);
    gnograd_neighbors_free(found);
    return n == n_edges && offsets[0] == 0 && offsets[1] == n_first && offsets[N_DST] == n_edges &&
           indices[n_edges - 1] == last;
}

static int refuses_number(int64_t number) {
    const struct search s = good();
    int64_t offsets[N_DST + 1] = {7};
    int32_t indices[N_DST * N_SRC];
    char message[200] = "";
    gnograd_neighbors *found = 0;
    if (within(&s, &found) != GNOGRAD_OK) return 0;
    gnograd_neighbors_copy(found, number, offsets, indices);
    const int64_t n = gnograd_neighbors_n_edges(found, number);
    gnograd_last_error(sizeof message, message);
    gnograd_neighbors_free(found);
    return n == 0 && offsets[0] == 7 && strstr(message, "needs 0 to 1");
}

int main(void) {
    struct search s = good();
    int well = finds(within, &s, 0, 1, 2, 1) & finds(within, &s, 1, 2, 4, 1) &
               finds(nearest, &s, 0, 2, 4, 0);
    s.max_neighbors = 1;
    well &= finds(within, &s, 1, 1, 2, 1);
    gnograd_neighbors_free(0);
    well &= refuses_number(-1) & refuses_number(2);

    s = good(), s.n_axes = 0;
    well &= refused_by_both(&s, "d is 0, needs 1 or more");
    for (int bad = 0; bad < 3; ++bad) {
        s = good(), s.period[1] = bad == 0 ? -1 : bad == 1 ? NAN : INFINITY;
        well &= refused_by_both(&s, "period must not be negative, and finite");
    }
    s = good(), s.radii[1] = -1;
    well &= refuses(within, &s, "radii[1] must not be negative");
    s = good(), s.radii[0] = NAN;
    well &= refuses(within, &s, "radii[0] must not be negative");
    s = good(), s.n_radii = -1;
    well &= refuses(within, &s, "n_radii must be at least 0");
    s = good(), s.k = -1;
    well &= refuses(nearest, &s, "k is -1, must not be negative");
    for (int64_t n_items = -2; n_items < 1; ++n_items) {
        s = good(), s.n_items = n_items;
        well &= refused_by_both(&s, "n_items must be 1 or more");
    }
    for (int bad = -1; bad <= 1; bad += 2)
        for (int at = 0; at < 2; ++at) {
            s = good(), s.dst_items[at] += bad;
            well &= refused_by_both(&s, "dst_items must ascend from 0 to the 2 points");
            s = good(), s.src_items[at] += bad;
            well &= refused_by_both(&s, "src_items must ascend from 0 to the 3 points");
        }
    s = good(), s.n_items = 2, s.dst_items[1] = N_DST + 1, s.dst_items[2] = N_DST;
    s.src_items[2] = N_SRC;
    well &= refused_by_both(&s, "dst_items must ascend");
    s = good(), s.sources[3] = NAN;
    well &= refused_by_both(&s, "sources[1] has entries that are not finite");
    s = good(), s.destinations[0] = INFINITY;
    well &= refused_by_both(&s, "destinations[0] has entries that are not finite");
    if (well) puts("ok");
    return !well;
}

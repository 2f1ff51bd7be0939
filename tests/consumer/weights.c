/* SPDX-License-Identifier: MIT
 * A C program names the arrays of a tape, saves them, and gets them back on another tape: all of
 * them, or nothing. Python reads the file and writes one of its own. usage: weights WRITTEN READ */
#include <gnograd.h>
#include <stdio.h>
#include <string.h>

static const int64_t extents[] = {2, 3};

/* 1 if the last error begins with this message. */
static int told(const char *message) {
    char last[500];
    gnograd_last_error(sizeof last, last);
    if (strncmp(last, message, strlen(message)) == 0) return 1;
    fprintf(stderr, "%s\n", last);
    return 0;
}

/* Floats of an array on a new tape, with a name. */
static int64_t named(gnograd_tape **tape, const float *values, const char *name) {
    if (gnograd_tape_create(tape)) return 0;
    int64_t x = gnograd_array_leaf(*tape, 32, 1, 2, extents, values);
    return gnograd_array_set_name(*tape, x, name) ? 0 : x;
}

int main(int argc, char **argv) {
    const float values[] = {1, 2, 3, 4, 5, 6.5}, zeros[6] = {0};
    const double scale = 0.1;
    float got[6];
    gnograd_tape *tape, *other;
    int64_t x, y, z;

    if (argc < 3) return 1;

    /* names belong to parameters and constants */
    if (!(x = named(&tape, values, "lift.weight"))) return 2;
    y = gnograd_array_exp(tape, x);
    if (gnograd_array_set_name(tape, y, "y") != GNOGRAD_VALUE) return 3;
    if (!told("set_name: the array was computed")) return 4;
    if (gnograd_array_set_name(tape, x, NULL) != GNOGRAD_VALUE) return 5;
    if (gnograd_array_set_name(tape, 0, "y") != GNOGRAD_VALUE) return 6;

    /* some names would not come back from a file */
    if (gnograd_array_set_name(tape, x, "__metadata__") != GNOGRAD_VALUE) return 22;
    if (!told("set_name: '__metadata__' is no name for an array: in files the texts")) return 23;
    if (gnograd_array_set_name(tape, x, "\xff") != GNOGRAD_VALUE) return 24;
    if (gnograd_array_set_name(tape, x, "  ") != GNOGRAD_VALUE) return 25;
    if (!told("set_name: '  ' is no name for an array: it is empty")) return 26;
    if (gnograd_tape_save(tape, "name ") != GNOGRAD_VALUE) return 27;
    if (!told("save: 'name ' is no name for a file: it ends with a blank")) return 28;

    /* what has no name would be lost, and what has the same name */
    z = gnograd_array_leaf(tape, 64, 1, 0, NULL, &scale);
    if (gnograd_tape_save(tape, argv[1]) != GNOGRAD_VALUE) return 7;
    if (!told("save: a parameter () has no name: gnograd_array_set_name")) return 8;
    gnograd_array_set_name(tape, z, "lift.weight");
    if (gnograd_tape_save(tape, argv[1]) != GNOGRAD_VALUE) return 9;
    if (!told("save: two arrays have the name 'lift.weight'")) return 10;
    gnograd_array_set_name(tape, z, "scale");
    if (gnograd_tape_save(tape, NULL) != GNOGRAD_VALUE) return 11;
    if (gnograd_tape_save(tape, "no/such/folder") != GNOGRAD_VALUE) return 12;
    if (gnograd_tape_save(tape, argv[1])) return 13;

    /* another tape has no scale: an error, and its values stay, or what both have is taken */
    if (!(x = named(&other, zeros, "lift.weight"))) return 14;
    if (gnograd_tape_load(other, argv[1], 1) != GNOGRAD_VALUE) return 15;
    if (!told("load: ") || gnograd_array_value(other, x, got) || got[5] != 0) return 16;
    if (gnograd_tape_load(other, argv[1], 0)) return 17;
    if (gnograd_array_value(other, x, got) || memcmp(got, values, sizeof got)) return 18;
    gnograd_tape_free(other);

    /* a file of Python's */
    if (gnograd_tape_load(tape, "no such file", 1) != GNOGRAD_VALUE) return 19;
    if (gnograd_tape_load(tape, argv[2], 1)) return 20;
    double number;
    if (gnograd_array_value(tape, z, &number)) return 21;
    gnograd_tape_free(tape);
    printf("scale %.17g\n", number);
    return 0;
}

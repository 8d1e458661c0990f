/* networks.h -- many small networks as text: those of the .qgt cases of a folder, each
 * made for a rule of passes or of lowering, and random ones. */
#ifndef QG_TESTS_SUPPORT_NETWORKS_H
#define QG_TESTS_SUPPORT_NETWORKS_H

#include <stddef.h>

typedef struct network {
    char *name; /* "align.qgt: shared", "random 7" */
    char *text; /* for qg_model_open_text */
} network;

typedef struct networks {
    network *at; /* [n] */
    size_t n;
} networks;

/* Appends those of the folder's files, in the order of their names; the program ends
 * when it cannot be read. */
void networks_of_folder(networks *all, const char *folder);
/* Appends random ones of seeds first, first + 1, ... */
void networks_random(networks *all, unsigned first, unsigned n);
/* Appends those of chain_graph.h. */
void networks_chains(networks *all, unsigned first, unsigned n);
void networks_free(networks *all);

#endif

/* layers.h -- a layered drawing of a directed acyclic graph: places for boxes, and
 * polylines for edges, from top to bottom.
 *
 *     1  rank     the longest path from a vertex without predecessors; such vertices
 *                 are moved down, next to their first reader
 *     2  joints   an edge over several ranks gets a joint of small width in each rank
 *                 between, unless it spans more than QG_LAYERS_LONGEST
 *     3  order    within a rank by the mean position of the neighbours, in sweeps down
 *                 and up
 *     4  place    x by least squares from the mean of the neighbours, subject to order
 *                 and distances (pool adjacent violators), in sweeps as before
 *
 * A function of its input alone: the same drawing on every machine.  O(sweeps (V + E)
 * log V), where V counts joints.
 *
 * Source   Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical
 *          system structures", 1981; the regression: Ayer et al., 1955 */
#ifndef QG_ENGINE_WEBPAGE_LAYERS_H
#define QG_ENGINE_WEBPAGE_LAYERS_H

#include "engine/core/vec.h"

enum { QG_LAYERS_LONGEST = 48 };

/* Vertices are numbered in topological order: from < to; edges are sorted by from. */
typedef struct qg_layers_edge {
    uint32_t from, to;
    float *point; /* out: [2 * n_point] x, y; the first and last are ends of boxes */
    size_t n_point;
} qg_layers_edge;

/* The drawing; arrays are in the arena given to qg_layers_place. */
typedef struct qg_layers {
    uint32_t n;           /* vertices */
    qg_layers_edge *edge; /* [n_edge] */
    size_t n_edge;
    float width, height; /* of every box */
    float *x, *y;        /* out: [n] centres of boxes, from 0 on */
} qg_layers;

/* QG_ENOMEM only. */
QG_NODISCARD qg_status qg_layers_place(qg_ctx *ctx, qg_arena *a, qg_layers *l);

#endif

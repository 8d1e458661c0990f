/* layer.h -- files that name the layers with weights, and give each of them the grids
 * of its data and its weight. */
#ifndef QG_ENGINE_FORMATS_LAYER_H
#define QG_ENGINE_FORMATS_LAYER_H

#include "engine/formats/table.h"

/* A compute node whose input 0 is rounded and whose weight is a rounded constant. */
typedef struct qg_weighted {
    const qg_node *node;
    const qg_tqc *data;   /* rounds input 0: the record there, or of its producer */
    const qg_tqc *weight; /* acts */
    size_t outputs;       /* extent of the weight along its output channels */
    int axis;             /* of those; -1: it has none */
} qg_weighted;

/* The layers of a graph in order of its nodes; for e->built. */
typedef struct qg_weighted_list {
    qg_export *e;
    QG_VEC(qg_weighted) layer;
    bool *covered; /* [TQCs], for qg_table_lose_rest: those of the layers */
} qg_weighted_list;

/* e->built, a qg_weighted_list.  The losses of grids are left to the format. */
QG_NODISCARD qg_status qg_weighted_build(qg_export *e);

/* The record that rounds input `slot` of n; NULL: nothing does. */
const qg_tqc *qg_weighted_rounds(const qg_node *n, uint32_t slot);

/* The scale of output channel c, whatever the granularity of the weight. */
float qg_weighted_scale(const qg_weighted *l, size_t c);

#endif

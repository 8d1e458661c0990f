/* layer.h -- files that name the layers with weights, and give each of them the grids
 * of its data and its weight (ncnn-table, ascend-record).
 *
 *     relu1 -> y -> Conv conv2 (y, w, b)
 *
 *     node      conv2
 *     data      the record of conv2.in0, or, where that does not round, of relu1.out0,
 *               also where operators that only move values are between the two
 *     weight    the baked record of conv2.in1
 *     outputs   extent of w along its output channels; axis 0 for a Conv
 *
 * Skipped   layers that such a file cannot have: weights that are computed or have
 *           scales per block or along another axis, data with several scales.  Their
 *           endpoints become losses, by qg_table_lose_rest. */
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
    /* [TQCs], for qg_table_lose_rest: those of the layers.  The record of a producer
     * is covered only if the layer is its one reader: for other readers the file has no
     * grid. */
    bool *covered;
} qg_weighted_list;

/* e->built, a qg_weighted_list, in the arena of the export.  The losses of grids are
 * left to the format, since they depend on the grid of its readers; so is the call of
 * qg_table_lose_rest, after the format has marked endpoints of its own.  QG_ENOMEM. */
QG_NODISCARD qg_status qg_weighted_build(qg_export *e);

/* The record that rounds input `slot` of n; NULL: nothing does.  The input's own comes
 * first: it may be on a finer or coarser grid than the producer's.  Behind MaxPool and
 * other moves it is that of the value before them, if the input is in its group. */
const qg_tqc *qg_weighted_rounds(const qg_node *n, uint32_t slot);

/* The scale of output channel c < l->outputs, whatever the granularity of the weight:
 * one scale per tensor is repeated. */
float qg_weighted_scale(const qg_weighted *l, size_t c);

#endif

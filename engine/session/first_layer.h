/* first_layer.h -- the scale of samples beside that of the data a network was trained
 * on, from the statistics that its first layer has of them (calib/doctor.h). */
#ifndef QG_ENGINE_SESSION_FIRST_LAYER_H
#define QG_ENGINE_SESSION_FIRST_LAYER_H

#include "engine/calib/doctor.h"
#include "engine/session/session.h"

/* What is expected of one value; borrows from the graph. */
typedef struct qg_first_layer {
    const qg_value *value; /* computed by a node; NULL: nothing is expected */
    qg_expected expected;
} qg_first_layer;

/* The input of the first normalization, or else the output of a layer with a bias that
 * reads an input. */
qg_first_layer qg_first_layer_of(const qg_graph *g);

/* Adds the finding of qg_judge_scale, if any, from the first samples of the feed, for
 * which the nodes before that value run in float.  m: before passes have folded its
 * normalizations. */
QG_NODISCARD qg_status qg_first_layer_judge(const qg_model *m, const qg_feed *feed,
                                            qg_findings *f);

#endif

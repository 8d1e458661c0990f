/* loss.h -- what learning makes smaller: the errors of single blocks, or a loss of the
 * outputs of the network, with which the whole network is one block.
 *
 *     name      of output y, f that of the float network     dL/dz
 *     blocks    |y - f|^2 / |f|^2, of outputs of blocks      (reconstruct.h)
 *     mse       the same, of outputs of the network
 *     kd        mean over rows of sum p ln(p / q)            (q - p) / rows
 *               p = softmax(f), q = softmax(z), z = y
 *     labels    mean over rows of -ln q[label], of the       (q - 1[label]) / rows
 *               first output
 *
 * Rows      of kd: along the last axis; along axis 1 of outputs with 4 axes and more
 *           (maps of classes).  Outputs whose rows have one element do not count.  Of
 *           labels: those of session/labels.h
 * Softmax   where rows of f are probabilities (>= 0, with a sum within 0.001 of 1) the
 *           network ends with a Softmax, and z = ln(y + 1e-4), negative y as 0; so is
 *           f.  A LogSoftmax needs nothing: softmax(ln p) = p
 * Several   outputs are added up
 * Bits      arithmetic in double, in index order; exp and log of the C library
 * Source    Hinton et al. 2015, section 2, with temperature 1
 *
 * Example   f = (0, ln 3), y = (0, 0): p = (1/4, 3/4), q = (1/2, 1/2),
 *           loss 1/4 ln 1/2 + 3/4 ln 3/2 = 0.1308, dL/dz = (1/4, -1/4) */
#ifndef QG_ENGINE_LEARN_LOSS_H
#define QG_ENGINE_LEARN_LOSS_H

#include "engine/core/ctx.h"
#include "engine/ir/graph.h"
#include "engine/session/labels.h"

typedef enum qg_loss_kind {
#define LOSS(id, name, metric, summary) QG_LOSS_##id,
#include "engine/learn/loss.def"
#undef LOSS
    QG_NLOSS
} qg_loss_kind;

/* A loss; borrowed. */
typedef struct qg_loss {
    qg_loss_kind kind;
    qg_labels label;     /* LABELS: of the samples that were given */
    const size_t *given; /* [samples] its number among them; NULL: the same */
} qg_loss;

size_t qg_loss_given(const qg_loss *l, size_t sample);
/* LABELS only: [label.each] of the sample. */
const int64_t *qg_loss_label(const qg_loss *l, size_t sample);

const char *qg_loss_name(qg_loss_kind k);
const char *qg_loss_metric(qg_loss_kind k); /* of its values, on samples that judge */
int qg_loss_named(const char *text);        /* -1 when unknown */

/* Whether it compares this value of the graph, in float32. */
bool qg_loss_compares(const qg_loss *l, const qg_graph *g, const qg_value *v);

/* QG_EDATA when a label of the sample is no element of its row of output f. */
QG_NODISCARD qg_status qg_loss_check(qg_ctx *ctx, const qg_loss *l, const qg_tensor *f,
                                     size_t sample);

/* Loss of one output, KD or LABELS, and g = dL/dy; g NULL: not wanted. */
double qg_loss_of_classes(const qg_loss *l, const qg_tensor *y, const qg_tensor *f,
                          size_t sample, qg_tensor *g);

#endif

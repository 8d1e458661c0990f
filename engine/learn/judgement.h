/* judgement.h -- what a tune has done to the outputs of the network, on the samples
 * that judge: from the lanes FLOAT, BEFORE and NOW of the stream, once all blocks are
 * done.
 *
 * Metric  of qg analyse: of each output and sample, noise over signal; the mean over
 *         samples, of the worst output */
#ifndef QG_ENGINE_LEARN_JUDGEMENT_H
#define QG_ENGINE_LEARN_JUDGEMENT_H

#include "engine/learn/loss.h"
#include "engine/learn/stream.h"

/* On the samples that judge, before and after. */
typedef struct qg_judgement {
    double loss[2];        /* what judges: of labels and kd, else the noise */
    double noise[2];       /* of the worst output */
    double top1[2];        /* labels only */
    const qg_value *worse; /* an output that is clearly worse than before; NULL: none */
    bool better;
} qg_judgement;

/* noise and better: all outputs together, the worst of them is no worse than before,
 * and no other is clearly worse (verdict.h). */
QG_NODISCARD qg_status qg_judge_outputs(const qg_stream *s, qg_arena *a,
                                        qg_judgement *j);

/* loss and better: KD or LABELS, of all outputs that it compares. */
QG_NODISCARD qg_status qg_judge_classes(const qg_stream *s, const qg_loss *loss,
                                        qg_arena *a, qg_judgement *j);

/* top1: of the labels of a loss, by the first output. */
QG_NODISCARD qg_status qg_judge_labels(const qg_stream *s, const qg_loss *loss,
                                       qg_arena *a, qg_judgement *j);

#endif

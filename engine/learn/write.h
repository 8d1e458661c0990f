/* write.h -- what blocks have learned becomes part of the model: constants of the
 * graph, beside those of the float network (QG_UNTUNED in ir/graph.h), and scales of
 * the records.
 *
 * The journal has, with author "tune/<method>", for every endpoint concerned the
 * numbers before and after (fields weight, bias, rounding, scale, offset), and in the
 * field loss the name of the block with its losses on the samples that judge. */
#ifndef QG_ENGINE_LEARN_WRITE_H
#define QG_ENGINE_LEARN_WRITE_H

#include "engine/learn/method.h"
#include "engine/learn/tape.h"
#include "engine/session/session.h"

typedef struct qg_learned_block {
    const char *name;
    const qg_tape *tape; /* with what was learned, or as it was */
    double before, after;
} qg_learned_block;

/* In the order of the blocks; then derived scales follow. */
QG_NODISCARD qg_status qg_learned_write(qg_model *m, const qg_tune_method *method,
                                        const qg_learned_block *block, size_t n);

#endif

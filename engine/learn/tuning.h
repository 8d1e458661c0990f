/* tuning.h -- the state of one call of qg_model_tune. */
#ifndef QG_ENGINE_LEARN_TUNING_H
#define QG_ENGINE_LEARN_TUNING_H

#include "engine/analysis/split.h"
#include "engine/learn/checkpoint.h"
#include "engine/learn/choice.h"
#include "engine/learn/judgement.h"
#include "engine/session/session.h"

typedef struct qg_tuning {
    qg_model *m;
    const qg_tune_options *o;
    qg_tune_choice choice;
    qg_arena *arena;
    qg_measured at;
    const uint8_t *wanted; /* [nodes] an output depends on it */
    qg_block *block;
    size_t n_block;
    qg_stream stream;
    qg_tapes *tapes;              /* [blocks] the leaders are kept until the end */
    const qg_tape_step **learned; /* [TQCs] by id of the root, of blocks that are done;
                                   * NULL: none */
    qg_importance importance;
    qg_reconstruction *result; /* [blocks] */
    size_t chosen, done;       /* blocks that learn */
    size_t resumed;            /* of them, by an earlier run (checkpoint.h) */
    size_t own;                /* the last one that this run has learned; SIZE_MAX */
    bool has_folder;           /* of checkpoints, made by this run */
    const qg_split *split;
    size_t n_tape; /* of a tapes, where memory suffices */
} qg_tuning;

/* What names a block: its first node that accumulates products. */
const qg_node *qg_tuning_head(const qg_tuning *t, const qg_block *b);
const char *qg_tuning_name(const qg_tuning *t, const qg_block *b);
/* Whether the block is one of those that the caller wants to learn, and can. */
bool qg_tuning_learns(const qg_tuning *t, const qg_block *b);
/* Whether the loss is no noise of outputs, and has judged them by itself. */
bool qg_tuning_has_verdict(const qg_tuning *t);
size_t qg_tuning_better(const qg_tuning *t); /* blocks that keep what they learned */

#endif

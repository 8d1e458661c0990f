/* choice.h -- what the options of a tune name. */
#ifndef QG_ENGINE_LEARN_CHOICE_H
#define QG_ENGINE_LEARN_CHOICE_H

#include "engine/learn/loss.h"
#include "engine/learn/method.h"
#include "engine/learn/optimizer.h"
#include "engine/learn/step_gradient.h"
#include "engine/session/session.h"

/* Entries of tables; the caller loads the labels of the loss. */
typedef struct qg_tune_choice {
    const qg_tune_method *method;
    qg_step_gradient gradient;
    const qg_optimizer *optimizer;
    qg_loss loss;
    double rate, usual_rate; /* of the first update; where none is given */
} qg_tune_choice;

/* QG_ECONFIG for a name that is unknown, with those that exist, and for options of
 * which one excludes the other. */
QG_NODISCARD qg_status qg_tune_choose(qg_ctx *ctx, const qg_tune_options *o,
                                      qg_tune_choice *out);

#endif

#include "engine/learn/tuning.h"

#include <string.h>

const qg_node *qg_tuning_head(const qg_tuning *t, const qg_block *b)
{
    const qg_graph *g = t->m->graph;
    for (size_t i = b->first; i < b->end; i++)
        if (g->node.at[i]->op->traits & QG_OP_COMPUTE)
            return g->node.at[i];
    return g->node.at[b->first];
}

const char *qg_tuning_name(const qg_tuning *t, const qg_block *b)
{
    return qg_tuning_head(t, b)->name;
}

/* Whether the loss compares a result of the block. */
static bool is_compared(const qg_tuning *t, const qg_block *b)
{
    const qg_graph *g = t->m->graph;
    for (size_t i = b->first; i < b->end; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++)
            if (g->node.at[i]->out[k] &&
                qg_loss_compares(&t->choice.loss, g, g->node.at[i]->out[k]))
                return true;
    return false;
}

bool qg_tuning_learns(const qg_tuning *t, const qg_block *b)
{
    return !b->stop && b->compute > 0 && is_compared(t, b) &&
           (!t->o->block || strcmp(t->o->block, qg_tuning_name(t, b)) == 0);
}

/* A loss that is no noise of outputs has judged them, on the same samples. */
bool qg_tuning_has_verdict(const qg_tuning *t)
{
    return t->choice.loss.kind == QG_LOSS_KD || t->choice.loss.kind == QG_LOSS_LABELS;
}

size_t qg_tuning_better(const qg_tuning *t)
{
    size_t better = 0;
    for (size_t k = 0; k < t->n_block; k++)
        better += t->result[k].kept;
    return better;
}

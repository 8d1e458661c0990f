/* block.c -- two sweeps: the first counts, for each place between two nodes, the values
 * whose producer is before it and whose last reader is behind it; the second extends a
 * block node by node and remembers its best end so far (block.h has an example).
 *
 * Only float32 values, and those of unknown type, count: indices and shapes carry no
 * rounding error, and constants belong to the block that reads them. */
#include "engine/learn/block.h"

#include <string.h>

#include "engine/core/vec.h"

typedef QG_VEC(qg_block) blocks;

/* crossing[i]: number of activations that nodes [0, i) or the inputs give to nodes
 * [i, n), and whether one of them is not rounded yet. */
typedef struct cut {
    int64_t crossing;
    bool fused;
} cut;

static bool waits_for_rounding(const qg_value *v)
{
    const qg_tqc *t = qg_producer_tqc(v);
    return t && t->state == QG_TQC_OVERLAPPED;
}

static void add_value(const qg_value *v, cut *at)
{
    size_t last = 0;
    const size_t first = v->def ? v->def->id + 1 : 0;
    for (size_t i = 0; i < v->use.n; i++)
        last = v->use.at[i].node->id > last ? v->use.at[i].node->id : last;
    for (size_t i = first; v->use.n && i <= last; i++) {
        at[i].crossing++;
        at[i].fused = at[i].fused || waits_for_rounding(v);
    }
}

static bool is_float(const qg_value *v)
{
    return !v->constant && (v->type.dtype == QG_F32 || v->type.dtype == QG_NODTYPE);
}

static bool has_gradient(const qg_node *n)
{
    return n->op->backward || n->op->traits & QG_OP_SHAPE;
}

/* The best end of a block that begins at `first`: before the compute node that would be
 * one too many, or the first node without a gradient. */
static size_t end_of(const qg_graph *g, const cut *at, size_t first, size_t depth)
{
    size_t compute = 0, best = 0;
    for (size_t i = first; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (!has_gradient(n))
            return i == first ? i + 1 : i;
        compute += (n->op->traits & QG_OP_COMPUTE) != 0;
        if (compute > depth && best)
            return best;
        const bool better = !best || at[i + 1].crossing <= at[best].crossing;
        if (compute > 0 && !at[i + 1].fused && better)
            best = i + 1;
    }
    return g->node.n;
}

qg_status qg_blocks_of(qg_ctx *ctx, const qg_graph *g, size_t depth, qg_arena *a,
                       qg_block **out, size_t *n)
{
    blocks all = { 0 };
    cut *at = QG_NEWN(a, g->node.n + 1, cut);
    if (!at)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->value.n; i++)
        if (is_float(g->value.at[i]))
            add_value(g->value.at[i], at);
    for (size_t first = 0; first < g->node.n;) {
        const qg_node *head = g->node.at[first];
        qg_block b = { .first = first,
                       .end = end_of(g, at, first, depth),
                       .stop = has_gradient(head) ? NULL : head };
        for (size_t i = b.first; i < b.end; i++)
            b.compute += (g->node.at[i]->op->traits & QG_OP_COMPUTE) != 0;
        QG_TRY(qg_vec_push(ctx, a, &all, b));
        first = b.end;
    }
    *out = all.at;
    *n = all.n;
    return QG_OK;
}

uint8_t *qg_block_wanted(const qg_graph *g, qg_arena *a)
{
    uint8_t *wanted = QG_NEWN(a, g->node.n, uint8_t);
    for (size_t i = g->node.n; wanted && i-- > 0;) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_out; k++) {
            const qg_value *v = n->out[k];
            wanted[i] |= v && v->is_output;
            for (size_t u = 0; v && u < v->use.n; u++)
                wanted[i] |= wanted[v->use.at[u].node->id];
        }
    }
    return wanted;
}

uint8_t *qg_block_part(const qg_graph *g, const qg_block *b, const uint8_t *wanted,
                       qg_arena *a)
{
    uint8_t *part = QG_NEWN(a, g->node.n, uint8_t);
    for (size_t i = b->first; part && i < b->end; i++)
        part[i] = wanted[i];
    return part;
}

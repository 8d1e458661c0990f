/* util_elements.c -- the loop over blocks.  BLOCK floats are 4 KiB: the block and the
 * parts of data and result that belong to it fit into a first cache of 32 KiB, and the
 * call of each step costs little against 1024 elements. */
#include "ops/util_elements.h"

#include <string.h>

#include "ops/util_broadcast.h"

enum { BLOCK = 1024, MOST = 1 + QG_MAX_ABSORBED };

/* What stands on the side of a pair that is not the chain's value. */
enum operand { FIRST, NUMBER };

typedef struct step {
    qg_element f;
    enum operand operand;
    bool swapped; /* the chain's value is input 1 */
    float number;
} step;

typedef struct chain {
    size_t n;
    uint32_t slot; /* of the data of the first node */
    step step[MOST];
} chain;

/* n elements through step s; y may be any of the others. */
static void take(const step *s, const float *first, const float *x, float *y, size_t n)
{
    const qg_vector_row *v = qg_vector_best();
    const float *other = s->operand == FIRST ? first : &s->number;
    const int64_t each = s->operand == FIRST;
    if (!s->f.is_pair)
        v->map[s->f.map](x, y, n, s->f.a, s->f.b);
    else if (s->swapped)
        v->pair[s->f.pair](other, each, x, 1, y, n);
    else
        v->pair[s->f.pair](x, 1, other, each, y, n);
}

/* The last step writes y, which may be the memory of the data: it reads the same
 * elements first. */
static qg_status run_chain(const qg_kernel *kernel, const qg_call *k)
{
    const chain *c = kernel->state;
    const qg_tensor *t = k->in[c->slot];
    float block[BLOCK], *y = k->out[0]->f32;
    const float *x = t->f32;
    for (size_t at = 0, n = qg_elements(t); at < n; at += BLOCK) {
        const size_t some = n - at < BLOCK ? n - at : BLOCK;
        const float *from = x + at;
        for (size_t i = 0; i < c->n; i++) {
            float *to = i + 1 < c->n ? block : y + at;
            take(&c->step[i], x + at, from, to, some);
            from = to;
        }
    }
    return QG_OK;
}

/* The step of node n whose input `slot` is the chain's value; `first` is the data of
 * the chain. */
static bool step_of(const qg_node *n, const qg_tensor *const *constant, uint32_t slot,
                    const qg_value *first, step *out)
{
    *out = (step){ .swapped = slot == 1 };
    if (!n->op->element || slot > 1 || !n->op->element(n, constant, &out->f))
        return false;
    if (!out->f.is_pair)
        return slot == 0;
    const qg_tensor *other = constant[!slot];
    out->operand = other ? NUMBER : FIRST;
    if (!other)
        return n->in[!slot] == first;
    if (other->dtype != QG_F32 || qg_tensor_count(other) != 1)
        return false;
    out->number = other->f32[0];
    return true;
}

/* The one input that is no constant; false: not exactly one, or of another type. */
static bool data_slot(const qg_compile *c, uint32_t *slot)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < c->node->n_in; i++)
        if (c->in[i] && !c->in[i]->data) {
            *slot = i;
            found++;
        }
    return found == 1 && *slot < 2 && c->in[*slot]->dtype == QG_F32 &&
           c->out[0]->dtype == QG_F32 && qg_same_dims(c->in[*slot], c->out[0]);
}

/* How each constant of the first node is seen by step_of: as those of a follower. */
static void constants_of(const qg_compile *c, const qg_tensor *constant[2])
{
    for (uint32_t i = 0; i < 2; i++)
        constant[i] = i < c->node->n_in && c->in[i] && c->in[i]->data ? c->in[i] : NULL;
}

/* x * sigmoid(x) in one loop: the same two roundings, without a pass over the block. */
static void fuse_silu(chain *c)
{
    const step *s = c->step;
    if (c->n < 2 || s[0].f.is_pair || s[0].f.map != QG_MAP_SIGMOID || !s[1].f.is_pair ||
        s[1].f.pair != QG_PAIR_MUL || s[1].operand != FIRST)
        return;
    c->step[0].f.map = QG_MAP_SILU;
    memmove(&c->step[1], &c->step[2], (--c->n - 1) * sizeof *c->step);
}

static void gather(const qg_compile *c, const qg_value *first, chain *out)
{
    for (const qg_value *v = c->node->out[0]; out->n <= c->n_chain; out->n++) {
        const qg_node *n = c->chain[out->n - 1];
        if (!step_of(n, c->chain_in[out->n - 1], v->use.at[0].slot, first,
                     &out->step[out->n]))
            return;
        v = n->out[0];
    }
}

qg_status qg_compile_elements(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *constant[2];
    uint32_t slot = 0;
    chain all = { 0 };
    *out = NULL;
    if (c->n_chain == 0 || c->node->n_in > 2 || !data_slot(c, &slot))
        return QG_OK;
    constants_of(c, constant);
    if (!step_of(c->node, constant, slot, c->node->in[slot], &all.step[0]))
        return QG_OK;
    all.slot = slot;
    all.n = 1;
    gather(c, c->node->in[slot], &all);
    if (all.n == 1)
        return QG_OK;
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    chain *state = QG_NEW(c->arena, chain);
    if (!kernel || !state)
        return qg_nomem(c->ctx);
    const uint32_t absorbed = (uint32_t)all.n - 1;
    fuse_silu(&all);
    *state = all;
    *kernel = (qg_kernel){ .run = run_chain,
                           .state = state,
                           .free_axes = UINT32_MAX,
                           .out_layout = c->in_layout[slot],
                           .in_place = (uint32_t)1 << slot,
                           .absorbed = absorbed,
                           .name = "chain of elements" };
    kernel->in_layout[slot] = c->in_layout[slot];
    *out = kernel;
    return QG_OK;
}

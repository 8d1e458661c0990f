#include "engine/calib/observed.h"

/* Members one by one: padding has no fixed bytes. */
static void make_key(const qg_observe *o, const qg_tensor *x, unsigned quirks,
                     char key[QG_HASH_TEXT])
{
    const qg_scheme *s = o->scheme;
    const int64_t scheme[] = { s->policy,  s->rounding, s->bits, s->exponent_bits,
                               s->variant, s->axis,     s->nan,  s->block,
                               s->qmin,    s->qmax,     quirks,  x->rank };
    qg_hash h;
    qg_hash_begin(&h);
    qg_hash_add(&h, &o->observer, sizeof(const qg_observer *));
    qg_hash_add(&h, o->setting->value, sizeof o->setting->value);
    qg_hash_add(&h, scheme, sizeof scheme);
    qg_hash_add(&h, x->dim, (size_t)x->rank * sizeof *x->dim);
    qg_hash_add(&h, x->f32, (size_t)qg_tensor_count(x) * sizeof *x->f32);
    qg_hash_end(&h, key);
}

static const qg_kept_constant *find(const qg_kept_constants *k, const char *key)
{
    for (size_t i = 0; i < k->constant.n; i++)
        if (strcmp(k->constant.at[i].key, key) == 0)
            return &k->constant.at[i];
    return NULL;
}

static qg_status keep(qg_ctx *ctx, qg_kept_constants *k, const char *key,
                      const qg_observe *o, const qg_qparam *p)
{
    qg_kept_constant c = { .observer = o->observer, .floored = o->floored };
    float *scale = QG_NEWN(k->arena, p->n, float);
    int32_t *offset = QG_NEWN(k->arena, p->n, int32_t);
    if (!scale || !offset)
        return qg_nomem(ctx);
    memcpy(c.key, key, sizeof c.key);
    memcpy(scale, p->scale, p->n * sizeof *scale);
    if (p->offset)
        memcpy(offset, p->offset, p->n * sizeof *offset);
    c.param = (qg_qparam){ p->n, scale, p->offset ? offset : NULL };
    return qg_vec_push(ctx, k->arena, &k->constant, c);
}

qg_status qg_observe_constant(qg_ctx *ctx, qg_observe *o, const qg_tensor *x,
                              unsigned quirks, qg_arena *a, qg_qparam *out)
{
    const qg_added *added = ctx->added[QG_ADDED_OBSERVED];
    char key[QG_HASH_TEXT];
    if (!added || x->dtype != QG_F32 || !qg_tensor_is_plain(x) || !o->setting ||
        o->observer == &qg_observer_minmax)
        return qg_observe_tensor(ctx, o, x, quirks, a, out);
    qg_kept_constants *k = *(qg_kept_constants *const *)added->what;
    make_key(o, x, quirks, key);
    const qg_kept_constant *there = find(k, key);
    if (there) {
        o->observer = there->observer;
        o->floored = there->floored;
        *out = there->param;
        return QG_OK;
    }
    QG_TRY(qg_observe_tensor(ctx, o, x, quirks, a, out));
    return keep(ctx, k, key, o, out);
}

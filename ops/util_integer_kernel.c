#include "ops/util_integer_kernel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/accel/finish.h"
#include "ops/util_axis.h"
#include "ops/util_integer.h"

/* What the kernel keeps; read-only while running. */
typedef struct sums_kernel {
    qg_kernel *sums; /* the library's */
    qg_finish finish;
    bool as_float;   /* its sums are float32 */
    bool moving;     /* input 1 is not constant */
    int32_t zero[2]; /* as_float: zero points of inputs 0 and 1 */
} sums_kernel;

/* -- running ----------------------------------------------------------------------- */

/* Codes without their zero point, in the order of memory. */
static void widen(const qg_tensor *x, int32_t zero, float *y)
{
    size_t n = qg_elements(x);
    if (x->dtype == QG_U8)
        for (size_t i = 0; i < n; i++)
            y[i] = (float)(x->u8[i] - zero);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = (float)(x->i8[i] - zero);
}

/* Exact: the sums are integers below 2^24.  In place. */
static void to_integers(void *sums, size_t n)
{
    const float *from = sums;
    int32_t *to = sums;
    for (size_t i = 0; i < n; i++) {
        float sum = from[i];
        to[i] = (int32_t)sum;
    }
}

/* The operands in the type of the sums. */
static qg_status operands(const sums_kernel *s, const qg_call *call, qg_tensor to[2])
{
    for (int i = 0; i < 2; i++) {
        to[i] = *call->in[i];
        if (!s->as_float || (i == 1 && !s->moving))
            continue;
        to[i].dtype = QG_F32;
        to[i].data = qg_arena_raw(call->scratch, qg_elements(&to[i]), sizeof(float));
        if (!to[i].data)
            return qg_nomem(call->ctx);
        widen(call->in[i], s->zero[i], to[i].f32);
    }
    return QG_OK;
}

static qg_status run(const qg_kernel *k, const qg_call *call)
{
    const sums_kernel *s = k->state;
    qg_tensor x[2], y = *call->out[0];
    const qg_tensor *in[3] = { &x[0], &x[1], NULL };
    qg_tensor *out[1] = { &y };
    size_t n = qg_elements(&y);
    QG_TRY(operands(s, call, x));
    y.data = qg_arena_raw(call->scratch, n, sizeof(int32_t));
    if (!y.data)
        return qg_nomem(call->ctx);
    qg_call sums = *call;
    sums.in = in;
    sums.out = out;
    QG_TRY(s->sums->run(s->sums, &sums));
    if (s->as_float)
        to_integers(y.data, n);
    s->finish.run(&s->finish, y.i32, call->out[0]->data, n / s->finish.spec.channels);
    return QG_OK;
}

static qg_status open_sums(const qg_kernel *k, qg_ctx *ctx, void **local)
{
    const sums_kernel *s = k->state;
    return s->sums->open ? s->sums->open(s->sums, ctx, local) : QG_OK;
}

static void close_sums(const qg_kernel *k, void *local)
{
    const sums_kernel *s = k->state;
    if (s->sums->close)
        s->sums->close(s->sums, local);
}

static void destroy_sums(qg_kernel *k)
{
    sums_kernel *s = k->state;
    if (s->sums->destroy)
        s->sums->destroy(s->sums);
}

/* Without zero points the library stores 0 to 255. */
static qg_status run_codes(const qg_kernel *k, const qg_call *call)
{
    const sums_kernel *s = k->state;
    uint8_t *y = call->out[0]->u8;
    QG_TRY(s->sums->run(s->sums, call));
    for (size_t i = 0, n = qg_elements(call->out[0]); i < n; i++)
        y[i] ^= 0x80;
    return QG_OK;
}

/* -- choosing ---------------------------------------------------------------------- */

/* Output channel of weight i. */
static int64_t channel_of(const qg_integer_product *p, int64_t i)
{
    int64_t base = p->group ? i / p->group * p->period : 0;
    return base + i / p->inner % p->period;
}

/* Weights without zero points, while a kernel is chosen. */
typedef struct weights {
    qg_arena *arena;
    int32_t *code;
    double most; /* the largest sum of |w| of a channel */
} weights;

/* The largest |q - zero| of a grid. */
static double reach(const qg_stored *s)
{
    return fmax(abs(s->low - s->zero[0]), abs(s->high - s->zero[0]));
}

static qg_status centred(qg_compile *c, const qg_integer_product *p, weights *out)
{
    const qg_tensor *w = c->in[1];
    const qg_stored *s = &p->recipe->in[1];
    if (!w->data) {
        out->most = reach(s) * (double)p->gemm->k;
        return QG_OK;
    }
    size_t n = qg_elements(w);
    int32_t *q = QG_NEWN(out->arena, n, int32_t);
    double *sum = QG_NEWN(out->arena, (size_t)p->channels, double);
    if (!q || !sum)
        return qg_nomem(c->ctx);
    qg_codes_load(w->dtype, w->data, 0, q, n);
    for (size_t i = 0; i < n; i++) {
        int64_t channel = channel_of(p, (int64_t)i);
        q[i] -= s->zero[s->n > 1 ? channel : 0];
        sum[channel] += fabs((double)q[i]);
        out->most = fmax(out->most, sum[channel]);
    }
    out->code = q;
    return QG_OK;
}

/* The weights in the type of the kernel; *fits false: they do not fit it. */
static qg_status converted(qg_ctx *ctx, const weights *q, qg_tensor *w, bool *fits)
{
    size_t n = qg_elements(w);
    *fits = true;
    QG_TRY(qg_tensor_alloc(ctx, q->arena, w));
    for (size_t i = 0; i < n; i++) {
        int32_t code = q->code[i];
        *fits = *fits && (w->dtype == QG_F32 || (code >= -128 && code <= 127));
        if (w->dtype == QG_F32)
            w->f32[i] = (float)code;
        else
            w->i8[i] = (int8_t)code;
    }
    return QG_OK;
}

/* How the library computes: what it leaves to be done. */
enum way {
    CODES,    /* zero points: it requantizes as finish does */
    INTEGERS, /* int32 sums */
    FLOATS,   /* float32 sums of codes without zero points */
    NONE
};

/* The library's kernel; *out NULL when it has none. */
static qg_status kernel_of(qg_compile *c, const qg_integer_product *p, const weights *q,
                           enum way way, const qg_finish *finish, qg_kernel **out)
{
    bool as_float = way == FLOATS;
    qg_tensor x = *c->in[0], w = *c->in[1], y = *c->out[0];
    const qg_tensor *bias = way == CODES && c->node->n_in > 2 ? c->in[2] : NULL;
    const qg_tensor *in[3] = { &x, &w, bias }, *outs[1] = { &y };
    qg_accel_codes codes = { p->recipe->in[0].zero[0], way == CODES ? finish : NULL };
    qg_compile typed = *c;
    bool fits;
    *out = NULL;
    x.dtype = as_float ? QG_F32 : x.dtype;
    w.dtype = as_float ? QG_F32 : w.data ? QG_I8 : w.dtype;
    y.dtype = as_float           ? QG_F32
              : way != CODES     ? QG_I32
              : finish->zero < 0 ? QG_U8
                                 : y.dtype;
    if (p->gemm && w.rank == 2) { /* all rows of a form one product */
        int64_t m = p->gemm->m, k = p->gemm->k;
        bool t = p->gemm->trans_a;
        qg_tensor_init(&x, x.dtype, 2, (int64_t[]){ t ? k : m, t ? m : k });
        qg_tensor_init(&y, y.dtype, 2, (int64_t[]){ m, p->gemm->n });
    }
    fits = w.data || as_float || p->recipe->in[1].zero[0] == 0;
    if (w.data)
        QG_TRY(converted(c->ctx, q, &w, &fits));
    if (!fits)
        return QG_OK;
    typed.in = in;
    typed.out = outs;
    typed.n_chain = 0;
    typed.threads = 0; /* the kernel around it has no parts */
    if (as_float)
        return p->conv ? qg_accel_conv(&typed, p->conv, p->transposed, out)
                       : qg_accel_matmul(&typed, p->gemm, -1, out);
    return p->conv ? qg_accel_conv_codes(&typed, p->conv, p->transposed, &codes, out)
                   : qg_accel_matmul_codes(&typed, p->gemm, &codes, out);
}

/* Every sum with its bias is an integer that float32 holds. */
static bool fits_float(const qg_compile *c, const qg_integer_product *p,
                       const weights *w)
{
    const qg_tensor *bias = c->node->n_in > 2 ? c->in[2] : NULL;
    double most = 0;
    for (int64_t i = 0; bias && bias->dtype == QG_I32 && i < qg_tensor_count(bias); i++)
        most = fmax(most, fabs((double)bias->i32[i]));
    return reach(&p->recipe->in[0]) * w->most + most < 0x1p24;
}

/* The first way in which the library can.  Codes without zero points are bytes where
 * the zero point is 0, or -128, the lowest code. */
static qg_status choose(qg_compile *c, const qg_integer_product *p,
                        const qg_finish *finish, enum way *way, qg_kernel **out)
{
    weights w = { .arena = qg_arena_new(c->ctx->alloc) }; /* it keeps copies */
    *out = NULL;
    if (!w.arena)
        return qg_nomem(c->ctx);
    qg_status s = centred(c, p, &w);
    bool small = s == QG_OK && fits_float(c, p, &w);
    bool zero = finish->zero == 0 || finish->zero == -128;
    bool may[NONE] = { small && zero && finish->kind == QG_FINISH_FLOAT_AFTER, true,
                       small };
    for (*way = CODES; s == QG_OK && !*out && *way < NONE; ++*way)
        if (may[*way])
            s = kernel_of(c, p, &w, *way, finish, out);
    --*way; /* of *out */
    qg_arena_free(w.arena);
    return s;
}

/* -- the kernel -------------------------------------------------------------------- */

/* Factors of every channel, in the plan's arena. */
static qg_status finish_of(qg_compile *c, const qg_integer_product *p, qg_finish *out)
{
    const qg_recipe *r = p->recipe;
    const qg_stored *w = &r->in[1];
    const qg_tensor *bias = c->node->n_in > 2 ? c->in[2] : NULL;
    qg_requant *all = QG_NEWN(c->arena, w->n, qg_requant);
    qg_call k = qg_compile_call(c);
    if (!all)
        return qg_nomem(c->ctx);
    for (uint32_t i = 0; i < w->n; i++)
        QG_TRY(qg_integer_requant(&k, r, w, i, &all[i]));
    qg_finish_spec spec = { .channels = (size_t)p->channels,
                            .r = all,
                            .per_channel = w->n > 1,
                            .fma = r->row.form == QG_FORM_FMA,
                            .bias = bias && bias->dtype == QG_I32 ? bias->i32 : NULL,
                            .floats = bias && bias->dtype == QG_F32 ? bias->f32 : NULL,
                            .out = r->out.codes ? r->out.dtype : QG_F32 };
    return qg_finish_new(c->ctx, c->arena, NULL, &spec, out);
}

static bool bytes(const qg_tensor *t) { return QG_DT_HAS(QG_DT_BYTES, t->dtype); }

/* Types and constants that the kernels take. */
static bool fits(const qg_compile *c, const qg_integer_product *p)
{
    const qg_recipe *r = p->recipe;
    const qg_tensor *bias = c->node->n_in > 2 ? c->in[2] : NULL;
    bool factors = c->in[1]->data || (p->gemm && r->in[1].n == 1);
    return bytes(c->in[0]) && bytes(c->in[1]) && factors && (!bias || bias->data) &&
           r->row.requant.accumulator == 32 && r->row.products == QG_PRODUCTS_EXACT &&
           !qg_integer_by_vectors(r);
}

qg_status qg_integer_compile(qg_compile *c, const qg_integer_product *p,
                             qg_kernel **out)
{
    qg_kernel *sums;
    enum way way;
    *out = NULL;
    if (!fits(c, p) || p->channels < 1)
        return QG_OK;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    sums_kernel *s = QG_NEW(c->arena, sums_kernel);
    if (!k || !s)
        return qg_nomem(c->ctx);
    QG_TRY(finish_of(c, p, &s->finish));
    QG_TRY(choose(c, p, &s->finish, &way, &sums));
    if (!sums || (way == CODES && s->finish.zero == 0)) {
        *out = sums;
        return QG_OK;
    }
    s->sums = sums;
    s->as_float = way == FLOATS;
    s->moving = !c->in[1]->data;
    s->zero[0] = p->recipe->in[0].zero[0];
    s->zero[1] = p->recipe->in[1].zero[0];
    *k = (qg_kernel){ .run = way == CODES ? run_codes : run,
                      .open = open_sums,
                      .close = close_sums,
                      .destroy = destroy_sums,
                      .state = s,
                      .out_layout = sums->out_layout,
                      .name = sums->name };
    k->in_layout[0] = sums->in_layout[0];
    *out = k;
    return QG_OK;
}

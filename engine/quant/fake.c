/* fake.c -- fake quantization of a tensor: checks, then spans of memory to kernels. */
#include "engine/quant/fake.h"

#include <assert.h>
#include <math.h>

#include "engine/quant/fake_kernel.h"
#include "engine/quant/fake_tensor.h"
#include "engine/quant/spans.h"

/* Whether the `each` kernel may be used for any run of these parameters. */
static bool all_narrow(const qg_scheme *s, const qg_qparam *p)
{
    for (size_t c = 0; p->offset && c < p->n; c++)
        if (!qg_linear_narrow(s, p->offset[c]))
            return false;
    return p->offset || qg_linear_narrow(s, 0);
}

static int32_t offset_at(const qg_qparam *p, size_t c)
{
    return p->offset ? p->offset[c] : 0;
}

/* The kernel state is made anew only when the parameter changes: per channel with
 * inner > 1 that is once per channel, not once per span. */
static void linear(const qg_scheme *s, const qg_qparam *p, qg_spans *w, const float *x,
                   float *y)
{
    assert(p->n > 0 && x && y);
    qg_linear one;
    qg_span span;
    const qg_fake_row *row = qg_fake_row_best();
    bool narrow = all_narrow(s, p);
    qg_linear_init(&one, s, p->scale[0], offset_at(p, 0));
    for (size_t current = 0; qg_spans_next(w, &span);) {
        if (span.each && narrow) {
            qg_qparam each = { span.n, p->scale + span.param,
                               p->offset ? p->offset + span.param : NULL };
            row->each[s->rounding](&one, &each, x + span.at, y + span.at, span.n);
            continue;
        }
        size_t length = span.each ? 1 : span.n;
        for (size_t i = 0; i < span.n; i += length) {
            size_t c = span.param + i;
            if (c != current)
                qg_linear_init(&one, s, p->scale[c], offset_at(p, c));
            current = c;
            qg_fake_linear(&one, x + span.at + i, y + span.at + i, length);
        }
    }
}

/* Parameters are few and runs are long, so the state is made per run. */
static void floating(const qg_scheme *s, const qg_qparam *p, qg_spans *w,
                     const float *x, float *y)
{
    assert(p->n > 0 && x && y);
    qg_span span;
    while (qg_spans_next(w, &span)) {
        size_t length = span.each ? 1 : span.n;
        for (size_t i = 0; i < span.n; i += length) {
            qg_floating one;
            qg_floating_init(&one, s, p->scale[span.param + i]);
            qg_fake_floating(&one, x + span.at + i, y + span.at + i, length);
        }
    }
}

/* Different layouts are first copied and then rounded in place, in y's layout:
 * parameters belong to logical axes, and the walk over y finds them there. */
qg_status qg_fake_quantize(qg_ctx *ctx, const char *what, const qg_scheme *s,
                           const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    qg_spans spans;
    QG_TRY(qg_fake_check_floats(ctx, what, x, y));
    QG_TRY(qg_fake_check_dense(ctx, what, s, x, &spans));
    if (!qg_same_layout(x, y)) {
        QG_TRY(qg_fake_check_dense(ctx, what, s, y, &spans));
        assert(x->data != y->data);
        qg_tensor_copy(x, y);
        x = y;
    }
    if (s->policy & QG_DYNAMIC)
        return qg_fake_dynamic(ctx, what, s, x, y);
    QG_TRY(qg_fake_check_params(ctx, what, s, p, x));
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    (s->policy & QG_FLOATING ? floating : linear)(s, p, &spans, x->f32, y->f32);
    return QG_OK;
}

/* follow -- build/tests/follow KERNELS SNAPSHOT VALUES.npz...
 * Compares the simulation with another runtime node by node: every node runs on the
 * runtime's own inputs, and its output is compared with the runtime's.
 *
 * KERNELS  fast or reference, as of qg run: the reference kernels sum in the order of
 *          ONNX Runtime, the fast ones in that of OpenVINO
 * VALUES   one file per sample: the inputs of the network by name, and the runtime's
 *          values at endpoints, "Conv_3.out0" (after rounding), "Conv_3.in1", and
 *          before rounding "Conv_3.out0.raw" where it is known
 * How      one run of the simulation per sample; a hook compares each output as it is
 *          written and then replaces it by the runtime's, so that differences do not
 *          propagate.  Constants and quantized inputs are only compared.
 * Answer   a line of JSON per active endpoint: elements, how many have the runtime's
 *          code, how many differ by more than a step, the largest difference in steps.
 *          Where the runtime's value before rounding is known: `rounding`, how many
 *          codes differ when the simulation rounds that value; and `apart`, the largest
 *          distance in steps between that and the simulation's unrounded value among
 *          elements with different codes. rounding 0 and a small `apart` prove that
 *          only last bits of sums differ.
 *
 * A step is the scale; under a floating-point policy, the distance to the next value of
 * the format. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/session.h"
#include "engine/data/npz.h"
#include "engine/quant/spans.h"

typedef struct tally {
    const qg_tqc *tqc;
    size_t elements, equal, far, files, rounding;
    double worst, apart;
    bool explained;          /* `rounding` and `apart` are known */
    const qg_tensor *before; /* the simulation's unrounded value for this sample,
                              * plain */
} tally;

typedef struct follower {
    qg_ctx *ctx;
    qg_model *m;
    qg_npz npz;
    qg_arena *arena; /* of one sample */
    tally *of;       /* [TQCs] */
} follower;

/* 16-bit floats of an exported file in float32, in which the simulation computes. */
static qg_status widen(follower *f, const qg_tensor **x)
{
    qg_tensor *wide = QG_NEW(f->arena, qg_tensor);
    if (!wide)
        return qg_nomem(f->ctx);
    qg_tensor_init(wide, QG_F32, (*x)->rank, (*x)->dim);
    QG_TRY(qg_tensor_alloc(f->ctx, f->arena, wide));
    for (int64_t i = 0; i < qg_tensor_count(wide); i++)
        wide->f32[i] = (float)qg_tensor_f64(*x, i);
    *x = wide;
    return QG_OK;
}

/* The runtime's tensor under this name, or NULL. */
static qg_status theirs(follower *f, const char *name, const qg_tensor **out)
{
    const qg_npz_member *m = qg_npz_find(&f->npz, name);
    *out = NULL;
    if (!m)
        return QG_OK;
    QG_TRY(qg_npz_load(f->ctx, f->arena, &f->npz, m, out));
    return (*out)->dtype == QG_F16 ? widen(f, out) : QG_OK;
}

/* The distance between two values of the grid, in its steps. */
static double steps_between(const qg_scheme *s, double scale, double a, double b)
{
    if (!(s->policy & QG_FLOATING))
        return fabs(nearbyint(a / scale) - nearbyint(b / scale));
    int exponent, least = 2 - (1 << (s->exponent_bits - 1));
    (void)frexp(fmax(fabs(a), fabs(b)) / scale, &exponent);
    exponent = exponent - 1 > least ? exponent - 1 : least;
    return fabs(a - b) /
           (scale * ldexp(1, exponent - (s->bits - 1 - s->exponent_bits)));
}

/* The runtime's value before rounding, and the simulation's rounding of it. */
typedef struct cause {
    const qg_tensor *raw;
    qg_tensor rounded;
} cause;

static void explain(tally *t, const cause *why, const qg_tensor *mine,
                    const qg_tensor *other, size_t at, double scale)
{
    const qg_scheme *s = &t->tqc->scheme;
    double theirs = other->f32[at], apart;
    t->rounding += steps_between(s, scale, why->rounded.f32[at], theirs) >= 0.5;
    apart = fabs(t->before->f32[at] - (double)why->raw->f32[at]) / scale;
    if (steps_between(s, scale, mine->f32[at], theirs) >= 0.5 && !(apart <= t->apart))
        t->apart = apart;
}

static void count(tally *t, const qg_tensor *mine, const qg_tensor *other,
                  const cause *why)
{
    qg_qparam p = qg_tqc_param(t->tqc);
    qg_spans w;
    qg_span span;
    if (!qg_spans_start(&w, &t->tqc->scheme, mine))
        return;
    while (qg_spans_next(&w, &span))
        for (size_t i = 0; i < span.n; i++) {
            size_t at = span.at + i, c = span.param + (span.each ? i : 0);
            double scale = p.scale[c < p.n ? c : 0];
            double d =
                steps_between(&t->tqc->scheme, scale, mine->f32[at], other->f32[at]);
            if (why)
                explain(t, why, mine, other, at, scale);
            t->equal += d < 0.5;
            t->far += !(d < 1.5);
            t->worst = d > t->worst ? d : t->worst;
            t->elements++;
        }
    t->files++;
}

/* mine, plain, in the sample's arena. */
static qg_status plain(follower *f, const qg_tensor *mine, qg_tensor *out)
{
    *out = *mine;
    qg_tensor_set_plain(out);
    QG_TRY(qg_tensor_alloc(f->ctx, f->arena, out));
    qg_tensor_copy(mine, out);
    return QG_OK;
}

static const char *name_of(follower *f, const qg_hook_point *at, const char *suffix)
{
    char slot[QG_SLOT_TEXT];
    return qg_arena_printf(
        f->arena, "%s.%s%s", at->endpoint.node->name,
        qg_slot_text(at->endpoint.is_output, at->endpoint.slot, slot), suffix);
}

/* why->raw stays NULL when the runtime's value before rounding is not known. */
static qg_status find_cause(follower *f, const qg_hook_point *at, tally *t,
                            const qg_tensor *other, cause *why)
{
    qg_qparam p = qg_tqc_param(at->tqc);
    const char *name = name_of(f, at, ".raw");
    if (!name)
        return qg_nomem(f->ctx);
    QG_TRY(theirs(f, name, &why->raw));
    if (!why->raw)
        return QG_OK;
    if (!t->before || !qg_same_dims(why->raw, other) || why->raw->dtype != QG_F32)
        return qg_fail(f->ctx, QG_EDATA,
                       "follow: %s: of another shape or type, or not "
                       "an output",
                       name);
    QG_TRY(plain(f, why->raw, &why->rounded));
    t->explained = true;
    return qg_fake_quantize(f->ctx, name, &at->tqc->scheme, &p, &why->rounded,
                            &why->rounded);
}

static qg_status compare(follower *f, const qg_hook_point *at, const qg_tensor *mine,
                         const qg_tensor *other)
{
    qg_tensor copy;
    char text[QG_ENDPOINT_TEXT];
    if (!qg_same_dims(mine, other) || mine->dtype != other->dtype)
        return qg_fail(f->ctx, QG_EDATA, "follow: %s: another shape or type",
                       qg_endpoint_text(at->endpoint, text));
    bool baked = at->tqc && !at->endpoint.is_output && qg_tqc_is_constant(at->tqc);
    if (!at->tqc || !(at->rounded || baked) || !qg_tqc_param(at->tqc).n ||
        mine->dtype != QG_F32)
        return QG_OK;
    tally *t = &f->of[at->tqc->id];
    t->tqc = at->tqc;
    QG_TRY(plain(f, mine, &copy));
    cause why = { 0 };
    QG_TRY(find_cause(f, at, t, other, &why));
    count(t, &copy, other, why.raw ? &why : NULL);
    return QG_OK;
}

/* The simulation's value before rounding, for find_cause. */
static qg_status keep(follower *f, const qg_hook_point *at, const qg_tensor *mine)
{
    qg_tensor *copy = QG_NEW(f->arena, qg_tensor);
    if (!copy)
        return qg_nomem(f->ctx);
    QG_TRY(plain(f, mine, copy));
    f->of[at->tqc->id].before = copy;
    return QG_OK;
}

static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    follower *f = ud;
    const qg_tensor *other;
    (void)ctx;
    (void)sample;
    if (at->tqc && qg_tqc_rounds(at->tqc) && !at->rounded &&
        !qg_tqc_is_constant(at->tqc)) /* called again with the rounded value */
        return at->endpoint.is_output && value->dtype == QG_F32 ? keep(f, at, value)
                                                                : QG_OK;
    const char *name = name_of(f, at, "");
    if (!name)
        return qg_nomem(f->ctx);
    QG_TRY(theirs(f, name, &other));
    if (!other)
        return QG_OK;
    QG_TRY(compare(f, at, value, other));
    if (at->endpoint.is_output)
        qg_tensor_copy(other, value);
    return QG_OK;
}

static qg_status follow(follower *f, qg_run *r)
{
    const qg_graph *g = f->m->graph;
    qg_hook hook = { see, f };
    const qg_tensor **in = QG_NEWN(f->arena, g->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(f->ctx);
    for (size_t i = 0; i < g->input.n; i++) {
        QG_TRY(theirs(f, g->input.at[i]->name, &in[i]));
        if (!in[i])
            return qg_fail(f->ctx, QG_EDATA, "follow: no input '%s' in %s",
                           g->input.at[i]->name, f->npz.path);
    }
    return qg_run_execute(r, in, &hook, 1, 0);
}

static qg_status follow_file(follower *f, qg_run *r, const char *path)
{
    qg_arena_reset(f->arena);
    QG_TRY(qg_npz_open(f->ctx, f->arena, path, &f->npz));
    qg_status s = follow(f, r);
    qg_npz_close(&f->npz);
    return s;
}

static qg_status follow_all(follower *f, const qg_plan *p, char **path, int n)
{
    qg_run *r;
    QG_TRY(qg_run_new(f->ctx, p, &r));
    qg_status s = QG_OK;
    for (int i = 0; i < n && s == QG_OK; i++)
        s = follow_file(f, r, path[i]);
    qg_run_free(r);
    return s;
}

static void print(const follower *f)
{
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < f->m->quant->tqc.n; i++) {
        const tally *t = &f->of[i];
        if (t->tqc)
            printf("{\"endpoint\": \"%s\", \"constant\": %s, \"elements\": %zu, "
                   "\"equal\": %zu, \"far\": %zu, \"worst\": %g, \"explained\": %s, "
                   "\"rounding\": %zu, \"apart\": %g}\n",
                   qg_tqc_text(t->tqc, at),
                   qg_tqc_is_constant(t->tqc) ? "true" : "false", t->elements, t->equal,
                   t->far, t->worst, t->explained ? "true" : "false", t->rounding,
                   t->apart);
    }
}

static qg_status run(follower *f, int argc, char **argv)
{
    qg_plan *p;
    QG_TRY(qg_model_open(f->ctx, argv[2], NULL, &f->m));
    if (!f->m->quant)
        return qg_fail(f->ctx, QG_ESTATE, "follow: %s: no snapshot", argv[1]);
    f->of = QG_NEWN(f->m->graph->arena, f->m->quant->tqc.n, tally);
    if (!f->of)
        return qg_nomem(f->ctx);
    qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                          .quant = f->m->quant,
                          .watch_all = true,
                          .reference = strcmp(argv[1], "reference") == 0 };
    QG_TRY(qg_plan_new(f->ctx, f->m->graph, &o, &p));
    qg_status s = follow_all(f, p, argv + 3, argc - 3);
    qg_plan_free(p);
    if (s == QG_OK)
        print(f);
    return s;
}

int main(int argc, char **argv)
{
    follower f = { .arena = qg_arena_new(qg_alloc_libc) };
    if (argc < 4 || (strcmp(argv[1], "fast") && strcmp(argv[1], "reference"))) {
        fprintf(stderr, "usage: follow fast|reference SNAPSHOT VALUES.npz...\n");
        return 2;
    }
    if (!f.arena || qg_open(NULL, &f.ctx) != QG_OK)
        return 1;
    qg_status s = run(&f, argc, argv);
    if (s != QG_OK)
        fprintf(stderr, "%s\n", qg_ctx_message(f.ctx));
    qg_model_close(f.m);
    qg_close(f.ctx);
    qg_arena_free(f.arena);
    return s != QG_OK;
}

#include "engine/formats/format.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/core/num.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/ir/infer.h"
#include "engine/quant/quantizer.h"

static const struct {
    const char *word, *lost;
} aspect_text[QG_N_ASPECT] = {
#define X(id, word, lost) { word, lost },
    QG_ASPECT_MAP(X)
#undef X
};

static unsigned bit_of(enum qg_aspect a)
{
    assert(a && !((unsigned)a & ((unsigned)a - 1)));
    return (unsigned)__builtin_ctz((unsigned)a);
}

static const char *const option_word[QG_N_FORMAT_OPTION] = {
#define X(id, word) word,
    QG_FORMAT_OPTION_MAP(X)
#undef X
};

const char *qg_format_option_word(enum qg_format_option k) { return option_word[k]; }

const char *qg_aspect_word(enum qg_aspect a) { return aspect_text[bit_of(a)].word; }

/* --- losses --- */

static bool changes_results(const qg_tqc *t, enum qg_aspect a)
{
    const unsigned record = QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_DERIVED |
                            QG_SAYS_SILENT | QG_SAYS_STATE;
    return t && (!qg_tqc_is_constant(t) || a == QG_SAYS_QUANTIZER) && !(record & a);
}

static qg_status add_loss(qg_export *e, enum qg_aspect aspect, const qg_tqc *t,
                          const char *text)
{
    qg_loss l = { t, aspect, changes_results(t, aspect), text };
    return text ? qg_vec_push(e->ctx, e->arena, &e->loss, l) : qg_nomem(e->ctx);
}

static qg_status lose(qg_export *e, enum qg_aspect aspect, const qg_tqc *t,
                      const char *fmt, va_list args)
{
    char text[2600];
    (void)vsnprintf(text, sizeof text, fmt, args);
    qg_num_unsign_nan(text);
    return add_loss(e, aspect, t, qg_arena_strdup(e->arena, text));
}

qg_status qg_export_lose(qg_export *e, enum qg_aspect aspect, const qg_tqc *t,
                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qg_status s = lose(e, aspect, t, fmt, args);
    va_end(args);
    if (s == QG_OK && aspect & (QG_SAYS_BITS | QG_SAYS_RANGE))
        e->loss.at[e->loss.n - 1].computes = false;
    return s;
}

qg_status qg_export_lose_result(qg_export *e, enum qg_aspect aspect, const qg_tqc *t,
                                const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qg_status s = lose(e, aspect, t, fmt, args);
    va_end(args);
    if (s == QG_OK)
        e->loss.at[e->loss.n - 1].computes = true;
    return s;
}

bool qg_node_is_onnx(const qg_node *n, const char *const *names, size_t count)
{
    return n && !n->op->domain && qg_op_is_named(n->op, names, count);
}

qg_status qg_export_lose_node(qg_export *e, const qg_node *n, const char *what,
                              const char *why)
{
    const qg_tqc *t = qg_output_tqc(n, 0);
    return qg_export_lose_result(e, QG_SAYS_ENDPOINT, t ? t : qg_input_tqc(n, 0),
                                 "%s (%s): %s%s", n->name, n->op->name, what, why);
}

qg_status qg_export_lose_open(qg_export *e)
{
    return qg_graph_is_open(e->quant->graph)
               ? qg_export_lose(e, QG_SAYS_OPEN, NULL,
                                "dims are fixed in the file: an open batch is 1 there")
               : QG_OK;
}

qg_status qg_export_word(qg_export *e, const char *name, const char *ends)
{
    const char *at = strpbrk(name, ends);
    return at ? qg_fail(
                    e->ctx, QG_EUNSUPPORTED,
                    "export: format '%s': name '%.1000s': it has the character 0x%02x, "
                    "which names in this file cannot have, expected other names",
                    e->format->name, name, (unsigned char)*at)
              : QG_OK;
}

qg_status qg_export_wrote(qg_export *e, const char *path)
{
    const char *copy = qg_arena_strdup(e->arena, path);
    return copy ? qg_vec_push(e->ctx, e->arena, &e->file, copy) : qg_nomem(e->ctx);
}

/* Whether [qmin, qmax] are all codes of its bits, signed or not. */
static bool full_range(const qg_scheme *s)
{
    int64_t codes = INT64_C(1) << s->bits;
    return s->qmax - s->qmin == codes - 1 && (s->qmin == 0 || s->qmin == -codes / 2);
}

qg_status qg_export_keep_beside(const qg_export *e, const char *beside,
                                const qg_writer *w)
{
    char there[QG_HASH_TEXT], ours[QG_HASH_TEXT];
    if (access(beside, F_OK) != 0 || access(e->path, F_OK) == 0)
        return QG_OK;
    (void)fflush(w->stream);
    QG_TRY(qg_hash_file(e->ctx, beside, there));
    QG_TRY(qg_hash_file(e->ctx, w->temporary, ours));
    return strcmp(there, ours) == 0
               ? QG_OK
               : qg_fail(
                     e->ctx, QG_ECONFIG,
                     "export: %s: its second file is %s, which is there without the "
                     "first, expected another name",
                     e->path, beside);
}

static uint32_t scheme_aspects(const qg_tqc *t, qg_rounding usual)
{
    const qg_scheme *s = &t->scheme;
    qg_qparam p = qg_tqc_param(t);
    uint32_t used = 0;
    used |= s->policy & QG_PER_CHANNEL ? QG_SAYS_PER_CHANNEL : 0u;
    used |= s->policy & QG_BLOCK ? QG_SAYS_BLOCK : 0u;
    used |= s->policy & QG_DYNAMIC ? QG_SAYS_DYNAMIC : 0u;
    used |=
        s->policy & QG_POWER_OF_2 && s->policy & QG_LINEAR ? QG_SAYS_POWER_OF_2 : 0u;
    used |= s->rounding != usual ? QG_SAYS_ROUNDING : 0u;
    used |= t->quantizer ? QG_SAYS_QUANTIZER : 0u;
    if (s->policy & QG_FLOATING)
        return used | QG_SAYS_FLOATING;
    used |= full_range(s) ? 0u : QG_SAYS_RANGE;
    used |= s->bits & (s->bits - 1) ? QG_SAYS_BITS : 0u;
    for (size_t c = 0; p.offset && c < p.n; c++)
        used |= p.offset[c] ? QG_SAYS_OFFSET : 0u;
    return used;
}

uint32_t qg_tqc_aspects(const qg_tqc *t, qg_rounding usual)
{
    switch (t->state) {
    case QG_TQC_FP32:
    case QG_TQC_SOI:
    case QG_NTQC_STATE:
        return 0;
    case QG_TQC_OVERLAPPED:
        return QG_SAYS_SILENT;
    case QG_TQC_INITIAL:
    case QG_TQC_PASSIVE_INIT:
    case QG_TQC_DEACTIVATED:
    case QG_TQC_DEQUANTIZED:
        return QG_SAYS_STATE;
    case QG_TQC_ACTIVATED:
    case QG_TQC_BAKED:
    case QG_TQC_PASSIVE:
    case QG_TQC_PASSIVE_BAKED:
        break;
    }
    uint32_t used = scheme_aspects(t, usual);
    used |= t->derive != QG_DERIVE_NONE ? QG_SAYS_DERIVED : 0u;
    return used | (qg_tqc_root(t) != t ? QG_SAYS_SHARING : 0u);
}

/* Of the reader that the file is for, if build knows it: that of integers. */
static qg_rounding reader_of(const qg_export *e, const qg_tqc *t)
{
    return t->scheme.policy & QG_FLOATING ? e->format->rounding : e->rounding;
}

/* Of the reader that the file is for, and of all others. */
static qg_status lose_rounding(qg_export *e, const qg_tqc *t)
{
    const qg_rounding reader = reader_of(e, t);
    const char *own = qg_rounding_name((qg_rounding)t->scheme.rounding);
    const char *usual = qg_rounding_name(e->format->rounding);
    if (t->scheme.rounding != reader)
        return qg_export_lose(e, QG_SAYS_ROUNDING, t,
                              "rounding %s; readers of the file use %s", own,
                              qg_rounding_name(reader));
    QG_TRY(qg_export_lose(e, QG_SAYS_ROUNDING, t,
                          "rounding %s, as in the reader that the file is for; others "
                          "use %s",
                          own, usual));
    e->loss.at[e->loss.n - 1].computes = false;
    return QG_OK;
}

/* INTERNAL endpoints are not part of other tools' files: nothing is lost.  A format
 * that says nothing is a view, and has one row for the whole model. */
static qg_status lose_unsaid(qg_export *e, const qg_tqc *t)
{
    uint32_t lost =
        (qg_tqc_aspects(t, reader_of(e, t)) | qg_tqc_aspects(t, e->format->rounding)) &
        ~e->format->says;
    if (t->visibility == QG_EXPORT_INTERNAL || !e->format->says)
        return QG_OK;
    if (lost & QG_SAYS_ROUNDING)
        QG_TRY(lose_rounding(e, t));
    if (lost & QG_SAYS_QUANTIZER)
        QG_TRY(qg_export_lose(e, QG_SAYS_QUANTIZER, t,
                              "quantization function %s of the host, replaced by the "
                              "rounding of the format",
                              qg_tqc_quantizer(t)));
    lost &= ~(uint32_t)(QG_SAYS_ROUNDING | QG_SAYS_QUANTIZER);
    for (unsigned bit = 0; bit < QG_N_ASPECT; bit++)
        if (lost >> bit & 1u)
            QG_TRY(add_loss(e, (enum qg_aspect)(1u << bit), t, aspect_text[bit].lost));
    return QG_OK;
}

/* Whether a NaN that it rounds gets another code than in every reader. */
static bool differs_in_nan(const qg_export *e, const qg_tqc *t)
{
    const unsigned rule = t->scheme.nan;
    return qg_tqc_rounds(t) && !qg_tqc_is_constant(t) &&
           !(t->scheme.policy & QG_FLOATING) && t->visibility != QG_EXPORT_INTERNAL &&
           !(e->nan ? e->nan & QG_NAN_BIT(rule) : rule == QG_NAN_KEEP);
}

/* "lowest or highest"; NULL: out of memory, now or for a part. */
static const char *nan_text(const qg_export *e)
{
    const char *text = "";
    for (unsigned rule = 0; rule < QG_NNAN && text; rule++)
        if (e->nan & QG_NAN_BIT(rule))
            text = qg_arena_printf(e->arena, "%s%s%s", text, *text ? " or " : "",
                                   qg_nan_name((qg_nan)rule));
    return e->nan ? text : "not known";
}

/* NaN has no code, so one row, and only where the samples that calibrated made one: in
 * most networks nothing is lost. */
static qg_status lose_nan(qg_export *e)
{
    const qg_tqc *t = NULL;
    if (!e->format->says || !qg_manifest_has_nan(&e->info->manifest))
        return QG_OK;
    for (size_t i = 0; i < e->quant->tqc.n && !t; i++)
        if (differs_in_nan(e, e->quant->tqc.at[i]))
            t = e->quant->tqc.at[i];
    if (!t)
        return QG_OK;
    const char *readers = nan_text(e);
    if (!readers)
        return qg_nomem(e->ctx);
    QG_TRY(qg_export_lose_result(
        e, QG_SAYS_NAN, NULL,
        "rule for NaN %s; that of readers of the file: %s; when it "
        "was quantized: %s",
        qg_nan_name((qg_nan)t->scheme.nan), readers, e->info->manifest.not_finite));
    return QG_OK;
}

/* Of the whole model first. */
static int by_endpoint(const void *a, const void *b)
{
    const qg_loss *p = a, *q = b;
    int64_t i = p->tqc ? (int64_t)p->tqc->id : -1,
            j = q->tqc ? (int64_t)q->tqc->id : -1;
    int ids = (i > j) - (i < j),
        kinds = (p->aspect > q->aspect) - (p->aspect < q->aspect);
    return ids ? ids : kinds ? kinds : strcmp(p->text, q->text);
}

static qg_status refuse(qg_export *e)
{
    char at[QG_ENDPOINT_TEXT];
    const qg_loss *l = &e->loss.at[0];
    const char *where = l->tqc ? qg_tqc_text(l->tqc, at) : "the model";
    char more[40] = "";
    if (e->loss.n > 1)
        (void)snprintf(more, sizeof more, " (and %zu more)", e->loss.n - 1);
    return qg_fail(e->ctx, QG_EUNSUPPORTED,
                   "export: %s: format '%s' cannot represent %s: %s%s, "
                   "expected no loss with --strict",
                   where, e->format->name, qg_aspect_word(l->aspect), l->text, more);
}

qg_status qg_export_run(qg_export *e, bool strict)
{
    assert(e->format && e->format->build && e->format->write);
    e->rounding = e->format->rounding;
    e->nan = e->format->nan;
    QG_TRY(e->format->build(e));
    QG_TRY(lose_nan(e));
    qg_dtype type = e->quant->graph->float_type;
    if (type != QG_NODTYPE && !e->format->choice[QG_FORMAT_FLOAT])
        QG_TRY(qg_export_lose(e, QG_SAYS_FLOAT_TYPE, NULL,
                              "values are float32, where the model has %s",
                              qg_dtype_name(type)));
    for (size_t i = 0; i < e->quant->tqc.n; i++)
        QG_TRY(lose_unsaid(e, e->quant->tqc.at[i]));
    if (e->loss.n)
        qsort(e->loss.at, e->loss.n, sizeof *e->loss.at, by_endpoint);
    if (strict && e->loss.n)
        return refuse(e);
    return e->format->write(e);
}

void qg_export_end(qg_export *e)
{
    qg_graph_free(e->graph);
    qg_arena_free(e->arena);
    e->graph = NULL;
    e->arena = NULL;
}

/* --- files beside a model --- */

/* "dir/name.json" -> "dir/name.onnx". */
static const char *model_beside(qg_export *e)
{
    const char *dot = strrchr(qg_path_base(e->path), '.');
    size_t stem = dot ? (size_t)(dot - e->path) : strlen(e->path);
    return qg_arena_printf(e->arena, "%.*s.onnx", (int)stem, e->path);
}

/* The model first: a file that is there has its model. */
qg_status qg_export_beside_model(qg_export *e, qg_status (*put)(qg_export *, FILE *))
{
    qg_writer w;
    const char *model = model_beside(e);
    if (!model)
        return qg_nomem(e->ctx);
    if (strcmp(model, e->path) == 0)
        return qg_fail(e->ctx, QG_ECONFIG,
                       "export: %s: this is the file of the model, expected a name for "
                       "the file beside it",
                       e->path);
    QG_TRY(qg_onnx_keep_foreign(e->ctx, model, e->path));
    QG_TRY(qg_writer_open(e->ctx, e->path, &w));
    qg_status s = put(e, w.stream);
    qg_export_options o = { .beside = &w, .learned_alone = true };
    if (s == QG_OK)
        s = qg_onnx_export(e->ctx, e->quant->graph, model, &o);
    qg_writer_abandon(&w);
    QG_TRY(s);
    QG_TRY(qg_export_wrote(e, e->path));
    return qg_export_wrote(e, model);
}

/* --- the other way --- */

qg_status qg_import_graph(qg_import *i, const char *path)
{
    assert(!i->graph);
    QG_TRY(qg_onnx_import(i->ctx, path, NULL, &i->graph));
    return qg_infer(i->graph, NULL, 0);
}

/* quantize_tensor.c -- one scheme, in words, on the array of one .npy file. */
#include "engine/session/quantize_tensor.h"

#include <assert.h>
#include <limits.h>
#include <math.h>

#include "engine/report/describe.h"
#include "engine/core/file.h"
#include "engine/core/num.h"
#include "engine/data/npy.h"
#include "engine/number/format.h"
#include "engine/session/options.h"

static const char doing[] = "quantize-tensor";

void qg_quantize_tensor_options_init(qg_quantize_tensor_options *o, size_t size)
{
    const qg_quantize_tensor_options preset = { .policy = "per-tensor linear symmetric",
                                                .bits = 8,
                                                .axis = INT_MIN };
    qg_options_init(o, size, &preset,
                    (qg_options_type){ "qg_quantize_tensor_options", sizeof preset });
}

/* --- files --- */

/* To float32: exact but for float64, which may round. */
static void convert(const qg_tensor *from, qg_tensor *to, size_t *rounded)
{
    int64_t n = qg_tensor_count(from);
    *rounded = 0;
    for (int64_t i = 0; i < n; i++)
        if (from->dtype == QG_F16) {
            to->f32[i] = qg_f16_to_f32(from->u16[i]);
        } else {
            double x = from->f64[i];
            to->f32[i] = (float)x;
            *rounded += (double)to->f32[i] != x && !isnan(x);
        }
}

static void warn(const qg_tensor_job *j, size_t rounded)
{
    size_t odd = 0, n = (size_t)qg_tensor_count(&j->x);
    for (size_t i = 0; i < n; i++)
        odd += !isfinite(j->x.f32[i]);
    if (rounded)
        qg_warn(j->ctx, "%s: %s: %zu of %zu elements were rounded to float32", doing,
                j->path, rounded, n);
    if (odd)
        qg_warn(j->ctx,
                "%s: %s: %zu of %zu elements are NaN or infinite: so are the "
                "metrics",
                doing, j->path, odd, n);
}

static qg_status load(qg_tensor_job *j)
{
    const qg_tensor *t;
    char text[QG_SHAPE_TEXT];
    size_t rounded = 0;
    QG_TRY(qg_npy_load(j->ctx, j->arena, j->path, &t));
    if (!((QG_DT(F16) | QG_DT(F32) | QG_DT(F64)) >> t->dtype & 1))
        return qg_fail(j->ctx, QG_EDATA,
                       "%s: %s: is %s, expected float16, float32 or float64", doing,
                       j->path, qg_tensor_text(t, text));
    qg_tensor_init(&j->y, QG_F32, t->rank, t->dim);
    QG_TRY(qg_tensor_alloc(j->ctx, j->arena, &j->y));
    j->x = *t;
    if (t->dtype != QG_F32) {
        j->x = j->y;
        QG_TRY(qg_tensor_alloc(j->ctx, j->arena, &j->x));
        convert(t, &j->x, &rounded);
    }
    warn(j, rounded);
    return QG_OK;
}

/* --- codes --- */

static qg_dtype integer_type(const qg_scheme *s)
{
    static const qg_dtype type[3][2] = {
        {QG_U8,   QG_I8 },
        { QG_U16, QG_I16},
        { QG_U32, QG_I32}
    };
    return type[s->bits > 16 ? 2 : s->bits > 8][s->qmin < 0];
}

static qg_dtype floating_type(const qg_scheme *s)
{
    static const struct {
        uint8_t bits, exponent_bits;
        bool fnuz;
        qg_dtype type;
    } format[] = {
        {8,   4, false, QG_F8E4M3FN  },
        { 8,  4, true,  QG_F8E4M3FNUZ},
        { 8,  5, false, QG_F8E5M2    },
        { 8,  5, true,  QG_F8E5M2FNUZ},
        { 4,  2, false, QG_F4E2M1    },
        { 16, 5, false, QG_F16       },
        { 16, 8, false, QG_BF16      },
    };
    bool fnuz = (s->variant & QG_FLOAT_FNUZ) != 0;
    for (size_t i = 0; i < sizeof format / sizeof format[0]; i++)
        if (format[i].bits == s->bits && format[i].exponent_bits == s->exponent_bits &&
            format[i].fnuz == fnuz)
            return format[i].type;
    return QG_NODTYPE;
}

/* Bit patterns as unsigned integers, one per element. */
static qg_status as_patterns(qg_tensor_job *j, qg_tensor *t)
{
    qg_tensor out;
    int64_t n = qg_tensor_count(t);
    unsigned bits = qg_dtype_bits(t->dtype);
    qg_tensor_init(&out, bits > 8 ? QG_U16 : QG_U8, t->rank, t->dim);
    out.data = t->data;
    if (bits < 8) {
        QG_TRY(qg_tensor_alloc(j->ctx, j->arena, &out));
        for (int64_t i = 0; i < n; i++)
            out.u8[i] = (uint8_t)qg_packed_get(t->data, bits, (size_t)i);
    }
    *t = out;
    return QG_OK;
}

static qg_status make_codes(qg_tensor_job *j, qg_tensor *out)
{
    const qg_scheme *s = &j->done.scheme;
    bool floating = (s->policy & QG_FLOATING) != 0;
    qg_dtype type = floating ? floating_type(s) : integer_type(s);
    if (type == QG_NODTYPE)
        return qg_fail(j->ctx, QG_EUNSUPPORTED,
                       "%s: codes: no storage for %d bits with %d of exponent, "
                       "expected E4M3, E5M2, E2M1, float16 or bfloat16",
                       doing, s->bits, s->exponent_bits);
    qg_tensor_init(out, type, j->x.rank, j->x.dim);
    QG_TRY(qg_tensor_alloc(j->ctx, j->arena, out));
    QG_TRY(qg_quantize(j->ctx, doing, s, &j->done.param, &j->x, out));
    return floating ? as_patterns(j, out) : QG_OK;
}

/* --- the curve --- */

static void put_number(FILE *to, double x, char end)
{
    char text[QG_NUM_TEXT] = "inf";
    if (isfinite(x))
        qg_num_f64(text, x);
    (void)fprintf(to, "%s%c", text, end);
}

static qg_status write_curve(const qg_tensor_job *j)
{
    qg_writer w;
    const qg_curve *c = &j->curve;
    QG_TRY(qg_writer_open(j->ctx, j->o->curve, &w));
    (void)fputs("bins,threshold,divergence\n", w.stream);
    for (size_t i = 0; i < c->n; i++) {
        (void)fprintf(w.stream, "%zu,", c->kept[i]);
        put_number(w.stream, c->threshold[i], ',');
        put_number(w.stream, c->divergence[i], '\n');
    }
    return qg_writer_commit(&w);
}

/* --- the answer --- */

static qg_status report_curve(const qg_tensor_job *j, qg_report *r)
{
    float threshold = (float)j->curve.best.high;
    QG_TRY(qg_report_add(r, "threshold", qg_cell_floats(&threshold, 1)));
    QG_TRY(qg_report_add(r, "divergence", qg_cell_number(j->curve.best.loss)));
    QG_TRY(qg_report_add(r, "candidates", qg_cell_count(j->curve.n)));
    return qg_report_add(r, "curve", qg_cell_text(j->o->curve));
}

static qg_status report_param(const qg_tensor_job *j, qg_report *r)
{
    const qg_qparam *p = &j->done.param;
    QG_TRY(qg_report_add(r, "scale", qg_cell_floats(p->scale, p->n)));
    return qg_report_add(r, "offset", qg_cell_ints(p->offset, p->n));
}

static qg_status report_error(const qg_tensor_job *j, qg_report *r)
{
    const qg_error *e = &j->done.error;
    double n = (double)e->count, saturated = (double)j->done.saturated;
    QG_TRY(qg_report_add(r, "count", qg_cell_count(e->count)));
    QG_TRY(qg_report_add(r, "nsr", qg_cell_number(qg_error_nsr(e))));
    QG_TRY(qg_report_add(r, "snr_db", qg_cell_number(qg_error_decibel(e))));
    QG_TRY(qg_report_add(r, "mse", qg_cell_number(qg_error_mse(e))));
    QG_TRY(qg_report_add(r, "max", qg_cell_number(qg_error_max(e))));
    QG_TRY(qg_report_add(r, "cosine", qg_cell_number(qg_error_cosine(e))));
    return qg_report_add(r, "saturated", qg_cell_percent(n > 0 ? saturated / n : 0));
}

static qg_status describe(const qg_tensor_job *j, const qg_tensor *written,
                          qg_report *r)
{
    char shape[QG_SHAPE_TEXT], text[QG_SCHEME_TEXT];
    QG_TRY(qg_report_add(r, "file", qg_cell_text(j->path)));
    QG_TRY(qg_report_add(r, "array", qg_cell_text(qg_tensor_text(&j->x, shape))));
    QG_TRY(
        qg_report_add(r, "scheme", qg_cell_text(qg_scheme_text(&j->how.scheme, text))));
    if (j->o->variant)
        QG_TRY(qg_report_add(r, "variant", qg_cell_text(j->o->variant)));
    QG_TRY(report_param(j, r));
    QG_TRY(report_error(j, r));
    if (j->o->curve)
        QG_TRY(report_curve(j, r));
    if (!written)
        return QG_OK;
    QG_TRY(qg_report_add(r, "written", qg_cell_text(j->o->output)));
    return qg_report_add(r, "as", qg_cell_text(qg_tensor_text(written, shape)));
}

/* Room for parameters from the data; none when the scheme does not fit x, which is for
 * qg_scheme_apply to refuse. */
static qg_status make_room(qg_tensor_job *j)
{
    int64_t count = qg_scheme_param_count(&j->how.scheme, &j->x);
    qg_apply_room *room = &j->how.room;
    if (j->how.param || count < 0)
        return QG_OK;
    size_t n = (size_t)count;
    room->low = QG_NEWN(j->arena, n, float);
    room->high = QG_NEWN(j->arena, n, float);
    room->scale = QG_NEWN(j->arena, n, float);
    room->offset = QG_NEWN(j->arena, n, int32_t);
    bool made = room->low && room->high && room->scale && room->offset;
    return made ? QG_OK : qg_nomem(j->ctx);
}

static qg_status run(qg_tensor_job *j, qg_report *r)
{
    qg_tensor codes;
    const qg_tensor *written = j->o->output ? &j->y : NULL;
    if (j->o->codes && !j->o->output)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: codes: no output, expected a file",
                       doing);
    if (j->o->output && j->o->curve && qg_is_same_file(j->o->curve, j->o->output))
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: %s: the curve goes to the same file, expected another",
                       doing, j->o->output);
    QG_TRY(load(j));
    QG_TRY(qg_tensor_job_scheme(j));
    QG_TRY(qg_tensor_job_param(j));
    QG_TRY(make_room(j));
    QG_TRY(qg_scheme_apply(j->ctx, &j->how, &j->x, &j->y, &j->done));
    assert(j->done.param.offset);
    if (j->o->codes) {
        QG_TRY(make_codes(j, &codes));
        written = &codes;
    }
    if (r)
        QG_TRY(describe(j, written, r));
    if (j->o->curve)
        QG_TRY(write_curve(j));
    return written ? qg_npy_save(j->ctx, j->o->output, written) : QG_OK;
}

qg_status qg_quantize_tensor(qg_ctx *ctx, const char *path,
                             const qg_quantize_tensor_options *given,
                             qg_report **report)
{
    qg_quantize_tensor_options o;
    qg_report *r = NULL;
    QG_TRY(QG_OPTIONS_READ(ctx, qg_quantize_tensor_options, given, &o));
    qg_tensor_job j = { .ctx = ctx, .path = path, .o = &o };
    j.arena = qg_arena_new(ctx->alloc);
    qg_status s = j.arena ? QG_OK : qg_nomem(ctx);
    if (s == QG_OK && report)
        s = qg_report_new(ctx, doing, &r);
    if (s == QG_OK)
        s = run(&j, r);
    qg_arena_free(j.arena);
    return qg_report_end(s, r, report);
}

#include "engine/calib/doctor.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *qg_finding_name(enum qg_finding_kind k)
{
    static const char *const name[] = {
#define X(id, text) [QG_FINDING_##id] = text,
        QG_FINDING_MAP(X)
#undef X
    };
    assert((unsigned)k < QG_NFINDING);
    return name[k];
}

/* text: made by printf in the arena, or NULL. */
qg_status qg_findings_add(qg_findings *f, enum qg_finding_kind kind, size_t sample,
                          const char *where, const char *text)
{
    if (!text)
        return qg_nomem(f->ctx);
    qg_finding g = { kind, sample, where, text };
    return qg_vec_push(f->ctx, f->arena, &f->found, g);
}

/* --- one input of one sample --- */

/* Two multiplicative hashes of words of 32 bits; the data are not hostile to us. */
static void hash_words(const void *words, size_t n, uint64_t h[2])
{
    const unsigned char *p = words;
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, p + i * sizeof word, sizeof word);
        h[0] = (h[0] ^ word) * UINT64_C(0x100000001b3);
        h[1] = (h[1] + word) * UINT64_C(0x9e3779b97f4a7c15) + (h[1] >> 29);
    }
}

/* Mean |x[i + lag] - x[i]| over the first elements, which suffice; 0 when there are no
 * such pairs. */
static double difference(const float *x, size_t n, size_t lag)
{
    double sum = 0;
    assert(lag > 0);
    n = n < 1 << 16 ? n : 1 << 16;
    for (size_t i = 0; i + lag < n; i++)
        sum += fabs((double)x[i + lag] - (double)x[i]);
    return lag < n ? sum / (double)(n - lag) : 0;
}

void qg_look_at(const qg_tensor *x, size_t channels, qg_look *out)
{
    assert(x->dtype == QG_F32 && qg_tensor_is_plain(x));
    size_t n = (size_t)qg_tensor_count(x);
    *out = (qg_look){
        .low = INFINITY, .high = -INFINITY, .n = n, .hash = {1469, 1}
    };
    hash_words(x->dim, (size_t)x->rank * sizeof x->dim[0] / 4, out->hash);
    hash_words(x->f32, n, out->hash);
    for (size_t i = 0; i < n; i++) {
        float v = x->f32[i];
        out->nans += isnan(v) != 0;
        out->infinities += isinf(v) != 0;
        out->above += v == HUGE_VALF;
        if (!isfinite(v))
            continue;
        out->low = v < out->low ? v : out->low;
        out->high = v > out->high ? v : out->high;
    }
    if (channels == 0 || out->nans || out->infinities)
        return;
    out->step = difference(x->f32, n, 1);
    out->stride = difference(x->f32, n, channels);
}

qg_input_kind qg_input_kind_of(const char *name, const qg_tensor *type)
{
    qg_input_kind k = { .name = name };
    if (type->rank != 4)
        return k;
    bool first = type->dim[1] == 3 || type->dim[1] == 4;
    bool last = type->dim[3] == 3 || type->dim[3] == 4;
    if (first == last)
        return k;
    k.channels = (size_t)type->dim[first ? 1 : 3];
    k.channels_last = last;
    return k;
}

uint64_t qg_look_faults(const qg_input_kind *k, const qg_look *l)
{
    return l->nans + (k->mask ? l->above : l->infinities);
}

static float largest(const qg_look *l)
{
    return l->low > l->high ? 0 : fmaxf(fabsf(l->low), fabsf(l->high));
}

/* A finding that several samples share is one row, about the first of them. */
typedef struct shared {
    size_t first, n; /* samples; n 0: none */
} shared;

static void share(shared *s, size_t sample)
{
    if (!s->n++)
        s->first = sample;
}

/* " here and in 3 other samples", or "". */
enum { OTHERS_TEXT = 64 };
static const char *others(const shared *s, char text[OTHERS_TEXT])
{
    text[0] = '\0';
    if (s->n > 1)
        (void)snprintf(text, OTHERS_TEXT, " here and in %zu other sample%s", s->n - 1,
                       s->n == 2 ? "" : "s");
    return text;
}

static qg_status judge_finite(qg_findings *f, const qg_input_kind *k,
                              const qg_look *look, size_t samples)
{
    char text[OTHERS_TEXT];
    shared all = { 0 };
    for (size_t i = 0; i < samples; i++)
        if (qg_look_faults(k, &look[i]))
            share(&all, i);
    if (!all.n)
        return QG_OK;
    const qg_look *l = &look[all.first];
    return qg_findings_add(
        f, QG_FINDING_NOT_FINITE, all.first, k->name,
        qg_arena_printf(
            f->arena, "%llu NaN and %llu infinities%s, expected finite numbers",
            (unsigned long long)l->nans,
            (unsigned long long)(qg_look_faults(k, l) - l->nans), others(&all, text)));
}

static bool is_constant(const qg_look *l)
{
    return l->n >= 2 && !l->nans && !l->infinities && l->low == l->high;
}

static qg_status judge_constant(qg_findings *f, const qg_input_kind *k,
                                const qg_look *look, size_t samples)
{
    char text[OTHERS_TEXT];
    shared all = { 0 };
    for (size_t i = 0; i < samples; i++)
        if (is_constant(&look[i]))
            share(&all, i);
    if (!all.n)
        return QG_OK;
    const qg_look *l = &look[all.first];
    const bool many = all.n > 1;
    return qg_findings_add(
        f, QG_FINDING_CONSTANT, all.first, k->name,
        qg_arena_printf(f->arena,
                        "all %llu elements are %s%g%s%s, expected different values",
                        (unsigned long long)l->n, many ? "equal (" : "", (double)l->low,
                        many ? ")" : "", others(&all, text)));
}

static int float_order(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static qg_status median(qg_findings *f, const float *x, size_t n, float *out)
{
    float *sorted = QG_NEWN(f->arena, n, float);
    assert(n > 0);
    if (!sorted)
        return qg_nomem(f->ctx);
    memcpy(sorted, x, n * sizeof *x);
    qsort(sorted, n, sizeof *sorted, float_order);
    *out = sorted[n / 2];
    return QG_OK;
}

/* 16: eight-bit pixels next to pixels of 0..1 differ by 255; photos of one kind by
 * 2. */
static qg_status judge_range(qg_findings *f, const qg_input_kind *k,
                             const qg_look *look, size_t samples)
{
    float middle, *top = QG_NEWN(f->arena, samples, float);
    if (!top)
        return qg_nomem(f->ctx);
    for (size_t i = 0; i < samples; i++)
        top[i] = largest(&look[i]);
    QG_TRY(median(f, top, samples, &middle));
    char text[OTHERS_TEXT];
    shared all = { 0 };
    for (size_t i = 0; i < samples && middle > 0; i++)
        if (look[i].low < look[i].high &&
            (top[i] >= 16 * middle || middle >= 16 * top[i]))
            share(&all, i);
    if (!all.n)
        return QG_OK;
    const qg_look *l = &look[all.first];
    return qg_findings_add(
        f, QG_FINDING_RANGE, all.first, k->name,
        qg_arena_printf(f->arena,
                        "%g to %g, while half of the samples stay below %g: scaled "
                        "differently%s, expected the same scale for all samples",
                        (double)l->low, (double)l->high, (double)middle,
                        others(&all, text)));
}

/* Neighbouring pixels are alike.  In memory with channels last they are `channels`
 * apart, so that differences there are smaller than those of neighbours in memory;
 * with channels first they only grow with the distance. */
static qg_status judge_layout(qg_findings *f, const qg_input_kind *k,
                              const qg_look *look, size_t samples)
{
    double step = 0, stride = 0;
    for (size_t i = 0; i < samples; i++) {
        step += look[i].step;
        stride += look[i].stride;
    }
    if (k->channels == 0 || step == 0 || stride == 0)
        return QG_OK;
    bool interleaved = stride < 0.6 * step, planar = step < 0.6 * stride;
    if (k->channels_last ? !planar : !interleaved)
        return QG_OK;
    return qg_findings_add(
        f, QG_FINDING_LAYOUT, SIZE_MAX, k->name,
        qg_arena_printf(
            f->arena,
            "elements differ by %.3g from their neighbours and by %.3g from those %zu "
            "away: data seem to have channels %s, expected channels %s",
            step / (double)samples, stride / (double)samples, k->channels,
            k->channels_last ? "first" : "last", k->channels_last ? "last" : "first"));
}

typedef struct print {
    uint64_t hash[2];
    size_t sample;
} print;

static int print_order(const void *a, const void *b)
{
    const print *p = a, *q = b;
    int c = memcmp(p->hash, q->hash, sizeof p->hash);
    return c ? c : (p->sample > q->sample) - (p->sample < q->sample);
}

/* The samples p[1 .. n) are copies of p[0].  Constant ones have a finding already. */
static qg_status judge_copies(qg_findings *f, const qg_input_kind *k,
                              const qg_look *look, const print *p, size_t n)
{
    char text[OTHERS_TEXT];
    shared all = { .first = n > 1 ? p[1].sample : 0, .n = n - 1 };
    if (!all.n || is_constant(&look[p[0].sample]))
        return QG_OK;
    return qg_findings_add(
        f, QG_FINDING_DUPLICATE, all.first, k->name,
        qg_arena_printf(f->arena,
                        "identical to sample %zu%s, expected different samples",
                        p[0].sample, others(&all, text)));
}

static qg_status judge_duplicates(qg_findings *f, const qg_input_kind *k,
                                  const qg_look *look, size_t samples)
{
    print *p = QG_NEWN(f->arena, samples, print);
    size_t first = 0;
    if (!p)
        return qg_nomem(f->ctx);
    for (size_t i = 0; i < samples; i++)
        p[i] = (print){
            {look[i].hash[0], look[i].hash[1]},
            i
        };
    qsort(p, samples, sizeof *p, print_order);
    for (size_t i = 1; i <= samples; i++) {
        if (i < samples && memcmp(p[i].hash, p[first].hash, sizeof p->hash) == 0)
            continue;
        QG_TRY(judge_copies(f, k, look, &p[first], i - first));
        first = i;
    }
    return QG_OK;
}

qg_status qg_judge_input(qg_findings *f, const qg_input_kind *k, const qg_look *look,
                         size_t samples)
{
    QG_TRY(judge_finite(f, k, look, samples));
    QG_TRY(judge_constant(f, k, look, samples));
    QG_TRY(judge_duplicates(f, k, look, samples));
    QG_TRY(judge_range(f, k, look, samples));
    return judge_layout(f, k, look, samples);
}

/* --- one value over all samples --- */

qg_status qg_watch_begin(qg_ctx *ctx, qg_arena *a, const qg_tensor *type, bool spread,
                         qg_watch *w)
{
    *w = (qg_watch){ .sample = SIZE_MAX, .nan = SIZE_MAX };
    if (type->rank < 3 || type->dim[1] < 2)
        return QG_OK;
    w->channels = (size_t)type->dim[1];
    w->spread = spread;
    w->low = QG_NEWN(a, w->channels, float);
    w->high = QG_NEWN(a, w->channels, float);
    w->moment = QG_NEWN(a, spread ? w->channels : 1, qg_watch_moment);
    if (!w->low || !w->high || !w->moment)
        return qg_nomem(ctx);
    for (size_t c = 0; c < w->channels; c++) {
        w->low[c] = INFINITY;
        w->high[c] = -INFINITY;
    }
    return QG_OK;
}

/* Of equals the lower index leads. */
void qg_watch_note(qg_watch *w, size_t sample, float top)
{
    if (top > w->top || (top == w->top && sample < w->sample)) {
        w->second = w->top;
        w->top = top;
        w->sample = sample;
    } else if (top > w->second) {
        w->second = top;
    }
}

static void note_channel(qg_watch *w, size_t c, float v)
{
    w->low[c] = v < w->low[c] ? v : w->low[c];
    w->high[c] = v > w->high[c] ? v : w->high[c];
    if (w->spread) {
        w->moment[c].sum += (double)v;
        w->moment[c].square += (double)v * (double)v;
    }
}

/* A sample's sums are added to the exact sums, so that workers do not matter. */
static void add_moments(qg_watch *w)
{
    for (size_t c = 0; w->spread && c < w->channels; c++) {
        qg_watch_moment *m = &w->moment[c];
        qg_wide_add(&m->sums, m->sum);
        qg_wide_add(&m->squares, m->square);
        m->sum = m->square = 0;
    }
}

/* Element i in plain order. */
static float element(const qg_tensor *x, int64_t i)
{
    const float *p = x->f32;
    for (int32_t d = x->rank; d-- > 0; i /= x->dim[d])
        p += i % x->dim[d] * x->stride[d];
    return *p;
}

/* The elements after axis 1 are evenly spaced, as in both layouts of plans. */
static bool is_even(const qg_tensor *x)
{
    for (int32_t d = 2; d + 1 < x->rank; d++)
        if (x->dim[d] > 1 && x->stride[d] != x->stride[d + 1] * x->dim[d + 1])
            return false;
    return x->rank > 2;
}

/* Elements in plain order, whatever the strides. */
void qg_watch_see(qg_watch *w, size_t sample, const qg_tensor *x)
{
    int64_t n = qg_tensor_count(x), inner = qg_dims_product(x, 2, x->rank);
    bool channels = w->channels && x->rank >= 3 && (size_t)x->dim[1] == w->channels;
    bool even = is_even(x);
    float top = 0;
    assert(x->dtype == QG_F32 && (n == 0 || inner > 0));
    for (int64_t i = 0; i < n; i += inner) {
        const float *row = even ? x->f32 + i / inner / x->dim[1] * x->stride[0] +
                                      i / inner % x->dim[1] * x->stride[1]
                                : NULL;
        for (int64_t k = 0; k < inner; k++) {
            float v = row ? row[k * x->stride[x->rank - 1]] : element(x, i + k);
            if (isnan(v) && sample < w->nan)
                w->nan = sample;
            if (!isfinite(v))
                continue;
            top = fabsf(v) > top ? fabsf(v) : top;
            if (channels)
                note_channel(w, (size_t)(i / inner) % w->channels, v);
        }
    }
    qg_watch_note(w, sample, top);
    w->count += channels ? (double)n / (double)w->channels : 0;
    add_moments(w);
    w->samples++;
}

void qg_watch_merge(qg_watch *into, const qg_watch *from)
{
    assert(into->channels == from->channels && into->spread == from->spread);
    if (from->samples == 0)
        return;
    qg_watch_note(into, from->sample, from->top);
    into->second = from->second > into->second ? from->second : into->second;
    into->samples += from->samples;
    into->nan = from->nan < into->nan ? from->nan : into->nan;
    into->count += from->count;
    for (size_t c = 0; c < into->channels; c++) {
        into->low[c] = fminf(into->low[c], from->low[c]);
        into->high[c] = fmaxf(into->high[c], from->high[c]);
        if (!into->spread)
            continue;
        qg_wide_merge(&into->moment[c].sums, &from->moment[c].sums);
        qg_wide_merge(&into->moment[c].squares, &from->moment[c].squares);
    }
}

/* --- judging values --- */

static double deviation(const qg_watch *w, size_t c)
{
    const double mean = qg_wide_value(&w->moment[c].sums) / w->count;
    if (w->low[c] == w->high[c])
        return 0; /* without what the roundings below leave */
    return sqrt(fmax(qg_wide_value(&w->moment[c].squares) / w->count - mean * mean, 0));
}

/* Against the statistics that a normalization was trained with the ratio is 1; 8 leaves
 * room for other data.  Against a bias, which is of the order of the layer's output, it
 * was 0.3 to 12 on networks with the right data: 40. */
qg_status qg_judge_scale(qg_findings *f, const qg_expected *e, const qg_watch *w,
                         const char *value)
{
    float middle, *ratio = QG_NEWN(f->arena, e->n, float);
    double most = e->variance ? 8 : 40;
    if (!w->spread || w->count < 1 || w->channels != e->n)
        return QG_OK;
    if (!ratio)
        return qg_nomem(f->ctx);
    for (size_t c = 0; c < e->n; c++) {
        double want = e->variance ? sqrt(fmax((double)e->variance[c], 0))
                                  : fabs((double)e->bias[c]);
        ratio[c] = (float)fmin(deviation(w, c) / fmax(want, 1e-12), FLT_MAX);
    }
    QG_TRY(median(f, ratio, e->n, &middle));
    if (middle <= 0)
        return QG_OK; /* constant data and dead channels have findings of their own */
    if ((double)middle < most && (double)middle > 1 / most)
        return QG_OK;
    return qg_findings_add(
        f, QG_FINDING_RANGE, SIZE_MAX, value,
        qg_arena_printf(f->arena,
                        "the spread of channels is %.3g times that expected by the %s "
                        "of %s: data of another scale (0..255 instead of 0..1?), "
                        "expected the preprocessing of the training data",
                        (double)middle, e->variance ? "variance" : "bias", e->layer));
}

qg_status qg_judge_channels(qg_findings *f, const qg_watch *w, const char *value)
{
    const char *list = "";
    size_t dead = 0;
    for (size_t c = 0; c < w->channels && list; c++) {
        if (w->low[c] != w->high[c])
            continue;
        if (dead < 8)
            list = qg_arena_printf(f->arena, "%s%s%zu", list, dead ? ", " : "", c);
        dead++;
    }
    if (!list)
        return qg_nomem(f->ctx);
    if (dead == 0 || w->samples == 0)
        return QG_OK;
    return qg_findings_add(
        f, QG_FINDING_DEAD, SIZE_MAX, value,
        qg_arena_printf(f->arena,
                        "%zu of %zu channels are constant (%s%s), expected "
                        "samples in which they vary",
                        dead, w->channels, list, dead > 8 ? ", ..." : ""));
}

/* Twice as far as any other sample: a range that follows it halves the resolution of
 * all others. */
static bool is_alone(const qg_watch *w) { return w->top > 2 * w->second && w->top > 0; }

qg_status qg_judge_alone(qg_findings *f, const qg_watch *w, const char *const *name,
                         size_t n, size_t samples)
{
    size_t *count = QG_NEWN(f->arena, samples, size_t);
    size_t *first = QG_NEWN(f->arena, samples, size_t);
    if (!count || !first)
        return qg_nomem(f->ctx);
    for (size_t i = n; i-- > 0;)
        if (is_alone(&w[i]) && w[i].sample < samples) {
            count[w[i].sample]++;
            first[w[i].sample] = i;
        }
    for (size_t s = 0; s < samples && samples > 2; s++) {
        const qg_watch *v = &w[first[s]];
        if (count[s] == 0)
            continue;
        QG_TRY(qg_findings_add(
            f, QG_FINDING_ALONE, s, name[first[s]],
            qg_arena_printf(
                f->arena,
                "%g in this sample, at most %g in all others (the same at %zu values "
                "in total), expected several samples near the end of a range",
                (double)v->top, (double)v->second, count[s])));
    }
    return QG_OK;
}

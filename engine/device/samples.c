#include "engine/device/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples and elements of a sample that are looked at; names in a sentence. */
enum { SAMPLES = 256, ELEMENTS = 256, NAMED = 8 };
/* Elements in which two samples must differ to be told apart. */
enum { ENOUGH = 8 };
/* Share of these that a sample must have of another one. */
#define THE_SAME 0.9
/* Share of elements from which a sample is another one. */
#define OTHER 0.3
/* Of the greatest element: a step of floats. */
#define REAL_STEP 1e-3

typedef struct watch {
    size_t n, elements, stride, count; /* samples; of a sample; kept of a sample */
    bool codes;
    float *ours, *theirs; /* [n][count] */
    uint64_t *differ;     /* [n] */
    double largest;
} watch;

static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs)
{
    watch *w = ud;
    (void)ctx;
    if (sample >= w->n)
        return QG_OK;
    for (size_t i = 0; i < w->elements; i++) {
        if (isfinite(theirs[i]))
            w->largest = fmax(w->largest, fabs(theirs[i]));
        w->differ[sample] += ours[i] != theirs[i];
    }
    for (size_t k = 0; k < w->count; k++) {
        w->ours[sample * w->count + k] = (float)ours[k * w->stride];
        w->theirs[sample * w->count + k] = (float)theirs[k * w->stride];
    }
    return QG_OK;
}

/* Whether sample i of the dump is sample j of the data: it has those elements of j that
 * are not near those of i. */
static bool is_sample(const watch *w, size_t i, size_t j)
{
    const float *own = w->ours + i * w->count, *other = w->ours + j * w->count;
    const float *theirs = w->theirs + i * w->count;
    double step = w->codes ? 1 : REAL_STEP * w->largest;
    size_t apart = 0, same = 0;
    for (size_t k = 0; k < w->count; k++) {
        if (!(fabs((double)own[k] - (double)other[k]) > 2 * step))
            continue;
        apart++;
        same += fabs((double)theirs[k] - (double)other[k]) <= step;
    }
    return apart >= ENOUGH && (double)same >= THE_SAME * (double)apart;
}

/* of[i]: which sample of the data sample i of the dump is; its own where no other one
 * is found.  Returns how many are moved. */
static size_t find_moved(const watch *w, size_t *of)
{
    size_t moved = 0;
    for (size_t i = 0; i < w->n; i++) {
        of[i] = i;
        for (size_t j = 0; w->differ[i] && j < w->n && of[i] == i; j++)
            if (j != i && is_sample(w, i, j))
                of[i] = j;
        moved += of[i] != i;
    }
    return moved;
}

/* "0, 1 and 5": those with which[i], or of[i] of these.  NULL: no memory. */
static const char *list(qg_arena *a, const uint8_t *which, const size_t *of, size_t n)
{
    const char *text = "";
    size_t all = 0, done = 0;
    for (size_t i = 0; i < n; i++)
        all += which[i];
    for (size_t i = 0; i < n && text && done < NAMED; i++) {
        if (!which[i])
            continue;
        const char *between = !done ? "" : done + 1 == all ? " and " : ", ";
        text = qg_arena_printf(a, "%s%s%zu", text, between, of ? of[i] : i);
        done++;
    }
    return text && all > NAMED ? qg_arena_printf(a, "%s and others", text) : text;
}

static const char *moved_text(qg_arena *a, const watch *w, const size_t *of,
                              uint8_t *which, size_t moved)
{
    for (size_t i = 0; i < w->n; i++)
        which[i] = of[i] != i;
    const char *from = list(a, which, NULL, w->n), *to = list(a, which, of, w->n);
    if (!from || !to)
        return NULL;
    return moved == 1
               ? qg_arena_printf(a, "sample %s of the dump is sample %s of the data",
                                 from, to)
               : qg_arena_printf(a, "samples %s of the dump are samples %s of the data",
                                 from, to);
}

/* Some samples are others and the rest is equal; "": not so. */
static const char *only_text(qg_arena *a, const watch *w, uint8_t *which)
{
    size_t other = 0, equal = 0;
    for (size_t i = 0; i < w->n; i++) {
        which[i] = w->differ[i] >= ENOUGH &&
                   (double)w->differ[i] >= OTHER * (double)w->elements;
        other += which[i];
        equal += !w->differ[i];
    }
    if (!other || !equal || other + equal < w->n)
        return "";
    const char *names = list(a, which, NULL, w->n);
    return names ? qg_arena_printf(a, "only %s %s differ%s, the others are equal",
                                   other > 1 ? "samples" : "sample", names,
                                   other > 1 ? "" : "s")
                 : NULL;
}

bool qg_samples_suspicious(const qg_device *d, const qg_tally *t)
{
    return d->samples > 1 && t->of && t->differ <= t->of &&
           (double)t->differ * (double)d->samples >= OTHER * (double)t->of;
}

static qg_status judge(const qg_device *d, const watch *w, const char **out)
{
    size_t *of = QG_NEWN(d->arena, w->n, size_t);
    uint8_t *which = QG_NEWN(d->arena, w->n, uint8_t);
    if (!of || !which)
        return qg_nomem(d->ctx);
    size_t moved = find_moved(w, of);
    const char *text = moved                ? moved_text(d->arena, w, of, which, moved)
                       : d->samples <= w->n ? only_text(d->arena, w, which)
                                            : "";
    *out = text && *text ? text : NULL;
    return text ? QG_OK : qg_nomem(d->ctx);
}

static qg_status run(const qg_device *d, const qg_device_step *step, const qg_value *v,
                     watch *w)
{
    const qg_step_see how = { see, w, w->n };
    qg_tally tally;
    qg_cut cut;
    if (!step)
        return qg_step_fed(d, v, &how, &tally);
    QG_TRY(qg_step_cut(d, step, &cut));
    qg_status s = qg_step_try(d, d->ctx, step, &cut, &how, &tally);
    qg_graph_free(cut.graph);
    return s;
}

qg_status qg_samples_study(const qg_device *d, const qg_device_step *step,
                           const qg_value *v, const char **out)
{
    watch w = { .n = d->samples < SAMPLES ? d->samples : SAMPLES };
    w.elements = step ? step->elements : d->pair[v->id].array->count;
    w.codes = step ? step->stored->codes : d->exe.program->stored[v->id].codes;
    w.count = w.elements < ELEMENTS ? w.elements : ELEMENTS;
    w.stride = w.elements / w.count;
    w.ours = QG_NEWN(d->arena, w.n * w.count, float);
    w.theirs = QG_NEWN(d->arena, w.n * w.count, float);
    w.differ = QG_NEWN(d->arena, w.n, uint64_t);
    *out = NULL;
    if (!w.ours || !w.theirs || !w.differ)
        return qg_nomem(d->ctx);
    QG_TRY(run(d, step, v, &w));
    return judge(d, &w, out);
}

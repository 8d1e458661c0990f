#include "engine/device/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/line.h"
#include "engine/device/rounding.h"
#include "engine/number/round.h"

/* Elements whose difference is remembered, and points of the search for a grid. */
enum { MOST_BITS = 1 << 28, MOST_POINTS = 1 << 16 };
/* Rank of a rounding that only the device has. */
enum { FUSED = 5 };
/* Distance from half-way at which a real value counts as a tie. */
#define TIE 1e-4
/* Of a scale: nearer ones are one; and of one that is fitted. */
#define SAME        1e-5
#define SAME_FITTED 5e-5

/* Ranks of roundings on the scale of change.c: one in a direction is one change, which
 * no kernel of a profile has; with another change it is behind every single one; to the
 * nearest code is the last resort, since a kernel that does so is named before. */
enum { DIRECTED = 9, TWICE = 20, CONSTANT = 36, NEAREST = 40 };

/* Of fit_constant, in steps. */
#define SLACK 0.05

/* One step at work.  Two runs are needed: see_ours notes which elements differ and
 * the device's codes at both ends, then see_real compares each element with its real
 * value.  Memory is limited: bits for the first n_bits elements, and every stride-th
 * element as a point, so that points come from all samples. */
typedef struct study {
    const qg_device *d;
    qg_finding *f;
    const qg_device_step *s;
    qg_arena *arena;
    uint8_t *differs; /* bits of the first elements */
    uint64_t n_bits;
    uint64_t seen; /* elements so far, of one run */
    uint64_t fits[QG_N_ROUNDING_TRIED];
    double *real, *code; /* [n_point] */
    size_t n_point, stride;
    double low, high;         /* codes of the device, */
    double own_low, own_high; /* and of the program */
    double up[2], down[2];    /* least and greatest code of the device where the
                               * program has lower ones, and where higher ones */
    double scale;             /* of see_other */
    int32_t zero;
    double more; /* of see_other: steps that are added */
    bool open;   /* the codes are too few to show their scale, or the dump gives it */
    const qg_stored *limits; /* codes within which see_other rounds */
} study;

/* --- runs --- */

static qg_status see_ours(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                          const double *theirs)
{
    study *y = ud;
    (void)ctx, (void)sample;
    for (size_t i = 0; i < y->s->elements; i++, y->seen++) {
        y->low = fmin(y->low, theirs[i]);
        y->high = fmax(y->high, theirs[i]);
        y->own_low = fmin(y->own_low, ours[i]);
        y->own_high = fmax(y->own_high, ours[i]);
        double *stop = ours[i] < theirs[i] ? y->up : y->down;
        if (ours[i] != theirs[i]) {
            stop[0] = fmin(stop[0], theirs[i]);
            stop[1] = fmax(stop[1], theirs[i]);
        }
        if (ours[i] != theirs[i] && y->seen < y->n_bits)
            y->differs[y->seen / 8] |= (uint8_t)(1u << y->seen % 8);
    }
    return QG_OK;
}

/* Element i over all samples; false for those behind the last bit. */
static bool differed(const study *y, uint64_t i)
{
    return i < y->n_bits && (y->differs[i / 8] >> i % 8 & 1);
}

/* real in units of the value, code the device's.  A tie is counted as the reason of
 * a difference when the device's code is one of the two neighbours of q. */
static void see_element(study *y, double real, double code)
{
    const qg_stored *g = y->s->stored;
    double v = real / (double)g->scale[0], q = v + g->zero[0],
           rounded[QG_N_ROUNDING_TRIED];
    bool tie = fabs(fabs(v - trunc(v)) - 0.5) < TIE;
    qg_round_each(g, q, g->zero[0], rounded);
    for (int m = 0; m < QG_N_ROUNDING_TRIED; m++)
        y->fits[m] += rounded[m] == code;
    y->f->ties += tie;
    y->f->differ_at_ties += tie && differed(y, y->seen) && fabs(q - code) < 1;
    if (y->seen % y->stride == 0 && y->n_point < MOST_POINTS) {
        y->real[y->n_point] = real;
        y->code[y->n_point++] = code;
    }
    y->seen++;
}

static qg_status see_real(void *ud, qg_ctx *ctx, size_t sample, const double *real,
                          const double *theirs)
{
    study *y = ud;
    (void)ctx;
    for (size_t i = 0; i < QG_EVIDENCE && i < y->f->n_at; i++)
        if (y->f->at[i].sample == sample)
            y->f->at[i].real = real[y->f->at[i].index];
    for (size_t i = 0; i < y->s->elements; i++)
        see_element(y, real[i], theirs[i]);
    return QG_OK;
}

/* Counts roundings of other real values of the same elements, or on another grid:
 * that of y->scale and y->zero, which the caller sets together with fits of 0. */
static qg_status see_other(void *ud, qg_ctx *ctx, size_t sample, const double *real,
                           const double *theirs)
{
    study *y = ud;
    (void)ctx, (void)sample;
    for (size_t i = 0; i < y->s->elements; i++) {
        double rounded[QG_N_ROUNDING_TRIED];
        qg_round_each(y->limits, real[i] / y->scale + y->zero + y->more, y->zero,
                      rounded);
        for (int m = 0; m < QG_N_ROUNDING_TRIED; m++)
            y->fits[m] += rounded[m] == theirs[i];
    }
    return QG_OK;
}

/* *done is false when there are no real values: no operator for the types, or the
 * run is refused (qg_refusal): without real values other hypotheses are left. */
static qg_status run_real(study *y, const qg_device_step *s, bool fused,
                          qg_status (*see)(void *, qg_ctx *, size_t, const double *,
                                           const double *),
                          bool *done)
{
    qg_cut cut;
    qg_tally tally;
    *done = false;
    if (!s->value->def) { /* the samples are the real values */
        qg_status fed =
            qg_step_fed(y->d, s->value, &(qg_step_see){ see, y, 0 }, &tally);
        *done = fed == QG_OK;
        return qg_refusal(fed);
    }
    QG_TRY(qg_step_real(y->d, s, fused, &cut));
    if (!cut.graph)
        return QG_OK;
    qg_status status =
        qg_step_try(y->d, y->d->ctx, s, &cut, &(qg_step_see){ see, y, 0 }, &tally);
    qg_graph_free(cut.graph);
    *done = status == QG_OK;
    return qg_refusal(status);
}

/* --- hypotheses --- */

static void suspect(qg_exact *out, const qg_suspect *s)
{
    if (out->n < QG_EXACT_SUSPECTS)
        out->suspect[out->n++] = *s;
}

/* The last value before the target that the program stores and the trace lacks; NULL:
 * none. */
static const qg_value *hidden(const study *y, const qg_cut *c)
{
    const qg_program *p = y->d->exe.program;
    const qg_value *found = NULL;
    for (size_t i = 0; i < c->n_node; i++)
        for (uint32_t k = 0; k < c->node[i]->n_out; k++) {
            const qg_value *v = c->node[i]->out[k];
            if (v && v != y->s->value && p->stored[v->id].codes && p->value[v->id])
                found = v;
        }
    return found;
}

/* The last value that only the device stores. */
static const qg_value *extra(const study *y, const qg_cut *c)
{
    const qg_value *found = NULL;
    for (size_t i = 0; i < c->n_in; i++)
        if (y->d->known[c->in[i]->id] && !y->d->stored[c->in[i]->id])
            found = c->in[i];
    return found;
}

/* Nothing is changed but the rounding. */
static void add_roundings_alone(const study *y, qg_exact *out)
{
    for (unsigned m = 0; m < QG_N_ROUNDING_TRIED; m++)
        suspect(out, &(qg_suspect){
                         .cause = "rounding",
                         .verdict = qg_rounding_tried[m].alone,
                         .detail = qg_rounding_tried[m].name,
                         .rank = (m < QG_N_NEAREST_TRIED ? NEAREST : DIRECTED) + m,
                         .fits = y->fits[m],
                         .of = y->f->tally.of });
}

/* Another change, and each rounding; to the nearest code is none of its own.  In order
 * of preference from `rank`.  Two changes of few codes, or on a grid that the dump
 * contradicts, fit by chance. */
static qg_status add_roundings(const study *y, const char *cause, const char *what,
                               unsigned rank, bool fitted, qg_exact *out)
{
    for (unsigned m = 0;
         m < (fitted && y->open ? QG_N_NEAREST_TRIED : QG_N_ROUNDING_TRIED); m++) {
        const char *text = m < QG_N_NEAREST_TRIED
                               ? what
                               : qg_arena_printf(y->d->arena, "%s, and %s", what,
                                                 qg_rounding_tried[m].with_more);
        if (!text)
            return qg_nomem(y->d->ctx);
        suspect(out,
                &(qg_suspect){ .cause = cause,
                               .verdict = text,
                               .detail = qg_rounding_tried[m].name,
                               .rank = rank + m + (m < QG_N_NEAREST_TRIED ? 0 : TWICE),
                               .fitted = fitted,
                               .fits = y->fits[m],
                               .of = y->f->tally.of });
    }
    return QG_OK;
}

/* A hypothesis about the grid of v, of which the trace has too few codes. */
static qg_status add_undecided(const study *y, const char *cause, const char *what,
                               const qg_value *v, qg_exact *out)
{
    const qg_tally *own = &y->f->tally;
    const char *why = qg_arena_printf(
        y->d->arena, "undecided: %zu elements do not show the grid of %s",
        y->d->pair[v->id].array->count * y->d->samples, v->name);
    suspect(out, &(qg_suspect){ .cause = cause,
                                .verdict = what,
                                .detail = why,
                                .rank = FUSED,
                                .undecided = true,
                                .fits = own->of - own->differ,
                                .of = own->of });
    return why ? QG_OK : qg_nomem(y->d->ctx);
}

/* What the roundings of see_real mean.  Real values run through values that the
 * trace lacks without rounding them: where the program rounds one of these, a fit is
 * a fusion. */
static qg_status judge_real(study *y, qg_exact *out)
{
    qg_cut cut;
    QG_TRY(qg_step_real(y->d, y->s, false, &cut));
    const qg_value *v = cut.graph ? hidden(y, &cut) : NULL;
    qg_graph_free(cut.graph);
    if (!v) {
        add_roundings_alone(y, out);
        return QG_OK;
    }
    const char *text = qg_arena_printf(y->d->arena, "does not round between %s and %s",
                                       v->def->name, y->s->value->def->name);
    if (!text)
        return qg_nomem(y->d->ctx);
    return add_roundings(y, "fusion", text, 10, false, out);
}

/* Whether it is known what the elements stand for: codes have a grid. */
static bool has_numbers(const qg_pair *p)
{
    return p->array->grid || !qg_trace_holds_codes(p->array);
}

/* Values that only the device stores: it rounds where the program does not. */
static qg_status judge_fused(study *y, qg_exact *out)
{
    qg_cut cut;
    bool done = false;
    QG_TRY(qg_step_real(y->d, y->s, true, &cut));
    const qg_value *v = cut.graph ? extra(y, &cut) : NULL;
    qg_graph_free(cut.graph);
    if (!v)
        return QG_OK;
    memset(y->fits, 0, sizeof y->fits);
    y->scale = (double)y->s->pair->grid.scale[0];
    y->zero = y->s->pair->grid.zero[0];
    if (has_numbers(&y->d->pair[v->id]))
        QG_TRY(run_real(y, y->s, true, see_other, &done));
    const char *text = qg_arena_printf(
        y->d->arena, "rounds between %s and %s: stores %s",
        v->def ? v->def->name : v->name, y->s->value->def->name, v->name);
    if (!text)
        return qg_nomem(y->d->ctx);
    if (done) /* on another grid, it is the second change */
        QG_TRY(add_roundings(y, "fusion", text, FUSED + (y->s->pair->other ? TWICE : 0),
                             false, out));
    return y->d->pair[v->id].array->few ? add_undecided(y, "fusion", text, v, out)
                                        : QG_OK;
}

/* --- a clamp that is not there --- */

/* The limits of a clamp in codes of the pair's grid, and whether elements of the device
 * are beyond them. */
typedef struct limits {
    double low, high;
    bool below, above;
} limits;

static limits limits_of(const study *y, float low, float high)
{
    const qg_stored *g = &y->s->pair->grid, *own = y->s->stored;
    const double scale = (double)g->scale[0], zero = g->zero[0];
    limits l = { 0 };
    l.low = fmax((double)low / scale + zero, own->low);
    l.high = fmin((double)high / scale + zero, own->high);
    l.below = y->low < l.low - 0.5;
    l.above = y->high > l.high + 0.5;
    return l;
}

/* Codes of a device that clamps on one side or not at all.  A quantizer ends where its
 * codes do; floats that are on none of them have no end. */
static qg_stored open_limits(const study *y, const limits *l)
{
    qg_stored all = *y->s->stored;
    bool codes = y->low >= all.low && y->high <= all.high;
    if (l->below && !codes)
        all.low = INT32_MIN;
    else if (!l->below)
        all.low = (int32_t)nearbyint(l->low);
    if (l->above && !codes)
        all.high = INT32_MAX;
    else if (!l->above)
        all.high = (int32_t)nearbyint(l->high);
    return all;
}

/* Elements beyond the clamp of their node: its input in real numbers, rounded. */
static qg_status judge_unclamped(study *y, qg_exact *out)
{
    const qg_pair *p = y->s->pair;
    const qg_node *clamp = y->s->value->def;
    qg_device_step s = *y->s;
    float low = -INFINITY, high = INFINITY;
    bool done;
    if (!clamp || !clamp->in[0]->def || !qg_node_clamps(clamp, &low, &high))
        return QG_OK;
    const limits l = limits_of(y, low, high);
    if (!l.below && !l.above)
        return QG_OK;
    const bool one = l.below != l.above && isfinite(low) && isfinite(high);
    const char *text = qg_arena_printf(y->d->arena, "does not clamp%s: leaves out %s%s",
                                       !one      ? ""
                                       : l.below ? " below"
                                                 : " above",
                                       !one      ? ""
                                       : l.below ? "the lower limit of "
                                                 : "the upper limit of ",
                                       clamp->name);
    if (!text)
        return qg_nomem(y->d->ctx);
    qg_stored all = open_limits(y, &l);
    s.value = clamp->in[0];
    y->limits = &all;
    y->scale = (double)p->grid.scale[0];
    y->zero = p->grid.zero[0];
    memset(y->fits, 0, sizeof y->fits);
    qg_status status = run_real(y, &s, false, see_other, &done);
    y->limits = y->s->stored;
    QG_TRY(status);
    return done ? add_roundings(y, "clamp", text, FUSED, false, out) : QG_OK;
}

/* --- the grid --- */

static bool is_scale_of(const qg_stored *own, double scale)
{
    return fabs(scale / (double)own->scale[0] - 1) <= SAME;
}

/* For results of which the dump confirms that they are on the program's grid. */
static const char *results_text(qg_arena *a, const qg_stored *own, double scale,
                                int32_t zero)
{
    static const char but[] = "the dump has the snapshot's grid, but its results are";
    double share = (double)own->scale[0] / scale;
    int more = (int)zero - (int)own->zero[0];
    if (!more)
        return qg_arena_printf(a, "%s %.6g of ours, as on scale %.6g", but, share,
                               scale);
    if (is_scale_of(own, scale))
        return qg_arena_printf(a, "%s ours %+d, as with zero point %d", but, more,
                               (int)zero);
    return qg_arena_printf(a, "%s %.6g of ours %+d, as on scale %.6g, zero %d", but,
                           share, more, scale, (int)zero);
}

const char *qg_exact_grid_text(qg_arena *a, const qg_device_step *s, double scale,
                               int32_t zero, const char *origin)
{
    const qg_stored *own = s->stored;
    if (qg_pair_confirms(s->pair))
        return results_text(a, own, scale, zero);
    if (zero == own->zero[0] && qg_exact_is_near(own, scale))
        return qg_arena_printf(a, "its scale is %.9g instead of %.9g%s", scale,
                               (double)own->scale[0], origin);
    if (is_scale_of(own, scale))
        return qg_arena_printf(a, "its zero point is %d instead of %d%s", (int)zero,
                               (int)own->zero[0], origin);
    return qg_arena_printf(a, "its output grid is another: scale %.6g, zero %d%s",
                           scale, (int)zero, origin);
}

bool qg_exact_is_near(const qg_stored *own, double scale)
{
    return fabs(scale / (double)own->scale[0] - 1) <= SAME_FITTED;
}

/* Another zero point is one on the program's scale, where that can be. */
static void add_grid(const qg_stored *own, double scale, double zero, qg_exact *out)
{
    if (qg_exact_is_near(own, scale) && zero != own->zero[0])
        scale = (double)own->scale[0];
    const qg_exact_grid g = { (float)scale, (int32_t)zero };
    bool same = g.zero == own->zero[0] && is_scale_of(own, scale);
    for (size_t i = 0; i < out->n_grid; i++)
        same |= g.zero == out->grid[i].zero && is_scale_of(own, scale) &&
                is_scale_of(own, (double)out->grid[i].scale);
    if (!same && out->n_grid < QG_EXACT_GRIDS)
        out->grid[out->n_grid++] = g;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The zero point that most codes have on the program's scale: the middle one of all
 * points that no clamp hides.  NaN: there are none. */
static qg_status fit_zero(const study *y, double *zero)
{
    const qg_stored *own = y->s->stored;
    double *at = QG_NEWN(y->arena, y->n_point, double);
    size_t n = 0;
    *zero = NAN;
    if (!at)
        return qg_nomem(y->d->ctx);
    for (size_t i = 0; i < y->n_point; i++)
        if (y->code[i] > own->low && y->code[i] < own->high)
            at[n++] = nearbyint(y->code[i] - y->real[i] / (double)own->scale[0]);
    qsort(at, n, sizeof *at, by_number);
    if (n)
        *zero = at[n / 2];
    return QG_OK;
}

/* Grids on which the device's codes are the nearest to the real values: on the scale of
 * the program, with its zero point where the codes are too few for a line, and any
 * other. */
static qg_status fit_grids(const study *y, qg_exact *out)
{
    const qg_stored *own = y->s->stored;
    const qg_code_range all = qg_code_range_of(own->dtype, 0);
    qg_points p = { y->real, y->code, y->n_point, y->low, y->high };
    double scale, zero, low, high;
    QG_TRY(fit_zero(y, &zero));
    if (zero >= all.lo && zero <= all.hi)
        add_grid(own, (double)own->scale[0], zero, out);
    if (qg_line_fit(&p, &scale, &zero) && zero >= all.lo && zero <= all.hi) {
        add_grid(own, scale, zero, out);
        return QG_OK;
    }
    p.low = own->low;
    p.high = own->high;
    if (qg_line_scales(&p, own->zero[0], &low, &high))
        add_grid(own, qg_line_shortest(low, high), own->zero[0], out);
    return QG_OK;
}

/* The exact value on another grid, for kernels whose grid is prescribed. */
static qg_status judge_grid(study *y, double scale, int32_t zero, const char *origin,
                            qg_exact *out)
{
    const qg_stored *own = y->s->stored;
    bool done;
    y->scale = scale;
    y->zero = zero;
    memset(y->fits, 0, sizeof y->fits);
    QG_TRY(run_real(y, y->s, false, see_other, &done));
    const char *text = qg_exact_grid_text(y->d->arena, y->s, scale, zero, origin);
    if (!text)
        return qg_nomem(y->d->ctx);
    unsigned rank = qg_pair_confirms(y->s->pair)                     ? QG_DENIED_GRID
                    : y->s->pair->other && !y->s->pair->array->found ? 0
                    : qg_exact_is_near(own, scale) && zero == own->zero[0]
                        ? QG_NEAR_GRID
                    : is_scale_of(own, scale) ? 7
                                              : 8;
    return done ? add_roundings(y, "grid", text, rank, !*origin, out) : QG_OK;
}

/* One number of steps that, added to every element before it is rounded, explains the
 * points, but for SLACK where the real values are not quite those of the device; codes
 * at the limits do not show it.  False: there is none, or it is nothing. */
static bool fit_constant(const study *y, double *steps)
{
    const qg_stored *own = y->s->stored;
    double low = -INFINITY, high = INFINITY;
    for (size_t i = 0; i < y->n_point; i++) {
        double q = y->real[i] / (double)own->scale[0] + own->zero[0];
        if (y->code[i] <= own->low || y->code[i] >= own->high)
            continue;
        low = fmax(low, y->code[i] - 0.5 - q);
        high = fmin(high, y->code[i] + 0.5 - q);
    }
    *steps = (low + high) / 2;
    return isfinite(*steps) && low <= high + SLACK && (low > SLACK || high < -SLACK);
}

/* Results on the program's grid that are all away from ours by the same amount. */
static qg_status judge_constant(study *y, qg_exact *out)
{
    const qg_stored *own = y->s->stored;
    double steps;
    bool done;
    if (!fit_constant(y, &steps))
        return QG_OK;
    const char *text =
        qg_arena_printf(y->d->arena, "adds %.4g to every element, as another bias does",
                        steps * (double)own->scale[0]);
    if (!text)
        return qg_nomem(y->d->ctx);
    y->scale = (double)own->scale[0];
    y->zero = own->zero[0];
    y->more = steps;
    memset(y->fits, 0, sizeof y->fits);
    qg_status s = run_real(y, y->s, false, see_other, &done);
    y->more = 0;
    QG_TRY(s);
    return done ? add_roundings(y, "bias", text, CONSTANT, true, out) : QG_OK;
}

/* A grid that the dump gives is better evidence than fitted ones.  Elements off the
 * program's grid are evidence for another one, which no code of theirs shows. */
static qg_status judge_grids(study *y, qg_exact *out)
{
    const qg_pair *p = y->s->pair;
    if (p->other)
        return judge_grid(y, (double)p->scale, p->zero, qg_pair_origin(p), out);
    const qg_points points = { y->real, y->code, y->n_point, y->low, y->high };
    bool confirmed = qg_pair_confirms(p);
    y->open = confirmed || y->f->tally.off || qg_line_is_open(&points);
    if (confirmed)
        QG_TRY(judge_constant(y, out));
    for (size_t i = 0; i < out->n_grid; i++)
        QG_TRY(judge_grid(y, (double)out->grid[i].scale, out->grid[i].zero, "", out));
    return p->array->grid || !y->open
               ? QG_OK
               : add_undecided(y, "grid", "its output grid is another", y->s->value,
                               out);
}

/* --- accumulators --- */

/* The product of codes that the step consists of, a clamp behind it aside; NULL:
 * another or several. */
static const qg_node *product_of(const qg_cut *c)
{
    const qg_node *found = NULL;
    for (size_t i = 0; i < c->n_node; i++) {
        const qg_node *n = c->node[i];
        if (!qg_node_has(n, QG_OP_COMPUTE) || qg_op_slot_of(n->op, 'w') < 0)
            continue;
        if (found)
            return NULL;
        found = n;
    }
    return found;
}

/* The output of a product: channel of element i is i / inner % channels. */
typedef struct sums {
    study *y;
    const qg_recipe *recipe;
    int64_t inner, channels;
    qg_bias *bias;
} sums;

/* The steps of the accumulator of a channel. */
static double sum_step(const sums *u, size_t channel)
{
    const qg_stored *x = &u->recipe->in[0], *w = &u->recipe->in[1];
    return (double)x->scale[0] * (double)w->scale[w->n > 1 ? channel % w->n : 0];
}

/* Elements at the ends of the codes can be clamped: they do not show their sum. */
static void see_bias(const sums *u, const double *real, const double *theirs)
{
    const study *y = u->y;
    const qg_stored *g = y->s->stored;
    double low = fmax(g->low, y->low), high = fmin(g->high, y->high);
    double unit = 1 / (double)g->scale[0], zero = g->zero[0];
    size_t inner = (size_t)u->inner;
    for (size_t first = 0; first < y->s->elements; first += inner) {
        qg_bias_channel *c = &u->bias->channel[first / inner % (size_t)u->channels];
        for (size_t i = first; i < first + inner; i++)
            if (theirs[i] > low && theirs[i] < high)
                qg_bias_see(c, theirs[i] - (real[i] * unit + zero));
    }
}

/* What the codes tell of the bias, where they are on the program's grid. */
static qg_status begin_bias(const sums *u)
{
    const study *y = u->y;
    if (y->s->pair->other || y->s->elements % (size_t)(u->inner * u->channels))
        return QG_OK;
    QG_TRY(qg_bias_begin(y->d->ctx, y->d->arena, u->channels, u->bias));
    for (int64_t c = 0; c < u->channels; c++)
        u->bias->channel[c].f = sum_step(u, (size_t)c) / (double)y->s->stored->scale[0];
    return QG_OK;
}

/* A real output of a product of codes is (sum of products + bias) s_x s_w[channel],
 * so that the quotient is the accumulator up to float64 rounding; see real.c for the
 * constants.  Replaces e->real by the value before a clamp, and collects what the codes
 * tell of the bias. */
static qg_status see_sum(void *ud, qg_ctx *ctx, size_t sample, const double *real,
                         const double *theirs)
{
    const sums *u = ud;
    (void)ctx;
    if (u->bias->n)
        see_bias(u, real, theirs);
    for (size_t i = 0; i < u->y->f->n_at; i++) {
        qg_evidence *e = &u->y->f->at[i];
        if (e->sample != sample)
            continue;
        double step = sum_step(u, e->index / (size_t)u->inner % (size_t)u->channels);
        e->real = real[e->index];
        if (step > 0)
            e->accumulator = qg_round_f64(QG_ROUND_HALF_EVEN, real[e->index] / step);
    }
    return QG_OK;
}

/* Real values and sums before a clamp, at the evidence.  Nothing is changed when the
 * step is no single product of codes, or has other elements behind it (a pooling). */
static qg_status study_sums(study *y, qg_exact *out)
{
    qg_cut cut, real;
    qg_recipe recipe;
    QG_TRY(qg_step_cut(y->d, y->s, &cut));
    const qg_node *k = product_of(&cut);
    const qg_node *n = k ? qg_graph_node(y->d->m->graph, k->name) : NULL;
    qg_graph_free(cut.graph);
    if (!n || !n->out[0] ||
        (uint64_t)qg_tensor_count(&n->out[0]->type) != y->s->elements ||
        qg_recipe_read(y->d->ctx, k, &recipe) != QG_OK || !recipe.in[0].codes ||
        !recipe.in[1].codes)
        return QG_OK;
    const qg_tensor *t = &n->out[0]->type;
    sums u = { y, &recipe, 1, 1, &out->bias };
    bool spatial = t->rank > 2;
    u.channels = t->rank > 1 ? t->dim[spatial ? 1 : t->rank - 1] : 1;
    u.inner = spatial ? qg_dims_product(t, 2, t->rank) : 1;
    qg_device_step s = *y->s;
    qg_tally tally;
    s.value = n->out[0];
    QG_TRY(begin_bias(&u));
    QG_TRY(qg_step_real(y->d, &s, false, &real));
    if (!real.graph)
        return QG_OK;
    qg_status status = qg_step_try(y->d, y->d->ctx, &s, &real,
                                   &(qg_step_see){ see_sum, &u, 0 }, &tally);
    qg_graph_free(real.graph);
    return qg_refusal(status);
}

/* --- all --- */

static qg_status begin(study *y)
{
    uint64_t all = (uint64_t)y->s->elements * y->d->samples;
    y->n_bits = all < MOST_BITS ? all : MOST_BITS;
    y->stride = (size_t)(all / MOST_POINTS + 1);
    y->arena = qg_arena_new(y->d->ctx->alloc);
    if (!y->arena)
        return qg_nomem(y->d->ctx);
    y->differs = QG_NEWN(y->arena, y->n_bits / 8 + 1, uint8_t);
    y->real = QG_NEWN(y->arena, MOST_POINTS, double);
    y->code = QG_NEWN(y->arena, MOST_POINTS, double);
    return y->differs && y->real && y->code ? QG_OK : qg_nomem(y->d->ctx);
}

/* In this order: codes of the device, real values, and then what needs both.  fit_grids
 * and judge_real use what see_real has counted; those behind them count anew. */
static qg_status study_all(study *y, qg_exact *out)
{
    qg_cut cut;
    qg_tally tally;
    bool done;
    QG_TRY(begin(y));
    QG_TRY(qg_step_cut(y->d, y->s, &cut));
    qg_status s = qg_step_try(y->d, y->d->ctx, y->s, &cut,
                              &(qg_step_see){ see_ours, y, 0 }, &tally);
    qg_graph_free(cut.graph);
    QG_TRY(s);
    out->low = (int32_t)y->low;
    out->high = (int32_t)y->high;
    out->own_low = (int32_t)y->own_low;
    out->own_high = (int32_t)y->own_high;
    if (y->up[0] == y->up[1])
        out->stop_low = (int32_t)y->up[0];
    if (y->down[0] == y->down[1])
        out->stop_high = (int32_t)y->down[0];
    y->seen = 0;
    QG_TRY(run_real(y, y->s, false, see_real, &done));
    if (!done)
        return QG_OK;
    QG_TRY(fit_grids(y, out));
    QG_TRY(judge_real(y, out));
    QG_TRY(judge_fused(y, out));
    QG_TRY(judge_unclamped(y, out));
    QG_TRY(judge_grids(y, out));
    return study_sums(y, out);
}

qg_status qg_exact_study(const qg_device *d, qg_finding *f, qg_exact *out)
{
    study y = {
        .d = d,
        .f = f,
        .s = f->step,
        .limits = f->step->stored,
        .low = INFINITY,
        .high = -INFINITY,
        .own_low = INFINITY,
        .own_high = -INFINITY,
        .up = {INFINITY,  -INFINITY},
        .down = { INFINITY, -INFINITY}
    };
    out->stop_low = INT32_MIN;
    out->stop_high = INT32_MAX;
    qg_status s = QG_OK;
    if (f->step->stored->codes)
        s = study_all(&y, out);
    qg_arena_free(y.arena);
    return s;
}

/* No finding is needed: f is NULL here, so see_real cannot be used. */
static qg_status see_ties(void *ud, qg_ctx *ctx, size_t sample, const double *real,
                          const double *theirs)
{
    study *y = ud;
    (void)ctx, (void)sample, (void)theirs;
    for (size_t i = 0; i < y->s->elements; i++) {
        double v = real[i] / (double)y->s->stored->scale[0];
        y->seen += fabs(fabs(v - trunc(v)) - 0.5) < TIE;
    }
    return QG_OK;
}

qg_status qg_exact_ties(const qg_device *d, const qg_device_step *s, uint64_t *out)
{
    study y = { .d = d, .s = s };
    qg_cut cut;
    qg_tally tally;
    *out = 0;
    if (!s->stored->codes)
        return QG_OK;
    QG_TRY(qg_step_real(d, s, false, &cut));
    if (!cut.graph)
        return QG_OK;
    qg_status status =
        qg_step_try(d, d->ctx, s, &cut, &(qg_step_see){ see_ties, &y, 0 }, &tally);
    qg_graph_free(cut.graph);
    *out = y.seen;
    return qg_refusal(status);
}

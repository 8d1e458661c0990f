#include "engine/learn/step_gradient.h"

#include <math.h>
#include <string.h>

#include "engine/learn/lsq_row.h"
#include "engine/quant/nncf.h"

static const char *const names[QG_NSTEP_GRADIENT] = {
#define GRADIENT(id, name, summary) name,
#include "engine/learn/step_gradient.def"
#undef GRADIENT
};

const char *qg_step_gradient_name(qg_step_gradient g) { return names[g]; }

int qg_step_gradient_named(const char *text)
{
    for (int g = 0; g < QG_NSTEP_GRADIENT; g++)
        if (strcmp(names[g], text) == 0)
            return g;
    return -1;
}

static bool is_power(const qg_tqc *root)
{
    return (root->scheme.policy & QG_POWER_OF_2) != 0;
}

static bool is_symmetric(const qg_tqc *root)
{
    const qg_qparam p = qg_tqc_param(root);
    for (size_t c = 0; p.offset && c < p.n; c++)
        if (p.offset[c] != 0)
            return false;
    return true;
}

/* NNCF has grids of at most 16 bits; a bias of 32 bits is in others. */
static bool is_too_wide(qg_step_gradient g, const qg_scheme *s)
{
    const bool nncf = g == QG_STEP_GRADIENT_NNCF || g == QG_STEP_GRADIENT_NNCF_EXACT ||
                      g == QG_STEP_GRADIENT_NNCF_ASYMMETRIC;
    return nncf && (int64_t)s->qmax - s->qmin > UINT16_MAX;
}

bool qg_step_gradient_fits(qg_step_gradient g, const qg_tqc *root)
{
    if (g == QG_STEP_GRADIENT_STE || is_too_wide(g, &root->scheme))
        return false;
    if (is_power(root))
        return (g == QG_STEP_GRADIENT_USUAL || g == QG_STEP_GRADIENT_TQT) &&
               is_symmetric(root);
    return g != QG_STEP_GRADIENT_TQT;
}

static bool has_border(qg_step_gradient g)
{
    return g == QG_STEP_GRADIENT_LSQ_PLUS || g == QG_STEP_GRADIENT_NNCF_ASYMMETRIC;
}

/* Zero among the codes, as both methods assume. */
bool qg_step_gradient_shifts(qg_step_gradient g, const qg_tqc *root)
{
    const qg_scheme *s = &root->scheme;
    return has_border(g) && qg_step_gradient_fits(g, root) &&
           (s->policy & QG_ASYMMETRIC) && qg_tqc_param(root).offset && s->qmin <= 0 &&
           s->qmax > 0;
}

double qg_step_gradient_anchor(qg_step_gradient g, const qg_scheme *scheme)
{
    return g == QG_STEP_GRADIENT_NNCF_ASYMMETRIC ? (double)scheme->qmin : 0;
}

/* What is computed for this endpoint. */
static qg_step_gradient effective(const qg_step_rounding *r)
{
    const qg_tqc *root = qg_tqc_root(r->tqc);
    const bool fits = qg_step_gradient_fits(r->gradient, root);
    if (!fits || r->gradient == QG_STEP_GRADIENT_USUAL)
        return fits && is_power(root) ? QG_STEP_GRADIENT_TQT : QG_STEP_GRADIENT_LSQ;
    if (has_border(r->gradient) && !qg_step_gradient_shifts(r->gradient, root))
        return r->gradient == QG_STEP_GRADIENT_LSQ_PLUS ? QG_STEP_GRADIENT_LSQ
                                                        : QG_STEP_GRADIENT_NNCF;
    return r->gradient;
}

/* The codes of a channel, counted from its zero point. */
static void limits(const qg_step_rounding *r, size_t c, double *low, double *high)
{
    const double zero = r->offset ? (double)r->offset[c] : 0;
    *low = (double)r->tqc->scheme.qmin - zero;
    *high = (double)r->tqc->scheme.qmax - zero;
    *high = *high > 0 ? *high : 1; /* all codes are negative */
}

/* The published parameter of a step, and what dL/dp is multiplied by for dL/ds. */
static double parameter_of(qg_step_gradient g, double s, double low, double high,
                           double *by)
{
    const double most = -low > high + 1 ? -low : high + 1;
    *by = g == QG_STEP_GRADIENT_TQT    ? 1 / (s * log(2))
          : g == QG_STEP_GRADIENT_PACT ? high
                                       : 1;
    return g == QG_STEP_GRADIENT_TQT    ? log2(s * most)
           : g == QG_STEP_GRADIENT_PACT ? s * high
                                        : s;
}

/* Codes as they are stored, with b = -s z. */
static qg_learned_grid grid_with_offset(const qg_step_rounding *r, size_t c)
{
    const double s = (double)r->scale[c];
    return (qg_learned_grid){ .method = QG_LEARNED_LSQ_PLUS,
                              .qmin = r->tqc->scheme.qmin,
                              .qmax = r->tqc->scheme.qmax,
                              .parameter = s,
                              .offset = -s * (double)r->offset[c] };
}

static qg_status learned(const qg_step_rounding *r, qg_step_gradient how, float *g,
                         double *by_scale, double *by_border)
{
    char text[QG_ENDPOINT_TEXT];
    const size_t n = r->layer.channels, each = r->layer.outer * r->layer.inner;
    qg_learned_layer l = r->layer;
    qg_learned_grid *grid = QG_NEWN(r->scratch, n, qg_learned_grid);
    double *by = QG_NEWN(r->scratch, n, double);
    if (!grid || !by)
        return qg_nomem(r->ctx);
    for (size_t c = 0; c < n; c++) {
        double low, high;
        limits(r, c, &low, &high);
        grid[c] = (qg_learned_grid){
            .method = how == QG_STEP_GRADIENT_TQT    ? QG_LEARNED_TQT
                      : how == QG_STEP_GRADIENT_PACT ? QG_LEARNED_PACT
                                                     : QG_LEARNED_LSQ,
            .qmin = low,
            .qmax = high,
            .parameter = parameter_of(how, (double)r->scale[c], low, high, &by[c])
        };
        if (how == QG_STEP_GRADIENT_LSQ_PLUS)
            grid[c] = grid_with_offset(r, c);
    }
    l.grid = grid;
    const bool shifts = how == QG_STEP_GRADIENT_LSQ_PLUS;
    const double factor = how == QG_STEP_GRADIENT_LSQ || shifts
                              ? qg_lsq_factor(each ? each : 1, grid[0].qmax)
                              : 1;
    const qg_learned_gradients out = { factor, g, by_scale, shifts ? by_border : NULL };
    QG_TRY(qg_learned_backward(r->ctx, qg_tqc_text(r->tqc, text), &l, r->x, g, &out));
    for (size_t c = 0; by_scale && c < n; c++)
        by_scale[c] *= by[c];
    return QG_OK;
}

/* Whether lsq_row.h gives the gradient; then the borders of all channels. */
static qg_status borders_of(const qg_step_rounding *r, qg_lsq_borders **out)
{
    const size_t n = r->layer.channels;
    qg_lsq_borders *b = QG_NEWN(r->scratch, n, qg_lsq_borders);
    bool all = r->y != NULL;
    if (!b)
        return qg_nomem(r->ctx);
    for (size_t c = 0; c < n; c++) {
        double low, high;
        limits(r, c, &low, &high);
        all = all && qg_lsq_borders_of((double)r->scale[c], low, high, &b[c]);
    }
    *out = all ? b : NULL;
    return QG_OK;
}

/* Forward has checked the steps. */
static void rounded(const qg_step_rounding *r, const qg_lsq_borders *b, float *g,
                    double *by_scale)
{
    const qg_learned_layer *l = &r->layer;
    const size_t each = l->outer * l->inner;
    double low, high;
    limits(r, 0, &low, &high);
    const double factor = qg_lsq_factor(each ? each : 1, high);
    for (size_t c = 0; c < l->channels; c++) {
        double sum = 0;
        for (size_t o = 0; o < l->outer; o++) {
            const size_t at = (o * l->channels + c) * l->inner;
            sum += qg_lsq_row(&b[c], r->x + at, by_scale ? r->y + at : NULL, g + at,
                              l->inner);
        }
        if (by_scale)
            by_scale[c] = sum / (double)r->scale[c] * factor;
    }
}

/* A range beyond float32 and its values are taken in units of 2^64: the gradient of x
 * is the same in any unit, and so is that of the range, an error in ranges. */
static qg_status in_units(const qg_step_rounding *r, float unit, size_t at,
                          const float **x)
{
    const size_t n = r->layer.inner;
    *x = r->x + at;
    if (unit == 1)
        return QG_OK;
    float *scaled = QG_NEWN(r->scratch, n, float);
    if (!scaled)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < n; i++)
        scaled[i] = r->x[at + i] * unit;
    *x = scaled;
    return QG_OK;
}

/* One channel after the other, since each may have levels of its own. */
static qg_status nncf(const qg_step_rounding *r, qg_step_gradient how, float *g,
                      double *by_scale, double *by_border)
{
    const bool shifts = how == QG_STEP_GRADIENT_NNCF_ASYMMETRIC;
    char text[QG_ENDPOINT_TEXT];
    const qg_learned_layer *l = &r->layer;
    for (size_t c = 0; c < l->channels; c++) {
        double low, high, sum = 0, moved = 0;
        limits(r, c, &low, &high);
        if (shifts) /* also where all codes are negative */
            high = low + (double)r->tqc->scheme.qmax - (double)r->tqc->scheme.qmin;
        const float whole = (float)((double)r->scale[c] * (high - low));
        const float unit = isfinite(whole) ? 1 : 0x1p-64f;
        const double s = (double)r->scale[c] * (double)unit;
        const qg_nncf_range range = { (float)(s * low), (float)(s * (high - low)) };
        const int32_t most = (int32_t)(high - low);
        const qg_nncf q = {
            .levels = {shifts ? 0 : (int32_t)low, shifts ? most : (int32_t)high,
                       most + 1},
            .grad = how == QG_STEP_GRADIENT_NNCF_EXACT ? QG_NNCF_GRAD_EXACT
                                                       : QG_NNCF_GRAD_PUBLISHED,
            .outer = 1,
            .channels = 1,
            .inner = l->inner,
            .range = &range
        };
        for (size_t o = 0; o < l->outer; o++) {
            const size_t at = (o * l->channels + c) * l->inner;
            double part = 0, border = 0;
            const float *x;
            const qg_nncf_gradients out = { .x = g + at,
                                            .range = &part,
                                            .low = shifts ? &border : NULL };
            QG_TRY(in_units(r, unit, at, &x));
            QG_TRY(qg_nncf_backward(r->ctx, qg_tqc_text(r->tqc, text), &q, x, g + at,
                                    &out));
            sum += part;
            moved += border;
        }
        if (!by_scale)
            continue;
        by_scale[c] = sum * (shifts ? (double)most : high);
        if (shifts)
            by_border[c] = moved;
    }
    return QG_OK;
}

qg_status qg_step_backward(const qg_step_rounding *r, float *g, double *by_scale,
                           double *by_border)
{
    const qg_step_gradient how = effective(r);
    qg_lsq_borders *borders = NULL;
    if (how == QG_STEP_GRADIENT_LSQ)
        QG_TRY(borders_of(r, &borders));
    if (borders) {
        rounded(r, borders, g, by_scale);
        return QG_OK;
    }
    if (how == QG_STEP_GRADIENT_NNCF || how == QG_STEP_GRADIENT_NNCF_EXACT ||
        how == QG_STEP_GRADIENT_NNCF_ASYMMETRIC)
        return nncf(r, how, g, by_scale, by_border);
    return learned(r, how, g, by_scale, by_border);
}

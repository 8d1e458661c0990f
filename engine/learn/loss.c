#include "engine/learn/loss.h"

#include <math.h>
#include <string.h>

#include "engine/session/session.h"

static const char *const names[QG_NLOSS] = {
#define LOSS(id, name, metric, summary) name,
#include "engine/learn/loss.def"
#undef LOSS
};

static const char *const metrics[QG_NLOSS] = {
#define LOSS(id, name, metric, summary) metric,
#include "engine/learn/loss.def"
#undef LOSS
};

const char *qg_loss_name(qg_loss_kind k) { return names[k]; }
const char *qg_loss_metric(qg_loss_kind k) { return metrics[k]; }

int qg_loss_named(const char *text)
{
    for (int k = 0; k < QG_NLOSS; k++)
        if (strcmp(names[k], text) == 0)
            return k;
    return -1;
}

bool qg_loss_compares(const qg_loss *l, const qg_graph *g, const qg_value *v)
{
    if (v->type.dtype != QG_F32 && v->type.dtype != QG_NODTYPE)
        return false;
    return l->kind == QG_LOSS_BLOCKS ||
           (l->kind == QG_LOSS_LABELS ? g->output.n && g->output.at[0] == v
                                      : v->is_output);
}

size_t qg_loss_given(const qg_loss *l, size_t sample)
{
    return l->given ? l->given[sample] : sample;
}

const int64_t *qg_loss_label(const qg_loss *l, size_t sample)
{
    return &l->label.label[qg_loss_given(l, sample) * l->label.each];
}

qg_status qg_loss_check(qg_ctx *ctx, const qg_loss *l, const qg_tensor *f,
                        size_t sample)
{
    if (l->kind != QG_LOSS_LABELS)
        return QG_OK;
    QG_TRY(qg_labels_check_scores(ctx, "tune", f, &l->label));
    const int64_t n = qg_tensor_count(f) / (int64_t)l->label.each;
    for (size_t r = 0; r < l->label.each; r++) {
        const int64_t label = qg_loss_label(l, sample)[r];
        if (label < 0 || label >= n)
            return qg_fail(ctx, QG_EDATA,
                           "labels: %s: sample %zu: is %lld, expected one of the %lld "
                           "classes of the first output",
                           l->label.origin, qg_loss_given(l, sample), (long long)label,
                           (long long)n);
    }
    return QG_OK;
}

/* --- rows ------------------------------------------------------------------------ */

/* Element k of row r: at[r / inner * length * inner + k * inner + r % inner]. */
typedef struct rows {
    int64_t n, length, inner;
} rows;

static rows rows_of(const qg_loss *l, const qg_tensor *y)
{
    const int64_t count = qg_tensor_count(y);
    const int32_t axis = y->rank >= 4 ? 1 : y->rank - 1;
    if (l->kind == QG_LOSS_LABELS)
        return (rows){ (int64_t)l->label.each, count / (int64_t)l->label.each, 1 };
    if (axis < 0 || y->dim[axis] < 2)
        return (rows){ 0 };
    return (rows){ count / y->dim[axis], y->dim[axis],
                   qg_dims_product(y, axis + 1, y->rank) };
}

static int64_t place(const rows *a, int64_t row, int64_t k)
{
    return row / a->inner * a->length * a->inner + k * a->inner + row % a->inner;
}

/* Whether all rows are probabilities. */
static bool are_probabilities(const rows *a, const qg_tensor *f)
{
    for (int64_t r = 0; r < a->n; r++) {
        double sum = 0;
        for (int64_t k = 0; k < a->length; k++) {
            const double p = (double)f->f32[place(a, r, k)];
            if (!(p >= 0))
                return false;
            sum += p;
        }
        if (!(fabs(sum - 1) <= 1e-3))
            return false;
    }
    return a->n > 0;
}

static const double LEAST = 1e-4;

static double logit(double y, bool probability)
{
    return probability ? log(fmax(y, 0) + LEAST) : y;
}

/* ln sum e^z of a row. */
static double normalizer(const rows *a, const qg_tensor *y, int64_t row, bool p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < a->length; k++)
        most = fmax(most, logit((double)y->f32[place(a, row, k)], p));
    for (int64_t k = 0; k < a->length; k++)
        sum += exp(logit((double)y->f32[place(a, row, k)], p) - most);
    return most + log(sum);
}

/* dz / dy. */
static double by_output(double y, bool probability)
{
    return !probability ? 1 : y < 0 ? 0 : 1 / (y + LEAST);
}

double qg_loss_of_classes(const qg_loss *l, const qg_tensor *y, const qg_tensor *f,
                          size_t sample, qg_tensor *g)
{
    const rows a = rows_of(l, y);
    const bool labels = l->kind == QG_LOSS_LABELS, p = are_probabilities(&a, f);
    double loss = 0;
    if (g)
        memset(g->data, 0, (size_t)qg_tensor_count(g) * sizeof *g->f32);
    for (int64_t r = 0; r < a.n; r++) {
        const double of_y = normalizer(&a, y, r, p);
        const double of_f = labels ? 0 : normalizer(&a, f, r, p);
        double of_row = 0;
        for (int64_t k = 0; k < a.length; k++) {
            const int64_t at = place(&a, r, k);
            const double ln_q = logit((double)y->f32[at], p) - of_y;
            const double ln_p = labels ? 0 : logit((double)f->f32[at], p) - of_f;
            const double want = labels ? (k == qg_loss_label(l, sample)[r]) : exp(ln_p);
            of_row += want * (ln_p - ln_q);
            if (g)
                g->f32[at] = (float)((exp(ln_q) - want) / (double)a.n *
                                     by_output((double)y->f32[at], p));
        }
        loss += of_row < 0 ? 0 : of_row; /* by rounding */
    }
    return a.n ? loss / (double)a.n : 0;
}

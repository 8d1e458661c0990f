/* spans.c -- dims are reordered by stride, so that the walk runs through memory, and
 * the parameter index becomes a stride of its own on each of them. */
#include "engine/quant/spans.h"

#include <assert.h>

/* Dimensions of more than one element by increasing stride; -1 when x has gaps. */
static int memory_order(const qg_tensor *x, int order[QG_MAX_RANK])
{
    int n = 0;
    for (int d = x->rank - 1; d >= 0; d--) {
        if (x->dim[d] == 1)
            continue;
        int k = n++;
        for (; k > 0 && x->stride[order[k - 1]] > x->stride[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    assert(n <= QG_MAX_RANK);
    int64_t dense = 1;
    for (int k = 0; k < n; dense *= x->dim[order[k++]])
        if (x->stride[order[k]] != dense)
            return -1;
    return n;
}

/* Strides of the parameter index by dimension of x. */
static void param_strides(const qg_scheme *s, const qg_tensor *x,
                          int64_t stride[QG_MAX_RANK])
{
    int64_t next = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = s->policy & QG_BLOCK ? next : d == s->axis;
        next *= d == s->axis ? (x->dim[d] + s->block - 1) / (s->block ? s->block : 1)
                             : x->dim[d];
    }
}

/* Neighbouring dims over which the parameter moves in the same way become one. */
bool qg_spans_start(qg_spans *w, const qg_scheme *s, const qg_tensor *x)
{
    int order[QG_MAX_RANK];
    int64_t stride[QG_MAX_RANK];
    *w = (qg_spans){ .n = 1, .extent = { 1 }, .block = { 1 } };
    int64_t count = qg_tensor_count(x);
    if (count <= 0) {
        w->extent[0] = 0;
        return count == 0;
    }
    int n = memory_order(x, order);
    if (n < 0)
        return false;
    param_strides(s, x, stride);
    for (int k = 0, last = 0; k < n; k++) {
        int d = order[k];
        bool joins = k == 0 || (w->stride[last] == 0 && stride[d] == 0);
        last = joins ? last : w->n++;
        w->extent[last] = (joins ? w->extent[last] : 1) * x->dim[d];
        w->stride[last] = stride[d];
        w->block[last] = s->policy & QG_BLOCK && d == s->axis ? s->block : 1;
    }
    return true;
}

/* The index of the innermost dimension may end exactly at its extent, never beyond. */
static void advance(qg_spans *w, size_t n)
{
    assert((int64_t)n <= w->extent[0] - w->index[0]);
    w->at += n;
    w->index[0] += (int64_t)n;
    for (int k = 0; k + 1 < w->n && w->index[k] == w->extent[k]; k++) {
        w->index[k] = 0;
        w->index[k + 1]++;
    }
}

bool qg_spans_next(qg_spans *w, qg_span *span)
{
    if (w->index[w->n - 1] >= w->extent[w->n - 1])
        return false;
    int64_t param = 0, rest = w->extent[0] - w->index[0];
    for (int k = 0; k < w->n; k++)
        param += w->index[k] / w->block[k] * w->stride[k];
    bool each = w->stride[0] == 1 && w->block[0] == 1;
    if (w->stride[0] != 0 && !each) {
        int64_t left = w->block[0] - w->index[0] % w->block[0];
        rest = left < rest ? left : rest;
    }
    assert(rest > 0 && param >= 0);
    *span = (qg_span){ w->at, (size_t)rest, (size_t)param, each };
    advance(w, (size_t)rest);
    return true;
}

/* Strides of dims with one element do not matter. */
bool qg_same_layout(const qg_tensor *x, const qg_tensor *y)
{
    if (!qg_same_dims(x, y))
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] > 1 && x->stride[d] != y->stride[d])
            return false;
    return true;
}

#include "engine/api/model.h"
#include "engine/io/npy.h"
#include "engine/core/rng.h"
#include <stdlib.h>
struct qg_data { qg_npy npy; qg_model *m; bool random; size_t count; };
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample, const qg_tensor **in)
{
    struct qg_data *d = ud;
    const qg_graph *g = d->m->graph;
    for (size_t i = 0; i < g->input.n; i++) {
        qg_tensor *x = QG_NEW(a, qg_tensor);
        *x = g->input.at[i]->type;
        QG_TRY(qg_tensor_alloc(ctx, a, x));
        size_t n = (size_t)qg_tensor_count(x);
        if (d->random) {
            qg_rng r = { sample + 1 };
            for (size_t k = 0; k < n; k++) x->f32[k] = qg_rng_float(&r);
        } else
            QG_TRY(qg_npy_read(ctx, &d->npy, sample * n, n, x->data));
        in[i] = x;
    }
    return QG_OK;
}
qg_status qg_feed_open(qg_model *m, const char *spec, size_t samples, qg_api_feed *out)
{
    struct qg_data *d = calloc(1, sizeof *d);
    d->m = m;
    if (strncmp(spec, "random:", 7) == 0) { d->random = true; d->count = (size_t)atoi(spec + 7); }
    else {
        QG_TRY(qg_npy_open(m->ctx, spec, &d->npy));
        d->count = (size_t)d->npy.head.type.dim[0];
    }
    out->data = d;
    out->feed = (qg_feed){ samples && samples < d->count ? samples : d->count, fetch, d };
    return QG_OK;
}
void qg_feed_close(qg_api_feed *f) { if (f->data) { if (!f->data->random) qg_npy_close(&f->data->npy); free(f->data); } f->data = NULL; }

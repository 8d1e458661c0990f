#include "engine/exec/meter.h"

void qg_meter_begin(qg_meter *m, const qg_progress *progress, const char *stage,
                    size_t total)
{
    *m = (qg_meter){ .progress = progress, .stage = stage, .total = total };
    (void)pthread_mutex_init(&m->lock, NULL);
}

void qg_meter_end(qg_meter *m) { (void)pthread_mutex_destroy(&m->lock); }

qg_status qg_meter_add(qg_meter *m, qg_ctx *ctx, size_t n)
{
    if (!m->progress || !m->progress->step)
        return QG_OK;
    (void)pthread_mutex_lock(&m->lock);
    m->done += n;
    qg_status s = m->ended ? qg_ctx_canceled(ctx, m->stage)
                           : qg_ctx_step(ctx, m->progress, m->stage, m->done, m->total);
    m->ended = s != QG_OK;
    (void)pthread_mutex_unlock(&m->lock);
    return s;
}

static qg_status ask(void *ud, qg_ctx *ctx) { return qg_meter_add(ud, ctx, 0); }

qg_cancel_watch qg_meter_watch(qg_meter *m)
{
    return (qg_cancel_watch){ m ? ask : NULL, m };
}

#include "engine/session/session.h"

void qg_tick(void *ticker, size_t done, size_t n)
{
    const qg_ticker *t = ticker;
    if (t->progress && t->progress->step)
        t->progress->step(t->progress->ud, t->what, done, n);
}

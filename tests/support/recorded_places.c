/* Recorded suites in which every request for memory fails once: recorded_try. */
#include <stdlib.h>

#include "tests/support/places.h"
#include "tests/support/recorded.h"

typedef struct work_of {
    recorded *r;
    recorded_work *work;
    void *ud;
} work_of;

static qg_status run(qg_alloc alloc, const place_flow *f, uint64_t *result)
{
    const work_of *w = f->ud;
    recorded *r = w->r;
    r->alloc = &alloc;
    r->mixed = 0;
    r->refused = r->silent = false;
    w->work(r, w->ud);
    r->alloc = NULL;
    *result = r->mixed;
    return r->silent ? QG_NSTATUS : r->refused ? QG_ENOMEM : QG_OK;
}

void recorded_places(recorded *r, recorded_work *work, void *ud)
{
    const work_of w = { r, work, ud };
    const place_flow f = { r->path, run, &w };
    places_sample(getenv("QG_ALL") ? 1 : 48);
    (void)every_place_fails(PLACE_MEMORY, &f);
}

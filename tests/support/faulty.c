#include "tests/support/faulty.h"

#include <stdlib.h>

#include "tests/support/test.h"

static void *get(void *ud, size_t size)
{
    faulty *f = ud;
    long call = f->calls++;
    if (f->fail_at >= 0 && (f->sticky ? call >= f->fail_at : call == f->fail_at))
        return NULL;
    f->live++;
    return malloc(size);
}

static void drop(void *ud, void *p)
{
    faulty *f = ud;
    f->live -= p != NULL;
    free(p);
}

qg_alloc faulty_alloc(faulty *f) { return (qg_alloc){ get, drop, f }; }

void every_request_may_fail(qg_status (*build)(qg_alloc alloc, void *ud), void *ud,
                            long least)
{
    for (int sticky = 0; sticky < 2; sticky++) {
        qg_status s = QG_ENOMEM;
        for (long at = 0; s != QG_OK; at++) {
            faulty f = { .fail_at = at, .sticky = sticky };
            s = build(faulty_alloc(&f), ud);
            if (f.live)
                fail_msg("request %ld failed: %ld blocks leaked", at, f.live);
            if (s != QG_OK && s != QG_ENOMEM)
                fail_msg("request %ld failed: %s", at, qg_status_name(s));
            if (s == QG_OK && f.calls > at) /* it continued without that memory */
                s = QG_ENOMEM;
            else if (s == QG_OK)
                assert_cmp_int(at, >=, least);
        }
    }
}

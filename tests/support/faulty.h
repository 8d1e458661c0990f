/* faulty.h -- an allocator that fails on demand: once, or from some request on. */
#ifndef QG_TESTS_SUPPORT_FAULTY_H
#define QG_TESTS_SUPPORT_FAULTY_H

#include <stdbool.h>

#include "engine/core/arena.h"

typedef struct faulty {
    long calls;   /* requests so far */
    long fail_at; /* the request that fails, from 0; -1: none */
    bool sticky;  /* and all after it */
    long live;    /* blocks not freed */
} faulty;

qg_alloc faulty_alloc(faulty *f);

/* Runs `build` with every request failing in turn, once and permanently, until it
 * succeeds without a failed request.  Fails the test when it leaks, when a failure is
 * anything but QG_ENOMEM, or when fewer than `least` requests were made. */
void every_request_may_fail(qg_status (*build)(qg_alloc alloc, void *ud), void *ud,
                            long least);

#endif

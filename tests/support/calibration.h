/* calibration.h -- shared by tests of calibrators: a context and an arena. */
#ifndef QG_TESTS_SUPPORT_CALIBRATION_H
#define QG_TESTS_SUPPORT_CALIBRATION_H

#include "tests/support/test.h"

typedef struct fixture {
    qg_ctx *ctx;
    qg_arena *arena;
} fixture;

/* cmocka's set-up and tear-down; *state is a fixture. */
static inline int begin(void **state)
{
    static fixture f;
    f = (fixture){ qg_ctx_new(qg_alloc_libc), qg_arena_new(qg_alloc_libc) };
    *state = &f;
    return f.ctx && f.arena ? 0 : -1;
}

static inline int end(void **state)
{
    fixture *f = *state;
    qg_arena_free(f->arena);
    qg_ctx_free(f->ctx);
    return 0;
}

#endif

/* test.h -- cmocka with the headers it requires, and a one-line main. */
#ifndef QG_TESTS_SUPPORT_TEST_H
#define QG_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/ctx.h"

#define QG_TEST_MAIN(...)                                                              \
    int main(void)                                                                     \
    {                                                                                  \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                             \
        return cmocka_run_group_tests(tests, NULL, NULL);                              \
    }

/* A test whose state is a private context: `qg_ctx *ctx = *state`. */
static inline int qg_test_setup(void **state)
{
    return (*state = qg_ctx_new(qg_alloc_libc)) == NULL;
}

static inline int qg_test_teardown(void **state)
{
    qg_ctx_free(*state);
    return 0;
}

#define WITH_CTX(f) cmocka_unit_test_setup_teardown(f, qg_test_setup, qg_test_teardown)

/* Asserts QG_OK and prints the context's message otherwise. */
#define assert_ok(ctx, expr)                                                           \
    do {                                                                               \
        qg_status got_ = (expr);                                                       \
        if (got_ != QG_OK)                                                             \
            fail_msg("%s: %s: %s", #expr, qg_status_name(got_), qg_ctx_message(ctx));  \
    } while (0)

/* Asserts this status and that the message contains the text. */
#define assert_fails(ctx, expr, status, text)                                          \
    do {                                                                               \
        assert_int_equal((expr), (status));                                            \
        if (!strstr(qg_ctx_message(ctx), (text)))                                      \
            fail_msg("message '%s' lacks '%s'", qg_ctx_message(ctx), (text));          \
    } while (0)

/* Asserts `a op b` and prints both values otherwise: assert_cmp_int(n, >, 0).  Integers
 * are compared as int64, real numbers as doubles without tolerance. */
#define assert_cmp_int(a, op, b)                                                       \
    do {                                                                               \
        int64_t left_ = (int64_t)(a), right_ = (int64_t)(b);                           \
        if (!(left_ op right_))                                                        \
            fail_msg("%s %s %s: %lld, %lld", #a, #op, #b, (long long)left_,            \
                     (long long)right_);                                               \
    } while (0)
#define assert_cmp_f64(a, op, b)                                                       \
    do {                                                                               \
        double left_ = (double)(a), right_ = (double)(b);                              \
        if (!(left_ op right_))                                                        \
            fail_msg("%s %s %s: %.17g, %.17g", #a, #op, #b, left_, right_);            \
    } while (0)

#endif

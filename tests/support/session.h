/* session.h -- models for tests of sessions: from text, or quantized from a file; and
 * their inputs. */
#ifndef QG_TESTS_SUPPORT_SESSION_H
#define QG_TESTS_SUPPORT_SESSION_H

#include "tests/support/test.h"

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "engine/ir/text.h"
#include "engine/session/session.h"
#include "ops/families.h"

/* *m becomes the model of a text; its graph is freed by qg_model_close. */
static inline void model_of_text(qg_ctx *ctx, const char *text, qg_model *m)
{
    const qg_text_source source = { .text = text, .size = strlen(text) };
    *m = (qg_model){ .ctx = ctx, .path = "text" };
    assert_ok(ctx, qg_text_parse(ctx, &source, &m->graph));
    assert_ok(ctx, qg_infer(m->graph, NULL, 0));
}

/* A model of a file, quantized for `backend` (NULL: not at all) with random samples. */
static inline qg_model *model_of_file(qg_ctx *ctx, const char *path,
                                      const char *backend)
{
    qg_model *m;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:4";
    o.work.jobs = 1;
    assert_ok(ctx, qg_model_open(ctx, path, NULL, &m));
    if (backend)
        assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

/* x gets memory in the arena of ctx and seeded values of [-1, 1). */
static inline void fill_seeded(qg_ctx *ctx, qg_tensor *x, uint64_t seed)
{
    qg_rng rng = { seed };
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, x));
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        x->f32[i] = qg_rng_range(&rng, -1, 1);
}

static inline qg_session_options session_options(const char *mode)
{
    qg_session_options o;
    qg_session_options_init(&o, sizeof o);
    o.mode = mode;
    return o;
}

/* Fails with the session's message. */
#define assert_session_ok(s, expr)                                                     \
    do {                                                                               \
        qg_status got_ = (expr);                                                       \
        if (got_ != QG_OK)                                                             \
            fail_msg("%s: %s: %s", #expr, qg_status_name(got_),                        \
                     qg_session_message(s));                                           \
    } while (0)

/* Asserts this status and that the session's message contains the text. */
#define assert_session_fails(s, expr, status, text)                                    \
    do {                                                                               \
        assert_int_equal((expr), (status));                                            \
        if (!strstr(qg_session_message(s), (text)))                                    \
            fail_msg("message '%s' lacks '%s'", qg_session_message(s), (text));        \
    } while (0)

#endif

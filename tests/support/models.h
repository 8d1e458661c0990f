/* models.h -- models for tests through the public header: quantized on random samples,
 * as text, and files as bytes. */
#ifndef QG_TESTS_SUPPORT_MODELS_H
#define QG_TESTS_SUPPORT_MODELS_H

#include "tests/support/test.h"

#include "engine/api/qg.h"
#include "engine/core/file.h"

/* Quantizes m on four random samples. */
static inline qg_model *quantize(qg_ctx *ctx, qg_model *m, const char *backend)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:4";
    o.work.jobs = 1;
    assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

static inline qg_model *open_model(qg_ctx *ctx, const char *path)
{
    qg_model *m;
    assert_ok(ctx, qg_model_open(ctx, path, NULL, &m));
    return m;
}

static inline qg_model *quantized_model(qg_ctx *ctx, const char *path,
                                        const char *backend)
{
    return quantize(ctx, open_model(ctx, path), backend);
}

/* The text form with records, in the context's arena. */
static inline const char *dump_text(qg_ctx *ctx, qg_model *m)
{
    qg_report *r;
    assert_ok(ctx, qg_model_dump(m, &r));
    const char *text = qg_arena_strdup(ctx->arena, qg_report_text(r));
    assert_non_null(text);
    qg_report_free(r);
    return text;
}

/* A file in the context's arena; aligned as arenas are. */
static inline char *file_bytes(qg_ctx *ctx, const char *path, size_t *size)
{
    char *bytes;
    assert_ok(ctx,
              qg_file_text(ctx, ctx->arena, (qg_file_request){ "read", path, SIZE_MAX },
                           &bytes, size));
    return bytes;
}

/* A test whose state is a context of qg_open. */
static inline int library_setup(void **state)
{
    qg_ctx *ctx = NULL;
    int failed = qg_open(NULL, &ctx) != QG_OK;
    *state = ctx;
    return failed;
}

static inline int library_teardown(void **state)
{
    qg_close(*state);
    return 0;
}

#define WITH_LIBRARY(f)                                                                \
    cmocka_unit_test_setup_teardown(f, library_setup, library_teardown)

#endif

/* Every .qgt file in tests/passes, and that every pass has one. */
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "passes/passes.h"
#include "tests/support/qgt_runner.h"

static void every_file_holds(void **state)
{
    (void)state;
    assert_qgt_folder("tests/passes");
}

static void every_pass_has_a_file(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (const qg_pass *const *p = qg_passes; *p; p++) {
        char *path = qg_arena_printf(ctx->arena, "tests/passes/%s.qgt", (*p)->name),
             *text;
        size_t size;
        assert_ok(ctx, qg_file_text(ctx, ctx->arena,
                                    (qg_file_request){ "read", path, 1 << 20 }, &text,
                                    &size));
        assert_non_null(strstr(text, (*p)->name));
        assert_non_null((*p)->summary);
        assert_true((*p)->summary[0]);
    }
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_file_holds),
             cmocka_unit_test(every_pass_has_a_file))

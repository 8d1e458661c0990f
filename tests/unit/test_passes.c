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

/* Those of a program come behind the shipped ones, in their order. */
static void added_passes_follow(void **state)
{
    (void)state;
    static const qg_pass one = { .name = "one" }, two = { .name = "two" };
    qg_added second = { .what = &two }, first = { .what = &one, .next = &second };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t added = 0; added <= 2; added++) {
        const qg_pass *const *all;
        size_t n = 0;
        ctx->added[QG_ADDED_PASS] = added == 2 ? &first : added == 1 ? &second : NULL;
        assert_ok(ctx, qg_passes_of(ctx, ctx->arena, &all));
        for (; qg_passes[n]; n++)
            assert_ptr_equal(all[n], qg_passes[n]);
        if (added == 2)
            assert_ptr_equal(all[n++], &one);
        if (added)
            assert_ptr_equal(all[n++], &two);
        assert_null(all[n]);
    }
    ctx->added[QG_ADDED_PASS] = NULL;
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_file_holds),
             cmocka_unit_test(every_pass_has_a_file),
             cmocka_unit_test(added_passes_follow))

/* Every .qgt file in tests/lower. */
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "tests/support/qgt_runner.h"

static void every_file_holds(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n, run = 0;
    int failed = 0;
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, "tests/lower", &name, &n));
    for (size_t i = 0; i < n; i++)
        if (strstr(name[i], ".qgt")) {
            failed += run_qgt_file(qg_path_join(ctx->arena, "tests/lower", name[i]));
            run++;
        }
    assert_cmp_int(run, >, 0);
    assert_int_equal(failed, 0);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_file_holds))

/* Every case of tests/ops, and the runner's own verdict on cases that must fail. */
#include "tests/support/case_runner.h"
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/file.h"
#include "ops/families.h"

static void every_case_holds(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n, files = 0;
    case_report all = { 0, 0 };
    (void)state;
    assert_non_null(ctx);
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, "tests/ops", &name, &n));
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(name[i]);
        case_report one = { 0, 0 };
        if (length < 5 || strcmp(name[i] + length - 5, ".case") != 0)
            continue;
        files++;
        assert_int_equal(run_case_file(&qg_ops_registry,
                                       qg_path_join(ctx->arena, "tests/ops", name[i]),
                                       &one),
                         QG_OK);
        if (one.passed + one.failed == 0)
            fail_msg("%s has no case", name[i]);
        all.passed += one.passed;
        all.failed += one.failed;
    }
    printf("%zu cases of %zu files passed, %zu failed\n", all.passed, files,
           all.failed);
    assert_int_equal(all.failed, 0);
    assert_cmp_int(files, >, 0);
    qg_ctx_free(ctx);
}

/* A runner that cannot fail proves nothing. */
static void wrong_cases_are_reported(void **state)
{
    static const char text[] = "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[2,1] 3 4\n"
                               "out f32[1,1] 11\n" /* right */
                               "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[2,1] 3 4\n"
                               "out f32[1,1] 12\n" /* wrong value */
                               "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[2,1] 3 4\n"
                               "out f32[1] 11\n" /* wrong shape */
                               "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[3,1] 3 4 5\n"
                               "out f32[1,1] 11\n" /* fails, but not expected to */
                               "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[3,1] 3 4 5\n"
                               "fail QG_EMODEL \"some other text\"\n"
                               "op Gemm 13\n"
                               "in f32[1,2] 1 2\n"
                               "in f32[3,1] 3 4 5\n"
                               "fail QG_EMODEL \"dimension 0 is 3, expected 2\"\n";
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    case_report r = { 0, 0 };
    char path[] = "/tmp/qg_case_XXXXXX";
    int handle = mkstemp(path);
    (void)state;
    assert_cmp_int(handle, >=, 0);
    assert_ok(ctx, qg_file_write(ctx, path, text, sizeof text - 1));
    assert_int_equal(run_case_file(&qg_ops_registry, path, &r), QG_OK);
    assert_int_equal(r.passed, 2);
    assert_int_equal(r.failed, 4);
    assert_ok(ctx, qg_file_write(ctx, path, "op Gemm 13\nin f99[1] 2\n", 23));
    assert_int_equal(run_case_file(&qg_ops_registry, path, &r), QG_EPARSE);
    (void)remove(path);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_case_holds),
             cmocka_unit_test(wrong_cases_are_reported))

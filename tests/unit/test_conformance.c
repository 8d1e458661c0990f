/* The ONNX backend tests in scope, under the sanitizers.  The list is
 * tests/conformance/in_scope.txt; the tests are Debian's libonnx-testdata. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/session/conformance.h"
#include "engine/core/file.h"
#include "ops/families.h"

static const char data[] = "/usr/share/libonnx-testdata/data";

static qg_status tell(void *ud, const char *folder, qg_status s, const char *message)
{
    (void)ud;
    printf("%s %s: %s: %s\n", s == QG_EUNSUPPORTED ? "unsupported" : "FAILED", folder,
           qg_status_name(s), message);
    return QG_OK;
}

/* Runs the tests of one tier: the lines behind its comments, "# tier 2: Abs (1)". */
static qg_conformance_count run_tier(qg_ctx *ctx, char *list, char tier)
{
    qg_conformance_count count = { 0, 0, 0 };
    qg_conformance_options o = { .registry = &qg_ops_registry, .tell = tell };
    char now = 0, *rest = NULL;
    for (char *line = strtok_r(list, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# tier ", 7) == 0)
            now = line[7];
        else if (line[0] != '#' && now == tier)
            assert_ok(ctx, qg_conformance_run(ctx, qg_path_join(ctx->arena, data, line),
                                              &o, &count));
    }
    return count;
}

static qg_conformance_count tier(char which)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    char *text;
    size_t size;
    assert_non_null(ctx);
    assert_ok(ctx, qg_file_text(ctx, ctx->arena,
                                (qg_file_request){
                                    "test", "tests/conformance/in_scope.txt", 1 << 20 },
                                &text, &size));
    qg_conformance_count count = run_tier(ctx, text, which);
    printf("tier %c: %zu passed, %zu failed, %zu unsupported\n", which, count.passed,
           count.failed, count.unsupported);
    qg_ctx_free(ctx);
    return count;
}

static void tier_1_passes(void **state)
{
    (void)state;
    assert_int_equal(tier('1').passed, 462);
}

static void tier_2_passes(void **state)
{
    (void)state;
    assert_int_equal(tier('2').passed, 287);
}

static void tier_3_passes(void **state)
{
    (void)state;
    assert_int_equal(tier('3').passed, 140);
}

/* Wrong numbers, a missing file and an unknown operator are told apart. */
static void verdicts_differ(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    static const char *const rows[] = { "node/test_relu" };
    qg_conformance_options o = { .registry = &qg_ops_registry, .tell = tell };
    qg_conformance_count count = { 0, 0, 0 };
    (void)state;
    assert_ok(ctx, qg_conformance_run(ctx, qg_path_join(ctx->arena, data, rows[0]), &o,
                                      &count));
    assert_int_equal(count.passed, 1);
    assert_fails(ctx, qg_conformance_run(ctx, "tests/unit", &o, &count), QG_EDATA,
                 "conformance: tests/unit: no model.onnx, expected tests");
    o.registry = &(qg_registry){ .family = NULL };
    assert_ok(ctx, qg_conformance_run(ctx, qg_path_join(ctx->arena, data, rows[0]), &o,
                                      &count));
    assert_int_equal(count.unsupported, 1);
    qg_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_differ),
        cmocka_unit_test(tier_1_passes),
        cmocka_unit_test(tier_2_passes),
        cmocka_unit_test(tier_3_passes),
    };
    if (!qg_is_directory(data))
        return 77; /* libonnx-testdata is not installed: skipped */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

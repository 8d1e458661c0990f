/* Every place of the operators that asks for memory fails once, under each case of
 * tests/ops: preparing, inferring and running it. */
#include "tests/support/case_runner.h"
#include "tests/support/places.h"
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "ops/families.h"
#include "ops/util_cast.h"

static void mix_tensor(uint64_t *result, const qg_tensor *t)
{
    char text[64];
    for (int64_t i = 0; i < qg_tensor_count(t); i++) {
        double x = 0;
        qg_cast((qg_cast_side){ t->dtype, t->data, i }, (qg_cast_side){ QG_F64, &x, 0 },
                1, true);
        (void)snprintf(text, sizeof text, "%.17g", x);
        place_mix(result, text);
    }
}

/* A case that is to fail, fails likewise: the failure is its result. */
static qg_status run_one(qg_alloc alloc, const place_flow *f, uint64_t *result)
{
    const op_case *c = f->ud;
    case_attempt a = { 0 };
    qg_ctx *ctx = qg_ctx_new(alloc);
    qg_arena *scratch = qg_arena_new(alloc);
    qg_status s = ctx && scratch ? QG_OK : QG_ENOMEM;
    if (s == QG_OK) {
        ctx->registry = &qg_ops_registry;
        s = attempt_case(c, ctx, scratch, &a);
    }
    if (s != QG_OK && s != QG_ENOMEM) {
        place_mix(result, qg_ctx_message(ctx));
        s = QG_OK;
    } else if (s == QG_OK) {
        for (size_t i = 0; i < c->n_out; i++)
            if (a.out[i])
                mix_tensor(result, a.out[i]);
    }
    qg_graph_free(a.g);
    qg_arena_free(scratch);
    qg_ctx_free(ctx);
    return s;
}

static void visit(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    char name[256];
    const place_flow f = { name, run_one, c };
    (void)ctx;
    (void)scratch;
    (void)snprintf(name, sizeof name, "%s:%d", c->path, c->line);
    *(long *)ud += every_place_fails(PLACE_MEMORY, &f);
}

static void no_memory(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n;
    long all = 0;
    (void)state;
    assert_non_null(ctx);
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, "tests/ops", &name, &n));
    for (size_t i = 0; i < n; i++)
        if (strstr(name[i], ".case"))
            assert_int_equal(
                visit_case_file(qg_alloc_libc, &qg_ops_registry,
                                qg_path_join(ctx->arena, "tests/ops", name[i]), visit,
                                &all),
                QG_OK);
    printf("%ld places\n", all);
    assert_cmp_int(all, >, 100);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(no_memory))

/* Every quirk has a row, and rows swap what their quirk asks for and no more. */
#include "tests/support/test.h"

#include "engine/api/qg.h"
#include "engine/config/backend_yaml.h"
#include "engine/quant/quirk.h"
#include "ops/families.h"

typedef struct behaviours {
    int one;
    struct pair {
        int two, three;
    } pair;
} behaviours;

static const behaviours other = {
    10, {20, 30}
};
static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_OFFSET, "m", "s", behaviours, one, 4),
    QG_SWAP(PPQ_NAMES, "m", "s", behaviours, pair, { .two = 5, .three = 6 }),
    QG_SWAP_ALL(PPQ_EQUALIZE, "m", "s", other),
    QG_SWAP_DATA(PPQ_GEMM_BIAS, "m", "s", "rules"),
    { 0 },
};

static void expect(uint64_t mask, int one, int two, int three)
{
    behaviours how = {
        1, {2, 3}
    };
    qg_quirk_swap(quirk, mask, &how);
    assert_int_equal(how.one, one);
    assert_int_equal(how.pair.two, two);
    assert_int_equal(how.pair.three, three);
}

static void rows_swap_what_the_mask_asks_for(void **state)
{
    (void)state;
    expect(0, 1, 2, 3);
    expect(QG_QUIRK(PPQ_GEMM_BIAS) | QG_QUIRK(PPQ_UNFOLDED), 1, 2, 3);
    expect(QG_QUIRK(PPQ_OFFSET), 4, 2, 3);
    expect(QG_QUIRK(PPQ_NAMES), 1, 5, 6);
    expect(QG_QUIRK(PPQ_OFFSET) | QG_QUIRK(PPQ_NAMES), 4, 5, 6);
    expect(UINT64_MAX, 10, 20, 30);
}

/* In what `qg list quirks` shows. */
static void every_quirk_has_a_row(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_report *r;
    (void)state;
    assert_ok(ctx, qg_list(ctx, "quirks", &r));
    for (int i = 0; i < QG_NQUIRK; i++)
        if (!strstr(qg_report_text(r), qg_quirk_name((qg_quirk)i)))
            fail_msg("no table has a row of %s", qg_quirk_name((qg_quirk)i));
    qg_report_free(r);
    qg_ctx_free(ctx);
}

/* The rows of backend files are those of their `with-quirk` sections. */
static void sections_have_rows(void **state)
{
    const char *dir = QG_CONFIG_DIR "/backends";
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_search search = { .dir = &dir, .n = 1 };
    uint64_t sections = 0, rows = 0;
    const char **name;
    size_t n;
    (void)state;
    ctx->registry = &qg_ops_registry;
    ctx->config_dir = QG_CONFIG_DIR;
    assert_ok(ctx, qg_config_names(ctx, ctx->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        qg_backend *b;
        assert_ok(ctx, qg_backend_load(ctx, ctx->arena, name[i], search, &b));
        for (size_t k = 0; k < b->with_quirk.n; k++)
            sections |= b->with_quirk.at[k].quirk;
    }
    for (const qg_quirk_row *q = qg_backend_quirk_rows; q->meaning; q++)
        rows |= UINT64_C(1) << q->quirk;
    assert_cmp_int(rows, ==, sections);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(rows_swap_what_the_mask_asks_for),
             cmocka_unit_test(every_quirk_has_a_row),
             cmocka_unit_test(sections_have_rows))

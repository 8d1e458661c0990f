/* qg_quantize_tensor: facts, files, refusals, hostile numbers, out of memory.  Values
 * of every scheme: tests/scripts/test_quantize_tensor.py. */
#include "tests/support/faulty.h"
#include "tests/support/test.h"

#include <unistd.h>

#include "engine/api/qg.h"
#include "engine/data/npy.h"

static const char ARRAY[] = "tests/arrays/f4.npy"; /* [[0, 1, 2], [3, 4, 127]] */
static const char OUT[] = "/tmp/qg_quantize_tensor.npy";

static qg_quantize_tensor_options preset(void)
{
    qg_quantize_tensor_options o;
    qg_quantize_tensor_options_init(&o, sizeof o);
    return o;
}

static double number(const qg_report *r, const char *name)
{
    double x;
    assert_true(qg_report_number(r, name, &x));
    return x;
}

static void reports(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_report *r = NULL;
    qg_quantize_tensor_options o = preset();
    o.scale = "2"; /* 1 and 3 are ties: 0 and 4; 127 is 63.5 steps: 128 */
    assert_ok(ctx, qg_quantize_tensor(ctx, ARRAY, &o, &r));
    assert_cmp_f64(number(r, "count"), ==, 6);
    assert_cmp_f64(number(r, "max"), ==, 1);
    assert_cmp_f64(number(r, "mse"), ==, 3.0 / 6);
    assert_cmp_f64(number(r, "saturated"), ==, 0);
    qg_report_free(r);
    assert_ok(ctx, qg_quantize_tensor(ctx, ARRAY, NULL, &r)); /* all defaults */
    assert_cmp_f64(number(r, "saturated"), ==, 1.0 / 6);      /* 127.5 steps */
    assert_non_null(strstr(qg_report_text(r), "8 bits [-128, 127] half-even per-tensor "
                                              "linear symmetric"));
    qg_report_free(r);
    assert_ok(ctx, qg_quantize_tensor(ctx, ARRAY, NULL, NULL));
    qg_ctx_free(ctx);
}

static void writes(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_quantize_tensor_options o = preset();
    const qg_tensor *t;
    o.policy = "per-channel, linear  asymmetric";
    o.scale = "1,2";
    o.offset = "3 0";
    o.output = OUT;
    assert_ok(ctx, qg_quantize_tensor(ctx, ARRAY, &o, NULL));
    assert_ok(ctx, qg_npy_load(ctx, ctx->arena, OUT, &t));
    assert_int_equal(t->dtype, QG_F32);
    assert_cmp_f64(t->f32[2], ==, 2);
    assert_cmp_f64(t->f32[5], ==, 128);
    o.codes = true;
    assert_ok(ctx, qg_quantize_tensor(ctx, ARRAY, &o, NULL));
    assert_ok(ctx, qg_npy_load(ctx, ctx->arena, OUT, &t));
    assert_int_equal(t->dtype, QG_U8);
    assert_int_equal(t->u8[2], 5);
    assert_int_equal(t->u8[5], 64);
    (void)unlink(OUT);
    qg_ctx_free(ctx);
}

static void refuses(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_report *r = NULL;
    qg_quantize_tensor_options o = preset();
    o.codes = true;
    assert_fails(ctx, qg_quantize_tensor(ctx, ARRAY, &o, &r), QG_ECONFIG,
                 "quantize-tensor: codes: no output, expected a file");
    o = preset();
    o.block = UINT32_MAX;
    assert_fails(ctx, qg_quantize_tensor(ctx, ARRAY, &o, &r), QG_ECONFIG,
                 "quantize-tensor: block 4294967295, expected at most 2147483647");
    o = preset();
    o.policy = NULL;
    assert_fails(ctx, qg_quantize_tensor(ctx, ARRAY, &o, &r), QG_ECONFIG,
                 "policy '' (0x0) is not legal");
    assert_fails(ctx, qg_quantize_tensor(ctx, "tests/arrays/i4.npy", NULL, &r),
                 QG_EDATA, "expected float16, float32 or float64");
    assert_null(r);
    qg_ctx_free(ctx);
}

/* Numbers at the ends of their types: answered or refused, never undefined. */
static void survives(void **state)
{
    static const char *const policy[] = { "per-tensor,linear,asymmetric",
                                          "per-tensor,linear,asymmetric,power-of-2",
                                          "per-tensor,floating,symmetric,power-of-2" };
    static const char *const scale[] = { "1e-45",  "1.17549435e-38", "1",
                                         "3.4e38", "1e999",          "" };
    static const char *const offset[] = { "-2147483648", "2147483647", NULL };
    static const unsigned bits[] = { 2, 8, 24, 25, 32 };
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    size_t done = 0;
    for (int i = 0; i < 3 * 6 * 3 * 5; i++) {
        qg_quantize_tensor_options o = preset();
        o.policy = policy[i % 3];
        o.scale = scale[i / 3 % 6];
        o.offset = offset[i / 18 % 3];
        o.bits = bits[i / 54 % 5];
        o.exponent_bits = i % 3 == 2 ? 1 + (unsigned)i % 8 : 0;
        o.output = OUT;
        o.codes = true;
        done += qg_quantize_tensor(ctx, "tests/arrays/f8.npy", &o, NULL) == QG_OK;
    }
    assert_cmp_int(done, >, 50);
    (void)unlink(OUT);
    qg_ctx_free(ctx);
}

static qg_status once(qg_alloc alloc, void *ud)
{
    qg_report *r = NULL;
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    qg_status s = qg_quantize_tensor(ctx, ARRAY, ud, &r);
    qg_report_free(r);
    qg_ctx_free(ctx);
    return s;
}

static void memory(void **state)
{
    (void)state;
    qg_quantize_tensor_options o = preset();
    o.observer = "percentile";
    o.output = OUT;
    o.codes = true;
    every_request_may_fail(once, &o, 4);
    (void)unlink(OUT);
}

QG_TEST_MAIN(cmocka_unit_test(reports), cmocka_unit_test(writes),
             cmocka_unit_test(refuses), cmocka_unit_test(survives),
             cmocka_unit_test(memory))

/* Setters: checked, journalled, all or nothing; constants and derived scales follow. */
#include "tests/support/models.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/quant/tqc_check.h"
#include "engine/snapshot/model.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const BACKENDS[] = { "trt-int8", "tflite-int8", "openvino-int8",
                                        "trt-fp8" };

static qg_tqc_record record(const qg_tqc *t)
{
    qg_tqc_record r = { .size = sizeof r };
    qg_tqc_get(t, &r);
    return r;
}

/* The first endpoint in this state; rounds or not, a root or not. */
static qg_tqc *first(const qg_model *m, qg_tqc_state s)
{
    for (size_t i = 0; i < qg_model_tqc_count(m); i++)
        if (record(qg_model_tqc(m, i)).state == s)
            return qg_model_tqc(m, i);
    fail_msg("no endpoint is %s", qg_tqc_state_name(s));
    return NULL;
}

/* Everything about the records as one text, journal included. */
static char *all_text(qg_ctx *ctx, const qg_model *m)
{
    qg_memory_file f;
    assert_ok(ctx, qg_memory_open(ctx, &f));
    assert_ok(ctx,
              qg_memory_close(&f, qg_quant_json_write(m->quant, &m->info, f.stream)));
    char *text = qg_arena_strdup(ctx->arena, f.bytes);
    qg_memory_free(&f);
    return text;
}

static void assert_checked(qg_ctx *ctx, const qg_model *m)
{
    assert_ok(ctx, qg_check_tqcs(ctx, m->quant, QG_CHECK_ALL));
}

/* The endpoint after saving and opening again. */
static qg_model *reopened(qg_ctx *ctx, qg_model *m)
{
    qg_model *again;
    qg_bytes b;
    assert_ok(ctx, qg_model_save_bytes(m, &b));
    assert_ok(ctx, qg_model_open_bytes(ctx, b.data, b.size, NULL, &again));
    void *kept = qg_arena_raw(ctx->arena, b.size, 1); /* as long as the model */
    memcpy(kept, b.data, b.size);
    qg_model_close(again);
    assert_ok(ctx, qg_model_open_bytes(ctx, kept, b.size, NULL, &again));
    qg_bytes_free(ctx, &b);
    return again;
}

static float *doubled(qg_ctx *ctx, const qg_tqc_record *r)
{
    float *scale = QG_NEWN(ctx->arena, r->n_param, float);
    for (size_t i = 0; i < r->n_param; i++)
        scale[i] = 2 * r->scale[i];
    return scale;
}

/* Doubles the scale of t; whatever is derived from it doubles as well. */
static void check_doubled(qg_ctx *ctx, qg_model *m, qg_tqc *t)
{
    qg_tqc_record before = record(t), after;
    float *scale = doubled(ctx, &before);
    assert_ok(ctx, qg_model_set_param(m, t, before.n_param, scale, before.offset));
    assert_checked(ctx, m);
    after = record(t);
    assert_int_equal(after.state, before.state);
    assert_int_equal(after.n_param, before.n_param);
    assert_memory_equal(after.scale, scale, before.n_param * sizeof *scale);
    qg_model *again = reopened(ctx, m);
    after = record(qg_model_find_tqc(again, before.name));
    assert_int_equal(after.state, before.state);
    assert_memory_equal(after.scale, scale, before.n_param * sizeof *scale);
    qg_model_close(again);
}

static void scales_are_set_and_saved(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t b = 0; b < sizeof BACKENDS / sizeof *BACKENDS; b++) {
        qg_model *m = quantized_model(ctx, MODEL, BACKENDS[b]);
        size_t activated = 0, baked = 0;
        for (size_t i = 0; i < qg_model_tqc_count(m); i++) {
            qg_tqc_record r = record(qg_model_tqc(m, i));
            bool own = r.state == QG_TQC_ACTIVATED || r.state == QG_TQC_BAKED;
            if (!own || (r.scheme.policy & QG_DYNAMIC))
                continue;
            activated += r.state == QG_TQC_ACTIVATED;
            baked += r.state == QG_TQC_BAKED;
            check_doubled(ctx, m, qg_model_tqc(m, i));
        }
        assert_cmp_int(activated, >, 2);
        assert_cmp_int(baked, >, 2);
        qg_model_close(m);
    }
}

/* The bias of a node counts in input scale x weight scale. */
static void derived_scales_follow(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t which = 0; which < 2; which++) {
        qg_model *m = quantized_model(ctx, MODEL, "tflite-int8");
        qg_tqc *bias = NULL;
        for (size_t i = 0; !bias && i < qg_model_tqc_count(m); i++)
            if (record(qg_model_tqc(m, i)).derive == QG_DERIVE_BIAS)
                bias = qg_model_tqc(m, i);
        assert_non_null(bias);
        qg_tqc_record before = record(bias);
        assert_int_equal(before.state, QG_TQC_PASSIVE_BAKED);
        float *twice = doubled(ctx, &before);
        const qg_tqc *lender = record(before.lender[which]).dominator;
        qg_tqc *t = qg_model_tqc(m, record(lender).id);
        check_doubled(ctx, m, t);
        qg_tqc_record after = record(bias);
        assert_int_equal(after.state, QG_TQC_PASSIVE_BAKED);
        assert_memory_equal(after.scale, twice, after.n_param * sizeof *twice);
        assert_fails(ctx, qg_model_set_param(m, bias, after.n_param, twice, NULL),
                     QG_ESTATE, "is derived from");
        qg_model_close(m);
    }
}

static qg_tensor run_once(qg_ctx *ctx, qg_model *m, const char *folder)
{
    size_t size;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work.data = "random:2";
    o.work.jobs = 1;
    assert_ok(ctx, qg_model_run(m, &o, folder, NULL));
    qg_value_record r = { .size = sizeof r };
    qg_value_get(qg_model_output(m, 0), &r);
    char *bytes = file_bytes(
        ctx, qg_arena_printf(ctx->arena, "%s/%s.npy", folder, r.name), &size);
    return (qg_tensor){
        .dtype = QG_U8, .rank = 1, .dim = { (int64_t)size }, .data = bytes
    };
}

/* A weight on a coarse grid gives other outputs, the same before and after saving, and
 * the first ones when the first scale is back. */
static void the_simulation_uses_the_new_scale(void **state)
{
    qg_ctx *ctx = *state;
    char scratch[SCRATCH_PATH];
    const char *folder = scratch_path(scratch, "setters");
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *weight = first(m, QG_TQC_BAKED);
    qg_tqc_record r = record(weight);
    float *coarse = QG_NEWN(ctx->arena, r.n_param, float);
    float *fine = QG_NEWN(ctx->arena, r.n_param, float);
    for (size_t i = 0; i < r.n_param; i++) {
        fine[i] = r.scale[i];
        coarse[i] = 100 * r.scale[i];
    }
    qg_tensor before = run_once(ctx, m, folder);
    assert_ok(ctx, qg_model_set_param(m, weight, r.n_param, coarse, NULL));
    qg_tensor after = run_once(ctx, m, folder);
    assert_int_equal(before.dim[0], after.dim[0]);
    assert_memory_not_equal(before.data, after.data, (size_t)before.dim[0]);
    qg_model *again = reopened(ctx, m);
    qg_tensor saved = run_once(ctx, again, folder);
    assert_memory_equal(saved.data, after.data, (size_t)after.dim[0]);
    qg_model_close(again);
    assert_ok(ctx, qg_model_set_param(m, weight, r.n_param, fine, NULL));
    qg_tensor back = run_once(ctx, m, folder);
    assert_memory_equal(before.data, back.data, (size_t)before.dim[0]);
    qg_model_close(m);
    assert_int_equal(scratch_remove(folder), 0);
}

/* The last change of an endpoint. */
static qg_change_record last_change(const qg_model *m, const qg_tqc *t)
{
    qg_change_record c = { .size = sizeof c }, next = { .size = sizeof next };
    for (size_t k = 0; qg_model_change(m, t, k, &next); k++)
        c = next;
    return c;
}

static void changes_are_by_the_host(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *t = first(m, QG_TQC_ACTIVATED);
    const char *author = m->quant->author;
    assert_ok(ctx, qg_model_set_state(m, t, QG_TQC_DEACTIVATED));
    qg_change_record c = last_change(m, t);
    assert_string_equal(c.field, "state");
    assert_string_equal(c.old_value, "ACTIVATED");
    assert_string_equal(c.new_value, "DEACTIVATED");
    assert_string_equal(c.by, "host");
    assert_string_equal(m->quant->author, author);
    assert_int_equal(record(t).saved, QG_TQC_ACTIVATED);
    assert_ok(ctx, qg_model_set_observer(m, t, "percentile,percentile=0.999"));
    assert_string_equal(record(t).observer, "percentile");
    assert_string_equal(last_change(m, t).by, "host");
    assert_ok(ctx, qg_model_set_visibility(m, t, QG_EXPORT_INTERNAL));
    assert_int_equal(record(t).visibility, QG_EXPORT_INTERNAL);
    assert_string_equal(last_change(m, t).field, "visibility");
    qg_model_close(m);
}

/* What is switched off can be set, and stays off. */
static void a_scale_is_set_while_off(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *t = first(m, QG_TQC_ACTIVATED), *w = first(m, QG_TQC_BAKED);
    assert_ok(ctx, qg_model_set_state(m, t, QG_TQC_DEACTIVATED));
    check_doubled(ctx, m, t);
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_DEQUANTIZED));
    check_doubled(ctx, m, w);
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_BAKED));
    assert_ok(ctx, qg_model_set_state(m, t, QG_TQC_ACTIVATED));
    assert_checked(ctx, m);
    qg_model_close(m);
}

static void a_scheme_is_set(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *w = first(m, QG_TQC_BAKED);
    qg_scheme s = record(w).scheme;
    s.bits = 4;
    s.qmin = -8;
    s.qmax = 7;
    assert_ok(ctx, qg_model_set_scheme(m, w, &s));
    assert_int_equal(record(w).state, QG_TQC_BAKED);
    assert_int_equal(record(w).scheme.bits, 4);
    char *before = all_text(ctx, m);
    s.qmin = -9;
    assert_fails(ctx, qg_model_set_scheme(m, w, &s), QG_ECONFIG, "range");
    s = record(w).scheme;
    s.policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC;
    s.axis = -1;
    assert_fails(ctx, qg_model_set_scheme(m, w, &s), QG_ESTATE, "tqc-lengths");
    assert_string_equal(all_text(ctx, m), before);
    /* recalibrated by hand: a state without parameters, and then others */
    const float one = 0.01F;
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_ACTIVATED));
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_INITIAL));
    assert_ok(ctx, qg_model_set_scheme(m, w, &s));
    assert_ok(ctx, qg_model_set_param(m, w, 1, &one, NULL));
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_ACTIVATED));
    assert_ok(ctx, qg_model_set_state(m, w, QG_TQC_BAKED));
    assert_checked(ctx, m);
    qg_model_close(m);
}

/* Refused, and nothing has changed. */
static void refusals_leave_no_trace(void **state)
{
    qg_ctx *ctx = *state;
    static const float bad[] = { 0, -1, NAN, INFINITY };
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_model *other = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *t = first(m, QG_TQC_ACTIVATED), *silent = first(m, QG_TQC_OVERLAPPED);
    const float one[] = { 1, 1 };
    const int32_t offset[] = { 3 };
    char *before = all_text(ctx, m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(ctx, qg_model_set_param(m, t, 1, &bad[i], NULL), QG_ENUMERIC,
                     "scale[0]");
    assert_fails(ctx, qg_model_set_param(m, t, 0, one, NULL), QG_ESTATE, "0 scales");
    assert_fails(ctx, qg_model_set_param(m, t, 2, one, NULL), QG_ESTATE, "tqc-lengths");
    assert_fails(ctx, qg_model_set_param(m, t, 1, one, offset), QG_ESTATE,
                 "tqc-offsets");
    assert_fails(ctx, qg_model_set_param(m, silent, 1, one, NULL), QG_ESTATE,
                 "in another's group");
    assert_fails(ctx, qg_model_set_state(m, silent, QG_TQC_BAKED), QG_ESTATE,
                 "not a legal move");
    assert_fails(ctx, qg_model_set_state(m, t, (qg_tqc_state)99), QG_ESTATE, "99");
    assert_fails(ctx, qg_model_set_visibility(m, t, (qg_visibility)9), QG_ESTATE, "9");
    assert_fails(ctx, qg_model_set_observer(m, t, "percentil"), QG_ECONFIG,
                 "percentile");
    assert_fails(ctx, qg_model_join(m, t, t), QG_ESTATE, "itself");
    assert_fails(ctx, qg_model_set_state(other, t, QG_TQC_DEACTIVATED), QG_ESTATE,
                 "to another model");
    assert_fails(ctx, qg_model_join(m, t, first(other, QG_TQC_ACTIVATED)), QG_ESTATE,
                 "to another model");
    qg_tqc *weight = first(m, QG_TQC_BAKED);
    assert_fails(ctx, qg_model_lend(m, weight, t), QG_ESTATE, "tqc-lengths");
    assert_fails(ctx, qg_model_set_param(m, NULL, 1, one, NULL), QG_ESTATE,
                 "set param: no endpoint");
    assert_fails(ctx, qg_model_set_param(m, t, 1, NULL, NULL), QG_ESTATE, "no scales");
    assert_fails(ctx, qg_model_set_scheme(m, t, NULL), QG_ESTATE, "no scheme");
    assert_fails(ctx, qg_model_set_observer(m, t, NULL), QG_ESTATE, "no observer");
    assert_fails(ctx, qg_model_lend(m, t, NULL), QG_ESTATE, "no endpoint");
    assert_string_equal(all_text(ctx, m), before);
    qg_model_close(other);
    qg_model_close(m);
    m = open_model(ctx, MODEL);
    assert_fails(ctx, qg_model_set_state(m, t, QG_TQC_FP32), QG_ESTATE,
                 "not quantized");
    qg_model_close(m);
}

static void groups_are_made_and_left(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    size_t groups = qg_model_group_count(m);
    qg_tqc *a = first(m, QG_TQC_ACTIVATED), *b = NULL;
    for (size_t i = record(a).id + 1; !b && i < qg_model_tqc_count(m); i++) {
        qg_tqc *t = qg_model_tqc(m, i);
        if (record(t).state == QG_TQC_ACTIVATED && !qg_tqc_member(t, 1))
            b = t;
    }
    assert_non_null(b);
    assert_ok(ctx, qg_model_join(m, b, a));
    assert_checked(ctx, m);
    assert_int_equal(record(b).state, QG_TQC_OVERLAPPED);
    assert_ptr_equal(record(b).dominator, record(a).dominator);
    assert_ok(ctx, qg_model_detach(m, b));
    assert_int_equal(record(b).state, QG_TQC_INITIAL);
    assert_ptr_equal(record(b).dominator, b);
    assert_ok(ctx, qg_model_lend(m, b, a));
    assert_int_equal(record(b).state, QG_TQC_PASSIVE);
    assert_memory_equal(record(b).scale, record(a).scale, sizeof(float));
    assert_checked(ctx, m);
    assert_cmp_int(qg_model_group_count(m), >=, groups);
    qg_model *again = reopened(ctx, m);
    assert_int_equal(record(qg_model_find_tqc(again, record(b).name)).state,
                     QG_TQC_PASSIVE);
    qg_model_close(again);
    qg_model_close(m);
}

/* One random call. */
static qg_status call(qg_model *m, qg_tqc *t, qg_tqc *other, qg_rng *rng)
{
    const float scale[] = { 0.25F, 0.5F, 1, 2, 4, 8, 16, 32,
                            0.25F, 0.5F, 1, 2, 4, 8, 16, 32 };
    qg_scheme s = record(t).scheme;
    switch (qg_rng_below(rng, 8)) {
    case 0:
        return qg_model_set_param(m, t, record(t).n_param % 17, scale, NULL);
    case 1:
        s.bits = (uint8_t)(2 + qg_rng_below(rng, 8));
        return qg_model_set_scheme(m, t, &s);
    case 2:
        return qg_model_set_observer(m, t, "minmax");
    case 3:
        return qg_model_join(m, t, other);
    case 4:
        return qg_model_lend(m, t, other);
    case 5:
        return qg_model_detach(m, t);
    default:
        return qg_model_set_state(m, t, (qg_tqc_state)qg_rng_below(rng, QG_NTQC_STATE));
    }
}

/* Scales of one channel each are none for a tensor, nor the other way round. */
static void a_loan_must_fit_the_borrower(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = quantized_model(ctx, MODEL, "trt-int8");
    qg_tqc *x = first(m, QG_TQC_ACTIVATED), *w = first(m, QG_TQC_BAKED);
    assert_cmp_int(record(w).n_param, >, 1);
    char *before = all_text(ctx, m);
    assert_fails(ctx, qg_model_lend(m, x, w), QG_ESTATE, "scales, expected 1");
    assert_fails(ctx, qg_model_lend(m, w, x), QG_ESTATE, "1 scales, expected 16");
    assert_string_equal(before, all_text(ctx, m));
    qg_model_close(m);
}

static void assert_runs(qg_ctx *ctx, qg_model *m)
{
    float x[64] = { 1 };
    qg_session *s;
    qg_tensor in;
    qg_tensor_init(&in, QG_F32, 4, (const int64_t[]){ 1, 1, 8, 8 });
    in.f32 = x;
    assert_ok(ctx, qg_session_new(m, NULL, &s));
    assert_ok(ctx, qg_session_run(s, &in, 1, NULL, 0));
    qg_session_free(s);
}

/* Any sequence of calls: what is refused changes nothing, what is done leaves records
 * that the verifier accepts, that run, and that a snapshot can hold. */
static void any_calls_keep_the_records_right(void **state)
{
    qg_ctx *ctx = *state;
    qg_rng rng = { 7 };
    for (size_t b = 0; b < sizeof BACKENDS / sizeof *BACKENDS; b++) {
        size_t done = 0, n = 150;
        qg_model *m = quantized_model(ctx, MODEL, BACKENDS[b]);
        char *before = all_text(ctx, m);
        for (size_t i = 0; i < n; i++) {
            uint64_t count = qg_model_tqc_count(m);
            qg_tqc *t = qg_model_tqc(m, (size_t)qg_rng_below(&rng, count));
            qg_tqc *other = qg_model_tqc(m, (size_t)qg_rng_below(&rng, count));
            qg_status s = call(m, t, other, &rng);
            char *after = all_text(ctx, m);
            assert_checked(ctx, m);
            if (s != QG_OK)
                assert_string_equal(before, after);
            done += s == QG_OK;
            before = after;
        }
        assert_cmp_int(done, >, 20);
        assert_cmp_int(n - done, >, 20);
        assert_runs(ctx, m);
        qg_model *again = reopened(ctx, m);
        for (size_t i = 0; i < qg_model_tqc_count(m); i++)
            assert_int_equal(record(qg_model_tqc(m, i)).state,
                             record(qg_model_tqc(again, i)).state);
        qg_model_close(again);
        qg_model_close(m);
    }
}

QG_TEST_MAIN(WITH_LIBRARY(scales_are_set_and_saved),
             WITH_LIBRARY(derived_scales_follow),
             WITH_LIBRARY(the_simulation_uses_the_new_scale),
             WITH_LIBRARY(changes_are_by_the_host),
             WITH_LIBRARY(a_scale_is_set_while_off), WITH_LIBRARY(a_scheme_is_set),
             WITH_LIBRARY(refusals_leave_no_trace),
             WITH_LIBRARY(groups_are_made_and_left),
             WITH_LIBRARY(a_loan_must_fit_the_borrower),
             WITH_LIBRARY(any_calls_keep_the_records_right))

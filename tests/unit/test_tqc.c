/* TQCs: legality table, the four ways to share, journal.  A1 .. A10 are those of
 * docs/evidence/ppq-behaviour.md#conformance-cases (A1, the policies, is in
 * test_policy.c). */
#include "tests/support/test.h"

#include <math.h>

#include "engine/quant/quirk.h"
#include "tests/support/endpoints.h"

enum { A, B, C, D, E };

static void expect_journal(const bench *b, size_t k, const char *field,
                           const char *before, const char *after)
{
    assert_cmp_int(k, <, b->q->journal.n);
    const qg_journal_entry *e = &b->q->journal.at[k];
    assert_int_equal(e->seq, k);
    assert_string_equal(e->field, field);
    assert_string_equal(e->old_value, before);
    assert_string_equal(e->new_value, after);
    assert_string_equal(e->by, "test");
}

/* A2: docs/evidence/ppq-behaviour.md#states, one row per state: rounds, exported. */
static void predicates_follow_the_table(void **state)
{
    (void)state;
    static const bool rounds[QG_NTQC_STATE] = {
        [QG_TQC_ACTIVATED] = true, [QG_TQC_PASSIVE] = true
    };
    bench b;
    bench_open(&b, 1, 0);
    bench_activate(&b, b.t[A], 0.5f);
    for (int s = 0; s < QG_NTQC_STATE; s++) {
        b.t[A]->state = (qg_tqc_state)s;
        assert_int_equal(qg_tqc_rounds(b.t[A]), rounds[s]);
        assert_int_equal(qg_tqc_state_named(qg_tqc_state_word((qg_tqc_state)s)), s);
    }
    assert_int_equal(qg_tqc_state_named("slave"), -1);
    bench_close(&b);
}

/* DESIGN 8, row by row: "from: to to to". */
static void legal_moves_are_those_of_the_design(void **state)
{
    (void)state;
    static const char *const row[QG_NTQC_STATE] = {
        [QG_TQC_INITIAL] = "activated overlapped passive-init passive fp32 soi "
                           "deactivated dequantized",
        [QG_TQC_ACTIVATED] = "initial baked overlapped passive fp32 deactivated "
                             "dequantized",
        [QG_TQC_BAKED] = "activated dequantized",
        [QG_TQC_OVERLAPPED] = "passive passive-init initial deactivated dequantized",
        [QG_TQC_PASSIVE_INIT] = "passive overlapped fp32 deactivated dequantized",
        [QG_TQC_PASSIVE] = "passive-baked passive-init overlapped deactivated "
                           "dequantized",
        [QG_TQC_PASSIVE_BAKED] = "passive dequantized",
        [QG_TQC_FP32] = "initial passive-init",
        [QG_TQC_SOI] = "fp32",
        [QG_TQC_DEACTIVATED] = "baked", /* the saved one */
        [QG_TQC_DEQUANTIZED] = "baked",
    };
    for (int from = 0; from < QG_NTQC_STATE; from++) {
        for (int to = 0; to < QG_NTQC_STATE; to++) {
            char want[32], list[160];
            (void)snprintf(want, sizeof want, " %s ",
                           qg_tqc_state_word((qg_tqc_state)to));
            (void)snprintf(list, sizeof list, " %s ", row[from]);
            assert_int_equal(
                qg_tqc_may_move((qg_tqc_state)from, QG_TQC_BAKED, (qg_tqc_state)to),
                strstr(list, want) != NULL);
        }
    }
}

static void illegal_move_changes_nothing(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 1);
    bench_activate(&b, b.t[A], 1.0f);
    assert_ok(b.ctx, qg_tqc_set_state(b.q, b.t[A], QG_TQC_BAKED));
    size_t seen = b.q->journal.n;
    assert_fails(b.ctx, qg_tqc_set_state(b.q, b.t[A], QG_TQC_PASSIVE), QG_ESTATE,
                 "test: n.in0: baked -> passive: not a legal move");
    assert_fails(b.ctx, qg_tqc_set_state(b.q, b.t[B], QG_TQC_ACTIVATED), QG_ESTATE,
                 "there is no scale yet");
    assert_fails(b.ctx, qg_tqc_set_state(b.q, b.t[B], QG_TQC_OVERLAPPED), QG_ESTATE,
                 "expected a dominator elsewhere");
    bench_activate(&b, b.t[B], 1.0f);
    seen += 2;
    assert_fails(b.ctx, qg_tqc_set_state(b.q, b.t[B], QG_TQC_BAKED), QG_ESTATE,
                 "expected a constant");
    assert_int_equal(b.t[A]->state, QG_TQC_BAKED);
    assert_int_equal(b.t[B]->state, QG_TQC_ACTIVATED);
    assert_int_equal(b.q->journal.n, seen);
    bench_close(&b);
}

/* A3, A4 */
static void join_moves_the_group(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 5, 0);
    bench_activate(&b, b.t[C], 0.25f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[B]));
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[B], b.t[C]));
    assert_ptr_equal(qg_tqc_root(b.t[A]), b.t[C]);
    assert_int_equal(b.t[A]->state, QG_TQC_OVERLAPPED);
    assert_int_equal(b.t[B]->state, QG_TQC_OVERLAPPED);
    assert_int_equal(b.t[C]->state, QG_TQC_ACTIVATED);
    assert_cmp_f64(qg_tqc_param(b.t[A]).scale[0], ==, 0.25f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[D])); /* A4: the old root moves */
    assert_ptr_equal(qg_tqc_root(b.t[C]), b.t[D]);
    assert_int_equal(b.t[C]->state, QG_TQC_OVERLAPPED);
    assert_int_equal(qg_tqc_param(b.t[A]).n, 0);
    bench_close(&b);
}

/* A5, A6, A7 */
static void join_refuses_circles(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 5, 0);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[B]));
    size_t seen = b.q->journal.n;
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[B], b.t[A]), QG_ESTATE,
                 "test: join n.in1 to n.in0: it would dominate itself");
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[A]), QG_ESTATE, "itself");
    assert_fails(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[A]), QG_ESTATE, "itself");
    assert_fails(b.ctx, qg_tqc_lend(b.q, b.t[B], b.t[A]), QG_ESTATE, "itself");
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[B])); /* A7: a no-op */
    assert_int_equal(b.q->journal.n, seen);
    assert_ok(b.ctx, qg_tqc_set_state(b.q, b.t[E], QG_TQC_FP32));
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[C], b.t[E]), QG_ESTATE, "never quantized");
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[E], b.t[C]), QG_ESTATE,
                 "join n.in4: fp32 -> overlapped is not a legal move");
    assert_ptr_equal(qg_tqc_root(b.t[E]), b.t[E]);
    bench_close(&b);
}

/* Shapes and indices never get a scale that others could use. */
static void exact_data_leads_no_group(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 3, 0);
    assert_ok(b.ctx, qg_tqc_set_state(b.q, b.t[C], QG_TQC_SOI));
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[C]), QG_ESTATE, "never quantized");
    assert_fails(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[C]), QG_ESTATE, "never quantized");
    assert_fails(b.ctx, qg_tqc_derive(b.q, b.t[A], QG_DERIVE_BIAS, b.t[B], b.t[C]),
                 QG_ESTATE, "never quantized");
    assert_ptr_equal(qg_tqc_root(b.t[A]), b.t[A]);
    assert_int_equal(b.t[A]->state, QG_TQC_INITIAL);
    bench_close(&b);
}

/* A scale of before must not be used while the new one is not known. */
static void waiting_drops_the_old_scale(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 3, 0);
    bench_activate(&b, b.t[A], 0.5f);
    bench_activate(&b, b.t[B], 0.25f);
    assert_ok(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[A], b.t[B]));
    assert_int_equal(b.t[C]->state, QG_TQC_PASSIVE);
    assert_int_equal(qg_tqc_param(b.t[C]).n, 1);
    assert_cmp_f64(qg_tqc_param(b.t[C]).scale[0], ==, 0.125f);
    assert_ok(b.ctx, qg_tqc_set_state(b.q, b.t[C], QG_TQC_PASSIVE_INIT));
    assert_int_equal(qg_tqc_param(b.t[C]).n, 0);
    assert_null(qg_tqc_param(b.t[C]).scale);
    assert_null(qg_tqc_param(b.t[C]).offset);
    bench_close(&b);
}

/* A8, and the order in which a lender may come to its scale. */
static void lend_waits_for_the_lender(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 3, 0);
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[B]));
    assert_int_equal(b.t[A]->state, QG_TQC_PASSIVE_INIT);
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[B]));
    assert_int_equal(b.t[A]->state, QG_TQC_PASSIVE_INIT);
    bench_activate(&b, b.t[B], 2.0f);
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[B]));
    assert_int_equal(b.t[A]->state, QG_TQC_PASSIVE);
    bench_activate(&b, b.t[C], 7.0f);
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[C], b.t[A]));
    assert_int_equal(b.t[C]->state, QG_TQC_PASSIVE);
    assert_cmp_f64(qg_tqc_param(b.t[C]).scale[0], ==, 2.0f);
    bench_close(&b);
}

/* A9 describes PPQ, where one endpoint leaves its group (D23); ours moves all. */
static void lend_moves_groups_and_the_quirk_splits_them(void **state)
{
    (void)state;
    for (int quirk = 0; quirk < 2; quirk++) {
        bench b;
        bench_open(&b, 4, 0);
        bench_activate(&b, b.t[C], 1.0f);
        bench_activate(&b, b.t[D], 3.0f);
        b.q->quirks = quirk ? QG_QUIRK(PPQ_SPLIT_GROUPS) : 0;
        assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[C]));
        assert_ok(b.ctx, qg_tqc_join(b.q, b.t[B], b.t[C]));
        assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[A], b.t[D]));
        assert_ptr_equal(qg_tqc_root(b.t[A]), b.t[D]);
        assert_ptr_equal(qg_tqc_root(b.t[B]), quirk ? b.t[C] : b.t[D]);
        assert_int_equal(b.t[A]->state, quirk ? QG_TQC_PASSIVE : QG_TQC_OVERLAPPED);
        assert_int_equal(b.t[C]->state, quirk ? QG_TQC_ACTIVATED : QG_TQC_PASSIVE);
        bench_close(&b);
    }
}

/* Under the quirk a follower stays with the endpoint that it was joined to, also when
 * another member of the group has left in between. */
static void followers_stay_with_whom_they_joined(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 5, 0);
    b.q->quirks = QG_QUIRK(PPQ_SPLIT_GROUPS);
    for (int i = B; i <= E; i++)
        if (i != C)
            bench_activate(&b, b.t[i], 1.0f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[B]));
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[C], b.t[B]));
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[B], b.t[D]));
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[C], b.t[E]));
    assert_ok(b.ctx, qg_tqc_lend(b.q, b.t[B], b.t[E]));
    assert_ptr_equal(qg_tqc_root(b.t[A]), b.t[E]);
    assert_ptr_equal(b.t[D]->next, b.t[D]); /* left alone */
    bench_close(&b);
}

/* A10 */
static void scales_are_written_by_their_owner_only(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 3, 1);
    float s = 1, bad[] = { 1, NAN, 0, -1, INFINITY };
    bench_activate(&b, b.t[A], 1.0f);
    assert_ok(b.ctx, qg_tqc_set_state(b.q, b.t[A], QG_TQC_BAKED));
    assert_fails(b.ctx, qg_tqc_set_param(b.q, b.t[A], 1, &s, NULL), QG_ESTATE,
                 "scale of baked endpoint is not its own to change");
    assert_fails(b.ctx, qg_tqc_set_scheme(b.q, b.t[A], &int8_scheme), QG_ESTATE,
                 "expected unbake first");
    bench_activate(&b, b.t[B], 1.0f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[C], b.t[B]));
    assert_fails(b.ctx, qg_tqc_set_param(b.q, b.t[C], 1, &s, NULL), QG_ESTATE,
                 "scale of overlapped endpoint in another's group");
    for (size_t i = 1; i < 5; i++)
        assert_fails(b.ctx, qg_tqc_set_param(b.q, b.t[B], 1, &bad[i], NULL),
                     QG_ENUMERIC, "expected a finite number above 0");
    assert_fails(b.ctx, qg_tqc_set_param(b.q, b.t[B], 2, bad, NULL), QG_ENUMERIC,
                 "scale[1] is nan");
    assert_fails(b.ctx, qg_tqc_set_param(b.q, b.t[B], 0, bad, NULL), QG_ESTATE,
                 "expected at least one");
    assert_cmp_f64(b.t[B]->scale[0], ==, 1.0f);
    bench_close(&b);
}

/* A21: sx = .02, sw = [.01, .02]. */
static void bias_scale_is_the_product(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 4, 6);
    const float sw[] = { 0.01f, 0.02f };
    assert_ok(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[A], b.t[B]));
    assert_int_equal(b.t[C]->state, QG_TQC_PASSIVE_INIT);
    bench_activate(&b, b.t[D], 0.02f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[D]));
    assert_ok(b.ctx, qg_tqc_set_param(b.q, b.t[B], 2, sw, NULL));
    assert_ok(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[A], b.t[B]));
    assert_int_equal(b.t[C]->state, QG_TQC_PASSIVE);
    assert_int_equal(b.t[C]->nparam, 2);
    assert_cmp_f64(b.t[C]->scale[0], ==, 0.02f * 0.01f);
    assert_cmp_f64(b.t[C]->scale[1], ==, 0.02f * 0.02f);
    assert_fails(b.ctx, qg_tqc_join(b.q, b.t[D], b.t[C]), QG_ESTATE, "is derived");
    assert_fails(b.ctx, qg_tqc_derive(b.q, b.t[D], QG_DERIVE_BIAS, b.t[B], b.t[B]),
                 QG_ESTATE, "expected it alone");
    assert_fails(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[C], b.t[B]),
                 QG_ESTATE, "would derive from itself");
    bench_close(&b);
}

/* Of 2 and 3 scales, on either side, there is no product. */
static void scales_of_sources_must_fit(void **state)
{
    (void)state;
    const float scale[] = { 0.5f, 0.25f, 0.125f };
    for (size_t n = 2; n <= 3; n++) {
        bench b;
        char text[48];
        bench_open(&b, 3, 6);
        (void)snprintf(text, sizeof text, "sources have %zu and %zu scales, expected",
                       n, 5 - n);
        assert_ok(b.ctx, qg_tqc_set_param(b.q, b.t[A], n, scale, NULL));
        assert_ok(b.ctx, qg_tqc_set_param(b.q, b.t[B], 5 - n, scale, NULL));
        assert_fails(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[A], b.t[B]),
                     QG_ESTATE, text);
        assert_ok(b.ctx, qg_tqc_set_param(b.q, b.t[B], n, scale, NULL));
        assert_ok(b.ctx, qg_tqc_derive(b.q, b.t[C], QG_DERIVE_BIAS, b.t[A], b.t[B]));
        assert_cmp_int(b.t[C]->nparam, ==, n);
        assert_cmp_f64(b.t[C]->scale[1], ==, 0.0625);
        bench_close(&b);
    }
}

/* A22, as far as states go. */
static void switching_off_and_on_returns(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 0);
    bench_activate(&b, b.t[A], 0.5f);
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[B], b.t[A]));
    for (int keep = 0; keep < 2; keep++) {
        for (int k = 0; k < 2; k++) {
            qg_tqc_state was = b.t[k]->state;
            assert_ok(b.ctx, qg_tqc_switch_off(b.q, b.t[k], keep));
            assert_int_equal(b.t[k]->state,
                             keep ? QG_TQC_DEACTIVATED : QG_TQC_DEQUANTIZED);
            assert_false(qg_tqc_rounds(b.t[k]));
            assert_fails(b.ctx, qg_tqc_set_state(b.q, b.t[k], QG_TQC_FP32), QG_ESTATE,
                         "not a legal move");
            assert_ok(b.ctx, qg_tqc_switch_on(b.q, b.t[k]));
            assert_int_equal(b.t[k]->state, was);
            assert_cmp_f64(qg_tqc_param(b.t[k]).scale[0], ==, 0.5f);
        }
    }
    assert_fails(b.ctx, qg_tqc_switch_on(b.q, b.t[A]), QG_ESTATE, "not disabled");
    bench_close(&b);
}

static void every_change_is_in_the_journal(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, 2, 0);
    qg_scheme s = int8_scheme;
    s.bits = 4;
    s.qmin = -8;
    s.qmax = 7;
    s.rounding = QG_ROUND_HALF_AWAY;
    assert_ok(b.ctx, qg_tqc_set_scheme(b.q, b.t[A], &s));
    assert_ok(b.ctx, qg_tqc_set_scheme(b.q, b.t[A], &s)); /* no change, no record */
    expect_journal(&b, 0, "bits", "8", "4");
    expect_journal(&b, 1, "range", "[-128, 127]", "[-8, 7]");
    expect_journal(&b, 2, "rounding", "half-even", "half-away-from-zero");
    qg_observer_setting o = { .name = "percentile",
                              .value[QG_PARAM_PERCENTILE] = 0.999 };
    assert_ok(b.ctx, qg_tqc_set_observer(b.q, b.t[A], &o));
    expect_journal(&b, 3, "observer", "none", "percentile");
    expect_journal(&b, 4, "percentile", "0", "0.999");
    const float five[] = { 0.5f, 1, 2, 4, 8 };
    assert_ok(b.ctx, qg_tqc_set_param(b.q, b.t[A], 5, five, NULL));
    expect_journal(&b, 5, "scale", "none", "0.5 1.0 2.0 ... (5)");
    assert_ok(b.ctx, qg_tqc_set_visibility(b.q, b.t[A], QG_EXPORT_INTERNAL));
    expect_journal(&b, 6, "visibility", "when-active", "internal");
    assert_ok(b.ctx, qg_tqc_join(b.q, b.t[A], b.t[B]));
    expect_journal(&b, 7, "dominator", "self", "n.in1");
    expect_journal(&b, 8, "state", "INITIAL", "OVERLAPPED");
    assert_ok(b.ctx, qg_tqc_detach(b.q, b.t[A]));
    expect_journal(&b, 9, "dominator", "n.in1", "self");
    expect_journal(&b, 10, "state", "OVERLAPPED", "INITIAL");
    assert_int_equal(b.q->journal.n, 11);
    bench_close(&b);
}

QG_TEST_MAIN(cmocka_unit_test(predicates_follow_the_table),
             cmocka_unit_test(legal_moves_are_those_of_the_design),
             cmocka_unit_test(illegal_move_changes_nothing),
             cmocka_unit_test(join_moves_the_group),
             cmocka_unit_test(join_refuses_circles),
             cmocka_unit_test(exact_data_leads_no_group),
             cmocka_unit_test(waiting_drops_the_old_scale),
             cmocka_unit_test(lend_waits_for_the_lender),
             cmocka_unit_test(lend_moves_groups_and_the_quirk_splits_them),
             cmocka_unit_test(followers_stay_with_whom_they_joined),
             cmocka_unit_test(scales_are_written_by_their_owner_only),
             cmocka_unit_test(bias_scale_is_the_product),
             cmocka_unit_test(scales_of_sources_must_fit),
             cmocka_unit_test(switching_off_and_on_returns),
             cmocka_unit_test(every_change_is_in_the_journal))

/* Random join, lend, detach against a naive model: a dominator index per endpoint,
 * found by walking, groups by comparing.  Rings, roots and states must agree after each
 * step. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/quant/quirk.h"
#include "engine/quant/tqc_check.h"
#include "tests/support/endpoints.h"

enum { N = 24, STEPS = 120, ROUNDS = 60 };

typedef struct model {
    int group[N];  /* label: index of the root */
    int state[N];  /* qg_tqc_state */
    bool scale[N]; /* of roots */
} model;

static int root_of(const model *m, int i) { return m->group[i]; }

static void relabel(model *m, int from, int to)
{
    for (int i = 0; i < N; i++)
        if (m->group[i] == from)
            m->group[i] = to;
}

static bool may(const model *m, int i, qg_tqc_state to)
{
    return m->state[i] == (int)to ||
           qg_tqc_may_move((qg_tqc_state)m->state[i], QG_TQC_INITIAL, to);
}

static bool model_join(model *m, int t, int d)
{
    int r = root_of(m, t), lead = root_of(m, d);
    if (t == d || t == lead)
        return false;
    if (r == lead)
        return true;
    if (!may(m, r, QG_TQC_OVERLAPPED) || !may(m, t, QG_TQC_OVERLAPPED))
        return false;
    m->state[r] = m->state[t] = QG_TQC_OVERLAPPED;
    m->scale[r] = false;
    relabel(m, r, lead);
    return true;
}

static bool model_lend(model *m, int t, int d)
{
    int r = root_of(m, t), lead = root_of(m, d);
    if (t == d || t == lead)
        return false;
    if (r == lead) {
        if (m->state[t] == QG_TQC_PASSIVE_INIT && m->scale[lead])
            m->state[t] = QG_TQC_PASSIVE;
        return true;
    }
    qg_tqc_state to = m->scale[lead] ? QG_TQC_PASSIVE : QG_TQC_PASSIVE_INIT;
    if (!may(m, r, to))
        return false;
    m->state[r] = to;
    m->scale[r] = false;
    relabel(m, r, lead);
    return true;
}

static bool model_detach(model *m, int t)
{
    if (root_of(m, t) == t)
        return true;
    m->group[t] = t;
    m->state[t] = QG_TQC_INITIAL;
    return true;
}

static size_t ring_length(const qg_tqc *t)
{
    size_t n = 1;
    for (const qg_tqc *u = t->next; u != t; u = u->next)
        assert_cmp_int(++n, <=, N);
    return n;
}

static void expect_equal(const bench *b, const model *m)
{
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(qg_tqc_root(b->t[i]), b->t[root_of(m, i)]);
        assert_int_equal(b->t[i]->state, m->state[i]);
        assert_int_equal(qg_tqc_param(b->t[i]).n, m->scale[root_of(m, i)]);
        size_t members = 0;
        for (int k = 0; k < N; k++)
            members += m->group[k] == m->group[i];
        assert_int_equal(ring_length(b->t[i]), members);
    }
}

static bool step(bench *b, model *m, qg_rng *rng, qg_status *got)
{
    int t = (int)qg_rng_below(rng, N), d = (int)qg_rng_below(rng, N);
    switch (qg_rng_below(rng, 5)) {
    case 0:
    case 1:
        *got = qg_tqc_join(b->q, b->t[t], b->t[d]);
        return model_join(m, t, d);
    case 2:
        *got = qg_tqc_lend(b->q, b->t[t], b->t[d]);
        return model_lend(m, t, d);
    case 3:
        *got = qg_tqc_detach(b->q, b->t[t]);
        return model_detach(m, t);
    default:
        break;
    }
    *got = QG_OK;
    if (b->t[t]->state == QG_TQC_INITIAL) {
        bench_activate(b, b->t[t], 1.0f);
        m->state[t] = QG_TQC_ACTIVATED;
        m->scale[t] = true;
    }
    return true;
}

static void sharing_agrees_with_a_naive_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        qg_rng rng = { seed };
        bench b;
        bench_open(&b, N, 0);
        model m = { 0 };
        for (int i = 0; i < N; i++)
            m.group[i] = i;
        for (int k = 0; k < STEPS; k++) {
            size_t seen = b.q->journal.n;
            qg_status got;
            bool want = step(&b, &m, &rng, &got);
            if ((got == QG_OK) != want)
                fail_msg("seed %d step %d: %s", (int)seed, k, qg_ctx_message(b.ctx));
            if (got != QG_OK)
                assert_int_equal(b.q->journal.n, seen); /* untouched */
            if (k % 7 == 0)
                qg_quant_settle(b.q);
            expect_equal(&b, &m);
        }
        bench_close(&b);
    }
}

/* The same steps with PPQ's way of moving single endpoints: no model, but the
 * verifier's rules about trees and rings must hold after each. */
static void split_groups_keep_the_verifier_content(void **state)
{
    (void)state;
    const uint32_t which = qg_check_bit(qg_tqc_rules, qg_n_tqc_rules, "tqc-acyclic") |
                           qg_check_bit(qg_tqc_rules, qg_n_tqc_rules, "tqc-rings");
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        qg_rng rng = { seed };
        bench b;
        bench_open(&b, N, 0);
        b.q->quirks = QG_QUIRK(PPQ_SPLIT_GROUPS);
        for (int k = 0; k < STEPS; k++) {
            model ignored = { 0 };
            qg_status got;
            (void)step(&b, &ignored, &rng, &got);
            if (qg_check_tqcs(b.ctx, b.q, which) != QG_OK)
                fail_msg("seed %d step %d: %s", (int)seed, k, qg_ctx_message(b.ctx));
            for (int i = 0; i < N; i++)
                (void)ring_length(b.t[i]);
        }
        bench_close(&b);
    }
}

/* 100,000 endpoints joined in the worst order; quadratic code would take minutes. */
static void long_chains_are_linear(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    bench b;
    bench_open(&b, LONG, 0);
    for (uint32_t i = 0; i + 1 < LONG; i++)
        assert_ok(b.ctx, qg_tqc_join(b.q, b.t[i], b.t[i + 1]));
    qg_quant_settle(b.q);
    for (uint32_t i = 0; i < LONG; i++)
        assert_ptr_equal(b.t[i]->up, b.t[LONG - 1]);
    bench_close(&b);
}

QG_TEST_MAIN(cmocka_unit_test(sharing_agrees_with_a_naive_model),
             cmocka_unit_test(split_groups_keep_the_verifier_content),
             cmocka_unit_test(long_chains_are_linear))

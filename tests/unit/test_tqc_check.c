/* Each rule of quant/tqc_check.h, broken once. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/quant/tqc_check.h"
#include "engine/quant/tqc_text.h"
#include "tests/support/endpoints.h"

enum { A, B, C, D };

static void healthy(bench *b)
{
    bench_open(b, 4, 1);
    b->node.platform = QG_PLATFORM_QUANTIZED;
    bench_activate(b, b->t[A], 0.5f);
    assert_ok(b->ctx, qg_tqc_set_state(b->q, b->t[A], QG_TQC_BAKED));
    bench_activate(b, b->t[B], 0.25f);
    assert_ok(b->ctx, qg_tqc_join(b->q, b->t[C], b->t[B]));
    assert_ok(b->ctx, qg_tqc_lend(b->q, b->t[D], b->t[B]));
    assert_ok(b->ctx, qg_check_tqcs(b->ctx, b->q, QG_CHECK_ALL));
}

static void id_moved(bench *b) { b->t[C]->id = 7; }
static void slot_forgotten(bench *b) { b->node.tin[C] = NULL; }
static void node_float(bench *b) { b->node.platform = QG_PLATFORM_FP32; }
static void circle(bench *b)
{
    b->t[B]->up = b->t[C];
    b->t[C]->up = b->t[B];
}
static void ring_cut(bench *b) /* C on its own, the others as they were */
{
    for (int i = B; i <= D; i++)
        if (b->t[i]->next == b->t[C])
            b->t[i]->next = b->t[C]->next;
    b->t[C]->next = b->t[C];
}
static void ring_strange(bench *b)
{
    b->t[A]->next = b->t[B]->next;
    b->t[B]->next = b->t[A];
}
static void silent_root(bench *b) { b->t[B]->state = QG_TQC_OVERLAPPED; }
static void float_leader(bench *b) { b->t[B]->state = QG_TQC_FP32; }
static void derived_leader(bench *b) { b->t[B]->derive = QG_DERIVE_BIAS; }
static void active_follower(bench *b) { b->t[C]->state = QG_TQC_ACTIVATED; }
static void no_scale(bench *b) { b->t[B]->nparam = 0; }
static void nan_scale(bench *b) { b->t[B]->scale[0] = NAN; }
static void shifted_symmetric(bench *b) { b->t[B]->offset[0] = 3; }
static void offset_outside(bench *b)
{
    b->t[B]->scheme.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
    b->t[B]->offset[0] = 128;
}
static void too_many_scales(bench *b)
{
    static float scale[2] = { 1, 1 };
    static int32_t offset[2];
    b->t[B]->nparam = 2;
    b->t[B]->scale = scale;
    b->t[B]->offset = offset;
}
static void baked_activation(bench *b) { b->t[B]->state = QG_TQC_BAKED; }
static void illegal_range(bench *b) { b->t[A]->scheme.qmax = 128; }

/* clang-format off */
static const struct {
    const char *rule, *message;
    void (*break_it)(bench *b);
} row[] = {
    { "tqc-linked", "n.in2: id 7 is not its index", id_moved },
    { "tqc-linked", "n.in2: its node refers to another TQC", slot_forgotten },
    { "tqc-linked", "n.in0: its node is not quantized", node_float },
    { "tqc-acyclic", "it dominates itself, expected a root", circle },
    { "tqc-rings", "n.in2: its ring lacks the root", ring_cut },
    { "tqc-rings", "it is in the ring of another group", ring_strange },
    { "tqc-overlapped", "n.in1: overlapped without a dominator", silent_root },
    { "tqc-leaders", "fp32, expected a dominator with a scale", float_leader },
    { "tqc-leaders", "its dominator is derived and activated", derived_leader },
    { "tqc-own-root", "n.in2: activated in another's group", active_follower },
    { "tqc-has-scale", "n.in1: activated without a scale", no_scale },
    { "tqc-has-scale", "n.in1: scale[0] is nan, expected finite", nan_scale },
    { "tqc-offsets", "n.in1: offset[0] is 3, expected 0: symmetric",
      shifted_symmetric },
    { "tqc-offsets", "n.in1: offset[0] is 128, expected within", offset_outside },
    { "tqc-lengths", "n.in1: 2 scales, expected 1 for its policy", too_many_scales },
    { "tqc-baked", "n.in1: baked, but its value changes", baked_activation },
    { "tqc-schemes", "range [-128, 128] does not fit 8 bits", illegal_range },
};
/* clang-format on */

static void every_rule_can_be_broken(void **state)
{
    (void)state;
    uint32_t broken = 0;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        bench b;
        healthy(&b);
        row[i].break_it(&b);
        uint32_t bit = qg_check_bit(qg_tqc_rules, qg_n_tqc_rules, row[i].rule);
        assert_true(bit);
        broken |= bit;
        assert_fails(b.ctx, qg_check_tqcs(b.ctx, b.q, bit), QG_ESTATE, row[i].message);
        assert_non_null(strstr(qg_ctx_message(b.ctx), row[i].rule));
        bench_close(&b);
    }
    assert_int_equal(broken, (UINT32_C(1) << qg_n_tqc_rules) - 1);
}

static void text_says_one_line_per_endpoint(void **state)
{
    (void)state;
    bench b;
    char *text;
    healthy(&b);
    b.t[B]->scheme.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
    b.t[B]->offset[0] = -4;
    assert_ok(b.ctx, qg_quant_text(b.q, QG_TQC_STATES, b.ctx->arena, &text));
    assert_string_equal(text,
                        "n.in0 baked\nn.in1 activated\nn.in2 overlapped -> n.in1\n"
                        "n.in3 passive -> n.in1\n");
    assert_ok(b.ctx, qg_quant_text(b.q, QG_TQC_BRIEF, b.ctx->arena, &text));
    assert_non_null(strstr(text, "n.in1 activated 0.25 offset -4\n"));
    assert_ok(b.ctx, qg_quant_text(b.q, QG_TQC_FULL, b.ctx->arena, &text));
    assert_non_null(strstr(text, "n.in0 baked 0.5 | 8 [-128, 127] half-even per-tensor "
                                 "linear symmetric | none | defaults\n"));
    bench_close(&b);
}

QG_TEST_MAIN(cmocka_unit_test(every_rule_can_be_broken),
             cmocka_unit_test(text_says_one_line_per_endpoint))

/* Endpoints before sharing rules joined them (analysis/parts.h): journals by hand, also
 * such as only a file can have. */
#include "engine/analysis/parts.h"
#include "tests/support/session.h"

enum { LOW, A, B, C, IN, N };

/* Outputs of a, b and c, and a Clip that reads c between constants. */
static const char network[] =
    "graph {\n x = input f32[4]\n low = const f32[] [0]\n a = Relu(x)\n b = Neg(x)\n"
    " c = Concat(a, b) axis=0\n y = Clip(c, low)\n output y\n}";

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_backend backend;
    qg_sharing rule[2];
    qg_quant *q;
    qg_tqc *t[N];
    qg_parts p;
} fixture;

static fixture f;

static qg_node *node(const char *output)
{
    const qg_value *v = qg_graph_value(f.m.graph, output);
    assert_non_null(v);
    return v->def;
}

static void add(int k, const char *output, bool is_output, uint32_t slot)
{
    const qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                          .bits = 8,
                          .axis = -1,
                          .qmin = -128,
                          .qmax = 127 };
    assert_ok(f.ctx, qg_quant_add(f.q, node(output), is_output, slot, &s, &f.t[k]));
    assert_int_equal(f.t[k]->id, k);
}

static int setup(void **state)
{
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    model_of_text(f.ctx, network, &f.m);
    assert_ok(f.ctx, qg_quant_new(f.m.graph, NULL, &f.q));
    f.rule[0].origin.id = "sums";
    f.rule[1].origin.id = "concat-inputs";
    f.backend.sharing.at = f.rule;
    f.backend.sharing.n = 2;
    f.q->backend = &f.backend;
    add(LOW, "y", false, 1);
    add(A, "a", true, 0);
    add(B, "b", true, 0);
    add(C, "c", true, 0);
    add(IN, "y", false, 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qg_graph_free(f.m.graph);
    qg_ctx_free(f.ctx);
    return 0;
}

static void calibrate(int k, float scale, int32_t offset)
{
    f.q->author = "calibrate";
    assert_ok(f.ctx, qg_tqc_set_param(f.q, f.t[k], 1, &scale, &offset));
    assert_ok(f.ctx, qg_tqc_set_state(f.q, f.t[k], QG_TQC_ACTIVATED));
}

/* b and c use the scale of a, by a sharing rule. */
static void share(void)
{
    calibrate(A, 0.5f, 1);
    calibrate(B, 0.25f, 2);
    calibrate(C, 0.125f, 3);
    f.q->author = "align/concat-inputs";
    assert_ok(f.ctx, qg_tqc_lend(f.q, f.t[B], f.t[A]));
    assert_ok(f.ctx, qg_tqc_lend(f.q, f.t[C], f.t[A]));
}

static void note(int k, const char *field, const char *value, const char *by)
{
    const qg_journal_entry e = { .tqc = (uint32_t)k,
                                 .field = field,
                                 .old_value = "none",
                                 .new_value = value,
                                 .by = by };
    assert_ok(f.ctx, qg_vec_push(f.ctx, f.q->arena, &f.q->journal, e));
}

static void read_journal(void)
{
    assert_ok(f.ctx, qg_parts_read(f.ctx, f.q, f.ctx->arena, &f.p));
}

static void rules_of_sharing(void **state)
{
    (void)state;
    assert_string_equal(qg_sharing_rule(&f.backend, "align/concat-inputs"),
                        "concat-inputs");
    assert_string_equal(qg_sharing_rule(&f.backend, "align/sums"), "sums");
    assert_string_equal(qg_sharing_rule(&f.backend, "a/b/sums"), "sums");
    assert_null(qg_sharing_rule(&f.backend, "align/other"));
    assert_null(qg_sharing_rule(&f.backend, "sums"));
    assert_null(qg_sharing_rule(&f.backend, "align/sums/x"));
}

static void parts_have_the_scales_of_calibration(void **state)
{
    static const float scale[] = { 0.5f, 0.25f, 0.125f };
    (void)state;
    share();
    read_journal();
    for (int k = A; k <= C; k++) {
        assert_int_equal(f.p.was[k].up, k);
        assert_int_equal(f.p.was[k].state, QG_TQC_ACTIVATED);
        assert_cmp_f64(f.p.was[k].scale, ==, scale[k - A]);
        assert_int_equal(f.p.was[k].offset, k);
        assert_int_equal(qg_part_of(&f.p, (uint32_t)k), k);
    }
    assert_int_equal(f.p.was[LOW].up, IN); /* a bound has the grid of input 0 */
    assert_int_equal(f.p.was[IN].up, IN);
    assert_int_equal(f.p.was[IN].state, QG_TQC_INITIAL);
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 3);
    assert_int_equal(qg_parts_count(&f.p, f.t[B]), 0);  /* no root */
    assert_int_equal(qg_parts_count(&f.p, f.t[IN]), 0); /* alone */
}

/* b follows a without any rule of sharing: only c is a part of its own. */
static void what_is_fused_is_one_part(void **state)
{
    qg_tqc *copy[N] = { 0 };
    (void)state;
    calibrate(A, 0.5f, 1);
    calibrate(C, 0.125f, 3);
    f.q->author = "fuse";
    assert_ok(f.ctx, qg_tqc_join(f.q, f.t[B], f.t[A]));
    f.q->author = "align/concat-inputs";
    assert_ok(f.ctx, qg_tqc_lend(f.q, f.t[C], f.t[A]));
    read_journal();
    assert_int_equal(qg_part_of(&f.p, B), A);
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 2);
    assert_ok(f.ctx, qg_parts_separate(f.ctx, &f.p, f.ctx->arena, f.t[A], copy));
    assert_ptr_equal(copy[A]->up, copy[A]);
    assert_ptr_equal(copy[B]->up, copy[A]);
    assert_ptr_equal(copy[C]->up, copy[C]);
    assert_int_equal(copy[A]->state, QG_TQC_ACTIVATED);
    assert_int_equal(copy[B]->state, QG_TQC_OVERLAPPED);
    assert_int_equal(copy[C]->state, QG_TQC_ACTIVATED);
    assert_cmp_f64(copy[A]->scale[0], ==, 0.5);
    assert_int_equal(copy[A]->offset[0], 1);
    assert_cmp_f64(copy[C]->scale[0], ==, 0.125);
    assert_int_equal(copy[C]->offset[0], 3);
    assert_int_equal(copy[C]->nparam, 1);
    assert_null(copy[LOW]);
    assert_null(copy[IN]);
    assert_int_equal(f.t[C]->state, QG_TQC_PASSIVE); /* the records stay */
}

/* What overlapped by sharing alone rounds again; a constant is rounded already. */
static void separate_parts_round_again(void **state)
{
    qg_tqc *copy[N] = { 0 };
    (void)state;
    calibrate(A, 0.5f, 1);
    calibrate(LOW, 0.25f, 2);
    calibrate(C, 0.125f, 3);
    f.q->author = "align/sums";
    assert_ok(f.ctx, qg_tqc_join(f.q, f.t[C], f.t[A]));
    assert_ok(f.ctx, qg_tqc_join(f.q, f.t[LOW], f.t[A]));
    read_journal();
    f.p.was[LOW].up = LOW;
    assert_ok(f.ctx, qg_parts_separate(f.ctx, &f.p, f.ctx->arena, f.t[A], copy));
    assert_int_equal(copy[C]->state, QG_TQC_ACTIVATED);
    assert_int_equal(copy[LOW]->state, QG_TQC_BAKED);
    assert_cmp_f64(copy[LOW]->scale[0], ==, 0.25);
}

/* Without a scale to return to, or with several, or out of the group: none. */
static void groups_that_cannot_be_separated(void **state)
{
    (void)state;
    share();
    read_journal();
    f.p.was[B].scale = 0;
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 0);
    f.p.was[B].scale = 0.25f;
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 3);
    f.p.was[B].up = IN; /* another group */
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 0);
    f.p.was[B].up = C;
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 2);
    f.p.was[C].up = B; /* in a circle */
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 0);
    f.p.was[B].up = B;
    f.p.was[C].up = C;
    f.t[A]->nparam = 2;
    assert_int_equal(qg_parts_count(&f.p, f.t[A]), 0);
    f.t[A]->nparam = 1;
}

static void unknown_words_are_ignored(void **state)
{
    (void)state;
    note(A, "state", "activated", "calibrate");
    note(A, "state", "nonsense", "calibrate");
    note(A, "scale", "0.5", "calibrate");
    note(A, "scale", "0.1, 0.2", "calibrate");
    note(A, "offset", "2147483647", "calibrate");
    note(A, "offset", "2147483648", "calibrate");
    note(A, "offset", "none", "calibrate");
    note(B, "offset", "-2147483648", "calibrate");
    note(B, "offset", "-2147483649", "calibrate");
    note(B, "other", "7", "calibrate");
    note(C, "dominator", f.t[A]->name, "fuse");
    read_journal();
    assert_int_equal(f.p.was[A].state, QG_TQC_ACTIVATED);
    assert_cmp_f64(f.p.was[A].scale, ==, 0.5);
    assert_int_equal(f.p.was[A].offset, INT32_MAX);
    assert_int_equal(f.p.was[B].offset, INT32_MIN);
    assert_cmp_f64(f.p.was[B].scale, ==, 0);
    assert_int_equal(f.p.was[C].up, A);
    note(C, "dominator", "nobody.out0", "fuse");
    note(A, "scale", "7", "align/sums");
    note(A, "state", "initial", "calibrate");
    read_journal();
    assert_int_equal(f.p.was[C].up, C);
    assert_int_equal(f.p.was[A].state, QG_TQC_INITIAL);
    assert_cmp_f64(f.p.was[A].scale, ==, 0.5); /* what sharing sets is no part of it */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(rules_of_sharing), TEST(parts_have_the_scales_of_calibration),
             TEST(what_is_fused_is_one_part), TEST(separate_parts_round_again),
             TEST(groups_that_cannot_be_separated), TEST(unknown_words_are_ignored))

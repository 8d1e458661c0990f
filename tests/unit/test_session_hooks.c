/* Hooks of a host: where and when they are called, and what becomes of what they
 * write. */
#include "tests/support/session.h"

#include <stdlib.h>

/* a is read by three nodes and is an output; k is a constant with two readers; only e
 * reads d. */
static const char branches[] =
    "graph {\n x = input float32[2,3]\n k = const float32[3] [1, 2, 3]\n"
    " a = Mul(x, k)\n b = Neg(a)\n c = Abs(a)\n d = Add(a, k)\n e = Neg(d)\n"
    " y = Sum(b, c, e)\n output y, a, b, c, e\n}";
enum { Y, A, B, C, E, OUTPUTS, N = 6, MOST = 16384 };

typedef struct fixture {
    qg_model m;
    qg_tensor x;
} fixture;

static fixture open_branches(qg_ctx *ctx, const char *text)
{
    fixture f;
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, text, &f.m);
    f.x = f.m.graph->input.at[0]->type;
    fill_seeded(ctx, &f.x, 11);
    return f;
}

static qg_session *session_with(fixture *f, const qg_session_hook *hook, size_t n)
{
    qg_session *s;
    qg_session_options o = session_options(NULL);
    o.hook = hook;
    o.n_hook = n;
    assert_ok(f->m.ctx, qg_session_new(&f->m, &o, &s));
    return s;
}

/* --- when --- */

typedef struct record {
    char text[512];
} record;

static qg_status note(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    record *r = ud;
    size_t n = strlen(r->text);
    (void)ctx, (void)x;
    (void)snprintf(r->text + n, sizeof r->text - n, "%s.%s%u%s ", at->node->name,
                   at->is_output ? "out" : "in", at->slot, at->rounded ? "'" : "");
    return QG_OK;
}

static qg_status note_sample(void *ud, qg_ctx *ctx, const qg_hook_event *at,
                             qg_tensor *x)
{
    record *r = ud;
    size_t n = strlen(r->text);
    (void)ctx, (void)x;
    assert_string_equal(at->value->name, "a");
    assert_null(at->tqc);
    (void)snprintf(r->text + n, sizeof r->text - n, "%d ", (int)at->sample);
    return QG_OK;
}

static void hooks_run_in_order(void **state)
{
    fixture f = open_branches(*state, branches);
    record r = { "" };
    qg_session_hook hook[] = {
        {.select = "?.in0",   .see = note,        .ud = &r},
        { .select = "a.out*", .see = note_sample, .ud = &r},
        { .select = "a.*",    .see = note,        .ud = &r},
    };
    qg_session *s = session_with(&f, hook, 3);
    hook[0] = hook[1] = hook[2] = (qg_session_hook){ 0 }; /* the session has copies */
    for (int i = 0; i < 2; i++) {
        r.text[0] = '\0';
        assert_session_ok(s, qg_session_run(s, &f.x, 1, NULL, 0));
        assert_string_equal(r.text, i ? "a.in0 a.in0 a.in1 1 a.out0 b.in0 c.in0 d.in0 "
                                        "e.in0 y.in0 "
                                      : "a.in0 a.in0 a.in1 0 a.out0 b.in0 c.in0 d.in0 "
                                        "e.in0 y.in0 ");
    }
    qg_session_free(s);
    qg_model_close(&f.m);
}

static qg_status refuse(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    (void)x;
    const char *message = ud;
    return message ? qg_fail(ctx, QG_ENUMERIC, "%s at %s", message, at->node->name)
                   : QG_EIO;
}

static void failing_hook_ends_the_run(void **state)
{
    fixture f = open_branches(*state, branches);
    record r = { "" };
    char text[] = "too large";
    qg_session_hook hook[] = {
        {.select = "d.in1",   .see = refuse, .ud = text},
        { .select = "e.out0", .see = note,   .ud = &r  },
    };
    qg_session *s = session_with(&f, hook, 2);
    assert_session_fails(s, qg_session_run(s, &f.x, 1, NULL, 0), QG_ENUMERIC,
                         "too large at d");
    assert_string_equal(r.text, "");
    qg_session_free(s);
    hook[0].ud = NULL;
    s = session_with(&f, hook, 2);
    assert_session_fails(s, qg_session_run(s, &f.x, 1, NULL, 0), QG_EIO,
                         "hook 'd.in1' at in1 failed without a message");
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* --- writes --- */

typedef struct plus {
    float by;
    const void *seen; /* where the data was */
} plus;

static qg_status add(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    plus *p = ud;
    (void)ctx;
    if (at->rounded)
        return QG_OK;
    p->seen = x->data;
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        x->f32[i] += p->by;
    x->rank = 0; /* the hook's own copy of the struct */
    x->data = NULL;
    return QG_OK;
}

/* Outputs of the session when `select` gets 100 more; y: [OUTPUTS], borrowed. */
static qg_session *run_plus(fixture *f, const char *select, qg_tensor *y)
{
    plus p = { 100, NULL };
    const qg_session_hook hook = {
        .select = select, .writes = true, .see = add, .ud = &p
    };
    float before[N];
    qg_session *s = session_with(f, &hook, 1);
    memcpy(before, f->x.f32, sizeof before);
    for (int i = 0; i < 2; i++) /* what was written is gone for the second run */
        assert_session_ok(s, qg_session_run(s, &f->x, 1, y, OUTPUTS));
    assert_memory_equal(before, f->x.f32, sizeof before);
    assert_ptr_not_equal(p.seen, f->x.f32);
    return s;
}

/* What the network computes when the operands are what they are after the hook. */
static void expect(fixture *f, float plus_x, float plus_k, const float plus_at[OUTPUTS],
                   const qg_tensor *y)
{
    for (int i = 0; i < N; i++) {
        float k = (float)(i % 3 + 1);
        float a = (f->x.f32[i] + plus_x) * (k + plus_k) + plus_at[A];
        float b = -(a + plus_at[B]), c = a + plus_at[C], d = a + k;
        float e = -(d + plus_at[E]);
        c = c < 0 ? -c : c;
        assert_cmp_f64(y[A].f32[i], ==, a);
        assert_cmp_f64(y[B].f32[i], ==, b);
        assert_cmp_f64(y[C].f32[i], ==, c);
        assert_cmp_f64(y[E].f32[i], ==, e);
        assert_cmp_f64(y[Y].f32[i], ==, b + c + e);
    }
}

/* plus: 100 at what the node reads (x, k: operands of a), elsewhere nothing. */
static void writes_reach_one_reader(void **state)
{
    static const struct {
        const char *select;
        float x, k, at[OUTPUTS];
    } row[] = {
        {"a.in0",   100, 0,   { 0 }        }, /* the caller's memory */
        { "a.in1",  0,   100, { 0 }        }, /* a constant that d reads as well */
        { "b.in0",  0,   0,   { [B] = 100 }}, /* one of three readers */
        { "c.in0",  0,   0,   { [C] = 100 }},
        { "e.in0",  0,   0,   { [E] = 100 }}, /* the only reader */
        { "a.out0", 0,   0,   { [A] = 100 }}, /* all readers, and the output */
    };
    fixture f = open_branches(*state, branches);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_tensor y[OUTPUTS] = { 0 };
        qg_session *s = run_plus(&f, row[i].select, y);
        expect(&f, row[i].x, row[i].k, row[i].at, y);
        qg_session_free(s);
    }
    qg_model_close(&f.m);
}

/* The other reader of a value that is no output sees it as it was. */
static void writes_spare_the_other_reader(void **state)
{
    static const char two[] =
        "graph {\n x = input float32[2,3]\n k = const float32[3] [1, 2, 3]\n"
        " d = Mul(x, k)\n b = Neg(d)\n c = Abs(d)\n output b, c\n}";
    fixture f = open_branches(*state, two);
    plus p = { 100, NULL };
    const qg_session_hook hook = {
        .select = "b.in0", .writes = true, .see = add, .ud = &p
    };
    qg_tensor y[2] = { 0 };
    qg_session *s = session_with(&f, &hook, 1);
    assert_session_ok(s, qg_session_run(s, &f.x, 1, y, 2));
    for (int i = 0; i < N; i++) {
        float d = f.x.f32[i] * (float)(i % 3 + 1);
        assert_cmp_f64(y[0].f32[i], ==, -(d + 100));
        assert_cmp_f64(y[1].f32[i], ==, d < 0 ? -d : d);
    }
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* Without `writes` the first node shows the memory of the caller: nothing is copied. */
static qg_status where(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    (void)ctx, (void)at;
    *(const void **)ud = x->data;
    return QG_OK;
}

static void inputs_are_read_where_they_lie(void **state)
{
    fixture f = open_branches(*state, branches);
    const void *seen = NULL;
    const qg_session_hook hook = { .select = "a.in0", .see = where, .ud = &seen };
    qg_session *s = session_with(&f, &hook, 1);
    assert_session_ok(s, qg_session_run(s, &f.x, 1, NULL, 0));
    assert_ptr_equal(seen, f.x.data);
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* A hook at one input of a kept value does not write the value. */
static void kept_values_are_not_written(void **state)
{
    fixture f = open_branches(*state, branches);
    plus p = { 100, NULL };
    const qg_session_hook hook = {
        .select = "e.in0", .writes = true, .see = add, .ud = &p
    };
    qg_session_options o = session_options(NULL);
    qg_session *s;
    qg_tensor y[OUTPUTS] = { 0 }, d = { 0 };
    o.hook = &hook;
    o.n_hook = 1;
    o.keep = (const char *const[]){ "d" };
    o.n_keep = 1;
    assert_ok(f.m.ctx, qg_session_new(&f.m, &o, &s));
    assert_session_ok(s, qg_session_run(s, &f.x, 1, y, OUTPUTS));
    assert_session_ok(s, qg_session_value(s, 0, &d));
    for (int i = 0; i < N; i++) {
        assert_cmp_f64(d.f32[i], ==, y[A].f32[i] + (float)(i % 3 + 1));
        assert_cmp_f64(y[E].f32[i], ==, -(d.f32[i] + 100));
    }
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* Channels-last tensors come with their strides, and copies have the same. */
static qg_status negate_channel_1(void *ud, qg_ctx *ctx, const qg_hook_event *at,
                                  qg_tensor *x)
{
    (void)ctx, (void)at;
    *(bool *)ud = *(bool *)ud || !qg_tensor_is_plain(x);
    for (int64_t h = 0; h < x->dim[2]; h++)
        for (int64_t w = 0; w < x->dim[3]; w++) {
            float *v = x->f32 + x->stride[1] + h * x->stride[2] + w * x->stride[3];
            *v = -*v;
        }
    return QG_OK;
}

static void strides_may_be_any(void **state)
{
    fixture f = open_branches(
        *state, "graph {\n x = input float32[1,4,6,5]\n w = const float32[8,4,3,3] "
                "seed(1)\n v = const float32[4,8,1,1] seed(2)\n c = Conv(x, w)\n"
                " r = Relu(c)\n d = Conv(r, v)\n n = Neg(r)\n output d, n, r\n}");
    bool was_last[2] = { false };
    qg_session_hook hook[] = {
        {.select = "d.in0",  .writes = true, .see = negate_channel_1, .ud = was_last},
        { .select = "n.in0", .writes = true, .see = negate_channel_1, .ud = was_last},
    };
    qg_tensor plain[3] = { 0 }, y[3] = { 0 };
    qg_session *none = session_with(&f, NULL, 0), *s = session_with(&f, hook + 1, 1);
    assert_session_ok(none, qg_session_run(none, &f.x, 1, plain, 3));
    assert_session_ok(s, qg_session_run(s, &f.x, 1, y, 3));
    assert_memory_equal(y[0].f32, plain[0].f32, 4 * 4 * 3 * sizeof(float));
    assert_memory_equal(y[2].f32, plain[2].f32, 8 * 4 * 3 * sizeof(float));
    for (int i = 0; i < 8 * 12; i++)
        assert_cmp_f64(y[1].f32[i], ==,
                       i / 12 == 1 ? plain[2].f32[i] : -plain[2].f32[i]);
    qg_session_free(s);
    memset(y, 0, sizeof y);
    s = session_with(&f, hook, 1);
    assert_session_ok(s, qg_session_run(s, &f.x, 1, y, 3));
    assert_memory_equal(y[1].f32, plain[1].f32, 8 * 12 * sizeof(float));
    assert_memory_equal(y[2].f32, plain[2].f32, 8 * 12 * sizeof(float));
    assert_memory_not_equal(y[0].f32, plain[0].f32, 4 * 12 * sizeof(float));
    assert_int_equal(was_last[0], QG_HAVE_DNNL);
    qg_session_free(none);
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* --- what inference folded --- */

static const char reshaped[] =
    "graph {\n x = input float32[2,3]\n two = const int64[1] [2]\n"
    " s = Shape(x)\n t = Mul(s, two)\n h = Div(t, two)\n y = Reshape(x, h)\n"
    " z = Neg(y)\n output z\n}";

static qg_status swap(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    const int64_t *to = ud;
    (void)ctx, (void)at;
    assert_int_equal(x->dtype, QG_I64);
    memcpy(x->i64, to, 2 * sizeof *to);
    return QG_OK;
}

static void folded_nodes_are_seen(void **state)
{
    fixture f = open_branches(*state, reshaped);
    record r = { "" };
    const qg_session_hook hook = { .select = "*", .see = note, .ud = &r };
    qg_session *s = session_with(&f, &hook, 1);
    assert_session_ok(s, qg_session_run(s, &f.x, 1, NULL, 0));
    assert_string_equal(r.text, "s.in0 s.out0 t.in0 t.in1 t.out0 h.in0 h.in1 h.out0 "
                                "y.in0 y.in1 y.out0 z.in0 z.out0 ");
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* Memory is planned for the shapes that the constants give: others end the run. */
static void written_shapes_are_checked(void **state)
{
    static const struct {
        const char *select;
        int64_t to[2];
        const char *message; /* NULL: fine */
    } row[] = {
        {"y.in1",   { 2, 3 },   NULL                                            },
        { "y.in1",  { -1, 3 },  NULL                                            },
        { "y.in1",
         { 3, 2 },
         "node 'y' (Reshape): the output is float32[3,2] with "
          "these inputs, expected float32[2,3]"                                 },
        { "h.out0", { 6, 1 },   "node 'y' (Reshape): the output is float32[6,1]"},
        { "s.out0", { 1, 6 },   "node 'y' (Reshape): the output is float32[1,6]"},
        { "t.in0",  { 3, 2 },   "node 'y' (Reshape): the output is float32[3,2]"},
        { "y.in1",  { 99, 99 }, "node 'y' (Reshape)"                            },
    };
    fixture f = open_branches(*state, reshaped);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t to[2] = { row[i].to[0], row[i].to[1] };
        const qg_session_hook hook = {
            .select = row[i].select, .writes = true, .see = swap, .ud = to
        };
        qg_session *s = session_with(&f, &hook, 1);
        qg_tensor z = { 0 };
        qg_status status = qg_session_run(s, &f.x, 1, &z, 1);
        if (row[i].message &&
            (status == QG_OK || !strstr(qg_session_message(s), row[i].message)))
            fail_msg("row %zu: %s", i, qg_session_message(s));
        if (!row[i].message)
            assert_session_ok(s, status);
        for (int k = 0; !row[i].message && k < N; k++)
            assert_cmp_f64(z.f32[k], ==, -f.x.f32[k]);
        qg_session_free(s);
    }
    qg_model_close(&f.m);
}

/* A hook that writes where all shapes are open. */
static void dynamic_values_are_copied(void **state)
{
    fixture f = open_branches(
        *state, "graph {\n x = input float32[2,3]\n o = const float32[] [0]\n"
                " i = const int64[] [0]\n n = const int64[1] [-1]\n"
                " c = Greater(x, o)\n g = Gather(c, i) axis=1\n"
                " m = Reshape(g, n)\n v = Compress(x, m) axis=0\n"
                " p = Neg(v)\n q = Abs(v)\n output p, q, v\n}");
    plus up = { 100, NULL };
    const qg_session_hook hook = {
        .select = "p.in0", .writes = true, .see = add, .ud = &up
    };
    qg_session *s = session_with(&f, &hook, 1);
    f.x.f32[0] = -1;
    f.x.f32[3] = 1;
    qg_tensor y[3] = { 0 };
    assert_session_ok(s, qg_session_run(s, &f.x, 1, y, 3));
    assert_int_equal(qg_tensor_count(&y[0]), 3);
    for (int i = 0; i < 3; i++) {
        assert_cmp_f64(y[2].f32[i], ==, f.x.f32[3 + i]);
        assert_cmp_f64(y[0].f32[i], ==, -(f.x.f32[3 + i] + 100));
    }
    qg_session_free(s);
    qg_model_close(&f.m);
}

/* --- a quantizer of the host --- */

typedef struct quantizer {
    const qg_tqc *t;
    size_t calls;
} quantizer;

static qg_status quantize(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    quantizer *q = ud;
    qg_qparam p = qg_tqc_param(q->t);
    if (at->rounded)
        return QG_OK;
    assert_null(at->tqc); /* mode float */
    q->calls++;
    return qg_fake_quantize(ctx, "test", &q->t->scheme, &p, x, x);
}

static void run_once(qg_model *m, const qg_session_options *o, const qg_tensor *x,
                     float y[10])
{
    qg_session *s;
    qg_tensor out;
    qg_tensor_init(&out, QG_F32, 2, (int64_t[]){ 1, 10 });
    out.f32 = y;
    assert_ok(m->ctx, qg_session_new(m, o, &s));
    assert_session_ok(s, qg_session_run(s, x, 1, &out, 1));
    qg_session_free(s);
}

/* Whether a hook at t's endpoint in mode float gives what t alone gives in mode
 * simulate; *moves counts those that change something. */
static void assert_hook_is_tqc(qg_model *m, qg_tqc *t, bool reference, size_t *moves)
{
    char name[QG_ENDPOINT_TEXT];
    float plain[10], hooked[10], simulated[10];
    qg_tensor x = m->graph->input.at[0]->type;
    quantizer q = { t, 0 };
    const qg_session_hook hook = {
        .select = qg_tqc_text(t, name), .writes = true, .see = quantize, .ud = &q
    };
    qg_session_options o = session_options("float");
    fill_seeded(m->ctx, &x, t->id);
    o.reference_kernels = reference;
    run_once(m, &o, &x, plain);
    o.hook = &hook;
    o.n_hook = 1;
    run_once(m, &o, &x, hooked);
    assert_int_equal(q.calls, 1);
    o.n_hook = 0;
    o.mode = "simulate";
    assert_ok(m->ctx, qg_tqc_switch_on(m->quant, t));
    run_once(m, &o, &x, simulated);
    assert_ok(m->ctx, qg_tqc_switch_off(m->quant, t, false));
    assert_memory_equal(hooked, simulated, sizeof hooked);
    *moves += memcmp(plain, hooked, sizeof plain) != 0;
}

/* Constants too, with reference kernels: the library's need them when they are made. */
static void hook_replaces_any_quantizer(void **state)
{
    qg_ctx *ctx;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "configs/models/digits.onnx", "trt-int8");
    qg_quant *q = m->quant;
    size_t asked = 0, constants = 0, moves = 0;
    bool *on = QG_NEWN(ctx->arena, q->tqc.n, bool);
    for (size_t i = 0; i < q->tqc.n; i++) {
        on[i] = qg_tqc_is_on_grid(q->tqc.at[i]);
        if (on[i])
            assert_ok(ctx, qg_tqc_switch_off(q, q->tqc.at[i], false));
    }
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        bool constant = qg_tqc_is_constant(t);
        if (!on[i])
            continue;
        assert_hook_is_tqc(m, t, true, &moves);
        if (!constant)
            assert_hook_is_tqc(m, t, false, &moves);
        asked++;
        constants += constant;
    }
    assert_cmp_int(asked, >=, 20);
    assert_cmp_int(constants, >=, 5);
    assert_cmp_int(moves, >=, asked);
    qg_model_close(m);
    qg_close(ctx);
}

/* --- before and after rounding --- */

typedef struct pair {
    const qg_tqc *tqc;
    float before[MOST], after[MOST];
    size_t n[2];
} pair;

static qg_status split(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    pair *p = ud;
    qg_tensor plain = *x;
    (void)ctx;
    p->tqc = at->tqc;
    p->n[at->rounded] = (size_t)qg_tensor_count(x);
    assert_cmp_int(p->n[at->rounded], <=, MOST);
    qg_tensor_set_plain(&plain);
    plain.f32 = at->rounded ? p->after : p->before;
    qg_tensor_copy(x, &plain);
    return QG_OK;
}

/* At every endpoint that rounds, weights included: unrounded first, then what
 * qg_fake_quantize makes of it.  Per-channel parameters need the dims. */
static void both_sides_of_rounding_are_seen(void **state)
{
    qg_ctx *ctx;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "configs/models/digits.onnx", "trt-int8");
    size_t checked = 0;
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *t = m->quant->tqc.at[i];
        static pair p;
        char name[QG_ENDPOINT_TEXT];
        float y[10];
        qg_tensor x = m->graph->input.at[0]->type, was = qg_tqc_value(t)->type, is;
        if (!qg_tqc_is_on_grid(t))
            continue;
        qg_session_hook hook = { .see = split, .ud = &p };
        qg_session_options o = session_options("simulate");
        hook.select = qg_tqc_text(t, name);
        hook.writes = i % 2; /* makes no difference */
        o.hook = &hook;
        o.n_hook = 1;
        o.reference_kernels = true;
        fill_seeded(ctx, &x, i);
        p = (pair){ 0 };
        run_once(m, &o, &x, y);
        assert_ptr_equal(p.tqc, t);
        assert_cmp_int(p.n[0], >, 0);
        assert_int_equal(p.n[0], p.n[1]);
        qg_qparam param = qg_tqc_param(t);
        was.f32 = p.before;
        is = was;
        assert_ok(ctx, qg_fake_quantize(ctx, "test", &t->scheme, &param, &was, &is));
        assert_memory_equal(p.before, p.after, p.n[0] * sizeof(float));
        checked++;
    }
    assert_cmp_int(checked, >=, 20);
    qg_model_close(m);
    qg_close(ctx);
}

QG_TEST_MAIN(WITH_CTX(hooks_run_in_order), WITH_CTX(failing_hook_ends_the_run),
             WITH_CTX(writes_reach_one_reader), WITH_CTX(writes_spare_the_other_reader),
             WITH_CTX(inputs_are_read_where_they_lie),
             WITH_CTX(kept_values_are_not_written), WITH_CTX(strides_may_be_any),
             WITH_CTX(folded_nodes_are_seen), WITH_CTX(written_shapes_are_checked),
             WITH_CTX(dynamic_values_are_copied),
             cmocka_unit_test(hook_replaces_any_quantizer),
             cmocka_unit_test(both_sides_of_rounding_are_seen))

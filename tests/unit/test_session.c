/* Sessions: the bits of qg_model_run, memory of either side, kept values, forks, shapes
 * that data decide, and wrong arguments. */
#include "tests/support/session.h"

#include <math.h>
#include <pthread.h>

#include "engine/core/file.h"
#include "tests/support/faulty.h"
#include "tests/support/scratch.h"

enum { SAMPLES = 3, MAX_IO = 16 };

/* --- the bits of qg_model_run --- */

/* What one run over the samples gives, output by output. */
typedef struct outputs {
    unsigned char *data[MAX_IO];
    size_t size[MAX_IO];
} outputs;

static void append(outputs *all, qg_ctx *ctx, size_t k, const qg_tensor *y)
{
    size_t bytes;
    assert_ok(ctx, qg_tensor_bytes(ctx, "test", y, &bytes));
    unsigned char *to = qg_arena_get(ctx->arena, all->size[k] + bytes, 1);
    assert_non_null(to);
    if (all->size[k])
        memcpy(to, all->data[k], all->size[k]);
    memcpy(to + all->size[k], y->data, bytes);
    all->data[k] = to;
    all->size[k] += bytes;
}

/* Runs the samples that qg_model_run would run. */
static outputs run_session(qg_model *m, const qg_session_options *o, const qg_feed *f)
{
    qg_ctx *ctx = m->ctx;
    qg_session *s;
    outputs all = { 0 };
    size_t n = m->graph->output.n;
    qg_arena *a = qg_arena_new(ctx->alloc);
    assert_ok(ctx, qg_session_new(m, o, &s));
    for (size_t i = 0; i < f->n; i++) {
        const qg_tensor *at[MAX_IO];
        qg_tensor in[MAX_IO], out[MAX_IO] = { 0 };
        qg_arena_reset(a);
        assert_ok(ctx, f->fetch(f->ud, ctx, a, i, at));
        for (size_t k = 0; k < m->graph->input.n; k++)
            in[k] = *at[k];
        assert_session_ok(s, qg_session_run(s, in, m->graph->input.n, out, n));
        for (size_t k = 0; k < n; k++)
            append(&all, ctx, k, &out[k]);
    }
    qg_arena_free(a);
    qg_session_free(s);
    return all;
}

/* The bytes of an .npy begin with a header whose length does not matter here. */
static void assert_ends_with(qg_ctx *ctx, const char *path, const outputs *all,
                             size_t k)
{
    char *bytes;
    size_t size;
    assert_ok(ctx,
              qg_file_text(ctx, ctx->arena, (qg_file_request){ "read", path, SIZE_MAX },
                           &bytes, &size));
    assert_cmp_int(all->size[k], >, 0);
    assert_cmp_int(size, >, all->size[k]);
    assert_int_equal((size - all->size[k]) % 64, 0);
    assert_memory_equal(bytes + size - all->size[k], all->data[k], all->size[k]);
}

static qg_status only_look(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    size_t *calls = ud;
    (void)ctx;
    assert_int_equal(at->size, sizeof *at);
    assert_true(at->node && x->data);
    ++*calls;
    return QG_OK;
}

static void assert_as_run(qg_model *m, const char *mode, bool reference, bool watched)
{
    qg_ctx *ctx = m->ctx;
    size_t calls = 0;
    char folder[SCRATCH_PATH];
    qg_run_options ro;
    qg_api_feed feed = { 0 };
    qg_session_hook hook = { .select = "*", .see = only_look, .ud = &calls };
    qg_session_options so = session_options(mode);
    qg_run_options_init(&ro, sizeof ro);
    ro.mode = mode;
    ro.work.data = "random:3";
    ro.work.reference_kernels = so.reference_kernels = reference;
    so.hook = &hook;
    so.n_hook = watched;
    assert_ok(ctx, qg_model_run(m, &ro, scratch_path(folder, "session"), NULL));
    assert_ok(ctx, qg_feed_open(m, &ro.work, &feed));
    assert_int_equal(feed.feed.n, SAMPLES);
    outputs all = run_session(m, &so, &feed.feed);
    assert_cmp_int(calls >= SAMPLES, ==, watched);
    for (size_t k = 0; k < m->graph->output.n; k++) {
        const char *file = qg_arena_printf(ctx->arena, "%s/%s.npy", folder,
                                           m->graph->output.at[k]->name);
        assert_ends_with(ctx, file, &all, k);
    }
    qg_feed_close(&feed);
    assert_int_equal(scratch_remove(folder), 0);
}

static const char *const models[] = {
    "tests/models/conv_relu.onnx",     "tests/models/mnist-8.onnx",
    "tests/models/unsorted.onnx",      "tests/models/optional_slots.onnx",
    "tests/models/body_capture.onnx",  "tests/models/external.onnx",
    "tests/models/function_call.onnx", "configs/models/digits.onnx",
};

static void gives_the_bits_of_a_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        qg_ctx *ctx;
        assert_int_equal(qg_open(NULL, &ctx), QG_OK);
        qg_model *m = model_of_file(ctx, models[i], NULL);
        for (int k = 0; k < 4; k++)
            assert_as_run(m, "float", k & 1, k & 2);
        qg_model_close(m);
        qg_close(ctx);
    }
}

static void simulates_the_bits_of_a_run(void **state)
{
    static const char *const backend[] = { "trt-int8", "openvino-int8", "ort-int8" };
    static const char *const quantizable[] = { "tests/models/mnist-8.onnx",
                                               "configs/models/digits.onnx" };
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        qg_ctx *ctx;
        assert_int_equal(qg_open(NULL, &ctx), QG_OK);
        qg_model *m = model_of_file(ctx, quantizable[i / 3], backend[i % 3]);
        for (int k = 0; k < 4; k++)
            assert_as_run(m, k == 0 ? NULL : "simulate", k & 1, k & 2);
        assert_as_run(m, "float", false, false);
        assert_as_run(m, "integer", false, false);
        assert_as_run(m, "integer", true, false);
        qg_model_close(m);
        qg_close(ctx);
    }
}

/* Kept values are codes; what a kernel holds inside cannot be kept, and hooks see
 * endpoints, which a program does not have. */
static void integers_are_kept_and_not_hooked(void **state)
{
    static const char *keep[] = { "relu0_out" },
                      *inside[] = { "batchnormalization0_out" };
    const qg_session_hook hook = { .select = "*", .see = only_look };
    qg_session_options o = session_options("integer");
    qg_tensor x, y = { 0 };
    qg_session *s;
    qg_ctx *ctx;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "configs/models/digits.onnx", "tflite-int8");
    o.keep = keep;
    o.n_keep = 1;
    o.require_integer = true;
    assert_ok(ctx, qg_session_new(m, &o, &s));
    x = m->graph->input.at[0]->type;
    fill_seeded(ctx, &x, 1);
    assert_session_ok(s, qg_session_run(s, &x, 1, NULL, 0));
    assert_session_ok(s, qg_session_value(s, 0, &y));
    assert_int_equal(y.dtype, QG_I8);
    qg_session_free(s);
    o.keep = inside;
    assert_fails(ctx, qg_session_new(m, &o, &s), QG_ECONFIG,
                 "the integer program does not compute it");
    o.n_keep = 0;
    o.hook = &hook;
    o.n_hook = 1;
    assert_fails(ctx, qg_session_new(m, &o, &s), QG_EUNSUPPORTED,
                 "hooks in mode integer");
    o.n_hook = 0;
    o.profile = "tensorrt";
    assert_fails(ctx, qg_session_new(m, &o, &s), QG_EUNSUPPORTED,
                 "expected an integer kernel of profile tensorrt");
    qg_model_close(m);
    qg_close(ctx);
}

/* --- memory --- */

static const char branches[] =
    "graph {\n x = input float32[2,3]\n k = const float32[3] [1, 2, 3]\n"
    " a = Mul(x, k)\n b = Neg(a)\n c = Exp(b)\n y = Add(a, c)\n output y, a, k, x\n}";

static void outputs_are_copied_or_lent(void **state)
{
    qg_ctx *ctx = *state;
    qg_model m;
    qg_session *s;
    float data[6] = { 0 };
    qg_tensor x, y[4] = { 0 };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, branches, &m);
    assert_ok(ctx, qg_session_new(&m, NULL, &s));
    x = m.graph->input.at[0]->type;
    fill_seeded(ctx, &x, 1);
    assert_session_ok(s, qg_session_run(s, &x, 1, y, 4));
    for (size_t k = 0; k < 4; k++)
        assert_non_null(y[k].data);
    assert_ptr_not_equal(y[2].data, qg_graph_value(m.graph, "k")->constant->data);
    assert_ptr_not_equal(y[3].data, x.data);
    assert_memory_equal(y[3].data, x.data, sizeof data);
    assert_memory_equal(y[2].f32, ((float[]){ 1, 2, 3 }), 12);
    /* the same tensors again: lent again, not written into */
    const void *lent = y[0].data;
    qg_tensor z = x;
    fill_seeded(ctx, &z, 2);
    assert_session_ok(s, qg_session_run(s, &z, 1, y, 4));
    assert_ptr_equal(y[0].data, lent);
    assert_memory_equal(y[3].data, z.data, sizeof data);
    memcpy(data, y[0].data, sizeof data);
    float room[6] = { 0 };
    y[0].data = room;
    y[1].data = NULL;
    assert_session_ok(s, qg_session_run(s, &z, 1, y, 2));
    assert_ptr_equal(y[0].data, room);
    assert_memory_equal(room, data, sizeof data);
    assert_cmp_int(qg_session_bytes(s), >=, sizeof data);
    qg_session_free(s);
    qg_model_close(&m);
}

static void counts_no_request(qg_ctx *ctx, faulty *f, qg_session *s, const qg_tensor *x)
{
    qg_tensor y[4] = { 0 };
    assert_session_ok(s, qg_session_run(s, x, 1, y, 4));
    long before = f->calls;
    for (int i = 0; i < 3; i++)
        assert_session_ok(s, qg_session_run(s, x, 1, y, 4));
    assert_int_equal(f->calls, before);
    (void)ctx;
}

static qg_status write_nothing(void *ud, qg_ctx *ctx, const qg_hook_event *at,
                               qg_tensor *x)
{
    (void)ud, (void)ctx, (void)at, (void)x;
    return QG_OK;
}

static void second_run_allocates_nothing(void **state)
{
    faulty f = { .fail_at = -1 };
    qg_ctx *ctx = qg_ctx_new(faulty_alloc(&f));
    qg_session_options o = session_options(NULL);
    qg_session_hook hook = { .select = "*", .writes = true, .see = write_nothing };
    (void)state;
    for (int hooked = 0; hooked < 2; hooked++) {
        qg_model m;
        qg_session *s, *fork;
        ctx->registry = &qg_ops_registry;
        model_of_text(ctx, branches, &m);
        o.hook = &hook;
        o.n_hook = (size_t)hooked;
        assert_ok(ctx, qg_session_new(&m, &o, &s));
        qg_tensor x = m.graph->input.at[0]->type;
        fill_seeded(ctx, &x, 1);
        counts_no_request(ctx, &f, s, &x);
        assert_session_ok(s, qg_session_fork(s, &fork));
        counts_no_request(ctx, &f, fork, &x);
        qg_session_free(fork);
        qg_session_free(s);
        qg_model_close(&m);
    }
    qg_ctx_free(ctx);
    assert_int_equal(f.live, 0);
}

static qg_status whole_life(qg_ctx *ctx, qg_model *m)
{
    qg_session *s = NULL, *fork = NULL;
    qg_session_hook hook = { .select = "*.in*", .writes = true, .see = write_nothing };
    qg_session_options o = session_options(NULL);
    qg_tensor x = m->graph->input.at[0]->type, y[4] = { 0 }, kept = { 0 };
    o.keep = (const char *const[]){ "b" };
    o.n_keep = 1;
    o.hook = &hook;
    o.n_hook = 1;
    qg_status status = qg_tensor_alloc(ctx, ctx->arena, &x);
    if (status == QG_OK)
        status = qg_session_new(m, &o, &s);
    if (status == QG_OK)
        status = qg_session_fork(s, &fork);
    if (status == QG_OK)
        status = qg_session_run(fork, &x, 1, y, 4);
    if (status == QG_OK)
        status = qg_session_value(fork, 0, &kept);
    qg_session_free(fork);
    qg_session_free(s);
    return status;
}

static qg_status build_and_run(qg_alloc alloc, void *ud)
{
    const qg_text_source source = { .text = ud, .size = strlen(ud) };
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = &qg_ops_registry;
    qg_model m = { .ctx = ctx, .path = "text" };
    qg_status s = qg_text_parse(ctx, &source, &m.graph);
    if (s == QG_OK)
        s = qg_infer(m.graph, NULL, 0);
    if (s == QG_OK)
        s = whole_life(ctx, &m);
    qg_model_close(&m);
    qg_ctx_free(ctx);
    return s;
}

static void any_request_may_fail(void **state)
{
    (void)state;
    every_request_may_fail(build_and_run, (void *)(uintptr_t)branches, 30);
}

/* --- kept values --- */

typedef struct memory {
    const char *node;
    float data[4096];
    size_t n;
} memory;

/* Keeps what the output of the node was at last: rounded, when it rounds. */
static qg_status remember(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    memory *mem = ud;
    qg_tensor plain = *x;
    (void)ctx, (void)at;
    mem->n = (size_t)qg_tensor_count(x);
    assert_cmp_int(mem->n, <=, 4096);
    qg_tensor_set_plain(&plain);
    plain.f32 = mem->data;
    qg_tensor_copy(x, &plain);
    return QG_OK;
}

static void kept_values_are_what_hooks_saw(void **state)
{
    (void)state;
    qg_ctx *ctx;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "configs/models/digits.onnx", "trt-int8");
    size_t compared = 0;
    for (size_t i = 0; i < m->graph->node.n; i++) {
        const qg_node *n = m->graph->node.at[i];
        static memory mem;
        qg_session *kept, *watched;
        qg_tensor x = m->graph->input.at[0]->type, v = { 0 };
        if (n->out[0]->type.dtype != QG_F32)
            continue;
        qg_session_options o = session_options("simulate");
        fill_seeded(ctx, &x, i);
        o.reference_kernels = i % 2;
        o.keep = &n->out[0]->name;
        o.n_keep = 1;
        assert_ok(ctx, qg_session_new(m, &o, &kept));
        qg_session_hook hook = { .select =
                                     qg_arena_printf(ctx->arena, "%s.out0", n->name),
                                 .see = remember,
                                 .ud = &mem };
        o.n_keep = 0;
        o.hook = &hook;
        o.n_hook = 1;
        assert_ok(ctx, qg_session_new(m, &o, &watched));
        assert_session_fails(kept, qg_session_value(kept, 0, &v), QG_ESTATE,
                             "nothing was run");
        assert_session_ok(kept, qg_session_run(kept, &x, 1, NULL, 0));
        assert_session_ok(watched, qg_session_run(watched, &x, 1, NULL, 0));
        assert_session_ok(kept, qg_session_value(kept, 0, &v));
        assert_int_equal(qg_tensor_count(&v), mem.n);
        assert_memory_equal(v.f32, mem.data, mem.n * sizeof(float));
        memset(mem.data, 0, sizeof mem.data);
        qg_tensor copy = v;
        copy.f32 = mem.data;
        assert_session_ok(kept, qg_session_value(kept, 0, &copy));
        assert_memory_equal(v.f32, mem.data, mem.n * sizeof(float));
        assert_session_fails(kept, qg_session_value(kept, 1, &v), QG_ECONFIG,
                             "value 1: 1 are kept, counted from 0");
        qg_session_free(kept);
        qg_session_free(watched);
        compared++;
    }
    assert_cmp_int(compared, >=, 10);
    qg_model_close(m);
    qg_close(ctx);
}

/* --- forks --- */

typedef struct turn {
    qg_session *s;
    const qg_tensor *x; /* [SAMPLES] */
    float y[8][SAMPLES][10];
    qg_status status;
} turn;

static void *run_turn(void *ud)
{
    turn *t = ud;
    for (size_t round = 0; round < 8 && t->status == QG_OK; round++)
        for (size_t i = 0; i < SAMPLES && t->status == QG_OK; i++) {
            qg_tensor y;
            qg_tensor_init(&y, QG_F32, 2, (int64_t[]){ 1, 10 });
            y.f32 = t->y[round][i];
            t->status = qg_session_run(t->s, &t->x[i], 1, &y, 1);
        }
    return NULL;
}

static void forks_run_at_the_same_time(void **state)
{
    (void)state;
    qg_ctx *ctx;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "configs/models/digits.onnx", "trt-int8");
    for (int mode = 0; mode < 2; mode++) {
        static turn t[3];
        qg_tensor x[SAMPLES];
        pthread_t thread[3];
        qg_session_options o = session_options(mode ? "simulate" : "float");
        assert_ok(ctx, qg_session_new(m, &o, &t[0].s));
        for (size_t k = 1; k < 3; k++)
            assert_session_ok(t[k - 1].s, qg_session_fork(t[k - 1].s, &t[k].s));
        for (size_t i = 0; i < SAMPLES; i++) {
            x[i] = m->graph->input.at[0]->type;
            fill_seeded(ctx, &x[i], i);
        }
        for (size_t k = 0; k < 3; k++) {
            t[k].x = x;
            assert_int_equal(pthread_create(&thread[k], NULL, run_turn, &t[k]), 0);
        }
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(pthread_join(thread[k], NULL), 0);
            assert_session_ok(t[k].s, t[k].status);
            for (size_t round = 0; round < 8; round++)
                assert_memory_equal(t[k].y[round], t[0].y[0], sizeof t[0].y[0]);
        }
        for (size_t k = 3; k-- > 0;)
            qg_session_free(t[k].s);
    }
    qg_model_close(m);
    qg_close(ctx);
}

/* --- shapes --- */

static void data_decide_dims(void **state)
{
    qg_ctx *ctx = *state;
    qg_model m;
    qg_session *s;
    qg_tensor x, y = { 0 };
    float data[4] = { 0, 3, 0, 5 };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx,
                  "graph {\n x = input float32[4]\n i = NonZero(x)\n"
                  " y = Transpose(i) perm=[1, 0]\n output y\n}",
                  &m);
    assert_ok(ctx, qg_session_new(&m, NULL, &s));
    assert_session_ok(s, qg_session_output_type(s, 0, &y));
    assert_int_equal(y.dtype, QG_I64);
    assert_int_equal(y.rank, 2);
    assert_int_equal(y.dim[0], -1);
    assert_int_equal(y.dim[1], 1);
    assert_null(y.data);
    qg_tensor_init(&x, QG_F32, 1, (int64_t[]){ 4 });
    x.f32 = data;
    assert_session_ok(s, qg_session_run(s, &x, 1, &y, 1));
    assert_int_equal(y.dim[0], 2);
    assert_memory_equal(y.i64, ((int64_t[]){ 1, 3 }), 16);
    data[0] = 1; /* another shape, the same tensor */
    assert_session_ok(s, qg_session_run(s, &x, 1, &y, 1));
    assert_int_equal(y.dim[0], 3);
    assert_memory_equal(y.i64, ((int64_t[]){ 0, 1, 3 }), 24);
    int64_t room[2] = { 7, 7 };
    qg_tensor_init(&y, QG_I64, 2, (int64_t[]){ 2, 1 });
    y.i64 = room;
    assert_session_fails(s, qg_session_run(s, &x, 1, &y, 1), QG_EDATA,
                         "run: output 'y': is int64[3,1], expected int64[2,1]");
    assert_memory_equal(room, ((int64_t[]){ 7, 7 }), 16);
    qg_session_free(s);
    qg_model_close(&m);
}

static void open_shapes_are_given(void **state)
{
    qg_ctx *ctx = *state;
    qg_model m;
    qg_session *s;
    qg_session_options o = session_options(NULL);
    qg_tensor shape, y = { 0 };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, "graph {\n x = input float32[2,?]\n y = Relu(x)\n output y\n}",
                  &m);
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_EMODEL,
                 "session: input 'x': float32[2,?] has open dims");
    o.shape = &shape;
    qg_tensor_init(&shape, QG_F32, 2, (int64_t[]){ 2, -1 });
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG,
                 "expected a type and dim");
    qg_tensor_init(&shape, QG_F32, 2, (int64_t[]){ 3, 5 });
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG,
                 "is float32[3,5], expected float32[2,?]");
    qg_tensor_init(&shape, QG_I32, 2, (int64_t[]){ 2, 5 });
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG, "is int32[2,5]");
    qg_tensor_init(&shape, QG_F32, 2, (int64_t[]){ 2, 5 });
    assert_ok(ctx, qg_session_new(&m, &o, &s));
    assert_session_ok(s, qg_session_output_type(s, 0, &y));
    assert_true(qg_same_dims(&y, &shape));
    qg_tensor x = shape;
    fill_seeded(ctx, &x, 3);
    memset(&shape, 0xff, sizeof shape); /* the session keeps a copy */
    assert_session_ok(s, qg_session_run(s, &x, 1, &y, 1));
    assert_int_equal(qg_tensor_count(&y), 10);
    qg_session_free(s);
    qg_model_close(&m);
}

/* --- wrong arguments --- */

/* Fast kernels clamp as they compute: a Relu or Clip never makes a number of a NaN that
 * a node made, or that lies in its constants. */
static void clamps_keep_nan(void **state)
{
    static const char *const texts[] = {
        "graph \"makes\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[8,4,3,3] seed(1)\n  d = const f32[8,4,3,3] seed(2)\n"
        "  l = const f32[] [0.0]\n  h = const f32[] [6.0]\n"
        "  s = Sqrt(x)\n  c = Conv(s, w) pads=[1, 1, 1, 1]\n  r = Relu(c)\n"
        "  e = Conv(s, d) pads=[1, 1, 1, 1]\n  y = Clip(e, l, h)\n  output r, y\n}",
        "graph \"has\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  n = const f32[1,4,1,1] [1, -1, 1, 1]\n"
        "  q = Sqrt(n)\n"
        "  v = Mul(x, q)\n  c = Conv(v, w)\n  r = Relu(c)\n"
        "  m = const f32[1,4,1,1] [1, 1, 1, 1]\n  z = Mul(r, m)\n"
        "  e = Conv(z, w)\n  y = Relu(e)\n  output r, y\n}",
        "graph \"normalizes\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  o = const f32[4] [1, 1, 1, 1]\n"
        "  v = const f32[4] [1, -1, 1, 1]\n  z = const f32[] [0.0]\n"
        "  b = BatchNormalization(x, o, o, o, v)\n  c = Conv(b, w)\n  r = Relu(c)\n"
        "  q = Mul(x, z)\n  i = InstanceNormalization(q, o, o) epsilon=0.0\n"
        "  e = Conv(i, w)\n  y = Relu(e)\n  output r, y\n}",
        "graph \"exceeds\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  k = const f32[] [1e6]\n"
        "  h = const f32[] [3e38]\n  z = const f32[] [0.0]\n"
        "  l = Mul(x, k)\n  f = Cast(l) to=10\n  g = Cast(f) to=1\n"
        "  p = Mul(g, z)\n  c = Conv(p, w)\n  r = Relu(c)\n"
        "  q = Mul(x, h)\n  t = Add(q, h)\n  a = Add(t, h)\n  j = Mul(a, z)\n"
        "  e = Conv(j, w)\n  y = Relu(e)\n  output r, y\n}",
        "graph \"pools\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n"
        "  a = LeakyRelu(x) alpha=inf\n  b = Sub(a, a)\n"
        "  c = Conv(b, w)\n  r = Relu(c)\n"
        "  s = Sqrt(x)\n  y = MaxPool(s) kernel_shape=[2, 2]\n  output r, y\n}",
        "graph \"reduces nothing\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  f = const i64[1] [0]\n"
        "  a = const i64[1] [1]\n  s = Slice(x, f, f, a)\n"
        "  m = ReduceMean(s) axes=[1]\n  b = Add(x, m)\n  c = Conv(b, w)\n"
        "  r = Relu(c)\n  e = Conv(r, w)\n  y = Relu(e)\n  output r, y\n}",
        "graph \"makes within a chain\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  k = const f32[] [2.0]\n"
        "  m = Mul(x, k)\n  s = Sqrt(m)\n  c = Conv(s, w)\n  r = Relu(c)\n"
        "  a = Add(x, k)\n  t = Sub(a, k)\n  u = Sub(t, k)\n  l = Log(u)\n"
        "  y = MaxPool(l) kernel_shape=[2, 2]\n  output r, y\n}",
        "graph \"divides by local sums\" {\n  opset 13\n  x = input f32[1,4,8,8]\n"
        "  w = const f32[4,4,1,1] seed(1)\n  p = Relu(x)\n  q = LRN(p) size=1 "
        "bias=0.0\n"
        "  c = Conv(q, w)\n  r = Relu(c)\n  n = LRN(x) size=3 alpha=-9.0\n"
        "  y = MaxPool(n) kernel_shape=[2, 2]\n  output r, y\n}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qg_ctx *ctx = *state;
        qg_model m;
        ctx->registry = &qg_ops_registry;
        model_of_text(ctx, texts[i], &m);
        qg_tensor x = m.graph->input.at[0]->type, out[2][2] = { 0 };
        fill_seeded(ctx, &x, 3);
        for (int reference = 0; reference < 2; reference++) {
            qg_session *s;
            qg_session_options o = session_options("float");
            o.reference_kernels = reference;
            assert_ok(ctx, qg_session_new(&m, &o, &s));
            for (int k = 0; k < 2; k++) {
                qg_tensor *y = &out[reference][k];
                *y = m.graph->output.at[k]->type;
                assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, y));
            }
            assert_session_ok(s, qg_session_run(s, &x, 1, out[reference], 2));
            qg_session_free(s);
        }
        for (int k = 0; k < 2; k++) {
            int64_t strange = 0;
            for (int64_t j = 0; j < qg_tensor_count(&out[1][k]); j++) {
                strange += isnan(out[1][k].f32[j]);
                assert_int_equal(isnan(out[0][k].f32[j]), isnan(out[1][k].f32[j]));
            }
            assert_cmp_int(strange, >, 8);
        }
        qg_graph_free(m.graph);
    }
}

static void wrong_inputs_are_named(void **state)
{
    qg_ctx *ctx = *state;
    qg_model m;
    qg_session *s;
    float data[7] = { 0 };
    qg_tensor x, good, y[5] = { 0 };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, branches, &m);
    assert_ok(ctx, qg_session_new(&m, NULL, &s));
    qg_tensor_init(&good, QG_F32, 2, (int64_t[]){ 2, 3 });
    good.f32 = data;
    assert_session_fails(s, qg_session_run(s, &good, 0, y, 4), QG_EDATA,
                         "run: 0 inputs, expected 1");
    assert_session_fails(s, qg_session_run(s, &good, 1, y, 5), QG_EDATA,
                         "run: 5 outputs, expected at most 4");
    qg_tensor_init(&x, QG_F32, 2, (int64_t[]){ 3, 2 });
    x.f32 = data;
    assert_session_fails(s, qg_session_run(s, &x, 1, y, 4), QG_EDATA,
                         "input 'x': is float32[3,2], expected float32[2,3]");
    x = good;
    x.rank = 1000;
    assert_session_fails(s, qg_session_run(s, &x, 1, y, 4), QG_EDATA,
                         "input 'x': is not a tensor");
    x = good;
    x.stride[0] = 4;
    assert_session_fails(s, qg_session_run(s, &x, 1, y, 4), QG_EDATA, "has strides");
    x = good;
    x.data = NULL;
    assert_session_fails(s, qg_session_run(s, &x, 1, y, 4), QG_EDATA, "has no data");
    x.data = (char *)data + 1;
    assert_session_fails(s, qg_session_run(s, &x, 1, y, 4), QG_EDATA, "not aligned");
    data[5] = NAN;
    assert_session_fails(s, qg_session_run(s, &good, 1, y, 4), QG_EDATA,
                         "run: input 'x' contains NaN, expected numbers");
    data[5] = 0;
    y[1].data = data;
    y[1].rank = 77;
    assert_session_fails(s, qg_session_run(s, &good, 1, y, 4), QG_EDATA,
                         "run: output 'a': is float32[2,3], expected another type");
    assert_null(y[0].data);
    assert_session_fails(s, qg_session_output_type(s, 4, y), QG_ECONFIG, "output 4");
    qg_session_free(s);
    qg_model_close(&m);
}

static void wrong_options_are_named(void **state)
{
    qg_ctx *ctx = *state;
    qg_model m;
    qg_session *s;
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, branches, &m);
    qg_session_options o = session_options("simulate");
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ESTATE, "not quantized");
    o = session_options("fast");
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG, "mode 'fast'");
    o = session_options(NULL);
    o.n_keep = 1;
    o.keep = (const char *const[]){ "zz" };
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG, "keep 'zz': no such");
    o.keep = (const char *const[]){ "x" };
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG, "is an input");
    o = session_options(NULL);
    qg_session_hook hook = { .select = "Conv_9.*", .see = only_look };
    o.hook = &hook;
    o.n_hook = 1;
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG,
                 "hook 'Conv_9.*': matches no endpoint");
    hook.see = NULL;
    assert_fails(ctx, qg_session_new(&m, &o, &s), QG_ECONFIG,
                 "hook 0: has no function");
    struct {
        qg_session_options known;
        void *newer;
    } later = { .known = session_options(NULL), .newer = &m };
    later.known.size = sizeof later;
    assert_fails(ctx, qg_session_new(&m, &later.known, &s), QG_ECONFIG,
                 "options: qg_session_options: a field after byte");
    o.mode = "fast";
    o.size = offsetof(qg_session_options, mode); /* an older caller: knows no mode */
    assert_ok(ctx, qg_session_new(&m, &o, &s));
    qg_session_free(s);
    qg_session_free(NULL);
    qg_model_close(&m);
}

/* Mode integer folds the quantizers of a file; other sessions of the model go on. */
static void integers_leave_the_model_as_it_is(void **state)
{
    qg_ctx *ctx;
    qg_session *floats, *integers;
    qg_session_options o = session_options("integer");
    qg_tensor y = { 0 };
    (void)state;
    o.profile = "onnxruntime-x86-vnni";
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_model *m = model_of_file(ctx, "tests/fuzz/corpus/qdq_import/conv.onnx", NULL);
    size_t nodes = m->graph->node.n;
    qg_tensor x = m->graph->input.at[0]->type;
    fill_seeded(ctx, &x, 1);
    assert_ok(ctx, qg_session_new(m, NULL, &floats));
    assert_session_ok(floats, qg_session_run(floats, &x, 1, &y, 1));
    float first = y.f32[0];
    assert_ok(ctx, qg_session_new(m, &o, &integers));
    assert_session_ok(integers, qg_session_run(integers, &x, 1, &y, 1));
    assert_float_equal(y.f32[0], first, 0.11); /* a step */
    assert_int_equal(m->graph->node.n, nodes);
    assert_false(qg_model_is_quantized(m));
    assert_session_ok(floats, qg_session_run(floats, &x, 1, &y, 1));
    assert_float_equal(y.f32[0], first, 0);
    qg_session_free(integers);
    qg_session_free(floats);
    qg_model_close(m);
    qg_close(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(gives_the_bits_of_a_run),
             cmocka_unit_test(simulates_the_bits_of_a_run),
             cmocka_unit_test(integers_are_kept_and_not_hooked),
             WITH_CTX(outputs_are_copied_or_lent),
             cmocka_unit_test(second_run_allocates_nothing),
             cmocka_unit_test(any_request_may_fail),
             cmocka_unit_test(kept_values_are_what_hooks_saw),
             cmocka_unit_test(forks_run_at_the_same_time), WITH_CTX(data_decide_dims),
             WITH_CTX(open_shapes_are_given), WITH_CTX(clamps_keep_nan),
             WITH_CTX(wrong_inputs_are_named), WITH_CTX(wrong_options_are_named),
             cmocka_unit_test(integers_leave_the_model_as_it_is))

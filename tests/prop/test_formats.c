/* Formats there and back: for random records on a network with forks, shared
 * constants and inner outputs, import(export(x)) computes what x computes, bit for
 * bit, unless the loss report says that something else will be computed. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "engine/exec/run.h"
#include "engine/formats/formats.h"
#include "engine/formats/table.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/quant/tqc_check.h"
#include "ops/families.h"

enum { SEED = 1, ROUNDS = 60, OUTPUTS = 3, MOST = 256 };

static const char network[] =
    "graph \"g\" {\n"
    "  opset 13; opset \"org.openvinotoolkit\" 1\n"
    "  x = input f32[1,4,8,8]\n"
    "  w0 = const f32[6,4,3,3] seed(1); b0 = const f32[6] seed(2)\n"
    "  w1 = const f32[6,6,1,1] seed(3); w2 = const f32[72,5] seed(4)\n"
    "  low = const f32[] [0.0]; high = const f32[] [0.9]\n"
    "  c0 = Conv c0 (x, w0, b0) pads=[1, 1, 1, 1]\n"
    "  r0 = Clip r0 (c0, low, high)\n"
    "  c1 = Conv c1 (r0, w1)\n"
    "  c2 = Conv c2 (r0, w1)\n"
    "  a0 = Add a0 (c1, r0)\n"
    "  s0 = Sigmoid s0 (a0)\n"
    "  k0 = Concat k0 (s0, c2) axis=1\n"
    "  p0 = MaxPool p0 (k0) kernel_shape=[2, 2] strides=[2, 2]\n"
    "  m0 = AveragePool m0 (p0) kernel_shape=[2, 2] strides=[2, 2]\n"
    "  f0 = Flatten f0 (m0)\n"
    "  t0 = Transpose t0 (p0) perm=[0, 2, 3, 1]\n"
    "  y = MatMul y0 (f1, w2)\n"
    "  sq = const i64[2] [1, 72]\n"
    "  e0 = Concat e0 (f0, f0, f0) axis=1\n"
    "  f1 = Reshape f1 (e1, sq)\n"
    "  e1 = Slice e1 (e0, st, en, ax)\n"
    "  st = const i64[1] [0]; en = const i64[1] [72]; ax = const i64[1] [1]\n"
    "  output y, t0, a0\n"
    "}\n";

typedef struct fixture {
    qg_ctx *ctx;
    qg_rng rng;
    char folder[40];
    qg_rounding rounding; /* the format's own */
    bool float8;          /* it can say floating-point grids */
    bool per_value;       /* it has one grid per value: so have the records */
    bool openvino;        /* no activation has 65536 levels */
    bool plain;           /* one scale per tensor, all codes of the bits */
    const char *file, *model;
} fixture;

static void setup(fixture *f, uint64_t seed)
{
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc), .rng = { seed } };
    assert_non_null(f->ctx);
    f->ctx->registry = &qg_ops_registry;
    memcpy(f->folder, "/tmp/qg_formats_XXXXXX", 23);
    assert_non_null(mkdtemp(f->folder));
    f->file = qg_path_join(f->ctx->arena, f->folder, "x.json");
    f->model = qg_path_join(f->ctx->arena, f->folder, "x.onnx");
}

static void teardown(fixture *f)
{
    unlink(f->file);
    unlink(f->model);
    assert_int_equal(rmdir(f->folder), 0);
    qg_ctx_free(f->ctx);
}

/* --- random snapshots --- */

/* E4M3 or E5M2, whole. */
static void make_float8(qg_rng *r, qg_scheme *s)
{
    bool wide = qg_rng_below(r, 2) == 0;
    s->policy = (uint16_t)((s->policy & (QG_PER_TENSOR | QG_PER_CHANNEL)) |
                           QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2);
    s->rounding = QG_ROUND_HALF_EVEN;
    s->bits = 8;
    s->exponent_bits = wide ? 5 : 4;
    s->qmax = wide ? 57344 : 448;
    s->qmin = -s->qmax;
}

static qg_scheme random_scheme(fixture *f, const qg_tensor *type, bool constant)
{
    qg_rng *r = &f->rng;
    static const uint8_t bits[] = { 8, 8, 8, 4, 16, 6, 7 };
    qg_scheme s = { .rounding = (uint8_t)f->rounding, .axis = -1, .bits = 8 };
    bool channel = type->rank >= 2 && qg_rng_below(r, 3) == 0 && !f->plain;
    bool symmetric = qg_rng_below(r, constant ? 4 : 2) > 0;
    int64_t half;
    s.bits = bits[qg_rng_below(r, constant ? 7 : 5)];
    half = INT64_C(1) << (s.bits - 1);
    s.policy = (uint16_t)(QG_LINEAR | (channel ? QG_PER_CHANNEL : QG_PER_TENSOR) |
                          (symmetric ? QG_SYMMETRIC : QG_ASYMMETRIC));
    if (channel)
        s.axis = (int16_t)qg_rng_below(r, 2);
    s.qmin = symmetric || qg_rng_below(r, 2) ? -half : 0;
    s.qmax = s.qmin + 2 * half - 1;
    if (symmetric && qg_rng_below(r, 3) == 0 && !f->plain)
        s.qmin++;
    if (f->openvino && s.bits == 16 && !constant && s.qmax - s.qmin == 65535)
        s.qmax--; /* 65536 levels of an activation are told to be lost */
    if (f->float8 && qg_rng_below(r, 4) == 0)
        make_float8(r, &s);
    return s;
}

static void record_any(fixture *f, qg_quant *q, qg_node *n, bool is_output,
                       uint32_t slot)
{
    const qg_value *v = is_output ? n->out[slot] : n->in[slot];
    qg_tqc *t;
    bool twice = !is_output && n->n_in > 1 && n->in[0] == n->in[1];
    if (!v || v->type.dtype != QG_F32 || qg_rng_below(&f->rng, 3) == 0 ||
        (twice && qg_rng_below(&f->rng, 8) > 0))
        return;
    qg_scheme s = random_scheme(f, &v->type, v->constant != NULL);
    size_t n_param = (size_t)qg_scheme_param_count(&s, &v->type);
    float scale[MOST];
    int32_t offset[MOST];
    assert_cmp_int(n_param, <=, MOST);
    for (size_t i = 0; i < n_param; i++) {
        scale[i] = qg_rng_range(&f->rng, 0.5f, 3) / (float)(s.qmax - s.qmin);
        offset[i] = s.policy & QG_SYMMETRIC
                        ? 0
                        : (int32_t)(s.qmin + (int64_t)qg_rng_below(
                                                 &f->rng, (uint64_t)(s.qmax - s.qmin)));
    }
    assert_ok(f->ctx, qg_quant_add(q, n, is_output, slot, &s, &t));
    assert_ok(f->ctx, qg_tqc_set_param(q, t, n_param, scale, offset));
    assert_ok(f->ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    if (v->constant)
        assert_ok(f->ctx, qg_tqc_set_state(q, t, QG_TQC_BAKED));
}

/* Per value: at the output that makes it, else the same at each reader. */
static void record(fixture *f, qg_quant *q, qg_node *n, bool is_output, uint32_t slot)
{
    const qg_value *v = is_output ? n->out[slot] : n->in[slot];
    qg_rng all = f->rng;
    if (!f->per_value) {
        record_any(f, q, n, is_output, slot);
        return;
    }
    if (!v || (!is_output && v->def))
        return;
    f->rng = (qg_rng){ all.state + 1000 * (v->id + 1) };
    record_any(f, q, n, is_output, slot);
    f->rng = all;
}

static qg_quant *random_snapshot(fixture *f, const qg_backend *b)
{
    qg_graph *g = NULL;
    qg_quant *q = NULL;
    qg_text_source text = { NULL, network, sizeof network - 1, NULL };
    assert_ok(f->ctx, qg_text_parse(f->ctx, &text, &g));
    assert_ok(f->ctx, qg_graph_normalize(g));
    assert_ok(f->ctx, qg_infer(g, NULL, 0));
    assert_ok(f->ctx, qg_quant_new(g, b, &q));
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        n->platform = QG_PLATFORM_QUANTIZED;
        for (uint32_t k = 0; k < n->n_in; k++)
            record(f, q, n, false, k);
        for (uint32_t k = 0; k < n->n_out; k++)
            record(f, q, n, true, k);
    }
    assert_ok(f->ctx, qg_check_tqcs(f->ctx, q, QG_CHECK_ALL));
    return q;
}

/* --- what they compute --- */

/* All outputs one after the other, in the context's arena. */
static float *simulate(fixture *f, const qg_quant *q, size_t *n)
{
    qg_plan *p = NULL;
    qg_run *r = NULL;
    qg_tensor x = q->graph->input.at[0]->type;
    const qg_tensor *in[] = { &x };
    qg_rng rng = { 77 };
    qg_plan_options o = { .mode = QG_MODE_SIMULATE, .quant = q, .reference = true };
    assert_ok(f->ctx, qg_tensor_alloc(f->ctx, f->ctx->arena, &x));
    for (int64_t i = 0; i < qg_tensor_count(&x); i++)
        x.f32[i] = qg_rng_range(&rng, -1, 1);
    assert_ok(f->ctx, qg_plan_new(f->ctx, q->graph, &o, &p));
    assert_ok(f->ctx, qg_run_new(f->ctx, p, &r));
    assert_ok(f->ctx, qg_run_execute(r, in, NULL, 0, 0));
    float *all = QG_NEWN(f->ctx->arena, 4096, float);
    *n = 0;
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        const qg_tensor *y = qg_run_output(r, i);
        size_t count = (size_t)qg_tensor_count(y);
        assert_cmp_int(*n + count, <=, 4096);
        memcpy(all + *n, y->f32, count * sizeof *all);
        *n += count;
    }
    qg_run_free(r);
    qg_plan_free(p);
    return all;
}

/* Whether a reader will compute something else, by the report. */
static bool is_told(const qg_export *e)
{
    for (size_t i = 0; i < e->loss.n; i++) {
        const qg_loss *l = &e->loss.at[i];
        if (l->computes || strstr(l->text, "last bit"))
            return true;
    }
    return false;
}

static const qg_backend backend = { .name = "test-int8" };

/* OpenVINO rounds the pairs of a file as a FakeQuantize does, others do not: the reader
 * cannot know for whom the file is. */
static void read_as_openvino(qg_quant *q)
{
    for (size_t i = 0; i < q->tqc.n; i++)
        if (q->tqc.at[i]->scheme.policy & QG_LINEAR)
            q->tqc.at[i]->scheme.rounding = QG_ROUND_HALF_EVEN_LEVEL;
}

/* True when the round trip had to give the same bits. */
static bool round_trip(fixture *f, const char *format, const char *const *option)
{
    qg_snapshot_info info = { .coverage = NULL };
    const qg_format *row;
    assert_ok(f->ctx, qg_format_named(f->ctx, format, &row));
    bool pair = row->needs_model;
    f->openvino = strncmp(format, "openvino", 8) == 0 && f->rng.state % 4 > 0;
    const bool openvino = option && option[QG_FORMAT_PLACEMENT] &&
                          strcmp(option[QG_FORMAT_PLACEMENT], "openvino") == 0;
    f->rounding = openvino ? QG_ROUND_HALF_EVEN_LEVEL : row->rounding;
    f->per_value = row->table && row->table->put;
    f->plain = f->per_value && f->rng.state % 2;
    f->float8 = row->says & QG_SAYS_FLOATING && !f->plain;
    qg_quant *q = random_snapshot(f, &backend);
    qg_export e = {
        .ctx = f->ctx, .quant = q, .info = &info, .path = pair ? f->file : f->model
    };
    qg_import i = { .ctx = f->ctx, .path = e.path, .model = pair ? f->model : NULL };
    size_t n, m;
    assert_ok(f->ctx, qg_export_begin(&e, format, option));
    assert_ok(f->ctx, qg_export_run(&e, false));
    bool told = is_told(&e);
    assert_ok(f->ctx, qg_format_import(&i, format));
    if (openvino)
        read_as_openvino(i.quant);
    assert_ok(f->ctx, qg_check_tqcs(f->ctx, i.quant, QG_CHECK_ALL));
    float *want = simulate(f, q, &n), *got = simulate(f, i.quant, &m);
    assert_int_equal(n, m);
    if (!told && memcmp(want, got, n * sizeof *want) != 0)
        fail_msg("%s: other results without a word in the report", format);
    qg_export_end(&e);
    qg_graph_free(i.graph);
    qg_graph_free(q->graph);
    return !told;
}

static void try_format(const char *format, const char *const *option, int least)
{
    int same = 0;
    for (uint64_t k = 0; k < ROUNDS; k++) {
        fixture f;
        setup(&f, SEED + k);
        print_message("%s seed %llu\n", format, (unsigned long long)(SEED + k));
        same += round_trip(&f, format, option);
        teardown(&f);
    }
    print_message("%s: %d of %d exact\n", format, same, ROUNDS);
    if (same < least)
        fail_msg("%s: only %d of %d round trips are told to be exact", format, same,
                 ROUNDS);
}

static void openvino_fq_there_and_back(void **state)
{
    (void)state;
    try_format("openvino-fq", NULL, ROUNDS / 4);
}

static void openvino_fq_with_float_weights(void **state)
{
    (void)state;
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_WEIGHTS] = "float" };
    try_format("openvino-fq", option, ROUNDS / 4);
}

static void onnx_qdq_there_and_back(void **state)
{
    (void)state;
    try_format("onnx-qdq", NULL, ROUNDS / 4);
}

static void onnx_qdq_for_openvino(void **state)
{
    (void)state;
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_PLACEMENT] = "openvino" };
    try_format("onnx-qdq", option, ROUNDS / 8); /* 4 bits have types of 8: told */
}

static void onnx_qoperator_there_and_back(void **state)
{
    (void)state;
    try_format("onnx-qoperator", NULL, ROUNDS / 8);
}

static void ppq_json_there_and_back(void **state)
{
    (void)state;
    try_format("ppq-json", NULL, ROUNDS / 8);
}

static void with_version(const char *format, const char *version, int least)
{
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_VERSION] = version };
    try_format(format, option, least);
}

static void aimet_there_and_back(void **state)
{
    (void)state;
    with_version("aimet", "0.4.0", ROUNDS / 8);
    with_version("aimet", "0.6.1", ROUNDS / 8);
    with_version("aimet", "1.0.0", ROUNDS / 8);
    with_version("aimet", "2.0.0", ROUNDS / 8);
}

/* Weights are not in the files. */
static void tensorrt_there_and_back(void **state)
{
    (void)state;
    try_format("tensorrt-json", NULL, 0);
    with_version("tensorrt-cache", "10.3.0", 0);
}

static void csv_there_and_back(void **state)
{
    (void)state;
    try_format("csv", NULL, ROUNDS);
}

/* It has layers alone, and multipliers in place of scales. */
static void ncnn_there_and_back(void **state)
{
    (void)state;
    try_format("ncnn-table", NULL, 0);
}

QG_TEST_MAIN(cmocka_unit_test(openvino_fq_there_and_back),
             cmocka_unit_test(openvino_fq_with_float_weights),
             cmocka_unit_test(onnx_qdq_there_and_back),
             cmocka_unit_test(onnx_qdq_for_openvino),
             cmocka_unit_test(onnx_qoperator_there_and_back),
             cmocka_unit_test(ppq_json_there_and_back),
             cmocka_unit_test(aimet_there_and_back),
             cmocka_unit_test(tensorrt_there_and_back),
             cmocka_unit_test(csv_there_and_back),
             cmocka_unit_test(ncnn_there_and_back))

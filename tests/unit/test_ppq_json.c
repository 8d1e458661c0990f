/* formats/ppq/json.h: what the fuzzer's seed means, and what is refused with which
 * words. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/file.h"
#include "engine/formats/ppq/json.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/quant/tqc_text.h"
#include "ops/families.h"

/* As in tests/fuzz/fuzz_ppq_json.c. */
static const char network[] =
    "graph \"g\" {\n"
    "  opset 13\n"
    "  x = input f32[1,2,4,4]\n"
    "  w = const f32[3,2,1,1] seed(1); b = const f32[3] seed(2)\n"
    "  c = Conv c (x, w, b)\n"
    "  r = Relu r (c)\n"
    "  a = Add a (r, r)\n"
    "  s = Shape s (a)\n"
    "  output a, s\n"
    "}\n";

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
    qg_quant *q;
    char *text; /* of the seed */
    size_t size;
} fixture;

static void setup(fixture *f)
{
    qg_text_source from = { NULL, network, sizeof network - 1, NULL };
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &from, &f->g));
    assert_ok(f->ctx, qg_graph_normalize(f->g));
    assert_ok(f->ctx, qg_infer(f->g, NULL, 0));
    qg_file_request file = { "read", "tests/fuzz/corpus/ppq_json/network.json",
                             1 << 20 };
    assert_ok(f->ctx, qg_file_text(f->ctx, f->ctx->arena, file, &f->text, &f->size));
}

static void teardown(fixture *f)
{
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
}

static void the_seed_is_understood(void **state)
{
    (void)state;
    fixture f;
    char *text;
    setup(&f);
    assert_ok(f.ctx, qg_ppq_json_parse(f.g, "seed", f.text, f.size, &f.q));
    assert_ok(f.ctx, qg_quant_text(f.q, QG_TQC_BRIEF, f.ctx->arena, &text));
    assert_string_equal(text, "c.in0 activated 0.1\n"
                              "c.in1 baked [3] 0.1 0.2 0.3\n"
                              "c.in2 passive-baked [3] 0.01 0.02 0.03\n"
                              "c.out0 overlapped -> r.out0\n"
                              "r.in0 overlapped -> r.out0\n"
                              "r.out0 activated 0.05\n"
                              "a.in0 passive -> r.out0\n"
                              "a.in1 passive -> r.out0\n"
                              "a.out0 initial\n");
    assert_string_equal(f.q->backend->name, "imported from ppq-json TRT_INT8");
    assert_int_equal(qg_graph_node(f.g, "s")->platform, QG_PLATFORM_SOI);
    assert_int_equal(f.q->tqc.at[1]->scheme.axis, 0);
    teardown(&f);
}

/* The text with `from` replaced by `to`. */
static char *replaced(fixture *f, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("the seed lacks %s", from);
    return qg_arena_printf(f->ctx->arena, "%.*s%s%s", (int)(at - text), text, to,
                           at + strlen(from));
}

/* Add(r, r) in PPQ: the first slot leads, but only the last one is in the file. */
static void a_leader_that_is_left_out_is_found(void **state)
{
    (void)state;
    fixture f;
    char *text;
    setup(&f);
    text = replaced(&f, f.text, "\"hash\": 7, \"dominator\": 6",
                    "\"hash\": 7, \"dominator\": 70");
    text = replaced(&f, text, "\"values\": {",
                    "\"values\": {\"70\": {\"scale\": 0.5, \"zero_point\": 0.0}, ");
    assert_ok(f.ctx, qg_ppq_json_parse(f.g, "seed", text, strlen(text), &f.q));
    assert_ok(f.ctx, qg_quant_text(f.q, QG_TQC_BRIEF, f.ctx->arena, &text));
    assert_non_null(strstr(text, "a.in0 activated 0.5\na.in1 passive -> a.in0\n"));
    teardown(&f);
}

/* Older releases of PPQ declare EXPONENTIAL where FLOATING is now, and no DYNAMIC. */
static void policies_of_older_releases_are_read(void **state)
{
    (void)state;
    fixture f;
    setup(&f);
    char *text = f.text;
    while (strstr(text, "FLOATING"))
        text = replaced(&f, text, "FLOATING", "EXPONENTIAL");
    while (strstr(text, ", \"DYNAMIC\": false"))
        text = replaced(&f, text, ", \"DYNAMIC\": false", "");
    assert_ok(f.ctx, qg_ppq_json_parse(f.g, "seed", text, strlen(text), &f.q));
    assert_int_equal(f.q->tqc.at[0]->scheme.policy,
                     QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC);
    teardown(&f);
}

static void refused(const char *from, const char *to, qg_status status, const char *why)
{
    fixture f;
    setup(&f);
    char *changed = replaced(&f, f.text, from, to);
    assert_fails(f.ctx, qg_ppq_json_parse(f.g, "seed", changed, strlen(changed), &f.q),
                 status, why);
    teardown(&f);
}

static void faults_are_named(void **state)
{
    (void)state;
    refused("\"ACTIVATED\"", "\"AWAKE\"", QG_EPARSE,
            "read seed: configs.c.x.state: 'AWAKE', expected a state of PPQ 0.6.6");
    refused("\"bit_width\": 8", "\"bit_width\": 1", QG_EPARSE,
            "configs.c.x.bit_width: is 1, expected 2 to 32");
    refused("\"quant_max\": 127", "\"quant_max\": 128", QG_ECONFIG,
            "import: c.in0: range [-128, 128] does not fit 8 bits");
    refused("\"PER_TENSOR\": true, ", "", QG_EPARSE, "configs.c.x.policy");
    refused(
        "\"FLOATING\": false", "\"EXPONENTIAL\": true", QG_EPARSE,
        "configs.c.x.policy.EXPONENTIAL: is true, expected false: PPQ declares this "
        "policy and does not implement it");
    refused("\"x\": {", "\"q\": {", QG_EPARSE,
            "configs.c: describes 4 values, the node has 3 of them");
    refused("\"r\": {\"c\"", "\"q\": {\"c\"", QG_EPARSE,
            "configs: describes 3 nodes, the model has 2 of them");
    refused("\"s\": \"SOI\"", "\"q\": \"SOI\"", QG_EPARSE,
            "dispatchings.q: the model has no such node");
    refused("\"dominator\": 6", "\"dominator\": 77", QG_EPARSE,
            "does not name a root record");
    refused("\"scale\": 0.05", "\"scale\": 0.0", QG_EPARSE,
            "entry 0 is not a scale and zero point");
    refused("\"scale\": 0.05", "\"scale\": [0.1, 0.2]", QG_ESTATE,
            "rule tqc-lengths: r.out0: 2 scales, expected 1");
    refused("\"values\"", "\"value\"", QG_EPARSE, "values");
    refused("{\"configs\"", "[{\"configs\"", QG_EPARSE, "");
}

static void platforms_have_the_names_of_ppq(void **state)
{
    (void)state;
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    assert_string_equal(qg_ppq_platform(a, "trt-int8"), "TRT_INT8");
    assert_string_equal(qg_ppq_platform(a, "ppq-ppl-cuda-int8"), "PPL_CUDA_INT8");
    qg_arena_free(a);
}

QG_TEST_MAIN(cmocka_unit_test(the_seed_is_understood),
             cmocka_unit_test(policies_of_older_releases_are_read),
             cmocka_unit_test(a_leader_that_is_left_out_is_found),
             cmocka_unit_test(faults_are_named),
             cmocka_unit_test(platforms_have_the_names_of_ppq))

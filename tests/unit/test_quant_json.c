/* snapshot/quant_json.h: one document by hand, what its members become, and the words
 * for each that is changed; numbers at their limits are read. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/file.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/snapshot/quant_json.h"
#include "ops/families.h"

static const char network[] = "graph \"g\" {\n  opset 13\n  x = input f32[1,2]\n"
                              "  c = Relu c (x)\n  y = Sigmoid y (c)\n  output y\n}\n";

/* clang-format off */
#define GRID                                                                           \
    "\"policy\": [\"per-tensor\", \"linear\", \"symmetric\"], \"bits\": 8, "           \
    "\"exponent_bits\": 0, \"range\": [-128, 127], "                                   \
    "\"rounding\": \"half-even\", \"axis\": null, \"block\": null, "
#define SCALE(scale) "\"scale\": [" scale "], \"offset\": [0], "
static const char document[] =
    "{\"format\": \"quantgraph/1\", \"manifest\": {\"tool\": \"t\", \"kernels\": null, "
    "\"model\": {\"file\": \"m\", \"sha256\": null, \"written_sha256\": \"w\"}, "
    "\"data\": {\"source\": \"d\", \"sha256\": \"h\", \"samples\": 3}, "
    "\"backend\": {\"name\": \"b\", \"sha256\": null, \"profile\": null, "
      "\"pipeline\": null, "
    "\"placement\": \"trt\", \"rules\": ["
    "{\"kind\": \"rule\", \"id\": \"r1\", \"file\": \"f\", \"line\": 7, \"why\": "
      "\"w\", "
    "\"source\": \"s\"}, "
    "{\"kind\": \"rule\", \"id\": \"r2\", \"file\": null, \"line\": 0, \"why\": null, "
    "\"source\": null}, "
    "{\"kind\": \"fusion\", \"id\": \"f1\", \"line\": 1}, "
    "{\"kind\": \"sharing\", \"id\": \"s1\", \"line\": 2}]}, \"options\": {\"seed\": "
      "\"1\"}}, "
    "\"nodes\": [{\"name\": \"c\", \"platform\": \"quantized\", \"reason\": "
      "\"because\"}, "
    "{\"name\": \"y\", \"platform\": \"quantized\", \"unnamed\": 5, \"reason\": "
      "null}], "
    "\"tqcs\": [{\"id\": 0, \"node\": \"c\", \"slot\": \"in0\", \"state\": "
      "\"ACTIVATED\", " GRID
    "\"observer\": \"minmax\", " SCALE("0.5") "\"visibility\": \"when-active\", "
    "\"rule\": \"r2\", \"dominator\": 0}, "
    "{\"id\": 1, \"node\": \"c\", \"slot\": \"out0\", \"state\": \"ACTIVATED\", " GRID
    "\"observer\": null, " SCALE("0.25") "\"visibility\": \"when-active\", "
    "\"rule\": null, \"dominator\": 1}, "
    "{\"id\": 2, \"node\": \"y\", \"slot\": \"in0\", \"state\": \"OVERLAPPED\", " GRID
    "\"observer\": null, \"scale\": null, \"visibility\": \"when-active\", "
    "\"rule\": null, \"dominator\": 1}], "
    "\"journal\": [{\"tqc\": 2, \"field\": \"dominator\", \"old\": null, "
    "\"new\": \"1\", \"by\": \"fuse\"}, {\"tqc\": 2, \"field\": \"dominator\", "
    "\"old\": \"1\", "
    "\"new\": \"1\", \"by\": \"fuse\"}], "
    "\"coverage\": [{\"pass\": \"p\", \"pattern\": \"q\", \"matched\": 2, "
      "\"near_misses\": ["
    "{\"node\": \"c\", \"condition\": \"k\"}]}]}";

/* One place of the document is replaced; why NULL: it is read. */
static const struct {
    const char *old, *with, *why;
} changes[] = {
    { "quantgraph/1", "quantgraph/2", "is 'quantgraph/2', expected 'quantgraph/1'" },
    { "\"kind\": \"fusion\"", "\"kind\": \"other\"",
      "is 'other', expected rule, fusion or" },
    { "\"line\": 7", "\"line\": 2147483647", NULL },
    { "\"line\": 7", "\"line\": 2147483648",
      "is 2147483648, expected 0 to 2147483647" },
    { "\"line\": 7", "\"line\": -1", "is -1, expected 0 to 2147483647" },
    { "\"samples\": 3", "\"samples\": 9007199254740992", NULL },
    { "\"samples\": 3", "\"samples\": -1", "is -1, expected 0 to 9007199254740992" },
    { "\"tool\": \"t\"", "\"tool\": 1", "tool" },
    { "{\"seed\": \"1\"}", "{\"seed\": 1}", "seed" },
    { "{\"name\": \"c\", \"platform\"", "{\"name\": \"d\", \"platform\"",
      "is 'd', expected 'c' as in the model" },
    { "\"platform\": \"quantized\", \"reason\": \"because\"",
      "\"platform\": \"nowhere\", \"reason\": \"because\"", "is 'nowhere'" },
    { "\"unnamed\": 5", "\"unnamed\": 0", "is 0, expected 1 to 4294967295" },
    { "\"unnamed\": 5", "\"unnamed\": 4294967295", NULL },
    { "\"unnamed\": 5", "\"unnamed\": 4294967296",
      "is 4294967296, expected 1 to 4294967295" },
    { "\"nodes\": [", "\"nodes\": [{\"name\": \"c\"}, ",
      "has 3 entries, the model has 2 nodes" },
    { "\"per-tensor\", \"linear\"", "\"per-row\", \"linear\"",
      "'per-row' is not a policy" },
    { "\"bits\": 8", "\"bits\": 1", "is 1, expected 2 to 32" },
    { "\"bits\": 8", "\"bits\": 33", "is 33, expected 2 to 32" },
    { "\"bits\": 8", "\"bits\": 32", NULL },
    { "\"exponent_bits\": 0", "\"exponent_bits\": 9", "is 9, expected 0 to 8" },
    { "\"exponent_bits\": 0", "\"exponent_bits\": -1", "is -1, expected 0 to 8" },
    { "\"state\": \"ACTIVATED\", ",
      "\"state\": \"DEQUANTIZED\", \"returns_to\": \"ACTIVATED\", ", NULL },
    { "\"observer\": \"minmax\", ",
      "\"observer\": \"minmax\", \"observer_parameters\": {\"percentile\": 0.75}, ",
      NULL },
    { "[-128, 127]", "[-128]", "has 1 numbers, expected 2" },
    { "[-128, 127]", "[-128, 127, 0]", "has 3 numbers, expected 2" },
    { "\"rounding\": \"half-even\"", "\"rounding\": \"half\"", "is 'half'" },
    { "\"axis\": null", "\"axis\": -1", "is -1, expected 0 to 32767" },
    { "\"axis\": null", "\"axis\": 32768", "is 32768, expected 0 to 32767" },
    { "\"block\": null", "\"block\": -1", "is -1, expected 0 to 32767" },
    { "\"block\": null", "\"block\": null, \"nan\": \"zero\"", NULL },
    { "\"axis\": null", "\"nan\": \"none\", \"axis\": null",
      "is 'none', expected keep, lowest, zero or highest" },
    { "\"axis\": null", "\"variant\": [\"odd\"], \"axis\": null",
      "'odd' is not a variant of a grid" },
    { "\"id\": 0, \"node\"", "\"id\": 1, \"node\"", "is 1, expected 0 to 0" },
    { "\"id\": 2, \"node\"", "\"id\": 1, \"node\"", "is 1, expected 2 to 2" },
    { "\"node\": \"c\", \"slot\": \"in0\"", "\"node\": \"z\", \"slot\": \"in0\"",
      "'z' is not in the model" },
    { "\"slot\": \"in0\"", "\"slot\": \"in1\"", "'in1' is not a slot of node 'c'" },
    { "\"slot\": \"in0\"", "\"slot\": \"in\"", "'in' is not a slot of node 'c'" },
    { "\"slot\": \"in0\"", "\"slot\": \"in4294967295\"",
      "'in4294967295' is not a slot" },
    { "\"slot\": \"out0\"", "\"slot\": \"in0\"", "describes c.in0 a second time" },
    { "\"slot\": \"in0\"", "\"slot\": \"0\"", "'0' is not a slot of node 'c'" },
    { "\"ACTIVATED\"", "\"AWAKE\"", "'AWAKE' is not a state" },
    { "\"observer\": null, \"scale\"", "\"returns_to\": \"AWAKE\", \"observer\": "
      "null, \"scale\"",
      "'AWAKE' is not a state" },
    { "[0.5], \"offset\": [0]", "[0.5], \"offset\": []", "has 0 entries, scale has 1" },
    { "[0.5], \"offset\": [0]", "[], \"offset\": []", "has 0 entries, scale has 0" },
    { "[0.5], \"offset\": [0]", "[0], \"offset\": [0]",
      "entry 0 is not a scale and offset" },
    { "[0.5], \"offset\": [0]", "[-1], \"offset\": [0]",
      "entry 0 is not a scale and offset" },
    { "[0.5], \"offset\": [0]", "[0.5], \"offset\": [2147483648]",
      "entry 0 is not a scale and offset" },
    { "[0.5], \"offset\": [0]", "[0.5], \"offset\": [-2147483649]",
      "entry 0 is not a scale and offset" },
    { "\"visibility\": \"when-active\"", "\"visibility\": \"seldom\"", "is 'seldom'" },
    { "\"rule\": \"r2\"", "\"rule\": \"r3\"", "'r3' is not among the backend's rules" },
    { "\"dominator\": 1}]", "\"dominator\": 3}]", "is 3, expected 0 to 2" },
    { "\"dominator\": 1}]", "\"dominator\": -1}]", "is -1, expected 0 to 2" },
    { "\"dominator\": 1}, ", "\"dominator\": 0}, ", "is 1, which is not a root" },
    { "\"dominator\": 1}]", "\"dominator\": 1, \"derived_from\": [0]}]",
      "has 1 ids, expected 2" },
    { "\"dominator\": 1}]", "\"dominator\": 1, \"derived_from\": [0, 3]}]",
      "names TQC 3" },
    { "\"dominator\": 1}]", "\"dominator\": 1, \"derived_from\": [-1, 0]}]",
      "names TQC -1" },
    { "\"tqc\": 2", "\"tqc\": 3", "is 3, expected 0 to 2" },
    { "\"tqc\": 2", "\"tqc\": -1", "is -1, expected 0 to 2" },
    { "\"field\": \"dominator\"", "\"field\": null", "field" },
    { "\"matched\": 2", "\"matched\": 4294967295", NULL },
    { "\"matched\": 2", "\"matched\": 4294967296",
      "is 4294967296, expected 0 to 4294967295" },
    { "\"matched\": 2", "\"matched\": -1", "is -1, expected 0 to 4294967295" },
    { "\"condition\": \"k\"", "\"condition\": null", "condition" },
    { "\"tqcs\"", "\"floats\": {\"type\": \"float16\", \"inputs\": {\"x\": "
      "\"float16\"}, "
      "\"outputs\": {\"y\": \"float16\"}, \"float32_nodes\": [\"c\"]}, \"tqcs\"",
      NULL },
    { "\"tqcs\"", "\"floats\": {\"type\": \"float8\", \"inputs\": {}, \"outputs\": "
      "{}, "
      "\"float32_nodes\": []}, \"tqcs\"",
      "is 'float8', expected float16 or bfloat16" },
    { "\"tqcs\"", "\"floats\": {\"type\": \"bfloat16\", \"inputs\": {\"c\": "
      "\"float16\"}, "
      "\"outputs\": {}, \"float32_nodes\": []}, \"tqcs\"",
      "names no float32 value of the model's interface" },
    { "\"tqcs\"", "\"floats\": {\"type\": \"bfloat16\", \"inputs\": {}, "
      "\"outputs\": {}, "
      "\"float32_nodes\": [\"z\"]}, \"tqcs\"", "names no node of the model" },
};
/* clang-format on */

static qg_graph *parsed(qg_ctx *ctx)
{
    qg_graph *g;
    ctx->registry = &qg_ops_registry;
    const qg_text_source text = { NULL, network, sizeof network - 1, NULL };
    assert_ok(ctx, qg_text_parse(ctx, &text, &g));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    return g;
}

static qg_status load(qg_graph *g, const char *text, qg_quant **q,
                      qg_snapshot_info *info)
{
    const qg_json_source from = { .name = "q.json",
                                  .bytes = text,
                                  .size = strlen(text) };
    return qg_quant_json_parse(g, &from, q, info);
}

/* What is written, without blanks and ends of lines. */
static const char *written(qg_ctx *ctx, const qg_quant *q, const qg_snapshot_info *info)
{
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_ok(ctx, qg_quant_json_write(q, info, stream));
    assert_int_equal(fclose(stream), 0);
    char *copy = qg_arena_strdup(ctx->arena, text), *to = copy;
    for (const char *from = text; *from; from++)
        if (!strchr(" \n", *from))
            *to++ = *from;
    *to = '\0';
    free(text);
    return copy;
}

static const char *without_blanks(qg_ctx *ctx, const char *text)
{
    char *copy = qg_arena_strdup(ctx->arena, text), *to = copy;
    for (; *text; text++)
        if (*text != ' ')
            *to++ = *text;
    *to = '\0';
    return copy;
}

/* The verifier sees the offset: it is read. */
static void offsets_are_read(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx);
    qg_quant *q;
    qg_snapshot_info info;
    const char *at = strstr(document, "\"offset\": [0]");
    const char *text =
        qg_arena_printf(ctx->arena, "%.*s\"offset\": [1]%s", (int)(at - document),
                        document, at + strlen("\"offset\": [0]"));
    assert_fails(ctx, load(g, text, &q, &info), QG_ESTATE,
                 "c.in0: offset[0] is 1, expected 0: symmetric");
    qg_graph_free(g);
}

/* An endpoint without a scale has null; a group lists who made it. */
static void groups_are_listed(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx);
    qg_quant *q;
    qg_snapshot_info info;
    assert_ok(ctx, load(g, document, &q, &info));
    const char *text = written(ctx, q, &info);
    const char *const parts[] = {
        "\"groups\":[{\"root\":1,\"members\":[1,2],\"made_by\":[\"fuse\"]}]",
        "\"journal\":[{\"seq\":0,\"tqc\":2,\"field\":\"dominator\",",
        "\"coverage\":[{\"pass\":\"p\",\"pattern\":\"q\",\"matched\":2,",
        "\"near_misses\":[{\"node\":\"c\",\"condition\":\"k\"}]}]",
        "\"scale\":[0.5],\"offset\":[0]",
        "\"kind\":\"fusion\",\"id\":\"f1\",\"file\":null,\"line\":1",
        "\"kind\":\"sharing\",\"id\":\"s1\"",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("lacks %s:\n%s", parts[i], text);
    assert_null(strstr(text, "\"nan\"")); /* as documents before it had none */
    qg_graph_free(g);
}

static void members_become_records(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx);
    qg_quant *q;
    qg_snapshot_info info;
    assert_ok(ctx, load(g, document, &q, &info));
    const qg_manifest *m = &info.manifest;
    assert_string_equal(m->tool, "t");
    assert_null(m->kernels);
    assert_string_equal(m->model_file, "m");
    assert_string_equal(m->snapshot_sha256, "w");
    assert_string_equal(m->data, "d");
    assert_string_equal(m->data_sha256, "h");
    assert_int_equal(m->samples, 3);
    assert_int_equal(m->n_option, 1);
    assert_string_equal(m->option[0], "seed");
    assert_string_equal(m->option[1], "1");
    const qg_backend *b = q->backend;
    assert_string_equal(b->name, "b");
    assert_string_equal(b->placement, "trt");
    assert_int_equal(b->rule.n, 2);
    assert_int_equal(b->fusion.n, 1);
    assert_int_equal(b->sharing.n, 1);
    assert_string_equal(b->rule.at[0].origin.id, "r1");
    assert_int_equal(b->rule.at[0].origin.line, 7);
    assert_string_equal(b->rule.at[0].origin.why, "w");
    assert_null(b->rule.at[1].origin.file);
    assert_string_equal(b->sharing.at[0].origin.id, "s1");
    const qg_node *c = qg_graph_node(g, "c"), *y = qg_graph_node(g, "y");
    assert_int_equal(c->platform, QG_PLATFORM_QUANTIZED);
    assert_string_equal(c->reason, "because");
    assert_int_equal(y->file_unnamed, 5);
    assert_int_equal(q->tqc.n, 3);
    const qg_tqc *in = qg_input_tqc(c, 0), *out = qg_output_tqc(c, 0);
    assert_int_equal(in->rule, 1);
    assert_int_equal(out->rule, QG_NONE);
    assert_string_equal(in->observer.name, "minmax");
    assert_cmp_f64(qg_tqc_param(in).scale[0], ==, 0.5);
    assert_cmp_f64(qg_tqc_param(out).scale[0], ==, 0.25);
    assert_int_equal(in->scheme.axis, -1);
    assert_ptr_equal(qg_tqc_root(qg_input_tqc(y, 0)), out);
    assert_int_equal(q->journal.n, 2);
    assert_int_equal(q->journal.at[0].tqc, 2);
    assert_string_equal(q->journal.at[0].old_value, "none");
    assert_string_equal(q->journal.at[0].by, "fuse");
    assert_int_equal(info.n_coverage, 1);
    assert_int_equal(info.coverage[0].matched, 2);
    assert_int_equal(info.coverage[0].n_miss, 1);
    assert_string_equal(info.coverage[0].miss[0].condition, "k");
    qg_graph_free(g);
}

/* Written, read and written again: the same bytes. */
static void what_is_written_is_read(void **state)
{
    static const char *const words[] = { "\"samples\": 3",  "\"placement\": \"trt\"",
                                         "\"block\": null", "\"symmetric\"",
                                         "\"linear\"",      "\"per-tensor\"" };
    qg_ctx *ctx = *state;
    char *text[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        qg_graph *g = parsed(ctx);
        qg_quant *q;
        qg_snapshot_info info;
        FILE *stream = open_memstream(&text[i], &size[i]);
        assert_non_null(stream);
        assert_ok(ctx, load(g, i ? text[0] : document, &q, &info));
        assert_ok(ctx, qg_quant_json_write(q, &info, stream));
        assert_int_equal(fclose(stream), 0);
        qg_graph_free(g);
    }
    assert_string_equal(text[0], text[1]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text[0], words[i]))
            fail_msg("lacks %s:\n%s", words[i], text[0]);
    assert_null(strstr(text[0], "variant"));
    assert_null(strstr(text[0], "derived_from"));
    free(text[0]);
    free(text[1]);
}

static void each_change_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_graph *g = parsed(ctx);
        qg_quant *q;
        qg_snapshot_info info;
        const char *at = strstr(document, changes[i].old);
        assert_non_null(at);
        const char *text =
            qg_arena_printf(ctx->arena, "%.*s%s%s", (int)(at - document), document,
                            changes[i].with, at + strlen(changes[i].old));
        qg_status s = load(g, text, &q, &info);
        const char *why = changes[i].why;
        if (why ? s != QG_EPARSE || !strstr(qg_ctx_message(ctx), why) : s != QG_OK)
            fail_msg("%s: '%s', expected '%s'", changes[i].with, qg_ctx_message(ctx),
                     why ? why : "no message");
        if (!why &&
            !strstr(written(ctx, q, &info), without_blanks(ctx, changes[i].with)))
            fail_msg("%s is not written:\n%s", changes[i].with, written(ctx, q, &info));
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(WITH_CTX(offsets_are_read), WITH_CTX(groups_are_listed),
             WITH_CTX(members_become_records), WITH_CTX(what_is_written_is_read),
             cmocka_unit_test(each_change_is_named))

/* The YAML tree and its typed readers: what is read, and the exact complaint
 * otherwise. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/core/suggest.h"
#include "engine/config/yaml.h"

static qg_status parse(qg_ctx *ctx, const char *text, const qg_yaml **out)
{
    return qg_yaml_parse(ctx, ctx->arena, "f.yaml", text, strlen(text), out);
}

static void tree_keeps_order_and_lines(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_yaml *y;
    assert_ok(ctx, parse(ctx, "# comment\nb: 1\na: [x, 'yes']\nc:\n  - {d: e}\n", &y));
    assert_int_equal(y->kind, QG_YAML_MAP);
    assert_int_equal(y->n, 3);
    assert_string_equal(y->key[0], "b");
    assert_string_equal(y->key[2], "c");
    assert_int_equal(qg_yaml_get(y, "a")->line, 3);
    assert_int_equal(qg_yaml_get(y, "a")->item[0]->quoted, false);
    assert_int_equal(qg_yaml_get(y, "a")->item[1]->quoted, true);
    const qg_yaml *d = qg_yaml_get(qg_yaml_get(y, "c")->item[0], "d");
    assert_string_equal(d->text, "e");
    assert_int_equal(d->line, 5);
    assert_string_equal(d->file, "f.yaml");
    assert_null(qg_yaml_get(y, "z"));
    assert_null(qg_yaml_get(d, "z"));
    assert_ok(ctx, parse(ctx, "\xEF\xBB\xBF# marked\nb: 1\n", &y));
    assert_string_equal(y->key[0], "b");
    assert_int_equal(y->line, 2);
    qg_ctx_free(ctx);
}

/* The bytes of a character. */
static void put_utf8(char out[5], unsigned c)
{
    memset(out, 0, 5);
    if (c < 0x80) {
        out[0] = (char)c;
    } else if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
    } else {
        out[0] = (char)(0xf0 | c >> 18);
        out[1] = (char)(0x80 | (c >> 12 & 0x3f));
        out[2] = (char)(0x80 | (c >> 6 & 0x3f));
        out[3] = (char)(0x80 | (c & 0x3f));
    }
}

/* All characters where the special ones are, samples of the others. */
static unsigned next_step(unsigned c)
{
    const bool all = c < 0x3000 || (c >= 0xfe00 && c < 0x10200);
    return all ? 1 : c < 0xfe00 ? 0x100 : 0x1001;
}

/* Between letters and between blanks, where the parser folds line breaks. */
static void every_character_is_written_so_that_it_reads_back(void **state)
{
    (void)state;
    for (unsigned c = 1; c < 0x110000; c += next_step(c)) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        char one[5], text[64], *bytes = NULL;
        size_t size;
        put_utf8(one, c);
        (void)snprintf(text, sizeof text, "a%sb %s c%s", one, one, one);
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        const qg_yaml *y;
        FILE *f = open_memstream(&bytes, &size);
        assert_non_null(f);
        fputs("k: ", f);
        qg_yaml_print_text(f, text);
        fputs("\n", f);
        fclose(f);
        assert_ok(ctx, parse(ctx, bytes, &y));
        assert_string_equal(qg_yaml_get(y, "k")->text, text);
        free(bytes);
        qg_ctx_free(ctx);
    }
}

static void hostile_text_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"",                   "f.yaml:1: the file is empty, expected YAML"},
        { "a: 1\na: 2\n",      "f.yaml:2: key 'a' appears twice in one map"},
        { "a: &x 1\nb: *x\n",  "f.yaml:1: an anchor or tag"                },
        { "a: [1, 2\nb: 3\n",  "f.yaml:2: while parsing a flow sequence"   },
        { "a: 1\n---\nb: 2\n",
         "f.yaml:2: a second document, expected a single document"         },
        { "a: !!int 3\n",      "f.yaml:1: an anchor or tag"                },
        { "? [a]\n: 1\n",      "f.yaml:1: a map or list as key"            },
        { "a: *none\n",        "f.yaml:1: an alias"                        },
        { "'': 1\n",           "f.yaml:1: an empty key"                    },
        { "a: \"x\\0y\"\n",    "f.yaml:1: a zero byte in a text"           },
        { "a: \xff\n",         "expected YAML"                             },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        const qg_yaml *y = NULL;
        assert_fails(ctx, parse(ctx, bad[i].text, &y), QG_EPARSE, bad[i].message);
        assert_null(y);
        qg_ctx_free(ctx);
    }
}

static void depth_is_limited(void **state)
{
    (void)state;
    char text[4 * QG_YAML_DEPTH];
    for (int extra = 0; extra < 2; extra++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        size_t n = QG_YAML_DEPTH + (size_t)extra;
        memset(text, '[', n);
        memset(text + n, ']', n);
        text[2 * n] = 0;
        const qg_yaml *y;
        qg_status s = parse(ctx, text, &y);
        assert_int_equal(s, extra ? QG_EPARSE : QG_OK);
        if (extra)
            assert_string_equal(qg_ctx_message(ctx),
                                "f.yaml:1: more than 64 levels, expected fewer");
        qg_ctx_free(ctx);
    }
}

static void readers_say_what_they_expect(void **state)
{
    (void)state;
    static const char *const keys[] = { "slot", "match", "bits", NULL };
    static const char *const rounding[] = { "half-even", "up", "down", NULL };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_yaml *y, *bits, *mode;
    assert_ok(ctx, parse(ctx, "bits: 99\n\nslots: in0\nmode: half-evn\n", &y));
    assert_fails(ctx, qg_yaml_keys(ctx, y, "rule y", keys), QG_ECONFIG,
                 "f.yaml:3: rule y: unknown key 'slots', did you mean 'slot'");
    bits = qg_yaml_get(y, "bits");
    mode = qg_yaml_get(y, "mode");
    int64_t i = 7;
    double x = 7;
    bool b = true;
    int c = 7;
    const char *t = NULL;
    assert_fails(ctx, qg_yaml_int(ctx, bits, "bits", 2, 32, &i), QG_ECONFIG,
                 "f.yaml:1: bits: '99', expected an integer from 2 to 32");
    assert_fails(ctx, qg_yaml_number(ctx, mode, "p", 0, 1, &x), QG_ECONFIG,
                 "f.yaml:4: p: mode: 'half-evn', expected a number from 0 to 1");
    assert_fails(ctx, qg_yaml_bool(ctx, mode, NULL, &b), QG_ECONFIG,
                 "f.yaml:4: mode: 'half-evn', expected yes or no");
    assert_fails(
        ctx, qg_yaml_choice(ctx, mode, "rounding", rounding, &c), QG_ECONFIG,
        "f.yaml:4: rounding: mode: 'half-evn', did you mean 'half-even', expected "
        "half-even, up or down");
    assert_fails(ctx, qg_yaml_text(ctx, y, "name", &t), QG_ECONFIG,
                 "f.yaml:1: name: a map, expected a text");
    assert_fails(ctx, qg_yaml_need(ctx, y, "rule y", "why", &mode), QG_ECONFIG,
                 "f.yaml:1: rule y: key 'why' is missing");
    assert_int_equal(i, 7);
    assert_true(b);
    assert_int_equal(c, 7);
    assert_null(t);
    assert_cmp_f64(x, ==, 7);
    assert_ok(ctx, qg_yaml_int(ctx, bits, "bits", 2, 99, &i));
    assert_int_equal(i, 99);
    qg_ctx_free(ctx);
}

static void suggestions_are_near(void **state)
{
    (void)state;
    static const struct {
        const char *word, *candidates[3], *best;
    } row[] = {
        {"slots",     { "slot", "source" },           "slot"        },
        { "trt-int9", { "ncnn-int8", "trt-int8" },    "trt-int8"    },
        { "conv",     { "Gemm", "Conv" },             "Conv"        },
        { "wyh",      { "why", "op" },                "why"         },
        { "xyzzy",    { "match", "set" },             NULL          },
        { "tflite",   { "tensorrt", "tflite-micro" }, "tflite-micro"},
        { "trt-cuda", { "tflite", "trt" },            "trt"         },
        { "tf",       { "tensorrt", "tflite-micro" }, NULL          },
        { "vnni",     { "x86-avx2", "x86-vnni" },     "x86-vnni"    },
        { "ort-vnni", { "ort-arm", "ort-x86-vnni" },  "ort-x86-vnni"},
        { "onnx",     { "qonnx", "onnx-qdq" },        "onnx-qdq"    },
        { "Trt",      { "trt-int8", "trt" },          "trt"         },
        { "TRT",      { "ncnn-int8", "trt-int8" },    "trt-int8"    },
        { "X86-VNNI", { "x86-avx2", "arm-x86-vnni" }, "arm-x86-vnni"},
        { "trt-int9", { "trt", "trt-int8" },          "trt-int8"    },
        { "",         { "a", "match" },               "a"           },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        qg_suggest s = qg_suggest_for(row[i].word);
        for (int k = 0; k < 3 && row[i].candidates[k]; k++)
            qg_suggest_try(&s, row[i].candidates[k]);
        if (row[i].best)
            assert_string_equal(s.best, row[i].best);
        else
            assert_null(s.best);
    }
    char text[QG_SUGGEST_TEXT];
    qg_suggest several = qg_suggest_for("json");
    qg_suggest_try(&several, "mnn-json");
    qg_suggest_try(&several, "ppq-json");
    assert_string_equal(qg_suggest_text(&several, text),
                        ", did you mean 'mnn-json' or 'ppq-json'");
}

/* Random damage to a good file gives a tree or a message, never a crash. */
static void damaged_text_never_crashes(void **state)
{
    (void)state;
    static const char good[] = "name: x\nrules:\n  - {id: a, match: {op: [Conv]}}\n"
                               "list: [1, 2]\n";
    for (uint64_t seed = 1; seed <= 300; seed++) {
        qg_rng rng = { seed };
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 3; k++)
            text[qg_rng_below(&rng, sizeof good - 1)] = (char)qg_rng_below(&rng, 256);
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        const qg_yaml *y;
        qg_status s = qg_yaml_parse(ctx, ctx->arena, "f", text, sizeof good - 1, &y);
        if (s != QG_OK && !strstr(qg_ctx_message(ctx), "expected"))
            fail_msg("seed %d: '%s' expects nothing", (int)seed, qg_ctx_message(ctx));
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(cmocka_unit_test(tree_keeps_order_and_lines),
             cmocka_unit_test(every_character_is_written_so_that_it_reads_back),
             cmocka_unit_test(hostile_text_is_refused_with_its_line),
             cmocka_unit_test(depth_is_limited),
             cmocka_unit_test(readers_say_what_they_expect),
             cmocka_unit_test(suggestions_are_near),
             cmocka_unit_test(damaged_text_never_crashes))

/* JSON out and in, and SHA-256. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/core/rng.h"
#include "engine/core/hash.h"
#include "engine/core/json.h"

struct out {
    qg_ctx *ctx;
    char *text;
    size_t size;
    FILE *stream;
    qg_json_writer w;
};

static void start(struct out *o)
{
    o->ctx = qg_ctx_new(qg_alloc_libc);
    o->stream = open_memstream(&o->text, &o->size);
    qg_json_begin(&o->w, o->ctx, o->stream);
}

static qg_status stop(struct out *o)
{
    qg_status s = qg_json_done(&o->w);
    fclose(o->stream);
    return s;
}

static void drop(struct out *o)
{
    free(o->text);
    qg_ctx_free(o->ctx);
}

static const qg_json *parse(qg_ctx *ctx, const char *text)
{
    const qg_json *v = NULL;
    qg_json_source from = { "doc", text, strlen(text) };
    assert_ok(ctx, qg_json_parse(ctx, ctx->arena, &from, &v));
    return v;
}

static void keys_keep_their_order_and_short_arrays_a_line(void **state)
{
    (void)state;
    struct out o;
    start(&o);
    qg_json_writer *w = &o.w;
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "zebra", "a \"b\" \\ \n \x01 \xc3\xa9");
    qg_json_put_array(w, "range");
    qg_json_put_int(w, NULL, -128);
    qg_json_put_int(w, NULL, 127);
    qg_json_put_end(w);
    qg_json_put_array(w, "empty");
    qg_json_put_end(w);
    qg_json_put_object(w, "none");
    qg_json_put_end(w);
    qg_json_put_array(w, "rows");
    for (int i = 0; i < 2; i++) {
        qg_json_put_object_line(w, NULL);
        qg_json_put_int(w, "seq", i);
        qg_json_put_array(w, "of");
        qg_json_put_bool(w, NULL, i);
        qg_json_put_null(w, NULL);
        qg_json_put_end(w);
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
    qg_json_put_array(w, "names");
    qg_json_put_text(w, NULL, "a");
    qg_json_put_text(w, NULL, "b");
    qg_json_put_end(w);
    qg_json_put_f32(w, "scale", 0.1f);
    qg_json_put_end(w);
    assert_ok(o.ctx, stop(&o));
    assert_string_equal(o.text,
                        "{\n"
                        "  \"zebra\": \"a \\\"b\\\" \\\\ \\n \\u0001 \xc3\xa9\",\n"
                        "  \"range\": [-128, 127],\n"
                        "  \"empty\": [],\n"
                        "  \"none\": {},\n"
                        "  \"rows\": [\n"
                        "    {\"seq\": 0, \"of\": [false, null]},\n"
                        "    {\"seq\": 1, \"of\": [true, null]}\n"
                        "  ],\n"
                        "  \"names\": [\"a\", \"b\"],\n"
                        "  \"scale\": 0.1\n"
                        "}\n");
    drop(&o);
}

static void long_arrays_fill_lines(void **state)
{
    (void)state;
    struct out o;
    start(&o);
    qg_json_put_object(&o.w, NULL);
    qg_json_put_array(&o.w, "scale");
    for (int i = 0; i < 200; i++)
        qg_json_put_int(&o.w, NULL, 100000 + i);
    qg_json_put_end(&o.w);
    qg_json_put_end(&o.w);
    assert_ok(o.ctx, stop(&o));
    size_t lines = 0;
    for (const char *at = o.text; *at; at += strcspn(at, "\n") + 1, lines++)
        assert_cmp_int(strcspn(at, "\n"), <=, 88);
    assert_cmp_int(lines, <, 25);
    const qg_json *v = qg_json_get(parse(o.ctx, o.text), "scale");
    assert_int_equal(v->count, 200);
    for (int i = 0; i < 200; i++)
        assert_cmp_f64(v->item[i].number, ==, 100000 + i);
    drop(&o);
}

static void float_text_round_trips(void **state)
{
    (void)state;
    struct out o;
    qg_rng rng = { 11 };
    float x[500];
    start(&o);
    qg_json_put_array(&o.w, NULL);
    for (int i = 0; i < 500; i++) {
        uint32_t bits = (uint32_t)qg_rng_next(&rng);
        memcpy(&x[i], &bits, sizeof bits);
        if (!isfinite(x[i]))
            x[i] = -0.0f;
        qg_json_put_f32(&o.w, NULL, x[i]);
    }
    qg_json_put_end(&o.w);
    assert_ok(o.ctx, stop(&o));
    const qg_json *v = parse(o.ctx, o.text);
    assert_int_equal(v->count, 500);
    for (size_t i = 0; i < 500; i++) {
        float y = 1;
        assert_ok(o.ctx, qg_json_as_f32(o.ctx, &v->item[i], &y));
        assert_memory_equal(&x[i], &y, sizeof y);
    }
    drop(&o);
}

static void what_json_cannot_say_is_refused(void **state)
{
    (void)state;
    struct out o;
    start(&o);
    qg_json_put_object(&o.w, NULL);
    qg_json_put_f32(&o.w, "scale", NAN);
    qg_json_put_int(&o.w, "later", 1); /* does nothing */
    assert_fails(o.ctx, stop(&o), QG_ENUMERIC, "json: 'scale' is NaN");
    drop(&o);
    start(&o);
    qg_json_put_text(&o.w, NULL, "\xc0\x80");
    assert_fails(o.ctx, stop(&o), QG_EDATA, "is not UTF-8");
    drop(&o);
}

static void readers_say_where(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_json *v = parse(ctx, "{\"tqcs\": [{\"id\": 1}, {\"id\": 1.5, \"b\": true, "
                                  "\"big\": 1e300, \"s\": \"t\", \"sub\": {}}]}"),
                  *list, *sub;
    int64_t id = 0;
    float f;
    bool b = false;
    const char *s = NULL;
    assert_ok(ctx, qg_json_member(ctx, v, "tqcs", QG_JSON_ARRAY, &list));
    assert_ok(ctx, qg_json_int(ctx, &list->item[0], "id", &id));
    assert_int_equal(id, 1);
    assert_ok(ctx, qg_json_bool(ctx, &list->item[1], "b", &b));
    assert_true(b);
    assert_ok(ctx, qg_json_text(ctx, &list->item[1], "s", &s));
    assert_string_equal(s, "t");
    assert_fails(ctx, qg_json_int(ctx, &list->item[1], "id", &id), QG_EPARSE,
                 "read doc: tqcs[1].id: is 1.5, expected a whole number");
    assert_fails(ctx, qg_json_f32(ctx, &list->item[1], "big", &f), QG_EPARSE,
                 "read doc: tqcs[1].big: is 1e+300, expected a float32");
    assert_fails(ctx, qg_json_text(ctx, &list->item[0], "state", &s), QG_EPARSE,
                 "read doc: tqcs[0]: 'state' is missing, expected text");
    assert_fails(ctx, qg_json_member(ctx, &list->item[1], "id", QG_JSON_ARRAY, &sub),
                 QG_EPARSE, "read doc: tqcs[1].id: is a number, expected an array");
    qg_ctx_free(ctx);
}

static void broken_text_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"",                               "line 1: not valid JSON"        },
        { "{\n\"a\": 1,\n}",               "line 3: not valid JSON"        },
        { "[1, 2] x",                      "line 1: not valid JSON"        },
        { "[1, 2",                         "not valid JSON"                },
        { "{\"a\": {\"b\": 1, \"b\": 2}}", "a: the key 'b' appears twice"  },
        { "[1e999]",                       "[0]: a number beyond the range"}
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_json *v = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qg_json_source from = { "doc", cases[i].text, strlen(cases[i].text) };
        assert_fails(ctx, qg_json_parse(ctx, ctx->arena, &from, &v), QG_EPARSE,
                     cases[i].message);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    qg_json_source from = { "doc", deep, sizeof deep };
    assert_fails(ctx, qg_json_parse(ctx, ctx->arena, &from, &v), QG_EPARSE,
                 "nest deeper than 64 levels");
    from = (qg_json_source){ "doc", "[\"a\0b\"]", 7 };
    assert_fails(ctx, qg_json_parse(ctx, ctx->arena, &from, &v), QG_EPARSE,
                 "a zero byte");
    assert_null(v);
    qg_ctx_free(ctx);
}

/* FIPS 180-2, appendix B.1 and B.2. */
/* Elements of the member that is asked for, at the first level alone: braces in texts,
 * objects within elements and members of the same name deeper are none. */
static void elements_have_lines(void **state)
{
    static const struct {
        const char *text;
        size_t found;
        uint32_t line[3]; /* of which 2 are asked for; 9: as it was */
    } row[] = {
        {"{\"rules\": [{}, {}]}",                    2, { 1, 1, 9 }},
        { "{\n\"rules\": [\n{},\n\n{\"a\": {}}]\n}", 2, { 3, 5, 9 }},
        { "{\"rules\": [{},\n{},\n{}]}",             3, { 1, 2, 9 }},
        { "{\"rules\": []}",                         0, { 9, 9, 9 }},
        { "{\"rules\": [1, [2], {}]}",               1, { 1, 9, 9 }},
        { "{\"rule\": [{}],\n\"rules\": [{}]}",      1, { 2, 9, 9 }},
        { "{\"rulesx\": [{}], \"xrules\": [{}]}",    0, { 9, 9, 9 }},
        { "{\"a\": {\"rules\": [{}]}}",              0, { 9, 9, 9 }},
        { "{\"rules\": [{}], \"b\": [{}]}",          1, { 1, 9, 9 }},
        { "{\"b\": \"rules\", \"c\": [{}]}",         0, { 9, 9, 9 }},
        { "{\"rules\": [\"{ \\\" [\", {}]}",         1, { 1, 9, 9 }},
        { "{\"a\": \"\\\\\",\n\"rules\": [{}]}",     1, { 2, 9, 9 }},
        { "[\"rules\", {}]",                         0, { 9, 9, 9 }},
        { "}\n{\"rules\": [{}]}",                    1, { 2, 9, 9 }},
        { "{\"rules",                                0, { 9, 9, 9 }},
        { "{\"rules\\",                              0, { 9, 9, 9 }},
        { "",                                        0, { 9, 9, 9 }},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t n = strlen(row[i].text);
        char *text = malloc(n + !n); /* no byte behind it */
        uint32_t line[3] = { 9, 9, 9 };
        memcpy(text, row[i].text, n);
        qg_json_source from = { "doc", text, n };
        size_t found = qg_json_lines(&from, "rules", line, 2);
        if (found != row[i].found || memcmp(line, row[i].line, sizeof line) != 0)
            fail_msg("%s: %zu at %u, %u", row[i].text, found, line[0], line[1]);
        free(text);
    }
}

static void sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    char text[QG_HASH_TEXT];
    static const char two[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    qg_hash_bytes("abc", 3, text);
    assert_string_equal(
        text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    qg_hash h;
    qg_hash_begin(&h);
    qg_hash_add(&h, two, 20);
    qg_hash_add(&h, two + 20, sizeof two - 21);
    qg_hash_end(&h, text);
    assert_string_equal(
        text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char file[QG_HASH_TEXT], path[] = "/tmp/qg_hash_XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, two, sizeof two - 1), sizeof two - 1);
    close(fd);
    assert_ok(ctx, qg_hash_file(ctx, path, file));
    assert_string_equal(file, text);
    unlink(path);
    assert_fails(ctx, qg_hash_file(ctx, path, file), QG_EIO, "hash: /tmp/qg_hash_");
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(elements_have_lines),
             cmocka_unit_test(keys_keep_their_order_and_short_arrays_a_line),
             cmocka_unit_test(long_arrays_fill_lines),
             cmocka_unit_test(float_text_round_trips),
             cmocka_unit_test(what_json_cannot_say_is_refused),
             cmocka_unit_test(readers_say_where),
             cmocka_unit_test(broken_text_is_refused),
             cmocka_unit_test(sha256_is_that_of_the_standard))

/* Profiles: which row fits, inheritance, and the exact complaint about what is
 * wrong. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/core/reads.h"
#include "engine/config/profile_yaml.h"
#include "engine/core/file.h"
#include "engine/device/profile_file.h"
#include "tests/support/scratch.h"

static const char *const folder = QG_CONFIG_DIR "/profiles";

typedef struct fixture {
    qg_ctx *ctx;
    char dir[32];
    const char *search[2];
} fixture;

static fixture open_fixture(void)
{
    fixture f = { .ctx = qg_ctx_new(qg_alloc_libc), .dir = "/tmp/qg_profile_XXXXXX" };
    assert_non_null(mkdtemp(f.dir));
    f.search[1] = folder;
    return f;
}

static void close_fixture(fixture *f)
{
    assert_int_equal(scratch_remove(f->dir), 0);
    qg_ctx_free(f->ctx);
}

static qg_status load(fixture *f, const char *name, const qg_profile **out)
{
    f->search[0] = f->dir;
    return qg_profile_load(f->ctx, f->ctx->arena, name,
                           (qg_search){ .dir = f->search, .n = 2 }, out);
}

/* Writes dir/<name>.yaml and loads it. */
static qg_status load_text(fixture *f, const char *name, const char *text,
                           const qg_profile **out)
{
    const char *file = qg_arena_printf(f->ctx->arena, "%s/%s.yaml", f->dir, name);
    qg_reads_forget(f->ctx);
    assert_ok(f->ctx, qg_file_write(f->ctx, file, text, strlen(text)));
    return load(f, name, out);
}

static const char *id_of(const qg_profile *p, qg_kernel_use use, qg_profile_types t,
                         float least, float most)
{
    const qg_profile_row *row =
        qg_profile_find(p, use, t, (qg_profile_grids){ .least = least, .most = most });
    return row ? row->id : "none";
}

static const qg_profile_types int8s = { QG_I8, QG_I8, QG_I8 };
static const qg_profile_types uint8s = { QG_U8, QG_I8, QG_U8 };

#define HEAD                                                                           \
    "name: x\n"                                                                        \
    "codes: {activation: [int8, uint8], weight: int8, bias: int32}\n"                  \
    "clamp: float\n"
#define WHY "why: w, source: s"
#define ROW "kernels:\n- {id: r, " WHY ", "

static void a_file_becomes_rows(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    assert_ok(f.ctx,
              load_text(&f, "x",
                        HEAD "title: X 1\nislands: yes\nevidence: documentation\n"
                             "kernels:\n"
                             "- {id: pairs, " WHY
                             ", use: [conv, dense], products: pairs,"
                             " types: {x: uint8, w: int8}, scheme: float-rne,"
                             " factor: f32, zero: inside, clamp: no, symmetric: yes}\n"
                             "- {id: sum, " WHY ", use: add, form: fixed,"
                             " left: {8: 20, 16: 15}, scheme: fix-single,"
                             " ratio: {from: 0.25, below: 8}}\n"
                             "- {id: p, " WHY ", use: softmax, form: gemmlowp,"
                             " scheme: fix-double, output: [0.00390625, -128]}\n",
                        &p));
    assert_string_equal(p->name, "x");
    assert_string_equal(p->title, "X 1");
    assert_null(p->parent);
    assert_true(p->documented && p->islands);
    assert_cmp_int(p->activation, ==, (QG_DT(I8) | QG_DT(U8)));
    assert_cmp_int(p->weight, ==, QG_DT(I8));
    assert_cmp_int(p->bias, ==, QG_I32);
    assert_cmp_int(p->n_row, ==, 3);
    const qg_profile_row *r = p->row;
    assert_cmp_int(r->uses, ==, (QG_USE_BIT(CONV) | QG_USE_BIT(DENSE)));
    assert_cmp_int(r->line, ==, 8);
    assert_cmp_int(r->form, ==, QG_FORM_PLAIN);
    assert_cmp_int(r->products, ==, QG_PRODUCTS_PAIRS);
    assert_cmp_int(r->requant.scheme, ==, QG_SCHEME_FLOAT_RNE);
    assert_cmp_int(r->requant.factor, ==, QG_FACTOR_F32);
    assert_cmp_int(r->requant.zero, ==, QG_ZERO_INSIDE);
    assert_cmp_int(r->requant.accumulator, ==, 32);
    assert_true(r->requant.symmetric);
    assert_cmp_int(r->clamp, ==, QG_CLAMP_NO);
    assert_cmp_int(r[1].clamp, ==, QG_CLAMP_FLOAT);
    assert_cmp_int(r[1].left8, ==, 20);
    assert_cmp_int(r[1].left16, ==, 15);
    assert_true(r[2].has_output);
    assert_cmp_f64(r[2].output_scale, ==, 0x1p-8);
    assert_cmp_int(r[2].output_zero, ==, -128);
    close_fixture(&f);
}

/* By use, type and ratio; the interval of ratios holds its low end alone. */
static void the_first_row_that_fits(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    assert_ok(f.ctx,
              load_text(&f, "x",
                        HEAD "kernels:\n"
                             "- {id: u8, " WHY
                             ", use: add, form: fma, types: {x: uint8}}\n"
                             "- {id: near, " WHY ", use: [add, sub], form: mantissa,"
                             " ratio: {from: 0.25, below: 8}}\n"
                             "- {id: all, " WHY ", use: add, form: portable}\n"
                             "- {id: like, " WHY
                             ", use: concat, form: copy, types: {y: x}}\n",
                        &p));
    assert_string_equal(id_of(p, QG_USE_CONCAT, int8s, 1, 1), "like");
    assert_string_equal(id_of(p, QG_USE_CONCAT, uint8s, 1, 1), "like");
    assert_string_equal(
        id_of(p, QG_USE_CONCAT, (qg_profile_types){ QG_U8, QG_I8, QG_I8 }, 1, 1),
        "none");
    assert_string_equal(id_of(p, QG_USE_ADD, uint8s, 1, 1), "u8");
    assert_string_equal(id_of(p, QG_USE_ADD, int8s, 1, 1), "near");
    assert_string_equal(id_of(p, QG_USE_ADD, int8s, 0.25f, 7.9f), "near");
    assert_string_equal(id_of(p, QG_USE_ADD, int8s, 0.24f, 1), "all");
    assert_string_equal(id_of(p, QG_USE_ADD, int8s, 1, 8), "all");
    assert_string_equal(id_of(p, QG_USE_SUB, uint8s, 1, 1), "near");
    assert_string_equal(id_of(p, QG_USE_SUB, uint8s, 1, 8), "none");
    assert_string_equal(id_of(p, QG_USE_CONV, int8s, 1, 1), "none");
    close_fixture(&f);
}

/* What a row asks of the second operand's grid, and of the limits of a clamp. */
static void rows_by_grids(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    const qg_profile_grids centred = { 0 }, off = { .w_off = true };
    const qg_profile_grids relu6 = { .limits = 1u << QG_ACTIVATION_RELU6 };
    const qg_profile_grids both = { .limits = 1u << QG_ACTIVATION_NONE |
                                              1u << QG_ACTIVATION_RELU };
    assert_ok(f.ctx,
              load_text(&f, "x",
                        HEAD "kernels:\n"
                             "- {id: m, " WHY ", use: matmul, scheme: float-rne, "
                             "factor: f32, w-zero: 0}\n"
                             "- {id: r, " WHY ", use: relu, scheme: float-rne, "
                             "factor: f32, limits: [relu, relu-n1-to-1]}\n",
                        &p));
    assert_non_null(qg_profile_find(p, QG_USE_MATMUL, int8s, centred));
    assert_null(qg_profile_find(p, QG_USE_MATMUL, int8s, off));
    assert_null(qg_profile_find(p, QG_USE_RELU, int8s, centred));
    assert_null(qg_profile_find(p, QG_USE_RELU, int8s, relu6));
    assert_non_null(qg_profile_find(p, QG_USE_RELU, int8s, both));
    close_fixture(&f);
}

static void children_precede_parents(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    const char *child = "name: child\nextends: x\nclamp: implied\n"
                        "-kernels: [b]\n"
                        "kernels:\n"
                        "- {id: b, " WHY ", use: [add, sub], form: sse}\n";
    assert_ok(f.ctx, load_text(&f, "x",
                               HEAD "islands: yes\nkernels:\n"
                                    "- {id: a, " WHY ", use: add, form: fma}\n"
                                    "- {id: b, " WHY ", use: sub, form: fma}\n",
                               &p));
    assert_ok(f.ctx, load_text(&f, "child", child, &p));
    assert_string_equal(p->name, "child");
    assert_string_equal(p->title, "child");
    assert_string_equal(p->parent, "x");
    assert_true(p->islands && p->activation && p->weight);
    assert_cmp_int(p->n_row, ==, 2);
    assert_string_equal(p->row[0].id, "b");
    assert_string_equal(p->row[1].id, "a");
    assert_cmp_int(p->row[0].clamp, ==, QG_CLAMP_IMPLIED);
    assert_cmp_int(p->row[1].clamp, ==, QG_CLAMP_FLOAT);
    assert_string_equal(id_of(p, QG_USE_SUB, int8s, 1, 1), "b");
    close_fixture(&f);
}

/* The rows that other rooms are built on. */
static void tflite_reference(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    assert_ok(f.ctx, load(&f, "tflite-reference", &p));
    assert_string_equal(id_of(p, QG_USE_CONV, int8s, 1, 1), "conv");
    assert_string_equal(id_of(p, QG_USE_DENSE, int8s, 1, 1), "dense");
    assert_string_equal(id_of(p, QG_USE_CONCAT, int8s, 1, 1), "concat");
    assert_string_equal(
        id_of(p, QG_USE_CONCAT, (qg_profile_types){ QG_U8, QG_U8, QG_U8 }, 1, 1),
        "concat-u8");
    assert_string_equal(id_of(p, QG_USE_LOG_SOFTMAX, int8s, 1, 1), "none");
    close_fixture(&f);
}

/* clang-format off */
/* Each text fails with this message; ':n: ' is the line of the file. */
static const struct {
    const char *text, *message;
} wrong[] = {
    {"- a\n",
      ":1: profile: a list, expected a map" },
    { "title: x\n",
      "profile: key 'name' is missing, expected a value" },
    { "name: x\nkernel: []\n",
      ":2: profile: unknown key 'kernel', did you mean "
      "'kernels'" },
    { "name: x\n",
      "profile: key 'codes: activation' is missing, expected it here or"},
    { "name: x\ncodes: {activation: int8, weight: int8}\n",
      "key 'codes: bias' is missing" },
    { "name: x\ncodes: {activation: int8, bias: int32}\n",
      "key 'codes: weight' is missing" },
    { HEAD,
      "key 'kernels' is missing" },
    { "name: x\ncodes: {activation: int7}\n",
      ":2: codes: activation: 'int7', did you mean" },
    { "name: x\ncodes: {activation: [int8, int8]}\n",
      ":2: codes: activation: 'int8' is in the list already, expected it once" },
    { "name: x\ncodes: {activation: []}\n",
      ":2: codes: activation: an empty list, expected a word or more" },
    { "name: x\ncodes: {bias: int8}\n",
      ":2: codes: bias: 'int8'" },
    { "name: x\nislands: perhaps\n",
      ":2: islands: 'perhaps', expected yes or no" },
    { "name: x\nclamp: tight\n",
      ":2: clamp: 'tight', expected codes, implied, float, "
      "activation or no" },
    { "name: x\nevidence: rumour\n",
      ":2: evidence: 'rumour', expected run or "
      "documentation" },
    { "name: x\nextends: nothing\n",
      ":2: extends: unknown profile 'nothing', expected a "
      "path or one of `qg list profiles`" },
    { "name: x\nextends: x\n",
      "'x' is its own ancestor" },
    { HEAD "kernels: add\n",
      ":4: kernels: expected a list of maps" },
    { HEAD "kernels: [add]\n",
      ":4: kernels: a single value, expected a map" },
    { HEAD "-kernels: [a]\n",
      ":4: -kernels: there is no id 'a', expected one of the "
      "parent" },
    { HEAD "kernels:\n- {use: add}\n",
      ":5: kernels: key 'id' is missing" },
    { HEAD "kernels:\n- {id: r, use: add}\n",
      ":5: kernel r: key 'why' is missing" },
    { HEAD "kernels:\n- {id: r, why: w, use: add}\n",
      ":5: kernel r: key 'source' is missing" },
    { HEAD "kernels:\n- {id: r, " WHY "}\n",
      ":5: kernel r: key 'use' is missing" },
    { HEAD ROW "use: ad, form: fma}\n",
      ":5: kernel r: use: 'ad', did you mean 'add'" },
    { HEAD ROW "use: add, form: fmaa}\n",
      ":5: kernel r: form: 'fmaa', did you mean "
      "'fma'" },
    { HEAD ROW "use: add, form: fma, left: {8: 20}}\n",
      ":5: kernel r: key 'left' has no effect" },
    { HEAD ROW "use: add, form: fixed, scheme: fix-double}\n",
      ":5: kernel r: key 'left' is missing" },
    { HEAD ROW "use: add, form: fixed, scheme: fix-double, left: {9: 20}}\n",
      ":5: kernel r: left: unknown key '9'" },
    { HEAD ROW "use: add, form: fixed, scheme: fix-double, left: {8: 40}}\n",
      ":5: kernel r: left: 8: '40', expected an integer from 1 to 22" },
    { HEAD ROW "use: add, form: fixed, scheme: fix-double, left: {}}\n",
      ":5: kernel r: left: nothing, expected bits for 8 or 16" },
    { HEAD ROW "use: [conv, add], form: fma, scheme: float-rne}\n",
      ":5: kernel r: key 'factor' is missing" },
    { HEAD ROW "use: conv, form: copy}\n",
      ":5: kernel r: form 'copy' is unknown for use 'conv'" },
    { HEAD ROW "use: [add, multiply], scheme: float-rne, factor: f32}\n",
      ":5: kernel r: form 'plain' is unknown for use 'add'" },
    { HEAD ROW "use: conv, factor: f32}\n",
      "kernel r: key 'scheme' is missing" },
    { HEAD ROW "use: conv, scheme: float, factor: f32}\n",
      ":5: kernel r: scheme: 'float'" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f64}\n",
      ":5: kernel r: factor: 'f64', expected double, f32-product, f32" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, zero: before}\n",
      ":5: kernel r: zero: 'before', expected after, inside or fused" },
    { HEAD ROW "use: conv, scheme: fix-double, factor: f32, zero: inside}\n",
      "kernel r: zero 'inside' with scheme 'fix-double', expected after" },
    { HEAD ROW "use: conv, scheme: fix-double, factor: then-fma}\n",
      "kernel r: factor 'then-fma' with scheme 'fix-double', expected a scheme in "
      "float" },
    { HEAD ROW "use: conv, scheme: fix-double, factor: f32, tail: float}\n",
      "kernel r: tail 'float' with scheme 'fix-double', expected a scheme in float" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, tail: int}\n",
      ":5: kernel r: tail: 'int'" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, products: some}\n",
      ":5: kernel r: products: 'some'" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, accumulator: 48}\n",
      ":5: kernel r: accumulator of 48 bits, expected 32 or 64" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, symmetric: 1}\n",
      ":5: kernel r: symmetric: '1', expected yes or no" },
    { HEAD ROW "use: conv, scheme: float-rne, factor: f32, rounding: up}\n",
      ":5: kernel r: key 'rounding' has no effect" },
    { HEAD ROW "use: add, form: fma, zero: inside}\n",
      ":5: kernel r: key 'zero' has no effect" },
    { HEAD ROW "use: add, form: fma, products: exact}\n",
      ":5: kernel r: key 'products' has no effect" },
    { HEAD ROW "use: quantize, form: divide}\n",
      ":5: kernel r: key 'rounding' is missing" },
    { HEAD ROW "use: quantize, form: divide, rounding: nearest}\n",
      ":5: kernel r: rounding: 'nearest'" },
    { HEAD ROW "use: add, form: fma, types: {z: int8}}\n",
      ":5: kernel r: unknown key 'z'" },
    { HEAD ROW "use: add, form: fma, types: {x: bool}}\n",
      ":5: kernel r: x: 'bool'" },
    { HEAD ROW "use: add, form: fma, ratio: {from: 2, below: 1}}\n",
      ":5: kernel r: ratio: no ratio is in it, expected from, below or both" },
    { HEAD ROW "use: add, form: fma, ratio: {}}\n",
      ":5: kernel r: ratio: no ratio" },
    { HEAD ROW "use: add, form: fma, ratio: {from: -1}}\n",
      ":5: kernel r: ratio: '-1', expected a number from 0" },
    { HEAD ROW "use: add, form: fma, ratio: {over: 1}}\n",
      ":5: kernel r: ratio: unknown key 'over'" },
    { HEAD ROW "use: add, form: fma, limits: [relu]}\n",
      ":5: kernel r: limits, expected them of relu alone" },
    { HEAD ROW "use: relu, scheme: float-rne, factor: f32, limits: [none]}\n",
      ":5: kernel r: limits: 'none', expected relu, relu6 or relu-n1-to-1" },
    { HEAD ROW "use: add, form: fma, w-zero: 0}\n",
      ":5: kernel r: w-zero, expected it of matmul alone" },
    { HEAD ROW "use: matmul, scheme: float-rne, factor: f32, w-zero: 1}\n",
      ":5: kernel r: w-zero: '1', expected an integer from 0 to 0" },
    { HEAD ROW "use: add, form: fma, output: 1}\n",
      ":5: kernel r: output is no pair, expected [scale, zero point]" },
    { HEAD ROW "use: add, form: fma, output: [0, 0]}\n",
      ":5: kernel r: output: '0', expected a number" },
    { HEAD ROW "use: add, form: fma, output: [1, 70000]}\n",
      ":5: kernel r: output: '70000', expected an integer from -32768 to 65535" },
    { HEAD ROW "use: add, form: fma}\n- {id: r, " WHY ", use: sub, form: fma}\n",
      ":6: kernels: id 'r' stands in " },
};
/* clang-format on */

static void every_fault_is_named(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    int failures = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        qg_status got = load_text(&f, "x", wrong[i].text, &p);
        const char *message = got == QG_OK ? "accepted" : qg_ctx_message(f.ctx);
        if (got == QG_ECONFIG && strstr(message, wrong[i].message))
            continue;
        print_error("'%s' lacks '%s'\n", message, wrong[i].message);
        failures++;
    }
    assert_cmp_int(failures, ==, 0);
    close_fixture(&f);
}

/* Input of an enemy: refused by the reader of YAML or by the vocabulary. */
static void hostile_files_are_refused(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    char *deep = qg_arena_get(f.ctx->arena, 1, 4096);
    (void)strcpy(deep, "name: ");
    memset(deep + 6, '[', 4000);
    const char *const file[] = {
        "",
        deep,
        "name: &a x\nkernels: *a\n",
        "name: x\nname: y\n",
        "name: !!int 3\n",
        "name: x\n---\nname: y\n",
        "name: \"\\xff\nkernels: [",
        "name: x\nkernels: [{id: r, why: w, source: s, use: [[add]]}]\n",
        "name: x\nkernels: [{id: r, why: w, source: s, use: add, form: fixed, "
        "scheme: fix-double, left: {8: 99999999999999999999}}]\n",
        "name: x\nkernels: [{id: r, why: w, source: s, use: add, form: fma, "
        "ratio: {from: nan, below: 1e999}}]\n",
    };
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (load_text(&f, "x", file[i], &p) == QG_OK ||
            !strstr(qg_ctx_message(f.ctx), "x.yaml"))
            fail_msg("file %zu: '%s'", i, qg_ctx_message(f.ctx));
    close_fixture(&f);
}

/* An id of the parent must be removed before it is used again. */
static void ids_are_unique_in_a_family(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const qg_profile *p;
    assert_ok(f.ctx, load_text(&f, "x", HEAD ROW "use: add, form: fma}\n", &p));
    assert_fails(
        f.ctx,
        load_text(&f, "y", "name: y\nextends: x\n" ROW "use: sub, form: fma}\n", &p),
        QG_ECONFIG, "y.yaml:4: kernels: id 'r' stands in ");
    assert_fails(f.ctx, load_text(&f, "y", "name: y\nextends: x\n-kernels: [r]\n", &p),
                 QG_ECONFIG, "key 'kernels' is missing");
    close_fixture(&f);
}

static void assert_same_row(const qg_profile_row *x, const qg_profile_row *y)
{
    const qg_requant_rule *a = &x->requant, *b = &y->requant;
    const bool same =
        x->uses == y->uses && x->x == y->x && x->w == y->w && x->y == y->y &&
        x->like_x == y->like_x && x->ratio_low == y->ratio_low &&
        x->ratio_high == y->ratio_high && x->w_centred == y->w_centred &&
        x->limits == y->limits && x->form == y->form && x->products == y->products &&
        x->tail == y->tail && x->clamp == y->clamp && x->rounding == y->rounding &&
        x->nan == y->nan && x->left8 == y->left8 && x->left16 == y->left16 &&
        x->has_output == y->has_output && x->output_scale == y->output_scale &&
        x->output_zero == y->output_zero && x->snapshot_scale == y->snapshot_scale &&
        a->scheme == b->scheme && a->factor == b->factor && a->zero == b->zero &&
        a->symmetric == b->symmetric && a->accumulator == b->accumulator;
    if (!same)
        fail_msg("%s:%u: row %s is read otherwise than it was written", x->file,
                 (unsigned)x->line, x->id);
}

/* The only row of a file that extends the profile which has it. */
static void assert_row_returns(fixture *f, const qg_profile *p,
                               const qg_profile_row *row)
{
    const qg_profile *read;
    const char *path = qg_arena_printf(f->ctx->arena, "%s/x.yaml", f->dir);
    qg_profile_part part = { *row, p->name, row->id, 7, 5 };
    part.row.id = "fit-1";
    const qg_profile_draft draft = { "x", p->name, &part, 1, 9, 8 };
    qg_reads_forget(f->ctx);
    assert_ok(f->ctx, qg_profile_write(f->ctx, &draft, path));
    assert_ok(f->ctx, load(f, "x", &read));
    assert_string_equal(read->parent, p->name);
    assert_int_equal(read->n_row, p->n_row + 1);
    assert_string_equal(read->row[0].id, "fit-1");
    assert_non_null(strstr(read->row[0].why, row->id));
    assert_same_row(row, &read->row[0]);
}

static void every_row_is_read_as_it_was_written(void **state)
{
    const char **name;
    size_t n, rows = 0;
    (void)state;
    fixture f = open_fixture();
    assert_ok(f.ctx, qg_directory_list(f.ctx, f.ctx->arena, folder, &name, &n));
    for (size_t i = 0; i < n; i++) {
        const qg_profile *p;
        const char *end = strstr(name[i], ".yaml");
        assert_non_null(end);
        assert_ok(f.ctx,
                  load(&f,
                       qg_arena_strndup(f.ctx->arena, name[i], (size_t)(end - name[i])),
                       &p));
        for (size_t k = 0; k < p->n_row; k++, rows++)
            assert_row_returns(&f, p, &p->row[k]);
    }
    assert_cmp_int(rows, >, 200);
    close_fixture(&f);
}

QG_TEST_MAIN(cmocka_unit_test(every_row_is_read_as_it_was_written),
             cmocka_unit_test(a_file_becomes_rows),
             cmocka_unit_test(the_first_row_that_fits), cmocka_unit_test(rows_by_grids),
             cmocka_unit_test(children_precede_parents),
             cmocka_unit_test(tflite_reference), cmocka_unit_test(every_fault_is_named),
             cmocka_unit_test(hostile_files_are_refused),
             cmocka_unit_test(ids_are_unique_in_a_family))

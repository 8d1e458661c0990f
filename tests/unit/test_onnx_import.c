/* ONNX import: names, types, constants, bodies, functions, and files that lie. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/onnx/import.h"
#include "engine/onnx/tensor.h"
#include "engine/ir/infer.h"
#include "ops/families.h"

/* Operators with the arity and attributes of ONNX and no meaning. */
static qg_status read_strides(qg_ctx *ctx, const qg_node *n, void *param)
{
    const int64_t *strides;
    size_t count;
    (void)param;
    return qg_attr_ints(ctx, n, "strides", &strides, &count);
}

#define OP(text, low, high)                                                            \
    {                                                                                  \
        .name = text, .since = 1, .min_in = low, .max_in = high, .min_out = 1,         \
        .max_out = 1                                                                   \
    }
static const qg_op plain_ops[] = {
    {.name = "Conv",
     .since = 1,
     .min_in = 2,
     .max_in = 3,
     .min_out = 1,
     .max_out = 1,
     .prepare = read_strides },
    { .name = "If",
     .since = 1,
     .min_in = 1,
     .max_in = 1,
     .min_out = 1,
     .max_out = 255,
     .traits = QG_OP_CONTROL },
    { .name = "Clip",
     .since = 6,
     .until = 10,
     .min_in = 1,
     .max_in = 1,
     .min_out = 1,
     .max_out = 1 },
    { .name = "Clip",
     .since = 11,
     .min_in = 1,
     .max_in = 3,
     .min_out = 1,
     .max_out = 1 },
    { .name = "Gone",
     .since = 7,
     .until = 9,
     .min_in = 1,
     .max_in = 1,
     .min_out = 1,
     .max_out = 1 },
    OP("Relu", 1, 1),
    OP("Neg", 1, 1),
    OP("Abs", 1, 1),
    OP("Sigmoid", 1, 1),
    OP("Add", 2, 2),
    OP("Sub", 2, 2),
    OP("Mul", 2, 2),
    OP("Reshape", 2, 2),
    OP("Gather", 2, 2),
    OP("GlobalAveragePool", 1, 1),
    OP("Flatten", 1, 1),
    OP("Shape", 1, 1),
    OP("Gemm", 2, 3),
    { 0            },
};
static const qg_op *const families[] = { plain_ops };
static const qg_registry registry = { .family = families, .n_family = 1 };

struct fixture {
    qg_ctx *ctx;
    char log[2048];
};

static void keep(void *ud, enum qg_log_level level, const char *text)
{
    struct fixture *f = ud;
    (void)level;
    (void)strncat(f->log, text, sizeof f->log - strlen(f->log) - 1);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->ctx = qg_ctx_new(qg_alloc_libc);
    f->ctx->registry = &registry;
    f->ctx->log = (qg_log){ keep, f, QG_LOG_WARNING };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    qg_ctx_free(f->ctx);
    free(f);
    return 0;
}

static qg_graph *load(void **state, const char *name)
{
    struct fixture *f = *state;
    char path[128];
    qg_graph *g = NULL;
    (void)snprintf(path, sizeof path, "tests/models/%s.onnx", name);
    assert_ok(f->ctx, qg_onnx_import(f->ctx, path, NULL, &g));
    return g;
}

static void conv_relu_is_what_the_file_says(void **state)
{
    qg_graph *g = load(state, "conv_relu");
    assert_string_equal(g->name, "conv_relu");
    assert_int_equal(g->ir_version, 8);
    assert_int_equal(qg_graph_opset(g, ""), 13);
    assert_int_equal(g->node.n, 3);
    assert_string_equal(g->node.at[0]->name, "conv1");
    assert_string_equal(g->node.at[1]->name, "Relu_0");
    assert_string_equal(g->node.at[2]->name, "Mul_2"); /* the first Constant is 1 */
    assert_int_equal(g->node.at[0]->file_unnamed, 0);
    assert_int_equal(g->node.at[1]->file_unnamed, 1);
    assert_int_equal(g->node.at[2]->file_unnamed, 3);
    assert_int_equal(g->node.at[0]->opset, 13);
    const qg_value *x = qg_graph_value(g, "x"), *w = qg_graph_value(g, "w");
    assert_true(x->is_input);
    assert_int_equal(x->type.dtype, QG_F32);
    assert_int_equal(x->type.rank, 4);
    assert_int_equal(x->type.dim[0], -1);
    assert_string_equal(x->dim_name[0], "N");
    assert_null(x->dim_name[1]);
    assert_int_equal(x->type.dim[3], 8);
    assert_int_equal(qg_graph_value(g, "c")->type.dim[1], 4);
    assert_non_null(w->constant);
    assert_false(w->is_input);
    assert_cmp_f64(w->constant->f32[9], ==, 9 / 8.f - 1);
    assert_cmp_f64(qg_graph_value(g, "two")->constant->f32[0], ==, 2);
    const qg_tensor *k = qg_graph_value(g, "k")->constant;
    assert_int_equal(k->rank, 1);
    assert_int_equal(k->dim[0], 2);
    assert_cmp_f64(k->f32[1], ==, 1.5f);
    assert_int_equal(g->input.n, 1);
    assert_int_equal(g->output.n, 2);
    const qg_attr *pads = qg_attr_find(g->node.at[0], "pads");
    assert_non_null(pads);
    assert_int_equal(pads->type, QG_ATTR_INTS);
    assert_int_equal(pads->count, 4);
    qg_graph_free(g);
}

static void a_body_names_what_it_captures(void **state)
{
    qg_graph *g = load(state, "body_capture");
    const qg_node *n = qg_graph_node(g, "choose");
    assert_int_equal(n->n_in, 3);
    assert_int_equal(n->n_capture, 2);
    assert_string_equal(n->capture[0], "x");
    assert_string_equal(n->capture[1], "w");
    assert_ptr_equal(n->in[2], qg_graph_value(g, "w"));
    const qg_attr *then = qg_attr_find(n, "then_branch");
    assert_int_equal(then->type, QG_ATTR_GRAPH);
    const qg_graph *body = then->graphs[0];
    assert_ptr_equal(body->owner, n);
    assert_null(qg_graph_value(body, "w")->constant);
    assert_non_null(qg_attr_find(n, "else_branch")->graphs[0]);
    assert_non_null(
        qg_graph_value(qg_attr_find(n, "else_branch")->graphs[0], "k")->constant);
    qg_graph_free(g);
}

static void functions_are_replaced_by_their_nodes(void **state)
{
    static const struct {
        const char *name, *in, *out;
        float by;
    } expected[] = {
        {"first/Scaled_0/mul", "x",         "first/t_1", 2},
        { "first/second/mul",  "first/t_1", "first/t",   3},
        { "next/Scaled_0/mul", "first/t",   "next/t",    2},
        { "next/second/mul",   "next/t",    "y",         3}
    };
    qg_graph *g = load(state, "function_call");
    assert_int_equal(g->node.n, 4);
    for (size_t i = 0; i < 4; i++) {
        const qg_node *n = g->node.at[i];
        assert_string_equal(n->name, expected[i].name);
        assert_string_equal(n->in[0]->name, expected[i].in);
        assert_string_equal(n->out[0]->name, expected[i].out);
        assert_int_equal(n->in[1]->constant->rank, 0);
        assert_cmp_f64(n->in[1]->constant->f32[0], ==, expected[i].by);
        assert_int_equal(n->file_unnamed, 0);
    }
    qg_graph_free(g);
}

static void typed_and_raw_data_agree(void **state)
{
    qg_graph *g = load(state, "all_types");
    size_t pairs = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_tensor *a = g->value.at[i]->constant;
        char name[64];
        if (!a || strstr(g->value.at[i]->name, "_raw"))
            continue;
        (void)snprintf(name, sizeof name, "%s_raw", g->value.at[i]->name);
        const qg_tensor *b = qg_graph_value(g, name)->constant;
        size_t bytes = 0;
        assert_int_equal(a->dtype, b->dtype);
        assert_true(qg_dtype_bytes(a->dtype, (uint64_t)a->dim[0], &bytes));
        if (memcmp(a->data, b->data, bytes) != 0)
            fail_msg("%s: typed and raw data differ", g->value.at[i]->name);
        pairs++;
    }
    assert_int_equal(pairs, QG_NDTYPE - 1);
    assert_int_equal(qg_graph_value(g, "int64")->constant->i64[1], -(INT64_C(1) << 40));
    assert_int_equal(qg_graph_value(g, "int4")->constant->u8[0], 0x81); /* 1, -8 */
    assert_int_equal(qg_graph_value(g, "int4")->constant->u8[1], 0x07);
    assert_int_equal(qg_graph_value(g, "int2")->constant->u8[0], 0xc9); /* 1 -2 0 -1 */
    assert_int_equal(qg_graph_value(g, "float16")->constant->u16[1], 0xc000);
    qg_graph_free(g);
}

static void external_data_is_read(void **state)
{
    qg_graph *g = load(state, "external");
    assert_cmp_f64(qg_graph_value(g, "v")->constant->f32[3], ==, 4);
    assert_cmp_f64(qg_graph_value(g, "w")->constant->f32[0], ==, 5);
    assert_non_null(g->files);
    assert_null(g->files->next); /* one file, mapped once */
    qg_graph_free(g);
}

static void inputs_with_initializers_are_constants(void **state)
{
    struct fixture *f = *state;
    qg_graph *g = load(state, "ir3");
    assert_int_equal(g->input.n, 1);
    assert_non_null(qg_graph_value(g, "w")->constant);
    assert_string_equal(f->log, ""); /* IR 3 demands it: nothing to warn of */
    qg_graph_free(g);
}

static void nodes_are_sorted_and_names_made_unique(void **state)
{
    struct fixture *f = *state;
    qg_graph *g = load(state, "unsorted");
    assert_string_equal(g->node.at[0]->name, "abs");
    assert_string_equal(g->node.at[1]->name, "same_1");
    assert_string_equal(g->node.at[2]->name, "same");
    assert_non_null(strstr(f->log, "node name 'same' is in use, renamed to 'same_1'"));
    qg_graph_free(g);
}

static void an_empty_name_is_an_absent_slot(void **state)
{
    qg_graph *g = load(state, "optional_slots");
    const qg_node *n = qg_graph_node(g, "clip");
    assert_int_equal(n->n_in, 3);
    assert_null(n->in[1]);
    assert_non_null(n->in[2]->constant);
    qg_graph_free(g);
}

/* ---- Refusals ---- */

/* clang-format off */
static const struct {
    const char *file;
    qg_status status;
    const char *message; /* after QG_OK: of inference with real operators */
} malformed[] = {
    { "truncated", QG_EPARSE, "needs 1340 bytes, 801 are left: not a complete ONNX" },
    { "empty", QG_EPARSE, "the file is empty" },
    { "raw_data_short", QG_EMODEL,
      "initializer 'w': dimensions 8x3x3x3 need 864 bytes, the file has 100" },
    { "negative_dim", QG_EMODEL, "initializer 'w': negative dimension -3" },
    { "huge_dims", QG_EMODEL, "initializer 'w': the element count of 4294967296x" },
    { "cycle", QG_EMODEL, "cycle" },
    { "missing_tensor", QG_EMODEL,
      "node 'conv1' (Conv): reads tensor 'w', which no node, input or initializer" },
    { "duplicate_output", QG_EMODEL,
      "tensor 't' is produced twice, by nodes 'relu1' and 'sig1'" },
    { "unknown_op", QG_EUNSUPPORTED,
      "node 'fn1': operator FancyNorm is not known (opset 13)" },
    { "no_opset", QG_EMODEL, "the model names no operator set, expected opset_import" },
    { "attribute_type", QG_EMODEL,
      "node 'conv1' (Conv): strides is FLOATS, expected INTS" },
    { "external_outside", QG_EMODEL,
      "initializer 'w': external data path \"../../outside.bin\" leaves the direct" },
    { "conv_group", QG_OK, "node 'conv1' (Conv): 3 input and 8 output channels" },
    { "reshape_impossible", QG_OK, "node 'reshape1' (Reshape): 192 elements" },
    { "gather_out_of_range", QG_OK, "node 'gather1' (Gather): index 8" },
};
/* clang-format on */

static qg_status import_malformed(struct fixture *f, size_t i, bool infer)
{
    char path[128];
    qg_graph *g = NULL;
    (void)snprintf(path, sizeof path, "tests/models/malformed/%s.onnx",
                   malformed[i].file);
    qg_status s = qg_onnx_import(f->ctx, path, NULL, &g);
    if (s != QG_OK) {
        assert_null(g);
        return s;
    }
    if (infer)
        s = qg_infer(g, NULL, 0);
    qg_graph_free(g);
    return s;
}

static void malformed_files_are_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        qg_status s = import_malformed(f, i, false);
        if (s != malformed[i].status ||
            (s && !strstr(qg_ctx_message(f->ctx), malformed[i].message)))
            fail_msg("%s: %s '%s'", malformed[i].file, qg_status_name(s),
                     qg_ctx_message(f->ctx));
    }
}

/* With real operators none of them gets past shape inference. */
static void malformed_files_do_not_run(void **state)
{
    struct fixture *f = *state;
    f->ctx->registry = &qg_ops_registry;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        qg_status s = import_malformed(f, i, true);
        if (s == QG_OK || !strstr(qg_ctx_message(f->ctx), malformed[i].message))
            fail_msg("%s: %s '%s'", malformed[i].file, qg_status_name(s),
                     qg_ctx_message(f->ctx));
    }
}

/* Every line of expected.txt has a row above, so that a new case is not forgotten. */
static void every_malformed_file_is_listed(void **state)
{
    struct fixture *f = *state;
    const char **names;
    size_t n, files = 0;
    assert_ok(f->ctx, qg_directory_list(f->ctx, f->ctx->arena, "tests/models/malformed",
                                        &names, &n));
    for (size_t i = 0; i < n; i++)
        files += strstr(names[i], ".onnx") != NULL;
    assert_int_equal(files, sizeof malformed / sizeof malformed[0]);
}

/* Every prefix of a model and every model with one byte changed loads or is refused;
 * ASan and UBSan watch. */
static void damaged_bytes_never_crash(void **state)
{
    struct fixture *f = *state;
    static const char *const models[] = { "conv_relu", "body_capture", "function_call",
                                          "all_types" };
    for (size_t m = 0; m < 4; m++) {
        char path[128];
        qg_file file;
        (void)snprintf(path, sizeof path, "tests/models/%s.onnx", models[m]);
        assert_ok(f->ctx, qg_file_open(f->ctx, "test", path, 1 << 20, &file));
        unsigned char *copy = malloc(file.size);
        for (size_t i = 0; i < 2 * file.size; i++) {
            qg_graph *g = NULL;
            size_t at = i / 2, size = i % 2 ? file.size : at;
            memcpy(copy, file.bytes, file.size);
            copy[at] ^= (unsigned char)(i % 2 ? 1u << at % 8 : 0);
            if (qg_onnx_import_bytes(f->ctx, copy, size, NULL, &g) == QG_OK)
                qg_graph_free(g);
        }
        free(copy);
        qg_file_close(&file);
    }
}

static void not_a_model_is_refused(void **state)
{
    struct fixture *f = *state;
    static const unsigned char group[] = { 0x0b, 0x0c };
    static const unsigned char field_zero[] = { 0x00, 0x01 };
    static const unsigned char long_number[] = { 0x08, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 };
    qg_graph *g;
    assert_fails(f->ctx, qg_onnx_import(f->ctx, "tests/models", NULL, &g), QG_EIO,
                 "is a directory");
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, group, 2, NULL, &g), QG_EPARSE,
                 "a group");
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, field_zero, 2, NULL, &g),
                 QG_EPARSE, "without a valid number");
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, long_number, 12, NULL, &g),
                 QG_EPARSE, "longer than 10 bytes");
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, "\x08\x08", 2, NULL, &g),
                 QG_EMODEL, "contains no graph");
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, "\x08\x7f\x3a\x00", 4, NULL, &g),
                 QG_EUNSUPPORTED, "IR version 127, supported are 3 to 14");
}

/* A graph in an attribute of a node in a graph in ...: deeper than any model. */
static void deep_nesting_is_refused(void **state)
{
    struct fixture *f = *state;
    static const unsigned char keys[] = { 0x0a, 0x2a, 0x32 }; /* node, attribute, g */
    enum { LEVELS = 90 };
    unsigned char bytes[4 * LEVELS], *at = bytes + sizeof bytes;
    size_t size = 0;
    for (int i = LEVELS; i-- > 0;) { /* from the innermost out */
        unsigned char key = i == 0 ? 0x3a : keys[(i - 1) % 3];
        if (size >= 128)
            *--at = (unsigned char)(size >> 7);
        *--at = (unsigned char)((size & 0x7f) | (size >= 128 ? 0x80 : 0));
        *--at = key;
        size = (size_t)(bytes + sizeof bytes - at);
    }
    qg_graph *g;
    assert_fails(f->ctx, qg_onnx_import_bytes(f->ctx, at, size, NULL, &g), QG_EPARSE,
                 "nest deeper than 64 levels");
}

/* Each dim of a tensor, the first and the last among them. */
static void negative_dims_are_refused(void **state)
{
    struct fixture *f = *state;
    qg_graph *g;
    assert_ok(f->ctx, qg_graph_new(f->ctx, "g", &g));
    for (size_t i = 0; i < 3; i++) {
        int64_t dim[3] = { 2, 3, 4 };
        const qg_tensor *read;
        qg_onnx_files files = { .graph = g };
        dim[i] = -dim[i];
        const qg_onnx_tensor t = {
            .what = "initializer 'w'", .data_type = 1, .dim = dim, .n_dim = 3
        };
        assert_fails(f->ctx, qg_onnx_tensor_read(&files, &t, &read), QG_EMODEL,
                     "initializer 'w': negative dimension");
    }
    qg_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(conv_relu_is_what_the_file_says), TEST(a_body_names_what_it_captures),
             TEST(functions_are_replaced_by_their_nodes),
             TEST(typed_and_raw_data_agree), TEST(external_data_is_read),
             TEST(inputs_with_initializers_are_constants),
             TEST(nodes_are_sorted_and_names_made_unique),
             TEST(an_empty_name_is_an_absent_slot), TEST(malformed_files_are_refused),
             TEST(malformed_files_do_not_run), TEST(every_malformed_file_is_listed),
             TEST(damaged_bytes_never_crash), TEST(not_a_model_is_refused),
             TEST(deep_nesting_is_refused), TEST(negative_dims_are_refused))

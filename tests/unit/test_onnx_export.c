/* ONNX export: what is written reads back as the same graph, and as the same bytes. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/ir/edit.h"

#define OP(text, low, high)                                                            \
    {                                                                                  \
        .name = text, .since = 1, .min_in = low, .max_in = high, .min_out = 1,         \
        .max_out = 1                                                                   \
    }
/* clang-format off */
static const qg_op plain_ops[] = {
    OP("Conv", 2, 3), OP("Clip", 1, 3), OP("Relu", 1, 1), OP("Neg", 1, 1),
    OP("Abs", 1, 1), OP("Add", 2, 2), OP("Sub", 2, 2), OP("Mul", 2, 2),
    { .name = "If", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 255,
      .traits = QG_OP_CONTROL },
    { .name = "Moved", .since = 1, .until = 12, .min_out = 1, .max_out = 1 },
    { .name = "Moved", .since = 13, .min_out = 1, .max_out = 1 },
    { 0 },
};
/* clang-format on */
static const qg_op *const families[] = { plain_ops };
static const qg_registry registry = { .family = families, .n_family = 1 };

struct fixture {
    qg_ctx *ctx;
    char folder[32];
    const char *path, *again; /* files in it */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->ctx = qg_ctx_new(qg_alloc_libc);
    f->ctx->registry = &registry;
    memcpy(f->folder, "/tmp/qg_export_XXXXXX", 22);
    assert_non_null(mkdtemp(f->folder));
    f->path = qg_path_join(f->ctx->arena, f->folder, "m.onnx");
    f->again = qg_path_join(f->ctx->arena, f->folder, "n.onnx");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    const char **names;
    size_t n;
    assert_ok(f->ctx, qg_directory_list(f->ctx, f->ctx->arena, f->folder, &names, &n));
    for (size_t i = 0; i < n; i++)
        unlink(qg_path_join(f->ctx->arena, f->folder, names[i]));
    rmdir(f->folder);
    qg_ctx_free(f->ctx);
    free(f);
    return 0;
}

/* ---- Equality of graphs ---- */

static void same_tensor(const char *what, const qg_tensor *a, const qg_tensor *b)
{
    size_t bytes = 0;
    assert_int_equal(a->dtype, b->dtype);
    assert_true(qg_same_dims(a, b));
    assert_ok(NULL, qg_tensor_bytes(NULL, what, a, &bytes));
    assert_memory_equal(a->data, b->data, bytes);
}

static void same_graph(const qg_graph *a, const qg_graph *b);

static void same_attr(const qg_attr *a, const qg_attr *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        if (a->type == QG_ATTR_INT || a->type == QG_ATTR_INTS)
            assert_int_equal(a->ints[i], b->ints[i]);
        else if (a->type == QG_ATTR_FLOAT || a->type == QG_ATTR_FLOATS)
            assert_memory_equal(&a->floats[i], &b->floats[i], sizeof(float));
        else if (a->type == QG_ATTR_STRING || a->type == QG_ATTR_STRINGS)
            assert_string_equal(a->strings[i], b->strings[i]);
        else if (a->type == QG_ATTR_TENSOR)
            same_tensor(a->name, a->tensor, b->tensor);
        else
            same_graph(a->graphs[i], b->graphs[i]);
    }
}

static void same_slots(qg_value *const *a, qg_value *const *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i] != NULL, b[i] != NULL);
        if (a[i])
            assert_string_equal(a[i]->name, b[i]->name);
    }
}

static void same_value(const qg_value *a, const qg_value *b)
{
    assert_non_null(b);
    assert_int_equal(a->type.dtype, b->type.dtype);
    assert_int_equal(a->type.rank, b->type.rank);
    for (int i = 0; i < a->type.rank; i++) {
        assert_int_equal(a->type.dim[i], b->type.dim[i]);
        assert_ptr_equal(a->dim_name[i], b->dim_name[i]); /* interned */
    }
    assert_int_equal(a->constant != NULL, b->constant != NULL);
    if (a->constant)
        same_tensor(a->name, a->constant, b->constant);
}

static void same_graph(const qg_graph *a, const qg_graph *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->node.n, b->node.n);
    assert_int_equal(a->value.n, b->value.n);
    assert_int_equal(a->input.n, b->input.n);
    assert_int_equal(a->output.n, b->output.n);
    assert_int_equal(a->ir_version, b->ir_version);
    same_slots(a->input.at, b->input.at, a->input.n);
    same_slots(a->output.at, b->output.at, a->output.n);
    for (size_t i = 0; i < a->value.n; i++)
        same_value(a->value.at[i], qg_graph_value(b, a->value.at[i]->name));
    for (size_t i = 0; i < a->node.n; i++) {
        const qg_node *m = a->node.at[i], *n = b->node.at[i];
        assert_string_equal(m->name, n->name);
        assert_ptr_equal(m->op, n->op);
        assert_int_equal(m->n_in, n->n_in);
        assert_int_equal(m->n_out, n->n_out);
        assert_int_equal(m->n_capture, n->n_capture);
        assert_int_equal(m->n_attr, n->n_attr);
        same_slots(m->in, n->in, m->n_in);
        same_slots(m->out, n->out, m->n_out);
        for (size_t k = 0; k < m->n_attr; k++)
            same_attr(&m->attr[k], &n->attr[k]);
    }
}

static void same_bytes(qg_ctx *ctx, const char *a, const char *b)
{
    qg_file f, g;
    assert_ok(ctx, qg_file_open(ctx, "test", a, SIZE_MAX / 2, &f));
    assert_ok(ctx, qg_file_open(ctx, "test", b, SIZE_MAX / 2, &g));
    assert_int_equal(f.size, g.size);
    assert_memory_equal(f.bytes, g.bytes, f.size);
    qg_file_close(&f);
    qg_file_close(&g);
}

/* ---- Tests ---- */

static void import_of_export_is_the_graph(void **state)
{
    struct fixture *f = *state;
    static const char *const models[] = { "conv_relu", "body_capture",  "function_call",
                                          "all_types", "external",      "ir3",
                                          "unsorted",  "optional_slots" };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char path[128];
        qg_graph *g, *h;
        (void)snprintf(path, sizeof path, "tests/models/%s.onnx", models[i]);
        assert_ok(f->ctx, qg_onnx_import(f->ctx, path, NULL, &g));
        assert_ok(f->ctx, qg_onnx_export(f->ctx, g, f->path, NULL));
        assert_ok(f->ctx, qg_onnx_import(f->ctx, f->path, NULL, &h));
        same_graph(g, h);
        assert_ok(f->ctx, qg_onnx_export(f->ctx, h, f->again, NULL));
        same_bytes(f->ctx, f->path, f->again);
        qg_graph_free(g);
        qg_graph_free(h);
    }
}

static void large_constants_go_beside_the_model(void **state)
{
    struct fixture *f = *state;
    qg_graph *g, *h;
    float data[600];
    qg_tensor t;
    qg_value *v;
    for (int i = 0; i < 600; i++)
        data[i] = (float)i;
    qg_tensor_init(&t, QG_F32, 1, (int64_t[]){ 600 });
    t.f32 = data;
    assert_ok(f->ctx, qg_onnx_import(f->ctx, "tests/models/conv_relu.onnx", NULL, &g));
    assert_ok(f->ctx, qg_edit_add_constant(g, "big", &t, &v));
    assert_ok(f->ctx, qg_edit_add_constant(g, "bigger", &t, &v));
    qg_export_options options = { .external_above = 4000 };
    assert_ok(f->ctx, qg_onnx_export(f->ctx, g, f->path, &options));
    qg_file file;
    const char *data_path = qg_path_join(f->ctx->arena, f->folder, "m.onnx.data");
    assert_ok(f->ctx, qg_file_open(f->ctx, "test", data_path, 1 << 20, &file));
    assert_int_equal(file.size,
                     2432 + 2400); /* the second begins at a multiple of 64 */
    qg_file_close(&file);
    assert_ok(f->ctx, qg_onnx_import(f->ctx, f->path, NULL, &h));
    same_graph(g, h);
    assert_non_null(h->files);
    qg_graph_free(g);
    qg_graph_free(h);
}

static void a_node_of_another_opset_is_refused(void **state)
{
    struct fixture *f = *state;
    qg_graph *g;
    qg_node *n;
    assert_ok(f->ctx, qg_onnx_import(f->ctx, "tests/models/conv_relu.onnx", NULL, &g));
    qg_value *y;
    assert_ok(f->ctx, qg_graph_add_value(g, "z", &y));
    qg_node_spec spec = { .name = "old",
                          .op = qg_op_find(&registry, "", "Moved", 9),
                          .opset = 9,
                          .out = &y,
                          .n_out = 1 };
    assert_ok(f->ctx, qg_graph_add_node(g, &spec, &n));
    assert_fails(f->ctx, qg_onnx_export(f->ctx, g, f->path, NULL), QG_ESTATE,
                 "export: node 'old' (Moved): is of opset 9, but the graph imports 13");
    assert_int_not_equal(access(f->path, F_OK), 0);
    n->op = qg_op_find(&registry, "", "Moved", 13);
    assert_ok(f->ctx, qg_onnx_export(f->ctx, g, f->path, NULL));
    qg_graph_free(g);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    struct fixture *f = *state;
    qg_graph *g;
    assert_ok(f->ctx, qg_onnx_import(f->ctx, "tests/models/unsorted.onnx", NULL, &g));
    assert_fails(f->ctx, qg_onnx_export(f->ctx, g, "/nowhere/m.onnx", NULL), QG_EIO,
                 "write: /nowhere/m.onnx");
    qg_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(import_of_export_is_the_graph),
             TEST(large_constants_go_beside_the_model),
             TEST(a_node_of_another_opset_is_refused),
             TEST(a_folder_that_is_not_there_is_named))

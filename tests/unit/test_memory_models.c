/* Models and snapshots as bytes and text: the same as from files, constants in
 * place. */
#include "tests/support/faulty.h"
#include "tests/support/models.h"
#include "tests/support/scratch.h"

#include "engine/data/npz.h"
#include "engine/snapshot/model.h"
#include "ops/families.h"

static const char *const MODELS[] = {
    "configs/models/digits.onnx",           "tests/models/mnist-8.onnx",
    "tests/models/conv_relu.onnx",          "tests/models/function_call.onnx",
    "tests/models/body_capture.onnx",       "tests/models/ir3.onnx",
    "tests/models/optional_slots.onnx",
#if QG_HAVE_TFLITE
    "tests/fuzz/corpus/tflite/conv.tflite",
#endif
};
static const char *const BACKENDS[] = { "trt-int8", "tflite-int8", "trt-fp8",
                                        "openvino-int8" };

static qg_model *open_bytes(qg_ctx *ctx, const void *bytes, size_t size)
{
    qg_model *m;
    assert_ok(ctx, qg_model_open_bytes(ctx, bytes, size, NULL, &m));
    return m;
}

static void bytes_are_the_model_of_the_file(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        size_t size;
        char *bytes = file_bytes(ctx, MODELS[i], &size);
        qg_model *a = open_model(ctx, MODELS[i]), *b = open_bytes(ctx, bytes, size);
        assert_string_equal(dump_text(ctx, a), dump_text(ctx, b));
        qg_model_close(a);
        qg_model_close(b);
    }
}

/* How many constants of float32 lie between the bytes. */
static size_t in_place(const qg_model *m, const char *bytes, size_t size, size_t *all)
{
    size_t found = 0;
    *all = 0;
    for (size_t i = 0; i < m->graph->value.n; i++) {
        const qg_tensor *t = m->graph->value.at[i]->constant;
        if (!t || t->dtype != QG_F32 || qg_tensor_count(t) < 4)
            continue;
        uintptr_t at = (uintptr_t)t->data;
        bool inside = at >= (uintptr_t)bytes && at < (uintptr_t)(bytes + size);
        assert_true(!inside || at % sizeof(float) == 0);
        found += inside;
        *all += 1;
    }
    return found;
}

/* A constant of float32 is aligned in one of four shifts of the file. */
static void constants_lie_in_the_bytes(void **state)
{
    qg_ctx *ctx = *state;
    size_t size, sum = 0, all = 0;
    char *bytes = file_bytes(ctx, MODELS[0], &size);
    char *room = qg_arena_raw(ctx->arena, size + 4, 1);
    qg_model *file = open_model(ctx, MODELS[0]);
    const char *expected = dump_text(ctx, file);
    qg_model_close(file);
    for (size_t shift = 0; shift < 4; shift++) {
        memcpy(room + shift, bytes, size);
        qg_model *m = open_bytes(ctx, room + shift, size);
        sum += in_place(m, room + shift, size, &all);
        assert_string_equal(dump_text(ctx, m), expected);
        qg_model_close(m);
    }
    assert_cmp_int(all, >, 3);
    assert_cmp_int(sum, ==, all);
}

/* A file is read and closed: nothing may point into it. */
static void short_raw_data_is_data(void **state)
{
    qg_ctx *ctx = *state;
    static const float four[] = { 1, 2, 3, 4 }; /* 16 bytes, as a stand-in has */
    qg_tensor t;
    qg_model *m, *again;
    qg_bytes onnx = { 0 };
    const int64_t dim[] = { 4 };
    qg_tensor_init(&t, QG_F32, 1, dim);
    t.f32 = (float *)(uintptr_t)four;
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = "Add";
    o.in = (const char *[]){ "x", "c" };
    o.n_in = 2;
    o.out = (const char *[]){ "y" };
    o.n_out = 1;
    assert_ok(ctx, qg_model_new(ctx, "four", 0, &m));
    assert_ok(ctx, qg_model_add_input(m, "x", QG_F32, 1, dim));
    assert_ok(ctx, qg_model_add_constant(m, "c", &t, true));
    assert_ok(ctx, qg_model_add_node(m, &o, NULL));
    assert_ok(ctx, qg_model_add_output(m, "y"));
    assert_ok(ctx, qg_model_finish(m));
    assert_ok(ctx, qg_model_export_onnx_bytes(m, &onnx));
    again = open_bytes(ctx, onnx.data, onnx.size);
    const qg_tensor *c = qg_graph_value(again->graph, "c")->constant;
    assert_memory_equal(c->f32, four, sizeof four);
    qg_model_close(again);
    qg_model_close(m);
    qg_bytes_free(ctx, &onnx);
    assert_null(onnx.data);
}

static void assert_member(qg_ctx *ctx, const qg_npz *z, const char *folder,
                          const char *name)
{
    size_t size;
    const unsigned char *at;
    char *file = file_bytes(ctx, qg_path_join(ctx->arena, folder, name), &size);
    const qg_npz_member *m = qg_npz_find(z, name);
    assert_non_null(m);
    assert_false(m->deflated);
    assert_ok(ctx, qg_npz_file(ctx, ctx->arena, z, m, &at));
    assert_int_equal(m->size, size);
    assert_memory_equal(at, file, size);
}

/* Reading puts constants first, so the texts of both graphs differ in order. */
static void assert_same_records(qg_ctx *ctx, qg_model *a, qg_model *b)
{
    static const char *const none[] = { "nodes_only_in_first", "nodes_only_in_second",
                                        "nodes_changed",       "endpoints_changed",
                                        "dominators_changed",  "scales_changed" };
    qg_report *r;
    double count;
    assert_ok(ctx, qg_model_diff(a, b, &r));
    assert_true(qg_report_number(r, "endpoints_in_both", &count));
    assert_cmp_f64(count, >, 0);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_true(qg_report_number(r, none[i], &count));
        assert_cmp_f64(count, ==, 0);
    }
    qg_report_free(r);
}

/* The members are the files of the folder; reading them gives the model that the folder
 * gives, and bytes of it are the same again. */
static void check_snapshot(qg_ctx *ctx, const char *path, const char *backend)
{
    char scratch[SCRATCH_PATH];
    const char *folder = scratch_path(scratch, "memory_models");
    qg_bytes first = { 0 }, second = { 0 }, third = { 0 };
    qg_npz z;
    qg_model *m = quantized_model(ctx, path, backend);
    assert_ok(ctx, qg_model_save_bytes(m, &first));
    assert_ok(ctx, qg_model_save(m, folder));
    assert_ok(ctx, qg_npz_open_bytes(ctx, ctx->arena, "z", first.data, first.size, &z));
    assert_int_equal(z.count, 2);
    assert_member(ctx, &z, folder, "model.onnx");
    assert_member(ctx, &z, folder, "quant.json");
    qg_model *again = open_bytes(ctx, first.data, first.size);
    qg_model *file = open_model(ctx, folder);
    assert_true(qg_model_is_quantized(again));
    assert_same_records(ctx, m, again);
    assert_string_equal(dump_text(ctx, file), dump_text(ctx, again));
    assert_ok(ctx, qg_model_save_bytes(again, &second));
    assert_ok(ctx, qg_model_save_bytes(file, &third));
    assert_int_equal(second.size, third.size);
    assert_memory_equal(second.data, third.data, third.size);
    qg_model_close(file);
    qg_model_close(again);
    qg_model_close(m);
    qg_bytes_free(ctx, &first);
    qg_bytes_free(ctx, &second);
    qg_bytes_free(ctx, &third);
    assert_int_equal(scratch_remove(folder), 0);
}

static void snapshots_come_back(void **state)
{
    for (size_t b = 0; b < sizeof BACKENDS / sizeof *BACKENDS; b++)
        for (size_t i = 0; i < 3; i++)
            check_snapshot(*state, MODELS[i], BACKENDS[b]);
}

/* The same bytes in a file, by path. */
static void an_archive_opens_by_path(void **state)
{
    qg_ctx *ctx = *state;
    char scratch[SCRATCH_PATH];
    const char *path = scratch_path(scratch, "memory_models.zip");
    qg_bytes b = { 0 };
    qg_model *m = quantized_model(ctx, MODELS[0], "trt-int8");
    assert_ok(ctx, qg_model_save_bytes(m, &b));
    assert_ok(ctx, qg_file_write(ctx, path, b.data, b.size));
    qg_model *again = open_model(ctx, path);
    unlink(path);
    assert_same_records(ctx, m, again);
    qg_model_close(again);
    qg_model_close(m);
    qg_bytes_free(ctx, &b);
}

/* As other programs write them; the packed one is gone from memory when it is open. */
static void archives_of_others_open(void **state)
{
    qg_ctx *ctx = *state;
    size_t size;
    char *bytes = file_bytes(ctx, "tests/fuzz/corpus/snapshot/packed.npz", &size);
    qg_model *packed = open_bytes(ctx, bytes, size);
    memset(bytes, 0, size);
    qg_model *stored = open_model(ctx, "tests/fuzz/corpus/snapshot/stored.npz");
    assert_true(qg_model_is_quantized(packed));
    assert_string_equal(dump_text(ctx, packed), dump_text(ctx, stored));
    qg_model_close(packed);
    qg_model_close(stored);
}

static void exported_bytes_are_the_file(void **state)
{
    qg_ctx *ctx = *state;
    char scratch[SCRATCH_PATH];
    const char *path = scratch_path(scratch, "memory_models.onnx");
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        size_t size;
        qg_bytes b = { 0 };
        qg_model *m = open_model(ctx, MODELS[i]);
        assert_ok(ctx, qg_model_export_onnx(m, path));
        assert_ok(ctx, qg_model_export_onnx_bytes(m, &b));
        char *file = file_bytes(ctx, path, &size);
        assert_int_equal(b.size, size);
        assert_memory_equal(b.data, file, size);
        qg_model_close(m);
        qg_bytes_free(ctx, &b);
        unlink(path);
    }
}

static void shapes_count_for_bytes(void **state)
{
    qg_ctx *ctx = *state;
    size_t size;
    qg_model *m;
    char *bytes = file_bytes(ctx, MODELS[0], &size);
    qg_model_options o;
    qg_model_options_init(&o, sizeof o);
    o.shape = (const char *[]){ "image=3x1x8x8" };
    o.n_shape = 1;
    assert_ok(ctx, qg_model_open_bytes(ctx, bytes, size, &o, &m));
    assert_int_equal(m->graph->input.at[0]->type.dim[0], 3);
    qg_model_close(m);
    o.shape = (const char *[]){ "picture=3x1x8x8" };
    assert_fails(ctx, qg_model_open_bytes(ctx, bytes, size, &o, &m), QG_ECONFIG,
                 "picture");
}

static void external_data_comes_from_the_folder(void **state)
{
    qg_ctx *ctx = *state;
    size_t size;
    qg_model *m;
    char *bytes = file_bytes(ctx, "tests/models/external.onnx", &size);
    qg_model_options o;
    assert_fails(ctx, qg_model_open_bytes(ctx, bytes, size, NULL, &m), QG_EIO,
                 "external data");
    qg_model_options_init(&o, sizeof o);
    o.folder = "tests/models";
    assert_ok(ctx, qg_model_open_bytes(ctx, bytes, size, &o, &m));
    qg_model *file = open_model(ctx, "tests/models/external.onnx");
    assert_string_equal(dump_text(ctx, m), dump_text(ctx, file));
    qg_model_close(m);
    qg_model_close(file);
    o.folder = "tests/data";
    assert_fails(ctx, qg_model_open_bytes(ctx, bytes, size, &o, &m), QG_EIO,
                 "external.bin");
}

static void a_model_must_be_quantized_to_be_saved(void **state)
{
    qg_ctx *ctx = *state;
    qg_bytes b = { 0 };
    qg_model *m = open_model(ctx, MODELS[0]);
    assert_fails(ctx, qg_model_save_bytes(m, &b), QG_ESTATE, "is not quantized");
    assert_null(b.data);
    qg_model_close(m);
}

/* --- text --- */

static void text_comes_back(void **state)
{
    qg_ctx *ctx = *state;
    static const char text[] = "graph \"g\" {\n"
                               "  opset 17\n"
                               "  x = input f32[1,3]\n"
                               "  w = const f32[3,2] [1, 2, 3, 4, 5, 6]\n"
                               "  y = MatMul(x, w)\n"
                               "  output y\n"
                               "}\n";
    qg_model *m;
    char *exact = qg_arena_raw(ctx->arena, sizeof text - 1, 1);
    memcpy(exact, text, sizeof text - 1); /* no zero behind it */
    assert_ok(ctx, qg_model_open_text(ctx, exact, sizeof text - 1, &m));
    memset(exact, 'x', sizeof text - 1); /* not borrowed */
    assert_int_equal(m->graph->output.at[0]->type.dim[1], 2);
    quantize(ctx, m, "trt-int8");
    qg_bytes b = { 0 };
    assert_ok(ctx, qg_model_save_bytes(m, &b));
    qg_bytes_free(ctx, &b);
    qg_model_close(m);
    assert_fails(ctx, qg_model_open_text(ctx, "graph {\n  x =\n", 16, &m), QG_EPARSE,
                 "text:2:");
}

static void hashes_cannot_be_read(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = open_model(ctx, "tests/models/conv_relu.onnx");
    const char *text = dump_text(ctx, m);
    qg_model_close(m);
    assert_non_null(strstr(text, "hash("));
    assert_fails(ctx, qg_model_open_text(ctx, text, strlen(text), &m), QG_EPARSE,
                 "hash");
}

/* --- hostile bytes --- */

/* Cut off and with flipped bits: refused with a message, or a model. */
static void damaged_archives_are_refused(void **state)
{
    qg_ctx *ctx = *state;
    qg_bytes b = { 0 };
    qg_model *m = quantized_model(ctx, "tests/models/conv_relu.onnx", "trt-int8");
    assert_ok(ctx, qg_model_save_bytes(m, &b));
    qg_model_close(m);
    char *copy = qg_arena_raw(ctx->arena, b.size, 1);
    for (size_t n = 0; n < b.size; n += 1 + n / 64)
        if (qg_model_open_bytes(ctx, b.data, n, NULL, &m) == QG_OK)
            fail_msg("%zu of %zu bytes are a model", n, b.size);
    for (size_t i = 0; i < b.size; i += 1 + i / 256) {
        memcpy(copy, b.data, b.size);
        copy[i] ^= (char)(1 << i % 8);
        if (qg_model_open_bytes(ctx, copy, b.size, NULL, &m) == QG_OK)
            qg_model_close(m);
        else
            assert_string_not_equal(qg_ctx_message(ctx), "");
    }
    qg_bytes_free(ctx, &b);
}

static qg_status round_trip(qg_alloc alloc, void *ud)
{
    const qg_bytes *b = ud;
    qg_model *m;
    qg_bytes out = { 0 };
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = &qg_ops_registry;
    qg_status s = qg_model_open_bytes(ctx, b->data, b->size, NULL, &m);
    if (s == QG_OK) {
        s = qg_model_save_bytes(m, &out);
        qg_model_close(m);
    }
    qg_bytes_free(ctx, &out);
    qg_ctx_free(ctx);
    return s;
}

static void memory_may_run_out(void **state)
{
    qg_ctx *ctx = *state;
    qg_bytes b = { 0 };
    qg_model *m = quantized_model(ctx, "tests/models/conv_relu.onnx", "trt-int8");
    assert_ok(ctx, qg_model_save_bytes(m, &b));
    qg_model_close(m);
    every_request_may_fail(round_trip, &b, 10);
    qg_bytes_free(ctx, &b);
}

QG_TEST_MAIN(WITH_LIBRARY(bytes_are_the_model_of_the_file),
             WITH_LIBRARY(constants_lie_in_the_bytes),
             WITH_LIBRARY(short_raw_data_is_data), WITH_LIBRARY(snapshots_come_back),
             WITH_LIBRARY(an_archive_opens_by_path),
             WITH_LIBRARY(archives_of_others_open),
             WITH_LIBRARY(exported_bytes_are_the_file),
             WITH_LIBRARY(shapes_count_for_bytes),
             WITH_LIBRARY(external_data_comes_from_the_folder),
             WITH_LIBRARY(a_model_must_be_quantized_to_be_saved),
             WITH_LIBRARY(text_comes_back), WITH_LIBRARY(hashes_cannot_be_read),
             WITH_LIBRARY(damaged_archives_are_refused),
             WITH_LIBRARY(memory_may_run_out))

/* .npy and .npz: what NumPy wrote, what we write, what nobody should write. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/data/npz.h"

struct fixture {
    qg_ctx *ctx;
    char folder[32];
    const char *path, *again;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->ctx = qg_ctx_new(qg_alloc_libc);
    memcpy(f->folder, "/tmp/qg_npy_XXXXXX", 19);
    assert_non_null(mkdtemp(f->folder));
    f->path = qg_path_join(f->ctx->arena, f->folder, "a");
    f->again = qg_path_join(f->ctx->arena, f->folder, "b");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    unlink(f->path);
    unlink(f->again);
    assert_int_equal(rmdir(f->folder), 0); /* no temporary file is left */
    qg_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void same_files(qg_ctx *ctx, const char *a, const char *b)
{
    qg_file f, g;
    assert_ok(ctx, qg_file_open(ctx, "test", a, SIZE_MAX / 2, &f));
    assert_ok(ctx, qg_file_open(ctx, "test", b, SIZE_MAX / 2, &g));
    assert_int_equal(f.size, g.size);
    assert_memory_equal(f.bytes, g.bytes, f.size);
    qg_file_close(&f);
    qg_file_close(&g);
}

static void every_type_of_numpy_reads_and_writes_the_same(void **state)
{
    struct fixture *f = *state;
    static const char *const kinds[] = { "f2", "f4", "f8", "i1", "i2", "i4",
                                         "i8", "u1", "u2", "u4", "u8", "b1" };
    static const double values[] = { 0, 1, 2, 3, 4, 127 };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char path[64];
        const qg_tensor *t;
        (void)snprintf(path, sizeof path, "tests/arrays/%s.npy", kinds[k]);
        assert_ok(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, path, &t));
        assert_int_equal(t->rank, 2);
        assert_int_equal(t->dim[0], 2);
        assert_int_equal(t->dim[1], 3);
        for (int64_t i = 0; i < 6 && t->dtype != QG_F16; i++) {
            double got = t->dtype == QG_F32 || t->dtype == QG_F64
                             ? qg_tensor_f64(t, i)
                             : (double)qg_tensor_i64(t, i);
            assert_cmp_f64(got, ==, t->dtype == QG_BOOL ? values[i] != 0 : values[i]);
        }
        assert_ok(f->ctx, qg_npy_save(f->ctx, f->path, t));
        same_files(f->ctx, path, f->path);
    }
}

static void shapes_without_axes_or_elements(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = { "scalar", "empty", "one_axis" };
    static const int32_t ranks[] = { 0, 2, 1 };
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        const qg_tensor *t;
        (void)snprintf(path, sizeof path, "tests/arrays/%s.npy", names[i]);
        assert_ok(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, path, &t));
        assert_int_equal(t->rank, ranks[i]);
        assert_ok(f->ctx, qg_npy_save(f->ctx, f->path, t));
        same_files(f->ctx, path, f->path);
    }
    const qg_tensor *t;
    assert_ok(f->ctx,
              qg_npy_load(f->ctx, f->ctx->arena, "tests/arrays/version2.npy", &t));
    assert_cmp_f64(t->f32[3], ==, 3);
    assert_ok(f->ctx,
              qg_npy_load(f->ctx, f->ctx->arena, "tests/arrays/version3.npy", &t));
    assert_cmp_f64(t->f32[3], ==, 3);
}

static void refusals_name_the_reason(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *file;
        qg_status status;
        const char *message;
    } cases[] = {
        {"fortran.npy",     QG_EUNSUPPORTED, "is in Fortran order"    },
        { "big_endian.npy", QG_EUNSUPPORTED, "big-endian data"        },
        { "complex.npy",    QG_EUNSUPPORTED, "type '<c8', expected f2"},
        { "stored.npz",     QG_EPARSE,       "is not a .npy file"     },
        { "absent.npy",     QG_EIO,          "No such file"           },
        { "../arrays",      QG_EIO,          "not a regular file"     }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64];
        const qg_tensor *t;
        (void)snprintf(path, sizeof path, "tests/arrays/%s", cases[i].file);
        assert_fails(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, path, &t),
                     cases[i].status, cases[i].message);
    }
}

/* A header with this dict and `bytes` bytes of data behind it. */
static qg_status parse(qg_ctx *ctx, const char *dict, size_t bytes)
{
    unsigned char text[512] = "\x93NUMPY\x01";
    size_t n = strlen(dict);
    qg_npy_head head;
    text[8] = (unsigned char)n;
    memcpy(text + 10, dict, n);
    qg_npy_source from = { "a.npy", text, 10 + n, 10 + n + bytes };
    return qg_npy_parse(ctx, &from, &head);
}

#define DICT(type, order, shape)                                                       \
    "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape "}"

static void headers_are_read_strictly(void **state)
{
    qg_ctx *ctx = ((struct fixture *)*state)->ctx;
    /* clang-format off */
    static const struct {
        const char *dict;
        size_t bytes;
        qg_status status;
        const char *message;
    } cases[] = {
        { DICT("'<f4'", "False", "(2, 3)"), 20, QG_EPARSE,
          "float32[2,3] needs 24 bytes, the file has 20" },
        { DICT("'<f4'", "False", "(2, 3)"), 28, QG_EPARSE, "the file has 28" },
        { DICT("'<f4'", "False", "(4294967296, 4294967296)"), 0, QG_EMODEL, "" },
        { DICT("'<f4'", "False", "(99999999999999999999,)"), 0, QG_EPARSE, "shape" },
        { DICT("'<f4'", "False", "(-1,)"), 0, QG_EPARSE, "shape" },
        { DICT("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, QG_EUNSUPPORTED, "rank" },
        { DICT("'<f4'", "Perhaps", "(1,)"), 4, QG_EPARSE, "neither True nor False" },
        { DICT("[('a', '<f4')]", "False", "(1,)"), 4, QG_EPARSE, "records" },
        { "{'descr': '<f4', 'shape': (1,)}", 4, QG_EPARSE, "is missing" },
        { "{'descr': '<f4', 'descr': '<f4'}", 4, QG_EPARSE, "appears twice" },
        { "{'descr': '<f4", 4, QG_EPARSE, "header" },
        { "{", 4, QG_EPARSE, "is not a dict" },
        { "", 4, QG_EPARSE, "is not a dict" },
        { DICT("'<f4'", "False", "(1,)") " x", 4, QG_EPARSE, "data follow the dict" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(ctx, parse(ctx, cases[i].dict, cases[i].bytes), cases[i].status,
                     cases[i].message);
    static const unsigned char cut[] = "\x93NUMPY\x02\0\0\0";
    unsigned char *exact = malloc(10); /* ASan sees a read behind it */
    memcpy(exact, cut, 10);
    qg_npy_head head;
    qg_npy_source from = { "a.npy", exact, 10, 10 };
    assert_fails(ctx, qg_npy_parse(ctx, &from, &head), QG_EPARSE, "header of");
    free(exact);
    assert_ok(ctx, parse(ctx, DICT("'|u1'", "True", "(7,)"), 7));
    assert_ok(ctx, parse(ctx, DICT("'=i8'", "True", "(1,1,3,1)"), 24));
}

static void a_window_is_what_the_whole_holds(void **state)
{
    struct fixture *f = *state;
    qg_npy n;
    int16_t two[2];
    assert_ok(f->ctx, qg_npy_open(f->ctx, "tests/arrays/i2.npy", &n));
    assert_ok(f->ctx, qg_npy_read(f->ctx, &n, 4, 2, two));
    assert_int_equal(two[0], 4);
    assert_int_equal(two[1], 127);
    assert_ok(f->ctx, qg_npy_read(f->ctx, &n, 6, 0, two));
    qg_npy_close(&n);
    qg_npy_close(&n);
}

static void samples_are_appended(void **state)
{
    struct fixture *f = *state;
    qg_npy_writer w;
    qg_tensor sample;
    float data[6] = { 0 };
    const qg_tensor *t;
    qg_tensor_init(&sample, QG_F32, 2, (int64_t[]){ 2, 3 });
    sample.f32 = data;
    for (int n = 0; n <= 12; n += 12) {
        assert_ok(f->ctx, qg_npy_create(f->ctx, f->path, &sample, &w));
        for (int i = 0; i < n; i++) {
            data[5] = (float)i;
            qg_npy_append(&w, &sample);
        }
        assert_ok(f->ctx, qg_npy_commit(&w));
        qg_npy_abandon(&w);
        assert_ok(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, f->path, &t));
        assert_int_equal(t->rank, 3);
        assert_int_equal(t->dim[0], n);
        assert_int_equal(t->dim[2], 3);
        for (int i = 0; i < n; i++)
            assert_cmp_f64(t->f32[6 * i + 5], ==, (float)i);
    }
    assert_ok(f->ctx, qg_npy_create(f->ctx, f->again, &sample, &w));
    qg_npy_abandon(&w);
    assert_int_not_equal(access(f->again, F_OK), 0);
}

static void numpy_archives_are_read(void **state)
{
    struct fixture *f = *state;
    static const char *const paths[] = { "tests/arrays/stored.npz",
                                         "tests/arrays/deflated.npz" };
    for (size_t i = 0; i < 2; i++) {
        qg_npz z;
        qg_npy n;
        const qg_tensor *t;
        float two[2];
        assert_ok(f->ctx, qg_npz_open(f->ctx, f->ctx->arena, paths[i], &z));
        assert_int_equal(z.count, 2);
        assert_null(qg_npz_find(&z, "z"));
        assert_ok(f->ctx,
                  qg_npz_load(f->ctx, f->ctx->arena, &z, qg_npz_find(&z, "y"), &t));
        assert_int_equal(t->dtype, QG_I64);
        assert_int_equal(t->dim[0], 3);
        assert_int_equal(t->i64[2], 2);
        assert_ok(f->ctx,
                  qg_npz_array(f->ctx, f->ctx->arena, &z, qg_npz_find(&z, "x"), &n));
        assert_ok(f->ctx, qg_npy_read(f->ctx, &n, 7, 2, two));
        assert_cmp_f64(two[0], ==, 7);
        assert_cmp_f64(two[1], ==, 8);
        qg_npy_close(&n);
        qg_npz_close(&z);
    }
}

static void put_archive(struct fixture *f, const char *path, bool deflate)
{
    qg_npz_writer w;
    static float zeros[50000];
    int64_t numbers[] = { 1, -2 };
    qg_tensor a, b;
    qg_tensor_init(&a, QG_F32, 2, (int64_t[]){ 50, 1000 });
    a.f32 = zeros;
    qg_tensor_init(&b, QG_I64, 1, (int64_t[]){ 2 });
    b.i64 = numbers;
    assert_ok(f->ctx, qg_npz_create(f->ctx, path, deflate, &w));
    assert_ok(f->ctx, qg_npz_add(&w, "a", &a));
    assert_ok(f->ctx, qg_npz_add(&w, "b/c", &b));
    assert_fails(f->ctx, qg_npz_add(&w, "a", &a), QG_EDATA,
                 "two arrays have the name 'a'");
    assert_ok(f->ctx, qg_npz_commit(&w));
}

static void our_archives_are_read_and_repeat(void **state)
{
    struct fixture *f = *state;
    for (int deflate = 0; deflate < 2; deflate++) {
        qg_npz z;
        const qg_tensor *t;
        put_archive(f, f->path, deflate);
        put_archive(f, f->again, deflate);
        same_files(f->ctx, f->path, f->again);
        assert_ok(f->ctx, qg_npz_open(f->ctx, f->ctx->arena, f->path, &z));
        assert_true(deflate ? z.size < 2000 : z.size > 200000);
        assert_ok(f->ctx,
                  qg_npz_load(f->ctx, f->ctx->arena, &z, qg_npz_find(&z, "a"), &t));
        assert_int_equal(t->dim[1], 1000);
        assert_cmp_f64(t->f32[49999], ==, 0);
        assert_ok(f->ctx,
                  qg_npz_load(f->ctx, f->ctx->arena, &z, qg_npz_find(&z, "b/c"), &t));
        assert_int_equal(t->i64[1], -2);
        qg_npz_close(&z);
    }
}

/* Every byte of an archive damaged, every prefix cut: read or refused, never a crash;
 * damage to data never goes unnoticed. */
static void damaged_archives_never_crash(void **state)
{
    struct fixture *f = *state;
    static const char *const paths[] = { "tests/arrays/stored.npz",
                                         "tests/arrays/deflated.npz" };
    for (size_t p = 0; p < 2; p++) {
        qg_file whole;
        assert_ok(f->ctx, qg_file_open(f->ctx, "test", paths[p], 1 << 20, &whole));
        unsigned char *copy = malloc(whole.size);
        for (size_t i = 0; i < 2 * whole.size; i++) {
            qg_arena *a = qg_arena_new(qg_alloc_libc);
            qg_npz z;
            size_t at = i / 2;
            memcpy(copy, whole.bytes, whole.size);
            copy[at] ^= (unsigned char)(i % 2 ? 1u << at % 8 : 0);
            assert_ok(f->ctx,
                      qg_file_write(f->ctx, f->path, copy, i % 2 ? whole.size : at));
            if (qg_npz_open(f->ctx, a, f->path, &z) == QG_OK) {
                for (size_t k = 0; k < z.count; k++) {
                    const qg_tensor *t;
                    if (qg_npz_load(f->ctx, a, &z, &z.member[k], &t) == QG_OK)
                        assert_int_equal(t->dim[0], 3);
                }
                qg_npz_close(&z);
            }
            qg_arena_free(a);
        }
        free(copy);
        qg_file_close(&whole);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(every_type_of_numpy_reads_and_writes_the_same),
             TEST(shapes_without_axes_or_elements), TEST(refusals_name_the_reason),
             TEST(headers_are_read_strictly), TEST(a_window_is_what_the_whole_holds),
             TEST(samples_are_appended), TEST(numpy_archives_are_read),
             TEST(our_archives_are_read_and_repeat), TEST(damaged_archives_never_crash))

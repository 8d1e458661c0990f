/* Data sources: the rule of samples, types, names, every kind of file. */
#include "tests/support/graphs.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/data/data.h"
#include "engine/data/npz.h"

struct fixture {
    toy t;
    qg_arena *scratch;
    char folder[32];
    const char *npy, *npz;
    float f32[64];
    double f64[64];
    int64_t i64[64];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->t = toy_new();
    f->scratch = qg_arena_new(qg_alloc_libc);
    memcpy(f->folder, "/tmp/qg_data_XXXXXX", 20);
    assert_non_null(mkdtemp(f->folder));
    f->npy = qg_path_join(f->t.ctx->arena, f->folder, "a.npy");
    f->npz = qg_path_join(f->t.ctx->arena, f->folder, "b.npz");
    for (int i = 0; i < 64; i++) {
        f->f32[i] = (float)i;
        f->f64[i] = i + 0.25;
        f->i64[i] = i;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    unlink(f->npy);
    unlink(f->npz);
    rmdir(f->folder);
    qg_arena_free(f->scratch);
    toy_free(&f->t);
    free(f);
    return 0;
}

static void input(struct fixture *f, const char *name, qg_dtype dtype, int rank,
                  const int64_t *dim)
{
    (void)toy_input(&f->t, name, dtype, rank, dim);
}

static qg_status open_data(struct fixture *f, const char *spec, qg_data **out)
{
    qg_data_request r = { .input = f->t.g->input.at, .n_input = f->t.g->input.n };
    return qg_data_open(f->t.ctx, spec, &r, out);
}

static void save(struct fixture *f, qg_dtype dtype, int rank, const int64_t *dim)
{
    qg_tensor t;
    qg_tensor_init(&t, dtype, rank, dim);
    t.data = dtype == QG_F32   ? (void *)f->f32
             : dtype == QG_F64 ? (void *)f->f64
                               : (void *)f->i64;
    assert_ok(f->t.ctx, qg_npy_save(f->t.ctx, f->npy, &t));
}

/* Sample i of the only input, in scratch. */
static qg_status fetch(struct fixture *f, const qg_data *d, size_t i, qg_tensor *out)
{
    qg_tensor *all[] = { out };
    qg_data_shape(d, i, 0, out);
    assert_ok(f->t.ctx, qg_tensor_alloc(f->t.ctx, f->scratch, out));
    return qg_data_fetch(f->t.ctx, d, i, f->scratch, all);
}

#define DIMS(...)                                                                      \
    (int64_t[]) { __VA_ARGS__ }
#define RANK(...) (int)(sizeof(DIMS(__VA_ARGS__)) / sizeof(int64_t)), DIMS(__VA_ARGS__)

/* ---- What a sample is ---- */

struct rule {
    int input_rank;
    int64_t input[4];
    int array_rank;
    int64_t array[4];
    size_t samples; /* 0: refused */
    int64_t first;  /* first extent of a sample */
};

static void the_first_axis_counts_samples_or_not(void **state)
{
    static const struct rule rules[] = {
        {2,  { 2, 3 },  2, { 2, 3 },    1, 2}, /* one sample */
        { 2, { 2, 3 },  3, { 5, 2, 3 }, 5, 2}, /* one more axis */
        { 2, { 1, 3 },  2, { 5, 3 },    5, 1}, /* batch 1, more rows */
        { 2, { -1, 3 }, 2, { 5, 3 },    5, 1}, /* symbolic batch */
        { 2, { -1, 3 }, 2, { 1, 3 },    1, 1}, /* one row is one sample */
        { 2, { -1, 3 }, 3, { 4, 5, 3 }, 4, 5}, /* samples with a batch of their own */
        { 2, { 1, 3 },  3, { 4, 1, 3 }, 4, 1},
        { 2, { 2, -1 }, 2, { 2, 7 },    1, 2},
        { 2, { 2, 3 },  2, { 4, 3 },    2, 2}, /* a batch in every two rows */
        { 2, { 2, 3 },  2, { 5, 3 },    0, 0},
        { 2, { 2, 3 },  2, { 4, 4 },    0, 0},
        { 2, { 2, 3 },  1, { 6 },       0, 0},
        { 2, { 1, 3 },  2, { 5, 4 },    0, 0},
        { 0, { 0 },     1, { 4 },       4, 0},
        { 0, { 0 },     0, { 0 },       1, 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *r = &rules[i];
        qg_data *d = NULL;
        setup(state); /* inputs cannot be taken away again */
        struct fixture *f = *state;
        input(f, "x", QG_F32, r->input_rank, r->input);
        save(f, QG_F32, r->array_rank, r->array);
        qg_status s = open_data(f, f->npy, &d);
        assert_int_equal(s, r->samples ? QG_OK : QG_EDATA);
        if (s == QG_OK) {
            qg_tensor t;
            assert_int_equal(qg_data_count(d), r->samples);
            assert_ok(f->t.ctx, fetch(f, d, r->samples - 1, &t));
            assert_int_equal(t.rank, r->input_rank);
            if (t.rank)
                assert_int_equal(t.dim[0], r->first);
            int64_t n = qg_tensor_count(&t);
            assert_cmp_f64(t.f32[0], ==, (float)(n * (int64_t)(r->samples - 1)));
        }
        qg_data_close(d);
        teardown(state);
    }
}

static void the_message_names_both_shapes(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    input(f, "x", QG_F32, RANK(2, 3));
    save(f, QG_F32, RANK(5, 3));
    assert_fails(
        f->t.ctx, open_data(f, f->npy, &d), QG_EDATA,
        "the array for input 'x' is float32[5,3], expected float32[2,3], or with "
        "samples along a first axis; its first axis of 5 is no multiple of 2");
}

/* ---- Types ---- */

static void types_are_converted_when_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 4));
    save(f, QG_F64, RANK(3, 4));
    assert_ok(f->t.ctx, open_data(f, f->npy, &d));
    assert_ok(f->t.ctx, fetch(f, d, 2, &t));
    assert_cmp_f64(t.f32[3], ==, 11.25f);
    qg_data_close(d);
    f->f64[6] = 0.1;
    f->f64[9] = 1e300;
    save(f, QG_F64, RANK(3, 4));
    assert_ok(f->t.ctx, open_data(f, f->npy, &d));
    assert_ok(f->t.ctx, fetch(f, d, 0, &t));
    assert_fails(f->t.ctx, fetch(f, d, 1, &t), QG_EDATA,
                 "sample 1 of input 'x' contains 0.10000000000000001, which float32 "
                 "cannot represent");
    qg_data_close(d);
    qg_data_request r = { .input = f->t.g->input.at, .n_input = 1, .lossy = true };
    assert_ok(f->t.ctx, qg_data_open(f->t.ctx, f->npy, &r, &d));
    assert_ok(f->t.ctx, fetch(f, d, 1, &t));
    assert_cmp_f64(t.f32[2], ==, 0.1f);
    qg_data_close(d);
}

static void integers_fit_or_are_refused(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_U8, RANK(1, 2));
    f->i64[3] = 256;
    save(f, QG_I64, RANK(2, 2));
    assert_ok(f->t.ctx, open_data(f, f->npy, &d));
    assert_ok(f->t.ctx, fetch(f, d, 0, &t));
    assert_int_equal(t.u8[1], 1);
    assert_fails(f->t.ctx, fetch(f, d, 1, &t), QG_EDATA,
                 "contains 256, which uint8 cannot represent");
    qg_data_close(d);
    save(f, QG_F32, RANK(2, 2));
    assert_fails(f->t.ctx, open_data(f, f->npy, &d), QG_EDATA,
                 "the array for input 'x' is float32, expected uint8");
}

static void nan_is_found_when_it_is_met(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 4));
    f->f32[13] = NAN;
    save(f, QG_F32, RANK(4, 4));
    assert_ok(f->t.ctx, open_data(f, f->npy, &d));
    assert_ok(f->t.ctx, fetch(f, d, 2, &t));
    assert_fails(f->t.ctx, fetch(f, d, 3, &t), QG_EDATA,
                 "a.npy: sample 3 of input 'x' contains NaN");
    qg_data_close(d);
}

/* ---- Kinds of files ---- */

static void put_npz(struct fixture *f, int64_t x_samples, int64_t y_samples,
                    bool deflate)
{
    qg_npz_writer w;
    qg_tensor x, y;
    qg_tensor_init(&x, QG_F32, 2, DIMS(x_samples, 3));
    x.f32 = f->f32;
    qg_tensor_init(&y, QG_I64, 1, DIMS(y_samples));
    y.i64 = f->i64;
    assert_ok(f->t.ctx, qg_npz_create(f->t.ctx, f->npz, deflate, &w));
    assert_ok(f->t.ctx, qg_npz_add(&w, "x", &x));
    assert_ok(f->t.ctx, qg_npz_add(&w, "y", &y));
    assert_ok(f->t.ctx, qg_npz_commit(&w));
}

/* Another mark than that of an entry, at the last entry of the directory. */
static void spoil_directory(const char *path)
{
    FILE *file = fopen(path, "r+b");
    char bytes[4096];
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file), at = n;
    while (at > 0 && memcmp(bytes + at, "PK\1\2", 4) != 0)
        at--;
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite("PK\3\2", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
}

static void arrays_of_an_archive_go_to_inputs_by_name(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    input(f, "y", QG_I64, 0, NULL);
    input(f, "x", QG_F32, RANK(1, 3));
    for (int deflate = 0; deflate < 2; deflate++) {
        put_npz(f, 5, 5, deflate);
        for (int folder = 0; folder < 2; folder++) {
            qg_tensor x, y, *all[] = { &y, &x };
            assert_ok(f->t.ctx, open_data(f, folder ? f->folder : f->npz, &d));
            assert_int_equal(qg_data_count(d), 5);
            qg_data_shape(d, 4, 0, &y);
            qg_data_shape(d, 4, 1, &x);
            assert_ok(f->t.ctx, qg_tensor_alloc(f->t.ctx, f->scratch, &x));
            assert_ok(f->t.ctx, qg_tensor_alloc(f->t.ctx, f->scratch, &y));
            assert_ok(f->t.ctx, qg_data_fetch(f->t.ctx, d, 4, f->scratch, all));
            assert_cmp_f64(x.f32[2], ==, 14);
            assert_int_equal(y.i64[0], 4);
            qg_data_close(d);
        }
    }
    put_npz(f, 5, 4, false);
    assert_fails(f->t.ctx, open_data(f, f->npz, &d), QG_EDATA,
                 "5 samples for input 'x', expected 4 as for 'y'");
    input(f, "z", QG_F32, RANK(1, 3));
    put_npz(f, 5, 5, false);
    assert_fails(f->t.ctx, open_data(f, f->npz, &d), QG_EDATA,
                 "contains no array for input 'z' of the model, only 'x', 'y'");
    spoil_directory(f->npz);
    assert_fails(f->t.ctx, open_data(f, f->npz, &d), QG_EPARSE,
                 "its directory is cut off");
    save(f, QG_F32, RANK(5, 3));
    assert_fails(f->t.ctx, open_data(f, f->npy, &d), QG_EDATA,
                 "one array for a model with 3 inputs");
}

static void a_folder_is_read_in_name_order(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 3));
    save(f, QG_F32, RANK(2, 3)); /* a.npy: samples 0 and 1 */
    put_npz(f, 5, 5, true);      /* b.npz: samples 2 to 6 */
    assert_ok(f->t.ctx, open_data(f, f->folder, &d));
    assert_int_equal(qg_data_count(d), 7);
    assert_ok(f->t.ctx, fetch(f, d, 1, &t));
    assert_cmp_f64(t.f32[0], ==, 3);
    assert_ok(f->t.ctx, fetch(f, d, 4, &t));
    assert_cmp_f64(t.f32[0], ==, 6);
    save(f, QG_F32, RANK(1, 3)); /* behind its back */
    assert_fails(f->t.ctx, fetch(f, d, 1, &t), QG_EDATA, "has changed since");
    qg_data_close(d);
    qg_data_request r = { .input = f->t.g->input.at, .n_input = 1, .limit = 3 };
    assert_ok(f->t.ctx, qg_data_open(f->t.ctx, f->folder, &r, &d));
    assert_int_equal(qg_data_count(d), 3);
    qg_data_close(d);
}

static void random_samples_are_always_the_same(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor a, b, c;
    input(f, "x", QG_F32, RANK(-1, 50));
    assert_ok(f->t.ctx, open_data(f, "random:3", &d));
    assert_int_equal(qg_data_count(d), 3);
    assert_ok(f->t.ctx, fetch(f, d, 2, &a));
    assert_ok(f->t.ctx, fetch(f, d, 0, &b));
    assert_ok(f->t.ctx, fetch(f, d, 2, &c));
    assert_int_equal(a.dim[0], 1);
    assert_memory_equal(a.data, c.data, 50 * sizeof(float));
    assert_memory_not_equal(a.data, b.data, 50 * sizeof(float));
    for (int i = 0; i < 50; i++) {
        assert_cmp_f64(a.f32[i], >=, 0);
        assert_cmp_f64(a.f32[i], <, 1);
    }
    qg_data_close(d);
    assert_fails(f->t.ctx, open_data(f, "random:0", &d), QG_ECONFIG, "N >= 1");
    assert_fails(f->t.ctx, open_data(f, "random:x", &d), QG_ECONFIG, "N >= 1");
}

static void images_become_planes(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 3, 2, 4));
    assert_ok(f->t.ctx, open_data(f, "tests/arrays/images", &d));
    assert_int_equal(qg_data_count(d), 3);
    assert_ok(f->t.ctx, fetch(f, d, 0, &t));
    assert_cmp_f64(t.f32[0], ==, 0);
    assert_cmp_f64(t.f32[1], ==, 30);
    assert_cmp_f64(t.f32[8], ==, 10);
    assert_cmp_f64(t.f32[23], ==, 230);
    assert_ok(f->t.ctx, fetch(f, d, 1, &t));
    assert_cmp_f64(t.f32[23], ==, 231);
    assert_ok(f->t.ctx, fetch(f, d, 2, &t)); /* a gray picture for three channels */
    assert_cmp_f64(t.f32[1], ==, 30);
    assert_cmp_f64(t.f32[9], ==, 30);
    assert_cmp_f64(t.f32[17], ==, 30);
    qg_data_close(d);
}

/* The file of `bytes` with one byte less, by its name. */
static void refuse_shorter(struct fixture *f, const char *name,
                           const unsigned char *bytes, size_t n)
{
    qg_data *d;
    const char *path = qg_path_join(f->t.ctx->arena, f->folder, name);
    for (size_t less = 0; less < 2; less++) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, n - less, file), n - less);
        assert_int_equal(fclose(file), 0);
        if (less == 0) {
            assert_ok(f->t.ctx, open_data(f, path, &d));
            qg_data_close(d);
        } else {
            assert_fails(f->t.ctx, open_data(f, path, &d), QG_EPARSE,
                         " bytes, expected ");
        }
    }
    unlink(path);
}

static void images_that_end_early_are_refused(void **state)
{
    static const unsigned char header[] = "P5\n# of 2\n4 2\n255\n",
                               color[] = "P6 4 2 255\n";
    /* 4 x 2 pixels of 24 bits from byte 54 on */
    static const unsigned char bmp[78] = {
        'B', 'M', 78, [10] = 54, [14] = 40, [18] = 4, [22] = 2, [26] = 1, [28] = 24
    };
    struct fixture *f = *state;
    unsigned char bytes[96] = { 0 };
    input(f, "x", QG_F32, RANK(1, 3, 2, 4));
    memcpy(bytes, header, sizeof header - 1);
    refuse_shorter(f, "a.pgm", bytes, sizeof header - 1 + 8);
    memcpy(bytes, color, sizeof color - 1);
    refuse_shorter(f, "a.ppm", bytes, sizeof color - 1 + 24);
    refuse_shorter(f, "a.bmp", bmp, sizeof bmp);
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Values of a PNM image count up to its maxval: 10 of 20 is half of white. */
static void pixels_are_scaled_to_255(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        float pixel[2];
    } row[] = {
#define IMAGE(text) text, sizeof text - 1
        {IMAGE("P5 2 1 255\n\x7f\xff"),          { 127, 255 }},
        { IMAGE("P5 2 1 1\n\0\1"),               { 0, 255 }  },
        { IMAGE("P5 2 1 20\n\x0a\x13"),          { 128, 242 }}, /* 127.5; 242.25 */
        { IMAGE("P5 2 1 254\n\x7f\xfe"),         { 128, 255 }},
        { IMAGE("P5 2 1 100\n\x21\x22\xff\xff"), { 84, 87 }  }, /* 84.15; 86.7 */
        { IMAGE("P6 2 1 3\n\1\0\0\2\0\0"),       { 85, 170 } },
#undef IMAGE
    };
    struct fixture *f = *state;
    const char *path = qg_path_join(f->t.ctx->arena, f->folder, "m.pgm");
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 3, 1, 2));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_bytes(path, row[i].bytes, row[i].n);
        assert_ok(f->t.ctx, open_data(f, path, &d));
        assert_ok(f->t.ctx, fetch(f, d, 0, &t));
        assert_cmp_f64(t.f32[0], ==, row[i].pixel[0]);
        assert_cmp_f64(t.f32[1], ==, row[i].pixel[1]);
        qg_data_close(d);
    }
    write_bytes(path, "P5 2 1 20\n\x0a\x15", 12);
    assert_ok(f->t.ctx, open_data(f, path, &d));
    assert_fails(f->t.ctx, fetch(f, d, 0, &t), QG_EDATA, "the value 21, expected 0 to");
    qg_data_close(d);
    write_bytes(path, "P5 2 1 0\n\0\0", 11);
    assert_fails(f->t.ctx, open_data(f, path, &d), QG_EDATA, "the maximum value 0");
    unlink(path);
}

static void variants_of_images(void **state)
{
    static const char deep[] = "P5 2 2 65535\n\1\2\3\4\5\6\7\10";
    /* 2 x 2 pixels of 8 bits behind 256 colors of 3 bytes */
    static const unsigned char colors[26 + 768 + 8] = {
        'B', 'M', [10] = 26, [11] = 3, [14] = 12, [18] = 2, [20] = 2, [22] = 1, [24] = 8
    };
    /* 1 x 2 pixels, the first row on top; rows of 4 bytes */
    static const unsigned char top[62] = {
        'B',        'M',        [10] = 54,  [14] = 40, [18] = 1,  [22] = 254,
        [23] = 255, [24] = 255, [25] = 255, [26] = 1,  [28] = 24, [54] = 7
    };
    struct fixture *f = *state;
    qg_data *d;
    const char *pgm = qg_path_join(f->t.ctx->arena, f->folder, "d.pgm");
    const char *bmp = qg_path_join(f->t.ctx->arena, f->folder, "d.bmp");
    input(f, "x", QG_F32, RANK(1, 3, -1, -1));
    write_bytes(pgm, deep, sizeof deep - 1);
    assert_fails(f->t.ctx, open_data(f, pgm, &d), QG_EDATA, "16 bits per channel");
    write_bytes(bmp, colors, sizeof colors);
    assert_fails(f->t.ctx, open_data(f, bmp, &d), QG_EDATA, "palette of OS/2");
    write_bytes(bmp, top, sizeof top);
    assert_ok(f->t.ctx, open_data(f, bmp, &d));
    qg_data_close(d);
    unlink(pgm);
    unlink(bmp);
}

static void yaml_says_how_images_are_made(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    qg_tensor t;
    input(f, "x", QG_F32, RANK(1, 1, 2, 3));
    assert_ok(f->t.ctx, open_data(f, "tests/arrays/images.yaml", &d));
    assert_ok(f->t.ctx, fetch(f, d, 0, &t));
    /* Pixel 0 of the result is the mean of pixels 0, 1, 4 and 5 of the file: red 75,
     * green 85, blue 95; blue comes first. */
    assert_cmp_f64(t.f32[0], ==, (95 - 10) / 2.f);
    assert_cmp_f64(t.f32[1], ==, (85 - 20) / 2.f);
    assert_cmp_f64(t.f32[2], ==, (75 - 30) / 2.f);
    qg_data_close(d);
}

static void what_is_no_data_is_named(void **state)
{
    struct fixture *f = *state;
    qg_data *d;
    input(f, "x", QG_F32, RANK(1, 3));
    assert_fails(f->t.ctx, open_data(f, "tests/arrays/make_arrays.py", &d), QG_ECONFIG,
                 "expected .npy, .npz, .pb, an image, a folder of these");
    assert_fails(f->t.ctx, open_data(f, f->folder, &d), QG_EDATA, "contains no .npy");
    assert_fails(f->t.ctx, open_data(f, "absent.npy", &d), QG_EIO, "No such file");
    assert_fails(f->t.ctx, open_data(f, "absent", &d), QG_EIO, "absent: No such file");
    assert_fails(f->t.ctx, open_data(f, "tests/arrays/images", &d), QG_EDATA,
                 "an image for an input of float32[1,3], expected 4 axes");
    save(f, QG_F32, RANK(0, 1, 3));
    assert_fails(f->t.ctx, open_data(f, f->npy, &d), QG_EDATA, "contains no samples");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(cmocka_unit_test(the_first_axis_counts_samples_or_not),
             TEST(the_message_names_both_shapes),
             TEST(types_are_converted_when_nothing_is_lost),
             TEST(integers_fit_or_are_refused), TEST(nan_is_found_when_it_is_met),
             TEST(arrays_of_an_archive_go_to_inputs_by_name),
             TEST(a_folder_is_read_in_name_order),
             TEST(random_samples_are_always_the_same), TEST(images_become_planes),
             TEST(images_that_end_early_are_refused), TEST(pixels_are_scaled_to_255),
             TEST(variants_of_images), TEST(yaml_says_how_images_are_made),
             TEST(what_is_no_data_is_named))

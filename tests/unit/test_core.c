/* Core: arenas, names, vectors, exact float text, files. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/num.h"
#include "engine/core/rng.h"
#include "engine/core/vec.h"

static void float_text_reads_back(void **state)
{
    (void)state;
    qg_rng rng = { 7 };
    char text[QG_NUM_TEXT];
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)qg_rng_next(&rng);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (x - x != 0)
            continue;
        qg_num_f32(text, x);
        double back = 0;
        assert_true(qg_num_parse_f64(text, strlen(text), &back));
        assert_cmp_f64((float)back, ==, x);
    }
    qg_num_f32(text, 0.1f);
    assert_string_equal(text, "0.1");
    qg_num_f32(text, 1e-30f);
    assert_string_equal(text, "1e-30");
    qg_num_f32(text, -128.0f);
    assert_string_equal(text, "-128.0");
}

static void names_are_dense_and_found(void **state)
{
    (void)state;
    qg_names *t = qg_names_new(qg_alloc_libc);
    for (uint32_t i = 0; i < 1000; i++) {
        char s[16];
        uint32_t id;
        int n = snprintf(s, sizeof s, "n%u", i % 500);
        assert_int_equal(qg_names_add(t, s, (size_t)n, &id), QG_OK);
        assert_int_equal(id, i % 500);
    }
    assert_int_equal(qg_names_count(t), 500);
    assert_int_equal(qg_names_find(t, "n7", 2), 7);
    assert_int_equal(qg_names_find(t, "n7x", 3), QG_NONE);
    qg_names_free(t);
}

static void vectors_grow(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    QG_VEC(int) v = { 0 };
    for (int i = 0; i < 1000; i++)
        assert_int_equal(qg_vec_push(ctx, ctx->arena, &v, i), QG_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.at[i], i);
    qg_ctx_free(ctx);
}

static void reset_arena_allocates_nothing(void **state)
{
    (void)state;
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    for (int i = 0; i < 100; i++)
        assert_non_null(qg_arena_get(a, 100, 37));
    size_t bytes = qg_arena_bytes(a);
    qg_arena_reset(a);
    for (int i = 0; i < 100; i++)
        assert_non_null(qg_arena_get(a, 100, 37));
    assert_int_equal(qg_arena_bytes(a), bytes);
    assert_null(qg_arena_get(a, SIZE_MAX / 2, 4));
    qg_arena_free(a);
}

static void writer_leaves_nothing_behind(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    char dir[] = "/tmp/qg_core_XXXXXX";
    assert_non_null(mkdtemp(dir));
    const char *path = qg_path_join(ctx->arena, dir, "f");
    qg_writer w;
    assert_int_equal(qg_writer_open(ctx, path, &w), QG_OK);
    fputs("half", w.stream);
    qg_writer_abandon(&w);
    const char **names;
    size_t n;
    assert_int_equal(qg_directory_list(ctx, ctx->arena, dir, &names, &n), QG_OK);
    assert_int_equal(n, 0);
    assert_int_equal(qg_file_write(ctx, path, "whole", 5), QG_OK);
    char *text;
    assert_int_equal(
        qg_file_text(ctx, ctx->arena, (qg_file_request){ "read", path, 99 }, &text, &n),
        QG_OK);
    assert_string_equal(text, "whole");
    assert_int_equal(qg_file_write(ctx, dir, "x", 1), QG_EIO);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* it stands for /dev/null */
    assert_fails(ctx, qg_file_write(ctx, path, "x", 1), QG_EIO,
                 "is a device, pipe or socket, expected a file");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    unlink(path);
    rmdir(dir);
    qg_ctx_free(ctx);
}

/* What a file takes in memory: at most a multiple of its size, unless it is little. */
static void contents_are_bounded_by_the_file(void **state)
{
    (void)state;
    const uint64_t little = QG_ALWAYS_UNPACKED, large = UINT64_C(100) << 20;
    const struct {
        uint64_t bytes;
        size_t size;
        bool allowed;
    } row[] = {
        {little,      0,        true },
        { little + 1, 0,        false},
        { large,      1 << 20,  true }, /* 100 times */
        { large + 1,  1 << 20,  false},
        { UINT64_MAX, SIZE_MAX, true },
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    ctx->limits.ratio = 100;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        qg_status s = qg_check_ratio(ctx, "test", "a.npz", row[i].bytes, row[i].size);
        assert_cmp_int(s, ==, row[i].allowed ? QG_OK : QG_EMEMORY);
    }
    assert_non_null(
        strstr(qg_ctx_message(ctx),
               "test a.npz: 104.9 MB from a file of 1048576 bytes, expected "
               "at most 100 x its size (--max-ratio)"));
    qg_ctx_free(ctx);
}

/* row[i][0] is edited in place to row[i][1]. */
static void each_becomes(const char *const row[][2], size_t n, void edit(char *text))
{
    for (size_t i = 0; i < n; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", row[i][0]);
        edit(text);
        assert_string_equal(text, row[i][1]);
    }
}

static void the_point_is_set(void **state)
{
    (void)state;
    const char *const row[][2] = {
        {"1,5 %",        "1.5 %"      },
        { "-0,000123 %", "-0.000123 %"},
        { "1,25e-07",    "1.25e-07"   },
        { "1\xd9\xab"
          "5",  "1.5"        }, /* U+066B */
        { "1e+05",       "1e+05"      },
        { "12.5",        "12.5"       },
        { "-inf",        "-inf"       },
        { "nan %",       "nan %"      },
        { "7",           "7"          },
    };
    each_becomes(row, sizeof row / sizeof *row, qg_num_set_point);
}

static void nan_has_no_sign(void **state)
{
    (void)state;
    const char *const row[][2] = {
        {"-nan",                       "nan"                     },
        { "error -nan, scale[0]=-nan", "error nan, scale[0]=nan" },
        { "the range is -nan to -nan", "the range is nan to nan" },
        { "node 'a-nan': '-nan': -1",  "node 'a-nan': '-nan': -1"},
        { "/-nan/x -nano -nan_2",      "/-nan/x -nano -nan_2"    },
        { "[-nan, -inf], (-nan %)",    "[nan, -inf], (nan %)"    },
    };
    each_becomes(row, sizeof row / sizeof *row, qg_num_unsign_nan);
}

QG_TEST_MAIN(cmocka_unit_test(float_text_reads_back),
             cmocka_unit_test(the_point_is_set), cmocka_unit_test(nan_has_no_sign),
             cmocka_unit_test(names_are_dense_and_found),
             cmocka_unit_test(vectors_grow),
             cmocka_unit_test(reset_arena_allocates_nothing),
             cmocka_unit_test(writer_leaves_nothing_behind),
             cmocka_unit_test(contents_are_bounded_by_the_file))

/* Labels of samples (session/labels.h): shapes of scores, votes, the share that is
 * right, files and arrays that fit. */
#include <math.h>

#include "engine/session/labels.h"
#include "tests/support/scratch.h"
#include "tests/support/session.h"

enum { MOST = 16 };

/* A float32 tensor of these dims that borrows x. */
static qg_tensor scores(int32_t rank, const int64_t *dim, float *x)
{
    qg_tensor y;
    qg_tensor_init(&y, QG_F32, rank, dim);
    y.data = x;
    return y;
}

#define DIMS(...)                                                                      \
    (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

/* --- one sample --- */

/* A vote of sample `k` with these labels, [each] of a sample. */
static qg_status vote_of(qg_ctx *ctx, const qg_tensor *y, const int64_t *label,
                         size_t each, size_t k, int32_t vote[MOST])
{
    const qg_labels l = { label, each, "l.npy" };
    for (size_t i = 0; i < MOST; i++)
        vote[i] = 77;
    return qg_labels_vote(ctx, "evaluate", y, &l, k, vote);
}

static void votes_are_largest(void **state)
{
    qg_ctx *ctx = *state;
    static const struct vote {
        float x[4];
        int32_t expected;
    } row[] = {
        {{ 1, 2, 3, 4 },             3          },
        { { 4, 3, 2, 1 },            0          },
        { { 1, 5, 5, 2 },            1          }, /* the lowest on a tie */
        { { -1, -1, -1, -1 },        0          },
        { { -INFINITY, -3, -9, -4 }, 1          },
        { { 1, INFINITY, 3, 4 },     1          },
        { { NAN, 1, 2, 3 },          QG_NO_CLASS},
        { { 1, 9, 2, NAN },          QG_NO_CLASS},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int32_t vote[MOST];
        float x[4];
        memcpy(x, row[i].x, sizeof x);
        const qg_tensor y = scores(DIMS(1, 4), x);
        assert_ok(ctx, vote_of(ctx, &y, (const int64_t[]){ 0, 0, 3 }, 1, 2, vote));
        assert_int_equal(vote[2], row[i].expected);
        assert_int_equal(vote[1], 77);
        assert_int_equal(vote[3], 77);
    }
}

static void every_row_has_a_vote(void **state)
{
    qg_ctx *ctx = *state;
    static const int64_t label[] = { 0, 0, 0, 1, 2, 0 };
    float x[] = { 1, 2, 3, 9, 8, 7, 4, 6, 5 };
    int32_t vote[MOST];
    const qg_tensor y = scores(DIMS(3, 3), x);
    assert_ok(ctx, vote_of(ctx, &y, label, 3, 1, vote));
    assert_int_equal(vote[2], 77);
    assert_int_equal(vote[3], 2);
    assert_int_equal(vote[4], 0);
    assert_int_equal(vote[5], 1);
    assert_int_equal(vote[6], 77);
}

/* Extents of 1 are no axes, wherever they are. */
static void scores_lie_along_one_axis(void **state)
{
    qg_ctx *ctx = *state;
    static const struct shape {
        size_t each;
        int32_t rank;
        int64_t dim[4];
        bool fine;
    } row[] = {
        {1,  1, { 5 },          true },
        { 1, 2, { 1, 5 },       true },
        { 1, 2, { 5, 1 },       true },
        { 1, 4, { 1, 5, 1, 1 }, true },
        { 1, 2, { 2, 5 },       false},
        { 1, 4, { 1, 2, 2, 1 }, false},
        { 2, 2, { 2, 5 },       true },
        { 2, 4, { 2, 1, 5, 1 }, true },
        { 2, 3, { 2, 5, 2 },    false},
        { 2, 2, { 4, 5 },       false},
        { 2, 1, { 2 },          false},
        { 2, 1, { 10 },         false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qg_labels l = { NULL, row[i].each, "l.npy" };
        const qg_tensor y = scores(row[i].rank, row[i].dim, NULL);
        const qg_status s = qg_labels_check_scores(ctx, "evaluate", &y, &l);
        assert_int_equal(s, row[i].fine ? QG_OK : QG_EDATA);
    }
    assert_string_equal(
        qg_ctx_message(ctx),
        "evaluate: labels: the first output is float32[10], expected the "
        "scores of classes, along one axis");
}

static void labels_are_classes(void **state)
{
    qg_ctx *ctx = *state;
    float x[6] = { 0 };
    int32_t vote[MOST];
    const qg_tensor y = scores(DIMS(2, 3), x), one = scores(DIMS(2, 1), x);
    assert_ok(ctx, vote_of(ctx, &y, (const int64_t[]){ 9, 9, 0, 2 }, 2, 1, vote));
    static const int64_t wrong[][4] = {
        {0,  0, 0,  3        },
        { 0, 0, -1, 0        },
        { 0, 0, 0,  INT64_MIN}
    };
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(vote_of(ctx, &y, wrong[i], 2, 1, vote), QG_EDATA);
    assert_int_equal(vote_of(ctx, &y, wrong[0], 2, 1, vote), QG_EDATA);
    assert_string_equal(
        qg_ctx_message(ctx),
        "evaluate: labels: l.npy: 3 (number 4), expected a class from 0 "
        "to 2");
    assert_int_equal(vote_of(ctx, &one, wrong[0], 2, 0, vote), QG_EDATA);
    assert_string_equal(
        qg_ctx_message(ctx),
        "evaluate: the first output has 1 elements per sample, expected "
        "one score per class");
}

/* --- many samples --- */

static void shares_are_of_rows(void **state)
{
    static const int64_t label[] = { 0, 1, 2, 3, 4, 5 };
    static const int32_t vote[] = { 0, 1, 0, 3, QG_NO_CLASS, 5 };
    const qg_labels one = { label, 1, "l" }, two = { label, 2, "l" };
    (void)state;
    assert_cmp_f64(qg_labels_top1(&one, vote, 6), ==, 4.0 / 6);
    assert_cmp_f64(qg_labels_top1(&one, vote, 2), ==, 1);
    assert_cmp_f64(qg_labels_top1(&two, vote, 2), ==, 0.75);
    assert_cmp_f64(qg_labels_top1(&two, vote, 0), ==, 0);
    assert_int_equal(qg_labels_first_without(&one, vote, 6), 4);
    assert_int_equal(qg_labels_first_without(&two, vote, 3), 2);
    assert_int_equal(qg_labels_first_without(&one, vote, 4), 4);
    assert_int_equal(qg_labels_first_without(&two, vote, 2), 2);
}

/* --- arrays and files --- */

/* The graph of a Relu with a first output of these dims. */
static qg_graph *graph_with(qg_ctx *ctx, const char *dims)
{
    char text[256];
    qg_model m;
    ctx->registry = &qg_ops_registry;
    (void)snprintf(text, sizeof text,
                   "graph \"g\" {\n opset 17\n x = input f32[%s]\n y = Relu(x)\n"
                   " output y\n}\n",
                   dims);
    model_of_text(ctx, text, &m);
    return m.graph;
}

static void arrays_fit(void **state)
{
    qg_ctx *ctx = *state;
    static const int64_t label[12] = { 1 };
    static const struct taken {
        const char *output;
        size_t n, each, given;
        bool cut, fine;
    } row[] = {
        {"1,4",  3, 1, 3, false, true },
        { "1,4", 3, 1, 4, false, false},
        { "1,4", 3, 1, 4, true,  true },
        { "1,4", 3, 1, 2, true,  false},
        { "2,4", 3, 2, 6, false, true },
        { "2,4", 3, 2, 3, false, false},
        { "2,4", 3, 2, 7, true,  true },
        { "4,1", 3, 1, 3, false, true },
        { "4",   3, 1, 3, false, true },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_labels l;
        qg_graph *g = graph_with(ctx, row[i].output);
        const qg_labelled of = { g, row[i].n, row[i].cut };
        const qg_status s = qg_labels_take(ctx, label, row[i].given, &of, &l);
        assert_int_equal(s, row[i].fine ? QG_OK : QG_EDATA);
        assert_int_equal(l.each, row[i].each);
        assert_ptr_equal(l.label, label);
        qg_graph_free(g);
    }
}

static void write_npy(const char *path, const char *type, const char *dims,
                      const void *bytes, size_t size)
{
    char head[128];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const int n =
        snprintf(head, sizeof head,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s)}", type, dims);
    (void)fprintf(f, "\x93NUMPY%c%c%c%c%s%*s\n", 1, 0, 118, 0, head, 117 - n, "");
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void files_fit(void **state)
{
    qg_ctx *ctx = *state;
    static const int64_t wide[6] = { 0, 1, 2, 3, 2, 1 };
    static const uint8_t narrow[6] = { 0, 1, 2, 3, 2, 1 };
    static const float real[6] = { 0 };
    static const struct file {
        const char *type, *dims;
        const void *bytes;
        size_t size;
        bool cut, fine;
    } row[] = {
  /* of 3 samples of 2 rows */
        {"<i8",  "6,",    wide,   48, false, true },
        { "<i8", "3,2",   wide,   48, false, true },
        { "|u1", "6,",    narrow, 6,  false, true },
        { "<i8", "2,3",   wide,   48, false, false},
        { "<i8", "5,",    wide,   40, false, false},
        { "<i8", "3,2,1", wide,   48, false, false},
        { "<f4", "6,",    real,   24, false, false},
        { "<i8", "2,2",   wide,   32, true,  false},
    };
    qg_graph *g = graph_with(ctx, "2,4");
    char path[SCRATCH_PATH];
    scratch_path(path, "labels.npy");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_labels l;
        const qg_labelled of = { g, 3, row[i].cut };
        write_npy(path, row[i].type, row[i].dims, row[i].bytes, row[i].size);
        const qg_status s = qg_labels_load(ctx, path, ctx->arena, &of, &l);
        assert_int_equal(s, row[i].fine ? QG_OK : QG_EDATA);
        for (size_t k = 0; s == QG_OK && k < 6; k++)
            assert_int_equal(l.label[k], wide[k]);
    }
    qg_labels l;
    const qg_labelled cut = { g, 2, true };
    write_npy(path, "<i8", "3,2", wide, sizeof wide); /* more than are wanted */
    assert_ok(ctx, qg_labels_load(ctx, path, ctx->arena, &cut, &l));
    assert_int_equal(l.each, 2);
    write_npy(path, "<u8", "4,", (const uint64_t[]){ 0, 1, UINT64_MAX, 1 }, 32);
    assert_fails(ctx, qg_labels_load(ctx, path, ctx->arena, &cut, &l), QG_EDATA,
                 "sample 1: is 18446744073709551615, expected a class of the first "
                 "output");
    assert_int_equal(remove(path), 0);
    qg_graph_free(g);
}

QG_TEST_MAIN(WITH_CTX(votes_are_largest), WITH_CTX(every_row_has_a_vote),
             WITH_CTX(scores_lie_along_one_axis), WITH_CTX(labels_are_classes),
             cmocka_unit_test(shares_are_of_rows), WITH_CTX(arrays_fit),
             WITH_CTX(files_fit))

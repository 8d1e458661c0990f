/* data/column.h: samples of one shape are stacked, others lie apart from the first that
 * differs on; files appear together, or none does. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/data/column.h"

typedef struct fixture {
    qg_ctx *ctx;
    char folder[SCRATCH_PATH];
} fixture;

static int begin(void **state)
{
    static fixture f;
    f.ctx = qg_ctx_new(qg_alloc_libc);
    *state = &f;
    return mkdir(scratch_path(f.folder, "column"), 0700);
}

static int end(void **state)
{
    fixture *f = *state;
    qg_ctx_free(f->ctx);
    return scratch_remove(f->folder);
}

static qg_column column(fixture *f, const char *name)
{
    return (qg_column){ .path = qg_path_join(f->ctx->arena, f->folder, name) };
}

static const char *file(fixture *f, const char *name)
{
    return qg_path_join(f->ctx->arena, f->folder, name);
}

static bool is_there(fixture *f, const char *name)
{
    return access(file(f, name), F_OK) == 0;
}

/* first, first + 1, ... */
static qg_status put(fixture *f, qg_column *c, int64_t n, float first)
{
    float x[8];
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 1, &n);
    t.f32 = x;
    for (int64_t i = 0; i < n; i++)
        x[i] = first + (float)i;
    return qg_column_put(f->ctx, f->ctx->arena, c, &t);
}

static qg_status commit(fixture *f, qg_column *c, size_t n)
{
    return qg_columns_commit(f->ctx, f->ctx->arena, c, n, NULL);
}

static void assert_array(fixture *f, const qg_npz *z, const char *name, int64_t n,
                         float first)
{
    const qg_tensor *t;
    const qg_npz_member *m = qg_npz_find(z, name);
    assert_non_null(m);
    assert_ok(f->ctx, qg_npz_load(f->ctx, f->ctx->arena, z, m, &t));
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->dim[0], n);
    for (int64_t i = 0; i < n; i++)
        assert_cmp_f64(t->f32[i], ==, first + (float)i);
}

/* With a pause, or without one, before each sample. */
static void one_shape_is_stacked(void **state)
{
    fixture *f = *state;
    for (int pause = 0; pause < 2; pause++) {
        qg_column c = column(f, "same");
        const qg_tensor *t;
        qg_column_pause(&c); /* nothing is open yet */
        assert_false(c.paused);
        for (int k = 0; k < 3; k++) {
            assert_ok(f->ctx, put(f, &c, 2, (float)(10 * k)));
            if (pause)
                qg_column_pause(&c);
            assert_int_equal(c.paused, pause);
        }
        assert_int_equal(c.count, 3);
        assert_int_equal(is_there(f, "same.npy"), pause); /* of the round before */
        assert_ok(f->ctx, commit(f, &c, 1));
        assert_ok(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, file(f, "same.npy"), &t));
        assert_int_equal(t->rank, 2);
        assert_int_equal(t->dim[0], 3);
        assert_int_equal(t->dim[1], 2);
        for (int i = 0; i < 6; i++)
            assert_cmp_f64(t->f32[i], ==, 10 * (i / 2) + i % 2);
        qg_column_abandon(&c);
    }
    assert_false(is_there(f, "same.npz"));
}

static void shapes_that_differ_lie_apart(void **state)
{
    fixture *f = *state;
    for (int pause = 0; pause < 2; pause++) {
        qg_column c = column(f, "apart");
        qg_npz z;
        static const int64_t n[] = { 2, 2, 3, 2, 1 };
        for (int k = 0; k < 5; k++) {
            assert_ok(f->ctx, put(f, &c, n[k], (float)(10 * k)));
            if (pause)
                qg_column_pause(&c);
            assert_int_equal(c.apart, k >= 2);
            assert_int_equal(c.stacked, k < 2);
        }
        assert_ok(f->ctx, commit(f, &c, 1));
        assert_ok(f->ctx, qg_npz_open(f->ctx, f->ctx->arena, file(f, "apart.npz"), &z));
        for (int k = 0; k < 5; k++)
            assert_array(f, &z, qg_arena_printf(f->ctx->arena, "sample_%d", k), n[k],
                         (float)(10 * k));
        assert_null(qg_npz_find(&z, "sample_5"));
        qg_npz_close(&z);
        qg_column_abandon(&c);
    }
    assert_false(is_there(f, "apart.npy"));
}

static void all_columns_appear_or_none(void **state)
{
    fixture *f = *state;
    qg_column c[3] = { column(f, "a"), column(f, "none"), column(f, "b") };
    double wide = 1;
    qg_tensor t;
    qg_tensor_init(&t, QG_F64, 1, &(int64_t){ 1 });
    t.f64 = &wide;
    assert_ok(f->ctx, put(f, &c[0], 1, 5));
    assert_ok(f->ctx, put(f, &c[2], 1, 6));
    assert_fails(f->ctx, qg_column_put(f->ctx, f->ctx->arena, &c[0], &t), QG_EDATA,
                 "a: sample 1 is float64, expected float32");
    assert_false(is_there(f, "a.npy"));
    assert_ok(f->ctx, commit(f, c, 3));
    assert_true(is_there(f, "a.npy") && is_there(f, "b.npy"));
    assert_false(is_there(f, "none.npy") || is_there(f, "none.npz"));
    for (int i = 0; i < 3; i++)
        qg_column_abandon(&c[i]);
    qg_column left = column(f, "left"), both = column(f, "both");
    assert_ok(f->ctx, put(f, &left, 1, 0));
    assert_ok(f->ctx, put(f, &both, 1, 0));
    assert_ok(f->ctx, put(f, &both, 2, 0));
    qg_column_abandon(&left);
    qg_column_abandon(&both);
    const char **names;
    size_t n;
    assert_ok(f->ctx, qg_directory_list(f->ctx, f->ctx->arena, f->folder, &names, &n));
    assert_int_equal(n, 2); /* no temporary is left */
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, begin, end)

QG_TEST_MAIN(WITH_FOLDER(one_shape_is_stacked),
             WITH_FOLDER(shapes_that_differ_lie_apart),
             WITH_FOLDER(all_columns_appear_or_none))

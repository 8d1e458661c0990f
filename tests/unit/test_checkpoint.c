/* Blocks that were learned, in a folder (learn/checkpoint.h), on a reconstruction by
 * hand: what the name depends on, round trips, damaged files, what is removed. */
#include <math.h>
#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/learn/checkpoint.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

enum { N = 2, W = 3, VALUES = 2, STEPS = 2 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_value value[VALUES];
    const qg_value *in[1], *out[1];
    qg_stream stream;
    const qg_tensor *at[QG_NLANE][VALUES * N];
    qg_tensor tensor[QG_NLANE][VALUES * N];
    float data[QG_NLANE][VALUES * N][2];
    qg_tape tape, *list[1];
    qg_tape_weight weight[1];
    qg_tape_step *step; /* in the arena, where one too far is noticed */
    qg_tqc root[STEPS];
    qg_tapes tapes;
    qg_tune_method method;
    qg_importance importance;
    double element[2], *elements[VALUES];
    int64_t label[N];
    float now[W], start[W], scale[STEPS][2], first[STEPS][2];
    int32_t offset[2], zero[2];
    qg_reconstruction r;
    char folder[SCRATCH_PATH], name[QG_HASH_TEXT];
    int warnings;
} fixture;

static fixture f;

static void count_warning(void *ud, enum qg_log_level level, const char *text)
{
    (void)ud, (void)level;
    f.warnings += strstr(text, "is a directory, expected no such name") != NULL;
}

static void make_lanes(void)
{
    static const int64_t dim[] = { 1, 2 };
    for (int lane = 0; lane < QG_NLANE; lane++) {
        f.stream.at[lane] = f.at[lane];
        for (size_t k = 0; k < (size_t)VALUES * N; k++) {
            qg_tensor *t = &f.tensor[lane][k];
            qg_tensor_init(t, QG_F32, 2, dim);
            t->f32 = f.data[lane][k];
            t->f32[0] = (float)k;
            t->f32[1] = (float)lane;
            f.at[lane][k] = t;
        }
    }
}

static void make_tape(void)
{
    const int64_t n = W;
    f.weight[0] = (qg_tape_weight){ .role = 'w' };
    qg_tensor_init(&f.weight[0].now, QG_F32, 1, &n);
    f.weight[0].start = f.weight[0].now;
    f.weight[0].now.f32 = f.now;
    f.weight[0].start.f32 = f.start;
    f.step = QG_NEWN(f.ctx->arena, STEPS, qg_tape_step);
    for (size_t i = 0; i < STEPS; i++) {
        f.root[i].up = &f.root[i];
        f.root[i].scheme = (qg_scheme){ .policy = QG_LINEAR, .qmin = -8, .qmax = 7 };
        f.step[i] = (qg_tape_step){ .root = &f.root[i],
                                    .learned = true,
                                    .n = i + 1,
                                    .scale = f.scale[i],
                                    .start = f.first[i] };
        for (size_t c = 0; c < 2; c++)
            f.scale[i][c] = f.first[i][c] = (float)(i + c + 1);
    }
    f.step[1].shifts = true; /* two scales with zero points */
    f.step[1].offset = f.offset;
    f.step[1].offset_start = f.zero;
    f.tape = (qg_tape){ .ctx = f.ctx,
                        .n_in = 1,
                        .n_out = 1,
                        .in = f.in,
                        .out = f.out,
                        .n_weight = 1,
                        .n_step = STEPS,
                        .weight = f.weight,
                        .step = f.step };
}

static int setup(void **state)
{
    qg_ctx_free(f.ctx); /* of another change */
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    for (size_t i = 0; i < W; i++)
        f.start[i] = (float)i + 1;
    f.ctx->log = (qg_log){ .write = count_warning };
    memcpy(f.now, f.start, sizeof f.now);
    f.value[1].id = 1;
    f.in[0] = &f.value[0];
    f.out[0] = &f.value[1];
    f.list[0] = &f.tape;
    f.tapes = (qg_tapes){ .ctx = f.ctx, .n = 1, .tape = f.list };
    f.method = *qg_tune_method_named("lsq");
    f.elements[1] = f.element;
    f.importance.weight = f.elements;
    f.stream = (qg_stream){ .ctx = f.ctx, .room = N };
    f.stream.sample.n = N;
    make_lanes();
    make_tape();
    f.r = (qg_reconstruction){ .ctx = f.ctx,
                               .method = &f.method,
                               .stream = &f.stream,
                               .tapes = &f.tapes,
                               .steps = 10,
                               .optimizer = &qg_optimizers[0],
                               .rate = 0.5 };
    (void)scratch_path(f.folder, "checkpoint");
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qg_ctx_free(f.ctx);
    f.ctx = NULL;
    if (qg_is_directory(f.folder))
        return scratch_remove(f.folder);
    return 0;
}

static bool load(void)
{
    bool found;
    assert_ok(f.ctx, qg_checkpoint_load(&f.r, f.folder, f.name, &found));
    assert_int_equal(strlen(f.name), 64);
    return found;
}

static void save(void) { assert_ok(f.ctx, qg_checkpoint_save(&f.r, f.folder, f.name)); }

/* --- the name -------------------------------------------------------------------- */

/* A change of one thing, and whether the name knows of it. */
static const char *const changes[] = {
    "steps",       "generator",  "gradient",   "drops",        "holdout",
    "mixed",       "method",     "optimizer",  "rate",         "loss",
    "label",       "role",       "start",      "dims",         "policy",
    "rounding",    "qmin",       "qmax",       "axis",         "learned",
    "first scale", "zero",       "input now",  "output float", "output before",
    "last sample", "importance", "its number",
};
static const char *const others[] = { "weight now", "scale now",    "input float",
                                      "output now", "input before", "zero now" };

static void change_options(const char *what)
{
    static const qg_labels label = { f.label, 1, "l" };
    static const qg_optimizer other = { "adax", 1, true };
    if (strcmp(what, "steps") == 0)
        f.r.steps++;
    if (strcmp(what, "generator") == 0)
        f.r.rng.state++;
    if (strcmp(what, "gradient") == 0)
        f.tape.gradient = QG_STEP_GRADIENT_LSQ;
    if (strcmp(what, "drops") == 0)
        f.r.drops = true;
    if (strcmp(what, "holdout") == 0)
        f.stream.sample.holdout = 1;
    if (strcmp(what, "mixed") == 0)
        f.stream.sample.mixed = 1;
    if (strcmp(what, "method") == 0)
        f.method.name = "lsp";
    if (strcmp(what, "optimizer") == 0)
        f.r.optimizer = &other;
    if (strcmp(what, "rate") == 0)
        f.r.rate *= 2;
    if (strcmp(what, "loss") == 0)
        f.r.loss.kind = QG_LOSS_MSE;
    if (strcmp(what, "label") == 0)
        f.r.loss.label = label;
    if (strcmp(what, "importance") == 0)
        f.r.importance = &f.importance;
    if (strcmp(what, "its number") == 0) {
        f.r.importance = &f.importance;
        f.element[1] = 3;
    }
}

static void change_tape(const char *what)
{
    static const int64_t dim[] = { W, 1 };
    if (strcmp(what, "role") == 0)
        f.weight[0].role = 'g';
    if (strcmp(what, "start") == 0)
        f.start[W - 1] = 4;
    if (strcmp(what, "dims") == 0)
        f.weight[0].start.rank = 2, memcpy(f.weight[0].start.dim, dim, sizeof dim);
    if (strcmp(what, "policy") == 0)
        f.root[1].scheme.policy |= QG_POWER_OF_2;
    if (strcmp(what, "rounding") == 0)
        f.root[1].scheme.rounding++;
    if (strcmp(what, "qmin") == 0)
        f.root[1].scheme.qmin++;
    if (strcmp(what, "qmax") == 0)
        f.root[1].scheme.qmax++;
    if (strcmp(what, "axis") == 0)
        f.root[1].scheme.axis++;
    if (strcmp(what, "learned") == 0)
        f.step[0].learned = false;
    if (strcmp(what, "first scale") == 0)
        f.first[1][1] *= 2;
    if (strcmp(what, "zero") == 0)
        f.zero[1] = 1;
    if (strcmp(what, "weight now") == 0)
        f.now[0] = 9;
    if (strcmp(what, "scale now") == 0)
        f.scale[1][1] = 9;
    if (strcmp(what, "zero now") == 0)
        f.offset[1] = 5;
}

static void change_sample(const char *what)
{
    if (strcmp(what, "input now") == 0)
        f.data[QG_LANE_NOW][0][0] = 9;
    if (strcmp(what, "input float") == 0)
        f.data[QG_LANE_FLOAT][0][0] = 9;
    if (strcmp(what, "input before") == 0)
        f.data[QG_LANE_BEFORE][0][0] = 9;
    if (strcmp(what, "output float") == 0)
        f.data[QG_LANE_FLOAT][N][0] = 9;
    if (strcmp(what, "output before") == 0)
        f.data[QG_LANE_BEFORE][N][1] = 9;
    if (strcmp(what, "output now") == 0)
        f.data[QG_LANE_NOW][N][0] = 9;
    if (strcmp(what, "last sample") == 0)
        f.data[QG_LANE_FLOAT][2 * N - 1][1] = 9;
}

static void name_with(const char *what, char name[QG_HASH_TEXT])
{
    void *state;
    assert_int_equal(setup(&state), 0);
    change_options(what);
    change_tape(what);
    change_sample(what);
    assert_false(load());
    memcpy(name, f.name, QG_HASH_TEXT);
}

static void names_know_what_the_result_depends_on(void **state)
{
    enum { CHANGES = sizeof changes / sizeof changes[0] };
    char none[QG_HASH_TEXT], name[CHANGES][QG_HASH_TEXT], other[QG_HASH_TEXT];
    (void)state;
    name_with("nothing", none);
    for (size_t i = 0; i < CHANGES; i++) {
        name_with(changes[i], name[i]);
        if (strcmp(name[i], none) == 0)
            fail_msg("%s: the same name", changes[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(name[i], name[k]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        name_with(others[i], other);
        if (strcmp(other, none) != 0)
            fail_msg("%s: another name", others[i]);
    }
}

/* With drops both lanes of inputs count; labels, where there are any, all of them. */
static void names_of_options_know_more(void **state)
{
    char before[QG_HASH_TEXT];
    (void)state;
    f.r.drops = true;
    (void)load();
    memcpy(before, f.name, sizeof before);
    f.data[QG_LANE_FLOAT][0][0] = 9;
    (void)load();
    assert_string_not_equal(f.name, before);
    f.r.loss.label = (qg_labels){ f.label, 1, "l" };
    (void)load();
    for (size_t i = 0; i < N; i++) {
        memcpy(before, f.name, sizeof before);
        f.label[i] = 5;
        (void)load();
        assert_string_not_equal(f.name, before);
    }
}

/* Indices are no part of it, and count as none does. */
static void other_types_count_as_none(void **state)
{
    char before[QG_HASH_TEXT];
    (void)state;
    f.tensor[QG_LANE_NOW][0].dtype = QG_I64;
    (void)load();
    memcpy(before, f.name, sizeof before);
    f.at[QG_LANE_NOW][0] = NULL;
    (void)load();
    assert_string_equal(f.name, before);
}

/* --- files ----------------------------------------------------------------------- */

static void make_result(bool kept)
{
    f.r.before = 2;
    f.r.after = 1;
    f.r.kept = kept;
    for (size_t i = 0; i < QG_LOSS_CURVE; i++)
        f.r.curve[i] = (double)i;
    for (size_t i = 0; i < W; i++)
        f.now[i] = 10 + (float)i;
    f.scale[0][0] = 0.25f;
    f.scale[1][0] = 0.5f;
    f.scale[1][1] = 0.75f;
    f.offset[0] = -8;
    f.offset[1] = 7;
}

static void forget(void)
{
    f.r.before = f.r.after = -1;
    f.r.kept = !f.r.kept;
    memset(f.r.curve, 0, sizeof f.r.curve);
    qg_tape_reset(&f.tape);
}

static void expect_result(bool kept)
{
    assert_cmp_f64(f.r.before, ==, 2);
    assert_cmp_f64(f.r.after, ==, 1);
    assert_int_equal(f.r.kept, kept);
    for (size_t i = 0; i < QG_LOSS_CURVE; i++)
        assert_cmp_f64(f.r.curve[i], ==, (double)i);
    for (size_t i = 0; i < W; i++)
        assert_cmp_f64(f.now[i], ==, kept ? 10 + (double)i : f.start[i]);
    assert_cmp_f64(f.scale[0][0], ==, kept ? 0.25 : 1);
    assert_cmp_f64(f.scale[1][0], ==, kept ? 0.5 : 2);
    assert_cmp_f64(f.scale[1][1], ==, kept ? 0.75 : 3);
    assert_int_equal(f.offset[0], kept ? -8 : 0);
    assert_int_equal(f.offset[1], kept ? 7 : 0);
}

static void results_come_back(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        assert_false(load());
        make_result(kept);
        save();
        forget();
        assert_true(load());
        expect_result(kept);
        qg_checkpoint_remove(f.ctx, f.folder);
        assert_false(qg_is_directory(f.folder));
        assert_false(load());
        qg_tape_reset(&f.tape);
    }
}

static const char *path_of(char path[SCRATCH_PATH + QG_HASH_TEXT])
{
    (void)snprintf(path, SCRATCH_PATH + QG_HASH_TEXT, "%s/%s", f.folder, f.name);
    return path;
}

/* The header has the layout: 9 bytes, 13 numbers, 3 weights, a scale, two scales, two
 * zero points, 64 digits. */
enum {
    HEAD = 9 + 13 * 8,
    ARRAYS = 4 * (W + 1 + 2 + 2),
    FILE_SIZE = HEAD + ARRAYS + 64
};

static void rewrite(const unsigned char *bytes, size_t size, bool hashed)
{
    char path[SCRATCH_PATH + QG_HASH_TEXT], hash[QG_HASH_TEXT];
    unsigned char whole[FILE_SIZE + 8];
    memcpy(whole, bytes, size);
    if (hashed) {
        qg_hash_bytes(whole, size - 64, hash);
        memcpy(whole + size - 64, hash, 64);
    }
    assert_ok(f.ctx, qg_file_write(f.ctx, path_of(path), whole, size));
}

static void read_back(unsigned char bytes[FILE_SIZE])
{
    qg_file file;
    char path[SCRATCH_PATH + QG_HASH_TEXT];
    assert_ok(f.ctx, qg_file_open(f.ctx, "test", path_of(path), FILE_SIZE + 8, &file));
    assert_int_equal(file.size, FILE_SIZE);
    memcpy(bytes, file.bytes, FILE_SIZE);
    qg_file_close(&file);
}

/* Every byte counts, and the size; the tape is then as it was. */
static void damaged_files_are_none(void **state)
{
    unsigned char bytes[FILE_SIZE + 8] = { 0 };
    (void)state;
    assert_false(load());
    make_result(true);
    save();
    read_back(bytes);
    for (size_t i = 0; i < FILE_SIZE; i += i < 12 || i > FILE_SIZE - 68 ? 1 : 7) {
        bytes[i] ^= 1;
        rewrite(bytes, FILE_SIZE, false);
        assert_false(load());
        assert_cmp_f64(f.now[0], ==, 1);
        assert_cmp_f64(f.scale[1][1], ==, 3);
        bytes[i] ^= 1;
    }
    static const size_t sizes[] = { 0,
                                    8,
                                    64,
                                    HEAD + 63,
                                    HEAD + 64,
                                    FILE_SIZE - 4,
                                    FILE_SIZE - 1,
                                    FILE_SIZE + 1,
                                    FILE_SIZE + 4 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rewrite(bytes, sizes[i], sizes[i] >= 64);
        assert_false(load());
    }
    rewrite(bytes, FILE_SIZE, false);
    assert_true(load());
    bytes[0] ^= 1; /* the hash alone is no proof */
    rewrite(bytes, FILE_SIZE, true);
    assert_false(load());
}

/* Hashed well, but no grids, or a `kept` that is neither 0 nor 1. */
static void grids_are_checked(void **state)
{
    enum { SCALE = HEAD + 4 * W, ZERO = SCALE + 12 };
    static const float scales[] = { 0, -1, INFINITY, NAN };
    static const int32_t zeros[] = { -9, 8 };
    unsigned char bytes[FILE_SIZE], good[FILE_SIZE];
    (void)state;
    assert_false(load());
    make_result(true);
    save();
    read_back(good);
    for (size_t i = 0; i < 3 * 4; i++) {
        memcpy(bytes, good, sizeof bytes);
        memcpy(bytes + SCALE + 4 * (i / 4), &scales[i % 4], 4);
        rewrite(bytes, FILE_SIZE, true);
        assert_false(load());
    }
    for (size_t i = 0; i < 2 * 2; i++) {
        memcpy(bytes, good, sizeof bytes);
        memcpy(bytes + ZERO + 4 * (i / 2), &zeros[i % 2], 4);
        rewrite(bytes, FILE_SIZE, true);
        assert_false(load());
    }
    memcpy(bytes, good, sizeof bytes);
    bytes[9 + 12 * 8] = 2;
    rewrite(bytes, FILE_SIZE, true);
    assert_false(load());
    rewrite(good, FILE_SIZE, true);
    assert_true(load());
    expect_result(true);
}

/* Without zero points that learn there are none in the file. */
static void zero_points_that_stay_are_not_stored(void **state)
{
    char path[SCRATCH_PATH + QG_HASH_TEXT];
    struct stat s;
    (void)state;
    f.step[1].shifts = false;
    assert_false(load());
    make_result(true);
    f.offset[1] = 99; /* nobody checks what nobody learns */
    save();
    assert_int_equal(stat(path_of(path), &s), 0);
    assert_int_equal(s.st_size, FILE_SIZE - 8);
    assert_true(load());
}

static void directories_are_in_the_way(void **state)
{
    char path[SCRATCH_PATH + QG_HASH_TEXT];
    (void)state;
    assert_false(load());
    assert_int_equal(mkdir(f.folder, 0777), 0);
    assert_int_equal(mkdir(path_of(path), 0777), 0);
    assert_false(load());
    assert_int_equal(f.warnings, 0);
    make_result(true);
    save();
    assert_int_equal(f.warnings, 1);
    assert_true(qg_is_directory(path));
}

/* A folder that is a file: nothing to find, no place to save. */
static void folders_that_are_none(void **state)
{
    (void)state;
    assert_ok(f.ctx, qg_file_write(f.ctx, f.folder, "x", 1));
    assert_false(load());
    assert_int_not_equal(qg_checkpoint_save(&f.r, f.folder, f.name), QG_OK);
    assert_string_not_equal(qg_ctx_message(f.ctx), "");
    qg_checkpoint_remove(f.ctx, f.folder);
    assert_int_equal(unlink(f.folder), 0);
}

/* 64 digits of a hash, nothing else; then the folder, when nothing is left. */
static void only_checkpoints_are_removed(void **state)
{
    static const char digits[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char keep[3][SCRATCH_PATH + 80], own[SCRATCH_PATH + 80];
    (void)state;
    assert_int_equal(mkdir(f.folder, 0777), 0);
    (void)snprintf(own, sizeof own, "%s/%s", f.folder, digits);
    (void)snprintf(keep[0], sizeof keep[0], "%s/%s0", f.folder, digits);
    (void)snprintf(keep[1], sizeof keep[1], "%s/%.63s", f.folder, digits);
    (void)snprintf(keep[2], sizeof keep[2], "%s/%.63sg", f.folder, digits);
    assert_ok(f.ctx, qg_file_write(f.ctx, own, "x", 1));
    for (size_t i = 0; i < 3; i++)
        assert_ok(f.ctx, qg_file_write(f.ctx, keep[i], "x", 1));
    qg_checkpoint_tidy(f.folder);
    assert_int_equal(access(own, F_OK), 0);
    qg_checkpoint_remove(f.ctx, f.folder);
    assert_int_not_equal(access(own, F_OK), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(unlink(keep[i]), 0);
    qg_checkpoint_tidy(f.folder);
    assert_false(qg_is_directory(f.folder));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(names_know_what_the_result_depends_on),
             TEST(names_of_options_know_more), TEST(other_types_count_as_none),
             TEST(results_come_back), TEST(damaged_files_are_none),
             TEST(grids_are_checked), TEST(zero_points_that_stay_are_not_stored),
             TEST(directories_are_in_the_way), TEST(folders_that_are_none),
             TEST(only_checkpoints_are_removed))

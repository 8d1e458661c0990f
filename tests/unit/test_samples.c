/* Samples from arrays and from sources of the host: the same numbers as from a file. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"
#include "engine/data/npy.h"
#include "tests/support/scratch.h"
#include "tests/support/verbs.h"

/* The calibration images as an array, and as a source that counts its calls. */
typedef struct fixture {
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_tensor *images;
    qg_input_array array;
    qg_source source;
    size_t calls, stop, next; /* stop: samples there are; next: of a one-shot source */
    bool borrow;
} fixture;

/* Sample i: one image of the array. */
static qg_tensor image(const fixture *f, size_t i)
{
    qg_tensor x;
    int64_t dim[QG_MAX_RANK] = { 1 };
    for (int k = 1; k < f->images->rank; k++)
        dim[k] = f->images->dim[k];
    qg_tensor_init(&x, QG_F32, f->images->rank, dim);
    x.f32 = f->images->f32 + i * (size_t)qg_tensor_count(&x);
    return x;
}

static qg_status fetch(void *ud, size_t index, qg_inputs *inputs)
{
    fixture *f = ud;
    f->calls++;
    if (index >= f->stop)
        return QG_OK;
    if (f->source.one_shot && index != f->next++)
        return qg_fail(qg_inputs_ctx(inputs), QG_EDATA, "sample %zu is past", index);
    qg_tensor x = image(f, index);
    return f->borrow ? qg_inputs_borrow(inputs, NULL, &x)
                     : qg_inputs_set(inputs, NULL, &x);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(qg_open(NULL, &f->ctx), QG_OK);
    f->arena = qg_arena_new(qg_alloc_libc);
    assert_ok(f->ctx, qg_npy_load(f->ctx, f->arena, VERB_DATA, &f->images));
    f->array = (qg_input_array){ .value = *f->images };
    f->stop = (size_t)f->images->dim[0];
    f->source = (qg_source){ .fetch = fetch, .ud = f };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qg_close(f->ctx);
    qg_arena_free(f->arena);
    free(f);
    return 0;
}

static qg_model *open_model(const fixture *f)
{
    qg_model *m = NULL;
    assert_ok(f->ctx, qg_model_open(f->ctx, VERB_MODEL, NULL, &m));
    return m;
}

enum way { FILE_, ARRAY, SOURCE, COUNTED, ONE_SHOT, ONE_SHOT_COUNTED, BORROWED, WAYS };

static qg_workload work_of(fixture *f, enum way way, unsigned jobs)
{
    qg_workload w = { .jobs = jobs, .samples = 20 };
    f->source.count = way == COUNTED || way == ONE_SHOT_COUNTED ? f->stop : 0;
    f->source.one_shot = way == ONE_SHOT || way == ONE_SHOT_COUNTED;
    f->borrow = way == BORROWED;
    f->calls = f->next = 0;
    if (way == FILE_)
        w.data = VERB_DATA;
    else if (way == ARRAY) {
        w.array = &f->array;
        w.n_array = 1;
    } else
        w.source = &f->source;
    return w;
}

static qg_model *quantized(fixture *f, enum way way, unsigned jobs)
{
    qg_model *m = open_model(f);
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work = work_of(f, way, jobs);
    assert_ok(f->ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

/* --- the same bytes --- */

/* The text of a file; the value of manifest.data, which tells where samples came from,
 * is cut out. */
static char *contents(fixture *f, const char *folder, const char *name, bool cut,
                      size_t *n)
{
    char *text;
    const char *path = qg_path_join(f->arena, folder, name);
    qg_file_request r = { "read", path, SIZE_MAX };
    assert_ok(f->ctx, qg_file_text(f->ctx, f->arena, r, &text, n));
    char *at = cut ? strstr(text, "\"data\": {") : NULL;
    if (cut)
        assert_non_null(at);
    if (at) {
        char *end = strchr(at, '}');
        memmove(at, end, *n - (size_t)(end - text) + 1);
        *n -= (size_t)(end - at);
    }
    return text;
}

static void every_way_gives_the_same_snapshot(void **state)
{
    fixture *f = *state;
    char first[SCRATCH_PATH], other[SCRATCH_PATH];
    size_t n[4];
    qg_model *m = quantized(f, FILE_, 1);
    assert_ok(f->ctx, qg_model_save(m, scratch_path(first, "samples_file")));
    qg_model_close(m);
    char *json = contents(f, first, "quant.json", true, &n[0]);
    char *onnx = contents(f, first, "model.onnx", false, &n[1]);
    for (enum way way = ARRAY; way < WAYS; way++)
        for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
            m = quantized(f, way, jobs);
            assert_ok(f->ctx, qg_model_save(m, scratch_path(other, "samples_other")));
            qg_model_close(m);
            char *a = contents(f, other, "quant.json", true, &n[2]);
            char *b = contents(f, other, "model.onnx", false, &n[3]);
            assert_int_equal(n[2], n[0]);
            assert_string_equal(a, json);
            assert_int_equal(n[3], n[1]);
            assert_memory_equal(b, onnx, n[1]);
            assert_int_equal(scratch_remove(other), 0);
        }
    assert_int_equal(scratch_remove(first), 0);
}

static void the_manifest_tells_where_samples_came_from(void **state)
{
    fixture *f = *state;
    char folder[SCRATCH_PATH];
    size_t n;
    static const struct {
        enum way way;
        const char *text;
    } row[] = {
        {FILE_,   "\"source\": \"digits_calib.npy\""},
        { ARRAY,  "\"source\": \"arrays\""          },
        { SOURCE, "\"source\": \"source\""          },
    };
    for (size_t i = 0; i < 3; i++) {
        qg_model *m = quantized(f, row[i].way, 1);
        assert_ok(f->ctx, qg_model_save(m, scratch_path(folder, "samples_manifest")));
        qg_model_close(m);
        char *text = contents(f, folder, "quant.json", false, &n);
        char *data = strstr(text, "\"data\": {");
        assert_non_null(data);
        *strchr(data, '}') = '\0';
        if (!strstr(data, row[i].text))
            fail_msg("'%s' lacks '%s'", data, row[i].text);
        assert_int_equal(strstr(data, "\"sha256\": \"") != NULL, row[i].way != SOURCE);
        assert_int_equal(scratch_remove(folder), 0);
    }
}

/* --- every verb takes them --- */

/* Every line but those that tell a time, a path or a version. */
static const char *comparable(fixture *f, qg_report *r)
{
    const char *text = qg_report_json(r);
    char *out = qg_arena_strdup(f->arena, text), *to = out;
    assert_non_null(out);
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n") + 1;
        char *copy = qg_arena_strndup(f->arena, line, n);
        if (!strstr(copy, "seconds") && !strstr(copy, "\"ms\"") &&
            !strstr(copy, "\"data")) {
            memcpy(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = '\0';
    return out;
}

static void every_verb_takes_every_way(void **state)
{
    fixture *f = *state;
    char output[SCRATCH_PATH];
    (void)scratch_path(output, "samples_verbs");
    for (const verb_row *v = verbs; v->name; v++) {
        const char *want = NULL;
        for (enum way way = FILE_; way < WAYS; way++) {
            qg_report *r = NULL;
            qg_model *m = verb_model(f->ctx, v);
            qg_workload w = work_of(f, way, 2);
            w.samples = 6;
            qg_status s = v->ask(m, &w, output, &r);
            if (s != QG_OK)
                fail_msg("%s, way %d: %s", v->name, way, qg_ctx_message(f->ctx));
            const char *text = comparable(f, r);
            if (!want)
                want = text;
            else
                assert_string_equal(text, want);
            qg_report_free(r);
            qg_model_close(m);
            if (v->writes)
                assert_int_equal(scratch_remove(output), 0);
        }
    }
}

static qg_status ask_run(qg_model *m, const qg_workload *w, qg_report **r)
{
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = *w;
    return qg_model_run(m, &o, NULL, r);
}

/* --- counting --- */

static void a_source_is_asked_as_often_as_it_must_be(void **state)
{
    fixture *f = *state;
    qg_report *r = NULL;
    qg_model *m = open_model(f);
    double samples;
    static const struct {
        enum way way;
        size_t stop, limit, samples, calls;
    } row[] = {
        {ONE_SHOT,          5, 0, 5, 6 }, /* five, and that there are no more */
        { ONE_SHOT,         5, 3, 3, 3 },
        { ONE_SHOT_COUNTED, 5, 0, 5, 5 },
        { ONE_SHOT_COUNTED, 5, 9, 5, 5 },
        { SOURCE,           5, 0, 5, 16}, /* counted, run, searched for NaN */
        { SOURCE,           5, 2, 2, 6 },
        { COUNTED,          5, 0, 5, 10},
        { COUNTED,          5, 2, 2, 4 },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        f->stop = row[i].stop;
        qg_workload w = work_of(f, row[i].way, 1);
        w.samples = row[i].limit;
        assert_ok(f->ctx, ask_run(m, &w, &r));
        assert_true(qg_report_number(r, "samples", &samples));
        assert_cmp_f64(samples, ==, row[i].samples);
        qg_report_free(r);
        if (f->calls != row[i].calls)
            fail_msg("row %zu: %zu calls, expected %zu", i, f->calls, row[i].calls);
    }
    qg_model_close(m);
}

static void labels_may_be_an_array(void **state)
{
    fixture *f = *state;
    const qg_tensor *labels;
    qg_model *m = quantized(f, FILE_, 1);
    qg_report *r = NULL;
    double file, array;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = work_of(f, ARRAY, 1);
    assert_ok(f->ctx, qg_npy_load(f->ctx, f->arena, VERB_LABELS, &labels));
    int64_t *label = QG_NEWN(f->arena, (size_t)labels->dim[0], int64_t);
    for (int64_t i = 0; i < labels->dim[0]; i++)
        label[i] = qg_tensor_i64(labels, i);
    assert_ok(f->ctx, qg_model_evaluate(m, &o, VERB_LABELS, &r));
    assert_true(qg_report_number(r, "simulated_top1", &file));
    qg_report_free(r);
    o.label = label;
    assert_fails(f->ctx, qg_model_evaluate(m, &o, VERB_LABELS, &r), QG_ECONFIG,
                 "labels: both are given");
    o.n_label = 19;
    assert_fails(f->ctx, qg_model_evaluate(m, &o, NULL, &r), QG_EDATA,
                 "int64[19], expected one integer for each of 20 samples");
    o.n_label = 20;
    assert_ok(f->ctx, qg_model_evaluate(m, &o, NULL, &r));
    assert_true(qg_report_number(r, "simulated_top1", &array));
    assert_cmp_f64(array, ==, file);
    qg_report_free(r);
    o.n_label = 21; /* the first of both */
    assert_ok(f->ctx, qg_model_evaluate(m, &o, NULL, &r));
    qg_report_free(r);
    o.work.samples = 0;
    o.n_label = (size_t)labels->dim[0];
    assert_fails(f->ctx, qg_model_evaluate(m, &o, NULL, &r), QG_EDATA,
                 "int64[599], expected one integer for each of");
    o.label = NULL;
    assert_fails(f->ctx, qg_model_evaluate(m, &o, NULL, &r), QG_ECONFIG,
                 "labels: none are given");
    qg_model_close(m);
}

/* --- refusals --- */

static void one_of_three_is_expected(void **state)
{
    fixture *f = *state;
    qg_model *m = open_model(f);
    qg_report *r;
    qg_workload w = { .samples = 1 };
    assert_fails(f->ctx, ask_run(m, &w, &r), QG_ECONFIG, "data: none given");
    w = work_of(f, ARRAY, 1);
    w.data = VERB_DATA;
    assert_fails(f->ctx, ask_run(m, &w, &r), QG_ECONFIG,
                 "data: 2 of data, array and source are given, expected one");
    w.source = &f->source;
    assert_fails(f->ctx, ask_run(m, &w, &r), QG_ECONFIG, "data: 3 of data");
    f->source.fetch = NULL;
    w = (qg_workload){ .source = &f->source };
    assert_fails(f->ctx, ask_run(m, &w, &r), QG_ECONFIG, "source: it has no fetch");
    qg_model_close(m);
}

/* A faulty array, and what is told of it. */
static void arrays_are_checked(void **state)
{
    fixture *f = *state;
    qg_model *m = open_model(f);
    qg_report *r;
    qg_workload w = work_of(f, ARRAY, 1);
    qg_input_array two[2] = { f->array, f->array };
#define REFUSED(text) assert_fails(f->ctx, ask_run(m, &w, &r), QG_EDATA, text)
    w.array = two;
    w.n_array = 2;
    REFUSED("data: arrays: two for input");
    w.n_array = 0;
    REFUSED("data: arrays: none for input");
    w.n_array = 1;
    two[0].input = "nosuch";
    REFUSED("data: arrays: the model has no input 'nosuch'");
    two[0].input = NULL;
    two[0].value.rank = 9;
    REFUSED("has rank 9, expected 0 to 8");
    two[0].value = *f->images;
    two[0].value.dtype = QG_NODTYPE;
    REFUSED("has no type");
    two[0].value = *f->images;
    two[0].value.dim[0] = -1;
    REFUSED("has impossible dims");
    two[0].value = *f->images;
    two[0].value.dim[0] = INT64_MAX / 2;
    REFUSED("has impossible dims");
    two[0].value = *f->images;
    two[0].value.data = NULL;
    REFUSED("has no data");
    two[0].value = *f->images;
    two[0].value.data = (char *)two[0].value.data + 1;
    REFUSED("is not aligned");
    two[0].value = *f->images;
    two[0].value.stride[0]++;
    REFUSED("is not plain");
    two[0].value = *f->images;
    two[0].value.dtype = QG_F8E4M3FN;
    REFUSED("is float8e4m3fn, expected float32");
    qg_tensor_init(&two[0].value, QG_F32, 2, (const int64_t[]){ 3, 5 });
    two[0].value.data = f->images->data;
    REFUSED("is float32[3,5], expected float32[");
    f->images->f32[3] = NAN;
    two[0].value = *f->images;
    REFUSED("data: arrays: sample 0 of input");
#undef REFUSED
    qg_model_close(m);
}

/* In the order of `want` below. */
enum fault {
    NOTHING,
    SILENT,
    TELLS,
    STRANGE,
    TYPE,
    DIMS,
    UNKNOWN,
    TWICE,
    NOT_A_NUMBER,
    IGNORED,
    FAULTS
};

typedef struct faulty_source {
    fixture *f;
    enum fault fault;
} faulty_source;

/* Good but for sample 2. */
static qg_status fetch_faulty(void *ud, size_t index, qg_inputs *inputs)
{
    faulty_source *s = ud;
    qg_tensor x = image(s->f, index);
    const char *name = NULL;
    float bad[28 * 28] = { 0 };
    if (index == 2)
        switch (s->fault) {
        case NOTHING:
            return QG_OK;
        case SILENT:
            return QG_EIO;
        case TELLS:
            return qg_fail(qg_inputs_ctx(inputs), QG_EIO, "camera %d is off", 7);
        case STRANGE:
            return (qg_status)-3;
        case TYPE:
            x.dtype = QG_I32;
            break;
        case DIMS:
        case IGNORED:
            x.dim[1]++;
            qg_tensor_set_plain(&x);
            break;
        case UNKNOWN:
            name = "imgae";
            break;
        case TWICE:
            if (qg_inputs_set(inputs, name, &x) != QG_OK)
                return QG_EDATA;
            break;
        default:
            assert_cmp_int(qg_tensor_count(&x), <=, 28 * 28);
            bad[1] = NAN;
            x.f32 = bad;
        }
    qg_status status = qg_inputs_set(inputs, name, &x);
    return s->fault == IGNORED ? QG_OK : status;
}

static void faults_of_a_source_name_sample_and_input(void **state)
{
    fixture *f = *state;
    static const struct {
        qg_status status;
        const char *text;
    } want[FAULTS] = {
        {QG_EDATA,  "data: source: sample 2: input '"                    },
        { QG_EIO,   "data: source: sample 2: fetch failed with status 2" },
        { QG_EIO,   "camera 7 is off"                                    },
        { QG_EDATA, "data: source: sample 2: fetch failed with status -3"},
        { QG_EDATA, "source: sample 2: the array for input '"            },
        { QG_EDATA, "source: sample 2: the array for input '"            },
        { QG_EDATA, "source: sample 2: the model has no input 'imgae'"   },
        { QG_EDATA, "is set twice"                                       },
        { QG_EDATA, "sample 2 of input '"                                },
        { QG_EDATA, "source: sample 2: the array for input '"            },
    };
    qg_model *m = open_model(f);
    for (enum fault fault = 0; fault < FAULTS; fault++)
        for (int way = 0; way < 6; way++) {
            faulty_source s = { f, fault };
            qg_report *r;
            qg_source source = { .fetch = fetch_faulty,
                                 .ud = &s,
                                 .count = way % 3 == 2 ? 0 : 5,
                                 .one_shot = way % 3 == 0 };
            qg_workload w = { .source = &source,
                              .samples = 5,
                              .jobs = way < 3 ? 1 : 4 };
            if (fault == NOTHING && !source.count)
                continue; /* the end of the samples */
            assert_fails(f->ctx, ask_run(m, &w, &r), want[fault].status,
                         want[fault].text);
        }
    qg_model_close(m);
}

static void an_empty_source_is_refused(void **state)
{
    fixture *f = *state;
    qg_model *m = open_model(f);
    qg_report *r;
    f->stop = 0;
    qg_workload w = work_of(f, SOURCE, 1);
    assert_fails(f->ctx, ask_run(m, &w, &r), QG_EDATA,
                 "data: source: sample 0: nothing is set");
    qg_model_close(m);
}

/* 40 samples of statistics, in pieces of 16.  While the first is fetched a folder takes
 * the place of the checkpoint, for longer than it is due; later it goes. */
typedef struct obstacle {
    fixture *f;
    char part[SCRATCH_PATH + 16];
} obstacle;

static qg_status fetch_behind(void *ud, size_t index, qg_inputs *inputs)
{
    obstacle *o = ud;
    if (index == 0) {
        assert_int_equal(mkdir(o->part, 0700), 0);
        assert_int_equal(usleep(300 * 1000), 0);
    }
    if (index == 20)
        assert_int_equal(rmdir(o->part), 0);
    qg_tensor x = image(o->f, index % o->f->stop);
    return qg_inputs_set(inputs, NULL, &x);
}

static void a_checkpoint_that_fails_ends_collection(void **state)
{
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    obstacle o = { .f = *state };
    const qg_source source = { .fetch = fetch_behind, .ud = &o, .count = 40 };
    qg_model *m = open_model(o.f);
    qg_report *r = NULL;
    qg_stats_options options;
    qg_stats_options_init(&options, sizeof options);
    options.work = (qg_workload){ .source = &source, .jobs = 1 };
    assert_int_equal(mkdir(scratch_path(folder, "checkpoint"), 0700), 0);
    (void)snprintf(path, sizeof path, "%s/x.qgs", folder);
    (void)snprintf(o.part, sizeof o.part, "%s/x.qgs.part", folder);
    assert_fails(o.f->ctx, qg_model_collect(m, &options, path, &r), QG_EIO,
                 "x.qgs.part");
    assert_int_equal(rmdir(o.part), 0);
    qg_model_close(m);
    assert_int_equal(scratch_remove(folder), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

QG_TEST_MAIN(TEST(every_way_gives_the_same_snapshot),
             TEST(the_manifest_tells_where_samples_came_from),
             TEST(every_verb_takes_every_way),
             TEST(a_source_is_asked_as_often_as_it_must_be),
             TEST(labels_may_be_an_array), TEST(one_of_three_is_expected),
             TEST(arrays_are_checked), TEST(faults_of_a_source_name_sample_and_input),
             TEST(an_empty_source_is_refused),
             TEST(a_checkpoint_that_fails_ends_collection))

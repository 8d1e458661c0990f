/* threads FOLDER -- contexts that work concurrently.
 *
 * threads --race: two threads race for a variable, so that ThreadSanitizer must report.
 *
 * Four jobs, one after the other into FOLDER/serial/K, then again on a thread each into
 * FOLDER/threads/K: open a context and the demo model, fail once, quantize with arrays
 * or a source as samples, run, save.  Meant for ThreadSanitizer and `diff -r`; status 1
 * with a line when a job fails. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"
#include "engine/data/npy.h"

enum { JOBS = 4, SAMPLES = 12 };

typedef struct job {
    const char *backend, *folder;
    const qg_tensor *images; /* shared by all jobs: only read */
    bool from_source;
    pthread_t thread;
    const char *fault; /* NULL: none */
    char text[256];    /* of the fault */
} job;

static qg_status fetch(void *ud, size_t index, qg_inputs *inputs)
{
    const qg_tensor *all = ud;
    qg_tensor x;
    int64_t dim[QG_MAX_RANK];
    if (index >= SAMPLES)
        return QG_OK;
    memcpy(dim, all->dim, sizeof dim);
    dim[0] = 1;
    qg_tensor_init(&x, all->dtype, all->rank, dim);
    x.f32 = all->f32 + index * (size_t)qg_tensor_count(&x);
    return index % 2 ? qg_inputs_set(inputs, NULL, &x)
                     : qg_inputs_borrow(inputs, NULL, &x);
}

static qg_status work(const job *j, qg_model *m, const char *outputs,
                      const char *snapshot)
{
    qg_input_array array = { .value = *j->images };
    qg_source source = { .fetch = fetch, .ud = (void *)(uintptr_t)j->images };
    qg_quantize_options q;
    qg_run_options r;
    qg_report *report = NULL;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = j->backend;
    q.work = (qg_workload){ .samples = SAMPLES, .jobs = 2 };
    if (j->from_source)
        q.work.source = &source;
    else {
        q.work.array = &array;
        q.work.n_array = 1;
    }
    QG_TRY(qg_model_quantize(m, &q, &report));
    qg_report_free(report);
    qg_run_options_init(&r, sizeof r);
    r.work = q.work;
    QG_TRY(qg_model_run(m, &r, outputs, NULL));
    return qg_model_save(m, snapshot);
}

/* A failure of this context, which must not affect the others. */
static const char *fail_once(const job *j, qg_ctx *ctx)
{
    char path[64];
    qg_model *m;
    (void)snprintf(path, sizeof path, "no-model-for-%s.onnx", j->backend);
    return qg_model_open(ctx, path, NULL, &m) == QG_EIO &&
                   strstr(qg_ctx_message(ctx), path)
               ? NULL
               : "opening a file that is not there does not name it";
}

static void *run(void *ud)
{
    job *j = ud;
    qg_ctx *ctx;
    qg_model *m = NULL;
    char outputs[256], snapshot[256];
    (void)snprintf(outputs, sizeof outputs, "%s/outputs", j->folder);
    (void)snprintf(snapshot, sizeof snapshot, "%s/snapshot", j->folder);
    if (qg_open(NULL, &ctx) != QG_OK) {
        j->fault = "no context";
        return NULL;
    }
    j->fault = fail_once(j, ctx);
    qg_status s = qg_model_open(ctx, "configs/models/digits.onnx", NULL, &m);
    if (s == QG_OK)
        s = work(j, m, outputs, snapshot);
    if (s != QG_OK && !j->fault) {
        (void)snprintf(j->text, sizeof j->text, "%s", qg_ctx_message(ctx));
        j->fault = j->text;
    }
    qg_model_close(m);
    qg_close(ctx);
    return NULL;
}

/* Runs the jobs of the table below, into FOLDER/WAY/K. */
static int run_all(qg_ctx *ctx, const char *folder, const char *way, bool at_once,
                   const qg_tensor *images)
{
    static const char *const backend[JOBS] = { "trt-int8", "openvino-int8", "ncnn-int8",
                                               "trt-int8" };
    job j[JOBS] = { 0 };
    int failed = 0;
    for (int k = 0; k < JOBS; k++) {
        j[k] = (job){ .backend = backend[k], .images = images, .from_source = k % 2 };
        j[k].folder = qg_arena_printf(ctx->arena, "%s/%s/%d", folder, way, k);
        if (!at_once)
            (void)run(&j[k]);
        else if (pthread_create(&j[k].thread, NULL, run, &j[k]) != 0)
            return fprintf(stderr, "threads: no thread\n"), 1;
    }
    for (int k = 0; k < JOBS; k++) {
        if (at_once)
            (void)pthread_join(j[k].thread, NULL);
        if (j[k].fault)
            failed |= fprintf(stderr, "threads: %s %d: %s\n", way, k, j[k].fault) != 0;
    }
    return failed;
}

static void *count(void *ud)
{
    for (int i = 0; i < 1000; i++)
        ++*(volatile int *)ud;
    return NULL;
}

static int race(void)
{
    pthread_t thread;
    int shared = 0;
    if (pthread_create(&thread, NULL, count, &shared) != 0)
        return 1;
    (void)count(&shared);
    (void)pthread_join(thread, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    qg_ctx *ctx;
    const qg_tensor *images;
    if (argc == 2 && strcmp(argv[1], "--race") == 0)
        return race();
    if (argc != 2 || qg_open(NULL, &ctx) != QG_OK)
        return fprintf(stderr, "usage: threads FOLDER\n"), 2;
    if (qg_npy_load(ctx, ctx->arena, "configs/data/digits_calib.npy", &images) != QG_OK)
        return fprintf(stderr, "threads: %s\n", qg_ctx_message(ctx)), 1;
    int failed = run_all(ctx, argv[1], "serial", false, images);
    failed |= run_all(ctx, argv[1], "threads", true, images);
    qg_close(ctx);
    return failed;
}

/* bench_session [MODEL.onnx [RUNS]] -- what a session costs beside the bare executor:
 * best times of interleaved runs, float and simulate (backend trt-int8, calibrated on
 * random samples), and the memory that it asks for.
 *
 * Without MODEL: Ultraface of $QG_SHARED/models (default ../shared); 77 when it is not
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/api/qg.h"
#include "engine/session/session.h"
#include "tests/bench/steps.h"

/* Counts what it hands out; one thread. */
typedef struct counter {
    size_t bytes, calls;
} counter;

static void *count_get(void *ud, size_t size)
{
    counter *c = ud;
    c->bytes += size;
    c->calls++;
    return malloc(size);
}

static void count_drop(void *ud, void *p)
{
    (void)ud;
    free(p);
}

static qg_status where(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    const void **first = ud;
    (void)ctx, (void)at;
    if (at->value->is_input && !at->rounded)
        *first = x->data;
    return QG_OK;
}

/* One model in one mode. */
typedef struct bench {
    qg_model *m;
    const char *mode;
    qg_tensor x;
    size_t n;
    counter count;
} bench;

/* Bytes of the constants that nodes read. */
static size_t weight_bytes(const qg_graph *g)
{
    size_t sum = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_tensor *t = g->value.at[i]->constant;
        size_t bytes = 0;
        if (t && qg_dtype_bytes(t->dtype, (uint64_t)qg_tensor_count(t), &bytes))
            sum += bytes;
    }
    return sum;
}

/* A session that does nothing but run, and two plans like its own, each with its own
 * weights and memory: the ratio of the two plans shows how well times can be told
 * apart. */
static qg_status time_three(bench *b, qg_session *s, const qg_plan *p)
{
    enum { FIRST, SECOND, SESSION, KINDS };
    double best[KINDS] = { 1e9, 1e9, 1e9 };
    const qg_tensor *in[] = { &b->x };
    qg_tensor out[8] = { 0 };
    size_t n_out = b->m->graph->output.n < 8 ? b->m->graph->output.n : 8;
    qg_run *r[2] = { NULL, NULL };
    size_t before = b->count.bytes;
    QG_TRY(qg_run_new(b->m->ctx, p, &r[FIRST]));
    printf("%-8s run_bytes %zu\n", b->mode, b->count.bytes - before);
    qg_plan *second = NULL;
    qg_status status = qg_plan_new(b->m->ctx, p->graph, &p->options, &second);
    if (status == QG_OK)
        status = qg_run_new(b->m->ctx, second, &r[SECOND]);
    for (size_t i = 0; i < KINDS * (b->n + 5) && status == QG_OK; i++) {
        size_t kind = (i + i / KINDS) % KINDS; /* each comes behind each other one */
        double start = bench_now();
        status = kind == SESSION ? qg_session_run(s, &b->x, 1, out, n_out)
                                 : qg_run_execute(r[kind], in, NULL, 0, i);
        double t = bench_now() - start;
        if (i >= 5 * KINDS && t < best[kind])
            best[kind] = t;
    }
    qg_run_free(r[SECOND]);
    qg_run_free(r[FIRST]);
    qg_plan_free(second);
    printf("%-8s run_ms %.4f again_ms %.4f session_ms %.4f ratio %.4f noise %.4f\n",
           b->mode, 1e3 * best[FIRST], 1e3 * best[SECOND], 1e3 * best[SESSION],
           2 * best[SESSION] / (best[FIRST] + best[SECOND]),
           best[SECOND] / best[FIRST]);
    return status;
}

/* Bytes asked for by a session and its fork, requests of a second run; and whether the
 * nodes that read the input read the caller's memory. */
static qg_status show_memory(bench *b, const qg_session_options *o, qg_session **out)
{
    const void *first = NULL;
    qg_session *fork, *watched;
    qg_tensor y = { 0 };
    qg_session_options w = *o;
    qg_session_hook hook = { .select = "*.in0", .see = where, .ud = &first };
    size_t before = b->count.bytes;
    QG_TRY(qg_session_new(b->m, o, out));
    size_t session = b->count.bytes - before;
    QG_TRY(qg_session_fork(*out, &fork));
    size_t forked = b->count.bytes - before - session;
    QG_TRY(qg_session_run(fork, &b->x, 1, &y, 1));
    size_t calls = b->count.calls;
    QG_TRY(qg_session_run(fork, &b->x, 1, &y, 1));
    calls = b->count.calls - calls;
    qg_session_free(fork);
    w.hook = &hook;
    w.n_hook = 1;
    w.reference_kernels = true; /* others begin with a copy in their own layout */
    QG_TRY(qg_session_new(b->m, &w, &watched));
    QG_TRY(qg_session_run(watched, &b->x, 1, NULL, 0));
    qg_session_free(watched);
    printf(
        "%-8s weight_bytes %zu activation_bytes %zu session_bytes %zu fork_bytes %zu "
        "requests_of_second_run %zu input_in_place %s\n",
        b->mode, weight_bytes(b->m->graph), qg_session_bytes(*out), session, forked,
        calls, first == b->x.data ? "yes" : "no");
    return QG_OK;
}

static qg_status bench_mode(bench *b, qg_run_mode which)
{
    const char *mode = qg_run_mode_name(which);
    qg_session *s = NULL;
    qg_plan *p;
    qg_session_options o;
    qg_session_options_init(&o, sizeof o);
    b->mode = o.mode = mode;
    qg_status status = show_memory(b, &o, &s);
    size_t before = b->count.bytes;
    if (status == QG_OK)
        status = qg_model_plan(b->m, which, NULL, NULL, NULL, &p);
    if (status == QG_OK) {
        printf("%-8s plan_bytes %zu\n", mode, b->count.bytes - before);
        status = time_three(b, s, p);
        qg_plan_free(p);
    }
    if (s && status != QG_OK && *qg_session_message(s))
        fprintf(stderr, "bench_session: %s\n", qg_session_message(s));
    qg_session_free(s);
    return status;
}

/* Counts from after the model is read and quantized. */
static qg_status bench_all(qg_ctx *ctx, bench *b, const char *path)
{
    qg_quantize_options q;
    const qg_tensor *in[8];
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = "random:2";
    QG_TRY(qg_model_open(ctx, path, NULL, &b->m));
    QG_TRY(qg_model_quantize(b->m, &q, NULL));
    if (b->m->graph->input.n != 1)
        return qg_fail(ctx, QG_EUNSUPPORTED, "bench: expected a model of one input");
    QG_TRY(bench_inputs(ctx, b->m->graph, in));
    b->x = *in[0];
    ctx->alloc = (qg_alloc){ count_get, count_drop, &b->count };
    QG_TRY(bench_mode(b, QG_RUN_FLOAT));
    return bench_mode(b, QG_RUN_SIMULATE);
}

int main(int argc, char **argv)
{
    char path[1024];
    const char *shared = getenv("QG_SHARED");
    bench b = { .n = argc > 2 ? (size_t)atoi(argv[2]) : 200 };
    qg_ctx *ctx;
    (void)snprintf(path, sizeof path, "%s/models/ultraface-rfb-320.onnx",
                   shared ? shared : "../shared");
    if (argc < 2 && access(path, R_OK) != 0) {
        fprintf(stderr, "bench_session: %s is not there: skipped\n", path);
        return 77;
    }
    if (b.n == 0 || qg_open(NULL, &ctx) != QG_OK)
        return 2;
    qg_status s = bench_all(ctx, &b, argc > 1 ? argv[1] : path);
    if (s != QG_OK)
        fprintf(stderr, "bench_session: %s\n", qg_ctx_message(ctx));
    ctx->alloc = qg_alloc_libc;
    qg_model_close(b.m);
    qg_close(ctx);
    return s != QG_OK;
}

/* bench_sensitivity MODEL.onnx|SNAPSHOT [SAMPLES] [JOBS] -- sensitivity of every
 * quantized node, direction only: partial runs beside one run of the whole network per
 * node, same workers, in one process.  Prints best of three, their ratio, and whether
 * all rows are the same.
 *
 * A model that is not quantized yet is quantized with trt-int8 and random samples.
 * PPQ's layerwise analysis of Ultraface takes 19 to 39 s on such machines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/qg.h"
#include "tests/bench/steps.h"

enum { ROUNDS = 3 };

/* One analysis; the best time so far, and the rows as JSON from `errors` on. */
static qg_status ask(qg_model *m, const qg_sensitivity_options *o, double *best,
                     char **rows)
{
    qg_report *r = NULL;
    double start = bench_now();
    QG_TRY(qg_model_sensitivity(m, o, &r));
    double t = bench_now() - start;
    *best = *best == 0 || t < *best ? t : *best;
    free(*rows);
    *rows = strdup(strstr(qg_report_json(r), "\"errors\""));
    qg_report_free(r);
    return *rows ? QG_OK : QG_ENOMEM;
}

static size_t count_rows(const char *rows)
{
    size_t n = 0;
    while ((rows = strstr(rows, "\"name\"")) != NULL) {
        n++;
        rows++;
    }
    return n;
}

static qg_status bench(qg_ctx *ctx, const char *path, const char *data, unsigned jobs)
{
    qg_model *m = NULL;
    qg_quantize_options q;
    qg_sensitivity_options part, whole;
    double t[2] = { 0 };
    char *rows[2] = { NULL, NULL };
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = data;
    qg_sensitivity_options_init(&part, sizeof part);
    part.work.data = data;
    part.work.jobs = jobs;
    whole = part;
    whole.whole = true;
    QG_TRY(qg_model_open(ctx, path, NULL, &m));
    qg_status s = qg_model_is_quantized(m) ? QG_OK : qg_model_quantize(m, &q, NULL);
    for (int i = 0; s == QG_OK && i < ROUNDS; i++) {
        s = ask(m, &part, &t[0], &rows[0]);
        if (s == QG_OK)
            s = ask(m, &whole, &t[1], &rows[1]);
    }
    if (s == QG_OK)
        printf("nodes %zu partial_s %.3f whole_s %.3f times_cheaper %.2f results %s\n",
               count_rows(rows[0]), t[0], t[1], t[1] / t[0],
               strcmp(rows[0], rows[1]) == 0 ? "equal" : "DIFFERENT");
    free(rows[0]);
    free(rows[1]);
    qg_model_close(m);
    return s;
}

int main(int argc, char **argv)
{
    char data[32];
    int samples = argc > 2 ? atoi(argv[2]) : 8, jobs = argc > 3 ? atoi(argv[3]) : 2;
    qg_ctx *ctx;
    if (argc < 2 || samples < 1 || jobs < 1) {
        fprintf(stderr, "usage: bench_sensitivity MODEL [SAMPLES] [JOBS]\n");
        return 2;
    }
    (void)snprintf(data, sizeof data, "random:%d", samples);
    if (qg_open(NULL, &ctx) != QG_OK)
        return 1;
    qg_status s = bench(ctx, argv[1], data, (unsigned)jobs);
    if (s != QG_OK)
        fprintf(stderr, "bench_sensitivity: %s\n", qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}

#include "tests/support/recorded_trial.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

qg_workload trial_samples(const trial *t, const char *data)
{ /* results do not depend on jobs, so they vary */
    return (qg_workload){ .data = data,
                          .jobs = t->k % 8 == 7 ? 2 : 1,
                          .reference_kernels = true };
}

qg_model *trial_model(trial *t)
{
    qg_model *m = NULL;
    qg_status s = qg_model_open_text(t->ctx, t->net->text, strlen(t->net->text), &m);
    recorded_status(t->r, t->ctx, "open", s);
    return m;
}

qg_model *trial_quantized(trial *t, const qg_quantize_options *o)
{
    qg_report *report = NULL;
    qg_model *m = trial_model(t);
    if (!m)
        return NULL;
    qg_status s = qg_model_quantize(m, o, &report);
    recorded_status(t->r, t->ctx, o->backend, s);
    qg_report_free(report); /* test_recorded_session puts such reports */
    if (s == QG_OK)
        return m;
    qg_model_close(m);
    return NULL;
}

qg_model *trial_for(trial *t, const char *backend, const char *data, const char *set)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work = trial_samples(t, data);
    o.set = &set;
    o.n_set = set != NULL;
    return trial_quantized(t, &o);
}

void trial_put(trial *t, const char *what, qg_status s, qg_report *report)
{
    recorded_status(t->r, t->ctx, what, s);
    if (s == QG_OK)
        recorded_report(t->r, report);
}

void trial_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

void trial_labels(const char *path, unsigned n, unsigned seed)
{
    char head[128];
    FILE *f = fopen(path, "wb");
    int length =
        snprintf(head, sizeof head,
                 "{'descr': '<i8', 'fortran_order': False, 'shape': (%u,)}", n);
    if (!f)
        abort();
    (void)fwrite("\x93NUMPY\1", 1, 7, f);
    (void)fprintf(f, "%c%c%c%s%*s\n", 0, 118, 0, head, 117 - length, "");
    for (unsigned i = 0; i < n; i++) {
        int64_t label = (int64_t)((i * 5 + seed) % 3);
        (void)fwrite(&label, sizeof label, 1, f);
    }
    (void)fclose(f);
}

typedef struct network_of {
    const trial_suite *suite;
    const network *net;
    unsigned k;
} network_of;

static void try_network(recorded *r, void *ud)
{
    const network_of *n = ud;
    trial t = { r, recorded_context(r), n->net, n->k, n->suite->ud };
    n->suite->try_network(&t);
    qg_close(t.ctx);
}

int trial_main(const trial_suite *suite, int argc, char **argv)
{
    recorded r;
    networks all = { 0 };
    recorded_begin(&r, argc, argv, suite->path);
    networks_chains(&all, suite->first, suite->chains);
    networks_random(&all, suite->first, suite->random);
    recorded_enter(&r);
    if (suite->prepare)
        suite->prepare();
    for (unsigned k = 0, step = recorded_step(&r); k < all.n && !recorded_is_full(&r);
         k += step) {
        network_of one = { suite, &all.at[k], k };
        recorded_try(&r, try_network, &one);
    }
    networks_free(&all);
    return recorded_end(&r);
}

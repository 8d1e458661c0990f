#include "tests/support/recorded_trial.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void log_line(void *ud, int level, const char *text)
{
    trial *t = ud;
    if (level == 0)
        recorded_print(t->r, "warning: %s\n", text);
}

void trial_open(trial *t)
{
    qg_open_options how;
    qg_open_options_init(&how, sizeof how);
    how.log = log_line;
    how.log_ud = t;
    if (qg_open(&how, &t->ctx) != QG_OK)
        abort();
}

void trial_close(trial *t)
{
    qg_close(t->ctx);
    t->ctx = NULL;
}

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

void trial_enter(char folder[SCRATCH_PATH], const char *name)
{
    scratch_memory(folder, name);
    if (mkdir(folder, 0700) != 0 || chdir(folder) != 0)
        abort();
}

void trial_leave(const char *folder)
{
    (void)chdir("/");
    (void)scratch_remove(folder);
}

#include "tests/support/host.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/ir/text.h"
#include "engine/onnx/export.h"
#include "tests/support/test.h"

int host_setup(void **state)
{
    host *h = calloc(1, sizeof *h);
    assert_non_null(h);
    memcpy(h->dir, "/tmp/qg_host_XXXXXX", 20);
    assert_non_null(mkdtemp(h->dir));
    assert_int_equal(qg_open(NULL, &h->ctx), QG_OK);
    *state = h;
    return 0;
}

int host_teardown(void **state)
{
    host *h = *state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", h->dir);
    qg_close(h->ctx);
    free(h);
    return system(command);
}

const char *host_path(host *h, const char *name)
{
    return qg_path_join(h->ctx->arena, h->dir, name);
}

const char *host_model(host *h, const char *name, const char *text)
{
    qg_graph *g;
    const char *path = host_path(h, name);
    qg_text_source source = { name, text, strlen(text), NULL };
    assert_ok(h->ctx, qg_text_parse(h->ctx, &source, &g));
    assert_ok(h->ctx, qg_onnx_export(h->ctx, g, path, NULL));
    qg_graph_free(g);
    return path;
}

qg_model *host_open(host *h, const char *path)
{
    qg_model *m = NULL;
    assert_ok(h->ctx, qg_model_open(h->ctx, path, NULL, &m));
    return m;
}

qg_model *host_quantize(host *h, const char *path, const char *backend, const char *set,
                        unsigned jobs)
{
    qg_model *m = host_open(h, path);
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:8";
    o.work.jobs = jobs;
    o.set = &set;
    o.n_set = set != NULL;
    assert_ok(h->ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

const char *host_read(host *h, const char *path, size_t *size)
{
    char *text;
    assert_ok(h->ctx,
              qg_file_text(h->ctx, h->ctx->arena,
                           (qg_file_request){ "read", path, SIZE_MAX }, &text, size));
    return text;
}

const char *host_run(host *h, qg_model *m, const char *mode, const char *output,
                     size_t *size)
{
    char file[64];
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work.data = "random:4";
    o.work.jobs = 2;
    o.mode = mode;
    assert_ok(h->ctx, qg_model_run(m, &o, h->dir, NULL));
    (void)snprintf(file, sizeof file, "%s.npy", output);
    return host_read(h, host_path(h, file), size);
}

void host_assert_listed(host *h, const char *what, const char *text)
{
    qg_report *r = NULL;
    assert_ok(h->ctx, qg_list(h->ctx, what, &r));
    if (!strstr(qg_report_text(r), text))
        fail_msg("qg list %s lacks '%s'", what, text);
    qg_report_free(r);
}

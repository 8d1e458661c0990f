/* host.h -- a program that uses the library: a context, a private folder, models from
 * text.  For tests of engine/embed. */
#ifndef QG_TESTS_SUPPORT_HOST_H
#define QG_TESTS_SUPPORT_HOST_H

#include "engine/api/qg.h"

typedef struct host {
    qg_ctx *ctx;
    char dir[32]; /* removed by the teardown */
} host;

int host_setup(void **state); /* *state is a host */
int host_teardown(void **state);
#define WITH_HOST(f) cmocka_unit_test_setup_teardown(f, host_setup, host_teardown)

/* dir/name, as long as the context. */
const char *host_path(host *h, const char *name);

/* The text form becomes dir/name, an ONNX file; all of these fail the test on error. */
const char *host_model(host *h, const char *name, const char *text);

/* Opened; quantized when backend is set: by random:8, with --set `set` unless NULL. */
qg_model *host_open(host *h, const char *path);
qg_model *host_quantize(host *h, const char *path, const char *backend, const char *set,
                        unsigned jobs);

/* Runs random:4 in `mode` and gives the bytes of dir/<output>.npy. */
const char *host_run(host *h, qg_model *m, const char *mode, const char *output,
                     size_t *size);

/* Contents of a file as a text. */
const char *host_read(host *h, const char *path, size_t *size);

/* The page of `qg list WHAT`. */
void host_assert_listed(host *h, const char *what, const char *text);

#endif

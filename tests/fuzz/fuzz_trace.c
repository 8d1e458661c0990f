/* fuzz_trace.c -- any bytes as a trace: all arrays are read, and laid over a value. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/device/pair.h"
#include "tests/fuzz/outcome.h"
#include "tests/fuzz/zip_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST_ELEMENTS = 1 << 16 };

static void read_array(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a)
{
    qg_trace_data data;
    qg_pair pair = { .array = a };
    qg_tensor type;
    double *x;
    int64_t dims[] = { 1, 2, 3, 4 };
    qg_tensor_init(&type, QG_I8, 4, dims);
    if (a->count > MOST_ELEMENTS || qg_trace_load(ctx, t, a, &data) != QG_OK)
        return;
    if (qg_pair_fits(a, &type, &pair) &&
        qg_pair_read(ctx, &pair, &data, a->samples - 1, ctx->arena, &x) == QG_OK &&
        x[23] != x[23])
        abort(); /* NaN is refused */
    qg_trace_unload(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    qg_trace *t;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    enum { FD = 77 }; /* named in messages: the same every time */
    int made = memfd_create("fuzz", 0), fd = dup2(made, FD);
    (void)close(made);
    if (ctx && fd >= 0 && write(fd, bytes, size) == (ssize_t)size) {
        mend_sums(bytes, size, fd);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (qg_trace_open(ctx, path, &t) == QG_OK) {
            for (size_t i = 0; i < t->n; i++)
                outcome_put(t->array[i].value, strlen(t->array[i].value) + 1);
            for (size_t i = 0; i < t->n; i++)
                read_array(ctx, t, &t->array[i]);
            qg_trace_close(t);
        }
    }
    if (fd >= 0)
        (void)close(fd);
    outcome_end(ctx);
    return 0;
}

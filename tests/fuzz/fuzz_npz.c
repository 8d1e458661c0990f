/* fuzz_npz.c -- any bytes as a .npz archive, and as a .npy header. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/data/npz.h"
#include "tests/fuzz/outcome.h"
#include "tests/fuzz/zip_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_archive(qg_ctx *ctx, const char *path)
{
    qg_npz z;
    if (qg_npz_open(ctx, ctx->arena, path, &z) != QG_OK)
        return;
    for (size_t i = 0; i < z.count; i++) {
        const qg_tensor *t;
        qg_status s = qg_npz_load(ctx, ctx->arena, &z, &z.member[i], &t);
        if (s == QG_OK)
            outcome_put(t->dim, sizeof *t->dim * (size_t)t->rank);
    }
    qg_npz_close(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    qg_npy_source from = { "fuzz", bytes, size, size };
    qg_npy_head head;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    enum { FD = 77 }; /* named in messages: the same every time */
    int made = memfd_create("fuzz", 0), fd = dup2(made, FD);
    (void)close(made);
    if (ctx && fd >= 0 && write(fd, bytes, size) == (ssize_t)size) {
        mend_sums(bytes, size, fd);
        qg_status s = qg_npy_parse(ctx, &from, &head);
        if (s == QG_OK)
            outcome_put(head.type.dim, sizeof *head.type.dim * (size_t)head.type.rank);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        read_archive(ctx, path);
    }
    if (fd >= 0)
        (void)close(fd);
    outcome_end(ctx);
    return 0;
}

/* replay.c -- a fuzzer without libFuzzer: every seed as it is, cut short, and changed
 * in a few bytes, the same ways every time.
 *
 *     fuzz_X FOLDER...     all files in them, folders below left alone
 *
 * ctest runs it over the folders that seeds.txt names for X, so that no fuzzer rots and
 * every past finding stays fixed; tests/fuzz/run.sh looks for new ones. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"

enum { CUTS = 12, CHANGES = 24, MOST_TRIED = 1 << 14 };
/* CPU time after which a seed is changed no more: some inputs run a whole command. */
enum { SECONDS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A buffer of exactly `size` bytes: the sanitizer sees one read too far. */
static void try_bytes(const uint8_t *bytes, size_t size, qg_rng *change)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    for (int i = 0; change && size && i < 3; i++)
        copy[qg_rng_below(change, (uint32_t)size)] ^=
            (uint8_t)(1 + qg_rng_below(change, 255));
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Large seeds are tried as they are only: the suite has seconds. */
static void try_file(const uint8_t *bytes, size_t size)
{
    qg_rng rng = { size };
    const clock_t end = clock() + SECONDS * CLOCKS_PER_SEC;
    try_bytes(bytes, size, NULL);
    for (size_t i = 0; size <= MOST_TRIED && i < CUTS && clock() < end; i++)
        try_bytes(bytes, size * i / CUTS, NULL);
    for (size_t i = 0; size <= MOST_TRIED && i < CHANGES && clock() < end; i++)
        try_bytes(bytes, size, &rng);
}

/* The number of files; -1: something could not be read. */
static int try_folder(qg_ctx *ctx, const char *folder)
{
    const char **name;
    size_t n;
    int files = 0;
    if (qg_directory_list(ctx, ctx->arena, folder, &name, &n) != QG_OK)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *path = qg_path_join(ctx->arena, folder, name[i]);
        qg_file f;
        if (path && qg_is_directory(path))
            continue;
        if (!path || qg_file_open(ctx, "replay", path, SIZE_MAX, &f) != QG_OK)
            return -1;
        try_file(f.bytes, f.size);
        qg_file_close(&f);
        files++;
    }
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        int n = ctx ? try_folder(ctx, argv[i]) : -1;
        if (n < 0)
            (void)fprintf(stderr, "%s: %s\n", argv[i],
                          ctx ? qg_ctx_message(ctx) : "no memory");
        qg_ctx_free(ctx);
        if (n < 0)
            return 1;
        files += n;
    }
    printf("%d seeds, each cut in %d places and changed %d times\n", files, CUTS,
           CHANGES);
    return files == 0; /* a fuzzer without seeds tests nothing */
}

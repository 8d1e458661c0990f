/* replay.c -- a fuzzer without libFuzzer: every seed as it is, cut short, and changed
 * in a few bytes, words or lines, or in a field of its message (onnx_mutator.c), the
 * same ways every time.
 *
 *     fuzz_X [--write | --show SEED] FOLDER...   all files in them, folders below
 *                                                left alone; FOLDER*40: each is
 *                                                changed 40 times
 *
 * What all of it gives is what tests/data/recorded/fuzz_X.txt has, a digest for each
 * seed (tests/support/recorded.h).  ctest runs it over the folders that seeds.txt names
 * for X, so that no fuzzer rots and every past finding stays fixed; tests/fuzz/run.sh
 * looks for new ones. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "tests/fuzz/outcome.h"
#include "tests/support/recorded.h"

enum { CUTS = 12, CHANGES = 2000, MOST_TRIED = 1 << 14, SPACE = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Of fuzzers of ONNX files (onnx_mutator.c); NULL elsewhere. */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                                     size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static recorded record;

void outcome_put(const void *bytes, size_t size) { recorded_put(&record, bytes, size); }

/* A buffer of exactly `size` bytes: the sanitizer sees one read too far. */
static void try_bytes(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* A few bytes are others: any, or those at the ends of their ranges. */
static void change_bytes(uint8_t *bytes, size_t size, qg_rng *rng)
{
    static const uint8_t marks[] = { 0, 1, 0x7f, 0x80, 0xff, '0', '-', '9' };
    const bool marked = qg_rng_below(rng, 3) == 0;
    for (int i = 0; size && i < 3; i++) {
        uint8_t *at = &bytes[qg_rng_below(rng, (uint32_t)size)];
        const uint32_t draw = (uint32_t)qg_rng_below(rng, 255);
        *at = marked ? marks[draw % sizeof marks] : *at ^ (uint8_t)(1 + draw);
    }
}

/* What the mutator of messages does to bytes that are none. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    qg_rng rng = { size };
    (void)max_size;
    change_bytes(data, size, &rng);
    return size;
}

/* The next word from a place on that is all of `set`: its length, 0 for none. */
static size_t next_word(const uint8_t *bytes, size_t size, const char *set, size_t *at)
{
    size_t n = 0;
    while (*at < size && !(bytes[*at] && strchr(set, bytes[*at])))
        ++*at;
    while (*at + n < size && bytes[*at + n] && strchr(set, bytes[*at + n]))
        n++;
    return n;
}

/* n bytes of a seed from `at` on. */
typedef struct part {
    const uint8_t *bytes;
    size_t size, at, n;
} part;

/* The seed with `kept` bytes of `with` in place of the part. */
static size_t splice(part p, const void *with, size_t kept, uint8_t *out)
{
    memcpy(out, p.bytes, p.at);
    memcpy(out + p.at, with, kept);
    memcpy(out + p.at + kept, p.bytes + p.at + p.n, p.size - p.at - p.n);
    return p.size + kept - p.n;
}

/* A word is one of another place: a key, a value, a number that another field has. */
static size_t swap_words(const uint8_t *bytes, size_t size, qg_rng *rng, uint8_t *out)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789_-+."
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char *const kind[] = { "[]",        "{}",   "[1]",   "[x, y]",
                                        "[1, 2, 3]", "\"\"", "\"1\"", "{x: 1}",
                                        "no",        "null" };
    size_t at = qg_rng_below(rng, size), from = qg_rng_below(rng, size);
    size_t n = next_word(bytes, size, set, &at);
    size_t kept = next_word(bytes, size, set, &from);
    const void *with = bytes + from;
    if (qg_rng_below(rng, 3) == 0) { /* or of another kind */
        with = kind[qg_rng_below(rng, sizeof kind / sizeof *kind)];
        kept = strlen(with);
    }
    return splice((part){ bytes, size, at, n }, with, kept, out);
}

/* The line around a place is gone, or there twice. */
static size_t change_line(const uint8_t *bytes, size_t size, size_t at, bool twice,
                          uint8_t *out)
{
    while (at > 0 && bytes[at - 1] != '\n')
        at--;
    const uint8_t *end = memchr(bytes + at, '\n', size - at);
    const size_t n = end ? (size_t)(end - bytes) - at + 1 : size - at;
    return splice((part){ bytes, size, at, twice ? 0 : n }, bytes + at, twice ? n : 0,
                  out);
}

/* A number is another one, or something else; or a line is gone, or there twice. */
static size_t change_text(const uint8_t *bytes, size_t size, qg_rng *rng, uint8_t *out)
{
    /* clang-format off */
    static const char *const other[] = {
        "0", "-1", "1", "2", "7", "8", "128", "255", "256", "-129", "0.5", "65536",
        "1e39", "nan", "null", "true", "[]", "{}", "\"\"", "\"x\"", "", "1e-46", "-0.0",
        "2147483648", "-9223372036854775809", "18446744073709551616"
    };
    /* clang-format on */
    const bool line = qg_rng_below(rng, 4) == 0, twice = qg_rng_below(rng, 2) == 0;
    size_t at = qg_rng_below(rng, size);
    const char *with = other[qg_rng_below(rng, sizeof other / sizeof *other)];
    if (line)
        return change_line(bytes, size, at, twice, out);
    size_t n = next_word(bytes, size, "0123456789+-.e", &at);
    return splice((part){ bytes, size, at, n }, with, strlen(with), out);
}

static bool is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] < ' ' && bytes[i] != '\n' && bytes[i] != '\t' && bytes[i] != '\r')
            return false;
    return true;
}

/* One change of the seed; the new size of `other`, which has space for twice the
 * seed and SPACE. */
static size_t change(const uint8_t *bytes, size_t size, int i, qg_rng *rng,
                     uint8_t *other)
{
    const bool text = size && is_text(bytes, size);
    if (text && i % 16) /* most other bytes are no text */
        return i % 4 == 1 ? swap_words(bytes, size, rng, other)
                          : change_text(bytes, size, rng, other);
    memcpy(other, bytes, size);
    if (LLVMFuzzerCustomMutator && i % 4)
        return LLVMFuzzerCustomMutator(other, size, 2 * size + SPACE, (unsigned)i);
    change_bytes(other, size, rng);
    return size;
}

/* Large seeds are tried as they are only: the suite has seconds. */
static void try_file(const uint8_t *bytes, size_t size, int changes)
{
    uint8_t *other = malloc(2 * size + SPACE);
    qg_rng rng = { size };
    changes = size <= MOST_TRIED ? changes : 0;
    if (!other)
        abort();
    try_bytes(bytes, size);
    for (int i = 0; i < changes && i < CUTS; i++)
        try_bytes(bytes, size * (size_t)i / CUTS);
    for (int i = 0; i < changes; i++)
        try_bytes(other, change(bytes, size, i, &rng, other));
    free(other);
}

/* The number of files; -1: something could not be read. */
static int try_folder(qg_ctx *ctx, const char *folder, int changes)
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
        if (recorded_case(&record, "%s", path))
            try_file(f.bytes, f.size, changes);
        recorded_rest(&record);
        qg_file_close(&f);
        files++;
    }
    return files;
}

/* The words in front of the folders; the number of all words up to there. */
static int begin_record(int argc, char **argv)
{
    static char path[256];
    const char *slash = strrchr(argv[0], '/');
    int words = 1;
    if (argc > 1 && strncmp(argv[1], "--", 2) == 0)
        words = strcmp(argv[1], "--write") == 0 ? 2 : 3;
    (void)snprintf(path, sizeof path, "tests/data/recorded/%s.txt",
                   slash ? slash + 1 : argv[0]);
    recorded_begin(&record, words < argc ? words : argc, argv, path);
    return words;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = begin_record(argc, argv); i < argc; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        char *star = strchr(argv[i], '*');
        int changes = star ? atoi(star + 1) : CHANGES;
        if (star)
            *star = '\0';
        int n = ctx ? try_folder(ctx, argv[i], changes) : -1;
        if (n < 0)
            (void)fprintf(stderr, "%s: %s\n", argv[i],
                          ctx ? qg_ctx_message(ctx) : "no memory");
        qg_ctx_free(ctx);
        if (n < 0)
            return 1;
        files += n;
    }
    if (files == 0) /* a fuzzer without seeds tests nothing */
        return 1;
    return recorded_end(&record);
}

/* vectors DIR...: runs every file of a folder like shared/vectors (JSON) or
 * shared/goldens/tflite and prints the agreement.
 *
 *     backend_requant.json         185 of 185
 *     unsigned_bfs.json            not covered
 *
 * Status 0 when all covered cases agree (at least one), 1 when any case differs, 2 for
 * unreadable folders and files. */
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "tests/programs/vectors/vectors.h"

static const struct {
    const char *file;
    vec_part *run;
} parts[] = {
#define PART(file, function) { file, function },
#include "tests/programs/vectors/parts.def"
#undef PART
};

static vec_part *part_of(const char *file)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].file, file) == 0)
            return parts[i].run;
    return NULL;
}

/* Prints the line of one file; true when all covered cases agree. */
static bool report(vec_run *v, const char *file)
{
    vec_drop(v);
    printf("%-28s %u of %u", file, v->passed, v->cases);
    for (unsigned i = 0; i < v->nskipped; i++)
        printf("%s%s (%u)", i ? ", " : "; not covered: ", v->skipped[i].what,
               v->skipped[i].n);
    putchar('\n');
    return v->passed == v->cases;
}

static bool run_file(qg_ctx *ctx, qg_arena *arena, const char *directory,
                     const char *file, unsigned *covered)
{
    vec_part *run = part_of(file);
    if (!run) {
        printf("%-28s not covered\n", file);
        return true;
    }
    vec_run v = { .ctx = ctx, .arena = arena };
    const json *root;
    v.path = qg_path_join(arena, directory, file);
    if (!v.path || qg_json_read(ctx, arena, v.path, (size_t)1 << 30, &root) != QG_OK)
        vec_malformed("%s", qg_ctx_message(ctx));
    run(&v, root);
    vec_case(&v, "end"); /* closes the last case */
    bool good = report(&v, file);
    *covered += v.cases;
    qg_arena_reset(arena);
    return good;
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

static bool run_directory(qg_ctx *ctx, const char *directory, unsigned *covered)
{
    qg_arena *names_arena = qg_arena_new(qg_alloc_libc);
    qg_arena *arena = qg_arena_new(qg_alloc_libc);
    const char **names;
    size_t n;
    bool good = true;
    if (!names_arena || !arena ||
        qg_directory_list(ctx, names_arena, directory, &names, &n) != QG_OK)
        vec_malformed("%s", qg_ctx_message(ctx));
    for (size_t i = 0; i < n; i++)
        if (has_suffix(names[i], ".json"))
            good = run_file(ctx, arena, directory, names[i], covered) && good;
    qg_arena_free(arena);
    qg_arena_free(names_arena);
    return good;
}

int main(int argc, char **argv)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (argc < 2 || !ctx) {
        fprintf(stderr, "usage: vectors DIR...\n");
        return 2;
    }
    bool good = true;
    unsigned covered = 0;
    for (int i = 1; i < argc; i++)
        good = run_directory(ctx, argv[i], &covered) && good;
    if (covered == 0)
        printf("nothing covered\n");
    qg_ctx_free(ctx);
    return good && covered > 0 ? 0 : 1;
}

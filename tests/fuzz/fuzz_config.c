/* fuzz_config.c -- any bytes as a configuration file of each kind: a backend, a policy
 * patch, a pipeline, a profile, a lint target; read, or refused with a place. */
#include <stdint.h>
#include <string.h>

#include "engine/config/text.h"
#include "ops/families.h"
#include "tests/fuzz/config_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The folder is that of the working directory; texts of a host go before its files. */
static qg_search in_folder(const char *const *dir, const char *folder)
{
    return (qg_search){ .dir = dir, .n = 1, .folder = folder };
}

static qg_status read_backend(qg_ctx *ctx, qg_arena *a)
{
    static const char *const dir = "configs/backends";
    qg_backend *b;
    QG_TRY(qg_backend_load(ctx, a, "fuzz", in_folder(&dir, "backends"), &b));
    say_backend(b);
    QG_TRY(qg_backend_quirks(ctx, a, ~UINT64_C(0), b));
    say_backend(b);
    return QG_OK;
}

static qg_status read_patch(qg_ctx *ctx, qg_arena *a)
{
    static const char *const dir = "configs/backends";
    qg_backend *b;
    QG_TRY(qg_backend_load(ctx, a, "int8-base", in_folder(&dir, NULL), &b));
    QG_TRY(qg_backend_patch(ctx, a, "fuzz", b));
    say_backend(b);
    QG_TRY(qg_backend_patch(ctx, a, "fuzz", b)); /* its rules replace those before */
    say_rules(b);
    return QG_OK;
}

static qg_status read_pipeline(qg_ctx *ctx, qg_arena *a)
{
    static const char *const dir = "configs/pipelines";
    qg_pipeline p;
    QG_TRY(qg_pipeline_load(ctx, a, "fuzz", in_folder(&dir, "pipelines"), &p));
    say_pipeline(&p);
    qg_pipeline_cut(&p, p.n / 2);
    say_pipeline(&p);
    return QG_OK;
}

static qg_status read_profile(qg_ctx *ctx, qg_arena *a)
{
    static const char *const dir = "configs/profiles";
    const qg_profile *p;
    QG_TRY(qg_profile_load(ctx, a, "fuzz", in_folder(&dir, "profiles"), &p));
    say_profile(p);
    return QG_OK;
}

static qg_status read_target(qg_ctx *ctx, qg_arena *a)
{
    static const char *const dir = "configs/lint";
    const qg_lint_target *t;
    QG_TRY(qg_lint_load(ctx, a, "fuzz", in_folder(&dir, "lint"), &t));
    say_target(t);
    return QG_OK;
}

/* A kind of file, and a key that no other kind has. */
static const struct {
    const char *path, *key;
    qg_status (*read)(qg_ctx *ctx, qg_arena *a);
} kinds[] = {
    {"profiles/fuzz.yaml",   "\n    use:",    read_profile },
    { "lint/fuzz.yaml",      "\n    level:",  read_target  },
    { "pipelines/fuzz.yaml", "\npasses: [",   read_pipeline},
    { "backends/fuzz.yaml",  "\nextends:",    read_backend },
    { "backends/fuzz.yaml",  "\nquantizes:",  read_backend },
    { "policies/fuzz.yaml",  "\n# a patch\n", read_patch   },
};

static void read_as(qg_ctx *ctx, size_t k, const char *text, size_t size)
{
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    qg_config_loan loan;
    qg_config_lend(ctx, &loan, kinds[k].path, (qg_config_text){ text, size });
    ctx->message[0] = '\0';
    qg_status s = a ? kinds[k].read(ctx, a) : QG_ENOMEM;
    say("\n%s: %s: %s\n", kinds[k].path, qg_status_name(s), s ? ctx->message : "");
    qg_config_take_back(ctx, &loan);
    qg_arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { KINDS = sizeof kinds / sizeof *kinds };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    char *text = malloc(size + 1);
    size_t k = 0;
    if (!ctx || !text)
        abort();
    memcpy(text, bytes, size);
    text[size] = '\0';
    ctx->registry = &qg_ops_registry;
    ctx->config_dir = "configs"; /* of the working directory */
    while (k < KINDS && !strstr(text, kinds[k].key))
        k++;
    for (size_t i = 0; i < KINDS; i++) /* all of them where no key is found */
        if (i == k || k == KINDS)
            read_as(ctx, i, text, size);
    free(text);
    outcome_end(ctx);
    return 0;
}

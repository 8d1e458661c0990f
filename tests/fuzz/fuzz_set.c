/* fuzz_set.c -- any lines as options of `--set`, one a line: rules of a backend, or
 * refused. */
#include <stdint.h>
#include <string.h>

#include "engine/config/override.h"
#include "ops/families.h"
#include "tests/fuzz/config_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void set_lines(qg_ctx *ctx, qg_backend *b, char *text)
{
    for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end)
            *end = '\0';
        qg_status s = qg_backend_set(ctx, ctx->arena, line, b);
        say("%s: %s\n", qg_status_name(s), s ? ctx->message : "");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const dir = "configs/backends"; /* of the working directory */
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    char *text = malloc(size + 1);
    qg_backend *b;
    if (!ctx || !text)
        abort();
    memcpy(text, bytes, size);
    text[size] = '\0';
    ctx->registry = &qg_ops_registry;
    if (qg_backend_load(ctx, ctx->arena, "extension",
                        (qg_search){ .dir = &dir, .n = 1 }, &b) != QG_OK)
        abort();
    set_lines(ctx, b, text);
    say_rules(b);
    say_settings(&b->setting);
    free(text);
    outcome_end(ctx);
    return 0;
}

/* fuzz_stats.c -- any bytes as a statistics file; what is read is written, read again
 * to the same bytes, and given to every observer that reads statistics. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/hash.h"
#include "engine/snapshot/stats_file.h"
#include "engine/calib/derive.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Ranges, and how sure they are. */
static void derive_all(qg_ctx *ctx, const qg_stats_value *v)
{
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    static const qg_scheme linear = { .policy =
                                          QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                                      .bits = 8,
                                      .axis = -1,
                                      .qmax = 255 };
    for (const qg_observer *const *o = qg_observers; *o; o++) {
        qg_observer_setting setting = { .name = (*o)->name };
        setting.value[QG_PARAM_STEP] = setting.value[QG_PARAM_ZERO] = 1; /* of fixed */
        double low = 0, high = 0;
        float scale;
        int32_t offset;
        qg_found found = {
            .low = &low, .high = &high, .scale = &scale, .offset = &offset
        };
        qg_observe at = { .observer = *o,
                          .scheme = &linear,
                          .setting = &setting,
                          .channels = 1,
                          .stats = v };
        if (!(*o)->pick || ((*o)->policy & QG_FLOATING))
            continue;
        qg_confidence sure;
        qg_arena_reset(scratch);
        qg_status s = qg_stats_derive(ctx, &at, scratch, &found);
        if (s == QG_OK && qg_stats_tell(&at))
            s = qg_stats_confidence(ctx, &at, 0, scratch, &sure);
        outcome_put(&low, sizeof low);
        outcome_put(&high, sizeof high);
        (void)s; /* refusing is fine, crashing is not */
    }
    qg_arena_free(scratch);
}

static void use(qg_ctx *ctx, const uint8_t *bytes, size_t size)
{
    qg_stats_source from = { "fuzz", bytes, size };
    qg_stats *s, *again;
    unsigned char *text, *copy;
    size_t n, m;
    if (qg_stats_decode(ctx, &from, &s) != QG_OK)
        return;
    for (size_t i = 0; i < s->value.n; i++)
        derive_all(ctx, s->value.at[i]);
    if (qg_stats_encode(ctx, s, ctx->arena, &text, &n) != QG_OK)
        abort();
    from = (qg_stats_source){ "again", text, n };
    if (qg_stats_decode(ctx, &from, &again) != QG_OK ||
        qg_stats_encode(ctx, again, ctx->arena, &copy, &m) != QG_OK || n != m ||
        memcmp(text, copy, n) != 0)
        abort();
    outcome_put(text, n);
    qg_stats_free(again);
    qg_stats_free(s);
}

/* The checksum is made right: it would hide everything else. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char hash[QG_HASH_TEXT];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    uint8_t *file = malloc(size + QG_HASH_TEXT);
    if (ctx && file) {
        qg_hash_bytes(bytes, size, hash);
        memcpy(file, bytes, size);
        memcpy(file + size, hash, QG_HASH_TEXT - 1);
        use(ctx, file, size + QG_HASH_TEXT - 1);
    }
    free(file);
    outcome_end(ctx);
    return 0;
}

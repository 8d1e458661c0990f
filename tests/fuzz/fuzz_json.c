/* fuzz_json.c -- any bytes as JSON; what is accepted is written and read again. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/core/json.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void put(qg_json_writer *w, const qg_json *v, const char *key)
{
    switch (v->type) {
    case QG_JSON_NULL:
        qg_json_put_null(w, key);
        return;
    case QG_JSON_BOOL:
        qg_json_put_bool(w, key, v->truth);
        return;
    case QG_JSON_NUMBER:
        qg_json_put_f64(w, key, v->number);
        return;
    case QG_JSON_TEXT:
        qg_json_put_text(w, key, v->text);
        return;
    case QG_JSON_ARRAY:
    case QG_JSON_OBJECT:
        if (v->type == QG_JSON_ARRAY)
            qg_json_put_array(w, key);
        else
            qg_json_put_object(w, key);
        for (size_t i = 0; i < v->count; i++)
            put(w, &v->item[i], v->type == QG_JSON_OBJECT ? v->item[i].key : NULL);
        qg_json_put_end(w);
    }
}

static void write_and_read(qg_ctx *ctx, const qg_json *v)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    qg_json_writer w;
    if (!stream)
        return;
    qg_json_begin(&w, ctx, stream);
    put(&w, v, NULL);
    qg_status s = qg_json_done(&w);
    (void)fclose(stream);
    qg_json_source from = { "again", text, size };
    if (s == QG_OK && qg_json_parse(ctx, ctx->arena, &from, &v) != QG_OK)
        abort(); /* what we write, we read */
    outcome_put(text, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_json_source from = { "fuzz", (const char *)bytes, size };
    const qg_json *v;
    if (ctx && qg_json_parse(ctx, ctx->arena, &from, &v) == QG_OK)
        write_and_read(ctx, v);
    outcome_end(ctx);
    return 0;
}

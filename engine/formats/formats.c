#include "engine/formats/formats.h"

#include <assert.h>

#include "engine/core/suggest.h"

#define FORMAT(f) extern const qg_format qg_format_##f;
#include "engine/formats/formats.def"
#undef FORMAT

const qg_format *const qg_formats[] = {
#define FORMAT(f) &qg_format_##f,
#include "engine/formats/formats.def"
#undef FORMAT
    NULL
};

qg_status qg_format_named(qg_ctx *ctx, const char *name, const qg_format **out)
{
    char near[QG_SUGGEST_TEXT];
    qg_suggest s = qg_suggest_for(name);
    for (const qg_format *const *f = qg_formats; *f; f++) {
        if (strcmp((*f)->name, name) == 0) {
            *out = *f;
            return QG_OK;
        }
        qg_suggest_try(&s, (*f)->name);
    }
    return qg_fail(ctx, QG_ECONFIG,
                   "format '%s': no such format, expected one of `qg list formats`%s",
                   name, qg_suggest_text(&s, near));
}

const qg_format *qg_format_of_bytes(const unsigned char *bytes, size_t size)
{
    for (const qg_format *const *f = qg_formats; *f; f++)
        if ((*f)->recognizes && (*f)->recognizes(bytes, size))
            return *f;
    return NULL;
}

/* "int or float" */
static const char *list_words(qg_arena *a, const char *const *word)
{
    const char *text = word[0];
    for (size_t i = 1; word[i] && text; i++)
        text = qg_arena_printf(a, "%s%s%s", text, word[i + 1] ? ", " : " or ", word[i]);
    return text ? text : "";
}

static qg_status choose(qg_export *e, size_t k, const char *word)
{
    char near[QG_SUGGEST_TEXT];
    const char *const *choice = e->format->choice[k];
    e->option[k] = choice ? choice[0] : NULL;
    if (!word && choice && k == QG_FORMAT_PLACEMENT)
        word = e->quant->backend->placement;
    if (!word)
        return QG_OK;
    if (!choice)
        return qg_fail(e->ctx, QG_ECONFIG, "format '%s': has no option '%s'",
                       e->format->name,
                       qg_format_option_word((enum qg_format_option)k));
    qg_suggest s = qg_suggest_for(word);
    for (size_t i = 0; choice[i]; i++) {
        bool any = strcmp(choice[i], QG_FORMAT_ANY) == 0;
        if (any || strcmp(choice[i], word) == 0) {
            e->option[k] = any ? word : choice[i];
            return QG_OK;
        }
        qg_suggest_try(&s, choice[i]);
    }
    return qg_fail(e->ctx, QG_ECONFIG, "format '%s': %s '%s', expected %s%s",
                   e->format->name, qg_format_option_word((enum qg_format_option)k),
                   word, list_words(e->arena, choice), qg_suggest_text(&s, near));
}

qg_status qg_export_begin(qg_export *e, const char *format,
                          const char *const option[QG_N_FORMAT_OPTION])
{
    QG_TRY(qg_format_named(e->ctx, format, &e->format));
    if (!e->format->build)
        return qg_fail(e->ctx, QG_EUNSUPPORTED,
                       "format '%s': can only be imported, expected one that `qg list "
                       "formats` exports",
                       format);
    if (e->names && !e->format->takes_names)
        return qg_fail(e->ctx, QG_ECONFIG, "format '%s': has no option 'names'",
                       format);
    if (e->analysis && !e->format->takes_analysis)
        return qg_fail(e->ctx, QG_ECONFIG, "format '%s': has no option 'analysis'",
                       format);
    e->arena = qg_arena_new(e->ctx->alloc);
    if (!e->arena)
        return qg_nomem(e->ctx);
    qg_status s = QG_OK;
    for (size_t k = 0; k < QG_N_FORMAT_OPTION && s == QG_OK; k++)
        s = choose(e, k, option ? option[k] : NULL);
    if (s != QG_OK)
        qg_export_end(e);
    return s;
}

qg_status qg_format_import(qg_import *i, const char *format)
{
    const qg_format *f;
    QG_TRY(qg_format_named(i->ctx, format, &f));
    if (!f->import)
        return qg_fail(i->ctx, QG_EUNSUPPORTED,
                       "format '%s': can only be exported, expected one that `qg list "
                       "formats` imports",
                       format);
    if (f->needs_model && !i->model)
        return qg_fail(
            i->ctx, QG_ECONFIG,
            "format '%s': does not contain the graph, expected --model MODEL.onnx",
            format);
    if (!f->needs_model && i->model)
        return qg_fail(i->ctx, QG_ECONFIG,
                       "format '%s': contains the graph, expected no --model", format);
    if (i->names && !f->takes_names)
        return qg_fail(i->ctx, QG_ECONFIG, "format '%s': has no option 'names'",
                       format);
    i->format = f;
    qg_status s = f->import(i);
    assert(s != QG_OK || (i->graph && i->quant && i->quant->graph == i->graph));
    if (s != QG_OK) {
        qg_graph_free(i->graph);
        i->graph = NULL;
    }
    return s;
}

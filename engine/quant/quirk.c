#include "engine/quant/quirk.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/suggest.h"

static const char *const quirk_name[QG_NQUIRK] = {
#define X(id, text) text,
    QG_QUIRK_MAP(X)
#undef X
};

_Static_assert(QG_NQUIRK <= 64, "quirks are bits of a uint64_t");

const char *qg_quirk_name(qg_quirk q)
{
    assert(q < QG_NQUIRK);
    return quirk_name[q];
}

void qg_quirk_swap(const qg_quirk_row *row, uint64_t mask, void *behaviours)
{
    for (; row->meaning; row++)
        if (row->with && mask >> row->quirk & 1u)
            memcpy((char *)behaviours + row->at, (const char *)row->with + row->at,
                   row->size);
}

/* "ppq" is a family of "ppq-offset-without-qmin". */
static bool names(const char *text, const char *name)
{
    size_t n = strlen(text);
    return strncmp(text, name, n) == 0 && (name[n] == 0 || name[n] == '-');
}

/* A word without '-' is a family; the nearest single name is suggested. */
qg_status qg_quirk_named(qg_ctx *ctx, const char *text, uint64_t *mask)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < QG_NQUIRK; i++)
        if (strcmp(text, quirk_name[i]) == 0 ||
            (!strchr(text, '-') && names(text, quirk_name[i])))
            found |= UINT64_C(1) << i;
    if (!found) {
        char hint[QG_SUGGEST_TEXT];
        qg_suggest near = qg_suggest_for(text);
        for (unsigned i = 0; i < QG_NQUIRK; i++)
            qg_suggest_try(&near, quirk_name[i]);
        qg_suggest_try(&near, "ppq");
        return qg_fail(ctx, QG_ECONFIG,
                       "quirks: unknown quirk '%s'%s, expected one of `qg list quirks`",
                       text, qg_suggest_text(&near, hint));
    }
    *mask = found;
    return QG_OK;
}

qg_status qg_quirks_named(qg_ctx *ctx, const char *list, uint64_t *mask)
{
    uint64_t all = 0, one;
    while (*list) {
        char name[64];
        size_t n = strcspn(list, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), list);
        QG_TRY(qg_quirk_named(ctx, name, &one));
        all |= one;
        list += n + (list[n] == ',');
    }
    *mask = all;
    return QG_OK;
}

/* observer.c -- the table of observers, and the texts that name one with parameters. */
#include "engine/calib/observer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/core/suggest.h"

const qg_observer *const qg_observers[] = {
#define OBSERVER(x) &qg_observer_##x,
#include "engine/calib/observers.def"
#undef OBSERVER
    NULL
};

const qg_observer *qg_observer_find(const qg_ctx *ctx, const char *name)
{
    for (const qg_observer *const *o = qg_observers; *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return qg_ctx_added(ctx, QG_ADDED_OBSERVER, name);
}

const qg_observer *qg_observer_next(const qg_ctx *ctx, const qg_observer *last)
{
    const qg_observer *const *o = qg_observers;
    const qg_added *added = ctx->added[QG_ADDED_OBSERVER];
    while (last && *o && *o++ != last)
        ;
    if (*o)
        return *o;
    for (; last && last->host && added && added->what != last; added = added->next)
        ;
    if (last && last->host && added)
        added = added->next;
    return added ? added->what : NULL;
}

/* --- parameters --- */

/* "bins (2 to 1048576), min-scale (1e-38 to 1)". */
static const char *list_params(const qg_observer *o, char *text, size_t room)
{
    size_t n = 0;
    text[0] = '\0';
    for (int p = 0; p < QG_NOBSERVER_PARAM && n < room; p++) {
        qg_param_limit l = qg_observer_param_limit((qg_observer_param)p);
        if (o->value[p] != 0)
            n += (size_t)snprintf(
                text + n, room - n, "%s%s (%.7g to %.7g)", n ? ", " : "",
                qg_observer_param_name((qg_observer_param)p), l.least, l.most);
    }
    return text;
}

/* Between the beginning of a message and the rest. */
static const char *colon(const char *what) { return *what ? ": " : ""; }

/* Ways of other tools that no observer can be. */
static const struct {
    const char *name, *why;
} impossible[] = {
    {"ncnn-eq",  "compares outputs of layers, which takes runs of the network for each "
                 "candidate, expected ncnn-kl or ncnn-aciq"                    },
    { "isotone", "needs the two largest elements of every row of every sample, which "
                 "statistics of elements do not contain, expected ppq-isotone"},
};

static qg_status unknown(qg_ctx *ctx, const char *what, const char *name)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(name);
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++)
        if (strcmp(name, impossible[i].name) == 0)
            return qg_fail(ctx, QG_EUNSUPPORTED, "%s%sobserver %s %s", what,
                           colon(what), name, impossible[i].why);
    for (const qg_observer *o = NULL; (o = qg_observer_next(ctx, o));)
        qg_suggest_try(&near, o->name);
    return qg_fail(ctx, QG_ECONFIG,
                   "%s%sobserver '%s': unknown, expected one of `qg list observers`%s",
                   what, colon(what), name, qg_suggest_text(&near, hint));
}

qg_status qg_observer_check(qg_ctx *ctx, const char *what, const qg_observer_setting *s)
{
    char list[512];
    const qg_observer *o = s->name ? qg_observer_find(ctx, s->name) : NULL;
    if (s->name && !o)
        return unknown(ctx, what, s->name);
    for (int p = 0; o && p < QG_NOBSERVER_PARAM; p++) {
        double v = s->value[p];
        if (v == 0)
            continue;
        if (o->value[p] == 0)
            return qg_fail(ctx, QG_ECONFIG,
                           "%s%sobserver %s has no parameter '%s', expected one of %s",
                           what, colon(what), o->name,
                           qg_observer_param_name((qg_observer_param)p),
                           list_params(o, list, sizeof list));
        qg_param_limit l = qg_observer_param_limit((qg_observer_param)p);
        if (!(v >= l.least && v <= l.most) || (l.whole && v != trunc(v)))
            return qg_fail(ctx, QG_ECONFIG,
                           "%s%sobserver %s: %s=%g, expected %s from %.7g to %.7g",
                           what, colon(what), o->name,
                           qg_observer_param_name((qg_observer_param)p), v,
                           l.whole ? "a whole number" : "a number", l.least, l.most);
    }
    return QG_OK;
}

/* One "key=value" of n bytes. */
static qg_status parse_param(qg_ctx *ctx, const char *text, size_t n,
                             qg_observer_setting *s)
{
    char list[512];
    const qg_observer *o = qg_observer_find(ctx, s->name);
    const char *equals = memchr(text, '=', n);
    size_t key = equals ? (size_t)(equals - text) : n;
    int p = 0;
    while (p < QG_NOBSERVER_PARAM &&
           (strlen(qg_observer_param_name((qg_observer_param)p)) != key ||
            memcmp(qg_observer_param_name((qg_observer_param)p), text, key) != 0))
        p++;
    double v;
    if (p == QG_NOBSERVER_PARAM || !equals ||
        !qg_num_parse_f64(equals + 1, n - key - 1, &v) || v == 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "observer %s: '%.*s', expected name=number, one of %s", s->name,
                       (int)(n < 80 ? n : 80), text, list_params(o, list, sizeof list));
    s->value[p] = v;
    return QG_OK;
}

qg_status qg_observer_parse(qg_ctx *ctx, const char *text, qg_observer_setting *out)
{
    char name[64];
    size_t n = strcspn(text, ",");
    qg_observer_setting s = { 0 };
    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), text);
    const qg_observer *o = qg_observer_find(ctx, name);
    if (!o)
        return unknown(ctx, "", name);
    s.name = o->name;
    while (text[n] == ',') {
        text += n + 1;
        n = strcspn(text, ",");
        QG_TRY(parse_param(ctx, text, n, &s));
    }
    QG_TRY(qg_observer_check(ctx, "", &s));
    *out = s;
    return QG_OK;
}

#include <assert.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/io/backend_yaml_parts.h"

enum { MOST_ANCHORS = 16 };

/* A fusion under construction. */
typedef struct builder {
    const qg_backend_reader *r;
    const char *what;
    qg_anchor *anchor;
    size_t n;
} builder;

static int anchor_named(const builder *b, const char *name, size_t n)
{
    for (size_t i = 0; i < b->n; i++)
        if (strlen(b->anchor[i].name) == n && memcmp(b->anchor[i].name, name, n) == 0)
            return (int)i;
    return -1;
}

static qg_status need_anchor(const builder *b, const qg_yaml *y, const char *name,
                             uint32_t *out)
{
    int k = anchor_named(b, name, strlen(name));
    if (k < 0)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "unknown node '%s', expected one of the pattern, producers "
                            "first",
                            name);
    *out = (uint32_t)k;
    return QG_OK;
}

/* "c.out0" */
static qg_status read_end(const builder *b, const qg_yaml *y, const char *text,
                          qg_pattern_end *out)
{
    const char *dot = strchr(text, '.');
    int k = dot ? anchor_named(b, text, (size_t)(dot - text)) : -1;
    bool output = dot && strncmp(dot + 1, "out", 3) == 0;
    const char *digits = dot ? dot + (output ? 4 : 3) : "";
    int64_t slot;
    if (k < 0 || (!output && strncmp(dot + 1, "in", 2) != 0) ||
        !qg_num_parse_i64(digits, strlen(digits), &slot) || slot < 0 || slot > 255)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "endpoint '%s', expected NODE.in0 or "
                            "NODE.out0 with a NODE of the pattern",
                            text);
    *out = (qg_pattern_end){ (uint32_t)k, output, (uint32_t)slot };
    return QG_OK;
}

static qg_status read_producers(builder *b, const qg_yaml *y, qg_anchor *a)
{
    const char *const *name;
    size_t n;
    QG_TRY(qg_yaml_words(b->r->ctx, b->r->arena, y, b->what, &name, &n));
    uint32_t *in = QG_NEWN(b->r->arena, n, uint32_t);
    if (!in)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(need_anchor(b, y, name[i], &in[i]));
    a->in = in;
    a->n_in = n;
    return QG_OK;
}

/* {op: [Relu], in: [c]}: conditions on a node, and which anchors feed it. */
static qg_status read_anchor(builder *b, const qg_yaml *y, const char *name)
{
    static const char *const keys[] = { "op", "trait", "node", "attr", "in", NULL };
    qg_anchor a = { .name = name };
    QG_TRY(qg_yaml_keys(b->r->ctx, y, b->what, keys));
    qg_yaml conditions = *y; /* without `in` */
    conditions.n = 0;
    conditions.key = QG_NEWN(b->r->arena, y->n, const char *);
    conditions.item = QG_NEWN(b->r->arena, y->n, const qg_yaml *);
    if (!conditions.key || !conditions.item)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++)
        if (strcmp(y->key[i], "in") != 0) {
            conditions.key[conditions.n] = y->key[i];
            conditions.item[conditions.n++] = y->item[i];
        }
    QG_TRY(qg_read_match(b->r, &conditions, b->what, &a.node, NULL));
    const qg_yaml *in = qg_yaml_get(y, "in");
    if (in)
        QG_TRY(read_producers(b, in, &a));
    b->anchor[b->n++] = a;
    return QG_OK;
}

/* Every anchor but the last feeds a later one, so that matching finds it. */
static qg_status check_connected(const builder *b, const qg_yaml *y)
{
    for (size_t i = 0; i + 1 < b->n; i++) {
        bool feeds = false;
        for (size_t k = i + 1; k < b->n; k++)
            for (size_t j = 0; j < b->anchor[k].n_in; j++)
                feeds |= b->anchor[k].in[j] == i;
        if (!feeds)
            return qg_yaml_fail(b->r->ctx, y, b->what,
                                "node '%s' feeds no later one, expected it in an 'in'",
                                b->anchor[i].name);
    }
    return QG_OK;
}

static qg_status read_pattern(builder *b, const qg_yaml *y)
{
    if (y->kind != QG_YAML_MAP || y->n == 0 || y->n > MOST_ANCHORS)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "pattern: expected a map of 1 to %d "
                            "nodes",
                            MOST_ANCHORS);
    b->anchor = QG_NEWN(b->r->arena, y->n, qg_anchor);
    if (!b->anchor)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        if (strchr(y->key[i], '.'))
            return qg_yaml_fail(b->r->ctx, y->item[i], b->what,
                                "node '%s' holds a dot, expected a plain word",
                                y->key[i]);
        QG_TRY(read_anchor(b, y->item[i], y->key[i]));
    }
    return check_connected(b, y);
}

static qg_status read_condition(const builder *b, const qg_yaml *y, const char *end,
                                qg_end_condition *out)
{
    static const char *const keys[] = { "consumers", "graph-output", "constant", NULL };
    qg_end_condition c = { .consumers = -1 };
    bool yes;
    const qg_yaml *v;
    QG_TRY(read_end(b, y, end, &c.end));
    QG_TRY(qg_yaml_keys(b->r->ctx, y, b->what, keys));
    if ((v = qg_yaml_get(y, "consumers")))
        QG_TRY(qg_yaml_int(b->r->ctx, v, b->what, 0, INT32_MAX, &c.consumers));
    if ((v = qg_yaml_get(y, "graph-output"))) {
        QG_TRY(qg_yaml_bool(b->r->ctx, v, b->what, &yes));
        c.graph_output = yes ? QG_YES : QG_NO;
    }
    if ((v = qg_yaml_get(y, "constant"))) {
        QG_TRY(qg_yaml_bool(b->r->ctx, v, b->what, &yes));
        c.constant = yes ? QG_YES : QG_NO;
    }
    *out = c;
    return QG_OK;
}

static qg_status read_same_platform(const builder *b, const qg_yaml *y, qg_fusion *f)
{
    const char *const *name;
    QG_TRY(qg_yaml_words(b->r->ctx, b->r->arena, y, b->what, &name, &f->n_same));
    uint32_t *same = QG_NEWN(b->r->arena, f->n_same, uint32_t);
    if (!same)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < f->n_same; i++)
        QG_TRY(need_anchor(b, y, name[i], &same[i]));
    f->same_platform = same;
    return QG_OK;
}

static qg_status read_where(const builder *b, const qg_yaml *y, qg_fusion *f)
{
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "where: expected a map of endpoints");
    qg_end_condition *where = QG_NEWN(b->r->arena, y->n, qg_end_condition);
    if (!where)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        if (strcmp(y->key[i], "same-platform") == 0)
            QG_TRY(read_same_platform(b, y->item[i], f));
        else
            QG_TRY(read_condition(b, y->item[i], y->key[i], &where[f->n_where++]));
    }
    f->where = where;
    return QG_OK;
}

static qg_status read_silence(const builder *b, const qg_yaml *y, qg_fusion *f)
{
    if (y->kind != QG_YAML_MAP || y->n == 0)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "silence: expected a map from endpoint to endpoint");
    qg_silence *s = QG_NEWN(b->r->arena, y->n, qg_silence);
    if (!s)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        const char *leader;
        QG_TRY(read_end(b, y->item[i], y->key[i], &s[i].silent));
        QG_TRY(qg_yaml_text(b->r->ctx, y->item[i], b->what, &leader));
        QG_TRY(read_end(b, y->item[i], leader, &s[i].leader));
    }
    f->silence = s;
    f->n_silence = y->n;
    return QG_OK;
}

qg_status qg_read_fusion(const qg_backend_reader *r, const qg_yaml *y, qg_fusion *out)
{
    static const char *const keys[] = { "id",    "pattern", "where",  "silence",
                                        "after", "why",     "source", NULL };
    static const char *const after[] = { "passive", NULL };
    int k;
    char what[QG_WHAT_TEXT];
    qg_fusion f = { 0 };
    const qg_yaml *v;
    QG_TRY(qg_read_origin(r, y, "fusion", &f.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    builder b = { .r = r, .what = what };
    QG_TRY(qg_yaml_need(r->ctx, y, what, "pattern", &v));
    QG_TRY(read_pattern(&b, v));
    if ((v = qg_yaml_get(y, "where")))
        QG_TRY(read_where(&b, v, &f));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "silence", &v));
    QG_TRY(read_silence(&b, v, &f));
    if ((v = qg_yaml_get(y, "after"))) {
        QG_TRY(qg_yaml_choice(r->ctx, v, what, after, &k));
        f.after_passive = true;
    }
    f.anchor = b.anchor;
    f.n_anchor = b.n;
    *out = f;
    return QG_OK;
}

qg_status qg_read_sharing(const qg_backend_reader *r, const qg_yaml *y, qg_sharing *out)
{
    static const char *const keys[] = { "id",       "match", "align",  "spread",
                                        "override", "why",   "source", NULL };
    static const char *const align[] = { [QG_ALIGN_NONE] = "none",
                                         [QG_ALIGN_LARGE] = "large",
                                         [QG_ALIGN_OUTPUT] = "output",
                                         [QG_ALIGN_INPUT] = "input",
                                         NULL };
    static const char *const spread[] = { "none", "upstream", NULL };
    char what[QG_WHAT_TEXT];
    qg_sharing s = { .override = true };
    const qg_yaml *v;
    int k = 0;
    QG_TRY(qg_read_origin(r, y, "sharing", &s.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "match", &v));
    QG_TRY(qg_read_match(r, v, what, &s.node, NULL));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "align", &v));
    QG_TRY(qg_yaml_choice(r->ctx, v, what, align, &k));
    s.align = (enum qg_align)k;
    if ((v = qg_yaml_get(y, "spread"))) {
        QG_TRY(qg_yaml_choice(r->ctx, v, what, spread, &k));
        s.spread = k == 1;
    }
    if ((v = qg_yaml_get(y, "override")))
        QG_TRY(qg_yaml_bool(r->ctx, v, what, &s.override));
    *out = s;
    return QG_OK;
}

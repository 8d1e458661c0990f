/* json_read.c -- the inverse of ppq_json.c, for hostile files too: what the file
 * says counts only as far as it fits the model; the verifier has the last word. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/core/json.h"
#include "engine/formats/ppq/json.h"
#include "engine/quant/tqc_check.h"

typedef struct reader {
    qg_ctx *ctx;
    qg_graph *g;
    qg_quant *q;
    qg_names *hashes;               /* "123" -> index into of_hash */
    QG_VEC(qg_tqc *) of_hash;       /* the first record with that hash */
    QG_VEC(const qg_json *) config; /* [TQCs] where each was read */
    const qg_json *values;
} reader;

/* --- dispatchings --- */

/* Whatever is neither float nor shape is a platform that quantizes. */
static enum qg_platform platform_of(const char *text)
{
    static const char *const shapes[] = { "SOI", "SHAPE_OR_INDEX" };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(text, shapes[i]) == 0)
            return QG_PLATFORM_SOI;
    return strcmp(text, "FP32") == 0 ? QG_PLATFORM_FP32 : QG_PLATFORM_QUANTIZED;
}

/* Nodes without an entry run in float; only those with records are quantized. */
static qg_status read_dispatchings(reader *r, const qg_json *root, const char **backend)
{
    const qg_json *list, *configs;
    QG_TRY(qg_json_member(r->ctx, root, "dispatchings", QG_JSON_OBJECT, &list));
    QG_TRY(qg_json_member(r->ctx, root, "configs", QG_JSON_OBJECT, &configs));
    for (size_t i = 0; i < r->g->node.n; i++) {
        r->g->node.at[i]->platform = QG_PLATFORM_FP32;
        r->g->node.at[i]->reason = "import: not in the file";
    }
    for (size_t i = 0; i < list->count; i++) {
        const qg_json *v = &list->item[i];
        const char *text;
        QG_TRY(qg_json_as_text(r->ctx, v, &text));
        qg_node *n = qg_graph_node(r->g, v->key);
        if (!n)
            return qg_json_fail(r->ctx, QG_EPARSE, v,
                                "the model has no such node, expected its own file");
        enum qg_platform p = platform_of(text);
        bool quantized = p == QG_PLATFORM_QUANTIZED;
        n->platform = quantized && !qg_json_get(configs, v->key) ? QG_PLATFORM_FP32 : p;
        n->reason = "import: dispatched so in the file";
        if (quantized && !*backend)
            *backend = text;
    }
    return QG_OK;
}

/* --- configs --- */

/* All eight must be there; which go together is checked with the scheme. */
static qg_status read_policy(reader *r, const qg_json *o, qg_scheme *s)
{
    const qg_json *policy;
    QG_TRY(qg_json_member(r->ctx, o, "policy", QG_JSON_OBJECT, &policy));
    for (size_t i = 0; i < QG_PPQ_PROPERTIES; i++) {
        bool on;
        QG_TRY(qg_json_bool(r->ctx, policy, qg_ppq_properties[i].name, &on));
        if (on)
            s->policy = (uint16_t)(s->policy | qg_ppq_properties[i].bit);
    }
    return QG_OK;
}

static qg_status read_scheme(reader *r, const qg_json *o, qg_scheme *s)
{
    int64_t bits;
    QG_TRY(qg_json_int(r->ctx, o, "bit_width", &bits));
    if (bits < 2 || bits > 32)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "bit_width"),
                            "is %lld, expected 2 to 32", (long long)bits);
    s->bits = (uint8_t)bits;
    QG_TRY(read_policy(r, o, s));
    QG_TRY(qg_json_int(r->ctx, o, "quant_min", &s->qmin));
    return qg_json_int(r->ctx, o, "quant_max", &s->qmax);
}

/* States that only newer files of ours know are refused, not guessed. */
static qg_status read_state(reader *r, const qg_json *o, qg_tqc_state *out)
{
    const char *text;
    QG_TRY(qg_json_text(r->ctx, o, "state", &text));
    int state = qg_tqc_state_named(text);
    if (state < 0 || state == QG_TQC_DEACTIVATED || state == QG_TQC_DEQUANTIZED)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "state"),
                            "'%s', expected a state of PPQ 0.6.6", text);
    *out = (qg_tqc_state)state;
    return QG_OK;
}

/* A hash as the text that keys `values`. */
static qg_status read_hash(reader *r, const qg_json *o, const char *key, uint32_t *out)
{
    int64_t hash;
    char text[24];
    QG_TRY(qg_json_int(r->ctx, o, key, &hash));
    int n = snprintf(text, sizeof text, "%lld", (long long)hash);
    if (qg_names_add(r->hashes, text, (size_t)n, out) != QG_OK)
        return qg_nomem(r->ctx);
    QG_TRY(qg_vec_room(r->ctx, r->g->arena, &r->of_hash, *out + (size_t)1));
    while (r->of_hash.n <= *out)
        r->of_hash.at[r->of_hash.n++] = NULL;
    return QG_OK;
}

/* The same record goes to every slot of the node that has this value. */
static qg_status add_slot(reader *r, const qg_json *o, qg_node *n, bool is_output,
                          uint32_t slot)
{
    qg_scheme s = { .axis = -1 };
    qg_tqc *t;
    uint32_t hash;
    char text[QG_ENDPOINT_TEXT], what[QG_ENDPOINT_TEXT + 8];
    qg_endpoint at = { n, slot, is_output };
    QG_TRY(read_scheme(r, o, &s));
    qg_ppq_guess(at, 0, &s);
    (void)snprintf(what, sizeof what, "import: %s", qg_endpoint_text(at, text));
    QG_TRY(qg_scheme_check(r->ctx, what, &s));
    QG_TRY(qg_quant_add(r->q, n, is_output, slot, &s, &t));
    QG_TRY(read_state(r, o, &t->state));
    QG_TRY(read_hash(r, o, "hash", &hash));
    r->of_hash.at[hash] = t; /* of equal ones the last: see is_hidden */
    return qg_vec_push(r->ctx, r->g->arena, &r->config, o);
}

static qg_status add_slots(reader *r, const qg_json *node, qg_node *n, bool is_output,
                           size_t *found)
{
    qg_value *const *v = is_output ? n->out : n->in;
    uint32_t count = is_output ? n->n_out : n->n_in - n->n_capture;
    for (uint32_t i = 0; i < count; i++) {
        const qg_json *o = v[i] ? qg_json_get(node, v[i]->name) : NULL;
        if (!o)
            continue;
        if (o->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_EPARSE, o, "is no object, expected one");
        QG_TRY(add_slot(r, o, n, is_output, i));
        ++*found;
    }
    return QG_OK;
}

/* In order of nodes and slots, whatever the order of the file. */
static qg_status read_configs(reader *r, const qg_json *root)
{
    const qg_json *list;
    size_t nodes = 0;
    QG_TRY(qg_json_member(r->ctx, root, "configs", QG_JSON_OBJECT, &list));
    for (size_t i = 0; i < r->g->node.n; i++) {
        qg_node *n = r->g->node.at[i];
        const qg_json *node = qg_json_get(list, n->name);
        size_t found = 0;
        if (!node)
            continue;
        if (node->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_EPARSE, node, "is no object, expected one");
        n->platform = QG_PLATFORM_QUANTIZED;
        QG_TRY(add_slots(r, node, n, false, &found));
        QG_TRY(add_slots(r, node, n, true, &found));
        if (found < node->count)
            return qg_json_fail(r->ctx, QG_EPARSE, node,
                                "describes %zu values, the node has %zu of them",
                                node->count, found);
        nodes++;
    }
    return nodes == list->count
               ? QG_OK
               : qg_json_fail(r->ctx, QG_EPARSE, list,
                              "describes %zu nodes, the model has %zu of them",
                              list->count, nodes);
}

/* --- values --- */

/* A number, or a list with one per channel. */
static qg_status read_list(reader *r, const qg_json *o, const char *key,
                           const qg_json **first, size_t *n)
{
    const qg_json *v = qg_json_get(o, key);
    if (!v)
        return qg_json_fail(r->ctx, QG_EPARSE, o, "has no %s, expected one", key);
    bool list = v->type == QG_JSON_ARRAY;
    *first = v->type == QG_JSON_NULL ? NULL : list ? v->item : v;
    *n = v->type == QG_JSON_NULL ? 0 : list ? v->count : 1;
    return QG_OK;
}

/* One zero point may stand for all channels. */
static qg_status read_param(reader *r, const qg_json *o, qg_tqc *t)
{
    const qg_json *scale, *zero;
    size_t n, zeros;
    QG_TRY(read_list(r, o, "scale", &scale, &n));
    QG_TRY(read_list(r, o, "zero_point", &zero, &zeros));
    if (n == 0)
        return QG_OK;
    if (n > UINT32_MAX || (zeros != n && zeros != 1))
        return qg_json_fail(r->ctx, QG_EPARSE, o, "has %zu zero points for %zu scales",
                            zeros, n);
    t->scale = QG_NEWN(r->g->arena, n, float);
    t->offset = QG_NEWN(r->g->arena, n, int32_t);
    if (!t->scale || !t->offset)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < n; i++) {
        double z;
        QG_TRY(qg_json_as_f32(r->ctx, &scale[i], &t->scale[i]));
        QG_TRY(qg_json_as_f64(r->ctx, &zero[zeros == n ? i : 0], &z));
        if (!(t->scale[i] > 0) || !isfinite(t->scale[i]) || z != rint(z) ||
            fabs(z) > INT32_MAX)
            return qg_json_fail(r->ctx, QG_EPARSE, o,
                                "entry %zu is no scale and zero point", i);
        t->offset[i] = (int32_t)z;
    }
    t->nparam = (uint32_t)n;
    return QG_OK;
}

/* A dominator that PPQ left out, since a later slot of its node has the same value: the
 * first record that names it takes its place and rounds. */
static qg_status adopt_leader(reader *r, qg_tqc *t)
{
    uint32_t lead;
    QG_TRY(read_hash(r, r->config.at[t->id], "dominator", &lead));
    if (r->of_hash.at[lead] || !qg_json_get(r->values, qg_names_text(r->hashes, lead)))
        return QG_OK;
    r->of_hash.at[lead] = t;
    t->state = qg_tqc_is_constant(t) ? QG_TQC_BAKED : QG_TQC_ACTIVATED;
    return QG_OK;
}

/* A root: its own parameters, and the axis that fits their number. */
static qg_status finish_root(reader *r, qg_tqc *t, uint32_t hash)
{
    const qg_json *value = qg_json_get(r->values, qg_names_text(r->hashes, hash));
    if (value && value->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, value, "is no object, expected one");
    if (value)
        QG_TRY(read_param(r, value, t));
    qg_ppq_guess(qg_tqc_endpoint(t), t->nparam, &t->scheme);
    return QG_OK;
}

/* Followers point straight at roots, as the file has them. */
static qg_status link_record(reader *r, qg_tqc *t)
{
    assert(t->id < r->config.n && t->up == t);
    const qg_json *o = r->config.at[t->id];
    uint32_t own, lead, above = 0;
    QG_TRY(read_hash(r, o, "hash", &own));
    QG_TRY(read_hash(r, o, "dominator", &lead));
    qg_tqc *root = r->of_hash.at[lead];
    if (own == lead || root == t)
        return finish_root(r, t, lead);
    if (root)
        QG_TRY(read_hash(r, r->config.at[root->id], "dominator", &above));
    if (!root || r->of_hash.at[above] != root)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "dominator"),
                            "names no record that leads itself");
    t->up = root;
    t->next = root->next;
    root->next = t;
    return QG_OK;
}

static qg_status read_all(reader *r, const qg_json *root)
{
    const char *backend = NULL;
    qg_backend *b = QG_NEW(r->g->arena, qg_backend);
    if (!b)
        return qg_nomem(r->ctx);
    if (root->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, root, "is no object, expected one");
    QG_TRY(qg_quant_new(r->g, b, &r->q));
    r->q->author = "import";
    QG_TRY(read_dispatchings(r, root, &backend));
    b->name = qg_arena_printf(r->g->arena, "imported from ppq-json %s",
                              backend ? backend : "FP32");
    if (!b->name)
        return qg_nomem(r->ctx);
    QG_TRY(qg_json_member(r->ctx, root, "values", QG_JSON_OBJECT, &r->values));
    QG_TRY(read_configs(r, root));
    assert(r->config.n == r->q->tqc.n);
    for (size_t i = 0; i < r->q->tqc.n; i++)
        QG_TRY(adopt_leader(r, r->q->tqc.at[i]));
    for (size_t i = r->q->tqc.n; i-- > 0;) /* rings come out in order of id */
        QG_TRY(link_record(r, r->q->tqc.at[i]));
    return qg_check_tqcs(r->ctx, r->q, QG_CHECK_ALL);
}

static qg_status read_tree(qg_graph *g, const qg_json *root, qg_quant **out)
{
    reader r = { .ctx = g->ctx, .g = g, .hashes = qg_names_new(g->ctx->alloc) };
    qg_status s = r.hashes ? read_all(&r, root) : qg_nomem(g->ctx);
    qg_names_free(r.hashes);
    if (s == QG_OK)
        *out = r.q;
    return s;
}

qg_status qg_ppq_json_read(qg_graph *g, const char *path, qg_quant **out)
{
    const qg_json *root;
    qg_arena *a = qg_arena_new(g->ctx->alloc);
    qg_status s =
        a ? qg_json_read(g->ctx, a, path, (size_t)1 << 31, &root) : qg_nomem(g->ctx);
    if (s == QG_OK)
        s = read_tree(g, root, out);
    qg_arena_free(a);
    return s;
}

qg_status qg_ppq_json_parse(qg_graph *g, const char *name, const char *bytes,
                            size_t size, qg_quant **out)
{
    const qg_json *root;
    qg_json_source from = { name, bytes, size };
    qg_arena *a = qg_arena_new(g->ctx->alloc);
    qg_status s = a ? qg_json_parse(g->ctx, a, &from, &root) : qg_nomem(g->ctx);
    if (s == QG_OK)
        s = read_tree(g, root, out);
    qg_arena_free(a);
    return s;
}

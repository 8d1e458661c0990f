/* quant_json_read.c -- the inverse of quant_json_write.c, for hostile files too.
 *
 * The contents are accepted only if they fit the model next to the file:
 * positions, names, ranges of every number, and links that end at a root.  The rules
 * of quant/tqc_check.h run over the result, so a well-formed file with wrong contents
 * is refused by a broken rule. */
#include <assert.h>
#include <math.h>

#include "engine/core/json.h"
#include "engine/snapshot/quant_json.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/tqc_check.h"

typedef struct reader {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_arena *arena; /* the graph's */
    qg_quant *quant;
    qg_backend *backend;
    qg_names *rules; /* id -> index into backend->rule */
    qg_snapshot_info *info;
} reader;

/* Text that the schema requires; copied to the graph's arena. */
static qg_status required_text(reader *r, const qg_json *o, const char *key,
                               const char **out)
{
    const char *text;
    QG_TRY(qg_json_text(r->ctx, o, key, &text));
    *out = qg_arena_strdup(r->arena, text);
    return *out ? QG_OK : qg_nomem(r->ctx);
}

/* Text or NULL for null and absent; copied to the graph's arena. */
static qg_status optional_text(reader *r, const qg_json *o, const char *key,
                               const char **out)
{
    QG_TRY(qg_json_as_object(r->ctx, o));
    const qg_json *v = qg_json_get(o, key);
    const char *text;
    if (!v || v->type == QG_JSON_NULL) {
        *out = NULL;
        return QG_OK;
    }
    QG_TRY(qg_json_as_text(r->ctx, v, &text));
    *out = qg_arena_strdup(r->arena, text);
    return *out ? QG_OK : qg_nomem(r->ctx);
}

/* Every integer of the file has limits. */
static qg_status ranged_int(reader *r, const qg_json *o, const char *key, int64_t low,
                            int64_t high, int64_t *out)
{
    int64_t x;
    QG_TRY(qg_json_int(r->ctx, o, key, &x));
    if (x < low || x > high)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, key),
                            "is %lld, expected %lld to %lld", (long long)x,
                            (long long)low, (long long)high);
    *out = x;
    return QG_OK;
}

/* --- floats --- */

static qg_status read_half(reader *r, const qg_json *v, qg_dtype *out)
{
    const char *text;
    QG_TRY(qg_json_as_text(r->ctx, v, &text));
    *out = strcmp(text, qg_dtype_name(QG_F16)) == 0    ? QG_F16
           : strcmp(text, qg_dtype_name(QG_BF16)) == 0 ? QG_BF16
                                                       : QG_NODTYPE;
    return *out ? QG_OK
                : qg_json_fail(r->ctx, QG_EPARSE, v,
                               "is '%s', expected float16 or bfloat16", text);
}

static qg_status read_interface(reader *r, const qg_json *floats, const char *key,
                                qg_value *const *value, size_t n)
{
    const qg_json *o;
    QG_TRY(qg_json_member(r->ctx, floats, key, QG_JSON_OBJECT, &o));
    for (size_t i = 0; i < o->count; i++) {
        size_t k = 0;
        while (k < n && strcmp(value[k]->name, o->item[i].key) != 0)
            k++;
        if (k == n || value[k]->type.dtype != QG_F32)
            return qg_json_fail(r->ctx, QG_EPARSE, &o->item[i],
                                "names no float32 value of the model's interface");
        QG_TRY(read_half(r, &o->item[i], &value[k]->file_dtype));
    }
    return QG_OK;
}

/* The marks of ir/float_type.h. */
static qg_status read_floats(reader *r, const qg_json *root)
{
    const qg_json *o = qg_json_get(root, "floats"), *nodes, *type;
    qg_graph *g = r->graph;
    if (!o)
        return QG_OK;
    QG_TRY(qg_json_member(r->ctx, root, "floats", QG_JSON_OBJECT, &o));
    QG_TRY(qg_json_member(r->ctx, o, "type", QG_JSON_TEXT, &type));
    QG_TRY(read_half(r, type, &g->float_type));
    QG_TRY(read_interface(r, o, "inputs", g->input.at, g->input.n));
    QG_TRY(read_interface(r, o, "outputs", g->output.at, g->output.n));
    QG_TRY(qg_json_member(r->ctx, o, "float32_nodes", QG_JSON_ARRAY, &nodes));
    for (size_t i = 0; i < nodes->count; i++) {
        const char *name;
        QG_TRY(qg_json_as_text(r->ctx, &nodes->item[i], &name));
        qg_node *n = qg_graph_node(g, name);
        if (!n)
            return qg_json_fail(r->ctx, QG_EPARSE, &nodes->item[i],
                                "names no node of the model");
        n->stays_float32 = true;
    }
    return QG_OK;
}

/* --- manifest --- */

/* why and source may be null: rules of --set have none. */
static qg_status read_origin(reader *r, const qg_json *o, qg_origin *out)
{
    int64_t line;
    QG_TRY(required_text(r, o, "id", &out->id));
    QG_TRY(optional_text(r, o, "file", &out->file));
    QG_TRY(optional_text(r, o, "why", &out->why));
    QG_TRY(optional_text(r, o, "source", &out->source));
    QG_TRY(ranged_int(r, o, "line", 0, INT32_MAX, &line));
    out->line = (uint32_t)line;
    return QG_OK;
}

/* TQCs name rules by id, which need not be unique across overrides. */
static qg_status add_rule(reader *r, const qg_origin *origin)
{
    uint32_t id;
    qg_rule rule = { .origin = *origin };
    if (qg_names_add(r->rules, origin->id, strlen(origin->id), &id) != QG_OK)
        return qg_nomem(r->ctx);
    if (id != r->backend->rule.n)
        return QG_OK; /* the same id again: refers to the first */
    return qg_vec_push(r->ctx, r->arena, &r->backend->rule, rule);
}

/* Kinds are those that put_origin() writes. */
static qg_status read_statement(reader *r, const qg_json *o)
{
    const char *kind;
    qg_origin origin;
    QG_TRY(qg_json_text(r->ctx, o, "kind", &kind));
    QG_TRY(read_origin(r, o, &origin));
    if (strcmp(kind, "rule") == 0)
        return add_rule(r, &origin);
    if (strcmp(kind, "fusion") == 0)
        return qg_vec_push(r->ctx, r->arena, &r->backend->fusion,
                           (qg_fusion){ .origin = origin });
    if (strcmp(kind, "sharing") == 0)
        return qg_vec_push(r->ctx, r->arena, &r->backend->sharing,
                           (qg_sharing){ .origin = origin });
    return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "kind"),
                        "is '%s', expected rule, fusion or sharing", kind);
}

/* Enough of a backend to explain decisions; it cannot quantize. */
static qg_status read_backend(reader *r, const qg_json *manifest)
{
    const qg_json *b, *rules;
    QG_TRY(qg_json_member(r->ctx, manifest, "backend", QG_JSON_OBJECT, &b));
    QG_TRY(required_text(r, b, "name", &r->backend->name));
    QG_TRY(optional_text(r, b, "profile", &r->backend->profile));
    QG_TRY(optional_text(r, b, "pipeline", &r->backend->pipeline));
    QG_TRY(optional_text(r, b, "placement", &r->backend->placement));
    QG_TRY(optional_text(r, b, "sha256", &r->info->manifest.backend_sha256));
    QG_TRY(qg_json_member(r->ctx, b, "rules", QG_JSON_ARRAY, &rules));
    for (size_t i = 0; i < rules->count; i++)
        QG_TRY(read_statement(r, &rules->item[i]));
    return QG_OK;
}

/* Names and values alternate, as in qg_manifest. */
static qg_status read_options(reader *r, const qg_json *manifest)
{
    const qg_json *o;
    QG_TRY(qg_json_member(r->ctx, manifest, "options", QG_JSON_OBJECT, &o));
    const char **option = QG_NEWN(r->arena, 2 * o->count, const char *);
    if (!option)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < o->count; i++) {
        option[2 * i] = qg_arena_strdup(r->arena, o->item[i].key);
        if (!option[2 * i])
            return qg_nomem(r->ctx);
        QG_TRY(required_text(r, o, o->item[i].key, &option[2 * i + 1]));
    }
    r->info->manifest.option = option;
    r->info->manifest.n_option = o->count;
    return QG_OK;
}

static qg_status read_manifest(reader *r, const qg_json *root)
{
    qg_manifest *m = &r->info->manifest;
    const qg_json *o, *part;
    int64_t samples;
    QG_TRY(qg_json_member(r->ctx, root, "manifest", QG_JSON_OBJECT, &o));
    QG_TRY(optional_text(r, o, "tool", &m->tool));
    QG_TRY(optional_text(r, o, "kernels", &m->kernels));
    QG_TRY(qg_json_member(r->ctx, o, "model", QG_JSON_OBJECT, &part));
    QG_TRY(optional_text(r, part, "file", &m->model_file));
    QG_TRY(optional_text(r, part, "sha256", &m->model_sha256));
    QG_TRY(optional_text(r, part, "written_sha256", &m->snapshot_sha256));
    QG_TRY(qg_json_member(r->ctx, o, "data", QG_JSON_OBJECT, &part));
    QG_TRY(optional_text(r, part, "source", &m->data));
    QG_TRY(optional_text(r, part, "sha256", &m->data_sha256));
    QG_TRY(ranged_int(r, part, "samples", 0, INT64_C(1) << 53, &samples));
    m->samples = (size_t)samples;
    QG_TRY(optional_text(r, o, "not_finite", &m->not_finite));
    QG_TRY(read_backend(r, o));
    return read_options(r, o);
}

/* --- nodes --- */

/* Position and name must agree: a snapshot of another model must not be applied. */
static qg_status read_node(reader *r, const qg_json *o, qg_node *n)
{
    const char *name, *where;
    QG_TRY(qg_json_text(r->ctx, o, "name", &name));
    if (strcmp(name, n->name) != 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "name"),
                            "is '%s', expected '%s' as in the model", name, n->name);
    QG_TRY(qg_json_text(r->ctx, o, "platform", &where));
    unsigned k = QG_PLATFORM_NONE;
    while (k <= QG_PLATFORM_SOI &&
           strcmp(qg_platform_name((enum qg_platform)k), where) != 0)
        k++;
    if (k > QG_PLATFORM_SOI)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "platform"), "is '%s'",
                            where);
    n->platform = (enum qg_platform)k;
    if (qg_json_get(o, "unnamed")) {
        int64_t unnamed;
        QG_TRY(ranged_int(r, o, "unnamed", 1, UINT32_MAX, &unnamed));
        n->file_unnamed = (uint32_t)unnamed;
    }
    return optional_text(r, o, "reason", &n->reason);
}

static qg_status read_nodes(reader *r, const qg_json *root)
{
    const qg_json *nodes;
    QG_TRY(qg_json_member(r->ctx, root, "nodes", QG_JSON_ARRAY, &nodes));
    if (nodes->count != r->graph->node.n)
        return qg_json_fail(r->ctx, QG_EPARSE, nodes,
                            "has %zu entries, the model has %zu nodes", nodes->count,
                            r->graph->node.n);
    for (size_t i = 0; i < nodes->count; i++)
        QG_TRY(read_node(r, &nodes->item[i], r->graph->node.at[i]));
    return QG_OK;
}

/* --- TQCs --- */

/* Words to bits; which go together is checked with the whole scheme. */
static qg_status read_policy(reader *r, const qg_json *o, qg_scheme *s)
{
    const qg_json *a;
    QG_TRY(qg_json_member(r->ctx, o, "policy", QG_JSON_ARRAY, &a));
    for (size_t i = 0; i < a->count; i++) {
        const char *text;
        QG_TRY(qg_json_as_text(r->ctx, &a->item[i], &text));
        uint32_t bit = qg_policy_bit_named(text);
        if (!bit)
            return qg_json_fail(r->ctx, QG_EPARSE, &a->item[i],
                                "'%s' is not a policy property", text);
        s->policy = (uint16_t)(s->policy | bit);
    }
    return QG_OK;
}

static qg_status read_variant(reader *r, const qg_json *o, qg_scheme *s)
{
    const qg_json *a;
    if (!qg_json_get(o, "variant"))
        return QG_OK;
    QG_TRY(qg_json_member(r->ctx, o, "variant", QG_JSON_ARRAY, &a));
    for (size_t i = 0; i < a->count; i++) {
        const char *text;
        QG_TRY(qg_json_as_text(r->ctx, &a->item[i], &text));
        uint32_t bit = qg_float_variant_named(text);
        if (!bit)
            return qg_json_fail(r->ctx, QG_EPARSE, &a->item[i],
                                "'%s' is not a variant of a grid", text);
        s->variant = (uint8_t)(s->variant | bit);
    }
    return QG_OK;
}

/* Absent: keep. */
static qg_status read_nan(reader *r, const qg_json *o, qg_scheme *s)
{
    const char *text;
    if (!qg_json_get(o, "nan"))
        return QG_OK;
    QG_TRY(qg_json_text(r->ctx, o, "nan", &text));
    int rule = qg_nan_named(text);
    if (rule < 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "nan"),
                            "is '%s', expected keep, lowest, zero or highest", text);
    s->nan = (uint8_t)rule;
    return QG_OK;
}

/* A number, or `absent` for null. */
static qg_status int_or_null(reader *r, const qg_json *o, const char *key,
                             int64_t absent, int64_t *out)
{
    const qg_json *v = qg_json_get(o, key);
    if (v && v->type == QG_JSON_NULL) {
        *out = absent;
        return QG_OK;
    }
    return ranged_int(r, o, key, 0, INT16_MAX, out);
}

/* qg_scheme_check has the last word. */
static qg_status read_scheme(reader *r, const qg_json *o, qg_scheme *s)
{
    const qg_json *range;
    const char *rounding;
    int64_t bits, exponent, axis, block;
    QG_TRY(read_policy(r, o, s));
    QG_TRY(read_variant(r, o, s));
    QG_TRY(read_nan(r, o, s));
    QG_TRY(ranged_int(r, o, "bits", 2, 32, &bits));
    QG_TRY(ranged_int(r, o, "exponent_bits", 0, 8, &exponent));
    QG_TRY(qg_json_member(r->ctx, o, "range", QG_JSON_ARRAY, &range));
    if (range->count != 2)
        return qg_json_fail(r->ctx, QG_EPARSE, range, "has %zu numbers, expected 2",
                            range->count);
    QG_TRY(qg_json_as_int(r->ctx, &range->item[0], &s->qmin));
    QG_TRY(qg_json_as_int(r->ctx, &range->item[1], &s->qmax));
    QG_TRY(qg_json_text(r->ctx, o, "rounding", &rounding));
    int mode = qg_rounding_named(rounding);
    if (mode < 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "rounding"), "is '%s'",
                            rounding);
    QG_TRY(int_or_null(r, o, "axis", -1, &axis));
    QG_TRY(int_or_null(r, o, "block", 0, &block));
    s->bits = (uint8_t)bits;
    s->exponent_bits = (uint8_t)exponent;
    s->rounding = (uint8_t)mode;
    s->axis = (int16_t)axis;
    s->block = (int32_t)block;
    return qg_scheme_check(r->ctx, "read quant.json", s);
}

/* The endpoint that an entry names: node by name, slot "in0" or "out0". */
static qg_status read_endpoint(reader *r, const qg_json *o, qg_node **node,
                               qg_endpoint *at)
{
    const char *name, *text;
    int64_t k;
    QG_TRY(qg_json_text(r->ctx, o, "node", &name));
    QG_TRY(qg_json_text(r->ctx, o, "slot", &text));
    qg_node *n = qg_graph_node(r->graph, name);
    if (!n)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "node"),
                            "'%s' is not in the model", name);
    at->node = *node = n;
    bool legal = qg_slot_parse(text, &at->is_output, &k) && k < UINT32_MAX;
    at->slot = legal ? (uint32_t)k : 0;
    if (!legal || !qg_endpoint_value(*at))
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "slot"),
                            "'%s' is not a slot of node '%s'", text, name);
    if (qg_endpoint_tqc(*at))
        return qg_json_fail(r->ctx, QG_EPARSE, o, "describes %s.%s a second time", name,
                            text);
    return QG_OK;
}

/* By name: numbers of states are nobody's business outside. */
static qg_status read_state(reader *r, const qg_json *o, const char *key,
                            qg_tqc_state *out)
{
    const char *text;
    QG_TRY(qg_json_text(r->ctx, o, key, &text));
    int state = qg_tqc_state_named(text);
    if (state < 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, key),
                            "'%s' is not a state", text);
    *out = (qg_tqc_state)state;
    return QG_OK;
}

/* The name may be unknown to this build: it is shown, not run. */
static qg_status read_observer(reader *r, const qg_json *o, qg_observer_setting *out)
{
    QG_TRY(optional_text(r, o, "observer", &out->name));
    const qg_json *told = qg_json_get(o, "observer_parameters");
    if (told)
        QG_TRY(qg_json_as_object(r->ctx, told));
    for (int p = 0; told && p < QG_NOBSERVER_PARAM; p++) {
        const char *key = qg_observer_param_name((qg_observer_param)p);
        if (qg_json_get(told, key))
            QG_TRY(qg_json_f64(r->ctx, told, key, &out->value[p]));
    }
    return QG_OK;
}

/* Unlike an observer it is run: the context must have it. */
static qg_status read_quantizer(reader *r, const qg_json *o, qg_tqc *t)
{
    char at[QG_ENDPOINT_TEXT];
    const char *name = NULL;
    if (!qg_json_get(o, "quantizer"))
        return QG_OK;
    QG_TRY(qg_json_text(r->ctx, o, "quantizer", &name));
    return qg_quantizer_named(r->ctx, qg_tqc_text(t, at), name, &t->quantizer);
}

/* Own parameters of a root; those of a follower are its root's and are skipped. */
static qg_status read_param(reader *r, const qg_json *o, qg_tqc *t)
{
    const qg_json *scale = qg_json_get(o, "scale"), *offset = qg_json_get(o, "offset");
    if (!scale || scale->type == QG_JSON_NULL)
        return QG_OK;
    QG_TRY(qg_json_member(r->ctx, o, "scale", QG_JSON_ARRAY, &scale));
    QG_TRY(qg_json_member(r->ctx, o, "offset", QG_JSON_ARRAY, &offset));
    if (scale->count == 0 || offset->count != scale->count)
        return qg_json_fail(r->ctx, QG_EPARSE, offset, "has %zu entries, scale has %zu",
                            offset->count, scale->count);
    t->scale = QG_NEWN(r->arena, scale->count, float);
    t->offset = QG_NEWN(r->arena, scale->count, int32_t);
    if (!t->scale || !t->offset)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < scale->count; i++) {
        int64_t z;
        QG_TRY(qg_json_as_f32(r->ctx, &scale->item[i], &t->scale[i]));
        QG_TRY(qg_json_as_int(r->ctx, &offset->item[i], &z));
        if (!(t->scale[i] > 0) || !isfinite(t->scale[i]) || z < INT32_MIN ||
            z > INT32_MAX)
            return qg_json_fail(r->ctx, QG_EPARSE, scale,
                                "entry %zu is not a scale and offset", i);
        t->offset[i] = (int32_t)z;
    }
    t->nparam = (uint32_t)scale->count;
    return QG_OK;
}

/* null means that the defaults decided. */
static qg_status read_rule(reader *r, const qg_json *o, qg_tqc *t)
{
    const char *id;
    QG_TRY(optional_text(r, o, "rule", &id));
    t->rule = id ? qg_names_find(r->rules, id, strlen(id)) : QG_NONE;
    if (id && t->rule == QG_NONE)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "rule"),
                            "'%s' is not among the backend's rules", id);
    return QG_OK;
}

/* Fields are written as they are, without the journal: it comes from the file. */
static qg_status read_tqc(reader *r, const qg_json *o, size_t index)
{
    qg_node *node;
    qg_endpoint at;
    int64_t id;
    const char *visibility;
    qg_scheme scheme = { .axis = -1 };
    qg_tqc *t;
    QG_TRY(ranged_int(r, o, "id", (int64_t)index, (int64_t)index, &id));
    QG_TRY(read_endpoint(r, o, &node, &at));
    QG_TRY(read_scheme(r, o, &scheme));
    QG_TRY(qg_quant_add(r->quant, node, at.is_output, at.slot, &scheme, &t));
    QG_TRY(read_state(r, o, "state", &t->state));
    if (qg_json_get(o, "returns_to"))
        QG_TRY(read_state(r, o, "returns_to", &t->saved));
    QG_TRY(read_observer(r, o, &t->observer));
    QG_TRY(read_quantizer(r, o, t));
    QG_TRY(read_param(r, o, t));
    QG_TRY(qg_json_text(r->ctx, o, "visibility", &visibility));
    int v = qg_visibility_named(visibility);
    if (v < 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "visibility"), "is '%s'",
                            visibility);
    t->visibility = (qg_visibility)v;
    return read_rule(r, o, t);
}

/* Lenders may come before or after the endpoints that derive from them: all have been
 * read by now. */
static qg_status read_lenders(reader *r, const qg_json *from, qg_tqc *t)
{
    if (from->count != 2)
        return qg_json_fail(r->ctx, QG_EPARSE, from, "has %zu ids, expected 2",
                            from->count);
    t->derive = QG_DERIVE_BIAS;
    for (size_t i = 0; i < from->count; i++) {
        int64_t id;
        QG_TRY(qg_json_as_int(r->ctx, &from->item[i], &id));
        if (id < 0 || (size_t)id >= r->quant->tqc.n)
            return qg_json_fail(r->ctx, QG_EPARSE, from, "names TQC %lld",
                                (long long)id);
        t->lender[i] = r->quant->tqc.at[id];
    }
    return QG_OK;
}

/* Followers point straight at their roots; a root must point to itself. */
static qg_status link_tqc(reader *r, const qg_json *tqcs, qg_tqc *t)
{
    const qg_json *o = &tqcs->item[t->id], *from;
    int64_t id, self;
    QG_TRY(ranged_int(r, o, "dominator", 0, (int64_t)r->quant->tqc.n - 1, &id));
    QG_TRY(qg_json_int(r->ctx, &tqcs->item[id], "dominator", &self));
    if (self != id)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(o, "dominator"),
                            "is %lld, which is not a root", (long long)id);
    if (qg_json_get(o, "derived_from")) {
        QG_TRY(qg_json_member(r->ctx, o, "derived_from", QG_JSON_ARRAY, &from));
        QG_TRY(read_lenders(r, from, t));
    }
    qg_tqc *root = r->quant->tqc.at[id];
    if (root == t)
        return QG_OK;
    t->up = root;
    t->next = root->next;
    root->next = t;
    t->nparam = 0;
    t->scale = NULL;
    t->offset = NULL;
    return QG_OK;
}

/* First all records, then all links, since groups refer in both directions. */
static qg_status read_tqcs(reader *r, const qg_json *root)
{
    const qg_json *tqcs;
    QG_TRY(qg_json_member(r->ctx, root, "tqcs", QG_JSON_ARRAY, &tqcs));
    for (size_t i = 0; i < tqcs->count; i++)
        QG_TRY(read_tqc(r, &tqcs->item[i], i));
    for (size_t i = tqcs->count; i-- > 0;) /* so that rings come out in order of id */
        QG_TRY(link_tqc(r, tqcs, r->quant->tqc.at[i]));
    return QG_OK;
}

/* --- journal, coverage --- */

/* "none" for null, as qg_journal_numbers has it: the texts of an entry are never
 * NULL. */
static qg_status journal_text(reader *r, const qg_json *o, const char *key,
                              const char **out)
{
    const qg_json *v = qg_json_get(o, key);
    if (!v || v->type != QG_JSON_NULL)
        return required_text(r, o, key, out);
    *out = "none";
    return QG_OK;
}

/* Replaces the entries written while restoring. */
static qg_status read_journal(reader *r, const qg_json *root)
{
    const qg_json *a;
    qg_quant *q = r->quant;
    QG_TRY(qg_json_member(r->ctx, root, "journal", QG_JSON_ARRAY, &a));
    q->journal.n = 0;
    for (size_t i = 0; i < a->count; i++) {
        const qg_json *o = &a->item[i];
        qg_journal_entry e = { .seq = (uint32_t)i };
        int64_t id;
        QG_TRY(ranged_int(r, o, "tqc", 0, (int64_t)q->tqc.n - 1, &id));
        e.tqc = (uint32_t)id;
        QG_TRY(required_text(r, o, "field", &e.field));
        QG_TRY(journal_text(r, o, "old", &e.old_value));
        QG_TRY(journal_text(r, o, "new", &e.new_value));
        QG_TRY(required_text(r, o, "by", &e.by));
        QG_TRY(qg_vec_push(r->ctx, r->arena, &q->journal, e));
    }
    return QG_OK;
}

/* Texts only; nothing refers to them by id. */
static qg_status read_misses(reader *r, const qg_json *o, qg_coverage_row *row)
{
    const qg_json *a;
    QG_TRY(qg_json_member(r->ctx, o, "near_misses", QG_JSON_ARRAY, &a));
    qg_coverage_miss *miss = QG_NEWN(r->arena, a->count, qg_coverage_miss);
    if (!miss)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < a->count; i++) {
        QG_TRY(required_text(r, &a->item[i], "node", &miss[i].node));
        QG_TRY(required_text(r, &a->item[i], "condition", &miss[i].condition));
    }
    row->miss = miss;
    row->n_miss = a->count;
    return QG_OK;
}

static qg_status read_coverage(reader *r, const qg_json *root)
{
    const qg_json *a;
    QG_TRY(qg_json_member(r->ctx, root, "coverage", QG_JSON_ARRAY, &a));
    qg_coverage_row *row = QG_NEWN(r->arena, a->count, qg_coverage_row);
    if (!row)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < a->count; i++) {
        int64_t matched;
        QG_TRY(required_text(r, &a->item[i], "pass", &row[i].pass));
        QG_TRY(required_text(r, &a->item[i], "pattern", &row[i].pattern));
        QG_TRY(ranged_int(r, &a->item[i], "matched", 0, UINT32_MAX, &matched));
        row[i].matched = (uint32_t)matched;
        QG_TRY(read_misses(r, &a->item[i], &row[i]));
    }
    r->info->coverage = row;
    r->info->n_coverage = a->count;
    return QG_OK;
}

/* In the order of the file, which is the order of dependence. */
static qg_status read_all(reader *r, const qg_json *root)
{
    assert(r->graph && r->backend && r->rules);
    const char *format;
    QG_TRY(qg_json_text(r->ctx, root, "format", &format));
    if (strcmp(format, "quantgraph/1") != 0)
        return qg_json_fail(r->ctx, QG_EPARSE, qg_json_get(root, "format"),
                            "is '%s', expected 'quantgraph/1'", format);
    QG_TRY(qg_quant_new(r->graph, r->backend, &r->quant));
    r->quant->author = "load";
    QG_TRY(read_manifest(r, root));
    QG_TRY(read_nodes(r, root));
    QG_TRY(read_floats(r, root));
    QG_TRY(read_tqcs(r, root));
    QG_TRY(qg_check_tqcs(r->ctx, r->quant, UINT32_MAX));
    QG_TRY(read_journal(r, root));
    return read_coverage(r, root);
}

/* A file when `from` has no bytes. */
static qg_status read_source(qg_graph *g, const qg_json_source *from, qg_quant **out,
                             qg_snapshot_info *info)
{
    qg_ctx *ctx = g->ctx;
    const qg_json *root;
    qg_snapshot_info got = { 0 };
    qg_arena *text = qg_arena_new(ctx->alloc);
    reader r = { .ctx = ctx,
                 .graph = g,
                 .arena = g->arena,
                 .info = &got,
                 .backend = QG_NEW(g->arena, qg_backend),
                 .rules = qg_names_new(ctx->alloc) };
    qg_status s = text && r.backend && r.rules ? QG_OK : qg_nomem(ctx);
    if (s == QG_OK)
        s = from->bytes ? qg_json_parse(ctx, text, from, &root)
                        : qg_json_read(ctx, text, from->name, (size_t)1 << 31, &root);
    if (s == QG_OK)
        s = read_all(&r, root);
    qg_names_free(r.rules);
    qg_arena_free(text);
    if (s != QG_OK)
        return s;
    *out = r.quant;
    *info = got;
    return QG_OK;
}

qg_status qg_quant_json_read(qg_graph *g, const char *path, qg_quant **out,
                             qg_snapshot_info *info)
{
    return read_source(g, &(qg_json_source){ .name = path }, out, info);
}

qg_status qg_quant_json_parse(qg_graph *g, const qg_json_source *from, qg_quant **out,
                              qg_snapshot_info *info)
{
    assert(from->bytes);
    return read_source(g, from, out, info);
}

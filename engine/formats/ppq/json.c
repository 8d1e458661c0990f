#include "engine/formats/ppq/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/json.h"
#include "engine/formats/grid_record.h"
#include "engine/quant/tqc_check.h"

/* Properties of a policy as PPQ writes them, in its order. */
static const struct {
    const char *name;
    uint16_t bit; /* of qg_policy_bit */
} properties[] = {
    {"PER_TENSOR",    QG_PER_TENSOR },
    { "PER_CHANNEL",  QG_PER_CHANNEL},
    { "LINEAR",       QG_LINEAR     },
    { "FLOATING",     QG_FLOATING   },
    { "SYMMETRICAL",  QG_SYMMETRIC  },
    { "ASYMMETRICAL", QG_ASYMMETRIC },
    { "POWER_OF_2",   QG_POWER_OF_2 },
    { "DYNAMIC",      QG_DYNAMIC    },
};
/* PPQ's name of FLOATING's bit before it had a use, in files without DYNAMIC; it never
 * had an effect. */
static const char exponential[] = "EXPONENTIAL";
enum { N_PROPERTY = sizeof properties / sizeof properties[0] };

static const int64_t e4m3_largest = 448;

/* Defaults for fields missing in the file, for an endpoint whose policy, bits and range
 * are known: half-even; the axis of output channels of weights, else 1 (0 for vectors),
 * else the first axis with `count` indices; four exponent bits when the range is that
 * of E4M3, else five.  count 0: not known. */
static void guess_scheme(qg_endpoint at, size_t count, qg_scheme *s)
{
    s->rounding = QG_ROUND_HALF_EVEN;
    s->axis = s->policy & QG_PER_CHANNEL ? qg_guess_axis(at, count) : -1;
    s->exponent_bits = 0;
    if (s->policy & QG_FLOATING)
        s->exponent_bits = s->qmax == e4m3_largest ? 4 : 5;
}

/* Platforms that PPQ does not call after their type. */
static const struct {
    const char *backend, *platform;
} irregular[] = {
    {"onnxruntime-int8", "ONNXRUNTIME"}
};

const char *qg_ppq_platform(qg_arena *a, const char *backend)
{
    for (size_t i = 0; i < sizeof irregular / sizeof irregular[0]; i++)
        if (strcmp(irregular[i].backend, backend) == 0)
            return irregular[i].platform;
    static const char prefix[] = "ppq-";
    size_t skip =
        strncmp(backend, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    char *name = qg_arena_strdup(a, backend + skip);
    for (char *p = name; p && *p; p++)
        *p = (char)(*p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    return name;
}

/* --- details missing in the file --- */

/* States that PPQ has; the others are FP32 there. */
static qg_tqc_state state_in_ppq(qg_tqc_state s)
{
    return s == QG_TQC_SOI || s == QG_TQC_DEACTIVATED || s == QG_TQC_DEQUANTIZED
               ? QG_TQC_FP32
               : s;
}

/* Wrong assumptions that a reader of the file will make. */
static qg_status lose_guess(qg_export *e, const qg_tqc *t)
{
    qg_scheme guess = t->scheme;
    if (state_in_ppq(t->state) == QG_TQC_FP32)
        return QG_OK;
    guess_scheme(qg_tqc_endpoint(t), qg_tqc_param(t).n, &guess);
    if (guess.axis != t->scheme.axis) {
        QG_TRY(qg_export_lose_result(e, QG_SAYS_PER_CHANNEL, t,
                                     "axis %d, read back as %d", t->scheme.axis,
                                     guess.axis)); /* constants too: they are floats */
    }
    if (guess.exponent_bits != t->scheme.exponent_bits || t->scheme.variant)
        QG_TRY(qg_export_lose(e, QG_SAYS_FLOATING, t,
                              "%u exponent bits, read back as %u",
                              t->scheme.exponent_bits, guess.exponent_bits));
    return QG_OK;
}

/* PPQ keys by value: of two slots with one value the last record is kept, and a reader
 * gives it to both. */
static bool is_hidden(const qg_tqc *t)
{
    const qg_node *n = t->node;
    const qg_value *v = qg_tqc_value(t);
    uint32_t count = t->is_output ? n->n_out : n->n_in;
    qg_endpoint at = qg_tqc_endpoint(t);
    for (at.slot++; at.slot < count; at.slot++)
        if (qg_endpoint_value(at) == v && qg_endpoint_tqc(at))
            return true;
    return false;
}

static qg_status lose_slots(qg_export *e, const qg_tqc *t)
{
    const qg_node *n = t->node;
    if (is_hidden(t))
        return qg_export_lose(e, QG_SAYS_ENDPOINT, t,
                              "another slot of the node has the same value");
    for (uint32_t i = 0; !t->is_output && i < n->n_in; i++)
        if (n->in[i] == n->in[t->slot] && !qg_input_tqc(n, i))
            return qg_export_lose(
                e, QG_SAYS_ENDPOINT, t,
                "in%u has the same value and is read back as this record", i);
    return QG_OK;
}

static qg_status build(qg_export *e)
{
    for (size_t i = 0; i < e->quant->tqc.n; i++) {
        QG_TRY(lose_guess(e, e->quant->tqc.at[i]));
        QG_TRY(lose_slots(e, e->quant->tqc.at[i]));
    }
    return QG_OK;
}

/* --- writing --- */

/* All eight, true or false, in PPQ's order. */
static void put_policy(qg_json_writer *w, uint16_t policy)
{
    qg_json_put_object(w, "policy");
    for (size_t i = 0; i < N_PROPERTY; i++)
        qg_json_put_bool(w, properties[i].name, (policy & properties[i].bit) != 0);
    qg_json_put_end(w);
}

/* The fields PPQ keeps of a TQC, under the name of its value. */
static void put_config(qg_json_writer *w, const qg_tqc *t)
{
    const qg_scheme *s = &t->scheme;
    qg_json_put_object(w, qg_tqc_value(t)->name);
    qg_json_put_int(w, "bit_width", s->bits);
    put_policy(w, s->policy);
    qg_json_put_text(w, "state", qg_tqc_state_name(state_in_ppq(t->state)));
    qg_json_put_int(w, "quant_min", s->qmin);
    qg_json_put_int(w, "quant_max", s->qmax);
    qg_json_put_int(w, "hash", t->id);
    qg_json_put_int(w, "dominator", qg_tqc_root(t)->id);
    qg_json_put_end(w);
}

/* Nodes that are quantized, as PPQ has them; others have no records. */
static void put_configs(qg_json_writer *w, const qg_graph *g)
{
    qg_json_put_object(w, "configs");
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (n->platform != QG_PLATFORM_QUANTIZED)
            continue;
        qg_json_put_object(w, n->name);
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
            const qg_tqc *t = qg_node_tqc(n, k);
            if (t && !is_hidden(t))
                put_config(w, t);
        }
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

/* Every node, quantized or not. */
static void put_dispatchings(qg_json_writer *w, const qg_graph *g, const char *platform)
{
    qg_json_put_object(w, "dispatchings");
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        qg_json_put_text(w, n->name,
                         n->platform == QG_PLATFORM_QUANTIZED ? platform
                         : n->platform == QG_PLATFORM_SOI     ? "SOI"
                                                              : "FP32");
    }
    qg_json_put_end(w);
}

/* Numbers per tensor, lists per channel; zero points are floats in PPQ. */
static void put_value(qg_json_writer *w, const char *key, const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    bool list = (t->scheme.policy & QG_PER_TENSOR) == 0;
    qg_json_put_object(w, key);
    if (p.n == 0)
        qg_json_put_null(w, "scale");
    if (list && p.n)
        qg_json_put_array(w, "scale");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_f32(w, list ? NULL : "scale", p.scale[i]);
    if (list && p.n)
        qg_json_put_end(w);
    if (p.n == 0)
        qg_json_put_null(w, "zero_point");
    if (list && p.n)
        qg_json_put_array(w, "zero_point");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_f32(w, list ? NULL : "zero_point",
                        p.offset ? (float)p.offset[i] : 0);
    if (list && p.n)
        qg_json_put_end(w);
    qg_json_put_end(w);
}

/* Roots only: followers are found through `dominator`. */
static void put_values(qg_json_writer *w, const qg_quant *q)
{
    char key[16];
    qg_json_put_object(w, "values");
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        if (qg_tqc_root(t) != t || state_in_ppq(t->state) == QG_TQC_FP32)
            continue;
        (void)snprintf(key, sizeof key, "%" PRIu32, t->id);
        put_value(w, key, t);
    }
    qg_json_put_end(w);
}

static qg_status write_json(qg_export *e, FILE *stream)
{
    qg_json_writer *w = QG_NEW(e->arena, qg_json_writer);
    const qg_backend *b = e->quant->backend;
    const char *platform = qg_ppq_platform(e->arena, b && b->name ? b->name : "none");
    if (!w || !platform)
        return qg_nomem(e->ctx);
    qg_json_begin(w, e->ctx, stream);
    qg_json_put_object(w, NULL);
    put_configs(w, e->quant->graph);
    put_dispatchings(w, e->quant->graph, platform);
    put_values(w, e->quant);
    qg_json_put_end(w);
    return qg_json_done(w);
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, write_json); }

/* --- reading, of hostile files too ---
 *
 * The contents are accepted only if they fit the model; the verifier checks the
 * result. */

typedef struct reader {
    qg_ctx *ctx;
    qg_graph *g;
    qg_quant *q;
    qg_names *hashes;               /* "123" -> index into of_hash */
    QG_VEC(qg_tqc *) of_hash;       /* the first record with that hash */
    QG_VEC(const qg_json *) config; /* [TQCs] where each was read */
    const qg_json *values;
} reader;

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
            return qg_json_fail(
                r->ctx, QG_EPARSE, v,
                "the model has no such node, expected the model of this file");
        enum qg_platform p = platform_of(text);
        bool quantized = p == QG_PLATFORM_QUANTIZED;
        n->platform = quantized && !qg_json_get(configs, v->key) ? QG_PLATFORM_FP32 : p;
        n->reason = "import: platform of the file";
        if (quantized && !*backend)
            *backend = text;
    }
    return QG_OK;
}

/* --- reading: configs --- */

/* All eight must be there; which go together is checked with the scheme. */
static qg_status read_policy(reader *r, const qg_json *o, qg_scheme *s)
{
    const qg_json *policy;
    QG_TRY(qg_json_member(r->ctx, o, "policy", QG_JSON_OBJECT, &policy));
    const qg_json *old = qg_json_get(policy, exponential);
    bool broken = false;
    if (old)
        QG_TRY(qg_json_bool(r->ctx, policy, exponential, &broken));
    if (broken)
        return qg_json_fail(r->ctx, QG_EPARSE, old,
                            "is true, expected false: PPQ declares this policy and "
                            "does not implement it");
    for (size_t i = 0; i < N_PROPERTY; i++) {
        bool on = false;
        bool newer = properties[i].bit & (QG_FLOATING | QG_DYNAMIC);
        if (!old || !newer || qg_json_get(policy, properties[i].name))
            QG_TRY(qg_json_bool(r->ctx, policy, properties[i].name, &on));
        if (on)
            s->policy = (uint16_t)(s->policy | properties[i].bit);
    }
    return QG_OK;
}

/* PPQ's biases of 30 bits have limits up to +-2^30 (quirk ppq-bias-range-inclusive). */
static bool is_wide_bias(const qg_scheme *s)
{
    const int64_t half = INT64_C(1) << 29;
    return s->bits == 30 && !(s->policy & QG_FLOATING) && s->qmin >= -2 * half &&
           s->qmax <= 2 * half && (s->qmin < -half || s->qmax >= half);
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
    QG_TRY(qg_json_int(r->ctx, o, "quant_max", &s->qmax));
    if (is_wide_bias(s))
        s->variant |= QG_RANGE_WIDE;
    return QG_OK;
}

/* States unknown to this version are refused, not guessed. */
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
    guess_scheme(at, 0, &s);
    (void)snprintf(what, sizeof what, "import: %s", qg_endpoint_text(at, text));
    QG_TRY(qg_scheme_check(r->ctx, what, &s));
    QG_TRY(qg_quant_add(r->q, n, is_output, slot, &s, &t));
    QG_TRY(read_state(r, o, &t->state));
    QG_TRY(read_hash(r, o, "hash", &hash));
    r->of_hash.at[hash] = t; /* of equal ones the last: see is_hidden */
    return qg_vec_push(r->ctx, r->g->arena, &r->config, o);
}

static qg_status add_slots(reader *r, const qg_json *node, qg_node *n, bool is_output)
{
    qg_value *const *v = is_output ? n->out : n->in;
    uint32_t count = is_output ? n->n_out : n->n_in - n->n_capture;
    for (uint32_t i = 0; i < count; i++) {
        const qg_json *o = v[i] ? qg_json_get(node, v[i]->name) : NULL;
        if (!o)
            continue;
        if (o->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_EPARSE, o,
                                "is not an object, expected an object");
        QG_TRY(add_slot(r, o, n, is_output, i));
    }
    return QG_OK;
}

static bool has_value(const qg_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_in - n->n_capture; i++)
        if (n->in[i] && strcmp(n->in[i]->name, name) == 0)
            return true;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && strcmp(n->out[i]->name, name) == 0)
            return true;
    return false;
}

/* Whether the node has every value that the file describes there. */
static qg_status check_values(reader *r, const qg_json *node, const qg_node *n)
{
    size_t found = 0, most = (size_t)n->n_in + n->n_out;
    const char *strange = "";
    for (size_t i = 0; i < node->count && i <= most; i++) {
        bool known = has_value(n, node->item[i].key);
        found += known;
        strange = known ? strange : node->item[i].key;
    }
    return found == node->count
               ? QG_OK
               : qg_json_fail(r->ctx, QG_EPARSE, node,
                              "describes %zu values, the node has %zu of them and not "
                              "'%.60s', expected the model of this file",
                              node->count, found, strange);
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
        if (!node)
            continue;
        if (node->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_EPARSE, node,
                                "is not an object, expected an object");
        n->platform = QG_PLATFORM_QUANTIZED;
        QG_TRY(check_values(r, node, n));
        QG_TRY(add_slots(r, node, n, false));
        QG_TRY(add_slots(r, node, n, true));
        nodes++;
    }
    const char *strange = "";
    for (size_t i = 0; i < list->count && nodes < list->count; i++)
        if (!qg_graph_node(r->g, list->item[i].key))
            strange = list->item[i].key;
    return nodes == list->count
               ? QG_OK
               : qg_json_fail(r->ctx, QG_EPARSE, list,
                              "describes %zu nodes, the model has %zu of them and not "
                              "'%.60s', expected the model of this file",
                              list->count, nodes, strange);
}

/* --- reading: values --- */

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
        if (!qg_import_is_scale(t->scale[i]) || z != rint(z) || fabs(z) > INT32_MAX)
            return qg_json_fail(r->ctx, QG_EPARSE, o,
                                "entry %zu is not a scale and zero point: %g and %g, "
                                "expected " QG_IMPORT_SCALE " and an integer",
                                i, (double)t->scale[i], z);
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
        return qg_json_fail(r->ctx, QG_EPARSE, value,
                            "is not an object, expected an object");
    if (value)
        QG_TRY(read_param(r, value, t));
    guess_scheme(qg_tqc_endpoint(t), t->nparam, &t->scheme);
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
                            "does not name a root record");
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
        return qg_json_fail(r->ctx, QG_EPARSE, root,
                            "is not an object, expected an object");
    QG_TRY(qg_quant_new(r->g, b, &r->q));
    r->q->author = "import";
    QG_TRY(read_dispatchings(r, root, &backend));
    b->name = qg_arena_printf(r->g->arena, QG_IMPORTED "ppq-json %s",
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

static qg_status read_file(qg_graph *g, const char *path, qg_quant **out)
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

/* --- the row --- */

static qg_status import(qg_import *i)
{
    QG_TRY(qg_import_graph(i, i->model));
    return read_file(i->graph, i->path, &i->quant);
}

const qg_format qg_format_ppq_json = {
    .name = "ppq-json",
    .suffix = ".json + .onnx",
    .summary = "PPQ's file pair: the float model and a JSON with all records",
    .says = (1u << QG_N_ASPECT) - 1 -
            (QG_SAYS_BLOCK | QG_SAYS_ROUNDING | QG_SAYS_QUANTIZER | QG_SAYS_DERIVED |
             QG_SAYS_STATE | QG_SAYS_NAN),
    .nan = QG_NAN_BIT(QG_NAN_KEEP),
    .build = build,
    .write = write,
    .import = import,
    .needs_model = true,
};

/* operator.c -- operators of the host: rows of a registry that the context owns.
 *
 * A host's row is in a family of its own, next to the copy of the host's struct;
 * neither moves, since nodes point to the row.  The row's functions are trampolines
 * that find the copy through node->op. */
#include "engine/embed/extend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/suggest.h"
#include "engine/ir/graph.h"
#include "engine/ir/op.h"

void qg_operator_init(qg_operator *o, size_t size)
{
    static const qg_operator preset = { .since = 1,
                                        .min_in = 1,
                                        .max_in = 1,
                                        .min_out = 1,
                                        .max_out = 1,
                                        .weight_axis = -1 };
    qg_options_init(o, size, &preset, (qg_options_type){ "qg_operator", sizeof *o });
}

/* --- one invocation --- */

qg_ctx *qg_call_ctx(const qg_call *c) { return c->ctx; }
const qg_node *qg_call_node(const qg_call *c) { return c->node; }
size_t qg_call_input_count(const qg_call *c) { return c->n_in; }
size_t qg_call_output_count(const qg_call *c) { return c->n_out; }

const qg_tensor *qg_call_input(const qg_call *c, size_t k)
{
    return k < c->n_in ? c->in[k] : NULL;
}

qg_tensor *qg_call_output(const qg_call *c, size_t k)
{
    return k < c->n_out ? c->out[k] : NULL;
}

qg_status qg_call_int(const qg_call *c, const char *name, int64_t preset, int64_t *out)
{
    return qg_attr_int(c->ctx, c->node, name, preset, out);
}

qg_status qg_call_float(const qg_call *c, const char *name, float preset, float *out)
{
    return qg_attr_float(c->ctx, c->node, name, preset, out);
}

qg_status qg_call_string(const qg_call *c, const char *name, const char *preset,
                         const char **out)
{
    return qg_attr_string(c->ctx, c->node, name, preset, out);
}

qg_status qg_call_ints(const qg_call *c, const char *name, const int64_t **out,
                       size_t *count)
{
    return qg_attr_ints(c->ctx, c->node, name, out, count);
}

qg_status qg_call_floats(const qg_call *c, const char *name, const float **out,
                         size_t *count)
{
    return qg_attr_floats(c->ctx, c->node, name, out, count);
}

void *qg_call_scratch(const qg_call *c, size_t bytes)
{
    return qg_arena_get(c->scratch, 1, bytes);
}

/* --- trampolines --- */

static const qg_operator *given(const qg_node *n) { return n->op->host; }

/* A failure names the node, as those of attributes do by themselves. */
static qg_status result_of(const qg_call *c, const char *doing, qg_status s)
{
    char node[QG_NODE_TEXT];
    if (s == QG_OK)
        return QG_OK;
    s = qg_host_end(c->ctx, s, "operator", c->node->op->name);
    if (strstr(c->ctx->message, qg_node_text(c->node, node)))
        return s;
    return qg_node_fail(c->ctx, s, doing, c->node, "%s", qg_ctx_message(c->ctx));
}

/* Conditions the engine relies on: a type, dims that are known or -1, plain strides. */
static qg_status check_output(const qg_call *c, size_t k)
{
    qg_tensor *y = c->out[k];
    bool fits = y->dtype > QG_NODTYPE && y->dtype < QG_NDTYPE && y->rank >= -1 &&
                y->rank <= QG_MAX_RANK;
    for (int32_t i = 0; fits && i < y->rank; i++)
        fits = y->dim[i] >= -1;
    if (!fits)
        return qg_node_fail(c->ctx, QG_EMODEL, "infer", c->node,
                            "its operator set no valid type and dims of output %zu, "
                            "expected qg_tensor_init",
                            k);
    qg_tensor_set_plain(y);
    return QG_OK;
}

static qg_status infer(const qg_call *c)
{
    const qg_operator *o = given(c->node);
    qg_host_begin(c->ctx);
    QG_TRY(result_of(c, "infer", o->infer(o->ud, c)));
    for (size_t k = 0; k < c->n_out; k++)
        if (c->out[k])
            QG_TRY(check_output(c, k));
    return QG_OK;
}

static qg_status run(const qg_call *c)
{
    const qg_operator *o = given(c->node);
    qg_host_begin(c->ctx);
    return result_of(c, "run", o->run(o->ud, c));
}

static int weight_axis(const qg_node *n) { return given(n)->weight_axis; }

static bool clamp(const qg_node *n, const qg_tensor *const *constant, float *low,
                  float *high)
{
    (void)constant; /* the limits are those of the operator */
    *low = given(n)->clamp_low;
    *high = given(n)->clamp_high;
    return true;
}

/* --- reading the host's structs --- */

static qg_status wrong(qg_ctx *ctx, const qg_operator *o, const char *what)
{
    return qg_fail(ctx, QG_ECONFIG, "add operator %s: %s", o->name, what);
}

/* Words of the trait map, except those that need more than a host can give. */
static qg_status read_traits(qg_ctx *ctx, const qg_operator *o, uint32_t *traits)
{
    static const char gap[] = " ,";
    for (const char *p = o->traits; p && *(p += strspn(p, gap)); p += strcspn(p, gap)) {
        char word[32], hint[QG_SUGGEST_TEXT];
        (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(p, gap), p);
        uint32_t bit = qg_trait_named(word);
        qg_suggest near = qg_suggest_for(word);
        for (unsigned i = 0; i < QG_NTRAIT; i++)
            qg_suggest_try(&near, qg_trait_name(i));
        if (!bit)
            return qg_fail(ctx, QG_ECONFIG,
                           "add operator %s: trait '%s': unknown, expected words of "
                           "`qg list traits`%s",
                           o->name, word, qg_suggest_text(&near, hint));
        if (bit & (QG_OP_CONTROL | QG_OP_NORMALIZE))
            return qg_fail(ctx, QG_ECONFIG,
                           "add operator %s: trait '%s': not available to operators of "
                           "a host, expected other traits",
                           o->name, word);
        *traits |= bit;
    }
    return QG_OK;
}

/* Numbers fit the members of a row, and each other. */
static qg_status check_numbers(qg_ctx *ctx, const qg_operator *o)
{
    if (o->since < 1 || o->since > INT16_MAX)
        return wrong(ctx, o, "since: expected an opset from 1 to 32767");
    if (o->max_in > UINT8_MAX || o->max_out > UINT8_MAX || o->min_in > o->max_in ||
        o->min_out > o->max_out || o->max_out == 0 || o->min_in == UINT8_MAX ||
        o->min_out == UINT8_MAX)
        return wrong(ctx, o, "counts of slots: expected min <= max <= 255, an output");
    if (o->in_place > UINT8_MAX || (o->max_in < 8 && o->in_place >= 1u << o->max_in))
        return wrong(ctx, o, "in_place: expected bits of inputs below 8 that it has");
    if (o->weight_axis < -1 || o->weight_axis >= QG_MAX_RANK)
        return wrong(ctx, o, "weight_axis: expected -1 to 7");
    if (!o->infer || !o->run)
        return wrong(ctx, o, "infer or run is NULL, expected both functions");
    return QG_OK;
}

static qg_status check_roles(qg_ctx *ctx, const qg_operator *o, uint32_t traits)
{
    const char *roles = o->in_roles ? o->in_roles : "d";
    if (!*roles || roles[strspn(roles, "dwbpgfs")])
        return wrong(ctx, o, "in_roles: expected letters of d w b p g f s");
    if (o->weight_axis >= 0 && (!(traits & QG_OP_COMPUTE) || !strchr(roles, 'w')))
        return wrong(ctx, o, "weight_axis: expected trait compute and an input 'w'");
    if (o->clamp_low < o->clamp_high && !(traits & QG_OP_ACTIVATION))
        return wrong(ctx, o, "clamp_low and clamp_high: expected trait activation");
    return QG_OK;
}

/* A name of the library stays its own; the host's may have several opsets. */
static bool is_taken(const qg_registry *r, const qg_operator *o)
{
    const qg_op *newest = qg_op_find(r, o->domain, o->name, INT16_MAX);
    const qg_op *there = qg_op_find(r, o->domain, o->name, o->since);
    return (newest && !newest->host) ||
           (there && (!there->host || there->since == o->since));
}

/* The texts become the context's. */
static qg_status keep_texts(qg_ctx *ctx, qg_operator *o)
{
    QG_TRY(qg_extend_name(ctx, "operator", &o->name));
    if (o->domain && (!*o->domain || strcmp(o->domain, "ai.onnx") == 0))
        o->domain = NULL;
    if (o->domain)
        QG_TRY(qg_extend_name(ctx, "operator: domain", &o->domain));
    QG_TRY(qg_extend_text(ctx, &o->in_roles));
    return qg_extend_text(ctx, &o->traits);
}

static qg_status check(qg_ctx *ctx, qg_operator *o, uint32_t *traits)
{
    QG_TRY(keep_texts(ctx, o));
    QG_TRY(read_traits(ctx, o, traits));
    QG_TRY(check_numbers(ctx, o));
    QG_TRY(check_roles(ctx, o, *traits));
    return is_taken(ctx->registry, o) ? qg_extend_taken(ctx, "operator", o->name)
                                      : QG_OK;
}

/* --- the registry --- */

/* The registry that there is, and one family more: contexts that were forked before
 * keep the old one. */
static qg_status extend(qg_ctx *ctx, const qg_op *family)
{
    const qg_registry *old = ctx->registry;
    qg_registry *r = QG_NEW(ctx->arena, qg_registry);
    const qg_op **all = QG_NEWN(ctx->arena, old->n_family + 1, const qg_op *);
    if (!r || !all)
        return qg_nomem(ctx);
    memcpy(all, old->family, old->n_family * sizeof *all);
    all[old->n_family] = family;
    *r = *old;
    r->family = all;
    r->n_family = old->n_family + 1;
    ctx->registry = r;
    return QG_OK;
}

qg_status qg_add_operator(qg_ctx *ctx, const qg_operator *o)
{
    uint32_t traits = 0;
    qg_operator *kept = QG_NEW(ctx->arena, qg_operator);
    qg_op *row = QG_NEWN(ctx->arena, 2, qg_op); /* the second one ends the family */
    assert(ctx->registry);
    if (!kept || !row)
        return qg_nomem(ctx);
    QG_TRY(QG_OPTIONS_READ(ctx, qg_operator, o, kept));
    QG_TRY(check(ctx, kept, &traits));
    row[0] = (qg_op){ .name = kept->name,
                      .domain = kept->domain,
                      .since = (int16_t)kept->since,
                      .min_in = (uint8_t)kept->min_in,
                      .max_in = (uint8_t)kept->max_in,
                      .min_out = (uint8_t)kept->min_out,
                      .max_out = (uint8_t)kept->max_out,
                      .in_roles = kept->in_roles ? kept->in_roles : "d",
                      .traits = traits,
                      .infer = infer,
                      .run = run,
                      .in_place = (uint8_t)kept->in_place,
                      .weight_axis = kept->weight_axis >= 0 ? weight_axis : NULL,
                      .clamp = kept->clamp_low < kept->clamp_high ? clamp : NULL,
                      .host = kept };
    return extend(ctx, row);
}

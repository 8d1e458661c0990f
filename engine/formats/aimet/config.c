#include "engine/formats/aimet/config.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/ir/op.h"

enum { PLACE = 128, MOST_OPS = 16 };

/* How a tensor is put on a grid; bits 2..32. */
typedef struct grid {
    int bits;
    bool symmetric, per_channel;
} grid;

/* One file under way. */
typedef struct conversion {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *file; /* for `source:`, tame */
    qg_config_result *out;
    QG_VEC(char) text;    /* so far, without a zero */
    grid output, param;   /* of the defaults */
    bool strict;          /* symmetric grids leave the lowest code out */
    bool params_rounded;  /* defaults.params.is_quantized */
    bool outputs_rounded; /* defaults.ops.is_output_quantized */
    bool no_memory;       /* a text could not be made tame: QG_ENOMEM at the end */
} conversion;

/* --- the YAML, by piece ---
 *
 * Everything lies in the conversion's arena.  Texts from outside go through tame before
 * they are quoted. */

/* Appends to the YAML; to the notes.  Only QG_ENOMEM. */
static qg_status QG_PRINTF(2, 3) put(conversion *c, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(n >= 0);
    qg_status s = qg_vec_room(c->ctx, c->arena, &c->text, c->text.n + (size_t)n + 1);
    if (s == QG_OK) {
        (void)vsnprintf(c->text.at + c->text.n, (size_t)n + 1, fmt, again);
        c->text.n += (size_t)n;
    }
    va_end(again);
    return s;
}

static qg_status QG_PRINTF(2, 3) note(conversion *c, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *copy = qg_arena_strdup(c->arena, text);
    return copy ? qg_vec_push(c->ctx, c->arena, &c->out->note, copy) : qg_nomem(c->ctx);
}

/* Text from outside, fit for quotes of YAML: printable ASCII except '"' and '\\'; other
 * bytes become '?'.  Never NULL. */
static const char *tame(conversion *c, const char *text)
{
    char *copy = qg_arena_strdup(c->arena, text);
    for (char *p = copy; p && *p; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            *p = '?';
    c->no_memory = c->no_memory || !copy;
    return copy ? copy : "";
}

/* Lowest and highest code. */
static void range_of(const conversion *c, grid g, int64_t *low, int64_t *high)
{
    int64_t half = INT64_C(1) << (g.bits - 1);
    assert(g.bits >= 2 && g.bits <= 32);
    *low = g.symmetric ? -half + c->strict : 0;
    *high = g.symmetric ? half - 1 : 2 * half - 1;
}

/* "bits: 8, range: [0, 255], policy: [...]"; NULL when out of memory. */
static const char *grid_text(conversion *c, grid g)
{
    int64_t low, high;
    range_of(c, g, &low, &high);
    return qg_arena_printf(
        c->arena, "bits: %d, range: [%lld, %lld], policy: [%s, linear, %s]%s", g.bits,
        (long long)low, (long long)high, g.per_channel ? "per-channel" : "per-tensor",
        g.symmetric ? "symmetric" : "asymmetric",
        g.per_channel ? ", axis: out-channel" : "");
}

/* place: the place in the JSON.  NULL texts were out of memory. */
static qg_status put_rule(conversion *c, const char *id, const char *match,
                          const char *set, const char *why, const char *place)
{
    if (!id || !match || !set)
        return qg_nomem(c->ctx);
    c->out->rules++;
    return put(c,
               "  - id: %s\n    match: {%s}\n    set: {%s}\n    why: \"%s\"\n"
               "    source: \"%s: %s\"\n",
               id, match, set, why, c->file, place);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* AIMET quantizes everything that computes data: all operators but those of shapes,
 * control flow and rounding itself. */
static qg_status put_operators(conversion *c)
{
    static const uint32_t never =
        QG_OP_SHAPE | QG_OP_CONTROL | QG_OP_QUANTIZER | QG_OP_DIMS_ONLY;
    const qg_registry *all = c->ctx->registry;
    QG_VEC(const char *) name = { 0 };
    for (size_t f = 0; f < all->n_family; f++)
        for (const qg_op *op = all->family[f]; op->name; op++)
            if (!op->domain && !(op->traits & never) && op->max_in > 0 &&
                qg_op_in_role(op, 0) == 'd')
                QG_TRY(qg_vec_push(c->ctx, c->arena, &name, op->name));
    qsort(name.at, name.n, sizeof *name.at, by_name);
    size_t column = 12;
    QG_TRY(put(c, "quantizes: ["));
    for (size_t i = 0; i < name.n; i++) {
        if (i && strcmp(name.at[i], name.at[i - 1]) == 0)
            continue;
        size_t width = strlen(name.at[i]) + 2;
        bool wraps = column + width > 96;
        QG_TRY(put(c, "%s%s%s", i ? "," : "",
                   wraps ? "\n            "
                   : i   ? " "
                         : "",
                   name.at[i]));
        column = (wraps ? 12 : column) + width;
    }
    return put(c, "]\n");
}

/* "[Conv, Gemm]": the operators with weights that have, or have not, an axis of output
 * channels; NULL when out of memory. */
static const char *weight_operators(conversion *c, bool with_axis)
{
    const qg_registry *all = c->ctx->registry;
    const char *list = "";
    for (size_t f = 0; f < all->n_family && list; f++)
        for (const qg_op *op = all->family[f]; op->name && list; op++)
            if (qg_op_slot_of(op, 'w') >= 0 && !op->weight_axis == !with_axis &&
                !(op->traits & QG_OP_QUANTIZER) && op == qg_op_newest(all, op->name))
                list = qg_arena_printf(c->arena, "%s%s%s", list, *list ? ", " : "",
                                       op->name);
    return list ? qg_arena_printf(c->arena, "[%s]", list) : NULL;
}

/* How the constant weights of all operators are rounded.  Per channel this takes two
 * rules, id and id-whole: no axis divides the weights of LSTM and similar operators
 * into output channels (all gates lie in one), so they have one scale.  state: "" or
 * "state: initial, ". */
static qg_status put_weights(conversion *c, const char *id, grid all, const char *state,
                             const char *why, const char *place)
{
    for (int whole = 0; whole <= all.per_channel; whole++) {
        grid g = all;
        g.per_channel = g.per_channel && !whole;
        const char *set = grid_text(c, g), *match = "";
        const char *list = all.per_channel ? weight_operators(c, !whole) : "";
        if (all.per_channel && list)
            match = qg_arena_printf(c->arena, "op: %s, ", list);
        if (!set || !list || !match)
            return qg_nomem(c->ctx);
        QG_TRY(
            put_rule(c, qg_arena_printf(c->arena, "%s%s", id, whole ? "-whole" : ""),
                     qg_arena_printf(c->arena, "%sslot: weight, constant: yes", match),
                     qg_arena_printf(c->arena, "%s%s, observer: minmax", state, set),
                     whole ? "these weights have no output-channel axis" : why, place));
    }
    return QG_OK;
}

/* --- reading --- */

static qg_status check_keys(conversion *c, const qg_json *object,
                            const char *const *known)
{
    for (size_t i = 0; i < object->count; i++) {
        const char *key = object->item[i].key;
        qg_suggest near = qg_suggest_for(key);
        size_t k = 0;
        for (; known[k] && strcmp(known[k], key) != 0; k++)
            qg_suggest_try(&near, known[k]);
        char hint[QG_SUGGEST_TEXT];
        if (!known[k])
            return qg_json_fail(c->ctx, QG_EPARSE, &object->item[i],
                                "unknown key%s, expected one of a quantsim "
                                "configuration",
                                qg_suggest_text(&near, hint));
    }
    return QG_OK;
}

/* The member, which must be of this type when it is there; NULL when it is not. */
static qg_status member(conversion *c, const qg_json *object, const char *key,
                        enum qg_json_type type, const qg_json **out)
{
    *out = object ? qg_json_get(object, key) : NULL;
    return *out ? qg_json_member(c->ctx, object, key, type, out) : QG_OK;
}

/* -1: absent. */
static qg_status flag(conversion *c, const qg_json *object, const char *key, int *out)
{
    const qg_json *v = object ? qg_json_get(object, key) : NULL;
    *out = -1;
    if (!v)
        return QG_OK;
    if (v->type == QG_JSON_BOOL)
        *out = v->truth;
    else if (v->type == QG_JSON_TEXT && strcmp(v->text, "True") == 0)
        *out = 1;
    else if (v->type == QG_JSON_TEXT && strcmp(v->text, "False") == 0)
        *out = 0;
    else
        return qg_json_fail(c->ctx, QG_EPARSE, v, "expected \"True\" or \"False\"");
    return QG_OK;
}

/* --- rules --- */

/* The same for parameters, which may be left in float. */
static const char *weight_text(conversion *c, grid g)
{
    const char *text = c->params_rounded ? grid_text(c, g) : "";
    return !text   ? NULL
           : *text ? qg_arena_printf(c->arena, "%s, observer: minmax", text)
                   : "state: fp32";
}

/* An operator of a known name; NULL with a note otherwise. */
static qg_status find_op(conversion *c, const char *name, const char *place,
                         const qg_op **out)
{
    *out = qg_op_newest(c->ctx->registry, name);
    return *out ? QG_OK
                : note(c, "%s: unknown operator '%.60s', left out", place, name);
}

/* Which input of ours a parameter is: PRelu's weight is its gain.  NULL: none. */
static const char *slot_of(const qg_op *op, const char *param)
{
    if (strcmp(param, "bias") == 0)
        return !op || qg_op_slot_of(op, 'b') >= 0 ? "bias" : NULL;
    if (strcmp(param, "weight") != 0)
        return NULL;
    return !op || qg_op_slot_of(op, 'w') >= 0 ? "weight"
           : qg_op_slot_of(op, 'g') >= 0      ? "gain"
                                              : NULL;
}

/* One parameter, of all operators (op NULL) or of one. */
static qg_status convert_param(conversion *c, const qg_json *param, const qg_op *op,
                               const char *place)
{
    static const char *const known[] = { "is_quantized", "is_symmetric", NULL };
    int rounded, symmetric;
    const char *slot = slot_of(op, param->key);
    if (param->type != QG_JSON_OBJECT)
        return qg_json_fail(c->ctx, QG_EPARSE, param, "expected an object");
    QG_TRY(check_keys(c, param, known));
    QG_TRY(flag(c, param, "is_quantized", &rounded));
    QG_TRY(flag(c, param, "is_symmetric", &symmetric));
    if (!slot)
        return note(c, "%s: %s has no such input, left out", place,
                    op ? op->name : "an operator");
    grid g = c->param;
    g.per_channel =
        g.per_channel && strcmp(slot, "weight") == 0 && (!op || op->weight_axis);
    g.symmetric = symmetric < 0 ? g.symmetric : symmetric == 1;
    bool on = rounded < 0 ? c->params_rounded : rounded == 1;
    qg_arena *a = c->arena;
    const char *match =
        qg_arena_printf(a, "%s%s%sslot: %s, constant: yes", op ? "op: " : "",
                        op ? op->name : "", op ? ", " : "", slot);
    const char *grid_set = grid_text(c, g);
    const char *set =
        !on ? "state: fp32"
        : grid_set
            ? qg_arena_printf(a, "state: initial, %s, observer: minmax", grid_set)
            : NULL;
    const char *id = op ? qg_arena_printf(a, "op-%s-%s", op->name, param->key)
                        : qg_arena_printf(a, "params-%s", param->key);
    if (on && !op && g.per_channel)
        return put_weights(c, id, g, "state: initial, ",
                           "the configuration quantizes this parameter", place);
    return put_rule(c, id, match, set,
                    on ? "the configuration quantizes this parameter"
                       : "the configuration keeps this parameter in float",
                    place);
}

static qg_status convert_params(conversion *c, const qg_json *params, const qg_op *op,
                                const char *where)
{
    for (size_t i = 0; params && i < params->count; i++) {
        char place[PLACE];
        (void)snprintf(place, sizeof place, "%s.%.40s", where,
                       tame(c, params->item[i].key));
        QG_TRY(convert_param(c, &params->item[i], op, place));
    }
    return QG_OK;
}

/* encoding_constraints: the range [min, max] as step and code of zero. */
static qg_status convert_range(conversion *c, const qg_json *limits, const qg_op *op,
                               grid g, const char *place)
{
    static const char *const known[] = { "min", "max", NULL };
    double low, high;
    char step[QG_NUM_TEXT];
    QG_TRY(check_keys(c, limits, known));
    QG_TRY(qg_json_f64(c->ctx, limits, "min", &low));
    if (!qg_json_get(limits, "max")) /* AIMET's schema requires min only */
        return note(c, "%s.encoding_constraints: a min without a max, left out", place);
    QG_TRY(qg_json_f64(c->ctx, limits, "max", &high));
    if (!(low < high) || low > 0 || high < 0 || high - low > 1e30 || high - low < 1e-20)
        return qg_json_fail(c->ctx, QG_EPARSE, limits,
                            "min %g and max %g, expected a range that contains 0", low,
                            high);
    int64_t first, last;
    range_of(c, g, &first, &last);
    double codes = (double)(last - first);
    double delta = g.symmetric ? fmax(-low, high) / (double)last : (high - low) / codes;
    int64_t zero = g.symmetric ? 1 : (int64_t)round(-low / delta) + 1;
    qg_num_f64(step, delta);
    if (zero > 1048576)
        return note(c, "%s: 0 lies beyond the code 1048576, left out", place);
    const char *grid_set = grid_text(c, g);
    return put_rule(c, qg_arena_printf(c->arena, "op-%s-range", op->name),
                    qg_arena_printf(c->arena, "op: %s, slot: output", op->name),
                    grid_set
                        ? qg_arena_printf(c->arena,
                                          "%s, observer: fixed, step: %s, zero: %lld",
                                          grid_set, step, (long long)zero)
                        : NULL,
                    "the operator has a fixed output range", place);
}

/* Whether outputs (inputs) of one operator have quantizers, and of which kind. */
static qg_status convert_slots(conversion *c, const qg_op *op, const char *slot, int on,
                               grid g, const char *place)
{
    const char *grid_set = grid_text(c, g);
    if (on < 0)
        return QG_OK;
    return put_rule(c, qg_arena_printf(c->arena, "op-%s-%s", op->name, slot),
                    qg_arena_printf(c->arena, "op: %s, slot: %s", op->name, slot),
                    !on ? "state: fp32"
                    : grid_set
                        ? qg_arena_printf(c->arena, "state: initial, %s", grid_set)
                        : NULL,
                    on ? "the configuration puts a quantizer here"
                       : "the configuration puts no quantizer here",
                    place);
}

/* One operator: outputs, inputs, weights, prescribed range, in this order, so that the
 * more special statement comes later and wins. */
static qg_status convert_op(conversion *c, const qg_json *entry)
{
    static const char *const known[] = { "is_output_quantized",
                                         "is_input_quantized",
                                         "is_symmetric",
                                         "per_channel_quantization",
                                         "params",
                                         "encoding_constraints",
                                         "supported_kernels",
                                         NULL };
    char place[PLACE], inner[PLACE + 32];
    const qg_op *op;
    const qg_json *params, *limits;
    int out, in, symmetric, per_channel;
    (void)snprintf(place, sizeof place, "op_type.%.60s", tame(c, entry->key));
    if (entry->type != QG_JSON_OBJECT)
        return qg_json_fail(c->ctx, QG_EPARSE, entry, "expected an object");
    QG_TRY(check_keys(c, entry, known));
    QG_TRY(flag(c, entry, "is_output_quantized", &out));
    QG_TRY(flag(c, entry, "is_input_quantized", &in));
    QG_TRY(flag(c, entry, "is_symmetric", &symmetric));
    QG_TRY(flag(c, entry, "per_channel_quantization", &per_channel));
    QG_TRY(member(c, entry, "params", QG_JSON_OBJECT, &params));
    QG_TRY(member(c, entry, "encoding_constraints", QG_JSON_OBJECT, &limits));
    QG_TRY(find_op(c, entry->key, "op_type", &op));
    if (!op)
        return QG_OK;
    if (qg_json_get(entry, "supported_kernels"))
        QG_TRY(note(c,
                    "%s.supported_kernels: widths by operator are set with --set "
                    "or --policy here, left out",
                    place));
    grid g = c->output;
    g.symmetric = symmetric < 0 ? g.symmetric : symmetric == 1;
    if (out < 0 && symmetric >= 0 && c->outputs_rounded)
        out = 1;
    QG_TRY(convert_slots(c, op, "output", out, g, place));
    if (qg_op_slot_of(op, 'd') >= 0)
        QG_TRY(convert_slots(c, op, "input", in, g, place));
    grid before = c->param;
    c->param.per_channel = per_channel < 0 ? before.per_channel : per_channel == 1;
    if (per_channel >= 0 && op->weight_axis && c->params_rounded) {
        const char *set = grid_text(c, c->param);
        QG_TRY(put_rule(c, qg_arena_printf(c->arena, "op-%s-per-channel", op->name),
                        qg_arena_printf(c->arena,
                                        "op: %s, slot: weight, "
                                        "constant: yes",
                                        op->name),
                        set,
                        "the configuration sets per-tensor or per-channel "
                        "weights for this operator",
                        place));
    }
    (void)snprintf(inner, sizeof inner, "%s.params", place);
    qg_status s = convert_params(c, params, op, inner);
    c->param = before;
    return s == QG_OK && limits ? convert_range(c, limits, op, g, place) : s;
}

/* --- supergroups --- */

/* Of a chain only the last operator rounds. */
static qg_status convert_group(conversion *c, const qg_json *group, size_t number)
{
    static const char *const known[] = { "op_list", NULL };
    const qg_json *list;
    const qg_op *op[MOST_OPS];
    char place[PLACE];
    (void)snprintf(place, sizeof place, "supergroups[%zu]", number);
    if (group->type != QG_JSON_OBJECT)
        return qg_json_fail(c->ctx, QG_EPARSE, group, "expected an object");
    QG_TRY(check_keys(c, group, known));
    QG_TRY(qg_json_member(c->ctx, group, "op_list", QG_JSON_ARRAY, &list));
    if (list->count < 2 || list->count > MOST_OPS)
        return qg_json_fail(c->ctx, QG_EPARSE, list, "%zu operators, expected 2 to %d",
                            list->count, MOST_OPS);
    for (size_t i = 0; i < list->count; i++) {
        const char *name;
        QG_TRY(qg_json_as_text(c->ctx, &list->item[i], &name));
        QG_TRY(find_op(c, name, place, &op[i]));
        if (!op[i])
            return QG_OK;
    }
    if (c->out->fusions++ == 0)
        QG_TRY(put(
            c, "\nfusions: # supergroups: only the output of a chain is quantized\n"));
    QG_TRY(put(c, "  - id: supergroup-%zu\n    pattern: {", number + 1));
    for (size_t i = 0; i < list->count; i++) {
        QG_TRY(put(c, "%sn%zu: {op: %s", i ? ", " : "", i, op[i]->name));
        QG_TRY(i ? put(c, ", in: [n%zu]}", i - 1) : put(c, "}"));
    }
    QG_TRY(put(c, "}\n    where: {"));
    for (size_t i = 0; i + 1 < list->count; i++)
        QG_TRY(put(c, "n%zu.out0: {consumers: 1, graph-output: no}, ", i));
    QG_TRY(put(c, "same-platform: ["));
    for (size_t i = 0; i < list->count; i++)
        QG_TRY(put(c, "%sn%zu", i ? ", " : "", i));
    QG_TRY(put(c, "]}\n    silence: {"));
    for (size_t i = 0; i + 1 < list->count; i++)
        QG_TRY(put(c, "%sn%zu.out0: n%zu.out0", i ? ", " : "", i, list->count - 1));
    return put(c,
               "}\n    why: \"the hardware runs the chain as one fused kernel\"\n"
               "    source: \"%s: %s\"\n",
               c->file, place);
}

/* MatmulAdd: an Add of a constant to a MatMul with constant weights is its bias, and
 * the product has no quantizer.  place: of the pass.
 * Source: aimet-onnx 2.42.0 graph_passes/passes/matmul_add.py, and
 * meta/connectedgraph.py _get_matmul_add_bias_idx */
static qg_status put_matmul_add(conversion *c, const char *place)
{
    if (c->out->fusions == 0)
        QG_TRY(put(c, "\nfusions:\n"));
    for (int bias = 1; bias >= 0; bias--, c->out->fusions++)
        QG_TRY(put(c,
                   "  - id: matmul-add-%d\n"
                   "    pattern: {m: {op: MatMul}, a: {op: Add, in: [m]}}\n"
                   "    where: {m.out0: {consumers: 1, graph-output: no}, m.in1: "
                   "{constant: yes}, a.in%d: {constant: yes},\n"
                   "            same-platform: [m, a]}\n"
                   "    silence: {m.out0: a.out0}\n"
                   "    why: \"the constant is the bias of the product\"\n"
                   "    source: \"%s: %s\"\n",
                   bias, bias, c->file, place));
    return note(c,
                "%s: where a supergroup begins with the Add, AIMET rounds the output "
                "of the Add too, written as the supergroup",
                place);
}

/* Graph passes, which AIMET runs before it looks for supergroups. */
static qg_status convert_passes(conversion *c, const qg_json *root)
{
    const qg_json *list;
    QG_TRY(member(c, root, "supergroup_pass_list", QG_JSON_ARRAY, &list));
    for (size_t i = 0; list && i < list->count; i++) {
        const char *name;
        char place[PLACE];
        QG_TRY(qg_json_as_text(c->ctx, &list->item[i], &name));
        (void)snprintf(place, sizeof place, "supergroup_pass_list[%zu]", i);
        if (strcmp(name, "MatmulAdd") == 0)
            QG_TRY(put_matmul_add(c, place));
        else
            QG_TRY(note(c,
                        "%s: no fusion is made of the pass '%.60s': where "
                        "operators spell it out, each is rounded",
                        place, tame(c, name)));
    }
    return QG_OK;
}

/* --- the whole --- */

/* Bits of the first integer kernel; *bits stays when there is none. */
static qg_status read_bits(conversion *c, const qg_json *kernel, const char *which,
                           int *bits)
{
    const qg_json *side;
    const char *dtype;
    int64_t n;
    QG_TRY(qg_json_member(c->ctx, kernel, which, QG_JSON_OBJECT, &side));
    QG_TRY(qg_json_text(c->ctx, side, "dtype", &dtype));
    QG_TRY(qg_json_int(c->ctx, side, "bitwidth", &n));
    if (strcmp(dtype, "int") != 0)
        return note(c,
                    "defaults.supported_kernels[0].%s: type '%.20s', written as %d "
                    "bits",
                    which, dtype, *bits);
    if (n < 2 || n > 32)
        return qg_json_fail(c->ctx, QG_EPARSE, side, "%lld bits, expected 2 to 32",
                            (long long)n);
    *bits = (int)n;
    return QG_OK;
}

static qg_status read_kernels(conversion *c, const qg_json *defaults)
{
    const qg_json *kernels;
    QG_TRY(member(c, defaults, "supported_kernels", QG_JSON_ARRAY, &kernels));
    if (!kernels || kernels->count == 0)
        return QG_OK;
    if (kernels->item[0].type != QG_JSON_OBJECT)
        return qg_json_fail(c->ctx, QG_EPARSE, &kernels->item[0], "expected an object");
    QG_TRY(read_bits(c, &kernels->item[0], "activation", &c->output.bits));
    QG_TRY(read_bits(c, &kernels->item[0], "param", &c->param.bits));
    return kernels->count == 1
               ? QG_OK
               : note(c,
                      "defaults.supported_kernels: %zu kernels, the first one is used",
                      kernels->count);
}

/* Everything later statements fall back on.  Flags that are absent are off, as AIMET
 * reads them. */
static qg_status read_defaults(conversion *c, const qg_json *defaults)
{
    /* clang-format off */
    static const char *const known[] = {
        "ops", "params", "strict_symmetric", "unsigned_symmetric",
        "per_channel_quantization", "supported_kernels", "hw_version", NULL };
    /* clang-format on */
    static const char *const op_keys[] = { "is_output_quantized", "is_symmetric",
                                           NULL };
    static const char *const param_keys[] = { "is_quantized", "is_symmetric", NULL };
    const qg_json *ops, *params;
    int strict, as_unsigned, per_channel, outputs, out_symmetric, rounded, symmetric;
    QG_TRY(check_keys(c, defaults, known));
    QG_TRY(qg_json_member(c->ctx, defaults, "ops", QG_JSON_OBJECT, &ops));
    QG_TRY(qg_json_member(c->ctx, defaults, "params", QG_JSON_OBJECT, &params));
    QG_TRY(check_keys(c, ops, op_keys));
    QG_TRY(check_keys(c, params, param_keys));
    QG_TRY(flag(c, defaults, "strict_symmetric", &strict));
    QG_TRY(flag(c, defaults, "unsigned_symmetric", &as_unsigned));
    QG_TRY(flag(c, defaults, "per_channel_quantization", &per_channel));
    QG_TRY(flag(c, ops, "is_output_quantized", &outputs));
    QG_TRY(flag(c, ops, "is_symmetric", &out_symmetric));
    QG_TRY(flag(c, params, "is_quantized", &rounded));
    QG_TRY(flag(c, params, "is_symmetric", &symmetric));
    c->output = (grid){ 8, out_symmetric == 1, false };
    c->param = (grid){ 8, symmetric == 1, per_channel == 1 };
    c->strict = strict == 1;
    c->params_rounded = rounded == 1;
    c->outputs_rounded = outputs == 1;
    if (as_unsigned == 1 && out_symmetric == 1)
        QG_TRY(note(c, "defaults.unsigned_symmetric: whether a tensor is unsigned "
                       "depends on its data; written as signed"));
    return read_kernels(c, defaults);
}

/* Name, title, operators and defaults, which every later line relies on. */
static qg_status put_head(conversion *c, const char *backend, const qg_json *defaults)
{
    const qg_json *version;
    char least[QG_NUM_TEXT];
    int64_t low, high;
    QG_TRY(member(c, defaults, "hw_version", QG_JSON_TEXT, &version));
    const char *grid_set = grid_text(c, c->output);
    const char *hardware = version ? tame(c, version->text) : NULL;
    if (!grid_set)
        return qg_nomem(c->ctx);
    range_of(c, c->output, &low, &high);
    qg_num_f64(least, 0.01 / (double)(high - low)); /* a range is at least 0.01 wide */
    QG_TRY(
        put(c, "# Made from %s by qg import-backend.\nname: %s\n", c->file, backend));
    QG_TRY(put(c, "title: \"AIMET quantsim configuration %s%s%.40s\"\n", c->file,
               hardware ? ", hardware " : "", hardware ? hardware : ""));
    QG_TRY(put(c, "pipeline: default\ndispatch: all-in\n\n"));
    QG_TRY(put_operators(c));
    return put(c,
               "\n# docs/evidence/grids.md#aimet-encodings: ties round up, "
               "ranges of at least 0.01\ndefaults: {%s,\n           rounding: "
               "half-up, nan: keep, observer: minmax, min-scale: %s}\n\nrules:\n",
               grid_set, least);
}

/* The order matters: these rules come first and everything else overrides them. */
static qg_status put_defaults(conversion *c)
{
    grid gain = c->param;
    gain.per_channel = false;
    const char *gain_set = weight_text(c, gain);
    QG_TRY(put_rule(c, "inputs-are-read", "slot: [input, bound]", "state: fp32",
                    "an operator reads the output that its producer has quantized",
                    "defaults.ops"));
    QG_TRY(put_rule(c, "products-of-data", "slot: weight, constant: no", "state: fp32",
                    "a computed operand is already quantized by its producer",
                    "defaults.ops"));
    if (!c->outputs_rounded)
        QG_TRY(put_rule(c, "outputs", "slot: output", "state: fp32",
                        "the configuration puts no quantizer on outputs",
                        "defaults.ops.is_output_quantized"));
    QG_TRY(c->params_rounded
               ? put_weights(c, "weights", c->param, "",
                             "the configuration sets the "
                             "scheme of weights",
                             "defaults.params")
               : put_rule(c, "weights", "slot: weight, constant: yes", "state: fp32",
                          "the configuration sets the scheme of weights",
                          "defaults.params"));
    return put_rule(c, "small-parameters", "slot: [bias, gain]", gain_set,
                    "the configuration sets the scheme of other parameters",
                    "defaults.params");
}

/* Inputs of the network, and outputs of it where all others have none. */
static qg_status put_interface(conversion *c, const qg_json *root)
{
    static const char *const in_keys[] = { "is_input_quantized", NULL };
    static const char *const out_keys[] = { "is_output_quantized", NULL };
    const qg_json *in, *out;
    int in_on, out_on;
    QG_TRY(qg_json_member(c->ctx, root, "model_input", QG_JSON_OBJECT, &in));
    QG_TRY(qg_json_member(c->ctx, root, "model_output", QG_JSON_OBJECT, &out));
    QG_TRY(check_keys(c, in, in_keys));
    QG_TRY(check_keys(c, out, out_keys));
    QG_TRY(flag(c, in, "is_input_quantized", &in_on));
    QG_TRY(flag(c, out, "is_output_quantized", &out_on));
    if (in_on == 1)
        QG_TRY(put_rule(c, "network-inputs", "slot: input, graph-input: yes",
                        "state: initial",
                        "values from outside the quantized part are "
                        "not quantized yet",
                        "model_input.is_input_quantized"));
    if (out_on < 0)
        return QG_OK;
    return put_rule(c, "network-outputs", "slot: output, graph-output: yes",
                    out_on ? "state: initial" : "state: fp32", "outputs of the network",
                    "model_output.is_output_quantized");
}

static qg_status convert(conversion *c, const qg_json *root, const char *backend)
{
    /* clang-format off */
    static const char *const known[] = {
        "defaults", "params", "op_type", "supergroups", "supergroup_pass_list",
        "model_input", "model_output", NULL };
    /* clang-format on */
    const qg_json *defaults, *params, *ops, *groups;
    if (root->type != QG_JSON_OBJECT)
        return qg_json_fail(c->ctx, QG_EPARSE, root,
                            "expected the object of a quantsim configuration");
    QG_TRY(check_keys(c, root, known));
    QG_TRY(qg_json_member(c->ctx, root, "defaults", QG_JSON_OBJECT, &defaults));
    QG_TRY(qg_json_member(c->ctx, root, "params", QG_JSON_OBJECT, &params));
    QG_TRY(qg_json_member(c->ctx, root, "op_type", QG_JSON_OBJECT, &ops));
    QG_TRY(qg_json_member(c->ctx, root, "supergroups", QG_JSON_ARRAY, &groups));
    QG_TRY(read_defaults(c, defaults));
    QG_TRY(put_head(c, backend, defaults));
    QG_TRY(put_defaults(c));
    QG_TRY(convert_params(c, params, NULL, "params"));
    for (size_t i = 0; i < ops->count; i++)
        QG_TRY(convert_op(c, &ops->item[i]));
    QG_TRY(put_interface(c, root));
    QG_TRY(convert_passes(c, root));
    for (size_t i = 0; i < groups->count; i++)
        QG_TRY(convert_group(c, &groups->item[i], i));
    return QG_OK;
}

qg_status qg_aimet_config(qg_ctx *ctx, qg_arena *a, const qg_json *root,
                          qg_config_labels names, qg_config_result *out)
{
    assert(names.backend && names.file && ctx->registry);
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    qg_config_result r = { 0 };
    conversion c = { .ctx = ctx, .arena = a, .out = &r };
    size_t n = strspn(names.backend, allowed);
    if (n == 0 || names.backend[n])
        return qg_fail(ctx, QG_ECONFIG,
                       "import-backend: name '%.60s', expected letters, digits, '.', "
                       "'_' and '-' only",
                       names.backend);
    c.file = tame(&c, names.file);
    QG_TRY(convert(&c, root, names.backend));
    if (c.no_memory)
        return qg_nomem(ctx);
    r.yaml = c.text.at;
    r.size = c.text.n;
    *out = r;
    return QG_OK;
}

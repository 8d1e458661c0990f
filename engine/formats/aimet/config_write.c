#include "engine/formats/aimet/config_part.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ir/op.h"

/* --- text --- */

qg_status qg_aimet_put(qg_aimet_conversion *c, const char *fmt, ...)
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

qg_status qg_aimet_note(qg_aimet_conversion *c, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *copy = qg_arena_strdup(c->arena, text);
    return copy ? qg_vec_push(c->ctx, c->arena, &c->out->note, copy) : qg_nomem(c->ctx);
}

/* Text from outside inside quotes of YAML: printable ASCII but for '"' and '\'. */
const char *qg_aimet_tame(qg_aimet_conversion *c, const char *text)
{
    char *copy = qg_arena_strdup(c->arena, text);
    for (char *p = copy; p && *p; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            *p = '?';
    return copy ? copy : "";
}

/* Lowest and highest code. */
void qg_aimet_range(const qg_aimet_conversion *c, qg_aimet_grid g, int64_t *low,
                    int64_t *high)
{
    int64_t half = INT64_C(1) << (g.bits - 1);
    assert(g.bits >= 2 && g.bits <= 32);
    *low = g.symmetric ? -half + c->strict : 0;
    *high = g.symmetric ? half - 1 : 2 * half - 1;
}

/* "bits: 8, range: [0, 255], policy: [...]" */
const char *qg_aimet_grid_text(qg_aimet_conversion *c, qg_aimet_grid g)
{
    int64_t low, high;
    qg_aimet_range(c, g, &low, &high);
    return qg_arena_printf(
        c->arena, "bits: %d, range: [%lld, %lld], policy: [%s, linear, %s]%s", g.bits,
        (long long)low, (long long)high, g.per_channel ? "per-channel" : "per-tensor",
        g.symmetric ? "symmetric" : "asymmetric",
        g.per_channel ? ", axis: out-channel" : "");
}

/* place: where the JSON says so.  NULL texts were out of memory. */
qg_status qg_aimet_put_rule(qg_aimet_conversion *c, const char *id, const char *match,
                            const char *set, const char *why, const char *place)
{
    if (!id || !match || !set)
        return qg_nomem(c->ctx);
    c->out->rules++;
    return qg_aimet_put(c,
                        "  - id: %s\n    match: {%s}\n    set: {%s}\n    why: \"%s\"\n"
                        "    source: \"%s: %s\"\n",
                        id, match, set, why, c->file, place);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* AIMET quantizes whatever makes data: all operators but those of shapes, control flow
 * and rounding itself. */
qg_status qg_aimet_put_operators(qg_aimet_conversion *c)
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
    QG_TRY(qg_aimet_put(c, "quantizes: ["));
    for (size_t i = 0; i < name.n; i++) {
        if (i && strcmp(name.at[i], name.at[i - 1]) == 0)
            continue;
        size_t width = strlen(name.at[i]) + 2;
        bool wraps = column + width > 96;
        QG_TRY(qg_aimet_put(c, "%s%s%s", i ? "," : "",
                            wraps ? "\n            "
                            : i   ? " "
                                  : "",
                            name.at[i]));
        column = (wraps ? 12 : column) + width;
    }
    return qg_aimet_put(c, "]\n");
}

/* "[Conv, Gemm]": the operators with weights that have, or have not, an axis of output
 * channels; NULL when out of memory. */
static const char *weight_operators(qg_aimet_conversion *c, bool with_axis)
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

qg_status qg_aimet_put_weights(qg_aimet_conversion *c, const char *id,
                               qg_aimet_grid grid, const char *state, const char *why,
                               const char *place)
{
    for (int whole = 0; whole <= grid.per_channel; whole++) {
        qg_aimet_grid g = grid;
        g.per_channel = g.per_channel && !whole;
        const char *set = qg_aimet_grid_text(c, g), *match = "";
        const char *list = grid.per_channel ? weight_operators(c, !whole) : "";
        if (grid.per_channel && list)
            match = qg_arena_printf(c->arena, "op: %s, ", list);
        if (!set || !list || !match)
            return qg_nomem(c->ctx);
        QG_TRY(qg_aimet_put_rule(
            c, qg_arena_printf(c->arena, "%s%s", id, whole ? "-whole" : ""),
            qg_arena_printf(c->arena, "%sslot: weight, constant: yes", match),
            qg_arena_printf(c->arena, "%s%s, observer: minmax", state, set),
            whole ? "no axis of these weights counts output channels" : why, place));
    }
    return QG_OK;
}

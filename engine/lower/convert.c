#include "engine/lower/lowering.h"

#include <assert.h>
#include <stdio.h>

#include "engine/ir/edit.h"
#include "engine/quant/quantizer.h"

/* --- names --- */

static bool is_interface(const qg_lowering *w, const qg_value *v)
{
    return v->is_input || (v->is_output && !w->options.codes);
}

/* A name that is free, made of v's. */
static const char *derived(qg_lowering *w, const qg_value *v, const char *suffix)
{
    const char *name = qg_arena_printf(w->arena, "%s_%s", v->name, suffix);
    return name ? qg_lower_value_name(w->to, w->from, name) : NULL;
}

const char *qg_lower_codes_name(qg_lowering *w, const qg_value *v)
{
    return is_interface(w, v) ? derived(w, v, "codes") : v->name;
}

/* --- helper nodes --- */

/* A node between two representations of v, named after what it makes. */
static qg_status add(qg_lowering *w, const char *op, const qg_recipe *r, qg_value *from,
                     const char *name, qg_value **out)
{
    const char *base = name ? qg_arena_printf(w->arena, "%s_%s", op, name) : NULL;
    qg_lower_node spec = { .op = op,
                           .name =
                               base ? qg_lower_node_name(w->to, w->from, base) : NULL,
                           .output = name,
                           .recipe = r,
                           .in = &from,
                           .n_in = 1 };
    return spec.name ? qg_lower_add(w->to, &spec, out) : qg_nomem(w->ctx);
}

const qg_profile_row *qg_lower_quantize_row(const qg_profile *p, qg_dtype codes)
{
    return qg_profile_find(p, QG_USE_QUANTIZE,
                           (qg_profile_types){ QG_F32, QG_NODTYPE, codes },
                           (qg_profile_grids){ 0 });
}

static qg_status quantize(qg_lowering *w, const qg_stored *grid, qg_value *floats,
                          const char *name, qg_value **out)
{
    char text[QG_STORED_TEXT];
    const qg_profile_row *row = qg_lower_quantize_row(w->profile, grid->dtype);
    if (!row)
        return qg_fail(w->ctx, QG_EUNSUPPORTED,
                       "lower: value '%s': profile %s has no row of quantize for %s, "
                       "expected one",
                       floats->name, w->profile->name, qg_stored_text(grid, text));
    qg_recipe r = { .row = *row, .out = *grid };
    return add(w, "IntQuantize", &r, floats, name, out);
}

/* Without a row: (q - z) s, which all runtimes compute up to the last bit. */
static qg_status dequantize(qg_lowering *w, const qg_stored *grid, qg_value *codes,
                            const char *name, qg_value **out)
{
    static const qg_profile_row plain = { .id = "", .form = QG_FORM_MULTIPLY };
    const qg_profile_row *row = qg_profile_find(
        w->profile, QG_USE_DEQUANTIZE,
        (qg_profile_types){ grid->dtype, QG_NODTYPE, QG_F32 }, (qg_profile_grids){ 0 });
    qg_recipe r = {
        .row = row ? *row : plain, .in = {*grid  },
                 .out = { .dtype = QG_F32, .n = 1 }
    };
    return add(w, "IntDequantize", &r, codes, name, out);
}

/* A profile without a row converts through floats, and so does one whose row does not
 * take the two grids. */
static qg_status rescale(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                         const char *name, qg_value **out)
{
    const qg_stored *from = &w->stored[v->id];
    float ratio = from->scale[0] / grid->scale[0];
    const qg_profile_row *row =
        qg_profile_find(w->profile, QG_USE_RESCALE,
                        (qg_profile_types){ from->dtype, QG_NODTYPE, grid->dtype },
                        (qg_profile_grids){ .least = ratio, .most = ratio });
    qg_value *source;
    if (row) {
        qg_recipe r = { .row = *row, .in = { *from }, .out = *grid };
        QG_TRY(qg_lower_as_stored(w, v, &source));
        qg_status s = add(w, "IntRescale", &r, source, name, out);
        if (s != QG_EUNSUPPORTED)
            return s;
    }
    QG_TRY(qg_lower_as_floats(w, v, &source));
    return quantize(w, grid, source, name, out);
}

/* --- values --- */

qg_status qg_lower_add_constant(qg_lowering *w, const qg_value *v, const qg_tensor *t,
                                qg_value **out)
{
    const char *name = qg_graph_value(w->to, v->name)
                           ? qg_lower_value_name(w->to, w->from, v->name)
                           : v->name;
    if (!name)
        return qg_nomem(w->ctx);
    QG_TRY(qg_graph_add_value(w->to, name, out));
    return qg_edit_make_constant(w->to, *out, t);
}

qg_status qg_lower_as_stored(qg_lowering *w, const qg_value *v, qg_value **out)
{
    const qg_stored *s = &w->stored[v->id];
    if (!s->codes)
        return qg_lower_as_floats(w, v, out);
    if (!w->codes[v->id]) {
        const char *name = qg_lower_codes_name(w, v);
        assert(w->floats[v->id]); /* an input: nodes store their outputs */
        if (!name)
            return qg_nomem(w->ctx);
        QG_TRY(quantize(w, s, w->floats[v->id], name, &w->codes[v->id]));
    }
    *out = w->codes[v->id];
    return QG_OK;
}

qg_status qg_lower_store(qg_lowering *w, const qg_value *v, qg_value *floats)
{
    const char *name = qg_lower_codes_name(w, v);
    if (!name)
        return qg_nomem(w->ctx);
    return quantize(w, &w->stored[v->id], floats, name, &w->codes[v->id]);
}

qg_status qg_lower_quantize(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                            qg_value *floats, qg_value **out)
{
    const char *name = derived(w, v, "codes");
    return name ? quantize(w, grid, floats, name, out) : qg_nomem(w->ctx);
}

/* The floats of a stored input are not its codes' values: those are a variant. */
static qg_status variant_of(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                            qg_variant **out)
{
    qg_variant **at = &w->variant[v->id];
    while (*at && !qg_stored_same(&(*at)->grid, grid))
        at = &(*at)->next;
    if (!*at) {
        if (!(*at = QG_NEW(w->arena, qg_variant)))
            return qg_nomem(w->ctx);
        (*at)->grid = *grid;
    }
    *out = *at;
    return QG_OK;
}

static qg_status variant_codes(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                               qg_value **out)
{
    qg_value *made;
    qg_variant *a;
    const char *name;
    QG_TRY(variant_of(w, v, grid, &a));
    if (a->codes) {
        *out = a->codes;
        return QG_OK;
    }
    if (!(name = derived(w, v, "rescaled")))
        return qg_nomem(w->ctx);
    if (w->stored[v->id].codes) {
        QG_TRY(rescale(w, v, grid, name, &made));
    } else {
        QG_TRY(qg_lower_as_floats(w, v, &made));
        if (!(name = derived(w, v, "codes")))
            return qg_nomem(w->ctx);
        QG_TRY(quantize(w, grid, made, name, &made));
    }
    a->codes = *out = made;
    return QG_OK;
}

qg_status qg_lower_as_codes(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                            qg_value **out)
{
    return qg_stored_same(&w->stored[v->id], grid) ? qg_lower_as_stored(w, v, out)
                                                   : variant_codes(w, v, grid, out);
}

/* Codes of 32 bits are constants of a file (grid.c), and so are their values. */
static qg_status sum_floats(qg_lowering *w, const qg_value *v, qg_value **out)
{
    const qg_stored *s = &w->stored[v->id];
    const qg_tensor *codes = v->def->in[0]->constant;
    qg_tensor *t = QG_NEW(w->arena, qg_tensor);
    if (!t)
        return qg_nomem(w->ctx);
    qg_tensor_init(t, QG_F32, codes->rank, codes->dim);
    QG_TRY(qg_tensor_alloc(w->ctx, w->arena, t));
    int64_t inner = s->n > 1 ? qg_dims_product(codes, s->axis + 1, codes->rank) : 1;
    for (int64_t i = 0; i < qg_tensor_count(codes); i++) {
        int64_t c = s->n > 1 ? i / inner % s->n : 0;
        t->f32[i] = (float)(qg_tensor_i64(codes, i) - s->zero[c]) * s->scale[c];
    }
    return qg_lower_add_constant(w, v, t, out);
}

/* The values of codes on a grid, made once. */
static qg_status floats_on(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                           qg_value **out)
{
    qg_value *codes;
    qg_variant *a;
    QG_TRY(qg_lower_as_codes(w, v, grid, &codes));
    QG_TRY(variant_of(w, v, grid, &a));
    if (!a->floats) {
        bool own = qg_stored_same(&w->stored[v->id], grid) && !v->is_input &&
                   is_interface(w, v);
        const char *name = own ? v->name : derived(w, v, "float");
        if (!name)
            return qg_nomem(w->ctx);
        QG_TRY(grid->dtype == QG_I32 ? sum_floats(w, v, &a->floats)
                                     : dequantize(w, grid, codes, name, &a->floats));
    }
    *out = a->floats;
    return QG_OK;
}

qg_status qg_lower_as_floats(qg_lowering *w, const qg_value *v, qg_value **out)
{
    if (w->stored[v->id].codes)
        return floats_on(w, v, &w->stored[v->id], out);
    if (v->constant && !w->floats[v->id])
        QG_TRY(qg_lower_add_constant(w, v, v->constant, &w->floats[v->id]));
    assert(w->floats[v->id]);
    *out = w->floats[v->id];
    return QG_OK;
}

/* A constant as its record rounds it. */
static qg_status rounded_constant(qg_lowering *w, const qg_tqc *t, const qg_value *v,
                                  qg_value **out)
{
    qg_tensor *y = NULL;
    QG_TRY(qg_tensor_clone(w->ctx, w->arena, v->constant, &y));
    QG_TRY(qg_tqc_round(w->ctx, t, v->constant, y));
    return qg_lower_add_constant(w, v, y, out);
}

qg_status qg_lower_float_input(qg_lowering *w, const qg_node *n, uint32_t slot,
                               qg_value **out)
{
    const qg_value *v = n->in[slot];
    const qg_tqc *t = qg_input_tqc(n, slot);
    qg_stored grid;
    *out = NULL;
    if (!v)
        return QG_OK;
    if (v->constant)
        return qg_tqc_is_on_grid(t) && v->constant->dtype == QG_F32
                   ? rounded_constant(w, t, v, out)
                   : qg_lower_as_floats(w, v, out);
    if (v->type.dtype != QG_F32)
        return qg_lower_as_floats(w, v, out);
    if (qg_node_has(n, QG_OP_DIMS_ONLY))
        return qg_lower_as_stored(w, v, out);
    QG_TRY(qg_lower_slot_grid(w, n, slot, &grid));
    return grid.codes ? floats_on(w, v, &grid, out) : qg_lower_as_floats(w, v, out);
}

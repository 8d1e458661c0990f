#include "engine/device/kernel.h"

#include <math.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/tensor_memory.h"
#include "engine/lower/program.h"
#include "engine/quant/endpoint.h"

enum { ENTRIES = 256 }; /* of a table: one per code of 8 bits */

/* --- the bias --- */

/* The bias of a product in steps of another input grid: b / f32(s_x s_w[i]), rounded.
 * One that does not come from the model's float bias stays. */
static qg_status rescale_bias(const qg_device *d, qg_graph *g, qg_node *n, float s_x,
                              const qg_stored *w)
{
    const qg_node *m = qg_graph_node(d->m->graph, n->name);
    int slot = m ? qg_op_slot_of(m->op, 'b') : -1;
    const qg_value *own = n->n_in > 2 ? n->in[2] : NULL;
    const qg_value *v = slot >= 0 && (uint32_t)slot < m->n_in ? m->in[slot] : NULL;
    if (!own || !own->constant || own->constant->dtype != QG_I32 || !v ||
        !v->constant || v->constant->dtype != QG_F32 || !w->codes ||
        !qg_same_dims(v->constant, own->constant))
        return QG_OK;
    qg_tensor *b = QG_NEW(g->arena, qg_tensor);
    if (!b)
        return qg_nomem(d->ctx);
    *b = *own->constant;
    b->data = NULL;
    QG_TRY(qg_tensor_alloc(d->ctx, g->arena, b));
    for (int64_t i = 0; i < qg_tensor_count(b); i++)
        b->i32[i] = qg_lower_bias_code(v->constant->f32[i],
                                       s_x * w->scale[w->n > 1 ? i % w->n : 0]);
    return qg_edit_give_constant(g, n, 2, "bias", b);
}

/* --- the table --- */

/* The operator of the model whose function n looks up; NULL: n has no table. */
static const qg_node *function_of(const qg_device *d, const qg_node *n)
{
    const qg_node *m = qg_graph_node(d->m->graph, n->name);
    const qg_tensor *t = n->n_in == 2 && n->in[1] ? n->in[1]->constant : NULL;
    return m && m->op->lower && m->n_in == 1 && t && t->rank == 1 &&
                   t->dim[0] == ENTRIES
               ? m
               : NULL;
}

/* The profile in which the row of r has the words of r. */
static qg_status edited_profile(const qg_device *d, qg_arena *a, const qg_recipe *r,
                                qg_profile *out)
{
    const qg_profile *own = d->exe.program->profile;
    qg_profile_row *row = QG_NEWN(a, own->n_row, qg_profile_row);
    if (!row)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < own->n_row; i++) {
        row[i] = own->row[i];
        if (strcmp(row[i].id, r->row.id) != 0)
            continue;
        row[i].form = r->row.form;
        row[i].rounding = r->row.rounding;
        row[i].requant = r->row.requant;
    }
    *out = *own;
    out->row = row;
    return QG_OK;
}

/* The profile of one row: every function in floats, rounded as floats become codes. */
static qg_status float_profile(const qg_device *d, qg_arena *a, const qg_recipe *r,
                               qg_profile *out)
{
    const qg_profile *own = d->exe.program->profile;
    qg_profile_types t = { QG_F32, QG_NODTYPE, r->out.dtype };
    const qg_profile_row *quantize =
        qg_profile_find(own, QG_USE_QUANTIZE, t, (qg_profile_ratios){ 0, 0 });
    qg_profile_row *row = QG_NEW(a, qg_profile_row);
    if (!row)
        return qg_nomem(d->ctx);
    *row = (qg_profile_row){ .id = "quantize",
                             .why = "",
                             .source = "",
                             .file = "",
                             .uses = UINT64_MAX,
                             .ratio_high = INFINITY,
                             .form = QG_FORM_FLOAT_TABLE,
                             .rounding =
                                 quantize ? quantize->rounding : QG_ROUND_HALF_EVEN };
    *out = *own;
    out->row = row;
    out->n_row = 1;
    return QG_OK;
}

/* The table that m makes with the grids of r by profile p, in `to`; *out stays NULL
 * when it refuses. */
static qg_status lower_table(const qg_node *m, const qg_recipe *r, const qg_profile *p,
                             qg_graph *to, const qg_tensor **out)
{
    const char *name[1] = { "table_output" };
    qg_lower_in in[1] = { { .stored = r->in[0] } };
    qg_value *made[1] = { NULL };
    qg_lower l = { .ctx = to->ctx,
                   .profile = p,
                   .from = to,
                   .node = m,
                   .in = in,
                   .out = &r->out,
                   .name = name,
                   .snapshot = qg_output_tqc(m, 0) != NULL,
                   .low = -INFINITY,
                   .high = INFINITY,
                   .attr = m->attr,
                   .n_attr = m->n_attr,
                   .to = to,
                   .made = made };
    QG_TRY(qg_graph_add_prefixed(to, "table_input", &in[0].value));
    qg_tensor_init(&in[0].value->type, r->in[0].dtype, 1, (int64_t[]){ ENTRIES });
    QG_TRY(m->op->lower(&l));
    if (l.refusal == qg_lower_starved)
        return qg_nomem(to->ctx);
    if (!l.refusal && made[0]->def->n_in == 2 && made[0]->def->in[1])
        *out = made[0]->def->in[1]->constant;
    return QG_OK;
}

/* The program's own way first, then that of an island. */
static qg_status find_table(const qg_device *d, const qg_node *m, const qg_recipe *r,
                            qg_graph *to, const qg_tensor **out)
{
    qg_profile p;
    *out = NULL;
    QG_TRY(edited_profile(d, to->arena, r, &p));
    QG_TRY(lower_table(m, r, &p, to, out));
    if (*out)
        return QG_OK;
    QG_TRY(float_profile(d, to->arena, r, &p));
    QG_TRY(lower_table(m, r, &p, to, out));
    return *out ? QG_OK : QG_EUNSUPPORTED;
}

static qg_status renew_table(const qg_device *d, qg_graph *g, qg_node *n,
                             const qg_node *m)
{
    qg_recipe r;
    qg_graph *to;
    const qg_tensor *t;
    qg_tensor *own;
    QG_TRY(qg_recipe_read(d->ctx, n, &r));
    QG_TRY(qg_graph_new(d->ctx, "table", &to));
    qg_status s = find_table(d, m, &r, to, &t);
    if (s == QG_OK)
        s = qg_tensor_clone(d->ctx, g->arena, t, &own);
    if (s == QG_OK)
        s = qg_edit_give_constant(g, n, 1, "table", own);
    qg_graph_free(to);
    return s;
}

/* --- edits --- */

qg_status qg_kernel_edit(const qg_device *d, qg_graph *g, qg_node *n,
                         const qg_recipe_edit *e)
{
    QG_TRY(qg_recipe_change(g, n, e));
    const qg_node *m = function_of(d, n);
    return m ? renew_table(d, g, n, m) : QG_OK;
}

qg_status qg_kernel_read_grid(const qg_device *d, qg_graph *g, qg_node *n, uint32_t k,
                              const qg_stored *grid)
{
    qg_recipe r;
    qg_recipe_edit e = { 0 };
    if (!qg_attr_has(n, "row") || qg_recipe_read(d->ctx, n, &r) != QG_OK ||
        !r.in[k].codes)
        return QG_OK; /* it moves codes, whatever their grid */
    e.in[k] = grid;
    QG_TRY(qg_refusal(qg_kernel_edit(d, g, n, &e))); /* refused: the table stays */
    return k == 0 ? rescale_bias(d, g, n, grid->scale[0], &r.in[1]) : QG_OK;
}

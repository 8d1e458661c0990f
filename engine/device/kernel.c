#include "engine/device/kernel.h"

#include <math.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/tensor_memory.h"
#include "engine/lower/program.h"
#include "engine/number/round.h"
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
        b->i32[i] =
            qg_lower_bias_code(qg_input_tqc(m, (uint32_t)slot), v->constant->f32[i],
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
        qg_profile_find(own, QG_USE_QUANTIZE, t, (qg_profile_grids){ 0 });
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

/* --- nodes behind --- */

qg_status qg_kernel_append(qg_graph *g, const qg_recipe *r)
{
    qg_value *v = g->output.at[0], *out;
    qg_lower_node spec = { .op = "IntRescale",
                           .name = qg_lower_node_name(g, g, r->row.id),
                           .recipe = r,
                           .in = &v,
                           .n_in = 1,
                           .output = qg_lower_value_name(g, g, r->row.id) };
    if (!spec.name || !spec.output)
        return qg_nomem(g->ctx);
    QG_TRY(qg_lower_add(g, &spec, &out));
    qg_node *n = out->def;
    QG_TRY(qg_edit_replace_value(g, v, out));
    QG_TRY(qg_edit_set_input(g, n, 0, v));
    QG_TRY(qg_graph_normalize(g));
    return qg_infer(g, NULL, 0);
}

/* --- the grid of the output --- */

/* The code of a limit, a real value, within those of the type. */
static int32_t limit_code(double limit, float scale, int32_t zero, qg_code_range all)
{
    double q = zero + qg_round_f64(QG_ROUND_HALF_AWAY, limit / (double)scale);
    return q < all.lo ? all.lo : q > all.hi ? all.hi : (int32_t)q;
}

/* A limit that is not the type's moves with the grid; one that is can be that of a
 * clamp, as for a Relu whose zero is the lowest code. */
static void move_limits(const qg_stored *own, const qg_node *clamp, qg_code_range all,
                        qg_stored *out)
{
    double scale = (double)own->scale[0];
    float low = -INFINITY, high = INFINITY;
    if (clamp)
        (void)qg_node_clamps(clamp, &low, &high);
    double least = own->low > all.lo ? (own->low - own->zero[0]) * scale : (double)low;
    double most =
        own->high < all.hi ? (own->high - own->zero[0]) * scale : (double)high;
    out->low = limit_code(least, out->scale[0], out->zero[0], all);
    out->high = limit_code(most, out->scale[0], out->zero[0], all);
}

/* The grid of the codes that n, the last node of c, moves: that on which its input is
 * read, or the program's own where another kernel of c makes it.  codes false: none. */
static qg_stored moved_grid(const qg_device *d, const qg_cut *c,
                            const qg_device_step *s, const qg_node *n)
{
    const qg_value *in = n->n_in && n->in[0] ? n->in[0] : NULL;
    for (size_t i = 0; in && i < c->n_in; i++) {
        const qg_pair *p = &d->pair[d->model[c->in[i]->id]];
        if (strcmp(c->in[i]->name, in->name) == 0 && p->array && p->other)
            return p->grid;
    }
    return *s->stored;
}

static qg_status rescale(const qg_device *d, const qg_cut *c, const qg_stored *from,
                         const qg_stored *to)
{
    float ratio = from->scale[0] / to->scale[0];
    const qg_profile_row *row =
        qg_profile_find(d->exe.program->profile, QG_USE_RESCALE,
                        (qg_profile_types){ from->dtype, QG_NODTYPE, to->dtype },
                        (qg_profile_grids){ .least = ratio, .most = ratio });
    if (!row)
        return QG_EUNSUPPORTED;
    qg_recipe r = { .row = *row, .in = { *from }, .out = *to };
    return qg_kernel_append(c->graph, &r);
}

qg_status qg_kernel_give_grid(const qg_device *d, const qg_cut *c,
                              const qg_device_step *s, float scale, int32_t zero)
{
    qg_node *n = c->graph->output.at[0]->def;
    qg_recipe r;
    qg_stored own = *s->stored;
    bool row = n && qg_attr_has(n, "row");
    if (row)
        QG_TRY(qg_recipe_read(c->graph->ctx, n, &r));
    if (!n || (row && !r.out.codes) || !own.codes || own.n != 1)
        return QG_EUNSUPPORTED;
    own = row ? r.out : moved_grid(d, c, s, n);
    qg_code_range all = qg_code_range_of(own.dtype, 0);
    qg_stored out = own;
    if (zero < all.lo || zero > all.hi || !(scale > 0))
        return QG_EUNSUPPORTED;
    out.scale = &scale;
    out.zero = &zero;
    move_limits(&own, s->value->def, all, &out);
    if (row)
        return qg_kernel_edit(d, c->graph, n, &(qg_recipe_edit){ .out = &out });
    return own.scale[0] == scale && own.zero[0] == zero ? QG_OK
                                                        : rescale(d, c, &own, &out);
}

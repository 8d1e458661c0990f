#include "engine/formats/quantizers.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/formats/fake_quantize.h"
#include "engine/formats/mqbench/operators.h"
#include "engine/formats/qonnx/quant.h"
#include "engine/formats/qoperator.h"
#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/quant/tqc_check.h"

typedef struct folder {
    enum qg_quantizers which;
    qg_graph *g;
    qg_ctx *ctx;
    qg_arena *arena;      /* the graph's */
    qg_node **node;       /* [n] as they were numbered before the graph shrank */
    qg_record_plan *plan; /* [n] by that number */
    size_t n;
    uint32_t *first; /* [nodes now] number of before */
    qg_quant *quant;
} folder;

/* One quantizer: value in, rounded values out, operators to take out. */
typedef struct quantizer {
    qg_node *head;
    qg_value *x;
    QG_VEC(qg_node *) tail; /* DequantizeLinear after the head; none for others */
} quantizer;

/* --- plans --- */

/* The place for a grid at an endpoint. */
static qg_status plan_at(folder *f, qg_endpoint at, const qg_grid_record ***out)
{
    const qg_node *n = at.node;
    assert(n->id < f->n && f->node[n->id] == n); /* nothing is renumbered yet */
    return qg_record_plan_at(f->g, &f->plan[n->id], at, out);
}

/* Why the readers of v cannot each have the grid in their slot; NULL: they can. */
static const char *readers_refuse(const folder *f, const qg_value *v)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        uint32_t slot = v->use.at[i].slot;
        if (qg_node_has(n, QG_OP_QUANTIZER))
            return "another quantizer reads it";
        if (slot >= n->n_in - n->n_capture || qg_node_has(n, QG_OP_CONTROL))
            return "a control operator reads it";
        if (qg_record_planned(&f->plan[n->id], qg_input_at(n, slot)))
            return "its reader is already quantized";
    }
    return NULL;
}

/* The rounded values, read in place of x. */
static qg_value *result_of(const quantizer *z, size_t i)
{
    return z->tail.n ? z->tail.at[i]->out[0] : z->head->out[0];
}

static size_t count_results(const quantizer *z) { return z->tail.n ? z->tail.n : 1; }

/* Nobody sees x unrounded, so the rounding can be its producer's. */
static bool rounds_at_producer(const folder *f, const quantizer *z)
{
    const qg_value *x = z->x;
    return x->def && x->use.n == 1 && !x->is_output &&
           !qg_node_has(x->def, QG_OP_CONTROL | QG_OP_QUANTIZER) &&
           !qg_record_planned(&f->plan[x->def->id], qg_output_at(x->def, x->def_slot));
}

/* Why it must stay; NULL: it can be folded. */
static const char *cannot_fold(const folder *f, const quantizer *z)
{
    size_t outputs = 0;
    const char *why = NULL;
    bool producer = rounds_at_producer(f, z);
    for (size_t i = 0; i < count_results(z) && !why; i++) {
        const qg_value *r = result_of(z, i);
        outputs += r->is_output;
        why = producer ? NULL : readers_refuse(f, r);
    }
    if (!why && outputs && (!producer || outputs > 1))
        why = "its result is an output of the network";
    return why;
}

/* --- folding one --- */

static qg_status plan_readers(folder *f, const qg_value *v, const qg_grid_record *grid)
{
    const qg_grid_record **at;
    assert(grid->param.n > 0);
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_use *u = &v->use.at[i];
        QG_TRY(plan_at(f, qg_input_at(u->node, u->slot), &at));
        *at = grid;
    }
    return QG_OK;
}

/* Of the two names the shorter stays: exporters lengthen one or the other. */
static qg_status take_out(folder *f, qg_node *n, qg_value *x)
{
    qg_value *r = n->out[0];
    QG_TRY(qg_edit_replace_value(f->g, r, x));
    if (!x->is_input && !x->is_output && strlen(r->name) < strlen(x->name))
        qg_value_swap_names(f->g, r, x);
    qg_edit_remove_node(f->g, n);
    return QG_OK;
}

/* Whether r, which becomes a constant made of x, takes the name of x as well: that of
 * codes, or the shorter one, when nobody else reads x. */
static bool takes_name(const qg_value *x, const qg_value *r)
{
    bool codes = x->constant->dtype != QG_F32;
    return x->use.n == 1 && !x->is_output && !r->is_output &&
           (codes || strlen(x->name) < strlen(r->name));
}

/* The grid of a constant that is rounded: its floats are whole steps up to their last
 * bit, which a directed mode would take for a step less or more. */
static const qg_grid_record *grid_of_rounded(folder *f, const qg_grid_record *grid)
{
    if (grid->scheme.rounding != QG_ROUND_UP && grid->scheme.rounding != QG_ROUND_DOWN)
        return grid;
    qg_grid_record *nearest = QG_NEW(f->arena, qg_grid_record);
    if (!nearest)
        return NULL;
    *nearest = *grid;
    nearest->scheme.rounding = QG_ROUND_HALF_EVEN;
    return nearest;
}

/* A constant on its grid in place of the result of n: codes become the floats that they
 * stand for, floats are rounded.  n goes. */
static qg_status fold_constant(folder *f, qg_node *n, qg_value *x,
                               const qg_grid_record *grid)
{
    qg_value *r = n->out[0];
    const qg_grid_record *kept = grid_of_rounded(f, grid);
    qg_tensor *t = QG_NEW(f->arena, qg_tensor);
    if (!t || !kept)
        return qg_nomem(f->ctx);
    qg_tensor_init(t, QG_F32, x->constant->rank, x->constant->dim);
    QG_TRY(qg_tensor_alloc(f->ctx, f->arena, t));
    if (qg_tensor_count(t))
        QG_TRY((x->constant->dtype == QG_F32 ? qg_fake_quantize : qg_dequantize)(
            f->ctx, n->name, &grid->scheme, &grid->param, x->constant, t));
    QG_TRY(plan_readers(f, r, kept));
    if (takes_name(x, r))
        qg_value_swap_names(f->g, x, r);
    QG_TRY(qg_edit_make_constant(f->g, r, t));
    qg_edit_remove_node(f->g, n);
    return QG_OK;
}

/* Plans first, while the readers are still there; then the operators go. */
static qg_status fold(folder *f, const quantizer *z, const qg_grid_record *grid)
{
    const qg_grid_record **at;
    bool constant = z->x->constant;
    if (rounds_at_producer(f, z)) {
        QG_TRY(plan_at(f, qg_output_at(z->x->def, z->x->def_slot), &at));
        *at = grid;
    } else {
        for (size_t i = 0; i < count_results(z) && !constant; i++)
            QG_TRY(plan_readers(f, result_of(z, i), grid));
    }
    for (size_t i = 0; i < z->tail.n; i++)
        QG_TRY(constant ? fold_constant(f, z->tail.at[i], z->x, grid)
                        : take_out(f, z->tail.at[i], z->x));
    if (z->tail.n == 0)
        return constant ? fold_constant(f, z->head, z->x, grid)
                        : take_out(f, z->head, z->x);
    qg_edit_remove_node(f->g, z->head);
    return QG_OK;
}

/* Operators that exist in the files of one tool only. */
static bool is_foreign(const qg_op *op) { return qg_is_mqbench(op) || qg_is_qonnx(op); }

static qg_status keep_operator(const folder *f, const qg_node *n, const char *why)
{
    if (is_foreign(n->op))
        return qg_fail(f->ctx, QG_EUNSUPPORTED,
                       "import: node '%.1000s' (%s): %s, expected a quantizer that can "
                       "become a record",
                       n->name, n->op->name, why);
    qg_warn(f->ctx, "import: node '%.1000s' (%s) stays an operator: %s", n->name,
            n->op->name, why);
    return QG_OK;
}

/* --- finding --- */

/* Equal schemes and parameters, bit for bit. */
static bool same_record(const qg_grid_record *a, const qg_grid_record *b)
{
    assert(a->param.offset && b->param.offset);
    size_t n = a->param.n;
    return qg_scheme_same(&a->scheme, &b->scheme) && n == b->param.n &&
           memcmp(a->param.scale, b->param.scale, n * sizeof(float)) == 0 &&
           memcmp(a->param.offset, b->param.offset, n * sizeof(int32_t)) == 0;
}

/* Every reader of the codes is a DequantizeLinear on the same grid. */
static qg_status find_tail(folder *f, quantizer *z, const qg_grid_record *grid,
                           const char **why)
{
    const qg_value *codes = z->head->out[0];
    *why = codes->is_output ? "its codes are an output of the network"
           : codes->use.n   ? NULL
                            : "it has no readers";
    for (size_t i = 0; i < codes->use.n && !*why; i++) {
        qg_node *n = codes->use.at[i].node;
        qg_grid_record other;
        if (codes->use.at[i].slot != 0 || !qg_is_dequantize_linear(n)) {
            *why = "an integer operator reads its codes";
            return QG_OK;
        }
        QG_TRY(qg_grid_of_linear(f->g, n, codes->type.dtype, &n->out[0]->type, &other,
                                 why));
        if (!*why && !same_record(grid, &other))
            *why = "its codes are read with another scale";
        QG_TRY(qg_vec_push(f->ctx, f->arena, &z->tail, n));
    }
    return QG_OK;
}

static bool rounded_by_producer(const folder *f, const qg_value *x,
                                const qg_grid_record *grid)
{
    const qg_record_plan *p = x->def ? &f->plan[x->def->id] : NULL;
    return p && p->out && p->out[x->def_slot] && same_record(p->out[x->def_slot], grid);
}

/* A pair, or one QuantizeLinear with many readers. */
static qg_status visit_quantize(folder *f, qg_node *n)
{
    qg_grid_record *grid = QG_NEW(f->arena, qg_grid_record);
    quantizer z = { .head = n, .x = n->in[0] };
    const char *why;
    if (!grid)
        return qg_nomem(f->ctx);
    QG_TRY(
        qg_grid_of_linear(f->g, n, n->out[0]->type.dtype, &n->in[0]->type, grid, &why));
    if (!why)
        QG_TRY(find_tail(f, &z, grid, &why));
    if (!why)
        why = cannot_fold(f, &z);
    if (why && grid->param.n && rounded_by_producer(f, z.x, grid))
        return QG_OK; /* it is exact */
    return why ? keep_operator(f, n, why) : fold(f, &z, grid);
}

/* The rounding of codes is unknown: as the others of the file, where possible. */
static qg_rounding rounding_of(const folder *f, const qg_scheme *s)
{
    bool level = f->which == QG_QUANTIZERS_OPENVINO && s->policy & QG_LINEAR &&
                 s->qmax - s->qmin < QG_LEVELS;
    return level ? QG_ROUND_HALF_EVEN_LEVEL : QG_ROUND_HALF_EVEN;
}

/* int32 codes that floats cannot hold: from 2^24 on, or 2^23 for some scales. */
static const char *codes_refuse(const qg_tensor *codes, const qg_grid_record *grid)
{
    int64_t inner = 1, n = (int64_t)grid->param.n;
    for (int32_t d = grid->scheme.axis + 1; n > 1 && d < codes->rank; d++)
        inner *= codes->dim[d];
    for (int64_t i = 0; codes->dtype == QG_I32 && i < qg_tensor_count(codes); i++) {
        float scale = grid->param.scale[i / inner % n];
        float x = (float)codes->i32[i] * scale;
        if (round((double)x / (double)scale) != codes->i32[i])
            return "it has a code that float32 cannot hold";
    }
    return NULL;
}

/* Only quantizers read its result: they become the records. */
static bool is_read_by_quantizer(const qg_node *n)
{
    const qg_value *r = n->out[0];
    return r->use.n == 1 && qg_is_quantize_linear(r->use.at[0].node);
}

/* Behind a QuantizeLinear it has been dealt with, one way or the other. */
static qg_status visit_dequantize(folder *f, qg_node *n)
{
    qg_grid_record *grid = QG_NEW(f->arena, qg_grid_record);
    const qg_tensor *codes = n->in[0]->constant;
    const char *why;
    if (!grid)
        return qg_nomem(f->ctx);
    if (!codes)
        return is_read_by_quantizer(n) ||
                       (n->in[0]->def && qg_is_quantize_linear(n->in[0]->def))
                   ? QG_OK
                   : keep_operator(f, n, "its codes are computed");
    QG_TRY(qg_grid_of_linear(f->g, n, codes->dtype, &n->out[0]->type, grid, &why));
    if (!why && n->out[0]->is_output)
        why = "its result is an output of the network";
    if (!why)
        why = readers_refuse(f, n->out[0]);
    if (!why)
        why = codes_refuse(codes, grid);
    if (!why)
        grid->scheme.rounding = (uint8_t)rounding_of(f, &grid->scheme);
    return why ? keep_operator(f, n, why) : fold_constant(f, n, n->in[0], grid);
}

/* Rounds by itself: one node in, one value out. */
static qg_status visit_fake(folder *f, qg_node *n)
{
    qg_grid_record *grid = QG_NEW(f->arena, qg_grid_record);
    quantizer z = { .head = n, .x = n->in[0] };
    const char *why;
    if (!grid)
        return qg_nomem(f->ctx);
    QG_TRY(qg_is_mqbench(n->op) ? qg_grid_of_mqbench(f->g, n, grid, &why)
           : qg_is_qonnx(n->op) ? qg_grid_of_qonnx(f->g, n, grid, &why)
                                : qg_grid_of_fake(f->g, n, grid, &why));
    if (!why)
        why = cannot_fold(f, &z);
    return why ? keep_operator(f, n, why) : fold(f, &z, grid);
}

static qg_status visit_openvino(folder *f, qg_node *n)
{
    if (qg_is_fake_quantize(n->op))
        return visit_fake(f, n);
    return qg_is_dequantized_constant(n) ? visit_dequantize(f, n) : QG_OK;
}

static qg_status refuse_in_bodies(const folder *f, const qg_node *n);

static qg_status refuse_in_graph(const folder *f, const qg_graph *body)
{
    for (size_t i = 0; i < body->node.n; i++) {
        const qg_node *n = body->node.at[i];
        QG_TRY(is_foreign(n->op)
                   ? keep_operator(f, n, "it is in the body of a control operator")
                   : refuse_in_bodies(f, n));
    }
    return QG_OK;
}

/* Records are of the outer graph; bodies nest as deep as the file's reader allows. */
static qg_status refuse_in_bodies(const folder *f, const qg_node *n)
{
    for (size_t i = 0; i < n->n_attr; i++) {
        const qg_attr *a = &n->attr[i];
        bool bodies = a->type == QG_ATTR_GRAPH || a->type == QG_ATTR_GRAPHS;
        for (size_t k = 0; bodies && k < a->count; k++)
            QG_TRY(refuse_in_graph(f, a->graphs[k]));
    }
    return QG_OK;
}

static qg_status visit_foreign(folder *f, qg_node *n)
{
    return is_foreign(n->op) ? visit_fake(f, n) : refuse_in_bodies(f, n);
}

/* In order of execution; nodes that die on the way are skipped. */
static qg_status visit_all(folder *f)
{
    for (size_t i = 0; i < f->n; i++) {
        qg_node *n = f->node[i];
        if (n->dead || !n->n_out || !n->out[0])
            continue;
        if (f->which == QG_QUANTIZERS_OPENVINO) {
            QG_TRY(visit_openvino(f, n));
        } else if (f->which == QG_QUANTIZERS_MQBENCH ||
                   f->which == QG_QUANTIZERS_QONNX) {
            QG_TRY(visit_foreign(f, n));
        } else if (qg_is_quantize_linear(n)) {
            QG_TRY(visit_quantize(f, n));
        } else if (qg_is_dequantize_linear(n)) {
            QG_TRY(visit_dequantize(f, n));
        }
    }
    return QG_OK;
}

/* The graph shrinks: plans are found by the number that a node had. */
static qg_status shrink(folder *f)
{
    size_t removed;
    QG_TRY(qg_graph_sweep(f->g, &removed));
    QG_TRY(qg_infer(f->g, NULL, 0));
    f->first = QG_NEWN(f->arena, f->g->node.n, uint32_t);
    if (!f->first)
        return qg_nomem(f->ctx);
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t now = f->node[i]->id;
        if (now < f->g->node.n && f->g->node.at[now] == f->node[i])
            f->first[now] = i;
    }
    return QG_OK;
}

qg_status qg_quantizers_fold(qg_graph *g, enum qg_quantizers which, const char *name,
                             qg_quant **out)
{
    if (which == QG_QUANTIZERS_ONNX || which == QG_QUANTIZERS_WRITTEN)
        QG_TRY(qg_qoperator_expand(g, which == QG_QUANTIZERS_ONNX));
    folder f = {
        .which = which, .g = g, .ctx = g->ctx, .arena = g->arena, .n = g->node.n
    };
    f.node = QG_NEWN(g->arena, f.n, qg_node *);
    f.plan = QG_NEWN(g->arena, f.n, qg_record_plan);
    if (!f.node || !f.plan)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < f.n; i++)
        f.node[i] = g->node.at[i];
    QG_TRY(visit_all(&f));
    QG_TRY(shrink(&f));
    QG_TRY(qg_import_quant(g, name, NULL, &f.quant));
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(qg_import_node(f.quant, g->node.at[i],
                              &f.plan[f.first[g->node.at[i]->id]]));
    assert(f.quant->graph == g);
    QG_TRY(qg_check_graph(g->ctx, g, QG_CHECK_ALL));
    QG_TRY(qg_check_tqcs(g->ctx, f.quant, QG_CHECK_ALL));
    *out = f.quant;
    return QG_OK;
}

static qg_status read_graph(qg_import *i, const qg_op *operators)
{
    const qg_registry *usual = i->ctx->registry;
    if (operators)
        i->ctx->registry = qg_registry_with(usual, operators, i->ctx->arena);
    qg_status s = i->ctx->registry ? qg_import_graph(i, i->path) : qg_nomem(i->ctx);
    i->ctx->registry = usual;
    return s;
}

qg_status qg_quantizers_import(qg_import *i, enum qg_quantizers which, const char *name,
                               const qg_op *operators)
{
    QG_TRY(read_graph(i, operators));
    QG_TRY(qg_quantizers_fold(i->graph, which, name, &i->quant));
    if (i->quant->tqc.n == 0)
        qg_warn(i->ctx, "import: %s: contains no quantizers of format %s", i->path,
                name);
    return QG_OK;
}

/* control.c -- If, Loop and Scan.  Source: If-1, Loop-1, Scan-9 of the ONNX operator
 * pages; sequences and optionals are refused on import.
 *
 * Their infer computes the types common to all runs; their run determines the rest
 * (op.h, `results`). */
#include "ops/families.h"

#include "engine/core/vec.h"
#include "ops/util_axis.h"
#include "ops/util_body.h"
#include "ops/util_broadcast.h"

/* *t = the common part of two tensors' types: unknown where they differ.  False when
 * the element types differ; a type unknown to inference matches any. */
static bool merge_types(qg_tensor *t, const qg_tensor *other)
{
    if (t->dtype == QG_NODTYPE)
        t->dtype = other->dtype;
    if (other->dtype != QG_NODTYPE && other->dtype != t->dtype)
        return false;
    if (t->rank != other->rank || t->rank < 0) {
        qg_tensor_unknown(t, t->dtype);
        return true;
    }
    for (int32_t i = 0; i < t->rank; i++)
        if (t->dim[i] != other->dim[i])
            t->dim[i] = -1;
    qg_tensor_set_plain(t);
    return true;
}

/* The single boolean in a tensor. */
static qg_status read_bool(const qg_call *k, const qg_tensor *t, const char *what,
                           bool *out)
{
    if (t->dtype != QG_BOOL || qg_tensor_count(t) != 1)
        return qg_run_fail(k, QG_EMODEL,
                           "%s has %lld elements of %s, expected one bool", what,
                           (long long)qg_tensor_count(t), qg_dtype_name(t->dtype));
    *out = t->u8[0] != 0;
    return QG_OK;
}

/* Arity lets control nodes have absent inputs, which only the first two of Loop may
 * be. */
static qg_status all_present(const qg_call *k, size_t first)
{
    for (size_t i = first; i < k->n_in; i++)
        if (!k->in[i])
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent, expected a value",
                                 i);
    return QG_OK;
}

/* If: input 0 selects the body that computes all outputs. */
typedef struct if_param {
    qg_graph *body[2]; /* else, then */
} if_param;

/* Both bodies compute all outputs of the node. */
static qg_status if_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    if_param *p = param;
    QG_TRY(qg_body_attr(ctx, n, "else_branch", 0, n->n_out, &p->body[0]));
    return qg_body_attr(ctx, n, "then_branch", 0, n->n_out, &p->body[1]);
}

/* With a constant condition the output type is that of the branch taken, else the
 * common part of both. */
static qg_status if_infer(const qg_call *k)
{
    const if_param *p = k->param;
    const qg_tensor *condition = k->in[0];
    bool taken = true;
    qg_status s[2];
    QG_TRY(all_present(k, 0));
    QG_TRY(qg_check_type(k, 0, QG_DT(BOOL)));
    const bool decided = condition->data != NULL;
    if (decided)
        QG_TRY(read_bool(k, condition, "the condition", &taken));
    /* A branch that no shapes fit cannot be run: the other one is taken. */
    for (int i = 0; i < 2; i++) {
        s[i] = qg_body_infer(k, p->body[i], NULL);
        if (qg_is_nomem(s[i]) || (decided && taken == (i == 1) && s[i] != QG_OK))
            return s[i];
    }
    if (s[0] != QG_OK && s[1] != QG_OK)
        return s[1];
    bool only = s[0] != QG_OK || s[1] != QG_OK;
    if (only)
        taken = s[1] == QG_OK;
    for (size_t i = 0; i < k->n_out; i++) {
        qg_tensor y = p->body[taken]->output.at[i]->type, both = y;
        if (only) {
            qg_set_out(k, i, y.dtype, y.rank, y.dim);
            continue;
        }
        const qg_tensor *other = &p->body[!taken]->output.at[i]->type;
        if (!merge_types(&both, other))
            return qg_infer_fail(k, QG_EMODEL,
                                 "output %zu is %s or %s, expected one type", i,
                                 qg_dtype_name(y.dtype), qg_dtype_name(other->dtype));
        if (!decided || y.dtype == QG_NODTYPE)
            y = both;
        qg_set_out(k, i, y.dtype, y.rank, y.dim);
    }
    return QG_OK;
}

/* Only the chosen body runs. */
static qg_status if_run_in(const qg_call *k, qg_body_room *room)
{
    bool taken;
    QG_TRY(read_bool(k, k->in[0], "the condition", &taken));
    const qg_graph *body = ((const if_param *)k->param)->body[taken];
    const qg_tensor **out = QG_NEWN(k->scratch, k->n_out, const qg_tensor *);
    if (!out)
        return qg_nomem(k->ctx);
    QG_TRY(qg_body_run(room, body, NULL, out));
    for (size_t i = 0; i < k->n_out; i++)
        QG_TRY(qg_result_copy(k, i, out[i]));
    return QG_OK;
}

/* The room is released on success and failure. */
static qg_status in_room(const qg_call *k,
                         qg_status (*run)(const qg_call *, qg_body_room *))
{
    qg_body_room room;
    qg_status s = qg_body_begin(k, &room);
    if (s == QG_OK)
        s = run(k, &room);
    qg_body_end(&room);
    return s;
}

static qg_status if_run(const qg_call *k) { return in_room(k, if_run_in); }

/* Shared by Loop and Scan: values carried from turn to turn, and slices collected into
 * outputs. */
typedef struct loop_param {
    qg_graph *body;
    size_t n_carried, n_slices; /* the node's outputs, in this order */
    size_t n_scanned;           /* Scan: inputs cut into slices */
    qg_ints in_axes, out_axes, in_backward, out_backward; /* Scan; n may be 0 */
} loop_param;

/* Slices of one output, turn by turn; they live in the node's scratch. */
typedef struct slices {
    const qg_tensor *first;
    QG_VEC(const qg_tensor *) each;
} slices;

/* Stores a copy of t, which must have the type and dims of the first. */
static qg_status collect(const qg_call *k, size_t slot, slices *s, const qg_tensor *t)
{
    qg_tensor *copy;
    if (!qg_out(k, slot))
        return QG_OK;
    if (s->first && (t->dtype != s->first->dtype || !qg_same_dims(t, s->first)))
        return qg_run_fail(k, QG_EDATA,
                           "output %zu changes its shape between iterations", slot);
    QG_TRY(qg_tensor_clone(k->ctx, k->scratch, t, &copy));
    s->first = s->first ? s->first : copy;
    return qg_vec_push(k->ctx, k->scratch, &s->each, copy);
}

/* The dims of t with n inserted at axis, or those of a substitute when there is no
 * t. */
static qg_status stacked_type(const qg_call *k, const qg_tensor *t, int64_t axis,
                              int64_t n, qg_tensor *y)
{
    int64_t dim[QG_MAX_RANK + 1];
    if (t->rank == QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %d, supported up to %d", QG_MAX_RANK + 1,
                             QG_MAX_RANK);
    int32_t at;
    QG_TRY(qg_check_axis(k, axis, t->rank + 1, &at));
    for (int32_t i = 0, from = 0; i <= t->rank; i++)
        dim[i] = i == at ? n : t->dim[from++];
    qg_tensor_init(y, t->dtype, t->rank + 1, dim);
    return QG_OK;
}

/* Slice i of `whole` along axis: *view has the strides of the whole. */
static void slice_view(const qg_tensor *whole, int32_t axis, int64_t i, qg_tensor *view)
{
    *view = *whole;
    view->rank--;
    for (int32_t d = axis; d < view->rank; d++) {
        view->dim[d] = whole->dim[d + 1];
        view->stride[d] = whole->stride[d + 1];
    }
    view->data = (char *)whole->data +
                 (size_t)(i * whole->stride[axis]) * qg_element_size(whole->dtype);
}

/* Output `slot` = the slices put side by side along axis. */
static qg_status stack(const qg_call *k, size_t slot, const slices *s,
                       const qg_tensor *type, int64_t axis, bool backward)
{
    const int64_t n = (int64_t)s->each.n;
    qg_tensor *y, whole, none = *type, view;
    for (int32_t i = 0; i < none.rank; i++) /* no turn: unknown extents are 0 */
        none.dim[i] = none.dim[i] < 0 ? 0 : none.dim[i];
    if (!s->first && none.rank < 0)
        qg_tensor_init(&none, type->dtype, 0, NULL);
    QG_TRY(stacked_type(k, s->first ? s->first : &none, axis, n, &whole));
    QG_TRY(qg_result(k, slot, &whole, &y));
    for (int64_t i = 0; y && i < n; i++) {
        const int32_t at = (int32_t)(axis < 0 ? axis + y->rank : axis);
        slice_view(y, at, backward ? n - 1 - i : i, &view);
        qg_tensor_copy(s->each.at[i], &view);
    }
    return QG_OK;
}

/* Runs inference of the body until the carried types no longer change: an extent that
 * differs between turns becomes unknown.  in[first ..] are the carried inputs, outputs
 * out_first .. their next values. */
static qg_status infer_carried(const qg_call *k, qg_tensor *in, size_t first,
                               size_t out_first)
{
    const loop_param *p = k->param;
    for (int turn = 0; turn <= 2 * QG_MAX_RANK * (int)p->n_carried + 1; turn++) {
        bool same = true;
        QG_TRY(qg_body_infer(k, p->body, in));
        for (size_t i = 0; i < p->n_carried; i++) {
            const qg_tensor *becomes = &p->body->output.at[out_first + i]->type;
            qg_tensor was = in[first + i];
            if (!merge_types(&in[first + i], becomes))
                return qg_infer_fail(
                    k, QG_EMODEL, "carried value %zu is %s, expected %s", i,
                    qg_dtype_name(becomes->dtype), qg_dtype_name(was.dtype));
            same = same && was.rank == in[first + i].rank &&
                   (was.rank < 0 || qg_same_dims(&was, &in[first + i]));
        }
        if (same)
            return QG_OK;
    }
    return qg_infer_fail(k, QG_EMODEL, "the shapes of carried values do not converge");
}

/* Loop: inputs are the trip count and the condition (either may be absent) and the
 * carried values; the body takes turn number, condition and carried values, and returns
 * condition, carried values and slices. */
static qg_status loop_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    loop_param *p = param;
    const size_t own = qg_own_inputs(n);
    if (own < 2 || n->n_out < own - 2)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "%zu inputs and %u outputs do not fit a Loop", own,
                            n->n_out);
    p->n_carried = own - 2;
    p->n_slices = n->n_out - p->n_carried;
    return qg_body_attr(ctx, n, "body", own, 1 + n->n_out, &p->body);
}

/* Slices have the trip count as a first dim, known only when trip count and
 * condition are. */
static qg_status loop_infer(const qg_call *k)
{
    const loop_param *p = k->param;
    qg_tensor *in = QG_NEWN(k->scratch, p->n_carried + 2, qg_tensor);
    if (!in)
        return qg_nomem(k->ctx);
    QG_TRY(all_present(k, 2));
    QG_TRY(qg_check_type(k, 0, QG_DT(I64)));
    QG_TRY(qg_check_type(k, 1, QG_DT(BOOL)));
    qg_tensor_scalar(&in[0], QG_I64);
    qg_tensor_scalar(&in[1], QG_BOOL);
    for (size_t i = 0; i < p->n_carried; i++)
        in[2 + i] = *k->in[2 + i];
    QG_TRY(infer_carried(k, in, 2, 1));
    for (size_t i = 0; i < p->n_carried; i++)
        qg_set_out(k, i, in[2 + i].dtype, in[2 + i].rank, in[2 + i].dim);
    for (size_t i = p->n_carried; i < k->n_out; i++) {
        qg_tensor y = p->body->output.at[1 + i]->type;
        if (y.rank >= 0)
            QG_TRY(stacked_type(k, &y, 0, -1, &y));
        qg_set_out(k, i, y.dtype, y.rank, y.dim);
    }
    return QG_OK;
}

/* Inputs and outputs of one turn; arrays in the node's scratch. */
typedef struct looping {
    const qg_tensor **in, **out; /* of the body */
    slices *slices;              /* [n_slices] */
} looping;

/* Scratch arrays of one loop; slices grow with the turns. */
static qg_status begin_loop(const qg_call *k, looping *l)
{
    const loop_param *p = k->param;
    l->in = QG_NEWN(k->scratch, p->body->input.n, const qg_tensor *);
    l->out = QG_NEWN(k->scratch, p->body->output.n, const qg_tensor *);
    l->slices = QG_NEWN(k->scratch, p->n_slices, slices);
    return l->in && l->out && l->slices ? QG_OK : qg_nomem(k->ctx);
}

/* Ends after the trip count or when the body's condition is false, whichever is
 * first. */
static qg_status loop_run_in(const qg_call *k, qg_body_room *room)
{
    const loop_param *p = k->param;
    const qg_tensor *trips = qg_in(k, 0), *condition = qg_in(k, 1);
    qg_tensor turn_number, go_on;
    int64_t turn = 0, limit = INT64_MAX;
    bool go = true;
    looping l;
    QG_TRY(begin_loop(k, &l));
    if (trips && qg_elements(trips) != 1)
        return qg_run_fail(k, QG_EMODEL, "the trip count has %zu values, expected 1",
                           qg_elements(trips));
    if (trips)
        limit = trips->i64[0];
    if (condition)
        QG_TRY(read_bool(k, condition, "the condition", &go));
    qg_tensor_scalar(&turn_number, QG_I64);
    qg_tensor_scalar(&go_on, QG_BOOL);
    turn_number.i64 = &turn;
    go_on.b = &go;
    l.in[0] = &turn_number;
    l.in[1] = &go_on;
    for (size_t i = 0; i < p->n_carried; i++)
        l.in[2 + i] = k->in[2 + i];
    for (; go && turn < limit; turn++) {
        QG_TRY(qg_body_run(room, p->body, l.in, l.out));
        QG_TRY(read_bool(k, l.out[0], "the condition of the body", &go));
        for (size_t i = 0; i < p->n_carried; i++)
            l.in[2 + i] = l.out[1 + i];
        for (size_t i = 0; i < p->n_slices; i++)
            QG_TRY(collect(k, p->n_carried + i, &l.slices[i],
                           l.out[1 + p->n_carried + i]));
    }
    for (size_t i = 0; i < p->n_carried; i++)
        QG_TRY(qg_result_copy(k, i, l.in[2 + i]));
    for (size_t i = 0; i < p->n_slices; i++)
        QG_TRY(stack(k, p->n_carried + i, &l.slices[i],
                     &p->body->output.at[1 + p->n_carried + i]->type, 0, false));
    return QG_OK;
}

static qg_status loop_run(const qg_call *k) { return in_room(k, loop_run_in); }

/* Scan: inputs are carried values and tensors to cut into slices; the body takes
 * carried values and one slice of each, and returns carried values and slices. */
static qg_status scan_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    loop_param *p = param;
    const size_t own = qg_own_inputs(n);
    int64_t scanned;
    QG_TRY(qg_attr_int(ctx, n, "num_scan_inputs", 0, &scanned));
    if (scanned < 1 || (size_t)scanned > own || own - (size_t)scanned > n->n_out)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "num_scan_inputs is %lld of %zu inputs with %u outputs",
                            (long long)scanned, own, n->n_out);
    p->n_scanned = (size_t)scanned;
    p->n_carried = own - p->n_scanned;
    p->n_slices = n->n_out - p->n_carried;
    QG_TRY(qg_ints_attr(ctx, n, "scan_input_axes", &p->in_axes));
    QG_TRY(qg_ints_attr(ctx, n, "scan_output_axes", &p->out_axes));
    QG_TRY(qg_ints_attr(ctx, n, "scan_input_directions", &p->in_backward));
    QG_TRY(qg_ints_attr(ctx, n, "scan_output_directions", &p->out_backward));
    const qg_ints *const list[] = { &p->in_axes, &p->in_backward, &p->out_axes,
                                    &p->out_backward };
    for (int i = 0; i < 4; i++)
        if (list[i]->n && list[i]->n != (i < 2 ? p->n_scanned : p->n_slices))
            return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                                "%zu axes or directions, expected %zu", list[i]->n,
                                i < 2 ? p->n_scanned : p->n_slices);
    return qg_body_attr(ctx, n, "body", own, n->n_out, &p->body);
}

/* 0 where the list is absent: the default of every Scan list. */
static int64_t listed(const qg_ints *list, size_t i)
{
    return list->n ? list->at[i] : 0;
}

/* The axis along which scanned input i is cut. */
static qg_status scan_axis(const qg_call *k, size_t i, int32_t *axis)
{
    const loop_param *p = k->param;
    return qg_check_axis(k, listed(&p->in_axes, i), k->in[p->n_carried + i]->rank,
                         axis);
}

/* *turns = the common length of the scanned inputs, -1 when it is not known. */
static qg_status scan_length(const qg_call *k, int64_t *turns)
{
    const loop_param *p = k->param;
    *turns = -1;
    for (size_t i = 0; i < p->n_scanned; i++) {
        int32_t axis;
        QG_TRY(scan_axis(k, i, &axis));
        const int64_t n = k->in[p->n_carried + i]->dim[axis];
        if (n >= 0 && *turns >= 0 && n != *turns)
            return qg_infer_fail(k, QG_EMODEL,
                                 "input %zu has %lld slices, expected %lld",
                                 p->n_carried + i, (long long)n, (long long)*turns);
        *turns = n >= 0 ? n : *turns;
    }
    return QG_OK;
}

/* In the body a scanned input has no scan axis. */
static qg_status scan_infer(const qg_call *k)
{
    const loop_param *p = k->param;
    qg_tensor *in = QG_NEWN(k->scratch, p->body->input.n, qg_tensor);
    int64_t turns;
    if (!in)
        return qg_nomem(k->ctx);
    QG_TRY(all_present(k, 0));
    QG_TRY(qg_check_type(k, p->n_carried, QG_DT_ADDRESSED));
    for (size_t i = 0; i < p->n_scanned; i++)
        if (k->in[p->n_carried + i]->rank < 0)
            return QG_OK; /* its slices are unknown */
    QG_TRY(scan_length(k, &turns));
    for (size_t i = 0; i < p->n_carried; i++)
        in[i] = *k->in[i];
    for (size_t i = 0; i < p->n_scanned; i++) {
        const qg_tensor *x = k->in[p->n_carried + i];
        int32_t axis;
        QG_TRY(scan_axis(k, i, &axis));
        QG_TRY(qg_check_type(k, p->n_carried + i, QG_DT_ADDRESSED));
        int64_t dim[QG_MAX_RANK];
        for (int32_t d = 0, to = 0; d < x->rank; d++)
            if (d != axis)
                dim[to++] = x->dim[d];
        qg_tensor_init(&in[p->n_carried + i], x->dtype, x->rank - 1, dim);
    }
    QG_TRY(infer_carried(k, in, 0, 0));
    for (size_t i = 0; i < p->n_carried; i++)
        qg_set_out(k, i, in[i].dtype, in[i].rank, in[i].dim);
    for (size_t i = 0; i < p->n_slices; i++) {
        qg_tensor y = p->body->output.at[p->n_carried + i]->type;
        if (y.rank >= 0)
            QG_TRY(stacked_type(k, &y, listed(&p->out_axes, i), turns, &y));
        qg_set_out(k, p->n_carried + i, y.dtype, y.rank, y.dim);
    }
    return QG_OK;
}

/* in[n_carried + i] = slice `turn` of every scanned input, copied to `slice`. */
static qg_status cut_slices(const qg_call *k, int64_t turn, int64_t turns,
                            qg_tensor *slice)
{
    const loop_param *p = k->param;
    for (size_t i = 0; i < p->n_scanned; i++) {
        qg_tensor view;
        int32_t axis;
        QG_TRY(scan_axis(k, i, &axis));
        slice_view(k->in[p->n_carried + i], axis,
                   listed(&p->in_backward, i) ? turns - 1 - turn : turn, &view);
        if (turn == 0) {
            qg_tensor_init(&slice[i], view.dtype, view.rank, view.dim);
            QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &slice[i]));
        }
        qg_tensor_copy(&view, &slice[i]);
    }
    return QG_OK;
}

/* As many turns as the scanned inputs are long. */
static qg_status scan_run_in(const qg_call *k, qg_body_room *room)
{
    const loop_param *p = k->param;
    qg_tensor *slice = QG_NEWN(k->scratch, p->n_scanned, qg_tensor);
    int64_t turns;
    looping l;
    QG_TRY(begin_loop(k, &l));
    QG_TRY(scan_length(k, &turns));
    if (!slice)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < p->n_carried; i++)
        l.in[i] = k->in[i];
    for (size_t i = 0; i < p->n_scanned; i++)
        l.in[p->n_carried + i] = &slice[i];
    for (int64_t turn = 0; turn < turns; turn++) {
        QG_TRY(cut_slices(k, turn, turns, slice));
        QG_TRY(qg_body_run(room, p->body, l.in, l.out));
        for (size_t i = 0; i < p->n_carried; i++)
            l.in[i] = l.out[i];
        for (size_t i = 0; i < p->n_slices; i++)
            QG_TRY(collect(k, p->n_carried + i, &l.slices[i], l.out[p->n_carried + i]));
    }
    for (size_t i = 0; i < p->n_carried; i++)
        QG_TRY(qg_result_copy(k, i, l.in[i]));
    for (size_t i = 0; i < p->n_slices; i++)
        QG_TRY(stack(k, p->n_carried + i, &l.slices[i],
                     &p->body->output.at[p->n_carried + i]->type,
                     listed(&p->out_axes, i), listed(&p->out_backward, i) != 0));
    return QG_OK;
}

static qg_status scan_run(const qg_call *k) { return in_room(k, scan_run_in); }

#define ROW(onnx, first, least, roles, id, par)                                        \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = least, .max_in = 255, .min_out = 0,    \
        .max_out = 255, .in_roles = roles, .traits = QG_OP_CONTROL,                    \
        .param_size = sizeof(par##_param), .prepare = id##_prepare,                    \
        .infer = id##_infer, .run = id##_run                                           \
    }

/* clang-format off */
const qg_op qg_ops_control[] = {
    ROW("If",   1, 1, "sd",  if,   if),
    ROW("Loop", 1, 2, "ssd", loop, loop),
    ROW("Scan", 9, 1, "d",   scan, loop),
    { 0 },
};
/* clang-format on */

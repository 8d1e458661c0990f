#include "engine/ir/infer.h"

#include <assert.h>
#include <string.h>

#include "engine/core/suggest.h"

/* One arena per graph, reused by every inference of it. */
static qg_status begin_known(qg_graph *g)
{
    struct qg_inferred *k = g->inferred;
    if (!k) {
        k = QG_NEW(g->arena, struct qg_inferred);
        if (!k || !(k->arena = qg_arena_new(g->ctx->alloc)))
            return qg_nomem(g->ctx);
        g->inferred = k;
    }
    qg_arena_reset(k->arena);
    k->n = 0;
    return QG_OK;
}

typedef struct symbol {
    int64_t extent; /* -1: open */
    bool assumed;   /* by us: the caller gave none */
} symbol;

/* Symbols of the inputs and the extents given to them so far. */
typedef struct symbols {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_names *names;
    QG_VEC(symbol) symbol; /* by name id */
} symbols;

/* *out points into the vector: valid until the next symbol is entered. */
static qg_status symbol_place(symbols *s, const char *name, symbol **out)
{
    uint32_t id;
    QG_TRY(qg_vec_reserve(s->ctx, s->arena, &s->symbol));
    if (qg_names_add(s->names, name, strlen(name), &id) != QG_OK)
        return qg_nomem(s->ctx);
    if (id == s->symbol.n)
        s->symbol.at[s->symbol.n++] = (symbol){ .extent = -1 };
    *out = &s->symbol.at[id];
    return QG_OK;
}

static bool is_open(const qg_value *v, int32_t k) { return v->open >> k & 1; }

/* Gives extent k of input v, and its symbol, the value d. */
static qg_status fix_dim(symbols *s, qg_value *v, int32_t k, int64_t d)
{
    int64_t was = is_open(v, k) ? -1 : v->type.dim[k];
    assert(k < v->type.rank && v->is_input);
    if (v->dim_name[k]) {
        symbol *y;
        QG_TRY(symbol_place(s, v->dim_name[k], &y));
        was = y->extent;
        y->extent = d;
    }
    v->type.dim[k] = d;
    v->open &= (uint8_t) ~(1u << k);
    if (d < -1)
        return qg_fail(
            s->ctx, QG_ECONFIG,
            "infer: input '%s': dimension %d is requested as %lld, expected -1 or more",
            v->name, k, (long long)d);
    if (was >= 0 && was != d)
        return qg_fail(
            s->ctx, QG_ECONFIG,
            "infer: input '%s': dimension %d is requested as %lld, expected %lld",
            v->name, k, (long long)d, (long long)was);
    return QG_OK;
}

/* Names the only input, or one that is spelled alike. */
static qg_status refuse_input(const qg_graph *g, const char *name)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(name);
    const char *only = g->input.n == 1 ? g->input.at[0]->name : NULL;
    for (size_t i = 0; i < g->input.n; i++)
        qg_suggest_try(&near, g->input.at[i]->name);
    return qg_fail(g->ctx, QG_ECONFIG,
                   "infer: input '%s': no such graph input%s, expected %s%.1000s%s",
                   name, qg_suggest_text(&near, hint),
                   only ? "'" : "an input of the model", only ? only : "",
                   only ? "'" : "");
}

/* Fixes the extents of one input by hand; -1 leaves one as it is. */
static qg_status apply_fixed(qg_graph *g, symbols *s, const qg_fixed_shape *fixed)
{
    qg_value *v = qg_graph_value(g, fixed->input);
    if (!v || !v->is_input)
        return refuse_input(g, fixed->input);
    if (fixed->rank < 0 || fixed->rank > QG_MAX_RANK ||
        (v->type.rank >= 0 && v->type.rank != fixed->rank))
        return qg_fail(g->ctx, QG_ECONFIG,
                       "infer: input '%s': rank %d is requested, expected %d", v->name,
                       fixed->rank, v->type.rank < 0 ? QG_MAX_RANK : v->type.rank);
    if (v->type.rank < 0) {
        static const int64_t open[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
        qg_tensor_init(&v->type, v->type.dtype, fixed->rank, open);
    }
    for (int32_t k = 0; k < fixed->rank; k++)
        if (fixed->dim[k] != -1)
            QG_TRY(fix_dim(s, v, k, fixed->dim[k]));
    return QG_OK;
}

/* A symbol that an earlier call fixed keeps that extent, unless it is fixed anew. */
static qg_status keep_symbols(qg_graph *g, symbols *s)
{
    for (size_t i = 0; i < g->input.n; i++) {
        const qg_value *v = g->input.at[i];
        for (int32_t k = 0; k < v->type.rank; k++) {
            symbol *y;
            if (!v->dim_name[k])
                continue;
            QG_TRY(symbol_place(s, v->dim_name[k], &y));
            if (y->extent < 0) {
                y->extent = v->type.dim[k];
                y->assumed = is_open(v, k);
            }
        }
    }
    return QG_OK;
}

/* Inputs take the extents given to their symbols; unknown first extents are assumed
 * to be 1. */
static qg_status spread_symbols(qg_graph *g, symbols *s)
{
    for (size_t i = 0; i < g->input.n; i++) {
        qg_value *v = g->input.at[i];
        for (int32_t k = 0; k < v->type.rank; k++) {
            symbol own = { v->type.dim[k], is_open(v, k) }, *y = &own;
            if (v->dim_name[k])
                QG_TRY(symbol_place(s, v->dim_name[k], &y));
            if (k == 0 && y->extent < 0)
                *y = (symbol){ .extent = 1, .assumed = true };
            v->type.dim[k] = y->extent;
            v->open &= (uint8_t) ~(1u << k);
            v->open |= (uint8_t)((unsigned)y->assumed << k);
        }
        qg_tensor_set_plain(&v->type);
    }
    return QG_OK;
}

static qg_status fix_inputs(qg_graph *g, symbols *s, const qg_fixed_shape *fixed,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        QG_TRY(apply_fixed(g, s, &fixed[i]));
    QG_TRY(keep_symbols(g, s));
    QG_TRY(spread_symbols(g, s));
    return spread_symbols(g, s); /* again: a later first extent may have fixed one */
}

/* One walk: types and known tensors by value id, and the arrays of the node at hand. */
typedef struct walk {
    qg_ctx *ctx;
    const qg_graph *g;
    qg_arena *keep, *scratch; /* known data; reset after every node */
    qg_tensor *type;
    const qg_tensor **known;
    size_t bytes, moved; /* of known data: computed, and constants moved */
    bool open; /* open extents stay unknown, and so does what cannot be inferred */
    const qg_tensor **in;
    qg_tensor *result, **out;
} walk;

/* Types begin as declared, or as `input` has them, and are replaced as nodes are
 * met. */
static qg_status begin(walk *w, const qg_tensor *input)
{
    const qg_graph *g = w->g;
    w->type = QG_NEWN(w->keep, g->value.n, qg_tensor);
    w->known = QG_NEWN(w->keep, g->value.n, const qg_tensor *);
    if (!w->type || !w->known)
        return qg_nomem(w->ctx);
    for (size_t i = 0; i < g->value.n; i++)
        w->type[i] = g->value.at[i]->type;
    for (size_t i = 0; input && i < g->input.n; i++)
        w->type[g->input.at[i]->id] = input[i];
    return QG_OK;
}

/* The arrays of one node, discarded with the next node. */
static qg_status make_room(walk *w, const qg_node *n)
{
    qg_arena_reset(w->scratch);
    w->in = QG_NEWN(w->scratch, n->n_in, const qg_tensor *);
    w->out = QG_NEWN(w->scratch, n->n_out, qg_tensor *);
    w->result = QG_NEWN(w->scratch, n->n_out, qg_tensor);
    return w->in && w->out && w->result ? QG_OK : qg_nomem(w->ctx);
}

/* The most that is known: a constant, a folded value, or only a type. */
static const qg_tensor *input_of(const walk *w, const qg_value *v)
{
    const qg_tensor *known = w->known[v->id];
    return v->constant ? v->constant : known ? known : &w->type[v->id];
}

/* Fills w->in and clears the results; false when an input has no rank. */
static bool load_inputs(walk *w, const qg_node *n)
{
    bool ranked = true;
    for (uint32_t i = 0; i < n->n_in; i++) {
        w->in[i] = n->in[i] ? input_of(w, n->in[i]) : NULL;
        ranked &= !w->in[i] || w->in[i]->rank >= 0;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        qg_tensor_unknown(&w->result[i], QG_NODTYPE);
        w->out[i] = n->out[i] ? &w->result[i] : NULL;
    }
    return ranked;
}

/* A type that op->infer left open falls back to the declared one; the rank does not. */
static void store_types(walk *w, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!n->out[i])
            continue;
        qg_tensor *t = &w->result[i];
        assert(t->rank >= -1 && t->rank <= QG_MAX_RANK);
        if (t->dtype == QG_NODTYPE)
            t->dtype = n->out[i]->type.dtype;
        t->data = NULL;
        qg_tensor_set_plain(t);
        w->type[n->out[i]->id] = *t;
    }
}

/* The bytes of a constant of which n moves every element, 0 of other nodes. */
static size_t moved_bytes(const walk *w, const qg_node *n)
{
    size_t bytes;
    if (!qg_node_has(n, QG_OP_PASSIVE) || n->n_out != 1 || !n->in[0] ||
        !n->in[0]->constant ||
        qg_tensor_count(&w->result[0]) != qg_tensor_count(n->in[0]->constant) ||
        qg_tensor_bytes(w->ctx, "infer", n->in[0]->constant, &bytes) != QG_OK)
        return 0;
    return bytes;
}

/* Whether the node may be run now, by the rules of infer.h. */
static bool is_foldable(const walk *w, const qg_node *n)
{
    if (!qg_node_has(n, QG_OP_PURE) || qg_node_has(n, QG_OP_COMPUTE | QG_OP_CONTROL) ||
        !n->op->run)
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (w->in[i] && !w->in[i]->data &&
            !(qg_node_has(n, QG_OP_DIMS_ONLY) && qg_tensor_known(w->in[i])))
            return false;
    size_t bytes, sum = moved_bytes(w, n);
    if (sum > 0 && w->moved + sum <= QG_INFER_MOVED)
        return true;
    sum = 0;
    for (uint32_t i = 0; i < n->n_out; i++) {
        int64_t count = qg_tensor_count(&w->result[i]);
        if (!w->out[i])
            continue;
        if (count < 0 || count > QG_INFER_KEEP ||
            !qg_dtype_bytes(w->result[i].dtype, (uint64_t)count, &bytes))
            return false;
        sum += bytes;
    }
    return w->bytes + sum <= QG_INFER_BUDGET;
}

/* Runs a node on known inputs and keeps its outputs as long as the inference is
 * valid. */
static qg_status fold(walk *w, const qg_node *n, const qg_call *call)
{
    size_t *const total = moved_bytes(w, n) ? &w->moved : &w->bytes;
    for (uint32_t i = 0; i < n->n_out; i++) {
        size_t bytes = 0;
        if (!w->out[i])
            continue;
        w->out[i] = QG_NEW(w->keep, qg_tensor);
        if (!w->out[i])
            return qg_nomem(w->ctx);
        *w->out[i] = w->result[i];
        QG_TRY(qg_tensor_alloc(w->ctx, w->keep, w->out[i]));
        QG_TRY(qg_tensor_bytes(w->ctx, "infer", w->out[i], &bytes));
        *total += bytes;
    }
    assert(!qg_node_has(n, QG_OP_CONTROL));
    QG_TRY(n->op->run(call));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (w->out[i])
            w->known[n->out[i]->id] = w->out[i];
    return QG_OK;
}

/* Only the dtypes of op->infer's result: it requires ranks, on which types do not
 * depend, so ranks are tried in place of unknown ones until it accepts one.  QG_ENOMEM
 * is the only failure. */
static qg_status infer_types(walk *w, const qg_node *n, const qg_call *call)
{
    static const int64_t open[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    qg_tensor *guess = QG_NEWN(w->scratch, n->n_in, qg_tensor);
    qg_status s = guess ? QG_EMODEL : QG_ENOMEM;
    for (int32_t rank = 0; rank <= QG_MAX_RANK && s != QG_OK && !qg_is_nomem(s);
         rank++) {
        for (uint32_t i = 0; i < n->n_in; i++) {
            const qg_tensor *x = n->in[i] ? input_of(w, n->in[i]) : NULL;
            if (x && x->rank < 0) {
                qg_tensor_init(&guess[i], x->dtype, rank, open);
                w->in[i] = &guess[i];
            }
        }
        s = n->op->infer(call);
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        qg_tensor_unknown(&w->result[i], s == QG_OK ? w->result[i].dtype : QG_NODTYPE);
    return qg_is_nomem(s) ? s : QG_OK;
}

/* An input without rank makes the shape of every output unknown, except of control
 * operators, whose bodies handle it. */
static qg_status infer_node(walk *w, const qg_node *n)
{
    QG_TRY(make_room(w, n));
    bool ranked = load_inputs(w, n);
    qg_call call = { .ctx = w->ctx,
                     .node = n,
                     .param = n->param,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = w->in,
                     .out = w->out,
                     .scratch = w->scratch };
    qg_status s = !n->op->infer                             ? QG_OK
                  : ranked || qg_node_has(n, QG_OP_CONTROL) ? n->op->infer(&call)
                                                            : infer_types(w, n, &call);
    if (s != QG_OK && (qg_is_nomem(s) || !w->open))
        return s;
    for (uint32_t i = 0; s != QG_OK && i < n->n_out; i++)
        qg_tensor_unknown(&w->result[i], QG_NODTYPE);
    ranked &= s == QG_OK;
    store_types(w, n);
    if (!ranked || !is_foldable(w, n))
        return QG_OK;
    s = fold(w, n, &call);
    bool may_not_run =
        (w->g->outer || w->open) && !qg_is_nomem(s); /* branch not taken */
    return may_not_run ? QG_OK : s;
}

static qg_status infer_nodes(walk *w, const qg_tensor *input)
{
    const qg_graph *g = w->g;
    QG_TRY(begin(w, input));
    for (size_t id = 0; id < g->node.n; id++) {
        assert(!g->node.at[id]->dead && g->node.at[id]->id == id); /* normalized */
        QG_TRY(qg_node_memory(w->ctx, infer_node(w, g->node.at[id]), "infer",
                              g->node.at[id]));
    }
    return QG_OK;
}

/* The first axis of an input before i that has the same name as axis k of i and another
 * extent in `input`; false: none has. */
static bool find_other(const qg_graph *g, const qg_tensor *input, size_t i, int k,
                       size_t *other, int *axis)
{
    const char *name = g->input.at[i]->dim_name[k];
    for (*other = 0; name && *other < i; ++*other) {
        const qg_value *v = g->input.at[*other];
        for (*axis = 0; *axis < v->type.rank && *axis < input[*other].rank; ++*axis)
            if (v->dim_name[*axis] && strcmp(v->dim_name[*axis], name) == 0 &&
                input[*other].dim[*axis] != input[i].dim[k])
                return true;
    }
    return false;
}

/* Inputs may disagree on an open dim, since many files give one name to dims that have
 * nothing to do with each other.  Where nodes do not fit, that is the likely cause, and
 * the message tells. */
static qg_status blame_dims(qg_ctx *ctx, const qg_graph *g, const qg_tensor *input,
                            qg_status s)
{
    size_t other;
    int axis;
    for (size_t i = 0; input && s == QG_EMODEL && i < g->input.n; i++)
        for (int k = 0; k < g->input.at[i]->type.rank && k < input[i].rank; k++)
            if (find_other(g, input, i, k, &other, &axis))
                return qg_fail(ctx, s,
                               "%s; input '%.200s' has length %lld on dim '%.100s', "
                               "input '%.200s' has %lld, expected the same",
                               qg_ctx_message(ctx), g->input.at[other]->name,
                               (long long)input[other].dim[axis],
                               g->input.at[i]->dim_name[k], g->input.at[i]->name,
                               (long long)input[i].dim[k]);
    return s;
}

qg_status qg_infer_values(qg_ctx *ctx, const qg_graph *g, const qg_tensor *input,
                          qg_arena *a, qg_tensor **type, const qg_tensor ***known)
{
    walk w = { .ctx = ctx, .g = g, .keep = a, .scratch = qg_arena_new(ctx->alloc) };
    if (!w.scratch)
        return qg_nomem(ctx);
    qg_status s = infer_nodes(&w, input);
    qg_arena_free(w.scratch);
    if (s != QG_OK)
        return blame_dims(ctx, g, input, s);
    *type = w.type;
    *known = w.known;
    return QG_OK;
}

bool qg_graph_is_open(const qg_graph *g)
{
    bool any = false;
    for (size_t i = 0; i < g->input.n; i++)
        any |= g->input.at[i]->open != 0;
    return any;
}

qg_status qg_infer_open(qg_ctx *ctx, const qg_graph *g, qg_arena *a, qg_tensor **type,
                        const qg_tensor ***known)
{
    qg_tensor *input = QG_NEWN(a, g->input.n, qg_tensor);
    walk w = {
        .ctx = ctx, .g = g, .keep = a, .scratch = qg_arena_new(ctx->alloc), .open = true
    };
    for (size_t i = 0; input && i < g->input.n; i++) {
        const qg_value *v = g->input.at[i];
        input[i] = v->type;
        for (int32_t k = 0; k < v->type.rank; k++)
            input[i].dim[k] = is_open(v, k) ? -1 : v->type.dim[k];
    }
    qg_status s = input && w.scratch ? infer_nodes(&w, input) : qg_nomem(ctx);
    qg_arena_free(w.scratch);
    if (s != QG_OK)
        return s;
    *type = w.type;
    *known = w.known;
    return QG_OK;
}

/* A symbolic name makes no sense for another rank than it was declared with; a value
 * that is new, whose rank was not known, may have those of an output (edit.h). */
static void write_types(qg_graph *g, const qg_tensor *type)
{
    for (size_t i = 0; i < g->value.n; i++) {
        qg_value *v = g->value.at[i];
        if (v->type.rank >= 0 && v->type.rank != type[i].rank)
            memset(v->dim_name, 0, sizeof v->dim_name);
        v->type = type[i];
    }
}

static qg_status fix_symbols(qg_graph *g, const qg_fixed_shape *fixed, size_t n)
{
    symbols s = { .ctx = g->ctx,
                  .arena = qg_arena_new(g->ctx->alloc),
                  .names = qg_names_new(g->ctx->alloc) };
    qg_status status =
        s.arena && s.names ? fix_inputs(g, &s, fixed, n) : qg_nomem(g->ctx);
    qg_names_free(s.names);
    qg_arena_free(s.arena);
    return status;
}

qg_status qg_infer(qg_graph *g, const qg_fixed_shape *fixed, size_t n)
{
    qg_tensor *type = NULL;
    assert(!g->outer || n == 0); /* the owner gave types to the inputs of a body */
    if (!g->outer)
        QG_TRY(fix_symbols(g, fixed, n));
    QG_TRY(begin_known(g));
    struct qg_inferred *k = g->inferred;
    QG_TRY(qg_infer_values(g->ctx, g, NULL, k->arena, &type, &k->known));
    k->n = g->value.n;
    write_types(g, type);
    return QG_OK;
}

qg_status qg_infer_known(qg_graph *g, const qg_tensor *const **known)
{
    if (!g->inferred)
        return qg_fail(
            g->ctx, QG_ESTATE,
            "infer: graph '%s': nothing is inferred, expected qg_infer first", g->name);
    if (g->inferred->n != g->value.n)
        QG_TRY(qg_infer(g, NULL, 0));
    *known = g->inferred->known;
    return QG_OK;
}

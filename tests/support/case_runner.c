#include "tests/support/case_runner.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "engine/core/file.h"
#include "engine/ir/graph.h"
#include "ops/util_cast.h"

enum { MAX_LIST = 64 };

typedef struct reader {
    qg_ctx *ctx;
    qg_arena *arena; /* of the file */
    const char *path, *at;
    int line, lines; /* where the logical line begins; lines read */
} reader;

static qg_status bad(const reader *r, const char *expected)
{
    return qg_fail(r->ctx, QG_EPARSE, "at '%.12s', expected %s", r->at, expected);
}

static void skip(reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static bool take(reader *r, const char *word)
{
    skip(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* A word, or the inside of "...". */
static const char *word(reader *r)
{
    skip(r);
    bool quoted = *r->at == '"';
    const char *from = r->at += quoted;
    while (*r->at && (quoted ? *r->at != '"' : !strchr(" ,]}=", *r->at)))
        r->at++;
    const char *text = qg_arena_strndup(r->arena, from, (size_t)(r->at - from));
    r->at += quoted && *r->at == '"';
    return text;
}

static qg_status number(reader *r, double *out)
{
    skip(r);
    char *end;
    double v = strtod(r->at, &end);
    if (end == r->at)
        return bad(r, "a number");
    r->at = end;
    *out = v;
    return QG_OK;
}

/* 64-bit integers do not fit a double; everything else goes through one. */
static qg_status element(reader *r, qg_tensor *t, int64_t i)
{
    char *end;
    double v;
    skip(r);
    if (t->dtype == QG_I64 || t->dtype == QG_U64) {
        errno = 0;
        if (t->dtype == QG_U64)
            t->u64[i] = strtoull(r->at, &end, 10);
        else
            t->i64[i] = strtoll(r->at, &end, 10);
        if (end == r->at || errno)
            return bad(r, "an integer");
        r->at = end;
        return QG_OK;
    }
    QG_TRY(number(r, &v));
    qg_cast((qg_cast_side){ QG_F64, &v, 0 }, (qg_cast_side){ t->dtype, t->data, i }, 1,
            true);
    return QG_OK;
}

static void generate(qg_tensor *t, int64_t n, double first, double step)
{
    for (int64_t i = 0; i < n; i++) {
        double v = first + step * (double)i;
        qg_cast((qg_cast_side){ QG_F64, &v, 0 }, (qg_cast_side){ t->dtype, t->data, i },
                1, true);
    }
}

static qg_status values(reader *r, qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    double a = 0, b = 0;
    if (take(r, "iota")) {
        generate(t, n, 0, 1);
        return QG_OK;
    }
    bool fill = take(r, "fill("), ramp = !fill && take(r, "ramp(");
    if (!fill && !ramp) {
        for (int64_t i = 0; i < n; i++)
            QG_TRY(element(r, t, i));
        return QG_OK;
    }
    QG_TRY(number(r, &a));
    if (ramp && (!take(r, ",") || number(r, &b) != QG_OK))
        return bad(r, "ramp(first,last)");
    if (!take(r, ")"))
        return bad(r, "')'");
    generate(t, n, a, ramp && n > 1 ? (b - a) / (double)(n - 1) : 0);
    return QG_OK;
}

static qg_status dtype(reader *r, qg_dtype *out)
{
    static const char *const id[] = {
#define X(id, text, onnx, bits, kind) #id,
        QG_DTYPE_MAP(X)
#undef X
    };
    size_t n = strcspn(r->at, " [");
    for (int d = 1; d < QG_NDTYPE; d++)
        if (strlen(id[d]) == n && strncasecmp(id[d], r->at, n) == 0) {
            r->at += n;
            *out = (qg_dtype)d;
            return QG_OK;
        }
    return bad(r, "a type such as f32");
}

/* "f32[2,3] values", or "-". */
static qg_status tensor(reader *r, const qg_tensor **out)
{
    qg_dtype d;
    int64_t dim[QG_MAX_RANK];
    int32_t rank = 0;
    double v;
    skip(r);
    if (r->at[0] == '-' && (!r->at[1] || r->at[1] == ' ')) {
        r->at++;
        *out = NULL;
        return QG_OK;
    }
    QG_TRY(dtype(r, &d));
    bool more = take(r, "[") && !take(r, "]");
    while (more) {
        QG_TRY(number(r, &v));
        if (rank == QG_MAX_RANK)
            return bad(r, "at most 8 dimensions");
        dim[rank++] = (int64_t)v;
        more = take(r, ",");
        if (!more && !take(r, "]"))
            return bad(r, "',' or ']'");
    }
    qg_tensor *t = QG_NEW(r->arena, qg_tensor);
    if (!t)
        return qg_nomem(r->ctx);
    qg_tensor_init(t, d, rank, dim);
    QG_TRY(qg_tensor_alloc(r->ctx, r->arena, t));
    QG_TRY(values(r, t));
    *out = t;
    return QG_OK;
}

static bool is_number(const char *s)
{
    char *end;
    (void)strtod(s, &end);
    return end != s && *end == '\0';
}

/* Words as INT(S), FLOAT(S) or STRING(S). */
static qg_status typed(reader *r, const char *const *text, size_t n, bool list,
                       qg_attr *a)
{
    bool numbers = n > 0, reals = false;
    for (size_t i = 0; i < n; i++) {
        numbers &= is_number(text[i]);
        reals |= strpbrk(text[i], ".einEIN") != NULL;
    }
    int64_t *ints = QG_NEWN(r->arena, n, int64_t);
    float *floats = QG_NEWN(r->arena, n, float);
    const char **strings = QG_NEWN(r->arena, n, const char *);
    if (!ints || !floats || !strings)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < n; i++) {
        ints[i] = strtoll(text[i], NULL, 10);
        floats[i] = strtof(text[i], NULL);
        strings[i] = text[i];
    }
    a->count = n;
    if (numbers && reals)
        a->floats = floats, a->type = list ? QG_ATTR_FLOATS : QG_ATTR_FLOAT;
    else if (numbers || n == 0)
        a->ints = ints, a->type = list ? QG_ATTR_INTS : QG_ATTR_INT;
    else
        a->strings = strings, a->type = list ? QG_ATTR_STRINGS : QG_ATTR_STRING;
    return QG_OK;
}

static qg_status attribute(reader *r, qg_attr *a)
{
    const char *text[MAX_LIST];
    size_t n = 0;
    a->name = qg_intern(r->ctx, word(r));
    if (!take(r, "="))
        return bad(r, "'='");
    if (take(r, "{")) {
        a->type = QG_ATTR_TENSOR;
        a->count = 1;
        QG_TRY(tensor(r, &a->tensor));
        return take(r, "}") ? QG_OK : bad(r, "'}'");
    }
    bool list = take(r, "[");
    bool more = !list || !take(r, "]");
    while (more) {
        if (n == MAX_LIST)
            return bad(r, "at most 64 values");
        text[n++] = word(r);
        more = list && take(r, ",");
        if (list && !more && !take(r, "]"))
            return bad(r, "',' or ']'");
    }
    return typed(r, text, n, list, a);
}

static qg_status op_line(reader *r, op_case *c)
{
    double opset;
    *c = (op_case){ .path = r->path, .line = r->line, .name = word(r) };
    const char *dot = strrchr(c->name, '.');
    if (dot) {
        c->domain = qg_arena_strndup(r->arena, c->name, (size_t)(dot - c->name));
        c->name = dot + 1;
    }
    QG_TRY(number(r, &opset));
    c->opset = (int64_t)opset;
    for (skip(r); *r->at; skip(r)) {
        if (c->n_attr == CASE_ATTRS)
            return bad(r, "at most 16 attributes");
        QG_TRY(attribute(r, &c->attr[c->n_attr]));
        c->n_attr++;
    }
    return QG_OK;
}

static qg_status out_line(reader *r, op_case *c)
{
    case_output *e = &c->out[c->n_out++];
    *e = (case_output){ .atol = 1e-6, .rtol = 1e-5 };
    QG_TRY(tensor(r, &e->tensor));
    for (;;)
        if (take(r, "atol"))
            QG_TRY(number(r, &e->atol));
        else if (take(r, "rtol"))
            QG_TRY(number(r, &e->rtol));
        else
            return QG_OK;
}

/* --- running ------------------------------------------------------------------- */

static bool failed(const op_case *c, const char *what)
{
    printf("%s:%d: %s %d: %s\n", c->path, c->line, c->name, (int)c->opset, what);
    return false;
}

static qg_status build(const op_case *c, qg_graph *g, qg_node **node)
{
    qg_value *in[CASE_SLOTS] = { 0 }, *out[CASE_SLOTS] = { 0 };
    char name[32];
    for (size_t i = 0; i < c->n_in; i++) {
        if (!c->in[i])
            continue;
        (void)snprintf(name, sizeof name, "x%zu", i);
        QG_TRY(qg_graph_add_value(g, name, &in[i]));
        in[i]->type = *c->in[i];
        in[i]->type.data = NULL;
        QG_TRY(qg_graph_mark_input(g, in[i]));
    }
    for (size_t i = 0; i < c->n_out || i == 0; i++) {
        if (i < c->n_out && !c->out[i].tensor)
            continue;
        (void)snprintf(name, sizeof name, "y%zu", i);
        QG_TRY(qg_graph_add_value(g, name, &out[i]));
    }
    const qg_op *op = qg_op_find(g->ctx->registry, c->domain, c->name, c->opset);
    if (!op)
        return qg_fail(g->ctx, QG_EUNSUPPORTED, "operator '%s' at opset %d", c->name,
                       (int)c->opset);
    qg_node_spec spec = { .name = "n0",
                          .op = op,
                          .opset = c->opset,
                          .in = in,
                          .out = out,
                          .n_in = (uint32_t)c->n_in,
                          .n_out = c->n_out ? (uint32_t)c->n_out : 1,
                          .attr = c->attr,
                          .n_attr = c->n_attr };
    return qg_graph_add_node(g, &spec, node);
}

static bool compatible(const qg_tensor *early, const qg_tensor *late)
{
    if (early->dtype != late->dtype || (early->rank >= 0 && early->rank != late->rank))
        return false;
    for (int32_t i = 0; i < early->rank; i++)
        if (early->dim[i] >= 0 && early->dim[i] != late->dim[i])
            return false;
    return true;
}

/* Shapes without data, then with; memory; numbers. */
static qg_status execute(qg_arena *a, qg_call *k, const qg_tensor *const *in,
                         qg_tensor *early)
{
    const qg_tensor *bare[CASE_SLOTS] = { 0 };
    qg_tensor shape[CASE_SLOTS];
    for (size_t i = 0; i < k->n_in; i++)
        if (in[i]) {
            shape[i] = *in[i];
            shape[i].data = NULL;
            bare[i] = &shape[i];
        }
    k->in = bare;
    QG_TRY(k->node->op->infer(k));
    for (size_t i = 0; i < k->n_out; i++)
        if (k->out[i])
            early[i] = *k->out[i];
    k->in = in;
    QG_TRY(k->node->op->infer(k));
    for (size_t i = 0; i < k->n_out; i++)
        if (k->out[i]) {
            if (!compatible(&early[i], k->out[i]))
                return qg_fail(k->ctx, QG_ESTATE, "output %zu: early shape differs", i);
            QG_TRY(qg_tensor_alloc(k->ctx, a, k->out[i]));
        }
    return k->node->op->run(k);
}

/* Again with the output in the memory of an input. */
static bool in_place_agrees(const op_case *c, qg_arena *a, qg_call *k, size_t slot)
{
    const qg_tensor *old = c->in[slot], *in[CASE_SLOTS];
    qg_tensor *copy, *out[CASE_SLOTS], once = *k->out[0];
    size_t bytes;
    if (!old || old->dtype != once.dtype || !qg_same_dims(old, &once))
        return true;
    if (qg_tensor_clone(k->ctx, a, old, &copy) != QG_OK ||
        qg_tensor_bytes(k->ctx, "case", &once, &bytes) != QG_OK)
        return failed(c, "out of memory");
    memcpy(in, c->in, sizeof in);
    memcpy(out, k->out, k->n_out * sizeof *out);
    in[slot] = copy;
    qg_tensor again = *copy;
    out[0] = &again;
    qg_call second = *k;
    second.in = in;
    second.out = out;
    qg_arena_reset(k->scratch);
    if (k->node->op->run(&second) != QG_OK || memcmp(again.data, once.data, bytes) != 0)
        return failed(c, "in place gives other bits");
    return true;
}

static bool near(double got, double want, const case_output *e)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return got == want || fabs(got - want) <= e->atol + e->rtol * fabs(want);
}

static bool equal(const op_case *c, size_t slot, const qg_tensor *got)
{
    const case_output *e = &c->out[slot];
    char a[QG_SHAPE_TEXT], b[QG_SHAPE_TEXT], text[640];
    if (got->dtype != e->tensor->dtype || !qg_same_dims(got, e->tensor)) {
        (void)snprintf(text, sizeof text, "output %zu is %s, expected %s", slot,
                       qg_tensor_text(got, a), qg_tensor_text(e->tensor, b));
        return failed(c, text);
    }
    bool real = qg_dtype_kind_of(got->dtype) == QG_KIND_FLOAT;
    for (int64_t i = 0; i < qg_tensor_count(got); i++) {
        double x = 0, y = 0;
        int64_t v = 0, w = 0;
        qg_cast_side from = { got->dtype, got->data, i };
        qg_cast_side want = { e->tensor->dtype, e->tensor->data, i };
        qg_cast(from, (qg_cast_side){ QG_F64, &x, 0 }, 1, true);
        qg_cast(want, (qg_cast_side){ QG_F64, &y, 0 }, 1, true);
        if (!real) {
            qg_cast(from, (qg_cast_side){ QG_I64, &v, 0 }, 1, true);
            qg_cast(want, (qg_cast_side){ QG_I64, &w, 0 }, 1, true);
        }
        if (real ? near(x, y, e) : v == w)
            continue;
        (void)snprintf(text, sizeof text, "output %zu [%lld] is %.9g, expected %.9g",
                       slot, (long long)i, x, y);
        return failed(c, text);
    }
    return true;
}

static bool judge(const op_case *c, qg_ctx *ctx, qg_status s)
{
    char text[1400];
    if (!c->status && s == QG_OK)
        return true;
    if (c->status && strcmp(qg_status_name(s), c->status) == 0 &&
        strstr(qg_ctx_message(ctx), c->message))
        return true;
    (void)snprintf(text, sizeof text, "%s '%s', expected %s '%s'", qg_status_name(s),
                   s ? qg_ctx_message(ctx) : "", c->status ? c->status : "QG_OK",
                   c->message ? c->message : "");
    return failed(c, text);
}

static bool compare(const op_case *c, qg_arena *a, qg_call *k)
{
    for (size_t i = 0; i < k->n_out; i++)
        if (k->out[i] && !equal(c, i, k->out[i]))
            return false;
    for (size_t i = 0; i < k->n_in && i < 8; i++)
        if (k->node->op->in_place >> i & 1 && !in_place_agrees(c, a, k, i))
            return false;
    return true;
}

qg_status attempt_case(const op_case *c, qg_ctx *ctx, qg_arena *scratch,
                       case_attempt *a)
{
    qg_tensor early[CASE_SLOTS] = { 0 };
    qg_node *node;
    *a = (case_attempt){ 0 };
    QG_TRY(qg_graph_new(ctx, "case", &a->g));
    QG_TRY(build(c, a->g, &node));
    a->call = (qg_call){ .ctx = ctx,
                         .node = node,
                         .param = node->param,
                         .out = a->out,
                         .n_in = node->n_in,
                         .n_out = node->n_out,
                         .scratch = scratch };
    for (size_t i = 0; i < node->n_out; i++)
        a->out[i] = node->out[i] ? &a->got[i] : NULL;
    return execute(a->g->arena, &a->call, c->in, early);
}

static bool run_case(const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    case_attempt a;
    qg_status s = attempt_case(c, ctx, scratch, &a);
    bool fine = judge(c, ctx, s) && (s != QG_OK || compare(c, a.g->arena, &a.call));
    qg_graph_free(a.g);
    qg_arena_reset(scratch);
    return fine;
}

qg_status try_case(const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    case_attempt a;
    qg_status s = attempt_case(c, ctx, scratch, &a);
    qg_graph_free(a.g);
    qg_arena_reset(scratch);
    return s;
}

/* --- files --------------------------------------------------------------------- */

/* The next logical line in place: comment cut, continuations joined.  NULL at the
 * end. */
static char *next_line(reader *r, char **rest)
{
    char *line = *rest;
    if (!line || !*line)
        return NULL;
    char *end = line;
    r->line = r->lines + 1;
    for (;;) {
        bool quoted = false;
        char *stop = end + strcspn(end, "\n");
        for (char *p = end; p < stop; p++) {
            quoted ^= *p == '"';
            if (*p == '#' && !quoted)
                memset(p, ' ', (size_t)(stop - p));
        }
        end = stop;
        r->lines++;
        if (!*end || !end[1] || (end[1] != ' ' && end[1] != '\t'))
            break;
        *end = ' ';
    }
    *rest = *end ? end + 1 : end;
    *end = '\0';
    while (end > line && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return line;
}

static qg_status one_line(reader *r, op_case *c)
{
    if (take(r, "in ") && c->n_in < CASE_SLOTS) {
        QG_TRY(tensor(r, &c->in[c->n_in++]));
    } else if (take(r, "out ") && c->n_out < CASE_SLOTS) {
        QG_TRY(out_line(r, c));
    } else if (take(r, "fail ")) {
        c->status = word(r);
        c->message = word(r);
    } else
        return bad(r, "op, in, out or fail");
    skip(r);
    return *r->at ? bad(r, "the end of the line") : QG_OK;
}

static qg_status run_lines(reader *r, char *text, qg_arena *scratch,
                           case_visitor *visit, void *ud)
{
    op_case c = { 0 };
    for (char *line; (line = next_line(r, &text));) {
        r->at = line;
        if (!*line)
            continue;
        if (!take(r, "op ")) {
            QG_TRY(one_line(r, &c));
            continue;
        }
        if (c.name)
            visit(ud, &c, r->ctx, scratch);
        QG_TRY(op_line(r, &c));
    }
    if (c.name)
        visit(ud, &c, r->ctx, scratch);
    return QG_OK;
}

qg_status visit_case_file(qg_alloc alloc, const qg_registry *registry, const char *path,
                          case_visitor *visit, void *ud)
{
    enum { LIMIT = 1 << 24 };
    qg_ctx *ctx = qg_ctx_new(alloc);
    qg_arena *scratch = qg_arena_new(alloc);
    qg_status s = ctx && scratch ? QG_OK : QG_ENOMEM;
    char *text;
    size_t size;
    if (s == QG_OK) {
        ctx->registry = registry;
        s = qg_file_text(ctx, ctx->arena, (qg_file_request){ "test", path, LIMIT },
                         &text, &size);
    }
    reader r = { .ctx = ctx, .arena = ctx ? ctx->arena : NULL, .path = path };
    if (s == QG_OK)
        s = run_lines(&r, text, scratch, visit, ud);
    if (s != QG_OK)
        printf("%s:%d: %s\n", path, r.line, qg_ctx_message(ctx));
    qg_arena_free(scratch);
    qg_ctx_free(ctx);
    return s;
}

static void report_case(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    case_report *report = ud;
    bool fine = c->n_out || c->status ? run_case(c, ctx, scratch)
                                      : failed(c, "neither out nor fail");
    report->passed += fine;
    report->failed += !fine;
}

qg_status run_case_file(const qg_registry *registry, const char *path,
                        case_report *report)
{
    return visit_case_file(qg_alloc_libc, registry, path, report_case, report);
}

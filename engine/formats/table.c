/* table.c -- rows, losses and records of table formats, independent of their syntax.
 *
 * Export    qg_table_build visits the values in order of their ids: choose the record
 *           of the row, ask the form for the grid of the reader, mark all endpoints
 *           that the row stands for, report what this grid changes.  Endpoints that
 *           act and are unmarked at the end are losses.  The order of values does not
 *           depend on the format, so that files of two formats can be compared.
 * Import    entries become grids in a plan per node (grid_record.h), then records
 *           in order of nodes; the verifier of records checks the result like that of
 *           any other source.
 * Cost      linear in values, their readers, and parameters */
#include "engine/formats/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/quant/tqc_check.h"

/* --- grids --- */

qg_table_grid qg_table_grid_of(const qg_export *e, const qg_tqc *t)
{
    qg_table_grid g = { .scheme = t->scheme };
    bool has = e->format->table->grid(e, t, &g);
    assert(has);
    (void)has;
    return g;
}

int64_t qg_table_zero(const qg_export *e, const qg_tqc *t, size_t channel)
{
    qg_qparam p = qg_tqc_param(t);
    return (p.offset ? p.offset[channel] : 0) + qg_table_grid_of(e, t).shift;
}

double qg_table_low(const qg_export *e, const qg_tqc *t, size_t channel)
{
    qg_table_grid g = qg_table_grid_of(e, t);
    return (double)(g.scheme.qmin - qg_table_zero(e, t, channel)) *
           (double)qg_tqc_param(t).scale[channel];
}

double qg_table_high(const qg_export *e, const qg_tqc *t, size_t channel)
{
    qg_table_grid g = qg_table_grid_of(e, t);
    return (double)(g.scheme.qmax - qg_table_zero(e, t, channel)) *
           (double)qg_tqc_param(t).scale[channel];
}

bool qg_table_int8(const qg_tqc *t, qg_table_grid *g, int64_t limit, bool channels)
{
    const unsigned other = QG_BLOCK | QG_DYNAMIC | QG_FLOATING;
    if (t->scheme.policy & other || (t->scheme.policy & QG_PER_CHANNEL && !channels))
        return false;
    g->scheme.policy &= (uint16_t)~QG_ASYMMETRIC;
    g->scheme.policy |= QG_SYMMETRIC;
    g->scheme.bits = 8;
    g->scheme.qmin = -limit;
    g->scheme.qmax = 127;
    return true;
}

bool qg_table_among(const char *op, const char *const *names)
{
    while (*names && strcmp(*names, op) != 0)
        names++;
    return *names != NULL;
}

static bool same_grid(const qg_tqc *a, const qg_tqc *b)
{
    qg_qparam p = qg_tqc_param(a), q = qg_tqc_param(b);
    if (!qg_scheme_same(&a->scheme, &b->scheme) || p.n != q.n)
        return false;
    for (size_t c = 0; c < p.n; c++)
        if (p.scale[c] != q.scale[c] ||
            (p.offset ? p.offset[c] : 0) != (q.offset ? q.offset[c] : 0))
            return false;
    return true;
}

/* --- losses --- */

static qg_status lose_limits(qg_export *e, const qg_tqc *t, const qg_table_grid *g)
{
    const qg_scheme *s = &t->scheme, *r = &g->scheme;
    if (s->qmin + g->shift != r->qmin || s->qmax + g->shift != r->qmax)
        return qg_export_lose_result(e, QG_SAYS_RANGE, t,
                                     "codes [%lld, %lld], read as [%lld, %lld]",
                                     (long long)s->qmin, (long long)s->qmax,
                                     (long long)r->qmin, (long long)r->qmax);
    if (g->shift)
        return qg_export_lose(e, QG_SAYS_RANGE, t, "codes are %lld higher",
                              (long long)g->shift);
    if (s->bits != r->bits)
        return qg_export_lose(e, QG_SAYS_BITS, t, "%u bits, read as %u", s->bits,
                              r->bits);
    return QG_OK;
}

qg_status qg_table_lose_grid(qg_export *e, const qg_tqc *t, const qg_table_grid *g)
{
    qg_qparam p = qg_tqc_param(t);
    QG_TRY(lose_limits(e, t, g));
    if (g->scheme.axis != t->scheme.axis)
        QG_TRY(qg_export_lose_result(e, QG_SAYS_PER_CHANNEL, t, "axis %d, read as %d",
                                     t->scheme.axis, g->scheme.axis));
    for (size_t c = 0; g->scheme.policy & QG_SYMMETRIC && p.offset && c < p.n; c++)
        if (p.offset[c] + g->shift)
            return qg_export_lose_result(e, QG_SAYS_OFFSET, t, "offset %d, read as 0",
                                         p.offset[c]);
    return QG_OK;
}

qg_status qg_table_lose_rest(qg_export *e, const bool *covered)
{
    for (size_t i = 0; i < e->quant->tqc.n; i++) {
        const qg_tqc *t = e->quant->tqc.at[i];
        if (!covered[i] && qg_tqc_is_on_grid(t))
            QG_TRY(qg_export_lose_result(
                e, QG_SAYS_ENDPOINT, t,
                "the file has no entry for it, or one with another grid"));
    }
    return QG_OK;
}

/* --- rows --- */

/* The record that gives the row of v; NULL: nothing rounds it. */
static const qg_tqc *leader(const qg_value *v)
{
    const qg_tqc *t = qg_producer_tqc(v);
    if (qg_tqc_is_on_grid(t))
        return t;
    for (size_t i = 0; i < v->use.n; i++) {
        t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (qg_tqc_is_on_grid(t))
            return t;
    }
    return NULL;
}

/* Marks what the row stands for.  A row of a reader stands for all readers, and for an
 * output of the network. */
static qg_status cover(qg_export *e, const qg_table_row *row, bool *covered)
{
    const qg_value *v = row->value;
    bool all = !v->is_output || row->tqc->is_output;
    covered[row->tqc->id] = true;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (qg_tqc_is_on_grid(t) && same_grid(t, row->tqc))
            covered[t->id] = true;
        else if (!t || !qg_tqc_is_on_grid(t))
            all &= row->tqc->is_output;
    }
    return all ? QG_OK
               : qg_export_lose_result(
                     e, QG_SAYS_ENDPOINT, row->tqc,
                     "the file rounds the value for all of its readers");
}

/* The rows, and their losses. */
static qg_status collect(qg_export *e, qg_table *t)
{
    const qg_table_form *form = e->format->table;
    bool *covered = QG_NEWN(e->arena, e->quant->tqc.n, bool);
    if (!covered)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->quant->graph->value.n; i++) {
        qg_table_row row = { .value = e->quant->graph->value.at[i] };
        row.tqc = leader(row.value);
        if (!row.tqc || (row.value->constant && !form->constants))
            continue;
        qg_table_grid g = { .scheme = row.tqc->scheme };
        if (!form->grid(e, row.tqc, &g))
            continue;
        QG_TRY(qg_vec_push(e->ctx, e->arena, &t->row, row));
        QG_TRY(cover(e, &row, covered));
        QG_TRY(qg_table_lose_grid(e, row.tqc, &g));
    }
    for (size_t i = 0; form->makes && i < e->quant->tqc.n; i++) {
        const qg_tqc *c = e->quant->tqc.at[i];
        if (!covered[i] && qg_tqc_is_on_grid(c) && qg_tqc_is_constant(c))
            QG_TRY(form->makes(e, c, &covered[i]));
    }
    return qg_table_lose_rest(e, covered);
}

/* --- PPQ's choice of rows --- */

static bool ppq_takes(const qg_export *e, const qg_tqc *t)
{
    const qg_table_form *form = e->format->table;
    qg_table_grid g = { .scheme = t->scheme };
    return form->ppq.states >> t->state & 1u &&
           (!form->ppq.takes || form->ppq.takes(t)) &&
           (form->ppq.internal || t->visibility != QG_EXPORT_INTERNAL) &&
           (form->constants || !qg_tqc_is_constant(t)) && qg_tqc_param(t).n &&
           form->grid(e, t, &g);
}

/* Values in order of their first endpoint. */
qg_status qg_table_ppq_rows(qg_export *e, qg_table *t)
{
    size_t n = e->quant->graph->value.n;
    size_t *row_of = QG_NEWN(e->arena, n, size_t); /* 1 + index; 0: none */
    if (!row_of)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->quant->tqc.n; i++) {
        const qg_tqc *c = e->quant->tqc.at[i];
        const qg_value *v = qg_tqc_value(c);
        if (!ppq_takes(e, c))
            continue;
        bool passive = c->state == QG_TQC_PASSIVE && e->format->table->ppq.keeps_first;
        if (!row_of[v->id]) {
            QG_TRY(qg_vec_push(e->ctx, e->arena, &t->row, ((qg_table_row){ v, c })));
            row_of[v->id] = t->row.n;
        } else if (!passive) {
            t->row.at[row_of[v->id] - 1].tqc = c;
        }
    }
    return QG_OK;
}

/* --- the row of a format --- */

qg_status qg_table_build(qg_export *e)
{
    qg_table *t = QG_NEW(e->arena, qg_table);
    if (!t)
        return qg_nomem(e->ctx);
    t->e = e;
    e->built = t;
    qg_table_behaviours how = { .rows = collect, .put = e->format->table->put };
    if (e->format->quirk)
        qg_quirk_swap(e->format->quirk, e->quirks, &how);
    t->put = how.put;
    QG_TRY(how.rows(e, t));
    for (size_t i = 0; i < t->row.n && e->format->table->ends; i++)
        QG_TRY(qg_export_word(e, t->row.at[i].value->name, e->format->table->ends));
    return QG_OK;
}

static qg_status put(qg_export *e, FILE *stream)
{
    const qg_table *t = e->built;
    return t->put(t, stream);
}

qg_status qg_table_write(qg_export *e) { return qg_export_beside_model(e, put); }

/* --- reading --- */

qg_status qg_table_grid_new(qg_table_reader *r, const qg_scheme *s, size_t n,
                            qg_grid_record *grid, qg_table_params *room)
{
    room->scale = QG_NEWN(r->g->arena, n, float);
    room->offset = QG_NEWN(r->g->arena, n, int32_t);
    if (!room->scale || !room->offset)
        return qg_nomem(r->ctx);
    *grid = (qg_grid_record){
        *s, {n, room->scale, room->offset}
    };
    return QG_OK;
}

qg_status qg_table_found_int8(qg_table_reader *r, const char *name, float scale,
                              int64_t limit)
{
    qg_grid_record grid;
    qg_table_params room;
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                    .rounding = QG_ROUND_HALF_EVEN,
                    .bits = 8,
                    .axis = -1,
                    .qmin = -limit,
                    .qmax = 127 };
    QG_TRY(qg_table_grid_new(r, &s, 1, &grid, &room));
    room.scale[0] = scale;
    return qg_table_found(r, name, &grid);
}

qg_status qg_table_parse_json(qg_table_reader *r, const qg_json_source *from,
                              qg_status (*parse)(qg_table_reader *, const qg_json *))
{
    const qg_json *root;
    qg_arena *a = qg_arena_new(r->ctx->alloc);
    qg_status s = a ? qg_json_parse(r->ctx, a, from, &root) : qg_nomem(r->ctx);
    if (s == QG_OK)
        s = parse(r, root);
    qg_arena_free(a);
    return s;
}

bool qg_table_next_line(qg_table_reader *r, size_t *offset, qg_table_line *line)
{
    const qg_json_source *from = r->file;
    r->line++;
    if (*offset >= from->size)
        return false;
    line->at = from->bytes + *offset;
    const char *end = memchr(line->at, '\n', from->size - *offset);
    line->n = end ? (size_t)(end - line->at) : from->size - *offset;
    *offset += line->n + 1;
    if (line->n && line->at[line->n - 1] == '\r')
        line->n--;
    return true;
}

qg_status qg_table_fail(const qg_table_reader *r, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return qg_fail(r->ctx, QG_EPARSE, "import: %s: line %zu: %s", r->file->name,
                   r->line, text);
}

static const char *const reason[QG_N_LEFT] = {
    [QG_LEFT_MISSING] = "names no float32 value of the model",
    [QG_LEFT_UNSCALED] = "has scale 0",
    [QG_LEFT_WITHOUT_DATA] = "the layer's data have no entry",
    [QG_LEFT_WITHOUT_WEIGHT] = "the layer has no quantized weight",
    [QG_LEFT_FLOAT] = "is in float by the file",
};

qg_status qg_table_leave_out(qg_table_reader *r, const char *name,
                             enum qg_table_reason why)
{
    qg_left_out l = { qg_arena_strdup(r->g->arena, name), reason[why] };
    return l.entry ? qg_vec_push(r->ctx, r->g->arena, &r->left_out, l)
                   : qg_nomem(r->ctx);
}

/* "import: FILE: line 3: c.in0"; without the line where the format has none. */
enum { PLACE_TEXT = QG_ENDPOINT_TEXT + 320 };
static void place_text(const qg_table_reader *r, const char *subject,
                       char text[PLACE_TEXT])
{
    char line[32] = "";
    if (r->line)
        (void)snprintf(line, sizeof line, "line %zu: ", r->line);
    (void)snprintf(text, PLACE_TEXT, "import: %.240s: %s%s", r->file->name, line,
                   subject);
}

/* Scales that are none would be found later, without the name of the entry, or not at
 * all when the model lacks the name. */
static qg_status check_scales(qg_table_reader *r, const char *what,
                              const qg_grid_record *grid)
{
    for (size_t c = 0; c < grid->param.n; c++)
        if (!qg_import_is_scale(grid->param.scale[c]))
            return qg_fail(r->ctx, QG_EPARSE,
                           "%s: scale %zu is %g, expected " QG_IMPORT_SCALE, what, c,
                           (double)grid->param.scale[c]);
    return QG_OK;
}

qg_status qg_table_found_at(qg_table_reader *r, qg_endpoint at,
                            const qg_grid_record *grid)
{
    const qg_grid_record **place;
    char text[QG_ENDPOINT_TEXT], what[PLACE_TEXT];
    place_text(r, qg_endpoint_text(at, text), what);
    QG_TRY(check_scales(r, what, grid));
    QG_TRY(qg_record_plan_at(r->g, &r->plan[at.node->id], at, &place));
    if (*place)
        return qg_fail(r->ctx, QG_EMODEL,
                       "%s: has two entries, expected one per tensor", what);
    qg_grid_record *own = QG_NEW(r->g->arena, qg_grid_record);
    if (!own)
        return qg_nomem(r->ctx);
    *own = *grid;
    if (own->scheme.policy & QG_PER_CHANNEL && own->scheme.axis < 0)
        own->scheme.axis = qg_guess_axis(at, own->param.n);
    *place = own;
    r->found++;
    return qg_import_check(r->ctx, what, at, own);
}

qg_status qg_table_found(qg_table_reader *r, const char *name,
                         const qg_grid_record *grid)
{
    const qg_value *v = qg_graph_value(r->g, name);
    char subject[QG_ENDPOINT_TEXT], what[PLACE_TEXT];
    (void)snprintf(subject, sizeof subject, "'%s'", name);
    place_text(r, subject, what);
    QG_TRY(check_scales(r, what, grid));
    if (!v || v->type.dtype != QG_F32)
        return qg_table_leave_out(r, name, QG_LEFT_MISSING);
    if (v->def && !qg_node_has(v->def, QG_OP_CONTROL)) /* no record at If, Loop, Scan */
        return qg_table_found_at(r, qg_output_at(v->def, v->def_slot), grid);
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        if (v->use.at[i].slot < n->n_in - n->n_capture &&
            !qg_node_has(n, QG_OP_CONTROL))
            QG_TRY(qg_table_found_at(r, qg_input_at(n, v->use.at[i].slot), grid));
    }
    return QG_OK;
}

/* C strings end at a byte 0: what follows it would be dropped. */
static qg_status check_text(const qg_table_reader *r)
{
    const char *at = memchr(r->file->bytes, '\0', r->file->size);
    return at ? qg_fail(r->ctx, QG_EPARSE,
                        "import: %s: byte %zu is 0, expected a file of text",
                        r->file->name, (size_t)(at - r->file->bytes))
              : QG_OK;
}

/* One line for all entries that are left out for that reason. */
static void warn_left_out(const qg_table_reader *r, const char *why)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = r->left_out.n; i-- > 0;)
        if (r->left_out.at[i].why == why) {
            first = r->left_out.at[i].entry;
            n++;
        }
    if (n)
        qg_warn(r->ctx, "import: %s: %zu left out, '%.1000s' first: %s", r->file->name,
                n, first, why);
}

static const char *value_name(const qg_table_reader *r, size_t k)
{
    for (size_t i = 0; i < r->g->value.n; i++) {
        const qg_value *v = r->g->value.at[i];
        if (v->type.dtype == QG_F32 && (v->def || v->use.n) &&
            (!v->constant || r->form->constants) && k-- == 0)
            return v->name;
    }
    return NULL;
}

/* The file of another model, or of its other names. */
static qg_status refuse_all(const qg_table_reader *r)
{
    enum { SHOWN = 3, ROOM = 1010 };
    char own[SHOWN * ROOM] = "none";
    const char *name;
    size_t at = 0;
    for (size_t k = 0; k < SHOWN; k++)
        if ((name = (r->form->name ? r->form->name : value_name)(r, k)) != NULL)
            at += (size_t)snprintf(own + at, ROOM, "%s'%.1000s'", k ? ", " : "", name);
    return qg_fail(r->ctx, QG_EMODEL,
                   "import: %s: none of its %zu entries is of the model: '%.1000s' %s; "
                   "expected names as %s, which the model has",
                   r->file->name, r->left_out.n, r->left_out.at[0].entry,
                   r->left_out.at[0].why, own);
}

/* An empty table is what an export writes that has nothing for the format. */
static qg_status check_found(const qg_table_reader *r)
{
    size_t in_float = 0;
    for (size_t i = 0; i < r->left_out.n; i++)
        in_float += r->left_out.at[i].why == reason[QG_LEFT_FLOAT];
    if (!r->found && r->left_out.n > in_float)
        return refuse_all(r);
    if (r->strict && r->left_out.n)
        return qg_fail(r->ctx, QG_EUNSUPPORTED,
                       "import: %s: %zu entries are left out, '%.1000s' first: %s, "
                       "expected none with --strict",
                       r->file->name, r->left_out.n, r->left_out.at[0].entry,
                       r->left_out.at[0].why);
    for (size_t i = 0; i < QG_N_LEFT; i++)
        warn_left_out(r, reason[i]);
    if (!r->found)
        qg_warn(r->ctx, "import: %s: has no entry for the model", r->file->name);
    return QG_OK;
}

static qg_status read_all(qg_table_reader *r, const qg_json_source *from,
                          qg_quant **out)
{
    QG_TRY(check_text(r));
    r->plan = QG_NEWN(r->g->arena, r->g->node.n, qg_record_plan);
    if (!r->plan)
        return qg_nomem(r->ctx);
    QG_TRY(r->form->parse(r, from));
    QG_TRY(check_found(r));
    if (r->form->complete)
        QG_TRY(r->form->complete(r));
    QG_TRY(qg_import_quant(r->g, r->from, NULL, out));
    for (size_t i = 0; i < r->g->node.n; i++)
        QG_TRY(qg_import_node(*out, r->g->node.at[i], &r->plan[i]));
    return qg_check_tqcs(r->ctx, *out, QG_CHECK_ALL);
}

qg_status qg_table_parse(qg_graph *g, const qg_format *f, const qg_json_source *from,
                         qg_quant **out)
{
    qg_table_reader r = {
        .ctx = g->ctx, .g = g, .from = f->name, .form = f->table, .file = from
    };
    return read_all(&r, from, out);
}

static qg_status parse_into(qg_import *i, const qg_json_source *from)
{
    qg_table_reader r = { .ctx = i->ctx,
                          .g = i->graph,
                          .from = i->format->name,
                          .form = i->format->table,
                          .names = i->names,
                          .strict = i->strict,
                          .file = from };
    QG_TRY(read_all(&r, from, &i->quant));
    i->left_out = r.left_out;
    i->own_scales = r.own_scales;
    return QG_OK;
}

qg_status qg_table_import(qg_import *i)
{
    char *text;
    qg_json_source from = { .name = i->path };
    qg_file_request request = { "import", i->path, (size_t)1 << 31 };
    QG_TRY(qg_import_graph(i, i->model));
    qg_arena *a = qg_arena_new(i->ctx->alloc);
    qg_status s =
        a ? qg_file_text(i->ctx, a, request, &text, &from.size) : qg_nomem(i->ctx);
    if (s == QG_OK) {
        from.bytes = text;
        s = parse_into(i, &from);
    }
    qg_arena_free(a);
    return s;
}

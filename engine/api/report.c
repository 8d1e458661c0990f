#include "engine/api/report.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/core/num.h"

qg_status qg_report_new(qg_ctx *ctx, const char *title, qg_report **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_report *r = a ? QG_NEW(a, qg_report) : NULL;
    if (!r) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    r->ctx = ctx;
    r->arena = a;
    r->title = title;
    *out = r;
    return QG_OK;
}

void qg_report_free(qg_report *r)
{
    if (r)
        qg_arena_free(r->arena);
}

/* Texts are copied, so callers may pass what lies on their stack. */
static qg_status own(qg_report *r, qg_cell *cell)
{
    if (cell->kind != QG_CELL_TEXT)
        return QG_OK;
    cell->text = qg_arena_strdup(r->arena, cell->text);
    return cell->text ? QG_OK : qg_nomem(r->ctx);
}

static qg_status format_cell(qg_report *r, const char *fmt, va_list args, qg_cell *out)
{
    char text[1024];
    (void)vsnprintf(text, sizeof text, fmt, args);
    *out = qg_cell_text(text);
    return own(r, out);
}

qg_status qg_report_add(qg_report *r, const char *name, qg_cell value)
{
    qg_fact f = { .name = name, .value = value };
    QG_TRY(own(r, &f.value));
    return qg_vec_push(r->ctx, r->arena, &r->fact, f);
}

qg_status qg_report_addf(qg_report *r, const char *name, const char *fmt, ...)
{
    qg_fact f = { .name = name };
    va_list args;
    va_start(args, fmt);
    qg_status s = format_cell(r, fmt, args, &f.value);
    va_end(args);
    return s == QG_OK ? qg_vec_push(r->ctx, r->arena, &r->fact, f) : s;
}

static qg_status split_columns(qg_report *r, qg_table *t, const char *columns)
{
    QG_VEC(const char *) v = { 0 };
    while (*columns) {
        size_t n = strcspn(columns, " ");
        const char *name = qg_arena_strndup(r->arena, columns, n);
        if (!name)
            return qg_nomem(r->ctx);
        QG_TRY(qg_vec_push(r->ctx, r->arena, &v, name));
        columns += n + (columns[n] == ' ');
    }
    t->column = v.at;
    t->n_column = v.n;
    return QG_OK;
}

qg_status qg_report_table(qg_report *r, const char *name, const char *columns,
                          qg_table **out)
{
    qg_table *t = QG_NEW(r->arena, qg_table);
    if (!t)
        return qg_nomem(r->ctx);
    t->name = name;
    QG_TRY(split_columns(r, t, columns));
    qg_fact f = { .name = name, .table = t };
    QG_TRY(qg_vec_push(r->ctx, r->arena, &r->fact, f));
    *out = t;
    return QG_OK;
}

qg_status qg_table_add(qg_report *r, qg_table *t, qg_cell cell)
{
    QG_TRY(own(r, &cell));
    return qg_vec_push(r->ctx, r->arena, &t->cell, cell);
}

qg_status qg_table_addf(qg_report *r, qg_table *t, const char *fmt, ...)
{
    qg_cell cell = { 0 };
    va_list args;
    va_start(args, fmt);
    qg_status s = format_cell(r, fmt, args, &cell);
    va_end(args);
    return s == QG_OK ? qg_vec_push(r->ctx, r->arena, &t->cell, cell) : s;
}

bool qg_report_number(const qg_report *r, const char *name, double *out)
{
    for (size_t i = 0; i < r->fact.n; i++) {
        const qg_fact *f = &r->fact.at[i];
        bool number = f->value.kind == QG_CELL_NUMBER ||
                      f->value.kind == QG_CELL_COUNT ||
                      f->value.kind == QG_CELL_PERCENT;
        if (!f->table && number && strcmp(f->name, name) == 0) {
            *out = f->value.number;
            return true;
        }
    }
    return false;
}

/* --- the page for people --- */

enum { CELL_TEXT = 1100 };

static const char *cell_text(const qg_cell *c, char text[CELL_TEXT])
{
    switch (c->kind) {
    case QG_CELL_NONE:
        return "-";
    case QG_CELL_TEXT:
        return c->text;
    case QG_CELL_NUMBER:
        (void)snprintf(text, CELL_TEXT, "%.4g", c->number);
        return text;
    case QG_CELL_COUNT:
        (void)snprintf(text, CELL_TEXT, "%.0f", c->number);
        return text;
    case QG_CELL_PERCENT:
        (void)snprintf(text, CELL_TEXT, "%.*f %%", fabs(c->number) < 0.001 ? 5 : 2,
                       100 * c->number);
        return text;
    case QG_CELL_BOOL:
        return c->number != 0 ? "yes" : "no";
    }
    assert(!"unknown cell");
    return "";
}

/* Names are JSON keys; people get spaces. */
static void print_name(FILE *f, const char *name, int width)
{
    int n = 0;
    for (; name[n]; n++)
        (void)fputc(name[n] == '_' ? ' ' : name[n], f);
    for (; n < width; n++)
        (void)fputc(' ', f);
}

/* Columns as on a terminal: UTF-8 continuation bytes take no room. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static bool right_aligned(const qg_table *t, size_t column)
{
    for (size_t i = column; i < t->cell.n; i += t->n_column)
        if (t->cell.at[i].kind == QG_CELL_TEXT)
            return false;
    return true;
}

static void print_cell(FILE *f, const char *s, size_t width, bool right, bool last)
{
    size_t have = width_of(s), pad = have < width ? width - have : 0;
    for (size_t i = 0; right && i < pad; i++)
        (void)fputc(' ', f);
    (void)fputs(s, f);
    for (size_t i = 0; !right && !last && i < pad; i++)
        (void)fputc(' ', f);
    if (!last)
        (void)fputs("  ", f);
}

static qg_status print_table(FILE *f, qg_report *r, const qg_table *t)
{
    char text[CELL_TEXT];
    size_t *width = QG_NEWN(r->arena, t->n_column, size_t);
    if (!width)
        return qg_nomem(r->ctx);
    (void)fputc('\n', f);
    print_name(f, t->name, 0);
    (void)fputc('\n', f);
    for (size_t c = 0; c < t->n_column; c++)
        width[c] = strlen(t->column[c]);
    for (size_t i = 0; i < t->cell.n; i++) {
        size_t n = width_of(cell_text(&t->cell.at[i], text));
        if (width[i % t->n_column] < n)
            width[i % t->n_column] = n;
    }
    for (size_t i = 0; i < t->n_column + t->cell.n; i++) {
        size_t c = i % t->n_column;
        bool last = c + 1 == t->n_column;
        const char *s = i < t->n_column ? t->column[c]
                                        : cell_text(&t->cell.at[i - t->n_column], text);
        if (c == 0)
            (void)fputs("  ", f);
        print_cell(f, s, width[c], right_aligned(t, c), last);
        if (last)
            (void)fputc('\n', f);
    }
    return QG_OK;
}

static qg_status print_page(FILE *f, qg_report *r)
{
    char text[CELL_TEXT];
    int width = 0;
    for (size_t i = 0; i < r->fact.n; i++)
        if (!r->fact.at[i].table && (int)strlen(r->fact.at[i].name) > width)
            width = (int)strlen(r->fact.at[i].name);
    for (size_t i = 0; i < r->fact.n; i++) {
        const qg_fact *fact = &r->fact.at[i];
        if (fact->table) {
            QG_TRY(print_table(f, r, fact->table));
            continue;
        }
        print_name(f, fact->name, width);
        (void)fprintf(f, "  %s\n", cell_text(&fact->value, text));
    }
    return QG_OK;
}

/* --- JSON --- */

static void json_string(FILE *f, const char *s)
{
    (void)fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            (void)fprintf(f, "\\%c", c);
        else if (c < 0x20)
            (void)fprintf(f, "\\u%04x", c);
        else
            (void)fputc(c, f);
    }
    (void)fputc('"', f);
}

static void json_cell(FILE *f, const qg_cell *c)
{
    char number[QG_NUM_TEXT];
    switch (c->kind) {
    case QG_CELL_NONE:
        (void)fputs("null", f);
        return;
    case QG_CELL_TEXT:
        json_string(f, c->text);
        return;
    case QG_CELL_BOOL:
        (void)fputs(c->number != 0 ? "true" : "false", f);
        return;
    case QG_CELL_COUNT:
        (void)fprintf(f, "%.0f", c->number);
        return;
    default:
        if (isfinite(c->number))
            qg_num_f64(number, c->number);
        (void)fputs(isfinite(c->number) ? number : "null", f);
    }
}

static void json_table(FILE *f, const qg_table *t)
{
    (void)fputc('[', f);
    for (size_t i = 0; i < t->cell.n; i++) {
        size_t c = i % t->n_column;
        (void)fputs(c ? ", " : i ? ",\n    {" : "\n    {", f);
        json_string(f, t->column[c]);
        (void)fputs(": ", f);
        json_cell(f, &t->cell.at[i]);
        if (c + 1 == t->n_column)
            (void)fputc('}', f);
    }
    (void)fputs(t->cell.n ? "\n  ]" : "]", f);
}

static qg_status print_json(FILE *f, qg_report *r)
{
    (void)fputs("{\n  \"report\": ", f);
    json_string(f, r->title);
    for (size_t i = 0; i < r->fact.n; i++) {
        (void)fputs(",\n  ", f);
        json_string(f, r->fact.at[i].name);
        (void)fputs(": ", f);
        if (r->fact.at[i].table)
            json_table(f, r->fact.at[i].table);
        else
            json_cell(f, &r->fact.at[i].value);
    }
    (void)fputs("\n}\n", f);
    return QG_OK;
}

/* Renders into memory once; an empty text when memory runs out. */
static const char *render(qg_report *r, char **kept,
                          qg_status (*print)(FILE *, qg_report *))
{
    if (*kept)
        return *kept;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return "";
    qg_status s = print(f, r);
    if (fclose(f) == 0 && s == QG_OK)
        *kept = qg_arena_strndup(r->arena, text, size);
    free(text);
    return *kept ? *kept : "";
}

const char *qg_report_text(qg_report *r) { return render(r, &r->text, print_page); }
const char *qg_report_json(qg_report *r) { return render(r, &r->json, print_json); }

#include "engine/report/report.h"

#include <assert.h>
#include <math.h>

#include "engine/core/file.h"
#include "engine/core/json.h"
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

qg_status qg_report_end(qg_status s, qg_report *r, qg_report **out)
{
    if (s == QG_OK && out)
        *out = r;
    else
        qg_report_free(r);
    return s;
}

/* C0, DEL, C1, and what reorders or breaks a line: U+200E, U+200F, U+2028 to U+202E,
 * U+2066 to U+2069.  n: bytes of the character. */
static bool is_control(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t c = n == 3   ? (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u)
                 : n == 2 ? (s[0] & 31u) << 6 | (s[1] & 63u)
                          : s[0];
    return n < 4 &&
           (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
            (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069));
}

/* Bytes that are not UTF-8, or would move the cursor, become '?'. */
static void make_printable(char *text, bool lines)
{
    for (size_t n; *text; text += n) {
        n = qg_utf8_length(text);
        if (n == 0 || (is_control(text, n) && !(lines && *text == '\n')))
            memset(text, '?', n ? n : 1);
        n = n ? n : 1;
    }
}

static qg_status own_text(qg_report *r, qg_cell *cell)
{
    char *text = cell->text ? qg_arena_strdup(r->arena, cell->text) : NULL;
    if (!text)
        return qg_nomem(r->ctx);
    make_printable(text, cell->kind == QG_CELL_PAGE);
    cell->text = text;
    return QG_OK;
}

/* Floats and integers of a list share the copying: they have one size. */
static qg_status own_list(qg_report *r, qg_cell *cell)
{
    assert(cell->n == 0 || cell->floats || cell->ints);
    static_assert(sizeof(float) == sizeof(int32_t), "one copy serves both lists");
    bool floats = cell->kind == QG_CELL_FLOATS;
    const void *from = floats ? (const void *)cell->floats : cell->ints;
    void *copy = qg_arena_raw(r->arena, cell->n, sizeof(float));
    if (!copy)
        return qg_nomem(r->ctx);
    if (cell->n)
        memcpy(copy, from, cell->n * sizeof(float));
    cell->floats = floats ? copy : NULL;
    cell->ints = floats ? NULL : copy;
    return QG_OK;
}

/* Texts and lists are copied, so callers may pass memory on their stack. */
static qg_status own(qg_report *r, qg_cell *cell)
{
    if (cell->kind == QG_CELL_TEXT || cell->kind == QG_CELL_PAGE)
        return own_text(r, cell);
    if (cell->kind == QG_CELL_FLOATS || cell->kind == QG_CELL_INTS)
        return own_list(r, cell);
    return QG_OK;
}

/* Formats twice: for the length and into memory of that length. */
static qg_status format_cell(qg_report *r, const char *fmt, va_list args, qg_cell *out)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    assert(n >= 0);
    char *text = qg_arena_raw(r->arena, (size_t)n + 1, 1);
    if (!text)
        return qg_nomem(r->ctx);
    (void)vsnprintf(text, (size_t)n + 1, fmt, args);
    qg_num_unsign_nan(text);
    make_printable(text, false);
    *out = qg_cell_text(text);
    return QG_OK;
}

/* Names are JSON keys, so they may not repeat. */
static qg_status push_fact(qg_report *r, qg_fact f)
{
    for (size_t i = 0; i < r->fact.n; i++)
        assert(strcmp(r->fact.at[i].name, f.name) != 0);
    return qg_vec_push(r->ctx, r->arena, &r->fact, f);
}

qg_status qg_report_add(qg_report *r, const char *name, qg_cell value)
{
    qg_fact f = { .name = name, .value = value };
    QG_TRY(own(r, &f.value));
    return push_fact(r, f);
}

qg_status qg_report_add_quiet(qg_report *r, const char *name, qg_cell value)
{
    QG_TRY(qg_report_add(r, name, value));
    qg_report_detail(r, QG_DETAIL_ALL);
    return QG_OK;
}

void qg_report_detail(qg_report *r, enum qg_detail detail)
{
    assert(r->fact.n > 0);
    r->fact.at[r->fact.n - 1].detail = detail;
}

qg_status qg_report_addf(qg_report *r, const char *name, const char *fmt, ...)
{
    qg_fact f = { .name = name };
    va_list args;
    va_start(args, fmt);
    qg_status s = format_cell(r, fmt, args, &f.value);
    va_end(args);
    return s == QG_OK ? push_fact(r, f) : s;
}

/* Names of columns are cut out of one string, for short call sites. */
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
    QG_TRY(push_fact(r, (qg_fact){ .name = name, .table = t }));
    *out = t;
    return QG_OK;
}

qg_status qg_table_add(qg_report *r, qg_table *t, qg_cell cell)
{
    assert(cell.kind != QG_CELL_PAGE);
    QG_TRY(own(r, &cell));
    return qg_vec_push(r->ctx, r->arena, &t->cell, cell);
}

qg_status qg_table_add_all(qg_report *r, qg_table *t, const qg_cell *cell, size_t n)
{
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_table_add(r, t, cell[i]));
    return QG_OK;
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

qg_status qg_table_place(qg_report *r, qg_table *t, const char *file, uint32_t line)
{
    const char *dir = r->ctx->config_dir;
    size_t n = dir ? strlen(dir) : 0;
    bool ours = n && strncmp(file, dir, n) == 0 && file[n] == '/';
    return qg_table_addf(r, t, "%s%s:%u", ours ? "configs" : "", ours ? file + n : file,
                         line);
}

/* --- cell by cell --- */

bool qg_report_entry(const qg_report *r, size_t i, const char **name,
                     const qg_cell **value, const qg_table **table)
{
    if (i >= r->fact.n)
        return false;
    const qg_fact *f = &r->fact.at[i];
    if (name)
        *name = f->name;
    if (value)
        *value = f->table ? NULL : &f->value;
    if (table)
        *table = f->table;
    return true;
}

/* The fact or table of that name; NULL: none. */
static const qg_fact *find_fact(const qg_report *r, const char *name)
{
    for (size_t i = 0; i < r->fact.n; i++)
        if (strcmp(r->fact.at[i].name, name) == 0)
            return &r->fact.at[i];
    return NULL;
}

const qg_cell *qg_report_fact(const qg_report *r, const char *name)
{
    const qg_fact *f = find_fact(r, name);
    return f && !f->table ? &f->value : NULL;
}

const qg_table *qg_report_table_named(const qg_report *r, const char *name)
{
    const qg_fact *f = find_fact(r, name);
    return f ? f->table : NULL;
}

size_t qg_table_rows(const qg_table *t) { return t ? t->cell.n / t->n_column : 0; }

size_t qg_table_columns(const qg_table *t) { return t ? t->n_column : 0; }

const char *qg_table_column(const qg_table *t, size_t k)
{
    return k < qg_table_columns(t) ? t->column[k] : NULL;
}

const qg_cell *qg_table_cell(const qg_table *t, size_t row, const char *column)
{
    for (size_t k = 0; row < qg_table_rows(t) && k < t->n_column; k++)
        if (strcmp(t->column[k], column) == 0)
            return &t->cell.at[row * t->n_column + k];
    return NULL;
}

bool qg_report_number(const qg_report *r, const char *name, double *out)
{
    const qg_cell *c = qg_report_fact(r, name);
    if (!c || (c->kind != QG_CELL_NUMBER && c->kind != QG_CELL_COUNT &&
               c->kind != QG_CELL_PERCENT && c->kind != QG_CELL_BOOL))
        return false;
    *out = c->number;
    return true;
}

/* --- from report to report --- */

static qg_status adopt_table(qg_report *r, const qg_table *from, const char *as)
{
    qg_table *t = QG_NEW(r->arena, qg_table);
    const char **column = QG_NEWN(r->arena, from->n_column, const char *);
    if (!t || !column)
        return qg_nomem(r->ctx);
    *t = (qg_table){ .name = as,
                     .column = column,
                     .n_column = from->n_column,
                     .records = from->records };
    for (size_t k = 0; k < from->n_column; k++) {
        column[k] = qg_arena_strdup(r->arena, from->column[k]);
        if (!column[k])
            return qg_nomem(r->ctx);
    }
    QG_TRY(qg_table_add_all(r, t, from->cell.at, from->cell.n));
    return push_fact(r, (qg_fact){ .name = as, .table = t });
}

qg_status qg_report_adopt(qg_report *r, const qg_report *from, const char *name,
                          const char *as)
{
    const qg_fact *f = find_fact(from, name);
    if (!f)
        return QG_OK;
    return f->table ? adopt_table(r, f->table, as) : qg_report_add(r, as, f->value);
}

/* --- JSON --- */

/* JSON has no NaN. */
static void put_number(qg_json_writer *w, const char *key, double x)
{
    if (isfinite(x))
        qg_json_put_f64(w, key, x);
    else
        qg_json_put_null(w, key);
}

/* The whole list, whatever the page shows of it. */
static void put_list(qg_json_writer *w, const char *key, const qg_cell *c)
{
    qg_json_put_array(w, key);
    for (size_t i = 0; i < c->n; i++)
        if (c->kind == QG_CELL_INTS)
            qg_json_put_int(w, NULL, c->ints[i]);
        else if (isfinite(c->floats[i]))
            qg_json_put_f32(w, NULL, c->floats[i]);
        else
            qg_json_put_null(w, NULL);
    qg_json_put_end(w);
}

/* By kind: values shortened on the page are complete here. */
static void put_cell(qg_json_writer *w, const char *key, const qg_cell *c)
{
    switch (c->kind) {
    case QG_CELL_NONE:
        qg_json_put_null(w, key);
        return;
    case QG_CELL_TEXT:
    case QG_CELL_PAGE:
        qg_json_put_text(w, key, c->text);
        return;
    case QG_CELL_NUMBER:
    case QG_CELL_PERCENT:
        put_number(w, key, c->number);
        return;
    case QG_CELL_COUNT:
        qg_json_put_int(w, key, (int64_t)c->number);
        return;
    case QG_CELL_BOOL:
        qg_json_put_bool(w, key, c->number != 0);
        return;
    case QG_CELL_FLOATS:
    case QG_CELL_INTS:
        put_list(w, key, c);
        return;
    }
    assert(!"unknown cell");
}

/* One object per row, with the names of the columns. */
static void put_table(qg_json_writer *w, const qg_table *t)
{
    assert(t->cell.n % t->n_column == 0);
    qg_json_put_array(w, t->name);
    for (size_t i = 0; i < t->cell.n; i++) {
        size_t c = i % t->n_column;
        if (c == 0)
            qg_json_put_object_line(w, NULL);
        put_cell(w, t->column[c], &t->cell.at[i]);
        if (c + 1 == t->n_column)
            qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

/* One object: facts and tables in order of arrival. */
static qg_status print_json(qg_report *r, enum qg_detail detail, FILE *f)
{
    (void)detail;
    qg_json_writer w;
    qg_json_begin(&w, r->ctx, f);
    qg_json_put_object(&w, NULL);
    qg_json_put_text(&w, "report", r->title);
    for (size_t i = 0; i < r->fact.n; i++)
        if (r->fact.at[i].table)
            put_table(&w, r->fact.at[i].table);
        else
            put_cell(&w, r->fact.at[i].name, &r->fact.at[i].value);
    qg_json_put_end(&w);
    return qg_json_done(&w);
}

/* Renders into memory once; an empty text when memory runs out. */
static const char *render(qg_report *r, char **kept, enum qg_detail detail,
                          qg_status (*print)(qg_report *, enum qg_detail, FILE *))
{
    if (*kept)
        return *kept;
    qg_memory_file f;
    if (qg_memory_open(r->ctx, &f) != QG_OK)
        return "";
    if (qg_memory_close(&f, print(r, detail, f.stream)) == QG_OK)
        *kept = qg_arena_strndup(r->arena, f.bytes, f.size);
    qg_memory_free(&f);
    return *kept ? *kept : "";
}

const char *qg_report_page(qg_report *r, enum qg_detail detail)
{
    assert((unsigned)detail < QG_NDETAIL);
    return render(r, &r->page[detail], detail, qg_report_print);
}

const char *qg_report_text(qg_report *r) { return qg_report_page(r, QG_DETAIL_SHORT); }

const char *qg_report_json(qg_report *r)
{
    return render(r, &r->json, QG_DETAIL_ALL, print_json);
}

/* The page for people. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "engine/report/report.h"
#include "engine/core/num.h"

enum { CELL_TEXT = 160, NARROWEST = 24, SHOWN = 3 };

/* Columns as on a terminal: UTF-8 continuation bytes take no room. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static double unsigned_nan(double x) { return isnan(x) ? (double)NAN : x; }

/* One number of a list; floats as the shortest text that is exact. */
static const char *element(const qg_cell *c, size_t i, char text[QG_NUM_TEXT])
{
    if (c->kind == QG_CELL_INTS)
        (void)snprintf(text, QG_NUM_TEXT, "%" PRId32, c->ints[i]);
    else if (isfinite(c->floats[i]))
        qg_num_f32(text, c->floats[i]);
    else
        (void)snprintf(text, QG_NUM_TEXT, "%g", unsigned_nan(c->floats[i]));
    return text;
}

static double value(const qg_cell *c, size_t i)
{
    return c->kind == QG_CELL_INTS ? c->ints[i] : (double)c->floats[i];
}

/* "0.5", "0.1, 0.2, 0.4", "64 values from 0.01 to 0.4". */
static const char *list_text(const qg_cell *c, char text[CELL_TEXT])
{
    size_t used = 0, least = 0, most = 0;
    char low[QG_NUM_TEXT], high[QG_NUM_TEXT];
    (void)snprintf(text, CELL_TEXT, "none");
    for (size_t i = 0; i < c->n && c->n <= SHOWN; i++)
        used += (size_t)snprintf(text + used, CELL_TEXT - used, "%s%s", i ? ", " : "",
                                 element(c, i, low));
    if (c->n <= SHOWN)
        return text;
    for (size_t i = 1; i < c->n; i++) {
        least = value(c, i) < value(c, least) ? i : least;
        most = value(c, i) > value(c, most) ? i : most;
    }
    (void)snprintf(text, CELL_TEXT, "%zu values from %s to %s", c->n,
                   element(c, least, low), element(c, most, high));
    return text;
}

/* The first names of a list, "a, b, c and 14 more"; a list that does not fit is shown
 * as it is. */
static const char *names_text(const qg_cell *c, char text[CELL_TEXT])
{
    const char *end = c->text;
    for (size_t i = 0; i < SHOWN && end; i++)
        end = strstr(i ? end + 2 : end, ", ");
    if (!end || c->n <= SHOWN + 1 || end - c->text > CELL_TEXT / 2)
        return c->text;
    (void)snprintf(text, CELL_TEXT, "%.*s and %zu more", (int)(end - c->text), c->text,
                   c->n - SHOWN);
    return text;
}

/* In four digits; near 1, as cosines are, in as many as tell it from 1. */
static const char *number_text(double x, char text[CELL_TEXT])
{
    const double from = fabs(fabs(x) - 1);
    (void)snprintf(text, CELL_TEXT, "%.*g", from > 0 && from < 5e-4 ? 9 : 4, x);
    qg_num_set_point(text);
    return text;
}

/* The text of a cell on the page; `text` is a buffer for formatted text. */
static const char *cell_text(const qg_cell *c, char text[CELL_TEXT])
{
    const double number = unsigned_nan(c->number);
    switch (c->kind) {
    case QG_CELL_NONE:
        return "-";
    case QG_CELL_TEXT:
        return c->n ? names_text(c, text) : c->text;
    case QG_CELL_PAGE:
        return c->text;
    case QG_CELL_NUMBER:
        return number_text(number, text);
    case QG_CELL_COUNT:
        (void)snprintf(text, CELL_TEXT, "%.0f", c->number);
        return text;
    case QG_CELL_PERCENT:
        (void)snprintf(text, CELL_TEXT, "%.*f %%",
                       number != 0 && fabs(number) < 0.001 ? 5 : 2, 100 * number);
        qg_num_set_point(text);
        return text;
    case QG_CELL_BOOL:
        return c->number != 0 ? "yes" : "no";
    case QG_CELL_FLOATS:
    case QG_CELL_INTS:
        return list_text(c, text);
    }
    assert(!"unknown cell");
    return "";
}

static void spaces(FILE *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)fputc(' ', f);
}

/* Names are JSON keys; people get spaces. */
static const char *spaced(const char *name, char text[CELL_TEXT])
{
    assert(strlen(name) < CELL_TEXT);
    size_t n = 0;
    for (; name[n]; n++)
        text[n] = name[n] == '_' ? ' ' : name[n];
    text[n] = '\0';
    return text;
}

/* The text, broken at spaces where it would pass the page's edge; later lines begin in
 * column `indent`. */
static void print_wrapped(FILE *f, const char *s, size_t indent)
{
    size_t room =
        indent + NARROWEST < QG_PAGE_WIDTH ? QG_PAGE_WIDTH - indent : (size_t)NARROWEST;
    size_t column = 0;
    while (*s) {
        size_t n = strcspn(s, " "), width = 0;
        for (size_t i = 0; i < n; i++)
            width += ((unsigned char)s[i] & 0xC0) != 0x80;
        if (column && column + 1 + width > room) {
            (void)fputc('\n', f);
            spaces(f, indent);
            column = 0;
        } else if (column) {
            (void)fputc(' ', f);
            column++;
        }
        (void)fwrite(s, 1, n, f);
        column += width;
        s += n + strspn(s + n, " ");
    }
    (void)fputc('\n', f);
}

/* "  name   text", wrapped. */
static void print_named(FILE *f, size_t indent, const char *name, size_t width,
                        const char *text)
{
    assert(strlen(name) <= width);
    char words[CELL_TEXT];
    spaces(f, indent);
    (void)fputs(spaced(name, words), f);
    spaces(f, *text ? width - strlen(name) + 2 : 0);
    print_wrapped(f, text, indent + width + 2);
}

typedef struct layout {
    size_t width;
    bool right;
} layout;

/* Numbers are aligned to the right, columns with any text to the left. */
static void lay_out(const qg_table *t, layout *column)
{
    char text[CELL_TEXT];
    for (size_t c = 0; c < t->n_column; c++)
        column[c] = (layout){ strlen(t->column[c]), true };
    for (size_t i = 0; i < t->cell.n; i++) {
        layout *l = &column[i % t->n_column];
        const qg_cell *cell = &t->cell.at[i];
        size_t n = width_of(cell_text(cell, text));
        l->width = n > l->width ? n : l->width;
        l->right &= cell->kind != QG_CELL_TEXT && cell->kind != QG_CELL_FLOATS &&
                    cell->kind != QG_CELL_INTS;
    }
}

/* No spaces follow the last column. */
static void print_cell(FILE *f, const char *s, const layout *l, bool last)
{
    size_t have = width_of(s), pad = have < l->width ? l->width - have : 0;
    spaces(f, l->right ? pad + 2 : 2);
    (void)fputs(s, f);
    if (!l->right && !last)
        spaces(f, pad);
    if (last)
        (void)fputc('\n', f);
}

/* Widths are taken from all rows before the first is printed. */
static qg_status print_columns(FILE *f, qg_report *r, const qg_table *t)
{
    char text[CELL_TEXT];
    layout *column = QG_NEWN(r->arena, t->n_column, layout);
    if (!column)
        return qg_nomem(r->ctx);
    lay_out(t, column);
    for (size_t c = 0; c < t->n_column; c++)
        print_cell(f, spaced(t->column[c], text), &column[c], c + 1 == t->n_column);
    for (size_t i = 0; i < t->cell.n; i++) {
        size_t c = i % t->n_column;
        print_cell(f, cell_text(&t->cell.at[i], text), &column[c],
                   c + 1 == t->n_column);
    }
    return QG_OK;
}

/* The first column heads a paragraph, the others are named lines of it. */
static void print_records(FILE *f, const qg_table *t)
{
    char text[CELL_TEXT];
    size_t width = 0;
    for (size_t c = 1; c < t->n_column; c++)
        if (width < strlen(t->column[c]))
            width = strlen(t->column[c]);
    for (size_t i = 0; i < t->cell.n; i++) {
        size_t c = i % t->n_column;
        const char *s = cell_text(&t->cell.at[i], text);
        if (c)
            print_named(f, 4, t->column[c], width, s);
        else
            (void)fprintf(f, "  %s\n", s);
    }
}

/* --- rows with one sentence --- */

static bool are_equal(const qg_cell *a, const qg_cell *b)
{
    return a->kind == QG_CELL_TEXT && b->kind == QG_CELL_TEXT &&
           strcmp(a->text, b->text) == 0;
}

/* The next row from `from` on with the first and the last cell of row i; the number of
 * rows: none. */
static size_t next_like(const qg_table *t, size_t i, size_t from)
{
    size_t n = t->n_column, rows = t->cell.n / n;
    const qg_cell *a = &t->cell.at[i * n];
    for (; from < rows; from++) {
        const qg_cell *b = &t->cell.at[from * n];
        if (from != i && are_equal(&a[0], &b[0]) && are_equal(&a[n - 1], &b[n - 1]))
            break;
    }
    return from;
}

/* Cells first .. end - 1 of row i. */
static qg_status add_cells(qg_report *r, qg_table *to, const qg_table *t, size_t i,
                           size_t first, size_t end)
{
    for (size_t c = first; c < end; c++)
        QG_TRY(
            qg_vec_push(r->ctx, r->arena, &to->cell, t->cell.at[i * t->n_column + c]));
    return QG_OK;
}

/* First cell, last cell, and the others of every such row. */
static qg_status print_paragraph(FILE *f, qg_report *r, const qg_table *t, size_t i)
{
    size_t rows = t->cell.n / t->n_column, last = t->n_column - 1;
    char text[CELL_TEXT];
    qg_table middle = { .column = t->column + 1, .n_column = t->n_column - 2 };
    layout *column = QG_NEWN(r->arena, middle.n_column, layout);
    if (!column)
        return qg_nomem(r->ctx);
    const qg_cell *cell = &t->cell.at[i * t->n_column];
    (void)fprintf(f, "  %s\n", cell_text(&cell[0], text));
    spaces(f, 4);
    print_wrapped(f, cell_text(&cell[last], text), 4);
    for (size_t k = i; k < rows; k = next_like(t, i, k + 1))
        QG_TRY(add_cells(r, &middle, t, k, 1, last));
    lay_out(&middle, column);
    for (size_t k = 0; k < middle.cell.n; k++) {
        size_t c = k % middle.n_column;
        spaces(f, c ? 0 : 4);
        print_cell(f, cell_text(&middle.cell.at[k], text), &column[c],
                   c + 1 == middle.n_column);
    }
    return QG_OK;
}

/* Rows with a sentence of their own as columns, then the paragraphs. */
static qg_status print_sentences(FILE *f, qg_report *r, const qg_table *t)
{
    size_t rows = t->cell.n / t->n_column;
    qg_table single = { .column = t->column, .n_column = t->n_column };
    for (size_t i = 0; i < rows; i++)
        if (next_like(t, i, 0) == rows)
            QG_TRY(add_cells(r, &single, t, i, 0, t->n_column));
    if (single.cell.n)
        QG_TRY(print_columns(f, r, &single));
    for (size_t i = 0; i < rows; i++) {
        size_t like = next_like(t, i, 0);
        if (like > i && like < rows)
            QG_TRY(print_paragraph(f, r, t, i));
    }
    return QG_OK;
}

/* An empty table prints one line. */
static qg_status print_table(FILE *f, qg_report *r, const qg_table *t, bool first)
{
    assert(t->n_column && t->cell.n % t->n_column == 0);
    char words[CELL_TEXT];
    (void)fprintf(f, "%s%s", first ? "" : "\n", spaced(t->name, words));
    if (t->cell.n == 0) {
        (void)fputs(": none\n", f);
        return QG_OK;
    }
    (void)fputc('\n', f);
    if (t->sentences)
        return print_sentences(f, r, t);
    if (!t->records)
        return print_columns(f, r, t);
    print_records(f, t);
    return QG_OK;
}

/* As it is, but always ending with a newline. */
static void print_page(FILE *f, const char *text)
{
    size_t n = strlen(text);
    (void)fwrite(text, 1, n, f);
    if (n && text[n - 1] != '\n')
        (void)fputc('\n', f);
}

/* Facts are aligned to the longest name of all; an empty line follows a table. */
qg_status qg_report_print(qg_report *r, enum qg_detail detail, FILE *f)
{
    char text[CELL_TEXT];
    size_t width = 0;
    bool behind = false;
    for (size_t i = 0; i < r->fact.n; i++) {
        const qg_fact *fact = &r->fact.at[i];
        bool line =
            !fact->table && fact->detail <= detail && fact->value.kind != QG_CELL_PAGE;
        if (line && width < strlen(fact->name))
            width = strlen(fact->name);
    }
    for (size_t i = 0; i < r->fact.n; i++) {
        const qg_fact *fact = &r->fact.at[i];
        if (fact->detail > detail)
            continue;
        if (behind && !fact->table)
            (void)fputc('\n', f);
        behind = fact->table != NULL;
        if (fact->table)
            QG_TRY(print_table(f, r, fact->table, i == 0));
        else if (fact->value.kind == QG_CELL_PAGE)
            print_page(f, fact->value.text);
        else
            print_named(f, 0, fact->name, width, cell_text(&fact->value, text));
    }
    return QG_OK;
}

/* report.h -- building qg_report: facts and tables in order of arrival.
 *
 * Cells are text or numbers; a number keeps its value for JSON and is shortened for
 * people.  NaN and infinity are shown to people and are null in JSON.
 * Names   of facts, tables and columns are JSON keys: words with '_', which people see
 *         as spaces; no two facts or tables of a report share one (asserted).
 * Page    at most QG_PAGE_WIDTH columns: facts are aligned and wrapped, a table has
 *         aligned columns, and one with `records` set is printed as one paragraph per
 *         row.  Tables are as wide as their cells.
 * Texts   are copied; bytes that are not UTF-8 and control characters become '?', so
 *         that a name of a hostile model can neither break JSON nor steer a terminal.
 * Owner   everything lies in the report's own arena, except names and titles, which
 *         are borrowed and must be static.
 *
 * Use:
 *
 *     QG_TRY(qg_report_new(ctx, "run", &r));
 *     QG_TRY(qg_report_add(r, "samples", qg_cell_count(n)));
 *     QG_TRY(qg_report_table(r, "outputs", "name elements", &t));
 *     QG_TRY(qg_table_add(r, t, qg_cell_text("probabilities")));
 *     QG_TRY(qg_table_add(r, t, qg_cell_count(1000)));
 *
 * Several reports may be alive; a caller that fails half-way frees its own.
 *
 * The example on the page and as JSON:
 *
 *     run                                 {
 *       samples  8                          "report": "run",
 *     outputs                               "samples": 8,
 *       name           elements             "outputs": [
 *       probabilities  1000                   {"name": "probabilities",
 *                                             "elements": 1000}
 *                                           ]
 *                                         } */
#ifndef QG_ENGINE_REPORT_REPORT_H
#define QG_ENGINE_REPORT_REPORT_H

#include <stdio.h>

#include "engine/api/qg.h"
#include "engine/core/vec.h"

enum { QG_PAGE_WIDTH = 88 };

/* Rows of equal length.  Owned by its report, valid as long. */
struct qg_table {
    const char *name;          /* JSON key; also the heading */
    const char *const *column; /* [n_column] JSON keys */
    size_t n_column;
    QG_VEC(qg_cell) cell; /* row by row */
    bool records;   /* for people: a paragraph per row, headed by its first cell */
    bool sentences; /* for people: rows of equal first and last cells are a paragraph
                     * that these head */
};

/* An entry of a report: a name with a value or a table. */
typedef struct qg_fact {
    const char *name;
    qg_cell value;
    qg_table *table;       /* when the fact is a table */
    enum qg_detail detail; /* pages with less leave it out */
} qg_fact;

/* Everything but ctx is in `arena`; pages and json are NULL until requested. */
struct qg_report {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *title;             /* static */
    QG_VEC(qg_fact) fact;          /* order of arrival is order of showing */
    char *page[QG_NDETAIL], *json; /* made on demand */
};

/* The page of qg_report_page.
 * QG_EIO is left to the owner of f: errors of the stream are found when it is
 * closed. */
QG_NODISCARD qg_status qg_report_print(qg_report *r, enum qg_detail detail, FILE *f);

/* An empty report.  title is one word, the "report" of the JSON; static. */
QG_NODISCARD qg_status qg_report_new(qg_ctx *ctx, const char *title, qg_report **out);

/* Hands r to the caller of a question (*out) when s, the outcome of filling it, is
 * QG_OK; else, and when out is NULL, frees it (NULL is fine).  Returns s. */
QG_NODISCARD qg_status qg_report_end(qg_status s, qg_report *r, qg_report **out);

/* Appends a fact; on failure the report is as before. */
QG_NODISCARD qg_status qg_report_add(qg_report *r, const char *name, qg_cell value);
QG_NODISCARD qg_status qg_report_add_quiet(qg_report *r, const char *name,
                                           qg_cell value); /* QG_DETAIL_ALL */
/* The last fact or table is left out of pages with less detail. */
void qg_report_detail(qg_report *r, enum qg_detail detail);
/* A text made by printf; control characters become '?' also here. */
QG_NODISCARD qg_status qg_report_addf(qg_report *r, const char *name, const char *fmt,
                                      ...) QG_PRINTF(3, 4);

/* columns: names separated by one space.  Cells follow row by row through
 * qg_table_add; the last row is complete when the report is shown (asserted). */
QG_NODISCARD qg_status qg_report_table(qg_report *r, const char *name,
                                       const char *columns, qg_table **out);
/* The next cell of the row; PAGE is not allowed in a table (asserted). */
QG_NODISCARD qg_status qg_table_add(qg_report *r, qg_table *t, qg_cell cell);
/* The next cells of the row, one for each argument after t. */
#define qg_table_cells(r, t, ...)                                                      \
    qg_table_add_all((r), (t), (const qg_cell[]){ __VA_ARGS__ },                       \
                     sizeof((const qg_cell[]){ __VA_ARGS__ }) / sizeof(qg_cell))
QG_NODISCARD qg_status qg_table_add_all(qg_report *r, qg_table *t, const qg_cell *cell,
                                        size_t n);
QG_NODISCARD qg_status qg_table_addf(qg_report *r, qg_table *t, const char *fmt, ...)
    QG_PRINTF(3, 4);

/* Copies the fact or table `name` of another report, under the name `as` (static); a
 * report without it changes nothing. */
QG_NODISCARD qg_status qg_report_adopt(qg_report *r, const qg_report *from,
                                       const char *name, const char *as);

/* A cell "file:line"; files that come with the tool begin with "configs/". */
QG_NODISCARD qg_status qg_table_place(qg_report *r, qg_table *t, const char *file,
                                      uint32_t line);

static inline qg_cell qg_cell_text(const char *s)
{
    return (qg_cell){ .kind = s ? QG_CELL_TEXT : QG_CELL_NONE, .text = s };
}
/* n names, "a, b". */
static inline qg_cell qg_cell_names(const char *names, size_t n)
{
    return (qg_cell){ .kind = n ? QG_CELL_TEXT : QG_CELL_NONE, .text = names, .n = n };
}
/* A text that was made for this cell: where s is NULL, adding the cell is QG_ENOMEM. */
static inline qg_cell qg_cell_made(const char *s)
{
    return (qg_cell){ .kind = QG_CELL_TEXT, .text = s };
}
static inline qg_cell qg_cell_page(const char *text)
{
    return (qg_cell){ .kind = QG_CELL_PAGE, .text = text };
}
/* x: [n], copied; NULL only when n is 0. */
static inline qg_cell qg_cell_floats(const float *x, size_t n)
{
    return (qg_cell){ .kind = QG_CELL_FLOATS, .floats = x, .n = n };
}
static inline qg_cell qg_cell_ints(const int32_t *x, size_t n)
{
    return (qg_cell){ .kind = QG_CELL_INTS, .ints = x, .n = n };
}
static inline qg_cell qg_cell_number(double x)
{
    return (qg_cell){ .kind = QG_CELL_NUMBER, .number = x };
}
static inline qg_cell qg_cell_count(size_t n)
{
    return (qg_cell){ .kind = QG_CELL_COUNT, .number = (double)n };
}
static inline qg_cell qg_cell_percent(double share)
{
    return (qg_cell){ .kind = QG_CELL_PERCENT, .number = share };
}
static inline qg_cell qg_cell_bool(bool b)
{
    return (qg_cell){ .kind = QG_CELL_BOOL, .number = b };
}

#endif

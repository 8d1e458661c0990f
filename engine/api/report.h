/* report.h -- building qg_report: facts and tables in order of arrival.
 *
 * Cells are text or numbers; a number keeps its value for JSON and has a printf-like
 * precision for people.  Everything lies in the report's own arena. */
#ifndef QG_ENGINE_API_REPORT_H
#define QG_ENGINE_API_REPORT_H

#include "engine/api/qg.h"
#include "engine/core/vec.h"

enum qg_cell_kind {
    QG_CELL_NONE,
    QG_CELL_TEXT,
    QG_CELL_NUMBER,
    QG_CELL_COUNT,
    QG_CELL_PERCENT,
    QG_CELL_BOOL
};

typedef struct qg_cell {
    enum qg_cell_kind kind;
    const char *text;
    double number; /* PERCENT: a share, 0.01 is shown as 1 % */
} qg_cell;

typedef struct qg_table {
    const char *name;          /* JSON key; also the heading */
    const char *const *column; /* [n_column] JSON keys */
    size_t n_column;
    QG_VEC(qg_cell) cell; /* row by row */
} qg_table;

typedef struct qg_fact {
    const char *name;
    qg_cell value;
    qg_table *table; /* when the fact is a table */
} qg_fact;

struct qg_report {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *title;
    QG_VEC(qg_fact) fact;
    char *text, *json; /* made on demand */
};

QG_NODISCARD qg_status qg_report_new(qg_ctx *ctx, const char *title, qg_report **out);

QG_NODISCARD qg_status qg_report_add(qg_report *r, const char *name, qg_cell value);
QG_NODISCARD qg_status qg_report_addf(qg_report *r, const char *name, const char *fmt,
                                      ...) QG_PRINTF(3, 4);

/* columns: names separated by one space.  Cells follow row by row through
 * qg_table_add. */
QG_NODISCARD qg_status qg_report_table(qg_report *r, const char *name,
                                       const char *columns, qg_table **out);
QG_NODISCARD qg_status qg_table_add(qg_report *r, qg_table *t, qg_cell cell);
QG_NODISCARD qg_status qg_table_addf(qg_report *r, qg_table *t, const char *fmt, ...)
    QG_PRINTF(3, 4);

static inline qg_cell qg_cell_text(const char *s)
{
    return (qg_cell){ s ? QG_CELL_TEXT : QG_CELL_NONE, s, 0 };
}
static inline qg_cell qg_cell_number(double x)
{
    return (qg_cell){ QG_CELL_NUMBER, NULL, x };
}
static inline qg_cell qg_cell_count(size_t n)
{
    return (qg_cell){ QG_CELL_COUNT, NULL, (double)n };
}
static inline qg_cell qg_cell_percent(double share)
{
    return (qg_cell){ QG_CELL_PERCENT, NULL, share };
}
static inline qg_cell qg_cell_bool(bool b)
{
    return (qg_cell){ QG_CELL_BOOL, NULL, b };
}

#endif

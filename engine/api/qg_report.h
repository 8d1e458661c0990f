/* qg_report.h -- the result of every query: facts (name, value) and tables (columns,
 * rows) in a fixed order; available as a page for people, as JSON for programs, and
 * cell by cell.
 *
 *     const qg_table *t = qg_report_table_named(r, "errors");
 *     for (size_t i = 0; t && i < qg_table_rows(t); i++) {
 *         const qg_cell *c = qg_table_cell(t, i, "error");
 *         printf("%s %g\n", qg_table_cell(t, i, "name")->text, c->number);
 *     }
 *
 * Names of facts, tables and columns are stable.  Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_REPORT_H
#define QG_ENGINE_API_QG_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Facts (name, value) and tables (columns, rows), in a fixed order.  The same content
 * as a page for people and as JSON for programs. */
typedef struct qg_report qg_report;

/* What a page shows: the tables that matter; times and other details of the run, too;
 * all, including rows that are summed up elsewhere.  JSON has all of it. */
enum qg_detail { QG_DETAIL_SHORT, QG_DETAIL_VERBOSE, QG_DETAIL_ALL, QG_NDETAIL };

/* Made at the first call and kept; "" when memory ran out. */
QG_API const char *
qg_report_text(qg_report *r); /* ends with a newline; owned by the report */
QG_API const char *qg_report_page(qg_report *r, enum qg_detail detail); /* likewise */
QG_API const char *qg_report_json(qg_report *r); /* one object, ends with a newline */

/* The number of fact `name`; false when there is none.
 * Counts, numbers, shares, and yes or no as 1 or 0; texts and tables are not found.
 * The names are those of qg_report_json: stable, for programs. */
QG_API bool qg_report_number(const qg_report *r, const char *name, double *out);
/* NULL is fine.  Texts that were got from r go with it. */
QG_API void qg_report_free(qg_report *r);

/* --- cell by cell --- */

/* How a cell is shown to people (JSON in brackets):
 *
 *     NONE      "-" [null]              COUNT         "1000" [integer]
 *     TEXT      as it is [string]       PERCENT       "1.25 %" [0.0125]
 *     PAGE      as it is [string]       BOOL          "yes", "no" [true, false]
 *     NUMBER    four digits [all]       FLOATS, INTS  up to three [array]
 *
 * A NUMBER near 1 has as many of nine digits as tell it from 1: a cosine. */
enum qg_cell_kind {
    QG_CELL_NONE,
    QG_CELL_TEXT,
    QG_CELL_PAGE, /* facts only: text of several lines, printed verbatim */
    QG_CELL_NUMBER,
    QG_CELL_COUNT,
    QG_CELL_PERCENT,
    QG_CELL_BOOL,
    QG_CELL_FLOATS,
    QG_CELL_INTS
};

/* One value; its texts and arrays belong to the report. */
typedef struct qg_cell {
    enum qg_cell_kind kind; /* which of the members below holds */
    const char *text;       /* TEXT, PAGE */
    double number;          /* NUMBER, COUNT, BOOL; PERCENT: a share, 0.01 for 1 % */
    size_t n;               /* of lists; of a TEXT "a, b" of names, of which pages show
                             * the first three and "and 2 more"; 0: another text */
    const float *floats;    /* [n] */
    const int32_t *ints;    /* [n] */
} qg_cell;

/* Rows of equal length.  Owned by its report, valid as long. */
typedef struct qg_table qg_table;

/* Entry i, in order: its name, and its value or its table (the other one is set to
 * NULL; any of the three may be NULL); false after the last one. */
QG_API bool qg_report_entry(const qg_report *r, size_t i, const char **name,
                            const qg_cell **value, const qg_table **table);
QG_API const qg_cell *qg_report_fact(const qg_report *r,
                                     const char *name); /* or NULL */
QG_API const qg_table *qg_report_table_named(const qg_report *r, const char *name);
/* A table that is NULL, because there is none of its name, has no rows and columns. */
QG_API size_t qg_table_rows(const qg_table *t);
QG_API size_t qg_table_columns(const qg_table *t);
QG_API const char *qg_table_column(const qg_table *t, size_t k); /* NULL: no such */
/* NULL: no such row or column. */
QG_API const qg_cell *qg_table_cell(const qg_table *t, size_t row, const char *column);

#ifdef __cplusplus
}
#endif

#endif

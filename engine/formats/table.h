/* table.h -- files that name tensors and give each of them a grid: calibration tables,
 * encodings.
 *
 * Such a format is a form: which endpoints it has, the grid that its readers make of an
 * entry, a function that writes the rows and one that reads them.  Selecting rows,
 * finding losses, the model beside the file and the records of an import are the same
 * for all of them:
 *
 *     static const qg_table_form form = { .constants = true, .grid = grid,
 *                                         .put = put, .parse = parse };
 *     const qg_format qg_format_x = { ..., .table = &form, .build = qg_table_build,
 *         .write = qg_table_write, .import = qg_table_import, .needs_model = true };
 *
 * Rows      one per value that any endpoint rounds: the grid of the output that makes
 *           it, else of its first reader that rounds.
 * Losses    ENDPOINT   an endpoint that rounds and whose value has no row, or a row
 *                      with another grid; a value that only some readers round
 *           others     where the grid of the reader differs from that of the record
 *           All of them change what a reader computes, except codes that are shifted
 *           with their zero point and bits beyond the limits.
 * Import    a row becomes a record of the output that makes the value, or of every slot
 *           that reads it when it is an input or a constant.  Rows of values that the
 *           model lacks are skipped with one warning. */
#ifndef QG_ENGINE_FORMATS_TABLE_H
#define QG_ENGINE_FORMATS_TABLE_H

#include "engine/formats/format.h"
#include "engine/formats/grid_record.h"
#include "engine/quant/quirk.h"

typedef struct qg_table_row {
    const qg_value *value;
    const qg_tqc *tqc; /* has the grid of the row; parameters by qg_tqc_param */
} qg_table_row;

/* The rows of one export, by value id, and the function that writes them. */
typedef struct qg_table {
    qg_export *e;
    QG_VEC(qg_table_row) row;
    qg_status (*put)(const struct qg_table *t, FILE *stream);
} qg_table;

/* A grid as readers of the file have it. */
typedef struct qg_table_grid {
    qg_scheme scheme;
    int64_t shift; /* of the codes and offsets, from the record's to the reader's */
} qg_table_grid;

typedef struct qg_table_reader qg_table_reader;

/* Which endpoints PPQ's exporter of the format writes (quirk ppq-exports): the last one
 * of a value, in order of nodes.  None, when the format is not PPQ's. */
typedef struct qg_table_ppq {
    uint32_t states;                /* bit per qg_tqc_state */
    bool keeps_first;               /* PASSIVE does not replace an earlier one */
    bool internal;                  /* INTERNAL endpoints too */
    bool (*takes)(const qg_tqc *t); /* further conditions; NULL: none */
} qg_table_ppq;
enum {
    QG_TABLE_ACTIVE = 1u << QG_TQC_ACTIVATED | 1u << QG_TQC_PASSIVE,
    QG_TABLE_EXPORTED =
        QG_TABLE_ACTIVE | 1u << QG_TQC_BAKED | 1u << QG_TQC_PASSIVE_BAKED
};

typedef struct qg_table_form {
    bool constants; /* rows of constants too; false: of activations only */
    /* The reader's grid for t: *g holds the record's own and is changed.  False: the
     * file cannot have this endpoint. */
    bool (*grid)(const qg_export *e, const qg_tqc *t, qg_table_grid *g);
    qg_status (*put)(const qg_table *t, FILE *stream);
    /* Calls qg_table_found for each entry of the file.  NULL: not imported. */
    qg_status (*parse)(qg_table_reader *r, const qg_json_source *from);
    qg_table_ppq ppq;
} qg_table_form;

/* The functions of the row of a format (format.h). */
QG_NODISCARD qg_status qg_table_build(qg_export *e);
QG_NODISCARD qg_status qg_table_write(qg_export *e);
QG_NODISCARD qg_status qg_table_import(qg_import *i);

/* For forms: the code and zero point of a parameter in the reader's grid. */
QG_NODISCARD int64_t qg_table_zero(const qg_export *e, const qg_tqc *t, size_t channel);
/* Both limits of the reader's grid, in the tensor's unit. */
double qg_table_low(const qg_export *e, const qg_tqc *t, size_t channel);
double qg_table_high(const qg_export *e, const qg_tqc *t, size_t channel);
/* The reader's grid of t, which has one. */
qg_table_grid qg_table_grid_of(const qg_export *e, const qg_tqc *t);
bool qg_table_acts(const qg_tqc *t); /* rounds at run time, or is a rounded constant */

/* What quirks of a format replace (qg_format.quirk). */
typedef struct qg_table_behaviours {
    qg_status (*rows)(qg_export *e, qg_table *t); /* fills t->row, reports losses */
    qg_status (*put)(const qg_table *t, FILE *stream);
} qg_table_behaviours;

/* The rows that `ppq` of the form selects; reports no losses. */
QG_NODISCARD qg_status qg_table_ppq_rows(qg_export *e, qg_table *t);
#define QG_TABLE_PPQ_ROWS(source)                                                      \
    QG_SWAP(PPQ_EXPORTS, "one entry per value: that of its last exported endpoint",    \
            QG_PPQ source, qg_table_behaviours, rows, qg_table_ppq_rows)

/* Whether a format treats an operator of that name apart; names end with NULL. */
bool qg_table_among(const char *op, const char *const *names);

/* Ordinary 8-bit grids, for `grid`: symmetric [-limit, 127] codes, one scale per tensor
 * unless `channels`. */
bool qg_table_int8(const qg_tqc *t, qg_table_grid *g, int64_t limit, bool channels);

/* For build, of any format whose file has some endpoints only: a loss for every
 * endpoint that acts and is not marked; covered: [TQCs]. */
QG_NODISCARD qg_status qg_table_lose_rest(qg_export *e, const bool *covered);
/* A loss that changes what readers compute, of constants too: the model beside the
 * file has their floats. */
QG_NODISCARD qg_status qg_table_lose(qg_export *e, enum qg_aspect aspect,
                                     const qg_tqc *t, const char *fmt, ...)
    QG_PRINTF(4, 5);
/* The losses of writing t as the grid g. */
QG_NODISCARD qg_status qg_table_lose_grid(qg_export *e, const qg_tqc *t,
                                          const qg_table_grid *g);

/* --- reading --- */

/* The records that a file describes, for the graph of its model. */
struct qg_table_reader {
    qg_ctx *ctx;
    qg_graph *g;
    const char *from;     /* for people: "aimet 1.0.0"; by default the format */
    qg_record_plan *plan; /* [nodes] */
    size_t found;         /* entries with a place in the model */
    size_t missing;       /* without one; names the first */
    char example[64];
};

/* An entry for the value of that name.  The grid is copied; its scheme may have axis -1
 * where the file does not state it.  QG_EPARSE when its parameters are none, QG_EMODEL
 * when the value had an entry or its dims do not fit. */
QG_NODISCARD qg_status qg_table_found(qg_table_reader *r, const char *name,
                                      const qg_grid_record *grid);
/* The same for one endpoint. */
QG_NODISCARD qg_status qg_table_found_at(qg_table_reader *r, qg_endpoint at,
                                         const qg_grid_record *grid);
/* The symmetric int8 grid of one scale, as most tables have it: codes [-limit, 127]. */
QG_NODISCARD qg_status qg_table_found_int8(qg_table_reader *r, const char *name,
                                           float scale, int64_t limit);
/* Room for n parameters of a grid of this scheme, in the graph's arena; offsets are
 * zero. */
typedef struct qg_table_params {
    float *scale;    /* [n] */
    int32_t *offset; /* [n] */
} qg_table_params;
QG_NODISCARD qg_status qg_table_grid_new(qg_table_reader *r, const qg_scheme *s,
                                         size_t n, qg_grid_record *grid,
                                         qg_table_params *room);

/* For parse: `parse` of the JSON document, whose tree dies afterwards. */
QG_NODISCARD qg_status qg_table_parse_json(qg_table_reader *r,
                                           const qg_json_source *from,
                                           qg_status (*parse)(qg_table_reader *r,
                                                              const qg_json *root));

/* The lines of a text, without their ends ("\n" or "\r\n"); a last one may lack it. */
typedef struct qg_table_line {
    const char *at; /* no zero behind it */
    size_t n;
} qg_table_line;
/* The line at *offset, which moves behind it; false at the end. */
bool qg_table_next_line(const qg_json_source *from, size_t *offset,
                        qg_table_line *line);
/* "import: FILE: line 3: <message>", QG_EPARSE. */
qg_status qg_table_fail(const qg_table_reader *r, const qg_json_source *from,
                        size_t line, const char *fmt, ...) QG_PRINTF(4, 5);

/* An entry of a name that the model lacks. */
void qg_table_missing(qg_table_reader *r, const char *name);

/* Records for g (inferred) from the bytes of a file of that format. */
QG_NODISCARD qg_status qg_table_parse(qg_graph *g, const qg_format *f,
                                      const qg_json_source *from, qg_quant **out);

#endif

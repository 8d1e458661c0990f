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
 *           model lacks, and those of scale 0, are left out: each is a row of the
 *           report, and a warning counts them.  A file all of whose entries are left
 *           out is an error, and with `strict` one of which any is.
 *
 * Example of a shifted grid, uint8 codes in a format whose readers have int8 codes:
 *
 *                  scale  zero point  codes         limits
 *     record       0.02   100         [0, 255]      [-2.0, 3.1]
 *     reader       0.02   -28         [-128, 127]   [-2.0, 3.1]     shift = -128
 *
 * The shift moves codes and zero point alike, so that the limits in the unit of the
 * tensor stay, and the loss does not change what a reader computes.
 *
 * A graph may have several grids for one value (its producer's, and one per reader), a
 * file of this kind has one per name: this is the reason for most losses.  Formats with
 * a line per endpoint (csv) or with Q and DQ nodes (qdq/qdq.h) do not have them. */
#ifndef QG_ENGINE_FORMATS_TABLE_H
#define QG_ENGINE_FORMATS_TABLE_H

#include "engine/formats/format.h"
#include "engine/formats/grid_record.h"
#include "engine/quant/quirk.h"

/* Both pointers are borrowed from e->quant. */
typedef struct qg_table_row {
    const qg_value *value; /* its name is the name of the entry */
    const qg_tqc *tqc;     /* has the grid of the row; parameters by qg_tqc_param */
} qg_table_row;

/* The rows of one export, by value id, and the function that writes them.  Made by
 * build, in the arena of the export, as e->built; write only reads it.  With quirk
 * ppq-exports, rows are in the order of their first endpoint, as in PPQ's file. */
typedef struct qg_table {
    qg_export *e;
    QG_VEC(qg_table_row) row;
    qg_status (*put)(const struct qg_table *t, FILE *stream);
} qg_table;

/* A grid as readers of the file have it.  shift: added to codes, limits and zero point
 * of the record; the scale is never changed. */
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
     * file cannot have this endpoint.  Called again for each parameter of a row, hence
     * without side effects: it depends on e->option and t alone. */
    bool (*grid)(const qg_export *e, const qg_tqc *t, qg_table_grid *g);
    /* The whole file.  Errors of the stream are found by the caller, so that results
     * of fprintf may be ignored; floats are written by core/num.h, since printf follows
     * the locale. */
    qg_status (*put)(const qg_table *t, FILE *stream);
    /* Calls qg_table_found for each entry of the file; any bytes but 0 may come.  NULL:
     * not imported. */
    qg_status (*parse)(qg_table_reader *r, const qg_json_source *from);
    /* After parse: adds the records that the file lacks and its reader makes itself.
     * NULL: none. */
    qg_status (*complete)(qg_table_reader *r);
    /* Sets *out when `complete` makes the record of this constant as it is, so that the
     * file needs no row of it.  NULL: none. */
    qg_status (*makes)(qg_export *e, const qg_tqc *t, bool *out);
    /* The k-th name that an entry may have, for messages; NULL: there are no more.
     * NULL: names of float32 values. */
    const char *(*name)(const qg_table_reader *r, size_t k);
    qg_table_ppq ppq;
    const char *ends; /* characters that no name of a row may have; NULL: any name */
} qg_table_form;

/* The functions of the row of a format (format.h). */
QG_NODISCARD qg_status qg_table_build(qg_export *e);
QG_NODISCARD qg_status qg_table_write(qg_export *e);
QG_NODISCARD qg_status qg_table_import(qg_import *i);

/* For forms: the zero point of a parameter in the reader's grid.  In these functions t
 * has a row (asserted), and channel is below the number of its parameters. */
QG_NODISCARD int64_t qg_table_zero(const qg_export *e, const qg_tqc *t, size_t channel);
/* Both limits of the reader's grid, in the tensor's unit: (qmin - zero) * scale and
 * (qmax - zero) * scale, in double. */
double qg_table_low(const qg_export *e, const qg_tqc *t, size_t channel);
double qg_table_high(const qg_export *e, const qg_tqc *t, size_t channel);
/* The reader's grid of t, which has one. */
qg_table_grid qg_table_grid_of(const qg_export *e, const qg_tqc *t);

/* What quirks of a format replace (qg_format.quirk): a row of the table of quirks names
 * one member and its substitute, and qg_table_build applies those that are on. */
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
 * unless `channels`.  limit is 128 or 127: runtimes differ in the use of code -128.  An
 * offset or other limits of the record do not make it false; qg_table_lose_grid reports
 * them. */
bool qg_table_int8(const qg_tqc *t, qg_table_grid *g, int64_t limit, bool channels);

/* For build, of any format whose file has some endpoints only: a loss for every
 * endpoint that acts and is not marked; covered: [TQCs]. */
QG_NODISCARD qg_status qg_table_lose_rest(qg_export *e, const bool *covered);
/* The losses of writing t as the grid g: at most one of limits or bits, one of the
 * axis, one of the offsets (of the first channel that has one). */
QG_NODISCARD qg_status qg_table_lose_grid(qg_export *e, const qg_tqc *t,
                                          const qg_table_grid *g);

/* --- reading --- */

/* The records that a file describes, for the graph of its model.  They are collected
 * per node first and become records afterwards, producers before readers, since an
 * OVERLAPPED input needs the record of its producer. */
struct qg_table_reader {
    qg_ctx *ctx;
    qg_graph *g;
    const char *from; /* for people: "aimet 1.0.0"; by default the format */
    const qg_table_form *form;
    const char *names;                 /* of qg_import, or NULL */
    bool strict;                       /* the same */
    qg_record_plan *plan;              /* [nodes] */
    size_t found;                      /* entries with a place in the model */
    qg_left_out_list left_out;         /* entries without one */
    size_t own_scales;                 /* as in qg_import */
    const struct qg_ncnn_param *param; /* ncnn: the file `names`, read by parse */
    const qg_json_source *file;        /* for messages */
    size_t line;                       /* the same; 0: the format has no lines */
};

/* An entry for the value of that name.  The grid is copied; its scheme may have axis -1
 * where the file does not state it.  Its arrays of parameters are not copied: they must
 * live as long as the graph (qg_table_grid_new).  QG_EPARSE when a scale is none
 * (qg_import_is_scale), QG_EMODEL when the value had an entry, or as qg_import_check
 * finds.  A name without a float32 value counts as missing,
 * which is no error: other tools name values of their own rewritten graph. */
QG_NODISCARD qg_status qg_table_found(qg_table_reader *r, const char *name,
                                      const qg_grid_record *grid);
/* The same for one endpoint. */
QG_NODISCARD qg_status qg_table_found_at(qg_table_reader *r, qg_endpoint at,
                                         const qg_grid_record *grid);
/* The symmetric int8 grid of one scale, as most tables have it: codes [-limit, 127]. */
QG_NODISCARD qg_status qg_table_found_int8(qg_table_reader *r, const char *name,
                                           float scale, int64_t limit);
/* Room for n parameters of a grid of this scheme, in the graph's arena; offsets are
 * zero.  *grid refers to the arrays of *room, which the caller fills before
 * qg_table_found:
 *
 *     QG_TRY(qg_table_grid_new(r, &scheme, n, &grid, &room));
 *     room.scale[0 .. n - 1] = ...
 *     QG_TRY(qg_table_found(r, name, &grid)); */
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
/* The line at *offset, which moves behind it, and r->line counts it; false at the end.
 * *offset is 0 at first. */
bool qg_table_next_line(qg_table_reader *r, size_t *offset, qg_table_line *line);
/* "import: FILE: line 3: <message>", QG_EPARSE.  Lines count from 1. */
qg_status qg_table_fail(const qg_table_reader *r, const char *fmt, ...) QG_PRINTF(2, 3);

/* Why an entry is left out; UNSCALED: a scale of 0, by which a format marks a tensor
 * without a range; FLOAT: of the model, and in float by the file. */
enum qg_table_reason {
    QG_LEFT_MISSING,
    QG_LEFT_UNSCALED,
    QG_LEFT_WITHOUT_DATA,
    QG_LEFT_WITHOUT_WEIGHT,
    QG_LEFT_FLOAT,
    QG_N_LEFT
};
QG_NODISCARD qg_status qg_table_leave_out(qg_table_reader *r, const char *name,
                                          enum qg_table_reason why);

/* Records for g (inferred) from the bytes of a file of that format, which has a table
 * with `parse`.  *out lies in the arena of g and has passed qg_check_tqcs.  Hostile
 * bytes give a status.  g gets the platforms of its nodes, and constants on their
 * grids. */
QG_NODISCARD qg_status qg_table_parse(qg_graph *g, const qg_format *f,
                                      const qg_json_source *from, qg_quant **out);

#endif

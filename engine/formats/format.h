/* format.h -- file formats of other runtimes: the row of a format, an export, its
 * losses.
 *
 * A format is a row {name, aspects it can represent, build, write, import}.  Adding one
 * is a file with a `const qg_format` and a line in formats.def (formats.h); verbs,
 * options, listings and reports follow from the row.
 *
 * Export   build   makes everything in memory and finds every loss; writes nothing
 *          (here)  --strict refuses when something is lost
 *          write   puts the files in place, complete or not at all
 * Import   the other way: a float graph with TQCs, as a snapshot has them.
 * Loss     a qg_aspect is a property of a TQC.  Aspects that an endpoint uses and the
 *          format's `says` lacks become rows of the loss report automatically; a format
 *          adds losses specific to it by qg_export_lose.
 * Order    rows by endpoint id, then aspect; equal snapshots and options give equal
 *          bytes
 * Source   docs/evidence/ppq-behaviour.md#files, DESIGN.md, section 8
 *
 * Aspects of an endpoint (qg_tqc_aspects), by its state:
 *
 *     ACTIVATED, BAKED, PASSIVE, PASSIVE_BAKED   its scheme; SHARING unless it is its
 *                                                own root; DERIVED for a bias
 *     OVERLAPPED                                 SILENT
 *     INITIAL, PASSIVE_INIT, off                 STATE
 *     FP32, SOI                                  nothing: absence means float
 *
 * A whole format, for a tool that reads one symmetric scale per tensor:
 *
 *     static qg_status build(qg_export *e) { ... e->built = text; return QG_OK; }
 *     static qg_status write(qg_export *e) { ... return qg_export_wrote(e, e->path); }
 *     const qg_format qg_format_scales = { .name = "scales", .suffix = ".txt",
 *         .summary = "one scale per tensor", .says = QG_SAYS_SILENT,
 *         .build = build, .write = write };
 *
 * and its report names every per-channel weight, offset and shared scale. */
#ifndef QG_ENGINE_FORMATS_FORMAT_H
#define QG_ENGINE_FORMATS_FORMAT_H

#include "engine/core/file.h"
#include "engine/number/profile.h"
#include "engine/snapshot/quant_json.h"

/* clang-format off */
#define QG_ASPECT_MAP(X)  /* id, word, the loss when a format cannot represent it */ \
    X(PER_CHANNEL, "per-channel", "one scale per channel")                     \
    X(BLOCK,       "block",       "one scale per block")                       \
    X(OFFSET,      "offset",      "an offset other than 0")                    \
    X(RANGE,       "range",       "limits narrower than those of the type")    \
    X(BITS,        "bits",        "a bit width without a type")                \
    X(FLOATING,    "floating",    "a floating-point grid")                     \
    X(DYNAMIC,     "dynamic",     "a scale computed at run time")              \
    X(POWER_OF_2,  "power-of-2",  "scales restricted to powers of two")        \
    X(ROUNDING,    "rounding",    "a rounding mode other than the format's")   \
    X(QUANTIZER,   "quantizer",   "the quantization function of the host")     \
    X(SHARING,     "sharing",     "the source of a shared scale")              \
    X(DERIVED,     "derived",     "a scale derived as input x weight")         \
    X(SILENT,      "overlapped",  "the dominator that quantizes in its place") \
    X(STATE,       "state",       "a disabled or uncalibrated quantizer")      \
    X(ENDPOINT,    "endpoint",    "the quantization of this endpoint")         \
    X(FLOAT_TYPE,  "float-type",  "the 16-bit float type of the model")        \
    X(OPEN,        "open-dims",   "an extent that the model leaves open")      \
    X(NAN,         "nan",         "the code that quantization makes of NaN")
/* clang-format on */

enum {
#define X(id, word, lost) QG_ASPECT_BIT_##id,
    QG_ASPECT_MAP(X)
#undef X
        QG_N_ASPECT
};
/* Masks: aspects a format represents, aspects an endpoint uses. */
#define X(id, word, lost) QG_SAYS_##id = 1u << QG_ASPECT_BIT_##id,
enum qg_aspect { QG_ASPECT_MAP(X) };
#undef X

/* Options of formats; a format lists the words that it takes. */
#define QG_FORMAT_OPTION_MAP(X)                                                        \
    X(WEIGHTS, "weights")                                                              \
    X(PLACEMENT, "placement") X(FLOAT, "float") X(VERSION, "version")
enum qg_format_option {
#define X(id, word) QG_FORMAT_##id,
    QG_FORMAT_OPTION_MAP(X)
#undef X
        QG_N_FORMAT_OPTION
};

/* Ends the words of an option of which the format itself checks others. */
#define QG_FORMAT_ANY "..."

#define QG_NAN_BIT(rule) (1u << (rule)) /* of a qg_nan */

const char *qg_format_option_word(enum qg_format_option k); /* "weights" */

typedef struct qg_export qg_export;
typedef struct qg_import qg_import;

/* A row; static and immutable. */
typedef struct qg_format {
    const char *name;     /* "onnx-qdq" */
    const char *suffix;   /* of the file, for people: ".onnx", ".xml + .bin" */
    const char *summary;  /* one line */
    uint32_t says;        /* of qg_aspect */
    qg_rounding rounding; /* how its readers round; 0 is half-even */
    uint32_t nan;         /* mask of QG_NAN_BIT: their rules for NaN; 0: not known */
    /* The words of each option, ending with NULL, the default first (of placement: that
     * of the backend, if it has one); NULL: the format does not have the option. */
    const char *const *choice[QG_N_FORMAT_OPTION]; /* QG_FORMAT_ANY: or any word */
    qg_status (*build)(qg_export *e);              /* NULL: not exported */
    qg_status (*write)(qg_export *e);
    qg_status (*import)(qg_import *i); /* NULL: not imported */
    /* Whether a file that begins like this is one of the format, so that it can be
     * opened as a model; NULL: it is imported by name only. */
    bool (*recognizes)(const unsigned char *bytes, size_t size);
    /* Of a format that has operators of its own, not ONNX's: operator number i of
     * ai.onnx that it takes, and what that is called in the file, NULL where it becomes
     * several; NULL behind the last one.  NULL: it has those of ONNX. */
    const char *(*layer)(size_t i, const char **name);
    bool needs_model;                  /* import: the file has no graph of its own */
    bool takes_names;                  /* has a use for qg_export.names, and import's */
    bool takes_analysis;               /* the same of qg_export.analysis */
    const struct qg_table_form *table; /* of a format that is a table (table.h) */
    const struct qg_quirk_row *quirk;  /* its behaviours that quirks replace, or NULL */
    const char *profile; /* export: the integer program that is written has this
                          * arithmetic; NULL: the float graph is written */
} qg_format;

/* One detail that the file cannot represent. */
typedef struct qg_loss {
    const qg_tqc *tqc;     /* whose; NULL: of the whole model */
    enum qg_aspect aspect; /* one bit */
    bool computes;         /* the runtime will compute something else */
    const char *text;      /* in the export's arena */
} qg_loss;

/* One export.  Set the first seven, then begin (formats.h), run, end. */
struct qg_export {
    qg_ctx *ctx;
    const qg_quant *quant; /* graph and TQCs: read, never changed */
    const qg_snapshot_info *info;
    const char *path; /* of the file; others are next to it */
    const char
        *names; /* a file of the target with its names; NULL: those of the graph */
    const char *analysis;      /* a report of errors per node; NULL: none */
    uint64_t quirks;           /* mask of qg_quirk */
    const qg_profile *profile; /* set after begin, if the format names one */

    const qg_format *format; /* by begin */
    qg_rounding rounding;    /* by run: the format's, unless build knows the reader */
    uint32_t nan;            /* the same */
    const char *option[QG_N_FORMAT_OPTION]; /* a word of choice, or NULL: not taken */
    qg_arena *arena;                        /* dies with the export */
    qg_graph *graph;      /* for build to leave to write; freed by end; may be NULL */
    void *built;          /* the same for anything else, in the arena */
    QG_VEC(qg_loss) loss; /* sorted when run returns */
    QG_VEC(const char *) file; /* paths written, in the arena */
};

/* An entry of a file that an import leaves out, and so leaves its value in float. */
typedef struct qg_left_out {
    const char *entry;
    const char *why; /* static */
} qg_left_out;
typedef QG_VEC(qg_left_out) qg_left_out_list;

/* One import.  graph is freed when the importer fails; quant lies in its arena.  info
 * is zeroed and may be filled. */
struct qg_import {
    qg_ctx *ctx;
    const char *path;           /* the file in the format, or a name for `bytes` */
    const unsigned char *bytes; /* [size] its contents, for a format that `recognizes`
                                 * them; NULL: they are read */
    size_t size;
    const char *model;       /* --model; NULL unless the format needs one */
    const char *names;       /* as in qg_export */
    bool strict;             /* an entry that is left out is an error */
    const qg_format *format; /* by qg_format_import */
    qg_graph *graph;         /* canonical enough to run: inferred, verified */
    qg_quant *quant;
    qg_snapshot_info info;
    qg_left_out_list left_out; /* in the graph's arena, in the order of the file */
    size_t own_scales;         /* constants whose scales are not of the file, but from
                                * their values, as its reader makes them */
};

/* Builds, collects the losses, writes.  strict: QG_EUNSUPPORTED when anything is lost,
 * naming the first and their number, and nothing is written. */
QG_NODISCARD qg_status qg_export_run(qg_export *e, bool strict);
void qg_export_end(qg_export *e); /* safe twice */

/* For build: QG_EUNSUPPORTED when the name has one of the characters `ends`: those that
 * end words, where names are words of a line, or those that the file cannot hold. */
QG_NODISCARD qg_status qg_export_word(qg_export *e, const char *name, const char *ends);

/* For build: one more loss; t NULL for the whole model.  The text gives the loss and
 * its substitute.  Bits and limits that a format reports itself count as kept by the
 * values. */
QG_NODISCARD qg_status qg_export_lose(qg_export *e, enum qg_aspect aspect,
                                      const qg_tqc *t, const char *fmt, ...)
    QG_PRINTF(4, 5);

/* The same, of a loss that changes what readers compute, whatever the aspect and also
 * of a constant: where the model beside the file, or a node of it, has the floats. */
QG_NODISCARD qg_status qg_export_lose_result(qg_export *e, enum qg_aspect aspect,
                                             const qg_tqc *t, const char *fmt, ...)
    QG_PRINTF(4, 5);

/* The same, of a node in float that the reader computes otherwise: at its output, or at
 * its first input where that has no TQC; what and why follow the node's name. */
QG_NODISCARD qg_status qg_export_lose_node(qg_export *e, const qg_node *n,
                                           const char *what, const char *why);

/* For build of a format with fixed dims: a row where the model leaves one open. */
QG_NODISCARD qg_status qg_export_lose_open(qg_export *e);

/* For write: remembers a path for the report (copied). */
QG_NODISCARD qg_status qg_export_wrote(qg_export *e, const char *path);

/* For write, before a commit: QG_ECONFIG when `beside`, a file that the user did not
 * name, is there although e->path is not, and has other bytes than w, which is to
 * replace it: another program wrote it.  Equal bytes are what a killed export left. */
QG_NODISCARD qg_status qg_export_keep_beside(const qg_export *e, const char *beside,
                                             const qg_writer *w);

/* For write, of a format whose file lies next to a model: `put` writes e->path, and the
 * float graph becomes a .onnx file of the same name.  Both are complete, or none is
 * there. */
QG_NODISCARD qg_status qg_export_beside_model(qg_export *e,
                                              qg_status (*put)(qg_export *e,
                                                               FILE *stream));

/* Whether n is one of these operators of ONNX's own domain; false for NULL. */
bool qg_node_is_onnx(const qg_node *n, const char *const *names, size_t count);

/* The aspects of the map that an endpoint uses, by its state and scheme, for a format
 * whose rounding mode is `usual`; 0 for FP32 and SOI. */
uint32_t qg_tqc_aspects(const qg_tqc *t, qg_rounding usual);

const char *qg_aspect_word(enum qg_aspect a); /* "per-channel"; one bit (asserted) */

/* For import: the ONNX model at `path`, inferred, in i->graph. */
QG_NODISCARD qg_status qg_import_graph(qg_import *i, const char *path);

#endif

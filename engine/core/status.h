/* status.h -- how every fallible function reports failure.
 *
 * A function that can fail returns qg_status and writes its result through its
 * LAST parameter, which it leaves untouched on failure.
 *
 * The message is written once, where the fault is found, by qg_fail().  Callers
 * only pass the status up with QG_TRY().  Message grammar, so it can be grepped:
 *
 *     <doing>: <which object>: <what is wrong>, expected <what>
 *     import: node 'conv1' (Conv): strides has 64 values, expected 2
 *
 * Bad input (model, YAML, data, command line) is a status, never an assert.
 * A broken invariant of our own is an assert, never a status.
 *
 * In use:
 *
 *     if (rank != 4)
 *         return qg_fail(ctx, QG_EMODEL, "infer: %s: rank %d, expected 4", name, rank);
 *     QG_TRY(qg_graph_add_value(g, name, &v));
 *
 * After a failure: out-parameters are untouched; an object that was being changed is
 * valid, unchanged unless its function documents otherwise. */
#ifndef QG_ENGINE_CORE_STATUS_H
#define QG_ENGINE_CORE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Marks the exports of a shared library: everything else has hidden visibility. */
#if defined(__GNUC__)
#define QG_API __attribute__((visibility("default")))
#else
#define QG_API
#endif

/* clang-format off */
#define QG_STATUS_MAP(X)                                                       \
    X(OK,           "ok")                                                      \
    X(ENOMEM,       "out of memory")                                           \
    X(EIO,          "cannot read or write a file")                             \
    X(EPARSE,       "malformed file")                                          \
    X(EMODEL,       "well-formed file, invalid model")                         \
    X(EUNSUPPORTED, "valid model, not implemented here")                       \
    X(ECONFIG,      "backend, pipeline or option is wrong")                    \
    X(EDATA,        "input data does not fit the model")                       \
    X(ESTATE,       "quantization state does not allow this")                  \
    X(ENUMERIC,     "a number that must be finite is not")                     \
    X(ECANCELED,    "cancelled by the caller")                                 \
    X(EMEMORY,      "more memory than the limit allows")
/* clang-format on */

/* QG_OK is 0; QG_NSTATUS is the number of statuses, not one of them. */
typedef enum qg_status {
#define X(id, text) QG_##id,
    QG_STATUS_MAP(X)
#undef X
        QG_NSTATUS
} qg_status;

/* An ignored status is an error (-Wunused-result); formats are checked
 * against their arguments. */
#if defined(__GNUC__)
#define QG_NODISCARD         __attribute__((warn_unused_result))
#define QG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QG_NODISCARD
#define QG_PRINTF(fmt, args)
#endif

/* A condition that we believe is false but still handle; debug builds stop. */
#define QG_NEVER(x) (assert(!(x)), (x))

typedef struct qg_ctx qg_ctx;

/* Records a message on ctx and returns s, so that a fault is one statement:
 *     return qg_fail(ctx, QG_EMODEL, "infer: %s: rank %d, expected 4", ...);
 * ctx may be NULL: then only the status survives.
 * s is not QG_OK.  The message replaces the last one and is cut at 1023 bytes; no
 * memory is allocated.  To put words before the last one, give it as an argument:
 *     return qg_fail(ctx, s, "import: %s: %s", name, qg_ctx_message(ctx)); */
QG_API qg_status qg_fail(qg_ctx *ctx, qg_status s, const char *fmt, ...)
    QG_PRINTF(3, 4);

QG_API const char *qg_status_name(qg_status s);       /* "QG_EMODEL"; never NULL */
QG_API const char *qg_status_text(qg_status s);       /* "malformed file"; never NULL */
QG_API const char *qg_ctx_message(const qg_ctx *ctx); /* the last one; never NULL */

/* Passes any failure up.  For functions that return qg_status and own nothing but arena
 * memory at that point; resources such as a writer or a file must be closed before. */
#define QG_TRY(expr)                                                                   \
    do {                                                                               \
        qg_status qg_try_ = (expr);                                                    \
        if (qg_try_ != QG_OK)                                                          \
            return qg_try_;                                                            \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif

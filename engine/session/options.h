/* options.h -- structs of options of callers compiled against another version
 * of this library: with fewer fields, or with more.
 *
 * A public function that takes options reads them once, into a struct of its own:
 *
 *     QG_OPTIONS_INIT(qg_price_options)               // once: the public init function
 *
 *     qg_status qg_model_price(qg_model *m, const qg_price_options *given, ...)
 *     {
 *         qg_price_options o;
 *         QG_TRY(QG_OPTIONS_READ(m->ctx, qg_price_options, given, &o));
 *         QG_TRY(qg_workload_check(m->ctx, &o.work)); // where the struct has one
 *
 * and no longer uses `given`.  An init function with defaults other than zero is
 * written by hand, around qg_options_init.  engine/embed does the same, with its
 * structs. */
#ifndef QG_ENGINE_SESSION_OPTIONS_H
#define QG_ENGINE_SESSION_OPTIONS_H

#include <stddef.h>

#include "engine/api/qg.h"

/* One struct of options as this library has it. */
typedef struct qg_options_type {
    const char *name; /* "qg_run_options" */
    size_t size;
} qg_options_type;

/* Implements init functions: the first bytes of preset (of the type's size), then
 * zeros; `size`, the first member, is the caller's.  `size` bytes of o are written and
 * no more. */
void qg_options_init(void *o, size_t size, const void *preset, qg_options_type type);

/* Copies the fields present on both sides over *out, which holds the defaults.  given:
 * NULL leaves them all.  QG_ECONFIG when the size cannot be that of such a struct, and
 * when a field is set that this library does not have.  ctx may be NULL. */
QG_NODISCARD qg_status qg_options_read(qg_ctx *ctx, qg_options_type type,
                                       const void *given, void *out);

/* Structs inside of others cannot grow: members reserved for later versions must be
 * NULL.  QG_ECONFIG names the struct. */
QG_NODISCARD qg_status qg_workload_check(qg_ctx *ctx, const qg_workload *work);
QG_NODISCARD qg_status qg_proposal_check(qg_ctx *ctx, const qg_proposal_options *o);

/* Defines T_init of a struct whose defaults are zeros. */
#define QG_OPTIONS_INIT(type)                                                          \
    void type##_init(type *o, size_t size)                                             \
    {                                                                                  \
        static const type preset = { 0 };                                              \
        qg_options_init(o, size, &preset, (qg_options_type){ #type, sizeof *o });      \
    }

/* qg_options_read into *out (a struct of this type) with its defaults. */
#define QG_OPTIONS_READ(ctx, type, given, out)                                         \
    (type##_init((out), sizeof(type)),                                                 \
     qg_options_read((ctx), (qg_options_type){ #type, sizeof(type) }, (given), (out)))

#endif

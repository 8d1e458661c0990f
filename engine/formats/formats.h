/* formats.h -- the table of formats: finding one by name, exporting to it, importing
 * from it.  The rows are those of formats.def.
 *
 *     qg_export e = { .ctx = ctx, .quant = q, .info = &info, .path = path };
 *     QG_TRY(qg_export_begin(&e, "onnx-qdq", NULL));
 *     s = qg_export_run(&e, strict);             // then read e.loss and e.file
 *     qg_export_end(&e);                          // in any case */
#ifndef QG_ENGINE_FORMATS_FORMATS_H
#define QG_ENGINE_FORMATS_FORMATS_H

#include "engine/formats/format.h"

extern const qg_format *const qg_formats[]; /* ends with NULL */

/* QG_ECONFIG with the nearest name. */
QG_NODISCARD qg_status qg_format_named(qg_ctx *ctx, const char *name,
                                       const qg_format **out);

/* The format that recognizes these bytes of a file; NULL: none. */
const qg_format *qg_format_of_bytes(const unsigned char *bytes, size_t size);

/* Finds the format and checks the words of its options; option NULL: all defaults, as
 * for entries that are NULL.  QG_ECONFIG for a word or an option that the format does
 * not have, QG_EUNSUPPORTED for a format that is only imported.  After a failure
 * qg_export_end need not be called. */
QG_NODISCARD qg_status qg_export_begin(qg_export *e, const char *format,
                                       const char *const option[QG_N_FORMAT_OPTION]);

/* Reads i->path in that format.  QG_ECONFIG when a model is needed and missing, or
 * given and not needed; QG_EUNSUPPORTED for a format that is only exported. */
QG_NODISCARD qg_status qg_format_import(qg_import *i, const char *format);

#endif

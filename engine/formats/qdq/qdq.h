/* qdq.h -- building and writing a graph with Q and DQ, for every format that has them.
 * See qdq.c for the rules of placement. */
#ifndef QG_ENGINE_FORMATS_QDQ_QDQ_H
#define QG_ENGINE_FORMATS_QDQ_QDQ_H

#include "engine/formats/format.h"

/* The words of --float: "auto", "model", "float32". */
extern const char *const qg_qdq_floats[];

/* build and write of a format.  The placement is that of the option, or ort for a
 * format without it. */
QG_NODISCARD qg_status qg_qdq_build(qg_export *e);
QG_NODISCARD qg_status qg_qdq_write(qg_export *e);

/* The same, with operators on codes where there are kernels for them (fuse.h). */
QG_NODISCARD qg_status qg_qdq_build_fused(qg_export *e);

#endif

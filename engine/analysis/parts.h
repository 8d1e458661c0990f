/* parts.h -- the state of endpoints before sharing rules joined their scales: the
 * journal without the entries of sharing rules.
 *
 * A part is a set of endpoints with one scale without any sharing rule: a fused chain
 * with the overlapped inputs after it and the passive nodes that pass it on.  One
 * endpoint is its dominator, with the scale from calibration.  A group made by sharing
 * has several parts.
 *
 * The journal may come from a file, so its words are checked: unknown names are
 * ignored, and chains are followed for a bounded number of steps.
 * Owner    the arena given to qg_parts_read */
#ifndef QG_ENGINE_ANALYSIS_PARTS_H
#define QG_ENGINE_ANALYSIS_PARTS_H

#include "engine/quant/backend.h"

typedef struct qg_before {
    uint32_t up; /* TQC id of the dominator; its own when it is the dominator */
    qg_tqc_state state;
    float scale; /* of a part with one scale; 0: none was recorded */
    int32_t offset;
} qg_before;

typedef struct qg_parts {
    const qg_quant *q; /* borrowed */
    qg_before *was;    /* [TQCs] */
} qg_parts;

/* Linear in the journal. */
QG_NODISCARD qg_status qg_parts_read(qg_ctx *ctx, const qg_quant *q, qg_arena *a,
                                     qg_parts *out);

/* The TQC id of the dominator of t's part. */
uint32_t qg_part_of(const qg_parts *p, uint32_t t);

/* Parts of the group of root t, which is one of its own; 0 when t is no root, is alone,
 * a part has no scale of its own to return to, or its journal leads out of the
 * group. */
size_t qg_parts_count(const qg_parts *p, const qg_tqc *t);

/* Substitutes (exec/plan.h) for the group's TQCs, as they were before sharing; copy:
 * [TQCs], others stay as they are.  qg_parts_count(p, root) > 0.  QG_ENOMEM only. */
QG_NODISCARD qg_status qg_parts_separate(qg_ctx *ctx, const qg_parts *p, qg_arena *a,
                                         const qg_tqc *root, qg_tqc **copy);

/* "concat-inputs" of "align/concat-inputs"; NULL: `by` is not a sharing rule. */
const char *qg_sharing_rule(const qg_backend *b, const char *by);

#endif

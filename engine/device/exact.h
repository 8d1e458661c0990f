/* exact.h -- a step beside its real values: ties, the exact value rounded in several
 * ways, the grid on which the device's codes lie best. */
#ifndef QG_ENGINE_DEVICE_EXACT_H
#define QG_ENGINE_DEVICE_EXACT_H

#include "engine/device/suspect.h"

enum { QG_EXACT_SUSPECTS = 16 };

/* Codes are only set for a step that stores codes; texts of suspects are
 * static or in the device's arena. */
typedef struct qg_exact {
    qg_suspect suspect[QG_EXACT_SUSPECTS]; /* that need no kernel */
    size_t n;
    bool grid; /* the codes lie on a line over the real values: */
    float scale;
    int32_t zero;
    int32_t low, high;         /* least and greatest code of the device, */
    int32_t own_low, own_high; /* and of the program */
} qg_exact;

/* Fills the real values and accumulators of f->at, f->ties, f->differ_at_ties.  Nothing
 * is found when the real values cannot be computed. */
QG_NODISCARD qg_status qg_exact_study(const qg_device *d, qg_finding *f, qg_exact *out);

/* Elements of all samples whose real value is half-way between two codes. */
QG_NODISCARD qg_status qg_exact_ties(const qg_device *d, const qg_device_step *s,
                                     uint64_t *out);

#endif

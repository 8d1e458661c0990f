/* exact.h -- a step beside its real values: ties, the exact value rounded in several
 * ways, the grid on which the device's codes lie best. */
#ifndef QG_ENGINE_DEVICE_EXACT_H
#define QG_ENGINE_DEVICE_EXACT_H

#include "engine/device/bias.h"
#include "engine/device/suspect.h"

enum { QG_EXACT_SUSPECTS = 48, QG_EXACT_GRIDS = 2 };
/* Rank (change.c) of a scale that is nearly the program's: behind all that fit no
 * number. */
enum { QG_NEAR_GRID = 45, QG_DENIED_GRID = 40 };

/* A grid on which the device's codes lie. */
typedef struct qg_exact_grid {
    float scale;
    int32_t zero;
} qg_exact_grid;

/* Codes are only set for a step that stores codes; texts of suspects are
 * static or in the device's arena. */
typedef struct qg_exact {
    qg_suspect suspect[QG_EXACT_SUSPECTS]; /* that need no kernel */
    size_t n;
    qg_exact_grid grid[QG_EXACT_GRIDS]; /* other than the program's, the simplest first:
                                         * one number changed, a line over the real
                                         * values */
    size_t n_grid;
    int32_t low, high;         /* least and greatest code of the device, */
    int32_t own_low, own_high; /* and of the program */
    int32_t stop_low,
        stop_high; /* the only code of the device where the program has lower ones,
                    * and where it has higher ones; of no such code INT32_MIN and
                    * INT32_MAX */
    qg_bias bias;  /* of the product that the step consists of; in the device's arena */
} qg_exact;

/* Fills the real values and accumulators of f->at, f->ties, f->differ_at_ties.  Nothing
 * is found when the real values cannot be computed. */
QG_NODISCARD qg_status qg_exact_study(const qg_device *d, qg_finding *f, qg_exact *out);

/* Whether a fitted scale is the program's to five digits or so: rounding explains such
 * a difference, too. */
bool qg_exact_is_near(const qg_stored *own, double scale);

/* What another grid than the program's is, as a verdict: "its zero point is 3 instead
 * of 2" where the scale is the program's; origin: its end.  Where the dump confirms the
 * program's grid, the results are a multiple of ours, or so many codes away, and only
 * like those on another grid.  In a; NULL: no memory. */
const char *qg_exact_grid_text(qg_arena *a, const qg_device_step *s, double scale,
                               int32_t zero, const char *origin);

/* Elements of all samples whose real value is half-way between two codes. */
QG_NODISCARD qg_status qg_exact_ties(const qg_device *d, const qg_device_step *s,
                                     uint64_t *out);

#endif

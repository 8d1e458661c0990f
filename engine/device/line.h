/* line.h -- the grid of codes of which the real values are known.
 *
 *     code = round(real / scale + zero)
 *
 * Codes at both ends are left out: a clamp can hide their value. */
#ifndef QG_ENGINE_DEVICE_LINE_H
#define QG_ENGINE_DEVICE_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Borrowed.  low, high: the least and the greatest code of the whole array. */
typedef struct qg_points {
    const double *real, *code; /* [n] */
    size_t n;
    double low, high;
} qg_points;

/* Whether the points leave the scale open: fewer than 12 different codes between the
 * ends. */
bool qg_line_is_open(const qg_points *p);

/* Scale and zero point for which every point has its code, with as few digits as
 * that allows; where there are none, those of the line by least squares. False:
 * fewer than 3 points between the ends, one real value for all, or no plausible
 * line. */
bool qg_line_fit(const qg_points *p, double *scale, double *zero);

/* The scales with which, and this zero point, every point has its code; one point
 * between the ends suffices.  False: there is none. */
bool qg_line_scales(const qg_points *p, double zero, double *low, double *high);

/* The shortest decimal in [low, high], both > 0: tools write scales in decimals, so it
 * is probably the scale itself.  From 3 significant digits; the middle when 10 do not
 * suffice. */
double qg_line_shortest(double low, double high);

#endif

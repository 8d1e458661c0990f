/* phases.h -- a padded image, cut up so that every tap of a kernel reads it in one run.
 *
 * The pixels that lie a stride apart are neighbours in a plane of their own: plane
 * (a, b) has pixel (i sh + a - pad, j sw + b - pad) at (i, j), and 0 where that is
 * padding.  What a tap of the kernel reads for window (r, c) is then a fixed distance
 * from r * pitch + c, whatever the stride and dilation.  Windows are rows of `pitch`
 * elements, too: those behind the width of a row belong to no window and are 0 or
 * ignored.
 *
 *     width 5, kernel 3, stride 2, pad 1, 3 windows, pitch 4
 *     padded image    . 0 1 2 3 4 .
 *     plane 0         . 1 3 .          tap 0 reads . 1 3, tap 2 reads 1 3 .
 *     plane 1         0 2 4 .          tap 1 reads 0 2 4
 *
 * Two axes: height and width.  A band, some rows of windows, has planes of the rows of
 * the image that it reads. */
#ifndef QG_ENGINE_ACCEL_PHASES_H
#define QG_ENGINE_ACCEL_PHASES_H

#include "engine/accel/accel.h"

typedef struct qg_phases {
    int64_t image[2];   /* height, width */
    int64_t windows[2]; /* rows of the band, columns */
    int64_t first;      /* row of windows of the band */
    int64_t stride[2], dilation[2], pad[2];
    int64_t rows, pitch; /* of a plane */
    int64_t run;         /* elements from the first window to the last */
    int64_t size;        /* elements of all planes */
} qg_phases;

/* Whether the problem has two axes at most. */
bool qg_phases_fit(const qg_conv_problem *p);

/* For rows [first, first + rows) of the windows of a convolution. */
qg_phases qg_phases_of(const qg_conv_problem *p, int64_t first, int64_t rows);

/* Where tap (y, x) of the kernel reads for window 0: an index into the planes. */
int64_t qg_phases_tap(const qg_phases *p, int64_t y, int64_t x);

/* to [size]: the planes of an image. */
void qg_phases_load(const qg_phases *p, const float *image, float *to);

/* The opposite: adds the planes to the image; padding is dropped. */
void qg_phases_add(const qg_phases *p, const float *from, float *image);

#endif

/* mask.h -- attention masks of -inf: values that no scale reaches, and that Softmax
 * turns into 0.
 *
 * -inf among finite numbers is a mask where the network makes it.  In a graph input it
 * may be a fault of the data as well: there it is a mask in front of a Softmax only.
 * NaN and +inf are always faults. */
#ifndef QG_ENGINE_CALIB_MASK_H
#define QG_ENGINE_CALIB_MASK_H

#include "engine/calib/stats.h"
#include "engine/ir/graph.h"

/* Whether a Softmax reads v, directly or after few operators that compute element by
 * element or move elements. */
bool qg_feeds_softmax(const qg_value *v);

/* Whether -inf in v is a mask and not a fault of the data. */
bool qg_may_hold_mask(const qg_value *v);

/* Whether x, of value v, holds a mask: -inf and else only finite numbers. */
bool qg_holds_mask(const qg_value *v, const qg_tensor *x);

/* The same of all samples, as statistics of v tell it. */
bool qg_stats_hold_mask(const qg_value *v, const qg_stats_value *s);

#endif

/* bias.h -- the bias of a product, where a device has another one.
 *
 * Another bias moves all elements of an output channel by one number of steps of the
 * accumulator.  A code says within which interval that number lies:
 *
 *     code - 1/2 <= q + shift f <= code + 1/2      q: the exact value in codes,
 *                                                  f: codes per step of the accumulator
 *
 * so the intervals of a channel's elements have a number in common.  Two of three
 * elements do by chance, a dozen do not: channels of fewer stay as they are. */
#ifndef QG_ENGINE_DEVICE_BIAS_H
#define QG_ENGINE_DEVICE_BIAS_H

#include "engine/ir/recipe.h"

/* Elements of a channel that no clamp hides. */
typedef struct qg_bias_channel {
    double least, most; /* code - q */
    double f;
    uint64_t seen;
} qg_bias_channel;

/* Zeroed: nothing is known. */
typedef struct qg_bias {
    int64_t n; /* channels */
    qg_bias_channel *channel;
} qg_bias;

/* n channels; the caller sets f of each. */
QG_NODISCARD qg_status qg_bias_begin(qg_ctx *ctx, qg_arena *a, int64_t n, qg_bias *b);
static inline void qg_bias_see(qg_bias_channel *c, double apart)
{
    c->least = apart < c->least ? apart : c->least;
    c->most = apart > c->most ? apart : c->most;
    c->seen++;
}

/* Whether the elements of a channel have another bias than the program's, and the
 * number in the middle of what they have in common, in steps of the accumulator. */
bool qg_bias_is_other(const qg_bias *b, size_t channel, double *shift);
/* Number of such channels. */
size_t qg_bias_others(const qg_bias *b);

/* Gives node n of g, a product with this recipe, the bias times `factor` plus the
 * shifts of b; b NULL: none.  QG_EUNSUPPORTED: the bias is no constant, or has other
 * channels, or all stays as it is. */
QG_NODISCARD qg_status qg_bias_change(qg_graph *g, qg_node *n, const qg_recipe *r,
                                      int factor, const qg_bias *b);

#endif

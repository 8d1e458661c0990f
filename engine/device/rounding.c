#include "engine/device/rounding.h"

#include <math.h>

#include "engine/number/round.h"

/* Of a code: an exact value that is nearer to one is that code. */
#define ON_CODE 1e-9

enum { HALF_EVEN, HALF_AWAY, HALF_UP, DOWN, UP, TO_ZERO, TO_CODE_0 };

#define ONCE "rounds the exact value once"
/* clang-format off */
const qg_rounding_words qg_rounding_tried[QG_N_ROUNDING_TRIED] = {
    [HALF_EVEN] = { "half-even", ONCE, NULL },
    [HALF_AWAY] = { "half-away-from-zero", ONCE, NULL },
    [HALF_UP] = { "half-up", ONCE, NULL },
    [DOWN] = { "down", "rounds the exact value down", "rounds down" },
    [UP] = { "up", "rounds the exact value up", "rounds up" },
    [TO_ZERO] = { "toward zero", "rounds the exact value towards zero",
                  "rounds towards zero" },
    [TO_CODE_0] = { "toward code 0",
                    "rounds the code towards 0: the exact value with its zero point",
                    "rounds the code towards 0" },
};
/* clang-format on */

static double within(const qg_stored *limits, double code)
{
    return code < limits->low ? limits->low : code > limits->high ? limits->high : code;
}

void qg_round_each(const qg_stored *limits, double q, int32_t zero,
                   double out[QG_N_ROUNDING_TRIED])
{
    double low = floor(q), part = q - low;
    if (part > 1 - ON_CODE)
        low++, part = 0;
    double up = within(limits, low + (part > ON_CODE));
    double half_up = part < 0.5 ? low : low + 1;
    low = within(limits, low);
    half_up = within(limits, half_up);
    out[HALF_EVEN] = out[HALF_AWAY] = out[HALF_UP] = half_up;
    if (part == 0.5) {
        out[HALF_EVEN] = within(limits, qg_round_f64(QG_ROUND_HALF_EVEN, q));
        out[HALF_AWAY] = within(limits, qg_round_f64(QG_ROUND_HALF_AWAY, q));
    }
    out[DOWN] = low;
    out[UP] = up;
    out[TO_ZERO] = q < zero ? up : low;
    out[TO_CODE_0] = q < 0 ? up : low;
}

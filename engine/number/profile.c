#include "engine/number/profile.h"

#include <assert.h>
#include <math.h>

#define USE       QG_USE_BIT
#define SUMS      (USE(ADD) | USE(SUB))
#define FUNCTIONS (USE(SIGMOID) | USE(TANH))

enum { REQUANT = QG_ROW_SCHEME | QG_ROW_FACTOR, ROUNDING = QG_ROW_ROUNDING };

/* What each form is for, and the keys that it reads; qg_form_keys adds those that
 * depend on the use. */
static const struct {
    uint64_t uses;
    unsigned keys;
} forms[QG_NFORM] = {
  /* clang-format off */
    [QG_FORM_PLAIN] = { QG_USES_PRODUCTS | USE(MULTIPLY) | USE(RELU) | USE(RESCALE) |
                        USE(GLOBAL_POOL) | USE(WHOLE_POOL) | USE(MEAN) | USE(SUM),
                        REQUANT },
    [QG_FORM_CODES] = { USE(MAXIMUM) | USE(MINIMUM) | USE(MAX_POOL) |
                        USE(RESIZE_NEAREST) | USE(PAD) | USE(MOVE), 0 },
    [QG_FORM_FIXED] = { SUMS | USE(SQUARED_DIFFERENCE) | FUNCTIONS | USE(HARD_SWISH),
                        QG_ROW_SCHEME },
    [QG_FORM_MANTISSA] = { SUMS, 0 },
    [QG_FORM_NEON] = { SUMS, 0 },
    [QG_FORM_FMA] = { SUMS | USE(DEQUANTIZE) | QG_USES_PRODUCTS, 0 },
    [QG_FORM_SSE] = { SUMS, 0 },
    [QG_FORM_PORTABLE] = { SUMS, 0 },
    [QG_FORM_DIVIDE] = { USE(QUANTIZE), ROUNDING },
    [QG_FORM_RECIPROCAL] = { USE(QUANTIZE), ROUNDING },
    [QG_FORM_ADD_HALF] = { USE(QUANTIZE), 0 },
    [QG_FORM_LEVELS] = { USE(QUANTIZE), 0 },
    [QG_FORM_FLOAT_RECIPROCAL] = { FUNCTIONS | USE(TABLE), ROUNDING },
    [QG_FORM_FLOAT_TABLE] = { FUNCTIONS | USE(TABLE) | USE(LEAKY_RELU) | USE(SOFTMAX),
                              ROUNDING },
    [QG_FORM_TWO_SIDES] = { USE(LEAKY_RELU) | USE(PRELU), REQUANT },
    [QG_FORM_GEMMLOWP] = { USE(SOFTMAX), QG_ROW_SCHEME },
    [QG_FORM_INTEGER] = { USE(AVERAGE_POOL), ROUNDING },
    [QG_FORM_FLOAT_ROWS] = { USE(AVERAGE_POOL), ROUNDING },
    [QG_FORM_FLOOR_MULTIPLIER] = { USE(MEAN) | USE(GLOBAL_POOL), REQUANT },
    [QG_FORM_VECTOR8] = { USE(DEPTHWISE) | USE(DEQUANTIZE) | USE(QUANTIZE), 0 },
    [QG_FORM_VECTOR16] = { USE(RESCALE), REQUANT },
    [QG_FORM_RAW_FLOAT] = { USE(MEAN) | USE(GLOBAL_POOL), 0 },
    [QG_FORM_RAW_Q31] = { USE(GLOBAL_POOL), REQUANT },
    [QG_FORM_COPY] = { USE(CONCAT), 0 },
    [QG_FORM_AFFINE] = { USE(CONCAT), 0 },
    [QG_FORM_TABLE] = { USE(CONCAT), ROUNDING },
    [QG_FORM_FIXED10] = { USE(RESIZE_LINEAR), ROUNDING },
    [QG_FORM_FIXED11] = { USE(RESIZE_LINEAR), ROUNDING },
    [QG_FORM_FLOAT_CORNERS] = { USE(RESIZE_LINEAR), 0 },
    [QG_FORM_FLOAT_WEIGHTS] = { USE(RESIZE_LINEAR), 0 },
    [QG_FORM_MULTIPLY] = { USE(DEQUANTIZE), 0 },
  /* clang-format on */
};

uint64_t qg_form_uses(qg_form f)
{
    assert((unsigned)f < QG_NFORM);
    return forms[f].uses;
}

unsigned qg_form_keys(qg_form f, uint64_t uses)
{
    assert((unsigned)f < QG_NFORM);
    bool left = f == QG_FORM_FIXED && (uses & (SUMS | USE(SQUARED_DIFFERENCE)));
    bool factor =
        (f == QG_FORM_FMA || f == QG_FORM_VECTOR8) && (uses & QG_USES_PRODUCTS);
    return forms[f].keys | (left ? QG_ROW_LEFT : 0u) | (factor ? REQUANT : 0u);
}

/* An empty set of types fits anything. */
static bool type_fits(uint64_t types, qg_dtype t)
{
    return types == 0 || (types >> t & 1);
}

static bool grids_fit(const qg_profile_row *row, const qg_profile_grids *g)
{
    return g->least >= row->ratio_low && g->most < row->ratio_high &&
           !(row->w_centred && g->w_off) &&
           (row->limits == 0 || (row->limits & g->limits));
}

const qg_profile_row *qg_profile_find(const qg_profile *p, qg_kernel_use use,
                                      qg_profile_types t, qg_profile_grids g)
{
    assert((unsigned)use < QG_NUSE);
    for (size_t i = 0; i < p->n_row; i++) {
        const qg_profile_row *row = &p->row[i];
        if ((row->uses >> use & 1) && type_fits(row->x, t.x) &&
            type_fits(row->w, t.w) && type_fits(row->y, t.y) &&
            (!row->like_x || t.y == t.x || t.y == QG_F32) && grids_fit(row, &g))
            return row;
    }
    return NULL;
}

bool qg_profile_uses(const qg_profile *p, qg_kernel_use use)
{
    bool any = false;
    for (size_t i = 0; i < p->n_row; i++)
        any |= (p->row[i].uses >> use & 1) != 0;
    return any;
}

void qg_activation_limits(qg_activation a, float *low, float *high)
{
    static const float limits[][2] = {
#define X(id, text, low, high) { low, high },
        QG_ACTIVATION_MAP(X)
#undef X
    };
    assert((unsigned)a < QG_NACTIVATION);
    *low = limits[a][0];
    *high = limits[a][1];
}

/* One function per map of words. */
#define X(id, text, ...) text,
#define NAME_OF(function, type, count, MAP)                                            \
    const char *function(type v)                                                       \
    {                                                                                  \
        static const char *const name[] = { MAP(X) };                                  \
        assert((unsigned)v < (count));                                                 \
        return name[v];                                                                \
    }
NAME_OF(qg_form_name, qg_form, QG_NFORM, QG_FORM_MAP)
NAME_OF(qg_products_name, qg_products, QG_NPRODUCTS, QG_PRODUCTS_MAP)
NAME_OF(qg_tail_name, qg_tail, QG_NTAIL, QG_TAIL_MAP)
NAME_OF(qg_clamp_name, qg_clamp, QG_NCLAMP, QG_CLAMP_MAP)
NAME_OF(qg_activation_name, qg_activation, QG_NACTIVATION, QG_ACTIVATION_MAP)
#undef X

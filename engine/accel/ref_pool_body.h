/* ref_pool_body.h -- the part of ref_pool.c that is compiled once per element type.
 * Expects REAL and NAME(f) as in ref_conv_body.h.
 *
 * `window` (ref_pool.c) is one axis of a window: the taps that lie inside the input,
 * and how many lie inside input or padding. */

/* *where: position of the maximum in its plane, -1 when no tap lies inside.  Of
 * equal elements the first counts. */
static REAL NAME(max_at)(const qg_pool_problem *p, const REAL *x, const window *w,
                         int64_t *where)
{
    REAL best = -(REAL)INFINITY;
    *where = -1;
    for (int64_t d = w[0].begin; d < w[0].end; d += p->dilation[0])
        for (int64_t h = w[1].begin; h < w[1].end; h += p->dilation[1])
            for (int64_t c = w[2].begin; c < w[2].end; c += p->dilation[2]) {
                int64_t at = (d * p->in[1] + h) * p->in[2] + c;
                if (*where >= 0 && !(x[at] > best))
                    continue;
                best = x[at];
                *where = p->column_major ? (c * p->in[1] + h) * p->in[0] + d : at;
            }
    return best;
}

/* The sum over the taps inside, by their number or by that of the padded window. */
static REAL NAME(mean_at)(const qg_pool_problem *p, const REAL *x, const window *w)
{
    double sum = 0;
    /* A product of pads may exceed int64_t: count in double. */
    double taps = !p->count_pad
                      ? 0
                      : (double)w[0].padded * (double)w[1].padded * (double)w[2].padded;
    for (int64_t d = w[0].begin; d < w[0].end; d += p->dilation[0])
        for (int64_t h = w[1].begin; h < w[1].end; h += p->dilation[1])
            for (int64_t c = w[2].begin; c < w[2].end; c += p->dilation[2]) {
                sum += x[(d * p->in[1] + h) * p->in[2] + c];
                taps += !p->count_pad;
            }
    return taps > 0 ? (REAL)(sum / taps) : 0;
}

/* Padding adds zeros, which change nothing. */
static REAL NAME(norm_at)(const qg_pool_problem *p, const REAL *x, const window *w)
{
    double sum = 0;
    for (int64_t d = w[0].begin; d < w[0].end; d += p->dilation[0])
        for (int64_t h = w[1].begin; h < w[1].end; h += p->dilation[1])
            for (int64_t c = w[2].begin; c < w[2].end; c += p->dilation[2])
                sum += pow(fabs(x[(d * p->in[1] + h) * p->in[2] + c]), p->norm);
    return (REAL)pow(sum, 1 / p->norm);
}

static REAL NAME(pool_at)(const qg_pool_problem *p, const REAL *x, const window *w,
                          int64_t *where)
{
    if (p->kind == QG_POOL_MAX)
        return NAME(max_at)(p, x, w, where);
    return p->kind == QG_POOL_AVERAGE ? NAME(mean_at)(p, x, w) : NAME(norm_at)(p, x, w);
}

/* One channel. */
static void NAME(pool_plane)(const qg_pool_problem *p, const REAL *x, REAL *y,
                             int64_t base, int64_t *index)
{
    window w[QG_SPACE];
    int64_t at = 0, where = -1;
    for (int64_t d = 0; d < p->out[0]; d++) {
        w[0] = window_of(p, 0, d);
        for (int64_t h = 0; h < p->out[1]; h++) {
            w[1] = window_of(p, 1, h);
            for (int64_t c = 0; c < p->out[2]; c++, at++) {
                w[2] = window_of(p, 2, c);
                y[at] = NAME(pool_at)(p, x, w, &where);
                if (index)
                    index[at] = where < 0 ? -1 : base + where;
            }
        }
    }
}

/* Plane by plane; indices count from the start of x. */
void NAME(qg_ref_pool)(const qg_pool_problem *p, const REAL *x, REAL *y, int64_t *index)
{
    int64_t in = p->in[0] * p->in[1] * p->in[2];
    int64_t out = p->out[0] * p->out[1] * p->out[2];
    for (int64_t i = 0; i < p->batch * p->channels; i++)
        NAME(pool_plane)
    (p, x + i * in, y + i * out, i * in, index ? index + i * out : NULL);
}

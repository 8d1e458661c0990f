/* lsq_row_body.h -- the part of lsq_row.c that is compiled once per instruction set.
 *
 * Expects TARGET, its attribute, and NAME(f), the function's name for it.  Vectors are
 * of LANES elements with every instruction set: the same bits. */

/* LANES elements of x and y; g becomes its gradient, *sum gets their share. */
TARGET static inline void NAME(add_lanes)(const qg_lsq_borders *b, bool sums,
                                          const float *x, const float *y, float *g,
                                          lanes *sum)
{
    const lanes vx = *(const lanes *)x, vg = *(const lanes *)g;
    const masks in = (vx >= b->low) & (vx <= b->high);
    if (sums)
        *sum += vg * (*(const lanes *)y - (lanes)((masks)vx & in));
    *(lanes *)g = vg * (lanes)((masks)ones & in);
}

/* At most QG_LSQ_RUN elements. */
TARGET static inline double NAME(run)(const qg_lsq_borders *b, bool sums,
                                      const float *x, const float *y, float *g,
                                      size_t n)
{
    float px[LANES] = { 0 }, py[LANES] = { 0 }, pg[LANES] = { 0 };
    lanes sum = { 0 };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        NAME(add_lanes)(b, sums, x + i, y + i, g + i, &sum);
    if (i < n) {
        memcpy(px, x + i, (n - i) * sizeof *x);
        memcpy(py, y + i, (n - i) * sizeof *y);
        memcpy(pg, g + i, (n - i) * sizeof *g);
        NAME(add_lanes)(b, sums, px, py, pg, &sum);
        memcpy(g + i, pg, (n - i) * sizeof *g);
    }
    if (!sums)
        return 0;
    *(lanes *)px = sum;
    return folded(px);
}

/* y NULL: no sum. */
TARGET static double NAME(row)(const qg_lsq_borders *b, const float *x, const float *y,
                               float *g, size_t n)
{
    double total = 0;
    for (size_t i = 0, part; i < n; i += part) {
        part = n - i < QG_LSQ_RUN ? n - i : QG_LSQ_RUN;
        if (y)
            total += NAME(run)(b, true, x + i, y + i, g + i, part);
        else
            (void)NAME(run)(b, false, x + i, x + i, g + i, part);
    }
    return total;
}

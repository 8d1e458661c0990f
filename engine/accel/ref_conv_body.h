/* ref_conv_body.h -- the part of ref_conv.c that is compiled once per element type.
 *
 * Expects REAL (the type) and NAME(f) (the function's name for that type).  Rows along
 * the width are the unit of work: one weight times one input row is added to one output
 * row, so the inner loop is contiguous and vectorises. */

/* Rows start with their bias, so the bias is the first summand. */
static void NAME(fill)(REAL *y, REAL value, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

/* y[i * step] += w * x[i] for i < n. */
static void NAME(scatter_row)(REAL *restrict y, const REAL *restrict x, int64_t step,
                              REAL w, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i * step] += w * x[i];
}

/* As add_plane, iterating over the input: each element is added to all of its
 * outputs. */
static void NAME(scatter_plane)(const qg_conv_problem *p, const REAL *x, const REAL *w,
                                REAL *y)
{
    for (int64_t kd = 0; kd < p->kernel[0]; kd++)
        for (int64_t kh = 0; kh < p->kernel[1]; kh++)
            for (int64_t kw = 0; kw < p->kernel[2]; kw++, w++) {
                const span d = scatter_span_of(p, 0, kd), h = scatter_span_of(p, 1, kh);
                const span c = scatter_span_of(p, 2, kw);
                if (c.end <= c.begin)
                    continue;
                for (int64_t id = d.begin; id < d.end; id++)
                    for (int64_t ih = h.begin; ih < h.end; ih++) {
                        int64_t od = id * p->stride[0] + d.shift;
                        int64_t oh = ih * p->stride[1] + h.shift;
                        NAME(scatter_row)
                        (y + (od * p->out[1] + oh) * p->out[2] +
                             c.begin * p->stride[2] + c.shift,
                         x + (id * p->in[1] + ih) * p->in[2] + c.begin, p->stride[2],
                         *w, c.end - c.begin);
                    }
            }
}

/* Weights [in][out / groups][kernel]: input channel i meets output channel o % oc. */
void NAME(qg_ref_deconv)(const qg_conv_problem *p, const REAL *x, const REAL *w,
                         const REAL *b, REAL *y)
{
    int64_t ic = p->in_channels / p->groups, oc = p->out_channels / p->groups;
    int64_t in = volume(p->in), out = volume(p->out), taps = volume(p->kernel);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t o = 0; o < p->out_channels; o++) {
            REAL *plane = y + (n * p->out_channels + o) * out;
            int64_t first = o / oc * ic;
            NAME(fill)(plane, b ? b[o] : 0, out);
            for (int64_t i = first; i < first + ic; i++)
                NAME(scatter_plane)
            (p, x + (n * p->in_channels + i) * in, w + (i * oc + o % oc) * taps, plane);
        }
}

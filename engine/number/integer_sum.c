#include "engine/number/integer_sum.h"

#include <assert.h>

#include "engine/number/fixed.h"

/* The window of one output element. */
struct place {
    int64_t batch, group, out, y, x;
};

/* Sums are kept in int64_t and cut to 32 bits at the end: the same as adding modulo
 * 2^32. */
struct totals {
    int64_t products, w, x; /* x without its zero point */
    int64_t before;         /* pairs: product of the even element */
    bool odd;
};

/* pairs: as vpmaddubsw adds two neighbouring products.  A lone last product
 * is saturated against zero, by sum_at. */
static void add_tap(const qg_int_sum *s, struct totals *t, int32_t x, int32_t w)
{
    t->w += w;
    t->x += x - s->zero_x;
    int64_t product = (int64_t)x * w;
    if (!s->pairs) {
        t->products += product;
    } else if (!t->odd) {
        t->before = product;
        t->odd = true;
    } else {
        t->products += qg_clamp_i64(t->before + product, INT16_MIN, INT16_MAX);
        t->odd = false;
    }
}

/* A place outside the picture holds zero_x. */
static int32_t input_at(const qg_int_sum *s, const struct place *p, int64_t channel,
                        int64_t ky, int64_t kx)
{
    int64_t y = p->y * s->stride[0] + ky * s->dilation[0] - s->pad[0];
    int64_t x = p->x * s->stride[1] + kx * s->dilation[1] - s->pad[1];
    if (y < 0 || x < 0 || y >= s->height || x >= s->width)
        return s->zero_x;
    size_t c = (size_t)(p->group * s->in_channels + channel);
    return s->x.data[(size_t)p->batch * s->x.batch + c * s->x.channel +
                     (size_t)y * s->x.row + (size_t)x * s->x.column];
}

/* Zero points are taken out at the end, by the formula of the header. */
static int32_t sum_at(const qg_int_sum *s, const struct place *p)
{
    size_t o = (size_t)(p->group * s->out_channels + p->out);
    const int32_t *w = s->w.data + o * s->w.batch;
    struct totals t = { 0 };
    for (int64_t ky = 0; ky < s->kernel_height; ky++)
        for (int64_t kx = 0; kx < s->kernel_width; kx++)
            for (int64_t c = 0; c < s->in_channels; c++)
                add_tap(s, &t, input_at(s, p, c, ky, kx),
                        w[(size_t)c * s->w.channel + (size_t)ky * s->w.row +
                          (size_t)kx * s->w.column]);
    if (t.odd)
        t.products += qg_clamp_i64(t.before, INT16_MIN, INT16_MAX);
    int64_t zero_w = s->zero_w ? s->zero_w[o] : 0;
    int64_t acc = t.products - s->zero_x * t.w - zero_w * t.x;
    return (int32_t)(uint32_t)(acc + (s->bias ? s->bias[o] : 0));
}

void qg_int_sum_run(const qg_int_sum *s, int32_t *acc)
{
    assert(s->groups > 0 && s->in_channels > 0 && s->out_channels > 0);
    assert(s->kernel_height > 0 && s->kernel_width > 0);
    assert(s->out_height >= 0 && s->out_width >= 0 && s->x.data && s->w.data);
    struct place p;
    for (p.batch = 0; p.batch < s->batches; p.batch++)
        for (p.group = 0; p.group < s->groups; p.group++)
            for (p.out = 0; p.out < s->out_channels; p.out++)
                for (p.y = 0; p.y < s->out_height; p.y++)
                    for (p.x = 0; p.x < s->out_width; p.x++)
                        *acc++ = sum_at(s, &p);
}

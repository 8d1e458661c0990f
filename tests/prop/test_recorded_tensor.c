/* qg_quantize_tensor on arrays of all kinds, with all schemes, observers and options:
 * as in tests/data/recorded/tensor.txt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "engine/number/format.h"
#include "tests/support/recorded.h"

enum { CASES = 4000, MOST = 4096 };

static const char *const observers[] = { NULL,
                                         "percentile",
                                         "fixed",
                                         "kl",
                                         "mse",
                                         "kl-published",
                                         "aciq-laplace",
                                         "aciq-gauss",
                                         "constant",
                                         "floating",
                                         "minmax",
                                         "ppq-minmax",
                                         "ppq-isotone",
                                         "ppq-percentile",
                                         "ppq-kl",
                                         "ppq-mse",
                                         "ort-minmax",
                                         "ort-average",
                                         "ort-percentile",
                                         "ort-entropy",
                                         "nvidia-max",
                                         "nvidia-entropy",
                                         "nvidia-mse",
                                         "ncnn-kl",
                                         "ncnn-aciq",
                                         "ort-distribution",
                                         "moving-average",
                                         "nvidia-percentile",
                                         "ort-entropy-stream",
                                         "ort-percentile-stream",
                                         "ort-moving-average",
                                         "nvidia-percentile-numpy",
                                         "nvidia-entropy-numpy",
                                         "nvidia-mse-numpy",
                                         "ppq-floating",
                                         "ppq-constant",
                                         "percentil" };
static const char *const policies[] = { "per-tensor linear symmetric",
                                        "per-tensor,linear,asymmetric",
                                        "per-channel linear symmetric",
                                        "per-channel linear asymmetric",
                                        "per-tensor linear symmetric power-of-2",
                                        "per-tensor linear asymmetric power-of-2",
                                        "block linear symmetric",
                                        "block linear asymmetric",
                                        "per-tensor floating symmetric power-of-2",
                                        "per-channel floating symmetric power-of-2",
                                        "block floating symmetric power-of-2",
                                        "per-tensor linear symmetric dynamic",
                                        "per-tensor linear" };
static const char *const roundings[] = {
    "half-even", "half-up", "half-down", "half-away-from-zero", "half-toward-zero",
    "up",        "down",    "near-int",  "half-even-level",     "half-awry"
};
static const char *const ranges[] = {
    NULL, NULL, "-127,127", "0,127", "-100,27", "-7,7"
};
static const char *const variants[] = { NULL, NULL, "fnuz", "ppq-ties", "mx" };
static const char *const scales[] = { NULL, NULL, NULL, "0.05", "0.05,0.1,0.2", "0" };
static const char *const offsets[] = { "3", "-2", "2147483648", "3", "-2147483649" };
static const unsigned bits[] = { 8, 4, 16, 2, 8, 32, 3, 8, 24, 1, 33 };

/* A version 1 .npy of floats of a width of 2, 4 or 8 bytes. */
static void write_npy(const char *path, const float *x, size_t n, const char *dims,
                      size_t width)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        abort();
    char head[128];
    int length = snprintf(head, sizeof head,
                          "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%s), }",
                          width, dims);
    (void)fprintf(f, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, head);
    if (length > 117)
        abort();
    for (size_t i = 0; i < n; i++) {
        const double wide = (double)x[i];
        const uint16_t narrow = qg_f32_to_f16(x[i]);
        const void *bytes = width == 8   ? (const void *)&wide
                            : width == 4 ? (const void *)&x[i]
                                         : (const void *)&narrow;
        (void)fwrite(bytes, width, 1, f);
    }
    if (fclose(f) != 0)
        abort();
}

/* Elements of a kind: small, wide, one-sided, constant, with outliers, special ones. */
static void fill(float *x, size_t n, unsigned kind, qg_rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        float u = qg_rng_range(rng, -1, 1);
        switch (kind) {
        case 0:
            x[i] = u;
            break;
        case 1:
            x[i] = u * u * u * 30;
            break;
        case 2:
            x[i] = fabsf(u);
            break;
        case 3:
            x[i] = -fabsf(u) - 0.5f;
            break;
        case 4:
            x[i] = 0;
            break;
        case 5:
            x[i] = 0.7f;
            break;
        case 6:
            x[i] = i == n / 2 ? 500 : u;
            break;
        case 7:
            x[i] = i == n / 3 ? NAN : i == n / 2 ? INFINITY : u;
            break;
        case 8:
            x[i] = u * 1e-40f;
            break;
        case 9:
            x[i] = u * 3e38f;
            break;
        case 10:
            x[i] = rintf(u * 6) * 0.125f;
            break;
        case 11:
            x[i] = u > 0 ? 0 : u;
            break;
        case 12:
            x[i] = NAN;
            break;
        default:
            x[i] = ldexpf(u, (int)(i % 24) - 12);
            break;
        }
    }
}

/* As many scales as parameters, "0.0625,0.25,..."; of blocks one per block. */
static const char *scales_of(const qg_quantize_tensor_options *o, const char *dims,
                             char text[16 * 1024])
{
    size_t dim[3] = { 1, 1, 1 }, rank = 0, n = 1, length = 0, axis;
    for (const char *at = dims; *at && rank < 3; at += *at == ',')
        dim[rank++] = strtoul(at, (char **)&at, 10);
    axis = (size_t)(o->axis < 0 ? o->axis + (int)rank : o->axis);
    axis = axis < rank ? axis : 0; /* a wrong one is refused */
    if (!strstr(o->policy, "per-tensor"))
        n = dim[axis];
    if (o->block) {
        n = (dim[axis] + o->block - 1) / o->block;
        for (size_t i = 0; i < rank; i++)
            n *= i == axis ? 1 : dim[i];
    }
    text[0] = 0;
    for (size_t i = 0; i < n && i < 1300; i++)
        length += (size_t)snprintf(text + length, 16, "%s%s", i ? "," : "",
                                   i % 3 ? "0.25" : "0.0625");
    return text;
}

/* Options that mostly fit each other; those of every seventh array are drawn freely. */
static qg_quantize_tensor_options options_of(unsigned k, qg_rng *rng, const char *dims,
                                             unsigned rank)
{
    static char scale_text[16 * 1024];
    const bool free = k % 7 == 6;
    qg_quantize_tensor_options o;
    qg_quantize_tensor_options_init(&o, sizeof o);
#define DRAW(table) TURN(table, qg_rng_below(rng, 1000))
    o.policy = free && k % 5 == 0 ? "per-tensor linear" : DRAW(policies);
    const bool floating = strstr(o.policy, "floating"),
               block = strstr(o.policy, "block"),
               whole = strstr(o.policy, "per-tensor"),
               dynamic = strstr(o.policy, "dynamic");
    o.bits = k % 3 ? TURN(bits, qg_rng_below(rng, free ? 11 : 9)) : 8;
    o.exponent_bits = floating ? 4 : 0;
    if (floating && (free || k % 2)) {
        o.bits = 4 + (unsigned)qg_rng_below(rng, 5);
        o.exponent_bits = 1 + (unsigned)qg_rng_below(rng, 5);
    }
    o.variant = floating || free ? DRAW(variants) : NULL;
    o.range = k % 4 == 1 && (!floating || free) ? DRAW(ranges) : NULL;
    o.narrow = k % 5 == 1 && ((!o.range && !floating) || free);
    o.axis = whole && !free ? o.axis : (int)qg_rng_below(rng, 2 * rank) - (int)rank;
    o.axis -= free && k % 2;
    o.block = block ? 1u << qg_rng_below(rng, 5) : free && k % 3 == 0;
    o.rounding = k % 2 ? DRAW(roundings) : NULL;
    o.scale =
        !dynamic && (block || k % 9 == 2) ? scales_of(&o, dims, scale_text) : NULL;
    if (o.range && !free)
        o.bits = 8;
    o.scale = free ? DRAW(scales) : o.scale;
    o.offset = (o.scale && k % 2 && strstr(o.policy, "asym")) || (free && k % 3 == 1)
                   ? TURN(offsets, k / 7)
                   : NULL;
    o.observer = (o.scale || dynamic) && !free ? NULL : TURN(observers, k);
    if (floating && !free && o.observer)
        o.observer = k % 4 ? "floating" : "ppq-floating";
    o.quirks = k % 5 == 3 ? "ppq" : NULL;
    o.output = k % 3 ? "y.npy" : NULL;
    o.codes = k % 6 > 3;
    o.curve = o.observer && (free || strstr(o.observer, "kl") || k % 50 == 0)
                  ? "curve.csv"
                  : NULL;
    return o;
#undef DRAW
}

static void try_one(recorded *r, void *ud)
{
    const unsigned k = *(const unsigned *)ud;
    static const char *const dims[] = { "60,",   "3,4,5", "2,3,10", "1,60", "4,15",
                                        "1200,", "3,400", "0,",     "" };
    static const size_t counts[] = { 60, 60, 60, 60, 60, 1200, 1200, 0, 1 };
    static const size_t widths[] = { 4, 4, 2, 8 };
    float x[MOST];
    qg_rng rng = { 1000 + k };
    qg_ctx *ctx = recorded_context(r);
    qg_report *report = NULL;
    size_t shape = qg_rng_below(&rng, 100) % (k % 11 ? 7 : COUNT(dims));
    fill(x, counts[shape], (unsigned)qg_rng_below(&rng, 14), &rng);
    write_npy("x.npy", x, counts[shape], dims[shape], TURN(widths, k / 2));
    const unsigned rank =
        strlen(dims[shape]) > 4                                                   ? 3
        : strchr(dims[shape], ',') && dims[shape][strlen(dims[shape]) - 1] != ',' ? 2
                                                                                  : 1;
    const qg_quantize_tensor_options o = options_of(k, &rng, dims[shape], rank);
    qg_status s = qg_quantize_tensor(ctx, "x.npy", &o, &report);
    recorded_status(r, ctx, o.policy, s);
    if (s == QG_OK)
        recorded_report(r, report);
    recorded_files(r, "y.npy");
    recorded_files(r, "curve.csv");
    qg_close(ctx);
}

int main(int argc, char **argv)
{
    recorded r;
    recorded_begin(&r, argc, argv, "tests/data/recorded/tensor.txt");
    recorded_enter(&r);
    for (unsigned k = 0, step = recorded_step(&r); k < CASES && !recorded_is_full(&r);
         k += step)
        if (recorded_case(&r, "array %u", k))
            recorded_try(&r, try_one, &k);
    return recorded_end(&r);
}

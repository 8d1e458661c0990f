#include "engine/data/image.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/core/file.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_FAILURE_USERMSG /* other texts include a buffer of all threads */
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_ASSERT(x) ((void)(x))
#pragma GCC diagnostic ignored "-Wunused-function" /* it declares more than it has */
#include <stb/stb_image.h>

enum {
    FILE_LIMIT = 1 << 28,  /* bytes of an image file */
    PIXEL_LIMIT = 1 << 26, /* 64 million: no image of a few bytes fills the memory */
};

/* Where the axes of an image are: N and the three others. */
struct axes {
    int channel, height, width;
};

static struct axes axes_of(enum qg_image_layout layout)
{
    return layout == QG_IMAGE_NHWC ? (struct axes){ 3, 1, 2 }
                                   : (struct axes){ 1, 2, 3 };
}

/* Where the input has 1 or 3 channels; NCHW when both could be meant. */
static qg_status find_layout(qg_ctx *ctx, const char *path, const qg_image_options *o,
                             const qg_tensor *input, enum qg_image_layout *out)
{
    char text[QG_SHAPE_TEXT];
    enum qg_image_layout layout = o->layout;
    if (input->rank == 4 && layout == QG_IMAGE_GUESS)
        layout =
            input->dim[1] == 1 || input->dim[1] == 3 ? QG_IMAGE_NCHW : QG_IMAGE_NHWC;
    int64_t channels = input->rank == 4 ? input->dim[axes_of(layout).channel] : 0;
    if (channels != 1 && channels != 3)
        return qg_fail(
            ctx, QG_EDATA,
            "data: %.200s: an image for an input of %s, expected 4 axes with 1 "
            "or 3 channels",
            path, qg_tensor_text(input, text));
    *out = layout;
    return QG_OK;
}

/* Whether the result is more than the pixels themselves. */
static bool changes_pixels(const qg_image_options *o)
{
    for (int c = 0; c < 3; c++)
        if (o->mean[c] != 0 || (o->std[c] != 0 && o->std[c] != 1))
            return true;
    return false;
}

static qg_status bad_image(qg_ctx *ctx, const char *path)
{
    return qg_fail(ctx, QG_EPARSE,
                   "data: %.200s: %s, expected a PNG, JPEG, BMP or PNM image", path,
                   stbi_failure_reason());
}

/* The next number of a PNM header, behind blanks and comments; 0: none. */
static uint64_t pnm_number(const qg_file *f, size_t *at)
{
    const uint8_t *b = f->bytes;
    uint64_t n = 0;
    while (*at < f->size && (b[*at] <= ' ' || b[*at] == '#'))
        if (b[*at] == '#')
            while (*at < f->size && b[*at] != '\n' && b[*at] != '\r')
                ++*at;
        else
            ++*at;
    for (; *at < f->size && b[*at] >= '0' && b[*at] <= '9' && n < PIXEL_LIMIT; ++*at)
        n = 10 * n + (b[*at] - '0');
    return n;
}

static uint64_t little(const uint8_t *at, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | at[i];
    return n;
}

static bool is_pnm(const qg_file *f) { return f->size > 2 && f->bytes[0] == 'P'; }

/* Its maxval, the value of white; *at: where the pixels begin. */
static uint64_t pnm_maximum(const qg_file *f, size_t *at)
{
    *at = 2;
    (void)pnm_number(f, at);
    (void)pnm_number(f, at);
    const uint64_t maximum = pnm_number(f, at);
    ++*at; /* one blank */
    return maximum;
}

/* Bytes that a file without compression needs; 0 for others, which stb_image checks.
 * *wrong: what stb_image decodes to other pixels; it takes the lower byte of 16-bit
 * channels, and loses 4 colors of OS/2. */
static uint64_t least_bytes(const qg_file *f, uint64_t width, uint64_t height,
                            const char **wrong)
{
    enum { CORE_HEADER = 12, HEADERS = 30 };
    const uint8_t *b = f->bytes;
    if (is_pnm(f)) {
        size_t at;
        const uint64_t maximum = pnm_maximum(f, &at), depth = maximum > 255 ? 2 : 1;
        *wrong = depth > 1 ? "a PNM image of 16 bits per channel, expected 8" : NULL;
        if (maximum == 0)
            *wrong = "a PNM image with the maximum value 0, expected 1 to 255";
        return at + width * height * depth * (b[1] == '6' ? 3 : 1);
    }
    if (f->size < HEADERS || b[0] != 'B' || b[1] != 'M')
        return 0;
    const bool core = little(b + 14, 4) == CORE_HEADER;
    const uint64_t bits = little(b + (core ? 24 : 28), 2);
    const uint64_t row = (width * bits + 31) / 32 * 4; /* the last one may end early */
    *wrong = core && bits < 24 ? "a palette of OS/2, expected one of Windows" : NULL;
    return little(b + 10, 4) + row * (height - 1) + (width * bits + 7) / 8;
}

/* Reads the size without the pixels. */
static qg_status read_size(qg_ctx *ctx, const char *path, const qg_file *f, int *width,
                           int *height)
{
    const char *wrong = NULL;
    int channels;
    if (f->size > INT32_MAX ||
        !stbi_info_from_memory(f->bytes, (int)f->size, width, height, &channels))
        return bad_image(ctx, path);
    if (*height < 0 && *height >= -PIXEL_LIMIT)
        *height = -*height; /* a BMP whose first row is on top */
    if (*width < 1 || *height < 1 || (int64_t)*width * *height > PIXEL_LIMIT)
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: %d x %d pixels, supported are 1 to %d in all",
                       path, *width, *height, PIXEL_LIMIT);
    const uint64_t least = least_bytes(f, (uint64_t)*width, (uint64_t)*height, &wrong);
    if (f->size < least)
        return qg_fail(ctx, QG_EPARSE,
                       "data: %.200s: %zu bytes, expected %" PRIu64
                       " for %d x %d pixels",
                       path, f->size, least, *width, *height);
    return wrong ? qg_fail(ctx, QG_EDATA, "data: %.200s: %s", path, wrong) : QG_OK;
}

qg_status qg_image_type(qg_ctx *ctx, const char *path, const qg_image_options *options,
                        const qg_tensor *input, qg_tensor *out)
{
    enum qg_image_layout layout;
    qg_file f;
    int width, height;
    QG_TRY(find_layout(ctx, path, options, input, &layout));
    QG_TRY(qg_file_open(ctx, "data", path, FILE_LIMIT, &f));
    qg_status s = read_size(ctx, path, &f, &width, &height);
    qg_file_close(&f);
    QG_TRY(s);
    struct axes ax = axes_of(layout);
    int64_t dim[4] = { 1 };
    dim[ax.channel] = input->dim[ax.channel];
    dim[ax.height] = options->height ? options->height : height;
    dim[ax.width] = options->width ? options->width : width;
    bool bytes = input->dtype == QG_U8 && !changes_pixels(options);
    qg_tensor_init(out, bytes ? QG_U8 : QG_F32, 4, dim);
    return QG_OK;
}

/* Pixels as decoded: rows of `channels` bytes each. */
struct pixels {
    stbi_uc *at;
    int width, height, channels;
};

/* The pixel at a place between pixels: linear in both directions.  x and y count from
 * the centre of the first pixel and are within the image. */
static double between(const struct pixels *p, double x, double y, int c)
{
    assert(x >= 0 && x < p->width && y >= 0 && y < p->height);
    int x0 = (int)x, y0 = (int)y;
    int x1 = x0 + 1 < p->width ? x0 + 1 : x0, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
    double fx = x - x0, fy = y - y0;
    const stbi_uc *row0 =
        p->at + (size_t)y0 * (size_t)p->width * (size_t)p->channels + c;
    const stbi_uc *row1 =
        p->at + (size_t)y1 * (size_t)p->width * (size_t)p->channels + c;
    double top = row0[x0 * p->channels] * (1 - fx) + row0[x1 * p->channels] * fx;
    double bottom = row1[x0 * p->channels] * (1 - fx) + row1[x1 * p->channels] * fx;
    return top * (1 - fy) + bottom * fy;
}

/* Where the centre of pixel i of `to` lies among `from` pixels. */
static double centre(int64_t i, int64_t to, int from)
{
    double at = ((double)i + 0.5) * from / (double)to - 0.5;
    assert(to > 0 && from > 0);
    return at < 0 ? 0 : at > from - 1 ? from - 1 : at;
}

/* One plane after the other; `from` is the channel of the file. */
static void fill(const struct pixels *p, const qg_image_options *o, qg_tensor *out)
{
    struct axes ax = axes_of(o->layout);
    int64_t n_c = out->dim[ax.channel], n_y = out->dim[ax.height],
            n_x = out->dim[ax.width];
    for (int64_t c = 0; c < n_c; c++) {
        int from = o->colors == QG_IMAGE_BGR && n_c == 3 ? 2 - (int)c : (int)c;
        double mean = (double)o->mean[c], std = o->std[c] != 0 ? (double)o->std[c] : 1;
        for (int64_t y = 0; y < n_y; y++)
            for (int64_t x = 0; x < n_x; x++) {
                double v = between(p, centre(x, n_x, p->width),
                                   centre(y, n_y, p->height), from);
                int64_t at = c * out->stride[ax.channel] + y * out->stride[ax.height] +
                             x * out->stride[ax.width];
                if (out->dtype == QG_U8)
                    out->u8[at] = (uint8_t)floor(v + 0.5);
                else
                    out->f32[at] = (float)((v - mean) / std);
            }
    }
}

/* to: the bytes of the file up to `end`, with pixels scaled from its maxval, which
 * stb_image ignores, to 255.  Rounds as PPM_DEPTH of netpbm (lib/ppm.h).  Works on the
 * file, because stb_image mixes channels to gray when it decodes. */
static qg_status scale_pnm(qg_ctx *ctx, const char *path, const qg_file *f, size_t end,
                           uint8_t *to)
{
    size_t at;
    const unsigned maximum = (unsigned)pnm_maximum(f, &at);
    assert(maximum > 0 && maximum < 255 && end <= f->size);
    memcpy(to, f->bytes, end);
    for (; at < end; at++) {
        if (to[at] > maximum)
            return qg_fail(ctx, QG_EDATA,
                           "data: %.200s: a PNM image with the value %u, expected 0 to "
                           "%u, the maximum in its header",
                           path, to[at], maximum);
        to[at] = (uint8_t)((to[at] * 255 + maximum / 2) / maximum);
    }
    return QG_OK;
}

/* The pixels in p->at, NULL where stb_image refused the file. */
static qg_status decode(qg_ctx *ctx, const char *path, const qg_file *f,
                        struct pixels *p)
{
    qg_status s = QG_OK;
    size_t at, size = f->size;
    int channels;
    const uint8_t *bytes = f->bytes;
    uint8_t *scaled = NULL;
    if (is_pnm(f) && pnm_maximum(f, &at) != 255) {
        const char *wrong;
        size = (size_t)least_bytes(f, (uint64_t)p->width, (uint64_t)p->height, &wrong);
        bytes = scaled = ctx->alloc.get(ctx->alloc.ud, size);
        s = scaled ? scale_pnm(ctx, path, f, size, scaled) : qg_nomem(ctx);
    }
    if (s == QG_OK)
        p->at = stbi_load_from_memory(bytes, (int)size, &p->width, &p->height,
                                      &channels, p->channels);
    if (scaled)
        ctx->alloc.drop(ctx->alloc.ud, scaled);
    return s;
}

qg_status qg_image_load(qg_ctx *ctx, qg_arena *a, const char *path,
                        const qg_image_options *options, qg_tensor *out)
{
    qg_image_options o = *options;
    qg_file f;
    struct pixels p = { 0 };
    QG_TRY(find_layout(ctx, path, options, out, &o.layout));
    QG_TRY(qg_tensor_alloc(ctx, a, out));
    QG_TRY(qg_file_open(ctx, "data", path, FILE_LIMIT, &f));
    qg_status s = read_size(ctx, path, &f, &p.width, &p.height);
    p.channels = (int)out->dim[axes_of(o.layout).channel];
    if (s == QG_OK)
        s = decode(ctx, path, &f, &p);
    qg_file_close(&f);
    QG_TRY(s);
    if (!p.at)
        return bad_image(ctx, path);
    fill(&p, &o, out);
    stbi_image_free(p.at);
    return QG_OK;
}

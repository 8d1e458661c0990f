/* yaml.c -- data.yaml: which files, and how images become inputs.
 *
 *     files: images            file or folder, relative to data.yaml; or a list
 *     layout: nchw             or nhwc; without it where the input has 1 or 3 channels
 *     colors: rgb              or bgr; an input with one channel gets gray
 *     resize: [240, 320]       height, width
 *     mean: [127, 127, 127]    pixels are 0..255; one number for all channels, or three
 *     std: 128
 *     lossy: yes               values may be rounded to the type of the input */
#include "engine/data/part.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/config/yaml.h"

enum { LARGEST_SIDE = 1 << 14 };

static const char *const keys[] = { "files", "layout", "colors", "resize",
                                    "mean",  "std",    "lossy",  NULL };

/* ORDER qg_image_layout, qg_image_colors */
static const char *const layouts[] = { "nchw", "nhwc", NULL };
static const char *const colors[] = { "rgb", "bgr", NULL };

/* One number stands for all three channels. */
static qg_status read_numbers(qg_ctx *ctx, const qg_yaml *y, const char *what,
                              double low, float out[3])
{
    const double most = 1e30;
    bool one = y->kind == QG_YAML_SCALAR;
    if (!one && (y->kind != QG_YAML_LIST || (y->n != 1 && y->n != 3)))
        return qg_yaml_fail(ctx, y, what, "expected one number, or one per channel");
    for (size_t c = 0; c < 3; c++) {
        const qg_yaml *item = one ? y : y->item[y->n == 3 ? c : 0];
        double x;
        QG_TRY(qg_yaml_number(ctx, item, what, low, most, &x));
        out[c] = (float)x;
    }
    return QG_OK;
}

/* LARGEST_SIDE bounds the memory that a typing error can request. */
static qg_status read_size(qg_ctx *ctx, const qg_yaml *y, qg_image_options *o)
{
    int64_t height, width;
    if (y->kind != QG_YAML_LIST || y->n != 2)
        return qg_yaml_fail(ctx, y, "resize", "expected [height, width]");
    QG_TRY(qg_yaml_int(ctx, y->item[0], "resize", 1, LARGEST_SIDE, &height));
    QG_TRY(qg_yaml_int(ctx, y->item[1], "resize", 1, LARGEST_SIDE, &width));
    o->height = (int32_t)height;
    o->width = (int32_t)width;
    return QG_OK;
}

/* Absent keys keep their defaults. */
static qg_status read_image(qg_ctx *ctx, const qg_yaml *map, qg_image_options *o)
{
    const qg_yaml *y;
    int choice;
    if ((y = qg_yaml_get(map, "layout"))) {
        QG_TRY(qg_yaml_choice(ctx, y, "layout", layouts, &choice));
        o->layout = QG_IMAGE_NCHW + (unsigned)choice;
    }
    if ((y = qg_yaml_get(map, "colors"))) {
        QG_TRY(qg_yaml_choice(ctx, y, "colors", colors, &choice));
        o->colors = QG_IMAGE_RGB + (unsigned)choice;
    }
    if ((y = qg_yaml_get(map, "resize")))
        QG_TRY(read_size(ctx, y, o));
    if ((y = qg_yaml_get(map, "mean")))
        QG_TRY(read_numbers(ctx, y, "mean", -1e30, o->mean));
    if ((y = qg_yaml_get(map, "std")))
        QG_TRY(read_numbers(ctx, y, "std", 1e-30, o->std));
    return QG_OK;
}

/* Names are relative to the folder of the YAML file. */
static qg_status add_file(qg_ctx *ctx, qg_data *d, const char *yaml_path,
                          const qg_yaml *y, const char *name)
{
    size_t n = (size_t)(qg_path_base(yaml_path) - yaml_path);
    const char *folder = qg_arena_strndup(d->arena, yaml_path, n);
    const char *path =
        folder && *name != '/' ? qg_path_join(d->arena, folder, name) : name;
    if (!folder || !path)
        return qg_nomem(ctx);
    if (access(path, F_OK) != 0)
        return qg_yaml_fail(ctx, y, "files", "'%.200s': %s, expected samples there",
                            path, strerror(errno));
    return qg_data_add(ctx, d, path);
}

qg_status qg_data_yaml(qg_ctx *ctx, qg_data *d, const char *path)
{
    assert(d->arena);
    const qg_yaml *map, *y;
    const char *const *files;
    size_t n;
    QG_TRY(qg_yaml_load(ctx, d->arena, path, &map));
    QG_TRY(qg_yaml_keys(ctx, map, "data", keys));
    QG_TRY(read_image(ctx, map, &d->image));
    if ((y = qg_yaml_get(map, "lossy")))
        QG_TRY(qg_yaml_bool(ctx, y, "lossy", &d->request.lossy));
    QG_TRY(qg_yaml_need(ctx, map, "data", "files", &y));
    QG_TRY(qg_yaml_words(ctx, d->arena, y, "files", &files, &n));
    for (size_t i = 0; i < n; i++)
        QG_TRY(
            add_file(ctx, d, path, y->kind == QG_YAML_LIST ? y->item[i] : y, files[i]));
    return QG_OK;
}

/* image.h -- image files as network inputs.
 *
 * Steps   decode to 8 bits per channel; colours as requested; resize (bilinear,
 *         half-pixel centres, edges repeated, the frame stretched);
 *         (pixel - mean) / std per channel, in the order of the
 *         file's colours as requested; layout.
 * Values  pixels are 0..255; mean and std are in these units.
 * Resize  pixel i of n comes from place (i + 0.5) * m / n - 0.5 among m pixels, kept
 *         within 0 .. m - 1, linear between the two neighbours in each direction; in
 *         double, rounded once at the end (as OpenCV's INTER_LINEAR, but for its fixed
 *         point).  There is no filter against aliasing.
 * Batch   always 1: an image is one sample.
 * Limits  64 million pixels, files of 256 MiB.
 * Owner   stb_image decodes; its memory is freed here. */
#ifndef QG_ENGINE_DATA_IMAGE_H
#define QG_ENGINE_DATA_IMAGE_H

#include "engine/ir/tensor_memory.h"

/* Of the network's input: channels first or last. */
enum qg_image_layout { QG_IMAGE_GUESS, QG_IMAGE_NCHW, QG_IMAGE_NHWC };
/* Order of the channels that the network was trained with. */
enum qg_image_colors { QG_IMAGE_RGB, QG_IMAGE_BGR };

typedef struct qg_image_options {
    enum qg_image_layout layout; /* GUESS: where the input has 1 or 3 channels */
    enum qg_image_colors colors; /* of inputs with 3 channels; 1 channel is gray */
    int32_t height, width;       /* 0: as the file is */
    float mean[3], std[3];       /* std 0: 1 */
} qg_image_options;

/* Type and dims that qg_image_load will give for this file and this input: float32, or
 * uint8 where the input is uint8 and neither mean nor std change the pixels.
 * Reads the header only.  QG_EDATA when the input is no picture or
 * the file has other dims, QG_EPARSE when the file is no image. */
QG_NODISCARD qg_status qg_image_type(qg_ctx *ctx, const char *path,
                                     const qg_image_options *options,
                                     const qg_tensor *input, qg_tensor *out);

/* The image; *out has the type that qg_image_type gave and gets data in the arena.
 * QG_EIO, QG_ENOMEM, or QG_EPARSE with the reason that stb_image gives. */
QG_NODISCARD qg_status qg_image_load(qg_ctx *ctx, qg_arena *a, const char *path,
                                     const qg_image_options *options, qg_tensor *out);

#endif

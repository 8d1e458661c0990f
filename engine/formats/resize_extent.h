/* resize_extent.h -- Resize nodes for which runtimes take another extent than ONNX
 * defines: read by the exports of ONNX and OpenVINO files and by lint.
 *
 * The last element of an input stands at extent - 1 of the output, where the extent is
 * input x scale, a fraction included.  ONNX Runtime and OpenVINO take the whole number
 * of elements, so that every coordinate is another.  The simulation follows ONNX (but
 * for mode nearest: ops/util_resample.h).
 * Source   ONNX Resize-19, align_corners and tf_crop_and_resize; measured with
 *          onnxruntime 1.31.1 and OpenVINO 2026.4.1 in opsets 11 to 19 */
#ifndef QG_ENGINE_FORMATS_RESIZE_EXTENT_H
#define QG_ENGINE_FORMATS_RESIZE_EXTENT_H

#include "engine/formats/format.h"

/* Whether n is such a Resize, or can be one for an extent that is open. */
bool qg_resize_has_fraction(const qg_node *n);

/* For build: a row that changes results for each of them. */
QG_NODISCARD qg_status qg_export_lose_fractions(qg_export *e);

#endif

/* profile_yaml.h -- profiles of integer arithmetic, read into qg_profile.
 *
 * One file may extend one parent, found in the folder of the file, then in the search
 * folders; parents are read first.
 *     name         required; title, evidence: of this file alone
 *     codes, islands, clamp, passive
 *                  the parent's unless the file has its own.  A row keeps the clamp of
 *                  the file that contains it
 *     kernels      rows of the file stand before the parent's.  `-kernels: [id]`
 *                  removes rows of the parent; an id of the parent may be used again
 *                  only then
 * Every row has id, use, why and source, and exactly the keys that its form reads
 * (qg_form_keys).  Every message gives file, line, key, the fault and the expected
 * form.
 *
 *     name: my-runtime
 *     title: My runtime 1.0
 *     extends: tflite-reference
 *     clamp: float
 *     kernels:
 *       - id: conv-single
 *         use: [conv, conv-one]
 *         types: {x: int8, w: int8}              # x, w, y; default: any
 *         ratio: {from: 0.0078125, below: 256}   # every s_x / s_y; default: any
 *         form: plain                            # QG_FORM_MAP; default: plain
 *         products: exact                        # QG_PRODUCTS_MAP; default: exact
 *         tail: codes                            # QG_TAIL_MAP; default: codes
 *         scheme: fix-single                     # QG_SCHEME_MAP
 *         factor: double                         # QG_FACTOR_MAP
 *         zero: after                            # after, inside, fused; default: after
 *         why: the accelerator rounds once
 *         source: manual of the device, chapter 3
 *
 *     further keys of a row: rounding, left {8: 20, 16: 15}, clamp, symmetric,
 *     accumulator, output [scale, zero point], scale (of softmax: the least one of an
 *     output of a snapshot, 1/n with a whole n); of quantize: nan (number/round.h;
 *     default: lowest); of relu: limits (QG_ACTIVATION_MAP, default: any clamp; a clamp
 *     with other limits is a rescale); of matmul: w-zero: 0 (only where the second
 *     operand has that zero point) */
#ifndef QG_ENGINE_CONFIG_PROFILE_YAML_H
#define QG_ENGINE_CONFIG_PROFILE_YAML_H

#include "engine/config/search.h"
#include "engine/number/profile.h"

/* name: a path (it holds '/' or ends in .yaml), or the name of a text of the host or of
 * a file in the folders ("profiles" of the configuration, qg_config_search).
 * QG_EIO, QG_EPARSE (not YAML), QG_ECONFIG (invalid content).  Cost: the files, once
 * each; the result is in a and borrows nothing else. */
QG_NODISCARD qg_status qg_profile_load(qg_ctx *ctx, qg_arena *a, const char *name,
                                       qg_search search, const qg_profile **out);

#endif

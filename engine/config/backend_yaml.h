/* backend_yaml.h -- backend files, and policy patches of a run, read into qg_backend.
 *
 * One file may extend one parent: `extends: int8-base`, found in the folder of the
 * file, then in the search folders.  Parents are read first.
 *   scalars     name, title, profile, pipeline, dispatch: the child's value applies
 *   defaults    field by field
 *   passes      parameters of passes: {equalize: {iterations: 3}, align: no}; the last
 *               setting applies
 *   sections    rules, fusions, sharing: by id; an existing id is replaced in place, a
 *               new one is appended; `-rules: [id]` (`-fusions`, ...) removes
 *   lists       quantizes, passive, quirks: the list replaces the parent's;
 *               `+quantizes:` extends it, `-quantizes:` takes from it
 *   with-quirk  {quirk: section}: applied over all other sections if the quirk is on,
 *               parents first; a section has the keys of a file except name, extends
 *               and quirks.  It may remove items that are already removed
 * Every rule, fusion and sharing has id, why and source.  Every message gives file,
 * line, key, the fault and the expected form.  Operators must be in ctx->registry.
 *
 * A policy patch is a file with the same keys (except name and extends) applied on top;
 * why and source are optional there, and a rule that covers nothing is an error.
 * It may have one more key:
 *   after-set   options of `--set`, which otherwise apply after all patches: these
 *               apply just before the rest of this patch, so that it can change what
 *               they set.  An option that is given to the run as well applies only here
 *
 * A file that extends another by one rule and one fusion:
 *
 *     name: my-int8
 *     extends: int8-base
 *     rules:
 *       - id: first-conv-16-bits
 *         match: {op: Conv, graph-input: yes, slot: in0}
 *         set: {bits: 16, range: [-32768, 32767]}
 *         why: the sensor has 12 bits
 *         source: data sheet of the sensor, page 4
 *     fusions:
 *       - id: compute-clip
 *         pattern: {c: {trait: compute}, a: {op: Clip, in: [c]}}
 *         where: {c.out0: {consumers: 1, graph-output: no}, same-platform: [c, a]}
 *         silence: {c.out0: a.out0, a.in0: a.out0}
 *         why: the accumulator is clamped before it is stored
 *         source: manual of the device, chapter 3
 *
 *     match  op, trait, node, attr, from, to            of the node
 *            slot, constant, graph-input, graph-output,
 *            value, dims                                of the endpoint
 *     silence   a map, or one endpoint that leads all values between nodes of `float`,
 *               or fp32
 *     set    bits, range, rounding, nan, policy, axis, exponent-bits, variant,
 *            block, observer, percentile, min-scale, bins, step, zero, state,
 *            visibility, derive, quantizer, platform */
#ifndef QG_ENGINE_CONFIG_BACKEND_YAML_H
#define QG_ENGINE_CONFIG_BACKEND_YAML_H

#include "engine/config/search.h"
#include "engine/quant/backend.h"
#include "engine/quant/quirk.h"

/* name: a path (it holds '/' or ends in .yaml), or the name of a file in the
 * folders.
 * QG_EIO, QG_EPARSE (not YAML), QG_ECONFIG (invalid content).  Cost: the files, once
 * each; the result is in a and borrows nothing else. */
QG_NODISCARD qg_status qg_backend_load(qg_ctx *ctx, qg_arena *a, const char *name,
                                       qg_search search, qg_backend **out);

/* Quirks whose rows are data: sections `with-quirk` of backend files. */
extern const qg_quirk_row qg_backend_quirk_rows[];

/* Switches quirks on, in addition to those of the file, and reads their sections;
 * before patches and --set, which have the last word.  QG_ECONFIG as for a file. */
QG_NODISCARD qg_status qg_backend_quirks(qg_ctx *ctx, qg_arena *a, uint64_t mask,
                                         qg_backend *b);

/* path: a file, or the name of a text that a host added to "policies" (text.h).
 * On failure the backend must not be used.
 * Its rules are appended to the existing ones, and so take precedence. */
QG_NODISCARD qg_status qg_backend_patch(qg_ctx *ctx, qg_arena *a, const char *path,
                                        qg_backend *b);

#endif

/* backend_yaml.h -- backend files, and overrides of a run, read into qg_backend.
 *
 * One file may extend one parent: `extends: int8-base`, looked for in the folder of the
 * file, then in the search folders.  Parents are read first.
 *   scalars     name, title, profile, pipeline, dispatch: the child's holds
 *   defaults    field by field
 *   passes      parameters of passes: {equalize: {iterations: 3}, align: no}; the last
 *               word counts
 *   sections    rules, fusions, sharing: by id; a known id is replaced where it stands,
 *               a new one is appended; `-rules: [id]` (`-fusions`, ...) removes
 *   lists       quantizes, passive, quirks: the list replaces the parent's;
 *               `+quantizes:` extends it, `-quantizes:` takes from it
 *   with-quirk  {quirk: section}: read over all the rest once the quirk is on, parents
 *               first; a section has the keys of a file that decide something (not
 *               name, extends, quirks).  What it takes out may be out already
 * Every rule, fusion and sharing has id, why and source.  Every complaint says file,
 * line, key, what is wrong and what is expected.  Operators must be in ctx->registry.
 *
 * A policy patch is a file with the same keys (but name and extends) applied on top;
 * why and source are optional there, and a rule of it that covers nothing is an
 * error.
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
 *     set    bits, range, rounding, policy, axis, exponent-bits, variant, block,
 *            observer, percentile, min-scale, bins, step, zero, state, visibility,
 *            derive, platform */
#ifndef QG_ENGINE_CONFIG_BACKEND_YAML_H
#define QG_ENGINE_CONFIG_BACKEND_YAML_H

#include "engine/quant/backend.h"
#include "engine/quant/quirk.h"

/* Folders that hold backend files, in order of preference. */
typedef struct qg_search {
    const char *const *dir; /* [n] */
    size_t n;
} qg_search;

/* A folder of the context's config_dir: "backends", "pipelines".  *out lies in a.
 * Whether the folder exists is found out when a file is looked for. */
QG_NODISCARD qg_status qg_config_search(qg_ctx *ctx, qg_arena *a, const char *folder,
                                        qg_search *out);

/* name: a path (it holds '/' or ends in .yaml), or the name of a file in the
 * folders.
 * QG_EIO, QG_EPARSE (no YAML), QG_ECONFIG (what it says).  Cost: the files, once
 * each; the result lies in a and borrows nothing else. */
QG_NODISCARD qg_status qg_backend_load(qg_ctx *ctx, qg_arena *a, const char *name,
                                       qg_search search, qg_backend **out);

/* Quirks whose rows are data: sections `with-quirk` of backend files. */
extern const qg_quirk_row qg_backend_quirk_rows[];

/* Switches quirks on, beside those of the file, and reads their sections; before
 * patches and --set, which have the last word.  QG_ECONFIG as for a file. */
QG_NODISCARD qg_status qg_backend_quirks(qg_ctx *ctx, qg_arena *a, uint64_t mask,
                                         qg_backend *b);

/* On failure the backend is of no more use.
 * Its rules come behind those that are there, and so win. */
QG_NODISCARD qg_status qg_backend_patch(qg_ctx *ctx, qg_arena *a, const char *path,
                                        qg_backend *b);

/* "pass=equalize iterations=3": parameters of a pass, `run` among them.  Or
 * "op=Conv_3 slot=in0 bits=4": words key=value of `match` and `set`.  op is an
 * operator's name, else a glob over node names; lists with commas, no spaces.  The
 * rule's id is "set:<k>", k counting from 1.
 * QG_ECONFIG quotes the word that is wrong. */
QG_NODISCARD qg_status qg_backend_set(qg_ctx *ctx, qg_arena *a, const char *text,
                                      qg_backend *b);

/* One word of `slot:` as files have it: "weight", "in2", "out*".  Returns `text`. */
enum { QG_SLOT_WORD = 24 };
const char *qg_slot_word(const qg_slot_match *slot, char text[QG_SLOT_WORD]);

/* Names of all backends in the folders, sorted, each once.
 * Without the suffix; files are not opened. */
QG_NODISCARD qg_status qg_backend_names(qg_ctx *ctx, qg_arena *a, qg_search search,
                                        const char ***names, size_t *n);

#endif

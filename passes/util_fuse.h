/* util_fuse.h -- the fusions of a backend applied to a graph; shared by fuse and
 * fuse-late, which select different fusions.
 *
 * Silencing means qg_tqc_join: the endpoint becomes OVERLAPPED under its dominator, so
 * the value between two nodes that the hardware computes together is not rounded. */
#ifndef QG_PASSES_UTIL_FUSE_H
#define QG_PASSES_UTIL_FUSE_H

#include "engine/pass/pass.h"

/* Behaviours of qg_fuse that quirks replace: the table of the passes that call it. */
extern const qg_quirk_row qg_fuse_quirks[];

/* Pattern by pattern, in the backend's order: every match overlaps its endpoints; when
 * an endpoint cannot be overlapped, the whole match is skipped as a near miss.
 * after_passive selects the fusions that run after passive nodes follow their
 * inputs. */
QG_NODISCARD qg_status qg_fuse(qg_pass_env *env, bool after_passive);

#endif

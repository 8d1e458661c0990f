/* util_fuse.h -- the fusions of a backend applied to a graph; shared by fuse and
 * fuse-late, which differ in the fusions they take.
 *
 * Silencing means qg_tqc_join: the endpoint goes OVERLAPPED under its leader, so the
 * value between two nodes that the hardware computes together is not rounded. */
#ifndef QG_PASSES_UTIL_FUSE_H
#define QG_PASSES_UTIL_FUSE_H

#include "engine/pass/pass.h"

/* What quirks swap in qg_fuse: the table of the passes that call it. */
extern const qg_quirk_row qg_fuse_quirks[];

/* Pattern by pattern, in the backend's order: every match silences its endpoints,
 * unless one of them can not be; then nothing of the match happens and it is a near
 * miss.
 * after_passive chooses the fusions that wait until passive nodes follow their
 * inputs. */
QG_NODISCARD qg_status qg_fuse(qg_pass_env *env, bool after_passive);

#endif

/* tqc.h -- the functions of a TensorQuantizationConfig (record.h): how ONE endpoint (an
 * input or output slot of one node) is quantized, and which endpoints share its scale.
 *
 * Arithmetic   see quant/fake.h
 * Units        scale: the tensor's own unit per step, finite and > 0
 *              offset, qmin, qmax: steps (integers)
 * Sharing      union-find: `up` leads to the root, the dominator.  The parameters of an
 *              endpoint that does not own its scale are those of its root
 *              (qg_tqc_param).
 * Writes       state, scheme, parameters and sharing change only through the functions
 *              here; every change is appended to the journal with its author.
 * Owner        the qg_quant's arena; a TQC dies with its graph, never before
 * Source       DESIGN.md, section 8; docs/evidence/ppq-behaviour.md#states
 *
 * A calibration in miniature:
 *
 *     QG_TRY(qg_quant_add(q, conv, false, 0, &scheme, &t));     // INITIAL
 *     QG_TRY(qg_tqc_set_param(q, t, 1, &scale, NULL));
 *     QG_TRY(qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));         // now quantizes
 *     QG_TRY(qg_tqc_join(q, relu_in, t));                       // OVERLAPPED */
#ifndef QG_ENGINE_QUANT_TQC_H
#define QG_ENGINE_QUANT_TQC_H

#include "engine/quant/endpoint.h"
#include "engine/quant/record.h"

/* An empty set for g, in its arena; b is borrowed.  The author is "user" until a pass
 * or rule sets another. */
QG_NODISCARD qg_status qg_quant_new(qg_graph *g, const qg_backend *b, qg_quant **out);

/* A new root TQC in state INITIAL for the endpoint, linked into node->tin or tout.
 * One TQC per endpoint (asserted).  s is copied unchecked: rules check the fields that
 * they combine. */
QG_NODISCARD qg_status qg_quant_add(qg_quant *q, qg_node *n, bool is_output,
                                    uint32_t slot, const qg_scheme *s, qg_tqc **out);

/* The dominator; t itself when it is a root.  Does not write, so workers may call
 * it. */
const qg_tqc *qg_tqc_root(const qg_tqc *t);

/* Points every TQC straight at its root, so that qg_tqc_root takes one step; the driver
 * calls it after each pass.  Linear. */
void qg_quant_settle(qg_quant *q);

/* The parameters of the root (own parameters when the state owns or derives them);
 * n == 0 when there are none yet. */
qg_qparam qg_tqc_param(const qg_tqc *t);

bool qg_tqc_rounds(const qg_tqc *t);           /* by its state */
bool qg_tqc_is_baked(const qg_tqc *t);         /* a constant that was rounded */
bool qg_tqc_is_on_grid(const qg_tqc *t);       /* either; false for NULL */
bool qg_tqc_owns_scale(const qg_tqc *t);       /* a root whose scale may be set */
bool qg_tqc_is_prescribed(const qg_tqc *t);    /* its scale is a rule's, not data's */
const char *qg_tqc_state_word(qg_tqc_state s); /* "passive-init": YAML and text form */
int qg_tqc_state_named(const char *text);      /* -1 when unknown */
const char *qg_visibility_name(qg_visibility v); /* "when-active" */
int qg_visibility_named(const char *text);       /* -1 when unknown */

/* The legality table.  From DEACTIVATED and DEQUANTIZED only `saved` is legal.
 *
 *     from            to
 *     INITIAL         ACTIVATED, OVERLAPPED, PASSIVE_INIT, PASSIVE, FP32, SOI, off
 *     ACTIVATED       INITIAL, BAKED, OVERLAPPED, PASSIVE, FP32, off
 *     BAKED           ACTIVATED, DEQUANTIZED
 *     OVERLAPPED      INITIAL, PASSIVE_INIT, PASSIVE, off
 *     PASSIVE_INIT    PASSIVE, OVERLAPPED, FP32, off
 *     PASSIVE         PASSIVE_INIT, PASSIVE_BAKED, OVERLAPPED, off
 *     PASSIVE_BAKED   PASSIVE, DEQUANTIZED
 *     FP32            INITIAL, PASSIVE_INIT
 *     SOI             FP32
 *     (off: DEACTIVATED, DEQUANTIZED) */
bool qg_tqc_may_move(qg_tqc_state from, qg_tqc_state saved, qg_tqc_state to);

/* The only way to change a state; QG_ESTATE names endpoint, both states and q->author
 * when the transition is not in the legality table, and nothing changes.  Setting the
 * current state is a no-op.  Beyond the table: ACTIVATED and PASSIVE need parameters,
 * BAKED and PASSIVE_BAKED a constant, OVERLAPPED a root elsewhere, INITIAL, ACTIVATED
 * and BAKED their own root.  INITIAL and PASSIVE_INIT drop the own parameters. */
QG_NODISCARD qg_status qg_tqc_set_state(qg_quant *q, qg_tqc *t, qg_tqc_state to);

/* Parameters of a root (copied); finite scales > 0, QG_ENUMERIC otherwise.  offset
 * NULL: all zero.  QG_ESTATE unless it is a root in INITIAL, ACTIVATED, PASSIVE_INIT or
 * PASSIVE.  Replacing parameters does not change the state.
 * One journal entry each for scale and offset, when they change. */
QG_NODISCARD qg_status qg_tqc_set_param(qg_quant *q, qg_tqc *t, size_t n,
                                        const float *scale, const int32_t *offset);
/* Journalled field by field; parameters stay until calibration replaces them. */
QG_NODISCARD qg_status qg_tqc_set_scheme(qg_quant *q, qg_tqc *t, const qg_scheme *s);
QG_NODISCARD qg_status qg_tqc_set_observer(qg_quant *q, qg_tqc *t,
                                           const qg_observer_setting *o);
QG_NODISCARD qg_status qg_tqc_set_visibility(qg_quant *q, qg_tqc *t, qg_visibility v);

/* Sharing.  All walk to roots, refuse cycles and illegal transitions before any change
 * (QG_ESTATE), are iterative and move whole groups; members keep their own states.
 *
 * join    t and its root become OVERLAPPED under dominator's root, which quantizes
 *         instead.  No-op when they share a root already.
 * lend    t's root uses the scale of lender's root: PASSIVE, or PASSIVE_INIT while the
 *         source has none.  When t shares that root already and waits for its scale
 *         (PASSIVE_INIT), t becomes PASSIVE; otherwise a no-op.
 *         Quirk ppq-split-groups: only t moves, with its direct followers.
 * derive  t, a root without followers, gets its own scale from several sources by a
 *         formula: PASSIVE, or PASSIVE_INIT while a source has none.  Call it again
 *         when a source's scale has changed.  A derived endpoint is never a dominator.
 * detach  t leaves its group and becomes its own root, INITIAL; the rest stays
 *         together.  No-op for a root. */
QG_NODISCARD qg_status qg_tqc_join(qg_quant *q, qg_tqc *t, qg_tqc *dominator);
QG_NODISCARD qg_status qg_tqc_lend(qg_quant *q, qg_tqc *t, qg_tqc *lender);
QG_NODISCARD qg_status qg_tqc_derive(qg_quant *q, qg_tqc *t, qg_derive how,
                                     qg_tqc *lender0, qg_tqc *lender1);
QG_NODISCARD qg_status qg_tqc_detach(qg_quant *q, qg_tqc *t);
/* Every member of the group of `root` becomes a root in state FP32, and is counted
 * in *changed: followers first, then the root, which is alone by then. */
QG_NODISCARD qg_status qg_tqc_release(qg_quant *q, qg_tqc *root, uint32_t *changed);

/* Switches t off and on again (DEQUANTIZED, or DEACTIVATED when `keep`).
 * For analyses with a quantizer disabled: scale and sharing are kept.  Switching on
 * restores the previous state; both are no-ops when they change nothing. */
QG_NODISCARD qg_status qg_tqc_switch_off(qg_quant *q, qg_tqc *t, bool keep);
QG_NODISCARD qg_status qg_tqc_switch_on(qg_quant *q, qg_tqc *t);

#endif

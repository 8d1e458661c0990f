/* edit.h -- the only functions that change the topology of a finished graph.
 *
 * Each leaves use lists right.  Ids have gaps (node->dead) until qg_graph_normalize.
 *
 * A pass walks the nodes by id, edits them, and normalizes once at the end:
 *
 *     for (size_t i = 0; i < g->node.n; i++)
 *         if (is_identity(g->node.at[i]))
 *             QG_TRY(qg_edit_replace_value(g, out, in));   // may refuse: QG_ESTATE
 *     QG_TRY(qg_graph_sweep(g, &removed));
 *
 * Every function performs its fallible steps first: after a failure the graph is
 * unchanged.  Nodes and values made meanwhile come at the end and get the highest
 * ids. */
#ifndef QG_ENGINE_IR_EDIT_H
#define QG_ENGINE_IR_EDIT_H

#include "engine/ir/graph.h"

/* The operator that a rewrite makes, as of the opset of n; QG_EUNSUPPORTED when the
 * registry has none. */
QG_NODISCARD qg_status qg_edit_find_op(const qg_graph *g, const qg_node *n,
                                       qg_made_op which, const qg_op **out);

/* The operator of n becomes that one; inputs, outputs and attributes stay and must suit
 * it. */
QG_NODISCARD qg_status qg_edit_set_op(qg_graph *g, qg_node *n, qg_made_op which);

/* node->in[slot] = v (NULL: absent), use lists updated.
 * The slot exists (asserted).  Costs the uses of the old value. */
QG_NODISCARD qg_status qg_edit_set_input(qg_graph *g, qg_node *n, uint32_t slot,
                                         qg_value *v);

/* n computes v in this slot, which has no producer; the caller gives the old value
 * another one (float_type.h). */
void qg_edit_set_output(qg_node *n, uint32_t slot, qg_value *v);

/* Grows n_in to at least `count`, new slots absent.
 * Not for nodes with captured inputs, which must stay the last ones (asserted). */
QG_NODISCARD qg_status qg_edit_grow_inputs(qg_graph *g, qg_node *n, uint32_t count);

/* Every use of `from` now reads `to`; when `from` is a graph output, `to` takes its
 * place in the output list AND its name, so that the interface keeps its names (`from`
 * gets the old name of `to`), also those of open extents.  When `to` is a graph input
 * or output itself as well, QG_ESTATE and nothing is changed: the caller must keep the
 * node.
 * The producer of `from` stays, unread.  Linear in the uses of `from`. */
QG_NODISCARD qg_status qg_edit_replace_value(qg_graph *g, qg_value *from, qg_value *to);

/* Unlinks the node and marks it dead, its name is free again; its outputs must have no
 * watchers (asserted).  Linear in the uses of its inputs. */
void qg_edit_remove_node(qg_graph *g, qg_node *n);

/* Position: a node that replaces another one keeps its turn in the order of the
 * file. */
void qg_edit_swap_places(qg_graph *g, qg_node *a, qg_node *b);

/* v becomes a constant with this tensor (in the arena, known, with data); its
 * producer's slot is cleared.  QG_ESTATE for a graph input.
 * The node that computed v stays; sweep takes it when nothing else needs it.
 * Symbolic dims of v are forgotten. */
QG_NODISCARD qg_status qg_edit_make_constant(qg_graph *g, qg_value *v,
                                             const qg_tensor *t);

/* A new constant value named after `prefix`. */
QG_NODISCARD qg_status qg_edit_add_constant(qg_graph *g, const char *prefix,
                                            const qg_tensor *t, qg_value **out);

/* Input `slot` of n becomes the constant t: in place when the value has no other reader
 * that is there, else as a new value named after it (after `name` when the slot is
 * empty, which may be past the last one). */
QG_NODISCARD qg_status qg_edit_give_constant(qg_graph *g, qg_node *n, uint32_t slot,
                                             const char *name, const qg_tensor *t);

/* The constant of the float network stays beside v, which is learned (QG_UNTUNED in
 * graph.h); one that is there already stays. */
QG_NODISCARD qg_status qg_edit_keep_untuned(qg_graph *g, const qg_value *v,
                                            const qg_tensor *old);

/* Input `slot` of n, a constant, becomes the learned constant t; the old one stays. */
QG_NODISCARD qg_status qg_edit_learn_constant(qg_graph *g, qg_node *n, uint32_t slot,
                                              const qg_tensor *t);

/* `n` alone consumes output 0 of `producer` and its work now happens there: n is
 * removed, and its output 0 becomes the producer's (asserted: one use, not an output of
 * the graph).
 * The caller must fold n's computation into the producer's attributes or weights; n's
 * other inputs lose a use. */
void qg_edit_absorb(qg_graph *g, qg_node *producer, qg_node *n);

/* Topological order (file order among ready nodes, iterative), dead nodes dropped, ids
 * dense again, use lists in order of node id and slot.  Values without producer, use,
 * constant or place in the interface are dropped as well.  QG_EMODEL names two nodes of
 * a cycle and changes nothing.  Linear when the graph is in order already, else
 * O(n log n). */
QG_NODISCARD qg_status qg_graph_normalize(qg_graph *g);

/* Removes nodes and values (constants too) that no graph output needs; graph inputs
 * stay.  The number of nodes and values removed goes to *removed.  Ends normalized. */
QG_NODISCARD qg_status qg_graph_sweep(qg_graph *g, size_t *removed);

/* The same, but the float values of learned constants (QG_UNTUNED) stay with them: for
 * a graph that goes on to be quantized, not for one that is written. */
QG_NODISCARD qg_status qg_graph_sweep_dead(qg_graph *g, size_t *removed);

#endif

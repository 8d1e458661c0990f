/* openvino_edits.h -- nodes and attributes that files for OpenVINO have more than the
 * network (openvino_plugin.h).  New values are named after the output of n. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_EDITS_H
#define QG_ENGINE_FORMATS_OPENVINO_EDITS_H

#include "engine/formats/format.h"

/* *x = op(the inputs of spec), of the type of *x, named after the output of n. */
QG_NODISCARD qg_status qg_plugin_add_node(qg_graph *g, const qg_node *n, const char *op,
                                          const qg_node_spec *like, qg_value **x);

/* *x = op(*x). */
QG_NODISCARD qg_status qg_plugin_add_function(qg_graph *g, const qg_node *n,
                                              const char *op, qg_value **x);

/* *x = op(*x, number), one of the dims of `like`. */
QG_NODISCARD qg_status qg_plugin_add_limit(qg_graph *g, const qg_node *n,
                                           const char *op, float number,
                                           const qg_tensor *like, qg_value **x);

/* A float: *x = Max(*x, the least one), which no code passes. */
QG_NODISCARD qg_status qg_plugin_add_barrier(qg_graph *g, const qg_node *n,
                                             qg_value **x);

/* A Max with the least float, as qg_plugin_add_barrier makes. */
bool qg_plugin_is_barrier(const qg_node *n);

/* Readers of y, and the interface, get x, which has its name, unless an output keeps
 * it. */
QG_NODISCARD qg_status qg_plugin_replace(qg_graph *g, qg_value *y, qg_value *x);

/* copy reads that input behind a barrier. */
QG_NODISCARD qg_status qg_plugin_keep_in_front(qg_graph *g, const qg_node *n,
                                               qg_node *copy, uint32_t slot);

/* Others read copy behind a barrier. */
QG_NODISCARD qg_status qg_plugin_keep_behind(qg_graph *g, const qg_node *n,
                                             const qg_node *copy);

/* *x through a MaxPool of single elements along so many axes. */
QG_NODISCARD qg_status qg_plugin_add_pool(qg_graph *g, const qg_node *n, size_t axes,
                                          qg_value **x);

/* *x in another form; one dim may be open. */
QG_NODISCARD qg_status qg_plugin_add_reshape(qg_graph *g, const qg_node *n, int rank,
                                             const int64_t *dim, qg_value **x);

/* Numbers of an attribute, which n may lack. */
QG_NODISCARD qg_status qg_plugin_set_attribute(qg_graph *g, qg_node *n,
                                               const char *name, const int64_t *x,
                                               size_t count);

#endif

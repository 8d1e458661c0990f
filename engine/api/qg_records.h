/* qg_records.h -- reading and changing the records of a model: nodes, values,
 * endpoints, groups.
 *
 * Handles   qg_node, qg_value and qg_tqc are opaque and live as long as their model; a
 *           pass that removes a node invalidates its handle.  Indices are ids: dense,
 *           and stable until nodes are added or removed.
 * Records   structs of the caller with `size` set to their sizeof: fields that the
 *           caller's version does not have are not written.  Texts and arrays in them
 *           are borrowed from the model.
 * Changes   go through checked setters, are journalled (author "host", or the running
 *           pass), and leave the model as it was when they fail.
 *
 *     for (size_t i = 0; i < qg_model_tqc_count(m); i++) {
 *         qg_tqc_record r = { .size = sizeof r };
 *         qg_tqc_get(qg_model_tqc(m, i), &r);
 *         printf("%s %s %g\n", r.name, qg_tqc_state_name(r.state), r.scale[0]);
 *     }
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_RECORDS_H
#define QG_ENGINE_API_QG_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"
#include "engine/ir/tensor.h"
#include "engine/quant/policy.h"
#include "engine/quant/state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qg_model qg_model;
typedef struct qg_node qg_node;   /* one operator call */
typedef struct qg_value qg_value; /* the tensor on an edge */
typedef struct qg_tqc qg_tqc;     /* the quantization of one endpoint */

/* --- nodes --- */

typedef struct qg_node_record {
    size_t size;
    uint32_t id;
    const char *name, *op;
    const char *domain; /* "" is ai.onnx */
    int64_t opset;
    size_t n_in, n_out;   /* slots, absent ones too */
    const char *platform; /* "quantized", "fp32", "soi"; "none" before dispatch */
    const char *reason;   /* why it has that platform; NULL before */
} qg_node_record;

QG_API size_t qg_model_node_count(const qg_model *m);
QG_API qg_node *qg_model_node(const qg_model *m, size_t i); /* NULL: out of range */
QG_API qg_node *qg_model_find_node(const qg_model *m, const char *name); /* or NULL */
QG_API void qg_node_get(const qg_node *n, qg_node_record *out);
/* Whether its operator has this name, in any domain; false for NULL. */
QG_API bool qg_node_is(const qg_node *n, const char *op);
/* NULL: the slot is absent, or there are fewer. */
QG_API qg_value *qg_node_input(const qg_node *n, size_t slot);
QG_API qg_value *qg_node_output(const qg_node *n, size_t slot);
/* The record of an endpoint; NULL: it is not quantized. */
QG_API qg_tqc *qg_node_input_tqc(const qg_node *n, size_t slot);
QG_API qg_tqc *qg_node_output_tqc(const qg_node *n, size_t slot);
/* 'd', 'w', 'b', ... of an input slot, as the operator has it (DESIGN.md, slot
 * roles). */
QG_API char qg_node_input_role(const qg_node *n, size_t slot);
/* Whether its operator has the trait ("compute", `qg list ops`); false for other
 * words. */
QG_API bool qg_node_has_trait(const qg_node *n, const char *trait);
/* INT, INTS, FLOAT, FLOATS as the node has it: *n entries, borrowed; false: no such
 * attribute, or of another kind. */
QG_API bool qg_node_ints(const qg_node *n, const char *name, const int64_t **out,
                         size_t *count);
QG_API bool qg_node_floats(const qg_node *n, const char *name, const float **out,
                           size_t *count);

/* --- values --- */

typedef struct qg_value_record {
    size_t size;
    uint32_t id;
    const char *name;
    qg_dtype type;
    int32_t rank;              /* -1: not known */
    int64_t dim[QG_MAX_RANK];  /* -1: open */
    const qg_tensor *constant; /* initializer or folded value; else NULL */
    qg_node *producer;         /* NULL for inputs and constants */
    uint32_t producer_slot;
    size_t n_consumer;        /* qg_value_consumer */
    bool is_input, is_output; /* of the graph */
} qg_value_record;

QG_API size_t qg_model_value_count(const qg_model *m);
QG_API qg_value *qg_model_value(const qg_model *m, size_t i);
QG_API qg_value *qg_model_find_value(const qg_model *m, const char *name);
QG_API void qg_value_get(const qg_value *v, qg_value_record *out);
/* NULL for inputs and constants, and for NULL. */
QG_API qg_node *qg_value_producer(const qg_value *v);
/* Reader k and its slot (which may be NULL); a node that reads v twice is there
 * twice. */
QG_API qg_node *qg_value_consumer(const qg_value *v, size_t k, uint32_t *slot);
/* Declared order; NULL: out of range. */
QG_API size_t qg_model_input_count(const qg_model *m);
QG_API size_t qg_model_output_count(const qg_model *m);
QG_API qg_value *qg_model_input(const qg_model *m, size_t i);
QG_API qg_value *qg_model_output(const qg_model *m, size_t i);

/* --- endpoints --- */

/* Parameters are those in force: of the dominator when the endpoint shares its
 * scale. */
typedef struct qg_tqc_record {
    size_t size;
    uint32_t id;
    const char *name; /* "Conv_3.in1" */
    const qg_node *node;
    uint32_t slot;
    bool is_output;
    const qg_value *value;
    qg_tqc_state state;
    qg_tqc_state saved;    /* to return to from DEACTIVATED and DEQUANTIZED */
    qg_scheme scheme;      /* policy, rounding, bits, range, axis, block */
    size_t n_param;        /* 0 until calibrated */
    const float *scale;    /* [n_param] */
    const int32_t *offset; /* [n_param] */
    bool rounds;           /* at run time */
    const char *observer;  /* NULL: none */
    const char *quantizer; /* of qg_add_quantizer; NULL: the library's own */
    qg_visibility visibility;
    qg_derive derive;
    const qg_tqc *dominator; /* itself when it leads, or is alone */
    const qg_tqc *lender[2]; /* of a derived scale; else NULL */
    const char *rule, *why;  /* id and reason of the backend's rule; NULL: defaults */
} qg_tqc_record;

/* All 0 and NULL of a model that is not quantized. */
QG_API size_t qg_model_tqc_count(const qg_model *m);
QG_API qg_tqc *qg_model_tqc(const qg_model *m, size_t i);
QG_API qg_tqc *qg_model_find_tqc(const qg_model *m, const char *endpoint);
QG_API void qg_tqc_get(const qg_tqc *t, qg_tqc_record *out);

/* Groups: endpoints with one dominator, which is the first of them.  Lists of at least
 * two, by id of the dominator. */
QG_API size_t qg_model_group_count(const qg_model *m);
QG_API const qg_tqc *qg_model_group(const qg_model *m, size_t i); /* its dominator */
/* Member k of the group that t is in, by id; NULL after the last one.  Time: the size
 * of the group times the logarithm of the number of endpoints. */
QG_API const qg_tqc *qg_tqc_member(const qg_tqc *t, size_t k);

/* Change k of the record, in order; false after the last one. */
typedef struct qg_change_record {
    size_t size;
    const char *field, *old_value, *new_value;
    const char *by; /* rule id, or "pass", or "pass/pattern" */
} qg_change_record;
QG_API bool qg_model_change(const qg_model *m, const qg_tqc *t, size_t k,
                            qg_change_record *out);

/* --- setters --- */

/* Of a quantized model, or of one in the hands of a pass; QG_ESTATE names an illegal
 * transition (`qg list states`), with both states, or that t is NULL, as
 * qg_model_find_tqc returns it for a wrong name.  Constants that were rounded (BAKED)
 * are rounded again from their float values when a change concerns them: the model
 * keeps those (of an imported file: the dequantized codes).  Every setter visits all
 * records, so its cost is linear in their number. */
QG_NODISCARD QG_API qg_status qg_model_set_state(qg_model *m, qg_tqc *t,
                                                 qg_tqc_state s);
/* scale and offset: [n]; of a dominator.  Finite scales > 0, QG_ENUMERIC otherwise.
 * offset NULL: all 0.  A POWER_OF_2 scheme takes powers of 2 only.  Derived scales
 * (bias) follow; they cannot be set themselves (QG_ESTATE). */
QG_NODISCARD QG_API qg_status qg_model_set_param(qg_model *m, qg_tqc *t, size_t n,
                                                 const float *scale,
                                                 const int32_t *offset);
/* Checked as by qg_scheme_check; parameters that the new scheme cannot hold are
 * QG_ESTATE. */
QG_NODISCARD QG_API qg_status qg_model_set_scheme(qg_model *m, qg_tqc *t,
                                                  const qg_scheme *s);
/* "percentile,percentile=0.999"; counts at the next calibration. */
QG_NODISCARD QG_API qg_status qg_model_set_observer(qg_model *m, qg_tqc *t,
                                                    const char *observer);
QG_NODISCARD QG_API qg_status qg_model_set_visibility(qg_model *m, qg_tqc *t,
                                                      qg_visibility v);
/* One of qg_add_quantizer, which then rounds this endpoint; NULL: the library's own. */
QG_NODISCARD QG_API qg_status qg_model_set_quantizer(qg_model *m, qg_tqc *t,
                                                     const char *quantizer);
/* t and its group become OVERLAPPED: the dominator's group quantizes instead. */
QG_NODISCARD QG_API qg_status qg_model_join(qg_model *m, qg_tqc *t, qg_tqc *dominator);
/* t and its group quantize with the scale of lender's group (PASSIVE), which stays as
 * it is even where t's range is wider.  QG_ESTATE when t needs another number of
 * scales. */
QG_NODISCARD QG_API qg_status qg_model_lend(qg_model *m, qg_tqc *t, qg_tqc *lender);
/* t leaves its group (INITIAL). */
QG_NODISCARD QG_API qg_status qg_model_detach(qg_model *m, qg_tqc *t);

#ifdef __cplusplus
}
#endif

#endif

/* records.h -- records of endpoints from a text. */
#ifndef QG_TESTS_SUPPORT_RECORDS_H
#define QG_TESTS_SUPPORT_RECORDS_H

#include "tests/support/test.h"

#include "engine/quant/tqc.h"

/* 8 bits, signed for 's', else unsigned. */
static inline qg_scheme scheme_of(char type)
{
    const bool is_signed = type == 's';
    return (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                        .bits = 8,
                        .axis = -1,
                        .qmin = is_signed ? -128 : 0,
                        .qmax = is_signed ? 127 : 255 };
}

/* Active records "node.slot=type scale/offset", each without a blank: "y.o0=u0.5/3". */
static inline void add_records(qg_ctx *ctx, qg_quant *q, const char *records)
{
    char name[8], side, type;
    unsigned slot;
    int32_t offset;
    float scale;
    for (const char *at = records; (at = strchr(at, '.')); at++) {
        const char *begin = at;
        while (begin > records && begin[-1] != ' ')
            begin--;
        if (sscanf(begin, "%7[^.].%c%u=%c%f/%d", name, &side, &slot, &type, &scale,
                   &offset) != 6)
            continue; /* the point of a number */
        qg_scheme s = scheme_of(type);
        qg_tqc *t;
        assert_ok(ctx, qg_quant_add(q, qg_graph_node(q->graph, name), side == 'o', slot,
                                    &s, &t));
        assert_ok(ctx, qg_tqc_set_param(q, t, 1, &scale, &offset));
        assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
        at = strchr(at, '/');
    }
}

#endif

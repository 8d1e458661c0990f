/* records.h -- records of endpoints from a text. */
#ifndef QG_TESTS_SUPPORT_RECORDS_H
#define QG_TESTS_SUPPORT_RECORDS_H

#include "tests/support/test.h"

#include "engine/quant/tqc.h"

/* u, s: of 8 bits; n: -127 to 127; a digit: signed, of so many bits; l, i: signed, of
 * 16 and 32 bits; f: floats E4M3. */
static inline qg_scheme scheme_of(char type)
{
    const uint16_t kind = type == 'f' ? QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2
                                      : QG_LINEAR | QG_ASYMMETRIC;
    const int bits = type >= '2' && type <= '9' ? type - '0'
                     : type == 'l'              ? 16
                     : type == 'i'              ? 32
                                                : 8;
    const int64_t half = type == 'f' ? 448 : (int64_t)1 << (bits - 1);
    return (qg_scheme){ .policy = QG_PER_TENSOR | kind,
                        .bits = (uint8_t)bits,
                        .exponent_bits = type == 'f' ? 4 : 0,
                        .axis = -1,
                        .qmin = type == 'u'   ? 0
                                : type == 'n' ? -127
                                              : -half,
                        .qmax = type == 'u'   ? 255
                                : type == 'f' ? 448
                                              : half - 1 };
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

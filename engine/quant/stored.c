#include "engine/quant/stored.h"

#include "engine/quant/tqc.h"

const qg_tqc *qg_stored_tqc(const qg_value *v)
{
    const qg_tqc *t = qg_producer_tqc(v);
    for (size_t i = 0; !t && v->constant && i < v->use.n; i++)
        t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
    return t && qg_tqc_is_on_grid(qg_tqc_root(t)) ? t : NULL;
}

unsigned qg_stored_bits(const qg_value *v)
{
    const qg_tqc *t = qg_stored_tqc(v);
    return t ? qg_tqc_root(t)->scheme.bits : 32;
}

double qg_constant_plain_bits(const qg_value *v)
{
    size_t bytes = 0;
    if (!v->constant || v->use.n == 0 ||
        !qg_dtype_bytes(v->constant->dtype, (uint64_t)qg_tensor_count(v->constant),
                        &bytes))
        return 0;
    return (double)bytes * 8;
}

double qg_constant_bits(const qg_value *v)
{
    double plain = qg_constant_plain_bits(v);
    return plain > 0 && v->constant->dtype == QG_F32 ? plain / 32 * qg_stored_bits(v)
                                                     : plain;
}

#include "engine/quant/observer_setting.h"

#include <assert.h>

static const struct {
    const char *name;
    qg_param_limit limit;
} param_row[] = {
#define X(id, key, whole, least, most, meaning)                                        \
    [QG_PARAM_##id] = {                                                                \
        key, {whole, least, most}                                                    \
    },
    QG_OBSERVER_PARAM_MAP(X)
#undef X
};

const char *qg_observer_param_name(qg_observer_param p)
{
    assert((unsigned)p < QG_NOBSERVER_PARAM);
    return param_row[p].name;
}

qg_param_limit qg_observer_param_limit(qg_observer_param p)
{
    assert((unsigned)p < QG_NOBSERVER_PARAM);
    return param_row[p].limit;
}

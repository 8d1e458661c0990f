#include "engine/core/status.h"

/* By number of the status, from the map that makes the enum: they cannot disagree. */
static const struct {
    const char *name, *text;
} info[QG_NSTATUS] = {
#define X(id, text) { "QG_" #id, text },
    QG_STATUS_MAP(X)
#undef X
};

const char *qg_status_name(qg_status s)
{
    return (unsigned)s < QG_NSTATUS ? info[s].name : "QG_?";
}

const char *qg_status_text(qg_status s)
{
    return (unsigned)s < QG_NSTATUS ? info[s].text : "unknown status";
}

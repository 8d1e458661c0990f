#include "engine/snapshot/model.h"
#include "engine/report/report.h"
#include "engine/ir/text.h"
#include "engine/quant/tqc_text.h"

static qg_status fill(qg_model *m, qg_report *r)
{
    char *text, *tqcs = NULL;
    size_t size;
    QG_TRY(qg_text_print(m->graph, NULL, r->arena, &text, &size));
    QG_TRY(qg_report_add(r, "graph", qg_cell_page(text)));
    if (!m->quant)
        return QG_OK;
    QG_TRY(qg_quant_text(m->quant, QG_TQC_FULL, r->arena, &tqcs));
    return qg_report_add(r, "tqcs", qg_cell_page(tqcs));
}

qg_status qg_model_dump(qg_model *m, qg_report **report)
{
    qg_report *r;
    QG_TRY(qg_model_expect_finished(m, "dump"));
    QG_TRY(qg_report_new(m->ctx, "dump", &r));
    return qg_report_end(fill(m, r), r, report);
}

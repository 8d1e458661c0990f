#include "passes/util_attr.h"

#include <assert.h>
#include <string.h>

qg_status qg_node_set_attrs(qg_graph *g, qg_node *n, const qg_attr *a, size_t count)
{
    assert(!n->dead);
    size_t total = n->n_attr;
    qg_attr *list = QG_NEWN(g->arena, n->n_attr + count, qg_attr);
    if (!list)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++)
        list[i] = n->attr[i];
    for (size_t k = 0; k < count; k++) {
        size_t at = 0;
        while (at < total && strcmp(list[at].name, a[k].name) != 0)
            at++;
        total += at == total;
        list[at] = a[k];
    }
    n->attr = list;
    n->n_attr = total;
    return qg_node_prepare(g, n);
}

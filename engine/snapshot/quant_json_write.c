#include "engine/core/json.h"

#include <assert.h>

#include "engine/quant/quantizer.h"
#include "engine/snapshot/quant_json.h"

static void put_text(qg_json_writer *w, const char *key, const char *text)
{
    if (text)
        qg_json_put_text(w, key, text);
    else
        qg_json_put_null(w, key);
}

/* --- manifest --- */

/* One line each: diffs of two snapshots stay readable. */
static void put_origin(qg_json_writer *w, const char *kind, const qg_origin *o)
{
    qg_json_put_object_line(w, NULL);
    qg_json_put_text(w, "kind", kind);
    qg_json_put_text(w, "id", o->id);
    put_text(w, "file", o->file);
    qg_json_put_int(w, "line", o->line);
    put_text(w, "why", o->why);
    put_text(w, "source", o->source);
    qg_json_put_end(w);
}

/* The statements with their reasons, so that a snapshot explains itself without the
 * files. */
static void put_backend(qg_json_writer *w, const qg_backend *b, const qg_manifest *m)
{
    qg_json_put_object(w, "backend");
    qg_json_put_text(w, "name", b->name);
    put_text(w, "sha256", m->backend_sha256);
    put_text(w, "profile", b->profile);
    put_text(w, "pipeline", b->pipeline);
    if (b->placement)
        qg_json_put_text(w, "placement", b->placement);
    qg_json_put_array(w, "rules");
    for (size_t i = 0; i < b->rule.n; i++)
        put_origin(w, "rule", &b->rule.at[i].origin);
    for (size_t i = 0; i < b->fusion.n; i++)
        put_origin(w, "fusion", &b->fusion.at[i].origin);
    for (size_t i = 0; i < b->sharing.n; i++)
        put_origin(w, "sharing", &b->sharing.at[i].origin);
    qg_json_put_end(w);
    qg_json_put_end(w);
}

/* The options of the run, never its time: equal runs write equal bytes. */
static void put_manifest(qg_json_writer *w, const qg_quant *q, const qg_manifest *m)
{
    qg_json_put_object(w, "manifest");
    put_text(w, "tool", m->tool);
    put_text(w, "kernels", m->kernels);
    qg_json_put_object(w, "model");
    put_text(w, "file", m->model_file);
    put_text(w, "sha256", m->model_sha256);
    put_text(w, "written_sha256", m->snapshot_sha256);
    qg_json_put_end(w);
    qg_json_put_object(w, "data");
    put_text(w, "source", m->data);
    put_text(w, "sha256", m->data_sha256);
    qg_json_put_int(w, "samples", (int64_t)m->samples);
    qg_json_put_end(w);
    put_backend(w, q->backend, m);
    qg_json_put_object(w, "options");
    for (size_t i = 0; i < m->n_option; i++)
        put_text(w, m->option[2 * i], m->option[2 * i + 1]);
    qg_json_put_end(w);
    if (m->not_finite)
        put_text(w, "not_finite", m->not_finite);
    qg_json_put_end(w);
}

/* --- nodes --- */

/* "" stands for an absent slot, as in ONNX. */
static void put_values(qg_json_writer *w, const char *key, qg_value *const *v, size_t n)
{
    qg_json_put_array(w, key);
    for (size_t i = 0; i < n; i++)
        qg_json_put_text(w, NULL, v[i] ? v[i]->name : "");
    qg_json_put_end(w);
}

/* null where an endpoint is not quantized. */
static void put_ids(qg_json_writer *w, const char *key, qg_tqc *const *t, size_t n)
{
    qg_json_put_array(w, key);
    for (size_t i = 0; i < n; i++)
        if (t && t[i])
            qg_json_put_int(w, NULL, t[i]->id);
        else
            qg_json_put_null(w, NULL);
    qg_json_put_end(w);
}

static void put_node(qg_json_writer *w, const qg_node *n)
{
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "name", n->name);
    if (n->file_unnamed)
        qg_json_put_int(w, "unnamed", n->file_unnamed);
    qg_json_put_text(w, "op", n->op->name);
    qg_json_put_text(w, "platform", qg_platform_name(n->platform));
    put_text(w, "reason", n->reason);
    put_values(w, "inputs", n->in, n->n_in);
    put_values(w, "outputs", n->out, n->n_out);
    put_ids(w, "in", n->tin, n->n_in);
    put_ids(w, "out", n->tout, n->n_out);
    qg_json_put_end(w);
}

/* --- floats --- */

static void put_interface(qg_json_writer *w, const char *key, qg_value *const *v,
                          size_t n)
{
    qg_json_put_object_line(w, key);
    for (size_t i = 0; i < n; i++)
        if (v[i]->file_dtype != QG_NODTYPE)
            qg_json_put_text(w, v[i]->name, qg_dtype_name(v[i]->file_dtype));
    qg_json_put_end(w);
}

/* The marks of ir/float_type.h; absent for a file of float32. */
static void put_floats(qg_json_writer *w, const qg_graph *g)
{
    if (g->float_type == QG_NODTYPE)
        return;
    qg_json_put_object(w, "floats");
    qg_json_put_text(w, "type", qg_dtype_name(g->float_type));
    put_interface(w, "inputs", g->input.at, g->input.n);
    put_interface(w, "outputs", g->output.at, g->output.n);
    qg_json_put_array(w, "float32_nodes");
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->stays_float32)
            qg_json_put_text(w, NULL, g->node.at[i]->name);
    qg_json_put_end(w);
    qg_json_put_end(w);
}

/* --- TQCs --- */

/* Policy words in the order of their bits. */
static void put_scheme(qg_json_writer *w, const qg_scheme *s)
{
    qg_json_put_array(w, "policy");
    for (uint32_t bit = 1; bit <= s->policy; bit <<= 1)
        if (s->policy & bit)
            qg_json_put_text(w, NULL, qg_policy_bit_name(bit));
    qg_json_put_end(w);
    qg_json_put_int(w, "bits", s->bits);
    qg_json_put_int(w, "exponent_bits", s->exponent_bits);
    qg_json_put_array(w, "range");
    qg_json_put_int(w, NULL, s->qmin);
    qg_json_put_int(w, NULL, s->qmax);
    qg_json_put_end(w);
    qg_json_put_text(w, "rounding", qg_rounding_name((qg_rounding)s->rounding));
    if (s->axis >= 0)
        qg_json_put_int(w, "axis", s->axis);
    else
        qg_json_put_null(w, "axis");
    if (s->block > 0)
        qg_json_put_int(w, "block", s->block);
    else
        qg_json_put_null(w, "block");
}

/* A file without the key keeps NaN. */
static void put_nan(qg_json_writer *w, const qg_scheme *s)
{
    if (s->nan != QG_NAN_KEEP)
        qg_json_put_text(w, "nan", qg_nan_name((qg_nan)s->nan));
}

static void put_variant(qg_json_writer *w, const qg_scheme *s)
{
    if (!s->variant)
        return;
    qg_json_put_array(w, "variant");
    for (uint32_t bit = 1; bit <= s->variant; bit <<= 1)
        if (s->variant & bit)
            qg_json_put_text(w, NULL, qg_float_variant_name(bit));
    qg_json_put_end(w);
}

/* Settings that are at their default are left out. */
static void put_observer(qg_json_writer *w, const qg_observer_setting *o)
{
    put_text(w, "observer", o->name);
    bool any = false;
    for (int p = 0; p < QG_NOBSERVER_PARAM; p++) {
        if (o->value[p] == 0)
            continue;
        if (!any)
            qg_json_put_object(w, "observer_parameters");
        any = true;
        qg_json_put_f64(w, qg_observer_param_name((qg_observer_param)p), o->value[p]);
    }
    if (any)
        qg_json_put_end(w);
}

/* As seen through the root, so that readers need not follow dominators. */
static void put_param(qg_json_writer *w, qg_qparam p)
{
    if (p.n == 0) {
        qg_json_put_null(w, "scale");
        qg_json_put_null(w, "offset");
        return;
    }
    qg_json_put_array(w, "scale");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_f32(w, NULL, p.scale[i]);
    qg_json_put_end(w);
    qg_json_put_array(w, "offset");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_int(w, NULL, p.offset ? p.offset[i] : 0);
    qg_json_put_end(w);
}

/* How a scale of its own came from others; absent for most, and for a bias that a
 * policy has made float before it was derived. */
static void put_derivation(qg_json_writer *w, const qg_tqc *t)
{
    if (t->derive == QG_DERIVE_NONE || !t->lender[0])
        return;
    qg_json_put_array(w, "derived_from");
    for (int i = 0; i < 2; i++)
        if (t->lender[i])
            qg_json_put_int(w, NULL, t->lender[i]->id);
    qg_json_put_end(w);
}

/* Fields in the order of configs/schema/quant.json. */
static void put_tqc(qg_json_writer *w, const qg_quant *q, const qg_tqc *t)
{
    assert(t->node);
    char slot[QG_SLOT_TEXT];
    const qg_value *v = qg_tqc_value(t);
    const qg_rule *rule =
        t->rule < q->backend->rule.n ? &q->backend->rule.at[t->rule] : NULL;
    qg_json_put_object(w, NULL);
    qg_json_put_int(w, "id", t->id);
    qg_json_put_text(w, "node", t->node->name);
    qg_json_put_text(w, "slot", qg_slot_text(t->is_output, t->slot, slot));
    qg_json_put_text(w, "value", v ? v->name : "");
    qg_json_put_text(w, "state", qg_tqc_state_name(t->state));
    if (t->state == QG_TQC_DEACTIVATED || t->state == QG_TQC_DEQUANTIZED)
        qg_json_put_text(w, "returns_to", qg_tqc_state_name(t->saved));
    put_scheme(w, &t->scheme);
    put_variant(w, &t->scheme);
    put_nan(w, &t->scheme);
    put_observer(w, &t->observer);
    if (t->quantizer)
        qg_json_put_text(w, "quantizer", t->quantizer->name);
    put_param(w, qg_tqc_param(t));
    qg_json_put_int(w, "dominator", qg_tqc_root(t)->id);
    put_derivation(w, t);
    qg_json_put_text(w, "visibility", qg_visibility_name(t->visibility));
    put_text(w, "rule", rule ? rule->origin.id : NULL);
    put_text(w, "why", rule ? rule->origin.why : NULL);
    qg_json_put_end(w);
}

/* --- groups, journal, coverage --- */

/* Lists per root: journal entries that moved endpoints into its group, and its members
 * by id.  Links are positions plus one, 0 ends a list. */
typedef struct chain {
    uint32_t *first, *last; /* [TQCs], by root */
    uint32_t *next;         /* [items] */
} chain;

typedef struct groups {
    chain move, member;
} groups;

static qg_status chain_make(const qg_quant *q, size_t items, chain *c)
{
    c->first = QG_NEWN(q->arena, q->tqc.n, uint32_t);
    c->last = QG_NEWN(q->arena, q->tqc.n, uint32_t);
    c->next = QG_NEWN(q->arena, items, uint32_t);
    return c->first && c->last && c->next ? QG_OK : qg_nomem(q->ctx);
}

/* Appends to the list of a root; linear in all, whatever the groups. */
static void chain_add(chain *c, uint32_t root, uint32_t item)
{
    assert(c->first && c->last && c->next);
    if (c->last[root])
        c->next[c->last[root] - 1] = item + 1;
    else
        c->first[root] = item + 1;
    c->last[root] = item + 1;
}

/* A move is listed under the group in which the endpoint has ended. */
static qg_status find_groups(const qg_quant *q, groups *g)
{
    QG_TRY(chain_make(q, q->journal.n, &g->move));
    QG_TRY(chain_make(q, q->tqc.n, &g->member));
    for (uint32_t i = 0; i < q->journal.n; i++) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (strcmp(e->field, "dominator") == 0)
            chain_add(&g->move, qg_tqc_root(q->tqc.at[e->tqc])->id, i);
    }
    for (uint32_t i = 0; i < q->tqc.n; i++)
        chain_add(&g->member, qg_tqc_root(q->tqc.at[i])->id, i);
    return QG_OK;
}

/* Neighbouring moves by the same author are listed once. */
static void put_group(qg_json_writer *w, const qg_quant *q, const groups *g,
                      uint32_t root)
{
    const char *by = NULL;
    qg_json_put_object(w, NULL);
    qg_json_put_int(w, "root", root);
    qg_json_put_array(w, "members");
    for (uint32_t i = g->member.first[root]; i; i = g->member.next[i - 1])
        qg_json_put_int(w, NULL, i - 1);
    qg_json_put_end(w);
    qg_json_put_array(w, "made_by");
    for (uint32_t i = g->move.first[root]; i; i = g->move.next[i - 1]) {
        const qg_journal_entry *e = &q->journal.at[i - 1];
        if (!by || strcmp(by, e->by) != 0)
            qg_json_put_text(w, NULL, e->by);
        by = e->by;
    }
    qg_json_put_end(w);
    qg_json_put_end(w);
}

/* Groups of one are none. */
static qg_status put_groups(qg_json_writer *w, const qg_quant *q)
{
    groups g;
    QG_TRY(find_groups(q, &g));
    qg_json_put_array(w, "groups");
    for (uint32_t i = 0; i < q->tqc.n; i++)
        if (qg_tqc_root(q->tqc.at[i])->id == i && g.member.first[i] != g.member.last[i])
            put_group(w, q, &g, i);
    qg_json_put_end(w);
    return QG_OK;
}

/* One line per change, in the order in which they happened. */
static void put_journal(qg_json_writer *w, const qg_quant *q)
{
    qg_json_put_array(w, "journal");
    for (size_t i = 0; i < q->journal.n; i++) {
        const qg_journal_entry *e = &q->journal.at[i];
        qg_json_put_object_line(w, NULL);
        qg_json_put_int(w, "seq", e->seq);
        qg_json_put_int(w, "tqc", e->tqc);
        qg_json_put_text(w, "field", e->field);
        put_text(w, "old", e->old_value);
        put_text(w, "new", e->new_value);
        put_text(w, "by", e->by);
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

static void put_coverage(qg_json_writer *w, const qg_snapshot_info *info)
{
    qg_json_put_array(w, "coverage");
    for (size_t i = 0; i < info->n_coverage; i++) {
        const qg_coverage_row *c = &info->coverage[i];
        qg_json_put_object(w, NULL);
        qg_json_put_text(w, "pass", c->pass);
        qg_json_put_text(w, "pattern", c->pattern);
        qg_json_put_int(w, "matched", c->matched);
        qg_json_put_array(w, "near_misses");
        for (size_t k = 0; k < c->n_miss; k++) {
            qg_json_put_object_line(w, NULL);
            qg_json_put_text(w, "node", c->miss[k].node);
            qg_json_put_text(w, "condition", c->miss[k].condition);
            qg_json_put_end(w);
        }
        qg_json_put_end(w);
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

/* The writer is large, so it lies in the arena and not on the stack. */
qg_status qg_quant_json_write(const qg_quant *q, const qg_snapshot_info *info,
                              FILE *stream)
{
    assert(q->backend);
    qg_json_writer *w = QG_NEW(q->arena, qg_json_writer);
    if (!w)
        return qg_nomem(q->ctx);
    qg_json_begin(w, q->ctx, stream);
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "format", "quantgraph/1");
    put_manifest(w, q, &info->manifest);
    qg_json_put_array(w, "nodes");
    for (size_t i = 0; i < q->graph->node.n; i++)
        put_node(w, q->graph->node.at[i]);
    qg_json_put_end(w);
    put_floats(w, q->graph);
    qg_json_put_array(w, "tqcs");
    for (size_t i = 0; i < q->tqc.n; i++)
        put_tqc(w, q, q->tqc.at[i]);
    qg_json_put_end(w);
    QG_TRY(put_groups(w, q));
    put_journal(w, q);
    put_coverage(w, info);
    qg_json_put_end(w);
    return qg_json_done(w);
}

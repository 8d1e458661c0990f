/* config_dump.h -- what readers of configuration files made of a file, member by
 * member, told to the replay (outcome.h). */
#ifndef QG_TESTS_FUZZ_CONFIG_DUMP_H
#define QG_TESTS_FUZZ_CONFIG_DUMP_H

#include <stdarg.h>

#include "engine/config/backend_yaml.h"
#include "engine/config/lint_yaml.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/config/profile_yaml.h"
#include "engine/quant/quantizer.h"
#include "tests/fuzz/outcome.h"

static inline void QG_PRINTF(1, 2) say(const char *format, ...)
{
    char text[1024];
    va_list words;
    va_start(words, format);
    int n = vsnprintf(text, sizeof text, format, words);
    va_end(words);
    outcome_put(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static inline const char *or_none(const char *text) { return text ? text : "none"; }

static inline void say_words(const char *what, const char *const *word, size_t n)
{
    say(" %s", what);
    for (size_t i = 0; i < n; i++)
        say(" '%s'", word[i]);
}

static inline void say_origin(const qg_origin *o)
{
    say("\n%s %s:%u why %s source %s\n", o->id, o->file, (unsigned)o->line,
        or_none(o->why), or_none(o->source));
}

static inline void say_node_match(const qg_node_match *m)
{
    say_words("op", m->op, m->n_op);
    say_words("node", m->node, m->n_node);
    say(" traits %x from %s to %s layer %d", (unsigned)m->traits, or_none(m->from),
        or_none(m->to), (int)m->layer);
    for (size_t i = 0; i < m->n_attr; i++) {
        const qg_attr_condition *c = &m->attr[i];
        say(" %s:", c->name);
        for (size_t k = 0; k < c->n; k++)
            say(" %d %s %.17g", c->choice[k].absent, or_none(c->choice[k].text),
                c->choice[k].number);
    }
}

static inline void say_endpoint_match(const qg_endpoint_match *m)
{
    for (size_t i = 0; i < m->n_slot; i++)
        say(" slot %d %d %d", m->slot[i].is_output, m->slot[i].role,
            (int)m->slot[i].index);
    say(" constant %d input %d output %d", (int)m->constant, (int)m->graph_input,
        (int)m->graph_output);
    say_words("value", m->value, m->n_value);
    for (size_t i = 0; i < m->n_dim; i++)
        say(" %lld", (long long)m->dim[i]);
}

static inline void say_set(const qg_set *s)
{
    const qg_scheme *c = &s->scheme;
    say(" set %x: policy %x rounding %u bits %u exponent %u variant %u axis %d block %d"
        " nan %u [%lld, %lld] observer %s",
        (unsigned)s->fields, c->policy, c->rounding, c->bits, c->exponent_bits,
        c->variant, c->axis, (int)c->block, c->nan, (long long)c->qmin,
        (long long)c->qmax, or_none(s->observer.name));
    for (size_t i = 0; i < QG_NOBSERVER_PARAM; i++)
        say(" %.17g", s->observer.value[i]);
    say(" state %d visibility %d derive %d platform %d quantizer %s\n", (int)s->state,
        (int)s->visibility, (int)s->derive, (int)s->platform,
        s->quantizer ? s->quantizer->name : "none");
}

static inline void say_pattern(const qg_pattern *p)
{
    for (size_t i = 0; i < p->n_node; i++) {
        const qg_pattern_node *n = &p->node[i];
        say(" node %s traits %x any order %d", n->name, (unsigned)n->traits,
            n->commutative);
        say_words("op", n->op, n->n_op);
        for (size_t k = 0; k < n->n_in; k++)
            say(" in %u %d %d", (unsigned)n->in[k].from, (int)n->in[k].from_slot,
                (int)n->in[k].slot);
        if (n->ud)
            say_node_match(n->ud);
    }
    for (size_t i = 0; i < p->n_where; i++) {
        const qg_pattern_where *w = &p->where[i];
        say(" where %u %d %u %d %d %lld", (unsigned)w->node, w->is_output,
            (unsigned)w->slot, w->role, (int)w->test, (long long)w->wanted);
    }
    for (size_t i = 0; i < p->n_same_platform; i++)
        for (size_t k = 0; k < p->same_platform[i].n; k++)
            say(" same %zu %u", i, (unsigned)p->same_platform[i].node[k]);
}

static inline void say_end(const qg_pattern_end *e)
{
    say(" %d.%d.%u", (int)e->node, e->is_output, (unsigned)e->slot);
}

static inline void say_fusion(const qg_fusion *f)
{
    say_origin(&f->origin);
    say_pattern(&f->pattern);
    for (size_t i = 0; i < f->n_silence; i++) {
        say(" silence");
        say_end(&f->silence[i].silent);
        say_end(&f->silence[i].leader);
    }
    say_end(&f->leader);
    say(" after passive %d once %d float", f->after_passive, f->once);
    for (size_t i = 0; i < f->n_in_float; i++)
        say(" %u", (unsigned)f->in_float[i]);
}

static inline void say_settings(const qg_pass_settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        say(" %s.%s = %.17g %s:%u", s->at[i].pass, s->at[i].param, s->at[i].value,
            s->at[i].file, (unsigned)s->at[i].line);
}

static inline void say_rules(const qg_backend *b)
{
    for (size_t i = 0; i < b->rule.n; i++) {
        const qg_rule *r = &b->rule.at[i];
        say_origin(&r->origin);
        say_node_match(&r->node);
        say_endpoint_match(&r->at);
        say_set(&r->set);
        say("override %d", r->is_override);
    }
}

static inline void say_backend(const qg_backend *b)
{
    say("%s, %s, %s, %s, %s, %s", b->name, or_none(b->title), or_none(b->profile),
        or_none(b->pipeline), or_none(b->dispatch), or_none(b->placement));
    say_set(&b->defaults);
    say_words("quantizes", b->quantizes.at, b->quantizes.n);
    say_words("passive", b->passive.at, b->passive.n);
    say_words("file", b->file.at, b->file.n);
    say_words("after", b->after.at, b->after.n);
    say_rules(b);
    for (size_t i = 0; i < b->fusion.n; i++)
        say_fusion(&b->fusion.at[i]);
    for (size_t i = 0; i < b->sharing.n; i++) {
        const qg_sharing *s = &b->sharing.at[i];
        say_origin(&s->origin);
        say_node_match(&s->node);
        say(" align %d %d %d", (int)s->align, s->spread, s->override);
    }
    say_settings(&b->setting);
    for (size_t i = 0; i < b->with_quirk.n; i++)
        say(" quirk %llx %d", (unsigned long long)b->with_quirk.at[i].quirk,
            b->with_quirk.at[i].done);
    say(" quirks %llx\n", (unsigned long long)b->quirks);
}

static inline void say_row(const qg_profile_row *r)
{
    say("\n%s %s:%u why %s source %s uses %llx types %llx %llx %llx %d", r->id, r->file,
        (unsigned)r->line, r->why, r->source, (unsigned long long)r->uses,
        (unsigned long long)r->x, (unsigned long long)r->w, (unsigned long long)r->y,
        r->like_x);
    say(" ratio [%.9g, %.9g) centred %d limits %x form %d products %d tail %d clamp %d",
        (double)r->ratio_low, (double)r->ratio_high, r->w_centred, (unsigned)r->limits,
        (int)r->form, (int)r->products, (int)r->tail, (int)r->clamp);
    say(" rounding %d nan %d scheme %u factor %u zero %u symmetric %d accumulator %u",
        (int)r->rounding, (int)r->nan, r->requant.scheme, r->requant.factor,
        r->requant.zero, r->requant.symmetric, r->requant.accumulator);
    say(" left %u %u output %d %.9g %d snapshot %.9g", r->left8, r->left16,
        r->has_output, (double)r->output_scale, (int)r->output_zero,
        (double)r->snapshot_scale);
}

static inline void say_profile(const qg_profile *p)
{
    say("%s, %s, %s, parent %s documented %d islands %d copies %d codes %llx %llx %d",
        p->name, p->title, p->file, or_none(p->parent), p->documented, p->islands,
        p->copies, (unsigned long long)p->activation, (unsigned long long)p->weight,
        (int)p->bias);
    for (size_t i = 0; i < p->n_row; i++)
        say_row(&p->row[i]);
}

static inline void say_conditions(const qg_conditions *c)
{
    for (size_t i = 0; i < c->n; i++) {
        say(" when %s%s %.17g", c->at[i].is_not ? "not " : "",
            qg_predicate_name(c->at[i].predicate), c->at[i].number);
        say_words("", c->at[i].word, c->at[i].n_word);
    }
}

static inline void say_target(const qg_lint_target *t)
{
    say("%s, %s, %s, floating %d", t->name, t->title, t->file, t->floating_codes);
    for (size_t i = 0; i < t->kernel.n; i++) {
        const qg_lint_kernel *k = &t->kernel.at[i];
        say_origin(&k->origin);
        say_node_match(&k->node);
        say(" as %d carries %d", (int)k->as, (int)k->carries);
        say_conditions(&k->when);
    }
    for (size_t i = 0; i < t->rule.n; i++) {
        const qg_lint_rule *r = &t->rule.at[i];
        say_origin(&r->origin);
        say_node_match(&r->node);
        say_endpoint_match(&r->at);
        say(" endpoint %d level %d remedy %s refused %s fix %s %s %d %d",
            r->at_endpoint, (int)r->level, or_none(r->remedy), or_none(r->refused_by),
            or_none(r->fix_slot), or_none(r->fix), r->fix_floats, r->fix_removes);
        say_conditions(&r->when);
    }
}

static inline void say_pipeline(const qg_pipeline *p)
{
    say("%s, %s, %s", p->name, or_none(p->why), p->file);
    for (size_t i = 0; i < p->n; i++)
        say(" %s:%u", p->pass[i], (unsigned)p->line[i]);
    say_settings(&p->setting);
}

#endif

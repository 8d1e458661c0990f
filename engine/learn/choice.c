#include "engine/learn/choice.h"

#include <string.h>

typedef struct chooser {
    qg_ctx *ctx;
    const qg_tune_options *o;
    qg_tune_choice *out;
} chooser;

enum { NAMES = 128 };

/* Appends to the names so far. */
static void list(char names[NAMES], const char *name)
{
    (void)strncat(names, *names ? ", " : "", NAMES - strlen(names) - 1);
    (void)strncat(names, name, NAMES - strlen(names) - 1);
}

/* The message lists the names that exist. */
static qg_status unknown(const chooser *c, const char *what, const char *name,
                         const char *(*nth)(size_t i))
{
    char all[NAMES] = "";
    for (size_t i = 0; nth(i); i++)
        list(all, nth(i));
    return qg_fail(c->ctx, QG_ECONFIG, "tune: %s '%s': expected one of %s", what, name,
                   all);
}

static const char *method_name(size_t i) { return qg_tune_methods[i].name; }

static const char *gradient_name(size_t i)
{
    return i < QG_NSTEP_GRADIENT ? qg_step_gradient_name((qg_step_gradient)i) : NULL;
}

static qg_status choose_method(chooser *c)
{
    const char *name = c->o->method ? c->o->method : qg_tune_methods[0].name;
    c->out->method = qg_tune_method_named(name);
    return c->out->method ? QG_OK : unknown(c, "method", name, method_name);
}

static qg_status choose_gradient(chooser *c)
{
    char all[NAMES] = "";
    const char *name = c->o->gradient ? c->o->gradient : gradient_name(0);
    const int g = qg_step_gradient_named(name);
    if (g < 0)
        return unknown(c, "gradient", name, gradient_name);
    c->out->gradient = (qg_step_gradient)g;
    if (c->out->method->steps || g == QG_STEP_GRADIENT_USUAL)
        return QG_OK;
    for (const qg_tune_method *m = qg_tune_methods; m->name; m++)
        if (m->steps)
            list(all, m->name);
    return qg_fail(c->ctx, QG_ECONFIG,
                   "tune: gradient %s: method %s learns no step sizes, expected no "
                   "gradient, or a method that does: %s",
                   name, c->out->method->name, all);
}

static const char *loss_name(size_t i)
{
    return i < QG_NLOSS ? qg_loss_name((qg_loss_kind)i) : NULL;
}

static qg_status choose_loss(chooser *c)
{
    const char *name = c->o->loss ? c->o->loss : loss_name(0);
    const int k = qg_loss_named(name);
    if (k < 0)
        return unknown(c, "loss", name, loss_name);
    c->out->loss.kind = (qg_loss_kind)k;
    if (k == QG_LOSS_LABELS && !c->o->labels)
        return qg_fail(c->ctx, QG_ECONFIG,
                       "tune: loss labels: there are none, expected --labels FILE with "
                       "the class of each sample");
    if (k != QG_LOSS_LABELS && c->o->labels)
        return qg_fail(c->ctx, QG_ECONFIG,
                       "tune: labels '%s': loss %s does not read them, expected "
                       "--loss labels",
                       c->o->labels, name);
    return QG_OK;
}

static const char *optimizer_name(size_t i) { return qg_optimizers[i].name; }

static qg_status choose_optimizer(chooser *c)
{
    const char *name = c->o->optimizer ? c->o->optimizer : qg_optimizers[0].name;
    for (const qg_optimizer *o = qg_optimizers; o->name; o++)
        if (strcmp(o->name, name) == 0) {
            c->out->optimizer = o;
            return QG_OK;
        }
    return unknown(c, "optimizer", name, optimizer_name);
}

qg_status qg_tune_choose(qg_ctx *ctx, const qg_tune_options *o, qg_tune_choice *out)
{
    chooser c = { ctx, o, out };
    *out = (qg_tune_choice){ 0 };
    QG_TRY(choose_method(&c));
    QG_TRY(choose_gradient(&c));
    QG_TRY(choose_optimizer(&c));
    out->usual_rate = out->method->rate * out->optimizer->rate_factor;
    out->rate = o->rate > 0 ? o->rate : out->usual_rate;
    return choose_loss(&c);
}

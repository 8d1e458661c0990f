#include "engine/ir/op.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const trait_names[QG_NTRAIT] = {
#define X(id, text, meaning) text,
    QG_TRAIT_MAP(X)
#undef X
};

/* The three ways to write the default domain become one. */
static const char *plain_domain(const char *domain)
{
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

/* A linear scan over a few hundred rows; the first letter is compared first because
 * that alone settles most of them. */
const qg_op *qg_op_find(const qg_registry *r, const char *domain, const char *name,
                        int64_t opset)
{
    const qg_op *best = NULL;
    domain = plain_domain(domain);
    for (size_t f = 0; r && f < r->n_family; f++)
        for (const qg_op *op = r->family[f]; op->name; op++)
            if (op->name[0] == name[0] && strcmp(op->name, name) == 0 &&
                op->since <= opset && (!op->until || opset <= op->until) &&
                (!best || op->since > best->since) &&
                strcmp(plain_domain(op->domain), domain) == 0)
                best = op;
    return best;
}

const qg_registry *qg_registry_with(const qg_registry *base, const qg_op *family,
                                    qg_arena *a)
{
    qg_registry *r = QG_NEW(a, qg_registry);
    const qg_op **all = QG_NEWN(a, base->n_family + 1, const qg_op *);
    if (!r || !all)
        return NULL;
    memcpy(all, base->family, base->n_family * sizeof *all);
    all[base->n_family] = family;
    *r = *base;
    r->family = all;
    r->n_family++;
    return r;
}

const qg_op *qg_op_newest(const qg_registry *r, const char *name)
{
    const qg_op *best = NULL;
    for (size_t f = 0; r && f < r->n_family; f++)
        for (const qg_op *op = r->family[f]; op->name; op++)
            if (op->name[0] == name[0] && strcmp(op->name, name) == 0 &&
                (!best || op->since > best->since))
                best = op;
    return best;
}

const qg_op *qg_op_next(const qg_registry *r, const char *name, int64_t since)
{
    const qg_op *best = NULL;
    for (size_t f = 0; r && f < r->n_family; f++)
        for (const qg_op *op = r->family[f]; op->name; op++)
            if (strcmp(op->name, name) == 0 && op->since > since &&
                !*plain_domain(op->domain) && (!best || op->since < best->since))
                best = op;
    return best;
}

const qg_upgrade *qg_op_upgrade(const qg_registry *r, const qg_op *op)
{
    const qg_upgrade *u = r ? r->upgrade : NULL;
    for (; u && u->name; u++)
        if (u->since == op->since && strcmp(u->name, op->name) == 0)
            return u;
    return NULL;
}

/* Stops adding where a longest entry would no longer fit, so text is never cut
 * inside one. */
const char *qg_op_versions(const qg_registry *r, const char *domain, const char *name,
                           char text[QG_OP_VERSIONS])
{
    enum { ROOM = QG_OP_VERSIONS, LONGEST = 64 };
    size_t n = 0;
    text[0] = '\0';
    domain = plain_domain(domain);
    for (size_t f = 0; r && f < r->n_family; f++)
        for (const qg_op *op = r->family[f]; op->name; op++) {
            if (strcmp(op->name, name) != 0 || n + LONGEST > ROOM ||
                strcmp(plain_domain(op->domain), domain) != 0)
                continue;
            n += (size_t)snprintf(text + n, ROOM - n, "%s %d",
                                  n ? "," : ", known for opset", op->since);
            n += op->until ? (size_t)snprintf(text + n, ROOM - n, " to %d", op->until)
                           : (size_t)snprintf(text + n, ROOM - n, " and later");
        }
    return text;
}

bool qg_op_alike(const qg_op *a, const qg_op *b)
{
    return a->since == b->since && strcmp(a->name, b->name) == 0 &&
           strcmp(plain_domain(a->domain), plain_domain(b->domain)) == 0;
}

bool qg_op_is_named(const qg_op *op, const char *const *names, size_t n)
{
    assert(names || n == 0);
    if (op->opaque) /* of that name, but another operator */
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], op->name) == 0)
            return true;
    return false;
}

/* An empty string means the same as "d": every slot holds data. */
static const char *roles_of(const char *letters)
{
    return letters && *letters ? letters : "d";
}

/* The last letter repeats for the slots after it. */
static char role(const char *letters, size_t slot)
{
    size_t n = strlen(roles_of(letters));
    return roles_of(letters)[slot < n ? slot : n - 1];
}

char qg_op_in_role(const qg_op *op, size_t slot) { return role(op->in_roles, slot); }
char qg_op_out_role(const qg_op *op, size_t slot) { return role(op->out_roles, slot); }

char qg_op_code_slot(const qg_op_codes *c, size_t slot)
{
    size_t n = strlen(c->slots);
    assert(n >= 3);
    return slot < n ? c->slots[slot] : c->slots[n - 3 + (slot - n) % 3];
}

int qg_op_slot_of(const qg_op *op, char letter)
{
    const char *letters = roles_of(op->in_roles), *at = strchr(letters, letter);
    return at && *at ? (int)(at - letters) : -1;
}

const char *qg_trait_name(unsigned bit)
{
    assert(bit < QG_NTRAIT);
    return trait_names[bit];
}

uint32_t qg_trait_named(const char *text)
{
    for (unsigned bit = 0; bit < QG_NTRAIT; bit++)
        if (strcmp(trait_names[bit], text) == 0)
            return 1u << bit;
    return 0;
}

/* search.h -- the state of a search for bits: which groups of values there are, what
 * each choice of bits costs and harms, and the policies that were tried.
 *
 *     items.c      groups of values for which one choice is made
 *     uniform.c    the network with all groups at one choice; what they do not take
 *     harm.c       the error of each group at each choice, measured
 *     gradient.c   the same, estimated from gradients
 *     context.c    the error of a policy with one item changed
 *     select.c     policies for a budget: exact, greedy, and as `--propose` finds them
 *     trial.c      a policy as a patch; its error, measured
 *     judge.c      whether a policy keeps a budget of noise on samples not seen
 *     search.c     all together
 *     answer.c     the report
 *
 * Item     values that get the same bits: those of one group (fusion, passive nodes,
 *          sharing), and those of groups that quantize the same value, since a patch
 *          selects by value
 * Cost     elements times bits, in bits; 32 for float; infinite where the choice does
 *          not suit the item, as the harm is
 * Harm     noise-to-signal ratio of the worst output with only this item quantized;
 *          the sum over items predicts that of the network
 *
 * Everything is in `arena`. */
#ifndef QG_ENGINE_SEARCH_SEARCH_H
#define QG_ENGINE_SEARCH_SEARCH_H

#include "engine/analysis/again.h"
#include "engine/search/knapsack.h"

enum qg_budget_kind { QG_BUDGET_NSR, QG_BUDGET_BITS, QG_BUDGET_SIZE };

typedef struct qg_item {
    const qg_value *first; /* of its values, by id; its name stands for the item */
    bool constant;         /* all of its values are weights */
    size_t values;
    double elements; /* of the values that are rounded */
    double stored;   /* of constants that are stored in the item's bits */
    double now;      /* bits of all elements in the snapshot */
    bool blind;      /* gradients do not reach all of its values */
} qg_item;

/* A constant whose scale is derived from items (a bias): it becomes float, of 32 bits,
 * where one of them does. */
typedef struct qg_derived {
    uint32_t item[2]; /* QG_NONE: of none */
    double more;      /* bits of all elements, in float */
} qg_derived;

/* An error that is NaN or infinite counts as this one, larger than any other; sums of
 * it are finite. */
#define QG_SEARCH_NO_NUMBER 1e30
double qg_search_number(double error);

/* In place of an option, in a trial: the item is as in the snapshot. */
enum { QG_SEARCH_KEPT = 255 };

/* A policy: an option for every item. */
typedef struct qg_tried {
    uint8_t *option;  /* [items] */
    double predicted; /* sum of harms; negative: not known */
    double cost;      /* bits of all items */
    double nsr;       /* measured on the samples that choose */
    double judged;    /* on those that judge; negative: not yet */
    double deployed;  /* quantized from all samples, and on all; negative: not yet */
    double crossed;   /* cross-validation, see judge.c; negative: not yet */
    double doubt[2];  /* standard errors of `judged` and `deployed` */
} qg_tried;

/* QG_SNAPSHOT: every item QG_SEARCH_KEPT. */
enum qg_method { QG_EXACT, QG_GREEDY, QG_BY_HARM, QG_REFINED, QG_SNAPSHOT, QG_NMETHOD };

typedef struct qg_finding {
    const qg_tried *policy; /* NULL: the method meets no budget */
    double bound;           /* of the exact solver: of what it minimizes */
    double value;           /* what the method reached there */
} qg_finding;

typedef struct qg_searching {
    qg_model *m;
    const qg_search_options *o;
    qg_arena *arena;
    qg_split split;
    qg_again again;
    const qg_metric *metric; /* nsr */
    enum qg_budget_kind kind;
    double budget;                      /* nsr, bits per element, or bytes */
    unsigned bits[QG_KNAPSACK_OPTIONS]; /* rising; 0: float, the last */
    size_t options;
    qg_model uniform[QG_KNAPSACK_OPTIONS]; /* all items at one choice; not for float */
    bool by_gradient;
    QG_VEC(qg_item) item;
    QG_VEC(qg_derived) derived;
    const qg_tensor *type; /* [values] sizes are those of the first sample that chooses,
                            * where they follow from the shapes of the inputs */
    qg_measured at;        /* for messages: each trial has its own */
    size_t unsized;        /* values that have no size: the data decide it */
    const qg_value *unsized_first;
    uint32_t *item_of;  /* [values] QG_NONE: none */
    uint8_t *stuck;     /* [values] 1: keeps its bits in trials */
    size_t left;        /* groups that keep the bits of the snapshot */
    uint16_t *without;  /* [values] by an item's first: bit o, option o is left out */
    size_t unfit;       /* options of items that are left out */
    size_t unfit_first; /* the first item at the choice in question, and why */
    const char *unfit_why;
    double elements;                /* of all items */
    double fixed;                   /* bytes of constants that are no item */
    double *cost, *harm, *gradient; /* [items][options]; gradient NaN: none */
    double *context;                /* for QG_REFINED; see select.c */
    double *space;                  /* likewise: what a budget of bytes counts */
    QG_VEC(const qg_tried *) tried;
    qg_finding found[QG_NMETHOD];
    enum qg_method winner;
    const char *result[QG_NMETHOD]; /* "chosen", or why the method's policy is not */
    double reserve; /* the share of the budget kept for samples that are not seen */
    QG_VEC(const qg_tried *) front;
    double rest;     /* harm of what is no item, when groups are left; else 0 */
    qg_tried before; /* the network quantized as the snapshot */
    size_t repaired; /* items set to their best choice by the samples that judge */
} qg_searching;

/* items.c.  QG_EDATA when there is nothing to choose.  Again after `stuck` changed. */
QG_NODISCARD qg_status qg_search_items(qg_searching *s);
/* Its bits are free to choose: not derived from other scales, of an integer grid. */
bool qg_search_is_free(const qg_tqc *t);
/* The item of an endpoint of a trial, or QG_NONE. */
uint32_t qg_search_item_of(const qg_searching *s, const qg_tqc *t);

/* uniform.c: fills uniform; groups whose bits do not change are left, choices that do
 * not suit a group left out, with a warning. */
QG_NODISCARD qg_status qg_search_uniform(qg_searching *s);
/* Option o suits item i; the last one that does. */
bool qg_search_takes(const qg_searching *s, size_t i, size_t o);
size_t qg_search_most(const qg_searching *s, size_t i);

/* harm.c: fills uniform, harm and rest. */
QG_NODISCARD qg_status qg_search_harm(qg_searching *s);

/* context.c: error [items][options] of the policy with item i at option o, on the
 * feed. */
QG_NODISCARD qg_status qg_search_context(qg_searching *s, const uint8_t *option,
                                         const qg_feed *feed, double *error);

/* gradient.c: fills gradient, from uniform, and item.blind. */
QG_NODISCARD qg_status qg_search_gradients(qg_searching *s);

/* select.c.  limit: bits in all, or, with the kind NSR, predicted nsr. */
QG_NODISCARD qg_status qg_search_select(qg_searching *s, enum qg_method how,
                                        double limit, qg_selection *out, bool *found);
/* Sets `context`: errors around a policy instead of those of single items.  They add up
 * to the error of the policy. */
QG_NODISCARD qg_status qg_search_set_context(qg_searching *s, const qg_tried *around);

/* climb.c: policies for a budget of bits or bytes, changed one item at a time; the
 * policy found with the least noise. */
QG_NODISCARD qg_status qg_search_climb(qg_searching *s);
const qg_tried *qg_search_least_noise(const qg_searching *s);
/* trial.c: what such a budget counts, in bits, [items * options]; the bits that it
 * leaves to the items. */
const double *qg_search_counted(const qg_searching *s);
double qg_search_allowed(const qg_searching *s);

/* trial.c: the patch of a policy; its trial, made once. */
QG_NODISCARD qg_status qg_search_patch(const qg_searching *s, const uint8_t *option,
                                       const char *comment, FILE *f);
QG_NODISCARD qg_status qg_search_try(qg_searching *s, const uint8_t *option, bool judge,
                                     const qg_tried **out);
/* The trial of it, or NULL. */
qg_tried *qg_search_known(const qg_searching *s, const uint8_t *option);
/* The graph is the caller's to drop, also on failure.  QG_ESTATE when an endpoint of an
 * item does not have what was chosen. */
QG_NODISCARD qg_status qg_search_quantize(qg_searching *s, const uint8_t *option,
                                          qg_model *trial);
/* The same without this check, and the next endpoint from *at on that has something
 * else; NULL: none. */
QG_NODISCARD qg_status qg_search_quantize_any(qg_searching *s, const uint8_t *option,
                                              qg_model *trial);
const qg_tqc *qg_search_wrong(const qg_searching *s, const uint8_t *option,
                              const qg_model *trial, size_t *at);
double qg_search_mean_bits(const qg_searching *s, double cost);
/* Bytes of all constants, rounded up. */
size_t qg_search_size(const qg_searching *s, const uint8_t *option);
/* The option of an item, or the one with the bits that it keeps; s->options: none. */
size_t qg_search_option(const qg_searching *s, const uint8_t *option, size_t i);
/* Bits of an item of a policy. */
double qg_search_cost(const qg_searching *s, const uint8_t *option, size_t i);

/* judge.c.  Fills judged and deployed, and, of a policy that keeps a budget of noise as
 * far as these tell, crossed. */
QG_NODISCARD qg_status qg_search_judge(qg_searching *s, const qg_tried **t);
/* It keeps the budget of noise in every way it was measured, with a margin. */
bool qg_search_is_good(const qg_searching *s, const qg_tried *t);
/* The first way in which it does not, as text in the arena; NULL: out of memory, or it
 * does. */
const char *qg_search_excess(const qg_searching *s, const qg_tried *t);
/* Warnings: few samples judge; the snapshot, as `trial` has it again, gives NaN; single
 * samples decide the scales of a policy, or it gives NaN. */
void qg_search_warn_few(const qg_searching *s);
QG_NODISCARD qg_status qg_search_warn_not_finite(qg_searching *s, qg_model *trial);
QG_NODISCARD qg_status qg_search_warn_deployed(qg_searching *s, const qg_tried *t);

/* answer.c */
const char *qg_search_choice_text(const qg_searching *s, size_t o);
QG_NODISCARD qg_status qg_search_report(const qg_searching *s, qg_report *r);

#endif

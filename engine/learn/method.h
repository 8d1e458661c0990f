/* method.h -- the methods of qg tune: what each learns, and its defaults. */
#ifndef QG_ENGINE_LEARN_METHOD_H
#define QG_ENGINE_LEARN_METHOD_H

#include <stdbool.h>
#include <stddef.h>

/* A row of method.def. */
typedef struct qg_tune_method {
    const char *name;
    size_t depth; /* most compute nodes of a block */
    /* What is learned.  rounding replaces weights where a weight has a linear grid; the
     * scale of that grid is then fixed, whatever `steps` is. */
    bool weights, biases, steps, rounding;
    bool weighs;         /* outputs of a block by their importance (importance.h) */
    size_t iterations;   /* default of --steps */
    double rate;         /* default of --lr, in the units of parameters.h */
    double pace;         /* the rate of step sizes of activations over `rate` */
    const char *summary; /* for `qg list` and errors */
} qg_tune_method;

/* The row of that name; NULL: none.  List: rows, ending with name NULL. */
const qg_tune_method *qg_tune_method_named(const char *name);
extern const qg_tune_method qg_tune_methods[];

#endif

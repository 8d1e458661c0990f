/* dumps.h -- what devices write (docs/trace.md): a trace of the engine, read into
 * memory, changed as devices differ, and written as raw files or .npy files.
 *
 *     dump_read(ctx, &d, "trace");
 *     dump_change(&d, DUMP_UNSIGNED, &rng);
 *     dump_write(&d, "device", true);
 *     dump_free(&d); */
#ifndef QG_TESTS_SUPPORT_DUMPS_H
#define QG_TESTS_SUPPORT_DUMPS_H

#include "engine/core/rng.h"
#include "engine/device/trace.h"

enum { DUMP_NAME = 96 };

typedef struct dump_array {
    char value[DUMP_NAME], endpoint[DUMP_NAME]; /* "": not given */
    qg_tensor type;                             /* of all samples; no data */
    double *x;                                  /* [n] */
    size_t n;
    bool grid;
    double scale;
    int32_t zero;
    char layout[DUMP_NAME]; /* "": none, else the text of its keys */
} dump_array;

typedef struct dump {
    dump_array *at; /* [n] */
    size_t n;
} dump;

/* How devices differ from the engine. */
typedef enum dump_form {
    DUMP_AS_IT_IS,
    DUMP_FLOATS,      /* real values without grids */
    DUMP_RENAMED,     /* names of its own, channels last without a word */
    DUMP_SOME,        /* about half of the values, and a wrong element */
    DUMP_UNSIGNED,    /* codes of uint8 instead of int8 */
    DUMP_WRONG_GRID,  /* a grid that is not that of the codes */
    DUMP_BARE,        /* codes without grids */
    DUMP_ONE_HIGHER,  /* some elements of one value are a step higher */
    DUMP_CLAMPED,     /* one value uses fewer codes */
    DUMP_CHANNELS,    /* channels last, and says so */
    DUMP_WIDE,        /* types of more bits */
    DUMP_SHIFTED,     /* one value has another zero point, codes and grid */
    DUMP_SWAPPED,     /* two values of one shape have each other's elements */
    DUMP_NOTHING,     /* one value is constant */
    DUMP_FLOAT_GRIDS, /* real values with grids */
    DUMP_NOISE,       /* real values near those of codes, without grids */
    DUMP_FEW,         /* a sample less */
    DUMP_OTHER_DIMS,  /* of one value */
    DUMP_ENDPOINTS,   /* other names, endpoints alone */
    DUMP_NFORM
} dump_form;

/* The engine's trace in the folder; aborts when it cannot be read. */
void dump_read(qg_ctx *ctx, dump *d, const char *folder);
void dump_change(dump *d, dump_form form, qg_rng *rng);
/* Into a new folder; raw: .bin files instead of .npy ones. */
void dump_write(const dump *d, const char *folder, bool raw);
void dump_free(dump *d);

#endif

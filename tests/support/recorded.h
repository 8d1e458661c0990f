/* recorded.h -- what the engine gives for many cases is what a file has recorded: a
 * line with the name of the case and a digest of all that was put into it.
 *
 *     int main(int argc, char **argv)
 *     {
 *         recorded r;
 *         recorded_begin(&r, argc, argv, "tests/data/recorded/x.txt");
 *         for (unsigned seed = 1; seed <= 100; seed++)
 *             if (recorded_case(&r, "graph %u", seed))
 *                 recorded_print(&r, "...", ...);
 *         return recorded_end(&r);
 *     }
 *
 *     test_x                     compares; names the first cases that differ
 *     test_x --show NAME         prints what one case puts, to be compared with the
 *                                program before a change
 *     test_x --write             records what the program gives now
 *
 * A difference is a fault, or a change that is meant.  What is put must be the same on
 * every machine: reference kernels, no times, no paths that differ between runs. */
#ifndef QG_TESTS_SUPPORT_RECORDED_H
#define QG_TESTS_SUPPORT_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/api/qg.h"
#include "engine/core/alloc.h"
#include "engine/core/hash.h"
#include "tests/support/scratch.h"

/* Element k of a table, begun again behind its end: what a case meets. */
#define COUNT(x)       (sizeof(x) / sizeof *(x))
#define TURN(table, k) ((table)[(k) % COUNT(table)])

enum { RECORDED_NAME = 128, RECORDED_HIDDEN = 4 };

typedef struct recorded {
    const char *path, *show;
    bool write, open;   /* a case is being put together */
    bool part;          /* of the recorded cases are tried */
    char *text, **line; /* [n_line] of the file */
    size_t n_line, n_case, n_other;
    FILE *out; /* with write */
    char name[RECORDED_NAME];
    qg_hash hash;
    const char *hidden[RECORDED_HIDDEN]; /* texts that are put as "@" */
    size_t n_hidden;
    const qg_alloc *alloc;     /* of contexts; NULL: that of libc */
    uint64_t mixed;            /* changes with all that is put: see recorded_try */
    bool refused, silent;      /* a call had no memory; and no message */
    char root[4096];           /* the checkout, hidden */
    char folder[SCRATCH_PATH]; /* the working one, or "" */
} recorded;

/* Ends the program when the words are wrong or the file cannot be read. */
void recorded_begin(recorded *r, int argc, char **argv, const char *path);
/* A private folder in memory becomes the working one until recorded_end: paths in
 * messages are the same everywhere. */
void recorded_enter(recorded *r);
/* A context whose warnings are put; closed by the caller before recorded_end. */
qg_ctx *recorded_context(recorded *r);
/* From now on this text (a folder, a version) is put as "@"; kept, not copied. */
void recorded_hide(recorded *r, const char *text);

/* Calls work(r, ud), which opens and closes a context for some cases.  In the suites
 * test_places_recorded_X, which are these suites with places.c, it is called once for
 * each request for memory that fails, and its cases are not compared with the file:
 * work must give the same as without one, or a status QG_ENOMEM with a message. */
typedef void recorded_work(recorded *r, void *ud);
void recorded_try(recorded *r, recorded_work *work, void *ud);
/* In those suites alone. */
void recorded_places(recorded *r, recorded_work *work, void *ud) __attribute__((weak));
/* While no request is to fail: what the tests do for themselves. */
void recorded_pause(bool pause);

/* 1, or 4 in a build with sanitizers, unless QG_ALL is set or cases are written: one of
 * as many networks is enough there. */
unsigned recorded_step(recorded *r);
/* Ten cases differ already: no further one is wanted. */
bool recorded_is_full(const recorded *r);

/* Ends the case before and begins one.  False: it is not wanted, since another one is
 * shown or ten differ; what is put is then ignored. */
bool recorded_case(recorded *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the case; what is put until the next one is ignored. */
void recorded_rest(recorded *r);
/* The exit status of the program; every line of the file must have been a case. */
int recorded_end(recorded *r);

/* --- what is put into the case --- */

void recorded_put(recorded *r, const void *bytes, size_t size);
void recorded_print(recorded *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Status, and the message of a failure. */
void recorded_status(recorded *r, qg_ctx *ctx, const char *what, qg_status s);
/* The JSON of a report without its times, and its pages if it has none; frees it.  NULL
 * is fine. */
void recorded_report(recorded *r, qg_report *report);
/* A file, or all files of a folder in the order of their names, and removes it: names
 * and contents; of quant.json without the manifest.  Nothing there is put as "none". */
void recorded_files(recorded *r, const char *path);

#endif

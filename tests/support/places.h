/* places.h -- failures by place: each call that may ask for memory, or reach a file,
 * fails once, whatever the number of requests of a run.
 *
 * The functions of arenas, those of libc that reach files and some of libraries are
 * replaced by the linker (PLACES in tests/CMakeLists.txt), so a request within a block
 * that an arena has already can fail, too.  A request is refused when the chain of
 * calls above it contains a call that no refused request had: n calls in the code take
 * at most n runs, and each of them sees a failure come back. */
#ifndef QG_TESTS_SUPPORT_PLACES_H
#define QG_TESTS_SUPPORT_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/alloc.h"
#include "engine/core/status.h"

/* What fails: requests for memory, which must give QG_ENOMEM; operations on files,
 * which must give any other failure. */
typedef enum place_kind { PLACE_MEMORY, PLACE_FILE } place_kind;

typedef struct place_flow {
    const char *name; /* in messages */
    /* Does something with memory of `alloc` and returns it all; *result: a value that
     * depends on what was computed.  A failure leaves a message. */
    qg_status (*run)(qg_alloc alloc, const struct place_flow *f, uint64_t *result);
    const void *ud; /* of run */
} place_flow;

/* Runs f until each place that it reaches has failed once in this process.  A run must
 * fail as above, or succeed with the result of a run without a failure; it must return
 * all memory and all file descriptors.  Fails the test otherwise.  Returns the number
 * of refused requests. */
long every_place_fails(place_kind kind, const place_flow *f);

/* While nothing is to fail: preparations within a flow. */
void places_pause(bool pause);

/* From now on one place of so many fails. */
void places_sample(long stride);

/* *result changes with the text. */
void place_mix(uint64_t *result, const char *text);

#endif

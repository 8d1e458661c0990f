/* The verbs for quantizing, files, lint and runs on the networks of the .qgt cases and
 * random ones: as in tests/data/recorded/session.txt. */
#include <string.h>

#include "tests/support/networks.h"
#include "tests/support/session_trial.h"

static qg_status open_text(qg_ctx *ctx, const void *source, qg_model **m)
{
    const network *n = source;
    return qg_model_open_text(ctx, n->text, strlen(n->text), m);
}

int main(int argc, char **argv)
{
    recorded r;
    networks all = { 0 };
    recorded_begin(&r, argc, argv, "tests/data/recorded/session.txt");
    networks_of_folder(&all, "tests/passes");
    networks_of_folder(&all, "tests/lower");
    networks_random(&all, 1, 60);
    recorded_enter(&r);
    for (unsigned k = 0, step = recorded_step(&r); k < all.n && !recorded_is_full(&r);
         k += step)
        session_trial(&r, all.at[k].name, k,
                      TRIAL_QUANTIZE | TRIAL_RECORDS | TRIAL_LINT | TRIAL_FORMATS |
                          TRIAL_RUNS | (k % 3 ? 0 : TRIAL_STATISTICS) |
                          (k % 2 ? 0 : TRIAL_CHANGES),
                      open_text, &all.at[k]);
    networks_free(&all);
    return recorded_end(&r);
}

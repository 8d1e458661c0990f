/* verdict.h -- whether what was learned is better, on the samples that judge.
 *
 *     d[i]    ln((before[i] + m) / (after[i] + m)), m a hundredth of mean(before)
 *     better  mean(after) < mean(before), and mean(d) exceeds its standard error,
 *             sd(d) / sqrt(n), times t(n), such that a change that means nothing
 *             exceeds it with a given probability (Student 1908)
 *
 *     probability  t of 2, 4, 8, 16 samples, many  used for
 *     16 %         1.84, 1.20, 1.08, 1.03, 1       a block of free weights
 *     5 %          6.31, 2.35, 1.89, 1.76, 1.64    the network; classes
 *
 * Logarithms, since losses of single samples differ by orders of magnitude; m bounds
 * what samples with next to no loss contribute.  A gain that so few samples could well
 * show by chance is none: where a network has next to nothing to gain, the start is
 * kept.  A single sample, which says nothing about chance, must gain a fifth, and that
 * of a network a third.
 *
 * Network  the quarter of the samples that judges is often too few to show even a gain
 *          of a half: the others have a part in d, though not in mean(after) <
 *          mean(before).  They taught, so that their d counts a third, which is about
 *          what other samples keep of such a gain.  1,185 results on random networks
 *          with 16 or 32 samples: by the judges alone 687 are written, 18 of them with
 *          more noise on 300 samples not used; by all 831 and 30.  A holdout judges
 *          alone.
 *
 * Example  8 samples lose 5 % on average, with a standard deviation of 20 %: the
 *          standard error is 7 %, times 1.08: not better.  With 15 % on average they
 *          are better as losses of a block and as those of the network */
#ifndef QG_ENGINE_LEARN_VERDICT_H
#define QG_ENGINE_LEARN_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

/* That a change which means nothing passes. */
enum qg_chance { QG_ONE_IN_SIX, QG_ONE_IN_TWENTY };

double qg_mean_of(const double *x, size_t n); /* of none: 0 */

/* n losses of the same samples, before and after.  A loss that is not finite is worse
 * than any other. */
bool qg_is_better(const double *before, const double *after, size_t n,
                  enum qg_chance chance);

/* Cross entropies or divergences of a classifier: better as losses of a network are, or
 * with before[i] - after[i] as d[i].  Samples that are classified with certainty have
 * losses of next to nothing, whose logarithms say nothing of the network; where one
 * sample has most of the loss, differences do not. */
bool qg_is_classifier_better(const double *before, const double *after, size_t n);

/* Losses of a network: the first `judges` of n samples judge, the others taught.
 * false with no judge. */
bool qg_is_network_better(const double *before, const double *after, size_t judges,
                          size_t n);

enum { QG_TUNE_LEAST = 4, QG_TUNE_ENOUGH = 16 /* fewer: a warning */ };

/* The samples of a tune.  With a holdout the last ones judge and the others teach;
 * without, every fourth judges and does not teach, and with fewer than QG_TUNE_LEAST
 * all do both.  Mixtures have the numbers behind them, and teach. */
typedef struct qg_tune_samples {
    size_t n;       /* all that were given */
    size_t holdout; /* of them, from the holdout */
    size_t mixed;   /* mixtures (mixup.h), beside n */
} qg_tune_samples;

bool qg_judges(qg_tune_samples s, size_t i);
bool qg_teaches(qg_tune_samples s, size_t i);
size_t qg_n_judges(qg_tune_samples s);
size_t qg_n_samples(qg_tune_samples s); /* with mixtures */

#endif

/* suggest.h -- 'did you mean': the nearest known word to an unknown one.
 *
 *     qg_suggest s = qg_suggest_for(word);
 *     for (size_t i = 0; i < n; i++)
 *         qg_suggest_try(&s, known[i]);
 *     char near[QG_SUGGEST_TEXT];
 *     qg_fail(ctx, QG_ECONFIG, "unknown slot '%s'%s", word, qg_suggest_text(&s,
 *     near)); */
#ifndef QG_ENGINE_CORE_SUGGEST_H
#define QG_ENGINE_CORE_SUGGEST_H

#include <stddef.h>

/* Collects candidates and keeps the nearest: the first with the fewest edits.  Edits
 * are insertions, deletions, substitutions and swaps of neighbours (optimal string
 * alignment); case counts half, rounded down over the word. */
typedef struct qg_suggest {
    const char *word; /* as the user wrote it; borrowed */
    const char *best; /* NULL: nothing near enough so far */
    const char *also; /* another with the same parts; NULL: none */
    size_t edits;     /* of best, doubled */
} qg_suggest;

/* Nothing found yet.  Candidates must outlive the suggestion: `best` borrows one. */
qg_suggest qg_suggest_for(const char *word);

/* Near enough is at most a third of the longer word, and at least one edit.  Words of
 * more than 63 bytes are never near.
 * Words of under six letters may differ by one edit.  A word of three letters or more
 * is nearest, but for its case, to those that continue after it with '-' (half an
 * edit), then to those with its parts between '-', in their order (one edit): vnni to
 * onnxruntime-x86-vnni; of these, two are named.  It is just near enough to words that
 * it continues.  Cost: the product of the lengths. */
void qg_suggest_try(qg_suggest *s, const char *candidate);

/* ", did you mean 'slot'", or "" when nothing is near.
 * Returns `text`, so that it can be an argument of a format; 160 holds the longest
 * candidates with the words around. */
enum { QG_SUGGEST_TEXT = 160 };
const char *qg_suggest_text(const qg_suggest *s, char text[QG_SUGGEST_TEXT]);

#endif

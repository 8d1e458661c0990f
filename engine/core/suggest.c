#include "engine/core/suggest.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Costs of candidates that contain the word, doubled. */
enum { LONGEST = 63, BEGUN = 1, PARTS = 2 };

qg_suggest qg_suggest_for(const char *word) { return (qg_suggest){ .word = word }; }

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Twice the cost of writing b for a. */
static size_t cost(char a, char b) { return a == b ? 0 : lower(a) == lower(b) ? 1 : 2; }

/* Optimal string alignment distance, doubled; three rows of the usual table. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[3][LONGEST + 1];
    assert(na <= LONGEST && nb <= LONGEST);
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = 2 * j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3], *up = row[(i + 2) % 3], *upper = row[(i + 1) % 3];
        now[0] = 2 * i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(up[j - 1] + cost(a[i - 1], b[j - 1]),
                           least(up[j], now[j - 1]) + 2);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], upper[j - 2] + 2);
        }
    }
    return row[na % 3][nb];
}

/* A bit for each letter of the text, whatever its case. */
static uint64_t letters(const char *text)
{
    uint64_t set = 0;
    for (; *text; text++)
        set |= UINT64_C(1) << (lower(*text) & 63);
    return set;
}

/* Not more than the doubled distance: an edit brings one letter and takes one. */
static size_t least_distance(const char *a, size_t na, const char *b, size_t nb)
{
    uint64_t x = letters(a), y = letters(b);
    size_t more = (size_t)__builtin_popcountll(x & ~y);
    size_t less = (size_t)__builtin_popcountll(y & ~x);
    size_t gap = na > nb ? na - nb : nb - na;
    size_t edits = more > less ? more : less;
    return 2 * (edits > gap ? edits : gap);
}

/* Whatever the case of its n letters; b may be shorter. */
static bool same(const char *a, const char *b, size_t n)
{
    size_t i = 0;
    while (i < n && b[i] && lower(a[i]) == lower(b[i]))
        i++;
    return i == n;
}

/* "trt" or "TRT" of "trt-int8": a word that was not finished, or one that goes on. */
static bool begins(const char *word, size_t n, const char *candidate)
{
    return n >= 3 && same(word, candidate, n) && candidate[n] == '-';
}

static size_t part(const char *at) { return strcspn(at, "-"); }

/* "x86" of "arm-x86-vnni", "arm-vnni" too: the parts between '-' in their order. */
static bool has_parts(const char *candidate, const char *word, size_t n)
{
    size_t k = part(word);
    for (; n >= 3 && *candidate; candidate += candidate[part(candidate)] == '-') {
        size_t m = part(candidate);
        if (m == k && same(word, candidate, k)) {
            word += k;
            if (!*word)
                return true;
            word++;
            k = part(word);
        }
        candidate += m;
    }
    return false;
}

/* A candidate that contains the word as it is goes before every one with an edit, best
 * where it begins with the word; one with which the word begins is just near enough. */
static size_t of_parts(const qg_suggest *s, size_t n, const char *candidate, size_t m,
                       size_t limit)
{
    if (begins(s->word, n, candidate))
        return strncmp(s->word, candidate, n) == 0 ? BEGUN : PARTS;
    if (has_parts(candidate, s->word, n))
        return PARTS;
    return begins(candidate, m, s->word) ? limit : SIZE_MAX;
}

/* Everything is doubled so that a difference of case, half an edit, stays an
 * integer. Linear in the product of the lengths: LONGEST bounds both. */
void qg_suggest_try(qg_suggest *s, const char *candidate)
{
    assert(s->word);
    size_t n = strlen(s->word), m = strlen(candidate);
    if (n > LONGEST || m > LONGEST)
        return;
    size_t longer = n > m ? n : m, limit = 2 * (longer < 6 ? 1 : longer / 3);
    size_t edits = least_distance(s->word, n, candidate, m);
    if (edits <= limit)
        edits = distance(s->word, n, candidate, m);
    size_t parts = of_parts(s, n, candidate, m, limit);
    edits = least(edits, parts);
    if (edits <= limit && (!s->best || edits < s->edits)) {
        s->best = candidate;
        s->also = NULL;
        s->edits = edits;
    } else if (parts == PARTS && edits == s->edits && !s->also) {
        s->also = candidate;
    }
}

const char *qg_suggest_text(const qg_suggest *s, char text[QG_SUGGEST_TEXT])
{
    text[0] = 0;
    if (s->best)
        (void)snprintf(text, QG_SUGGEST_TEXT, ", did you mean '%s'%s%s%s", s->best,
                       s->also ? " or '" : "", s->also ? s->also : "",
                       s->also ? "'" : "");
    return text;
}

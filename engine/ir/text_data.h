/* text_data.h -- elements and words of the text form; only for text_*.c.
 *
 * An element is handled as its stored bits, so that every value of every dtype
 * survives: values without a decimal form (NaN, a bool of 2) are written 0x... */
#ifndef QG_ENGINE_IR_TEXT_DATA_H
#define QG_ENGINE_IR_TEXT_DATA_H

#include "engine/core/num.h"
#include "engine/ir/text.h"

/* Element i, zero-extended; packed types are unpacked. */
uint64_t qg_text_bits(const qg_tensor *t, int64_t i); /* plain tensors */
void qg_text_set_bits(qg_tensor *t, int64_t i, uint64_t bits);

/* One element as text, and back; false when s is not an element of this dtype. */
void qg_text_of_bits(qg_dtype dtype, uint64_t bits, char text[QG_NUM_TEXT]);
bool qg_text_to_bits(qg_dtype dtype, const char *s, size_t n, uint64_t *bits);

/* The nearest element of the dtype (integers: rounded down, cut to their bits). */
uint64_t qg_text_convert(qg_dtype dtype, double x);

/* Letters, digits, '_', '/', '.' and ':', no digit in front, no
 * keyword of the form. */
bool qg_text_is_word(const char *s);   /* reads back as a name without quotes */
qg_dtype qg_text_dtype(const char *s); /* full and short names */

/* The key of a tensor in the table, entered when new: "0123456789abcdef".
 * QG_ENOMEM. */
QG_NODISCARD qg_status qg_text_table_put(qg_text_table *table, const qg_tensor *t,
                                         char key[17]);
const qg_tensor *qg_text_table_find(const qg_text_table *table, const char *key);

extern const char *const qg_text_platforms[4]; /* by enum qg_platform; [0] NULL */

#endif

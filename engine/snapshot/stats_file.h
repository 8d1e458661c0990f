/* stats_file.h -- statistics as bytes: a `.qgs` file, and the messages between
 * processes.
 *
 * The bytes are a function of the statistics: equal statistics, equal bytes, whatever
 * the number of workers, shards or machines that collected them.
 *
 *     8 bytes   "qgstats\n"
 *     4 bytes   version, 1; 2 where there are infinities
 *     text x 6  model, graph, preprocessing, kernels, data and its SHA-256
 *     number    ranges of samples; for each: gap from the end of the one before, length
 *     number    values; for each: name, axis + 1, channels, holds, and then
 *                 per channel  low, high, count, zeros, nans, infinities,
 *                              [version 2, where these are not 0] +inf among them,
 *                              [MOMENTS] sum, square, [BY_CHANNEL] bins
 *                 per part     low, high, count, zeros, [HISTOGRAM] bins
 *                 [HISTOGRAM]  bins
 *     64 bytes  SHA-256 of everything before, in hex digits
 *
 *     number    LEB128: 7 bits per byte, low ones first, no byte more than needed
 *     text      its length, its bytes
 *     low, high float32, little-endian; +inf and -inf: nothing was seen
 *     sum       first word that is not 0, number of words, words of 8 bytes,
 *               little-endian (number/wide.h); leading words that only repeat the sign
 *               are left out
 *     bins      exponent above the least one, first bin, number of bins, counts
 *
 * Size     about 14 KB per value after some samples, at most 100 KB: counts of far
 *          bins take a byte or two.
 * Speed    a network of 127 values is read in 5 ms; the checksum is most of it.
 * Merging  is done on the statistics read: files cannot be joined as bytes.
 *
 * The first bytes of a file about samples 0 to 31 of a network with one value:
 *
 *     71 67 73 74 61 74 73 0a  01 00 00 00     magic, version
 *     40 '42c9e4...'                           64 digits: the model
 *     10 '6ebd07874d4b989c'                    16 digits: the graph
 *     40 ...  0c 'oneDNN 2.6.3'                preprocessing, kernels
 *     08 'calib.npy'  40 ...                   data, its SHA-256
 *     01 00 20                                 one range: gap 0, length 32
 *     01 05 'input' 02 03 03                   one value: axis 1, 3 channels, both
 *
 * Reading trusts nothing: every count is checked against the bytes present, and the
 * parts must be consistent with each other. */
#ifndef QG_ENGINE_SNAPSHOT_STATS_FILE_H
#define QG_ENGINE_SNAPSHOT_STATS_FILE_H

#include "engine/calib/stats.h"

/* The bytes, in `a`; QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_stats_encode(qg_ctx *ctx, const qg_stats *s, qg_arena *a,
                                       unsigned char **bytes, size_t *size);

/* New statistics, the caller's to free.  QG_EPARSE gives `name`, the byte offset and
 * the fault. */
typedef struct qg_stats_source {
    const char *name; /* for messages: a path */
    const unsigned char *bytes;
    size_t size;
} qg_stats_source;
QG_NODISCARD qg_status qg_stats_decode(qg_ctx *ctx, const qg_stats_source *from,
                                       qg_stats **out);

/* Whether the bytes begin as those of a statistics file of any version. */
bool qg_stats_is_file(const unsigned char *bytes, size_t size);

/* The same as a file, complete or not at all. */
QG_NODISCARD qg_status qg_stats_save(qg_ctx *ctx, const qg_stats *s, const char *path);
QG_NODISCARD qg_status qg_stats_load(qg_ctx *ctx, const char *path, qg_stats **out);

#endif

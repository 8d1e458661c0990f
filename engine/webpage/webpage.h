/* webpage.h -- the report page: everything known about a snapshot, as one report, and
 * that report in a single HTML file.
 *
 * The page holds the JSON of the report, byte for byte but for '<', and a script that
 * draws it; no number of the page is computed elsewhere.  The file has no time stamp
 * and needs no network.
 *
 *     collect.c    the questions that analyses answer, and their tables
 *     observed.c   distributions, thresholds and confidence of activations; values of
 *                  one sample in float and quantized
 *     drawing.c    nodes and edges of the graph with their places (layers.h)
 *     html.c       the file: template.html with page.css, page.js and the JSON in it,
 *                  embedded in the library at build time (tools/embed.cmake)
 *
 * Escaping  '<' is written as \u003c, so that no text of the JSON ends the script
 *           element or begins a comment; the script writes names as text nodes only.
 * Owner     all cells belong to the report */
#ifndef QG_ENGINE_WEBPAGE_WEBPAGE_H
#define QG_ENGINE_WEBPAGE_WEBPAGE_H

#include "engine/report/report.h"
#include "engine/session/session.h"

/* --- observed.c --- */

/* Runs the samples in float, and the first one also quantized.  Tables:
 *
 *     observed     endpoint, value, low, high, clipped, error, settled_after: active
 *                  activations with one scale.  low, high: the ends of the grid;
 *                  clipped: the share of elements outside; error, settled_after:
 *                  qg_calibrate_confidence over these samples
 *     histograms   value, from, width, counts: at most QG_PAGE_BINS bins
 *     values       endpoint, elements, float, quantized: QG_PAGE_VALUES elements of
 *                  sample 0 at equal distances, of output 0 of every node */
enum { QG_PAGE_BINS = 64, QG_PAGE_VALUES = 48 };
QG_NODISCARD qg_status qg_page_observe(qg_report *r, qg_model *m,
                                       const qg_workload *work, const qg_feed *feed);

/* size: elements of each value in sample 0, [values], zeros before; 0 stays where the
 * sample makes none (bodies, unused outputs) and for constants. */
QG_NODISCARD qg_status qg_page_sizes(qg_model *m, const qg_workload *work,
                                     const qg_feed *feed, int64_t *size);

/* --- drawing.c --- */

/* Tables:
 *
 *     nodes     name, operator, platform, because, type, x, y: the centre of a box of
 *               QG_PAGE_BOX_WIDTH times QG_PAGE_BOX_HEIGHT; inputs and outputs of the
 *               network are boxes without an operator
 *     edges     from, to (rows of nodes), value, points (x, y, x, y, ...)
 *     fusions   node, into, by: an output that stays unrounded inside of a kernel */
enum { QG_PAGE_BOX_WIDTH = 168, QG_PAGE_BOX_HEIGHT = 44 };
QG_NODISCARD qg_status qg_page_draw(qg_report *r, const qg_model *m);

/* --- html.c --- */

/* The file, complete or not at all. */
QG_NODISCARD qg_status qg_page_write(qg_report *r, const char *path);

#endif

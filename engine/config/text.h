/* text.h -- configuration files, and texts of the host that go before them. */
#ifndef QG_ENGINE_CONFIG_TEXT_H
#define QG_ENGINE_CONFIG_TEXT_H

#include "engine/core/file.h"

/* A file of the configuration folder that is no file (QG_ADDED_CONFIG); the name under
 * which it was added is its path in the folder: "backends/mine.yaml". */
typedef struct qg_config_text {
    const char *text; /* [size], followed by a zero */
    size_t size;
} qg_config_text;

/* The path under which a text was added to a folder ("backends"): `name` is that path,
 * or the part after the folder with or without ".yaml".  NULL: none was. */
const char *qg_config_added(const qg_ctx *ctx, const char *folder, const char *name);

/* The bytes of a configuration file, ending with a zero that *size does not count: of a
 * text that was added under the requested path, else of the file.  Errors are
 * those of qg_file_text. */
QG_NODISCARD qg_status qg_config_read(qg_ctx *ctx, qg_arena *a, qg_file_request what,
                                      const char **text, size_t *size);

/* A text that stands for a file of the folder until it is taken back: for trials that
 * leave no file. */
typedef struct qg_config_loan {
    qg_added row;
    qg_config_text text;
} qg_config_loan;

/* path: as for texts of the host, and free; *loan and both texts are borrowed until
 * qg_config_take_back.  Contexts that are forked meanwhile must end before. */
void qg_config_lend(qg_ctx *ctx, qg_config_loan *loan, const char *path,
                    qg_config_text text);
void qg_config_take_back(qg_ctx *ctx, qg_config_loan *loan);

#endif

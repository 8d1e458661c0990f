#include "engine/formats/tflite/tflite.h"

#include "engine/core/file.h"
#include "engine/formats/format.h"
#include "engine/formats/tflite/operators.h"
#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/quant/tqc_check.h"

enum {
    SCHEMA = 3, /* of the files of all versions since 2017 */
    IR = 10,    /* the first of ONNX with opset 21 */
    LEAST_ROOM = 64 << 20,
    ROOM_PER_BYTE = 64 /* two forms of float constants, and what makes them */
};

static bool recognizes(const unsigned char *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes + 4, "TFL3", 4) == 0;
}

#if !QG_HAVE_TFLITE
enum qg_tflite_result qg_tflite_unpack(const unsigned char *bytes, size_t size,
                                       qg_tflite_memory memory, qg_tflite_file *out)
{
    (void)bytes;
    (void)size;
    (void)memory;
    (void)out;
    return QG_TFLITE_NOT_BUILT;
}
#endif

static void *get(void *ud, size_t count, size_t size)
{
    return qg_arena_get(ud, count, size);
}

static qg_status unpack(qg_ctx *ctx, qg_arena *a, const unsigned char *bytes,
                        size_t size, qg_tflite_file *out)
{
    switch (qg_tflite_unpack(bytes, size, (qg_tflite_memory){ get, a }, out)) {
    case QG_TFLITE_READ:
        break;
    case QG_TFLITE_NO_MEMORY:
        return qg_nomem(ctx);
    case QG_TFLITE_TOO_LARGE:
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "import: %zu bytes, expected a .tflite file below 2 GB", size);
    case QG_TFLITE_NOT_BUILT:
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "import: this qg was built without flatbuffers, expected "
                       "QG_TFLITE and libflatbuffers-dev for .tflite files");
    case QG_TFLITE_MALFORMED:
        return qg_fail(ctx, QG_EPARSE,
                       "import: the bytes are no TensorFlow Lite model: an offset, a "
                       "size or the identifier TFL3 is wrong");
    }
    if (out->version != SCHEMA)
        return qg_fail(ctx, QG_EUNSUPPORTED, "import: schema version %u, expected %d",
                       out->version, SCHEMA);
    if (out->n_subgraph != 1)
        return qg_fail(ctx, QG_EUNSUPPORTED, "import: %u subgraphs, expected 1",
                       out->n_subgraph);
    return QG_OK;
}

static qg_status build(qg_tflite_builder *b)
{
    QG_TRY(qg_tflite_begin(b));
    for (b->at = 0; b->at < b->file->n_op; b->at++) {
        b->op = &b->file->op[b->at];
        QG_TRY(qg_tflite_operator_build(b));
    }
    return qg_tflite_end(b);
}

static qg_status finish(qg_tflite_builder *b, qg_quant **out)
{
    size_t removed;
    qg_quant *q;
    QG_TRY(qg_graph_sweep(b->g, &removed));
    QG_TRY(qg_infer(b->g, NULL, 0));
    QG_TRY(qg_tflite_check_forms(b));
    QG_TRY(qg_tflite_records(b, &q));
    QG_TRY(qg_check_graph(b->ctx, b->g, QG_CHECK_ALL));
    QG_TRY(qg_check_tqcs(b->ctx, q, QG_CHECK_ALL));
    *out = q;
    return QG_OK;
}

static qg_status read(qg_graph *g, const unsigned char *bytes, size_t size,
                      qg_quant **out)
{
    qg_tflite_file file;
    qg_tflite_builder b = { .ctx = g->ctx,
                            .g = g,
                            .file = &file,
                            .room = LEAST_ROOM + (uint64_t)size * ROOM_PER_BYTE };
    QG_TRY(unpack(g->ctx, g->arena, bytes, size, &file));
    QG_TRY(qg_vec_push(g->ctx, g->arena, &g->opset,
                       (qg_opset_import){ "", QG_TFLITE_OPSET }));
    g->ir_version = IR;
    b.value = QG_NEWN(g->arena, file.n_tensor, qg_tflite_value);
    if (!b.value)
        return qg_nomem(g->ctx);
    QG_TRY(build(&b));
    return finish(&b, out);
}

qg_status qg_tflite_read(qg_ctx *ctx, const unsigned char *bytes, size_t size,
                         qg_graph **graph, qg_quant **quant)
{
    qg_graph *g;
    QG_TRY(qg_graph_new(ctx, "tflite", &g));
    qg_status s = read(g, bytes, size, quant);
    if (s == QG_OK)
        *graph = g;
    else
        qg_graph_free(g);
    return s;
}

static qg_status import(qg_import *i)
{
    qg_file f;
    if (i->bytes)
        return qg_tflite_read(i->ctx, i->bytes, i->size, &i->graph, &i->quant);
    QG_TRY(qg_file_open(i->ctx, "import", i->path, SIZE_MAX / 2, &f));
    qg_status s = qg_tflite_read(i->ctx, f.bytes, f.size, &i->graph, &i->quant);
    qg_file_close(&f);
    return s;
}

const qg_format qg_format_tflite = {
    .name = "tflite",
    .suffix = ".tflite",
    .summary = "TensorFlow Lite, quantized or float",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_SILENT |
            QG_SAYS_SHARING | QG_SAYS_DERIVED,
    .rounding = QG_ROUND_HALF_AWAY,
    .nan = QG_NAN_BIT(QG_NAN_WRAP) | QG_NAN_BIT(QG_NAN_HIGHEST), /* with XNNPACK */
    .profile = "tflite-reference",
    .recognizes = recognizes,
    .build = qg_tflite_build_file,
    .write = qg_tflite_write_file,
    .import = import,
};

#include "engine/number/dtype.h"

#include <assert.h>
#include <string.h>

/* By qg_dtype.  Lookups are linear in two dozen rows and happen while reading files. */
static const struct {
    const char *text;
    int onnx;
    unsigned bits;
    enum qg_dtype_kind kind;
} info[QG_NDTYPE] = {
#define X(id, text, onnx, bits, kind) { text, onnx, bits, QG_KIND_##kind },
    QG_DTYPE_MAP(X)
#undef X
};

const char *qg_dtype_name(qg_dtype d)
{
    assert((unsigned)d < QG_NDTYPE);
    return info[d].text;
}

qg_dtype qg_dtype_named(const char *text)
{
    for (int d = 1; d < QG_NDTYPE; d++)
        if (strcmp(info[d].text, text) == 0)
            return (qg_dtype)d;
    return QG_NODTYPE;
}

qg_dtype qg_dtype_of_onnx(int64_t code)
{
    for (int d = 1; d < QG_NDTYPE; d++)
        if (info[d].onnx == code)
            return (qg_dtype)d;
    return QG_NODTYPE;
}

int qg_dtype_onnx(qg_dtype d) { return info[d].onnx; }
unsigned qg_dtype_bits(qg_dtype d) { return info[d].bits; }
enum qg_dtype_kind qg_dtype_kind_of(qg_dtype d) { return info[d].kind; }

/* The limit on n leaves n * bits within 64 bits for every type here. */
bool qg_dtype_bytes(qg_dtype d, uint64_t n, size_t *bytes)
{
    uint64_t bits = info[d].bits;
    if (bits == 0 || n > (uint64_t)SIZE_MAX / 2 / 8)
        return false;
    *bytes = (size_t)((n * bits + 7) / 8);
    return n * bits / bits == n;
}

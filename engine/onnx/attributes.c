#include "engine/onnx/attributes.h"

#include <stddef.h>
#include <string.h>

typedef struct row {
    const char *op;
    int opset;
    const char *attributes;
} row;

#define X(op, opset, attributes) { #op, opset, attributes },
static const row table[] = {
#include "engine/onnx/attributes.def"
};
#undef X

enum { N_ROW = sizeof table / sizeof table[0] };

/* The first row of an operator: rows are in order.  N_ROW: it has none. */
static size_t first_row(const char *op)
{
    size_t low = 0, high = N_ROW;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(table[middle].op, op) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last row that is not newer than the opset. */
const char *qg_onnx_attributes(const char *op, int64_t opset)
{
    const char *found = NULL;
    for (size_t i = first_row(op); i < N_ROW && strcmp(table[i].op, op) == 0; i++)
        if (table[i].opset <= opset)
            found = table[i].attributes;
    return found;
}

bool qg_onnx_attributes_have(const char *attributes, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = attributes; *at;) {
        const size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

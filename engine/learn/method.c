#include "engine/learn/method.h"

#include <string.h>

const qg_tune_method qg_tune_methods[] = {
#define METHOD(id, ...) { __VA_ARGS__ },
#include "engine/learn/method.def"
#undef METHOD
    { 0 }
};

const qg_tune_method *qg_tune_method_named(const char *name)
{
    for (const qg_tune_method *m = qg_tune_methods; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

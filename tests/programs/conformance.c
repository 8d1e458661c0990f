/* conformance -- build/tests/conformance [--reference] DIR...
 * Runs ONNX backend-test folders; exit status 0 when no test failed. */
#include <stdio.h>
#include <string.h>

#include "engine/session/conformance.h"
#include "ops/families.h"

static qg_status tell(void *ud, const char *folder, qg_status s, const char *message)
{
    (void)ud;
    printf("%s %s: %s: %s\n", s == QG_EUNSUPPORTED ? "unsupported" : "FAILED", folder,
           qg_status_name(s), message);
    return QG_OK;
}

int main(int argc, char **argv)
{
    qg_conformance_options o = { .registry = &qg_ops_registry, .tell = tell };
    qg_conformance_count count = { 0, 0, 0 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    int status = ctx && argc > 1 ? 0 : 2;
    if (argc < 2)
        fprintf(stderr, "usage: conformance [--reference] DIR...\n");
    for (int i = 1; status == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--reference") == 0)
            o.reference = true;
        else if (qg_conformance_run(ctx, argv[i], &o, &count) != QG_OK) {
            fprintf(stderr, "conformance: %s\n", qg_ctx_message(ctx));
            status = 1;
        }
    }
    if (status != 2)
        printf("%zu passed, %zu failed, %zu unsupported\n", count.passed, count.failed,
               count.unsupported);
    qg_ctx_free(ctx);
    return status ? status : count.failed != 0;
}

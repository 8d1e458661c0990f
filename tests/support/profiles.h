/* profiles.h -- the profiles of the source tree, for tests of the arithmetic. */
#ifndef QG_TESTS_SUPPORT_PROFILES_H
#define QG_TESTS_SUPPORT_PROFILES_H

#include "engine/config/profile_yaml.h"
#include "tests/support/test.h"

/* configs/profiles of the working directory, in the context's arena. */
static inline qg_search test_profiles(qg_ctx *ctx)
{
    qg_search search;
    ctx->config_dir = "configs";
    assert_ok(ctx, qg_config_search(ctx, ctx->arena, "profiles", &search));
    return search;
}

/* The row of a profile for int8 codes of one scale; NULL: none. */
static inline const qg_profile_row *test_find(qg_ctx *ctx, const char *name,
                                              qg_kernel_use use)
{
    const qg_profile *p;
    assert_ok(ctx, qg_profile_load(ctx, ctx->arena, name, test_profiles(ctx), &p));
    return qg_profile_find(p, use, (qg_profile_types){ QG_I8, QG_I8, QG_I8 },
                           (qg_profile_grids){ .least = 1, .most = 1 });
}

/* The same, a row that must be there. */
static inline const qg_profile_row *test_row(qg_ctx *ctx, const char *name,
                                             qg_kernel_use use)
{
    const qg_profile_row *row = test_find(ctx, name, use);
    if (!row)
        fail_msg("profile %s has no row for %s", name, qg_kernel_use_name(use));
    return row;
}

#endif

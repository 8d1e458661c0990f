/* Profiles of the vector files' runtimes. */
#include "engine/config/profile_yaml.h"
#include "tests/programs/vectors/vectors.h"

const qg_profile *vec_profile(vec_run *v, const char *name)
{
    static const char *const folder[] = { QG_CONFIG_DIR "/profiles" };
    const qg_profile *p;
    if (qg_profile_load(v->ctx, v->arena, name, (qg_search){ .dir = folder, .n = 1 },
                        &p) != QG_OK)
        vec_malformed("%s", qg_ctx_message(v->ctx));
    return p;
}

const qg_profile_row *vec_row(const qg_profile *p, qg_kernel_use use,
                              const qg_grid grid[3])
{
    const qg_profile_types types = { grid[0].dtype, grid[1].dtype, grid[2].dtype };
    float a = grid[0].scale / grid[2].scale, b = grid[1].scale / grid[2].scale;
    if (!(grid[1].scale > 0))
        b = a;
    qg_profile_grids ratios = { .least = a < b ? a : b, .most = a < b ? b : a };
    const qg_profile_row *row = qg_profile_find(p, use, types, ratios);
    if (!row)
        vec_malformed("profile %s: no row for %s of %s", p->name,
                      qg_kernel_use_name(use), qg_dtype_name(types.x));
    return row;
}

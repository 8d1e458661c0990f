#include "engine/exec/group.h"

#include <assert.h>

/* Signals of failure are return codes here; MPI's default ends all processes instead,
 * which is fine as well: nothing half-written is ever visible. */
#if QG_HAVE_MPI
#include <mpi.h>

enum { PIECE = 1 << 24, SIZE_TAG = 1, BYTES_TAG = 2 };

qg_status qg_group_join(qg_ctx *ctx, qg_group *out)
{
    int rank, size, level;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
        return qg_fail(ctx, QG_EIO, "group: MPI does not start, expected mpirun");
    *out = (qg_group){ rank, size };
    return QG_OK;
}

void qg_group_leave(qg_group *g)
{
    if (g->size > 0)
        (void)MPI_Finalize();
    *g = (qg_group){ 0 };
}

/* In pieces: counts of MPI are ints. */
qg_status qg_group_send(qg_ctx *ctx, const qg_group *g, const void *bytes, size_t size)
{
    unsigned long long n = bytes ? size : 0;
    assert(g->rank > 0);
    int bad = MPI_Send(&n, 1, MPI_UNSIGNED_LONG_LONG, 0, SIZE_TAG, MPI_COMM_WORLD) != 0;
    for (size_t at = 0; !bad && at < n; at += PIECE) {
        int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        bad = MPI_Send((const char *)bytes + at, piece, MPI_BYTE, 0, BYTES_TAG,
                       MPI_COMM_WORLD) != 0;
    }
    return bad ? qg_fail(ctx, QG_EIO, "group: process %d: cannot send", g->rank)
               : QG_OK;
}

qg_status qg_group_receive(qg_ctx *ctx, const qg_group *g, int rank, qg_arena *a,
                           unsigned char **bytes, size_t *size)
{
    unsigned long long n = 0;
    assert(g->rank == 0 && rank > 0 && rank < g->size);
    (void)g;
    int bad = MPI_Recv(&n, 1, MPI_UNSIGNED_LONG_LONG, rank, SIZE_TAG, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE) != 0;
    if (!bad && n == 0)
        return qg_fail(ctx, QG_EDATA,
                       "group: process %d failed, expected its statistics", rank);
    unsigned char *p = qg_arena_raw(a, (size_t)n, 1);
    if (!p)
        return qg_nomem(ctx);
    for (size_t at = 0; !bad && at < n; at += PIECE) {
        int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        bad = MPI_Recv(p + at, piece, MPI_BYTE, rank, BYTES_TAG, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE) != 0;
    }
    if (bad)
        return qg_fail(ctx, QG_EIO, "group: cannot receive from process %d", rank);
    *bytes = p;
    *size = (size_t)n;
    return QG_OK;
}

qg_status qg_group_agree(qg_ctx *ctx, const qg_group *g, qg_status s)
{
    int mine = s != QG_OK, any = 0;
    assert(g->size > 0);
    (void)g;
    if (MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS)
        return qg_fail(ctx, QG_EIO, "group: the processes cannot agree");
    return s != QG_OK || !any ? s
                              : qg_fail(ctx, QG_EDATA, "group: another process failed");
}

#else

qg_status qg_group_join(qg_ctx *ctx, qg_group *out)
{
    (void)out;
    return qg_fail(ctx, QG_EUNSUPPORTED,
                   "group: this qg was built without MPI, expected one process");
}

void qg_group_leave(qg_group *g) { *g = (qg_group){ 0 }; }

qg_status qg_group_send(qg_ctx *ctx, const qg_group *g, const void *bytes, size_t size)
{
    (void)g;
    (void)bytes;
    (void)size;
    return qg_fail(ctx, QG_EUNSUPPORTED, "group: built without MPI");
}

qg_status qg_group_receive(qg_ctx *ctx, const qg_group *g, int rank, qg_arena *a,
                           unsigned char **bytes, size_t *size)
{
    (void)rank;
    (void)a;
    (void)g;
    (void)bytes;
    (void)size;
    return qg_fail(ctx, QG_EUNSUPPORTED, "group: built without MPI");
}

qg_status qg_group_agree(qg_ctx *ctx, const qg_group *g, qg_status s)
{
    (void)ctx;
    (void)g;
    return s;
}

#endif

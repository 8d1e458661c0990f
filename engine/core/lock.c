#include "engine/core/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/clock.h"
#include "engine/core/file.h"

enum { FIRST_PAUSE = 1000 * 1000, LONGEST_PAUSE = 32 * FIRST_PAUSE }; /* ns */

void qg_unlock(int fd)
{
    (void)flock(fd, LOCK_UN);
    (void)close(fd);
}

bool qg_is_work_folder(const char *path)
{
    const char *name = qg_path_base(path);
    return strncmp(name, ".qg-", 4) == 0 && qg_path_ends_in(name + 4, ".new");
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool holds(const qg_locks *l, const struct stat *folder)
{
    struct stat held;
    for (size_t i = 0; i < l->n; i++)
        if (fstat(l->fd[i], &held) == 0 && is_same(&held, folder))
            return true;
    return false;
}

/* False: another process holds it, or the path led to another folder when the lock was
 * there, as after an exchange. */
static bool lock_folder(qg_locks *l, const char *folder)
{
    struct stat here, there;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return true;
    if (fstat(fd, &here) != 0 || holds(l, &here)) {
        (void)close(fd);
        return true;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        bool taken = errno == EWOULDBLOCK || errno == EINTR;
        (void)close(fd);
        return !taken;
    }
    if (stat(folder, &there) != 0 || !is_same(&here, &there)) {
        qg_unlock(fd);
        return false;
    }
    l->fd[l->n++] = fd;
    return true;
}

static bool lock_all(qg_locks *l, const char *const *file, size_t n)
{
    char folder[PATH_MAX];
    for (size_t i = 0; i < n; i++) {
        size_t k = (size_t)(qg_path_base(file[i]) - file[i]);
        if (k >= sizeof folder)
            continue; /* no such folder */
        memcpy(folder, file[i], k);
        folder[k > 1 ? k - 1 : k] = '\0'; /* without the '/' at its end */
        if (qg_is_work_folder(folder) || lock_folder(l, k ? folder : "."))
            continue;
        while (l->n > 0)
            qg_unlock(l->fd[--l->n]);
        return false;
    }
    return true;
}

qg_status qg_locks_take(qg_ctx *ctx, const char *const *file, size_t n, qg_locks *out)
{
    const double end = qg_clock_seconds() + QG_LOCK_WAIT;
    struct timespec pause = { .tv_nsec = FIRST_PAUSE };
    *out =
        (qg_locks){ .ctx = ctx, .fd = ctx->alloc.get(ctx->alloc.ud, n * sizeof(int)) };
    if (!out->fd)
        return qg_nomem(ctx);
    while (!lock_all(out, file, n)) {
        if (qg_clock_seconds() > end) {
            qg_locks_release(out);
            return qg_fail(
                ctx, QG_EIO,
                "write: %s: another program has locked its folder for %.0f s, "
                "expected a folder that no program keeps locked (flock)",
                file[n - 1], QG_LOCK_WAIT);
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_PAUSE)
            pause.tv_nsec *= 2;
    }
    return QG_OK;
}

void qg_locks_release(qg_locks *l)
{
    while (l->n > 0)
        qg_unlock(l->fd[--l->n]);
    if (l->fd)
        l->ctx->alloc.drop(l->ctx->alloc.ud, l->fd);
    l->fd = NULL;
}

/* folder.c -- POSIX, and renameat2 of Linux by its number: C libraries older than the
 * call have no wrapper. */
#define _GNU_SOURCE /* syscall, realpath */
#include "engine/core/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/lock.h"

enum { KEEP = 1, EXCHANGE = 2 }; /* RENAME_NOREPLACE, RENAME_EXCHANGE */
enum { TRIES = 1000 };

static qg_status refuse(const qg_folder *f, const char *path)
{
    return qg_fail(f->ctx, QG_EIO, "write folder: %s: %s", path, strerror(errno));
}

/* --- work folders --- */

/* Removes the files of a folder, then the folder. */
static void remove_folder(qg_ctx *ctx, qg_arena *a, const char *path)
{
    const char **name;
    size_t n;
    if (qg_directory_list(ctx, a, path, &name, &n) != QG_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *file = qg_path_join(a, path, name[i]);
        if (file)
            (void)unlink(file);
    }
    (void)rmdir(path);
}

/* The descriptor of a work folder that this process now owns; -1: another writer has
 * it, or has removed it meanwhile. */
static int lock_folder(const char *path)
{
    struct stat there, here;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &here) == 0 &&
        stat(path, &there) == 0 && here.st_ino == there.st_ino)
        return fd;
    (void)close(fd);
    return -1;
}

/* Work folders of killed processes; failures are harmless. */
static void remove_leftovers(const qg_folder *f)
{
    const char **name;
    size_t n;
    if (qg_directory_list(f->ctx, f->arena, f->parent, &name, &n) != QG_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *path = qg_is_work_folder(name[i])
                               ? qg_path_join(f->arena, f->parent, name[i])
                               : NULL;
        int fd = path ? lock_folder(path) : -1;
        if (fd < 0)
            continue;
        remove_folder(f->ctx, f->arena, path);
        (void)close(fd);
    }
}

static qg_status make_work(qg_folder *f, mode_t mode)
{
    for (int k = 0; k < TRIES; k++) {
        f->work = qg_arena_printf(f->arena, "%s/.qg-%ld-%d.new", f->parent,
                                  (long)getpid(), k);
        if (!f->work)
            return qg_nomem(f->ctx);
        if (mkdir(f->work, 0777) != 0) {
            if (errno == EEXIST)
                continue;
            return refuse(f, f->work);
        }
        f->lock = lock_folder(f->work);
        if (f->lock < 0)
            continue; /* another process took it for a leftover */
        if (mode)
            (void)fchmod(f->lock, mode);
        return QG_OK;
    }
    errno = EEXIST;
    return refuse(f, f->work);
}

/* The folder that holds `path`: "." for a bare name. */
static const char *parent_of(qg_arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n ? qg_arena_strndup(a, path, n) : qg_arena_strdup(a, ".");
}

static qg_status resolve(qg_folder *f, const char *target, mode_t *mode)
{
    struct stat st;
    *mode = 0;
    f->known = stat(target, &st) == 0;
    if (f->known && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return refuse(f, target);
    }
    f->target = qg_arena_strdup(f->arena, target);
    if (f->known) {
        char real[PATH_MAX];
        if (realpath(target, real))
            f->target = qg_arena_strdup(f->arena, real);
        *mode = st.st_mode & 07777;
    }
    f->parent = f->target ? parent_of(f->arena, f->target) : NULL;
    return f->parent ? QG_OK : qg_nomem(f->ctx);
}

qg_status qg_folder_begin(qg_ctx *ctx, qg_arena *a, const char *target, qg_folder *out)
{
    qg_folder f = { .ctx = ctx, .arena = a, .lock = -1 };
    mode_t mode;
    QG_TRY(resolve(&f, target, &mode));
    QG_TRY(qg_directory_make(ctx, f.parent));
    remove_leftovers(&f);
    QG_TRY(make_work(&f, mode));
    *out = f;
    return QG_OK;
}

void qg_folder_abandon(qg_folder *f)
{
    if (f->lock < 0)
        return;
    if (!f->exchanged)
        remove_folder(f->ctx, f->arena, f->work);
    qg_unlock(f->lock);
    f->lock = -1;
}

/* --- commit --- */

static bool is_own(const char *name, const char *const *own, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(own[i], name) == 0)
            return true;
    return false;
}

static qg_status sync_files(const qg_folder *f)
{
    const char **name;
    size_t n;
    QG_TRY(qg_directory_list(f->ctx, f->arena, f->work, &name, &n));
    for (size_t i = 0; i < n; i++) {
        const char *path = qg_path_join(f->arena, f->work, name[i]);
        QG_TRY(path ? qg_path_sync(f->ctx, "write folder", path) : qg_nomem(f->ctx));
    }
    return qg_path_sync(f->ctx, "write folder", f->work);
}

/* Whether the process stands in the target or below it: an exchange would leave it in
 * the old folder. */
static bool holds_working_folder(const qg_folder *f)
{
    char here[PATH_MAX];
    size_t n = strlen(f->target);
    return !realpath(".", here) ||
           (strncmp(here, f->target, n) == 0 && (here[n] == '/' || here[n] == '\0'));
}

/* Links the files that are not the writer's, and syncs the folder; *all is false when
 * there is an entry that cannot be linked.  Among them are temporaries of other
 * writers, which go on by name. */
static qg_status keep_others(const qg_folder *f, const char *const *own, size_t n_own,
                             bool *all)
{
    const char **name;
    size_t n;
    *all = true;
    QG_TRY(qg_directory_list(f->ctx, f->arena, f->target, &name, &n));
    for (size_t i = 0; i < n && *all; i++) {
        if (is_own(name[i], own, n_own))
            continue;
        const char *from = qg_path_join(f->arena, f->target, name[i]);
        const char *to = qg_path_join(f->arena, f->work, name[i]);
        if (!from || !to)
            return qg_nomem(f->ctx);
        *all = linkat(AT_FDCWD, from, AT_FDCWD, to, 0) == 0;
    }
    return qg_path_sync(f->ctx, "write folder", f->work);
}

static bool rename_so(const char *from, const char *to, unsigned how)
{
#ifdef SYS_renameat2
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, how) == 0;
#else
    (void)from, (void)to, (void)how;
    return false;
#endif
}

/* Of the old folder, at the path of the work folder by now.  What other programs, which
 * know no lock, made after keep_others moves into the new one; the rest is there. */
static qg_status clear_entry(const qg_folder *f, const char *name, bool own)
{
    const char *from = qg_path_join(f->arena, f->work, name);
    const char *to = qg_path_join(f->arena, f->target, name);
    if (!from || !to)
        return qg_nomem(f->ctx);
    if (!own && rename_so(from, to, KEEP))
        return QG_OK;
    if (!own && errno != EEXIST)
        return refuse(f, from);
    (void)unlink(from);
    return QG_OK;
}

/* An entry may arrive until the folder is gone. */
static qg_status remove_old(const qg_folder *f, const char *const *own, size_t n_own)
{
    for (int k = 0; k < TRIES; k++) {
        const char **name;
        size_t n;
        QG_TRY(qg_directory_list(f->ctx, f->arena, f->work, &name, &n));
        for (size_t i = 0; i < n; i++)
            QG_TRY(clear_entry(f, name[i], is_own(name[i], own, n_own)));
        if (rmdir(f->work) == 0)
            return QG_OK;
        if (errno != ENOTEMPTY && errno != EEXIST)
            break;
    }
    return refuse(f, f->work);
}

/* File by file, in the order of `own`; those not written this time are removed. */
static qg_status replace_files(const qg_folder *f, const char *const *own, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *from = qg_path_join(f->arena, f->work, own[i]);
        const char *to = qg_path_join(f->arena, f->target, own[i]);
        if (!from || !to)
            return qg_nomem(f->ctx);
        if (rename(from, to) == 0)
            continue;
        if (errno != ENOENT)
            return refuse(f, to);
        (void)unlink(to);
    }
    return qg_path_sync(f->ctx, "write folder", f->target);
}

/* Afterwards the old folder is at the path of the work folder, and the lock of the work
 * folder, which is the target now, keeps writers away until it is removed. */
static qg_status replace(qg_folder *f, const char *const *own, size_t n)
{
    bool all = false;
    if (!holds_working_folder(f))
        QG_TRY(keep_others(f, own, n, &all));
    if (!all || !rename_so(f->work, f->target, EXCHANGE))
        return replace_files(f, own, n);
    f->exchanged = true;
    QG_TRY(qg_path_sync(f->ctx, "write folder", f->parent));
    return remove_old(f, own, n);
}

static qg_status put_in_place(qg_folder *f, const char *const *own, size_t n)
{
    qg_locks locks;
    QG_TRY(sync_files(f));
    if (!f->known && rename(f->work, f->target) == 0) {
        qg_unlock(f->lock);
        f->lock = -1; /* the work folder is the target now */
        return qg_path_sync(f->ctx, "write folder", f->parent);
    }
    if (!f->known && errno != EEXIST && errno != ENOTEMPTY)
        return refuse(f, f->target); /* else another writer was faster */
    const char *inside = qg_path_join(f->arena, f->target, own[0]);
    QG_TRY(inside ? qg_locks_take(f->ctx, &inside, 1, &locks) : qg_nomem(f->ctx));
    qg_status s = replace(f, own, n);
    qg_locks_release(&locks);
    return s;
}

qg_status qg_folder_commit(qg_folder *f, const char *const *own, size_t n)
{
    qg_status s = put_in_place(f, own, n);
    qg_folder_abandon(f);
    return s;
}

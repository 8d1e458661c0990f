/* file.c -- POSIX files.  Only regular files are mapped: a pipe or a device has no
 * size to check against the limit, and O_NONBLOCK keeps open() from waiting on a
 * FIFO. */
#include "engine/core/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/lock.h"
#include "engine/core/num.h"
#include "engine/core/reads.h"
#include "engine/core/vec.h"

static qg_status refuse(qg_ctx *ctx, const char *doing, const char *path,
                        const char *what)
{
    return qg_fail(ctx, QG_EIO, "%s: %s: %s", doing, path, what);
}

/* On failure *out may hold a size without a mapping; the caller then drops it. */
static qg_status map_file(qg_ctx *ctx, const char *doing, const char *path, int fd,
                          size_t limit, qg_file *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return refuse(ctx, doing, path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return refuse(ctx, doing, path, "is a directory, expected a file");
    if (!S_ISREG(st.st_mode))
        return refuse(ctx, doing, path, "is not a regular file");
    if ((size_t)st.st_size > limit)
        return qg_fail(ctx, QG_EIO, "%s: %s: has %zu bytes, expected at most %zu",
                       doing, path, (size_t)st.st_size, limit);
    *out = (qg_file){ .bytes = (const unsigned char *)"", .size = (size_t)st.st_size };
    if (st.st_size == 0)
        return QG_OK;
    out->map = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (out->map == MAP_FAILED)
        return refuse(ctx, doing, path, strerror(errno));
    out->bytes = out->map;
    return QG_OK;
}

qg_status qg_file_open(qg_ctx *ctx, const char *doing, const char *path, size_t limit,
                       qg_file *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(ctx, doing, path, strerror(errno));
    qg_file f = { 0 };
    qg_status s = map_file(ctx, doing, path, fd, limit, &f);
    (void)close(fd);
    if (s == QG_OK)
        *out = f;
    return s;
}

/* The mapping is private and read-only, so its pages are the file's own: nothing can be
 * lost.  Pages that reach beyond the range stay. */
void qg_file_release(const qg_file *f, size_t at, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (at + page - 1) / page * page, end = (at + n) / page * page;
    assert(at <= f->size && n <= f->size - at);
    if (f->map && first < end)
        (void)madvise((char *)f->map + first, end - first, MADV_DONTNEED);
}

void qg_file_close(qg_file *f)
{
    if (f->map)
        (void)munmap(f->map, f->size);
    *f = (qg_file){ 0 };
}

qg_status qg_file_text(qg_ctx *ctx, qg_arena *a, qg_file_request from, char **text,
                       size_t *size)
{
    qg_file f;
    QG_TRY(qg_file_open(ctx, from.doing, from.path, from.limit, &f));
    char *copy = qg_arena_strndup(a, (const char *)f.bytes, f.size);
    size_t n = f.size;
    qg_file_close(&f);
    if (!copy)
        return qg_nomem(ctx);
    *text = copy;
    *size = n;
    return QG_OK;
}

/* A snapshot is a folder with both files, and is written as a whole (folder.h): one of
 * them alone would no longer belong to the other. */
static bool is_of_snapshot(const char *path)
{
    static const char *const files[] = { "model.onnx", "quant.json" };
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char other[4096]; /* no path that exists is longer */
    for (int i = 0; i < 2; i++)
        if (strcmp(base, files[i]) == 0) {
            int n = snprintf(other, sizeof other, "%.*s%s", (int)(base - path), path,
                             files[1 - i]);
            return n > 0 && (size_t)n < sizeof other && access(other, F_OK) == 0;
        }
    return false;
}

/* The reason why a target cannot be written: its name, or a kind that must not be
 * replaced by renaming a file onto it;  NULL: absent, or a regular file.  A device
 * would be lost to all processes. */
static const char *in_the_way(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENAMETOOLONG || errno == ENOTDIR ? strerror(errno) : NULL;
    if (S_ISREG(st.st_mode))
        return is_of_snapshot(path) ? "is a file of a snapshot, expected another name"
                                    : NULL;
    return S_ISDIR(st.st_mode) ? strerror(EISDIR)
                               : "is a device, pipe or socket, expected a file";
}

/* Also for memory that was never allocated. */
static void drop(const qg_ctx *ctx, void *p)
{
    if (p)
        ctx->alloc.drop(ctx->alloc.ud, p);
}

static void *get(const qg_ctx *ctx, size_t size)
{
    return ctx->alloc.get(ctx->alloc.ud, size);
}

/* Number of names tried for a temporary before giving up: leftovers of killed processes
 * with this id. */
enum { TEMPORARY_TRIES = 1000, TEMPORARY_ROOM = 48 };

/* Whether a line of /proc/PID/stat, "PID (name) state ...", is that of a process whose
 * parent has not asked for its status yet.  Its name may contain parentheses. */
static bool is_zombie(const char *line)
{
    const char *end = strrchr(line, ')');
    return end && (strncmp(end, ") Z", 3) == 0 || strncmp(end, ") X", 3) == 0);
}

/* False where processes are not listed; their files then stay. */
static bool has_ended(int64_t process)
{
    char path[48], line[128] = ""; /* names have at most 64 bytes */
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT && access("/proc/self/stat", F_OK) == 0;
    const bool read = fgets(line, sizeof line, f) != NULL;
    (void)fclose(f);
    return read && is_zombie(line);
}

/* Whether it is the name of a temporary whose process has ended, or with `own` is this
 * one, as after a restart in a container. */
static bool is_leftover(const char *name, bool own)
{
    int64_t process;
    size_t digits;
    if (strncmp(name, ".qg-", 4) != 0 || !qg_path_ends_in(name, ".tmp"))
        return false;
    digits = strspn(name + 4, "0123456789");
    if (name[4 + digits] != '-' || !qg_num_parse_i64(name + 4, digits, &process))
        return false;
    return process == getpid() ? own : has_ended(process);
}

/* Temporaries of killed writers (is_leftover) in the folder of `path`, whose end has
 * room for a name.
 * A process that is not visible here (another container, hidepid) still holds the lock
 * on its own.  Failures are harmless. */
static void remove_leftovers(char *path, size_t folder, bool own)
{
    path[folder] = '\0';
    DIR *d = opendir(folder ? path : ".");
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n >= TEMPORARY_ROOM || !is_leftover(e->d_name, own))
            continue;
        memcpy(path + folder, e->d_name, n + 1);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlink(path);
        if (fd >= 0)
            (void)close(fd);
    }
    if (d)
        (void)closedir(d);
}

/* A new file in the folder of `path`: rename is atomic only within one file system.
 * Its name does not contain that of the target, which may be as long as names can be,
 * and its mode is the one that umask leaves.  Returns -1 and errno on failure. */
static int open_temporary(const char *path, char *temporary)
{
    size_t folder = (size_t)(qg_path_base(path) - path);
    uint32_t sum = 2166136261U; /* FNV-1a: thousands of files find free names at once */
    for (const char *p = path + folder; *p; p++)
        sum = (sum ^ (unsigned char)*p) * 16777619U;
    memcpy(temporary, path, folder);
    remove_leftovers(temporary, folder, false);
    for (int k = 0; k < TEMPORARY_TRIES; k++) {
        (void)snprintf(temporary + folder, TEMPORARY_ROOM, ".qg-%ld-%08x-%d.tmp",
                       (long)getpid(), (unsigned)sum, k);
        int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            (void)flock(fd, LOCK_EX | LOCK_NB); /* free when the process is gone */
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

void qg_writer_sweep(const char *folder)
{
    char path[PATH_MAX + TEMPORARY_ROOM];
    const int n = snprintf(path, PATH_MAX, "%s/", folder);
    if (n > 0 && n < PATH_MAX)
        remove_leftovers(path, (size_t)n, true);
}

static qg_status refuse_target(const qg_writer *w, int why)
{
    const char *slash = strrchr(w->target, '/');
    if (why != ENOENT || !slash || slash == w->target)
        return refuse(w->ctx, "write", w->target, strerror(why));
    return qg_fail(w->ctx, QG_EIO,
                   "write: %s: %s: expected a folder '%.*s' to write to", w->target,
                   strerror(why), (int)(slash - w->target), w->target);
}

/* Under the lock of the folder: whoever replaces the folder at the same time keeps the
 * temporaries that he has seen (folder.c). */
static qg_status open_stream(qg_writer *w)
{
    const char *const path = w->target, *taken = in_the_way(path);
    qg_locks locks;
    if (taken)
        return refuse(w->ctx, "write", path, taken);
    QG_TRY(qg_reads_check(w->ctx, path));
    QG_TRY(qg_locks_take(w->ctx, &path, 1, &locks));
    int fd = open_temporary(path, w->temporary), why = errno;
    qg_locks_release(&locks);
    if (fd >= 0) {
        w->stream = fdopen(fd, "wb");
        why = errno;
    }
    if (w->stream)
        return QG_OK;
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(w->temporary);
    }
    return refuse_target(w, why);
}

qg_status qg_writer_open(qg_ctx *ctx, const char *path, qg_writer *out)
{
    size_t n = strlen(path);
    qg_writer w = { .ctx = ctx,
                    .target = get(ctx, n + 1),
                    .temporary = get(ctx, n + TEMPORARY_ROOM) };
    if (!w.target || !w.temporary) {
        drop(ctx, w.target);
        drop(ctx, w.temporary);
        return qg_nomem(ctx);
    }
    memcpy(w.target, path, n + 1);
    qg_status s = open_stream(&w);
    if (s == QG_OK) {
        *out = w;
        return QG_OK;
    }
    drop(ctx, w.target);
    drop(ctx, w.temporary);
    return s;
}

/* Zeroes *w, so a second call finds nothing to do: safe after commit and after
 * failure. */
void qg_writer_abandon(qg_writer *w)
{
    if (w->stream)
        (void)fclose(w->stream);
    if (w->temporary && *w->temporary)
        (void)unlink(w->temporary);
    if (w->aside)
        (void)unlink(w->aside);
    drop(w->ctx, w->aside);
    drop(w->ctx, w->target);
    drop(w->ctx, w->temporary);
    *w = (qg_writer){ 0 };
}

/* An earlier write failed and its reason is gone: one more usually fails for the same.
 * A few bytes may still have room. */
static bool fail_again(FILE *stream)
{
    static const char more[1 << 16];
    clearerr(stream);
    errno = 0;
    (void)fwrite(more, 1, sizeof more, stream);
    (void)fflush(stream);
    return false;
}

void qg_writer_pause(qg_writer *w)
{
    assert(w->stream);
    errno = 0;
    bool ok = ferror(w->stream) ? fail_again(w->stream) : true;
    int why = errno;
    ok = fclose(w->stream) == 0 && ok;
    w->stream = NULL;
    if (!ok && !w->why)
        w->why = why ? why : errno ? errno : -1;
}

qg_status qg_writer_resume(qg_writer *w)
{
    if (w->stream)
        return QG_OK;
    w->stream = fopen(w->temporary, "r+be");
    if (!w->stream || fseeko(w->stream, 0, SEEK_END) != 0)
        return refuse(w->ctx, "write", w->target, strerror(errno));
    return QG_OK;
}

/* ferror first: an earlier write may have failed unnoticed. */
static qg_status close_stream(qg_writer *w)
{
    assert(w->target && w->temporary);
    if (w->stream && fflush(w->stream) != 0 && !ferror(w->stream))
        w->why = errno;
    if (w->stream)
        qg_writer_pause(w);
    return !w->why ? QG_OK
                   : refuse(w->ctx, "write", w->target,
                            w->why > 0 ? strerror(w->why) : "an earlier write failed");
}

qg_status qg_path_sync(qg_ctx *ctx, const char *doing, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == EROFS);
    qg_status s = ok ? QG_OK : refuse(ctx, doing, path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return s;
}

/* The folder of the target, whose name ends there for the call. */
static qg_status sync_folder(const qg_writer *w)
{
    char *base = w->target + (qg_path_base(w->target) - w->target), first = *base;
    *base = '\0';
    qg_status s = qg_path_sync(w->ctx, "write", *w->target ? w->target : ".");
    *base = first;
    return s;
}

static bool same_folder(const qg_writer *a, const qg_writer *b)
{
    size_t n = (size_t)(qg_path_base(a->target) - a->target);
    size_t k = (size_t)(qg_path_base(b->target) - b->target);
    return n == k && memcmp(a->target, b->target, n) == 0;
}

static qg_status sync_folders(qg_writer *const *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !same_folder(w[i - 1], w[i]))
            QG_TRY(sync_folder(w[i]));
    return QG_OK;
}

/* The old target, if there is one, gets a name beside that of the temporary, which a
 * later writer removes if this process is killed (is_leftover). */
static qg_status set_aside(qg_writer *w)
{
    size_t stem = strlen(w->temporary) - strlen(".tmp");
    w->aside = get(w->ctx, stem + sizeof "-old.tmp");
    if (!w->aside)
        return qg_nomem(w->ctx);
    (void)snprintf(w->aside, stem + sizeof "-old.tmp", "%.*s-old.tmp", (int)stem,
                   w->temporary);
    if (rename(w->target, w->aside) == 0)
        return QG_OK;
    int why = errno;
    drop(w->ctx, w->aside);
    w->aside = NULL;
    return why == ENOENT ? QG_OK : refuse(w->ctx, "write", w->target, strerror(why));
}

/* Several names cannot be exchanged at once, and an old file beside a new one may be
 * read as a whole: so the old ones go first, and are gone on the disk too. */
static qg_status set_all_aside(qg_writer *const *w, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        QG_TRY(set_aside(w[i]));
        any = any || w[i]->aside;
    }
    return any ? sync_folders(w, n) : QG_OK;
}

/* What a rename puts in place is on the disk by then.  It has the permissions of the
 * file that is replaced, or that was set aside, but none of what a link leads to. */
static qg_status put_in_place(qg_writer *w)
{
    struct stat st;
    w->fresh = lstat(w->target, &st) != 0;
    if ((!w->fresh || (w->aside && lstat(w->aside, &st) == 0)) && S_ISREG(st.st_mode))
        (void)chmod(w->temporary, st.st_mode & 0777);
    if (rename(w->temporary, w->target) != 0)
        return refuse(w->ctx, "write", w->target, strerror(errno));
    *w->temporary = '\0';
    return QG_OK;
}

/* The last target, which the others belong to, goes last and comes back first. */
static void take_back(qg_writer *const *w, size_t n, size_t placed)
{
    for (size_t i = 0; i < placed; i++)
        if (w[i]->fresh)
            (void)unlink(w[i]->target);
    for (size_t i = n; i-- > 0;)
        if (w[i]->aside && rename(w[i]->aside, w[i]->target) == 0) {
            drop(w[i]->ctx, w[i]->aside);
            w[i]->aside = NULL;
        }
}

/* Something may have come in the way since the writers were opened. */
static qg_status check_all(qg_writer *const *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *taken = in_the_way(w[i]->target);
        if (taken)
            return refuse(w[i]->ctx, "write", w[i]->target, taken);
    }
    return QG_OK;
}

static qg_status put_all_in_place(qg_writer *const *w, size_t n)
{
    QG_TRY(check_all(w, n));
    qg_status s = n > 1 ? set_all_aside(w, n) : QG_OK;
    size_t placed = 0;
    for (; placed < n && s == QG_OK; placed += s == QG_OK)
        s = put_in_place(w[placed]);
    if (s == QG_OK)
        s = sync_folders(w, n);
    if (s != QG_OK)
        take_back(w, n, placed);
    return s;
}

/* As long as the locks are held, no other writer puts files in place there. */
static qg_status lock_and_put(qg_writer *const *w, size_t n)
{
    qg_ctx *ctx = w[0]->ctx;
    qg_locks locks;
    const char **target = get(ctx, n * sizeof *target);
    if (!target)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++)
        target[i] = w[i]->target;
    qg_status s = qg_locks_take(ctx, target, n, &locks);
    if (s == QG_OK) {
        s = put_all_in_place(w, n);
        qg_locks_release(&locks);
    }
    drop(ctx, (void *)target);
    return s;
}

/* Targets are touched when everything else has succeeded. */
qg_status qg_writers_commit(qg_writer *const *w, size_t n)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < n && s == QG_OK; i++)
        s = close_stream(w[i]);
    for (size_t i = 0; i < n && s == QG_OK; i++)
        s = qg_path_sync(w[i]->ctx, "write", w[i]->temporary);
    if (s == QG_OK && n > 0)
        s = lock_and_put(w, n);
    for (size_t i = 0; i < n; i++)
        qg_writer_abandon(w[i]);
    return s;
}

qg_status qg_writer_commit(qg_writer *w)
{
    qg_writer *one[] = { w };
    return qg_writers_commit(one, 1);
}

qg_status qg_writer_check(qg_ctx *ctx, const char *path)
{
    qg_writer w;
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        return qg_fail(ctx, QG_EIO, "write: %s: is a folder, expected a file", path);
    QG_TRY(qg_writer_open(ctx, path, &w));
    qg_writer_abandon(&w);
    return QG_OK;
}

qg_status qg_file_write(qg_ctx *ctx, const char *path, const void *bytes, size_t size)
{
    qg_writer w;
    QG_TRY(qg_writer_open(ctx, path, &w));
    (void)fwrite(bytes, 1, size, w.stream);
    return qg_writer_commit(&w);
}

qg_status qg_memory_open(qg_ctx *ctx, qg_memory_file *out)
{
    *out = (qg_memory_file){ .ctx = ctx };
    out->stream = open_memstream(&out->bytes, &out->size);
    return out->stream ? QG_OK : qg_nomem(ctx);
}

qg_status qg_memory_close(qg_memory_file *f, qg_status s)
{
    bool ok = !ferror(f->stream);
    ok = fclose(f->stream) == 0 && ok;
    f->stream = NULL;
    if (s == QG_OK && !ok)
        s = qg_nomem(f->ctx);
    if (s != QG_OK)
        qg_memory_free(f);
    return s;
}

void qg_memory_free(qg_memory_file *f)
{
    free(f->bytes);
    f->bytes = NULL;
    f->size = 0;
}

/* The folder that holds the one of that name; part is as before afterwards. */
static qg_status sync_above(qg_ctx *ctx, char *part)
{
    char *name = part + (qg_path_base(part) - part);
    char first = *name;
    *name = '\0';
    qg_status s = qg_path_sync(ctx, "make directory", *part ? part : ".");
    *name = first;
    return s;
}

/* As mkdir -p: each prefix that ends before a '/' is created in turn, existing ones are
 * accepted. */
qg_status qg_directory_make(qg_ctx *ctx, const char *path)
{
    size_t n = strlen(path);
    char *part = get(ctx, n + 1);
    if (!part)
        return qg_nomem(ctx);
    qg_status s = QG_OK;
    for (size_t i = 1; i <= n && s == QG_OK; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        bool made = mkdir(part, 0777) == 0;
        if (!made && errno != EEXIST)
            s = refuse(ctx, "make directory", part, strerror(errno));
        else if (made)
            s = sync_above(ctx, part);
    }
    drop(ctx, part);
    if (s == QG_OK && !qg_is_directory(path))
        s = refuse(ctx, "make directory", path, "exists and is not a directory");
    return s;
}

void qg_directory_remove(const char *path) { (void)rmdir(path); }

/* Not strcoll: the order must not depend on the locale. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

qg_status qg_directory_list(qg_ctx *ctx, qg_arena *a, const char *path,
                            const char ***names, size_t *count)
{
    DIR *d = opendir(path);
    if (!d)
        return refuse(ctx, "list directory", path, strerror(errno));
    QG_VEC(const char *) v = { 0 };
    qg_status s = QG_OK;
    for (struct dirent *e; s == QG_OK && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const char *copy = qg_arena_strdup(a, e->d_name);
        s = copy ? qg_vec_push(ctx, a, &v, copy) : qg_nomem(ctx);
    }
    (void)closedir(d);
    QG_TRY(s);
    if (v.n)
        qsort(v.at, v.n, sizeof *v.at, by_bytes);
    *names = v.at;
    *count = v.n;
    return QG_OK;
}

#include "tests/support/places.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "engine/core/arena.h"
#include "tests/support/test.h"

enum { DEPTH = 64, ROOM = 1 << 18 };

/* Addresses, by hash; never full. */
typedef struct address_set {
    uintptr_t at[ROOM];
    size_t n;
} address_set;

static address_set met[2]; /* by kind: calls above a refused request */
static address_set looked; /* chains of calls without one that is new */
static struct {
    pthread_mutex_t lock;
    place_kind kind;
    bool armed, paused, fired;
    void *call[DEPTH]; /* above the one that was refused */
    int depth;
    long places; /* met so far; one of `stride` fails */
    long stride;
    atomic_long live; /* blocks of memory */
} now = { .lock = PTHREAD_MUTEX_INITIALIZER, .stride = 1 };

/* False: it was in the set. */
static bool add(address_set *s, uintptr_t address)
{
    size_t i = (size_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 46);
    for (; s->at[i % ROOM]; i++)
        if (s->at[i % ROOM] == address)
            return false;
    assert_cmp_int(++s->n, <, ROOM / 2);
    s->at[i % ROOM] = address;
    return true;
}

/* The code of this program; calls in libraries are no places. */
static bool is_ours(const void *address)
{
    extern const char __executable_start, etext;
    return (const char *)address >= &__executable_start &&
           (const char *)address < &etext;
}

/* Adds all calls above this request. */
static bool any_is_new(void)
{
    bool new = false;
    now.depth = backtrace(now.call, DEPTH);
    for (int i = 0; i < now.depth; i++)
        if (is_ours(now.call[i]) && add(&met[now.kind], (uintptr_t)now.call[i]))
            new = true;
    return new;
}

/* Walking up all calls is slow: a chain is recognized by its place, the address of its
 * frame, and the calls right above.  These tests are compiled with frame pointers; the
 * walk ends where a frame is none. */
enum { CALLS = 6, LARGEST_FRAME = 1 << 16 };
static uintptr_t chain_of(const void *place, const void *frame)
{
    uintptr_t key = (uintptr_t)place * 31 ^ (uintptr_t)frame;
    const uintptr_t *at = frame;
    for (int i = 0; i < CALLS; i++) {
        const uintptr_t up = at[0];
        if (up <= (uintptr_t)at || up - (uintptr_t)at > LARGEST_FRAME ||
            up % sizeof up || !is_ours((const void *)at[1]))
            break;
        key = key * UINT64_C(0x100000001B3) ^ at[1];
        at = (const uintptr_t *)up;
    }
    return key;
}

static bool fails(place_kind kind, const void *place, const void *frame)
{
    if (!now.armed || now.kind != kind || now.fired || now.paused || !is_ours(place))
        return false;
    (void)pthread_mutex_lock(&now.lock);
    bool fire = !now.fired && add(&looked, chain_of(place, frame)) && any_is_new() &&
                now.places++ % now.stride == 0;
    now.fired = now.fired || fire;
    (void)pthread_mutex_unlock(&now.lock);
    return fire;
}

#define FAILS(kind)                                                                    \
    fails((kind), __builtin_return_address(0), __builtin_frame_address(0))

/* Functions that the linker calls instead of others, and the others. */
#define REPLACE(kind, bad, type, name, parameters, arguments)                          \
    type __real_##name parameters;                                                     \
    type __wrap_##name parameters;                                                     \
    type __wrap_##name parameters                                                      \
    {                                                                                  \
        if (!FAILS(kind))                                                              \
            return __real_##name arguments;                                            \
        errno = (kind) == PLACE_MEMORY ? ENOMEM : EIO;                                 \
        return bad;                                                                    \
    }
#define MEMORY(bad, type, name, parameters, arguments)                                 \
    REPLACE(PLACE_MEMORY, bad, type, name, parameters, arguments)
#define FILES(bad, type, name, parameters, arguments)                                  \
    REPLACE(PLACE_FILE, bad, type, name, parameters, arguments)

/* --- memory --- */

MEMORY(NULL, void *, qg_arena_get, (qg_arena * a, size_t n, size_t size), (a, n, size))
MEMORY(NULL, void *, qg_arena_raw, (qg_arena * a, size_t n, size_t size), (a, n, size))
MEMORY(NULL, char *, qg_arena_strdup, (qg_arena * a, const char *s), (a, s))
MEMORY(NULL, char *, qg_arena_strndup, (qg_arena * a, const char *s, size_t n),
       (a, s, n))
MEMORY(NULL, FILE *, open_memstream, (char **p, size_t *n), (p, n))
MEMORY(NULL, void *, cJSON_ParseWithLengthOpts,
       (const char *text, size_t n, const char **end, int whole), (text, n, end, whole))
MEMORY(0, int, yaml_parser_initialize, (void *parser), (parser))
MEMORY(-4, int, inflateInit2_, (void *s, int bits, const char *version, int size),
       (s, bits, version, size))
MEMORY(-4, int, deflateInit2_,
       (void *s, int level, int method, int bits, int memory, int strategy,
        const char *version, int size),
       (s, level, method, bits, memory, strategy, version, size))
MEMORY(EAGAIN, int, pthread_create,
       (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *ud),
       (t, a, f, ud))

char *__wrap_qg_arena_printf(qg_arena *a, const char *fmt, ...);
char *__wrap_qg_arena_printf(qg_arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *s =
        n < 0 || FAILS(PLACE_MEMORY) ? NULL : __real_qg_arena_raw(a, (size_t)n + 1, 1);
    if (s)
        (void)vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

/* --- files --- */

FILES(NULL, FILE *, fopen, (const char *p, const char *mode), (p, mode))
FILES(NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
FILES(-1, int, fstat, (int fd, struct stat *st), (fd, st))
FILES(-1, int, stat, (const char *p, struct stat *st), (p, st))
FILES(-1, int, access, (const char *p, int mode), (p, mode))
FILES(-1, int, mkdir, (const char *p, mode_t mode), (p, mode))
FILES(-1, int, rename, (const char *a, const char *b), (a, b))
FILES(-1, int, rmdir, (const char *p), (p))
FILES(-1, int, unlink, (const char *p), (p))
FILES(-1, int, flock, (int fd, int how), (fd, how))
FILES(-1, int, fchmod, (int fd, mode_t mode), (fd, mode))
FILES(-1, int, mkstemp, (char *name), (name))
FILES(-1, ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
FILES(-1, ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
FILES(-1, int, fseeko, (FILE * f, off_t at, int from), (f, at, from))
FILES(-1, off_t, ftello, (FILE * f), (f))
FILES(NULL, DIR *, opendir, (const char *p), (p))
FILES(NULL, char *, realpath, (const char *p, char *out), (p, out))
FILES(-1, int, linkat, (int d, const char *a, int e, const char *b, int flags),
      (d, a, e, b, flags))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t); /* not used without O_CREAT */
    va_end(more);
    if (!FAILS(PLACE_FILE))
        return __real_open(path, flags, mode);
    errno = EIO;
    return -1;
}

void *__real_mmap(void *p, size_t n, int protect, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t n, int protect, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t n, int protect, int flags, int fd, off_t at)
{
    if (!FAILS(fd < 0 ? PLACE_MEMORY : PLACE_FILE))
        return __real_mmap(p, n, protect, flags, fd, at);
    errno = fd < 0 ? ENOMEM : EIO;
    return MAP_FAILED;
}

/* No test needs files that outlive the machine, and disks are slow. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    errno = EIO;
    return FAILS(PLACE_FILE) ? -1 : 0;
}

/* Streams in memory are no files. */
#define KIND(f) (fileno(f) < 0 ? PLACE_MEMORY : PLACE_FILE)

/* The stream remembers, as it does of read and write. */
static bool stream_fails(FILE *f, bool fire)
{
    if (fire) {
        f->_flags |= 0x20; /* glibc's _IO_ERR_SEEN */
        errno = KIND(f) == PLACE_FILE ? EIO : ENOMEM;
    }
    return fire;
}

size_t __real_fread(void *p, size_t size, size_t n, FILE *f);
size_t __wrap_fread(void *p, size_t size, size_t n, FILE *f);
size_t __wrap_fread(void *p, size_t size, size_t n, FILE *f)
{
    return stream_fails(f, FAILS(PLACE_FILE)) ? 0 : __real_fread(p, size, n, f);
}

size_t __real_fwrite(const void *p, size_t size, size_t n, FILE *f);
size_t __wrap_fwrite(const void *p, size_t size, size_t n, FILE *f);
size_t __wrap_fwrite(const void *p, size_t size, size_t n, FILE *f)
{
    return stream_fails(f, FAILS(KIND(f))) ? 0 : __real_fwrite(p, size, n, f);
}

int __real_fflush(FILE *f);
int __wrap_fflush(FILE *f);
int __wrap_fflush(FILE *f)
{
    return stream_fails(f, FAILS(KIND(f))) ? EOF : __real_fflush(f);
}

/* What is closed is closed. */
int __real_fclose(FILE *f);
int __wrap_fclose(FILE *f);
int __wrap_fclose(FILE *f)
{
    place_kind kind = KIND(f);
    bool fire = FAILS(kind);
    int status = __real_fclose(f);
    errno = !fire ? errno : kind == PLACE_FILE ? EIO : ENOMEM;
    return fire ? EOF : status;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    bool fire = FAILS(PLACE_FILE);
    int status = __real_close(fd);
    errno = fire ? EIO : errno;
    return fire ? -1 : status;
}

/* --- runs --- */

static void *get(void *ud, size_t size)
{
    (void)ud;
    void *p = FAILS(PLACE_MEMORY) ? NULL : malloc(size);
    if (p)
        atomic_fetch_add(&now.live, 1);
    return p;
}

static void drop(void *ud, void *p)
{
    (void)ud;
    atomic_fetch_sub(&now.live, p != NULL);
    free(p);
}

static int open_files(void)
{
    int n = 0;
    DIR *d = __real_opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}

void places_pause(bool pause) { now.paused = pause; }

void places_sample(long stride) { now.stride = stride; }

void place_mix(uint64_t *result, const char *text)
{
    for (; *text; text++)
        *result = (*result ^ (unsigned char)*text) * UINT64_C(1099511628211);
}

/* Prints what is wrong, and where: for addr2line. */
static long complain(const place_flow *f, const char *wrong)
{
    extern const char __executable_start;
    printf("FAILED: %s: %s; refused below", f->name, wrong);
    for (int i = 0; i < now.depth; i++)
        if (is_ours(now.call[i]))
            printf(" %#zx", (size_t)((const char *)now.call[i] - &__executable_start));
    printf("\n");
    return 1;
}

static long judge(const place_flow *f, qg_status s, bool same, int files)
{
    char text[128];
    bool memory = now.kind == PLACE_MEMORY;
    (void)snprintf(text, sizeof text, "%s%s, %ld blocks and %d files left open",
                   qg_status_name(s), same ? "" : " with another result",
                   (long)now.live, files);
    bool fine = s == QG_OK ? same : s != QG_NSTATUS && (s == QG_ENOMEM) == memory;
    bool open = now.live || files;
    now.live = 0;
    return fine && !open ? 0 : complain(f, text);
}

long every_place_fails(place_kind kind, const place_flow *f)
{
    const qg_alloc alloc = { get, drop, NULL };
    uint64_t whole = 0, got;
    long complaints = 0;
    now.kind = kind;
    now.armed = now.paused = false;
    qg_status s = f->run(alloc, f, &whole);
    if (s != QG_OK)
        fail_msg("%s: %s without a failed request", f->name, qg_status_name(s));
    int files = open_files();
    for (long n = 0;; n++) {
        now.fired = false;
        now.armed = true;
        s = f->run(alloc, f, (got = 0, &got));
        now.armed = now.paused = false;
        if (!now.fired) {
            assert_int_equal(s, QG_OK);
            assert_int_equal(complaints, 0);
            return n;
        }
        complaints += judge(f, s, s != QG_OK || got == whole, open_files() - files);
    }
}

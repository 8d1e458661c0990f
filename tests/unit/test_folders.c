/* Files and folders: names, what a writer leaves, locks, folders replaced whole. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/folder.h"
#include "engine/core/lock.h"
#include "engine/core/reads.h"
#include "tests/support/scratch.h"

/* A folder of its own; names are paths below it. */
typedef struct fixture {
    qg_ctx *ctx;
    char dir[SCRATCH_PATH];
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    f.ctx = qg_ctx_new(qg_alloc_libc);
    scratch_path(f.dir, "files");
    *state = &f;
    return mkdir(f.dir, 0755);
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_ctx_free(f->ctx);
    return scratch_remove(f->dir);
}

static const char *at(const fixture *f, const char *name)
{
    return qg_path_join(f->ctx->arena, f->dir, name);
}

static void put(const fixture *f, const char *name, const char *text)
{
    FILE *file = fopen(at(f, name), "wb");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void assert_holds(const fixture *f, const char *name, const char *text)
{
    char *have;
    size_t n;
    qg_file_request from = { "read", at(f, name), SIZE_MAX };
    assert_ok(f->ctx, qg_file_text(f->ctx, f->ctx->arena, from, &have, &n));
    assert_string_equal(have, text);
}

/* The names in a folder, in byte order. */
static void assert_lists(const fixture *f, const char *folder, const char *want)
{
    const char **name;
    size_t n;
    char have[512] = "";
    assert_ok(f->ctx,
              qg_directory_list(f->ctx, f->ctx->arena, at(f, folder), &name, &n));
    for (size_t i = 0; i < n; i++)
        strcat(strcat(have, i ? " " : ""), name[i]);
    assert_string_equal(have, want);
}

static bool is_there(const fixture *f, const char *name)
{
    struct stat st;
    return lstat(at(f, name), &st) == 0;
}

/* --- names --- */

static void names_are_taken_apart(void **state)
{
    fixture *f = *state;
    assert_string_equal(qg_path_base("a/b/c.npz"), "c.npz");
    assert_string_equal(qg_path_base("c.npz"), "c.npz");
    assert_string_equal(qg_path_base("a/"), "");
    assert_string_equal(qg_path_join(f->ctx->arena, "a", "b"), "a/b");
    assert_string_equal(qg_path_join(f->ctx->arena, "a/", "b"), "a/b");
    assert_string_equal(qg_path_join(f->ctx->arena, "", "b"), "b");
    assert_true(qg_path_ends_in("a.npz", ".npz"));
    assert_false(qg_path_ends_in(".npz", ".npz"));
    assert_false(qg_path_ends_in("npz", ".npz"));
    assert_false(qg_path_ends_in("a.npy", ".npz"));
    assert_true(qg_is_work_folder("a/.qg-1-2.new"));
    assert_true(qg_is_work_folder(".qg-x.new"));
    assert_false(qg_is_work_folder(".qg-.newer"));
    assert_false(qg_is_work_folder(".qg-.new/a"));
    assert_false(qg_is_work_folder(".qg-.tmp"));
    assert_false(qg_is_work_folder("qg-1.new"));
    assert_false(qg_is_work_folder(".qg-.new")); /* nothing between */
}

static void files_have_several_names(void **state)
{
    fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "1");
    assert_int_equal(mkdir(at(f, "sub"), 0755), 0);
    assert_int_equal(symlink(at(f, "a"), at(f, "to_a")), 0);
    assert_int_equal(symlink(f->dir, at(f, "here")), 0);
    assert_true(qg_is_directory(at(f, "sub")));
    assert_false(qg_is_directory(at(f, "a")));
    assert_false(qg_is_directory(at(f, "none")));
    assert_true(qg_is_same_file(at(f, "a"), at(f, "to_a")));
    assert_true(qg_is_same_file(at(f, "a"), at(f, "sub/../a")));
    assert_false(qg_is_same_file(at(f, "a"), at(f, "b")));
    assert_false(qg_is_same_file(at(f, "a"), at(f, "none"))); /* one is there */
    assert_true(qg_is_same_file(at(f, "new"), at(f, "sub/../new")));
    assert_true(qg_is_same_file(at(f, "new"), at(f, "here/new")));
    assert_false(qg_is_same_file(at(f, "new"), at(f, "sub/new")));
    assert_false(qg_is_same_file(at(f, "new"), at(f, "newer")));
    assert_false(qg_is_same_file(at(f, "no/new"), at(f, "no/new")));
    assert_true(qg_is_same_file("new.qg", "./new.qg")); /* the working folder */
}

/* --- reading --- */

static void files_are_read_to_their_limit(void **state)
{
    fixture *f = *state;
    qg_file file;
    put(f, "five", "12345");
    put(f, "none", "");
    assert_ok(f->ctx, qg_file_open(f->ctx, "read", at(f, "five"), 5, &file));
    assert_int_equal(file.size, 5);
    assert_memory_equal(file.bytes, "12345", 5);
    qg_file_release(&file, 0, 5);
    qg_file_release(&file, 5, 0);
    qg_file_close(&file);
    assert_int_equal(file.size, 0);
    qg_file_close(&file);
    assert_fails(f->ctx, qg_file_open(f->ctx, "read", at(f, "five"), 4, &file), QG_EIO,
                 "five: has 5 bytes, expected at most 4");
    assert_ok(f->ctx, qg_file_open(f->ctx, "read", at(f, "none"), 0, &file));
    assert_int_equal(file.size, 0);
    assert_int_equal(file.bytes[0], 0);
    qg_file_release(&file, 0, 0);
    qg_file_close(&file);
    assert_fails(f->ctx, qg_file_open(f->ctx, "read", f->dir, 9, &file), QG_EIO,
                 "is a directory, expected a file");
    assert_fails(f->ctx, qg_file_open(f->ctx, "read", at(f, "absent"), 9, &file),
                 QG_EIO, "absent: No such file or directory");
    assert_int_equal(mkfifo(at(f, "pipe"), 0600), 0);
    assert_fails(f->ctx, qg_file_open(f->ctx, "read", at(f, "pipe"), 9, &file), QG_EIO,
                 "pipe: is not a regular file");
    assert_fails(f->ctx, qg_path_sync(f->ctx, "sync", at(f, "absent")), QG_EIO,
                 "sync: ");
}

/* A mapping of three pages, of which the middle one is given back: it is read again. */
static void released_pages_are_read_again(void **state)
{
    fixture *f = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *text = calloc(3, page);
    qg_file file;
    for (size_t i = 0; i < 3 * page; i++)
        text[i] = (char)('a' + i % 23);
    FILE *out = fopen(at(f, "pages"), "wb");
    assert_int_equal(fwrite(text, 1, 3 * page, out), 3 * page);
    (void)fclose(out);
    assert_ok(f->ctx, qg_file_open(f->ctx, "read", at(f, "pages"), SIZE_MAX, &file));
    qg_file_release(&file, 1, 3 * page - 2);
    assert_memory_equal(file.bytes, text, 3 * page);
    qg_file_close(&file);
    free(text);
}

static void folders_are_made_with_their_parents(void **state)
{
    fixture *f = *state;
    put(f, "file", "");
    assert_ok(f->ctx, qg_directory_make(f->ctx, at(f, "p/q/r")));
    assert_true(qg_is_directory(at(f, "p/q/r")));
    assert_ok(f->ctx, qg_directory_make(f->ctx, at(f, "p/q/r/")));
    assert_fails(f->ctx, qg_directory_make(f->ctx, at(f, "file")), QG_EIO,
                 "make directory: ");
    assert_fails(f->ctx, qg_directory_make(f->ctx, at(f, "file/x")), QG_EIO,
                 "Not a directory");
    put(f, "p/b", "");
    put(f, "p/a", "");
    put(f, "p/B", "");
    assert_lists(f, "p", "B a b q");
    assert_lists(f, "p/q/r", "");
    qg_directory_remove(at(f, "p/q/r"));
    assert_false(is_there(f, "p/q/r"));
    qg_directory_remove(at(f, "p"));
    assert_true(is_there(f, "p")); /* not empty */
    assert_fails(f->ctx, qg_directory_make(f->ctx, ""), QG_EIO, "make directory: ");
}

/* --- writing --- */

static void writers_replace_files(void **state)
{
    fixture *f = *state;
    qg_writer w;
    struct stat st;
    put(f, "old", "old");
    assert_int_equal(chmod(at(f, "old"), 0640), 0);
    assert_int_equal(symlink(at(f, "old"), at(f, "link")), 0);
    assert_ok(f->ctx, qg_writer_open(f->ctx, at(f, "old"), &w));
    (void)fputs("ne", w.stream);
    qg_writer_pause(&w);
    assert_null(w.stream);
    assert_ok(f->ctx, qg_writer_resume(&w));
    (void)fputs("w", w.stream);
    assert_ok(f->ctx, qg_writer_resume(&w)); /* it is open */
    assert_holds(f, "old", "old");
    assert_ok(f->ctx, qg_writer_commit(&w));
    qg_writer_abandon(&w);
    assert_holds(f, "old", "new");
    assert_int_equal(stat(at(f, "old"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_ok(f->ctx, qg_file_write(f->ctx, at(f, "link"), "x", 1)); /* no longer one */
    assert_int_equal(lstat(at(f, "link"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_holds(f, "old", "new");
    assert_ok(f->ctx, qg_writer_check(f->ctx, at(f, "fresh")));
    assert_fails(f->ctx, qg_writer_check(f->ctx, f->dir), QG_EIO,
                 "is a folder, expected a file");
    assert_fails(f->ctx, qg_writer_check(f->ctx, at(f, "old/x")), QG_EIO,
                 "old/x: Not a directory");
    assert_fails(f->ctx, qg_writer_check(f->ctx, at(f, "none/x")), QG_EIO,
                 "none/x: No such file or directory");
    assert_lists(f, "", "link old");
}

static void snapshots_are_written_as_a_whole(void **state)
{
    fixture *f = *state;
    put(f, "model.onnx", "");
    assert_ok(f->ctx, qg_writer_check(f->ctx, at(f, "model.onnx"))); /* it is alone */
    put(f, "quant.json", "");
    put(f, "other.json", "");
    assert_fails(f->ctx, qg_writer_check(f->ctx, at(f, "model.onnx")), QG_EIO,
                 "model.onnx: is a file of a snapshot, expected another name");
    assert_fails(f->ctx, qg_writer_check(f->ctx, at(f, "quant.json")), QG_EIO,
                 "is a file of a snapshot");
    assert_ok(f->ctx, qg_writer_check(f->ctx, at(f, "other.json")));
}

/* Several files, of which one replaces another and one is new. */
static void files_are_put_in_place_together(void **state)
{
    fixture *f = *state;
    qg_writer w[2];
    qg_writer *all[] = { &w[0], &w[1] };
    put(f, "a", "old a");
    assert_int_equal(chmod(at(f, "a"), 0604), 0);
    for (int refused = 1; refused >= 0; refused--) {
        assert_ok(f->ctx, qg_writer_open(f->ctx, at(f, "a"), &w[0]));
        assert_ok(f->ctx, qg_writer_open(f->ctx, at(f, "b"), &w[1]));
        (void)fputs("new a", w[0].stream);
        (void)fputs("new b", w[1].stream);
        if (refused) { /* the second file is lost before anything is in place */
            assert_int_equal(unlink(w[1].temporary), 0);
            assert_fails(f->ctx, qg_writers_commit(all, 2), QG_EIO, "No such file");
            assert_holds(f, "a", "old a");
            assert_lists(f, "", "a");
        } else {
            assert_ok(f->ctx, qg_writers_commit(all, 2));
        }
    }
    struct stat st;
    assert_holds(f, "a", "new a");
    assert_holds(f, "b", "new b");
    assert_int_equal(stat(at(f, "a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0604);
    assert_lists(f, "", "a b");
    assert_ok(f->ctx, qg_writers_commit(all, 0));
}

/* What came to be in the place of a target meanwhile stays: a folder, a device, a file
 * of a snapshot.  Neither is it set aside, nor are the other files replaced. */
static void what_is_in_the_way_by_then_stays(void **state)
{
    fixture *f = *state;
    qg_writer w[2];
    qg_writer *all[] = { &w[0], &w[1] };
    for (size_t k = 0; k < 6; k++) { /* who has it, and how many are committed */
        const char *name = k % 2 ? "b" : "a", *other = k % 2 ? "a" : "b";
        put(f, "a", "old a");
        put(f, "b", "old b");
        assert_ok(f->ctx, qg_writer_open(f->ctx, at(f, "a"), &w[0]));
        assert_ok(f->ctx, qg_writer_open(f->ctx, at(f, "b"), &w[1]));
        assert_int_equal(unlink(at(f, name)), 0);
        assert_int_equal(k < 4 ? mkdir(at(f, name), 0700) : mkfifo(at(f, name), 0600),
                         0);
        const char *why =
            k < 4 ? "Is a directory" : "is a device, pipe or socket, expected a file";
        if (k / 2 == 1) {
            assert_fails(f->ctx, qg_writer_commit(&w[k % 2]), QG_EIO, why);
            qg_writer_abandon(&w[1 - k % 2]);
        } else {
            assert_fails(f->ctx, qg_writers_commit(all, 2), QG_EIO, why);
        }
        assert_holds(f, other, k % 2 ? "old a" : "old b");
        assert_lists(f, "", "a b");
        assert_int_equal(remove(at(f, name)), 0); /* still what it was */
    }
}

/* Process 999999999 does not exist: no system has ids as large. */
static void leftovers_are_removed(void **state)
{
    static const char *const gone[] = { ".qg-999999999-0-0.tmp", ".qg-999999999-.tmp" };
    static const char *const stays[] = {
        ".qg-999999999.tmp",
        ".qg-999999999-0.tmq",
        "qg-999999999-0.tmp",
        ".qg--0.tmp",
        ".qg-x-0.tmp",
        ".qg-1-0.tmp",
        ".qg-999999999-0123456789012345678901234567890.tmp" /* 49 bytes */
    };
    fixture *f = *state;
    char own[48];
    (void)snprintf(own, sizeof own, ".qg-%ld-0-0.tmp", (long)getpid());
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        put(f, gone[i], "");
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++)
        put(f, stays[i], "");
    put(f, own, "");
    put(f, ".qg-999999999-7.tmp", "");
    int fd = open(at(f, ".qg-999999999-7.tmp"), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* by a process of another container */
    assert_ok(f->ctx, qg_file_write(f->ctx, at(f, "file"), "x", 1));
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_false(is_there(f, gone[i]));
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++)
        assert_true(is_there(f, stays[i]));
    assert_true(is_there(f, own));
    assert_true(is_there(f, ".qg-999999999-7.tmp"));
    (void)close(fd);
    qg_writer_sweep(f->dir);
    assert_false(is_there(f, own));
    assert_false(is_there(f, ".qg-999999999-7.tmp"));
    assert_true(is_there(f, ".qg-1-0.tmp"));
}

static void files_that_were_read_are_not_replaced(void **state)
{
    fixture *f = *state;
    put(f, "base.yaml", "x");
    assert_int_equal(symlink(at(f, "base.yaml"), at(f, "link")), 0);
    assert_ok(f->ctx, qg_reads_check(f->ctx, NULL));
    assert_ok(f->ctx, qg_reads_note(f->ctx, at(f, "base.yaml"), "the parent"));
    assert_ok(f->ctx, qg_reads_note(f->ctx, at(f, "planned"), "another output"));
    assert_fails(f->ctx, qg_reads_check(f->ctx, at(f, "link")), QG_ECONFIG,
                 "link: is the parent, expected another file");
    assert_fails(f->ctx, qg_file_write(f->ctx, at(f, "base.yaml"), "y", 1), QG_ECONFIG,
                 "is the parent");
    assert_holds(f, "base.yaml", "x");
    assert_string_equal(qg_reads_find(f->ctx, at(f, "planned")), "another output");
    assert_null(qg_reads_find(f->ctx, at(f, "other")));
    qg_ctx *fork = qg_ctx_fork(f->ctx);
    assert_string_equal(qg_reads_find(fork, at(f, "planned")), "another output");
    qg_ctx_free(fork);
    assert_ok(f->ctx, qg_reads_note(f->ctx, at(f, "base.yaml"), "the child"));
    assert_string_equal(qg_reads_find(f->ctx, at(f, "link")), "the child");
    qg_reads_remove(f->ctx, at(f, "link"));
    assert_null(qg_reads_find(f->ctx, at(f, "base.yaml")));
    assert_non_null(qg_reads_find(f->ctx, at(f, "planned")));
    qg_reads_forget(f->ctx);
    assert_null(qg_reads_find(f->ctx, at(f, "planned")));
}

static void memory_files_end_with_a_zero(void **state)
{
    fixture *f = *state;
    qg_memory_file m;
    assert_ok(f->ctx, qg_memory_open(f->ctx, &m));
    (void)fputs("abc", m.stream);
    assert_ok(f->ctx, qg_memory_close(&m, QG_OK));
    assert_int_equal(m.size, 3);
    assert_string_equal(m.bytes, "abc");
    qg_memory_free(&m);
    assert_null(m.bytes);
    assert_int_equal(m.size, 0);
    assert_ok(f->ctx, qg_memory_open(f->ctx, &m));
    assert_int_equal(qg_memory_close(&m, QG_EMODEL), QG_EMODEL);
    assert_null(m.bytes);
}

/* --- locks --- */

/* Whether another open file can take the lock of the folder. */
static bool is_free(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    bool ok = flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return ok;
}

static void folders_are_locked_once(void **state)
{
    fixture *f = *state;
    qg_locks l;
    assert_int_equal(mkdir(at(f, "p"), 0755), 0);
    assert_int_equal(mkdir(at(f, "q"), 0755), 0);
    assert_int_equal(mkdir(at(f, ".qg-1-1.new"), 0755), 0);
    const char *const file[] = { at(f, "p/a"),           at(f, "q/a"),
                                 at(f, "q/../p/b"),      at(f, "none/a"),
                                 at(f, ".qg-1-1.new/a"), "here" };
    assert_ok(f->ctx, qg_locks_take(f->ctx, file, 5, &l));
    assert_int_equal(l.n, 2);
    assert_false(is_free(at(f, "p")));
    assert_false(is_free(at(f, "q")));
    assert_true(is_free(at(f, ".qg-1-1.new")));
    qg_locks_release(&l);
    assert_true(is_free(at(f, "p")) && is_free(at(f, "q")));
    qg_locks_release(&l); /* safe twice */
    assert_ok(f->ctx, qg_locks_take(f->ctx, file + 5, 1, &l));
    assert_int_equal(l.n, 1);
    assert_false(is_free("."));
    qg_locks_release(&l);
    assert_true(is_free("."));
}

/* --- folders replaced as a whole --- */

static const char *const own[] = { "model", "quant" };

static qg_folder begun(const fixture *f, const char *target)
{
    qg_folder folder;
    assert_ok(f->ctx, qg_folder_begin(f->ctx, f->ctx->arena, at(f, target), &folder));
    assert_true(qg_is_work_folder(folder.work));
    return folder;
}

static void write_into(const fixture *f, const qg_folder *folder, const char *name,
                       const char *text)
{
    const char *path = qg_path_join(f->ctx->arena, folder->work, name);
    assert_ok(f->ctx, qg_file_write(f->ctx, path, text, strlen(text)));
}

static void new_folders_appear_whole(void **state)
{
    fixture *f = *state;
    struct stat st;
    mode_t mask = umask(022);
    qg_folder w = begun(f, "p/q/snap/");
    assert_false(w.known);
    write_into(f, &w, "model", "1");
    assert_false(is_there(f, "p/q/snap"));
    assert_ok(f->ctx, qg_folder_commit(&w, own, 2));
    assert_lists(f, "p/q/snap", "model");
    assert_int_equal(stat(at(f, "p/q/snap"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    (void)umask(mask);
    assert_lists(f, "p/q", "snap");
    qg_folder_abandon(&w); /* safe after commit */
    assert_holds(f, "p/q/snap/model", "1");
}

static void old_folders_are_exchanged(void **state)
{
    fixture *f = *state;
    struct stat st;
    assert_int_equal(mkdir(at(f, "snap"), 0700), 0);
    put(f, "snap/model", "old");
    put(f, "snap/quant", "old");
    put(f, "snap/notes", "mine");
    assert_int_equal(symlink(at(f, "snap"), at(f, "link")), 0);
    qg_folder w = begun(f, "link");
    assert_true(w.known);
    write_into(f, &w, "model", "new");
    assert_holds(f, "snap/model", "old");
    assert_ok(f->ctx, qg_folder_commit(&w, own, 2));
    assert_lists(f, "snap", "model notes"); /* quant is the writer's: gone */
    assert_holds(f, "snap/model", "new");
    assert_holds(f, "snap/notes", "mine");
    assert_int_equal(stat(at(f, "snap"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_lists(f, "", "link snap");
}

/* With a subfolder, which cannot be linked, files are renamed one by one. */
static void folders_with_folders_are_filled_in_place(void **state)
{
    fixture *f = *state;
    struct stat before, after;
    assert_int_equal(mkdir(at(f, "snap"), 0755), 0);
    assert_int_equal(mkdir(at(f, "snap/sub"), 0755), 0);
    put(f, "snap/model", "old");
    put(f, "snap/quant", "old");
    assert_int_equal(stat(at(f, "snap"), &before), 0);
    qg_folder w = begun(f, "snap");
    write_into(f, &w, "model", "new");
    assert_ok(f->ctx, qg_folder_commit(&w, own, 2));
    assert_int_equal(stat(at(f, "snap"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_lists(f, "snap", "model sub");
    assert_holds(f, "snap/model", "new");
    assert_lists(f, "", "snap");
}

/* So is the working folder of the process, and a folder above it. */
static void working_folders_are_filled_in_place(void **state)
{
    fixture *f = *state;
    static const char *const stand[] = { "snap", "snap/deep", "snapper" };
    char back[1024];
    assert_non_null(getcwd(back, sizeof back));
    for (size_t i = 0; i < 3; i++) {
        struct stat before, after;
        assert_ok(f->ctx, qg_directory_make(f->ctx, at(f, stand[i])));
        assert_ok(f->ctx, qg_directory_make(f->ctx, at(f, "snap")));
        assert_int_equal(stat(at(f, "snap"), &before), 0);
        assert_int_equal(chdir(at(f, stand[i])), 0);
        qg_folder w = begun(f, "snap");
        write_into(f, &w, "model", stand[i]);
        assert_ok(f->ctx, qg_folder_commit(&w, own, 2));
        assert_int_equal(chdir(back), 0);
        assert_int_equal(stat(at(f, "snap"), &after), 0);
        assert_int_equal(before.st_ino == after.st_ino, i < 2);
        assert_holds(f, "snap/model", stand[i]);
        if (i == 1)
            assert_int_equal(rmdir(at(f, "snap/deep")), 0);
    }
}

static void work_folders_of_the_dead_are_removed(void **state)
{
    fixture *f = *state;
    assert_int_equal(mkdir(at(f, ".qg-1-0.new"), 0755), 0);
    put(f, ".qg-1-0.new/model", "half");
    assert_int_equal(mkdir(at(f, ".qg-2-0.new"), 0755), 0);
    assert_int_equal(mkdir(at(f, ".qg-3-0.old"), 0755), 0);
    int fd = open(at(f, ".qg-2-0.new"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* its writer is alive */
    qg_folder w = begun(f, "snap");
    assert_false(is_there(f, ".qg-1-0.new"));
    assert_true(is_there(f, ".qg-2-0.new"));
    assert_true(is_there(f, ".qg-3-0.old"));
    qg_folder second = begun(f, "snap"); /* the first one is alive, too */
    assert_string_not_equal(w.work, second.work);
    qg_folder_abandon(&second);
    qg_folder_abandon(&w);
    (void)close(fd);
    assert_lists(f, "", ".qg-2-0.new .qg-3-0.old");
    put(f, "file", "");
    assert_fails(f->ctx, qg_folder_begin(f->ctx, f->ctx->arena, at(f, "file"), &w),
                 QG_EIO, "write folder: ");
}

/* A folder that another writer made meanwhile is replaced, too. */
static void the_last_writer_counts(void **state)
{
    fixture *f = *state;
    qg_folder one = begun(f, "snap"), two = begun(f, "snap");
    write_into(f, &one, "model", "1");
    write_into(f, &one, "quant", "1");
    write_into(f, &two, "model", "2");
    assert_ok(f->ctx, qg_folder_commit(&one, own, 2));
    assert_ok(f->ctx, qg_folder_commit(&two, own, 2));
    assert_lists(f, "snap", "model");
    assert_holds(f, "snap/model", "2");
    assert_lists(f, "", "snap");
}

#define IN_FOLDER(test)                                                                \
    cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

QG_TEST_MAIN(
    IN_FOLDER(names_are_taken_apart), IN_FOLDER(files_have_several_names),
    IN_FOLDER(files_are_read_to_their_limit), IN_FOLDER(released_pages_are_read_again),
    IN_FOLDER(folders_are_made_with_their_parents), IN_FOLDER(writers_replace_files),
    IN_FOLDER(snapshots_are_written_as_a_whole),
    IN_FOLDER(files_are_put_in_place_together),
    IN_FOLDER(what_is_in_the_way_by_then_stays), IN_FOLDER(leftovers_are_removed),
    IN_FOLDER(files_that_were_read_are_not_replaced),
    IN_FOLDER(memory_files_end_with_a_zero), IN_FOLDER(folders_are_locked_once),
    IN_FOLDER(new_folders_appear_whole), IN_FOLDER(old_folders_are_exchanged),
    IN_FOLDER(folders_with_folders_are_filled_in_place),
    IN_FOLDER(working_folders_are_filled_in_place),
    IN_FOLDER(work_folders_of_the_dead_are_removed), IN_FOLDER(the_last_writer_counts))

/* store.c - files in an object store, through a helper program. */
#include "runtime/file/disk/store.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 300, TOLD = 400, LIST_MOST = 1 << 26 };

extern char **environ;

bool
store_is_url(const char *path)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.";
    size_t n = strspn(path, letters);
    return n > 0 && !strncmp(path + n, "://", 3);
}

static const char *
store_program(void)
{
    const char *program = getenv("RILLE_STORE");
    return program && program[0] ? program : NULL;
}

int
store_check(const char *url)
{
    return store_program() ? 0
                           : fail(E_ARG,
                                  "%s: a URL needs a helper program that stores objects; give --store PROGRAM or set "
                                  "RILLE_STORE",
                                  url);
}

int
store_temporary(const char *url, int *fd)
{
    const char *folder = getenv("TMPDIR");
    struct str path = {0};
    str_addf(&path, "%s/rille-store-XXXXXX", folder && folder[0] ? folder : "/tmp");
    *fd = mkostemp(path.text, O_CLOEXEC);
    int status = *fd < 0 ? fail(E_IO, "%s: cannot make a temporary file %s: %s; TMPDIR names another folder", url,
                                path.text, strerror(errno))
                         : 0;
    if (!status) unlink(path.text);
    str_free(&path);
    return status;
}

/* ---- running the helper program ---- */

struct helper { /* a call of the helper program */
    const char *verb, *url;
    int in, out, err; /* stdin, stdout and stderr of the helper: open files */
    pid_t pid;
};

static int
helper_start(struct helper *h)
{
    const char *program = store_program();
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)h->verb, (char *)(uintptr_t)h->url, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, h->in, 0);
    posix_spawn_file_actions_adddup2(&files, h->out, 1);
    posix_spawn_file_actions_adddup2(&files, h->err, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    int why = posix_spawnp(&h->pid, program, &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return why ? fail(E_IO, "%s: the program '%s' of RILLE_STORE cannot be started: %s", h->url, program, strerror(why))
               : 0;
}

static void
helper_kill(const struct helper *h)
{
    kill(-h->pid, SIGKILL);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* Returns the progress of a helper: the position up to which it has read its input, plus the size of its output. */
static int64_t
helper_progress(const struct helper *h)
{
    struct stat st;
    return (int64_t)lseek(h->in, 0, SEEK_CUR) + (fstat(h->out, &st) ? 0 : (int64_t)st.st_size);
}

static double
store_seconds(void)
{
    const char *text = getenv("RILLE_STORE_SECONDS");
    double n = text ? strtod(text, NULL) : 0;
    return n > 0 ? n : SECONDS;
}

static int
fail_hung(const struct helper *h, double seconds)
{
    return fail(E_IO,
                "%s: '%s %s' made no progress for %g seconds and was ended; check the store, or set "
                "RILLE_STORE_SECONDS",
                h->url, store_program(), h->verb, seconds);
}

/* Checks that the helper makes progress, and that its caller was not cancelled. since_ns: time of the last progress. */
static int
helper_check(const struct helper *h, int64_t *progress, int64_t *since_ns)
{
    double seconds = store_seconds();
    int64_t now = now_ns(), next = helper_progress(h);
    if (next != *progress) *since_ns = now;
    *progress = next;
    return (double)(now - *since_ns) > seconds * 1e9 ? fail_hung(h, seconds) : stop_caller_check();
}

/* Waits for the helper's end. Kills a helper that makes no progress, or whose caller was cancelled. */
static int
helper_await(const struct helper *h, int *ended)
{
    struct timespec pause = {0, 1000000};
    int64_t since_ns = 0, progress = -1;
    for (;;) {
        pid_t pid = waitpid(h->pid, ended, WNOHANG);
        if (pid == h->pid) return 0;
        if (pid < 0 && errno != EINTR) return fail(E_IO, "%s: waitpid: %s", h->url, strerror(errno));
        int status = helper_check(h, &progress, &since_ns);
        if (status) {
            helper_kill(h);
            return status;
        }
        nanosleep(&pause, NULL);
        pause.tv_nsec = MIN(pause.tv_nsec * 2, 50000000);
    }
}

/* Fails with the helper's exit code and the end of what it wrote to stderr. */
static int
fail_ended(const struct helper *h, int ended)
{
    char text[TOLD + 1];
    off_t size = lseek(h->err, 0, SEEK_END);
    ssize_t n = pread(h->err, text, TOLD, MAX(size - TOLD, 0));
    n = MAX(n, 0);
    while (n && text[n - 1] == '\n') n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
    text[n] = '\0';
    return fail(E_IO, "%s: '%s %s' ended with %s %d%s%s", h->url, store_program(), h->verb,
                WIFEXITED(ended) ? "exit code" : "signal", WIFEXITED(ended) ? WEXITSTATUS(ended) : WTERMSIG(ended),
                n ? ": " : "", text);
}

/* Runs the helper program once. in: file with its input; -1: none. out: file for its output; -1: none. */
static int
run_helper(const char *verb, const char *url, int in, int out)
{
    int ended = 0;
    TRY(store_check(url));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return fail(E_IO, "/dev/null: %s", strerror(errno));
    struct helper h = {.verb = verb, .url = url, .in = in < 0 ? null : in, .out = out < 0 ? null : out};
    int status = store_temporary(url, &h.err);
    if (!status) status = helper_start(&h);
    if (!status) status = helper_await(&h, &ended);
    if (!status && ended) status = fail_ended(&h, ended);
    if (h.err >= 0) close(h.err);
    close(null);
    return status;
}

/* ---- keeping the files that were fetched ---- */

static struct fetched {
    struct fetched *next;
    int fd;
    char url[];
} * fetched;
static pthread_mutex_t fetched_lock = PTHREAD_MUTEX_INITIALIZER;

static void
store_forget(void)
{
    pthread_mutex_lock(&fetched_lock);
    while (fetched) {
        struct fetched *f = fetched;
        fetched = f->next;
        close(f->fd);
        free(f);
    }
    pthread_mutex_unlock(&fetched_lock);
}

/* Returns a duplicate of the descriptor of a fetched file; -1: it was not fetched. */
static int
find_fetched(const char *url)
{
    int fd = -1;
    pthread_mutex_lock(&fetched_lock);
    for (const struct fetched *f = fetched; f && fd < 0; f = f->next)
        if (!strcmp(f->url, url)) fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&fetched_lock);
    return fd;
}

static void
keep_fetched(const char *url, int fd)
{
    size_t n = strlen(url) + 1;
    struct fetched *f = must_alloc(sizeof *f + n);
    memcpy(f->url, url, n);
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_lock(&fetched_lock);
    f->next = fetched;
    fetched = f;
    pthread_mutex_unlock(&fetched_lock);
}

/* ---- storing, fetching and listing objects ---- */

int
store_list(const char *url, struct str *lines)
{
    int fd;
    struct stat st;
    TRY(store_temporary(url, &fd));
    int status = run_helper("list", url, -1, fd);
    if (!status && (fstat(fd, &st) || st.st_size > LIST_MOST))
        status = fail(E_IO, "%s: '%s list' must print at most %d bytes", url, store_program(), LIST_MOST);
    size_t n = status ? 0 : (size_t)st.st_size;
    char *text = must_alloc(n + 1);
    if (n && pread(fd, text, n, 0) != (ssize_t)n) status = fail(E_IO, "%s: %s", url, strerror(errno));
    str_addn(lines, text, n);
    free(text);
    close(fd);
    return status;
}

/* Returns the next line "SIZE NAME" of a list as a size and a name of *length bytes, and advances *at. Skips other
 * lines. NULL: the list ends. */
static const char *
next_object(const char **at, int64_t *size, size_t *length)
{
    while (**at) {
        char *end;
        const char *line = *at, *stop = line + strcspn(line, "\n");
        *at = stop + (*stop != '\0');
        *size = strtoll(line, &end, 10);
        if (end == line || *end != ' ' || *size < 0) continue;
        *length = (size_t)(stop - end - 1);
        return end + 1;
    }
    return NULL;
}

int64_t
store_size(const struct str *lines, const char *name)
{
    const char *at = str_text(lines), *found;
    int64_t size;
    size_t n;
    while ((found = next_object(&at, &size, &n)))
        if (n == strlen(name) && !memcmp(found, name, n)) return size;
    return -1;
}

int
store_visit(const char *url, void (*visit)(void *arg, const char *name), void *arg)
{
    struct str lines = {0}, name = {0};
    int64_t size;
    size_t n;
    store_forget();
    int status = store_list(url, &lines);
    for (const char *at = str_text(&lines), *found; !status && (found = next_object(&at, &size, &n));) {
        str_clear(&name);
        str_addn(&name, found, n);
        visit(arg, name.text);
    }
    str_free(&lines);
    str_free(&name);
    return status;
}

/* Checks that the store lists the object with the size that was stored. */
static int
check_put(const char *url, int64_t size)
{
    const char *slash = strrchr(url, '/');
    struct str folder = {0}, lines = {0};
    str_addn(&folder, url, (size_t)(slash - url));
    int status = store_list(folder.text, &lines);
    int64_t found = status ? size : store_size(&lines, slash + 1);
    if (found < 0)
        status = fail(E_IO, "%s: '%s put' ended with exit code 0, but its list lacks the object", url, store_program());
    if (found >= 0 && found != size)
        status = fail(E_IO, "%s: '%s put' ended with exit code 0, but expected %lld bytes in its list, found %lld", url,
                      store_program(), (long long)size, (long long)found);
    str_free(&folder);
    str_free(&lines);
    return status;
}

int
store_put(const char *url, int fd)
{
    struct stat st;
    store_forget();
    if (fstat(fd, &st) || lseek(fd, 0, SEEK_SET)) return fail(E_IO, "%s: %s", url, strerror(errno));
    TRY(run_helper("put", url, fd, -1));
    return check_put(url, (int64_t)st.st_size);
}

int
store_get(const char *url, int *fd)
{
    *fd = find_fetched(url);
    if (*fd >= 0) return 0;
    TRY(store_temporary(url, fd));
    int status = run_helper("get", url, -1, *fd);
    if (!status) {
        keep_fetched(url, *fd);
        return 0;
    }
    close(*fd);
    *fd = -1;
    return status;
}

int
store_delete(const char *url)
{
    store_forget();
    return run_helper("delete", url, -1, -1);
}

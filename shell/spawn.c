/* spawn.c - worker processes of this program, and their output line by line behind their rank.
 *
 * A worker is in a process group of its own, so that the terminal's Ctrl-C is the controller's alone. Its secret comes
 * by a pipe. What it writes goes through two pipes to one thread here, which puts "[1] " before each line. */
#include "shell/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 2 * FRONT_CHILDREN, LINE = 4096, SECRET_FD = 3 };

extern char **environ;

struct stream { /* one output of one worker */
    int fd, rank, to;
    size_t n;
    char line[LINE];
};

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool runs, quit;
    struct stream *stream[STREAMS];
    int n, wake[2];
} out = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- lines ---- */

static void
put_line(struct stream *s, bool whole)
{
    if (s->n == 0) return;
    FILE *to = s->to == 1 ? stdout : stderr;
    flockfile(to);
    fprintf(to, "[%d] ", s->rank);
    fwrite(s->line, 1, s->n, to);
    if (!whole) putc_unlocked('\n', to);
    fflush(to);
    funlockfile(to);
    s->n = 0;
}

/* False: the stream has ended. */
static bool
take_bytes(struct stream *s)
{
    char bytes[LINE];
    ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    for (ssize_t i = 0; i < n; i++) {
        s->line[s->n++] = bytes[i];
        if (bytes[i] == '\n' || s->n == sizeof s->line) put_line(s, bytes[i] == '\n');
    }
    if (n > 0) return true;
    put_line(s, false);
    return false;
}

static void *
read_streams(void *arg)
{
    struct pollfd fd[STREAMS + 1];
    struct stream *stream[STREAMS];
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&out.lock);
        int n = out.n;
        bool quit = out.quit;
        memcpy(stream, out.stream, sizeof *stream * (size_t)n);
        pthread_mutex_unlock(&out.lock);
        if (quit && n == 0) return NULL;
        fd[n] = (struct pollfd){.fd = out.wake[0], .events = POLLIN};
        for (int i = 0; i < n; i++) fd[i] = (struct pollfd){.fd = stream[i]->fd, .events = POLLIN};
        poll(fd, (nfds_t)n + 1, quit ? 1000 : -1);
        char byte;
        if (fd[n].revents && read(out.wake[0], &byte, 1) < 0) continue;
        for (int i = 0; i < n; i++) {
            if (!fd[i].revents || take_bytes(stream[i])) continue;
            pthread_mutex_lock(&out.lock);
            for (int k = 0; k < out.n; k++)
                if (out.stream[k] == stream[i]) out.stream[k] = out.stream[--out.n];
            pthread_mutex_unlock(&out.lock);
            close(stream[i]->fd);
            free(stream[i]);
        }
    }
}

static void
wake(void)
{
    if (write(out.wake[1], "", 1) < 0) return;
}

static int
start_thread(void)
{
    sigset_t all, was;
    if (out.runs) return 0;
    if (pipe2(out.wake, O_CLOEXEC | O_NONBLOCK)) return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    out.runs = !pthread_create(&out.thread, NULL, read_streams, NULL);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return out.runs ? 0 : -1;
}

static void
add_stream(int fd, int rank, int to)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return;
    }
    *s = (struct stream){.fd = fd, .rank = rank, .to = to};
    pthread_mutex_lock(&out.lock);
    bool capacity = out.n < STREAMS;
    if (capacity) out.stream[out.n++] = s;
    pthread_mutex_unlock(&out.lock);
    if (!capacity) {
        close(fd);
        free(s);
    }
    wake();
}

void
spawn_close(void)
{
    if (!out.runs) return;
    pthread_mutex_lock(&out.lock);
    out.quit = true;
    pthread_mutex_unlock(&out.lock);
    wake();
    pthread_join(out.thread, NULL);
    close(out.wake[0]);
    close(out.wake[1]);
    out.runs = out.quit = false;
}

/* ---- processes ---- */

/* This program, by its name where it still has it. */
static const char *
own_path(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n > 0) path[n] = 0;
    return n > 0 && !access(path, X_OK) ? path : "/proc/self/exe";
}

static int
spawn(char *const argv[], const int fds[3], int secret, int *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, fds[1], 1);
    posix_spawn_file_actions_adddup2(&files, fds[2], 2);
    posix_spawn_file_actions_adddup2(&files, secret, SECRET_FD);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    pid_t child;
    int code = posix_spawn(&child, own_path(), &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    *pid = (int)child;
    return code;
}

static void
close_pair(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
}

/* A pipe whose ends are none of 0 to 3, which the child's own are to become. */
static int
high_pipe(int fd[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC)) return -1;
    for (int i = 0; i < 2; i++) fd[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 16);
    close_pair(low);
    return fd[0] >= 0 && fd[1] >= 0 ? 0 : -1;
}

static int
add_word(char **argv, int n, const char *option, const char *value)
{
    if (!value) return n;
    argv[n] = (char *)(uintptr_t)option;
    argv[n + 1] = (char *)(uintptr_t)value;
    argv[n + 2] = NULL;
    return n + 2;
}

int
spawn_worker(const struct spawned *w, int *pid)
{
    int key[2] = {-1, -1}, text[2] = {-1, -1}, errors[2] = {-1, -1};
    char number[16], *argv[20];
    snprintf(number, sizeof number, "%d", w->rank);
    int n = add_word(argv, 0, "rille", "worker");
    n = add_word(argv, n, "--join", w->address);
    n = add_word(argv, n, "--rank", number);
    n = add_word(argv, n, "--secret-fd", "3");
    n = add_word(argv, n, "-d", w->devices);
    n = add_word(argv, n, "--key-file", w->key_file);
    add_word(argv, n, "--host", w->host);
    int code = start_thread() || high_pipe(key) || high_pipe(text) || high_pipe(errors) ? errno : 0;
    const int fds[3] = {0, text[1], errors[1]};
    if (!code && write(key[1], w->secret, RILLE_SECRET) != RILLE_SECRET) code = EIO;
    if (!code) code = spawn(argv, fds, key[0], pid);
    if (!code) {
        add_stream(text[0], w->rank, 1);
        add_stream(errors[0], w->rank, 2);
        text[0] = errors[0] = -1;
    }
    close_pair(key);
    close_pair(text);
    close_pair(errors);
    if (code) fprintf(stderr, "rille: worker %d could not be started: %s\n", w->rank, strerror(code));
    return code;
}

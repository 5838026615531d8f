/* spawn.c - starts worker processes of this program, and prints their output with the rank before each line.
 *
 * Each worker has its own process group, so that only the controller receives the terminal's Ctrl-C. Two pipes carry
 * a worker's output to one thread here, which puts "[1] " before each line. A worker reads its secret and key from
 * stdin, which stays open while this process lives. When stdin ends, the worker exits. For a worker on another host,
 * ssh is the child of this process and carries the three streams; ending ssh ends the worker. */
#include "shell/launch/spawn.h"
#include "shell/launch/front_keys.h"
#include "runtime/base/system.h"

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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STREAMS = 2 * FRONT_CHILDREN,
    LINE = 4096,
    KEY_MOST = 60000, /* maximum bytes of a key: key and secret together must fit the buffer of a pipe */
    SIZE = 2,
    LEAVE_SECONDS = 2,
    WORDS = 40,
    CARRIED = 16
};

extern char **environ;

struct stream { /* an output stream of a worker */
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

static int life[FRONT_CHILDREN]; /* by rank: 1 + descriptor of the write end of the worker's stdin; 0: none */

static void
close_pair(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
}

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

/* Reads from the stream and prints complete lines. Returns false when the stream has ended. */
static bool
stream_fill(struct stream *s)
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
            if (!fd[i].revents || stream_fill(stream[i])) continue;
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
wake_spawner(void)
{
    if (write(out.wake[1], "", 1) < 0) return;
}

/* Starts the thread that prints the output of workers, unless it runs. Returns 0 or an errno. */
static int
start_spawn_thread(void)
{
    if (out.runs) return 0;
    if (system_pipe(out.wake, true)) return errno;
    int code = system_thread_start(&out.thread, read_streams, NULL);
    out.runs = !code;
    if (code) close_pair(out.wake);
    return code;
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
    wake_spawner();
}

static void
keep_life(int rank, int fd)
{
    if (life[rank]) close(life[rank] - 1);
    life[rank] = fd + 1;
}

void
spawn_close(void)
{
    for (int r = 0; r < FRONT_CHILDREN; r++) keep_life(r, -1);
    if (!out.runs) return;
    pthread_mutex_lock(&out.lock);
    out.quit = true;
    pthread_mutex_unlock(&out.lock);
    wake_spawner();
    pthread_join(out.thread, NULL);
    close(out.wake[0]);
    close(out.wake[1]);
    out.runs = out.quit = false;
}

/* ---- processes ---- */

/* Returns the path of this program; /proc/self/exe if the file was moved or deleted. */
static const char *
program_path(void)
{
    static char path[4096];
    return system_program(path, sizeof path) && !access(path, X_OK) ? path : "/proc/self/exe";
}

static int
spawn(const char *program, char *const argv[], const int fds[3], int *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&files, fds[i], i);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    pid_t child;
    int code = posix_spawnp(&child, program, &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    *pid = (int)child;
    return code;
}

/* Creates a pipe with descriptors of 16 and above, because the child's descriptors 0 to 2 are replaced by pipe ends.
 * Returns an errno. */
static int
high_pipe(int fd[2])
{
    int low[2], code = 0;
    if (system_pipe(low, false)) return errno;
    for (int i = 0; i < 2; i++)
        if ((fd[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 16)) < 0) code = errno;
    close_pair(low);
    return code;
}

/* ---- starting a worker ---- */

struct command {
    char *argv[WORDS];
    int n;
};

static void
command_add_word(struct command *c, const char *word)
{
    c->argv[c->n++] = (char *)(uintptr_t)word;
}

static void
add_option(struct command *c, const char *option, const char *value)
{
    if (!value) return;
    command_add_word(c, option);
    command_add_word(c, value);
}

/* Adds the environment variables that are passed on to other hosts: settings of the computation, but no secrets. */
static void
export_variables(struct command *c)
{
    static const char *const carried[] = {"RILLE_CHECK=", "RILLE_THREADS=",        "RILLE_OPERATORS=", "OMP_",
                                          "GOMP_",        "CUDA_VISIBLE_DEVICES=", "RILLE_STORE"};
    int n = 0;
    command_add_word(c, "env");
    for (char **at = environ; *at; at++)
        for (size_t i = 0; i < sizeof carried / sizeof *carried; i++)
            if (!strncmp(*at, carried[i], strlen(carried[i])) && n++ < CARRIED) command_add_word(c, *at);
}

/* Returns the command as text, quoted so that one evaluation by a shell restores it. The caller frees the text.
 * NULL: out of memory. */
static char *
quote(const struct command *c)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    fputs("exec", to);
    for (int i = 0; i < c->n; i++) {
        fputs(" '", to);
        for (const char *at = c->argv[i]; *at; at++) fprintf(to, *at == '\'' ? "'\\''" : "%c", *at);
        putc('\'', to);
    }
    bool failed = ferror(to);
    if (!fclose(to) && !failed) return text;
    free(text);
    return NULL;
}

/* Builds the ssh command that runs `text` on the host. The program must have the same path on the host as here. */
static void
over_ssh(const struct host *h, const char *text, char port[16], struct command *ssh)
{
    static const char *const settings[] = {"BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3"};
    command_add_word(ssh, "ssh");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) add_option(ssh, "-o", settings[i]);
    snprintf(port, 16, "%d", h->port);
    add_option(ssh, "-p", h->port ? port : NULL);
    add_option(ssh, "-l", *h->user ? h->user : NULL);
    command_add_word(ssh, "--");
    command_add_word(ssh, h->name);
    command_add_word(ssh, text);
}

/* Reads a key file of at most KEY_MOST bytes; returns an errno. */
static int
read_key_bytes(const char *path, unsigned char *bytes, size_t *size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno;
    ssize_t n = read(file, bytes, KEY_MOST + 1);
    int code = n < 0 ? errno : n > KEY_MOST ? EFBIG : 0;
    close(file);
    *size = code ? 0 : (size_t)n;
    return code;
}

/* Writes the secret, the size of the key, and the key, in one write: together they fit the buffer of a pipe. */
static int
write_secrets(int fd, const struct spawned *w)
{
    unsigned char bytes[RILLE_SECRET + SIZE + KEY_MOST + 1];
    size_t n = 0;
    int code = w->key_file ? read_key_bytes(w->key_file, bytes + RILLE_SECRET + SIZE, &n) : 0;
    memcpy(bytes, w->secret, RILLE_SECRET);
    bytes[RILLE_SECRET] = (unsigned char)(n & 255);
    bytes[RILLE_SECRET + 1] = (unsigned char)(n >> 8);
    n += RILLE_SECRET + SIZE;
    if (!code && write(fd, bytes, n) != (ssize_t)n) code = EIO;
    system_erase(bytes, sizeof bytes);
    return code;
}

int
spawn_worker(const struct spawned *w, int *pid)
{
    int in[2] = {-1, -1}, text[2] = {-1, -1}, errors[2] = {-1, -1};
    char number[16], port[16], keep[16], link[32], orphan[32], *line = NULL;
    struct command run = {0}, ssh = {0};
    snprintf(number, sizeof number, "%d", w->rank);
    if (w->over_ssh) export_variables(&run);
    command_add_word(&run, w->over_ssh ? program_path() : "rille");
    command_add_word(&run, "worker");
    command_add_word(&run, "--stdin");
    add_option(&run, "--join", w->address);
    add_option(&run, "--rank", number);
    add_option(&run, "-d", w->devices);
    add_option(&run, "--collectives", w->collectives);
    add_option(&run, "--host", w->host);
    snprintf(keep, sizeof keep, "%d", w->keep);
    add_option(&run, "--root", w->root);
    add_option(&run, "--keep", w->keep ? keep : NULL);
    snprintf(link, sizeof link, "%g", w->link);
    add_option(&run, "--link", w->link ? link : NULL);
    snprintf(orphan, sizeof orphan, "%g", w->orphan);
    add_option(&run, "--orphan", w->orphan ? orphan : NULL);
    if (w->over_ssh && !(line = quote(&run))) return ENOMEM;
    if (line) over_ssh(w->over_ssh, line, port, &ssh);
    int code = start_spawn_thread();
    if (!code) code = high_pipe(in);
    if (!code) code = high_pipe(text);
    if (!code) code = high_pipe(errors);
    const int fds[3] = {in[0], text[1], errors[1]};
    if (!code) code = write_secrets(in[1], w);
    if (!code) code = spawn(w->over_ssh ? "ssh" : program_path(), w->over_ssh ? ssh.argv : run.argv, fds, pid);
    if (!code) {
        add_stream(text[0], w->rank, 1);
        add_stream(errors[0], w->rank, 2);
        keep_life(w->rank, in[1]);
        in[1] = text[0] = errors[0] = -1;
    }
    close_pair(in);
    close_pair(text);
    close_pair(errors);
    free(line);
    if (code && w->over_ssh)
        fprintf(stderr, "rille: worker %d: cannot run ssh to start it on %s: %s\n", w->rank, w->over_ssh->name,
                strerror(code));
    else if (code)
        fprintf(stderr, "rille: worker %d could not be started: %s%s\n", w->rank, strerror(code),
                code == EAGAIN || code == ENOMEM
                    ? "; increase the limits of processes and memory (ulimit -u, ulimit -v)"
                    : "");
    return code;
}

/* ---- functions that run in the spawned worker ---- */

static bool
read_fully(int fd, void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t more = read(fd, (char *)to + got, n - got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return false;
        got += (size_t)more;
    }
    return true;
}

/* Waits for the end of stdin, which means that the process that started this worker has died or is ending. For
 * LEAVE_SECONDS the controller can still end the worker through its connection. After that the worker exits with
 * an error. */
static void *
await_end(void *arg)
{
    char byte;
    while (read_fully(0, &byte, 1)) continue;
    sleep(LEAVE_SECONDS);
    rille_sweep(arg);
    fputs("rille: worker: the connection over which it was started has ended\n", stderr);
    _exit(1);
}

const char *
spawned_read(unsigned char secret[RILLE_SECRET], const char **key_file, const char *join, bool kept)
{
    static char path[KEY_PATH];
    unsigned char size[SIZE];
    char key[KEY_MOST];
    pthread_t thread;
    *key_file = NULL;
    static const char none[] = "worker: --stdin: no secret was received";
    if (!read_fully(0, secret, RILLE_SECRET) || !read_fully(0, size, SIZE)) return none;
    size_t n = size[0] + ((size_t)size[1] << 8);
    bool good = n <= KEY_MOST && read_fully(0, key, n) && !(n && key_in_memory(key, n, path));
    system_erase(key, sizeof key);
    if (!good) return none;
    if (n) *key_file = path;
    if (kept) return NULL;
    int code = system_thread_start(&thread, await_end, (void *)(uintptr_t)join);
    return code ? "worker: a thread could not be started; increase the largest number of threads (ulimit -u)" : NULL;
}

/* munge.c - passes the key of a job from rank 0 to the workers, through munge (--key-file munge:).
 *
 * munge encrypts a text as a credential, which only processes of hosts with the same munge key can read, once, and for
 * a few minutes. The credential names the user who made it. A worker connects to the key port of the coordinator's
 * host, and sends a request with a random number. The coordinator checks the user, and answers with the number and
 * the key, readable by this user only. The worker checks user and number. The key port is PORT of "munge:PORT", or the
 * port after the job's own. The programs munge and unmunge must be in PATH; munged must run. */
#include "shell/launch/munge.h"
#include "shell/launch/front_keys.h"
#include "shell/bind/base/clock.h"
#include "shell/run/run.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MOST = 8192, NONCE = 32, PATIENCE_S = 5, PROGRAM_S = 10 };
#define REQUEST "rille key request\n"
#define ANSWER  "rille key answer\n"
#define REFUSED "refused: "

extern char **environ;

struct munge_text { /* a payload, a credential, or an error text, with a final zero byte */
    size_t n;
    char text[TEXT_MOST];
};

struct key_port {
    char host[FRONT_TEXT], port[16];
};

struct key_server {
    int fd;
    char *key; /* text of the key file */
};

/* Sets the text, and returns false, so that callers can return the failure. */
static bool __attribute__((format(printf, 2, 3))) munge_fails(struct munge_text *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
    for (char *c = why->text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = ' ';
    why->n = strlen(why->text);
    while (why->n && why->text[why->n - 1] == ' ') why->text[--why->n] = '\0';
    return false;
}

/* ---- running the programs munge and unmunge ---- */

/* Waits for a program's end; kills a program that needs more than 10 seconds. Returns its wait status. */
static int
await_program(pid_t pid)
{
    const struct timespec pause = {0, 2000000};
    int ended = 0;
    for (double end = clock_seconds() + PROGRAM_S;;) {
        pid_t got = waitpid(pid, &ended, WNOHANG);
        if (got == pid) return ended;
        if (got < 0 && errno != EINTR) return SIGKILL;
        if (clock_seconds() > end) kill(pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}

static int
start_program(char *const argv[], const int fds[3], pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&files, fds[i], i);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    int code = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return code;
}

static void
read_program_text(int fd, struct munge_text *out)
{
    ssize_t n = pread(fd, out->text, TEXT_MOST - 1, 0);
    out->n = n > 0 ? (size_t)n : 0;
    out->text[out->n] = '\0';
}

/* Sets the error of a program that failed: the text on stderr, or, without one, the first line on stdout. */
static bool
program_failed(const char *program, int ended, const int fds[3], struct munge_text *why)
{
    struct munge_text said;
    read_program_text(fds[2], &said);
    if (!said.n) read_program_text(fds[1], &said);
    said.text[strcspn(said.text, "\n")] = '\0';
    return munge_fails(why, "%s ended with %s %d: %.400s; munged must run on each host, with the same munge key",
                       program, WIFEXITED(ended) ? "exit code" : "signal",
                       WIFEXITED(ended) ? WEXITSTATUS(ended) : WTERMSIG(ended), said.text);
}

/* Runs a program that reads `in` and writes *out. Files in memory carry the texts, so that no disk holds a key. */
static bool
munge_run(char *const argv[], const struct munge_text *in, struct munge_text *out, struct munge_text *why)
{
    char path[3][KEY_PATH];
    int fds[3], code = 0, ended = 0;
    pid_t pid;
    for (int i = 0; i < 3; i++)
        if ((fds[i] = system_unnamed_file(path[i], KEY_PATH)) < 0) code = errno;
    if (!code && write(fds[0], in->text, in->n) != (ssize_t)in->n) code = errno;
    if (!code) lseek(fds[0], 0, SEEK_SET);
    if (!code) code = start_program(argv, fds, &pid);
    if (!code) ended = await_program(pid);
    bool good = !code && !ended;
    if (good) read_program_text(fds[1], out);
    if (ended) program_failed(argv[0], ended, fds, why);
    if (code)
        munge_fails(why, "the program %s cannot be started: %s; install the package munge", argv[0], strerror(code));
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    return good;
}

/* Makes a credential that only this user can read. */
static bool
munge_encode(const struct munge_text *in, struct munge_text *out, struct munge_text *why)
{
    char user[64];
    snprintf(user, sizeof user, "--restrict-uid=%ld", (long)geteuid());
    char *argv[] = {"munge", "--cipher=aes128", user, NULL};
    return munge_run(argv, in, out, why);
}

/* Returns the number of the user in unmunge's output: a line "UID: NAME (NUMBER)"; -1: there is none. */
static long
user_of(const char *text)
{
    long user = -1;
    const char *line = strstr(text, "\nUID:"), *number = line ? strchr(line, '(') : NULL;
    return number && sscanf(number, "(%ld)", &user) == 1 ? user : -1;
}

/* Decodes a credential, and checks that this user made it. */
static bool
munge_decode(const struct munge_text *in, struct munge_text *out, struct munge_text *why)
{
    char *argv[] = {"unmunge", "--keys=STATUS,UID", NULL};
    struct munge_text all;
    if (!munge_run(argv, in, &all, why)) return false;
    const char *payload = strstr(all.text, "\n\n");
    long user = user_of(all.text);
    bool good = payload && user == (long)geteuid();
    if (good)
        out->n = (size_t)snprintf(out->text, TEXT_MOST, "%s", payload + 2);
    else
        munge_fails(why, "expected a credential of user %ld, found one of user %ld", (long)geteuid(), user);
    system_erase(all.text, sizeof all.text);
    return good;
}

/* ---- sockets ---- */

static bool
find_key_port(const char *spec, const char *address, struct key_port *out, struct munge_text *why)
{
    const char *host = address + strlen("tcp://"), *colon = strrchr(address, ':'), *given = spec + strlen("munge:");
    bool six = *host == '[';
    long port = *given ? strtol(given, NULL, 10) : strtol(colon + 1, NULL, 10) + 1;
    if (!*given && colon[1] == '*')
        return munge_fails(why, "the job's port is chosen at the start; write munge:PORT with a port for keys");
    if (port < 1 || port > 65535 || given[strspn(given, "0123456789")])
        return munge_fails(why, "the port for keys must be from 1 to 65535, found %s", *given ? given : colon + 1);
    snprintf(out->host, sizeof out->host, "%.*s", (int)(colon - host) - 2 * six, host + six);
    snprintf(out->port, sizeof out->port, "%ld", port);
    return true;
}

static void
limit_time(int fd)
{
    const struct timeval limit = {.tv_sec = PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Opens a socket that is bound or connected to the key port. */
static int
open_key_socket(const struct key_port *p, bool serves, struct munge_text *why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = serves ? AI_PASSIVE : 0};
    struct addrinfo *list;
    int fd = -1, one = 1, code = getaddrinfo(strcmp(p->host, "*") ? p->host : NULL, p->port, &hints, &list);
    if (code) return munge_fails(why, "%s:%s: %s", p->host, p->port, gai_strerror(code)) - 1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = system_socket(a->ai_family, a->ai_socktype, false);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        limit_time(fd);
        bool good =
            serves ? !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 128) : !connect(fd, a->ai_addr, a->ai_addrlen);
        if (good) break;
        munge_fails(why, "%s:%s: %s", p->host, p->port, strerror(errno));
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

static bool
munge_send(int fd, const struct munge_text *t)
{
    for (size_t sent = 0; sent < t->n;) {
        ssize_t n = send(fd, t->text + sent, t->n - sent, MSG_NOSIGNAL);
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

/* Receives a line. Returns false if the peer sent too much, or no line within five seconds. */
static bool
munge_receive(int fd, struct munge_text *out)
{
    double end = clock_seconds() + PATIENCE_S;
    for (out->n = 0; out->n < TEXT_MOST - 1 && clock_seconds() < end;) {
        ssize_t n = recv(fd, out->text + out->n, TEXT_MOST - 1 - out->n, 0);
        if (n <= 0) return false;
        out->n += (size_t)n;
        out->text[out->n] = '\0';
        if (strchr(out->text, '\n')) return true;
    }
    return false;
}

/* ---- the coordinator's side: serving the key ---- */

static bool
answer_key_request(const struct key_server *s, const struct munge_text *request, struct munge_text *answer,
                   struct munge_text *why)
{
    struct munge_text asked, plain;
    if (!munge_decode(request, &asked, why)) return false;
    if (asked.n != strlen(REQUEST) + NONCE || strncmp(asked.text, REQUEST, strlen(REQUEST)))
        return munge_fails(why, "the credential is not a request for a key");
    plain.n = (size_t)snprintf(plain.text, TEXT_MOST, ANSWER "%s\n%s", asked.text + strlen(REQUEST), s->key);
    bool good = munge_encode(&plain, answer, why);
    system_erase(plain.text, sizeof plain.text);
    return good;
}

static void *
serve_keys(void *arg)
{
    struct key_server *s = arg;
    struct munge_text request, answer, why;
    for (;;) {
        int fd = system_accept(s->fd, false);
        if (fd < 0 && (errno == EBADF || errno == EINVAL)) return NULL;
        if (fd < 0) continue;
        limit_time(fd);
        if (munge_receive(fd, &request)) {
            if (!answer_key_request(s, &request, &answer, &why))
                answer.n = (size_t)snprintf(answer.text, TEXT_MOST, REFUSED "%.1000s\n", why.text);
            munge_send(fd, &answer);
        }
        close(fd);
    }
}

static int
munge_refused(const struct munge_text *why)
{
    char text[1024];
    snprintf(text, sizeof text, "--key-file munge: %.900s", why->text);
    tell_line(text);
    return 1;
}

bool
munge_is_named(const char *key_file)
{
    return key_file && !strncmp(key_file, "munge:", strlen("munge:"));
}

/* Sets *path, and returns true, if the key does not come from munge. */
static bool
is_other_key(const char *key_file, const char *address, const char **path)
{
    bool munge = munge_is_named(key_file);
    *path = munge ? NULL : key_file;
    return !munge || strncmp(address, "tcp://", strlen("tcp://"));
}

int
munge_serve(const char *key_file, const char *address, const char **path)
{
    static char memory[KEY_PATH];
    static struct key_server server;
    struct key_port port;
    struct munge_text why, none = {.n = 0}, credential;
    pthread_t thread;
    if (is_other_key(key_file, address, path)) return 0;
    if (!find_key_port(key_file, address, &port, &why) || !munge_encode(&none, &credential, &why))
        return munge_refused(&why);
    if (rille_key_new(&server.key)) return munge_fails(&why, "%s", rille_error()), munge_refused(&why);
    if ((server.fd = open_key_socket(&port, true, &why)) < 0) return munge_refused(&why);
    int code = key_in_memory(server.key, strlen(server.key), memory);
    if (!code) code = system_thread_start(&thread, serve_keys, &server);
    if (code) return munge_fails(&why, "%s", strerror(code)), munge_refused(&why);
    pthread_detach(thread);
    *path = memory;
    return 0;
}

/* ---- a worker's side: fetching the key ---- */

static bool
make_nonce(char out[NONCE + 1])
{
    unsigned char bytes[NONCE / 2];
    if (getentropy(bytes, sizeof bytes)) return false;
    for (int i = 0; i < NONCE / 2; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* Asks for the key over an open connection. */
static bool
ask_for_key(int fd, struct munge_text *key, struct munge_text *why)
{
    char nonce[NONCE + 1];
    struct munge_text plain, line;
    const size_t head = strlen(ANSWER), from = head + NONCE + 1;
    if (!make_nonce(nonce)) return munge_fails(why, "no random numbers: %s", strerror(errno));
    plain.n = (size_t)snprintf(plain.text, TEXT_MOST, REQUEST "%s", nonce);
    if (!munge_encode(&plain, &line, why)) return false;
    if (!munge_send(fd, &line) || !munge_receive(fd, &line)) return munge_fails(why, "the key port sent no answer");
    if (!strncmp(line.text, REFUSED, strlen(REFUSED))) return munge_fails(why, "%.1000s", line.text);
    if (!munge_decode(&line, &plain, why)) return false;
    bool good = plain.n > from && !strncmp(plain.text, ANSWER, head) && !strncmp(plain.text + head, nonce, NONCE);
    if (!good) return munge_fails(why, "the answer belongs to another request");
    key->n = (size_t)snprintf(key->text, TEXT_MOST, "%s", plain.text + from);
    system_erase(plain.text, sizeof plain.text);
    return true;
}

int
munge_fetch(const char *key_file, const char *address, int wait_s, const char **path)
{
    static char memory[KEY_PATH];
    const struct timespec pause = {0, 200000000};
    struct key_port port;
    struct munge_text key, why;
    int fd, code = 0;
    if (is_other_key(key_file, address, path)) return 0;
    if (!find_key_port(key_file, address, &port, &why)) return munge_refused(&why);
    for (double end = clock_seconds() + wait_s; (fd = open_key_socket(&port, false, &why)) < 0;) {
        if (clock_seconds() > end) {
            struct munge_text last = why;
            munge_fails(&why, "no key in %d seconds; the coordinator must use munge, too: %.500s", wait_s, last.text);
            return munge_refused(&why);
        }
        nanosleep(&pause, NULL);
    }
    bool good = ask_for_key(fd, &key, &why);
    close(fd);
    if (!good) return munge_refused(&why);
    code = key_in_memory(key.text, key.n, memory);
    system_erase(key.text, sizeof key.text);
    if (code) return munge_fails(&why, "%s", strerror(code)), munge_refused(&why);
    *path = memory;
    return 0;
}

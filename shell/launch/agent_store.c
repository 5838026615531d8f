/* agent_store.c - reads and writes keys in the store of torchrun's agent.
 *
 * The agent listens at MASTER_ADDR:MASTER_PORT if TORCHELASTIC_USE_AGENT_STORE is True. The agent occupies that port,
 * so rank 0 stores the coordinator's address under a key, and the other ranks wait for this key.
 *
 * Protocol (TCPStore of PyTorch 2.4 to 2.15): a request is one byte for its kind, followed by its fields. A text is
 * sent as its length (8 bytes) and its bytes. The client puts a slash before each key. Numbers have the host's byte
 * order. */
#include "shell/launch/agent_store.h"
#include "shell/bind/base/shell.h"
#include "shell/run/run.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    VALIDATE = 0,
    SET = 1,
    GET = 3,
    WAIT = 6,
    DELETE_KEY = 8,
    MAGIC = 0x3c85f7ce,
    PUT_SECONDS = 60,
    REMOVE_SECONDS = 2
};

struct request {
    size_t n;
    char bytes[4 * FRONT_TEXT];
};

static void
request_bytes(struct request *q, const void *bytes, size_t n)
{
    memcpy(q->bytes + q->n, bytes, n);
    q->n += n;
}

static void
request_number(struct request *q, uint64_t number)
{
    request_bytes(q, &number, sizeof number);
}

static void
request_text(struct request *q, const char *text)
{
    request_number(q, strlen(text));
    request_bytes(q, text, strlen(text));
}

static void
request_kind(struct request *q, char kind)
{
    request_bytes(q, &kind, 1);
}

/* Begins the first request of a connection, which must be VALIDATE with a magic number. */
static void
request_validate(struct request *q)
{
    static const uint32_t magic = MAGIC;
    request_kind(q, VALIDATE);
    request_bytes(q, &magic, sizeof magic);
}

static void
request_wait(struct request *q, const char *key)
{
    request_kind(q, WAIT);
    request_number(q, 1); /* number of keys that are waited for */
    request_text(q, key);
}

/* ---- the connection ---- */

struct store {
    const struct ranked *by;
    int fd;
    time_t limit; /* time limit for an answer, s */
    bool quiet;   /* true: errors are not printed */
};

static int
store_refused(const struct store *s, const char *what)
{
    char text[4 * FRONT_TEXT];
    if (s->quiet) return -1;
    snprintf(text, sizeof text, "%s: the store of the agent at %s %s", s->by->launcher, s->by->address, what);
    tell_line(text);
    return -1;
}

static int
connect_any(const struct addrinfo *to)
{
    int fd = -1;
    for (; to && fd < 0; to = to->ai_next) {
        fd = system_socket(to->ai_family, SOCK_STREAM, false);
        if (fd < 0 || !connect(fd, to->ai_addr, to->ai_addrlen)) continue;
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Connects to the store at "tcp://HOST:PORT". */
static int
store_open(struct store *s)
{
    char host[FRONT_TEXT], what[FRONT_TEXT];
    const char *text = s->by->address + strlen("tcp://"), *port = strrchr(text, ':') + 1;
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = s->limit};
    bool six = text[0] == '[';
    snprintf(host, sizeof host, "%.*s", (int)(port - 1 - text) - 2 * six, text + six);
    int bad = getaddrinfo(host, port, &want, &found);
    s->fd = bad ? -1 : connect_any(found);
    snprintf(what, sizeof what, "cannot be reached: %s", bad ? gai_strerror(bad) : strerror(errno));
    if (!bad) freeaddrinfo(found);
    if (s->fd >= 0) setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return s->fd >= 0 ? 0 : store_refused(s, what);
}

static int
store_send(struct store *s, const struct request *q)
{
    return send(s->fd, q->bytes, q->n, MSG_NOSIGNAL) == (ssize_t)q->n ? 0 : store_refused(s, strerror(errno));
}

/* Receives n bytes of an answer. */
static int
store_receive(struct store *s, void *bytes, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t more = recv(s->fd, (char *)bytes + got, n - got, 0);
        if (more == 0) return store_refused(s, "closed the connection");
        if (more < 0 && errno == EAGAIN)
            return store_refused(s, "still lacks the address of rank 0; look at the errors of rank 0");
        if (more < 0 && errno != EINTR) return store_refused(s, strerror(errno));
        if (more > 0) got += (size_t)more;
    }
    return 0;
}

/* Receives the answer to the request WAIT; 0: the key exists. */
static int
store_awaited(struct store *s)
{
    char answer;
    if (store_receive(s, &answer, 1)) return -1;
    return answer == 0 ? 0 : store_refused(s, "cancelled the wait for the address of rank 0");
}

/* ---- storing and reading the address of rank 0 ---- */

/* Writes the key of this job and restart. The key must be unique in the store, because the agents keep the store
 * over restarts and changes of membership. */
static void
name_key(const struct ranked *r, char key[FRONT_TEXT])
{
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *restart = getenv("TORCHELASTIC_RESTART_COUNT");
    snprintf(key, FRONT_TEXT, "/rille/%.100s/%.20s/%d", run ? run : "", restart ? restart : "0", r->size);
}

int
agent_store_put(const struct ranked *r, const char *address)
{
    struct store s = {.by = r, .limit = PUT_SECONDS};
    struct request q = {0};
    char key[FRONT_TEXT];
    name_key(r, key);
    request_validate(&q);
    request_kind(&q, SET);
    request_text(&q, key);
    request_text(&q, address);
    request_wait(&q, key); /* the answer to WAIT confirms SET, which has no answer of its own */
    if (store_open(&s)) return -1;
    int status = store_send(&s, &q) || store_awaited(&s);
    close(s.fd);
    return status;
}

/* Returns true if the address is a Unix socket in a folder of this user. */
static bool
is_own_socket(const char *address)
{
    struct stat st;
    char path[FRONT_TEXT];
    if (strncmp(address, "ipc://", 6)) return false;
    snprintf(path, sizeof path, "%s", address + 6);
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
    return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

/* Checks the address read from the store, because any user of this host can write to the store. */
static int
check_stored(const struct store *s, const char *address)
{
    char what[2 * FRONT_TEXT];
    if (s->by->spread ? !rille_address(address) : is_own_socket(address)) return 0;
    snprintf(what, sizeof what, "must have the address of rank 0, %s; found another value",
             s->by->spread ? "tcp://HOST:PORT" : "a socket in a folder of mode 0700 of this user");
    return store_refused(s, what);
}

static int
receive_address(struct store *s, char address[FRONT_TEXT])
{
    uint64_t n = 0;
    if (store_receive(s, &n, sizeof n)) return -1;
    if (n >= FRONT_TEXT) return store_refused(s, "has an address of rank 0 that is too long");
    if (store_receive(s, address, n)) return -1;
    address[n] = '\0';
    return check_stored(s, address);
}

int
agent_store_get(const struct ranked *r, int seconds, char address[FRONT_TEXT])
{
    struct store s = {.by = r, .limit = seconds};
    struct request wait = {0}, get = {0};
    char key[FRONT_TEXT];
    name_key(r, key);
    request_validate(&wait);
    request_wait(&wait, key);
    /* sends GET only after the answer to WAIT, because the store answers later requests without waiting for the
     * WAIT */
    request_kind(&get, GET);
    request_text(&get, key);
    if (store_open(&s)) return -1;
    int status = store_send(&s, &wait) || store_awaited(&s) || store_send(&s, &get) || receive_address(&s, address);
    close(s.fd);
    return status;
}

void
agent_store_remove(const struct ranked *r)
{
    struct store s = {.by = r, .limit = REMOVE_SECONDS, .quiet = true};
    struct request q = {0};
    char key[FRONT_TEXT];
    uint64_t removed;
    name_key(r, key);
    request_validate(&q);
    request_kind(&q, DELETE_KEY);
    request_text(&q, key);
    if (store_open(&s)) return;
    if (!store_send(&s, &q)) store_receive(&s, &removed, sizeof removed);
    close(s.fd);
}

/* link.c - three pairs of ROUTER and DEALER sockets: for packets, for heartbeats and for values.
 *
 * Socket options and their reasons (libzmq 4.3.4):
 * - LINGER 0: an unsent message must not delay closing. `control` lingers for LAST_WORDS_MS, to send BYE or LEAVE.
 * - MAXMSGSIZE: limits the memory of a frame, because the receiver allocates the size that the frame's header states.
 * - ROUTER_MANDATORY: without it, a ROUTER silently drops messages to unknown peers.
 * - IMMEDIATE: without it, a DEALER queues messages before the peer is connected. IMMEDIATE is set for heartbeats only,
 *   because the option also drops messages that were received and not yet read when a link ends.
 * - HANDSHAKE_IVL 2 s: limits the time of a handshake. ZMTP heartbeats are off, because they cut healthy links under
 *   load.
 * - RECONNECT_IVL: `control` waits longer, because successive failed handshakes prove a wrong key (REFUSALS).
 * A ROUTER identifies its peers by routing ids that it generates and never reuses. */
#include "actors/cluster/wire/link.h"

#include "actors/cluster/wire/curve.h"
#include "actors/cluster/wire/machine.h"
#include "actors/cluster/wire/peers.h"
#include "actors/cluster/wire/wire.h"
#include "actors/act/bus/context.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/system.h"

#include <zmq.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* REFUSALS: number of successive failed handshakes that prove a wrong key. One failed handshake proves nothing,
 * because a peer that was killed closes the connection in the same way, without a message. */
enum { REFUSALS = 4, FOLDER = 96, LAST_WORDS_MS = 1000 };

struct link_end {
    void *socket;
    char endpoint[LINK_ENDPOINT];
    zmq_msg_t msg;      /* the message received last */
    struct peers peers; /* (coordinator) connections */
    /* (sockets `control` and `bulk` of a worker) socket on which ZeroMQ reports the ends of connections */
    void *monitor;
    /* nconnection: number of connections so far; nbroken: number of handshakes that failed since the last one */
    int nconnection, nbroken;
};

struct link {
    void *context;
    struct curve *curve; /* handler of authentication requests; NULL: no key, or the end of a worker */
    bool serves;
    struct key key; /* key of this end; all zero: none */
    struct link_end end[NLINK_SOCKET];
    enum link_state state;
    int nmonitor; /* number of monitor sockets so far, used in the name of the next one */
    /* (worker) address of the coordinator, by which link_is_refused() tests its port; to_bytes 0: unknown */
    struct sockaddr_storage to;
    socklen_t to_bytes;
    int probe;           /* socket that tries to connect to `to`; -1: none */
    char folder[FOLDER]; /* path of the folder with the ipc sockets; "": none */
    int lock;            /* descriptor that holds the lock on the folder; -1: none */
};

static int
link_broken(const char *what)
{
    return fail(E_BUS, "%s: %s", what, zmq_strerror(errno));
}

/* ---- addresses ---- */

static bool
starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Checks an address. any: the port may be "*" (any free port). */
static int
read_address(const char *text, bool any, bool *local)
{
    *local = starts(text, "ipc:///");
    if (*local)
        return strlen(text) < 108 ? 0 : fail(E_ARG, "address \"%s\": must be shorter than 108 characters", text);
    const char *host = text + 6, *colon = strrchr(text, ':');
    if (!starts(text, "tcp://") || colon <= host || strlen(text) >= LINK_ENDPOINT)
        return fail(E_ARG, "\"%s\" is not an address: expected tcp://HOST:PORT", text);
    size_t digits = strspn(colon + 1, "0123456789");
    long port = strtol(colon + 1, NULL, 10);
    bool free_one = any && !strcmp(colon + 1, "*");
    if (!free_one && (digits == 0 || digits > 5 || colon[1 + digits] || port < 1 || port > 65535))
        return fail(E_ARG, "\"%s\" is not an address: its port must be a number from 1 to 65535", text);
    size_t n = (size_t)(colon - host);
    if (strcspn(host, " \t/;") < n) return fail(E_ARG, "\"%s\" is not an address: expected tcp://HOST:PORT", text);
    if (memchr(host, ':', n) && (host[0] != '[' || host[n - 1] != ']'))
        return fail(E_ARG, "\"%s\" is not an address: an IPv6 host must be in brackets, as in tcp://[::1]:5555", text);
    *local = machine_is_loopback(host, n);
    return 0;
}

int
link_address(const char *text, bool *local)
{
    return read_address(text, false, local);
}

/* Copies an address. Replaces the host name of a tcp address by a numeric address, if libzmq needs that: for bind,
 * libzmq accepts only numeric addresses and network interfaces; for IPv6, the numeric address tells open_socket() to
 * enable IPv6. libzmq looks up other names when it connects. */
static void
number_host(const char *address, bool binds, char out[LINK_ENDPOINT])
{
    char number[MACHINE_ADDRESS];
    const char *colon = strrchr(address, ':');
    snprintf(out, LINK_ENDPOINT, "%s", address);
    if (!starts(address, "tcp://") || !machine_number(address + 6, (size_t)(colon - address) - 6, number)) return;
    if (binds || number[0] == '[') snprintf(out, LINK_ENDPOINT, "tcp://%s%s", number, colon);
}

/* ---- sockets ---- */

static bool
has_key(const struct link *l)
{
    return l->key.public[KEY_COORDINATOR][0] != '\0';
}

static int
open_socket(struct link *l, enum link_socket which)
{
    const struct {
        int option, value;
    } set[] = {{ZMQ_SNDHWM, 0},
               {ZMQ_RCVHWM, 0},
               {ZMQ_TCP_KEEPALIVE, 1},
               {ZMQ_HANDSHAKE_IVL, 2000},
               {ZMQ_RECONNECT_IVL, which == LINK_CONTROL ? 100 : 20},
               {ZMQ_RECONNECT_IVL_MAX, 1000}};
    static const int64_t most = WIRE_MOST;
    static const int mandatory = 1;
    const int immediate = which == LINK_BEAT, linger = which == LINK_CONTROL ? LAST_WORDS_MS : 0;
    struct link_end *e = &l->end[which];
    const int six = strchr(e->endpoint, '[') != NULL;
    e->socket = zmq_socket(l->context, l->serves ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!e->socket) return link_broken("socket");
    for (size_t i = 0; i < countof(set); i++)
        if (zmq_setsockopt(e->socket, set[i].option, &set[i].value, sizeof set[i].value)) return link_broken("option");
    if (zmq_setsockopt(e->socket, ZMQ_MAXMSGSIZE, &most, sizeof most) ||
        zmq_setsockopt(e->socket, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_setsockopt(e->socket, ZMQ_IPV6, &six, sizeof six) ||
        zmq_setsockopt(e->socket, ZMQ_IMMEDIATE, &immediate, sizeof immediate))
        return link_broken("option");
    if (l->serves && zmq_setsockopt(e->socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory))
        return link_broken("option");
    if (!has_key(l)) return 0;
    return l->serves ? curve_serve(e->socket, &l->key) : curve_join(e->socket, &l->key, KEY_COORDINATORS);
}

static int
new_link(const struct key *key, bool serves, struct link **out)
{
    struct link *l = must_alloc(sizeof *l);
    l->serves = serves;
    l->lock = l->probe = -1;
    if (key) key_copy(key, &l->key);
    for (int i = 0; i < NLINK_SOCKET; i++) zmq_msg_init(&l->end[i].msg);
    *out = l;
    return context_new(1, 1 << 16, &l->context);
}

/* ---- open the coordinator's end ---- */

static void
remove_folder(const char *folder)
{
    static const char *const name[NLINK_SOCKET] = {"control", "beat", "bulk"};
    char path[LINK_ENDPOINT + 16];
    for (int i = 0; i < NLINK_SOCKET; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, name[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* Returns true if the process that made the folder has ended. This process holds a lock on the folder until its end;
 * the kernel releases the lock however the process ends. */
static bool
is_left(const char *folder)
{
    struct stat st;
    if (lstat(folder, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) return false;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool left = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);
    if (fd >= 0) close(fd);
    return left;
}

/* Removes the socket folders of killed coordinators. Workers normally remove such a folder (link_sweep). */
static void
sweep_base(const char *base)
{
    char path[LINK_ENDPOINT];
    DIR *list = opendir(base);
    for (struct dirent *e; list && (e = readdir(list)) != NULL;) {
        if (!starts(e->d_name, "rille-")) continue;
        if (snprintf(path, sizeof path, "%s/%s", base, e->d_name) >= (int)sizeof path) continue;
        if (is_left(path)) remove_folder(path);
    }
    if (list) closedir(list);
}

/* Locks the new folder. Returns false if another process has removed the folder, which looked abandoned before it
 * was locked. */
static bool
lock_folder(struct link *l)
{
    struct stat st;
    l->lock = open(l->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->lock >= 0 && !flock(l->lock, LOCK_EX) && !stat(l->folder, &st);
}

/* Makes a folder of mode 0700 for the ipc sockets, in the first suitable parent folder. The name is random, so no
 * other user can take it in advance. */
static int
make_socket_folder(struct link *l)
{
    const char *base[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < countof(base); i++) {
        if (!base[i] || base[i][0] != '/' || strlen(base[i]) > FOLDER - 24) continue;
        sweep_base(base[i]);
        do {
            snprintf(l->folder, sizeof l->folder, "%s/rille-XXXXXX", base[i]);
            if (l->lock >= 0) close(l->lock);
            l->lock = -1;
        } while (mkdtemp(l->folder) && !lock_folder(l) && errno == ENOENT);
        if (l->lock >= 0) return 0;
        l->folder[0] = '\0';
    }
    return fail(E_IO, "cannot make a folder for sockets in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: %s", strerror(errno));
}

/* Makes the folder of an address "ipc://FOLDER/control". Replaces an existing folder if the coordinator that made it
 * was killed. */
static int
make_named_folder(struct link *l, const char *bind)
{
    enum { TRIES = 8 };
    size_t n = strlen(bind), scheme = strlen("ipc://"), file = strlen("/control");
    if (n <= scheme + file || strcmp(bind + n - file, "/control") || n - scheme - file >= FOLDER)
        return fail(E_ARG,
                    "\"%s\" cannot be bound: expected ipc://FOLDER/control, with at most %d characters of FOLDER", bind,
                    FOLDER - 1);
    snprintf(l->folder, sizeof l->folder, "%.*s", (int)(n - scheme - file), bind + scheme);
    int why = 0;
    for (int i = 0; i < TRIES && why != EADDRINUSE; i++) {
        if (!mkdir(l->folder, 0700) && lock_folder(l)) return 0;
        why = errno;
        if (l->lock >= 0) close(l->lock);
        l->lock = -1;
        if (why != EEXIST) continue;
        if (is_left(l->folder))
            remove_folder(l->folder);
        else
            why = EADDRINUSE;
    }
    /* clears the path, so that closing this link does not remove the folder, which another process owns */
    l->folder[0] = '\0';
    return fail(E_BUS, "%s: %s", bind, strerror(why));
}

static int
bind_end(struct link *l, enum link_socket which, const char *address)
{
    struct link_end *e = &l->end[which];
    size_t n = sizeof e->endpoint;
    snprintf(e->endpoint, sizeof e->endpoint, "%s", address);
    TRY(open_socket(l, which));
    bool bound = !zmq_bind(e->socket, address);
    if (!bound && errno == ENODEV)
        return fail(E_BUS, "%s: the host's name does not resolve; expected a name or an address of this host", address);
    if (!bound) return link_broken(address);
    return zmq_getsockopt(e->socket, ZMQ_LAST_ENDPOINT, e->endpoint, &n) ? link_broken(address) : 0;
}

static int
bind_folder(struct link *l, const char *bind)
{
    static const char *const name[NLINK_SOCKET] = {"control", "beat", "bulk"};
    char address[LINK_ENDPOINT];
    TRY(bind ? make_named_folder(l, bind) : make_socket_folder(l));
    for (int i = 0; i < NLINK_SOCKET; i++) {
        snprintf(address, sizeof address, "ipc://%s/%s", l->folder, name[i]);
        TRY(bind_end(l, i, address));
    }
    return 0;
}

/* Binds the three sockets. The sockets for heartbeats and values get free ports, which WELCOME packets report. */
static int
bind_tcp(struct link *l, const char *bind)
{
    char any[LINK_ENDPOINT];
    TRY(bind_end(l, LINK_CONTROL, bind));
    snprintf(any, sizeof any, "%.*s:*", (int)(strrchr(bind, ':') - bind), bind);
    TRY(bind_end(l, LINK_BEAT, any));
    return bind_end(l, LINK_BULK, any);
}

int
link_serve(const char *bind, const struct key *key, struct link **out)
{
    bool local = true, stays = true;
    char numbered[LINK_ENDPOINT];
    *out = NULL;
    bool tcp = bind && starts(bind, "tcp://");
    if (bind && !tcp && !starts(bind, "ipc:///"))
        return fail(E_ARG, "\"%s\" cannot be bound: expected tcp://HOST:PORT or ipc:///FOLDER/control", bind);
    if (tcp) {
        TRY(read_address(bind, true, &local));
        number_host(bind, true, numbered);
        TRY(read_address(numbered, true, &stays));
    }
    if (!(local && stays) && !key)
        return fail(E_ARG,
                    "%s can be reached from other hosts, so a key is needed: make one with rille keys > FILE, and give "
                    "--key-file FILE to the coordinator and its workers",
                    bind);
    struct link *l;
    int status = new_link(key, true, &l);
    if (!status && key) status = curve_new(l->context, &l->key, &l->curve);
    if (!status) status = tcp ? bind_tcp(l, numbered) : bind_folder(l, bind);
    if (status) link_free(&l);
    *out = l;
    return status;
}

/* ---- open the worker's end ---- */

static int
link_monitor(struct link *l, enum link_socket which)
{
    static const int linger = 0;
    struct link_end *e = &l->end[which];
    char name[32];
    int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    snprintf(name, sizeof name, "inproc://watch%d", l->nmonitor++);
    if (zmq_socket_monitor(e->socket, name, events)) return link_broken("monitor");
    e->monitor = zmq_socket(l->context, ZMQ_PAIR);
    if (!e->monitor) return link_broken("monitor");
    zmq_setsockopt(e->monitor, ZMQ_LINGER, &linger, sizeof linger);
    return zmq_connect(e->monitor, name) ? link_broken("monitor") : 0;
}

static int
connect_end(struct link *l, enum link_socket which, const char *address)
{
    number_host(address, false, l->end[which].endpoint);
    TRY(open_socket(l, which));
    if (which != LINK_BEAT) TRY(link_monitor(l, which));
    return zmq_connect(l->end[which].socket, l->end[which].endpoint) ? link_broken(address) : 0;
}

/* Looks up the socket address of "ipc://PATH" or "tcp://HOST:PORT". */
static void
look_up_address(struct link *l, const char *address)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&l->to;
    const char *path = address + 6, *colon = strrchr(address, ':');
    if (starts(address, "tcp://")) {
        l->to_bytes = machine_socket(path, (size_t)(colon - path), (uint16_t)atoi(colon + 1), &l->to);
        return;
    }
    local->sun_family = AF_UNIX;
    snprintf(local->sun_path, sizeof local->sun_path, "%s", path);
    l->to_bytes = sizeof *local;
}

int
link_join(const char *address, const struct key *key, struct link **out)
{
    bool local;
    *out = NULL;
    TRY(link_address(address, &local));
    if (!local && !key) return fail(E_ARG, "%s is another host, so a key is needed; give --key-file FILE", address);
    struct link *l;
    int status = new_link(key, false, &l);
    if (!status) status = connect_end(l, LINK_CONTROL, address);
    if (!status) look_up_address(l, address);
    if (status) link_free(&l);
    *out = l;
    return status;
}

int
link_join_more(struct link *l, enum link_socket which, const char *address)
{
    bool local;
    TRY(link_address(address, &local));
    if (l->end[which].socket) return 0;
    return connect_end(l, which, address);
}

static void
close_end(struct link_end *e)
{
    /* stops the monitor first; otherwise ZeroMQ's thread waits forever for its reports to be read */
    if (e->monitor) zmq_socket_monitor(e->socket, NULL, 0);
    if (e->socket) zmq_close(e->socket);
    if (e->monitor) zmq_close(e->monitor);
    e->socket = e->monitor = NULL;
}

int
link_reconnect(struct link *l, enum link_socket which)
{
    static const int linger = 0;
    struct link_end *e = &l->end[which];
    char address[LINK_ENDPOINT];
    if (!e->socket) return 0;
    link_connections(l, which); /* called for its effect: reads the events of the monitor and counts connections */
    zmq_setsockopt(e->socket, ZMQ_LINGER, &linger, sizeof linger);
    close_end(e);
    e->nbroken = 0;
    if (which == LINK_CONTROL) l->state = LINK_DOWN;
    snprintf(address, sizeof address, "%s", e->endpoint);
    return connect_end(l, which, address);
}

bool
link_event(void *monitor, uint16_t *what)
{
    zmq_msg_t event, address;
    zmq_msg_init(&event);
    zmq_msg_init(&address);
    bool got = monitor && zmq_msg_recv(&event, monitor, ZMQ_DONTWAIT) >= 0;
    *what = 0;
    if (got && zmq_msg_size(&event) >= 2) memcpy(what, zmq_msg_data(&event), sizeof *what);
    if (got) zmq_msg_recv(&address, monitor, 0);
    zmq_msg_close(&event);
    zmq_msg_close(&address);
    return got;
}

/* Returns the state of a link after an event of its monitor. */
static enum link_state
state_after(struct link_end *e, enum link_state state, uint16_t what)
{
    switch (what) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        e->nconnection++;
        e->nbroken = 0;
        return LINK_UP;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: return ++e->nbroken < REFUSALS ? state : LINK_DENIED;
    case ZMQ_EVENT_DISCONNECTED: return state == LINK_UP ? LINK_DOWN : state;
    default: return LINK_DENIED;
    }
}

enum link_state
link_state(struct link *l)
{
    uint16_t what;
    while (l->state != LINK_DENIED && link_event(l->end[LINK_CONTROL].monitor, &what))
        l->state = state_after(&l->end[LINK_CONTROL], l->state, what);
    return l->state;
}

int
link_connections(struct link *l, enum link_socket which)
{
    struct link_end *e = &l->end[which];
    uint16_t what;
    while (which != LINK_CONTROL && link_event(e->monitor, &what)) state_after(e, LINK_UP, what);
    return e->nconnection;
}

bool
link_is_refused(struct link *l)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (l->probe < 0 && l->to_bytes) {
        l->probe = system_socket(l->to.ss_family, SOCK_STREAM, true);
        if (l->probe >= 0 && connect(l->probe, (const struct sockaddr *)&l->to, l->to_bytes)) error = errno;
    }
    struct pollfd fd = {.fd = l->probe, .events = POLLOUT};
    if (error == EINPROGRESS) error = 0;
    bool over = error || poll(&fd, 1, 0) == 1;
    if (over && !error) getsockopt(l->probe, SOL_SOCKET, SO_ERROR, &error, &n);
    if (over) close(l->probe);
    if (over) l->probe = -1;
    return error == ECONNREFUSED || error == ENOENT;
}

int
link_state_fd(const struct link *l)
{
    int fd = -1;
    size_t n = sizeof fd;
    zmq_getsockopt(l->end[LINK_CONTROL].monitor, ZMQ_FD, &fd, &n);
    return fd;
}

/* ---- closing ---- */

void
link_sweep(const char *address)
{
    const char *folder = address + 6, *slash = strrchr(address, '/');
    char path[LINK_ENDPOINT];
    if (!starts(address, "ipc:///") || slash <= folder || !strstr(folder, "/rille-")) return;
    snprintf(path, sizeof path, "%.*s", (int)(slash - folder), folder);
    if (is_left(path)) remove_folder(path);
}

void
link_hide(struct link *l)
{
    if (l->folder[0]) remove_folder(l->folder);
    l->folder[0] = '\0';
}

void
link_free(struct link **lp)
{
    struct link *l = *lp;
    *lp = NULL;
    if (!l) return;
    for (int i = 0; i < NLINK_SOCKET; i++) {
        struct link_end *e = &l->end[i];
        zmq_msg_close(&e->msg);
        close_end(e);
        peers_free(&e->peers);
    }
    if (l->probe >= 0) close(l->probe);
    if (l->context) zmq_ctx_shutdown(l->context);
    curve_free(&l->curve);
    while (l->context && zmq_ctx_term(l->context) && errno == EINTR) continue;
    link_hide(l);
    if (l->lock >= 0) close(l->lock);
    key_forget(&l->key);
    free(l);
}

/* ---- messages ---- */

const char *
link_endpoint(const struct link *l, enum link_socket which)
{
    return l->end[which].endpoint;
}

int
link_fd(const struct link *l, enum link_socket which)
{
    int fd = -1;
    size_t n = sizeof fd;
    if (l->end[which].socket) zmq_getsockopt(l->end[which].socket, ZMQ_FD, &fd, &n);
    return fd;
}

/* Receives the next message; false: none has arrived. Sets *good to true if the message has the right number of
 * frames and its sender is permitted. */
static bool
receive_from(struct link *l, struct link_end *e, int *peer, bool *good)
{
    zmq_msg_t id;
    *peer = 0;
    if (l->serves) {
        zmq_msg_init(&id);
        bool got = zmq_msg_recv(&id, e->socket, ZMQ_DONTWAIT) >= 0;
        if (got) *peer = zmq_msg_more(&id) ? peers_number(&e->peers, zmq_msg_data(&id), zmq_msg_size(&id)) : -1;
        bool more = got && zmq_msg_more(&id);
        zmq_msg_close(&id);
        if (!more) {
            *good = false;
            return got;
        }
    }
    if (zmq_msg_recv(&e->msg, e->socket, ZMQ_DONTWAIT) < 0) return false;
    *good = *peer >= 0 && !zmq_msg_more(&e->msg);
    while (zmq_msg_more(&e->msg))
        if (zmq_msg_recv(&e->msg, e->socket, ZMQ_DONTWAIT) < 0) break;
    if (*good && l->curve) *good = curve_sender(&e->msg, &peers_entry_of(&e->peers, *peer)->rank);
    return true;
}

bool
link_receive(struct link *l, enum link_socket which, int *peer, const void **bytes, size_t *n)
{
    struct link_end *e = &l->end[which];
    bool good;
    while (e->socket && receive_from(l, e, peer, &good)) {
        if (!good) continue;
        *bytes = zmq_msg_data(&e->msg);
        *n = zmq_msg_size(&e->msg);
        return true;
    }
    return false;
}

bool
link_is_of(const struct link *l, enum link_socket which, int peer, int rank)
{
    int key = link_rank(l, which, peer);
    return key == KEY_ANY || key == rank;
}

int
link_rank(const struct link *l, enum link_socket which, int peer)
{
    return peers_entry_of(&l->end[which].peers, peer)->rank;
}

void
link_release(struct link *l, enum link_socket which, int peer)
{
    if (l->serves) peers_release(&l->end[which].peers, peer);
}

int
link_send(struct link *l, enum link_socket which, int peer, const void *bytes, size_t n)
{
    struct link_end *e = &l->end[which];
    assert(n <= WIRE_MOST);
    if (!e->socket) return fail(E_BUS, "the connection to the cluster is closed");
    if (l->serves) {
        const struct peers_entry *p = peers_entry_of(&e->peers, peer);
        if (!p) return fail(E_BUS, "the connection to the worker has ended");
        if (zmq_send(e->socket, p->id, p->n, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return link_broken("send");
    }
    return zmq_send(e->socket, bytes, n, ZMQ_DONTWAIT) < 0 ? link_broken("send") : 0;
}

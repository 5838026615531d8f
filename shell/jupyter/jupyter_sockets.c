/* jupyter_sockets.c - the five sockets of a Jupyter kernel, and the thread that owns them.
 *
 * A message from the main thread begins with a frame of one letter, which names the socket to send on. Before such
 * a message is passed on, the pipes of stdout and stderr are emptied, so that output that was printed before a
 * reply is also published before the reply. */
#include "shell/jupyter/jupyter_sockets.h"

#include "rille.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <lua.h>

enum socket { SHELL, CONTROL, INPUT, IOPUB, HEARTBEAT, NSOCKET };
static const struct {
    const char *port;
    int type;
} kinds[NSOCKET] = {
    {"shell_port", ZMQ_ROUTER}, {"control_port", ZMQ_ROUTER}, {"stdin_port", ZMQ_ROUTER},
    {"iopub_port", ZMQ_PUB},    {"hb_port", ZMQ_REP},
};

enum { TO_SHELL = 'r', TO_IOPUB = 'p', TO_INPUT = 'i', DONE = 'd', ABORT = 'a', END = 'q' };
enum { STREAM = 1 << 15, LAST_MS = 1000 };

struct stream { /* stdout or stderr, and its pipe */
    const char *name;
    FILE *file;
    /* fd: the redirected descriptor, 1 or 2; kept: duplicate of its original; pipe: read end of the pipe */
    int fd, kept, pipe;
    char text[STREAM];
    size_t size; /* number of bytes in text: the beginning of an incomplete UTF-8 character */
};

/* context: ZeroMQ's context. sockets: the sockets to Jupyter. inner, outer: a pair of connected sockets; the main
 * thread uses outer, the socket thread inner. */
static void *context, *sockets[NSOCKET], *inner, *outer;
static struct wire wire;
static pthread_t thread, main_thread;
static struct stream streams[] = {{.name = "stdout"}, {.name = "stderr"}};
enum { NSTREAM = 2 };

/* Only the socket thread uses the variables below. */
static struct message current; /* the request in progress, or the last one */
static bool busy, asking, over;
static struct frames *held; /* requests that were queued when a cell failed; they will be aborted */
static int nheld, next_held;

const struct wire *
sockets_wire(void)
{
    return &wire;
}

/* ---- sending and receiving frames over sockets ---- */

static bool
sockets_receive(void *socket, struct frames *f, int flags)
{
    int more = 1;
    size_t size = sizeof more;
    f->n = 0;
    while (more) {
        zmq_msg_t m;
        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, socket, flags) < 0) return frames_free(f), false;
        frames_add(f, zmq_msg_data(&m), zmq_msg_size(&m));
        zmq_msg_close(&m);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return true;
}

static void
send_from(void *socket, const struct frames *f, int first)
{
    for (int k = first; k < f->n; k++)
        while (zmq_send(socket, f->frame[k].data, f->frame[k].size, k + 1 < f->n ? ZMQ_SNDMORE : 0) < 0 &&
               errno == EINTR)
            continue;
}

static void
answer_request(enum socket at, const struct message *to, const char *type, json_t *content)
{
    struct frames f = {0};
    message_write(&wire, &f, to, at != IOPUB, type, content);
    send_from(sockets[at], &f, 0);
    frames_free(&f);
}

static void
publish_state(const struct message *of, const char *state)
{
    answer_request(IOPUB, of, "status", json_pack("{ss}", "execution_state", state));
}

/* ---- output ---- */

static void
publish_stream(struct stream *s, bool all)
{
    size_t n = all ? s->size : wire_whole(s->text, s->size);
    if (!n) return;
    answer_request(IOPUB, current.header ? &current : NULL, "stream",
                   json_pack("{ssso}", "name", s->name, "text", wire_text(s->text, n)));
    memmove(s->text, s->text + n, s->size - n);
    s->size -= n;
}

static void
empty_stream(struct stream *s)
{
    ssize_t n;
    while ((n = read(s->pipe, s->text + s->size, STREAM - s->size)) > 0) {
        s->size += (size_t)n;
        publish_stream(s, false);
    }
}

static void
empty_streams(bool all)
{
    for (int k = 0; k < NSTREAM; k++) {
        empty_stream(&streams[k]);
        if (all) publish_stream(&streams[k], true);
    }
}

/* ---- requests ---- */

static void
interrupt_request(enum socket at, const struct message *m)
{
    if (busy) pthread_kill(main_thread, SIGINT);
    answer_request(at, m, "interrupt_reply", json_pack("{ss}", "status", "ok"));
}

static void
shutdown_request(enum socket at, const struct message *m)
{
    bool restart = json_is_true(json_object_get(m->content, "restart"));
    answer_request(at, m, "shutdown_reply", json_pack("{sssb}", "status", "ok", "restart", restart));
    if (busy) pthread_kill(main_thread, SIGTERM);
    zmq_send(inner, "", 0, 0);
}

static void
kernel_info_request(enum socket at, const struct message *m)
{
    answer_request(at, m, "kernel_info_reply",
                   json_pack("{ss ss ss ss ss s{ss ss ss ss}}", "status", "ok", "protocol_version", "5.3",
                             "implementation", "rille", "implementation_version", RILLE_VERSION, "banner",
                             "Rille " RILLE_VERSION ", " LUA_RELEASE, "language_info", "name", "lua", "version",
                             LUA_VERSION_MAJOR "." LUA_VERSION_MINOR, "mimetype", "text/x-lua", "file_extension",
                             ".lua"));
}

/* Requests that the socket thread answers itself; those on the control socket are answered even during a run. */
static const struct {
    const char *type;
    void (*answer)(enum socket at, const struct message *m);
} urgent[] = {{"interrupt_request", interrupt_request},
              {"shutdown_request", shutdown_request},
              {"kernel_info_request", kernel_info_request},
              {NULL, NULL}};

static bool
answer_urgent(enum socket at, const struct message *m)
{
    for (int k = 0; urgent[k].type; k++)
        if (!strcmp(urgent[k].type, message_type(m))) {
            publish_state(m, "busy");
            urgent[k].answer(at, m);
            publish_state(m, "idle");
            return true;
        }
    return false;
}

static void
refuse_message(const char *why)
{
    dprintf(streams[1].kept, "rille: jupyter: a message was refused: %s\n", why);
}

static void
abort_request(const struct message *m)
{
    publish_state(m, "busy");
    answer_request(SHELL, m, "execute_reply", json_pack("{ss}", "status", "aborted"));
    publish_state(m, "idle");
}

/* Passes a request to the main thread, which is idle. */
static void
hand_over_frames(struct message *m, const struct frames *f)
{
    message_free(&current);
    current = *m;
    *m = (struct message){0};
    busy = true;
    publish_state(&current, "busy");
    send_from(inner, f, 0);
}

/* Returns true if the message answers the input request of the running cell, and comes from the front end that sent
 * the cell. */
static bool
is_awaited(const struct message *m)
{
    return asking && !strcmp(message_type(m), "input_reply") && frames_equal(&m->ids, &current.ids);
}

/* Handles a message received on a socket. abort: answers a request to run a cell with "aborted". */
static void
take_frames(enum socket at, const struct frames *f, bool abort)
{
    struct message m = {0};
    const char *wrong = message_read(&wire, f, &m);
    if (wrong)
        refuse_message(wrong);
    else if (at == INPUT) {
        if (is_awaited(&m)) asking = false, send_from(inner, f, 0);
    } else if (!answer_urgent(at, &m)) {
        if (at == CONTROL)
            refuse_message("its type is unknown on the control socket");
        else if (abort && !strcmp(message_type(&m), "execute_request"))
            abort_request(&m);
        else
            hand_over_frames(&m, f);
    }
    message_free(&m);
}

static void
take_request(enum socket at)
{
    struct frames f;
    if (!sockets_receive(sockets[at], &f, ZMQ_DONTWAIT)) return;
    take_frames(at, &f, false);
    frames_free(&f);
}

/* Receives the requests that are queued when a cell fails, in order to abort them. Must be called before the failure
 * is reported, because a client may send its next cell as soon as it has the reply, and that cell must run. */
static void
hold_waiting(void)
{
    struct frames f;
    while (sockets_receive(sockets[SHELL], &f, ZMQ_DONTWAIT)) {
        struct frames *more = realloc(held, (size_t)(nheld + 1) * sizeof *held);
        if (!more) {
            frames_free(&f);
            return;
        }
        held = more;
        held[nheld++] = f;
    }
}

static void
take_held(void)
{
    take_frames(SHELL, &held[next_held], true);
    frames_free(&held[next_held++]);
    if (next_held == nheld) nheld = next_held = 0;
}

static void
echo(void)
{
    struct frames f;
    if (!sockets_receive(sockets[HEARTBEAT], &f, ZMQ_DONTWAIT)) return;
    send_from(sockets[HEARTBEAT], &f, 0);
    frames_free(&f);
}

/* ---- handling messages from the main thread ---- */

static void
finish_request(void)
{
    publish_state(&current, "idle");
    busy = asking = false;
}

static void
take_answer(void)
{
    struct frames f;
    if (!sockets_receive(inner, &f, ZMQ_DONTWAIT)) return;
    empty_streams(true);
    switch (f.frame[0].data[0]) {
    case TO_SHELL: send_from(sockets[SHELL], &f, 1); break;
    case TO_IOPUB: send_from(sockets[IOPUB], &f, 1); break;
    case TO_INPUT: asking = true, send_from(sockets[INPUT], &f, 1); break;
    case DONE: finish_request(); break;
    case ABORT: hold_waiting(); break;
    case END: over = true; break;
    }
    frames_free(&f);
}

/* Runs the socket thread. During a run, the thread does not receive requests to run further cells: the socket for
 * such requests is the last of the list, and the list is shortened by one. */
static void *
sockets_serve(void *unused)
{
    (void)unused;
    publish_state(NULL, "starting");
    while (!over) {
        zmq_pollitem_t at[] = {{inner, 0, ZMQ_POLLIN, 0},
                               {sockets[CONTROL], 0, ZMQ_POLLIN, 0},
                               {sockets[INPUT], 0, ZMQ_POLLIN, 0},
                               {sockets[HEARTBEAT], 0, ZMQ_POLLIN, 0},
                               {NULL, streams[0].pipe, ZMQ_POLLIN, 0},
                               {NULL, streams[1].pipe, ZMQ_POLLIN, 0},
                               {sockets[SHELL], 0, ZMQ_POLLIN, 0}};
        bool waits = next_held < nheld;
        zmq_poll(at, busy || waits ? 6 : 7, !busy && waits ? 0 : -1);
        if (at[1].revents) take_request(CONTROL);
        if (at[2].revents) take_request(INPUT);
        if (at[3].revents) echo();
        if (at[4].revents || at[5].revents) empty_streams(false);
        if (at[0].revents) take_answer();
        if (!busy && waits)
            take_held();
        else if (!busy && at[6].revents)
            take_request(SHELL);
    }
    return NULL;
}

/* ---- functions that the main thread calls ---- */

static void
publish_status(int letter, const struct message *to, const char *type, json_t *content)
{
    struct frames f = {0};
    char first = (char)letter;
    fflush(stdout);
    fflush(stderr);
    frames_add(&f, &first, 1);
    if (type) message_write(&wire, &f, to, letter != TO_IOPUB, type, content);
    send_from(outer, &f, 0);
    frames_free(&f);
}

void
sockets_reply(const struct message *to, const char *type, json_t *content)
{
    publish_status(TO_SHELL, to, type, content);
}

void
sockets_publish(const struct message *to, const char *type, json_t *content)
{
    publish_status(TO_IOPUB, to, type, content);
}

void
sockets_ask(const struct message *to, json_t *content)
{
    publish_status(TO_INPUT, to, "input_request", content);
}

void
sockets_abort(void)
{
    publish_status(ABORT, NULL, NULL, NULL);
}

void
sockets_done(void)
{
    publish_status(DONE, NULL, NULL, NULL);
}

enum sockets_event
sockets_next(struct frames *f, int ms)
{
    zmq_pollitem_t at = {outer, 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&at, 1, ms) <= 0 || !sockets_receive(outer, f, ZMQ_DONTWAIT)) return SOCKETS_NONE;
    if (f->n > 1) return SOCKETS_REQUEST;
    frames_free(f);
    return SOCKETS_END;
}

/* ---- opening ---- */

static const char *
connection_string(json_t *connection, const char *name)
{
    const char *text = json_string_value(json_object_get(connection, name));
    return text ? text : "";
}

/* Binds the socket. Checks first that a file descriptor is free, because zmq_bind() aborts the process if it cannot
 * open a descriptor. */
static int
bind_socket(void *socket, const char *address)
{
    int spare = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (spare < 0) return -1;
    close(spare);
    return zmq_bind(socket, address);
}

static int
bind_sockets(json_t *connection, char *why, size_t size)
{
    const char *transport = connection_string(connection, "transport"), *ip = connection_string(connection, "ip");
    int linger = LAST_MS, unlimited = 0;
    for (int k = 0; k < NSOCKET; k++) {
        char address[512];
        int port = (int)json_integer_value(json_object_get(connection, kinds[k].port));
        snprintf(address, sizeof address, "%s://%s%c%d", transport, ip, strcmp(transport, "ipc") ? ':' : '-', port);
        sockets[k] = zmq_socket(context, kinds[k].type);
        if (!sockets[k]) return snprintf(why, size, "jupyter: %s: %s", kinds[k].port, zmq_strerror(errno)), -1;
        zmq_setsockopt(sockets[k], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(sockets[k], ZMQ_SNDHWM, &unlimited, sizeof unlimited);
        if (port > 0 && !bind_socket(sockets[k], address)) continue;
        snprintf(why, size, "jupyter: %s: cannot listen at %s: %s", kinds[k].port, address,
                 port > 0 ? zmq_strerror(errno) : "expected a port number");
        return -1;
    }
    return 0;
}

/* Connects the sockets `inner` and `outer`. Returns 0 or an errno, which may be one of zmq's. */
static int
connect_threads(void)
{
    inner = zmq_socket(context, ZMQ_PAIR);
    outer = zmq_socket(context, ZMQ_PAIR);
    if (!inner || !outer || zmq_bind(inner, "inproc://main") || zmq_connect(outer, "inproc://main")) return zmq_errno();
    return 0;
}

static int
read_wire_key(json_t *connection, char *why, size_t size)
{
    const char *scheme = connection_string(connection, "signature_scheme"), *key = connection_string(connection, "key");
    if (*key && *scheme && strcmp(scheme, "hmac-sha256"))
        return snprintf(why, size, "jupyter: the signature scheme must be hmac-sha256, found %s", scheme), -1;
    if (strlen(key) >= WIRE_KEY)
        return snprintf(why, size, "jupyter: the key must have at most %d bytes", WIRE_KEY - 1), -1;
    strcpy(wire.key, key);
    if (wire_open(&wire)) return snprintf(why, size, "jupyter: cannot read random numbers"), -1;
    return 0;
}

/* Redirects the file's descriptor to a pipe. Returns 0 or an errno. */
static int
catch_stream(struct stream *s, FILE *file)
{
    int ends[2], code = 0;
    if (system_pipe(ends, false)) return errno;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fflush(file);
    s->fd = fileno(file);
    s->pipe = ends[0];
    s->kept = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
    if (s->kept < 0 || dup2(ends[1], s->fd) < 0) code = errno;
    close(ends[1]);
    if (code && s->kept >= 0) close(s->kept);
    if (code) return close(ends[0]), code;
    s->file = file;
    setvbuf(file, NULL, _IOLBF, 0);
    return 0;
}

static void
let_go(struct stream *s)
{
    if (!s->file) return;
    fflush(s->file);
    dup2(s->kept, s->fd);
    close(s->kept);
    close(s->pipe);
    s->file = NULL;
}

/* Restores stdout and stderr, and closes the sockets. */
static void
close_sockets(void)
{
    for (int k = 0; k < NSTREAM; k++) let_go(&streams[k]);
    for (int k = 0; k < NSOCKET; k++)
        if (sockets[k]) zmq_close(sockets[k]);
    if (inner) zmq_close(inner);
    if (outer) zmq_close(outer);
    zmq_ctx_term(context);
}

/* Makes the context. ZeroMQ aborts the process if it cannot start the two threads of a context, or open their files. */
static int
make_context(char *why, size_t size)
{
    int code = system_check(3, 8);
    if (!code && !(context = zmq_ctx_new())) code = errno;
    if (code)
        snprintf(why, size,
                 "jupyter: the kernel cannot start its threads: %s; increase the largest number of threads "
                 "(ulimit -u) or of open files (ulimit -n)",
                 strerror(code));
    return code;
}

int
sockets_open(const char *connection_file, char *why, size_t size)
{
    json_error_t wrong;
    json_t *connection = json_load_file(connection_file, 0, &wrong);
    if (!connection) return snprintf(why, size, "jupyter: %s: %s", connection_file, wrong.text), -1;
    int code = read_wire_key(connection, why, size);
    if (!code) code = make_context(why, size);
    if (!code) code = bind_sockets(connection, why, size);
    json_decref(connection);
    if (code) return close_sockets(), code;
    code = connect_threads();
    if (!code) code = catch_stream(&streams[0], stdout);
    if (!code) code = catch_stream(&streams[1], stderr);
    main_thread = pthread_self();
    if (!code) code = system_thread_start(&thread, sockets_serve, NULL);
    if (!code) return 0;
    close_sockets();
    return snprintf(why, size, "jupyter: %s", zmq_strerror(code)), -1;
}

void
sockets_close(void)
{
    publish_status(END, NULL, NULL, NULL);
    pthread_join(thread, NULL);
    message_free(&current);
    while (next_held < nheld) frames_free(&held[next_held++]);
    free(held);
    close_sockets();
}

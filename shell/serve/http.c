/* http.c - the HTTP server of rille serve, over libmicrohttpd. */
#include "shell/serve/http.h"
#include "runtime/base/system.h"

#ifdef RILLE_HTTP
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    IDLE = 30,             /* time, s, after which a connection without a request is closed */
    UNREAD_MOST = 1 << 23, /* maximum bytes of a stream that wait because the client does not read them */
    READ_MOST = 4          /* a body up to this multiple of its limit is read before it is refused */
};

struct bytes {
    char *data;
    size_t n, room;
};

enum state { READING, WAITING, ANSWERED, DROPPED };

struct exchange { /* one request and its answer; guarded by the mutex of the server */
    struct http *http;
    struct exchange *next; /* next exchange in the list of the server */
    struct MHD_Connection *connection;
    int64_t id;
    enum state state;
    bool asleep;   /* true: the connection is suspended */
    bool received; /* true: http_receive() has returned the request */
    bool refused;  /* true: the body is longer than allowed */
    bool streamed; /* true: the answer is a stream of pieces */
    bool last;     /* true: the answer is complete */
    int status;
    char method[8], *path, *type, *answer_type;
    struct bytes body, out;
    size_t sent; /* number of bytes of `out` that were sent */
};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    pthread_mutex_t mutex;
    struct system_event arrived; /* raised when a request has been queued */
    struct exchange *all;        /* list of all exchanges, newest first */
    int64_t last_id;
    int nwaiting; /* number of requests that http_receive() has not returned */
    bool closing;
};

static bool
bytes_add(struct bytes *b, const char *data, size_t n)
{
    if (b->n + n + 1 > b->room) {
        size_t room = 2 * (b->n + n) + 256;
        char *more = realloc(b->data, room);
        if (!more) return false;
        b->data = more;
        b->room = room;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = 0;
    return true;
}

/* ---- functions on the thread of libmicrohttpd ---- */

/* Answers a request at once with an error, in the form of OpenAI's API. */
static enum MHD_Result
refuse_request(struct MHD_Connection *c, int status, const char *message)
{
    char text[400];
    int n = snprintf(text, sizeof text,
                     "{\"error\": {\"message\": \"%s\", \"type\": \"%s\", \"param\": null, \"code\": null}}\n", message,
                     status < 500 ? "invalid_request_error" : "server_error");
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result done = MHD_queue_response(c, (unsigned)status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result
refuse_length(struct MHD_Connection *c, size_t most)
{
    char text[100];
    snprintf(text, sizeof text, "the body of a request must have at most %zu bytes", most);
    return refuse_request(c, MHD_HTTP_CONTENT_TOO_LARGE, text);
}

static const char *
header(struct MHD_Connection *c, const char *name)
{
    const char *value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return value ? value : "";
}

static struct exchange *
new_exchange(struct http *h, struct MHD_Connection *c, const char *path, const char *method)
{
    struct exchange *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->http = h;
    e->connection = c;
    snprintf(e->method, sizeof e->method, "%s", method);
    e->path = strdup(path);
    e->type = strdup(header(c, MHD_HTTP_HEADER_CONTENT_TYPE));
    if (!e->path || !e->type || !bytes_add(&e->body, "", 0)) e->refused = true;
    pthread_mutex_lock(&h->mutex);
    e->id = ++h->last_id;
    e->next = h->all;
    h->all = e;
    pthread_mutex_unlock(&h->mutex);
    return e;
}

static void
free_exchange(struct exchange *e)
{
    free(e->path);
    free(e->type);
    free(e->answer_type);
    free(e->body.data);
    free(e->out.data);
    free(e);
}

/* Frees the exchange of a connection whose request is finished, or that was closed. Called by libmicrohttpd. */
static void
completed(void *arg, struct MHD_Connection *c, void **own, enum MHD_RequestTerminationCode code)
{
    struct http *h = arg;
    struct exchange *e = *own;
    (void)c, (void)code;
    if (!e) return;
    pthread_mutex_lock(&h->mutex);
    for (struct exchange **at = &h->all; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    if (e->state == WAITING && !e->received) h->nwaiting--;
    pthread_mutex_unlock(&h->mutex);
    free_exchange(e);
    *own = NULL;
}

/* Puts a complete request into the queue, and suspends its connection. Returns false if the queue is full. */
static bool
queue_request(struct http *h, struct exchange *e)
{
    pthread_mutex_lock(&h->mutex);
    bool fits = h->nwaiting < h->options.queue && !h->closing;
    if (fits) {
        e->state = WAITING;
        e->asleep = true;
        h->nwaiting++;
        MHD_suspend_connection(e->connection);
        system_raise(&h->arrived);
    }
    pthread_mutex_unlock(&h->mutex);
    return fits;
}

/* Copies the next bytes of a stream to the library. If no bytes are ready, suspends the connection. */
static ssize_t
next_piece(void *arg, uint64_t at, char *to, size_t most)
{
    struct exchange *e = arg;
    struct http *h = e->http;
    (void)at;
    pthread_mutex_lock(&h->mutex);
    size_t n = e->out.n - e->sent;
    if (n > most) n = most;
    if (n) memcpy(to, e->out.data + e->sent, n);
    e->sent += n;
    if (e->sent == e->out.n) e->sent = e->out.n = 0;
    bool ends = !n && (e->last || e->state == DROPPED);
    if (!n && !ends) {
        e->asleep = true;
        MHD_suspend_connection(e->connection);
    }
    pthread_mutex_unlock(&h->mutex);
    return ends ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

/* Sends the answer on a connection that was resumed. */
static enum MHD_Result
send_answer(struct exchange *e)
{
    enum { BLOCK = 4096 };
    struct MHD_Response *r = e->streamed
                                 ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, next_piece, e, NULL)
                                 : MHD_create_response_from_buffer(e->out.n, e->out.data, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, e->answer_type);
    if (e->streamed) MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    if (e->status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result done = MHD_queue_response(e->connection, (unsigned)e->status, r);
    MHD_destroy_response(r);
    return done;
}

/* Receives a piece of the body. Discards a body beyond the limit, because most clients read the refusal only after they
 * have sent everything. Closes the connection if the body exceeds its limit by far. */
static enum MHD_Result
read_body(struct http *h, struct exchange *e, const char *data, size_t *n)
{
    if (e->body.n + *n > h->options.body || e->refused) {
        e->refused = true;
        e->sent += *n;
        if (e->sent > READ_MOST * h->options.body) return MHD_NO;
    } else if (!bytes_add(&e->body, data, *n)) {
        return MHD_NO;
    }
    *n = 0;
    return MHD_YES;
}

static enum MHD_Result
handle(void *arg, struct MHD_Connection *c, const char *path, const char *method, const char *version, const char *data,
       size_t *n, void **own)
{
    struct http *h = arg;
    struct exchange *e = *own;
    (void)version;
    if (!e) {
        if (strtoull(header(c, MHD_HTTP_HEADER_CONTENT_LENGTH), NULL, 10) > READ_MOST * h->options.body)
            return refuse_length(c, h->options.body);
        *own = new_exchange(h, c, path, method);
        return *own ? MHD_YES : MHD_NO;
    }
    if (*n) return read_body(h, e, data, n);
    switch (e->state) {
    case READING:
        if (e->refused) return refuse_length(c, h->options.body);
        return queue_request(h, e)
                   ? MHD_YES
                   : refuse_request(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests wait; try again later");
    case ANSWERED: return send_answer(e);
    default: return MHD_NO;
    }
}

/* ---- opening ---- */

/* A network address of IPv4 or IPv6. */
union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Returns the length of the address; 0: the host is not a numeric address. */
static socklen_t
parse_host(const char *host, int port, union address *out)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &out->four.sin_addr) == 1) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons((uint16_t)port);
        return sizeof out->four;
    }
    if (inet_pton(AF_INET6, host, &out->six.sin6_addr) != 1) return 0;
    out->six.sin6_family = AF_INET6;
    out->six.sin6_port = htons((uint16_t)port);
    return sizeof out->six;
}

int
http_listen(const char *host, int *port)
{
    enum { BACKLOG = 128 };
    union address address;
    socklen_t n = parse_host(host, *port, &address);
    if (!n) return HTTP_NO_ADDRESS;
    int on = 1, fd = system_socket(address.any.sa_family, SOCK_STREAM, false);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, &address.any, n) && !listen(fd, BACKLOG) && !getsockname(fd, &address.any, &n)) {
        *port = ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
        return fd;
    }
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

/* Starts the thread of libmicrohttpd, which receives no signals. The thread calls poll(), because with epoll the
 * library misses the end of a connection that arrives together with a part of a request. */
static struct MHD_Daemon *
start_daemon(struct http *h, int fd)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                                            handle, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
                                            completed, h, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->options.connections,
                                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return d;
}

static struct http *
server_failed(struct http *h, int fd, char why[200], const char *cause)
{
    snprintf(why, 200, "%s", cause);
    if (fd >= 0) close(fd);
    free(h);
    return NULL;
}

struct http *
http_open(const struct http_options *o, char why[200])
{
    struct http *h = calloc(1, sizeof *h);
    if (!h) return server_failed(h, -1, why, "out of memory");
    h->options = *o;
    int fd = http_listen(o->host, &h->options.port);
    if (fd == HTTP_NO_ADDRESS) return server_failed(h, -1, why, "the host must be a numeric address");
    if (fd < 0) return server_failed(h, fd, why, strerror(errno));
    h->options.host = NULL;
    pthread_mutex_init(&h->mutex, NULL);
    if (system_event_open(&h->arrived)) return server_failed(h, fd, why, strerror(errno));
    h->daemon = start_daemon(h, fd);
    if (h->daemon) return h;
    system_event_close(&h->arrived);
    return server_failed(h, fd, why, "the HTTP library cannot start its thread");
}

int
http_port(const struct http *h)
{
    return h->options.port;
}

/* ---- the owner ---- */

/* Returns the oldest request that http_receive() has not returned, or NULL. */
static struct exchange *
oldest_waiting(struct http *h)
{
    struct exchange *oldest = NULL;
    for (struct exchange *e = h->all; e; e = e->next)
        if (e->state == WAITING && !e->received) oldest = e;
    return oldest;
}

/* Copies the oldest waiting request to r. Returns false if no request waits. */
static bool
take_waiting(struct http *h, struct http_request *r)
{
    pthread_mutex_lock(&h->mutex);
    struct exchange *e = h->nwaiting ? oldest_waiting(h) : NULL;
    if (e) {
        h->nwaiting--;
        e->received = true;
        *r = (struct http_request){e->id, e->method, e->path, e->type, e->body.data, e->body.n};
    }
    pthread_mutex_unlock(&h->mutex);
    return e != NULL;
}

bool
http_receive(struct http *h, double seconds, struct http_request *r)
{
    struct pollfd arrived = {.fd = h->arrived.fd, .events = POLLIN};
    /* lowers the event before the queue is examined, so that no request is missed */
    system_lower(&h->arrived);
    if (take_waiting(h, r)) return true;
    return seconds > 0 && poll(&arrived, 1, (int)(1e3 * seconds)) > 0 && take_waiting(h, r);
}

static struct exchange *
find_exchange(struct http *h, int64_t id)
{
    for (struct exchange *e = h->all; e; e = e->next)
        if (e->id == id) return e;
    return NULL;
}

/* Unlocks the mutex, then resumes the connection if it is suspended. This is safe without the mutex, because a
 * suspended connection stays alive until it is resumed. */
static void
leave_and_wake(struct http *h, struct exchange *e)
{
    struct MHD_Connection *c = e && e->asleep ? e->connection : NULL;
    if (c) e->asleep = false;
    pthread_mutex_unlock(&h->mutex);
    if (c) MHD_resume_connection(c);
}

bool
http_answer(struct http *h, int64_t id, int status, const char *type, const char *text, size_t size, bool last)
{
    pthread_mutex_lock(&h->mutex);
    struct exchange *e = find_exchange(h, id);
    bool good = e && e->state == WAITING && bytes_add(&e->out, text, size);
    if (good) {
        e->answer_type = strdup(type);
        e->status = status;
        e->streamed = !last;
        e->last = last;
        e->state = e->answer_type ? ANSWERED : DROPPED;
    }
    leave_and_wake(h, good ? e : NULL);
    return good;
}

bool
http_send(struct http *h, int64_t id, const char *text, size_t size, bool last)
{
    pthread_mutex_lock(&h->mutex);
    struct exchange *e = find_exchange(h, id);
    bool good = e && e->state == ANSWERED && e->streamed && !e->last;
    if (good && (e->out.n - e->sent > UNREAD_MOST || !bytes_add(&e->out, text, size))) {
        e->state = DROPPED;
        good = false;
    }
    if (good) e->last = last;
    leave_and_wake(h, e);
    return good;
}

/* Returns true if the peer of a connection has closed it. */
static bool
has_left(struct MHD_Connection *c)
{
    char byte;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return true;
    ssize_t n = recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool
http_connected(struct http *h, int64_t id)
{
    pthread_mutex_lock(&h->mutex);
    struct exchange *e = find_exchange(h, id);
    bool there = e && e->state != DROPPED && !(e->asleep && has_left(e->connection));
    pthread_mutex_unlock(&h->mutex);
    return there;
}

void
http_drop(struct http *h, int64_t id)
{
    pthread_mutex_lock(&h->mutex);
    struct exchange *e = find_exchange(h, id);
    if (e) e->state = DROPPED;
    leave_and_wake(h, e);
}

/* Drops the requests that were not answered. Returns true if other answers are still being sent. */
static bool
drop_unanswered(struct http *h)
{
    bool sending = false;
    int64_t id = -1;
    do {
        if (id >= 0) http_drop(h, id);
        id = -1;
        sending = false;
        pthread_mutex_lock(&h->mutex);
        for (struct exchange *e = h->all; e; e = e->next) {
            if (e->asleep) id = e->id;
            sending = sending || e->state == ANSWERED;
        }
        pthread_mutex_unlock(&h->mutex);
    } while (id >= 0);
    return sending;
}

void
http_close(struct http *h, double seconds)
{
    if (!h) return;
    pthread_mutex_lock(&h->mutex);
    h->closing = true;
    pthread_mutex_unlock(&h->mutex);
    struct timespec step = {0, 10000000};
    for (double waited = 0; drop_unanswered(h) && waited < seconds; waited += 0.01) nanosleep(&step, NULL);
    drop_unanswered(h);
    MHD_stop_daemon(h->daemon);
    /* frees the exchanges that remain; there should be none, because the library reports the end of every request */
    while (h->all) {
        struct exchange *e = h->all;
        h->all = e->next;
        free_exchange(e);
    }
    pthread_mutex_destroy(&h->mutex);
    system_event_close(&h->arrived);
    free(h);
}
#endif

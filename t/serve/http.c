/* http.c - tests the HTTP server of rille serve (shell/serve/http.c) by plain sockets. Covers answers, streams,
 * limits, requests that are cut off at every byte, clients that close the connection, a full queue, and the server's
 * end. */
#include "shell/serve/http.h"
#include "t/lib/tap.h"

#ifdef RILLE_HTTP
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { BODY = 1000, QUEUE = 3, ANSWER = 1 << 16 };

static const struct http_options options = {
    .host = "127.0.0.1", .port = 0, .body = BODY, .queue = QUEUE, .connections = 200};

/* ---- a client ---- */

static int
connect_to(const struct http *h)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_port(h))};
    struct timeval most = {60, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&a, sizeof a)) abort();
    return fd;
}

static void
send_all(int fd, const char *text, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0) return;
        text += sent;
        n -= (size_t)sent;
    }
}

/* Reads until the received text contains `end`, the server answers with an error, or the connection ends. */
static const char *
read_until(int fd, char *to, const char *end)
{
    size_t n = 0;
    ssize_t got;
    to[0] = 0;
    while (!strstr(to, end) && !strstr(to, "}}") && n < ANSWER - 1 && (got = recv(fd, to + n, ANSWER - 1 - n, 0)) > 0) {
        n += (size_t)got;
        to[n] = 0;
    }
    return to;
}

static size_t
request(char *to, const char *path, const char *body)
{
    return (size_t)sprintf(to,
                           "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                           path, strlen(body), body);
}

/* Sends a request on a new connection. Returns the connection. */
static int
ask(const struct http *h, const char *path, const char *body)
{
    char text[4 * BODY + 400];
    int fd = connect_to(h);
    send_all(fd, text, request(text, path, body));
    return fd;
}

/* ---- the server's owner, which answers each request by its path ---- */

struct owner {
    struct http *http;
    pthread_t thread;
    atomic_bool ends;
    atomic_int answered;
};

static void
answer_one(struct owner *o, const struct http_request *r)
{
    if (!strcmp(r->path, "/echo")) {
        http_answer(o->http, r->id, 200, "text/plain", r->body, r->size, true);
    } else if (!strcmp(r->path, "/stream")) {
        http_answer(o->http, r->id, 200, "text/plain", "a", 1, false);
        for (int i = 0; i < 50; i++) http_send(o->http, r->id, "bc", 2, false);
        http_send(o->http, r->id, "end.", 4, true);
    } else {
        http_drop(o->http, r->id);
    }
    o->answered++;
}

static void *
own(void *arg)
{
    struct owner *o = arg;
    struct http_request r;
    while (!o->ends)
        if (http_receive(o->http, 0.02, &r)) answer_one(o, &r);
    return NULL;
}

static struct http *
open_server(void)
{
    char why[200];
    struct http *h = http_open(&options, why);
    if (!h) diag("%s", why), abort();
    return h;
}

/* ---- answers, limits and damaged requests ---- */

static void
answers(struct http *h)
{
    static char text[ANSWER], body[BODY + 2];
    int fd = ask(h, "/echo", "hello");
    ok(strstr(read_until(fd, text, "hello"), "200") && strstr(text, "hello"), "a request is answered");
    char again[400];
    send_all(fd, again, request(again, "/echo", "second"));
    ok(strstr(read_until(fd, text, "second"), "second") != NULL, "a connection serves several requests");
    close(fd);
    fd = ask(h, "/stream", "");
    read_until(fd, text, "end.");
    ok(strstr(text, "chunked") && strstr(text, "end."), "a stream arrives to its end");
    close(fd);
    memset(body, 'x', BODY);
    fd = ask(h, "/echo", body);
    ok(strstr(read_until(fd, text, body), body) != NULL, "a body of the greatest length is accepted");
    close(fd);
    body[BODY] = 'x';
    fd = ask(h, "/echo", body);
    ok(strstr(read_until(fd, text, "}}"), "413") && strstr(text, "at most 1000 bytes"), "a longer one is refused");
    close(fd);
    fd = connect_to(h);
    const char *chunked = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n";
    send_all(fd, chunked, strlen(chunked));
    send_all(fd, body, BODY + 1);
    send_all(fd, "\r\n0\r\n\r\n", 7);
    ok(strstr(read_until(fd, text, "}}"), "413") != NULL, "a longer body without its length is refused, too");
    close(fd);
    static char large[4 * BODY + 1];
    for (int times = 2; times <= 4; times++) {
        memset(large, 'x', (size_t)(times * BODY));
        fd = ask(h, "/echo", large);
        ok(strstr(read_until(fd, text, "}}"), "413") != NULL, "a body of %d times the length is refused, too", times);
        close(fd);
    }
    fd = ask(h, "/drop", "");
    is_str(read_until(fd, text, "}"), "", "a dropped request has no answer");
    close(fd);
}

/* Sends a request cut off after each of its bytes, and with each byte changed. The server must continue to answer. */
static void
damage(struct http *h)
{
    static char text[ANSWER];
    char sent[400];
    size_t n = request(sent, "/echo", "{\"a\": 1}");
    for (size_t i = 0; i < n; i++) {
        int fd = connect_to(h);
        send_all(fd, sent, i);
        close(fd);
        for (int bit = 0; bit < 8; bit += 3) {
            sent[i] ^= (char)(1 << bit);
            fd = connect_to(h);
            send_all(fd, sent, n);
            shutdown(fd, SHUT_WR);
            close(fd);
            sent[i] ^= (char)(1 << bit);
        }
    }
    bool good = false;
    /* repeats the request while the full queue answers "try again" */
    for (int tries = 0; tries < 1000 && !good; tries++) {
        int fd = ask(h, "/echo", "still here");
        good = strstr(read_until(fd, text, "still here"), "still here") != NULL;
        close(fd);
    }
    ok(good, "after %zu cut and damaged requests it answers", n);
}

/* Sends requests whose clients leave within the body. The server must close their connections at once. */
static void
leave_early(struct http *h)
{
    enum { N = 40 };
    const char *part = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc";
    struct timeval most = {10, 0};
    int fd[N], closed = 0;
    for (int i = 0; i < N; i++) {
        fd[i] = connect_to(h);
        setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
        send_all(fd[i], part, strlen(part) - (size_t)i);
        shutdown(fd[i], SHUT_WR);
    }
    for (int i = 0; i < N && closed == i; i++) {
        char byte;
        closed += recv(fd[i], &byte, 1, 0) >= 0;
    }
    for (int i = 0; i < N; i++) close(fd[i]);
    is_int(closed, N, "clients that leave within a request are noticed at once");
}

struct client {
    struct http *http;
    int number;
    bool good;
    pthread_t thread;
};

static void *
be_client(void *arg)
{
    struct client *c = arg;
    char body[40], text[ANSWER];
    snprintf(body, sizeof body, "client %d.", c->number);
    /* repeats the request while the full queue answers "try again" */
    for (int tries = 0; tries < 1000 && !c->good; tries++) {
        int fd = ask(c->http, c->number % 2 ? "/stream" : "/echo", body);
        c->good = strstr(read_until(fd, text, c->number % 2 ? "end." : body), c->number % 2 ? "end." : body) != NULL;
        close(fd);
    }
    return NULL;
}

static void
many(struct http *h)
{
    enum { N = 100 };
    static struct client clients[N];
    int good = 0;
    for (int i = 0; i < N; i++) {
        clients[i] = (struct client){.http = h, .number = i};
        pthread_create(&clients[i].thread, NULL, be_client, &clients[i]);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(clients[i].thread, NULL);
        good += clients[i].good;
    }
    is_int(good, N, "a hundred clients at a time get their own answers");
}

static void
with_owner(void)
{
    struct owner o = {.http = open_server()};
    pthread_create(&o.thread, NULL, own, &o);
    answers(o.http);
    damage(o.http);
    leave_early(o.http);
    many(o.http);
    o.ends = true;
    pthread_join(o.thread, NULL);
    http_close(o.http, 1);
}

static bool
receive(struct http *h, struct http_request *r)
{
    return http_receive(h, 60, r);
}

/* Waits until the server notices that a client has closed its connection. */
static bool
leaves(struct http *h, int64_t id)
{
    for (int i = 0; i < 6000 && http_connected(h, id); i++) usleep(10000);
    return !http_connected(h, id);
}

static void
going_away(void)
{
    static char text[ANSWER];
    struct http *h = open_server();
    struct http_request r;
    int fd = ask(h, "/a", "body");
    ok(receive(h, &r) && !strcmp(r.path, "/a") && !strcmp(r.method, "POST") && !strcmp(r.type, "text/plain") &&
           r.size == 4,
       "a request arrives with its method, path, type and body");
    ok(http_connected(h, r.id), "a waiting client is connected");
    close(fd);
    ok(leaves(h, r.id), "a client that goes away before its answer is noticed");
    http_drop(h, r.id);
    fd = ask(h, "/b", "");
    receive(h, &r);
    http_answer(h, r.id, 200, "text/plain", "first", 5, false);
    read_until(fd, text, "first");
    close(fd);
    bool gone = false;
    for (int i = 0; i < 6000 && !gone; i++, usleep(1000)) gone = !http_send(h, r.id, "more", 4, false);
    ok(gone, "a client that goes away within a stream is noticed");
    ok(!http_send(h, 99, "x", 1, true) && !http_answer(h, 99, 200, "t", "x", 1, true), "unknown requests are gone");
    http_close(h, 1);
}

static void
full(void)
{
    static char text[ANSWER];
    struct http *h = open_server();
    struct http_request r;
    int fd[QUEUE + 1], refused = -1;
    for (int i = 0; i <= QUEUE; i++) fd[i] = ask(h, "/a", "");
    /* the refused connection may be any one, because the server reads connections in any order */
    for (int i = 0; i <= QUEUE; i++) {
        struct timeval short_time = {0, 300000};
        setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time);
        if (*read_until(fd[i], text, "}}")) refused = i;
        if (refused == i) break;
    }
    ok(refused >= 0 && strstr(text, "503") && strstr(text, "Retry-After"), "requests beyond the queue are refused");
    for (int i = 0; i < QUEUE; i++) ok(receive(h, &r), "request %d of the queue arrives", i);
    ok(!http_receive(h, 0, &r), "no other request arrives");
    http_close(h, 0.1);
    ok(refused >= 0 && !*read_until(fd[refused ? 0 : 1], text, "}}"), "the end closes connections without an answer");
    for (int i = 0; i <= QUEUE; i++) close(fd[i]);
}

static void
opening(void)
{
    char why[200];
    struct http *h = open_server();
    struct http_options o = options;
    o.port = http_port(h);
    ok(!http_open(&o, why) && !strcmp(why, strerror(EADDRINUSE)), "a port in use is an error: %s", why);
    o.host = "localhost";
    ok(!http_open(&o, why) && strstr(why, "numeric address"), "a name as address is an error: %s", why);
    http_close(h, 1);
    http_close(NULL, 1);
}

int
main(void)
{
    opening();
    with_owner();
    going_away();
    full();
    return done();
}
#else
int
main(void)
{
    ok(true, "the HTTP server # SKIP libmicrohttpd is not installed");
    return done();
}
#endif

/* curve.c - keys on sockets, and the ZAP (RFC 27) of a context, which has a thread of its own. */
#include "actors/cluster/curve.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <zmq.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char let_in[] = "rille"; /* the User-Id of who may */

struct curve {
    const struct key *key;
    void *socket;
    pthread_t thread;
    bool runs;
};

static int
broken(const char *what)
{
    return fail(E_BUS, "%s: %s", what, zmq_strerror(errno));
}

/* ---- who may ---- */

enum { ZAP_FRAMES = 7 }; /* version, request, domain, address, identity, mechanism, key */

static int
receive_frames(void *socket, zmq_msg_t frame[ZAP_FRAMES])
{
    int n = 0, more = 1;
    size_t size = sizeof more;
    while (more) {
        zmq_msg_t spare;
        zmq_msg_t *to = n < ZAP_FRAMES ? &frame[n] : &spare;
        zmq_msg_init(to);
        if (zmq_msg_recv(to, socket, 0) < 0) {
            zmq_msg_close(to);
            break;
        }
        if (n < ZAP_FRAMES)
            n++;
        else
            zmq_msg_close(to);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return n;
}

static void
send_text(void *socket, const char *text, int flags)
{
    zmq_send(socket, text, strlen(text), flags);
}

static bool
may_enter(const struct curve *c, int n, zmq_msg_t frame[ZAP_FRAMES])
{
    uint8_t want[32];
    if (n != ZAP_FRAMES || zmq_msg_size(&frame[6]) != 32 || !zmq_z85_decode(want, c->key->public[KEY_WORKER]))
        return false;
    return !memcmp(zmq_msg_data(&frame[6]), want, 32);
}

static void *
zap_thread(void *arg)
{
    struct curve *c = arg;
    zmq_msg_t frame[ZAP_FRAMES];
    for (;;) {
        int n = receive_frames(c->socket, frame);
        if (n == 0 && errno == ETERM) break;
        if (n >= 2) {
            bool yes = may_enter(c, n, frame);
            send_text(c->socket, "1.0", ZMQ_SNDMORE);
            zmq_send(c->socket, zmq_msg_data(&frame[1]), zmq_msg_size(&frame[1]), ZMQ_SNDMORE);
            send_text(c->socket, yes ? "200" : "400", ZMQ_SNDMORE);
            send_text(c->socket, "", ZMQ_SNDMORE);
            send_text(c->socket, yes ? let_in : "", ZMQ_SNDMORE);
            send_text(c->socket, "", 0);
        }
        for (int i = 0; i < n; i++) zmq_msg_close(&frame[i]);
    }
    zmq_close(c->socket);
    return NULL;
}

static int
start(void *context, struct curve *c)
{
    int linger = 0;
    c->socket = zmq_socket(context, ZMQ_REP);
    if (!c->socket) return broken("zap");
    zmq_setsockopt(c->socket, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_bind(c->socket, "inproc://zeromq.zap.01")) return broken("zap");
    if (pthread_create(&c->thread, NULL, zap_thread, c)) return fail(E_BUS, "zap: no thread");
    c->runs = true;
    return 0;
}

int
curve_new(void *context, const struct key *key, struct curve **out)
{
    struct curve *c = must_alloc(sizeof *c);
    c->key = key;
    *out = c;
    return start(context, c);
}

void
curve_free(struct curve **cp)
{
    struct curve *c = *cp;
    *cp = NULL;
    if (!c) return;
    if (c->runs)
        pthread_join(c->thread, NULL);
    else if (c->socket)
        zmq_close(c->socket);
    free(c);
}

/* ---- sockets ---- */

int
curve_secure(void *socket, const struct key *k, bool serves)
{
    int one = 1, failed = 0;
    if (serves) {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &one, sizeof one);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, k->secret[KEY_COORDINATOR], KEY_TEXT);
        failed |= zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, let_in, sizeof let_in - 1);
    } else {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, k->public[KEY_COORDINATOR], KEY_TEXT);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, k->public[KEY_WORKER], KEY_TEXT);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, k->secret[KEY_WORKER], KEY_TEXT);
    }
    return failed ? broken("CURVE") : 0;
}

bool
curve_let_in(void *msg)
{
    const char *user = zmq_msg_gets(msg, "User-Id");
    return user && !strcmp(user, let_in);
}

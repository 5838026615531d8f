/* curve.c - sets CURVE keys on ZeroMQ sockets, and answers authentication requests (ZAP, RFC 27) on a separate
 * thread. */
#include "actors/cluster/wire/curve.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"

#include <zmq.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char domain[] = "rille",
                  /* User-Id of a client whose key is the workers' shared key. If the key belongs to a rank, the
                   * User-Id is the rank */
    any_worker[] = "worker";

struct curve {
    const struct key *key;
    void *socket;
    pthread_t thread;
    bool runs;
};

static int
curve_broken(const char *what)
{
    return fail(E_BUS, "%s: %s", what, zmq_strerror(errno));
}

/* ---- permitted clients ---- */

enum { ZAP_FRAMES = 7 }; /* frames of a request: version, request, domain, address, identity, mechanism, key */

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
is_key(const char *want, zmq_msg_t *frame)
{
    uint8_t bytes[32];
    return zmq_msg_size(frame) == 32 && zmq_z85_decode(bytes, want) && !memcmp(zmq_msg_data(frame), bytes, 32);
}

/* Sets the User-Id of the client whose key is in the request; "": the client is rejected. */
static void
who_is(const struct key *k, int n, zmq_msg_t frame[ZAP_FRAMES], char user[16])
{
    user[0] = '\0';
    if (n != ZAP_FRAMES) return;
    if (!k->nrank && is_key(k->public[KEY_WORKER], &frame[6])) snprintf(user, 16, "%s", any_worker);
    for (int r = 0; r < k->nrank; r++)
        if (is_key(k->of[r], &frame[6])) snprintf(user, 16, "%d", r);
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
            char user[16];
            who_is(c->key, n, frame, user);
            send_text(c->socket, "1.0", ZMQ_SNDMORE);
            zmq_send(c->socket, zmq_msg_data(&frame[1]), zmq_msg_size(&frame[1]), ZMQ_SNDMORE);
            send_text(c->socket, *user ? "200" : "400", ZMQ_SNDMORE);
            send_text(c->socket, "", ZMQ_SNDMORE);
            send_text(c->socket, user, ZMQ_SNDMORE);
            send_text(c->socket, "", 0);
        }
        for (int i = 0; i < n; i++) zmq_msg_close(&frame[i]);
    }
    zmq_close(c->socket);
    return NULL;
}

static int
start_authenticator(void *context, struct curve *c)
{
    int linger = 0;
    c->socket = zmq_socket(context, ZMQ_REP);
    if (!c->socket) return curve_broken("zap");
    zmq_setsockopt(c->socket, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_bind(c->socket, "inproc://zeromq.zap.01")) return curve_broken("zap");
    TRY(thread_start(&c->thread, zap_thread, c));
    c->runs = true;
    return 0;
}

int
curve_new(void *context, const struct key *key, struct curve **out)
{
    struct curve *c = must_alloc(sizeof *c);
    c->key = key;
    *out = c;
    return start_authenticator(context, c);
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

/* Makes a socket a CURVE server. The socket of a worker that has the key of a rank uses that key; every other socket
 * uses the coordinator's key. */
int
curve_serve(void *socket, const struct key *k)
{
    enum key_side side = k->nrank && k->rank >= 0 ? KEY_WORKER : KEY_COORDINATOR;
    int one = 1, failed = 0;
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &one, sizeof one);
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, k->secret[side], KEY_TEXT);
    failed |= zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, sizeof domain - 1);
    return failed ? curve_broken("CURVE") : 0;
}

int
curve_join(void *socket, const struct key *k, int whose)
{
    bool ranked = whose >= 0 && k->nrank;
    if (ranked && whose >= k->nrank) return fail(E_BUS, "the key file has no key of rank %d", whose);
    const char *server = ranked ? k->of[whose] : k->public[KEY_COORDINATOR];
    int failed = 0;
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, KEY_TEXT);
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, k->public[KEY_WORKER], KEY_TEXT);
    failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, k->secret[KEY_WORKER], KEY_TEXT);
    return failed ? curve_broken("CURVE") : 0;
}

bool
curve_sender(void *msg, int *rank)
{
    const char *user = zmq_msg_gets(msg, "User-Id");
    *rank = KEY_ANY;
    if (!user || !*user) return false;
    if (strcmp(user, any_worker)) *rank = atoi(user);
    return true;
}

/* net_zmq.c - links over tcp by ZeroMQ. For each road (messages, bytes), a worker has a PULL socket, to which the
 * other workers send, and a PUSH socket to every other worker.
 *
 * A monitor socket reports the end of a connection, and the next connection: then the messages that were not
 * acknowledged are sent again (traffic.c). A connection on which nothing is acknowledged for half of link_ms is
 * replaced, even if TCP believes that it is up, so that a new one can be made before the worker counts as lost. */
#include "actors/cluster/transport/net_zmq.h"
#include "actors/cluster/transport/traffic.h"

#include "actors/cluster/wire/curve.h"
#include "actors/cluster/wire/link.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int
net_broken(const char *what)
{
    return fail(E_BUS, "%s: %s", what, zmq_strerror(errno));
}

/* Opens a socket with options and keys. rank: the worker to which a PUSH socket connects; not used for PULL sockets. */
static int
new_socket(struct carrier *c, int type, const char *address, int rank, void **out)
{
    const struct {
        int option, value;
    } set[] = {{ZMQ_LINGER, 0},
               {ZMQ_SNDHWM, 0},
               {ZMQ_RCVHWM, CREDITS * 4},
               {ZMQ_TCP_KEEPALIVE, 1},
               {ZMQ_HANDSHAKE_IVL, 2000},
               {ZMQ_TCP_MAXRT, c->link_ms / 2},
               {ZMQ_RECONNECT_IVL, 20},
               {ZMQ_RECONNECT_IVL_MAX, 200},
               {ZMQ_CONNECT_TIMEOUT, MAX(100, c->link_ms / 4)}};
    static const int64_t most = LIST_MOST;
    const int six = strchr(address, '[') != NULL;
    *out = zmq_socket(c->context, type);
    if (!*out) return net_broken("socket");
    for (size_t i = 0; i < countof(set); i++)
        if (zmq_setsockopt(*out, set[i].option, &set[i].value, sizeof set[i].value)) return net_broken("option");
    if (zmq_setsockopt(*out, ZMQ_MAXMSGSIZE, &most, sizeof most) || zmq_setsockopt(*out, ZMQ_IPV6, &six, sizeof six))
        return net_broken("option");
    if (!c->has_key) return 0;
    return type == ZMQ_PULL ? curve_serve(*out, &c->key) : curve_join(*out, &c->key, rank);
}

int
net_zmq_bind(struct carrier *c, enum road road, const char *host)
{
    char any[CARRIER_PORT];
    size_t n = sizeof c->port[road];
    snprintf(any, sizeof any, "tcp://%s:*", host);
    TRY(new_socket(c, ZMQ_PULL, any, -1, &c->in[road]));
    if (zmq_bind(c->in[road], any)) return net_broken(any);
    return zmq_getsockopt(c->in[road], ZMQ_LAST_ENDPOINT, c->port[road], &n) ? net_broken(any) : 0;
}

/* Opens a socket on which ZeroMQ reports the end of a link. */
static int
net_monitor(struct carrier *c, void *socket, void **out)
{
    static const int linger = 0;
    char name[64];
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    snprintf(name, sizeof name, "inproc://watch%d", c->serial++);
    if (zmq_socket_monitor(socket, name, events)) return net_broken("monitor");
    *out = zmq_socket(c->context, ZMQ_PAIR);
    if (!*out) return net_broken("monitor");
    zmq_setsockopt(*out, ZMQ_LINGER, &linger, sizeof linger);
    return zmq_connect(*out, name) ? net_broken("monitor") : 0;
}

static int
open_road(struct carrier *c, int rank, enum road road)
{
    struct peer *p = &c->peer[rank];
    if (!p->port[road][0]) return fail(E_BUS, "worker %d reported no port for other workers", rank);
    TRY(new_socket(c, ZMQ_PUSH, p->port[road], rank, &p->socket[road]));
    TRY(net_monitor(c, p->socket[road], &p->monitor[road]));
    return zmq_connect(p->socket[road], p->port[road]) ? net_broken(p->port[road]) : 0;
}

static int
connect_zmq(struct carrier *c, int rank)
{
    for (int road = 0; road < NROAD; road++)
        if (!c->peer[rank].socket[road]) TRY(open_road(c, rank, road));
    return 0;
}

/* Closes the connection of a road (one of the two streams to a worker); ZeroMQ drops messages that were not sent.
 * Stops the monitor first, because otherwise ZeroMQ's thread waits forever for its reports to be read. */
static void
close_road(struct peer *p, enum road road)
{
    if (p->monitor[road]) zmq_socket_monitor(p->socket[road], NULL, 0);
    if (p->socket[road]) zmq_close(p->socket[road]);
    if (p->monitor[road]) zmq_close(p->monitor[road]);
    p->socket[road] = p->monitor[road] = NULL;
}

static void
carrier_close_zmq(struct carrier *c, int rank)
{
    struct peer *p = &c->peer[rank];
    for (int road = 0; road < NROAD; road++) {
        close_road(p, road);
        p->was_up[road] = p->down[road] = false;
        traffic_clear(&p->traffic[road]);
    }
}

static void
send_parts(struct peer *p, enum road road, struct head *h, zmq_msg_t *body)
{
    traffic_stamp(p->traffic, h);
    int sent = zmq_send(p->socket[road], h, sizeof *h, ZMQ_DONTWAIT | (body ? ZMQ_SNDMORE : 0));
    if (body && (sent < 0 || zmq_msg_send(body, p->socket[road], ZMQ_DONTWAIT) < 0)) zmq_msg_close(body);
}

static void
carrier_send_zmq(struct carrier *c, int rank, enum road road, const struct head *h, zmq_msg_t *body)
{
    struct peer *p = &c->peer[rank];
    struct head numbered = *h;
    if (h->m.kind != CARRIER_ACK) traffic_keep(&p->traffic[road], &numbered, body);
    send_parts(p, road, &numbered, body);
}

/* Sends again those messages of a road that the other worker has not acknowledged. */
static void
send_again(struct peer *p, enum road road)
{
    for (int32_t i = 0; i < p->traffic[road].n; i++) {
        struct kept *k = traffic_kept(&p->traffic[road], i);
        zmq_msg_t body;
        if (k->has_body) zmq_msg_init(&body);
        if (k->has_body) zmq_msg_copy(&body, &k->body);
        send_parts(p, road, &k->head, k->has_body ? &body : NULL);
    }
}

/* Receives the next part of a message; false: none has arrived. Sets *good to false if the sender is not permitted,
 * and *key to the rank of the sender's key. */
static bool
receive_part(struct carrier *c, enum road road, zmq_msg_t *part, bool *good, int *key)
{
    if (zmq_msg_recv(part, c->in[road], ZMQ_DONTWAIT) < 0) return false;
    *good = *good && (!c->curve || curve_sender(part, key));
    return true;
}

/* Receives the next valid message: a header and at most one body. If the sender's key belongs to a rank, the header
 * must name this rank as sender. Drops invalid messages. */
static bool
receive_zmq(struct carrier *c, enum road road, struct head *h, zmq_msg_t *body)
{
    bool good = false;
    while (!good) {
        zmq_msg_t head;
        int key = KEY_ANY;
        zmq_msg_init(&head);
        good = true;
        if (!receive_part(c, road, &head, &good, &key)) return false;
        bool more = zmq_msg_more(&head);
        good = good && zmq_msg_size(&head) == sizeof *h;
        if (good) memcpy(h, zmq_msg_data(&head), sizeof *h);
        zmq_msg_close(&head);
        good = good && (key == KEY_ANY || key == addr_process(h->m.from));
        for (int parts = 0; more && receive_part(c, road, body, &good, &key); parts++) {
            more = zmq_msg_more(body);
            good = good && parts == 0;
        }
    }
    return true;
}

static bool
ready_zmq(struct carrier *c, int rank)
{
    return c->peer[rank].socket[MESSAGES] && c->peer[rank].socket[BYTES];
}

/* Replaces a connection that is up but carries nothing. The messages that were not acknowledged are sent again when
 * the new connection is made. */
static void
replace_road(struct carrier *c, int rank, enum road road)
{
    struct peer *p = &c->peer[rank];
    close_road(p, road);
    p->was_up[road] = p->down[road] = true;
    p->traffic[road].moved_ns = now_ns();
    if (!open_road(c, rank, road)) return;
    err_clear();
    close_road(p, road);
}

static bool
is_down_zmq(struct carrier *c, int rank)
{
    struct peer *p = &c->peer[rank];
    uint16_t what;
    for (int road = 0; road < NROAD; road++) {
        while (link_event(p->monitor[road], &what)) {
            p->down[road] = what != ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
            if (p->down[road]) continue;
            if (p->was_up[road]) send_again(p, road);
            p->was_up[road] = true;
        }
        if (traffic_is_stuck(c, rank, road)) replace_road(c, rank, road);
    }
    return p->down[MESSAGES] || p->down[BYTES];
}

const struct net net_zmq = {"tcp",       connect_zmq, carrier_close_zmq, carrier_send_zmq,
                            receive_zmq, ready_zmq,   is_down_zmq};
